"""How many values lie between edges that are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import ceil, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windowing.aggregates.accumulators import Accumulator, DenseAccumulator, Folded, State
from windowing.aggregates.declared import Cells, Summable
from windowing.aggregates.groups import Groups
from windowing.aggregates.lists import listed
from windowing.aggregates.wide import unscaled
from windowing.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

HistogramEdge = int | float | Decimal
_MOST = 256
_LIMIT = (1 << 63) - 1


@dataclass(frozen=True)
class Between(DenseAccumulator):
    """How many values that are not null are below the first edge, from each edge to the next, and from the last on."""

    field: str
    edges: tuple[int, ...] | tuple[float, ...]
    """Of decimals in their last digit."""

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {str(at): pa.int64() for at in range(len(self.edges) + 1)}

    def fold(self, events: Folded, groups: Groups) -> State:
        column = events.plain(self.field)
        values, valid = unscaled(column) if pa.types.is_decimal(column.type) else events.numbers(self.field)
        width = len(self.edges) + 1
        cells = groups.numbers * width + self._places(values)
        counts = np.bincount(cells if valid is None else cells[valid], minlength=len(groups) * width)
        return list(np.ascontiguousarray(counts.reshape(-1, width).T))

    def _places(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """How many edges each value is not below; NaN is below none."""
        if values.dtype.kind == "f":
            return np.searchsorted(np.array(self.edges, np.float64), values.astype(np.float64, copy=False), "right")
        reached = [max(int(edge), -_LIMIT - 1) for edge in self.edges if edge <= _LIMIT]
        return np.searchsorted(np.array(reached, np.int64), values.astype(np.int64, copy=False), "right")

    def merge(self, state: State, groups: Groups) -> State:
        return [groups.sums(counts) for counts in state]

    def empty(self, count: int) -> list[NDArray[Any]]:
        return [np.zeros(count, np.int64) for _ in self.columns]

    def combined(self, earlier: list[NDArray[Any]], later: list[NDArray[Any]]) -> list[NDArray[Any]]:
        return [before + after for before, after in zip(earlier, later, strict=True)]


@dataclass(frozen=True)
class Histogram(Summable):
    """How many values are between edges; those that are null are not counted."""

    edges: tuple[HistogramEdge, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        given = f"histogram({self.field!r}, {list(self.edges)!r:.200})"
        if not 0 < len(self.edges) <= _MOST:
            raise ConfigError(given, why=f"these are {len(self.edges)} edges", do=f"give from 1 to {_MOST}")
        for edge in self.edges:
            if isinstance(edge, bool) or not isinstance(edge, int | float | Decimal) or not _finite(edge):
                raise ConfigError(given, why=f"{edge!r:.60} is not a finite number", do="give numbers")
        for edge, following in pairwise(self.edges):
            if Fraction(str(edge)) >= Fraction(str(following)):
                raise ConfigError(given, why=f"{following!r} is not above {edge!r}", do="give the edges in order")

    @property
    def result(self) -> pa.DataType:
        return pa.list_(pa.int64())

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return (Between(self._field, self._scaled()),)

    def _scaled(self) -> tuple[int, ...] | tuple[float, ...]:
        """The edges as the values are compared with them."""
        if self._floating:
            return tuple(map(float, self.edges))
        unit = 10 ** (self.kind.scale if self._decimal and self.kind is not None else 0)
        return tuple(ceil(Fraction(str(edge)) * unit) for edge in self.edges)

    @property
    def of_nothing(self) -> list[int]:
        return [0] * (len(self.edges) + 1)

    def finish(self, states: Sequence[State], cells: Cells) -> pa.Array:
        (counts,) = states
        width = len(counts)
        return listed(pa.array(np.column_stack(counts).ravel()), np.full(len(counts[0]), width))

    def __str__(self) -> str:
        return f"histogram({self.field!r}, {list(self.edges)})"


def _finite(edge: float | Decimal) -> bool:
    try:
        return isfinite(edge)
    except OverflowError:  # a whole number beyond all doubles
        return False
