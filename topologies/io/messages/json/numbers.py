"""Detects what a JSON reader would silently change: digits beyond a double's precision, repeated names.

orjson reads whole numbers beyond 64 bits as doubles, other numbers as the nearest double, and keeps the last of several
values of one name. Its result is written again and compared with the text; a text that is spelled differently (most are
not) is read once more by Python's own reader, which is slower but can be customized.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from topologies.io.documents.strict import exact_float, unique_pairs
from topologies.io.messages.message_errors import Unreadable

_SPACE = b" \t\r\n"


def same_tokens(event: Any, text: bytes) -> bool:
    """Whether a value is written as the text it was read from, except for white space: each number as its double is
    spelled, each name as often as it is kept."""
    return orjson.dumps(event).translate(None, _SPACE) == text.translate(None, _SPACE)


def exact(event: Any, text: bytes) -> Any:
    """The exact value of a JSON text that orjson read as ``event``. Raises Unreadable where something would be lost."""
    if same_tokens(event, text):
        return event
    try:
        return json.loads(text, object_pairs_hook=unique_pairs, parse_float=exact_float)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{error}") from None
