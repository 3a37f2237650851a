"""What tasks wrote for the tasks of bolts is laid together, in a store where each look into an object is a request.

Each task wrote one segment, with a section for each task of a bolt that is to get some of its rows. If every process
that fires these looked into every segment, requests would grow with processes times segments. So some tasks copy the
sections of up to 64 segments each into one, task after task, and a process looks into few. Sections stay what they
were, in their order; only where they lie changes (decision 88).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from manager.storage.segments.file_segments import FileSegments
from manager.storage.segments.gathering import GatherItem, GatherOutcome
from manager.storage.segments.read_ahead import PIECE
from topologies.engine.batch.executor import Executor
from topologies.engine.batch.progress import BatchProgress
from topologies.engine.tasks import gather
from topologies.engine.work.sections import Sections

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_SEGMENTS = 64
"""Segments of which a task copies the sections: four times what it reads at once."""
_MOST_BYTES = 1 << 25
"""Bytes that such a task holds. A segment that is larger stays as it is: it is read in many requests anyhow."""
_LEAST_SAVED = 1000
"""Requests that have to be saved: a job of Spark's costs as much time as some rounds of requests, and each process has
sixteen requests under way."""


def exchange(progress: BatchProgress, bolts: Sequence[str], executor: Executor, processes: int) -> None:
    """Lay together what was written for the tasks of some bolts and not handed on yet, where that saves requests.

    ``processes``: how many run tasks at the same time.
    """
    store = progress.context.store
    if not isinstance(store, FileSegments) or not store.takes_requests:
        return
    written = _Written({bolt: progress.written_for(bolt) for bolt in bolts})
    groups = written.groups(processes)
    if groups:
        sections = written.sections_of(groups)
        items = [written.item(group, chosen) for group, chosen in zip(groups, sections, strict=True)]
        for bolt, parts in written.laid_together(sections, executor.map(gather, items, progress.context)).items():
            progress.write_for(bolt, parts)


class _Written:
    """The sections for the tasks of some bolts, in columns: those of one bolt after another, in order of arrival."""

    def __init__(self, parts: Mapping[str, Sequence[Sections]]) -> None:
        self._parts = parts
        every = [part for of_bolt in parts.values() for part in of_bolt]
        places: dict[str, int] = {}
        segments = [
            np.array([places.setdefault(name, len(places)) for name in part.refs.names], np.int64) for part in every
        ]
        self._names = list(places)
        self._segments = _joined([known[part.refs.segments] for known, part in zip(segments, every, strict=True)])
        """Per section, the place of its segment among the names."""
        self._tasks = _joined([part.tasks for part in every])
        self._extents = np.concatenate([np.empty((0, 4), np.int64), *(part.refs.extents for part in every)])
        counts = [sum(len(part.tasks) for part in of_bolt) for of_bolt in parts.values()]
        self._bolts = np.repeat(np.arange(len(counts)), counts)

    def groups(self, processes: int) -> list[NDArray[np.int64]]:
        """The segments, by their places, whose sections are to be laid together; none where that saves too little."""
        receiving = [len(np.unique(self._tasks[self._bolts == bolt])) for bolt in range(len(self._parts))]
        readers = min(processes, max(receiving, default=0))
        sizes = np.bincount(self._segments, self._extents[:, 1], len(self._names))
        # Of a segment that is no smaller, each process reads as many bytes as a request brings in any case.
        small = np.flatnonzero((sizes > 0) & (sizes <= _MOST_BYTES) & (sizes < readers * PIECE))
        groups = [group for group in _cut(small, sizes[small]) if len(group) > 1]
        before = sum(map(len, groups))
        saved = readers * before - (before + len(groups) + readers * len(groups))
        return groups if saved >= _LEAST_SAVED else []

    def sections_of(self, groups: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """Per group of segments its sections, in the order in which they are to lie: those for one task of a bolt
        beside each other, in order of arrival."""
        numbers = np.full(len(self._names), len(groups))
        for number, group in enumerate(groups):
            numbers[group] = number
        of_sections = numbers[self._segments]
        order = np.lexsort((self._tasks, self._bolts, of_sections))
        edges = np.searchsorted(of_sections[order], np.arange(len(groups) + 1)).tolist()
        return [order[start:stop] for start, stop in pairwise(edges)]

    def item(self, group: NDArray[np.int64], chosen: NDArray[np.int64]) -> GatherItem:
        """What a task is to copy: sections of these segments."""
        return GatherItem(
            [self._names[segment] for segment in group.tolist()],
            np.searchsorted(group, self._segments[chosen]),
            self._extents[chosen],
        )

    def laid_together(
        self, sections: Sequence[NDArray[np.int64]], gathered: Sequence[GatherOutcome]
    ) -> dict[str, list[Sections]]:
        """All sections where they are now, by bolt; those of each group have been gathered."""
        names = [each.name for each in gathered] + self._names
        segments, offsets = self._segments + len(gathered), self._extents[:, 0].copy()
        for number, (chosen, copied) in enumerate(zip(sections, gathered, strict=True)):
            segments[chosen], offsets[chosen] = number, copied.offsets
        found: dict[str, list[Sections]] = {}
        first = 0
        for bolt, parts in self._parts.items():
            found[bolt] = []
            for part in parts:
                here = slice(first, first := first + len(part.tasks))
                found[bolt].append(Sections(part.tasks, part.refs.moved(names, segments[here], offsets[here])))
        return found


def _cut(segments: NDArray[np.int64], sizes: NDArray[Any]) -> Iterator[NDArray[np.int64]]:
    """Segments, in order, in groups of as many as a task may copy."""
    first, size = 0, 0.0
    for place, more in enumerate(sizes.tolist()):
        if place - first == _MOST_SEGMENTS or size + more > _MOST_BYTES:
            yield segments[first:place]
            first, size = place, 0.0
        size += more
    yield segments[first:]


def _joined(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *parts])
