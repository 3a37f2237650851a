"""Onset windows: the instant at which each lifetime begins, with all events alive then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from policies.assigners.aligned import key_heads
from policies.assigners.assigner import Assigned, Live, WindowAssigner
from policies.assigners.intervals import Intervals
from policies.assigners.snapshots import SnapshotWindows
from windowing.settings.bounds import Bounds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.admission import LastEnd
    from policies.assigners.assigner import Limit

_POINTS = SnapshotWindows(Bounds.START)


@dataclass(frozen=True)
class OnsetWindows(WindowAssigner):
    """The window [t, t + 1 us) at every t at which a lifetime of the key begins, with the events alive then (SI-22).

    It closes as soon as nothing can begin at t any more, however long its events last. For points it is their snapshot.
    A lifetime without length is in none. ``Live.closed_until`` is ignored.
    """

    by_time_alone = True

    def assign(self, live: Live, after: Limit, upto: Limit) -> Iterator[Assigned]:
        if live.ends is None:
            return _POINTS.assign(live, after, upto)
        return onset_slices(live, live.ends).pieces(after, upto)

    def finished(self, live: Live, upto: Limit) -> NDArray[np.bool_]:
        ends = live.starts + 1 if live.ends is None else live.ends
        return (ends <= upto) | (ends <= live.starts)

    def next_end(self, live: Live, after: Limit) -> int | None:
        if live.ends is None:
            return _POINTS.next_end(live, after)
        return onset_slices(live, live.ends).next_end(after)

    @property
    def looks_back(self) -> int:
        return 1

    @property
    def last_end(self) -> LastEnd:
        """The end of the one window that an event must not miss: the one that it begins."""
        return lambda starts, ends: starts + 1

    @property
    def needed_until(self) -> LastEnd:
        """An event is in the windows that others begin, too, as long as it lasts."""
        return lambda starts, ends: starts + 1 if ends is None else ends

    def earliest_start(self, upto: int, held: int | None) -> int:
        return upto


def onset_slices(live: Live, ends: NDArray[np.int64]) -> Intervals:
    """The instants at which lifetimes begin."""
    events = np.flatnonzero(ends > live.starts)
    starts = live.starts[events]
    owners = np.cumsum(key_heads(live), dtype=np.int64)[events]
    fresh = np.ones(len(events), dtype=bool)
    fresh[1:] = (starts[1:] != starts[:-1]) | (owners[1:] != owners[:-1])
    heads = np.flatnonzero(fresh)
    first = np.cumsum(fresh, dtype=np.int64) - 1
    # An event is alive at the onsets of its key before its end: ends and onsets are sorted together, ends first.
    times = np.concatenate([ends[events], starts[heads]])
    order = np.lexsort((times, np.concatenate([owners, owners[heads]])))
    moments = np.cumsum(order >= len(events), dtype=np.int64)
    stop = np.empty(len(events), dtype=np.int64)
    mine = order < len(events)
    stop[order[mine]] = moments[mine]
    crowds = np.cumsum(
        np.bincount(first, minlength=len(heads) + 1) - np.bincount(stop, minlength=len(heads) + 1), dtype=np.int64
    )
    return Intervals(
        times=starts[heads],
        stops=starts[heads] + 1,
        crowds=crowds[:-1],
        holders=events[heads],
        events=events,
        first=first,
        stop=stop,
    )
