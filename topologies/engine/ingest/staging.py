"""Collects the events for queues of windowed bolts and the rows for sinks that one task produces, and writes them as
one segment."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.storage.file_systems.storage_errors import as_storage_error, naming_owner
from manager.storage.segments.event_segments import write_events
from manager.storage.segments.file_segments import epoch_prefix
from manager.storage.segments.ref import Ref
from manager.storage.segments.segments import SegmentWriter
from topologies.engine.batch.context import Context
from topologies.engine.failures.user_code import bolt_failure
from topologies.engine.ingest.arriving import Arriving, column_bytes
from topologies.engine.work.bolt_work import BoltWork
from topologies.engine.work.output import Staged
from topologies.engine.work.sections import Sections
from topologies.graph.groupings import AllGrouping, GlobalGrouping
from topologies.graph.nodes.windowed import WindowedNode
from topologies.io.formats import write_table
from topologies.io.paths import locate
from topologies.io.sinks import DiscardSink, FileSink
from windowing.data.events import Events
from windowing.data.order import is_sorted, stable_order
from windowing.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass
class _Queued:
    """Events for one windowed bolt, batch by batch, in order of arrival."""

    tables: list[pa.Table] = field(default_factory=list)
    times: list[NDArray[np.int64]] = field(default_factory=list)
    inputs: list[NDArray[np.int8]] = field(default_factory=list)
    tasks: list[NDArray[np.int64]] = field(default_factory=list)
    """Empty for pre-aggregated bolts, whose tasks are derived from the keys of their partial sums."""


class Staging:
    """Collects what one task produces for others, and writes it as one segment with a section per receiving task."""

    def __init__(self, context: Context) -> None:
        self._context, self._topology = context, context.topology
        self._queued: dict[str, _Queued] = {}
        self._arriving: dict[str, Arriving] = {}
        self._for_sinks: dict[str, list[pa.Table]] = {}
        self.work: dict[str, BoltWork] = {}
        """Per windowed bolt, once all is written: the bytes of its events, or the time that it took to add them up."""

    def queue(
        self,
        node: WindowedNode,
        input_index: int,
        table: pa.Table,
        times: NDArray[np.int64],
        tasks: NDArray[np.int64] | None,
    ) -> None:
        """Add admitted events of one input, for the tasks of a bolt; ``tasks`` is None for pre-aggregated bolts."""
        queued = self._queued.setdefault(node.name, _Queued())
        queued.tables.append(table)
        queued.times.append(times)
        queued.inputs.append(np.full(len(times), input_index, np.int8))
        if tasks is not None:
            queued.tasks.append(tasks)

    def arriving(self, node: WindowedNode) -> Arriving:
        """The collector of events that the tasks of a bolt are to admit."""
        return self._arriving.setdefault(node.name, Arriving(node))

    def serve(self, sink: str, table: pa.Table) -> None:
        """Add rows for a sink."""
        self._for_sinks.setdefault(sink, []).append(table)

    def write(self, writer: SegmentWriter) -> Staged:
        """Write everything; return the references."""
        queued = dict[str, Sections]()
        for name, of_bolt in self._queued.items():
            node = self._topology.windowed[name]
            streams, parts = len(node.inputs), self._by_task(node, of_bolt)
            queued[name] = Sections.of([(task, write_events(writer, events, streams)) for task, events in parts])
        deferred = {name: arriving.write(writer) for name, arriving in self._arriving.items()}
        self.work |= {name: BoltWork(column_bytes=arriving.column_bytes) for name, arriving in self._arriving.items()}
        files, for_sinks = list[tuple[str, str]](), list[tuple[str, Ref]]()
        for name, tables in self._for_sinks.items():
            match self._topology.sinks[name].sink:
                case DiscardSink():
                    pass
                case FileSink() as sink:
                    with naming_owner(f"sink {name!r}"):
                        files.append((name, self._write_file(sink, pa.concat_tables(tables))))
                case _:
                    for_sinks.append((name, writer.add(pa.concat_tables(tables))))
        return Staged(queued, deferred, for_sinks, files)

    def _by_task(self, node: WindowedNode, queued: _Queued) -> Iterator[tuple[int, Events]]:
        """Yield (task, events) of a bolt, or its partial sums where it is told sums; ordered by (time, arrival)."""
        events = _in_one(queued, len(node.inputs))
        slicing = node.summed(self._context.traced)
        if slicing is None:
            self.work[node.name] = BoltWork(column_bytes=column_bytes(node, events.payload.columns))
            yield from _split_by_task(events, queued.tasks, node.parallelism)
            return
        began = perf_counter()
        with bolt_failure(node.name, self._context.batch, "in adding up events"):
            folded = slicing.fold(events)
        self.work[node.name] = BoltWork(perf_counter() - began)
        grouping = node.inputs[0].grouping
        tasks = np.zeros(len(folded), np.int64)
        if node.parallelism > 1 and not isinstance(grouping, AllGrouping | GlobalGrouping):
            tasks = grouping.tasks(slicing.keys_of(folded), None, node.parallelism)
        yield from _split_by_task(folded, [tasks], node.parallelism)

    def _write_file(self, sink: FileSink, table: pa.Table) -> str:
        filesystem, folder, _ = locate(sink.path)
        attempt = f"{epoch_prefix(self._context.epoch)}{uuid.uuid4().hex}"
        path = f"{folder}/.{self._context.key}-{attempt}.{sink.format.name}"
        with as_storage_error(path, "written"):
            write_table(filesystem, path, table, sink.format)
        return path


def _in_one(queued: _Queued, streams: int) -> Events:
    """All events in order of arrival. Raises DataError where a column exceeds 2 GiB."""
    times = _joined(queued.times)
    table = queued.tables[0] if len(queued.tables) == 1 else pa.concat_tables(queued.tables)
    batches = table.combine_chunks().to_batches()
    if len(batches) != 1:
        raise DataError(
            f"a micro-batch holds {table.nbytes / 2**30:.1f} GiB for one bolt in one task",
            why="an Arrow column holds at most 2 GiB of text",
            do="read less in a batch (bytes_per_batch or files_per_batch), or use smaller files",
        )
    return Events(times, batches[0], _joined(queued.inputs) if streams > 1 else None)


def _split_by_task(events: Events, tasks_of: list[NDArray[np.int64]], parallelism: int) -> Iterator[tuple[int, Events]]:
    """Yield (task, events) for each task that has some; ordered by (time, arrival)."""
    if parallelism == 1:
        yield 0, events.sorted()
        return
    tasks, times = _joined(tasks_of), events.timestamps
    span = int(times.max()) - int(times.min()) + 1
    if span < (1 << 62) // parallelism:
        keys = tasks * span + times
        order = None if is_sorted(keys) else stable_order(keys)
    else:
        by_time = stable_order(times)
        order = by_time[np.argsort(tasks[by_time], kind="stable")]
    if order is not None:
        events, tasks = events.take(order), tasks[order]
    edges = np.searchsorted(tasks, np.arange(parallelism + 1))
    for task in range(parallelism):
        start, stop = int(edges[task]), int(edges[task + 1])
        if stop > start:
            yield task, events.slice(start, stop)


def _joined(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
