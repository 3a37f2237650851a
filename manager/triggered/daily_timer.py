"""The daily timer of one key: it fires the key's window once a day, and forgets the key after empty days (UH-22)."""

from __future__ import annotations

from manager.keyed.key_states import KeyRecord
from manager.triggered.evaluation import Evaluation
from policies.firing import FULL, TIME
from policies.marks import NONE
from policies.window_capacity import NEVER_FULL, Filling
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
