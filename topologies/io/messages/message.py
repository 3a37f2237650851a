"""One message: its format, its limits, its errors, and the place of a value that cannot be read or written."""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from enum import Enum
from types import MappingProxyType, NoneType
from typing import Any, ClassVar, Protocol
from uuid import UUID

import numpy as np

from windowing.errors import ConfigError, WindboltError

# Errors of one message, each in one line that fits into a header of a dead letter.


LONGEST_REASON = 300


class _OneLine(WindboltError):
    def __init__(self, reason: str) -> None:
        super().__init__(_one_line(reason))

    def __str__(self) -> str:
        return self.what

    def __reduce__(self) -> tuple[type[_OneLine], tuple[str]]:
        return type(self), (self.what,)


class Unreadable(_OneLine):
    """A message that cannot be read; ``str()`` is the reason, at most 300 characters without line breaks."""


class Unwritable(_OneLine):
    """An event that a format cannot represent; ``str()`` is the reason, at most 300 characters without line breaks."""


def _one_line(reason: str) -> str:
    line = " ".join(reason.split()).encode("utf-8", "backslashreplace").decode("utf-8")
    return line if len(line) <= LONGEST_REASON else f"{line[: LONGEST_REASON - 3]}..."


# Limits on the size and nesting of messages, checked before they cost memory or stack.


MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 200
DEEPEST = 250  # orjson's own limit is 253


def check_limits(max_bytes: int, max_depth: int) -> None:
    """Raises ConfigError for invalid limits."""
    if max_bytes < 1:
        raise ConfigError(f"max_bytes is {max_bytes}", why="no message is shorter than 1 byte", do="give at least 1")
    if not 1 <= max_depth <= DEEPEST:
        raise ConfigError(f"max_depth is {max_depth}", do=f"give 1 to {DEEPEST}")


def checked_bytes(value: bytes | None, max_bytes: int) -> bytes:
    """Returns the bytes of a message, as the first step of reading it. Raises Unreadable if they are missing, or too
    many."""
    if value is None:
        raise Unreadable("the message has no value (a tombstone)")
    if not value:
        raise Unreadable("the message is empty")
    if len(value) > max_bytes:
        raise Unreadable(f"the message has {len(value):,} bytes, more than the {max_bytes:,} that may be read")
    return value


def too_deep(max_depth: int) -> Unreadable:
    return Unreadable(f"the message nests deeper than {max_depth} levels")


def checked_size(message: bytes, max_bytes: int) -> bytes:
    """Returns the message. Raises Unwritable if it is too long to be read back."""
    if len(message) > max_bytes:
        raise Unwritable(f"the message has {len(message):,} bytes, more than the {max_bytes:,} that may be read")
    return message


# Reading a message into an event, and writing an event as a message.


Headers = Mapping[str, bytes]
NO_HEADERS: Headers = MappingProxyType({})


class MessageFormat(Protocol):
    """A format of messages: a frozen, picklable dataclass."""

    name: ClassVar[str]

    def read(self, value: bytes | None, headers: Headers = NO_HEADERS) -> Any:
        """Returns the event in a message. Raises Unreadable, and nothing else, whatever the bytes are."""

    def write(self, event: Any, headers: Headers = NO_HEADERS) -> bytes:
        """Returns the message for an event. Raises Unwritable, and nothing else, whatever the object is."""


# The place of a value in an event, and the reason why it cannot be read or written. The place is assembled while the
# exception propagates.


LONGEST_SHOWN = 80


class Misfit(Exception):
    """A value that cannot be read or written. Each level that the exception passes adds to its place."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.steps: list[str | int] = []

    def inside(self, step: str | int) -> Misfit:
        self.steps.append(step)
        return self

    def unwritable(self) -> Unwritable:
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(self.steps))
        return Unwritable(f"{_shortened(place.removeprefix('.')) or 'the event'}: {self.reason}")


@contextmanager
def unwritable_if_it_fails() -> Iterator[None]:
    """Turns any exception in the block into Unwritable, with the place of the value."""
    try:
        yield
    except Misfit as misfit:
        raise misfit.unwritable() from None
    except Unwritable:
        raise
    except Exception as error:  # objects may run code of their own
        raise Unwritable(f"the event cannot be written: {error!r}") from error


def value_and_type(value: Any) -> str:
    """Returns a value and its type, for reasons."""
    if value is None:
        return "None"
    kind = type(value).__name__
    try:
        text = ascii(value) if isinstance(value, str | bytes | int | float) else str(value)
    except Exception:  # objects may run code of their own
        return f"a {kind}"
    return f"{text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + '...'} ({kind})"


def _shortened(place: str) -> str:
    return place if len(place) <= 2 * LONGEST_SHOWN else f"{place[:LONGEST_SHOWN]}...{place[-LONGEST_SHOWN:]}"


# Text for scalars that JSON, XML and CSV have no form for.
#
# Times are ISO 8601 with a Z or their offset (none = UTC), decimals keep every digit, binary is base64, as in the files
# that windbolt writes.


_PLAIN = frozenset({str, int, float, bool, dict, list, NoneType})


def plain_scalar(value: Any) -> Any:
    """Returns the plain value of a numpy scalar or an enum member; other values unchanged."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, np.datetime64 | np.timedelta64):
        return _numpys_time(value)
    if isinstance(value, np.generic):
        return value.item()
    return _array_as_list(value) if isinstance(value, np.ndarray) else value


def _array_as_list(array: np.ndarray[Any, Any]) -> Any:
    """Returns an array as a list, or the value of an array without axes; numpy itself would turn its times into
    numbers."""
    if not array.ndim:
        return plain_scalar(array[()])
    return list(array) if array.dtype.kind in "mM" else array.tolist()


def scalar_text(value: Any) -> str | None:
    """Returns the text of a time, decimal, UUID or bytes; None for other values. Raises Misfit."""
    match value:
        case datetime.datetime():
            zoned = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
            text = zoned.isoformat()
            return _refuse_nat(f"{text[:-6]}Z" if text.endswith("+00:00") else text, value)
        case datetime.date() | datetime.time():
            return _refuse_nat(value.isoformat(), value)
        case Decimal():
            return _refuse_nat(str(value), value) if value.is_finite() else _raise_misfit(value)
        case UUID():
            return str(value)
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
    return None


def number_text(value: float) -> str:
    """Returns a number as Python writes it. Raises Misfit for NaN, infinities and whole numbers beyond 4,300 digits."""
    if not isinstance(value, int):
        return float.__repr__(value) if math.isfinite(value) else _raise_misfit(value)
    try:
        return int.__repr__(value)
    except ValueError:
        raise Misfit("a whole number with too many digits") from None


def text_of_scalar(value: Any) -> str:
    """Returns the text of any scalar; None becomes empty text. Raises Misfit for a value that is not a scalar."""
    value = plain_scalar(value)
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
    """Returns a numpy time as Python's, or as text if Python's resolution is too coarse; numpy itself would return a
    number. Raises Misfit."""
    plain = value.item()
    if not isinstance(plain, int):
        return plain
    text = str(value)
    if isinstance(value, np.timedelta64) or len(text.partition("-")[0]) != len("2024"):
        raise Misfit(f"{value_and_type(value)} is not a time that can be written")
    return f"{text}Z"


def _raise_misfit(value: Any) -> str:
    raise Misfit(f"{value_and_type(value)} is not a number that can be written")


def _refuse_nat(text: str, value: Any) -> str:
    """Returns the text; raises Misfit for pandas' NaT, which is also a datetime."""
    return _raise_misfit(value) if text == "NaT" else text
