"""Accumulators: partial aggregates of groups of events, which are kept in place of the events and can be merged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowing.aggregates.groups import Groups, Keys
from windowing.columns import is_sorted, order_within, stable_order
from windowing.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Equal accumulators are kept once: the sum and the mean of a column share one.


State = list[Any]
"""The columns of partial aggregates, with one entry per group: NumPy arrays without nulls, or Arrow arrays."""


class EventColumns:
    """The columns and times of events, for accumulators; events are in order of (time, arrival) or of arrival."""

    def __init__(self, columns: Mapping[str, pa.Array], times: NDArray[np.int64]) -> None:
        self.columns, self.times = columns, times
        self._numbers: dict[str, tuple[NDArray[Any], NDArray[np.bool_] | None]] = {}
        self._decoded: dict[str, pa.Array] = {}

    def decoded(self, field: str) -> pa.Array:
        """Returns a column; a column of dictionary type is decoded."""
        if field not in self._decoded:
            column = self.columns[field]
            self._decoded[field] = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        return self._decoded[field]

    def numbers(self, field: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Returns a column of numbers, times or booleans as a NumPy array, and a mask of the values that are not null
        (None: all of them)."""
        if field not in self._numbers:
            self._numbers[field] = to_numbers(self.decoded(field))
        return self._numbers[field]


class Accumulator(ABC):
    """A partial aggregate: makes the states of groups from events, and merges states."""

    @property
    @abstractmethod
    def columns(self) -> Mapping[str, pa.DataType]:
        """The names and types of the columns of its state."""

    @abstractmethod
    def fold(self, events: EventColumns, groups: Groups) -> State:
        """Returns the state of each group of events."""

    @abstractmethod
    def merge(self, state: State, groups: Groups) -> State:
        """Returns the state of each group of states; within a group the states are in order of time, then of
        arrival."""

    def to_columns(self, state: State) -> list[pa.Array]:
        """Returns the state as Arrow columns."""
        kinds = self.columns.values()
        return [
            each if isinstance(each, pa.Array) else pa.array(each, kind)
            for each, kind in zip(state, kinds, strict=True)
        ]

    def from_columns(self, columns: list[pa.Array]) -> State:
        """Returns the state from Arrow columns."""
        return list(columns)

    def take(self, state: State, indices: NDArray[np.int64]) -> State:
        """Returns the entries of a state at these indices."""
        return [each.take(pa.array(indices)) if isinstance(each, pa.Array) else each[indices] for each in state]


class DenseAccumulator(Accumulator):
    """An accumulator whose states are NumPy arrays that are merged entry by entry.

    Overlapping windows are therefore computed from states that they share.
    """

    @abstractmethod
    def empty(self, count: int) -> list[NDArray[Any]]:
        """Returns the state of ``count`` groups without events."""

    @abstractmethod
    def merge_entries(self, earlier: list[NDArray[Any]], later: list[NDArray[Any]]) -> list[NDArray[Any]]:
        """Merge two states entry by entry. An entry of either may stand for a group without events."""

    def from_columns(self, columns: list[pa.Array]) -> list[NDArray[Any]]:
        return [column.to_numpy(zero_copy_only=False) for column in columns]


@dataclass(frozen=True)
class Present(DenseAccumulator):
    """Number of values that are not null."""

    field: str

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"n": pa.int64()}

    def fold(self, events: EventColumns, groups: Groups) -> State:
        column = events.decoded(self.field)
        if not column.null_count:
            return [groups.counts]
        return [groups.sums(pc.is_valid(column).to_numpy(zero_copy_only=False))]

    def merge(self, state: State, groups: Groups) -> State:
        return [groups.sums(state[0])]

    def empty(self, count: int) -> list[NDArray[Any]]:
        return [np.zeros(count, np.int64)]

    def merge_entries(self, earlier: list[NDArray[Any]], later: list[NDArray[Any]]) -> list[NDArray[Any]]:
        return [earlier[0] + later[0]]


@dataclass(frozen=True)
class Total(DenseAccumulator):
    """The sum of the values that are not null, floating point or whole numbers of up to 32 bits; 0 without any."""

    field: str
    floating: bool

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"sum": pa.float64() if self.floating else pa.int64()}

    def fold(self, events: EventColumns, groups: Groups) -> State:
        values, valid = events.numbers(self.field)
        if self.floating:
            values = values.astype(np.float64, copy=False)
        return [groups.sums(values if valid is None else np.where(valid, values, values.dtype.type(0)))]

    def merge(self, state: State, groups: Groups) -> State:
        return [groups.sums(state[0])]

    def empty(self, count: int) -> list[NDArray[Any]]:
        return [np.zeros(count, np.float64 if self.floating else np.int64)]

    def merge_entries(self, earlier: list[NDArray[Any]], later: list[NDArray[Any]]) -> list[NDArray[Any]]:
        with np.errstate(invalid="ignore"):  # inf - inf is NaN
            total = earlier[0] + later[0]
        return [total]


@dataclass(frozen=True)
class Extreme(DenseAccumulator):
    """The least or the greatest of the values that are not null; NaN if one of them is. -0.0 is less than 0.0."""

    field: str
    kind: str
    """NumPy's name of the type of the values."""
    greatest: bool

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"most" if self.greatest else "least": pa.from_numpy_dtype(np.dtype(self.kind))}

    def fold(self, events: EventColumns, groups: Groups) -> State:
        values, valid = events.numbers(self.field)
        return [self._reduced(values if valid is None else np.where(valid, values, self._identity), groups)]

    def merge(self, state: State, groups: Groups) -> State:
        return [self._reduced(state[0], groups)]

    def _reduced(self, values: NDArray[Any], groups: Groups) -> NDArray[Any]:
        extremes = groups.reduce(self._function, values, self._identity)
        if values.dtype.kind != "f" or not (extremes == 0).any():
            return extremes
        return self._with_signed_zeros(extremes, groups.reduce(np.maximum, self._preferred_zeros(values), np.False_))

    def empty(self, count: int) -> list[NDArray[Any]]:
        return [np.full(count, self._identity, np.dtype(self.kind))]

    def merge_entries(self, earlier: list[NDArray[Any]], later: list[NDArray[Any]]) -> list[NDArray[Any]]:
        extremes = self._function(earlier[0], later[0])
        if extremes.dtype.kind == "f" and (extremes == 0).any():
            preferred = self._preferred_zeros(earlier[0]) | self._preferred_zeros(later[0])
            extremes = self._with_signed_zeros(extremes, preferred)
        return [extremes]

    def _preferred_zeros(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Returns a mask of 0.0 for the greatest value, or of -0.0 for the least: for NumPy both zeros are equal."""
        preferred: NDArray[np.bool_] = (values == 0) & (np.signbit(values) != self.greatest)
        return preferred

    def _with_signed_zeros(self, extremes: NDArray[Any], preferred: NDArray[np.bool_]) -> NDArray[Any]:
        """Returns extremes with the right sign of zeros; ``preferred``: a mask of the groups with a preferred zero."""
        zero = extremes.dtype.type(0)
        return np.where(extremes == 0, np.where(preferred == self.greatest, zero, -zero), extremes)

    @property
    def _function(self) -> np.ufunc:
        return np.maximum if self.greatest else np.minimum

    @property
    def _identity(self) -> Any:
        """The identity of the reduction: the extreme of it and any value is that value."""
        kind = np.dtype(self.kind)
        if kind.kind == "f":
            return kind.type(-np.inf if self.greatest else np.inf)
        if kind.kind == "b":
            return not self.greatest
        limits = np.iinfo(kind)
        return kind.type(limits.min if self.greatest else limits.max)


def number_type(kind: pa.DataType) -> np.dtype[Any] | None:
    """Returns the NumPy type in which numbers, booleans, times or dates of an Arrow type are compared; None for other
    types."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        same_type: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return same_type
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return np.dtype(np.int32 if kind.bit_width == 32 else np.int64)
    return None


def to_numbers(column: pa.Array) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Returns a column of a type with a ``number_type`` as a NumPy array, and a mask of the values that are not null
    (None: all of them). Nulls are 0 or False in the array."""
    target = number_type(column.type)
    assert target is not None
    if target.kind == "i" and not pa.types.is_integer(column.type):
        column = column.cast(pa.from_numpy_dtype(target))
    valid = None
    if column.null_count:
        valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
        column = column.fill_null(False if target.kind == "b" else 0)
    return column.to_numpy(zero_copy_only=False), valid


# Lists of values, one for each group.


def to_lists(values: pa.Array, counts: NDArray[np.int64]) -> pa.Array:
    """Divide values into lists; ``counts`` is the length of each list."""
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def groups_of_values(lists: pa.Array, groups: Groups) -> NDArray[np.int64]:
    """Returns, for each value in a column of lists, the number of the group of its row."""
    return np.repeat(groups.numbers, pc.list_value_length(lists).to_numpy())


@dataclass(frozen=True)
class Gathered(Accumulator):
    """All values of a column, nulls included, and their times, in order of (time, arrival)."""

    field: str
    kind: pa.DataType

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"times": pa.list_(pa.int64()), "values": pa.list_(self.kind)}

    def fold(self, events: EventColumns, groups: Groups) -> State:
        return _lists_by_time(groups.numbers, len(groups), events.times, events.decoded(self.field))

    def merge(self, state: State, groups: Groups) -> State:
        times, values = state
        return _lists_by_time(
            groups_of_values(times, groups), len(groups), times.flatten().to_numpy(), values.flatten()
        )


def _lists_by_time(group_numbers: NDArray[np.int64], count: int, times: NDArray[np.int64], values: pa.Array) -> State:
    counts = np.bincount(group_numbers, minlength=count)
    if not is_sorted(group_numbers):
        order = stable_order(group_numbers)
        order = order[order_within(group_numbers[order], times[order])]
    elif ((times[1:] >= times[:-1]) | (group_numbers[1:] > group_numbers[:-1])).all():
        return [to_lists(pa.array(times), counts), to_lists(values, counts)]
    else:
        order = order_within(group_numbers, times)
    return [to_lists(pa.array(times[order]), counts), to_lists(values.take(pa.array(order)), counts)]


# The order of values, and the least and the greatest of values other than numbers: texts, binaries, decimals, structs.
#
# Structs are compared field by field, in the order in which these are declared. NaN is after all numbers, and equal to
# NaN; 0.0 equals -0.0; a null within a struct is after all values.


@dataclass(frozen=True)
class Ranked(Accumulator):
    """The least or the greatest of the values that are not null; null without any."""

    field: str
    kind: pa.DataType
    greatest: bool

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"most" if self.greatest else "least": self.kind}

    def fold(self, events: EventColumns, groups: Groups) -> State:
        return [self._extreme(events.decoded(self.field), groups)]

    def merge(self, state: State, groups: Groups) -> State:
        return [self._extreme(state[0], groups)]

    def _extreme(self, values: pa.Array, groups: Groups) -> pa.Array:
        keys = Keys.of([values], len(values), ordered=True)
        no_value, function = (-1, np.maximum) if self.greatest else (keys.size, np.minimum)
        order_numbers = keys.codes
        if values.null_count:
            order_numbers = np.where(pc.is_valid(values).to_numpy(zero_copy_only=False), order_numbers, no_value)
        extremes = groups.reduce(function, order_numbers, no_value)
        missing = extremes == no_value
        (column,) = keys.columns(np.where(missing, 0, extremes))
        return pc.if_else(pa.array(missing), pa.scalar(None, self.kind), column) if missing.any() else column


def order_numbers(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Returns whole numbers that are in the order of the values, and a mask of the values that are not null (None: all
    of them).

    Equal values have equal numbers. Numbers of different columns cannot be compared. ``~`` reverses the order.
    """
    if number_type(column.type) is None:
        valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
        return Keys.of([column], len(column), ordered=True).codes, valid
    values, valid = to_numbers(column)
    if values.dtype.kind == "f":
        bits = (values.astype(np.float64) + 0.0).view(np.int64)  # without -0.0
        numbers: NDArray[np.int64] = np.where(bits < 0, bits ^ _ALL_BUT_SIGN, bits)
        numbers[np.isnan(values)] = _ALL_BUT_SIGN
        return numbers, valid
    if values.dtype == np.uint64:
        return (values ^ np.uint64(1 << 63)).view(np.int64), valid
    return values.astype(np.int64, copy=False), valid


_ALL_BUT_SIGN = (1 << 63) - 1
"""All bits except the sign bit."""


def can_be_ranked(kind: pa.DataType) -> bool:
    """True if values of this type have an order; structs are ordered by their fields."""
    if pa.types.is_struct(kind):
        return all(can_be_ranked(field.type) for field in kind)
    return has_order(kind) and not pa.types.is_dictionary(kind)


def has_order(kind: pa.DataType) -> bool:
    """True if values of this type can be sorted and compared."""
    if pa.types.is_nested(kind):
        return False
    try:
        empty = pa.array([], kind)
        pc.sort_indices(empty)
        pc.dictionary_encode(empty)
    except pa.ArrowNotImplementedError:
        return False
    return True


# Sums of whole numbers and of decimals that may be longer than 64 bits.


DIGITS = 18
"""Maximum number of digits of a decimal whose unscaled value fits into 64 bits."""
_LOW = (1 << 32) - 1


@dataclass(frozen=True)
class WideTotal(DenseAccumulator):
    """The sum of the values that are not null, as its upper and its lower bits; decimals in units of their last
    digit."""

    field: str

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"high": pa.int64(), "low": pa.int64()}

    def fold(self, events: EventColumns, groups: Groups) -> State:
        column = events.decoded(self.field)
        if pa.types.is_decimal(column.type):
            values, valid = unscaled(column)
        else:
            values, valid = events.numbers(self.field)
        values = values.astype(np.int64, copy=False)
        if valid is not None:
            values = np.where(valid, values, 0)
        return _carry(groups.sums(values >> 32), groups.sums(values & _LOW))

    def merge(self, state: State, groups: Groups) -> State:
        high, low = state
        return _carry(groups.sums(high), groups.sums(low))

    def empty(self, count: int) -> list[NDArray[Any]]:
        return [np.zeros(count, np.int64), np.zeros(count, np.int64)]

    def merge_entries(self, earlier: list[NDArray[Any]], later: list[NDArray[Any]]) -> list[NDArray[Any]]:
        return _carry(earlier[0] + later[0], earlier[1] + later[1])


def _carry(high: NDArray[np.int64], low: NDArray[np.int64]) -> list[NDArray[Any]]:
    return [high + (low >> 32), low & _LOW]


def unscaled(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Returns decimals of up to 18 digits in units of their last digit, and a mask of those that are not null (None:
    all of them)."""
    if not len(column):
        return np.zeros(0, np.int64), None
    words = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)  # so few digits need the lower 64 bits only
    values = words[column.offset : column.offset + len(column), 0]
    return values, column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None


def as_doubles(state: State) -> NDArray[np.float64]:
    """Returns the sums of a ``WideTotal`` as doubles; those of decimals are in units of their last digit."""
    high, low = state
    sums: NDArray[np.float64] = high * float(_LOW + 1) + low
    return sums


def as_int64(state: State, field: str) -> NDArray[np.int64]:
    """Returns the sums of a ``WideTotal`` as int64; raises DataError if a sum does not fit into 64 bits."""
    high, low = state
    beyond = np.flatnonzero((high < -(1 << 31)) | (high >= 1 << 31))
    if len(beyond):
        raise DataError(
            f"the sum of {field!r} does not fit into 64 bits",
            why=f"it is {(int(high[beyond[0]]) << 32) + int(low[beyond[0]])}",
            do="cast the column to double, or to a decimal, in a bolt before",
        )
    sums: NDArray[np.int64] = (high << 32) | low
    return sums


def as_decimals(state: State, kind: pa.DataType) -> pa.Array:
    """Returns the sums of decimals of a ``WideTotal`` as a column of type ``kind``, which has the scale of these
    decimals."""
    high, low = state
    words = np.empty((len(high), 2), np.int64)
    words[:, 0] = (high << 32) | low
    words[:, 1] = high >> 32
    return pa.Array.from_buffers(kind, len(high), [None, pa.py_buffer(words)])


# Means of columns, and sums of the products of the distances from them: variances, covariances, correlations.


_QUIET = np.errstate(invalid="ignore", over="ignore", divide="ignore")
"""Setting in which infinite values give NaN without warnings."""
_EXACT = np.int64(-1 << 11)
"""A mask: an int64 whose last 11 bits are 0 is exact as a double."""


class NotNullAccumulator(DenseAccumulator):
    """An accumulator of the events in which none of its columns is null; the first column of its state is the number
    of these events."""

    @property
    @abstractmethod
    def _fields_read(self) -> tuple[str, ...]:
        """The names of its columns."""

    def fold(self, events: EventColumns, groups: Groups) -> State:
        values, valid = zip(*(self._values(events, field) for field in self._fields_read), strict=True)
        masks = [each for each in valid if each is not None]
        if not masks and len(groups):
            return self._fold_present(values, groups)
        is_present = np.logical_and.reduce(masks) if masks else np.ones(len(groups.codes), np.bool_)
        present = Groups(groups.numbers[is_present], len(groups))
        return self._all_groups(
            len(groups), present, self._fold_present(tuple(column[is_present] for column in values), present)
        )

    def merge(self, state: State, groups: Groups) -> State:
        has_values = state[0] > 0
        present = Groups(groups.numbers[has_values], len(groups))
        return self._all_groups(
            len(groups), present, self._merge_present([column[has_values] for column in state], present)
        )

    def empty(self, count: int) -> list[NDArray[Any]]:
        return [np.zeros(count, np.int64), *(np.zeros(count) for _ in list(self.columns)[1:])]

    def _all_groups(self, count: int, present: Groups, state_of_present: list[NDArray[Any]]) -> State:
        """Returns the state of all ``count`` groups, from the state of the groups that have values."""
        state = self.empty(count)
        for column, values in zip(state, state_of_present, strict=True):
            column[present.present_codes] = values
        return state

    @abstractmethod
    def _values(self, events: EventColumns, field: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Returns a column, and a mask of the values that are not null (None: all of them)."""

    @abstractmethod
    def _fold_present(self, values: tuple[NDArray[Any], ...], groups: Groups) -> list[NDArray[Any]]:
        """Returns the state of groups of values."""

    @abstractmethod
    def _merge_present(self, state: list[NDArray[Any]], groups: Groups) -> list[NDArray[Any]]:
        """Returns the state of groups of states; no state is empty."""


@dataclass(frozen=True)
class Moments(NotNullAccumulator):
    """Count, means, and sums of products of distances from the means, of one column or two (Chan's formulas).

    A mean is kept as its distance from a shift, a number close to a value of the column. So rounding errors are
    relative to the distances between values, not to the size of values; this also holds for the mean of merged states.
    Decimals are in units of their last digit.
    """

    fields: tuple[str, ...]

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        each = [f"{what} {at}" for at in range(len(self.fields)) for what in ("shift", "mean")]
        products = [f"product {one} {other}" for one, other in self._pairs]
        return {"n": pa.int64(), **dict.fromkeys([*each, *products], pa.float64())}

    @_QUIET
    def merge_entries(self, earlier: list[NDArray[Any]], later: list[NDArray[Any]]) -> list[NDArray[Any]]:
        earlier_counts, later_counts = earlier[0], later[0]
        total, has_earlier, has_both = (
            earlier_counts + later_counts,
            earlier_counts > 0,
            (earlier_counts > 0) & (later_counts > 0),
        )
        share = later_counts / np.maximum(total, 1)
        means, gaps = [], []
        for at in self._shift_indices:
            (shift, mean), (other, later_mean) = earlier[at : at + 2], later[at : at + 2]
            gap = np.where(has_both, (other - shift) + (later_mean - mean), 0.0)  # where one is empty, it may be NaN
            means += [np.where(has_earlier, shift, other), np.where(has_earlier, mean + gap * share, later_mean)]
            gaps.append(gap)
        between = [gap * other * earlier_counts * share for gap, other in self._products(gaps)]
        sums = zip(earlier[self._product_sums], later[self._product_sums], between, strict=True)
        return [total, *means, *(before + after + part for before, after, part in sums)]

    @property
    def _fields_read(self) -> tuple[str, ...]:
        return self.fields

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        return list(combinations_with_replacement(range(len(self.fields)), 2))

    @property
    def _shift_indices(self) -> range:
        """The indices in the state of the shift of each column; the mean of the column is at the next index."""
        return range(1, 1 + 2 * len(self.fields), 2)

    @property
    def _product_sums(self) -> slice:
        """Indices of the sums of products in the state."""
        return slice(1 + 2 * len(self.fields), None)

    def _products(self, columns: list[NDArray[np.float64]]) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        return [(columns[one], columns[other]) for one, other in self._pairs]

    def _values(self, events: EventColumns, field: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        column = events.decoded(field)
        return unscaled(column) if pa.types.is_decimal(column.type) else events.numbers(field)

    @_QUIET
    def _fold_present(self, values: tuple[NDArray[Any], ...], groups: Groups) -> list[NDArray[Any]]:
        means, distances = [], []
        for column in values:
            shifts, from_shift = _distances_from_shift(column, groups)
            mean = groups.sums(from_shift) / groups.counts
            means += [shifts, mean]
            distances.append(from_shift - mean[groups.numbers])
        return [groups.counts, *means, *(groups.sums(one * other) for one, other in self._products(distances))]

    @_QUIET
    def _merge_present(self, state: list[NDArray[Any]], groups: Groups) -> list[NDArray[Any]]:
        counts = state[0]
        total = groups.sums(counts)
        means, gaps = [], []
        for at in self._shift_indices:
            shifts, from_shift = _distances_from_shift(state[at], groups)
            from_shift = from_shift + state[at + 1]
            mean = groups.sums(counts * from_shift) / total
            means += [shifts, mean]
            gaps.append(from_shift - mean[groups.numbers])
        between = [groups.sums(counts * gap * other) for gap, other in self._products(gaps)]
        within = (groups.sums(products) for products in state[self._product_sums])
        return [total, *means, *(inner + outer for inner, outer in zip(within, between, strict=True))]


def _distances_from_shift(values: NDArray[Any], groups: Groups) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the shift of each group, a double that is its first value or close to it; and the distance of each value
    from the shift of its group."""
    first_values = np.empty(len(groups), values.dtype)
    first_values[groups.numbers[::-1]] = values[::-1]
    if values.dtype != np.int64:
        shifts = first_values.astype(np.float64, copy=False)
        return shifts, values.astype(np.float64, copy=False) - shifts[groups.numbers]
    first_values &= _EXACT
    shifts = first_values.astype(np.float64)
    rounded = values.astype(np.float64) - shifts[groups.numbers]
    fits = np.abs(rounded) < 1 << 62
    return shifts, np.where(fits, values - first_values[groups.numbers], rounded)
