"""What a rule keeps from call to call: as it would be found after a restart, whether there is one or not."""

from __future__ import annotations

import json
from typing import Any

_SCALARS = (str, int, float, bool, type(None))


class Kept:
    """The cache of one window, as it was after the last call that went well."""

    __slots__ = ("_flat", "_text")

    def __init__(self, text: str = "") -> None:
        """``text``: JSON, as it lies in the checkpoint; empty where nothing is kept."""
        self._text: str | None = text
        self._flat: dict[str, Any] = {}

    def keep(self, cache: dict[str, Any]) -> dict[str, Any]:
        """Keep what a call has left; the cache for the next call, which is what JSON makes of it.

        TypeError or ValueError for what JSON cannot hold: then it is as it was. Texts and numbers by name, which is
        what most caches are, are the same in JSON, and are only copied.
        """
        if not isinstance(cache, dict):
            raise TypeError(f"the cache is {cache!r:.60}, and must be a dict")
        if not cache:
            self._text, self._flat = "", {}
            return {}
        if type(cache) is dict and all(type(key) is str and type(value) in _SCALARS for key, value in cache.items()):
            self._text, self._flat = None, dict(cache)
            return cache
        text = json.dumps(cache)
        self._text = text
        read: dict[str, Any] = json.loads(text)
        return read

    def restored(self) -> dict[str, Any]:
        """The cache as it was, in an object of its own."""
        if self._text is None:
            return dict(self._flat)
        return json.loads(self._text) if self._text else {}

    @property
    def text(self) -> str:
        """As JSON; empty where nothing is kept."""
        return json.dumps(self._flat) if self._text is None else self._text
