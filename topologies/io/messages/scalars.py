"""Scalars without a native form in JSON, XML or CSV, as text.

Times are ISO 8601 with a Z or their offset (none = UTC), decimals keep every digit, binary is base64, as in the files
that windbolt writes.
"""

from __future__ import annotations

import base64
import datetime
import math
from decimal import Decimal
from enum import Enum
from types import NoneType
from typing import Any
from uuid import UUID

import numpy as np

from topologies.io.messages.misfit import Misfit, value_and_type

_PLAIN = frozenset({str, int, float, bool, dict, list, NoneType})


def simple(value: Any) -> Any:
    """The plain value in a numpy scalar or an enum member; any other value unchanged."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, np.datetime64 | np.timedelta64):
        return _numpys_time(value)
    if isinstance(value, np.generic):
        return value.item()
    return _unpacked(value) if isinstance(value, np.ndarray) else value


def _unpacked(array: np.ndarray[Any, Any]) -> Any:
    """The list of an array, or the value of one without axes; numpy would make numbers of its times."""
    if not array.ndim:
        return simple(array[()])
    return list(array) if array.dtype.kind in "mM" else array.tolist()


def scalar_text(value: Any) -> str | None:
    """The text of a time, decimal, UUID or bytes; None for any other value. Raises Misfit."""
    match value:
        case datetime.datetime():
            zoned = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
            text = zoned.isoformat()
            return _known(f"{text[:-6]}Z" if text.endswith("+00:00") else text, value)
        case datetime.date() | datetime.time():
            return _known(value.isoformat(), value)
        case Decimal():
            return _known(str(value), value) if value.is_finite() else _refused(value)
        case UUID():
            return str(value)
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
    return None


def number_text(value: float) -> str:
    """A number as Python writes it. Raises Misfit for NaN, infinities and whole numbers beyond 4,300 digits."""
    if not isinstance(value, int):
        return float.__repr__(value) if math.isfinite(value) else _refused(value)
    try:
        return int.__repr__(value)
    except ValueError:
        raise Misfit("a whole number with too many digits") from None


def text_of(value: Any) -> str:
    """The text of any scalar; None is empty. Raises Misfit for anything that is not a scalar."""
    value = simple(value)
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return number_text(value)
    text = scalar_text(value)
    if text is None:
        raise Misfit(f"{type(value).__name__} is not a single value")
    return text


def _numpys_time(value: np.datetime64 | np.timedelta64) -> Any:
    """The Python value of a numpy time, or its text where Python's resolution is too coarse; numpy itself would give a
    number. Raises Misfit."""
    plain = value.item()
    if not isinstance(plain, int):
        return plain
    text = str(value)
    if isinstance(value, np.timedelta64) or len(text.partition("-")[0]) != len("2024"):
        raise Misfit(f"{value_and_type(value)} is not a time that can be written")
    return f"{text}Z"


def _refused(value: Any) -> str:
    raise Misfit(f"{value_and_type(value)} is not a number that can be written")


def _known(text: str, value: Any) -> str:
    """The text. Raises Misfit for pandas' NaT, which is an instance of datetime."""
    return _refused(value) if text == "NaT" else text
