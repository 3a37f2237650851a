"""Segments as files, on any file system that pyarrow supports; each section is verified before it is read."""

from __future__ import annotations

import os
import re
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.fs as pafs

from manager.storage.file_systems.checksums import crc32
from manager.storage.file_systems.files import delete, private_stream, sync_file, sync_names
from manager.storage.file_systems.object_store import open_uri
from manager.storage.file_systems.storage_errors import as_storage_error
from manager.storage.segments.read_ahead import expect_sections, fetch_range, read_section
from manager.storage.segments.ref import Ref
from windowing.errors import DamagedCheckpoint, StorageError

_ALIGNMENT = 64
_EPOCH = re.compile(r"(?:^|[-/])(\d{10})-[0-9a-f]{32}\.\w+$")
_LARGE = 1 << 20
"""Size in bytes of a table from which its section is written piece by piece."""
_CHECKED: OrderedDict[tuple[object, ...], None] = OrderedDict()
"""Sections of local files that this process has verified, the one that was read last at the end."""
_MOST_CHECKED = 1 << 12
"""So many are known: a section of a batch long ago is not read any more, and one that is, is verified once more."""


def epoch_prefix(epoch: int) -> str:
    """What the names of an owner's files have before the part that is their own; empty where a lock keeps others
    off."""
    return f"{epoch:010d}-" if epoch else ""


def epoch_of(name: str) -> int:
    """The epoch in the name of a segment, or of the draft of a sink's file; 0 for none."""
    found = _EPOCH.search(name)
    return int(found[1]) if found else 0


@dataclass(frozen=True)
class FileSegments:
    """Segments as files under a folder of any file system that pyarrow supports; small and picklable."""

    root: str
    uri: str | None = None
    """The file system, as a URI; None for the local one."""
    epoch: int = 0
    """The number of the owner's claim (decision 67), which is part of the names; 0 where a lock keeps others off."""

    @property
    def filesystem(self) -> pafs.FileSystem:
        """The file system the segments lie on."""
        return pafs.LocalFileSystem() if self.uri is None else open_uri(self.uri)[0]

    def writer(self, folder: str) -> FileWriter:
        """A writer of a new segment in a folder; its name belongs to this attempt alone."""
        return FileWriter(self, f"{folder}/{epoch_prefix(self.epoch)}{uuid.uuid4().hex}.arrow")

    def expect(self, refs: Iterable[Ref]) -> None:
        """Called before several are read: of a store that is not on this machine they are fetched several at a time.

        What cannot be fetched is told when it is read."""
        if self.uri is not None:
            expect_sections(self.uri, ((f"{self.root}/{ref.segment}", ref.offset, ref.length) for ref in refs))

    def read(self, ref: Ref) -> pa.Table:
        """The rows of a reference that are still needed; mapped into memory where the file is local.

        Raises DamagedCheckpoint where the checksum differs, StorageError where the file cannot be read. A section of a
        local file is verified once per process, and again if the file changes: overlapping windows read it many times.
        """
        buffer, section = self._bytes(ref)
        if section is None or section not in _CHECKED:
            self.verify(ref, buffer)
        if section is not None:
            _CHECKED[section] = None
            _CHECKED.move_to_end(section)
            if len(_CHECKED) > _MOST_CHECKED:
                _CHECKED.popitem(last=False)
        with pa.ipc.open_stream(buffer) as reader:
            return reader.read_all().slice(ref.start)

    def check(self, ref: Ref) -> None:
        """Verify a section. Raises DamagedCheckpoint where the checksum differs."""
        self.verify(ref, self._bytes(ref)[0])

    def sync(self, names: Iterable[str]) -> None:
        """Flush local segments to disk before a manifest refers to them; other file systems do so themselves."""
        found = sorted(names) if self.uri is None else []
        for name in found:
            sync_file(f"{self.root}/{name}")
        if found:
            sync_names(*sorted({f"{self.root}/{os.path.dirname(name)}" for name in found}), self.root)

    @property
    def takes_requests(self) -> bool:
        """Whether each look into a segment is a request to a server."""
        return self.uri is not None

    def span(self, segment: str, start: int, length: int) -> bytes:
        """Some bytes of a segment, read at once and not kept; fewer at its end. What they are is not verified."""
        path = f"{self.root}/{segment}"
        with _reading(path):
            if self.uri is not None:
                return fetch_range(self.uri, path, start, length)
            with open(path, "rb") as file:
                file.seek(start)
                return file.read(length)

    def verify(self, ref: Ref, buffer: pa.Buffer | memoryview) -> None:
        """Raise DamagedCheckpoint where these are not the bytes of the section."""
        if len(buffer) == ref.length and crc32(buffer, 0) == ref.checksum:
            return
        section = f"the {ref.length:,} bytes from {ref.offset:,} on, {ref.rows:,} rows"
        wrong = "are not all there" if len(buffer) < ref.length else "do not have the checksum they had"
        raise DamagedCheckpoint(f"segment {self.root}/{ref.segment} is damaged", why=f"{section}, {wrong}")

    def _bytes(self, ref: Ref) -> tuple[pa.Buffer, tuple[object, ...] | None]:
        path = f"{self.root}/{ref.segment}"
        with _reading(path):
            return self._section(path, ref)

    def _section(self, path: str, ref: Ref) -> tuple[pa.Buffer, tuple[object, ...] | None]:
        """The bytes of a section, too few where the file is cut short; and its key in ``_CHECKED``, None for none."""
        if self.uri is not None:
            return pa.py_buffer(read_section(self.uri, path, ref.offset, ref.length)), None
        found = os.stat(path)
        if found.st_size < ref.offset + ref.length:
            return pa.py_buffer(b""), None
        with pa.memory_map(path) as source:
            source.seek(ref.offset)
            return source.read_buffer(ref.length), (path, found.st_ino, found.st_mtime_ns, ref.offset, ref.checksum)


@contextmanager
def _reading(path: str) -> Iterator[None]:
    with as_storage_error(path, "read"):
        try:
            yield
        except FileNotFoundError as error:
            raise DamagedCheckpoint(f"segment {path} is gone", why="it holds rows that are still needed") from error


class FileWriter:
    """Creates its file with the first section, so that a task without output leaves no file."""

    def __init__(self, store: FileSegments, name: str) -> None:
        self.store, self.name = store, name
        self._begun = False
        """Whether there may be a file."""
        self._file: pa.NativeFile | None = None

    def add(self, table: pa.Table) -> Ref:
        if table.nbytes >= _LARGE:
            pieces = _Pieces(self)
            # Arrow's own buffer would hold the rows once more, and grow while they are copied into it.
            with pa.PythonFile(pieces, mode="w") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            return Ref(self.name, pieces.offset, pieces.length, table.num_rows, checksum=pieces.checksum)
        section = pa.BufferOutputStream()
        with pa.ipc.new_stream(section, table.schema) as writer:
            writer.write_table(table)
        buffer = section.getvalue()
        offset = self.begin_section()
        self.append(buffer)
        return Ref(self.name, offset, len(buffer), table.num_rows, checksum=crc32(buffer, 0))

    def begin_section(self) -> int:
        """Create the file where there is none yet; returns the offset at which the next section begins."""
        if self._file is None:
            self._begun = True
            self._file = private_stream(self.store.filesystem, self._path)
        with self._touching():
            self._file.write(bytes(-self._file.tell() % _ALIGNMENT))
            return int(self._file.tell())

    def append(self, data: pa.Buffer | bytes | memoryview) -> None:
        """Write a part of the section that was begun last."""
        assert self._file is not None
        with self._touching():
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

    @property
    def _path(self) -> str:
        return f"{self.store.root}/{self.name}"

    def _touching(self) -> AbstractContextManager[None]:
        return as_storage_error(self._path, "written")


class _Pieces:
    """A section as a file that Arrow writes to, piece by piece."""

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
        """Nothing to do: the file is closed with its last section."""

    def close(self) -> None:
        """Nothing to do, likewise."""
