"""Snapshot windows: a new window whenever the set of live events changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from policies.assigners.aligned import in_pieces, key_heads, unfold
from policies.assigners.assigner import Assigned, Live, WindowAssigner, limit_at
from policies.assigners.sessions import Runs
from windowing.data.order import pair_order, stable_order
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
        count = len(events)
        times = np.concatenate([live.starts[events], ends[events]])
        owners = np.tile(np.cumsum(key_heads(live), dtype=np.int64)[events], 2)
        order = pair_order(owners, times)
        times, owners = times[order], owners[order]
        fresh = np.ones(len(times), dtype=bool)
        fresh[1:] = (times[1:] != times[:-1]) | (owners[1:] != owners[:-1])
        places = np.empty_like(order)
        places[order] = np.cumsum(fresh, dtype=np.int64) - 1
        times = times[fresh]
        change = np.bincount(places[:count], minlength=len(times)) - np.bincount(places[count:], minlength=len(times))
        holders = events[order[fresh] % max(count, 1)]
        return Intervals(
            times=times,
            stops=times[1:],
            crowds=np.cumsum(change),
            holders=holders,
            events=events,
            first=places[:count],
            stop=places[count:],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """The intervals between neighbouring boundaries of a key, in order of (key, time); some are empty."""

    times: NDArray[np.int64]
    """Start of each slice."""
    stops: NDArray[np.int64]
    """End of each slice; undefined for slices without events."""
    crowds: NDArray[np.int64]
    """Number of events alive in each slice; 0 after the last boundary of a key."""
    holders: NDArray[np.int64]
    """Index of an event of the same key."""
    events: NDArray[np.int64]
    """Indices of the events whose lifetimes have a length."""
    first: NDArray[np.int64]
    """First slice of each of these events."""
    stop: NDArray[np.int64]
    """One more than its last slice."""

    def pieces(self, after: Limit, upto: Limit) -> Iterator[Assigned]:
        held = np.flatnonzero(self.crowds)
        ends = self.stops[held]
        due = (ends > limit_at(after, self.holders[held])) & (ends <= limit_at(upto, self.holders[held]))
        held, ends = held[due], ends[due]
        order = pair_order(ends, self.times[held])
        held, ends = held[order], ends[order]
        for begin, stop, offsets in in_pieces(self.crowds[held]):
            chosen = held[begin:stop]
            yield Assigned(self.times[chosen], ends[begin:stop], offsets, self._members(chosen))

    def next_end(self, after: Limit) -> int | None:
        held = np.flatnonzero(self.crowds)
        ends = self.stops[held]
        ends = ends[ends > limit_at(after, self.holders[held])]
        return int(ends.min()) if len(ends) else None

    def _members(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """The events of the chosen slices, slice by slice."""
        # Among the chosen slices, those of one event are adjacent when the slices are in their own order.
        marked = np.zeros(len(self.times) + 1, dtype=np.int64)
        marked[chosen + 1] = 1
        chosen_before = np.cumsum(marked)
        first = chosen_before[self.first]
        counts = chosen_before[self.stop] - first
        owner, further = unfold(counts)
        ranks = np.argsort(chosen)
        return self.events[owner[stable_order(ranks[first[owner] + further])]]
