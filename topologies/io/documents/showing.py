"""Readable display of the values of documents, for errors."""

from __future__ import annotations

import json


def brief(value: object) -> str:
    """A value as shown in errors, truncated where it is long."""
    if isinstance(value, dict | list) and not value:
        return "an empty mapping" if isinstance(value, dict) else "an empty list"
    if isinstance(value, dict):
        return "{" + ", ".join(map(str, list(value)[:6])) + (", ..." if len(value) > 6 else "") + "}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = json.dumps(value, ensure_ascii=False) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def kind_shown(value: object) -> str:
    """The kind of a value, for errors about values that may be secret."""
    if isinstance(value, str):
        return "a text"
    return "a number" if isinstance(value, int | float) and not isinstance(value, bool) else brief(value)
