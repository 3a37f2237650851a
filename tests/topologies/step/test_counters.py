"""What a step counts of the answers of its rules: windows that come to nothing, and slips of the pen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from manager.storage.checkpoint import FileCheckpoint
from manager.storage.manifest import batch_key
from topologies.cli.app import app
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.source_splits import file_splits
from topologies.io.file_spout import FileSpout
from topologies.step.compile_step import step_topology
from topologies.step.config_files import load_step

RULES = """
def trigger(event, call):
    return event.value["trigger"]

def aggregate(events, call):
    last = events[-1].value
    call.out = last.get("out")
    if last["dsl"] == "fail":
        raise ValueError("no")
    if last["dsl"] == "unsendable":
        call.headers = {"BranchName": "nowhere"}
        return "x"
    return last["dsl"]
"""

STEP = """
name: orders, type: aggregation
format { input: json, output: json }
key { type: key }
trigger { type: dsl, path: rules.py, timeout: 5 minutes }
dsl { path: rules.py }
destination { name: output, topic: totals, config { name: out } }
error { name: deadletter, topic: dead, config { name: out } }
source { type: files, path: "in/*.jsonl", topic: orders, filesPerBatch: 1 }
connections.out { type: files, path: out }
"""

ANSWERS: list[list[tuple[str | None, Any, Any]]] = [
    [
        ("fireAndPurge", "decline", None),
        ("fireAndPurge", "passthrough", None),
        ("fireAndPurge", "pass-through", None),
        ("fireAndPurge", "return", {"n": 1}),
        ("fireAndPurge", None, {"n": 1}),
    ],
    [
        ("fireAndPurge", None, None),
        ("fireAndPurge", {"n": 1}, None),
        ("fireAndPurge", [], None),
        ("contine", "decline", None),
        (None, {"n": 1}, None),
        ("fire", "decline", None),
        ("purge", "decline", None),
        ("fireAndPurge", "fail", None),
        ("fireAndPurge", "unsendable", {"n": 1}),
    ],
]
"""Of each batch and key: what the rule of the trigger says, what that of the aggregation returns, and what it sets."""

COUNTED = [
    {"declined": 1, "emptied": 1, "unknown_status": 2},
    {"declined": 3, "emptied": 2, "unknown_status": 2, "unknown_trigger_status": 2},
]
"""After each batch; the window that is kept at "fire" fires again at the end, and is declined again."""


def _step(folder: Path) -> Path:
    (folder / "in").mkdir()
    (folder / "rules.py").write_text(RULES, encoding="utf-8")
    (folder / "step.conf").write_text(STEP, encoding="utf-8")
    for batch, answers in enumerate(ANSWERS):
        lines = [
            json.dumps({"key": f"{batch}-{at}", "value": {"trigger": said, "dsl": returned, "out": out}})
            for at, (said, returned, out) in enumerate(answers)
        ]
        (folder / "in" / f"{batch}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder / "step.conf"


class Crash(Exception):
    pass


@pytest.mark.feature("UH-18", "UH-26", "UH-28")
@pytest.mark.parametrize("phase", ["", "ingest", "fire", "sinks", "commit"])
def test_answers_of_rules_are_counted_once_whatever_fails(tmp_path: Path, phase: str) -> None:
    topology = step_topology(load_step(_step(tmp_path)))
    spout = topology.spouts["source"].spout
    assert isinstance(spout, FileSpout)

    def crash(reached: str) -> None:
        if reached == phase:
            raise Crash

    found = []
    for number, files in enumerate(spout.batches()):
        plan = BatchPlan(number, TimeAdvance(number), file_splits(topology, [("source", path) for path in files], 1))
        FileCheckpoint(f"{tmp_path}/ck").plan(batch_key(number, False), {})  # as runners do before a batch
        if phase:
            step = MicroBatch(topology, FileCheckpoint(f"{tmp_path}/ck"), InProcessExecutor())
            step.hook = crash
            with pytest.raises(Crash):
                step.run(plan)
        step = MicroBatch(topology, FileCheckpoint(f"{tmp_path}/ck"), InProcessExecutor())
        found.append(step.run(plan).bolts["aggregate"].counters)
    assert found == COUNTED


def _run(folder: Path, *options: str) -> Result:
    arguments = ["run", str(_step(folder)), "--engine", "local", *options]
    return CliRunner().invoke(app, arguments, catch_exceptions=False, env={"COLUMNS": "160"})


def test_counters_are_in_the_summary_and_in_json(tmp_path: Path) -> None:
    told = "aggregate: declined 4, emptied 2, unknown status 2, unknown trigger status 2"
    text = tmp_path / "text"
    text.mkdir()
    result = _run(text)
    assert result.exit_code == 0, result.output
    assert told in result.output
    data = tmp_path / "json"
    data.mkdir()
    reports = [json.loads(line) for line in _run(data, "--json").stdout.splitlines() if line.startswith("{")]
    counted = [each["bolts"]["aggregate"]["counters"] for each in reports if "bolts" in each]
    assert counted[:2] == COUNTED
    assert counted[-1] == {**COUNTED[1], "declined": 4}


def test_windows_that_are_full_are_counted_and_told(tmp_path: Path) -> None:
    step = _step(tmp_path)
    lines = [{"key": "a", "value": {"trigger": "continue", "dsl": {"n": at}, "out": None}} for at in range(7)]
    (tmp_path / "in" / "0.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    (tmp_path / "in" / "1.jsonl").unlink()
    arguments = ["run", str(step), "--engine", "local", "--set", "trigger.maxEvents=3"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False, env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    assert "aggregate: full 2" in result.output
    described = CliRunner().invoke(app, ["describe", *arguments[1:2], *arguments[4:]], catch_exceptions=False)
    assert "at most 3 events or 256 MiB of keys, values and headers" in described.output
