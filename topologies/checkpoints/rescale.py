"""Gives bolts of a checkpoint more or fewer tasks.

The state after the last batch is rearranged, and its manifest replaces the previous one in one step. If the process
dies before, the checkpoint is unchanged, except for some files that the next run deletes. If no lock excludes runs, the
checkpoint is claimed first, and a run that has it stops.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.accounts import AccountsError
from manager.keyed.retained_events import (
    ACCOUNTED,
    FINISHED,
    IN_LAST_WINDOW,
    RetainedEvents,
    is_needed,
    read_retained,
    write_retained,
)
from manager.storage.checkpoint import FileCheckpoint
from manager.storage.files import storage_errors_during
from manager.storage.manifest import BoltState, Manifest, batch_key
from manager.storage.segments import CODE_COLUMN, Ref, Refs, SegmentStore, SegmentWriter
from manager.storage.task_state import BoltTaskState, FieldKind, QueueState, StateField, TaskState, WindowsState
from policies.watermarks import NONE
from topologies.checkpoints.paired_checkpoint import (
    START_OVER,
    TOPOLOGY,
    PairedCheckpoint,
    check_before_claim,
    check_halves,
    claim_checkpoint,
    naming_a_way_back,
    telling_who_took_over,
)
from topologies.checkpoints.stored_tasks import StoredQueue, payload_columns
from topologies.checkpoints.topology_fit import (
    changed_task_counts,
    check_fit,
    note_change,
    require_rules,
    stored_task_counts,
)
from topologies.engine.failures import raising_as
from topologies.engine.fire.bolt_calls import load_state
from topologies.graph.bolt_rules import BoltRules, TopologyRules
from topologies.graph.graph import Graph
from topologies.graph.groupings import HASH_COLUMN, FieldsGrouping, KeyCodes, key_rows
from topologies.run.attempts import Attempts
from windowing.bolts.bolt import StatefulTaskBolt, pack_state
from windowing.conversion import REFUSED, convert_column, convert_values
from windowing.errors import BoltError, CheckpointError, ConfigError, did_you_mean
from windowing.schema import is_read_back, read_written_schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The new task of a stored row, by the hash that also decides the task of new events.


@dataclass
class Route:
    """The assignment of rows and keys to the new tasks of a bolt."""

    bolt: str
    rules: BoltRules
    parallelism: int
    _tasks_of_known: dict[int, int] = field(default_factory=dict)
    """By code: the task of each key whose events have been seen."""
    shared_hashes: dict[int, int] = field(default_factory=dict)
    """By code: the hash of each key whose hash collides with another one."""

    def tasks_of_rows(self, table: pa.Table, streams: NDArray[np.int8] | None) -> NDArray[np.int64]:
        """Returns the task of each row; ``streams``: the input of each row, None for the first."""
        tasks = np.zeros(table.num_rows, np.int64)
        if self.rules.in_one_task:
            return tasks
        for input_index, fields in enumerate(self.rules.grouped):
            rows = slice(None) if streams is None else np.flatnonzero(streams == input_index)
            part = table if streams is None else table.take(pa.array(rows))
            tasks[rows] = self._tasks(part, fields)
            if streams is None:
                break
        return tasks

    def tasks_of_keys(self, table: pa.Table) -> NDArray[np.int64]:
        """Returns the task of each row of a table with the key columns."""
        fields = self.rules.grouped[0]
        return self._tasks(table, fields) if fields else np.zeros(table.num_rows, np.int64)

    def as_keys(self, table: pa.Table) -> pa.Table:
        """Returns the key columns of a bolt's own state, in the types of the fields by which its first input is
        grouped.

        A bolt may keep a key in another type, and the hash depends on the type: 1 and 1.0 are the same key for the
        bolt, but have different hashes.
        """
        schema = read_written_schema(self.rules.types)
        columns = []
        for name, column, wanted_field in zip(table.column_names, table.columns, schema, strict=True):
            try:
                # If the note cannot express the field's type, the bolt keeps the field in that type (``types``).
                columns.append(convert_column(column, wanted_field.type) if is_read_back(wanted_field.type) else column)
            except REFUSED as error:
                raise CheckpointError(
                    f"bolt {self.bolt!r} cannot be moved: its state has {name!r} as {column.type}",
                    why=f"its events are grouped by {wanted_field.name!r}, which is {wanted_field.type}: {error}",
                    do="give the bolt a method move_state, or keep that column in the type of the field",
                ) from error
        return pa.Table.from_arrays(columns, schema.names)

    def task_of(self, values: Sequence[Any]) -> int:
        """Returns the task of a key, from the values of the fields by which the first input is grouped."""
        if self.rules.in_one_task:
            return 0
        schema = self.key_types()
        if len(values) != len(schema):
            raise CheckpointError(
                f"bolt {self.bolt!r} asks for the task of {values!r}",
                why=f"its events are grouped by {', '.join(schema.names)}",
                do="give task_of a value for each of these, in this order",
            )
        arrays = [convert_values([value], column.type) for value, column in zip(values, schema, strict=True)]
        return int(self._tasks(pa.table(arrays, names=schema.names), schema.names)[0])

    def key_types(self) -> pa.Schema:
        """Returns the fields by which the first input is grouped, each with a type whose values have the same hashes as
        those of the field's own type, so that a key gets the same task.

        Raises CheckpointError for a type that the note of the last run cannot express.
        """
        schema = read_written_schema(self.rules.types)
        unknown = [field.name for field in schema if not is_read_back(field.type)]
        if unknown:
            raise CheckpointError(
                f"bolt {self.bolt!r} cannot be moved: its state is kept by {unknown[0]!r}",
                why=f"the checkpoint names its type, {self.rules.types!r}, and windbolt cannot make values of that",
                do="keep the tasks of the bolt as they are, or begin a new checkpoint with a simpler type of the key",
            )
        return schema

    def note_tasks(self, codes: NDArray[np.int64], tasks: NDArray[np.int64]) -> None:
        """Records the tasks of keys whose events are known."""
        distinct, firsts = np.unique(codes, return_index=True)
        self._tasks_of_known.update(zip(distinct.tolist(), tasks[firsts].tolist(), strict=True))

    def tasks_of_codes(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the task of each key, by its code. Raises CheckpointError if only an event could show this, and no
        event is stored."""
        if self.rules.in_one_task:
            return np.zeros(len(codes), np.int64)
        if self.rules.grouped[0] == self.rules.keys[0]:
            hashes = np.array([self.shared_hashes.get(code, code) for code in codes.tolist()], np.int64)
            return (hashes.view(np.uint64) % np.uint64(self.parallelism)).astype(np.int64)
        unknown = sum(each not in self._tasks_of_known for each in codes.tolist())
        if unknown:
            raise CheckpointError(
                f"bolt {self.bolt!r} cannot have {self.parallelism} tasks",
                why=f"for {unknown} keys without events only a hash of {', '.join(self.rules.keys[0])} is stored, so "
                f"their {', '.join(self.rules.grouped[0])}, and with it their new task, is unknown",
                do="try again when these keys have been forgotten, or group its inputs by the whole key from the start",
            )
        return np.array([self._tasks_of_known[each] for each in codes.tolist()], np.int64)

    def _tasks(self, table: pa.Table, fields: Iterable[str]) -> NDArray[np.int64]:
        return FieldsGrouping(tuple(fields)).tasks(table, None, self.parallelism)


# The state that a bolt's code keeps in its tasks, moved to other tasks: by key, or by a method of the bolt.


UserState = dict[str, Any]


def _user_states(
    old_states: Sequence[BoltTaskState],
    route: Route,
    store: SegmentStore,
    writer: SegmentWriter,
    bolt: StatefulTaskBolt | None,
) -> list[dict[str, Ref]]:
    if not any(state.user for state in old_states):
        return [{} for _ in range(route.parallelism)]
    if route.rules.in_one_task:
        return [dict(old_states[0].user) if task == 0 else {} for task in range(route.parallelism)]
    saved = [load_state(store, state.user) for state in old_states if state.user]
    if route.rules.state_by_method:
        return [_write_user_state(writer, *packed) for packed in _moved_by_method(saved, route, bolt)]
    moved = [_user_state_of(task, saved, route) for task in range(route.parallelism)]
    return [_write_user_state(writer, json.dumps(json_values), tables) for json_values, tables in moved]


def _moved_by_method(
    saved: list[UserState], route: Route, bolt: StatefulTaskBolt | None
) -> list[tuple[str, dict[str, pa.Table]]]:
    if bolt is None:
        raise CheckpointError(
            f"bolt {route.bolt!r} cannot be moved without its code",
            why="its state is moved by its own method, move_state",
            do="name the topology as well: --topology FILE:NAME",
        )
    what = f"bolt {route.bolt!r} failed in moving its state to other tasks"
    do = "fix its method move_state and rerun; the checkpoint is as it was"
    with raising_as(BoltError, what, do=do, unchanged=CheckpointError, bolt=route.bolt):
        states = bolt.move_state(saved, lambda *key: route.task_of(key), route.parallelism)
        if len(states) != route.parallelism:
            raise ValueError(f"move_state returned {len(states)} states for {route.parallelism} tasks")
        return [pack_state(state, bolt.state_types) for state in states]


def _write_user_state(writer: SegmentWriter, text: str, tables: dict[str, pa.Table]) -> dict[str, Ref]:
    """Writes the state of a bolt as its tasks do; returns references."""
    return {"": writer.add(pa.table({"json": [text]}))} | {name: writer.add(table) for name, table in tables.items()}


def _user_state_of(task: int, saved: Sequence[UserState], route: Route) -> tuple[UserState, dict[str, pa.Table]]:
    """Returns the JSON part and the tables of a task's state after the move."""
    json_values: UserState = {}
    tables: dict[str, pa.Table] = {}
    for name, first_value in saved[0].items():
        columns, values = route.rules.state_keys[name], [state[name] for state in saved]
        if isinstance(first_value, pa.Table):
            tables[name] = first_value if not columns else pa.concat_tables(_rows_of_task(task, values, columns, route))
        elif columns:
            json_values[name] = {
                key: value for state in values for key, value in state.items() if _task_of_text(key, route) == task
            }
        else:
            json_values[name] = first_value
    return json_values, tables


def _rows_of_task(task: int, tables: Sequence[pa.Table], columns: Sequence[str], route: Route) -> list[pa.Table]:
    """Returns the rows of a task; ``columns``: the columns with the grouping fields, in their own types."""
    keys = [route.as_keys(table.select(list(columns))) for table in tables]
    return [table.filter(pa.array(route.tasks_of_keys(key) == task)) for table, key in zip(tables, keys, strict=True)]


def _task_of_text(key: str, route: Route) -> int:
    """Returns the task of a dict's key, which is the text of the only grouping field."""
    (column,) = route.key_types()
    try:
        value = pa.array([key], pa.string()).cast(column.type)[0].as_py()
        return route.task_of((value,))
    except REFUSED as error:
        raise CheckpointError(
            f"bolt {route.bolt!r} cannot be moved: its state has the key {key!r:.60}",
            why=f"that is not text of the field {column.name!r}, which is {column.type}",
            do="give the bolt a method move_state, or keep the state by the texts of that field",
        ) from error


# Events, and declared fields of the state of windows, moved to other tasks.


TasksOf = Callable[[pa.Table], "NDArray[np.int64]"]
Change = Callable[[pa.Table, int], pa.Table]
"""Changes a stored table; the second argument is the number of its task."""


class TaskMove:
    """Moves the state of a bolt's tasks: first the events, which tell the tasks of keys, then each field by its
    declaration."""

    def __init__(
        self,
        old_tasks: Sequence[TaskState],
        route: Route,
        store: SegmentStore,
        writer: SegmentWriter,
        stateful: StatefulTaskBolt | None,
    ) -> None:
        """``stateful``: the bolt, which is called if it moves its state by a method."""
        self.old_tasks, self.route, self.store, self.writer, self.stateful = old_tasks, route, store, writer, stateful
        self.streams = len(route.rules.inputs)
        self.unwindowed = np.zeros(self.streams, np.int64)
        """For each input, the events known to be in no window; set once ``tasks`` has joined queues."""
        self._windows = [task.windows for task in old_tasks]
        self._family = type(self._windows[0])
        self._former_tasks: list[set[int]] = [set() for _ in range(route.parallelism)]
        """For each new task, the old tasks of which it takes over parts."""
        self._codes = [self._codes_of(state) for state in self._windows]
        self._note_tasks_of_kept_keys()
        queued = self._family.in_queue()
        self._queues = self._divide_queues() if queued else []
        self._events = [] if queued else self._divide_events([task.refs for task in old_tasks])
        self._waiting_events = {
            name: self._divide_events([] if state.get(name) is None else [state.get(name)] for state in self._windows)
            for name in self._family.fields_of(FieldKind.EVENTS)
        }

    def tasks(self) -> list[TaskState]:
        """Returns the new tasks."""
        tables = {
            name: self._divide_tables(
                [getattr(state, name) for state in self._windows],
                self._tasks_of(state_field),
                self._change_of(state_field),
            )
            for name, state_field in sorted(self._family.declarations().items(), key=lambda each: bool(each[1].floor))
            if state_field.kind in (FieldKind.KEYS, FieldKind.CODES)
        }
        states = [self._windows_state(task, tables) for task in range(self.route.parallelism)]
        with_events = self._with_queue if self._queues else self._with_events
        moved = [with_events(task, TaskState(state)) for task, state in enumerate(states)]
        return [replace(state, bolt=bolt) for state, bolt in zip(moved, self._bolts(), strict=True)]

    def _bolts(self) -> list[BoltTaskState]:
        """Returns the state of the bolt in each task. Counts are for all tasks together, so the first task gets
        them."""
        old_states = [task.bolt for task in self.old_tasks]
        retractable_rows = self._retractable_rows()
        users = _user_states(old_states, self.route, self.store, self.writer, self.stateful)
        needed_by_states = [state.needed_until for state in old_states if state.user]
        needed_until = (
            None
            if None in needed_by_states
            else max((each for each in needed_by_states if each is not None), default=None)
        )
        counts = [BoltTaskState().add_counts(*old_states), *[BoltTaskState()] * (len(users) - 1)]
        return [
            replace(state, user=user, retractable=rows, needed_until=needed_until if user else None)
            for state, user, rows in zip(counts, users, retractable_rows, strict=True)
        ]

    def _retractable_rows(self) -> list[dict[str, Ref]]:
        """Returns, for each new task, the rows that a later firing of their windows may retract, by output stream."""
        found: list[dict[str, Ref]] = [{} for _ in range(self.route.parallelism)]
        tasks_of = self._tasks_of(BoltTaskState.declarations()["retractable"])
        for stream in sorted({name for task in self.old_tasks for name in task.bolt.retractable}):
            tables = self._divide_tables([task.bolt.retractable.get(stream) for task in self.old_tasks], tasks_of)
            for task, table in enumerate(tables):
                if table is not None:
                    found[task][stream] = self.writer.add(table)
        return found

    def _windows_state(self, task: int, tables: Mapping[str, list[pa.Table | None]]) -> WindowsState:
        """Returns the state of a new task, field by field."""
        values = self._family.merged(self._windows, sorted(self._former_tasks[task]))
        for name, waiting in self._waiting_events.items():
            events = RetainedEvents.concat(waiting[task]) if waiting[task] else None
            values[name] = (
                None if events is None else write_retained(self.writer, replace(events, accounted=None), self.streams)
            )
        for name, state_field in self._family.declarations().items():
            if name in tables:
                table = tables[name][task]
                if state_field.floor:
                    values[state_field.floor], table = self._with_floor(task, state_field, table)
                if table is not None and state_field.kind is FieldKind.KEYS:
                    table = table.take(
                        pa.array(np.argsort(table.column(state_field.key_column).to_numpy(), kind="stable"))
                    )
                values[name] = None if table is None else self.writer.add(table)
        codes = tables["codes"][task] if "codes" in tables else None
        return self._family().with_values(**values).with_key_count(lambda: self._keys_with_events(task, codes))

    # -- events

    def _divide_queues(self) -> list[list[StoredQueue]]:
        """Returns, for each new task, the parts of the queues. Their windows are runs of time, so the windows of an
        event do not depend on the other events of its task."""
        parts: list[list[StoredQueue]] = [[] for _ in range(self.route.parallelism)]
        for state in self.old_tasks:
            queue = StoredQueue.of(state, self.store)
            if queue is not None:
                tasks = self.route.tasks_of_rows(payload_columns(queue.events, routing=True), queue.events.streams)
                for task in np.unique(tasks).tolist():
                    parts[task].append(queue.take(tasks == task))
        return parts

    def _with_queue(self, task: int, state: TaskState) -> TaskState:
        """Returns a new task with its parts of queues."""
        if not self._queues[task]:
            return state
        queue = StoredQueue.join(self._queues[task], state.windows_as(QueueState))
        joined = queue.write(self.writer, self.streams)
        self.unwindowed += np.array(joined.accounted_by_stream)
        for part in self._queues[task]:
            self.unwindowed -= part.events.slice(0, part.state.accounted).by_stream(self.streams)
        return joined

    def _divide_events(self, stored: Iterable[Iterable[Ref]]) -> list[list[RetainedEvents]]:
        """Returns, for each new task, the events that are still needed, in the order of arrival at each old task."""
        parts: list[list[RetainedEvents]] = [[] for _ in range(self.route.parallelism)]
        for number, refs in enumerate(stored):
            for ref in refs:
                events, flags = read_retained(self.store, ref)
                needed = np.flatnonzero(is_needed(flags))
                events = events.take(needed)
                flags = flags[needed]
                events = replace(events, in_last_window=(flags & IN_LAST_WINDOW) != 0, finished=(flags & FINISHED) != 0)
                tasks = self.route.tasks_of_rows(events.payload, events.streams)
                if events.keys is not None:
                    self.route.note_tasks(events.keys, tasks)
                    codes = self._codes[number].apply(events).keys
                    if codes is not None and codes is not events.keys:
                        self.route.note_tasks(codes, tasks)
                for task in np.unique(tasks).tolist():
                    parts[task].append(events.take(np.flatnonzero(tasks == task)))
                    self._former_tasks[task].add(number)
        return parts

    def _with_events(self, task: int, state: TaskState) -> TaskState:
        """Returns a new task with the events that it holds."""
        if not self._events[task]:
            return state
        events = RetainedEvents.concat(self._events[task]).sorted()
        flags = events.flags()
        accounted = events.by_stream(self.streams, ((flags & ACCOUNTED) != 0) & is_needed(flags)).tolist()
        return TaskState(state.windows, Refs([write_retained(self.writer, events, self.streams)]), accounted)

    def _keys_with_events(self, task: int, codes: pa.Table | None) -> int:
        """Returns the number of keys of a new task that have live events."""
        if not self._events[task]:
            return 0
        events = KeyCodes(self.route.rules.keys, codes).apply(RetainedEvents.concat(self._events[task]))
        assert events.keys is not None
        return len(np.unique(events.keys if events.finished is None else events.keys[~events.finished]))

    # -- rows of keys

    def _codes_of(self, state: WindowsState) -> KeyCodes:
        """Returns the codes of the keys of an old task. For keys that share a hash, records the hash of each code in
        the route."""
        stored = state.get("codes")
        table = None if stored is None else self.store.read(stored)
        if table is not None:
            columns = (table.column(name).to_pylist() for name in (CODE_COLUMN, HASH_COLUMN))
            self.route.shared_hashes |= dict(zip(*columns, strict=True))
        return KeyCodes(self.route.rules.keys, table)

    def _note_tasks_of_kept_keys(self) -> None:
        """Records the tasks of keys that may have no events any more."""
        for state in self._windows:
            for each in state.rows(FieldKind.KEYS):
                table = self.store.read(each.ref)
                codes = table.column(state.declarations()[each.field].key_column).to_numpy()
                self.route.note_tasks(codes, self.route.tasks_of_keys(table))

    def _tasks_of(self, state_field: StateField) -> TasksOf:
        """Returns a function that finds the tasks of a field's rows: by the key columns, or by the code of the key."""
        if state_field.kind is FieldKind.KEYS:
            return self.route.tasks_of_keys
        return lambda table: self.route.tasks_of_codes(table.column(state_field.key_column).to_numpy())

    def _divide_tables(
        self, stored: Sequence[Ref | None], tasks_of: TasksOf, change: Change = lambda table, number: table
    ) -> list[pa.Table | None]:
        """Returns the tables of old tasks, divided among the new tasks; None for a task without rows."""
        parts: list[list[pa.Table]] = [[] for _ in range(self.route.parallelism)]
        for number, ref in enumerate(stored):
            if ref is None:
                continue
            table = change(self.store.read(ref), number)
            tasks = tasks_of(table)
            for task in np.unique(tasks).tolist():
                parts[task].append(table.take(pa.array(np.flatnonzero(tasks == task))))
                self._former_tasks[task].add(number)
        return [pa.concat_tables(tables) if tables else None for tables in parts]

    # -- rows of keys above a floor

    def _change_of(self, state_field: StateField) -> Change:
        """Returns a change that raises the marks in a table to the floor of their task."""

        def change(table: pa.Table, number: int) -> pa.Table:
            floor = self._windows[number].get(state_field.floor, NONE)
            for name in state_field.floor_columns:
                raised = np.maximum(table.column(name).to_numpy(), floor)
                table = table.set_column(table.column_names.index(name), name, pa.array(raised))
            return table

        return change

    def _with_floor(
        self, task: int, state_field: StateField, table: pa.Table | None
    ) -> tuple[int | None, pa.Table | None]:
        """Returns the floor of a new task, and the rows of keys above it.

        A task with keys of several old tasks gets the least of their floors. Keys with a higher floor keep it as marks
        of their own, so that none of their windows is evaluated again.
        """
        floors: list[int] = [each.get(state_field.floor, NONE) for each in self._windows]
        floors_of_parts = {floors[number] for number in self._former_tasks[task]}
        least_floor = min(floors_of_parts, default=max(floors))
        if len(floors_of_parts) > 1:
            table = self._with_marks(task, state_field, table, floors, least_floor)
        return None if least_floor == NONE else least_floor, table

    def _with_marks(
        self, task: int, state_field: StateField, table: pa.Table | None, floors: Sequence[int], least_floor: int
    ) -> pa.Table | None:
        """Returns the marks of a task, with one for each key that has events and had a higher floor than the task has
        now."""
        known_keys = set() if table is None else set(table.column(state_field.key_column).to_pylist())
        parts = [] if table is None else [table]
        for number in self._former_tasks[task]:
            if floors[number] <= least_floor:
                continue
            for ref in self.old_tasks[number].refs:
                events = self._codes[number].apply(read_retained(self.store, ref)[0])
                assert events.keys is not None
                keys, firsts = np.unique(events.keys, return_index=True)
                here = self.route.tasks_of_rows(events.payload, events.streams)[firsts] == task
                new = here & np.array([key not in known_keys for key in keys.tolist()], np.bool_)
                if not new.any():
                    continue
                known_keys |= set(keys[new].tolist())
                marks = pa.array(np.full(np.count_nonzero(new), floors[number]))
                own = pa.table({state_field.key_column: keys[new], **dict.fromkeys(state_field.floor_columns, marks)})
                values = key_rows(events.payload, events.streams, self.route.rules.keys).take(pa.array(firsts[new]))
                parts.append(pa.table({**_table_columns(own), **_table_columns(values)}))
        return pa.concat_tables(parts, promote_options="permissive") if parts else None


def _table_columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(table.column_names, table.columns, strict=True))


MOST_TASKS = 10_000
"""Most tasks of a bolt; more are a mistake, because each has an entry in every manifest."""


@dataclass
class Rescaled:
    """Result of rescaling."""

    batch: str
    """The key of the batch whose state was rearranged; empty if no batch has been committed yet."""
    tasks: dict[str, tuple[int, int]] = field(default_factory=dict)
    """For each changed bolt, its old and new number of tasks."""
    events: dict[str, int] = field(default_factory=dict)
    """For each changed bolt, the number of stored events that were moved."""


def move_tasks(
    halves: PairedCheckpoint,
    new_counts: Mapping[str, int],
    topology: Graph | None = None,
    attempts: Attempts | None = None,
) -> Rescaled:
    """Changes the number of tasks of bolts, after the last batch of a checkpoint, which the caller has locked.

    ``topology``: for bolts that move their state by a method; all others need only the note of the last run.
    ``attempts``: of the run that calls this. Raises CheckpointError or ConfigError, with all problems, before anything
    is written.
    """
    move = _plan_rescaling(halves, new_counts, topology, check_before_claim)
    if not move.changed:
        return move.done
    checkpoint = claim_checkpoint(halves, attempts or "windbolt rescale")
    with naming_a_way_back(halves), telling_who_took_over(checkpoint):
        if halves.uri is not None:
            move = _plan_rescaling(halves, new_counts, topology, check_halves)
        with storage_errors_during(
            "changing the number of tasks", "all of it has been done, or nothing; nothing is lost"
        ):
            _write_rescaled(halves, checkpoint, move, topology)
            halves.documents.sync()
    tasks = (f"{name} has {now} in place of {before}" for name, (before, now) in move.done.tasks.items())
    note_change(halves.documents, f"other numbers of tasks: {', '.join(tasks)}")
    return move.done


def rescale_for(
    halves: PairedCheckpoint, topology: Graph, attempts: Attempts | None = None
) -> dict[str, tuple[int, int]]:
    """Changes the numbers of tasks in a checkpoint to those of a topology that is otherwise the same. Returns, for each
    changed bolt, its old and new number."""
    with naming_a_way_back(halves):
        new_counts = changed_task_counts(halves, topology)
        if not new_counts:
            return {}
        check_fit(halves, topology, allow_rescale=True)
    return move_tasks(halves, new_counts, topology, attempts).tasks


@dataclass(frozen=True)
class _Rescaling:
    """Planned move of stored state to other tasks."""

    manifest: Manifest | None
    changed: Mapping[str, int]
    rules: Mapping[str, BoltRules]
    done: Rescaled
    """The result of the move."""


def _plan_rescaling(
    halves: PairedCheckpoint,
    new_counts: Mapping[str, int],
    topology: Graph | None,
    check: Callable[[PairedCheckpoint], Manifest | None],
) -> _Rescaling:
    with naming_a_way_back(halves), storage_errors_during("looking at what is to be moved", "nothing was changed"):
        manifest, tasks = check(halves), stored_task_counts(halves)
    check_numbers(tasks, new_counts)
    changed = {name: number for name, number in new_counts.items() if number != tasks[name]}
    done = Rescaled("" if manifest is None else batch_key(manifest.batch, manifest.closing))
    rules: Mapping[str, BoltRules] = {}
    if changed:
        rules = (require_rules(halves) if topology is None else TopologyRules.of(topology)).bolts
        check_movable(halves.path, tasks, changed, rules)
    done.tasks = {name: (tasks[name], number) for name, number in changed.items()}
    return _Rescaling(manifest, changed, rules, done)


def check_numbers(tasks: Mapping[str, int], new_counts: Mapping[str, int]) -> None:
    """Raises ConfigError for an unknown bolt, and for a number of tasks that a bolt cannot have."""
    for name, number in new_counts.items():
        if name not in tasks:
            raise ConfigError(
                f"there is no windowed bolt {name!r}{did_you_mean(name, tasks)}",
                why=f"the checkpoint has {', '.join(tasks) or 'none'}; others keep nothing, and may have any "
                "number of tasks",
                do="name one of these",
            )
        if not 1 <= number <= MOST_TASKS:
            raise ConfigError(
                f"bolt {name!r} cannot have {number} tasks",
                why=f"a bolt has from 1 to {MOST_TASKS:,}",
                do="give a number of tasks such as twice the number of cores",
            )


def check_movable(
    path: str, tasks: Mapping[str, int], changed: Mapping[str, int], rules: Mapping[str, BoltRules]
) -> None:
    """Raises CheckpointError with every bolt whose state cannot be moved, and why."""
    problems = []
    for name, number in changed.items():
        own = rules[name]
        reasons = [*own.reasons_not_to_move, *(own.reasons_not_to_divide if tasks[name] % number else [])]
        problems += [f"  - bolt {name!r}: {reason}" for reason in reasons]
    if problems:
        raise CheckpointError(
            f"checkpoint {path!r} cannot be given other numbers of tasks:\n" + "\n".join(problems),
            why="the output would differ from that of a run that always had this number of tasks",
            do=f"leave these bolts as they are, or {START_OVER}",
        )


def _write_rescaled(
    halves: PairedCheckpoint, checkpoint: FileCheckpoint, move: _Rescaling, topology: Graph | None
) -> None:
    if move.changed:
        after = None if move.manifest is None else _rescaled_manifest(checkpoint, move.manifest, move, topology)
        checkpoint.replace(after, {TOPOLOGY: require_rules(halves).with_tasks(move.changed).to_json()})


def _rescaled_manifest(
    checkpoint: FileCheckpoint, before: Manifest, move: _Rescaling, topology: Graph | None
) -> Manifest:
    after = Manifest.from_values(before.to_values())
    for name, number in move.changed.items():
        bolt = None if topology is None else topology.windowed[name].bolt
        route = Route(name, move.rules[name], number)
        stateful = bolt if isinstance(bolt, StatefulTaskBolt) else None
        with checkpoint.segments.writer(checkpoint.folder(before)) as writer:
            state = moved_state(after.bolts[name], route, checkpoint.segments, writer, stateful)
        _check_nothing_lost(name, before.bolts[name], state)
        after.bolts[name] = state
        move.done.events[name] = sum(task.refs.needed for task in state.tasks)
    return after


def moved_state(
    bolt: BoltState, route: Route, store: SegmentStore, writer: SegmentWriter, stateful: StatefulTaskBolt | None = None
) -> BoltState:
    """Returns the state of a bolt for its new tasks. ``stateful``: the bolt, if its code keeps a state."""
    before = bolt.tasks
    if route.rules.in_one_task:  # its windows may count events, so it stays unchanged; other tasks never had events
        fresh = [TaskState(type(before[0].windows)()) for _ in range(1, route.parallelism)]
        return replace(bolt, tasks=[before[0], *fresh])
    move = TaskMove(before, route, store, writer, stateful)
    tasks = move.tasks()
    bolt.accounts.add("unwindowed", move.unwindowed)
    return replace(bolt, tasks=tasks)


def _check_nothing_lost(name: str, before: BoltState, after: BoltState) -> None:
    """Raises AccountsError if an event was lost or duplicated: a defect of windbolt."""
    after.accounts.check(after.pending, name)
    old_counts = [sum(counts) for counts in zip(*_needed_by_stream(before), strict=True)]
    new_counts = [sum(counts) for counts in zip(*_needed_by_stream(after), strict=True)]
    if old_counts != new_counts:
        raise AccountsError(
            f"bolt {name!r} had {old_counts} stored events, and would have {new_counts}",
            why="its tasks must keep what they kept before",
            do="this is a defect in windbolt: please report it; the checkpoint is as it was",
        )


def _needed_by_stream(bolt: BoltState) -> Iterator[Sequence[int]]:
    yield [0] * len(bolt.accounts.streams)
    for task in bolt.tasks:
        yield from (ref.by_stream for ref in task.refs)
