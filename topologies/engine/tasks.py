"""The functions that workers run in a micro-batch: reading a split of a source, gathering what was written for tasks,
firing the windows of a bolt, compacting segments.

Each is a function of its item and the context alone, so it can run in any process, twice, or again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from manager.storage.files import naming_owner
from manager.storage.segment_files import FileSegments, GatherItem, GatherOutcome, gather_sections
from manager.storage.segments import Ref, Refs, SegmentStore
from manager.storage.task_state import TaskState
from topologies.engine.batch import Context
from topologies.engine.event_times import anchored
from topologies.engine.fire.bolt_calls import BoltCalls
from topologies.engine.fire.event_calls import EventCalls, EventTask
from topologies.engine.fire.task_families import family_of
from topologies.engine.fire.task_windows import TaskWindows, admit
from topologies.engine.ingest import Router
from topologies.engine.merging import SOURCE_COLUMN
from topologies.engine.plain_bolts import refuse_unreadable
from topologies.engine.work import (
    CompactItem,
    FireItem,
    FireOutcome,
    Output,
    Rows,
    SourceBatch,
    SourceSplit,
    partition_name,
)
from topologies.graph.graph import ERROR_SCHEMA, WindowedNode
from topologies.io.file_spout import FileSpout
from windowing.schema import DEFAULT_STREAM

COUNTED = ("rows", "invalid", "unreadable_files", "truncated")
"""Names of the counts of a spout; "tombstones" is there too where some were left out."""


def ingest(split: SourceSplit, context: Context) -> Output:
    """Read a split of a source and route its events to the bolts and sinks that read them."""
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
            turns=source_batch.turn,
            partition=partition,
            file=source_batch.source if _of_files(context, component) else "",
            truncated=source_batch.truncated,
        )
        router.emit((source_batch.component, source_batch.stream), rows)
        if source_batch.bad is not None and len(source_batch.bad):
            spout["invalid"] += len(source_batch.bad)
            spout["unreadable_files"] += source_batch.bad.column("row").null_count
            bad = _errors(source_batch)
            refuse_unreadable(router.topology, source_batch.component, bad, clock, router.ledger, router.emit)
    return router.finish(spouts=spouts)


def fire(item: FireItem, context: Context) -> FireOutcome:
    """Admit the events that arrived for one task of a windowed bolt, fire its windows up to the frontier, and route
    what the bolt emits."""
    node, router = anchored(context.topology.windowed[item.bolt], item.anchor), Router(context)
    with naming_owner(f"bolt {item.bolt!r}, task {item.task}"):
        context.store.expect(item.needed_refs())
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
    """Writes the state that the task needs later, and counts what happened to its events."""
    with router.context.store.writer(router.context.key) as writer:
        after = windows.snapshot(writer)
        state = TaskState(
            after.windows, Refs.packed(after.refs), after.accounted_by_stream, calls.snapshot(after, writer)
        )
    router.ledger.count_by_stream(node, after.counts)
    return state


def compact(item: CompactItem, context: Context) -> Ref:
    """Merge adjacent segments of one task into one segment, in order of time."""
    node = anchored(context.topology.windowed[item.bolt], item.anchor)
    with naming_owner(f"bolt {item.bolt!r}, task {item.task}"):
        context.store.expect(item.refs)
        return family_of(node).compact(item, node, context)


def gather(item: GatherItem, context: Context) -> GatherOutcome:
    """Copy sections of many segments into one segment."""
    assert isinstance(context.store, FileSegments)
    return gather_sections(context.store, context.key, item)


def pending_events(store: SegmentStore, node: WindowedNode, task: int, state: TaskState) -> Iterator[pa.Table]:
    """Returns the events of a task that are in no window yet and may still be in one. For inspection after a traced
    run."""
    return family_of(node).pending(store, node, task, state)


def _with_defaults(source_batch: SourceBatch, context: Context) -> pa.Table:
    """Returns the rows as bolts see them, with the spout's defaults filled in, whatever was read."""
    node = context.topology.spouts.get(source_batch.component)
    if node is None or not node.defaults or source_batch.stream != DEFAULT_STREAM:
        return source_batch.table
    return node.defaults.filled(source_batch.table)


def _of_files(context: Context, spout: str) -> bool:
    """True if a spout reads files of the user's."""
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
