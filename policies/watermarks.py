"""Source watermarks: how far the time of an input, partition or key has advanced, by its events or by the clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from windowing.durations import Count, Duration
from windowing.settings.rules import IdleRule

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

    ``advancing``: which events advance the watermark (early ones and end edges do not). ``given``: watermarks from the
    source, NONE where the row is an event (SI-4). ``every``: how often a mark is made; None makes none here, because
    ticks do. ``delay``, in microseconds, is subtracted from the event's time; -1 puts the mark just past its event
    (SI-9).
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
