"""Reads whole lines from a stream in blocks; a line that exceeds the maximum becomes a bad row and takes no memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from topologies.io.formats.bad import LONGEST_DATA, UTF_8, BadRow, shown_bytes
from topologies.io.formats.file_errors import reading

LONGEST_ROW = 16 << 20
"""Default maximum size of a text row in bytes, the same as for messages."""
BOM = b"\xef\xbb\xbf"
"""The byte order mark, which may begin a file of UTF-8."""


@dataclass(frozen=True)
class LongLine:
    """The kept start of a line that is too long."""

    start: bytes
    longest: int

    def bad_row(self, row: int, encoding: str = UTF_8) -> BadRow:
        """The line as an unreadable row. ``encoding``: as for ``shown_bytes``."""
        return BadRow(row, too_long(self.longest), shown_bytes(self.start, encoding))


def too_long(longest: int) -> str:
    """The reason for a line that is too long."""
    return f"the row has more than {longest:,} bytes, which is the longest that is read"


class Source(Protocol):
    """What blocks are read from."""

    def read(self, size: int, /) -> bytes: ...


def blocks_of_lines(source: Source, path: str, kind: str, size: int, longest: int) -> Iterator[bytes | LongLine]:
    """Yield blocks of whole lines, of about ``size`` bytes, without a byte order mark; the last may lack its line end.

    At most ``longest`` bytes and a block are held in memory. A LongLine stands for a longer line; a block may also hold
    some that are longer, which its reader must find.
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


def _read(source: Source, path: str, kind: str, size: int) -> Iterator[bytes]:
    head, begun = b"", False
    while True:
        with reading(path, kind):
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
