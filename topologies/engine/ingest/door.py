"""The entrance to windowed bolts, where events are read: events get their times and are admitted, turned away, or left
to the bolt's tasks to decide about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from manager.storage.taking import take_rows
from policies.admission import Decision, timely
from policies.lateness import BEHIND, WINDOW_OVER
from topologies.engine.batch.failures import bolt_failure
from topologies.engine.batch.plan import Context
from topologies.engine.batch.trace import event_ids
from topologies.engine.ingest.arriving import note, timed
from topologies.engine.ingest.error_rows import error_rows
from topologies.engine.ingest.ledger import Ledger
from topologies.engine.ingest.rows import Rows
from topologies.engine.ingest.staging import Staging
from topologies.engine.time.admission import Admitted, admit, conform_input, late_rows
from topologies.graph.groupings import AllGrouping
from topologies.graph.model import ERRORS, Stream, WindowedNode, copies

if TYPE_CHECKING:
    from numpy.typing import NDArray

Emit: TypeAlias = Callable[[Stream, Rows], None]
"""Routes rows of a stream to its readers."""


class InputDoor:
    """The entrance through which the events that one task reads or emits reach windowed bolts."""

    def __init__(self, context: Context, ledger: Ledger, staging: Staging, emit: Emit) -> None:
        self._context, self._ledger, self._staging, self._emit = context, ledger, staging, emit

    def arrive(self, node: WindowedNode, input_index: int, rows: Rows) -> None:
        """Take in rows for one input of a bolt."""
        rows = self._needed(node, input_index, rows)
        if not rows.table.num_rows:
            return
        if node.deferred:
            self._defer(node, input_index, rows)
        else:
            self._admit(node, input_index, rows)

    def _needed(self, node: WindowedNode, input_index: int, rows: Rows) -> Rows:
        """The rows without the events older than the first output of the run needs; those are counted as skipped."""
        first = self._context.first
        if first is None:
            return rows
        with bolt_failure(node.name, self._context.batch, "in giving events their times"):
            older = first.older(node, input_index, rows.table, rows.clock)
        if not older.any():
            return rows
        self._ledger.count(node, input_index, "skipped", int(np.count_nonzero(older)) * copies(node, input_index))
        return rows.take(np.flatnonzero(~older))

    def _defer(self, node: WindowedNode, input_index: int, rows: Rows) -> None:
        """Give events their times, and leave their admission to the bolt's tasks."""
        with bolt_failure(node.name, self._context.batch, "in giving events their times"):
            timed_rows = timed(node, input_index, rows.table, rows.times, rows.clock)
        wrong = np.flatnonzero(timed_rows.reasons != "")
        if len(wrong):
            self._ledger.count(node, input_index, "received", len(wrong) * copies(node, input_index))
            self._invalid(node, input_index, rows, wrong, timed_rows.reasons)
            timed_rows.actions[wrong] = Decision.INVALID
        self._ledger.note_arrivals(node, rows.clock, timed_rows.arrived)
        if node.event_time and not node.origins[input_index]:
            seen = timed_rows.times[timely(timed_rows.actions)]
            if len(seen):
                self._ledger.latest(node, input_index, int(seen.max()))
        elif node.event_time and not node.carries_time[input_index] and rows.times is not None:
            good = timed_rows.actions != Decision.INVALID
            if good.any():
                self._ledger.skew(node, input_index, int((rows.times - timed_rows.times)[good].max()))
        partition = rows.partition if self._context.topology.spouts_before(node)[input_index] else ""
        note(
            self._staging.arriving(node),
            node,
            input_index,
            rows.table,
            timed_rows,
            self._tasks(node, input_index, rows),
            partition,
        )

    def _admit(self, node: WindowedNode, input_index: int, rows: Rows) -> None:
        """Admit events or turn them away at once."""
        watermark, task_count = self._context.watermarks[node.name], copies(node, input_index)
        with bolt_failure(node.name, self._context.batch, "in giving events their times"):
            admitted = admit(node, input_index, rows.table, rows.times, rows.clock, watermark)
        self._ledger.count(node, input_index, "received", rows.table.num_rows * task_count)
        if admitted.latest is not None and not node.origins[input_index]:
            self._ledger.latest(node, input_index, admitted.latest)
        elif admitted.latest is not None and not node.carries_time[input_index] and rows.times is not None:
            good = slice(None) if admitted.reasons is None else admitted.reasons == ""
            self._ledger.skew(node, input_index, int((rows.times - admitted.times)[good].max()))
        if admitted.reasons is not None:
            self._invalid(node, input_index, rows, admitted.invalid, admitted.reasons)
        if len(admitted.late):
            self._late(node, input_index, rows, admitted)
        if len(admitted.gap):
            self._ledger.count(node, input_index, "unwindowed", len(admitted.gap) * task_count)
        self._queue(node, input_index, rows, admitted)

    def _queue(self, node: WindowedNode, input_index: int, rows: Rows, admitted: Admitted) -> None:
        """Queue admitted events for their tasks."""
        queued = replace(rows, times=admitted.times)
        if admitted.queued is not None:
            queued = queued.take(admitted.queued)
        times = queued.times
        if times is None or not len(times):
            return
        table = conform_input(queued.table, node.schema)
        if node.slicing is not None:
            self._staging.queue(node, input_index, table, times, np.zeros(0, np.int64))
            return
        tasks = self._tasks(node, input_index, queued)
        if tasks is not None:
            self._staging.queue(node, input_index, table, times, tasks)
            return
        for task in range(copies(node, input_index)):
            self._staging.queue(node, input_index, table, times, np.full(len(times), task, np.int64))

    def _late(self, node: WindowedNode, input_index: int, rows: Rows, admitted: Admitted) -> None:
        self._ledger.count(node, input_index, "late", len(admitted.late) * copies(node, input_index))
        self._ledger.count(node, input_index, "out_of_order", len(admitted.late) * copies(node, input_index))
        if self._ledger.traced:
            for name in event_ids(take_rows(rows.table, admitted.late)):
                self._ledger.trace("late", {"bolt": node.name, "event": name})
        stream = node.bolt.settings.late_stream
        if stream is None:
            return
        watermark = self._context.watermarks[node.name]
        assert watermark is not None
        times = admitted.times[admitted.late]
        reasons = np.where(times < watermark, BEHIND, WINDOW_OVER).tolist()
        inputs, marks = np.full(len(times), input_index, np.int8), np.full(len(times), watermark, np.int64)
        turned = take_rows(rows.table, admitted.late)
        table = late_rows(node, turned, inputs, times, reasons, watermark - times, marks)
        late = rows.become(table, None, admitted.late)
        for _ in range(copies(node, input_index)):
            self._emit((node.name, stream), late)

    def _invalid(
        self, node: WindowedNode, input_index: int, rows: Rows, places: NDArray[np.int64], reasons: Any
    ) -> None:
        self._ledger.count(node, input_index, "invalid", len(places) * copies(node, input_index))
        label = node.streams[input_index]
        self._ledger.complain(node.name, label, f"row {rows.positions[places[0]]}: {reasons[places[0]]}")
        wrong = take_rows(rows.table, places)
        bad = error_rows(node.name, label, wrong, rows.positions[places], reasons[places].tolist())
        from_source = rows.times is None and rows.placed
        if self._ledger.traced and from_source:  # identified by their positions there: not all events have ids
            for row, reason in zip(rows.positions[places].tolist(), reasons[places].tolist(), strict=True):
                self._ledger.trace("invalid", {"bolt": node.name, "row": row, "reason": reason})
        for _ in range(copies(node, input_index)):
            self._emit((node.name, ERRORS), Rows.made(bad, rows.clock))

    def _tasks(self, node: WindowedNode, input_index: int, rows: Rows) -> NDArray[np.int64] | None:
        """The task that each row goes to; None where every row goes to every task."""
        grouping = node.inputs[input_index].grouping
        if isinstance(grouping, AllGrouping):
            return None
        if node.parallelism == 1:
            return np.zeros(rows.table.num_rows, np.int64)
        places = rows.positions + rows.turns if rows.placed else None
        return grouping.tasks(rows.table, places, node.parallelism)
