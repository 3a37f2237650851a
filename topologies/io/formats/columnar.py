"""Columnar formats: Arrow IPC, ORC and Parquet, a chunk at a time, the declared columns only."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from pyarrow import ipc

from topologies.io.formats.conform import (
    as_bytes,
    conform_rows,
    is_text,
    only_present,
    refuse_impossible,
    with_absent,
    without_unneeded,
)
from topologies.io.formats.declared_times import Times, checked_times
from topologies.io.formats.event_files import (
    Chunk,
    FileSplit,
    OneSplit,
    OnTruncation,
    as_data_error,
    check_truncation,
    open_file,
    refuse_absent,
    refuse_empty,
    refuse_invalid,
    refuse_repeated_names,
)
from topologies.io.formats.text_values import Flags, Mask, flags_of_cut
from windowing.errors import ConfigError, DataError


class _Columnar:
    """Common part of the formats."""

    on_truncation: OnTruncation
    times: Times

    def __post_init__(self) -> None:
        check_truncation(self.on_truncation)
        object.__setattr__(self, "times", checked_times(self.times))

    def _columns_to_read(
        self,
        path: str,
        present: pa.Schema,
        schema: pa.Schema,
        needed: Collection[str] | None,
        optional: Collection[str],
    ) -> pa.Schema:
        """Returns the declared columns to read from a file with the columns ``present``. Raises DataError for an absent
        column, and for a type that can never become the declared type."""
        refuse_absent(path, present.names, schema, optional)
        schema = only_present(schema, present.names)
        refuse_impossible(path, present, schema, self.times)
        return without_unneeded(schema, present, needed)


# Arrow IPC: the file format (Feather 2) and the stream format, a chunk per record batch.


_MAGIC = b"ARROW1"
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_Reader: TypeAlias = "ipc.RecordBatchFileReader | ipc.RecordBatchStreamReader"


@dataclass(frozen=True)
class ArrowFormat(OneSplit, _Columnar):
    """Reads Arrow IPC files, and complete streams saved as files.

    A saved stream without its end mark is refused, since it may have been cut off between two batches.
    """

    on_truncation: OnTruncation = "cut"
    times: Times = ()
    name: ClassVar[str] = "arrow"

    def read(
        self,
        fs: pafs.FileSystem,
        split: FileSplit,
        schema: pa.Schema,
        needed: Collection[str] | None = None,
        optional: Collection[str] = (),
    ) -> Iterator[Chunk]:
        """Yields a chunk per record batch."""
        refuse_repeated_names(schema)
        row = 0
        with self._open(fs, split.path) as reader:
            with as_data_error(split.path, "Arrow IPC"):
                present = reader.schema
                declared, schema = schema, self._columns_to_read(split.path, present, schema, needed, optional)
            for batch in self._batches(reader, split.path):
                raw = pa.Table.from_batches([batch]).select(schema.names)
                with as_data_error(split.path, "Arrow IPC"):
                    _validate(raw)
                    numbers = np.arange(row, row + raw.num_rows, dtype=np.int64)
                    chunk = conform_rows(raw, schema, numbers, self.on_truncation, times=self.times)
                yield with_absent(chunk, declared, present.names)
                row += raw.num_rows

    def schema(self, fs: pafs.FileSystem, path: str) -> pa.Schema:
        """Returns the columns of the file, with their types there."""
        with self._open(fs, path) as reader, as_data_error(path, "Arrow IPC"):
            str(reader.schema)  # names may not be valid text
            return reader.schema.remove_metadata()

    def _batches(self, reader: _Reader, path: str) -> Iterator[pa.RecordBatch]:
        if isinstance(reader, ipc.RecordBatchFileReader):
            for index in range(reader.num_record_batches):
                with as_data_error(path, "Arrow IPC"):
                    batch = reader.get_batch(index)
                yield batch
            return
        while True:
            with as_data_error(path, "Arrow IPC"):
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
            yield batch

    @contextmanager
    def _open(self, fs: pafs.FileSystem, path: str) -> Iterator[_Reader]:
        with open_file(fs, path, "Arrow IPC") as source:
            with as_data_error(path, "Arrow IPC"):
                refuse_empty(source, path, "Arrow IPC")
                reader = _reader(source, path)
            yield reader


def _reader(source: pa.NativeFile, path: str) -> _Reader:
    if source.read(len(_MAGIC)) == _MAGIC:
        return ipc.open_file(source)
    size = source.size()
    source.seek(max(0, size - len(_END)))
    ended = source.read(len(_END)) == _END
    source.seek(0)
    if not ended:
        raise DataError(
            f"{path!r} has no end mark",
            why="it is not Arrow IPC, or it was cut off or is still being written",
            do="close the writer before the file is read",
        )
    return ipc.open_stream(source)


def _validate(table: pa.Table) -> None:
    for column in table.columns:
        for chunk in column.chunks:
            chunk.validate()
            _text_as_bytes(chunk).validate(full=True)


def _text_as_bytes(chunk: pa.Array) -> pa.Array:
    """Returns text as bytes, without validating it, so that invalid text costs only its row."""
    if pa.types.is_string_view(chunk.type):
        return pa.Array.from_buffers(pa.binary_view(), len(chunk), chunk.buffers(), offset=chunk.offset)
    return as_bytes(chunk) if is_text(chunk.type) else chunk


# Days of the Julian calendar, which Hive and Spark use before 15 October 1582. Read as Gregorian days, they would be
# wrong by up to two weeks.


_GREGORIAN = date(1582, 10, 15)
_LEGACY = b"org.apache.spark.legacyDateTime"
"""Metadata key of Parquet files in which Spark has written days and times of the Julian calendar."""
_SAME_IN_BOTH = datetime(1900, 1, 1, tzinfo=UTC)
"""From this time on, times of the Julian calendar in Spark's files need no conversion, whatever Spark's zone was."""


def _refuse_julian(path: str, form: str, raw: pa.Table, *, times: bool) -> None:
    """Raises DataError for a day, or one of the ``times``, that may be Julian, in a file whose writer used that
    calendar."""
    for name, column in zip(raw.column_names, raw.columns, strict=True):
        if not pa.types.is_nested(column.type) and not pa.types.is_temporal(column.type):
            continue
        for values in _temporal_in(column.combine_chunks()):
            is_day = pa.types.is_date(values.type)
            if not is_day and not times:
                continue
            first_alike = (
                _GREGORIAN if is_day else _SAME_IN_BOTH if values.type.tz else _SAME_IN_BOTH.replace(tzinfo=None)
            )
            if pc.any(pc.less(values, pa.scalar(first_alike, values.type))).as_py():
                raise DataError(
                    f"{path!r} holds a {'day before 15 October 1582' if is_day else 'time before 1900'} in column "
                    f"{name!r}",
                    why=f"in {form}, Hive and Spark write such a one by the Julian calendar, and it would be read as "
                    "another",
                    do="write the file again without it, with texts instead, or as Parquet, not in its legacy mode",
                )


# ORC: a chunk per stripe, the declared columns only.
#
# Arrow reads times of ORC in nanoseconds, which cover the years 1677 to 2262. A file with other times is refused.


_OUT_OF_RANGE = "out of range for nanosecond"
"""Arrow's message for a time outside these years."""


@dataclass(frozen=True)
class OrcFormat(OneSplit, _Columnar):
    """Reads ORC, each file as one split, because a stripe does not tell how many rows precede it.

    A timestamp without a zone is in the spout's ``timezone=``.
    """

    name: ClassVar[str] = "orc"

    on_truncation: OnTruncation = "cut"
    times: Times = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        _orc()

    def read(
        self,
        fs: pafs.FileSystem,
        split: FileSplit,
        schema: pa.Schema,
        needed: Collection[str] | None = None,
        optional: Collection[str] = (),
    ) -> Iterator[Chunk]:
        """Yields a chunk per stripe."""
        refuse_repeated_names(schema)
        row = 0
        with self._open(fs, split.path) as file:
            with as_data_error(split.path, "ORC"):
                present = file.schema
                declared, schema = schema, self._columns_to_read(split.path, present, schema, needed, optional)
                _refuse_wrapping(split.path, present, schema)
            for stripe in range(file.nstripes):
                with as_data_error(split.path, "ORC"):
                    raw = _stripe(file, split.path, stripe, schema)
                    refuse_invalid(split.path, raw, raw.num_rows)
                    if file.writer == "ORC_JAVA":
                        _refuse_julian(split.path, "ORC", raw, times=False)
                    numbers = np.arange(row, row + raw.num_rows, dtype=np.int64)
                    chunk = conform_rows(raw, schema, numbers, self.on_truncation, times=self.times)
                yield with_absent(chunk, declared, present.names)
                row += raw.num_rows
            if row != file.nrows:
                raise DataError(
                    f"{split.path!r} holds {row} rows, but its footer says {file.nrows}",
                    why="the file is damaged, or was changed while it was read",
                    do="write it again",
                )

    def schema(self, fs: pafs.FileSystem, path: str) -> pa.Schema:
        """Returns the columns of the file, with their types there."""
        with self._open(fs, path) as file, as_data_error(path, "ORC"):
            str(file.schema)  # names may be no text
            return file.schema.remove_metadata()

    @contextmanager
    def _open(self, fs: pafs.FileSystem, path: str) -> Iterator[Any]:
        with open_file(fs, path, "ORC") as source:
            with as_data_error(path, "ORC"):
                refuse_empty(source, path, "ORC")
                file = _orc().ORCFile(source)
            yield file


def _orc() -> Any:
    """Returns pyarrow's module for ORC, loaded on demand because not all builds have it."""
    try:
        from pyarrow import orc
    except ImportError as error:
        raise ConfigError(
            "the format 'orc' needs Arrow's reader of ORC",
            why=f"this build of pyarrow has none: {error}",
            do="install pyarrow with pip, or read Parquet",
        ) from error
    return orc


def _stripe(file: Any, path: str, stripe: int, schema: pa.Schema) -> pa.Table:
    try:
        dotted = any("." in name for name in schema.names)  # Arrow reads a dot as a field within a struct
        batch = file.read_stripe(stripe, columns=None if dotted else schema.names)
    except pa.ArrowInvalid as error:
        if _OUT_OF_RANGE not in str(error):
            raise
        raise DataError(
            f"{path!r} holds a time before 1677 or after 2262",
            why=f"Arrow reads times of ORC in nanoseconds: {error}",
            do="write the file again without that time, or as Parquet",
        ) from error
    return pa.Table.from_batches([batch]).select(schema.names)


def _refuse_wrapping(path: str, present: pa.Schema, schema: pa.Schema) -> None:
    """Raises DataError for time columns if Arrow would wrap times outside nanoseconds."""
    names = [field.name for field in schema if "timestamp" in str(present.field(field.name).type)]
    if names and _arrow_wraps_times():
        raise DataError(
            f"{path!r} has times in column {names[0]!r}",
            why=f"the reader of pyarrow {pa.__version__} would change those of some years without a word",
            do="install a later pyarrow, leave the column out, or write the file as Parquet",
        )


@cache
def _arrow_wraps_times() -> bool:
    """True if this version of Arrow wraps times that do not fit, so that they are read as other times."""
    buffer = io.BytesIO()
    _orc().write_table(pa.table({"t": pa.array([253_402_300_799], pa.timestamp("s"))}), buffer)
    try:
        _orc().ORCFile(pa.BufferReader(buffer.getvalue())).read()
    except pa.ArrowInvalid:
        return False
    return True


# Parquet: a chunk per row group, the declared columns only.


@dataclass(frozen=True)
class ParquetFormat(_Columnar):
    """Reads Parquet. Verifies page checksums if the file has them. ``use_threads`` lets pyarrow decode columns in
    parallel, for a reader that has the machine to itself."""

    use_threads: bool = False
    on_truncation: OnTruncation = "cut"
    times: Times = ()
    name: ClassVar[str] = "parquet"

    def split(self, fs: pafs.FileSystem, path: str, wanted: int) -> list[FileSplit]:
        """Returns splits of whole row groups, in order and of similar size."""
        with self._open(fs, path) as (file, _):
            parts = max(1, min(wanted, file.num_row_groups))
        return [FileSplit(path, part, parts) for part in range(parts)]

    def read(
        self,
        fs: pafs.FileSystem,
        split: FileSplit,
        schema: pa.Schema,
        needed: Collection[str] | None = None,
        optional: Collection[str] = (),
    ) -> Iterator[Chunk]:
        """Yields a chunk per row group."""
        refuse_repeated_names(schema)
        with self._open(fs, split.path) as (file, int96):
            with as_data_error(split.path, "Parquet"):
                present = file.schema_arrow
                declared, schema = schema, self._columns_to_read(split.path, present, schema, needed, optional)
            groups = split.share(file.num_row_groups)
            row = sum(file.metadata.row_group(group).num_rows for group in range(groups.start))
            for group in groups:
                raw, cut = self._group(file, int96, split.path, group, schema)
                with as_data_error(split.path, "Parquet"):
                    if _LEGACY in (file.metadata.metadata or ()):
                        _refuse_julian(split.path, "Parquet in its legacy mode", raw, times=True)
                    numbers = np.arange(row, row + raw.num_rows, dtype=np.int64)
                    chunk = conform_rows(raw, schema, numbers, self.on_truncation, cut, self.times)
                yield with_absent(chunk, declared, present.names)
                row += raw.num_rows

    def schema(self, fs: pafs.FileSystem, path: str) -> pa.Schema:
        """Returns the columns of the file, with their types there."""
        with self._open(fs, path) as (file, _), as_data_error(path, "Parquet"):
            str(file.schema_arrow)  # names may be no text
            return file.schema_arrow.remove_metadata()

    def _group(
        self, file: pq.ParquetFile, int96: _Int96 | None, path: str, group: int, schema: pa.Schema
    ) -> tuple[pa.Table, dict[str, Flags]]:
        """Returns a row group with the types of the file, and flags for its INT96 times that were cut."""
        cut: dict[str, Flags] = {}
        with as_data_error(path, "Parquet"):
            raw = file.read_row_group(group, columns=schema.names, use_threads=self.use_threads).select(schema.names)
            for name in _int96_columns(file, schema.names) if int96 is not None else ():
                column, flags = int96.column(path, group, name, raw[name])  # type: ignore[union-attr]
                raw = raw.set_column(raw.column_names.index(name), name, column)
                if flags is not None:
                    cut[name] = flags
        expected = file.metadata.row_group(group).num_rows
        refuse_invalid(path, raw, expected)
        return raw, cut

    @contextmanager
    def _open(self, fs: pafs.FileSystem, path: str) -> Iterator[tuple[pq.ParquetFile, _Int96 | None]]:
        """Yields the file, and the reader of its INT96 times; None without such times."""
        with open_file(fs, path, "Parquet") as source:
            with as_data_error(path, "Parquet"):
                refuse_empty(source, path, "Parquet")
                file = _file(source, "us")
                has_int96 = _int96_columns(file, file.schema_arrow.names)
                int96 = _Int96(_file(source, "ns"), _file(source, "ms")) if has_int96 else None
            yield file, int96


@dataclass(frozen=True)
class _Int96:
    """Reader of INT96 times: nanoseconds of any year. Arrow wraps those outside 64 bits, in a different range of years
    for each unit."""

    nanos: pq.ParquetFile
    millis: pq.ParquetFile

    def column(self, path: str, group: int, name: str, micros: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Flags | None]:
        """Returns the times of a row group, and a mask of the times that were cut; in nanoseconds if all times fit,
        else in microseconds."""
        fine, coarse = (each.read_row_group(group, columns=[name])[name] for each in (self.nanos, self.millis))
        if not _mask_of_wrapped(fine, coarse, 1_000_000).any():
            return fine, None
        column = _without_wrapped(path, micros, coarse)
        if pa.types.is_nested(column.type):
            return column, None  # for lists with times beyond 2262 the cut is not reported
        nano_ticks, micro_ticks = (
            each.combine_chunks().cast(pa.int64()).fill_null(0).to_numpy() for each in (fine, micros)
        )
        with np.errstate(over="ignore"):
            rest = nano_ticks - micro_ticks * 1000  # both have wrapped by the same number
        return column, flags_of_cut(rest != 0)


def _mask_of_wrapped(fine: pa.ChunkedArray, millis: pa.ChunkedArray, factor: int) -> Mask:
    """Returns a mask of the times that have wrapped in the finer unit. For nested times, it is the mask of the first
    timestamps with a wrapped value."""
    mask: Mask = np.zeros(0, np.bool_)
    for fine_times, coarse_times in zip(
        _times_in(fine.combine_chunks()), _times_in(millis.combine_chunks()), strict=True
    ):
        fine_ticks, coarse_ticks = (
            each.cast(pa.int64()).fill_null(0).to_numpy() for each in (fine_times, coarse_times)
        )
        mask = fine_ticks // factor != coarse_ticks
        if mask.any():
            break
    return mask


def _times_in(values: pa.Array) -> list[pa.Array]:
    """Returns the timestamps in a column, at any depth."""
    return [each for each in _temporal_in(values) if pa.types.is_timestamp(each.type)]


def _temporal_in(values: pa.Array) -> list[pa.Array]:
    """Returns the timestamps and days in a column, at any depth."""
    kinds = pa.types
    if kinds.is_timestamp(values.type) or kinds.is_date(values.type):
        return [values]
    if kinds.is_struct(values.type):
        return [each for child in values.flatten() for each in _temporal_in(child)]
    if kinds.is_map(values.type):
        return [*_temporal_in(values.keys), *_temporal_in(values.items)]
    return _temporal_in(values.flatten()) if kinds.is_nested(values.type) else []


def _file(source: pa.NativeFile, unit: str) -> pq.ParquetFile:
    return pq.ParquetFile(source, page_checksum_verification=True, coerce_int96_timestamp_unit=unit)


def _int96_columns(file: pq.ParquetFile, names: list[str]) -> list[str]:
    """Returns the columns with INT96 times, as Spark (before 4), Impala and Hive write them."""
    columns = [file.schema.column(index) for index in range(len(file.schema))]
    owners = [each.path.split(".")[0] if each.path not in names else each.path for each in columns]
    found = [owner for each, owner in zip(columns, owners, strict=True) if each.physical_type == "INT96"]
    return [name for name in dict.fromkeys(found) if name in names]


def _without_wrapped(path: str, micros: pa.ChunkedArray, millis: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns the times. A time that wrapped in microseconds becomes a time outside the calendar, so that its row is
    bad.

    Raises DataError for a wrapped time within a list, a map or a struct.
    """
    values, mask = micros.combine_chunks(), _mask_of_wrapped(micros, millis, 1000)
    if not mask.any():
        return micros
    if pa.types.is_nested(values.type):
        raise DataError(
            f"{path!r} holds a time beyond the year 294,000",
            why="it does not fit into 64 bits of microseconds",
            do="write it again without that time",
        )
    never = pa.array([np.iinfo(np.int64).max]).cast(values.type)[0]
    return pa.chunked_array([pc.if_else(pa.array(mask), never, values)])
