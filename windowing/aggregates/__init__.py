"""Aggregates of an AggregateBolt: ``AggregateBolt(by=["user"], n=count(), revenue=sum("amount"))``.

Nulls are skipped, as in SQL; a group without values gives null, and a count of 0. NaN is a value, and a result that
includes it is NaN. ``first``, ``last`` and ``collect`` are about events: for them, as for SQL, null is a value too.

``max_by``, ``min_by``, ``top``, ``bottom`` and ``collect(order_by=)`` pick events by the order of a column. NaN is
after all numbers, as in Spark and DuckDB, and structs are compared field by field. Among events with equal values the
first by time, then by arrival, comes first: so results do not depend on how the input was cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from windowing.aggregates.declared import (
    Aggregate,
    Combine,
    Count,
    Function,
    Max,
    Mean,
    Min,
    Sum,
    Variance,
    WindowEnd,
    WindowStart,
    type_of,
)
from windowing.aggregates.distinct import ApproximateCount, DistinctCount, Mode
from windowing.aggregates.picked import Collect, First, Last, MaxBy, Top, one_or_several
from windowing.aggregates.statistics import (
    BoundedQuantile,
    Correlation,
    Covariance,
    Histogram,
    HistogramEdge,
    Quantile,
    WeightedMean,
)
from windowing.calls import checked_value
from windowing.errors import ConfigError

__all__ = [
    "Aggregate",
    "bottom",
    "collect",
    "combine",
    "corr",
    "count",
    "covariance",
    "distinct_count",
    "first",
    "histogram",
    "last",
    "max",
    "max_by",
    "mean",
    "median",
    "min",
    "min_by",
    "mode",
    "quantile",
    "std",
    "sum",
    "top",
    "variance",
    "weighted_mean",
    "window_end",
    "window_start",
]


_SIZE = 500


@checked_value
def count(field: str | None = None) -> Aggregate:
    """Number of events of a group; of a column: number of its values that are not null."""
    return Count(field)


@checked_value
def sum(field: str) -> Aggregate:  # noqa: A001 - as in SQL, and in pyspark
    """The sum of a column: whole numbers as long, floating point as double, decimals (p, s) as decimal(p + 10, s).

    Partial sums are added, so the last digits of doubles may depend on how the input was cut into files and batches. A
    sum of whole numbers beyond 64 bits is a DataError. Decimals may have up to 18 digits.
    """
    return Sum(field)


@checked_value
def mean(field: str) -> Aggregate:
    """The mean of a column of numbers, as double.

    Whole numbers, and decimals of up to 18 digits, are summed exactly first, however long the sum gets.
    """
    return Mean(field)


@checked_value
def weighted_mean(field: str, weight: str) -> Aggregate:
    """The mean of a column with another one as its weights, as double: ``weighted_mean("price", "volume")``.

    It is the sum of price times volume, divided by the sum of volume, over the events in which neither is null; null
    where the weights add up to 0. Both are numbers, or decimals of up to 18 digits, taken as doubles.
    """
    return WeightedMean(field, other=weight)


@checked_value
def covariance(field: str, other: str, *, ddof: int = 1) -> Aggregate:
    """The covariance of two columns of numbers or decimals: of a sample (``ddof=1``), or of the whole population
    (``ddof=0``).

    SQL's ``covar_samp`` and ``covar_pop``. Events with a null in either column are left out; null if no more than
    ``ddof`` events are left.
    """
    return Covariance(field, other=other, ddof=ddof)


@checked_value
def corr(field: str, other: str) -> Aggregate:
    """Pearson's correlation of two columns of numbers or decimals, from -1 to 1.

    Events with a null in either column are left out. The result is null if one of the columns does not vary, and so
    also with fewer than two events.
    """
    return Correlation(field, other=other)


@checked_value
def variance(field: str, *, ddof: int = 1) -> Aggregate:
    """The variance of a column of numbers: of a sample (``ddof=1``), or of the whole population (``ddof=0``)."""
    return Variance(field, ddof=ddof)


@checked_value
def std(field: str, *, ddof: int = 1) -> Aggregate:
    """The standard deviation, the root of ``variance``."""
    return Variance(field, ddof=ddof, root=True)


@checked_value
def min(field: str) -> Aggregate:  # noqa: A001
    """The least value of a column: of numbers, times, dates, booleans, decimals, texts (by code point) or binaries.

    Structs are compared field by field, in the order of their fields; within them NaN is after all numbers, and null
    after all values.
    """
    return Min(field)


@checked_value
def max(field: str) -> Aggregate:  # noqa: A001
    """The greatest value of a column, of any type that ``min`` takes."""
    return Max(field)


@checked_value
def first(field: str) -> Aggregate:
    """The value of the first event, by time and among equal times by arrival; null where that value is null."""
    return First(field)


@checked_value
def last(field: str) -> Aggregate:
    """The value of the last event, by time and among equal times by arrival; null where that value is null."""
    return Last(field)


@checked_value
def max_by(field: str | Sequence[str] | None = None, *, by: str) -> Aggregate:
    """A column's value in the event with the greatest value of another: ``max_by("item", by="price")``.

    ``field``: several columns make a struct, ``max_by(["item", "shop"], by="price")``; without one it is the whole
    event, a struct of all columns. Null is a value of ``field``; events in which ``by`` is null are passed over. Of
    several events with the greatest value it is the first, by time and then by arrival. NaN is after all numbers.
    ``by``: any column that ``max`` takes.
    """
    return MaxBy(**one_or_several(field), by=by)


@checked_value
def min_by(field: str | Sequence[str] | None = None, *, by: str) -> Aggregate:
    """A column's value in the event with the least value of another, otherwise as ``max_by``."""
    return MaxBy(**one_or_several(field), by=by, greatest=False)


@checked_value
def top(k: int, field: str | Sequence[str] | None = None, *, by: str) -> Aggregate:
    """Collects the results of ``max_by`` for the ``k`` events with the greatest values: an array, the greatest first.

    Among events with equal values the first come first, by time and then by arrival. The array is shorter if fewer than
    ``k`` events have a value. At most ``k`` events are kept for each key and slice of time.
    """
    return Top(**one_or_several(field), by=by, limit=k)


@checked_value
def bottom(k: int, field: str | Sequence[str] | None = None, *, by: str) -> Aggregate:
    """Collects the results of ``min_by`` for the ``k`` events with the least values: an array, the least first."""
    return Top(**one_or_several(field), by=by, limit=k, greatest=False)


@checked_value
def collect(
    field: str | Sequence[str], *, order_by: str | None = None, descending: bool = False, limit: int | None = None
) -> Aggregate:
    """The values as an array, nulls included, in order of time, and among equal times of arrival.

    ``field``: several columns give an array of structs. ``order_by``: a column that orders the array; equal values are
    in order of time, then of arrival; NaN is after all numbers, and null at the end, with ``descending`` too.
    ``limit``: the maximum number of values kept, the first in that order.

    Without a limit all values are kept until their last window has fired.
    """
    if field is None:
        raise ConfigError("collect(None)", why="it takes the names of columns", do="name one or several")
    return Collect(**one_or_several(field), by=order_by, descending=descending, limit=limit)


@checked_value
def distinct_count(field: str, *, standard_error: float | None = None) -> Aggregate:
    """Number of different values of a column, exactly; all NaNs are one value, and so are 0.0 and -0.0.

    Each different value is kept until its last window has fired.

    ``standard_error=0.01``: an estimate (a HyperLogLog) in at most 4 bytes for each different value, and 64 KB for each
    key and slice of time. Its error is below 1 % in two answers of three, below 2 % in 19 of 20, below 3 % in 997 of
    1,000; it depends on the values alone, not on how the input was cut. From 0.0025 (1 MB) to 0.25; half the error
    takes four times the space.
    """
    return DistinctCount(field) if standard_error is None else ApproximateCount(field, standard_error=standard_error)


@checked_value
def mode(field: str) -> Aggregate:
    """The most frequent value; of several the least, as in Spark's ``mode(a, true)``; null does not count.

    All NaNs are one value, after all numbers, and so are 0.0 and -0.0. Each different value is kept, with the number of
    its occurrences, until its last window has fired.
    """
    return Mode(field)


@checked_value
def histogram(field: str, edges: Iterable[HistogramEdge]) -> Aggregate:
    """Numbers of values between edges: an array with one count more than there are edges.

    The first counts the values below ``edges[0]``; each other one the values from an edge up to the next edge, which is
    not included; the last the values from the last edge on, and NaN. Null is not counted, so the counts add up to
    ``count(field)``. ``edges``: from 1 to 256 numbers, ascending, in the unit of the column; whole numbers and decimals
    of up to 18 digits are compared with them exactly.
    """
    if isinstance(edges, str) or not isinstance(edges, Iterable):
        raise ConfigError(
            f"histogram({field!r}, {edges!r:.60})", why="the edges must be a list of numbers", do="write [0, 10, 100]"
        )
    return Histogram(field, edges=tuple(edge.item() if isinstance(edge, np.generic) else edge for edge in edges))


@checked_value
def quantile(field: str, q: float, *, size: int = _SIZE, relative_error: float | None = None) -> Aggregate:
    """The value below which about a share ``q`` of a column's values lies, as double; ``q=0.95``: the 95th percentile.

    It approximates the value at place ``floor(q * n)`` of the values in order, counted from 0.

    ``relative_error=0.01``: it is off by no more than 1 % of that value, guaranteed, and depends on the values alone,
    not on how the input was cut (a DDSketch). From 0.0001 to 0.5. Values nearer to 0 than 2.3e-308 count as 0. It keeps
    16 bytes for each different bucket; there are about 50 buckets between a number and its double with 0.01, and 10
    times as many with 0.001.

    Without it a t-digest of about 20 * ``size`` bytes is kept. It is exact for up to ``size`` / 2 values. For more, the
    error of its rank has no bound, and depends on how the input was cut; with 500 it is mostly below 1 % of the values
    in the middle, and far below 0.1 % at q=0.001 and q=0.999. Twice the size halves that. ConfigError when the topology
    is built, if its package is missing: pip install 'windbolt[sketches]'.
    """
    if relative_error is None:
        return Quantile(field, q=q, size=size)
    bounded = BoundedQuantile(field, q=q, relative_error=relative_error)
    if size != _SIZE:
        raise ConfigError(
            f"{bounded} size={size!r}",
            why="size= belongs to the estimate without relative_error=",
            do="leave one of the two out",
        )
    return bounded


@checked_value
def median(field: str, *, size: int = _SIZE, relative_error: float | None = None) -> Aggregate:
    """The ``quantile`` in the middle."""
    return quantile(field, 0.5, size=size, relative_error=relative_error)


@checked_value
def combine(
    field: str,
    *,
    fold: Function,
    merge: Function,
    finish: Function | None = None,
    state: str | pa.DataType = "double",
    result: str | pa.DataType | None = None,
) -> Aggregate:
    """An aggregate of your own, by functions that keep nothing between calls.

    ``fold(values)`` is called with some of a group's values, at least one: a NumPy array without nulls, in no order
    that one could rely on. It returns their state. ``merge(states)`` is called with a list of two or more states of a
    group, and returns the state of all of their values. ``finish(state)`` is called with the state of a whole group,
    and returns the result; without it the state is the result. A state of None stands for no values, and ``merge`` and
    ``finish`` do not see it: the result is null, unchanged if there are no values.

    ``state``, ``result``: their types, as in a schema: ``"double"``, ``"array<long>"``, ``"struct<x: long, y: long>"``.
    The result is of the type of the state, if nothing else is said. States come back as Arrow gives them: arrays as
    lists, structs as dicts. A value that is not of its type is a SchemaError.
    """
    kind = type_of(state, "state")
    return Combine(
        field,
        folding=fold,
        merging=merge,
        finishing=finish,
        state_type=kind,
        result_type=kind if result is None else type_of(result, "result"),
    )


@checked_value
def window_start() -> Aggregate:
    """The start of the window, a timestamp; null if the length is a count."""
    return WindowStart()


@checked_value
def window_end() -> Aggregate:
    """The end of the window, a timestamp."""
    return WindowEnd()
