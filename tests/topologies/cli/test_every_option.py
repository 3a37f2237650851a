"""Every command with each of its arguments misspelled, wrong, missing and doubled: it says so, and does nothing.

Commands and options are those of the command line itself; a new one needs a valid value in ``VALID``.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tests.helpers.examples import sampled
from topologies.cli.app import app

TOPOLOGY = """
from windbolt import AggregateBolt, TopologyBuilder, sinks, spouts
from windbolt.aggregates import count

builder = TopologyBuilder("counting")
builder.set_spout("events", spouts.files("in/*.jsonl", schema="id string, ts timestamp"))
bolt = AggregateBolt(n=count()).with_tumbling_window("10s").with_timestamp_field("ts")
builder.set_bolt("count", bolt).global_grouping("events")
builder.set_sink("out", sinks.files("out", format="jsonl")).from_("count")
topology = builder.build()
"""
SCENARIO = """
name: one
topology: t.py:topology
steps:
  - {event: {id: a, ts: 1000}, stream: events}
  - {close: true}
expect: {late: []}
"""
ANY_TEXT = None
"""Where no text is wrong."""


@dataclass(frozen=True)
class Command:
    """A command's valid words, and for each option a valid value and a wrong one."""

    arguments: list[str]
    wrong_argument: str | None
    options: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    """By the option: a valid value, None for a flag; and a wrong one, ANY_TEXT where there is none."""
    always: list[str] = field(default_factory=list)
    """Options without which the command does more than a test should."""


FLAG = (None, None)
OF_STEPS = {
    "--with": ("more.conf", "missing.conf"),
    "--set": ("trigger.time=1", "nonsense"),
    "--no-file-rules": FLAG,
    "--debug": FLAG,
}
VALID = {
    "demo": Command([], None, {"--engine": ("local", "sprak"), "--output": ("demo", ANY_TEXT),
                               "--lag": ("1h", "5 parsecs"), "--master": ("local[1]", ANY_TEXT), "--json": FLAG,
                               "--debug": FLAG}),
    "new": Command(["shop"], "t.py", {"--example": ("join", "jion"), "--debug": FLAG}),
    "run": Command(
        ["t.py:topology"], "missing.py:topology",
        {"--checkpoint": ("ck", ""), "--engine": ("local", "sprak"), "--every": ("2s", "5 parsecs"),
         "--keep-open": FLAG, "--first-output": ("2024-01-01T00:00:00Z", "yesterday"), "--keep-batches": ("3", "many"),
         "--allow-rescale": FLAG, "--restart": FLAG, "--restart-attempts": ("3", "many"),
         "--restart-max-backoff": ("10s", "5 parsecs"), "--master": ("local[1]", ANY_TEXT),
         "--conf": ("a=b", "nonsense"),
         "--metrics": ("9464", "the usual"), "--otel": FLAG, "--ui": ("8765", "the usual"), "--strict": FLAG,
         "--json": FLAG,
         **OF_STEPS},
        always=["--engine", "local"],
    ),
    "replay": Command(
        ["one.yaml"], "missing.yaml",
        {"--engine": ("local", "sprak"), "--topology": ("t.py:topology", "t.py:nothing"), "--json": FLAG,
         "--quiet": FLAG, "--draw": FLAG, "--watch": FLAG, "--record": ("t.py:topology", "t.py:nothing"),
         "--html": ("out.html", "missing/out.html"), "--svg": ("out.svg", ""), "--png": ("out.png", "missing/out.png"),
         "--debug": FLAG},
    ),
    "describe": Command(["t.py:topology"], "t.py:nothing", {"--mermaid": FLAG, "--json": FLAG, **OF_STEPS}),
    "check": Command(["t.py:topology"], "t.py:nothing", {"--load": FLAG, "--strict": FLAG, **OF_STEPS}),
    "why": Command(
        ["ck"], "missing",
        {"--bolt": ("count", "cuont"), "--key": ("ada", ANY_TEXT), "--window": ("12:00", "noon"), "--json": FLAG,
         "--debug": FLAG},
    ),
    "ui": Command(["ck"], "missing", {"--port": ("8765", "the usual"), "--debug": FLAG}),
    "rescale": Command(
        ["ck"], "missing",
        {"--parallelism": ("count=2", "nonsense"), "--topology": ("t.py:topology", "t.py:nothing"), "--json": FLAG,
         **OF_STEPS},
        always=["--parallelism", "count=2"],
    ),
    "state": Command(
        ["ck", "count"], "missing",
        {"--table": ("events", "evnets"), "--task": ("0", "first"), "--key": ("ada", ANY_TEXT),
         "--since": ("2024-01-01T00:00:00Z", "yesterday"), "--until": ("2024-01-02T00:00:00Z", "tomorrow"),
         "--batch": ("0", "yesterday"), "--rows": ("5", "-1"), "--to": ("tables", ""), "--format": ("csv", "csvv"),
         "--json": FLAG, "--debug": FLAG},
    ),
    "savepoint": Command(
        ["ck", "saved"], "missing", {"--moved": ("in=now", "nonsense"), "--json": FLAG, "--debug": FLAG}
    ),
    "reset": Command(
        ["ck", "count"], "missing",
        {"--topology": ("t.py:topology", "t.py:nothing"), "--json": FLAG, **OF_STEPS},
        always=["--topology", "t.py:topology"],
    ),
    "checkpoint": Command(["ck"], "missing", {"--back-to": ("0", "yesterday"), "--json": FLAG, "--debug": FLAG}),
}  # fmt: skip
MAY_STAND_ALONE = {"--ui"}
"""Options whose value may be left out."""
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def _options(name: str) -> dict[str, Any]:
    params = COMMANDS[name].params
    return {each.opts[0]: each for each in params if each.param_type_name == "option" and each.name != "help"}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with input, a topology, a scenario, and the checkpoint of a run that has left its window open."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "in").mkdir()
    (folder / "in/1.jsonl").write_text('{"id": "a", "ts": "2024-01-01T00:00:00Z"}\n')
    (folder / "t.py").write_text(TOPOLOGY)
    (folder / "one.yaml").write_text(SCENARIO)
    (folder / "more.conf").write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run = ["run", "t.py:topology", "--engine", "local", "--checkpoint", "ck", "--keep-open"]
        done = CliRunner().invoke(app, run)
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture(autouse=True)
def _folder(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


def test_there_are_valid_values_for_every_option() -> None:
    assert {name: set(_options(name)) for name in COMMANDS} == {name: set(VALID[name].options) for name in VALID}


def _mistakes(name: str) -> Iterator[tuple[str, list[str]]]:
    command = VALID[name]
    words = [*command.always, *command.arguments]
    yield "an unknown option", [*words, "--no-such-option"]
    positional = [each for each in COMMANDS[name].params if each.param_type_name == "argument"]
    if command.arguments:
        yield "without its argument", command.always
        yield "a wrong argument", [*command.always, str(command.wrong_argument)]
    if not any(each.nargs == -1 for each in positional):
        yield "an argument too many", [*words, "more"]
    for option, (value, wrong) in command.options.items():
        rest = words if option not in command.always else command.arguments
        given = [option] if value is None else [option, value]
        yield f"{option} misspelled", [*rest, option[:-1], *given[1:]]
        if not _options(name)[option].multiple:
            yield f"{option} twice", [*rest, *given, *given]
        if value is None:
            yield f"{option} with a value", [*rest, f"{option}=yes"]
        elif option not in MAY_STAND_ALONE:
            yield f"{option} without a value", [*rest, option]
        if wrong is not None:
            yield f"{option} {wrong}", [*rest, option, wrong]


MISTAKES = {f"{name}: {label}": [name, *words] for name in VALID for label, words in _mistakes(name)}


def files() -> list[Path]:
    """Returns all files in the folder, but for what Python compiles."""
    return [each for each in sorted(Path().rglob("*")) if "__pycache__" not in str(each)]


@pytest.mark.parametrize("mistake", sampled(MISTAKES, 10))
def test_every_mistake_is_told(mistake: str) -> None:
    name, *words = MISTAKES[mistake]
    before = files()
    done = CliRunner().invoke(app, [name, *words])
    told = done.output
    assert isinstance(done.exception, SystemExit), (told, done.exception)
    assert done.exit_code == 2, told
    assert "Traceback" not in told
    assert re.search(r"do: |Usage: |requires an argument|does not take a value|malformed: ", told), told
    assert files() == before, "it did something"
