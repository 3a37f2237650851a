"""What is no topology is told in words, whoever is to run it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from topologies.checkpoints.state_tables import begin
from topologies.cli.app import app
from topologies.local import run_local
from topologies.scenarios.named_topology import load_topology
from topologies.testing.driver import TopologyDriver
from topologies.testing.replaying import replay
from windbolt import TopologyBuilder
from windowing import ConfigError

SCENARIO: Any = {"name": "nothing", "steps": []}


@pytest.mark.parametrize(
    "run",
    [run_local, TopologyDriver, lambda given: replay(SCENARIO, given), lambda given: begin("nowhere", given, {})],
    ids=["run_local", "driver", "replay", "begin"],
)
def test_only_what_has_been_built_is_run(run: Any) -> None:
    with pytest.raises(ConfigError) as raised:
        run(TopologyBuilder("orders"))
    assert raised.value.why == "a builder is not a topology yet"
    assert raised.value.do == "give builder.build()"
    with pytest.raises(ConfigError, match=r"give the topology that builder\.build\(\) returns"):
        run("orders")


def test_a_topology_is_called_as_users_know_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])  # which gets the folder
    with pytest.raises(ConfigError) as raised:
        run_local()  # type: ignore[call-arg]
    assert raised.value.why == "it is the topology that builder.build() returns, and has no default"
    (tmp_path / "nothing_in_it.py").write_text("orders = 3\n")
    with pytest.raises(ConfigError, match=r"is not a topology.*name what TopologyBuilder\.build\(\) returned"):
        load_topology(f"{tmp_path}/nothing_in_it.py:orders")


@pytest.mark.parametrize(
    ("text", "where"),
    [("import sys\nsys.exit()\n", ":2, in <module>"), ("def made():\n    raise SystemExit(0)\n", ":2, in made")],
    ids=["the file", "its function"],
)
def test_a_file_that_ends_the_process_is_told_and_no_success(
    text: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "leaves_early.py").write_text(text)
    done = CliRunner().invoke(app, ["check", f"{tmp_path}/leaves_early.py:made"])
    assert done.exit_code == 2
    assert "cannot be loaded" in done.stderr
    assert "SystemExit" in done.stderr
    assert where in done.stderr


def test_an_error_of_a_file_that_may_pass_is_told_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where its function asks a database: a service starts it again."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "asks_a_server.py").write_text("def made():\n    raise ConnectionRefusedError('it is away')\n")
    with pytest.raises(ConfigError, match="it is away") as raised:
        load_topology(f"{tmp_path}/asks_a_server.py:made")
    assert raised.value.transient
    (tmp_path / "scenario.json").write_text(json.dumps({**SCENARIO, "topology": "leaves_early.py:made"}))
    assert CliRunner().invoke(app, ["replay", f"{tmp_path}/scenario.json"]).exit_code == 2
