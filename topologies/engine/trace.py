"""What a watched run notes: the windows that fired and the late events, by the ids of their events."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from windowing.panes import Pane
from windowing.window import TupleWindow

ID = "id"
"""Events are known by this column, where their stream has it."""

_IDS = pa.list_(pa.string())
TRACES = {
    "windows": pa.schema(
        [
            ("bolt", pa.string()),
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
    "events": pa.schema(
        [
            ("bolt", pa.string()),
            ("seq", pa.int64()),
            ("event", pa.string()),
            ("time", pa.int64()),
            ("action", pa.string()),
            ("watermark", pa.int64()),
            ("mark", pa.int64()),
        ]
    ),
}


def event_ids(table: pa.Table) -> list[str]:
    """The ids of events; empty where their stream has none."""
    if ID not in table.column_names:
        return []
    return [str(name) for name in table.column(ID).to_pylist()]


def window_row(bolt: str, window: TupleWindow) -> dict[str, Any]:
    """A window as it is noted."""
    pane = window.pane
    return {
        "bolt": bolt,
        "task": window.task,
        "start": window.start_timestamp,
        "end": window.end_timestamp,
        "events": event_ids(window.table),
        "new": event_ids(window.new),
        "expired": event_ids(window.expired) if window.knows_expired else [],
        "key": None if window.key is None else json.dumps(window.key, default=str),
        "kind": window.kind,
        "pane": None if pane is None else _pane(pane),
        "by": window.fired_by,
    }


def _pane(pane: Pane) -> str:
    return json.dumps({"index": pane.index, "timing": pane.timing.value, "last": pane.last})
