"""Whole numbers beyond 64 bits: orjson reads them as doubles, which rounds them."""

from __future__ import annotations

import json
import re
from typing import Any

from topologies.messages.errors import Unreadable

DIGITS = bytes(0x30 if 0x30 <= byte <= 0x39 else 1 for byte in range(256))  # shows runs of digits
LONG_RUN = b"0" * 19

_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|(-?\d+)(?![\d.eE])|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?')
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1  # what orjson reads exactly


def exact(event: Any, text: bytes) -> Any:
    """The value of a JSON text, which orjson read as ``event``, with every whole number exact. Raises Unreadable."""
    if not any(_beyond(token[1]) for token in _TOKENS.finditer(text) if token[1]):
        return event
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"not valid JSON: {error}") from None


def _beyond(digits: bytes) -> bool:
    return len(digits) > 18 and not _SMALLEST <= int(digits) <= _LARGEST
