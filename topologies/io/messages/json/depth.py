"""The nesting depth of JSON values."""

from __future__ import annotations

from typing import Any

_NESTS = frozenset({dict, list, tuple})


def nests_deeper(event: Any, text: bytes, max_depth: int) -> bool:
    """Whether a value, whose JSON is ``text``, nests more than ``max_depth`` lists and objects."""
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
