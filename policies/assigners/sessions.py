"""Assigners of windows of contiguous events of a key: sessions, silences, and counts of events or of start times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from policies.assigners.aligned import (
    EventRuns,
    LiveEvents,
    WindowAssigner,
    WindowMembers,
    first_of_keys,
    in_pieces,
    limit_at,
)
from windowing.columns import order_within, pair_order, stable_order
from windowing.durations import Count, Duration
from windowing.errors import ConfigError
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.assigners.aligned import Limit
    from policies.watermarks import LastEnd


if TYPE_CHECKING:
    CheckedSession = tuple[int, int, int, int, bool]
    """A session that the clock has checked: its start, its end, the index of its first event, the index after its last
    event, and whether the clock closed it."""


@dataclass(frozen=True, slots=True)
class RunWindows:
    """Windows that each hold contiguous live events of a key, in order of these events."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    lows: NDArray[np.int64]
    """Index of the first event of each window."""
    highs: NDArray[np.int64]
    """Index after the last event of each window."""

    def ending_between(self, after: Limit, upto: Limit) -> RunWindows:
        """Returns the windows with after < end <= upto; limits may differ between keys."""
        is_between = self.ends > limit_at(after, self.lows)
        is_between &= self.ends <= limit_at(upto, self.lows)
        if is_between.all():
            return self
        return RunWindows(self.starts[is_between], self.ends[is_between], self.lows[is_between], self.highs[is_between])

    def next_end(self, after: Limit) -> int | None:
        """Returns the earliest end of a window after the limit, in microseconds; None if there is none."""
        ends = self.ends[self.ends > limit_at(after, self.lows)]
        return int(ends.min()) if len(ends) else None

    def pieces(self, arrivals: NDArray[np.int64] | None = None) -> Iterator[WindowMembers]:
        """Yields the windows with their members, in pieces of bounded size, in order of (end, start, key).

        With ``arrivals``, the index of each event by arrival, they are in order of (end, arrival of the last event).
        """
        order = pair_order(self.ends, self.starts if arrivals is None else arrivals[self.highs - 1])
        for begin, stop, offsets in in_pieces((self.highs - self.lows)[order]):
            chosen = order[begin:stop]
            members = np.arange(offsets[-1]) + np.repeat(self.lows[chosen] - offsets[:-1], np.diff(offsets))
            yield WindowMembers(self.starts[chosen], self.ends[chosen], offsets, members)


@dataclass(frozen=True)
class SessionWindows(WindowAssigner):
    """Windows from the first event of a session to the gap after its last event (AT-5, UH-12).

    Successive events with less than the gap between them belong to one session; with ``touching`` so do events exactly
    the gap apart (the rule of Flink and Kafka, UH-12). An event between two sessions may merge them (AT-6). If each
    event has its own gap (``LiveEvents.gaps``), it covers the time from itself to its gap after it, at least a
    microsecond, and a session is a union of overlapping times.

    With a ``max_duration`` sessions are also closed by the clock (AZ-22). At every multiple of it since the epoch, the
    check points, a session that has lasted longer ends; so a session may last up to twice as long. An event exactly at
    the check point belongs to the session that ends, as Azure's windows are (start, end]. A new session starts at the
    check point; it exists only if an event comes within the gap after the check point, and is not checked before its
    first event.

    An event exactly at the end of a session that has fired starts a new session, with ``touching`` or without.
    ``LiveEvents.closed_until`` is ignored, because a closed session has no live events.

    Raises ConfigError for a gap or maximum duration of zero. ``assign`` raises ConfigError for events with lifetimes,
    and for a maximum duration if each event has its own gap.
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
    def max_lookback(self) -> int | None:
        return None if self.max_duration is None else 2 * self.max_duration.micros

    @property
    def takes_events_at_the_watermark(self) -> bool:
        return not self.touching and self.max_duration is None

    def assign(self, live: LiveEvents, after: Limit, upto: Limit) -> Iterator[WindowMembers]:
        return self._sessions(live)[0].ending_between(after, upto).pieces()

    def finished(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_]:
        sessions, is_cut = self._sessions(live)
        ended = sessions.ends <= limit_at(upto, sessions.lows)
        if is_cut.any() and self.max_duration is not None:
            limit = limit_at(upto, sessions.lows)
            ended = self._no_longer_needed(live.starts, sessions, is_cut, self.max_duration.micros, limit)
        return np.repeat(ended, sessions.highs - sessions.lows)

    def next_end(self, live: LiveEvents, after: Limit) -> int | None:
        return self._sessions(live)[0].next_end(after)

    def _sessions(self, live: LiveEvents) -> tuple[RunWindows, NDArray[np.bool_]]:
        """Returns the sessions of the present events, in order of events, and a mask of the sessions that the clock
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
            no_windows = np.empty(0, dtype=np.int64)
            return RunWindows(no_windows, no_windows, no_windows, no_windows), np.empty(0, dtype=bool)
        begins_session, covered_until = self._undivided_sessions(live)
        undivided = _run_windows(live, begins_session, covered_until)
        if self.max_duration is None:
            return undivided, np.zeros(len(undivided.lows), dtype=bool)
        return self._cut_by_clock(live.starts, first_of_keys(live), undivided, self.max_duration.micros)

    def runs(self, live: LiveEvents) -> EventRuns:
        """Returns runs of live events that are in one session whatever other events come. Events may be in any order.

        The clock divides sessions at multiples of the maximum duration, so a run does not continue after such a moment.
        A row for each run, with its start, and the end of the time that its events cover as
        ``LiveEvents.covered_until``, forms the same sessions as the events.
        """
        order = stable_order(live.starts) if live.keys is None else order_within(live.keys, live.starts)
        columns = (live.starts, live.keys, live.gaps, live.covered_until)
        times, keys, gaps, covered_until = (None if column is None else column[order] for column in columns)
        assert times is not None
        live = LiveEvents(times, keys, gaps=gaps, covered_until=covered_until)
        begins_run, covered_by_runs = self._undivided_sessions(live)
        if self.max_duration is not None and len(live):
            periods = -(-live.starts // self.max_duration.micros)
            begins_run[1:] |= periods[1:] != periods[:-1]
        runs = _run_windows(live, begins_run, covered_by_runs)
        numbers = np.empty(len(live), np.int64)
        numbers[order] = np.cumsum(begins_run) - 1
        return EventRuns(numbers, runs.starts, runs.ends)

    def _undivided_sessions(self, live: LiveEvents) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Returns a mask of the events that begin a session, and the end of the session up to each event. Sessions that
        the clock closes are not taken into account."""
        if live.covered_until is not None:
            covered_until = _running_maximum(live, live.covered_until)
        elif live.gaps is not None:
            covered_until = _running_maximum(live, live.starts + np.maximum(live.gaps, 1))
        else:
            covered_until = live.starts + self.gap.micros
        begins_session = first_of_keys(live)
        begins_session[1:] |= (
            live.starts[1:] > covered_until[:-1] if self.touching else live.starts[1:] >= covered_until[:-1]
        )
        return begins_session, covered_until

    def _cut_by_clock(
        self, times: NDArray[np.int64], is_first_of_key: NDArray[np.bool_], undivided: RunWindows, longest: int
    ) -> tuple[RunWindows, NDArray[np.bool_]]:
        """Divide the sessions ``undivided`` where the clock closes them. Returns all sessions, and a mask of those that
        the clock closed."""
        stays_undivided = np.ones(len(undivided.lows), dtype=bool)
        parts: list[CheckedSession] = []
        next_session = 0
        cut_times = _cut_times(undivided.starts, undivided.starts, longest)
        for session in np.flatnonzero(cut_times < undivided.ends).tolist():
            if session >= next_session:
                next_session = self._divide_session(times, is_first_of_key, undivided, session, parts)
                stays_undivided[session:next_session] = False
        is_cut = np.zeros(len(undivided.lows), dtype=bool)
        if not parts:
            return undivided, is_cut
        part_rows = np.array(parts, dtype=np.int64)
        columns = np.column_stack([undivided.starts, undivided.ends, undivided.lows, undivided.highs, is_cut])
        columns = np.concatenate([columns[stays_undivided], part_rows])
        columns = columns[np.argsort(columns[:, 2])]
        starts, ends, lows, highs, closed = (np.ascontiguousarray(column) for column in columns.T)
        return RunWindows(starts, ends, lows, highs), closed.astype(bool)

    def _divide_session(
        self,
        times: NDArray[np.int64],
        is_first_of_key: NDArray[np.bool_],
        undivided: RunWindows,
        session: int,
        parts: list[CheckedSession],
    ) -> int:
        """Divide a session at its check points, and also the sessions after it that its last part joins. Appends the
        parts to ``parts``, and returns the index of the first session after them."""
        low, start = int(undivided.lows[session]), int(undivided.starts[session])
        while True:
            high, end = int(undivided.highs[session]), int(undivided.ends[session])
            cut = self.cut_time(start, int(times[low]))
            if cut >= end:
                parts.append((start, end, low, high, False))
                return session + 1
            stop = low + int(np.searchsorted(times[low:high], cut, side="right"))
            parts.append((start, cut, low, stop, True))
            low, start = stop, cut
            if low == high:
                session += 1
                if low == len(times) or is_first_of_key[low] or not self.joins(int(times[low]) - start):
                    return session

    def cut_time(self, start: int, first: int) -> int:
        """Returns the check point at which the clock closes a session: the first multiple of the maximum duration at
        which the session has lasted longer than that duration, but not before its first event. ``start``: the start of
        the session; ``first``: the time of its first event; all in microseconds."""
        assert self.max_duration is not None
        longest = self.max_duration.micros
        return max(start // longest + 2, -(-first // longest)) * longest

    def ends_if_alone(self, times: NDArray[np.int64], gaps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the end of the session of each event if it had no other event, in microseconds."""
        ends = times + gaps
        return (
            ends if self.max_duration is None else np.minimum(ends, _cut_times(times, times, self.max_duration.micros))
        )

    def joins(self, distance: int) -> bool:
        """True if an event belongs to a session whose last event, or start at a check point, is ``distance``
        microseconds earlier."""
        return distance <= self.gap.micros if self.touching else distance < self.gap.micros

    def _no_longer_needed(
        self, times: NDArray[np.int64], sessions: RunWindows, is_cut: NDArray[np.bool_], longest: int, upto: Limit
    ) -> NDArray[np.bool_]:
        """Returns a mask of the sessions whose events are no longer needed, if the clock has closed sessions.

        The start of a session depends on the session before it, if the clock closed that one. So the last session that
        the clock closed is still needed. If its end does not follow from its first event alone, the session before it
        is needed too, and so on.
        """
        count = len(sessions.lows)
        firsts = times[sessions.lows]
        ended = sessions.ends <= upto
        chain_starts = np.flatnonzero(sessions.starts == firsts)
        chain_ends = np.append(chain_starts[1:], count) - 1
        gap_is_over = np.where(is_cut, sessions.ends + self.gap.micros, sessions.ends) <= upto
        ends_by_itself = is_cut & ended & (_cut_times(firsts, firsts, longest) == sessions.ends)
        first_needed = np.maximum.accumulate(np.where(ends_by_itself, np.arange(count), -1))[chain_ends]
        first_needed = np.where((ended & gap_is_over)[chain_ends], count, first_needed)
        return np.arange(count) < np.repeat(first_needed, chain_ends - chain_starts + 1)


def _run_windows(live: LiveEvents, begins_run: NDArray[np.bool_], covered_until: NDArray[np.int64]) -> RunWindows:
    """Returns windows that begin with the events in the mask ``begins_run``, and end with the time that their last
    events cover."""
    lows = np.flatnonzero(begins_run)
    highs = np.append(lows[1:], len(live))[: len(lows)]
    return RunWindows(live.starts[lows], covered_until[highs - 1], lows, highs)


def _cut_times(starts: NDArray[np.int64], firsts: NDArray[np.int64], longest: int) -> NDArray[np.int64]:
    """Returns ``SessionWindows.cut_time`` of several sessions."""
    return np.maximum(starts // longest + 2, -(-firsts // longest)) * longest


def _running_maximum(live: LiveEvents, covered_until: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns, for each event, the greatest reach of the events of its key up to it."""
    never_falls = covered_until[1:] >= covered_until[:-1]
    if live.keys is not None:
        never_falls |= live.keys[1:] != live.keys[:-1]
    if never_falls.all():
        return covered_until
    order = stable_order(covered_until) if live.keys is None else pair_order(live.keys, covered_until)
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return covered_until[order[np.maximum.accumulate(ranks)]]


# Windows of the last event before a silence.


@dataclass(frozen=True)
class LullWindows(WindowAssigner):
    """For each event at t: the window [t, t + length), if no other event of the key follows in it. It holds the event.

    An event of the same time that arrived later follows it; an event exactly at the end does not. An event is finished
    when another event that follows it is in the past, so one past event of each key is retained.
    ``LiveEvents.closed_until`` is ignored.
    """

    length: Duration

    def assign(self, live: LiveEvents, after: Limit, upto: Limit) -> Iterator[WindowMembers]:
        return self._lulls(live).ending_between(after, upto).pieces()

    def finished(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_]:
        following = self._following(live)
        # Only if no earlier event can come in between, which might have a window.
        followed = (following - live.starts < self.length.micros) & (following <= upto)
        return followed | (live.starts + self.length.micros <= upto)

    def next_end(self, live: LiveEvents, after: Limit) -> int | None:
        """Returns the earliest time > after at which an event gets its window, or is known to have none."""
        moments = np.minimum(self._following(live), live.starts + self.length.micros)
        moments = moments[moments > after]
        return int(moments.min()) if len(moments) else None

    @property
    def max_lookback(self) -> int:
        return self.length.micros

    @property
    def last_end(self) -> LastEnd:
        """The function from events to the end of the only window that may hold each."""
        return lambda starts, ends: starts + self.length.micros

    @property
    def needed_until(self) -> None:
        """Returns None, because an event is finished when another event follows it."""
        return None

    def _lulls(self, live: LiveEvents) -> RunWindows:
        lows = np.flatnonzero(self._following(live) - live.starts >= self.length.micros)
        starts = live.starts[lows]
        return RunWindows(starts, starts + self.length.micros, lows, lows + 1)

    def _following(self, live: LiveEvents) -> NDArray[np.int64]:
        """Returns the time of the next event of each event's key; for the last event of a key, the end of its
        window."""
        following = live.starts + self.length.micros
        following[:-1] = np.where(first_of_keys(live)[1:], following[:-1], live.starts[1:])
        return following


# Windows of a count of events of each key.


@dataclass(frozen=True)
class CountedWindows(WindowAssigner):
    """Windows of the last ``length`` events of a key, one at every ``slide``-th event of the key (ST-2, ST-5, for each
    key).

    Events are counted when time has reached them, in order of (time, arrival). A window ends at the time of its last
    event. The first windows of a key hold fewer events, and an incomplete slide forms no window, not even at the end of
    the streams. With a slide longer than the length, the events between two windows are in no window.

    Counting goes on after the last window of the key. If windows leave no gaps, the events after it are those that have
    been in no window (``LiveEvents.accounted``); if they leave gaps, they are all live events. ``assign`` does not need
    its lower limit for this, so an event at exactly the end of the last window counts for the next one.
    """

    ends_by_time = False

    length: Count
    slide: Count
    by_arrival: bool = False
    """True if windows are in order of the arrival of their last events, not of (end, start, key). For processing time
    only, where each event is counted in the batch in which it arrives: the order among earlier events is not known."""

    @property
    def _leaves_gaps(self) -> bool:
        """True if there are events between two windows."""
        return self.slide.value > self.length.value

    @property
    def takes_events_at_the_watermark(self) -> bool:
        return False

    def assign(self, live: LiveEvents, after: Limit, upto: Limit) -> Iterator[WindowMembers]:
        arrivals = np.arange(len(live)) if live.arrivals is None else live.arrivals
        return self._windows(live, upto).pieces(arrivals if self.by_arrival else None)

    def finished(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_]:
        self._refuse_lifetimes(live)
        overlap = max(self.length.value - self.slide.value, 0)
        last_events, counts = self._last_events(live, upto), _counts_up_to(live)
        # Not finished: the events after the last window of a key, and the last events of that window if the next
        # window may hold them too.
        finished_counts = np.full(int(first_of_keys(live).sum()), -1)
        finished_counts[self._key_ordinals(live)[last_events]] = counts[last_events] - overlap
        finished: NDArray[np.bool_] = counts <= finished_counts[self._key_ordinals(live)]
        return finished

    def skipped(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_] | None:
        if not self._leaves_gaps:
            return None
        ranks, counted = self._ranks(live, upto)
        return counted & ((ranks - 1) % self.slide.value < self.slide.value - self.length.value)

    def next_end(self, live: LiveEvents, after: Limit) -> int | None:
        if self._leaves_gaps:  # each event must be evaluated when time reaches it, since no window may hold it
            later = live.starts[live.starts > after]
            return int(later.min()) if len(later) else None
        return self._windows(live, FOREVER).next_end(after)

    def open(self, live: LiveEvents, after: Limit) -> Iterator[WindowMembers]:
        return self._windows(live, FOREVER).ending_between(after, FOREVER).pieces()

    @property
    def windows_per_event(self) -> int:
        return -(-self.length.value // self.slide.value)

    @property
    def divides_into_runs(self) -> bool:
        """True if the slide of an event is known when the event comes, and a window holds whole slides. In event time
        it is not known, since earlier events may still come."""
        return self.by_arrival and self.length.value % self.slide.value == 0

    def runs(self, live: LiveEvents) -> EventRuns:
        """Returns one run for the events of each slide, in order of the arrival of their last events. A row that has
        been in a window is a run of its own.

        ``live`` is in order of arrival. It has all events of a key since its last window, or fewer if no window ended
        among them. A row for each run, with the time of its last event as ``LiveEvents.covered_until``, forms the same
        windows as the events.
        """
        count = len(live)
        order = stable_order(live.starts) if live.keys is None else order_within(live.keys, live.starts)
        columns = (live.starts, live.keys, live.weights, live.covered_until)
        starts, keys, weights, covered_until = (None if column is None else column[order] for column in columns)
        assert starts is not None
        accounted = None if live.accounted is None else live.accounted[order]
        ordered = LiveEvents(starts, keys, accounted=accounted, weights=weights)
        ranks, _ = self._ranks(ordered, FOREVER)
        slides = (ranks - 1) // self.slide.value
        begins_run = first_of_keys(ordered)
        begins_run[1:] |= slides[1:] != slides[:-1]
        if accounted is not None:
            begins_run |= accounted
            begins_run[1:] |= accounted[:-1]
        lows = np.flatnonzero(begins_run)
        highs = np.append(lows[1:], count)[: len(lows)]
        last_arrivals = np.maximum.reduceat(order, lows) if count else lows
        by_arrival = np.argsort(last_arrivals)
        run_numbers = np.empty_like(by_arrival)
        run_numbers[by_arrival] = np.arange(len(lows))
        numbers = np.empty(count, np.int64)
        numbers[order] = np.repeat(run_numbers, highs - lows)
        ends = starts if covered_until is None else covered_until
        return EventRuns(numbers, starts[lows][by_arrival], ends[highs - 1][by_arrival])

    def _windows(self, live: LiveEvents, upto: Limit) -> RunWindows:
        self._refuse_lifetimes(live)
        last_events, counts = self._last_events(live, upto), _counts_up_to(live)
        first_events = np.flatnonzero(first_of_keys(live))[self._key_ordinals(live)[last_events]]
        lows = np.maximum(first_events, np.searchsorted(counts, counts[last_events] - self.length.value, side="right"))
        ends = live.starts if live.covered_until is None else live.covered_until
        return RunWindows(live.starts[lows], ends[last_events], lows, last_events + 1)

    def _last_events(self, live: LiveEvents, upto: Limit) -> NDArray[np.int64]:
        """Returns the indices of the last events of windows, up to a limit."""
        ranks, counted = self._ranks(live, upto)
        return np.flatnonzero(counted & (ranks % self.slide.value == 0))

    def _ranks(self, live: LiveEvents, upto: Limit) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Returns the rank of each event, and a mask of the events up to the limit.

        Events of a key are numbered from 1 after its last window. A row for several events has the rank of its last
        event.
        """
        counted = live.starts <= upto
        if not self._leaves_gaps and live.accounted is not None:
            counted &= ~live.accounted
        counts = np.concatenate([[0], np.cumsum(counted if live.weights is None else counted * live.weights)])
        counts_before_key = counts[np.flatnonzero(first_of_keys(live))]
        return counts[1:] - counts_before_key[self._key_ordinals(live)], counted

    def _key_ordinals(self, live: LiveEvents) -> NDArray[np.int64]:
        """Returns the ordinal number of each event's key, from 0."""
        return np.cumsum(first_of_keys(live), dtype=np.int64) - 1

    def _refuse_lifetimes(self, live: LiveEvents) -> None:
        if live.ends is not None:
            raise ConfigError(
                "windows of a count of events with lifetimes",
                why="such windows count points in time",
                do="leave the lifetimes out, or use windows of time",
            )


def _counts_up_to(live: LiveEvents) -> NDArray[np.int64]:
    """Returns the number of events up to and including each row."""
    numbers: NDArray[np.int64] = np.arange(1, len(live) + 1) if live.weights is None else np.cumsum(live.weights)
    return numbers


# Windows of a count of distinct start times.


@dataclass(frozen=True)
class CountByStartWindows(WindowAssigner):
    """Windows from each start time of a key to one microsecond after the ``count``-th start time; the first of these is
    the start of the window (SI-30).

    A start time counts once, however many events have it, so a window may hold more events than its count. The ends of
    lifetimes do not matter. Fewer start times than the count form no window, not even at the end of the streams.
    ``LiveEvents.closed_until`` is ignored.
    """

    count: Count

    def assign(self, live: LiveEvents, after: Limit, upto: Limit) -> Iterator[WindowMembers]:
        return self._windows(live).ending_between(after, upto).pieces()

    def finished(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_]:
        # The last window that holds an event is the one that starts with it.
        firsts = self._first_of_start_times(live)
        ends = np.full(len(firsts), FOREVER)
        complete = self._complete_starts(live, firsts)
        ends[complete] = live.starts[firsts[complete + self.count.value - 1]] + 1
        return np.repeat(ends, np.diff(firsts, append=len(live))) <= upto

    def next_end(self, live: LiveEvents, after: Limit) -> int | None:
        return self._windows(live).next_end(after)

    def _windows(self, live: LiveEvents) -> RunWindows:
        firsts = self._first_of_start_times(live)
        complete = self._complete_starts(live, firsts)
        ends = live.starts[firsts[complete + self.count.value - 1]] + 1
        highs = np.append(firsts, len(live))[complete + self.count.value]
        return RunWindows(live.starts[firsts[complete]], ends, firsts[complete], highs)

    def _first_of_start_times(self, live: LiveEvents) -> NDArray[np.int64]:
        """Returns the index of the first event of each start time of each key."""
        is_new_time = first_of_keys(live)
        is_new_time[1:] |= live.starts[1:] != live.starts[:-1]
        return np.flatnonzero(is_new_time)

    def _complete_starts(self, live: LiveEvents, firsts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the indices in ``firsts`` of the start times that enough other start times of their key follow for a
        window."""
        further_starts = self.count.value - 1
        key_numbers = np.cumsum(first_of_keys(live), dtype=np.int64)[firsts]
        return np.flatnonzero(key_numbers[further_starts:] == key_numbers[: max(len(key_numbers) - further_starts, 0)])
