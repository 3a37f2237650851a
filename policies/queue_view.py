"""The policies' view of the queue: event times in order, and earlier decisions about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from policies.eviction_actions import QueuedEvent

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """The settled events: those up to the frontier, in order of (time, arrival); no event can come before them.

    Positions count from 0, the oldest event still in the queue.
    """

    timestamps: NDArray[np.int64]
    base: int
    """Number of events that have left the queue: position p is the (base + p)th event of this task, from 0."""
    already_settled: int
    """Number of events that were already settled at the last evaluation; those from this position on are newly
    settled."""
    accounted: int
    """Events before this position are in an account: they have been in a fired window, or can be in none."""
    previous_frontier: int | None
    """The frontier of the last evaluation in microseconds, up to which windows have fired; None before the first."""
    frontier: int
    """The present frontier in microseconds: no further event can come up to it (FOREVER at the end of the streams)."""
    row: Callable[[int], dict[str, Any]]

    def event(self, position: int, place: int | None = None) -> QueuedEvent:
        """One event, for policies that decide event by event. ``place`` is its index among the unexpired events, if
        that differs from its position."""
        event_place = position if place is None else place
        return QueuedEvent(int(self.timestamps[position]), event_place, lambda: self.row(position))


@dataclass(frozen=True, slots=True)
class DueWindows:
    """Due windows in order, as arrays of equal length."""

    references: NDArray[np.int64]
    """The reference time of each firing in microseconds."""
    stops: NDArray[np.int64]
    """Number of events of the queue up to each reference."""
