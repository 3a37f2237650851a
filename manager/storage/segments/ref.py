"""References to sections of segments: where rows of a task lie, how many are needed, and the range of their times."""

from __future__ import annotations

from collections.abc import Mapping
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
    earliest_live: int | None = None
    """A lower bound on the times of the live rows, in microseconds; None where none is live."""
    latest_live: int | None = None
    """The greatest time of the live rows, likewise."""
    by_stream: tuple[int, ...] = ()
    """Per input stream, the number of rows still needed."""
    level: int = 0
    """Compactions so far; from 1024 on the rows are settled and in final order."""
    flags: Flags | None = None
    """Where the flags of the rows lie (``manager.keyed.held``); None where all from ``start`` on are needed."""
    checksum: int = 0
    """The CRC-32 of the section; 0 for one in memory."""

    @property
    def needed(self) -> int:
        """Number of rows still needed: live ones, and those that have yet to be reported as expired."""
        return self.rows - self.start if self.flags is None else sum(self.by_stream)

    def has_live_up_to(self, time: int) -> bool:
        """Whether a live row is at this time (microseconds) or before it."""
        return self.earliest_live is not None and self.earliest_live <= time

    def needed_up_to(self, time: int) -> int:
        """Number of rows still needed where one of the live ones may be at this time or before it; else 0."""
        return self.needed if self.has_live_up_to(time) else 0

    def segment_names(self) -> tuple[str, ...]:
        """The name of its segment, and that of its flags."""
        return (self.segment,) if self.flags is None else (self.segment, self.flags.segment)

    def has_live_after(self, time: int) -> bool:
        """Whether a live row is after this time (microseconds)."""
        return self.latest_live is not None and self.latest_live > time

    def to_json(self) -> list[Any]:
        """As a list, for the manifest."""
        return [
            self.segment, self.offset, self.length, self.rows, self.start,
            self.earliest_live, self.latest_live, list(self.by_stream), self.level, self.flags and list(self.flags),
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
            earliest_live=earliest,
            latest_live=latest,
            by_stream=tuple(by_stream),
            level=level,
            flags=None if flags is None else Flags(*flags),
            checksum=checksum,
        )

    def named(self, names: Mapping[str, str]) -> Ref:
        """The reference to the same rows in segments of other names."""
        flags = self.flags and self.flags._replace(segment=names[self.flags.segment])
        return replace(self, segment=names[self.segment], flags=flags)

    def to_flags(self) -> Ref | None:
        """Where its flags lie."""
        if self.flags is None:
            return None
        segment, offset, length, checksum = self.flags
        return Ref(segment, offset, length, self.rows, checksum=checksum)

    def without(self, rows: int, events: Events, streams: int) -> Ref:
        """The reference without its first needed rows; ``events`` are the needed rows, or the first of them."""
        left = events.slice(rows, len(events))
        dropped = events.slice(0, rows).by_stream(streams)
        return replace(
            self,
            start=self.start + rows,
            earliest_live=int((left if len(left) else events).timestamps[0 if len(left) else -1]),
            by_stream=tuple(int(n) for n in np.array(self.by_stream) - dropped),
        )
