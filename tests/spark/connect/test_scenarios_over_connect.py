"""Scenarios over Spark Connect answer as they do in one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.helpers.places import SCENARIOS
from tests.helpers.scenario_files import scenarios_in
from tests.spark.cluster.playing import scenario_folders
from topologies.scenarios.scenario_model import LoadedScenario, Scenario, load
from topologies.spark.spark_replay import replay_on_spark


def wrong(chosen: Sequence[Scenario], session: Any) -> list[tuple[str | None, list[str]]]:
    """The scenarios that come out otherwise than they expect."""
    answers = replay_on_spark(chosen, spark=session)
    assert len(answers) == len(chosen)
    return [(answer.name, answer.differences) for answer in answers if not answer.ok]


def test_every_worked_scenario_holds_crashes_too(session: Any) -> None:
    chosen = [item.scenario for item in scenarios_in("worked/*.yaml")]
    assert sum(any(hasattr(step, "crash") for step in scenario.steps) for scenario in chosen) >= 2
    assert wrong(chosen, session) == []


@pytest.mark.extended
@pytest.mark.parametrize("folder", scenario_folders())
def test_every_twentieth_scenario_holds(folder: str, session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are answered in a session of Spark's own; only the way of jobs and rows is another here."""
    monkeypatch.chdir(SCENARIOS / folder)  # where their topologies are
    files = sorted(path for path in (SCENARIOS / folder).iterdir() if path.suffix in (".yaml", ".jsonl"))
    chosen = [item.scenario for file in files for item in load(file) if isinstance(item, LoadedScenario)][::20]
    assert chosen
    assert wrong(chosen, session) == []
