"""Segments: immutable files of Arrow streams, one stream per bolt task; they are state, log and exchange in one.

A segment is a sequence of Arrow IPC streams, each beginning at a multiple of 64 bytes. Where each lies is not in the
file but in the references that point to it, which the manifest keeps, and so is the checksum of each.
"""

from __future__ import annotations

import os
import uuid
import zlib
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from manager.storage.files import delete, private_stream, sync_file
from manager.storage.storage_errors import as_storage_error
from windowing.data.events import Events
from windowing.errors import DamagedCheckpoint, StorageError

_ALIGNMENT = 64
TIME_COLUMN = "_ts"
STREAM_COLUMN = "_stream_code"
WEIGHT_COLUMN = "_weight_"
"""The first letters of columns that say how many events of a stream a row stands for."""


_CHECKED: set[tuple[object, ...]] = set()
"""The sections of local files that this process has found whole."""
_MOST_CHECKED = 1 << 16


class Flags(NamedTuple):
    """Where the flags of rows lie: a section of its own."""

    segment: str
    offset: int
    length: int
    checksum: int


@dataclass(frozen=True)
class Ref:
    """Where rows of one task lie, and what is known of them without opening the file."""

    segment: str
    offset: int
    length: int
    rows: int
    _: KW_ONLY
    start: int = 0
    """Rows before this one are not needed any more."""
    earliest: int = 0
    """The least time of the rows still needed, in microseconds."""
    latest: int = 0
    by_stream: tuple[int, ...] = ()
    """How many of the rows still needed each input stream has."""
    level: int = 0
    """How often its rows have been compacted."""
    flags: Flags | None = None
    """Where it is written what has become of each row, if not only the first are not needed (manager.keyed.held)."""
    checksum: int = 0
    """The CRC-32 of the section; 0 for one in memory."""

    @property
    def alive(self) -> int:
        """How many rows are still needed."""
        return self.rows - self.start if self.flags is None else sum(self.by_stream)

    def to_json(self) -> list[Any]:
        """As a list, for the manifest."""
        return [
            self.segment, self.offset, self.length, self.rows, self.start,
            self.earliest, self.latest, list(self.by_stream), self.level, self.flags and list(self.flags),
            self.checksum,
        ]  # fmt: skip

    @staticmethod
    def from_json(values: list[Any]) -> Ref:
        """From the list of ``to_json``."""
        segment, offset, length, rows, start, earliest, latest, by_stream, level, flags, checksum = values
        return Ref(
            segment,
            offset,
            length,
            rows,
            start=start,
            earliest=earliest,
            latest=latest,
            by_stream=tuple(by_stream),
            level=level,
            flags=None if flags is None else Flags(*flags),
            checksum=checksum,
        )

    def to_flags(self) -> Ref | None:
        """Where its flags lie."""
        if self.flags is None:
            return None
        segment, offset, length, checksum = self.flags
        return Ref(segment, offset, length, self.rows, checksum=checksum)

    def without(self, rows: int, events: Events, streams: int) -> Ref:
        """What is left without the first rows; ``events`` are those still needed, or the first of them."""
        left = events.slice(rows, len(events))
        dropped = events.slice(0, rows).by_stream(streams)
        return replace(
            self,
            start=self.start + rows,
            earliest=int((left if len(left) else events).timestamps[0 if len(left) else -1]),
            by_stream=tuple(int(n) for n in np.array(self.by_stream) - dropped),
        )


class SegmentWriter(Protocol):
    """Writes one segment; the sections in the order in which they are added."""

    def add(self, table: pa.Table) -> Ref: ...


class SegmentDraft(SegmentWriter, Protocol):
    """A segment while it is written: ``with store.writer(folder) as writer:``. Where an error leaves the block, nothing
    of it stays."""

    def __enter__(self) -> SegmentWriter: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class SegmentStore(Protocol):
    """Where segments are kept."""

    def writer(self, folder: str) -> SegmentDraft: ...
    def read(self, ref: Ref) -> pa.Table: ...


@dataclass(frozen=True)
class FileSegments:
    """Segments as files under a folder of any file system that pyarrow knows; small and picklable."""

    root: str
    uri: str | None = None
    """The file system, as a URI; None for the local one."""

    @property
    def filesystem(self) -> pafs.FileSystem:
        """The file system the segments lie on."""
        return pafs.LocalFileSystem() if self.uri is None else pafs.FileSystem.from_uri(self.uri)[0]

    def writer(self, folder: str) -> _FileWriter:
        """A writer of a new segment in a folder; its name belongs to this attempt alone."""
        return _FileWriter(self, f"{folder}/{uuid.uuid4().hex}.arrow")

    def read(self, ref: Ref) -> pa.Table:
        """The rows of a reference that are still needed; mapped into memory where the file is local.

        Raises DamagedCheckpoint where they are not what was written, StorageError where they cannot be read. A section
        of a local file is looked through once in each process, for as long as its file does not change: windows that
        overlap read it again and again.
        """
        buffer, section = self._bytes(ref)
        if section is None or section not in _CHECKED:
            self._compare(ref, buffer)
            if section is not None:
                if len(_CHECKED) >= _MOST_CHECKED:
                    _CHECKED.clear()
                _CHECKED.add(section)
        with pa.ipc.open_stream(buffer) as reader:
            return reader.read_all().slice(ref.start)

    def check(self, ref: Ref) -> None:
        """Look through a section; DamagedCheckpoint where it is not what was written."""
        self._compare(ref, self._bytes(ref)[0])

    def sync(self, names: Iterable[str]) -> None:
        """Wait until segments are on the disk, before a manifest names them; other file systems do so themselves."""
        for name in sorted(names) if self.uri is None else ():
            sync_file(f"{self.root}/{name}")

    def _compare(self, ref: Ref, buffer: pa.Buffer) -> None:
        if len(buffer) == ref.length and zlib.crc32(buffer) == ref.checksum:
            return
        section = f"the {ref.length:,} bytes from {ref.offset:,} on, {ref.rows:,} rows"
        wrong = "are not all there" if len(buffer) < ref.length else "do not have the checksum they had"
        raise DamagedCheckpoint(f"segment {self.root}/{ref.segment} is damaged", why=f"{section}, {wrong}")

    def _bytes(self, ref: Ref) -> tuple[pa.Buffer, tuple[object, ...] | None]:
        path = f"{self.root}/{ref.segment}"
        with as_storage_error(path, "read"):
            try:
                return self._section(path, ref)
            except FileNotFoundError as error:
                raise DamagedCheckpoint(f"segment {path} is gone", why="it holds rows that are still needed") from error

    def _section(self, path: str, ref: Ref) -> tuple[pa.Buffer, tuple[object, ...] | None]:
        """The bytes of a section, as many as there are, and what it is called among those that have been checked."""
        if self.uri is not None:
            with self.filesystem.open_input_file(path) as source:
                return source.read_at(ref.length, ref.offset), None
        found = os.stat(path)
        if found.st_size < ref.offset + ref.length:
            return pa.py_buffer(b""), None
        with pa.memory_map(path) as source:
            source.seek(ref.offset)
            return source.read_buffer(ref.length), (path, found.st_ino, found.st_mtime_ns, ref.offset, ref.checksum)


class _FileWriter:
    """Opens its file with the first section, so that a task with nothing to say leaves nothing behind."""

    def __init__(self, store: FileSegments, name: str) -> None:
        self.store, self.name = store, name
        self._begun = False
        """Whether there may be a file."""
        self._file: pa.NativeFile | None = None

    def add(self, table: pa.Table) -> Ref:
        section = pa.BufferOutputStream()
        with pa.ipc.new_stream(section, table.schema) as writer:
            writer.write_table(table)
        buffer = section.getvalue()
        return Ref(self.name, self._append(buffer), len(buffer), table.num_rows, checksum=zlib.crc32(buffer))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            try:
                self._close()
            except StorageError:
                self._remove()
                raise
        elif isinstance(error, Exception):  # a process that ends leaves it to the next run
            self._remove()

    def _close(self) -> None:
        if self._file is not None:
            with self._touching():
                self._file.close()

    def _remove(self) -> None:
        """Delete the file. What fails here is not raised: it would hide the first error."""
        with suppress(StorageError):
            self._close()
        if self._begun:
            with suppress(StorageError):
                delete(self.store.filesystem, self._path, missing=True)

    def _append(self, buffer: pa.Buffer) -> int:
        """Write a section; where it begins."""
        if self._file is None:
            self._begun = True
            self._file = private_stream(self.store.filesystem, self._path)
        with self._touching():
            self._file.write(bytes(-self._file.tell() % _ALIGNMENT))
            offset = self._file.tell()
            self._file.write(buffer)
        return int(offset)

    @property
    def _path(self) -> str:
        return f"{self.store.root}/{self.name}"

    def _touching(self) -> AbstractContextManager[None]:
        return as_storage_error(self._path, "written")


@dataclass
class MemorySegments:
    """Segments in the memory of this process, for the local runner and tests."""

    tables: dict[str, list[pa.Table]] = field(default_factory=dict)

    def writer(self, folder: str) -> _MemoryWriter:
        """A writer of a new segment."""
        return _MemoryWriter(self, f"{folder}/{uuid.uuid4().hex}")

    def read(self, ref: Ref) -> pa.Table:
        """The rows of a reference that are still needed."""
        return self.tables[ref.segment][ref.offset].slice(ref.start)


class _MemoryWriter:
    def __init__(self, store: MemorySegments, name: str) -> None:
        self.store, self.name = store, name

    def add(self, table: pa.Table) -> Ref:
        sections = self.store.tables.setdefault(self.name, [])
        sections.append(table)
        return Ref(self.name, len(sections) - 1, 0, table.num_rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.store.tables.pop(self.name, None)


def write_events(writer: SegmentWriter, events: Events, streams: int) -> Ref:
    """Write events, in order of time, as a section."""
    columns: dict[str, Any] = dict(zip(events.payload.schema.names, events.payload.columns, strict=True))
    columns[TIME_COLUMN] = pa.array(events.timestamps)
    if events.streams is not None:
        columns[STREAM_COLUMN] = pa.array(events.streams)
    if events.weights is not None:
        columns |= {f"{WEIGHT_COLUMN}{at}": pa.array(counts) for at, counts in enumerate(events.weights.T)}
    ref = writer.add(pa.table(columns))
    by_stream = tuple(int(count) for count in events.by_stream(streams))
    first, last = int(events.timestamps[0]), int(events.timestamps[-1])
    return replace(ref, earliest=first, latest=last, by_stream=by_stream)


def read_events(store: SegmentStore, ref: Ref) -> Events:
    """The events of a section that are still needed, in order of time."""
    table = store.read(ref)
    names = table.column_names
    weighing = [name for name in names if name.startswith(WEIGHT_COLUMN)]
    payload = table.drop_columns([name for name in (TIME_COLUMN, STREAM_COLUMN) if name in names] + weighing)
    batches = payload.to_batches()
    batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    streams = table.column(STREAM_COLUMN).to_numpy() if STREAM_COLUMN in names else None
    weights = np.column_stack([table.column(name).to_numpy() for name in weighing]) if weighing else None
    return Events(table.column(TIME_COLUMN).to_numpy(), batch, streams, weights)
