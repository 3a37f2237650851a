"""Source watermarks, by the events or the clock of an input, partition or key; and which events are late by them."""

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


# Marks: how far the time of one input, partition or key has advanced after each of its events.
#
# Computed on whole arrays, in order of arrival. ``NONE`` stands for "no mark yet" and is less than every time.


NONE = int(np.iinfo(np.int64).min)
"""No mark, or no watermark, yet."""


@dataclass
class MarkState:
    """The state of one source of events; times in microseconds."""

    mark: int = NONE
    """The present mark."""
    counted: int = 0
    """Number of events so far, without those that do not count (SI-10)."""
    since: int | None = None
    """Time of the event at which the last mark was made, or of the first event (SI-5)."""
    latest: int = NONE
    """The latest time seen."""


def advance(
    state: MarkState,
    times: NDArray[np.int64],
    advancing: NDArray[np.bool_],
    given: NDArray[np.int64] | None,
    every: Count | Duration | None,
    delay: int,
) -> NDArray[np.int64]:
    """Returns the mark after each event of one source, in microseconds; updates ``state``.

    ``advancing``: True for events that advance the watermark (early ones and end edges do not). ``given``: watermarks
    from the source, NONE for events (SI-4). ``every``: how often a mark is made; None makes none here, because ticks
    do. ``delay``, in microseconds, is subtracted from the time of the event; -1 puts the mark just after it (SI-9).
    """
    marks = np.full(len(times), NONE, np.int64)
    seen = times[advancing]
    match every:
        case Count(1):
            marks[advancing] = seen - delay
        case Count(n):
            numbers = state.counted + np.cumsum(advancing)
            made = advancing & (numbers % n == 0)
            marks[made] = times[made] - delay
        case Duration(span):
            places = np.flatnonzero(advancing)
            made_at = places[_leaps(state, seen, span)]
            marks[made_at] = times[made_at] - delay
    if given is not None:
        marks = np.maximum(marks, given)
    state.counted += len(seen)
    if len(seen):
        state.latest = max(state.latest, int(seen.max()))
    if len(marks):
        marks[0] = max(int(marks[0]), state.mark)
        np.maximum.accumulate(marks, out=marks)
        state.mark = int(marks[-1])
    return marks


def _leaps(state: MarkState, times: NDArray[np.int64], span: int) -> NDArray[np.int64]:
    """Returns the events that come at least ``span`` after the previous one found (SI-5), found one by one."""
    if not len(times):
        return np.zeros(0, np.int64)
    highest = np.maximum.accumulate(times)
    since = int(times[0]) if state.since is None else state.since
    leaps: list[int] = []
    while True:
        index = int(np.searchsorted(highest, since + span))
        if index == len(times):
            break
        leaps.append(index)
        since = int(times[index])
    state.since = since
    return np.array(leaps, np.int64)


def advance_keys(
    codes: NDArray[np.int64],
    times: NDArray[np.int64],
    advancing: NDArray[np.bool_],
    before: NDArray[np.int64],
    delay: int,
) -> NDArray[np.int64]:
    """Returns the mark of each event's key after it, with a mark at every event (AZ-15).

    ``codes`` are numbers from 0, ascending; events of a key are in order of arrival. ``before`` is the mark of each
    event's key at the start. Times are in microseconds.
    """
    marks = np.maximum(np.where(advancing, times - delay, NONE), before)
    known = marks[marks > NONE]
    if not len(known):
        return marks
    # The running maxima of all keys are one running maximum if every key starts above all values of the keys before
    # it.
    low, span = int(known.min()) - 1, int(known.max()) - int(known.min()) + 2
    if (int(codes[-1]) + 1) * span < 1 << 62:
        base = codes * span
        levels = np.where(marks > NONE, marks - low, 0) + base
        np.maximum.accumulate(levels, out=levels)
        levels -= base
        return np.where(levels > 0, levels + low, NONE)
    ranks, places = np.unique(marks, return_inverse=True)
    base = codes * len(ranks)
    packed = places + base
    np.maximum.accumulate(packed, out=packed)
    running: NDArray[np.int64] = ranks[packed - base]
    return running


# Idleness: how far the clock advances a watermark when no event does.


def idle_end(rule: IdleRule, timeout: int, clock: int, last_arrival: int, ends: Iterable[int]) -> int | None:
    """Returns the end of the last window that the idle timeout closes; None if it closes none. All times are in
    microseconds.

    ``ends`` are the ends of the open windows that hold events. Other windows are not closed: their events may still
    come.

    AFTER_WINDOW_END closes a window ``timeout`` after the later of its end and the last arrival (AT-17), or up to one
    step of the clock later. MAX_REMAINING closes it ``timeout`` after the last arrival, but not before its end (AT-19).
    An arrival at that very moment comes first: its clock is then ``last_arrival``.
    """
    if clock - last_arrival < timeout:
        return None
    limit = clock - timeout if rule is IdleRule.AFTER_WINDOW_END else clock
    return max((end for end in ends if end <= limit), default=None)


def estimated(arrived: int, arrived_at: int, clock: int) -> int:
    """Returns the estimated arrival time while nothing arrives (AZ-6): the last one plus the time that has passed on
    the clock since."""
    return arrived + (clock - arrived_at)


# Admission: the time that an event is given, and whether it is admitted. Computed on arrays, in order of arrival.


LastEnd = Callable[["NDArray[np.int64]", "NDArray[np.int64] | None"], "NDArray[np.int64]"]
"""Maps events (starts, ends of lifetimes) to the end, in microseconds, of the last window that can hold each."""


class Decision(IntEnum):
    """The decision about one event on admission."""

    ACCEPTED = 0
    EARLY = 1
    ADJUSTED_LATE_BY_ARRIVAL = 2
    """The event arrived too long after its time, and was given the earliest time that its arrival allows (AZ-8)."""
    LATE_BY_ARRIVAL = 3
    """The event arrived too long after its time, whatever the watermark is, and was turned away."""
    ADJUSTED_LATE_BY_WATERMARK = 4
    """The event was behind the watermark, and was given the watermark's time (AZ-11), or a later start (SI-13)."""
    LATE_BY_WATERMARK = 5
    """The event was behind the watermark, or its windows had closed, and it was turned away: late, as other systems
    than Azure say."""
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
        """The name of the decision in answers, which say "out of order" for late by the watermark (AZ-24)."""
        return self.name.replace("LATE_BY_WATERMARK", "OUT_OF_ORDER").removesuffix("_BY_ARRIVAL").lower()


def all_accepted(codes: NDArray[np.int8]) -> bool:
    """True if every event is accepted unchanged: the usual case, which needs fewer computations."""
    return not codes.any()  # ACCEPTED is 0


def accepted(codes: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Returns which events are admitted, with the time that they have or an adjusted one."""
    if all_accepted(codes):
        return np.ones(len(codes), np.bool_)
    through: NDArray[np.bool_] = (
        (codes == Decision.ACCEPTED)
        | (codes == Decision.ADJUSTED_LATE_BY_ARRIVAL)
        | (codes == Decision.ADJUSTED_LATE_BY_WATERMARK)
    )
    return through


def timely(codes: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Returns a mask of the events that pass the rules on arrival times; only these advance the watermark."""
    if all_accepted(codes):
        return np.ones(len(codes), np.bool_)
    through: NDArray[np.bool_] = (codes == Decision.ACCEPTED) | (codes == Decision.ADJUSTED_LATE_BY_ARRIVAL)
    return through


def between_windows(times: NDArray[np.int64], last: NDArray[np.int64], holds_start: bool) -> NDArray[np.bool_]:
    """Returns which events lie between two windows, so that none can hold them; ``last`` is the end of the last window
    that begins before each event."""
    between: NDArray[np.bool_] = last < times + holds_start
    return between


def decide_by_arrival(
    times: NDArray[np.int64], arrivals: NDArray[np.int64] | int, rule: Arrival
) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Decide by arrival times which events are early or late (AZ-14). Returns the assigned times in microseconds and a
    code of the Decision about each event; both bounds are strict (AZ-8, AZ-12)."""
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
    per_input: bool
    """True if an event is late by the mark of its own input, partition or key; False: by the watermark of the bolt."""
    allowed: int
    """Allowed lateness: windows close this many microseconds after the watermark has reached their end."""
    closes_after_end: bool
    last_end: LastEnd | None = None
    """The last window end of an event; None if that depends on other events."""
    holds_start: bool = False
    """True if windows include their start and not their end."""
    admits_behind_watermark: bool = False
    """True if an event behind the watermark is admitted when it is in order by its own mark and one of its windows is
    open."""

    def closed_at(self, watermarks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the time up to which windows are closed at each watermark; both in microseconds."""
        return _less(watermarks, self.allowed + self.closes_after_end)

    def less_allowed(self, watermarks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Watermarks less the allowed lateness, in microseconds."""
        return _less(watermarks, self.allowed)

    def missed(
        self, times: NDArray[np.int64], last: NDArray[np.int64], closed_until: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Returns a mask of the events that have missed their last window. An event between two windows is in none, so
        it is not late (AT-4)."""
        return (last <= closed_until) & ~between_windows(times, last, self.holds_start)

    def decide(
        self,
        times: NDArray[np.int64],
        ends: NDArray[np.int64] | None,
        codes: NDArray[np.int8],
        source_mark: NDArray[np.int64],
        watermark: NDArray[np.int64],
        end_edges: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int8], NDArray[np.int64]]:
        """Decides about events. Returns the assigned times, the codes of the decisions, and the time up to which
        windows were closed for each event.

        ``source_mark`` is the mark of the event's own input, partition or key before the event, ``watermark`` the
        bolt's watermark. ``ends`` are the ends of lifetimes. ``end_edges`` marks end edges, whose end decides whether
        they are late (SI-4). All times are in microseconds.
        """
        closed_until = self.closed_at(watermark)
        reference = self._reference(source_mark, watermark)
        compared = times if end_edges is None or ends is None else np.where(end_edges, ends, times)
        if self.late_by is LateBy.WATERMARK:
            if len(compared) and not self.admits_behind_watermark and int(compared.min()) > _latest(reference):
                return times, codes, closed_until
            late = self._behind(times, compared, ends, reference, closed_until, end_edges)
        else:
            assert self.last_end is not None
            late = self.missed(compared, self.last_end(compared, ends), closed_until)
        late &= timely(codes)
        if not late.any():
            return times, codes, closed_until
        codes = codes.copy()
        codes[late] = Decision.LATE_BY_WATERMARK
        match self.late_action:
            case LateAction.ADJUST:
                codes[late] = Decision.ADJUSTED_LATE_BY_WATERMARK
                times = np.where(late, self._earliest(late, reference, watermark, closed_until), times)
            case LateAction.CUT if ends is not None:
                cut = _outlasting(late, times, ends, reference, end_edges)
                codes[cut] = Decision.ADJUSTED_LATE_BY_WATERMARK
                times = np.where(cut, reference, times)
        return times, codes, closed_until

    def _behind(
        self,
        times: NDArray[np.int64],
        compared: NDArray[np.int64],
        ends: NDArray[np.int64] | None,
        reference: NDArray[np.int64],
        closed_until: NDArray[np.int64],
        end_edges: NDArray[np.bool_] | None,
    ) -> NDArray[np.bool_]:
        """Returns a mask of the events that are behind their mark, or at it if their windows have closed; ``compared``:
        the time of each event that counts."""
        late: NDArray[np.bool_] = compared < reference
        tied = times == reference if end_edges is None else (times == reference) & ~end_edges
        some = np.arange(len(times)) if self.admits_behind_watermark else np.flatnonzero(tied)
        if self.last_end is not None and len(some):  # windows are looked up only where that may change something
            last = self.last_end(compared[some], None if ends is None else ends[some])
            late[some] |= self.missed(compared[some], last, closed_until[some])
        return late

    def _earliest(
        self,
        late: NDArray[np.bool_],
        reference: NDArray[np.int64],
        watermark: NDArray[np.int64],
        closed_until: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Returns the earliest time that a late event can be given: that of its mark, or just after it.

        Events that are not late keep their mark, which may be that before all time.
        """
        if self.last_end is None:
            return reference
        rows = np.flatnonzero(late)
        known, watermarks, closed = reference[rows], watermark[rows], closed_until[rows]
        if self.admits_behind_watermark:  # behind its own mark no window may be open either
            known = np.where(known > NONE, known, watermarks)
            missed = self.missed(known, self.last_end(known, None), closed)
            known = np.where(missed, np.maximum(known, watermarks), known)
        # Where the window that ends at the watermark has closed, the earliest time is just after it.
        earliest = reference.copy()
        earliest[rows] = known + self.missed(known, self.last_end(known, None), closed)
        return earliest

    def _reference(self, source_mark: NDArray[np.int64], watermark: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the mark or watermark that each event is compared with."""
        if self.admits_behind_watermark:
            return source_mark
        return np.maximum(source_mark, watermark) if self.per_input else watermark


def _less(watermarks: NDArray[np.int64], back: int) -> NDArray[np.int64]:
    known = (watermarks > NONE) & (watermarks < FOREVER)
    return np.where(known, watermarks - back, watermarks) if back else watermarks


def _outlasting(
    late: NDArray[np.bool_],
    times: NDArray[np.int64],
    ends: NDArray[np.int64],
    reference: NDArray[np.int64],
    end_edges: NDArray[np.bool_] | None,
) -> NDArray[np.bool_]:
    """Returns a mask of the late events that last beyond their mark, so that they can be cut to begin there."""
    cut = late & (ends > reference) & (ends > times + 1)  # a point is dropped, never cut
    return cut if end_edges is None else cut & ~end_edges


def _latest(marks: NDArray[np.int64]) -> int:
    """Returns the latest of some marks, which may be one value broadcast to all events."""
    return int(marks[0] if marks.strides == (0,) else marks.max())
