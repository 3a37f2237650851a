"""What JSON would change in a value that is kept as JSON between two batches: the state of bolts and of policies."""

from __future__ import annotations

import json
from typing import Any

_PLAIN = (int, float, bool, type(None))


def changed_by_json(values: dict[str, Any], where: str) -> str:
    """Describe the first part of some values, by name, that JSON would not give back as it is; empty if there is none.

    ``where`` is how a user writes the dict of them. A list or dict at two places is such a part too: JSON would make
    two of it, so that what is changed at one place would no longer change at the other.
    """
    places: dict[int, str] = {}
    try:
        return next(filter(None, (_of_value(each, f"{where}[{name!r}]", places) for name, each in values.items())), "")
    except RecursionError:
        return f"{where} contains itself, or is nested hundreds of levels deep, and is kept as JSON"


def _of_value(value: Any, path: str, places: dict[int, str]) -> str:
    """Describe the first such part of one value; ``places``: by their ids, where the lists and dicts so far stand."""
    kind, wrong = type(value), ""
    if kind is list or kind is dict:
        other = places.setdefault(id(value), path)
        if path.startswith(f"{other}["):
            wrong = f"{other} contains itself, at {path}"
        elif other != path:
            wrong = f"{path} is the same {kind.__name__} as {other}, and each is kept by itself: copy it"
        else:
            wrong = _of_members(value, path, places)
    elif kind is str:
        wrong = f"{path} is {value!r:.60}, {_HALVES}" if _has_halves(value) else ""
    elif kind not in _PLAIN:
        wrong = f"{path} is a {kind.__name__} {value!r:.60}, which JSON does not have: "
        wrong += "keep int, float, str, bool, list or dict"
    return wrong


def _of_members(value: list[Any] | dict[Any, Any], path: str, places: dict[int, str]) -> str:
    """Describe the first such part among the keys of a dict, and then among what a dict or list holds."""
    for key in value if isinstance(value, dict) else ():
        if type(key) is not str:
            return f"{path} has the key {key!r:.60} (a {type(key).__name__}), and keys are kept as texts: use str(...)"
        if _has_halves(key):
            return f"{path} has the key {key!r:.60}, {_HALVES}"
    for name, each in value.items() if isinstance(value, dict) else enumerate(value):
        if type(each) not in _PLAIN and (wrong := _of_value(each, f"{path}[{name!r}]", places)):
            return wrong
    return ""


_HALVES = "two halves of a character that JSON would make one"


def _has_halves(text: str) -> bool:
    return not text.isascii() and json.loads(json.dumps(text)) != text
