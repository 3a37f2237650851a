"""StreamInsight's windows over a list of lifetimes (SI-27 to SI-30)."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.oracles.expected import Json, Window
from tests.oracles.units import duration, floor_multiple

FOREVER = math.inf
TICK = 1


@dataclass(frozen=True)
class Lifetime:
    """An event as it was let in, `[start, end)`; the list that holds it is in order of arrival."""

    name: str
    start: int
    end: float
    stream: str
    edge: Any = None


def windows_of(bolt: Json, lifetimes: list[Lifetime], passed: float | None) -> list[Window]:
    """Every window with an event that ends at or before that moment, and perhaps others."""
    left = (one for one in lifetimes if one.start < one.end)
    ordered = sorted(left, key=lambda one: one.start)  # ties: as they arrived
    if "snapshot" in bolt:
        return _snapshots(ordered)
    if "count_by_start" in bolt:
        return _counts(bolt["count_by_start"], ordered)
    length, hop, offset = _hops(bolt)
    if not ordered or passed is None:
        return []
    last = passed if passed != FOREVER else max(one.end for one in ordered) + length
    found, start = [], floor_multiple(ordered[0].start, hop, offset)
    while start + length > ordered[0].start:
        start -= hop
    while start + length <= last:
        members = [one.name for one in ordered if one.start < start + length and one.end > start]
        if members:
            found.append(Window(start + length, tuple(members), start))
        start += hop
    return found


def touches_none(bolt: Json, one: Lifetime) -> bool:
    """Whether a lifetime lies in a gap between windows, or nothing is left of it."""
    if one.end <= one.start:
        return True
    if "length" not in bolt or one.end == FOREVER:
        return False
    return not windows_of(bolt, [one], FOREVER)


def _hops(bolt: Json) -> tuple[int, int, int]:
    length = duration(bolt["length"])
    hop = length if bolt.get("tumbling") else duration(bolt["sliding"])
    return length, hop, duration(bolt.get("offset", "0s"))


def _snapshots(ordered: list[Lifetime]) -> list[Window]:
    """A slice between each two moments at which an event begins or ends (SI-29)."""
    moments = sorted({one.start for one in ordered} | {int(one.end) for one in ordered if one.end != FOREVER})
    found = []
    for start, end in pairwise(moments):
        members = [one.name for one in ordered if one.start <= start and one.end >= end]
        if members:
            found.append(Window(end, tuple(members), start))
    return found


def _counts(number: int, ordered: list[Lifetime]) -> list[Window]:
    """Each run of N distinct start times, to a tick after the last of them (SI-30)."""
    starts = sorted({one.start for one in ordered})
    found = []
    for place in range(len(starts) - number + 1):
        run = starts[place : place + number]
        members = [one.name for one in ordered if run[0] <= one.start <= run[-1]]
        found.append(Window(run[-1] + TICK, tuple(members), run[0]))
    return found
