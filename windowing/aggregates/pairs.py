"""Aggregates of two columns, of the events in which neither is null: weighted means, covariances, correlations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from windowing.aggregates.accumulators import Accumulator, Folded, State
from windowing.aggregates.declared import Cells, Summable, check_ddof, nulled, type_in
from windowing.aggregates.groups import Groups
from windowing.aggregates.moments import Moments, PresentAccumulator
from windowing.aggregates.wide import unscaled
from windowing.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_QUIET = np.errstate(invalid="ignore", over="ignore", divide="ignore")
"""Infinite values make NaN, and no warnings."""


@dataclass(frozen=True)
class Weighted(PresentAccumulator):
    """How many events there are, the sum of the weights, and that of the weighted values."""

    field: str
    weight: str

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"n": pa.int64(), "weights": pa.float64(), "weighted": pa.float64()}

    @property
    def _read(self) -> tuple[str, ...]:
        return self.field, self.weight

    def _values(self, events: Folded, field: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        column = events.plain(field)
        if pa.types.is_decimal(column.type):
            values, valid = unscaled(column)
            return values / 10.0**column.type.scale, valid
        values, valid = events.numbers(field)
        return values.astype(np.float64, copy=False), valid

    @_QUIET
    def _folded(self, values: tuple[NDArray[Any], ...], groups: Groups) -> list[NDArray[Any]]:
        column, weights = values
        return [groups.counts, groups.sums(weights), groups.sums(column * weights)]

    @_QUIET
    def _merged(self, state: list[NDArray[Any]], groups: Groups) -> list[NDArray[Any]]:
        return [groups.sums(column) for column in state]

    @_QUIET
    def combined(self, earlier: list[NDArray[Any]], later: list[NDArray[Any]]) -> list[NDArray[Any]]:
        return [before + after for before, after in zip(earlier, later, strict=True)]


@dataclass(frozen=True)
class Paired(Summable):
    """Of two columns of numbers or decimals."""

    other: str = ""
    other_kind: pa.DataType | None = None
    """The type of the other column, once the topology is built."""

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
        return replace(found, other_kind=kind)

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
        return (Moments((self._field, self.other)),)

    def finish(self, states: Sequence[State], cells: Cells) -> pa.Array:
        ((counts, *_, products, _),) = states
        found = products / np.maximum(counts - self.ddof, 1) / (_unit(self.kind) * _unit(self.other_kind))
        return nulled(found, counts <= self.ddof, self.result)

    def __str__(self) -> str:
        return f"covariance({self.field!r}, {self.other!r})"


@dataclass(frozen=True)
class Correlation(Paired):
    """Pearson's coefficient of correlation; null where one of the columns does not vary."""

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return (Moments((self._field, self.other)),)

    @_QUIET
    def finish(self, states: Sequence[State], cells: Cells) -> pa.Array:
        ((*_, squares, products, others),) = states
        missing = ((squares == 0) | (others == 0)) & ~np.isnan(squares + others)
        found = np.clip(products / np.sqrt(squares) / np.sqrt(others), -1, 1)
        return nulled(found, missing, self.result)

    def __str__(self) -> str:
        return f"corr({self.field!r}, {self.other!r})"


def _unit(kind: pa.DataType | None) -> float:
    """How many last digits of a column are 1."""
    return float(10.0**kind.scale) if isinstance(kind, pa.Decimal128Type) else 1.0
