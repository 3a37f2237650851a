"""What policies see of the queue: event times in order, and what has been decided about them before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from policies.actions import Event

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class QueueView:
    """The settled events: those up to the frontier, in order of (time, arrival); nothing can come before them.

    Positions count from 0, the oldest event still in the queue.
    """

    timestamps: NDArray[np.int64]
    base: int
    """How many events have left the queue: position p is the (base + p)th event of this bolt task, from 0."""
    settled: int
    """How many of the events were already settled at the last evaluation; those from here on are newly so."""
    fired: int
    """Events before this position have been in a fired window, or can be in none."""
    passed: int | None
    """The frontier of the last evaluation, in microseconds: windows that end up to it are over. None at first."""
    frontier: int
    """Up to here, in microseconds, no further event can come (FOREVER at the end of the streams)."""
    row: Callable[[int], dict[str, Any]]

    def event(self, position: int, place: int | None = None) -> Event:
        """One event, for policies that decide event by event; its place where expired ones are not counted."""
        event_place = position if place is None else place
        return Event(int(self.timestamps[position]), event_place, lambda: self.row(position))


@dataclass(frozen=True, slots=True)
class Firings:
    """Windows that are due, in order; arrays of equal length."""

    references: NDArray[np.int64]
    """The time of each firing in microseconds."""
    stops: NDArray[np.int64]
    """How many events of the queue lie up to each reference."""
