"""Windows over a number of distinct start times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from policies.assigners.aligned import key_heads
from policies.assigners.assigner import Assigned, Live, WindowAssigner
from policies.assigners.sessions import Runs
from windowing.time.durations import Count
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.assigners.assigner import Limit


@dataclass(frozen=True)
class CountByStartWindows(WindowAssigner):
    """A window from each start time of a key to a microsecond after the ``count``-th start time, itself included
    (SI-30).

    A start time counts once however many events have it, so a window may hold more events than its count. An event is
    in a window by its start alone; the end of its lifetime does not matter. Fewer start times than the count form no
    window, not even at the end of the streams. ``Live.closed_until`` is ignored.
    """

    count: Count

    def assign(self, live: Live, after: Limit, upto: Limit) -> Iterator[Assigned]:
        return self._windows(live).due(after, upto).pieces()

    def finished(self, live: Live, upto: Limit) -> NDArray[np.bool_]:
        # The last window that holds an event is the one that starts with it.
        firsts = self._firsts(live)
        ends = np.full(len(firsts), FOREVER)
        whole = self._whole(live, firsts)
        ends[whole] = live.starts[firsts[whole + self.count.value - 1]] + 1
        return np.repeat(ends, np.diff(firsts, append=len(live))) <= upto

    def next_end(self, live: Live, after: Limit) -> int | None:
        return self._windows(live).next_end(after)

    def _windows(self, live: Live) -> Runs:
        firsts = self._firsts(live)
        whole = self._whole(live, firsts)
        ends = live.starts[firsts[whole + self.count.value - 1]] + 1
        highs = np.append(firsts, len(live))[whole + self.count.value]
        return Runs(live.starts[firsts[whole]], ends, firsts[whole], highs)

    def _firsts(self, live: Live) -> NDArray[np.int64]:
        """The index of the first event of each start time of each key."""
        fresh = key_heads(live)
        fresh[1:] |= live.starts[1:] != live.starts[:-1]
        return np.flatnonzero(fresh)

    def _whole(self, live: Live, firsts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which of them are followed by enough other start times of their key for a window."""
        further = self.count.value - 1
        owners = np.cumsum(key_heads(live), dtype=np.int64)[firsts]
        return np.flatnonzero(owners[further:] == owners[: max(len(owners) - further, 0)])
