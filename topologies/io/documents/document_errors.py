"""Translates pydantic's errors into the terms of a document: the place, what was found there, and what is allowed."""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from topologies.io.documents.showing import brief, kind_shown
from windowing.suggestions import did_you_mean

_MOST_LISTED = 25
"""Number of keys that are listed for one that is unknown; more of them help nobody."""


@dataclass(frozen=True)
class Explained:
    """A problem at a place of a document."""

    path: tuple[str | int, ...]
    text: str

    def __str__(self) -> str:
        return f"{dotted(self.path)}: {self.text}" if self.path else self.text


def explain(error: ValidationError, model: type[BaseModel]) -> list[Explained]:
    """The problems of a document that does not follow a model, in the order of the document.

    Names, allowed keys and purposes (the descriptions of fields) are those of the model. What stands under a field that
    its ``repr`` leaves out is secret: of such a value only its kind is told.
    """
    return [problem for details in error.errors() for problem in _explained(details, model)]


def dotted(path: Sequence[str | int]) -> str:
    """A path as text, such as ``format.output.schema[1].path``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _explained(details: ErrorDetails, model: type[BaseModel]) -> Iterator[Explained]:
    """The problems in one of pydantic's errors, one for each of its lines."""
    spot = _spot(details["loc"], model)
    context = details.get("ctx", {})
    found = kind_shown(details["input"]) if spot.is_secret else brief(details["input"])
    match details["type"]:
        case "value_error":
            for line in str(context["error"]).split("\n"):
                yield Explained(spot.path, line)
        case "missing":
            yield Explained(spot.path, f"expected, and not there{_purpose(spot.field)}")
        case "extra_forbidden":
            yield Explained(spot.path, _unknown(spot, model))
        case "union_tag_not_found":
            wanted = f"expected a mapping with a type ({', '.join(tag for tags, _ in spot.models for tag in tags)})"
            yield Explained(spot.path, f"{wanted}, found {found}{_purpose(spot.field)}")
        case "union_tag_invalid":
            allowed = context["expected_tags"].replace("'", "").split(", ")
            yield Explained((*spot.path, "type"), _choice(allowed, context["tag"]))
        case "literal_error":
            allowed = context["expected"].replace("'", "").replace(" or ", ", ").split(", ")
            yield Explained(spot.path, _choice(allowed, details["input"]))
        case kind:
            wanted = details["msg"] if details["msg"].startswith("expected ") else f"expected {_wanted(details)}"
            purpose = _purpose(spot.field) if kind.startswith("model_") else ""
            yield Explained(spot.path, f"{wanted}, found {found}{purpose}")


def _wanted(details: ErrorDetails) -> str:
    return _WANTED.get(details["type"], details["msg"])


_WANTED = {
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "int_type": "a whole number",
    "greater_than_equal": "a number that is not negative",
    "bool_type": "true or false",
    "list_type": "a list",
    "too_short": "a list that is not empty",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}

_Tagged = tuple[tuple[str, ...], type[BaseModel]]
"""A model, and the tags by which a union of several chooses it."""


@dataclass
class _Spot:
    """The place of an error in the document, and what the model says about that place."""

    path: tuple[str | int, ...] = ()
    field: FieldInfo | None = None
    """The field that the path leads to; None where it is not a field."""
    models: Sequence[_Tagged] = ()
    """The models that a mapping at the path may follow."""
    within: type[BaseModel] | None = None
    """The model of the mapping that contains the place; None where it has none."""
    is_secret: bool = False


def _spot(location: tuple[int | str, ...], model: type[BaseModel]) -> _Spot:
    """Follow a location through the models. The tags that choose between models are not part of the document's path."""
    spot = _Spot()
    models: list[_Tagged] = [((), model)]
    items: Any = None
    for part in location:
        if len(models) > 1:
            models = [(tags, choice) for tags, choice in models if part in tags]
            continue
        spot.path, spot.field = (*spot.path, part), None
        kind = items
        if models:
            spot.within = models[0][1]
            spot.field = _fields(spot.within).get(str(part))
            spot.is_secret |= spot.field is not None and not spot.field.repr
            kind = spot.field.annotation if spot.field else None
        models, items = _within(kind)
    spot.models = models
    return spot


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a model by the keys of the document."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _within(kind: Any) -> tuple[list[_Tagged], Any]:
    """The models that a type allows, or the element type of its lists and mappings."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        models, items = _within(inner[0])
        tags = tuple(each.tag for each in inner[1:] if isinstance(each, Tag))
        return ([(tags, model) for _, model in models] if tags else models), items
    if origin in (Union, types.UnionType):
        parts = [_within(argument) for argument in inner if argument is not type(None)]
        return [model for models, _ in parts for model in models], next((items for _, items in parts if items), None)
    if origin in (list, dict):
        return [], inner[-1]
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        named = kind.model_fields.get("type")
        return [(() if named is None else get_args(named.annotation), kind)], None
    return [], None


def _purpose(field: FieldInfo | None) -> str:
    return f": {field.description}" if field and field.description else ""


def _choice(allowed: list[str], found: object) -> str:
    wanted = allowed[0] if len(allowed) == 1 else f"one of {', '.join(allowed)}"
    return f"expected {wanted}, found {brief(found)}{did_you_mean(found, allowed)}"


def _unknown(spot: _Spot, model: type[BaseModel]) -> str:
    """What is said of a key that its mapping does not know."""
    assert spot.within is not None
    key, names = str(spot.path[-1]), list(_fields(spot.within))
    if spot.within is not model and issubclass(model, spot.within) and key in _fields(model):
        return "expected at the top of the file alone, where it holds for all steps"
    former = getattr(spot.within, "FORMER_KEYS", {})
    meant = f"; did you mean {former[key]!r}?" if key in former else did_you_mean(key, names)
    return f"unknown key{meant}" + (f" (allowed: {', '.join(names)})" if len(names) <= _MOST_LISTED else "")
