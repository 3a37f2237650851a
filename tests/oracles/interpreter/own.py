"""Windows of a user's own policies, and windows of keys that a trigger fires: the protocols, said once more.

docs/windows-of-your-own.md; semantics, "Windows that a trigger fires".
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from operator import ge, gt
from typing import Any

from policies.protocol import forget_after
from tests.oracles.interpreter.kinds import Kind, next_time
from tests.oracles.interpreter.values import FOREVER, Event, Json, Over, Window, in_order, least, most
from windowing.settings.triggers import Capacity, CountTrigger, DailyByRule, DailyTrigger, TriggerCall


@dataclass
class Told:
    """An event as a policy sees it."""

    number: int
    event: Event

    @property
    def timestamp(self) -> int:
        return self.event.time

    @property
    def stream(self) -> str:
        return self.event.stream

    def __getitem__(self, name: str) -> Any:
        return self.event.fields.get(name)


@dataclass
class Context:
    """What a policy is told besides."""

    state: Json
    key: Any
    time: int = 0
    reference: int = 0
    count: int = 0
    fired: int | None = None
    fired_count: int = 0
    wake_at: int | None = None


def begun(policy: Any) -> Json:
    state = {name: kind() for name, kind in policy.state_types.items()}
    policy.start(state)
    return state


class Own(Kind):
    """A trigger and an eviction of the user's own, for one task or key."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.trigger, self.eviction = self.rules.trigger, self.rules.eviction
        self.silent = forget_after(self.trigger, self.eviction)
        self.waiting: list[Event] = []
        self.due: list[Window] = []
        self.ended = False
        self.last_call: int | None = None
        self.begin()

    def begin(self) -> None:
        """A life begins with the first event, or with the first one after it was forgotten."""
        self.told: list[Told] = []
        self.queue: list[Told] = []
        self.at, self.evicting = Context(begun(self.trigger), self.key), Context(begun(self.eviction), self.key)
        self.grid: int | None = None
        self.touched: int | None = None
        self.evicted = 0

    def needs(self, event: Event) -> bool:
        return event in self.waiting or any(each.event is event for each in self.queue)

    def put(self, event: Event) -> None:
        self.waiting.append(event)
        if self.rules.reads_timestamps and self.trigger.on_arrival(Told(-1, event)):
            self.settle(FOREVER)
            self.answer(True)

    def close(self) -> list[Window]:
        """Tell of the events up to the watermark, and of the moments that it is past."""
        self.settle(max((event.time for event in self.waiting if self.over(event.time)), default=-FOREVER))
        if self.forgotten_at is not None and self.over(self.forgotten_at + 1):
            self.forget()
        if not self.over(FOREVER):
            self.pass_moments(lambda moment: self.over(moment + 1))
        elif not self.ended:
            self.ended = True
            for moment in sorted({each for each in (self.grid, self.at.wake_at) if each is not None}):
                self.pass_moment(moment)
            before = len(self.due)
            self.answer(self.trigger.on_end(self.at))
            for window in self.due[before:]:
                window.at_end = True
        due, self.due = self.due, []
        return due

    @property
    def forgotten_at(self) -> int | None:
        """guide, "Keys that fall silent": so long after the last event of the key."""
        return None if self.silent is None or self.touched is None else self.touched + self.silent.micros

    def forget(self) -> None:
        """The moments up to this one pass, ``on_end`` is called, and all that is kept of the key is gone."""
        end: Any = self.forgotten_at
        self.pass_moments(partial(ge, end))
        self.at.time = end
        self.answer(self.trigger.on_end(self.at))
        self.purged += [told.event for told in self.queue]
        self.begin()

    def settle(self, upto: int) -> None:
        """In order of time, then of arrival; moments before an event come first."""
        for event in in_order(each for each in self.waiting if each.time <= upto):
            self.waiting.remove(event)
            if self.forgotten_at is not None and max(event.time, self.at.time) > self.forgotten_at:
                self.forget()
            self.pass_moments(partial(gt, event.time))
            told, at = Told(len(self.told), event), self.at
            self.told.append(told)
            self.queue.append(told)
            at.time = max(event.time, at.time) if told.number else event.time
            at.count = len(self.told)
            self.touched = at.time
            every = self.trigger.every
            if every is not None and self.grid is None:  # "passes over moments before which no event has come"
                moved = self.trigger.offset.micros
                self.grid = moved - (moved - at.time) // every.micros * every.micros
            self.answer(self.trigger.track(told, at))

    def pass_moments(self, is_over: Over) -> None:
        """Those of its grid, and those at which it wants to be woken, in order."""
        while (moment := least(self.grid, self.at.wake_at)) is not None and is_over(moment):
            self.pass_moment(moment)

    def pass_moment(self, moment: int) -> None:
        self.grid = None if self.grid == moment else self.grid
        self.at.wake_at = None if self.at.wake_at == moment else self.at.wake_at
        self.at.time = moment
        self.answer(self.trigger.on_time(moment, self.at), moment)

    def answer(self, given: Any, moment: int | None = None) -> None:
        """A window, up to the event or the moment; ``Fire.BEFORE`` leaves what is exactly there to the next one."""
        self.last_call = most(self.last_call, self.at.time)
        if given is False:
            return
        stop, at = len(self.told), self.at
        if given is not True:
            stop = stop - 1 if moment is None else sum(each.timestamp < moment for each in self.told)
        at.fired, at.fired_count = at.time, max(stop, at.fired_count)
        self.evict(at.time, at.fired_count)
        self.trigger.reset(at)

    def evict(self, reference: int, stop: int) -> None:
        """The eviction is told of the events up to there, and asked about each that is left."""
        at = self.evicting
        for told in self.told[self.evicted : stop]:
            at.count = told.number + 1
            at.time = at.reference = max(told.timestamp, at.time) if told.number else told.timestamp
            self.eviction.track(told, at)
        self.evicted = max(stop, self.evicted)
        at.time = at.reference = reference
        at.count = stop
        held, kept, stopped = [], [], False
        for told in self.queue:
            said = "keep" if stopped or told.number >= stop else self.eviction.evict(told, at).name.lower()
            stopped |= said == "stop"
            held += [told.event] if said == "process" else []
            kept += [told] if said != "expire" else []
        self.queue = kept
        at.fired, at.fired_count = reference, stop
        self.eviction.reset(at)
        if held:
            self.due.append(self.window(None, reference, held))


# ---- triggers of keys


class Refused(Exception):
    """A rule failed on an event: it is in no window, and has changed nothing."""


class Triggered(Kind):
    """Windows of a key by the clock: each lasts until its trigger fires and purges it (UH-10 to UH-23).

    semantics, "Windows that a trigger fires".
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.trigger: Any = self.rules.key_trigger
        self.limit = self.rules.capacity or Capacity()
        self.daily = isinstance(self.trigger, DailyTrigger | DailyByRule)
        self.waits = not getattr(self.trigger, "from_first", True)
        """Whether an event at the very moment of the timer comes before it."""
        self.due: list[Window] = []
        self.forget()

    def forget(self) -> None:
        """As before the first event of the key."""
        self.timer: int | None = None
        self.day: Any = getattr(self.trigger, "time", None)
        self.came, self.empty, self.calls = False, 0, 0
        self.clear()

    def clear(self) -> None:
        self.held: list[Event] = []
        self.cache: Json = {}
        self.timer = self.timer if self.daily else None

    def needs(self, event: Event) -> bool:
        return event in self.held

    def put(self, event: Event) -> None:
        """The timer first; then the event is in the window, and the trigger is asked."""
        self.pass_timers(lambda timer: event.time > timer or (event.time == timer and not self.waits))
        fits = not self.held or self.limit.bytes is None or self.size([*self.held, event]) <= self.limit.bytes
        held, cache = ([*self.held, event], deepcopy(self.cache)) if fits else ([event], {})
        said, day = self.asked(held, cache)
        if not fits:
            self.fire(event.time)
        self.held, self.cache, self.day, self.came = held, cache, day, True
        if self.daily:
            self.timer = next_time(day, event.time)
        elif self.trigger.timeout is not None and (self.timer is None or self.waits):
            self.timer = event.time + self.trigger.timeout.micros
        if said == "purge":
            self.purged += held
            self.clear()
        elif self.is_full() or said not in ("continue", "fire"):
            self.fire(event.time)
        elif said == "fire":
            self.fire(event.time, purge=False)

    def asked(self, held: list[Event], cache: Json) -> tuple[str, Any]:
        """What the trigger says of the last of these events, and the time of day at which they fire."""
        match self.trigger:
            case CountTrigger(count=count):
                return ("purge and fire" if len(held) >= count.value else "continue"), None
            case DailyTrigger(time=time):
                return "continue", time
        fields: Any = held[-1].fields
        try:
            if isinstance(self.trigger, DailyByRule):
                return "continue", self.trigger.rule(fields)
            return str(self.trigger.rule(fields, TriggerCall(self.key, cache, held[-1].time))), None
        except ValueError as error:
            raise Refused from error

    def is_full(self) -> bool:
        limit = self.limit
        enough = limit.events is not None and len(self.held) >= limit.events
        return enough or (limit.bytes is not None and self.size(self.held) >= limit.bytes)

    def size(self, events: list[Event]) -> int:
        """Texts with their own length, other values with eight bytes."""
        values = [event.fields.get(name) for event in events for name in self.limit.columns]
        return sum(len((value or "").encode()) if isinstance(value, str | None) else 8 for value in values)

    def fire(self, at: int, *, purge: bool = True) -> None:
        window = self.window(self.held[0].time, at, list(self.held))
        window.fired, self.calls = self.calls, self.calls + 1
        self.due.append(window)
        if purge:
            self.clear()

    def pass_timers(self, is_over: Over) -> None:
        """Fire at the timers that are over; a time of day comes again, also to a key without events."""
        while self.timer is not None and is_over(self.timer):
            moment = self.timer
            if self.held:
                self.fire(moment)
            if not self.daily:
                return
            self.came, self.empty = False, 0 if self.came else self.empty + 1
            if self.empty == self.trigger.max_empty:
                self.forget()
            else:
                self.timer = next_time(self.day, moment)

    def close(self) -> list[Window]:
        """At the end of the streams every window fires once: at its timer, or with its last event if it has none."""
        if not self.over(FOREVER):
            self.pass_timers(lambda timer: self.over(timer + self.waits))
        elif self.held:
            self.fire(self.timer if self.timer is not None else self.held[-1].time)
        due, self.due = self.due, []
        return due
