"""The window that a worker is working on, in memory shared with the driver, which reads it if the worker has died."""

from __future__ import annotations

import mmap
import struct

from windowing.time.timestamps import show
from windowing.window import TupleWindow

_NOTE = struct.Struct("=?qqqq")
"""Has a start, start, end, number of events plus one, and number of windows, the first of which this is; no events
mean that no bolt is being called."""
SIZE = _NOTE.size


class WorkerPosition:
    """The window that a worker is working on, in a file of ``SIZE`` bytes shared between processes."""

    def __init__(self, descriptor: int) -> None:
        self._shared = mmap.mmap(descriptor, SIZE)

    def enter(self, window: TupleWindow, windows: int = 1, events: int | None = None) -> None:
        """Record that a bolt is called with a window, or with several of so many events together, of which this is the
        first."""
        start, count = window.start_timestamp, len(window) if events is None else events
        _NOTE.pack_into(self._shared, 0, start is not None, start or 0, window.end_timestamp, count + 1, windows)

    def leave(self) -> None:
        """Record that no bolt is being called."""
        _NOTE.pack_into(self._shared, 0, False, 0, 0, 0, 0)

    def words(self) -> str:
        """The window as text: `` on the window from ... to ... of 3 events``; empty if no bolt is being called."""
        begins, start, end, count, windows = _NOTE.unpack_from(self._shared)
        if not count:
            return ""
        span = f"from {show(start)} to {show(end)}" if begins else f"at {show(end)}"
        events = f"of {count - 1} event{'s' if count != 2 else ''}"
        return f" on {windows} windows {events}, the first {span}" if windows > 1 else f" on the window {span} {events}"

    def close(self) -> None:
        """Release the shared memory."""
        self._shared.close()


class _Shared:
    position: WorkerPosition | None = None


def share(descriptor: int) -> None:
    """Called in a worker: record windows in this file from now on."""
    _Shared.position = WorkerPosition(descriptor)


def worker_position() -> WorkerPosition | None:
    """Where this process records windows; None where no driver would read it."""
    return _Shared.position
