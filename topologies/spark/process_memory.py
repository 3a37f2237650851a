"""The memory of worker processes: lasting objects are collected rarely, and freed memory is kept for a while.

Rows are short-lived objects without cycles; modules, the topology and its bolts are some ninety thousand lasting
objects. By default the garbage collector visits new objects several times, which costs a tenth of the work on rows.
Spark makes its workers collect all objects after each task: the next task waits 20 ms.

A batch needs about as much memory as the previous one. By default the C library returns most freed memory to the
system, page by page, and requests it again: a fifth of the time of reading half a million events.
"""

from __future__ import annotations

import ctypes
import gc
import os
import time

_SETTLING = 3
"""Number of tasks after which a worker has imported all modules, some of which come with their first use."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3)."""
_KEPT_HEAP_BYTES, _PIECE_BYTES = 2**26, 2**25
"""Bytes of freed memory that are kept at the end of the heap; and the size from which pieces are returned at once, one
by one. The second is the largest value that the GNU C library chooses by itself."""

_PAUSE = 60.0
"""Least seconds between two collections of objects left by runs; concurrent runs may share a worker."""

_tasks_until_settled, _not_before = 0, 0.0
"""Number of tasks after which the present objects are exempted from collection; and the time before which they are not
checked again."""


def reuse_memory() -> None:
    """Called at the start of a worker, which then keeps lasting objects, and freed memory."""
    gc.freeze()
    gc.set_threshold(20_000)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # on Linux
    if mallopt is not None and not any(name.startswith("MALLOC_") for name in os.environ):
        mallopt(_MMAP_THRESHOLD, _PIECE_BYTES)
        mallopt(_TRIM_THRESHOLD, _KEPT_HEAP_BYTES)


def collect_previous_run() -> None:
    """Called in a Spark worker, which outlives runs: collects the objects of the previous run.

    The objects of the new run are exempted from collection after its first tasks.
    """
    global _tasks_until_settled, _not_before
    if time.monotonic() < _not_before:
        return
    gc.unfreeze()
    gc.collect()
    reuse_memory()
    _tasks_until_settled, _not_before = _SETTLING, time.monotonic() + _PAUSE


def exempt_settled_objects() -> None:
    """Called in a Spark worker after its part of a job."""
    global _tasks_until_settled  # noqa: PLW0603
    if _tasks_until_settled:
        _tasks_until_settled -= 1
        gc.collect()
        gc.freeze()
