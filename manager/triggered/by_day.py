"""Fires the windows of keys once a day, at one time of day or at the one that a rule takes from events (UH-20 to
UH-23)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from manager.keyed.key_states import KeyRecord
from manager.outside.transient import is_of_events
from manager.triggered.evaluation import Evaluation
from policies.firing import FULL, TIME, fire_daily
from policies.marks import NONE
from policies.window_capacity import NEVER_FULL, Filling
from windowing.settings.triggers import DailyByRule, DailyTrigger, asking
from windowing.time.daytimes import DayTime


class DailyTimer:
    """The timer and the open window of a key, updated by its events in order."""

    def __init__(
        self, evaluation: Evaluation, key: int, block: int | None, max_empty: int | None, fixed: DayTime | None
    ) -> None:
        """``key`` is its hash; ``block`` its events, None where it has none. ``fixed`` is the time of day that the
        trigger gives; None where events ask for one."""
        self._evaluation, self._key, self._max_empty = evaluation, key, max_empty
        record = evaluation.key_states.get(key) or KeyRecord()
        self.timer = record.timer
        """Time of the next firing in microseconds; NONE where there is none."""
        self._empty, self._day = record.empty, record.day
        arrivals = evaluation.arrivals
        low, high = (-1, -1) if block is None else arrivals.run(block)
        self._start, self._stop, self._held = low, high, 0
        self._filling: Filling = NEVER_FULL
        self._forgotten = False
        holds = block is not None and int(arrivals.new_starts[block]) > low
        if fixed is not None and self._day != fixed:
            self._day, self.timer = fixed, NONE if holds else self.timer  # the trigger was changed
        if holds and self._day is not None and self.timer == NONE:
            self.timer = self._day.next(int(arrivals.times[low]))
        self._place = -1 if block is None else int(arrivals.places[low])

    def hold(self, block: int, new: int) -> None:
        """Start with the old events of the key, which are before index ``new``, in the window."""
        start = self._evaluation.room.open_start(block)
        if start != self._start:
            self._start, self._empty = start, -1
        self._held, self._filling = new - start, self._evaluation.room.filling(block, start)

    def join(self, event: int, now: int, day: DayTime, timer: int) -> None:
        """Add an event to the window, or to the next one where it does not fit."""
        if not self._filling.fits(event):
            self._fire_full(event, now)
        if not self._held:
            self._start = event
        self._held, self._day, self.timer, self._forgotten = self._held + 1, day, timer, False
        if self._filling.join(event):
            self._fire_full(event + 1, now)

    def _fire_full(self, stop: int, now: int) -> None:
        """Fire the window because it is full. The current interval then counts as not empty."""
        self._evaluation.firings.fire(self._start, stop, now, FULL)
        self._held, self._empty = 0, -1
        self._filling.clear()

    def pass_timers(self, stop: int, now: int) -> None:
        """Fire the timers up to ``now``; the window holds the events before index ``stop``."""
        while self.timer != NONE and self.timer <= now:
            self._pass(stop)

    def _pass(self, stop: int) -> None:
        assert self._day is not None
        if self._held:
            self._evaluation.firings.fire(self._start, stop, self.timer, TIME)
            self._held, self._empty = 0, 0
            self._filling.clear()
        elif self._max_empty is None:
            self.timer = NONE
            return
        else:
            self._empty += 1
            if self._empty >= self._max_empty:
                self._forget()
                return
        self.timer = self._day.next(self.timer)

    def _forget(self) -> None:
        self._evaluation.firings.forgotten.append((self.timer, self._key))
        self._evaluation.key_states.put(self._key, KeyRecord(), self._place)
        self.timer, self._empty, self._forgotten = NONE, 0, True

    def finish(self) -> None:
        """Fire the timers up to the clock and, at the end of the streams, once more for the remaining events."""
        self.pass_timers(self._stop, self._evaluation.now)
        if self._evaluation.closing and self._held:
            self._evaluation.firings.fire(self._start, self._stop, self.timer, TIME)
            self._held, self._empty = 0, -1  # the timer is still ahead, and this interval is not empty

    def store(self) -> None:
        """Store the record of the key, or delete it where nothing is to be remembered."""
        if self.timer == NONE or self._day is None or (not self._held and self._max_empty is None):
            if not self._forgotten:  # its record is still needed for its value, until it is reported
                self._evaluation.key_states.drop(self._key)
            return
        record = KeyRecord(self.timer, self._empty, self._day)
        self._evaluation.key_states.put(self._key, record, self._place)


_Asks: TypeAlias = Callable[[int, int, int], tuple[DayTime, int] | None]
"""Called with a new event, its time and the key's timer (NONE for no timer): the time of day and the timer that the
event asks for; None if the event is refused."""


def fire_by_day(evaluation: Evaluation, trigger: DailyTrigger) -> None:
    """Fire at one time of day for all keys. Keys need timers only where they are forgotten after empty days."""
    day = trigger.time
    if trigger.max_empty is None:
        evaluation.key_states.clear()  # left by an earlier trigger that forgot keys
        if len(evaluation.arrivals):
            blocks, capacity = evaluation.arrivals.blocks, evaluation.room.capacity
            evaluation.firings.take(fire_daily(blocks, day, evaluation.until, capacity))
        return

    def asks(event: int, now: int, timer: int) -> tuple[DayTime, int]:
        return day, day.next(now) if timer == NONE else timer

    _walk_keys(evaluation, trigger.max_empty, asks, fixed=day)


def fire_by_day_rule(evaluation: Evaluation, trigger: DailyByRule) -> None:
    """Fire at the time of day that the latest event of each key asks for."""
    arrivals, ask = evaluation.arrivals, asking(trigger.rule)
    rows = dict(zip(arrivals.new_events().tolist(), arrivals.asked(trigger.rule), strict=True))

    def asks(event: int, now: int, timer: int) -> tuple[DayTime, int] | None:
        try:
            day = ask(rows[event])
            if not isinstance(day, DayTime):
                raise TypeError(f"it returned {day!r:.60}, which is no DayTime")
            return day, day.next(now)
        except Exception as error:
            if not is_of_events(error):
                raise
            evaluation.refusals.refuse(event, trigger.rule, error)
            return None

    _walk_keys(evaluation, trigger.max_empty, asks)


def _walk_keys(evaluation: Evaluation, max_empty: int | None, asks: _Asks, fixed: DayTime | None = None) -> None:
    """Process the events of each key in order, and store its timer. ``fixed`` is the one time of day of all keys."""
    blocks = {key: block for block, key in enumerate(evaluation.arrivals.keys)}
    for key in _to_walk(evaluation):
        block = blocks.get(key)
        timer = DailyTimer(evaluation, key, block, max_empty, fixed)
        if block is not None:
            _walk(evaluation, timer, block, asks)
        timer.finish()
        timer.store()


def _walk(evaluation: Evaluation, timer: DailyTimer, block: int, asks: _Asks) -> None:
    """Advance a timer by the new events of its key."""
    arrivals = evaluation.arrivals
    new, high = int(arrivals.new_starts[block]), arrivals.run(block)[1]
    timer.hold(block, new)
    for event, now in enumerate(arrivals.times[new:high].tolist(), new):
        timer.pass_timers(event, now)
        asked = asks(event, now, timer.timer)
        if asked is not None:
            timer.join(event, now, *asked)


def _to_walk(evaluation: Evaluation) -> list[int]:
    """The keys to process: those with new events, with full windows, or with due timers; all keys at the end, or where
    some have no record."""
    arrivals, key_states = evaluation.arrivals, evaluation.key_states
    due = key_states.due(evaluation.now)
    if evaluation.closing or len(key_states) < len(arrivals.keys):
        return list(dict.fromkeys([*arrivals.keys, *due]))
    fresh = [arrivals.keys[block] for block in np.flatnonzero(arrivals.fresh | evaluation.room.near).tolist()]
    return list(dict.fromkeys([*fresh, *due]))
