"""Admission decides whether an arriving event is admitted and with which time. Counts, traces and late rows follow from
that."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from manager.keyed.fired_windows import ClosedEarly
from manager.keyed.open_sessions import gaps_of_events, late_for_sessions, late_for_sliding_logs
from manager.keyed.retained_events import RetainedEvents
from policies.storm import in_gap
from policies.watermarks import NONE, Decision, all_accepted, is_accepted
from topologies.engine.duplicates import DuplicateFinder, IncomingIds, key_columns
from topologies.engine.ledger import MOST_SAMPLES, Ledger, event_ids
from topologies.engine.task_data import RejectedEvent, Rows
from topologies.graph.graph import LATE_COLUMNS, Stream, WindowedNode, reserved_columns
from windowing.columns import take_rows
from windowing.durations import Duration
from windowing.errors import DataError
from windowing.reprs import shorten
from windowing.settings.rules import LateAction, LateBy
from windowing.timestamps import EARLIEST, FOREVER, LATEST, show, to_column

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Decides about each event that arrives at a windowed bolt: is it admitted, and with which time?
#
# One function applies all rules. If Storm's rules are enough, the reading task calls it, with the watermark of the last
# tick for all events. Otherwise the bolt's task calls it, with the watermark before each event (decisions 13 and 42).


@dataclass(frozen=True)
class Marks:
    """The watermarks before each event, in microseconds: the watermark of the event's input, partition or key, and the
    bolt's watermark. NONE before the first watermark."""

    of_source: NDArray[np.int64]
    of_bolt: NDArray[np.int64]
    of_source_after: NDArray[np.int64] | None = None
    """``of_source`` after each event, for tracing."""
    of_bolt_after: NDArray[np.int64] | None = None

    @staticmethod
    def of_tick(watermark: int | None, events: int) -> Marks:
        """Returns the marks of events that share the watermark of the last tick; None before the first tick."""
        mark = np.broadcast_to(np.int64(NONE if watermark is None else watermark), events)
        return Marks(mark, mark)


@dataclass(frozen=True)
class Incoming:
    """Events that arrive at a bolt, in order of arrival: arrays with one entry per event, times in microseconds."""

    rows: Rows
    inputs: NDArray[np.int8] | int
    """Index of the input of each event, or one index for all."""
    times: NDArray[np.int64]
    codes: NDArray[np.int8]
    """Code of the ``Decision`` about each event, from its arrival time alone."""
    marks: Marks
    idle_closed_until: int = NONE
    """Windows that end up to this time are closed by the idle timeout, whatever the watermark is (AT-17)."""
    keys: NDArray[np.int64] | None = None
    """Code of each event's key (``KeyCodes``), or the key's hash if no decision depends on the key."""
    ends: NDArray[np.int64] | None = None
    """End of the lifetime of each event."""
    end_edges: NDArray[np.bool_] | None = None
    """True for end edges (SI-3)."""
    gaps: NDArray[np.int64] | None = None
    """Session gap of each event; None if all events share one."""


class KeyMarks(Protocol):
    """Advances the watermark of each key."""

    def __call__(
        self, keys: NDArray[np.int64], times: NDArray[np.int64], advancing: NDArray[np.bool_], values: pa.Table
    ) -> Marks:
        """Called once with the events of a batch, in order of arrival. ``keys`` and ``values``: the codes and the
        columns of their keys. ``advancing``: True for events that advance the watermark."""
        ...


class KeyCoder(Protocol):
    """Distinguishes the keys of arriving events from each other, and from keys of earlier batches."""

    def __call__(self, arriving: RetainedEvents) -> NDArray[np.int64]:
        """Returns the codes of the keys of arriving events, in order of arrival; reads the events of earlier
        batches."""
        ...


@dataclass(frozen=True)
class AdmissionContext:
    """State of a task from earlier batches, on which admission depends."""

    live_events: Callable[..., RetainedEvents | None] | None = None
    """Returns the live events in order of arrival, with the named columns (all if none is named); None if admission
    does not need them."""
    key_marks: KeyMarks | None = None
    """Returns the watermarks of keys before each event; None if keys have no watermarks of their own."""
    key_coder: KeyCoder | None = None
    """Returns the codes of keys; None if events need none."""
    duplicate_finder: DuplicateFinder | None = None
    """Finds repeated message ids; None if the bolt does not look for them."""
    closed_early: ClosedEarly | None = None
    """Windows that a firing has closed before their end; None if no firing does so."""


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """Decisions about events; arrays with one entry per event."""

    times: NDArray[np.int64]
    """The assigned time in microseconds; meaningless for rejected events."""
    codes: NDArray[np.int8]
    """Code of the ``Decision`` about each event."""
    marks: NDArray[np.int64]
    """The watermark in microseconds that each event was compared with: its own, or the bolt's; NONE before the first
    one."""
    closed_until: NDArray[np.int64]
    """Windows with an end up to this time, in microseconds, were closed when the event came."""
    evaluate_before: list[int]
    """Indices of events before which windows must be evaluated, up to the event's ``closed_until``."""
    adjusted: NDArray[np.bool_]
    """Mask of events whose time was changed and that are in a window or in a gap. Rejected events have no time and are
    False here."""
    out_of_order: NDArray[np.bool_]
    """Mask of events behind the watermark or behind their windows, whether they were then adjusted, dropped or late;
    unknown for duplicates."""


def decide(node: WindowedNode, events: Incoming, admission_context: AdmissionContext) -> Decisions:
    """Decides about events, by the rules of the bolt."""
    decisions = _decide_by_rules(node, events, admission_context)
    return (
        decisions
        if admission_context.duplicate_finder is None
        else _without_duplicates(node, events, admission_context, admission_context.duplicate_finder, decisions)
    )


def _decide_by_rules(node: WindowedNode, events: Incoming, admission_context: AdmissionContext) -> Decisions:
    times, codes, evaluate_before = events.times, events.codes, list[int]()
    closed_until = np.broadcast_to(np.int64(NONE), len(times))
    if node.event_time and late_by_open_windows(node):
        closed_until = _closed_until(node, events)
        is_late, evaluate_before = _late_for_windows(node, events, admission_context, closed_until)
        codes = np.where(is_late, np.int8(Decision.LATE_AT_ADMISSION), codes)
    elif node.event_time:
        times, codes, closed_until = _decide_by_watermark(node, events)
    if node.event_time and events.idle_closed_until > NONE:
        codes = _decide_about_cut_sessions(node, events, admission_context, times, codes, closed_until)
    if node.event_time and node.reports_silences:
        evaluate_before = _first_behind_closed_windows(times, codes, closed_until)
    if admission_context.closed_early is not None:
        is_closed_early = is_accepted(codes) & admission_context.closed_early.windows_closed(
            times, events.keys, closed_until
        )
        codes = np.where(is_closed_early, np.int8(Decision.LATE_AT_ADMISSION), codes)
    adjusted = out_of_order = np.zeros(len(times), np.bool_)
    if not all_accepted(codes):
        is_moved = codes == Decision.ADJUSTED_LATE_AT_ADMISSION
        adjusted, out_of_order = (
            (codes == Decision.ADJUSTED_LATE_BY_ARRIVAL) | is_moved,
            (codes == Decision.LATE_AT_ADMISSION) | is_moved,
        )
    # Assigners account for gaps once the event is no longer needed.
    is_in_gap = None if node.without_queue else in_gap(node.eviction, node.trigger, times)
    if is_in_gap is not None:
        codes = np.where(is_in_gap & is_accepted(codes), np.int8(Decision.UNWINDOWED), codes)
    if node.may_get_rows_at_no_time:
        codes = np.where((times == FOREVER) & is_accepted(codes), np.int8(Decision.UNWINDOWED), codes)
    marks = events.marks.of_source if node.admission.by_own_mark else events.marks.of_bolt
    return Decisions(
        times=times,
        codes=codes,
        marks=marks,
        closed_until=closed_until,
        evaluate_before=evaluate_before,
        adjusted=adjusted,
        out_of_order=out_of_order,
    )


def _decide_by_watermark(
    node: WindowedNode, events: Incoming
) -> tuple[NDArray[np.int64], NDArray[np.int8], NDArray[np.int64]]:
    """Returns the times, decisions and closing times of events; each input has the late action of its source
    (SI-17)."""
    by_input = [node.bolt.settings.of_input(label).late_action for label in node.streams]
    marks = events.marks
    columns = (events.times, events.ends, events.codes, marks.of_source, marks.of_bolt, events.end_edges)
    idle = events.idle_closed_until
    decided_by_action = {
        action: replace(node.admission, late_action=action).decide(*columns, idle) for action in dict.fromkeys(by_input)
    }
    times, codes, closed_until = decided_by_action[by_input[0]]
    if len(decided_by_action) == 1:
        return times, codes, closed_until
    for index, action in enumerate(by_input):
        is_of_input, (own_times, own_codes, own_closed_until) = events.inputs == index, decided_by_action[action]
        times, codes = np.where(is_of_input, own_times, times), np.where(is_of_input, own_codes, codes)
        closed_until = np.where(is_of_input, own_closed_until, closed_until)
    return times, codes, closed_until


def _first_behind_closed_windows(
    times: NDArray[np.int64], codes: NDArray[np.int8], closed_until: NDArray[np.int64]
) -> list[int]:
    """Returns the indices of the events before which the silences that are over must be reported.

    Such an event is accepted although windows that end later than its time have closed. If it were added first, it
    would fall into a silence that is over, and undo it.
    """
    behind = np.flatnonzero(is_accepted(codes) & (times < closed_until))
    _, firsts = np.unique(closed_until[behind], return_index=True)
    indices: list[int] = behind[np.sort(firsts)].tolist()
    return indices


def late_by_open_sessions(node: WindowedNode) -> bool:
    """True if an event is late unless an open session takes it."""
    return node.session is not None and node.admission.late_by is LateBy.WINDOW


def late_by_open_windows(node: WindowedNode) -> bool:
    """True if an event is late unless an open window, which other events have opened, takes it."""
    return late_by_open_sessions(node) or (node.sliding_log is not None and node.admission.late_by is LateBy.WINDOW)


def _late_for_windows(
    node: WindowedNode, events: Incoming, admission_context: AdmissionContext, closed_until: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], list[int]]:
    """Returns a mask of the events that no open window takes, and the events before which windows must be evaluated."""
    session, sliding_log = node.session, node.sliding_log
    assert admission_context.live_events is not None
    if sliding_log is not None:
        is_late = late_for_sliding_logs(
            events.times, events.keys, is_accepted(events.codes), closed_until, sliding_log.length.micros,
            admission_context.live_events,
        )  # fmt: skip
        return is_late, []
    assert session is not None
    return late_for_sessions(
        events.times, keys=events.keys, candidates=is_accepted(events.codes), closed_until=closed_until,
        gaps=gaps_of_sessions(node, events), live_events=admission_context.live_events, kind=session,
        watermark_minus_lateness=_watermark_minus_lateness(node, events),
    )  # fmt: skip


def _watermark_minus_lateness(node: WindowedNode, events: Incoming) -> NDArray[np.int64]:
    """Returns the watermark at each event minus the allowed lateness (AT-7), or the time up to which the clock has
    closed sessions, whichever is later. NONE if only the session decides."""
    if node.bolt.settings.late_by_session:
        return np.full(len(events.times), NONE)
    return np.maximum(node.admission.minus_allowed_lateness(events.marks.of_bolt), events.idle_closed_until)


def gaps_of_sessions(node: WindowedNode, events: Incoming) -> NDArray[np.int64]:
    """Returns the session gap of each event of a bolt with sessions."""
    assert node.session is not None
    return gaps_of_events(events.gaps, node.session.gap.micros, len(events.times))


def _closed_until(node: WindowedNode, events: Incoming) -> NDArray[np.int64]:
    """Returns, for each event, the time up to which windows were closed when the event came."""
    closed_until = node.admission.closed_until_at(events.marks.of_bolt)
    return closed_until if events.idle_closed_until == NONE else np.maximum(closed_until, events.idle_closed_until)


def _decide_about_cut_sessions(
    node: WindowedNode,
    events: Incoming,
    admission_context: AdmissionContext,
    times: NDArray[np.int64],
    codes: NDArray[np.int8],
    closed_until: NDArray[np.int64],
) -> NDArray[np.int8]:
    """Decides again about events whose session, cut by its longest duration, the idle timeout may have closed (AT-17).
    Which session that is depends on the events before; of all other windows it has been decided."""
    if node.session is not None and node.session.max_duration is not None and len(node.assigners) == 1:
        decided_events = replace(events, times=times, codes=codes)
        is_late, _ = _late_for_windows(node, decided_events, admission_context, closed_until)
        codes = np.where(is_late, np.int8(Decision.LATE_AT_ADMISSION), codes)
    return codes


def _without_duplicates(
    node: WindowedNode,
    events: Incoming,
    admission_context: AdmissionContext,
    duplicate_finder: DuplicateFinder,
    decisions: Decisions,
) -> Decisions:
    """Returns the decisions with repeated messages marked as duplicates.

    The events admitted before a late event decide whether an open window takes it. So the decision is repeated until it
    no longer changes; each round finds the final decision about at least one more event.
    """
    name, count = node.bolt.settings.message_id_field, len(events.times)
    assert name is not None
    is_event = (events.codes != Decision.INVALID) & (events.codes != Decision.WATERMARK)
    accepted_without_ids, duplicates = is_accepted(decisions.codes), np.zeros(count, np.bool_)
    marks = events.marks.of_source if node.bolt.settings.watermark_per_key else events.marks.of_bolt
    while True:
        admitted = np.where(duplicates, accepted_without_ids, is_accepted(decisions.codes))
        closed_until = decisions.closed_until if node.assigners else None
        arriving = RetainedEvents(
            times=decisions.times,
            payload=events.rows.table.select(key_columns(node)),
            streams=np.broadcast_to(np.asarray(events.inputs, np.int8), count) if len(node.inputs) > 1 else None,
            keys=events.keys,
            ends=events.ends,
            closed_until=closed_until,
            gaps=events.gaps,
        )
        ids = events.rows.table.column(name)
        incoming = IncomingIds(ids, is_event, admitted, arriving, marks, decisions.evaluate_before)
        repeated = duplicate_finder.among(incoming)
        if (repeated == duplicates).all():
            return decisions
        duplicates = repeated
        codes = np.where(duplicates, np.int8(Decision.DUPLICATE), events.codes)
        decisions = _decide_by_rules(node, replace(events, codes=codes), admission_context)
        if not late_by_open_windows(node):
            return decisions


# Rows of late streams: the event, the reason, and the last window that could have held it.


def late_rows(
    node: WindowedNode,
    rows: pa.Table,
    *,
    inputs: NDArray[np.int8],
    times: NDArray[np.int64],
    reasons: list[str],
    micros_late: NDArray[np.int64],
    watermarks: NDArray[np.int64],
    windows_to_open: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
) -> pa.Table:
    """Returns rejected events with the columns of the late stream. ``watermarks``: NONE before the first one. Times are
    in microseconds. If the events already have such columns, from an earlier late stream, these are replaced; this
    happens only in a test that records streams, since ``build()`` refuses it.

    ``windows_to_open``: the starts and ends of the windows that the events would have opened, if late events are judged
    by them.
    """
    rows = conform_input(rows, node.schema)
    names = np.array(node.streams, dtype=object)[inputs].tolist()
    starts, ends = _last_windows(node, times) if windows_to_open is None else windows_to_open
    columns = [
        pa.array(names, pa.string()),
        to_column(times),
        pa.array(reasons, pa.string()),
        pa.array(micros_late),
        _time_column(watermarks),
        _time_column(starts),
        _time_column(ends),
    ]
    rows = rows.drop_columns([field.name for field in LATE_COLUMNS if field.name in rows.column_names])
    for field, column in zip(LATE_COLUMNS, columns, strict=True):
        rows = rows.append_column(field, column)
    return rows


def _last_windows(node: WindowedNode, times: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the start and end of the last window that could have held each event; NONE if unknown."""
    end = node.last_end
    if end is None:
        unknown = np.full(len(times), NONE, np.int64)
        return unknown, unknown
    ends = np.asarray(end(times, None))
    length = node.eviction.reach if not node.assigners else getattr(node.assigners[0], "length", None)
    starts = np.where(ends > NONE, ends - length.micros, NONE) if length is not None else np.full(len(ends), NONE)
    return starts, ends


def _time_column(times: NDArray[np.int64]) -> pa.Array:
    """Returns times as a timestamp column, null for times out of range."""
    unknown = (times < EARLIEST) | (times > LATEST)
    column = to_column(np.where(unknown, 0, times))
    return pa.compute.if_else(pa.array(~unknown), column, pa.scalar(None, column.type))


def conform_input(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Returns the table with the columns of the bolt's windows; columns that its stream lacks are null."""
    if table.schema.equals(schema):
        return table
    columns = [
        table.column(field.name) if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


# Effects of the decisions: events are counted and traced, and late ones diverted.


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

_MOST_CHARACTERS = 300
"""Most characters of an event recorded as a sample."""


def apply_decisions(
    node: WindowedNode, events: Incoming, decisions: Decisions, ledger: Ledger, emit: EmitRows, copies: int = 1
) -> None:
    """Counts and traces events, and diverts late and early events that are not dropped.

    ``copies``: the number of tasks to which each event goes; it is counted once for each. Raises DataError if a late
    event stops the run. Invalid rows were counted when they were read.
    """
    if all_accepted(decisions.codes) and all_accepted(events.codes) and not ledger.tracing:
        ledger.count_all(node, "received", events.inputs, len(events.times), copies)
        return
    dropped = _is_dropped(node, events, decisions)
    _count(node, events, decisions, dropped, ledger, copies)
    if ledger.tracing:
        _trace_decisions(node, events, decisions, dropped, ledger)
        if node.admitted_by_tasks:  # a reading task does not know the order of arrival
            _trace(node, events, decisions, dropped, ledger)
    if any_rejected(decisions.codes):
        if ledger.samples:
            _sample(node, events, decisions, dropped, ledger)
        _divert(node, events, decisions, dropped=dropped, ledger=ledger, emit=emit, copies=copies)


def record_groups(
    node: WindowedNode, events: Incoming, decisions: Decisions, sizes: NDArray[np.int64], ledger: Ledger
) -> None:
    """Counts groups of events. All events of a group have the same decision."""
    if all_accepted(decisions.codes):
        ledger.count_all(node, "received", events.inputs, int(sizes.sum()))
        return
    for account, chosen in _accounts(events, decisions, _is_dropped(node, events, decisions)):
        ledger.count_all(node, account, events.inputs, int(sizes[chosen].sum()))


def _count(
    node: WindowedNode,
    events: Incoming,
    decisions: Decisions,
    dropped: NDArray[np.bool_],
    ledger: Ledger,
    copies: int,
) -> None:
    for account, chosen in _accounts(events, decisions, dropped):
        ledger.count_chosen(node, account, events.inputs, chosen, copies)


def _accounts(
    events: Incoming, decisions: Decisions, dropped: NDArray[np.bool_]
) -> Iterable[tuple[str, NDArray[np.bool_]]]:
    """Yields each account with a mask of the events that it counts."""
    codes, arrival = decisions.codes, events.codes
    accounts = {
        "received": (codes != Decision.WATERMARK) & (codes != Decision.INVALID),
        "early": codes == Decision.EARLY,
        "duplicate": codes == Decision.DUPLICATE,
        "unwindowed": codes == Decision.UNWINDOWED,
        "adjusted": decisions.adjusted,
        "early_input": arrival == Decision.EARLY,
        "late_input": (arrival == Decision.ADJUSTED_LATE_BY_ARRIVAL) | (arrival == Decision.LATE_BY_ARRIVAL),
        "out_of_order": decisions.out_of_order,
        "dropped": dropped,
        "late": _is_late(codes) & ~dropped,
    }
    return accounts.items()


def _trace(
    node: WindowedNode, events: Incoming, decisions: Decisions, dropped: NDArray[np.bool_], ledger: Ledger
) -> None:
    windowed = is_accepted(decisions.codes) | (decisions.codes == Decision.UNWINDOWED)
    for row, event_id in enumerate(event_ids(events.rows.table)):
        ledger.trace(
            "events",
            {
                "bolt": node.name,
                "seq": int(events.rows.positions[row]),
                "event": event_id,
                "time": int(decisions.times[row]) if windowed[row] else None,
                "decision": _decision_label(Decision(int(decisions.codes[row])), dropped=bool(dropped[row])),
                "watermark": _mark(events.marks.of_bolt_after, row),
                "mark": _mark(events.marks.of_source_after, row),
            },
        )


def _trace_decisions(
    node: WindowedNode, events: Incoming, decisions: Decisions, dropped: NDArray[np.bool_], ledger: Ledger
) -> None:
    """Traces each event with its original time, its assigned time, and the watermark that it was compared with.
    ``row``: its number in the source, if known."""
    inputs = np.broadcast_to(np.asarray(events.inputs, np.int8), len(events.times))
    kept = is_accepted(decisions.codes) | (decisions.codes == Decision.UNWINDOWED)
    reasons = _reasons(node, decisions.codes, events.times, decisions.marks)
    for row, name in enumerate(event_ids(events.rows.table)):
        code, row_is_known = (
            Decision(int(decisions.codes[row])),
            events.rows.has_positions and not node.admitted_by_tasks,
        )
        is_rejected = code in (Decision.EARLY, Decision.LATE_BY_ARRIVAL, Decision.LATE_AT_ADMISSION)
        ledger.trace(
            "decisions",
            {
                "bolt": node.name,
                "input": node.streams[int(inputs[row])],
                "seq": int(events.rows.positions[row]),
                "row": int(events.rows.positions[row]) if row_is_known and not node.origins[int(inputs[row])] else None,
                "event": name,
                "time": None if code in (Decision.INVALID, Decision.WATERMARK) else int(events.times[row]),
                "assigned": int(decisions.times[row]) if kept[row] else None,
                "decision": _decision_label(code, dropped=bool(dropped[row])),
                "mark": _mark(decisions.marks, row),
                "reason": reasons[row] if is_rejected else None,
            },
        )


def _sample(
    node: WindowedNode, events: Incoming, decisions: Decisions, dropped: NDArray[np.bool_], ledger: Ledger
) -> None:
    """Records the latest rejected events as samples, for observers of the run."""
    codes = decisions.codes
    sampled_rows = np.flatnonzero(_is_late(codes) | (codes == Decision.EARLY))[-MOST_SAMPLES:]
    inputs = np.broadcast_to(np.asarray(events.inputs, np.int8), len(events.times))
    reasons = _reasons(node, codes[sampled_rows], events.times[sampled_rows], decisions.marks[sampled_rows])
    columns = events.rows.table.column_names
    shown = [name for name in columns if name not in reserved_columns(columns)]
    contents = take_rows(events.rows.table.select(shown), sampled_rows).to_pylist()
    for row, reason, content in zip(sampled_rows.tolist(), reasons, contents, strict=True):
        label = "early" if codes[row] == Decision.EARLY else "dropped" if dropped[row] else "late"
        text = shorten(", ".join(f"{name}={value}" for name, value in content.items()), _MOST_CHARACTERS)
        stream, mark = node.streams[int(inputs[row])], _mark(decisions.marks, row)
        ledger.sample(RejectedEvent(node.name, stream, label, int(events.times[row]), mark, reason, text))


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
    """Sends late and early events to the late stream, unless they are dropped."""
    codes, stream = decisions.codes, node.bolt.settings.late_stream
    stopping_rows = np.flatnonzero(_has_action(node, events, codes, (LateAction.ERROR,)))
    if len(stopping_rows):
        raise _late_error(node, events, decisions, int(stopping_rows[0]))
    rows = np.flatnonzero((_is_late(codes) | (codes == Decision.EARLY)) & ~dropped)
    if ledger.tracing:
        for name in event_ids(take_rows(events.rows.table, rows[_is_late(codes[rows])])):
            ledger.trace("late", {"bolt": node.name, "event": name})
    if stream is None or not len(rows):
        return
    diverted = events.rows.with_content(_late_table(node, events, decisions, rows), None, rows)
    for _ in range(copies):
        emit((node.name, stream), diverted)


def _late_table(node: WindowedNode, events: Incoming, decisions: Decisions, rows: NDArray[np.int64]) -> pa.Table:
    """Returns some of the events as rows of the late stream."""
    codes, times, marks = decisions.codes[rows], events.times[rows], decisions.marks[rows]
    inputs = np.broadcast_to(np.asarray(events.inputs, np.int8), len(events.times))[rows]
    micros_late = np.where((marks > NONE) & _is_late(codes), np.maximum(marks - times, 0), 0)
    reasons = _reasons(node, codes, times, marks)
    return late_rows(
        node,
        take_rows(events.rows.table, rows),
        inputs=inputs,
        times=times,
        reasons=reasons,
        micros_late=micros_late,
        watermarks=marks,
        windows_to_open=_windows_to_open(node, events, rows),
    )


def _windows_to_open(
    node: WindowedNode, events: Incoming, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Returns the start and end of the window that each of these events would have opened; None if these windows do not
    decide which events are late."""
    times = events.times[rows]
    if node.bolt.settings.late_by_session and late_by_open_sessions(node):
        assert node.session is not None
        return times, node.session.ends_if_alone(times, gaps_of_sessions(node, events)[rows])
    if node.sliding_log is not None and late_by_open_windows(node):
        return times - node.sliding_log.length.micros, times
    return None


def _is_dropped(node: WindowedNode, events: Incoming, decisions: Decisions) -> NDArray[np.bool_]:
    """Returns a mask of the late events that the user's rules drop; an event whose lifetime cannot be cut is dropped
    too (SI-13)."""
    return _has_action(node, events, decisions.codes, (LateAction.DROP, LateAction.CUT))


def _has_action(
    node: WindowedNode, events: Incoming, codes: NDArray[np.int8], wanted_actions: Container[LateAction]
) -> NDArray[np.bool_]:
    """Returns a mask of the late events with one of the wanted actions, by the settings of their input or of their
    arrival."""
    settings = node.bolt.settings
    chosen: NDArray[np.bool_] = codes == Decision.LATE_AT_ADMISSION
    if chosen.any():
        by_input = np.array([settings.of_input(label).late_action in wanted_actions for label in node.streams])
        chosen &= by_input[events.inputs]
    if settings.arrival is not None and settings.arrival.action in wanted_actions:
        chosen |= codes == Decision.LATE_BY_ARRIVAL
    return chosen


def _is_late(codes: NDArray[np.int8]) -> NDArray[np.bool_]:
    late: NDArray[np.bool_] = (codes == Decision.LATE_BY_ARRIVAL) | (codes == Decision.LATE_AT_ADMISSION)
    return late


def any_rejected(codes: NDArray[np.int8]) -> bool:
    """True if an event is rejected as early or late."""
    return any(
        (codes == decision).any() for decision in (Decision.EARLY, Decision.LATE_BY_ARRIVAL, Decision.LATE_AT_ADMISSION)
    )


def _reasons(
    node: WindowedNode, codes: NDArray[np.int8], times: NDArray[np.int64], marks: NDArray[np.int64]
) -> list[str]:
    """Returns the reasons, in words, why events were not admitted."""
    settings = node.bolt.settings
    rule = settings.arrival
    reason = _SESSION_CLOSED if settings.late_by_session else _NO_SESSION
    if node.sliding_log is not None and late_by_open_windows(node):
        reason = _NO_WINDOW
    elif node.last_end is not None:
        closes = settings.panes is not None and settings.panes.closes
        reason = _WINDOW_CLOSED if settings.late_by is LateBy.WINDOW or closes else _WINDOW_ENDS_THERE
    reasons = np.where((times >= marks) | (settings.late_by is LateBy.WINDOW), reason, BEHIND)
    reasons = np.where(
        codes == Decision.LATE_BY_ARRIVAL, f"{_LATE_ARRIVAL}: more than {rule.late if rule else Duration(0)}", reasons
    )
    reasons = np.where(codes == Decision.EARLY, f"{_EARLY}: more than {rule.early if rule else Duration(0)}", reasons)
    return reasons.tolist()  # type: ignore[no-any-return]


def _late_error(node: WindowedNode, events: Incoming, decisions: Decisions, row: int) -> DataError:
    """Returns the error for the first late event, if late events stop the run."""
    rule, time, mark = node.bolt.settings.arrival, int(events.times[row]), int(decisions.marks[row])
    stream = node.streams[events.inputs if isinstance(events.inputs, int) else int(events.inputs[row])]
    if decisions.codes[row] == Decision.LATE_BY_ARRIVAL:
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
    if decision in (Decision.LATE_BY_ARRIVAL, Decision.LATE_AT_ADMISSION):
        return f"dropped_{decision.label}" if dropped else "late"
    return decision.label


def _mark(marks: NDArray[np.int64] | None, row: int) -> int | None:
    return None if marks is None or marks[row] == NONE or marks[row] == FOREVER else int(marks[row])
