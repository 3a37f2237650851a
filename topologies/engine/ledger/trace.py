"""Traces of a run: the windows that fired, the decisions about events, and late events, by the ids of the events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from manager.slices.slicing import Joined, Slicing
from topologies.graph.nodes.windowed import WindowedNode
from topologies.graph.origins import shifted
from topologies.graph.streams import ID
from windowing.aggregates.accumulators import State
from windowing.data.events import Events
from windowing.settings.panes import Pane, Timing
from windowing.settings.triggers import CountTrigger, FiredBy, RuleTrigger
from windowing.time.timestamps import FOREVER
from windowing.window import TupleWindow

_IDS = pa.list_(pa.string())
TRACES = {
    "windows": pa.schema(
        [
            ("bolt", pa.string()),
            ("batch", pa.int64()),
            ("due", pa.int64()),
            ("by_clock", pa.bool_()),
            ("task", pa.int64()),
            ("start", pa.int64()),
            ("end", pa.int64()),
            ("events", _IDS),
            ("new", _IDS),
            ("expired", _IDS),
            ("key", pa.string()),
            ("kind", pa.int64()),
            ("pane", pa.string()),
            ("by", pa.string()),
        ]
    ),
    "late": pa.schema([("bolt", pa.string()), ("event", pa.string())]),
    "invalid": pa.schema([("bolt", pa.string()), ("row", pa.int64()), ("reason", pa.string())]),
    "refused": pa.schema([("bolt", pa.string()), ("event", pa.string()), ("reason", pa.string())]),
    "events": pa.schema(
        [
            ("bolt", pa.string()),
            ("seq", pa.int64()),
            ("event", pa.string()),
            ("time", pa.int64()),
            ("decision", pa.string()),
            ("watermark", pa.int64()),
            ("mark", pa.int64()),
        ]
    ),
    "decisions": pa.schema(
        [
            ("bolt", pa.string()),
            ("input", pa.string()),
            ("seq", pa.int64()),
            ("row", pa.int64()),
            ("event", pa.string()),
            ("time", pa.int64()),
            ("assigned", pa.int64()),
            ("decision", pa.string()),
            ("mark", pa.int64()),
            ("reason", pa.string()),
        ]
    ),
}


def event_ids(table: pa.Table) -> list[str | None]:
    """The id of each event; None for one without, and for all events of a stream that has no column of ids."""
    if ID not in table.column_names:
        return [None] * table.num_rows
    return [_id(name) for name in table.column(ID).to_pylist()]


def _id(name: object) -> str | None:
    return None if name is None else str(name)


def due_at(node: WindowedNode, window: TupleWindow) -> int:
    """The watermark, in processing time the clock, from which a fired window was due, in microseconds; FOREVER if only
    the end of its batch made it fire, as before its end or with the end of the streams."""
    settings, pane = node.bolt.settings, window.pane
    if window.fired_by in (FiredBy.CLOSE, FiredBy.ARRIVAL) or (pane is not None and pane.timing is Timing.EARLY):
        return FOREVER
    if window.fired_by is not None and not node.by_policies:
        trigger = settings.key_trigger
        after_last = isinstance(trigger, CountTrigger | RuleTrigger) and not trigger.from_first
        return shifted(window.end_timestamp, int(window.fired_by is FiredBy.TIMEOUT and after_last))
    waits = node.event_time and (pane is None or pane.last)
    allowed = settings.allowed_lateness.micros if waits else 0
    if node.by_policies:
        return node.due_at(window.end_timestamp)
    return shifted(window.end_timestamp, allowed + (node.closes_after_end if node.holds_events else node.due_at(0)))


def window_row(node: WindowedNode, batch: int, window: TupleWindow) -> dict[str, Any]:
    """The trace row of a window that has fired in a batch."""
    pane = window.pane
    return {
        "bolt": node.name,
        "batch": batch,
        "due": due_at(node, window),
        "by_clock": not node.event_time,
        "task": window.task,
        "start": window.start_timestamp,
        "end": window.end_timestamp,
        "events": event_ids(window.table),
        "new": event_ids(window.new),
        "expired": event_ids(window.expired) if window.knows_expired else None,
        "key": None if window.key is None else json.dumps(window.key, default=str),
        "kind": window.kind,
        "pane": None if pane is None else _pane(pane),
        "by": window.fired_by,
    }


def joined_rows(
    node: WindowedNode, batch: int, windows: Sequence[TupleWindow], joined: Joined
) -> Iterator[dict[str, Any]]:
    """The trace rows of windows that are joined from partial sums; ``new`` and ``expired`` are unknown for them.

    Events of equal time and different keys are in order of the key; without ids they are unknown, with their number.
    """
    events: dict[int, list[tuple[int, str | None]]] = {index: [] for index in np.unique(joined.windows).tolist()}
    for index, row_events in zip(joined.windows.tolist(), _traced_events(joined.traced), strict=False):
        events[index].extend(row_events)
    for index, row_events in events.items():
        window = windows[index]
        yield {
            "bolt": node.name, "batch": batch, "due": due_at(node, window), "by_clock": not node.event_time,
            "task": window.task, "start": window.start_timestamp, "end": window.end_timestamp,
            "events": [name for _, name in sorted(row_events, key=itemgetter(0))] if joined.traced else None,
            "new": None, "expired": None, "key": None, "kind": None, "pane": None, "by": None,
        }  # fmt: skip


def summed_ids(slicing: Slicing, rows: Events) -> pa.Table:
    """The ids of the events that folded rows stand for, as a table like that of events."""
    ids = [name for row_events in _traced_events(slicing.traced_states(rows)) for _, name in row_events]
    return pa.table({ID: pa.array(ids, pa.string())})


def _traced_events(state: State | None) -> Iterator[list[tuple[int, str | None]]]:
    """Per row: (time, id) of its events, in order."""
    times, names = state or ([], [])
    for row_times, row_ids in zip(times, names, strict=True):
        yield list(zip(row_times.as_py(), map(_id, row_ids.as_py()), strict=True))


def _pane(pane: Pane) -> str:
    return json.dumps({"index": pane.index, "timing": pane.timing.value, "last": pane.last})
