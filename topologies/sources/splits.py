"""Splits of sources: what one task of the ingest reads."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from topologies.engine.batch.context import Context
from topologies.engine.ingest.merging import keys_of
from topologies.engine.rows.source_batch import SourceBatch
from topologies.engine.time.first_output import FirstOutput
from topologies.engine.work.source_splits import MergedSplits, SourceSplit
from topologies.graph.nodes.spout import SpoutNode
from topologies.io.file_metadata import FileMetadata
from topologies.io.file_spout import FileSpout, chunks_of
from topologies.io.formats import Chunk, FileSplit
from topologies.io.formats.access import reached
from topologies.io.formats.bad import BAD_SCHEMA
from topologies.io.paths import locate_file, shown_path
from topologies.sources.deaths import (
    Deadly,
    Death,
    count_lines,
    header_lines,
    raw_lines,
    some_rows,
    without_lines,
    without_marked_lines,
    without_rows,
)
from topologies.topology import Topology
from windowing.data.returned_rows import DEFAULT_STREAM
from windowing.errors import DataError, MissingError, UnreachableError

_MOST_SPLITS = 1000
"""Maximum number of splits per batch."""
PAUSES = (0.2, 1.0, 3.0)
"""Seconds to wait before each further attempt to reach a file; after the last the task fails, and with it the batch."""


@dataclass(frozen=True)
class FileSource:
    """A file of a file spout, or a part of one."""

    component: str
    split: FileSplit
    deaths: tuple[Death, ...] = ()
    """Its deadly parts, which are not read any more."""
    lines: tuple[int, int] | None = None
    """Range (start, stop) of lines to read alone, in order to find a deadly one; None for all."""
    rows: tuple[int, int] | None = None
    """Range (start, stop) of good rows to read alone, for the same purpose; None for all."""

    def read(self, topology: Topology) -> Iterator[SourceBatch]:
        """The rows of the file; an unusable file gives one bad row without a number.

        Raises UnreachableError, after several attempts, where the file cannot be read for reasons that do not lie in
        its content.
        """
        node = topology.spouts[self.component]
        spout = node.spout
        assert isinstance(spout, FileSpout)
        try:
            read = self._tried(node, spout)
        except (DataError, MissingError) as error:
            if isinstance(error, MissingError) and spout.on_missing == "stop":
                raise
            bad = pa.table([[None], [str(error)], [self._shown]], schema=BAD_SCHEMA)
            none = np.zeros(0, np.int64)
            yield SourceBatch(
                self.component, DEFAULT_STREAM, node.schema.empty_table(), none, bad, self._shown, keys=none
            )
            return
        turn = zlib.crc32(os.path.basename(self.split.path).encode())
        for table, numbers, bad_rows in read:
            keys = None if spout.merge_by is None else keys_of(table.column(spout.merge_by))
            yield SourceBatch(
                self.component, DEFAULT_STREAM, table, numbers, bad_rows.rows, self._shown, turn=turn, keys=keys,
                truncated=bad_rows.truncated_among(numbers),
            )  # fmt: skip

    def _tried(self, node: SpoutNode, spout: FileSpout) -> list[Chunk]:
        """Read the whole split, retrying what is unreachable, since disks, networks and stores recover."""
        for pause in PAUSES:
            try:
                return self._whole(node, spout)
            except UnreachableError as error:
                if isinstance(error, MissingError) and spout.on_missing == "invalid":
                    raise
                time.sleep(pause)
        return self._whole(node, spout)

    def _whole(self, node: SpoutNode, spout: FileSpout) -> list[Chunk]:
        """Read the whole split before passing any of it on, because a file may turn out to be damaged in the middle."""
        with reached(self.split.path):
            filesystem, path = locate_file(self.split.path)
        schema = spout.row_schema(node.outputs[DEFAULT_STREAM])
        chunks = self._chunks(node, spout, filesystem, path, schema)
        with reached(self.split.path):
            about = FileMetadata(filesystem, path, self._shown, spout.metadata)
        chunks = [(about.beside(rows, numbers), numbers, bad) for rows, numbers, bad in chunks]
        if node.needed is None:
            return chunks
        names = node.schema.names
        return [(rows.select(names), numbers, bad) for rows, numbers, bad in chunks]

    def _chunks(
        self, node: SpoutNode, spout: FileSpout, filesystem: pafs.FileSystem, path: str, schema: pa.Schema
    ) -> list[Chunk]:
        """Read the file without its deadly parts."""
        needed, optional = node.needed, node.defaults.columns.keys()
        doomed = {what: [death for death in self.deaths if death.what is what] for what in Deadly}
        for death in doomed[Deadly.FILE]:
            raise DataError(f"{self._shown!r} is not read", why=death.reason, do="inspect the file with other tools")
        lines = doomed[Deadly.LINE]
        if self.lines is not None:
            lines = [death for death in lines if self.lines[0] <= death.at < self.lines[1]]
        if not lines and self.lines is None:
            split = FileSplit(path, self.split.part, self.split.parts)
            chunks = list(chunks_of(spout, filesystem, split, schema, needed, optional))
        else:
            header, comment = header_lines(spout.format), getattr(spout.format, "comment", None)
            with without_lines(filesystem, path, lines, self.lines, header, comment) as (files, copy):
                readable = without_marked_lines(
                    list(chunks_of(spout, files, FileSplit(copy), schema, needed, optional, known_as=path)),
                    lines,
                    raw_lines(filesystem, path, lines),
                )
            if readable is None:
                raise DataError(
                    f"{self._shown!r} is not read", why=lines[0].reason, do="inspect the file with other tools"
                )
            chunks = readable
        chunks = without_rows(chunks, doomed[Deadly.ROW])
        return chunks if self.rows is None else some_rows(chunks, self.rows)

    @property
    def _shown(self) -> str:
        """The path for display."""
        return shown_path(self.split.path)


@dataclass(frozen=True)
class FileGroup:
    """Consecutive files that one task reads, because they are many and small."""

    files: tuple[FileSource, ...]

    def read(self, topology: Topology) -> Iterator[SourceBatch]:
        """The rows of the files."""
        for file in self.files:
            yield from file.read(topology)


@dataclass(frozen=True)
class TableSource:
    """Rows that are already in memory."""

    component: str
    table: pa.Table
    first: int = 0
    """The number of the first row in its source."""

    def read(self, topology: Topology) -> Iterator[SourceBatch]:
        """The rows."""
        positions = np.arange(self.first, self.first + self.table.num_rows)
        yield SourceBatch(self.component, DEFAULT_STREAM, self.table, positions)


def row_numbers(source: FileSource, context: Context) -> list[int]:
    """A task: read a file and return the numbers of its good rows."""
    return [number for source_batch in source.read(context.topology) for number in source_batch.positions.tolist()]


def line_count(source: FileSource, context: Context) -> int:
    """A task: count the lines of a text file."""
    filesystem, path = locate_file(source.split.path)
    return count_lines(filesystem, path)


def file_splits(
    topology: Topology,
    files: Sequence[tuple[str, str]],
    wanted: int,
    deaths: Sequence[Death] = (),
    first: FirstOutput | None = None,
) -> list[SourceSplit | MergedSplits]:
    """The splits of files, given as (spout, path) in order of arrival: about ``wanted`` splits, where files can be
    divided.

    ``deaths`` are the deadly parts of the files. Very many files share splits, since each split becomes a segment. The
    files of a spout that merges stay together. Those whose folders say that they are older than the ``first`` output of
    the run needs are left out.
    """
    if first is not None:
        files = [found for found in files if not _is_skipped(topology, *found, first)]
    splits_per_file = -(-wanted // len(files)) if files else 1
    splits: list[FileSource] = []
    for component, path in files:
        spout = topology.spouts[component].spout
        assert isinstance(spout, FileSpout)
        parts = [FileSplit(path)]
        if splits_per_file > 1:
            with suppress(DataError, UnreachableError):  # the task that reads it will report what is wrong with it
                with reached(path):
                    filesystem, inside = locate_file(path)
                parts = [
                    FileSplit(path, part.part, part.parts)
                    for part in spout.format.split(filesystem, inside, splits_per_file)
                ]
        for split in parts:
            mine = tuple(death for death in deaths if death.of(component, split))
            splits.append(FileSource(component, split, mine))
    together = -(-len(splits) // _MOST_SPLITS)
    ready: list[SourceSplit | MergedSplits] = []
    for component, group in groupby(splits, key=lambda split: split.component):
        ones = _together(list(group), together)
        merges = cast("FileSpout", topology.spouts[component].spout).merge_by is not None
        ready.extend([MergedSplits(ones)] if merges else ones)
    return ready


def _is_skipped(topology: Topology, component: str, path: str, first: FirstOutput) -> bool:
    spout = cast("FileSpout", topology.spouts[component].spout)
    if not spout.partitions.names:
        return False
    try:
        values = spout.partition_of(path).values
    except DataError:
        return False  # the task that reads it will report it
    shared = pa.table(dict(values))
    return first.skips(topology, component, shared, first.time)


def _together(splits: list[FileSource], most: int) -> Sequence[SourceSplit]:
    if most <= 1:
        return splits
    return [FileGroup(tuple(splits[start : start + most])) for start in range(0, len(splits), most)]
