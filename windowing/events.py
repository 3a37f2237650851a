"""Events in columns, and a single event as a Python object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windowing.columns import is_sorted, stable_order
from windowing.reprs import fields_repr, one_line

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Events:
    """Events in columns; row i of each part is event i."""

    timestamps: NDArray[np.int64]
    """Event times in microseconds since the epoch."""
    payload: pa.RecordBatch
    """The columns of the events."""
    streams: NDArray[np.int8] | None = None
    """The index of the input stream of each event; None if all are of stream 0."""
    weights: NDArray[np.int64] | None = None
    """For rows that stand for several events: a matrix of the number of events of each row in each stream; None if each
    row is one event."""

    def __repr__(self) -> str:
        return one_line(f"<Events: {len(self)} of {', '.join(self.payload.schema.names)}>")

    def __len__(self) -> int:
        return len(self.timestamps)

    def slice(self, start: int, stop: int) -> Events:
        """Returns the events from ``start`` to ``stop``, exclusive, without copying them."""
        if start == 0 and stop == len(self.timestamps):
            return self
        streams = None if self.streams is None else self.streams[start:stop]
        weights = None if self.weights is None else self.weights[start:stop]
        return Events(self.timestamps[start:stop], self.payload.slice(start, stop - start), streams, weights)

    def take(self, order: NDArray[np.int64]) -> Events:
        """Returns the events at these indices, in this order."""
        streams = None if self.streams is None else self.streams[order]
        weights = None if self.weights is None else self.weights[order]
        return Events(self.timestamps[order], self.payload.take(pa.array(order)), streams, weights)

    def sorted(self) -> Events:
        """Returns the events in order of time; events of equal time keep their order."""
        return self if is_sorted(self.timestamps) else self.take(stable_order(self.timestamps))

    def by_stream(self, count: int) -> NDArray[np.int64]:
        """Returns the number of events of each of the ``count`` streams."""
        if self.weights is not None:
            total: NDArray[np.int64] = self.weights.sum(axis=0)
            return total
        return count_by_stream(self.streams, len(self), count)

    @staticmethod
    def concat(parts: Sequence[Events]) -> Events:
        """Concatenate the parts; either all parts have weights, or none."""
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
    """Returns the number of rows of each of ``count`` streams; ``streams`` None: all rows are of stream 0."""
    if streams is None:
        counts = np.zeros(count, np.int64)
        counts[0] = rows
        return counts
    return np.bincount(streams, minlength=count)


# A single event as a Python object, made only when a bolt asks for one.


@dataclass(frozen=True, slots=True)
class Tuple:
    """One event of a window: its fields by name, its event time and its input stream."""

    values: dict[str, Any]
    """The fields by name, in the order of the columns; null is None."""
    timestamp: int
    """Event time in microseconds since the epoch; in processing time, the clock at arrival."""
    stream: str
    """The name of the input stream, as in ``window.stream(...)``."""

    def __repr__(self) -> str:
        return fields_repr(self)

    def __getitem__(self, field: str) -> Any:
        return self.values[field]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values.values())

    def get(self, field: str, default: Any = None) -> Any:
        """Returns the value of a field, or the default if the event has no such field."""
        return self.values.get(field, default)


_FLOATS = (pa.float32(), pa.float64())


def to_tuples(table: pa.Table, times: Sequence[int], streams: Sequence[str]) -> list[Tuple]:
    """Returns the rows of a table as Tuple objects."""
    names = table.column_names
    columns = [to_objects(column) for column in table.columns]
    rows = zip(*columns, strict=True) if columns else iter([()] * table.num_rows)
    return [
        Tuple(dict(zip(names, row, strict=True)), time, stream)
        for row, time, stream in zip(rows, times, streams, strict=True)
    ]


def to_objects(column: pa.ChunkedArray) -> list[Any]:
    """Returns a column as Python objects; faster than Arrow's ``to_pylist`` for the most frequent types."""
    if column.null_count == len(column):
        return [None] * len(column)
    numbers = pa.types.is_integer(column.type) or column.type in _FLOATS
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type) or (numbers and not column.null_count):
        objects: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return objects
    return list(column.to_pylist())
