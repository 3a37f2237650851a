"""What an eviction policy may say of one event, and the context it decides in (ST-19)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class EvictionAction(Enum):
    """An eviction policy's decision about one event of the queue."""

    EXPIRE = "remove it for good"
    PROCESS = "it is in this window"
    KEEP = "leave it for a later window"
    STOP = "leave it and all that follow for a later window"


@dataclass(frozen=True, slots=True)
class EvictionContext:
    """The context of a window that fires."""

    reference: int
    """The time of the firing in microseconds: the aligned end, or the time of the event that a count fired on."""
    count: int
    """Number of unexpired events of the queue up to the reference."""


@dataclass(frozen=True, slots=True)
class QueuedEvent:
    """One event of the queue, as a policy that decides event by event sees it."""

    timestamp: int
    """Event time in microseconds; in processing time, the clock at arrival."""
    position: int
    """Index among the unexpired events of the queue: 0 is the oldest."""
    row: Callable[[], dict[str, Any]] = field(repr=False)
    """Returns the fields of the event; slow, so call it only when needed."""
