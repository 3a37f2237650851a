"""The tasks of a micro-batch: read a split of a source, fire a bolt's windows, compact segments.

Each is a function of its item and the context alone, so that it can run anywhere, twice, or again.
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
from topologies.engine.batch.whereabouts import here
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
from windowing.bolt import StatefulWindowedBolt, TaskContext, WindowedBolt
from windowing.errors import BoltError, SchemaError
from windowing.events import Events
from windowing.rows import DEFAULT_STREAM, Loose, emissions, from_rows
from windowing.state import pack_state
from windowing.timestamps import FOREVER, show
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray


_SETTLED = 1 << 10
"""The level of segments whose events are settled, and in their final order; compacted ones have levels above."""
_LONG_LIFE = 4
"""Events are written again, in order, where as many evaluations as this will need them, as things stand."""


def ingest(split: SourceSplit, context: Context) -> Output:
    """Read a split of a source, and bring its events to whoever reads them."""
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
    """Let in the events that have arrived for one task of a windowed bolt, evaluate it up to its frontier, and bring
    what it emits to whoever reads it."""
    part = context.topology.windowed[item.bolt]
    router = Router(context)
    return _fire_held(item, part, router, context) if part.holds else _fire_queue(item, part, router, context)


def _fire_queue(item: FireItem, part: WindowedNode, router: Router, context: Context) -> FireOutcome:
    """A task whose windows are runs of its queue."""
    before = item.state
    if item.arrived:
        before = replace(before, refs=[*before.refs, *_let_into_queue(item, part, router, context)])
    if item.frontier is None:
        return router.finish(FireOutcome(state=before))
    parts = [_due(context.store, ref, item.frontier) for ref in before.refs]
    state = replace(deepcopy(before.manager), passed=item.passed)
    manager = WindowManager(part.eviction, part.trigger, part.streams, task=item.task, state=state)
    manager.restore([events for events in parts if events is not None])
    calls = _Calls(part, item, before, router, context)
    windows = manager.advance(item.frontier)
    slicing = part.summed(context.traced)
    calls.make(windows) if slicing is None else calls.join(slicing, windows)
    refs, alive = _left(before.refs, parts, manager, len(part.inputs))
    fresh = manager.queue.settled + manager.dropped[0] - before.manager.settled
    if item.frontier != FOREVER and manager.queue.settled >= _LONG_LIFE * fresh:
        refs = _in_final_order(refs, manager, item.frontier, len(part.inputs), context)
    after = replace(
        before,
        manager=manager.snapshot(),
        refs=refs,
        decided_by_stream=(alive - np.array(manager.pending)).tolist(),
    )
    counts = {name: np.array(manager.accounts.by_stream(name)) for name in ("windowed", "unwindowed")}
    return calls.finish(after, counts)


def _fire_held(item: FireItem, part: WindowedNode, router: Router, context: Context) -> FireOutcome:
    """A task whose windows are assigned, or fired by a trigger."""
    kind = AssignedTask if part.assigners else TriggeredTask
    task = kind(item, part, router, context)
    calls = _Calls(part, item, item.state, router, context)
    calls.make(task.windows())
    return calls.finish(calls.remember(task.finish(), task.over), task.counts)


def _let_into_queue(item: FireItem, part: WindowedNode, router: Router, context: Context) -> list[Ref]:
    """The events that are let in, in order of time, as a segment of the queue."""
    repeats = None if part.bolt.settings.message_id_field is None else Repeats(part, item, context.store)
    found = let_in(item, part, router, repeats=repeats)
    if found is None:
        return []
    held = found.events
    batches = held.payload.combine_chunks().to_batches()
    events = Events(held.times, batches[0], held.streams)
    slicing = part.summed(context.traced)
    if slicing is not None:
        with bolt_failure(part.name, context.batch, "in adding up events"):
            events = slicing.fold(events)
    events = events.sorted()
    writer = context.store.writer(context.folder)
    try:
        return [write_events(writer, events, len(part.inputs))]
    finally:
        writer.close()


class _Calls:
    """Calls a bolt for each of a task's windows, and brings what it emits to whoever reads it."""

    def __init__(self, part: WindowedNode, item: FireItem, before: TaskState, router: Router, context: Context) -> None:
        self.part, self.task, self.before, self.router, self.context = part, item.task, before, router, context
        self.windows = 0
        self._forgot = False
        self.suppressed = 0
        """Windows that end before the first output."""
        self._emitted = dict(before.emitted)
        self._counters: Counter[str] = Counter()
        self._bolt: WindowedBolt | None = None
        self._retractions = Retractions(part, before, context.store) if part.retracts else None

    def make(self, windows: Iterable[TupleWindow | Forgotten]) -> None:
        """Call the bolt for each of the windows, in order; it is prepared before the first."""
        part, context, run, noted = self.part, self.context, _Run(self.part), here()
        for window in windows:
            if isinstance(window, Forgotten):
                self._forget(window.key)
                continue
            if context.first is not None and context.first.is_after(part.name, window.end_timestamp):
                self.suppressed += 1
                continue
            bolt = self._ready()
            self.windows += 1
            if context.traced:
                self.router.ledger.trace("windows", window_row(part.name, window))
            if noted is not None:
                noted.at(window)
            try:  # and no context manager, which costs as much as all the rest
                if self._retractions is None:
                    run.add(emissions(bolt.execute(window), part.outputs), window)
                else:
                    emitted = emissions(bolt.execute(window), self._retractions.schemas)
                    run.add(self._retractions.rows(window, emitted), window)
            except BoltError:
                raise
            except (Exception, SystemExit) as error:
                raise failed(part.name, context.batch, _place(window), error) from error
        if noted is not None:
            noted.nowhere()
        for stream, table, times in run.tables(context.batch):
            self._emit(stream, table, times)

    def join(self, slicing: Slicing, windows: Iterable[TupleWindow]) -> None:
        """Emit what windows come to that are joined from what their events add up to; no bolt is called."""
        part, context = self.part, self.context
        due = list(windows)
        if context.first is not None:
            after = [each for each in due if not context.first.is_after(part.name, each.end_timestamp)]
            self.suppressed += len(due) - len(after)
            due = after
        if not due:
            return
        self.windows += len(due)
        times = np.array([part.emit_time(window) for window in due], np.int64)
        with bolt_failure(part.name, context.batch, f"in task {self.task} in joining windows"):
            for joined in slicing.joined(due):
                for row in joined_rows(part.name, due, joined) if context.traced else ():
                    self.router.ledger.trace("windows", row)
                self._emit(DEFAULT_STREAM, joined.rows, times[joined.windows])

    def _emit(self, stream: str, table: pa.Table, times: NDArray[np.int64]) -> None:
        first = self._emitted.get(stream, 0)
        self._emitted[stream] = first + table.num_rows
        positions = np.arange(first, first + table.num_rows)
        self.router.emit((self.part.name, stream), Rows(table, times, positions, self.context.clock))

    def _ready(self) -> WindowedBolt:
        """The bolt, prepared before it is first called."""
        if self._bolt is None:
            self._bolt = _prepared(self.part, self.task, self.context, self.before, self._counters)
        return self._bolt

    def _forget(self, key: Any) -> None:
        bolt, self._forgot = self._ready(), True
        with bolt_failure(self.part.name, self.context.batch, f"in task {self.task} in forgetting {key!r}"):
            bolt.forget(key)

    def remember(self, after: TaskState, over: int) -> TaskState:
        """The state with the rows that may be taken back, of windows that end after ``over``."""
        if self._retractions is None:
            return after
        writer = self.context.store.writer(self.context.folder)
        try:
            shown = self._retractions.save(writer, over)
        finally:
            writer.close()
        others = {name: ref for name, ref in after.tables.items() if not Retractions.is_mine(name)}
        return replace(after, tables=others | shown)

    def finish(self, after: TaskState, counts: dict[str, NDArray[np.int64]]) -> FireOutcome:
        """What the task did; ``after`` is its state without what the calls have changed."""
        part = self.part
        after = replace(
            after.counted({name: int(count) for name, count in self._counters.items()}),
            emitted=self._emitted,
            fired=self.before.fired + self.windows,
        )
        after = replace(after, suppressed=self.before.suppressed + self.suppressed)
        if (self.windows or self._forgot) and isinstance(self._bolt, StatefulWindowedBolt):
            after = replace(after, user=_save_state(self._bolt, part, self.context))
        result = self.router.finish(FireOutcome(state=after, windows=self.windows))
        mine = result.counts.setdefault(part.name, {})
        for account, by_stream in counts.items():
            mine[account] = (np.array(mine.get(account, 0)) + by_stream).tolist()
        return result


def compact(item: CompactItem, context: Context) -> Ref:
    """Write the events of several segments as one."""
    part = context.topology.windowed[item.bolt]
    if part.holds:
        return compact_held(item, part, context)
    streams = len(part.inputs)
    events = Events.concat([read_events(context.store, ref) for ref in item.refs]).sorted()
    slicing = part.summed(context.traced)
    if slicing is not None:
        events = slicing.compacted(events, item.passed)
    writer = context.store.writer(context.folder)
    try:
        ref = write_events(writer, events, streams)
    finally:
        writer.close()
    return replace(ref, level=1 + max(each.level for each in item.refs))


def load_state(store: SegmentStore, user: dict[str, Ref]) -> dict[str, Any]:
    """The state of a stateful bolt as it was saved."""
    state: dict[str, Any] = json.loads(store.read(user[""]).column("json")[0].as_py())
    return state | {name: store.read(ref) for name, ref in user.items() if name}


def pending_events(store: SegmentStore, part: WindowedNode, task: int, state: TaskState) -> Iterator[pa.Table]:
    """The events of a task that are in no window yet and may still be in one: for looking at, after a watched run."""
    if part.holds:
        yield from pending_tables(store, state)
        return
    slicing = part.watched_slicing
    if slicing is not None:
        if slicing.watched is not None:
            for events in restored_manager(store, part, task, state).pending_events():
                yield summed_ids(slicing, events)
        return
    for events in restored_manager(store, part, task, state).pending_events():
        yield pa.Table.from_batches([events.payload])


def restored_manager(store: SegmentStore, part: WindowedNode, task: int, state: TaskState) -> WindowManager:
    """The manager of a task as a manifest has it, with all its events: for looking at."""
    manager = WindowManager(part.eviction, part.trigger, part.streams, task=task, state=deepcopy(state.manager))
    manager.restore([read_events(store, ref) for ref in state.refs if ref.alive])
    manager.resume()
    return manager


class _Run:
    """What the windows of a task emit, in order; what they emit on one stream is joined as far as order allows."""

    def __init__(self, part: WindowedNode) -> None:
        self.part = part
        self._runs: list[tuple[str, list[tuple[pa.Table | Loose, TupleWindow]]]] = []

    def add(self, emitted: Iterable[tuple[str, pa.Table | Loose]], window: TupleWindow) -> None:
        """Take what a window has emitted."""
        for stream, part in emitted:
            if not self._runs or self._runs[-1][0] != stream:
                self._runs.append((stream, []))
            self._runs[-1][1].append((part, window))

    def tables(self, batch: int) -> Iterator[tuple[str, pa.Table, NDArray[np.int64]]]:
        """(stream, rows, times), in the order of emission."""
        for stream, emitted in self._runs:
            sizes = [len(part) for part, _ in emitted]
            times = np.repeat(np.array([self.part.emit_time(window) for _, window in emitted], np.int64), sizes)
            yield stream, self._joined(self.part.outputs[stream], emitted, batch), times

    def _joined(self, schema: pa.Schema, emitted: list[tuple[pa.Table | Loose, TupleWindow]], batch: int) -> pa.Table:
        """One table; loose rows that follow each other are converted together, which is much cheaper."""
        found: list[pa.Table] = []
        for loose, group in groupby(emitted, key=lambda each: isinstance(each[0], list)):
            members = list(group)
            if not loose:
                found.extend(part for part, _ in members)
                continue
            try:
                found.append(from_rows([row for rows, _ in members for row in rows], schema))
            except SchemaError:
                for rows, window in members:  # again, one by one, to say which window it was
                    with bolt_failure(self.part.name, batch, _place(window)):
                        from_rows(rows, schema)
                raise
        return pa.concat_tables(found)


def _due(store: SegmentStore, ref: Ref, frontier: int) -> Events | None:
    """The events of a reference up to the frontier; None where it has none, and is not even opened."""
    if not ref.alive or ref.earliest > frontier:
        return None
    events = read_events(store, ref)
    if frontier == FOREVER or ref.latest <= frontier:
        return events
    return events.slice(0, int(np.searchsorted(events.timestamps, frontier, side="right")))


def _left(
    refs: list[Ref], parts: list[Events | None], manager: WindowManager, streams: int
) -> tuple[list[Ref], NDArray[np.int64]]:
    """The references without the events that the manager has dropped, and how many of those it was given are left.

    The queue is in order of (time, arrival), and so is each part; what has been dropped are the first events up to
    one time, and of that very time as many as were dropped, in order of arrival.
    """
    left: list[Ref] = []
    alive = np.zeros(streams, np.int64)
    dropped, last = manager.dropped
    here = [events for events in parts if events is not None]
    ties = dropped - sum(int(np.searchsorted(events.timestamps, last)) for events in here) if dropped else 0
    for ref, events in zip(refs, parts, strict=True):
        if events is None:
            left.extend([ref] if ref.alive else [])
            continue
        gone = 0
        if dropped:
            gone = int(np.searchsorted(events.timestamps, last))
            tied = min(ties, int(np.searchsorted(events.timestamps, last, side="right")) - gone)
            ties -= tied
            gone += tied
        alive += events.slice(gone, len(events)).by_stream(streams)
        kept = ref.without(gone, events, streams) if gone else ref
        left.extend([kept] if kept.alive else [])
    return left, alive


def _in_final_order(
    refs: list[Ref], manager: WindowManager, frontier: int, streams: int, context: Context
) -> list[Ref]:
    """The references, with all settled events in their final order.

    An event then is put in order once, and not in every batch for as long as it lives.
    """
    events = manager.settled_events(sum(ref.alive for ref in refs if ref.level >= _SETTLED))
    if events is None:
        return refs
    writer = context.store.writer(context.folder)
    try:
        mine = replace(write_events(writer, events, streams), level=_SETTLED)
    finally:
        writer.close()
    done = [ref for ref in refs if ref.level >= _SETTLED]
    rest = [left for ref in refs if ref.level < _SETTLED for left in _after(ref, frontier, streams, context)]
    return [*done, mine, *rest]


def _after(ref: Ref, frontier: int, streams: int, context: Context) -> Iterator[Ref]:
    """What a reference holds of the time after the frontier."""
    if ref.earliest > frontier:
        yield ref
    elif ref.latest > frontier:
        events = read_events(context.store, ref)
        yield ref.without(int(np.searchsorted(events.timestamps, frontier, side="right")), events, streams)


def _prepared(
    part: WindowedNode, task: int, context: Context, before: TaskState, counters: Counter[str]
) -> WindowedBolt:
    bolt = deepcopy(part.bolt)
    kept = load_state(context.store, before.user) if before.user else None
    with bolt_failure(part.name, context.batch, f"in task {task} in prepare"):
        if isinstance(bolt, StatefulWindowedBolt):
            bolt.state = bolt.initial_state() if kept is None else kept
        bolt.prepare(TaskContext(part.name, task, part.parallelism, context.run, counters))
    return bolt


def _save_state(bolt: StatefulWindowedBolt, part: WindowedNode, context: Context) -> dict[str, Ref]:
    with bolt_failure(part.name, context.batch, "in keeping its state"):
        text, kept = pack_state(bolt.state, bolt.state_types)
    writer = context.store.writer(context.folder)
    try:
        return {"": writer.add(pa.table({"json": [text]}))} | {name: writer.add(table) for name, table in kept.items()}
    finally:
        writer.close()


def _place(window: TupleWindow) -> str:
    """Where in a stream a bolt was, for errors."""
    count = f"{len(window)} event{'s' if len(window) != 1 else ''}"
    if window.start_timestamp is None:
        return f"in task {window.task} on the window of {count} at {show(window.end_timestamp)}"
    span = f"from {show(window.start_timestamp)} to {show(window.end_timestamp)}"
    return f"in task {window.task} on the window {span} of {count}"


def _errors(delivery: SourceBatch) -> pa.Table:
    """What could not be read, as rows of the error stream."""
    bad = delivery.bad
    assert bad is not None
    component = pa.array([delivery.component] * len(bad), pa.string())
    mixed = SOURCE in bad.column_names
    source = bad.column(SOURCE) if mixed else pa.array([delivery.source] * len(bad), pa.string())
    columns = [component, source, bad.column("row"), bad.column("reason"), bad.column("data")]
    return pa.table(columns, schema=ERROR_SCHEMA)
