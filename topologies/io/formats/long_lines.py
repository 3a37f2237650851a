"""Whole lines out of a stream, in blocks; a line that is longer than a row may be costs its row, and no memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from topologies.io.formats.bad import LONGEST_DATA, BadRow
from topologies.io.formats.trouble import reading

LONGEST_ROW = 16 << 20
"""Bytes that a row of text has at most, unless the format is told otherwise: as many as a message."""
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class LongLine:
    """What is kept of a line that is too long."""

    start: bytes
    longest: int

    def bad_row(self, row: int) -> BadRow:
        """The row as one that could not be read."""
        return BadRow(row, too_long(self.longest), self.start.decode("utf-8", "backslashreplace"))


def too_long(longest: int) -> str:
    """The reason why a row is bad."""
    return f"the row has more than {longest:,} bytes, which is the longest that is read"


def blocks_of_lines(source: pa.NativeFile, path: str, kind: str, size: int, longest: int) -> Iterator[bytes | LongLine]:
    """Blocks of whole lines, of about ``size`` bytes, without a byte order mark; the last may lack its line end.

    At most ``longest`` bytes and a block are held. A LongLine stands for a line that has more; a block may also hold
    some that are longer, for whoever divides it to find.
    """
    rest: list[bytes] = []
    held, skipping = 0, False
    for data in _read(source, path, kind, size):
        cut = data.rfind(b"\n") + 1
        if skipping and cut:
            first = data.find(b"\n") + 1
            yield LongLine(rest[0], longest)
            rest, held, skipping = [], 0, False
            data, cut = data[first:], cut - first  # noqa: PLW2901
        if skipping:
            continue
        if cut:
            yield b"".join([*rest, data[:cut]])
            rest, held = [], 0
        rest.append(data[cut:])
        held += len(data) - cut
        if held > longest + 1:  # a carriage return at its end does not count
            rest, skipping = [b"".join(rest)[:LONGEST_DATA]], True
    if skipping:
        yield LongLine(rest[0], longest)
    else:
        yield b"".join(rest)


def _read(source: pa.NativeFile, path: str, kind: str, size: int) -> Iterator[bytes]:
    first = True
    while True:
        with reading(path, kind):
            data: bytes = source.read(size)
        if not data:
            return
        yield data.removeprefix(_BOM) if first else data
        first = False
