"""The cache of a rule between calls, always in the form that it would have after a restart."""

from __future__ import annotations

import json
from typing import Any

_SCALARS = frozenset({str, int, float, bool, type(None)})


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
        if not isinstance(cache, dict):
            raise TypeError(f"the cache is {cache!r:.60}, and must be a dict")
        if not cache:
            self._text, self._flat = "", {}
            return {}
        if _is_flat(cache):
            self._text, self._flat = None, cache.copy()
            return cache
        text = json.dumps(cache)
        self._text = text
        read: dict[str, Any] = json.loads(text)
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


def _is_flat(cache: dict[str, Any]) -> bool:
    """Whether a round trip through JSON changes nothing: text keys, with values of text or numbers."""
    if type(cache) is not dict:
        return False
    for key, value in cache.items():  # noqa: SIM110  (all() would cost twice as much, for every event)
        if type(key) is not str or type(value) not in _SCALARS:
            return False
    return True
