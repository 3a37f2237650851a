"""Which end of a window belongs to it: the one place that knows. Other code asks, and never compares itself."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Bounds(Enum):
    """Which of its two ends a window of time holds (``with_alignment(bounds=...)``)."""

    END = "(start, end]"
    """Storm's and Azure's (ST-10, AZ-19): an event at the end belongs to the window, one at the start does not."""

    START = "[start, end)"
    """Atlas's, StreamInsight's and Flink's (AT-1): the other way round."""

    def holds(self, start: int, end: int, timestamp: int) -> bool:
        """Whether the window from ``start`` to ``end`` holds an event of this time (all in microseconds)."""
        return start < timestamp <= end if self is Bounds.END else start <= timestamp < end

    def among(self, timestamps: NDArray[np.int64], start: int, end: int) -> NDArray[np.bool_]:
        """Which of these events the window from ``start`` to ``end`` holds."""
        if self is Bounds.END:
            return (timestamps > start) & (timestamps <= end)
        return (timestamps >= start) & (timestamps < end)

    def first_end(self, timestamps: NDArray[np.int64], slide: int, offset: int) -> NDArray[np.int64]:
        """The earliest aligned end whose window may hold each event: the first multiple of the slide not before it."""
        shifted = timestamps - offset
        if self is Bounds.END:
            return -((-shifted) // slide) * slide + offset
        return (shifted // slide + 1) * slide + offset

    def last_end(self, timestamps: NDArray[np.int64], length: int, slide: int, offset: int) -> NDArray[np.int64]:
        """The latest aligned end whose window of this length still holds each event.

        It lies before ``first_end`` when the slide is longer than the length and the event falls in the gap.
        """
        reach = timestamps + length - offset - (1 if self is Bounds.END else 0)
        return reach // slide * slide + offset

    def up_to(self, timestamps: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many of the sorted timestamps lie before the end of each window; also where each window starts."""
        return np.searchsorted(timestamps, ends, side="right" if self is Bounds.END else "left")
