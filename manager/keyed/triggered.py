"""Evaluates the windows of keys that a key trigger fires: a count, a rule, a timeout, a time of day (UH-10 to
UH-23)."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.keyed.assigned import AssignedWindows
from manager.keyed.byte_sizes import byte_sizes
from manager.keyed.held import GONE, SEEN, Held
from manager.keyed.key_states import KeyRecord, KeyStates, hashes_of
from manager.keyed.rule_cache import RuleCache
from manager.storage.taking import take_rows
from policies.assigners import Assigned
from policies.firing import (
    CLOSE,
    CODES,
    FULL,
    RULE,
    TIME,
    TIMEOUT,
    Blocks,
    FiredRuns,
    Timeout,
    fire_counted,
    fire_daily,
    fire_open,
)
from policies.marks import NONE
from policies.window_capacity import NEVER_FULL, Filling, WindowCapacity
from windowing.data.tuples import Tuple, tuples_of
from windowing.errors import WindboltError
from windowing.settings.triggers import (
    Capacity,
    CountTrigger,
    DailyByRule,
    DailyTrigger,
    FireResult,
    KeyTrigger,
    RuleTrigger,
    TriggerCall,
)
from windowing.time.daytimes import DayTime
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from windowing.window import TupleWindow

_REASON = 1_000
"""Maximum length of a reason in characters."""
_AT_ONCE, _BYTES_AT_ONCE = 1 << 20, 128 << 20
"""Maximum number of events gathered at once for windows, and of their bytes at average size. A rule that fires and
keeps its window shows the same events again and again."""


@dataclass(frozen=True)
class Forgotten:
    """A key that was silent for so long that its record is deleted (UH-22)."""

    key: Any


@dataclass
class _Firings:
    """The firings of an evaluation, in any order; lists of equal length."""

    lows: list[int] = field(default_factory=list)
    highs: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    causes: list[int] = field(default_factory=list)
    purges: list[bool] = field(default_factory=list)
    forgotten: list[tuple[int, int]] = field(default_factory=list)
    """(time in microseconds, hash) of the keys that are forgotten."""
    cleared: list[tuple[int, int]] = field(default_factory=list)
    """Runs of events that a rule purged without firing."""
    waiting: list[int] = field(default_factory=list)
    """Clocks, in microseconds, at which something is due."""

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


class TriggeredWindows:
    """One evaluation of the windows of a task's keys, up to a clock.

    Usable on its own: give it all events of open windows and, behind them, the new ones; iterate over ``windows``; then
    ask for ``flags``, ``refused`` and ``next_due``, and ``key_states`` for its table.
    """

    def __init__(
        self,
        trigger: KeyTrigger,
        events: Held,
        new: int,
        key_states: KeyStates,
        streams: Sequence[str] = ("default",),
        *,
        key: Sequence[str] = (),
        task: int = 0,
        capacity: Capacity | None = None,
    ) -> None:
        """``new`` is the index of the first new event. ``key_states`` are the records of the task's keys, updated in
        place. ``streams`` names the input streams, ``key`` the columns of the key. ``capacity`` is the limit on what a
        window may hold; None for no limit."""
        self.trigger, self.key_states, self._events = trigger, key_states, events
        self.closing, self._first_new, self._key = False, new, tuple(key)
        self._shown = AssignedWindows((), events, streams, keys=(key,) * len(streams), task=task)
        self.accounts = self._shown.accounts
        count = len(events)
        self._times = self._shown.live.starts
        assert events.keys is not None
        self._places = self._shown.positions(np.arange(count))
        keys = events.keys[self._places]
        self._new = self._places >= new
        edges = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1, [count]]) if count else np.zeros(1, int)
        self._blocks = Blocks(self._times, edges)
        old = np.add.reduceat((~self._new).astype(np.int64), edges[:-1]) if count else np.zeros(0, np.int64)
        self._starts: NDArray[np.int64] = edges[:-1] + old
        """Where the new events of each key begin, behind its old ones."""
        self._keys = hashes_of(keys, edges)
        self._capacity, self._near = self._measured(capacity)
        self._firings = _Firings()
        self._refused = np.zeros(count, np.bool_)
        self._reasons: dict[int, str] = {}
        self._purged = np.zeros(count, np.bool_)
        self.unknown_answers = 0
        """Number of invalid answers of the rule; such an answer fires and purges (UH-18)."""

    @property
    def full(self) -> int:
        """Number of windows that fired because they reached their capacity."""
        return self._firings.causes.count(FULL)

    @property
    def next_due(self) -> int | None:
        """The clock in microseconds at which the next window is due, given the present events; None where only events
        can make one due."""
        timer = self.key_states.next_timer
        known = self._firings.waiting if timer is None else [*self._firings.waiting, timer]
        return min(known, default=None)

    @property
    def refused(self) -> list[tuple[int, str]]:
        """(index, reason) of the events on which a rule failed; the indices are those of the given events."""
        return sorted((int(self._places[event]), reason) for event, reason in self._reasons.items())

    @property
    def still_open(self) -> int:
        """Number of windows that hold events after the evaluation."""
        alive = np.flatnonzero(~(self._purged | self._refused))
        return len(np.unique(self._block_of(alive)))

    def windows(self, now: int, *, close: bool = False) -> Iterator[TupleWindow | Forgotten]:
        """Yield what is due at a clock (microseconds), in order of (end, key): windows that fire, and keys that are
        forgotten.

        ``close``: the streams end at that clock, and all windows still open then fire.
        """
        self.closing, clock = close, FOREVER if close else now
        match self.trigger:
            case CountTrigger() as trigger:
                if len(self._times):
                    self._firings.take(fire_counted(self._blocks, trigger, clock, self._capacity))
            case RuleTrigger() as trigger:
                self._by_rule(trigger, clock)
            case DailyTrigger(day, None):
                self.key_states.clear()  # left by an earlier trigger that forgot keys
                if len(self._times):
                    self._firings.take(fire_daily(self._blocks, day, clock, self._capacity))
            case DailyTrigger(day, int() as max_empty):
                self._daily(day, max_empty, now)
            case DailyByRule() as trigger:
                self._by_days(trigger, now)
        yield from self._in_order()
        self._settle()

    def flags(self) -> NDArray[np.uint8]:
        """The flags (SEEN, GONE) of each event, in the order given."""
        flags = self._shown.flags()
        gone = np.zeros(len(flags), np.bool_)
        gone[self._places] = self._purged | self._refused
        result: NDArray[np.uint8] = (flags & np.uint8(SEEN)) | (gone * np.uint8(GONE))
        return result

    # -- capacity

    def _measured(self, capacity: Capacity | None) -> tuple[WindowCapacity | None, NDArray[np.bool_]]:
        """The capacity of windows, and which keys have enough events or bytes to reach it; None where no key does.

        Events are measured only where all together have enough bytes for one window.
        """
        edges = self._blocks.edges
        none = np.zeros(len(edges) - 1, np.bool_)
        if capacity is None or not len(self._times):
            return None, none
        sizes = None
        if capacity.bytes is not None:
            columns = self._events.payload.select(list(capacity.columns or self._events.payload.column_names))
            if columns.nbytes + len(self._times) >= capacity.bytes:
                sizes = byte_sizes(columns)[self._places]
        measured = WindowCapacity.of(capacity, sizes)
        near = measured.reached(edges)
        return (measured, near) if near.any() else (None, none)

    def _open_start(self, block: int) -> int:
        """Where the open window of a key begins, after firing all windows that its old events fill.

        They can fill a window only where the capacity was larger when they came.
        """
        low, new = int(self._blocks.edges[block]), int(self._starts[block])
        if self._capacity is not None and self._near[block]:
            for start, high, last in self._capacity.parts(low, new):
                self._firings.fire(start, high, int(self._times[last]), FULL)
                low = high
        return low

    def _filling(self, block: int, start: int) -> Filling:
        """The fill level of a key's open window, which holds its old events from ``start`` on; ``NEVER_FULL`` far from
        capacity."""
        if self._capacity is None or not self._near[block]:
            return NEVER_FULL
        return Filling(self._capacity, start, int(self._starts[block]))

    # -- firings

    def _in_order(self) -> Iterator[TupleWindow | Forgotten]:
        firings = self._firings
        count = len(firings.lows)
        ends = np.array(firings.ends + [moment for moment, _ in firings.forgotten], np.int64)
        keys = [self._keys[block] for block in self._block_of(np.array(firings.lows, np.int64)).tolist()]
        hashes = np.array(keys + [key for _, key in firings.forgotten], np.int64)
        numbers = np.arange(len(ends))
        numbers[count:] = -1  # an event that comes as its key is forgotten starts a new window, and may fill it at once
        order = np.lexsort((numbers, hashes, ends))
        stops = [-1, *np.flatnonzero(order >= count).tolist(), len(order)]
        for before, stop in pairwise(stops):
            yield from self._fire(order[before + 1 : stop])
            if stop < len(order):
                yield Forgotten(
                    self.key_states.value(firings.forgotten[int(order[stop]) - count][1], self._events.payload)
                )

    def _fire(self, which: NDArray[np.int64]) -> Iterator[TupleWindow]:
        """Yield some of the windows, gathered in pieces of bounded size."""
        if not len(which):
            return
        firings = self._firings
        lows, highs = np.array(firings.lows, np.int64)[which], np.array(firings.highs, np.int64)[which]
        ends, causes = np.array(firings.ends, np.int64)[which], np.array(firings.causes, np.int64)[which]
        parts = np.cumsum(highs - lows) // self._at_once
        edges = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(which)]
        for start, stop in pairwise(edges):
            piece = self._piece(lows[start:stop], highs[start:stop], ends[start:stop])
            for window, cause in zip(self._shown.show(piece), causes[start:stop].tolist(), strict=True):
                window.fired_by = CODES[cause]
                yield window

    @cached_property
    def _at_once(self) -> int:
        """Maximum number of events gathered at once."""
        count, used = len(self._events), int(self._events.payload.nbytes)
        return max(min(_AT_ONCE, _BYTES_AT_ONCE * count // max(used, 1)), 1)

    def _piece(self, lows: NDArray[np.int64], highs: NDArray[np.int64], ends: NDArray[np.int64]) -> Assigned:
        sizes = highs - lows
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        members = np.arange(offsets[-1]) + np.repeat(lows - offsets[:-1], sizes)
        if self._reasons:
            good = ~self._refused[members]
            offsets = np.concatenate([[0], np.cumsum(np.add.reduceat(good.astype(np.int64), offsets[:-1]))])
            members = members[good]
        return Assigned(self._times[members[offsets[:-1]]], ends, offsets, members)

    def _block_of(self, events: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(self._blocks.edges, events, side="right") - 1

    def _settle(self) -> None:
        """After the last window: determine which events are no longer needed, and which were purged without firing."""
        firings, count = self._firings, len(self._times)
        purges = np.array(firings.purges, np.bool_)
        fired = zip(np.array(firings.lows)[purges].tolist(), np.array(firings.highs)[purges].tolist(), strict=True)
        steps = np.zeros(count + 1, np.int64)
        cleared = np.zeros(count, np.bool_)
        for low, high in firings.cleared:
            cleared[low:high] = True
        for low, high in (*fired, *firings.cleared):
            steps[low] += 1
            steps[high] -= 1
        self._purged = np.cumsum(steps[:-1]) > 0
        self._shown.count("purged", cleared & ~self._refused & ~self._shown.seen)
        self._shown.count("invalid", self._refused)
        for _, key in firings.forgotten:
            if self.key_states.get(key) == KeyRecord():
                self.key_states.drop(key)

    # -- rules

    def _by_rule(self, trigger: RuleTrigger, clock: int) -> None:
        timeout = Timeout.of(trigger)
        fresh = self._fresh_blocks()
        quiet = np.flatnonzero(~fresh)
        if len(quiet):
            fired = fire_open(self._blocks, self._open_of(quiet), timeout, clock)
            self._firings.take(fired)
            for block in self._block_of(fired.lows).tolist():
                self.key_states.drop(self._keys[block])
        rows, blocks = self._rows(trigger.rule), np.flatnonzero(fresh)
        columns = [column.to_pylist() for column in self._fresh_rows(self._starts[blocks], list(self._key)).columns]
        values = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
        for block, value in zip(blocks.tolist(), values, strict=True):
            self._rule_on(trigger, timeout, clock, block, value, rows)

    def _open_of(self, quiet: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the open windows of keys without new events begin. Where a window was full, the key starts with an
        empty cache."""
        edges = self._blocks.edges
        lows = edges[quiet]
        for index in np.flatnonzero(self._near[quiet]).tolist():
            lows[index] = self._open_start(int(quiet[index]))
            self.key_states.drop(self._keys[quiet[index]])
        return lows[lows < edges[quiet + 1]]

    def _rule_on(
        self, trigger: RuleTrigger, timeout: Timeout, clock: int, block: int, value: Any, rows: dict[int, Tuple]
    ) -> None:
        """Call the rule for the new events of a key, one after another."""
        low, high = self._blocks.edges[block : block + 2].tolist()
        times, new = self._times[low:high].tolist(), int(self._starts[block])
        key, firings = self._keys[block], self._firings
        start = self._open_start(block)
        record = self.key_states.get(key) if start == low else None
        kept = RuleCache(record.cache if record is not None else "")
        cache = kept.restored()
        held, filling = new - start, self._filling(block, start)
        first, last = (times[start - low], times[new - 1 - low]) if held else (0, 0)
        for event in range(new, high):
            now = times[event - low]
            if held and timeout.passed(first, last, now):
                firings.fire(start, event, timeout.end(first, last), TIMEOUT)
                held, kept, cache = 0, RuleCache(), {}
                filling.clear()
            fits = filling.fits(event)
            asked = (
                kept if fits else RuleCache()
            )  # an event that does not fit opens the next window, unless it is refused
            try:
                call = TriggerCall(value, cache if fits else {}, now)
                answer = _status(trigger.rule(rows[event], call))
                cache = asked.keep(call.cache)
            except Exception as error:
                self._refuse(event, trigger.rule, error)
                cache = kept.restored()
                continue
            if not fits:
                firings.fire(start, event, now, FULL)
                held, kept = 0, asked
                filling.clear()
            if not held:
                start, first = event, now
            held, last = held + 1, now
            continues = answer in (FireResult.CONTINUE, FireResult.FIRE)
            if not filling.join(event) and continues:
                if answer == FireResult.FIRE:
                    firings.fire(start, event + 1, now, RULE, purge=False)
                continue
            if answer == FireResult.PURGE:
                firings.cleared.append((start, event + 1))
            else:
                firings.fire(start, event + 1, now, FULL if continues else RULE)
                self.unknown_answers += not continues and answer != FireResult.FIRE_AND_PURGE
            held, kept, cache = 0, RuleCache(), {}
            filling.clear()
        text = kept.text if held and self._leave_open(start, high, timeout, clock, (first, last)) else ""
        if text:
            self.key_states.put(key, KeyRecord(cache=text), int(self._places[start]))
        else:
            self.key_states.drop(key)

    def _leave_open(self, start: int, high: int, timeout: Timeout, clock: int, span: tuple[int, int]) -> bool:
        """Whether a window stays open at the clock; if not, it is fired."""
        due = timeout.due(*span)
        if (due is None or due > clock) and clock != FOREVER:
            self._firings.waiting.extend([] if due is None else [due])
            return True
        self._firings.fire(start, high, timeout.end(*span), CLOSE if due is None else TIMEOUT)
        return False

    def _rows(self, rule: Any) -> dict[int, Tuple]:
        """The new events as tuples, by their indices in key order."""
        events = np.flatnonzero(self._new)
        wanted = getattr(rule, "columns", None)
        rows = self._fresh_rows(events, self._events.payload.column_names if wanted is None else list(wanted))
        tuples = tuples_of(rows, self._times[events].tolist(), self._shown.streams_of(events))
        return dict(zip(events.tolist(), tuples, strict=True))

    def _fresh_rows(self, events: NDArray[np.int64], columns: list[str]) -> pa.Table:
        """Columns of new events, without touching the old ones, of which there may be very many."""
        fresh = self._events.payload.select(columns).slice(self._first_new)
        return take_rows(fresh, self._places[events] - self._first_new)

    def _refuse(self, event: int, rule: Any, error: Exception) -> None:
        self._refused[event] = True
        blame = getattr(rule, "blame", None)  # set by rules that know better where they are defined
        if isinstance(error, WindboltError):
            reason = str(error)
        elif blame is not None:
            reason = str(blame(error))
        else:
            name = getattr(rule, "__qualname__", type(rule).__qualname__)
            line = traceback.extract_tb(error.__traceback__)[-1].lineno
            reason = f"rule {name}, line {line}: {type(error).__name__}: {_message(error)}"
        self._reasons[event] = reason.encode("utf-8", "backslashreplace").decode()[:_REASON]

    def _fresh_blocks(self) -> NDArray[np.bool_]:
        fresh: NDArray[np.bool_] = self._starts < self._blocks.edges[1:]
        return fresh

    # -- times of day

    def _daily(self, day: DayTime, max_empty: int, clock: int) -> None:
        """Fire at one time of day for all keys; a key is forgotten after ``max_empty`` firings without events."""

        def next_firing(event: int, now: int, timer: int) -> tuple[DayTime, int]:
            return day, day.next(now) if timer == NONE else timer

        self._walk_all(max_empty, clock, next_firing)

    def _by_days(self, trigger: DailyByRule, clock: int) -> None:
        """Fire at the time of day that the latest event of each key asks for."""
        rows = self._rows(trigger.rule)

        def next_firing(event: int, now: int, timer: int) -> tuple[DayTime, int] | None:
            try:
                day = trigger.rule(rows[event])
                if not isinstance(day, DayTime):
                    raise TypeError(f"it returned {day!r:.60}, which is no DayTime")
                return day, day.next(now)
            except Exception as error:
                self._refuse(event, trigger.rule, error)
                return None

        self._walk_all(trigger.max_empty, clock, next_firing)

    def _walk_all(
        self, max_empty: int | None, clock: int, next_firing: Callable[[int, int, int], tuple[DayTime, int] | None]
    ) -> None:
        """Process the events of keys in order. ``next_firing`` returns the time of day and the timer that a new event
        asks for, None if the event is refused."""
        blocks = {key: event for event, key in enumerate(self._keys)}
        for key in self._to_walk(clock):
            block = blocks.get(key)
            if block is None:
                self._walk(_DailyTimer(self, key, -1, max_empty, clock))
                continue
            low, high = self._blocks.edges[block : block + 2].tolist()
            days, new = _DailyTimer(self, key, low, max_empty, clock), int(self._starts[block])
            days.hold(block, new)
            for event in range(new, high):
                now = int(self._times[event])
                days.pass_timers(event, now)
                firing = next_firing(event, now, days.timer)
                if firing is not None:
                    days.join(event, now, *firing)
            days.high = high
            self._walk(days)

    def _to_walk(self, clock: int) -> list[int]:
        """The keys to process: those with new events, with full windows, or with due timers; all keys at the end, or
        where some have no record."""
        due = self.key_states.due(clock)
        if self.closing or len(self.key_states) < len(self._keys):
            return list(dict.fromkeys([*self._keys, *due]))
        fresh = [self._keys[block] for block in np.flatnonzero(self._fresh_blocks() | self._near).tolist()]
        return list(dict.fromkeys([*fresh, *due]))

    def _walk(self, days: _DailyTimer) -> None:
        """Fire the due timers of a key, and store its record."""
        days.finish()
        if days.timer == NONE or days.day is None or (not days.held and days.max_empty is None):
            if not days.forgotten_now:
                self.key_states.drop(days.key)
            return
        self.key_states.put(days.key, KeyRecord(days.timer, days.empty, days.day), days.event)


class _DailyTimer:
    """The daily timer of one key, advanced along its events."""

    def __init__(self, windows: TriggeredWindows, key: int, low: int, max_empty: int | None, clock: int) -> None:
        self.windows, self.key, self.max_empty, self.clock = windows, key, max_empty, clock
        record = windows.key_states.get(key) or KeyRecord()
        self.timer, self.empty, self.day = record.timer, record.empty, record.day
        self.start, self.high, self.held = low, low, 0
        holds = low >= 0 and not windows._new[low]
        if isinstance(windows.trigger, DailyTrigger) and self.day != windows.trigger.time:
            self.day, self.timer = windows.trigger.time, NONE if holds else self.timer  # the trigger was changed
        if holds and self.day is not None and self.timer == NONE:
            self.timer = self.day.next(int(windows._times[low]))
        self.event = -1 if low < 0 else int(windows._places[low])
        self.filling: Filling = NEVER_FULL
        self.forgotten_now = False

    def hold(self, block: int, new: int) -> None:
        """Start with the old events of the key, which are before index ``new``, in the window."""
        begins = self.windows._open_start(block)
        if begins != self.start:
            self.start, self.empty = begins, -1
        self.held, self.filling = new - begins, self.windows._filling(block, begins)

    def join(self, event: int, now: int, day: DayTime, timer: int) -> None:
        """Add an event to the window, or to the next one where it does not fit."""
        if not self.filling.fits(event):
            self._fill(event, now)
        if not self.held:
            self.start = event
        self.held, self.day, self.timer, self.forgotten_now = self.held + 1, day, timer, False
        if self.filling.join(event):
            self._fill(event + 1, now)

    def _fill(self, upto: int, now: int) -> None:
        """Fire the window because it is full. The current interval then counts as not empty."""
        self.windows._firings.fire(self.start, upto, now, FULL)
        self.held, self.empty = 0, -1
        self.filling.clear()

    def pass_timers(self, upto: int, now: int) -> None:
        """Fire the timers up to ``now``; the window holds the events before index ``upto``."""
        while self.timer != NONE and self.timer <= now:
            self._pass(upto)

    def finish(self) -> None:
        """Fire the timers up to the clock and, at the end of the streams, once more for the remaining events."""
        self.pass_timers(self.high, self.clock)
        if self.windows.closing and self.held:
            self.windows._firings.fire(self.start, self.high, self.timer, TIME)
            self.held, self.empty = 0, -1  # the timer is still ahead, and this interval is not empty

    def _pass(self, upto: int) -> None:
        assert self.day is not None
        if self.held:
            self.windows._firings.fire(self.start, upto, self.timer, TIME)
            self.held, self.empty = 0, 0
            self.filling.clear()
        elif self.max_empty is None:
            self.timer = NONE
            return
        else:
            self.empty += 1
            if self.empty >= self.max_empty:
                self.windows._firings.forgotten.append((self.timer, self.key))
                self.windows.key_states.put(self.key, KeyRecord(), self.event)
                self.timer, self.empty, self.forgotten_now = NONE, 0, True
                return
        self.timer = self.day.next(self.timer)


def _status(answer: object) -> str | None:
    return answer if isinstance(answer, str) else None


def _message(error: Exception) -> str:
    try:
        return str(error)
    except Exception:
        return "(it cannot say why)"
