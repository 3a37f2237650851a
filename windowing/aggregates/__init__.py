"""What an AggregateBolt sums windows up to: ``AggregateBolt(by=["user"], n=count(), revenue=sum("amount"))``.

Nulls are passed over, as SQL does it; a group without values has null, and a count of 0. NaN is a value, and what it
is part of is NaN. ``first``, ``last`` and ``collect`` are about events: for them, as for SQL, null is a value too.
"""

from __future__ import annotations

import pyarrow as pa

from windowing.aggregates.combining import Combine, Function, type_of
from windowing.aggregates.declared import (
    Aggregate,
    Count,
    Max,
    Mean,
    Min,
    Sum,
    Variance,
    WindowEnd,
    WindowStart,
)
from windowing.aggregates.distinct import DistinctCount
from windowing.aggregates.ends import First, Last
from windowing.aggregates.lists import Collect
from windowing.aggregates.sketches import Quantile

__all__ = [
    "Aggregate",
    "collect",
    "combine",
    "count",
    "distinct_count",
    "first",
    "last",
    "max",
    "mean",
    "median",
    "min",
    "quantile",
    "std",
    "sum",
    "variance",
    "window_end",
    "window_start",
]


def count(field: str | None = None) -> Aggregate:
    """How many events a group has; of a column: how many of its values are not null."""
    return Count(field)


def sum(field: str) -> Aggregate:  # noqa: A001 - as in SQL, and in pyspark
    """The sum of a column: whole numbers as long, floating point as double, decimals (p, s) as decimal(p + 10, s).

    Partial sums are added, so the last digits of doubles may depend on how the input was cut into files and batches.
    A sum of whole numbers beyond 64 bits is a DataError. Decimals may have up to 18 digits.
    """
    return Sum(field)


def mean(field: str) -> Aggregate:
    """The mean of a column of numbers, as double.

    Whole numbers, and decimals of up to 18 digits, are summed exactly first, however long the sum gets.
    """
    return Mean(field)


def variance(field: str, *, ddof: int = 1) -> Aggregate:
    """The variance of a column of numbers: of a sample (``ddof=1``), or of all there is (``ddof=0``)."""
    return Variance(field, ddof=ddof)


def std(field: str, *, ddof: int = 1) -> Aggregate:
    """The standard deviation, the root of ``variance``."""
    return Variance(field, ddof=ddof, root=True)


def min(field: str) -> Aggregate:  # noqa: A001
    """The least value of a column: of numbers, times, dates, booleans, decimals, texts (by code point) or binaries."""
    return Min(field)


def max(field: str) -> Aggregate:  # noqa: A001
    """The greatest value of a column, of any type that ``min`` takes."""
    return Max(field)


def first(field: str) -> Aggregate:
    """The value of the first event, by time and among equal times by arrival; null where that value is null."""
    return First(field)


def last(field: str) -> Aggregate:
    """The value of the last event, by time and among equal times by arrival; null where that value is null."""
    return Last(field)


def collect(field: str) -> Aggregate:
    """The values as an array, nulls included, in order of time, and among equal times of arrival.

    All of them are kept until their last window has fired.
    """
    return Collect(field)


def distinct_count(field: str) -> Aggregate:
    """How many different values a column has, exactly; all NaNs are one value, and so are 0.0 and -0.0.

    Each different value is kept until its last window has fired.
    """
    return DistinctCount(field)


def quantile(field: str, q: float, *, size: int = 500) -> Aggregate:
    """The value that a share ``q`` of a column's values lies below, about, as double; ``q=0.95``: the 95th percentile.

    Of up to ``size`` / 2 values it is exact: the one at place ``floor(q * n)`` of them in order, counted from 0. More
    are kept as a t-digest of about 20 * ``size`` bytes. How far its rank is off is not bounded, and depends on how
    the input was cut; with 500 it is mostly below 1 % of the values in the middle, and far below 0.1 % at q=0.001 and
    q=0.999. Twice the size halves that.

    ConfigError when the topology is built, where the package is missing: pip install 'windbolt[sketches]'.
    """
    return Quantile(field, q=q, size=size)


def median(field: str, *, size: int = 500) -> Aggregate:
    """The ``quantile`` in the middle."""
    return Quantile(field, q=0.5, size=size)


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
    ``finish`` do not see it: the result is null, as it is where there are no values.

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


def window_start() -> Aggregate:
    """The start of the window, a timestamp; null where the length is a count."""
    return WindowStart()


def window_end() -> Aggregate:
    """The end of the window, a timestamp."""
    return WindowEnd()
