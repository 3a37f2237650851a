"""The windows that a key trigger fires (UH-10 to UH-23): by a count, a rule, a timeout or a time of day."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from manager.accounts import Accounts
from manager.keyed.assigned_windows import TupleWindows
from manager.keyed.key_states import ForgottenKey, KeyRecord, KeyStates, RuleCache
from manager.keyed.retained_events import ACCOUNTED, FINISHED, RetainedEvents, SortedEvents
from manager.remote import is_caused_by_event
from policies.assigners import WindowMembers
from policies.firing import (
    CAUSE_BY_CODE,
    CLOSE,
    FULL,
    NEVER_FULL,
    RULE,
    TIME,
    TIMEOUT,
    EventsByKey,
    FillLevel,
    FiredRuns,
    Timeout,
    WindowCapacity,
    fire_counted,
    fire_daily,
    fire_open,
)
from policies.watermarks import NONE
from windowing.columns import byte_sizes, take_rows
from windowing.daytimes import DayTime
from windowing.errors import WindboltError
from windowing.events import to_tuples
from windowing.reprs import repr_of
from windowing.settings.triggers import (
    Capacity,
    ColumnRule,
    CountTrigger,
    DailyByRule,
    DailyTrigger,
    FireResult,
    KeyTrigger,
    RuleTrigger,
    TriggerCall,
    function_of_rule,
)
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manager.keyed.retained_events import RetainedEvents, SortedEvents
    from windowing.window import TupleWindow

# The events of a task, key by key: first the events of the key's open window, then the new events.


class KeyedEvents:
    """The events of a task in order of (key, arrival). The events of one key are a block; methods take indices of
    events and of blocks in this order."""

    def __init__(self, events: RetainedEvents, first_new: int, sorted_events: SortedEvents) -> None:
        """``first_new``: the index of the first new event in ``events``. ``sorted_events``: the same events in
        order."""
        assert events.keys is not None
        count = len(events)
        self.events, self._first_new, self._sorted = events, first_new, sorted_events
        self.times = sorted_events.live.starts
        """The time of each event in microseconds."""
        self.row_indices = sorted_events.row_indices(np.arange(count))
        """The index of each event in ``events``."""
        keys = events.keys[self.row_indices]
        self._is_new = self.row_indices >= first_new
        edges = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1, [count]]) if count else np.zeros(1, int)
        self.blocks = EventsByKey(self.times, edges)
        self.keys: list[int] = keys[edges[:-1]].tolist()
        """The key hash of each block."""
        old_counts = np.add.reduceat((~self._is_new).astype(np.int64), edges[:-1]) if count else np.zeros(0, np.int64)
        self.new_starts: NDArray[np.int64] = edges[:-1] + old_counts
        """The index of the first new event of each block; the end of the block if there is none."""

    def __len__(self) -> int:
        return len(self.times)

    @property
    def payload(self) -> pa.Table:
        """The payload, in the order of ``events``."""
        return self.events.payload

    @property
    def has_new(self) -> NDArray[np.bool_]:
        """Mask of the blocks that have new events."""
        has_new: NDArray[np.bool_] = self.new_starts < self.blocks.edges[1:]
        return has_new

    def block_range(self, block: int) -> tuple[int, int]:
        """Returns the index range of the events of a block."""
        low, high = self.blocks.edges[block : block + 2].tolist()
        return low, high

    def block_of(self, events: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the block of each of these events."""
        return np.searchsorted(self.blocks.edges, events, side="right") - 1

    def key_values(self, blocks: NDArray[np.int64], key: Sequence[str]) -> list[Any]:
        """Returns the key of each block; all blocks must have new events. Keys of several columns are tuples."""
        columns = [column.to_pylist() for column in self._new_rows(self.new_starts[blocks], key).columns]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def new_events(self) -> NDArray[np.int64]:
        """Returns the indices of the new events, in order."""
        return np.flatnonzero(self._is_new)

    def rule_arguments(self, rule: Any) -> Iterator[Any]:
        """Yields the argument of a rule for each new event, in order: a Tuple, or the value that a ColumnRule reads.

        A rule may name the columns that it needs in ``columns``; otherwise it gets all columns.
        """
        names = getattr(rule, "columns", None)
        events = self.new_events()
        rows = self._new_rows(events, self.payload.column_names if names is None else names)
        if isinstance(rule, ColumnRule):
            return rule.read(rows)
        return iter(to_tuples(rows, self.times[events].tolist(), self._sorted.streams_of(events)))

    def _new_rows(self, events: NDArray[np.int64], columns: Sequence[str]) -> pa.Table:
        """Returns columns of new events, without reading the old events, of which there may be very many."""
        new_rows = self.payload.select(list(columns)).slice(self._first_new)
        return take_rows(new_rows, self.row_indices[events] - self._first_new)


# One evaluation of a key trigger: its input, the resulting firings and refusals, and the capacity of windows.


_LONGEST_REASON = 1_000
"""Greatest length of a reason in characters."""


class Refusals:
    """The events on which a rule failed, and the reasons."""

    def __init__(self, count: int) -> None:
        """``count`` is the number of all events."""
        self.mask = np.zeros(count, np.bool_)
        self._reasons: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._reasons)

    def refuse(self, event: int, rule: Any, error: Exception) -> None:
        """Refuse an event, because the rule raised this error."""
        self.mask[event] = True
        self._reasons[event] = _reason_of(rule, error).encode("utf-8", "backslashreplace").decode()[:_LONGEST_REASON]

    def by_row(self, row_indices: NDArray[np.int64]) -> list[tuple[int, str]]:
        """Returns (row index, reason) of the refused events, in order of row. ``row_indices``: the row of every
        event."""
        return sorted((int(row_indices[event]), reason) for event, reason in self._reasons.items())


def _reason_of(rule: Any, error: Exception) -> str:
    blame = getattr(rule, "blame", None)  # set by rules that describe their errors themselves
    if isinstance(error, WindboltError):
        return str(error)
    if blame is not None:
        return str(blame(error))
    while isinstance(rule, partial):
        rule = rule.func
    name = getattr(rule, "__qualname__", type(rule).__qualname__)
    return f"rule {name}, line {_line_in(function_of_rule(rule), error)}: {type(error).__name__}: {_message(error)}"


def _line_in(function: Callable[..., Any], error: Exception) -> int | None:
    """Returns the line of a rule that led to an error: the last line of the traceback that is in the file of the rule's
    function, since a library may have raised the error. If there is no such line, returns the line that raised the
    error."""
    function = inspect.unwrap(function)
    function = function if hasattr(function, "__code__") else inspect.unwrap(type(function).__call__)
    code = getattr(function, "__code__", None)
    frames = traceback.extract_tb(error.__traceback__)
    in_file = [frame for frame in frames if code is not None and frame.filename == code.co_filename]
    return (in_file or frames)[-1].lineno


def _message(error: Exception) -> str:
    try:
        return str(error)
    except Exception:
        return "(it cannot say why)"


@dataclass
class KeyFirings:
    """The firings of an evaluation, in any order.

    The first five fields are lists of equal length. Window i holds the events from ``lows[i]`` up to ``highs[i]``.
    """

    lows: list[int] = field(default_factory=list)
    highs: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    causes: list[int] = field(default_factory=list)
    purges: list[bool] = field(default_factory=list)
    forgotten: list[tuple[int, int]] = field(default_factory=list)
    """(time in microseconds, hash) of the keys that are forgotten."""
    cleared: list[tuple[int, int]] = field(default_factory=list)
    """Index ranges of events that a rule purged without firing."""
    waiting: list[int] = field(default_factory=list)
    """Clocks in microseconds at which an open window fires."""
    unknown_answers: int = 0
    """Number of invalid answers of the rule; such an answer fires and purges (UH-18)."""

    @property
    def full(self) -> int:
        """Number of windows that fired because they reached their capacity."""
        return self.causes.count(FULL)

    def fire(self, low: int, high: int, end: int, cause: int, *, purge: bool = True) -> None:
        """Record the firing of one window."""
        self.lows.append(low)
        self.highs.append(high)
        self.ends.append(end)
        self.causes.append(cause)
        self.purges.append(purge)

    def take(self, fired: FiredRuns) -> None:
        """Record the firings of several windows."""
        self.lows += fired.lows.tolist()
        self.highs += fired.highs.tolist()
        self.ends += fired.ends.tolist()
        self.causes += fired.causes.tolist()
        self.purges += [True] * len(fired.lows)
        if fired.next_due is not None:
            self.waiting.append(fired.next_due)

    def cleared_mask(self, count: int) -> NDArray[np.bool_]:
        """Returns a mask of the ``count`` events: those purged without a firing."""
        cleared = np.zeros(count, np.bool_)
        for low, high in self.cleared:
            cleared[low:high] = True
        return cleared

    def purged_mask(self, count: int) -> NDArray[np.bool_]:
        """Returns a mask of the ``count`` events: those purged, with or without a firing."""
        purges = np.array(self.purges, np.bool_)
        fired = zip(np.array(self.lows)[purges].tolist(), np.array(self.highs)[purges].tolist(), strict=True)
        steps = np.zeros(count + 1, np.int64)
        for low, high in (*fired, *self.cleared):
            steps[low] += 1
            steps[high] -= 1
        purged: NDArray[np.bool_] = np.cumsum(steps[:-1]) > 0
        return purged


class CapacityCheck:
    """The capacity of windows, and which keys may reach it. Bytes are measured only if a key may reach the capacity."""

    def __init__(self, capacity: Capacity | None, arrivals: KeyedEvents, firings: KeyFirings) -> None:
        self._arrivals, self._firings = arrivals, firings
        measured = None if capacity is None or not len(arrivals) else _measure_bytes(capacity, arrivals)
        may_fill = None if measured is None else measured.can_fill(arrivals.blocks.edges)
        some_may_fill = may_fill is not None and bool(may_fill.any())
        self.capacity = measured if some_may_fill else None
        """The capacity; None if no key has enough events or bytes to reach it."""
        self.may_fill: NDArray[np.bool_] = (
            may_fill if may_fill is not None and some_may_fill else np.zeros(len(arrivals.blocks.edges) - 1, np.bool_)
        )
        """Mask of the blocks that have enough events or bytes to reach the capacity."""

    def open_start(self, block: int) -> int:
        """Fire the windows that a key's old events fill; return the index at which the open window begins.

        Old events fill a window only if the capacity has been lowered since their arrival.
        """
        low, new_start = int(self._arrivals.blocks.edges[block]), int(self._arrivals.new_starts[block])
        if self.capacity is not None and self.may_fill[block]:
            for start, high, last in self.capacity.full_windows(low, new_start):
                self._firings.fire(start, high, int(self._arrivals.times[last]), FULL)
                low = high
        return low

    def fill_level(self, block: int, start: int) -> FillLevel:
        """Returns the fill level of a key's open window, which holds the old events from ``start``; ``NEVER_FULL`` if
        the key cannot reach the capacity."""
        if self.capacity is None or not self.may_fill[block]:
            return NEVER_FULL
        return FillLevel(self.capacity, start, int(self._arrivals.new_starts[block]))


def _measure_bytes(capacity: Capacity, arrivals: KeyedEvents) -> WindowCapacity:
    """Returns the capacity. It has the bytes of each event only if all events together have enough bytes to fill a
    window."""
    sizes = None
    if capacity.bytes is not None:
        columns = arrivals.payload.select(list(capacity.columns or arrivals.payload.column_names))
        if columns.nbytes + len(arrivals) >= capacity.bytes:
            sizes = byte_sizes(columns)[arrivals.row_indices]
    return WindowCapacity.of(capacity, sizes)


@dataclass(frozen=True)
class Evaluation:
    """The input and output of one evaluation; ``key_states``, ``firings`` and ``refusals`` are updated in place."""

    arrivals: KeyedEvents
    capacity_check: CapacityCheck
    key_states: KeyStates
    firings: KeyFirings
    refusals: Refusals
    now: int
    """The clock in microseconds."""
    closing: bool
    """True if the streams end at ``now``; then all open windows fire."""

    @property
    def until(self) -> int:
        """The clock up to which windows are due, in microseconds; FOREVER at the end of the streams."""
        return FOREVER if self.closing else self.now


# Windows that fire once a day, at a fixed time or at a time that a rule reads from events (UH-20 to UH-23).


class DailyTimer:
    """The timer and the open window of one key, updated by the events of the key in order."""

    def __init__(
        self, evaluation: Evaluation, key: int, block: int | None, max_empty: int | None, fixed: DayTime | None
    ) -> None:
        """``key``: the hash of the key. ``block``: the block of its events; None without events. ``max_empty``: the
        number of empty days after which the key is forgotten; None for never. ``fixed``: the time of day of the
        trigger; None if a rule reads the time from events."""
        self._evaluation, self._key, self._max_empty = evaluation, key, max_empty
        record = evaluation.key_states.get(key) or KeyRecord()
        self.timer = record.timer
        """Time of the next firing in microseconds; NONE if there is none."""
        self._empty_days, self._day = record.empty, record.day
        arrivals = evaluation.arrivals
        low, high = (-1, -1) if block is None else arrivals.block_range(block)
        self._start, self._stop, self._event_count = low, high, 0
        self._fill_level: FillLevel = NEVER_FULL
        self._forgotten = False
        has_old = block is not None and int(arrivals.new_starts[block]) > low
        if fixed is not None and self._day != fixed:
            self._day, self.timer = fixed, NONE if has_old else self.timer  # the trigger was changed
        if has_old and self._day is not None and self.timer == NONE:
            self.timer = self._day.next(int(arrivals.times[low]))
        self._row_index = -1 if block is None else int(arrivals.row_indices[low])

    def add_old(self, block: int, new: int) -> None:
        """Put the old events of the key, which are before index ``new``, into the window."""
        start = self._evaluation.capacity_check.open_start(block)
        if start != self._start:
            self._start, self._empty_days = start, -1
        self._event_count, self._fill_level = new - start, self._evaluation.capacity_check.fill_level(block, start)

    def add(self, event: int, now: int, day: DayTime, timer: int) -> None:
        """Add an event to the window, or to the next window if the event does not fit."""
        if not self._fill_level.fits(event):
            self._fire_full(event, now)
        if not self._event_count:
            self._start = event
        self._event_count, self._day, self.timer, self._forgotten = self._event_count + 1, day, timer, False
        if self._fill_level.add(event):
            self._fire_full(event + 1, now)

    def _fire_full(self, stop: int, now: int) -> None:
        """Fire the full window. The current day then counts as not empty."""
        self._evaluation.firings.fire(self._start, stop, now, FULL)
        self._event_count, self._empty_days = 0, -1
        self._fill_level.clear()

    def pass_timers(self, stop: int, now: int) -> None:
        """Fire at each timer up to ``now``; the window holds the events before index ``stop``."""
        while self.timer != NONE and self.timer <= now:
            self._fire_timer(stop)

    def _fire_timer(self, stop: int) -> None:
        assert self._day is not None
        if self._event_count:
            self._evaluation.firings.fire(self._start, stop, self.timer, TIME)
            self._event_count, self._empty_days = 0, 0
            self._fill_level.clear()
        elif self._max_empty is None:
            self.timer = NONE
            return
        else:
            self._empty_days += 1
            if self._empty_days >= self._max_empty:
                self._forget()
                return
        self.timer = self._day.next(self.timer)

    def _forget(self) -> None:
        self._evaluation.firings.forgotten.append((self.timer, self._key))
        self._evaluation.key_states.put(self._key, KeyRecord(), self._row_index)
        self.timer, self._empty_days, self._forgotten = NONE, 0, True

    def finish(self) -> None:
        """Fire at each timer up to the clock and, at the end of the streams, once more for the remaining events."""
        self.pass_timers(self._stop, self._evaluation.now)
        if self._evaluation.closing and self._event_count:
            self._evaluation.firings.fire(self._start, self._stop, self.timer, TIME)
            self._event_count, self._empty_days = (
                0,
                -1,
            )  # the timer is later than the clock, and the current day is not empty

    def store(self) -> None:
        """Store the record of the key, or delete the record if it has no information."""
        if self.timer == NONE or self._day is None or (not self._event_count and self._max_empty is None):
            if not self._forgotten:  # a forgotten key needs its record until the key is reported
                self._evaluation.key_states.drop(self._key)
            return
        record = KeyRecord(self.timer, self._empty_days, self._day)
        self._evaluation.key_states.put(self._key, record, self._row_index)


_DayOfEvent: TypeAlias = Callable[[int, int, int], tuple[DayTime, int] | None]
"""Called with the index of a new event, its time and the key's timer (NONE for no timer). Returns the time of day and
the timer of the key after the event; None if the event is refused."""


def fire_by_day(evaluation: Evaluation, trigger: DailyTrigger) -> None:
    """Fire at one time of day for all keys. Keys have timers only if they are forgotten after empty days."""
    day = trigger.time
    if trigger.max_empty is None:
        evaluation.key_states.clear()  # left by an earlier trigger that forgot keys
        if len(evaluation.arrivals):
            blocks, capacity = evaluation.arrivals.blocks, evaluation.capacity_check.capacity
            evaluation.firings.take(fire_daily(blocks, day, evaluation.until, capacity))
        return

    def day_of_event(event: int, now: int, timer: int) -> tuple[DayTime, int]:
        return day, day.next(now) if timer == NONE else timer

    _walk_keys(evaluation, trigger.max_empty, day_of_event, fixed=day)


def fire_by_day_rule(evaluation: Evaluation, trigger: DailyByRule) -> None:
    """Fire each key at the time of day that the rule reads from the key's latest event."""
    arrivals, rule = evaluation.arrivals, function_of_rule(trigger.rule)
    argument_of_event = dict(zip(arrivals.new_events().tolist(), arrivals.rule_arguments(trigger.rule), strict=True))

    def day_of_event(event: int, now: int, timer: int) -> tuple[DayTime, int] | None:
        try:
            day = rule(argument_of_event[event])
            if not isinstance(day, DayTime):
                raise TypeError(f"it returned {repr_of(day):.60}, which is no DayTime")
            return day, day.next(now)
        except Exception as error:
            if not is_caused_by_event(error):
                raise
            evaluation.refusals.refuse(event, trigger.rule, error)
            return None

    _walk_keys(evaluation, trigger.max_empty, day_of_event)


def _walk_keys(
    evaluation: Evaluation, max_empty: int | None, day_of_event: _DayOfEvent, fixed: DayTime | None = None
) -> None:
    """Process the events of each key in order, and store its timer. ``fixed``: as for ``DailyTimer``."""
    blocks = {key: block for block, key in enumerate(evaluation.arrivals.keys)}
    for key in _keys_to_process(evaluation):
        block = blocks.get(key)
        timer = DailyTimer(evaluation, key, block, max_empty, fixed)
        if block is not None:
            _process_new_events(evaluation, timer, block, day_of_event)
        timer.finish()
        timer.store()


def _process_new_events(evaluation: Evaluation, timer: DailyTimer, block: int, day_of_event: _DayOfEvent) -> None:
    """Process the new events of a key."""
    arrivals = evaluation.arrivals
    new_start, high = int(arrivals.new_starts[block]), arrivals.block_range(block)[1]
    timer.add_old(block, new_start)
    for event, now in enumerate(arrivals.times[new_start:high].tolist(), new_start):
        timer.pass_timers(event, now)
        day_and_timer = day_of_event(event, now, timer.timer)
        if day_and_timer is not None:
            timer.add(event, now, *day_and_timer)


def _keys_to_process(evaluation: Evaluation) -> list[int]:
    """Returns the hashes of the keys that have new events, full windows or due timers; of all keys at the end of the
    streams, or if some keys have no record."""
    arrivals, key_states = evaluation.arrivals, evaluation.key_states
    due = key_states.due(evaluation.now)
    if evaluation.closing or len(key_states) < len(arrivals.keys):
        return list(dict.fromkeys([*arrivals.keys, *due]))
    with_new = [
        arrivals.keys[block] for block in np.flatnonzero(arrivals.has_new | evaluation.capacity_check.may_fill).tolist()
    ]
    return list(dict.fromkeys([*with_new, *due]))


# Windows that a rule fires by its answer for each event (UH-16 to UH-19), or a timeout (UH-15).


def fire_by_rule(evaluation: Evaluation, trigger: RuleTrigger, key: Sequence[str]) -> None:
    """Call the rule for all new events, and fire the windows that are due. ``key``: the columns of the key."""
    arrivals = evaluation.arrivals
    has_new = arrivals.has_new
    timeout = Timeout.of(trigger)
    _fire_without_events(evaluation, timeout, np.flatnonzero(~has_new))
    arguments = arrivals.rule_arguments(trigger.rule)
    blocks = np.flatnonzero(has_new)
    block_numbers = blocks.tolist()
    caches = evaluation.key_states.state_texts([arrivals.keys[block] for block in block_numbers])
    for block, key_value, cache in zip(block_numbers, arrivals.key_values(blocks, key), caches, strict=True):
        RuleWindow(evaluation, trigger, timeout, block, key_value, cache).walk(arguments)


def _fire_without_events(evaluation: Evaluation, timeout: Timeout, blocks: NDArray[np.int64]) -> None:
    """Fire the due windows of keys without new events."""
    if not len(blocks):
        return
    arrivals, key_states = evaluation.arrivals, evaluation.key_states
    fired = fire_open(arrivals.blocks, _open_starts(evaluation, blocks), timeout, evaluation.until)
    evaluation.firings.take(fired)
    for block in arrivals.block_of(fired.lows).tolist():
        key_states.drop(arrivals.keys[block])


def _open_starts(evaluation: Evaluation, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the indices at which the open windows of keys without new events begin. A key whose window is full loses
    its cache."""
    arrivals, capacity_check = evaluation.arrivals, evaluation.capacity_check
    edges = arrivals.blocks.edges
    starts = edges[blocks]
    for index in np.flatnonzero(capacity_check.may_fill[blocks]).tolist():
        starts[index] = capacity_check.open_start(int(blocks[index]))
        evaluation.key_states.drop(arrivals.keys[blocks[index]])
    return starts[starts < edges[blocks + 1]]


class RuleWindow:
    """The open window of one key, and the calls of the rule for the key's new events."""

    __slots__ = (
        "_block",
        "_block_start",
        "_cache",
        "_evaluation",
        "_event_count",
        "_fill_level",
        "_first_time",
        "_function",
        "_key_value",
        "_last_time",
        "_rule",
        "_rule_cache",
        "_start",
        "_timeout",
    )  # fmt: skip

    def __init__(
        self, evaluation: Evaluation, trigger: RuleTrigger, timeout: Timeout, block: int, key_value: Any, cache: str
    ) -> None:
        """``key_value``: the key. ``cache``: the stored cache of the key's window as JSON."""
        arrivals, capacity_check = evaluation.arrivals, evaluation.capacity_check
        self._evaluation, self._block, self._key_value = evaluation, block, key_value
        self._rule, self._timeout = trigger.rule, timeout
        self._function = function_of_rule(trigger.rule)
        new_start = int(arrivals.new_starts[block])
        self._block_start = int(arrivals.blocks.edges[block])
        self._start = capacity_check.open_start(block)
        self._event_count, self._fill_level = new_start - self._start, capacity_check.fill_level(block, self._start)
        self._first_time, self._last_time = self._first_and_last_time(new_start) if self._event_count else (0, 0)
        self._rule_cache = RuleCache(cache if self._start == self._block_start else "")
        self._cache = self._rule_cache.copy()

    @property
    def _key(self) -> int:
        return self._evaluation.arrivals.keys[self._block]

    def _first_and_last_time(self, stop: int) -> tuple[int, int]:
        times = self._evaluation.arrivals.times
        return int(times[self._start]), int(times[stop - 1])

    def walk(self, arguments: Iterator[Any]) -> None:
        """Process the new events in order, and store the cache of a window that stays open. ``arguments``: the
        arguments of the rule; the iterator goes on to the events of the next keys."""
        arrivals, timeout = self._evaluation.arrivals, self._timeout
        new_start, high = int(arrivals.new_starts[self._block]), arrivals.block_range(self._block)[1]
        for event, now in enumerate(arrivals.times[new_start:high].tolist(), new_start):
            if self._event_count and timeout.timed_out(self._first_time, self._last_time, now):
                self._close(event, timeout.end(self._first_time, self._last_time), TIMEOUT)
            self._process_event(event, now, next(arguments))
        self._finish(high)

    def _process_event(self, event: int, now: int, argument: Any) -> None:
        """Call the rule for an event, and add the event to the window, or to the next window if the event does not
        fit."""
        fits = self._fill_level.fits(event)
        rule_cache = self._rule_cache if fits else RuleCache()  # the next window's, unless the event is refused
        call = TriggerCall(self._key_value, self._cache if fits else {}, now)
        try:
            answer = _parse_answer(self._function(argument, call))
            cache = rule_cache.keep(call.cache)
        except Exception as error:
            if not is_caused_by_event(error):
                raise
            self._evaluation.refusals.refuse(event, self._rule, error)
            self._cache = self._rule_cache.copy()
            return
        if not fits:
            self._close(event, now, FULL)
        if not self._event_count:
            self._start, self._first_time = event, now
        self._event_count += 1
        self._rule_cache, self._cache, self._last_time = rule_cache, cache, now
        full = self._fill_level.add(event)
        if full or answer is not _CONTINUE:
            self._apply_answer(answer, full, event + 1, now)

    def _apply_answer(self, answer: FireResult | None, full: bool, stop: int, now: int) -> None:
        """Fire or purge the window as the rule has answered; always fire and purge a full window."""
        firings = self._evaluation.firings
        if answer is _FIRE and not full:
            firings.fire(self._start, stop, now, RULE, purge=False)
        elif answer is _PURGE:
            firings.cleared.append((self._start, stop))
            self._clear()
        else:
            firings.unknown_answers += answer is None
            self._close(stop, now, FULL if answer in (_CONTINUE, _FIRE) else RULE)

    def _close(self, stop: int, end: int, cause: int) -> None:
        """Fire and purge the window, which holds the events before index ``stop``."""
        self._evaluation.firings.fire(self._start, stop, end, cause)
        self._clear()

    def _clear(self) -> None:
        self._event_count, self._rule_cache, self._cache = 0, RuleCache(), {}
        self._fill_level.clear()

    def _finish(self, stop: int) -> None:
        """Fire the window if it is due at the clock, else store its cache; called after the last event."""
        text = self._rule_cache.text if self._event_count and self._stays_open(stop) else ""
        if text:
            row_index = int(self._evaluation.arrivals.row_indices[self._start])
            self._evaluation.key_states.put(self._key, KeyRecord(state_text=text), row_index)
        else:
            self._evaluation.key_states.drop(self._key)

    def _stays_open(self, stop: int) -> bool:
        """Fire the window if it is due at the clock; return True if it stays open."""
        evaluation, due = self._evaluation, self._timeout.due(self._first_time, self._last_time)
        if (due is None or due > evaluation.until) and evaluation.until != FOREVER:
            evaluation.firings.waiting.extend([] if due is None else [due])
            return True
        end = self._timeout.end(self._first_time, self._last_time)
        evaluation.firings.fire(self._start, stop, end, CLOSE if due is None else TIMEOUT)
        return False


_ANSWERS: dict[str, FireResult] = {str(result): result for result in FireResult}
_CONTINUE, _FIRE, _PURGE = FireResult.CONTINUE, FireResult.FIRE, FireResult.PURGE


def _parse_answer(answer: object) -> FireResult | None:
    """Returns the answer of a rule, which may be text; None for an invalid answer (UH-18)."""
    if answer is _CONTINUE:  # the most frequent answer
        return _CONTINUE
    return _ANSWERS.get(answer) if isinstance(answer, str) else None


# The evaluation of all key triggers.


_EVENTS_AT_ONCE, _BYTES_AT_ONCE = 1 << 20, 128 << 20
"""Maximum number, and maximum bytes, of events that are gathered at once for windows. If a rule fires without purging,
the same events are in many windows."""


class DueKeyWindows:
    """The windows that fire, and the keys that are forgotten, in order of (end, start, key); iterate over it once.

    Windows do not hold refused events.
    """

    def __init__(
        self,
        firings: KeyFirings,
        arrivals: KeyedEvents,
        refusals: Refusals,
        tuple_windows: TupleWindows,
        key_states: KeyStates,
    ) -> None:
        self._firings, self._arrivals, self._refusals = firings, arrivals, refusals
        self._tuple_windows, self._key_states = tuple_windows, key_states

    def __iter__(self) -> Iterator[TupleWindow | ForgottenKey]:
        firings, arrivals = self._firings, self._arrivals
        count = len(firings.lows)
        ends = np.array(firings.ends + [moment for moment, _ in firings.forgotten], np.int64)
        keys = [arrivals.keys[block] for block in arrivals.block_of(np.array(firings.lows, np.int64)).tolist()]
        hashes = np.array(keys + [key for _, key in firings.forgotten], np.int64)
        numbers, starts = np.arange(len(ends)), ends.copy()
        # An event may come at the moment its key is forgotten. It starts a new window, which may be full and fire at
        # once: so the forgotten key comes first.
        numbers[count:] = -1
        starts[:count] = arrivals.times[self._first_members(np.array(firings.lows, np.int64))]
        order = np.lexsort((numbers, hashes, starts, ends))
        stops = [-1, *np.flatnonzero(order >= count).tolist(), len(order)]
        for previous, stop in pairwise(stops):
            yield from self._fire(order[previous + 1 : stop])
            if stop < len(order):
                key = firings.forgotten[int(order[stop]) - count][1]
                yield ForgottenKey(self._key_states.value(key, arrivals.payload))

    def _fire(self, chosen: NDArray[np.int64]) -> Iterator[TupleWindow]:
        """Yield the windows of these firings, gathered in pieces of limited size."""
        if not len(chosen):
            return
        firings = self._firings
        lows, highs = np.array(firings.lows, np.int64)[chosen], np.array(firings.highs, np.int64)[chosen]
        ends, causes = np.array(firings.ends, np.int64)[chosen], np.array(firings.causes, np.int64)[chosen]
        piece_numbers = np.cumsum(highs - lows) // self._events_at_once
        edges = [0, *(np.flatnonzero(np.diff(piece_numbers)) + 1).tolist(), len(chosen)]
        for start, stop in pairwise(edges):
            windows = self._window_members(lows[start:stop], highs[start:stop], ends[start:stop])
            yield from self._tuple_windows.make(
                windows, causes=[CAUSE_BY_CODE[cause] for cause in causes[start:stop].tolist()]
            )

    def _first_members(self, lows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the first event of each window that no rule has failed on."""
        if not len(self._refusals):
            return lows
        accepted = np.flatnonzero(~self._refusals.mask)
        return accepted[np.searchsorted(accepted, lows)]

    @cached_property
    def _events_at_once(self) -> int:
        """Maximum number of events gathered at once."""
        count, bytes_used = len(self._arrivals), int(self._arrivals.payload.nbytes)
        return max(min(_EVENTS_AT_ONCE, _BYTES_AT_ONCE * count // max(bytes_used, 1)), 1)

    def _window_members(
        self, lows: NDArray[np.int64], highs: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> WindowMembers:
        sizes = highs - lows
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        members = np.arange(offsets[-1]) + np.repeat(lows - offsets[:-1], sizes)
        if len(self._refusals):
            is_accepted = ~self._refusals.mask[members]
            offsets = np.concatenate([[0], np.cumsum(np.add.reduceat(is_accepted.astype(np.int64), offsets[:-1]))])
            members = members[is_accepted]
        return WindowMembers(self._arrivals.times[members[offsets[:-1]]], ends, offsets, members)


class TriggeredWindows:
    """One evaluation of the windows of a task's keys, up to a clock.

    The class can be used without an engine. Pass all events of open windows and, behind them, the new events. Iterate
    over ``windows``, then read ``flags``, ``refused``, ``next_due`` and ``key_states``.
    """

    def __init__(
        self,
        trigger: KeyTrigger,
        events: RetainedEvents,
        new: int,
        key_states: KeyStates,
        streams: Sequence[str] = ("default",),
        *,
        key: Sequence[str] = (),
        task: int = 0,
        capacity: Capacity | None = None,
    ) -> None:
        """``new``: the index of the first new event. ``key_states``: the records of the task's keys, updated in place.
        ``streams``: the names of the input streams. ``key``: the columns of the key. ``capacity``: the limit of a
        window; None for no limit."""
        self.trigger, self.key_states, self._key, self._task = trigger, key_states, tuple(key), task
        self._sorted = SortedEvents(events, streams, (self._key,) * len(streams))
        self._arrivals = KeyedEvents(events, new, self._sorted)
        self._firings, self._refusals = KeyFirings(), Refusals(len(events))
        self._capacity_check = CapacityCheck(capacity, self._arrivals, self._firings)
        self._purged = np.zeros(len(events), np.bool_)

    @property
    def accounts(self) -> Accounts:
        """The counts of events that were in a window, were purged without being in one, or were refused."""
        return self._sorted.accounts

    @property
    def unknown_answers(self) -> int:
        """Number of invalid answers of the rule. An invalid answer fires and purges (UH-18)."""
        return self._firings.unknown_answers

    @property
    def full(self) -> int:
        """Number of windows that fired because they reached their capacity."""
        return self._firings.full

    @property
    def next_due(self) -> int | None:
        """The clock in microseconds at which the next window is due; None if only a new event can make a window
        due."""
        timer = self.key_states.next_timer
        clocks = self._firings.waiting if timer is None else [*self._firings.waiting, timer]
        return min(clocks, default=None)

    @property
    def refused(self) -> list[tuple[int, str]]:
        """(index in ``events``, reason) of the events on which a rule failed."""
        return self._refusals.by_row(self._arrivals.row_indices)

    @property
    def still_open(self) -> int:
        """Number of windows that hold events after the evaluation."""
        alive = np.flatnonzero(~(self._purged | self._refusals.mask))
        return len(np.unique(self._arrivals.block_of(alive)))

    def windows(self, now: int, *, close: bool = False) -> Iterator[TupleWindow | ForgottenKey]:
        """Yields, in order of (end, start, key), the windows that are due to fire at a clock (microseconds), and the
        keys that are forgotten.

        ``now``: the clock in microseconds. ``close``: the streams end at that clock, and all open windows fire.
        """
        self._decide(
            Evaluation(
                arrivals=self._arrivals,
                capacity_check=self._capacity_check,
                key_states=self.key_states,
                firings=self._firings,
                refusals=self._refusals,
                now=now,
                closing=close,
            )
        )
        yield from DueKeyWindows(
            self._firings, self._arrivals, self._refusals, TupleWindows(self._sorted, self._task), self.key_states
        )
        self._finish()

    def flags(self) -> NDArray[np.uint8]:
        """Returns the flags (ACCOUNTED, FINISHED) of each event, in the order of ``events``."""
        finished = self._purged | self._refusals.mask
        return self._sorted.in_given_order(self._sorted.accounted * np.uint8(ACCOUNTED) + finished * np.uint8(FINISHED))

    def _decide(self, evaluation: Evaluation) -> None:
        match self.trigger:
            case CountTrigger() as trigger:
                if len(self._arrivals):
                    blocks, capacity = self._arrivals.blocks, self._capacity_check.capacity
                    self._firings.take(fire_counted(blocks, trigger, evaluation.until, capacity))
            case RuleTrigger() as trigger:
                fire_by_rule(evaluation, trigger, self._key)
            case DailyTrigger() as trigger:
                fire_by_day(evaluation, trigger)
            case DailyByRule() as trigger:
                fire_by_day_rule(evaluation, trigger)

    def _finish(self) -> None:
        """Account the purged and refused events; called after the last window."""
        firings, refused, count = self._firings, self._refusals.mask, len(self._arrivals)
        self._purged = firings.purged_mask(count)
        self._sorted.count("purged", firings.cleared_mask(count) & ~refused & ~self._sorted.accounted)
        self._sorted.count("invalid", refused)
        for _, key in firings.forgotten:
            if self.key_states.get(key) == KeyRecord():
                self.key_states.drop(key)
