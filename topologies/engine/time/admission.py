"""Admission by Storm's rules: the time of each event, and whether it is admitted, late or between windows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from policies.marks import NONE
from topologies.graph.model import LATE_COLUMNS, WindowedNode
from windowing.data.tuples import Tuple
from windowing.errors import ConfigError
from windowing.settings.kinds import kind_reach
from windowing.time.durations import Duration
from windowing.time.timestamps import EARLIEST, LATEST, from_column, from_datetime, is_time, to_column

if TYPE_CHECKING:
    from numpy.typing import NDArray


_FAR = 1 << 62
"""A time in microseconds later than any event time; out of range, but it fits into 64 bits."""


@dataclass(frozen=True)
class Admitted:
    """Rows by admission decision; the arrays are indices into the table that came."""

    times: NDArray[np.int64]
    """The event time of every row in microseconds; 0 where it has none."""
    reasons: NDArray[np.str_] | None
    """Per row, why it has no event time, "" where it has one; None where all have one."""
    late: NDArray[np.int64]
    gap: NDArray[np.int64]
    """Rows between windows, which no window can hold."""
    queued: NDArray[np.int64] | None
    """Rows admitted to the queue; None where all are."""
    latest: int | None
    """The latest event time among the rows in microseconds, late rows included; None where there is none."""

    @property
    def invalid(self) -> NDArray[np.int64]:
        """Rows without a usable event time."""
        return np.zeros(0, np.int64) if self.reasons is None else np.flatnonzero(self.reasons != "")


def admit(
    node: WindowedNode,
    input_index: int,
    table: pa.Table,
    times: NDArray[np.int64] | None,
    clock: int,
    watermark: int | None,
) -> Admitted:
    """Give each row of one input its time, and decide whether it is admitted.

    ``times`` are the event times in microseconds that the rows bring along; None where they bring none. ``watermark``
    is that of the bolt in microseconds; None before the first, when no event is late.
    """
    none = np.zeros(0, np.int64)
    reasons = None
    if not node.event_time:
        times, watermark = np.full(table.num_rows, clock, np.int64), None
    elif not node.carries_time[input_index] or times is None:
        times, reasons = event_times(node, table)
    good = np.ones(len(times), np.bool_) if reasons is None else reasons == ""
    late = node.lateness.late(times, watermark) & good
    gap = node.lateness.in_gap(times)
    out = good & ~late if gap is None else good & ~late & ~gap
    return Admitted(
        times,
        reasons,
        np.flatnonzero(late),
        none if gap is None else np.flatnonzero(gap & good & ~late),
        None if out.all() else np.flatnonzero(out),
        int(times[good].max()) if node.event_time and good.any() else None,
    )


def late_rows(
    node: WindowedNode,
    rows: pa.Table,
    inputs: NDArray[np.int8],
    times: NDArray[np.int64],
    reasons: list[str],
    late_by: NDArray[np.int64],
    watermarks: NDArray[np.int64],
) -> pa.Table:
    """Events that were turned away, with the columns of the late stream; ``watermarks`` are NONE where there is none.
    Times are in microseconds."""
    rows = conform_input(rows, node.schema)
    names = np.array(node.streams, dtype=object)[inputs].tolist()
    end = node.last_end
    ends = np.full(len(times), NONE, np.int64) if end is None else np.asarray(end(times, None))
    length = node.eviction.reach if not node.assigners else getattr(node.assigners[0], "length", None)
    starts = np.where(ends > NONE, ends - length.micros, NONE) if length is not None else np.full(len(ends), NONE)
    said = [
        pa.array(names, pa.string()),
        to_column(times),
        pa.array(reasons, pa.string()),
        pa.array(late_by),
        _known(watermarks),
        _known(starts),
        _known(ends),
    ]
    for field, column in zip(LATE_COLUMNS, said, strict=True):
        rows = rows.append_column(field, column)
    return rows


def _known(times: NDArray[np.int64]) -> pa.Array:
    """Times as a timestamp column; null where they are out of range."""
    unknown = (times < EARLIEST) | (times > LATEST)
    column = to_column(np.where(unknown, 0, times))
    return pa.compute.if_else(pa.array(~unknown), column, pa.scalar(None, column.type))


def conform_input(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the columns of the bolt's windows; columns that its stream lacks are null."""
    if table.schema.equals(schema):
        return table
    columns = [
        table.column(field.name) if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def event_times(node: WindowedNode, table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.str_] | None]:
    """The time of each row in microseconds, by the bolt's field or extractor; and why a row has none, None where all
    have one."""
    return _inside(node, *_times(node, table))


def _times(node: WindowedNode, table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.str_] | None]:
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
                why="event times are timestamps, dates, or whole numbers of milliseconds (ST-9)",
                do="return one of these",
            )
        if len(column) != table.num_rows:
            raise ConfigError(
                f"the timestamp extractor of bolt {node.name!r} returned {len(column)} times for {table.num_rows} rows",
                do="return one time per row",
            )
        return from_column(column)
    return _each_time(extractor, table)


def _inside(
    node: WindowedNode, times: NDArray[np.int64], reasons: NDArray[np.str_] | None
) -> tuple[NDArray[np.int64], NDArray[np.str_] | None]:
    """Mark as invalid the times so close to the year 1 or 9999 that a window holding them would exceed the range."""
    settings = node.bolt.settings
    margin = sum(extent.micros for extent in (settings.length, settings.slide) if isinstance(extent, Duration))
    margin = max([margin, *(kind_reach(kind) for kind in settings.kinds)])
    outside = (times < EARLIEST + margin) | (times > LATEST - margin)
    if not margin or not outside.any():
        return times, reasons
    said = np.full(len(times), "", dtype=object) if reasons is None else reasons
    said[outside & (said == "")] = "timestamp so near to the year 1 or 9999 that its window would lie beyond"
    return np.where(outside, 0, times), said


def _each_time(extractor: Any, table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.str_] | None]:
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
