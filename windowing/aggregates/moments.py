"""Means of columns, and sums of the products of the distances from them: variances, covariances, correlations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windowing.aggregates.accumulators import DenseAccumulator, Folded, State
from windowing.aggregates.groups import Groups
from windowing.aggregates.wide import unscaled

if TYPE_CHECKING:
    from numpy.typing import NDArray

_QUIET = np.errstate(invalid="ignore", over="ignore", divide="ignore")
"""Infinite values make NaN, and no warnings."""
_EXACT = np.int64(-1 << 11)
"""A mask: without its last 11 bits any int64 is a double."""


class PresentAccumulator(DenseAccumulator):
    """Of the events in which none of some columns is null; the first column of the state is how many there are."""

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
        """The states of all groups, from those of the groups that have values."""
        state = self.empty(count)
        for column, values in zip(state, found, strict=True):
            column[present.cells] = values
        return state

    @abstractmethod
    def _values(self, events: Folded, field: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """A column, and which rows are not null; None: all of them."""

    @abstractmethod
    def _folded(self, values: tuple[NDArray[Any], ...], groups: Groups) -> list[NDArray[Any]]:
        """The state of groups of values."""

    @abstractmethod
    def _merged(self, state: list[NDArray[Any]], groups: Groups) -> list[NDArray[Any]]:
        """The state of groups of states, of which none is empty."""


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
        """Where in the state the shift of each column is; its mean is next."""
        return range(1, 1 + 2 * len(self.fields), 2)

    @property
    def _sums(self) -> slice:
        """Where in the state the sums of products are."""
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
    """A double for each group that is its first value or close to it, and how far each value is from its own."""
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
