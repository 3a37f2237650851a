"""One task of a windowed bolt in a checkpoint: its stored events, each with what is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.keyed.held import GONE, SEEN, Held, is_needed, live_rows
from manager.keyed.held_segments import read_held
from manager.queue.queue_state import QueueState, is_accounted
from manager.storage.manifest import BoltState
from manager.storage.segments.event_segments import read_queue
from manager.storage.segments.ref import Ref
from manager.storage.segments.segments import SegmentStore
from manager.storage.task_state import AssignedState, TaskState
from topologies.checkpoints.notes.timing_note import BoltTiming
from topologies.graph.key_codes import KeyCodes
from windowing.data.events import Events

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KEY = "key."
"""The first letters of the columns of the key of partial sums."""


@dataclass(frozen=True)
class EventRows:
    """Stored rows, as columns; times in microseconds."""

    times: NDArray[np.int64]
    payload: pa.Table
    streams: NDArray[np.int8] | None
    """The input of each; -1 where it stands for events of several. None: the only one."""
    counts: NDArray[np.int64]
    """How many events each stands for."""
    pending: NDArray[np.int64]
    """How many of these are in no window yet, and may still be in one."""
    ends: NDArray[np.int64] | None = None
    """The ends of their lifetimes; None where they have none."""
    edge: bool = False
    """Whether they are ends of events whose starts have not come yet."""

    def __len__(self) -> int:
        return len(self.times)


@dataclass(frozen=True)
class TaskReader:
    """Reads what one task keeps; nothing is read before it is asked for."""

    bolt: BoltState
    number: int
    store: SegmentStore
    timing: BoltTiming

    @property
    def state(self) -> TaskState:
        """What the manifest says of it."""
        return self.bolt.tasks[self.number]

    @cached_property
    def rows(self) -> list[EventRows]:
        """Its events, in parts: also those that are only kept because they have yet to be reported as expired."""
        if isinstance(self.state.windows, QueueState):
            found = self._queue(self.state.windows)
            return [] if found is None else [found]
        parts = [self._held(ref, edge=False) for ref in self.state.refs]
        edges = self.state.windows.end_edges if isinstance(self.state.windows, AssignedState) else None
        return [*parts, *([] if edges is None else [self._held(edges, edge=True)])]

    @cached_property
    def live(self) -> Held | None:
        """The events that a window may still need, where tasks hold events, with the codes of their keys; None where
        there are none."""
        parts = [live_rows(*read_held(self.store, ref)) for ref in self.state.refs]
        parts = [part for part in parts if len(part)]
        return self.coded(Held.concat(parts)) if parts else None

    def coded(self, events: Held) -> Held:
        """Live events of the task with the codes of their keys, which tell apart those that share a hash."""
        state = self.state.windows
        if isinstance(state, QueueState):
            return events
        kept = [self.table(state.keys), self.table(state.known) if isinstance(state, AssignedState) else None]
        codes = KeyCodes(self.timing.keys, self.table(state.codes))
        return codes.apply(events, [table for table in kept if table is not None])

    def table(self, ref: Ref | None) -> pa.Table | None:
        """A stored table."""
        return None if ref is None else self.store.read(ref)

    def _queue(self, state: QueueState) -> EventRows | None:
        events = read_queue(self.store, self.state.refs)
        if events is None:
            return None
        waits = ~is_accounted(state, len(events))
        counts = np.ones(len(events), np.int64) if events.weights is None else events.weights.sum(axis=1)
        payload = pa.Table.from_batches([events.payload])
        if events.weights is not None:
            payload = payload.rename_columns([name.removeprefix(_KEY) for name in payload.column_names])
        return EventRows(events.timestamps, payload, _inputs(events), counts, np.where(waits, counts, 0))

    def _held(self, ref: Ref, *, edge: bool) -> EventRows:
        held, flags = read_held(self.store, ref)
        needed = np.flatnonzero((flags & GONE) == 0 if edge else is_needed(flags))
        held, flags = held.take(needed), flags[needed]
        waits = np.ones(len(held), np.int64) if edge else ((flags & (GONE | SEEN)) == 0).astype(np.int64)
        return EventRows(held.times, held.payload, held.streams, np.ones(len(held), np.int64), waits, held.ends, edge)


def _inputs(events: Events) -> NDArray[np.int8] | None:
    """The input of each row of a queue; -1 for sums of several."""
    if events.weights is None or events.weights.shape[1] == 1:
        return events.streams
    several = (events.weights > 0).sum(axis=1) > 1
    return np.where(several, -1, events.weights.argmax(axis=1)).astype(np.int8)


def key_columns(timing: BoltTiming) -> Sequence[str]:
    """The columns under which keys are shown: those of the first input."""
    return timing.keys[0] if any(timing.keys) else timing.key
