"""Columns of keys as small numbers, so that rows with equal keys can be found by arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROOM = 1 << 16


class Keys:
    """The keys of some rows: ``codes`` from 0 to ``size``, equal where all columns are; nulls are equal too.

    ``ordered``: codes are in order of the keys, column by column, null last. Otherwise they are in no order that one
    could rely on.
    """

    codes: NDArray[np.int64]
    size: int

    def columns(self, codes: NDArray[np.int64]) -> list[pa.Array]:
        """The key columns of these codes."""
        raise NotImplementedError

    @staticmethod
    def of(columns: Sequence[pa.Array], rows: int, *, ordered: bool = False) -> Keys:
        """The keys formed by some columns of a number of rows; without columns all rows have the same key."""
        found: Keys = _None(rows)
        for column in columns:
            one = _column(column, ordered)
            found = one if isinstance(found, _None) else _Pair(found, one)
        return found


class _None(Keys):
    def __init__(self, rows: int) -> None:
        self.codes, self.size = np.zeros(rows, np.int64), 1

    def columns(self, codes: NDArray[np.int64]) -> list[pa.Array]:
        return []


class _Numbers(Keys):
    """Whole numbers that lie close together: their distance from the least."""

    def __init__(self, values: NDArray[Any], low: int, high: int, kind: pa.DataType) -> None:
        self.low, self.kind, self.size = low, kind, high - low + 1
        self.codes = values.astype(np.int64) - low

    def columns(self, codes: NDArray[np.int64]) -> list[pa.Array]:
        return [pa.array(codes + self.low).cast(self.kind)]


class _Values(Keys):
    """Any values: their place in a dictionary."""

    def __init__(self, column: pa.Array, ordered: bool) -> None:
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode(null_encoding="encode")
        self.dictionary = encoded.dictionary
        self.codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        self.size = max(len(self.dictionary), 1)
        if ordered and len(self.dictionary) > 1:
            order = pc.sort_indices(self.dictionary).to_numpy()  # null at the end
            places = np.empty(len(order), np.int64)
            places[order] = np.arange(len(order))
            self.dictionary, self.codes = self.dictionary.take(pa.array(order)), places[self.codes]

    def columns(self, codes: NDArray[np.int64]) -> list[pa.Array]:
        return [self.dictionary.take(pa.array(codes))]


class _Struct(Keys):
    """Structs: whether they are null, and their fields."""

    def __init__(self, column: pa.Array, ordered: bool) -> None:
        self.kind = column.type
        self.parts = Keys.of([column.is_null(), *column.flatten()], len(column), ordered=ordered)
        self.codes, self.size = self.parts.codes, self.parts.size

    def columns(self, codes: NDArray[np.int64]) -> list[pa.Array]:
        null, *fields = self.parts.columns(codes)
        if not fields:
            return [pa.array([None if missing else {} for missing in null.to_pylist()], self.kind)]
        return [pa.StructArray.from_arrays(fields, fields=list(self.kind), mask=null)]


class _Pair(Keys):
    """Two keys as one: those to the left count for more."""

    def __init__(self, left: Keys, right: Keys) -> None:
        self.left, self.right = left, right
        self.codes, self.size = left.codes * right.size + right.codes, left.size * right.size
        self._found: NDArray[np.int64] | None = None
        if self.size > 4 * len(self.codes) + _ROOM:
            self._found, self.codes = np.unique(self.codes, return_inverse=True)
            self.size = max(len(self._found), 1)

    def columns(self, codes: NDArray[np.int64]) -> list[pa.Array]:
        raw = codes if self._found is None else self._found[codes]
        return [*self.left.columns(raw // self.right.size), *self.right.columns(raw % self.right.size)]


def _column(column: pa.Array, ordered: bool) -> Keys:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)  # its dictionary may hold nulls, or a value twice
    if pa.types.is_struct(column.type):
        return _Struct(column, ordered)
    if pa.types.is_floating(column.type):
        column = _told_apart(column)
    if pa.types.is_integer(column.type) and not column.null_count and len(column) and column.type != pa.uint64():
        values = column.to_numpy()
        low, high = int(values.min()), int(values.max())
        if high - low < 4 * len(values) + _ROOM:
            return _Numbers(values, low, high, column.type)
    return _Values(column, ordered)


def _told_apart(column: pa.Array) -> pa.Array:
    """Floating point as it is compared: 0.0 for -0.0, and one NaN for all; a dictionary goes by the bits."""
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    odd = (values == 0) & np.signbit(values) | np.isnan(values)
    if not odd.any():
        return column
    values = np.where(np.isnan(values), values.dtype.type(np.nan), values + values.dtype.type(0))
    return pc.if_else(column.is_valid(), pa.array(values, column.type), pa.scalar(None, column.type))
