"""Window assigners as plain JSON, in the note of a bolt's rules: to form its windows without the topology."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from typing import Any

from policies import assigners
from policies.assigners import WindowAssigner
from windowing.settings.bounds import Bounds
from windowing.time.durations import Count, Duration

_ASSIGNERS = {name: getattr(assigners, name) for name in assigners.__all__ if name.endswith("Windows")}
_ENUMS: dict[str, type[Enum]] = {"Bounds": Bounds}


def assigner_values(assigner: WindowAssigner) -> dict[str, Any]:
    """An assigner as plain JSON: the name of its class, and its fields."""
    given = {column.name: _plain(getattr(assigner, column.name)) for column in fields(assigner)}  # type: ignore[arg-type]
    return {"class": type(assigner).__name__, "fields": given}


def assigner_from(values: Mapping[str, Any]) -> WindowAssigner:
    """The assigner that ``assigner_values`` was given. KeyError or TypeError for any other values."""
    found: WindowAssigner = _ASSIGNERS[values["class"]](
        **{name: _value(given) for name, given in values["fields"].items()}
    )
    return found


def _plain(value: Any) -> Any:
    match value:
        case Duration(micros):
            return {"micros": micros}
        case Count(number):
            return {"count": number}
        case Enum():
            return {"enum": type(value).__name__, "name": value.name}
        case tuple():
            return {"tuple": [_plain(each) for each in value]}
    return value


def _value(plain: Any) -> Any:
    match plain:
        case {"micros": int(micros)}:
            return Duration(micros)
        case {"count": int(number)}:
            return Count(number)
        case {"enum": str(kind), "name": str(name)}:
            return _ENUMS[kind][name]
        case {"tuple": list(items)}:
            return tuple(_value(each) for each in items)
    return plain
