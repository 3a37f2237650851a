"""What a bolt may return, and how it becomes a table of the declared columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from windowing.calls.checked import checked_on_failure
from windowing.data.conversion import REFUSED, converted, of_values
from windowing.data.reprs import of_fields
from windowing.data.schema import format_schema
from windowing.errors import SchemaError

DEFAULT_STREAM = "default"

EmittedRows = Any
"""None, a table, record batch, DataFrame, one row as a dict or tuple, ``Emit``, or an iterable of any of these."""


@checked_on_failure
@dataclass(frozen=True)
class Emit:
    """Rows for a named output stream: ``yield Emit(rows, stream="alerts")``."""

    rows: EmittedRows
    stream: str = DEFAULT_STREAM

    def __repr__(self) -> str:
        return of_fields(self)


Loose = list[tuple[Any, ...]]
"""Rows given one by one, each already in the order of the declared columns."""


def emissions(rows: EmittedRows, outputs: Mapping[str, pa.Schema]) -> Iterator[tuple[str, pa.Table | Loose]]:
    """What a bolt's return value stands for: streams, and for each a table or loose rows, checked but their types.

    Loose rows that follow each other on a stream come together; ``from_rows`` makes them a table.
    """
    if rows is None:
        return
    if isinstance(rows, (tuple, dict)) and DEFAULT_STREAM in outputs:  # the common case of one row
        yield DEFAULT_STREAM, [_row(rows, outputs[DEFAULT_STREAM])]
        return
    gathered: Loose = []
    last = ""
    for stream, part in _flatten(rows, DEFAULT_STREAM):
        if not isinstance(stream, str) or stream not in outputs:
            raise SchemaError(
                f"rows for a stream {stream!r}",
                why=f"the bolt declares {', '.join(map(repr, outputs)) or 'no outputs'}",
                do="declare it in `outputs`, or emit to one that is declared",
            )
        if gathered and (stream != last or not isinstance(part, (dict, tuple))):
            yield last, gathered
            gathered = []
        if isinstance(part, (dict, tuple)):
            gathered.append(_row(part, outputs[stream]))
            last = stream
        else:
            yield stream, conform(_as_table(part, outputs[stream]), outputs[stream])
    if gathered:
        yield last, gathered


def tables(rows: EmittedRows, outputs: Mapping[str, pa.Schema]) -> Iterator[tuple[str, pa.Table]]:
    """The streams and tables that a bolt's return value stands for."""
    for stream, part in emissions(rows, outputs):
        yield stream, from_rows(part, outputs[stream]) if isinstance(part, list) else part


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with exactly the declared columns, in their order and types.

    Columns are found by name, never by place (decision 61). Other names than those declared are a SchemaError, and so
    are conversions that would change a value (``windowing.data.conversion``).
    """
    if table.schema.equals(schema):
        return table
    _check_names(table.column_names, schema)
    table = table.select(schema.names)
    columns = []
    for field, column in zip(schema, table.columns, strict=True):
        try:
            columns.append(converted(column, field.type))
        except REFUSED as error:
            raise SchemaError(
                f"column {field.name!r} is {column.type}, and was declared {field.type}",
                why=str(error),
                do="declare the type that the bolt returns, or convert it in the bolt",
            ) from error
    return pa.Table.from_arrays(columns, schema=schema)


def _check_names(names: list[str], schema: pa.Schema) -> None:
    """Raise SchemaError unless the columns of a table are those declared, in any order."""
    wanted = schema.names
    if len(names) == len(wanted) and set(names) == set(wanted):
        return
    missing = [name for name in wanted if name not in names]
    strange = [name for name in names if name not in wanted]
    if missing and len(names) == len(wanted):
        rest = iter(missing)
        renamed = [name if name in wanted else next(rest, name) for name in names]
        do = f"name them, perhaps table.rename_columns({renamed}), or return tuples, which go by place"
        raise _mismatch(names, schema, f"the columns of a table go by name, and there is no {_quoted(missing)}", do)
    if missing:
        raise _mismatch(names, schema, f"the columns of a table go by name, and there is no {_quoted(missing)}")
    do = f"return the declared columns alone, table.select({wanted}), or declare the others in `outputs`"
    raise _mismatch(names, schema, f"there are more columns: {_quoted(strange) or 'a name stands twice'}", do)


def _flatten(rows: EmittedRows, stream: str) -> Iterator[tuple[str, Any]]:
    if rows is None:
        return
    if isinstance(rows, Emit):
        yield from _flatten(rows.rows, rows.stream)
    elif isinstance(rows, (pa.Table, pa.RecordBatch, dict, tuple)) or _is_frame(rows):
        yield stream, rows
    elif isinstance(rows, Iterable) and not isinstance(rows, (str, bytes)):
        for part in rows:
            yield from _flatten(part, stream)
    else:
        raise SchemaError(
            f"a bolt returned {type(rows).__name__} {rows!r:.60}",
            why="that is neither rows nor a table",
            do="return None, a pyarrow table, a DataFrame, a dict or tuple per row, or yield any of these",
        )


def _is_frame(rows: Any) -> bool:
    return hasattr(rows, "columns") and hasattr(rows, "iloc")


def _as_table(part: Any, schema: pa.Schema) -> pa.Table:
    """What a bolt returned as a table. A DataFrame without names, 0, 1, 2, has those that are declared."""
    if isinstance(part, pa.Table):
        return part
    if isinstance(part, pa.RecordBatch):
        return pa.Table.from_batches([part])
    table = pa.Table.from_pandas(part, preserve_index=False).replace_schema_metadata(None)
    unnamed = list(part.columns) == list(range(len(schema)))
    return table.rename_columns(schema.names) if unnamed else table


def _row(row: dict[str, Any] | tuple[Any, ...], schema: pa.Schema) -> tuple[Any, ...]:
    names = schema.names
    if isinstance(row, tuple):
        if len(row) != len(names):
            raise _mismatch(list(row), schema, f"a row has {len(row)} values, {len(names)} were declared")
        return row
    if len(row) != len(names) or any(name not in row for name in names):
        missing = [name for name in names if name not in row]
        strange = [name for name in row if name not in names]
        absent = [f"there is no {_quoted(missing)}"] if missing else []
        more = [f"{_quoted(strange)} {'is' if len(strange) == 1 else 'are'} not declared"] if strange else []
        raise _mismatch(list(row), schema, "; ".join(absent + more))
    return tuple(row[name] for name in names)


def from_rows(rows: Loose, schema: pa.Schema) -> pa.Table:
    """Loose rows as a table; SchemaError where a value is not of the declared type."""
    arrays = []
    for field, column in zip(schema, zip(*rows, strict=True), strict=True):
        try:
            arrays.append(of_values(column, field.type))
        except REFUSED as error:
            raise SchemaError(
                f"column {field.name!r} was declared {field.type}, and a value is something else",
                why=str(error),
                do="declare the type that the bolt returns, or convert the value in the bolt",
            ) from error
    return pa.Table.from_arrays(arrays, schema=schema)


def _quoted(names: Iterable[Any]) -> str:
    return ", ".join(map(repr, names))


def _mismatch(
    found: list[Any], schema: pa.Schema, why: str, do: str = "return the declared columns, or change `outputs`"
) -> SchemaError:
    return SchemaError(
        f"a bolt returned {', '.join(map(str, found))[:200]}, but declares {format_schema(schema)!r}",
        why=why,
        do=do,
    )
