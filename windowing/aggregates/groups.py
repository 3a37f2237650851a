"""Groups of rows, computed for all groups at once: sums, extremes, first and last rows; and pairs of rows with equal
keys."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowing.columns import canonical_floats, is_sorted, stable_order
from windowing.errors import DataError
from windowing.schema import value_type

if TYPE_CHECKING:
    from numpy.typing import NDArray


_ROOM = 1 << 12
_SPARSE = 8
"""Greatest number of possible groups per row for which groups are slots of an array. With more possible groups, rows
are sorted."""
_EXACT = 1 << 53
"""Whole numbers below this are exact as doubles, which are summed faster."""


class Groups:
    """Groups of rows, by the code of the group of each row: a number from 0 up to ``size``, exclusive.

    Results have an entry for each group that has rows, in order of the codes. Rows of one group keep their order.
    """

    def __init__(self, codes: NDArray[np.int64], size: int) -> None:
        self.codes, self.size = codes, size
        self._dense = size <= _SPARSE * len(codes) + _ROOM

    def __len__(self) -> int:
        return len(self.present_codes)

    @cached_property
    def present_codes(self) -> NDArray[np.int64]:
        """The codes of the groups that have rows, ascending."""
        if self._dense:
            return np.flatnonzero(self._all_counts)
        return self._sorted[self.starts]

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of rows of each group."""
        if self._dense:
            return self._present(self._all_counts)
        return np.diff(self.starts, append=len(self.codes))

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """The indices of the rows, group by group."""
        return np.arange(len(self.codes)) if is_sorted(self.codes) else stable_order(self.codes)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The index of the first row of each group in ``order``."""
        if self._dense:
            return np.cumsum(self.counts) - self.counts
        return np.flatnonzero(np.concatenate([[True], self._sorted[1:] != self._sorted[:-1]])[: len(self._sorted)])

    @cached_property
    def numbers(self) -> NDArray[np.int64]:
        """The index of each row's group in ``present_codes``."""
        if self._dense:
            group_indices = np.cumsum(self._all_counts > 0) - 1
            codes: NDArray[np.int64] = group_indices[self.codes]
            return codes
        numbers = np.empty(len(self.codes), np.int64)
        numbers[self.order] = np.repeat(np.arange(len(self)), self.counts)
        return numbers

    def runs(self, mask: NDArray[np.bool_] | None = None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the indices of the rows (all, or those of a mask) group by group, and the bounds of the groups in
        them: the start of each group, then the end of the last group."""
        counts = self.counts if mask is None else self.sums(mask)
        rows = self.order if mask is None else self.order[mask[self.order]]
        return rows, np.concatenate([[0], np.cumsum(counts)])

    def sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """Returns the sum of each group: doubles as double, whole numbers and booleans as int64.

        Raises DataError if a sum does not fit into 64 bits.
        """
        if values.dtype.kind == "f":
            return self._double_sums(values)
        values = values.astype(np.int64, copy=False)
        if not len(values):
            return np.zeros(0, np.int64)
        least, most = int(values.min()), int(values.max())
        bound = max(-least, most) * int(self.counts.max())
        if bound < _EXACT:
            return self._double_sums(values).astype(np.int64)
        if bound >= 1 << 63:
            return self._careful_sums(values)
        sums: NDArray[np.int64] = np.add.reduceat(values[self.order], self.starts)
        return sums

    def reduce(self, function: np.ufunc, values: NDArray[Any], start: Any) -> NDArray[Any]:
        """Reduce the values of each group by a ufunc such as ``np.minimum``, beginning with ``start``."""
        with np.errstate(invalid="ignore"):  # NaN
            if self._dense:
                extremes = np.full(self.size, start, values.dtype)
                function.at(extremes, self.codes, values)
                return self._present(extremes)
            reduced: NDArray[Any] = function.reduceat(values[self.order], self.starts)
            return reduced

    @cached_property
    def _all_counts(self) -> NDArray[np.int64]:
        return np.bincount(self.codes, minlength=self.size)

    @cached_property
    def _sorted(self) -> NDArray[np.int64]:
        ordered: NDArray[np.int64] = self.codes[self.order]
        return ordered

    def _present(self, all_groups: NDArray[Any]) -> NDArray[Any]:
        """Returns the entries of the groups that have rows, from an array with an entry for every possible group."""
        present: NDArray[Any] = all_groups if len(self.present_codes) == self.size else all_groups[self.present_codes]
        return present

    def _double_sums(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Returns the sum of each group, added row by row: so its last digits do not depend on other groups."""
        if self._dense:
            return self._present(np.bincount(self.codes, values, self.size))
        sums: NDArray[np.float64] = np.bincount(self.numbers, values, len(self)).astype(np.float64, copy=False)
        return sums

    def _careful_sums(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        exact = np.add.reduceat(values[self.order].astype(object), self.starts)
        if any(not -(1 << 63) <= total < 1 << 63 for total in exact):
            raise DataError(
                "a sum of whole numbers does not fit into 64 bits",
                why=f"it is {max(exact, key=abs)}",
                do="sum a double, or a smaller unit",
            )
        return exact.astype(np.int64)


# Keys of rows as small whole numbers.


_TABLE_ROOM = 1 << 16


class Keys:
    """The keys of some rows as ``codes``, from 0 up to ``size``, exclusive; equal keys have equal codes.

    Keys are equal if the values in all columns are; nulls are equal. If made with ``ordered=True``, codes are in order
    of the keys, column by column, null last; otherwise they are in no particular order.
    """

    codes: NDArray[np.int64]
    size: int

    def columns(self, codes: NDArray[np.int64]) -> list[pa.Array]:
        """Returns the key columns of these codes."""
        raise NotImplementedError

    @staticmethod
    def of(columns: Sequence[pa.Array], rows: int, *, ordered: bool = False) -> Keys:
        """Returns the keys that these columns form for a number of rows; without columns all rows have one key."""
        keys: Keys = _NoColumns(rows)
        for column in columns:
            column_keys = _column(column, ordered)
            keys = column_keys if isinstance(keys, _NoColumns) else _Pair(keys, column_keys)
        return keys


class _NoColumns(Keys):
    def __init__(self, rows: int) -> None:
        self.codes, self.size = np.zeros(rows, np.int64), 1

    def columns(self, codes: NDArray[np.int64]) -> list[pa.Array]:
        return []


class _Numbers(Keys):
    """Keys of whole numbers that are close together; a code is the distance from the least number."""

    def __init__(self, values: NDArray[Any], low: int, high: int, kind: pa.DataType) -> None:
        self.low, self.kind, self.size = low, kind, high - low + 1
        self.codes = values.astype(np.int64) - low

    def columns(self, codes: NDArray[np.int64]) -> list[pa.Array]:
        return [pa.array(codes + self.low).cast(self.kind)]


class _Values(Keys):
    """Keys of values of any type; a code is the index of the value in a dictionary."""

    def __init__(self, column: pa.Array, ordered: bool) -> None:
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode(null_encoding="encode")
        self.dictionary = encoded.dictionary
        self.codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        self.size = max(len(self.dictionary), 1)
        if ordered and len(self.dictionary) > 1:
            order = pc.sort_indices(self.dictionary).to_numpy()  # null at the end
            sorted_indices = np.empty(len(order), np.int64)
            sorted_indices[order] = np.arange(len(order))
            self.dictionary, self.codes = self.dictionary.take(pa.array(order)), sorted_indices[self.codes]

    def columns(self, codes: NDArray[np.int64]) -> list[pa.Array]:
        return [self.dictionary.take(pa.array(codes))]


class _Struct(Keys):
    """Keys of structs, formed by their fields and by whether the struct is null."""

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
    """Keys of pairs of keys, ordered by the left key first."""

    def __init__(self, left: Keys, right: Keys) -> None:
        self.left, self.right = left, right
        self.codes, self.size = left.codes * right.size + right.codes, left.size * right.size
        self._occurring: NDArray[np.int64] | None = None
        if self.size > 4 * len(self.codes) + _TABLE_ROOM:
            self._occurring, self.codes = np.unique(self.codes, return_inverse=True)
            self.size = max(len(self._occurring), 1)

    def columns(self, codes: NDArray[np.int64]) -> list[pa.Array]:
        raw = codes if self._occurring is None else self._occurring[codes]
        return [*self.left.columns(raw // self.right.size), *self.right.columns(raw % self.right.size)]


def _column(column: pa.Array, ordered: bool) -> Keys:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)  # its dictionary may hold nulls, or a value twice
    if pa.types.is_struct(column.type):
        return _Struct(column, ordered)
    if pa.types.is_floating(column.type):
        column = canonical_floats(column)
    if pa.types.is_integer(column.type) and not column.null_count and len(column) and column.type != pa.uint64():
        values = column.to_numpy()
        low, high = int(values.min()), int(values.max())
        if high - low < 4 * len(values) + _TABLE_ROOM:
            return _Numbers(values, low, high, column.type)
    return _Values(column, ordered)


# Pairs of rows with equal keys, for joins.


def key_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Returns the type in which values of two types are compared; None if they cannot be compared.

    Whole numbers of all widths can be compared with each other, and so can floating-point numbers of all widths.
    """
    one, other = value_type(one), value_type(other)
    if one == other:
        return one
    for is_of_kind, common in ((_is_whole_number, pa.int64()), (pa.types.is_floating, pa.float64())):
        if is_of_kind(one) and is_of_kind(other):
            return common
    return None


def can_be_compared(kind: pa.DataType) -> bool:
    """True if values of a type can be keys: all types except lists, maps, and structs that contain a list or map."""
    kind = value_type(kind)
    if pa.types.is_struct(kind):
        return all(can_be_compared(field.type) for field in kind)
    return not pa.types.is_nested(kind)


def pairs(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the pairs of a left and a right row with equal keys, in order of (left, right): two int64 arrays of
    indices, of equal length.

    ``left`` and ``right`` are the key columns of each side; ``key_type`` has a type for each pair of columns. A key
    with a null equals no key; NaN equals NaN, and 0.0 equals -0.0.
    """
    left_count, right_count = len(left[0]), len(right[0])
    columns = [_concat_as_one_type(one, other) for one, other in zip(left, right, strict=True)]
    codes = Keys.of(columns, left_count + right_count).codes
    has_key = np.ones(left_count + right_count, np.bool_)
    for column in columns:
        if column.null_count:
            has_key &= column.is_valid().to_numpy(zero_copy_only=False)
    left_rows, right_rows = np.flatnonzero(has_key[:left_count]), np.flatnonzero(has_key[left_count:])
    right_codes = codes[left_count:][right_rows]
    order = stable_order(right_codes)
    right_rows, right_codes = right_rows[order], right_codes[order]
    first_matches = np.searchsorted(right_codes, codes[left_rows], "left")
    match_counts = np.searchsorted(right_codes, codes[left_rows], "right") - first_matches
    lefts = np.repeat(left_rows, match_counts)
    match_starts = np.repeat(np.cumsum(match_counts) - match_counts, match_counts)
    return lefts, right_rows[np.repeat(first_matches, match_counts) + np.arange(len(lefts)) - match_starts]


def _concat_as_one_type(one: pa.Array, other: pa.Array) -> pa.Array:
    common = key_type(one.type, other.type)
    assert common is not None
    return pa.concat_arrays([_cast_to(one, common), _cast_to(other, common)])


def _cast_to(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)


def _is_whole_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind)) and kind != pa.uint64()
