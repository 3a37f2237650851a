"""The families of windows that a task can have: runs of a queue, key triggers, users' policies, assigned windows."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from linecache import getline
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.keyed.retained_events import RetainedEvents, needed_rows, read_retained, write_retained
from manager.policy_walks import PolicyFailure
from manager.policy_windows import PolicyWindows
from manager.remote import is_transient
from manager.slices import SliceSums
from manager.storage.manifest import BoltState
from manager.storage.segments import Ref, SegmentStore, SegmentWriter, read_events, write_events
from manager.storage.task_state import (
    AssignedState,
    KeyedState,
    PolicyState,
    QueueState,
    StatefulState,
    TaskState,
    TriggeredState,
    WindowsState,
)
from manager.triggered_windows import TriggeredWindows
from manager.window_manager import WindowManager
from policies.assigners import AlignedWindows
from policies.assigners.aligned import GridWindows
from policies.protocol import EvictionPolicy, Policy, PolicyContext, QueuedEvent, QueuedEvents
from policies.storm import ColumnarTriggerPolicy, CountEvictionPolicy, CountTriggerPolicy, TimeTriggerPolicy
from topologies.engine.admission import AdmissionContext
from topologies.engine.batch import Context
from topologies.engine.event_times import with_anchor
from topologies.engine.failures import bolt_failure, cause
from topologies.engine.fire.assigned_task import AssignedTask
from topologies.engine.fire.event_calls import EventTask
from topologies.engine.fire.task_windows import (
    Admitted,
    Firing,
    SummedWindows,
    TaskEvents,
    TaskKeys,
    TaskSnapshot,
    TaskWindows,
    compact_retained,
    no_events,
    pending_retained,
    write_compacted,
)
from topologies.engine.ingest import Router
from topologies.engine.ledger import ids_of
from topologies.engine.plain_bolts import refuse_by_rule
from topologies.engine.task_data import CompactItem, FireItem, Frontiers, UnadmittedSections
from topologies.graph.graph import WindowedNode
from topologies.graph.groupings import KeyCodes
from windowing.errors import BoltError
from windowing.events import Events
from windowing.reprs import error_text, repr_of
from windowing.settings.rules import Bounds
from windowing.timestamps import FOREVER
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray


# A task whose windows are runs of a queue of events or partial sums: restoring, firing and saving them.


_SETTLED = 1 << 10
"""Level of segments whose events are in final order; compacting these gives levels above it."""
_LONG_LIFE = 4
"""Settled events are rewritten in final order if at least this many evaluations will need them, at the present rate of
new events."""


class QueueTask:
    """Windows over a queue of events."""

    def __init__(self, item: FireItem, node: WindowedNode, router: Router) -> None:
        self.item, self.node, self.context = item, node, router.context
        self._before = item.state.windows_as(QueueState)
        self._refs = list(item.state.refs)
        self._parts: list[Events | None] = []
        self._manager: WindowManager | None = None

    @property
    def admission_context(self) -> AdmissionContext:
        """Returns an empty context: only message ids make admission depend on queued events."""
        return AdmissionContext()

    def accept(self, admitted: Admitted) -> None:
        """Writes the events, in order of time, as a segment of the queue."""
        retained = admitted.events
        (payload,) = retained.payload.combine_chunks().to_batches()
        events = self._as_queued(Events(retained.times, payload, retained.streams)).sorted()
        with self.context.store.writer(self.context.key) as writer:
            self._refs.append(write_events(writer, events, len(self.node.inputs)))

    def advance(self) -> Iterator[Firing]:
        """Yields the windows that are due at the frontier; none if the batch has no frontier."""
        frontier, node = self.item.frontiers.current, self.node
        if frontier is None:
            return
        self._parts = [_events_up_to(self.context.store, ref, frontier) for ref in self._refs]
        state = replace(self._before, previous_frontier=self.item.frontiers.previous)
        self._manager = WindowManager(node.eviction, node.trigger, node.streams, task=self.item.task, state=state)
        self._manager.restore([events for events in self._parts if events is not None])
        known_times = (self.item.end.latest, self.item.end.watermark)
        latest = max(time for time in known_times if time is not None)
        yield from self._as_firings(self._manager.advance(frontier, latest))

    def snapshot(self, writer: SegmentWriter) -> TaskSnapshot:
        """Returns the queue, without events that no window needs any more."""
        manager, frontier, streams = self._manager, self.item.frontiers.current, len(self.node.inputs)
        if manager is None or frontier is None:
            return TaskSnapshot(self._before, self._refs, self.item.state.accounted_by_stream)
        refs, accounted = _remaining(self._refs, self._parts, manager, streams)
        newly_settled = manager.queue.settled_count + manager.dropped[0] - self._before.settled_count
        if frontier != FOREVER and manager.queue.settled_count >= _LONG_LIFE * newly_settled:
            refs = _in_final_order(refs, manager, frontier, streams, self.context.store, writer)
        counts = {name: np.array(manager.accounts.by_stream(name)) for name in ("windowed", "unwindowed")}
        return TaskSnapshot(manager.snapshot(), refs, (accounted - np.array(manager.pending)).tolist(), counts)

    def _as_queued(self, events: Events) -> Events:
        """Returns admitted events in the form in which the queue holds them."""
        return events

    def _as_firings(self, windows: Iterator[TupleWindow]) -> Iterator[Firing]:
        """Returns the windows in the form that the bolt gets."""
        yield from windows


class SlicesTask(QueueTask):
    """Windows over a queue of partial sums, one for each slice of time and key."""

    def __init__(self, item: FireItem, node: WindowedNode, router: Router) -> None:
        super().__init__(item, node, router)
        self._slice_sums = _slice_sums(node, self.context)

    def _as_queued(self, events: Events) -> Events:
        with bolt_failure(self.node.name, self.context.batch, "in adding up events"):
            return self._slice_sums.fold(events)

    def _as_firings(self, windows: Iterator[TupleWindow]) -> Iterator[Firing]:
        yield SummedWindows(list(windows), self._slice_sums)


def compact_queue(item: CompactItem, node: WindowedNode, context: Context) -> Ref:
    """Merges adjacent segments of a queue into one, in order of time."""
    return _compact(_read(item, context), item, node, context)


def compact_slices(item: CompactItem, node: WindowedNode, context: Context) -> Ref:
    """Compacts partial sums: unfinished sums with the same slice and key become one."""
    return _compact(
        _slice_sums(node, context).compact(_read(item, context), item.previous_frontier), item, node, context
    )


def pending_in_queue(store: SegmentStore, node: WindowedNode, task: int, state: TaskState) -> Iterator[pa.Table]:
    """Yields the queued events that are in no window yet and may still be in one."""
    for events in _restore_manager(store, node, task, state).pending_events():
        yield pa.Table.from_batches([events.payload])


def pending_in_slices(store: SegmentStore, node: WindowedNode, task: int, state: TaskState) -> Iterator[pa.Table]:
    """Yields the ids of pending events of which only partial sums are kept; none if they were not traced."""
    slicing = node.slicing(traced=True)
    assert slicing is not None
    if slicing.trace_index is not None:
        for events in _restore_manager(store, node, task, state).pending_events():
            yield ids_of(slicing.traced_states(events))


def _slice_sums(node: WindowedNode, context: Context) -> SliceSums:
    slicing = node.slicing(context.tracing)
    assert slicing is not None
    return slicing


# A task whose windows are sessions of partial results: compacting and inspecting them.


def compact_sums(item: CompactItem, node: WindowedNode, context: Context) -> Ref:
    """Merges adjacent segments of a task into one. Events that the same windows hold become one row, or one row for
    each group."""
    sums = node.run_sums(context.tracing)
    assert sums is not None
    events = RetainedEvents.concat([needed_rows(*read_retained(context.store, ref)) for ref in item.refs])
    codes = KeyCodes(node.keys).apply(events).keys  # they only distinguish the keys of these rows
    with bolt_failure(node.name, context.batch, "in adding up events"):
        merged = sums.merge(events, codes)
    return write_compacted(item, context, lambda writer: write_retained(writer, merged, len(node.inputs)))


def pending_in_sums(store: SegmentStore, node: WindowedNode, task: int, state: TaskState) -> Iterator[pa.Table]:
    """Yields the ids of events that are in no window yet and may still be in one; none if they were not traced."""
    sums = node.run_sums(traced=True)
    assert sums is not None
    if sums.trace_index is not None:
        for rows in pending_retained(store, node, task, state):
            yield ids_of(sums.traced_states(rows))


def _read(item: CompactItem, context: Context) -> Events:
    return Events.concat([read_events(context.store, ref) for ref in item.refs]).sorted()


def _compact(events: Events, item: CompactItem, node: WindowedNode, context: Context) -> Ref:
    return write_compacted(item, context, lambda writer: write_events(writer, events, len(node.inputs)))


def _restore_manager(store: SegmentStore, node: WindowedNode, task: int, state: TaskState) -> WindowManager:
    """Returns the window manager of a task with its state and events from a manifest, for inspection."""
    manager = WindowManager(node.eviction, node.trigger, node.streams, task=task, state=state.windows_as(QueueState))
    manager.restore([read_events(store, ref) for ref in state.refs if ref.needed])
    manager.resettle()
    return manager


def _events_up_to(store: SegmentStore, ref: Ref, frontier: int) -> Events | None:
    """Returns the events of a reference up to the frontier; None, without opening the segment, if there are none."""
    if not ref.needed or not ref.has_live_up_to(frontier):
        return None
    events = read_events(store, ref)
    return events.slice(0, int(np.searchsorted(events.timestamps, frontier, side="right")))


def _remaining(
    refs: list[Ref], parts: list[Events | None], manager: WindowManager, streams: int
) -> tuple[list[Ref], NDArray[np.int64]]:
    """Returns the references without the events that the manager dropped, and the number of remaining events with an
    account, by stream.

    The queue and each part are ordered by (time, arrival). The dropped events are all events before a time, and a
    number of the events at that time, in order of arrival.
    """
    kept_refs: list[Ref] = []
    accounted = np.zeros(streams, np.int64)
    dropped, last_time = manager.dropped
    present = [events for events in parts if events is not None]
    ties = dropped - sum(int(np.searchsorted(events.timestamps, last_time)) for events in present) if dropped else 0
    for ref, events in zip(refs, parts, strict=True):
        if events is None:
            kept_refs.extend([ref] if ref.needed else [])
            continue
        dropped_here = 0
        if dropped:
            dropped_here = int(np.searchsorted(events.timestamps, last_time))
            tied = min(ties, int(np.searchsorted(events.timestamps, last_time, side="right")) - dropped_here)
            ties -= tied
            dropped_here += tied
        accounted += events.slice(dropped_here, len(events)).by_stream(streams)
        remaining = ref.without_first(dropped_here, events, streams) if dropped_here else ref
        kept_refs.extend([remaining] if remaining.needed else [])
    return kept_refs, accounted


def _in_final_order(
    refs: list[Ref], manager: WindowManager, frontier: int, streams: int, store: SegmentStore, writer: SegmentWriter
) -> list[Ref]:
    """Returns the references, with all settled events rewritten in final order. So an event is sorted once, not in
    every batch."""
    events = manager.settled_events(sum(ref.needed for ref in refs if ref.level >= _SETTLED))
    if events is None:
        return refs
    written = replace(write_events(writer, events, streams), level=_SETTLED)
    settled = [ref for ref in refs if ref.level >= _SETTLED]
    rest = [left for ref in refs if ref.level < _SETTLED for left in _part_after(ref, frontier, streams, store)]
    return [*settled, written, *rest]


def _part_after(ref: Ref, frontier: int, streams: int, store: SegmentStore) -> Iterator[Ref]:
    """Yields the part of a reference after the frontier."""
    if not ref.has_live_up_to(frontier):
        yield ref
    elif ref.has_live_after(frontier):
        events = read_events(store, ref)
        yield ref.without_first(int(np.searchsorted(events.timestamps, frontier, side="right")), events, streams)


# A task that decides about each event of a key, or of all keys: restoring, firing and saving its windows.


class KeyedTask:
    """Events of a task, and records of its keys."""

    def __init__(self, item: FireItem, node: WindowedNode, router: Router) -> None:
        self._item, self._node, self._router = item, node, router
        self._before = item.state.windows_as(KeyedState)
        self._events = TaskEvents(router.context.store, item.state, len(node.inputs))
        self._keys = TaskKeys(router.context.store, self._before, node)

    @property
    def admission_context(self) -> AdmissionContext:
        """Returns an empty context: admission does not depend on stored events."""
        return AdmissionContext()

    def accept(self, admitted: Admitted) -> None:
        """Takes the admitted events of the batch."""
        self._events.new = admitted.events

    def _with_key_codes(self, *parts: RetainedEvents | None) -> RetainedEvents:
        """Returns old events followed by the events of this batch, with the codes of their keys."""
        return self._keys.with_key_codes(
            RetainedEvents.concat([part for part in parts if part is not None] or [no_events(self._node)])
        )


# A task whose windows are those of keys and are fired by a trigger.


UNKNOWN = "unknown_trigger_status"
"""Counter of invalid answers of a trigger's rule, which fire and purge the window (UH-18)."""
FULL = "full"
"""Counter of windows that fired because they were full."""


class TriggeredTask(KeyedTask):
    """The open windows of the keys of a task."""

    _evaluated: tuple[RetainedEvents, TriggeredWindows] | None = None
    """The events, old ones first, and their windows."""

    def advance(self) -> Iterator[Firing]:
        """Yields the due windows and the forgotten keys in order."""
        node, old, trigger = self._node, self._events.old.live(), self._node.bolt.settings.key_trigger
        assert trigger is not None
        events = self._with_key_codes(old, self._events.new)
        windows = TriggeredWindows(
            trigger, events, 0 if old is None else len(old), self._keys.records, node.streams,
            key=node.bolt.settings.key, task=self._item.task, capacity=node.bolt.settings.capacity,
        )  # fmt: skip
        batch, task = self._router.context.batch, self._item.task
        with bolt_failure(node.name, batch, f"in task {task} in asking its trigger", task=task):
            yield from windows.windows(self._item.end.clock, close=self._item.frontiers.current == FOREVER)
        self._evaluated = events, windows
        if windows.refused:
            router = self._router
            refuse_by_rule(node, events, windows.refused, router.context.clock, router.ledger, router.emit)

    def snapshot(self, writer: SegmentWriter) -> TaskSnapshot:
        """Returns the open windows: their events and the records of their keys."""
        assert self._evaluated is not None
        events, windows = self._evaluated
        flags = windows.flags()
        refs = self._events.write(writer, flags)
        keys, codes = self._keys.write(writer, events, flags)
        counters = {UNKNOWN: windows.unknown_answers, FULL: windows.full}
        return TaskSnapshot(
            TriggeredState(windows.next_due, windows.still_open, keys, codes),
            refs,
            self._events.accounted_by_stream(flags),
            {name: np.array(windows.accounts.by_stream(name)) for name in ("windowed", "purged")},
            {name: count for name, count in counters.items() if count},
        )


# A task with users' policies.


class PolicyTask(KeyedTask):
    """The events of a task or of its keys, and the decisions of policies about them."""

    _evaluated: tuple[RetainedEvents, PolicyWindows] | None = None
    """The events, old ones first, and their windows."""

    def advance(self) -> Iterator[Firing]:
        """Yields the firing windows in order. Raises BoltError for an error of a policy."""
        node, old = self._node, self._events.old.needed()
        events = self._with_key_codes(*map(_numbered, (old, self._events.new)))
        windows = PolicyWindows(
            node.eviction, node.trigger, events, 0 if old is None else len(old), self._keys.records, node.streams,
            key=node.bolt.settings.key, task=self._item.task, event_time=node.event_time,
        )  # fmt: skip
        try:
            found = list(windows.windows(self._item.frontiers.current))
        except PolicyFailure as failure:
            raise self._policy_error(failure) from failure
        self._evaluated = events, windows
        yield from found

    def snapshot(self, writer: SegmentWriter) -> TaskSnapshot:
        """Returns the events that are still needed, and the records of the task or of its keys."""
        assert self._evaluated is not None
        events, windows = self._evaluated
        flags = windows.flags()
        refs = self._events.write(writer, flags, windows.numbers())
        keys, codes = self._keys.write(writer, events, flags)
        ends = (self._before.get("last_end"), windows.latest_time)
        last_end = max((each for each in ends if each is not None), default=None)
        return TaskSnapshot(
            PolicyState(windows.next_due, windows.still_open, keys, codes, last_end),
            refs,
            self._events.accounted_by_stream(flags),
            {name: np.array(windows.accounts.by_stream(name)) for name in ("windowed", "unwindowed", "purged")},
        )

    def _policy_error(self, failure: PolicyFailure) -> BoltError:
        """Returns the error of a policy, with the bolt, the task, the key, the event and the user's line."""
        node, policy, error = self._node, failure.policy, failure.error
        key = f", key {failure.key!r:.80}" if node.bolt.settings.key else ""
        where = (
            f"in {failure.hook} of {repr_of(policy)}"
            if failure.hook != "state"
            else f"with the state of {repr_of(policy)}"
        )
        columns = node.schema.names
        return BoltError(
            f"bolt {node.name!r} failed {where}, task {self._item.task}{key}: {failure.about}, "
            f"in batch {self._router.context.batch}",
            why=f"{error}{_place_of_hook(policy, failure.hook)}"
            if isinstance(error, str)
            else f"{cause(error, columns)}{_correction(policy, error, columns)}",
            do=f"fix it and rerun: batch {self._router.context.batch} was not committed, and runs again",
            bolt=node.name,
            task=self._item.task,
            transient=isinstance(error, BaseException) and is_transient(error),
        )


def _numbered(part: RetainedEvents | None) -> RetainedEvents | None:
    """Returns the events with their numbers; -1 for events without a number."""
    if part is None or part.numbers is not None:
        return part
    return replace(part, numbers=np.full(len(part), -1, np.int64))


_ADVICE: dict[type, str] = {
    QueuedEvent: "An event has event['name of a column'], event.number, .timestamp, .stream and .row()",
    QueuedEvents: "Events have events['name of a column'], events.numbers, .timestamps and .streams, as arrays",
}


def _correction(policy: Policy, error: BaseException, columns: Sequence[str]) -> str:
    """Returns advice on a mistake about an event, ``context.state`` or times; "" for other errors."""
    if isinstance(error, AttributeError):
        return next((f". {has}" for kind, has in _ADVICE.items() if isinstance(error.obj, kind)), "")
    if isinstance(error, TypeError) and "'Duration'" in error_text(error):
        return ". Times are whole microseconds: take the .micros of a duration"
    missing_key = error.args[0] if isinstance(error, KeyError) and error.args else None
    if not isinstance(missing_key, str) or missing_key in columns or missing_key in policy.state_types:
        return ""
    frames = [(trace.tb_frame, trace.tb_lasti) for trace in _traces(error.__traceback__)]
    if not frames or not _is_ours(frames[-1][0]):
        container = _subscripted(*frames[-1]) if frames else None
        if container is None or not any(state is container for frame, _ in frames for state in _states(frame)):
            return ""  # a dict of the user
        declared = ", ".join(policy.state_types)
        return f". {type(policy).__name__}.state_types declares {declared or 'no state'}"
    reads = "" if policy.columns_read is None else f"; {type(policy).__name__}.reads names those that it needs"
    return f". The columns of an event here are {', '.join(columns)}{reads}"


def _is_ours(frame: FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    return name.startswith(("policies.", "manager."))


def _states(frame: FrameType) -> Iterator[Any]:
    """Yields the states of policies among a frame's variables: those of its contexts. In a frame of windbolt a variable
    may itself be a state, so all its variables are yielded too."""
    for each in frame.f_locals.values():
        if issubclass(type(each), PolicyContext):
            yield each.state
        elif _is_ours(frame):
            yield each


def _traces(trace: TracebackType | None) -> Iterator[TracebackType]:
    """Yields the entries of a traceback, the innermost last."""
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _subscripted(frame: FrameType, instruction: int) -> Any:
    """Returns the object from which an instruction takes an item, if that is a name or an attribute of a name. Returns
    None for other objects, and if the source is unknown."""
    line, last_line, column, end = next(islice(frame.f_code.co_positions(), instruction // 2, None))
    if line is None or last_line is None:
        return None
    lines = [getline(frame.f_code.co_filename, number).encode() for number in range(line, last_line + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][column:]
    try:
        taken = ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except SyntaxError:
        return None
    return _value_of(taken.value, {**frame.f_globals, **frame.f_locals}) if isinstance(taken, ast.Subscript) else None


def _value_of(expression: ast.expr, names: Mapping[str, Any]) -> Any:
    match expression:
        case ast.Name(name):
            return names.get(name)
        case ast.Attribute(owner, name):
            found = _value_of(owner, names)
            is_context = name == "state" and issubclass(type(found), PolicyContext)
            return found.state if is_context else getattr(found, "__dict__", {}).get(name)
    return None


def _place_of_hook(policy: Policy, hook: str) -> str:
    """Returns the place of a hook in the user's code, or of the class if it does not define the hook; empty if
    unknown."""
    code = getattr(inspect.unwrap(getattr(type(policy), hook, type(policy))), "__code__", None)  # behind decorators
    if code is not None:
        return f" at {code.co_filename}:{code.co_firstlineno}, in {hook}"
    try:
        return f" at {inspect.getsourcefile(type(policy))}:{inspect.getsourcelines(type(policy))[1]}"
    except (OSError, TypeError):
        return ""


# Tells which tasks may have a window due at a frontier. Other tasks do not fire.


def queue_has_work(
    node: WindowedNode, task: TaskState, arrived: UnadmittedSections | None, frontiers: Frontiers
) -> bool:
    """True if a window of a queue may be due, or an account may change."""
    assert frontiers.current is not None
    ready = task.refs.needed_up_to(frontiers.current)
    ready += arrived.refs.needed_up_to(frontiers.current) if arrived is not None else 0
    return not _queue_is_idle(node, task.windows_as(QueueState), ready, frontiers.previous, frontiers.current)


def retained_has_work(
    node: WindowedNode, task: TaskState, arrived: UnadmittedSections | None, frontiers: Frontiers
) -> bool:
    """True if a window of held events may be due, or if a listed key is new, whose windows may be due."""
    assert frontiers.current is not None
    due = task.next_due
    if arrived is not None or (due is not None and due <= frontiers.current):
        return True
    return (frontiers.current == FOREVER and bool(task.refs)) or task.windows.get("listed") != node.list_of_keys


def policies_have_work(
    node: WindowedNode, task: TaskState, arrived: UnadmittedSections | None, frontiers: Frontiers
) -> bool:
    """True if policies may have to be called; they are always called at the end of the streams."""
    streams_end = frontiers.current == FOREVER and task.windows_as(PolicyState).keys is not None
    return streams_end or retained_has_work(node, task, arrived, frontiers)


def _queue_is_idle(node: WindowedNode, queue: QueueState, ready: int, previous: int | None, frontier: int) -> bool:
    """True if a queue certainly has nothing to do: no window is due and no account changes. False in doubt.

    ``ready``: the number of needed rows in sections with a live row up to the frontier. ``previous`` and ``frontier``:
    the frontiers of the last evaluation and of this one, in microseconds.
    """
    settled = queue.settled_count
    if not ready:
        return True
    eviction, trigger = node.eviction, node.trigger
    crowded = isinstance(eviction, CountEvictionPolicy) and ready > eviction.length.value
    if crowded and isinstance(trigger, TimeTriggerPolicy):
        return False
    if node.eviction.reach is not None and isinstance(node.trigger, CountTriggerPolicy):
        return False
    if ready > settled and isinstance(node.trigger, CountTriggerPolicy) and _leaves_gaps(node.eviction, node.trigger):
        return False
    assert isinstance(trigger, ColumnarTriggerPolicy)
    return trigger.nothing_due(previous, frontier, queue.base + settled, queue.base + ready)


def _leaves_gaps(eviction: EvictionPolicy, trigger: CountTriggerPolicy) -> bool:
    """True if some events lie between windows, which is known as soon as their place in the order is."""
    return isinstance(eviction, CountEvictionPolicy) and trigger.count.value > eviction.length.value


# Upper bounds on a task's open windows, from its manifest alone, without its events.


def open_in_queue(node: WindowedNode, state: BoltState, task: TaskState) -> int | None:
    """Returns an upper bound on the open windows of a queue: by its stored events, or by the ends of windows; None for
    other triggers."""
    trigger, reach = node.trigger, node.eviction.reach
    queue, rows = task.windows_as(QueueState), task.refs.needed
    if not rows:
        return 0
    unsettled = max(rows - queue.settled_count, 0)
    match trigger:
        case CountTriggerPolicy():
            return -(-unsettled // trigger.count.value)
        case TimeTriggerPolicy():
            slide = trigger.slide
            windows = AlignedWindows(slide, slide, trigger.bounds, trigger.offset)
            past_end = trigger.due_at(0)
            if reach is None:  # for a count of events, each event opens a window
                return min(
                    sum(task.pending(len(node.inputs))), _number_of_ends(windows, slide.micros, state, task, past_end)
                )
            ends = _number_of_ends(windows, reach.micros, state, task, past_end)
            return min(-(-reach.micros // slide.micros) * rows, ends)
    return None


def open_assigned(node: WindowedNode, state: BoltState, task: TaskState) -> int | None:
    """Returns the largest possible number of open windows: the sum, over all kinds, of the windows that may hold a
    stored event. None if windows are on a grid and events have lifetimes."""
    rows = task.refs.needed
    if not rows:
        return 0
    assigners = with_anchor(node, state.anchor).assigners
    if node.bolt.settings.lifetime is not None and any(isinstance(each, GridWindows) for each in assigners):
        return None
    total = 0
    for each in assigners:
        windows = each.windows_per_event * rows
        if isinstance(each, AlignedWindows) and not any(node.keys):
            windows = min(windows, _number_of_ends(each, each.length.micros, state, task, 0))
        total += windows
    return total


def open_by_key(node: WindowedNode, state: BoltState, task: TaskState) -> int | None:
    """Returns the exact number of open windows."""
    return task.windows_as(KeyedState).open_windows


def _number_of_ends(windows: AlignedWindows, length: int, state: BoltState, task: TaskState, past_end: int) -> int:
    """Returns how many ends of windows of this length are still to come and may hold a live event of the task."""
    low, latest = task.refs.earliest_live, task.refs.latest_live
    if low is None or latest is None:
        return 0
    at_end = windows.bounds is Bounds.END  # such an event is in the window that ends there, not in the next
    low, high = low - at_end, latest + length - at_end
    if state.frontier is not None:
        low = max(low, state.frontier - past_end)
    first, beyond = windows.next_ends(np.array([low, max(high, low)])).tolist()
    return int((beyond - first) // windows.slide.micros)


# The families of windows, and the family of a bolt.


@dataclass(frozen=True)
class WindowFamily:
    """A family of windows, and the functions of its tasks."""

    fresh: Callable[[], WindowsState]
    """The state before the first batch."""
    restore: Callable[[FireItem, WindowedNode, Router], TaskWindows]
    """The windows of a task in a batch."""
    compact: Callable[[CompactItem, WindowedNode, Context], Ref]
    """Merges adjacent segments of a task into one."""
    pending: Callable[[SegmentStore, WindowedNode, int, TaskState], Iterator[pa.Table]]
    """Yields the events of a task that are in no window yet and may still be in one."""
    has_work: Callable[[WindowedNode, TaskState, UnadmittedSections | None, Frontiers], bool]
    """True if a task may have work at the current frontier, which must exist."""
    open_windows: Callable[[WindowedNode, BoltState, TaskState], int | None] = lambda node, state, task: None
    """Upper bound on the open windows of a task, as in ``report.open_windows``."""


QUEUE = WindowFamily(QueueState, QueueTask, compact_queue, pending_in_queue, queue_has_work, open_in_queue)
"""Runs of a queue of events."""
SLICES = WindowFamily(QueueState, SlicesTask, compact_slices, pending_in_slices, queue_has_work, open_in_queue)
"""Runs of a queue of partial sums."""
ASSIGNED = WindowFamily(
    AssignedState, AssignedTask, compact_retained, pending_retained, retained_has_work, open_assigned
)
"""Windows that assigners form of live events."""
ASSIGNED_SUMS = WindowFamily(
    AssignedState, AssignedTask, compact_sums, pending_in_sums, retained_has_work, open_assigned
)
"""Windows that assigners form of partial sums, one for each run of events of a session."""
TRIGGERED = WindowFamily(
    TriggeredState, TriggeredTask, compact_retained, pending_retained, retained_has_work, open_by_key
)
"""Windows of keys that a trigger fires."""

POLICIES = WindowFamily(PolicyState, PolicyTask, compact_retained, pending_retained, policies_have_work)
"""Windows of users' policies, for tasks or keys."""

EVENTS = WindowFamily(
    StatefulState, EventTask, compact_retained, pending_retained, retained_has_work, lambda node, state, task: 0
)
"""No windows: events as they come, for a bolt with state."""


def family_of(node: WindowedNode) -> WindowFamily:
    """Returns the window family of a bolt."""
    if node.without_windows:
        return EVENTS
    if node.assigners:
        return ASSIGNED if node.partial_sums is None else ASSIGNED_SUMS
    if node.bolt.settings.key_trigger is not None:
        return TRIGGERED
    if node.by_policies:
        return POLICIES
    return QUEUE if node.partial_sums is None else SLICES
