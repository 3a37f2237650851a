"""Queues of events, or of partial sums, moved to other tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.queue.queue_state import QueueState
from manager.storage.segments.event_segments import read_queue, write_events
from manager.storage.segments.refs import Refs
from manager.storage.segments.segments import SegmentStore, SegmentWriter
from manager.storage.task_state import TaskState
from topologies.checkpoints.rescaling.routes import Route
from windowing.data.events import Events
from windowing.data.order import stable_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KEY = "key."
"""The first letters of the columns of the key of partial sums."""


@dataclass
class MovedTasks:
    """What has happened to the windows of a bolt's tasks."""

    tasks: list[TaskState]
    unwindowed: NDArray[np.int64]
    """Per input, the events that are known to be in no window now that the queues are joined."""


@dataclass(frozen=True)
class _Queue:
    """The queue of one task, or its part that goes to one task: its events in order of (time, arrival)."""

    events: Events
    settled: NDArray[np.bool_]
    accounted: NDArray[np.bool_]
    """Which events are in an account."""
    shown: NDArray[np.bool_]
    """Which events are in the last window that fired."""
    reference: int | None
    """That of this window."""

    def part(self, rows: NDArray[np.int64]) -> _Queue:
        """The events at these positions."""
        marks = (self.settled[rows], self.accounted[rows], self.shown[rows])
        return _Queue(self.events.take(rows), *marks, self.reference)


def move_queues(before: Sequence[TaskState], route: Route, store: SegmentStore, writer: SegmentWriter) -> MovedTasks:
    """Move the queues of a bolt's tasks. Windows are runs of time, so each event is in those that it was in."""
    streams = len(route.movable.streams)
    parts: list[list[_Queue]] = [[] for _ in range(route.parallelism)]
    for state in before:
        queue = _read(state, store)
        if queue is None:
            continue
        tasks = route.of_rows(_columns(queue.events), queue.events.streams)
        for task in np.unique(tasks).tolist():
            parts[task].append(queue.part(np.flatnonzero(tasks == task)))
    states = [_state(each) for each in before]
    frontier = _latest([state.previous_frontier for state in states])
    reference = _latest([state.last_reference for state in states])
    moved = MovedTasks([], np.zeros(streams, np.int64))
    for found in parts:
        windows = QueueState(previous_frontier=frontier, last_reference=reference)
        if not found:
            moved.tasks.append(TaskState(windows))
            continue
        task, passed = _joined(found, windows, writer, streams)
        moved.tasks.append(task)
        moved.unwindowed += passed
    return moved


def _state(task: TaskState) -> QueueState:
    assert isinstance(task.windows, QueueState)
    return task.windows


def _latest(times: Sequence[int | None]) -> int | None:
    return max((time for time in times if time is not None), default=None)


def _columns(events: Events) -> pa.Table:
    """The columns of events; those of the key of partial sums by their own names."""
    table = pa.Table.from_batches([events.payload])
    if events.weights is None:
        return table
    keys = [name for name in table.column_names if name.startswith(_KEY)]
    return table.select(keys).rename_columns([name.removeprefix(_KEY) for name in keys])


def _read(task: TaskState, store: SegmentStore) -> _Queue | None:
    """The queue of a task; None where it is empty."""
    state, events = _state(task), read_queue(store, task.refs)
    if events is None:
        return None
    places = np.arange(len(events))
    low, high = state.previous or (0, 0)
    return _Queue(
        events,
        places < state.settled_count,
        places < state.accounted,
        (places >= low) & (places < high),
        state.last_reference,
    )


def _joined(
    parts: Sequence[_Queue], windows: QueueState, writer: SegmentWriter, streams: int
) -> tuple[TaskState, NDArray[np.int64]]:
    """The task that has these parts, and the events among them, by input, that it now knows to be in no window."""
    last = _latest([part.reference for part in parts if part.shown.any()])
    events = Events.concat([part.events for part in parts])
    order = stable_order(events.timestamps)
    events = events.take(order)
    shown = np.concatenate([part.shown & (part.reference == last) for part in parts])[order]
    accounted = np.concatenate([part.accounted for part in parts])[order]
    settled = np.concatenate([part.settled for part in parts])[order]
    known = int(np.flatnonzero(accounted)[-1]) + 1 if accounted.any() else 0
    windows.accounted = known
    if shown.any():
        places = np.flatnonzero(shown)
        windows.previous = [int(places[0]), int(places[-1]) + 1]
    final = len(events) if settled.all() else int(np.argmin(settled))
    windows.settled_count = max(final, known, (windows.previous or [0, 0])[1])
    passed = events.take(np.flatnonzero(~accounted[:known])).by_stream(streams)
    ref = write_events(writer, events, streams)
    return TaskState(windows, Refs([ref]), events.slice(0, known).by_stream(streams).tolist()), passed
