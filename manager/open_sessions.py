"""Who is late for a session: events behind the watermark that no open session takes (AT-7)."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manager.held import Held


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
        near = [each for each in mine if _meets(each, time, end, touching)]
        opened = [each for each in near if each[1] > limit]
        if time < limit and not opened:
            late[place] = True
            continue
        if len(opened) < len(near):
            splits.append(place)
            mine[:] = [each for each in mine if each[1] > limit]
        _join(mine, time, end, touching)
    return late, splits


def gaps_of(held: Held, usual: int) -> NDArray[np.int64]:
    """The session gap of each event."""
    return np.full(len(held), usual, np.int64) if held.gaps is None else held.gaps


def _meets(session: tuple[int, int], start: int, end: int, touching: bool) -> bool:
    if touching:
        return session[0] <= end and start <= session[1]
    return session[0] < end and start < session[1]


def _join(sessions: list[tuple[int, int]], start: int, end: int, touching: bool) -> None:
    """Add an event's span, and merge what it joins."""
    met = [each for each in sessions if _meets(each, start, end, touching)]
    for each in met:
        sessions.remove(each)
        start, end = min(start, each[0]), max(end, each[1])
    insort(sessions, (start, end))
