"""Pieces of sources: what one task of the ingest reads."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from topologies.engine.plan import Delivery, Piece
from topologies.formats import FilePiece
from topologies.formats.bad import BAD_SCHEMA
from topologies.model import Topology
from topologies.places import locate
from topologies.spouts import FileSpout, hidden
from windowing.errors import DataError
from windowing.rows import DEFAULT_STREAM

_MOST_PIECES = 1000
"""So many pieces a batch has at most."""


@dataclass(frozen=True)
class FileSource:
    """A file, or a part of one, of a file spout."""

    component: str
    piece: FilePiece

    def read(self, topology: Topology) -> Iterator[Delivery]:
        """The rows of the file; a file that is not what it should be is one bad row, without a number."""
        part = topology.spouts[self.component]
        spout = part.spout
        assert isinstance(spout, FileSpout)
        schema = part.outputs[DEFAULT_STREAM]
        filesystem, path, uri = locate(self.piece.path)
        shown = self.piece.path if uri else path
        piece = FilePiece(path, self.piece.part, self.piece.parts)
        try:
            # A file may turn out to be damaged in its middle: none of it is let through then.
            chunks = list(spout.format.read(filesystem, piece, schema))
        except DataError as error:
            bad = pa.table([[None], [str(error)], [shown]], schema=BAD_SCHEMA)
            none = np.zeros(0, np.int64)
            yield Delivery(self.component, DEFAULT_STREAM, schema.empty_table(), none, bad, shown)
            return
        for table, numbers, bad_rows in chunks:
            turn = zlib.crc32(os.path.basename(path).encode())
            yield Delivery(self.component, DEFAULT_STREAM, table, numbers, bad_rows.rows, shown, turn=turn)


@dataclass(frozen=True)
class FileSources:
    """Files in a row that one task reads, since they are many and small."""

    files: tuple[FileSource, ...]

    def read(self, topology: Topology) -> Iterator[Delivery]:
        """The rows of the files."""
        for each in self.files:
            yield from each.read(topology)


@dataclass(frozen=True)
class TableSource:
    """Rows that are there already."""

    component: str
    table: pa.Table
    first: int = 0
    """The number of the first row in its source."""

    def read(self, topology: Topology) -> Iterator[Delivery]:
        """The rows."""
        positions = np.arange(self.first, self.first + self.table.num_rows)
        yield Delivery(self.component, DEFAULT_STREAM, self.table, positions)


def file_pieces(topology: Topology, found: Sequence[tuple[str, str]], wanted: int) -> list[Piece]:
    """The pieces of some files, (spout, path) in order of arrival: about as many as wanted, if they can be split.

    Very many files share pieces, since each piece becomes a segment.
    """
    each = -(-wanted // len(found)) if found else 1
    pieces: list[FileSource] = []
    for component, path in found:
        if hidden(path):
            continue
        spout = topology.spouts[component].spout
        assert isinstance(spout, FileSpout)
        split = [FilePiece(path)]
        if each > 1:
            filesystem, inside, _ = locate(path)
            with suppress(DataError):  # the task that reads it will say what is wrong with it
                split = [
                    FilePiece(path, part.part, part.parts) for part in spout.format.split(filesystem, inside, each)
                ]
        pieces.extend(FileSource(component, piece) for piece in split)
    together = -(-len(pieces) // _MOST_PIECES)
    if together <= 1:
        return list(pieces)
    return [FileSources(tuple(pieces[at : at + together])) for at in range(0, len(pieces), together)]
