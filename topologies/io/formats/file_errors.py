"""Errors of a file as a whole."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from unicodedata import normalize

import pyarrow as pa

from windowing.data.schema import format_schema
from windowing.errors import ConfigError, DataError, WindboltError


@contextmanager
def reading(path: str, kind: str) -> Iterator[None]:
    """Turn what the readers raise about a file into a DataError that names it."""
    try:
        yield
    except (WindboltError, MemoryError):
        raise
    except (pa.ArrowException, OSError, EOFError, UnicodeError) as error:
        raise DataError(
            f"{path!r} cannot be read as {kind}",
            why=str(error).strip() or type(error).__name__,
            do="check that the file is whole and of this format",
        ) from error


def refuse_empty(source: pa.NativeFile, path: str, kind: str) -> None:
    if source.size() == 0:
        raise DataError(
            f"{path!r} is empty",
            why=f"files of {kind} have at least a header",
            do="write it again, or remove it",
        )


def refuse_absent(path: str, present: Sequence[str], schema: pa.Schema, optional: Collection[str] = ()) -> None:
    """Raise DataError for declared columns that a file lacks, or has more than once.

    Those in ``optional`` may be absent, unless none is present: such a file is probably not one of these.
    """
    absent = [name for name in schema.names if name not in present]
    if len(absent) < len(schema):
        absent = [name for name in absent if name not in optional]
    if absent:
        raise DataError(
            f"{path!r} has no column {', '.join(map(repr, absent))}",
            why=f"its columns are {', '.join(map(repr, present)) or '(none)'}" + _other_form(absent, present),
            do="declare the columns that are in the file, by their names",
        )
    twice = [name for name in schema.names if present.count(name) > 1]
    if twice:
        raise DataError(
            f"{path!r} has the column {', '.join(map(repr, twice))} more than once",
            why="a column is known by its name",
            do="give each column of the file a name of its own",
        )


def _other_form(absent: Sequence[str], present: Sequence[str]) -> str:
    """What to say of names that look alike: ``é`` may be one character, or an ``e`` and its accent."""
    for name in absent:
        alike = [each for each in present if normalize("NFKC", each) == normalize("NFKC", name)]
        if alike:
            return f"; {alike[0]!r} has other characters, {alike[0]!a} and not {name!a}"
    return ""


def type_name(kind: pa.DataType) -> str:
    """A type in the notation of declarations."""
    return format_schema(pa.schema([pa.field("c", kind)]))[2:]


def declared_once(schema: pa.Schema) -> None:
    if len(set(schema.names)) != len(schema.names):
        raise ConfigError(
            f"the schema names a column more than once: {', '.join(schema.names)}",
            why="a column is known by its name",
            do="give each column a name of its own",
        )


def refuse_invalid(path: str, table: pa.Table, rows: int) -> None:
    """Raise DataError for columns whose data do not match their types; text is left to be checked row by row."""
    if table.num_rows != rows:
        raise DataError(
            f"{path!r} holds {table.num_rows} rows, but its header says {rows}",
            why="the file is damaged, or was changed while it was read",
            do="write it again",
        )
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type
        if pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_decimal(kind):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                raise DataError(
                    f"{path!r} is damaged in column {name!r}", why=str(error), do="write it again"
                ) from error
