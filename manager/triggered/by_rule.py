"""Fires the windows of keys by what a rule says of each event (UH-16 to UH-19), or by a timeout (UH-15)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from manager.keyed.key_states import KeyRecord
from manager.keyed.rule_cache import RuleCache
from manager.outside.transient import is_of_events
from manager.triggered.evaluation import Evaluation
from policies.firing import CLOSE, FULL, RULE, TIMEOUT, Timeout, fire_open
from windowing.settings.triggers import FireResult, RuleTrigger, TriggerCall, asking
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray


def fire_by_rule(evaluation: Evaluation, trigger: RuleTrigger, key: Sequence[str]) -> None:
    """Call the rule for all new events; ``key`` names the columns of the key."""
    arrivals = evaluation.arrivals
    fresh = arrivals.fresh
    timeout = Timeout.of(trigger)
    _fire_quiet(evaluation, timeout, np.flatnonzero(~fresh))
    rows = arrivals.asked(trigger.rule)
    blocks = np.flatnonzero(fresh)
    numbers = blocks.tolist()
    caches = evaluation.key_states.caches_of([arrivals.keys[block] for block in numbers])
    for block, value, cache in zip(numbers, arrivals.key_values(blocks, key), caches, strict=True):
        RuleWindow(evaluation, trigger, timeout, block, value, cache).walk(rows)


def _fire_quiet(evaluation: Evaluation, timeout: Timeout, blocks: NDArray[np.int64]) -> None:
    """Fire the due windows of keys without new events, for which the rule is not called."""
    if not len(blocks):
        return
    arrivals, key_states = evaluation.arrivals, evaluation.key_states
    fired = fire_open(arrivals.blocks, _open_starts(evaluation, blocks), timeout, evaluation.until)
    evaluation.firings.take(fired)
    for block in arrivals.block_of(fired.lows).tolist():
        key_states.drop(arrivals.keys[block])


def _open_starts(evaluation: Evaluation, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the open windows of keys without new events begin. Where a window was full, the key starts with an empty
    cache."""
    arrivals, room = evaluation.arrivals, evaluation.room
    edges = arrivals.blocks.edges
    starts = edges[blocks]
    for index in np.flatnonzero(room.near[blocks]).tolist():
        starts[index] = room.open_start(int(blocks[index]))
        evaluation.key_states.drop(arrivals.keys[blocks[index]])
    return starts[starts < edges[blocks + 1]]


class RuleWindow:
    """The open window of one key, updated by the key's new events in order; the rule is called for each of them."""

    __slots__ = (
        "_ask", "_block", "_cache", "_evaluation", "_filling", "_first", "_held", "_last", "_low", "_rule", "_start",
        "_stored", "_timeout", "_value",
    )  # fmt: skip

    def __init__(
        self, evaluation: Evaluation, trigger: RuleTrigger, timeout: Timeout, block: int, value: Any, cache: str
    ) -> None:
        """``value`` is the value of the key, ``cache`` the stored cache of its window as JSON."""
        arrivals, room = evaluation.arrivals, evaluation.room
        self._evaluation, self._block, self._value = evaluation, block, value
        self._rule, self._timeout = trigger.rule, timeout
        self._ask = asking(trigger.rule)
        new = int(arrivals.new_starts[block])
        self._low = int(arrivals.blocks.edges[block])
        self._start = room.open_start(block)
        self._held, self._filling = new - self._start, room.filling(block, self._start)
        self._first, self._last = self._ends(new) if self._held else (0, 0)
        self._stored = RuleCache(cache if self._start == self._low else "")
        self._cache = self._stored.restored()

    @property
    def _key(self) -> int:
        return self._evaluation.arrivals.keys[self._block]

    def _ends(self, stop: int) -> tuple[int, int]:
        times = self._evaluation.arrivals.times
        return int(times[self._start]), int(times[stop - 1])

    def walk(self, rows: Iterator[Any]) -> None:
        """Process the new events in order, and store the cache of a window that stays open. ``rows`` yields what the
        rule is called with, for these events and then for those of the next keys."""
        arrivals, timeout = self._evaluation.arrivals, self._timeout
        new, high = int(arrivals.new_starts[self._block]), arrivals.run(self._block)[1]
        for event, now in enumerate(arrivals.times[new:high].tolist(), new):
            if self._held and timeout.timed_out(self._first, self._last, now):
                self._close(event, timeout.end(self._first, self._last), TIMEOUT)
            self._take(event, now, next(rows))
        self._settle(high)

    def _take(self, event: int, now: int, row: Any) -> None:
        """Call the rule for an event, and add the event to the window, or to the next one where it does not fit."""
        fits = self._filling.fits(event)
        stored = self._stored if fits else RuleCache()  # the next window's, unless the event is refused
        call = TriggerCall(self._value, self._cache if fits else {}, now)
        try:
            answer = _known(self._ask(row, call))
            cache = stored.keep(call.cache)
        except Exception as error:
            if not is_of_events(error):
                raise
            self._evaluation.refusals.refuse(event, self._rule, error)
            self._cache = self._stored.restored()
            return
        if not fits:
            self._close(event, now, FULL)
        if not self._held:
            self._start, self._first = event, now
        self._held += 1
        self._stored, self._cache, self._last = stored, cache, now
        full = self._filling.join(event)
        if full or answer is not _CONTINUE:
            self._obey(answer, full, event + 1, now)

    def _obey(self, answer: FireResult | None, full: bool, stop: int, now: int) -> None:
        """Do what the rule answers; a full window is fired and purged in any case."""
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
        self._held, self._stored, self._cache = 0, RuleCache(), {}
        self._filling.clear()

    def _settle(self, stop: int) -> None:
        """After the last event: fire the window if it is due at the clock; else store its cache."""
        text = self._stored.text if self._held and self._stays_open(stop) else ""
        if text:
            place = int(self._evaluation.arrivals.places[self._start])
            self._evaluation.key_states.put(self._key, KeyRecord(cache=text), place)
        else:
            self._evaluation.key_states.drop(self._key)

    def _stays_open(self, stop: int) -> bool:
        """Whether the window stays open at the clock; if not, it is fired."""
        evaluation, due = self._evaluation, self._timeout.due(self._first, self._last)
        if (due is None or due > evaluation.until) and evaluation.until != FOREVER:
            evaluation.firings.waiting.extend([] if due is None else [due])
            return True
        end = self._timeout.end(self._first, self._last)
        evaluation.firings.fire(self._start, stop, end, CLOSE if due is None else TIMEOUT)
        return False


_ANSWERS: dict[str, FireResult] = {str(result): result for result in FireResult}
_CONTINUE, _FIRE, _PURGE = FireResult.CONTINUE, FireResult.FIRE, FireResult.PURGE


def _known(answer: object) -> FireResult | None:
    """The answer of a rule, which may also be given as text; None for an unknown answer (UH-18)."""
    if answer is _CONTINUE:  # as of most events
        return _CONTINUE
    return _ANSWERS.get(answer) if isinstance(answer, str) else None
