"""How held events are stored in segments: their columns, and a flag for each that can be rewritten."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.keyed.held import GONE, LAST, SEEN, Held, is_needed
from manager.storage.segments.event_segments import STREAM_COLUMN, TIME_COLUMN
from manager.storage.segments.ref import Flags, Ref
from manager.storage.segments.segments import SegmentStore, SegmentWriter
from windowing.data.events import count_by_stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEY_COLUMN, END_COLUMN, GAP_COLUMN, EDGE_COLUMN = "_key_hash", "_end", "_gap", "_edge"

STORED_AS = {
    "streams": STREAM_COLUMN,
    "keys": KEY_COLUMN,
    "ends": END_COLUMN,
    "closed_until": "_closed_until",
    "gaps": GAP_COLUMN,
    "edges": EDGE_COLUMN,
    "evaluation": "_evaluation",
}
"""The column of a segment for each column of held events."""

INNER = (TIME_COLUMN, *STORED_AS.values())
"""Columns that windbolt adds to segments."""


def write_held(writer: SegmentWriter, held: Held, streams: int) -> Ref:
    """Write events as a section of a segment, with their flags where any is set."""
    columns: dict[str, Any] = dict(zip(held.payload.column_names, held.payload.columns, strict=True))
    columns[TIME_COLUMN] = pa.array(held.times)
    given = {stored: getattr(held, name) for name, stored in STORED_AS.items()}
    columns.update({stored: pa.array(array) for stored, array in given.items() if array is not None})
    ref = writer.add(pa.table(columns))
    by_stream = tuple(int(count) for count in count_by_stream(held.streams, len(held), streams))
    ref = replace(ref, earliest_live=int(held.times.min()), latest_live=int(held.times.max()), by_stream=by_stream)
    flags = held.flags()
    if flags.any() or held.numbers is not None:
        ref = flag(writer, ref, flags, held, streams)
    return ref


def flag(writer: SegmentWriter, ref: Ref, flags: NDArray[np.uint8], held: Held, streams: int) -> Ref:
    """Write new flags, and the numbers, for the rows of a section; returns the reference with them. ``held`` are all
    its rows, in order."""
    live, needed = (flags & GONE) == 0, is_needed(flags)
    columns = {"flags": pa.array(flags)}
    if held.numbers is not None:
        columns["numbers"] = pa.array(held.numbers)
    where = writer.add(pa.table(columns))
    times = held.times[live]
    codes = None if held.streams is None else held.streams[needed]
    return replace(
        ref,
        flags=Flags(where.segment, where.offset, where.length, where.checksum),
        earliest_live=int(times.min()) if len(times) else None,
        latest_live=int(times.max()) if len(times) else None,
        by_stream=tuple(int(count) for count in count_by_stream(codes, int(np.count_nonzero(needed)), streams)),
    )


def read_held(store: SegmentStore, ref: Ref) -> tuple[Held, NDArray[np.uint8]]:
    """All rows of a section and the flags of each; rows that are no longer needed are included."""
    table = store.read(ref)
    names = table.column_names
    payload = table.drop_columns([name for name in INNER if name in names])

    def column(name: str) -> Any:
        return table.column(name).to_numpy() if name in names else None

    flags, numbers = np.zeros(table.num_rows, np.uint8), None
    where = ref.to_flags()
    if where is not None:
        beside = store.read(where)
        flags = beside.column("flags").to_numpy()
        numbers = beside.column("numbers").to_numpy() if "numbers" in beside.column_names else None
    given = {name: column(stored) for name, stored in STORED_AS.items()} | {"numbers": numbers}
    held = Held(times=column(TIME_COLUMN), payload=payload, **given, seen=(flags & SEEN) != 0)
    if (flags & LAST).any():
        held = replace(held, last=(flags & LAST) != 0, gone=(flags & GONE) != 0)
    return held, flags


def read_needed(store: SegmentStore, ref: Ref) -> tuple[Held, NDArray[np.uint8]]:
    """The rows of a section that are still needed, and the flags of each."""
    held, flags = read_held(store, ref)
    needed = np.flatnonzero(is_needed(flags))
    return held.take(needed), flags[needed]
