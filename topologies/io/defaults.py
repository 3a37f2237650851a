"""Defaults of a spout's columns: the values that rows have where they have none of their own.

One rule, whatever the rows come from: where a row has no value in a column, because the column is missing or null, it
has the default. A value that cannot be read is no missing one; its row is bad, as without a default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from math import isclose, isfinite, isnan
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from topologies.io.formats.file_errors import type_name
from topologies.io.given_tables import given_table, is_data_frame
from windowing.data.reprs import shown
from windowing.data.returned_rows import EmittedRows, from_rows
from windowing.errors import ConfigError, SchemaError
from windowing.suggestions import did_you_mean
from windowing.time.timestamps import from_datetime, show

_NEAREST = 1e-3
"""How far the nearest number of the shortest floating-point type may be from the one that was given."""


@dataclass(frozen=True)
class Defaults:
    """The defaults of a spout's columns."""

    columns: Mapping[str, pa.Array] = field(default_factory=dict)
    """Per column that has a default, an array of its type that holds it alone."""

    @staticmethod
    def of(given: Mapping[str, Any], schema: pa.Schema) -> Defaults:
        """The defaults that a user declares for rows of these columns. ConfigError for those that cannot be."""
        unknown = [name for name in given if name not in schema.names]
        if unknown:
            raise ConfigError(
                f"defaults name {unknown[0]!r:.60}, and there is no such column"
                + did_you_mean(str(unknown[0]), schema.names),
                why=f"the columns are {', '.join(schema.names)}",
                do="correct the name, or declare the column",
            )
        return Defaults({name: _array(schema.field(name), value) for name, value in given.items()})

    def __bool__(self) -> bool:
        return bool(self.columns)

    def filled(self, table: pa.Table) -> pa.Table:
        """The rows with the default where they have null; columns that are not there are left out."""
        for name, default in self.columns.items():
            place = table.column_names.index(name) if name in table.column_names else None
            if place is not None and table.column(place).null_count:
                table = table.set_column(place, table.field(place), _filled(table.column(place), default))
        return table

    def completed(self, rows: EmittedRows) -> EmittedRows:
        """Rows that are given in Python, with null where they lack a column that has a default.

        Tuples go by place, and are left as they are.
        """
        if not self.columns or rows is None or isinstance(rows, tuple | str | bytes):
            return rows
        if isinstance(rows, dict):
            return dict.fromkeys(self.columns) | rows
        if is_data_frame(rows) and _is_unnamed(rows):
            return rows
        table = given_table(rows)
        if table is not None:
            for name in [name for name in self.columns if name not in table.column_names]:
                table = table.append_column(name, pa.nulls(len(table), self.columns[name].type))
            return table
        return [self.completed(each) for each in rows] if isinstance(rows, Iterable) else rows

    def in_words(self) -> dict[str, str]:
        """Per column its default, as it is written in Python."""
        return {name: in_words(default) for name, default in self.columns.items()}


def in_words(default: pa.Array) -> str:
    """A default as it is written in Python, and times as people write them."""
    value = default[0].as_py()
    if isinstance(value, datetime):
        return show(from_datetime(value))
    return str(value) if isinstance(value, date) else shown(value)


def _filled(column: pa.ChunkedArray, default: pa.Array) -> pa.ChunkedArray:
    return pc.coalesce(column, default[0])


def _array(column: pa.Field, value: object) -> pa.Array:
    kind = type_name(column.type)
    if value is None:
        raise ConfigError(
            f"the default of column {column.name!r} is None",
            why="rows that have no value have null already",
            do="give a value, or leave the column out of the defaults",
        )
    try:
        array = from_rows([(value,)], pa.schema([column])).column(0).combine_chunks()
    except SchemaError as error:
        raise _no_value(column, value, kind, error.why) from None
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise _no_value(column, value, kind, str(error)) from None
    if not _is_same(value, array[0].as_py()):
        raise _no_value(column, value, kind, f"it would become {shown(array[0].as_py())}")
    try:
        _filled(pa.chunked_array([pa.nulls(1, column.type)]), array)
    except pa.ArrowNotImplementedError as error:
        raise ConfigError(
            f"column {column.name!r} cannot have a default",
            why=f"Arrow cannot fill in values of type {column.type}",
            do="declare another type for the column, such as string or binary",
        ) from error
    return array


def _no_value(column: pa.Field, value: object, kind: str, why: str) -> ConfigError:
    return ConfigError(
        f"the default of column {column.name!r} is {shown(value)}, which is no {kind}",
        why=why,
        do="give a value that the column can have as it is: " + _EXAMPLES.get(kind, "one of that type"),
    )


_EXAMPLES = {
    "timestamp": "a datetime",
    "date": "a date",
    "binary": "bytes",
    "string": "a text",
    "boolean": "True or False",
    **dict.fromkeys(("tinyint", "smallint", "int", "long"), "a whole number in its range"),
    **dict.fromkeys(("float", "double"), "a number"),
}


def _is_same(given: Any, kept: Any) -> bool:  # noqa: PLR0911 - one for each kind
    """Whether a value is the one that was given: Arrow cuts off the time of day for a date, and fractions in lists."""
    match kept:
        case None:
            return given is None
        case bool():
            return given is kept
        case dict():
            return (
                isinstance(given, Mapping)
                and given.keys() <= kept.keys()
                and all(_is_same(given.get(name), value) for name, value in kept.items())
            )
        case list() | tuple():
            items = list(given.items()) if isinstance(given, Mapping) else given
            return (
                isinstance(items, Sequence)
                and len(items) == len(kept)
                and all(_is_same(one, other) for one, other in zip(items, kept, strict=True))
            )
        case float():
            if isinstance(given, bool):
                return False
            return bool(isnan(given)) if isnan(kept) else bool(kept == given) or _is_near(given, kept)
        case datetime():
            return isinstance(given, datetime) and _in_utc(given) == _in_utc(kept)
        case date():
            return type(given) is date and given == kept
    return bool(kept == given) and not isinstance(given, bool)


def _is_near(given: float, kept: float) -> bool:
    return isfinite(kept) and isclose(kept, given, rel_tol=_NEAREST)


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _is_unnamed(frame: Any) -> bool:
    """Whether the columns of a DataFrame go by place."""
    return list(frame.columns) == list(range(len(frame.columns)))
