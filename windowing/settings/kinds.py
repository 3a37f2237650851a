"""Kinds of windows beyond Storm's, as users declare them; ``policies.assigners`` forms the windows."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import time
from itertools import pairwise
from typing import ClassVar, Literal, get_args

from windowing.calls import checked_value
from windowing.durations import Count, Duration, Time, as_duration
from windowing.errors import ConfigError
from windowing.settings.rules import Bounds, How, read_flag

__all__ = [
    "Calendar",
    "CalendarUnit",
    "CountByStart",
    "Hopping",
    "Lull",
    "Meeting",
    "Onset",
    "Session",
    "SlidingLog",
    "Snapshot",
    "WindowKind",
]


class WindowKind(ABC):
    """A kind of window, as a bolt declares it. Other code reads these properties, and does not test for kinds.

    A new kind is a subclass that overrides the defaults that do not fit; decision 83 lists the other files to change.
    """

    edges_known: ClassVar[bool] = False
    """True if the starts and ends of its windows do not depend on events."""
    takes_offset: ClassVar[bool] = False
    """True if an offset or an anchor shifts its windows."""
    usually_holds_start: ClassVar[bool] = False
    """True if its windows include their start and not their end, unless the bolt declares bounds."""
    merges: ClassVar[bool] = False
    """True if another event may extend a window, or merge two windows."""
    between_edges: ClassVar[bool] = False
    """True if its windows lie between the edges of events, so that another event may divide a window."""
    counts: ClassVar[bool] = False
    """True if the number of events decides when its windows end."""
    of_points: ClassVar[bool] = False
    """True if its events must be points in time, without a duration."""
    of_moments: ClassVar[bool] = False
    """True if its windows are the moments at which a ready bolt is called; users cannot declare such windows."""
    of_temporal_join: ClassVar[bool] = False
    """True if its windows are the moments at which a temporal join is called."""

    @abstractmethod
    def in_words(self) -> str:
        """Returns a description of its windows, ``sessions with a gap of 5m``. Checkpoints compare descriptions."""

    @property
    def by_columns(self) -> tuple[str, ...]:
        """The columns of events, besides the time, on which its windows depend."""
        return ()

    @property
    def reach(self) -> int:
        """Greatest distance from an event to an edge of its window, in microseconds, without gaps that columns of
        events give."""
        return 1

    @property
    def declared_length(self) -> Duration | None:
        """The greatest declared length of a window; None if there is no greatest length, or the length is not a time.

        Clock changes are ignored: a day has 24 hours. For the greatest actual length see ``max_lookback`` of assigners.
        """
        return None

    @property
    def period(self) -> Duration | None:
        """The least time from the end of a window to the end of the next one; clock changes are ignored.

        None if it depends on the events.
        """
        return None

    @property
    def least_held(self) -> Duration | Count | None:
        """The least duration or number of events that a task retains at any time; None if it is unknown."""
        return self.declared_length

    def bounds(self, declared: Bounds) -> Bounds:
        """Returns the bounds of its windows; ``declared``: those of the bolt (``with_alignment(bounds=...)``)."""
        return declared

    def changes_at_its_end(self, declared: Bounds) -> bool:
        """True if an event exactly at the end of a window changes the window; ``declared``: the bounds of the bolt."""
        return False


def window_length(name: str, value: Time) -> Duration:
    """Returns the duration that an argument gives; ``name``: the argument. Raises ConfigError for a duration of
    zero."""
    duration = as_duration(value)
    if duration.micros == 0:
        raise ConfigError(f"{name}={value!r}", why="a window has a length", do="give a duration above zero")
    return duration


# Windows by the clocks and the calendar of a time zone.


CalendarUnit = Literal["hour", "day", "week", "month", "quarter", "year"]
Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]

_HOUR = 3_600_000_000
_DAY = 24 * _HOUR
_TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d)?")

_SHORTEST_UNIT = {"hour": 1, "week": 7 * 24, "month": 28 * 24, "quarter": 89 * 24, "year": 365 * 24}
_LONGEST_UNIT = {"hour": 1, "week": 7 * 24, "month": 31 * 24, "quarter": 92 * 24, "year": 366 * 24}
"""Least and greatest length of a unit in hours, without clock changes; for days see ``shift_lengths``."""

_REACH = {"hour": 3, "day": 3 * 24, "week": 9 * 24, "month": 33 * 24, "quarter": 94 * 24, "year": 368 * 24}
"""Upper bound of the length of a unit in hours, with a margin for clock changes."""


_MOST = 1000
"""Greatest number of units in a window; the ends of all windows of an event are computed one by one."""


@dataclass(frozen=True, init=False, repr=False)
class Calendar(WindowKind):
    """Hours, days, weeks, months, quarters or years by the clocks of a zone: ``Calendar("day", "Europe/Berlin")``.

    Weeks begin on Monday, or on another ``first_day``: ``Calendar("week", "America/New_York", first_day="sunday")``.
    Quarters and years begin in January, or in another ``first_month``, as fiscal years do: ``Calendar("year",
    "Asia/Tokyo", first_month=4)``.

    With ``last`` windows overlap: ``Calendar("day", "Europe/Berlin", last=7)`` are windows of the last seven days, one
    of which ends at each midnight; ``Calendar("month", "UTC", last=3)`` are windows of the last three months, one of
    which ends with each month. Days and months are those of the calendar, whatever their number of hours.

    A day has 23 or 25 hours if clocks change. ``at`` divides days into shifts that begin at local times:
    ``Calendar("day", "Europe/Berlin", at=["06:00", "14:00", "22:00"])``; the shift of the night then has 7 or 9 hours.
    If the clocks show a time twice, the first moment counts. A time that they skip is taken with the offset before the
    change, as for triggers: 02:30 is then 03:30. A day whose midnight is skipped begins at its first moment.

    If all windows of a bolt are calendar windows, they hold their start and not their end, unless
    ``with_alignment(bounds=...)`` is set.
    """

    edges_known = True
    usually_holds_start = True

    unit: CalendarUnit
    """``hour``, ``day``, ``week``, ``month``, ``quarter`` or ``year``."""
    zone: str
    """The name of a time zone: ``Europe/Berlin``."""
    at: tuple[str, ...]
    """The local times at which windows begin, for ``day``: ``["06:00", "14:00", "22:00"]``; midnight by default."""
    first_day: Weekday
    """The day on which weeks begin."""
    first_month: int
    """The number of the month in which years and their quarters begin."""
    last: int
    """Number of units in a window: with ``day``, 7 are windows of the last seven days, one of which ends with each day.
    With ``at``: the number of shifts in a window."""

    @checked_value
    def __init__(
        self,
        unit: CalendarUnit,
        zone: str,
        *,
        at: Sequence[str] = (),
        first_day: Weekday = "monday",
        first_month: int = 1,
        last: int = 1,
    ) -> None:
        """Raise ConfigError for an invalid value, and for an argument that does not belong to the unit."""
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
        if first_day not in get_args(Weekday):
            raise ConfigError(f"first_day={first_day!r}", do=f"use one of {', '.join(get_args(Weekday))}")
        if not isinstance(first_month, int) or not 1 <= first_month <= 12:
            raise ConfigError(f"first_month={first_month!r}", do="give the number of a month, from 1 to 12")
        for name, is_set, units in (
            ("first_day", first_day != "monday", ("week",)),
            ("first_month", first_month != 1, ("quarter", "year")),
        ):
            if is_set and unit not in units:
                raise ConfigError(
                    f"Calendar({unit!r}, {name}=...)",
                    why=f"it says where a {' or a '.join(units)} begins",
                    do=f"write Calendar({units[-1]!r}, {zone!r}, {name}=...), or leave {name} out",
                )
        if not isinstance(last, int) or isinstance(last, bool) or not 1 <= last <= _MOST:
            raise ConfigError(
                f"Calendar({unit!r}, last={last!r})",
                why="a window holds one unit or more, of which one ends with each",
                do=f"give a whole number from 1 to {_MOST}, such as last=7 for the last seven of them",
            )
        object.__setattr__(self, "last", last)
        object.__setattr__(self, "first_day", first_day)
        object.__setattr__(self, "first_month", first_month)

    def __repr__(self) -> str:
        """Returns a repr without default values; older checkpoints store reprs without a first day and month."""
        names = ["unit", "zone", "at"]
        names += ["first_day"] if self.first_day != "monday" else []
        names += ["first_month"] if self.first_month != 1 else []
        names += ["last"] if self.last != 1 else []
        return f"Calendar({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    @property
    def shift(self) -> int:
        """Number of days from Monday to the first day of the week, or of months from January to the first month of the
        year."""
        return get_args(Weekday).index(self.first_day) or self.first_month - 1

    @property
    def begins(self) -> tuple[int, ...]:
        """The times of ``at``, in microseconds after midnight."""
        return tuple(_after_midnight(text) for text in self.at)

    @property
    def shift_lengths(self) -> tuple[int, ...]:
        """Length of each shift of a day in microseconds, without clock changes; one whole day without ``at``."""
        begins = self.begins or (0,)
        return tuple(end - begin for begin, end in zip(begins, [*begins[1:], begins[0] + _DAY], strict=True))

    def in_words(self) -> str:
        beginning = f", from {' and from '.join(self.at)} on" if self.at else ""
        beginning += f", from {self.first_day.capitalize()} on" if self.first_day != "monday" else ""
        beginning += f", from month {self.first_month} on" if self.first_month != 1 else ""
        if self.last > 1:
            return f"the last {self.last} {self.unit}s of the calendar in {self.zone}, at the end of each{beginning}"
        return f"each {self.unit} of the calendar in {self.zone}{beginning}"

    @property
    def reach(self) -> int:
        return self.last * _REACH[self.unit] * _HOUR

    @property
    def declared_length(self) -> Duration:
        if self.unit != "day":
            return Duration(self.last * _LONGEST_UNIT[self.unit] * _HOUR)
        parts = self.shift_lengths
        days, remaining_shifts = divmod(self.last, len(parts))
        return Duration(
            days * _DAY + max(sum([*parts, *parts][at : at + remaining_shifts]) for at in range(len(parts)))
        )

    @property
    def period(self) -> Duration:
        return Duration(min(self.shift_lengths) if self.unit == "day" else _SHORTEST_UNIT[self.unit] * _HOUR)


def _times_of_day(texts: Sequence[str]) -> tuple[str, ...]:
    """Returns the times in ascending order. Raises ConfigError for an invalid time, and for one given twice."""
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
    parsed = time.fromisoformat(text)
    return (parsed.hour * 3600 + parsed.minute * 60 + parsed.second) * 1_000_000


# Windows of a count of start times.


@dataclass(frozen=True, init=False)
class CountByStart(WindowKind):
    """Windows of ``count`` successive distinct start times, with all events that start at these times (SI-30)."""

    counts = True
    of_points = True

    count: Count
    """Number of distinct start times."""

    @checked_value
    def __init__(self, count: int | Count) -> None:
        """Raise ConfigError for a count below one."""
        object.__setattr__(self, "count", count if isinstance(count, Count) else Count(count))

    def in_words(self) -> str:
        return f"each run of {self.count.value} distinct start times"

    @property
    def least_held(self) -> Count:
        return self.count

    def bounds(self, declared: Bounds) -> Bounds:
        return Bounds.START


# Windows of one length at regular intervals.


@dataclass(frozen=True, init=False)
class Hopping(WindowKind):
    """Windows of one length, one every ``slide``: overlapping, tumbling (if both are equal), or with gaps (AT-1, AT-2,
    AT-4)."""

    edges_known = True
    takes_offset = True

    length: Duration
    """Length of a window."""
    slide: Duration
    """Time from the start of a window to the start of the next."""

    @checked_value
    def __init__(self, length: Time, slide: Time) -> None:
        """Raise ConfigError for a duration of zero."""
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


# Moments at which ready bolts are called: temporal joins, ``Union``, ``Deduplicate``, ``Silence`` and others.


_AT_BEGINNINGS = "each moment at which an event begins, with all that live then"
_AT_LONELY_ENDS = "each moment at which {} event ends that met no partner"
_MEETINGS_IN_WORDS: dict[How, str] = {
    "semi": "each moment at which a left event meets its first partner",
    "anti": _AT_LONELY_ENDS.format("a left"),
    "left": f"{_AT_BEGINNINGS}; {_AT_LONELY_ENDS.format('a left')}",
    "right": f"{_AT_BEGINNINGS}; {_AT_LONELY_ENDS.format('a right')}",
    "full": f"{_AT_BEGINNINGS}; {_AT_LONELY_ENDS.format('an')}",
}


class _Moments(WindowKind):
    """Windows at the moments at which a ready bolt is called."""

    of_moments = True

    def bounds(self, declared: Bounds) -> Bounds:
        return Bounds.START


@dataclass(frozen=True)
class Onset(_Moments):
    """A window of one microsecond at each moment at which an event begins, with all events that live then (SI-22,
    SI-23).

    The window is due when the watermark is past that moment, however long its events last.
    """

    of_temporal_join = True

    def in_words(self) -> str:
        return _AT_BEGINNINGS


@dataclass(frozen=True)
class Lull(_Moments):
    """A window that begins with an event and has the length of a silence, if no other event of the key follows within
    it; it holds this event."""

    length: Duration
    """Length of a silence."""

    def in_words(self) -> str:
        return f"the last event before each {self.length} without one"

    @property
    def reach(self) -> int:
        return self.length.micros


@dataclass(frozen=True)
class Meeting(_Moments):
    """The windows of a temporal join other than an inner one: of one microsecond, due when the watermark is past it.

    ``semi``: at each moment at which left events meet their first partner, a window with these events. ``anti``: at
    each moment at which left events end without a partner, a window with these events. ``left``, ``right``, ``full``:
    the windows of ``Onset``, and windows for the left events, right events or both that end without a partner.
    """

    of_temporal_join = True

    how: How
    left: int
    """Number of the left input of the bolt's two inputs, from 0."""

    def in_words(self) -> str:
        return _MEETINGS_IN_WORDS[self.how]


# Sessions.


@dataclass(frozen=True, init=False)
class Session(WindowKind):
    """Windows of events with less than ``gap`` between one and the next; an event between two sessions may merge them
    (AT-5, AT-6, UH-10). ``Session("1us")`` are the events of one instant, because times are whole microseconds.
    """

    merges = True
    of_points = True

    gap: Duration
    """The time without events that ends a session."""
    touching: bool
    """True if events exactly the gap apart share a session (Flink, UH-12); False in Atlas."""
    max_duration: Duration | None
    """Duration beyond which a session is closed, at the next multiple of this duration on the clock (AZ-22)."""
    gap_field: str | None
    """A column with the gap of each event, in place of ``gap``: a duration, or milliseconds."""

    @checked_value
    def __init__(
        self, gap: Time, *, touching: bool = False, max_duration: Time | None = None, gap_field: str | None = None
    ) -> None:
        """Raise ConfigError for a gap or ``max_duration`` of zero, and for a ``touching`` that is neither True nor
        False."""
        longest = None if max_duration is None else window_length("max_duration", max_duration)
        span = as_duration(gap)
        if span.micros == 0:
            raise ConfigError(
                "a session gap of zero",
                why="no two events are less than that apart, not even at the same time",
                do="give a longer gap; Session('1us') holds the events of one instant",
            )
        object.__setattr__(self, "gap", span)
        object.__setattr__(self, "touching", read_flag("touching", touching))
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
        """The gap or the maximum duration, whichever is longer; Azure limits both (AZ-22)."""
        return self.gap if self.max_duration is None else max(self.gap, self.max_duration)

    def bounds(self, declared: Bounds) -> Bounds:
        return Bounds.START

    def changes_at_its_end(self, declared: Bounds) -> bool:
        return self.touching or self.max_duration is not None


# Sliding logs.


@dataclass(frozen=True, init=False)
class SlidingLog(WindowKind):
    """Windows of the events of the last ``length``, one at each moment at which an event enters or leaves (AZ-21)."""

    of_points = True

    length: Duration
    """Time for which an event stays in windows."""

    @checked_value
    def __init__(self, length: Time) -> None:
        """Raise ConfigError for a duration of zero."""
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


# Snapshots.


@checked_value
@dataclass(frozen=True)
class Snapshot(WindowKind):
    """Windows between successive moments at which lifetimes begin or end (SI-29); for points, one window per
    instant."""

    between_edges = True

    def in_words(self) -> str:
        return "snapshots: one window between each two moments at which an event begins or ends"

    def changes_at_its_end(self, declared: Bounds) -> bool:
        return declared is Bounds.END
