"""The one place that reads the wall clock; everything else is told the time."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Gives the time now, in microseconds since the epoch."""


def system_clock() -> int:
    """The wall clock, in microseconds since the epoch."""
    return time.time_ns() // 1_000
