"""The events that a checkpoint holds for a bolt: their times and keys, as far as windows still need them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from manager.queue.queue_state import QueueState
from manager.storage.manifest import BoltState
from manager.storage.segments.segments import SegmentStore
from manager.storage.task_state import AssignedState
from policies.assigners import AlignedWindows
from policies.assigners.assigner import Live
from policies.marks import NONE
from topologies.checkpoints.notes.timing_note import BoltTiming
from topologies.state_tables.assigned_windows import reached_limit
from topologies.state_tables.selection import has_key
from topologies.state_tables.task_reader import TaskReader
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.assigners.assigner import Limit


@dataclass(frozen=True)
class WaitingEvents:
    """Events that are in no window yet, as columns; a row may stand for several that have been added up."""

    times: NDArray[np.int64]
    counts: NDArray[np.int64]
    """How many events each row stands for."""


@dataclass(frozen=True)
class RegularEvents:
    """Events in windows that begin at regular times; a row may stand for several that have been added up."""

    windows: AlignedWindows
    first: NDArray[np.int64]
    """The end of the first window that holds each event and was open when it came, in microseconds."""
    last: NDArray[np.int64]
    """The end of the last window that holds it; before the first for an event in none."""
    known_last: NDArray[np.int64]
    """The same at the end of the streams, where events without an end last as long as the latest one of their key."""
    counts: NDArray[np.int64]
    """How many events each row stands for."""

    def within(self, end: int) -> int:
        """Number of events in the window that ends at a time."""
        return int(self.counts[(self.first <= end) & (self.last >= end)].sum())

    def ends(self, over: int | None, most: int) -> list[tuple[int, int]]:
        """The ends after ``over`` of the windows that hold events, with how many they hold; ``most`` windows are looked
        at, empty ones among them."""
        first = self._after(over)
        inside = first <= self.known_last
        if not inside.any():
            return []
        first, last, counts = first[inside], self.known_last[inside], self.counts[inside]
        slide, begin = self.windows.slide.micros, int(first.min())
        found = np.arange(begin, min(int(last.max()), begin + (most - 1) * slide) + 1, slide)
        held = _counted_before(first, counts, found, side="right") - _counted_before(last, counts, found, side="left")
        return [(int(end), int(count)) for end, count in zip(found, held, strict=True) if count]

    def next_end(self, over: int | None) -> int | None:
        """The end of the first window that holds an event and ends after ``over``; None where none does."""
        first = self._after(over)
        first = first[first <= self.known_last]
        return int(first.min()) if len(first) else None

    def _after(self, over: int | None) -> NDArray[np.int64]:
        return self.first if over is None else np.maximum(self.first, self.windows.following(np.array([over])))


def _counted_before(
    ends: NDArray[np.int64], counts: NDArray[np.int64], moments: NDArray[np.int64], side: Literal["left", "right"]
) -> NDArray[np.int64]:
    """How many events have an end before each moment; with ``side`` of right also those at it."""
    order = np.argsort(ends, kind="stable")
    so_far = np.concatenate([[0], np.cumsum(counts[order])])
    found: NDArray[np.int64] = so_far[np.searchsorted(ends[order], moments, side=side)]
    return found


def regular_events(
    state: BoltState, store: SegmentStore, timing: BoltTiming, windows: AlignedWindows, wanted: str | None
) -> RegularEvents:
    """The events of a bolt, all or those of one key: ``wanted`` is the text of its only column, or of several with
    commas between them."""
    nothing = np.zeros(0, np.int64)
    parts = [(nothing, nothing, nothing, nothing)]
    for number, task in enumerate(state.tasks):
        reader = TaskReader(state, number, store, timing)
        if isinstance(task.windows, QueueState):
            for rows in reader.rows:
                live, counts = Live(rows.times), rows.counts
                if wanted is not None:
                    of_key = _of_key(rows.payload, rows.streams, timing, wanted)
                    live, counts = Live(rows.times[of_key]), counts[of_key]
                parts.append((*_ends(windows, live, NONE), counts))
        elif reader.live is not None and isinstance(task.windows, AssignedState):
            held = reader.live.sorted()
            if wanted is not None:
                held = held.take(np.flatnonzero(_of_key(held.payload, held.streams, timing, wanted)))
            live = Live(held.times, held.keys, held.ends, held.closed_until)
            reached = reached_limit(reader, task.windows, held)
            parts.append((*_ends(windows, live, reached), np.ones(len(live), np.int64)))
    return RegularEvents(windows, *map(np.concatenate, zip(*parts, strict=True)))


def _ends(
    windows: AlignedWindows, live: Live, reached: Limit
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    first, last = windows.ends_of(live, reached, 0)
    return first, last, windows.ends_of(live, reached, FOREVER)[1]


def waiting_events(state: BoltState, timing: BoltTiming, store: SegmentStore, wanted: str | None) -> WaitingEvents:
    """Those that are in no window yet and may still be in one."""
    times, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for number in range(len(state.tasks)):
        for rows in TaskReader(state, number, store, timing).rows:
            waits = rows.pending > 0
            if wanted is not None:
                waits &= _of_key(rows.payload, rows.streams, timing, wanted)
            times.append(rows.times[waits])
            counts.append(rows.pending[waits])
    return WaitingEvents(np.concatenate(times), np.concatenate(counts))


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
