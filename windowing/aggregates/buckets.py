"""Quantiles with a bound on their relative error, by DDSketch (Masson, Rim and Lee, VLDB 2019).

Values are counted by buckets, each so narrow that its middle is off by no more than the bound, relatively to any
value in it. Counts of buckets are whole numbers and are added, so the state, and what is found, depend on the values
alone: not on their order, nor on how the input was cut. Buckets divide each range between two powers of two evenly, by
arithmetic that is exact and the same on every machine; a logarithm is not. There are as many as the values need: none
are joined to save space, which would cost the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowing.aggregates.accumulators import Accumulator, Folded, State
from windowing.aggregates.declared import Cells, Numeric, nulled
from windowing.aggregates.tallies import Tally
from windowing.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_INFINITE, _NAN = 1 << 40, 1 << 41
"""Buckets of their own, beyond all others."""
_SMALLEST, _LARGEST = float(np.finfo(np.float64).tiny), float(np.finfo(np.float64).max)
_ROUNDING = 1e-6
"""Share of the bound that is left to the rounding of the arithmetic."""
_LEAST, _MOST = 0.0001, 0.5


@dataclass(frozen=True)
class Buckets:
    """The numbers of buckets: ascending as the values are, 0 for 0, and negative for negative values."""

    relative_error: float

    @property
    def per_octave(self) -> float:
        """How many buckets there are between a power of two and the next."""
        error = self.relative_error * (1 - _ROUNDING)
        return 1 / log((1 + error) / (1 - error))

    @property
    def _shift(self) -> int:
        """What makes the number of the smallest value's bucket 1, about."""
        return ceil(1023 * self.per_octave) + 1

    def of(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """The bucket of each value."""
        sizes = np.abs(values)
        finite = np.isfinite(sizes)
        mantissas, exponents = np.frexp(np.where(finite, sizes, 1.0))
        places = (exponents + (2 * mantissas - 2)) * self.per_octave
        numbers: NDArray[np.int64] = np.floor(places).astype(np.int64) + self._shift
        numbers[sizes < _SMALLEST] = 0
        numbers[~finite] = _INFINITE
        numbers[values < 0] *= -1
        numbers[np.isnan(values)] = _NAN
        return numbers

    def values(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """The middle of each bucket, which is off by the same share of its least and of its greatest value."""
        sizes = np.abs(numbers)
        low, high = self._edge(sizes - self._shift), self._edge(sizes - self._shift + 1)
        least, most = low[0], np.ldexp(high[0], high[1] - low[1])
        with np.errstate(over="ignore"):
            found: NDArray[np.float64] = np.minimum(np.ldexp(2 * least * most / (least + most), low[1]), _LARGEST)
        found[numbers == 0] = 0
        found[sizes == _INFINITE] = np.inf
        found[numbers < 0] *= -1
        found[numbers == _NAN] = np.nan
        return found

    def _edge(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """The least value of each bucket, as a factor and the exponent of a power of two."""
        places = np.clip(numbers / self.per_octave, -1023, 1025)
        exponents = np.floor(places)
        return 1 + places - exponents, exponents.astype(np.int32)


@dataclass(frozen=True)
class BucketCounts(Tally):
    """How many of the values are in each bucket."""

    relative_error: float

    def _values(self, events: Folded) -> pa.Array:
        values, valid = events.numbers(self.field)
        numbers = Buckets(self.relative_error).of(values.astype(np.float64, copy=False))
        return pa.array(numbers, mask=None if valid is None else ~valid)


@dataclass(frozen=True)
class BoundedQuantile(Numeric):
    """The value at a place among those that are not null, within a bound; NaN if one is, null without any."""

    q: float = 0.5
    relative_error: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        error = self.relative_error
        if isinstance(error, bool) or not (isinstance(error, int | float) and _LEAST <= error <= _MOST):
            raise ConfigError(
                f"{self}", why=f"a relative error is from {_LEAST} to {_MOST}", do="write 0.01 for one per cent"
            )
        if isinstance(self.q, bool) or not (isinstance(self.q, int | float) and 0 <= self.q <= 1):
            raise ConfigError(f"{self}", why="a quantile is from 0 to 1", do="give q=0.95 for the 95th percentile")

    @property
    def result(self) -> pa.DataType:
        return pa.float64()

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return (BucketCounts(self._field, pa.int64(), self.relative_error),)

    def finish(self, states: Sequence[State], cells: Cells) -> pa.Array:
        ((buckets, counts),) = states
        numbers, sizes = buckets.flatten().to_numpy(), pc.list_value_length(buckets).to_numpy()
        missing = sizes == 0
        ends = np.cumsum(sizes)
        upto = np.concatenate([[0], np.cumsum(counts.flatten().to_numpy())])
        before, count = upto[ends - sizes], upto[ends] - upto[ends - sizes]
        places = np.minimum(np.floor(self.q * count).astype(np.int64), count - 1)
        at = np.searchsorted(upto, before + places, side="right") - 1
        numbers = np.append(numbers, 0)  # of groups without values
        last = numbers[np.where(missing, len(numbers) - 1, ends - 1)]
        found = np.where(last == _NAN, _NAN, numbers[np.where(missing, len(numbers) - 1, at)])
        return nulled(Buckets(self.relative_error).values(found), missing, self.result)

    def __str__(self) -> str:
        return f"quantile({self.field!r}, {self.q!r}, relative_error={self.relative_error!r})"
