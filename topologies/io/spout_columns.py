"""Columns that a spout adds to the columns of its files: from folders, from file metadata, and from defaults."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from math import isclose, isfinite, isnan
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from topologies.io.formats import Chunk
from topologies.io.formats.declared_times import Times, form_of
from topologies.io.formats.event_files import BadRow, OnTruncation, python_columns, row_as_json, short_repr, type_name
from topologies.io.formats.text_values import Mask, bad_mask, convertible_text, cut_mask, parse_text
from topologies.io.paths import is_partition
from windowing.errors import ConfigError, DataError, SchemaError, did_you_mean
from windowing.reprs import nested_repr
from windowing.schema import TIMESTAMP, EmittedRows, format_schema, from_rows, parse_schema
from windowing.timestamps import from_datetime, show

# Metadata columns of a file spout, about the file of each row.


FILE_METADATA = pa.schema([("file_path", pa.string()), ("file_modified", TIMESTAMP), ("file_row", pa.int64())])
"""Columns of file metadata: the path, as in error rows; the time of the file's last change, like Azure's
BlobProperties.LastModified (AZ-1); and the number of the row in the file, from 0, as in error rows."""

_PREFIX = "file_"


def checked_file_metadata(requested: bool | str | Iterable[str]) -> tuple[str, ...]:
    """Returns the names of the requested metadata columns. Users may leave out the prefix. Raises ConfigError for an
    unknown name."""
    if isinstance(requested, bool):
        return tuple(FILE_METADATA.names) if requested else ()
    names = (requested,) if isinstance(requested, str) else tuple(requested)
    full = [name if str(name).startswith(_PREFIX) else f"{_PREFIX}{name}" for name in names]
    unknown = [name for name, full_name in zip(names, full, strict=True) if full_name not in FILE_METADATA.names]
    if unknown:
        raise ConfigError(
            f"metadata={unknown[0]!r} of files",
            why="a file has a path, a time at which it was last changed, and rows with numbers",
            do=f"use True, or some of {', '.join(FILE_METADATA.names)}",
        )
    return tuple(name for name in FILE_METADATA.names if name in full)


def refuse_as_metadata(declared: Iterable[str], metadata: Iterable[str]) -> None:
    """Raises ConfigError for a name that is both a declared column and a metadata column."""
    taken = sorted(set(metadata) & set(declared))
    if taken:
        raise ConfigError(
            f"column {', '.join(map(repr, taken))} is declared and also requested as metadata",
            why="a column is known by its name",
            do="give the column another name, or list the metadata without it",
        )


def with_file_metadata(declared: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """Returns the columns of rows, with the columns of file metadata. Raises ConfigError for a repeated name."""
    refuse_as_metadata(declared.names, names)
    return pa.schema([*declared, *(FILE_METADATA.field(name) for name in names)])


class FileMetadata:
    """The metadata of the rows of one file."""

    def __init__(self, filesystem: pafs.FileSystem, path: str, shown: str, names: Sequence[str]) -> None:
        self._names = names
        self._values: dict[str, pa.Scalar] = {}
        """The values that all rows of the file share."""
        for name in names:
            if name != "file_row":
                value = shown if name == "file_path" else _modified(filesystem, path)
                self._values[name] = pa.scalar(value, FILE_METADATA.field(name).type)

    def with_metadata(self, table: pa.Table, numbers: npt.NDArray[np.int64]) -> pa.Table:
        """Returns rows of the file with the requested metadata columns; ``numbers``: their row numbers."""
        for name in self._names:
            value = self._values.get(name)
            column = pa.array(numbers) if value is None else pa.repeat(value, table.num_rows)
            table = table.append_column(FILE_METADATA.field(name), column)
        return table


def _modified(filesystem: pafs.FileSystem, path: str) -> pa.Scalar | None:
    """Returns the time of the file's last change in microseconds; None if the file system does not store it."""
    changed = filesystem.get_file_info(path).mtime_ns
    return None if changed is None else pa.scalar(changed // 1_000, pa.timestamp("us", "UTC"))


# Users' tables: pyarrow's, or DataFrames of pandas.


def as_arrow_table(given: Any) -> pa.Table | None:
    """Returns a table, a record batch or a DataFrame as a table; None for other values."""
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if is_data_frame(given):
        return pa.Table.from_pandas(given, preserve_index=False).replace_schema_metadata(None)
    return given if isinstance(given, pa.Table) else None


def is_data_frame(given: Any) -> bool:
    """True for a DataFrame of pandas, without importing pandas."""
    return hasattr(given, "iloc") and hasattr(given, "columns")


# Defaults of a spout's columns, for rows without a value. The rule is the same for all spouts: a missing column and a
# null get the default. An unreadable value does not: its row is bad, with or without a default.


_NEAREST = 1e-3
"""Greatest distance of a given number from its nearest number in the shortest floating-point type."""


@dataclass(frozen=True)
class Defaults:
    """The defaults of a spout's columns."""

    columns: Mapping[str, pa.Array] = field(default_factory=dict)
    """For each column with a default, an array of the column's type that contains only the default."""

    @staticmethod
    def of(given: Mapping[str, Any], schema: pa.Schema) -> Defaults:
        """Returns the defaults that a user declares for rows with these columns. Raises ConfigError for impossible
        defaults."""
        unknown = [name for name in given if name not in schema.names]
        if unknown:
            raise ConfigError(
                f"defaults name {unknown[0]!r:.60}, and there is no such column"
                + did_you_mean(str(unknown[0]), schema.names),
                why=f"the columns are {', '.join(schema.names)}",
                do="correct the name, or declare the column",
            )
        return Defaults({name: _default_array(schema.field(name), value) for name, value in given.items()})

    def __bool__(self) -> bool:
        return bool(self.columns)

    def filled(self, table: pa.Table) -> pa.Table:
        """Returns the rows with defaults in place of nulls; missing columns stay missing."""
        for name, default in self.columns.items():
            place = table.column_names.index(name) if name in table.column_names else None
            if place is not None and table.column(place).null_count:
                table = table.set_column(place, table.field(place), _filled(table.column(place), default))
        return table

    def completed(self, rows: EmittedRows) -> EmittedRows:
        """Returns rows of Python values, with null for missing columns that have a default.

        Tuples have values by position and stay unchanged. Rows of an iterable are read when they are used, because a
        generator may reuse one object for all rows.
        """
        if not self.columns or rows is None or isinstance(rows, tuple | str | bytes):
            return rows
        if isinstance(rows, dict):
            return dict.fromkeys(self.columns) | rows
        if is_data_frame(rows) and _is_unnamed(rows):
            return rows
        table = as_arrow_table(rows)
        if table is not None:
            for name in [name for name in self.columns if name not in table.column_names]:
                table = table.append_column(name, pa.nulls(len(table), self.columns[name].type))
            return table
        return map(self.completed, rows) if isinstance(rows, Iterable) else rows

    def in_words(self) -> dict[str, str]:
        """Returns each column's default in Python's notation."""
        return {name: in_words(default) for name, default in self.columns.items()}


def in_words(default: pa.Array) -> str:
    """Returns a default in Python's notation, but times in ISO format."""
    value = default[0].as_py()
    if isinstance(value, datetime):
        return show(from_datetime(value))
    return str(value) if isinstance(value, date) else nested_repr(value)


def _filled(column: pa.ChunkedArray, default: pa.Array) -> pa.ChunkedArray:
    return pc.coalesce(column, default[0])


def _default_array(column: pa.Field, value: object) -> pa.Array:
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
        raise _impossible_default(column, value, kind, error.why) from None
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise _impossible_default(column, value, kind, str(error)) from None
    if not _is_same(value, array[0].as_py()):
        raise _impossible_default(column, value, kind, f"it would become {nested_repr(array[0].as_py())}")
    try:
        _filled(pa.chunked_array([pa.nulls(1, column.type)]), array)
    except pa.ArrowNotImplementedError as error:
        raise ConfigError(
            f"column {column.name!r} cannot have a default",
            why=f"Arrow cannot fill in values of type {column.type}",
            do="declare another type for the column, such as string or binary",
        ) from error
    return array


def _impossible_default(column: pa.Field, value: object, kind: str, why: str) -> ConfigError:
    return ConfigError(
        f"the default of column {column.name!r} is {nested_repr(value)}, which is no {kind}",
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
    """True if Arrow kept a value unchanged: it cuts off the time of day for a date, and fractions in lists."""
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
    """True if the columns of a DataFrame have no names, only positions."""
    return list(frame.columns) == list(range(len(frame.columns)))


# Partition columns, from folders such as ``events/dt=2024-01-01/hour=06/`` (Hive's partitions).
#
# They are declared with their types, as in Hive's ``PARTITIONED BY (dt date, hour int)``; nothing is guessed from
# names. The values in a folder's name apply to all rows of its files. If a file also has such a column, its values must
# be equal.


NULL = "__HIVE_DEFAULT_PARTITION__"
"""The folder name for null, in Hive, Spark and all programs that write such folders."""
_NUMBER = re.compile(r"\s*[+-]?\d+(\.\d*)?([eE][+-]?\d+)?\s*")
"""Matches text that would mean milliseconds since 1970 in a file."""
_BASIC_DATE = re.compile(r"(\d{4})(\d\d)(\d\d)")


def checked_partition_columns(given: object) -> pa.Schema:
    """Returns the declared partition columns; none for None. Raises ConfigError for types that a folder's name cannot
    hold."""
    if given is None:
        return pa.schema([])
    if isinstance(given, tuple | list | set | frozenset):
        raise ConfigError(
            f"partition_columns={given!r:.60} is no declaration",
            why="the name of a folder is text, and which type it stands for is not guessed",
            do=f"declare them: partition_columns={', '.join(map(_declaration, given))!r}, or with types "
            "like date, int and timestamp",
        )
    columns = parse_schema(given)
    wrong = [field for field in columns if not (field.type == pa.string() or convertible_text(field.type))]
    if wrong:
        raise ConfigError(
            f"partition column {wrong[0].name!r} is declared as {type_name(wrong[0].type)}",
            why="the name of a folder is a text, a number, a date, a time, or true or false",
            do="declare it as string, and take it apart in a bolt",
        )
    return columns


def _declaration(given: object) -> str:
    """Returns the declaration of a column, from a user's name, or name and type."""
    match given:
        case (str() as name, str() as kind):
            return f"{name} {kind}"
        case (str() as name, *_):
            return f"{name} string"
    return f"{given} string"


def with_partition_columns(declared: pa.Schema, columns: pa.Schema) -> pa.Schema:
    """Returns the columns of files and of their folders. Raises ConfigError for a column that both have."""
    twice = [name for name in columns.names if name in declared.names]
    if twice:
        raise ConfigError(
            f"column {', '.join(map(repr, twice))} is in the schema, and in partition_columns",
            why="a column is read from the files, or from the names of their folders",
            do="leave it out of the schema; the rows have it all the same",
        )
    return pa.schema([*declared, *columns])


def folder_texts(path: str) -> dict[str, str]:
    """Returns the values of the folders ``name=value`` above a file, as text by column.

    As in Spark, only the group of directly nested folders nearest to the file counts; other folders may come between
    them and the file. Raises DataError for a repeated name.
    """
    found: dict[str, str] = {}
    for folder in reversed(path.split("/")[:-1]):
        if not is_partition(folder):
            if found:
                break
            continue
        name, _, value = folder.partition("=")
        name = unquote(name)
        if name in found:
            raise DataError(
                f"{path!r} is in two folders of the column {name!r}",
                why=f"they say {found[name]!r} and {value!r}",
                do="move the file",
            )
        found[name] = value
    return dict(reversed(found.items()))


@dataclass(frozen=True)
class Partition:
    """Values that a file's folders give to its rows."""

    values: Mapping[str, pa.Array]
    """For each column, an array of its type with only its value. A column is missing if it has a default and the
    folders have no value."""
    texts: Mapping[str, str]
    """For each column, the value in the folder's name."""
    cut: bool = False
    """True if a value is a time that was cut to microseconds."""

    @staticmethod
    def of(
        path: str,
        columns: pa.Schema,
        optional: Collection[str] = (),
        on_truncation: OnTruncation = "cut",
        times: Times = (),
    ) -> Partition:
        """Reads these columns from the folders of a file; only columns in ``optional`` may be missing.

        ``times``: the declared forms of times, by column. Raises DataError for a missing column, for a value of another
        type and, with ``on_truncation="error"``, for a finer time.
        """
        if not columns.names:
            return Partition({}, {})
        texts = folder_texts(path)
        absent = [name for name in columns.names if name not in texts and name not in optional]
        if absent:
            among = ", ".join(f"{name}=" for name in texts) or "none of the form name=value"
            raise DataError(
                f"{path!r} is in no folder {absent[0]}=...{did_you_mean(absent[0], texts)}",
                why=f"{absent[0]!r} is one of partition_columns, and the folders of the file are {among}",
                do="move the file, or give its spout a default for the column",
            )
        forms = dict(times)
        read = {
            field.name: _value(path, field, texts[field.name], forms.get(field.name))
            for field in columns
            if field.name in texts
        }
        cut = [name for name, (_, was_cut) in read.items() if was_cut]
        if cut and on_truncation == "error":
            raise DataError(
                f"{path!r} is in the folder {cut[0]}={texts[cut[0]]}, which is finer than a microsecond",
                why="on_truncation='error' cuts nothing",
                do="rename the folder, or leave on_truncation out",
            )
        return Partition({name: value for name, (value, _) in read.items()}, texts, bool(cut))

    def cast(self, columns: pa.Schema) -> Partition:
        """Returns these values in other types for the same moments."""
        values = {name: each.cast(columns.field(name).type) for name, each in self.values.items()}
        return replace(self, values=values)

    def apply_to(self, chunk: Chunk) -> Chunk:
        """Returns the rows with the values of their folders. A row with another value in the column is bad."""
        table, numbers, bad = chunk
        if not self.values:
            return chunk
        wrong: dict[str, Mask] = {}
        before = table
        for name, value in self.values.items():
            index = table.column_names.index(name)
            own = table.column(index)
            if own.null_count < len(own):
                other = pc.and_(
                    own.is_valid(), pc.invert(pc.is_in(_without_minus_zero(own), _without_minus_zero(value)))
                ).to_numpy()
                if other.any():
                    wrong[name] = other
            table = table.set_column(index, table.field(index), pa.chunked_array([_repeated(value, len(own))]))
        bad = bad.with_truncated(numbers) if self.cut else bad
        if not wrong:
            return table, numbers, bad
        mask = np.logical_or.reduce(list(wrong.values()))
        row_indices = np.flatnonzero(mask)
        shown = python_columns(before.take(pa.array(row_indices)))
        others = [
            BadRow(
                int(numbers[at]),
                "; ".join(
                    f"column {name!r}: {short_repr(shown[name][index])} is not what the folder of the file says, "
                    f"{name}={self.texts[name]}"
                    for name, other in wrong.items()
                    if other[at]
                ),
                row_as_json(shown, index),
            )
            for index, at in enumerate(row_indices.tolist())
        ]
        return table.filter(pa.array(~mask)), numbers[~mask], bad.with_others(others)


def undeclared(path: str, columns: pa.Schema) -> str | None:
    """Returns the schema with a column of strings for each folder ``name=value`` of the path that it lacks; None if it
    lacks none."""
    others = [name for name in folder_texts(path) if name not in columns.names]
    return format_schema(pa.schema([*columns, *((name, pa.string()) for name in others)])) if others else None


def _without_minus_zero(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Returns values with 0.0 in place of -0.0, because a look-up distinguishes them."""
    return pc.add(values, pa.scalar(0, values.type)) if pa.types.is_floating(values.type) else values


def _repeated(value: pa.Array, number: int) -> pa.Array:
    return pa.nulls(number, value.type) if value.null_count else pa.repeat(value[0], number)


def _value(path: str, column: pa.Field, given: str, form: str | None) -> tuple[pa.Array, bool]:
    """Returns the value of a folder, as an array of the column's type with only this value; and True if it was cut."""
    kind, text = column.type, _percent_decoded(given)
    if given == NULL:
        return pa.nulls(1, kind), False
    if text and kind == pa.string():
        return pa.array([text]), False
    if text and form is not None:
        values, flags = form_of(form).parse(pa.array([text]), kind)
        if flags is None or not bad_mask(flags).any():
            return values, flags is not None and cut_mask(flags) is not None
        raise DataError(
            f"{path!r} is in the folder {column.name}={given}, which is no {type_name(kind)}",
            why=form_of(form).reason(text),
            do="rename the folder, or correct times=",
        )
    if text and pa.types.is_temporal(kind):
        text = _BASIC_DATE.sub(r"\1-\2-\3", text) if _BASIC_DATE.fullmatch(text) else text
        text = None if _NUMBER.fullmatch(text) else text
    if text:
        values, flags = parse_text(pa.array([text]), kind)
        if flags is None or not bad_mask(flags).any():
            return values, flags is not None and cut_mask(flags) is not None
    raise DataError(
        f"{path!r} is in the folder {column.name}={given}, which is no {type_name(kind)}",
        why=_reason(column, given),
        do="rename the folder, or declare the column as string",
    )


def _percent_decoded(given: str) -> str | None:
    """Returns the value of a folder, in which characters may be written like %3A; None if the bytes are not UTF-8."""
    try:
        return unquote(given, errors="strict")
    except UnicodeDecodeError:
        return None


def _reason(column: pa.Field, given: str) -> str:
    if not given:
        return f"it has no value; a folder of rows without one is called {column.name}={NULL}"
    if _percent_decoded(given) is None:
        return "what it writes with percent signs is not UTF-8"
    if pa.types.is_temporal(column.type):
        return "dates and times are written like 2024-01-01, 20240101 or 2024-01-01T06:00:00"
    return f"partition_columns declare {column.name!r} as {type_name(column.type)}"
