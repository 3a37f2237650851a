"""The functions that workers run in a micro-batch: reading a split of a source, or the sums that Java has added up from
it; gathering sections; firing the windows of a bolt; compacting segments.

Each depends only on its item and the context, so it can run in any process, twice, or again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.storage.files import storage_errors_about
from manager.storage.segment_files import FileSegments, GatherItem, GatherOutcome, gather_sections
from manager.storage.segments import Ref, Refs, SegmentStore
from manager.storage.task_state import TaskState
from policies.watermarks import Decision, all_accepted, is_accepted
from topologies.engine.admission import (
    AdmissionContext,
    Decisions,
    Incoming,
    Marks,
    any_rejected,
    decide,
    record_groups,
)
from topologies.engine.batch import Context
from topologies.engine.event_times import with_anchor
from topologies.engine.fire.bolt_calls import BoltCalls
from topologies.engine.fire.event_calls import EventCalls, EventTask
from topologies.engine.fire.task_families import family_of
from topologies.engine.fire.task_windows import TaskWindows, admit
from topologies.engine.ingest import Router
from topologies.engine.merging import SOURCE_COLUMN
from topologies.engine.plain_bolts import refuse_unreadable
from topologies.engine.task_data import (
    CompactItem,
    FireItem,
    FireOutcome,
    InputProgress,
    Rows,
    SourceBatch,
    SourceSplit,
    TaskOutput,
    partition_name,
)
from topologies.graph.graph import ERROR_SCHEMA, Graph, WindowedNode
from topologies.graph.java_sums import FrameSums
from topologies.io.file_spout import FileSpout
from windowing.schema import DEFAULT_STREAM
from windowing.settings.rules import LateAction
from windowing.timestamps import EARLIEST, FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

COUNTED = ("rows", "invalid", "unreadable_files", "truncated")
"""Names of a spout's counts; "tombstones" is added if some were skipped."""


def ingest(split: SourceSplit, context: Context) -> TaskOutput:
    """Reads a split of a source and routes its events to their bolts and sinks."""
    spouts, router = dict[str, dict[str, int]](), Router(context)
    for source_batch in split.read(context.topology):
        spout = spouts.setdefault(source_batch.component, dict.fromkeys(COUNTED, 0))
        spout["rows"] += source_batch.table.num_rows
        if source_batch.tombstones:
            spout["tombstones"] = spout.get("tombstones", 0) + source_batch.tombstones
        if source_batch.truncated is not None:
            spout["truncated"] += int(np.count_nonzero(source_batch.truncated))
        component, origin = source_batch.component, source_batch.partition
        partition = partition_name(component, origin) if isinstance(origin, str) else origin.of_spout(component)
        clock = context.clock if source_batch.clock is None else source_batch.clock
        rows = Rows(
            _with_defaults(source_batch, context),
            None,
            source_batch.positions,
            clock,
            shuffle_offsets=source_batch.shuffle_offset,
            partition=partition,
            file=source_batch.source if _reads_files(context, component) else "",
            truncated=source_batch.truncated,
            is_read=True,
        )
        router.emit((source_batch.component, source_batch.stream), rows)
        if source_batch.bad is not None and len(source_batch.bad):
            spout["invalid"] += len(source_batch.bad)
            spout["unreadable_files"] += source_batch.bad.column("row").null_count
            bad = _errors(source_batch)
            refuse_unreadable(router.topology, source_batch.component, bad, clock, router.ledger, router.emit)
    return router.finish(spouts=spouts)


def fire(item: FireItem, context: Context) -> FireOutcome:
    """Admits the events that arrived for one task of a windowed bolt, fires its windows up to the frontier, and routes
    the bolt's output."""
    node, router = with_anchor(context.topology.windowed[item.bolt], item.anchor), Router(context)
    with storage_errors_about(f"bolt {item.bolt!r}, task {item.task}"):
        context.store.prefetch(item.needed_refs())
        windows = family_of(node).restore(item, node, router)
        admitted = admit(item, node, router, windows.admission_context)
        if admitted is not None:
            windows.accept(admitted)
        calls = _calls(windows, item, node, router)
        calls.make(item.share.of(windows.advance()))
        state = _snapshot(windows, calls, node, router) if item.share.index == 0 else None
        return FireOutcome(router.finish(item.bolt), state, calls.done)


def _calls(windows: TaskWindows, item: FireItem, node: WindowedNode, router: Router) -> BoltCalls:
    if isinstance(windows, EventTask):
        return EventCalls(item, node, router, windows)
    return BoltCalls(item, node, router)


def _snapshot(windows: TaskWindows, calls: BoltCalls, node: WindowedNode, router: Router) -> TaskState:
    """Writes the state that the task needs later, and counts its events."""
    with router.context.store.writer(router.context.key) as writer:
        after = windows.snapshot(writer)
        state = TaskState(
            after.windows, Refs.packed(after.refs), after.accounted_by_stream, calls.snapshot(after, writer)
        )
    router.ledger.count_by_stream(node, after.counts)
    return state


def compact(item: CompactItem, context: Context) -> Ref:
    """Merges adjacent segments of a task into one, in order of time."""
    node = with_anchor(context.topology.windowed[item.bolt], item.anchor)
    with storage_errors_about(f"bolt {item.bolt!r}, task {item.task}"):
        context.store.prefetch(item.refs)
        return family_of(node).compact(item, node, context)


def gather(item: GatherItem, context: Context) -> GatherOutcome:
    """Copies sections of many segments into one segment."""
    assert isinstance(context.store, FileSegments)
    return gather_sections(context.store, context.key, item)


def pending_events(store: SegmentStore, node: WindowedNode, task: int, state: TaskState) -> Iterator[pa.Table]:
    """Yields the events of a task that are in no window yet and may still be in one. For inspection after a traced
    run."""
    return family_of(node).pending(store, node, task, state)


def _with_defaults(source_batch: SourceBatch, context: Context) -> pa.Table:
    """Returns the rows as bolts see them, with the spout's defaults filled in."""
    node = context.topology.spouts.get(source_batch.component)
    if node is None or not node.defaults or source_batch.stream != DEFAULT_STREAM:
        return source_batch.table
    return node.defaults.filled(source_batch.table)


def _reads_files(context: Context, spout: str) -> bool:
    """True if a spout reads users' files."""
    spouts = context.topology.spouts
    return spout in spouts and type(spouts[spout].spout) is FileSpout


def _errors(source_batch: SourceBatch) -> pa.Table:
    """Returns the unreadable rows of a source batch, as rows of the error stream."""
    bad = source_batch.bad
    assert bad is not None
    component = pa.array([source_batch.component] * len(bad), pa.string())
    mixed = SOURCE_COLUMN in bad.column_names
    source = bad.column(SOURCE_COLUMN) if mixed else pa.array([source_batch.source] * len(bad), pa.string())
    columns = [component, source, bad.column("row"), bad.column("reason"), bad.column("data")]
    return pa.table(columns, schema=ERROR_SCHEMA)


# Input that Java has added up: the decisions, accounts and partial results are those of the rows themselves.


def first_in_time(node: WindowedNode, watermark: int | None) -> int:
    """Returns the first time in microseconds that is not behind the watermark. Events of a slice on the same side of it
    get the same decision."""
    if watermark is None:
        return EARLIEST
    if watermark == FOREVER:
        return FOREVER
    _, decisions = _decide_at_tick(node, np.array([watermark]), watermark)
    return watermark + int(decisions.codes[0] == Decision.LATE_AT_ADMISSION)


def _decide_at_tick(node: WindowedNode, times: NDArray[np.int64], watermark: int | None) -> tuple[Incoming, Decisions]:
    codes, marks = np.zeros(len(times), np.int8), Marks.of_tick(watermark, len(times))
    events = Incoming(Rows(pa.table({}), times, np.arange(len(times)), 0), 0, times, codes, marks)
    return events, decide(node, events, AdmissionContext())


@dataclass(frozen=True)
class SumsFile:
    """The sums of some partitions of a batch, one after another, as FrameSums.java writes them."""

    sums: FrameSums
    path: str
    size: int
    """Number of sums; negative if the rows are needed."""

    @classmethod
    def written(cls, sums: FrameSums, path: str) -> SumsFile:
        """Returns the file of one partition at a path."""
        return cls(sums, path, int(np.fromfile(path, np.int64, 2)[1]))


def take_in(file: SumsFile, context: Context) -> TaskOutput | None:
    """Takes the sums of a file into their bolt. Returns None if the rows themselves are needed, because some change
    their time or are rejected, and a late stream or an observer needs these rows."""
    sums, node = file.sums, context.topology.windowed[file.sums.bolt]
    slicing = node.slicing(traced=False)
    assert slicing is not None
    read = _read(file)
    events, decisions = _decide_at_tick(node, read.latest, context.watermarks[node.name])
    rejects = any_rejected(decisions.codes)
    if decisions.adjusted.any() or (
        rejects and (context.samples_rejected_events or _shows_late(context.topology, node))
    ):
        return None
    router = Router(context)
    progress = InputProgress(int(read.latest.max()), None, None, context.clock, context.clock)
    router.ledger.note_progress(node, 0, progress)
    record_groups(node, events, decisions, read.counts, router.ledger)
    keys, times, counts, terms = read.keys, read.times, read.counts, read.terms
    if not all_accepted(decisions.codes):
        kept = np.flatnonzero(is_accepted(decisions.codes))
        keys, times, counts = [key.take(pa.array(kept)) for key in keys], times[kept], counts[kept]
        terms = [term[kept] for term in terms]
    if len(times):
        rows = slicing.rows(times, keys, sums.states(terms), counts[:, None])
        router.take_sums(node, slicing.merge(rows.sorted()) if read.partitions > 1 else rows)
    return router.finish(spouts={sums.spout: dict.fromkeys(COUNTED, 0) | {"rows": read.rows}})


def _shows_late(topology: Graph, node: WindowedNode) -> bool:
    """True if late events go to a stream with readers, or stop the run."""
    settings = node.bolt.settings
    stream = None if settings.late_stream is None else (node.name, settings.late_stream)
    stops = any(settings.of_input(label).late_action is LateAction.ERROR for label in node.streams)
    return stops or (stream is not None and bool(topology.readers.get(stream) or topology.sinks_reading.get(stream)))


@dataclass(frozen=True)
class _SumColumns:
    """Sums as columns, with an entry for each sum."""

    partitions: int
    """Number of partitions with sums; a key may have a sum in each."""
    rows: int
    """Number of rows in the sums."""
    times: NDArray[np.int64]
    """The last microsecond of the slice."""
    keys: list[pa.Array]
    counts: NDArray[np.int64]
    latest: NDArray[np.int64]
    terms: list[NDArray[np.int64]]


def _read(file: SumsFile) -> _SumColumns:
    numbers, position = np.fromfile(file.path, np.uint8), 0
    parts: list[_SumColumns] = []
    while position < len(numbers):
        reader = _Partition(file.sums, numbers, position)
        parts.append(reader.columns())
        position = reader.at
    parts = [part for part in parts if len(part.times)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    return _SumColumns(
        len(parts),
        sum(part.rows for part in parts),
        np.concatenate([part.times for part in parts]),
        [pa.concat_arrays(columns) for columns in zip(*(part.keys for part in parts), strict=True)],
        np.concatenate([part.counts for part in parts]),
        np.concatenate([part.latest for part in parts]),
        [np.concatenate(columns) for columns in zip(*(part.terms for part in parts), strict=True)],
    )


class _Partition:
    """Reads the sums of one partition."""

    def __init__(self, sums: FrameSums, numbers: NDArray[np.uint8], at: int) -> None:
        self._sums, self._numbers = sums, numbers
        self.at = at
        """Position up to which the bytes have been read."""

    def columns(self) -> _SumColumns:
        sums = self._sums
        rows, size = self._next(2).tolist()
        texts = self._next(len(sums.keys)).tolist()
        width = 4 + len(sums.keys) + len(sums.terms)
        columns = np.ascontiguousarray(self._next(size * width).reshape(size, width).T)
        times, flags, *codes = columns[: 2 + len(sums.keys)]
        counts, latest, *terms = columns[2 + len(sums.keys) :]
        lengths = [self._next(count) for count in texts]
        keys = [
            self._key(kind, letter.letter, code, flags >> (1 + place) & 1 != 0, lengths[place])
            for place, (kind, letter, code) in enumerate(zip(sums.kinds, sums.keys, codes, strict=True))
        ]
        self.at += -self.at % 8
        return _SumColumns(1, rows, times, keys, counts, latest, terms)

    def _next(self, count: int) -> NDArray[np.int64]:
        start, self.at = self.at, self.at + 8 * int(count)
        return self._numbers[start : self.at].view(np.int64)

    def _key(
        self,
        kind: pa.DataType,
        letter: str,
        codes: NDArray[np.int64],
        null: NDArray[np.bool_],
        lengths: NDArray[np.int64],
    ) -> pa.Array:
        """Returns a key column: numbers are stored as they are, texts as indices into the texts at the end."""
        mask = null if null.any() else None
        if letter in "TX":
            start, self.at = self.at, self.at + int(lengths.sum())
            offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._numbers[start : self.at])]
            return pa.Array.from_buffers(kind, len(lengths), buffers).take(pa.array(codes, mask=mask))
        if letter in "FD":
            return pa.array(codes.view(np.float64), mask=mask).cast(kind)
        if letter == "Z":
            return pa.array(codes != 0, mask=mask)
        width = np.int32 if letter in "IA" else np.int64
        return pa.array(codes.astype(width), mask=mask).cast(kind)
