"""The only module that reads the wall clock; all other code gets the time as an argument."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Returns the present time in microseconds since the epoch."""


def system_clock() -> int:
    """Returns the wall clock, in microseconds since the epoch."""
    return time.time_ns() // 1_000
