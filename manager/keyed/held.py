"""The events of a task whose windows are assigned: columns, what has become of each, and how they lie in segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.storage.segments import STREAM_COLUMN, TIME_COLUMN, Flags, Ref, SegmentStore, SegmentWriter
from manager.storage.taking import taken
from windowing.events import count_by_stream
from windowing.order import group_numbers, hash_order, is_sorted, order_within, stable_order
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEY_COLUMN, END_COLUMN, CLOSED_COLUMN, GAP_COLUMN = "_key_hash", "_end", "_closed", "_gap"
EDGE_COLUMN, EVALUATION_COLUMN = "_edge", "_born"
INNER = (TIME_COLUMN, STREAM_COLUMN, KEY_COLUMN, END_COLUMN, CLOSED_COLUMN, GAP_COLUMN, EDGE_COLUMN, EVALUATION_COLUMN)
"""Columns of segments that are windbolt's own."""

SEEN, GONE, LAST = 1, 2, 4
"""Flags of an event: it has been in a window; no window needs it any more; it is in the window of its key that fired
last, and kept until the next one has told what has expired (only where a bolt asks for that)."""


@dataclass(frozen=True, slots=True)
class Held:
    """Events in one order; times in microseconds, arrays of equal length, None where there is nothing to say."""

    times: NDArray[np.int64]
    payload: pa.Table
    streams: NDArray[np.int8] | None = None
    keys: NDArray[np.int64] | None = None
    """A hash of the key of each."""
    ends: NDArray[np.int64] | None = None
    """Where lifetimes end."""
    closed: NDArray[np.int64] | None = None
    """Windows up to here were over when the event came."""
    gaps: NDArray[np.int64] | None = None
    edges: NDArray[np.int64] | None = None
    """What the start and the end of an edge have in common: a hash."""
    evaluation: NDArray[np.int64] | None = None
    """The number of the evaluation before which each was let in, where windows fire more than once."""
    seen: NDArray[np.bool_] | None = None
    """Whether it has been in a window."""
    last: NDArray[np.bool_] | None = None
    """Whether it is in the window of its key that fired last."""
    gone: NDArray[np.bool_] | None = None
    """Whether it is kept for that alone."""

    def __len__(self) -> int:
        return len(self.times)

    def take(self, at: NDArray[np.int64]) -> Held:
        """The events at these places."""
        columns = (*self._columns(), *self._flags())
        return Held(self.times[at], taken(self.payload, at), *(_at(each, at) for each in columns))

    def bare(self, at: NDArray[np.int64]) -> Held:
        """The keys and times of the events at these places, without their columns."""
        return Held(self.times[at], self.payload.select([]), keys=_at(self.keys, at))

    def sorted(self) -> Held:
        """The events by key, then time, those that are equal in both in their present order."""
        order = self.order()
        return self if order is None else self.take(order)

    def order(self) -> NDArray[np.int64] | None:
        """The places of the events by (key, time, place); None where they are in that order."""
        if self.keys is None:
            return None if is_sorted(self.times) else stable_order(self.times)
        same = self.keys[1:] == self.keys[:-1]
        if bool(((self.keys[1:] > self.keys[:-1]) | (same & (self.times[1:] >= self.times[:-1]))).all()):
            return None
        by_key = hash_order(self.keys)
        return by_key[order_within(group_numbers(self.keys[by_key]), self.times[by_key])]

    @staticmethod
    def concat(parts: Sequence[Held]) -> Held:
        """All events of the parts, one part after the other."""
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
        """What has become of each, as it is written."""
        flags = np.zeros(len(self), np.uint8)
        for bit, which in ((SEEN, self.seen), (GONE, self.gone), (LAST, self.last)):
            if which is not None:
                flags |= which * np.uint8(bit)
        return flags


def write_held(writer: SegmentWriter, held: Held, streams: int) -> Ref:
    """Write events as a section; those of them that have been in a window are flagged."""
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
    """The reference with what has become of each of its rows; ``held`` are all of its rows, in order."""
    alive, kept = (flags & GONE) == 0, is_kept(flags)
    where = writer.add(pa.table({"flags": pa.array(flags)}))
    times = held.times[alive]
    codes = None if held.streams is None else held.streams[kept]
    return replace(
        ref,
        flags=Flags(where.segment, where.offset, where.length, where.checksum),
        # No window is open because of what is kept for ``expired`` alone.
        earliest=int(times.min()) if len(times) else FOREVER,
        latest=int(times.max()) if len(times) else -FOREVER,
        by_stream=tuple(int(count) for count in count_by_stream(codes, int(np.count_nonzero(kept)), streams)),
    )


def is_kept(flags: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which rows are still needed, be it only to say what has expired."""
    kept: NDArray[np.bool_] = (flags & (GONE | LAST)) != GONE
    return kept


def read_held(store: SegmentStore, ref: Ref) -> tuple[Held, NDArray[np.uint8]]:
    """All rows of a section, and the flags of each, those that are gone too."""
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
    """Those, and the rows that are in the window of their key that fired last."""
    still = is_kept(flags)
    return held if still.all() else held.take(np.flatnonzero(still))


def _at(column: NDArray[Any] | None, at: NDArray[np.int64]) -> Any:
    return None if column is None else column[at]


def _joined(parts: Sequence[NDArray[Any] | None]) -> Any:
    """One column of several parts; where one says nothing, the others do not either."""
    if any(part is None for part in parts):
        return None
    return np.concatenate([part for part in parts if part is not None])


def _joined_flags(flags: Sequence[NDArray[np.bool_] | None], parts: Sequence[Held]) -> Any:
    """One flag of several parts; of a part that says nothing it is not so."""
    if all(flag is None for flag in flags):
        return None
    return np.concatenate(
        [np.zeros(len(part), np.bool_) if flag is None else flag for flag, part in zip(flags, parts, strict=True)]
    )
