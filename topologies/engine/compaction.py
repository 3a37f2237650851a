"""Joins small segments of a task, so that it has few of them however long its windows are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from manager.queue.queue_state import QueueState
from manager.storage.ref import Ref
from topologies.engine.batch.executor import Executor
from topologies.engine.batch.progress import BatchProgress
from topologies.engine.tasks import compact
from topologies.engine.work.items import CompactItem
from topologies.topology import Topology

_FANOUT = 8
"""Number of adjacent segments of one level that are compacted into one segment of the next level. It bounds the
segments of a task, and how often a row is copied."""


def compact_segments(topology: Topology, progress: BatchProgress, executor: Executor) -> None:
    """Compact segments of every task that has many of one level."""
    found = list(_to_compact(topology, progress))
    if not found:
        return
    joined = executor.map(compact, [item for _, item in found], progress.context)
    for (start, item), ref in zip(found, joined, strict=True):
        task = progress.state.bolts[item.bolt].tasks[item.task]
        task.refs[start : start + len(item.refs)] = [ref]


def _to_compact(topology: Topology, progress: BatchProgress) -> Iterator[tuple[int, CompactItem]]:
    """Yield (index of the first segment, work item)."""
    for name in topology.windowed:
        for number, task in enumerate(progress.state.bolts[name].tasks):
            run = _run_of_one_level(task.refs)
            if run is not None:
                previous = task.windows.previous_frontier if isinstance(task.windows, QueueState) else None
                yield run.start, CompactItem(name, number, task.refs[run.start : run.stop], previous)


def _run_of_one_level(refs: Sequence[Ref]) -> range | None:
    """The first run of adjacent references of one level that is long enough to be compacted; None where there is
    none."""
    start = 0
    for index in range(1, len(refs) + 1):
        if index == len(refs) or refs[index].level != refs[start].level:
            if index - start >= _FANOUT:
                return range(start, index)
            start = index
    return None
