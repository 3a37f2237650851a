"""Aligned windows as the table of arrivals lists them: those that hold a moment, those that are open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windowing.settings import WindowSettings
from windowing.settings.bounds import Bounds
from windowing.settings.rules import Aligned
from windowing.time.durations import Duration


@dataclass(frozen=True)
class WindowGrid:
    """Aligned windows; all times in microseconds."""

    bounds: Bounds
    length: int
    slide: int
    offset: int
    origin: int | None
    """The moment before which none begins; None where there is none."""

    @staticmethod
    def of(rules: WindowSettings, first_clock: int) -> WindowGrid | None:
        """The aligned windows of a bolt; None where its windows are others. ``first_clock``: of the run, in
        microseconds."""
        if rules.kinds or not isinstance(rules.length, Duration) or not isinstance(rules.slide, Duration):
            return None
        if rules.lifetime is not None:
            return None
        length, slide, offset = rules.length.micros, rules.slide.micros, rules.offset.micros
        if rules.anchor is None:
            offset += length if rules.aligned is Aligned.STARTS else 0
            return WindowGrid(rules.bounds, length, slide, offset, None)
        origin = rules.anchor if isinstance(rules.anchor, int) else first_clock
        origin += offset % slide
        return WindowGrid(rules.bounds, length, slide, origin + length, origin)

    def holding(self, at: int) -> list[tuple[int, int]]:
        """The windows that hold a moment, by start and end."""
        one = np.array([at], np.int64)
        first = int(self.bounds.first_end(one, self.slide, self.offset)[0])
        last = int(self.bounds.last_end(one, self.length, self.slide, self.offset)[0])
        return self._between(first, last)

    def open(self, over: int, watermark: int) -> list[tuple[int, int]]:
        """The windows that have begun by the watermark, except for those that end by ``over``."""
        first = (over - self.offset) // self.slide * self.slide + self.slide + self.offset
        last = (watermark + self.length - self.offset) // self.slide * self.slide + self.offset
        return self._between(first, last)

    def _between(self, first: int, last: int) -> list[tuple[int, int]]:
        """The windows that end from ``first`` to ``last``, as far as there are any."""
        found = [(end - self.length, end) for end in range(first, last + 1, self.slide)]
        return [window for window in found if self.origin is None or window[0] >= self.origin]
