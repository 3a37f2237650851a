"""Limits that ready bolts are told as a number, or as a length of time."""

from __future__ import annotations

from windowing.errors import ConfigError
from windowing.time.durations import Duration, Time, as_duration


def read_limit(bolt: str, limit: object, what: str) -> int:
    """A whole number above 0; ConfigError for anything else, with ``what`` it is the number of."""
    if type(limit) is not int or limit < 1:
        raise ConfigError(f"{bolt}({limit!r:.60})", why=f"it is the number of {what}", do="give a whole number above 0")
    return limit


def read_length_of_time(bolt: str, argument: str, given: Time) -> Duration:
    """A length of time above zero; ConfigError for anything else that was given for ``argument``."""
    try:
        length = as_duration(given)
    except ConfigError as error:
        raise ConfigError(f"{bolt}({argument}={given!r:.60}): {error.what}", why=error.why, do=error.do) from None
    if not length.micros:
        raise ConfigError(f"{bolt}({argument}={given!r})", why="the duration is zero", do="give one above zero")
    return length
