"""The windows of keys that a key trigger fires (UH-10 to UH-23): one evaluation of its decisions, and what stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from manager.accounts import Accounts
from manager.keyed.held import GONE, SEEN, Held
from manager.keyed.key_states import KeyRecord, KeyStates
from manager.keyed.sorted_events import SortedEvents
from manager.keyed.tuple_windows import TupleWindows
from manager.triggered.by_day import fire_by_day, fire_by_day_rule
from manager.triggered.by_rule import fire_by_rule
from manager.triggered.due_key_windows import DueKeyWindows
from manager.triggered.evaluation import Evaluation
from manager.triggered.key_firings import Forgotten, KeyFirings
from manager.triggered.keyed_events import KeyedEvents
from manager.triggered.refusals import Refusals
from manager.triggered.remaining_capacity import Room
from policies.firing import fire_counted
from windowing.settings.triggers import Capacity, CountTrigger, DailyByRule, DailyTrigger, KeyTrigger, RuleTrigger

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from windowing.window import TupleWindow


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
        self.trigger, self.key_states, self._key, self._task = trigger, key_states, tuple(key), task
        self._sorted = SortedEvents(events, streams, (self._key,) * len(streams))
        self._arrivals = KeyedEvents(events, new, self._sorted)
        self._firings, self._refusals = KeyFirings(), Refusals(len(events))
        self._room = Room(capacity, self._arrivals, self._firings)
        self._purged = np.zeros(len(events), np.bool_)

    @property
    def accounts(self) -> Accounts:
        """The counts of events that were in a window, were purged before, or are refused."""
        return self._sorted.accounts

    @property
    def unknown_answers(self) -> int:
        """Number of invalid answers of the rule; such an answer fires and purges (UH-18)."""
        return self._firings.unknown_answers

    @property
    def full(self) -> int:
        """Number of windows that fired because they reached their capacity."""
        return self._firings.full

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
        return self._refusals.by_place(self._arrivals.places)

    @property
    def still_open(self) -> int:
        """Number of windows that hold events after the evaluation."""
        alive = np.flatnonzero(~(self._purged | self._refusals.mask))
        return len(np.unique(self._arrivals.block_of(alive)))

    def windows(self, now: int, *, close: bool = False) -> Iterator[TupleWindow | Forgotten]:
        """Yield what is due at a clock (microseconds), in order of (end, key): windows that fire, and keys that are
        forgotten.

        ``close``: the streams end at that clock, and all windows still open then fire.
        """
        self._decide(
            Evaluation(
                arrivals=self._arrivals,
                room=self._room,
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
        self._settle()

    def flags(self) -> NDArray[np.uint8]:
        """The flags (SEEN, GONE) of each event, in the order given."""
        gone = self._purged | self._refusals.mask
        return self._sorted.as_given(self._sorted.seen * np.uint8(SEEN) + gone * np.uint8(GONE))

    def _decide(self, evaluation: Evaluation) -> None:
        match self.trigger:
            case CountTrigger() as trigger:
                if len(self._arrivals):
                    blocks, capacity = self._arrivals.blocks, self._room.capacity
                    self._firings.take(fire_counted(blocks, trigger, evaluation.until, capacity))
            case RuleTrigger() as trigger:
                fire_by_rule(evaluation, trigger, self._key)
            case DailyTrigger() as trigger:
                fire_by_day(evaluation, trigger)
            case DailyByRule() as trigger:
                fire_by_day_rule(evaluation, trigger)

    def _settle(self) -> None:
        """After the last window: determine which events are no longer needed, and which were purged without firing."""
        firings, refused, count = self._firings, self._refusals.mask, len(self._arrivals)
        self._purged = firings.purged_of(count)
        self._sorted.count("purged", firings.cleared_of(count) & ~refused & ~self._sorted.seen)
        self._sorted.count("invalid", refused)
        for _, key in firings.forgotten:
            if self.key_states.get(key) == KeyRecord():
                self.key_states.drop(key)
