"""What a window manager remembers from one evaluation to the next, beside its events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class ManagerState:
    """What a manager must remember beside its events; positions count from the head of the queue."""

    base: int = 0
    """Events that have left the queue."""
    settled: int = 0
    """Events of the queue that have their final place."""
    decided: int = 0
    """Events before this position have been in a window, or can be in none."""
    previous: list[int] | None = None
    """Where the window fired last starts and stops."""
    passed: int | None = None
    """The frontier of the last evaluation in microseconds."""
    last_reference: int | None = None
    """The reference of the last window fired, in microseconds."""
    trigger: dict[str, Any] = field(default_factory=dict)
    """What the trigger keeps, if it decides event by event."""
    marks: dict[str, list[int]] = field(default_factory=dict)
    """What an eviction that decides event by event has said of events still in the queue."""
