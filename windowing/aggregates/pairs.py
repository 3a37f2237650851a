"""Aggregates of two columns, of the events in which neither is null: weighted means, covariances, correlations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from windowing.aggregates.accumulators import Accumulator, DenseAccumulator, Folded, State
from windowing.aggregates.declared import Cells, Summable, check_ddof, nulled, type_in
from windowing.aggregates.groups import Groups
from windowing.aggregates.wide import unscaled
from windowing.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_QUIET = np.errstate(invalid="ignore", over="ignore", divide="ignore")
"""Infinite values make NaN, and no warnings."""


@dataclass(frozen=True)
class PairAccumulator(DenseAccumulator):
    """Of the events in which both columns have values."""

    field: str
    other: str

    def fold(self, events: Folded, groups: Groups) -> State:
        values, valid = _doubles(events, self.field)
        others, others_valid = _doubles(events, self.other)
        owners = groups.numbers
        if valid is not None or others_valid is not None:
            both = np.ones(len(values), np.bool_) if valid is None else valid
            both = both if others_valid is None else both & others_valid
            owners, values, others = owners[both], values[both], others[both]
        present = Groups(owners, len(groups))
        return self._all(len(groups), present, self._folded(values, others, present))

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
    def _folded(self, values: NDArray[np.float64], others: NDArray[np.float64], groups: Groups) -> list[NDArray[Any]]:
        """The state of groups of values."""

    @abstractmethod
    def _merged(self, state: list[NDArray[Any]], groups: Groups) -> list[NDArray[Any]]:
        """The state of groups of states, of which none is empty."""


def _doubles(events: Folded, field: str) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None]:
    column = events.plain(field)
    if pa.types.is_decimal(column.type):
        values, valid = unscaled(column)
        return values / 10.0**column.type.scale, valid
    values, valid = events.numbers(field)
    return values.astype(np.float64, copy=False), valid


@dataclass(frozen=True)
class Weighted(PairAccumulator):
    """How many events there are, the sum of the weights, and that of the weighted values."""

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"n": pa.int64(), "weights": pa.float64(), "weighted": pa.float64()}

    @_QUIET
    def _folded(self, values: NDArray[np.float64], others: NDArray[np.float64], groups: Groups) -> list[NDArray[Any]]:
        return [groups.counts, groups.sums(others), groups.sums(values * others)]

    @_QUIET
    def _merged(self, state: list[NDArray[Any]], groups: Groups) -> list[NDArray[Any]]:
        return [groups.sums(column) for column in state]

    @_QUIET
    def combined(self, earlier: list[NDArray[Any]], later: list[NDArray[Any]]) -> list[NDArray[Any]]:
        return [before + after for before, after in zip(earlier, later, strict=True)]


@dataclass(frozen=True)
class PairMoments(PairAccumulator):
    """Count, means, and sums of squared distances from the means and of their products (Chan).

    Distances are from the first value before they are from the mean, so that a column of equal values has none at all.
    """

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        names = ("mean", "other mean", "squares", "other squares", "products")
        return {"n": pa.int64(), **dict.fromkeys(names, pa.float64())}

    @_QUIET
    def _folded(self, values: NDArray[np.float64], others: NDArray[np.float64], groups: Groups) -> list[NDArray[Any]]:
        counts = groups.counts
        means, away = _centred(values, np.ones(len(values)), counts, groups)
        other_means, others_away = _centred(others, np.ones(len(values)), counts, groups)
        products = (away * away, others_away * others_away, away * others_away)
        return [counts, means, other_means, *map(groups.sums, products)]

    @_QUIET
    def _merged(self, state: list[NDArray[Any]], groups: Groups) -> list[NDArray[Any]]:
        counts, means, other_means, *sums = state
        total = groups.sums(counts)
        mean, away = _centred(means, counts, total, groups)
        other_mean, others_away = _centred(other_means, counts, total, groups)
        between = (away * away, others_away * others_away, away * others_away)
        found = [groups.sums(own) + groups.sums(counts * part) for own, part in zip(sums, between, strict=True)]
        return [total, mean, other_mean, *found]

    @_QUIET
    def combined(self, earlier: list[NDArray[Any]], later: list[NDArray[Any]]) -> list[NDArray[Any]]:
        (n, mean, other_mean, *sums), (m, later_mean, later_other_mean, *later_sums) = earlier, later
        total = n + m
        share, both = m / np.maximum(total, 1), (n > 0) & (m > 0)
        away = np.where(both, later_mean - mean, 0.0)
        others_away = np.where(both, later_other_mean - other_mean, 0.0)
        between = (away * away, others_away * others_away, away * others_away)
        return [
            total,
            np.where(n > 0, mean + away * share, later_mean),
            np.where(n > 0, other_mean + others_away * share, later_other_mean),
            *(own + later_own + part * n * share
              for own, later_own, part in zip(sums, later_sums, between, strict=True)),
        ]  # fmt: skip


def _centred(
    values: NDArray[np.float64], weights: NDArray[Any], totals: NDArray[Any], groups: Groups
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean of each group, and how far each value is from its own."""
    firsts = values[groups.order[groups.starts]]
    means = firsts + groups.sums(weights * (values - firsts[groups.numbers])) / totals
    return means, values - means[groups.numbers]


@dataclass(frozen=True)
class Paired(Summable):
    """Of two columns of numbers or decimals."""

    other: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.field, str) or not isinstance(self.other, str):
            raise ConfigError(f"{self}", why="it takes the names of two columns", do="give both names")

    def bound(self, name: str, schema: pa.Schema) -> Self:
        """The aggregate over these columns; ConfigError where one is missing, or has no numbers."""
        found = super().bound(name, schema)
        kind = type_in(schema, self.other, f"{name}={self}")
        why = replace(found, kind=kind).refusal()
        if why is not None:
            raise ConfigError(f"{name}={self}: {self.other!r} is {kind}", why=why[0], do=why[1])
        return found

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([self._field, self.other]))

    @property
    def result(self) -> pa.DataType:
        return pa.float64()


@dataclass(frozen=True)
class WeightedMean(Paired):
    """The mean of a column with the other one as its weights; null where these add up to 0."""

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return (Weighted(self._field, self.other),)

    @_QUIET
    def finish(self, states: Sequence[State], cells: Cells) -> pa.Array:
        ((_, weights, weighted),) = states
        missing = weights == 0
        return nulled(weighted / np.where(missing, 1.0, weights), missing, self.result)

    def __str__(self) -> str:
        return f"weighted_mean({self.field!r}, {self.other!r})"


@dataclass(frozen=True)
class Covariance(Paired):
    """How two columns vary together; null where there are not more than ``ddof`` events."""

    ddof: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ddof(self.ddof)

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return (PairMoments(self._field, self.other),)

    def finish(self, states: Sequence[State], cells: Cells) -> pa.Array:
        ((counts, *_, products),) = states
        return nulled(products / np.maximum(counts - self.ddof, 1), counts <= self.ddof, self.result)

    def __str__(self) -> str:
        return f"covariance({self.field!r}, {self.other!r})"


@dataclass(frozen=True)
class Correlation(Paired):
    """Pearson's coefficient of correlation; null where one of the columns does not vary."""

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return (PairMoments(self._field, self.other),)

    @_QUIET
    def finish(self, states: Sequence[State], cells: Cells) -> pa.Array:
        ((_, _, _, squares, others, products),) = states
        missing = ((squares == 0) | (others == 0)) & ~np.isnan(squares + others)
        found = np.clip(products / np.sqrt(squares) / np.sqrt(others), -1, 1)
        return nulled(found, missing, self.result)

    def __str__(self) -> str:
        return f"corr({self.field!r}, {self.other!r})"
