"""The commands on an aggregation step: check, describe, and what run says before it runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.helpers.places import CORPUS
from topologies.cli.app import app

SEED = str(CORPUS / "aggregation.conf")

RULES = """
print("printed by the rules")

def key(event):
    return event.value["id"]

def aggregate(events, call):
    return [event.value for event in events]
"""

STEP: dict[str, Any] = {
    "name": "orders",
    "type": "aggregation",
    "format": {"input": "json", "output": "json"},
    "key": {"type": "key"},
    "trigger": {"type": "count", "count": 2, "timeout": "1s"},
    "dsl": {"source": "file", "path": "rules.py"},
    "destination": {"name": "output", "topic": "output", "config": {"type": "kafka", "name": "out"}},
}
AROUND: dict[str, Any] = {
    "source": {"type": "files", "path": "in/*.jsonl", "topic": "orders"},
    "connections": {"out": {"type": "files", "path": "out"}},
}


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands add folders to Python's path, which other tests are not to find."""
    monkeypatch.setattr(sys, "path", [*sys.path])


def _invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def _step(folder: Path, **changes: Any) -> str:
    (folder / "rules.py").write_text(RULES, encoding="utf-8")
    path = folder / "step.json"
    path.write_text(json.dumps({**STEP, **changes}), encoding="utf-8")
    return str(path)


def _lines(result: Result) -> str:
    """What was said, however it was broken into lines."""
    return " ".join(result.stdout.split())


def test_a_step_that_is_well_is_ok_and_what_a_run_needs_is_a_remark(tmp_path: Path) -> None:
    result = _invoke("check", _step(tmp_path))
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"{tmp_path}/step.json: ok\n")
    assert "To run it, source and connections.out must be given too" in _lines(result)
    assert "printed by the rules" not in result.stdout


def test_what_a_run_needs_is_an_error_where_all_is_to_be_there(tmp_path: Path) -> None:
    lacking, whole = _step(tmp_path), str(tmp_path / "around.json")
    Path(whole).write_text(json.dumps(AROUND), encoding="utf-8")
    result = _invoke("check", lacking, "--strict")
    assert result.exit_code == 1
    assert "To run it, source and connections.out must be given too" in _lines(result)
    assert _invoke("check", lacking, "--strict", "--with", whole).exit_code == 0


def test_a_step_with_its_surroundings_lacks_nothing(tmp_path: Path) -> None:
    around = tmp_path / "around.yaml"
    around.write_text(json.dumps(AROUND), encoding="utf-8")
    result = _invoke("check", _step(tmp_path), "--with", str(around), "--set", "destination.topic=results")
    assert result.exit_code == 0, result.output
    assert "To run it" not in result.stdout
    assert "files out/results/ (connection out)" in _lines(result)


def test_all_problems_of_a_file_end_with_1(tmp_path: Path) -> None:
    result = _invoke("check", _step(tmp_path, kye=1), "--set", "trigger.count=0")
    assert result.exit_code == 1
    assert "2 problems:" in result.stdout
    assert "--set: trigger.count: expected a whole number of 1 or more, found 0" in _lines(result)
    assert "kye: unknown key; did you mean 'key'?" in _lines(result)


def test_all_problems_of_the_files_that_it_names_end_with_1(tmp_path: Path) -> None:
    (tmp_path / "bad.avsc").write_text('{"type": "rec"}', encoding="utf-8")
    (tmp_path / "bad.json").write_text("[1]", encoding="utf-8")
    result = _invoke(
        "check",
        _step(
            tmp_path,
            format={
                "input": {"type": "avro", "schema": {"source": "file", "path": "none.avsc"}},
                "output": {"type": "avro", "schema": [{"source": "file", "path": "bad.avsc"}]},
            },
            environmentVariables={"source": "file", "path": "bad.json"},
            key={"type": "dsl", "source": "file", "path": "none.py"},
            dsl={"source": "classpath", "path": "nowhere/rules.py"},
        ),
    )
    assert result.exit_code == 1
    said = _lines(result)
    assert "5 problems:" in said
    assert "step.json: environmentVariables: bad.json: expected a JSON object" in said
    assert "step.json: format.input.schema[0]: 'none.avsc' does not exist" in said
    assert "step.json: format.output.schema[0]: bad.avsc: " in said
    assert "step.json: key: " in said
    assert "step.json: dsl: " in said


def test_a_step_that_is_complete_is_built(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "output").write_text("a file where the folder should be", encoding="utf-8")
    result = _invoke("check", _step(tmp_path, **AROUND))
    assert result.exit_code == 1
    assert "is a file" in _lines(result)


def test_a_function_that_the_rules_lack_is_a_problem(tmp_path: Path) -> None:
    result = _invoke(
        "check", _step(tmp_path, trigger={"type": "dsl", "source": "file", "path": "rules.py", "timeout": 5})
    )
    assert result.exit_code == 1
    assert "step.json: trigger: " in _lines(result)


def test_rules_in_files_can_be_forbidden(tmp_path: Path) -> None:
    result = _invoke("check", _step(tmp_path), "--no-file-rules")
    assert result.exit_code == 1
    assert "step.json: dsl: " in _lines(result)
    assert _invoke("check", _step(tmp_path, allowFileRules=False)).exit_code == 1
    (tmp_path / "some.json").write_text("{}", encoding="utf-8")
    rules = {"dsl": {"path": "rules.py"}, "environmentVariables": {"source": "file", "path": "some.json"}}
    result = _invoke("check", _step(tmp_path, **rules), "--no-file-rules")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "topology.py:topology", "--load"], "--load with 'topology.py:topology'"),
        (["check", SEED, "--set", "a"], "--set 'a'"),
        (["describe", "topology.py:topology", "--set", "a=1"], "these options are for steps"),
        (["run", SEED, "--checkpoint", "ck"], "it does not say source and connections.output"),
        (["run", "nowhere.conf", "--engine", "local"], "found none of this name"),
    ],
)
def test_what_cannot_be_used_ends_with_2(arguments: list[str], said: str) -> None:
    result = _invoke(*arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def test_a_run_shows_what_to_add() -> None:
    result = _invoke("run", SEED, "--engine", "local")
    assert '"output" { type: kafka, bootstrap.servers: "localhost:9092" }' in result.stderr
    assert "source { type: kafka, topics: [input]" in result.stderr


@pytest.mark.feature("UH-12", "UH-15")
def test_a_step_is_described_with_its_boundaries(tmp_path: Path) -> None:
    result = _invoke("describe", _step(tmp_path, **AROUND, branches=[{**STEP["destination"], "name": "alerts"}]))
    assert result.exit_code == 0
    said = _lines(result)
    assert "step orders" in said
    assert "source files in/*.jsonl messages are json" in said
    assert "key the key of the message" in said
    assert "fires at 2 events, or at a timeout; then it is cleared" in said
    assert "timeout: 1s after the last event or the first, which comes sooner" in said
    assert "an event exactly 1s after the last joins the window" in said
    assert "an event exactly 1s after the first opens the next window" in said
    assert "branch alerts: files out/output/ (connection out)" in said
    assert "the first event that fails stops the run" in said


def test_without_the_flag_only_the_last_event_counts(tmp_path: Path) -> None:
    result = _invoke("describe", _step(tmp_path), "--set", "trigger.shouldFireAtProcessingTime=false")
    assert "timeout: 1s after the last event; it fires and clears" in _lines(result)
    assert "after the first" not in result.stdout


@pytest.mark.feature("UH-20", "UH-22")
def test_a_time_of_day_is_described() -> None:
    trigger = '{type: time, time: "11:05", timePattern: "HH:mm", zone: Europe/Berlin, maxEmptyIntervals: 3}'
    result = _invoke("describe", SEED, "--set", f"trigger={trigger}")
    said = _lines(result)
    assert "fires once a day at 11:05 (HH:mm, Europe/Berlin); then it is cleared" in said
    assert "an event of that very moment is in the next window" in said
    assert "after 3 empty days in a row a key is forgotten" in said


def test_a_step_is_a_flowchart_and_data_without_secrets(tmp_path: Path) -> None:
    connection = {"type": "kafka", "bootstrap.servers": "h:9092", "sasl.jaas.config": "password"}
    step = _step(tmp_path, connections={"out": connection})
    chart = _invoke("describe", step, "--mermaid").stdout
    assert chart.startswith("flowchart LR\n")
    assert "rules --> out0" in chart
    result = _invoke("describe", step, "--json")
    data = json.loads(result.stdout)
    assert data["step"]["trigger"] == {
        "type": "count",
        "count": 2,
        "timeout": "1s",
        "shouldFireAtProcessingTime": True,
        "maxBytes": 268_435_456,
    }
    assert data["missing"] == ["source"]
    assert "password" not in result.stdout
    assert "password" not in _invoke("describe", step).stdout


RAN = """
open("{marker}", "a").close()
{more}
def aggregate(events, call):
    return None
"""


@pytest.mark.parametrize(
    "path", ["rules.py", "rules.py:aggregate", "pack/rules.py", "pack.rules", "pack.rules:aggregate"]
)
def test_a_check_runs_nothing_of_the_rules_unless_they_are_to_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    marker = tmp_path / "ran"
    step = _step(tmp_path, **AROUND, dsl={"path": path})
    (tmp_path / "pack").mkdir()
    for file in ("rules.py", "pack/rules.py", "pack/__init__.py"):
        (tmp_path / file).write_text(RAN.format(marker=marker, more="import not_there_at_all"), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    result = _invoke("check", step)
    assert result.exit_code == 0, result.output
    assert not marker.exists()
    result = _invoke("check", step, "--load")
    assert result.exit_code == 1
    assert marker.exists()
    assert "not_there_at_all" in _lines(result)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def aggregate(events call):", "line 1: this is not valid Python"),
        ("x = 1\0", "rules.py"),
        ("", "has no function 'aggregate'"),
        ("def _aggregate(events, call): ...", "has no public functions"),
        ("def one(a, b): ...\ndef two(a, b): ...", "its functions are one, two"),
        ("def aggregate(events): ...", "line 1: 'aggregate' cannot be the dsl rule"),
        ("def aggregate(events, call, more): ...", "it has the parameters (events, call, more)"),
        ("def aggregate(events, *, call): ...", "it has the parameters (events, *, call)"),
        ("async def aggregate(events, call): ...", "it is async"),
        ("class aggregate: ...", "it is not a function"),
    ],
)
@pytest.mark.parametrize("load", [False, True])
def test_what_is_wrong_with_the_text_of_rules_is_told_alike_whether_they_are_loaded(
    tmp_path: Path, text: str, said: str, load: bool
) -> None:
    step = _step(tmp_path)
    (tmp_path / "rules.py").write_text(text, encoding="utf-8")
    result = _invoke("check", step, *(["--load"] if load else []))
    assert result.exit_code == 1
    assert said in _lines(result)


@pytest.mark.parametrize(
    "text",
    [
        "def alone(events, call): ...",
        "def aggregate(*all): ...",
        "def aggregate(events, call, more=1, *, most=2): ...",
        "aggregate = lambda events, call: None",
        "if True:\n    def aggregate(events, call): ...",
        "try:\n    from nowhere import aggregate\nexcept ImportError:\n    def aggregate(events, call): ...",
        "import functools\n@functools.cache\ndef aggregate(events, call): ...",
        "def aggregate(events, call):\n    yield 1",
    ],
)
@pytest.mark.parametrize("load", [False, True])
def test_rules_that_can_be_called_are_well(tmp_path: Path, text: str, load: bool) -> None:
    step = _step(tmp_path)
    (tmp_path / "rules.py").write_text(text, encoding="utf-8")
    result = _invoke("check", step, *(["--load"] if load else []))
    assert result.exit_code == 0, result.output


def test_all_that_is_wrong_is_one_report(tmp_path: Path) -> None:
    """In sections, in what the command line lays over them, between sections, and in the files that they name."""
    (tmp_path / "bad.json").write_text("[1]", encoding="utf-8")
    destination = {**STEP["destination"], "config": {"name": "uot"}}
    step = _step(
        tmp_path,
        **{**AROUND, "source": {"type": "kafka", "topics": ["t"], "config": {"name": "out"}}},
        kye=1,
        environmentVariables={"source": "file", "path": "bad.json"},
        key={"type": "dsl", "source": "file", "path": "none.py"},
        destination=destination,
        error={**destination, "topic": "no topic"},
        branches=[{**destination, "name": "alarms"}],
    )
    (tmp_path / "rules.py").write_text("def aggregate(events): ...", encoding="utf-8")
    command = ["--set", "trigger.count=0"]
    wanted = [
        "--set: trigger.count: expected a whole number of 1 or more",
        "step.json: kye: unknown key",
        "step.json: error.topic: expected a topic",
        "step.json: source.config: expected a connection of type kafka",
        "step.json: destination.config.name: expected one of the connections (out), found 'uot'; did you mean 'out'?",
        "step.json: branches[0].config.name: expected one of the connections",
        "step.json: environmentVariables: bad.json",
        "step.json: key: there is no key rule 'none.py'",
        "step.json: dsl: ",
    ]
    result = _invoke("check", step, *command)
    assert result.exit_code == 1
    said = _lines(result)
    assert [each for each in wanted if each not in said] == []
    assert "9 problems:" in said
    result = _invoke("run", step, *command, "--engine", "local")
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert [each for each in wanted if each not in said] == []


def test_a_connection_that_is_wrong_is_there_all_the_same(tmp_path: Path) -> None:
    result = _invoke("check", _step(tmp_path, connections={"out": {"type": "fiels"}}))
    assert "1 problem:" in _lines(result)


@pytest.mark.parametrize(
    ("changed", "limit"),
    [
        ({"parallelism": 1_001}, "1_000"),
        ({"trigger": {"type": "count", "count": 10_000_001, "timeout": 1}}, "10_000_000"),
        ({"trigger": {"type": "time", "time": "11", "timePattern": "HH", "maxEmptyIntervals": 10**30}}, "36_500"),
        ({"source": {**AROUND["source"], "filesPerBatch": 10**9}}, "1_000_000"),
        (
            {"source": {"type": "kafka", "topic": "t", "config": {"name": "out"}, "maxOffsetsPerTrigger": 10**12}},
            "1_000_000_000",
        ),
    ],
)
def test_a_count_beyond_reason_is_refused(tmp_path: Path, changed: dict[str, Any], limit: str) -> None:
    result = _invoke("check", _step(tmp_path, **changed))
    assert result.exit_code == 1
    assert f"expected a whole number of 1 to {limit}, found 1" in _lines(result)
