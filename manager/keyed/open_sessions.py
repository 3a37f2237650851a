"""Lateness of events of sessions and sliding logs, which depends on the windows that are open for their key."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from policies.watermarks import NONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manager.keyed.retained_events import RetainedEvents
    from policies.assigners import SessionWindows


# Sessions (AT-7).


_START, _END = itemgetter(0), itemgetter(1)


def late_for_sessions(
    times: NDArray[np.int64],
    keys: NDArray[np.int64] | None,
    candidates: NDArray[np.bool_],
    closed_until: NDArray[np.int64],
    gaps: NDArray[np.int64],
    live_events: Callable[[], RetainedEvents | None],
    kind: SessionWindows,
    watermark_minus_lateness: NDArray[np.int64],
) -> tuple[NDArray[np.bool_], list[int]]:
    """Returns a mask of the late events, and the indices of the events before which windows must be evaluated. Events
    are in order of arrival.

    Sessions that end up to ``closed_until`` have closed when an event comes. An event is late if no open session takes
    it, and its time is before ``watermark_minus_lateness`` or the session that it would open ends up to
    ``closed_until``. If sessions have a maximum duration, an event is also late if the clock has closed the session
    that would hold it.

    A session that has closed must fire before an event next to it is admitted, which would otherwise be merged into it:
    windows must be evaluated before such an event.

    ``candidates``: a mask of the events to consider. ``gaps``: the session gap of each event. ``live_events`` returns
    the live events of earlier batches; it is called only if an event lies before ``closed_until``.
    """
    is_behind = candidates & (times <= closed_until)
    late = np.zeros(len(times), np.bool_)
    if not is_behind.any():
        return late, []
    codes = np.zeros(len(times), np.int64) if keys is None else keys
    late_codes = np.unique(codes[is_behind])
    sessions = _sessions_of(late_codes, live_events(), int(gaps[0]) if len(gaps) else 0, kind)
    evaluate_before: list[int] = []
    rows = np.flatnonzero(np.isin(codes, late_codes) & candidates)
    for row in rows.tolist():
        key_sessions, time, end = sessions[int(codes[row])], int(times[row]), int(times[row] + gaps[row])
        key_sessions.close(int(closed_until[row]))
        low, first_open, high = key_sessions.overlapping(time, end)
        if key_sessions.is_late(time, end, first_open, high, int(watermark_minus_lateness[row])):
            late[row] = True
            continue
        if first_open > low:
            evaluate_before.append(row)
            key_sessions.remove_before(first_open)
        key_sessions.add(time, end)
    return late, evaluate_before


class _Sessions:
    """The sessions of one key while its events arrive: disjoint ranges of time, in order."""

    def __init__(self, kind: SessionWindows) -> None:
        self.kind = kind
        self.spans: list[tuple[int, int]] = []
        self.limit = NONE
        """Sessions that end up to this time have closed."""

    def close(self, limit: int) -> None:
        """Close the sessions that end up to a time; called before each event."""
        self.limit = limit

    def overlapping(self, start: int, end: int) -> tuple[int, int, int]:
        """Returns the range of sessions that an event meets, as three indices: of the first session, of the first open
        session, and after the last. ``start`` and ``end``: the time that the event covers."""
        low, high = self._overlapping(start, end)
        first_open = low
        while first_open < high and self.spans[first_open][1] <= self.limit:
            first_open += 1
        return low, first_open, high

    def is_late(self, time: int, end: int, first_open: int, high: int, watermark_minus_lateness: int) -> bool:
        """True if an event is late. It meets the open sessions from ``first_open`` up to, but not including, ``high``.
        ``end``: the end of the session that it would open."""
        return first_open == high and (time < watermark_minus_lateness or end <= self.limit)

    def remove_before(self, stop: int) -> None:
        """Remove the sessions before an index."""
        del self.spans[:stop]

    def add(self, time: int, end: int) -> None:
        """Add an event that covers the time up to ``end``, and merge the sessions that it meets."""
        low, high = self._overlapping(time, end)
        self.spans[low:high] = [self._merged(time, end, low, high)]

    def _overlapping(self, start: int, end: int) -> tuple[int, int]:
        touching = self.kind.touching
        low = (bisect_left if touching else bisect_right)(self.spans, start, key=_END)
        high = (bisect_right if touching else bisect_left)(self.spans, end, key=_START)
        return low, max(low, high)

    def _merged(self, start: int, end: int, low: int, high: int) -> tuple[int, int]:
        if high > low:
            start, end = min(start, self.spans[low][0]), max(end, self.spans[high - 1][1])
        return start, end


class _CheckedSessions(_Sessions):
    """Sessions that the clock divides if they last too long (AZ-22); only the part after the last cut remains."""

    def __init__(self, kind: SessionWindows) -> None:
        super().__init__(kind)
        self._last_cut = NONE
        """The moment at which the clock last divided a session; the next session begins after it."""
        self._times: list[int] = []
        """The times of the events after the cut, ascending."""

    def close(self, limit: int) -> None:
        index = bisect_right(self.spans, self.limit, key=_END)
        super().close(limit)
        while index < len(self.spans) and self.spans[index][0] < limit:
            start, end = self.spans[index]
            cut_at = self.kind.cut_time(start, self._first_event_time(start, end))
            if cut_at < end and cut_at <= limit:
                self._cut_off(index, cut_at)
            else:
                index += 1

    def is_late(self, time: int, end: int, first_open: int, high: int, watermark_minus_lateness: int) -> bool:
        if time > self.limit:
            return False
        if time <= self._last_cut and self._may_continue:
            return True
        if super().is_late(time, end, first_open, high, watermark_minus_lateness):
            return True
        return self._end_with(time, *self._merged(time, end, first_open, high)) <= self.limit

    def add(self, time: int, end: int) -> None:
        super().add(time, end)
        insort(self._times, time)

    @property
    def _may_continue(self) -> bool:
        """True if the session that begins at the cut is open, or may still get its first event."""
        index = bisect_left(self.spans, self._last_cut, key=_START)
        return any(start == self._last_cut and end > self.limit for start, end in self.spans[index : index + 1])

    def _cut_off(self, index: int, cut: int) -> None:
        """Divide a session at the time ``cut``. The next session begins there; if it has no event yet, it waits for
        its first event for the gap."""
        del self._times[: bisect_right(self._times, cut)]
        end = self.spans[index][1]
        if not self._times or self._times[0] >= end:
            end = cut + self.kind.gap.micros
            if self._times and self.kind.joins(self._times[0] - cut):
                end = self.spans.pop(index + 1)[1]
        self.spans[index], self._last_cut = (cut, end), cut

    def _first_event_time(self, start: int, end: int) -> int:
        """Returns the time of the first event of a session; the end of the session if it has no event yet."""
        if start != self._last_cut:
            return start
        return min(self._times[0], end) if self._times else end

    def _end_with(self, time: int, start: int, end: int) -> int:
        """Returns the end of the session that would hold an event of this time, after the clock has divided it.
        ``start`` and ``end``: the edges of the undivided session."""
        cut_at = self.kind.cut_time(start, min(time, self._first_event_time(start, end)))
        while cut_at < time:
            following = bisect_right(self._times, cut_at)
            first_time = min(time, self._times[following]) if following < len(self._times) else time
            cut_at = self.kind.cut_time(cut_at, first_time)
        return min(cut_at, end)


def _sessions_of(
    keys: NDArray[np.int64], live: RetainedEvents | None, default_gap: int, kind: SessionWindows
) -> dict[int, _Sessions]:
    """Returns the sessions of live events, for each of these keys; ``default_gap``: the gap of events without a gap in
    a column."""
    make = _Sessions if kind.max_duration is None else _CheckedSessions
    sessions = {key: make(kind) for key in keys.tolist()}
    if live is None or not len(live):
        return sessions
    live_keys = np.zeros(len(live), np.int64) if live.keys is None else live.keys
    of_keys = np.isin(live_keys, keys)
    covered_until = (
        live.times + gaps_of_events(live.gaps, default_gap, len(live))
        if live.covered_until is None
        else live.covered_until
    )
    rows = (column[of_keys].tolist() for column in (live_keys, live.times, covered_until))
    for key, time, reach in zip(*rows, strict=True):
        sessions[key].add(time, reach)
    return sessions


def gaps_of_events(gaps: NDArray[np.int64] | None, default_gap: int, count: int) -> NDArray[np.int64]:
    """Returns the session gaps of ``count`` events in microseconds: ``gaps``, or ``default_gap`` for all if it is
    None."""
    return np.full(count, default_gap, np.int64) if gaps is None else gaps


# Sliding logs.


def late_for_sliding_logs(
    times: NDArray[np.int64],
    keys: NDArray[np.int64] | None,
    candidates: NDArray[np.bool_],
    closed_until: NDArray[np.int64],
    length: int,
    live_events: Callable[[], RetainedEvents | None],
) -> NDArray[np.bool_]:
    """Returns a mask of the late events; events are in order of arrival.

    An event at t makes two windows: (t - length, t], and the window when it leaves, which ends at t + length. It is
    late if the first of these has closed and no admitted event has made an open window that holds t, as in Kafka
    Streams.

    ``candidates``: a mask of the events to consider. ``live_events`` returns the live events of earlier batches; it is
    called only if the first window of an event has closed. Times and the length are in microseconds.
    """
    is_behind = candidates & (times <= closed_until)
    late = np.zeros(len(times), np.bool_)
    if not is_behind.any():
        return late
    codes = np.zeros(len(times), np.int64) if keys is None else keys
    late_codes = np.unique(codes[is_behind])
    admitted = _times_by_key(late_codes, live_events())
    for row in np.flatnonzero(np.isin(codes, late_codes) & candidates).tolist():
        time, limit, admitted_times = int(times[row]), int(closed_until[row]), admitted[int(codes[row])]
        if time <= limit and not _in_open_window(admitted_times, time, limit, length):
            late[row] = True
        else:
            insort(admitted_times, time)
    return late


def _times_by_key(keys: NDArray[np.int64], live: RetainedEvents | None) -> dict[int, list[int]]:
    """Returns the times of live events, ascending, for each of these keys."""
    times_by_key: dict[int, list[int]] = {key: [] for key in keys.tolist()}
    if live is None or not len(live):
        return times_by_key
    live_keys = np.zeros(len(live), np.int64) if live.keys is None else live.keys
    of_keys = np.isin(live_keys, keys)
    for key, time in zip(live_keys[of_keys].tolist(), live.times[of_keys].tolist(), strict=True):
        times_by_key[key].append(time)
    for times in times_by_key.values():
        times.sort()
    return times_by_key


def _in_open_window(times: list[int], time: int, closed_until: int, length: int) -> bool:
    """True if events at ``times`` have made an open window that holds ``time``; the window that ends at ``time`` has
    closed."""
    leaving = _has_between(times, closed_until - length, time)
    return leaving or _has_between(times, closed_until, time + length)


def _has_between(times: list[int], after: int, before: int) -> bool:
    index = bisect_right(times, after)
    return index < len(times) and times[index] < before
