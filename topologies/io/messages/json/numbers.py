"""Detects what a JSON reader would silently change: digits beyond a double's precision, repeated names.

orjson reads whole numbers beyond 64 bits as doubles, other numbers as the nearest double, and keeps the last of several
values of one name. Its result is written again and compared with the text. A text that is spelled differently may have
lost nothing nevertheless, if it has no long numbers, no large exponents and as many names; otherwise it is read once
more by Python's own reader, which is slower but can be customized.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from topologies.io.documents.strict import exact_float, unique_pairs
from topologies.io.messages.message_errors import Unreadable

_SPACE = b" \t\r\n"
_ALIKE = bytes.maketrans(b"123456789E+", b"000000000e-")
"""All digits as 0, both letters of an exponent as one, both signs as one."""
_LONG = b"0" * 16
"""The fewest digits of a number, without its point, that a double may not hold."""
_EXPONENTS = (b"0e000", b"0e-000")
"""Exponents of three digits: smaller ones with fewer than 16 digits before them are within a double's range."""


def keeps_all(event: Any, text: bytes) -> bool:
    """Whether a value is all that the text says from which it was read: each number, and each name of an object."""
    written, text = orjson.dumps(event).translate(None, _SPACE), text.translate(None, _SPACE)
    if written == text:
        return True
    alike = text.translate(_ALIKE, b".")
    if _LONG in alike or any(exponent in alike for exponent in _EXPONENTS):
        return False
    # A quote and a colon end each name. Within a text they come after a backslash, in both alike, unless the quote is
    # written as a number.
    return b"\\u" not in text and text.count(b'":') == written.count(b'":')


def exact(event: Any, text: bytes) -> Any:
    """The exact value of a JSON text that orjson read as ``event``. Raises Unreadable where something would be lost."""
    if keeps_all(event, text):
        return event
    try:
        return json.loads(text, object_pairs_hook=unique_pairs, parse_float=exact_float)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{error}") from None
