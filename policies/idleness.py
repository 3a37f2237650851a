"""Idleness: how far the clock advances a watermark when no event does."""

from __future__ import annotations

from collections.abc import Iterable

from windowing.settings.rules import IdleRule


def idle_end(rule: IdleRule, timeout: int, clock: int, last_arrival: int, ends: Iterable[int]) -> int | None:
    """The end of the last window that the idle timeout closes; None if it closes none. All times are in microseconds.

    ``ends`` are the ends of the open windows that hold events. Other windows are not closed: their events may still
    come.

    AFTER_WINDOW_END closes a window ``timeout`` after the later of its end and the last arrival (AT-17), or up to one
    step of the clock later. MAX_REMAINING closes it ``timeout`` after the last arrival, but not before its end (AT-19).
    An arrival at that very moment comes first: its clock is then ``last_arrival``.
    """
    if clock - last_arrival < timeout:
        return None
    limit = clock - timeout if rule is IdleRule.AFTER_WINDOW_END else clock
    return max((end for end in ends if end <= limit), default=None)


def estimated(arrived: int, arrived_at: int, clock: int) -> int:
    """The estimated arrival time while nothing arrives (AZ-6): the last one plus the time that has passed on the clock
    since."""
    return arrived + (clock - arrived_at)
