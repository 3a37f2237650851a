"""What the code of a bolt keeps in its tasks, as tables; and rows that its windows may take back."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from topologies.state_tables.state_columns import beside, joined
from topologies.state_tables.task_reader import TaskReader

_VALUES = pa.schema([("task", pa.int32()), ("name", pa.string()), ("value", pa.string())])


def bolt_tables(tasks: Iterable[TaskReader]) -> dict[str, pa.Table]:
    """``state``, with a row for each value that is no table, as JSON; ``state.NAME`` for each table of a stateful bolt;
    ``retractable.STREAM`` for the rows of firings that a later one may retract."""
    values: list[pa.Table] = []
    found: dict[str, list[pa.Table]] = {}
    for task in tasks:
        bolt = task.state.bolt
        for name, ref in sorted(bolt.user.items()):
            table = task.store.read(ref)
            if name:
                found.setdefault(f"state.{name}", []).append(_of_task(task.number, table))
            else:
                values.append(_values(task.number, json.loads(table.column("json")[0].as_py())))
        for stream, ref in sorted(bolt.shown.items()):
            found.setdefault(f"retractable.{stream}", []).append(_of_task(task.number, task.store.read(ref)))
    tables = {"state": joined(values, _VALUES.empty_table())} if values or found else {}
    return tables | {name: joined(parts, parts[0].slice(0, 0)) for name, parts in sorted(found.items())}


def _of_task(number: int, table: pa.Table) -> pa.Table:
    return beside({"task": pa.array(np.full(table.num_rows, number, np.int32))}, table, "state.")


def _values(number: int, values: dict[str, object]) -> pa.Table:
    texts = [json.dumps(value, ensure_ascii=False) for value in values.values()]
    numbers = np.full(len(texts), number, np.int32)
    return pa.table([numbers, list(values), texts], schema=_VALUES)
