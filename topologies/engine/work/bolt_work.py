"""What a bolt costs: the time of its tasks, the columns that it asks for, and the bytes that are kept for it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import TypeVar

Item = TypeVar("Item")
INPUT = ""
"""Stands for no bolt, but for the reading of input: of it the time of tasks is noted too, without that of bolts."""
_MOST_NAMES = 64
"""Of a bolt that asks for more columns by name than this it is told that it asks for all, so that a task's report stays
small."""


@dataclass(frozen=True)
class BoltWork:
    """What a bolt has cost, in one task or in several together."""

    seconds: float = 0.0
    """Wall time of its tasks: of a windowed bolt with admitting, reading and firing, and with the writing of what it
    emits, without the plain bolts behind it; of aggregates also the adding up of events as they come."""
    columns: frozenset[str] | None = frozenset()
    """The columns that a windowed bolt has asked its windows for; None for all."""
    called: int = 0
    """Number of windows that it was called with."""
    column_bytes: tuple[int, ...] = ()
    """Bytes of the events that were kept for a windowed bolt of a user's class, by column of its windows, in the order
    of the schema; empty where none were."""
    large_window: tuple[int, int] | None = None
    """Bytes of the largest window that a windowed bolt was called with, and of the memory of that process, where the
    one was more than an eighth of the other; else None."""

    def plus(self, other: BoltWork) -> BoltWork:
        """Both together."""
        columns = None if self.columns is None or other.columns is None else self.columns | other.columns
        if columns is not None and len(columns) > _MOST_NAMES:
            columns = None
        return BoltWork(
            self.seconds + other.seconds,
            columns,
            self.called + other.called,
            _added(self.column_bytes, other.column_bytes),
            max(filter(None, (self.large_window, other.large_window)), default=None),
        )


class WorkNotes:
    """The work of the bolts in one task."""

    def __init__(self) -> None:
        self._of: dict[str, BoltWork] = {}
        self._began = perf_counter()

    def add(self, bolt: str, work: BoltWork) -> None:
        """Add to what is noted of a bolt."""
        self._of[bolt] = self._of.get(bolt, _NOTHING).plus(work)

    def timed(self, bolt: str, items: Iterator[Item]) -> Iterator[Item]:
        """The items; the time that they take to be made, and not that of whoever takes them, is noted of a bolt."""
        seconds = 0.0
        try:
            while True:
                began = perf_counter()
                try:
                    item = next(items)
                except StopIteration:
                    return
                finally:
                    seconds += perf_counter() - began
                yield item
        finally:
            self.add(bolt, BoltWork(seconds))

    def end(self, owner: str) -> Mapping[str, BoltWork]:
        """Called at the end of the task, with the bolt whose it is, or ``INPUT``: the time that no other bolt had is
        that bolt's."""
        spent = sum(work.seconds for work in self._of.values())
        self.add(owner, BoltWork(max(perf_counter() - self._began - spent, 0.0)))
        return self._of


def merge_work(into: dict[str, BoltWork], work: Mapping[str, BoltWork]) -> None:
    """Add the work of bolts to that which is known."""
    for bolt, of_bolt in work.items():
        into[bolt] = into.get(bolt, _NOTHING).plus(of_bolt)


@cache
def memory_of_process() -> int | None:
    """Bytes of memory that this process can have: those of the machine, or fewer where a container's limit says so;
    None where that is not known."""
    try:
        known = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, OSError, ValueError):  # not on every system
        return None
    for path in _LIMITS:
        with suppress(OSError, ValueError):
            known.append(int(Path(path).read_text(encoding="ascii")))
    return min(known)


def _added(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    if not one or not other:
        return one or other
    return tuple(map(int.__add__, one, other))


_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where a container's limit is: a number, or ``max``."""
_NOTHING = BoltWork()
