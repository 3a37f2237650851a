"""The open windows of a bolt as a table: those that hold events, and that have not fired for the last time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.keyed.held import Held
from manager.keyed.pane_states import PaneStates
from manager.queue.queue_state import QueueState
from manager.storage.segments.take_rows import take_rows
from manager.storage.task_state import AssignedState, PolicyState
from policies.marks import NONE
from topologies.state_tables.assigned_windows import reached_span, windows_of
from topologies.state_tables.state_columns import TIME, beside, beside_none, joined, time_column
from topologies.state_tables.task_reader import TaskReader, key_columns
from windowing.settings.bounds import Bounds

if TYPE_CHECKING:
    from numpy.typing import NDArray

_OWN = pa.schema(
    [
        ("task", pa.int32()),
        ("kind", pa.int32()),
        ("start", TIME),
        ("end", TIME),
        ("events", pa.int64()),
        ("firings", pa.int64()),
    ]
)
_AT_MOST = 1 << 20
"""Windows on a grid that are looked at in one step."""


def window_table(tasks: Sequence[TaskReader], clock: int | None, keys: pa.Schema) -> pa.Table:
    """A row for each open window.

    ``kind`` is its place among the kinds of windows that the bolt has; ``firings`` how often it has fired already.
    ``end`` is null where events decide when it fires; ``start`` where the window counts events. Windows of a count that
    are not by key, and those of policies of a user's own, are not there: which events they hold is known when they
    fire. ``keys`` are the columns of the key.
    """
    found = [part for task in tasks for part in _windows(task, clock)]
    return joined(found, beside_none(_OWN, keys, "key."))


def _windows(task: TaskReader, clock: int | None) -> Iterator[pa.Table]:
    match task.state.windows:
        case QueueState() as state:
            yield from _of_queue(task, state, clock)
        case AssignedState() as state:
            if task.live is not None:
                yield from _assigned(task, state, task.live)
        case PolicyState():
            pass  # which events a window holds is known when the policies have decided
        case _:
            if task.live is not None:
                yield _triggered(task, task.live)


def _of_queue(task: TaskReader, state: QueueState, clock: int | None) -> Iterator[pa.Table]:
    timing = task.timing
    if timing.length is None or timing.slide is None or not task.rows:
        return
    times = np.concatenate([rows.times for rows in task.rows])
    counts = np.concatenate([rows.counts for rows in task.rows])
    order = np.argsort(times, kind="stable")
    times, so_far = times[order], np.concatenate([[0], np.cumsum(counts[order])])
    watermark = task.bolt.watermark
    reached = watermark.current if timing.event_time else clock
    over = max(
        NONE if reached is None else reached - timing.past_end,
        NONE if watermark.forced is None else watermark.forced,
        NONE if state.last_reference is None else state.last_reference,
    )
    offset = timing.offset % timing.slide
    first = int(times[0]) - timing.slide if over == NONE else max(over, int(times[0]) - timing.slide)
    first = int(Bounds.START.first_end(np.array([first]), timing.slide, offset)[0])  # the first end after it
    for begin in range(first, int(times[-1]) + timing.length + 1, _AT_MOST * timing.slide):
        stop = min(begin + _AT_MOST * timing.slide, int(times[-1]) + timing.length + 1)
        ends = np.arange(begin, stop, timing.slide)
        held = so_far[timing.bounds.up_to(times, ends)] - so_far[timing.bounds.up_to(times, ends - timing.length)]
        ends, held = ends[held > 0], held[held > 0]
        yield _rows(task, np.zeros(len(ends), np.int32), ends - timing.length, ends, held, None)


def _assigned(task: TaskReader, state: AssignedState, live: Held) -> Iterator[pa.Table]:
    windows = windows_of(task, live)
    span = reached_span(task, state, live, windows)
    assigners, panes = windows.assigners, PaneStates.of(task.table(state.panes))
    for kind, piece in windows.open_windows(span):
        if not len(piece):
            continue
        firsts = piece.members[piece.offsets[:-1]]
        hashes = np.zeros(len(piece), np.int64) if live.keys is None else live.keys[firsts]
        fired, shut = _firings(panes, kind, hashes, piece.starts, piece.ends)
        chosen = np.flatnonzero(~shut)
        keys = _keys(task, live, firsts[chosen])
        kinds = np.full(len(chosen), kind, np.int32)
        starts = piece.starts[chosen] if assigners[kind].ends_by_time else np.full(len(chosen), NONE, np.int64)
        counts = np.diff(piece.offsets)[chosen]
        yield _rows(task, kinds, starts, piece.ends[chosen], counts, keys, fired[chosen])


def _triggered(task: TaskReader, live: Held) -> pa.Table:
    """One window for each key that has events."""
    assert live.keys is not None
    order = np.lexsort((live.times, live.keys))
    keys, times = live.keys[order], live.times[order]
    heads = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    counts = np.diff(np.append(heads, len(keys)))
    kinds, ends = np.zeros(len(heads), np.int32), np.full(len(heads), NONE, np.int64)
    return _rows(task, kinds, times[heads], ends, counts, _keys(task, live, order[heads]))


def _firings(
    panes: PaneStates, kind: int, keys: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """How often windows have fired, and which of them a firing has closed."""
    fired, shut = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.bool_)
    columns = (panes.kind, panes.key, panes.start, panes.end, panes.index, panes.shut)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    known = {(key, start, end): (index, closed) for of, key, start, end, index, closed in rows if of == kind}
    if known:
        windows = zip(keys.tolist(), starts.tolist(), ends.tolist(), strict=True)
        found = [known.get(window, (0, 0)) for window in windows]
        fired[:], shut[:] = [index for index, _ in found], [closed > 0 for _, closed in found]
    return fired, shut


def _keys(task: TaskReader, live: Held, events: NDArray[np.int64]) -> pa.Table | None:
    """The key of each of these events, under the names that it has at the first input."""
    shown = list(key_columns(task.timing)) if any(task.timing.keys) else []
    if not shown:
        return None
    rows = take_rows(live.payload, events)
    codes = np.zeros(len(events), np.int8) if live.streams is None else live.streams[events]
    columns = {}
    for place, name in enumerate(shown):
        parts = [rows.column(of_input[place]).combine_chunks() for of_input in task.timing.keys]
        if len({each[place] for each in task.timing.keys}) == 1:
            columns[name] = parts[0]
        else:
            joined_parts = pa.chunked_array(parts)
            columns[name] = joined_parts.take(pa.array(codes.astype(np.int64) * len(rows) + np.arange(len(rows))))
    return pa.table(columns)


def _rows(
    task: TaskReader,
    kinds: NDArray[np.int32],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    events: NDArray[np.int64],
    keys: pa.Table | None,
    firings: NDArray[np.int64] | None = None,
) -> pa.Table:
    count = len(starts)
    own = {
        "task": pa.array(np.full(count, task.number, np.int32)),
        "kind": pa.array(kinds),
        "start": time_column(starts),
        "end": time_column(ends),
        "events": pa.array(events.astype(np.int64)),
        "firings": pa.array(np.zeros(count, np.int64) if firings is None else firings),
    }
    return pa.table(own) if keys is None else beside(own, keys, "key.")
