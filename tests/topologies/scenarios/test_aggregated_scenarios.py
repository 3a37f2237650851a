"""All scenarios once more, through an AggregateBolt: who is let in, what fires and what is counted must not change.

Where windows are aligned in time, or sessions, events are added up as they come; elsewhere the bolt is called with each
window.
"""

from __future__ import annotations

import random

import pytest

from tests.helpers.examples import sampled
from tests.helpers.recut import crashing, differences, run_cut
from tests.helpers.scenario_files import scenarios_in
from topologies.scenarios import scenario_bolt
from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_answer import ReplayResult
from topologies.scenarios.scenario_model import Scenario
from topologies.scenarios.script import scenario_topology
from windowing import AggregateBolt
from windowing.aggregates import count

BARE = [each.scenario for each in scenarios_in("*/*") if each.scenario.bolt is not None]
NAMES = {id(each): f"{at}-{each.name}" for at, each in enumerate(BARE)}


def name_of(scenario: Scenario) -> str:
    return NAMES[id(scenario)]


@pytest.fixture(autouse=True)
def adding_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bolt of a scenario adds up its events."""
    monkeypatch.setattr(scenario_bolt, "BareBolt", lambda: AggregateBolt(by=(), events=count()))


def without_changes(scenario: Scenario) -> Scenario:
    """What is expected, except for what is new in a window and what has left: sums do not know that."""
    expect = scenario.expect
    if expect is None or expect.windows is None or not is_summed(scenario):
        return scenario
    windows = [
        type(each).model_construct(
            **{name: value for name, value in each if name in each.model_fields_set and name not in ("new", "expired")}
        )
        for each in expect.windows
    ]
    return scenario.model_copy(update={"expect": expect.model_copy(update={"windows": windows})})


def is_summed(scenario: Scenario) -> bool:
    return any(part.partial_sums is not None for part in scenario_topology(scenario).windowed.values())


def can_be_cut(scenario: Scenario) -> bool:
    """True if it is added up, and its answer does not depend on where a run ends or a batch."""
    return is_summed(scenario) and not (scenario.meta.get("restarts") or scenario.meta.get("batches"))


def test_most_aligned_scenarios_are_added_up() -> None:
    assert sum(map(is_summed, BARE)) > 100


@pytest.mark.parametrize("scenario", sampled(BARE, 20, name_of))
def test_every_scenario_holds(scenario: Scenario) -> None:
    expected = without_changes(scenario)
    assert not differences(expected, replay_locally(scenario))


@pytest.mark.parametrize("scenario", sampled(BARE[1::2], 10, name_of))
def test_every_scenario_holds_after_a_crash_at_every_step(scenario: Scenario) -> None:
    if not can_be_cut(scenario):
        return
    assert not differences(without_changes(scenario), replay_locally(crashing(scenario)))


@pytest.mark.parametrize("scenario", sampled(BARE[2::2], 10, name_of))
def test_every_scenario_holds_wherever_pieces_end(scenario: Scenario) -> None:
    if can_be_cut(scenario):
        answer: ReplayResult = run_cut(scenario, random.Random(1))
        assert not differences(without_changes(scenario), answer)
