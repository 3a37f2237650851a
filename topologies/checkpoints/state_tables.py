"""``windbolt.state``: the content of a checkpoint as tables, without the topology."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from manager.keyed.fired_windows import PaneStates
from manager.keyed.key_states import CACHE_COLUMN, MARK_COLUMN, PREVIOUS_COLUMN, RECORD_COLUMNS
from manager.keyed.retained_events import END_COLUMN, RetainedEvents
from manager.policy_walks import UnitRecord
from manager.storage.checkpoint import read_manifest
from manager.storage.files import UNREADABLE
from manager.storage.manifest import BoltState, Manifest, batch_key, batch_name, key_of_batch_name
from manager.storage.segment_files import FileSegments
from manager.storage.segments import KEY_COLUMN
from manager.watermarks import input_of, shown_partition
from policies.watermarks import NONE
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.savepoint import begin_with
from topologies.checkpoints.stored_tasks import (
    TIME,
    EventRows,
    Selection,
    StoredState,
    TaskReader,
    combine_columns,
    combined_schema,
    evaluated_span,
    join_tables,
    key_columns,
    time_column,
    windows_of,
)
from topologies.checkpoints.topology_fit import checkpoint_at, require_rules, rules_of, the_only_bolt
from topologies.engine.event_times import as_moment
from topologies.graph.bolt_rules import BoltRules
from topologies.graph.graph import STATE_COLUMN, state_column
from topologies.run.clock import system_clock
from topologies.run.options import check_built
from windowing.calls import checked
from windowing.columns import take_rows
from windowing.errors import CheckpointError, ConfigError
from windowing.schema import read_written_schema
from windowing.settings.rules import Bounds
from windowing.timestamps import FOREVER, show

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topologies.graph.graph import Graph


# The stored events of a bolt as a table.


_EVENT_COLUMNS = pa.schema(
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
    """Returns a row for each stored event, or for each partial sum of several events.

    ``row`` numbers the rows that a task stores, in the order of its parts, and identifies an event in this batch.
    ``events`` is the number of events in a row, ``pending`` the number of those that are in no window yet.
    ``lifetime_end`` is a column if events have lifetimes. ``columns``: the user's columns; for sums, the key columns.
    """
    parts = []
    for task in tasks:
        first_row = 0
        for rows in task.rows:
            if len(rows):
                parts.append(_event_rows(task.number, first_row, rows, streams))
            first_row += len(rows)
    return join_tables(parts, combined_schema(_EVENT_COLUMNS, columns))


def own_columns(rows: EventRows) -> list[str]:
    """Returns the columns of the table that are windbolt's; a user's column with such a name gets a prefix."""
    return [*_EVENT_COLUMNS.names, *(["lifetime_end"] if rows.ends is not None else [])]


def _event_rows(task: int, first_row: int, rows: EventRows, streams: Sequence[str]) -> pa.Table:
    count = len(rows)
    codes = np.zeros(count, np.int8) if rows.streams is None else rows.streams
    names = pa.array(list(streams), pa.string())
    windbolt_columns = {
        "task": pa.array(np.full(count, task, np.int32)),
        "row": pa.array(np.arange(first_row, first_row + count)),
        "input": names.take(pa.array(codes, pa.int8(), mask=codes < 0)),
        "time": time_column(rows.times),
        "events": pa.array(rows.counts),
        "pending": pa.array(rows.pending),
        "waits_for_start": pa.array(np.full(count, rows.edge, np.bool_)),
    }
    if rows.ends is not None:
        windbolt_columns["lifetime_end"] = time_column(rows.ends)
    return combine_columns(windbolt_columns, rows.payload)


# State of tasks besides their events, as tables: state of keys, of policies, of a bolt's code, and for retracting.


_KEY_COLUMNS = pa.schema(
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
_POLICY_COLUMNS = pa.schema(
    [
        ("task", pa.int32()),
        ("key_hash", pa.int64()),
        ("events", pa.int64()),
        ("time", TIME),
        ("fired", TIME),
        ("events_since", pa.int64()),
        ("next_moment", TIME),
        ("forgotten_at", TIME),
        ("trigger", pa.string()),
        ("eviction", pa.string()),
        ("eviction_events", pa.int64()),
    ]
)
_VALUE_COLUMNS = pa.schema([("task", pa.int32()), ("name", pa.string()), ("value", pa.string())])
_DAY = 86_400_000_000

View = Callable[[TaskReader, str, pa.Table], Iterator[tuple[str, pa.Table]]]
"""Makes tables for users from stored rows: parts of tables, each with the name of its table. If a field has several
tables of rows, these have names."""


def tables_of_state(tasks: Sequence[TaskReader], keys: pa.Schema, *only: str) -> dict[str, pa.Table]:
    """Returns the tables of the state of tasks, as its fields are declared. ``keys``: the key columns. ``only``: return
    only tables with these names (``_VIEWS``).

    Table ``keys``: a row for each key and kind of record. Columns: ``watermark``, if each key has one; ``last_end``,
    the end of the last window with an event, if windows without events fire; ``timer``, ``empty``, ``time_of_day`` and
    ``cache`` (JSON) of triggers and rules of steps.

    Table ``policies``, for a bolt with users' policies: a row for each task, or for each key. ``events`` have been
    tracked, up to the ``time``. ``fired`` is the end of the window that the trigger last fired, and ``events_since``
    have been tracked after it. ``next_moment`` is the next moment that the trigger has requested. At ``forgotten_at``
    the whole row is forgotten, unless an event comes before (``forget_after``). ``trigger`` and ``eviction`` are the
    states of the two policies, as JSON. The eviction policy tracks events when a window fires; so far
    ``eviction_events``.

    Table ``state``: a row for each value that is not a table, as JSON. ``state.NAME``: a table of a stateful bolt.
    ``retractable.STREAM``: the rows of firings that a later firing may retract.
    """
    columns = {
        "keys": combined_schema(_KEY_COLUMNS, keys, "key."),
        "policies": combined_schema(_POLICY_COLUMNS, keys, "key."),
        "state": _VALUE_COLUMNS,
    }
    found: dict[str, list[pa.Table]] = {"keys": []}
    for task in tasks:
        for state in (task.state.windows, task.state.bolt):
            if "units" in state.fields_by_name():
                found.setdefault("policies", [])
            for each in state.rows():
                shown = state.declarations()[each.field].shown_name
                if shown in _VIEWS and (not only or shown in only):
                    for name, rows in _VIEWS[shown](task, each.key, task.store.read(each.ref)):
                        found.setdefault(name, []).append(rows)
    if any(name.startswith("state.") for name in found):
        found.setdefault("state", [])
    names = [*(name for name in columns if name in found), *sorted(found.keys() - columns.keys())]
    return {
        name: join_tables(found[name], columns[name] if name in columns else found[name][0].schema) for name in names
    }


def _policy_records(task: TaskReader, _: str, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    records = [UnitRecord.from_text(text) for text in table.column(CACHE_COLUMN).to_pylist()]
    hashes = table.column(KEY_COLUMN) if any(task.rules.keys) else pa.nulls(len(records), pa.int64())
    windbolt_columns: dict[str, Any] = {
        "task": pa.array([task.number] * len(records), pa.int32()),
        "key_hash": hashes,
        "events": pa.array([each.count for each in records], pa.int64()),
        "time": time_column([each.time for each in records]),
        "fired": time_column([each.fired for each in records]),
        "events_since": pa.array([each.count - each.fired_count for each in records], pa.int64()),
        "next_moment": time_column([each.next_moment for each in records]),
        "forgotten_at": time_column([_forgotten_at(each, task.rules.forget_after) for each in records]),
        "trigger": pa.array([json.dumps(each.trigger) for each in records], pa.string()),
        "eviction": pa.array([json.dumps(each.eviction) for each in records], pa.string()),
        "eviction_events": pa.array([each.tracked for each in records], pa.int64()),
    }
    yield "policies", combine_columns(windbolt_columns, table.drop_columns([KEY_COLUMN, *RECORD_COLUMNS]), "key.")


def _forgotten_at(record: UnitRecord, after: int | None) -> int | None:
    return None if after is None or record.last_event_time is None else record.last_event_time + after


def _marks(task: TaskReader, _: str, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yields the watermarks of keys; none is below the bound by arrivals."""
    marks = np.maximum(table.column(MARK_COLUMN).to_numpy(), task.state.key_floor)
    yield "keys", _key_rows(task, table, {"watermark": time_column(marks)}, MARK_COLUMN, PREVIOUS_COLUMN)


def _last_ends(task: TaskReader, _: str, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    ends = time_column(table.column(END_COLUMN).to_numpy())
    yield "keys", _key_rows(task, table, {"last_end": ends}, END_COLUMN)


def _records(task: TaskReader, _: str, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    timer, empty, micros, zone, cache = (table.column(name) for name in RECORD_COLUMNS)
    days = [_day(of_day, where) for of_day, where in zip(micros.to_pylist(), zone.to_pylist(), strict=True)]
    shown_columns = {
        "timer": time_column(timer.to_numpy()),
        "empty": empty.combine_chunks(),
        "time_of_day": pa.array(days, pa.string()),
        "cache": pa.array([text or None for text in cache.to_pylist()], pa.string()),
    }
    yield "keys", _key_rows(task, table, shown_columns, *RECORD_COLUMNS)


def _key_rows(task: TaskReader, table: pa.Table, shown_columns: Mapping[str, pa.Array], *hidden: str) -> pa.Table:
    """Returns rows of the table of keys: some of its columns, and the key columns."""
    count = table.num_rows
    windbolt_columns = {
        "task": pa.array(np.full(count, task.number, np.int32)),
        "key_hash": table.column(KEY_COLUMN),
        **shown_columns,
    }
    columns = {column.name: windbolt_columns.get(column.name, pa.nulls(count, column.type)) for column in _KEY_COLUMNS}
    return combine_columns(columns, table.drop_columns([KEY_COLUMN, *hidden]), "key.")


def _day(micros: int | None, zone: str | None) -> str | None:
    if micros is None:
        return None
    return f"{show(micros % _DAY).partition('T')[2].removesuffix('Z')} {zone or 'UTC'}"


def _states(task: TaskReader, _: str, stored: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yields the states of the keys of a bolt without windows. ``state`` has a row for each value of a key that is not
    a table; each table in a state gets a table of its own, with the key of each row."""
    keys = stored.select([name for name in stored.column_names if not _is_own(name)])
    values = [json.loads(text) for text in stored.column(STATE_COLUMN).to_pylist()]
    rows = np.repeat(np.arange(len(values)), [len(each) for each in values])
    windbolt_columns = {
        "task": pa.array(np.full(len(rows), task.number, np.int32)),
        "name": pa.array([name for each in values for name in each], pa.string()),
        "value": pa.array(
            [json.dumps(value, ensure_ascii=False) for each in values for value in each.values()], pa.string()
        ),
    }
    yield "state", combine_columns(windbolt_columns, take_rows(keys, rows), "key.")
    for name in stored.column_names:
        if name.startswith(state_column("")):
            lists = stored.column(name).combine_chunks()
            rows = pc.list_parent_indices(lists).to_numpy()
            table = pa.Table.from_struct_array(lists.flatten())
            of_keys = take_rows(keys, rows)
            columns = dict(zip(table.column_names, table.columns, strict=True))
            yield (
                f"state.{name.removeprefix(state_column(''))}",
                _with_task(task.number, combine_columns(columns, of_keys, "key.")),
            )


def _is_own(name: str) -> bool:
    return name in (KEY_COLUMN, STATE_COLUMN) or name.startswith(state_column(""))


def _with_task(number: int, table: pa.Table) -> pa.Table:
    return combine_columns({"task": pa.array(np.full(table.num_rows, number, np.int32))}, table, "state.")


def _values(number: int, values: dict[str, object]) -> pa.Table:
    texts = [json.dumps(value, ensure_ascii=False) for value in values.values()]
    numbers = np.full(len(texts), number, np.int32)
    return pa.table([numbers, list(values), texts], schema=_VALUE_COLUMNS)


def _users_state(task: TaskReader, key: str, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yields the state of a stateful bolt: one of its tables, or its values that are not tables."""
    if key:
        yield f"state.{key}", _with_task(task.number, table)
    else:
        yield "state", _values(task.number, json.loads(table.column("json")[0].as_py()))


def _retractable(task: TaskReader, key: str, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    yield f"retractable.{key}", _with_task(task.number, table)


_VIEWS: Mapping[str, View] = {
    "marks": _marks,
    "known": _last_ends,
    "records": _records,
    "units": _policy_records,
    "states": _states,
    "user": _users_state,
    "retractable": _retractable,
}
"""The views, by the names in the declarations of fields."""


# A bolt's open windows as a table: windows that hold events and have yet to fire for the last time.


_WINDOW_COLUMNS = pa.schema(
    [
        ("task", pa.int32()),
        ("kind", pa.int32()),
        ("start", TIME),
        ("end", TIME),
        ("events", pa.int64()),
        ("firings", pa.int64()),
    ]
)


def window_table(tasks: Sequence[TaskReader], clock: int | None, keys: pa.Schema) -> pa.Table:
    """Returns a row for each open window.

    ``kind``: the window's index among the bolt's kinds of windows. ``firings``: how often it has fired. ``end`` is null
    if events decide when it fires, ``start`` if the window counts events. Count windows without a key, and windows of
    users' policies, are missing: their events are known only when they fire. ``keys``: the key columns.
    """
    found = [part for task in tasks for part in _OPEN_WINDOWS.get(task.state.windows.family, _no_windows)(task, clock)]
    return join_tables(found, combined_schema(_WINDOW_COLUMNS, keys, "key."))


def _windows_of_queue(task: TaskReader, clock: int | None) -> Iterator[pa.Table]:
    rules, last_end = task.rules, task.state.last_end
    if rules.length is None or rules.slide is None or not task.rows:
        return
    times = np.concatenate([rows.times for rows in task.rows])
    counts = np.concatenate([rows.counts for rows in task.rows])
    order = np.argsort(times, kind="stable")
    times, so_far = times[order], np.concatenate([[0], np.cumsum(counts[order])])
    watermark = task.bolt.watermark
    now = watermark.current if rules.event_time else clock
    evaluated_until = max(
        NONE if now is None else now - rules.past_end,
        NONE if watermark.idle_closed_until is None else watermark.idle_closed_until,
        NONE if last_end is None else last_end,
    )
    # Each event adds the ends of its windows that no earlier event has: times without events cost nothing.
    slide, offset, timed = rules.slide, rules.offset % rules.slide, times[times < FOREVER - rules.length - rules.slide]
    evaluated_until = min(evaluated_until, FOREVER - slide)
    first_ends = rules.bounds.first_end(timed, slide, offset)
    last_ends = rules.bounds.last_end(timed, rules.length, slide, offset)
    if evaluated_until > NONE:
        first_ends = np.maximum(first_ends, Bounds.START.first_end(np.array([evaluated_until]), slide, offset))
    first_ends[1:] = np.maximum(first_ends[1:], last_ends[:-1] + slide)
    added = np.maximum((last_ends - first_ends) // slide + 1, 0)
    ends = np.repeat(first_ends, added) + slide * (np.arange(added.sum()) - np.repeat(np.cumsum(added) - added, added))
    event_counts = (
        so_far[rules.bounds.count_before_end(times, ends)]
        - so_far[rules.bounds.count_before_end(times, ends - rules.length)]
    )
    yield _window_rows(task, np.zeros(len(ends), np.int32), ends - rules.length, ends, event_counts, None)


def _windows_of_assigners(task: TaskReader, clock: int | None) -> Iterator[pa.Table]:
    live = task.live
    if live is None:
        return
    windows = windows_of(task, live)
    span = evaluated_span(task, live, windows)
    assigners, panes = windows.assigners, PaneStates.of(task.stored_table("panes"))
    for kind, formed in windows.open_windows(span):
        if not len(formed):
            continue
        firsts = formed.members[formed.offsets[:-1]]
        hashes = np.zeros(len(formed), np.int64) if live.keys is None else live.keys[firsts]
        fired, closed_early = _firings(panes, kind, hashes, formed.starts, formed.ends)
        still_open = np.flatnonzero(~closed_early)
        keys = _keys(task, live, firsts[still_open])
        kinds = np.full(len(still_open), kind, np.int32)
        starts = formed.starts[still_open] if assigners[kind].ends_by_time else np.full(len(still_open), NONE, np.int64)
        events_in_rows = np.ones(len(live), np.int64) if live.weights is None else live.weights.sum(axis=1)
        counts = np.add.reduceat(events_in_rows[formed.members], formed.offsets[:-1])[still_open]
        yield _window_rows(task, kinds, starts, formed.ends[still_open], counts, keys, fired[still_open])


def _windows_of_trigger(task: TaskReader, clock: int | None) -> Iterator[pa.Table]:
    """Yields a window for each key with events."""
    live = task.live
    if live is None:
        return
    assert live.keys is not None
    order = np.lexsort((live.times, live.keys))
    keys, times = live.keys[order], live.times[order]
    heads = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    counts = np.diff(np.append(heads, len(keys)))
    kinds, ends = np.zeros(len(heads), np.int32), np.full(len(heads), NONE, np.int64)
    yield _window_rows(task, kinds, times[heads], ends, counts, _keys(task, live, order[heads]))


def _no_windows(task: TaskReader, clock: int | None) -> Iterator[pa.Table]:
    """Yields no windows: their events are known only when policies have decided."""
    yield from ()


_OPEN_WINDOWS = {"queue": _windows_of_queue, "assigned": _windows_of_assigners, "triggered": _windows_of_trigger}
"""By family of windows: reads the open windows of a task at a clock."""


def _firings(
    panes: PaneStates, kind: int, keys: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Returns the number of firings of each window, and a mask of the windows that a firing has closed."""
    fired, closed_early = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.bool_)
    columns = (panes.kind, panes.key, panes.start, panes.end, panes.firings, panes.closed_by_firing)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    firings_by_window = {
        (key, start, end): (index, closed) for row_kind, key, start, end, index, closed in rows if row_kind == kind
    }
    if firings_by_window:
        windows = zip(keys.tolist(), starts.tolist(), ends.tolist(), strict=True)
        found = [firings_by_window.get(window, (0, 0)) for window in windows]
        fired[:], closed_early[:] = [index for index, _ in found], [closed > 0 for _, closed in found]
    return fired, closed_early


def _keys(task: TaskReader, live: RetainedEvents, events: NDArray[np.int64]) -> pa.Table | None:
    """Returns the keys of these events, with the column names of the first input."""
    key_names = list(key_columns(task.rules)) if any(task.rules.keys) else []
    if not key_names:
        return None
    rows = take_rows(live.payload, events)
    codes = np.zeros(len(events), np.int8) if live.streams is None else live.streams[events]
    columns = {}
    for position, name in enumerate(key_names):
        parts = [rows.column(of_input[position]).combine_chunks() for of_input in task.rules.keys]
        if len({each[position] for each in task.rules.keys}) == 1:
            columns[name] = parts[0]
        else:
            joined_parts = pa.chunked_array(parts)
            columns[name] = joined_parts.take(pa.array(codes.astype(np.int64) * len(rows) + np.arange(len(rows))))
    return pa.table(columns)


def _window_rows(
    task: TaskReader,
    kinds: NDArray[np.int32],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    events: NDArray[np.int64],
    keys: pa.Table | None,
    firings: NDArray[np.int64] | None = None,
) -> pa.Table:
    count = len(starts)
    windbolt_columns = {
        "task": pa.array(np.full(count, task.number, np.int32)),
        "kind": pa.array(kinds),
        "start": time_column(starts),
        "end": time_column(ends),
        "events": pa.array(events.astype(np.int64)),
        "firings": pa.array(np.zeros(count, np.int64) if firings is None else firings),
    }
    return pa.table(windbolt_columns) if keys is None else combine_columns(windbolt_columns, keys, "key.")


# Facts about bolts and tasks without reading events: accounts, watermarks, counts.


_WATERMARK_COLUMNS = pa.schema(
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
    """Returns a row for each windowed bolt: its tasks, watermark, accounts, fired windows and emitted rows so far."""
    rows = []
    for name, bolt in bolts.items():
        totals = bolt.accounts.totals(sum(bolt.pending))
        done = bolt.totals
        emitted = sum(done.emitted.values())
        rows.append({"bolt": name, "tasks": len(bolt.tasks), **totals, "windows": done.fired, "emitted": emitted})
    names = list(rows[0]) if rows else ["bolt", "tasks"]
    columns = {name: pa.array([row[name] for row in rows], None if name == "bolt" else pa.int64()) for name in names}
    watermarks = time_column([bolt.watermark.current for bolt in bolts.values()])
    return pa.table({"bolt": columns.pop("bolt").cast(pa.string()), "watermark": watermarks, **columns})


def account_table(bolt: BoltState) -> pa.Table:
    """Returns a row for each input of a bolt: received, each account, pending, and the counts that are not accounts."""
    found = bolt.accounts.all_by_stream(bolt.pending)
    names = list(next(iter(found.values()), {}))
    counts = {name: pa.array([counts[name] for counts in found.values()], pa.int64()) for name in names}
    return pa.table({"input": pa.array(list(found), pa.string()), **counts})


def task_table(tasks: Sequence[TaskReader]) -> pa.Table:
    """Returns a row for each task: its stored events, its last and next window, and its work so far."""
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
            "next_due": time_column([state.next_due for state in states]),
            "windows": pa.array([state.bolt.fired for state in states], pa.int64()),
            "suppressed": pa.array([state.bolt.suppressed for state in states], pa.int64()),
            "emitted": pa.array([sum(state.bolt.emitted.values()) for state in states], pa.int64()),
            "counters": pa.array([json.dumps(dict(state.bolt.counters)) for state in states], pa.string()),
        }
    )


def watermark_table(bolt: BoltState) -> pa.Table:
    """Returns a row for each input, or partition of an input: the watermark of the input itself, if any; its latest
    time; the clock at its last delivery; and True if the input is left out as idle."""
    sources, rows = bolt.watermark.sources, []
    for name in sorted({*bolt.watermark.latest, *sources.marks, *sources.last_event_clocks, *sources.imported}):
        stream, partition = input_of(name), shown_partition(name)
        mark = sources.marks.get(name)
        latest = bolt.watermark.latest.get(name, NONE if mark is None else mark.latest)
        own = sources.imported.get(name, NONE if mark is None else mark.mark)
        rows.append((stream, partition or None, own, latest, sources.last_event_clocks.get(name), name in sources.idle))
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in _WATERMARK_COLUMNS]
    times = {"watermark", "latest", "delivered_at"}
    arrays = [
        time_column(column) if field.name in times else pa.array(column, field.type)
        for field, column in zip(_WATERMARK_COLUMNS, columns, strict=True)
    ]
    return pa.table(arrays, schema=_WATERMARK_COLUMNS)


# ``windbolt.state``: the content of a checkpoint as tables, without the topology.


Result = TypeVar("Result")
_ATTEMPTS = 5
"""How often a checkpoint is read again because a run has meanwhile deleted files that were to be read."""


@checked
def bolts(checkpoint: str | os.PathLike[str], *, batch: str | int | None = None) -> pa.Table:
    """Returns a row for each windowed bolt of a checkpoint: tasks, watermark, accounts, fired windows, emitted rows.

    ``batch``: read the state after an earlier kept batch, ``7`` or ``"7-close"``; None: after the last. Changes
    nothing; a run may be in progress. Raises CheckpointError if the checkpoint or the batch does not exist.
    """
    halves = checkpoint_at(os.fspath(checkpoint))
    return _retry_after_commits(halves, lambda: bolts_table(_manifest(halves, batch).bolts))


@checked
def read(
    checkpoint: str | os.PathLike[str],
    bolt: str | None = None,
    *,
    task: int | None = None,
    key: str | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    batch: str | int | None = None,
) -> StoredState:
    """Reads a windowed bolt's state in a checkpoint, as tables; ``state.read("ck/", "revenue").to_pandas("windows")``.

    ``bolt`` may be omitted if there is only one. ``task``: only this task. ``key``: only this key; for several key
    columns, the values with commas between them. ``since`` and ``until``, datetimes or ISO 8601: only events from
    ``since`` on and before ``until``, and windows that end in this range. ``batch``: the state after an earlier kept
    batch, ``7`` or ``"7-close"``; None: after the last.

    Changes nothing; a run may be in progress. Raises CheckpointError if the checkpoint or the batch does not exist, or
    the checkpoint has another format. Raises ConfigError for an unknown bolt, task or key.
    """
    halves = checkpoint_at(os.fspath(checkpoint))
    all_rules = require_rules(halves).bolts
    name = the_only_bolt(halves, all_rules) if bolt is None else bolt
    rules = rules_of(all_rules, name, key)
    selection = Selection(task=task, key=key, since=_time_or_none("since", since), until=_time_or_none("until", until))
    return _retry_after_commits(halves, lambda: _read(halves, name, rules, selection, batch))


def _read(
    halves: PairedCheckpoint, name: str, rules: BoltRules, selection: Selection, batch: str | int | None
) -> StoredState:
    manifest = _manifest(halves, batch)
    if name not in manifest.bolts:
        return StoredState(
            checkpoint=halves.path, bolt=name, batch=_batch_or_none(manifest), clock=manifest.clock, tables={}
        )
    bolt, store = manifest.bolts[name], FileSegments(f"{halves.documents.root}/segments", halves.uri)
    if selection.task is not None and not 0 <= selection.task < len(bolt.tasks):
        raise ConfigError(
            f"bolt {name!r} has no task {selection.task}",
            why=f"it has {len(bolt.tasks)}, numbered from 0",
            do="give one of these numbers",
        )
    tasks = [TaskReader(bolt, number, store, rules) for number in selection.tasks(len(bolt.tasks))]
    keys, streams = rules.columns_of_keys, bolt.accounts.streams
    by_input = keys if len(keys) == len(streams) else keys * len(streams)
    columns, key_schema = stored_columns(rules)
    tables = {
        "accounts": account_table(bolt),
        "tasks": task_table(tasks),
        "watermarks": watermark_table(bolt),
        "events": selection.events(event_table(tasks, streams, columns), dict(zip(streams, by_input, strict=True))),
        "windows": selection.rows(window_table(tasks, manifest.clock, key_schema), keys, "end"),
        **{table: selection.rows(rows, keys, None) for table, rows in tables_of_state(tasks, key_schema).items()},
    }
    return StoredState(
        checkpoint=halves.path, bolt=name, batch=_batch_or_none(manifest), clock=manifest.clock, tables=tables
    )


def stored_columns(rules: BoltRules) -> tuple[pa.Schema, pa.Schema]:
    """Returns the user's columns in a bolt's stored events, and the columns of its key."""
    columns = read_written_schema(rules.columns)
    shown = [columns.field(each) for each in key_columns(rules) if each in columns.names]
    stored = list(columns) if rules.sums is None else [column for column in columns if column.name in rules.key]
    return pa.schema(stored), pa.schema(shown if any(rules.keys) else [])


def _retry_after_commits(halves: PairedCheckpoint, read_state: Callable[[], Result]) -> Result:
    """Returns the result of ``read_state``. Repeats it if a run has committed meanwhile, and may have deleted files."""
    for _ in range(_ATTEMPTS):
        before = halves.documents.names("manifests")
        try:
            return read_state()
        except UNREADABLE:
            if halves.documents.names("manifests") == before:
                raise
    return read_state()


def _manifest(halves: PairedCheckpoint, batch: str | int | None) -> Manifest:
    keys = halves.documents.names("manifests")
    if batch is None:
        return read_manifest(halves.documents, keys[-1]) if keys else Manifest()
    key = key_of_batch_name(str(batch))
    if key is None:
        raise ConfigError(
            f"batch {batch!r}",
            why="that is not a batch",
            do="give a number, such as 7, or 7-close for the closing after it",
        )
    if key not in keys:
        kept = f"kept are {', '.join(map(batch_name, keys))}" if keys else "no batch has been committed"
        raise CheckpointError(
            f"checkpoint {halves.path!r} does not have batch {batch_name(key)}",
            why=f"{kept} (--keep-batches of a run says how many)",
            do="name one of these" if keys else "run the topology on it first",
        )
    return read_manifest(halves.documents, key)


def _batch_or_none(manifest: Manifest) -> str | None:
    if manifest.batch < 0 and not manifest.closing:
        return None
    return batch_name(batch_key(manifest.batch, manifest.closing))


def _time_or_none(name: str, given: datetime | str | None) -> int | None:
    try:
        return None if given is None else as_moment(given)
    except ConfigError as error:
        raise ConfigError(
            f"{name}={given!r} is not a time", why=error.why, do="write it in ISO 8601, such as 2024-01-01T12:00:00Z"
        ) from error


# ``windbolt.state.begin``: a checkpoint that begins with events from tables.


@checked
def begin(checkpoint: str | os.PathLike[str], topology: Graph, events: Mapping[str, Any]) -> pa.Table:
    """Make a new checkpoint whose windows hold earlier events; ``state.begin("ck/", topology, {"orders": table})``.

    ``events``: by spout, rows with its columns in order of arrival: a pyarrow table, a DataFrame of pandas, or a list
    of dicts or tuples. They are processed like all events, as one batch before the first: watermarks move, windows fire
    and bolts are called. But output to sinks is discarded. The first run on the checkpoint, on either engine, then
    reads the input from its beginning: remove these events from it.

    Returns the table of ``state.bolts``. Raises ConfigError for an unknown spout, and if a watermark follows the
    partitions of Kafka; DataError for rows without a usable time; CheckpointError if the place is not empty. If this
    call is interrupted, no run begins on the checkpoint; another call starts over.
    """
    check_built("state.begin", topology)
    path = os.fspath(checkpoint)
    begin_with(path, topology, events, system_clock)
    return bolts(path)
