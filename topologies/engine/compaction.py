"""Joins small segments of a task, so that it has few of them however long its windows are."""

from __future__ import annotations

from collections.abc import Iterator

from manager.queue.queue_state import QueueState
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
        task.refs.join(start, start + len(item.refs), ref)


def _to_compact(topology: Topology, progress: BatchProgress) -> Iterator[tuple[int, CompactItem]]:
    """Yield (index of the first segment, work item)."""
    for name in topology.windowed:
        for number, task in enumerate(progress.state.bolts[name].tasks):
            run = task.refs.run_of_one_level(_FANOUT)
            if run is not None:
                previous = task.windows.previous_frontier if isinstance(task.windows, QueueState) else None
                yield run.start, CompactItem(name, number, task.refs.between(run.start, run.stop), previous)
