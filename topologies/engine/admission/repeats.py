"""Finds repeated message ids: which arriving events have the id of an event that is still live (ST-27)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.keyed.held import Held
from manager.storage.segments.event_segments import read_events
from manager.storage.segments.segments import SegmentStore
from topologies.engine.admission.live_events import AdmittedSoFar, ByAssigners, ByLastEnd, ByQueue, IsLive
from topologies.engine.work.items import FireItem
from topologies.graph.nodes.windowed import WindowedNode
from windowing.data.events import Events

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class IncomingIds:
    """The events that arrive at a task in a batch, in order; arrays with one entry per event."""

    ids: pa.ChunkedArray
    timed: NDArray[np.bool_]
    """Which of them are events with a time; the ids of others are ignored."""
    accepted: NDArray[np.bool_]
    """Which are admitted unless they are duplicates."""
    held: Held
    """Their times, inputs, keys and lifetimes, without payload but for the columns of the key."""
    marks: NDArray[np.int64]
    """The watermark before each in microseconds; that of its key where each key has its own."""
    evaluate_before: Sequence[int] = ()
    """As in ``Decisions``."""


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
        count = len(incoming.timed)
        if not count:
            return np.zeros(0, np.bool_)
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        candidates = (codes[before:] >= 0) & (first[inverse[before:]] < np.arange(count) + before)
        if not candidates.any():
            return np.zeros(count, np.bool_)
        admitted = AdmittedSoFar(incoming.accepted)
        is_live = self._lives(incoming, old, parts, admitted)
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
                admitted.turn_away(row)
            elif incoming.accepted[row]:
                live.append(index)
        return admitted.duplicates

    @cached_property
    def _before(self) -> tuple[list[Events], Held | None]:
        """The events of earlier batches: as parts of a queue, and with their ids."""
        if self.live is not None:
            return [], self.live(self.node.bolt.settings.message_id_field, *key_columns(self.node))
        parts = [read_events(self.store, ref) for ref in self.item.state.refs if ref.needed]
        return parts, _as_held(parts, self.node)

    @property
    def _per_key(self) -> bool:
        return self.node.bolt.settings.watermark_per_key and self.node.event_time

    def _lives(
        self, incoming: IncomingIds, old: Held | None, parts: Sequence[Events], admitted: AdmittedSoFar
    ) -> IsLive:
        node = self.node
        new = incoming.held
        times = new.times if old is None else np.concatenate([old.times, new.times])
        marks = incoming.marks if node.event_time else new.times
        closed_until = node.closes_until(marks)
        if node.event_time:
            closed_until = np.maximum(closed_until, self.item.admit.closed_until)
        if node.needed_until is not None:
            ends = _both(None if old is None else old.ends, new.ends)
            return ByLastEnd(times, node.needed_until(times, ends), closed_until, node.admission.holds_start)
        if node.assigners:
            whole = new if old is None else Held.concat([_bare(old, node), new])
            return ByAssigners(
                node, whole, admitted, closed_until, evaluate_before=incoming.evaluate_before, per_key=self._per_key
            )
        return ByQueue(node, self.item, parts, new.times, admitted, incoming.marks)


def _as_held(parts: Sequence[Events], node: WindowedNode) -> Held | None:
    """The ids and times of the events of a queue, part by part; None where there are none."""
    if not parts:
        return None
    field = node.bolt.settings.message_id_field
    tables = [pa.Table.from_batches([events.payload]).select([field]) for events in parts]
    return Held(times=np.concatenate([events.timestamps for events in parts]), payload=pa.concat_tables(tables))


def key_columns(node: WindowedNode) -> list[str]:
    """The columns of the payload that the assigners of a bolt ask for: those of the key, where nulls are apart."""
    if not any(each.by_side for each in node.assigners):
        return []
    return list(dict.fromkeys(name for names in node.keys for name in names))


def _bare(held: Held, node: WindowedNode) -> Held:
    return replace(held, payload=held.payload.select(key_columns(node)), edges=None, evaluation=None)


def _both(old: NDArray[np.int64] | None, new: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
    return new if old is None or new is None else np.concatenate([old, new])


def _codes(ids: pa.ChunkedArray, incoming: IncomingIds, old: Held | None, *, per_key: bool) -> NDArray[np.int64]:
    """A code for each id, -1 where there is none. With ``per_key``, equal ids of different keys have different
    codes."""
    if pa.types.is_dictionary(ids.type):
        ids = ids.cast(ids.type.value_type)  # the parts have different dictionaries
    encoded = ids.combine_chunks().dictionary_encode()
    codes: NDArray[np.int64] = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    before = len(codes) - len(incoming.timed)
    codes[before:][~incoming.timed] = -1
    if per_key:
        keys = _both(None if old is None else old.keys, incoming.held.keys)
        assert keys is not None
        known = codes >= 0
        pairs = np.column_stack([codes[known], keys[known]])
        codes[known] = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
    return codes
