"""Kinds of windows beyond Storm's: declared here, formed by ``policies.assigners``."""

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
from windowing.settings.rules import Bounds, How, flag

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


# The interface of every kind of window: the rest of windbolt reads these facts, and never which kind it is.


class WindowKind(ABC):
    """A kind of window, as a bolt declares it; ``policies.assigners`` form the windows.

    A new kind is a subclass that overrides the defaults that do not fit; decision 83 lists the other files.
    """

    edges_known: ClassVar[bool] = False
    """True if its windows begin and end at times that are known without any event."""
    takes_offset: ClassVar[bool] = False
    """True if the windows' times are counted from an offset or an anchor."""
    usually_holds_start: ClassVar[bool] = False
    """True if its windows include their start and not their end, unless a bolt declares bounds."""
    merges: ClassVar[bool] = False
    """True if one more event may extend a window, or join two."""
    between_edges: ClassVar[bool] = False
    """True if its windows lie between the edges of events, so that one more event may divide a window."""
    counts: ClassVar[bool] = False
    """True if the number of events decides where its windows end."""
    of_points: ClassVar[bool] = False
    """True if its events must be points in time, without a duration."""
    of_moments: ClassVar[bool] = False
    """True if its windows are moments at which a ready-made bolt is called, and no windows of a user's."""
    of_temporal_join: ClassVar[bool] = False
    """True if its windows are the moments at which a temporal join is called."""

    @abstractmethod
    def in_words(self) -> str:
        """Describes its windows: ``sessions with a gap of 5m``. Checkpoints compare these words."""

    @property
    def by_columns(self) -> tuple[str, ...]:
        """The columns of events that decide which windows there are, besides their times."""
        return ()

    @property
    def reach(self) -> int:
        """Greatest distance from an event in a window to an edge of the window, in microseconds, apart from gaps of
        events."""
        return 1

    @property
    def declared_length(self) -> Duration | None:
        """The declared length of a window, at most; None if nothing bounds it, or the user sets no time.

        Clock changes are left out: a day has 24 hours. Assigners tell how long windows may be in fact (``looks_back``).
        """
        return None

    @property
    def period(self) -> Duration | None:
        """The least time from the end of a window to the end of the next, clock changes left out.

        None if that depends on the events.
        """
        return None

    @property
    def least_held(self) -> Duration | Count | None:
        """The least part of the stream that a task holds before it lets go of events; None if nothing tells."""
        return self.declared_length

    def bounds(self, declared: Bounds) -> Bounds:
        """Returns the bounds of its windows, where the bolt declares ``declared`` (``with_alignment(bounds=...)``)."""
        return declared

    def changes_at_its_end(self, declared: Bounds) -> bool:
        """True if an event exactly at the end of a window changes it, whatever the other settings of the bolt are."""
        return False


def window_length(name: str, value: Time) -> Duration:
    """Returns the length that an argument gives. Raises ConfigError for a duration of zero."""
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
"""Greatest length of a unit in hours, without clock changes; for days see ``shift_lengths``."""

_REACH = {"hour": 3, "day": 3 * 24, "week": 9 * 24, "month": 33 * 24, "quarter": 94 * 24, "year": 368 * 24}
"""Upper bound of the length of a unit in hours, with a margin for clock changes."""


_MOST = 1000
"""The most units of a window: each boundary around an event is worked out."""


@dataclass(frozen=True, init=False, repr=False)
class Calendar(WindowKind):
    """Hours, days, weeks, months, quarters or years by the clocks of a zone: ``Calendar("day", "Europe/Berlin")``.

    Weeks begin on Monday, or on another ``first_day``: ``Calendar("week", "America/New_York", first_day="sunday")``.
    Quarters and years begin in January, or in another ``first_month``, as fiscal years do: ``Calendar("year",
    "Asia/Tokyo", first_month=4)``.

    ``last`` makes windows overlap: ``Calendar("day", "Europe/Berlin", last=7)`` are the last seven days, of which one
    ends at each midnight; ``Calendar("month", "UTC", last=3)`` the last three months, every month. They hold so many
    days and months by the clocks and the calendar, not so many hours.

    A day has 23 or 25 hours where clocks change. ``at`` divides days into shifts that begin at local times:
    ``Calendar("day", "Europe/Berlin", at=["06:00", "14:00", "22:00"])``, of which the one of the night has 7 or 9 hours
    then. Of a time that the clocks show twice the first counts; one that they skip is taken with the offset before the
    skip, as for triggers: 02:30 is then 03:30. A day whose midnight is skipped begins at its first moment.

    Where a bolt has no other kind of window beside them they hold their start and not their end, unless
    ``with_alignment(bounds=...)`` says otherwise.
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
    """Number of units in a window: ``7`` with ``day`` gives the last seven days, and one such window ends with each
    day. With ``at``: the number of parts between these times."""

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
        """Raises ConfigError for other units, for times of other units than days, for texts that are no time of day,
        for a first day or month that there is not, or that the unit does not have, and for windows of less than a
        unit."""
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
        for name, given, units in (
            ("first_day", first_day != "monday", ("week",)),
            ("first_month", first_month != 1, ("quarter", "year")),
        ):
            if given and unit not in units:
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
        """Returns a repr without the values that are defaults, because older checkpoints hold calendars without a first
        day and month."""
        names = ["unit", "zone", "at"]
        names += ["first_day"] if self.first_day != "monday" else []
        names += ["first_month"] if self.first_month != 1 else []
        names += ["last"] if self.last != 1 else []
        return f"Calendar({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    @property
    def shift(self) -> int:
        """Days after Monday at which weeks begin, or months after January at which quarters and years begin."""
        return get_args(Weekday).index(self.first_day) or self.first_month - 1

    @property
    def begins(self) -> tuple[int, ...]:
        """The times of ``at``, in microseconds after midnight."""
        return tuple(_after_midnight(text) for text in self.at)

    @property
    def shift_lengths(self) -> tuple[int, ...]:
        """Length of each window of a day in microseconds, without clock changes; one whole day without ``at``."""
        begins = self.begins or (0,)
        return tuple(end - begin for begin, end in zip(begins, [*begins[1:], begins[0] + _DAY], strict=True))

    def in_words(self) -> str:
        begin = f", from {' and from '.join(self.at)} on" if self.at else ""
        begin += f", from {self.first_day.capitalize()} on" if self.first_day != "monday" else ""
        begin += f", from month {self.first_month} on" if self.first_month != 1 else ""
        if self.last > 1:
            return f"the last {self.last} {self.unit}s of the calendar in {self.zone}, at the end of each{begin}"
        return f"each {self.unit} of the calendar in {self.zone}{begin}"

    @property
    def reach(self) -> int:
        return self.last * _REACH[self.unit] * _HOUR

    @property
    def declared_length(self) -> Duration:
        if self.unit != "day":
            return Duration(self.last * _LONGEST_UNIT[self.unit] * _HOUR)
        parts = self.shift_lengths
        days, rest = divmod(self.last, len(parts))
        return Duration(days * _DAY + max(sum([*parts, *parts][at : at + rest]) for at in range(len(parts))))

    @property
    def period(self) -> Duration:
        return Duration(min(self.shift_lengths) if self.unit == "day" else _SHORTEST_UNIT[self.unit] * _HOUR)


def _times_of_day(texts: Sequence[str]) -> tuple[str, ...]:
    """Returns the times in order. Raises ConfigError for an invalid time, and for one given twice."""
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


# Windows of a count of start times.


@dataclass(frozen=True, init=False)
class CountByStart(WindowKind):
    """Windows of ``count`` distinct start times in a row, with all events that start then (SI-30)."""

    counts = True
    of_points = True

    count: Count
    """Number of distinct start times."""

    @checked_value
    def __init__(self, count: int | Count) -> None:
        """Raises ConfigError for a count below one."""
        object.__setattr__(self, "count", count if isinstance(count, Count) else Count(count))

    def in_words(self) -> str:
        return f"each run of {self.count.value} distinct start times"

    @property
    def least_held(self) -> Count:
        return self.count

    def bounds(self, declared: Bounds) -> Bounds:
        return Bounds.START


# Windows of one length, at regular times.


@dataclass(frozen=True, init=False)
class Hopping(WindowKind):
    """Windows of one length, one every ``slide``: overlapping, touching (tumbling), or with gaps (AT-1, AT-2, AT-4)."""

    edges_known = True
    takes_offset = True

    length: Duration
    """Length of a window."""
    slide: Duration
    """Time from the start of a window to the start of the next."""

    @checked_value
    def __init__(self, length: Time, slide: Time) -> None:
        """Raises ConfigError for a duration of zero."""
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


# Moments at which ready bolts are called: of joins by lifetime, unions, ``Deduplicate``, ``Silence`` and the like.


_ONSET = "each moment at which an event begins, with all that live then"
_ALONE = "each moment at which {} event ends that met no partner"
_MEETINGS: dict[How, str] = {
    "semi": "each moment at which a left event meets its first partner",
    "anti": _ALONE.format("a left"),
    "left": f"{_ONSET}; {_ALONE.format('a left')}",
    "right": f"{_ONSET}; {_ALONE.format('a right')}",
    "full": f"{_ONSET}; {_ALONE.format('an')}",
}


class _Moments(WindowKind):
    """Windows of a microsecond, or that begin with an event."""

    of_moments = True

    def bounds(self, declared: Bounds) -> Bounds:
        return Bounds.START


@dataclass(frozen=True)
class Onset(_Moments):
    """A window of a microsecond at each moment at which an event begins, with all that live then (SI-22, SI-23).

    It is due as soon as the watermark is past that moment, however long its events last.
    """

    of_temporal_join = True

    def in_words(self) -> str:
        return _ONSET


@dataclass(frozen=True)
class Lull(_Moments):
    """The window of ``length`` that begins with an event, if no other of its key follows in that time; holds it."""

    length: Duration
    """Length of a silence."""

    def in_words(self) -> str:
        return f"the last event before each {self.length} without one"

    @property
    def reach(self) -> int:
        return self.length.micros


@dataclass(frozen=True)
class Meeting(_Moments):
    """The windows of a temporal join that is not inner; of a microsecond each, due when the watermark is past it.

    ``left``, ``right``, ``full``: those of ``Onset``, and one at each moment at which events of these sides end without
    a partner, with these events. ``anti``: the latter only, of left events. ``semi``: one at each moment at which left
    events meet their first partner, with these events.
    """

    of_temporal_join = True

    how: How
    left: int
    """Number of the left input of the bolt's two inputs, from 0."""

    def in_words(self) -> str:
        return _MEETINGS[self.how]


# Windows that last as long as events follow each other closely.


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
    """True if events exactly the gap apart share a session (Flink, UH-12); False in Atlas."""
    max_duration: Duration | None
    """Closes a session that is longer at the next multiple of this on the clock (AZ-22)."""
    gap_field: str | None
    """A column with a gap for each event, in place of ``gap``: a duration, or milliseconds."""

    @checked_value
    def __init__(
        self, gap: Time, *, touching: bool = False, max_duration: Time | None = None, gap_field: str | None = None
    ) -> None:
        """Raises ConfigError for a longest duration of zero, for a gap of zero that holds nothing together, and where
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
    """Raises ConfigError if sessions with a gap of zero are not sessions of one instant."""
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


# The last events, at each moment at which they change.


@dataclass(frozen=True, init=False)
class SlidingLog(WindowKind):
    """The events of the last ``length``, at every moment at which one enters or leaves (AZ-21)."""

    of_points = True

    length: Duration
    """Time for which an event stays in the window."""

    @checked_value
    def __init__(self, length: Time) -> None:
        """Raises ConfigError for a duration of zero."""
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


# Windows between the moments at which events begin or end.


@checked_value
@dataclass(frozen=True)
class Snapshot(WindowKind):
    """A window between each two neighbouring moments at which a lifetime begins or ends (SI-29); for points, one per
    instant."""

    between_edges = True

    def in_words(self) -> str:
        return "snapshots: one window between each two moments at which an event begins or ends"

    def changes_at_its_end(self, declared: Bounds) -> bool:
        return declared is Bounds.END
