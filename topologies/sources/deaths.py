"""Deadly input, on which the process that reads it dies: what it is, and how a file is read without it."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from topologies.io.formats.access import opened, without_compression
from topologies.io.formats.bad import BAD_SCHEMA, BadRow, BadRows, python_columns, row_as_json
from topologies.io.formats.lines.csv import DELIMITER_LINE
from topologies.io.formats.lines.long_lines import BOM
from topologies.io.formats.split import Chunk, FileFormat, FileSplit

_HEADERS = {"csv": 1, "jsonl": 0}
"""Formats in which a row is usually a line, and the number of header lines."""
_MARK = "windbolt leaves out a line here"
_CHUNK = 1 << 20


class Deadly(StrEnum):
    """How much of a file is deadly."""

    FILE = "file"
    LINE = "line"
    """A line on which the reader dies, so its content is unknown."""
    ROW = "row"
    """A readable row on which an extractor or a plain bolt dies."""


@dataclass(frozen=True)
class Death:
    """A part of a file, or of a split of one, that is not read any more."""

    spout: str
    path: str
    part: int
    parts: int
    what: Deadly
    at: int
    """The number of the line or row, from 0; 0 for a whole file."""
    reason: str

    def of(self, spout: str, split: FileSplit) -> bool:
        """Whether it lies in a split."""
        return (self.spout, self.path, self.part, self.parts) == (spout, split.path, split.part, split.parts)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)

    @staticmethod
    def from_json(values: dict[str, Any]) -> Death:
        """From what ``to_json`` gives."""
        return Death(**{**values, "what": Deadly(values["what"])})


def has_lines(format: FileFormat) -> bool:
    """Whether files of a format have lines, which can be told without decoding them."""
    return format.name in _HEADERS and "\n".encode(getattr(format, "encoding", "utf-8")) == b"\n"


def header_lines(format: FileFormat) -> int:
    """Number of lines before the rows in files of a format."""
    return _HEADERS.get(format.name, 0) + int(getattr(format, "skip_rows", 0))


@contextmanager
def without_lines(
    filesystem: pafs.FileSystem,
    path: str,
    doomed: Sequence[Death],
    lines: tuple[int, int] | None,
    header: int,
    comment: str | None = None,
) -> Iterator[tuple[pafs.FileSystem, str]]:
    """A copy of a text file in which deadly lines are replaced by marks; with ``lines`` (start, stop), of that range
    only.

    The first ``header`` lines are always included, the last of which is that of the names: lines that begin with
    ``comment``, blank ones, and one that says which delimiter there is may stand before it, and are included too.
    """
    gone = {death.at for death in doomed}
    before = re.compile(rb"\r?\n" + (rb"|" + re.escape(comment.encode()) if comment else b""))
    says_delimiter = False
    with tempfile.TemporaryDirectory(prefix="windbolt-") as folder:
        copy = os.path.join(folder, without_compression(os.path.basename(path)))
        with open(copy, "wb") as sink:
            for number, line in enumerate(_lines(filesystem, path)):
                if number == header - 1:
                    bare = line if number else line.removeprefix(BOM)
                    says = not says_delimiter and DELIMITER_LINE.match(bare) is not None
                    says_delimiter = says_delimiter or says
                    header += says or before.match(bare) is not None
                if lines is None or number < header or lines[0] <= number < lines[1]:
                    sink.write(f"{_MARK}\n".encode() if number in gone else line)
        yield pafs.LocalFileSystem(), copy


def count_lines(filesystem: pafs.FileSystem, path: str) -> int:
    """Number of lines of a text file."""
    return sum(1 for _ in _lines(filesystem, path))


def without_marked_lines(chunks: list[Chunk], doomed: Sequence[Death], raw: dict[int, str]) -> list[Chunk] | None:
    """The chunks of a file with its marked lines as bad rows, with the reasons; None where a mark was read as something
    else.

    ``raw`` has the text of the deadly lines by number.
    """
    left = sorted(doomed, key=lambda death: death.at)
    result: list[Chunk] = []
    for table, numbers, bad in chunks:
        rows = [BadRow(**row) for row in bad.rows.to_pylist()]
        for index, row in enumerate(rows):
            if left and row.data.strip() == _MARK:
                death = left.pop(0)
                rows[index] = BadRow(row.row, death.reason, raw.get(death.at, ""))
        result.append((table, numbers, BadRows.of(rows).with_truncated(bad.truncated)))
    return None if left else result


def raw_lines(filesystem: pafs.FileSystem, path: str, doomed: Sequence[Death]) -> dict[int, str]:
    """The text of the deadly lines, by number."""
    wanted = {death.at for death in doomed}
    return {
        number: line.decode("utf-8", "backslashreplace").rstrip("\r\n")
        for number, line in enumerate(_lines(filesystem, path))
        if number in wanted
    }


def without_rows(chunks: list[Chunk], doomed: Sequence[Death]) -> list[Chunk]:
    """The chunks with deadly rows turned into bad rows."""
    reasons = {death.at: death.reason for death in doomed}
    if not reasons:
        return chunks
    result: list[Chunk] = []
    for table, numbers, bad in chunks:
        dead = np.isin(numbers, list(reasons))
        gone = np.flatnonzero(dead)
        if not len(gone):
            result.append((table, numbers, bad))
            continue
        columns = python_columns(table.take(pa.array(gone)))
        rows = [
            BadRow(number, reasons[number], row_as_json(columns, index))
            for index, number in enumerate(numbers[gone].tolist())
        ]
        more = pa.concat_tables([bad.rows, BadRows.of(rows).rows])
        left = BadRows(more.cast(BAD_SCHEMA), bad.truncated)
        result.append((table.filter(pa.array(~dead)), numbers[~dead], left))
    return result


def some_rows(chunks: list[Chunk], rows: tuple[int, int]) -> list[Chunk]:
    """The good rows from one index up to, not including, another; without bad rows."""
    result, before = list[Chunk](), 0
    for table, numbers, bad in chunks:
        start, stop = (min(max(edge - before, 0), len(numbers)) for edge in rows)
        result.append((table.slice(start, stop - start), numbers[start:stop], BadRows(bad.rows.slice(0, 0))))
        before += len(numbers)
    return result


def _lines(filesystem: pafs.FileSystem, path: str) -> Iterator[bytes]:
    """The lines of a text file, decompressed, each with its line end."""
    with opened(filesystem, path, "text", streamed=True) as source:
        rest = b""
        while chunk := source.read(_CHUNK):
            *whole, rest = (rest + bytes(chunk)).split(b"\n")
            for line in whole:
                yield line + b"\n"
        if rest:
            yield rest
