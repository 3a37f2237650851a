"""Events, windows, and times as scenario files write them: what all chapters speak of.

Times are whole microseconds since 1970. ``FOREVER`` is the end of the streams, and the end of what has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

Json = dict[str, Any]
Key = tuple[str | None, ...] | None
Over = Callable[[int], bool]
"""Whether time has closed a window that ends at this moment."""

COLUMNS = ("k", "q", "v", "x", "ts", "m", "p", "at", "until", "gap", "cti", "shape")
"""Those of all events, where no bolt has left some out."""
FOREVER = 1 << 62
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OPEN_END = (datetime(9999, 12, 30, 10, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
"""Ends from here on are none (joins, "By lifetime")."""
NO_END = (1 << 63) - 1
"""The end that a bolt is told of a window without one (bolts)."""
UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


@dataclass(eq=False)
class Event:
    """An event that comes to a bolt."""

    id: str
    number: int
    """In order of arrival."""
    fields: Json
    stream: str
    """The input that it came on."""
    task: int
    clock: int
    last: bool
    """False if it is a copy for one task, and others are to follow."""
    own: int | None
    """The time that it says."""
    time: int
    """The one that it was assigned."""
    key: Key = None
    end: int | None = None
    """The end of its lifetime; None of a point."""
    gap: int | None = None
    """The gap of a session after it, where it has one of its own."""
    message: str | None = None
    shape: str | None = ""
    """Which kind of event it is, where a column says so; None where that is no kind."""
    met: int | None = None
    """The watermark that it met."""
    came: int = 0
    """The time that it had before it was moved because its windows had closed."""
    arrived: int | None = None
    """The time of its arrival, where it is known."""
    sent: int | None = None
    """The watermark that a row of the source is, which is then no event."""

    @property
    def until(self) -> int:
        """The moment from which on it is no more: a point is ``[time, time + 1us)`` ("Bounds")."""
        return self.time + 1 if self.end is None else self.end


@dataclass(eq=False)
class Window:
    """A window that is open, and the events in it."""

    start: Any
    """None where it is one of a number of events."""
    end: int
    events: list[Event] = field(default_factory=list)
    key: Key = None
    place: int = 0
    """Which of the bolt's kinds of window it is of."""
    follows: bool = False
    """Whether it is a session that begins where its longest duration closed another, and does not hold that moment."""
    fired: int = 0
    """How often; the rest is of windows that fire more than once."""
    shown: set[Event] = field(default_factory=set)
    """The events that a firing has shown."""
    ended_at: int | None = None
    """The end that it had when it fired at its end; None where time has not come that far."""
    mark: int | None = None
    """The watermark at its last firing, or when its first event was seen."""
    clock: int | None = None
    """The clock at that moment."""
    shut: bool = False
    """Whether a firing has closed it."""
    repaired: bool = False
    """Whether its events have been repaired since it last fired."""
    at_end: bool = False
    """Whether ``on_end`` of a policy has fired it because the streams end."""

    def covers(self, other: Window) -> bool:
        """True if another one lies within it."""
        return bool(self.start <= other.start and other.end <= self.end)

    def overlaps(self, other: Window) -> bool:
        """True if they have a moment in common."""
        return bool(self.start < other.end and other.start < self.end)


def in_order(events: Iterable[Event]) -> list[Event]:
    """By time, then by arrival (semantics, "Ties": at the same time events are in the order of arrival)."""
    return sorted(events, key=lambda event: (event.time, event.number))


def ids(events: Iterable[Event]) -> list[str]:
    return [event.id for event in events]


def least(*given: int | None) -> int | None:
    """Of those that are known; None where none is."""
    return min((each for each in given if each is not None), default=None)


def most(*given: int | None) -> int | None:
    return max((each for each in given if each is not None), default=None)


def text(value: Any) -> str | None:
    return None if value is None else str(value)


def moment(value: Any) -> int:
    """A time of a scenario file (scenarios, "Times")."""
    if isinstance(value, str):
        parsed = datetime.fromisoformat(value)
        return ((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)) - EPOCH) // timedelta(microseconds=1)
    return value * 1000 if isinstance(value, int) else round(value * 1000)


def moment_in(fields: Json, name: str | None) -> int | None:
    """The time in a column; None where there is none, or no such column is named."""
    return None if name is None or fields.get(name) is None else moment(fields[name])


def milliseconds(time: int | None) -> Any:
    """As an answer shows a time."""
    if time is None:
        return None
    if time >= FOREVER:
        return "+inf"
    return time // 1000 if time % 1000 == 0 else time / 1000


def duration(given: Any) -> int:
    """``"150us"``, ``"20ms"``, ``"-5s"``; a number is one of milliseconds."""
    if isinstance(given, int):
        return given * 1000
    number, unit = re.fullmatch(r"(-?\d+)(us|ms|s|m|h|d)", given).groups()  # type: ignore[union-attr]
    return int(number) * UNITS[unit]
