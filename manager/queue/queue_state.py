"""The state of a window manager between evaluations, apart from its events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass
class QueueState:
    """The state of a manager apart from its events; positions count from the head of the queue."""

    base: int = 0
    """Number of events that have left the queue."""
    settled_count: int = 0
    """Number of events of the queue in final order."""
    accounted: int = 0
    """Events before this position are in an account: they have been in a window, or can be in none."""
    previous: list[int] | None = None
    """The [start, stop) positions of the last window fired."""
    previous_frontier: int | None = None
    """The frontier of the last evaluation in microseconds; None before the first."""
    last_reference: int | None = None
    """The reference of the last window fired, in microseconds."""


def is_accounted(state: QueueState, events: int) -> NDArray[np.bool_]:
    """Which of so many events of a queue, in its order, are in an account."""
    places = np.arange(events)
    accounted: NDArray[np.bool_] = places < state.accounted
    return accounted
