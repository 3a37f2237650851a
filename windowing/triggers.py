"""When the window of a key fires, by its events and by the clock: triggers of processing time (UH-14 to UH-23).

A window begins with the first event of its key, and ends when its trigger fires and purges it. Values are frozen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from windowing.daytimes import DayTime
from windowing.durations import Count, Duration
from windowing.errors import ConfigError

if TYPE_CHECKING:
    from windowing.tuples import Tuple


class FireResult(StrEnum):
    """What a rule says after each event (UH-17); anything else it says means ``FIRE_AND_PURGE`` (UH-18)."""

    CONTINUE = "continue"
    """Gather on."""
    FIRE = "fire"
    """Call the bolt, and keep the window and its events."""
    PURGE = "purge"
    """Clear and close the window without a call; events that no call has seen are counted as purged."""
    FIRE_AND_PURGE = "fireAndPurge"
    """Call the bolt, then clear and close the window."""


class FiredBy(StrEnum):
    """What made a window fire: ``window.fired_by``."""

    COUNT = "count"
    RULE = "rule"
    TIMEOUT = "timeout"
    """So long after the last event, or after the first."""
    TIME = "time"
    """The time of day."""
    CLOSE = "close"
    """The end of the streams, where nothing else would ever fire it."""


@dataclass(slots=True)
class TriggerCall:
    """What a rule is told beside its event (UH-19); easily made in a test: ``TriggerCall()``."""

    key: Any = None
    """The value of the window's key."""
    cache: dict[str, Any] = field(default_factory=dict)
    """Kept from call to call for as long as the window is open; what JSON can hold."""
    fired_at: int = 0
    """The clock at the arrival of the event, in microseconds."""

    @property
    def fire_ms(self) -> int:
        """The clock at the arrival of the event, in milliseconds since the epoch (TriggerFireMs)."""
        return self.fired_at // 1_000


TriggerRule: TypeAlias = "Callable[[Tuple, TriggerCall], Any]"
"""Called for each event, which is in the window already (UH-16), in order of arrival; returns a FireResult."""

TimeRule: TypeAlias = "Callable[[Tuple], DayTime]"
"""The time of day at which the window of an event is to fire (UH-23)."""


@dataclass(frozen=True)
class CountTrigger:
    """Fires and purges at ``count`` events (UH-14), or when the timeout has passed (UH-15).

    The timeout runs from the last event; ``from_first``: from the first as well, which always comes earlier. An event
    that comes exactly a timeout after the last joins the window (UH-12); one that comes exactly a timeout after the
    first opens the next.
    """

    count: Count
    timeout: Duration | None = None
    from_first: bool = True

    def __post_init__(self) -> None:
        _above_zero(self.timeout)


@dataclass(frozen=True)
class RuleTrigger:
    """Fires by what a rule says of each event (UH-16 to UH-19), or when the timeout has passed (UH-15).

    An event on which the rule fails is refused, and not in the window.
    """

    rule: TriggerRule
    timeout: Duration | None = None
    from_first: bool = True

    def __post_init__(self) -> None:
        _above_zero(self.timeout)
        _callable(self.rule)


@dataclass(frozen=True)
class DailyTrigger:
    """Fires and purges once a day at a time of day (UH-20, UH-21); an event of that very moment is in the next window.

    ``max_empty``: after so many firings in a row without events the key is forgotten (UH-22); None: it is kept.
    """

    time: DayTime
    max_empty: int | None = None

    def __post_init__(self) -> None:
        _some(self.max_empty)


@dataclass(frozen=True)
class DailyByRule:
    """Fires and purges once a day at the time that a rule takes from the events (UH-23).

    A time that has passed today is meant for tomorrow. The latest event decides; until another says otherwise its time
    holds for the following days. An event on which the rule fails is refused, and not in the window.
    """

    rule: TimeRule
    max_empty: int | None = None

    def __post_init__(self) -> None:
        _some(self.max_empty)
        _callable(self.rule)


KeyTrigger: TypeAlias = CountTrigger | RuleTrigger | DailyTrigger | DailyByRule


def _above_zero(timeout: Duration | None) -> None:
    if timeout is not None and timeout.micros <= 0:
        raise ConfigError(f"timeout={timeout}", why="a window lasts", do="give a duration above zero, or none")


def _some(count: int | None) -> None:
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
        raise ConfigError(
            f"max_empty={count!r}", why="a key is forgotten after a number of empty firings", do="give 1 or more"
        )


def _callable(rule: object) -> None:
    if not callable(rule):
        raise ConfigError(f"rule={rule!r:.60}", why="it cannot be called", do="give a function")
