"""Late events of sliding logs: those whose own window has closed, and that no open window of their key holds."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manager.keyed.held import Held


def without_open_window(
    times: NDArray[np.int64],
    keys: NDArray[np.int64] | None,
    candidates: NDArray[np.bool_],
    closed_until: NDArray[np.int64],
    length: int,
    held: Callable[[], Held | None],
) -> NDArray[np.bool_]:
    """Which events, in order of arrival, are late.

    An event at t makes the window (t - length, t], and the one in which it is no more, which ends at t + length. It is
    late if the first has closed, and no event admitted before it has made one that is open and holds t, as in Kafka
    Streams. Only keys with an event whose own window has closed are examined event by event. ``held`` returns the live
    events of earlier batches, and is called only if there are such keys. Times and the length are in microseconds.
    """
    behind = candidates & (times <= closed_until)
    late = np.zeros(len(times), np.bool_)
    if not behind.any():
        return late
    codes = np.zeros(len(times), np.int64) if keys is None else keys
    wanted = np.unique(codes[behind])
    admitted = _times_by_key(wanted, held())
    for row in np.flatnonzero(np.isin(codes, wanted) & candidates).tolist():
        time, limit, before = int(times[row]), int(closed_until[row]), admitted[int(codes[row])]
        if time <= limit and not _holds(before, time, limit, length):
            late[row] = True
        else:
            insort(before, time)
    return late


def _times_by_key(keys: NDArray[np.int64], held: Held | None) -> dict[int, list[int]]:
    """The times of the live events of these keys, ascending."""
    found: dict[int, list[int]] = {key: [] for key in keys.tolist()}
    if held is None or not len(held):
        return found
    held_keys = np.zeros(len(held), np.int64) if held.keys is None else held.keys
    wanted = np.isin(held_keys, keys)
    for key, time in zip(held_keys[wanted].tolist(), held.times[wanted].tolist(), strict=True):
        found[key].append(time)
    for times in found.values():
        times.sort()
    return found


def _holds(times: list[int], time: int, closed_until: int, length: int) -> bool:
    """Whether events of these times have made a window that is open and holds a time that is closed itself."""
    leaving = _has_between(times, closed_until - length, time)
    return leaving or _has_between(times, closed_until, time + length)


def _has_between(times: list[int], after: int, before: int) -> bool:
    place = bisect_right(times, after)
    return place < len(times) and times[place] < before
