"""Arrow IPC: the file format (Feather 2) and the stream format, a chunk per record batch."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
from pyarrow import ipc

from topologies.io.formats.access import opened
from topologies.io.formats.conform import only_present, refuse_impossible, settle, with_absent, without_unneeded
from topologies.io.formats.convert import as_bytes, is_text
from topologies.io.formats.declared_times import Times, checked_times
from topologies.io.formats.file_errors import declared_once, reading, refuse_absent, refuse_empty
from topologies.io.formats.split import Chunk, FileSplit, OnTruncation, check_truncation
from windowing.errors import DataError

_MAGIC = b"ARROW1"
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_Reader: TypeAlias = "ipc.RecordBatchFileReader | ipc.RecordBatchStreamReader"


@dataclass(frozen=True)
class ArrowFormat:
    """Reads Arrow IPC files, and complete streams saved as files.

    A saved stream without its end mark is refused: it cannot be distinguished from one cut off between two batches.
    """

    on_truncation: OnTruncation = "cut"
    times: Times = ()
    name: ClassVar[str] = "arrow"

    def __post_init__(self) -> None:
        check_truncation(self.on_truncation)
        object.__setattr__(self, "times", checked_times(self.times))

    def split(self, fs: pafs.FileSystem, path: str, wanted: int) -> list[FileSplit]:
        """One split."""
        return [FileSplit(path)]

    def read(
        self,
        fs: pafs.FileSystem,
        split: FileSplit,
        schema: pa.Schema,
        needed: Collection[str] | None = None,
        optional: Collection[str] = (),
    ) -> Iterator[Chunk]:
        """A chunk per record batch."""
        declared_once(schema)
        row = 0
        with self._opened(fs, split.path) as reader:
            with reading(split.path, "Arrow IPC"):
                present = reader.schema
                refuse_absent(split.path, present.names, schema, optional)
                declared, schema = schema, only_present(schema, present.names)
                refuse_impossible(split.path, present, schema, self.times)
                schema = without_unneeded(schema, present, needed)
            for batch in self._batches(reader, split.path):
                raw = pa.Table.from_batches([batch]).select(schema.names)
                with reading(split.path, "Arrow IPC"):
                    _validate(raw)
                    numbers = np.arange(row, row + raw.num_rows, dtype=np.int64)
                    chunk = settle(raw, schema, numbers, self.on_truncation, times=self.times)
                yield with_absent(chunk, declared, present.names)
                row += raw.num_rows

    def schema(self, fs: pafs.FileSystem, path: str) -> pa.Schema:
        """The columns as the file has them."""
        with self._opened(fs, path) as reader, reading(path, "Arrow IPC"):
            str(reader.schema)  # names may not be valid text
            return reader.schema.remove_metadata()

    def _batches(self, reader: _Reader, path: str) -> Iterator[pa.RecordBatch]:
        if isinstance(reader, ipc.RecordBatchFileReader):
            for index in range(reader.num_record_batches):
                with reading(path, "Arrow IPC"):
                    batch = reader.get_batch(index)
                yield batch
            return
        while True:
            with reading(path, "Arrow IPC"):
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
            yield batch

    @contextmanager
    def _opened(self, fs: pafs.FileSystem, path: str) -> Iterator[_Reader]:
        with opened(fs, path, "Arrow IPC") as source:
            with reading(path, "Arrow IPC"):
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
            _bare(chunk).validate(full=True)


def _bare(chunk: pa.Array) -> pa.Array:
    """Text as bytes, without validating it: invalid text then costs only its row."""
    if pa.types.is_string_view(chunk.type):
        return pa.Array.from_buffers(pa.binary_view(), len(chunk), chunk.buffers(), offset=chunk.offset)
    return as_bytes(chunk) if is_text(chunk.type) else chunk
