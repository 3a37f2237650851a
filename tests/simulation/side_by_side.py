"""Plays many seeds, in several processes side by side."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from functools import partial

from tests.simulation.coverage import Coverage
from tests.simulation.playing import play, shrunk

_AT_A_TIME = 20
"""Seeds that a process plays before it reports."""


def played_side_by_side(first: int, seeds: int, processes: int) -> Iterator[tuple[Coverage, list[str]]]:
    """What seeds met, and those that went wrong, some at a time and in any order."""
    parts = range(first, first + seeds, _AT_A_TIME)
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(partial(_some, first + seeds), parts)


def _some(end: int, first: int) -> tuple[Coverage, list[str]]:
    coverage, failures = Coverage(), []
    for seed in range(first, min(first + _AT_A_TIME, end)):
        played = play(seed)
        coverage.add(played)
        if played.problems:
            failures.append(str(shrunk(played)))
    return coverage, failures
