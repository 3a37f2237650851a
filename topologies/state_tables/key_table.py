"""What a bolt keeps of keys apart from their events: watermarks, timers, caches of rules, last windows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from manager.keyed.held_segments import END_COLUMN, KEY_COLUMN
from manager.keyed.key_states import CACHE_COLUMN, RECORD_COLUMNS
from manager.keyed.substreams import MARK_COLUMN, PREVIOUS_COLUMN
from manager.own_policies.unit import UnitRecord
from manager.storage.task_state import AssignedState, PolicyState, TriggeredState
from topologies.state_tables.state_columns import TIME, beside, beside_none, joined, time_column
from topologies.state_tables.task_reader import TaskReader
from windowing.time.timestamps import show

_OWN = pa.schema(
    [
        ("task", pa.int32()),
        ("key_hash", pa.int64()),
        ("watermark", TIME),
        ("last_end", TIME),
        ("timer", TIME),
        ("empty", pa.int64()),
        ("time_of_day", pa.string()),
        ("cache", pa.string()),
    ]
)
_POLICIES = pa.schema(
    [
        ("task", pa.int32()),
        ("key_hash", pa.int64()),
        ("events", pa.int64()),
        ("time", TIME),
        ("fired", TIME),
        ("events_since", pa.int64()),
        ("next_moment", TIME),
        ("trigger", pa.string()),
        ("eviction", pa.string()),
    ]
)
_DAY = 86_400_000_000


def key_table(tasks: Sequence[TaskReader], keys: pa.Schema) -> pa.Table:
    """A row for each key and kind of record; ``keys`` are the columns of the key.

    ``watermark`` where each key has one; ``last_end``, the end of the last window that held an event, where windows
    without events fire; ``timer``, ``empty``, ``time_of_day`` and ``cache`` (JSON) of triggers and rules of steps.
    """
    found = [part for task in tasks for part in _parts(task)]
    return joined(found, beside_none(_OWN, keys, "key."))


def policy_tables(tasks: Sequence[TaskReader], keys: pa.Schema) -> dict[str, pa.Table]:
    """``policies``, for a bolt with policies of a user's own: a row for each task, or for each key.

    ``events`` have been told, up to the ``time``; ``fired`` is the end of the window that the trigger fired last, and
    ``events_since`` have been told after it; ``next_moment`` is what the trigger has asked for. ``trigger`` and
    ``eviction`` are the states of the two policies, as JSON.
    """
    if not any(isinstance(task.state.windows, PolicyState) for task in tasks):
        return {}
    found = [part for task in tasks for part in [_policies(task)] if part is not None]
    return {"policies": joined(found, beside_none(_POLICIES, keys, "key."))}


def unit_records(task: TaskReader) -> list[UnitRecord]:
    """What is kept of a task, or of each of its keys, for policies of a user's own, in stored order."""
    table = task.table(task.state.windows.keys) if isinstance(task.state.windows, PolicyState) else None
    return [] if table is None else [UnitRecord.from_text(text) for text in table.column(CACHE_COLUMN).to_pylist()]


def _policies(task: TaskReader) -> pa.Table | None:
    assert isinstance(task.state.windows, PolicyState)
    table, records = task.table(task.state.windows.keys), unit_records(task)
    if table is None:
        return None
    hashes = table.column(KEY_COLUMN) if any(task.timing.keys) else pa.nulls(len(records), pa.int64())
    own: dict[str, Any] = {
        "task": pa.array([task.number] * len(records), pa.int32()),
        "key_hash": hashes,
        "events": pa.array([each.count for each in records], pa.int64()),
        "time": time_column([each.time for each in records]),
        "fired": time_column([each.fired for each in records]),
        "events_since": pa.array([each.count - each.fired_count for each in records], pa.int64()),
        "next_moment": time_column([each.next_moment for each in records]),
        "trigger": pa.array([json.dumps(each.trigger) for each in records], pa.string()),
        "eviction": pa.array([json.dumps(each.eviction) for each in records], pa.string()),
    }
    return beside(own, table.drop_columns([KEY_COLUMN, *RECORD_COLUMNS]), "key.")


def _parts(task: TaskReader) -> list[pa.Table]:
    match task.state.windows:
        case AssignedState() as state:
            found = [_marks(task, task.table(state.keys)), _known(task, task.table(state.known))]
        case PolicyState():
            found = []
        case TriggeredState() as state:
            found = [_records(task, task.table(state.keys))]
        case _:
            found = []
    return [part for part in found if part is not None]


def _marks(task: TaskReader, table: pa.Table | None) -> pa.Table | None:
    if table is None:
        return None
    marks = {"watermark": time_column(table.column(MARK_COLUMN).to_numpy())}
    keys = table.drop_columns([KEY_COLUMN, MARK_COLUMN, PREVIOUS_COLUMN])
    return beside(_own(task, table.column(KEY_COLUMN).to_numpy(), marks), keys, "key.")


def _known(task: TaskReader, table: pa.Table | None) -> pa.Table | None:
    if table is None:
        return None
    ends = {"last_end": time_column(table.column(END_COLUMN).to_numpy())}
    keys = table.drop_columns([KEY_COLUMN, END_COLUMN])
    return beside(_own(task, table.column(KEY_COLUMN).to_numpy(), ends), keys, "key.")


def _records(task: TaskReader, table: pa.Table | None) -> pa.Table | None:
    if table is None:
        return None
    timer, empty, micros, zone, cache = (table.column(name) for name in RECORD_COLUMNS)
    days = [_day(of_day, where) for of_day, where in zip(micros.to_pylist(), zone.to_pylist(), strict=True)]
    given = {
        "timer": time_column(timer.to_numpy()),
        "empty": empty.combine_chunks(),
        "time_of_day": pa.array(days, pa.string()),
        "cache": pa.array([text or None for text in cache.to_pylist()], pa.string()),
    }
    keys = table.drop_columns([KEY_COLUMN, *RECORD_COLUMNS])
    return beside(_own(task, table.column(KEY_COLUMN).to_numpy(), given), keys, "key.")


def _own(task: TaskReader, hashes: Any, given: dict[str, pa.Array]) -> dict[str, pa.Array]:
    count = len(hashes)
    own = {"task": pa.array(np.full(count, task.number, np.int32)), "key_hash": pa.array(hashes, pa.int64())}
    return {column.name: own.get(column.name, given.get(column.name, pa.nulls(count, column.type))) for column in _OWN}


def _day(micros: int | None, zone: str | None) -> str | None:
    if micros is None:
        return None
    return f"{show(micros % _DAY).partition('T')[2].removesuffix('Z')} {zone or 'UTC'}"
