"""Admission in a bolt's task: events that arrived, with the watermark before each, become live events."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.keyed.held import Held
from manager.keyed.held_segments import EDGE_COLUMN, END_COLUMN, GAP_COLUMN, KEY_COLUMN
from manager.storage.segments.event_segments import STREAM_COLUMN, TIME_COLUMN
from manager.storage.task_state import AssignedState
from policies.admission import accepted, timely
from policies.marks import NONE
from topologies.engine.admission.deciding import AdmissionContext, Decisions, Incoming, Marks, decide, joins_windows
from topologies.engine.admission.recording import record
from topologies.engine.admission.repeats import Repeats
from topologies.engine.ingest.router import Router
from topologies.engine.rows.routed_rows import Rows
from topologies.engine.work.items import FireItem
from topologies.graph.inner_columns import DECISION_COLUMN, END_EDGE_COLUMN, READ, SEQ_COLUMN
from topologies.graph.key_codes import key_rows
from topologies.graph.nodes.windowed import WindowedNode

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Admitted:
    """The admitted events of a batch, in order of arrival."""

    events: Held
    end_edges: NDArray[np.bool_] | None = None
    """Which of them are end edges, to be matched with their starts; None where there are no edges."""
    evaluate_before: tuple[tuple[int, int], ...] = ()
    """(index, limit): before the event at this index is added, windows that end up to the limit (microseconds) must be
    evaluated."""


def admit(item: FireItem, node: WindowedNode, router: Router, admission_context: AdmissionContext) -> Admitted | None:
    """Admit the events that arrived for a task; the others are turned away as the rules say. None where none is
    admitted."""
    if item.admit.sections is None:
        return None
    rows = _read(item, router)
    events = _incoming(item, node, router, admission_context, rows)
    if node.bolt.settings.message_id_field is not None:
        admission_context = replace(
            admission_context, repeats=Repeats(node, item, router.context.store, admission_context.live)
        )
    decisions = decide(node, events, admission_context)
    record(node, events, decisions, router.ledger, router.emit)
    chosen = np.flatnonzero(accepted(decisions.codes))
    return _admitted(item, node, events, decisions, chosen) if len(chosen) else None


def _read(item: FireItem, router: Router) -> Rows:
    """All events that arrived for the task, with their columns; positions count the events of the batch."""
    tables, numbers = [], []
    for ref, first in item.admit.sections or ():
        table = router.context.store.read(ref)
        tables.append(table)
        numbers.append(table.column(SEQ_COLUMN).to_numpy() + first)
    table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
    return Rows(table.combine_chunks(), None, np.concatenate(numbers), router.context.clock)


def _incoming(
    item: FireItem, node: WindowedNode, router: Router, admission_context: AdmissionContext, rows: Rows
) -> Incoming:
    times, codes = _column(rows, TIME_COLUMN), _column(rows, DECISION_COLUMN)
    keys, streams = _column(rows, KEY_COLUMN), _column(rows, STREAM_COLUMN)
    arriving = Held(times=times, payload=rows.table, streams=streams, keys=keys)
    if admission_context.key_marks is None:
        marks = _marks(item, router, rows)
        if admission_context.codes is not None and _decided_by_key(item, node, admission_context, times, marks):
            keys = admission_context.codes(arriving)
    else:
        assert admission_context.codes is not None
        keys = admission_context.codes(arriving)
        values = key_rows(rows.table, streams, node.keys)
        marks = admission_context.key_marks(keys, times, timely(codes), values)
    if any(node.clocked):  # at the end of a run windows fire early; with a shorter timeout they may be overdue
        times = np.clip(times, NONE if item.frontiers.previous is None else item.frontiers.previous, item.end.clock)
    return Incoming(
        rows, streams, times, codes, marks,
        closed_until=item.admit.closed_until,
        keys=keys,
        ends=_column(rows, END_COLUMN),
        end_edges=_column(rows, END_EDGE_COLUMN),
        gaps=_column(rows, GAP_COLUMN),
    )  # fmt: skip


def _decided_by_key(
    item: FireItem, node: WindowedNode, admission_context: AdmissionContext, times: NDArray[np.int64], marks: Marks
) -> bool:
    """Whether it may depend on the events that a task has of a key which of these are admitted."""
    if admission_context.shut is not None or node.bolt.settings.message_id_field is not None:
        return True
    by_timeout = node.session is not None and item.admit.closed_until > NONE
    if not node.event_time or not (joins_windows(node) or by_timeout):
        return False
    closed_until = max(int(node.closes_until(marks.bolt).max(initial=NONE)), item.admit.closed_until)
    return bool((times <= closed_until).any())


def _marks(item: FireItem, router: Router, rows: Rows) -> Marks:
    """The watermarks that the driver has computed: one before each event, or one for all."""
    if item.admit.marks is None:
        before = np.full(len(rows.positions), item.admit.watermark, np.int64)
        return Marks(before, before)
    table = router.context.store.read(item.admit.marks)
    return Marks(**{name: table.column(name).to_numpy()[rows.positions] for name in table.column_names})


def _admitted(
    item: FireItem, node: WindowedNode, events: Incoming, decisions: Decisions, chosen: NDArray[np.int64]
) -> Admitted:
    table, count = events.rows.table, len(events.times)
    held = Held(
        times=decisions.times,
        payload=table.drop_columns([name for name in READ if name in table.column_names]),
        streams=_column(events.rows, STREAM_COLUMN) if len(node.inputs) > 1 else None,
        keys=_column(events.rows, KEY_COLUMN),
        ends=events.ends,
        closed_until=decisions.closed_until if node.assigners else None,
        gaps=events.gaps,
        edges=_column(events.rows, EDGE_COLUMN),
        evaluation=_evaluations(item, node, count),
    )
    end_edges = events.end_edges
    if len(chosen) < count:
        held, end_edges = held.take(chosen), None if end_edges is None else end_edges[chosen]
    places = np.searchsorted(chosen, decisions.evaluate_before).tolist()
    limits = [int(decisions.closed_until[row]) for row in decisions.evaluate_before]
    return Admitted(held, end_edges, tuple(zip(places, limits, strict=True)))


def _evaluations(item: FireItem, node: WindowedNode, count: int) -> NDArray[np.int64] | None:
    """The number of the evaluation before which events are admitted; None where windows fire only once."""
    if node.bolt.settings.panes is None:
        return None
    assert isinstance(item.state.windows, AssignedState)
    return np.full(count, item.state.windows.evaluations, np.int64)


def _column(rows: Rows, name: str) -> Any:
    return rows.table.column(name).to_numpy() if name in rows.table.column_names else None
