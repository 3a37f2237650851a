"""Pairs of rows with equal keys: the heart of a join of two sets of rows that are both there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from windowing.aggregates.key_numbers import Keys
from windowing.data.order import stable_order
from windowing.data.schema import value_type

if TYPE_CHECKING:
    from numpy.typing import NDArray


def key_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type in which values of two types are compared; None where they are of different kinds.

    Whole numbers of any width are compared, and floating point of any width; so are they grouped.
    """
    one, other = value_type(one), value_type(other)
    if one == other:
        return one
    for same, common in ((_whole, pa.int64()), (pa.types.is_floating, pa.float64())):
        if same(one) and same(other):
            return common
    return None


def can_be_compared(kind: pa.DataType) -> bool:
    """Whether values of a type can be keys: all but lists and maps, and structs of these."""
    kind = value_type(kind)
    if pa.types.is_struct(kind):
        return all(can_be_compared(field.type) for field in kind)
    return not pa.types.is_nested(kind)


def pairs(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which rows of two sides have equal keys, in order of (left, right): int64 positions, as many of each.

    The columns of both sides are of types that ``key_type`` knows to compare. A key with a null equals none; NaN
    equals NaN, and 0.0 equals -0.0.
    """
    rows, others = len(left[0]), len(right[0])
    columns = [_joined(one, other) for one, other in zip(left, right, strict=True)]
    codes = Keys.of(columns, rows + others).codes
    known = np.ones(rows + others, np.bool_)
    for column in columns:
        if column.null_count:
            known &= column.is_valid().to_numpy(zero_copy_only=False)
    here, there = np.flatnonzero(known[:rows]), np.flatnonzero(known[rows:])
    theirs = codes[rows:][there]
    order = stable_order(theirs)
    there, theirs = there[order], theirs[order]
    begin = np.searchsorted(theirs, codes[here], "left")
    count = np.searchsorted(theirs, codes[here], "right") - begin
    lefts = np.repeat(here, count)
    skipped = np.repeat(np.cumsum(count) - count, count)
    return lefts, there[np.repeat(begin, count) + np.arange(len(lefts)) - skipped]


def _joined(one: pa.Array, other: pa.Array) -> pa.Array:
    common = key_type(one.type, other.type)
    assert common is not None
    return pa.concat_arrays([_as(one, common), _as(other, common)])


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)


def _whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind)) and kind != pa.uint64()
