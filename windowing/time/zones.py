"""Time zones by name or by offset."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from windowing.errors import ConfigError
from windowing.time.timestamps import EARLIEST, LATEST, to_datetime

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d)(?::?(\d\d))?)?", re.ASCII)
# Java's ZoneOffset ends there as well.
_WIDEST = timedelta(hours=18)
_QUARTER = 900
_SECOND = 1_000_000
_DAY = 86_400 * _SECOND


def moment_of(zone: tzinfo, local: int) -> int:
    """The moment at which the clocks of a zone show a local time: of a time that they show twice the first, and one
    that they skip is taken with the offset before the skip (02:30 is then 03:30), as in java.time and iCalendar.

    The local time is in microseconds since the clocks would have shown the epoch; the result in microseconds since the
    epoch.
    """
    # datetime cannot represent years beyond these; the clocks no longer change there.
    near = min(max(local, EARLIEST + 2 * _DAY), LATEST - 2 * _DAY)
    offset = to_datetime(near).replace(tzinfo=zone, fold=0).utcoffset() or timedelta()
    return local - offset // timedelta(microseconds=1)


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


def offsets_of_wall_times(seconds: npt.NDArray[np.int64], zone: str) -> npt.NDArray[np.int64]:
    """The offsets from UTC of local times of a zone, all in seconds, by the rule of ``moment_of``.

    Arrow's own zones end in 2037. An offset that holds at both ends of a quarter of an hour holds in between.
    """
    known = zone_of(zone)
    quarters, places = np.unique(seconds // _QUARTER, return_inverse=True)
    first = np.array([_offset(at * _QUARTER, known) for at in quarters.tolist()], np.int64)
    last = np.array([_offset((at + 1) * _QUARTER - 1, known) for at in quarters.tolist()], np.int64)
    offsets: npt.NDArray[np.int64] = first[places]
    for at in np.flatnonzero((first != last)[places]).tolist():
        offsets[at] = _offset(int(seconds[at]), known)
    return offsets


def _offset(seconds: int, zone: tzinfo) -> int:
    local = seconds * _SECOND
    return (local - moment_of(zone, local)) // _SECOND
