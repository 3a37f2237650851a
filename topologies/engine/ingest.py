"""The ingest of one task: events get their times, and are admitted, routed and staged in a segment."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.keyed.retained_events import EDGE_COLUMN, END_COLUMN, GAP_COLUMN
from manager.storage.files import as_storage_error, storage_errors_about
from manager.storage.segment_files import epoch_prefix
from manager.storage.segments import KEY_COLUMN, STREAM_COLUMN, TIME_COLUMN, Ref, SegmentWriter, write_events
from manager.watermarks import NO_PARTITION
from policies.watermarks import NONE, Decision, all_accepted, is_accepted, is_accepted_on_arrival
from topologies.engine.admission import (
    AdmissionContext,
    Decisions,
    EmitRows,
    Incoming,
    Marks,
    apply_decisions,
    conform_input,
    decide,
)
from topologies.engine.batch import Context
from topologies.engine.event_times import TimedRows, time_rows
from topologies.engine.failures import bolt_failure
from topologies.engine.ledger import Ledger
from topologies.engine.plain_bolts import (
    Failures,
    PlainBolts,
    UnusableEvents,
    count_refused,
    error_rows,
    refuse,
    refuse_unreadable,
)
from topologies.engine.task_data import (
    INPUT,
    BoltWork,
    InputProgress,
    RowPartitions,
    Rows,
    Sections,
    Staged,
    TaskOutput,
    UnadmittedEvents,
    WorkNotes,
)
from topologies.graph.graph import (
    DECISION_COLUMN,
    END_EDGE_COLUMN,
    SEQ_COLUMN,
    PlainNode,
    Stream,
    WindowedNode,
    stream_label,
)
from topologies.graph.groupings import AllGrouping, GlobalGrouping, hash_rows
from topologies.io.formats import write_table
from topologies.io.paths import locate
from topologies.io.sinks import DiscardSink, FileSink
from windowing.bolts.read_code import is_users_class
from windowing.columns import is_sorted, stable_order, take_rows
from windowing.errors import DataError
from windowing.events import Events
from windowing.settings.rules import Partition

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Inputs of windowed bolts, in tasks that read events: events get their times, and are admitted here or later by the
# bolt's tasks.


class WindowedInputs:
    """Passes the events that a task reads or emits to the windowed bolts that read them."""

    def __init__(self, context: Context, ledger: Ledger, staging: Staging) -> None:
        self._context, self._ledger, self._staging = context, ledger, staging

    def arrive(self, node: WindowedNode, input_index: int, rows: Rows, emit: EmitRows) -> None:
        """Takes rows for one input of a bolt. ``emit`` routes late and invalid rows.

        ``emit`` is an argument, not an attribute: a reference cycle would keep a task's rows until the next garbage
        collection.
        """
        rows = self._without_skipped(node, input_index, rows)
        if not rows.table.num_rows:
            return
        with bolt_failure(node.name, self._context.batch, "in giving events their times"):
            timed_rows = time_rows(node, input_index, rows.table, rows.times, rows.clock)
        truncated = [mask for mask in (rows.truncated, timed_rows.truncated) if mask is not None]
        if truncated:
            cut = np.logical_or.reduce(truncated) & (timed_rows.codes != Decision.INVALID)
            self._ledger.count_chosen(node, "truncated", input_index, cut, node.copies(input_index))
        self._refuse(node, input_index, rows, timed_rows, emit)
        self._note_progress(node, input_index, rows, timed_rows)
        if node.admitted_by_tasks:
            self._leave_to_tasks(node, input_index, rows, timed_rows)
        else:
            self._admit(node, input_index, rows, timed_rows, emit)

    def _without_skipped(self, node: WindowedNode, input_index: int, rows: Rows) -> Rows:
        """Leaves out events that are too old for the first output of the run, and counts them as skipped. Returns the
        other rows."""
        first_output = self._context.first_output
        if first_output is None:
            return rows
        with bolt_failure(node.name, self._context.batch, "in giving events their times"):
            is_older = first_output.is_older(node, input_index, rows.table, rows.clock)
        if not is_older.any():
            return rows
        skipped = int(np.count_nonzero(is_older)) * node.copies(input_index)
        self._ledger.count(node, input_index, "skipped", skipped)
        return rows.take(np.flatnonzero(~is_older))

    def _refuse(self, node: WindowedNode, input_index: int, rows: Rows, timed_rows: TimedRows, emit: EmitRows) -> None:
        """Records invalid rows, and emits them on the error stream."""
        invalid_rows, reasons, copies = timed_rows.invalid, timed_rows.reasons, node.copies(input_index)
        if reasons is None or not len(invalid_rows):
            return
        self._ledger.count(node, input_index, "received", len(invalid_rows) * copies)
        from_source = rows.is_read and rows.has_positions
        if (
            self._ledger.tracing and from_source
        ):  # rows are identified by position in the source, since not all have ids
            for row, reason in zip(rows.positions[invalid_rows].tolist(), reasons[invalid_rows].tolist(), strict=True):
                self._ledger.trace("invalid", {"bolt": node.name, "row": row, "reason": reason})
        invalid_table = take_rows(rows.table, invalid_rows)
        file = rows.file if from_source else ""
        unusable = UnusableEvents(
            input_index, invalid_table, rows.positions[invalid_rows], reasons[invalid_rows].tolist(), file
        )
        refuse(node, unusable, rows.clock, self._ledger, emit, copies)

    def _note_progress(self, node: WindowedNode, input_index: int, rows: Rows, timed_rows: TimedRows) -> None:
        """Records how far the rows have advanced time."""
        times, codes = timed_rows.times, timed_rows.codes
        latest = greatest_shift_back = None
        if node.event_time and not node.origins[input_index]:
            advancing_times = (
                times
                if all_accepted(codes) and timed_rows.end_edges is None
                else times[_advances_watermark(codes, timed_rows.end_edges)]
            )
            latest = int(advancing_times.max()) if len(advancing_times) else None
        elif node.event_time and not node.brings_time[input_index] and rows.times is not None:
            events = (codes != Decision.INVALID) & (codes != Decision.WATERMARK)
            greatest_shift_back = int((rows.times - times)[events].max()) if events.any() else None
        arrival = timed_rows.latest_arrival
        clock_of_arrival = None if arrival is None else rows.clock
        progress = InputProgress(latest, greatest_shift_back, arrival, rows.clock, rows.clock, clock_of_arrival)
        self._ledger.note_progress(node, input_index, progress)

    def _leave_to_tasks(self, node: WindowedNode, input_index: int, rows: Rows, timed_rows: TimedRows) -> None:
        """Leaves admission to the bolt's tasks."""
        partition = rows.partition if self._context.topology.spouts_before(node)[input_index] else ""
        tasks = self._tasks(node, input_index, rows)
        self._staging.arriving_events(node).add(input_index, rows.table, timed_rows, tasks, partition)

    def _admit(self, node: WindowedNode, input_index: int, rows: Rows, timed_rows: TimedRows, emit: EmitRows) -> None:
        """Admits events at once, by the watermark of the last tick."""
        marks = Marks.of_tick(self._context.watermarks[node.name], rows.table.num_rows)
        events = Incoming(rows, input_index, timed_rows.times, timed_rows.codes, marks)
        decisions = decide(node, events, AdmissionContext())
        apply_decisions(node, events, decisions, self._ledger, emit, node.copies(input_index))
        self._queue(node, input_index, rows, decisions)

    def _queue(self, node: WindowedNode, input_index: int, rows: Rows, decisions: Decisions) -> None:
        """Queues admitted events for their tasks."""
        queued = replace(rows, times=decisions.times)
        if not all_accepted(decisions.codes):
            queued = queued.take(np.flatnonzero(is_accepted(decisions.codes)))
        times = queued.times
        if times is None or not len(times):
            return
        table = conform_input(queued.table, node.schema)
        if node.slicing(traced=False) is not None:
            self._staging.queue(node, input_index, table, times, None)
            return
        tasks = self._tasks(node, input_index, queued)
        if tasks is not None:
            self._staging.queue(node, input_index, table, times, tasks)
            return
        for task in range(node.copies(input_index)):
            self._staging.queue(node, input_index, table, times, np.full(len(times), task, np.int64))

    def _tasks(self, node: WindowedNode, input_index: int, rows: Rows) -> NDArray[np.int64] | None:
        """Returns the task of each row; None if every row goes to every task."""
        grouping = node.inputs[input_index].grouping
        if isinstance(grouping, AllGrouping):
            return None
        if node.parallelism == 1:
            return np.zeros(rows.table.num_rows, np.int64)
        places = rows.positions + rows.shuffle_offsets if rows.has_positions else None
        return grouping.tasks(rows.table, places, node.parallelism)


# Prepares events for a bolt whose tasks admit them: their times and their order of arrival.


_MISSING_VALUES = {"partition": np.int32(-1), "registers_partition": np.True_, "arrival": np.int64(NONE)}
"""Values for rows of a source without partitions, if other sources have them."""


class ArrivingEvents:
    """The events that a task has read for a bolt, batch by batch, in order of arrival."""

    def __init__(self, node: WindowedNode) -> None:
        self._node = node
        self._tables: list[pa.Table] = []
        self._tasks: list[NDArray[np.int64]] = []
        self._arrivals: list[dict[str, Any]] = []
        """The columns from which the watermark is computed, if it follows events."""
        self._partitions: dict[str, int] = {}
        """The partitions of the events so far, with their codes."""
        self.count = 0
        """Number of events so far; an event's sequence number is its index."""
        self.column_bytes: tuple[int, ...] = ()
        """Bytes by column, once the events are written; see ``column_bytes``."""

    def add(
        self,
        input_index: int,
        table: pa.Table,
        timed_rows: TimedRows,
        tasks: NDArray[np.int64] | None,
        partition: str | RowPartitions = "",
    ) -> None:
        """Adds rows of an input.

        ``tasks``: the task of each row; None sends every row to every task. ``partition``: the source's partition of
        all rows, or of each row, with the name of its spout; "" without a partition.
        """
        node, rows, settings = self._node, table.num_rows, self._node.bolt.settings
        columns = conform_input(table, node.schema)
        numbers = np.arange(self.count, self.count + rows)
        self.count += rows
        own_columns: dict[str, Any] = {
            TIME_COLUMN: timed_rows.times,
            STREAM_COLUMN: np.full(rows, input_index, np.int8),
            SEQ_COLUMN: numbers,
            DECISION_COLUMN: timed_rows.codes,
        }
        if timed_rows.ends is not None:
            own_columns[END_COLUMN] = timed_rows.ends
        if timed_rows.end_edges is not None:
            own_columns[END_EDGE_COLUMN] = timed_rows.end_edges
            own_columns[EDGE_COLUMN] = timed_rows.starts
        if timed_rows.gaps is not None:
            own_columns[GAP_COLUMN] = timed_rows.gaps
        if settings.key:
            own_columns[KEY_COLUMN] = hash_rows(columns, node.keys[input_index]).view(np.int64)
        for name, array in own_columns.items():
            columns = columns.append_column(name, pa.array(array))
        if tasks is None:
            for task in range(node.parallelism):
                self._tables.append(columns)
                self._tasks.append(np.full(rows, task, np.int64))
        else:
            self._tables.append(columns)
            self._tasks.append(tasks)
        if node.follows_events:
            codes = self._partition_codes(settings.watermark_partition, table, partition)
            self._arrivals.append(_arrival_columns(node, timed_rows, own_columns[STREAM_COLUMN], codes))

    def write(self, writer: SegmentWriter) -> UnadmittedEvents:
        """Writes the events: a section for each task and, if the watermark follows events, a section with the order of
        arrival of all events."""
        node = self._node
        table = pa.concat_tables(self._tables).combine_chunks()
        self.column_bytes = column_bytes(node, table.columns[: len(node.schema)])
        tasks = np.concatenate(self._tasks)
        sections: list[tuple[int, Ref]] = []
        if node.parallelism == 1:
            sections.append((0, _write_section(writer, table, len(node.inputs))))
        else:
            order = np.argsort(tasks, kind="stable")
            tasks = tasks[order]
            table = take_rows(table, order)
            edges = np.searchsorted(tasks, np.arange(node.parallelism + 1)).tolist()
            for task in range(node.parallelism):
                if edges[task + 1] > edges[task]:
                    split = table.slice(edges[task], edges[task + 1] - edges[task])
                    sections.append((task, _write_section(writer, split, len(node.inputs))))
        return UnadmittedEvents(
            [Sections.of(sections)], [0], [writer.add(self._arrival_order())] if self._arrivals else [], self.count
        )

    def _arrival_order(self) -> pa.Table:
        """Returns the order of arrival of all events; the partition is null for events without one."""
        names = dict.fromkeys(name for batch in self._arrivals for name in batch)
        columns = {
            name: np.concatenate(
                [batch.get(name, np.full(len(batch["time"]), _MISSING_VALUES.get(name))) for batch in self._arrivals]
            )
            for name in names
        }
        if "partition" in columns:
            codes = columns["partition"]
            indices = pa.array(codes, pa.int32(), mask=codes < 0)
            columns["partition"] = pa.DictionaryArray.from_arrays(
                indices, pa.array(list(self._partitions), pa.string())
            )
        return pa.table(columns)

    def _partition_codes(
        self, partition_setting: str | Partition | None, table: pa.Table, source_partitions: str | RowPartitions
    ) -> NDArray[np.int32] | None:
        """Returns the partition code of each row; None if the rows have no partition."""
        rows = table.num_rows
        if isinstance(partition_setting, Partition) and isinstance(source_partitions, RowPartitions):
            present = np.unique(source_partitions.codes).tolist()
            codes_of = np.full(len(source_partitions.names), -1, np.int32)
            codes_of[present] = [
                self._partition_code(source_partitions.names[code]) if source_partitions.names[code] else -1
                for code in present
            ]
            return codes_of[source_partitions.codes]
        if isinstance(partition_setting, Partition):
            assert isinstance(source_partitions, str)
            return np.full(rows, self._partition_code(source_partitions), np.int32) if source_partitions else None
        if partition_setting is None:
            return None
        if partition_setting not in table.column_names:
            return np.full(rows, self._partition_code(NO_PARTITION), np.int32)
        column = table.column(partition_setting).combine_chunks()
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        # The last code is that of null, whose index is -1.
        values = [*column.dictionary.to_pylist(), None]
        codes = [self._partition_code(NO_PARTITION if value is None else str(value)) for value in values]
        indices = column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        row_codes: NDArray[np.int32] = np.array(codes, np.int32)[indices]
        return row_codes

    def _partition_code(self, name: str) -> int:
        """Returns the code of a partition; a new partition gets the next code."""
        return self._partitions.setdefault(name, len(self._partitions))


def _advances_watermark(codes: NDArray[np.int8], is_end_edge: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    """Returns a mask of the events that advance the watermark. End edges do not, nor events rejected by their arrival
    (SI-10)."""
    is_accepted = is_accepted_on_arrival(codes)
    return is_accepted if is_end_edge is None else is_accepted & ~is_end_edge


def _arrival_columns(
    node: WindowedNode, timed_rows: TimedRows, inputs: NDArray[np.int8], partitions: NDArray[np.int32] | None
) -> dict[str, Any]:
    """Returns the columns from which the watermark is computed, for rows in order of arrival."""
    settings, is_accepted = node.bolt.settings, is_accepted_on_arrival(timed_rows.codes)
    is_advancing = _advances_watermark(timed_rows.codes, timed_rows.end_edges)
    columns: dict[str, Any] = {"time": timed_rows.times, "input": inputs, "advancing": is_advancing}
    if settings.watermark_field is not None:
        columns["inserted"] = (
            np.full(len(is_accepted), NONE, np.int64) if timed_rows.watermarks is None else timed_rows.watermarks
        )
    if partitions is not None:
        columns["partition"] = partitions
        columns["registers_partition"] = is_accepted | (timed_rows.codes == Decision.WATERMARK)
    if (
        settings.estimate_arrival
        and timed_rows.arrivals is not None
        and (partitions is not None or len(node.inputs) > 1)
    ):
        columns["arrival"] = timed_rows.arrivals
    return columns


def _write_section(writer: SegmentWriter, table: pa.Table, streams: int) -> Ref:
    ref = writer.add(table)
    codes = table.column(STREAM_COLUMN).to_numpy()
    times = table.column(TIME_COLUMN).to_numpy()
    by_stream = tuple(int(count) for count in np.bincount(codes, minlength=streams))
    has_end_edges = END_EDGE_COLUMN in table.column_names
    is_advancing = _advances_watermark(
        table.column(DECISION_COLUMN).to_numpy(),
        table.column(END_EDGE_COLUMN).to_numpy(zero_copy_only=False) if has_end_edges else None,
    )
    latest = int(times[is_advancing].max()) if is_advancing.any() else None
    return replace(ref, earliest_live=int(times.min()), latest_live=latest, by_stream=by_stream)


def column_bytes(node: WindowedNode, columns: Sequence[pa.Array | pa.ChunkedArray]) -> tuple[int, ...]:
    """Returns the bytes of events by column of a bolt's windows. Empty for windbolt's own bolts, which need no advice
    on columns, because counting takes some microseconds per column."""
    return tuple(column.nbytes for column in columns) if is_users_class(type(node.bolt)) else ()


# Routes the rows that a task reads or emits: through plain bolts, to windowed bolts and sinks.


class Router:
    """Routes the rows that a task reads or emits to their bolts and sinks."""

    def __init__(self, context: Context) -> None:
        self.context, self.topology = context, context.topology
        self.ledger = Ledger(context.topology, tracing=context.tracing, samples=context.samples_rejected_events)
        self.work = WorkNotes()
        self._staging, self._plain = Staging(context), PlainBolts(context)
        self._windowed = WindowedInputs(context, self.ledger, self._staging)

    def emit(self, stream: Stream, rows: Rows) -> None:
        """Routes rows of a stream to its sinks and bolts."""
        if not rows.table.num_rows:
            return
        for sink in self.topology.sinks_reading.get(stream, ()):
            self._staging.add_for_sink(sink, rows.table)
        for name, input_index in self.topology.readers.get(stream, ()):
            if name in self.topology.windowed:
                self._windowed.arrive(self.topology.windowed[name], input_index, rows, self.emit)
            else:
                self._run(self.topology.plain[name], input_index, rows)

    def take_sums(self, node: WindowedNode, folded: Events) -> None:
        """Takes admitted events of a bolt that were folded elsewhere."""
        self._staging.queue_sums(node, folded)

    def finish(self, owner: str = INPUT, spouts: Mapping[str, Mapping[str, int]] | None = None) -> TaskOutput:
        """Writes all routed rows and all records; returns references to them. ``owner``: the windowed bolt of the task,
        or the input. ``spouts``: counts of rows, by spout."""
        with self.context.store.writer(self.context.key) as writer:
            staged, recorded = self._staging.write(writer), self.ledger.write(writer)
        for bolt, work in self._staging.work.items():
            self.work.add(bolt, work)
        return TaskOutput(staged, recorded, spouts or {}, self.work.end(owner))

    def _run(self, node: PlainNode, input_index: int, rows: Rows) -> None:
        """Runs a plain bolt on rows and routes its output."""
        failures: Failures = []
        for stream, out in self.work.measure(node.name, self._plain.run(node, input_index, rows, failures)):
            if stream == node.bolt.refused_stream:
                count_refused(self.topology, node.name, out.table.num_rows, self.ledger)
            self.emit((node.name, stream), out)
        if failures:
            failed = rows.take(np.array([index for index, _ in failures], np.int64))
            label = rows.file or stream_label(node.inputs[input_index].stream)
            bad = error_rows(node.name, label, failed.table, failed.positions, [reason for _, reason in failures])
            refuse_unreadable(self.topology, node.name, bad, rows.clock, self.ledger, self.emit)


# Collects the events for queues of windowed bolts and the rows for sinks that a task produces, and writes them as one
# segment.


@dataclass
class _QueuedRows:
    """Events for one windowed bolt, batch by batch, in order of arrival."""

    tables: list[pa.Table] = field(default_factory=list)
    times: list[NDArray[np.int64]] = field(default_factory=list)
    inputs: list[NDArray[np.int8]] = field(default_factory=list)
    tasks: list[NDArray[np.int64]] = field(default_factory=list)
    """Empty for pre-aggregated bolts, whose tasks follow from the keys of their partial sums."""


class Staging:
    """Collects the rows that a task produces for others, and writes them as one segment with a section for each
    receiving task."""

    def __init__(self, context: Context) -> None:
        self._context, self._topology = context, context.topology
        self._queued: dict[str, _QueuedRows] = {}
        self._sums: dict[str, Events] = {}
        self._arriving: dict[str, ArrivingEvents] = {}
        self._for_sinks: dict[str, list[pa.Table]] = {}
        self.work: dict[str, BoltWork] = {}
        """For each windowed bolt, after writing: the bytes of its events, or the time of folding them."""

    def queue(
        self,
        node: WindowedNode,
        input_index: int,
        table: pa.Table,
        times: NDArray[np.int64],
        tasks: NDArray[np.int64] | None,
    ) -> None:
        """Adds admitted events of one input, for the tasks of a bolt. ``tasks``: None for pre-aggregated bolts."""
        queued = self._queued.setdefault(node.name, _QueuedRows())
        queued.tables.append(table)
        queued.times.append(times)
        queued.inputs.append(np.full(len(times), input_index, np.int8))
        if tasks is not None:
            queued.tasks.append(tasks)

    def queue_sums(self, node: WindowedNode, folded: Events) -> None:
        """Adds events that were folded elsewhere, for the tasks of a bolt."""
        self._sums[node.name] = folded

    def arriving_events(self, node: WindowedNode) -> ArrivingEvents:
        """Returns the collector of events that the tasks of a bolt will admit."""
        return self._arriving.setdefault(node.name, ArrivingEvents(node))

    def add_for_sink(self, sink: str, table: pa.Table) -> None:
        """Adds rows for a sink."""
        self._for_sinks.setdefault(sink, []).append(table)

    def write(self, writer: SegmentWriter) -> Staged:
        """Writes everything; returns references."""
        queued = dict[str, Sections]()
        for name, queued_rows in self._queued.items():
            node = self._topology.windowed[name]
            streams, parts = len(node.inputs), self._by_task(node, queued_rows)
            queued[name] = Sections.of([(task, write_events(writer, events, streams)) for task, events in parts])
        for name, folded in self._sums.items():
            parts = self._sums_by_task(self._topology.windowed[name], folded)
            queued[name] = Sections.of([(task, write_events(writer, sums, 1)) for task, sums in parts])
        unadmitted = {name: arriving.write(writer) for name, arriving in self._arriving.items()}
        self.work |= {name: BoltWork(column_bytes=arriving.column_bytes) for name, arriving in self._arriving.items()}
        files, for_sinks = list[tuple[str, str]](), list[tuple[str, Ref]]()
        for name, tables in self._for_sinks.items():
            match self._topology.sinks[name].sink:
                case DiscardSink():
                    pass
                case FileSink() as sink:
                    with storage_errors_about(f"sink {name!r}"):
                        files.append((name, self._write_file(sink, pa.concat_tables(tables))))
                case _:
                    for_sinks.append((name, writer.add(pa.concat_tables(tables))))
        return Staged(queued, unadmitted, for_sinks, files)

    def _by_task(self, node: WindowedNode, queued: _QueuedRows) -> Iterator[tuple[int, Events]]:
        """Yields (task, events) of a bolt, or its partial sums if it folds events; ordered by (time, arrival)."""
        events = _concat_queued(queued, len(node.inputs))
        slicing = node.slicing(self._context.tracing)
        if slicing is None:
            self.work[node.name] = BoltWork(column_bytes=column_bytes(node, events.payload.columns))
            yield from _split_by_task(events, queued.tasks, node.parallelism)
            return
        began = perf_counter()
        with bolt_failure(node.name, self._context.batch, "in adding up events"):
            folded = slicing.fold(events)
        self.work[node.name] = BoltWork(perf_counter() - began)
        yield from self._sums_by_task(node, folded)

    def _sums_by_task(self, node: WindowedNode, folded: Events) -> Iterator[tuple[int, Events]]:
        """Yields (task, partial sums) of a bolt; ordered by (time, arrival)."""
        slicing, grouping = node.slicing(self._context.tracing), node.inputs[0].grouping
        assert slicing is not None
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


def _concat_queued(queued: _QueuedRows, streams: int) -> Events:
    """Joins all events in order of arrival. Raises DataError if a column exceeds 2 GiB."""
    times = _concat_arrays(queued.times)
    table = queued.tables[0] if len(queued.tables) == 1 else pa.concat_tables(queued.tables)
    batches = table.combine_chunks().to_batches()
    if len(batches) != 1:
        raise DataError(
            f"a micro-batch holds {table.nbytes / 2**30:.1f} GiB for one bolt in one task",
            why="an Arrow column holds at most 2 GiB of text",
            do="read less in a batch (bytes_per_batch or files_per_batch), or use smaller files",
        )
    return Events(times, batches[0], _concat_arrays(queued.inputs) if streams > 1 else None)


def _split_by_task(
    events: Events, task_parts: list[NDArray[np.int64]], parallelism: int
) -> Iterator[tuple[int, Events]]:
    """Yields (task, events) for each task with events; ordered by (time, arrival)."""
    if parallelism == 1:
        yield 0, events.sorted()
        return
    tasks, times = _concat_arrays(task_parts), events.timestamps
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


def _concat_arrays(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
