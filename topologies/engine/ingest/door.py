"""The door of windowed bolts where events are read: events get their times, and are let in, turned away, or left to
the tasks of the bolt to decide about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from manager.storage.taking import taken
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
"""Brings rows of a stream to whoever reads it."""


class InputDoor:
    """Where the events that one task reads or emits come to windowed bolts."""

    def __init__(self, context: Context, ledger: Ledger, staging: Staging, emit: Emit) -> None:
        self._context, self._ledger, self._staging, self._emit = context, ledger, staging, emit

    def arrive(self, node: WindowedNode, at: int, rows: Rows) -> None:
        """Events have come to input ``at`` of a bolt."""
        rows = self._needed(node, at, rows)
        if not rows.table.num_rows:
            return
        if node.deferred:
            self._defer(node, at, rows)
        else:
            self._admit(node, at, rows)

    def _needed(self, node: WindowedNode, at: int, rows: Rows) -> Rows:
        """Without the events that are older than what the first output needs; that they were skipped is counted."""
        first = self._context.first
        if first is None:
            return rows
        with bolt_failure(node.name, self._context.batch, "in giving events their times"):
            older = first.older(node, at, rows.table, rows.clock)
        if not older.any():
            return rows
        self._ledger.count(node, at, "skipped", int(np.count_nonzero(older)) * copies(node, at))
        return rows.take(np.flatnonzero(~older))

    def _defer(self, node: WindowedNode, at: int, rows: Rows) -> None:
        """Events on their way to tasks that decide themselves who is let in."""
        with bolt_failure(node.name, self._context.batch, "in giving events their times"):
            found = timed(node, at, rows.table, rows.times, rows.clock)
        wrong = np.flatnonzero(found.reasons != "")
        if len(wrong):
            self._ledger.count(node, at, "received", len(wrong) * copies(node, at))
            self._invalid(node, at, rows, wrong, found.reasons)
            found.actions[wrong] = Decision.INVALID
        self._ledger.heard(node, rows.clock, found.arrived)
        if node.event_time and not node.origins[at]:
            seen = found.times[timely(found.actions)]
            if len(seen):
                self._ledger.latest(node, at, int(seen.max()))
        elif node.event_time and not node.carried[at] and rows.times is not None:
            good = found.actions != Decision.INVALID
            if good.any():
                self._ledger.skew(node, at, int((rows.times - found.times)[good].max()))
        partition = rows.partition if self._context.topology.spouts_before(node)[at] else ""
        note(self._staging.arriving(node), node, at, rows.table, found, self._tasks(node, at, rows), partition)

    def _admit(self, node: WindowedNode, at: int, rows: Rows) -> None:
        """Events whose fate is known at once: they are let in, or turned away."""
        watermark, each = self._context.watermarks[node.name], copies(node, at)
        with bolt_failure(node.name, self._context.batch, "in giving events their times"):
            admitted = admit(node, at, rows.table, rows.times, rows.clock, watermark)
        self._ledger.count(node, at, "received", rows.table.num_rows * each)
        if admitted.latest is not None and not node.origins[at]:
            self._ledger.latest(node, at, admitted.latest)
        elif admitted.latest is not None and not node.carried[at] and rows.times is not None:
            good = slice(None) if admitted.reasons is None else admitted.reasons == ""
            self._ledger.skew(node, at, int((rows.times - admitted.times)[good].max()))
        if admitted.reasons is not None:
            self._invalid(node, at, rows, admitted.invalid, admitted.reasons)
        if len(admitted.late):
            self._late(node, at, rows, admitted)
        if len(admitted.gap):
            self._ledger.count(node, at, "unwindowed", len(admitted.gap) * each)
        self._queue(node, at, rows, admitted)

    def _queue(self, node: WindowedNode, at: int, rows: Rows, admitted: Admitted) -> None:
        """The events that were let in, to the queues of their tasks."""
        queued = replace(rows, times=admitted.times)
        if admitted.queued is not None:
            queued = queued.take(admitted.queued)
        times = queued.times
        if times is None or not len(times):
            return
        table = conform_input(queued.table, node.schema)
        if node.slicing is not None:
            self._staging.queue(node, at, table, times, np.zeros(0, np.int64))
            return
        tasks = self._tasks(node, at, queued)
        if tasks is not None:
            self._staging.queue(node, at, table, times, tasks)
            return
        for task in range(copies(node, at)):
            self._staging.queue(node, at, table, times, np.full(len(times), task, np.int64))

    def _late(self, node: WindowedNode, at: int, rows: Rows, admitted: Admitted) -> None:
        self._ledger.count(node, at, "late", len(admitted.late) * copies(node, at))
        self._ledger.count(node, at, "out_of_order", len(admitted.late) * copies(node, at))
        if self._ledger.traced:
            for name in event_ids(taken(rows.table, admitted.late)):
                self._ledger.trace("late", {"bolt": node.name, "event": name})
        stream = node.bolt.settings.late_stream
        if stream is None:
            return
        watermark = self._context.watermarks[node.name]
        assert watermark is not None
        times = admitted.times[admitted.late]
        reasons = np.where(times < watermark, BEHIND, WINDOW_OVER).tolist()
        inputs, marks = np.full(len(times), at, np.int8), np.full(len(times), watermark, np.int64)
        turned = taken(rows.table, admitted.late)
        table = late_rows(node, turned, inputs, times, reasons, watermark - times, marks)
        late = rows.become(table, None, admitted.late)
        for _ in range(copies(node, at)):
            self._emit((node.name, stream), late)

    def _invalid(self, node: WindowedNode, at: int, rows: Rows, places: NDArray[np.int64], reasons: Any) -> None:
        self._ledger.count(node, at, "invalid", len(places) * copies(node, at))
        label = node.streams[at]
        self._ledger.complain(node.name, label, f"row {rows.positions[places[0]]}: {reasons[places[0]]}")
        wrong = taken(rows.table, places)
        bad = error_rows(node.name, label, wrong, rows.positions[places], reasons[places].tolist())
        from_source = rows.times is None and rows.placed
        if self._ledger.traced and from_source:  # known by their places there: not all events have ids
            for row, reason in zip(rows.positions[places].tolist(), reasons[places].tolist(), strict=True):
                self._ledger.trace("invalid", {"bolt": node.name, "row": row, "reason": reason})
        for _ in range(copies(node, at)):
            self._emit((node.name, ERRORS), Rows.made(bad, rows.clock))

    def _tasks(self, node: WindowedNode, at: int, rows: Rows) -> NDArray[np.int64] | None:
        """The task that each row goes to; None: every row goes to every task."""
        grouping = node.inputs[at].grouping
        if isinstance(grouping, AllGrouping):
            return None
        if node.parallelism == 1:
            return np.zeros(rows.table.num_rows, np.int64)
        places = rows.positions + rows.turns if rows.placed else None
        return grouping.tasks(rows.table, places, node.parallelism)
