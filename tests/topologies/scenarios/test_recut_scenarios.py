"""The scenarios of all systems but Storm hold wherever batches end, and after a crash at every step."""

from __future__ import annotations

import random

import pytest

from tests.helpers.examples import sampled
from tests.helpers.recut import crashing, differences, run_cut
from tests.helpers.scenario_files import scenarios_in
from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_model import LoadedScenario, Scenario

SYSTEMS = ("atlas", "streaminsight", "azure", "beyond", "handler", "others")
LOADED = [each for system in SYSTEMS for each in scenarios_in(f"{system}/*.yaml")]
BARE = [each for each in LOADED if each.scenario.topology is None and not each.scenario.meta.get("restarts")]
"""Without those that show what a restart changes."""
ANY_BATCHES = [each for each in BARE if not each.scenario.meta.get("batches")]
"""Without those that show that early firings are decided where batches end; a crash ends one."""
TOPOLOGIES = [each for each in LOADED if each.scenario.topology is not None]


def depends_on_batches(scenario: Scenario) -> bool:
    """Whether what comes out may depend on when ticks come: Storm's rule, early firings."""
    rules = scenario.rules
    event_time = rules.reads_timestamps or rules.arrival_is_time
    return rules.panes is not None or (event_time and rules.watermark_every is None)


PER_EVENT = [each for each in BARE if not depends_on_batches(each.scenario)]
CUTS = [(each, seed) for each in PER_EVENT for seed in range(2)]
CUTS += [(each, seed) for each in TOPOLOGIES for seed in range(4)]


def name_of(loaded: LoadedScenario) -> str:
    return loaded.scenario.name


@pytest.mark.parametrize("loaded", sampled([*ANY_BATCHES[::2], *TOPOLOGIES], 5, name_of))
def test_a_crash_after_every_step_changes_nothing(loaded: LoadedScenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(loaded.place.path.parent)  # a scenario names its topology from where it is
    assert not differences(loaded.scenario, replay_locally(crashing(loaded.scenario)))


@pytest.mark.parametrize("cut", sampled(CUTS, 10, lambda cut: f"{name_of(cut[0])}-{cut[1]}"))
def test_batches_may_end_anywhere(cut: tuple[LoadedScenario, int], monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, seed = cut
    monkeypatch.chdir(loaded.place.path.parent)
    assert not differences(loaded.scenario, run_cut(loaded.scenario, random.Random(seed)))
