"""The command line: what it prints, where, and the exit status that it ends with."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from tests.helpers.examples import sampled
from tests.helpers.places import ROOT, SCENARIOS
from topologies.cli.app import DemoFolder, app
from topologies.cli.consoles import only_json
from topologies.engine.report import BatchReport, BoltReport
from topologies.graph.describing import as_mermaid, to_json, topology_text
from topologies.run.summary import short_duration
from windbolt import TopologyBuilder, sinks, spouts
from windowing import (
    Changes,
    Deduplicate,
    StatefulWindowedBolt,
    TemporalJoin,
    TupleWindow,
    Union,
    WindowedBolt,
    presets,
    seconds,
)
from windowing.errors import BoltError, ConfigError, EnvironmentMissing
from windowing.settings.panes import Panes, PaneTrigger, after_clock, after_count, after_event_time
from windowing.settings.words import trigger_in_words

WORKED = SCENARIOS / "worked"
OFFICIAL = WORKED / "storm_official_example.yaml"

TOPOLOGY = """
import datetime, sys, time
from windbolt import TopologyBuilder, sinks, spouts
from windowing import WindowedBolt, seconds

print("printed while loading")

class Count(WindowedBolt):
    outputs = "n long"
    def execute(self, window):
        print("printed by the bolt")
        time.sleep({pause})
        {body}
        return (len(window.table),)

def at(second):
    return datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(seconds=second)

builder = TopologyBuilder("counting")
batches = [[("a", at(10 * n + 3)), ("b", at(10 * n + 7)), ("c", None)] for n in range({batches})]
builder.set_spout("events", spouts.memory("id string, ts timestamp", *batches))
bolt = Count().with_tumbling_window("10s").with_timestamp_field("ts").with_lag("2s").with_late_tuple_stream("late")
builder.set_bolt("count", bolt, parallelism=2).shuffle_grouping("events")
builder.set_sink("counts", sinks.console()).from_("count")
topology = builder.build()
"""

SCENARIO = {
    "name": "two",
    "bolt": {"length": "10s", "tumbling": True, "timestamp_field": "ts"},
    "steps": [{"event": {"id": "a", "ts": 1000}}, {"event": {"id": "b", "ts": 12000}}, {"tick": "watermark"}],
}
HOLDS = {**SCENARIO, "name": "holds", "expect": {"windows": [{"end": 10000, "events": ["a"]}], "pending": ["b"]}}
FAILS = {**SCENARIO, "name": "fails", "expect": {"windows": [{"end": 10000, "events": ["b"]}]}}


def _topology(folder: Path, *, body: str = "pass", pause: float = 0, batches: int = 3) -> str:
    path = folder / "counting.py"
    path.write_text(TOPOLOGY.format(body=body, pause=pause, batches=batches), encoding="utf-8")
    return f"{path}:topology"


def _file(folder: Path, *scenarios: object, name: str = "given.jsonl") -> str:
    path = folder / name
    lines = (given if isinstance(given, str) else json.dumps(given) for given in scenarios)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def _invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "160"})


def _process(*arguments: str | Path, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "topologies.cli.app", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "160", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _run(*arguments: str | Path, cwd: Path) -> tuple[int, str, str]:
    process = _process(*arguments, cwd=cwd)
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err


def _report(**given: Any) -> BoltReport:
    nothing = {"watermark": None, "new_watermark": None, "behind": None, "windows": 0, "fired": 0, "open": 0}
    return BoltReport(**{**nothing, "accounts": {}, "streams": {}, **given})


# --- replay


def test_a_scenario_that_holds_is_drawn_and_ends_with_0() -> None:
    result = _invoke("replay", OFFICIAL)
    assert result.exit_code == 0
    assert "✓ as expected" in result.stdout
    assert "#5 (08:00:10..08:00:30]" in result.stdout
    assert result.stderr == ""


def test_a_scenario_that_does_not_hold_ends_with_1_and_says_where(tmp_path: Path) -> None:
    result = _invoke("replay", _file(tmp_path, FAILS))
    assert result.exit_code == 1
    assert "windows[0]: events: expected {end: 10000, events: [b]}, found {end: 10000, events: [a]}" in result.stdout
    assert "not as expected" in result.stdout


def test_a_scenario_without_expectations_holds(tmp_path: Path) -> None:
    result = _invoke("replay", _file(tmp_path, SCENARIO), "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["ok"] is None


def test_what_is_malformed_ends_with_2_and_the_others_are_answered(tmp_path: Path) -> None:
    first = _file(tmp_path, HOLDS, "{not json", {**HOLDS, "bolt": {"lenght": "10s"}}, FAILS)
    second = _file(tmp_path, {**HOLDS, "name": "other"}, name="second.jsonl")
    status, out, err = _run("replay", first, "nowhere.yaml", second, "--json", cwd=tmp_path)
    assert status == 2
    answers = [json.loads(line) for line in out.splitlines()]
    assert [(answer["name"], answer["ok"]) for answer in answers] == [
        ("holds", True),
        ("fails", False),
        ("other", True),
    ]
    assert f"{first}:2: expected JSON" in err
    assert f"{first}:3 (holds):" in err
    assert "bolt.lenght: unknown key; did you mean 'length'?" in err
    assert "nowhere.yaml: expected a file, found none of this name" in err
    assert "windows[0]: events" in err


@pytest.mark.parametrize(
    ("scenario", "status"),
    [
        pytest.param(HOLDS, 0, marks=pytest.mark.extended),
        (FAILS, 1),
        pytest.param({**HOLDS, "steps": 5}, 2, marks=pytest.mark.extended),
    ],
)
@pytest.mark.parametrize("options", sampled([(), ("--json",), ("-q",)], 3))
def test_the_exit_status_is_that_of_the_process(
    tmp_path: Path, scenario: object, status: int, options: tuple[str, ...]
) -> None:
    assert _run("replay", _file(tmp_path, scenario), *options, cwd=tmp_path)[0] == status


def test_an_answer_has_the_keys_of_the_contract_and_no_others() -> None:
    result = _invoke("replay", OFFICIAL, "--json")
    (line,) = result.stdout.splitlines()
    keys = ["name", "ok", "windows", "late", "watermarks", "pending", "counts", "outputs"]
    keys += ["events", "clocks", "metrics"]
    assert list(json.loads(line)) == keys


def test_a_bolt_that_contradicts_itself_is_malformed(tmp_path: Path) -> None:
    given = {"name": "odd", "bolt": {"length": "10s", "lag": "1s"}, "steps": [{"clock": 1}]}
    result = _invoke("replay", _file(tmp_path, given, HOLDS), "--json")
    assert result.exit_code == 2
    assert [json.loads(line)["name"] for line in result.stdout.splitlines()] == ["holds"]
    assert "given.jsonl:1 (odd): topology 'scenario' cannot be built" in result.stderr


def test_a_failing_bolt_fails_its_scenario_and_no_other(tmp_path: Path) -> None:
    _topology(tmp_path, body="raise ZeroDivisionError('oh')")
    events = [{"event": {"id": "a", "ts": f"2024-01-01T00:00:{n:02}Z"}, "stream": "events"} for n in (3, 27)]
    mine = {"name": "mine", "topology": "counting.py:topology", "steps": [*events, {"tick": "watermark"}]}
    result = _invoke("replay", _file(tmp_path, mine, HOLDS), "--json")
    assert result.exit_code == 1
    assert [json.loads(line)["ok"] for line in result.stdout.splitlines()] == [False, True]
    assert "ZeroDivisionError: oh" in result.stderr


def test_a_topology_is_found_beside_the_scenario_that_names_it(tmp_path: Path) -> None:
    _topology(tmp_path)
    mine = {"name": "mine", "topology": "counting.py:topology", "steps": [{"tick": "watermark"}]}
    assert _invoke("replay", _file(tmp_path, mine)).exit_code == 0


def test_many_scenarios_take_a_line_each_and_only_some_that_fail_are_drawn(tmp_path: Path) -> None:
    given = [{**HOLDS, "name": f"good{n}"} for n in range(4)] + [{**FAILS, "name": f"bad{n}"} for n in range(5)]
    result = _invoke("replay", _file(tmp_path, *given))
    assert result.exit_code == 1
    assert len(re.findall(r"^ok ", result.stdout, re.M)) == 4
    assert len(re.findall(r"^FAILED ", result.stdout, re.M)) == 5
    assert result.stdout.count("─ differences ─") == 3
    assert "the other 6 not drawn, there are more than 5 scenarios; --draw draws all" in result.stdout
    assert result.stdout.endswith("9 scenarios: 4 as expected, 5 not as expected\n")


def test_all_of_many_scenarios_are_drawn_if_asked_for(tmp_path: Path) -> None:
    given = [{**HOLDS, "name": f"good{n}"} for n in range(6)]
    listed = _invoke("replay", _file(tmp_path, *given)).stdout
    assert "pending" not in listed
    assert "\nnot drawn, there are more than 5 scenarios; --draw draws all\n" in listed
    drawn = _invoke("replay", "--draw", _file(tmp_path, *given)).stdout
    assert drawn.count("✓ as expected\n") == 6
    assert "not drawn" not in drawn
    assert drawn.endswith("6 scenarios: 6 as expected\n")
    table = _invoke("replay", "--draw", SCENARIOS / "azure/illustrated_1_all_policies.yaml").stdout
    assert "adjusted" in table
    assert _invoke("replay", "--draw", "--json", OFFICIAL).exit_code == 2


def test_a_scenario_that_is_malformed_only_at_build_is_counted(tmp_path: Path) -> None:
    wrong = {**HOLDS, "bolt": {**HOLDS["bolt"], "late": "drop", "late_stream": "late"}}  # type: ignore[dict-item]
    result = _invoke("replay", _file(tmp_path, wrong, "{"))
    assert result.exit_code == 2
    assert result.stdout.endswith("2 scenarios: 2 malformed\n")
    result = _invoke("replay", _file(tmp_path, wrong, HOLDS))
    assert result.stdout.endswith("2 scenarios: 1 as expected, 1 malformed\n")


def test_quiet_names_only_what_fails(tmp_path: Path) -> None:
    result = _invoke("replay", "-q", _file(tmp_path, HOLDS, FAILS))
    assert "holds" not in result.stdout
    assert "(fails)" in result.stdout
    assert result.stdout.endswith("2 scenarios: 1 as expected, 1 not as expected\n")


def test_scenarios_on_spark_are_asked_for_together_and_one_cannot_lose_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from topologies.scenarios.replay import replay_locally

    calls = []

    def fake(scenarios, topology=None):
        calls.append([scenario.name for scenario in scenarios])
        if any(scenario.name == "bad" for scenario in scenarios):
            raise BoltError("it failed")
        return [replay_locally(scenario) for scenario in scenarios]

    monkeypatch.setitem(sys.modules, "topologies.spark.spark_replay", type(sys)("topologies.spark.spark_replay"))
    sys.modules["topologies.spark.spark_replay"].replay_on_spark = fake  # type: ignore[attr-defined]
    one = _file(tmp_path, HOLDS, {**HOLDS, "name": "bad"})
    two = _file(tmp_path, {**HOLDS, "name": "last"}, name="two.jsonl")
    result = _invoke("replay", one, two, "--engine", "spark", "--json")
    assert calls[0] == ["holds", "bad", "last"]
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(answer["name"], answer["ok"]) for answer in answers] == [("holds", True), ("bad", False), ("last", True)]
    assert result.exit_code == 1


def test_a_missing_java_ends_a_replay_on_spark_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(scenarios, topology=None):
        raise EnvironmentMissing("Java is missing", do="install it")

    monkeypatch.setitem(sys.modules, "topologies.spark.spark_replay", type(sys)("topologies.spark.spark_replay"))
    sys.modules["topologies.spark.spark_replay"].replay_on_spark = fake  # type: ignore[attr-defined]
    result = _invoke("replay", _file(tmp_path, HOLDS, HOLDS), "--engine", "spark")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: Java is missing\n  do:  install it\n"


# --- run


def test_a_local_run_shows_a_line_per_batch_and_the_accounts(tmp_path: Path) -> None:
    status, out, err = _run("run", _topology(tmp_path), "--engine", "local", cwd=tmp_path)
    assert status == 0
    lines = re.findall(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ((?:batch|after batch).*)", out, re.M)
    assert len(lines) == 4
    assert lines[1].startswith("batch 1: 3 rows, ")
    assert "\n  count: 2024-01-01T00:00:15Z (2s behind), windows 2 (+2), open 2, pending 2,\n    invalid 2\n" in out
    assert re.search(r"windowed +6\b", out)
    assert re.search(r"\+ invalid +3\b", out)
    assert re.search(r"= received +9\b", out)
    assert re.search(r"^ *events +9 +0 +0", out, re.M)
    assert "warning: count: events: row 2: timestamp is null" in err


def test_json_is_all_that_is_on_standard_output(tmp_path: Path) -> None:
    status, out, err = _run("run", _topology(tmp_path), "--engine", "local", "--json", cwd=tmp_path)
    assert status == 0
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line.get("batch") for line in lines[:-1]] == [0, 1, 2, 2]
    assert lines[-1]["summary"] is True
    assert lines[-1]["rows"] == 9
    assert "printed while loading" in err
    assert "printed by the bolt" in err


def test_other_processes_cannot_write_between_the_lines_of_json(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "from topologies.cli.consoles import only_json\n"
        "with only_json() as write:\n"
        "    subprocess.run([sys.executable, '-c', 'print(\"from elsewhere\")'], check=True)\n"
        "    print('from here')\n"
        "    write({'a': 1})\n"
        "print('after')\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == '{"a": 1}\nafter\n'
    assert "from elsewhere" in done.stderr
    assert "from here" in done.stderr


def test_json_that_nobody_reads_any_more_is_no_error() -> None:
    code = (
        "from topologies.cli.consoles import only_json\n"
        "with only_json() as write:\n"
        "    while write({'a': 'b' * 1000}): pass\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=300) == 0
    assert process.stderr.read() == ""
    process.stderr.close()


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_run_whose_output_nobody_reads_any_more_goes_on_and_says_so(tmp_path: Path, more: list[str]) -> None:
    process = _process("run", _topology(tmp_path, pause=0.1), "--engine", "local", *more, cwd=tmp_path)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read()
    assert process.wait(timeout=300) == 0, said
    assert said.count("nobody reads standard output any more; the run goes on") == 1
    assert "Traceback" not in said
    process.stderr.close()


def test_a_run_goes_on_where_nobody_reads_its_warnings_either(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "topologies.cli.app", "run", _topology(tmp_path), "--engine", "local"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=writing, stderr=writing)
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    assert process.wait(timeout=300) == 0


def test_only_json_serves_a_replaced_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    with only_json() as write:
        print("elsewhere")
        assert write([1, 2])
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("[1, 2]\n", "elsewhere\n")


@pytest.mark.parametrize("number", sampled([signal.SIGTERM, signal.SIGINT], 2))
def test_the_first_signal_lets_the_batch_end_and_exits_with_0(tmp_path: Path, number: signal.Signals) -> None:
    reference = _topology(tmp_path, pause=0.1, batches=200)
    process = _process("run", reference, "--engine", "local", "--json", cwd=tmp_path)
    assert process.stdout is not None
    assert '"batch": 0' in process.stdout.readline()
    process.send_signal(number)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0
    assert json.loads(out.splitlines()[-1])["stopped"] is True
    assert "finishing the batch" in err


def test_the_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    process = _process("run", _topology(tmp_path, pause=10_000), "--engine", "local", "--json", cwd=tmp_path)
    assert process.stderr is not None
    while "printed by the bolt" not in process.stderr.readline():
        pass  # what a bolt prints is there at once, and not when its batch ends
    process.send_signal(signal.SIGINT)
    while "once more" not in process.stderr.readline():
        pass
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)
    assert process.returncode == 130
    assert time.monotonic() - started < 30


def test_a_failing_bolt_ends_with_1_and_no_traceback(tmp_path: Path) -> None:
    reference = _topology(tmp_path, body="raise ZeroDivisionError('oh')")
    result = _invoke("run", reference, "--engine", "local")
    assert result.exit_code == 1
    assert "error: bolt 'count' failed" in result.stderr
    assert "  why: ZeroDivisionError: oh" in result.stderr
    assert "  do:  fix it" in result.stderr
    assert "Traceback" not in result.stderr
    assert "Traceback" in _invoke("run", reference, "--engine", "local", "--debug").stderr


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ((), "a run on Spark without a checkpoint"),
        (("--engine", "local", "--every", "5s"), "a local run with a trigger interval and no checkpoint"),
        (("--engine", "local", "--conf", "a=b"), "--conf with --engine local"),
        (("--checkpoint", "ck", "--every", "soon"), "'soon' is not a duration"),
        (("--checkpoint", "ck", "--every", "0s"), "every='0s'"),
        (("--checkpoint", "ck", "--conf", "novalue"), "--conf 'novalue'"),
    ],
)
def test_options_that_cannot_be_end_with_2(tmp_path: Path, options: tuple[str, ...], what: str) -> None:
    result = _invoke("run", _topology(tmp_path), *options)
    assert result.exit_code == 2
    assert f"error: {what}" in result.stderr
    assert "  do:  " in result.stderr


@pytest.mark.parametrize("reference", ["no_such_file.py:topology", "counting.py", "counting.py:wrong"])
def test_a_topology_that_is_not_there_ends_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: str
) -> None:
    _topology(tmp_path)
    monkeypatch.chdir(tmp_path)
    result = _invoke("describe", reference)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ") or "\nerror: " in result.stderr


def test_all_the_mistakes_of_a_topology_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(
        "from windbolt import TopologyBuilder, sinks, spouts\n"
        "b = TopologyBuilder('wrong')\n"
        "b.set_spout('s', spouts.memory('id string'))\n"
        "b.set_sink('one', sinks.discard()).from_('nobody')\n"
        "b.set_sink('two', sinks.discard())\n"
        "topology = b.build()\n"
    )
    result = _invoke("run", f"{path}:topology", "--engine", "local")
    assert result.exit_code == 2
    assert "topology 'wrong' cannot be built, 2 problems" in result.stderr
    assert re.search(r"^  1\. sink 'one' takes 'nobody'\n     why: ", result.stderr, re.M)
    assert re.search(r"^  2\. sink 'two' reads no stream\n     do:  ", result.stderr, re.M)


def test_spark_is_given_the_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from topologies.run.summary import Summary

    given: dict[str, Any] = {}

    def fake(topology, options, *, master=None, conf=None, spark=None, metrics=None):
        given.update(options=options, master=master, conf=conf)
        return Summary()

    monkeypatch.setattr("topologies.spark.running.run_on_spark", fake)
    options = ["--every", "10s", "--keep-open", "--master", "local[2]", "--conf", "a.b=c=d", "--conf", "e=f"]
    result = _invoke("run", _topology(tmp_path), "--checkpoint", "ck", *options)
    assert result.exit_code == 0, result.stderr
    assert given["master"] == "local[2]"
    assert given["conf"] == {"a.b": "c=d", "e": "f"}
    assert given["options"].checkpoint == "ck"
    assert given["options"].interval == seconds(10)
    assert given["options"].keep_open is True


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "0s"),
        (7, "7us"),
        (20_000, "20ms"),
        (12_500_000, "12.5s"),
        (65_000_000, "1m 5s"),
        (7_200_000_000, "2h"),
        (93_600_000_000, "1d 2h"),
    ],
)
def test_a_span_is_spoken_in_its_two_largest_units(micros: int, text: str) -> None:
    assert short_duration(micros) == text


def test_accounts_that_do_not_add_up_are_seen() -> None:
    from rich.console import Console

    from topologies.cli.displays import accounts_table

    report = _report(accounts={"received": 5, "windowed": 3, "late": 1, "pending": 0})
    console = Console(width=80)
    with console.capture() as capture:
        console.print(accounts_table({"bolt": report}))
    assert "5, not 4" in capture.get()


def test_the_display_of_a_terminal_names_bolts_watermarks_and_windows() -> None:
    from rich.console import Console

    from topologies.cli.displays import LiveProgress

    topology = _two_bolts()
    bolt = _report(
        watermark=1_704_067_230_000_000,
        behind=5_000_000,
        windows=2,
        fired=12,
        open=3,
        accounts={"late": 4, "pending": 6, "invalid": 1},
    )
    display = LiveProgress(topology)
    display.report(BatchReport(7, False, 0, 1000, {"total": 0.5}, {"<slow>": bolt}, {}))
    display.note("stopping")
    console = Console(width=120)
    with console.capture() as capture:
        console.print(display)
    shown = " ".join(capture.get().split())
    assert "batch 7: 1,000 rows, 2,000 rows/s" in shown
    assert "<slow> 2024-01-01T00:00:30Z 5s 12 (+2) 3 4 6 1" in shown
    assert "stopping" in shown


# --- describe


class _Each(WindowedBolt):
    outputs = {"default": "n long", "more": "a string"}  # noqa: RUF012

    def execute(self, window: TupleWindow) -> None:
        return None


def _two_bolts():
    builder = TopologyBuilder("odd")
    builder.set_spout("in", spouts.memory("id string, ts timestamp"))
    first = _Each().with_window("20s", "30s").with_timestamp_field("ts").with_lag("5s").with_late_tuple_stream("late")
    builder.set_bolt("first", first, parallelism=3).fields_grouping("in", "id")
    builder.set_bolt("second", _Each().with_window(5).with_time(processing=True)).shuffle_grouping("first", "more")
    builder.set_sink("out", sinks.foreach_batch(print, frame="arrow")).from_("second")
    return builder.build()


def test_a_topology_is_described_in_words() -> None:
    text = topology_text(_two_bolts())
    for line in (
        "spout in\n  from     memory, 0 batches\n  emits    id string, ts timestamp",
        "bolt first (_Each, 3 tasks)\n  reads    in, grouping fields(id)",
        "  windows  20s long, one every 30s, (start, end]; what falls between two windows is in none",
        "  time     event time from ts, lag 5s",
        "  late     to stream first.late, which nothing reads",
        "           more: a string",
        "  reads    first.more, grouping shuffle\n  windows  the last 5 events, at every event",
        "  time     processing time: the clock at an event's arrival",
        "sink out\n  takes    second\n  to       function print (arrow)",
    ):
        assert line in text


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        (after_count(100), "every 100 events"),
        (after_count(1), "every event"),
        (after_clock("10s"), "every 10s of the clock"),
        (after_event_time("1m"), "every 1m of event time"),
        (after_clock("10s", even_unchanged=True), "every 10s of the clock, even unchanged"),
        (after_count(5).once(), "once after 5 events"),
        (after_count(100) | after_clock("10s"), "every 100 events or every 10s of the clock"),
        (
            (after_count(2) | after_clock("1s")) & after_count(1).once(),
            "(every 2 events or every 1s of the clock) and once after 1 event",
        ),
    ],
)
def test_triggers_are_put_in_words(trigger: PaneTrigger, words: str) -> None:
    assert trigger_in_words(trigger) == words


def _described(bolt: WindowedBolt) -> str:
    builder = TopologyBuilder("one")
    builder.set_spout("in", spouts.memory("id string, ts timestamp"))
    builder.set_bolt("b", bolt.with_timestamp_field("ts")).global_grouping("in")
    built = builder.build()
    assert "(value=" not in json.dumps(to_json(built)["bolts"][0]["time"])
    return topology_text(built)


def test_the_rules_of_time_are_described_a_line_each_with_what_becomes_of_late_events() -> None:
    tumbling = _Each().with_tumbling_window("10s")
    text = _described(tumbling.with_time(presets.azure()))
    assert max(map(len, text.splitlines())) < 100
    assert "  late     by arrival: moved to the earliest time that is in time\n" in text
    assert "           behind the watermark: moved to the watermark\n" in text
    assert "           early: counted only; with_late_tuple_stream gives them a stream" in text
    dropped = _described(tumbling.with_lateness(action="drop"))
    assert "  late     dropped, and counted as such" in dropped
    assert "with_late_tuple_stream" not in dropped
    panes = _described(tumbling.with_trigger(Panes(early=after_count(100) | after_clock("10s"))))
    assert (
        "           fires more than once: before its end (every 100 events or every 10s of the clock); "
        "each time with all its events\n"
    ) in panes
    corrected = _described(
        tumbling.with_lateness(by="window", allowed="1m").with_trigger(Panes(late=True, mode="retracting"))
    )
    assert "fires more than once: when late events come (every event); each time the rows of the time" in corrected


def test_a_join_and_a_union_are_described() -> None:
    builder = TopologyBuilder("two")
    builder.set_spout("one", spouts.memory("id string, ts timestamp, until timestamp"))
    builder.set_spout("two", spouts.memory("id string, ts timestamp"))
    join = TemporalJoin("one", "two", on="id").with_lifetime("until").with_timestamp_field("ts")
    builder.set_bolt("join", join).global_grouping("one").global_grouping("two")
    union = Union().with_timestamp_field("ts")
    builder.set_bolt("all", union).global_grouping("one").global_grouping("two")
    text = topology_text(builder.build())
    assert text.count("  windows  each moment at which an event begins") == 1
    assert text.count("  windows  none: each event by itself, in order of time, once the watermark has passed") == 1
    assert text.count("what is emitted has the time of the window's start") == 1


def test_a_ready_bolt_that_holds_events_back_is_described_without_windows_and_with_what_it_remembers() -> None:
    text = _described(Deduplicate("id", within="10m"))
    assert "  windows  none: " in text
    assert "  state    of the events that have passed: their time and id, for 10m\n" in text
    assert "  state    of the events that have passed: their time and id, ts\n" in _described(Changes("id"))


def test_a_table_of_a_bolt_s_state_is_described_by_its_columns() -> None:
    class Seen(StatefulWindowedBolt):
        outputs = "n long"
        state_types: ClassVar = {"visits": dict, "last": pa.schema([("user", pa.string()), ("at", pa.int64())])}

        def execute(self, window):
            return None

    text = _described(Seen().with_tumbling_window("10s"))
    assert "  state    visits dict, last (user string, at long)\n" in text


def test_a_topology_is_a_flowchart() -> None:
    chart = as_mermaid(_two_bolts()).splitlines()
    assert chart[0] == "flowchart LR"
    assert chart[1] == '    n0(["in<br/>memory, 0 batches"])'
    assert '    n0 -->|"fields(id)"| n1' in chart
    assert '    n1 -->|"more<br/>shuffle"| n2' in chart
    assert chart[-1] == "    n2 --> n3"


def test_labels_of_a_flowchart_are_escaped() -> None:
    builder = TopologyBuilder("odd")
    builder.set_spout("in", spouts.memory('`a"<b>|` string'))
    bolt = _Each().with_window(5)
    builder.set_bolt("b", bolt).fields_grouping("in", 'a"<b>|')
    assert '-->|"fields(a#34;#60;b#62;#124;)"|' in as_mermaid(builder.build())


def test_describe_prints_text_mermaid_or_json_and_nothing_else(tmp_path: Path) -> None:
    reference = _topology(tmp_path)
    assert _invoke("describe", reference).stdout.startswith("topology counting\n")
    assert _invoke("describe", reference, "--mermaid").stdout.startswith("flowchart LR\n")
    described = json.loads(_invoke("describe", reference, "--json").stdout)
    assert described["bolts"][0]["window"]["length"] == "10s"
    assert described["bolts"][0]["time"]["lag"] == "2s"
    assert _invoke("describe", reference, "--json", "--mermaid").exit_code == 2


# --- the command as a whole


def test_the_version_is_printed() -> None:
    result = _invoke("--version")
    assert result.exit_code == 0
    assert re.fullmatch(r"windbolt \S.*\n", result.stdout)


@pytest.mark.parametrize("arguments", [("fly",), ("replay",), ("run",), ("replay", OFFICIAL, "--wrong")])
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...]) -> None:
    assert _invoke(*arguments).exit_code == 2


@pytest.mark.parametrize("command", ["run", "replay", "describe", "demo", "checkpoint"])
def test_every_command_has_help(command: str) -> None:
    result = _invoke(command, "--help")
    assert result.exit_code == 0
    assert "--debug" in result.stdout


def test_neither_help_nor_a_replay_imports_spark(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from topologies.cli.app import app\n"
        f"assert CliRunner().invoke(app, ['replay', {str(OFFICIAL)!r}]).exit_code == 0\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "assert CliRunner().invoke(app, ['checkpoint', 'no-such-folder']).exit_code == 2\n"
        "print([name for name in ('pyspark', 'py4j') if name in sys.modules])\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_terminal_without_the_characters_is_no_reason_to_fail(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "topologies.cli.app", "replay", str(OFFICIAL)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "as expected" in done.stdout


# --- the demo's folder


def test_the_demo_keeps_out_of_folders_that_are_not_its_own(tmp_path: Path) -> None:
    from rich.console import Console

    (tmp_path / "precious").write_text("x")
    with pytest.raises(ConfigError, match="something other than results of the demo"):
        DemoFolder(tmp_path).prepare({"lag": "1h"}, Console(), fresh=False)
    assert (tmp_path / "precious").exists()


@pytest.mark.parametrize(
    ("ended", "settings", "fresh", "kept"),
    [
        (True, {"lag": "1h"}, False, False),
        (False, {"lag": "1h"}, False, True),
        (False, {"lag": "2h"}, False, False),
        (False, {"lag": "1h"}, True, False),
    ],
    ids=["finished", "stopped", "other settings", "always afresh"],
)
def test_a_demo_continues_only_one_that_was_stopped(
    tmp_path: Path, ended: bool, settings: dict[str, str], fresh: bool, kept: bool
) -> None:
    from rich.console import Console

    folder, console = DemoFolder(tmp_path / "demo"), Console(width=200)
    folder.prepare({"lag": "1h"}, console, fresh=False)
    folder.input.mkdir()
    folder.output.mkdir()
    if ended:
        folder.mark_finished()
    with console.capture() as capture:
        folder.prepare(settings, console, fresh=fresh)
    assert folder.output.exists() is kept
    assert folder.input.exists()
    assert ("continues" if kept else "afresh") in capture.get()


@pytest.mark.parametrize("command", [None, ".venv/bin/windbolt"])
def test_the_demo_names_the_command_that_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str | None
) -> None:
    from rich.console import Console

    from topologies.cli.app import _print_results

    monkeypatch.delenv("WINDBOLT_COMMAND", raising=False)
    if command is not None:
        monkeypatch.setenv("WINDBOLT_COMMAND", command)
    console = Console(width=500)
    with console.capture() as capture:
        _print_results(console, DemoFolder(tmp_path))
    assert f"windows   {command or 'windbolt'} replay {tmp_path}" in capture.get()


def test_the_example_of_the_demo_holds(tmp_path: Path) -> None:
    import topologies.cli.app

    example = tmp_path / "example.yaml"
    shutil.copyfile(Path(topologies.cli.app.__file__).with_name("example.yaml"), example)
    assert _invoke("replay", example).exit_code == 0
