"""When the windows of keys fire by a count, a timeout or a time of day: decided on whole arrays (UH-14, UH-15, UH-20).

Events are in order of (key, arrival); a window is a run of events of one key. All times are microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from windowing.daytimes import DayTime, next_of
from windowing.timestamps import FOREVER
from windowing.triggers import CountTrigger, FiredBy, RuleTrigger

if TYPE_CHECKING:
    from numpy.typing import NDArray

CODES = tuple(FiredBy)
"""What a number in an array of causes stands for."""

COUNT, RULE, TIMEOUT, TIME, CLOSE = (CODES.index(each) for each in FiredBy)


@dataclass(frozen=True)
class Blocks:
    """The events of each key: key ``i`` has those from ``edges[i]`` to ``edges[i + 1]``."""

    times: NDArray[np.int64]
    """When each event arrived; ascending within a key."""
    edges: NDArray[np.int64]

    @property
    def until(self) -> NDArray[np.int64]:
        """For each event, where the events of its key end."""
        return np.repeat(self.edges[1:], np.diff(self.edges))


@dataclass(frozen=True)
class Fired:
    """Windows that fire and are purged: they hold the events from ``lows`` to ``highs``."""

    lows: NDArray[np.int64]
    highs: NDArray[np.int64]
    ends: NDArray[np.int64]
    causes: NDArray[np.int8]
    next_due: int | None
    """The clock at which the next of the windows that are still open is due; None where no clock fires them."""


@dataclass(frozen=True)
class Timeout:
    """The timers of a window: a time after its last event, and after its first (UH-15)."""

    micros: int | None
    from_first: bool

    @staticmethod
    def of(trigger: CountTrigger | RuleTrigger) -> Timeout:
        """The timers that a trigger asks for."""
        return Timeout(None if trigger.timeout is None else trigger.timeout.micros, trigger.from_first)

    def passed(self, first: int, last: int, now: int) -> bool:
        """Whether a timer has fired before an event that comes now.

        That after the first event comes before an event of its instant, that after the last one after it (UH-12).
        """
        if self.micros is None:
            return False
        return (self.from_first and now >= first + self.micros) or now > last + self.micros

    def end(self, first: int, last: int) -> int:
        """When the first of the timers fires; the last event where there is none."""
        if self.micros is None:
            return last
        return (first if self.from_first else last) + self.micros

    def due(self, first: int, last: int) -> int | None:
        """From which clock on the window is to be fired, if no event comes."""
        return None if self.micros is None else self.end(first, last) + (not self.from_first)


def fire_open(blocks: Blocks, lows: NDArray[np.int64], timeout: Timeout, clock: int) -> Fired:
    """Of windows that last up to the end of their keys' events: those that the clock fires."""
    highs = blocks.until[lows]
    firsts, lasts = blocks.times[lows], blocks.times[highs - 1]
    if timeout.micros is None:
        due = np.full(len(lows), clock == FOREVER)
        return Fired(lows[due], highs[due], lasts[due], np.full(int(due.sum()), CLOSE, np.int8), None)
    ends = (firsts if timeout.from_first else lasts) + timeout.micros
    when = ends + (not timeout.from_first)
    due = when <= clock
    waiting = when[~due]
    causes = np.full(int(due.sum()), TIMEOUT, np.int8)
    return Fired(lows[due], highs[due], ends[due], causes, int(waiting.min()) if len(waiting) else None)


def fire_counted(blocks: Blocks, trigger: CountTrigger, clock: int) -> Fired:
    """The windows that a count, or its timeouts, have fired up to a clock (UH-14, UH-15)."""
    times, until, size = blocks.times, blocks.until, trigger.count.value
    timeout = Timeout.of(trigger)
    following = np.minimum(np.arange(len(times)) + size, until)
    if timeout.micros is not None:
        apart = np.diff(times) > timeout.micros
        breaks = np.append(np.flatnonzero(apart) + 1, len(times))
        following = np.minimum(following, breaks[np.searchsorted(breaks, np.arange(len(times)), side="right")])
        if timeout.from_first:
            following = np.minimum(following, _so_long_after(blocks, timeout.micros))
    lows = _chained(blocks.edges[:-1], following, until)
    highs = following[lows]
    full = highs - lows == size
    over = full | (highs < until[lows])
    lows_over, highs_over, full = lows[over], highs[over], full[over]
    firsts, lasts = times[lows_over], times[highs_over - 1]
    late = (firsts if timeout.from_first else lasts) + (timeout.micros or 0)
    closed = Fired(
        lows_over, highs_over, np.where(full, lasts, late), np.where(full, COUNT, TIMEOUT).astype(np.int8), None
    )
    return _both(closed, fire_open(blocks, lows[~over], timeout, clock))


def fire_daily(blocks: Blocks, day: DayTime, clock: int) -> Fired:
    """The windows that a time of day has fired up to a clock (UH-20)."""
    moments, until = next_of(day, blocks.times), blocks.until  # an event of that very moment waits for the next
    first = np.ones(len(moments), np.bool_)
    first[1:] = (moments[1:] != moments[:-1]) | (until[1:] != until[:-1])
    lows = np.flatnonzero(first)
    highs = np.append(lows[1:], len(moments))
    ends = moments[lows]
    due = ends <= clock
    waiting = ends[~due]
    causes = np.full(int(due.sum()), TIME, np.int8)
    return Fired(lows[due], highs[due], ends[due], causes, int(waiting.min()) if len(waiting) else None)


def _both(one: Fired, other: Fired) -> Fired:
    return Fired(
        np.concatenate([one.lows, other.lows]),
        np.concatenate([one.highs, other.highs]),
        np.concatenate([one.ends, other.ends]),
        np.concatenate([one.causes, other.causes]),
        other.next_due,
    )


def _so_long_after(blocks: Blocks, micros: int) -> NDArray[np.int64]:
    """For each event, the first of its key that comes so much later or more."""
    times = blocks.times
    if not len(times):
        return np.zeros(0, np.int64)
    low = int(times.min())
    span = int(times.max()) - low + micros + 1
    numbers = np.repeat(np.arange(len(blocks.edges) - 1), np.diff(blocks.edges))
    if len(blocks.edges) * span < 1 << 62:
        places = numbers * span + (times - low)
        return np.searchsorted(places, places + micros)
    found = np.empty(len(times), np.int64)
    for start, stop in zip(blocks.edges[:-1].tolist(), blocks.edges[1:].tolist(), strict=True):
        mine = times[start:stop]
        found[start:stop] = start + np.searchsorted(mine, mine + micros)
    return found


_MANY = 32
"""From so many keys on, the next window of all of them is found at once."""


def _chained(heads: NDArray[np.int64], following: NDArray[np.int64], until: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where windows begin: at the first event of each key, and wherever the one before it ends."""
    found, at = [], heads
    while len(at) >= _MANY:
        found.append(at)
        after = following[at]
        at = after[after < until[at]]
    rest = []
    for place in at.tolist():
        stop, here = int(until[place]), place
        while here < stop:
            rest.append(here)
            here = following.item(here)
    return np.sort(np.concatenate([*found, np.array(rest, np.int64)]))
