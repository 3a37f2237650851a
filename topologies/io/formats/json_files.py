"""Files of JSON: lines with an object each, or one array of objects."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from topologies.io.formats.conform import as_bytes
from topologies.io.formats.declared_times import Times, checked_times
from topologies.io.formats.event_files import (
    LONGEST_DATA,
    BadRow,
    BadRows,
    Chunk,
    FileSplit,
    OneSplit,
    OnTruncation,
    check_truncation,
    declared_once,
    opened,
    reading,
)
from topologies.io.formats.json_rows import JsonRows
from topologies.io.formats.lines import BOM, LONGEST_ROW, LongLine, blocks_of_lines
from windowing.errors import ConfigError

# Reads JSON lines, plain or gzipped: one object per line.
#
# A name missing from a line is null, as is a declared name missing from all lines. A line must be UTF-8 and one
# object; blank lines are skipped. A string must be a string and a number a number, but numbers may be given as strings
# ("NaN", "Infinity", exact decimals); 3.0 and 1e2 are whole numbers, 3.7 is not. A whole number for a timestamp is
# milliseconds since the epoch, text is ISO 8601. Binary is base64, a date "2024-05-01", a map an object or a list of
# [key, value].


_BLOCK = 4 << 20


@dataclass(frozen=True)
class JsonlFormat(OneSplit):
    """Reads JSON lines.

    ``block_size``: bytes read at a time. A longer line is read whole, up to ``longest_row`` bytes (16 MiB); a line
    beyond that is a bad row, of which the start is kept.
    """

    block_size: int = _BLOCK
    longest_row: int = LONGEST_ROW
    on_truncation: OnTruncation = "cut"
    times: Times = ()
    name: ClassVar[str] = "jsonl"

    def __post_init__(self) -> None:
        check_truncation(self.on_truncation)
        object.__setattr__(self, "times", checked_times(self.times))
        if self.block_size < 1:
            raise ConfigError(
                f"block_size {self.block_size} is too small", why="a block must hold whole lines", do="use 1 MB or more"
            )
        if self.longest_row < 1:
            raise ConfigError(
                f"longest_row {self.longest_row} is too small", why="rows are usually longer", do="use 1 MB or more"
            )

    def read(
        self,
        fs: pafs.FileSystem,
        split: FileSplit,
        schema: pa.Schema,
        needed: Collection[str] | None = None,
        optional: Collection[str] = (),
    ) -> Iterator[Chunk]:
        """Yields a chunk per block of lines."""
        declared_once(schema)
        row = 0
        with opened(fs, split.path, "JSON lines", streamed=True) as source:
            for block in blocks_of_lines(source, split.path, "JSON lines", self.block_size, self.longest_row):
                if isinstance(block, LongLine):
                    yield schema.empty_table(), np.empty(0, np.int64), BadRows.of([block.bad_row(row)])
                    row += 1
                    continue
                lines = [line for line in block.split(b"\n") if line.strip()]
                if lines:
                    yield self._chunk(lines, schema, row)
                row += len(lines)

    def _chunk(self, lines: list[bytes], schema: pa.Schema, row: int) -> Chunk:
        numbers = np.arange(row, row + len(lines))
        if max(map(len, lines)) <= self.longest_row:
            return JsonRows(lines, schema, numbers, self.on_truncation, self.times).chunk()
        long = [place for place, line in enumerate(lines) if len(line.removesuffix(b"\r")) > self.longest_row]
        too_long = [LongLine(lines[place][:LONGEST_DATA], self.longest_row).bad_row(row + place) for place in long]
        kept = np.delete(np.arange(len(lines)), long)
        good = [lines[place] for place in kept.tolist()]
        table, places, bad = JsonRows(good, schema, numbers[kept], self.on_truncation, self.times).chunk()
        return table, places, bad.with_others(too_long)


def parse_values(values: pa.Array, schema: pa.Schema, on_truncation: OnTruncation = "cut", times: Times = ()) -> Chunk:
    """Parse values that are each a JSON object, by the rules of a line; rows are numbered by their index.

    A value may have several lines. A null or blank value is bad.
    """
    declared_once(schema)
    texts = as_bytes(values).to_pylist()
    given = np.array([place for place, text in enumerate(texts) if text is not None and text.strip()], np.int64)
    rows = [texts[place] for place in given.tolist()]
    table, places, bad = JsonRows(rows, schema, given, on_truncation, times).chunk()
    absent = [
        BadRow(int(place), "the value is null (a tombstone)" if texts[place] is None else "the value is blank", "")
        for place in np.setdiff1d(np.arange(len(texts)), given)
    ]
    return table, places, bad.with_others(absent)


# Reads a JSON file that is one array of objects; any other is read as JSON lines.


_CLOSING = ord("]")
_REST = "the rest of the file cannot be read"


@dataclass(frozen=True)
class JsonFormat(JsonlFormat):
    """Reads a file that is one array of objects, over any lines, a block at a time.

    A file that does not begin with ``[`` is read as JSON lines. In an array each object is a row, by the rules of JSON
    lines, and one that is no JSON is a bad row. Where the array does not end, or an element is longer than
    ``longest_row``, all that follows is one bad row.
    """

    name: ClassVar[str] = "json"

    def read(
        self,
        fs: pafs.FileSystem,
        split: FileSplit,
        schema: pa.Schema,
        needed: Collection[str] | None = None,
        optional: Collection[str] = (),
    ) -> Iterator[Chunk]:
        """Yields a chunk per block."""
        declared_once(schema)
        with opened(fs, split.path, "JSON", streamed=True) as source:
            array = _Array(source, split.path, self.block_size, self.longest_row)
            if array.begins():
                yield from array.chunks(schema, self.on_truncation, self.times)
                return
        yield from super().read(fs, split, schema, needed, optional)


class _Array:
    """The elements of an array, found by their brackets and commas; the text between these is left to the reader of
    rows."""

    def __init__(self, source: pa.NativeFile, path: str, size: int, longest: int) -> None:
        self.source, self.path, self.size, self.longest = source, path, size, longest
        self.data, self.place, self.ended = b"", 0, False
        self.seen, self.depth = 0, 0  # how far the element at ``place`` is known, and how deep it is there

    def begins(self) -> bool:
        while not self.ended and (len(self.data) < len(BOM) or not self.data.removeprefix(BOM).strip()):
            self._more()
        self.data = self.data.removeprefix(BOM).lstrip()
        begins = self.data.startswith(b"[")
        self.place = self.seen = int(begins)
        return begins

    def chunks(self, schema: pa.Schema, on_truncation: OnTruncation, times: Times) -> Iterator[Chunk]:
        row, broken = 0, None
        while broken is None:
            values, broken = self._values(first=row == 0)
            numbers = np.arange(row, row + len(values))
            if values:
                yield JsonRows(values, schema, numbers, on_truncation, times).chunk()
            row += len(values)
        if broken:
            rest = self.data[self.place :][:LONGEST_DATA].decode("utf-8", "backslashreplace")
            yield schema.empty_table(), np.empty(0, np.int64), BadRows.of([BadRow(row, broken, rest)])

    def _values(self, *, first: bool) -> tuple[list[bytes], str | None]:
        """Returns the next elements, about a block of them; and the reason why there are no more: "" at the end of the
        array."""
        values: list[bytes] = []
        taken = 0
        while taken < self.size:
            end = self._end()
            if end is None:
                if len(self.data) - self.place > self.longest:
                    return values, f"an element has more than {self.longest:,} bytes, or does not end; {_REST}"
                return values, f"the file ends within the array; {_REST}"
            value, last = self.data[self.place : end].strip(), self.data[end] == _CLOSING
            if len(value) > self.longest:
                return values, f"an element has more than {self.longest:,} bytes, or does not end; {_REST}"
            if value or not (last and first and not values):
                values.append(value)
            taken += end - self.place + 1
            self.place = self.seen = end + 1
            if last:
                return values, self._after()
        return values, None

    def _after(self) -> str:
        while not self.data[self.place :].strip() and not self.ended:
            self._more()
        return f"something follows the array; {_REST}" if self.data[self.place :].strip() else ""

    def _end(self) -> int | None:
        """Returns where the next element ends, at a comma or the bracket of the array; None where it does not end."""
        while True:
            begun = len(self.data)
            for token in _TOKEN.finditer(self.data, self.seen):
                what = token[0]
                if what == b'"':  # a text that does not end in what has been read
                    begun = token.start()
                    break
                if what in b"[{":
                    self.depth += 1
                elif self.depth and what in b"]}":
                    self.depth -= 1
                elif not self.depth and what in b",]":
                    return token.start()
            self.seen = begun
            if self.ended or len(self.data) - self.place > self.longest:
                return None
            self._more()

    def _more(self) -> None:
        with reading(self.path, "JSON"):
            data: bytes = self.source.read(self.size)
        self.ended = not data
        self.data = self.data[self.place :] + data
        self.seen -= self.place
        self.place = 0


_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|["\[\]{},]', re.DOTALL)
