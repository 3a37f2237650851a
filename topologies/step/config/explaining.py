"""Translates pydantic's errors into the terms of a step's file: the place, what was found there, and what is
allowed."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from topologies.io.documents import shown
from topologies.step.config.model import Step, StepConfig
from topologies.step.config.values import kind_of


@dataclass(frozen=True)
class Explained:
    """A problem at a place of the file."""

    path: tuple[str | int, ...]
    text: str


def explained(details: ErrorDetails) -> Iterator[Explained]:
    """The problems in one of pydantic's errors, one for each of its lines."""
    spot = _spot(details["loc"])
    context = details.get("ctx", {})
    secret = spot.path[:1] == ("connections",)
    found = kind_of(details["input"]) if secret else shown(details["input"])
    match details["type"]:
        case "value_error":
            for line in str(context["error"]).split("\n"):
                yield Explained(spot.path, line)
        case "missing":
            yield Explained(spot.path, f"expected, and not there{_purpose(spot.field)}")
        case "extra_forbidden" if len(spot.path) > 1 and spot.names == _OF_STEPS and spot.path[-1] in _OF_THE_FILE:
            yield Explained(spot.path, "expected at the top of the file alone, where it holds for all steps")
        case "extra_forbidden":
            yield Explained(spot.path, f"unknown key{_meant(str(spot.path[-1]), spot.names)}")
        case "union_tag_not_found":
            wanted = f"expected a mapping with a type ({', '.join(_types(spot.models))})"
            yield Explained(spot.path, f"{wanted}, found {found}{_purpose(spot.field)}")
        case "union_tag_invalid":
            allowed = context["expected_tags"].replace("'", "").split(", ")
            yield Explained((*spot.path, "type"), _choice(allowed, context["tag"]))
        case "literal_error":
            allowed = context["expected"].replace("'", "").replace(" or ", ", ").split(", ")
            yield Explained(spot.path, _choice(allowed, details["input"]))
        case kind:
            purpose = _purpose(spot.field) if kind.startswith("model_") else ""
            yield Explained(spot.path, f"expected {_WANTED.get(kind, details['msg'])}, found {found}{purpose}")


def dotted(path: Sequence[str | int]) -> str:
    """A path as text, such as ``format.output.schema[1].path``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


_WANTED = {
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "list_type": "a list",
    "too_short": "a list that is not empty",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


_OF_STEPS = [field.alias or name for name, field in Step.model_fields.items()]
_OF_THE_FILE = {field.alias or name for name, field in StepConfig.model_fields.items()} - set(_OF_STEPS)


@dataclass
class _Spot:
    """The place of an error in the file, and what the model says about that place."""

    path: tuple[str | int, ...]
    field: FieldInfo | None
    """The field that the path leads to; None where it is not a field."""
    models: list[type[BaseModel]]
    """The models that a mapping at the path may follow."""
    names: list[str]
    """The permitted keys of the mapping that contains the place."""


def _spot(location: tuple[str | int, ...]) -> _Spot:
    """Follow a location through the models. The tags that choose between models are not part of the file's path."""
    spot = _Spot((), None, [], [])
    models: list[type[BaseModel]] = [StepConfig]
    items: Any = None
    for part in location:
        if len(models) > 1:
            models = [model for model in models if part in _types([model])]
            continue
        spot.path, spot.field = (*spot.path, part), None
        kind = items
        if models:
            fields = {field.alias or name: field for name, field in models[0].model_fields.items()}
            spot.names, spot.field = list(fields), fields.get(str(part))
            kind = spot.field.annotation if spot.field else None
        models, items = _within(kind)
    spot.models = models
    return spot


def _types(models: list[type[BaseModel]]) -> list[str]:
    return [str(name) for model in models for name in get_args(model.model_fields["type"].annotation)]


def _within(kind: Any) -> tuple[list[type[BaseModel]], Any]:
    """The models that a type allows, or the element type of its lists and mappings."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _within(inner[0])
    if origin in (Union, types.UnionType):
        parts = [_within(argument) for argument in inner if argument is not type(None)]
        return [model for models, _ in parts for model in models], next((items for _, items in parts if items), None)
    if origin in (list, dict):
        return [], inner[-1]
    return ([kind], None) if isinstance(kind, type) and issubclass(kind, BaseModel) else ([], None)


def _purpose(field: FieldInfo | None) -> str:
    return f": {field.description}" if field and field.description else ""


def _choice(allowed: list[str], found: object) -> str:
    close = difflib.get_close_matches(found, allowed, n=1) if isinstance(found, str) else []
    meant = f"; did you mean {close[0]}?" if close else ""
    wanted = allowed[0] if len(allowed) == 1 else f"one of {', '.join(allowed)}"
    return f"expected {wanted}, found {shown(found)}{meant}"


def _meant(key: str, names: list[str]) -> str:
    lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(key.lower(), lower, n=1)
    meant = f", did you mean {lower[close[0]]}?" if close else ""
    return f"{meant} (allowed: {', '.join(names)})" if names else meant
