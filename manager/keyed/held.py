"""The events held by a task whose windows are not runs of a queue: columns, flags, and how they are stored in
segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.storage.segments import STREAM_COLUMN, TIME_COLUMN, Flags, Ref, SegmentStore, SegmentWriter
from manager.storage.taking import take_rows
from windowing.data.events import count_by_stream
from windowing.data.order import group_numbers, hash_order, is_sorted, order_within, stable_order
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEY_COLUMN, END_COLUMN, CLOSED_COLUMN, GAP_COLUMN = "_key_hash", "_end", "_closed", "_gap"
EDGE_COLUMN, EVALUATION_COLUMN = "_edge", "_born"
INNER = (TIME_COLUMN, STREAM_COLUMN, KEY_COLUMN, END_COLUMN, CLOSED_COLUMN, GAP_COLUMN, EDGE_COLUMN, EVALUATION_COLUMN)
"""Columns that windbolt adds to segments."""

SEEN, GONE, LAST = 1, 2, 4
"""Flags of an event. SEEN: it has been in a window. GONE: no window needs it any more. LAST: it is in the window of its
key that fired last, and is kept until the next firing has reported it as expired (only where a bolt asks for that)."""


@dataclass(frozen=True, slots=True)
class Held:
    """Events in some order, as arrays of equal length; times in microseconds, None for a column that is not needed."""

    times: NDArray[np.int64]
    payload: pa.Table
    streams: NDArray[np.int8] | None = None
    keys: NDArray[np.int64] | None = None
    """Hash of the key of each event."""
    ends: NDArray[np.int64] | None = None
    """End of the lifetime of each event."""
    closed: NDArray[np.int64] | None = None
    """Windows that end up to this time were closed when the event arrived."""
    gaps: NDArray[np.int64] | None = None
    edges: NDArray[np.int64] | None = None
    """Hash that the start and the end of an edge share."""
    evaluation: NDArray[np.int64] | None = None
    """Number of the evaluation before which each event was admitted, where windows fire more than once."""
    seen: NDArray[np.bool_] | None = None
    """Whether each event has been in a window."""
    last: NDArray[np.bool_] | None = None
    """Whether each event is in the window of its key that fired last."""
    gone: NDArray[np.bool_] | None = None
    """Whether each event is kept for that reason alone."""

    def __len__(self) -> int:
        return len(self.times)

    def take(self, indices: NDArray[np.int64]) -> Held:
        """The events at these indices."""
        columns = (*self._columns(), *self._flags())
        return Held(
            self.times[indices], take_rows(self.payload, indices), *(_at(column, indices) for column in columns)
        )

    def bare(self, indices: NDArray[np.int64]) -> Held:
        """The events at these indices with their keys and times only."""
        return Held(self.times[indices], self.payload.select([]), keys=_at(self.keys, indices))

    def sorted(self) -> Held:
        """The events sorted by (key, time); the sort is stable."""
        order = self.order()
        return self if order is None else self.take(order)

    def order(self) -> NDArray[np.int64] | None:
        """The stable sort order by (key, time); None where the events are in that order."""
        if self.keys is None:
            return None if is_sorted(self.times) else stable_order(self.times)
        same = self.keys[1:] == self.keys[:-1]
        if bool(((self.keys[1:] > self.keys[:-1]) | (same & (self.times[1:] >= self.times[:-1]))).all()):
            return None
        by_key = hash_order(self.keys)
        return by_key[order_within(group_numbers(self.keys[by_key]), self.times[by_key])]

    @staticmethod
    def concat(parts: Sequence[Held]) -> Held:
        """The events of all parts, one part after another."""
        if len(parts) == 1:
            return parts[0]
        columns = [_joined(column) for column in zip(*(part._columns() for part in parts), strict=True)]
        flags = [_joined_flags(column, parts) for column in zip(*(part._flags() for part in parts), strict=True)]
        payload = pa.concat_tables([part.payload for part in parts])
        return Held(np.concatenate([part.times for part in parts]), payload, *columns, *flags)

    def _columns(self) -> tuple[NDArray[Any] | None, ...]:
        return self.streams, self.keys, self.ends, self.closed, self.gaps, self.edges, self.evaluation

    def _flags(self) -> tuple[NDArray[np.bool_] | None, ...]:
        return self.seen, self.last, self.gone

    def flags(self) -> NDArray[np.uint8]:
        """The flags of each event, as stored."""
        flags = np.zeros(len(self), np.uint8)
        for bit, which in ((SEEN, self.seen), (GONE, self.gone), (LAST, self.last)):
            if which is not None:
                flags |= which * np.uint8(bit)
        return flags


def write_held(writer: SegmentWriter, held: Held, streams: int) -> Ref:
    """Write events as a section of a segment, with their flags where any is set."""
    columns: dict[str, Any] = dict(zip(held.payload.column_names, held.payload.columns, strict=True))
    columns[TIME_COLUMN] = pa.array(held.times)
    given = {
        STREAM_COLUMN: held.streams,
        KEY_COLUMN: held.keys,
        END_COLUMN: held.ends,
        CLOSED_COLUMN: held.closed,
        GAP_COLUMN: held.gaps,
        EDGE_COLUMN: held.edges,
        EVALUATION_COLUMN: held.evaluation,
    }
    columns.update({name: pa.array(array) for name, array in given.items() if array is not None})
    ref = writer.add(pa.table(columns))
    by_stream = tuple(int(count) for count in count_by_stream(held.streams, len(held), streams))
    ref = replace(ref, earliest=int(held.times.min()), latest=int(held.times.max()), by_stream=by_stream)
    flags = held.flags()
    if flags.any():
        ref = flag(writer, ref, flags, held, streams)
    return ref


def flag(writer: SegmentWriter, ref: Ref, flags: NDArray[np.uint8], held: Held, streams: int) -> Ref:
    """Write new flags for the rows of a section; returns the reference with them. ``held`` are all its rows, in
    order."""
    alive, kept = (flags & GONE) == 0, is_kept(flags)
    where = writer.add(pa.table({"flags": pa.array(flags)}))
    times = held.times[alive]
    codes = None if held.streams is None else held.streams[kept]
    return replace(
        ref,
        flags=Flags(where.segment, where.offset, where.length, where.checksum),
        # No window is open because of events kept only for ``expired``.
        earliest=int(times.min()) if len(times) else FOREVER,
        latest=int(times.max()) if len(times) else -FOREVER,
        by_stream=tuple(int(count) for count in count_by_stream(codes, int(np.count_nonzero(kept)), streams)),
    )


def is_kept(flags: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which rows are still needed, be it only to report them as expired."""
    kept: NDArray[np.bool_] = (flags & (GONE | LAST)) != GONE
    return kept


def read_held(store: SegmentStore, ref: Ref) -> tuple[Held, NDArray[np.uint8]]:
    """All rows of a section and the flags of each; rows that are no longer needed are included."""
    table = store.read(ref)
    names = table.column_names
    payload = table.drop_columns([name for name in INNER if name in names])

    def column(name: str) -> Any:
        return table.column(name).to_numpy() if name in names else None

    flags = np.zeros(table.num_rows, np.uint8)
    where = ref.to_flags()
    if where is not None:
        flags = store.read(where).column("flags").to_numpy()
    held = Held(
        column(TIME_COLUMN),
        payload,
        column(STREAM_COLUMN),
        column(KEY_COLUMN),
        column(END_COLUMN),
        column(CLOSED_COLUMN),
        column(GAP_COLUMN),
        column(EDGE_COLUMN),
        column(EVALUATION_COLUMN),
        (flags & SEEN) != 0,
    )
    if (flags & LAST).any():
        held = replace(held, last=(flags & LAST) != 0, gone=(flags & GONE) != 0)
    return held, flags


def live(held: Held, flags: NDArray[np.uint8]) -> Held:
    """The rows that a window may still need."""
    gone = (flags & GONE) != 0
    return held.take(np.flatnonzero(~gone)) if gone.any() else held


def kept(held: Held, flags: NDArray[np.uint8]) -> Held:
    """The rows that are still needed, including those kept only to report them as expired."""
    still = is_kept(flags)
    return held if still.all() else held.take(np.flatnonzero(still))


def _at(column: NDArray[Any] | None, indices: NDArray[np.int64]) -> Any:
    return None if column is None else column[indices]


def _joined(parts: Sequence[NDArray[Any] | None]) -> Any:
    """One column of several parts; None if a part lacks it."""
    if any(part is None for part in parts):
        return None
    return np.concatenate([part for part in parts if part is not None])


def _joined_flags(flags: Sequence[NDArray[np.bool_] | None], parts: Sequence[Held]) -> Any:
    """One flag of several parts, False for a part that lacks it; None if all lack it."""
    if all(flag is None for flag in flags):
        return None
    return np.concatenate(
        [np.zeros(len(part), np.bool_) if flag is None else flag for flag, part in zip(flags, parts, strict=True)]
    )
