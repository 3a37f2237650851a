"""Reads JSON lines, plain or gzipped: one object per line.

A name missing from a line is null, as is a declared name missing from all lines. A line must be UTF-8 and one object;
blank lines are skipped. A string must be a string and a number a number, but numbers may be given as strings ("NaN",
"Infinity", exact decimals); 3.0 and 1e2 are whole numbers, 3.7 is not. A whole number for a timestamp is milliseconds
since the epoch, text is ISO 8601. Binary is base64, a date "2024-05-01", a map an object or a list of [key, value].
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from topologies.io.formats.access import opened
from topologies.io.formats.bad import LONGEST_DATA, BadRow, BadRows
from topologies.io.formats.convert import as_bytes
from topologies.io.formats.declared_times import Times, checked_times
from topologies.io.formats.file_errors import declared_once
from topologies.io.formats.lines.jsonrows import JsonRows
from topologies.io.formats.lines.long_lines import LONGEST_ROW, LongLine, blocks_of_lines
from topologies.io.formats.split import Chunk, FileSplit, OnTruncation, check_truncation
from windowing.errors import ConfigError

_BLOCK = 4 << 20


@dataclass(frozen=True)
class JsonlFormat:
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

    def split(self, fs: pafs.FileSystem, path: str, wanted: int) -> list[FileSplit]:
        """One split."""
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
