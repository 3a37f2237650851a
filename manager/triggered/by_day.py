"""Fires the windows of keys once a day, at one time of day or at the one that a rule takes from events (UH-20 to
UH-23)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from manager.outside.transient import is_of_events
from manager.triggered.daily_timer import DailyTimer
from manager.triggered.evaluation import Evaluation
from policies.firing import fire_daily
from policies.marks import NONE
from windowing.settings.triggers import DailyByRule, DailyTrigger, asking
from windowing.time.daytimes import DayTime

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
