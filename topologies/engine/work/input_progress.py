"""What the events of one input tell about how far time is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class InputProgress:
    """What some events of an input of a bolt have shown; times in microseconds, None where no event has shown it."""

    latest: int | None = None
    """The latest event time."""
    skew: int | None = None
    """The largest difference by which an event's time here lies behind the time it came with."""
    arrived: int | None = None
    """The latest arrival time."""
    first_clock: int | None = None
    """The clock when the first event came."""
    last_clock: int | None = None
    """The clock when the last event came."""

    def merge(self, other: InputProgress) -> InputProgress:
        """What the events of both have shown."""
        return InputProgress(
            latest=_chosen(max, self.latest, other.latest),
            skew=_chosen(max, self.skew, other.skew),
            arrived=_chosen(max, self.arrived, other.arrived),
            first_clock=_chosen(min, self.first_clock, other.first_clock),
            last_clock=_chosen(max, self.last_clock, other.last_clock),
        )


def _chosen(choose: Callable[[Iterable[int]], int], *values: int | None) -> int | None:
    known = [value for value in values if value is not None]
    return choose(known) if known else None
