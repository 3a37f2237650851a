"""Shapes of values in all formats, and their conversion to columns of declared types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from topologies.io.formats.conform import convertible, is_text
from topologies.io.formats.event_files import type_name
from topologies.io.messages.message import Misfit, value_and_type

# The facts that a schema tells about its values, in any schema language. Types of records may be recursive, so a
# record's fields are looked up only when a declared type needs them.


Make = Callable[[Any], Any]
"""Converts a value for pyarrow. Raises Misfit."""
_kinds = pa.types


@dataclass(frozen=True)
class Leaf:
    """A value without parts, of one Arrow type."""

    kind: pa.DataType
    make: Make | None = None
    """Converts a value; None if pyarrow accepts the values unchanged."""
    number: pa.DataType | None = None
    """The type of a time in columns declared as whole numbers; None for other values."""
    text: Make | None = None
    """Converts a value to its name for columns of text, for example of an enum; None for values without names."""


@dataclass(frozen=True)
class StructShape:
    """A record, an object or a message with named fields."""

    fields: Callable[[], Mapping[str, Shape]]
    get: Callable[[Any, str], Any] = lambda value, name: value.get(name)
    """Returns the value of a field, None if it is missing."""
    as_leaf: Callable[[pa.DataType], Leaf | None] = lambda target: None
    """Returns the leaf by which the record can also be read as a single value of the declared type; None if it
    cannot."""


@dataclass(frozen=True)
class ListShape:
    """A list."""

    items: Shape


@dataclass(frozen=True)
class MapShape:
    """A map."""

    keys: Shape
    values: Shape
    ordered: bool = True
    """False if entries come in another order at each reading; rows then have them ordered by key."""


@dataclass(frozen=True)
class UnionShape:
    """A value of one of several types, which the class of its Python object tells."""

    branches: Sequence[tuple[tuple[type, ...], Shape]]


Shape = Leaf | StructShape | ListShape | MapShape | UnionShape

NULL = Leaf(pa.null())


class Conversion(NamedTuple):
    """Conversion of values to an Arrow array, which ``conform_rows`` then converts to the declared type."""

    kind: pa.DataType
    make: Make | None


def conversion_to(shape: Shape, target: pa.DataType, form: str | None = None) -> Conversion:
    """Returns the conversion for a declared column; ``form``: the declared form of its times.

    Raises Misfit if no value of the shape fits the declared type.
    """
    match shape:
        case Leaf():
            conversion = _leaf_conversion(shape, target)
        case StructShape():
            conversion = _struct_conversion(shape, target)
        case ListShape():
            conversion = _list_conversion(shape, target)
        case MapShape():
            conversion = _map_conversion(shape, target)
        case UnionShape():
            return _union_conversion(shape, target, form)
    if not convertible(conversion.kind, target, form):
        raise _impossible(
            type_name(conversion.kind) if _is_declarable(conversion.kind) else str(conversion.kind), target
        )
    return conversion


def convert_values(conversion: Conversion, values: Sequence[Any]) -> tuple[list[Any], dict[int, str]]:
    """Converts values for pyarrow. Returns them, with null for each value that does not fit, and the reasons by
    index."""
    make = conversion.make
    if make is None:
        return list(values), {}
    converted: list[Any] = []
    reasons: dict[int, str] = {}
    for index, value in enumerate(values):
        try:
            converted.append(None if value is None else make(value))
        except Misfit as misfit:
            reasons[index] = str(misfit.unwritable()).removeprefix("the event: ")
            converted.append(None)
    return converted, reasons


def _impossible(given: str, target: pa.DataType) -> Misfit:
    return Misfit(f"it is {given} in the schema of the record, and declared as {type_name(target)}")


def _is_declarable(kind: pa.DataType) -> bool:
    return not _kinds.is_timestamp(kind) or kind.tz == "UTC"


def _leaf_conversion(leaf: Leaf, target: pa.DataType) -> Conversion:
    if leaf.number is not None and _kinds.is_integer(target):
        return Conversion(leaf.number, None)
    if leaf.text is not None and is_text(target):
        return Conversion(pa.string(), leaf.text)
    return Conversion(leaf.kind, leaf.make)


def _struct_conversion(shape: StructShape, target: pa.DataType) -> Conversion:
    leaf = shape.as_leaf(target)
    if leaf is not None:
        return _leaf_conversion(leaf, target)
    if not _kinds.is_struct(target):
        raise _impossible("a record", target)
    fields = shape.fields()
    parts = {each.name: _conversion_at(fields.get(each.name, NULL), each.type, each.name) for each in target}
    get = shape.get
    kind = pa.struct([(name, part.kind) for name, part in parts.items()])

    def make(value: Any) -> dict[str, Any]:
        made = {}
        for name, part in parts.items():
            inner = get(value, name)
            made[name] = inner if inner is None or part.make is None else _convert_at(part.make, inner, name)
        return made

    plain = shape.get is StructShape.get and all(part.make is None for part in parts.values())
    return Conversion(kind, None if plain else make)


def _list_conversion(shape: ListShape, target: pa.DataType) -> Conversion:
    if _kinds.is_map(target) and isinstance(shape.items, StructShape):
        return _pairs(shape.items, target)
    if not _kinds.is_list(target):
        raise _impossible("a list", target)
    item = _conversion_at(shape.items, target.value_type, "element")
    return Conversion(pa.list_(item.kind), _each(item.make))


def _each(inner: Make | None) -> Make:
    if inner is None:
        return list

    def make(value: Any) -> list[Any]:
        return [one if one is None else _convert_at(inner, one, index) for index, one in enumerate(value)]

    return make


def _map_conversion(shape: MapShape, target: pa.DataType) -> Conversion:
    if not _kinds.is_map(target):
        raise _impossible("a map", target)
    key, item = (
        _conversion_at(shape.keys, target.key_type, "key"),
        _conversion_at(shape.values, target.item_type, "value"),
    )
    key_of, item_of, ordered = key.make, item.make, shape.ordered

    def make(value: Any) -> list[tuple[Any, Any]]:
        return [
            (
                name if key_of is None else _convert_at(key_of, name, "key"),
                one if one is None or item_of is None else _convert_at(item_of, one, str(name)),
            )
            for name, one in (value.items() if ordered else sorted(value.items(), key=_key))
        ]

    return Conversion(pa.map_(key.kind, item.kind), make)


def _key(entry: tuple[Any, Any]) -> Any:
    return entry[0]


def _pairs(entry: StructShape, target: pa.DataType) -> Conversion:
    """Returns the conversion of a list of records with a key and a value, as which maps without text keys are
    written."""
    fields = entry.fields()
    if set(fields) != {"key", "value"}:
        raise _impossible("a list", target)
    key = _conversion_at(fields["key"], target.key_type, "key")
    item = _conversion_at(fields["value"], target.item_type, "value")

    def make(value: Any) -> list[tuple[Any, Any]]:
        made = []
        for one in value:
            name, inner = entry.get(one, "key"), entry.get(one, "value")
            if name is None:
                raise Misfit("a key of a map is null")
            made.append(
                (
                    name if key.make is None else _convert_at(key.make, name, "key"),
                    inner if inner is None or item.make is None else _convert_at(item.make, inner, str(name)),
                )
            )
        return made

    return Conversion(pa.map_(key.kind, item.kind), make)


def _union_conversion(shape: UnionShape, target: pa.DataType, form: str | None) -> Conversion:
    """Returns the conversion for the branches that fit the declared type, if they share one Arrow type. A value of
    another branch does not fit."""
    fitting: list[tuple[tuple[type, ...], Conversion]] = []
    for classes, branch in shape.branches:
        try:
            fitting.append((classes, conversion_to(branch, target, form)))
        except Misfit:
            continue
    kinds = {column.kind for _, column in fitting}
    if not fitting or len(kinds) > 1:
        raise _impossible("a union of several types", target)

    def make(value: Any) -> Any:
        for classes, column in fitting:
            if isinstance(value, classes) and (bool in classes or not isinstance(value, bool)):
                return value if column.make is None else column.make(value)
        raise Misfit(f"{value_and_type(value)} is of another type of the union than {type_name(target)}")

    return Conversion(fitting[0][1].kind, make)


def _conversion_at(shape: Shape, target: pa.DataType, name: str) -> Conversion:
    try:
        return conversion_to(shape, target)
    except Misfit as misfit:
        raise misfit.inside(name) from None


def _convert_at(make: Make, value: Any, step: str | int) -> Any:
    try:
        return make(value)
    except Misfit as misfit:
        raise misfit.inside(step) from None


# Rows from a schema's values.


@dataclass(frozen=True)
class Rows:
    """Values of one shape, and their positions among the records."""

    shape: Shape
    positions: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def array_of(self, field: pa.Field, form: str | None) -> tuple[pa.Array, dict[int, str]]:
        """Returns a declared column of the values, and reasons for values that do not fit, by index.

        A value that is not a record is the single declared column. The column is null if the schema lacks the field.
        Raises Misfit.
        """
        shape, values = self.shape, self.values
        if isinstance(shape, StructShape) and shape.as_leaf(field.type) is None:
            inner = shape.fields().get(field.name, NULL)
            get = shape.get
            values = [None if inner is NULL else get(value, field.name) for value in values]
            shape = inner
        column = conversion_to(shape, field.type, form)
        converted, reasons = convert_values(column, values)
        try:
            return pa.array(converted, column.kind), reasons
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return _one_by_one(converted, column.kind, reasons)


def _one_by_one(converted: list[Any], kind: pa.DataType, reasons: dict[int, str]) -> tuple[pa.Array, dict[int, str]]:
    """Returns an array of values; those of another type are null, with a reason by index."""
    for index, value in enumerate(converted):
        try:
            pa.array([value], kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            reasons[index] = f"{value_and_type(value)} is no {kind}, as the schema of the record says"
            converted[index] = None
    return pa.array(converted, kind), reasons
