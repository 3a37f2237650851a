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
    read_type,
)
from windowing.aggregates.distinct import ApproximateCount, DistinctCount, Mode
from windowing.aggregates.picked import Collect, First, Last, MaxBy, Top, field_arguments
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
    """Count the events of a group; with ``field``, only the events in which this column is not null."""
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
    """The mean of a column, weighted by another column, as double: ``weighted_mean("price", "volume")``.

    This is the sum of price times volume, divided by the sum of volume. Events with a null in either column are left
    out. The result is null if the weights add up to 0. Both columns hold numbers, or decimals of up to 18 digits, which
    are converted to doubles.
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

    Events with a null in either column are left out. The result is null if one of the columns does not vary, or if
    fewer than two events are left.
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
    """The value of the first event, by time and among equal times by arrival; null if this value is null."""
    return First(field)


@checked_value
def last(field: str) -> Aggregate:
    """The value of the last event, by time and among equal times by arrival; null if this value is null."""
    return Last(field)


@checked_value
def max_by(field: str | Sequence[str] | None = None, *, by: str) -> Aggregate:
    """A column's value in the event that has the greatest value of another column: ``max_by("item", by="price")``.

    ``field``: several columns give a struct, ``max_by(["item", "shop"], by="price")``; without ``field`` the result is
    the whole event, a struct of all columns. ``by``: a column of any type that ``max`` takes; NaN is after all numbers.

    Null is a value of ``field``, but events in which ``by`` is null are skipped. Of several events with the greatest
    value, the first is taken, by time and then by arrival.
    """
    return MaxBy(**field_arguments(field), by=by)


@checked_value
def min_by(field: str | Sequence[str] | None = None, *, by: str) -> Aggregate:
    """A column's value in the event that has the least value of another column; all else is as for ``max_by``."""
    return MaxBy(**field_arguments(field), by=by, greatest=False)


@checked_value
def top(k: int, field: str | Sequence[str] | None = None, *, by: str) -> Aggregate:
    """Collect the results of ``max_by`` for the ``k`` events with the greatest values: an array, the greatest first.

    Events with equal values are in order of time, then of arrival. The array is shorter if fewer than ``k`` events have
    a value. At most ``k`` events are kept for each key and slice of time.
    """
    return Top(**field_arguments(field), by=by, limit=k)


@checked_value
def bottom(k: int, field: str | Sequence[str] | None = None, *, by: str) -> Aggregate:
    """Collect the results of ``min_by`` for the ``k`` events with the least values: an array, the least first."""
    return Top(**field_arguments(field), by=by, limit=k, greatest=False)


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
    return Collect(**field_arguments(field), by=order_by, descending=descending, limit=limit)


@checked_value
def distinct_count(field: str, *, standard_error: float | None = None) -> Aggregate:
    """Count the different values of a column, exactly; all NaNs are one value, and so are 0.0 and -0.0.

    Each different value is kept until its last window has fired.

    ``standard_error=0.01`` gives an estimate instead, by a HyperLogLog. Its error is below 1 % in two answers of three,
    below 2 % in 19 of 20, below 3 % in 997 of 1,000. The estimate depends on the values alone, not on how the input was
    cut. A key takes at most 64 KB in each slice of time, and at most 4 bytes for each different value. The standard
    error may be from 0.0025 (which takes 1 MB) to 0.25; half the error takes four times the space.
    """
    return DistinctCount(field) if standard_error is None else ApproximateCount(field, standard_error=standard_error)


@checked_value
def mode(field: str) -> Aggregate:
    """The most frequent value, or the least of several that are equally frequent, as in Spark's ``mode(a, true)``.

    Nulls are not counted. All NaNs are one value, after all numbers; 0.0 and -0.0 are one value too. Each different
    value is kept, with the number of its occurrences, until its last window has fired.
    """
    return Mode(field)


@checked_value
def histogram(field: str, edges: Iterable[HistogramEdge]) -> Aggregate:
    """Count the values between edges: an array with one count more than there are edges.

    The first count is of the values below ``edges[0]``. Each following count is of the values from an edge up to the
    next edge, exclusive. The last count is of the values from the last edge on, and of NaN. Nulls are not counted, so
    the counts add up to ``count(field)``.

    ``edges``: from 1 to 256 numbers, ascending, in the unit of the column. Whole numbers and decimals of up to 18
    digits are compared with them exactly.
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

    ``relative_error=0.01``, from 0.0001 to 0.5, uses a DDSketch: the result is never off by more than 1 % of the value,
    and depends on the values alone, not on how the input was cut. Values nearer to 0 than 2.3e-308 count as 0. Each
    different bucket takes 16 bytes; with 0.01 there are about 50 buckets between a number and its double, with 0.001
    ten times as many.

    Without ``relative_error`` a t-digest of about 20 * ``size`` bytes is kept. The result is exact for up to
    ``size`` / 2 values. For more values the error of its rank has no bound, and depends on how the input was cut; with
    a size of 500 it is mostly below 1 % of the values in the middle, and far below 0.1 % at q=0.001 and q=0.999. Twice
    the size halves the error. ``build()`` raises ConfigError if the package of t-digests is missing: pip install
    'windbolt[sketches]'.
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
    """The ``quantile`` with ``q=0.5``."""
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

    ``fold(values)`` is called with some of a group's values, at least one: a NumPy array without nulls, in no
    particular order. It returns their state. ``merge(states)`` is called with a list of two or more states of a group,
    and returns the state of all of their values. ``finish(state)`` is called with the state of a whole group, and
    returns the result; without ``finish`` the state is the result. A state of None stands for a group without values:
    ``merge`` and ``finish`` are not called with None, and the result is null.

    ``state``, ``result``: their types, as in a schema: ``"double"``, ``"array<long>"``, ``"struct<x: long, y: long>"``.
    Without ``result`` the result has the type of the state. The functions get states as Python values: arrays as lists,
    structs as dicts. A returned value of another type is a SchemaError.
    """
    kind = read_type(state, "state")
    return Combine(
        field,
        folding=fold,
        merging=merge,
        finishing=finish,
        state_type=kind,
        result_type=kind if result is None else read_type(result, "result"),
    )


@checked_value
def window_start() -> Aggregate:
    """The start of the window, a timestamp; null if the length is a count."""
    return WindowStart()


@checked_value
def window_end() -> Aggregate:
    """The end of the window, a timestamp."""
    return WindowEnd()
