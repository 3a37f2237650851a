"""What has expired is what was in the window before, of the same key or task, wherever windows follow each other."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import sampled
from tests.helpers.recut import run_cut
from tests.topologies.engine.test_time_properties import EXAMPLES, Json, built, scenarios
from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_answer import ReplayResult
from topologies.scenarios.scenario_model import read_scenario
from topologies.testing.replaying import replay
from windbolt import TopologyBuilder, sinks, spouts
from windowing import AggregateBolt, TupleWindow, WindowedBolt, seconds
from windowing.aggregates import count
from windowing.bolts.read_code import asks_for_expired, names_in_code
from windowing.errors import BoltError, TopologyError
from windowing.settings.kinds import Session
from windowing.settings.panes import Panes


def assert_they_follow(answer: ReplayResult) -> int:
    """Each window of a key says what the one before it has lost; how many have lost something."""
    before: dict[str, list[str | None]] = {}
    lost = 0
    for window in answer.windows:
        key = f"{window.get('task')} {window.get('key')}"
        last, events = before.get(key, []), list(window["events"] or ())
        assert window["expired"] == [event for event in last if event not in events], window
        assert window["new"] == [event for event in events if event not in last], window
        before[key] = events
        lost += bool(window["expired"])
    return lost


@EXAMPLES
@given(scenarios())
def test_a_window_tells_what_the_one_before_it_has_lost(scenario: Json) -> None:
    answer = built(scenario)
    if len(scenario["bolt"].get("windows", "1")) > 1:
        assert {window["expired"] is None for window in answer.windows} <= {True}
    else:
        assert_they_follow(answer)


@EXAMPLES
@given(scenarios(), st.integers(0, 1 << 30))
def test_it_is_the_same_however_batches_are_cut_and_processes_restarted(scenario: Json, seed: int) -> None:
    whole = built(scenario)
    calm = {**scenario, "steps": [step for step in scenario["steps"] if "crash" not in step]}
    cut = run_cut(read_scenario(calm), random.Random(seed))
    by_key = [
        sorted((str(window.get("key")), window["end"] or 0, *(window["expired"] or ())) for window in answer.windows)
        for answer in (whole, cut)
    ]
    assert by_key[0] == by_key[1]


def hopping(**settings: Any) -> Json:
    """Three keys, 60 events, windows of 10 ms every 5 ms."""
    steps: list[Json] = []
    for at in range(60):
        steps.append({"event": {"ts": at, "k": "abc"[at * at % 3]}, "clock": at})
        if at % 7 == 0:
            steps += [{"tick": "watermark"}, {"crash": True}]
    bolt = {"length": "10ms", "sliding": "5ms", "timestamp_field": "ts", **settings}
    return {"name": "hopping", "bolt": bolt, "steps": [*steps, {"close": True}]}


@pytest.mark.feature("ST-21")
@pytest.mark.parametrize(
    "settings",
    sampled(
        [
            {},
            {"key": ["k"]},
            {"watermark_every": 1},
            {"late_by": "window", "allowed_lateness": "3ms"},
            {"idle_timeout": "1s"},
            {"key": ["k"], "watermark_every": 3, "late_by": "window"},
            {"substreams": ["k"]},
            {"anchor": "start"},
            {"preset": "atlas"},
            {"preset": {"azure": {"late": "5ms"}}},
        ],
        3,
    ),
)
def test_rules_of_time_do_not_take_it_away(settings: Json) -> None:
    answer = replay_locally(read_scenario(hopping(**settings)))
    assert assert_they_follow(answer) > 5
    assert answer.counts["received"] == 60


class Gone(WindowedBolt):
    outputs = "key string, gone long"

    def execute(self, window: TupleWindow) -> Any:
        return window.key, window.expired.num_rows


class GoneTuples(Gone):
    def execute(self, window: TupleWindow) -> Any:
        return window.key, len(window.get_expired())


def how_many_are_gone(window: TupleWindow) -> int:
    return len(window.expired)


class GoneByAFunction(Gone):
    def execute(self, window: TupleWindow) -> Any:
        return window.key, max(how_many_are_gone(each) for each in [window])


class GoneBySuper(Gone):
    def execute(self, window: TupleWindow) -> Any:
        return super().execute(window)


class Hidden(Gone):
    """Nothing of its code names it."""

    def execute(self, window: TupleWindow) -> Any:
        return window.key, getattr(window, "exp" + "ired").num_rows


class OfItsOwn(Gone):
    """Another one."""

    def execute(self, window: TupleWindow) -> Any:
        self.expired = 0
        return window.key, self.expired


def topology(bolt: WindowedBolt, **outputs: Any) -> Any:
    builder = TopologyBuilder("gone")
    builder.set_spout("events", spouts.files("nowhere/*.csv", schema="k string, ts long"))
    builder.set_bolt("gone", bolt.with_timestamp_field("ts")).global_grouping("events")
    builder.set_sink("out", sinks.memory()).from_("gone")
    return builder.build()


STEPS = [
    {"event": {"k": "a", "ts": 1}, "stream": "events"},
    {"event": {"k": "a", "ts": 2}, "stream": "events"},
    {"event": {"k": "b", "ts": 3}, "stream": "events"},
    {"tick": "watermark"},
    {"event": {"k": "a", "ts": 12}, "stream": "events"},
    {"tick": "watermark"},
    {"crash": True},
    {"event": {"k": "b", "ts": 31}, "stream": "events"},
    {"close": True},
]


def gone(bolt: WindowedBolt) -> list[tuple[str, int]]:
    found = replay({"name": "gone", "topology": "x.py:y", "steps": STEPS}, topology(bolt))
    return sorted((row["key"], row["gone"]) for row in found.outputs["out"])


@pytest.mark.parametrize(
    "bolt", [Gone(), GoneTuples(), GoneByAFunction(), GoneBySuper(), Hidden().with_policies(expired=True)]
)
def test_a_bolt_that_asks_is_told_though_batches_and_a_crash_lie_between(bolt: WindowedBolt) -> None:
    assert gone(bolt.with_key("k").with_tumbling_window("10ms")) == [("a", 0), ("a", 2), ("b", 0), ("b", 1)]


def test_whose_code_does_not_name_it_is_told_what_to_do() -> None:
    with pytest.raises(BoltError, match=r"has no window.expired(.|\n)*with_policies\(expired=True\)"):
        gone(Hidden().with_key("k").with_tumbling_window("10ms"))


def test_nothing_is_kept_for_those_who_never_ask() -> None:
    keyed = [bolt.with_key("k").with_tumbling_window("10ms") for bolt in (Gone(), OfItsOwn(), Hidden())]
    assert [topology(bolt).windowed["gone"].keeps_last_window for bolt in keyed] == [True, False, False]
    assert not topology(keyed[0].with_policies(expired=False)).windowed["gone"].keeps_last_window
    assert not topology(Gone().with_tumbling_window("10ms")).windowed["gone"].keeps_last_window  # a queue has it anyway
    assert asks_for_expired(GoneByAFunction())
    assert not asks_for_expired(AggregateBolt(n=count()))


class Request:
    """As Flask's ``request``: it may only be looked at while a request is served."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise RuntimeError("Working outside of request context.")


request = Request()


class BesideARequest(Gone):
    """It names the request, which it does not look at."""

    def told(self) -> object:
        return request


class Wrapped:
    """As wrappers of the package ``wrapt`` do, it says that it is the function that it wraps."""

    def __init__(self, function: Any) -> None:
        self.function = function

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.function)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["function"], name)

    def __get__(self, instance: Any, owner: type) -> Any:
        return self.function.__get__(instance, owner)


class GoneByAWrapper(WindowedBolt):
    outputs = "n long"
    execute = Wrapped(lambda self, window: (len(window.expired),))


def test_a_function_in_a_wrapper_is_read() -> None:
    assert asks_for_expired(GoneByAWrapper())


def test_values_that_cannot_be_looked_at_are_passed_over() -> None:
    bolt = BesideARequest()
    assert asks_for_expired(bolt)
    assert names_in_code(bolt) is not None
    assert gone(bolt.with_key("k").with_tumbling_window("10ms"))


@pytest.mark.parametrize(
    ("bolt", "words"),
    [
        (Gone().with_tumbling_window("1s").with_trigger(Panes(early=2)), "Panes, whose windows fire more than once"),
        (Gone().with_window(Session(seconds(1)), Session(seconds(2))), "several kinds"),
        (Hidden().with_policies(expired=True).with_window(Session(seconds(1)), Session(seconds(2))), "several kinds"),
    ],
)
def test_where_windows_do_not_follow_each_other_the_build_says_so(bolt: WindowedBolt, words: str) -> None:
    with pytest.raises(TopologyError, match=rf"uses window.expired, and has .*{words}"):
        topology(bolt)
    topology(OfItsOwn().with_policies(expired=False).with_window(Session(seconds(1)), Session(seconds(2))))


def test_only_the_last_window_of_each_key_is_kept() -> None:
    from manager.storage.checkpoint import MemoryCheckpoint
    from topologies.engine.batch import BatchPlan, InProcessExecutor
    from topologies.engine.micro_batch import MicroBatch
    from topologies.scenarios.script import ScriptSplit, scenario_topology, script

    steps: list[Json] = []
    for at in range(200):
        steps += [{"event": {"ts": 10 * at + part, "k": "ab"[at > 3 and part]}} for part in (0, 1)]
        steps.append({"tick": "watermark"})
    story = read_scenario({
        "name": "long", "bolt": {"length": "10ms", "tumbling": True, "timestamp_field": "ts", "key": ["k"]},
        "steps": steps,
    })  # fmt: skip
    step = MicroBatch(scenario_topology(story), MemoryCheckpoint(), InProcessExecutor())
    most = 0
    for number, batch in enumerate(script(story)):
        split = ScriptSplit(tuple(arrival.to_json() for arrival in batch.arrivals))
        step.run(BatchPlan(number, batch.advance, [split], run="x"))
        state = step.manifest.bolts["bolt"].tasks[0]
        most = max(most, sum(ref.needed for ref in state.refs))
        assert sum(state.pending(1)) <= 4
    assert most <= 8


def test_what_has_expired_has_its_times_and_streams() -> None:
    found: list[Any] = []

    class Looks(WindowedBolt):
        outputs = "n long"

        def execute(self, window: TupleWindow) -> Any:
            found.extend((each.timestamp, each.stream, each["k"]) for each in window.get_expired())
            assert isinstance(window.expired, pa.Table)

    replay({"name": "x", "topology": "x.py:y", "steps": STEPS}, topology(Looks().with_window(Session("5ms"))))
    assert found == [(1000, "events", "a"), (2000, "events", "a"), (3000, "events", "b"), (12000, "events", "a")]
