"""The scenarios of all systems but Storm hold wherever batches end, and after a crash at every step."""

from __future__ import annotations

import random

import pytest

from tests.helpers.places import SCENARIOS
from tests.helpers.recut import crashing, differences, run_cut
from topologies.scenarios.run.replay import replay_locally, watched_topology
from topologies.scenarios.schema.model import Scenario
from topologies.scenarios.schema.scenario_files import Loaded, load

SYSTEMS = ("atlas", "streaminsight", "azure", "beyond", "handler")
FILES = sorted(path for system in SYSTEMS for path in (SCENARIOS / system).glob("*.yaml"))
LOADED = [each for path in FILES for each in load(path) if isinstance(each, Loaded)]
BARE = [each.scenario for each in LOADED if each.scenario.topology is None and not each.scenario.meta.get("restarts")]
"""Without those that show what a restart changes."""


def depends_on_batches(scenario: Scenario) -> bool:
    """Whether what comes out may depend on when ticks come: Storm's rule, early firings."""
    built = watched_topology(scenario)
    return any(
        part.bolt.settings.panes is not None or (part.event_time and part.bolt.settings.watermark_every is None)
        for part in built.windowed.values()
    )


PER_EVENT = [scenario for scenario in BARE if not depends_on_batches(scenario)]
EVERY = pytest.mark.parametrize("scenario", BARE, ids=[scenario.name for scenario in BARE])


@EVERY
def test_a_crash_after_every_step_changes_nothing(scenario: Scenario) -> None:
    assert not differences(scenario, replay_locally(crashing(scenario)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scenario", PER_EVENT, ids=[scenario.name for scenario in PER_EVENT])
def test_batches_may_end_anywhere(scenario: Scenario, seed: int) -> None:
    assert not differences(scenario, run_cut(scenario, random.Random(seed)))
