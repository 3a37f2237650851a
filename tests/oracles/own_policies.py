"""Policies of a user's own, by the book: one plain list of events, asked about one after another.

It takes the whole input at once, so it knows of no batch, no watermark and no state that is stored. What windbolt fires
must be the same, however the input is cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from policies.protocol import (
    Action,
    EvictionContext,
    EvictionPolicy,
    Fire,
    Policy,
    QueuedEvent,
    TriggerContext,
    TriggerPolicy,
    forget_after,
)


@dataclass
class Fired:
    """A window: its end in microseconds, and the rows in it, by their places in the input."""

    reference: int
    rows: list[int]


@dataclass
class PlainRun:
    """The windows of one task, or of one key."""

    eviction: EvictionPolicy
    trigger: TriggerPolicy
    key: Any = None
    windows: list[Fired] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lives: list[int] = []  # how many windows had fired by the end of each
        self._begin()

    def _begin(self) -> None:
        self.told: list[tuple[int, QueuedEvent]] = []
        self.queue: list[tuple[int, QueuedEvent]] = []
        self.at_trigger = TriggerContext(_fresh(self.trigger), self.key)
        self.at_eviction = EvictionContext(_fresh(self.eviction), self.key)
        self.grid: int | None = None
        self.touched: int | None = None  # how far time had come with the last event
        self.evicted = 0  # number of events that the eviction has been told of

    def run(self, rows: Sequence[Mapping[str, Any]], times: Sequence[int], *, ends: bool = True) -> list[Fired]:
        """All windows of rows that arrive in this order, with these times."""
        waiting: list[tuple[int, int]] = []
        for place, (row, time) in enumerate(zip(rows, times, strict=True)):
            waiting.append((time, place))
            if self.trigger.on_arrival(_event(-1, time, row)):
                self._settle(waiting, rows)
                waiting = []
                self._answer(True)
        if ends and forget_after(self.eviction, self.trigger) is not None:
            self._settle(waiting, rows)
            self._forget()
        elif ends:
            self._settle(waiting, rows)
            for moment in sorted({each for each in (self.grid, self.at_trigger.wake_at) if each is not None}):
                self._moment(moment)
            self._answer(self.trigger.on_end(self.at_trigger))
        return self.windows

    def _settle(self, waiting: list[tuple[int, int]], rows: Sequence[Mapping[str, Any]]) -> None:
        for time, place in sorted(waiting):
            if self._over(time):
                self._forget()
            self._pass(time)
            context = self.at_trigger
            event = _event(len(self.told), time, rows[place])
            self.told.append((place, event))
            self.queue.append((place, event))
            context.time = max(time, context.time) if len(self.told) > 1 else time
            context.count = len(self.told)
            self.touched = context.time
            if self.trigger.every is not None and self.grid is None:
                slide, moved = self.trigger.every.micros, self.trigger.offset.micros
                self.grid = moved - (moved - context.time) // slide * slide
            self._answer(self.trigger.track(event, context))

    def _over(self, time: int) -> bool:
        silent = forget_after(self.eviction, self.trigger)
        if silent is None or self.touched is None:
            return False
        return max(time, self.at_trigger.time) - self.touched > silent.micros

    def _forget(self) -> None:
        """Pass the moments up to that of forgetting, tell the trigger, and begin anew."""
        silent = forget_after(self.eviction, self.trigger)
        if self.touched is None or silent is None:
            return
        end = self.touched + silent.micros
        self._pass(end + 1)
        self.at_trigger.time = end
        self._answer(self.trigger.on_end(self.at_trigger))
        self.lives.append(len(self.windows))
        self._begin()

    def _pass(self, time: int) -> None:
        """Tell the moments before a time."""
        while True:
            known = [each for each in (self.grid, self.at_trigger.wake_at) if each is not None and each < time]
            if not known:
                return
            self._moment(min(known))

    def _moment(self, moment: int) -> None:
        context = self.at_trigger
        self.grid = None if self.grid == moment else self.grid
        context.wake_at = None if context.wake_at == moment else context.wake_at
        context.time = moment
        self._answer(self.trigger.on_time(moment, context), moment)

    def _answer(self, answer: Any, moment: int | None = None) -> None:
        if answer is False:
            return
        context, stop = self.at_trigger, len(self.told)
        if answer is Fire.BEFORE:
            stop = stop - 1 if moment is None else self._before(moment)
        context.fired, context.fired_count = context.time, max(stop, context.fired_count)
        self._window(context.time, context.fired_count)
        self.trigger.reset(context)

    def _before(self, time: int) -> int:
        """Number of events told, without the last ones that are not before a time."""
        stop = len(self.told)
        while stop and self.told[stop - 1][1].timestamp >= time:
            stop -= 1
        return stop

    def _window(self, reference: int, stop: int) -> None:
        context = self.at_eviction
        for _, event in self.told[self.evicted : stop]:
            context.count = event.number + 1
            context.time = context.reference = max(event.timestamp, context.time) if event.number else event.timestamp
            self.eviction.track(event, context)
        self.evicted = max(stop, self.evicted)
        context.time = context.reference = reference
        context.count = stop
        members, left, stopped = [], [], False
        for place, event in self.queue:
            action = Action.KEEP if stopped or event.number >= stop else self.eviction.evict(event, context)
            stopped |= action is Action.STOP
            if action is Action.PROCESS:
                members.append(place)
            if action is not Action.EXPIRE:
                left.append((place, event))
        self.queue = left
        context.fired, context.fired_count = reference, stop
        self.eviction.reset(context)
        if members:
            self.windows.append(Fired(reference, members))


def _fresh(policy: Policy) -> dict[str, Any]:
    state = {name: kind() for name, kind in policy.state_types.items()}
    policy.start(state)
    return state


def _event(number: int, time: int, row: Mapping[str, Any]) -> QueuedEvent:
    return QueuedEvent(number, time, {name: [value] for name, value in row.items()}, 0, [row.get("stream", "default")])
