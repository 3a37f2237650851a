"""Plays many seeds, in several processes side by side."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.simulation.coverage import Coverage
from tests.simulation.playing import play
from tests.simulation.shrinking import keep, shrunk

_AT_A_TIME = 20
"""Seeds that a process plays before it reports."""


def played_side_by_side(first: int, seeds: int, processes: int, folder: Path) -> Iterator[tuple[Coverage, list[str]]]:
    """What seeds met, and those that went wrong, some at a time, in their order; these are written to ``folder``."""
    parts = range(first, first + seeds, _AT_A_TIME)
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(partial(_some, first + seeds, folder), parts)


def _some(end: int, folder: Path, first: int) -> tuple[Coverage, list[str]]:
    coverage, failures = Coverage(), []
    for seed in range(first, min(first + _AT_A_TIME, end)):
        played = play(seed)
        coverage.add(played)
        if played.problems:
            failures.append(keep(shrunk(played), folder))
    return coverage, failures
