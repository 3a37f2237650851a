"""Repeated message ids: finds arriving events with the id of a live event (ST-27)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from manager.keyed.assigned_windows import AssignedWindows, Span
from manager.keyed.retained_events import ACCOUNTED, FINISHED, RetainedEvents
from manager.storage.segments import SegmentStore, read_events
from manager.storage.task_state import QueueState
from manager.window_manager import WindowManager
from policies.watermarks import NONE, between_windows
from topologies.engine.task_data import FireItem
from topologies.graph.graph import WindowedNode
from windowing.events import Events
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Tells which events are live while the events of a batch arrive one by one. An event is live while a window may need
# it.
#
# For repeated message ids: an id may be used again once its event is no longer live (ST-27).


class AdmittedSoFar:
    """The arriving events admitted so far: accepted events, without the duplicates found.

    ``DuplicateFinder`` marks duplicates; ``IsLive`` reads which events are admitted.
    """

    def __init__(self, accepted: NDArray[np.bool_]) -> None:
        """``accepted``: True for events that are admitted unless they are duplicates."""
        self._accepted = accepted
        self.duplicates = np.zeros(len(accepted), np.bool_)

    def __len__(self) -> int:
        """Returns the number of arriving events."""
        return len(self._accepted)

    def mark_duplicate(self, row: int) -> None:
        """Records that an event is a duplicate."""
        self.duplicates[row] = True

    def between(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Returns a mask of admitted events from ``start`` to before ``stop``; all of them must have been examined."""
        admitted: NDArray[np.bool_] = self._accepted[start:stop] & ~self.duplicates[start:stop]
        return admitted


class IsLive(Protocol):
    """Tells which events are live while events arrive one by one."""

    def __call__(self, index: int, row: int) -> bool:
        """True if the event at index ``index`` is live when row ``row`` of this batch arrives. Indices also count the
        events of earlier batches, which come first. ``row`` must not decrease from call to call."""
        ...


@dataclass(frozen=True)
class LiveUntilLastEnd:
    """Rule: an event is live until its last possible window has closed, which depends only on its time."""

    times: NDArray[np.int64]
    last_ends: NDArray[np.int64]
    closed_until: NDArray[np.int64]
    holds_start: bool

    def __call__(self, index: int, row: int) -> bool:
        last_end, closed_until = self.last_ends[index], self.closed_until[row]
        return bool(last_end > closed_until) and not between_windows(self.times[index], last_end, self.holds_start)


class LiveByAssigners:
    """Rule: an event is live until no assigner needs it any more, given the events that have arrived."""

    def __init__(
        self,
        node: WindowedNode,
        events: RetainedEvents,
        admitted: AdmittedSoFar,
        closed_until: NDArray[np.int64],
        *,
        evaluate_before: Sequence[int],
        per_key: bool,
    ) -> None:
        """``events``: the live events of earlier batches, then the arriving ones. ``closed_until``: for each arrival,
        the time in microseconds up to which windows were closed. ``evaluate_before``: as in ``Decisions``."""
        self._node, self._events, self._closed_until, self._per_key = node, events, closed_until, per_key
        self._admitted = admitted
        self._earlier_count = len(events) - len(admitted)
        self._is_live = np.arange(len(events)) < self._earlier_count
        self._accounted = np.zeros(len(events), np.bool_) if events.accounted is None else events.accounted.copy()
        self._stops = deque(sorted(evaluate_before))
        self._fed_until = 0
        self._next_finish = NONE
        """Time in microseconds before which all events are still live."""

    def __call__(self, index: int, row: int) -> bool:
        while self._stops and self._stops[0] <= row:
            self._advance_past(self._stops.popleft())
        self._advance_past(row)
        return bool(self._is_live[index])

    def _advance_past(self, row: int) -> None:
        """Takes the events that arrived before a row, and closes the windows that are due then."""
        if row > self._fed_until:
            fresh = self._admitted.between(self._fed_until, row)
            self._is_live[self._earlier_count + self._fed_until : self._earlier_count + row] = fresh
            if fresh.any():
                times = self._events.times[self._earlier_count + self._fed_until : self._earlier_count + row]
                self._next_finish = min(self._next_finish, int(times[fresh].min()))
            self._fed_until = row
        limit = int(self._closed_until[row])
        if limit > NONE and limit >= self._next_finish:
            self._close(row, limit)

    def _close(self, row: int, limit: int) -> None:
        chosen = self._is_live
        if self._per_key:  # each key has its own watermark
            assert self._events.keys is not None
            chosen = chosen & (self._events.keys == self._events.keys[self._earlier_count + row])
        indices = np.flatnonzero(chosen)
        events = replace(self._events.take(indices), accounted=self._accounted[indices])
        windows = AssignedWindows(self._node.assigners, events, self._node.streams, keys=self._node.keys)
        windows.account_only(Span(NONE, limit))
        flags = windows.flags()
        self._accounted[indices] = (flags & ACCOUNTED) != 0
        self._is_live[indices] = (flags & FINISHED) == 0
        if not self._per_key:
            following = windows.next_finished(Span(limit, limit))
            self._next_finish = FOREVER if following is None else following


class LiveByQueue:
    """Rule: an event is live until a copy of the task's queue no longer needs it."""

    def __init__(
        self,
        node: WindowedNode,
        item: FireItem,
        parts: Sequence[Events],
        times: NDArray[np.int64],
        admitted: AdmittedSoFar,
        marks: NDArray[np.int64],
    ) -> None:
        self._node, self._times, self._marks, self._admitted = node, times, marks, admitted
        state = replace(item.state.windows_as(QueueState), previous_frontier=item.frontiers.previous)
        self._manager = WindowManager(node.eviction, node.trigger, node.streams, task=item.task, state=state)
        self._earlier_count = sum(map(len, parts))
        numbered, first_index = [], 0
        for events in parts:
            numbered.append(_numbered(events.timestamps, np.arange(first_index, first_index + len(events))))
            first_index += len(events)
        self._manager.restore(numbered)
        self._manager.resettle()
        self._fed_until = 0
        self._frontier = item.frontiers.previous
        self._is_live = self._live_indices()

    def __call__(self, index: int, row: int) -> bool:
        fresh = np.flatnonzero(self._admitted.between(self._fed_until, row)) + self._fed_until
        self._fed_until = max(row, self._fed_until)
        if len(fresh):
            self._manager.add(_numbered(self._times[fresh], fresh + self._earlier_count).sorted())
        if self._advance_to(row, fed=bool(len(fresh))):
            for _ in self._manager.advance(self._frontier):
                pass
            self._is_live = self._live_indices()
        elif len(fresh):
            self._is_live |= set((fresh + self._earlier_count).tolist())
        return index in self._is_live

    def _advance_to(self, row: int, *, fed: bool) -> bool:
        """Advances the time to the arrival of a row; returns True if the result may have changed."""
        if self._node.event_time:
            mark = int(self._marks[row])
            if mark == NONE or (self._frontier is not None and mark <= self._frontier):
                # As in ``frontiers_of``: if watermarks come with events, an event at the watermark is included.
                return fed and self._frontier is not None and self._node.bolt.settings.watermark_moves_within_batch
            self._frontier = mark
            return True
        clock = int(self._times[row])
        moved = self._frontier is None or clock > self._frontier
        self._frontier = clock if moved else self._frontier
        return moved or fed

    def _live_indices(self) -> set[int]:
        return {index for events in self._manager.live_events() for index in events.payload.column(0).to_pylist()}


def _numbered(times: NDArray[np.int64], indices: NDArray[np.int64]) -> Events:
    return Events(times, pa.RecordBatch.from_arrays([pa.array(indices)], names=["place"]))


# Finds repeated message ids: arriving events with the id of a live event (ST-27).


@dataclass(frozen=True)
class IncomingIds:
    """The events that arrive at a task in a batch, in order: arrays with one entry per event."""

    ids: pa.ChunkedArray
    has_time: NDArray[np.bool_]
    """True for events with a time; ids of other rows are ignored."""
    accepted: NDArray[np.bool_]
    """True for events that are admitted unless they are duplicates."""
    events: RetainedEvents
    """Times, inputs, keys and lifetimes of the events; the payload has only the key columns."""
    marks: NDArray[np.int64]
    """The watermark in microseconds before each event; the watermark of its key, if each key has one."""
    evaluate_before: Sequence[int] = ()
    """See ``Decisions.evaluate_before``."""


@dataclass
class DuplicateFinder:
    """Finds duplicates among the events that arrive at one task."""

    node: WindowedNode
    item: FireItem
    store: SegmentStore
    live_events: Callable[..., RetainedEvents | None] | None = None
    """Returns the events that an assigned task holds, with the named columns; None for a task with a queue."""

    def among(self, incoming: IncomingIds) -> NDArray[np.bool_]:
        """Returns a mask of events with the id of an earlier event that a window may still need.

        The first event with an id, in order of arrival, is kept. Only events with repeated ids are examined one by one.
        """
        parts, earlier = self._earlier_events
        field = self.node.bolt.settings.message_id_field
        assert field is not None
        ids = (
            list(incoming.ids.chunks)
            if earlier is None
            else [*earlier.payload.column(field).chunks, *incoming.ids.chunks]
        )
        earlier_count = 0 if earlier is None else len(earlier)
        codes = _codes(pa.chunked_array(ids, incoming.ids.type), incoming, earlier, per_key=self._per_key)
        count = len(incoming.has_time)
        if not count:
            return np.zeros(0, np.bool_)
        _, first_indices, inverse = np.unique(codes, return_index=True, return_inverse=True)
        candidates = (codes[earlier_count:] >= 0) & (
            first_indices[inverse[earlier_count:]] < np.arange(count) + earlier_count
        )
        if not candidates.any():
            return np.zeros(count, np.bool_)
        admitted = AdmittedSoFar(incoming.accepted)
        is_live = self._rule(incoming, earlier, parts, admitted)
        repeated_codes = np.unique(codes[earlier_count:][candidates])
        originals: dict[int, list[int]] = {}
        for index in np.flatnonzero(np.isin(codes, repeated_codes)).tolist():
            code, row = int(codes[index]), index - earlier_count
            live_indices = originals.setdefault(code, [])
            if row < 0:
                live_indices.append(index)
                continue
            live_indices[:] = [original for original in live_indices if is_live(original, row)]
            if live_indices:
                admitted.mark_duplicate(row)
            elif incoming.accepted[row]:
                live_indices.append(index)
        return admitted.duplicates

    @cached_property
    def _earlier_events(self) -> tuple[list[Events], RetainedEvents | None]:
        """Returns the events of earlier batches: as parts of a queue, and as events with ids."""
        if self.live_events is not None:
            return [], self.live_events(self.node.bolt.settings.message_id_field, *key_columns(self.node))
        parts = [read_events(self.store, ref) for ref in self.item.state.refs if ref.needed]
        return parts, _ids_of_queue(parts, self.node)

    @property
    def _per_key(self) -> bool:
        return self.node.bolt.settings.watermark_per_key and self.node.event_time

    def _rule(
        self, incoming: IncomingIds, earlier: RetainedEvents | None, parts: Sequence[Events], admitted: AdmittedSoFar
    ) -> IsLive:
        node = self.node
        new = incoming.events
        times = new.times if earlier is None else np.concatenate([earlier.times, new.times])
        marks = incoming.marks if node.event_time else new.times
        closed_until = node.closed_until_at(marks)
        if node.event_time:
            closed_until = np.maximum(closed_until, self.item.admit.idle_closed_until)
        if node.needed_until is not None:
            ends = _concatenated(None if earlier is None else earlier.ends, new.ends)
            return LiveUntilLastEnd(times, node.needed_until(times, ends), closed_until, node.admission.holds_start)
        if node.assigners:
            all_events = new if earlier is None else RetainedEvents.concat([_without_payload(earlier, node), new])
            return LiveByAssigners(
                node,
                all_events,
                admitted,
                closed_until,
                evaluate_before=incoming.evaluate_before,
                per_key=self._per_key,
            )
        return LiveByQueue(node, self.item, parts, new.times, admitted, incoming.marks)


def _ids_of_queue(parts: Sequence[Events], node: WindowedNode) -> RetainedEvents | None:
    """Returns the ids and times of a queue's events, in the order of its parts; None without events."""
    if not parts:
        return None
    field = node.bolt.settings.message_id_field
    tables = [pa.Table.from_batches([events.payload]).select([field]) for events in parts]
    return RetainedEvents(
        times=np.concatenate([events.timestamps for events in parts]), payload=pa.concat_tables(tables)
    )


def key_columns(node: WindowedNode) -> list[str]:
    """Returns the payload columns that the assigners of a bolt need: the key columns, if each null is a key of its
    own."""
    if not any(each.needs_sides for each in node.assigners):
        return []
    return list(dict.fromkeys(name for names in node.keys for name in names))


def _without_payload(held: RetainedEvents, node: WindowedNode) -> RetainedEvents:
    return replace(held, payload=held.payload.select(key_columns(node)), edges=None, evaluation=None)


def _concatenated(old: NDArray[np.int64] | None, new: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
    return new if old is None or new is None else np.concatenate([old, new])


def _codes(
    ids: pa.ChunkedArray, incoming: IncomingIds, earlier: RetainedEvents | None, *, per_key: bool
) -> NDArray[np.int64]:
    """Returns a code for each id, -1 for null. With ``per_key``, equal ids of different keys have different codes."""
    if pa.types.is_dictionary(ids.type):
        ids = ids.cast(ids.type.value_type)  # the parts may have different dictionaries
    encoded = ids.combine_chunks().dictionary_encode()
    codes: NDArray[np.int64] = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    earlier_count = len(codes) - len(incoming.has_time)
    codes[earlier_count:][~incoming.has_time] = -1
    if per_key:
        keys = _concatenated(None if earlier is None else earlier.keys, incoming.events.keys)
        assert keys is not None
        has_id = codes >= 0
        pairs = np.column_stack([codes[has_id], keys[has_id]])
        codes[has_id] = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
    return codes
