"""The windows of keys that a key trigger fires (UH-10 to UH-23): one evaluation of its decisions, and what stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from manager.accounts import Accounts
from manager.keyed.held import GONE, SEEN, Held
from manager.keyed.key_states import Forgotten, KeyRecord, KeyStates
from manager.keyed.sorted_events import SortedEvents
from manager.keyed.tuple_windows import TupleWindows
from manager.triggered.by_day import fire_by_day, fire_by_day_rule
from manager.triggered.by_rule import fire_by_rule
from manager.triggered.evaluation import Evaluation, KeyFirings, Refusals, Room
from manager.triggered.keyed_events import KeyedEvents
from policies.assigners import Assigned
from policies.firing import CODES, fire_counted
from windowing.settings.triggers import Capacity, CountTrigger, DailyByRule, DailyTrigger, KeyTrigger, RuleTrigger

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from windowing.window import TupleWindow


_AT_ONCE, _BYTES_AT_ONCE = 1 << 20, 128 << 20
"""Maximum number of events gathered at once for windows, and of their bytes at average size. A rule that fires and
keeps its window shows the same events again and again."""


class DueKeyWindows:
    """The windows that fire, and the keys that are forgotten, in order of (end, key); iterate over it once.

    Events on which a rule failed are in no window.
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

    def __iter__(self) -> Iterator[TupleWindow | Forgotten]:
        firings, arrivals = self._firings, self._arrivals
        count = len(firings.lows)
        ends = np.array(firings.ends + [moment for moment, _ in firings.forgotten], np.int64)
        keys = [arrivals.keys[block] for block in arrivals.block_of(np.array(firings.lows, np.int64)).tolist()]
        hashes = np.array(keys + [key for _, key in firings.forgotten], np.int64)
        numbers = np.arange(len(ends))
        numbers[count:] = -1  # an event that comes as its key is forgotten starts a new window, and may fill it at once
        order = np.lexsort((numbers, hashes, ends))
        stops = [-1, *np.flatnonzero(order >= count).tolist(), len(order)]
        for before, stop in pairwise(stops):
            yield from self._fire(order[before + 1 : stop])
            if stop < len(order):
                key = firings.forgotten[int(order[stop]) - count][1]
                yield Forgotten(self._key_states.value(key, arrivals.payload))

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
            yield from self._tuple_windows.of(piece, causes=[CODES[cause] for cause in causes[start:stop].tolist()])

    @cached_property
    def _at_once(self) -> int:
        """Maximum number of events gathered at once."""
        count, used = len(self._arrivals), int(self._arrivals.payload.nbytes)
        return max(min(_AT_ONCE, _BYTES_AT_ONCE * count // max(used, 1)), 1)

    def _piece(self, lows: NDArray[np.int64], highs: NDArray[np.int64], ends: NDArray[np.int64]) -> Assigned:
        sizes = highs - lows
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        members = np.arange(offsets[-1]) + np.repeat(lows - offsets[:-1], sizes)
        if len(self._refusals):
            good = ~self._refusals.mask[members]
            offsets = np.concatenate([[0], np.cumsum(np.add.reduceat(good.astype(np.int64), offsets[:-1]))])
            members = members[good]
        return Assigned(self._arrivals.times[members[offsets[:-1]]], ends, offsets, members)


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
