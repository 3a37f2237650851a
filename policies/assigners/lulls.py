"""Windows of the last event before a silence: nothing comes for some time after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from policies.assigners.aligned import key_heads
from policies.assigners.assigner import Assigned, Live, WindowAssigner
from policies.assigners.sessions import Runs
from windowing.time.durations import Duration

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.admission import LastEnd
    from policies.assigners.assigner import Limit


@dataclass(frozen=True)
class LullWindows(WindowAssigner):
    """The window [t, t + length) of each event that no other of its key follows in that time; it holds this event.

    An event of the same time that arrived later follows it; one exactly at the end does not. An event is given up once
    one that follows it is in the past. So of the past one event of a key is kept. ``Live.closed_until`` is ignored.
    """

    length: Duration

    def assign(self, live: Live, after: Limit, upto: Limit) -> Iterator[Assigned]:
        return self._lulls(live).due(after, upto).pieces()

    def finished(self, live: Live, upto: Limit) -> NDArray[np.bool_]:
        following = self._following(live)
        # Not while the one that follows may still move away, behind an earlier one that has yet to come.
        followed = (following - live.starts < self.length.micros) & (following <= upto)
        return followed | (live.starts + self.length.micros <= upto)

    def next_end(self, live: Live, after: Limit) -> int | None:
        """For events that others follow: when they are given up. Else the next evaluation could be long after that."""
        moments = np.minimum(self._following(live), live.starts + self.length.micros)
        moments = moments[moments > after]
        return int(moments.min()) if len(moments) else None

    @property
    def looks_back(self) -> int:
        return self.length.micros

    @property
    def last_end(self) -> LastEnd:
        """The end of the one window that an event may have."""
        return lambda starts, ends: starts + self.length.micros

    @property
    def needed_until(self) -> None:
        """An event is given up once another one has followed it."""
        return None

    def _lulls(self, live: Live) -> Runs:
        lows = np.flatnonzero(self._following(live) - live.starts >= self.length.micros)
        starts = live.starts[lows]
        return Runs(starts, starts + self.length.micros, lows, lows + 1)

    def _following(self, live: Live) -> NDArray[np.int64]:
        """When the next event of each one's key comes; of the last of a key the end of its window."""
        following = live.starts + self.length.micros
        following[:-1] = np.where(key_heads(live)[1:], following[:-1], live.starts[1:])
        return following
