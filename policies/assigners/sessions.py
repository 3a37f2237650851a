"""Windows that hold runs of events: sessions, silences, and counts of events or of start times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from policies.assigners.aligned import Assigned, EventRuns, LiveEvents, WindowAssigner, in_pieces, key_heads, limit_at
from windowing.columns import order_within, pair_order, stable_order
from windowing.durations import Count, Duration
from windowing.errors import ConfigError
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.assigners.aligned import Limit
    from policies.watermarks import LastEnd


# Session windows, which last as long as events follow each other closely; and windows that hold runs of events.


if TYPE_CHECKING:
    Cut = tuple[int, int, int, int, bool]
    """A session that the clock checked: start, end, first index and stop, and whether it was closed by the check."""


@dataclass(frozen=True, slots=True)
class RunWindows:
    """Windows that each hold a run of the live events, in order of those events."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    lows: NDArray[np.int64]
    """Index of the first event of each window."""
    highs: NDArray[np.int64]
    """Index of its last event, plus one."""

    def due(self, after: Limit, upto: Limit) -> RunWindows:
        """Returns the windows with after < end <= upto, by the limits of their own key."""
        within = self.ends > limit_at(after, self.lows)
        within &= self.ends <= limit_at(upto, self.lows)
        if within.all():
            return self
        return RunWindows(self.starts[within], self.ends[within], self.lows[within], self.highs[within])

    def next_end(self, after: Limit) -> int | None:
        """Returns the earliest end after the limit, in microseconds; None if there is none."""
        ends = self.ends[self.ends > limit_at(after, self.lows)]
        return int(ends.min()) if len(ends) else None

    def pieces(self, arrivals: NDArray[np.int64] | None = None) -> Iterator[Assigned]:
        """Yield the windows with their members, in pieces of bounded size: in order of (end, start, key), or of (end,
        arrival of the last event) if the place of each event by arrival is given."""
        order = pair_order(self.ends, self.starts if arrivals is None else arrivals[self.highs - 1])
        for begin, stop, offsets in in_pieces((self.highs - self.lows)[order]):
            chosen = order[begin:stop]
            members = np.arange(offsets[-1]) + np.repeat(self.lows[chosen] - offsets[:-1], np.diff(offsets))
            yield Assigned(self.starts[chosen], self.ends[chosen], offsets, members)


@dataclass(frozen=True)
class SessionWindows(WindowAssigner):
    """Windows from the first event of a session to the gap after its last event (AT-5, UH-12).

    Events belong to one session where less than the gap lies between them; ``touching`` also joins events exactly the
    gap apart (the rule of Flink and Kafka, UH-12). An event between two sessions merges them (AT-6). Events may have
    gaps of their own (``LiveEvents.gaps``): each covers its time and its gap after it, at least a microsecond, and a
    session is a union of overlapping spans.

    With a ``max_duration``, sessions are also closed by the clock (AZ-22): at every multiple of it since the epoch, a
    session that has lasted longer ends there, so one may last up to twice that long. An event exactly at the check
    point belongs to the session that ends, as Azure's windows are (start, end]. A new session starts at the check
    point; it exists only if an event comes within the gap after the check point, and is not checked before its first
    event. All events then share one gap.

    An event exactly at the end of a session that was already released starts a new one, with ``touching`` or without.
    ``LiveEvents.closed_until`` is ignored: a closed session has no events left to join.

    Raises ConfigError for a gap or maximum of zero; ``assign`` raises it for events with lifetimes, and for events with
    their own gaps together with a maximum.
    """

    merges = True

    gap: Duration
    touching: bool = False
    max_duration: Duration | None = None

    def __post_init__(self) -> None:
        if not self.gap.micros or (self.max_duration is not None and not self.max_duration.micros):
            raise ConfigError(
                "a session gap or maximum duration of zero", why="no event could join", do="make it longer"
            )

    @property
    def looks_back(self) -> int | None:
        return None if self.max_duration is None else 2 * self.max_duration.micros  # checked at multiples of it

    @property
    def takes_events_at_the_watermark(self) -> bool:
        return not self.touching and self.max_duration is None

    def assign(self, live: LiveEvents, after: Limit, upto: Limit) -> Iterator[Assigned]:
        return self._sessions(live)[0].due(after, upto).pieces()

    def finished(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_]:
        sessions, forced = self._sessions(live)
        ended = sessions.ends <= limit_at(upto, sessions.lows)
        if forced.any() and self.max_duration is not None:
            limit = limit_at(upto, sessions.lows)
            ended = self._no_longer_needed(live.starts, sessions, forced, self.max_duration.micros, limit)
        return np.repeat(ended, sessions.highs - sessions.lows)

    def next_end(self, live: LiveEvents, after: Limit) -> int | None:
        return self._sessions(live)[0].next_end(after)

    def next_finished(self, live: LiveEvents, after: Limit) -> int | None:
        sessions, forced = self._sessions(live)
        if not forced.any():
            return sessions.next_end(after)
        limit = limit_at(after, sessions.lows)
        # After a session that the clock closed another one may still begin.
        quiet = sessions.ends + forced * self.gap.micros
        moments = np.concatenate([sessions.ends[sessions.ends > limit], quiet[quiet > limit]])
        return int(moments.min()) if len(moments) else None

    def _sessions(self, live: LiveEvents) -> tuple[RunWindows, NDArray[np.bool_]]:
        """Returns the sessions of the present events, in order of their events, and a mask of those that the clock
        closed."""
        if live.ends is not None:
            raise ConfigError(
                "sessions of events with lifetimes",
                why="a session is of points in time",
                do="leave the lifetimes out, or use the gap of each event",
            )
        if live.gaps is not None and self.max_duration is not None:
            raise ConfigError(
                "sessions with both a gap for each event and a maximum duration",
                why="Azure has no rule for where such a session is cut",
                do="leave either out",
            )
        if not len(live):
            nothing = np.empty(0, dtype=np.int64)
            return RunWindows(nothing, nothing, nothing, nothing), np.empty(0, dtype=bool)
        begins, covered = self._uncut_sessions(live)
        natural = _run_windows(live, begins, covered)
        if self.max_duration is None:
            return natural, np.zeros(len(natural.lows), dtype=bool)
        return self._cut_by_clock(live.starts, key_heads(live), natural, self.max_duration.micros)

    def runs(self, live: LiveEvents) -> EventRuns:
        """Returns runs of events that one session holds whatever other events come, as long as they are live; each ends
        where its events cover no more time. The events may be in any order.

        Only the clock cuts sessions, at multiples of the maximum duration, so a run holds no such moment but as its
        last. A row for each run, with its start and its end as ``LiveEvents.reaches``, forms the same sessions as the
        events.
        """
        order = stable_order(live.starts) if live.keys is None else order_within(live.keys, live.starts)
        columns = (live.starts, live.keys, live.gaps, live.reaches)
        times, keys, gaps, reaches = (None if column is None else column[order] for column in columns)
        assert times is not None
        live = LiveEvents(times, keys, gaps=gaps, reaches=reaches)
        begins, covered = self._uncut_sessions(live)
        if self.max_duration is not None and len(live):
            cells = -(-live.starts // self.max_duration.micros)
            begins[1:] |= cells[1:] != cells[:-1]
        runs = _run_windows(live, begins, covered)
        numbers = np.empty(len(live), np.int64)
        numbers[order] = np.cumsum(begins) - 1
        return EventRuns(numbers, runs.starts, runs.ends)

    def _uncut_sessions(self, live: LiveEvents) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Returns a mask of the events that begin a session, if none is cut; and for each event the time that is
        covered by it and by the events of its session, or of its key, before it."""
        if live.reaches is not None:
            covered = _greatest_so_far(live, live.reaches)
        elif live.gaps is not None:
            covered = _greatest_so_far(live, live.starts + np.maximum(live.gaps, 1))
        else:
            covered = live.starts + self.gap.micros
        begins = key_heads(live)
        begins[1:] |= live.starts[1:] > covered[:-1] if self.touching else live.starts[1:] >= covered[:-1]
        return begins, covered

    def _cut_by_clock(
        self, times: NDArray[np.int64], heads: NDArray[np.bool_], natural: RunWindows, longest: int
    ) -> tuple[RunWindows, NDArray[np.bool_]]:
        """Returns the sessions after the clock has closed those that last too long, and which ones it closed."""
        kept = np.ones(len(natural.lows), dtype=bool)
        cut: list[Cut] = []
        reached = 0
        cut_times = _cut_times(natural.starts, natural.starts, longest)
        for session in np.flatnonzero(cut_times < natural.ends).tolist():
            if session >= reached:
                reached = self._cut(times, heads, natural, session, cut)
                kept[session:reached] = False
        forced = np.zeros(len(natural.lows), dtype=bool)
        if not cut:
            return natural, forced
        table = np.array(cut, dtype=np.int64)
        columns = np.column_stack([natural.starts, natural.ends, natural.lows, natural.highs, forced])
        columns = np.concatenate([columns[kept], table])
        columns = columns[np.argsort(columns[:, 2])]
        starts, ends, lows, highs, closed = (np.ascontiguousarray(column) for column in columns.T)
        return RunWindows(starts, ends, lows, highs), closed.astype(bool)

    def _cut(
        self,
        times: NDArray[np.int64],
        heads: NDArray[np.bool_],
        natural: RunWindows,
        session: int,
        cut: list[Cut],
    ) -> int:
        """Cut a session, and those that its cuts draw in, at their check points; returns the first session beyond
        them."""
        low, start = int(natural.lows[session]), int(natural.starts[session])
        while True:
            high, end = int(natural.highs[session]), int(natural.ends[session])
            check = self.cut_time(start, int(times[low]))
            if check >= end:
                cut.append((start, end, low, high, False))
                return session + 1
            stop = low + int(np.searchsorted(times[low:high], check, side="right"))
            cut.append((start, check, low, stop, True))
            low, start = stop, check
            if low == high:
                session += 1
                if low == len(times) or heads[low] or not self.joins(int(times[low]) - start):
                    return session

    def cut_time(self, start: int, first: int) -> int:
        """Returns when the clock cuts a session, by its start and its first event: at the first multiple of the
        maximum duration at which it has lasted longer than that, and not before its first event. All times are in
        microseconds."""
        assert self.max_duration is not None
        longest = self.max_duration.micros
        return max(start // longest + 2, -(-first // longest)) * longest

    def ends_alone(self, times: NDArray[np.int64], gaps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the end of the session that each of these events would make alone, in microseconds."""
        ends = times + gaps
        return (
            ends if self.max_duration is None else np.minimum(ends, _cut_times(times, times, self.max_duration.micros))
        )

    def joins(self, distance: int) -> bool:
        """True if an event is in the session whose last event, or check point, is ``distance`` microseconds earlier."""
        return distance <= self.gap.micros if self.touching else distance < self.gap.micros

    def _no_longer_needed(
        self, times: NDArray[np.int64], sessions: RunWindows, forced: NDArray[np.bool_], longest: int, upto: Limit
    ) -> NDArray[np.bool_]:
        """Returns the sessions whose events are no longer needed, if the clock has closed some.

        The check points of a session depend on its start, and the start depends on the preceding session that the clock
        closed. So the last session closed by the clock is still needed. If its check points cannot be found from its
        own first event, the session before it is needed as well, and so on.
        """
        count = len(sessions.lows)
        firsts = times[sessions.lows]
        ended = sessions.ends <= upto
        opens = np.flatnonzero(sessions.starts == firsts)
        closes = np.append(opens[1:], count) - 1
        quiet = np.where(forced, sessions.ends + self.gap.micros, sessions.ends) <= upto
        stands = forced & ended & (_cut_times(firsts, firsts, longest) == sessions.ends)
        needed = np.maximum.accumulate(np.where(stands, np.arange(count), -1))[closes]
        needed = np.where((ended & quiet)[closes], count, needed)
        return np.arange(count) < np.repeat(needed, closes - opens + 1)


def _run_windows(live: LiveEvents, begins: NDArray[np.bool_], covered: NDArray[np.int64]) -> RunWindows:
    """Returns the runs that begin with these events; each ends where time is covered up to by its last event."""
    lows = np.flatnonzero(begins)
    highs = np.append(lows[1:], len(live))[: len(lows)]
    return RunWindows(live.starts[lows], covered[highs - 1], lows, highs)


def _cut_times(starts: NDArray[np.int64], firsts: NDArray[np.int64], longest: int) -> NDArray[np.int64]:
    """``cut_time`` of several sessions."""
    return np.maximum(starts // longest + 2, -(-firsts // longest)) * longest


def _greatest_so_far(live: LiveEvents, reach: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the greatest reach among the events of the same key up to each event."""
    rising = reach[1:] >= reach[:-1]
    if live.keys is not None:
        rising |= live.keys[1:] != live.keys[:-1]
    if rising.all():
        return reach
    order = stable_order(reach) if live.keys is None else pair_order(live.keys, reach)
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return reach[order[np.maximum.accumulate(ranks)]]


# Windows of the last event before a silence: nothing comes for some time after it.


@dataclass(frozen=True)
class LullWindows(WindowAssigner):
    """The window [t, t + length) of each event that no other of its key follows in that time; it holds this event.

    An event of the same time that arrived later follows it; one exactly at the end does not. An event is given up once
    one that follows it is in the past. So of the past one event of a key is kept. ``LiveEvents.closed_until`` is
    ignored.
    """

    length: Duration

    def assign(self, live: LiveEvents, after: Limit, upto: Limit) -> Iterator[Assigned]:
        return self._lulls(live).due(after, upto).pieces()

    def finished(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_]:
        following = self._following(live)
        # Not while the following event may still become a later one, because an earlier one has yet to come.
        followed = (following - live.starts < self.length.micros) & (following <= upto)
        return followed | (live.starts + self.length.micros <= upto)

    def next_end(self, live: LiveEvents, after: Limit) -> int | None:
        """Returns when the next events that others follow are given up; otherwise the next evaluation could be long
        after that."""
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
        """Returns None, because an event is given up once another one has followed it."""
        return None

    def _lulls(self, live: LiveEvents) -> RunWindows:
        lows = np.flatnonzero(self._following(live) - live.starts >= self.length.micros)
        starts = live.starts[lows]
        return RunWindows(starts, starts + self.length.micros, lows, lows + 1)

    def _following(self, live: LiveEvents) -> NDArray[np.int64]:
        """Returns when the next event of each event's key comes; for the last event of a key, the end of its window."""
        following = live.starts + self.length.micros
        following[:-1] = np.where(key_heads(live)[1:], following[:-1], live.starts[1:])
        return following


# Windows of a count of events, of each key.


@dataclass(frozen=True)
class CountedWindows(WindowAssigner):
    """Windows of the last ``length`` events of a key, one at every ``slide``-th event of the key (ST-2, ST-5, for each
    key).

    Events count once time has reached them, in order of (time, arrival). A window ends at the time of its last event;
    the first windows of a key hold fewer events, and an incomplete slide forms no window, not even at the end of the
    streams. With a slide longer than the length the events between two windows are in none.

    Only ``LiveEvents.accounted`` tells of earlier windows. Where windows overlap or touch, the events that were in none
    yet are those since the last window; if they do not, all live events are. So the lower limit of ``assign`` is
    ignored, and an event at the very time of the last window counts for the next.
    """

    ends_by_time = False

    length: Count
    slide: Count
    by_arrival: bool = False
    """True if windows are ordered by the arrival of their last events, and not by (end, start, key). Used only if every
    event counts in the batch in which it arrives, in processing time: the order of earlier events is lost."""

    @property
    def _leaves_gaps(self) -> bool:
        """True if some events lie between two windows and are in none."""
        return self.slide.value > self.length.value

    @property
    def takes_events_at_the_watermark(self) -> bool:
        return False

    def assign(self, live: LiveEvents, after: Limit, upto: Limit) -> Iterator[Assigned]:
        arrivals = np.arange(len(live)) if live.arrivals is None else live.arrivals
        return self._windows(live, upto).pieces(arrivals if self.by_arrival else None)

    def finished(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_]:
        self._refuse_lifetimes(live)
        kept = max(self.length.value - self.slide.value, 0)
        fired, so_far = self._lasts(live, upto), _so_far(live)
        # After the last window of a key nothing is finished; of its own events those that the next window may hold are
        # not.
        bounds = np.full(int(key_heads(live).sum()), -1)
        bounds[self._key_ordinals(live)[fired]] = so_far[fired] - kept
        finished: NDArray[np.bool_] = so_far <= bounds[self._key_ordinals(live)]
        return finished

    def passed_over(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_] | None:
        if not self._leaves_gaps:
            return None
        ranks, counted = self._ranks(live, upto)
        return counted & ((ranks - 1) % self.slide.value < self.slide.value - self.length.value)

    def next_end(self, live: LiveEvents, after: Limit) -> int | None:
        if self._leaves_gaps:  # an event that no window will hold is known as soon as time reaches it
            later = live.starts[live.starts > after]
            return int(later.min()) if len(later) else None
        return self._windows(live, FOREVER).next_end(after)

    def open(self, live: LiveEvents, after: Limit) -> Iterator[Assigned]:
        return self._windows(live, FOREVER).due(after, FOREVER).pieces()

    @property
    def windows_per_event(self) -> int:
        return -(-self.length.value // self.slide.value)

    @property
    def divides_into_runs(self) -> bool:
        """True if a window holds whole slides of events, whose number is known when they come. By event time it is not
        known: an event counts only once time has reached it, and an earlier one may still come."""
        return self.by_arrival and self.length.value % self.slide.value == 0

    def runs(self, live: LiveEvents) -> EventRuns:
        """Returns one run for the events of each slide, in order of the arrival of the last event of each run. A row
        that has been in a window is a run of its own.

        ``live`` is in order of arrival. Of each key it has all events since its last window, or only some if no window
        ended among these. A row for each run, with the time of its last event as ``LiveEvents.reaches``, forms the same
        windows as the events.
        """
        count = len(live)
        order = stable_order(live.starts) if live.keys is None else order_within(live.keys, live.starts)
        columns = (live.starts, live.keys, live.weights, live.reaches)
        starts, keys, weights, reaches = (None if column is None else column[order] for column in columns)
        assert starts is not None
        accounted = None if live.accounted is None else live.accounted[order]
        ordered = LiveEvents(starts, keys, accounted=accounted, weights=weights)
        ranks, _ = self._ranks(ordered, FOREVER)
        slides = (ranks - 1) // self.slide.value
        heads = key_heads(ordered)
        heads[1:] |= slides[1:] != slides[:-1]
        if accounted is not None:
            heads |= accounted
            heads[1:] |= accounted[:-1]
        lows = np.flatnonzero(heads)
        highs = np.append(lows[1:], count)[: len(lows)]
        lasts = np.maximum.reduceat(order, lows) if count else lows
        by_arrival = np.argsort(lasts)
        places = np.empty_like(by_arrival)
        places[by_arrival] = np.arange(len(lows))
        numbers = np.empty(count, np.int64)
        numbers[order] = np.repeat(places, highs - lows)
        ends = starts if reaches is None else reaches
        return EventRuns(numbers, starts[lows][by_arrival], ends[highs - 1][by_arrival])

    def _windows(self, live: LiveEvents, upto: Limit) -> RunWindows:
        self._refuse_lifetimes(live)
        lasts, so_far = self._lasts(live, upto), _so_far(live)
        firsts = np.flatnonzero(key_heads(live))[self._key_ordinals(live)[lasts]]
        lows = np.maximum(firsts, np.searchsorted(so_far, so_far[lasts] - self.length.value, side="right"))
        ends = live.starts if live.reaches is None else live.reaches
        return RunWindows(live.starts[lows], ends[lasts], lows, lasts + 1)

    def _lasts(self, live: LiveEvents, upto: Limit) -> NDArray[np.int64]:
        """Returns the indices of the events with which windows end, up to a limit."""
        ranks, counted = self._ranks(live, upto)
        return np.flatnonzero(counted & (ranks % self.slide.value == 0))

    def _ranks(self, live: LiveEvents, upto: Limit) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Returns the rank of each event among the events of its key since the last window, from 1, and a mask of the
        events that count at the limit. A row that stands for several events has the rank of the last of them."""
        counted = live.starts <= upto
        if not self._leaves_gaps and live.accounted is not None:
            counted &= ~live.accounted
        so_far = np.concatenate([[0], np.cumsum(counted if live.weights is None else counted * live.weights)])
        before = so_far[np.flatnonzero(key_heads(live))]
        return so_far[1:] - before[self._key_ordinals(live)], counted

    def _key_ordinals(self, live: LiveEvents) -> NDArray[np.int64]:
        """Returns the number of each event's key, from 0."""
        return np.cumsum(key_heads(live), dtype=np.int64) - 1

    def _refuse_lifetimes(self, live: LiveEvents) -> None:
        if live.ends is not None:
            raise ConfigError(
                "windows of a count of events with lifetimes",
                why="such windows count points in time",
                do="leave the lifetimes out, or use windows of time",
            )


def _so_far(live: LiveEvents) -> NDArray[np.int64]:
    """Returns the number of events up to each row, itself included."""
    found: NDArray[np.int64] = np.arange(1, len(live) + 1) if live.weights is None else np.cumsum(live.weights)
    return found


# Windows over a number of distinct start times.


@dataclass(frozen=True)
class CountByStartWindows(WindowAssigner):
    """A window from each start time of a key to a microsecond after the ``count``-th start time, itself included
    (SI-30).

    A start time counts once however many events have it, so a window may hold more events than its count. An event is
    in a window by its start alone; the end of its lifetime does not matter. Fewer start times than the count form no
    window, not even at the end of the streams. ``LiveEvents.closed_until`` is ignored.
    """

    count: Count

    def assign(self, live: LiveEvents, after: Limit, upto: Limit) -> Iterator[Assigned]:
        return self._windows(live).due(after, upto).pieces()

    def finished(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_]:
        # The last window that holds an event is the one that starts with it.
        firsts = self._firsts(live)
        ends = np.full(len(firsts), FOREVER)
        whole = self._whole(live, firsts)
        ends[whole] = live.starts[firsts[whole + self.count.value - 1]] + 1
        return np.repeat(ends, np.diff(firsts, append=len(live))) <= upto

    def next_end(self, live: LiveEvents, after: Limit) -> int | None:
        return self._windows(live).next_end(after)

    def _windows(self, live: LiveEvents) -> RunWindows:
        firsts = self._firsts(live)
        whole = self._whole(live, firsts)
        ends = live.starts[firsts[whole + self.count.value - 1]] + 1
        highs = np.append(firsts, len(live))[whole + self.count.value]
        return RunWindows(live.starts[firsts[whole]], ends, firsts[whole], highs)

    def _firsts(self, live: LiveEvents) -> NDArray[np.int64]:
        """Returns the index of the first event of each start time of each key."""
        fresh = key_heads(live)
        fresh[1:] |= live.starts[1:] != live.starts[:-1]
        return np.flatnonzero(fresh)

    def _whole(self, live: LiveEvents, firsts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns which of ``firsts`` are followed by enough other start times of their key for a window."""
        further = self.count.value - 1
        owners = np.cumsum(key_heads(live), dtype=np.int64)[firsts]
        return np.flatnonzero(owners[further:] == owners[: max(len(owners) - further, 0)])
