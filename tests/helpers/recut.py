"""Scenarios whose batches end anywhere, or that crash after every step, and how their answers differ from what is
expected."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from manager.storage.checkpoint import MemoryCheckpoint
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.scenarios.replay import Recording, judge
from topologies.scenarios.scenario_answer import ReplayResult
from topologies.scenarios.scenario_model import Scenario
from topologies.scenarios.scenario_values import CloseStep, CrashStep
from topologies.scenarios.script import ScriptedEvents, ScriptSplit, scenario_topology, script


def run_cut(scenario: Scenario, chance: random.Random) -> ReplayResult:
    """The answer with batches that end after any event, splits that hold any number of them, and other processes."""
    topology, checkpoint, recording = scenario_topology(scenario), MemoryCheckpoint(), Recording()
    step = recording.watch(MicroBatch(topology, checkpoint, InProcessExecutor()))
    number = 0
    for batch in script(scenario):
        splits: list[ScriptSplit] = []
        for arrival in batch.arrivals:
            for offset, row in enumerate(arrival.rows):
                one = ScriptedEvents(arrival.component, arrival.stream, arrival.clock, [row], arrival.first + offset)
                if splits and chance.random() < 0.3:
                    step.run(BatchPlan(number, TimeAdvance(arrival.clock, tick=False), splits))
                    number, splits = number + 1, []
                if splits and chance.random() < 0.4:
                    splits[-1] = ScriptSplit((*splits[-1].lines, one.to_json()))
                else:
                    splits.append(ScriptSplit((one.to_json(),)))
        recording.note_batch(batch, step.run(BatchPlan(number, batch.advance, splits)))
        number += 1
        if chance.random() < 0.3:
            step = recording.watch(MicroBatch(topology, checkpoint, InProcessExecutor()))
    return recording.answer(scenario, topology, step.manifest, checkpoint.segments)


def crashing(scenario: Scenario) -> Scenario:
    """The scenario with a crash after every step; before the end of the streams, after which nothing comes."""
    steps: list[Any] = []
    for step in scenario.steps:
        steps += [CrashStep(crash=True), step] if isinstance(step, CloseStep) else [step, CrashStep(crash=True)]
    return scenario.model_copy(update={"steps": steps})


def differences(scenario: Scenario, answer: ReplayResult) -> list[str]:
    expect = scenario.expect
    if has_keys(scenario) and expect is not None:
        outputs = sorted_rows(answer.outputs, expect.outputs or {})
        answer = replace(answer, windows=by_key(answer.windows), outputs=outputs)
        given: dict[str, Any] = {}
        if expect.windows is not None and all(window.key is not None for window in expect.windows):
            given["windows"] = by_key(expect.windows)
        if expect.outputs is not None:
            given["outputs"] = sorted_rows(expect.outputs, expect.outputs)
        scenario = scenario.model_copy(update={"expect": expect.model_copy(update=given)})
    return judge(scenario, answer).differences


def has_keys(scenario: Scenario) -> bool:
    """Whether windows of several keys come as each is ready, in whatever order that is (AZ-17)."""
    return scenario.step is not None or (scenario.bolt is not None and bool(scenario.bolt.substreams))


def by_key(windows: Sequence[Any]) -> list[Any]:
    return sorted(windows, key=lambda window: str(window["key"] if isinstance(window, dict) else window.key))


def sorted_rows(outputs: dict[str, list[Any]], names: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Rows in an order of their own, on the fields that the first expected row of their sink gives."""

    def in_order(sink: str, rows: list[Any]) -> list[Any]:
        fields = list(names[sink][0]) if names.get(sink) else []
        return sorted(rows, key=lambda row: str([row.get(name) for name in fields]))

    return {sink: in_order(sink, rows) for sink, rows in outputs.items()}
