"""Assigners of windows between the moments at which events begin or end: snapshots, sliding logs, temporal joins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from policies.assigners.aligned import (
    LiveEvents,
    WindowAssigner,
    WindowMembers,
    expand_counts,
    first_of_keys,
    in_pieces,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Intervals of time of each key, in order of (key, time), with the events in each; some intervals are empty."""

    times: NDArray[np.int64]
    """The start of each interval."""
    stops: NDArray[np.int64]
    """The end of each interval; undefined for empty intervals."""
    sizes: NDArray[np.int64]
    """The number of events in each interval."""
    key_events: NDArray[np.int64]
    """The index of an event of the key of each interval."""
    events: NDArray[np.int64]
    """The indices of the events that are in intervals."""
    first: NDArray[np.int64]
    """The first interval of each of these events."""
    stop: NDArray[np.int64]
    """The index after the last interval of each of these events."""

    @staticmethod
    def between(
        live: LiveEvents, events: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> Intervals:
        """Returns the intervals between the moments at which events of a key begin or end; ``events``: the indices of
        these events. Each event begins before it ends, and is in all intervals in between."""
        count = len(events)
        times = np.concatenate([begins, ends])
        key_numbers = np.tile(np.cumsum(first_of_keys(live), dtype=np.int64)[events], 2)
        order = pair_order(key_numbers, times)
        times, key_numbers = times[order], key_numbers[order]
        begins_interval = np.ones(len(times), dtype=bool)
        begins_interval[1:] = (times[1:] != times[:-1]) | (key_numbers[1:] != key_numbers[:-1])
        interval_indices = np.empty_like(order)
        interval_indices[order] = np.cumsum(begins_interval, dtype=np.int64) - 1
        times = times[begins_interval]
        size_changes = np.bincount(interval_indices[:count], minlength=len(times)) - np.bincount(
            interval_indices[count:], minlength=len(times)
        )
        return Intervals(
            times=times,
            stops=times[1:],
            sizes=np.cumsum(size_changes),
            key_events=events[order[begins_interval] % max(count, 1)],
            events=events,
            first=interval_indices[:count],
            stop=interval_indices[count:],
        )

    def pieces(self, after: Limit, upto: Limit) -> Iterator[WindowMembers]:
        """Yields the intervals with after < end <= upto that hold an event, in order of (end, start, key), in pieces of
        bounded size."""
        nonempty = np.flatnonzero(self.sizes)
        ends = self.stops[nonempty]
        due = (ends > limit_at(after, self.key_events[nonempty])) & (ends <= limit_at(upto, self.key_events[nonempty]))
        nonempty, ends = nonempty[due], ends[due]
        order = pair_order(ends, self.times[nonempty])
        nonempty, ends = nonempty[order], ends[order]
        for begin, stop, offsets in in_pieces(self.sizes[nonempty]):
            chosen = nonempty[begin:stop]
            yield WindowMembers(self.times[chosen], ends[begin:stop], offsets, self._members(chosen))

    def next_end(self, after: Limit) -> int | None:
        """Returns the earliest end > after of an interval that holds an event; None if there is none."""
        nonempty = np.flatnonzero(self.sizes)
        ends = self.stops[nonempty]
        ends = ends[ends > limit_at(after, self.key_events[nonempty])]
        return int(ends.min()) if len(ends) else None

    def _members(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the events of the chosen intervals, interval by interval."""
        # In order of (key, time), the chosen intervals of an event are contiguous among all chosen intervals.
        is_chosen = np.zeros(len(self.times) + 1, dtype=np.int64)
        is_chosen[chosen + 1] = 1
        chosen_before = np.cumsum(is_chosen)
        first_chosen = chosen_before[self.first]
        counts = chosen_before[self.stop] - first_chosen
        event_of_member, nth_of_event = expand_counts(counts)
        ranks = np.argsort(chosen)
        return self.events[event_of_member[stable_order(ranks[first_chosen[event_of_member] + nth_of_event])]]


# Snapshots.


_NEVER = np.iinfo(np.int64).min
"""Less than every time."""


@dataclass(frozen=True)
class SnapshotWindows(WindowAssigner):
    """Windows between the times at which lifetimes of a key start or end, with the events that live in between (SI-29).

    A point lives for one microsecond: [t, t + 1 us), or with bounds of END (t - 1 us, t], so that points of equal time
    form one window with this time (AZ-25). A lifetime without length is in no window, and neither starts nor ends one.
    The last window of an endless lifetime is due when the limit is FOREVER.

    A window that ends exactly at ``upto`` may be found only by a later evaluation: a lifetime that comes later may
    start at ``upto``, and so end the window there (``ends_at_limit``). ``LiveEvents.closed_until`` is ignored.

    ``assign`` raises ConfigError for events with lifetimes under bounds of END.
    """

    bounds: Bounds = Bounds.START

    @property
    def ends_at_limit(self) -> bool:
        return True

    def assign(self, live: LiveEvents, after: Limit, upto: Limit) -> Iterator[WindowMembers]:
        if live.ends is None:
            return self._moments(live).ending_between(after, upto).pieces()
        return self._intervals(live, live.ends).pieces(after, upto)

    def finished(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_]:
        if live.ends is None:
            return self._ends(live) <= upto
        if not len(live):
            return np.empty(0, dtype=bool)
        has_no_length = live.ends <= live.starts
        lives_on = (live.ends > upto) & ~has_no_length
        edges = np.where(live.ends <= upto, live.ends, np.where(live.starts <= upto, live.starts, _NEVER))
        edges[has_no_length] = _NEVER
        is_first_of_key = first_of_keys(live)
        firsts, key_numbers = np.flatnonzero(is_first_of_key), np.cumsum(is_first_of_key, dtype=np.int64) - 1
        last_edge = np.maximum.reduceat(edges, firsts)[key_numbers]
        return ~np.logical_or.reduceat(lives_on, firsts)[key_numbers] | (live.ends < last_edge) | has_no_length

    def next_end(self, live: LiveEvents, after: Limit) -> int | None:
        if live.ends is None:
            return self._moments(live).next_end(after)
        return self._intervals(live, live.ends).next_end(after)

    @property
    def windows_per_event(self) -> int:
        return 2

    @property
    def max_lookback(self) -> int:
        """Microseconds from a point to the end of its window; for lifetimes there is no limit."""
        return int(self.bounds is Bounds.START)

    @property
    def last_end(self) -> LastEnd:
        return lambda starts, ends: self._ends(LiveEvents(starts)) if ends is None else ends

    def _ends(self, live: LiveEvents) -> NDArray[np.int64]:
        return self.bounds.first_end(live.starts, 1, 0)

    def _moments(self, live: LiveEvents) -> RunWindows:
        """Returns the windows of points: one for each distinct time of a key."""
        is_new_time = first_of_keys(live)
        is_new_time[1:] |= live.starts[1:] != live.starts[:-1]
        lows = np.flatnonzero(is_new_time)
        ends = self._ends(live)[lows]
        return RunWindows(ends - 1, ends, lows, np.append(lows, len(live))[1:])

    def _intervals(self, live: LiveEvents, ends: NDArray[np.int64]) -> Intervals:
        if self.bounds is Bounds.END:
            raise ConfigError(
                "snapshots of lifetimes with bounds of END",
                why="a lifetime holds its start and not its end",
                do="use Bounds.START",
            )
        events = np.flatnonzero(ends > live.starts)
        return Intervals.between(live, events, live.starts[events], ends[events])


# Windows at the moments at which lifetimes begin.


_POINTS = SnapshotWindows(Bounds.START)


@dataclass(frozen=True)
class OnsetWindows(WindowAssigner):
    """The window [t, t + 1 us) at every t at which a lifetime of a key begins, with the events that live then (SI-22).

    A window closes when no further event can begin at t, however long its events last. For points these windows equal
    snapshots. A lifetime without length is in no window. ``LiveEvents.closed_until`` is ignored.
    """

    by_time_alone = True

    def assign(self, live: LiveEvents, after: Limit, upto: Limit) -> Iterator[WindowMembers]:
        if live.ends is None:
            return _POINTS.assign(live, after, upto)
        return onset_intervals(live, live.ends).pieces(after, upto)

    def finished(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_]:
        ends = live.starts + 1 if live.ends is None else live.ends
        return (ends <= upto) | (ends <= live.starts)

    def next_end(self, live: LiveEvents, after: Limit) -> int | None:
        if live.ends is None:
            return _POINTS.next_end(live, after)
        return onset_intervals(live, live.ends).next_end(after)

    @property
    def max_lookback(self) -> int:
        return 1

    @property
    def last_end(self) -> LastEnd:
        """A function from events to the end of the window that begins with each event. An event is late only if this
        window has closed."""
        return lambda starts, ends: starts + 1

    @property
    def needed_until(self) -> LastEnd:
        """The function from events to their ends, because other events may begin windows while an event lasts."""
        return lambda starts, ends: starts + 1 if ends is None else ends

    def earliest_start(self, upto: int, earliest_live: int | None) -> int:
        return upto


def onset_intervals(live: LiveEvents, ends: NDArray[np.int64]) -> Intervals:
    """Returns the instants at which lifetimes begin, as intervals of one microsecond with the events that live
    then."""
    events = np.flatnonzero(ends > live.starts)
    starts = live.starts[events]
    key_numbers = np.cumsum(first_of_keys(live), dtype=np.int64)[events]
    is_onset = np.ones(len(events), dtype=bool)
    is_onset[1:] = (starts[1:] != starts[:-1]) | (key_numbers[1:] != key_numbers[:-1])
    onset_events = np.flatnonzero(is_onset)
    first_rows = np.cumsum(is_onset, dtype=np.int64) - 1
    # An event is in the instants of its key before its end. So ends and instants are sorted together, ends first.
    times = np.concatenate([ends[events], starts[onset_events]])
    order = np.lexsort((times, np.concatenate([key_numbers, key_numbers[onset_events]])))
    onsets_so_far = np.cumsum(order >= len(events), dtype=np.int64)
    stop = np.empty(len(events), dtype=np.int64)
    is_end = order < len(events)
    stop[order[is_end]] = onsets_so_far[is_end]
    sizes = np.cumsum(
        np.bincount(first_rows, minlength=len(onset_events) + 1) - np.bincount(stop, minlength=len(onset_events) + 1),
        dtype=np.int64,
    )
    return Intervals(
        times=starts[onset_events],
        stops=starts[onset_events] + 1,
        sizes=sizes[:-1],
        key_events=events[onset_events],
        events=events,
        first=first_rows,
        stop=stop,
    )


# Sliding logs.


@dataclass(frozen=True)
class SlidingLogWindows(WindowAssigner):
    """The window (t - length, t] at every t at which an event of a key enters or leaves it (AZ-21).

    An event enters at its time and leaves ``length`` later. Changes at the same time form one window; empty windows are
    left out. An event has no effect on windows that were closed when it came (``LiveEvents.closed_until``).

    Raises ConfigError for a length of zero; ``assign`` raises it for events with lifetimes.
    """

    length: Duration

    def __post_init__(self) -> None:
        if not self.length.micros:
            raise ConfigError("a window length of zero", why="the window would hold no events", do="make it longer")

    @property
    def takes_events_at_the_watermark(self) -> bool:
        return False

    def assign(self, live: LiveEvents, after: Limit, upto: Limit) -> Iterator[WindowMembers]:
        windows = self._windows(live)
        return (
            windows.pieces(after, upto)
            if isinstance(windows, Intervals)
            else windows.ending_between(after, upto).pieces()
        )

    def finished(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_]:
        return live.starts + self.length.micros <= upto

    def next_end(self, live: LiveEvents, after: Limit) -> int | None:
        return self._windows(live).next_end(after)

    def next_finished(self, live: LiveEvents, after: Limit) -> int | None:
        leaving_times = live.starts + self.length.micros
        leaving_times = leaving_times[leaving_times > after]
        return int(leaving_times.min()) if len(leaving_times) else None

    def earliest_start(self, upto: int, earliest_live: int | None) -> int:
        return upto + 1 - self.length.micros

    @property
    def windows_per_event(self) -> int:
        return 2

    @property
    def max_lookback(self) -> int:
        return self.length.micros

    @property
    def last_end(self) -> LastEnd:
        return lambda starts, ends: starts + (self.length.micros - 1)  # the window at which it leaves does not hold it

    @property
    def needed_until(self) -> LastEnd:
        return lambda starts, ends: starts + self.length.micros  # a window ends when it leaves

    def _windows(self, live: LiveEvents) -> RunWindows | Intervals:
        if live.ends is not None:
            raise ConfigError(
                "sliding windows over events with lifetimes",
                why="an event enters such a window at one time",
                do="leave the lifetimes out, or use SnapshotWindows",
            )
        if live.closed_until is not None and (live.closed_until >= live.starts).any():
            return self._windows_with_late_events(live, live.closed_until)
        count = len(live)
        times = np.concatenate([live.starts, live.starts + self.length.micros])
        key_numbers = np.tile(np.cumsum(first_of_keys(live), dtype=np.int64), 2)
        order = pair_order(key_numbers, times)
        times, key_numbers = times[order], key_numbers[order]
        is_last_of_time = np.ones(len(times), dtype=bool)
        is_last_of_time[:-1] = (times[1:] != times[:-1]) | (key_numbers[1:] != key_numbers[:-1])
        # Events leave in the order in which they entered, and all events of a key before those of the next key. So the
        # events of a window lie between two indices: the number of events that have left, and that have entered.
        entered = np.cumsum(order < count, dtype=np.int64)[is_last_of_time]
        left = np.arange(1, 2 * count + 1)[is_last_of_time] - entered
        has_events = entered > left
        ends = times[is_last_of_time][has_events]
        return RunWindows(ends - self.length.micros, ends, left[has_events], entered[has_events])

    def _windows_with_late_events(self, live: LiveEvents, closed_until: NDArray[np.int64]) -> Intervals:
        """Returns the windows if some events have missed windows, so that they enter later than at their time."""
        length = self.length.micros
        closed = np.minimum(closed_until, FOREVER - 1)
        events = np.flatnonzero(closed < live.starts + (length - 1))
        starts, closed = live.starts[events], closed[events]
        intervals = Intervals.between(live, events, np.maximum(starts, closed + 1), starts + length)
        changes = np.zeros(len(intervals.times), np.bool_)
        changes[intervals.first[closed < starts]] = True  # a late event ends no window when it enters
        changes[intervals.stop] = True
        sizes = intervals.sizes * changes
        return replace(intervals, times=intervals.times - length, stops=intervals.times, sizes=sizes)


# Windows of temporal joins other than inner ones.


@dataclass(frozen=True)
class MeetingWindows(WindowAssigner):
    """The windows of ``Meeting`` (decision 45). Partners are events of equal key on different sides whose lifetimes
    overlap.

    A lifetime without length has no partner, and ends when it begins. An endless lifetime ends when the limit is
    FOREVER, after all others. ``LiveEvents.closed_until`` is ignored.
    """

    how: How
    left: int
    """The index of the left input."""
    edges: bool = False
    """True if the end of an event may become known later, so that an event without an end must be retained."""

    @property
    def needs_sides(self) -> bool:
        return True

    def assign(self, live: LiveEvents, after: Limit, upto: Limit) -> Iterator[WindowMembers]:
        return self._intervals(live, after, upto).pieces(after, upto)

    def open(self, live: LiveEvents, after: Limit) -> Iterator[WindowMembers]:
        return self.assign(live, after, FOREVER - 1)

    def ended_by_idleness(self, live: LiveEvents, after: Limit) -> Iterator[WindowMembers]:
        """Yields the windows of ``open``, and windows at the moments at which events begin, even if these have no rows:
        ``how`` must not change which events are late."""
        return chain(onset_intervals(live, _ends(live)).pieces(after, FOREVER), self.open(live, after))

    def finished(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_]:
        ends, needed = _ends(live), np.zeros(len(live), dtype=bool)
        at_end = np.asarray(upto) == FOREVER
        for on_side in self._outer_sides(live):
            is_matched = _first_matches(live, ends, on_side) < upto
            waits = on_side & (np.maximum(ends, live.starts) >= upto) & ~at_end
            without_partner = waits & ~(is_matched & ((ends < FOREVER) | (not self.edges)))
            needed |= without_partner
            needed |= ~on_side & (ends > upto) & (ends > live.starts)
            # An event with a partner may be retained for further pairs, and must not seem to be without a partner.
            has_ended = ~on_side & (ends <= upto) & (ends > live.starts)
            needed |= _witnesses(live, ends, has_ended, waits if self._has_pairs else without_partner)
        return ~needed & OnsetWindows().finished(live, upto) if self._has_pairs else ~needed

    def next_end(self, live: LiveEvents, after: Limit) -> int | None:
        return self._intervals(live, after, _NEVER).next_end(after)

    def next_finished(self, live: LiveEvents, after: Limit) -> int | None:
        """Returns the next moment at which events may be finished: after an event has ended or has met a partner."""
        ends = _ends(live)
        moments = np.concatenate([ends, np.maximum(ends, live.starts) + 1, *self._first_meetings(live, ends)])
        later = moments[moments > np.max(after)]
        return int(later.min()) if len(later) else None

    def _first_meetings(self, live: LiveEvents, ends: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Yields, for each outer side, the moments after which its events are known to have met a partner."""
        for on_side in self._outer_sides(live):
            matched_at = _first_matches(live, ends, on_side)
            yield matched_at[matched_at < FOREVER] + 1

    @property
    def windows_per_event(self) -> int:
        return 2

    @property
    def max_lookback(self) -> int:
        return 1

    @property
    def last_end(self) -> LastEnd:
        """The same as for ``OnsetWindows``: ``how`` must not change which events are late."""
        return OnsetWindows().last_end

    @property
    def needed_until(self) -> None:
        """Returns None, because an event that has met a partner may be finished before its end."""
        return None

    def earliest_start(self, upto: int, earliest_live: int | None) -> int:
        return upto

    @property
    def _has_pairs(self) -> bool:
        return self.how in ("left", "right", "full")

    def _outer_sides(self, live: LiveEvents) -> Iterator[NDArray[np.bool_]]:
        """Yields, for each outer side of the join (for semi and anti joins the left side), a mask of its events."""
        assert live.sides is not None
        lefts = live.sides == self.left
        if self.how != "right":
            yield lefts
        if self.how in ("right", "full"):
            yield ~lefts

    def _intervals(self, live: LiveEvents, after: Limit, upto: Limit) -> Intervals:
        ends = _ends(live)
        moments = np.full(len(live), FOREVER)
        for on_side in self._outer_sides(live):
            matched_at = _first_matches(live, ends, on_side)
            if self.how == "semi":
                moments[on_side] = matched_at[on_side]
                continue
            without_partner = on_side & (matched_at == FOREVER)
            moments[without_partner] = np.maximum(ends, live.starts)[without_partner]
            endless = without_partner & (ends == FOREVER) & (np.asarray(upto) == FOREVER)
            if endless.any():
                moments[endless] = _end_of_endless(live, ends, limit_at(after, np.flatnonzero(endless)))
        events = np.flatnonzero(moments < FOREVER)
        meetings = _intervals_at(live, events, moments[events])
        return _concat_intervals(onset_intervals(live, ends), meetings) if self._has_pairs else meetings


def _ends(live: LiveEvents) -> NDArray[np.int64]:
    return live.starts + 1 if live.ends is None else live.ends


def _keys(live: LiveEvents) -> NDArray[np.int64]:
    return np.zeros(len(live), np.int64) if live.keys is None else live.keys


def _end_of_endless(live: LiveEvents, ends: NDArray[np.int64], after: Limit) -> NDArray[np.int64]:
    """Returns the moment at which endless events end when the streams end: after every other moment."""
    finite_ends = ends[ends < FOREVER]
    latest = max(int(live.starts.max()), int(finite_ends.max()) if len(finite_ends) else _NEVER)
    return np.maximum(after, min(latest + 1, LATEST))


def _first_matches(live: LiveEvents, ends: NDArray[np.int64], on_side: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the moment at which each event on a side meets its first partner: the later of the two starts. FOREVER
    for events without a partner, and for events of the other side."""
    matched_at, keys, lasting = np.full(len(live), FOREVER), _keys(live), ends > live.starts
    own_events, other_events = np.flatnonzero(on_side & lasting), np.flatnonzero(~on_side & lasting)
    if not len(own_events) or not len(other_events):
        return matched_at
    starts, own_keys = live.starts[own_events], keys[own_events]
    begun_counts = _count_up_to(keys[other_events], live.starts[other_events], own_keys, starts)
    ended_counts = _count_up_to(keys[other_events], ends[other_events], own_keys, starts)
    next_partners = other_events[np.minimum(begun_counts, len(other_events) - 1)]
    in_time = (
        (begun_counts < len(other_events))
        & (keys[next_partners] == own_keys)
        & (live.starts[next_partners] < ends[own_events])
    )
    later = np.where(in_time, live.starts[next_partners], FOREVER)
    matched_at[own_events] = np.where(begun_counts > ended_counts, starts, later)
    return matched_at


def _count_up_to(
    keys: NDArray[np.int64], times: NDArray[np.int64], limit_keys: NDArray[np.int64], limits: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Returns, for each pair (limit key, limit), the number of pairs (key, time) up to it, in order of (key, time)."""
    is_limit = np.concatenate([np.zeros(len(keys), bool), np.ones(len(limit_keys), bool)])
    order = np.lexsort((is_limit, np.concatenate([times, limits]), np.concatenate([keys, limit_keys])))
    counts = np.empty(len(order), np.int64)
    counts[order] = np.cumsum(~is_limit[order])
    return counts[len(keys) :]


def _witnesses(
    live: LiveEvents, ends: NDArray[np.int64], has_ended: NDArray[np.bool_], waits: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Returns a mask of the ended events that must be retained as proof that waiting events have met a partner: in each
    key the event that ended last, if a waiting event of the key began before that end.

    Events that ended earlier are not needed as proof.
    """
    witnesses = np.zeros(len(live), dtype=bool)
    events, waiting, keys = np.flatnonzero(has_ended), np.flatnonzero(waits), _keys(live)
    if not len(events) or not len(waiting):
        return witnesses
    events = events[np.lexsort((ends[events], keys[events]))]
    events = events[np.append(keys[events][1:] != keys[events][:-1], True)]
    # Live events are in order of (key, start), so the first waiting event of a key began first.
    first_waiting = np.searchsorted(keys[waiting], keys[events])
    exists = first_waiting < len(waiting)
    first_waiting = waiting[np.minimum(first_waiting, len(waiting) - 1)]
    witnesses[events[exists & (keys[first_waiting] == keys[events]) & (live.starts[first_waiting] < ends[events])]] = (
        True
    )
    return witnesses


def _intervals_at(live: LiveEvents, events: NDArray[np.int64], moments: NDArray[np.int64]) -> Intervals:
    """Returns intervals of one microsecond, one for each key and moment; each holds the events with this key and
    moment."""
    keys = _keys(live)[events]
    order = np.lexsort((moments, keys))
    events, moments, keys = events[order], moments[order], keys[order]
    is_first = np.ones(len(events), dtype=bool)
    is_first[1:] = (moments[1:] != moments[:-1]) | (keys[1:] != keys[:-1])
    first_events, interval_indices = np.flatnonzero(is_first), np.cumsum(is_first, dtype=np.int64) - 1
    times = moments[first_events]
    return Intervals(
        times=times,
        stops=times + 1,
        sizes=np.bincount(interval_indices, minlength=len(first_events)),
        key_events=events[first_events],
        events=events,
        first=interval_indices,
        stop=interval_indices + 1,
    )


def _concat_intervals(one: Intervals, other: Intervals) -> Intervals:
    """Concatenate intervals in order; among intervals of equal time and key, those of ``one`` come first."""
    interval_indices = {"first", "stop"}
    columns = {
        each.name: np.concatenate(
            [getattr(one, each.name), getattr(other, each.name) + len(one.times) * (each.name in interval_indices)]
        )
        for each in fields(Intervals)
    }
    return Intervals(**columns)
