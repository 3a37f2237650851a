"""Window assigners: which windows the live events of a task form, decided on whole arrays.

They serve what is not a run of Storm's queue: windows per key, sessions, snapshots, intervals, and windows that an
event may miss although it is let in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from windowing.views import make_read_only

if TYPE_CHECKING:
    from numpy.typing import NDArray

    LastEnd = Callable[[NDArray[np.int64], NDArray[np.int64] | None], NDArray[np.int64]]
    Limit = int | NDArray[np.int64]
    """A time in microseconds for all events, or one per event, equal for all events of a key."""


@dataclass(frozen=True, slots=True)
class Live:
    """Events that a window may still hold, in order of (key, start, arrival); read-only arrays of equal length.

    All times are microseconds since the epoch.
    """

    starts: NDArray[np.int64]
    """When each event is, or begins."""
    keys: NDArray[np.int64] | None = None
    """A code for each event's key, ascending; equal codes are equal keys. None: all events have one key."""
    ends: NDArray[np.int64] | None = None
    """Where the lifetime of each event ends: the first instant it does not hold. None: events are points."""
    closed: NDArray[np.int64] | None = None
    """Windows that end up to here were over when the event came, and do not hold it. None: none was."""
    gaps: NDArray[np.int64] | None = None
    """A session gap for each event, where each has its own."""

    def __post_init__(self) -> None:
        make_read_only(self, "starts", "keys", "ends", "closed", "gaps")

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(frozen=True, slots=True)
class Assigned:
    """Windows with their events, in order of (end, start, key); each holds at least one event."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    offsets: NDArray[np.int64]
    """One more than there are windows: window i holds ``members[offsets[i]:offsets[i + 1]]``."""
    members: NDArray[np.int64]
    """Positions in the live events, ascending within each window."""

    def __len__(self) -> int:
        return len(self.starts)


class WindowAssigner(ABC):
    """Forms windows from live events. Frozen, without state: what it answers follows from its arguments alone."""

    @property
    def last_end(self) -> LastEnd | None:
        """Gives, of events (starts, ends of lifetimes), the end of the last window that can hold each; microseconds.

        None where that depends on other events.
        """
        return None

    @property
    def takes_events_at_the_watermark(self) -> bool:
        """Whether, with bounds of START, no window that ends up to a moment could hold an event of that moment."""
        return True

    @property
    def ends_at_limit(self) -> bool:
        """Whether a lifetime that begins or is cut at exactly a limit may end a window there only then."""
        return False

    @abstractmethod
    def assign(self, live: Live, after: Limit, upto: Limit) -> Iterator[Assigned]:
        """The windows with after < end <= upto that hold an event, in order, in as many pieces as is convenient."""

    @abstractmethod
    def finished(self, live: Live, upto: Limit) -> NDArray[np.bool_]:
        """Which events no window that ends after ``upto`` can need, whatever else may still come at or after it."""

    @abstractmethod
    def next_end(self, live: Live, after: Limit) -> int | None:
        """The earliest end > after of a window that holds an event, as things stand; None where there is none."""

    def earliest_start(self, upto: int, held: int | None) -> int:
        """No window that ends after ``upto`` starts before this, in microseconds (SI-24).

        ``held``: when the earliest live event starts, None where there is none; others may still come, at ``upto`` or
        after it.
        """
        return upto if held is None else min(upto, held)


def limit_at(limit: Limit, positions: NDArray[np.int64]) -> Limit:
    """The limit of the events at these positions."""
    return limit[positions] if isinstance(limit, np.ndarray) else limit
