"""A task decides who is let in: events that have arrived, with the watermarks before them, become live events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.held import EDGE_COLUMN, END_COLUMN, GAP_COLUMN, INNER, KEY_COLUMN, Held
from manager.open_sessions import turned_away
from manager.segments import STREAM_COLUMN, TIME_COLUMN
from manager.taking import taken
from policies.admission import Action, timely
from policies.lateness import BEHIND, WINDOW_OVER
from policies.marks import NONE
from topologies.engine.admission import late_rows
from topologies.engine.arriving import ACTION_COLUMN, END_EDGE_COLUMN, SEQ_COLUMN
from topologies.engine.trace import event_ids
from topologies.model import WindowedPart
from windowing.durations import Duration
from windowing.errors import DataError
from windowing.rules import LateAction, LateBy
from windowing.timestamps import FOREVER, show

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from manager.substreams import Substreams
    from topologies.engine.fanout import Fanout
    from topologies.engine.plan import FireItem

_EARLY = "its time is too far after its arrival"
_LATE_ARRIVAL = "it arrived too long after its time"
_NO_SESSION = "the watermark has passed it, and no open session takes it"


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
    part: WindowedPart,
    fanout: Fanout,
    held: Callable[[], Held | None] = lambda: None,
    substreams: Substreams | None = None,
) -> LetIn | None:
    """The live events among those that have arrived for a task; the others go where the rules send them.

    ``held`` gives the live events of earlier batches.
    """
    batch = _read(item, fanout)
    if batch is None:
        return None
    marks = _marks(item, fanout, batch, substreams)
    found = _decided(item, part, batch, marks, held)
    inputs = batch.column(STREAM_COLUMN)
    _account(fanout, part, inputs, found, batch.column(ACTION_COLUMN))
    if fanout.context.traced:
        _trace(fanout, part, batch, found, marks)
    if np.isin(found.actions, (Action.EARLY, Action.LATE, Action.OUT_OF_ORDER)).any():
        _turn_away(fanout, part, batch, found.actions, marks.own if part.door.per_input else marks.bolt)
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


def _marks(item: FireItem, fanout: Fanout, batch: _Batch, substreams: Substreams | None) -> _Marks:
    if substreams is not None:
        counts = timely(batch.column(ACTION_COLUMN))
        own, after = substreams.advance(batch.column(KEY_COLUMN), batch.column(TIME_COLUMN), counts)
        own = np.maximum(own, substreams.floor)
        return _Marks(own, own, after)
    if item.marks is None:
        before = np.full(len(batch.numbers), item.watermark, np.int64)
        return _Marks(before, before)
    table = fanout.context.store.read(item.marks)
    return _Marks(**{name: table.column(name).to_numpy()[batch.numbers] for name in table.column_names})


def _decided(
    item: FireItem, part: WindowedPart, batch: _Batch, marks: _Marks, held: Callable[[], Held | None]
) -> _Decided:
    times, actions = batch.column(TIME_COLUMN), batch.column(ACTION_COLUMN)
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
        actions = np.where(late, Action.OUT_OF_ORDER, actions)
    elif part.event_time:
        edges = batch.column(END_EDGE_COLUMN)
        times, actions, over = part.door.decide(times, ends, actions, marks.own, marks.bolt, edges)
    if part.event_time and item.forced is not None:
        actions, over = _forced(part, times, ends, actions, over, item.forced)
    adjusted = (actions == Action.ADJUSTED_LATE) | (actions == Action.ADJUSTED_OUT_OF_ORDER)
    gap = _in_gap(part, times)
    if gap is not None:
        actions = np.where(gap & _accepted(actions), Action.UNWINDOWED, actions)
    return _Decided(times, actions, over, splits, adjusted)


def _kept(item: FireItem, part: WindowedPart, batch: _Batch, found: _Decided, kept: NDArray[np.int64]) -> LetIn:
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


def _read(item: FireItem, fanout: Fanout) -> _Batch | None:
    if not item.arrived:
        return None
    tables, numbers = [], []
    for each in item.arrived:
        table = fanout.context.store.read(each.ref)
        tables.append(table)
        numbers.append(table.column(SEQ_COLUMN).to_numpy() + each.base)
    table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
    return _Batch(table.combine_chunks(), np.concatenate(numbers))


def _accepted(actions: NDArray[np.int8]) -> NDArray[np.bool_]:
    accepted: NDArray[np.bool_] = np.isin(
        actions, (Action.ACCEPTED, Action.ADJUSTED_LATE, Action.ADJUSTED_OUT_OF_ORDER)
    )
    return accepted


def _forced(
    part: WindowedPart,
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
        actions = np.where(missed, Action.OUT_OF_ORDER, actions)
    return actions, over


def _in_gap(part: WindowedPart, times: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    if part.holds:
        return None  # the assigner says so when the event is finished
    return part.lateness.in_gap(times)


def _account(
    fanout: Fanout, part: WindowedPart, inputs: NDArray[np.int8], found: _Decided, arrival: NDArray[np.int8]
) -> None:
    actions, dropping = found.actions, _dropping(part)
    rows = {
        "received": (actions != Action.WATERMARK) & (actions != Action.INVALID),
        "early": actions == Action.EARLY,
        "unwindowed": actions == Action.UNWINDOWED,
        "adjusted": found.adjusted,
        "early_input": arrival == Action.EARLY,
        "late_input": (arrival == Action.ADJUSTED_LATE) | (arrival == Action.LATE),
        "out_of_order": (actions == Action.OUT_OF_ORDER) | (actions == Action.ADJUSTED_OUT_OF_ORDER),
    }
    for account, which in rows.items():
        fanout.count_all(part, account, inputs, which)
    for action in (Action.LATE, Action.OUT_OF_ORDER):
        fanout.count_all(part, "dropped" if action in dropping else "late", inputs, actions == action)


def _dropping(part: WindowedPart) -> set[Action]:
    """The ways of being late for which the user said that events are to be dropped."""
    settings = part.bolt.settings
    dropping = set()
    if settings.late_action in (LateAction.DROP, LateAction.CUT):
        dropping.add(Action.OUT_OF_ORDER)
    if settings.arrival is not None and settings.arrival.late_action is LateAction.DROP:
        dropping.add(Action.LATE)
    return dropping


def _trace(fanout: Fanout, part: WindowedPart, batch: _Batch, found: _Decided, marks: _Marks) -> None:
    accepted = _accepted(found.actions) | (found.actions == Action.UNWINDOWED)
    dropping = _dropping(part)
    for place, name in enumerate(event_ids(batch.table)):
        fanout.trace(
            "events",
            {
                "bolt": part.name,
                "seq": int(batch.numbers[place]),
                "event": name,
                "time": int(found.times[place]) if accepted[place] else None,
                "action": _said(Action(int(found.actions[place])), dropping),
                "watermark": _mark(marks.bolt_after, place),
                "mark": _mark(marks.own_after, place),
            },
        )


def _said(action: Action, dropping: set[Action]) -> str:
    if action in (Action.LATE, Action.OUT_OF_ORDER):
        return f"dropped_{action.said}" if action in dropping else "late"
    return action.said


def _mark(marks: NDArray[np.int64] | None, place: int) -> int | None:
    return None if marks is None or marks[place] == NONE or marks[place] == FOREVER else int(marks[place])


def _turn_away(
    fanout: Fanout, part: WindowedPart, batch: _Batch, actions: NDArray[np.int8], marks: NDArray[np.int64]
) -> None:
    """Late and early events go to the late stream, unless the user said that they are to be dropped."""
    settings, times, inputs = part.bolt.settings, batch.column(TIME_COLUMN), batch.column(STREAM_COLUMN)
    turned = np.isin(actions, (Action.EARLY, Action.LATE, Action.OUT_OF_ORDER))
    if settings.late_action is LateAction.ERROR and (actions == Action.OUT_OF_ORDER).any():
        place = int(np.flatnonzero(actions == Action.OUT_OF_ORDER)[0])
        raise DataError(
            f"bolt {part.name!r}: an event of {show(int(times[place]))} came after the watermark "
            f"{show(int(marks[place]))} of {part.streams[inputs[place]]!r}",
            why="events that violate a watermark stop the run (SI-14)",
            do="mend the source, or say what is to become of them: with_late('drop'), 'adjust' or 'divert'",
        )
    places = np.flatnonzero(turned & ~np.isin(actions, list(_dropping(part))))
    if not len(places):
        return
    rows = taken(batch.table, places)
    late = np.isin(actions[places], (Action.LATE, Action.OUT_OF_ORDER))
    for name in np.array(event_ids(rows), dtype=object)[late] if fanout.context.traced and event_ids(rows) else ():
        fanout.trace("late", {"bolt": part.name, "event": name})
    if settings.late_stream is None:
        return
    known = marks[places] > NONE
    late_by = np.where(known & late, marks[places] - times[places], 0)
    reasons = [_reason(part, int(actions[place]), int(times[place]), int(marks[place])) for place in places.tolist()]
    table = late_rows(
        part, rows.select(part.schema.names), inputs[places], times[places], reasons, late_by, marks[places]
    )
    fanout.emit_late(part, table, batch.numbers[places])


def _reason(part: WindowedPart, action: int, time: int, mark: int) -> str:
    settings = part.bolt.settings
    rule = settings.arrival
    if action == Action.EARLY:
        return f"{_EARLY}: more than {rule.early if rule else Duration(0)}"
    if action == Action.LATE:
        return f"{_LATE_ARRIVAL}: more than {rule.late if rule else Duration(0)}"
    if settings.late_by is LateBy.WINDOW or time >= mark:
        return WINDOW_OVER if part.last_end is not None else _NO_SESSION
    return BEHIND
