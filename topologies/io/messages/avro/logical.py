"""Converts Python values of Avro's logical types to the numbers, bytes and texts that are written.

- timestamps: an aware time, or one without a zone, which is UTC; local timestamps: a time without a zone. Digits beyond
  the precision of the type are truncated towards minus infinity. Dates and times of day likewise. All may also be given
  as the whole number, and times and dates as numpy's, which are those that numpy itself makes of them: a datetime of
  hours or finer, a date of days or coarser.
- decimals: a Decimal or a whole number, exact or refused.
- UUIDs: a UUID or its text.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import partial
from types import MappingProxyType
from typing import Any
from uuid import UUID

from topologies.io.messages.avro.plain_value import plain
from topologies.io.messages.misfit import Misfit, value_and_type

LogicalFit = Callable[[Any, int], Any]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_FIRST = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)
_LAST = datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.UTC)
_DAY_ZERO = datetime.date(1970, 1, 1).toordinal()
_MICRO, _MILLI = datetime.timedelta(microseconds=1), datetime.timedelta(milliseconds=1)


def _timestamp(schema: Any, unit: datetime.timedelta, local: bool) -> LogicalFit:
    first, last = (_FIRST - _EPOCH) // unit, (_LAST - _EPOCH) // unit

    def fit(value: Any, levels: int) -> int:
        value = plain(value)
        if isinstance(value, datetime.datetime) and _is_known(value) and not (local and value.tzinfo):
            zoned = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
            return (zoned - _EPOCH) // unit
        return _number(value, first, last, "local time" if local else "time")

    return fit


def _date(schema: Any) -> LogicalFit:
    def fit(value: Any, levels: int) -> int:
        value = plain(value)
        if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            return value.toordinal() - _DAY_ZERO
        return _number(value, 1 - _DAY_ZERO, datetime.date.max.toordinal() - _DAY_ZERO, "date")

    return fit


def _time(schema: Any, unit: datetime.timedelta) -> LogicalFit:
    last = datetime.timedelta(days=1) // unit - 1

    def fit(value: Any, levels: int) -> int:
        value = plain(value)
        if isinstance(value, datetime.time) and value.tzinfo is None:
            since = datetime.timedelta(0, value.second, value.microsecond, 0, value.minute, value.hour)
            return since // unit
        return _number(value, 0, last, "time of day without a zone")

    return fit


def _decimal(schema: Any) -> LogicalFit:
    scale, size = int(schema.get("scale", 0)), schema.get("size")
    context = Context(prec=int(schema["precision"]), traps=[Inexact, InvalidOperation])

    def fit(value: Any, levels: int) -> bytes:
        value = plain(value)
        if not isinstance(value, Decimal | int) or isinstance(value, bool):
            raise Misfit(f"{value_and_type(value)} is no Decimal")
        try:
            unscaled = Decimal(value).scaleb(scale, context).to_integral_exact(context=context)
            if unscaled and unscaled.adjusted() >= context.prec:
                raise OverflowError
            number = int(unscaled) if unscaled else 0
            return number.to_bytes(size or number.bit_length() // 8 + 1, signed=True)
        except (ArithmeticError, ValueError):
            raise Misfit(
                f"{value_and_type(value)} is not a decimal of {context.prec} digits, {scale} after the point"
            ) from None

    return fit


def _uuid(schema: Any) -> LogicalFit:
    def fit(value: Any, levels: int) -> str:
        value = plain(value)
        try:
            return str(value if isinstance(value, UUID) else UUID(value))
        except (ValueError, AttributeError, TypeError):
            raise Misfit(f"{value_and_type(value)} is no UUID") from None

    return fit


def _is_known(value: datetime.datetime) -> bool:
    """False for pandas' NaT, which is an instance of datetime and equals nothing, itself included."""
    return value == value  # noqa: PLR0124  the usual test for NaT


def _number(value: Any, first: int, last: int, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not first <= value <= last:
        raise Misfit(f"{value_and_type(value)} is no {what}")
    return int(value)


LOGICAL: Mapping[str, Callable[[Any], LogicalFit]] = MappingProxyType(
    {
        "long-timestamp-millis": partial(_timestamp, unit=_MILLI, local=False),
        "long-timestamp-micros": partial(_timestamp, unit=_MICRO, local=False),
        "long-local-timestamp-millis": partial(_timestamp, unit=_MILLI, local=True),
        "long-local-timestamp-micros": partial(_timestamp, unit=_MICRO, local=True),
        "int-date": _date,
        "int-time-millis": partial(_time, unit=_MILLI),
        "long-time-micros": partial(_time, unit=_MICRO),
        "bytes-decimal": _decimal,
        "fixed-decimal": _decimal,
        "string-uuid": _uuid,
    }
)
