"""Rows of late streams: the event, its reason, and the last window that could have held it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from policies.marks import NONE
from topologies.graph.nodes.windowed import WindowedNode
from topologies.graph.side_streams import LATE_COLUMNS
from windowing.time.timestamps import EARLIEST, LATEST, to_column

if TYPE_CHECKING:
    from numpy.typing import NDArray


def late_rows(
    node: WindowedNode,
    rows: pa.Table,
    *,
    inputs: NDArray[np.int8],
    times: NDArray[np.int64],
    reasons: list[str],
    late_by: NDArray[np.int64],
    watermarks: NDArray[np.int64],
    opened: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
) -> pa.Table:
    """Events that were turned away, with the columns of the late stream; ``watermarks`` are NONE where there is none.
    Times are in microseconds. What an earlier late stream said in columns of these names gives way; that happens only
    where a test looks on, since ``build()`` refuses it.

    ``opened``: the starts and ends of the windows that they would open, where events are late by these.
    """
    rows = conform_input(rows, node.schema)
    names = np.array(node.streams, dtype=object)[inputs].tolist()
    starts, ends = _last_windows(node, times) if opened is None else opened
    said = [
        pa.array(names, pa.string()),
        to_column(times),
        pa.array(reasons, pa.string()),
        pa.array(late_by),
        _known(watermarks),
        _known(starts),
        _known(ends),
    ]
    rows = rows.drop_columns([field.name for field in LATE_COLUMNS if field.name in rows.column_names])
    for field, column in zip(LATE_COLUMNS, said, strict=True):
        rows = rows.append_column(field, column)
    return rows


def _last_windows(node: WindowedNode, times: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The start and the end of the last window that could have held each event; NONE where that is not known."""
    end = node.last_end
    if end is None:
        unknown = np.full(len(times), NONE, np.int64)
        return unknown, unknown
    ends = np.asarray(end(times, None))
    length = node.eviction.reach if not node.assigners else getattr(node.assigners[0], "length", None)
    starts = np.where(ends > NONE, ends - length.micros, NONE) if length is not None else np.full(len(ends), NONE)
    return starts, ends


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
