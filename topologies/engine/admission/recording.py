"""What follows from the decisions about events: they are counted, traced, and diverted where they are late."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from manager.storage.segments.take_rows import take_rows
from policies.admission import Decision, accepted, all_accepted
from policies.marks import NONE
from topologies.engine.admission.deciding import (
    Decisions,
    Incoming,
    gaps_of_sessions,
    joins_sessions,
    joins_windows,
)
from topologies.engine.admission.late_rows import late_rows
from topologies.engine.ledger.ledger import SAMPLED, Ledger
from topologies.engine.ledger.trace import event_ids
from topologies.engine.rows.routed_rows import Rows
from topologies.engine.work.output import TurnedAway
from topologies.graph.inner_columns import reserved_of_inputs
from topologies.graph.nodes.windowed import WindowedNode
from topologies.graph.streams import Stream
from windowing.data.printable import cut
from windowing.errors import DataError
from windowing.settings.rules import LateAction, LateBy
from windowing.time.durations import Duration
from windowing.time.timestamps import FOREVER, show

if TYPE_CHECKING:
    from numpy.typing import NDArray

EmitRows: TypeAlias = Callable[[Stream, Rows], None]
"""Routes rows of a stream to its readers."""

_EARLY = "its time is too far after its arrival"
_LATE_ARRIVAL = "it arrived too long after its time"
_NO_WINDOW = "the window that ends with it has closed, and no open window holds it"
_SESSION_CLOSED = "the session that it would open or join has closed"
BEHIND = "the watermark has passed it"
_WINDOW_ENDS_THERE = "the last window that could hold it ends at the watermark"
_WINDOW_CLOSED = "the last window that could hold it has closed"
_NO_SESSION = "the watermark, less the allowed lateness, has passed it, and no open session takes it"

_CONTENT = 300
"""Characters of an event that is recorded as a sample."""


def record(
    node: WindowedNode, events: Incoming, decisions: Decisions, ledger: Ledger, emit: EmitRows, copies: int = 1
) -> None:
    """Enter events into the accounts and traces, and divert the late and early ones that are not dropped.

    ``copies`` is the number of tasks that each event goes to; it counts once for each. Raises DataError where a late
    event stops the run. Invalid rows have been recorded when they were read.
    """
    if all_accepted(decisions.codes) and all_accepted(events.codes) and not ledger.traced:
        ledger.count_all(node, "received", events.inputs, len(events.times), copies)
        return
    dropped = _dropped(node, events, decisions)
    _count(node, events, decisions, dropped, ledger, copies)
    if ledger.traced:
        _trace_decisions(node, events, decisions, dropped, ledger)
        if node.deferred:  # at a reader the order of arrival is not known
            _trace(node, events, decisions, dropped, ledger)
    if _any(decisions.codes, Decision.EARLY, Decision.LATE, Decision.OUT_OF_ORDER):
        if ledger.samples:
            _sample(node, events, decisions, dropped, ledger)
        _divert(node, events, decisions, dropped=dropped, ledger=ledger, emit=emit, copies=copies)


def _count(
    node: WindowedNode,
    events: Incoming,
    decisions: Decisions,
    dropped: NDArray[np.bool_],
    ledger: Ledger,
    copies: int,
) -> None:
    codes, arrival = decisions.codes, events.codes
    accounts = {
        "received": (codes != Decision.WATERMARK) & (codes != Decision.INVALID),
        "early": codes == Decision.EARLY,
        "duplicate": codes == Decision.DUPLICATE,
        "unwindowed": codes == Decision.UNWINDOWED,
        "adjusted": decisions.adjusted,
        "early_input": arrival == Decision.EARLY,
        "late_input": (arrival == Decision.ADJUSTED_LATE) | (arrival == Decision.LATE),
        "out_of_order": decisions.out_of_order,
        "dropped": dropped,
        "late": _late(codes) & ~dropped,
    }
    for account, chosen in accounts.items():
        ledger.count_chosen(node, account, events.inputs, chosen, copies)


def _trace(
    node: WindowedNode, events: Incoming, decisions: Decisions, dropped: NDArray[np.bool_], ledger: Ledger
) -> None:
    windowed = accepted(decisions.codes) | (decisions.codes == Decision.UNWINDOWED)
    for row, event_id in enumerate(event_ids(events.rows.table)):
        ledger.trace(
            "events",
            {
                "bolt": node.name,
                "seq": int(events.rows.positions[row]),
                "event": event_id,
                "time": int(decisions.times[row]) if windowed[row] else None,
                "decision": _decision_label(Decision(int(decisions.codes[row])), dropped=bool(dropped[row])),
                "watermark": _mark(events.marks.bolt_after, row),
                "mark": _mark(events.marks.own_after, row),
            },
        )


def _trace_decisions(
    node: WindowedNode, events: Incoming, decisions: Decisions, dropped: NDArray[np.bool_], ledger: Ledger
) -> None:
    """Trace each event with the time it came with, the time it got, and the watermark it was compared with. ``row`` is
    its number in the source, where that is known."""
    inputs = np.broadcast_to(np.asarray(events.inputs, np.int8), len(events.times))
    kept = accepted(decisions.codes) | (decisions.codes == Decision.UNWINDOWED)
    reasons = _reasons(node, decisions.codes, events.times, decisions.marks)
    for row, name in enumerate(event_ids(events.rows.table)):
        code, known = Decision(int(decisions.codes[row])), events.rows.placed and not node.deferred
        turned_away = code in (Decision.EARLY, Decision.LATE, Decision.OUT_OF_ORDER)
        ledger.trace(
            "decisions",
            {
                "bolt": node.name,
                "input": node.streams[int(inputs[row])],
                "seq": int(events.rows.positions[row]),
                "row": int(events.rows.positions[row]) if known and not node.origins[int(inputs[row])] else None,
                "event": name,
                "time": None if code in (Decision.INVALID, Decision.WATERMARK) else int(events.times[row]),
                "assigned": int(decisions.times[row]) if kept[row] else None,
                "decision": _decision_label(code, dropped=bool(dropped[row])),
                "mark": _mark(decisions.marks, row),
                "reason": reasons[row] if turned_away else None,
            },
        )


def _sample(
    node: WindowedNode, events: Incoming, decisions: Decisions, dropped: NDArray[np.bool_], ledger: Ledger
) -> None:
    """Record the latest of the rejected events, for observers of the run."""
    codes = decisions.codes
    chosen = np.flatnonzero(_late(codes) | (codes == Decision.EARLY))[-SAMPLED:]
    inputs = np.broadcast_to(np.asarray(events.inputs, np.int8), len(events.times))
    reasons = _reasons(node, codes[chosen], events.times[chosen], decisions.marks[chosen])
    columns = events.rows.table.column_names
    shown = [name for name in columns if name not in reserved_of_inputs(columns)]
    contents = take_rows(events.rows.table.select(shown), chosen).to_pylist()
    for row, reason, content in zip(chosen.tolist(), reasons, contents, strict=True):
        label = "early" if codes[row] == Decision.EARLY else "dropped" if dropped[row] else "late"
        text = cut(", ".join(f"{name}={value}" for name, value in content.items()), _CONTENT)
        stream, mark = node.streams[int(inputs[row])], _mark(decisions.marks, row)
        ledger.sample(TurnedAway(node.name, stream, label, int(events.times[row]), mark, reason, text))


def _divert(
    node: WindowedNode,
    events: Incoming,
    decisions: Decisions,
    *,
    dropped: NDArray[np.bool_],
    ledger: Ledger,
    emit: EmitRows,
    copies: int,
) -> None:
    """Send late and early events to the late stream, unless they are dropped."""
    codes, stream = decisions.codes, node.bolt.settings.late_stream
    stopping = np.flatnonzero(_with_action(node, events, codes, (LateAction.ERROR,)))
    if len(stopping):
        raise _late_error(node, events, decisions, int(stopping[0]))
    rows = np.flatnonzero((_late(codes) | (codes == Decision.EARLY)) & ~dropped)
    if ledger.traced:
        for name in event_ids(take_rows(events.rows.table, rows[_late(codes[rows])])):
            ledger.trace("late", {"bolt": node.name, "event": name})
    if stream is None or not len(rows):
        return
    diverted = events.rows.become(_late_table(node, events, decisions, rows), None, rows)
    for _ in range(copies):
        emit((node.name, stream), diverted)


def _late_table(node: WindowedNode, events: Incoming, decisions: Decisions, rows: NDArray[np.int64]) -> pa.Table:
    """Some of the events as rows of the late stream."""
    codes, times, marks = decisions.codes[rows], events.times[rows], decisions.marks[rows]
    inputs = np.broadcast_to(np.asarray(events.inputs, np.int8), len(events.times))[rows]
    late_by = np.where((marks > NONE) & _late(codes), np.maximum(marks - times, 0), 0)
    reasons = _reasons(node, codes, times, marks)
    return late_rows(
        node,
        take_rows(events.rows.table, rows),
        inputs=inputs,
        times=times,
        reasons=reasons,
        late_by=late_by,
        watermarks=marks,
        opened=_would_open(node, events, rows),
    )


def _would_open(
    node: WindowedNode, events: Incoming, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The start and the end of the window that each of these events would have opened; None where that does not decide
    which are late."""
    times = events.times[rows]
    if node.bolt.settings.late_by_session and joins_sessions(node):
        assert node.session is not None
        return times, node.session.ends_alone(times, gaps_of_sessions(node, events)[rows])
    if node.sliding_log is not None and joins_windows(node):
        return times - node.sliding_log.length.micros, times
    return None


def _dropped(node: WindowedNode, events: Incoming, decisions: Decisions) -> NDArray[np.bool_]:
    """Which late events are dropped by the user's rules; a lifetime that cannot be cut is dropped too (SI-13)."""
    return _with_action(node, events, decisions.codes, (LateAction.DROP, LateAction.CUT))


def _with_action(
    node: WindowedNode, events: Incoming, codes: NDArray[np.int8], wanted: Container[LateAction]
) -> NDArray[np.bool_]:
    """Which late events have one of the wanted actions, by the settings of their input or of their arrival."""
    settings = node.bolt.settings
    chosen: NDArray[np.bool_] = codes == Decision.OUT_OF_ORDER
    if chosen.any():
        by_input = np.array([settings.of_input(label).late_action in wanted for label in node.streams])
        chosen &= by_input[events.inputs]
    if settings.arrival is not None and settings.arrival.action in wanted:
        chosen |= codes == Decision.LATE
    return chosen


def _late(codes: NDArray[np.int8]) -> NDArray[np.bool_]:
    late: NDArray[np.bool_] = (codes == Decision.LATE) | (codes == Decision.OUT_OF_ORDER)
    return late


def _any(codes: NDArray[np.int8], *wanted: Decision) -> bool:
    return any((codes == decision).any() for decision in wanted)


def _reasons(
    node: WindowedNode, codes: NDArray[np.int8], times: NDArray[np.int64], marks: NDArray[np.int64]
) -> list[str]:
    """Why events were not admitted, in words."""
    settings = node.bolt.settings
    rule = settings.arrival
    reason = _SESSION_CLOSED if settings.late_by_session else _NO_SESSION
    if node.sliding_log is not None and joins_windows(node):
        reason = _NO_WINDOW
    elif node.last_end is not None:
        closes = settings.panes is not None and settings.panes.closes
        reason = _WINDOW_CLOSED if settings.late_by is LateBy.WINDOW or closes else _WINDOW_ENDS_THERE
    said = np.where((times >= marks) | (settings.late_by is LateBy.WINDOW), reason, BEHIND)
    said = np.where(codes == Decision.LATE, f"{_LATE_ARRIVAL}: more than {rule.late if rule else Duration(0)}", said)
    said = np.where(codes == Decision.EARLY, f"{_EARLY}: more than {rule.early if rule else Duration(0)}", said)
    return said.tolist()  # type: ignore[no-any-return]


def _late_error(node: WindowedNode, events: Incoming, decisions: Decisions, row: int) -> DataError:
    """The error for the first late event that stops the run."""
    rule, time, mark = node.bolt.settings.arrival, int(events.times[row]), int(decisions.marks[row])
    stream = node.streams[events.inputs if isinstance(events.inputs, int) else int(events.inputs[row])]
    if decisions.codes[row] == Decision.LATE:
        assert rule is not None
        return DataError(
            f"bolt {node.name!r}: an event of {show(time)} of {stream!r} arrived more than {rule.late} after its time",
            why="events that arrive too late stop the run",
            do="fix the source, allow more: late=..., or let such events be adjusted or dropped: action='drop'",
        )
    return DataError(
        f"bolt {node.name!r}: an event of {show(time)} came after the watermark {show(mark)} of {stream!r}",
        why="events that violate a watermark stop the run",
        do="fix the source, or choose another action: with_lateness(action='drop'), 'adjust' or 'divert'",
    )


def _decision_label(decision: Decision, *, dropped: bool) -> str:
    if decision in (Decision.LATE, Decision.OUT_OF_ORDER):
        return f"dropped_{decision.label}" if dropped else "late"
    return decision.label


def _mark(marks: NDArray[np.int64] | None, row: int) -> int | None:
    return None if marks is None or marks[row] == NONE or marks[row] == FOREVER else int(marks[row])
