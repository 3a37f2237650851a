"""How the times of a table are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from topologies.scenarios.terminal_drawing.time_text import DAY, SECOND, are_of_a_clock, time_text
from windowing.time.timestamps import EARLIEST, LATEST

FEW = 3
"""Maximum number of windows written out in a cell; of more, the first and the last are shown."""


class TableTimes:
    """How the times of a table are written: by the clock, with dates and seconds where some of them need those.

    Where all that happens is on one ``day``, its times bear no date.
    """

    def __init__(self, times: Iterable[int], happening: Iterable[int]) -> None:
        known = {at for at in times if EARLIEST <= at <= LATEST}
        self.as_clock = are_of_a_clock(known)
        days = {at // DAY for at in happening}
        self.day = days.pop() if len(days) == 1 else None
        self.seconds = any(at % (60 * SECOND) for at in known)

    def __call__(self, at: int | None) -> str:
        if at is None:
            return ""
        return time_text(at, as_clock=self.as_clock, dated=at // DAY != self.day, seconds=self.seconds)

    def windows(self, windows: Sequence[tuple[int, int]]) -> str:
        """Windows of a cell, by their start and end."""
        shown = [self._window(start, end) for start, end in windows]
        return ", ".join(shown if len(shown) <= FEW else [shown[0], "...", shown[-1]])

    def _window(self, start: int, end: int) -> str:
        plain = self.as_clock and start // DAY == end // DAY == self.day
        return f"{self(start)}{'-' if plain else '..'}{self(end)}"
