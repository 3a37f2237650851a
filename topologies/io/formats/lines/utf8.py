"""Presents bytes as valid UTF-8, with invalid bytes marked, so that they cost one row and not the file."""

from __future__ import annotations

import codecs
import re
import time
import weakref
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Any

import pyarrow as pa

_FIRST = 0x10FF00  # the end of the last private-use plane: byte 0x80 becomes U+10FF80
_MARKS = {0xDC00 + byte: _FIRST + byte for byte in range(0x80, 0x100)}
ESCAPED = "[\\x{10FF80}-\\x{10FFFF}]"
_ESCAPED = re.compile("[\U0010ff80-\U0010ffff]")
_READ = 1 << 20
_PATIENCE = 30.0
"""Maximum seconds to wait for a thread that reads ahead: as long as a slow disk takes for one block."""


def unescaped(text: str) -> str:
    r"""The text with marked bytes shown as ``\xff``."""
    return _ESCAPED.sub(lambda mark: f"\\x{ord(mark.group()) - _FIRST:02x}", text)


def unmarked(texts: pa.Array) -> pa.Array:
    """A text column as the original bytes, before invalid ones were marked."""
    return pa.array([None if text is None else _bytes(text) for text in texts.to_pylist()], pa.binary())


def _bytes(text: str) -> bytes:
    return _ESCAPED.sub(lambda mark: chr(ord(mark.group()) - _FIRST + 0xDC00), text).encode("utf-8", "surrogateescape")


class Utf8Stream:
    """Reads a source without its byte order mark and leading line ends; ``ending`` is appended at its end.

    ``escaped`` becomes true with the first byte that is not valid UTF-8. ``failure`` is the error that ended the lent
    stream, None if it ended normally.
    """

    def __init__(self, source: pa.NativeFile) -> None:
        self.ending = b""
        self.escaped = False
        self.failure: Exception | None = None
        self._source = source
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._buffer = memoryview(b"")
        self._started = self._finished = self._in_character = False
        self._last = b"\n"
        self._reading, self._closing = Lock(), False
        self._lent: list[weakref.ref[Any]] = []
        self._returned = deque[weakref.ref[Any]]()

    def lend(self, handler: Callable[[Any], str]) -> LentStream:
        """The stream to give to Arrow, whose threads read ahead; ``close`` waits until they have released it and its
        bytes.

        It also waits for ``handler``, any other Python object given to Arrow. The caller must keep neither.
        """
        lent = LentStream(self._read_ahead)
        self._watch(lent)
        self._watch(handler)
        return lent

    @property
    def held(self) -> int:
        """Number of objects, the stream and its parts, that Arrow still holds."""
        return len(self._lent) - len(self._returned)

    def _read_ahead(self, size: int | None) -> memoryview:
        try:
            data = memoryview(self.read(size))
        except Exception as error:  # Arrow would keep it, and the stream with it, forever
            self.failure = error
            return memoryview(b"")
        self._watch(data)
        return data

    def _watch(self, lent: object) -> None:
        # appended in C: in Python the thread that drops it could lose the lock, and want it again, when all seems done
        self._lent.append(weakref.ref(lent, self._returned.append))

    def peek(self, size: int) -> bytes:
        """At least ``size`` bytes, or all that are left, without consuming them."""
        parts = [bytes(self._buffer)]
        while sum(map(len, parts)) < size and (more := self._next()):
            parts.append(more)
        self._buffer = memoryview(b"".join(parts))
        return bytes(self._buffer[:size])

    def close(self) -> None:
        """Deliver nothing more, and wait for the threads that read ahead or still hold data.

        A thread that asks for the GIL while the interpreter ends is killed: the process then aborts, or waits for that
        thread forever.
        """
        self._closing = True
        deadline = time.monotonic() + _PATIENCE
        while self.held and time.monotonic() < deadline:
            time.sleep(0.001)
        with self._reading:
            self._finished, self._buffer, self.ending = True, memoryview(b""), b""

    def read(self, size: int | None = -1) -> bytes:
        """At most ``size`` bytes; empty only at the end."""
        with self._reading:
            return b"" if self._closing else self._read(size)

    def _read(self, size: int | None) -> bytes:
        wanted = _READ if size is None or size < 0 else size
        parts: list[bytes] = []
        while wanted:
            if not self._buffer:
                self._buffer = memoryview(self._next(wanted) or self._tail())
                if not self._buffer:
                    break
            taken, self._buffer = self._buffer[:wanted], self._buffer[wanted:]
            parts.append(bytes(taken))
            wanted -= len(taken)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _next(self, size: int = _READ) -> bytes:
        while not self._finished:
            data = self._source.read(size)
            self._finished = not data
            valid = self._valid(data)
            if not self._started:
                valid = valid.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
                self._started = bool(valid)
            if valid:
                self._last = valid[-1:]
                return valid
        return b""

    def _tail(self) -> bytes:
        if not self.ending:
            return b""
        tail, self.ending = self.ending + b"\n", b""
        return tail if self._last == b"\n" else b"\n" + tail

    def _valid(self, data: bytes) -> bytes:
        if data.isascii() and not self._in_character:
            return data
        text = self._decoder.decode(data, final=self._finished)
        self._in_character = bool(self._decoder.getstate()[0])
        try:
            return text.encode("utf-8")
        except UnicodeEncodeError:
            self.escaped = True
            return text.translate(_MARKS).encode("utf-8")


class LentStream:
    """The stream object given to Arrow, released when Arrow stops reading.

    ``read`` is not a method: the traceback of an error in a method would hold this object and keep it alive.
    """

    closed = False

    def __init__(self, read: Callable[[int | None], memoryview]) -> None:
        self.read = read

    def readable(self) -> bool:
        """Called by Arrow."""
        return True
