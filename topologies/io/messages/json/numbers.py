"""What a reader of JSON would change without a word: digits that a double has no room for, names given twice.

orjson reads whole numbers beyond 64 bits as doubles, other numbers as the nearest double, and takes the last of several
values of one name. What it gives back is written again to see whether it is all that was there; a text that is spelled
in another way (most are not) is read once more by Python's own reader, which is slower and can be asked.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from topologies.io.documents import exact_float, unique_pairs
from topologies.io.messages.errors import Unreadable

_SPACE = b" \t\r\n"


def exact(event: Any, text: bytes) -> Any:
    """The value of a JSON text, which orjson read as ``event``, with nothing lost. Raises Unreadable."""
    if orjson.dumps(event).translate(None, _SPACE) == text.translate(None, _SPACE):
        return event  # the same tokens: each number as its double is spelled, each name as often as it is kept
    try:
        return json.loads(text, object_pairs_hook=unique_pairs, parse_float=exact_float)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{error}") from None
