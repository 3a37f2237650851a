"""The references of one task, in order of arrival."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise
from typing import overload

import numpy as np

from manager.storage.segments.ref import Ref
from manager.storage.segments.ref_columns import RefColumns

_MANY = 16
"""From this many references on, columns are smaller and faster than single objects."""


class Refs(Sequence[Ref]):
    """References in order. Those that came in one batch are kept as columns, and are what they are to whoever goes
    through them; the driver asks them together, since it asks those of all tasks."""

    __slots__ = ("_parts",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, refs: Iterable[Ref] = ()) -> None:
        self._parts: list[Ref | RefColumns] = list(refs)

    @staticmethod
    def packed(refs: Iterable[Ref]) -> Refs:
        """References as they are kept where there may be many: those without flags together, as columns."""
        found = Refs()
        for loose, run in groupby(refs, lambda ref: ref.flags is not None):
            some = list(run)
            if loose or len(some) < _MANY:
                found._parts.extend(some)
            else:
                found._parts.append(RefColumns.of(some))
        return found

    def __len__(self) -> int:
        return sum(1 if isinstance(part, Ref) else len(part) for part in self._parts)

    def __iter__(self) -> Iterator[Ref]:
        return chain.from_iterable((part,) if isinstance(part, Ref) else part for part in self._parts)

    @overload
    def __getitem__(self, index: int) -> Ref: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Ref]: ...
    def __getitem__(self, index: int | slice) -> Ref | Sequence[Ref]:
        return list(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"Refs({list(self)})"

    def append(self, ref: Ref) -> None:
        """Add a reference at the end."""
        self._parts.append(ref)

    def extend(self, columns: RefColumns) -> None:
        """Add references at the end."""
        self._parts.append(columns)

    def between(self, start: int, stop: int) -> Refs:
        """Those from one place up to another, without it."""
        found, at = Refs(), 0
        for part in self._parts:
            count = 1 if isinstance(part, Ref) else len(part)
            first, last = max(start - at, 0), min(stop - at, count)
            if first < last:
                found._parts.append(part if isinstance(part, Ref) else part.take(slice(first, last)))
            at += count
        return found

    def join(self, start: int, stop: int, ref: Ref) -> None:
        """Put one reference in the place of those from ``start`` up to ``stop``, without it."""
        before, after = self.between(0, start), self.between(stop, len(self))
        self._parts = [*before._parts, ref, *after._parts]

    @property
    def needed(self) -> int:
        """Number of rows still needed."""
        return sum(part.needed for part in self._parts)

    def needed_up_to(self, time: int) -> int:
        """Number of rows still needed of those that may have a live row at this time (microseconds) or before it."""
        return sum(part.needed_up_to(time) for part in self._parts)

    def by_stream(self, streams: int) -> list[int]:
        """Per input, of which there are ``streams``, the number of rows still needed."""
        counts = [part.by_stream for part in self._parts]
        return [sum(of_part[code] for of_part in counts) for code in range(streams)]

    @property
    def earliest_live(self) -> int | None:
        """A lower bound on the times of the live rows, in microseconds; None where none is live."""
        found = (part.earliest_live for part in self._parts)
        return min((time for time in found if time is not None), default=None)

    @property
    def latest_live(self) -> int | None:
        """The greatest time of the live rows, likewise."""
        found = (part.latest_live for part in self._parts)
        return max((time for time in found if time is not None), default=None)

    def segment_names(self) -> set[str]:
        """The names of the segments in which they are, and their flags."""
        return set(chain.from_iterable(part.segment_names() for part in self._parts))

    def run_of_one_level(self, least: int) -> range | None:
        """The first run of adjacent references that were compacted equally often, and are so many; None where there
        is none."""
        if len(self) < least:
            return None
        levels = np.concatenate([[part.level] if isinstance(part, Ref) else part.levels for part in self._parts])
        edges = [0, *(np.flatnonzero(np.diff(levels)) + 1).tolist(), len(levels)]
        return next((range(start, stop) for start, stop in pairwise(edges) if stop - start >= least), None)
