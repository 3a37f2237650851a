"""What a temporal join answers, said a second time: every event against every other, from its docstring alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

NEVER = 10**9
"""Later than every moment."""


@dataclass(frozen=True)
class Lasting:
    """An event of one side; ``end`` does not belong to its life, and is ``NEVER`` where there is none."""

    side: str
    key: str | None
    start: int
    end: int


Row = tuple[int | None, int | None, int, int, int]
"""The left event and the right one by number, start and end of the overlap, and the time of the row."""


def overlaps(one: Lasting, other: Lasting) -> bool:
    """Whether two events are partners."""
    equal = one.key is not None and one.key == other.key
    return equal and one.side != other.side and max(one.start, other.start) < min(one.end, other.end)


def joined(events: Sequence[Lasting], how: str, watermark: int | None) -> list[Row]:
    """The rows that are out once the watermark is there; None: the streams are over, which ends what never ends."""
    rows = [row for row in _rows(events, how) if watermark is None or row[4] < watermark]
    return sorted(rows, key=lambda row: (row[4], str(row)))


def _rows(events: Sequence[Lasting], how: str) -> Iterator[Row]:
    lefts = [number for number, event in enumerate(events) if event.side == "left"]
    rights = [number for number, event in enumerate(events) if event.side == "right"]
    for left in lefts:
        partners = [right for right in rights if overlaps(events[left], events[right])]
        meetings = [max(events[left].start, events[right].start) for right in partners]
        if how == "semi" and partners:
            yield left, None, min(meetings), events[left].end, min(meetings)
        if how in ("inner", "left", "right", "full"):
            for right, begin in zip(partners, meetings, strict=True):
                yield left, right, begin, min(events[left].end, events[right].end), begin
        if how in ("left", "full", "anti") and not partners:
            yield left, None, events[left].start, events[left].end, events[left].end
    for right in rights:
        if how in ("right", "full") and not any(overlaps(events[left], events[right]) for left in lefts):
            yield None, right, events[right].start, events[right].end, events[right].end
