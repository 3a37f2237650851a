"""Windows by the clocks and the calendar of a time zone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import time
from itertools import pairwise
from typing import Literal, get_args

from windowing.calls.checked import checked_value
from windowing.errors import ConfigError
from windowing.settings.kinds.window_kind import WindowKind
from windowing.time.durations import Duration

CalendarUnit = Literal["hour", "day", "week", "month", "quarter", "year"]
Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]

_HOUR = 3_600_000_000
_DAY = 24 * _HOUR
_TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d)?")

_SHORTEST_UNIT = {"hour": 1, "week": 7 * 24, "month": 28 * 24, "quarter": 89 * 24, "year": 365 * 24}
_LONGEST_UNIT = {"hour": 1, "week": 7 * 24, "month": 31 * 24, "quarter": 92 * 24, "year": 366 * 24}
"""In hours, by clocks that do not change; of days ``shift_lengths`` tells."""

_REACH = {"hour": 3, "day": 3 * 24, "week": 9 * 24, "month": 33 * 24, "quarter": 94 * 24, "year": 368 * 24}
"""In hours, with a margin for clocks that change."""


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
    """How many units a window holds: ``7`` with ``day`` are the last seven days, and one such window ends with each
    day. With ``at``: so many of the windows between these times."""

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
        """ConfigError for other units, for times of other units than days, for texts that are no time of day, for a
        first day or month that there is not, or that the unit does not have, and for windows of less than a unit."""
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
        """Without what is as usual: checkpoints know calendars that had no first day and month."""
        names = ["unit", "zone", "at"]
        names += ["first_day"] if self.first_day != "monday" else []
        names += ["first_month"] if self.first_month != 1 else []
        names += ["last"] if self.last != 1 else []
        return f"Calendar({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    @property
    def shift(self) -> int:
        """How many days after Monday weeks begin, or months after January quarters and years."""
        return get_args(Weekday).index(self.first_day) or self.first_month - 1

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
