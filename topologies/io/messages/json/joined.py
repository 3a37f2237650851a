"""Reads many JSON messages with one call of the reader, which costs a third of reading them one by one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import orjson

from topologies.io.messages.json.numbers import same_tokens

_MARK = os.urandom(12).hex()
_BETWEEN = b',"' + _MARK.encode() + b'",'
_MOST = 1 << 20
"""Maximum size in bytes of the messages that are joined, and so copied."""
_AS_ZERO, _LONG = bytes.maketrans(b"123456789", b"0" * 9), b"0" * 19
"""All digits as 0, and the fewest of them that a whole number has which does not fit into 64 bits."""


def read_joined(messages: Sequence[bytes | None]) -> tuple[list[Any], bool] | None:
    """The values of messages, and whether all are exact as they are. None where they cannot be read together: where one
    is not JSON, is missing, or begins with a byte order mark.

    The messages are joined to one list, with a random mark between them that no message contains. A mark whose first
    quote would end a text that a message has left open is followed by what is not JSON. So every mark is a value of its
    own. If the second, the fourth and so on of the list are the marks, there is exactly one value between two of them:
    that of one message.
    """
    try:
        if sum(map(len, messages)) > _MOST:  # type: ignore[arg-type]
            return None
        text = b"[" + _BETWEEN.join(messages) + b"]"  # type: ignore[arg-type]
        values = orjson.loads(text)
        marks = values[1::2]
        if len(values) != 2 * len(messages) - 1 or marks != [_MARK] * len(marks):
            return None
        return values[::2], same_tokens(values, text)
    except (TypeError, ValueError):  # one is missing; one is not JSON, or nests too deep
        return None


def read_joined_again(messages: Sequence[bytes | None]) -> list[Any] | None:
    """The exact values of messages each of which has been read alone before, and was a message. None where they cannot
    be read together so: where one is missing, begins with a byte order mark, or may have a whole number that does not
    fit into 64 bits.

    Each is one value, so nothing need be between them; and what a message that can be read loses to the reader is such
    numbers alone.
    """
    try:
        if sum(map(len, messages)) > _MOST:  # type: ignore[arg-type]
            return None
        text = b"[" + b",".join(messages) + b"]"  # type: ignore[arg-type]
        if _LONG in text.translate(_AS_ZERO):
            return None
        values: list[Any] = orjson.loads(text)
    except (TypeError, ValueError):
        return None
    return values if len(values) == len(messages) else None
