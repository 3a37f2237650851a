"""The axis of event time in pixels; stretches in which nothing happens are cut out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from topologies.scenarios.terminal_drawing.axis_cuts import cuts_of
from topologies.scenarios.terminal_drawing.axis_times import AxisTimes
from windowing.time.timestamps import FOREVER

BREAK, MARGIN, LABEL = 26, 18, 92
"""Pixels: the width of a cut, the room at both ends, and the least distance of two labels."""
_LEAST, _NARROWEST, _WIDEST, _WINDOW = 40, 660, 30_000, 22
"""Pixels: the least width of a part, the widths of the whole, and of a window."""


class Scale:
    """Places times on an axis."""

    def __init__(self, times: Iterable[int], unit: int | None, windows: int) -> None:
        """``unit``: how long a usual window is, in microseconds, so that it can be seen; ``windows``: how many there
        are, since few of them need no wide axis, however short they are."""
        points = sorted({at for at in times if at != FOREVER}) or [0]
        cuts = cuts_of(points)
        parts = [points[low:high] for low, high in zip([0, *cuts], [*cuts, len(points)], strict=True)]
        self.spans = [(part[0], part[-1]) for part in parts]
        total = sum(high - low for low, high in self.spans) or 1
        wanted = _NARROWEST if not unit else min(total / unit * _WINDOW, _NARROWEST + 2 * _WINDOW * windows)
        self.width = round(min(max(wanted, _NARROWEST), _WIDEST))
        spare = self.width - 2 * MARGIN - BREAK * (len(parts) - 1) - _LEAST * len(parts)
        self.places: list[tuple[float, float]] = []
        x = float(MARGIN)
        for low, high in self.spans:
            last = x + _LEAST + spare * (high - low) / total
            self.places.append((x, last))
            x = last + BREAK
        self.breaks = [last for _, last in self.places[:-1]]
        """Where each cut begins."""

    def __call__(self, at: int) -> float:
        """Where a time stands, in pixels from the left; beyond the ends, at the nearest end."""
        if at == FOREVER:
            return float(self.width)
        part = max(0, bisect_right([low for low, _ in self.spans], at) - 1)
        (low, high), (first, last) = self.spans[part], self.places[part]
        if high == low:
            return (first + last) / 2 if at == low else last
        return first + (min(max(at, low), high) - low) * (last - first) / (high - low)

    def ticks(self, show: AxisTimes) -> Iterator[tuple[float, str]]:
        """The labels of the axis, and where they stand."""
        free = 0.0
        for (low, high), (first, last) in zip(self.spans, self.places, strict=True):
            pixels = max(last - first, 1.0)
            step = show.step(max(round(LABEL * (high - low) / pixels), 1))
            for at in list(range(-(-low // step) * step, high + 1, step)) if high > low else [low]:
                x = self(at)
                if x >= free:
                    yield x, show(at)
                    free = x + LABEL * 0.8
