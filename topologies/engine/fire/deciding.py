"""A task decides who is let in: events that have arrived, with the watermarks before them, become live events."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.keyed.held import EDGE_COLUMN, END_COLUMN, GAP_COLUMN, INNER, KEY_COLUMN, Held
from manager.keyed.open_sessions import turned_away
from manager.storage.segments import STREAM_COLUMN, TIME_COLUMN
from manager.storage.taking import taken
from policies.admission import Decision, timely
from policies.lateness import BEHIND, WINDOW_OVER
from policies.marks import NONE
from topologies.engine.batch.trace import event_ids
from topologies.engine.ingest.arriving import ACTION_COLUMN, END_EDGE_COLUMN, SEQ_COLUMN
from topologies.engine.ingest.repeats import IncomingIds
from topologies.engine.time.admission import late_rows
from topologies.graph.model import WindowedNode
from windowing.durations import Duration
from windowing.errors import DataError
from windowing.rules import LateAction, LateBy
from windowing.timestamps import FOREVER, show

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from numpy.typing import NDArray

    from manager.watermarks.substreams import Substreams
    from topologies.engine.batch.plan import FireItem
    from topologies.engine.ingest.repeats import Repeats
    from topologies.engine.ingest.router import Router

_EARLY = "its time is too far after its arrival"
_LATE_ARRIVAL = "it arrived too long after its time"
_NO_SESSION = "the watermark, less the allowed lateness, has passed it, and no open session takes it"


@dataclass
class _Batch:
    """All events of a task in a batch, in order of arrival."""

    table: pa.Table
    numbers: NDArray[np.int64]

    def column(self, name: str) -> Any:
        return self.table.column(name).to_numpy() if name in self.table.column_names else None


@dataclass(frozen=True)
class LetIn:
    """The live events among those that have arrived, in order of arrival."""

    events: Held
    end_edges: NDArray[np.bool_] | None = None
    """Which of them are the ends of edges, to be matched with their starts."""
    splits: tuple[tuple[int, int], ...] = ()
    """(place, limit): before the event at the place, windows that end up to the limit must be evaluated."""


def let_in(
    item: FireItem,
    part: WindowedNode,
    router: Router,
    held: Callable[[], Held | None] = lambda: None,
    substreams: Substreams | None = None,
    repeats: Repeats | None = None,
) -> LetIn | None:
    """The live events among those that have arrived for a task; the others go where the rules send them.

    ``held`` gives the live events of earlier batches; ``repeats`` finds the messages that come again.
    """
    batch = _read(item, router)
    if batch is None:
        return None
    marks = _marks(item, router, batch, substreams)
    found = _decided(item, part, batch, marks, held)
    if repeats is not None:
        found = _without_repeats(item, part, batch, marks, held, found, repeats)
    inputs = batch.column(STREAM_COLUMN)
    _account(router, part, inputs, found, batch.column(ACTION_COLUMN))
    if router.context.traced:
        _trace(router, part, batch, found, marks)
    if np.isin(found.actions, (Decision.EARLY, Decision.LATE, Decision.OUT_OF_ORDER)).any():
        _turn_away(router, part, batch, found.actions, marks.own if part.door.per_input else marks.bolt)
    kept = np.flatnonzero(_accepted(found.actions))
    return _kept(item, part, batch, found, kept) if len(kept) else None


@dataclass(frozen=True)
class _Marks:
    """What was known before each event, and, where somebody watches, after it."""

    own: NDArray[np.int64]
    bolt: NDArray[np.int64]
    own_after: NDArray[np.int64] | None = None
    bolt_after: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class _Decided:
    """What becomes of each event."""

    times: NDArray[np.int64]
    actions: NDArray[np.int8]
    over: NDArray[np.int64]
    splits: list[int]
    adjusted: NDArray[np.bool_]
    """Which have been given another time, whatever became of them then."""
    out_of_order: NDArray[np.bool_]
    """Which were behind the watermark, or behind their windows, whatever became of them then."""


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


def _decided(
    item: FireItem, part: WindowedNode, batch: _Batch, marks: _Marks, held: Callable[[], Held | None]
) -> _Decided:
    times, actions = batch.column(TIME_COLUMN), batch.column(ACTION_COLUMN)
    if any(part.clocked):  # at the end of a run windows fire before their time; a shorter timeout lets them be overdue
        times = np.clip(times, NONE if item.passed is None else item.passed, item.clock)
    ends, session = batch.column(END_COLUMN), part.session
    over, splits = np.full(len(times), NONE, np.int64), list[int]()
    if part.event_time and session is not None and part.door.late_by is LateBy.WINDOW:
        over = part.door.over(marks.bolt)
        if item.forced is not None:
            over = np.maximum(over, item.forced)
        gaps = batch.column(GAP_COLUMN)
        gaps = np.full(len(times), session.gap.micros, np.int64) if gaps is None else gaps
        keys = batch.column(KEY_COLUMN)
        late, splits = turned_away(times, keys, _accepted(actions), over, gaps, held, touching=session.touching)
        actions = np.where(late, Decision.OUT_OF_ORDER, actions)
    elif part.event_time:
        edges = batch.column(END_EDGE_COLUMN)
        times, actions, over = _at_the_door(part, batch, times, ends, actions, marks, edges)
    if part.event_time and item.forced is not None:
        actions, over = _forced(part, times, ends, actions, over, item.forced)
    moved = actions == Decision.ADJUSTED_OUT_OF_ORDER
    adjusted, out_of_order = (actions == Decision.ADJUSTED_LATE) | moved, (actions == Decision.OUT_OF_ORDER) | moved
    gap = _in_gap(part, times)
    if gap is not None:
        actions = np.where(gap & _accepted(actions), Decision.UNWINDOWED, actions)
    return _Decided(times, actions, over, splits, adjusted, out_of_order)


def _at_the_door(
    part: WindowedNode,
    batch: _Batch,
    times: NDArray[np.int64],
    ends: NDArray[np.int64] | None,
    actions: NDArray[np.int8],
    marks: _Marks,
    edges: NDArray[np.bool_] | None,
) -> tuple[NDArray[np.int64], NDArray[np.int8], NDArray[np.int64]]:
    """Who is let in, and when; the events of each input by the late action of their source (SI-17)."""
    handled = [part.bolt.settings.of_input(label).late_action for label in part.streams]
    found = {action: replace(part.door, action=action) for action in handled}
    columns = (times, ends, actions, marks.own, marks.bolt, edges)
    decided = {action: door.decide(*columns) for action, door in found.items()}
    if len(decided) == 1:
        return decided[handled[0]]
    inputs = batch.column(STREAM_COLUMN)
    times, actions, over = decided[handled[0]]
    for at, action in enumerate(handled):
        mine, (own_times, own_actions, own_over) = inputs == at, decided[action]
        times, actions = np.where(mine, own_times, times), np.where(mine, own_actions, actions)
        over = np.where(mine, own_over, over)
    return times, actions, over


def _without_repeats(
    item: FireItem,
    part: WindowedNode,
    batch: _Batch,
    marks: _Marks,
    held: Callable[[], Held | None],
    found: _Decided,
    repeats: Repeats,
) -> _Decided:
    """The same without the messages that come again.

    Whether a session takes a late event depends on who was let in before, so it is decided anew until it stays: each
    time one more of the first events is as it must be.
    """
    name = part.bolt.settings.message_id_field
    assert name is not None
    arrival = batch.column(ACTION_COLUMN)
    counts = (arrival != Decision.INVALID) & (arrival != Decision.WATERMARK)
    alone, duplicates = _accepted(found.actions), np.zeros(len(counts), np.bool_)
    while True:
        accepted = np.where(duplicates, alone, _accepted(found.actions))
        bare = Held(
            found.times,
            pa.table({"place": pa.nulls(len(counts))}),
            None,
            batch.column(KEY_COLUMN),
            batch.column(END_COLUMN),
            found.over if part.assigners else None,
            batch.column(GAP_COLUMN),
        )
        own = marks.own if part.bolt.settings.watermark_per_key else marks.bolt
        now = repeats.among(IncomingIds(batch.table.column(name), counts, accepted, bare, own))
        if (now == duplicates).all():
            return found
        again, duplicates = part.session is not None and part.door.late_by is LateBy.WINDOW, now
        actions = np.where(duplicates, np.int8(Decision.DUPLICATE), arrival)
        at = batch.table.column_names.index(ACTION_COLUMN)
        marked = _Batch(batch.table.set_column(at, ACTION_COLUMN, pa.array(actions)), batch.numbers)
        found = _decided(item, part, marked, marks, held)
        if not again:
            return found


def _kept(item: FireItem, part: WindowedNode, batch: _Batch, found: _Decided, kept: NDArray[np.int64]) -> LetIn:
    names = (*INNER, SEQ_COLUMN, ACTION_COLUMN, END_EDGE_COLUMN)
    payload = batch.table.drop_columns([name for name in names if name in batch.table.column_names])
    count, whole = len(found.times), len(kept) == len(found.times)
    events = Held(
        found.times,
        payload,
        batch.column(STREAM_COLUMN) if len(part.inputs) > 1 else None,
        batch.column(KEY_COLUMN),
        batch.column(END_COLUMN),
        found.over if part.assigners else None,
        batch.column(GAP_COLUMN),
        edges=batch.column(EDGE_COLUMN),
        born=None if part.bolt.settings.panes is None else np.full(count, item.state.evaluations, np.int64),
    )
    end_edges = batch.column(END_EDGE_COLUMN)
    if not whole:
        events = events.take(kept)
        end_edges = None if end_edges is None else end_edges[kept]
    places = np.searchsorted(kept, found.splits).tolist()
    limits = [int(found.over[split]) for split in found.splits]
    return LetIn(events, end_edges, tuple(zip(places, limits, strict=True)))


def _read(item: FireItem, router: Router) -> _Batch | None:
    if not item.arrived:
        return None
    tables, numbers = [], []
    for each in item.arrived:
        table = router.context.store.read(each.ref)
        tables.append(table)
        numbers.append(table.column(SEQ_COLUMN).to_numpy() + each.base)
    table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
    return _Batch(table.combine_chunks(), np.concatenate(numbers))


def _accepted(actions: NDArray[np.int8]) -> NDArray[np.bool_]:
    accepted: NDArray[np.bool_] = np.isin(
        actions, (Decision.ACCEPTED, Decision.ADJUSTED_LATE, Decision.ADJUSTED_OUT_OF_ORDER)
    )
    return accepted


def _forced(
    part: WindowedNode,
    times: NDArray[np.int64],
    ends: NDArray[np.int64] | None,
    actions: NDArray[np.int8],
    over: NDArray[np.int64],
    forced: int,
) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Windows that the idle timeout has closed are over too (AT-17)."""
    over = np.maximum(over, forced)
    last_end = part.last_end
    if last_end is not None:
        missed = _accepted(actions) & part.door.missed(times, last_end(times, ends), over)
        actions = np.where(missed, Decision.OUT_OF_ORDER, actions)
    return actions, over


def _in_gap(part: WindowedNode, times: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    if part.holds:
        return None  # the assigner says so when the event is finished
    return part.lateness.in_gap(times)


def _account(
    router: Router, part: WindowedNode, inputs: NDArray[np.int8], found: _Decided, arrival: NDArray[np.int8]
) -> None:
    actions, dropped = found.actions, _dropped(part, found.actions, inputs)
    rows = {
        "received": (actions != Decision.WATERMARK) & (actions != Decision.INVALID),
        "early": actions == Decision.EARLY,
        "duplicate": actions == Decision.DUPLICATE,
        "unwindowed": actions == Decision.UNWINDOWED,
        "adjusted": found.adjusted,
        "early_input": arrival == Decision.EARLY,
        "late_input": (arrival == Decision.ADJUSTED_LATE) | (arrival == Decision.LATE),
        "out_of_order": found.out_of_order,
    }
    for account, which in rows.items():
        router.ledger.count_chosen(part, account, inputs, which)
    router.ledger.count_chosen(part, "dropped", inputs, dropped)
    router.ledger.count_chosen(
        part, "late", inputs, np.isin(actions, (Decision.LATE, Decision.OUT_OF_ORDER)) & ~dropped
    )


def _with_action(
    part: WindowedNode, actions: NDArray[np.int8], inputs: NDArray[np.int8], wanted: Container[LateAction]
) -> NDArray[np.bool_]:
    """Which late events are to be handled in one of these ways: by the rules of their input, or of their arrival."""
    settings = part.bolt.settings
    chosen: NDArray[np.bool_] = actions == Decision.OUT_OF_ORDER
    if chosen.any():
        by_input = np.array([settings.of_input(label).late_action in wanted for label in part.streams])
        chosen[chosen] = by_input[inputs[chosen]]
    if settings.arrival is not None and settings.arrival.late_action in wanted:
        chosen |= actions == Decision.LATE
    return chosen


def _dropped(part: WindowedNode, actions: NDArray[np.int8], inputs: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Which late events the user wants dropped; a lifetime that cannot be cut is dropped too (SI-13)."""
    return _with_action(part, actions, inputs, (LateAction.DROP, LateAction.CUT))


def _late_error(part: WindowedNode, at: int, action: Decision, time: int, mark: int) -> DataError:
    """What to say of the first event that stops the run."""
    rule, stream = part.bolt.settings.arrival, part.streams[at]
    if action is Decision.LATE:
        assert rule is not None
        return DataError(
            f"bolt {part.name!r}: an event of {show(time)} of {stream!r} arrived more than {rule.late} after its time",
            why="events that arrive too late stop the run (AZ-8, SI-14)",
            do="fix the source, allow more: late=..., or let such events be adjusted or dropped: action='drop'",
        )
    return DataError(
        f"bolt {part.name!r}: an event of {show(time)} came after the watermark {show(mark)} of {stream!r}",
        why="events that violate a watermark stop the run (SI-14)",
        do="fix the source, or say what is to become of them: with_late('drop'), 'adjust' or 'divert'",
    )


def _trace(router: Router, part: WindowedNode, batch: _Batch, found: _Decided, marks: _Marks) -> None:
    accepted = _accepted(found.actions) | (found.actions == Decision.UNWINDOWED)
    dropped = _dropped(part, found.actions, batch.column(STREAM_COLUMN))
    for place, name in enumerate(event_ids(batch.table)):
        router.ledger.trace(
            "events",
            {
                "bolt": part.name,
                "seq": int(batch.numbers[place]),
                "event": name,
                "time": int(found.times[place]) if accepted[place] else None,
                "action": _said(Decision(int(found.actions[place])), dropped=bool(dropped[place])),
                "watermark": _mark(marks.bolt_after, place),
                "mark": _mark(marks.own_after, place),
            },
        )


def _said(action: Decision, *, dropped: bool) -> str:
    if action in (Decision.LATE, Decision.OUT_OF_ORDER):
        return f"dropped_{action.said}" if dropped else "late"
    return action.said


def _mark(marks: NDArray[np.int64] | None, place: int) -> int | None:
    return None if marks is None or marks[place] == NONE or marks[place] == FOREVER else int(marks[place])


def _turn_away(
    router: Router, part: WindowedNode, batch: _Batch, actions: NDArray[np.int8], marks: NDArray[np.int64]
) -> None:
    """Late and early events go to the late stream, unless the user said that they are to be dropped."""
    settings, times, inputs = part.bolt.settings, batch.column(TIME_COLUMN), batch.column(STREAM_COLUMN)
    turned = np.isin(actions, (Decision.EARLY, Decision.LATE, Decision.OUT_OF_ORDER))
    stopping = np.flatnonzero(_with_action(part, actions, inputs, (LateAction.ERROR,)))
    if len(stopping):
        place = int(stopping[0])
        raise _late_error(part, inputs[place], Decision(int(actions[place])), int(times[place]), int(marks[place]))
    places = np.flatnonzero(turned & ~_dropped(part, actions, inputs))
    if not len(places):
        return
    rows = taken(batch.table, places)
    late = np.isin(actions[places], (Decision.LATE, Decision.OUT_OF_ORDER))
    for name in np.array(event_ids(rows), dtype=object)[late] if router.context.traced and event_ids(rows) else ():
        router.ledger.trace("late", {"bolt": part.name, "event": name})
    if settings.late_stream is None:
        return
    known = marks[places] > NONE
    late_by = np.where(known & late, marks[places] - times[places], 0)
    reasons = [_reason(part, int(actions[place]), int(times[place]), int(marks[place])) for place in places.tolist()]
    table = late_rows(
        part, rows.select(part.schema.names), inputs[places], times[places], reasons, late_by, marks[places]
    )
    router.emit_late(part, table, batch.numbers[places])


def _reason(part: WindowedNode, action: int, time: int, mark: int) -> str:
    settings = part.bolt.settings
    rule = settings.arrival
    if action == Decision.EARLY:
        return f"{_EARLY}: more than {rule.early if rule else Duration(0)}"
    if action == Decision.LATE:
        return f"{_LATE_ARRIVAL}: more than {rule.late if rule else Duration(0)}"
    if settings.late_by is LateBy.WINDOW or time >= mark:
        return WINDOW_OVER if part.last_end is not None else _NO_SESSION
    return BEHIND
