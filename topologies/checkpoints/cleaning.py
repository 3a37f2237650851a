"""Deletes what a batch has made superfluous while the engine works on what lies between two batches."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Self


class Cleaning:
    """Calls a function in a thread of its own, once after each batch.

    Deleting waits for the disk, and uses hardly any of the processor. Whoever touches the checkpoint calls ``wait``
    first. The block is left when nothing is being deleted any more; after it nothing is, and the next run deletes what
    is left.
    """

    def __init__(self, clean: Callable[[], None]) -> None:
        self._clean = clean
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="windbolt-cleaning")
        self._running: Future[None] | None = None

    def begin(self) -> None:
        """Start deleting."""
        self.wait()
        with suppress(RuntimeError):  # the block has been left, by an error, while a batch was on its way
            self._running = self._thread.submit(self._clean)

    def wait(self) -> None:
        """Wait until it is done; raises what it raised."""
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown()  # the checkpoint may be another run's afterwards
        if error is None:
            self.wait()
