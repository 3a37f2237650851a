"""Reads a JSON file that is one array of objects; any other is read as JSON lines."""

from __future__ import annotations

import codecs
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from topologies.io.formats.access import opened
from topologies.io.formats.bad import LONGEST_DATA, BadRow, BadRows
from topologies.io.formats.file_errors import declared_once, reading
from topologies.io.formats.lines.jsonl import JsonlFormat
from topologies.io.formats.lines.jsonrows import JsonRows
from topologies.io.formats.split import Chunk, FileSplit

_SPACE = " \t\r\n"
_AFTER = "the rest of the file cannot be read: "


@dataclass(frozen=True)
class JsonFormat(JsonlFormat):
    """Reads a file that is one array of objects, over any lines, a block at a time.

    A file that does not begin with ``[`` is read as JSON lines. In an array each object is a row, by the rules of JSON
    lines. Where the array itself is broken, nobody can tell where the next object begins: all that follows is one bad
    row.
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
                yield from array.chunks(schema)
                return
        yield from super().read(fs, split, schema, needed, optional)


class _Array:
    def __init__(self, source: pa.NativeFile, path: str, size: int, longest: int) -> None:
        self.source, self.path, self.size, self.longest = source, path, size, longest
        self.decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.text, self.place, self.ended = "", 0, False

    def begins(self) -> bool:
        if self._next() == "\ufeff":
            self.place += 1
        begins = self._next() == "["
        self.place += begins
        return begins

    def chunks(self, schema: pa.Schema) -> Iterator[Chunk]:
        row, broken = 0, None
        while broken is None:
            values, broken = self._values(first=row == 0)
            numbers = np.arange(row, row + len(values))
            if values:
                yield JsonRows(values, schema, numbers).chunk()
            row += len(values)
        if broken:
            rest = self.text[self.place :][:LONGEST_DATA].encode("utf-8", "surrogateescape")
            bad = BadRow(row, _AFTER + broken, rest.decode("utf-8", "backslashreplace"))
            yield schema.empty_table(), np.empty(0, np.int64), BadRows.of([bad])

    def _values(self, *, first: bool) -> tuple[list[bytes], str | None]:
        """The next values, about a block of them; and why there are no more: "" at the end of the array."""
        values: list[bytes] = []
        taken = 0
        while taken < self.size:
            found = self._next()
            if found == "]":
                self.place += 1
                return values, "" if self._next() == "" else "something follows the array"
            if not (first and not values):
                if found != ",":
                    return values, "the file ends within the array" if found == "" else "a comma is missing"
                self.place += 1
                self._next()
            value = self._value()
            if isinstance(value, Exception):
                return values, str(value)
            values.append(value)
            taken += len(value)
        return values, None

    def _value(self) -> bytes | Exception:
        while True:
            try:
                _, end = _decoder.raw_decode(self.text, self.place)
                if end < len(self.text) or self.ended:
                    break
            except (json.JSONDecodeError, RecursionError) as error:
                if self.ended:
                    return ValueError(str(error) if isinstance(error, RecursionError) else error.msg)
                if len(self.text) - self.place > self.longest:
                    return ValueError(f"an element has more than {self.longest:,} characters, or is not JSON")
            self._more()
        value = self.text[self.place : end].encode("utf-8", "surrogateescape")
        self.place = end
        return value

    def _next(self) -> str:
        """The next character that is not white space, not taken; "" at the end."""
        while True:
            while self.place < len(self.text) and self.text[self.place] in _SPACE:
                self.place += 1
            if self.place < len(self.text) or self.ended:
                return self.text[self.place : self.place + 1]
            self._more()

    def _more(self) -> None:
        with reading(self.path, "JSON"):
            data: bytes = self.source.read(self.size)
        self.ended = not data
        self.text = self.text[self.place :] + self.decoder.decode(data, self.ended)
        self.place = 0


_decoder = json.JSONDecoder(strict=False)
