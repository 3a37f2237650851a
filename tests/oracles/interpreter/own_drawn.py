"""Policies and rules of triggers that are drawn, as users write them: the product and the interpreter call them."""

from __future__ import annotations

from typing import Any, ClassVar

from policies.protocol import Action, EvictionPolicy, Fire, TriggerPolicy
from windowing import Count, DayTime, hours, millis, minutes
from windowing.settings.triggers import CountTrigger, DailyByRule, DailyTrigger, FireResult, RuleTrigger


class Marked(TriggerPolicy):
    """Fires with, or before, events of a value."""

    reads = "v"

    def __init__(self, value: int, before: bool) -> None:
        self.value, self.before = value, before

    def track(self, event: Any, context: Any) -> Any:
        return (Fire.BEFORE if self.before else True) if event["v"] == self.value else False


class Moments(TriggerPolicy):
    """Fires 2 ms after multiples of 5 ms with enough new events."""

    reads = "v"
    every = millis(5)
    offset = millis(2)

    def __init__(self, least: int, before: bool) -> None:
        self.least, self.before = least, before

    def on_time(self, time: int, context: Any) -> Any:
        enough = context.count - context.fired_count >= self.least
        return (Fire.BEFORE if self.before else True) if enough else False


class Pause(TriggerPolicy):
    """Fires after 4 ms without an event, and at the end."""

    reads = ()
    state_types: ClassVar[dict[str, Any]] = {"since": int}

    def track(self, event: Any, context: Any) -> Any:
        context.state["since"] += 1
        context.wake_at = context.time + 4000
        return False

    def on_time(self, time: int, context: Any) -> Any:
        return bool(context.state["since"])

    def on_end(self, context: Any) -> Any:
        return bool(context.state["since"])

    def reset(self, context: Any) -> None:
        context.state["since"] = 0


class Flush(TriggerPolicy):
    """Fires at once when a value arrives, and with every third event."""

    reads = "v"

    def track(self, event: Any, context: Any) -> Any:
        return event.number % 3 == 2

    def on_arrival(self, event: Any) -> bool:
        return bool(event["v"] == 6)


class Silent(Pause):
    """The same, and forgets what has been silent for 7 ms."""

    forget_after = millis(7)


class AtTheEnd(TriggerPolicy):
    """Fires only when the streams end."""

    reads = ()

    def track(self, event: Any, context: Any) -> Any:
        return False

    def on_end(self, context: Any) -> Any:
        return True


class Forgetful(AtTheEnd):
    """The same, or when what it is about has been silent for 5 ms."""

    forget_after = millis(5)


class Last(EvictionPolicy):
    reads = ()

    def __init__(self, number: int) -> None:
        self.number = number

    def evict(self, event: Any, context: Any) -> Action:
        return Action.PROCESS if event.number >= context.count - self.number else Action.EXPIRE


class Fresh(EvictionPolicy):
    reads = ()

    def evict(self, event: Any, context: Any) -> Action:
        return Action.PROCESS if event.number >= context.fired_count else Action.EXPIRE


class Near(EvictionPolicy):
    """What is near the latest value; the rest is asked about again, until it is 9 ms old."""

    reads = "v"
    state_types: ClassVar[dict[str, Any]] = {"latest": int}

    def track(self, event: Any, context: Any) -> None:
        context.state["latest"] = event["v"]

    def evict(self, event: Any, context: Any) -> Action:
        if event.timestamp <= context.reference - 9000:
            return Action.EXPIRE
        return Action.PROCESS if abs(event["v"] - context.state["latest"]) < 2 else Action.KEEP


class Until(EvictionPolicy):
    """The oldest events up to one of a value, and no others."""

    reads = "v"

    def evict(self, event: Any, context: Any) -> Action:
        return Action.STOP if event["v"] == 5 else Action.EXPIRE if event["v"] == 0 else Action.PROCESS


TRIGGERS: dict[str, Any] = {
    "marked": lambda: Marked(2, before=False),
    "before": lambda: Marked(3, before=True),
    "moments": lambda: Moments(1, before=False),
    "moments before": lambda: Moments(2, before=True),
    "pause": Pause,
    "flush": Flush,
    "silent": Silent,
    "at the end": AtTheEnd,
    "forgetful": Forgetful,
}
EVICTIONS: dict[str, Any] = {"last": lambda: Last(3), "fresh": Fresh, "near": Near, "until": Until}


def by_value(event: Any, call: Any) -> FireResult:
    """A rule with a memory: it counts, and it fires by the value."""
    call.cache["n"] = call.cache.get("n", 0) + 1
    if event["v"] == 6:
        return FireResult.FIRE
    return FireResult.FIRE_AND_PURGE if event["v"] == 0 or call.cache["n"] == 4 else FireResult.CONTINUE


ANSWERS: dict[int, Any] = {1: None, 2: FireResult.FIRE, 5: FireResult.PURGE, 6: "anything else"}


def failing(event: Any, call: Any) -> Any:
    """A rule that answers whatever a rule may, and fails on a value."""
    call.cache["n"] = call.cache.get("n", 0) + 1
    if event["v"] == 3:
        raise ValueError("a value of which it cannot say anything")
    return ANSWERS.get(event["v"], FireResult.CONTINUE)


HALF_PAST_TWO = DayTime(minutes(150).micros, "Europe/Berlin")
"""A time that the clocks skip on one day of a year, and show twice on another."""

DAY_TIMES = {
    0: DayTime(hours(18).micros),
    1: HALF_PAST_TWO,
    2: DayTime(0, "America/New_York"),
    5: DayTime(hours(9).micros, "+05:30"),
}


def by_event(event: Any) -> DayTime:
    """A time of day for each value; it fails on others."""
    if event["v"] not in DAY_TIMES:
        raise ValueError("a value without a time")
    return DAY_TIMES[event["v"]]


KEY_TRIGGERS: dict[str, Any] = {
    "count": lambda: CountTrigger(Count(2)),
    "count in time": lambda: CountTrigger(Count(3), millis(5)),
    "count after": lambda: CountTrigger(Count(3), millis(4), from_first=False),
    "rule": lambda: RuleTrigger(by_value),
    "rule in time": lambda: RuleTrigger(by_value, millis(6)),
    "rule after": lambda: RuleTrigger(by_value, millis(3), from_first=False),
    "failing": lambda: RuleTrigger(failing),
    "failing in time": lambda: RuleTrigger(failing, millis(6)),
    "failing after": lambda: RuleTrigger(failing, millis(3), from_first=False),
    "daily": lambda: DailyTrigger(DayTime(hours(18).micros)),
    "daily in a place": lambda: DailyTrigger(HALF_PAST_TWO, max_empty=1),
    "daily for a while": lambda: DailyTrigger(DayTime(hours(9).micros, "-03:00"), max_empty=3),
    "daily by rule": lambda: DailyByRule(by_event),
    "daily by rule for a while": lambda: DailyByRule(by_event, max_empty=2),
}

LIMITS: list[dict[str, Any]] = [
    {}, {}, {"max_events": 3}, {"max_bytes": 6, "bytes_of": ["id"]}, {"max_bytes": 22, "bytes_of": ["id", "v", "m"]},
    {"max_events": 4, "max_bytes": 8, "bytes_of": ["id"]},
]  # fmt: skip
"""Of the windows of keys that a trigger fires."""
