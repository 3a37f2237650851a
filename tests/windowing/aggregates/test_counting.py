"""Aggregates that count values, against plain Python: the mode, histograms, quantiles with a bound on their error."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.windowing.aggregates.test_aggregates import (
    COLUMNS,
    DECIMALS,
    EXAMPLES,
    NUMBERS,
    Case,
    Values,
    bound_aggregates_of,
    canonical,
    cases,
    check,
    finish,
    fold,
    in_parts,
    is_nan,
    known,
    over,
    quantile_of,
)
from tests.windowing.aggregates.test_picked import RANKED, rank
from windowing import ConfigError, aggregates
from windowing.aggregates.accumulators import DenseAccumulator, EventColumns
from windowing.aggregates.groups import Groups
from windowing.aggregates.statistics import Buckets

# ------------------------------------------------------------------------------------------------------------ the mode


def mode_of(values: Values) -> Any:
    ordered = sorted(known(values), key=rank)
    counts = Counter(str(canonical(value)) for value in ordered)
    return next((value for value in ordered if counts[str(canonical(value))] == max(counts.values())), None)


@examples(2 * EXAMPLES)
@given(over(RANKED))
def test_the_mode_is_the_least_of_the_values_that_occur_most_often(drawn: Any) -> None:
    field, case = drawn
    check(case, field, aggregates.mode(field), mode_of)


@examples(EXAMPLES)
@given(cases(["flag", "text"]))
def test_the_mode_of_few_different_values(case: Case) -> None:
    check(case, "flag", aggregates.mode("flag"), mode_of)
    check(case, "text", aggregates.mode("text"), mode_of)


# ---------------------------------------------------------------------------------------------------------- histograms

EDGES = st.one_of(
    st.lists(st.integers(-6, 6), min_size=1, max_size=5, unique=True),
    st.lists(st.sampled_from([-1e30, -1.5, -0.5, 0, 0.25, 1, 2.5, 1e300]), min_size=1, max_size=5, unique=True),
    st.lists(st.sampled_from([-(1 << 63), -(1 << 64), (1 << 63) - 1, 1 << 63, 1 << 70, 0]), min_size=1, unique=True),
    st.lists(st.sampled_from([Decimal("0.01"), Decimal("-0.015"), Decimal(3)]), min_size=1, max_size=3, unique=True),
).map(lambda edges: sorted(edges, key=Fraction))


def between(edges: list[Any]) -> Callable[[Values], list[int]]:
    exact = [Fraction(str(edge)) for edge in edges]

    def reached(value: Any) -> int:
        if is_nan(value) or value == math.inf:
            return len(edges)
        return 0 if value == -math.inf else sum(Fraction(value) >= edge for edge in exact)

    def found(values: Values) -> list[int]:
        places = [reached(value) for value in known(values)]
        return [places.count(at) for at in range(len(edges) + 1)]

    return found


@examples(2 * EXAMPLES)
@given(over(NUMBERS + DECIMALS), EDGES)
def test_a_histogram_counts_values_from_each_edge_up_to_the_next(drawn: Any, edges: list[Any]) -> None:
    field, case = drawn
    check(case, field, aggregates.histogram(field, edges), between(edges))


def test_an_edge_between_two_decimals_or_beyond_all_whole_numbers() -> None:
    table = pa.table({"money": pa.array([Decimal("0.10"), Decimal("0.11"), None], pa.decimal128(7, 2))})
    check(Case(table, [0] * 3, (), [], 1), "money", aggregates.histogram("money", [0.1, 0.105]), lambda _: [0, 1, 1])
    longs = pa.table({"long": pa.array([(1 << 63) - 1, -(1 << 63)])})
    edges = [-(1 << 70), 2.0**63]
    check(Case(longs, [0] * 2, (), [], 1), "long", aggregates.histogram("long", edges), lambda _: [0, 2, 0])


@examples(EXAMPLES)
@given(st.lists(st.integers(-3, 12), min_size=1, max_size=20), st.integers(0, 20))
def test_histograms_join_entry_by_entry_as_rows_do(values: list[int], middle: int) -> None:
    histogram = aggregates.histogram("v", [0, 5, 10]).with_types("h", pa.schema([("v", pa.int64())]))
    (counts,) = histogram.accumulators
    assert isinstance(counts, DenseAccumulator)
    sides = []
    for part in (values[:middle], values[middle:]):
        full = counts.empty(2)
        if part:
            groups = Groups(np.zeros(len(part), np.int64), 2)
            events = EventColumns({"v": pa.array(part)}, np.zeros(len(part), np.int64))
            for entries, found in zip(full, counts.fold(events, groups), strict=True):
                entries[groups.present_codes] = found
        sides.append(full)
    joined = counts.merge_entries(*sides)
    assert [column.tolist() for column in joined] == [[n, 0] for n in between([0, 5, 10])(list(values))]


# ----------------------------------------------------------------------------------------------- quantiles with a bound

ERRORS = st.sampled_from([0.0001, 0.001, 0.01, 0.1, 0.5])
ODD = st.sampled_from(
    [5e-324, 2.2e-308, 2.2250738585072014e-308, -2.3e-308, 1.7976931348623157e308, 0.0, -0.0, 1.0, 2.0,
     math.nextafter(2, 0), math.nextafter(2, 3), math.inf, -math.inf, math.nan]
)  # fmt: skip


def is_within(found: Any, expected: Any, error: float) -> bool:
    """Whether it is within the bound, computed exactly."""
    if found is None or expected is None:
        return found is expected
    if not (math.isfinite(found) and math.isfinite(expected)):
        return bool(canonical(found) == canonical(expected))
    bound = max(Fraction(str(error)) * abs(Fraction(expected)), Fraction(2.2250738585072014e-308))
    return abs(Fraction(found) - Fraction(expected)) <= bound


@examples(300)
@given(st.lists(st.floats(allow_nan=False) | ODD, min_size=1, max_size=50), ERRORS)
@example([1.7976931348623157e308, 2.2250738585072014e-308], 0.5)
def test_the_middle_of_a_bucket_is_near_all_that_is_in_it(values: list[float], error: float) -> None:
    buckets = Buckets(error)
    numbers = buckets.of(np.array(values))
    for value, found in zip(values, buckets.values(numbers).tolist(), strict=True):
        assert is_within(found, value, error), (value, found)
    ordered = np.array(sorted(values, key=rank))
    assert (np.diff(buckets.of(ordered)) >= 0).all()


@pytest.mark.parametrize("error", [0.0001, 0.003, 0.01, 0.5])
def test_no_value_at_the_edge_of_a_bucket_is_beyond_the_bound(error: float) -> None:
    buckets = Buckets(error)
    chance = np.random.default_rng(1)
    places = np.floor(chance.uniform(-1000, 1000, 20_000) * buckets.per_octave) / buckets.per_octave
    edges, exponents = 1 + places % 1, np.floor(places).astype(int)
    for factor in (1 - 2e-16, 1.0, 1 + 3e-16):
        values = np.ldexp(edges * factor, exponents)
        found = buckets.values(buckets.of(values))
        assert (np.abs(found - values) <= error * values).all()


@examples(2 * EXAMPLES)
@given(over(NUMBERS), st.sampled_from([0, 0.1, 0.25, 0.5, 0.9, 1]), ERRORS)
def test_a_quantile_is_within_its_bound_and_does_not_depend_on_cuts(drawn: Any, q: float, error: float) -> None:
    field, case = drawn
    quantile = aggregates.quantile(field, q, relative_error=error)
    check(case, field, quantile, quantile_of(q), lambda found, expected, _: is_within(found, expected, error))
    bound = bound_aggregates_of(case, found=quantile)
    together = finish(bound, fold(bound, case.table, case.times))
    for other in (in_parts(bound, case), in_parts(bound, case, nested=True)):
        assert [canonical(row["found"]) for row in other] == [canonical(row["found"]) for row in together]


@pytest.mark.parametrize("shape", ["even", "normal", "heavy", "ties", "both signs"])
def test_quantiles_of_many_values_are_within_their_bound(shape: str) -> None:
    chance, count = np.random.default_rng(7), 50_000
    values = {
        "even": chance.random(count),
        "normal": chance.normal(size=count),
        "heavy": chance.pareto(0.5, count),
        "ties": np.floor(chance.normal(size=count) * 3),
        "both signs": np.where(chance.random(count) < 0.5, 1, -1) * np.exp(chance.normal(size=count) * 50),
    }[shape]
    mixed = values.tolist()
    random.Random(3).shuffle(mixed)
    qs = [0, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1]
    wanted = {f"q{at}": aggregates.quantile("v", q, relative_error=0.01) for at, q in enumerate(qs)}
    rows = []
    for given_values in (values.tolist(), mixed):
        case = Case(pa.table({"v": given_values}), [at // 100 for at in range(count)], (), [1000, 7777], 50)
        bound = bound_aggregates_of(case, **wanted)
        assert len(bound.accumulators) == 1
        rows += in_parts(bound, case)
    assert rows[0] == rows[1]
    for at, q in enumerate(qs):
        assert is_within(rows[0][f"q{at}"], quantile_of(q)(values.tolist()), 0.01)


def test_there_are_about_as_many_buckets_as_the_guide_says() -> None:
    assert 49 < Buckets(0.01).per_octave < 51
    assert 499 < Buckets(0.001).per_octave < 501


# ------------------------------------------------------------------------------------------------------ what is refused


def test_what_is_kept_of_a_bounded_quantile_is_told_alike_for_equal_errors() -> None:
    """A checkpoint compares what is told; NumPy's numbers are told differently from one NumPy to another."""
    case = Case(pa.table({"v": [1.0]}), [0], (), [1], 1)
    told = [
        str(bound_aggregates_of(case, near=aggregates.quantile("v", 0.5, relative_error=error)).accumulators)
        for error in (0.01, np.float64(0.01))
    ]
    assert told[0] == told[1]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: aggregates.histogram("v", []),
        lambda: aggregates.histogram("v", 3),  # type: ignore[arg-type]
        lambda: aggregates.histogram("v", "123"),  # type: ignore[arg-type]
        lambda: aggregates.histogram("v", [1, 1]),
        lambda: aggregates.histogram("v", [2, 1]),
        lambda: aggregates.histogram("v", [1, math.inf]),
        lambda: aggregates.histogram("v", [math.nan]),
        lambda: aggregates.histogram("v", [True]),
        lambda: aggregates.histogram("v", range(300)),
        lambda: aggregates.quantile("v", 1.5, relative_error=0.01),
        lambda: aggregates.quantile("v", 0.5, relative_error=0),
        lambda: aggregates.quantile("v", 0.5, relative_error=1),
        lambda: aggregates.median("v", relative_error=math.nan),
        lambda: aggregates.median("v", relative_error="1%"),  # type: ignore[arg-type]
        lambda: aggregates.median("v", relative_error=0.1, size=100),
        lambda: aggregates.mode(3),  # type: ignore[arg-type]
    ],
)
def test_mistakes_are_told_where_they_are_made(wrong: Callable[[], Any]) -> None:
    with pytest.raises(ConfigError):
        wrong()


@pytest.mark.parametrize(
    ("aggregate", "fields"),
    [
        (aggregates.mode, ("array",)),
        (lambda field: aggregates.histogram(field, [1]), ("ulong", "flag", "text", "ts", "huge", "array", "pair")),
        (lambda field: aggregates.median(field, relative_error=0.1), ("ulong", "flag", "text", "ts", "money")),
    ],
)
def test_columns_that_cannot_be_counted_are_refused(aggregate: Any, fields: tuple[str, ...]) -> None:
    for field in fields:
        with pytest.raises(ConfigError, match=f"found=.*{field}"):
            aggregate(field).with_types("found", pa.schema([(field, COLUMNS[field][0])]))


def test_edges_of_numpy_are_numbers() -> None:
    assert str(aggregates.histogram("v", np.array([0, 10]))) == "histogram('v', [0, 10])"
    assert str(aggregates.quantile("v", 0.9, relative_error=0.02)) == "quantile('v', 0.9, relative_error=0.02)"
