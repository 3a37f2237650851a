"""The order of values, and the least and the greatest of values other than numbers: texts, binaries, decimals, structs.

Structs are compared field by field, in the order in which these are declared. NaN is after all numbers, and equal to
NaN; 0.0 equals -0.0; a null within a struct is after all values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowing.aggregates.accumulators import Accumulator, Folded, State, as_number, as_numbers
from windowing.aggregates.groups import Groups
from windowing.aggregates.key_numbers import Keys

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Ranked(Accumulator):
    """The least or the greatest of the values that are not null; null without any."""

    field: str
    kind: pa.DataType
    greatest: bool

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"most" if self.greatest else "least": self.kind}

    def fold(self, events: Folded, groups: Groups) -> State:
        return [self._extreme(events.plain(self.field), groups)]

    def merge(self, state: State, groups: Groups) -> State:
        return [self._extreme(state[0], groups)]

    def _extreme(self, values: pa.Array, groups: Groups) -> pa.Array:
        keys = Keys.of([values], len(values), ordered=True)
        none, function = (-1, np.maximum) if self.greatest else (keys.size, np.minimum)
        ranks = keys.codes
        if values.null_count:
            ranks = np.where(pc.is_valid(values).to_numpy(zero_copy_only=False), ranks, none)
        found = groups.reduced(function, ranks, none)
        missing = found == none
        (column,) = keys.columns(np.where(missing, 0, found))
        return pc.if_else(pa.array(missing), pa.scalar(None, self.kind), column) if missing.any() else column


def ranks(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Whole numbers in the order of the values, equal where these are, and which rows are not null; None: all of them.

    They compare the values of one column; what they are may differ from column to column. ``~`` turns the order round.
    """
    if as_number(column.type) is None:
        valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
        return Keys.of([column], len(column), ordered=True).codes, valid
    values, valid = as_numbers(column)
    if values.dtype.kind == "f":
        bits = (values.astype(np.float64) + 0.0).view(np.int64)  # without -0.0
        found: NDArray[np.int64] = np.where(bits < 0, bits ^ _UNSIGNED, bits)
        found[np.isnan(values)] = _UNSIGNED
        return found, valid
    if values.dtype == np.uint64:
        return (values ^ np.uint64(1 << 63)).view(np.int64), valid
    return values.astype(np.int64, copy=False), valid


_UNSIGNED = (1 << 63) - 1
"""All bits but the sign's."""


def can_be_ranked(kind: pa.DataType) -> bool:
    """Whether values of this type have an order, those of structs by their fields."""
    if pa.types.is_struct(kind):
        return all(can_be_ranked(field.type) for field in kind)
    return has_order(kind) and not pa.types.is_dictionary(kind)


def has_order(kind: pa.DataType) -> bool:
    """Whether values of this type can be sorted, and told apart."""
    if pa.types.is_nested(kind):
        return False
    try:
        empty = pa.array([], kind)
        pc.sort_indices(empty)
        pc.dictionary_encode(empty)
    except pa.ArrowNotImplementedError:
        return False
    return True
