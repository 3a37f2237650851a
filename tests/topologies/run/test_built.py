"""What is no topology is told in words, whoever is to run it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from topologies.checkpoints.state_tables import begin
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
