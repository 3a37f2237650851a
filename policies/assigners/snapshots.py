"""Windows between the moments at which events come and go: snapshots, sliding logs, temporal joins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from policies.assigners.aligned import (
    Assigned,
    LiveEvents,
    WindowAssigner,
    expand_counts,
    in_pieces,
    key_heads,
    limit_at,
)
from policies.assigners.sessions import RunWindows
from windowing.columns import pair_order, stable_order
from windowing.durations import Duration
from windowing.errors import ConfigError
from windowing.settings.rules import Bounds, How
from windowing.timestamps import FOREVER, LATEST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.assigners.aligned import Limit
    from policies.watermarks import LastEnd


# The intervals between the times at which events enter or leave, and the events in each interval.


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """The intervals between neighbouring boundaries of a key, in order of (key, time); some are empty."""

    times: NDArray[np.int64]
    """Start of each interval."""
    stops: NDArray[np.int64]
    """End of each interval; undefined for intervals without events."""
    crowds: NDArray[np.int64]
    """Number of events alive in each interval; 0 after the last boundary of a key, and between windows."""
    holders: NDArray[np.int64]
    """Index of an event of the same key."""
    events: NDArray[np.int64]
    """Indices of the events that are in intervals."""
    first: NDArray[np.int64]
    """First interval of each of these events."""
    stop: NDArray[np.int64]
    """Last interval of each, plus one."""

    @staticmethod
    def between(
        live: LiveEvents, events: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> Intervals:
        """Returns the intervals of these events (indices): each event is in the intervals from its beginning to its end
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
        """Returns the earliest end > after of an interval that holds an event; None if there is none."""
        held = np.flatnonzero(self.crowds)
        ends = self.stops[held]
        ends = ends[ends > limit_at(after, self.holders[held])]
        return int(ends.min()) if len(ends) else None

    def _members(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the events of the chosen intervals, interval by interval."""
        # Among the chosen intervals, those of one event are adjacent when the intervals are in their own order.
        marked = np.zeros(len(self.times) + 1, dtype=np.int64)
        marked[chosen + 1] = 1
        chosen_before = np.cumsum(marked)
        first = chosen_before[self.first]
        counts = chosen_before[self.stop] - first
        owner, further = expand_counts(counts)
        ranks = np.argsort(chosen)
        return self.events[owner[stable_order(ranks[first[owner] + further])]]


# Snapshot windows: a new window whenever the set of live events changes.


_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True)
class SnapshotWindows(WindowAssigner):
    """Windows between the times at which a lifetime of the key starts or ends, with the events alive in between
    (SI-29).

    A point lives for one microsecond: [t, t + 1 us), or (t - 1 us, t] with bounds of END, so that points of equal time
    form one window with that timestamp (AZ-25). A lifetime without length is in no window and bounds none. The last
    slice of an endless lifetime is released when the limit is FOREVER.

    A lifetime that starts or is cut exactly at ``upto`` may still end a slice there, which a call with that limit
    cannot know (``ends_at_limit``). ``LiveEvents.closed_until`` is ignored.

    ``assign`` raises ConfigError for events with lifetimes under bounds of END.
    """

    bounds: Bounds = Bounds.START

    @property
    def ends_at_limit(self) -> bool:
        return True

    def assign(self, live: LiveEvents, after: Limit, upto: Limit) -> Iterator[Assigned]:
        if live.ends is None:
            return self._moments(live).due(after, upto).pieces()
        return self._slices(live, live.ends).pieces(after, upto)

    def finished(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_]:
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

    def next_end(self, live: LiveEvents, after: Limit) -> int | None:
        if live.ends is None:
            return self._moments(live).next_end(after)
        return self._slices(live, live.ends).next_end(after)

    @property
    def windows_per_event(self) -> int:
        return 2

    @property
    def looks_back(self) -> int:
        """Microseconds for points, which last one microsecond, before or after their time; events that last longer have
        no limit."""
        return int(self.bounds is Bounds.START)

    @property
    def last_end(self) -> LastEnd:
        return lambda starts, ends: self._ends(LiveEvents(starts)) if ends is None else ends

    def _ends(self, live: LiveEvents) -> NDArray[np.int64]:
        return self.bounds.first_end(live.starts, 1, 0)

    def _moments(self, live: LiveEvents) -> RunWindows:
        """Returns the windows of points: one per distinct time of a key."""
        fresh = key_heads(live)
        fresh[1:] |= live.starts[1:] != live.starts[:-1]
        lows = np.flatnonzero(fresh)
        ends = self._ends(live)[lows]
        return RunWindows(ends - 1, ends, lows, np.append(lows, len(live))[1:])

    def _slices(self, live: LiveEvents, ends: NDArray[np.int64]) -> Intervals:
        if self.bounds is Bounds.END:
            raise ConfigError(
                "snapshots of lifetimes with bounds of END",
                why="a lifetime holds its start and not its end",
                do="use Bounds.START",
            )
        events = np.flatnonzero(ends > live.starts)
        return Intervals.between(live, events, live.starts[events], ends[events])


# Onset windows: the instant at which each lifetime begins, with all events alive then.


_POINTS = SnapshotWindows(Bounds.START)


@dataclass(frozen=True)
class OnsetWindows(WindowAssigner):
    """The window [t, t + 1 us) at every t at which a lifetime of the key begins, with the events alive then (SI-22).

    It closes as soon as nothing can begin at t any more, however long its events last. For points it is their snapshot.
    A lifetime without length is in no window. ``LiveEvents.closed_until`` is ignored.
    """

    by_time_alone = True

    def assign(self, live: LiveEvents, after: Limit, upto: Limit) -> Iterator[Assigned]:
        if live.ends is None:
            return _POINTS.assign(live, after, upto)
        return onset_slices(live, live.ends).pieces(after, upto)

    def finished(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_]:
        ends = live.starts + 1 if live.ends is None else live.ends
        return (ends <= upto) | (ends <= live.starts)

    def next_end(self, live: LiveEvents, after: Limit) -> int | None:
        if live.ends is None:
            return _POINTS.next_end(live, after)
        return onset_slices(live, live.ends).next_end(after)

    @property
    def looks_back(self) -> int:
        return 1

    @property
    def last_end(self) -> LastEnd:
        """The end of the only window that an event must not miss: the window at its beginning."""
        return lambda starts, ends: starts + 1

    @property
    def needed_until(self) -> LastEnd:
        """Maps an event to its end, because the event is also in the windows that others begin while it lasts."""
        return lambda starts, ends: starts + 1 if ends is None else ends

    def earliest_start(self, upto: int, held: int | None) -> int:
        return upto


def onset_slices(live: LiveEvents, ends: NDArray[np.int64]) -> Intervals:
    """Returns the instants at which lifetimes begin."""
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


# Sliding windows that end at every change of their contents.


@dataclass(frozen=True)
class SlidingLogWindows(WindowAssigner):
    """The window (t - length, t] at every t at which an event of the key enters or leaves it (AZ-21).

    An event enters at its time and leaves ``length`` later. Changes at the same time form one window; empty windows are
    omitted. An event is in no window that was closed when it came (``LiveEvents.closed_until``), and ends no such
    window; an event whose windows had all closed has no effect.

    Raises ConfigError for a length of zero; ``assign`` raises it for events with lifetimes.
    """

    length: Duration

    def __post_init__(self) -> None:
        if not self.length.micros:
            raise ConfigError("a window length of zero", why="the window would hold no events", do="make it longer")

    @property
    def takes_events_at_the_watermark(self) -> bool:
        return False

    def assign(self, live: LiveEvents, after: Limit, upto: Limit) -> Iterator[Assigned]:
        windows = self._windows(live)
        return windows.pieces(after, upto) if isinstance(windows, Intervals) else windows.due(after, upto).pieces()

    def finished(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_]:
        return live.starts + self.length.micros <= upto

    def next_end(self, live: LiveEvents, after: Limit) -> int | None:
        return self._windows(live).next_end(after)

    def next_finished(self, live: LiveEvents, after: Limit) -> int | None:
        left = live.starts + self.length.micros
        left = left[left > after]
        return int(left.min()) if len(left) else None

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

    @property
    def needed_until(self) -> LastEnd:
        return lambda starts, ends: starts + self.length.micros  # a window ends as it leaves

    def _windows(self, live: LiveEvents) -> RunWindows | Intervals:
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
        return RunWindows(ends - self.length.micros, ends, left[held], entered[held])

    def _of_late_events(self, live: LiveEvents, closed_until: NDArray[np.int64]) -> Intervals:
        """Returns the windows, if events have missed some of theirs: an event may then leave before one that entered
        before it."""
        length = self.length.micros
        missed = np.minimum(closed_until, FOREVER - 1)
        events = np.flatnonzero(missed < live.starts + (length - 1))
        starts, missed = live.starts[events], missed[events]
        found = Intervals.between(live, events, np.maximum(starts, missed + 1), starts + length)
        changes = np.zeros(len(found.times), np.bool_)
        changes[found.first[missed < starts]] = True  # a late event enters between two windows, and ends none
        changes[found.stop] = True
        return replace(found, times=found.times - length, stops=found.times, crowds=found.crowds * changes)


# Windows of a temporal join that is not inner: which events met a partner, and when first, and which met none.


@dataclass(frozen=True)
class MeetingWindows(WindowAssigner):
    """The windows that ``Meeting`` declares (decision 45). Partners are events of equal key and another side whose
    lifetimes overlap.

    A lifetime without length meets no partner and ends as it begins. An endless one ends when the limit is FOREVER,
    after all others. ``LiveEvents.closed_until`` is ignored.
    """

    how: How
    left: int
    """Number of the left input of the bolt's two inputs."""
    edges: bool = False
    """True if the end of an event may become known later; an event without an end is then kept."""

    @property
    def by_side(self) -> bool:
        return True

    def assign(self, live: LiveEvents, after: Limit, upto: Limit) -> Iterator[Assigned]:
        return self._slices(live, after, upto).pieces(after, upto)

    def open(self, live: LiveEvents, after: Limit) -> Iterator[Assigned]:
        return self.assign(live, after, FOREVER - 1)

    def ended_by_idleness(self, live: LiveEvents, after: Limit) -> Iterator[Assigned]:
        """Yield also the moments at which events begin, although some of them have no row: ``how`` does not change
        which events are late."""
        return chain(onset_slices(live, _ends(live)).pieces(after, FOREVER), self.open(live, after))

    def finished(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_]:
        ends, needed = _ends(live), np.zeros(len(live), dtype=bool)
        at_end = np.asarray(upto) == FOREVER
        for mine in self._outer(live):
            matched = _first_matches(live, ends, mine) < upto
            waits = mine & (np.maximum(ends, live.starts) >= upto) & ~at_end
            alone = waits & ~(matched & ((ends < FOREVER) | (not self.edges)))
            needed |= alone
            needed |= ~mine & (ends > upto) & (ends > live.starts)
            # An event that has met a partner is kept for pairs with others, and must not seem to be alone then.
            ended = ~mine & (ends <= upto) & (ends > live.starts)
            needed |= _witnesses(live, ends, ended, waits if self._pairs else alone)
        return ~needed & OnsetWindows().finished(live, upto) if self._pairs else ~needed

    def next_end(self, live: LiveEvents, after: Limit) -> int | None:
        return self._slices(live, after, _NEVER).next_end(after)

    def next_finished(self, live: LiveEvents, after: Limit) -> int | None:
        """Returns the next moment at which events may become finished without a window: after an event has ended, or
        has met a partner."""
        ends = _ends(live)
        moments = np.concatenate([ends, np.maximum(ends, live.starts) + 1, *self._first_meetings(live, ends)])
        later = moments[moments > np.max(after)]
        return int(later.min()) if len(later) else None

    def _first_meetings(self, live: LiveEvents, ends: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Returns the moments at which it is known that events have met a partner."""
        return (
            matched_at[matched_at < FOREVER] + 1
            for matched_at in (_first_matches(live, ends, mine) for mine in self._outer(live))
        )

    @property
    def windows_per_event(self) -> int:
        return 2

    @property
    def looks_back(self) -> int:
        return 1

    @property
    def last_end(self) -> LastEnd:
        """Returns ``OnsetWindows.last_end``: the treatment of events without a partner does not change which events are
        late."""
        return OnsetWindows().last_end

    @property
    def needed_until(self) -> None:
        """Returns None, because an event that has met a partner may be needed no more."""
        return None

    def earliest_start(self, upto: int, held: int | None) -> int:
        return upto

    @property
    def _pairs(self) -> bool:
        return self.how in ("left", "right", "full")

    def _outer(self, live: LiveEvents) -> Iterator[NDArray[np.bool_]]:
        """Yields, for each side of the join whose events are all in the result, which events are on that side."""
        assert live.sides is not None
        lefts = live.sides == self.left
        if self.how != "right":
            yield lefts
        if self.how in ("right", "full"):
            yield ~lefts

    def _slices(self, live: LiveEvents, after: Limit, upto: Limit) -> Intervals:
        ends = _ends(live)
        moments = np.full(len(live), FOREVER)
        for mine in self._outer(live):
            matched_at = _first_matches(live, ends, mine)
            if self.how == "semi":
                moments[mine] = matched_at[mine]
                continue
            alone = mine & (matched_at == FOREVER)
            moments[alone] = np.maximum(ends, live.starts)[alone]
            endless = alone & (ends == FOREVER) & (np.asarray(upto) == FOREVER)
            if endless.any():
                moments[endless] = _after_all(live, ends, limit_at(after, np.flatnonzero(endless)))
        events = np.flatnonzero(moments < FOREVER)
        slices = _at_moments(live, events, moments[events])
        return _joined(onset_slices(live, ends), slices) if self._pairs else slices


def _ends(live: LiveEvents) -> NDArray[np.int64]:
    return live.starts + 1 if live.ends is None else live.ends


def _keys(live: LiveEvents) -> NDArray[np.int64]:
    return np.zeros(len(live), np.int64) if live.keys is None else live.keys


def _after_all(live: LiveEvents, ends: NDArray[np.int64], after: Limit) -> NDArray[np.int64]:
    """Returns the moment at which endless events end at the end of the streams: after every other moment."""
    known = ends[ends < FOREVER]
    latest = max(int(live.starts.max()), int(known.max()) if len(known) else _NEVER)
    return np.maximum(after, min(latest + 1, LATEST))


def _first_matches(live: LiveEvents, ends: NDArray[np.int64], mine: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns when each event in ``mine`` met its first partner: the later of their starts; FOREVER for events without
    a partner and for others."""
    matched_at, keys, lasting = np.full(len(live), FOREVER), _keys(live), ends > live.starts
    ours, theirs = np.flatnonzero(mine & lasting), np.flatnonzero(~mine & lasting)
    if not len(ours) or not len(theirs):
        return matched_at
    starts, of = live.starts[ours], keys[ours]
    begun = _counted(keys[theirs], live.starts[theirs], of, starts)
    ended = _counted(keys[theirs], ends[theirs], of, starts)
    following = theirs[np.minimum(begun, len(theirs) - 1)]
    in_time = (begun < len(theirs)) & (keys[following] == of) & (live.starts[following] < ends[ours])
    later = np.where(in_time, live.starts[following], FOREVER)
    matched_at[ours] = np.where(begun > ended, starts, later)
    return matched_at


def _counted(
    keys: NDArray[np.int64], times: NDArray[np.int64], of: NDArray[np.int64], moments: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Returns, for each of the (of, moments), how many of the (keys, times) are not after it, in order of (key,
    time)."""
    asked = np.concatenate([np.zeros(len(keys), bool), np.ones(len(of), bool)])
    order = np.lexsort((asked, np.concatenate([times, moments]), np.concatenate([keys, of])))
    counts = np.empty(len(order), np.int64)
    counts[order] = np.cumsum(~asked[order])
    return counts[len(keys) :]


def _witnesses(
    live: LiveEvents, ends: NDArray[np.int64], ended: NDArray[np.bool_], waits: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Returns a mask of the witnesses among ended events: the last of each key to end, if a waiting event of the key
    began before that end.

    A witness shows that these waiting events have met a partner. An event that ended earlier shows this of no others.
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


def _at_moments(live: LiveEvents, events: NDArray[np.int64], moments: NDArray[np.int64]) -> Intervals:
    """Returns the instants of each key, each with the events that have it as their moment."""
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
    """Returns the slices of both; if two have the same time and key, the slice of ``one`` comes first."""
    places = {"first", "stop"}
    columns = {
        each.name: np.concatenate(
            [getattr(one, each.name), getattr(other, each.name) + len(one.times) * (each.name in places)]
        )
        for each in fields(Intervals)
    }
    return Intervals(**columns)
