"""Reads a JSON file that is one array of objects; any other is read as JSON lines."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from topologies.io.formats.access import opened
from topologies.io.formats.bad import LONGEST_DATA, BadRow, BadRows
from topologies.io.formats.declared_times import Times
from topologies.io.formats.file_errors import declared_once, reading
from topologies.io.formats.lines.jsonl import JsonlFormat
from topologies.io.formats.lines.jsonrows import JsonRows
from topologies.io.formats.lines.long_lines import BOM
from topologies.io.formats.split import Chunk, FileSplit, OnTruncation

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
        """A chunk per block."""
        declared_once(schema)
        with opened(fs, split.path, "JSON", streamed=True) as source:
            array = _Array(source, split.path, self.block_size, self.longest_row)
            if array.begins():
                yield from array.chunks(schema, self.on_truncation, self.times)
                return
        yield from super().read(fs, split, schema, needed, optional)


class _Array:
    """The elements of an array, found by their brackets and commas; what is between these is for the reader of rows."""

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
        """The next elements, about a block of them; and why there are no more: "" at the end of the array."""
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
        """Where the next element ends, at a comma or the bracket of the array; None where it does not."""
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
