"""References to sections of segments: where rows of a task lie, and what is known of them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from windowing.data.events import Events


class Flags(NamedTuple):
    """Where the flags of rows lie: a section of its own."""

    segment: str
    offset: int
    length: int
    checksum: int


@dataclass(frozen=True)
class Ref:
    """Where rows of one task lie, and what is known of them without opening the file."""

    segment: str
    offset: int
    length: int
    rows: int
    _: KW_ONLY
    start: int = 0
    """Rows before this one are not needed any more."""
    earliest: int = 0
    """The least time of the rows that may still be in a window, in microseconds; FOREVER where there are none."""
    latest: int = 0
    """The greatest, and -FOREVER where there are none: all are kept to be reported as expired."""
    by_stream: tuple[int, ...] = ()
    """How many of the rows still needed each input stream has."""
    level: int = 0
    """How often its rows have been compacted."""
    flags: Flags | None = None
    """Where it is written what has become of each row, if not only the first are not needed (manager.keyed.held)."""
    checksum: int = 0
    """The CRC-32 of the section; 0 for one in memory."""

    @property
    def alive(self) -> int:
        """How many rows are still needed."""
        return self.rows - self.start if self.flags is None else sum(self.by_stream)

    @property
    def has_live(self) -> bool:
        """Whether some of its rows may still be in a window."""
        return self.alive > 0 and self.earliest <= self.latest

    def to_json(self) -> list[Any]:
        """As a list, for the manifest."""
        return [
            self.segment, self.offset, self.length, self.rows, self.start,
            self.earliest, self.latest, list(self.by_stream), self.level, self.flags and list(self.flags),
            self.checksum,
        ]  # fmt: skip

    @staticmethod
    def from_json(values: list[Any]) -> Ref:
        """From the list of ``to_json``."""
        segment, offset, length, rows, start, earliest, latest, by_stream, level, flags, checksum = values
        return Ref(
            segment,
            offset,
            length,
            rows,
            start=start,
            earliest=earliest,
            latest=latest,
            by_stream=tuple(by_stream),
            level=level,
            flags=None if flags is None else Flags(*flags),
            checksum=checksum,
        )

    def to_flags(self) -> Ref | None:
        """Where its flags lie."""
        if self.flags is None:
            return None
        segment, offset, length, checksum = self.flags
        return Ref(segment, offset, length, self.rows, checksum=checksum)

    def without(self, rows: int, events: Events, streams: int) -> Ref:
        """What is left without the first rows; ``events`` are those still needed, or the first of them."""
        left = events.slice(rows, len(events))
        dropped = events.slice(0, rows).by_stream(streams)
        return replace(
            self,
            start=self.start + rows,
            earliest=int((left if len(left) else events).timestamps[0 if len(left) else -1]),
            by_stream=tuple(int(n) for n in np.array(self.by_stream) - dropped),
        )
