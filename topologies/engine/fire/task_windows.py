"""The task of a windowed bolt, for all families of windows: it admits events, and keeps them until no window needs
them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from manager.keyed.fired_windows import PaneStates
from manager.keyed.key_states import ForgottenKey, KeyStates
from manager.keyed.retained_events import (
    ACCOUNTED,
    EDGE_COLUMN,
    END_COLUMN,
    FINISHED,
    GAP_COLUMN,
    IN_LAST_WINDOW,
    RetainedEvents,
    is_needed,
    live_rows,
    needed_rows,
    read_retained,
    write_flags,
    write_retained,
)
from manager.keyed.run_sums import FiredSums
from manager.slices import SliceSums
from manager.storage.segments import KEY_COLUMN, STREAM_COLUMN, TIME_COLUMN, Ref, SegmentStore, SegmentWriter
from manager.storage.task_state import AssignedState, KeyedState, TaskState, WindowsState
from policies.watermarks import NONE, is_accepted, is_accepted_on_arrival
from topologies.engine.admission import (
    AdmissionContext,
    Decisions,
    Incoming,
    Marks,
    apply_decisions,
    decide,
    late_by_open_windows,
)
from topologies.engine.batch import Context
from topologies.engine.duplicates import DuplicateFinder
from topologies.engine.ingest import Router
from topologies.engine.task_data import CompactItem, FireItem, Rows
from topologies.graph.graph import DECISION_COLUMN, END_EDGE_COLUMN, EVENT_COLUMNS, SEQ_COLUMN, WindowedNode
from topologies.graph.groupings import KeyCodes, key_rows
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Compaction writes adjacent segments of a task as one.


def write_compacted(item: CompactItem, context: Context, write: Callable[[SegmentWriter], Ref]) -> Ref:
    """Writes the rows of the segments as one segment, with a compaction level above theirs."""
    with context.store.writer(context.key) as writer:
        ref = write(writer)
    return replace(ref, level=1 + max(source.level for source in item.refs))


# Admission in a bolt's task: arrived events, with the watermark before each, become live events.


@dataclass(frozen=True)
class Admitted:
    """The admitted events of a batch, in order of arrival."""

    events: RetainedEvents
    end_edges: NDArray[np.bool_] | None = None
    """True for end edges, which must be matched with their starts; None without edges."""
    evaluate_before: tuple[tuple[int, int], ...] = ()
    """Pairs (index, limit): before the event at this index is added, windows that end up to the limit (microseconds)
    must be evaluated."""


def admit(item: FireItem, node: WindowedNode, router: Router, admission_context: AdmissionContext) -> Admitted | None:
    """Admits the events that arrived for a task; rejects others by the rules. Returns None if no event is admitted."""
    if item.admit.sections is None:
        return None
    rows = _read_arrived(item, router)
    events = _incoming(item, node, router, admission_context, rows)
    if node.bolt.settings.message_id_field is not None:
        admission_context = replace(
            admission_context,
            duplicate_finder=DuplicateFinder(node, item, router.context.store, admission_context.live_events),
        )
    decisions = decide(node, events, admission_context)
    apply_decisions(node, events, decisions, router.ledger, router.emit)
    chosen = np.flatnonzero(is_accepted(decisions.codes))
    return _as_admitted(item, node, events, decisions, chosen) if len(chosen) else None


def _read_arrived(item: FireItem, router: Router) -> Rows:
    """Returns all events that arrived for the task, with their columns; positions count the events of the batch."""
    tables, numbers = [], []
    for ref, first in item.admit.sections or ():
        table = router.context.store.read(ref)
        tables.append(table)
        numbers.append(table.column(SEQ_COLUMN).to_numpy() + first)
    table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
    return Rows(table.combine_chunks(), None, np.concatenate(numbers), router.context.clock)


def _incoming(
    item: FireItem, node: WindowedNode, router: Router, admission_context: AdmissionContext, rows: Rows
) -> Incoming:
    times, codes = _column(rows, TIME_COLUMN), _column(rows, DECISION_COLUMN)
    keys, streams = _column(rows, KEY_COLUMN), _column(rows, STREAM_COLUMN)
    arriving = RetainedEvents(times=times, payload=rows.table, streams=streams, keys=keys)
    if admission_context.key_marks is None:
        marks = _marks(item, router, rows)
        if admission_context.key_coder is not None and _depends_on_keys(item, node, admission_context, times, marks):
            keys = admission_context.key_coder(arriving)
    else:
        assert admission_context.key_coder is not None
        keys = admission_context.key_coder(arriving)
        values = key_rows(rows.table, streams, node.keys)
        marks = admission_context.key_marks(keys, times, is_accepted_on_arrival(codes), values)
    if any(node.brings_clock) and not node.without_windows:
        # At the end of a run windows fire early; with a shorter timeout they may be overdue.
        times = np.clip(times, NONE if item.frontiers.previous is None else item.frontiers.previous, item.end.clock)
    return Incoming(
        rows, streams, times, codes, marks,
        idle_closed_until=item.admit.idle_closed_until,
        keys=keys,
        ends=_column(rows, END_COLUMN),
        end_edges=_column(rows, END_EDGE_COLUMN),
        gaps=_column(rows, GAP_COLUMN),
    )  # fmt: skip


def _depends_on_keys(
    item: FireItem, node: WindowedNode, admission_context: AdmissionContext, times: NDArray[np.int64], marks: Marks
) -> bool:
    """True if the task may need stored events of the keys to decide which of these events are admitted."""
    if admission_context.closed_early is not None or node.bolt.settings.message_id_field is not None:
        return True
    by_timeout = node.session is not None and item.admit.idle_closed_until > NONE
    if not node.event_time or not (late_by_open_windows(node) or by_timeout):
        return False
    closed_until = max(int(node.closed_until_at(marks.of_bolt).max(initial=NONE)), item.admit.idle_closed_until)
    return bool((times <= closed_until).any())


def _marks(item: FireItem, router: Router, rows: Rows) -> Marks:
    """Returns the watermarks that the driver has computed: one before each event, or one for all."""
    if item.admit.marks is None:
        before = np.full(len(rows.positions), item.admit.watermark, np.int64)
        return Marks(before, before)
    table = router.context.store.read(item.admit.marks)
    return Marks(**{name: table.column(name).to_numpy()[rows.positions] for name in table.column_names})


def _as_admitted(
    item: FireItem, node: WindowedNode, events: Incoming, decisions: Decisions, chosen: NDArray[np.int64]
) -> Admitted:
    table, count = events.rows.table, len(events.times)
    retained = RetainedEvents(
        times=decisions.times,
        payload=table.select([name for name in table.column_names if name not in EVENT_COLUMNS]),
        streams=_column(events.rows, STREAM_COLUMN) if len(node.inputs) > 1 else None,
        keys=_column(events.rows, KEY_COLUMN),
        ends=events.ends,
        closed_until=decisions.closed_until if node.assigners else None,
        gaps=events.gaps,
        edges=_column(events.rows, EDGE_COLUMN),
        evaluation=_evaluations(item, node, count),
    )
    end_edges = events.end_edges
    if len(chosen) < count:
        retained, end_edges = retained.take(chosen), None if end_edges is None else end_edges[chosen]
    indices = np.searchsorted(chosen, decisions.evaluate_before).tolist()
    limits = [int(decisions.closed_until[row]) for row in decisions.evaluate_before]
    return Admitted(retained, end_edges, tuple(zip(indices, limits, strict=True)))


def _evaluations(item: FireItem, node: WindowedNode, count: int) -> NDArray[np.int64] | None:
    """Returns, for each event, the number of the evaluation that follows its admission; None if windows fire only
    once."""
    if node.bolt.settings.panes is None:
        return None
    return np.full(count, item.state.windows_as(AssignedState).evaluations, np.int64)


def _column(rows: Rows, name: str) -> Any:
    return rows.table.column(name).to_numpy() if name in rows.table.column_names else None


# The interface of all families of windows (decision 42).


@dataclass(frozen=True)
class SummedWindows:
    """Windows whose results are joined from partial sums, without calling the bolt."""

    windows: Sequence[TupleWindow]
    slicing: SliceSums


@dataclass(frozen=True)
class StillOpen:
    """The windows that are open after an evaluation. A bolt that retracts rows forgets the rows of other windows."""

    windows: PaneStates


@dataclass(frozen=True)
class Arrived:
    """Arrived events for a bolt without windows, in order of arrival."""

    events: RetainedEvents


@dataclass(frozen=True)
class ClockPassed:
    """A due call of a bolt without windows: the clock has reached a time, in microseconds."""

    clock: int


Firing: TypeAlias = TupleWindow | SummedWindows | FiredSums | ForgottenKey | StillOpen
"""A due firing: a window, windows or sessions of partial sums, or a forgotten key; or the windows that may still
fire."""

EventFiring: TypeAlias = Arrived | ClockPassed
"""A due call of a bolt without windows: for arrived events, or for the clock."""


@dataclass(frozen=True)
class TaskSnapshot:
    """The windows of a task after a batch."""

    windows: WindowsState
    refs: list[Ref]
    """The events that are still needed."""
    accounted_by_stream: list[int]
    """For each input, how many of these events have an account; empty if none has."""
    counts: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    """For each account, the number of events that entered it in this batch, by input."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """Further counts, by name."""


class TaskWindows(Protocol):
    """The windows of one task in one batch, restored from the state after the previous batch.

    Order of calls: ``admission_context`` while events are admitted, ``accept``, ``advance``, ``snapshot``.
    """

    @property
    def admission_context(self) -> AdmissionContext:
        """Returns the facts about events of earlier batches that admission needs."""
        ...

    def accept(self, admitted: Admitted) -> None:
        """Called with the admitted events of the batch, if there are any."""
        ...

    def advance(self) -> Iterator[Firing | EventFiring]:
        """Yields the due firings in order. Must be exhausted before ``snapshot`` is called."""
        ...

    def snapshot(self, writer: SegmentWriter) -> TaskSnapshot:
        """Writes the state that is still needed; returns the state after the batch."""
        ...


# The events that a task holds until no window needs them, and the state of their keys.


@dataclass
class OldEvents:
    """The events of earlier batches, read on demand."""

    store: SegmentStore
    refs: Sequence[Ref]

    @cached_property
    def parts(self) -> list[tuple[RetainedEvents, NDArray[np.uint8]]]:
        """For each segment: all its events, and their flags."""
        return [read_retained(self.store, ref) for ref in self.refs]

    @cached_property
    def needed_indices(self) -> list[NDArray[np.int64]]:
        """For each segment: the indices of the events that are still needed."""
        return [np.flatnonzero(is_needed(flags)) for _, flags in self.parts]

    def needed(self) -> RetainedEvents | None:
        """Returns the live events, and events that have yet to be reported as expired; None without such events."""
        parts = [needed_rows(events, flags) for events, flags in self.parts]
        parts = [events for events in parts if len(events)]
        return RetainedEvents.concat(parts) if parts else None

    def live(self, *columns: str) -> RetainedEvents | None:
        """Returns the events that a window may still need, in order of arrival, with these columns of their payload
        (all if none is given); None without such events."""
        parts = [live_rows(_select_columns(events, columns), flags) for events, flags in self.parts]
        parts = [events for events in parts if len(events)]
        return RetainedEvents.concat(parts) if parts else None


class TaskKeys:
    """State of a task's keys, without their events: their records, and the codes of keys that share a hash."""

    def __init__(self, store: SegmentStore, before: KeyedState, node: WindowedNode) -> None:
        """``before``: the state of the task's windows before the batch."""
        self._ref = before.keys
        self._tables = [] if before.keys is None else [store.read(before.keys)]
        self._codes = KeyCodes.restore(node.keys, store, before.codes)
        self.records = KeyStates(self._tables[0] if self._tables else None, node.bolt.settings.key)

    def with_key_codes(self, events: RetainedEvents) -> RetainedEvents:
        """Returns these events, in order of arrival, with the codes of their keys."""
        return self._codes.apply(events, self._tables)

    def write(
        self, writer: SegmentWriter, events: RetainedEvents, flags: NDArray[np.uint8]
    ) -> tuple[Ref | None, Ref | None]:
        """Writes the records, if they have changed, and the codes; ``events``: those that ``with_key_codes``
        returned."""
        if self.records.changed:
            table = self.records.table(events.payload)
            self._tables = [] if table is None else [table]
            self._ref = None if table is None else writer.add(table)
        return self._ref, self._codes.write(writer, events.keys, flags, self._tables)


class TaskEvents:
    """The events that a task holds until no window needs them: old events, of earlier batches, and new events.

    The flags are those of all needed events, old ones first; None if no evaluation has changed them.
    """

    def __init__(self, store: SegmentStore, state: TaskState, streams: int) -> None:
        self.old = OldEvents(store, state.refs)
        self.new: RetainedEvents | None = None
        """The events admitted in this batch; None without such events."""
        self._store, self._state, self._streams = store, state, streams

    def replace_all(self, events: RetainedEvents | None) -> None:
        """Replaces all events by these, which are then written again."""
        self.old, self.new = OldEvents(self._store, ()), events

    def write(
        self, writer: SegmentWriter, flags: NDArray[np.uint8] | None, numbers: NDArray[np.int64] | None = None
    ) -> list[Ref]:
        """Writes new and changed events; returns references to all events that are still needed. ``numbers``: the
        numbers of the events, in the order of ``flags``, for users' policies."""
        new, streams = self.new, self._streams
        if flags is None:
            written = [] if new is None or not len(new) else [write_retained(writer, new.sorted(), streams)]
            return [*self.old.refs, *written]
        refs, offset = [], 0
        for ref, (stored, before), rows in zip(self.old.refs, self.old.parts, self.old.needed_indices, strict=True):
            section = slice(offset, offset + len(rows))
            events, changes = stored, False
            if numbers is not None:
                events = replace(stored, numbers=_with_new_numbers(stored, rows, numbers[section]))
                changes = stored.numbers is None or bool((stored.numbers[rows] != numbers[section]).any())
            remaining = self._rewrite(writer, ref, events, before, rows, flags[section], changes=changes)
            offset += len(rows)
            refs.extend([] if remaining is None else [remaining])
        if new is not None:
            needed = is_needed(flags[offset:])
            if numbers is not None:
                new = replace(new, numbers=numbers[offset:])
            if needed.any():
                refs.append(_write(writer, new, np.flatnonzero(needed), flags[offset:], streams))
        return refs

    def accounted_by_stream(self, flags: NDArray[np.uint8] | None) -> list[int]:
        """Returns, for each input, the number of needed events that have been in a window."""
        if flags is None:
            return self._state.accounted_by_stream
        is_counted = ((flags & ACCOUNTED) != 0) & is_needed(flags)
        counts, offset = np.zeros(self._streams, np.int64), 0
        for (events, _), indices in zip(self.old.parts, self.old.needed_indices, strict=True):
            chosen = np.zeros(len(events), np.bool_)
            chosen[indices[is_counted[offset : offset + len(indices)]]] = True
            counts += events.by_stream(self._streams, chosen)
            offset += len(indices)
        if self.new is not None:
            counts += self.new.by_stream(self._streams, is_counted[offset:])
        return [int(count) for count in counts]

    def _rewrite(
        self,
        writer: SegmentWriter,
        ref: Ref,
        events: RetainedEvents,
        before: NDArray[np.uint8],
        rows: NDArray[np.int64],
        flags: NDArray[np.uint8],
        *,
        changes: bool,
    ) -> Ref | None:
        """Returns the reference to the rows of a section that are still needed; None without such rows. If fewer than
        half are left, the rows are written again; else only the flags, if they or the numbers have changed
        (``changes``)."""
        needed = is_needed(flags)
        remaining = int(np.count_nonzero(needed))
        if not remaining:
            return None
        changed = before.copy()
        changed[rows] = flags
        if remaining < len(events) // 2:
            return replace(_write(writer, events, rows[needed], changed, self._streams), level=ref.level)
        return (
            ref
            if not changes and (changed == before).all()
            else write_flags(writer, ref, changed, events, self._streams)
        )


def _with_new_numbers(events: RetainedEvents, rows: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the numbers of all rows of a section, with new numbers for the given rows."""
    all_numbers = np.full(len(events), -1, np.int64) if events.numbers is None else events.numbers.copy()
    all_numbers[rows] = numbers
    return all_numbers


def no_events(node: WindowedNode) -> RetainedEvents:
    """Returns an empty set of events with the columns of a bolt."""
    none = np.zeros(0, np.int64)
    streams = np.zeros(0, np.int8) if len(node.inputs) > 1 else None
    keys = none if node.bolt.settings.key or node.bolt.settings.key_trigger is not None else None
    return RetainedEvents(times=none, payload=node.schema.empty_table(), streams=streams, keys=keys)


def _select_columns(events: RetainedEvents, columns: Sequence[str]) -> RetainedEvents:
    return replace(events, payload=events.payload.select(list(columns))) if columns else events


def _write(
    writer: SegmentWriter, events: RetainedEvents, rows: NDArray[np.int64], flags: NDArray[np.uint8], streams: int
) -> Ref:
    """Writes these rows of the events in order of (key, time), or in order of arrival if rows stand for several events
    (see ``RetainedEvents.sorted``). ``flags``: those of all events."""
    order = events.keys_and_times(rows).order() if events.weights is None else None
    if order is not None:
        rows = rows[order]
    if order is not None or len(rows) < len(events):
        events = events.take(rows)
    flags = flags[rows]
    events = replace(events, accounted=(flags & ACCOUNTED) != 0)
    if (flags & IN_LAST_WINDOW).any():
        events = replace(events, in_last_window=(flags & IN_LAST_WINDOW) != 0, finished=(flags & FINISHED) != 0)
    return write_retained(writer, events, streams)


def compact_retained(item: CompactItem, node: WindowedNode, context: Context) -> Ref:
    """Merges adjacent segments of one task into one, without events that are no longer needed."""
    events = RetainedEvents.concat([needed_rows(*read_retained(context.store, ref)) for ref in item.refs]).sorted()
    return write_compacted(item, context, lambda writer: write_retained(writer, events, len(node.inputs)))


def pending_retained(store: SegmentStore, node: WindowedNode, task: int, state: TaskState) -> Iterator[pa.Table]:
    """Yields the events of a task that have been in no window and may still be in one."""
    for ref in state.refs:
        events, flags = read_retained(store, ref)
        yield events.payload.take(pa.array(np.flatnonzero((flags & (FINISHED | ACCOUNTED)) == 0)))
    for ref in state.waiting:
        yield read_retained(store, ref)[0].payload
