"""Files of lines, each line a row of one binary column; what a line holds is somebody else's business."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from topologies.formats.bad import NO_BAD_ROWS
from topologies.formats.piece import Chunk, FilePiece
from topologies.formats.trouble import reading

_BLOCK = 4 << 20
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class LinesFormat:
    """Reads the lines of a file, plain or gzipped, without their ends; blank lines are no rows."""

    name: ClassVar[str] = "lines"

    def split(self, fs: pafs.FileSystem, path: str, wanted: int) -> list[FilePiece]:
        """One piece."""
        return [FilePiece(path)]

    def read(self, fs: pafs.FileSystem, piece: FilePiece, schema: pa.Schema) -> Iterator[Chunk]:
        """A chunk per block of lines."""
        with reading(piece.path, "lines"):
            source = fs.open_input_stream(piece.path, compression="detect")
        row, rest = 0, b""
        with closing(source):
            while True:
                with reading(piece.path, "lines"):
                    data: bytes = source.read(_BLOCK)
                if not data:
                    break
                whole, sign, after = (rest + data).rpartition(b"\n")
                rest = after if sign else rest + data
                if sign:
                    yield _chunk(whole.split(b"\n"), row, schema)
                    row += whole.count(b"\n") + 1
        if rest:
            yield _chunk([rest], row, schema)


def _chunk(lines: list[bytes], row: int, schema: pa.Schema) -> Chunk:
    if row == 0:
        lines[0] = lines[0].removeprefix(_BOM)
    kept = [(at, line.removesuffix(b"\r")) for at, line in enumerate(lines, row) if line.strip()]
    column = pa.array([line for _, line in kept], pa.binary())
    return pa.Table.from_arrays([column], schema=schema), np.array([at for at, _ in kept], np.int64), NO_BAD_ROWS
