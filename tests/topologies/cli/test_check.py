"""``windbolt check`` on a topology: what it prints, and its exit status; steps are in test_step.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from topologies.cli.app import app, make_project
from topologies.run.summary import Summary

PASSES_ON = """
from windbolt import BatchBolt

class PassesOn(BatchBolt):
    outputs = "id string, user string, amount double, ts timestamp"

    def execute(self, table):
        return table

"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    make_project(tmp_path / "shop")
    return tmp_path / "shop"


def _changed(project: Path, old: str, new: str) -> None:
    file = project / "topology.py"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def _check(project: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["check", f"{project}/topology.py:topology", *options], env={"COLUMNS": "80"})


def test_a_sound_topology_is_reported_and_ends_with_0(project: Path) -> None:
    result = _check(project, "--strict")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines == [line.rstrip() for line in lines]
    assert lines[0] == "topology shop"
    assert "  emits    id string, user string, amount double, ts timestamp" in lines
    assert "  read     8 rows" in lines
    assert (
        "ts 2024-01-01T06:00:03Z to 2024-01-01T06:02:10Z; written like '2024-01-01T06:00:03Z', with its offset"
        in " ".join(result.stdout.split())
    )
    assert lines[-1] == "Nothing is wrong."
    assert max(map(len, lines)) <= 80
    assert result.stderr == ""


def test_times_are_shown_that_only_a_bolt_behind_a_plain_one_goes_by(project: Path) -> None:
    _changed(project, "builder = TopologyBuilder", PASSES_ON + "builder = TopologyBuilder")
    _changed(
        project,
        "builder.set_bolt(",
        'builder.set_bolt("clean", PassesOn()).shuffle_grouping("orders")\nbuilder.set_bolt(',
    )
    _changed(project, 'fields_grouping("orders", "user")', 'fields_grouping("clean", "user")')
    result = _check(project, "--strict")
    assert result.exit_code == 0, result.stdout
    said = " ".join(result.stdout.split())
    assert "ts 2024-01-01T06:00:03Z to 2024-01-01T06:02:10Z, as clean gets them; written like" in said


def test_everything_that_build_finds_ends_with_1(project: Path) -> None:
    _changed(project, 'fields_grouping("orders", "user")', 'fields_grouping("orders", "usr")')
    _changed(project, '.from_("revenue")', '.from_("revenu")')
    result = _check(project)
    assert result.exit_code == 1
    assert "topology 'shop' cannot be built, 2 problems" in result.stdout
    assert "groups 'orders' by 'usr'" in result.stdout
    assert "sink 'out' takes 'revenu'" in result.stdout


def test_a_warning_ends_with_0_and_with_strict_with_1(project: Path) -> None:
    _changed(project, "id string, user string", "id string, place string, user string")
    result = _check(project)
    assert result.exit_code == 0
    assert "warning: spout 'orders': no row has 'place'\n  why: its values are null\n" in result.stdout
    assert result.stdout.endswith("1 warning\n")
    assert _check(project, "--strict").exit_code == 1


def test_a_problem_ends_with_1(project: Path) -> None:
    (project / "results").write_text("mine")
    _changed(project, "sinks.console()", f'sinks.files("{project}/results/out")')
    _changed(project, f'"late", sinks.files("{project}/results/out")', '"late", sinks.console()')
    result = _check(project)
    assert result.exit_code == 1
    assert "problem: sink 'out'" in result.stdout
    assert result.stdout.endswith("1 problem\n")


def test_nothing_is_run_or_left_behind(project: Path) -> None:
    _changed(project, 'for user, amounts in window.groups("user", "amount"):', "for user, amounts in 1 / 0:")
    before = {path for path in project.rglob("*") if "__pycache__" not in path.parts}
    assert _check(project).exit_code == 0
    assert {path for path in project.rglob("*") if "__pycache__" not in path.parts} == before


def test_what_cannot_be_loaded_ends_with_2(project: Path) -> None:
    result = CliRunner().invoke(app, ["check", f"{project}/nowhere.py:topology"])
    assert result.exit_code == 2
    assert "there is no file" in result.stderr


def test_options_of_steps_are_refused(project: Path) -> None:
    result = _check(project, "--set", "a=1")
    assert result.exit_code == 2
    assert "these options are for steps" in result.stderr


def test_a_run_warns_of_the_same_and_with_strict_refuses(project: Path) -> None:
    def run(*options: str) -> Result:
        command = ["run", f"{project}/topology.py:topology", "--engine", "local", *options]
        return CliRunner().invoke(app, command, env={"COLUMNS": "80"})

    assert run("--strict").exit_code == 0
    _changed(project, '"*.jsonl"', '"*.json"')
    loose, strict = run(), run("--strict")
    assert (loose.exit_code, strict.exit_code) == (0, 2)
    assert loose.stderr.startswith("warning: spout 'orders': no file matches ")
    assert strict.stderr.startswith("error: spout 'orders': no file matches ")
    assert strict.stdout == ""


@pytest.mark.parametrize("strict", [False, True])
def test_input_that_came_during_a_run_is_looked_at_after_it(
    project: Path, strict: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (given,) = sorted((project / "data/orders").iterdir())

    def running(*args: object, **kwargs: object) -> Summary:
        given.write_text(given.read_text().replace('"user"', '"usr"'))
        return Summary()

    monkeypatch.setattr("topologies.cli.run.run_watched", running)
    words = ["run", f"{project}/topology.py:topology", "--engine", "local", "--json", *(["--strict"] if strict else [])]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == (2 if strict else 0)
    said = "error" if strict else "warning"
    assert done.stderr.startswith(f"{said}: spout 'orders': no row has 'user'; did you mean 'usr'?")


def test_streams_that_nobody_takes_are_noted_and_sinks_have_a_line_each(project: Path) -> None:
    result = _check(project, "--strict")
    assert result.exit_code == 0
    assert "\nsinks\n  out: revenue, to standard output, 20 rows a batch\n  late: revenue.late, to" in result.stdout
    note = "note: the stream 'errors' of orders is not read"
    assert note in result.stdout
    assert "late events" not in result.stdout
    text = (project / "topology.py").read_text(encoding="utf-8")
    bad = 'builder.set_sink("bad", sinks.discard()).from_("revenue", stream="errors")\n'
    (project / "topology.py").write_text(text.replace("topology = builder.build()", f"{bad}topology = builder.build()"))
    assert "note:" not in _check(project).stdout


def test_late_events_that_are_only_counted_are_noted(project: Path) -> None:
    text = (project / "topology.py").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if 'set_sink("late"' not in line]
    (project / "topology.py").write_text("\n".join(lines))
    assert "note: the late events of revenue are not read: they are counted, not kept" in _check(project).stdout


def test_no_line_ends_in_a_space_however_narrow_it_is(project: Path) -> None:
    for width in range(30, 121, 7):
        result = CliRunner().invoke(app, ["check", f"{project}/topology.py:topology"], env={"COLUMNS": str(width)})
        assert [line for line in result.stdout.splitlines() if line != line.rstrip()] == []
