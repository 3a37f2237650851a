"""An error in a topology's file is told with the line of that file, and all mistakes of a call are told together."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from topologies.cli.app import app
from windbolt import AggregateBolt, ConfigError, TopologyBuilder, WindowedBolt, spouts
from windbolt.aggregates import count

START = """from windbolt import AggregateBolt, Session, TopologyBuilder, sinks, spouts
from windbolt.aggregates import count
import helping

builder = TopologyBuilder("shop")
"""
HELPING = "from windbolt import spouts\n\ndef orders():\n    return spouts.memory(schema=5)\n"


@pytest.mark.parametrize("command", ["check", "run", "describe"])
@pytest.mark.parametrize(
    ("line", "problem", "at"),
    [
        ('builder.set_sink("out", sinks.console(rows="x"))', "console(rows='x')", "line 6: builder.set_sink("),
        ('builder.set_spot("orders", 5)', "has no attribute 'set_spot'", "line 6: builder.set_spot("),
        ('bolt = AggregateBolt(n=count()).with_lag(\n    5)', "with_lag(5)", "line 6: bolt = AggregateBolt("),
        ("spout = helping.orders()", "memory(schema=5)", "helping.py, line 4: return spouts.memory(schema=5)"),
    ],
)  # fmt: skip
def test_the_command_line_shows_the_users_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, line: str, problem: str, at: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "helping", raising=False)
    Path("helping.py").write_text(HELPING)
    Path("mistaken.py").write_text(START + line + "\n")
    words = [command, "mistaken.py:builder", *(["--engine", "local"] if command == "run" else [])]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert problem in done.stderr
    assert at in done.stderr.split("\n  at:  ")[1]
    assert "Traceback" not in done.stderr


def test_what_is_no_mistake_of_a_line_shows_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["run", "missing.py:topology", "--engine", "local"])
    assert done.exit_code == 2
    assert "at:  " not in done.stderr


def _message(call: object) -> str:
    with pytest.raises(ConfigError) as caught:
        call()  # type: ignore[operator]
    return str(caught.value)


def test_all_mistakes_of_a_call_are_told_together() -> None:
    text = _message(lambda: AggregateBolt(by=[5], n=count(), m=3, k="x"))  # type: ignore[arg-type, list-item]
    assert text.startswith("AggregateBolt() with 3 mistakes:")
    assert all(each in text for each in ("by=[5]", "m=3", "k='x'"))
    text = _message(lambda: WindowedBolt().with_lateness(action="dorp", allowed=5, per_input="no"))  # type: ignore[arg-type]
    assert text.startswith("with_lateness() with 3 mistakes:")
    text = _message(lambda: TopologyBuilder("x").set_bolt(5, bolts=3))  # type: ignore[call-arg, arg-type]
    assert "no argument 'bolts'" in text
    assert "without bolt" in text


def test_a_class_in_place_of_what_it_makes() -> None:
    text = _message(lambda: TopologyBuilder("x").set_spout(str, spouts.memory("a int")))  # type: ignore[arg-type]
    assert "call the class: str(...)" in text
