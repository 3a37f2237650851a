"""Events as a section of a segment: their columns beside those of time, stream and weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from manager.storage.segments.ref import Ref
from manager.storage.segments.segments import SegmentStore, SegmentWriter
from windowing.data.events import Events

TIME_COLUMN = "_ts"
STREAM_COLUMN = "_stream_code"
WEIGHT_COLUMN = "_weight_"
"""The first letters of columns that say how many events of a stream a row stands for."""


def write_events(writer: SegmentWriter, events: Events, streams: int) -> Ref:
    """Write events, in order of time, as a section."""
    columns: dict[str, Any] = dict(zip(events.payload.schema.names, events.payload.columns, strict=True))
    columns[TIME_COLUMN] = pa.array(events.timestamps)
    if events.streams is not None:
        columns[STREAM_COLUMN] = pa.array(events.streams)
    if events.weights is not None:
        columns |= {f"{WEIGHT_COLUMN}{at}": pa.array(counts) for at, counts in enumerate(events.weights.T)}
    ref = writer.add(pa.table(columns))
    by_stream = tuple(int(count) for count in events.by_stream(streams))
    first, last = int(events.timestamps[0]), int(events.timestamps[-1])
    return replace(ref, earliest_live=first, latest_live=last, by_stream=by_stream)


def read_events(store: SegmentStore, ref: Ref) -> Events:
    """The events of a section that are still needed, in order of time."""
    table = store.read(ref)
    names = table.column_names
    weighing = [name for name in names if name.startswith(WEIGHT_COLUMN)]
    payload = table.drop_columns([name for name in (TIME_COLUMN, STREAM_COLUMN) if name in names] + weighing)
    batches = payload.to_batches()
    batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    streams = table.column(STREAM_COLUMN).to_numpy() if STREAM_COLUMN in names else None
    weights = np.column_stack([table.column(name).to_numpy() for name in weighing]) if weighing else None
    return Events(table.column(TIME_COLUMN).to_numpy(), batch, streams, weights)


def read_queue(store: SegmentStore, refs: Iterable[Ref]) -> Events | None:
    """All events of a queue that are still needed, in order of (time, arrival): the settled ones come first, since none
    that came later is before them. None where there are none."""
    parts = [read_events(store, ref) for ref in refs if ref.needed]
    return Events.concat(parts).sorted() if parts else None
