"""JSON messages: one value per message; many are read with one call."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, time
from types import NoneType
from typing import Any, ClassVar

import orjson

from topologies.io.documents import exact_float, unique_pairs
from topologies.io.messages.message import (
    MAX_BYTES,
    MAX_DEPTH,
    NO_HEADERS,
    Headers,
    MessageFormat,
    Misfit,
    Unreadable,
    check_limits,
    checked_bytes,
    checked_size,
    number_text,
    plain_scalar,
    scalar_text,
    too_deep,
    unwritable_if_it_fails,
    value_and_type,
)

# The nesting depth of JSON values.


_NESTS = frozenset({dict, list, tuple})


def nests_deeper(event: Any, text: bytes, max_depth: int) -> bool:
    """True if a value, whose JSON is ``text``, nests more than ``max_depth`` lists and objects."""
    if text.count(b"[") + text.count(b"{") <= max_depth:
        return False
    level = [event] if type(event) in _NESTS else []
    for _ in range(max_depth):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) in _NESTS
        ]
        if not level:
            return False
    return True


# Detects what a JSON reader would silently change: digits beyond a double's precision, repeated names.
#
# orjson reads whole numbers beyond 64 bits as doubles, other numbers as the nearest double, and keeps the last of
# several values of one name. Its result is written again and compared with the text. A text that is spelled
# differently may have lost nothing nevertheless, if it has no long numbers, no large exponents and as many names;
# otherwise it is read once more by Python's own reader, which is slower but can be customized.


_SPACE = b" \t\r\n"
_ALIKE = bytes.maketrans(b"123456789E+", b"000000000e-")
"""Maps all digits to 0, both letters of an exponent to e, both signs to -."""
_LONG = b"0" * 16
"""The fewest digits of a number, without its point, that a double may be unable to hold."""
_EXPONENTS = (b"0e000", b"0e-000")
"""Exponents of three digits. With smaller exponents, a number of fewer than 16 digits is within a double's range."""


def keeps_all_content(event: Any, text: bytes) -> bool:
    """True if a value contains all the content of its text: each number, and each name of an object."""
    written, text = orjson.dumps(event).translate(None, _SPACE), text.translate(None, _SPACE)
    if written == text:
        return True
    alike = text.translate(_ALIKE, b".")
    if _LONG in alike or any(exponent in alike for exponent in _EXPONENTS):
        return False
    # A quote and a colon end each name. Inside a text, a backslash precedes both the quote in the original and that in
    # the rewritten text, unless the quote is written as a number.
    return b"\\u" not in text and text.count(b'":') == written.count(b'":')


def exact_value(event: Any, text: bytes) -> Any:
    """Returns the exact value of a JSON text that orjson read as ``event``. Raises Unreadable if content would be
    lost."""
    if keeps_all_content(event, text):
        return event
    try:
        return json.loads(text, object_pairs_hook=unique_pairs, parse_float=exact_float)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{error}") from None


# Converts an event into values that orjson can write, or finds the first place that cannot be written.


_LARGEST = 2**64 - 1
_SAFE = frozenset({NoneType, bool, int, str})


def may_have_nan(event: Any) -> bool:
    """True if a value may contain a NaN or an infinity, which orjson writes as null."""
    to_see: list[Iterable[Any]] = [(event,)]
    while to_see:
        for value in to_see.pop():
            kind = type(value)
            if kind is float:
                if not math.isfinite(value):
                    return True
            elif kind in _NESTS:
                to_see.append(value.values() if kind is dict else value)
            elif kind not in _SAFE:
                return True
    return False


def plain_for_json(value: Any, max_depth: int) -> Any:
    """Returns the value with times, decimals and similar types as text, and long numbers unchanged. Raises Misfit."""
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str:
        return _encodable(value)
    if kind is float:
        return value if math.isfinite(value) else number_text(value)
    if isinstance(value, dict):
        return _object(value, _inner(max_depth))
    if isinstance(value, list | tuple):
        return _list(value, _inner(max_depth))
    return _convert_other(value, max_depth)


def _object(value: dict[Any, Any], max_depth: int) -> dict[str, Any]:
    made = {}
    for name, item in value.items():
        if not isinstance(name, str):
            raise Misfit(f"the name {value_and_type(name)} is not text")
        try:
            made[_encodable(name)] = plain_for_json(item, max_depth)
        except Misfit as misfit:
            raise misfit.inside(name) from None
    return made


def _list(value: list[Any] | tuple[Any, ...], max_depth: int) -> list[Any]:
    made = []
    for index, item in enumerate(value):
        try:
            made.append(plain_for_json(item, max_depth))
        except Misfit as misfit:
            raise misfit.inside(index) from None
    return made


def _convert_other(value: Any, max_depth: int) -> Any:
    inner = plain_scalar(value)
    if inner is not value:
        return plain_for_json(inner, _inner(max_depth))
    if isinstance(value, str):
        return _encodable(str(value))
    if isinstance(value, int):
        return int(value) if -_LARGEST // 2 <= value <= _LARGEST else orjson.Fragment(number_text(value))
    if isinstance(value, float):
        return plain_for_json(float(value), max_depth)
    text = scalar_text(value)
    if text is None:
        raise Misfit(f"{value_and_type(value)} has no form in JSON")
    return text


def _inner(max_depth: int) -> int:
    if max_depth == 0:
        raise Misfit("nested too deep, or in itself")
    return max_depth - 1


def _encodable(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Misfit(f"{value_and_type(text)} has half a surrogate pair, which is no Unicode") from None
    return text


# Reads many JSON messages with one call of the reader, at a third of the cost of reading them one by one.


_MARK = os.urandom(12).hex().translate(str.maketrans("0123456789", "ghijklmnop"))
"""Random letters, because digits would look like a long number."""
_BETWEEN = b',"' + _MARK.encode() + b'",'
_MOST = 1 << 20
"""Maximum size in bytes of messages that are joined, which copies them."""


def read_joined(messages: Sequence[bytes | None]) -> tuple[list[Any], bool] | None:
    """Returns the values of messages, and True if all are exact. Returns None if they cannot be read together, because
    one is not JSON, is missing, or begins with a byte order mark.

    The messages are joined to one list, with a random mark between them that occurs in no message. If the first quote
    of a mark ended an unfinished text of a message, the rest of the mark would not be JSON. So every mark is a value of
    its own. If every second value in the list is a mark, there is exactly one value between two marks: the value of one
    message.
    """
    try:
        if sum(map(len, messages)) > _MOST:  # type: ignore[arg-type]
            return None
        text = b"[" + _BETWEEN.join(messages) + b"]"  # type: ignore[arg-type]
        values = orjson.loads(text)
        marks = values[1::2]
        if len(values) != 2 * len(messages) - 1 or marks != [_MARK] * len(marks):
            return None
        return values[::2], keeps_all_content(values, text)
    except (TypeError, ValueError):  # a message is missing, is not JSON, or nests too deep
        return None


# JSON messages: one value per message.
#
# Reading is strict: UTF-8 (a byte order mark is skipped), no data after the value, no NaN or Infinity, no repeated name
# in an object. Whole numbers are exact, however long. Other numbers are doubles; a number that a double cannot
# represent (1E400, 1E-400, 0.1000000000000000055511151231257827) is Unreadable, so nothing is silently rounded.
#
# Writing supports JSON's types. Times (ISO 8601 with Z or their offset; none = UTC), decimals, UUIDs and binary
# (base64) become text; enum members and numpy scalars become plain values. NaN, an infinity, a name that is not text
# and all other values are Unwritable, with their place.


_BOM = b"\xef\xbb\xbf"
_NOT_READ: Any = object()
_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS


@dataclass(frozen=True)
class JsonMessages:
    """Messages in JSON, of at most ``max_bytes`` bytes and ``max_depth`` nested lists and objects."""

    max_bytes: int = MAX_BYTES
    max_depth: int = MAX_DEPTH
    name: ClassVar[str] = "json"

    def __post_init__(self) -> None:
        check_limits(self.max_bytes, self.max_depth)

    def read(self, value: bytes | None, headers: Headers = NO_HEADERS) -> Any:
        """Returns the value of a message. Raises Unreadable."""
        message = checked_bytes(value, self.max_bytes)
        try:
            event = orjson.loads(message)
        except orjson.JSONDecodeError as error:
            if message.startswith(_BOM) and not message.startswith(_BOM, len(_BOM)):
                return self.read(message[len(_BOM) :])
            raise Unreadable(f"not valid JSON: {error}") from None
        return self._exact_value(event, message)

    def read_all(self, values: Sequence[bytes | None]) -> list[Any]:
        """Returns the values of several messages, with an Unreadable error in place of each that cannot be read."""
        joined = read_joined(values) if len(values) > 1 else None
        if joined is None:
            return [self._read(value) for value in values]
        events, all_exact = joined
        longest = max(map(len, values))  # type: ignore[arg-type]  # none is missing
        if longest > self.max_bytes:
            return [self._read(value) for value in values]
        if all_exact and longest <= 2 * self.max_depth:
            return events
        return [self._read(value, event) for value, event in zip(values, events, strict=True)]

    def _read(self, value: bytes | None, event: Any = _NOT_READ) -> Any:
        """Returns the value of a message, or an Unreadable error. ``event``: the value, if it has been read but not
        checked."""
        try:
            return self.read(value) if event is _NOT_READ else self._exact_value(event, value or b"")
        except Unreadable as error:
            return error

    def _exact_value(self, event: Any, message: bytes) -> Any:
        """Returns the exact value of a message that was read as ``event``. Raises Unreadable."""
        if len(message) > 2 * self.max_depth and nests_deeper(event, message, self.max_depth):
            raise too_deep(self.max_depth)
        return exact_value(event, message)

    def write(self, event: Any, headers: Headers = NO_HEADERS) -> bytes:
        """Returns the message for an event. Raises Unwritable."""
        try:
            message = orjson.dumps(event, _time_text, _OPTIONS)
        except (
            Exception
        ):  # for values that orjson does not support, or not so deep, and for errors in an object's own code
            return self._write_slowly(event)
        if b"null" in message and may_have_nan(event):
            return self._write_slowly(event)
        if len(message) > 2 * self.max_depth and nests_deeper(event, message, self.max_depth):
            return self._write_slowly(event)
        return checked_size(message, self.max_bytes)

    def _write_slowly(self, event: Any) -> bytes:
        """Writes on the slow path, which supports more values and reports the first place that cannot be written."""
        with unwritable_if_it_fails():
            return checked_size(orjson.dumps(plain_for_json(event, self.max_depth)), self.max_bytes)


def _time_text(value: Any) -> str:
    """Returns the text of a time, because orjson would cut its offset to whole minutes. Raises TypeError for other
    values."""
    text = scalar_text(value) if isinstance(value, date | time) else None
    if text is None:
        raise TypeError
    return text


# Reads many messages at once if their format allows, else one by one.


_AT_ONCE = 64


def read_many(
    messages: MessageFormat,
    values: Sequence[bytes | None],
    headers: Sequence[Headers] | None = None,
) -> list[Any]:
    """Returns the events in messages, with an Unreadable error in place of each that cannot be read.

    ``headers``: those of each message; None if no message has any.
    """
    if isinstance(messages, JsonMessages):  # JSON does not use headers
        events: list[Any] = []
        for low in range(0, len(values), _AT_ONCE):
            events += messages.read_all(values[low : low + _AT_ONCE])
        return events
    return [
        _read(messages, value, NO_HEADERS if headers is None else headers[index]) for index, value in enumerate(values)
    ]


def _read(messages: MessageFormat, value: bytes | None, headers: Headers) -> Any:
    try:
        return messages.read(value, headers)
    except Unreadable as error:
        return error
