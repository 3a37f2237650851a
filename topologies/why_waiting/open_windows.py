"""The open windows of a bolt whose windows are not at regular times, each with its end, its key and what it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from manager.storage.manifest import BoltState
from manager.storage.segments.segments import SegmentStore
from topologies.checkpoints.notes.timing_note import BoltTiming
from topologies.state_tables.task_reader import TaskReader, key_columns
from topologies.state_tables.window_table import window_table


@dataclass(frozen=True)
class OpenWindow:
    """A window that holds events and has not fired for the last time; times in microseconds."""

    start: int | None
    end: int | None
    """None where its events decide when it fires."""
    events: int
    firings: int
    """How often it has fired already."""
    key: str | None
    """The values of its key with commas between them; None where windows hold the events of all keys."""


def windows_still_open(
    state: BoltState, timing: BoltTiming, store: SegmentStore, clock: int | None, key: str | None
) -> list[OpenWindow]:
    """Those of a bolt, or of one key; by their ends, those without one last."""
    names = list(key_columns(timing)) if any(timing.keys) else []
    tasks = [TaskReader(state, number, store, timing) for number in range(len(state.tasks))]
    table = window_table(tasks, clock, pa.schema([(name, pa.null()) for name in names]))
    shown = [name if name in table.column_names else f"key.{name}" for name in names]
    found = [
        OpenWindow(start, end, events, firings, of_key)
        for start, end, events, firings, of_key in zip(
            *(_column(table, name) for name in ("start", "end", "events", "firings")), _keys(table, shown), strict=True
        )
        if key is None or of_key is None or of_key == key
    ]
    return sorted(found, key=lambda window: (window.end is None, window.end or 0))


def _column(table: pa.Table, name: str) -> list[int | None]:
    column = table.column(name)
    values: list[int | None] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return values


def _keys(table: pa.Table, names: Sequence[str]) -> list[str | None]:
    if not names:
        return [None] * table.num_rows
    texts = [[str(value) for value in table.column(name).to_pylist()] for name in names]
    return [",".join(values) for values in zip(*texts, strict=True)]
