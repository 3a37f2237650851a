"""How much of the events of keys goes into one window: by their number and by their bytes, decided on whole arrays.

A window is full when it holds so many events or just so many bytes, and fires with the event that fills it. It fires
before an event with which it would hold more bytes, which opens the next one. An event larger than all fills its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from windowing.triggers import Capacity

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Room:
    """How much windows may hold, and what each event takes of it; events in order of (key, arrival)."""

    events: int | None
    bytes: int | None
    before: NDArray[np.int64]
    """The bytes of all events before each, and of all: one more than there are events."""

    @staticmethod
    def of(capacity: Capacity, sizes: NDArray[np.int64] | None) -> Room:
        """``sizes``: the bytes of each event; None where they do not matter."""
        if sizes is None:
            return Room(capacity.events, None, np.zeros(1, np.int64))
        return Room(capacity.events, capacity.bytes, np.concatenate([[0], np.cumsum(sizes)]))

    def reached(self, edges: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the blocks between the edges hold as much as a window may, or more."""
        enough = np.zeros(len(edges) - 1, np.bool_)
        if self.events is not None:
            enough |= np.diff(edges) >= self.events
        if self.bytes is not None:
            enough |= np.diff(self.before[edges]) >= self.bytes
        return enough

    @cached_property
    def following(self) -> NDArray[np.int64]:
        """For each event, the first one that a window which begins there does not hold, whatever keys they have."""
        return self._next(np.arange(len(self.before) - 1)) if self.bytes is not None else np.zeros(0, np.int64)

    def limit(self, following: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where windows end, if they are no larger than there is room for."""
        if self.events is not None:
            following = np.minimum(following, np.arange(len(following)) + self.events)
        return following if self.bytes is None else np.minimum(following, self.following)

    def full(self, lows: NDArray[np.int64], highs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which windows their last event has filled."""
        filled = np.zeros(len(lows), np.bool_)
        if self.events is not None:
            filled |= highs - lows >= self.events
        if self.bytes is not None:
            filled |= self.before[highs] - self.before[lows] >= self.bytes
        return filled

    def parts(self, low: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """The windows that events of one key fill: where each begins and ends, and at which event it fires."""
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
    """One window, event by event: how full it is."""

    __slots__ = ("_before", "_bytes", "_events", "_held", "_used")

    def __init__(self, room: Room, low: int, high: int) -> None:
        """A window that holds the events of one key from ``low`` to ``high``."""
        self._events, self._bytes, self._before = room.events, room.bytes, room.before
        self._held, self._used = high - low, 0 if room.bytes is None else int(room.before[high] - room.before[low])

    def fits(self, event: int) -> bool:
        """Whether the event at a place fits in; the first one of a window always does."""
        return not self._held or self._bytes is None or self._used + self._size(event) <= self._bytes

    def join(self, event: int) -> bool:
        """The event is in the window; whether it has filled it."""
        self._held += 1
        if self._bytes is not None:
            self._used += self._size(event)
            if self._used >= self._bytes:
                return True
        return self._events is not None and self._held >= self._events

    def clear(self) -> None:
        """The window is cleared."""
        self._held = self._used = 0

    def _size(self, event: int) -> int:
        return int(self._before[event + 1] - self._before[event])


class _NeverFull(Filling):
    """Of windows that are far from their bounds, or have none."""

    def __init__(self) -> None:
        pass

    def fits(self, event: int) -> bool:
        return True

    def join(self, event: int) -> bool:
        return False

    def clear(self) -> None:
        pass


NEVER_FULL: Final[Filling] = _NeverFull()
