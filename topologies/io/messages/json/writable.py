"""Converts an event into values that orjson can write, or finds the first place that cannot be written."""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import NoneType
from typing import Any

import orjson

from topologies.io.messages.misfit import Misfit, value_and_type
from topologies.io.messages.scalars import number_text, scalar_text, simple

_LARGEST = 2**64 - 1
_NESTS = frozenset({dict, list, tuple})
_SAFE = frozenset({NoneType, bool, int, str})


def may_have_nan(event: Any) -> bool:
    """Whether a value may contain a NaN or an infinity, which orjson writes as null."""
    to_see: list[Iterable[Any]] = [(event,)]
    while to_see:
        for value in to_see.pop():
            kind = type(value)
            if kind is float:
                if not math.isfinite(value):
                    return True
            elif kind in _NESTS:
                to_see.append(value.values() if kind is dict else value)
            elif kind not in _SAFE:
                return True
    return False


def plain(value: Any, max_depth: int) -> Any:
    """The value with times, decimals and the like as text, and long numbers unchanged. Raises Misfit."""
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str:
        return _encodable(value)
    if kind is float:
        return value if math.isfinite(value) else number_text(value)
    if isinstance(value, dict):
        return _object(value, _inner(max_depth))
    if isinstance(value, list | tuple):
        return _list(value, _inner(max_depth))
    return _other(value, max_depth)


def _object(value: dict[Any, Any], max_depth: int) -> dict[str, Any]:
    made = {}
    for name, item in value.items():
        if not isinstance(name, str):
            raise Misfit(f"the name {value_and_type(name)} is not text")
        try:
            made[_encodable(name)] = plain(item, max_depth)
        except Misfit as misfit:
            raise misfit.inside(name) from None
    return made


def _list(value: list[Any] | tuple[Any, ...], max_depth: int) -> list[Any]:
    made = []
    for index, item in enumerate(value):
        try:
            made.append(plain(item, max_depth))
        except Misfit as misfit:
            raise misfit.inside(index) from None
    return made


def _other(value: Any, max_depth: int) -> Any:
    inner = simple(value)
    if inner is not value:
        return plain(inner, _inner(max_depth))
    if isinstance(value, str):
        return _encodable(str(value))
    if isinstance(value, int):
        return int(value) if -_LARGEST // 2 <= value <= _LARGEST else orjson.Fragment(number_text(value))
    if isinstance(value, float):
        return plain(float(value), max_depth)
    text = scalar_text(value)
    if text is None:
        raise Misfit(f"{value_and_type(value)} has no form in JSON")
    return text


def _inner(max_depth: int) -> int:
    if max_depth == 0:
        raise Misfit("nested too deep, or in itself")
    return max_depth - 1


def _encodable(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Misfit(f"{value_and_type(text)} has half a surrogate pair, which is no Unicode") from None
    return text
