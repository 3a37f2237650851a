"""The inputs of windowed bolts in tasks that read events: events get their times, and are admitted, or left
to the tasks of the bolt to decide about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from manager.storage.segments.take_rows import take_rows
from policies.admission import Decision, accepted, all_accepted, timely
from topologies.engine.admission.deciding import AdmissionContext, Decisions, Incoming, Marks, decide
from topologies.engine.admission.late_rows import conform_input
from topologies.engine.admission.recording import EmitRows, record
from topologies.engine.batch.context import Context
from topologies.engine.failures.user_code import bolt_failure
from topologies.engine.ingest.refusing import Unusable, refuse
from topologies.engine.ingest.staging import Staging
from topologies.engine.ledger.ledger import Ledger
from topologies.engine.rows.routed_rows import Rows
from topologies.engine.time.timed_rows import Timed, timed
from topologies.engine.work.input_progress import InputProgress
from topologies.graph.groupings import AllGrouping
from topologies.graph.nodes.windowed import WindowedNode

if TYPE_CHECKING:
    from numpy.typing import NDArray


class WindowedInputs:
    """Takes the events that one task reads or emits to the windowed bolts that read them."""

    def __init__(self, context: Context, ledger: Ledger, staging: Staging) -> None:
        self._context, self._ledger, self._staging = context, ledger, staging

    def arrive(self, node: WindowedNode, input_index: int, rows: Rows, emit: EmitRows) -> None:
        """Take in rows for one input of a bolt. Late and invalid rows are routed by ``emit``.

        ``emit`` is an argument, not an attribute: a reference cycle would keep a task's rows until the next garbage
        collection.
        """
        rows = self._needed(node, input_index, rows)
        if not rows.table.num_rows:
            return
        with bolt_failure(node.name, self._context.batch, "in giving events their times"):
            timed_rows = timed(node, input_index, rows.table, rows.times, rows.clock)
        truncated = [mask for mask in (rows.truncated, timed_rows.truncated) if mask is not None]
        if truncated:
            cut = np.logical_or.reduce(truncated) & (timed_rows.codes != Decision.INVALID)
            self._ledger.count_chosen(node, "truncated", input_index, cut, node.copies(input_index))
        self._refuse(node, input_index, rows, timed_rows, emit)
        self._see(node, input_index, rows, timed_rows)
        if node.deferred:
            self._defer(node, input_index, rows, timed_rows)
        else:
            self._admit(node, input_index, rows, timed_rows, emit)

    def _needed(self, node: WindowedNode, input_index: int, rows: Rows) -> Rows:
        """The rows without the events older than the first output of the run needs; those are counted as skipped."""
        first = self._context.first
        if first is None:
            return rows
        with bolt_failure(node.name, self._context.batch, "in giving events their times"):
            older = first.older(node, input_index, rows.table, rows.clock)
        if not older.any():
            return rows
        skipped = int(np.count_nonzero(older)) * node.copies(input_index)
        self._ledger.count(node, input_index, "skipped", skipped)
        return rows.take(np.flatnonzero(~older))

    def _refuse(self, node: WindowedNode, input_index: int, rows: Rows, timed_rows: Timed, emit: EmitRows) -> None:
        """Record invalid rows, and emit them on the error stream."""
        places, reasons, number = timed_rows.invalid, timed_rows.reasons, node.copies(input_index)
        if reasons is None or not len(places):
            return
        self._ledger.count(node, input_index, "received", len(places) * number)
        from_source = rows.times is None and rows.placed
        if self._ledger.traced and from_source:  # identified by their positions there: not all events have ids
            for row, reason in zip(rows.positions[places].tolist(), reasons[places].tolist(), strict=True):
                self._ledger.trace("invalid", {"bolt": node.name, "row": row, "reason": reason})
        wrong = take_rows(rows.table, places)
        file = rows.file if from_source else ""
        unusable = Unusable(input_index, wrong, rows.positions[places], reasons[places].tolist(), file)
        refuse(node, unusable, rows.clock, self._ledger, emit, number)

    def _see(self, node: WindowedNode, input_index: int, rows: Rows, timed_rows: Timed) -> None:
        """Record what the rows show about how far time is."""
        times, codes = timed_rows.times, timed_rows.codes
        latest = skew = None
        if node.event_time and not node.origins[input_index]:
            seen = times if all_accepted(codes) else times[timely(codes)]
            latest = int(seen.max()) if len(seen) else None
        elif node.event_time and not node.carries_time[input_index] and rows.times is not None:
            valid = codes != Decision.INVALID
            skew = int((rows.times - times)[valid].max()) if valid.any() else None
        progress = InputProgress(latest, skew, timed_rows.arrived, rows.clock, rows.clock)
        self._ledger.see(node, input_index, progress)

    def _defer(self, node: WindowedNode, input_index: int, rows: Rows, timed_rows: Timed) -> None:
        """Leave the decision to the bolt's tasks."""
        partition = rows.partition if self._context.topology.spouts_before(node)[input_index] else ""
        tasks = self._tasks(node, input_index, rows)
        self._staging.arriving(node).add(input_index, rows.table, timed_rows, tasks, partition)

    def _admit(self, node: WindowedNode, input_index: int, rows: Rows, timed_rows: Timed, emit: EmitRows) -> None:
        """Admit events at once, by the watermark of the last tick."""
        marks = Marks.of_tick(self._context.watermarks[node.name], rows.table.num_rows)
        events = Incoming(rows, input_index, timed_rows.times, timed_rows.codes, marks)
        decisions = decide(node, events, AdmissionContext())
        record(node, events, decisions, self._ledger, emit, node.copies(input_index))
        self._queue(node, input_index, rows, decisions)

    def _queue(self, node: WindowedNode, input_index: int, rows: Rows, decisions: Decisions) -> None:
        """Queue admitted events for their tasks."""
        queued = replace(rows, times=decisions.times)
        if not all_accepted(decisions.codes):
            queued = queued.take(np.flatnonzero(accepted(decisions.codes)))
        times = queued.times
        if times is None or not len(times):
            return
        table = conform_input(queued.table, node.schema)
        if node.slicing is not None:
            self._staging.queue(node, input_index, table, times, None)
            return
        tasks = self._tasks(node, input_index, queued)
        if tasks is not None:
            self._staging.queue(node, input_index, table, times, tasks)
            return
        for task in range(node.copies(input_index)):
            self._staging.queue(node, input_index, table, times, np.full(len(times), task, np.int64))

    def _tasks(self, node: WindowedNode, input_index: int, rows: Rows) -> NDArray[np.int64] | None:
        """The task that each row goes to; None where every row goes to every task."""
        grouping = node.inputs[input_index].grouping
        if isinstance(grouping, AllGrouping):
            return None
        if node.parallelism == 1:
            return np.zeros(rows.table.num_rows, np.int64)
        places = rows.positions + rows.turns if rows.placed else None
        return grouping.tasks(rows.table, places, node.parallelism)
