"""Reads text, plain or compressed: each line is a row of one column, ``line``, for a bolt that takes it apart.

Every line is a row, blank ones too; what follows the last line end is one, if there is anything. A line ends in a line
feed, with or without a carriage return before it. A byte order mark is skipped. A line that is not of the encoding is
bad; declared as ``line binary`` it is what stands in the file, whatever that is.
"""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs

from topologies.io.formats.access import opened
from topologies.io.formats.bad import LONGEST_DATA, UTF_8, BadRow, BadRows, shown_bytes
from topologies.io.formats.conform import with_absent
from topologies.io.formats.file_errors import declared_once, reading, refuse_absent
from topologies.io.formats.isolate import isolate
from topologies.io.formats.lines.long_lines import LONGEST_ROW, LongLine, blocks_of_lines, too_long
from topologies.io.formats.split import Chunk, FileSplit
from windowing.errors import ConfigError

LINE = "line"
"""The name of the only column."""
_BLOCK = 4 << 20
_PROBE = "a\r\n"
_LF, _CR = 10, 13


@dataclass(frozen=True)
class TextFormat:
    """Reads lines of text.

    ``encoding``: any that Python knows. ``keep_line_ends``: lines keep what ends them. ``block_size``: bytes read at a
    time. ``longest_row``: the longest line in bytes (16 MiB); a longer one is a bad row, of which the start is kept.
    """

    encoding: str = "utf-8"
    keep_line_ends: bool = False
    block_size: int = _BLOCK
    longest_row: int = LONGEST_ROW
    name: ClassVar[str] = "text"

    def __post_init__(self) -> None:
        check_encoding(self.encoding, _PROBE)
        if self.block_size < 1 or self.longest_row < 1:
            name = "block_size" if self.block_size < 1 else "longest_row"
            raise ConfigError(
                f"{name} {getattr(self, name)} is too small", why="lines are longer", do="use 1 MB or more"
            )
        if not isinstance(self.keep_line_ends, bool):
            raise ConfigError(f"keep_line_ends {self.keep_line_ends!r} is no answer", do="use True or False")

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
        refuse_absent(split.path, [LINE], schema, optional)
        kind, row = schema.field(LINE).type, 0
        with opened(fs, split.path, "text", streamed=True) as source:
            encoding = UTF_8 if pa.types.is_binary(kind) else codecs.lookup(self.encoding).name
            text = source if encoding == UTF_8 else _Decoded(source, split.path, self.encoding)
            for block in blocks_of_lines(text, split.path, "text", self.block_size, self.longest_row):
                if isinstance(block, LongLine):
                    yield schema.empty_table(), np.empty(0, np.int64), BadRows.of([block.bad_row(row, encoding)])
                    row += 1
                elif block:
                    chunk, number = self._chunk(block, kind, row, encoding)
                    row += number
                    yield with_absent(chunk, schema, [LINE])

    def _chunk(self, block: bytes, kind: pa.DataType, row: int, encoding: str) -> tuple[Chunk, int]:
        """The lines of a block as rows, the first of which has the number ``row``; and how many there are.
        ``encoding``: as for ``shown_bytes``."""
        lines, lengths = _lines(block, keep_ends=self.keep_line_ends)
        numbers = np.arange(row, row + len(lines), dtype=np.int64)
        long = lengths > self.longest_row
        values, broken = (lines, None) if kind == lines.type else isolate(lines, kind, lambda some: some.cast(kind))
        wrong = long if broken is None else long | broken
        if not wrong.any():
            return (pa.table({LINE: values}), numbers, BadRows.of([])), len(lines)
        bad = [
            BadRow(
                int(numbers[at]),
                too_long(self.longest_row) if long[at] else f"the line is not valid {self.encoding.upper()}",
                shown_bytes(lines[at].as_py()[:LONGEST_DATA], encoding),
            )
            for at in np.flatnonzero(wrong).tolist()
        ]
        good = pa.array(~wrong)
        return (pa.table({LINE: values.filter(good)}), numbers[~wrong], BadRows.of(bad)), len(lines)


def check_encoding(encoding: str, probe: str) -> None:
    """Raise ConfigError for an encoding that Python does not know, or in which the probe is not what it is."""
    try:
        known = probe.encode(encoding).decode(encoding, "surrogateescape") == probe
    except (LookupError, UnicodeError, TypeError):
        known = False
    if not known:
        raise ConfigError(f"encoding {encoding!r} is not known", do="use one of Python's, such as 'utf-8' or 'cp1252'")


def _lines(block: bytes, *, keep_ends: bool) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The lines of a block, and their lengths without their ends."""
    if not keep_ends:
        block = block.replace(b"\r\n", b"\n") if b"\r" in block else block
    raw = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(raw == _LF)
    is_open = not block.endswith(b"\n")
    if keep_ends:
        stops, data = ends + 1, block
        shorter = 1 + ((ends > 0) & (raw[np.maximum(ends - 1, 0)] == _CR))
    else:
        stops, data = ends - np.arange(len(ends)), block.replace(b"\n", b"")
        shorter = np.zeros(len(ends), np.int64)
    offsets = np.concatenate([[0], stops, [len(data)] if is_open else []]).astype(np.int32)
    lengths = np.diff(offsets).astype(np.int64)
    lengths[: len(ends)] -= shorter
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers), lengths


class _Decoded:
    """A file of another encoding in UTF-8; what is not of it becomes what is not UTF-8."""

    def __init__(self, source: pa.NativeFile, path: str, encoding: str) -> None:
        self._source, self._path, self._encoding = source, path, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogateescape")

    def read(self, size: int) -> bytes:
        """About so many bytes; none at the end."""
        while True:
            with reading(self._path, f"text in {self._encoding}"):
                data = self._source.read(size)
                text = self._decoder.decode(data, not data).encode("utf-8", "surrogatepass")
            if text or not data:
                return text
