"""The pytest plugin: scenario files become tests, and other projects do not notice it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.helpers.examples import sampled
from tests.helpers.places import ROOT
from windbolt import ScenarioError, replay

pytest_plugins = ["pytester"]

SCENARIO = {
    "name": "two",
    "bolt": {"length": "10s", "tumbling": True, "timestamp_field": "ts"},
    "steps": [{"event": {"id": "a", "ts": 1000}}, {"event": {"id": "b", "ts": 12000}}, {"tick": "watermark"}],
}
HOLDS = {**SCENARIO, "name": "holds", "expect": {"windows": [{"end": 10000, "events": ["a"]}]}}
FAILS = {**SCENARIO, "name": "fails", "expect": {"windows": [{"end": 10000, "events": ["b"]}]}}


@pytest.fixture(autouse=True)
def _only_this_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


def _write(pytester: pytest.Pytester, path: str, *scenarios: object) -> None:
    file = pytester.path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = (given if isinstance(given, str) else json.dumps(given) for given in scenarios)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _pytest(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    installed = any(entry.value == "topologies.testing.pytest_plugin" for entry in entry_points(group="pytest11"))
    load = () if installed else ("-p", "topologies.testing.pytest_plugin")
    return pytester.runpytest_inprocess(*load, *arguments)


def test_each_scenario_is_a_test_with_its_name(pytester: pytest.Pytester) -> None:
    _write(pytester, "tests/scenarios/deep/some.jsonl", HOLDS, SCENARIO, FAILS)
    result = _pytest(pytester, "-v")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*tests/scenarios/deep/some.jsonl::holds PASSED*",
            "*tests/scenarios/deep/some.jsonl::two PASSED*",
            "*tests/scenarios/deep/some.jsonl::fails FAILED*",
        ]
    )


def test_a_failure_shows_the_timeline_and_the_differences_without_colours(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    _write(pytester, "scenarios/some.json", FAILS)
    result = _pytest(pytester, "--color=no")
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    assert "✗ not as expected" in text
    assert "◆" in text
    assert "windows[0]: events: expected {end: 10000, events: [b]}, found {end: 10000, events: [a]}" in text
    assert "\x1b" not in text


def test_what_is_malformed_fails_with_its_place_and_the_others_run(pytester: pytest.Pytester) -> None:
    _write(pytester, "scenarios/some.jsonl", HOLDS, '{"steps": [bolt]}', {**HOLDS, "name": "odd", "stepz": []})
    result = _pytest(pytester)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*malformed: *some.jsonl:2: expected JSON*", "*malformed: *some.jsonl:3 (odd)*stepz*"])


def test_two_scenarios_of_one_name_are_two_tests(pytester: pytest.Pytester) -> None:
    _write(pytester, "scenarios/some.jsonl", HOLDS, HOLDS)
    _pytest(pytester, "scenarios/some.jsonl::holds#2").assert_outcomes(passed=1)


def test_files_of_others_are_left_alone(pytester: pytest.Pytester) -> None:
    _write(pytester, "tests/some.yaml", HOLDS)
    _write(pytester, "scenarios/molecule.yml", {"driver": {"name": "docker"}, "steps": []})
    _write(pytester, "scenarios/broken.json", "{")
    _write(pytester, "scenarios/notes.txt", "steps for a bolt")
    assert _pytest(pytester).ret == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.parametrize("text", ["step: orders.conf\nsteps: []", '{"step": "orders.conf", "steps": []}'])
def test_a_scenario_of_a_step_is_collected_from_a_folder_of_scenarios(pytester: pytest.Pytester, text: str) -> None:
    _write(pytester, "scenarios/some.yaml", text)
    _pytest(pytester).assert_outcomes(failed=1)  # it has no name


def test_a_file_called_scenario_is_collected_anywhere(pytester: pytest.Pytester) -> None:
    _write(pytester, "tests/some.scenario.json", HOLDS)
    _write(pytester, "tests/broken.scenario.yaml", "a: [")
    _pytest(pytester).assert_outcomes(passed=1, failed=1)


COLLECTED = {
    "cases/*.json": 1,
    "cases/**/*.json": 2,
    "**/*.json": 3,
    "cases/one.json scenarios/three.json": 2,
    "tw?.json": 1,
    "cases/[x].json": 0,
}


@pytest.mark.parametrize("pattern", sampled(COLLECTED, 3, first=1))
def test_the_setting_says_which_files_are_meant(pytester: pytest.Pytester, pattern: str) -> None:
    collected = COLLECTED[pattern]
    _write(pytester, "cases/one.json", HOLDS)
    _write(pytester, "cases/deep/two.json", HOLDS)
    _write(pytester, "scenarios/three.json", HOLDS)
    pytester.makeini(f"[pytest]\nwindbolt_scenarios = {pattern}\n")
    assert _pytest(pytester).parseoutcomes().get("passed", 0) == collected


TOPOLOGY = """
from windbolt import TopologyBuilder, sinks, spouts
from windowing import WindowedBolt

class Count(WindowedBolt):
    outputs = "n long"
    def execute(self, window):
        print("the bolt was here")
        return (len(window.table),)

builder = TopologyBuilder("counting")
builder.set_spout("events", spouts.memory("ts long"))
builder.set_bolt("count", Count().with_tumbling_window("10s").with_timestamp_field("ts")).shuffle_grouping("events")
builder.set_sink("counts", sinks.discard()).from_("count")
topology = builder.build()
"""
MINE = {
    "name": "mine",
    "topology": "counting.py:topology",
    "steps": [{"event": {"ts": 1000}, "stream": "events"}, {"close": True}],
    "expect": {"outputs": {"counts": [{"n": 1}]}},
}


@pytest.mark.parametrize("folder", ["scenarios", "."])
def test_a_topology_is_found_beside_the_file_or_in_the_root(pytester: pytest.Pytester, folder: str) -> None:
    _write(pytester, f"{folder}/counting.py", TOPOLOGY)
    _write(pytester, "scenarios/some.json", MINE)
    pytester.makeini("[pytest]\n")
    pytester.mkdir("elsewhere")
    _pytest(pytester, "--rootdir", str(pytester.path), "scenarios").assert_outcomes(passed=1)


def test_what_a_bolt_prints_is_shown_with_the_failure(pytester: pytest.Pytester) -> None:
    _write(pytester, "counting.py", TOPOLOGY)
    _write(pytester, "scenarios/some.json", {**MINE, "expect": {"outputs": {"counts": [{"n": 2}]}}})
    result = _pytest(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Captured stdout call*", "the bolt was here"])


def test_on_spark_all_selected_scenarios_are_one_call(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "import sys, types\n"
        "from topologies.scenarios.replay import replay_locally\n"
        "def replay_on_spark(scenarios, topology=None):\n"
        "    with open('calls', 'a') as file:\n"
        "        print(*[each.name for each in scenarios], file=file)\n"
        "    return [replay_locally(each) for each in scenarios]\n"
        "fake = types.ModuleType('topologies.spark.spark_replay')\n"
        "fake.replay_on_spark = replay_on_spark\n"
        "sys.modules['topologies.spark.spark_replay'] = fake\n"
    )
    _write(pytester, "scenarios/one.jsonl", HOLDS, FAILS, {**HOLDS, "name": "left out"})
    _write(pytester, "scenarios/two.jsonl", {**HOLDS, "name": "last"})
    result = _pytest(pytester, "--windbolt-engine", "spark", "-k", "not left")
    result.assert_outcomes(passed=2, failed=1, deselected=1)
    assert (pytester.path / "calls").read_text() == "holds fails last\n"


def test_without_spark_each_test_says_what_is_missing(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "import sys, types\n"
        "from windowing.errors import EnvironmentMissing\n"
        "def replay_on_spark(scenarios, topology=None):\n"
        "    raise EnvironmentMissing('Java is missing', do='install it')\n"
        "fake = types.ModuleType('topologies.spark.spark_replay')\n"
        "fake.replay_on_spark = replay_on_spark\n"
        "sys.modules['topologies.spark.spark_replay'] = fake\n"
    )
    _write(pytester, "scenarios/one.jsonl", HOLDS, FAILS)
    result = _pytest(pytester, "--windbolt-engine", "spark")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["Java is missing. install it."])


def test_the_plugin_itself_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys, types\n"
        "package = types.ModuleType('topologies')\n"  # its own __init__ is another matter
        f"package.__path__ = [{str(ROOT / 'topologies')!r}]\n"
        "sys.modules['topologies'] = package\n"
        "import topologies.testing.pytest_plugin\n"
        "heavy = ('pyarrow', 'numpy', 'pandas', 'pyspark', 'pydantic', 'typer', 'yaml', 'rich', 'windowing')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


COUNTS = """
from windbolt import AggregateBolt, TopologyBuilder, aggregates, sinks, spouts

builder = TopologyBuilder("counts")
builder.set_spout("orders", spouts.memory("id string, ts timestamp"))
bolt = AggregateBolt(n=aggregates.count()).with_tumbling_window("10s").with_timestamp_field("ts")
builder.set_bolt("count", bolt).global_grouping("orders")
builder.set_sink("out", sinks.console()).from_("count")
topology = builder.build()
"""


def test_the_fixtures_drive_topologies_and_tell_their_story_where_a_test_fails(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        counts=COUNTS,
        test_counts="""
        import pytest
        from counts import topology

        @pytest.mark.parametrize("n", [1, 2])
        def test_counts(windbolt_driver, n):
            driver = windbolt_driver(topology, clock="2024-01-01T06:00:00Z")
            driver.push("orders", [{"ts": 1000}])
            driver.close()
            assert driver.read("out") == [{"n": n}]
        """,
    )
    result = _pytest(pytester)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*windbolt topology counts*", "<TopologyDriver of 'counts': *closed>", "count: 1 received, 1 windowed*"]
    )


def test_the_fixture_replays_scenarios_beside_the_test_and_checks_them(pytester: pytest.Pytester) -> None:
    _write(pytester, "data/holds.json", HOLDS)
    _write(pytester, "data/fails.json", FAILS)
    _write(pytester, "data/expects_nothing.json", SCENARIO)
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("name", ["holds", "expects_nothing", "fails"])
        def test_file(windbolt_replay, name):
            assert windbolt_replay(f"data/{name}.json").windows[0]["events"] == ["a"]
        """
    )
    result = _pytest(pytester, "--color=no")
    result.assert_outcomes(passed=2, failed=1)
    text = result.stdout.str()
    assert "fails is not as expected" in text
    assert "◆" in text
    assert "windows[0]: events: expected {end: 10000, events: [b]}, found {end: 10000, events: [a]}" in text


def test_an_answer_is_checked_with_its_picture() -> None:
    replay({**HOLDS}).check()
    with pytest.raises(AssertionError, match=r"(?s)fails is not as expected.*◆.*windows\[0\]: events: expected"):
        replay({**FAILS}).check()
    with pytest.raises(ScenarioError, match="'two' expects nothing"):
        replay({**SCENARIO}).check()
    assert "draw" not in replay({**HOLDS}).to_json()
    assert "draw" not in repr(replay({**HOLDS}))
