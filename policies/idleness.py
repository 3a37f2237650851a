"""Idleness: how far the clock moves a watermark when no event does."""

from __future__ import annotations

from collections.abc import Iterable

from windowing.rules import IdleRule


def idle_end(rule: IdleRule, timeout: int, clock: int, last_arrival: int, ends: Iterable[int]) -> int | None:
    """The end of the last window that the idle timeout closes; None while it closes none. Microseconds throughout.

    ``ends``: of the open windows that hold events. Others are not closed: what they would hold may still come.

    AFTER_WINDOW_END: a window closes ``timeout`` after the later of its end and the last arrival (AT-17): at most that,
    and one step of the clock. MAX_REMAINING: ``timeout`` after the last arrival, and not before its end (AT-19).
    An arrival at the very moment comes first: its clock is then ``last_arrival``.
    """
    if clock - last_arrival < timeout:
        return None
    limit = clock - timeout if rule is IdleRule.AFTER_WINDOW_END else clock
    return max((end for end in ends if end <= limit), default=None)


def estimated(arrived: int, arrived_at: int, clock: int) -> int:
    """The estimated time of arrival when nothing comes (AZ-6): the last one, and what the clock has gone since."""
    return arrived + (clock - arrived_at)
