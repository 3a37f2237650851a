"""The size of each row of a table in bytes: strings and binaries by their length, other types by their Arrow width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

_kinds = pa.types


def byte_sizes(table: pa.Table) -> NDArray[np.int64]:
    """The bytes of each row; their sum is at most ``table.nbytes`` plus one byte per row."""
    bits = np.zeros(table.num_rows, np.int64)
    for column in table.columns:
        bits += _bits(column)
    return -(-bits // 8)


def _bits(column: Any) -> NDArray[np.int64]:
    if isinstance(column, pa.ChunkedArray):
        return np.concatenate([np.zeros(0, np.int64), *(_bits(chunk) for chunk in column.chunks)])
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return _bits(column.storage)
    if _kinds.is_string_view(kind) or _kinds.is_binary_view(kind):
        column = column.cast(pa.large_binary() if _kinds.is_binary_view(kind) else pa.large_string())
        kind = column.type
    if _kinds.is_string(kind) or _kinds.is_binary(kind) or _kinds.is_large_string(kind) or _kinds.is_large_binary(kind):
        return 8 * _whole(pc.binary_length(column))
    if _kinds.is_map(kind):
        column = column.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        kind = column.type
    if _kinds.is_list(kind) or _kinds.is_large_list(kind) or _kinds.is_fixed_size_list(kind):
        if _kinds.is_fixed_size_list(kind):
            lengths = column.is_valid().to_numpy(zero_copy_only=False) * np.int64(kind.list_size)
        else:
            lengths = _whole(pc.list_value_length(column))
        inner = np.concatenate([[0], np.cumsum(_bits(pc.list_flatten(column)))])
        bits: NDArray[np.int64] = np.diff(inner[np.concatenate([[0], np.cumsum(lengths)])])
        return bits
    if _kinds.is_struct(kind):
        return sum((_bits(child) for child in column.flatten()), np.zeros(len(column), np.int64))
    return np.full(len(column), 0 if _kinds.is_null(kind) else kind.bit_width, np.int64)


def _whole(lengths: pa.Array) -> NDArray[np.int64]:
    whole: NDArray[np.int64] = lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return whole
