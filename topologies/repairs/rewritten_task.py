"""The state of a task whose stored events have other values, or are fewer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from manager.keyed.held import GONE, SEEN, Held
from manager.keyed.held_segments import read_held, read_needed, write_held
from manager.queue.queue_state import QueueState, is_accounted
from manager.storage.segments.event_segments import read_queue, write_events
from manager.storage.segments.ref import Ref
from manager.storage.segments.refs import Refs
from manager.storage.segments.segments import SegmentWriter
from manager.storage.task_state import AssignedState, TaskState, TriggeredState
from topologies.repairs.fired_windows import with_repaired
from topologies.repairs.live_events_of import live_events_of
from topologies.repairs.task_correction import TaskCorrection, parts_of
from topologies.state_tables.assigned_windows import reached_span, windows_of
from topologies.state_tables.task_reader import TaskReader
from windowing.data.events import Events, count_by_stream


def rewrite_task(task: TaskReader, correction: TaskCorrection, writer: SegmentWriter) -> TaskState:
    """Write the events of a task anew, as far as some are different; returns its state with them."""
    if isinstance(task.state.windows, QueueState):
        return _queue(task, task.state.windows, correction, writer)
    return _HeldRewrite(task, correction, writer).written()


def _queue(task: TaskReader, state: QueueState, correction: TaskCorrection, writer: SegmentWriter) -> TaskState:
    """A queue in one section. Positions count the events before them that are left."""
    events, streams = read_queue(task.store, task.state.refs), len(task.bolt.accounts.streams)
    assert events is not None
    payload = _with_columns(pa.Table.from_batches([events.payload]), correction.columns)
    (batch,) = payload.combine_chunks().to_batches()
    done, kept = is_accounted(state, len(events)), correction.kept
    before = np.concatenate([[0], np.cumsum(kept)])
    windows = replace(
        state,
        settled_count=int(before[state.settled_count]),
        accounted=int(before[state.accounted]),
        previous=None if state.previous is None else [int(before[place]) for place in state.previous],
    )
    events = Events(events.timestamps, batch, events.streams).take(np.flatnonzero(kept))
    accounted = events.take(np.flatnonzero(done[kept])).by_stream(streams).tolist()
    refs = Refs([write_events(writer, events, streams)]) if len(events) else Refs()
    return TaskState(windows, refs, accounted, task.state.bolt)


class _HeldRewrite:
    """The events that a task holds, section by section; those in which nothing is different stay where they are."""

    def __init__(self, task: TaskReader, correction: TaskCorrection, writer: SegmentWriter) -> None:
        self.task, self.correction, self.writer = task, correction, writer
        self.streams = len(task.bolt.accounts.streams)
        self.accounted = np.array(task.state.accounted_by_stream or [0] * self.streams)

    def written(self) -> TaskState:
        """The state with them."""
        state, parts = self.task.state, parts_of(self.task)
        refs = [self._section(ref, rows) for ref, rows in zip(state.refs, parts, strict=False)]
        left = [ref for ref in refs if ref is not None]
        windows = state.windows
        if isinstance(windows, AssignedState) and windows.end_edges is not None:
            windows = self._with_edges(windows, windows.end_edges, parts[-1])
        if isinstance(windows, AssignedState) and windows.panes is not None:
            windows = self._with_panes(windows)
        after = TaskState(windows, Refs(left), self.accounted.tolist(), state.bolt)
        return after if self.correction.kept.all() else self._with_fewer(after)

    def _section(self, ref: Ref, rows: slice) -> Ref | None:
        kept = self.correction.kept[rows]
        if kept.all() and not self.correction.touched[rows].any():
            return ref
        held, flags = read_needed(self.task.store, ref)
        gone = ~kept & ((flags & SEEN) != 0)
        self.accounted -= count_by_stream(
            None if held.streams is None else held.streams[gone], int(np.count_nonzero(gone)), self.streams
        )
        held = self._different(held, rows)
        return replace(write_held(self.writer, held, self.streams), level=ref.level) if len(held) else None

    def _with_edges(self, windows: AssignedState, ref: Ref, rows: slice) -> AssignedState:
        kept = self.correction.kept[rows]
        if kept.all() and not self.correction.touched[rows].any():
            return windows
        held, flags = read_held(self.task.store, ref)
        held = self._different(replace(held.take(np.flatnonzero((flags & GONE) == 0)), seen=None), rows)
        if not len(held):
            return replace(windows, end_edges=None, waiting_by_stream=())
        written = write_held(self.writer, held, self.streams)
        return replace(windows, end_edges=written, waiting_by_stream=written.by_stream)

    def _with_panes(self, windows: AssignedState) -> AssignedState:
        """The windows that have fired and whose events are different are to fire again."""
        live, places = live_events_of(self.task)
        if live is None:
            return windows
        different = (self.correction.touched | ~self.correction.kept)[places]
        panes = with_repaired(self.task, windows, live, different)
        return replace(windows, panes=self.writer.add(panes.table()))

    def _different(self, held: Held, rows: slice) -> Held:
        columns = {name: column[rows] for name, column in self.correction.columns.items()}
        held = replace(held, payload=_with_columns(held.payload, columns))
        return held.take(np.flatnonzero(self.correction.kept[rows]))

    def _with_fewer(self, after: TaskState) -> TaskState:
        """The state with what follows from its events: how many windows are open, when the next one may end, and when
        an idle timeout may close one. Windows may be looked at for one that is no more; nothing is due then."""
        windows, (live, places) = after.windows, live_events_of(self.task)
        if live is not None:
            live = live.take(np.flatnonzero(self.correction.kept[places]))
        if isinstance(windows, TriggeredState):
            keys = np.zeros(0, np.int64) if live is None or live.keys is None else live.keys
            return replace(after, windows=replace(windows, open_windows=len(np.unique(keys))))
        assert isinstance(windows, AssignedState)
        ends, next_end = list[int](), windows.next_end
        if live is not None and len(live):  # a session may end before it did; no window ends before its first event
            earliest = int(live.times.min())
            next_end = earliest if next_end is None else min(earliest, next_end)
        if live is not None and windows.open_ends:
            formed = windows_of(self.task, live)
            ends = formed.open_ends(reached_span(self.task, windows, live, formed))
        return replace(after, windows=replace(windows, next_end=next_end, open_ends=tuple(ends)))


def _with_columns(table: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    for name, column in columns.items():
        place = table.column_names.index(name)
        table = table.set_column(place, table.schema.field(place), column)
    return table
