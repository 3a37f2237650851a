"""Stored state moved to other tasks: of bolts, queues, retained events and keys."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.event_queue import QueueState
from manager.keyed.key_states import MARK_COLUMN, PREVIOUS_COLUMN
from manager.keyed.retained_events import GONE, KEY_COLUMN, LAST, SEEN, Held, is_needed, read_held, write_held
from manager.storage.manifest import (
    AssignedState,
    BoltTaskState,
    EventState,
    PolicyState,
    TaskState,
    TriggeredState,
    WindowsState,
)
from manager.storage.segments import Ref, Refs, SegmentStore, SegmentWriter, read_queue, write_events
from policies.watermarks import NONE
from topologies.checkpoints.movable import Movable
from topologies.engine.fire.bolt_calls import load_state
from topologies.graph.graph import RETRACTED
from topologies.graph.groupings import CODE_COLUMN, HASH_COLUMN, FieldsGrouping, KeyCodes, key_rows
from windowing.bolts.bolt import StatefulTaskBolt, pack_state
from windowing.columns import stable_order
from windowing.conversion import REFUSED, converted, of_values
from windowing.errors import BoltError, CheckpointError, ConfigError
from windowing.events import Events, count_by_stream
from windowing.schema import parse_schema

if TYPE_CHECKING:
    from numpy.typing import NDArray


# To which task of a bolt a stored row goes from now on: by the hash that also sends new events there.


@dataclass
class Route:
    """The way to the new tasks of one bolt."""

    bolt: str
    movable: Movable
    parallelism: int
    _known: dict[int, int] = field(default_factory=dict)
    """The task of each key whose events have been seen, by the code of the key."""
    shared: dict[int, int] = field(default_factory=dict)
    """The hash of each key that shares it with another, by the code of the key."""

    def of_rows(self, table: pa.Table, streams: NDArray[np.int8] | None) -> NDArray[np.int64]:
        """The task of each row; ``streams`` is the input that each came by, None for the first."""
        tasks = np.zeros(table.num_rows, np.int64)
        if self.movable.in_one_task:
            return tasks
        for code, fields in enumerate(self.movable.fields):
            rows = slice(None) if streams is None else np.flatnonzero(streams == code)
            part = table if streams is None else table.take(pa.array(rows))
            tasks[rows] = self._tasks(part, fields)
            if streams is None:
                break
        return tasks

    def of_keys(self, table: pa.Table) -> NDArray[np.int64]:
        """The task of each row of a table that has the columns of the key."""
        fields = self.movable.fields[0]
        return self._tasks(table, fields) if fields else np.zeros(table.num_rows, np.int64)

    def as_keys(self, table: pa.Table) -> pa.Table:
        """Columns that a bolt keeps as the fields of the first input, of whose types they may not be.

        The hash of a number depends on its type: 1.0 and 1 are different keys for it, and one key for the bolt.
        """
        try:
            schema = parse_schema(self.movable.types)
        except ConfigError:  # a type that cannot be declared: the bolt keeps the fields in that type (``Movable``)
            return table.rename_columns(self.movable.fields[0])
        columns = []
        for name, column, wanted in zip(table.column_names, table.columns, schema, strict=True):
            try:
                columns.append(converted(column, wanted.type))
            except REFUSED as error:
                raise CheckpointError(
                    f"bolt {self.bolt!r} cannot be moved: its state has {name!r} as {column.type}",
                    why=f"its events are grouped by {wanted.name!r}, which is {wanted.type}: {error}",
                    do="give the bolt a method move_state, or keep that column in the type of the field",
                ) from error
        return pa.Table.from_arrays(columns, schema.names)

    def of_values(self, values: Sequence[Any]) -> int:
        """The task of one key, by the values of the fields that the first input is grouped by."""
        if self.movable.in_one_task:
            return 0
        schema = parse_schema(self.movable.types)
        if len(values) != len(schema):
            raise CheckpointError(
                f"bolt {self.bolt!r} asks for the task of {values!r}",
                why=f"its events are grouped by {', '.join(schema.names)}",
                do="give task_of a value for each of these, in this order",
            )
        arrays = [of_values([value], column.type) for value, column in zip(values, schema, strict=True)]
        return int(self._tasks(pa.table(arrays, names=schema.names), schema.names)[0])

    def learn(self, codes: NDArray[np.int64], tasks: NDArray[np.int64]) -> None:
        """Note the tasks of keys whose events are known."""
        distinct, firsts = np.unique(codes, return_index=True)
        self._known.update(zip(distinct.tolist(), tasks[firsts].tolist(), strict=True))

    def of_codes(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The task of each key, by its code. CheckpointError where only an event could tell, and there is none."""
        if self.movable.in_one_task:
            return np.zeros(len(codes), np.int64)
        if self.movable.fields[0] == self.movable.keys[0]:
            hashes = np.array([self.shared.get(code, code) for code in codes.tolist()], np.int64)
            return (hashes.view(np.uint64) % np.uint64(self.parallelism)).astype(np.int64)
        unknown = sum(each not in self._known for each in codes.tolist())
        if unknown:
            raise CheckpointError(
                f"bolt {self.bolt!r} cannot have {self.parallelism} tasks",
                why=f"for {unknown} keys without events only a hash of {', '.join(self.movable.keys[0])} is stored, so "
                f"their {', '.join(self.movable.fields[0])}, and with it their new task, is unknown",
                do="try again when these keys have been forgotten, or group its inputs by the whole key from the start",
            )
        return np.array([self._known[each] for each in codes.tolist()], np.int64)

    def _tasks(self, table: pa.Table, fields: Iterable[str]) -> NDArray[np.int64]:
        return FieldsGrouping(tuple(fields)).tasks(table, None, self.parallelism)


# What bolts themselves keep in their tasks, moved to other tasks: states by key, and by a method of the bolt.


UserState = dict[str, Any]


def move_bolt_states(
    before: Sequence[BoltTaskState],
    route: Route,
    store: SegmentStore,
    writer: SegmentWriter,
    bolt: StatefulTaskBolt | None,
) -> list[BoltTaskState]:
    """Returns the new state of the bolt in each task, except for rows that may be retracted.

    Counts are for all tasks together, so the first task has them. ``bolt`` is called if it moves its state itself.
    """
    total = BoltTaskState()
    for state in before:
        total = total.plus(state)
    users = _users(before, route, store, writer, bolt)
    known = [state.needed_until for state in before if state.user]
    needed_until = None if None in known else max((each for each in known if each is not None), default=None)
    return [
        BoltTaskState(
            fired=total.fired if task == 0 else 0,
            suppressed=total.suppressed if task == 0 else 0,
            emitted=total.emitted if task == 0 else {},
            counters=dict(Counter(total.counters)) if task == 0 else {},
            user=user,
            needed_until=needed_until if user else None,
        )
        for task, user in enumerate(users)
    ]


def _users(
    before: Sequence[BoltTaskState],
    route: Route,
    store: SegmentStore,
    writer: SegmentWriter,
    bolt: StatefulTaskBolt | None,
) -> list[dict[str, Ref]]:
    if not any(state.user for state in before):
        return [{} for _ in range(route.parallelism)]
    if route.movable.in_one_task:
        return [dict(before[0].user) if task == 0 else {} for task in range(route.parallelism)]
    saved = [load_state(store, state.user) for state in before if state.user]
    if route.movable.state_by_method:
        return [_written(writer, *packed) for packed in _by_method(saved, route, bolt)]
    moved = [_of_task(task, saved, route) for task in range(route.parallelism)]
    return [_written(writer, json.dumps(plain), tables) for plain, tables in moved]


def _by_method(
    saved: list[UserState], route: Route, bolt: StatefulTaskBolt | None
) -> list[tuple[str, dict[str, pa.Table]]]:
    if bolt is None:
        raise CheckpointError(
            f"bolt {route.bolt!r} cannot be moved without its code",
            why="its state is moved by its own method, move_state",
            do="name the topology as well: --topology FILE:NAME",
        )
    try:
        states = bolt.move_state(saved, lambda *key: route.of_values(key), route.parallelism)
        if len(states) != route.parallelism:
            raise ValueError(f"move_state returned {len(states)} states for {route.parallelism} tasks")
        return [pack_state(state, bolt.state_types) for state in states]
    except CheckpointError:
        raise
    except Exception as error:
        raise BoltError(
            f"bolt {route.bolt!r} failed in moving its state to other tasks",
            why=f"{type(error).__name__}: {error}",
            do="fix its method move_state and rerun; the checkpoint is as it was",
            bolt=route.bolt,
        ) from error


def _written(writer: SegmentWriter, text: str, tables: dict[str, pa.Table]) -> dict[str, Ref]:
    """As a task writes the state of its bolt."""
    return {"": writer.add(pa.table({"json": [text]}))} | {name: writer.add(table) for name, table in tables.items()}


def _of_task(task: int, saved: Sequence[UserState], route: Route) -> tuple[UserState, dict[str, pa.Table]]:
    """The JSON part and the tables of what a task has from now on."""
    plain: UserState = {}
    tables: dict[str, pa.Table] = {}
    for name, first in saved[0].items():
        columns, values = route.movable.state_keys[name], [state[name] for state in saved]
        if isinstance(first, pa.Table):
            tables[name] = first if not columns else pa.concat_tables(_rows_of(task, values, columns, route))
        elif columns:
            plain[name] = {
                key: value for state in values for key, value in state.items() if _task_of_text(key, route) == task
            }
        else:
            plain[name] = first
    return plain, tables


def _rows_of(task: int, tables: Sequence[pa.Table], columns: Sequence[str], route: Route) -> list[pa.Table]:
    """The rows of a task; ``columns`` are those of the fields that events are grouped by, in types of their own."""
    keys = [route.as_keys(table.select(list(columns))) for table in tables]
    return [table.filter(pa.array(route.of_keys(key) == task)) for table, key in zip(tables, keys, strict=True)]


def _task_of_text(key: str, route: Route) -> int:
    """The task of a key of a dict, which is the text of the one field that events are grouped by."""
    (column,) = parse_schema(route.movable.types)
    try:
        value = pa.array([key], pa.string()).cast(column.type)[0].as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise CheckpointError(
            f"bolt {route.bolt!r} cannot be moved: its state has the key {key!r:.60}",
            why=f"that is not text of the field {column.name!r}, which is {column.type}",
            do="give the bolt a method move_state, or keep the state by the texts of that field",
        ) from error
    return route.of_values((value,))


# Queues of events, or of partial sums, moved to other tasks.


_KEY = "key."
"""The first letters of the columns of the key of partial sums."""


@dataclass
class MovedTasks:
    """Windows of a bolt's tasks after they were moved."""

    tasks: list[TaskState]
    unwindowed: NDArray[np.int64]
    """Per input, the events that are known to be in no window now that the queues are joined."""


@dataclass(frozen=True)
class _Queue:
    """The queue of one task, or its part that goes to one task: its events in order of (time, arrival)."""

    events: Events
    settled: NDArray[np.bool_]
    accounted: NDArray[np.bool_]
    """Which events are in an account."""
    shown: NDArray[np.bool_]
    """Which events are in the last window that fired."""
    reference: int | None
    """That of this window."""

    def part(self, rows: NDArray[np.int64]) -> _Queue:
        """The events at these positions."""
        marks = (self.settled[rows], self.accounted[rows], self.shown[rows])
        return _Queue(self.events.take(rows), *marks, self.reference)


def move_queues(before: Sequence[TaskState], route: Route, store: SegmentStore, writer: SegmentWriter) -> MovedTasks:
    """Move the queues of a bolt's tasks. Windows are runs of time, so each event is in those that it was in."""
    streams = len(route.movable.streams)
    parts: list[list[_Queue]] = [[] for _ in range(route.parallelism)]
    for state in before:
        queue = _read(state, store)
        if queue is None:
            continue
        tasks = route.of_rows(_queue_columns(queue.events), queue.events.streams)
        for task in np.unique(tasks).tolist():
            parts[task].append(queue.part(np.flatnonzero(tasks == task)))
    states = [_state(each) for each in before]
    frontier = _latest([state.previous_frontier for state in states])
    reference = _latest([state.last_reference for state in states])
    moved = MovedTasks([], np.zeros(streams, np.int64))
    for found in parts:
        windows = QueueState(previous_frontier=frontier, last_reference=reference)
        if not found:
            moved.tasks.append(TaskState(windows))
            continue
        task, passed = _joined(found, windows, writer, streams)
        moved.tasks.append(task)
        moved.unwindowed += passed
    return moved


def _state(task: TaskState) -> QueueState:
    assert isinstance(task.windows, QueueState)
    return task.windows


def _latest(times: Sequence[int | None]) -> int | None:
    return max((time for time in times if time is not None), default=None)


def _queue_columns(events: Events) -> pa.Table:
    """The columns of events; those of the key of partial sums by their own names."""
    table = pa.Table.from_batches([events.payload])
    if events.weights is None:
        return table
    keys = [name for name in table.column_names if name.startswith(_KEY)]
    return table.select(keys).rename_columns([name.removeprefix(_KEY) for name in keys])


def _read(task: TaskState, store: SegmentStore) -> _Queue | None:
    """The queue of a task; None where it is empty."""
    state, events = _state(task), read_queue(store, task.refs)
    if events is None:
        return None
    places = np.arange(len(events))
    low, high = state.previous or (0, 0)
    return _Queue(
        events,
        places < state.settled_count,
        places < state.accounted,
        (places >= low) & (places < high),
        state.last_reference,
    )


def _joined(
    parts: Sequence[_Queue], windows: QueueState, writer: SegmentWriter, streams: int
) -> tuple[TaskState, NDArray[np.int64]]:
    """The task that has these parts, and the events among them, by input, that it now knows to be in no window."""
    last = _latest([part.reference for part in parts if part.shown.any()])
    events = Events.concat([part.events for part in parts])
    order = stable_order(events.timestamps)
    events = events.take(order)
    shown = np.concatenate([part.shown & (part.reference == last) for part in parts])[order]
    accounted = np.concatenate([part.accounted for part in parts])[order]
    settled = np.concatenate([part.settled for part in parts])[order]
    known = int(np.flatnonzero(accounted)[-1]) + 1 if accounted.any() else 0
    windows.accounted = known
    if shown.any():
        places = np.flatnonzero(shown)
        windows.previous = [int(places[0]), int(places[-1]) + 1]
    final = len(events) if settled.all() else int(np.argmin(settled))
    windows.settled_count = max(final, known, (windows.previous or [0, 0])[1])
    passed = events.take(np.flatnonzero(~accounted[:known])).by_stream(streams)
    ref = write_events(writer, events, streams)
    return TaskState(windows, Refs([ref]), events.slice(0, known).by_stream(streams).tolist()), passed


# Events that tasks hold until no window needs them, and what is known of their keys, moved to other tasks.


TasksOf = Callable[[pa.Table], "NDArray[np.int64]"]
_WINDOW_KEY = RETRACTED[1]


class HeldMove:
    """Moves what the tasks of one bolt hold: first the events, from which the tasks of keys are learned."""

    def __init__(self, before: Sequence[TaskState], route: Route, store: SegmentStore, writer: SegmentWriter) -> None:
        self.before, self.route, self.store, self.writer = before, route, store, writer
        self.streams = len(route.movable.streams)
        self._feeds: list[set[int]] = [set() for _ in range(route.parallelism)]
        """Per new task, the old ones of which it has something."""
        numbers = [state.evaluations for state in (each.windows for each in before) if isinstance(state, AssignedState)]
        self._evaluations = max(numbers, default=0)
        self._codes = [self._codes_of(state) for state in before]
        self._learn_kept()
        """These numbers are compared within a key only, and those to come are greater than those of any task."""
        self._parts = self._divided([state.refs for state in before])
        self._edges = self._divided([self._edges_of(state) for state in before])

    def moved(self) -> MovedTasks:
        """The tasks from now on, without what their bolts keep."""
        triggered = any(isinstance(state.windows, TriggeredState) for state in self.before)
        windows: Sequence[WindowsState] = self._triggered() if triggered else self._assigned()
        tasks = []
        for state, parts in zip(windows, self._parts, strict=True):
            held = Held.concat(parts).sorted() if parts else None
            refs = [] if held is None else [write_held(self.writer, held, self.streams)]
            tasks.append(TaskState(state, Refs(refs), self._accounted(held)))
        return MovedTasks(tasks, np.zeros(self.streams, np.int64))

    def shown(self) -> list[dict[str, Ref]]:
        """Per new task, the rows that a later firing of their windows may retract, by output stream."""
        found: list[dict[str, Ref]] = [{} for _ in range(self.route.parallelism)]
        for stream in sorted({name for state in self.before for name in state.bolt.shown}):
            stored = [state.bolt.shown.get(stream) for state in self.before]
            tables = self._tables(stored, lambda rows: self._by_code(rows, _WINDOW_KEY))
            for task, table in enumerate(tables):
                if table is not None:
                    found[task][stream] = self.writer.add(table)
        return found

    def _assigned(self) -> list[AssignedState]:
        old = [state.windows for state in self.before]
        assert all(isinstance(state, AssignedState) for state in old)
        states = [state for state in old if isinstance(state, AssignedState)]
        panes = self._tables([state.panes for state in states], lambda rows: self._by_code(rows, "key"))
        released = self._tables([state.released for state in states], lambda rows: self._by_code(rows, "key"))
        codes = self._tables([state.codes for state in states], lambda rows: self._by_code(rows, CODE_COLUMN))
        known = self._tables([state.known for state in states], self.route.of_keys)
        floors, marks = self._marks(states)
        ends = [state.last_end for state in states if state.last_end is not None]
        moved = []
        for task in range(self.route.parallelism):
            edges = Held.concat(self._edges[task]) if self._edges[task] else None
            stored = None if edges is None else write_held(self.writer, replace(edges, seen=None), self.streams)
            of_keys = known[task]
            fed = [states[number] for number in sorted(self._feeds[task])]
            due = [state.next_end for state in fed if state.next_end is not None]
            moved.append(
                AssignedState(
                    next_end=min(due, default=None),
                    last_end=max(ends, default=None),
                    evaluations=self._evaluations,
                    floor=floors[task],
                    open_ends=tuple(sorted({end for state in fed for end in state.open_ends})),
                    waiting_by_stream=() if stored is None else stored.by_stream,
                    keys=self._add(marks[task]),
                    known=self._add(None if of_keys is None else _sorted(of_keys, KEY_COLUMN)),
                    panes=self._add(panes[task]),
                    released=self._add(released[task]),
                    end_edges=stored,
                    codes=self._add(codes[task]),
                )
            )
        return moved

    def _triggered(self) -> list[TriggeredState]:
        states = [state.windows for state in self.before if isinstance(state.windows, TriggeredState)]
        records = self._tables([state.keys for state in states], self.route.of_keys)
        codes = self._tables([state.codes for state in states], lambda rows: self._by_code(rows, CODE_COLUMN))
        moved = []
        for task in range(self.route.parallelism):
            due = [states[number].next_due for number in self._feeds[task]]
            of_keys = records[task]
            state = TriggeredState(
                next_due=min((time for time in due if time is not None), default=None),
                open_windows=self._open_windows(task, codes[task]),
                keys=self._add(None if of_keys is None else _sorted(of_keys, KEY_COLUMN)),
                codes=self._add(codes[task]),
            )
            ends = [each.last_end for each in states if isinstance(each, PolicyState) and each.last_end is not None]
            by_policies = any(isinstance(each, PolicyState) for each in states)
            if by_policies:
                state = PolicyState(**vars(state), last_end=max(ends, default=None))
            elif any(isinstance(each, EventState) for each in states):
                state = EventState(**vars(state))
            moved.append(state)
        return moved

    def _open_windows(self, task: int, codes: pa.Table | None) -> int:
        """Number of keys of a new task that have live events."""
        if not self._parts[task]:
            return 0
        held = KeyCodes(self.route.movable.keys, codes).apply(Held.concat(self._parts[task]))
        assert held.keys is not None
        return len(np.unique(held.keys if held.gone is None else held.keys[~held.gone]))

    def _codes_of(self, state: TaskState) -> KeyCodes:
        """The codes of the keys of an old task, of which the route learns the hashes of those that share one."""
        stored = None if isinstance(state.windows, QueueState) else state.windows.codes
        table = None if stored is None else self.store.read(stored)
        if table is not None:
            columns = (table.column(name).to_pylist() for name in (CODE_COLUMN, HASH_COLUMN))
            self.route.shared |= dict(zip(*columns, strict=True))
        return KeyCodes(self.route.movable.keys, table)

    def _learn_kept(self) -> None:
        """Learn the tasks of the keys that may have no events any more."""
        for state in (each.windows for each in self.before):
            of_keys = [] if isinstance(state, QueueState) else [state.keys]
            if isinstance(state, AssignedState):
                of_keys.append(state.known)
            for ref in of_keys:
                if ref is not None:
                    table = self.store.read(ref)
                    self.route.learn(table.column(KEY_COLUMN).to_numpy(), self.route.of_keys(table))

    def _edges_of(self, state: TaskState) -> list[Ref]:
        waiting = state.windows.end_edges if isinstance(state.windows, AssignedState) else None
        return [] if waiting is None else [waiting]

    def _divided(self, stored: Sequence[Sequence[Ref]]) -> list[list[Held]]:
        """Per new task, the events that are still needed, in order of arrival at each old one."""
        parts: list[list[Held]] = [[] for _ in range(self.route.parallelism)]
        for number, refs in enumerate(stored):
            for ref in refs:
                held, flags = read_held(self.store, ref)
                needed = np.flatnonzero(is_needed(flags))
                held = held.take(needed)
                flags = flags[needed]
                held = replace(held, last=(flags & LAST) != 0, gone=(flags & GONE) != 0)
                tasks = self.route.of_rows(held.payload, held.streams)
                if held.keys is not None:
                    self.route.learn(held.keys, tasks)
                    codes = self._codes[number].apply(held).keys
                    if codes is not None and codes is not held.keys:
                        self.route.learn(codes, tasks)
                for task in np.unique(tasks).tolist():
                    parts[task].append(held.take(np.flatnonzero(tasks == task)))
                    self._feeds[task].add(number)
        return parts

    def _tables(
        self,
        stored: Sequence[Ref | None],
        tasks_of: TasksOf,
        change: Callable[[pa.Table, int], pa.Table] = lambda table, number: table,
    ) -> list[pa.Table | None]:
        """Tables of old tasks, divided among the new ones; None for a task that has no row."""
        parts: list[list[pa.Table]] = [[] for _ in range(self.route.parallelism)]
        for number, ref in enumerate(stored):
            if ref is None:
                continue
            table = change(self.store.read(ref), number)
            tasks = tasks_of(table)
            for task in np.unique(tasks).tolist():
                parts[task].append(table.take(pa.array(np.flatnonzero(tasks == task))))
                self._feeds[task].add(number)
        return [pa.concat_tables(tables) if tables else None for tables in parts]

    def _by_code(self, table: pa.Table, column: str) -> NDArray[np.int64]:
        return self.route.of_codes(table.column(column).to_numpy())

    def _marks(self, states: Sequence[AssignedState]) -> tuple[list[int | None], list[pa.Table | None]]:
        """Per new task, the floor of the watermarks of its keys, and the watermarks above it.

        A task that has keys of several has the least of their floors; the keys that had a higher one have it as a mark
        of their own, so that no window of theirs is evaluated again.
        """
        tables = self._tables([state.keys for state in states], self.route.of_keys, self._above(states))
        floors: list[int | None] = []
        highest = max((state.floor for state in states if state.floor is not None), default=None)
        for task in range(self.route.parallelism):
            own = [states[number].floor for number in sorted(self._feeds[task])]
            known = {NONE if floor is None else floor for floor in own}
            least = min(known, default=NONE if highest is None else highest)
            floors.append(None if least == NONE else least)
            if len(known) > 1:
                tables[task] = self._with_floors(task, tables[task], states, least)
        return floors, [None if table is None else _sorted(table, KEY_COLUMN) for table in tables]

    def _above(self, states: Sequence[AssignedState]) -> Callable[[pa.Table, int], pa.Table]:
        """Raises the marks in a table to the floor of their task."""

        def change(table: pa.Table, number: int) -> pa.Table:
            floor = states[number].floor
            if floor is None:
                return table
            for name in (MARK_COLUMN, PREVIOUS_COLUMN):
                place = table.column_names.index(name)
                raised = np.maximum(table.column(name).to_numpy(), floor)
                table = table.set_column(place, name, pa.array(raised))
            return table

        return change

    def _with_floors(
        self, task: int, table: pa.Table | None, states: Sequence[AssignedState], least: int
    ) -> pa.Table | None:
        """The marks of a task, with one for each key that has events and had a higher floor than the task now has."""
        known = set() if table is None else set(table.column(KEY_COLUMN).to_pylist())
        parts = [] if table is None else [table]
        for number in self._feeds[task]:
            floor = states[number].floor
            if floor is None or floor <= least:
                continue
            for ref in self.before[number].refs:
                held = self._codes[number].apply(read_held(self.store, ref)[0])
                assert held.keys is not None
                keys, firsts = np.unique(held.keys, return_index=True)
                here = self.route.of_rows(held.payload, held.streams)[firsts] == task
                new = here & np.array([key not in known for key in keys.tolist()], np.bool_)
                if not new.any():
                    continue
                known |= set(keys[new].tolist())
                marks = pa.array(np.full(np.count_nonzero(new), floor))
                own = pa.table({KEY_COLUMN: keys[new], MARK_COLUMN: marks, PREVIOUS_COLUMN: marks})
                values = key_rows(held.payload, held.streams, self.route.movable.keys).take(pa.array(firsts[new]))
                parts.append(pa.table({**_table_columns(own), **_table_columns(values)}))
        return pa.concat_tables(parts, promote_options="permissive") if parts else None

    def _accounted(self, held: Held | None) -> list[int]:
        if held is None:
            return []
        flags = held.flags()
        which = ((flags & SEEN) != 0) & is_needed(flags)
        codes = None if held.streams is None else held.streams[which]
        return [int(n) for n in count_by_stream(codes, int(np.count_nonzero(which)), self.streams)]

    def _add(self, table: pa.Table | None) -> Ref | None:
        return None if table is None else self.writer.add(table)


def _table_columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(table.column_names, table.columns, strict=True))


def _sorted(table: pa.Table, column: str) -> pa.Table:
    return table.take(pa.array(np.argsort(table.column(column).to_numpy(), kind="stable")))
