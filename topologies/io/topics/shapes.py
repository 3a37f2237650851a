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
class Struct:
    """A record, an object or a message with named fields."""

    fields: Callable[[], Mapping[str, Shape]]
    get: Callable[[Any, str], Any] = lambda value, name: value.get(name)
    """Returns the value of a field, None if it is missing."""
    whole: Callable[[pa.DataType], Leaf | None] = lambda target: None
    """Returns the leaf by which the record can also be read as a single value of the declared type; None if it
    cannot."""


@dataclass(frozen=True)
class Repeated:
    """A list."""

    items: Shape


@dataclass(frozen=True)
class Mapped:
    """A map."""

    keys: Shape
    values: Shape
    ordered: bool = True
    """False if entries come in another order at each reading; rows then have them ordered by key."""


@dataclass(frozen=True)
class Union:
    """A value of one of several types, which the class of its Python object tells."""

    branches: Sequence[tuple[tuple[type, ...], Shape]]


Shape = Leaf | Struct | Repeated | Mapped | Union

NULL = Leaf(pa.null())


class Column(NamedTuple):
    """Conversion of values to an Arrow array, which ``conform_rows`` then converts to the declared type."""

    kind: pa.DataType
    make: Make | None


def column_of(shape: Shape, target: pa.DataType, form: str | None = None) -> Column:
    """Returns the conversion for a declared column; ``form``: the declared form of its times.

    Raises Misfit if no value of the shape fits the declared type.
    """
    match shape:
        case Leaf():
            column = _leaf(shape, target)
        case Struct():
            column = _struct(shape, target)
        case Repeated():
            column = _listed(shape, target)
        case Mapped():
            column = _mapped(shape, target)
        case Union():
            return _union(shape, target, form)
    if not convertible(column.kind, target, form):
        raise _impossible(type_name(column.kind) if _is_declarable(column.kind) else str(column.kind), target)
    return column


def values_of(column: Column, values: Sequence[Any]) -> tuple[list[Any], dict[int, str]]:
    """Converts values for pyarrow. Returns them, with null for each value that does not fit, and the reasons by
    index."""
    make = column.make
    if make is None:
        return list(values), {}
    made: list[Any] = []
    reasons: dict[int, str] = {}
    for index, value in enumerate(values):
        try:
            made.append(None if value is None else make(value))
        except Misfit as misfit:
            reasons[index] = str(misfit.unwritable()).removeprefix("the event: ")
            made.append(None)
    return made, reasons


def _impossible(given: str, target: pa.DataType) -> Misfit:
    return Misfit(f"it is {given} in the schema of the record, and declared as {type_name(target)}")


def _is_declarable(kind: pa.DataType) -> bool:
    return not _kinds.is_timestamp(kind) or kind.tz == "UTC"


def _leaf(leaf: Leaf, target: pa.DataType) -> Column:
    if leaf.number is not None and _kinds.is_integer(target):
        return Column(leaf.number, None)
    if leaf.text is not None and is_text(target):
        return Column(pa.string(), leaf.text)
    return Column(leaf.kind, leaf.make)


def _struct(shape: Struct, target: pa.DataType) -> Column:
    leaf = shape.whole(target)
    if leaf is not None:
        return _leaf(leaf, target)
    if not _kinds.is_struct(target):
        raise _impossible("a record", target)
    fields = shape.fields()
    parts = {each.name: _column_at(fields.get(each.name, NULL), each.type, each.name) for each in target}
    get = shape.get
    kind = pa.struct([(name, part.kind) for name, part in parts.items()])

    def make(value: Any) -> dict[str, Any]:
        made = {}
        for name, part in parts.items():
            inner = get(value, name)
            made[name] = inner if inner is None or part.make is None else _converted_at(part.make, inner, name)
        return made

    plain = shape.get is Struct.get and all(part.make is None for part in parts.values())
    return Column(kind, None if plain else make)


def _listed(shape: Repeated, target: pa.DataType) -> Column:
    if _kinds.is_map(target) and isinstance(shape.items, Struct):
        return _pairs(shape.items, target)
    if not _kinds.is_list(target):
        raise _impossible("a list", target)
    item = _column_at(shape.items, target.value_type, "element")
    return Column(pa.list_(item.kind), _each(item.make))


def _each(inner: Make | None) -> Make:
    if inner is None:
        return list

    def make(value: Any) -> list[Any]:
        return [one if one is None else _converted_at(inner, one, index) for index, one in enumerate(value)]

    return make


def _mapped(shape: Mapped, target: pa.DataType) -> Column:
    if not _kinds.is_map(target):
        raise _impossible("a map", target)
    key, item = _column_at(shape.keys, target.key_type, "key"), _column_at(shape.values, target.item_type, "value")
    key_of, item_of, ordered = key.make, item.make, shape.ordered

    def make(value: Any) -> list[tuple[Any, Any]]:
        return [
            (
                name if key_of is None else _converted_at(key_of, name, "key"),
                one if one is None or item_of is None else _converted_at(item_of, one, str(name)),
            )
            for name, one in (value.items() if ordered else sorted(value.items(), key=_key))
        ]

    return Column(pa.map_(key.kind, item.kind), make)


def _key(entry: tuple[Any, Any]) -> Any:
    return entry[0]


def _pairs(entry: Struct, target: pa.DataType) -> Column:
    """Returns the conversion of a list of records with a key and a value, as which maps without text keys are
    written."""
    fields = entry.fields()
    if set(fields) != {"key", "value"}:
        raise _impossible("a list", target)
    key = _column_at(fields["key"], target.key_type, "key")
    item = _column_at(fields["value"], target.item_type, "value")

    def make(value: Any) -> list[tuple[Any, Any]]:
        made = []
        for one in value:
            name, inner = entry.get(one, "key"), entry.get(one, "value")
            if name is None:
                raise Misfit("a key of a map is null")
            made.append(
                (
                    name if key.make is None else _converted_at(key.make, name, "key"),
                    inner if inner is None or item.make is None else _converted_at(item.make, inner, str(name)),
                )
            )
        return made

    return Column(pa.map_(key.kind, item.kind), make)


def _union(shape: Union, target: pa.DataType, form: str | None) -> Column:
    """Returns the conversion for the branches that fit the declared type, if they share one Arrow type. A value of
    another branch does not fit."""
    fitting: list[tuple[tuple[type, ...], Column]] = []
    for classes, branch in shape.branches:
        try:
            fitting.append((classes, column_of(branch, target, form)))
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

    return Column(fitting[0][1].kind, make)


def _column_at(shape: Shape, target: pa.DataType, name: str) -> Column:
    try:
        return column_of(shape, target)
    except Misfit as misfit:
        raise misfit.inside(name) from None


def _converted_at(make: Make, value: Any, step: str | int) -> Any:
    try:
        return make(value)
    except Misfit as misfit:
        raise misfit.inside(step) from None


# Rows from a schema's values.


@dataclass(frozen=True)
class Rows:
    """Values of one shape, and their positions among the records."""

    shape: Shape
    places: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def array_of(self, field: pa.Field, form: str | None) -> tuple[pa.Array, dict[int, str]]:
        """Returns a declared column of the values, and reasons for values that do not fit, by index.

        A value that is not a record is the single declared column. The column is null if the schema lacks the field.
        Raises Misfit.
        """
        shape, values = self.shape, self.values
        if isinstance(shape, Struct) and shape.whole(field.type) is None:
            inner = shape.fields().get(field.name, NULL)
            get = shape.get
            values = [None if inner is NULL else get(value, field.name) for value in values]
            shape = inner
        column = column_of(shape, field.type, form)
        made, reasons = values_of(column, values)
        try:
            return pa.array(made, column.kind), reasons
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return _one_by_one(made, column.kind, reasons)


def _one_by_one(made: list[Any], kind: pa.DataType, reasons: dict[int, str]) -> tuple[pa.Array, dict[int, str]]:
    """Returns an array of values; those of another type are null, with a reason by index."""
    for index, value in enumerate(made):
        try:
            pa.array([value], kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            reasons[index] = f"{value_and_type(value)} is no {kind}, as the schema of the record says"
            made[index] = None
    return pa.array(made, kind), reasons
