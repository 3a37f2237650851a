"""The worked policies: each answers its scenario, is proven by ``check_policy``, and can be copied alone."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import topologies.examples
from topologies.graph.describing import topology_text
from topologies.scenarios.named_topology import load_topology
from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_model import Scenario, load, with_topology_path
from topologies.scenarios.svg import svg
from topologies.testing.policy_check import check_policy
from windbolt import TupleWindow, WindowedBolt, replay
from windbolt.policies import TriggerContext, TriggerPolicy
from windbolt.testing import run_bolt

FOLDER = Path(topologies.examples.__file__).parent / "policies"
RULES = [
    "delta", "session_or_marker", "volume_bars", "sum_or_midnight", "last_of_each_type", "minute_or_flush",
    "near_the_latest",
]  # fmt: skip


def scenario_of(rule: str) -> Scenario:
    path = FOLDER / f"{rule}.yaml"
    (loaded,) = load(path)
    scenario: Any = loaded.scenario  # type: ignore[union-attr]
    return with_topology_path(scenario, path)


def test_there_is_a_scenario_for_each_file() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} - {"__init__"} == set(RULES)
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_a_worked_rule_answers_its_scenario_and_is_proven(rule: str) -> None:
    answer = replay(FOLDER / f"{rule}.yaml")
    assert answer.ok, answer.differences
    scenario = scenario_of(rule)
    topology = load_topology(scenario.topology or "")
    ((name, node),) = topology.windowed.items()
    (spout,) = topology.spouts.values()
    rows = [step.event for step in scenario.event_steps]
    assert isinstance(node.bolt, WindowedBolt)
    check = check_policy(rows, bolt=node.bolt, schema=spout.outputs["default"], cuts=6, other_process=False)
    assert len(check.windows) == len(answer.windows or []), name
    assert check.crashed
    assert bool(check.moved) == bool(node.bolt.settings.key)


@pytest.mark.parametrize(
    ("rule", "causes"),
    {
        "minute_or_flush": ["moment", "arrival"],
        "session_or_marker": ["event", "moment", "moment", "moment"],
        "volume_bars": ["event"] * 3,
    }.items(),
)
def test_a_window_says_what_made_its_trigger_fire(rule: str, causes: list[str]) -> None:
    answer = replay(FOLDER / f"{rule}.yaml")
    assert [each["by"] for each in answer.windows or []] == causes
    assert ("at a moment: " in answer.draw()) == ("moment" in causes)
    scenario = scenario_of(rule)
    picture = svg(scenario, replay_locally(scenario))
    assert [picture.count(f"fires at {each}") for each in ("a moment", "an arrival")] == [
        causes.count("moment"),
        causes.count("arrival"),
    ]


def test_a_bolt_is_told_what_made_its_trigger_fire() -> None:
    class AtTheEnd(TriggerPolicy):
        def on_end(self, context: TriggerContext) -> bool:
            return True

    class Causes(WindowedBolt):
        outputs = "by string"

        def execute(self, window: TupleWindow) -> Any:
            return {"by": window.fired_by}

    bolt = Causes().with_window("1m").with_timestamp_field("ts").with_policies(trigger=AtTheEnd())
    assert run_bolt(bolt, [{"ts": 1}]).rows == [{"by": "close"}]


def test_describe_says_what_policies_are_there() -> None:
    said = topology_text(load_topology(f"{FOLDER / 'sum_or_midnight.py'}:topology"))
    assert (
        "windows  what SinceTheLast keeps, fired by SumOrMidnight\n  policy   SinceTheLast(); reads no column\n" in said
    )
    assert (
        "SumOrMidnight(limit=1000); moments every 1d, shifted by 53999999999us; keeps sum float; reads amount" in said
    )


@pytest.mark.parametrize("rule", RULES)
def test_a_worked_rule_can_be_copied_alone(rule: str) -> None:
    tree = ast.parse((FOLDER / f"{rule}.py").read_text())
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {each for each in modules if each.partition(".")[0] in ("topologies", "policies", "windowing")} == set()
