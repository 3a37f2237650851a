"""The decision about each event that arrives at a windowed bolt: whether it is admitted, and with which time.

One function for all rules. Where Storm's are enough, the task that reads an event calls it, with the watermark of the
last tick for all; else the bolt's task does, with the watermark before each event (decisions 13 and 42).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from manager.keyed.held import Held
from manager.keyed.open_logs import without_open_window
from manager.keyed.open_sessions import gaps_of_events, turned_away
from manager.keyed.shut_windows import ShutWindows
from policies.admission import Decision, accepted, all_accepted
from policies.last_end import in_gap
from policies.marks import NONE
from topologies.engine.admission.repeats import IncomingIds, Repeats, key_columns
from topologies.engine.rows.routed_rows import Rows
from topologies.graph.nodes.windowed import WindowedNode
from windowing.settings.rules import LateBy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Marks:
    """The watermarks in microseconds before each event, NONE before the first: of its own input, partition or key, and
    of the bolt."""

    own: NDArray[np.int64]
    bolt: NDArray[np.int64]
    own_after: NDArray[np.int64] | None = None
    """The same after each event, for tracing."""
    bolt_after: NDArray[np.int64] | None = None

    @staticmethod
    def of_tick(watermark: int | None, events: int) -> Marks:
        """The watermark of the last tick, for every event; None before the first."""
        mark = np.broadcast_to(np.int64(NONE if watermark is None else watermark), events)
        return Marks(mark, mark)


@dataclass(frozen=True)
class Incoming:
    """Events on their way into a bolt, in order of arrival; arrays with one entry per event, times in microseconds."""

    rows: Rows
    inputs: NDArray[np.int8] | int
    """The index of the input of each, or of all."""
    times: NDArray[np.int64]
    codes: NDArray[np.int8]
    """The code of the ``Decision`` about each by its arrival alone."""
    marks: Marks
    closed_until: int = NONE
    """Windows that end up to this time are closed, whatever the watermark is: the idle timeout closed them (AT-17)."""
    keys: NDArray[np.int64] | None = None
    """Code of the key of each (``KeyCodes``); its hash where nothing is decided by key."""
    ends: NDArray[np.int64] | None = None
    """End of the lifetime of each."""
    end_edges: NDArray[np.bool_] | None = None
    """Which are end edges (SI-3)."""
    gaps: NDArray[np.int64] | None = None
    """Session gap of each; None where all share one."""


class KeyMarks(Protocol):
    """Advances the watermark of each key."""

    def __call__(
        self, keys: NDArray[np.int64], times: NDArray[np.int64], advancing: NDArray[np.bool_], values: pa.Table
    ) -> Marks:
        """Called once with the events of a batch in order of arrival; ``advancing`` are those that advance the
        watermark, ``keys`` and ``values`` the codes and the columns of their keys."""
        ...


class KeyCoder(Protocol):
    """Tells the keys of arriving events apart from each other, and from those of the events of earlier batches."""

    def __call__(self, arriving: Held) -> NDArray[np.int64]:
        """The codes of the keys of arriving events, in order of arrival. Reads the events of earlier batches."""
        ...


@dataclass(frozen=True)
class AdmissionContext:
    """What a task knows from earlier batches that decides which events are admitted."""

    live: Callable[..., Held | None] | None = None
    """Returns the live events with some of their columns, by name (none: all), in order of arrival; None where there
    is no need for them."""
    key_marks: KeyMarks | None = None
    """Returns the watermarks of the keys around each event; None where keys have none of their own."""
    codes: KeyCoder | None = None
    """Returns the codes of keys; None where events have none."""
    repeats: Repeats | None = None
    """Finds repeated message ids; None where the bolt does not ask for that."""
    shut: ShutWindows | None = None
    """The windows that a firing has closed before their end; None where none does."""


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """What was decided about events; arrays with one entry per event."""

    times: NDArray[np.int64]
    """The assigned time in microseconds; without a meaning where the event is turned away."""
    codes: NDArray[np.int8]
    """The code of the ``Decision`` about each."""
    marks: NDArray[np.int64]
    """The watermark in microseconds that each was compared with: its own, or that of the bolt; NONE before the
    first."""
    closed_until: NDArray[np.int64]
    """Windows that end up to this time, in microseconds, were closed when the event came."""
    evaluate_before: list[int]
    """Indices of events before which windows must be evaluated, up to ``closed_until`` there."""
    adjusted: NDArray[np.bool_]
    """Events with another time than they came with, in a window or in a gap. Not those that were turned away all the
    same: they have no time."""
    out_of_order: NDArray[np.bool_]
    """Events behind the watermark or behind their windows, whether they were then adjusted, dropped or late; of
    duplicates nothing is known."""


def decide(node: WindowedNode, events: Incoming, admission_context: AdmissionContext) -> Decisions:
    """Decide about events, by the rules of the bolt."""
    decisions = _by_rules(node, events, admission_context)
    return (
        decisions
        if admission_context.repeats is None
        else _without_repeats(node, events, admission_context, admission_context.repeats, decisions)
    )


def _by_rules(node: WindowedNode, events: Incoming, admission_context: AdmissionContext) -> Decisions:
    times, codes, evaluate_before = events.times, events.codes, list[int]()
    closed_until = np.broadcast_to(np.int64(NONE), len(times))
    if node.event_time and joins_windows(node):
        closed_until = _closes_until(node, events)
        late, evaluate_before = _late_for_windows(node, events, admission_context, closed_until)
        codes = np.where(late, np.int8(Decision.OUT_OF_ORDER), codes)
    elif node.event_time:
        times, codes, closed_until = _by_watermark(node, events)
    if node.event_time and events.closed_until > NONE:
        codes, closed_until = _by_timeout(node, events, admission_context, times, codes, closed_until)
    if admission_context.shut is not None:
        missed = accepted(codes) & admission_context.shut.missed(times, events.keys, closed_until)
        codes = np.where(missed, np.int8(Decision.OUT_OF_ORDER), codes)
    adjusted = out_of_order = np.zeros(len(times), np.bool_)
    if not all_accepted(codes):
        moved = codes == Decision.ADJUSTED_OUT_OF_ORDER
        adjusted, out_of_order = (codes == Decision.ADJUSTED_LATE) | moved, (codes == Decision.OUT_OF_ORDER) | moved
    # Assigners account for gaps when the event is finished.
    gap = None if node.holds_events else in_gap(node.eviction, node.trigger, times)
    if gap is not None:
        codes = np.where(gap & accepted(codes), np.int8(Decision.UNWINDOWED), codes)
    marks = events.marks.own if node.admission.per_input else events.marks.bolt
    return Decisions(
        times=times,
        codes=codes,
        marks=marks,
        closed_until=closed_until,
        evaluate_before=evaluate_before,
        adjusted=adjusted,
        out_of_order=out_of_order,
    )


def _by_watermark(
    node: WindowedNode, events: Incoming
) -> tuple[NDArray[np.int64], NDArray[np.int8], NDArray[np.int64]]:
    """The times, decisions and closed limits of events; those of each input by the late action of its source
    (SI-17)."""
    by_input = [node.bolt.settings.of_input(label).late_action for label in node.streams]
    marks = events.marks
    columns = (events.times, events.ends, events.codes, marks.own, marks.bolt, events.end_edges)
    decided = {
        action: replace(node.admission, late_action=action).decide(*columns) for action in dict.fromkeys(by_input)
    }
    times, codes, closed_until = decided[by_input[0]]
    if len(decided) == 1:
        return times, codes, closed_until
    for index, action in enumerate(by_input):
        of_input, (own_times, own_codes, own_closed_until) = events.inputs == index, decided[action]
        times, codes = np.where(of_input, own_times, times), np.where(of_input, own_codes, codes)
        closed_until = np.where(of_input, own_closed_until, closed_until)
    return times, codes, closed_until


def joins_sessions(node: WindowedNode) -> bool:
    """Whether an event is late if no open session takes it."""
    return node.session is not None and node.admission.late_by is LateBy.WINDOW


def joins_windows(node: WindowedNode) -> bool:
    """Whether an event is late if no open window takes it that other events have made."""
    return joins_sessions(node) or (node.sliding_log is not None and node.admission.late_by is LateBy.WINDOW)


def _late_for_windows(
    node: WindowedNode, events: Incoming, admission_context: AdmissionContext, closed_until: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], list[int]]:
    """Which events no open window takes, and before which of them windows must be evaluated."""
    session, sliding_log = node.session, node.sliding_log
    assert admission_context.live is not None
    if sliding_log is not None:
        late = without_open_window(
            events.times, events.keys, accepted(events.codes), closed_until, sliding_log.length.micros,
            admission_context.live,
        )  # fmt: skip
        return late, []
    assert session is not None
    return turned_away(
        events.times, keys=events.keys, candidates=accepted(events.codes), closed_until=closed_until,
        gaps=gaps_of_sessions(node, events), held=admission_context.live, kind=session,
        reference=_reference(node, events),
    )  # fmt: skip


def _reference(node: WindowedNode, events: Incoming) -> NDArray[np.int64]:
    """The watermark at each event, less the allowed lateness (AT-7), or up to where the clock has closed sessions if
    that is later; NONE where the session alone decides."""
    if node.bolt.settings.late_by_session:
        return np.full(len(events.times), NONE)
    return np.maximum(node.admission.less_allowed(events.marks.bolt), events.closed_until)


def gaps_of_sessions(node: WindowedNode, events: Incoming) -> NDArray[np.int64]:
    """The session gap of each event of a bolt with sessions."""
    assert node.session is not None
    return gaps_of_events(events.gaps, node.session.gap.micros, len(events.times))


def _closes_until(node: WindowedNode, events: Incoming) -> NDArray[np.int64]:
    """Up to when windows are closed as each event comes."""
    closed_until = node.admission.closes_until(events.marks.bolt)
    return closed_until if events.closed_until == NONE else np.maximum(closed_until, events.closed_until)


def _by_timeout(
    node: WindowedNode,
    events: Incoming,
    admission_context: AdmissionContext,
    times: NDArray[np.int64],
    codes: NDArray[np.int8],
    closed_until: NDArray[np.int64],
) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Decide again about events whose windows the idle timeout has closed (AT-17)."""
    closed_until, last_end = np.maximum(closed_until, events.closed_until), node.last_end
    if last_end is not None:
        missed = accepted(codes) & node.admission.missed(times, last_end(times, events.ends), closed_until)
        codes = np.where(missed, np.int8(Decision.OUT_OF_ORDER), codes)
    elif node.session is not None and node.session.max_duration is not None and len(node.assigners) == 1:
        by_time = replace(events, times=times, codes=codes)
        late, _ = _late_for_windows(node, by_time, admission_context, closed_until)
        codes = np.where(late, np.int8(Decision.OUT_OF_ORDER), codes)
    return codes, closed_until


def _without_repeats(
    node: WindowedNode, events: Incoming, admission_context: AdmissionContext, repeats: Repeats, decisions: Decisions
) -> Decisions:
    """The decisions with repeated messages marked as duplicates.

    Whether an open window takes a late event depends on the events admitted before it, so the decision is repeated
    until it no longer changes. Each round fixes at least one more of the first events.
    """
    name, count = node.bolt.settings.message_id_field, len(events.times)
    assert name is not None
    sound = (events.codes != Decision.INVALID) & (events.codes != Decision.WATERMARK)
    alone, duplicates = accepted(decisions.codes), np.zeros(count, np.bool_)
    marks = events.marks.own if node.bolt.settings.watermark_per_key else events.marks.bolt
    while True:
        admitted = np.where(duplicates, alone, accepted(decisions.codes))
        closed_until = decisions.closed_until if node.assigners else None
        held = Held(
            times=decisions.times,
            payload=events.rows.table.select(key_columns(node)),
            streams=np.broadcast_to(np.asarray(events.inputs, np.int8), count) if len(node.inputs) > 1 else None,
            keys=events.keys,
            ends=events.ends,
            closed_until=closed_until,
            gaps=events.gaps,
        )
        ids = events.rows.table.column(name)
        incoming = IncomingIds(ids, sound, admitted, held, marks, decisions.evaluate_before)
        repeated = repeats.among(incoming)
        if (repeated == duplicates).all():
            return decisions
        duplicates = repeated
        codes = np.where(duplicates, np.int8(Decision.DUPLICATE), events.codes)
        decisions = _by_rules(node, replace(events, codes=codes), admission_context)
        if not joins_windows(node):
            return decisions
