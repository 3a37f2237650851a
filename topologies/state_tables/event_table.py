"""The stored events of a bolt as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from topologies.state_tables.state_columns import TIME, beside, beside_none, joined, time_column
from topologies.state_tables.task_reader import EventRows, TaskReader

_OWN = pa.schema(
    [
        ("task", pa.int32()),
        ("input", pa.string()),
        ("time", TIME),
        ("events", pa.int64()),
        ("pending", pa.int64()),
        ("waits_for_start", pa.bool_()),
    ]
)


def event_table(tasks: Iterable[TaskReader], streams: Sequence[str], columns: pa.Schema) -> pa.Table:
    """A row for each stored event, or for each partial sum of several.

    ``events`` says for how many a row stands, ``pending`` how many of these are in no window yet. ``lifetime_end`` is
    there where events have lifetimes. ``columns`` are the user's; of sums those of the key.
    """
    parts = [_part(task.number, rows, streams) for task in tasks for rows in task.rows if len(rows)]
    return joined(parts, beside_none(_OWN, columns))


def _part(task: int, rows: EventRows, streams: Sequence[str]) -> pa.Table:
    count = len(rows)
    codes = np.zeros(count, np.int8) if rows.streams is None else rows.streams
    names = pa.array(list(streams), pa.string())
    own = {
        "task": pa.array(np.full(count, task, np.int32)),
        "input": names.take(pa.array(codes, pa.int8(), mask=codes < 0)),
        "time": time_column(rows.times),
        "events": pa.array(rows.counts),
        "pending": pa.array(rows.pending),
        "waits_for_start": pa.array(np.full(count, rows.edge, np.bool_)),
    }
    if rows.ends is not None:
        own["lifetime_end"] = time_column(rows.ends)
    return beside(own, rows.payload)
