"""Taking rows out of tables of any size."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST = 1 << 31
"""Bytes of text that an Arrow column of 32-bit offsets holds in one piece; ``take`` makes one piece of its source."""
_WIDE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def taken(table: pa.Table, at: NDArray[np.int64]) -> pa.Table:
    """The rows at some places; columns of more than 2 GiB come in several pieces, where Arrow's own would fail."""
    if table.nbytes < _MOST:
        return table.take(pa.array(at))
    columns = [_taken(column, at) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _taken(column: pa.ChunkedArray, at: NDArray[np.int64]) -> pa.ChunkedArray:
    wide = _WIDE.get(column.type)
    if wide is None or column.nbytes < _MOST:
        return column.take(pa.array(at))
    source = column.cast(wide)
    lengths = pa.compute.binary_length(source).fill_null(0).to_numpy()[at]
    parts = np.cumsum(lengths.astype(np.int64)) // (_MOST // 4)
    edges = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(at)]
    pieces = [source.take(pa.array(at[low:high])).combine_chunks().cast(column.type) for low, high in pairwise(edges)]
    return pa.chunked_array(pieces, column.type)
