"""Events that tasks hold until no window needs them, and what is known of their keys, moved to other tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.keyed.held import GONE, LAST, SEEN, Held, is_needed
from manager.keyed.held_segments import KEY_COLUMN, read_held, write_held
from manager.keyed.substreams import MARK_COLUMN, PREVIOUS_COLUMN
from manager.queue.queue_state import QueueState
from manager.storage.segments.ref import Ref
from manager.storage.segments.refs import Refs
from manager.storage.segments.segments import SegmentStore, SegmentWriter
from manager.storage.task_state import AssignedState, PolicyState, TaskState, TriggeredState, WindowsState
from policies.marks import NONE
from topologies.checkpoints.rescaling.move_queues import MovedTasks
from topologies.checkpoints.rescaling.routes import Route
from topologies.graph.inner_columns import RETRACTED
from topologies.graph.key_codes import CODE_COLUMN, HASH_COLUMN, KeyCodes, key_rows
from windowing.data.events import count_by_stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
            moved.append(PolicyState(**vars(state), last_end=max(ends, default=None)) if by_policies else state)
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
                parts.append(pa.table({**_columns(own), **_columns(values)}))
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


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(table.column_names, table.columns, strict=True))


def _sorted(table: pa.Table, column: str) -> pa.Table:
    return table.take(pa.array(np.argsort(table.column(column).to_numpy(), kind="stable")))
