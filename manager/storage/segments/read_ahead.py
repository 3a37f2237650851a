"""Sections of segments in stores and in HDFS: read in pieces of a quarter of a megabyte, which a process keeps a while.

A request takes as long for a hundred kilobytes as for one. The sections of a segment lie one behind the other, a task
after the task before it, and a process fires many tasks: where segments are small it reads each once, and not once for
each task. Segments never change, so that what is kept is never out of date.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from manager.storage.file_systems import hdfs, object_store

PIECE = 1 << 18
"""Bytes that are read at once: a request takes as long for them as for one."""
_KEPT = 1 << 28
"""Bytes that a process keeps, at most."""

AT_ONCE = 16
"""Requests that are under way at the same time."""


class _Pieces:
    """Pieces of objects by (URI, path, number), the one that was used last at the end."""

    def __init__(self) -> None:
        self._pieces: OrderedDict[tuple[str, str, int], bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, uri: str, path: str, number: int) -> bytes:
        key = (uri, path, number)
        with self._lock:
            if key in self._pieces:
                self._pieces.move_to_end(key)
                return self._pieces[key]
        found = fetch_range(uri, path, number * PIECE, PIECE)
        with self._lock:
            if key not in self._pieces:
                self._pieces[key] = found
                self._size += len(found)
            while self._size > _KEPT:
                self._size -= len(self._pieces.popitem(last=False)[1])
        return found

    def fetch(self, uri: str, wanted: Iterable[tuple[str, int]]) -> None:
        """Read the pieces, by (path, number), that are not there yet, several at a time; half of what is kept, at most.

        What cannot be read is left out."""
        with self._lock:
            missing = [each for each in dict.fromkeys(wanted) if (uri, *each) not in self._pieces]
        if len(missing) < 2:
            return

        def read(piece: tuple[str, int]) -> None:
            with suppress(OSError):
                self.get(uri, *piece)

        with ThreadPoolExecutor(min(AT_ONCE, len(missing))) as threads:
            list(threads.map(read, missing[: _KEPT // PIECE // 2]))

    def forget(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._pieces.clear()
            self._size = 0


_READ = _Pieces()


def forget() -> None:
    """Keep nothing of what has been read; for measuring what a process without it would ask for."""
    _READ.forget()


def expect_sections(uri: str, sections: Iterable[tuple[str, int, int]]) -> None:
    """Fetch sections that are about to be read, by (path, offset, length), several at a time; large ones are read when
    they are asked for."""
    _READ.fetch(
        uri,
        ((path, number) for path, offset, length in sections if length < PIECE for number in _numbers(offset, length)),
    )


def fetch_range(uri: str, path: str, start: int, length: int) -> bytes:
    """Some bytes of an object or a file, in one request; fewer at its end. FileNotFoundError where there is none."""
    if hdfs.is_hdfs(uri):
        return hdfs.read_part(uri, path, start, length)
    return object_store.read_range(uri, path, start, length)


def read_section(uri: str, path: str, offset: int, length: int) -> bytes:
    """Some bytes of an object or a file; fewer where it is cut short. FileNotFoundError where there is none."""
    if length >= PIECE:
        return fetch_range(uri, path, offset, length)
    numbers = _numbers(offset, length)
    pieces = [_READ.get(uri, path, number) for number in numbers]
    start = offset - numbers[0] * PIECE
    return b"".join(pieces)[start : start + length] if len(pieces) > 1 else pieces[0][start : start + length]


def _numbers(offset: int, length: int) -> range:
    """The pieces of an object in which a section lies."""
    return range(offset // PIECE, (offset + length - 1) // PIECE + 1)
