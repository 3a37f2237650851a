"""``windbolt replay FOLDER``, and ``--watch``: which files are replayed, and when again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.helpers.places import ROOT
from topologies.cli.app import app, make_project
from topologies.cli.replay import file_times, watched_folders
from topologies.scenarios.scenario_model import load, scenario_files

SCENARIO = {
    "name": "holds",
    "bolt": {"length": "10s", "tumbling": True, "timestamp_field": "ts"},
    "steps": [{"event": {"id": "a", "ts": 1000}}, {"close": True}],
    "expect": {"windows": [{"end": 10000, "events": ["a"]}]},
}
FAILS = {**SCENARIO, "name": "fails", "expect": {"late": ["a"]}}


def _write(folder: Path, name: str, *scenarios: Any) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(each)}\n" for each in scenarios), encoding="utf-8")
    return path


def _replay(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["replay", *map(str, arguments)], env={"COLUMNS": "80"})


def test_all_scenario_files_below_a_folder_are_replayed(tmp_path: Path) -> None:
    _write(tmp_path, "b/two.jsonl", SCENARIO, {**SCENARIO, "name": "again"})
    _write(tmp_path, "a.json", SCENARIO)
    _write(tmp_path, "data/orders.jsonl", {"id": "o1", "steps": 3})
    _write(tmp_path, "node_modules/a/one.json", SCENARIO)
    _write(tmp_path, ".hidden/one.json", SCENARIO)
    result = _replay(tmp_path)
    assert result.exit_code == 0
    assert result.stdout.endswith("3 scenarios: 3 as expected\n")


@pytest.mark.parametrize(("added", "status"), [(SCENARIO, 0), (FAILS, 1), ({**SCENARIO, "steps": 5}, 2)])
def test_the_exit_status_is_the_worst(tmp_path: Path, added: dict[str, Any], status: int) -> None:
    _write(tmp_path, "a.json", SCENARIO)
    _write(tmp_path, "b.json", added)
    result = _replay(tmp_path)
    assert result.exit_code == status
    assert "2 scenarios: " in result.stdout


def test_a_folder_without_scenarios_is_told(tmp_path: Path) -> None:
    _write(tmp_path, "data.jsonl", {"id": "o1"})
    result = _replay(tmp_path)
    assert result.exit_code == 2
    assert "expected scenario files in this folder, found none" in result.stderr


def test_which_files_are_scenarios(tmp_path: Path) -> None:
    yaml = tmp_path / "late.yaml"
    yaml.write_text("name: a\ntopology: shop.py:topology\nsteps:\n  - {close: true}\n")
    named = _write(tmp_path, "broken.scenario.json", "no scenario")
    (tmp_path / "workflow.yml").write_text("steps:\n  - run: windbolt run topology.py:topology\n")
    (tmp_path / "step.yaml").write_text("type: aggregation\ntrigger: {type: count}\n")
    environment = tmp_path / "venv"
    _write(environment, "one.json", SCENARIO)
    (environment / "pyvenv.cfg").write_text("")
    assert scenario_files(tmp_path) == [named, yaml]


def test_all_scenarios_of_a_new_project_are_found(tmp_path: Path) -> None:
    make_project(tmp_path / "shop")
    assert scenario_files(tmp_path / "shop") == [tmp_path / "shop" / "tests" / "scenarios" / "late_order.yaml"]


def test_the_folders_of_scenarios_and_of_their_topologies_are_watched(tmp_path: Path) -> None:
    make_project(tmp_path / "shop")
    tests = tmp_path / "shop" / "tests"
    scenario = tests / "scenarios" / "late_order.yaml"
    # The topology is looked up beside the file, and in the current folder; one that is named is beside itself.
    reference = f"{tmp_path}/shop/topology.py:topology"
    assert watched_folders([tests], load(scenario), reference) >= {tests, tmp_path / "shop"}
    assert watched_folders([scenario], load(scenario), None) >= {tests / "scenarios"}


def test_a_change_is_seen(tmp_path: Path) -> None:
    path = _write(tmp_path, "deep/a.json", SCENARIO)
    before = file_times([tmp_path])
    assert list(before) == [path]
    (tmp_path / "notes.txt").write_text("nothing that matters")
    assert file_times([tmp_path]) == before
    os.utime(path, ns=(1, 1))
    assert file_times([tmp_path]) != before
    path.unlink()
    assert file_times([tmp_path]) == {}


@pytest.mark.extended
def test_a_save_replays_again_with_what_was_saved_until_ctrl_c(tmp_path: Path) -> None:
    make_project(tmp_path / "shop")
    process = subprocess.Popen(
        [sys.executable, "-m", "windbolt", "replay", "tests", "--watch", "-q"],
        cwd=tmp_path / "shop",
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "1 scenario: 1 as expected\n"
        assert "Waiting for a change in" in process.stdout.readline()
        topology = tmp_path / "shop" / "topology.py"
        topology.write_text(topology.read_text().replace("len(amounts)", "len(amounts) + 1"))
        assert "Z ─" in process.stdout.readline()
        assert "not as expected" in process.stdout.readline()
        while "Waiting for a change" not in process.stdout.readline():
            pass
    finally:
        process.send_signal(signal.SIGINT)
    assert process.wait(300) == 1
