"""The events that a checkpoint holds for a bolt: their times and keys, as far as windows still need them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.keyed.held import GONE
from manager.keyed.held_segments import read_held
from manager.queue.queue_state import QueueState
from manager.storage.manifest import BoltState
from manager.storage.segments.event_segments import read_events
from manager.storage.segments.ref import Ref
from manager.storage.segments.segments import SegmentStore
from topologies.checkpoints.notes.timing_note import BoltTiming
from topologies.state_tables.selection import has_key
from topologies.state_tables.task_reader import TaskReader
from windowing.settings.bounds import Bounds

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class StoredEvents:
    """Events as columns; a row may stand for several that have been added up."""

    times: NDArray[np.int64]
    counts: NDArray[np.int64]
    """How many events each row stands for."""

    def within(self, timing: BoltTiming, end: int) -> int:
        """Number of events in the window that ends at a time."""
        assert timing.length is not None
        return int(self.counts[timing.bounds.among(self.times, end - timing.length, end)].sum())

    def windows(self, timing: BoltTiming, first: int, most: int) -> list[tuple[int, int]]:
        """The ends of the windows that hold events, from the one that ends at ``first`` on, with how many they hold;
        ``most`` windows are looked at, empty ones among them."""
        assert timing.slide is not None
        assert timing.length is not None
        if not len(self.times):
            return []
        order = np.argsort(self.times, kind="stable")
        times, so_far = self.times[order], np.concatenate([[0], np.cumsum(self.counts[order])])
        last = int(times[-1]) + timing.length
        ends = np.arange(first, min(last, first + most * timing.slide) + 1, timing.slide)[:most]
        held = so_far[timing.bounds.up_to(times, ends)] - so_far[timing.bounds.up_to(times, ends - timing.length)]
        return [(int(end), int(count)) for end, count in zip(ends, held, strict=True) if count]

    def next_end(self, timing: BoltTiming, offset: int, over: int | None) -> int | None:
        """The end of the first window that holds an event and ends after ``over``; None where none does."""
        assert timing.slide is not None
        assert timing.length is not None
        if not len(self.times):
            return None
        ends = timing.bounds.first_end(self.times, timing.slide, offset)
        if over is not None:
            ends = np.maximum(ends, Bounds.START.first_end(np.array([over]), timing.slide, offset))
        ends = ends[ends <= timing.bounds.last_end(self.times, timing.length, timing.slide, offset)]
        return int(ends.min()) if len(ends) else None


def stored_events(state: BoltState, store: SegmentStore, timing: BoltTiming, wanted: str | None) -> StoredEvents:
    """The events of a bolt, all or those of one key: ``wanted`` is the text of its only column, or of several with
    commas between them."""
    times, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for task in state.tasks:
        for ref in task.refs:
            if not ref.needed:
                continue
            moments, payload, streams, numbers = _read(store, ref, queue=isinstance(task.windows, QueueState))
            if wanted is not None:
                of_key = _of_key(payload, streams, timing, wanted)
                moments, numbers = moments[of_key], numbers[of_key]
            times.append(moments)
            counts.append(numbers)
    return StoredEvents(np.concatenate(times), np.concatenate(counts))


def waiting_events(state: BoltState, timing: BoltTiming, store: SegmentStore, wanted: str | None) -> StoredEvents:
    """Those that are in no window yet and may still be in one."""
    times, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for number in range(len(state.tasks)):
        for rows in TaskReader(state, number, store, timing).rows:
            waits = rows.pending > 0
            if wanted is not None:
                waits &= _of_key(rows.payload, rows.streams, timing, wanted)
            times.append(rows.times[waits])
            counts.append(rows.pending[waits])
    return StoredEvents(np.concatenate(times), np.concatenate(counts))


def _read(
    store: SegmentStore, ref: Ref, *, queue: bool
) -> tuple[NDArray[np.int64], pa.Table, NDArray[np.int8] | None, NDArray[np.int64]]:
    if queue:
        events = read_events(store, ref)
        numbers = np.ones(len(events), np.int64) if events.weights is None else events.weights.sum(axis=1)
        return events.timestamps, pa.Table.from_batches([events.payload]), events.streams, numbers
    held, flags = read_held(store, ref)
    live = np.flatnonzero((flags & GONE) == 0)
    held = held.take(live)
    return held.times, held.payload, held.streams, np.ones(len(held), np.int64)


def _of_key(payload: pa.Table, streams: NDArray[np.int8] | None, timing: BoltTiming, wanted: str) -> NDArray[np.bool_]:
    """Which events are of a key; its columns may have other names at each input."""
    keys = timing.columns_of_keys
    found = np.zeros(payload.num_rows, np.bool_)
    for number, names in enumerate(keys):
        if set(names) <= set(payload.column_names):
            of_key = has_key(payload, names, wanted)
            if streams is not None and len(keys) > 1:
                of_key &= streams == number
            found |= of_key
    return found
