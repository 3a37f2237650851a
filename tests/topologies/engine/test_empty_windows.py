"""Windows without events fire, of the keys that are known, and nothing else changes."""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from manager.storage.checkpoint import MemoryCheckpoint
from tests.helpers.examples import examples
from tests.helpers.recut import run_cut
from tests.helpers.strategies import Json, scenarios
from tests.oracles.empty_oracle import fired, of_answer
from tests.oracles.window_oracle import duration
from tests.topologies.engine import test_time_properties as systems
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.source_splits import TableSource
from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_model import Scenario, read_scenario
from topologies.testing.replaying import replay
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import AggregateBolt, TupleWindow, WindowedBolt
from windowing import aggregates as agg
from windowing.bolts.aggregate_bolt import Rank
from windowing.durations import Count
from windowing.errors import ConfigError, TopologyError
from windowing.schema import EmittedRows
from windowing.settings.kinds import Calendar, CountByStart, Hopping, Session, SlidingLog, Snapshot
from windowing.settings.panes import Panes
from windowing.settings.triggers import CountTrigger


@st.composite
def silent_scenarios(draw: st.DrawFn) -> Json:
    """Windows of time, of some keys or of none, that fire without events for some slides."""
    scenario = draw(scenarios(kinds=("time/time",)))
    bolt = scenario["bolt"]
    slide = bolt.get("sliding", bolt["length"])
    unit = slide.lstrip("0123456789")
    until = int(slide.removesuffix(unit)) * draw(st.integers(1, 6)) + draw(st.integers(0, 2))
    keys = draw(st.sampled_from([None, "ab", "abcd"]))
    if keys is not None:
        bolt = {**bolt, "key": "k"}
        for step in scenario["steps"]:
            if "event" in step:
                step["event"]["k"] = draw(st.sampled_from(keys))
        if draw(st.booleans()):
            times = [step["event"]["ts"] for step in scenario["steps"] if "ts" in step.get("event", {})]
            clocks = [step["clock"] for step in scenario["steps"] if "clock" in step]
            since = draw(st.sampled_from(sorted({0, *times, *clocks}))) + draw(st.integers(-3, 3))
            listed = draw(st.sampled_from([["a"], ["b", "z"], ["y", "z", "a"]]))
            bolt["listed_keys"] = {"keys": listed, "since": since}
    clocks = [step["clock"] for step in scenario["steps"] if "clock" in step] or [0] * ("listed_keys" in bolt)
    steps = [*({"clock": clock} for clock in clocks[:1]), *scenario["steps"]]
    return {**scenario, "bolt": {**bolt, "empty_windows_until": f"{until}{unit}"}, "steps": steps}


def found(scenario: Json) -> Json:
    return replay_locally(read_scenario(scenario)).to_json()


def expected(scenario: Json) -> Any:
    return fired(scenario, duration(scenario["bolt"]["empty_windows_until"]))


def without(scenario: Json) -> Json:
    empty = {"empty_windows_until", "listed_keys"}
    bolt = {name: value for name, value in scenario["bolt"].items() if name not in empty}
    return {**scenario, "bolt": bolt}


def accounts(scenario: Json, answer: Json) -> Any:
    """What happened to the events. Windows without a key are a queue, and know at once which events lie in gaps."""
    counts, pending = {**answer["counts"]}, sorted(answer["pending"])
    if scenario["meta"]["gapped"]:
        counts["unwindowed"], pending = counts["unwindowed"] + counts.pop("pending"), []
    return counts, pending, answer["late"], answer["watermarks"]


@examples(100, by_default=80)
@given(silent_scenarios(), st.sampled_from([1, 2, 7, 1 << 22]))
def test_the_engine_answers_as_the_oracle_and_its_accounts_are_those_without_empty_windows(
    scenario: Json, at_once: int
) -> None:
    with patch("manager.keyed.assigned_windows.MAX_MEMBERS_PER_PIECE", at_once):
        answer = found(scenario)
    windows, plain = of_answer(answer["windows"]), found(without(scenario))
    assert sorted(windows) == expected(scenario)
    assert [window[0] for window in windows] == sorted(window[0] for window in windows)
    assert [window for window in windows if window[3]] == of_answer(plain["windows"])
    assert accounts(scenario, answer) == accounts(scenario, plain)


@examples(60, by_default=20)
@given(silent_scenarios())
def test_a_crash_in_every_batch_changes_nothing(scenario: Json) -> None:
    steps = []
    for step in scenario["steps"]:
        steps += [step, {"crash": True}] if "close" not in step else [{"crash": True}, step]
    assert of_answer(found({**scenario, "steps": steps})["windows"]) == of_answer(found(scenario)["windows"])


@examples(60, by_default=40)
@given(silent_scenarios(), st.integers(0, 1 << 30))
def test_it_is_the_same_however_batches_are_cut_and_processes_restarted(scenario: Json, seed: int) -> None:
    calm = {**scenario, "steps": [step for step in scenario["steps"] if "crash" not in step]}
    cut = run_cut(read_scenario(calm), random.Random(seed)).to_json()
    assert of_answer(cut["windows"]) == of_answer(found(calm)["windows"])


@st.composite
def silent_systems(draw: st.DrawFn) -> Json:
    """Aligned windows by the rules of any system, with a watermark of the whole bolt."""
    scenario = draw(systems.scenarios())
    bolt = scenario["bolt"]
    assume("length" in bolt and "substreams" not in bolt)
    until = duration(bolt.get("sliding", bolt["length"])) * draw(st.integers(1, 5))
    return {**scenario, "bolt": {**bolt, "empty_windows_until": f"{until}us"}}


@systems.EXAMPLES
@given(silent_systems(), st.integers(0, 1 << 30))
def test_by_the_rules_of_any_system_windows_with_events_stay_as_they_are(scenario: Json, seed: int) -> None:
    calm = {**scenario, "steps": [step for step in scenario["steps"] if "crash" not in step]}
    answer, plain = systems.built(calm).to_json(), systems.built(without(calm)).to_json()
    windows = of_key_and_end(answer["windows"])
    assert len(set(windows)) == len(windows)  # none fires twice
    assert [each for each in windows if each[2]] == of_key_and_end(plain["windows"])
    until, last = duration(scenario["bolt"]["empty_windows_until"]) / 1000, dict[str, float]()
    for key, end, events in windows:
        assert events or 0 < end - last[key] <= until
        if events:
            last[key] = end
    gapped = {name: answer[name] for name in ("late", "counts")}
    if duration(scenario["bolt"].get("sliding", "0ms")) <= duration(scenario["bolt"]["length"]):
        assert gapped == {name: plain[name] for name in gapped}
    cut = run_cut(systems.read(calm), random.Random(seed)).to_json()
    assert of_key_and_end(cut["windows"]) == windows


def of_key_and_end(windows: list[Json]) -> list[tuple[str, float, tuple[str, ...]]]:
    """In order of the keys, for those of several watch their own order."""
    return sorted((str(each.get("key")), each["end"], tuple(each["events"])) for each in windows)


# ---- one by one

COLUMNS = "id string, k string, item string, v double, ts long"
DAY = 86_400_000


class Sizes(WindowedBolt):
    outputs = "k string, end long, n long, gone long"

    def execute(self, window: TupleWindow) -> EmittedRows:
        return window.key, window.end_timestamp // 1000, len(window), len(window.expired)


def topology(bolt: WindowedBolt, tasks: int = 1) -> Topology:
    builder = TopologyBuilder("silence")
    builder.set_spout("s", spouts.memory(COLUMNS))
    builder.set_bolt("bolt", bolt.with_timestamp_field("ts"), tasks).fields_grouping("s", "k")
    builder.set_sink("out", sinks.memory()).from_("bolt")
    return builder.build()


def rows(bolt: WindowedBolt, *steps: Any, tasks: int = 1) -> list[Json]:
    """What a bolt emits for events, given as (key, time in milliseconds, value), and other steps."""
    events = [
        {"event": {"id": f"e{number}", "k": step[0], "ts": step[1], "v": step[2]}, "stream": "s"}
        if isinstance(step, tuple) else {step: "watermark" if step == "tick" else True}
        for number, step in enumerate(steps)
    ]  # fmt: skip
    scenario = Scenario.model_validate({"name": "silence", "topology": "t", "steps": events})
    return replay(scenario, topology(bolt, tasks)).outputs["out"]


def test_what_has_expired_is_what_the_empty_window_has_lost() -> None:
    found = rows(
        Sizes().with_key("k").with_window("10ms", "5ms").with_empty_windows(until="15ms"),
        ("a", 2, 1.0), "tick", "crash", ("b", 24, 1.0), "tick", "crash", ("a", 31, 1.0), "tick", ("b", 49, 1.0), "tick",
    )  # fmt: skip
    assert [(row["end"], row["n"], row["gone"]) for row in found if row["k"] == "a"] == [
        (5, 1, 0), (10, 1, 0), (15, 0, 1), (20, 0, 0), (25, 0, 0), (35, 1, 0), (40, 1, 0), (45, 0, 1)
    ]  # fmt: skip


def test_a_leap_over_a_thousand_years_costs_no_more_than_the_silence_that_counts() -> None:
    bolt = Sizes().with_key("k").with_tumbling_window("1s").with_empty_windows(until="5s")
    years = 1000 * 365 * DAY
    found = rows(bolt, ("a", 500, 1.0), "tick", ("b", years, 1.0), "tick", ("a", 2 * years, 1.0), "tick")
    assert [(row["k"], row["end"] // 1000, row["n"]) for row in found[:6]] == [
        ("a", 1, 1), *(("a", second, 0) for second in range(2, 7))
    ]  # fmt: skip
    assert len(found) == 1 + 5 + 1 + 5 + 1


@pytest.mark.parametrize("tasks", [1, 3])
def test_at_the_end_of_the_streams_no_empty_window_begins_after_the_latest_event(tasks: int) -> None:
    """Of all tasks: the key that is silent may be on another one."""
    bolt = Sizes().with_key("k").with_tumbling_window("5ms").with_empty_windows(until="1h").with_lag("1h")
    found = rows(bolt, ("a", 2, 1.0), ("b", 3, 1.0), ("c", 4, 1.0), "tick", ("b", 17, 1.0), "close", tasks=tasks)
    for key in "abc":
        assert [row["end"] for row in found if row["k"] == key] == [5, 10, 15, 20]


def test_a_row_for_a_window_without_events_has_its_key_and_what_none_come_to() -> None:
    bolt = AggregateBolt(
        ["item", "k"], n=agg.count(), values=agg.count("v"), total=agg.sum("v"), mean=agg.mean("v"),
        different=agg.distinct_count("v"), about=agg.distinct_count("v", standard_error=0.1),
        between=agg.histogram("v", [1, 2]), most=agg.max("v"), start=agg.window_start(),
    )  # fmt: skip
    found = rows(
        bolt.with_key("k", "item").with_tumbling_window("5ms").with_empty_windows(until="5ms", fill={"mean": 0}),
        ("a", 2, 1.5), ("b", 12, 1.0), "tick",
    )  # fmt: skip
    assert [row["n"] for row in found] == [1, 0]
    start = found[1].pop("start")
    assert start.microsecond == 5000
    assert found[1] == {
        "item": None, "k": "a", "n": 0, "values": 0, "total": None, "mean": 0.0, "different": 0, "about": 0,
        "between": [0, 0, 0], "most": None,
    }  # fmt: skip


AGGREGATES = {
    "n": agg.count("v"), "sum": agg.sum("v"), "mean": agg.mean("v"), "var": agg.variance("v"), "std": agg.std("v"),
    "min": agg.min("v"), "max": agg.max("v"), "first": agg.first("v"), "last": agg.last("v"), "mode": agg.mode("v"),
    "max_by": agg.max_by("k", by="v"), "top": agg.top(2, "k", by="v"), "different": agg.distinct_count("v"),
    "about": agg.distinct_count("v", standard_error=0.1), "between": agg.histogram("v", [1, 2]),
    "median": agg.median("v"), "near": agg.median("v", relative_error=0.1), "corr": agg.corr("v", "v"),
    "weighted": agg.weighted_mean("v", "v"),
}  # fmt: skip


@pytest.mark.parametrize("name", AGGREGATES)
def test_no_events_come_to_what_events_without_a_value_come_to(name: str) -> None:
    bolt = AggregateBolt("k", of=AGGREGATES[name]).with_key("k").with_tumbling_window("5ms")
    found = rows(bolt.with_empty_windows(until="5ms"), ("a", 2, None), ("b", 12, 1.0), "tick")
    assert len(found) == 2
    assert found[0] == found[1]


def test_key_columns_that_are_dictionaries_or_null_survive_a_crash() -> None:
    builder = TopologyBuilder("silence")
    schema = pa.schema([("id", pa.string()), ("k", pa.dictionary(pa.int32(), pa.string())), ("ts", pa.int64())])
    builder.set_spout("s", spouts.memory(schema))
    bolt = AggregateBolt("k", n=agg.count()).with_key("k").with_tumbling_window("5ms").with_empty_windows(until="9ms")
    builder.set_bolt("bolt", bolt.with_timestamp_field("ts")).global_grouping("s")
    builder.set_sink("out", sinks.memory()).from_("bolt")
    steps: list[Json] = []
    for number, (key, time) in enumerate([("a", 2), (None, 3), ("b", 8), ("c", 12), ("c", 39)]):
        steps += [{"event": {"id": f"e{number}", "k": key, "ts": time}, "stream": "s"}, {"tick": "watermark"},
                  {"crash": True}]  # fmt: skip
    scenario = Scenario.model_validate({"name": "silence", "topology": "t", "steps": steps})
    found = replay(scenario, builder.build()).outputs["out"]
    counts = {key: [row["n"] for row in found if row["k"] == key] for key in ("a", None, "b", "c")}
    assert counts == {"a": [1, 0], None: [1, 0], "b": [1, 0], "c": [1, 0]}


class Run:
    """A topology that is given batch after batch, each in a new process."""

    def __init__(self, bolt: WindowedBolt, tasks: int = 1) -> None:
        self.topology, self.checkpoint, self.number = topology(bolt, tasks), MemoryCheckpoint(), -1

    def batch(self, *events: tuple[str, int], clock: int = 0, close: bool = False) -> list[tuple[str, int, int]]:
        """What comes out of a batch of (key, milliseconds): the key, end and size of each window."""
        self.number += 1
        rows = [(f"e{number}", key, key, 1.0, time) for number, (key, time) in enumerate(events)]
        splits = [TableSource("s", table, 0) for table in spouts.memory(COLUMNS, rows).tables()] if rows else []
        step = MicroBatch(self.topology, self.checkpoint, InProcessExecutor())
        step.run(BatchPlan(self.number, TimeAdvance(clock * 1_000, close=close), splits))
        self.state = step.manifest.bolts["bolt"].tasks
        sink: Any = self.topology.sinks["out"].sink
        found = sink.batches.pop(f"{self.number:010d}").to_pylist() if sink.batches else []
        return [(row["k"], row["end"], row["n"]) for row in found]


def test_a_key_is_known_for_so_long_and_no_longer() -> None:
    run = Run(Sizes().with_key("k").with_tumbling_window("5ms").with_empty_windows(until="10ms"))
    assert run.batch(("a", 2), ("b", 7)) == [("a", 5, 1)]
    assert sorted(run.batch(("b", 12))) == [("a", 10, 0), ("b", 10, 1)]
    assert [known(task) for task in run.state] == [2]
    assert ("a", 15, 0) in run.batch(("b", 16))
    assert [known(task) for task in run.state] == [1]  # nothing is due for a any more
    run.batch(("b", 100))
    assert [known(task) for task in run.state] == [1]
    assert run.state[0].next_due == 105_000
    run.batch(("b", 1000 * 365 * DAY + 1))
    assert [known(task) for task in run.state] == [0]


def known(task: Any) -> int:
    return 0 if task.windows.known is None else task.windows.known.rows


def test_a_later_run_goes_on_after_the_end_of_the_streams() -> None:
    """No window fires twice, and a key that was silent at the end is still known."""
    run = Run(Sizes().with_key("k").with_tumbling_window("5ms").with_empty_windows(until="20ms"))
    found = run.batch(("a", 2), ("b", 13))
    found += run.batch(close=True)
    assert sorted(found) == [("a", 5, 1), ("a", 10, 0), ("a", 15, 0), ("b", 15, 1)]
    assert sorted(run.batch(("b", 31))) == [("a", 20, 0), ("a", 25, 0), ("b", 20, 0), ("b", 25, 0), ("b", 30, 0)]


def test_by_the_clock_a_silent_sensor_is_noticed_without_any_input() -> None:
    builder = TopologyBuilder("silence")
    builder.set_spout("s", spouts.memory(COLUMNS))
    bolt = Sizes().with_key("k").with_time(processing=True).with_tumbling_window("5m").with_empty_windows(until="20m")
    builder.set_bolt("bolt", bolt).fields_grouping("s", "k")
    builder.set_sink("out", sinks.memory()).from_("bolt")
    minute = 60_000
    steps: list[Json] = [{"event": {"id": "e", "k": "a"}, "stream": "s", "clock": minute}]
    steps += [{"clock": clock * minute + 1} for clock in (4, 5, 11, 60)]
    scenario = Scenario.model_validate({"name": "silence", "topology": "t", "steps": steps})
    found = replay(scenario, builder.build()).outputs["out"]
    assert [(row["end"] // minute, row["n"]) for row in found] == [(5, 1), (10, 0), (15, 0), (20, 0), (25, 0)]


def test_the_next_bolt_gets_rows_of_empty_windows_in_time_and_they_end_its_windows() -> None:
    builder = TopologyBuilder("silence")
    builder.set_spout("s", spouts.memory(COLUMNS))
    counts = AggregateBolt("k", n=agg.count()).with_key("k").with_timestamp_field("ts")
    builder.set_bolt("counts", counts.with_tumbling_window("5ms").with_empty_windows(until="1h")).fields_grouping(
        "s", "k"
    )
    rows_of = AggregateBolt("k", rows=agg.count(), end=agg.window_end()).with_key("k")
    builder.set_bolt("rows", rows_of.with_tumbling_window("20ms").with_empty_windows(until="1h")).fields_grouping(
        "counts", "k"
    )
    builder.set_sink("out", sinks.memory()).from_("rows")
    steps: list[Json] = []
    for number, (key, time) in enumerate([("a", 2), ("b", 3), ("b", 38), ("b", 51)]):
        steps += [{"event": {"id": f"e{number}", "k": key, "ts": time}, "stream": "s"}, {"tick": "watermark"}]
    scenario = Scenario.model_validate({"name": "silence", "topology": "t", "steps": [*steps, {"close": True}]})
    answer = replay(scenario, builder.build())
    for key in "ab":
        ends = [(row["end"].microsecond // 1000, row["rows"]) for row in answer.outputs["out"] if row["k"] == key]
        assert ends == [(20, 4), (40, 4), (60, 3)]
    assert answer.late == []


# ---- mistakes


def refused(bolt: WindowedBolt) -> str:
    with pytest.raises(TopologyError) as raised:
        topology(bolt)
    return str(raised.value)


@pytest.mark.parametrize(
    "bolt",
    [
        Sizes().with_window(5, 5),
        Sizes().with_window("5s"),
        Sizes().with_window(3, "5s"),
        Sizes().with_window(Session("5s")),
        Sizes().with_window(Snapshot()),
        Sizes().with_window(SlidingLog("5s")),
        Sizes().with_window(CountByStart(2)),
        Sizes().with_window(Hopping("5s", "5s"), Calendar("day", "UTC")),
    ],
    ids=lambda bolt: str(bolt.settings.kinds or (bolt.settings.length, bolt.settings.slide)),
)
def test_windows_that_events_make_are_refused(bolt: WindowedBolt) -> None:
    said = refused(bolt.with_empty_windows(until="1h").with_policies(expired=False))
    assert "with_empty_windows(until=...) on windows whose ends depend on events, or of several kinds" in said


def test_a_trigger_of_keys_is_refused() -> None:
    bolt = Sizes().with_key("k").with_trigger(CountTrigger(Count(2))).with_policies(expired=False)
    builder = TopologyBuilder("silence")
    builder.set_spout("s", spouts.memory(COLUMNS))
    builder.set_bolt("bolt", bolt.with_empty_windows(until="1h")).fields_grouping("s", "k")
    with pytest.raises(TopologyError, match="on windows whose ends depend on events"):
        builder.build()


@pytest.mark.parametrize(
    ("bolt", "said"),
    [
        (Sizes().with_key("k").with_watermark(per_key=True), "a silent key has a watermark that stands still"),
        (Sizes().with_lifetime("ts"), "has with_empty_windows, and with_lifetime"),
        (Sizes().with_trigger(Panes(early=1)), "panes fire when something has changed"),
        (AggregateBolt("k", n=agg.count()), r"call with_key('k'), so that each has windows of its own"),
        (AggregateBolt(["k", "item"], n=agg.count()).with_key("k"), "only a key is known without events"),
        (Rank("v"), "has with_empty_windows, and rows that are made of events"),
    ],
)
def test_what_does_not_go_with_it_is_refused_in_words(bolt: WindowedBolt, said: str) -> None:
    assert said in refused(bolt.with_tumbling_window("5s").with_empty_windows(until="1h"))


def test_less_than_a_slide_is_refused_and_so_are_a_million_slides() -> None:
    bolt = Sizes().with_tumbling_window("5s")
    assert "the next window ends a slide after the last one" in refused(bolt.with_empty_windows(until="4s"))
    assert "would fire 6,307,200 empty windows; at most 1,000,000" in refused(bolt.with_empty_windows(until="365d"))
    days = Sizes().with_window(Calendar("day", "UTC"))
    assert "with less than a slide" in refused(days.with_empty_windows(until="23h"))


def test_what_is_filled_in_is_an_aggregate_of_the_bolt_and_of_its_type() -> None:
    bolt = AggregateBolt(mean=agg.mean("v")).with_tumbling_window("5s")
    with pytest.raises(ConfigError, match="the aggregates are mean"):
        bolt.with_empty_windows(until="1h", fill={"men": 0.0})
    assert "mean=mean('v') is double" in refused(bolt.with_empty_windows(until="1h", fill={"mean": "none"}))
