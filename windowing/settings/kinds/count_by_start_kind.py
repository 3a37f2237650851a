"""Windows of a count of start times."""

from __future__ import annotations

from dataclasses import dataclass

from windowing.calls.checked import checked_value
from windowing.settings.bounds import Bounds
from windowing.settings.kinds.window_kind import WindowKind
from windowing.time.durations import Count


@dataclass(frozen=True, init=False)
class CountByStart(WindowKind):
    """Each run of ``count`` distinct start times, and all that starts then (SI-30)."""

    counts = True
    of_points = True

    count: Count
    """How many distinct start times."""

    @checked_value
    def __init__(self, count: int | Count) -> None:
        """ConfigError for a count below one."""
        object.__setattr__(self, "count", count if isinstance(count, Count) else Count(count))

    def in_words(self) -> str:
        return f"each run of {self.count.value} distinct start times"

    @property
    def least_held(self) -> Count:
        return self.count

    def bounds(self, declared: Bounds) -> Bounds:
        return Bounds.START
