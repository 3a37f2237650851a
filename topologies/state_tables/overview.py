"""What is known of bolts and their tasks without reading any of their events: accounts, watermarks, counts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa

from manager.storage.manifest import BoltState
from manager.storage.task_state import AssignedState, TaskState, TriggeredState
from policies.marks import NONE
from topologies.state_tables.state_columns import TIME, time_column
from topologies.state_tables.task_reader import TaskReader

_SOURCES = pa.schema(
    [
        ("input", pa.string()),
        ("partition", pa.string()),
        ("watermark", TIME),
        ("latest", TIME),
        ("delivered_at", TIME),
        ("idle", pa.bool_()),
    ]
)


def bolts_table(bolts: Mapping[str, BoltState]) -> pa.Table:
    """A row for each windowed bolt: its tasks, watermark, accounts, windows fired and rows emitted so far."""
    rows = []
    for name, bolt in bolts.items():
        totals = bolt.accounts.totals(sum(bolt.pending))
        emitted = sum(bolt.emitted.values())
        rows.append({"bolt": name, "tasks": len(bolt.tasks), **totals, "windows": bolt.fired, "emitted": emitted})
    names = list(rows[0]) if rows else ["bolt", "tasks"]
    columns = {name: pa.array([row[name] for row in rows], None if name == "bolt" else pa.int64()) for name in names}
    watermarks = time_column([bolt.watermark.current for bolt in bolts.values()])
    return pa.table({"bolt": columns.pop("bolt").cast(pa.string()), "watermark": watermarks, **columns})


def account_table(bolt: BoltState) -> pa.Table:
    """A row for each input of a bolt: received, each account, pending, and what is counted beside them."""
    found = bolt.accounts.of_streams(bolt.pending)
    names = list(next(iter(found.values()), {}))
    counts = {name: pa.array([counts[name] for counts in found.values()], pa.int64()) for name in names}
    return pa.table({"input": pa.array(list(found), pa.string()), **counts})


def task_table(tasks: Sequence[TaskReader]) -> pa.Table:
    """A row for each task: what it holds, its last and next window, what it has done so far."""
    states = [task.state for task in tasks]
    streams = [len(task.bolt.accounts.streams) for task in tasks]
    stored = [sum(ref.needed for ref in state.refs) for state in states]
    pending = [sum(state.pending(count)) for state, count in zip(states, streams, strict=True)]
    return pa.table(
        {
            "task": pa.array([task.number for task in tasks], pa.int32()),
            "stored": pa.array(stored, pa.int64()),
            "pending": pa.array(pending, pa.int64()),
            "last_end": time_column([state.last_end for state in states]),
            "next_due": time_column([_next_due(state) for state in states]),
            "windows": pa.array([state.bolt.fired for state in states], pa.int64()),
            "suppressed": pa.array([state.bolt.suppressed for state in states], pa.int64()),
            "emitted": pa.array([sum(state.bolt.emitted.values()) for state in states], pa.int64()),
            "counters": pa.array([json.dumps(dict(state.bolt.counters)) for state in states], pa.string()),
        }
    )


def watermark_table(bolt: BoltState) -> pa.Table:
    """A row for each input, or partition of one: its own watermark where it has one, the latest time that it has shown,
    the clock when it last delivered, and whether it is left out because it is idle."""
    sources, rows = bolt.watermark.sources, []
    for name in sorted({*bolt.watermark.latest, *sources.marks, *sources.seen_at, *sources.imported}):
        stream, _, partition = name.partition("\t")
        mark = sources.marks.get(name)
        latest = bolt.watermark.latest.get(name, NONE if mark is None else mark.latest)
        own = sources.imported.get(name, NONE if mark is None else mark.mark)
        rows.append((stream, partition or None, own, latest, sources.seen_at.get(name), name in sources.idle))
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in _SOURCES]
    times = {"watermark", "latest", "delivered_at"}
    arrays = [
        time_column(column) if field.name in times else pa.array(column, field.type)
        for field, column in zip(_SOURCES, columns, strict=True)
    ]
    return pa.table(arrays, schema=_SOURCES)


def _next_due(state: TaskState) -> int | None:
    match state.windows:
        case AssignedState(next_end=due) | TriggeredState(next_due=due):
            return due
    return None
