"""Capacity of windows of keys, by number of events and by bytes, decided on whole arrays.

A window is full when it holds the maximum number of events or exactly the maximum bytes, and fires with the event that
fills it. It fires before an event that would exceed the bytes, which opens the next window. An event larger than the
maximum fills a window of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from windowing.settings.triggers import Capacity

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class WindowCapacity:
    """The capacity of windows, and the size of each event; events are in order of (key, arrival)."""

    events: int | None
    bytes: int | None
    before: NDArray[np.int64]
    """Cumulative bytes: those of all events before each event, and of all events; one entry more than there are
    events."""

    @staticmethod
    def of(capacity: Capacity, sizes: NDArray[np.int64] | None) -> WindowCapacity:
        """The capacity that a bolt declares; ``sizes`` are the bytes of each event, None where bytes do not matter."""
        if sizes is None:
            return WindowCapacity(capacity.events, None, np.zeros(1, np.int64))
        return WindowCapacity(capacity.events, capacity.bytes, np.concatenate([[0], np.cumsum(sizes)]))

    def reached(self, edges: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which blocks between the edges hold enough events or bytes to fill a window."""
        enough = np.zeros(len(edges) - 1, np.bool_)
        if self.events is not None:
            enough |= np.diff(edges) >= self.events
        if self.bytes is not None:
            enough |= np.diff(self.before[edges]) >= self.bytes
        return enough

    @cached_property
    def following(self) -> NDArray[np.int64]:
        """For each event, the first event that a window starting there cannot hold by its bytes, across keys."""
        return self._next(np.arange(len(self.before) - 1)) if self.bytes is not None else np.zeros(0, np.int64)

    def limit(self, following: NDArray[np.int64]) -> NDArray[np.int64]:
        """Limit the ends of windows, one per starting event, to the capacity."""
        if self.events is not None:
            following = np.minimum(following, np.arange(len(following)) + self.events)
        return following if self.bytes is None else np.minimum(following, self.following)

    def full(self, lows: NDArray[np.int64], highs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which windows are full with their last event."""
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
        """A window that holds the events of one key from ``low`` up to ``high``."""
        self._events, self._bytes, self._before = capacity.events, capacity.bytes, capacity.before
        self._held, self._used = (
            high - low,
            0 if capacity.bytes is None else int(capacity.before[high] - capacity.before[low]),
        )

    def fits(self, event: int) -> bool:
        """Whether the event at an index fits into the window; the first event always does."""
        return not self._held or self._bytes is None or self._used + self._size(event) <= self._bytes

    def join(self, event: int) -> bool:
        """Add the event at an index to the window; returns whether the window is full."""
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
