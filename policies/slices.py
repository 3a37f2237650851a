"""Arithmetic of aligned windows: slices that each window holds whole or not at all, and the last window of an event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from policies.admission import LastEnd
from policies.eviction import TimeEvictionPolicy, WatermarkTimeEvictionPolicy
from policies.protocol import EvictionPolicy, TriggerPolicy, is_own
from policies.trigger import TimeTriggerPolicy, WatermarkTimeTriggerPolicy
from windowing.settings.rules import Bounds
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Slices: intervals of time that every aligned window holds either whole or not at all.


_EVICTIONS = (TimeEvictionPolicy, WatermarkTimeEvictionPolicy)
_TRIGGERS = (TimeTriggerPolicy, WatermarkTimeTriggerPolicy)


@dataclass(frozen=True, kw_only=True)
class SliceGrid:
    """Time cut wherever a window starts or ends: at most two slices per slide, whatever the length is.

    All times and lengths are in microseconds.
    """

    slide: int
    first: int
    """Length of the first slice of a slide; the second, if any, is the rest."""
    offset: int
    """Offset of the start of a slide."""
    bounds: Bounds

    @staticmethod
    def of(eviction: EvictionPolicy, trigger: TriggerPolicy) -> SliceGrid | None:
        """Returns the slices of aligned time windows; None for other policies, including subclasses."""
        if type(eviction) not in _EVICTIONS or type(trigger) not in _TRIGGERS:
            return None  # a subclass may form other windows
        assert isinstance(eviction, TimeEvictionPolicy)
        assert isinstance(trigger, TimeTriggerPolicy)
        if eviction.bounds is not trigger.bounds:
            return None
        slide = trigger.slide.micros
        return SliceGrid(
            slide=slide,
            first=-eviction.length.micros % slide or slide,
            offset=trigger.offset.micros,
            bounds=trigger.bounds,
        )

    def numbers(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the number of the slice that holds each time; numbers increase with time."""
        since = times - (self.offset + (1 if self.bounds is Bounds.END else 0))
        slides = since // self.slide
        if self.first == self.slide:
            return slides
        return 2 * slides + (since - slides * self.slide >= self.first)

    def times(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the last microsecond of each slice: no event of the slice is later, so at this time all of them are
        settled."""
        last = self.offset - (0 if self.bounds is Bounds.END else 1)
        if self.first == self.slide:
            return (numbers + 1) * self.slide + last
        slides, second = numbers >> 1, numbers & 1
        return slides * self.slide + self.first + second * (self.slide - self.first) + last


# The end of the last window of a queue that can hold an event, and the gaps between windows that do not touch.


def last_window_end(eviction: EvictionPolicy | None, trigger: TriggerPolicy | None) -> LastEnd | None:
    """Returns the end of the last window that can hold an event, of windows of a length in time at every slide.

    None where that does not follow from the event alone: there are no such windows.
    """
    if not isinstance(eviction, TimeEvictionPolicy) or not isinstance(trigger, TimeTriggerPolicy):
        return None
    if is_own(eviction) or is_own(trigger):
        return None
    length, slide, offset, bounds = eviction.reach.micros, trigger.slide.micros, trigger.offset.micros, trigger.bounds
    return lambda starts, ends: bounds.last_end(starts, length, slide, offset)


def in_gap(eviction: EvictionPolicy, trigger: TriggerPolicy, timestamps: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Returns which of these times (int64 microseconds) no window can hold: those between windows that do not touch
    (AT-4), and FOREVER.

    None where there are no such times, or the user's own trigger may fire anywhere.
    """
    if not isinstance(eviction, TimeEvictionPolicy) or not isinstance(trigger, TimeTriggerPolicy):
        return None
    if is_own(eviction) or is_own(trigger) or not len(timestamps):
        return None
    length, slide, offset = eviction.reach.micros, trigger.slide.micros, trigger.offset.micros
    endless = timestamps == FOREVER if timestamps.max() == FOREVER else None
    if slide <= length:
        return endless
    known = timestamps if endless is None else np.where(endless, 0, timestamps)
    first = trigger.bounds.first_end(known, slide, offset)
    between: NDArray[np.bool_] = trigger.bounds.last_end(known, length, slide, offset) < first
    return between if endless is None else between | endless
