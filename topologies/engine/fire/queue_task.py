"""One task whose windows are runs of a queue, of events or partial sums: restored, fired, and saved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.queue.queue_state import QueueState
from manager.slices.slicing import Slicing
from manager.storage.segments.event_segments import read_events, write_events
from manager.storage.segments.ref import Ref
from manager.storage.segments.segments import SegmentStore, SegmentWriter
from manager.storage.task_state import TaskState
from manager.window_manager import WindowManager
from topologies.engine.admission.deciding import AdmissionContext
from topologies.engine.batch.context import Context
from topologies.engine.failures.user_code import bolt_failure
from topologies.engine.fire.admitting import Admitted
from topologies.engine.fire.compacting import compacted
from topologies.engine.fire.task_windows import Firing, SummedWindows, TaskSnapshot
from topologies.engine.ingest.router import Router
from topologies.engine.ledger.trace import summed_ids
from topologies.engine.work.items import CompactItem, FireItem
from topologies.graph.nodes.windowed import WindowedNode
from windowing.data.events import Events
from windowing.time.timestamps import FOREVER
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SETTLED = 1 << 10
"""Level of segments whose events are settled and in final order; compacting them gives levels above it."""
_LONG_LIFE = 4
"""Settled events are rewritten in final order when this many evaluations will still need them, at the present rate of
new events."""


class QueueTask:
    """Windows over a queue of events."""

    def __init__(self, item: FireItem, node: WindowedNode, router: Router) -> None:
        self.item, self.node, self.context = item, node, router.context
        self._before = queue_state(item.state)
        self._refs = list(item.state.refs)
        self._parts: list[Events | None] = []
        self._manager: WindowManager | None = None

    @property
    def admission_context(self) -> AdmissionContext:
        """Nothing: what is admitted to a queue does not depend on what is in it, except for message ids."""
        return AdmissionContext()

    def accept(self, admitted: Admitted) -> None:
        """Write the events, in order of time, as a segment of the queue."""
        held = admitted.events
        (payload,) = held.payload.combine_chunks().to_batches()
        events = self._stored(Events(held.times, payload, held.streams)).sorted()
        with self.context.store.writer(self.context.key) as writer:
            self._refs.append(write_events(writer, events, len(self.node.inputs)))

    def advance(self) -> Iterator[Firing]:
        """Yield the windows that are due at the frontier; none where the batch has no frontier."""
        frontier, node = self.item.frontiers.current, self.node
        if frontier is None:
            return
        self._parts = [_due(self.context.store, ref, frontier) for ref in self._refs]
        state = replace(self._before, previous_frontier=self.item.frontiers.previous)
        self._manager = WindowManager(node.eviction, node.trigger, node.streams, task=self.item.task, state=state)
        self._manager.restore([events for events in self._parts if events is not None])
        yield from self._shown(self._manager.advance(frontier))

    def snapshot(self, writer: SegmentWriter) -> TaskSnapshot:
        """The queue without what no window needs any more."""
        manager, frontier, streams = self._manager, self.item.frontiers.current, len(self.node.inputs)
        if manager is None or frontier is None:
            return TaskSnapshot(self._before, self._refs, self.item.state.accounted_by_stream)
        refs, alive = _left(self._refs, self._parts, manager, streams)
        newly_settled = manager.queue.settled_count + manager.dropped[0] - self._before.settled_count
        if frontier != FOREVER and manager.queue.settled_count >= _LONG_LIFE * newly_settled:
            refs = _in_final_order(refs, manager, frontier, streams, self.context.store, writer)
        counts = {name: np.array(manager.accounts.by_stream(name)) for name in ("windowed", "unwindowed")}
        return TaskSnapshot(manager.snapshot(), refs, (alive - np.array(manager.pending)).tolist(), counts)

    def _stored(self, events: Events) -> Events:
        """Admitted events as the queue holds them."""
        return events

    def _shown(self, windows: Iterator[TupleWindow]) -> Iterator[Firing]:
        """Windows as the bolt is to get them."""
        yield from windows


class SlicesTask(QueueTask):
    """Windows over a queue of partial sums, one per slice of time and key."""

    def __init__(self, item: FireItem, node: WindowedNode, router: Router) -> None:
        super().__init__(item, node, router)
        self._slicing = _slicing(node, self.context)

    def _stored(self, events: Events) -> Events:
        with bolt_failure(self.node.name, self.context.batch, "in adding up events"):
            return self._slicing.fold(events)

    def _shown(self, windows: Iterator[TupleWindow]) -> Iterator[Firing]:
        yield SummedWindows(list(windows), self._slicing)


def compact_queue(item: CompactItem, node: WindowedNode, context: Context) -> Ref:
    """Merge adjacent segments of a queue into one, in order of time."""
    return _compacted(_read(item, context), item, node, context)


def compact_slices(item: CompactItem, node: WindowedNode, context: Context) -> Ref:
    """The same for partial sums: those of one slice and key that are not final become one."""
    return _compacted(
        _slicing(node, context).compacted(_read(item, context), item.previous_frontier), item, node, context
    )


def pending_in_queue(store: SegmentStore, node: WindowedNode, task: int, state: TaskState) -> Iterator[pa.Table]:
    """The events of a queue that are in no window yet and may still be in one."""
    for events in _restored(store, node, task, state).pending_events():
        yield pa.Table.from_batches([events.payload])


def pending_in_slices(store: SegmentStore, node: WindowedNode, task: int, state: TaskState) -> Iterator[pa.Table]:
    """The ids of such events of which only partial sums are kept; none where they were not traced."""
    slicing = node.traced_slicing
    assert slicing is not None
    if slicing.traced is not None:
        for events in _restored(store, node, task, state).pending_events():
            yield summed_ids(slicing, events)


def queue_state(state: TaskState) -> QueueState:
    """The state of a task whose windows are runs of a queue."""
    assert isinstance(state.windows, QueueState)
    return state.windows


def _slicing(node: WindowedNode, context: Context) -> Slicing:
    slicing = node.summed(context.traced)
    assert slicing is not None
    return slicing


def _read(item: CompactItem, context: Context) -> Events:
    return Events.concat([read_events(context.store, ref) for ref in item.refs]).sorted()


def _compacted(events: Events, item: CompactItem, node: WindowedNode, context: Context) -> Ref:
    return compacted(item, context, lambda writer: write_events(writer, events, len(node.inputs)))


def _restored(store: SegmentStore, node: WindowedNode, task: int, state: TaskState) -> WindowManager:
    """The window manager of a task with its state and events from a manifest. For inspection."""
    manager = WindowManager(node.eviction, node.trigger, node.streams, task=task, state=queue_state(state))
    manager.restore([read_events(store, ref) for ref in state.refs if ref.needed])
    manager.resume()
    return manager


def _due(store: SegmentStore, ref: Ref, frontier: int) -> Events | None:
    """The events of a reference up to the frontier; None, without opening the segment, where it has none."""
    if not ref.needed or not ref.has_live_up_to(frontier):
        return None
    events = read_events(store, ref)
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
            left.extend([ref] if ref.needed else [])
            continue
        dropped_here = 0
        if dropped:
            dropped_here = int(np.searchsorted(events.timestamps, last))
            tied = min(ties, int(np.searchsorted(events.timestamps, last, side="right")) - dropped_here)
            ties -= tied
            dropped_here += tied
        alive += events.slice(dropped_here, len(events)).by_stream(streams)
        remaining = ref.without(dropped_here, events, streams) if dropped_here else ref
        left.extend([remaining] if remaining.needed else [])
    return left, alive


def _in_final_order(
    refs: list[Ref], manager: WindowManager, frontier: int, streams: int, store: SegmentStore, writer: SegmentWriter
) -> list[Ref]:
    """The references, with all settled events rewritten in final order.

    So an event is sorted once, not in every batch for as long as it lives.
    """
    events = manager.settled_events(sum(ref.needed for ref in refs if ref.level >= _SETTLED))
    if events is None:
        return refs
    written = replace(write_events(writer, events, streams), level=_SETTLED)
    settled = [ref for ref in refs if ref.level >= _SETTLED]
    rest = [left for ref in refs if ref.level < _SETTLED for left in _after(ref, frontier, streams, store)]
    return [*settled, written, *rest]


def _after(ref: Ref, frontier: int, streams: int, store: SegmentStore) -> Iterator[Ref]:
    """The part of a reference that lies after the frontier."""
    if not ref.has_live_up_to(frontier):
        yield ref
    elif ref.has_live_after(frontier):
        events = read_events(store, ref)
        yield ref.without(int(np.searchsorted(events.timestamps, frontier, side="right")), events, streams)
