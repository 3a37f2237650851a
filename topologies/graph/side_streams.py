"""The streams beside a component's output: unreadable rows, late events, and events refused by a rule."""

from __future__ import annotations

import pyarrow as pa

from windowing.data.schema import TIMESTAMP

ERRORS = "errors"
"""The output stream, of every spout and bolt, of what could not be read."""

ERROR_SCHEMA = pa.schema(
    [
        ("_component", pa.string()),
        ("_source", pa.string()),
        ("_row", pa.int64()),
        ("_reason", pa.string()),
        ("_data", pa.string()),
    ]
)

LATE_COLUMNS = (
    pa.field("_stream", pa.string()),
    pa.field("_event_time", TIMESTAMP),
    pa.field("_reason", pa.string()),
    pa.field("_late_by_us", pa.int64()),
    pa.field("_watermark", TIMESTAMP),
    pa.field("_window_start", TIMESTAMP),
    pa.field("_window_end", TIMESTAMP),
)
"""What a late stream carries behind the event's own columns. The window is the last that could have held the event;
where sessions (``by_session``) or sliding logs decide which events are late, it is the one that the event would have
opened."""

REASON = "_reason"
"""What a refused stream carries behind the event's own columns: why the rule of the trigger failed."""
