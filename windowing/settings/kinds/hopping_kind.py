"""Windows of one length, at regular times."""

from __future__ import annotations

from dataclasses import dataclass

from windowing.calls.checked import checked_value
from windowing.settings.kinds.window_kind import WindowKind, window_length
from windowing.time.durations import Duration, Time


@dataclass(frozen=True, init=False)
class Hopping(WindowKind):
    """Windows of one length, one every ``slide``: overlapping, touching (tumbling), or with gaps (AT-1, AT-2, AT-4)."""

    edges_known = True
    takes_offset = True

    length: Duration
    """How long a window is."""
    slide: Duration
    """How far the next window begins after it."""

    @checked_value
    def __init__(self, length: Time, slide: Time) -> None:
        """ConfigError for a duration of zero."""
        object.__setattr__(self, "length", window_length("length", length))
        object.__setattr__(self, "slide", window_length("slide", slide))

    def in_words(self) -> str:
        apart = "one after the other" if self.slide == self.length else f"one every {self.slide}"
        return f"{self.length} long, {apart}"

    @property
    def reach(self) -> int:
        return self.length.micros + self.slide.micros

    @property
    def declared_length(self) -> Duration:
        return self.length

    @property
    def period(self) -> Duration:
        return self.slide

    @property
    def least_held(self) -> Duration:
        return Duration(self.length.micros + self.slide.micros)
