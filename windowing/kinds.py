"""Kinds of windows beyond Storm's: declared here, formed by ``policies.assigners``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from windowing.durations import Count, Duration, as_duration
from windowing.errors import ConfigError

CalendarUnit = Literal["hour", "day", "week", "month"]


@dataclass(frozen=True)
class Hopping:
    """Windows of one length, one every ``slide``: overlapping, touching (tumbling), or with gaps (AT-1, AT-2, AT-4)."""

    length: Duration
    slide: Duration

    def __post_init__(self) -> None:
        for name in ("length", "slide"):
            object.__setattr__(self, name, _above_zero(getattr(self, name)))


@dataclass(frozen=True)
class Session:
    """Events with less than ``gap`` between them; one that joins two sessions merges them (AT-5, AT-6, UH-10)."""

    gap: Duration
    touching: bool = False
    """Whether events exactly the gap apart share a session (Flink, UH-12); in Atlas they do not."""
    max_duration: Duration | None = None
    """Closes a session that is longer at the next multiple of this on the clock (AZ-22)."""
    gap_field: str | None = None
    """A column that gives each event a gap of its own, in place of ``gap``: a duration, or milliseconds."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "gap", _above_zero(self.gap))
        if self.max_duration is not None:
            object.__setattr__(self, "max_duration", _above_zero(self.max_duration))


@dataclass(frozen=True)
class Snapshot:
    """A window between each two moments at which a lifetime begins or ends (SI-29); for points, one an instant."""


@dataclass(frozen=True)
class SlidingLog:
    """The events of the last ``length``, at every moment at which one enters or leaves (AZ-21)."""

    length: Duration

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", _above_zero(self.length))


@dataclass(frozen=True)
class CountByStart:
    """Each run of ``count`` distinct start times, and all that starts then (SI-30)."""

    count: Count

    def __post_init__(self) -> None:
        if isinstance(self.count, int):
            object.__setattr__(self, "count", Count(self.count))


@dataclass(frozen=True)
class Calendar:
    """Hours, days, weeks or months of a time zone's calendar; a day has 23 or 25 hours where clocks change."""

    unit: CalendarUnit
    zone: str


@dataclass(frozen=True)
class Onset:
    """A window of a microsecond at each moment at which an event begins, with all that live then (SI-22, SI-23).

    It is due as soon as the watermark is past that moment, however long its events last.
    """


def _above_zero(value: Duration | timedelta | str) -> Duration:
    duration = as_duration(value)
    if duration.micros == 0:
        raise ConfigError(f"a window of {value!r}", why="a window has a length", do="give a duration above zero")
    return duration


WindowKind = Hopping | Session | Snapshot | SlidingLog | CountByStart | Calendar | Onset


_LONGEST = {"hour": 1, "day": 24, "week": 7 * 24, "month": 31 * 24}
"""In hours, by clocks that do not change."""

_LONGEST_PERIOD = {"hour": 3, "day": 3 * 24, "week": 9 * 24, "month": 33 * 24}
"""In hours, with a margin for clocks that change."""


def longest_of(kind: WindowKind) -> Duration | None:
    """How long a window of this kind is by what is declared, at most; None where nothing bounds it, or no time is set.

    Of a session it is the gap, or its longest duration: what Azure bounds as well (AZ-22).
    """
    match kind:
        case Hopping(length=length) | SlidingLog(length=length):
            return length
        case Session(gap=gap, max_duration=longest):
            return gap if longest is None else max(gap, longest)
        case Calendar(unit=unit):
            return Duration(_LONGEST[unit] * 3_600_000_000)
    return None


def kind_reach(kind: WindowKind) -> int:
    """How far a window of this kind may reach beyond an event in it, in microseconds; gaps of events left aside."""
    match kind:
        case Hopping():
            return kind.length.micros + kind.slide.micros
        case Session():
            return kind.gap.micros + (kind.max_duration.micros if kind.max_duration else 0)
        case SlidingLog():
            return kind.length.micros
        case Calendar():
            return _LONGEST_PERIOD[kind.unit] * 3_600_000_000
    return 1
