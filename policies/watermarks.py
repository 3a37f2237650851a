"""Marks of inputs, partitions and keys, by events or by the clock; and which events are late or early."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from windowing.durations import Count, Duration
from windowing.settings.rules import Arrival, IdleRule, LateAction, LateBy
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Marks: the time up to which the events of one input, partition or key are expected to be complete.


NONE = int(np.iinfo(np.int64).min)
"""Stands for a mark or watermark that does not exist yet; less than every time."""


@dataclass
class MarkState:
    """The state of the mark of one input, partition or key; times are in microseconds."""

    mark: int = NONE
    """The present mark."""
    counted: int = 0
    """Number of events so far that advance the mark (SI-10)."""
    since: int | None = None
    """Time of the event at which the last mark was made; before the first mark, of the first event (SI-5)."""
    latest: int = NONE
    """The latest time of an event that advances the mark."""


def advance(
    state: MarkState,
    times: NDArray[np.int64],
    advancing: NDArray[np.bool_],
    inserted: NDArray[np.int64] | None,
    every: Count | Duration | None,
    delay: int,
) -> NDArray[np.int64]:
    """Returns the mark after each event of one input, partition or key, in microseconds; updates ``state``.

    Events are in order of arrival. ``advancing``: a mask of the events that advance the mark; early events and end
    edges do not. ``inserted``: watermarks from the source, NONE for events (SI-4). ``every``: the interval between
    marks; None: marks are made at ticks, not here. ``delay``: microseconds by which a mark is before its event; -1 puts
    it just after the event (SI-9).
    """
    marks = np.full(len(times), NONE, np.int64)
    advancing_times = times[advancing]
    match every:
        case Count(1):
            marks[advancing] = advancing_times - delay
        case Count(n):
            numbers = state.counted + np.cumsum(advancing)
            makes_mark = advancing & (numbers % n == 0)
            marks[makes_mark] = times[makes_mark] - delay
        case Duration(span):
            advancing_indices = np.flatnonzero(advancing)
            mark_indices = advancing_indices[_events_at_intervals(state, advancing_times, span)]
            marks[mark_indices] = times[mark_indices] - delay
    if inserted is not None:
        marks = np.maximum(marks, inserted)
    state.counted += len(advancing_times)
    if len(advancing_times):
        state.latest = max(state.latest, int(advancing_times.max()))
    if len(marks):
        marks[0] = max(int(marks[0]), state.mark)
        np.maximum.accumulate(marks, out=marks)
        state.mark = int(marks[-1])
    return marks


def _events_at_intervals(state: MarkState, times: NDArray[np.int64], span: int) -> NDArray[np.int64]:
    """Returns the indices of the events at which marks are made: each the first event at least ``span`` later than the
    one before (SI-5). Updates ``state.since``."""
    if not len(times):
        return np.zeros(0, np.int64)
    highest = np.maximum.accumulate(times)
    since = int(times[0]) if state.since is None else state.since
    indices: list[int] = []
    while True:
        index = int(np.searchsorted(highest, since + span))
        if index == len(times):
            break
        indices.append(index)
        since = int(times[index])
    state.since = since
    return np.array(indices, np.int64)


def advance_keys(
    codes: NDArray[np.int64],
    times: NDArray[np.int64],
    advancing: NDArray[np.bool_],
    marks_before: NDArray[np.int64],
    delay: int,
) -> NDArray[np.int64]:
    """Returns the mark of each event's key after the event, with a mark at every event (AZ-15).

    ``codes``: the codes of keys, from 0, ascending; the events of a key are in order of arrival. ``marks_before``: for
    each event the mark of its key before the first event. Times are in microseconds.
    """
    marks = np.maximum(np.where(advancing, times - delay, NONE), marks_before)
    existing = marks[marks > NONE]
    if not len(existing):
        return marks
    # One running maximum gives those of all keys if the values of each key are shifted above those of the keys before.
    low, span = int(existing.min()) - 1, int(existing.max()) - int(existing.min()) + 2
    if (int(codes[-1]) + 1) * span < 1 << 62:
        base = codes * span
        levels = np.where(marks > NONE, marks - low, 0) + base
        np.maximum.accumulate(levels, out=levels)
        levels -= base
        return np.where(levels > 0, levels + low, NONE)
    distinct_marks, mark_ranks = np.unique(marks, return_inverse=True)
    base = codes * len(distinct_marks)
    packed = mark_ranks + base
    np.maximum.accumulate(packed, out=packed)
    running: NDArray[np.int64] = distinct_marks[packed - base]
    return running


# Idleness: the clock advances a watermark when no event comes.


def idle_end(rule: IdleRule, timeout: int, clock: int, clock_at_last: int, ends: Iterable[int]) -> int | None:
    """Returns the end of the last window that the idle timeout closes; None if it closes none. All times are in
    microseconds.

    ``clock_at_last``: the clock when the last event came. ``ends``: the ends of the open windows with events; windows
    without events are not closed, as their events may still come.

    AFTER_WINDOW_END closes a window ``timeout`` after its end or after the last arrival, whichever is later (AT-17), or
    up to one step of the clock later. MAX_REMAINING closes it ``timeout`` after the last arrival, but not before its
    end (AT-19). An event that arrives at the very clock of the timeout prevents the closing, so a timeout of zero is
    one of a microsecond.
    """
    timeout = max(timeout, 1)
    if clock - clock_at_last < timeout:
        return None
    limit = clock - timeout if rule is IdleRule.AFTER_WINDOW_END else clock
    return max((end for end in ends if end <= limit), default=None)


def estimated_arrival(last_arrival: int, last_clock: int, clock: int) -> int:
    """Returns the estimated arrival time while no event comes (AZ-6): the last arrival time, plus the time that has
    passed since on the clock."""
    return last_arrival + (clock - last_clock)


# Admission: whether an event is admitted, and with which time.


LastEnd = Callable[["NDArray[np.int64]", "NDArray[np.int64] | None"], "NDArray[np.int64]"]
"""A function from events (starts, ends of lifetimes) to the end of the last window that can hold each, in
microseconds."""


class Decision(IntEnum):
    """The decision about the admission of an event."""

    ACCEPTED = 0
    EARLY = 1
    ADJUSTED_LATE_BY_ARRIVAL = 2
    """The event arrived too long after its time, and got the earliest time that its arrival allows (AZ-8)."""
    LATE_BY_ARRIVAL = 3
    """The event arrived too long after its time, whatever the watermark, and was turned away."""
    ADJUSTED_LATE_AT_ADMISSION = 4
    """The event was behind the watermark, and got the time of the watermark (AZ-11), or a later start (SI-13)."""
    LATE_AT_ADMISSION = 5
    """The event was behind the watermark, or its windows had closed, and was turned away. Azure calls such an event out
    of order, other systems call it late."""
    WATERMARK = 6
    """The row is not an event but a watermark from the source."""
    UNWINDOWED = 7
    """The event lies in a gap between windows."""
    INVALID = 8
    """The event is unreadable, or has no usable time."""
    DUPLICATE = 9
    """The event has the message id of an earlier event that a window may still need (ST-27)."""

    @property
    def label(self) -> str:
        """The name of the decision in answers; LATE_AT_ADMISSION is ``out_of_order`` there (AZ-24)."""
        return self.name.replace("LATE_AT_ADMISSION", "OUT_OF_ORDER").removesuffix("_BY_ARRIVAL").lower()


def all_accepted(codes: NDArray[np.int8]) -> bool:
    """True if every event is accepted unchanged, which is the usual case."""
    return not codes.any()  # ACCEPTED is 0


def is_accepted(codes: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Returns a mask of the events that are admitted, unchanged or with an adjusted time."""
    if all_accepted(codes):
        return np.ones(len(codes), np.bool_)
    admitted: NDArray[np.bool_] = (
        (codes == Decision.ACCEPTED)
        | (codes == Decision.ADJUSTED_LATE_BY_ARRIVAL)
        | (codes == Decision.ADJUSTED_LATE_AT_ADMISSION)
    )
    return admitted


def is_accepted_on_arrival(codes: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Returns a mask of the events that pass the rules on arrival; only these advance the watermark."""
    if all_accepted(codes):
        return np.ones(len(codes), np.bool_)
    in_time: NDArray[np.bool_] = (codes == Decision.ACCEPTED) | (codes == Decision.ADJUSTED_LATE_BY_ARRIVAL)
    return in_time


def between_windows(times: NDArray[np.int64], last_ends: NDArray[np.int64], holds_start: bool) -> NDArray[np.bool_]:
    """Returns a mask of the events in gaps between windows. ``last_ends``: the end of the last window that begins
    before each event. ``holds_start``: True if windows hold their start and not their end, so that an event at the end
    of a window is in a gap."""
    between: NDArray[np.bool_] = last_ends < times + holds_start
    return between


def decide_by_arrival(
    times: NDArray[np.int64], arrivals: NDArray[np.int64] | int, rule: Arrival
) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Decide which events are early or late by their arrival (AZ-14). Returns the times of events in microseconds,
    adjusted if late, and the codes of decisions. An event exactly at a limit is neither early nor late (AZ-8,
    AZ-12)."""
    codes = np.zeros(len(times), np.int8)
    if rule.late is not None:
        earliest = arrivals - rule.late.micros
        behind = times < earliest
        if behind.any():
            if rule.action is LateAction.ADJUST:
                times = np.where(behind, earliest, times)
                codes[behind] = Decision.ADJUSTED_LATE_BY_ARRIVAL
            else:
                codes[behind] = Decision.LATE_BY_ARRIVAL
    if rule.early is not None:
        codes[times - arrivals > rule.early.micros] = Decision.EARLY
    return times, codes


@dataclass(frozen=True, kw_only=True)
class Admission:
    """Decides which events a bolt admits behind its watermark, and with which time."""

    late_by: LateBy
    late_action: LateAction
    by_own_mark: bool
    """True if an event is late by the mark of its input, partition or key; False if by the watermark of the bolt."""
    allowed: int
    """Allowed lateness: windows close this many microseconds after the watermark has reached their end."""
    closes_after_end: bool
    """True if a window closes when the watermark is past its end, not at its end."""
    last_end: LastEnd | None = None
    """The end of the last window of each event; None if it depends on other events."""
    holds_start: bool = False
    """True if windows include their start and not their end."""
    admits_behind_watermark: bool = False
    """True if an event behind the watermark is admitted under two conditions: it is not behind the mark of its input,
    partition or key, and one of its windows is open."""

    def closed_until_at(self, watermarks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the time up to which windows are closed at each watermark; both in microseconds."""
        return _subtract(watermarks, self.allowed + self.closes_after_end)

    def minus_allowed_lateness(self, watermarks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the watermarks minus the allowed lateness, in microseconds."""
        return _subtract(watermarks, self.allowed)

    def windows_closed(
        self, times: NDArray[np.int64], last_ends: NDArray[np.int64], closed_until: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Returns a mask of the events whose last window has closed, except events in gaps between windows, which are
        not late (AT-4)."""
        return (last_ends <= closed_until) & ~between_windows(times, last_ends, self.holds_start)

    def decide(
        self,
        times: NDArray[np.int64],
        ends: NDArray[np.int64] | None,
        codes: NDArray[np.int8],
        source_mark: NDArray[np.int64],
        watermark: NDArray[np.int64],
        end_edges: NDArray[np.bool_] | None = None,
        idle_closed_until: int = NONE,
    ) -> tuple[NDArray[np.int64], NDArray[np.int8], NDArray[np.int64]]:
        """Decide which events are late. Returns their times, perhaps adjusted, the codes of decisions, and for each
        event the time up to which windows were closed when it came.

        ``ends``: the ends of lifetimes. ``codes``: the decisions by arrival. ``source_mark``: the mark of the event's
        input, partition or key before the event. ``watermark``: the watermark of the bolt before the event.
        ``end_edges``: a mask of the end edges, which are late by their end (SI-4). ``idle_closed_until``: the time up
        to which the idle timeout has closed windows. All times are in microseconds.
        """
        closed_until = self.closed_until_at(watermark)
        if idle_closed_until > NONE:
            closed_until = np.maximum(closed_until, idle_closed_until)
        compared_mark = self._compared_marks(source_mark, watermark)
        # an end edge is judged by its end
        compared = times if end_edges is None or ends is None else np.where(end_edges, ends, times)
        if self.late_by is LateBy.WATERMARK:
            if len(compared) and not self.admits_behind_watermark and int(compared.min()) > _latest(compared_mark):
                return times, codes, closed_until
            late = self._late_by_mark(times, compared, ends, compared_mark, closed_until, end_edges)
        else:
            assert self.last_end is not None
            late = self.windows_closed(times, self.last_end(times, ends), closed_until)
        late &= is_accepted_on_arrival(codes)
        if not late.any():
            return times, codes, closed_until
        codes = codes.copy()
        codes[late] = Decision.LATE_AT_ADMISSION
        match self.late_action:
            case LateAction.ADJUST:
                codes[late] = Decision.ADJUSTED_LATE_AT_ADMISSION
                times = np.where(late, self._earliest(late, compared_mark, watermark, closed_until), times)
            case LateAction.CUT if ends is not None:
                cut = _can_be_cut(late, times, ends, compared_mark, end_edges)
                codes[cut] = Decision.ADJUSTED_LATE_AT_ADMISSION
                times = np.where(cut, compared_mark, times)
        return times, codes, closed_until

    def _late_by_mark(
        self,
        times: NDArray[np.int64],
        compared: NDArray[np.int64],
        ends: NDArray[np.int64] | None,
        compared_mark: NDArray[np.int64],
        closed_until: NDArray[np.int64],
        end_edges: NDArray[np.bool_] | None,
    ) -> NDArray[np.bool_]:
        """Returns a mask of the events behind their mark, and of those at their mark whose windows have closed;
        ``compared_mark``: the mark of each event. ``compared``: the time that is compared with the mark."""
        late: NDArray[np.bool_] = compared < compared_mark
        tied = times == compared_mark if end_edges is None else (times == compared_mark) & ~end_edges
        candidates = np.arange(len(times)) if self.admits_behind_watermark else np.flatnonzero(tied)
        if self.last_end is not None and len(candidates):
            last_ends = self.last_end(compared[candidates], None if ends is None else ends[candidates])
            late[candidates] |= self.windows_closed(compared[candidates], last_ends, closed_until[candidates])
        return late

    def _earliest(
        self,
        late: NDArray[np.bool_],
        compared_mark: NDArray[np.int64],
        watermark: NDArray[np.int64],
        closed_until: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Returns the earliest time with which each late event would be in time: its mark, or just after its mark. For
        events that are not late, returns their mark, which may be NONE."""
        if self.last_end is None:
            return compared_mark
        rows = np.flatnonzero(late)
        moments, watermarks, closed = compared_mark[rows], watermark[rows], closed_until[rows]
        if self.admits_behind_watermark:  # the windows at the mark of an event may have closed too
            moments = np.where(moments > NONE, moments, watermarks)
            is_closed = self.windows_closed(moments, self.last_end(moments, None), closed)
            moments = np.where(is_closed, np.maximum(moments, watermarks), moments)
        # If the window that ends at this time has closed, the earliest time is just after it.
        earliest = compared_mark.copy()
        earliest[rows] = moments + self.windows_closed(moments, self.last_end(moments, None), closed)
        return earliest

    def _compared_marks(self, source_mark: NDArray[np.int64], watermark: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the mark or watermark that each event is compared with."""
        if self.admits_behind_watermark:
            return source_mark
        return np.maximum(source_mark, watermark) if self.by_own_mark else watermark


def _subtract(watermarks: NDArray[np.int64], micros: int) -> NDArray[np.int64]:
    """Returns watermarks minus a number of microseconds; NONE and FOREVER do not change."""
    is_time = (watermarks > NONE) & (watermarks < FOREVER)
    return np.where(is_time, watermarks - micros, watermarks) if micros else watermarks


def _can_be_cut(
    late: NDArray[np.bool_],
    times: NDArray[np.int64],
    ends: NDArray[np.int64],
    compared_mark: NDArray[np.int64],
    end_edges: NDArray[np.bool_] | None,
) -> NDArray[np.bool_]:
    """Returns a mask of the late events that end after their mark, so that they can be cut to begin at it."""
    cut = late & (ends > compared_mark) & (ends > times + 1)  # a point is dropped, never cut
    return cut if end_edges is None else cut & ~end_edges


def _latest(marks: NDArray[np.int64]) -> int:
    """Returns the latest mark, faster if all marks are one broadcast value."""
    return int(marks[0] if marks.strides == (0,) else marks.max())
