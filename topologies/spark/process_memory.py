"""The memory of worker processes: lasting objects are not collected again and again, and freed memory is kept for a
while.

Rows are objects that soon end, without cycles; modules, the topology and its bolts are some ninety thousand objects
that stay. By default the garbage collector visits new objects several times, which costs a tenth of the work with them.
Spark has its workers collect all objects after each task: 20 ms, for which the next task waits.

A batch needs about as much memory as the one before. By default the C library returns most freed memory to the system,
page by page, and gets it again: a fifth of the time of reading half a million events.
"""

from __future__ import annotations

import ctypes
import gc
import os
import time

_SETTLING = 3
"""Number of tasks after which a worker has imported all modules: some come with the first use."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3)."""
_KEPT, _LARGE = 2**26, 2**25
"""Bytes. So much freed memory is kept at the end of the heap; larger pieces are returned at once, one by one. The
second is the largest value that the GNU C library chooses itself."""

_PAUSE = 60.0
"""Least seconds between two collections of objects that runs leave: two runs at the same time may share a worker."""

_left, _not_before = 0, 0.0
"""Number of tasks after which the present objects are set aside; and the time before which they are not checked
again."""


def reuse_memory() -> None:
    """Called at the start of a worker: it then keeps lasting objects, and freed memory."""
    gc.freeze()
    gc.set_threshold(20_000)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # Linux has it
    if mallopt is not None and not any(name.startswith("MALLOC_") for name in os.environ):
        mallopt(_MMAP_THRESHOLD, _LARGE)
        mallopt(_TRIM_THRESHOLD, _KEPT)


def topology_came() -> None:
    """Called in a worker of Spark's, which outlives runs: collects the objects of the run before.

    The objects of this run are set aside after its first tasks.
    """
    global _left, _not_before
    if time.monotonic() < _not_before:
        return
    gc.unfreeze()
    gc.collect()
    reuse_memory()
    _left, _not_before = _SETTLING, time.monotonic() + _PAUSE


def tasks_ended() -> None:
    """Called in a worker of Spark's after its part of a job."""
    global _left  # noqa: PLW0603
    if _left:
        _left -= 1
        gc.collect()
        gc.freeze()
