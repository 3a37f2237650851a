"""When the window of a key fires, by its events and by the clock: triggers of processing time (UH-14 to UH-23).

A window begins with the first event of its key, and ends when its trigger fires and purges it. Values are frozen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import pyarrow as pa

from windowing.calls import checked_on_failure, checked_value
from windowing.daytimes import DayTime
from windowing.durations import Count, Duration
from windowing.errors import ConfigError
from windowing.reprs import of_fields
from windowing.settings.rules import flag

if TYPE_CHECKING:
    from windowing.events import Tuple


class FireResult(StrEnum):
    """A rule's answer after each event (UH-17); any other answer means ``FIRE_AND_PURGE`` (UH-18)."""

    CONTINUE = "continue"
    """Keep gathering events."""
    FIRE = "fire"
    """Call the bolt, and keep the window and its events."""
    PURGE = "purge"
    """Clear and close the window without a call; events that no call has seen are counted as purged."""
    FIRE_AND_PURGE = "fireAndPurge"
    """Call the bolt, then clear and close the window."""


class FiredBy(StrEnum):
    """Reason for which a window fired: ``window.fired_by``."""

    COUNT = "count"
    RULE = "rule"
    TIMEOUT = "timeout"
    """The timeout since the last event, or since the first."""
    TIME = "time"
    """The time of day."""
    CLOSE = "close"
    """The end of the streams, if nothing else would ever fire it."""
    FULL = "full"
    """The window held as much as its Capacity allows, or the next event would not have fitted in; it is then
    cleared."""
    EVENT = "event"
    """An event that the user's own trigger has tracked."""
    MOMENT = "moment"
    """A moment that the user's own trigger has asked for."""
    ARRIVAL = "arrival"
    """An event that has arrived: ``on_arrival`` of the user's own trigger."""


@checked_on_failure
@dataclass(slots=True)
class TriggerCall:
    """Information for a rule besides its event (UH-19); easily made in a test: ``TriggerCall()``."""

    key: Any = None
    """The value of the window's key."""
    cache: dict[str, Any] = field(default_factory=dict)
    """Kept from call to call for as long as the window is open; what JSON can hold."""
    fired_at: int = 0
    """The clock at the arrival of the event, in microseconds."""

    def __repr__(self) -> str:
        return of_fields(self)

    @property
    def fire_ms(self) -> int:
        """The clock at the arrival of the event, in milliseconds since the epoch (TriggerFireMs)."""
        return self.fired_at // 1_000


TriggerRule: TypeAlias = "Callable[[Tuple, TriggerCall], Any]"
"""Called for each event, which is in the window already (UH-16), in order of arrival; returns a FireResult."""


class ColumnRule:
    """A rule of a trigger that reads its own arguments from columns, for rules that are no function of a Tuple.
    Subclasses also say which ``columns`` they need."""

    columns: ClassVar[Sequence[str]]

    def read(self, rows: pa.Table) -> Iterator[Any]:
        """Called with the new events of a task; returns the argument of ``ask`` for each."""
        raise NotImplementedError

    def ask(self, event: Any, *call: Any) -> Any:
        """Called for each event, with the TriggerCall if the trigger has one; returns the answer of a rule."""
        raise NotImplementedError


TimeRule: TypeAlias = "Callable[[Tuple], DayTime]"
"""The time of day at which the window of an event is to fire (UH-23)."""


def asking(rule: Any) -> Callable[..., Any]:
    """Returns the function that is called for each event."""
    function: Callable[..., Any] = rule.ask if isinstance(rule, ColumnRule) else rule
    return function


@checked_value
@dataclass(frozen=True)
class CountTrigger:
    """Fires and purges at ``count`` events (UH-14), or when the timeout has passed (UH-15).

    The timeout runs from the first event; with ``from_first=False``, from the last. An event that comes exactly a
    timeout after the first opens the next window; one that comes exactly a timeout after the last joins it (UH-12).
    """

    count: Count
    """Number of events that fires the window."""
    timeout: Duration | None = None
    """Time after the first event, or the last; None: only the count fires."""
    from_first: bool = True
    """True if the timeout runs from the first event; False: from the last."""

    def __post_init__(self) -> None:
        _check_timeout(self.timeout)
        flag("from_first", self.from_first)


@checked_value
@dataclass(frozen=True)
class RuleTrigger:
    """Fires by what a rule says of each event (UH-16 to UH-19), or when the timeout has passed (UH-15).

    An event on which the rule fails is refused, and not in the window; an error that is not about the event ends the
    run, as with timestamp extractors.
    """

    rule: TriggerRule
    """A function of an event and a TriggerCall that returns a FireResult."""
    timeout: Duration | None = None
    """Time after the first event, or the last; None: only the rule fires."""
    from_first: bool = True
    """True if the timeout runs from the first event; False: from the last."""

    def __repr__(self) -> str:
        return of_fields(self)

    def __post_init__(self) -> None:
        _check_timeout(self.timeout)
        flag("from_first", self.from_first)
        _callable(self.rule)


@checked_value
@dataclass(frozen=True)
class DailyTrigger:
    """Fires and purges once a day at a time of day (UH-20, UH-21); an event at that moment is in the next window."""

    time: DayTime
    """The time of day, with its zone."""
    max_empty: int | None = None
    """Number of firings in a row without events after which the key is forgotten (UH-22); None: never."""

    def __post_init__(self) -> None:
        if not isinstance(self.time, DayTime):
            raise ConfigError(
                f"DailyTrigger({self.time!r:.60})",
                why="its time is a DayTime, which has a zone",
                do='write DailyTrigger(DayTime(hours(18).micros, "Europe/Berlin")) for 18:00 there',
            )
        _some(self.max_empty)


@checked_value
@dataclass(frozen=True)
class DailyByRule:
    """Fires and purges once a day at the time that a rule takes from the events (UH-23).

    A time that has passed today is meant for tomorrow. The latest event decides; until another says otherwise its time
    holds for the following days. An event on which the rule fails is refused, and not in the window; an error that is
    not about the event ends the run, as with timestamp extractors.
    """

    rule: TimeRule
    """A function of an event that returns a DayTime."""
    max_empty: int | None = None
    """Number of firings in a row without events after which the key is forgotten (UH-22); None: never."""

    def __repr__(self) -> str:
        return of_fields(self)

    def __post_init__(self) -> None:
        _some(self.max_empty)
        _callable(self.rule)


KeyTrigger: TypeAlias = CountTrigger | RuleTrigger | DailyTrigger | DailyByRule

MOST_BYTES = 2_000_000_000
"""Most bytes of a window, because a call gets Arrow columns, whose texts and binaries together have less than 2^31
bytes."""


@dataclass(frozen=True)
class Capacity:
    """Limits of the window of a key, whatever its trigger says; None: no limit.

    A window fires, by ``FULL``, and is cleared as soon as it holds ``events`` events, or ``bytes`` bytes exactly; and
    before an event with which it would hold more bytes, which opens the next window then. So no call is given more than
    that, except for a single event that is larger: it is a window of its own.
    """

    events: int | None = None
    """Most events in a window."""
    bytes: int | None = None
    """Most bytes in a window: texts and binaries with their own length, also within lists, maps and structs; other
    values with the size that Arrow gives them, such as 8 bytes for a long."""
    columns: tuple[str, ...] = ()
    """The columns whose bytes count; empty: all."""

    def __post_init__(self) -> None:
        for name, given, most in (("max_events", self.events, None), ("max_bytes", self.bytes, MOST_BYTES)):
            whole = isinstance(given, int) and not isinstance(given, bool)
            if given is not None and (not whole or given < 1 or (most is not None and given > most)):
                raise ConfigError(
                    f"{name}={given!r}",
                    why="a window holds at least one event" if most is None else "a window must stay below 2^31 bytes",
                    do=f"give a whole number of 1 {'or more' if most is None else f'to {most:_}'}, or none",
                )
        if self.columns and self.bytes is None:
            raise ConfigError(
                f"bytes_of={list(self.columns)} without max_bytes",
                why="it names the columns whose bytes count towards max_bytes",
                do="give max_bytes, or leave it out",
            )


def _check_timeout(timeout: Duration | None) -> None:
    if timeout is not None and timeout.micros <= 0:
        raise ConfigError(
            f"timeout={timeout}",
            why="a timeout must be longer than zero",
            do="give a duration above zero, or leave it out",
        )


def _some(count: int | None) -> None:
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
        raise ConfigError(
            f"max_empty={count!r}",
            why="it is the number of empty firings after which a key is forgotten",
            do="give 1 or more, or leave it out",
        )


def _callable(rule: object) -> None:
    if not callable(rule):
        raise ConfigError(f"rule={rule!r:.60}", why="it cannot be called", do="give a function")
