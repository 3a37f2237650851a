"""`windbolt replay` writes pictures: --html of any number of scenarios, --svg and --png of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.topologies.scenarios.picture_parts import Page
from topologies.cli.app import app

SCENARIO = {
    "name": "one",
    "bolt": {"length": "10s", "tumbling": True, "timestamp_field": "ts"},
    "steps": [{"event": {"id": "a", "ts": 1000}}, {"close": True}],
    "expect": {"late": []},
}
BROKEN = {**SCENARIO, "name": "three", "topology": "missing.py:topology"}
del BROKEN["bolt"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "one.json").write_text(json.dumps(SCENARIO))
    (tmp_path / "scenarios" / "a.json").write_text(json.dumps(SCENARIO))
    (tmp_path / "scenarios" / "b.json").write_text(json.dumps({**SCENARIO, "name": "two", "expect": {"late": ["a"]}}))
    return tmp_path


def replayed(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["replay", *arguments])
    return result.exit_code, result.output + result.stderr


def test_all_three_are_written_at_once(folder: Path) -> None:
    status, _ = replayed("one.json", "-q", "--html", "one.html", "--svg", "one.svg", "--png", "one.png")
    assert status == 0
    assert (folder / "one.svg").read_text().startswith("<svg")
    assert (folder / "one.png").read_bytes().startswith(b"\x89PNG")
    assert [answer["name"] for answer in Page((folder / "one.html").read_text()).answers] == ["one"]


def test_the_page_of_a_folder_has_all_its_scenarios_those_that_fail_too(folder: Path) -> None:
    status, _ = replayed("scenarios", "-q", "--html", "all.html")
    assert status == 1
    shown = Page((folder / "all.html").read_text())
    assert {answer["name"]: answer["ok"] for answer in shown.answers} == {"one": True, "two": False}


def test_the_page_goes_with_json(folder: Path) -> None:
    status, printed = replayed("one.json", "--json", "--html", "one.html")
    assert status == 0
    assert Page((folder / "one.html").read_text()).answers == [json.loads(printed.splitlines()[0])]


@pytest.mark.parametrize("option", ["--svg", "--png"])
def test_a_picture_of_several_scenarios_is_refused_before_they_run(folder: Path, option: str) -> None:
    status, printed = replayed("scenarios", option, "all.out")
    assert status == 2
    assert f"{option} with 2 scenarios" in printed
    assert "use --html" in printed
    assert not (folder / "all.out").exists()


def test_a_folder_is_no_file(folder: Path) -> None:
    status, printed = replayed("one.json", "--html", "scenarios")
    assert status == 2
    assert "it is a folder" in printed


def test_a_scenario_without_an_answer_is_left_out(folder: Path) -> None:
    (folder / "scenarios" / "c.json").write_text(json.dumps(BROKEN))
    status, _ = replayed("scenarios", "-q", "--html", "all.html")
    assert status == 2
    assert [answer["name"] for answer in Page((folder / "all.html").read_text()).answers] == ["one", "two"]


def test_without_a_scenario_nothing_is_written(folder: Path) -> None:
    (folder / "one.json").write_text(json.dumps(BROKEN))
    status, printed = replayed("one.json", "--html", "one.html")
    assert status == 2
    assert "missing.py" in printed
    assert not (folder / "one.html").exists()
