"""Sliding windows that end at every change of their contents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from policies.assigners.aligned import key_heads
from policies.assigners.assigner import Assigned, Live, WindowAssigner
from policies.assigners.sessions import Runs
from windowing.data.order import pair_order
from windowing.errors import ConfigError
from windowing.time.durations import Duration

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.admission import LastEnd
    from policies.assigners.assigner import Limit


@dataclass(frozen=True)
class SlidingLogWindows(WindowAssigner):
    """The window (t - length, t] at every t at which an event of the key enters or leaves it (AZ-21).

    An event enters at its time and leaves ``length`` later. Changes at the same time form one window; empty windows are
    omitted. ``Live.closed_until`` is ignored: a late event is in the windows not yet released.

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
        return self._windows(live).due(after, upto).pieces()

    def finished(self, live: Live, upto: Limit) -> NDArray[np.bool_]:
        return live.starts + self.length.micros <= upto

    def next_end(self, live: Live, after: Limit) -> int | None:
        return self._windows(live).next_end(after)

    def earliest_start(self, upto: int, held: int | None) -> int:
        return upto + 1 - self.length.micros

    @property
    def last_end(self) -> LastEnd:
        return lambda starts, ends: starts + self.length.micros

    def _windows(self, live: Live) -> Runs:
        if live.ends is not None:
            raise ConfigError(
                "sliding windows over events with lifetimes",
                why="an event enters such a window at one time",
                do="leave the lifetimes out, or use SnapshotWindows",
            )
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
