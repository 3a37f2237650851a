"""The cache of a rule between calls, always in the form that it would have after a restart."""

from __future__ import annotations

import json
from typing import Any

_SCALARS = frozenset({str, float, bool, type(None)})
_LONG = 1 << 63
_DEEPEST = 200
"""Maximum number of nested lists and dicts of a cache: others copy it and write it within larger ones."""


def kept_json(cache: object) -> tuple[str, dict[str, Any]]:
    """A cache as JSON, and as that restores it. Raises TypeError or ValueError for what JSON cannot represent, and for
    one that is nested too deep."""
    if not isinstance(cache, dict):
        raise TypeError(f"the cache is {cache!r:.60}, and must be a dict")
    try:
        text = json.dumps(cache)
        read: dict[str, Any] = json.loads(text)
    except RecursionError:
        raise _too_deep() from None
    if text.count("[") + text.count("{") > _DEEPEST:
        level: list[Any] = [read]
        for _ in range(_DEEPEST):
            inner = [each for value in level for each in (value.values() if isinstance(value, dict) else value)]
            level = [value for value in inner if isinstance(value, dict | list)]
        if level:
            raise _too_deep()
    return text, read


def _too_deep() -> ValueError:
    return ValueError(f"the cache has more than {_DEEPEST} lists and dicts within one another")


class RuleCache:
    """The cache of one window after the last successful call of its rule."""

    __slots__ = ("_flat", "_text")

    def __init__(self, text: str = "") -> None:
        """``text``: JSON as stored in the checkpoint; empty where there is no cache."""
        self._text: str | None = text
        self._flat: dict[str, Any] = {}

    def keep(self, cache: dict[str, Any]) -> dict[str, Any]:
        """Store the cache after a call; returns the cache for the next call, converted through JSON.

        Raises TypeError or ValueError for what JSON cannot represent, and then leaves the stored cache as it was. A
        flat dict of strings and numbers, which is the usual case, is the same in JSON and is only copied.
        """
        if type(cache) is dict:
            if not cache:
                self._text, self._flat = "", {}
                return {}
            if is_flat(cache):
                self._text, self._flat = None, cache.copy()
                return cache
        self._text, read = kept_json(cache)
        return read

    def restored(self) -> dict[str, Any]:
        """A copy of the stored cache."""
        if self._text is None:
            return dict(self._flat)
        return json.loads(self._text) if self._text else {}

    @property
    def text(self) -> str:
        """The cache as JSON; empty where there is none."""
        return json.dumps(self._flat) if self._text is None else self._text


def is_flat(cache: dict[str, Any]) -> bool:
    """Whether a round trip through JSON changes nothing: text keys, with values of text or numbers."""
    for key, value in cache.items():  # all() would cost twice as much, for every event
        if type(key) is not str:
            return False
        if type(value) not in _SCALARS and not (type(value) is int and -_LONG <= value < _LONG):
            return False
    return True
