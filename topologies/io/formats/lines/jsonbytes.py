"""A block of JSON lines as bytes: where its lines are, and what can be told of them without parsing."""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np
import numpy.typing as npt

from topologies.io.formats.isolate import Mask

_LONG_NUMBER = 38
_SHORT_NUMBER = 16  # with more digits a number may be whole as a double and not as written
_Lines = npt.NDArray[np.int64]  # n x 2: where each line begins and ends in its block

_IN_NUMBER = np.zeros(256, dtype=np.bool_)
_IN_NUMBER[list(b"0123456789.+-")] = True
_AFTER_BRACE = np.zeros(256, dtype=np.bool_)
_AFTER_BRACE[list(b",]}\n")] = True
_BLANK = np.zeros(256, dtype=np.bool_)
_BLANK[list(b" \t\r\v\f")] = True
BLANK_OR_END = _BLANK.copy()
BLANK_OR_END[ord("\n")] = True


class JsonBytes:
    """The bytes of a block of whole lines; blank lines are none."""

    def __init__(self, block: bytes) -> None:
        self.block = block.replace(b"\r\n", b"\n") if b"\r" in block else block
        self.bytes = np.frombuffer(self.block, np.uint8)
        self.lines = _lines(self.bytes, self.block)
        """Where each line begins and ends."""

    def line(self, index: int) -> bytes:
        """One line."""
        start, end = self.lines[index]
        return self.block[start:end]

    def joined(self, places: npt.NDArray[np.int64]) -> bytes:
        """Some of the lines, one after the other."""
        if places[-1] - places[0] + 1 == len(places):
            return self.block[self.lines[places[0], 0] : self.lines[places[-1], 1]]
        return b"\n".join([self.block[start:end] for start, end in self.lines[places].tolist()])

    def unlike_objects(self, *, decimals: bool) -> Mask:
        """Mask of the lines that are not plainly one object, or no UTF-8; with ``decimals`` also of those with numbers
        that Arrow must not read as such."""
        starts, ends = self.lines[:, 0], self.lines[:, 1]
        aside: Mask = (self.bytes[starts] != ord("{")) | (self.bytes[ends - 1] != ord("}"))
        braces = np.flatnonzero(self.bytes == ord("}"))
        inner = braces[braces + 1 < len(self.bytes)]
        stray = inner[~_AFTER_BRACE[self.bytes[inner + 1]]]
        self._mark(aside, stray)
        self._mark(aside, np.flatnonzero(self.bytes == ord("\r")))
        if decimals:
            self._mark(aside, self._odd_numbers())
        return aside | self._not_utf8() if not _is_utf8(self.block) else aside

    def rounded(self, places: npt.NDArray[np.int64], names: list[str]) -> Mask | None:
        """Which of these lines have a number under one of the names that is so long that it may be whole as a double
        although it is not as written; None where none has."""
        first, last = np.searchsorted(self._long_numbers, [self.lines[places[0], 0], self.lines[places[-1], 1]])
        numbers = self._long_numbers[first:last]
        whole = [
            position
            for position in numbers[self._named(numbers, names)].tolist()
            if _whole_as_double(self.block, position)
        ]
        if not whole:
            return None
        marked = np.zeros(len(self.lines), dtype=np.bool_)
        self._mark(marked, np.array(whole, np.int64))
        return marked[places]

    def _odd_numbers(self) -> npt.NDArray[np.int64]:
        """Positions of possible numbers that Arrow must not read as decimals: with an exponent, or very long."""
        letters = np.flatnonzero((self.bytes | 0x20) == ord("e"))
        exponents = letters[_IN_NUMBER[self.bytes[np.maximum(letters - 1, 0)]]]
        return np.concatenate([exponents, self._numbers_longer_than(_LONG_NUMBER)])

    def _numbers_longer_than(self, length: int) -> npt.NDArray[np.int64]:
        """Positions where a number has at least ``length`` consecutive characters, without an exponent's e."""
        others = np.flatnonzero(~_IN_NUMBER[self.bytes])
        positions: npt.NDArray[np.int64] = others[:-1][np.diff(others) > length] + 1
        return positions

    def _mark(self, aside: Mask, positions: npt.NDArray[np.int64]) -> None:
        if len(positions):
            aside[np.clip(np.searchsorted(self.lines[:, 0], positions, side="right") - 1, 0, None)] = True

    def _not_utf8(self) -> Mask:
        high = np.flatnonzero(self.bytes >= 0x80)
        owners = np.unique(np.searchsorted(self.lines[:, 0], high, side="right") - 1)
        broken = np.zeros(len(self.lines), dtype=np.bool_)
        for line in owners[owners >= 0]:
            broken[line] = not _is_utf8(self.line(int(line)))
        return broken

    @cached_property
    def _long_numbers(self) -> npt.NDArray[np.int64]:
        return self._numbers_longer_than(_SHORT_NUMBER)

    def _named(self, values: npt.NDArray[np.int64], names: list[str]) -> Mask:
        """Mask of the values, by their start positions, that have or may have one of these names."""
        colons = self._before(values)
        quotes = self._before(colons)
        # Only one blank on each side is skipped: beyond that the value may have any name.
        named: Mask = _BLANK[self.bytes[colons]] | _BLANK[self.bytes[quotes]] | self._escaped(quotes)
        for name in names:
            candidates = np.arange(len(values))
            for back, byte in enumerate(reversed(b'"' + name.encode()), start=1):
                candidates = candidates[self.bytes[np.maximum(quotes[candidates] - back, 0)] == byte]
            named[candidates] = True
        return named

    def _before(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The positions one byte before, or two where that byte is a blank."""
        before = np.maximum(positions - 1, 0)
        over: npt.NDArray[np.int64] = np.maximum(before - _BLANK[self.bytes[before]], 0)
        return over

    def _escaped(self, ends: npt.NDArray[np.int64]) -> Mask:
        r"""Mask of the names, by their closing quotes, that have or may have an escape such as \u0061."""
        if not len(self._escapes):
            return np.zeros(len(ends), dtype=np.bool_)
        start = self._quotes[np.maximum(np.searchsorted(self._quotes, ends) - 1, 0)]
        last = self._escapes[np.maximum(np.searchsorted(self._escapes, ends) - 1, 0)]
        # A quote directly after a backslash may be inside the name.
        escaped: Mask = (last < ends) & (last >= start - 1)
        return escaped

    @cached_property
    def _escapes(self) -> npt.NDArray[np.int64]:
        return np.flatnonzero(self.bytes == ord("\\"))

    @cached_property
    def _quotes(self) -> npt.NDArray[np.int64]:
        return np.flatnonzero(self.bytes == ord('"'))


def _lines(data: npt.NDArray[np.uint8], block: bytes) -> _Lines:
    ends = np.flatnonzero(data == ord("\n"))
    if not block.endswith(b"\n"):
        ends = np.append(ends, len(data))
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    lines = np.stack([starts, ends], axis=1)
    lines = lines[lines[:, 1] > lines[:, 0]]
    odd = np.flatnonzero(_BLANK[data[lines[:, 0]]])
    blank = [index for index in odd.tolist() if not block[lines[index, 0] : lines[index, 1]].strip()]
    return np.delete(lines, blank, axis=0) if blank else lines


_NUMBER = re.compile(rb"-?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")


def _whole_as_double(block: bytes, position: int) -> bool:
    number = _NUMBER.match(block, position)
    return number is not None and float(number[0]).is_integer()


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
