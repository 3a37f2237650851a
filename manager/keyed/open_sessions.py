"""Late events of sessions: those before the watermark, less the allowed lateness, that no open session takes (AT-7)."""

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
    closed_until: NDArray[np.int64],
    gaps: NDArray[np.int64],
    held: Callable[[], Held | None],
    *,
    touching: bool,
    by_end: bool = False,
) -> tuple[NDArray[np.bool_], list[int]]:
    """Which events, in order of arrival, are late, and the indices of the events before which windows must be
    evaluated.

    Sessions that end up to ``closed_until`` have closed when the event comes. An event is late if it is before that
    time and no open session takes it; with ``by_end``, if in addition the session that it would open ends up to there.
    Before an event is admitted next to a session that closed in this same batch, that session must be released, or the
    two would merge. Only keys with an event before ``closed_until`` are examined event by event. ``held`` returns the
    live events of earlier batches, and is called only if there are such keys.
    """
    behind = candidates & (times < closed_until)
    late = np.zeros(len(times), np.bool_)
    if not behind.any():
        return late, []
    codes = np.zeros(len(times), np.int64) if keys is None else keys
    wanted = np.unique(codes[behind])
    sessions = _sessions_of(wanted, held(), int(gaps[0]) if len(gaps) else 0, touching)
    evaluate_before: list[int] = []
    rows = np.flatnonzero(np.isin(codes, wanted) & candidates)
    for row in rows.tolist():
        time, end, limit = int(times[row]), int(times[row] + gaps[row]), int(closed_until[row])
        open_sessions = sessions[int(codes[row])]
        low, high = _met(open_sessions, time, end, touching)
        first = low
        while first < high and open_sessions[first][1] <= limit:
            first += 1
        closed_already = end <= limit if by_end else time < limit
        if closed_already and first == high:
            late[row] = True
            continue
        if first > low:
            evaluate_before.append(row)
            del open_sessions[:first]  # they end first, and have closed
        _join(open_sessions, time, end, touching)
    return late, evaluate_before


def _sessions_of(
    keys: NDArray[np.int64], held: Held | None, usual: int, touching: bool
) -> dict[int, list[tuple[int, int]]]:
    """The start and end of the sessions that live events of these keys form; ``usual``: the gap of those without."""
    sessions: dict[int, list[tuple[int, int]]] = {key: [] for key in keys.tolist()}
    if held is None or not len(held):
        return sessions
    held_keys = np.zeros(len(held), np.int64) if held.keys is None else held.keys
    wanted = np.isin(held_keys, keys)
    spans = gaps_of_events(held.gaps, usual, len(held))[wanted]
    for key, time, gap in zip(held_keys[wanted].tolist(), held.times[wanted].tolist(), spans.tolist(), strict=True):
        _join(sessions[key], time, time + gap, touching)
    return sessions


def gaps_of_events(own: NDArray[np.int64] | None, usual: int, count: int) -> NDArray[np.int64]:
    """The session gap of each event in microseconds; ``usual`` where events have none of their own."""
    return np.full(count, usual, np.int64) if own is None else own


def _met(sessions: list[tuple[int, int]], start: int, end: int, touching: bool) -> tuple[int, int]:
    """The range of a key's sessions, which are disjoint and in order, that the span of an event meets."""
    find = bisect_left if touching else bisect_right
    low = find(sessions, start, key=lambda session: session[1])
    high = (bisect_right if touching else bisect_left)(sessions, end, key=lambda session: session[0])
    return low, max(low, high)


def _join(sessions: list[tuple[int, int]], start: int, end: int, touching: bool) -> None:
    """Add the span of an event, and merge the sessions that it joins."""
    low, high = _met(sessions, start, end, touching)
    if high > low:
        start, end = min(start, sessions[low][0]), max(end, sessions[high - 1][1])
    sessions[low:high] = [(start, end)]
