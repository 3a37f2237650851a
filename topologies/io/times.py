"""Times as written in scenarios, options and answers, to and from int64 microseconds since the epoch."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal, InvalidOperation

from windowing.errors import ScenarioError
from windowing.timestamps import FOREVER, LATEST, from_datetime, show

_HOW = "write whole milliseconds since the epoch, or ISO 8601 like '2024-01-01T06:00:03Z'"
_MORE_DIGITS = re.compile(r"[.,]\d{7,}")
_MOST = FOREVER - 1
_TODAY = 3 * 365 * 86_400_000_000
"""Microseconds since the epoch, 1973: earlier times are probably counted from 0."""


def parse_time(value: object) -> int:
    """Returns a time from a scenario, in microseconds since the epoch.

    Numbers are milliseconds since the epoch, with fractions down to 1 us; strings are ISO 8601, UTC where they name no
    zone, also down to 1 us. Raises ScenarioError for anything else.
    """
    match value:
        case bool():
            pass
        case int():
            return _in_range(value * 1000, value)
        case float():
            return _in_range(_from_fraction(value), value)
        case datetime():
            return from_datetime(value)
        case str():
            return _from_text(value)
    raise ScenarioError(f"expected a time, found {value!r}", do=_HOW)


def parse_end(value: object) -> int:
    """Reads what ``parse_time`` reads, and ``"+inf"`` for the end of all streams."""
    return FOREVER if value == "+inf" else parse_time(value)


def written(micros: int) -> int | float | str:
    """Returns a time as answers show it: milliseconds, whole where they are; ``"+inf"`` at the end of the streams."""
    if micros == FOREVER:
        return "+inf"
    whole, rest = divmod(micros, 1000)
    return whole if rest == 0 else micros / 1000


def readable_time(micros: int) -> int | float | str:
    """Returns a time for people: ISO 8601 if it is of today's world, else as answers show it; tests often begin at
    0."""
    return show(micros) if _TODAY <= micros <= LATEST else written(micros)


def _from_fraction(value: float) -> int:
    try:
        exact = Decimal(repr(value)) * 1000
        micros = int(exact)
    except (InvalidOperation, ValueError, OverflowError):
        raise ScenarioError(f"expected a time, found {value!r}", do=_HOW) from None
    if micros != exact:
        raise ScenarioError(f"the time {value!r} is finer than 1 microsecond", do="give three decimals")
    return micros


def _from_text(value: str) -> int:
    if _MORE_DIGITS.search(value):
        raise ScenarioError(f"the time {value!r} is finer than 1 microsecond", do="give at most six digits")
    try:
        return from_datetime(datetime.fromisoformat(value))
    except (ValueError, OverflowError):
        raise ScenarioError(f"expected a time, found {value!r}", do=_HOW) from None


def _in_range(micros: int, value: object) -> int:
    if not -_MOST <= micros <= _MOST:
        raise ScenarioError(f"the time {value!r} does not fit into 64 bits of microseconds", do=_HOW)
    return micros
