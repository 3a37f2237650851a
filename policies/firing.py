"""Firing of keys' windows by count, capacity, timeout or time of day: decided on whole arrays (UH-14, UH-15, UH-20)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from windowing.daytimes import DayTime, next_of
from windowing.settings.triggers import Capacity, CountTrigger, FiredBy, RuleTrigger
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Capacity of windows of keys, by number of events and by bytes, decided on whole arrays.
#
# A window is full when it holds the maximum number of events or exactly the maximum bytes, and fires with the event
# that fills it. It fires before an event that would exceed the bytes, which opens the next window. An event larger
# than the maximum fills a window of its own.


@dataclass(frozen=True)
class WindowCapacity:
    """The capacity of windows, and the size of each event; events are in order of (key, arrival)."""

    events: int | None
    bytes: int | None
    before: NDArray[np.int64]
    """Cumulative bytes: of all events before each event, and of all events; one entry more than there are events."""

    @staticmethod
    def of(capacity: Capacity, sizes: NDArray[np.int64] | None) -> WindowCapacity:
        """Returns the capacity that a bolt declares; ``sizes`` are the bytes of each event, None if bytes do not
        matter."""
        if sizes is None:
            return WindowCapacity(capacity.events, None, np.zeros(1, np.int64))
        return WindowCapacity(capacity.events, capacity.bytes, np.concatenate([[0], np.cumsum(sizes)]))

    def reached(self, edges: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns which blocks between the edges hold enough events or bytes to fill a window."""
        enough = np.zeros(len(edges) - 1, np.bool_)
        if self.events is not None:
            enough |= np.diff(edges) >= self.events
        if self.bytes is not None:
            enough |= np.diff(self.before[edges]) >= self.bytes
        return enough

    @cached_property
    def following(self) -> NDArray[np.int64]:
        """Returns, for each event, the first event that a window starting there cannot hold by its bytes, across
        keys."""
        return self._next(np.arange(len(self.before) - 1)) if self.bytes is not None else np.zeros(0, np.int64)

    def limit(self, following: NDArray[np.int64]) -> NDArray[np.int64]:
        """Limit the ends of windows, one per starting event, to the capacity."""
        if self.events is not None:
            following = np.minimum(following, np.arange(len(following)) + self.events)
        return following if self.bytes is None else np.minimum(following, self.following)

    def full(self, lows: NDArray[np.int64], highs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns which windows are full with their last event."""
        filled = np.zeros(len(lows), np.bool_)
        if self.events is not None:
            filled |= highs - lows >= self.events
        if self.bytes is not None:
            filled |= self.before[highs] - self.before[lows] >= self.bytes
        return filled

    def parts(self, low: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Yield (start, stop, event at which it fires) of each window that the events of one key fill."""
        while low < stop:
            high = stop if self.events is None else min(low + self.events, stop)
            if self.bytes is not None:
                high = min(high, int(self._next(np.array([low]))[0]))
            if self.full(np.array([low]), np.array([high]))[0]:
                yield low, high, high - 1
            elif high < stop:
                yield low, high, high
            else:
                return
            low = high

    def _next(self, lows: NDArray[np.int64]) -> NDArray[np.int64]:
        wanted = self.before[lows] + np.int64(self.bytes or 0)
        event = np.minimum(np.searchsorted(self.before, wanted), len(self.before) - 1)
        return np.where(self.before[event] > wanted, np.maximum(event - 1, lows + 1), event)


class Filling:
    """The fill level of one window, updated event by event."""

    __slots__ = ("_before", "_bytes", "_events", "_held", "_used")

    def __init__(self, capacity: WindowCapacity, low: int, high: int) -> None:
        """Makes a window that holds the events of one key from ``low`` up to ``high``."""
        self._events, self._bytes, self._before = capacity.events, capacity.bytes, capacity.before
        self._held, self._used = (
            high - low,
            0 if capacity.bytes is None else int(capacity.before[high] - capacity.before[low]),
        )

    def fits(self, event: int) -> bool:
        """True if the event at an index fits into the window; the first event always does."""
        return not self._held or self._bytes is None or self._used + self._size(event) <= self._bytes

    def join(self, event: int) -> bool:
        """Add the event at an index to the window; returns True if the window is full."""
        self._held += 1
        if self._bytes is not None:
            self._used += self._size(event)
            if self._used >= self._bytes:
                return True
        return self._events is not None and self._held >= self._events

    def clear(self) -> None:
        """Empty the window."""
        self._held = self._used = 0

    def _size(self, event: int) -> int:
        return int(self._before[event + 1] - self._before[event])


class _NeverFull(Filling):
    """The fill level of a window that cannot become full."""

    def __init__(self) -> None:
        pass

    def fits(self, event: int) -> bool:
        return True

    def join(self, event: int) -> bool:
        return False

    def clear(self) -> None:
        pass


NEVER_FULL: Final[Filling] = _NeverFull()


# When windows of keys fire by a count, a timeout or a time of day: decided on whole arrays (UH-14, UH-15, UH-20).
#
# Events are in order of (key, arrival); a window is a run of events of one key. All times are in microseconds.


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
        """Returns, for each event, the index at which the events of its key end."""
        return np.repeat(self.edges[1:], np.diff(self.edges))


@dataclass(frozen=True)
class FiredRuns:
    """Windows that fire and are purged: they hold the events from ``lows`` to ``highs``."""

    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    ends: NDArray[np.int64]
    causes: NDArray[np.int8]
    next_due: int | None
    """The clock at which the next open window is due; None if no clock fires one."""

    def due(self, which: NDArray[np.bool_], when: NDArray[np.int64]) -> FiredRuns:
        """Returns the windows in the mask ``which``. ``when`` is the clock at which each window is due; the earliest of
        the others becomes ``next_due``."""
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
        """Returns the timeout of a trigger."""
        return Timeout(None if trigger.timeout is None else trigger.timeout.micros, trigger.from_first)

    def timed_out(self, first: Any, last: Any, now: Any) -> Any:
        """True if the timeout has passed before an event that comes now; works on times and on arrays of times.

        An event exactly at the timeout comes too late if the timeout counts from the first event, and in time if it
        counts from the last one (UH-12).
        """
        if self.micros is None:
            return False
        if self.from_first:  # which is never later than that after the last
            return now >= first + self.micros
        return now > last + self.micros

    def end(self, first: int, last: int) -> int:
        """Returns the end of a window that times out; the time of its last event if there is no timeout."""
        if self.micros is None:
            return last
        return (first if self.from_first else last) + self.micros

    def due(self, first: int, last: int) -> int | None:
        """Returns the clock from which the window is due if no event comes; None if there is no timeout."""
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
    """Returns the windows fired up to a clock by a count or its timeout (UH-14, UH-15).

    ``capacity`` is the capacity of windows; None if no window reaches it.
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
    """Returns the windows fired up to a clock by a time of day (UH-20); ``capacity`` as in ``fire_counted``."""
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
    """Returns, for each event, the index of the first event of its key that comes at least ``micros`` later."""
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
    """Returns where windows begin: at the first event of each key, and wherever the previous window ends."""
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
