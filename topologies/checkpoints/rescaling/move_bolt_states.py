"""What bolts themselves keep in their tasks, moved to other tasks: states by key, and by a method of the bolt."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from manager.storage.segments.ref import Ref
from manager.storage.segments.segments import SegmentStore, SegmentWriter
from manager.storage.task_state import BoltTaskState
from topologies.checkpoints.rescaling.routes import Route
from topologies.engine.fire.bolt_calls import load_state
from windowing.bolts.bolt_state import pack_state
from windowing.bolts.windowed_bolt import StatefulWindowedBolt
from windowing.data.schema import parse_schema
from windowing.errors import BoltError, CheckpointError

UserState = dict[str, Any]


def move_bolt_states(
    before: Sequence[BoltTaskState],
    route: Route,
    store: SegmentStore,
    writer: SegmentWriter,
    bolt: StatefulWindowedBolt | None,
) -> list[BoltTaskState]:
    """What the bolt keeps in each task from now on, except for rows that may be retracted.

    Counts are of all tasks together, so the first task has them. ``bolt`` is asked where it moves its state itself.
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
    bolt: StatefulWindowedBolt | None,
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
    saved: list[UserState], route: Route, bolt: StatefulWindowedBolt | None
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
