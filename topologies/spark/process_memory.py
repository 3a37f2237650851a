"""The memory of worker processes: what stays is not looked at again and again, and what was freed is kept for a while.

Rows are objects that are soon gone, without cycles; modules, the topology and its bolts are some ninety thousand
objects that stay. By default the garbage collector looks at new objects several times, which costs a tenth of what is
done with them, and Spark has its workers look at all objects after each task: 20 ms, for which the next task waits.

A batch needs much the same memory as the one before. By default the C library gives most of what was freed back to the
system, page by page, and gets it again: a fifth of the time of reading half a million events.
"""

from __future__ import annotations

import ctypes
import gc
import os
import time

_SETTLING = 3
"""Number of tasks after which a worker has imported what it needs: some modules come with the first use."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3)."""
_KEPT, _LARGE = 2**26, 2**25
"""Bytes: of freed memory so much is kept at the end of the heap; larger pieces are returned at once, by themselves. The
latter is the most that the GNU C library comes to by itself."""

_PAUSE = 60.0
"""Seconds in which what runs leave is not collected twice: two runs at the same time may share a worker."""

_left, _not_before = 0, 0.0
"""Number of tasks after which what is there is still to be set aside; when it may be looked at once more."""


def use_again() -> None:
    """At the start of a worker: let it keep what stays, and what it has freed."""
    gc.freeze()
    gc.set_threshold(20_000)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # Linux has it
    if mallopt is not None and not any(name.startswith("MALLOC_") for name in os.environ):
        mallopt(_MMAP_THRESHOLD, _LARGE)
        mallopt(_TRIM_THRESHOLD, _KEPT)


def topology_came() -> None:
    """In a worker of Spark's, which outlives runs: what the run before has left is collected.

    What this one needs is set aside after its first tasks.
    """
    global _left, _not_before
    if time.monotonic() < _not_before:
        return
    gc.unfreeze()
    gc.collect()
    use_again()
    _left, _not_before = _SETTLING, time.monotonic() + _PAUSE


def tasks_ended() -> None:
    """Called in a worker of Spark's after its part of a job."""
    global _left  # noqa: PLW0603
    if _left:
        _left -= 1
        gc.collect()
        gc.freeze()
