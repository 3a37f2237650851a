"""Slices: stretches of time that every aligned window holds whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.eviction import EvictionPolicy, TimeEvictionPolicy, WatermarkTimeEvictionPolicy
from policies.trigger import TimeTriggerPolicy, TriggerPolicy, WatermarkTimeTriggerPolicy
from windowing.bounds import Bounds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_EVICTIONS = (TimeEvictionPolicy, WatermarkTimeEvictionPolicy)
_TRIGGERS = (TimeTriggerPolicy, WatermarkTimeTriggerPolicy)


@dataclass(frozen=True)
class Slices:
    """Time cut wherever a window starts or ends: at most two slices per slide, however odd the length is.

    All times and lengths are in microseconds.
    """

    slide: int
    first: int
    """The length of the first slice of a slide; the second is what is left, if anything is."""
    offset: int
    """Where a slide begins."""
    bounds: Bounds

    @staticmethod
    def of(eviction: EvictionPolicy, trigger: TriggerPolicy) -> Slices | None:
        """The slices of windows that are runs of time at multiples of the slide; None for others."""
        if type(eviction) not in _EVICTIONS or type(trigger) not in _TRIGGERS:
            return None  # a subclass may draw other windows
        assert isinstance(eviction, TimeEvictionPolicy)
        assert isinstance(trigger, TimeTriggerPolicy)
        if eviction.bounds is not trigger.bounds:
            return None
        slide = trigger.slide.micros
        return Slices(slide, -eviction.length.micros % slide or slide, trigger.offset.micros, trigger.bounds)

    def numbers(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """The slice that each time lies in; numbers grow with time."""
        since = times - (self.offset + (1 if self.bounds is Bounds.END else 0))
        slides = since // self.slide
        if self.first == self.slide:
            return slides
        return 2 * slides + (since - slides * self.slide >= self.first)

    def times(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The last microsecond of each slice: no event of it is later, so it is settled when all of them are."""
        last = self.offset - (0 if self.bounds is Bounds.END else 1)
        if self.first == self.slide:
            return (numbers + 1) * self.slide + last
        slides, second = numbers >> 1, numbers & 1
        return slides * self.slide + self.first + second * (self.slide - self.first) + last
