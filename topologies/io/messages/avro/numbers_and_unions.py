"""Makes of an object what fastavro is to write by an Avro schema, or says why it is not a value of that.

fastavro writes some values that do not fit: it drops entries that are not fields, takes missing fields as None, and
rounds whole numbers to doubles. Here nothing is dropped or filled in (except by the schema's own default), and no whole
number is rounded. A Python float becomes the nearest ``float`` of 32 bits where the schema says ``float``.

A fit is called with the value and how many levels may still nest. It returns what fastavro is to write, with the
branches of unions chosen, and raises Misfit.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

from topologies.io.messages.avro.logical import LOGICAL
from topologies.io.messages.avro.parsing import Parsed, avro_type, logical_type, tag_of
from topologies.io.messages.avro.plain_value import plain
from topologies.io.messages.avro.walking import SchemaWalk
from topologies.io.messages.misfit import Misfit, value_and_type

Fit = Callable[[Any, int], Any]

_LATER = MappingProxyType({"double": 1, "float": 2})  # prefer an int or a long for a whole number
_TOO_DEEP = "nested too deep, or in itself"


def fit_of(parsed: Parsed) -> Fit:
    """The fit of a schema's values."""
    return _Fits(parsed).of(parsed.schema)


class _Fits(SchemaWalk[Fit]):
    """The fits of one schema."""

    @property
    def primitives(self) -> Mapping[str, Fit]:
        return _PRIMITIVE

    def logical(self, schema: Any) -> Fit | None:
        made = LOGICAL.get(logical_type(schema))
        return None if made is None else made(schema)

    def union(self, branches: Sequence[Any]) -> Fit:
        ordered = sorted(branches, key=lambda branch: _LATER.get(avro_type(branch), 0))
        tagged = tuple((tag_of(branch), self.of(branch)) for branch in ordered if avro_type(branch) != "null")
        return _union(tagged, "null" in branches or {"type": "null"} in branches)

    def array(self, items: Fit) -> Fit:
        return _array(items)

    def mapping(self, values: Fit) -> Fit:
        return _map(values)

    def enum(self, name: str, symbols: Sequence[str]) -> Fit:
        return _enum(name, tuple(symbols))

    def fixed(self, size: int) -> Fit:
        return _fixed(size)

    def record(self, schema: Any, fields: Mapping[str, Fit]) -> Fit:
        given = [field for field in schema["fields"] if "default" in field]
        defaults = {str(field["name"]): (self.defaults.of(field["type"]), field["default"]) for field in given}
        return _record(str(schema["name"]), fields, defaults)

    @cached_property
    def defaults(self) -> _Fits:
        """The fits of the schema's own defaults."""
        return _DefaultFits(self._parsed)


class _DefaultFits(_Fits):
    """The fits of defaults, which are JSON: bytes are texts of one character each, also those of a decimal, and of a
    union's branches the first one is meant, as they stand in the schema."""

    @property
    def primitives(self) -> Mapping[str, Fit]:
        return _PRIMITIVE_DEFAULTS

    @property
    def defaults(self) -> _Fits:
        return self

    def logical(self, schema: Any) -> Fit | None:
        if logical_type(schema) == "bytes-decimal":
            return _unscaled(_bytes, int(schema["precision"]))
        if logical_type(schema) == "fixed-decimal":
            return _unscaled(_fixed(int(schema["size"])), int(schema["precision"]))
        return super().logical(schema)

    def union(self, branches: Sequence[Any]) -> Fit:
        return _union(tuple((tag_of(branch), self.of(branch)) for branch in branches), nullable=False)

    def fixed(self, size: int) -> Fit:
        return _characters(_fixed(size))


def _null(value: Any, levels: int) -> None:
    if plain(value) is not None:
        raise Misfit(f"{value_and_type(value)} is not None")


def _boolean(value: Any, levels: int) -> bool:
    value = plain(value)
    if not isinstance(value, bool):
        raise Misfit(f"{value_and_type(value)} is not a boolean")
    return value


def _whole(bits: int) -> Fit:
    beyond = 2 ** (bits - 1)

    def fit(value: Any, levels: int) -> int:
        if type(value) is not int:
            value = plain(value)
            if not isinstance(value, int) or isinstance(value, bool):
                raise Misfit(f"{value_and_type(value)} is not a whole number")
        if not -beyond <= value < beyond:
            raise Misfit(f"{value_and_type(value)} is not a number of {bits} bits")
        return int(value)

    return fit


def _double(value: Any, levels: int) -> float:
    if type(value) is not float:
        value = plain(value)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise Misfit(f"{value_and_type(value)} is not a number")
    try:
        number = float(value)
    except OverflowError:
        raise Misfit(f"{value_and_type(value)} is beyond a double") from None
    if number != value and not math.isnan(number):
        raise Misfit(f"{value_and_type(value)} would be rounded as a double")
    return number


def _float(value: Any, levels: int) -> float:
    value = plain(value)
    number = _double(value, levels)
    try:
        (rounded,) = struct.unpack("<f", struct.pack("<f", number))
    except OverflowError:
        raise Misfit(f"{value_and_type(value)} is beyond a float") from None
    if isinstance(value, int) and rounded != number:
        raise Misfit(f"{value_and_type(value)} would be rounded as a float")
    return number


def _string(value: Any, levels: int) -> str:
    if type(value) is not str:
        value = plain(value)
        if not isinstance(value, str):
            raise Misfit(f"{value_and_type(value)} is not text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Misfit(f"{value_and_type(value)} has half a surrogate pair, which is no Unicode") from None
    return str(value)


def _bytes(value: Any, levels: int) -> bytes:
    value = plain(value)
    if not isinstance(value, bytes | bytearray):
        raise Misfit(f"{value_and_type(value)} is not bytes")
    return bytes(value)


def _fixed(size: int) -> Fit:
    def fit(value: Any, levels: int) -> bytes:
        made = _bytes(value, levels)
        if len(made) != size:
            raise Misfit(f"{len(made)} bytes instead of {size}")
        return made

    return fit


def _characters(inner: Fit) -> Fit:
    """The fit of bytes that are given as a text, a character each."""

    def fit(value: Any, levels: int) -> bytes:
        try:
            made: bytes = inner(value.encode("latin-1"), levels)
        except (AttributeError, UnicodeEncodeError):
            raise Misfit(f"the default {value_and_type(value)} is not a text of bytes") from None
        return made

    return fit


def _unscaled(inner: Fit, precision: int) -> Fit:
    """The fit of a decimal's default, which is its unscaled number in bytes."""
    bytes_of = _characters(inner)

    def fit(value: Any, levels: int) -> bytes:
        made: bytes = bytes_of(value, levels)
        if abs(int.from_bytes(made, signed=True)) >= 10**precision:
            raise Misfit(f"the default is a decimal of more than {precision} digits")
        return made

    return fit


def _enum(name: str, symbols: tuple[str, ...]) -> Fit:
    def fit(value: Any, levels: int) -> str:
        value = plain(value)
        if not isinstance(value, str) or value not in symbols:
            raise Misfit(f"{value_and_type(value)} is not a symbol of {name}")
        return str(value)

    return fit


def _array(inner: Fit) -> Fit:
    def fit(value: Any, levels: int) -> list[Any]:
        value = plain(value)
        if not isinstance(value, list | tuple):
            raise Misfit(f"{value_and_type(value)} is not a list")
        if levels == 0:
            raise Misfit(_TOO_DEEP)
        made: list[Any] = []
        try:
            for item in value:
                made.append(inner(item, levels - 1))  # noqa: PERF401  so that it is known which does not fit
        except Misfit as misfit:
            raise misfit.inside(len(made)) from None
        return made

    return fit


def _map(inner: Fit) -> Fit:
    def fit(value: Any, levels: int) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise Misfit(f"{value_and_type(value)} is not an object")
        if levels == 0:
            raise Misfit(_TOO_DEEP)
        made = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise Misfit(f"the name {value_and_type(key)} is not text")
            try:
                made[_string(key, levels)] = inner(item, levels - 1)
            except Misfit as misfit:
                raise misfit.inside(key) from None
        return made

    return fit


def _record(name: str, fields: Mapping[str, Fit], defaults: Mapping[str, tuple[Fit, Any]]) -> Fit:
    def fit(value: Any, levels: int) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise Misfit(f"{value_and_type(value)} is not an object, as {name} is")
        if levels == 0:
            raise Misfit(_TOO_DEEP)
        made = {}
        absent = 0
        key = ""
        try:
            for key, inner in fields.items():
                if key in value:
                    made[key] = inner(value[key], levels - 1)
                elif key in defaults:
                    fit_default, default = defaults[key]
                    made[key] = fit_default(default, levels - 1)
                    absent += 1
                else:
                    raise Misfit("the field is missing")
        except Misfit as misfit:
            raise misfit.inside(key) from None
        if len(value) != len(made) - absent:
            extra = next(key for key in value if key not in fields)
            raise Misfit(f"{name} has no field {value_and_type(extra)}")
        return made

    return fit


def _union(branches: tuple[tuple[str, Fit], ...], nullable: bool) -> Fit:
    tags = ", ".join([*(["null"] if nullable else []), *(tag for tag, _ in branches)])

    def fit(value: Any, levels: int) -> tuple[str, Any]:
        if nullable and plain(value) is None:
            return "null", None
        for tag, inner in branches:
            try:
                return tag, inner(value, levels)
            except Misfit:
                if len(branches) == 1:
                    raise
        raise Misfit(f"{value_and_type(value)} fits none of {tags}")

    return fit


_PRIMITIVE: Mapping[str, Fit] = MappingProxyType(
    {
        "null": _null,
        "boolean": _boolean,
        "int": _whole(32),
        "long": _whole(64),
        "float": _float,
        "double": _double,
        "bytes": _bytes,
        "string": _string,
    }
)
_PRIMITIVE_DEFAULTS: Mapping[str, Fit] = MappingProxyType({**_PRIMITIVE, "bytes": _characters(_bytes)})
