"""Windows of a count of events, of each key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from policies.assigners.aligned import key_heads
from policies.assigners.assigner import Assigned, Live, WindowAssigner
from policies.assigners.sessions import Runs
from windowing.errors import ConfigError
from windowing.time.durations import Count
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.assigners.assigner import Limit


@dataclass(frozen=True)
class CountedWindows(WindowAssigner):
    """At every ``slide``-th event of a key, the last ``length`` events of that key up to it (ST-2, ST-5, for each key).

    Events count once time has reached them, in order of (time, arrival). A window ends at the time of its last event;
    the first windows of a key hold fewer events, and an incomplete slide forms no window, not even at the end of the
    streams. With a slide longer than the length the events between two windows are in none.

    Nothing but ``Live.seen`` is known of earlier windows: of overlapping or touching ones the events that were in none
    yet are those since the last window; of others all live events are. So the lower limit of ``assign`` is ignored, and
    an event at the very time of the last window counts for the next.
    """

    ends_by_time = False

    length: Count
    slide: Count
    by_arrival: bool = False
    """Whether windows are ordered by the arrival of their last events, and not by (end, start, key). Only where every
    event counts in the batch in which it arrives, in processing time: of earlier events the order is not known."""

    @property
    def _leaves_gaps(self) -> bool:
        """Whether there are events between two windows, in none."""
        return self.slide.value > self.length.value

    @property
    def takes_events_at_the_watermark(self) -> bool:
        return False

    def assign(self, live: Live, after: Limit, upto: Limit) -> Iterator[Assigned]:
        arrivals = np.arange(len(live)) if live.arrivals is None else live.arrivals
        return self._windows(live, upto).pieces(arrivals if self.by_arrival else None)

    def finished(self, live: Live, upto: Limit) -> NDArray[np.bool_]:
        self._refuse_lifetimes(live)
        kept = max(self.length.value - self.slide.value, 0)
        fired = self._lasts(live, upto)
        # Behind the last window of a key nothing is finished, and of its events only those that the next one may hold.
        bounds = np.full(int(key_heads(live).sum()), -1)
        bounds[self._owners(live)[fired]] = fired - kept
        finished: NDArray[np.bool_] = np.arange(len(live)) <= bounds[self._owners(live)]
        return finished

    def passed_over(self, live: Live, upto: Limit) -> NDArray[np.bool_] | None:
        if not self._leaves_gaps:
            return None
        ranks, counted = self._ranks(live, upto)
        return counted & ((ranks - 1) % self.slide.value < self.slide.value - self.length.value)

    def next_end(self, live: Live, after: Limit) -> int | None:
        if self._leaves_gaps:  # an event that no window will hold is known as soon as time reaches it
            later = live.starts[live.starts > after]
            return int(later.min()) if len(later) else None
        return self._windows(live, FOREVER).next_end(after)

    def open(self, live: Live, after: Limit) -> Iterator[Assigned]:
        return self._windows(live, FOREVER).due(after, FOREVER).pieces()

    def _windows(self, live: Live, upto: Limit) -> Runs:
        self._refuse_lifetimes(live)
        lasts = self._lasts(live, upto)
        firsts = np.flatnonzero(key_heads(live))[self._owners(live)[lasts]]
        lows = np.maximum(firsts, lasts + 1 - self.length.value)
        return Runs(live.starts[lows], live.starts[lasts], lows, lasts + 1)

    def _lasts(self, live: Live, upto: Limit) -> NDArray[np.int64]:
        """The indices of the events with which windows end, up to a limit."""
        ranks, counted = self._ranks(live, upto)
        return np.flatnonzero(counted & (ranks % self.slide.value == 0))

    def _ranks(self, live: Live, upto: Limit) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The number of each event since the last window of its key, from 1; and which events count at the limit."""
        counted = live.starts <= upto
        if not self._leaves_gaps and live.seen is not None:
            counted &= ~live.seen
        so_far = np.concatenate([[0], np.cumsum(counted)])
        before = so_far[np.flatnonzero(key_heads(live))]
        return so_far[1:] - before[self._owners(live)], counted

    def _owners(self, live: Live) -> NDArray[np.int64]:
        """The number of each event's key, from 0."""
        return np.cumsum(key_heads(live), dtype=np.int64) - 1

    def _refuse_lifetimes(self, live: Live) -> None:
        if live.ends is not None:
            raise ConfigError(
                "windows of a count of events with lifetimes",
                why="such windows count points in time",
                do="leave the lifetimes out, or use windows of time",
            )
