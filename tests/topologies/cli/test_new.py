"""``windbolt new``: the project that it makes runs, replays, passes its tests and is type-checked, as it is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.helpers.places import ROOT
from topologies.cli.app import PROJECT_FILES, TEMPLATES, Example, app, make_project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "my-shop"
    make_project(folder)
    return folder


@pytest.fixture(scope="module")
def join(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "my-payments"
    make_project(folder, Example.JOIN)
    return folder


def _run(project: Path, *command: str) -> str:
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    env["MYPY_CACHE_DIR"] = str(ROOT / ".mypy_cache" / "projects")  # what it reads of packages serves others
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=project, env=env, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def _pyright(project: Path, mode: str) -> str:
    """What pyright prints of the project; 'standard' is its own default, and what editors show."""
    config = project.parent / f"{project.name}.pyright.json"
    included = {"include": [project.name], "typeCheckingMode": mode}
    config.write_text(json.dumps({**included, "failOnWarnings": True}), encoding="utf-8")
    return _run(project, "basedpyright", "--project", str(config), "--pythonpath", sys.executable)


def _commands(readme: str) -> list[str]:
    """The commands of a page, without their remarks."""
    return [line.partition("#")[0].strip() for line in re.findall(r"^    (.*)$", readme, re.M)]


def test_both_commands_of_its_readme_work(project: Path) -> None:
    run, tests, *_ = _commands((project / "README.md").read_text(encoding="utf-8"))
    printed = _run(project, *run.split())
    assert "user=ada  orders=2  revenue=5.5  until=2024-01-01T06:01:00Z" in printed
    assert "-- late, batch 0: 1 row\n   id=o7 " in printed
    assert "-- out, batch 0-close: 1 row\n   user=cy " in printed
    assert "my-shop: 8 rows" in printed
    assert _run(project, *run.split()).count("id=o7") == 1  # once more
    assert "3 passed" in _run(project, *tests.split())


@pytest.mark.extended
def test_both_commands_of_the_readme_of_a_join_work(join: Path) -> None:
    run, tests, *_ = _commands((join / "README.md").read_text(encoding="utf-8"))
    printed = _run(join, *run.split())
    assert "order=o3  user=cy  amount=2.0  paid=1.5" in printed
    assert "order=o2  user=bob  missing=8.0" in printed
    assert "my-payments: 9 rows" in printed
    assert "4 passed" in _run(join, *tests.split())


@pytest.mark.extended
def test_its_scenario_can_be_replayed(project: Path, join: Path) -> None:
    for each in (project, join):
        assert "as expected" in _run(each, "windbolt", "replay", "tests")


@pytest.mark.extended
@pytest.mark.parametrize("example", Example)
def test_it_is_typed_and_formatted(example: Example, request: pytest.FixtureRequest) -> None:
    project = request.getfixturevalue("join" if example is Example.JOIN else "project")
    assert "no issues found in 2 source files" in _run(project, "mypy")
    assert "0 errors, 0 warnings" in _pyright(project, "standard")
    _run(project, "ruff", "check", "--isolated")
    _run(project, "ruff", "format", "--check", "--isolated")


@pytest.mark.extended
def test_pyright_sees_a_mistake_in_a_project(tmp_path: Path) -> None:
    make_project(tmp_path / "shop")
    file = tmp_path / "shop" / "topology.py"
    text = file.read_text(encoding="utf-8")
    given = 'DATA / "*.jsonl",'
    assert given in text
    file.write_text(text.replace(given, f'{given}\n    format="jsonlines",'), encoding="utf-8")
    with pytest.raises(AssertionError, match=r"jsonlines.* is not assignable"):
        _pyright(tmp_path / "shop", "standard")


@pytest.mark.parametrize("example", Example)
def test_it_runs_in_ci_what_the_readme_names(example: Example, request: pytest.FixtureRequest) -> None:
    project = request.getfixturevalue("join" if example is Example.JOIN else "project")
    steps = (project / ".github/workflows/tests.yml").read_text(encoding="utf-8")
    run, tests, *_ = _commands((project / "README.md").read_text(encoding="utf-8"))
    for command in (run, tests, "mypy"):
        assert f"- run: {command}\n" in steps


def test_every_template_is_used(project: Path, join: Path) -> None:
    templates = {
        path.relative_to(TEMPLATES).as_posix()
        for path in TEMPLATES.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert templates == {template for files in PROJECT_FILES.values() for template in files.values()}
    for example, folder in ((Example.WINDOWS, project), (Example.JOIN, join)):
        texts = {
            path: (folder / path).read_text(encoding="utf-8").replace("${{", "") for path in PROJECT_FILES[example]
        }
        assert not [path for path, text in texts.items() if "{{" in text]


def test_it_says_what_to_do_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["new", "shop"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:5] == [
        "Made shop/, a project that runs as it is:",
        "  cd shop",
        "  windbolt run topology.py:topology --engine local",
        "  pip install -r requirements.txt  # brings pytest and mypy",
        "  pytest",
    ]
    assert "topology of shop" in (tmp_path / "shop" / "topology.py").read_text(encoding="utf-8")


def test_another_example_is_made_if_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["new", "shop", "--example", "join"]).exit_code == 0
    assert "TemporalJoin" in Path("shop/topology.py").read_text(encoding="utf-8")


def test_an_empty_folder_is_filled_and_the_current_one_needs_no_cd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    result = CliRunner().invoke(app, ["new", "."])
    assert result.exit_code == 0
    assert "cd " not in result.stdout
    assert 'TopologyBuilder("here")' in Path("topology.py").read_text(encoding="utf-8")


def _refused(name: Path) -> str:
    result = CliRunner().invoke(app, ["new", str(name)])
    assert result.exit_code == 2
    return result.stderr


def test_a_folder_that_holds_something_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "topology.py").write_text("mine")
    assert "is not empty" in _refused(tmp_path / "shop")
    assert [path.name for path in (tmp_path / "shop").iterdir()] == ["topology.py"]
    assert (tmp_path / "shop" / "topology.py").read_text() == "mine"


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shop").write_text("mine")
    assert "is a file" in _refused(tmp_path / "shop")
    assert "Not a directory" in _refused(tmp_path / "shop" / "inner")


@pytest.mark.parametrize("name", ["my shop", "über", ".shop"])
def test_a_name_that_no_topology_can_have_is_refused(tmp_path: Path, name: str) -> None:
    assert "cannot be the name of a project" in _refused(tmp_path / name)
    assert not (tmp_path / name).exists()
