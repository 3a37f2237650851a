"""The scenarios of the project's own files, each file read once in a process."""

from __future__ import annotations

import functools
from pathlib import Path

from tests.helpers.places import SCENARIOS
from topologies.scenarios.scenario_model import LoadedScenario, load


@functools.cache
def scenarios_of(path: Path) -> tuple[LoadedScenario, ...]:
    """Returns the scenarios of a file, without those that cannot be read."""
    return tuple(each for each in load(path) if isinstance(each, LoadedScenario))


def scenarios_in(pattern: str) -> list[LoadedScenario]:
    """Returns the scenarios of all files below tests/scenarios whose paths match, in the order of the paths."""
    return [each for path in sorted(SCENARIOS.glob(pattern)) for each in scenarios_of(path)]
