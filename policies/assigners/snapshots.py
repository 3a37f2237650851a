"""Snapshot windows: a new window whenever the set of live events changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from policies.assigners.aligned import key_heads
from policies.assigners.assigner import Assigned, Live, WindowAssigner
from policies.assigners.intervals import Intervals
from policies.assigners.sessions import Runs
from windowing.errors import ConfigError
from windowing.settings.bounds import Bounds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.admission import LastEnd
    from policies.assigners.assigner import Limit

_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True)
class SnapshotWindows(WindowAssigner):
    """Windows between the times at which a lifetime of the key starts or ends, with the events alive in between
    (SI-29).

    A point lives for one microsecond: [t, t + 1 us), or (t - 1 us, t] with bounds of END, so that points of equal time
    form one window with that timestamp (AZ-25). A lifetime without length is in no window and bounds none. The last
    slice of an endless lifetime is released when the limit is FOREVER.

    A lifetime that starts or is cut exactly at ``upto`` may still end a slice there, which a call with that limit
    cannot know (``ends_at_limit``). ``Live.closed_until`` is ignored.

    ``assign`` raises ConfigError for events with lifetimes under bounds of END.
    """

    bounds: Bounds = Bounds.START

    @property
    def ends_at_limit(self) -> bool:
        return True

    def assign(self, live: Live, after: Limit, upto: Limit) -> Iterator[Assigned]:
        if live.ends is None:
            return self._moments(live).due(after, upto).pieces()
        return self._slices(live, live.ends).pieces(after, upto)

    def finished(self, live: Live, upto: Limit) -> NDArray[np.bool_]:
        if live.ends is None:
            return self._ends(live) <= upto
        if not len(live):
            return np.empty(0, dtype=bool)
        void = live.ends <= live.starts
        lives_on = (live.ends > upto) & ~void
        bounds = np.where(live.ends <= upto, live.ends, np.where(live.starts <= upto, live.starts, _NEVER))
        bounds[void] = _NEVER
        heads = key_heads(live)
        firsts, owner = np.flatnonzero(heads), np.cumsum(heads, dtype=np.int64) - 1
        last_bound = np.maximum.reduceat(bounds, firsts)[owner]
        return ~np.logical_or.reduceat(lives_on, firsts)[owner] | (live.ends < last_bound) | void

    def next_end(self, live: Live, after: Limit) -> int | None:
        if live.ends is None:
            return self._moments(live).next_end(after)
        return self._slices(live, live.ends).next_end(after)

    @property
    def windows_per_event(self) -> int:
        return 2

    @property
    def looks_back(self) -> int:
        """Of points, which last a microsecond, before or after their time; one that lasts has no limit."""
        return int(self.bounds is Bounds.START)

    @property
    def last_end(self) -> LastEnd:
        return lambda starts, ends: self._ends(Live(starts)) if ends is None else ends

    def _ends(self, live: Live) -> NDArray[np.int64]:
        return self.bounds.first_end(live.starts, 1, 0)

    def _moments(self, live: Live) -> Runs:
        """The windows of points: one per distinct time of a key."""
        fresh = key_heads(live)
        fresh[1:] |= live.starts[1:] != live.starts[:-1]
        lows = np.flatnonzero(fresh)
        ends = self._ends(live)[lows]
        return Runs(ends - 1, ends, lows, np.append(lows, len(live))[1:])

    def _slices(self, live: Live, ends: NDArray[np.int64]) -> Intervals:
        if self.bounds is Bounds.END:
            raise ConfigError(
                "snapshots of lifetimes with bounds of END",
                why="a lifetime holds its start and not its end",
                do="use Bounds.START",
            )
        events = np.flatnonzero(ends > live.starts)
        return Intervals.between(live, events, live.starts[events], ends[events])
