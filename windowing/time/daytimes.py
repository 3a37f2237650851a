"""Times of day in a zone, and when each comes next: once a day, at both switches of daylight saving too."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from windowing.calls.checked import checked_on_failure
from windowing.errors import ConfigError
from windowing.time.daytime_letters import TimeText, time_text
from windowing.time.timestamps import EARLIEST, LATEST, to_datetime
from windowing.time.zones import moment_of, zone_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SECOND, _HOUR, _DAY = 1_000_000, 3_600_000_000, 86_400_000_000


@checked_on_failure
@dataclass(frozen=True)
class DayTime:
    """A time of day: microseconds after midnight by the clocks of a zone.

    It comes once a day, whatever the clocks do. A time that they leap over is taken with the offset before the leap, as
    in java.time: 02:30 is 03:30 of summer time. A time that they show twice comes the first time only.
    A day that a zone has left out shares its time with the day after.

    Raises ConfigError for a time that is not within a day, and for an unknown time zone.
    """

    micros: int
    zone: str = "UTC"
    """A name such as ``Europe/Berlin``, or an offset such as ``+03:00`` or ``Z``."""

    def __post_init__(self) -> None:
        if not isinstance(self.micros, int) or isinstance(self.micros, bool) or not 0 <= self.micros < _DAY:
            raise ConfigError(
                f"{self.micros!r} is not a time of day",
                why="it is a number of microseconds after midnight, below 24 hours",
                do="give 0 for midnight, hours(18).micros for 18:00, minutes(11 * 60 + 5).micros for 11:05",
            )
        if not isinstance(self.zone, str):
            raise ConfigError(f"zone={self.zone!r} is not a text", do="use a name like 'Europe/Berlin' or '+03:00'")
        zone_of(self.zone)

    def __str__(self) -> str:
        seconds, micros = divmod(self.micros, _SECOND)
        fraction = f".{micros:06}".rstrip("0") if micros else ""
        return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction} {self.zone}"

    def next(self, after: int) -> int:
        """When it comes next, strictly after a time of the years 1 to 9999; both in microseconds since the epoch."""
        day = after // _DAY
        offset = _steady(self.zone, day)
        if offset is not None:
            return after - (after + offset - self.micros) % _DAY + _DAY
        return next(moment for moment in _around(self, day) if moment > after)


def next_of(time: DayTime, afters: NDArray[np.int64]) -> NDArray[np.int64]:
    """When a time of day comes next, strictly after each of many times; all in microseconds since the epoch."""
    days, places = np.unique(afters // _DAY, return_inverse=True)
    offsets = [_steady(time.zone, day) for day in days.tolist()]
    shifts = np.array([offset or 0 for offset in offsets], dtype=np.int64)[places]
    result: NDArray[np.int64] = afters - (afters + shifts - time.micros) % _DAY + _DAY
    for place, (day, offset) in enumerate(zip(days.tolist(), offsets, strict=True)):
        if offset is None:
            moments, there = np.array(_around(time, day)), places == place
            result[there] = moments[np.searchsorted(moments, afters[there], side="right")]
    return result


@dataclass(frozen=True)
class DayTimePattern:
    """Reads times of day that are written as a pattern of Java's DateTimeFormatter says (UH-20).

    ``HH:mm:ssXXX`` reads ``11:05:00+03:00``. Known are the letters H, k, K, h (with a), m, s, S, the offsets X, x, Z
    and the zone VV; ``'quoted'`` texts, ``[optional]`` sections and other characters stand for themselves. As in Java,
    a doubled letter takes two digits, 24:00 is midnight, and what is left out at the end is zero. Fractions finer than
    a microsecond are cut off.

    ``zone``: holds where the text names none (UH-21). A zone in the text goes before an offset beside it.

    Raises ConfigError for a letter that is not known, a pattern that tells no time of day, and an unknown zone.
    """

    pattern: str
    zone: str = "UTC"
    _text: TimeText = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str):
            raise ConfigError(f"pattern={self.pattern!r} is not a text", do="write it like 'HH:mm:ss'")
        object.__setattr__(self, "_text", time_text(self.pattern))
        DayTime(0, self.zone)

    def read(self, text: str) -> DayTime:
        """The time of day of a text; raises ConfigError for one that does not fit the pattern, or is not a time."""
        if not isinstance(text, str):
            raise ConfigError(
                f"{text!r:.60} is not a text",
                why="a time of day is read from text",
                do=f"write it like {self._text.example}",
            )
        return _read(self, text)


@lru_cache(maxsize=1 << 14)
def _read(pattern: DayTimePattern, text: str) -> DayTime:
    micros, zone = pattern._text.read(text)
    try:
        return DayTime(micros, zone or pattern.zone)
    except ConfigError as error:
        raise ConfigError(f"{text!r:.80} is not a time of day: {error.what}", why=error.why, do=error.do) from error


# ---- the clocks of a zone


@lru_cache(maxsize=1 << 12)
def _steady(zone: str, day: int) -> int | None:
    """The offset of a zone on a day (UTC), or None if its clocks are set within a day of it, before or after."""
    clocks = zone_of(zone)
    # A datetime cannot show what is beyond these years; the clocks no longer change there.
    day = min(max(day, EARLIEST // _DAY + 3), LATEST // _DAY - 4)
    hours = range((day - 1) * _DAY, (day + 3) * _DAY + 1, _HOUR)
    offset, *others = {_offset(clocks, hour) for hour in hours}
    return None if others else offset


@lru_cache(maxsize=1 << 12)
def _around(time: DayTime, day: int) -> tuple[int, ...]:
    """When a time of day comes around a day (UTC): one after any moment of that day is among them."""
    zone = zone_of(time.zone)
    return tuple(sorted({moment_of(zone, local * _DAY + time.micros) for local in range(day - 1, day + 3)}))


def _offset(clocks: tzinfo, moment: int) -> int:
    return _micros(to_datetime(moment).astimezone(clocks).utcoffset())


def _micros(length: timedelta | None) -> int:
    return (length or timedelta()) // timedelta(microseconds=1)
