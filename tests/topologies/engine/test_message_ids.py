"""Messages that come again: the first of them that is live is kept, the others are counted as duplicates (ST-27)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.helpers.recut import run_cut
from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_answer import ReplayResult
from topologies.scenarios.scenario_model import read_scenario
from windbolt import TopologyBuilder, sinks, spouts
from windowing import AggregateBolt, Count, Session, Silence, Snapshot, TemporalJoin, TupleWindow, WindowedBolt, seconds
from windowing.aggregates import count
from windowing.errors import ConfigError, TopologyError
from windowing.settings.rules import How
from windowing.settings.triggers import CountTrigger

Json = dict[str, Any]
EXAMPLES = examples(40, by_default=60, suppress_health_check=[HealthCheck.too_slow])

TIMED: list[Json] = [
    {"length": "10ms", "tumbling": True},
    {"length": "10ms", "sliding": "4ms"},
    {"length": "4ms", "sliding": "10ms"},
    {"length": "10ms", "sliding": "4ms", "bounds": "[start, end)"},
    {"sliding_log": "6ms"},
    {"session": {"gap": "4ms"}},
    {"session": {"gap": "3ms"}, "key": ["k"]},
    {"length": "10ms", "sliding": "5ms", "key": ["k"]},
    {"snapshot": True, "end_field": "until", "bounds": "[start, end)"},
]
COUNTED: list[Json] = [
    {"length": 3, "tumbling": True},
    {"length": 4, "sliding": 2},
    {"length": 2, "sliding": 3},
    {"length": 3, "sliding": "5ms"},
    {"length": "7ms", "sliding": 2},
    {"length": "7ms"},
]
CLOCKS: list[Json] = [
    {"timestamp_field": "ts"},
    {"timestamp_field": "ts", "lag": "3ms"},
    {"timestamp_field": "ts", "watermark_every": 1},
    {"timestamp_field": "ts", "watermark_every": 1, "lag": "4ms"},
    {"timestamp_field": "ts", "watermark_every": 1, "late_by": "window", "allowed_lateness": "3ms"},
    {},
]


@st.composite
def stories(draw: st.DrawFn, kinds: list[Json]) -> Json:
    """Some messages, many of which come again, later or at once, with the time that they had."""
    bolt = {**draw(st.sampled_from(kinds)), **draw(st.sampled_from(CLOCKS)), "message_id_field": "m"}
    if "timestamp_field" not in bolt:
        assume("end_field" not in bolt)
    steps: list[Json] = []
    sent: list[Json] = []
    now = 0
    for number in range(draw(st.integers(2, 25))):
        now += draw(st.integers(0, 5))
        if sent and draw(st.integers(0, 2)) == 0:
            event = dict(draw(st.sampled_from(sent)))
        else:
            at = max(now - draw(st.integers(0, 4)), 0)
            event = {"ts": at, "k": draw(st.sampled_from("ab")), "until": at + draw(st.integers(1, 8))}
            event["m"] = f"m{number}" if draw(st.integers(0, 9)) else None
            sent.append(event)
        if "end_field" not in bolt:
            event = {name: value for name, value in event.items() if name != "until"}
        steps.append({"event": {"id": f"e{number}", **event}, "clock": now})
        if draw(st.integers(0, 4)) == 0:
            steps.append(draw(st.sampled_from([{"tick": "watermark"}, {"crash": True}])))
    return {"name": "again", "bolt": bolt, "steps": steps}


def events_of(story: Json) -> list[Json]:
    return [step["event"] for step in story["steps"] if "event" in step]


def answered(story: Json, *, close: bool = True, upto: int | None = None) -> ReplayResult:
    steps = story["steps"][:upto]
    try:
        return replay_locally(read_scenario({**story, "steps": [*steps, {"close": True}] if close else steps}))
    except (ConfigError, TopologyError):
        assume(False)
        raise


def duplicates_of(answer: ReplayResult) -> list[str | None]:
    return [event["id"] for event in answer.events if event["action"] == "duplicate"]


def shown(answer: ReplayResult) -> list[Any]:
    return sorted((str(w["start"]), str(w["end"]), str(w.get("key")), w["events"]) for w in answer.windows)


@EXAMPLES
@given(stories(TIMED + COUNTED))
def test_duplicates_are_in_no_window_and_change_nothing(story: Json) -> None:
    whole = answered(story)
    again = duplicates_of(whole)
    assert whole.counts["duplicate"] == len(again)
    assert not {name for window in whole.windows for name in window["events"] or ()} & set(again)
    assert not set(whole.late) & set(again)
    steps = [step for step in story["steps"] if step.get("event", {}).get("id") not in again]
    without = answered({**story, "steps": steps})
    if "timestamp_field" in story["bolt"]:  # an event moves the clock, whatever happens to it
        assert shown(without) == shown(whole)
        assert {**without.counts, "received": len(events_of(story)), "duplicate": len(again)} == whole.counts
    ids = {event["id"]: event["m"] or event["id"] for event in events_of(story)}
    for window in whole.windows:
        mine = [ids[name] for name in window["events"] or ()]
        assert len(mine) == len(set(mine)), window


@EXAMPLES
@given(stories(TIMED))
def test_an_event_is_a_duplicate_just_when_a_window_may_still_need_the_first(story: Json) -> None:
    whole, first = answered(story), dict[str, str]()
    again, late = set(duplicates_of(whole)), set(whole.late)
    for at, step in enumerate(story["steps"]):
        event = step.get("event")
        if event is None or event["m"] is None:
            continue
        original = first.get(event["m"])
        if original is not None:
            so_far = len(moved_to(story, at).windows)
            later = answered(moved(story, at)).windows[so_far:]
            needed = any(original in (window["events"] or ()) for window in later)
            if "sliding_log" in story["bolt"] and not needed:
                continue  # the event itself would make a window, which the first may be in
            assert needed == (event["id"] in again), (event, original)
        if event["id"] not in again and event["id"] not in late:
            first[event["m"]] = event["id"]


def moved(story: Json, at: int) -> Json:
    """The story up to a step, with the clock where that step finds it."""
    clock = [{"clock": story["steps"][at]["clock"]}] if "timestamp_field" not in story["bolt"] else []
    return {**story, "steps": [*story["steps"][:at], *clock]}


def moved_to(story: Json, at: int) -> ReplayResult:
    return answered(moved(story, at), close=False)


@EXAMPLES
@given(stories(TIMED + COUNTED), st.integers(0, 1 << 30))
def test_it_does_not_matter_where_batches_end_and_processes_are_restarted(story: Json, seed: int) -> None:
    whole = answered(story)
    calm = [step for step in story["steps"] if "crash" not in step]
    cut = run_cut(read_scenario({**story, "steps": [*calm, {"close": True}]}), random.Random(seed))
    assert shown(cut) == shown(whole)
    assert cut.counts == whole.counts


def in_order(rows: list[Json]) -> list[str]:
    return sorted(map(str, rows))


READY: dict[str, Callable[[], WindowedBolt]] = {
    "counts of keys": lambda: Sees().with_key("k").with_window(3, 2),
    "sessions by their ends": lambda: (
        Sees().with_key("k").with_window(Session("4ms")).with_lateness(by="window", by_session=True)
    ),
    "sessions that touch": lambda: (
        Sees().with_key("k").with_window(Session("4ms", touching=True)).with_lateness(by="window", allowed="5ms")
    ),
    "silence": lambda: Silence("3ms", by="k"),
    "silence of all": lambda: Silence("5ms").with_lag("2ms"),
    **{
        how: lambda how=how: (  # type: ignore[misc]
            TemporalJoin("left", "right", on="k", how=how).with_lifetime("until")
        )
        for how in get_args(How)
    },
}


@st.composite
def arrivals(draw: st.DrawFn) -> list[Json]:
    """Messages on two inputs, some of which come again with the time that they had, or another one."""
    sent: list[Json] = []
    now = 0
    for number in range(draw(st.integers(2, 16))):
        now += draw(st.integers(0, 3))
        comes_again = bool(sent) and draw(st.booleans())
        again = dict(draw(st.sampled_from(sent))["event"]) if comes_again else None
        at = now if again is None or draw(st.booleans()) else again["ts"]
        fields = {"m": f"m{number}", "k": draw(st.sampled_from(["a", "a", "b", None]))} if again is None else again
        lasting: int = draw(st.integers(1, 12))
        event = {**fields, "id": f"e{number}", "ts": at, "until": at + lasting}
        sent.append({"event": event, "stream": draw(st.sampled_from(["left", "right"]))})
    return sent


@pytest.mark.parametrize("kind", READY)
@examples(15, suppress_health_check=[HealthCheck.too_slow])
@given(events=arrivals(), ends=st.integers(0, 1 << 30))
def test_it_does_not_matter_to_ready_bolts_where_batches_end(kind: str, events: list[Json], ends: int) -> None:
    answers = []
    for cut_after in (0, ends, -1):
        steps: list[Json] = []
        for number, step in enumerate(events):
            steps += [step, {"tick": "watermark"}] if cut_after >> number & 1 else [step]
        answers.append(replay_locally(read_scenario(of_two(steps)), two_inputs(READY[kind]())))
    for answer in answers[1:]:
        assert answer.counts == answers[0].counts
        assert in_order(answer.outputs["out"]) == in_order(answers[0].outputs["out"])


def of_two(steps: list[Json]) -> Json:
    return {"name": "again", "topology": "x.py:y", "steps": [*steps, {"close": True}]}


def two_inputs(bolt: WindowedBolt) -> Any:
    """A bolt that has a watermark at every event, and is told of repeated messages."""
    builder = TopologyBuilder("again")
    for name in ("left", "right"):
        builder.set_spout(name, spouts.memory("id string, m string, k string, ts long, until long"))
    bolt = bolt.with_timestamp_field("ts").with_watermark(every=1).with_message_id_field("m")
    builder.set_bolt("bolt", bolt).global_grouping("left").global_grouping("right")
    builder.set_sink("out", sinks.memory()).from_("bolt")
    return builder.build()


def rows_of(bolt: WindowedBolt, events: list[tuple[str, str, int, int, str]], *, ticks: bool) -> ReplayResult:
    """The answer of a bolt to messages (stream, id, time, end and key), in one batch or in one for each."""
    steps: list[Json] = []
    for number, (stream, message, at, until, key) in enumerate(events):
        fields = {"id": f"e{number}", "m": message, "ts": at, "until": until, "k": key}
        steps += [{"event": fields, "stream": stream}, *([{"tick": "watermark"}] if ticks else [])]
    return replay_locally(read_scenario(of_two(steps)), two_inputs(bolt))


@pytest.mark.parametrize("ticks", [False, True])
def test_an_id_of_an_event_that_the_next_window_of_a_count_holds_is_not_free(ticks: bool) -> None:
    messages = ["m1", "m2", "m1", "m2", "m5", "m6"]
    events = [("left", message, at, 0, "a") for at, message in enumerate(messages)]
    both = [("right", "r", -1, 0, "z"), *events, ("right", "s", 9, 0, "z")]
    answer = rows_of(READY["counts of keys"]().with_watermark(combine="max"), both, ticks=ticks)
    assert answer.counts["duplicate"] == 1


@pytest.mark.parametrize("ticks", [False, True])
def test_an_id_of_an_event_that_later_ones_may_join_is_not_free(ticks: bool) -> None:
    events = [("left", "order", 0, 30, "a"), ("right", "other", 10, 11, "b"), ("left", "order", 10, 30, "a")]
    answer = rows_of(READY["inner"](), [*events, ("right", "payment", 15, 16, "a")], ticks=ticks)
    assert (answer.counts["duplicate"], len(answer.outputs["out"])) == (1, 1)


def test_an_id_is_free_once_all_partners_of_its_event_have_met_one() -> None:
    """The payment showed that the order had met a partner, as long as the order was not in the result."""
    events = [
        ("left", "order", 4, 13, "a"), ("right", "payment", 4, 6, "a"), ("right", "x", 10, 16, "b"),
        ("left", "y", 19, 22, "a"), ("right", "payment", 21, 22, "a"),
    ]  # fmt: skip
    for ticks in (False, True):
        assert rows_of(READY["semi"](), events, ticks=ticks).counts["duplicate"] == 0


@pytest.mark.parametrize("ticks", [False, True])
def test_an_id_of_an_event_that_another_has_followed_is_free(ticks: bool) -> None:
    events = [("left", "x", 0, 0, "a"), ("left", "y", 2, 0, "a"), ("right", "z", 2, 0, "b"), ("left", "x", 2, 0, "a")]
    answer = rows_of(Silence("10ms", by="k"), events, ticks=ticks)
    assert answer.counts["duplicate"] == 0


class Sees(WindowedBolt):
    outputs = "n long"

    def execute(self, window: TupleWindow) -> Any:
        return (len(window),)


def built(bolt: WindowedBolt, tasks: int = 1, grouping: str = "fields") -> Any:
    builder = TopologyBuilder("again")
    builder.set_spout("events", spouts.files("nowhere/*.csv", schema="m string, x double, k string, ts long"))
    declarer = builder.set_bolt("again", bolt.with_timestamp_field("ts"), parallelism=tasks)
    declarer.fields_grouping("events", "k") if grouping == "fields" else declarer.shuffle_grouping("events")
    builder.set_sink("out", sinks.memory()).from_("again")
    return builder.build()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: built(Sees().with_tumbling_window(3).with_message_id_field("y")), "names 'y'"),
        (lambda: built(Sees().with_tumbling_window(3).with_message_id_field("x")), "which is double"),
        (lambda: built(Sees().with_tumbling_window(3).with_message_id_field("m"), 2, "shuffle"), "another task"),
        (
            lambda: built(
                Sees().with_key("k").with_trigger(CountTrigger(Count(2), seconds(1))).with_message_id_field("m"),
            ),
            "a trigger of keys",
        ),
        (
            lambda: built(
                Sees()
                .with_window(Snapshot())
                .with_lifetime("ts", shape_field="m", edge_key=["k"])
                .with_message_id_field("k"),
            ),
            "messages of their own",
        ),
        (lambda: Sees().with_message_id_field(""), "columns and streams are given by name"),
    ],
)
def test_where_it_cannot_be_known_the_build_says_so(make: Any, words: str) -> None:
    with pytest.raises((TopologyError, ConfigError), match=words):
        make()


@pytest.mark.feature("ST-27")
@pytest.mark.parametrize("tasks", [1, 3])
def test_sums_are_exact_too(tasks: int) -> None:
    bolt = AggregateBolt(by="k", n=count()).with_tumbling_window("10ms").with_message_id_field("m")
    rows = [("a", "x", 1), ("a", "x", 2), ("b", "y", 2), ("a", "z", 3), ("b", "y", 11), ("b", "y", 12), ("a", "x", 25)]
    steps: list[Json] = []
    for key, message, time in rows:
        steps += [{"event": {"k": key, "m": message, "ts": time}, "stream": "events"}, {"crash": True}]
        steps.append({"tick": "watermark"})
    story = {"name": "sums", "topology": "x.py:y", "steps": [*steps, {"close": True}]}
    found = replay_locally(read_scenario(story), built(bolt, tasks))
    assert sorted((row["k"], row["n"]) for row in found.outputs["out"]) == [("a", 1), ("a", 2), ("b", 1), ("b", 1)]
    assert found.counts["duplicate"] == 2
    assert found.counts["received"] == len(rows)
