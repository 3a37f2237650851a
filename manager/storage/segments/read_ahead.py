"""Sections of segments in stores and in HDFS: read in pieces of a quarter of a megabyte, which a process keeps a while.

A request takes as long for a hundred kilobytes as for one. The sections of a segment lie one behind the other, a task
after the task before it, and a process fires many tasks: where segments are small it reads each once, and not once for
each task. Segments never change, so that what is kept is never out of date.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from manager.storage.file_systems import hdfs, object_store

_PIECE = 1 << 18
"""Bytes that are read at once."""
_KEPT = 1 << 28
"""Bytes that a process keeps, at most."""


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
        found = _read_range(uri, path, number * _PIECE, _PIECE)
        with self._lock:
            if key not in self._pieces:
                self._pieces[key] = found
                self._size += len(found)
            while self._size > _KEPT:
                self._size -= len(self._pieces.popitem(last=False)[1])
        return found


_READ = _Pieces()


def _read_range(uri: str, path: str, start: int, length: int) -> bytes:
    if hdfs.is_hdfs(uri):
        return hdfs.read_part(uri, path, start, length)
    return object_store.read_range(uri, path, start, length)


def read_section(uri: str, path: str, offset: int, length: int) -> bytes:
    """Some bytes of an object or a file; fewer where it is cut short. FileNotFoundError where there is none."""
    if length >= _PIECE:
        return _read_range(uri, path, offset, length)
    first = offset // _PIECE
    pieces = [_READ.get(uri, path, number) for number in range(first, (offset + length - 1) // _PIECE + 1)]
    start = offset - first * _PIECE
    return b"".join(pieces)[start : start + length] if len(pieces) > 1 else pieces[0][start : start + length]
