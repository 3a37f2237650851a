"""What triggers of processing time must answer (UH-10 to UH-23), worked out the slow and obvious way.

``expected(trigger, events, end, close)`` takes the events of one key after the other, event by event, and asks nothing
but their arrival and the clock at the end: where batches end, how many tasks there are and what crashes must not
matter. It shares no code with the engine, only the vocabulary of ``windbolt.triggers``.

Times are integer microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from windowing.daytimes import DayTime
from windowing.events import Tuple
from windowing.settings.triggers import (
    Capacity,
    CountTrigger,
    DailyByRule,
    DailyTrigger,
    KeyTrigger,
    RuleTrigger,
    TriggerCall,
)

DAY = timedelta(days=1)
UNBOUNDED = Capacity()
NUMBERS = ("id", "sub")
"""Columns of whole numbers, of 64 bits each."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Event:
    """An event: the key that it belongs to, and the clock when it arrived."""

    id: int
    key: Any
    at: int
    tuple: Tuple | None = None
    """What a rule is given."""

    def size(self, columns: Sequence[str]) -> int:
        """The bytes of its texts, and 8 for each number; of these columns, or of all."""
        assert self.tuple is not None
        return sum(
            8 if name in NUMBERS else len((value or "").encode())
            for name, value in self.tuple.values.items()
            if not columns or name in columns
        )


@dataclass(frozen=True)
class Firing:
    """A call of the bolt."""

    key: Any
    ids: tuple[int, ...]
    new: tuple[int, ...]
    start: int
    end: int
    by: str


@dataclass(frozen=True)
class Forgot:
    """A call of ``forget``."""

    key: Any


@dataclass(frozen=True)
class Asked:
    """A call of a rule: the event, the key, the clock, and the cache as the rule found it."""

    id: int
    key: Any
    at: int
    cache: dict[str, Any]


@dataclass
class Expected:
    """All that is to be seen from outside."""

    calls: dict[Any, list[Firing | Forgot]] = field(default_factory=dict)
    """Of each key in their order."""
    asked: dict[Any, list[Asked]] = field(default_factory=dict)
    """Of each key in their order."""
    refused: list[int] = field(default_factory=list)
    purged: list[int] = field(default_factory=list)
    """Events that were cleared before any call had seen them."""
    windowed: set[int] = field(default_factory=set)
    pending: list[int] = field(default_factory=list)
    """Events in open windows that no call has seen."""
    held: list[int] = field(default_factory=list)
    """Events in open windows."""
    known: list[Any] = field(default_factory=list)
    """Keys of which something must be remembered."""

    @property
    def firings(self) -> list[Firing]:
        """By end."""
        found = [call for calls in self.calls.values() for call in calls if isinstance(call, Firing)]
        return sorted(found, key=lambda firing: firing.end)

    @property
    def forgotten(self) -> list[Any]:
        """Keys that were forgotten, some more than once."""
        return [call.key for calls in self.calls.values() for call in calls if isinstance(call, Forgot)]


def expected(
    trigger: KeyTrigger, events: Sequence[Event], end: int, close: bool = False, capacity: Capacity = UNBOUNDED
) -> Expected:
    """The whole answer, for events in order of arrival.

    ``end``: the clock at the end, not before the last event; ``close``: whether the streams end there. ``capacity``:
    how much a window may hold.
    """
    clocks = [event.at for event in events]
    if clocks != sorted(clocks) or end < max(clocks, default=end):
        raise ValueError("the clock went back")
    answer = Expected()
    for key in dict.fromkeys(event.key for event in events):
        run: _OfKey
        if isinstance(trigger, CountTrigger | RuleTrigger):
            run = _Gathering(trigger, key, answer, capacity)
        else:
            run = _Daily(trigger, key, answer, capacity)
        for event in events:
            if event.key == key:
                run.move_clock(event.at)
                run.take(event)
        run.move_clock(end)
        if close:
            run.close()
        answer.held += [event.id for event in run.events]
        answer.pending += [event.id for event in run.events if event.id not in answer.windowed]
        if run.known:
            answer.known.append(key)
    return answer


class _OfKey:
    """One key: the events of its open window."""

    def __init__(self, key: Any, answer: Expected, capacity: Capacity) -> None:
        self.key, self.answer, self.capacity = key, answer, capacity
        self.events: list[Event] = []

    def fits(self, event: Event) -> bool:
        """Whether the window may hold an event as well."""
        most = self.capacity.bytes
        return not self.events or most is None or self.size([*self.events, event]) <= most

    @property
    def full(self) -> bool:
        """Whether the window holds as much as it may."""
        events, most = self.capacity.events, self.capacity.bytes
        return (events is not None and len(self.events) >= events) or (
            most is not None and self.size(self.events) >= most
        )

    def size(self, events: list[Event]) -> int:
        return sum(event.size(self.capacity.columns) for event in events)

    @property
    def known(self) -> bool:
        return bool(self.events)

    def move_clock(self, clock: int) -> None:
        raise NotImplementedError

    def take(self, event: Event) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def fire(self, end: int, by: str) -> None:
        ids = tuple(event.id for event in self.events)
        new = tuple(each for each in ids if each not in self.answer.windowed)
        firing = Firing(self.key, ids, new, self.events[0].at, end, by)
        self.answer.calls.setdefault(self.key, []).append(firing)
        self.answer.windowed.update(ids)


class _Gathering(_OfKey):
    """A key whose windows fire by a count or a rule, or by a timeout."""

    def __init__(self, trigger: CountTrigger | RuleTrigger, key: Any, answer: Expected, capacity: Capacity) -> None:
        super().__init__(key, answer, capacity)
        self.trigger = trigger
        self.cache: dict[str, Any] = {}

    def clear(self) -> None:
        self.events, self.cache = [], {}

    def timer(self) -> int | None:
        if not self.events or self.trigger.timeout is None:
            return None
        if self.trigger.from_first:
            return self.events[0].at + self.trigger.timeout.micros
        return self.events[-1].at + self.trigger.timeout.micros

    def move_clock(self, clock: int) -> None:
        timer = self.timer()
        if timer is None:
            return
        due = clock >= timer if self.trigger.from_first else clock > timer
        if due:
            self.fire(timer, "timeout")
            self.clear()

    def take(self, event: Event) -> None:
        fits = self.fits(event)
        if isinstance(self.trigger, CountTrigger):
            if not fits:
                self.fire(event.at, "full")
                self.clear()
            self.events.append(event)
            if len(self.events) >= self.trigger.count.value:
                self.fire(event.at, "count")
                self.clear()
            elif self.full:
                self.fire(event.at, "full")
                self.clear()
            return
        cache = self.cache if fits else {}
        call = TriggerCall(self.key, deepcopy(cache), event.at)
        self.answer.asked.setdefault(self.key, []).append(Asked(event.id, self.key, event.at, deepcopy(cache)))
        assert event.tuple is not None
        try:
            said = self.trigger.rule(event.tuple, call)
        except Exception:
            self.answer.refused.append(event.id)
            return
        if not fits:
            self.fire(event.at, "full")
            self.clear()
        self.events.append(event)
        self.cache = call.cache
        if self.full and said in ("continue", "fire"):
            self.fire(event.at, "full")
            self.clear()
            return
        if said == "continue":
            return
        if said == "fire":
            self.fire(event.at, "rule")
            return
        if said == "purge":
            self.answer.purged += [each.id for each in self.events if each.id not in self.answer.windowed]
        else:
            self.fire(event.at, "rule")
        self.clear()

    def close(self) -> None:
        if not self.events:
            return
        timer = self.timer()
        if timer is None:
            self.fire(self.events[-1].at, "close")
        else:
            self.fire(timer, "timeout")
        self.clear()


class _Daily(_OfKey):
    """A key whose windows fire once a day."""

    def __init__(self, trigger: DailyTrigger | DailyByRule, key: Any, answer: Expected, capacity: Capacity) -> None:
        super().__init__(key, answer, capacity)
        self.trigger = trigger
        self.time: DayTime | None = None
        self.timer: int | None = None
        """None: the key is not known."""
        self.empty = 0
        self.filled = False
        """Whether a window was full since the last time of day."""

    @property
    def known(self) -> bool:
        return self.timer is not None and (bool(self.events) or self.trigger.max_empty is not None)

    def move_clock(self, clock: int) -> None:
        while self.timer is not None and clock >= self.timer:
            self.strike()

    def strike(self) -> None:
        """The time of day has come."""
        assert self.timer is not None
        assert self.time is not None
        if self.events:
            self.fire(self.timer, "time")
            self.events, self.empty = [], 0
        elif self.filled:
            self.empty = 0
        else:
            self.empty += 1
        self.filled = False
        if self.empty == self.trigger.max_empty:
            self.answer.calls.setdefault(self.key, []).append(Forgot(self.key))
            self.time, self.timer, self.empty = None, None, 0
        else:
            self.timer = next_time(self.time, self.timer)

    def fill(self, at: int) -> None:
        self.fire(at, "full")
        self.events, self.filled = [], True

    def take(self, event: Event) -> None:
        fits = self.fits(event)
        if isinstance(self.trigger, DailyByRule):
            assert event.tuple is not None
            try:
                self.time = self.trigger.rule(event.tuple)
            except Exception:
                self.answer.refused.append(event.id)
                return
            self.timer = next_time(self.time, event.at)
        elif self.timer is None:
            self.time = self.trigger.time
            self.timer = next_time(self.time, event.at)
        if not fits:
            self.fill(event.at)
        self.events.append(event)
        if self.full:
            self.fill(event.at)

    def close(self) -> None:
        if self.events:
            assert self.timer is not None
            self.fire(self.timer, "time")
            self.events = []


# ---- times of day


def next_time(of_day: DayTime, after: int) -> int:
    """The next moment, after another, at which the clocks of a zone show a time of day: once on each of its days.

    A time that is skipped comes as much later as the clocks were put on; one that comes twice is the first of the two.
    """
    zone = zone_of(of_day.zone)
    day: date = moment(after).astimezone(zone).date() - DAY
    while micros_of(on_day(of_day, day, zone)) <= after:
        day += DAY
    return micros_of(on_day(of_day, day, zone))


def on_day(of_day: DayTime, day: date, zone: tzinfo) -> datetime:
    seconds, micros = divmod(of_day.micros, 1_000_000)
    clock = time(seconds // 3600, seconds // 60 % 60, seconds % 60, micros)
    return datetime.combine(day, clock, zone).astimezone(UTC)


def zone_of(name: str) -> tzinfo:
    if name[0] in "+-":
        hours, minutes = name[1:].split(":")
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        return timezone(-offset if name[0] == "-" else offset)
    return ZoneInfo(name)


def moment(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def micros_of(when: datetime) -> int:
    return (when - EPOCH) // timedelta(microseconds=1)
