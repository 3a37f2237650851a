"""Rows of error streams: what could not be read or used, where it was, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from topologies.graph.model import ERROR_SCHEMA
from topologies.io.formats.bad import python_columns, row_as_json

if TYPE_CHECKING:
    from numpy.typing import NDArray


def error_rows(
    component: str, label: str, rows: pa.Table, positions: NDArray[np.int64] | None, reasons: list[str]
) -> pa.Table:
    """Rows of the error stream; without ``positions`` their places in the source are not known any more."""
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
    """The same rows on the error stream of another component."""
    return rows.set_column(0, ERROR_SCHEMA.field(0), pa.array([component] * len(rows), pa.string()))
