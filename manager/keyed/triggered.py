"""The windows of keys that a trigger fires: a count, a rule, a timeout, a time of day (UH-10 to UH-23)."""

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
from manager.keyed.kept import Kept
from manager.keyed.key_states import KeyRecord, KeyStates, hashes_of
from manager.storage.taking import taken
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
from policies.room import NEVER_FULL, Filling, Room
from windowing.daytimes import DayTime
from windowing.errors import WindboltError
from windowing.timestamps import FOREVER
from windowing.triggers import (
    Capacity,
    CountTrigger,
    DailyByRule,
    DailyTrigger,
    FireResult,
    KeyTrigger,
    RuleTrigger,
    TriggerCall,
)
from windowing.tuples import Tuple, tuples_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from windowing.window import TupleWindow

_REASON = 1_000
"""Characters of a reason that are kept."""
_AT_ONCE, _BYTES_AT_ONCE = 1 << 20, 128 << 20
"""Events of windows that are gathered at once, and their bytes, if all have as many: a rule that fires and keeps shows
the same events again and again."""


@dataclass(frozen=True)
class Forgotten:
    """A key that has been silent for so long that nothing is remembered of it (UH-22)."""

    key: Any


@dataclass
class _Firings:
    """What fires, in any order; lists of equal length."""

    lows: list[int] = field(default_factory=list)
    highs: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    causes: list[int] = field(default_factory=list)
    purges: list[bool] = field(default_factory=list)
    forgotten: list[tuple[int, int]] = field(default_factory=list)
    """(moment, hash of the key)."""
    cleared: list[tuple[int, int]] = field(default_factory=list)
    """Runs of events that a rule has cleared without a call."""
    waiting: list[int] = field(default_factory=list)
    """The clocks at which something is due."""

    def fire(self, low: int, high: int, end: int, cause: int, *, purge: bool = True) -> None:
        """A window fires."""
        self.lows.append(low)
        self.highs.append(high)
        self.ends.append(end)
        self.causes.append(cause)
        self.purges.append(purge)

    def take(self, fired: FiredRuns) -> None:
        """Windows that have been found all at once."""
        self.lows += fired.lows.tolist()
        self.highs += fired.highs.tolist()
        self.ends += fired.ends.tolist()
        self.causes += fired.causes.tolist()
        self.purges += [True] * len(fired.lows)
        if fired.next_due is not None:
            self.waiting.append(fired.next_due)


class TriggeredWindows:
    """One evaluation of the windows of a task's keys, up to a clock.

    Usable on its own: give it all events that are in open windows and, behind them, those that are new; iterate over
    ``windows``; then ask for ``flags``, ``refused``, ``next_due``, and the book for its table.
    """

    def __init__(
        self,
        trigger: KeyTrigger,
        events: Held,
        new: int,
        book: KeyStates,
        streams: Sequence[str] = ("default",),
        *,
        key: Sequence[str] = (),
        task: int = 0,
        capacity: Capacity | None = None,
    ) -> None:
        """``new``: the place of the first new event. ``capacity``: how much a window may hold."""
        self.trigger, self.book, self._events = trigger, book, events
        self.closing, self._first_new, self._key = False, new, tuple(key)
        self._shown = AssignedWindows((), events, streams, key=key, task=task)
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
        self._room, self._near = self._measured(capacity)
        self._firings = _Firings()
        self._refused = np.zeros(count, np.bool_)
        self._reasons: dict[int, str] = {}
        self._purged = np.zeros(count, np.bool_)
        self.unknown_answers = 0
        """How often the rule said what is no status: it fires and clears then (UH-18)."""

    @property
    def full(self) -> int:
        """How many windows have fired because they held as much as they may."""
        return self._firings.causes.count(FULL)

    @property
    def next_due(self) -> int | None:
        """The clock at which something is due, as things stand; None where only events can change that."""
        timer = self.book.next_timer
        known = self._firings.waiting if timer is None else [*self._firings.waiting, timer]
        return min(known, default=None)

    @property
    def refused(self) -> list[tuple[int, str]]:
        """The places, among the events as they were given, of those on which a rule failed, and why."""
        return sorted((int(self._places[at]), reason) for at, reason in self._reasons.items())

    @property
    def still_open(self) -> int:
        """How many windows hold events after the evaluation."""
        alive = np.flatnonzero(~(self._purged | self._refused))
        return len(np.unique(self._block_of(alive)))

    def windows(self, now: int, *, close: bool = False) -> Iterator[TupleWindow | Forgotten]:
        """What is due at a clock, in order of (end, key): windows that fire, and keys that are forgotten.

        ``close``: the streams end at that clock, and all windows fire that are still open then.
        """
        self.closing, clock = close, FOREVER if close else now
        match self.trigger:
            case CountTrigger() as trigger:
                if len(self._times):
                    self._firings.take(fire_counted(self._blocks, trigger, clock, self._room))
            case RuleTrigger() as trigger:
                self._by_rule(trigger, clock)
            case DailyTrigger(day, None):
                self.book.clear()  # of a trigger that forgot keys
                if len(self._times):
                    self._firings.take(fire_daily(self._blocks, day, clock, self._room))
            case DailyTrigger(day, int() as most):
                self._daily(day, most, now)
            case DailyByRule() as trigger:
                self._by_days(trigger, now)
        yield from self._in_order()
        self._settle()

    def flags(self) -> NDArray[np.uint8]:
        """What has become of each event, in the order in which they were given."""
        flags = self._shown.flags()
        gone = np.zeros(len(flags), np.bool_)
        gone[self._places] = self._purged | self._refused
        found: NDArray[np.uint8] = (flags & np.uint8(SEEN)) | (gone * np.uint8(GONE))
        return found

    # -- how much windows hold

    def _measured(self, capacity: Capacity | None) -> tuple[Room | None, NDArray[np.bool_]]:
        """What windows may hold, and which keys have so many events or bytes; None where none comes up to it.

        Events are only measured where there are enough bytes for one window at all.
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
        room = Room.of(capacity, sizes)
        near = room.reached(edges)
        return (room, near) if near.any() else (None, none)

    def _part(self, block: int) -> int:
        """Where the open window of a key begins: behind all windows that its old events fill, which fire.

        They can fill some only where a window could hold more when they came.
        """
        low, new = int(self._blocks.edges[block]), int(self._starts[block])
        if self._room is not None and self._near[block]:
            for start, high, at in self._room.parts(low, new):
                self._firings.fire(start, high, int(self._times[at]), FULL)
                low = high
        return low

    def _filling(self, block: int, start: int) -> Filling:
        """The open window of a key, which has its old events from ``start`` on; never full, far from the bound."""
        if self._room is None or not self._near[block]:
            return NEVER_FULL
        return Filling(self._room, start, int(self._starts[block]))

    # -- what is shown

    def _in_order(self) -> Iterator[TupleWindow | Forgotten]:
        found = self._firings
        count = len(found.lows)
        ends = np.array(found.ends + [moment for moment, _ in found.forgotten], np.int64)
        keys = [self._keys[block] for block in self._block_of(np.array(found.lows, np.int64)).tolist()]
        hashes = np.array(keys + [key for _, key in found.forgotten], np.int64)
        numbers = np.arange(len(ends))
        numbers[count:] = -1  # an event that comes as its key is forgotten begins anew, and may fill a window at once
        order = np.lexsort((numbers, hashes, ends))
        stops = [-1, *np.flatnonzero(order >= count).tolist(), len(order)]
        for before, stop in pairwise(stops):
            yield from self._fire(order[before + 1 : stop])
            if stop < len(order):
                yield Forgotten(self.book.value(found.forgotten[int(order[stop]) - count][1], self._events.payload))

    def _fire(self, which: NDArray[np.int64]) -> Iterator[TupleWindow]:
        """Some of the windows, as many at once as have few events."""
        if not len(which):
            return
        found = self._firings
        lows, highs = np.array(found.lows, np.int64)[which], np.array(found.highs, np.int64)[which]
        ends, causes = np.array(found.ends, np.int64)[which], np.array(found.causes, np.int64)[which]
        parts = np.cumsum(highs - lows) // self._at_once
        edges = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(which)]
        for start, stop in pairwise(edges):
            piece = self._piece(lows[start:stop], highs[start:stop], ends[start:stop])
            for window, cause in zip(self._shown.show(piece), causes[start:stop].tolist(), strict=True):
                window.fired_by = CODES[cause]
                yield window

    @cached_property
    def _at_once(self) -> int:
        """How many events are gathered at once."""
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
        """After the last window: which events are done with, and which have been cleared without a call."""
        found, count = self._firings, len(self._times)
        purges = np.array(found.purges, np.bool_)
        fired = zip(np.array(found.lows)[purges].tolist(), np.array(found.highs)[purges].tolist(), strict=True)
        steps = np.zeros(count + 1, np.int64)
        cleared = np.zeros(count, np.bool_)
        for low, high in found.cleared:
            cleared[low:high] = True
        for low, high in (*fired, *found.cleared):
            steps[low] += 1
            steps[high] -= 1
        self._purged = np.cumsum(steps[:-1]) > 0
        self._shown.count("purged", cleared & ~self._refused & ~self._shown.seen)
        self._shown.count("invalid", self._refused)
        for _, key in found.forgotten:
            if self.book.get(key) == KeyRecord():
                self.book.drop(key)

    # -- rules

    def _by_rule(self, trigger: RuleTrigger, clock: int) -> None:
        timeout = Timeout.of(trigger)
        fresh = self._fresh_blocks()
        quiet = np.flatnonzero(~fresh)
        if len(quiet):
            fired = fire_open(self._blocks, self._open_of(quiet), timeout, clock)
            self._firings.take(fired)
            for block in self._block_of(fired.lows).tolist():
                self.book.drop(self._keys[block])
        rows, blocks = self._rows(trigger.rule), np.flatnonzero(fresh)
        columns = [column.to_pylist() for column in self._fresh_rows(self._starts[blocks], list(self._key)).columns]
        values = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
        for block, value in zip(blocks.tolist(), values, strict=True):
            self._rule_on(trigger, timeout, clock, block, value, rows)

    def _open_of(self, quiet: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the open windows of keys without new events begin; a key whose window was full has a fresh cache."""
        edges = self._blocks.edges
        lows = edges[quiet]
        for at in np.flatnonzero(self._near[quiet]).tolist():
            lows[at] = self._part(int(quiet[at]))
            self.book.drop(self._keys[quiet[at]])
        return lows[lows < edges[quiet + 1]]

    def _rule_on(
        self, trigger: RuleTrigger, timeout: Timeout, clock: int, block: int, value: Any, rows: dict[int, Tuple]
    ) -> None:
        """The new events of a key, one after the other."""
        low, high = self._blocks.edges[block : block + 2].tolist()
        times, new = self._times[low:high].tolist(), int(self._starts[block])
        key, firings = self._keys[block], self._firings
        start = self._part(block)
        record = self.book.get(key) if start == low else None
        kept = Kept(record.cache if record is not None else "")
        cache = kept.restored()
        held, filling = new - start, self._filling(block, start)
        first, last = (times[start - low], times[new - 1 - low]) if held else (0, 0)
        for at in range(new, high):
            now = times[at - low]
            if held and timeout.passed(first, last, now):
                firings.fire(start, at, timeout.end(first, last), TIMEOUT)
                held, kept, cache = 0, Kept(), {}
                filling.clear()
            fits = filling.fits(at)
            asked = kept if fits else Kept()  # what does not fit in opens the next window, unless it is refused
            try:
                call = TriggerCall(value, cache if fits else {}, now)
                said = _status(trigger.rule(rows[at], call))
                cache = asked.keep(call.cache)
            except Exception as error:
                self._refuse(at, trigger.rule, error)
                cache = kept.restored()
                continue
            if not fits:
                firings.fire(start, at, now, FULL)
                held, kept = 0, asked
                filling.clear()
            if not held:
                start, first = at, now
            held, last = held + 1, now
            goes_on = said in (FireResult.CONTINUE, FireResult.FIRE)
            if not filling.join(at) and goes_on:
                if said == FireResult.FIRE:
                    firings.fire(start, at + 1, now, RULE, purge=False)
                continue
            if said == FireResult.PURGE:
                firings.cleared.append((start, at + 1))
            else:
                firings.fire(start, at + 1, now, FULL if goes_on else RULE)
                self.unknown_answers += not goes_on and said != FireResult.FIRE_AND_PURGE
            held, kept, cache = 0, Kept(), {}
            filling.clear()
        text = kept.text if held and self._leave_open(start, high, timeout, clock, (first, last)) else ""
        if text:
            self.book.put(key, KeyRecord(cache=text), int(self._places[start]))
        else:
            self.book.drop(key)

    def _leave_open(self, start: int, high: int, timeout: Timeout, clock: int, span: tuple[int, int]) -> bool:
        """Whether a window stays open at the clock; it fires if not."""
        due = timeout.due(*span)
        if (due is None or due > clock) and clock != FOREVER:
            self._firings.waiting.extend([] if due is None else [due])
            return True
        self._firings.fire(start, high, timeout.end(*span), CLOSE if due is None else TIMEOUT)
        return False

    def _rows(self, rule: Any) -> dict[int, Tuple]:
        """The new events as objects, by their places in the order of keys."""
        at = np.flatnonzero(self._new)
        wanted = getattr(rule, "columns", None)
        rows = self._fresh_rows(at, self._events.payload.column_names if wanted is None else list(wanted))
        found = tuples_of(rows, self._times[at].tolist(), self._shown.streams_of(at))
        return dict(zip(at.tolist(), found, strict=True))

    def _fresh_rows(self, at: NDArray[np.int64], columns: list[str]) -> pa.Table:
        """Columns of new events, without a look at the old ones, of which there may be very many."""
        fresh = self._events.payload.select(columns).slice(self._first_new)
        return taken(fresh, self._places[at] - self._first_new)

    def _refuse(self, at: int, rule: Any, error: Exception) -> None:
        self._refused[at] = True
        blame = getattr(rule, "blame", None)  # of rules that know better where they come from
        if isinstance(error, WindboltError):
            reason = str(error)
        elif blame is not None:
            reason = str(blame(error))
        else:
            name = getattr(rule, "__qualname__", type(rule).__qualname__)
            line = traceback.extract_tb(error.__traceback__)[-1].lineno
            reason = f"rule {name}, line {line}: {type(error).__name__}: {_said(error)}"
        self._reasons[at] = reason.encode("utf-8", "backslashreplace").decode()[:_REASON]

    def _fresh_blocks(self) -> NDArray[np.bool_]:
        fresh: NDArray[np.bool_] = self._starts < self._blocks.edges[1:]
        return fresh

    # -- times of day

    def _daily(self, day: DayTime, most: int, clock: int) -> None:
        """A time of day for all keys, which are forgotten after ``most`` firings without events."""

        def wanted(at: int, now: int, timer: int) -> tuple[DayTime, int]:
            return day, day.next(now) if timer == NONE else timer

        self._walk_all(most, clock, wanted)

    def _by_days(self, trigger: DailyByRule, clock: int) -> None:
        """A time of day that the latest event of each key asks for."""
        rows = self._rows(trigger.rule)

        def wanted(at: int, now: int, timer: int) -> tuple[DayTime, int] | None:
            try:
                day = trigger.rule(rows[at])
                if not isinstance(day, DayTime):
                    raise TypeError(f"it returned {day!r:.60}, which is no DayTime")
                return day, day.next(now)
            except Exception as error:
                self._refuse(at, trigger.rule, error)
                return None

        self._walk_all(trigger.max_empty, clock, wanted)

    def _walk_all(
        self, most: int | None, clock: int, wanted: Callable[[int, int, int], tuple[DayTime, int] | None]
    ) -> None:
        """Walk along the events of keys; ``wanted`` gives the time that a new event asks for, None if it is refused."""
        blocks = {key: at for at, key in enumerate(self._keys)}
        for key in self._to_walk(clock):
            block = blocks.get(key)
            if block is None:
                self._walk(_Days(self, key, -1, most, clock))
                continue
            low, high = self._blocks.edges[block : block + 2].tolist()
            days, new = _Days(self, key, low, most, clock), int(self._starts[block])
            days.hold(block, new)
            for at in range(new, high):
                now = int(self._times[at])
                days.pass_timers(at, now)
                found = wanted(at, now, days.timer)
                if found is not None:
                    days.join(at, now, *found)
            days.high = high
            self._walk(days)

    def _to_walk(self, clock: int) -> list[int]:
        """The keys with new events, or too many, or whose timers have come; all at the end, or where some have none."""
        due = self.book.due(clock)
        if self.closing or len(self.book) < len(self._keys):
            return list(dict.fromkeys([*self._keys, *due]))
        fresh = [self._keys[block] for block in np.flatnonzero(self._fresh_blocks() | self._near).tolist()]
        return list(dict.fromkeys([*fresh, *due]))

    def _walk(self, days: _Days) -> None:
        """Pass the timers that have come, and keep what is left."""
        days.finish()
        if days.timer == NONE or days.day is None or (not days.held and days.most is None):
            if not days.forgotten_now:
                self.book.drop(days.key)
            return
        self.book.put(days.key, KeyRecord(days.timer, days.empty, days.day), days.event)


class _Days:
    """The daily timer of one key, walked along its events."""

    def __init__(self, windows: TriggeredWindows, key: int, low: int, most: int | None, clock: int) -> None:
        self.windows, self.key, self.most, self.clock = windows, key, most, clock
        record = windows.book.get(key) or KeyRecord()
        self.timer, self.empty, self.day = record.timer, record.empty, record.day
        self.start, self.high, self.held = low, low, 0
        holds = low >= 0 and not windows._new[low]
        if isinstance(windows.trigger, DailyTrigger) and self.day != windows.trigger.time:
            self.day, self.timer = windows.trigger.time, NONE if holds else self.timer  # it was another one before
        if holds and self.day is not None and self.timer == NONE:
            self.timer = self.day.next(int(windows._times[low]))
        self.event = -1 if low < 0 else int(windows._places[low])
        self.filling: Filling = NEVER_FULL
        self.forgotten_now = False

    def hold(self, block: int, new: int) -> None:
        """The window holds the old events of its key, which are before the place ``new``."""
        begins = self.windows._part(block)
        if begins != self.start:
            self.start, self.empty = begins, -1
        self.held, self.filling = new - begins, self.windows._filling(block, begins)

    def join(self, at: int, now: int, day: DayTime, timer: int) -> None:
        """An event is in the window, or in the next one where it does not fit in."""
        if not self.filling.fits(at):
            self._fill(at, now)
        if not self.held:
            self.start = at
        self.held, self.day, self.timer, self.forgotten_now = self.held + 1, day, timer, False
        if self.filling.join(at):
            self._fill(at + 1, now)

    def _fill(self, upto: int, now: int) -> None:
        """The window fires as it is full; the interval, whose time is still to come, is not empty."""
        self.windows._firings.fire(self.start, upto, now, FULL)
        self.held, self.empty = 0, -1
        self.filling.clear()

    def pass_timers(self, upto: int, now: int) -> None:
        """The firings up to a moment; the window has the events before the place ``upto``."""
        while self.timer != NONE and self.timer <= now:
            self._pass(upto)

    def finish(self) -> None:
        """The firings up to the clock; at the end of the streams one for the events that are left."""
        self.pass_timers(self.high, self.clock)
        if self.windows.closing and self.held:
            self.windows._firings.fire(self.start, self.high, self.timer, TIME)
            self.held, self.empty = 0, -1  # its time is still to come, and this interval is not empty

    def _pass(self, upto: int) -> None:
        assert self.day is not None
        if self.held:
            self.windows._firings.fire(self.start, upto, self.timer, TIME)
            self.held, self.empty = 0, 0
            self.filling.clear()
        elif self.most is None:
            self.timer = NONE
            return
        else:
            self.empty += 1
            if self.empty >= self.most:
                self.windows._firings.forgotten.append((self.timer, self.key))
                self.windows.book.put(self.key, KeyRecord(), self.event)
                self.timer, self.empty, self.forgotten_now = NONE, 0, True
                return
        self.timer = self.day.next(self.timer)


def _status(said: object) -> str | None:
    return said if isinstance(said, str) else None


def _said(error: Exception) -> str:
    try:
        return str(error)
    except Exception:
        return "(it cannot say why)"
