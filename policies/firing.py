"""Firing of the windows of keys by count, capacity, timeout or time of day, computed on arrays (UH-14, UH-15,
UH-20)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from windowing.daytimes import DayTime, next_moments
from windowing.settings.triggers import Capacity, CountTrigger, FiredBy, RuleTrigger
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Capacity of windows.
#
# A window is full when it holds the maximum number of events or exactly the maximum number of bytes; it then fires with
# the event that fills it. It also fires before an event that would exceed the maximum number of bytes; this event opens
# the next window. An event with more bytes than the maximum has a window for itself.


@dataclass(frozen=True)
class WindowCapacity:
    """The capacity of windows, and the sizes of events in order of (key, arrival)."""

    events: int | None
    """Greatest number of events in a window; None: no limit."""
    bytes: int | None
    """Greatest number of bytes in a window; None: no limit."""
    bytes_before: NDArray[np.int64]
    """Number of bytes of all events before each event; last, of all events."""

    @staticmethod
    def of(capacity: Capacity, sizes: NDArray[np.int64] | None) -> WindowCapacity:
        """Returns the declared capacity with the sizes of events in bytes; None if bytes are not limited."""
        if sizes is None:
            return WindowCapacity(capacity.events, None, np.zeros(1, np.int64))
        return WindowCapacity(capacity.events, capacity.bytes, np.concatenate([[0], np.cumsum(sizes)]))

    def can_fill(self, edges: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns a mask of the ranges of events between successive ``edges`` that can fill a window."""
        enough = np.zeros(len(edges) - 1, np.bool_)
        if self.events is not None:
            enough |= np.diff(edges) >= self.events
        if self.bytes is not None:
            enough |= np.diff(self.bytes_before[edges]) >= self.bytes
        return enough

    @cached_property
    def first_not_fitting(self) -> NDArray[np.int64]:
        """For each event, the index of the first later event whose bytes do not fit into a window that starts at the
        event; keys are ignored."""
        if self.bytes is None:
            return np.zeros(0, np.int64)
        return self._first_not_fitting_at(np.arange(len(self.bytes_before) - 1))

    def limit(self, stops: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the stops of windows, limited by the capacity. ``stops``: for each event, the stop of a window that
        starts there."""
        if self.events is not None:
            stops = np.minimum(stops, np.arange(len(stops)) + self.events)
        return stops if self.bytes is None else np.minimum(stops, self.first_not_fitting)

    def is_full(self, lows: NDArray[np.int64], highs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns a mask of the windows, from ``lows`` to ``highs``, exclusive, that are full."""
        filled = np.zeros(len(lows), np.bool_)
        if self.events is not None:
            filled |= highs - lows >= self.events
        if self.bytes is not None:
            filled |= self.bytes_before[highs] - self.bytes_before[lows] >= self.bytes
        return filled

    def full_windows(self, low: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Divide the events of one key, from ``low`` to ``stop``, into full windows; the events after the last of these
        are left. Yields, for each window, its first event, its stop, and the event with which it fires."""
        while low < stop:
            high = stop if self.events is None else min(low + self.events, stop)
            if self.bytes is not None:
                high = min(high, int(self._first_not_fitting_at(np.array([low]))[0]))
            if self.is_full(np.array([low]), np.array([high]))[0]:
                yield low, high, high - 1
            elif high < stop:
                yield low, high, high
            else:
                return
            low = high

    def _first_not_fitting_at(self, lows: NDArray[np.int64]) -> NDArray[np.int64]:
        most = self.bytes_before[lows] + np.int64(self.bytes or 0)
        event = np.minimum(np.searchsorted(self.bytes_before, most), len(self.bytes_before) - 1)
        return np.where(self.bytes_before[event] > most, np.maximum(event - 1, lows + 1), event)


class FillLevel:
    """The number of events and bytes in one window, updated event by event."""

    __slots__ = ("_bytes", "_bytes_before", "_bytes_held", "_events", "_events_held")

    def __init__(self, capacity: WindowCapacity, low: int, high: int) -> None:
        """``low``, ``high``: the window holds the events from ``low`` to ``high``, exclusive."""
        self._events, self._bytes, self._bytes_before = capacity.events, capacity.bytes, capacity.bytes_before
        self._events_held, self._bytes_held = (
            high - low,
            0 if capacity.bytes is None else int(capacity.bytes_before[high] - capacity.bytes_before[low]),
        )

    def fits(self, event: int) -> bool:
        """True if the event at an index fits into the window; it always fits into an empty window."""
        return not self._events_held or self._bytes is None or self._bytes_held + self._size(event) <= self._bytes

    def add(self, event: int) -> bool:
        """Add the event at an index to the window. Returns True if the window is then full."""
        self._events_held += 1
        if self._bytes is not None:
            self._bytes_held += self._size(event)
            if self._bytes_held >= self._bytes:
                return True
        return self._events is not None and self._events_held >= self._events

    def clear(self) -> None:
        """Remove all events from the window."""
        self._events_held = self._bytes_held = 0

    def _size(self, event: int) -> int:
        return int(self._bytes_before[event + 1] - self._bytes_before[event])


class _NeverFull(FillLevel):
    """The fill level of a window without limits."""

    def __init__(self) -> None:
        pass

    def fits(self, event: int) -> bool:
        return True

    def add(self, event: int) -> bool:
        return False

    def clear(self) -> None:
        pass


NEVER_FULL: Final[FillLevel] = _NeverFull()


# Windows by count, timeout and time of day.
#
# Events are in order of (key, arrival); a window holds contiguous events of one key. All times are in microseconds.


CAUSE_BY_CODE = tuple(FiredBy)
"""The reason for firing that each code in an array of causes stands for."""

COUNT, RULE, TIMEOUT, TIME, CLOSE, FULL = (
    CAUSE_BY_CODE.index(each)
    for each in (FiredBy.COUNT, FiredBy.RULE, FiredBy.TIMEOUT, FiredBy.TIME, FiredBy.CLOSE, FiredBy.FULL)
)


@dataclass(frozen=True)
class EventsByKey:
    """Events in order of (key, arrival)."""

    times: NDArray[np.int64]
    """Arrival time of each event; ascending within a key."""
    edges: NDArray[np.int64]
    """Bounds of keys: key ``i`` has the events from ``edges[i]`` to ``edges[i + 1]``, exclusive."""

    @property
    def key_stops(self) -> NDArray[np.int64]:
        """For each event, the index after the last event of its key."""
        return np.repeat(self.edges[1:], np.diff(self.edges))


@dataclass(frozen=True)
class FiredRuns:
    """Windows that fire and are purged."""

    lows: NDArray[np.int64]
    """Index of the first event of each window."""
    highs: NDArray[np.int64]
    """Index after the last event of each window."""
    ends: NDArray[np.int64]
    """End of each window."""
    causes: NDArray[np.int8]
    """The code of each window's reason for firing, an index into ``CAUSE_BY_CODE``."""
    next_due: int | None
    """The clock at which the first window that stays open is due; None if the clock fires none."""

    def only_due(self, is_due: NDArray[np.bool_], clocks: NDArray[np.int64]) -> FiredRuns:
        """Returns the windows in the mask ``is_due``; the others stay open. ``clocks``: the clock at which each window
        is due."""
        waiting = clocks[~is_due]
        next_due = int(waiting.min()) if len(waiting) else None
        return FiredRuns(self.lows[is_due], self.highs[is_due], self.ends[is_due], self.causes[is_due], next_due)


@dataclass(frozen=True)
class Timeout:
    """The timeout of a window (UH-15)."""

    micros: int | None
    """The timeout in microseconds; None: no timeout."""
    from_first: bool
    """True if the timeout runs from the first event, False if it runs from the last event."""

    @staticmethod
    def of(trigger: CountTrigger | RuleTrigger) -> Timeout:
        """Returns the timeout of a trigger."""
        return Timeout(None if trigger.timeout is None else trigger.timeout.micros, trigger.from_first)

    def timed_out(self, first: Any, last: Any, now: Any) -> Any:
        """True if the timeout has passed before an event at ``now``, by the times of the window's first and last event;
        for arrays of times a mask.

        An event exactly at the timeout is too late if the timeout runs from the first event, and in time if it runs
        from the last event (UH-12).
        """
        if self.micros is None:
            return False
        if self.from_first:
            return now >= first + self.micros
        return now > last + self.micros

    def end(self, first: int, last: int) -> int:
        """Returns the end of a window that times out; the time of its last event if there is no timeout."""
        if self.micros is None:
            return last
        return (first if self.from_first else last) + self.micros

    def due(self, first: int, last: int) -> int | None:
        """Returns the clock from which a window is due if no event comes; None if there is no timeout."""
        return None if self.micros is None else self.end(first, last) + (not self.from_first)


def fire_open(events: EventsByKey, lows: NDArray[np.int64], timeout: Timeout, clock: int) -> FiredRuns:
    """Fire the open windows that are due at the clock; each holds the events of a key from an index in ``lows`` on."""
    highs = events.key_stops[lows]
    firsts, lasts = events.times[lows], events.times[highs - 1]
    if timeout.micros is None:
        due = np.full(len(lows), clock == FOREVER)
        return FiredRuns(lows[due], highs[due], lasts[due], np.full(int(due.sum()), CLOSE, np.int8), None)
    ends = (firsts if timeout.from_first else lasts) + timeout.micros
    due_at = ends + (not timeout.from_first)
    windows = FiredRuns(lows, highs, ends, np.full(len(lows), TIMEOUT, np.int8), None)
    return windows.only_due(due_at <= clock, due_at)


def fire_counted(
    events: EventsByKey, trigger: CountTrigger, clock: int, capacity: WindowCapacity | None = None
) -> FiredRuns:
    """Returns the windows that fire up to a clock by a count or timeout (UH-14, UH-15).

    ``capacity``: the capacity of windows; None if no window reaches it.
    """
    times, key_stops, size = events.times, events.key_stops, trigger.count.value
    timeout = Timeout.of(trigger)
    window_stops = np.minimum(np.arange(len(times)) + size, key_stops)
    if timeout.micros is not None:
        is_apart = np.diff(times) > timeout.micros
        break_indices = np.append(np.flatnonzero(is_apart) + 1, len(times))
        window_stops = np.minimum(
            window_stops, break_indices[np.searchsorted(break_indices, np.arange(len(times)), side="right")]
        )
        if timeout.from_first:
            window_stops = np.minimum(window_stops, _first_after(events, timeout.micros))
    if capacity is not None:
        window_stops = capacity.limit(window_stops)
    lows = _window_starts(events.edges[:-1], window_stops, key_stops)
    highs = window_stops[lows]
    counted = highs - lows == size
    fires = counted | (highs < key_stops[lows])
    if capacity is not None:
        fires |= capacity.is_full(lows, highs)
    fired_lows, fired_highs, counted = lows[fires], highs[fires], counted[fires]
    firsts, lasts = times[fired_lows], times[fired_highs - 1]
    timeout_ends = (firsts if timeout.from_first else lasts) + (timeout.micros or 0)
    ends, causes = np.where(counted, lasts, timeout_ends), np.where(counted, COUNT, TIMEOUT).astype(np.int8)
    if capacity is not None:
        filled = capacity.is_full(fired_lows, fired_highs) & ~counted
        next_event_time = times[np.minimum(fired_highs, len(times) - 1)]  # the event that did not fit
        did_not_fit = ~(counted | filled | timeout.timed_out(firsts, lasts, next_event_time))
        ends = np.where(filled, lasts, np.where(did_not_fit, next_event_time, ends))
        causes = np.where(filled | did_not_fit, np.int8(FULL), causes)
    fired = FiredRuns(fired_lows, fired_highs, ends, causes, None)
    return _concatenate(fired, fire_open(events, lows[~fires], timeout, clock))


def fire_daily(events: EventsByKey, day: DayTime, clock: int, capacity: WindowCapacity | None = None) -> FiredRuns:
    """Returns the windows that fire up to a clock at a time of day (UH-20); ``capacity`` as in ``fire_counted``."""
    # An event exactly at the time of day is in the next window.
    window_ends, key_stops = next_moments(day, events.times), events.key_stops
    begins_window = np.ones(len(window_ends), np.bool_)
    begins_window[1:] = (window_ends[1:] != window_ends[:-1]) | (key_stops[1:] != key_stops[:-1])
    lows = np.flatnonzero(begins_window)
    highs = np.append(lows[1:], len(window_ends))
    if capacity is None:
        ends, is_full = window_ends[lows], np.zeros(len(lows), np.bool_)
    else:
        lows, highs, ends, is_full = _divide_by_capacity(events.times, window_ends, lows, highs, capacity)
    windows = FiredRuns(lows, highs, ends, np.where(is_full, FULL, TIME).astype(np.int8), None)
    return windows.only_due(is_full | (ends <= clock), ends)


def _divide_by_capacity(
    times: NDArray[np.int64],
    window_ends: NDArray[np.int64],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    capacity: WindowCapacity,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Divide windows, from ``starts`` to ``stops``, by the capacity. Returns the first event, the stop and the end of
    each window, and a mask of the full windows. ``window_ends``: for each event, the end of its undivided window."""
    undivided_stops = np.repeat(stops, stops - starts)
    window_stops = capacity.limit(undivided_stops)
    lows = _window_starts(starts, window_stops, undivided_stops)
    highs = window_stops[lows]
    filled, did_not_fit = capacity.is_full(lows, highs), highs < undivided_stops[lows]
    next_event_time = times[np.minimum(highs, len(times) - 1)]
    ends = np.where(filled, times[highs - 1], np.where(did_not_fit, next_event_time, window_ends[lows]))
    return lows, highs, ends, filled | did_not_fit


def _concatenate(one: FiredRuns, other: FiredRuns) -> FiredRuns:
    return FiredRuns(
        np.concatenate([one.lows, other.lows]),
        np.concatenate([one.highs, other.highs]),
        np.concatenate([one.ends, other.ends]),
        np.concatenate([one.causes, other.causes]),
        other.next_due,
    )


def _first_after(events: EventsByKey, micros: int) -> NDArray[np.int64]:
    """Returns, for each event, the index of the first event of its key that comes at least ``micros`` later, or the
    index after its last event."""
    times = events.times
    if not len(times):
        return np.zeros(0, np.int64)
    low = int(times.min())
    span = int(times.max()) - low + micros + 1
    key_numbers = np.repeat(np.arange(len(events.edges) - 1), np.diff(events.edges))
    if len(events.edges) * span < 1 << 62:
        shifted_times = key_numbers * span + (times - low)
        return np.searchsorted(shifted_times, shifted_times + micros)
    first_after = np.empty(len(times), np.int64)
    for start, stop in zip(events.edges[:-1].tolist(), events.edges[1:].tolist(), strict=True):
        key_times = times[start:stop]
        first_after[start:stop] = start + np.searchsorted(key_times, key_times + micros)
    return first_after


_LEAST_TOGETHER = 32
"""Least number of keys whose next windows are computed together, on arrays."""


def _window_starts(
    first_starts: NDArray[np.int64], window_stops: NDArray[np.int64], group_stops: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Returns the first event of each window. In each key, the next window starts where the one before it stops.
    ``first_starts``: the first event of each key. ``window_stops``: for each event, the stop of a window that starts
    there. ``group_stops``: for each event, the stop of its key.
    """
    starts, next_starts = [], first_starts
    while len(next_starts) >= _LEAST_TOGETHER:
        starts.append(next_starts)
        following = window_stops[next_starts]
        next_starts = following[following < group_stops[next_starts]]
    remaining = []
    for head in next_starts.tolist():
        stop, start = int(group_stops[head]), head
        while start < stop:
            remaining.append(start)
            start = window_stops.item(start)
    return np.sort(np.concatenate([*starts, np.array(remaining, np.int64)]))
