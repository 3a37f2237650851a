"""Kinds of windows beyond Storm's: declared here, formed by ``policies.assigners``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import time
from itertools import pairwise
from typing import Literal, get_args

from windowing.calls.checked import checked_value
from windowing.errors import ConfigError
from windowing.settings.joins import How
from windowing.settings.rules import flag
from windowing.time.durations import Count, Duration, Time, as_duration

CalendarUnit = Literal["hour", "day", "week", "month"]


@dataclass(frozen=True, init=False)
class Hopping:
    """Windows of one length, one every ``slide``: overlapping, touching (tumbling), or with gaps (AT-1, AT-2, AT-4)."""

    length: Duration
    """How long a window is."""
    slide: Duration
    """How far the next window begins after it."""

    @checked_value
    def __init__(self, length: Time, slide: Time) -> None:
        """ConfigError for a duration of zero."""
        object.__setattr__(self, "length", _window_length("length", length))
        object.__setattr__(self, "slide", _window_length("slide", slide))


@dataclass(frozen=True, init=False)
class Session:
    """Events with less than ``gap`` between them; one that joins two sessions merges them (AT-5, AT-6, UH-10).

    ``Session("0s", touching=True)`` are the events of one instant: as times are whole microseconds, the same as
    ``Session("1us")``, which it becomes.
    """

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
        longest = None if max_duration is None else _window_length("max_duration", max_duration)
        span, touch = as_duration(gap), flag("touching", touching)
        if span.micros == 0:
            _check_instants(touch, max_duration, gap_field)
            span, touch = Duration(1), False
        object.__setattr__(self, "gap", span)
        object.__setattr__(self, "touching", touch)
        object.__setattr__(self, "max_duration", longest)
        object.__setattr__(self, "gap_field", gap_field)


@checked_value
@dataclass(frozen=True)
class Snapshot:
    """A window between each two moments at which a lifetime begins or ends (SI-29); for points, one an instant."""


@dataclass(frozen=True, init=False)
class SlidingLog:
    """The events of the last ``length``, at every moment at which one enters or leaves (AZ-21)."""

    length: Duration
    """How long an event stays in the window."""

    @checked_value
    def __init__(self, length: Time) -> None:
        """ConfigError for a duration of zero."""
        object.__setattr__(self, "length", _window_length("length", length))


@dataclass(frozen=True, init=False)
class CountByStart:
    """Each run of ``count`` distinct start times, and all that starts then (SI-30)."""

    count: Count
    """How many distinct start times."""

    @checked_value
    def __init__(self, count: int | Count) -> None:
        """ConfigError for a count below one."""
        object.__setattr__(self, "count", count if isinstance(count, Count) else Count(count))


@dataclass(frozen=True, init=False)
class Calendar:
    """Hours, days, weeks (from Monday) or months by the clocks of a zone: ``Calendar("day", "Europe/Berlin")``.

    A day has 23 or 25 hours where clocks change. ``at`` divides days into shifts that begin at local times:
    ``Calendar("day", "Europe/Berlin", at=["06:00", "14:00", "22:00"])``, of which the one of the night has 7 or 9 hours
    then. A time that the clocks skip is the moment of the skip, and one that they show twice is the first.

    Where a bolt has no other kind of window beside them they hold their start and not their end, unless
    ``with_alignment(bounds=...)`` says otherwise.
    """

    unit: CalendarUnit
    """``hour``, ``day``, ``week`` or ``month``."""
    zone: str
    """The name of a time zone: ``Europe/Berlin``."""
    at: tuple[str, ...]
    """The local times at which windows begin, for ``day``: ``["06:00", "14:00", "22:00"]``; midnight by default."""

    @checked_value
    def __init__(self, unit: CalendarUnit, zone: str, *, at: Sequence[str] = ()) -> None:
        """ConfigError for other units, for times of other units than days, and for texts that are no time of day."""
        if unit not in get_args(CalendarUnit):
            raise ConfigError(f"Calendar({unit!r})", do=f"use one of {', '.join(get_args(CalendarUnit))}")
        if at and unit != "day":
            raise ConfigError(
                f"Calendar({unit!r}, at={list(at)})",
                why="times of day divide days",
                do=f"write Calendar('day', {zone!r}, at=...), or leave at out",
            )
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "zone", zone)
        object.__setattr__(self, "at", _times_of_day(at))

    @property
    def begins(self) -> tuple[int, ...]:
        """The times of ``at``, in microseconds after midnight."""
        return tuple(_after_midnight(text) for text in self.at)

    @property
    def shift_lengths(self) -> tuple[int, ...]:
        """How long each of the windows of a day is, in microseconds, by clocks that do not change; one day without
        ``at``."""
        begins = self.begins or (0,)
        return tuple(end - begin for begin, end in zip(begins, [*begins[1:], begins[0] + _DAY], strict=True))


@dataclass(frozen=True)
class Onset:
    """A window of a microsecond at each moment at which an event begins, with all that live then (SI-22, SI-23).

    It is due as soon as the watermark is past that moment, however long its events last.
    """


@dataclass(frozen=True)
class Lull:
    """The window of ``length`` that begins with an event, where no other of its key follows in that time; holds it."""

    length: Duration
    """How long nothing comes."""


@dataclass(frozen=True)
class Meeting:
    """The windows of a temporal join that is not inner; of a microsecond each, due when the watermark is past it.

    ``left``, ``right``, ``full``: those of ``Onset``, and one at each moment at which events of these sides end that no
    partner overlapped, with these events. ``anti``: the latter only, of left events. ``semi``: one at each moment at
    which left events meet their first partner, with these events.
    """

    how: How
    left: int
    """Which of the bolt's two inputs is the left one, from 0."""


_DAY = 86_400_000_000
_TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d)?")


def _times_of_day(texts: Sequence[str]) -> tuple[str, ...]:
    """The times in order. Raises ConfigError for an invalid time, and for one given twice."""
    if isinstance(texts, str):
        raise ConfigError(f"at={texts!r}", why="it is a list of times", do=f"write at=[{texts!r}]")
    for text in texts:
        if _TIME_OF_DAY.fullmatch(text) is None:
            raise ConfigError(f"at={text!r} is not a time of day", do="write it like '06:00', from 00:00 to 23:59:59")
    times = sorted(texts, key=_after_midnight)
    for one, other in pairwise(times):
        if _after_midnight(one) == _after_midnight(other):
            raise ConfigError(f"at={list(texts)} has {one} twice", do="name each time once")
    return tuple(times)


def _after_midnight(text: str) -> int:
    shown = time.fromisoformat(text)
    return (shown.hour * 3600 + shown.minute * 60 + shown.second) * 1_000_000


def _window_length(name: str, value: Time) -> Duration:
    duration = as_duration(value)
    if duration.micros == 0:
        raise ConfigError(f"{name}={value!r}", why="a window has a length", do="give a duration above zero")
    return duration


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


WindowKind = Hopping | Session | Snapshot | SlidingLog | CountByStart | Calendar | Onset | Lull | Meeting


_LONGEST = {"hour": 1, "week": 7 * 24, "month": 31 * 24}
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
        case Calendar(unit="day"):
            return Duration(max(kind.shift_lengths))
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
