"""A spout of files: its columns, and its files, listed, watched for changes and cut into micro-batches."""

from __future__ import annotations

import datetime
import os
import stat
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from topologies.io.formats import Chunk, FileFormat, FileSplit, infer_schema
from topologies.io.formats.declared_times import Times
from topologies.io.formats.event_files import OnTruncation, as_unreachable_error
from topologies.io.paths import Entry, is_never_input, matching_entries, shown_path
from topologies.io.spout_columns import Partition, checked_partition_columns, with_file_metadata, with_partition_columns
from windowing.errors import ConfigError, DataError, UnreachableError, did_you_mean
from windowing.reprs import fields_repr
from windowing.schema import DEFAULT_STREAM, SchemaLike, format_schema, parse_schema
from windowing.timestamps import is_time, zone_of

# Times without a zone, in files whose zone is declared.
#
# A type carries the zone to the place where values are read: a timestamp declared in ``America/New_York`` takes a time
# without a zone for that city's time. A local time that occurs twice is the first of the two. A skipped local time uses
# the offset before the clock change (02:30 is 03:30), as in Java, Python and PostgreSQL.


_kinds = pa.types


def checked_zone(name: str | None) -> str | None:
    """Returns the zone by its name, or as +05:30; None for UTC. Raises ConfigError for an unknown zone."""
    if name is None:
        return None
    zone = zone_of(name)
    whole_minutes = not isinstance(zone, datetime.timezone) or zone.utcoffset(None).seconds % 60 == 0
    if not whole_minutes or name in ("localtime", "posixrules", "Factory"):
        raise ConfigError(
            f"timezone {name!r} cannot be used",
            why="it is another one on each machine" if whole_minutes else "offsets of sources have whole minutes",
            do="use a name like 'Europe/Berlin', or an offset like '+03:00'",
        )
    zone_name = _offset_text(zone) if isinstance(zone, datetime.timezone) else name
    return None if zone_name in ("UTC", "+00:00") else zone_name


def in_zone(schema: pa.Schema, zone: str | None) -> pa.Schema:
    """Returns the schema with its timestamps in that zone."""
    return schema if zone is None else pa.schema([field.with_type(_type_in_zone(field.type, zone)) for field in schema])


def in_utc(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Returns the table with the declared types; columns may be missing."""
    fields = [schema.field(name) for name in table.column_names]
    return table if table.schema.types == [field.type for field in fields] else table.cast(pa.schema(fields))


def _offset_text(zone: datetime.timezone) -> str:
    text = datetime.datetime(2000, 1, 1, tzinfo=zone).strftime("%z")
    return f"{text[:3]}:{text[3:5]}"


def _type_in_zone(kind: pa.DataType, zone: str) -> pa.DataType:
    if _kinds.is_timestamp(kind):
        return pa.timestamp(kind.unit, zone)
    if _kinds.is_list(kind):
        return pa.list_(kind.value_field.with_type(_type_in_zone(kind.value_type, zone)))
    if _kinds.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_type_in_zone(kind.value_type, zone)))
    if _kinds.is_map(kind):
        return pa.map_(_type_in_zone(kind.key_type, zone), _type_in_zone(kind.item_type, zone))
    if _kinds.is_struct(kind):
        return pa.struct([field.with_type(_type_in_zone(field.type, zone)) for field in kind])
    return kind


# A spout of files: its columns, and its files, listed and cut into micro-batches.


BYTES_PER_BATCH = 256 * 2**20
"""Default maximum number of bytes of files per micro-batch; at least one file is read. With batches of this size, their
fixed cost is small and their columns fit into memory."""


@dataclass(frozen=True)
class FoundFile:
    """A file of a spout, as listed."""

    path: str
    """Absolute path."""
    changed: int
    """Time of its last change, in milliseconds since the epoch."""
    size: int
    """Size in bytes."""


@dataclass(frozen=True)
class FileSpout:
    """Reads files that appear in a folder as columns; a checkpoint lists the files that were read."""

    paths: tuple[str, ...]
    """Files, folders and patterns, as the user wrote them."""
    _: KW_ONLY
    declared: SchemaLike | None
    format: FileFormat
    files_per_batch: int | None = None
    bytes_per_batch: int | None = None
    metadata: tuple[str, ...] = ()
    """Metadata columns added to its rows, by the names of ``FILE_METADATA``."""
    partition_columns: SchemaLike | None = None
    """The columns whose values come from the names of its files' folders."""
    partition_times: Times = ()
    """Declared forms of the times of the partition columns."""
    merge_by: str | None = None
    """The column by which the rows of a batch's files are merged; None: rows arrive file by file."""
    on_missing: str = "stop"
    """Action for a listed file that no longer exists: ``stop``, or count it as ``invalid``."""
    on_change: str = "warn"
    """Action for a file that was changed after it was read: ``warn``, ``error`` or ``ignore``."""
    timezone: str | None = None
    """The zone of times without a zone; None: UTC."""
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Default values for columns."""

    def __repr__(self) -> str:
        return fields_repr(self)

    @property
    def path(self) -> str:
        """The paths, for people."""
        return ", ".join(self.paths)

    @property
    def is_here(self) -> bool:
        """True if all its files are on this machine."""
        return not any("://" in shown_path(path) for path in self.paths)

    @property
    def on_truncation(self) -> OnTruncation:
        """Returns the action for times finer than microseconds."""
        return getattr(self.format, "on_truncation", "cut")

    @property
    def partitions(self) -> pa.Schema:
        """The partition columns."""
        return checked_partition_columns(self.partition_columns)

    def outputs(self) -> dict[str, pa.Schema]:
        """Returns the columns of rows: the declared columns, or else those of the first file; the partition columns;
        the metadata columns."""
        declared = self._infer_columns() if self.declared is None else parse_schema(self.declared)
        schema = with_file_metadata(with_partition_columns(declared, self.partitions), self.metadata)
        if self.merge_by is not None:
            check_merging(self.merge_by, schema)
        return {DEFAULT_STREAM: schema}

    def row_schema(self, output: pa.Schema) -> pa.Schema:
        """Returns the output columns that are read from a file and its folders."""
        return pa.schema([field for field in output if field.name not in self.metadata])

    def partition_of(self, path: str) -> Partition:
        """Reads the columns of a file's folders, in UTC. Raises DataError for a value that cannot be read."""
        columns_in_zone = in_zone(self.partitions, self.timezone)
        optional, times = self.defaults.keys(), self.partition_times
        return Partition.of(path, columns_in_zone, optional, self.on_truncation, times).cast(self.partitions)

    def files(self) -> list[str]:
        """Returns the existing files in the order of reading: by time of change, then by name."""
        return [file.path for file in self.list_files()]

    def list_files(self, already_read: Container[str] = frozenset()) -> list[FoundFile]:
        """Returns the existing files in the order of reading, without those in ``already_read``. Both engines list
        files here.

        Files whose names are not UTF-8 are left out; topologies/engine/source_splits.py reports them.
        """
        return in_reading_order(
            self.path, (entry for entry in list_entries(self.paths) if entry.path not in already_read)
        )

    def cut(self, files: Iterable[FoundFile]) -> Iterator[list[FoundFile]]:
        """Cuts files, in their order, into micro-batches as Spark does."""
        batch: list[FoundFile] = []
        total = 0
        for file in files:
            full = total + file.size > (self.bytes_per_batch or BYTES_PER_BATCH)
            if batch and (full if self.files_per_batch is None else len(batch) == self.files_per_batch):
                yield batch
                batch, total = [], 0
            batch.append(file)
            total += file.size
        if batch:
            yield batch

    def batches(self) -> Iterator[list[str]]:
        """Yields the existing files, cut into micro-batches as Spark does."""
        for batch in self.cut(self.list_files()):
            yield [file.path for file in batch]

    def _infer_columns(self) -> pa.Schema:
        files = self.files() if self.is_here else []
        if not files:
            raise ConfigError(
                f"the columns of {self.path!r} are unknown: there is no file yet",
                why="without a declared schema the columns are those of the first file",
                do="give a schema like 'user string, amount double, ts timestamp', or correct the path",
            )
        try:
            found = infer_schema(pafs.LocalFileSystem(), files[0], self.format.name)
            return pa.schema([field for field in found if field.name not in self.partitions.names])
        except (DataError, UnreachableError) as error:
            raise ConfigError(str(error)) from error


def check_merging(column: str, schema: pa.Schema) -> None:
    """Raise ConfigError for a ``merge_by`` column that does not order rows."""
    why = "the rows of a batch arrive in the order of that column, a timestamp or a whole number"
    if column not in schema.names:
        raise ConfigError(
            f"merge_by={column!r} is not a column of the rows: they have {', '.join(schema.names)}"
            + did_you_mean(column, schema.names),
            why=why,
            do="name one of them, or leave merge_by out",
        )
    kind = schema.field(column).type
    if not is_time(kind):
        raise ConfigError(
            f"merge_by={column!r} is {format_schema(pa.schema([schema.field(column)]))}",
            why=why,
            do="name a column of type timestamp, date, int or long, or leave merge_by out",
        )


class SpoutOfRowsInMemory(FileSpout):
    """Spout for rows in memory, which a run keeps in files of the checkpoint, unseen by the user."""


def chunks_of(
    spout: FileSpout,
    filesystem: pafs.FileSystem,
    split: FileSplit,
    schema: pa.Schema,
    needed: Collection[str] | None = None,
    optional: Collection[str] = (),
    original_path: str | None = None,
) -> Iterator[Chunk]:
    """Yields chunks of a split of a file, as the file's format reads it (``FileFormat.read``).

    ``original_path``: the path of the original file, if the split belongs to a copy.
    """
    columns_in_zone, folders = in_zone(schema, spout.timezone), spout.partitions
    folders_in_zone, times = in_zone(folders, spout.timezone), spout.partition_times
    partition = Partition.of(original_path or split.path, folders_in_zone, optional, spout.on_truncation, times)
    if folders.names:  # a file with the same columns must have the same values
        optional = {*optional, *folders.names}
        needed = None if needed is None else {*needed, *folders.names}
    for chunk in spout.format.read(filesystem, split, columns_in_zone, needed, optional):
        table, numbers, bad = partition.apply_to(chunk)
        yield in_utc(table, schema), numbers, bad


def list_entries(paths: Iterable[str], working_folder: str | None = None) -> list[Entry]:
    """Lists the files under some paths, in no order, without excluded ones. ``working_folder``: as for
    ``matching_entries``."""
    return [
        each
        for each in matching_entries(paths, working_folder)
        if not is_never_input(each.path) and _is_text(each.path)
    ]


def in_reading_order(path: str, entries: Iterable[Entry]) -> list[FoundFile]:
    """Returns the files among the entries of ``path``, in the order in which they are read."""
    with as_unreachable_error(path):
        files = [_listing_entry(each) for each in entries]
    return sorted((file for file in files if file is not None), key=lambda file: (file.changed, file.path))


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def changed_at(entry: Entry) -> int | None:
    """Returns when a file was last changed, in milliseconds; None if unknown."""
    if entry.info is not None:
        return None if entry.info.mtime_ns is None else int(entry.info.mtime_ns) // 1_000_000
    try:
        return os.stat(entry.path).st_mtime_ns // 1_000_000
    except OSError:
        return None


def _listing_entry(entry: Entry) -> FoundFile | None:
    """Returns the listing entry of a file; None if the path is not a file, or the file was deleted since its
    listing."""
    if entry.info is not None:
        is_file, changed = entry.info.type == pafs.FileType.File, entry.info.mtime_ns or 0
        return FoundFile(entry.path, changed // 1_000_000, entry.info.size) if is_file else None
    try:
        status = os.stat(entry.path)
    except FileNotFoundError:
        return None
    is_file = stat.S_ISREG(status.st_mode)
    return FoundFile(entry.path, status.st_mtime_ns // 1_000_000, status.st_size) if is_file else None


# The files of a spout during a run: new files, and files that were changed after they were read.


_NEWEST = 1_000
"""How many of the latest files each comparison after the first covers."""


class WatchedFiles:
    """Lists the files of a spout for the batches of a run, and finds files that were changed after they were read.

    A checkpoint records when each file was last changed. The first listing of a run compares all files that were read.
    Later listings compare only the last 1,000, because files are usually appended to while they are new. Listings of
    stores include the times, so all files are compared each time.
    """

    def __init__(self, name: str, spout: FileSpout) -> None:
        """``name`` of the spout."""
        self.name, self.spout = name, spout
        self._working_folder = os.getcwd()  # the run keeps the folder in which it was started
        self._read: dict[str, int] = {}
        self._has_compared_all = False
        self._changed: dict[str, None] = {}
        self._told_count = 0

    def new(self, read: dict[str, int]) -> Iterable[FoundFile]:
        """Returns the files that are not in ``read``, in the order of reading.

        ``read``: for the path of each file that belongs to a batch, the time of its last change in milliseconds, in the
        order of the batches. Raises DataError for a file that was changed since, if the spout has
        ``on_change="error"``.
        """
        self._read = read
        entries = list_entries(self.spout.paths, self._working_folder)
        self._compare(entry for entry in entries if entry.path in read)
        return in_reading_order(self.spout.path, (entry for entry in entries if entry.path not in read))

    def acknowledge(self, paths: Sequence[str]) -> None:
        """Called when a batch with these files is committed."""

    def close(self) -> None:
        """Called when the run has ended."""

    def look(self) -> None:
        """Compares the files that were read last. Raises DataError as ``new`` does."""
        self._compare(Entry(path, False, None) for path in self._newest() if "://" not in path)

    def take(self) -> list[str]:
        """Returns the files that were changed, each once."""
        new = list(self._changed)[self._told_count :]
        self._told_count += len(new)
        return new

    def _newest(self) -> set[str]:
        return set(islice(reversed(self._read), _NEWEST))

    def _compare(self, entries: Iterable[Entry]) -> None:
        if self.spout.on_change == "ignore":
            return
        wanted = self._newest() if self._has_compared_all else self._read
        self._has_compared_all = True
        for entry in entries:
            path = entry.path
            if path in self._changed or (entry.info is None and path not in wanted):
                continue
            now = changed_at(entry)
            if now is None or now == self._read[path]:
                continue
            if self.spout.on_change == "error":
                raise DataError(
                    f"spout {self.name!r}: {os.path.basename(path)!r} was changed after it was read",
                    why=f"a file is read once, and what is new in {path} would not be read",
                    do="write new rows to new files; or give the spout on_change='warn', which goes on",
                )
            self._changed[path] = None
