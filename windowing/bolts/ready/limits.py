"""Limits that ready bolts are told as a number."""

from __future__ import annotations

from windowing.errors import ConfigError


def read_limit(bolt: str, limit: object, what: str) -> int:
    """A whole number above 0; ConfigError for anything else, with ``what`` it is the number of."""
    if type(limit) is not int or limit < 1:
        raise ConfigError(f"{bolt}({limit!r:.60})", why=f"it is the number of {what}", do="give a whole number above 0")
    return limit
