"""A batch of events in columns: payload, event times, and the streams they came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from windowing.data.order import is_sorted, stable_order
from windowing.data.reprs import one_line

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Events:
    """Events in one order; row i of each part is event i.

    ``timestamps`` are microseconds since the epoch, ``payload`` are the columns of the events.

    ``streams`` holds small codes, or None where all events are of stream 0. ``weights``, of rows that stand for several
    events: how many of each stream, a row of counts per row; None where each row is one event.
    """

    timestamps: NDArray[np.int64]
    payload: pa.RecordBatch
    streams: NDArray[np.int8] | None = None
    weights: NDArray[np.int64] | None = None

    def __repr__(self) -> str:
        return one_line(f"<Events: {len(self)} of {', '.join(self.payload.schema.names)}>")

    def __len__(self) -> int:
        return len(self.timestamps)

    def slice(self, start: int, stop: int) -> Events:
        """Events from start up to, not including, stop; nothing is copied."""
        if start == 0 and stop == len(self.timestamps):
            return self
        streams = None if self.streams is None else self.streams[start:stop]
        weights = None if self.weights is None else self.weights[start:stop]
        return Events(self.timestamps[start:stop], self.payload.slice(start, stop - start), streams, weights)

    def take(self, order: NDArray[np.int64]) -> Events:
        """The events at these positions, in this order."""
        streams = None if self.streams is None else self.streams[order]
        weights = None if self.weights is None else self.weights[order]
        return Events(self.timestamps[order], self.payload.take(pa.array(order)), streams, weights)

    def sorted(self) -> Events:
        """The events by time, those of equal time in their present order."""
        return self if is_sorted(self.timestamps) else self.take(stable_order(self.timestamps))

    def by_stream(self, count: int) -> NDArray[np.int64]:
        """How many events each of the ``count`` streams has."""
        if self.weights is not None:
            total: NDArray[np.int64] = self.weights.sum(axis=0)
            return total
        return count_by_stream(self.streams, len(self), count)

    @staticmethod
    def concat(parts: Sequence[Events]) -> Events:
        """All events of the parts, one part after the other; all of them have weights, or none has."""
        if len(parts) == 1:
            return parts[0]
        streams = None
        if any(part.streams is not None for part in parts):
            streams = np.concatenate(
                [np.zeros(len(part), np.int8) if part.streams is None else part.streams for part in parts]
            )
        return Events(
            np.concatenate([part.timestamps for part in parts]),
            pa.concat_batches([part.payload for part in parts]),
            streams,
            None if parts[0].weights is None else np.concatenate([part.weights for part in parts]),
        )


def count_by_stream(streams: NDArray[np.int8] | None, rows: int, count: int) -> NDArray[np.int64]:
    """How many of these rows each stream has; without codes all rows are of stream 0."""
    if streams is None:
        counts = np.zeros(count, np.int64)
        counts[0] = rows
        return counts
    return np.bincount(streams, minlength=count)
