"""What is kept of the events of a group, so that they need not be kept: partial results that can be joined.

Accumulators are values: an AggregateBolt keeps equal ones once, so that a sum and a mean of one column share theirs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from windowing.aggregates.groups import Groups

State = list[Any]
"""The columns of partial results, one entry per group: NumPy arrays without nulls, or Arrow arrays."""


class Folded:
    """Events that are being folded, in order of (time, arrival) or of arrival alone: their columns as arrays."""

    def __init__(self, columns: Mapping[str, pa.Array], times: NDArray[np.int64]) -> None:
        self.columns, self.times = columns, times
        self._numbers: dict[str, tuple[NDArray[Any], NDArray[np.bool_] | None]] = {}
        self._plain: dict[str, pa.Array] = {}

    def plain(self, field: str) -> pa.Array:
        """A column without a dictionary."""
        if field not in self._plain:
            column = self.columns[field]
            self._plain[field] = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        return self._plain[field]

    def numbers(self, field: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """A column of numbers, times or booleans as a NumPy array, and which rows are not null; None: all of them."""
        if field not in self._numbers:
            self._numbers[field] = as_numbers(self.plain(field))
        return self._numbers[field]


class Accumulator(ABC):
    """A partial result of each group: made of events, and joined with others."""

    @property
    @abstractmethod
    def columns(self) -> Mapping[str, pa.DataType]:
        """The columns of its state, as they are stored."""

    @abstractmethod
    def fold(self, events: Folded, groups: Groups) -> State:
        """The state of each group of events."""

    @abstractmethod
    def merge(self, state: State, groups: Groups) -> State:
        """The state of each group of partial results; those of one group are in order of time, then of arrival."""

    def stored(self, state: State) -> list[pa.Array]:
        """The state as Arrow columns."""
        kinds = self.columns.values()
        return [
            each if isinstance(each, pa.Array) else pa.array(each, kind)
            for each, kind in zip(state, kinds, strict=True)
        ]

    def loaded(self, columns: list[pa.Array]) -> State:
        """The state from Arrow columns."""
        return list(columns)

    def taken(self, state: State, at: NDArray[np.int64]) -> State:
        """The entries at some places."""
        return [each.take(pa.array(at)) if isinstance(each, pa.Array) else each[at] for each in state]


class DenseAccumulator(Accumulator):
    """One whose state is numbers, joined entry by entry: windows that overlap are then joined from those before."""

    @abstractmethod
    def empty(self, count: int) -> list[NDArray[Any]]:
        """The state of a number of groups without events."""

    @abstractmethod
    def combined(self, earlier: list[NDArray[Any]], later: list[NDArray[Any]]) -> list[NDArray[Any]]:
        """The states of two runs of events joined, entry by entry; either may be empty."""

    def loaded(self, columns: list[pa.Array]) -> list[NDArray[Any]]:
        return [column.to_numpy(zero_copy_only=False) for column in columns]


@dataclass(frozen=True)
class Present(DenseAccumulator):
    """How many values are not null."""

    field: str

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"n": pa.int64()}

    def fold(self, events: Folded, groups: Groups) -> State:
        column = events.plain(self.field)
        if not column.null_count:
            return [groups.counts]
        return [groups.sums(pc.is_valid(column).to_numpy(zero_copy_only=False))]

    def merge(self, state: State, groups: Groups) -> State:
        return [groups.sums(state[0])]

    def empty(self, count: int) -> list[NDArray[Any]]:
        return [np.zeros(count, np.int64)]

    def combined(self, earlier: list[NDArray[Any]], later: list[NDArray[Any]]) -> list[NDArray[Any]]:
        return [earlier[0] + later[0]]


@dataclass(frozen=True)
class Total(DenseAccumulator):
    """The sum of the values that are not null, floating point or whole numbers of up to 32 bits; 0 without any."""

    field: str
    floating: bool

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"sum": pa.float64() if self.floating else pa.int64()}

    def fold(self, events: Folded, groups: Groups) -> State:
        values, valid = events.numbers(self.field)
        if self.floating:
            values = values.astype(np.float64, copy=False)
        return [groups.sums(values if valid is None else np.where(valid, values, values.dtype.type(0)))]

    def merge(self, state: State, groups: Groups) -> State:
        return [groups.sums(state[0])]

    def empty(self, count: int) -> list[NDArray[Any]]:
        return [np.zeros(count, np.float64 if self.floating else np.int64)]

    def combined(self, earlier: list[NDArray[Any]], later: list[NDArray[Any]]) -> list[NDArray[Any]]:
        with np.errstate(invalid="ignore"):  # inf - inf is NaN
            total = earlier[0] + later[0]
        return [total]


@dataclass(frozen=True)
class Extreme(DenseAccumulator):
    """The least or the greatest of the values that are not null; NaN if one of them is."""

    field: str
    kind: str
    """NumPy's name of the type of the values."""
    greatest: bool

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"most" if self.greatest else "least": pa.from_numpy_dtype(np.dtype(self.kind))}

    def fold(self, events: Folded, groups: Groups) -> State:
        values, valid = events.numbers(self.field)
        return [groups.reduced(self._function, values if valid is None else np.where(valid, values, self._none),
                               self._none)]  # fmt: skip

    def merge(self, state: State, groups: Groups) -> State:
        return [groups.reduced(self._function, state[0], self._none)]

    def empty(self, count: int) -> list[NDArray[Any]]:
        return [np.full(count, self._none, np.dtype(self.kind))]

    def combined(self, earlier: list[NDArray[Any]], later: list[NDArray[Any]]) -> list[NDArray[Any]]:
        return [self._function(earlier[0], later[0])]

    @property
    def _function(self) -> np.ufunc:
        return np.maximum if self.greatest else np.minimum

    @property
    def _none(self) -> Any:
        """What every value is beyond, or equal to."""
        kind = np.dtype(self.kind)
        if kind.kind == "f":
            return kind.type(-np.inf if self.greatest else np.inf)
        if kind.kind == "b":
            return not self.greatest
        limits = np.iinfo(kind)
        return kind.type(limits.min if self.greatest else limits.max)


def as_number(kind: pa.DataType) -> np.dtype[Any] | None:
    """The NumPy type in which values of a column are compared: numbers, booleans, times, dates; None for others."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        found: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return found
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return np.dtype(np.int32 if kind.bit_width == 32 else np.int64)
    return None


def as_numbers(column: pa.Array) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Such a column as a NumPy array, with some number for null, and which rows are not null; None: all of them."""
    wanted = as_number(column.type)
    assert wanted is not None
    if wanted.kind == "i" and not pa.types.is_integer(column.type):
        column = column.cast(pa.from_numpy_dtype(wanted))
    valid = None
    if column.null_count:
        valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
        column = column.fill_null(False if wanted.kind == "b" else 0)
    return column.to_numpy(zero_copy_only=False), valid
