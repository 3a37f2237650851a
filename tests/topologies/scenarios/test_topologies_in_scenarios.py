"""Scenarios with a topology of their own hold wherever batches end, and after a crash at every step."""

from __future__ import annotations

import random

import pytest

from tests.helpers import places
from tests.helpers.recut import crashing, differences, run_cut
from topologies.scenarios.run.replay import replay_locally
from topologies.scenarios.schema.model import Scenario
from topologies.scenarios.schema.scenario_files import Loaded, load

BEYOND = places.SCENARIOS / "beyond"
LOADED = [each for path in sorted(BEYOND.glob("*.yaml")) for each in load(path)]
SCENARIOS = [each.scenario for each in LOADED if isinstance(each, Loaded) and each.scenario.topology is not None]
EVERY = pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.name for scenario in SCENARIOS])


@pytest.fixture(autouse=True)
def beside_the_topology(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenarios name their topology from where they are."""
    monkeypatch.chdir(BEYOND)


@EVERY
def test_a_crash_after_every_step_changes_nothing(scenario: Scenario) -> None:
    assert not differences(scenario, replay_locally(crashing(scenario)))


@EVERY
@pytest.mark.parametrize("seed", range(5))
def test_answers_are_the_same_wherever_batches_end(scenario: Scenario, seed: int) -> None:
    assert not differences(scenario, run_cut(scenario, random.Random(seed)))
