"""Which window a worker is at: noted in memory that it shares with its driver, who reads it if the worker has died."""

from __future__ import annotations

import mmap
import struct

from windowing.timestamps import show
from windowing.window import TupleWindow

_NOTE = struct.Struct("=?qqq")
"""Whether there is a start, start, end, and how many events, one more than there are: 0 is no window."""
SIZE = _NOTE.size


class WorkerPosition:
    """A note in a file of ``SIZE`` bytes that processes share."""

    def __init__(self, descriptor: int) -> None:
        self._shared = mmap.mmap(descriptor, SIZE)

    def enter(self, window: TupleWindow) -> None:
        """Note that a bolt is called with a window."""
        start = window.start_timestamp
        _NOTE.pack_into(self._shared, 0, start is not None, start or 0, window.end_timestamp, len(window) + 1)

    def leave(self) -> None:
        """Note that no bolt is called."""
        _NOTE.pack_into(self._shared, 0, False, 0, 0, 0)

    def words(self) -> str:
        """For people: ``on the window from ... to ... of 3 events``; nothing if there is none."""
        begins, start, end, count = _NOTE.unpack_from(self._shared)
        if not count:
            return ""
        span = f"from {show(start)} to {show(end)}" if begins else f"at {show(end)}"
        return f" on the window {span} of {count - 1} event{'s' if count != 2 else ''}"

    def close(self) -> None:
        """Let go of the memory."""
        self._shared.close()


class _Shared:
    position: WorkerPosition | None = None


def share(descriptor: int) -> None:
    """In a worker: note windows in this file from now on."""
    _Shared.position = WorkerPosition(descriptor)


def worker_position() -> WorkerPosition | None:
    """Where windows are noted; None where nobody would read it."""
    return _Shared.position
