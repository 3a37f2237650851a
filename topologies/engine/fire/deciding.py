"""Admission in a task: events that have arrived, with the watermarks before them, become live events."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.keyed.held import EDGE_COLUMN, END_COLUMN, GAP_COLUMN, INNER, KEY_COLUMN, Held
from manager.keyed.open_sessions import turned_away
from manager.storage.segments import STREAM_COLUMN, TIME_COLUMN
from manager.storage.taking import take_rows
from manager.storage.task_state import AssignedState
from policies.admission import Decision, timely
from policies.lateness import BEHIND, WINDOW_OVER
from policies.marks import NONE
from topologies.engine.batch.trace import event_ids
from topologies.engine.ingest.arriving import ACTION_COLUMN, END_EDGE_COLUMN, SEQ_COLUMN
from topologies.engine.ingest.repeats import IncomingIds, Repeats
from topologies.engine.time.admission import late_rows
from topologies.graph.model import WindowedNode
from windowing.errors import DataError
from windowing.settings.rules import LateAction, LateBy
from windowing.time.durations import Duration
from windowing.time.timestamps import FOREVER, show

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from numpy.typing import NDArray

    from manager.watermarks.substreams import Substreams
    from topologies.engine.batch.plan import FireItem
    from topologies.engine.ingest.router import Router

_EARLY = "its time is too far after its arrival"
_LATE_ARRIVAL = "it arrived too long after its time"
_SESSION_OVER = "the session that it would open or join has closed"
_NO_SESSION = "the watermark, less the allowed lateness, has passed it, and no open session takes it"


@dataclass
class _Batch:
    """All events that arrived for a task in a batch, in order of arrival."""

    table: pa.Table
    numbers: NDArray[np.int64]

    def column(self, name: str) -> Any:
        return self.table.column(name).to_numpy() if name in self.table.column_names else None


@dataclass(frozen=True)
class Admitted:
    """The admitted events of a batch, in order of arrival."""

    events: Held
    end_edges: NDArray[np.bool_] | None = None
    """Which of them are end edges, to be matched with their starts; None where there are no edges."""
    splits: tuple[tuple[int, int], ...] = ()
    """(index, limit): before the event at this index is added, windows that end up to the limit (microseconds) must be
    evaluated."""


@dataclass(frozen=True)
class Known:
    """What a task knows from earlier batches that decides who is admitted."""

    live: Callable[..., Held | None] | None = None
    """Returns the live events with some of their columns, by name (none: all), in order of arrival; None for a
    queue."""
    substreams: Substreams | None = None
    """The watermarks of the keys, where each key has its own; advanced by admission."""


def admit(item: FireItem, node: WindowedNode, router: Router, known: Known) -> Admitted | None:
    """Admit the events that arrived for a task; the others are turned away as the rules say. None where none is
    admitted."""
    batch = _read(item, router)
    if batch is None:
        return None
    marks = _marks(item, router, batch, known.substreams)
    decided = _decided(item, node, batch, marks, known)
    if node.bolt.settings.message_id_field is not None:
        repeats = Repeats(node, item, router.context.store, known.live)
        decided = _without_repeats(item, node, batch, marks, known, decided, repeats)
    inputs = batch.column(STREAM_COLUMN)
    _account(router, node, inputs, decided, batch.column(ACTION_COLUMN))
    if router.context.traced:
        _trace(router, node, batch, decided, marks)
    if np.isin(decided.actions, (Decision.EARLY, Decision.LATE, Decision.OUT_OF_ORDER)).any():
        _turn_away(router, node, batch, decided.actions, marks.own if node.door.per_input else marks.bolt)
    kept = np.flatnonzero(_accepted(decided.actions))
    return _kept(item, node, batch, decided, kept) if len(kept) else None


@dataclass(frozen=True)
class _Marks:
    """The watermarks in microseconds before each event and, with tracing, after it: of its own input, partition or key,
    and of the bolt."""

    own: NDArray[np.int64]
    bolt: NDArray[np.int64]
    own_after: NDArray[np.int64] | None = None
    bolt_after: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class _Decided:
    """The decision about each event; arrays with one entry per event."""

    times: NDArray[np.int64]
    actions: NDArray[np.int8]
    over: NDArray[np.int64]
    splits: list[int]
    adjusted: NDArray[np.bool_]
    """Events whose time was adjusted, whatever became of them afterwards."""
    out_of_order: NDArray[np.bool_]
    """Events behind the watermark or behind their windows, whatever became of them afterwards."""


def _marks(item: FireItem, router: Router, batch: _Batch, substreams: Substreams | None) -> _Marks:
    if substreams is not None:
        counts = timely(batch.column(ACTION_COLUMN))
        own, after = substreams.advance(batch.column(KEY_COLUMN), batch.column(TIME_COLUMN), counts)
        own = np.maximum(own, substreams.floor)
        return _Marks(own, own, after)
    if item.marks is None:
        before = np.full(len(batch.numbers), item.watermark, np.int64)
        return _Marks(before, before)
    table = router.context.store.read(item.marks)
    return _Marks(**{name: table.column(name).to_numpy()[batch.numbers] for name in table.column_names})


def _decided(item: FireItem, node: WindowedNode, batch: _Batch, marks: _Marks, known: Known) -> _Decided:
    times, actions = batch.column(TIME_COLUMN), batch.column(ACTION_COLUMN)
    if any(node.clocked):  # at the end of a run windows fire early; with a shorter timeout they may be overdue
        times = np.clip(times, NONE if item.passed is None else item.passed, item.clock)
    ends, session = batch.column(END_COLUMN), node.session
    over, splits = np.full(len(times), NONE, np.int64), list[int]()
    if node.event_time and session is not None and node.door.late_by is LateBy.WINDOW:
        over = node.door.over(marks.bolt)
        if item.forced is not None:
            over = np.maximum(over, item.forced)
        gaps = batch.column(GAP_COLUMN)
        gaps = np.full(len(times), session.gap.micros, np.int64) if gaps is None else gaps
        keys = batch.column(KEY_COLUMN)
        assert known.live is not None
        late, splits = turned_away(
            times, keys, _accepted(actions), over, gaps, known.live,
            touching=session.touching, by_end=node.bolt.settings.late_by_session,
        )  # fmt: skip
        actions = np.where(late, Decision.OUT_OF_ORDER, actions)
    elif node.event_time:
        edges = batch.column(END_EDGE_COLUMN)
        times, actions, over = _decide_by_watermark(node, batch, times, ends, actions, marks, edges)
    if node.event_time and item.forced is not None:
        actions, over = _forced(node, times, ends, actions, over, item.forced)
    moved = actions == Decision.ADJUSTED_OUT_OF_ORDER
    adjusted, out_of_order = (actions == Decision.ADJUSTED_LATE) | moved, (actions == Decision.OUT_OF_ORDER) | moved
    gap = _in_gap(node, times)
    if gap is not None:
        actions = np.where(gap & _accepted(actions), Decision.UNWINDOWED, actions)
    return _Decided(times, actions, over, splits, adjusted, out_of_order)


def _decide_by_watermark(
    node: WindowedNode,
    batch: _Batch,
    times: NDArray[np.int64],
    ends: NDArray[np.int64] | None,
    actions: NDArray[np.int8],
    marks: _Marks,
    edges: NDArray[np.bool_] | None,
) -> tuple[NDArray[np.int64], NDArray[np.int8], NDArray[np.int64]]:
    """The times, decisions and closed limits of events; those of each input by the late action of their source
    (SI-17)."""
    handled = [node.bolt.settings.of_input(label).late_action for label in node.streams]
    doors = {action: replace(node.door, action=action) for action in handled}
    columns = (times, ends, actions, marks.own, marks.bolt, edges)
    decided = {action: door.decide(*columns) for action, door in doors.items()}
    if len(decided) == 1:
        return decided[handled[0]]
    inputs = batch.column(STREAM_COLUMN)
    times, actions, over = decided[handled[0]]
    for index, action in enumerate(handled):
        of_input, (own_times, own_actions, own_over) = inputs == index, decided[action]
        times, actions = np.where(of_input, own_times, times), np.where(of_input, own_actions, actions)
        over = np.where(of_input, own_over, over)
    return times, actions, over


def _without_repeats(
    item: FireItem,
    node: WindowedNode,
    batch: _Batch,
    marks: _Marks,
    known: Known,
    decided: _Decided,
    repeats: Repeats,
) -> _Decided:
    """The decisions with repeated messages marked as duplicates.

    Whether a session takes a late event depends on the events admitted before it, so the decision is repeated until it
    no longer changes. Each round fixes at least one more of the first events.
    """
    name = node.bolt.settings.message_id_field
    assert name is not None
    arrival = batch.column(ACTION_COLUMN)
    counts = (arrival != Decision.INVALID) & (arrival != Decision.WATERMARK)
    alone, duplicates = _accepted(decided.actions), np.zeros(len(counts), np.bool_)
    while True:
        accepted = np.where(duplicates, alone, _accepted(decided.actions))
        bare = Held(
            decided.times,
            pa.table({"place": pa.nulls(len(counts))}),
            None,
            batch.column(KEY_COLUMN),
            batch.column(END_COLUMN),
            decided.over if node.assigners else None,
            batch.column(GAP_COLUMN),
        )
        own = marks.own if node.bolt.settings.watermark_per_key else marks.bolt
        repeated = repeats.among(IncomingIds(batch.table.column(name), counts, accepted, bare, own))
        if (repeated == duplicates).all():
            return decided
        by_session, duplicates = node.session is not None and node.door.late_by is LateBy.WINDOW, repeated
        actions = np.where(duplicates, np.int8(Decision.DUPLICATE), arrival)
        column_index = batch.table.column_names.index(ACTION_COLUMN)
        marked = _Batch(batch.table.set_column(column_index, ACTION_COLUMN, pa.array(actions)), batch.numbers)
        decided = _decided(item, node, marked, marks, known)
        if not by_session:
            return decided


def _kept(item: FireItem, node: WindowedNode, batch: _Batch, decided: _Decided, kept: NDArray[np.int64]) -> Admitted:
    names = (*INNER, SEQ_COLUMN, ACTION_COLUMN, END_EDGE_COLUMN)
    payload = batch.table.drop_columns([name for name in names if name in batch.table.column_names])
    count, whole = len(decided.times), len(kept) == len(decided.times)
    events = Held(
        decided.times,
        payload,
        batch.column(STREAM_COLUMN) if len(node.inputs) > 1 else None,
        batch.column(KEY_COLUMN),
        batch.column(END_COLUMN),
        decided.over if node.assigners else None,
        batch.column(GAP_COLUMN),
        edges=batch.column(EDGE_COLUMN),
        evaluation=_evaluations(item, node, count),
    )
    end_edges = batch.column(END_EDGE_COLUMN)
    if not whole:
        events = events.take(kept)
        end_edges = None if end_edges is None else end_edges[kept]
    places = np.searchsorted(kept, decided.splits).tolist()
    limits = [int(decided.over[split]) for split in decided.splits]
    return Admitted(events, end_edges, tuple(zip(places, limits, strict=True)))


def _evaluations(item: FireItem, node: WindowedNode, count: int) -> NDArray[np.int64] | None:
    """The number of the evaluation before which events are admitted; None where windows fire only once."""
    if node.bolt.settings.panes is None:
        return None
    assert isinstance(item.state.windows, AssignedState)
    return np.full(count, item.state.windows.evaluations, np.int64)


def _read(item: FireItem, router: Router) -> _Batch | None:
    if not item.arrived:
        return None
    tables, numbers = [], []
    for arrived in item.arrived:
        table = router.context.store.read(arrived.ref)
        tables.append(table)
        numbers.append(table.column(SEQ_COLUMN).to_numpy() + arrived.base)
    table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
    return _Batch(table.combine_chunks(), np.concatenate(numbers))


def _accepted(actions: NDArray[np.int8]) -> NDArray[np.bool_]:
    accepted: NDArray[np.bool_] = np.isin(
        actions, (Decision.ACCEPTED, Decision.ADJUSTED_LATE, Decision.ADJUSTED_OUT_OF_ORDER)
    )
    return accepted


def _forced(
    node: WindowedNode,
    times: NDArray[np.int64],
    ends: NDArray[np.int64] | None,
    actions: NDArray[np.int8],
    over: NDArray[np.int64],
    forced: int,
) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Decide again about events whose windows the idle timeout has closed (AT-17)."""
    over = np.maximum(over, forced)
    last_end = node.last_end
    if last_end is not None:
        missed = _accepted(actions) & node.door.missed(times, last_end(times, ends), over)
        actions = np.where(missed, Decision.OUT_OF_ORDER, actions)
    return actions, over


def _in_gap(node: WindowedNode, times: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    if node.holds:
        return None  # the assigner accounts for it when the event is finished
    return node.lateness.in_gap(times)


def _account(
    router: Router, node: WindowedNode, inputs: NDArray[np.int8], decided: _Decided, arrival: NDArray[np.int8]
) -> None:
    actions, dropped = decided.actions, _dropped(node, decided.actions, inputs)
    rows = {
        "received": (actions != Decision.WATERMARK) & (actions != Decision.INVALID),
        "early": actions == Decision.EARLY,
        "duplicate": actions == Decision.DUPLICATE,
        "unwindowed": actions == Decision.UNWINDOWED,
        "adjusted": decided.adjusted,
        "early_input": arrival == Decision.EARLY,
        "late_input": (arrival == Decision.ADJUSTED_LATE) | (arrival == Decision.LATE),
        "out_of_order": decided.out_of_order,
    }
    for account, which in rows.items():
        router.ledger.count_chosen(node, account, inputs, which)
    router.ledger.count_chosen(node, "dropped", inputs, dropped)
    router.ledger.count_chosen(
        node, "late", inputs, np.isin(actions, (Decision.LATE, Decision.OUT_OF_ORDER)) & ~dropped
    )


def _with_action(
    node: WindowedNode, actions: NDArray[np.int8], inputs: NDArray[np.int8], wanted: Container[LateAction]
) -> NDArray[np.bool_]:
    """Which late events have one of the wanted actions, by the rules of their input or of their arrival."""
    settings = node.bolt.settings
    chosen: NDArray[np.bool_] = actions == Decision.OUT_OF_ORDER
    if chosen.any():
        by_input = np.array([settings.of_input(label).late_action in wanted for label in node.streams])
        chosen[chosen] = by_input[inputs[chosen]]
    if settings.arrival is not None and settings.arrival.action in wanted:
        chosen |= actions == Decision.LATE
    return chosen


def _dropped(node: WindowedNode, actions: NDArray[np.int8], inputs: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Which late events are dropped by the user's rules; a lifetime that cannot be cut is dropped too (SI-13)."""
    return _with_action(node, actions, inputs, (LateAction.DROP, LateAction.CUT))


def _late_error(node: WindowedNode, input_index: int, action: Decision, time: int, mark: int) -> DataError:
    """The error for the first late event that stops the run."""
    rule, stream = node.bolt.settings.arrival, node.streams[input_index]
    if action is Decision.LATE:
        assert rule is not None
        return DataError(
            f"bolt {node.name!r}: an event of {show(time)} of {stream!r} arrived more than {rule.late} after its time",
            why="events that arrive too late stop the run (AZ-8, SI-14)",
            do="fix the source, allow more: late=..., or let such events be adjusted or dropped: action='drop'",
        )
    return DataError(
        f"bolt {node.name!r}: an event of {show(time)} came after the watermark {show(mark)} of {stream!r}",
        why="events that violate a watermark stop the run (SI-14)",
        do="fix the source, or say what is to become of them: with_lateness(action='drop'), 'adjust' or 'divert'",
    )


def _trace(router: Router, node: WindowedNode, batch: _Batch, decided: _Decided, marks: _Marks) -> None:
    accepted = _accepted(decided.actions) | (decided.actions == Decision.UNWINDOWED)
    dropped = _dropped(node, decided.actions, batch.column(STREAM_COLUMN))
    for row, event_id in enumerate(event_ids(batch.table)):
        router.ledger.trace(
            "events",
            {
                "bolt": node.name,
                "seq": int(batch.numbers[row]),
                "event": event_id,
                "time": int(decided.times[row]) if accepted[row] else None,
                "action": _action_label(Decision(int(decided.actions[row])), dropped=bool(dropped[row])),
                "watermark": _mark(marks.bolt_after, row),
                "mark": _mark(marks.own_after, row),
            },
        )


def _action_label(action: Decision, *, dropped: bool) -> str:
    if action in (Decision.LATE, Decision.OUT_OF_ORDER):
        return f"dropped_{action.label}" if dropped else "late"
    return action.label


def _mark(marks: NDArray[np.int64] | None, row: int) -> int | None:
    return None if marks is None or marks[row] == NONE or marks[row] == FOREVER else int(marks[row])


def _turn_away(
    router: Router, node: WindowedNode, batch: _Batch, actions: NDArray[np.int8], marks: NDArray[np.int64]
) -> None:
    """Send late and early events to the late stream, unless they are to be dropped. Raises DataError where such an
    event stops the run."""
    settings, times, inputs = node.bolt.settings, batch.column(TIME_COLUMN), batch.column(STREAM_COLUMN)
    turned_away = np.isin(actions, (Decision.EARLY, Decision.LATE, Decision.OUT_OF_ORDER))
    stopping = np.flatnonzero(_with_action(node, actions, inputs, (LateAction.ERROR,)))
    if len(stopping):
        row = int(stopping[0])
        raise _late_error(node, inputs[row], Decision(int(actions[row])), int(times[row]), int(marks[row]))
    rows = np.flatnonzero(turned_away & ~_dropped(node, actions, inputs))
    if not len(rows):
        return
    turned_rows = take_rows(batch.table, rows)
    late = np.isin(actions[rows], (Decision.LATE, Decision.OUT_OF_ORDER))
    for name in (
        np.array(event_ids(turned_rows), dtype=object)[late] if router.context.traced and event_ids(turned_rows) else ()
    ):
        router.ledger.trace("late", {"bolt": node.name, "event": name})
    if settings.late_stream is None:
        return
    known = marks[rows] > NONE
    late_by = np.where(known & late, marks[rows] - times[rows], 0)
    reasons = [_reason(node, int(actions[row]), int(times[row]), int(marks[row])) for row in rows.tolist()]
    late_table = late_rows(
        node, turned_rows.select(node.schema.names), inputs[rows], times[rows], reasons, late_by, marks[rows]
    )
    router.emit_late(node, late_table, batch.numbers[rows])


def _reason(node: WindowedNode, action: int, time: int, mark: int) -> str:
    settings = node.bolt.settings
    rule = settings.arrival
    if action == Decision.EARLY:
        return f"{_EARLY}: more than {rule.early if rule else Duration(0)}"
    if action == Decision.LATE:
        return f"{_LATE_ARRIVAL}: more than {rule.late if rule else Duration(0)}"
    if settings.late_by is LateBy.WINDOW or time >= mark:
        if node.last_end is not None:
            return WINDOW_OVER
        return _SESSION_OVER if settings.late_by_session else _NO_SESSION
    return BEHIND
