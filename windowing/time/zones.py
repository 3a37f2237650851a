"""Time zones by name or by offset."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from windowing.errors import ConfigError

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d)(?::?(\d\d))?)?", re.ASCII)
# Java's ZoneOffset ends there as well.
_WIDEST = timedelta(hours=18)


@lru_cache(maxsize=1 << 10)
def zone_of(name: str) -> tzinfo:
    """The zone of an IANA name (``Europe/Berlin``) or an offset (``+03:00``, ``-0330``, ``UTC+3``, ``Z``).

    Raises ConfigError for an unknown time zone.
    """
    if name == "Z":
        return UTC
    if offset := _OFFSET.fullmatch(name):
        sign, *parts = offset.groups()
        hours, minutes, seconds = (int(part or 0) for part in parts)
        length = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if minutes > 59 or seconds > 59 or length > _WIDEST:
            raise ConfigError(
                f"there is no offset {name!r}",
                why="minutes and seconds are at most 59, and offsets at most 18 hours",
                do="write it like '+03:00'",
            )
        return timezone(-length if sign == "-" else length)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ConfigError(
            f"{name!r} is not a known time zone",
            why="zones go by their IANA names, or by their offset",
            do="use a name like 'Europe/Berlin' or 'UTC', or an offset like '+03:00', "
            "or install tzdata if all names are unknown",
        ) from error
