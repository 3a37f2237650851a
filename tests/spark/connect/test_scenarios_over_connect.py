"""Scenarios over Spark Connect answer as they do in one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.helpers.places import SCENARIOS
from tests.helpers.scenario_files import scenarios_in
from topologies.scenarios.scenario_model import Scenario
from topologies.spark.spark_replay import replay_on_spark

FOLDERS = ("atlas", "streaminsight", "azure", "beyond")


def wrong(chosen: Sequence[Scenario], session: Any) -> list[tuple[str | None, list[str]]]:
    """The scenarios that come out otherwise than they expect."""
    answers = replay_on_spark(chosen, spark=session)
    assert len(answers) == len(chosen)
    return [(answer.name, answer.differences) for answer in answers if not answer.ok]


def scenarios(pattern: str) -> list[Scenario]:
    return [item.scenario for item in scenarios_in(pattern)]


def test_every_worked_scenario_holds_crashes_too(session: Any) -> None:
    chosen = scenarios("worked/*.yaml")
    assert sum(any(hasattr(step, "crash") for step in scenario.steps) for scenario in chosen) >= 2
    assert wrong(chosen, session) == []


@pytest.mark.extended
def test_every_scenario_of_the_other_systems_holds(session: Any) -> None:
    chosen = [each for folder in FOLDERS for each in scenarios(f"{folder}/*.yaml") if each.bolt is not None]
    assert len(chosen) > 140
    assert wrong(chosen, session) == []


@pytest.mark.extended
def test_every_scenario_with_a_topology_of_its_own_holds(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SCENARIOS / "beyond")  # where their topologies are
    chosen = [each for each in scenarios("beyond/*.yaml") if each.topology is not None]
    assert len(chosen) > 8
    assert wrong(chosen, session) == []
