"""Partial aggregates, which are kept in place of the events of a group and can be merged: lists, order of values,
sums, means, moments.
"""

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


# Partial results of the events of a group, kept instead of the events; they can be merged.
#
# Accumulators are values: an AggregateBolt keeps equal ones once, so that a sum and a mean of one column share theirs.


State = list[Any]
"""The columns of partial results, one entry per group: NumPy arrays without nulls, or Arrow arrays."""


class Folded:
    """Events that are being folded, in order of (time, arrival) or of arrival alone: their columns as arrays."""

    def __init__(self, columns: Mapping[str, pa.Array], times: NDArray[np.int64]) -> None:
        self.columns, self.times = columns, times
        self._numbers: dict[str, tuple[NDArray[Any], NDArray[np.bool_] | None]] = {}
        self._plain: dict[str, pa.Array] = {}

    def plain(self, field: str) -> pa.Array:
        """Returns a column without a dictionary."""
        if field not in self._plain:
            column = self.columns[field]
            self._plain[field] = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        return self._plain[field]

    def numbers(self, field: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Returns a column of numbers, times or booleans as a NumPy array, and which rows are not null; None: all of
        them."""
        if field not in self._numbers:
            self._numbers[field] = as_numbers(self.plain(field))
        return self._numbers[field]


class Accumulator(ABC):
    """A partial result of each group, made from events and merged with others."""

    @property
    @abstractmethod
    def columns(self) -> Mapping[str, pa.DataType]:
        """The columns of its state, as they are stored."""

    @abstractmethod
    def fold(self, events: Folded, groups: Groups) -> State:
        """Returns the state of each group of events."""

    @abstractmethod
    def merge(self, state: State, groups: Groups) -> State:
        """Returns the state of each group of partial results; the results of one group are in order of time, then of
        arrival."""

    def stored(self, state: State) -> list[pa.Array]:
        """Returns the state as Arrow columns."""
        kinds = self.columns.values()
        return [
            each if isinstance(each, pa.Array) else pa.array(each, kind)
            for each, kind in zip(state, kinds, strict=True)
        ]

    def loaded(self, columns: list[pa.Array]) -> State:
        """Returns the state from Arrow columns."""
        return list(columns)

    def taken(self, state: State, at: NDArray[np.int64]) -> State:
        """Returns the entries at some places."""
        return [each.take(pa.array(at)) if isinstance(each, pa.Array) else each[at] for each in state]


class DenseAccumulator(Accumulator):
    """An accumulator whose state is numbers, merged entry by entry, so that a window that overlaps an earlier one is
    merged from its state."""

    @abstractmethod
    def empty(self, count: int) -> list[NDArray[Any]]:
        """Returns the state of a number of groups without events."""

    @abstractmethod
    def combined(self, earlier: list[NDArray[Any]], later: list[NDArray[Any]]) -> list[NDArray[Any]]:
        """Returns the merged states of two runs of events, entry by entry; either may be empty."""

    def loaded(self, columns: list[pa.Array]) -> list[NDArray[Any]]:
        return [column.to_numpy(zero_copy_only=False) for column in columns]


@dataclass(frozen=True)
class Present(DenseAccumulator):
    """Number of values that are not null."""

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
    """The least or the greatest of the values that are not null; NaN if one of them is. -0.0 is less than 0.0."""

    field: str
    kind: str
    """NumPy's name of the type of the values."""
    greatest: bool

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"most" if self.greatest else "least": pa.from_numpy_dtype(np.dtype(self.kind))}

    def fold(self, events: Folded, groups: Groups) -> State:
        values, valid = events.numbers(self.field)
        return [self._reduced(values if valid is None else np.where(valid, values, self._none), groups)]

    def merge(self, state: State, groups: Groups) -> State:
        return [self._reduced(state[0], groups)]

    def _reduced(self, values: NDArray[Any], groups: Groups) -> NDArray[Any]:
        found = groups.reduced(self._function, values, self._none)
        if values.dtype.kind != "f" or not (found == 0).any():
            return found
        return self._signed(found, groups.reduced(np.maximum, self._are_beyond(values), np.False_))

    def empty(self, count: int) -> list[NDArray[Any]]:
        return [np.full(count, self._none, np.dtype(self.kind))]

    def combined(self, earlier: list[NDArray[Any]], later: list[NDArray[Any]]) -> list[NDArray[Any]]:
        found = self._function(earlier[0], later[0])
        if found.dtype.kind == "f" and (found == 0).any():
            found = self._signed(found, self._are_beyond(earlier[0]) | self._are_beyond(later[0]))
        return [found]

    def _are_beyond(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Returns which values are the zero that counts if both are there: NumPy finds either."""
        beyond: NDArray[np.bool_] = (values == 0) & (np.signbit(values) != self.greatest)
        return beyond

    def _signed(self, found: NDArray[Any], beyond: NDArray[np.bool_]) -> NDArray[Any]:
        """Returns results with the right zeros; ``beyond`` says of each whether the zero that counts is there."""
        zero = found.dtype.type(0)
        return np.where(found == 0, np.where(beyond == self.greatest, zero, -zero), found)

    @property
    def _function(self) -> np.ufunc:
        return np.maximum if self.greatest else np.minimum

    @property
    def _none(self) -> Any:
        """Returns the start value: every value of the type is beyond it, or equal to it."""
        kind = np.dtype(self.kind)
        if kind.kind == "f":
            return kind.type(-np.inf if self.greatest else np.inf)
        if kind.kind == "b":
            return not self.greatest
        limits = np.iinfo(kind)
        return kind.type(limits.min if self.greatest else limits.max)


def as_number(kind: pa.DataType) -> np.dtype[Any] | None:
    """Returns the NumPy type in which values of a column are compared: numbers, booleans, times, dates; None for
    others."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        found: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return found
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return np.dtype(np.int32 if kind.bit_width == 32 else np.int64)
    return None


def as_numbers(column: pa.Array) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Returns such a column as a NumPy array, with some number for null, and a mask of the other values; None: all are
    valid."""
    wanted = as_number(column.type)
    assert wanted is not None
    if wanted.kind == "i" and not pa.types.is_integer(column.type):
        column = column.cast(pa.from_numpy_dtype(wanted))
    valid = None
    if column.null_count:
        valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
        column = column.fill_null(False if wanted.kind == "b" else 0)
    return column.to_numpy(zero_copy_only=False), valid


# Lists of values, one for each group.


def listed(values: pa.Array, counts: NDArray[np.int64]) -> pa.Array:
    """Returns values as lists; ``counts`` is the length of each list."""
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def owners_of(lists: pa.Array, groups: Groups) -> NDArray[np.int64]:
    """Returns the place of the group of each value in some lists, one list a row."""
    return np.repeat(groups.numbers, pc.list_value_length(lists).to_numpy())


@dataclass(frozen=True)
class Gathered(Accumulator):
    """All values, including nulls, and their times, in order of (time, arrival)."""

    field: str
    kind: pa.DataType

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"times": pa.list_(pa.int64()), "values": pa.list_(self.kind)}

    def fold(self, events: Folded, groups: Groups) -> State:
        return _gathered(groups.numbers, len(groups), events.times, events.plain(self.field))

    def merge(self, state: State, groups: Groups) -> State:
        times, values = state
        return _gathered(owners_of(times, groups), len(groups), times.flatten().to_numpy(), values.flatten())


def _gathered(owners: NDArray[np.int64], count: int, times: NDArray[np.int64], values: pa.Array) -> State:
    counts = np.bincount(owners, minlength=count)
    if not is_sorted(owners):
        order = stable_order(owners)
        order = order[order_within(owners[order], times[order])]
    elif ((times[1:] >= times[:-1]) | (owners[1:] > owners[:-1])).all():
        return [listed(pa.array(times), counts), listed(values, counts)]
    else:
        order = order_within(owners, times)
    return [listed(pa.array(times[order]), counts), listed(values.take(pa.array(order)), counts)]


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
    """Returns whole numbers in the order of the values, equal for equal values, and a mask of the values that are not
    null; None: all of them. The numbers compare values within one column only. ``~`` turns the order round."""
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
    """Returns decimals in units of their last digit, and which are not null.

    Reads the lower 64 of their 128 bits: decimals of few digits need no more.
    """
    if not len(column):
        return np.zeros(0, np.int64), None
    words = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)
    values = words[column.offset : column.offset + len(column), 0]
    return values, column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None


def as_doubles(state: State) -> NDArray[np.float64]:
    """Returns wide sums as doubles; sums of decimals are in units of their last digit."""
    high, low = state
    found: NDArray[np.float64] = high * float(_LOW + 1) + low
    return found


def as_whole(state: State, field: str) -> NDArray[np.int64]:
    """Returns wide sums as whole numbers; raises DataError if one does not fit into 64 bits."""
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
    """Returns wide sums of decimals as a column of decimals of this type, which has their scale."""
    high, low = state
    words = np.empty((len(high), 2), np.int64)
    words[:, 0] = (high << 32) | low
    words[:, 1] = high >> 32
    return pa.Array.from_buffers(kind, len(high), [None, pa.py_buffer(words)])


# Means of columns, and sums of the products of the distances from them: variances, covariances, correlations.


_QUIET = np.errstate(invalid="ignore", over="ignore", divide="ignore")
"""Setting in which infinite values give NaN without warnings."""
_EXACT = np.int64(-1 << 11)
"""A mask: without its last 11 bits any int64 is a double."""


class PresentAccumulator(DenseAccumulator):
    """Accumulator over the events in which none of some columns is null; the first column of its state is their
    number."""

    @property
    @abstractmethod
    def _read(self) -> tuple[str, ...]:
        """The names of the columns."""

    def fold(self, events: Folded, groups: Groups) -> State:
        values, valid = zip(*(self._values(events, field) for field in self._read), strict=True)
        masks = [each for each in valid if each is not None]
        if not masks and len(groups):
            return self._folded(values, groups)
        some = np.logical_and.reduce(masks) if masks else np.ones(len(groups.codes), np.bool_)
        present = Groups(groups.numbers[some], len(groups))
        return self._all(len(groups), present, self._folded(tuple(column[some] for column in values), present))

    def merge(self, state: State, groups: Groups) -> State:
        some = state[0] > 0
        present = Groups(groups.numbers[some], len(groups))
        return self._all(len(groups), present, self._merged([column[some] for column in state], present))

    def empty(self, count: int) -> list[NDArray[Any]]:
        return [np.zeros(count, np.int64), *(np.zeros(count) for _ in list(self.columns)[1:])]

    def _all(self, count: int, present: Groups, found: list[NDArray[Any]]) -> State:
        """Returns the states of all groups, from those of the groups that have values."""
        state = self.empty(count)
        for column, values in zip(state, found, strict=True):
            column[present.cells] = values
        return state

    @abstractmethod
    def _values(self, events: Folded, field: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Returns a column, and a mask of the values that are not null; None: all of them."""

    @abstractmethod
    def _folded(self, values: tuple[NDArray[Any], ...], groups: Groups) -> list[NDArray[Any]]:
        """Returns the state of groups of values."""

    @abstractmethod
    def _merged(self, state: list[NDArray[Any]], groups: Groups) -> list[NDArray[Any]]:
        """Returns the state of groups of states; no state is empty."""


@dataclass(frozen=True)
class Moments(PresentAccumulator):
    """Count, means, and sums of products of distances from the means, of one column or two (Chan).

    A mean is kept as its distance from a shift, which is a value of the column or close to one. So digits are lost
    only relative to how far values are apart, not to how large they are: not of the mean either, when parts are joined.
    Decimals are taken in their last digit.
    """

    fields: tuple[str, ...]

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        each = [f"{what} {at}" for at in range(len(self.fields)) for what in ("shift", "mean")]
        products = [f"product {one} {other}" for one, other in self._pairs]
        return {"n": pa.int64(), **dict.fromkeys([*each, *products], pa.float64())}

    @_QUIET
    def combined(self, earlier: list[NDArray[Any]], later: list[NDArray[Any]]) -> list[NDArray[Any]]:
        n, m = earlier[0], later[0]
        total, some, both = n + m, n > 0, (n > 0) & (m > 0)
        share = m / np.maximum(total, 1)
        means, gaps = [], []
        for at in self._means:
            (shift, mean), (other, later_mean) = earlier[at : at + 2], later[at : at + 2]
            gap = np.where(both, (other - shift) + (later_mean - mean), 0.0)  # where one is empty, it may be NaN
            means += [np.where(some, shift, other), np.where(some, mean + gap * share, later_mean)]
            gaps.append(gap)
        between = [gap * other * n * share for gap, other in self._products(gaps)]
        own = zip(earlier[self._sums], later[self._sums], between, strict=True)
        return [total, *means, *(before + after + part for before, after, part in own)]

    @property
    def _read(self) -> tuple[str, ...]:
        return self.fields

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        return list(combinations_with_replacement(range(len(self.fields)), 2))

    @property
    def _means(self) -> range:
        """The places in the state of each column's shift; its mean is at the next place."""
        return range(1, 1 + 2 * len(self.fields), 2)

    @property
    def _sums(self) -> slice:
        """Indices of the sums of products in the state."""
        return slice(1 + 2 * len(self.fields), None)

    def _products(self, columns: list[NDArray[np.float64]]) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        return [(columns[one], columns[other]) for one, other in self._pairs]

    def _values(self, events: Folded, field: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        column = events.plain(field)
        return unscaled(column) if pa.types.is_decimal(column.type) else events.numbers(field)

    @_QUIET
    def _folded(self, values: tuple[NDArray[Any], ...], groups: Groups) -> list[NDArray[Any]]:
        means, distances = [], []
        for column in values:
            shifts, away = _shifted(column, groups)
            mean = groups.sums(away) / groups.counts
            means += [shifts, mean]
            distances.append(away - mean[groups.numbers])
        return [groups.counts, *means, *(groups.sums(one * other) for one, other in self._products(distances))]

    @_QUIET
    def _merged(self, state: list[NDArray[Any]], groups: Groups) -> list[NDArray[Any]]:
        counts = state[0]
        total = groups.sums(counts)
        means, gaps = [], []
        for at in self._means:
            shifts, away = _shifted(state[at], groups)
            away = away + state[at + 1]
            mean = groups.sums(counts * away) / total
            means += [shifts, mean]
            gaps.append(away - mean[groups.numbers])
        between = [groups.sums(counts * gap * other) for gap, other in self._products(gaps)]
        return [total, *means, *(groups.sums(own) + part for own, part in zip(state[self._sums], between, strict=True))]


def _shifted(values: NDArray[Any], groups: Groups) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns, for each group, a double that is its first value or close to it; and the distance of each value from the
    double of its group."""
    first = np.empty(len(groups), values.dtype)
    first[groups.numbers[::-1]] = values[::-1]
    if values.dtype != np.int64:
        shifts = first.astype(np.float64, copy=False)
        return shifts, values.astype(np.float64, copy=False) - shifts[groups.numbers]
    first &= _EXACT
    shifts = first.astype(np.float64)
    about = values.astype(np.float64) - shifts[groups.numbers]
    fits = np.abs(about) < 1 << 62
    return shifts, np.where(fits, values - first[groups.numbers], about)
