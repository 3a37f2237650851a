"""Windows that last as long as events follow each other closely."""

from __future__ import annotations

from dataclasses import dataclass

from windowing.calls.checked import checked_value
from windowing.errors import ConfigError
from windowing.settings.bounds import Bounds
from windowing.settings.kinds.window_kind import WindowKind, window_length
from windowing.settings.rules import flag
from windowing.time.durations import Duration, Time, as_duration


@dataclass(frozen=True, init=False)
class Session(WindowKind):
    """Events with less than ``gap`` between them; one that joins two sessions merges them (AT-5, AT-6, UH-10).

    ``Session("0s", touching=True)`` are the events of one instant: as times are whole microseconds, the same as
    ``Session("1us")``, which it becomes.
    """

    merges = True
    of_points = True

    gap: Duration
    """The pause without events that ends a session."""
    touching: bool
    """Whether events exactly the gap apart share a session (Flink, UH-12); in Atlas they do not."""
    max_duration: Duration | None
    """Closes a session that is longer at the next multiple of this on the clock (AZ-22)."""
    gap_field: str | None
    """A column that gives each event a gap of its own, in place of ``gap``: a duration, or milliseconds."""

    @checked_value
    def __init__(
        self, gap: Time, *, touching: bool = False, max_duration: Time | None = None, gap_field: str | None = None
    ) -> None:
        """ConfigError for a longest duration of zero, for a gap of zero that holds nothing together, and where
        ``touching`` is neither True nor False."""
        longest = None if max_duration is None else window_length("max_duration", max_duration)
        span, touch = as_duration(gap), flag("touching", touching)
        if span.micros == 0:
            _check_instants(touch, max_duration, gap_field)
            span, touch = Duration(1), False
        object.__setattr__(self, "gap", span)
        object.__setattr__(self, "touching", touch)
        object.__setattr__(self, "max_duration", longest)
        object.__setattr__(self, "gap_field", gap_field)

    def in_words(self) -> str:
        words = f"sessions with a gap of {self.gap}" + (f", or that in {self.gap_field}" if self.gap_field else "")
        words += ", those that touch are one" if self.touching else ""
        return words + (f", closed by the clock when longer than {self.max_duration}" if self.max_duration else "")

    @property
    def by_columns(self) -> tuple[str, ...]:
        return () if self.gap_field is None else (self.gap_field,)

    @property
    def reach(self) -> int:
        return self.gap.micros + (self.max_duration.micros if self.max_duration else 0)

    @property
    def declared_length(self) -> Duration:
        """The gap, or the longest duration: what Azure bounds as well (AZ-22)."""
        return self.gap if self.max_duration is None else max(self.gap, self.max_duration)

    def bounds(self, declared: Bounds) -> Bounds:
        return Bounds.START

    def changes_at_its_end(self, declared: Bounds) -> bool:
        return self.touching or self.max_duration is not None


def _check_instants(touching: bool, max_duration: Time | None, gap_field: str | None) -> None:
    """ConfigError where sessions with a gap of zero are not those of one instant."""
    if not touching:
        raise ConfigError(
            "a session gap of zero",
            why="with a gap of zero no two events could share a session, not even at the same time",
            do="give a longer gap, or Session('0s', touching=True) for the events of one instant",
        )
    if max_duration is not None or gap_field is not None:
        raise ConfigError(
            f"a session gap of zero, and {'max_duration' if max_duration is not None else 'gap_field'}",
            why="such a session is of one instant, whatever comes",
            do="leave one of the two out, or give a longer gap",
        )
