"""The three kinds of tasks of a micro-batch: reading a split of a source, firing the windows of a bolt, compacting
segments.

Each is a function of its item and the context alone, so it can run in any process, twice, or again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.keyed.triggered import Forgotten
from manager.slices.slicing import Slicing
from manager.storage.manifest import TaskState
from manager.storage.segments import Ref, SegmentStore, read_events, write_events
from manager.storage.trouble import touching_for
from manager.window_manager import WindowManager
from topologies.engine.batch.failures import bolt_failure, failed
from topologies.engine.batch.plan import (
    CompactItem,
    Context,
    FireItem,
    FireOutcome,
    Output,
    SourceBatch,
    SourceSplit,
    partition_name,
)
from topologies.engine.batch.trace import joined_rows, summed_ids, window_row
from topologies.engine.batch.whereabouts import worker_position
from topologies.engine.fire.assigned_task import AssignedTask
from topologies.engine.fire.deciding import let_in
from topologies.engine.fire.held_task import compact_held, pending_tables
from topologies.engine.fire.retracting import Retractions
from topologies.engine.fire.triggered_task import TriggeredTask
from topologies.engine.ingest.merging import SOURCE
from topologies.engine.ingest.repeats import Repeats
from topologies.engine.ingest.router import Router
from topologies.engine.ingest.rows import Rows
from topologies.graph.model import ERROR_SCHEMA, WindowedNode
from windowing.bolts.bolt import StatefulWindowedBolt, TaskContext, WindowedBolt
from windowing.bolts.state import pack_state
from windowing.data.events import Events
from windowing.data.rows import DEFAULT_STREAM, Loose, emissions, from_rows
from windowing.errors import BoltError, SchemaError
from windowing.time.timestamps import FOREVER, show
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray


_SETTLED = 1 << 10
"""Level of segments whose events are settled and in final order; compacting them gives levels above it."""
_LONG_LIFE = 4
"""Settled events are rewritten in final order when this many evaluations will still need them, at the present rate of
new events."""


def ingest(split: SourceSplit, context: Context) -> Output:
    """Read a split of a source and route its events to the bolts and sinks that read them."""
    output, router = Output(), Router(context)
    for delivery in split.read(context.topology):
        spout = output.spouts.setdefault(delivery.component, {"rows": 0, "invalid": 0, "unreadable_files": 0})
        spout["rows"] += delivery.table.num_rows
        component, origin = delivery.component, delivery.partition
        partition = partition_name(component, origin) if isinstance(origin, str) else origin.of_spout(component)
        clock = context.clock if delivery.clock is None else delivery.clock
        rows = Rows(delivery.table, None, delivery.positions, clock, turns=delivery.turn, partition=partition)
        router.emit((delivery.component, delivery.stream), rows)
        if delivery.bad is not None and len(delivery.bad):
            spout["invalid"] += len(delivery.bad)
            spout["unreadable_files"] += delivery.bad.column("row").null_count
            router.refuse(delivery.component, _errors(delivery), clock)
    return router.finish(output)


def fire(item: FireItem, context: Context) -> FireOutcome:
    """Admit the events that arrived for one task of a windowed bolt, fire its windows up to the frontier, and route
    what the bolt emits."""
    node = context.topology.windowed[item.bolt]
    router = Router(context)
    with touching_for(f"bolt {item.bolt!r}, task {item.task}"):
        return _fire_held(item, node, router, context) if node.holds else _fire_queue(item, node, router, context)


def _fire_queue(item: FireItem, node: WindowedNode, router: Router, context: Context) -> FireOutcome:
    """Fire a task whose windows are runs of its queue."""
    before = item.state
    if item.arrived:
        before = replace(before, refs=[*before.refs, *_let_into_queue(item, node, router, context)])
    if item.frontier is None:
        return router.finish(FireOutcome(state=before))
    parts = [_due(context.store, ref, item.frontier) for ref in before.refs]
    state = replace(deepcopy(before.manager), passed=item.passed)
    manager = WindowManager(node.eviction, node.trigger, node.streams, task=item.task, state=state)
    manager.restore([events for events in parts if events is not None])
    calls = _Calls(node, item, before, router, context)
    windows = manager.advance(item.frontier)
    slicing = node.summed(context.traced)
    calls.make(windows) if slicing is None else calls.join(slicing, windows)
    refs, alive = _left(before.refs, parts, manager, len(node.inputs))
    newly_settled = manager.queue.settled + manager.dropped[0] - before.manager.settled
    if item.frontier != FOREVER and manager.queue.settled >= _LONG_LIFE * newly_settled:
        refs = _in_final_order(refs, manager, item.frontier, len(node.inputs), context)
    after = replace(
        before,
        manager=manager.snapshot(),
        refs=refs,
        decided_by_stream=(alive - np.array(manager.pending)).tolist(),
    )
    counts = {name: np.array(manager.accounts.by_stream(name)) for name in ("windowed", "unwindowed")}
    return calls.finish(after, counts)


def _fire_held(item: FireItem, node: WindowedNode, router: Router, context: Context) -> FireOutcome:
    """Fire a task whose windows are formed by assigners or fired by a key trigger."""
    kind = AssignedTask if node.assigners else TriggeredTask
    task = kind(item, node, router, context)
    calls = _Calls(node, item, item.state, router, context)
    calls.make(task.windows())
    return calls.finish(calls.remember(task.finish(), task.over), task.counts)


def _let_into_queue(item: FireItem, node: WindowedNode, router: Router, context: Context) -> list[Ref]:
    """Write the admitted events, in order of time, as a segment of the queue; an empty list where none was admitted."""
    repeats = None if node.bolt.settings.message_id_field is None else Repeats(node, item, context.store)
    admitted = let_in(item, node, router, repeats=repeats)
    if admitted is None:
        return []
    held = admitted.events
    batches = held.payload.combine_chunks().to_batches()
    events = Events(held.times, batches[0], held.streams)
    slicing = node.summed(context.traced)
    if slicing is not None:
        with bolt_failure(node.name, context.batch, "in adding up events"):
            events = slicing.fold(events)
    events = events.sorted()
    with context.store.writer(context.folder) as writer:
        return [write_events(writer, events, len(node.inputs))]


class _Calls:
    """Calls a bolt for each window of a task and routes what it emits."""

    def __init__(self, node: WindowedNode, item: FireItem, before: TaskState, router: Router, context: Context) -> None:
        self.node, self.task, self.before, self.router, self.context = node, item.task, before, router, context
        self.windows = 0
        self._forgot = False
        self.suppressed = 0
        """Number of windows not shown to the bolt because they end before the first output of the run."""
        self._emitted = dict(before.emitted)
        self._counters: Counter[str] = Counter()
        self._bolt: WindowedBolt | None = None
        self._retractions = Retractions(node, before, context.store) if node.retracts else None

    def make(self, windows: Iterable[TupleWindow | Forgotten]) -> None:
        """Call the bolt for each window, in order. The bolt is prepared before its first window."""
        node, context, outputs, position = self.node, self.context, _Emissions(self.node), worker_position()
        for window in windows:
            if isinstance(window, Forgotten):
                self._forget(window.key)
                continue
            if context.first is not None and context.first.is_after(node.name, window.end_timestamp):
                self.suppressed += 1
                continue
            bolt = self._ready()
            self.windows += 1
            if context.traced:
                self.router.ledger.trace("windows", window_row(node.name, window))
            if position is not None:
                position.enter(window)
            try:  # a context manager would cost as much as all the rest
                if self._retractions is None:
                    outputs.add(emissions(bolt.execute(window), node.outputs), window)
                else:
                    emitted = emissions(bolt.execute(window), self._retractions.schemas)
                    outputs.add(self._retractions.rows(window, emitted), window)
            except BoltError:
                raise
            except (Exception, SystemExit) as error:
                raise failed(node.name, context.batch, _place(window), error, task=self.task) from error
        if position is not None:
            position.leave()
        for stream, table, times in outputs.tables(context.batch):
            self._emit(stream, table, times)

    def join(self, slicing: Slicing, windows: Iterable[TupleWindow]) -> None:
        """Emit the results of windows that are joined from partial sums. The bolt is not called."""
        node, context = self.node, self.context
        due = list(windows)
        if context.first is not None:
            emitted = [candidate for candidate in due if not context.first.is_after(node.name, candidate.end_timestamp)]
            self.suppressed += len(due) - len(emitted)
            due = emitted
        if not due:
            return
        self.windows += len(due)
        times = np.array([node.emit_time(window) for window in due], np.int64)
        with bolt_failure(node.name, context.batch, f"in task {self.task} in joining windows", task=self.task):
            for joined in slicing.joined(due):
                for row in joined_rows(node.name, due, joined) if context.traced else ():
                    self.router.ledger.trace("windows", row)
                self._emit(DEFAULT_STREAM, joined.rows, times[joined.windows])

    def _emit(self, stream: str, table: pa.Table, times: NDArray[np.int64]) -> None:
        first = self._emitted.get(stream, 0)
        self._emitted[stream] = first + table.num_rows
        positions = np.arange(first, first + table.num_rows)
        self.router.emit((self.node.name, stream), Rows(table, times, positions, self.context.clock))

    def _ready(self) -> WindowedBolt:
        """The bolt of this task; prepared at the first call."""
        if self._bolt is None:
            self._bolt = _prepared(self.node, self.task, self.context, self.before, self._counters)
        return self._bolt

    def _forget(self, key: Any) -> None:
        bolt, self._forgot = self._ready(), True
        where = f"in task {self.task} in forgetting {key!r}"
        with bolt_failure(self.node.name, self.context.batch, where, task=self.task):
            bolt.forget(key)

    def remember(self, after: TaskState, over: int) -> TaskState:
        """The state with the rows that a later firing may retract: those of windows that end after ``over``
        (microseconds)."""
        if self._retractions is None:
            return after
        with self.context.store.writer(self.context.folder) as writer:
            shown = self._retractions.save(writer, over)
        others = {name: ref for name, ref in after.tables.items() if not Retractions.is_mine(name)}
        return replace(after, tables=others | shown)

    def finish(self, after: TaskState, counts: dict[str, NDArray[np.int64]]) -> FireOutcome:
        """The outcome of the task. ``after`` is its state without the changes that the calls made."""
        node = self.node
        after = replace(
            after.counted({name: int(count) for name, count in self._counters.items()}),
            emitted=self._emitted,
            fired=self.before.fired + self.windows,
        )
        after = replace(after, suppressed=self.before.suppressed + self.suppressed)
        if (self.windows or self._forgot) and isinstance(self._bolt, StatefulWindowedBolt):
            after = replace(after, user=_save_state(self._bolt, node, self.context))
        result = self.router.finish(FireOutcome(state=after, windows=self.windows))
        bolt_counts = result.counts.setdefault(node.name, {})
        for account, by_stream in counts.items():
            bolt_counts[account] = (np.array(bolt_counts.get(account, 0)) + by_stream).tolist()
        return result


def compact(item: CompactItem, context: Context) -> Ref:
    """Merge adjacent segments of one task into one segment, in order of time."""
    node = context.topology.windowed[item.bolt]
    with touching_for(f"bolt {item.bolt!r}, task {item.task}"):
        return compact_held(item, node, context) if node.holds else _compact_queue(item, node, context)


def _compact_queue(item: CompactItem, node: WindowedNode, context: Context) -> Ref:
    streams = len(node.inputs)
    events = Events.concat([read_events(context.store, ref) for ref in item.refs]).sorted()
    slicing = node.summed(context.traced)
    if slicing is not None:
        events = slicing.compacted(events, item.passed)
    with context.store.writer(context.folder) as writer:
        ref = write_events(writer, events, streams)
    return replace(ref, level=1 + max(source.level for source in item.refs))


def load_state(store: SegmentStore, user: dict[str, Ref]) -> dict[str, Any]:
    """The saved state of a stateful bolt."""
    state: dict[str, Any] = json.loads(store.read(user[""]).column("json")[0].as_py())
    return state | {name: store.read(ref) for name, ref in user.items() if name}


def pending_events(store: SegmentStore, node: WindowedNode, task: int, state: TaskState) -> Iterator[pa.Table]:
    """The events of a task that are in no window yet and may still be in one. For inspection after a traced run."""
    if node.holds:
        yield from pending_tables(store, state)
        return
    slicing = node.traced_slicing
    if slicing is not None:
        if slicing.traced is not None:
            for events in restored_manager(store, node, task, state).pending_events():
                yield summed_ids(slicing, events)
        return
    for events in restored_manager(store, node, task, state).pending_events():
        yield pa.Table.from_batches([events.payload])


def restored_manager(store: SegmentStore, node: WindowedNode, task: int, state: TaskState) -> WindowManager:
    """The window manager of a task with its state and events from a manifest. For inspection."""
    manager = WindowManager(node.eviction, node.trigger, node.streams, task=task, state=deepcopy(state.manager))
    manager.restore([read_events(store, ref) for ref in state.refs if ref.alive])
    manager.resume()
    return manager


class _Emissions:
    """The rows that the windows of a task emit, in order. Consecutive rows of one stream are combined."""

    def __init__(self, node: WindowedNode) -> None:
        self.node = node
        self._by_stream: list[tuple[str, list[tuple[pa.Table | Loose, TupleWindow]]]] = []

    def add(self, emitted: Iterable[tuple[str, pa.Table | Loose]], window: TupleWindow) -> None:
        """Add what a window emitted."""
        for stream, rows in emitted:
            if not self._by_stream or self._by_stream[-1][0] != stream:
                self._by_stream.append((stream, []))
            self._by_stream[-1][1].append((rows, window))

    def tables(self, batch: int) -> Iterator[tuple[str, pa.Table, NDArray[np.int64]]]:
        """Yield (stream, rows, times in microseconds) in order of emission."""
        for stream, emitted in self._by_stream:
            sizes = [len(rows) for rows, _ in emitted]
            times = np.repeat(np.array([self.node.emit_time(window) for _, window in emitted], np.int64), sizes)
            yield stream, self._joined(self.node.outputs[stream], emitted, batch), times

    def _joined(self, schema: pa.Schema, emitted: list[tuple[pa.Table | Loose, TupleWindow]], batch: int) -> pa.Table:
        """The rows as one table. Consecutive loose rows are converted together, which is much cheaper."""
        tables: list[pa.Table] = []
        for loose, group in groupby(emitted, key=lambda emission: isinstance(emission[0], list)):
            members = list(group)
            if not loose:
                tables.extend(table for table, _ in members)
                continue
            try:
                tables.append(from_rows([row for rows, _ in members for row in rows], schema))
            except SchemaError:
                for rows, window in members:  # again, one by one, to find the window that failed
                    with bolt_failure(self.node.name, batch, _place(window), task=window.task):
                        from_rows(rows, schema)
                raise
        return pa.concat_tables(tables)


def _due(store: SegmentStore, ref: Ref, frontier: int) -> Events | None:
    """The events of a reference up to the frontier; None, without opening the segment, where it has none."""
    if not ref.alive or ref.earliest > frontier:
        return None
    events = read_events(store, ref)
    if frontier == FOREVER or ref.latest <= frontier:
        return events
    return events.slice(0, int(np.searchsorted(events.timestamps, frontier, side="right")))


def _left(
    refs: list[Ref], parts: list[Events | None], manager: WindowManager, streams: int
) -> tuple[list[Ref], NDArray[np.int64]]:
    """The references without the events that the manager dropped, and how many of the given events remain, per stream.

    The queue and each part are ordered by (time, arrival). The dropped events are all those before one time, and of
    that very time as many as were dropped, in order of arrival.
    """
    left: list[Ref] = []
    alive = np.zeros(streams, np.int64)
    dropped, last = manager.dropped
    present = [events for events in parts if events is not None]
    ties = dropped - sum(int(np.searchsorted(events.timestamps, last)) for events in present) if dropped else 0
    for ref, events in zip(refs, parts, strict=True):
        if events is None:
            left.extend([ref] if ref.alive else [])
            continue
        dropped_here = 0
        if dropped:
            dropped_here = int(np.searchsorted(events.timestamps, last))
            tied = min(ties, int(np.searchsorted(events.timestamps, last, side="right")) - dropped_here)
            ties -= tied
            dropped_here += tied
        alive += events.slice(dropped_here, len(events)).by_stream(streams)
        remaining = ref.without(dropped_here, events, streams) if dropped_here else ref
        left.extend([remaining] if remaining.alive else [])
    return left, alive


def _in_final_order(
    refs: list[Ref], manager: WindowManager, frontier: int, streams: int, context: Context
) -> list[Ref]:
    """The references, with all settled events rewritten in final order.

    So an event is sorted once, not in every batch for as long as it lives.
    """
    events = manager.settled_events(sum(ref.alive for ref in refs if ref.level >= _SETTLED))
    if events is None:
        return refs
    with context.store.writer(context.folder) as writer:
        written = replace(write_events(writer, events, streams), level=_SETTLED)
    settled = [ref for ref in refs if ref.level >= _SETTLED]
    rest = [left for ref in refs if ref.level < _SETTLED for left in _after(ref, frontier, streams, context)]
    return [*settled, written, *rest]


def _after(ref: Ref, frontier: int, streams: int, context: Context) -> Iterator[Ref]:
    """The part of a reference that lies after the frontier."""
    if ref.earliest > frontier:
        yield ref
    elif ref.latest > frontier:
        events = read_events(context.store, ref)
        yield ref.without(int(np.searchsorted(events.timestamps, frontier, side="right")), events, streams)


def _prepared(
    node: WindowedNode, task: int, context: Context, before: TaskState, counters: Counter[str]
) -> WindowedBolt:
    bolt = deepcopy(node.bolt)
    saved = load_state(context.store, before.user) if before.user else None
    with bolt_failure(node.name, context.batch, f"in task {task} in prepare", task=task):
        if isinstance(bolt, StatefulWindowedBolt):
            bolt.state = bolt.initial_state() if saved is None else saved
        bolt.prepare(TaskContext(node.name, task, node.parallelism, context.run, counters))
    return bolt


def _save_state(bolt: StatefulWindowedBolt, node: WindowedNode, context: Context) -> dict[str, Ref]:
    with bolt_failure(node.name, context.batch, "in keeping its state"):
        text, tables = pack_state(bolt.state, bolt.state_types)
    with context.store.writer(context.folder) as writer:
        return {"": writer.add(pa.table({"json": [text]}))} | {
            name: writer.add(table) for name, table in tables.items()
        }


def _place(window: TupleWindow) -> str:
    """The task and the window at which a bolt failed, for error messages."""
    count = f"{len(window)} event{'s' if len(window) != 1 else ''}"
    if window.start_timestamp is None:
        return f"in task {window.task} on the window of {count} at {show(window.end_timestamp)}"
    span = f"from {show(window.start_timestamp)} to {show(window.end_timestamp)}"
    return f"in task {window.task} on the window {span} of {count}"


def _errors(delivery: SourceBatch) -> pa.Table:
    """The unreadable rows of a source batch, as rows of the error stream."""
    bad = delivery.bad
    assert bad is not None
    component = pa.array([delivery.component] * len(bad), pa.string())
    mixed = SOURCE in bad.column_names
    source = bad.column(SOURCE) if mixed else pa.array([delivery.source] * len(bad), pa.string())
    columns = [component, source, bad.column("row"), bad.column("reason"), bad.column("data")]
    return pa.table(columns, schema=ERROR_SCHEMA)
