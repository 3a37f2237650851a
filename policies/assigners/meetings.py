"""Windows of a temporal join that is not inner: which events met a partner, and when first, and which met none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from policies.assigners.assigner import Assigned, Live, WindowAssigner, limit_at
from policies.assigners.intervals import Intervals
from policies.assigners.onsets import OnsetWindows, onset_slices
from windowing.settings.joins import How
from windowing.time.timestamps import FOREVER, LATEST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.admission import LastEnd
    from policies.assigners.assigner import Limit

_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True)
class MeetingWindows(WindowAssigner):
    """The windows that ``Meeting`` declares (decision 45). Partners are events of equal key and another side whose
    lifetimes overlap.

    A lifetime without length meets no partner and ends as it begins. An endless one ends when the limit is FOREVER,
    after all others. ``Live.closed_until`` is ignored.
    """

    how: How
    left: int
    """Which of the bolt's two inputs is the left one."""
    edges: bool = False
    """Whether the end of an event may still become known: then events without one are kept for it."""

    @property
    def by_side(self) -> bool:
        return True

    def assign(self, live: Live, after: Limit, upto: Limit) -> Iterator[Assigned]:
        return self._slices(live, after, upto).pieces(after, upto)

    def open(self, live: Live, after: Limit) -> Iterator[Assigned]:
        return self.assign(live, after, FOREVER - 1)

    def finished(self, live: Live, upto: Limit) -> NDArray[np.bool_]:
        ends, needed = _ends(live), np.zeros(len(live), dtype=bool)
        at_end = np.asarray(upto) == FOREVER
        for mine in self._outer(live):
            met = _met(live, ends, mine) < upto
            waits = mine & (np.maximum(ends, live.starts) >= upto) & ~at_end
            alone = waits & ~(met & ((ends < FOREVER) | (not self.edges)))
            needed |= alone
            needed |= ~mine & (ends > upto) & (ends > live.starts)
            # An event that has met a partner is kept for pairs with others, and must not seem to be alone then.
            ended = ~mine & (ends <= upto) & (ends > live.starts)
            needed |= _witnesses(live, ends, ended, waits if self._pairs else alone)
        return ~needed & OnsetWindows().finished(live, upto) if self._pairs else ~needed

    def next_end(self, live: Live, after: Limit) -> int | None:
        return self._slices(live, after, _NEVER).next_end(after)

    def next_finished(self, live: Live, after: Limit) -> int | None:
        """Events without a partner may be in no window; one that is over is known to be when time is past it."""
        ends = _ends(live)
        moments = np.concatenate([ends, np.maximum(ends, live.starts) + 1, *self._first_meetings(live, ends)])
        later = moments[moments > np.max(after)]
        return int(later.min()) if len(later) else None

    def _first_meetings(self, live: Live, ends: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """The moments at which it is known that events have met a partner."""
        return (met[met < FOREVER] + 1 for met in (_met(live, ends, mine) for mine in self._outer(live)))

    @property
    def windows_per_event(self) -> int:
        return 2

    @property
    def looks_back(self) -> int:
        return 1

    @property
    def last_end(self) -> LastEnd:
        """As ``OnsetWindows``: how a join treats events without a partner does not change which are late for it."""
        return OnsetWindows().last_end

    @property
    def needed_until(self) -> None:
        """An event that has met a partner may be needed no more."""
        return None

    def earliest_start(self, upto: int, held: int | None) -> int:
        return upto

    @property
    def _pairs(self) -> bool:
        return self.how in ("left", "right", "full")

    def _outer(self, live: Live) -> Iterator[NDArray[np.bool_]]:
        """For each side of the join whose events are all in the result: which events are on that side."""
        assert live.sides is not None
        lefts = live.sides == self.left
        if self.how != "right":
            yield lefts
        if self.how in ("right", "full"):
            yield ~lefts

    def _slices(self, live: Live, after: Limit, upto: Limit) -> Intervals:
        ends = _ends(live)
        moments = np.full(len(live), FOREVER)
        for mine in self._outer(live):
            met = _met(live, ends, mine)
            if self.how == "semi":
                moments[mine] = met[mine]
                continue
            alone = mine & (met == FOREVER)
            moments[alone] = np.maximum(ends, live.starts)[alone]
            endless = alone & (ends == FOREVER) & (np.asarray(upto) == FOREVER)
            if endless.any():
                moments[endless] = _after_all(live, ends, limit_at(after, np.flatnonzero(endless)))
        events = np.flatnonzero(moments < FOREVER)
        slices = _at_moments(live, events, moments[events])
        return _joined(onset_slices(live, ends), slices) if self._pairs else slices


def _ends(live: Live) -> NDArray[np.int64]:
    return live.starts + 1 if live.ends is None else live.ends


def _keys(live: Live) -> NDArray[np.int64]:
    return np.zeros(len(live), np.int64) if live.keys is None else live.keys


def _after_all(live: Live, ends: NDArray[np.int64], after: Limit) -> NDArray[np.int64]:
    """The moment at which endless events end at the end of the streams: after every other moment."""
    known = ends[ends < FOREVER]
    latest = max(int(live.starts.max()), int(known.max()) if len(known) else _NEVER)
    return np.maximum(after, min(latest + 1, LATEST))


def _met(live: Live, ends: NDArray[np.int64], mine: NDArray[np.bool_]) -> NDArray[np.int64]:
    """When each event in ``mine`` met its first partner: the later of their starts; FOREVER for none and for others."""
    met, keys, lasting = np.full(len(live), FOREVER), _keys(live), ends > live.starts
    ours, theirs = np.flatnonzero(mine & lasting), np.flatnonzero(~mine & lasting)
    if not len(ours) or not len(theirs):
        return met
    starts, of = live.starts[ours], keys[ours]
    begun = _counted(keys[theirs], live.starts[theirs], of, starts)
    ended = _counted(keys[theirs], ends[theirs], of, starts)
    following = theirs[np.minimum(begun, len(theirs) - 1)]
    in_time = (begun < len(theirs)) & (keys[following] == of) & (live.starts[following] < ends[ours])
    later = np.where(in_time, live.starts[following], FOREVER)
    met[ours] = np.where(begun > ended, starts, later)
    return met


def _counted(
    keys: NDArray[np.int64], times: NDArray[np.int64], of: NDArray[np.int64], moments: NDArray[np.int64]
) -> NDArray[np.int64]:
    """For each of the (of, moments): how many of the (keys, times) are not after it, in order of (key, time)."""
    asked = np.concatenate([np.zeros(len(keys), bool), np.ones(len(of), bool)])
    order = np.lexsort((asked, np.concatenate([times, moments]), np.concatenate([keys, of])))
    counts = np.empty(len(order), np.int64)
    counts[order] = np.cumsum(~asked[order])
    return counts[len(keys) :]


def _witnesses(
    live: Live, ends: NDArray[np.int64], ended: NDArray[np.bool_], waits: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Of the events that have ended: the last to end of each key, if a waiting event of the key began before that end.

    It shows that these waiting events have met a partner. An event that ended earlier shows this of no others.
    """
    found = np.zeros(len(live), dtype=bool)
    events, waiting, keys = np.flatnonzero(ended), np.flatnonzero(waits), _keys(live)
    if not len(events) or not len(waiting):
        return found
    events = events[np.lexsort((ends[events], keys[events]))]
    events = events[np.append(keys[events][1:] != keys[events][:-1], True)]
    # Live events are in order of (key, start): the first of a key that waits began first.
    first = np.searchsorted(keys[waiting], keys[events])
    there = first < len(waiting)
    first = waiting[np.minimum(first, len(waiting) - 1)]
    found[events[there & (keys[first] == keys[events]) & (live.starts[first] < ends[events])]] = True
    return found


def _at_moments(live: Live, events: NDArray[np.int64], moments: NDArray[np.int64]) -> Intervals:
    """Instants of a key, each with the events whose moment it is."""
    keys = _keys(live)[events]
    order = np.lexsort((moments, keys))
    events, moments, keys = events[order], moments[order], keys[order]
    fresh = np.ones(len(events), dtype=bool)
    fresh[1:] = (moments[1:] != moments[:-1]) | (keys[1:] != keys[:-1])
    heads, place = np.flatnonzero(fresh), np.cumsum(fresh, dtype=np.int64) - 1
    times = moments[heads]
    return Intervals(
        times=times,
        stops=times + 1,
        crowds=np.bincount(place, minlength=len(heads)),
        holders=events[heads],
        events=events,
        first=place,
        stop=place + 1,
    )


def _joined(one: Intervals, other: Intervals) -> Intervals:
    """The slices of both; of two at one time and key that of the first comes first."""
    places = {"first", "stop"}
    columns = {
        each.name: np.concatenate(
            [getattr(one, each.name), getattr(other, each.name) + len(one.times) * (each.name in places)]
        )
        for each in fields(Intervals)
    }
    return Intervals(**columns)
