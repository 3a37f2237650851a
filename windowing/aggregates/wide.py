"""Sums of whole numbers and of decimals that may be longer than 64 bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windowing.aggregates.accumulators import DenseAccumulator, Folded, State
from windowing.aggregates.groups import Groups
from windowing.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIGITS = 18
"""Maximum number of digits of a decimal whose unscaled value fits into 64 bits."""
_LOW = (1 << 32) - 1


@dataclass(frozen=True)
class WideTotal(DenseAccumulator):
    """The sum of the values that are not null, in upper and lower bits. Decimals in their last digit."""

    field: str

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"high": pa.int64(), "low": pa.int64()}

    def fold(self, events: Folded, groups: Groups) -> State:
        column = events.plain(self.field)
        if pa.types.is_decimal(column.type):
            values, valid = unscaled(column)
        else:
            values, valid = events.numbers(self.field)
        values = values.astype(np.int64, copy=False)
        if valid is not None:
            values = np.where(valid, values, 0)
        return _carried(groups.sums(values >> 32), groups.sums(values & _LOW))

    def merge(self, state: State, groups: Groups) -> State:
        high, low = state
        return _carried(groups.sums(high), groups.sums(low))

    def empty(self, count: int) -> list[NDArray[Any]]:
        return [np.zeros(count, np.int64), np.zeros(count, np.int64)]

    def combined(self, earlier: list[NDArray[Any]], later: list[NDArray[Any]]) -> list[NDArray[Any]]:
        return _carried(earlier[0] + later[0], earlier[1] + later[1])


def _carried(high: NDArray[np.int64], low: NDArray[np.int64]) -> list[NDArray[Any]]:
    return [high + (low >> 32), low & _LOW]


def unscaled(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Decimals in their last digit, and which are not null: of their 128 bits those of few digits fill half."""
    if not len(column):
        return np.zeros(0, np.int64), None
    words = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)
    values = words[column.offset : column.offset + len(column), 0]
    return values, column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None


def as_doubles(state: State) -> NDArray[np.float64]:
    """Wide sums as doubles; those of decimals in their last digit."""
    high, low = state
    found: NDArray[np.float64] = high * float(_LOW + 1) + low
    return found


def as_whole(state: State, field: str) -> NDArray[np.int64]:
    """Wide sums as whole numbers; DataError where one does not fit into 64 bits."""
    high, low = state
    beyond = np.flatnonzero((high < -(1 << 31)) | (high >= 1 << 31))
    if len(beyond):
        raise DataError(
            f"the sum of {field!r} does not fit into 64 bits",
            why=f"it is {(int(high[beyond[0]]) << 32) + int(low[beyond[0]])}",
            do="cast the column to double, or to a decimal, in a bolt before",
        )
    found: NDArray[np.int64] = (high << 32) | low
    return found


def as_decimals(state: State, kind: pa.DataType) -> pa.Array:
    """Wide sums of decimals as a column of decimals of this type, which has their scale."""
    high, low = state
    words = np.empty((len(high), 2), np.int64)
    words[:, 0] = (high << 32) | low
    words[:, 1] = high >> 32
    return pa.Array.from_buffers(kind, len(high), [None, pa.py_buffer(words)])
