"""Who is late for a session: events before the watermark, less the allowed lateness, that no open one takes (AT-7)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manager.keyed.held import Held


def turned_away(
    times: NDArray[np.int64],
    keys: NDArray[np.int64] | None,
    candidates: NDArray[np.bool_],
    over: NDArray[np.int64],
    gaps: NDArray[np.int64],
    held: Callable[[], Held | None],
    *,
    touching: bool,
) -> tuple[NDArray[np.bool_], list[int]]:
    """Which events, in order of arrival, are late; and before which of them windows must be evaluated.

    ``over``: sessions that end up to here have closed when the event comes. An event is late if it is before that and
    no open session takes it. Before an event that is let in next to a session which closed in this very batch, that
    session must be given out, or the two would become one. Only keys with an event behind ``over`` are looked at one
    event at a time; ``held`` gives the live events of earlier batches, and is called only if there are such keys.
    """
    behind = candidates & (times < over)
    late = np.zeros(len(times), np.bool_)
    if not behind.any():
        return late, []
    codes = np.zeros(len(times), np.int64) if keys is None else keys
    wanted = np.unique(codes[behind])
    sessions: dict[int, list[tuple[int, int]]] = {key: [] for key in wanted.tolist()}
    before = held()
    if before is not None and len(before):
        theirs = np.zeros(len(before), np.int64) if before.keys is None else before.keys
        here = np.isin(theirs, wanted)
        spans = gaps_of(before, int(gaps[0]) if len(gaps) else 0)[here]
        for key, time, gap in zip(theirs[here].tolist(), before.times[here].tolist(), spans.tolist(), strict=True):
            _join(sessions[key], time, time + gap, touching)
    splits: list[int] = []
    places = np.flatnonzero(np.isin(codes, wanted) & candidates)
    for place in places.tolist():
        time, end, limit = int(times[place]), int(times[place] + gaps[place]), int(over[place])
        mine = sessions[int(codes[place])]
        low, high = _met(mine, time, end, touching)
        first = low
        while first < high and mine[first][1] <= limit:
            first += 1
        if time < limit and first == high:
            late[place] = True
            continue
        if first > low:
            splits.append(place)
            del mine[:first]  # they end before the others, and have closed
        _join(mine, time, end, touching)
    return late, splits


def gaps_of(held: Held, usual: int) -> NDArray[np.int64]:
    """The session gap of each event."""
    return np.full(len(held), usual, np.int64) if held.gaps is None else held.gaps


def _met(sessions: list[tuple[int, int]], start: int, end: int, touching: bool) -> tuple[int, int]:
    """Which of the sessions of a key, which are apart and in order, the span of an event meets: from, up to."""
    find = bisect_left if touching else bisect_right
    low = find(sessions, start, key=lambda each: each[1])
    high = (bisect_right if touching else bisect_left)(sessions, end, key=lambda each: each[0])
    return low, max(low, high)


def _join(sessions: list[tuple[int, int]], start: int, end: int, touching: bool) -> None:
    """Add an event's span, and merge what it joins."""
    low, high = _met(sessions, start, end, touching)
    if high > low:
        start, end = min(start, sessions[low][0]), max(end, sessions[high - 1][1])
    sessions[low:high] = [(start, end)]
