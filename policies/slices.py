"""Slices: intervals of time that every aligned window holds either whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.eviction import TimeEvictionPolicy, WatermarkTimeEvictionPolicy
from policies.protocol import EvictionPolicy, TriggerPolicy
from policies.trigger import TimeTriggerPolicy, WatermarkTimeTriggerPolicy
from windowing.settings.bounds import Bounds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
        """The slices of aligned time windows; None for other policies, including subclasses."""
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
        """The number of the slice that holds each time; numbers increase with time."""
        since = times - (self.offset + (1 if self.bounds is Bounds.END else 0))
        slides = since // self.slide
        if self.first == self.slide:
            return slides
        return 2 * slides + (since - slides * self.slide >= self.first)

    def times(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The last microsecond of each slice: no event of the slice is later, so at this time all of them are
        settled."""
        last = self.offset - (0 if self.bounds is Bounds.END else 1)
        if self.first == self.slide:
            return (numbers + 1) * self.slide + last
        slides, second = numbers >> 1, numbers & 1
        return slides * self.slide + self.first + second * (self.slide - self.first) + last
