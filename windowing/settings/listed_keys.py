"""Keys that a user lists: their windows fire without events before any event has come."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from windowing.errors import ConfigError
from windowing.time.timestamps import from_datetime

_CALL = "with_empty_windows(until='1h', keys=['a', 'b'], since='2024-05-01T12:00:00Z')"


@dataclass(frozen=True)
class ListedKeys:
    """The keys that are there from a moment on, whether or not they have had events."""

    values: tuple[Any, ...]
    """A value for each key; a tuple of values where the key has several columns."""
    since: int
    """The moment, in microseconds since the epoch."""

    @cached_property
    def digest(self) -> str:
        """A text that tells one list from another."""
        return hashlib.sha256(repr((self.values, self.since)).encode()).hexdigest()[:16]

    @staticmethod
    def of(keys: Iterable[Any] | None, since: datetime | str | None) -> ListedKeys | None:
        """What a user gives; None where neither is given. ConfigError where one of them is missing or cannot be."""
        if keys is None and since is None:
            return None
        if keys is None or since is None:
            missing, there = ("keys", "since") if keys is None else ("since", "keys")
            raise ConfigError(
                f"with_empty_windows({there}=...) without {missing}=",
                why="listed keys are known from a moment on; the others from their first event on",
                do=f"give both: {_CALL}",
            )
        values = _distinct(keys)
        return ListedKeys(values, _moment(since))


def _distinct(keys: Iterable[Any]) -> tuple[Any, ...]:
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise ConfigError(
            f"with_empty_windows(keys={keys!r:.60})", why="keys are listed one by one", do=f"give a list: {_CALL}"
        )
    values = tuple(tuple(each) if isinstance(each, list) else each for each in keys)
    if not values:
        raise ConfigError("with_empty_windows(keys=[])", why="no key is listed", do="list some, or leave keys= out")
    twice = [text for text, times in Counter(map(repr, values)).items() if times > 1]
    if twice:
        raise ConfigError(f"with_empty_windows lists {', '.join(twice[:3])} twice", do="list each key once")
    return values


def _moment(since: datetime | str) -> int:
    try:
        return from_datetime(since if isinstance(since, datetime) else datetime.fromisoformat(since))
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"with_empty_windows(since={since!r:.60})",
            why="it is a moment",
            do="give a datetime, or ISO 8601 such as '2024-05-01T12:00:00Z' (without a zone it is UTC)",
        ) from error
