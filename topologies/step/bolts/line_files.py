"""Reads files of lines, each line as a row of one binary column; the content is interpreted elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from topologies.io.formats.access import opened
from topologies.io.formats.bad import NO_BAD_ROWS, BadRows
from topologies.io.formats.lines.long_lines import LongLine, blocks_of_lines
from topologies.io.formats.split import Chunk, FileSplit

_BLOCK = 4 << 20
_LONGEST = 64 << 20
"""Maximum size of a line in bytes: a message of maximum size, and its envelope."""


@dataclass(frozen=True)
class LinesFormat:
    """Reads the lines of a file, plain or gzipped, without their ends; blank lines are no rows."""

    name: ClassVar[str] = "lines"

    def split(self, fs: pafs.FileSystem, path: str, wanted: int) -> list[FileSplit]:
        """A single split."""
        return [FileSplit(path)]

    def read(
        self,
        fs: pafs.FileSystem,
        split: FileSplit,
        schema: pa.Schema,
        needed: Collection[str] | None = None,
        optional: Collection[str] = (),
    ) -> Iterator[Chunk]:
        """A chunk per block of lines."""
        row = 0
        with opened(fs, split.path, "lines", streamed=True) as source:
            for block in blocks_of_lines(source, split.path, "lines", _BLOCK, _LONGEST):
                if isinstance(block, LongLine):
                    yield schema.empty_table(), np.empty(0, np.int64), BadRows.of([block.bad_row(row)])
                    row += 1
                elif block:
                    lines = block.removesuffix(b"\n").split(b"\n")
                    yield _chunk(lines, row, schema)
                    row += len(lines)


def _chunk(lines: list[bytes], row: int, schema: pa.Schema) -> Chunk:
    numbered = [(number, line.removesuffix(b"\r")) for number, line in enumerate(lines, row) if line.strip()]
    column = pa.array([line for _, line in numbered], pa.binary())
    return (
        pa.Table.from_arrays([column], schema=schema),
        np.array([number for number, _ in numbered], np.int64),
        NO_BAD_ROWS,
    )
