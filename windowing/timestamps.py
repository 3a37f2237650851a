"""Event times, int64 microseconds since the epoch in UTC: their conversion from columns, their texts, time zones."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windowing.errors import ConfigError, ScenarioError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Time zones by name or by offset.


_OFFSET_TEXT = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d)(?::?(\d\d))?)?", re.ASCII)
# As in Java's ZoneOffset.
_GREATEST_OFFSET = timedelta(hours=18)
_QUARTER = 900
_SECOND = 1_000_000
_DAY = 86_400 * _SECOND


def moment_of(zone: tzinfo, local: int) -> int:
    """Returns the moment at which the clocks of a zone show a local time, in microseconds since the epoch.

    If the clocks show the time twice, the first moment counts. A time that they skip is taken with the offset before
    the change (02:30 is then 03:30), as in java.time and iCalendar. ``local``: microseconds between 1970-01-01 00:00
    and the local time, on clocks that never change.
    """
    # A datetime ends with these years; the clocks no longer change there.
    within_years = min(max(local, EARLIEST + 2 * _DAY), LATEST - 2 * _DAY)
    offset = to_datetime(within_years).replace(tzinfo=zone, fold=0).utcoffset() or timedelta()
    return local - offset // timedelta(microseconds=1)


@lru_cache(maxsize=1 << 10)
def zone_of(name: str) -> tzinfo:
    """Returns the zone of an IANA name (``Europe/Berlin``) or an offset (``+03:00``, ``-0330``, ``UTC+3``, ``Z``).

    Raises ConfigError for an unknown time zone.
    """
    if name == "Z":
        return UTC
    if offset := _OFFSET_TEXT.fullmatch(name):
        sign, *numbers = offset.groups()
        hours, minutes, seconds = (int(part or 0) for part in numbers)
        length = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if minutes > 59 or seconds > 59 or length > _GREATEST_OFFSET:
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
    """Returns the offsets from UTC of local times of a zone, all in seconds, by the rules of ``moment_of``."""
    # Arrow's time zones end in 2037. If both ends of a quarter of an hour have one offset, all of it has.
    zone_info = zone_of(zone)
    quarters, quarter_numbers = np.unique(seconds // _QUARTER, return_inverse=True)
    at_start = np.array([_offset_in_seconds(at * _QUARTER, zone_info) for at in quarters.tolist()], np.int64)
    at_end = np.array([_offset_in_seconds((at + 1) * _QUARTER - 1, zone_info) for at in quarters.tolist()], np.int64)
    offsets: npt.NDArray[np.int64] = at_start[quarter_numbers]
    for at in np.flatnonzero((at_start != at_end)[quarter_numbers]).tolist():
        offsets[at] = _offset_in_seconds(int(seconds[at]), zone_info)
    return offsets


def _offset_in_seconds(seconds: int, zone: tzinfo) -> int:
    local = seconds * _SECOND
    return (local - moment_of(zone, local)) // _SECOND


# Event times.


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FOREVER = np.iinfo(np.int64).max
"""A time after every event: the watermark at the end of the streams, and the end of a lifetime or window without an
end.

Users see such an end as None, and as null in rows.
"""

# The years 1 to 9999, as in datetime; arithmetic on these times cannot overflow.
EARLIEST = (datetime.min.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
LATEST = (datetime.max.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)

OPEN_END = LATEST - timedelta(hours=38) // timedelta(microseconds=1) + 1
"""The moment at which 9999-12-31 begins in the easternmost zone; databases store that day for an unknown end."""


def to_datetime(timestamp: int) -> datetime:
    """Convert microseconds since the epoch to a datetime in UTC."""
    return EPOCH + timedelta(microseconds=timestamp)


def from_datetime(moment: datetime) -> int:
    """Convert a datetime to microseconds since the epoch; without a time zone it is in UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)


def show(timestamp: int | None) -> str:
    """Returns a time as text for users: ISO 8601 in UTC, with as many digits as needed."""
    if timestamp is None:
        return "none yet"
    if timestamp == FOREVER:
        return "the end"
    if not EARLIEST <= timestamp <= LATEST:
        return f"{timestamp} us"
    text = to_datetime(timestamp).isoformat(timespec="auto").replace("+00:00", "Z")
    return text[:-4] + "Z" if text.endswith("000Z") and "." in text else text


def show_end(timestamp: int) -> str:
    """Returns the end of a window as text for users; ``no end`` for a window without an end."""
    return "no end" if timestamp == FOREVER else show(timestamp)


def is_time(kind: pa.DataType) -> bool:
    """True if a column of this type can give event times (ST-9): timestamps, dates, whole numbers of milliseconds."""
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_integer(kind))


def from_column(column: pa.Array | pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[np.str_] | None]:
    """Convert a column to event times. Also returns the reason why each row has no event time ("" if it has one; None
    instead of the array if all rows have one).

    Whole numbers are milliseconds since the epoch (ST-9). Timestamps can have any unit and zone; those without a zone
    are in UTC. Rows with a null or a time outside the years 1 to 9999 have no event time, and 0 in the result.
    """
    values, valid = to_integers(column)
    kind = column.type
    factor, divisor = _factor_and_divisor(kind)
    low, high = EARLIEST * divisor // factor, LATEST * divisor // factor
    in_range = (values >= low) & (values <= high)
    has_time = in_range if valid is None else in_range & valid
    if has_time.all():
        return _scale_values(values, factor, divisor), None
    reasons = np.full(len(values), "", dtype=object)
    reasons[~in_range] = "timestamp outside the years 1 to 9999"
    if valid is not None:
        reasons[~valid] = "timestamp is null"
    return _scale_values(np.where(has_time, values, 0), factor, divisor), reasons


def finer_than_micros(column: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_] | None:
    """Returns a mask of the times in a column that ``from_column`` rounds down to microseconds; None if there are
    none."""
    if not (pa.types.is_timestamp(column.type) and column.type.unit == "ns"):
        return None
    cut: NDArray[np.bool_] = to_integers(column)[0] % 1000 != 0
    return cut if cut.any() else None


def to_column(timestamps: NDArray[np.int64]) -> pa.Array:
    """Convert event times to a column of Arrow's type ``timestamp('us', 'UTC')``; FOREVER becomes null."""
    has_no_end = timestamps == FOREVER
    times = pa.array(timestamps, mask=has_no_end if has_no_end.any() else None)
    return times.view(pa.timestamp("us", tz="UTC"))


def to_integers(column: pa.Array | pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Returns a column of times or whole numbers as integers in the unit of the column, 0 for null; and a mask of the
    values that are not null (None: all of them)."""
    kind = column.type
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_uint64(kind):
        column = pc.min_element_wise(column, pa.scalar(2**63 - 1, pa.uint64()), skip_nulls=False)
    valid = None
    if column.null_count:
        valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
        column = pc.fill_null(column, 0)
    values = column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
    return values.astype(np.int64, copy=False), valid


def _factor_and_divisor(kind: pa.DataType) -> tuple[int, int]:
    """Returns two numbers that convert the unit of a column to microseconds: a factor and a divisor."""
    if pa.types.is_date32(kind):
        return 86_400_000_000, 1
    if pa.types.is_timestamp(kind):
        return {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}[kind.unit]
    return 1_000, 1


def _scale_values(values: NDArray[np.int64], factor: int, divisor: int) -> NDArray[np.int64]:
    if divisor != 1:
        return values // divisor
    return values * factor if factor != 1 else values


# Times in scenarios, options and answers.


_TIME_ADVICE = "write whole milliseconds since the epoch, or ISO 8601 like '2024-01-01T06:00:03Z'"
_MORE_DIGITS = re.compile(r"[.,]\d{7,}")
_GREATEST_TIME = FOREVER - 1
_FIRST_READABLE = 3 * 365 * 86_400_000_000
"""The beginning of 1973, in microseconds since the epoch: earlier times are probably those of tests, which count from
0."""


def parse_time(value: object) -> int:
    """Convert a time of a scenario to microseconds since the epoch.

    Numbers are milliseconds since the epoch, with up to three decimals; strings are ISO 8601 with up to six digits of
    a second, in UTC if they name no zone. Raises ScenarioError for anything else.
    """
    match value:
        case bool():
            pass
        case int():
            return _in_range(value * 1000, value)
        case float():
            return _in_range(_micros_of_float(value), value)
        case datetime():
            return from_datetime(value)
        case str():
            return _micros_of_text(value)
    raise ScenarioError(f"expected a time, found {value!r}", do=_TIME_ADVICE)


def parse_end(value: object) -> int:
    """Convert a time like ``parse_time``; ``"+inf"``, the end of the streams, becomes FOREVER."""
    return FOREVER if value == "+inf" else parse_time(value)


def time_in_answer(micros: int) -> int | float | str:
    """Returns a time as the answers of scenarios give it: milliseconds, an int if they are whole; ``"+inf"`` for
    FOREVER."""
    if micros == FOREVER:
        return "+inf"
    millis, within_millisecond = divmod(micros, 1000)
    return millis if within_millisecond == 0 else micros / 1000


def readable_time(micros: int) -> int | float | str:
    """Convert a time to a form that users can read: ISO 8601 from 1973 on, else milliseconds as in answers."""
    return show(micros) if _FIRST_READABLE <= micros <= LATEST else time_in_answer(micros)


def _micros_of_float(value: float) -> int:
    try:
        exact = Decimal(repr(value)) * 1000
        micros = int(exact)
    except (InvalidOperation, ValueError, OverflowError):
        raise ScenarioError(f"expected a time, found {value!r}", do=_TIME_ADVICE) from None
    if micros != exact:
        raise ScenarioError(f"the time {value!r} is finer than 1 microsecond", do="give three decimals")
    return micros


def _micros_of_text(value: str) -> int:
    if _MORE_DIGITS.search(value):
        raise ScenarioError(f"the time {value!r} is finer than 1 microsecond", do="give at most six digits")
    try:
        return from_datetime(datetime.fromisoformat(value))
    except (ValueError, OverflowError):
        raise ScenarioError(f"expected a time, found {value!r}", do=_TIME_ADVICE) from None


def _in_range(micros: int, value: object) -> int:
    if not -_GREATEST_TIME <= micros <= _GREATEST_TIME:
        raise ScenarioError(f"the time {value!r} does not fit into 64 bits of microseconds", do=_TIME_ADVICE)
    return micros
