"""Random scenarios: however the events are cut into batches and tasks, the answer is that of the oracle."""

from __future__ import annotations

import json
import random
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.storage.checkpoint import MemoryCheckpoint
from tests.helpers import core_driver
from tests.helpers.core_driver import all_together, in_pieces, one_by_one
from tests.helpers.examples import examples, sampled
from tests.helpers.strategies import scenarios
from tests.oracles import window_oracle as oracle
from tests.oracles.test_window_oracle import assert_holds, by_name, from_storm, worked
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.graph.graph import Graph
from topologies.graph.groupings import FieldsGrouping
from topologies.scenarios.replay import Recording, replay_locally
from topologies.scenarios.scenario_model import Scenario, read_scenario
from topologies.scenarios.script import ScenarioSpout, ScriptedEvents, ScriptSplit, scenario_topology, script
from windbolt import TopologyBuilder
from windowing import TupleWindow, WindowedBolt
from windowing.schema import TIMESTAMP

Json = dict[str, Any]


def assert_same(scenario: Json, found: Json, expected: Json) -> None:
    """Every part of the answer; pending events in any order.

    An event may tie with a watermark after it was emitted, and then be known to push another out of a window of a
    count. The oracle says so at once; windbolt looks with the next watermark, and until then that other one is pending.
    """
    pending, counts = set(found["pending"]), {**found["counts"]}
    assert (counts.pop("adjusted", 0), counts.pop("truncated", 0)) == (0, 0)
    undecided = pending - set(expected["pending"])
    assert not undecided or ties_with_the_watermark(scenario, expected), "pending"
    counts["pending"] -= len(undecided)
    counts["unwindowed"] += len(undecided)
    assert pending - undecided == set(expected["pending"])
    assert len(pending) == len(found["pending"])
    assert counts == expected["counts"]
    for part in ("windows", "late", "watermarks"):
        assert found[part] == expected[part], part


def ties_with_the_watermark(scenario: Json, expected: Json) -> list[str]:
    """The events that came after the last watermark and have its very time."""
    marks, mark = iter(expected["watermarks"]), None
    ties: list[str] = []
    for step in scenario["steps"]:
        if "tick" in step and (emitted := next(marks)) is not None:
            mark, ties = emitted, []
        elif "event" in step and mark is not None and step["event"].get("ts") == mark:
            ties.append(step["event"]["id"])
    return ties


def with_clock(scenario: Json) -> Json:
    """The scenario with its clock set from the start, where it has one: before that there is no processing time."""
    clocks = [step["clock"] for step in scenario["steps"] if "clock" in step]
    return {**scenario, "steps": [*({"clock": clock} for clock in clocks[:1]), *scenario["steps"]]}


def engine_answer(scenario: Json) -> Json:
    return replay_locally(read_scenario(with_clock(scenario))).to_json()


# ---- the pure core


@examples(250, by_default=100)
@given(scenarios(), st.integers(0, 1 << 30))
def test_the_core_answers_as_the_oracle_however_events_are_handed_over(scenario: Json, seed: int) -> None:
    expected = oracle.answer(scenario)
    for cut in (one_by_one, all_together, in_pieces(seed)):
        assert_same(scenario, core_driver.answer(scenario, cut), expected)


@pytest.mark.parametrize("scenario", sampled(from_storm(), 12, lambda each: each["name"]))
def test_storms_cases_hold_in_the_core_however_events_are_handed_over(scenario: Json) -> None:
    for cut in (one_by_one, all_together, in_pieces(len(scenario["steps"]))):
        assert_holds(scenario["expect"], core_driver.answer(scenario, cut))


@pytest.mark.parametrize("scenario", by_name(worked()))
def test_worked_scenarios_hold_in_the_core_however_events_are_handed_over(scenario: Json) -> None:
    expect = {**scenario["expect"]}
    pending = expect.pop("pending", None)
    for cut in (one_by_one, all_together, in_pieces(7)):
        found = core_driver.answer(scenario, cut)
        assert_holds(expect, found)
        assert pending is None or sorted(found["pending"]) == sorted(pending)


# ---- the engine


@examples(200, by_default=80)
@given(scenarios())
def test_the_engine_answers_as_the_oracle_crashes_or_not(scenario: Json) -> None:
    assert_same(scenario, engine_answer(scenario), oracle.answer(scenario))


@examples(60, by_default=20)
@given(scenarios())
def test_a_crash_in_every_batch_changes_nothing(scenario: Json) -> None:
    steps = []
    for step in scenario["steps"]:
        steps += [step, {"crash": True}] if "close" not in step else [{"crash": True}, step]
    assert_same(scenario, engine_answer({**scenario, "steps": steps}), oracle.answer(scenario))


def recut(found: Scenario, chance: random.Random) -> list[tuple[TimeAdvance, list[ScriptSplit]]]:
    """The batches of a scenario cut into more batches, without ticks, and each of these into splits."""
    batches: list[tuple[TimeAdvance, list[ScriptSplit]]] = []
    for batch in script(found):
        splits: list[ScriptSplit] = []
        for arrival in batch.arrivals:
            for offset, row in enumerate(arrival.rows):
                one = ScriptedEvents(arrival.component, arrival.stream, arrival.clock, [row], arrival.first + offset)
                match chance.randrange(4):
                    case 0 if splits:
                        batches.append((TimeAdvance(arrival.clock, tick=False), splits))
                        splits = [ScriptSplit((one.to_json(),))]
                    case 1 if splits:
                        splits[-1] = ScriptSplit((*splits[-1].lines, one.to_json()))
                    case _:
                        splits.append(ScriptSplit((one.to_json(),)))
        batches.append((batch.advance, splits))
    return batches


def run_cut(found: Scenario, topology: Graph, chance: random.Random) -> Json:
    checkpoint, recording = MemoryCheckpoint(), Recording()
    step = recording.watch(MicroBatch(topology, checkpoint, InProcessExecutor()))
    ticks: list[int | None] = []
    for number, (advance, splits) in enumerate(recut(found, chance)):
        report = step.run(BatchPlan(number, advance, splits))
        if advance.tick and not advance.close:
            ticks += [bolt.new_watermark for bolt in report.bolts.values()]
        if chance.random() < 0.2:
            step = recording.watch(MicroBatch(topology, checkpoint, InProcessExecutor()))
    answer = recording.answer(found, topology, step.manifest, checkpoint.segments).to_json()
    answer["watermarks"] = [None if mark is None else oracle.milliseconds(mark) for mark in ticks]
    return answer


@examples(150, by_default=60)
@given(scenarios(), st.integers(0, 1 << 30))
def test_the_engine_answers_the_same_with_its_batches_cut_anywhere(scenario: Json, seed: int) -> None:
    calm = {**scenario, "steps": [step for step in scenario["steps"] if "crash" not in step]}
    found = read_scenario(with_clock(calm))
    assert_same(scenario, run_cut(found, scenario_topology(found), random.Random(seed)), oracle.answer(scenario))


# ---- parallel tasks

TASKS = 3


class Watched(WindowedBolt):
    outputs: ClassVar[dict[str, str]] = {}

    def execute(self, window: TupleWindow) -> None:
        return None


def parallel_topology(scenario: Json) -> Graph:
    columns = [("id", pa.string())]
    if "timestamp_field" in scenario["bolt"]:
        columns.append((scenario["bolt"]["timestamp_field"], TIMESTAMP))
    builder = TopologyBuilder("parallel")
    spout: Any = ScenarioSpout(tuple(scenario["streams"]), pa.schema(columns))
    builder.set_spout("events", spout)
    bolt = Watched().configured(core_driver.configured(scenario["bolt"]).settings)
    declarer = builder.set_bolt("bolt", bolt, TASKS)
    for stream in scenario["streams"]:
        declarer.fields_grouping("events", "id", stream=stream)
    return builder.build()


def tasks_of(ids: list[str]) -> dict[str, int]:
    if not ids:
        return {}
    table = pa.table({"id": ids})
    return dict(zip(ids, FieldsGrouping(("id",)).tasks(table, np.arange(len(ids)), TASKS).tolist(), strict=True))


class OneTask(oracle._Run):
    """The oracle of one task: it has its own events only, and the watermark of all."""

    mine: frozenset[str] = frozenset()

    def receive(self, fields: Json, stream: str | None) -> None:
        if fields["id"] in self.mine:
            super().receive(fields, stream)
            return
        assert stream is not None
        time = self.time_of(fields)
        self.latest[stream] = max(time, self.latest.get(stream, time))


@examples(120, by_default=45)
@given(scenarios(), st.integers(0, 1 << 30))
def test_each_parallel_task_shows_the_windows_of_its_own_events(scenario: Json, seed: int) -> None:
    steps = [step for step in scenario["steps"] if "crash" not in step]
    found = read_scenario(with_clock({**scenario, "steps": steps}))
    answer = run_cut(found, parallel_topology(scenario), random.Random(seed))
    tasks = tasks_of([step["event"]["id"] for step in steps if "event" in step])
    late: set[str] = set()
    for task in range(TASKS):
        run = OneTask(oracle._Bolt.read(scenario["bolt"]), tuple(scenario["streams"]))
        run.mine = frozenset(name for name, at in tasks.items() if at == task)
        for step in steps:
            run.take(step)
        own = [window for window in answer["windows"] if window["task"] == task]
        own = [{field: value for field, value in window.items() if field != "task"} for window in own]
        assert own == run.answer()["windows"], f"task {task}"
        late |= set(run.answer()["late"])
    assert set(answer["late"]) == late
    assert answer["watermarks"] == oracle.answer(scenario)["watermarks"]


@examples(60, by_default=20)
@given(scenarios())
def test_an_answer_of_the_core_is_plain_json(scenario: Json) -> None:
    answer = core_driver.answer(scenario)
    assert json.loads(json.dumps(answer)) == answer
