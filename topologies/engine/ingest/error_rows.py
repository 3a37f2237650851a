"""Rows of error streams: the unusable data, its position, and the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from topologies.graph.side_streams import ERROR_SCHEMA
from topologies.io.formats.bad import python_columns, row_as_json

if TYPE_CHECKING:
    from numpy.typing import NDArray


def error_rows(
    component: str, label: str, rows: pa.Table, positions: NDArray[np.int64] | None, reasons: list[str]
) -> pa.Table:
    """Rows as rows of the error stream.

    ``label`` names the input stream. ``positions`` are the positions of the rows in their source; None where they are
    no longer known. ``reasons`` has one entry per row.
    """
    wrong = python_columns(rows)
    return pa.table(
        [
            pa.array([component] * rows.num_rows, pa.string()),
            pa.array([label] * rows.num_rows, pa.string()),
            pa.nulls(rows.num_rows, pa.int64()) if positions is None else pa.array(positions),
            pa.array(reasons, pa.string()),
            pa.array([row_as_json(wrong, place) for place in range(rows.num_rows)], pa.string()),
        ],
        schema=ERROR_SCHEMA,
    )


def of_component(component: str, rows: pa.Table) -> pa.Table:
    """The same error rows, under the name of another component."""
    return rows.set_column(0, ERROR_SCHEMA.field(0), pa.array([component] * len(rows), pa.string()))
