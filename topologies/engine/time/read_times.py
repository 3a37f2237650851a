"""The time of each event, by the field or extractor of its bolt."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from topologies.engine.time.reasons import Reasons, first_reasons, reasons_of
from topologies.graph.nodes.windowed import WindowedNode
from windowing.data.tuples import Tuple
from windowing.errors import ConfigError
from windowing.time.durations import Duration
from windowing.time.timestamps import EARLIEST, LATEST, from_column, from_datetime, is_time

if TYPE_CHECKING:
    from numpy.typing import NDArray


_FAR = 1 << 62
"""A time in microseconds later than any event time; out of range, but it fits into 64 bits."""


def read_times(node: WindowedNode, table: pa.Table) -> tuple[NDArray[np.int64], Reasons]:
    """The time of each row in microseconds, by the bolt's field or extractor, and why a row has none."""
    return _inside(node, *_times(node, table))


def _times(node: WindowedNode, table: pa.Table) -> tuple[NDArray[np.int64], Reasons]:
    settings = node.bolt.settings
    if settings.timestamp_field is not None:
        return from_column(table.column(settings.timestamp_field))
    extractor = settings.timestamp_extractor
    assert extractor is not None
    if settings.extractor_on_columns:
        column = extractor(table)
        if not isinstance(column, (pa.Array, pa.ChunkedArray)):
            column = pa.array(column)
        if not is_time(column.type):
            raise ConfigError(
                f"the timestamp extractor of bolt {node.name!r} returned a column of {column.type}",
                why="event times are timestamps, dates, or whole numbers of milliseconds",
                do="return one of these",
            )
        if len(column) != table.num_rows:
            raise ConfigError(
                f"the timestamp extractor of bolt {node.name!r} returned {len(column)} times for {table.num_rows} rows",
                do="return one time per row",
            )
        return from_column(column)
    return _each_time(extractor, table)


def _inside(node: WindowedNode, times: NDArray[np.int64], reasons: Reasons) -> tuple[NDArray[np.int64], Reasons]:
    """Mark as invalid the times so close to the year 1 or 9999 that a window holding them would exceed the range."""
    settings = node.bolt.settings
    margin = sum(extent.micros for extent in (settings.length, settings.slide) if isinstance(extent, Duration))
    margin = max([margin, *(kind.reach for kind in settings.kinds)])
    outside = (times < EARLIEST + margin) | (times > LATEST - margin)
    if not margin or not outside.any():
        return times, reasons
    beyond = reasons_of(outside, "timestamp so near to the year 1 or 9999 that its window would lie beyond")
    return np.where(outside, 0, times), first_reasons(reasons, beyond)


def _each_time(extractor: Any, table: pa.Table) -> tuple[NDArray[np.int64], Reasons]:
    """Call the extractor for each row. A row on which it fails is invalid, with the exception as the reason."""
    values: list[int | None] = []
    failures: dict[int, str] = {}
    for index, row in enumerate(table.to_pylist()):
        value: int | None = None
        try:
            extracted = extractor(Tuple(row, 0, ""))
            if isinstance(extracted, datetime):
                value = from_datetime(extracted)
            elif extracted is not None:
                value = int(extracted) * 1_000
            values.append(None if value is None else max(min(value, _FAR), -_FAR))
        except Exception as error:
            failures[index] = f"the timestamp extractor failed: {type(error).__name__}: {error}"
            values.append(None)
    times, reasons = from_column(pa.array(values, pa.int64()).cast(pa.timestamp("us")))
    if failures:
        assert reasons is not None
        for index, failure in failures.items():
            reasons[index] = failure
    return times, reasons
