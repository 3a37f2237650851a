"""The events of a batch in order of arrival, with the columns that watermarks are computed from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from policies.marks import NONE
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PARTITION = "\t"
"""Separates an input from the value of its partition in the name of a source of marks."""


def source_of(stream: str, partition: str | None) -> str:
    """The name of a source of marks: an input, or a partition of one."""
    return stream if partition is None else f"{stream}{_PARTITION}{partition}"


def input_of(source: str) -> str:
    """The input stream of a source of marks, which is an input or a partition of one."""
    return source.split(_PARTITION, 1)[0]


@dataclass(frozen=True)
class ArrivalTimes:
    """The events of a batch in order of arrival; arrays of equal length."""

    times: NDArray[np.int64]
    inputs: NDArray[np.int8]
    """Per event, the index of its input stream."""
    advancing: NDArray[np.bool_]
    """Which events advance the watermark."""
    given: NDArray[np.int64] | None = None
    """Watermarks inserted by the source, in microseconds; NONE where the row is an event."""
    partitions: NDArray[np.int64] | None = None
    """Per event, the index of its partition in ``names``; -1 where it has none."""
    names: Sequence[str] = ()
    heard: NDArray[np.bool_] | None = None
    """Which events make their partition known: events turned away as early, late or invalid do not (AZ-4)."""
    arrived: NDArray[np.int64] | None = None
    """Arrival time of each event in microseconds, NONE where unknown; only where the watermark follows the arrivals
    (AZ-5)."""

    def __len__(self) -> int:
        return len(self.times)

    def by_source(self, streams: Sequence[str], whole: Sequence[bool]) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """The sources of these events, and the indices of the events of each. ``whole``: per stream, whether its
        partitions have no marks of their own."""
        for code, stream in enumerate(streams):
            places = np.arange(len(self)) if len(streams) == 1 else np.flatnonzero(self.inputs == code)
            if not len(places):
                continue
            if self.partitions is None or whole[code]:
                yield stream, places
                continue
            codes = self.partitions[places]
            order = np.argsort(codes, kind="stable")
            edges = np.searchsorted(codes[order], np.arange(-1, len(self.names) + 1))
            for index, name in enumerate((None, *self.names)):
                of_source = places[order[edges[index] : edges[index + 1]]]
                if len(of_source):
                    yield source_of(stream, name), of_source

    def joins(self, places: NDArray[np.int64]) -> int:
        """Index of the first of these events that makes its source known; the number of events if none does."""
        if self.heard is None:
            return int(places[0])
        heard = places[self.heard[places]]
        return int(heard[0]) if len(heard) else len(self)

    def floor(self, late: int, before: int | None) -> NDArray[np.int64] | None:
        """After each event: the lower bound that the arrivals so far give for every silent source (AZ-5); None where
        there is none.

        It is the latest arrival minus the late tolerance ``late``; ``before`` is the latest arrival of earlier batches.
        Where the events of a batch are not in order of arrival, it is no more than the arrivals still to come in the
        batch allow; in order, it is the same wherever batches end.
        """
        if self.arrived is None or not len(self):
            return None
        latest = np.maximum(np.maximum.accumulate(self.arrived), NONE if before is None else before)
        coming = np.where(self.arrived > NONE, self.arrived, FOREVER)
        least = np.minimum.accumulate(coming[::-1])[::-1]
        latest[:-1] = np.minimum(latest[:-1], least[1:])
        return np.where(self.arrived > NONE, latest - late, NONE)  # unreadable arrivals give no bound


@dataclass(frozen=True)
class MarksAround:
    """The marks and watermarks in microseconds before and after each event."""

    own: NDArray[np.int64]
    """The mark of its own input or partition before the event."""
    bolt: NDArray[np.int64]
    """The watermark before the event."""
    own_after: NDArray[np.int64]
    bolt_after: NDArray[np.int64]

    @classmethod
    def none_yet(cls, events: int) -> MarksAround:
        """Empty columns for this number of events."""
        return cls(*(np.full(events, NONE, np.int64) for _ in range(4)))
