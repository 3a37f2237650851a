"""The rows of an AggregateBolt for windows without events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windowing.aggregates.declared import Aggregate, Cells
from windowing.bolts.ready.bound_aggregates import BoundAggregates
from windowing.data.conversion import REFUSED, of_values
from windowing.data.order import stable_order
from windowing.errors import ConfigError
from windowing.window_batch import WindowBatch

if TYPE_CHECKING:
    from windowing.bolts.batch_windowed_bolt import NumberedRows


def rows_of_nothing(bound: BoundAggregates, key: tuple[str, ...], windows: WindowBatch) -> NumberedRows | None:
    """A row for each window without events, of its key; None where there is none. ``key``: the columns of the key."""
    index = np.flatnonzero(np.diff(windows.offsets) == 0)
    if not len(index):
        return None
    keys = [windows[place].key for place in index.tolist()]
    values = {name: [each[at] if len(key) > 1 else each for each in keys] for at, name in enumerate(key)}
    columns = [pa.array(values[name], bound.schema.field(name).type) for name in bound.by]
    cells = Cells(np.zeros(len(index), np.int64), windows.window_starts[index], windows.window_ends[index])
    return bound.of_nothing(columns, cells), index


def in_order(rows: NumberedRows | None, others: NumberedRows | None) -> NumberedRows | None:
    """The rows of some windows and of others, in order of the windows."""
    if rows is None or others is None:
        return others if rows is None else rows
    index = np.concatenate([rows[1], others[1]])
    order = stable_order(index)
    return pa.concat_tables([rows[0], others[0]]).take(pa.array(order)), index[order]


def filled(fill: Mapping[str, Any], bound: Iterable[tuple[str, Aggregate]]) -> dict[str, pa.Scalar]:
    """The values to fill in, of the types of the aggregates; ConfigError for one that is none of its aggregate's."""
    found = {}
    for name, aggregate in bound:
        if name in fill:
            try:
                found[name] = of_values([fill[name]], aggregate.result)[0]
            except REFUSED as error:
                raise ConfigError(
                    f"with_empty_windows(fill={{{name!r}: {fill[name]!r:.60}}})",
                    why=f"{name}={aggregate} is {aggregate.result}: {error}",
                    do="give a value of that type, or leave it out",
                ) from None
    return found
