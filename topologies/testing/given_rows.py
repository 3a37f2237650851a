"""Rows in tests' notation (dicts, tuples, a DataFrame or an Arrow table), as events with declared columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
import pyarrow as pa

from windowing.columns import copy_table
from windowing.conversion import REFUSED, convert_column, in_declared_order
from windowing.errors import ConfigError, ScenarioError, SchemaError, did_you_mean
from windowing.schema import TIMESTAMP, SchemaLike, format_schema, from_rows, parse_schema
from windowing.timestamps import parse_time, to_datetime

if TYPE_CHECKING:
    import pandas as pd

GivenRow: TypeAlias = "Mapping[str, Any] | tuple[Any, ...]"
GivenRows: TypeAlias = "Iterable[GivenRow] | GivenRow | pa.Table | pa.RecordBatch | pd.DataFrame"
"""One row or several: dicts by column name (missing ones are null), or tuples in column order; or a table.

Times are datetimes (UTC without a zone), ISO 8601 such as ``"2024-01-01T06:00:03Z"``, or whole milliseconds since 1970.
Missing values and NaN of a DataFrame are null, as in pandas; in dicts and tuples NaN is a value.
"""

Moment: TypeAlias = "datetime | str | float"
"""A datetime (UTC without a zone), ISO 8601, or milliseconds since 1970."""

COLUMNS = "user string, amount double, ts timestamp"
"""Example of declared columns, for errors."""

_FORMS = "a list of dicts or tuples, a pandas DataFrame or an Arrow table"


def given_moment(what: str, value: Moment) -> int:
    """Returns a time in microseconds. Raises ConfigError if the value is not a time."""
    try:
        return parse_time(value)
    except ScenarioError as error:
        raise ConfigError(f"{what}: {error.what}", why=error.why, do=error.do) from None


def as_table(what: str, rows: GivenRows, schema: pa.Schema) -> pa.Table:
    """Returns the rows as a table with these columns; ``what``: their purpose, for errors.

    A missing column is null. Raises SchemaError for an unknown column, or a value of another type.
    """
    table = _table_of(rows)
    if table is not None:
        _check_names(what, table.column_names, schema)
        columns = [_cast(what, table, field) for field in schema]
        return copy_table(pa.Table.from_arrays(columns, schema=schema))
    values = _values_by_column(what, _as_list_of_rows(what, rows), schema)
    columns = [_column(what, values[field.name], field) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def schema_of(
    what: str, rows: GivenRows, times: Collection[str] = (), *, declare: str = f"schema={COLUMNS!r}"
) -> pa.Schema:
    """Returns the schema that follows from the rows; columns in ``times`` are timestamps if they contain texts.

    Raises ConfigError, with how to ``declare`` a schema, if none follows: tuples have no names, and an empty list has
    no columns.
    """
    table = _table_of(rows)
    if table is not None:
        found = table.schema
    else:
        listed = _as_list_of_rows(what, rows)
        if not listed or not all(isinstance(row, Mapping) for row in listed):
            raise ConfigError(
                f"{what}: the columns are not known",
                why="there are no rows" if not listed else "tuples have no column names",
                do=f"declare them: {declare}; or give dicts",
            )
        names = dict.fromkeys(name for row in listed for name in row)
        found = pa.schema([(str(name), _inferred_type(what, name, listed)) for name in names])
    return pa.schema([_as_time(field) if field.name in times else field for field in found])


def columns_of(
    name: str,
    inputs: Collection[str],
    rows: GivenRows,
    schema: SchemaLike | Mapping[str, SchemaLike] | None,
    times: Collection[str] = (),
) -> pa.Schema:
    """Returns the columns of one of several inputs: the declared ones, or else those of its rows."""
    declared = schema.get(name) if isinstance(schema, Mapping) else schema
    if declared is not None:
        return parse_schema(declared)
    declare = f"schema={COLUMNS!r}" if len(inputs) == 1 else f"schema={{{name!r}: {COLUMNS!r}}}"
    return schema_of(f"input {name!r}", rows, times, declare=declare)


def _as_list_of_rows(what: str, rows: Any) -> list[Mapping[str, Any] | tuple[Any, ...]]:
    """Returns the rows as a list; a single row becomes a list of one."""
    listed = [rows] if _is_one_row(rows) else rows
    if isinstance(listed, str | bytes) or not isinstance(listed, Iterable):
        raise ConfigError(f"{what}: {rows!r:.60} are not rows", do=f"give {_FORMS}")
    listed = list(listed)
    for at, row in enumerate(listed):
        if not _is_row(row):
            raise ConfigError(
                f"{what}: row {at} is {row!r:.60}",
                why="a row is a dict or a tuple",
                do=f"give {_FORMS}; for several inputs a mapping of these: {{'orders': [...], 'prices': [...]}}",
            )
    return listed


def _is_one_row(rows: object) -> bool:
    """True for one row, False for rows in a tuple."""
    return isinstance(rows, Mapping) or (isinstance(rows, tuple) and not all(map(_is_row, rows)))


def _is_row(value: object) -> TypeGuard[Mapping[str, Any] | tuple[Any, ...]]:
    return isinstance(value, Mapping | tuple)


def _table_of(rows: Any) -> pa.Table | None:
    match rows:
        case pa.Table():
            return rows
        case pa.RecordBatch():
            return pa.Table.from_batches([rows])
    if hasattr(rows, "columns") and hasattr(rows, "iloc"):
        return pa.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata(None)
    return None


def _check_names(what: str, names: Iterable[object], schema: pa.Schema, row: int | None = None) -> None:
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        place = "" if row is None else f" row {row}:"
        raise SchemaError(
            f"{what}:{place} there is no column {unknown[0]!r}",
            why=f"the columns are {format_schema(schema)!r}{did_you_mean(str(unknown[0]), schema.names)}",
            do="correct the name, or declare the column",
        )


def _values_by_column(
    what: str, rows: Sequence[Mapping[str, Any] | tuple[Any, ...]], schema: pa.Schema
) -> dict[str, list[Any]]:
    """Returns the values of each column."""
    values: dict[str, list[Any]] = {name: [] for name in schema.names}
    for at, row in enumerate(rows):
        if isinstance(row, tuple):
            if len(row) != len(schema):
                raise SchemaError(
                    f"{what}: row {at} has {len(row)} values, {row!r:.60}",
                    why=f"there are {len(schema)} columns, {format_schema(schema)!r}",
                    do="give a value for each, None for null; or a dict with those that there are",
                )
            pairs = zip(schema.names, in_declared_order(row, schema.names), strict=True)
        else:
            _check_names(what, row, schema, at)
            pairs = zip(schema.names, map(row.get, schema.names), strict=True)
        for name, value in pairs:
            values[name].append(value)
    return values


def _cast(what: str, table: pa.Table, field: pa.Field) -> Any:
    if field.name not in table.column_names:
        return pa.nulls(table.num_rows, field.type)
    column = table.column(field.name)
    if column.type == field.type:
        return column
    if pa.types.is_timestamp(field.type) and not pa.types.is_timestamp(column.type):
        return _column(what, column.to_pylist(), field)
    try:
        return convert_column(column, field.type)
    except REFUSED as error:
        raise SchemaError(
            f"{what}: column {field.name!r} is {column.type}, and was declared {field.type}",
            why=str(error),
            do="convert it, or declare the type that it has",
        ) from None


def _column(what: str, values: Sequence[Any], field: pa.Field) -> Any:
    """Returns Python values as a column. Raises SchemaError with the first value of another type."""
    try:
        return _convert(values, field)
    except (SchemaError, ScenarioError):
        for at, value in enumerate(values):
            try:
                _convert([value], field)
            except (SchemaError, ScenarioError) as error:
                raise SchemaError(
                    f"{what}: row {at}, column {field.name!r}: {value!r:.60} is no {_type_as_text(field)}",
                    why=error.why if isinstance(error, SchemaError) else "",
                    do=error.do if isinstance(error, ScenarioError) else "give a value of that type, or None for null",
                ) from None
        raise


def _convert(values: Sequence[Any], field: pa.Field) -> Any:
    if pa.types.is_timestamp(field.type):
        values = [None if _is_missing(value) else to_datetime(_micros_in_calendar(value)) for value in values]
    if not values:
        return pa.nulls(0, field.type)
    return from_rows([(value,) for value in values], pa.schema([field])).column(0)


def _is_missing(value: object) -> bool:
    """True if a time is missing: null, or pandas' NaT."""
    return value is None or (isinstance(value, datetime | np.datetime64) and value != value)  # noqa: PLR0124


def _micros_in_calendar(value: object) -> int:
    micros = parse_time(value.item() if isinstance(value, np.integer | np.floating) else value)
    try:
        to_datetime(micros)
    except OverflowError:
        raise ScenarioError(
            f"{value!r} is outside the years 1 to 9999", do="give None for a row without a time"
        ) from None
    return micros


def _inferred_type(what: str, name: object, rows: Sequence[Any]) -> pa.DataType:
    values = [row.get(name) for row in rows]
    try:
        kind = pa.infer_type(values)
    except pa.ArrowInvalid as error:
        raise SchemaError(
            f"{what}: the values of column {name!r} are of several types",
            why=str(error),
            do=f"declare the columns: schema={COLUMNS!r}",
        ) from None
    if pa.types.is_timestamp(kind):
        return TIMESTAMP
    return pa.string() if pa.types.is_null(kind) else kind


def _as_time(field: pa.Field) -> pa.Field:
    return pa.field(field.name, TIMESTAMP) if pa.types.is_string(field.type) else field


def _type_as_text(field: pa.Field) -> str:
    return format_schema(pa.schema([field.with_name("c")]))[2:]
