"""Time over partitions: what exists holds the watermark, silence does not, and nothing is late because of others."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from manager.storage.checkpoint import MemoryCheckpoint
from tests.helpers.examples import examples
from tests.helpers.recut import run_cut
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.task_data import SourceBatch
from topologies.graph.graph import Graph
from topologies.io.sinks import MemorySink
from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_answer import ReplayResult
from topologies.scenarios.scenario_model import read_scenario
from windbolt import TopologyBuilder, sinks, spouts
from windowing import BatchBolt, Bolt, Tuple, TupleWindow, WindowedBolt, presets
from windowing.errors import ConfigError, ScenarioError, TopologyError
from windowing.schema import EmittedRows
from windowing.settings.presets import Preset
from windowing.settings.rules import SOURCE

Json = dict[str, Any]
EXAMPLES = examples(60, suppress_health_check=[HealthCheck.too_slow])
LISTED = {"in": ("t/0", "t/1", "t/2", "t/3")}


@dataclass(frozen=True)
class Record:
    partition: int
    number: int
    time: int
    """Seconds."""


@dataclass(frozen=True)
class Run:
    """Records of one partition after the other, as a task reads them."""

    records: Sequence[Record]

    def read(self, topology: Graph) -> Iterator[SourceBatch]:
        """A source batch for each partition."""
        for partition in dict.fromkeys(each.partition for each in self.records):
            mine = [each for each in self.records if each.partition == partition]
            columns = [[each.partition for each in mine], [each.number for each in mine]]
            table = pa.table([*columns, [each.time * 1_000 for each in mine]], names=["p", "n", "ts"])
            yield SourceBatch("in", "default", table, np.arange(len(mine)), partition=f"t/{partition}")


class Members(WindowedBolt):
    outputs = "start long, members string"

    def execute(self, window: TupleWindow) -> EmittedRows:
        members = sorted((row["p"], row["n"]) for row in window.table.to_pylist())
        return window.start_timestamp, str(members)


class Same(Bolt):
    outputs = "p long, n long, ts long"

    def execute(self, tuple_: Tuple) -> EmittedRows:
        return [(tuple_["p"], tuple_["n"], tuple_["ts"])]


class SameBatch(BatchBolt):
    outputs = "p long, n long, ts long"

    def execute(self, table: pa.Table) -> EmittedRows:
        return table


def job(
    preset: Preset, between: Sequence[Bolt | BatchBolt] = (), partition: str | None = None
) -> tuple[MicroBatch, dict[str, MemorySink]]:
    """A topology over a source with partitions, and what comes out of it."""
    builder, out = TopologyBuilder("partitions"), {name: sinks.memory() for name in ("windows", "late")}
    builder.set_spout("in", spouts.memory("p long, n long, ts long"))
    last = "in"
    for number, bolt in enumerate(between):
        builder.set_bolt(f"plain{number}", bolt).shuffle_grouping(last)
        last = f"plain{number}"
    members = Members().with_tumbling_window("5s").with_timestamp_field("ts").with_time(preset)
    members = members.with_late_tuple_stream("late")
    members = members if partition is None else members.with_watermark(partition=partition)
    builder.set_bolt("members", members).global_grouping(last)
    builder.set_sink("windows", out["windows"]).from_("members")
    builder.set_sink("late", out["late"]).from_("members", "late")
    step = MicroBatch(builder.build(), MemoryCheckpoint(), InProcessExecutor())
    return step, out


def late_of(
    preset: Preset, batches: Sequence[Sequence[Sequence[Record]]], listed: Mapping[str, tuple[str, ...]] = LISTED
) -> set[tuple[int, int]]:
    """The late records of a run in these batches of splits; each batch is of a process of its own."""
    step, out = job(preset)
    for number, splits in enumerate(batches):
        plan = BatchPlan(number, TimeAdvance(number * 1_000), [Run(each) for each in splits if each], partitions=listed)
        step.run(plan)
        step = MicroBatch(step.topology, step.checkpoint, InProcessExecutor())
    return {(row["p"], row["n"]) for row in out["late"].rows}


def synchronous(count: int, partitions: int = 4) -> list[list[Record]]:
    return [[Record(at, number, number) for number in range(count)] for at in range(partitions)]


@pytest.mark.feature("AT-21")
def test_synchronous_partitions_read_one_after_the_other_have_no_late_events() -> None:
    """Issue 10, A1: of 8,000 records in 4 partitions 5,280 were in no window, with a mark for each still 660."""
    one_by_one = [[records] for records in synchronous(200)]
    assert late_of(presets.atlas("0s"), [[*synchronous(200)]]) == set()
    assert late_of(presets.atlas("0s"), one_by_one) == set()
    assert late_of(presets.atlas("0s"), one_by_one, {}), "unless nobody says which there are: the test can see it"


@st.composite
def partitions(draw: st.DrawFn) -> list[list[Record]]:
    """Partitions whose events are about in order."""
    found = []
    for at in range(draw(st.integers(1, 4))):
        times = np.cumsum(draw(st.lists(st.sampled_from([0, 1, 1, 2, 7, -3, -9]), max_size=12))).tolist()
        found.append([Record(at, number, time) for number, time in enumerate(times)])
    return found


@EXAMPLES
@given(partitions(), st.integers(0, 1 << 30))
def test_what_is_late_is_late_in_its_own_partition_however_they_are_read(each: list[list[Record]], seed: int) -> None:
    """AT-20, AT-21: the others make nothing late, wherever batches and splits end and in whatever order they come."""
    chance, left, batches = random.Random(seed), [list(records) for records in each], []
    while any(left):
        splits = []
        for _ in range(chance.randint(1, 3)):
            records = chance.choice(left)
            count = chance.randint(0, len(records))
            splits.append(records[:count])
            del records[:count]
        batches.append(splits)
    listed = {"in": tuple(f"t/{at}" for at in range(len(each)))}
    alone = [late_of(presets.atlas("0s"), [[records]], {"in": (f"t/{at}",)}) for at, records in enumerate(each)]
    assert late_of(presets.atlas("0s"), batches, listed) <= set().union(*alone)


@pytest.mark.feature("AT-20")
def test_a_partition_that_is_found_later_holds_the_watermark_from_then_on() -> None:
    step, out = job(presets.atlas("0s"))
    first, second = synchronous(20, 2)
    step.run(BatchPlan(0, TimeAdvance(0), [Run(first[:12])], partitions={"in": ("t/0",)}))
    assert [row["start"] for row in out["windows"].rows] == [0, 5_000_000]
    step.run(BatchPlan(1, TimeAdvance(0), [Run(first[12:])], partitions={"in": ("t/0", "t/1")}))
    assert len(out["windows"].rows) == 2, "the new one is waited for"
    step.run(BatchPlan(2, TimeAdvance(0), [Run(second[10:])], partitions={"in": ("t/0", "t/1")}))
    assert [row["start"] for row in out["windows"].rows] == [0, 5_000_000, 10_000_000]
    assert out["late"].rows == []


@pytest.mark.parametrize("between", [[Same()], [Same(), Same()]], ids=len)
def test_a_partition_stays_known_through_plain_bolts(between: list[Bolt]) -> None:
    step, out = job(presets.atlas("0s"), between)
    for number, records in enumerate(synchronous(50)):
        step.run(BatchPlan(number, TimeAdvance(0), [Run(records)], partitions=LISTED))
    assert out["late"].rows == []
    assert len(out["windows"].rows) == 9


def test_behind_a_bolt_of_batches_all_is_one_partition_and_nothing_waits_for_others() -> None:
    step, out = job(presets.atlas("0s"), [SameBatch()])
    step.run(BatchPlan(0, TimeAdvance(0), [Run(synchronous(50)[0])], partitions=LISTED))
    assert len(out["windows"].rows) == 9


def test_a_column_takes_the_place_of_the_source_s_partitions() -> None:
    step, out = job(presets.atlas("0s"), partition="p")
    step.run(BatchPlan(0, TimeAdvance(0), [Run(synchronous(50)[0])], partitions=LISTED))
    assert len(out["windows"].rows) == 9, "t/1 to t/3 are not waited for: the column knows nothing of them"


# ---- Azure: the time that others bring


@st.composite
def azure(draw: st.DrawFn) -> Json:
    """Partitions, or inputs, that are silent by turns; events arrive in order."""
    streams = draw(st.booleans())
    preset: Json = {
        "late": f"{draw(st.integers(0, 9))}s",
        "out_of_order": f"{draw(st.integers(0, 4))}s",
        "action": draw(st.sampled_from(["adjust", "drop"])),
        "arrival_field": "at",
    }
    bolt: Json = {"preset": {"azure": preset}, "timestamp_field": "ts", "length": "5s", "tumbling": True}
    scenario: Json = {"name": "azure", "bolt": bolt, "steps": []}
    if streams:
        scenario["streams"] = ["s1", "s2", "s3"]
    else:
        bolt["watermark_partition"] = "p"
        scenario["partitions"] = [1, 2, 3]
    now, who = 0, 1
    for number in range(draw(st.integers(1, 25))):
        now += draw(st.sampled_from([0, 0, 1, 1, 2, 6]))
        who = draw(st.sampled_from([who, who, who, 1, 2, 3]))
        behind = draw(st.sampled_from([0, 0, 1, 3, 8, 12, -2]))
        event = {"id": f"e{number}", "ts": (now - behind) * 1_000, "at": now * 1_000}
        if streams:
            scenario["steps"].append({"event": event, "stream": f"s{who}"})
        else:
            scenario["steps"].append({"event": {**event, "p": who}})
    return scenario


def outcome(answer: ReplayResult) -> Json:
    """What an answer says, whatever batches it came in."""
    found = answer.to_json()
    return {
        **{name: found[name] for name in ("windows", "events", "counts", "metrics")},
        "pending": sorted(found["pending"]),
    }


@pytest.mark.feature("AZ-29")
@EXAMPLES
@given(azure(), st.integers(0, 1 << 30))
def test_results_depend_on_the_events_alone(scenario: Json, seed: int) -> None:
    """Partitions that are silent while others are busy: the same wherever batches and processes end."""
    read = read_scenario(scenario)
    whole = replay_locally(read)
    assert outcome(run_cut(read, random.Random(seed))) == outcome(whole)


@pytest.mark.feature("AZ-4")
@EXAMPLES
@given(azure())
def test_the_time_that_others_bring_moves_no_event(scenario: Json) -> None:
    """AZ-5 and AZ-11: what a partition is assigned is what it would be if it were the only one."""
    mixed = {
        event["id"]: (event["time"], event["action"])
        for event in outcome(replay_locally(read_scenario(scenario)))["events"]
    }
    for who in (1, 2, 3):
        steps = [step for step in scenario["steps"] if step.get("stream") == f"s{who}" or step["event"].get("p") == who]
        only: Json = {"streams": [f"s{who}"]} if "streams" in scenario else {"partitions": [who]}
        alone = replay_locally(read_scenario({**scenario, **only, "steps": steps}))
        for event in outcome(alone)["events"]:
            assert mixed[event["id"]] == (event["time"], event["action"])


def test_a_silent_partition_stops_nothing() -> None:
    """Issue 10, A2: 100 batches, 0 windows, 101 pending."""
    steps: list[Json] = [{"event": {"id": "q", "p": 2, "ts": 0, "at": 0}, "arrival": 0}]
    for number in range(1, 101):
        at = 10_000 * number
        steps.append({"event": {"id": f"e{number}", "p": 1, "ts": at, "at": at}, "arrival": at})
    preset = {"azure": {"late": "5s", "arrival_field": "at"}}
    bolt = {"preset": preset, "length": "1m", "tumbling": True, "timestamp_field": "ts", "watermark_partition": "p"}
    answer = replay_locally(read_scenario({"name": "silent", "bolt": bolt, "steps": steps}))
    assert (len(answer.windows), answer.counts["pending"]) == (17, 4)


def test_arrivals_that_are_not_in_order_in_a_batch_release_nothing_too_soon() -> None:
    """Two synchronous partitions read one after the other, each with its own times of arrival, in one batch."""
    steps = [
        {"event": {"id": f"{p}-{at}", "p": p, "ts": at * 1_000, "at": at * 1_000}} for p in (1, 2) for at in range(60)
    ]
    preset = {"azure": {"late": "5s", "arrival_field": "at", "action": "drop"}}
    bolt = {"preset": preset, "length": "5s", "tumbling": True, "timestamp_field": "ts", "watermark_partition": "p"}
    answer = replay_locally(read_scenario({"name": "two", "bolt": bolt, "partitions": [1, 2], "steps": steps}))
    assert answer.counts["dropped"] == 0
    assert [len(window["events"] or ()) for window in answer.windows] == [2, *[10] * 11]


def test_storms_ticks_wait_for_partitions_that_exist() -> None:
    bolt = {"length": "5s", "tumbling": True, "timestamp_field": "ts", "watermark_partition": "p"}
    steps: list[Json] = []
    for p, ts in ((0, 1_000), (0, 11_000), (1, 1_000), (1, 12_000)):
        steps += [{"event": {"p": p, "ts": ts}}, {"tick": "watermark"}]
    answer = replay_locally(read_scenario({"name": "ticks", "bolt": bolt, "partitions": [0, 1], "steps": steps}))
    assert answer.to_json()["watermarks"] == [None, None, 1_000, 11_000]
    assert answer.late == []


# ---- what is refused


@pytest.mark.parametrize(
    ("field", "given_", "says"),
    [
        (SOURCE, [1, 2], "the source itself knows"),
        ("p", "12", "is not a list"),
        ("p", [], "the values of the column"),
        ("p", [1, "1"], "each once"),
        ("p", [1, None], "the values of the column"),
        ("p", {"in": []}, "the values of the column"),
        ("p", {}, "the values of the column"),
        ("p", [1, ""], "texts or whole numbers"),
        ("p", [True, False], "texts or whole numbers"),
        ("p", [1.5], "texts or whole numbers"),
    ],
)
def test_partitions_that_name_none_are_refused(field: Any, given_: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Members().with_watermark(partition=field, partitions=given_)


def test_partitions_of_an_input_that_there_is_not_are_refused() -> None:
    builder = TopologyBuilder("wrong")
    builder.set_spout("in", spouts.memory("p long, n long, ts long"))
    bolt = Members().with_tumbling_window("5s").with_timestamp_field("ts")
    builder.set_bolt("windows", bolt.with_watermark(partition="p", partitions={"others": [1]})).global_grouping("in")
    with pytest.raises(TopologyError, match="partitions of 'others', but has no such input"):
        builder.build()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"partitions": [1, 1]}, "each once"),
        ({"partitions": []}, "partitions: .*give a list like"),
        ({"partitions": "12"}, "is not a list"),
        ({"partitions": [1, ""]}, "texts or whole numbers, each once"),
        ({"partitions": {"s2": [1]}}, "expected streams among s1, found 's2'"),
        ({"partitions": [1], "bolt": {"length": 1}}, "partitions without bolt.watermark_partition"),
        ({"steps": [{"event": {"ts": 0}, "clock": 1, "arrival": 1}]}, "found both"),
        ({"steps": [{"event": {"ts": 0}, "arrival": 5}, {"event": {"ts": 0}, "arrival": 4}]}, "the clock goes back"),
        ({"steps": [{"arrival": 5}]}, "expected one of"),
        ({"steps": [{"clock": 5, "arrival": 5}]}, "arrival"),
    ],
)
def test_scenarios_that_contradict_themselves_are_refused(changes: Json, says: str) -> None:
    bolt = {"length": "5s", "tumbling": True, "timestamp_field": "ts", "watermark_partition": "p"}
    with pytest.raises(ScenarioError, match=says):
        read_scenario({"name": "wrong", "bolt": bolt, "steps": [], **changes})
