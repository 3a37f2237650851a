"""Takes rows from tables of any size."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST = 1 << 31
"""Maximum size in bytes of a text column with 32-bit offsets in one piece; Arrow's ``take`` makes one piece of its
source."""
_WIDE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def take_rows(table: pa.Table, indices: NDArray[np.int64]) -> pa.Table:
    """The rows of a table at these indices. Columns of more than 2 GiB are returned in several pieces, where Arrow's
    own ``take`` would fail."""
    if table.nbytes < _MOST:
        return table.take(pa.array(indices))
    columns = [_take_column(column, indices) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _take_column(column: pa.ChunkedArray, indices: NDArray[np.int64]) -> pa.ChunkedArray:
    wide = _WIDE.get(column.type)
    if wide is None or column.nbytes < _MOST:
        return column.take(pa.array(indices))
    source = column.cast(wide)
    lengths = pa.compute.binary_length(source).fill_null(0).to_numpy()[indices]
    parts = np.cumsum(lengths.astype(np.int64)) // (_MOST // 4)
    edges = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(indices)]
    pieces = [
        source.take(pa.array(indices[low:high])).combine_chunks().cast(column.type) for low, high in pairwise(edges)
    ]
    return pa.chunked_array(pieces, column.type)
