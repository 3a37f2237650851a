"""Whether a value is what an annotation says, and what an annotation is called in an error."""

from __future__ import annotations

import builtins
import os
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from inspect import Parameter
from numbers import Integral, Real
from typing import Any, Literal, Union, get_args, get_origin

_WORDS: Mapping[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    dict: "a dict",
    list: "a list",
    tuple: "a tuple",
    datetime: "a time such as '2024-01-01T12:10:00Z'",
    timedelta: "a timedelta",
    os.PathLike: "a path",
    types.NoneType: "None",
    type: "a class",
    Callable: "a function",
    object: "",
    Any: "",
}
_NAMED = {
    "Duration": "a duration such as seconds(5)",
    "Count": "a Count of events",
    "Shift": "a shift in time",
    "Unset": "",
}
"""windbolt's own, which are defined after this; "" for what nobody gives."""
_NUMBERS: Mapping[Any, type] = {int: Integral, float: Real}
_UNIONS = (Union, types.UnionType)
_PAIR = 2
_LISTED = (list, tuple, set, frozenset)


class Unknown:
    """Stands for a name that is imported for type checkers only: any value may be that."""

    def __getattr__(self, name: str) -> Unknown:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, item: object) -> Unknown:
        return self

    def __or__(self, other: object) -> Unknown:
        return self

    __ror__ = __or__


class _Names(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, Unknown())


def resolved(annotation: Any, names: Mapping[str, Any]) -> Any:
    """The type that an annotation names, which may be a text; Any where there is none, or it cannot be told."""
    while isinstance(annotation, str):
        try:
            annotation = eval(annotation, {}, _Names(names))
        except (TypeError, AttributeError, SyntaxError):
            return Any
    return Any if isinstance(annotation, Unknown) or annotation is Parameter.empty else annotation


def is_one(value: object, annotation: Any, names: Mapping[str, Any]) -> bool:
    """Whether a value is what an annotation says, as far as that can be told without consuming the value."""
    kind = resolved(annotation, names)
    origin, parts = get_origin(kind), get_args(kind)
    if origin in _UNIONS:
        return any(is_one(value, each, names) for each in parts)
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in parts)
    if origin is type:
        return isinstance(value, type)
    if isinstance(origin, type):
        return _is_generic(value, origin, parts, names)
    return _is_plain(value, kind)


def _is_plain(value: object, kind: Any) -> bool:
    if kind is None:
        return value is None
    if kind in _NUMBERS:
        return isinstance(value, _NUMBERS[kind]) and not isinstance(value, bool)
    return kind is Any or not isinstance(kind, type) or isinstance(value, kind)


def _is_generic(value: object, origin: type, parts: tuple[Any, ...], names: Mapping[str, Any]) -> bool:
    letters = isinstance(value, str | bytes) and origin is not os.PathLike  # a sequence of letters, which nobody means
    listed = origin is Sequence and isinstance(value, Iterable) and not isinstance(value, Mapping)  # a set will do
    if letters or not (listed or isinstance(value, origin)):
        return False
    if isinstance(value, Mapping) and len(parts) == _PAIR:
        return all(is_one(k, parts[0], names) and is_one(v, parts[1], names) for k, v in value.items())
    if isinstance(value, _LISTED) and origin is not tuple and len(parts) == 1:
        return all(is_one(each, parts[0], names) for each in value)
    return True


def in_words(annotation: Any, names: Mapping[str, Any]) -> str:
    """What a value of an annotation is: ``a text or a list of texts``; "" where nothing can be said."""
    said = dict.fromkeys(_said(resolved(annotation, names), names))
    said.pop("", None)
    *others, last = said or [""]
    return f"{', '.join(others)} or {last}" if others else last


def choices(annotation: Any, names: Mapping[str, Any]) -> list[object]:
    """The values that an annotation lists, of Literals and Enums."""
    kind = resolved(annotation, names)
    if get_origin(kind) in _UNIONS:
        return [choice for each in get_args(kind) for choice in choices(each, names)]
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    return []


def _said(annotation: Any, names: Mapping[str, Any]) -> list[str]:
    """The words for each of the types that an annotation allows, None at the end."""
    kind = resolved(annotation, names)
    origin, parts = get_origin(kind), get_args(kind)
    if origin in _UNIONS:
        none_last = sorted(parts, key=lambda each: each is types.NoneType)
        return [words for each in none_last for words in _said(each, names)]
    if origin is Literal:
        return [repr(each) for each in parts]
    if origin is not None:
        return [_collection(origin, parts, names)]
    return [_WORDS[kind]] if kind in _WORDS else [_of_class(kind)] if isinstance(kind, type) else []


def _of_class(kind: type) -> str:
    if kind.__name__ in _NAMED:
        return _NAMED[kind.__name__]
    if issubclass(kind, Enum):
        return f"a member of {kind.__name__}"
    return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"


def _collection(origin: Any, parts: tuple[Any, ...], names: Mapping[str, Any]) -> str:
    if origin in _WORDS:
        return _WORDS[origin]
    if issubclass(origin, Mapping):
        return "a mapping"
    if issubclass(origin, Iterable):
        of = in_words(parts[0], names) if parts else ""
        return f"a list of {_PLURAL[of]}" if of in _PLURAL else "a list"
    return _of_class(origin)


_PLURAL = {"a text": "texts", "a whole number": "whole numbers", "a number": "numbers"}
