"""A time as drawings write it."""

from __future__ import annotations

from collections.abc import Collection

from topologies.io.times import written
from windowing.time.timestamps import EARLIEST, FOREVER, LATEST, to_datetime

SECOND = 1_000_000
DAY = 86_400 * SECOND


def time_text(at: int, *, as_clock: bool, dated: bool, seconds: bool = True) -> str:
    """A time, given in microseconds, as text: by the clock, with its date and seconds where these are asked for; in
    milliseconds where it is not to be by the clock, or cannot."""
    if at == FOREVER:
        return "+inf"
    if not as_clock or not EARLIEST <= at <= LATEST:
        return str(written(at))
    moment = to_datetime(at)
    text = f"{moment:%m-%d %H:%M}" if dated else f"{moment:%H:%M}"
    if seconds:
        text = f"{text}:{moment:%S}"
    return text if at % SECOND == 0 else f"{text}.{moment:%f}"[: -3 if at % 1000 == 0 else None]


def are_of_a_clock(times: Collection[int]) -> bool:
    """Whether times are those of today's world, and not counted from zero."""
    return bool(times) and min(times) > 3 * 365 * DAY
