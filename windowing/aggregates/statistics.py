"""Statistics: quantiles, histograms, weighted means, covariances and correlations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from importlib.util import find_spec
from itertools import pairwise
from math import ceil, isfinite, log
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowing.aggregates.accumulators import (
    Accumulator,
    DenseAccumulator,
    EventColumns,
    Moments,
    NotNullAccumulator,
    State,
    to_lists,
    unscaled,
)
from windowing.aggregates.declared import Numeric, RowWindows, Summable, check_ddof, type_in, with_nulls
from windowing.aggregates.distinct import Tally
from windowing.aggregates.groups import Groups
from windowing.errors import ConfigError, EnvironmentMissing

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Quantiles with a bound on their relative error, by DDSketch (Masson, Rim and Lee, VLDB 2019).
#
# The values in each bucket are counted. A bucket is so narrow that the relative distance of its middle from any value
# in it is within the bound. Counts are whole numbers, so the result depends on the values alone: not on their order,
# nor on how the input was cut. Buckets divide each range between two powers of two evenly: this arithmetic is exact and
# the same on every machine, which a logarithm is not. Buckets are never joined to save space, as the bound would be
# lost.


_INFINITE, _NAN = 1 << 40, 1 << 41
"""Buckets for infinite values and NaN, beyond all others."""
_SMALLEST, _LARGEST = float(np.finfo(np.float64).tiny), float(np.finfo(np.float64).max)
_ROUNDING = 1e-6
"""Share of the bound that is reserved for rounding errors."""
_LEAST_ERROR, _MOST_ERROR = 0.0001, 0.5


@dataclass(frozen=True)
class Buckets:
    """The buckets for a relative error, each with a number: greater for greater values, and 0 for the value 0."""

    relative_error: float

    @property
    def per_octave(self) -> float:
        """Number of buckets from a power of two to the next."""
        error = self.relative_error * (1 - _ROUNDING)
        return 1 / log((1 + error) / (1 - error))

    @property
    def _shift(self) -> int:
        """The offset of bucket numbers, so that the bucket of the smallest positive value has a number of about 1."""
        return ceil(1023 * self.per_octave) + 1

    def of(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Returns the number of each value's bucket."""
        sizes = np.abs(values)
        finite = np.isfinite(sizes)
        mantissas, exponents = np.frexp(np.where(finite, sizes, 1.0))
        positions = (exponents + (2 * mantissas - 2)) * self.per_octave
        numbers: NDArray[np.int64] = np.floor(positions).astype(np.int64) + self._shift
        numbers[sizes < _SMALLEST] = 0
        numbers[~finite] = _INFINITE
        numbers[values < 0] *= -1
        numbers[np.isnan(values)] = _NAN
        return numbers

    def values(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the middle of each bucket: its relative distances from the least and the greatest value of the bucket
        are equal."""
        sizes = np.abs(numbers)
        low, high = self._edge(sizes - self._shift), self._edge(sizes - self._shift + 1)
        least, most = low[0], np.ldexp(high[0], high[1] - low[1])
        with np.errstate(over="ignore"):
            middles: NDArray[np.float64] = np.minimum(np.ldexp(2 * least * most / (least + most), low[1]), _LARGEST)
        middles[numbers == 0] = 0
        middles[sizes == _INFINITE] = np.inf
        middles[numbers < 0] *= -1
        middles[numbers == _NAN] = np.nan
        return middles

    def _edge(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """Returns the least value of each bucket, as a factor from 1 to 2 and the exponent of a power of two."""
        positions = np.clip(numbers / self.per_octave, -1023, 1025)
        exponents = np.floor(positions)
        return 1 + positions - exponents, exponents.astype(np.int32)


@dataclass(frozen=True)
class BucketCounts(Tally):
    """Number of values in each bucket."""

    relative_error: float

    def _values(self, events: EventColumns) -> pa.Array:
        values, valid = events.numbers(self.field)
        numbers = Buckets(self.relative_error).of(values.astype(np.float64, copy=False))
        return pa.array(numbers, mask=None if valid is None else ~valid)


@dataclass(frozen=True)
class BoundedQuantile(Numeric):
    """The value below which a share ``q`` of the values that are not null lies, with a bounded error; NaN if a value is
    NaN, null without values."""

    q: float = 0.5
    relative_error: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        error = self.relative_error
        if isinstance(error, bool) or not (isinstance(error, int | float) and _LEAST_ERROR <= error <= _MOST_ERROR):
            raise ConfigError(
                f"{self}",
                why=f"a relative error is from {_LEAST_ERROR} to {_MOST_ERROR}",
                do="write 0.01 for one per cent",
            )
        if isinstance(self.q, bool) or not (isinstance(self.q, int | float) and 0 <= self.q <= 1):
            raise ConfigError(f"{self}", why="a quantile is from 0 to 1", do="give q=0.95 for the 95th percentile")

    @property
    def result(self) -> pa.DataType:
        return pa.float64()

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return (BucketCounts(self._field, pa.int64(), float(self.relative_error)),)

    def finish(self, states: Sequence[State], windows: RowWindows) -> pa.Array:
        ((buckets, counts),) = states
        numbers, sizes = buckets.flatten().to_numpy(), pc.list_value_length(buckets).to_numpy()
        missing = sizes == 0
        ends = np.cumsum(sizes)
        counts_up_to = np.concatenate([[0], np.cumsum(counts.flatten().to_numpy())])
        count_before, count = counts_up_to[ends - sizes], counts_up_to[ends] - counts_up_to[ends - sizes]
        ranks = np.minimum(np.floor(self.q * count).astype(np.int64), count - 1)
        bucket_indices = np.searchsorted(counts_up_to, count_before + ranks, side="right") - 1
        numbers = np.append(numbers, 0)  # of groups without values
        last_buckets = numbers[np.where(missing, len(numbers) - 1, ends - 1)]
        found_buckets = np.where(
            last_buckets == _NAN, _NAN, numbers[np.where(missing, len(numbers) - 1, bucket_indices)]
        )
        return with_nulls(Buckets(self.relative_error).values(found_buckets), missing, self.result)

    def __str__(self) -> str:
        return f"quantile({self.field!r}, {self.q!r}, relative_error={self.relative_error!r})"


# Quantiles of any number of values in little space, by the t-digests of Apache DataSketches.
#
# Among the mergeable sketches of that library the t-digest is the only one without random numbers: a batch that runs
# again after a crash must give the same result.


_PACKAGE = "datasketches"
_INSTALL = "run: pip install 'windbolt[sketches]', on the workers too"
_LEAST_COMPRESSION, _MOST_COMPRESSION = 10, 10_000


@dataclass(frozen=True)
class Digest(Accumulator):
    """A t-digest of the finite values, and the numbers of infinite values and NaNs, which a t-digest cannot hold."""

    field: str
    size: int

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"digest": pa.binary(), "below": pa.int64(), "above": pa.int64(), "nans": pa.int64()}

    def fold(self, events: EventColumns, groups: Groups) -> State:
        values, valid = events.numbers(self.field)
        values = values.astype(np.float64, copy=False)
        is_known = np.ones(len(values), np.bool_) if valid is None else valid
        finite = np.isfinite(values) & is_known
        rows, edges = groups.runs(finite)
        ordered = values[rows]
        digests = [self._digest_of(ordered[low:high]) for low, high in pairwise(edges.tolist())]
        nonfinite = [values == -np.inf, values == np.inf, np.isnan(values)]
        return [pa.array(digests, pa.binary()), *(groups.sums(other & is_known) for other in nonfinite)]

    def merge(self, state: State, groups: Groups) -> State:
        digests, *others = state
        rows, edges = groups.runs(digests.is_valid().to_numpy(zero_copy_only=False))
        ordered = digests.take(pa.array(rows)).to_pylist()
        merged = [self._merge_digests(ordered[low:high]) for low, high in pairwise(edges.tolist())]
        return [pa.array(merged, pa.binary()), *(groups.sums(other) for other in others)]

    def from_columns(self, columns: list[pa.Array]) -> State:
        digests, *others = columns
        return [digests, *(other.to_numpy() for other in others)]

    def _digest_of(self, values: NDArray[np.float64]) -> bytes | None:
        if not len(values):
            return None
        digest = _digest_class()(self.size)
        digest.update(values)
        return bytes(digest.serialize())

    def _merge_digests(self, digests: list[bytes]) -> bytes | None:
        if len(digests) < 2:
            return digests[0] if digests else None
        merged = _digest_class()(self.size)
        for digest in digests:
            merged.merge(merged.deserialize(digest))
        return bytes(merged.serialize())


@dataclass(frozen=True)
class Quantile(Numeric):
    """The ``q``-quantile of the values that are not null; NaN if a value is NaN, null without values."""

    q: float = 0.5
    size: int = 500

    def __post_init__(self) -> None:
        if not (isinstance(self.q, int | float) and 0 <= self.q <= 1):
            raise ConfigError(f"{self}", why="a quantile is from 0 to 1", do="give q=0.95 for the 95th percentile")
        if not (isinstance(self.size, int) and _LEAST_COMPRESSION <= self.size <= _MOST_COMPRESSION):
            raise ConfigError(
                f"{self} size={self.size!r}",
                why=f"sizes go from {_LEAST_COMPRESSION} to {_MOST_COMPRESSION}",
                do="leave it out",
            )

    def refusal(self) -> tuple[str, str] | None:
        if find_spec(_PACKAGE) is None:
            return f"the package {_PACKAGE} is not installed", _INSTALL
        return super().refusal()

    @property
    def result(self) -> pa.DataType:
        return pa.float64()

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return (Digest(self._field, self.size),)

    def finish(self, states: Sequence[State], windows: RowWindows) -> pa.Array:
        ((digests, below, above, nans),) = states
        columns = digests.to_pylist(), below.tolist(), above.tolist()
        quantiles = np.array([self._value(*each) for each in zip(*columns, strict=True)], np.float64)
        missing = ~digests.is_valid().to_numpy(zero_copy_only=False) & (below + above + nans == 0)
        return with_nulls(np.where(nans > 0, np.nan, quantiles), missing, self.result)

    def _value(self, digest: bytes | None, below: int, above: int) -> float:
        if digest is None:
            return -np.inf if below and self.q * (below + above) < below else np.inf
        finite = _digest_class().deserialize(digest)
        if not below + above:
            return float(finite.get_quantile(self.q))
        weight = finite.get_total_weight()
        rank = self.q * (below + weight + above) - below
        if rank < 0:
            return -np.inf
        return float(finite.get_quantile(rank / weight)) if rank < weight or not above else np.inf

    def __str__(self) -> str:
        return f"quantile({self.field!r}, {self.q!r})"


def _digest_class() -> Any:
    try:
        from datasketches import tdigest_double
    except ImportError as error:
        raise EnvironmentMissing(f"the package {_PACKAGE} is missing", why="quantiles need it", do=_INSTALL) from error
    return tdigest_double


# Histograms.


HistogramEdge = int | float | Decimal
_MOST_EDGES = 256
_LIMIT = (1 << 63) - 1


@dataclass(frozen=True)
class Between(DenseAccumulator):
    """Numbers of values that are not null: below the first edge, from each edge to the next, and from the last edge
    on."""

    field: str
    edges: tuple[int, ...] | tuple[float, ...]
    """The edges; for a column of decimals, in units of its last digit."""

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {str(at): pa.int64() for at in range(len(self.edges) + 1)}

    def fold(self, events: EventColumns, groups: Groups) -> State:
        column = events.decoded(self.field)
        values, valid = unscaled(column) if pa.types.is_decimal(column.type) else events.numbers(self.field)
        width = len(self.edges) + 1
        cells = groups.numbers * width + self._cells(values)
        counts = np.bincount(cells if valid is None else cells[valid], minlength=len(groups) * width)
        return list(np.ascontiguousarray(counts.reshape(-1, width).T))

    def _cells(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Returns, for each value, the number of edges that are not above it; NaN is above all edges."""
        if values.dtype.kind == "f":
            return np.searchsorted(np.array(self.edges, np.float64), values.astype(np.float64, copy=False), "right")
        in_range = [max(int(edge), -_LIMIT - 1) for edge in self.edges if edge <= _LIMIT]
        return np.searchsorted(np.array(in_range, np.int64), values.astype(np.int64, copy=False), "right")

    def merge(self, state: State, groups: Groups) -> State:
        return [groups.sums(counts) for counts in state]

    def empty(self, count: int) -> list[NDArray[Any]]:
        return [np.zeros(count, np.int64) for _ in self.columns]

    def merge_entries(self, earlier: list[NDArray[Any]], later: list[NDArray[Any]]) -> list[NDArray[Any]]:
        return [before + after for before, after in zip(earlier, later, strict=True)]


@dataclass(frozen=True)
class Histogram(Summable):
    """Counts of the values between edges; nulls are not counted."""

    edges: tuple[HistogramEdge, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        call = f"histogram({self.field!r}, {list(self.edges)!r:.200})"
        if not 0 < len(self.edges) <= _MOST_EDGES:
            raise ConfigError(call, why=f"these are {len(self.edges)} edges", do=f"give from 1 to {_MOST_EDGES}")
        for edge in self.edges:
            if isinstance(edge, bool) or not isinstance(edge, int | float | Decimal) or not _finite(edge):
                raise ConfigError(call, why=f"{edge!r:.60} is not a finite number", do="give numbers")
        for edge, following in pairwise(self.edges):
            if Fraction(str(edge)) >= Fraction(str(following)):
                raise ConfigError(call, why=f"{following!r} is not above {edge!r}", do="give the edges in order")

    @property
    def result(self) -> pa.DataType:
        return pa.list_(pa.int64())

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return (Between(self._field, self._scaled_edges()),)

    def _scaled_edges(self) -> tuple[int, ...] | tuple[float, ...]:
        """Returns the edges in the type and unit of the values."""
        if self._floating:
            return tuple(map(float, self.edges))
        unit = 10 ** (self.kind.scale if self._decimal and self.kind is not None else 0)
        return tuple(ceil(Fraction(str(edge)) * unit) for edge in self.edges)

    @property
    def value_when_empty(self) -> list[int]:
        return [0] * (len(self.edges) + 1)

    def finish(self, states: Sequence[State], windows: RowWindows) -> pa.Array:
        (counts,) = states
        width = len(counts)
        return to_lists(pa.array(np.column_stack(counts).ravel()), np.full(len(counts[0]), width))

    def __str__(self) -> str:
        return f"histogram({self.field!r}, {list(self.edges)})"


def _finite(edge: float | Decimal) -> bool:
    try:
        return isfinite(edge)
    except OverflowError:  # a whole number beyond all doubles
        return False


# Aggregates of two columns, over the events in which neither is null: weighted means, covariances, correlations.


_QUIET = np.errstate(invalid="ignore", over="ignore", divide="ignore")
"""Setting in which infinite values give NaN without warnings."""


@dataclass(frozen=True)
class Weighted(NotNullAccumulator):
    """The number of events, the sum of the weights, and the sum of the weighted values."""

    field: str
    weight: str

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {"n": pa.int64(), "weights": pa.float64(), "weighted": pa.float64()}

    @property
    def _fields_read(self) -> tuple[str, ...]:
        return self.field, self.weight

    def _values(self, events: EventColumns, field: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        column = events.decoded(field)
        if pa.types.is_decimal(column.type):
            values, valid = unscaled(column)
            return values / 10.0**column.type.scale, valid
        values, valid = events.numbers(field)
        return values.astype(np.float64, copy=False), valid

    @_QUIET
    def _fold_present(self, values: tuple[NDArray[Any], ...], groups: Groups) -> list[NDArray[Any]]:
        column, weights = values
        return [groups.counts, groups.sums(weights), groups.sums(column * weights)]

    @_QUIET
    def _merge_present(self, state: list[NDArray[Any]], groups: Groups) -> list[NDArray[Any]]:
        return [groups.sums(column) for column in state]

    @_QUIET
    def merge_entries(self, earlier: list[NDArray[Any]], later: list[NDArray[Any]]) -> list[NDArray[Any]]:
        return [before + after for before, after in zip(earlier, later, strict=True)]


@dataclass(frozen=True)
class Paired(Summable):
    """An aggregate of two columns of numbers or decimals."""

    other: str = ""
    other_kind: pa.DataType | None = None
    """The type of the other column, known once the topology is built."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.field, str) or not isinstance(self.other, str):
            raise ConfigError(f"{self}", why="it takes the names of two columns", do="give both names")

    def with_types(self, name: str, schema: pa.Schema) -> Self:
        """Returns the aggregate with the types of its columns; raises ConfigError if a column is missing, or does not
        hold numbers."""
        aggregate = super().with_types(name, schema)
        kind = type_in(schema, self.other, f"{name}={self}")
        why = replace(aggregate, kind=kind).refusal()
        if why is not None:
            raise ConfigError(f"{name}={self}: {self.other!r} is {kind}", why=why[0], do=why[1])
        return replace(aggregate, other_kind=kind)

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([self._field, self.other]))

    @property
    def result(self) -> pa.DataType:
        return pa.float64()


@dataclass(frozen=True)
class WeightedMean(Paired):
    """The mean of a column, weighted by the other column; null if the weights add up to 0."""

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return (Weighted(self._field, self.other),)

    @_QUIET
    def finish(self, states: Sequence[State], windows: RowWindows) -> pa.Array:
        ((_, weights, weighted),) = states
        missing = weights == 0
        return with_nulls(weighted / np.where(missing, 1.0, weights), missing, self.result)

    def __str__(self) -> str:
        return f"weighted_mean({self.field!r}, {self.other!r})"


@dataclass(frozen=True)
class Covariance(Paired):
    """Covariance of two columns; null if there are not more than ``ddof`` events."""

    ddof: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ddof(self.ddof)

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return (Moments((self._field, self.other)),)

    def finish(self, states: Sequence[State], windows: RowWindows) -> pa.Array:
        ((counts, *_, products, _),) = states
        covariances = products / np.maximum(counts - self.ddof, 1) / (_unit(self.kind) * _unit(self.other_kind))
        return with_nulls(covariances, counts <= self.ddof, self.result)

    def __str__(self) -> str:
        return f"covariance({self.field!r}, {self.other!r})"


@dataclass(frozen=True)
class Correlation(Paired):
    """Pearson's coefficient of correlation; null if one of the columns does not vary."""

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return (Moments((self._field, self.other)),)

    @_QUIET
    def finish(self, states: Sequence[State], windows: RowWindows) -> pa.Array:
        ((*_, squares, products, other_squares),) = states
        missing = ((squares == 0) | (other_squares == 0)) & ~np.isnan(squares + other_squares)
        correlations = np.clip(products / np.sqrt(squares) / np.sqrt(other_squares), -1, 1)
        return with_nulls(correlations, missing, self.result)

    def __str__(self) -> str:
        return f"corr({self.field!r}, {self.other!r})"


def _unit(kind: pa.DataType | None) -> float:
    """Returns how many units of the last digit of a column of decimals make 1; 1 for other columns."""
    return float(10.0**kind.scale) if isinstance(kind, pa.Decimal128Type) else 1.0
