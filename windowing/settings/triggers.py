"""Triggers of keys: when the window of a key fires, by its events and by the clock (UH-14 to UH-23).

A window begins with the first event of its key, and ends when its trigger fires and purges it.
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
from windowing.reprs import fields_repr
from windowing.settings.rules import read_flag

if TYPE_CHECKING:
    from windowing.events import Tuple


class FireResult(StrEnum):
    """The value that a rule returns for each event (UH-17); any other value means ``FIRE_AND_PURGE`` (UH-18)."""

    CONTINUE = "continue"
    """Do not fire."""
    FIRE = "fire"
    """Call the bolt, and keep the window and its events."""
    PURGE = "purge"
    """Clear and close the window without a call; events that were in no call are counted as purged."""
    FIRE_AND_PURGE = "fireAndPurge"
    """Call the bolt, then clear and close the window."""


class FiredBy(StrEnum):
    """The reason why a window fired: ``window.fired_by``."""

    COUNT = "count"
    RULE = "rule"
    TIMEOUT = "timeout"
    """The timeout since the last or the first event."""
    TIME = "time"
    """The time of day."""
    CLOSE = "close"
    """The end of the streams, if nothing else would ever fire the window."""
    FULL = "full"
    """The limits of a Capacity: the window was full, or the next event did not fit in. The window is then cleared."""
    EVENT = "event"
    """An event for which ``track`` of a custom trigger has fired."""
    MOMENT = "moment"
    """A moment that a custom trigger has set."""
    ARRIVAL = "arrival"
    """An event for which ``on_arrival`` of a custom trigger has fired."""


@checked_on_failure
@dataclass(slots=True)
class TriggerCall:
    """The second argument of a rule, besides the event (UH-19); a test can make one: ``TriggerCall()``."""

    key: Any = None
    """The value of the window's key."""
    cache: dict[str, Any] = field(default_factory=dict)
    """Values of the rule, kept from call to call while the window is open; they must be JSON values."""
    fired_at: int = 0
    """The clock at the arrival of the event, in microseconds."""

    def __repr__(self) -> str:
        return fields_repr(self)

    @property
    def fire_ms(self) -> int:
        """The clock at the arrival of the event, in milliseconds since the epoch (TriggerFireMs)."""
        return self.fired_at // 1_000


TriggerRule: TypeAlias = "Callable[[Tuple, TriggerCall], Any]"
"""A function that is called for each event, in order of arrival, when the event is in the window (UH-16); it returns a
FireResult."""


class ColumnRule:
    """A rule of a trigger that reads columns itself, and is not called with a Tuple."""

    columns: ClassVar[Sequence[str]]
    """The columns that the rule reads."""

    def read(self, rows: pa.Table) -> Iterator[Any]:
        """Called with the new events of a task; yields the first argument of ``ask`` for each event."""
        raise NotImplementedError

    def ask(self, event: Any, *call: Any) -> Any:
        """Called for each event, with the TriggerCall for a RuleTrigger; returns a FireResult, or for a DailyByRule a
        DayTime."""
        raise NotImplementedError


TimeRule: TypeAlias = "Callable[[Tuple], DayTime]"
"""A function that returns the time of day at which the window of an event fires (UH-23)."""


def function_of_rule(rule: Any) -> Callable[..., Any]:
    """Returns the function to call for each event: the rule itself, or the function of a ColumnRule."""
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
        read_flag("from_first", self.from_first)


@checked_value
@dataclass(frozen=True)
class RuleTrigger:
    """Fires as a rule decides for each event (UH-16 to UH-19), or when the timeout has passed (UH-15).

    An event on which the rule fails is refused, and not added to the window; an error that is not about the event ends
    the run, as with timestamp extractors.
    """

    rule: TriggerRule
    """A function of an event and a TriggerCall that returns a FireResult."""
    timeout: Duration | None = None
    """Time after the first event, or the last; None: only the rule fires."""
    from_first: bool = True
    """True if the timeout runs from the first event; False: from the last."""

    def __repr__(self) -> str:
        return fields_repr(self)

    def __post_init__(self) -> None:
        _check_timeout(self.timeout)
        read_flag("from_first", self.from_first)
        _check_callable(self.rule)


@checked_value
@dataclass(frozen=True)
class DailyTrigger:
    """Fires and purges once a day, at a time of day (UH-20, UH-21); an event at that moment is in the next window."""

    time: DayTime
    """The time of day, with its zone."""
    max_empty: int | None = None
    """Number of successive firings without events after which the key is forgotten (UH-22); None: never."""

    def __post_init__(self) -> None:
        if not isinstance(self.time, DayTime):
            raise ConfigError(
                f"DailyTrigger({self.time!r:.60})",
                why="its time is a DayTime, which has a zone",
                do='write DailyTrigger(DayTime(hours(18).micros, "Europe/Berlin")) for 18:00 there',
            )
        _check_max_empty(self.max_empty)


@checked_value
@dataclass(frozen=True)
class DailyByRule:
    """Fires and purges once a day, at the time of day that a rule returns for the latest event (UH-23).

    A time that has passed today is that of tomorrow. The time holds for the following days too, until another event
    comes. An event on which the rule fails is refused, and not added to the window; an error that is not about the
    event ends the run, as with timestamp extractors.
    """

    rule: TimeRule
    """A function of an event that returns a DayTime."""
    max_empty: int | None = None
    """Number of successive firings without events after which the key is forgotten (UH-22); None: never."""

    def __repr__(self) -> str:
        return fields_repr(self)

    def __post_init__(self) -> None:
        _check_max_empty(self.max_empty)
        _check_callable(self.rule)


KeyTrigger: TypeAlias = CountTrigger | RuleTrigger | DailyTrigger | DailyByRule

MOST_BYTES = 2_000_000_000
"""Greatest possible limit of the bytes of a window: texts and binaries in an Arrow column have less than 2^31 bytes."""


@dataclass(frozen=True)
class Capacity:
    """Limits of the size of the window of a key, in addition to its trigger.

    A window fires (``FULL``) and is cleared as soon as it holds ``events`` events, or exactly ``bytes`` bytes. It also
    fires before an event with which it would hold more bytes; this event opens the next window. An event that is larger
    than ``bytes`` forms a window by itself.
    """

    events: int | None = None
    """Greatest number of events in a window; None: no limit."""
    bytes: int | None = None
    """Greatest number of bytes in a window; None: no limit. Texts and binaries count with their length, also within
    lists, maps and structs; other values with their size in Arrow, such as 8 bytes for a long."""
    columns: tuple[str, ...] = ()
    """The columns whose bytes count; empty: all columns."""

    @property
    def needs_all_columns(self) -> bool:
        """True if the bytes of all columns count."""
        return self.bytes is not None and not self.columns

    def __post_init__(self) -> None:
        for name, limit, most in (("max_events", self.events, None), ("max_bytes", self.bytes, MOST_BYTES)):
            is_whole = isinstance(limit, int) and not isinstance(limit, bool)
            if limit is not None and (not is_whole or limit < 1 or (most is not None and limit > most)):
                raise ConfigError(
                    f"{name}={limit!r}",
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


def _check_max_empty(count: int | None) -> None:
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
        raise ConfigError(
            f"max_empty={count!r}",
            why="it is the number of empty firings after which a key is forgotten",
            do="give 1 or more, or leave it out",
        )


def _check_callable(rule: object) -> None:
    if not callable(rule):
        raise ConfigError(f"rule={rule!r:.60}", why="it cannot be called", do="give a function")
