"""Workers that a run leaves to the next one; like Spark's own, they end after a minute without work."""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from threading import Lock, Timer, main_thread

from topologies.spark.workers.processes import WorkerPool

_LONGEST = 60.0
"""Maximum seconds that workers wait for the next run."""


class SparePool:
    """Holds one pool, if any, between runs."""

    def __init__(self, longest: float = _LONGEST) -> None:
        self.longest = longest
        self._lock = Lock()
        self._pool: WorkerPool | None = None
        self._timer: Timer | None = None

    def take(self, most: int, environment: Mapping[str, str]) -> WorkerPool:
        """The pool that was left, if it matches, else a new one."""
        pool = self._swap(None)
        wanted = WorkerPool(most, environment)
        if pool is None or pool.like(wanted):
            return pool or wanted
        pool.close()
        return wanted

    def leave(self, pool: WorkerPool) -> None:
        """Keep a pool whose tasks have all ended."""
        if not main_thread().is_alive():
            pool.close()  # the process is ending: no run follows, and no timer can be started
            return
        before = self._swap(pool)
        if before is not None and before is not pool:
            before.close()

    def end(self) -> None:
        """End the waiting workers."""
        pool = self._swap(None)
        if pool is not None:
            pool.close()

    def _swap(self, pool: WorkerPool | None) -> WorkerPool | None:
        with self._lock:
            before, self._pool = self._pool, pool
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if pool is not None:
                self._timer = Timer(self.longest, self._expired, [pool])
                self._timer.daemon = True
                self._timer.start()
        return before

    def _expired(self, pool: WorkerPool) -> None:
        with self._lock:
            if self._pool is not pool:
                return
            self._pool = None
        pool.close()


SPARE = SparePool()
atexit.register(SPARE.end)
