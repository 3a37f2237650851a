"""CPU time of this process and everything it started: the JVM, Spark's Python daemon, and its workers (Linux)."""

from __future__ import annotations

import os
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(root: int | None = None) -> float:
    """User and system time of a process and its descendants, those included that have ended and been reaped."""
    top, stats = os.getpid() if root is None else root, _stats()
    return sum(stats[pid][1] for pid in [top, *_below(top, stats)] if pid in stats) / _TICK


def own_seconds(pid: int) -> float:
    """User and system time of a process alone, with that of its children that have ended and been reaped."""
    return _stats().get(pid, (0, 0))[1] / _TICK


def descendants(root: int) -> list[int]:
    """The processes below one, at any depth."""
    return _below(root, _stats())


def children(parent: int) -> list[int]:
    """The processes that a process has started, and that run."""
    return [pid for pid, (above, _) in _stats().items() if above == parent]


def _below(root: int, stats: dict[int, tuple[int, int]]) -> list[int]:
    by_parent: dict[int, list[int]] = {}
    for pid, (parent, _) in stats.items():
        by_parent.setdefault(parent, []).append(pid)
    found, waiting = [], [root]
    while waiting:
        here = by_parent.get(waiting.pop(), [])
        found += here
        waiting += here
    return found


def _stats() -> dict[int, tuple[int, int]]:
    """Of every process: its parent, and its clock ticks with those of its reaped children."""
    found: dict[int, tuple[int, int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue  # it has just ended; its parent has its time now, or will
            fields = text.rpartition(")")[2].split()  # the command in front may hold anything
            found[int(entry.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    return found
