"""A single event as a Python object, made only when a bolt asks for one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from windowing.data.reprs import of_fields


@dataclass(frozen=True, slots=True)
class Tuple:
    """One event of a window: its fields by name, its event time and the stream it came from."""

    values: dict[str, Any]
    """Its fields by name, in the order of the columns; null is None."""
    timestamp: int
    """Event time in microseconds since the epoch; in processing time, the clock at arrival."""
    stream: str
    """The name of the input stream, as ``window.stream(...)`` takes it."""

    def __repr__(self) -> str:
        return of_fields(self)

    def __getitem__(self, field: str) -> Any:
        return self.values[field]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values.values())

    def get(self, field: str, default: Any = None) -> Any:
        """The value of a field, or the default where the event has no such field."""
        return self.values.get(field, default)


def tuples_of(table: pa.Table, times: Sequence[int], streams: Sequence[str]) -> list[Tuple]:
    """The rows of a table as objects; texts and bytes, which are most of what rules ask for, by the quick way."""
    names = table.column_names
    columns = [objects_of(column) for column in table.columns]
    rows = zip(*columns, strict=True) if columns else iter([()] * table.num_rows)
    return [
        Tuple(dict(zip(names, row, strict=True)), time, stream)
        for row, time, stream in zip(rows, times, streams, strict=True)
    ]


def objects_of(column: pa.ChunkedArray) -> list[Any]:
    """A column as Python objects; columns without values, and texts and bytes, the quick way."""
    if column.null_count == len(column):
        return [None] * len(column)
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        found: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return found
    return list(column.to_pylist())
