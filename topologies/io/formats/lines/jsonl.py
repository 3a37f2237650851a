"""Reads JSON lines, plain or gzipped: one object per line, parsed by Arrow in blocks of whole lines.

A name missing from a line is null, as is a declared name missing from all lines. A line must be UTF-8 and one object;
blank lines are skipped. A string must be a string and a number a number, but numbers may be given as strings ("NaN",
"Infinity", exact decimals); 3.0 and 1e2 are whole numbers, 3.7 is not. A whole number for a timestamp is milliseconds
since the epoch, text is ISO 8601. Binary is base64, a date "2024-05-01", a map an object or a list of [key, value].

Arrow's reader ends the process on a first line ``null``, reads two objects on one line as two rows, accepts numbers as
dates, and reads numbers beyond a double's range as infinity. So lines that are not plainly ``{...}``, and those that
Arrow would misread, are parsed one by one instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from topologies.io.formats.access import opened
from topologies.io.formats.bad import BAD_SCHEMA, BadRow, BadRows
from topologies.io.formats.file_errors import declared_once, reading
from topologies.io.formats.lines.jsonblock import JsonBlock
from topologies.io.formats.lines.jsonbytes import BLANK_OR_END
from topologies.io.formats.lines.long_lines import LONGEST_ROW, LongLine, blocks_of_lines
from topologies.io.formats.split import Chunk, FileSplit
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
    name: ClassVar[str] = "jsonl"

    def __post_init__(self) -> None:
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
                with reading(split.path, "JSON lines"):
                    reader = JsonBlock(block, schema, row, self.longest_row)
                    chunk = reader.chunk()
                if len(reader):
                    yield chunk
                row += len(reader)


def parse_values(values: pa.Array, schema: pa.Schema) -> Chunk:
    """Parse values that are each a JSON object, by the rules of a line; rows are numbered by their index.

    A value may have several lines. A null or blank value is bad.
    """
    declared_once(schema)
    lengths = pc.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    given = np.flatnonzero(lengths > 0)
    kept = values if len(given) == len(values) else values.take(pa.array(given))
    block = _joined(kept)
    starts = np.concatenate([[0], np.cumsum(lengths[given] + 1)[:-1]]).astype(np.int64) if len(given) else given
    odd = np.flatnonzero(BLANK_OR_END[np.frombuffer(block, np.uint8)[starts]])
    blank = [index for index in odd.tolist() if not kept[index].as_py().strip()]
    if blank:
        given = np.delete(given, blank)
        kept = values.take(pa.array(given))
        block = _joined(kept)
    if block.count(b"\n") > len(given):
        # A newline ends a value here. Inside a value a carriage return is equivalent: JSON treats it as white space
        # as well.
        block = _joined(pc.replace_substring(kept, b"\n", b"\r"))
    table, places, bad = JsonBlock(block, schema, 0).chunk()
    wrong = [BadRow(int(given[row]), reason, data) for row, reason, data in _listed(bad)]
    absent = np.setdiff1d(np.arange(len(values)), given)
    wrong += [
        BadRow(index, "the value is blank" if values[index].is_valid else "the value is null (a tombstone)", "")
        for index in absent.tolist()
    ]
    return table, given[places], BadRows.of(wrong)


def _listed(bad: BadRows) -> list[tuple[int, str, str]]:
    return list(zip(*(bad.rows.column(name).to_pylist() for name in BAD_SCHEMA.names), strict=True)) if len(bad) else []


def _joined(values: pa.Array) -> bytes:
    """The values joined as lines."""
    if not len(values):
        return b""
    whole = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    return bytes(pc.binary_join(whole, b"\n")[0].as_buffer()) + b"\n"
