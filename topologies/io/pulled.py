"""A user's spout as part of a topology."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Any

import numpy as np
import pyarrow as pa

from topologies.io.file_spout import FoundFile, SpoutOfRowsInMemory, check_merging, checked_zone, in_zone
from topologies.io.formats.text_values import from_wall_times
from topologies.io.spout_columns import as_arrow_table, is_data_frame
from windowing.conversion import in_declared_order
from windowing.errors import ConfigError
from windowing.schema import DEFAULT_STREAM, EmittedRows, parse_schema
from windowing.spout import PartitionedSpout, Spout
from windowing.timestamps import zone_of


@dataclass(frozen=True)
class UsersSpout:
    """A user's spout as part of a topology."""

    spout: Spout | PartitionedSpout

    def __repr__(self) -> str:
        return repr(self.spout)

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Returns the default values for columns."""
        return zoned_defaults(self.spout.defaults, parse_schema(self.spout.schema), self.spout.timezone)


@dataclass(frozen=True, repr=False)
class PulledSpout(UsersSpout):
    """A user's spout whose rows a run pulls and keeps in the checkpoint."""

    spout: Spout

    def outputs(self) -> dict[str, pa.Schema]:
        """Returns the declared columns. Raises ConfigError if there are none, or if the limit or a method is
        invalid."""
        return {DEFAULT_STREAM: _checked_schema(self.spout, Spout)}


@dataclass(frozen=True, repr=False)
class RangedSpout(UsersSpout):
    """A user's spout of partitions, whose read ranges a run keeps in the checkpoint."""

    spout: PartitionedSpout

    @property
    def merge_by(self) -> str | None:
        """Returns the column by which the rows of a batch's partitions are merged."""
        return self.spout.merge_by

    def outputs(self) -> dict[str, pa.Schema]:
        """Returns the declared columns. Raises ConfigError if there are none, or if the limit, ``merge_by`` or a method
        is invalid."""
        schema = _checked_schema(self.spout, PartitionedSpout)
        if self.merge_by is not None:
            check_merging(self.merge_by, schema)
        return {DEFAULT_STREAM: schema}


def _checked_schema(spout: Spout | PartitionedSpout, base: type) -> pa.Schema:
    kind = type(spout).__name__
    if getattr(spout, "schema", None) is None:
        raise ConfigError(
            f"{kind} declares no columns",
            why="the columns of a spout are declared",
            do='write schema = "ts timestamp, ..." in the class',
        )
    limit = spout.rows_per_batch
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise ConfigError(
            f"{kind} has rows_per_batch = {limit!r}", why="a batch takes at least one row", do="give a whole number"
        )
    if spout.timezone is not None and not isinstance(spout.timezone, str):
        raise ConfigError(
            f"{kind} has timezone = {spout.timezone!r}",
            why="zones go by their names, or by their offset",
            do="give a text, such as 'Europe/Berlin'",
        )
    checked_zone(spout.timezone)
    for name, method in vars(base).items():
        if inspect.isfunction(method):
            _check_call(spout, name, list(inspect.signature(method).parameters)[1:])
    return parse_schema(spout.schema)


def _check_call(spout: Spout | PartitionedSpout, name: str, arguments: list[str]) -> None:
    """Raises ConfigError for a method that does not accept these arguments."""
    method = getattr(spout, name)
    try:
        inspect.signature(method).bind(*arguments)
    except ValueError:  # code of C cannot be inspected
        return
    except TypeError as error:
        code = getattr(method, "__code__", None)
        where = "" if code is None else f" at {code.co_filename}:{code.co_firstlineno}"
        raise ConfigError(
            f"{type(spout).__name__}.{name}{where} cannot be called as {name}({', '.join(arguments)})",
            why=str(error),
            do=f"write def {name}({', '.join(['self', *arguments])})",
        ) from error


# Times without a zone in users' rows are in the zone that their spout names.


def in_their_zone(rows: EmittedRows, schema: pa.Schema, zone: str | None) -> EmittedRows:
    """Returns rows whose times without a zone are read in ``zone``, by the rules of ``spouts.files``: datetimes, dates
    in timestamp columns, and columns of tables. None is UTC, which needs no change."""
    if checked_zone(zone) is None:
        return rows
    return _zoned_rows(rows, in_zone(schema, zone))


def _zoned_rows(rows: EmittedRows, schema: pa.Schema) -> EmittedRows:
    if isinstance(rows, dict):
        return {name: _zoned_value(each, _type_of(schema, name)) for name, each in rows.items()}
    if isinstance(rows, tuple) and len(rows) == len(schema):
        ordered = in_declared_order(rows, schema.names)
        return tuple(_zoned_value(each, field.type) for each, field in zip(ordered, schema, strict=True))
    if rows is None or isinstance(rows, tuple | str | bytes):
        return rows
    table = as_arrow_table(rows)
    if table is None:
        return (_zoned_rows(each, schema) for each in rows) if isinstance(rows, Iterable) else rows
    if table.column_names == [str(index) for index in range(len(schema))]:  # a DataFrame without column names
        table = table.rename_columns(schema.names)
    for index, column in enumerate(table.columns):
        kind = _type_of(schema, table.column_names[index])
        if kind is None or column.type == kind:
            continue
        if _has_times(kind) and is_data_frame(rows) and rows.dtypes.iloc[index].kind == "O":
            values = [_zoned_value(each, kind) for each in rows.iloc[:, index]]
            zoned = pa.array(values, from_pandas=True)
        else:
            zoned = _zoned_column(column, kind)
        table = table.set_column(index, table.column_names[index], zoned)
    return table


def zoned_defaults(given: Mapping[str, Any], schema: pa.Schema, zone: str | None) -> Mapping[str, Any]:
    """Returns the defaults of a spout; times without a zone are read in its zone."""
    if checked_zone(zone) is None or not isinstance(given, Mapping):
        return given
    zoned = in_zone(schema, zone)
    return {name: _zoned_value(value, _type_of(zoned, name)) for name, value in given.items()}


def _type_of(schema: pa.Schema, name: object) -> pa.DataType | None:
    return schema.field(name).type if name in schema.names else None


def _zoned_column(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | pa.Array:
    column_type = column.type
    if pa.types.is_dictionary(column_type):
        return _zoned_column(column.cast(column_type.value_type), kind)
    if pa.types.is_timestamp(column_type) and column_type.tz is None and pa.types.is_timestamp(kind):
        chunks = [from_wall_times(chunk, pa.timestamp(column_type.unit, kind.tz)) for chunk in column.chunks]
        return pa.chunked_array(chunks, pa.timestamp(column_type.unit, kind.tz))
    if pa.types.is_date(column_type) and pa.types.is_timestamp(kind):
        return _zoned_column(column.cast(pa.timestamp("us")), kind)
    if pa.types.is_nested(column_type) and _has_times(kind):
        return pa.array([_zoned_value(each, kind) for each in column.to_pylist()])
    return column


def _has_times(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) or any(_has_times(kind.field(at).type) for at in range(kind.num_fields))


def _zoned_value(value: Any, kind: pa.DataType | None) -> Any:  # noqa: PLR0911 - one for each kind
    if kind is None or value is None:
        return value
    if pa.types.is_timestamp(kind):
        if isinstance(value, np.datetime64):
            micros = value.astype("datetime64[us]")
            value = micros.item() if micros == value else value  # a NaT or a finer time is refused
        if isinstance(value, datetime):
            return value.replace(tzinfo=zone_of(kind.tz)) if value.tzinfo is None else value
        return datetime.combine(value, time(), zone_of(kind.tz)) if isinstance(value, date) else value
    if pa.types.is_struct(kind) and isinstance(value, Mapping):
        types = {field.name: field.type for field in kind}
        return {name: _zoned_value(each, types.get(name)) for name, each in value.items()}
    if pa.types.is_map(kind):
        pairs = list(value.items()) if isinstance(value, Mapping) else value
        if not isinstance(pairs, list | tuple) or any(
            not isinstance(each, list | tuple) or len(each) != 2 for each in pairs
        ):
            return value  # refused later, with a reason
        return [(_zoned_value(key, kind.key_type), _zoned_value(each, kind.item_type)) for key, each in pairs]
    several = isinstance(value, Collection) and not isinstance(value, Mapping | bytes | str)
    if several and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return [_zoned_value(each, kind.value_type) for each in value]
    return value


@dataclass(frozen=True, repr=False)
class PulledRows(SpoutOfRowsInMemory):
    """Pulled rows of a user's spout, in files of a checkpoint; each file is a batch."""

    place: str = field(default="", kw_only=True)
    """The folder of these files; ``paths`` has it as a pattern."""

    def now(self, path: str) -> str:
        """Returns the current path of a file, even if the checkpoint was moved after the batch with the file was
        planned."""
        return f"{self.place}/{path.rsplit('/', 1)[1]}"

    def cut(self, files: Iterable[FoundFile]) -> Iterator[list[FoundFile]]:
        """Yields one batch for each file; the next file is pulled on demand."""
        for file in files:
            yield [file]


@dataclass(frozen=True, repr=False)
class PulledRanges(PulledRows):
    """Ranges of a user's partitions, in files of a checkpoint; each file is a batch and has no rows."""

    spout: PartitionedSpout = field(kw_only=True)
