"""The lifetimes of events, by the columns that say when they end, and which edge of it an event is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from topologies.engine.time.reasons import Reasons, reasons_of
from windowing.settings.rules import Lifetime
from windowing.time.timestamps import FOREVER, OPEN_END, from_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SHAPES = ("point", "interval", "start_edge", "end_edge")


def lifetimes(
    lifetime: Lifetime | None, table: pa.Table, times: NDArray[np.int64]
) -> tuple[NDArray[np.int64] | None, NDArray[np.bool_] | None, list[Reasons]]:
    """The end of each event in microseconds, and which events are end edges (SI-3); None where the bolt has no
    lifetimes. ``times`` are their starts."""
    if lifetime is None:
        return None, None, []
    rows = table.num_rows
    wrong: list[Reasons] = []
    ends, present = times + 1, np.zeros(rows, np.bool_)
    # Without the column events are points; with it, a null means that the end is not known yet, and so does 9999-12-31:
    # as a time it would take the watermark of a later run there.
    has_ends = lifetime.end_field in table.column_names
    if has_ends:
        column = table.column(lifetime.end_field)
        present = np.asarray(column.is_valid().to_numpy())
        values, unreadable = from_column(column)
        if unreadable is not None:
            bad = present & (unreadable != "")
            wrong.append(reasons_of(bad, [f"end of its lifetime: {text}" for text in unreadable[bad]]))
        ends = np.where(present & (values < OPEN_END), values, FOREVER)
    edges = None
    if lifetime.shape_field is not None:
        edges = np.zeros(rows, np.bool_)
        shapes = np.full(rows, "interval" if has_ends else "point", dtype=object)
        if lifetime.shape_field in table.column_names:
            shapes = np.array(table.column(lifetime.shape_field).to_pylist(), dtype=object)
        strange = ~np.isin(shapes.astype(str), _SHAPES)
        said = [f"shape {shape!r} is none of point, interval, start_edge, end_edge" for shape in shapes[strange]]
        wrong.append(reasons_of(strange, said))
        ends = np.where(shapes == "point", times + 1, ends)
        ends = np.where(shapes == "start_edge", FOREVER, ends)
        edges = np.asarray(shapes == "end_edge")
        unknown = np.isin(shapes.astype(str), ("interval", "end_edge")) & ~present
        wrong.append(reasons_of(unknown, "it has no end"))
    wrong.append(reasons_of(ends <= times, "its lifetime ends before it begins, or as it begins"))
    return ends, edges, wrong
