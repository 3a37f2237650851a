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
        ("row", pa.int64()),
        ("input", pa.string()),
        ("time", TIME),
        ("events", pa.int64()),
        ("pending", pa.int64()),
        ("waits_for_start", pa.bool_()),
    ]
)


def event_table(tasks: Iterable[TaskReader], streams: Sequence[str], columns: pa.Schema) -> pa.Table:
    """A row for each stored event, or for each partial sum of several.

    ``row`` numbers what a task stores, in the order in which its parts are named and read: by it an event of this batch
    is known again. ``events`` says for how many a row stands, ``pending`` how many of these are in no window yet.
    ``lifetime_end`` is there where events have lifetimes. ``columns`` are the user's; of sums those of the key.
    """
    parts = []
    for task in tasks:
        first = 0
        for rows in task.rows:
            if len(rows):
                parts.append(_part(task.number, first, rows, streams))
            first += len(rows)
    return joined(parts, beside_none(_OWN, columns))


def own_columns(rows: EventRows) -> list[str]:
    """The columns of the table that are windbolt's, of these rows; one of the user's of such a name has a prefix."""
    return [*_OWN.names, *(["lifetime_end"] if rows.ends is not None else [])]


def _part(task: int, first: int, rows: EventRows, streams: Sequence[str]) -> pa.Table:
    count = len(rows)
    codes = np.zeros(count, np.int8) if rows.streams is None else rows.streams
    names = pa.array(list(streams), pa.string())
    own = {
        "task": pa.array(np.full(count, task, np.int32)),
        "row": pa.array(np.arange(first, first + count)),
        "input": names.take(pa.array(codes, pa.int8(), mask=codes < 0)),
        "time": time_column(rows.times),
        "events": pa.array(rows.counts),
        "pending": pa.array(rows.pending),
        "waits_for_start": pa.array(np.full(count, rows.edge, np.bool_)),
    }
    if rows.ends is not None:
        own["lifetime_end"] = time_column(rows.ends)
    return beside(own, rows.payload)
