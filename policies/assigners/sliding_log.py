"""Sliding windows that end at every change of their contents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from policies.assigners.aligned import key_heads
from policies.assigners.assigner import Assigned, Live, WindowAssigner
from policies.assigners.intervals import Intervals
from policies.assigners.sessions import Runs
from windowing.data.order import pair_order
from windowing.errors import ConfigError
from windowing.time.durations import Duration
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.admission import LastEnd
    from policies.assigners.assigner import Limit


@dataclass(frozen=True)
class SlidingLogWindows(WindowAssigner):
    """The window (t - length, t] at every t at which an event of the key enters or leaves it (AZ-21).

    An event enters at its time and leaves ``length`` later. Changes at the same time form one window; empty windows are
    omitted. An event is in no window that was closed when it came (``Live.closed_until``), and ends none of these; one
    for which all had closed is as if it had not come.

    Raises ConfigError for a length of zero; ``assign`` raises it for events with lifetimes.
    """

    length: Duration

    def __post_init__(self) -> None:
        if not self.length.micros:
            raise ConfigError("a window length of zero", why="the window would hold no events", do="make it longer")

    @property
    def takes_events_at_the_watermark(self) -> bool:
        return False

    def assign(self, live: Live, after: Limit, upto: Limit) -> Iterator[Assigned]:
        windows = self._windows(live)
        return windows.pieces(after, upto) if isinstance(windows, Intervals) else windows.due(after, upto).pieces()

    def finished(self, live: Live, upto: Limit) -> NDArray[np.bool_]:
        return live.starts + self.length.micros <= upto

    def next_end(self, live: Live, after: Limit) -> int | None:
        return self._windows(live).next_end(after)

    def earliest_start(self, upto: int, held: int | None) -> int:
        return upto + 1 - self.length.micros

    @property
    def windows_per_event(self) -> int:
        return 2

    @property
    def looks_back(self) -> int:
        return self.length.micros

    @property
    def last_end(self) -> LastEnd:
        return lambda starts, ends: starts + (self.length.micros - 1)  # when it leaves, it is in the window no more

    def _windows(self, live: Live) -> Runs | Intervals:
        if live.ends is not None:
            raise ConfigError(
                "sliding windows over events with lifetimes",
                why="an event enters such a window at one time",
                do="leave the lifetimes out, or use SnapshotWindows",
            )
        if live.closed_until is not None and (live.closed_until >= live.starts).any():
            return self._of_late_events(live, live.closed_until)
        count = len(live)
        times = np.concatenate([live.starts, live.starts + self.length.micros])
        owners = np.tile(np.cumsum(key_heads(live), dtype=np.int64), 2)
        order = pair_order(owners, times)
        times, owners = times[order], owners[order]
        last = np.ones(len(times), dtype=bool)
        last[:-1] = (times[1:] != times[:-1]) | (owners[1:] != owners[:-1])
        # Events leave in the order in which they entered, and all of a key before the next key begins. So the numbers
        # of events entered and left are the indices between which the window lies.
        entered = np.cumsum(order < count, dtype=np.int64)[last]
        left = np.arange(1, 2 * count + 1)[last] - entered
        held = entered > left
        ends = times[last][held]
        return Runs(ends - self.length.micros, ends, left[held], entered[held])

    def _of_late_events(self, live: Live, closed_until: NDArray[np.int64]) -> Intervals:
        """The windows where events have missed some: an event may then leave before one that entered before it."""
        length = self.length.micros
        missed = np.minimum(closed_until, FOREVER - 1)
        events = np.flatnonzero(missed < live.starts + (length - 1))
        starts, missed = live.starts[events], missed[events]
        found = Intervals.between(live, events, np.maximum(starts, missed + 1), starts + length)
        changes = np.zeros(len(found.times), np.bool_)
        changes[found.first[missed < starts]] = True  # what comes late enters between two windows, and ends none
        changes[found.stop] = True
        return replace(found, times=found.times - length, stops=found.times, crowds=found.crowds * changes)
