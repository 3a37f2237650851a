"""What an eviction policy says of one event, and what it is told when it is asked (ST-19)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Action(Enum):
    """An eviction policy's word on one event of the queue."""

    EXPIRE = "remove it for good"
    PROCESS = "it is in this window"
    KEEP = "leave it for a later window"
    STOP = "leave it and all that follow for a later window"


@dataclass(frozen=True, slots=True)
class EvictionContext:
    """What is known when a window fires."""

    reference: int
    """The time of the firing in microseconds: the aligned end, or the time of the event that a count fired on."""
    count: int
    """How many events of the queue that have not expired lie up to the reference."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the queue, as a policy that decides event by event sees it."""

    timestamp: int
    """Event time in microseconds; in processing time, the clock at arrival."""
    position: int
    """Place among the events of the queue that have not expired: 0 is the oldest."""
    row: Callable[[], dict[str, Any]]
    """Gives the fields of the event; slow, so only called when needed."""
