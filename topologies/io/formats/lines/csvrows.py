"""Where the rows of a CSV file are, and which of them are not CSV (RFC 4180): before any value is looked at.

A quote is special at the beginning of a value only; within an unquoted value it is a character like others. A quoted
value ends at the next quote that is not doubled (or escaped), after which only a delimiter or a line end may follow.
A row in which something else follows is bad, and ends with its line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_Places = npt.NDArray[np.int64]
_LF, _CR = ord("\n"), ord("\r")
AFTER_QUOTE = "text follows the quote that ends a value: a quote within a value is doubled"
UNCLOSED = "the file ends inside a quoted value: a quote was opened and never closed"
ENDS_ESCAPED = "the file ends with an escape that has nothing to escape"


@dataclass(frozen=True)
class Rows:
    """Rows in a block of bytes.

    Where each begins and stops, where the next begins, and how many values it has; and the reasons why some are not
    CSV, by their indices.
    """

    data: bytes
    starts: _Places
    stops: _Places
    nexts: _Places
    widths: _Places
    faults: dict[int, str]
    end: int
    """Where the first row begins that is not whole."""

    def __len__(self) -> int:
        return len(self.starts)

    def bytes_of(self, row: int) -> bytes:
        return self.data[self.starts[row] : self.stops[row]]

    def since(self, first: int) -> Rows:
        """The rows from the one with this index on."""
        faults = {row - first: reason for row, reason in self.faults.items() if row >= first}
        some = slice(first, None)
        return Rows(
            self.data, self.starts[some], self.stops[some], self.nexts[some], self.widths[some], faults, self.end
        )

    def joined(self, places: _Places) -> bytes | memoryview:
        """The bytes of some of the rows."""
        if not len(places):
            return b""
        starts, nexts = self.starts[places], self.nexts[places]
        breaks = np.flatnonzero(nexts[:-1] != starts[1:])
        firsts, lasts = starts[np.concatenate([[0], breaks + 1])], nexts[np.concatenate([breaks, [len(places) - 1]])]
        data = self._without_lone_returns(nexts)
        parts = [memoryview(data)[first:last] for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _without_lone_returns(self, nexts: _Places) -> bytes:
        """The bytes with LF where a row ends in CR, which might be joined to an LF behind what is left out."""
        found = np.frombuffer(self.data, np.uint8)
        lone = nexts[found[nexts - 1] == _CR] - 1
        if not len(lone):
            return self.data
        changed = found.copy()
        changed[lone] = _LF
        return changed.tobytes()


class RowFinder:
    """Finds the rows in bytes of one dialect of CSV."""

    def __init__(self, delimiter: str, quote: str | None, escape: str | None, comment: str | None) -> None:
        self.delimiter, self.quote = delimiter.encode(), quote.encode() if quote else None
        self.escape, self.comment = escape.encode() if escape else None, comment.encode() if comment else None
        self._patterns()
        self._beside_quotes = np.zeros(256, np.bool_)
        """What may stand before a quote that begins a value and after one that ends it; or it is doubled."""
        self._beside_quotes[list(self.delimiter + b"\r\n" + (self.quote or b""))] = True

    def find(self, data: bytes, last: bool) -> Rows:
        """The whole rows of ``data``, which begins with a row; ``last``: nothing follows it."""
        if self.escape is not None and self.escape in data:
            return self._by_patterns(data, last)
        if self.comment is not None and any(begin + self.comment in b"\n" + data for begin in (b"\n", b"\r")):
            return self._by_patterns(data, last)
        rows = self._by_counting(data, last)
        return self._by_patterns(data, last) if rows is None else rows

    def _by_counting(self, data: bytes, last: bool) -> Rows | None:
        """Rows between whose line ends the number of quotes is even; None where a quote is not where that would do."""
        found = np.frombuffer(data, np.uint8)
        ending = found == _LF
        if b"\r" in data:
            returns = found == _CR
            returns[:-1] &= ~ending[1:]  # of CR LF the LF is the end
            returns[-1:] &= last
            ending |= returns
        separating = found == self.delimiter[0]
        quotes = np.flatnonzero(found == self.quote[0]) if self.quote is not None else np.empty(0, np.int64)
        if len(quotes):
            outside = (np.cumsum(found == self.quote[0], dtype=np.uint8) & 1) == 0  # type: ignore[index]
            ending &= outside
            separating &= outside
        ends = np.flatnonzero(ending)
        if last and len(quotes) % 2:
            return None
        nexts = ends + 1
        starts = np.concatenate([[0], nexts[:-1]]) if len(nexts) else nexts
        if len(quotes) and not self._regular(found, quotes):
            return None
        stops = ends - ((ends > starts) & (found[ends] == _LF) & (found[ends - 1] == _CR))
        before = np.searchsorted(np.flatnonzero(separating), nexts)
        return Rows(data, starts, stops, nexts, np.diff(before, prepend=0) + 1, {}, int(nexts[-1]) if len(nexts) else 0)

    def _regular(self, found: npt.NDArray[np.uint8], quotes: _Places) -> bool:
        """Whether the first quote, the third ... begin a value or are the second of two, and the others end a value or
        are the first of two."""
        opening, closing = quotes[::2], quotes[1::2]
        begins = (opening == 0) | self._beside_quotes[found[opening - 1]]
        followed = closing[closing + 1 < len(found)]
        return bool(begins.all() and self._beside_quotes[found[followed + 1]].all())

    def _by_patterns(self, data: bytes, last: bool) -> Rows:
        spans: list[tuple[int, int, int, int]] = []
        faults: dict[int, str] = {}
        place = 0
        while place < len(data):
            row = self._comment.match(data, place) if self._comment is not None else None
            if row is not None:
                place = row.end()
                continue
            row = self._row.match(data, place)
            if row is None and (row := self._loose.match(data, place)) is not None:
                faults[len(spans)] = AFTER_QUOTE
            if row is None and not last:
                break
            end = len(data) if row is None else row.end()
            if not last and end == len(data) and data.endswith(b"\r"):
                break
            if row is None:
                faults[len(spans)] = ENDS_ESCAPED if self._open.fullmatch(data, place) is None else UNCLOSED
                stop = end - (2 if data[place:end].endswith(b"\r\n") else 1)
            else:
                stop = row.start("end")  # a carriage return before it may be escaped, and so belong to the value
            width = 0 if len(spans) in faults else sum(1 for _ in self._value.finditer(data, place, end))
            spans.append((place, stop, end, width))
            place = end
        starts, stops, nexts, widths = np.array(spans, np.int64).reshape(-1, 4).T
        return Rows(data, starts, stops, nexts, widths, faults, place)

    def _patterns(self) -> None:
        delimiter, end = re.escape(self.delimiter), rb"(?:\r\n|\r|\n)"
        quote = re.escape(self.quote) if self.quote else b""
        escape = re.escape(self.escape) if self.escape else b""
        escaped = rb"|" + escape + rb"." if escape else b""
        quoted = quote + rb"(?:[^" + quote + escape + rb"]|" + quote + quote + escaped + rb")*+"
        rest = rb"(?:[^" + delimiter + escape + rb"\r\n]" + escaped + rb")*+"
        bare = rb"(?:[^" + delimiter + quote + escape + rb"\r\n]" + escaped + rb")" + rest
        value = rb"(?:" + (quoted + quote + rb"|" if quote else b"") + bare + rb"|)"
        loose = rb"(?:" + (quoted + quote + rest + rb"|" if quote else b"") + bare + rb"|)"
        named = rb"(?P<end>" + end + rb")"
        self._row = re.compile(value + rb"(?:" + delimiter + value + rb")*+" + named, re.DOTALL)
        self._loose = re.compile(loose + rb"(?:" + delimiter + loose + rb")*+" + named, re.DOTALL)
        self._value = re.compile(value + rb"(?:" + delimiter + rb"|" + end + rb")", re.DOTALL)
        self._open = re.compile(rb"(?:" + loose + delimiter + rb")*+" + (quoted if quote else rb"(?!)"), re.DOTALL)
        self._comment = re.compile(re.escape(self.comment) + rb"[^\r\n]*+" + end) if self.comment else None
