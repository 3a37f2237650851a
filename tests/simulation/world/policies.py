"""Policies such as users write, for drawn topologies: by number, value, time, moments and state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from policies import (
    Action,
    EvictionContext,
    EvictionPolicy,
    Fire,
    QueuedEvent,
    QueuedEvents,
    TriggerContext,
    TriggerPolicy,
)
from windowing.durations import Duration

_SECOND = 1_000_000


@dataclass(frozen=True)
class Near(EvictionPolicy):
    """What is close to the latest amount, and not older than some seconds; the first events are kept back."""

    width: float
    seconds: int
    reads = "amount"
    state_types: ClassVar[dict[str, type]] = {"latest": float, "windows": int}

    def track(self, event: QueuedEvent, context: EvictionContext) -> None:
        """Remember the latest amount."""
        if event["amount"] is not None:
            context.state["latest"] = float(event["amount"])

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        """By time, number and amount."""
        if event.timestamp <= context.reference - self.seconds * _SECOND:
            return Action.EXPIRE
        if context.state["windows"] % 3 == 2 and event.number % 2:
            return Action.KEEP
        amount = event["amount"]
        near = amount is not None and abs(amount - context.state["latest"]) <= self.width
        return Action.PROCESS if near else Action.KEEP

    def reset(self, context: EvictionContext) -> None:
        """Count the windows."""
        context.state["windows"] += 1


class NearForAWhile(Near):
    """The same, of keys that are forgotten when they have been silent."""

    forget_after = Duration(10 * _SECOND)


@dataclass(frozen=True)
class Fresh(EvictionPolicy):
    """The events since the window before, on arrays."""

    reads = ()

    def evict_all(self, events: QueuedEvents, context: EvictionContext) -> Any:
        """By number."""
        return np.where(events.numbers >= context.fired_count, Action.PROCESS, Action.EXPIRE)


@dataclass(frozen=True)
class Enough(TriggerPolicy):
    """When a sum is reached, after a pause, or at the end."""

    total: float
    pause: int
    before: bool
    at_end: bool
    reads = "amount"
    state_types: ClassVar[dict[str, type]] = {"sum": float}

    def track(self, event: QueuedEvent, context: TriggerContext) -> bool | Fire:
        """By a sum; a pause is asked for anew."""
        context.wake_at = context.time + self.pause * _SECOND
        context.state["sum"] += abs(event["amount"] or 0)
        if not context.state["sum"] >= self.total:
            return False
        return Fire.BEFORE if self.before else True

    def on_time(self, time: int, context: TriggerContext) -> bool | Fire:
        """After a pause."""
        return context.count > context.fired_count

    def on_end(self, context: TriggerContext) -> bool | Fire:
        """What is left."""
        return self.at_end and context.count > context.fired_count

    def reset(self, context: TriggerContext) -> None:
        """Begin a sum."""
        context.state["sum"] = 0.0


@dataclass(frozen=True)
class Passing(TriggerPolicy):
    """When time passes a multiple of some seconds with enough new events; every seventh event anyway. On arrays."""

    seconds: int
    least: int
    reads: ClassVar[Sequence[str]] = ()

    @property
    def every(self) -> Duration:  # type: ignore[override]
        """The moments."""
        return Duration(self.seconds * _SECOND)

    def track_all(self, events: QueuedEvents, context: TriggerContext) -> Any:
        """By number."""
        return events.numbers % 7 == 6

    def on_time(self, time: int, context: TriggerContext) -> bool | Fire:
        """With enough new events."""
        return context.count - context.fired_count >= self.least


@dataclass(frozen=True)
class AtOnce(Enough):
    """The same, and at once when a certain amount arrives; at moments too."""

    seconds: int

    @property
    def every(self) -> Duration:  # type: ignore[override]
        """The moments."""
        return Duration(self.seconds * _SECOND)

    def on_time(self, time: int, context: TriggerContext) -> bool | Fire:
        """After a pause, and at moments: with three new events, those at the moment left for the next window."""
        enough = context.count - context.fired_count >= 3
        return enough and (Fire.BEFORE if self.before else True)

    def on_arrival(self, event: QueuedEvent) -> bool:
        """By the amount."""
        return event["amount"] is not None and int(abs(event["amount"])) % 5 == 0


@dataclass(frozen=True)
class PassingOrAtOnce(Passing):
    """On arrays, and at once with each event of an input, or of a user."""

    at_once: str
    reads = ("user",)

    def on_arrival(self, event: QueuedEvent) -> bool:
        """By the input or the user."""
        return self.at_once in (event.stream, event["user"])


@dataclass(frozen=True)
class OfEachUser(EvictionPolicy):
    """The last events of each user, and of these the first ones up to a gap; on arrays and event by event alike."""

    most: int
    gap: int
    reads = "user"
    state_types: ClassVar[dict[str, type]] = {"numbers": dict}

    def track(self, event: QueuedEvent, context: EvictionContext) -> None:
        """Note the numbers of the last events of each user."""
        noted = context.state["numbers"].setdefault(str(event["user"]), [])
        noted.append(event.number)
        del noted[: -self.most]

    def track_all(self, events: QueuedEvents, context: EvictionContext) -> None:
        """The same."""
        for user, number in zip(events["user"].tolist(), events.numbers.tolist(), strict=True):
            noted = context.state["numbers"].setdefault(str(user), [])
            noted.append(number)
            del noted[: -self.most]

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        """By what was noted."""
        if event.number not in context.state["numbers"].get(str(event["user"]), ()):
            return Action.EXPIRE
        return Action.STOP if event.number % self.gap == self.gap - 1 else Action.PROCESS
