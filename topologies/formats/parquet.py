"""Parquet: a chunk per row group, the declared columns only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from topologies.formats.conform import refuse_impossible, settle
from topologies.formats.piece import Chunk, FilePiece
from topologies.formats.trouble import declared_once, reading, refuse_absent, refuse_empty, refuse_invalid


@dataclass(frozen=True)
class ParquetFormat:
    """Reads Parquet. Page checksums are verified where the writer left some.

    ``use_threads`` lets pyarrow decode columns in parallel, for a reader that has the machine to itself.
    """

    use_threads: bool = False
    name: ClassVar[str] = "parquet"

    def split(self, fs: pafs.FileSystem, path: str, wanted: int) -> list[FilePiece]:
        """Pieces of whole row groups, in order and evenly."""
        with self._opened(fs, path) as file:
            parts = max(1, min(wanted, file.num_row_groups))
        return [FilePiece(path, part, parts) for part in range(parts)]

    def read(self, fs: pafs.FileSystem, piece: FilePiece, schema: pa.Schema) -> Iterator[Chunk]:
        """A chunk per row group."""
        declared_once(schema)
        with self._opened(fs, piece.path) as file:
            present = file.schema_arrow
            refuse_absent(piece.path, present.names, schema)
            refuse_impossible(piece.path, present, schema)
            groups = piece.share(file.num_row_groups)
            row = sum(file.metadata.row_group(group).num_rows for group in range(groups.start))
            for group in groups:
                raw = self._group(file, piece.path, group, schema)
                yield settle(raw, schema, np.arange(row, row + raw.num_rows, dtype=np.int64))
                row += raw.num_rows

    def schema(self, fs: pafs.FileSystem, path: str) -> pa.Schema:
        """The columns as the file has them."""
        with self._opened(fs, path) as file:
            return file.schema_arrow.remove_metadata()

    def _group(self, file: pq.ParquetFile, path: str, group: int, schema: pa.Schema) -> pa.Table:
        with reading(path, "Parquet"):
            raw = file.read_row_group(group, columns=schema.names, use_threads=self.use_threads)
        raw = raw.select(schema.names)
        expected = file.metadata.row_group(group).num_rows
        refuse_invalid(path, raw, expected)
        return raw

    @contextmanager
    def _opened(self, fs: pafs.FileSystem, path: str) -> Iterator[pq.ParquetFile]:
        with reading(path, "Parquet"):
            refuse_empty(fs, path, "Parquet")
            source = fs.open_input_file(path)
        with closing(source):
            with reading(path, "Parquet"):
                file = pq.ParquetFile(source, page_checksum_verification=True)
            yield file
