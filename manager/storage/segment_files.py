"""Segments as files on any file system, or in memory; each section is verified before it is read."""

from __future__ import annotations

import os
import re
import threading
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from manager.storage import hdfs, object_store
from manager.storage.files import as_storage_error, delete, private_stream, sync_file, sync_names
from manager.storage.object_store import open_uri
from manager.storage.segments import Ref
from windowing.errors import DamagedCheckpoint, StorageError

if TYPE_CHECKING:
    from numpy.typing import NDArray


# CRC-32, from the fastest installed library; all libraries give the same result (decision 30).


Checksum = Callable[[pa.Buffer | bytes, int], int]
"""Function of bytes and of the checksum of the bytes before (0 for none); returns the checksum of all."""


def _fastest_crc32() -> Checksum:
    try:
        module = import_module("isal.isal_zlib")  # pip install windbolt[checksums]
    except ImportError:
        return zlib.crc32
    return cast("Checksum", module.crc32)


crc32 = _fastest_crc32()


# Sections of segments in object stores and HDFS: read in pieces of a quarter of a megabyte, which are cached.
#
# A request for a hundred kilobytes takes as long as a request for one. A segment has the sections of many tasks, which
# one process often reads in turn: with the cache, a small segment is read once. Segments never change, so the cache is
# always up to date.


PIECE = 1 << 18
"""Size of a piece in bytes."""
_CACHE_BYTES = 1 << 28
"""Maximum size of the cache in bytes."""

_REQUESTS_AT_ONCE = 16
"""Maximum number of simultaneous requests."""


class _CachedPieces:
    """A cache of pieces of objects by (URI, path, number), the most recently used piece last."""

    def __init__(self) -> None:
        self._pieces: OrderedDict[tuple[str, str, int], bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, uri: str, path: str, number: int) -> bytes:
        key = (uri, path, number)
        with self._lock:
            if key in self._pieces:
                self._pieces.move_to_end(key)
                return self._pieces[key]
        data = fetch_range(uri, path, number * PIECE, PIECE)
        with self._lock:
            if key not in self._pieces:
                self._pieces[key] = data
                self._size += len(data)
            while self._size > _CACHE_BYTES:
                self._size -= len(self._pieces.popitem(last=False)[1])
        return data

    def fetch(self, uri: str, wanted: Iterable[tuple[str, int]]) -> None:
        """Read the pieces, given as (path, number), that are not cached yet, several at a time.

        At most half of the cache is filled. Pieces that cannot be read are left out.
        """
        with self._lock:
            missing = [each for each in dict.fromkeys(wanted) if (uri, *each) not in self._pieces]
        if len(missing) < 2:
            return

        def read(piece: tuple[str, int]) -> None:
            with suppress(OSError):
                self.get(uri, *piece)

        with ThreadPoolExecutor(min(_REQUESTS_AT_ONCE, len(missing))) as threads:
            list(threads.map(read, missing[: _CACHE_BYTES // PIECE // 2]))

    def forget(self) -> None:
        """Empty the cache."""
        with self._lock:
            self._pieces.clear()
            self._size = 0


_PIECE_CACHE = _CachedPieces()


def forget_pieces() -> None:
    """Empty the cache of pieces, to measure the requests of a new process."""
    _PIECE_CACHE.forget()


def prefetch_sections(uri: str, sections: Iterable[tuple[str, int, int]]) -> None:
    """Fetch small sections into the cache before they are read, several at a time. ``sections``: (path, offset,
    length)."""
    _PIECE_CACHE.fetch(
        uri,
        (
            (path, number)
            for path, offset, length in sections
            if length < PIECE
            for number in _piece_numbers(offset, length)
        ),
    )


def fetch_range(uri: str, path: str, start: int, length: int) -> bytes:
    """Returns bytes of an object or file, read with one request; fewer if it ends before. Raises FileNotFoundError if
    it does not exist."""
    if hdfs.is_hdfs(uri):
        return hdfs.read_part(uri, path, start, length)
    return object_store.read_range(uri, path, start, length)


def read_section(uri: str, path: str, offset: int, length: int) -> bytes:
    """Returns bytes of an object or file, from the cache if the section is small; fewer if it ends before. Raises
    FileNotFoundError if it does not exist."""
    if length >= PIECE:
        return fetch_range(uri, path, offset, length)
    numbers = _piece_numbers(offset, length)
    pieces = [_PIECE_CACHE.get(uri, path, number) for number in numbers]
    start = offset - numbers[0] * PIECE
    return b"".join(pieces)[start : start + length] if len(pieces) > 1 else pieces[0][start : start + length]


def _piece_numbers(offset: int, length: int) -> range:
    """Returns the numbers of the pieces in which a section lies."""
    return range(offset // PIECE, (offset + length - 1) // PIECE + 1)


# Segments as files on any file system that pyarrow supports.


_ALIGNMENT = 64
_EPOCH = re.compile(r"(?:^|[-/])(\d{10})-[0-9a-f]{32}\.\w+$")
_LARGE = 1 << 20
"""Least size in bytes of a table that is written piece by piece."""
_VERIFIED: OrderedDict[tuple[object, ...], None] = OrderedDict()
"""Sections of local files that this process has verified, the most recently used section last."""
_MOST_VERIFIED = 1 << 12
"""Maximum length of ``_VERIFIED``; a section that has been dropped from it is verified again."""


def epoch_prefix(epoch: int) -> str:
    """Returns the first part of the names of an owner's files; empty for epoch 0."""
    return f"{epoch:010d}-" if epoch else ""


def epoch_of(name: str) -> int:
    """Returns the epoch in the name of a segment or of the draft of a sink's file; 0 if the name has none."""
    match = _EPOCH.search(name)
    return int(match[1]) if match else 0


@dataclass(frozen=True)
class FileSegments:
    """Stores segments as files in a folder of a file system that pyarrow supports; picklable."""

    root: str
    uri: str | None = None
    """URI of the file system; None for the local file system."""
    epoch: int = 0
    """The number of the owner's claim (decision 67), which is part of the names; 0 if a lock excludes other owners."""

    @property
    def filesystem(self) -> pafs.FileSystem:
        """The file system of the segments."""
        return pafs.LocalFileSystem() if self.uri is None else open_uri(self.uri)[0]

    def writer(self, folder: str) -> FileWriter:
        """Returns a writer of a new segment, with a unique name, in a folder."""
        return FileWriter(self, f"{folder}/{epoch_prefix(self.epoch)}{uuid.uuid4().hex}.arrow")

    def prefetch(self, refs: Iterable[Ref]) -> None:
        """Fetch sections of a remote store before they are read, several at a time.

        If a section cannot be fetched, the error is raised when the section is read.
        """
        if self.uri is not None:
            prefetch_sections(self.uri, ((f"{self.root}/{ref.segment}", ref.offset, ref.length) for ref in refs))

    def read(self, ref: Ref) -> pa.Table:
        """Returns the rows of a section from ``ref.start`` on; memory-mapped if the file is local.

        Raises DamagedCheckpoint if the checksum differs, StorageError if the file cannot be read. A process verifies a
        section of a local file once, and again if the file changes, because overlapping windows read a section often.
        """
        buffer, section = self._bytes(ref)
        if section is None or section not in _VERIFIED:
            self.verify(ref, buffer)
        if section is not None:
            _VERIFIED[section] = None
            _VERIFIED.move_to_end(section)
            if len(_VERIFIED) > _MOST_VERIFIED:
                _VERIFIED.popitem(last=False)
        with pa.ipc.open_stream(buffer) as reader:
            return reader.read_all().slice(ref.start)

    def check(self, ref: Ref) -> None:
        """Verify a section. Raises DamagedCheckpoint if the checksum differs."""
        self.verify(ref, self._bytes(ref)[0])

    def sync(self, names: Iterable[str]) -> None:
        """Flush local segments to disk before a manifest refers to them; other file systems flush by themselves."""
        local_names = sorted(names) if self.uri is None else []
        for name in local_names:
            sync_file(f"{self.root}/{name}")
        if local_names:
            sync_names(*sorted({f"{self.root}/{os.path.dirname(name)}" for name in local_names}), self.root)

    @property
    def reads_by_request(self) -> bool:
        """True if each read of a segment is a request to a server."""
        return self.uri is not None

    def read_unverified(self, segment: str, start: int, length: int) -> bytes:
        """Returns bytes of a segment, not cached and not verified; fewer at its end."""
        path = f"{self.root}/{segment}"
        with _as_read_error(path):
            if self.uri is not None:
                return fetch_range(self.uri, path, start, length)
            with open(path, "rb") as file:
                file.seek(start)
                return file.read(length)

    def verify(self, ref: Ref, buffer: pa.Buffer | memoryview) -> None:
        """Raise DamagedCheckpoint if these are not the bytes of the section."""
        if len(buffer) == ref.length and crc32(buffer, 0) == ref.checksum:
            return
        section = f"the {ref.length:,} bytes from {ref.offset:,} on, {ref.rows:,} rows"
        wrong = "are not all there" if len(buffer) < ref.length else "do not have the checksum they had"
        raise DamagedCheckpoint(f"segment {self.root}/{ref.segment} is damaged", why=f"{section}, {wrong}")

    def _bytes(self, ref: Ref) -> tuple[pa.Buffer, tuple[object, ...] | None]:
        path = f"{self.root}/{ref.segment}"
        with _as_read_error(path):
            return self._section(path, ref)

    def _section(self, path: str, ref: Ref) -> tuple[pa.Buffer, tuple[object, ...] | None]:
        """Returns the bytes of a section, fewer if the file is truncated; and the key of the section in ``_VERIFIED``,
        None for a remote or truncated file."""
        if self.uri is not None:
            return pa.py_buffer(read_section(self.uri, path, ref.offset, ref.length)), None
        status = os.stat(path)
        if status.st_size < ref.offset + ref.length:
            return pa.py_buffer(b""), None
        with pa.memory_map(path) as source:
            source.seek(ref.offset)
            return source.read_buffer(ref.length), (path, status.st_ino, status.st_mtime_ns, ref.offset, ref.checksum)


@contextmanager
def _as_read_error(path: str) -> Iterator[None]:
    with as_storage_error(path, "read"):
        try:
            yield
        except FileNotFoundError as error:
            raise DamagedCheckpoint(f"segment {path} is gone", why="it holds rows that are still needed") from error


class FileWriter:
    """Writes a segment. The file is created with the first section, so a task without output leaves no file."""

    def __init__(self, store: FileSegments, name: str) -> None:
        self.store, self.name = store, name
        self._begun = False
        """True if there may be a file."""
        self._file: pa.NativeFile | None = None

    def add(self, table: pa.Table) -> Ref:
        if table.nbytes >= _LARGE:
            section_file = _SectionFile(self)
            # Arrow's own buffer would hold the rows once more, and grow while they are copied into it.
            with pa.PythonFile(section_file, mode="w") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            return Ref(
                self.name, section_file.offset, section_file.length, table.num_rows, checksum=section_file.checksum
            )
        section = pa.BufferOutputStream()
        with pa.ipc.new_stream(section, table.schema) as writer:
            writer.write_table(table)
        buffer = section.getvalue()
        offset = self.begin_section()
        self.append(buffer)
        return Ref(self.name, offset, len(buffer), table.num_rows, checksum=crc32(buffer, 0))

    def begin_section(self) -> int:
        """Create the file if it does not exist; return the offset of the next section."""
        if self._file is None:
            self._begun = True
            self._file = private_stream(self.store.filesystem, self._path)
        with self._as_write_error():
            self._file.write(bytes(-self._file.tell() % _ALIGNMENT))
            return int(self._file.tell())

    def append(self, data: pa.Buffer | bytes | memoryview) -> None:
        """Write bytes of the section that was begun last."""
        assert self._file is not None
        with self._as_write_error():
            self._file.write(data)

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
        elif isinstance(error, Exception):  # if the process is ending, the next run deletes the file
            self._remove()

    def _close(self) -> None:
        if self._file is not None:
            with self._as_write_error():
                self._file.close()

    def _remove(self) -> None:
        """Delete the file. A failure is not raised, because it would hide the first error."""
        with suppress(StorageError):
            self._close()
        if self._begun:
            with suppress(StorageError):
                delete(self.store.filesystem, self._path, missing_ok=True)

    @property
    def _path(self) -> str:
        return f"{self.store.root}/{self.name}"

    def _as_write_error(self) -> AbstractContextManager[None]:
        return as_storage_error(self._path, "written")


class _SectionFile:
    """The file object to which Arrow writes a section piece by piece."""

    closed = False

    def __init__(self, writer: FileWriter) -> None:
        self._writer = writer
        self.offset = writer.begin_section()
        self.length = self.checksum = 0

    def write(self, data: pa.Buffer | bytes) -> int:
        self._writer.append(data)
        self.checksum = crc32(data, self.checksum)
        self.length += len(data)
        return len(data)

    def flush(self) -> None:
        """Does nothing: the segment is closed after its last section."""

    def close(self) -> None:
        """Does nothing: the file is closed with its last section."""


# Segments in the memory of a process.


@dataclass
class MemorySegments:
    """Stores segments in the memory of this process, for the local runner and tests."""

    tables: dict[str, list[pa.Table]] = field(default_factory=dict)

    def writer(self, folder: str) -> _MemoryWriter:
        """Returns a writer of a new segment."""
        return _MemoryWriter(self, f"{folder}/{uuid.uuid4().hex}")

    def prefetch(self, refs: Iterable[Ref]) -> None:
        """Does nothing: all segments are in memory."""

    def read(self, ref: Ref) -> pa.Table:
        """Returns the rows of a section from ``ref.start`` on."""
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


# Gathering: copies sections of many segments into one segment. Sections that are needed together then lie together,
# and reading them takes fewer requests.


@dataclass(frozen=True)
class GatherItem:
    """The sections to copy, in their new order."""

    names: Sequence[str]
    """The names of the segments, each once."""
    segments: NDArray[np.int64]
    """The index in ``names`` of the segment of each section."""
    extents: NDArray[np.int64]
    """Array of shape (sections, 4): offset, length, number of rows and checksum of each section."""


@dataclass(frozen=True)
class GatherOutcome:
    """The segment with the copied sections."""

    name: str
    offsets: NDArray[np.int64]
    """Start of each section, in bytes."""


def gather_sections(store: FileSegments, folder: str, item: GatherItem) -> GatherOutcome:
    """Copy sections into a new segment in the folder, and verify each section.

    Raises DamagedCheckpoint if bytes have changed, StorageError if they cannot be read or written.
    """
    runs, run_of_section = _runs(item)
    run_bytes = _read_runs(store, item.names, runs)
    offsets = np.empty(len(item.segments), np.int64)
    with store.writer(folder) as writer:
        for at, (segment, extent) in enumerate(zip(item.segments.tolist(), item.extents.tolist(), strict=True)):
            offset, length, rows, checksum = extent
            start = offset - runs[run_of_section[at]][1]
            section = run_bytes[run_of_section[at]][start : start + length]
            store.verify(Ref(item.names[segment], offset, length, rows, checksum=checksum), section)
            offsets[at] = writer.begin_section()
            writer.append(section)
    return GatherOutcome(writer.name, offsets)


def _runs(item: GatherItem) -> tuple[list[tuple[int, int, int]], list[int]]:
    """Group sections of one segment into runs, each read with one request; gaps in a run have at most ``PIECE`` bytes.

    Returns (index of the segment, first byte, number of bytes) of each run; and the index of the run of each section.
    """
    starts, ends = item.extents[:, 0], item.extents[:, 0] + item.extents[:, 1]
    order = np.lexsort((starts, item.segments))
    segments, starts, ends = item.segments[order], starts[order], ends[order]
    begins_run = np.ones(len(order), np.bool_)
    begins_run[1:] = (segments[1:] != segments[:-1]) | (starts[1:] - ends[:-1] > PIECE)
    run_of_section = np.empty(len(order), np.int64)
    run_of_section[order] = np.cumsum(begins_run) - 1
    first_sections = np.flatnonzero(begins_run)
    last_sections = np.append(first_sections[1:], len(order)) - 1
    runs = zip(
        segments[first_sections].tolist(),
        starts[first_sections].tolist(),
        (ends[last_sections] - starts[first_sections]).tolist(),
        strict=True,
    )
    return list(runs), run_of_section.tolist()


def _read_runs(store: FileSegments, names: Sequence[str], runs: Sequence[tuple[int, int, int]]) -> list[pa.Buffer]:
    """Returns the bytes of each run, which are read several runs at a time."""

    def read(run: tuple[int, int, int]) -> pa.Buffer:
        segment, start, length = run
        return pa.py_buffer(store.read_unverified(names[segment], start, length))

    with ThreadPoolExecutor(min(_REQUESTS_AT_ONCE, len(runs))) as threads:
        return list(threads.map(read, runs))
