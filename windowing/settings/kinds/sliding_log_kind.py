"""The last events, at each moment at which they change."""

from __future__ import annotations

from dataclasses import dataclass

from windowing.calls.checked import checked_value
from windowing.settings.bounds import Bounds
from windowing.settings.kinds.window_kind import WindowKind, window_length
from windowing.time.durations import Duration, Time


@dataclass(frozen=True, init=False)
class SlidingLog(WindowKind):
    """The events of the last ``length``, at every moment at which one enters or leaves (AZ-21)."""

    of_points = True

    length: Duration
    """How long an event stays in the window."""

    @checked_value
    def __init__(self, length: Time) -> None:
        """ConfigError for a duration of zero."""
        object.__setattr__(self, "length", window_length("length", length))

    def in_words(self) -> str:
        return f"the last {self.length}, at each moment at which an event enters or leaves"

    @property
    def reach(self) -> int:
        return self.length.micros

    @property
    def declared_length(self) -> Duration:
        return self.length

    def bounds(self, declared: Bounds) -> Bounds:
        return Bounds.END

    def changes_at_its_end(self, declared: Bounds) -> bool:
        return True
