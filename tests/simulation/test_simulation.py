"""The simulation: a few of its seeds, and the defects that it has to find."""

from __future__ import annotations

import pytest

from tests.simulation.faults import schedule
from tests.simulation.mutants import MUTANTS
from tests.simulation.playing import play, shrunk

SEEDS = 1_000
MOST = 2_000
"""Within so many seeds each planted defect is found."""
FIRST = {
    "segments are not synced": 30,
    "files of sinks are not synced": 30,
    "the commit comes before the sinks": 30,
    "a note is written before the one that it needs": 30,
    "documents are written in place": 20,
    "checksums of segments are not compared": 130,
    "files of sinks stay when it goes back": 310,
    "watermarks are one too far": 80,
}
"""The first seed, where those before it do not find it and would take a minute."""


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_runs_with_faults_come_to_what_runs_without_come_to(first: int) -> None:
    for seed in range(first, first + 50):
        played = play(seed)
        assert not played.problems, str(shrunk(played))


def test_a_seed_plays_the_same_each_time() -> None:
    seed = next(seed for seed in range(100) if len(play(seed).happened) > 3)
    first, second = play(seed), play(seed)
    assert first.happened == second.happened
    assert first.operations == second.operations


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_defect_is_found(name: str) -> None:
    first = FIRST.get(name, 0)
    with MUTANTS[name]():
        assert any(play(seed).problems for seed in range(first, first + MOST))


def test_a_failure_says_what_happened_and_how_to_see_it_again() -> None:
    with MUTANTS["segments are not synced"]():
        played = shrunk(next(played for seed in range(MOST) if (played := play(seed)).problems))
        assert len(played.faults) <= len(schedule(played.seed))
        said = str(played)
        command = said.splitlines()[-1]
        assert "power cut, at: " in said
        assert f"--seeds 1 --from {played.seed}" in command
        chosen = command.partition("--only ")[2]
        only = [int(place) for place in chosen.split(",")] if chosen else None
        again = play(played.seed, only)
    assert again.happened == played.happened
    assert again.problems
