"""The phases of a micro-batch: how long each took, and what windbolt was doing when a file system failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, get_args

from manager.storage.batch_keys import batch_in_words
from manager.storage.checkpoint import Checkpoint
from manager.storage.file_systems.storage_errors import during

Phase = Literal["ingest", "tick", "fire", "compact", "sinks", "commit", "publish", "committed"]
"""The phases of a micro-batch, in order. From ``publish`` on, the batch survives a crash."""

PHASES: tuple[Phase, ...] = get_args(Phase)
"""All of them, in order."""

_DOING: dict[Phase, str] = {
    "ingest": "reading the input of {}",
    "tick": "moving time on in {}",
    "fire": "firing the windows of {}",
    "compact": "joining segments in {}",
    "sinks": "bringing {} to its sinks",
    "commit": "committing {}",
    "publish": "naming the files that {} has for its sinks",
}
"""Per phase, what windbolt is doing with the batch, for errors; the braces stand for the batch."""


class Phases:
    """The phases of one micro-batch."""

    def __init__(self, key: str, checkpoint: Checkpoint, hook: Callable[[str], None]) -> None:
        """``hook`` is called with the name of each phase as it begins."""
        self._batch, self._hook = batch_in_words(key), hook
        self._becomes = checkpoint.after_failure(self._batch)
        self._committed = checkpoint.after_commit(self._batch)
        self._started = self._ended = time.perf_counter()
        self._seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Run a phase within this block, and measure its time, from the end of the phase before it; the times of a
        phase that runs several times add up."""
        self._hook(name)
        doing, becomes = _DOING[name].format(self._batch), self._committed if name == "publish" else self._becomes
        with during(doing, becomes):
            yield
        before, self._ended = self._ended, time.perf_counter()
        self._seconds[name] = self._seconds.get(name, 0.0) + self._ended - before

    def during(self, doing: str) -> AbstractContextManager[None]:
        """Add the batch, and what happens to it, to a StorageError. ``doing`` has braces for the batch."""
        return during(doing.format(self._batch), self._becomes)

    def end(self) -> dict[str, float]:
        """Called after the commit: wall time in seconds by phase; ``total`` for the whole batch, to which they add
        up."""
        self._hook("committed")
        self._seconds["total"] = self._ended - self._started
        return self._seconds
