"""What happened to events over time: a point for each batch, fewer of them as a run progresses."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manager.storage.manifest import Manifest
from topologies.checkpoints.notes.timing_note import BoltTiming
from topologies.page.bolt_view import known

MOST = 600
"""Number of points that are kept."""
_DENSE = 120
"""The latest points are all kept."""

Point = dict[str, Any]


class Points:
    """The points of a run, the oldest first; each has a number that grows."""

    def __init__(self) -> None:
        self._old: list[Point] = []
        self._latest: deque[Point] = deque()
        self._every = 1
        """Of the old points those are kept whose numbers are multiples of this."""
        self._next = 0

    def add(self, point: Point) -> None:
        """Add the point of a batch; of older ones some are dropped where they are too many."""
        self._latest.append({"n": self._next, **point})
        self._next += 1
        if len(self._latest) > _DENSE:
            self._old += self._kept([self._latest.popleft()])
        if len(self._old) > MOST - _DENSE:
            self._every *= 2
            self._old = self._kept(self._old)

    def _kept(self, points: Sequence[Point]) -> list[Point]:
        return [point for point in points if point["n"] % self._every == 0]

    def __iter__(self) -> Iterator[Point]:
        return iter([*self._old, *self._latest])


def point_of(manifest: Manifest, timing: Mapping[str, BoltTiming], at: int | None) -> Point:
    """The point of a batch that has been committed at this time: totals so far, times in microseconds."""
    return {
        "batch": manifest.batch,
        "closing": manifest.closing,
        "clock": manifest.clock,
        "at": manifest.clock if at is None else at,
        "bolts": {
            name: {
                "accounts": _given(manifest.bolts[name].accounts.totals(sum(manifest.bolts[name].pending))),
                "fired": manifest.bolts[name].fired,
                "watermark": known(manifest.bolts[name].watermark.current) if rules.event_time else None,
            }
            for name, rules in timing.items()
            if name in manifest.bolts
        },
        "spouts": {name: counts.get("rows", 0) for name, counts in manifest.spouts.items()},
    }


def _given(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}
