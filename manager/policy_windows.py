"""The windows that a user's policies make for one task, per key or for the whole task: one evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.accounts import Accounts
from manager.keyed.key_states import ForgottenKey, KeyRecord, KeyStates
from manager.keyed.retained_events import ACCOUNTED, FINISHED, IN_LAST_WINDOW, RetainedEvents, SortedEvents
from manager.policy_walks import (
    Firing,
    Indices,
    NonEmptyWindow,
    PolicyFailure,
    TrackedEvents,
    TriggerWalk,
    UnitRecord,
    as_index,
    compact_indices,
    eviction_walk,
    has_user_hooks,
    select_indices,
    trigger_walk,
)
from policies.protocol import EvictionPolicy, Policy, QueuedEvent, TriggerPolicy, forget_after, overrides
from policies.watermarks import NONE
from windowing.bolts.bolt import new_state
from windowing.columns import take_rows
from windowing.conversion import describe_json_change
from windowing.errors import USER_EXCEPTIONS
from windowing.reprs import repr_of
from windowing.settings.triggers import FiredBy
from windowing.timestamps import FOREVER, show
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray


_NO_KEY = 0
"""The hash of the only unit of a task without keys."""


@dataclass(frozen=True)
class _FiredWindow:
    """A window that fires; ``members`` are positions in order of (key, time, arrival)."""

    reference: int
    hash: int
    key: Any
    members: Indices
    by: FiredBy | None


@dataclass(frozen=True)
class _ForgottenUnit:
    """A unit whose state is forgotten."""

    reference: int
    hash: int
    key: Any


class _TrackedUnit:
    """A unit from its first event until it is forgotten: its record, its trigger, and its tracked events."""

    def __init__(self, record: UnitRecord, trigger: TriggerWalk, tracked: Indices, forget_after: int | None) -> None:
        self.record, self.trigger, self.tracked, self._forget_after = record, trigger, [tracked], forget_after

    @property
    def end(self) -> int | None:
        """The time in microseconds at which the unit is forgotten unless an event comes before."""
        last_event_time = self.record.last_event_time
        return None if last_event_time is None or self._forget_after is None else last_event_time + self._forget_after

    def count_before_end(self, times: NDArray[np.int64]) -> int:
        """Returns the number of events that come before the unit is forgotten, and records the time of the last of
        these. ``times``: the times of the next events, in order."""
        record = self.record
        if self._forget_after is None or not len(times):
            return len(times)
        unit_times = times if record.time is None else np.maximum(times, record.time)
        silences = np.diff(
            unit_times, prepend=unit_times[:1] if record.last_event_time is None else record.last_event_time
        )
        too_long = silences > self._forget_after
        count = int(too_long.argmax()) if too_long.any() else len(times)
        record.last_event_time = int(unit_times[count - 1]) if count else record.last_event_time
        return count


class PolicyWindows:
    """One evaluation of the windows of a task.

    The class can be used without an engine. Pass all events that are needed and, behind them, the new events, in order
    of arrival. Iterate over ``windows``, then read ``flags``, ``numbers``, ``next_due``, ``accounts`` and ``records``.
    """

    def __init__(
        self,
        eviction: EvictionPolicy,
        trigger: TriggerPolicy,
        events: RetainedEvents,
        new: int,
        records: KeyStates,
        streams: Sequence[str] = ("default",),
        *,
        key: Sequence[str] = (),
        task: int = 0,
        event_time: bool = True,
    ) -> None:
        """``new`` is the index of the first new event. ``records``: the records of the task's units, updated in place.
        ``key``: the columns of the key; empty if the task is one unit."""
        self.eviction, self.trigger, self.records, self._task = eviction, trigger, records, task
        self._fires_on_arrival = event_time and overrides(trigger, "on_arrival")
        self._calls_eviction = has_user_hooks(eviction)
        duration = forget_after(eviction, trigger)
        self._forget_after = None if duration is None else duration.micros
        self._sorted = SortedEvents(events, streams, (tuple(key),) * len(streams) if key else ())
        self._source = _EventsByPosition(self._sorted)
        count, arrange = len(events), self._sorted._sorted
        self._times = self._sorted.live.starts
        self._row_indices = self._sorted.row_indices(np.arange(count))
        self._in_order = self._sorted.in_order
        self._hashes = self._sorted.hashes if key else None
        self._numbers = np.full(count, -1, np.int64) if events.numbers is None else arrange(events.numbers).copy()
        self._finished = np.zeros(count, np.bool_) if events.finished is None else arrange(events.finished).copy()
        self._in_last_window = (
            np.zeros(count, np.bool_) if events.in_last_window is None else arrange(events.in_last_window).copy()
        )
        self._purged = np.zeros(count, np.bool_)
        self._new = new
        self.latest_time: int | None = None
        """The greatest time of the evaluated units in microseconds; None if no unit was evaluated."""
        waiting = self._waiting
        names = np.array(streams, object)
        self._streams = np.broadcast_to(names, count) if events.streams is None else names[events.streams]
        self._streams.flags.writeable = False
        self._all_columns = self._untracked_columns = _Columns(events.payload)
        self._untracked: NDArray[np.int64] | None = None
        """The indices, in order, of the events that are not tracked yet; None if they are more than half of all events.
        With indices, only these events are converted to Python values for the trigger."""
        self._untracked_streams = self._streams
        if 2 * np.count_nonzero(waiting) <= count:
            self._untracked = np.sort(self._row_indices[waiting])
            self._untracked_columns = _Columns(take_rows(events.payload, self._untracked))
            self._untracked_streams = self._streams[self._untracked]

    @property
    def accounts(self) -> Accounts:
        """The counts of events whose account is settled."""
        return self._sorted.accounts

    @property
    def _waiting(self) -> NDArray[np.bool_]:
        """Mask of the events that are not tracked yet."""
        waiting: NDArray[np.bool_] = (self._numbers < 0) & ~self._finished
        return waiting

    @property
    def next_due(self) -> int | None:
        """The frontier in microseconds at which the policies are called next; None if only a new event can cause a
        call."""
        waiting, timer = self._times[self._waiting], self.records.next_timer
        times = [int(waiting.min())] if len(waiting) else []
        return min([*times, *([] if timer is None else [timer])], default=None)

    @property
    def still_open(self) -> int:
        """Number of units with events that have been in no window and can still be in one."""
        return len(self._units_of(~self._finished & ~self._sorted.accounted))

    def flags(self) -> NDArray[np.uint8]:
        """Returns the flags (ACCOUNTED, FINISHED, IN_LAST_WINDOW) of each event, in the order of ``events``."""
        flags = (
            self._sorted.accounted * np.uint8(ACCOUNTED)
            | self._finished * np.uint8(FINISHED)
            | self._in_last_window * np.uint8(IN_LAST_WINDOW)
        )
        return self._sorted.in_given_order(flags)

    def numbers(self) -> NDArray[np.int64]:
        """Returns the number of each event, in the order of ``events``; -1 for an event without a number."""
        return self._sorted.in_given_order(self._numbers)

    def windows(self, frontier: int | None) -> Iterator[TupleWindow | ForgottenKey]:
        """Yields the windows that fire up to a frontier, and the keys that are forgotten, in order of (end, key).

        ``frontier`` is in microseconds. FOREVER ends the streams; with None, only ``on_arrival`` can fire. Windows of
        one unit keep the order of their firings. Raises PolicyFailure.
        """
        fired_or_forgotten = list[_FiredWindow | _ForgottenUnit]()
        units = self._units(frontier)
        stored_texts = self.records.state_texts(list(units))
        for (unit, (low, high, key)), stored_text in zip(units.items(), stored_texts, strict=True):
            fired_or_forgotten.extend(self._evaluate_unit(unit, low, high, key, stored_text, frontier))
        # The sort is stable: windows of a unit stay in order.
        fired_or_forgotten.sort(key=lambda window: (window.reference, window.hash))
        last_members: dict[int, Indices] = {}
        windowed = np.zeros(len(self._times), np.bool_)
        for window in fired_or_forgotten:
            if isinstance(window, _ForgottenUnit):
                last_members[window.hash] = range(0)  # the first window of its next life has none before it
                if self._sorted.keyed:
                    yield ForgottenKey(window.key)
                continue
            previous = last_members.get(window.hash)
            if previous is None:
                low, high = self._range_of(window.hash)
                previous = select_indices(range(low, high), self._in_last_window[low:high])
            last_members[window.hash] = window.members
            windowed[as_index(window.members)] = True
            yield self._tuple_window(window, previous)
        for unit, members in last_members.items():
            low, high = self._range_of(unit)
            self._in_last_window[low:high] = False
            self._in_last_window[as_index(members)] = True
        self._sorted.count("windowed", windowed & ~self._sorted.accounted)
        self._sorted.accounted |= windowed
        self._sorted.count("purged", self._purged & ~self._sorted.accounted)
        self._sorted.accounted |= self._purged
        self._sorted.mark_unwindowed(self._finished)

    def _tuple_window(self, window: _FiredWindow, previous: Indices) -> TupleWindow:
        members = window.members
        return TupleWindow(
            self._source,
            members,
            _without(members, previous),
            _without(previous, members),
            self._start(window),
            window.reference,
            self._task,
            None,
            window.key,
            fired_by=window.by,
        )

    def _start(self, window: _FiredWindow) -> int | None:
        policy, about = self.eviction, f"the window that ends at {show(window.reference)}"
        try:
            start = policy.window_start(window.reference)
        except USER_EXCEPTIONS as error:
            raise PolicyFailure(policy, "window_start", about, window.key, error) from error
        if start is not None and (type(start) is not int or not -FOREVER < start <= window.reference):
            what = f"it answered {repr_of(start):.60} ({type(start).__name__})"
            what = f"{what}; a start is a whole number of microseconds, not later than the end, {window.reference}"
            raise PolicyFailure(policy, "window_start", about, window.key, what)
        return start

    def _units(self, frontier: int | None) -> dict[int, tuple[int, int, Any]]:
        """Returns the units to evaluate, by hash: the index range of their events, and their keys."""
        ready = np.zeros(len(self._times), np.bool_)
        if frontier is not None:
            ready |= self._waiting & (self._times <= frontier)
        if self._fires_on_arrival:
            ready |= self._row_indices >= self._new
        chosen = self._units_of(ready)
        if frontier is not None:
            chosen = list(dict.fromkeys([*chosen, *self.records.due(frontier, all_at_end=True)]))
        blocks = [self._range_of(unit) for unit in chosen]
        if not self._sorted.keyed:
            return {unit: (low, high, None) for unit, (low, high) in zip(chosen, blocks, strict=True)}
        first_members = np.array([low for low, high in blocks if low < high], np.int64)
        keys = iter(self._sorted.keys_of(first_members) if len(first_members) else [])
        return {
            unit: (low, high, next(keys) if low < high else self.records.value(unit, None))
            for unit, (low, high) in zip(chosen, blocks, strict=True)
        }

    def _units_of(self, mask: NDArray[np.bool_]) -> list[int]:
        """Returns the hashes, in order, of the units of the events for which the mask is true."""
        if self._hashes is None:
            return [_NO_KEY] if mask.any() else []
        hashes = self._hashes[mask]
        units: list[int] = hashes[np.flatnonzero(np.diff(hashes, prepend=hashes[:1] - 1))].tolist()
        return units

    def _range_of(self, unit: int) -> tuple[int, int]:
        """Returns the index range of the events of a unit."""
        if self._hashes is None:
            return 0, len(self._times)
        if self._ranges is None:
            units, first_indices = np.unique(self._hashes, return_index=True)
            blocks = pairwise([*first_indices.tolist(), len(self._hashes)])
            self._ranges = dict(zip(units.tolist(), blocks, strict=True))
        return self._ranges.get(unit, (0, 0))

    _ranges: dict[int, tuple[int, int]] | None = None

    def _evaluate_unit(
        self, unit: int, low: int, high: int, key: Any, stored_text: str, frontier: int | None
    ) -> Iterator[_FiredWindow | _ForgottenUnit]:
        """Yield the windows of a unit, and a ``_ForgottenUnit`` each time that the unit is forgotten. ``stored_text``:
        the stored record of the unit; empty for a new unit."""
        tracked_unit = self._new_unit(
            key, UnitRecord.from_text(stored_text) if stored_text else None, self._tracked_before(low, high)
        )
        for positions, fires in self._events_to_track(low, high, key, frontier):
            remaining = positions
            while len(remaining):
                count = tracked_unit.count_before_end(self._times[as_index(remaining)])
                self._track(tracked_unit, remaining[:count])
                remaining = remaining[count:]
                if len(remaining):
                    yield from self._forget(unit, key, tracked_unit)
                    tracked_unit = self._new_unit(key, None, range(0))
            if fires:
                tracked_unit.trigger.fire()
        end = tracked_unit.end
        if end is not None and frontier is not None and frontier > end:
            yield from self._forget(unit, key, tracked_unit)
            self.records.drop(unit)
            return
        if frontier is not None:
            tracked_unit.trigger.pass_until(frontier)
        yield from self._fired_windows(unit, key, tracked_unit)
        moment, row_index = tracked_unit.record.next_moment, int(self._row_indices[low]) if low < high else -1
        due = [] if moment is None else [tracked_unit.trigger.due_at(moment)]
        timer = min([*due, *([] if end is None else [end + 1])], default=NONE)
        self.records.put(unit, KeyRecord(timer=timer, state_text=tracked_unit.record.to_text()), row_index)

    def _new_unit(self, key: Any, stored: UnitRecord | None, tracked: Indices) -> _TrackedUnit:
        record, reach = self._record_of(key, stored), self.eviction.reach
        reach_micros = None if reach is None else reach.micros
        trigger = trigger_walk(self.trigger, record, key, reach_micros, self._forget_after)
        return _TrackedUnit(record, trigger, tracked, self._forget_after)

    def _track(self, tracked_unit: _TrackedUnit, positions: Indices) -> None:
        """Number events, which are in order, and pass them to the trigger."""
        if not len(positions):
            return
        count_before = tracked_unit.record.count
        self._numbers[as_index(positions)] = np.arange(count_before, count_before + len(positions))
        tracked_unit.tracked.append(positions)
        tracked_unit.trigger.track(self._for_trigger(positions))

    def _fired_windows(self, unit: int, key: Any, tracked_unit: _TrackedUnit) -> Iterator[_FiredWindow]:
        """Yield the windows of the firings of a unit's trigger."""
        record, firings = tracked_unit.record, tracked_unit.trigger.firings
        if firings or not self._calls_eviction:
            yield from self._evict(unit, key, record, _concat_indices(tracked_unit.tracked), firings)
        record.trigger = tracked_unit.trigger.state
        if record.time is not None:
            self.latest_time = record.time if self.latest_time is None else max(self.latest_time, record.time)
        for policy, state in ((self.trigger, record.trigger), (self.eviction, record.eviction)):
            _check_state(policy, state, key)

    def _forget(self, unit: int, key: Any, tracked_unit: _TrackedUnit) -> Iterator[_FiredWindow | _ForgottenUnit]:
        """Yields the last windows of a unit that is forgotten, and purges its remaining events."""
        end = tracked_unit.end
        assert end is not None
        tracked_unit.trigger.end(end)
        yield from self._fired_windows(unit, key, tracked_unit)
        tracked = as_index(_concat_indices(tracked_unit.tracked))
        self._purged[tracked] |= ~self._finished[tracked]
        self._finished[tracked] = True
        yield _ForgottenUnit(end, unit, key)

    def _tracked_before(self, low: int, high: int) -> Indices:
        """Returns the positions of the events of a unit that were tracked in earlier batches, in order of number."""
        numbers = self._numbers[low:high]
        tracked = select_indices(range(low, high), (numbers >= 0) & ~self._finished[low:high])
        numbers = self._numbers[as_index(tracked)]
        if (numbers[1:] > numbers[:-1]).all():
            return tracked
        return np.asarray(tracked)[np.argsort(numbers, kind="stable")]

    def _evict(
        self,
        unit: int,
        key: Any,
        record: UnitRecord,
        positions: Indices,
        firings: Sequence[Firing],
    ) -> Iterator[_FiredWindow]:
        """Yields the non-empty windows of these firings, and marks the expired events as finished. ``positions``: the
        tracked events of the unit."""
        columns, index = self._all_columns, as_index(positions)
        row_indices = positions if self._in_order else self._row_indices[index]
        tracked = TrackedEvents(self._times[index], row_indices, columns.lists, columns.arrays, self._streams)
        eviction = eviction_walk(self.eviction, record, key, tracked, self._numbers[index])
        for window in eviction.windows(firings):
            yield self._fired_window(window, unit, key, positions)
        eviction.clear()
        record.eviction = eviction.state
        self._finished[index] |= eviction.expired

    def _record_of(self, key: Any, stored: UnitRecord | None) -> UnitRecord:
        """Returns the stored record of a unit, or a new record; the states have the names that the policies declare
        now."""
        record = UnitRecord() if stored is None else stored
        for policy, state in ((self.trigger, record.trigger), (self.eviction, record.eviction)):
            types = policy.state_types
            for name in state.keys() - types.keys():
                del state[name]
            if state.keys() == types.keys() and stored is not None:
                continue
            initial_state = new_state(types)
            try:
                policy.start(initial_state)
            except USER_EXCEPTIONS as error:
                raise PolicyFailure(policy, "start", "before the first event", key, error) from error
            state.update({name: deepcopy(value) for name, value in initial_state.items() if name not in state})
        return record

    @staticmethod
    def _fired_window(window: NonEmptyWindow, unit: int, key: Any, positions: Indices) -> _FiredWindow:
        members = window.members
        if not isinstance(positions, range):
            event_indices: Indices = compact_indices(np.sort(positions[as_index(members)]))
        elif isinstance(members, range):
            event_indices = positions[members.start : members.stop]
        else:
            event_indices = members + positions.start
        return _FiredWindow(window.reference, unit, key, event_indices, window.by)

    def _for_trigger(self, positions: Indices) -> TrackedEvents:
        """Returns the events at these positions in the form that a trigger takes."""
        index, columns = as_index(positions), self._untracked_columns
        row_indices = positions if self._in_order else self._row_indices[index]
        if self._untracked is not None:
            row_indices = np.searchsorted(self._untracked, np.asarray(row_indices))
        return TrackedEvents(self._times[index], row_indices, columns.lists, columns.arrays, self._untracked_streams)

    def _events_to_track(self, low: int, high: int, key: Any, frontier: int | None) -> Iterator[tuple[Indices, bool]]:
        """Yield the events to pass to a unit's trigger: (positions, True if the trigger fires on arrival after
        them)."""
        waiting = select_indices(range(low, high), (self._numbers[low:high] < 0) & ~self._finished[low:high])
        if self._fires_on_arrival:
            for firing_arrival in self._firing_arrivals(np.asarray(waiting, np.int64), key):
                arrived = self._row_indices[as_index(waiting)] <= firing_arrival
                yield select_indices(waiting, arrived), True
                waiting = select_indices(waiting, ~arrived)
        if frontier is not None:
            yield select_indices(waiting, self._times[as_index(waiting)] <= frontier), False

    def _firing_arrivals(self, waiting: NDArray[np.int64], key: Any) -> Iterator[int]:
        """Yield the arrival indices of the new events on which the trigger fires on arrival."""
        firing = waiting[self._row_indices[waiting] >= self._new]
        firing = firing[np.argsort(self._row_indices[firing])]
        tracked = self._for_trigger(firing)
        event = QueuedEvent(-1, 0, tracked.lists, 0, tracked.streams)
        calls = zip(tracked.times.tolist(), tracked.rows, self._row_indices[firing].tolist(), strict=True)
        for time, row, arrival in calls:
            event.timestamp, event._index = time, row
            try:
                answer = self.trigger.on_arrival(event)
            except USER_EXCEPTIONS as error:
                raise PolicyFailure(self.trigger, "on_arrival", event, key, error) from error
            if answer is True:
                yield arrival
            elif answer is not False:
                what = f"it answered {repr_of(answer):.60} ({type(answer).__name__}); the answers are True and False"
                raise PolicyFailure(self.trigger, "on_arrival", event, key, what)


class _Columns:
    """Columns of events, as Python values and as arrays, each converted at the first access."""

    def __init__(self, table: pa.Table) -> None:
        self.lists: Mapping[str, Sequence[Any]] = _LazyColumns(table, pa.ChunkedArray.to_pylist)
        self.arrays: Mapping[str, NDArray[Any]] = _LazyColumns(table, _to_numpy)


class _LazyColumns(dict[str, Any]):
    """The columns of a table by name, each converted at the first access."""

    def __init__(self, table: pa.Table, convert: Any) -> None:
        super().__init__()
        self._table, self._convert = table, convert

    def __missing__(self, name: str) -> Any:
        if name not in self._table.column_names:
            raise KeyError(name)
        converted = self._convert(self._table.column(name))
        self[name] = converted
        return converted

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.column_names)


def _to_numpy(column: pa.ChunkedArray) -> Any:
    """Returns a column as an array; a ``_NullableColumn`` if nulls would change the type."""
    array: NDArray[Any] = column.to_numpy()
    array.flags.writeable = False
    if column.null_count and (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
        return _NullableColumn(column, array)
    return array


class _NullableColumn:
    """A column of whole numbers or booleans with nulls. The type of one key's values must not depend on the nulls of
    other keys."""

    def __init__(self, column: pa.ChunkedArray, array: NDArray[Any]) -> None:
        self._array, self._valid = array, column.is_valid().to_numpy()
        self._filled = column.fill_null(pa.scalar(0).cast(column.type)).to_numpy()
        self._filled.flags.writeable = False

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> NDArray[Any]:
        return self._filled[rows] if self._valid[rows].all() else self._array[rows]


class _EventsByPosition:
    """The source of a task's TupleWindows: its events by position in order of (key, time, arrival)."""

    def __init__(self, events: SortedEvents) -> None:
        self._events = events
        self.stream_names = events.stream_names

    def table(self, members: range | NDArray[np.int64]) -> pa.Table:
        payload = self._events.payload
        if self._events.in_order and isinstance(members, range):
            return payload.slice(members.start, len(members))
        return take_rows(payload, self._events.row_indices(np.asarray(members, np.int64)))

    def timestamps(self, members: range | NDArray[np.int64]) -> NDArray[np.int64]:
        times: NDArray[np.int64] = self._events.live.starts[np.asarray(members, np.int64)]
        return times

    def streams(self, members: range | NDArray[np.int64]) -> NDArray[np.int8]:
        return self._events.stream_codes(np.asarray(members, np.int64))


def _without(members: Indices, others: Indices) -> Indices:
    """Returns the members that are not in ``others``."""
    if not len(members) or not len(others) or others[-1] < members[0] or members[-1] < others[0]:
        return members
    if not isinstance(members, range):
        return compact_indices(members[np.isin(members, others, invert=True, assume_unique=True)])
    if isinstance(others, range) and others.start <= members.start:
        return range(min(others.stop, members.stop), members.stop)
    if isinstance(others, range) and others.stop >= members.stop:
        return range(members.start, others.start)
    return select_indices(members, np.isin(np.arange(members.start, members.stop), np.asarray(others), invert=True))


def _concat_indices(parts: Sequence[Indices]) -> Indices:
    """Returns the indices of all parts, one part after another."""
    parts = [part for part in parts if len(part)]
    runs = [part for part in parts if isinstance(part, range)]
    if len(runs) == len(parts) and all(before.stop == part.start for before, part in pairwise(runs)):
        return range(runs[0].start, runs[-1].stop) if runs else range(0)
    return np.concatenate([np.asarray(part) for part in parts])


def _check_state(policy: Policy, state: Any, key: Any) -> None:
    """Raise PolicyFailure if a state does not match ``state_types``, or would change when it is stored as JSON."""
    types = policy.state_types
    wrong = ""
    if type(state) is not dict:
        wrong = f"context.state is {_kind(state)} {repr_of(state):.60}, and it is a dict of the names in state_types"
    elif state.keys() != types.keys():
        differences = (state.keys() - types.keys(), types.keys() - state.keys())
        undeclared, missing = (", ".join(sorted(map(repr_of, names))) for names in differences)
        wrong = f"context.state has {undeclared}, which state_types does not declare" if undeclared else ""
        wrong += ", and lacks " if wrong and missing else "context.state lacks " if missing else ""
        wrong += f"{missing} of state_types" if missing else ""
    for name, kind in types.items() if not wrong else ():
        value = state[name]
        has_type = type(value) is kind or (kind is float and type(value) is int)
        if not wrong and not has_type and value is not None:
            wrong = f"context.state[{name!r}] is {_kind(value)} {repr_of(value):.60}, and state_types declares "
            wrong += kind.__name__
    if wrong := wrong or describe_json_change(state, "context.state"):
        raise PolicyFailure(policy, "state", "after the events of this batch", key, wrong)


def _kind(value: object) -> str:
    return f"a {type(value).__name__}"
