"""Splits of sources, each read by one task of the ingest, without poison input."""

from __future__ import annotations

import os
import re
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import groupby
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from topologies.engine.batch import Context
from topologies.engine.event_times import FirstOutput
from topologies.engine.merging import keys_of
from topologies.engine.task_data import MergedSplits, SourceBatch, SourceSplit
from topologies.graph.graph import Graph, SpoutNode
from topologies.io.file_spout import FileSpout, chunks_of
from topologies.io.formats.csv import DELIMITER_LINE
from topologies.io.formats.event_files import (
    BAD_SCHEMA,
    BadRow,
    BadRows,
    Chunk,
    FileFormat,
    FileSplit,
    as_unreachable_error,
    open_file,
    python_columns,
    row_as_json,
    without_compression,
)
from topologies.io.formats.lines import BOM
from topologies.io.paths import is_never_input, locate_file, matching_entries, shown_path
from topologies.io.spout_columns import FileMetadata
from topologies.io.spouts import AnySpout
from windowing.errors import DataError, MissingError, UnreachableError
from windowing.schema import DEFAULT_STREAM

# Detects files whose names are not valid text. Logs and checkpoints cannot hold such names, so listings omit them.


def refuse_undecodable_names(topology: Graph) -> None:
    """Raises DataError for an existing input file whose name is not UTF-8."""
    for name, node in topology.spouts.items():
        names = list(undecodable_names(node.spout))
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise DataError(
                f"spout {name!r}: '{names[0]}'{more} cannot be read",
                why="its name is not valid UTF-8, so no checkpoint can note it, and its rows would be missing from the "
                "output",
                do="rename it",
            )


def undecodable_names(spout: AnySpout) -> Iterator[str]:
    """Yields the local files of a spout whose names are not UTF-8, in displayable form."""
    if not isinstance(spout, FileSpout) or not spout.is_here:
        return
    for path in sorted(entry.path for entry in matching_entries(spout.paths)):
        if is_never_input(path) or not os.path.isfile(path):
            continue
        try:
            path.encode()
        except UnicodeEncodeError:
            yield os.fsencode(path).decode("utf-8", "backslashreplace")


# Poison input kills the process that reads it: its description, and reading a file without it.


_HEADERS = {"csv": 1, "jsonl": 0}
"""Formats in which a row is usually a line, with the number of header lines."""
_POISON_MARK = "windbolt leaves out a line here"
_CHUNK_BYTES = 1 << 20


class PoisonKind(StrEnum):
    """The part of a file that is poison."""

    FILE = "file"
    LINE = "line"
    """A line on which the reader dies, so that its content is unknown."""
    ROW = "row"
    """A readable row on which an extractor or a plain bolt dies."""


@dataclass(frozen=True)
class PoisonInput:
    """A part of a file, or of a split, that is no longer read."""

    spout: str
    path: str
    part: int
    parts: int
    what: PoisonKind
    at: int
    """The number of the line or row, from 0; 0 for a whole file."""
    reason: str

    def is_in(self, spout: str, split: FileSplit) -> bool:
        """True if the poison is in this split."""
        return (self.spout, self.path, self.part, self.parts) == (spout, split.path, split.part, split.parts)

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return asdict(self)

    @staticmethod
    def from_json(values: dict[str, Any]) -> PoisonInput:
        """Reads poison input from the values of ``to_json``."""
        return PoisonInput(**{**values, "what": PoisonKind(values["what"])})


def has_lines(format: FileFormat) -> bool:
    """True if lines of this format can be found without decoding them."""
    return format.name in _HEADERS and "\n".encode(getattr(format, "encoding", "utf-8")) == b"\n"


def header_lines(format: FileFormat) -> int:
    """Returns the number of lines before the rows in files of a format."""
    return _HEADERS.get(format.name, 0) + int(getattr(format, "skip_rows", 0))


@contextmanager
def without_lines(
    filesystem: pafs.FileSystem,
    path: str,
    poison: Sequence[PoisonInput],
    lines: tuple[int, int] | None,
    header: int,
    comment: str | None = None,
) -> Iterator[tuple[pafs.FileSystem, str]]:
    """Returns a copy of a text file with marks in place of poison lines. With ``lines`` (start, stop), copies only that
    range.

    The first ``header`` lines are always included; the last of them has the column names. Lines before it that begin
    with ``comment``, blank lines, and a line with the delimiter are included too.
    """
    poison_lines = {entry.at for entry in poison}
    blank_or_comment = re.compile(rb"\r?\n" + (rb"|" + re.escape(comment.encode()) if comment else b""))
    has_delimiter_line = False
    with tempfile.TemporaryDirectory(prefix="windbolt-") as folder:
        copy = os.path.join(folder, without_compression(os.path.basename(path)))
        with open(copy, "wb") as sink:
            for number, line in enumerate(_lines(filesystem, path)):
                if number == header - 1:
                    without_mark = line if number else line.removeprefix(BOM)
                    is_delimiter_line = not has_delimiter_line and DELIMITER_LINE.match(without_mark) is not None
                    has_delimiter_line = has_delimiter_line or is_delimiter_line
                    header += is_delimiter_line or blank_or_comment.match(without_mark) is not None
                if lines is None or number < header or lines[0] <= number < lines[1]:
                    sink.write(f"{_POISON_MARK}\n".encode() if number in poison_lines else line)
        yield pafs.LocalFileSystem(), copy


def count_lines(filesystem: pafs.FileSystem, path: str) -> int:
    """Returns the number of lines of a text file."""
    return sum(1 for _ in _lines(filesystem, path))


def without_marked_lines(chunks: list[Chunk], poison: Sequence[PoisonInput], raw: dict[int, str]) -> list[Chunk] | None:
    """Returns the chunks of a file in which marked lines become bad rows, with their reasons. Returns None if a mark
    was read as part of something else.

    ``raw``: the text of the poison lines, by number.
    """
    remaining = sorted(poison, key=lambda entry: entry.at)
    result: list[Chunk] = []
    for table, numbers, bad in chunks:
        rows = [BadRow(**row) for row in bad.rows.to_pylist()]
        for index, row in enumerate(rows):
            if remaining and row.data.strip() == _POISON_MARK:
                entry = remaining.pop(0)
                rows[index] = BadRow(row.row, entry.reason, raw.get(entry.at, ""))
        result.append((table, numbers, BadRows.of(rows).with_truncated(bad.truncated)))
    return None if remaining else result


def raw_lines(filesystem: pafs.FileSystem, path: str, poison: Sequence[PoisonInput]) -> dict[int, str]:
    """Returns the text of the poison lines, by number."""
    wanted = {entry.at for entry in poison}
    return {
        number: line.decode("utf-8", "backslashreplace").rstrip("\r\n")
        for number, line in enumerate(_lines(filesystem, path))
        if number in wanted
    }


def without_rows(chunks: list[Chunk], poison: Sequence[PoisonInput]) -> list[Chunk]:
    """Returns the chunks with poison rows as bad rows."""
    reasons = {entry.at: entry.reason for entry in poison}
    if not reasons:
        return chunks
    result: list[Chunk] = []
    for table, numbers, bad in chunks:
        is_poison = np.isin(numbers, list(reasons))
        poison_rows = np.flatnonzero(is_poison)
        if not len(poison_rows):
            result.append((table, numbers, bad))
            continue
        columns = python_columns(table.take(pa.array(poison_rows)))
        rows = [
            BadRow(number, reasons[number], row_as_json(columns, index))
            for index, number in enumerate(numbers[poison_rows].tolist())
        ]
        bad_rows = pa.concat_tables([bad.rows, BadRows.of(rows).rows])
        bad_with_poison = BadRows(bad_rows.cast(BAD_SCHEMA), bad.truncated)
        result.append((table.filter(pa.array(~is_poison)), numbers[~is_poison], bad_with_poison))
    return result


def row_range(chunks: list[Chunk], rows: tuple[int, int]) -> list[Chunk]:
    """Returns the good rows in the range (start, stop) of indices, without bad rows."""
    result, before = list[Chunk](), 0
    for table, numbers, bad in chunks:
        start, stop = (min(max(edge - before, 0), len(numbers)) for edge in rows)
        result.append((table.slice(start, stop - start), numbers[start:stop], BadRows(bad.rows.slice(0, 0))))
        before += len(numbers)
    return result


def _lines(filesystem: pafs.FileSystem, path: str) -> Iterator[bytes]:
    """Yields the lines of a text file, decompressed, with their line ends."""
    with open_file(filesystem, path, "text", streamed=True) as source:
        rest = b""
        while chunk := source.read(_CHUNK_BYTES):
            *complete, rest = (rest + bytes(chunk)).split(b"\n")
            for line in complete:
                yield line + b"\n"
        if rest:
            yield rest


# Splits of sources, each read by one task of the ingest.


_MOST_SPLITS = 1000
"""Maximum number of splits per batch."""
PAUSES = (0.2, 1.0, 3.0)
"""Seconds to wait before each further attempt to reach a file. After the last attempt the task fails, and so does the
batch."""


@dataclass(frozen=True)
class FileSource:
    """A file of a file spout, or a part of one."""

    component: str
    split: FileSplit
    poison: tuple[PoisonInput, ...] = ()
    """The poison in the file, which is no longer read."""
    lines: tuple[int, int] | None = None
    """Range (start, stop) of lines to read alone, to find a poison line; None for all lines."""
    rows: tuple[int, int] | None = None
    """Range (start, stop) of good rows to read alone, to find a poison row; None for all rows."""

    def read(self, topology: Graph) -> Iterator[SourceBatch]:
        """Yields the rows of the file; an unusable file gives one bad row without a number.

        Raises UnreachableError, after several attempts, if the file cannot be read for reasons outside its content.
        """
        node = topology.spouts[self.component]
        spout = node.spout
        assert isinstance(spout, FileSpout)
        try:
            read = self._read_with_retries(node, spout)
        except (DataError, MissingError) as error:
            if isinstance(error, MissingError) and spout.on_missing == "stop":
                raise
            bad = pa.table([[None], [str(error)], [self._shown_path]], schema=BAD_SCHEMA)
            none = np.zeros(0, np.int64)
            yield SourceBatch(
                self.component, DEFAULT_STREAM, node.schema.empty_table(), none, bad, self._shown_path, merge_keys=none
            )
            return
        shuffle_offset = zlib.crc32(os.path.basename(self.split.path).encode())
        for table, numbers, bad_rows in read:
            merge_keys = None if spout.merge_by is None else keys_of(table.column(spout.merge_by))
            yield SourceBatch(
                self.component, DEFAULT_STREAM, table, numbers, bad_rows.rows, self._shown_path,
                shuffle_offset=shuffle_offset, merge_keys=merge_keys, truncated=bad_rows.truncated_among(numbers),
            )  # fmt: skip

    def _read_with_retries(self, node: SpoutNode, spout: FileSpout) -> list[Chunk]:
        """Reads the whole split. Retries, since disks, networks and stores recover."""
        for pause in PAUSES:
            try:
                return self._read_whole_split(node, spout)
            except UnreachableError as error:
                if isinstance(error, MissingError) and spout.on_missing == "invalid":
                    raise
                time.sleep(pause)
        return self._read_whole_split(node, spout)

    def _read_whole_split(self, node: SpoutNode, spout: FileSpout) -> list[Chunk]:
        """Reads the whole split before returning any of it, because a file may turn out to be damaged in the middle."""
        with as_unreachable_error(self.split.path):
            filesystem, path = locate_file(self.split.path)
        schema = spout.row_schema(node.outputs[DEFAULT_STREAM])
        chunks = self._chunks(node, spout, filesystem, path, schema)
        with as_unreachable_error(self.split.path):
            metadata = FileMetadata(filesystem, path, self._shown_path, spout.metadata)
        chunks = [(metadata.with_metadata(rows, numbers), numbers, bad) for rows, numbers, bad in chunks]
        if node.needed is None:
            return chunks
        names = node.schema.names
        return [(rows.select(names), numbers, bad) for rows, numbers, bad in chunks]

    def _chunks(
        self, node: SpoutNode, spout: FileSpout, filesystem: pafs.FileSystem, path: str, schema: pa.Schema
    ) -> list[Chunk]:
        """Reads the file without its poison."""
        needed, optional = node.needed, node.defaults.columns.keys()
        poison = {what: [entry for entry in self.poison if entry.what is what] for what in PoisonKind}
        for entry in poison[PoisonKind.FILE]:
            raise DataError(
                f"{self._shown_path!r} is not read", why=entry.reason, do="inspect the file with other tools"
            )
        lines = poison[PoisonKind.LINE]
        if self.lines is not None:
            lines = [entry for entry in lines if self.lines[0] <= entry.at < self.lines[1]]
        if not lines and self.lines is None:
            split = FileSplit(path, self.split.part, self.split.parts)
            chunks = list(chunks_of(spout, filesystem, split, schema, needed, optional))
        else:
            header, comment = header_lines(spout.format), getattr(spout.format, "comment", None)
            with without_lines(filesystem, path, lines, self.lines, header, comment) as (files, copy):
                readable = without_marked_lines(
                    list(chunks_of(spout, files, FileSplit(copy), schema, needed, optional, original_path=path)),
                    lines,
                    raw_lines(filesystem, path, lines),
                )
            if readable is None:
                raise DataError(
                    f"{self._shown_path!r} is not read", why=lines[0].reason, do="inspect the file with other tools"
                )
            chunks = readable
        chunks = without_rows(chunks, poison[PoisonKind.ROW])
        return chunks if self.rows is None else row_range(chunks, self.rows)

    @property
    def _shown_path(self) -> str:
        """The path for display."""
        return shown_path(self.split.path)


@dataclass(frozen=True)
class FileGroup:
    """Consecutive small files that one task reads together."""

    files: tuple[FileSource, ...]

    def read(self, topology: Graph) -> Iterator[SourceBatch]:
        """Yields the rows of the files."""
        for file in self.files:
            yield from file.read(topology)


@dataclass(frozen=True)
class TableSource:
    """Rows that are already in memory."""

    component: str
    table: pa.Table
    first_row: int = 0
    """The number of the first row in its source."""

    def read(self, topology: Graph) -> Iterator[SourceBatch]:
        """Yields the rows."""
        positions = np.arange(self.first_row, self.first_row + self.table.num_rows)
        yield SourceBatch(self.component, DEFAULT_STREAM, self.table, positions)


def row_numbers(source: FileSource, context: Context) -> list[int]:
    """Runs in a task: reads a file and returns the numbers of its good rows."""
    return [number for source_batch in source.read(context.topology) for number in source_batch.positions.tolist()]


def line_count(source: FileSource, context: Context) -> int:
    """Runs in a task: counts the lines of a text file."""
    filesystem, path = locate_file(source.split.path)
    return count_lines(filesystem, path)


def file_splits(
    topology: Graph,
    files: Sequence[tuple[str, str]],
    split_count: int,
    poison: Sequence[PoisonInput] = (),
    first_output: FirstOutput | None = None,
) -> list[SourceSplit | MergedSplits]:
    """Returns about ``split_count`` splits of files, if files can be divided. ``files``: (spout, path) in order of
    arrival.

    ``poison``: parts of the files to leave out. Very many files share splits, since each split becomes a segment. The
    files of a merging spout stay together. Files are left out if their folders tell that the ``first_output`` output of
    the run does not need them.
    """
    if first_output is not None:
        files = [found for found in files if not _is_skipped(topology, *found, first_output)]
    splits_per_file = -(-split_count // len(files)) if files else 1
    splits: list[FileSource] = []
    for component, path in files:
        spout = topology.spouts[component].spout
        assert isinstance(spout, FileSpout)
        parts = [FileSplit(path)]
        if splits_per_file > 1:
            with suppress(DataError, UnreachableError):  # the task that reads the file will report the error
                with as_unreachable_error(path):
                    filesystem, inside = locate_file(path)
                parts = [
                    FileSplit(path, part.part, part.parts)
                    for part in spout.format.split(filesystem, inside, splits_per_file)
                ]
        for split in parts:
            split_poison = tuple(entry for entry in poison if entry.is_in(component, split))
            splits.append(FileSource(component, split, split_poison))
    files_per_group = -(-len(splits) // _MOST_SPLITS)
    result: list[SourceSplit | MergedSplits] = []
    for component, group in groupby(splits, key=lambda split: split.component):
        groups = _in_groups(list(group), files_per_group)
        merges = cast("FileSpout", topology.spouts[component].spout).merge_by is not None
        result.extend([MergedSplits(groups)] if merges else groups)
    return result


def _is_skipped(topology: Graph, component: str, path: str, first_output: FirstOutput) -> bool:
    spout = cast("FileSpout", topology.spouts[component].spout)
    if not spout.partitions.names:
        return False
    try:
        values = spout.partition_of(path).values
    except DataError:
        return False  # the task that reads the file will report it
    folder_columns = pa.table(dict(values))
    return first_output.skips_file(topology, component, folder_columns, first_output.time)


def _in_groups(splits: list[FileSource], group_size: int) -> Sequence[SourceSplit]:
    if group_size <= 1:
        return splits
    return [FileGroup(tuple(splits[start : start + group_size])) for start in range(0, len(splits), group_size)]
