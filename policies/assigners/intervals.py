"""The intervals between the times at which events come into something and go out of it, and who is in each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from policies.assigners.aligned import in_pieces, key_heads, unfold
from policies.assigners.assigner import Assigned, Live, limit_at
from windowing.data.order import pair_order, stable_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.assigners.assigner import Limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """The intervals between neighbouring boundaries of a key, in order of (key, time); some are empty."""

    times: NDArray[np.int64]
    """Start of each interval."""
    stops: NDArray[np.int64]
    """End of each interval; undefined for intervals without events."""
    crowds: NDArray[np.int64]
    """Number of events alive in each interval; 0 after the last boundary of a key, and where it is no window."""
    holders: NDArray[np.int64]
    """Index of an event of the same key."""
    events: NDArray[np.int64]
    """Indices of the events that are in intervals."""
    first: NDArray[np.int64]
    """First interval of each of these events."""
    stop: NDArray[np.int64]
    """One more than its last interval."""

    @staticmethod
    def between(live: Live, events: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64]) -> Intervals:
        """The intervals of these events (indices), each of which is in those from its beginning to its end
        (microseconds); it begins before it ends."""
        count = len(events)
        times = np.concatenate([begins, ends])
        owners = np.tile(np.cumsum(key_heads(live), dtype=np.int64)[events], 2)
        order = pair_order(owners, times)
        times, owners = times[order], owners[order]
        fresh = np.ones(len(times), dtype=bool)
        fresh[1:] = (times[1:] != times[:-1]) | (owners[1:] != owners[:-1])
        places = np.empty_like(order)
        places[order] = np.cumsum(fresh, dtype=np.int64) - 1
        times = times[fresh]
        change = np.bincount(places[:count], minlength=len(times)) - np.bincount(places[count:], minlength=len(times))
        return Intervals(
            times=times,
            stops=times[1:],
            crowds=np.cumsum(change),
            holders=events[order[fresh] % max(count, 1)],
            events=events,
            first=places[:count],
            stop=places[count:],
        )

    def pieces(self, after: Limit, upto: Limit) -> Iterator[Assigned]:
        """Yield the intervals with after < end <= upto that hold an event, in order, in pieces of bounded size."""
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
        """The earliest end > after of an interval that holds an event; None where there is none."""
        held = np.flatnonzero(self.crowds)
        ends = self.stops[held]
        ends = ends[ends > limit_at(after, self.holders[held])]
        return int(ends.min()) if len(ends) else None

    def _members(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """The events of the chosen intervals, interval by interval."""
        # Among the chosen intervals, those of one event are adjacent when the intervals are in their own order.
        marked = np.zeros(len(self.times) + 1, dtype=np.int64)
        marked[chosen + 1] = 1
        chosen_before = np.cumsum(marked)
        first = chosen_before[self.first]
        counts = chosen_before[self.stop] - first
        owner, further = unfold(counts)
        ranks = np.argsort(chosen)
        return self.events[owner[stable_order(ranks[first[owner] + further])]]
