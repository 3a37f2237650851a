"""The tasks of a windowed bolt in a checkpoint, read offline: stored events with their states."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from manager.keyed.assigned_windows import AssignedWindows, Span
from manager.keyed.key_states import Substreams
from manager.keyed.retained_events import ACCOUNTED, FINISHED, RetainedEvents, is_needed, live_rows, read_retained
from manager.storage.files import as_storage_error
from manager.storage.manifest import BoltState
from manager.storage.segments import Ref, Refs, SegmentStore, SegmentWriter, read_queue, write_events
from manager.storage.task_state import BoltTaskState, FieldKind, QueueState, TaskState
from policies.watermarks import NONE
from topologies.engine.event_times import as_moment
from topologies.graph.bolt_rules import BoltRules
from topologies.graph.groupings import KeyCodes
from topologies.io.formats import FormatName, file_format, write_table
from topologies.io.formats.write_table import json_rows
from topologies.io.paths import locate
from windowing.calls import checked
from windowing.columns import stable_order
from windowing.errors import ConfigError, SchemaError, did_you_mean
from windowing.events import Events
from windowing.reprs import one_line
from windowing.schema import value_type
from windowing.timestamps import EARLIEST, LATEST, show

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from policies.assigners.aligned import Limit


# Columns of the tables of a checkpoint's state: windbolt's come first, then the user's.


TIME = pa.timestamp("us", tz="UTC")


def time_column(times: NDArray[np.int64] | Iterable[int | None]) -> pa.Array:
    """Returns times in microseconds as a column; null for missing times, for the end of the streams, and for times out
    of range."""
    if not isinstance(times, np.ndarray):
        times = np.array([NONE if time is None else time for time in times], np.int64)
    outside = (times < EARLIEST) | (times > LATEST)
    return pa.array(times, pa.int64(), mask=outside).view(TIME)


def combine_columns(windbolt_columns: Mapping[str, Any], user_columns: pa.Table, prefix: str = "event.") -> pa.Table:
    """Returns a table of windbolt's columns and the user's. A user's column with the name of a column of windbolt's
    gets a prefix."""
    columns = dict(windbolt_columns)
    for name, column in zip(user_columns.column_names, user_columns.columns, strict=True):
        columns[f"{prefix}{name}" if name in windbolt_columns else name] = column
    return pa.table(columns)


def names_in_table(table: pa.Table, names: Sequence[str]) -> list[str]:
    """Returns the names of the user's columns in a table of stored events; a name that windbolt uses has a prefix."""
    prefixed_names = ((f"{prefix}{name}" for prefix in ("key.", "event.")) for name in names)
    return [
        next((each for each in prefixed if each in table.column_names), name)
        for name, prefixed in zip(names, prefixed_names, strict=True)
    ]


def combined_schema(windbolt_columns: pa.Schema, user_columns: pa.Schema, prefix: str = "event.") -> pa.Schema:
    """Returns the columns of the table that ``combine_columns`` returns."""
    columns = dict(zip(windbolt_columns.names, windbolt_columns.types, strict=True))
    for field in user_columns:
        columns[f"{prefix}{field.name}" if field.name in windbolt_columns.names else field.name] = field.type
    return pa.schema(columns.items())


def join_tables(parts: Sequence[pa.Table], columns: pa.Schema) -> pa.Table:
    """Joins tables one after another; a column that a table lacks becomes null. ``columns``: the columns that the
    result always has; rows may have them in other types."""
    if not parts:
        return columns.empty_table()
    if all(part.schema.equals(columns, check_metadata=True) for part in parts):
        return pa.concat_tables(parts).combine_chunks()
    types = {field.name: field.type for part in parts for field in part.schema if not pa.types.is_null(field.type)}
    schema = pa.schema([field.with_type(types.get(field.name, field.type)) for field in columns])
    return pa.concat_tables([schema.empty_table(), *parts], promote_options="default").combine_chunks()


# Selection of rows of a checkpoint's state, by task, key and time.


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Selection of stored rows; None means no limit."""

    task: int | None = None
    key: str | None = None
    """The text of a key, with commas between several columns."""
    since: int | None = None
    """The first time in the selection, in microseconds."""
    until: int | None = None
    """The first time after the selection, in microseconds."""

    def tasks(self, count: int) -> list[int]:
        """Returns the selected tasks among ``count`` tasks."""
        return [number for number in range(count) if self.task in (None, number)]

    def events(self, table: pa.Table, keys: Mapping[str, Sequence[str]]) -> pa.Table:
        """Returns the selected events. ``keys``: for each input, the columns of its key."""
        is_wanted = self._in_time(table, "time")
        if self.key is not None:
            has_key_of_input = np.zeros(table.num_rows, np.bool_)
            inputs = table.column("input")
            for name, columns in keys.items():  # the input of a sum may be unknown
                is_of_input = pc.fill_null(pc.equal(inputs, name), fill_value=True).to_numpy()
                has_key_of_input |= is_of_input & self._has_key(table, names_in_table(table, columns))
            is_wanted &= has_key_of_input
        return _filter(table, is_wanted)

    def rows(self, table: pa.Table, keys: Sequence[Sequence[str]], time: str | None) -> pa.Table:
        """Returns the selected rows. ``keys``: for each of its names, the key columns; a table without any of them
        keeps all rows. ``time``: the column of times; rows without a time stay."""
        is_wanted = np.ones(table.num_rows, np.bool_) if time is None else self._in_time(table, time)
        shown = [names_in_table(table, columns) for columns in keys if columns]
        complete = [columns for columns in shown if set(columns) <= set(table.column_names)]
        if self.key is not None and complete:
            is_wanted &= np.logical_or.reduce([self._has_key(table, columns) for columns in complete])
        return _filter(table, is_wanted)

    def _in_time(self, table: pa.Table, time: str) -> NDArray[np.bool_]:
        times, is_wanted = table.column(time).cast(pa.int64()), np.ones(table.num_rows, np.bool_)
        if self.since is not None:
            is_wanted &= pc.fill_null(pc.greater_equal(times, self.since), fill_value=True).to_numpy()
        if self.until is not None:
            is_wanted &= pc.fill_null(pc.less(times, self.until), fill_value=True).to_numpy()
        return is_wanted

    def _has_key(self, table: pa.Table, columns: Sequence[str]) -> NDArray[np.bool_]:
        if not columns or not set(columns) <= set(table.column_names):
            return np.ones(table.num_rows, np.bool_)
        assert self.key is not None
        return has_key(table, columns, self.key)


def has_key(table: pa.Table, columns: Sequence[str], key: str) -> NDArray[np.bool_]:
    """Returns a mask of the rows with a key in these columns. ``key``: its text, with commas between several columns. A
    time is in ISO 8601, of any zone."""
    parts = [key] if len(columns) == 1 else key.split(",")
    if len(parts) == len(columns):  # else a text contains a comma
        kinds = [value_type(table.schema.field(name).type) for name in columns]
        parts = [_as_key_text(part, kind) for part, kind in zip(parts, kinds, strict=True)]
    wanted, texts = ",".join(parts), [key_texts(table.column(name)) for name in columns]
    return np.array([",".join(values) == wanted for values in zip(*texts, strict=True)], np.bool_)


def key_texts(column: pa.ChunkedArray) -> list[str]:
    """Returns the values of a key as users write them: times in ISO 8601, booleans as true and false."""
    kind = value_type(column.type)
    if not pa.types.is_timestamp(kind):
        return [str(value).lower() if isinstance(value, bool) else str(value) for value in column.to_pylist()]
    plain = column.cast(kind) if pa.types.is_dictionary(column.type) else column
    times = plain.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
    return [str(time) if time is None else show(time) for time in times.to_pylist()]


def _as_key_text(text: str, kind: pa.DataType) -> str:
    """Returns the text of a user's value as ``key_texts`` writes it; unchanged if it is not a value of the type."""
    if pa.types.is_boolean(kind) and text in ("True", "False"):
        return text.lower()
    if not pa.types.is_timestamp(kind):
        return text
    try:
        return show(as_moment(text))
    except ConfigError:
        return text


def _filter(table: pa.Table, is_wanted: NDArray[np.bool_]) -> pa.Table:
    return table if is_wanted.all() else table.filter(pa.array(is_wanted))


# The windows that assigners form of a task's stored events, by the rules of its last run.


def windows_of(task: TaskReader, live: RetainedEvents) -> AssignedWindows:
    """Returns the windows of these events; keys are distinguished by code."""
    assigners = task.rules.assigners_from(task.bolt.anchor)
    keys = [tuple(key) for key in task.rules.keys]
    return AssignedWindows(assigners, live, task.bolt.accounts.streams, keys=keys)


def evaluated_span(task: TaskReader, live: RetainedEvents, windows: AssignedWindows) -> Span:
    """Returns the limits up to which the windows of each of these events have been evaluated."""
    evaluated = evaluated_limit(task, live)
    return Span(evaluated, evaluated) if isinstance(evaluated, int) else windows.span_of(evaluated, evaluated)


def evaluated_limit(task: TaskReader, live: RetainedEvents) -> Limit:
    """Returns the limit up to which the windows of these events have been evaluated: one time for all, or one for each
    event in order."""
    rules = task.rules
    if not (rules.per_key and rules.event_time) or live.keys is None:
        return NONE if task.bolt.frontier is None else task.bolt.frontier
    _, marks = Substreams(task.stored_table("marks"), rules.delay, task.state.key_floor).limits(live.keys)
    evaluated: Limit = np.where(marks == NONE, NONE, np.maximum(marks, NONE + rules.past_end) - rules.past_end)
    return evaluated


# A task of a windowed bolt in a checkpoint: its stored events with their states.


_KEY = "key."
"""Prefix of the key columns of partial sums."""


@dataclass(frozen=True)
class EventRows:
    """Stored rows, as columns; times in microseconds."""

    times: NDArray[np.int64]
    payload: pa.Table
    streams: NDArray[np.int8] | None
    """The input of each row; -1 for a sum of events of several inputs. None: there is only one input."""
    counts: NDArray[np.int64]
    """Number of events in each row."""
    pending: NDArray[np.int64]
    """Number of these events that are in no window yet, and may still be in one."""
    ends: NDArray[np.int64] | None = None
    """The ends of their lifetimes; None without lifetimes."""
    edge: bool = False
    """True for end edges whose starts have not come yet."""

    def __len__(self) -> int:
        return len(self.times)


@dataclass(frozen=True)
class TaskReader:
    """Reads the state of a task; each part is read on demand."""

    bolt: BoltState
    number: int
    store: SegmentStore
    rules: BoltRules

    @property
    def state(self) -> TaskState:
        """Returns its state in the manifest."""
        return self.bolt.tasks[self.number]

    @cached_property
    def rows(self) -> list[EventRows]:
        """Its events, in parts, including events that are kept only because they have yet to be reported as expired."""
        if self.state.windows.in_queue():
            queue = StoredQueue.of(self.state, self.store)
            return [] if queue is None else [_rows_of_queue(queue)]
        parts = [self._retained_rows(ref, edge=False) for ref in self.state.refs]
        return [*parts, *(self._retained_rows(ref, edge=True) for ref in self.state.waiting)]

    @cached_property
    def live(self) -> RetainedEvents | None:
        """The events that a window may still need, with the codes of their keys, if tasks hold events; None without
        such events."""
        parts = [live_rows(*read_retained(self.store, ref)) for ref in self.state.refs]
        parts = [part for part in parts if len(part)]
        return self.with_key_codes(RetainedEvents.concat(parts)) if parts else None

    def with_key_codes(self, events: RetainedEvents) -> RetainedEvents:
        """Returns live events of the task with the codes of their keys. Keys that share a hash have different codes."""
        kept = [self.store.read(each.ref) for each in self.state.windows.rows(FieldKind.KEYS)]
        return KeyCodes(self.rules.keys, self.stored_table("codes")).apply(events, kept)

    def stored_table(self, name: str) -> pa.Table | None:
        """Returns the stored rows of a field in the state of its windows; ``name``: of the field or of its table. None
        without rows."""
        ref = self.state.windows.get(name)
        return None if ref is None else self.store.read(ref)

    def _retained_rows(self, ref: Ref, *, edge: bool) -> EventRows:
        events, flags = read_retained(self.store, ref)
        needed = np.flatnonzero((flags & FINISHED) == 0 if edge else is_needed(flags))
        events, flags = events.take(needed), flags[needed]
        pending = np.ones(len(events), np.int64) if edge else ((flags & (FINISHED | ACCOUNTED)) == 0).astype(np.int64)
        if events.weights is None:
            counts = np.ones(len(events), np.int64)
            return EventRows(events.times, events.payload, events.streams, counts, pending, events.ends, edge)
        counts, inputs = events.weights.sum(axis=1), _input_of_each_row(events.streams, events.weights)
        return EventRows(events.times, events.payload, inputs, counts, pending * counts)


def readers_of(bolt: BoltState, store: SegmentStore, rules: BoltRules) -> list[TaskReader]:
    """Returns the readers of all tasks of a bolt."""
    return [TaskReader(bolt, number, store, rules) for number in range(len(bolt.tasks))]


@dataclass(frozen=True)
class StoredQueue:
    """The queue of a task, or a part of it: events in order of (time, arrival)."""

    events: Events
    state: QueueState
    """The state of the joined queue; its positions are indices into these events."""

    @staticmethod
    def of(task: TaskState, store: SegmentStore) -> StoredQueue | None:
        """Reads the queue of a task; None if it is empty."""
        events = read_queue(store, task.refs)
        return None if events is None else StoredQueue(events, task.windows_as(QueueState))

    @staticmethod
    def join(parts: Sequence[StoredQueue], state: QueueState) -> StoredQueue:
        """Joins several queues; the result has the values of ``state``, with positions adapted to the new order.

        An event without an account may come before one with an account: it is in no window any more. The last window of
        the joined queue is the latest of their last windows, from all queues that fired it.
        """
        events = Events.concat([part.events for part in parts])
        order = stable_order(events.timestamps)
        in_last_windows = [part._between(*(part.state.previous or (0, 0))) for part in parts]
        references = [
            part.state.last_reference for part, window in zip(parts, in_last_windows, strict=True) if window.any()
        ]
        last_reference = max((each for each in references if each is not None), default=None)
        in_last_windows = [
            window & (part.state.last_reference == last_reference)
            for part, window in zip(parts, in_last_windows, strict=True)
        ]
        in_account, settled, in_last = (
            np.concatenate(masks)[order]
            for masks in ([part.accounted for part in parts], [part.settled for part in parts], in_last_windows)
        )
        accounted_count = int(np.flatnonzero(in_account)[-1]) + 1 if in_account.any() else 0
        in_last_window = np.flatnonzero(in_last)
        previous = [int(in_last_window[0]), int(in_last_window[-1]) + 1] if len(in_last_window) else None
        settled_prefix = len(events) if settled.all() else int(np.argmin(settled))
        count = max(settled_prefix, accounted_count, (previous or [0, 0])[1])
        positions = replace(state, accounted=accounted_count, previous=previous, settled_count=count)
        return StoredQueue(events.take(order), positions)

    @property
    def accounted(self) -> NDArray[np.bool_]:
        """Returns a mask of the events with an account."""
        return self._between(0, self.state.accounted)

    @property
    def settled(self) -> NDArray[np.bool_]:
        """Returns a mask of the events in final order."""
        return self._between(0, self.state.settled_count)

    def take(self, kept: NDArray[np.bool_]) -> StoredQueue:
        """Returns the events under a mask."""
        return StoredQueue(self.events.take(np.flatnonzero(kept)), self.state.without_rows(kept))

    def write(self, writer: SegmentWriter, streams: int, bolt: BoltTaskState | None = None) -> TaskState:
        """Returns the task with this queue, in one section, and this state of its bolt."""
        refs = Refs([write_events(writer, self.events, streams)]) if len(self.events) else Refs()
        accounted = self.events.slice(0, self.state.accounted).by_stream(streams).tolist()
        return TaskState(self.state, refs, accounted, bolt or BoltTaskState())

    def _between(self, start: int, stop: int) -> NDArray[np.bool_]:
        places = np.arange(len(self.events))
        found: NDArray[np.bool_] = (places >= start) & (places < stop)
        return found


def payload_columns(events: Events, *, routing: bool = False) -> pa.Table:
    """Returns the columns of a queue's events. For partial sums these are the key columns by their own names; for
    ``routing``, nothing else."""
    table = pa.Table.from_batches([events.payload])
    if events.weights is None:
        return table
    if routing:
        table = table.select([name for name in table.column_names if name.startswith(_KEY)])
    return table.rename_columns([name.removeprefix(_KEY) for name in table.column_names])


def _rows_of_queue(queue: StoredQueue) -> EventRows:
    events = queue.events
    counts = np.ones(len(events), np.int64) if events.weights is None else events.weights.sum(axis=1)
    waits = np.where(queue.accounted, 0, counts)
    return EventRows(
        events.timestamps, payload_columns(events), _input_of_each_row(events.streams, events.weights), counts, waits
    )


def _input_of_each_row(streams: NDArray[np.int8] | None, weights: NDArray[np.int64] | None) -> NDArray[np.int8] | None:
    """Returns the input of each row; -1 for sums of several inputs."""
    if weights is None or weights.shape[1] == 1:
        return streams
    several = (weights > 0).sum(axis=1) > 1
    return np.where(several, -1, weights.argmax(axis=1)).astype(np.int8)


def key_columns(rules: BoltRules) -> Sequence[str]:
    """Returns the column names for keys in tables: those of the first input."""
    return rules.keys[0] if any(rules.keys) else rules.key


def _json_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Returns rows as ``json_rows`` does; values without a form in JSON lines, such as times of day, become text."""
    with suppress(*_NOT_IN_JSON):
        return json_rows(table)
    columns = [_json_values(table.select([name])) for name in table.column_names]
    return [dict(zip(table.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


_NOT_IN_JSON = (SchemaError, TypeError, pa.ArrowException)


def _json_values(column: pa.Table) -> list[Any]:
    try:
        return [value for row in json_rows(column) for value in row.values()]
    except _NOT_IN_JSON:
        return [None if value is None else str(value) for value in column.column(0).to_pylist()]


# The state of a windowed bolt as tables.


@dataclass(frozen=True, kw_only=True)
class StoredState:
    """State of a windowed bolt in a checkpoint, after a batch: ``state.read("ck/", "revenue")["events"]``."""

    checkpoint: str
    bolt: str
    batch: str | None
    """Name of the batch: ``7``, or ``7-close`` for the closing batch after batch 7; None if no batch has been
    committed."""
    clock: int | None
    """Clock of the batch, in microseconds."""
    tables: Mapping[str, pa.Table]
    """``accounts``, ``tasks``, ``watermarks``, ``events``, ``windows`` and ``keys``; ``policies`` for users' policies;
    ``state`` and ``state.NAME`` for a stateful bolt; ``retractable.STREAM`` if windows may retract their output."""

    def __getitem__(self, name: str) -> pa.Table:
        """Returns a table by name. Raises ConfigError if there is none."""
        if name not in self.tables:
            raise ConfigError(
                f"there is no table {name!r}{did_you_mean(str(name), self.tables)}",
                why=f"of bolt {self.bolt!r} the checkpoint has {', '.join(self.tables)}",
                do="name one of these",
            )
        return self.tables[name]

    def __repr__(self) -> str:
        rows = ", ".join(f"{name}: {table.num_rows}" for name, table in self.tables.items())
        return one_line(f"<StoredState of {self.bolt!r} after batch {self.batch}: {rows}>")

    @checked
    def only(self, table: str) -> StoredState:
        """Returns this state with only one of its tables. Raises ConfigError for an unknown name."""
        return replace(self, tables={table: self[table]})

    @checked
    def to_pandas(self, table: str = "events") -> pd.DataFrame:
        """Returns a table as a DataFrame. Raises ConfigError for an unknown name."""
        frame: pd.DataFrame = self[table].to_pandas()
        return frame

    @checked
    def to_json(self) -> dict[str, Any]:
        """Returns the whole state as plain JSON values: rows as objects, times in ISO 8601."""
        return {
            "checkpoint": self.checkpoint,
            "bolt": self.bolt,
            "step": self.batch,
            "clock": None if self.clock is None else show(self.clock),
            "tables": {name: _json_rows(table) for name, table in self.tables.items()},
        }

    @checked
    def write(self, folder: str | os.PathLike[str], format: FormatName = "parquet") -> list[str]:
        """Writes each table as a file of a folder, such as ``events.parquet``; existing files are replaced.

        The folder may be a URI. Returns the paths. Raises ConfigError for an unknown format, SchemaError if a format
        cannot hold a column.
        """
        chosen_format = file_format(format, "writing")
        filesystem, inside, _ = locate(os.fspath(folder))
        with as_storage_error(inside, "made"):
            if isinstance(filesystem, pafs.LocalFileSystem):
                os.makedirs(inside, exist_ok=True)
        paths = []
        for name, table in self.tables.items():
            file = name.replace("/", "%2F")  # the user's name of a state may contain a slash
            path = f"{inside}/{file}.{chosen_format.name}"
            with as_storage_error(path, "written"):
                write_table(filesystem, path, table, chosen_format)
            paths.append(path)
        return paths
