"""Window assigners form windows from the live events of a task, decided on whole arrays.

They serve windows that are not runs of the queue: windows per key, sessions, snapshots, intervals, and windows that an
event may miss although it is admitted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from windowing.data.views import make_read_only
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.admission import LastEnd

    Limit = int | NDArray[np.int64]
    """A time in microseconds for all events, or one per event, equal for all events of a key."""


@dataclass(frozen=True, slots=True)
class Live:
    """Events that a window may still hold, in order of (key, start, arrival); read-only arrays of equal length.

    All times are microseconds since the epoch.
    """

    starts: NDArray[np.int64]
    """The time or start of each event."""
    keys: NDArray[np.int64] | None = None
    """Code of each event's key, ascending; equal codes are equal keys. None: all events have one key."""
    ends: NDArray[np.int64] | None = None
    """End of each event's lifetime: the first instant it does not hold. None: events are points."""
    closed_until: NDArray[np.int64] | None = None
    """Windows that end up to this time were closed when the event came, and do not hold it. None: none was closed."""
    gaps: NDArray[np.int64] | None = None
    """Session gap of each event in microseconds; None where all share one gap."""
    sides: NDArray[np.int8] | None = None
    """Which of the bolt's inputs each event came on, from 0; None where no assigner asks (``by_side``)."""
    seen: NDArray[np.bool_] | None = None
    """Whether each event has been in a window, or is known to be in none. None: no event is so far."""
    arrivals: NDArray[np.int64] | None = None
    """The place of each event by arrival, as far as it is known: events of earlier batches come before those of this
    one, in any order. None: they arrived in the order that they have here."""

    def __post_init__(self) -> None:
        make_read_only(self, "starts", "keys", "ends", "closed_until", "gaps", "sides", "seen", "arrivals")

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(frozen=True, slots=True)
class Assigned:
    """Windows with their events, in order of (end, start, key); each window holds at least one event."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    offsets: NDArray[np.int64]
    """Offsets into ``members``, one more than there are windows: window i holds ``members[offsets[i]:offsets[i +
    1]]``."""
    members: NDArray[np.int64]
    """Indices into the live events, ascending within each window."""

    def __len__(self) -> int:
        return len(self.starts)


class WindowAssigner(ABC):
    """Forms windows from live events. Immutable and stateless: results depend on the arguments alone."""

    merges: ClassVar[bool] = False
    """Whether one more event may extend a window, or make one of two. An event is then in one window only."""
    by_time_alone: ClassVar[bool] = False
    """Whether the time of an event alone decides which windows hold it; of events that last, others may decide too."""
    ends_by_time: ClassVar[bool] = True
    """Whether time may end a window. One of a number of events ends with an event, and has no start in time."""

    @property
    def windows_per_event(self) -> int:
        """Upper bound on the number of windows for each event; of a grid, for each event that is a point in time."""
        return 1

    @property
    def looks_back(self) -> int | None:
        """How long before the end of a window its events may lie, in microseconds, of points in time; None where that
        is not bounded."""
        return None

    def anchored(self, anchor: int, offset: int) -> WindowAssigner:
        """The same windows, counted from a moment and shifted from there, both in microseconds; those that are not
        counted are left as they are. None begins before the anchor."""
        return self

    @property
    def last_end(self) -> LastEnd | None:
        """Maps events (starts, ends of lifetimes) to the end of the last window that can hold each, in microseconds.

        None where that depends on other events.
        """
        return None

    @property
    def needed_until(self) -> LastEnd | None:
        """Maps events (starts, ends of lifetimes) to the time, in microseconds, from which no window needs each.

        None where that depends on other events: see ``finished``.
        """
        return self.last_end

    @property
    def takes_events_at_the_watermark(self) -> bool:
        """Whether, with bounds of START, no window that ends at or before a time could hold an event of that time."""
        return True

    @property
    def ends_at_limit(self) -> bool:
        """Whether a lifetime that begins or is cut exactly at a limit may end a window there only after the limit was
        reached."""
        return False

    @property
    def by_side(self) -> bool:
        """Whether it asks for ``Live.sides``. Each event whose key has a null then has a key of its own."""
        return False

    @abstractmethod
    def assign(self, live: Live, after: Limit, upto: Limit) -> Iterator[Assigned]:
        """Yield the windows with after < end <= upto that hold an event, in order, in pieces of any size."""

    @abstractmethod
    def finished(self, live: Live, upto: Limit) -> NDArray[np.bool_]:
        """Which events no window that ends after ``upto`` can need, whatever events may still come at or after it."""

    def passed_over(self, live: Live, upto: Limit) -> NDArray[np.bool_] | None:
        """Which events are known to be in no window although they are not finished; None where there are none."""
        return None

    @abstractmethod
    def next_end(self, live: Live, after: Limit) -> int | None:
        """The earliest end > after, in microseconds, of a window that holds one of the present events; None where there
        is none. Earlier where the events must be looked at before that: one is passed over, for example."""

    def next_finished(self, live: Live, after: Limit) -> int | None:
        """A time > after, in microseconds, before which no present event that is not finished at ``after`` will be, as
        long as no other comes; None where there is none."""
        return self.next_end(live, after)

    def open(self, live: Live, after: Limit) -> Iterator[Assigned]:
        """Yield the windows with end > after that hold an event, and that time can close before the streams end; of
        others those that end at FOREVER."""
        return self.assign(live, after, FOREVER)

    def earliest_start(self, upto: int, held: int | None) -> int:
        """A lower bound, in microseconds, on the start of any window that ends after ``upto`` (SI-24).

        ``held`` is the start of the earliest live event, None where there is none. Other events may still come, at
        ``upto`` or later.
        """
        return upto if held is None else min(upto, held)


class GridWindows(WindowAssigner):
    """Windows whose edges are known without any event. All arguments and results are in microseconds."""

    by_time_alone = True

    @abstractmethod
    def following(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """The first window end after each time."""

    @abstractmethod
    def ends_between(self, after: int, upto: int) -> NDArray[np.int64]:
        """All window ends with after < end <= upto, ascending."""

    @abstractmethod
    def starts_of(self, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """The starts of the windows with these ends."""


def limit_at(limit: Limit, positions: NDArray[np.int64]) -> Limit:
    """The limit of the events at these indices."""
    return limit[positions] if isinstance(limit, np.ndarray) else limit
