"""Finds repeated message ids: which arriving events have the id of an event that is still live (ST-27)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from manager.keyed.assigned import AssignedWindows, Span
from manager.keyed.held import Held
from manager.queue.queue_state import QueueState
from manager.storage.segments import SegmentStore, read_events
from manager.window_manager import WindowManager
from policies.admission import between_windows
from policies.marks import NONE
from topologies.engine.batch.work import FireItem
from topologies.graph.model import WindowedNode
from windowing.data.events import Events
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PLACE = "place"


@dataclass(frozen=True)
class IncomingIds:
    """The events that arrive at a task in a batch, in order; arrays with one entry per event."""

    ids: pa.ChunkedArray
    counts: NDArray[np.bool_]
    """Which of them are events with a time; the ids of others are ignored."""
    accepted: NDArray[np.bool_]
    """Which are admitted unless they are duplicates."""
    held: Held
    """Their times, keys and lifetimes, without payload."""
    marks: NDArray[np.int64]
    """The watermark before each in microseconds; that of its key where each key has its own."""


class Lives(Protocol):
    """Tells which events are live while events arrive one after another."""

    def __call__(self, place: int, row: int) -> bool:
        """Whether the event at index ``place``, counting those of earlier batches first, is live when row ``row`` of
        this batch arrives. Calls must not go back in ``row``."""
        ...


@dataclass
class Repeats:
    """Finds the duplicates among the events that arrive at one task."""

    node: WindowedNode
    item: FireItem
    store: SegmentStore
    live: Callable[..., Held | None] | None = None
    """Returns the events that an assigned task holds, with the named columns; None for a task with a queue."""

    def among(self, incoming: IncomingIds) -> NDArray[np.bool_]:
        """Which events repeat the id of an earlier event that some window may still need.

        The first in order of arrival is kept. Only ids that repeat are examined one by one.
        """
        parts, old = self._before
        field = self.node.bolt.settings.message_id_field
        assert field is not None
        ids = list(incoming.ids.chunks) if old is None else [*old.payload.column(field).chunks, *incoming.ids.chunks]
        before = 0 if old is None else len(old)
        codes = _codes(pa.chunked_array(ids, incoming.ids.type), incoming, old, per_key=self._per_key)
        duplicates = np.zeros(len(incoming.counts), np.bool_)
        if not len(duplicates):
            return duplicates
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        rows = np.arange(len(duplicates)) + before
        candidates = (codes[before:] >= 0) & (first[inverse[before:]] < rows)
        if not candidates.any():
            return duplicates
        is_live = self._lives(incoming, old, parts, duplicates)
        repeated = np.unique(codes[before:][candidates])
        originals: dict[int, list[int]] = {}
        for index in np.flatnonzero(np.isin(codes, repeated)).tolist():
            code, row = int(codes[index]), index - before
            live = originals.setdefault(code, [])
            if row < 0:
                live.append(index)
                continue
            live[:] = [original for original in live if is_live(original, row)]
            if live:
                duplicates[row] = True
            elif incoming.accepted[row]:
                live.append(index)
        return duplicates

    @cached_property
    def _before(self) -> tuple[list[Events], Held | None]:
        """The events of earlier batches: as parts of a queue, and with their ids."""
        if self.live is not None:
            return [], self.live(self.node.bolt.settings.message_id_field)
        parts = [read_events(self.store, ref) for ref in self.item.state.refs if ref.alive]
        return parts, _as_held(parts, self.node)

    @property
    def _per_key(self) -> bool:
        return self.node.bolt.settings.watermark_per_key and self.node.event_time

    def _lives(
        self, incoming: IncomingIds, old: Held | None, parts: Sequence[Events], duplicates: NDArray[np.bool_]
    ) -> Lives:
        node = self.node
        new = incoming.held
        times = new.times if old is None else np.concatenate([old.times, new.times])
        marks = incoming.marks if node.event_time else new.times
        over = node.over(marks)
        if node.event_time:
            over = np.maximum(over, self.item.admit.closed)
        if node.last_end is not None:
            ends = _both(None if old is None else old.ends, new.ends)
            return _ByLastEnd(times, node.last_end(times, ends), over, node.admission.holds_start)
        accepted = incoming.accepted
        if node.assigners:
            whole = new if old is None else Held.concat([_bare(old), new])
            return _ByAssigners(node, whole, accepted, duplicates, over, per_key=self._per_key)
        return _ByQueue(node, self.item, parts, new.times, accepted, duplicates, incoming.marks)


@dataclass(frozen=True)
class _ByLastEnd:
    """An event is live until its last possible window has closed, which depends on its time alone."""

    times: NDArray[np.int64]
    last: NDArray[np.int64]
    over: NDArray[np.int64]
    holds_start: bool

    def __call__(self, place: int, row: int) -> bool:
        last, over = self.last[place], self.over[row]
        return bool(last > over) and not between_windows(self.times[place], last, self.holds_start)


class _ByAssigners:
    """An event is live until no assigner needs it any more, given the events that have arrived."""

    def __init__(
        self,
        node: WindowedNode,
        held: Held,
        accepted: NDArray[np.bool_],
        duplicates: NDArray[np.bool_],
        over: NDArray[np.int64],
        *,
        per_key: bool,
    ) -> None:
        self._node, self._held, self._over, self._per_key = node, held, over, per_key
        self._accepted, self._duplicates = accepted, duplicates
        self._before = len(held) - len(accepted)
        self._alive = np.arange(len(held)) < self._before
        self._fed = 0
        self._next = NONE
        """No window closes before this time, in microseconds."""

    def __call__(self, place: int, row: int) -> bool:
        if row > self._fed:
            fresh = self._accepted[self._fed : row] & ~self._duplicates[self._fed : row]
            self._alive[self._before + self._fed : self._before + row] = fresh
            if fresh.any():
                times = self._held.times[self._before + self._fed : self._before + row]
                self._next = min(self._next, int(times[fresh].min()))
            self._fed = row
        limit = int(self._over[row])
        if self._alive[place] and limit > NONE and limit >= self._next:
            self._look(place, limit)
        return bool(self._alive[place])

    def _look(self, place: int, limit: int) -> None:
        chosen = self._alive
        if self._per_key:  # each key has its own watermark
            assert self._held.keys is not None
            chosen = chosen & (self._held.keys == self._held.keys[place])
        places = np.flatnonzero(chosen)
        windows = AssignedWindows(self._node.assigners, self._held.take(places), self._node.streams)
        self._alive[places[windows.finished(limit)]] = False
        if not self._per_key:
            due = windows.next_end(Span(limit, limit))
            self._next = FOREVER if due is None else due


class _ByQueue:
    """An event is live until a copy of the task's queue no longer needs it."""

    def __init__(
        self,
        node: WindowedNode,
        item: FireItem,
        parts: Sequence[Events],
        times: NDArray[np.int64],
        accepted: NDArray[np.bool_],
        duplicates: NDArray[np.bool_],
        marks: NDArray[np.int64],
    ) -> None:
        self._node, self._times, self._marks = node, times, marks
        self._accepted, self._duplicates = accepted, duplicates
        assert isinstance(item.state.windows, QueueState)
        state = replace(item.state.windows, passed=item.frontiers.passed)
        self._manager = WindowManager(node.eviction, node.trigger, node.streams, task=item.task, state=state)
        self._before = sum(map(len, parts))
        numbered, first = [], 0
        for events in parts:
            numbered.append(_numbered(events.timestamps, np.arange(first, first + len(events))))
            first += len(events)
        self._manager.restore(numbered)
        self._manager.resume()
        self._fed = 0
        self._reached = item.frontiers.passed
        self._alive = self._needed()

    def __call__(self, place: int, row: int) -> bool:
        fresh = np.flatnonzero(self._accepted[self._fed : row] & ~self._duplicates[self._fed : row]) + self._fed
        self._fed = max(row, self._fed)
        if len(fresh):
            self._manager.queue.add(_numbered(self._times[fresh], fresh + self._before).sorted())
        if self._moves(row, fed=bool(len(fresh))):
            for _ in self._manager.advance(self._reached):
                pass
            self._alive = self._needed()
        elif len(fresh):
            self._alive |= set((fresh + self._before).tolist())
        return place in self._alive

    def _moves(self, row: int, *, fed: bool) -> bool:
        """Advance the time to that of a row's arrival; returns whether something may have changed."""
        if self._node.event_time:
            mark = int(self._marks[row])
            if mark == NONE or (self._reached is not None and mark <= self._reached):
                return False
            self._reached = mark
            return True
        clock = self._node.trigger.frontier(int(self._times[row]), None)
        moved = clock is not None and (self._reached is None or clock > self._reached)
        self._reached = clock if moved else self._reached
        return moved or fed

    def _needed(self) -> set[int]:
        return {place for events in self._manager.needed_events() for place in events.payload.column(0).to_pylist()}


def _numbered(times: NDArray[np.int64], places: NDArray[np.int64]) -> Events:
    return Events(times, pa.RecordBatch.from_arrays([pa.array(places)], names=[_PLACE]))


def _as_held(parts: Sequence[Events], node: WindowedNode) -> Held | None:
    """The ids and times of the events of a queue, part by part; None where there are none."""
    if not parts:
        return None
    field = node.bolt.settings.message_id_field
    tables = [pa.Table.from_batches([events.payload]).select([field]) for events in parts]
    return Held(np.concatenate([events.timestamps for events in parts]), pa.concat_tables(tables))


def _bare(held: Held) -> Held:
    return replace(held, payload=pa.table({_PLACE: pa.nulls(len(held))}), streams=None, edges=None, evaluation=None)


def _both(old: NDArray[np.int64] | None, new: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
    return new if old is None or new is None else np.concatenate([old, new])


def _codes(ids: pa.ChunkedArray, incoming: IncomingIds, old: Held | None, *, per_key: bool) -> NDArray[np.int64]:
    """A code for each id, -1 where there is none. With ``per_key``, equal ids of different keys have different
    codes."""
    if pa.types.is_dictionary(ids.type):
        ids = ids.cast(ids.type.value_type)  # the parts have different dictionaries
    encoded = ids.combine_chunks().dictionary_encode()
    codes: NDArray[np.int64] = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    before = len(codes) - len(incoming.counts)
    codes[before:][~incoming.counts] = -1
    if per_key:
        keys = _both(None if old is None else old.keys, incoming.held.keys)
        assert keys is not None
        known = codes >= 0
        pairs = np.column_stack([codes[known], keys[known]])
        codes[known] = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
    return codes
