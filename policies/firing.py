"""When windows of keys fire by a count, a timeout or a time of day: decided on whole arrays (UH-14, UH-15, UH-20).

Events are in order of (key, arrival); a window is a run of events of one key. All times are in microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from windowing.settings.triggers import CountTrigger, FiredBy, RuleTrigger
from windowing.time.daytimes import DayTime, next_of
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.window_capacity import WindowCapacity

CODES = tuple(FiredBy)
"""The cause that a code in an array of causes stands for."""

COUNT, RULE, TIMEOUT, TIME, CLOSE, FULL = (
    CODES.index(each)
    for each in (FiredBy.COUNT, FiredBy.RULE, FiredBy.TIMEOUT, FiredBy.TIME, FiredBy.CLOSE, FiredBy.FULL)
)


@dataclass(frozen=True)
class Blocks:
    """The events grouped by key: key ``i`` has the events from ``edges[i]`` to ``edges[i + 1]``."""

    times: NDArray[np.int64]
    """Arrival time of each event; ascending within a key."""
    edges: NDArray[np.int64]

    @property
    def until(self) -> NDArray[np.int64]:
        """For each event, the index at which the events of its key end."""
        return np.repeat(self.edges[1:], np.diff(self.edges))


@dataclass(frozen=True)
class FiredRuns:
    """Windows that fire and are purged: they hold the events from ``lows`` to ``highs``."""

    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    ends: NDArray[np.int64]
    causes: NDArray[np.int8]
    next_due: int | None
    """The clock at which the next open window is due; None where no clock fires one."""

    def due(self, which: NDArray[np.bool_], when: NDArray[np.int64]) -> FiredRuns:
        """The windows in the mask ``which``. ``when`` is the clock at which each window is due; the earliest of the
        others becomes ``next_due``."""
        waiting = when[~which]
        next_due = int(waiting.min()) if len(waiting) else None
        return FiredRuns(self.lows[which], self.highs[which], self.ends[which], self.causes[which], next_due)


@dataclass(frozen=True)
class Timeout:
    """The timeout of a window: a time after its last event, or after its first (UH-15)."""

    micros: int | None
    from_first: bool

    @staticmethod
    def of(trigger: CountTrigger | RuleTrigger) -> Timeout:
        """The timeout of a trigger."""
        return Timeout(None if trigger.timeout is None else trigger.timeout.micros, trigger.from_first)

    def timed_out(self, first: Any, last: Any, now: Any) -> Any:
        """Whether the timeout has passed before an event that comes now; works on times and on arrays of times.

        A timeout after the first event passes before an event of its instant, one after the last event passes after it
        (UH-12).
        """
        if self.micros is None:
            return False
        if self.from_first:  # which is never later than that after the last
            return now >= first + self.micros
        return now > last + self.micros

    def end(self, first: int, last: int) -> int:
        """The end of a window that times out; the time of its last event where there is no timeout."""
        if self.micros is None:
            return last
        return (first if self.from_first else last) + self.micros

    def due(self, first: int, last: int) -> int | None:
        """The clock from which the window is due if no event comes; None where there is no timeout."""
        return None if self.micros is None else self.end(first, last) + (not self.from_first)


def fire_open(blocks: Blocks, lows: NDArray[np.int64], timeout: Timeout, clock: int) -> FiredRuns:
    """Fire the open windows that are due at the clock: each from an index in ``lows`` to the last event of its key."""
    highs = blocks.until[lows]
    firsts, lasts = blocks.times[lows], blocks.times[highs - 1]
    if timeout.micros is None:
        due = np.full(len(lows), clock == FOREVER)
        return FiredRuns(lows[due], highs[due], lasts[due], np.full(int(due.sum()), CLOSE, np.int8), None)
    ends = (firsts if timeout.from_first else lasts) + timeout.micros
    when = ends + (not timeout.from_first)
    windows = FiredRuns(lows, highs, ends, np.full(len(lows), TIMEOUT, np.int8), None)
    return windows.due(when <= clock, when)


def fire_counted(
    blocks: Blocks, trigger: CountTrigger, clock: int, capacity: WindowCapacity | None = None
) -> FiredRuns:
    """The windows fired up to a clock by a count or its timeout (UH-14, UH-15).

    ``capacity`` is the capacity of windows; None where no window reaches it.
    """
    times, until, size = blocks.times, blocks.until, trigger.count.value
    timeout = Timeout.of(trigger)
    following = np.minimum(np.arange(len(times)) + size, until)
    if timeout.micros is not None:
        apart = np.diff(times) > timeout.micros
        breaks = np.append(np.flatnonzero(apart) + 1, len(times))
        following = np.minimum(following, breaks[np.searchsorted(breaks, np.arange(len(times)), side="right")])
        if timeout.from_first:
            following = np.minimum(following, _first_after(blocks, timeout.micros))
    if capacity is not None:
        following = capacity.limit(following)
    lows = _window_starts(blocks.edges[:-1], following, until)
    highs = following[lows]
    counted = highs - lows == size
    done = counted | (highs < until[lows])
    if capacity is not None:
        done |= capacity.full(lows, highs)
    lows_done, highs_done, counted = lows[done], highs[done], counted[done]
    firsts, lasts = times[lows_done], times[highs_done - 1]
    late = (firsts if timeout.from_first else lasts) + (timeout.micros or 0)
    ends, causes = np.where(counted, lasts, late), np.where(counted, COUNT, TIMEOUT).astype(np.int8)
    if capacity is not None:
        filled = capacity.full(lows_done, highs_done) & ~counted
        comes = times[np.minimum(highs_done, len(times) - 1)]  # the event that did not fit
        crowded = ~(counted | filled | timeout.timed_out(firsts, lasts, comes))
        ends = np.where(filled, lasts, np.where(crowded, comes, ends))
        causes = np.where(filled | crowded, np.int8(FULL), causes)
    fired = FiredRuns(lows_done, highs_done, ends, causes, None)
    return _both(fired, fire_open(blocks, lows[~done], timeout, clock))


def fire_daily(blocks: Blocks, day: DayTime, clock: int, capacity: WindowCapacity | None = None) -> FiredRuns:
    """The windows fired up to a clock by a time of day (UH-20); ``capacity`` as in ``fire_counted``."""
    moments, until = next_of(day, blocks.times), blocks.until  # an event exactly at that time waits for the next
    first = np.ones(len(moments), np.bool_)
    first[1:] = (moments[1:] != moments[:-1]) | (until[1:] != until[:-1])
    lows = np.flatnonzero(first)
    highs = np.append(lows[1:], len(moments))
    if capacity is None:
        ends, full = moments[lows], np.zeros(len(lows), np.bool_)
    else:
        lows, highs, ends, full = _cut_full(blocks.times, moments, lows, highs, capacity)
    windows = FiredRuns(lows, highs, ends, np.where(full, FULL, TIME).astype(np.int8), None)
    return windows.due(full | (ends <= clock), ends)


def _cut_full(
    times: NDArray[np.int64],
    moments: NDArray[np.int64],
    heads: NDArray[np.int64],
    stops: NDArray[np.int64],
    capacity: WindowCapacity,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Cut runs of events into windows by capacity; the last value tells which windows are full."""
    until = np.repeat(stops, stops - heads)
    following = capacity.limit(until)
    lows = _window_starts(heads, following, until)
    highs = following[lows]
    filled, crowded = capacity.full(lows, highs), highs < until[lows]
    comes = times[np.minimum(highs, len(times) - 1)]
    ends = np.where(filled, times[highs - 1], np.where(crowded, comes, moments[lows]))
    return lows, highs, ends, filled | crowded


def _both(one: FiredRuns, other: FiredRuns) -> FiredRuns:
    return FiredRuns(
        np.concatenate([one.lows, other.lows]),
        np.concatenate([one.highs, other.highs]),
        np.concatenate([one.ends, other.ends]),
        np.concatenate([one.causes, other.causes]),
        other.next_due,
    )


def _first_after(blocks: Blocks, micros: int) -> NDArray[np.int64]:
    """For each event, the index of the first event of its key that comes at least ``micros`` later."""
    times = blocks.times
    if not len(times):
        return np.zeros(0, np.int64)
    low = int(times.min())
    span = int(times.max()) - low + micros + 1
    numbers = np.repeat(np.arange(len(blocks.edges) - 1), np.diff(blocks.edges))
    if len(blocks.edges) * span < 1 << 62:
        places = numbers * span + (times - low)
        return np.searchsorted(places, places + micros)
    following = np.empty(len(times), np.int64)
    for start, stop in zip(blocks.edges[:-1].tolist(), blocks.edges[1:].tolist(), strict=True):
        key_times = times[start:stop]
        following[start:stop] = start + np.searchsorted(key_times, key_times + micros)
    return following


_MANY = 32
"""Minimum number of keys for which their next windows are computed as arrays."""


def _window_starts(
    heads: NDArray[np.int64], following: NDArray[np.int64], until: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Where windows begin: at the first event of each key, and wherever the previous window ends."""
    starts, heads_now = [], heads
    while len(heads_now) >= _MANY:
        starts.append(heads_now)
        after = following[heads_now]
        heads_now = after[after < until[heads_now]]
    remaining = []
    for head in heads_now.tolist():
        stop, start = int(until[head]), head
        while start < stop:
            remaining.append(start)
            start = following.item(start)
    return np.sort(np.concatenate([*starts, np.array(remaining, np.int64)]))
