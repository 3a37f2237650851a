"""Lines of text, plain or compressed: read whole, or as rows of one column."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs

from topologies.io.formats.conform import with_absent
from topologies.io.formats.event_files import (
    LONGEST_DATA,
    UTF_8,
    BadRow,
    BadRows,
    Chunk,
    FileSplit,
    OneSplit,
    as_data_error,
    open_file,
    refuse_absent,
    refuse_repeated_names,
    shown_bytes,
)
from topologies.io.formats.text_values import isolate
from windowing.errors import ConfigError

# Reads whole lines from a stream in blocks. A line that is too long becomes a bad row and takes no memory.


LONGEST_ROW = 16 << 20
"""Default maximum size of a text row in bytes, the same as for messages."""
BOM = b"\xef\xbb\xbf"
"""The byte order mark, which may begin a UTF-8 file."""


@dataclass(frozen=True)
class LongLine:
    """The first part of a line that is too long."""

    start: bytes
    longest: int

    def bad_row(self, row: int, encoding: str = UTF_8) -> BadRow:
        """Returns the line as an unreadable row. ``encoding``: as for ``shown_bytes``."""
        return BadRow(row, too_long(self.longest), shown_bytes(self.start, encoding))


def too_long(longest: int) -> str:
    """Returns the reason for a line that is too long."""
    return f"the row has more than {longest:,} bytes, which is the longest that is read"


class Source(Protocol):
    """Source of blocks of bytes."""

    def read(self, size: int, /) -> bytes: ...


def blocks_of_lines(source: Source, path: str, kind: str, size: int, longest: int) -> Iterator[bytes | LongLine]:
    """Yields blocks of whole lines, of about ``size`` bytes, without a byte order mark; the last line may lack its end.

    At most ``longest`` bytes and a block are held in memory. A longer line is yielded as a LongLine. A block may also
    contain lines that are too long, which its reader must check.
    """
    rest: list[bytes] = []
    rest_size, skipping = 0, False
    for data in _blocks_without_mark(source, path, kind, size):
        cut = data.rfind(b"\n") + 1
        if skipping and cut:
            first = data.find(b"\n") + 1
            yield LongLine(rest[0], longest)
            rest, rest_size, skipping = [], 0, False
            data, cut = data[first:], cut - first  # noqa: PLW2901
        if skipping:
            continue
        if cut:
            yield b"".join([*rest, data[:cut]])
            rest, rest_size = [], 0
        rest.append(data[cut:])
        rest_size += len(data) - cut
        if rest_size > longest + 1:  # a carriage return at its end does not count
            rest, skipping = [b"".join(rest)[:LONGEST_DATA]], True
    if skipping:
        yield LongLine(rest[0], longest)
    else:
        yield b"".join(rest)


def _blocks_without_mark(source: Source, path: str, kind: str, size: int) -> Iterator[bytes]:
    head, begun = b"", False
    while True:
        with as_data_error(path, kind):
            data = source.read(size)
        ended = not data
        if not begun:
            head += data
            begun = ended or len(head) >= len(BOM)
            data = head.removeprefix(BOM) if begun else b""
        if data:
            yield data
        if ended:
            return


# Reads text, plain or compressed: each line is a row with one column, ``line``, for a bolt to parse.
#
# Every line is a row, even a blank one, and also text after the last line end. A line ends with a line feed, with or
# without a carriage return before it. A byte order mark is skipped. A line that is invalid in the encoding is bad,
# unless the column is declared as ``line binary``, which takes any bytes.


LINE = "line"
"""The name of the only column."""
_BLOCK = 4 << 20
_PROBE = "a\r\n"
_LF, _CR = 10, 13


@dataclass(frozen=True)
class TextFormat(OneSplit):
    """Reads lines of text.

    ``encoding``: any that Python knows. ``keep_line_ends``: lines keep their line ends. ``block_size``: bytes read at a
    time. ``longest_row``: the most bytes in a line (16 MiB). The start of a longer line is kept, as a bad row.
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

    def read(
        self,
        fs: pafs.FileSystem,
        split: FileSplit,
        schema: pa.Schema,
        needed: Collection[str] | None = None,
        optional: Collection[str] = (),
    ) -> Iterator[Chunk]:
        """Yields a chunk per block of lines."""
        refuse_repeated_names(schema)
        refuse_absent(split.path, [LINE], schema, optional)
        kind, row = schema.field(LINE).type, 0
        with open_file(fs, split.path, "text", streamed=True) as source:
            encoding = UTF_8 if pa.types.is_binary(kind) else codecs.lookup(self.encoding).name
            text = source if encoding == UTF_8 else _Utf8Source(source, split.path, self.encoding)
            for block in blocks_of_lines(text, split.path, "text", self.block_size, self.longest_row):
                if isinstance(block, LongLine):
                    yield schema.empty_table(), np.empty(0, np.int64), BadRows.of([block.bad_row(row, encoding)])
                    row += 1
                elif block:
                    chunk, number = self._chunk(block, kind, row, encoding)
                    row += number
                    yield with_absent(chunk, schema, [LINE])

    def _chunk(self, block: bytes, kind: pa.DataType, row: int, encoding: str) -> tuple[Chunk, int]:
        """Returns the lines of a block as rows, and their number. ``row``: the number of the first row; ``encoding``:
        as for ``shown_bytes``."""
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
    """Raises ConfigError for an encoding that Python does not know, or that changes the probe when decoding and
    encoding it."""
    try:
        known = probe.encode(encoding).decode(encoding, "surrogateescape") == probe
    except (LookupError, UnicodeError, TypeError):
        known = False
    if not known:
        raise ConfigError(f"encoding {encoding!r} is not known", do="use one of Python's, such as 'utf-8' or 'cp1252'")


def _lines(block: bytes, *, keep_ends: bool) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Returns the lines of a block, and their lengths without their ends."""
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


class _Utf8Source:
    """A file in another encoding, converted to UTF-8. Invalid bytes become invalid UTF-8."""

    def __init__(self, source: pa.NativeFile, path: str, encoding: str) -> None:
        self._source, self._path, self._encoding = source, path, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogateescape")

    def read(self, size: int) -> bytes:
        """Returns about ``size`` bytes; none at the end."""
        while True:
            with as_data_error(self._path, f"text in {self._encoding}"):
                data = self._source.read(size)
                text = self._decoder.decode(data, not data).encode("utf-8", "surrogatepass")
            if text or not data:
                return text
