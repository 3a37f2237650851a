"""Durations in microseconds, and counts of events: the lengths and slides of windows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from numbers import Real

from windowing.calls import checked_on_failure, checked_value
from windowing.errors import ConfigError
from windowing.reprs import repr_of

_UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_DURATION_TEXT = re.compile(r"\s*(-?)\s*(\d+)(?:\.(\d+))?\s*(us|ms|s|m|h|d)\s*")
# Event times span the years 1 to 9999; no duration needs to be longer, and sums of times and durations stay in int64.
_LONGEST = 10_000 * 366 * _UNITS["d"]


@checked_on_failure
@dataclass(frozen=True, order=True, slots=True)
class Duration:
    """A length of time in whole microseconds; never negative."""

    micros: int

    def __post_init__(self) -> None:
        if not isinstance(self.micros, int) or isinstance(self.micros, bool):
            raise ConfigError(
                f"a duration of {self.micros!r} is not a whole number of microseconds",
                do="use seconds(1.5), millis(20) or a string like '5s'",
            )
        if not 0 <= self.micros <= _LONGEST:
            raise ConfigError(
                f"a duration of {self.micros} microseconds is out of range",
                why="a duration is not negative and at most 10,000 years",
                do="use seconds(1.5), millis(20) or a string like '5s'",
            )

    def __str__(self) -> str:
        if self.micros == 0:
            return "0s"
        for unit in ("d", "h", "m", "s", "ms"):
            if self.micros % _UNITS[unit] == 0:
                return f"{self.micros // _UNITS[unit]}{unit}"
        return f"{self.micros}us"

    def __repr__(self) -> str:
        return f"parse_duration({str(self)!r})"


@checked_on_failure
@dataclass(frozen=True, order=True, slots=True)
class Count:
    """A number of events; at least one."""

    value: int

    def __post_init__(self) -> None:
        if not isinstance(self.value, int) or isinstance(self.value, bool) or self.value <= 0:
            raise ConfigError(
                f"a count of {self.value!r} is not a positive whole number",
                why="a window holds, and slides by, at least one event",
                do="use Count(1) or more",
            )

    def __str__(self) -> str:
        return "1 event" if self.value == 1 else f"{self.value} events"


@dataclass(frozen=True, slots=True)
class Shift:
    """A move in time, in whole microseconds; below zero: back."""

    micros: int

    def __str__(self) -> str:
        return f"{'-' if self.micros < 0 else ''}{Duration(abs(self.micros))}"


Time = Duration | timedelta | str
"""A duration in any of the forms in which users give one: ``seconds(5)``, a timedelta, ``"5s"``."""

Extent = Time | Count | int
"""A length or slide of windows: a duration, or a number of events."""


@checked_value
def micros(number: int) -> Duration:
    """Returns a duration in microseconds, the finest unit."""
    return Duration(number)


@checked_value
def millis(number: float) -> Duration:
    """Returns a duration in milliseconds."""
    return _in_unit(number, "ms")


@checked_value
def seconds(number: float) -> Duration:
    """Returns a duration in seconds; ``seconds(0.5)`` is half a second."""
    return _in_unit(number, "s")


@checked_value
def minutes(number: float) -> Duration:
    """Returns a duration in minutes."""
    return _in_unit(number, "m")


@checked_value
def hours(number: float) -> Duration:
    """Returns a duration in hours."""
    return _in_unit(number, "h")


@checked_value
def days(number: float) -> Duration:
    """Returns a duration in days of 24 hours."""
    return _in_unit(number, "d")


@checked_value
def parse_duration(text: str) -> Duration:
    """Returns the duration that a text names: ``"150us"``, ``"20ms"``, ``"5s"``, ``"1.5m"``, ``"1h"``, ``"1d"``."""
    match = _DURATION_TEXT.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"{text!r} is not a duration",
            why="a duration is a number and a unit",
            do="write it like '150us', '20ms', '5s', '1.5m', '1h' or '1d'",
        )
    sign, number, fraction, unit = match.groups()
    if sign:
        raise ConfigError(
            f"{text!r} is not a duration",
            why="a duration cannot be negative",
            do=f"write '{text.replace('-', '').strip()}', without a sign",
        )
    micros_of_fraction, below_micros = divmod(int(fraction or 0) * _UNITS[unit], 10 ** len(fraction or ""))
    if below_micros:
        raise _not_whole_error(text)
    return Duration(int(number) * _UNITS[unit] + micros_of_fraction)


def as_duration(value: Duration | timedelta | str) -> Duration:
    """Convert any of the forms in which users give a duration. Raises ConfigError for anything else."""
    match value:
        case Duration():
            return value
        case str():
            return parse_duration(value)
        case timedelta():
            return Duration(value // timedelta(microseconds=1))
    raise ConfigError(
        f"{repr_of(value)} is not a duration",
        why="a bare number has no unit",
        do="use seconds(5), a timedelta, or a string like '5s'",
    )


def as_shift(value: Duration | Shift | timedelta | str) -> Shift:
    """Convert any of the forms in which users give a duration, also with a minus sign, ``"-8h"``, to a shift."""
    match value:
        case Shift():
            return value
        case timedelta() if value < timedelta(0):
            return Shift(-as_duration(-value).micros)
        case str() if value.strip().startswith("-"):
            return Shift(-parse_duration(value.strip()[1:]).micros)
    return Shift(as_duration(value).micros)


def as_extent(value: Duration | Count | timedelta | str | int) -> Duration | Count:
    """Convert a window length or slide: a whole number is a count of events, everything else a duration above
    zero."""
    if isinstance(value, Count):
        return value
    if isinstance(value, int):
        return Count(value)
    duration = as_duration(value)
    if duration.micros == 0:
        raise ConfigError("a window length or slide of zero", why="time would not move", do="make it longer")
    return duration


def as_every(value: Extent, what: str = "a watermark") -> Count | Duration:
    """Convert the interval at which ``what`` comes: a whole number or Count of events, or a duration above zero."""
    if isinstance(value, Count):
        return value
    if isinstance(value, int):
        if isinstance(value, bool) or value < 1:
            raise ConfigError(
                f"{what} every {repr_of(value)} events",
                why="that is not a positive whole number",
                do="use 1, for every event, or more; or a duration such as '5s'",
            )
        return Count(value)
    duration = as_duration(value)
    if duration.micros == 0:
        raise ConfigError(f"{what} every 0s", do="use 1, for every event, or a duration above zero")
    return duration


def _in_unit(number: float, unit: str) -> Duration:
    if not isinstance(number, Real):
        raise ConfigError(f"{number!r} is not a number", do=f"give one, or write a text like '5{unit}' instead")
    # In decimal: 16.1 s are exactly 16,100,000 us, but not in binary.
    exact = Decimal(str(number + 0)) * _UNITS[unit]
    if not exact.is_finite() or exact != int(exact):
        raise _not_whole_error(f"{number}{unit}")
    return Duration(int(exact))


def _not_whole_error(given: str) -> ConfigError:
    return ConfigError(
        f"{given} is not a whole number of microseconds", why="time is kept in whole microseconds", do="round it"
    )
