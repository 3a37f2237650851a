"""Aggregates of two columns, against exact arithmetic: weighted means, covariances, correlations."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.windowing.aggregates.test_aggregates import (
    COLUMNS,
    EXAMPLES,
    Case,
    Same,
    bound_aggregates_of,
    cases,
    check,
    far_cases,
    finish,
    fold,
    in_parts,
)
from windowing import ConfigError, aggregates
from windowing.aggregates.accumulators import DenseAccumulator, EventColumns
from windowing.aggregates.groups import Groups

WHOLE = ("byte", "near", "short")
FINITE = (*WHOLE, "int", "money", "fine")
Row = dict[str, Any]
Pairs = list[tuple[Fraction, Fraction]]


def pairs_of(rows: list[Row], one: str, other: str) -> Pairs:
    known = [row for row in rows if row[one] is not None and row[other] is not None]
    return [(Fraction(row[one]), Fraction(row[other])) for row in known]


def products_of(pairs: Pairs) -> tuple[Fraction, Fraction, Fraction]:
    """The sums of squared distances from the means, and of their products, exactly."""
    mean, other_mean = (sum((pair[at] for pair in pairs), Fraction(0)) / len(pairs) for at in (0, 1))
    away = [(one - mean, other - other_mean) for one, other in pairs]
    return (
        sum((one * one for one, _ in away), Fraction(0)),
        sum((other * other for _, other in away), Fraction(0)),
        sum((one * other for one, other in away), Fraction(0)),
    )


@st.composite
def two_columns(draw: st.DrawFn, fields: tuple[str, ...]) -> tuple[str, str, Case]:
    one, other = draw(st.sampled_from(fields)), draw(st.sampled_from(fields))
    return one, other, draw(cases([one, other]))


@examples(2 * EXAMPLES)
@given(two_columns(WHOLE))
def test_a_weighted_mean_is_the_sum_of_products_by_that_of_weights(drawn: tuple[str, str, Case]) -> None:
    one, other, case = drawn

    def expected(rows: list[Row]) -> float | None:
        pairs = pairs_of(rows, one, other)
        weights = sum((weight for _, weight in pairs), Fraction(0))
        return float(sum(value * weight for value, weight in pairs)) / float(weights) if weights else None

    check(case, list(dict.fromkeys([one, other])), aggregates.weighted_mean(one, other), expected)


def covariance_matches(one: str, other: str, ddof: int) -> Same:
    def same(found: Any, _: Any, rows: list[Row]) -> bool:
        pairs = pairs_of(rows, one, other)
        if len(pairs) <= ddof:
            return found is None
        squares, other_squares, products = products_of(pairs)
        allowed = 1e-13 * len(pairs) * math.sqrt(squares * other_squares)
        return found is not None and abs(found * (len(pairs) - ddof) - float(products)) <= allowed

    return same


def correlation_matches(one: str, other: str) -> Same:
    def same(found: Any, _: Any, rows: list[Row]) -> bool:
        pairs = pairs_of(rows, one, other)
        squares, other_squares, products = products_of(pairs) if pairs else (Fraction(0),) * 3
        if not squares or not other_squares:
            return found is None
        expected = products / Fraction(math.sqrt(squares * other_squares))
        return abs(found) <= 1 and abs(found - expected) <= 1e-13 * len(pairs)

    return same


@examples(2 * EXAMPLES)
@given(two_columns(FINITE), st.integers(0, 2))
def test_covariances_do_not_lose_their_digits(drawn: tuple[str, str, Case], ddof: int) -> None:
    one, other, case = drawn
    same = covariance_matches(one, other, ddof)
    check(case, list(dict.fromkeys([one, other])), aggregates.covariance(one, other, ddof=ddof), lambda _: None, same)


@examples(2 * EXAMPLES)
@given(two_columns(FINITE))
def test_a_correlation_is_from_minus_one_to_one(drawn: tuple[str, str, Case]) -> None:
    one, other, case = drawn
    same = correlation_matches(one, other)
    check(case, list(dict.fromkeys([one, other])), aggregates.corr(one, other), lambda _: None, same)


@examples(2 * EXAMPLES)
@given(far_cases(), st.permutations(["long", "double", "fine", "near"]))
def test_pairs_are_exact_however_far_the_values_are(case: Case, fields: list[str]) -> None:
    one, other, *_ = fields
    check(case, [one, other], aggregates.covariance(one, other), lambda _: None, covariance_matches(one, other, 1))
    check(case, [one, other], aggregates.corr(one, other), lambda _: None, correlation_matches(one, other))


def folded(aggregate: aggregates.Aggregate, table: pa.Table) -> list[Any]:
    """Its results, of all at once and of parts."""
    case = Case(table, list(range(len(table))), (), [1, 2], 2)
    bound = bound_aggregates_of(case, found=aggregate)
    answers = (finish(bound, fold(bound, table, case.times)), in_parts(bound, case))
    return [row["found"] for answer in answers for row in answer]


@pytest.mark.parametrize(
    ("values", "weights", "expected"),
    [
        ([1.0, 3.0, 9.0], [1.0, -1.0, 0.0], None),
        ([1.0, 3.0, 9.0], [1.0, None, 3.0], 7.0),
        ([None, 3.0, 9.0], [1.0, 0.0, 0.0], None),
        ([None, None, 9.0], [1.0, 2.0, None], None),
        ([math.nan, 3.0, 9.0], [1.0, 1.0, 1.0], math.nan),
        ([math.inf, 3.0, 9.0], [1.0, 1.0, 1.0], math.inf),
        ([1.0, 3.0, 9.0], [1.0, 1.0, math.nan], math.nan),
    ],
)
def test_weights_that_are_null_or_odd(values: list[Any], weights: list[Any], expected: float | None) -> None:
    table = pa.table({"v": pa.array(values, pa.float64()), "w": pa.array(weights, pa.float64())})
    for found in folded(aggregates.weighted_mean("v", "w"), table):
        assert found == (expected if expected is None else pytest.approx(expected, nan_ok=True))


def test_the_mean_price_of_what_was_traded() -> None:
    prices = pa.array([Decimal("10.10"), Decimal("10.20"), None, Decimal("10.30")], pa.decimal128(7, 2))
    table = pa.table({"price": prices, "volume": [100, 300, 9, 0]})
    for found in folded(aggregates.weighted_mean("price", "volume"), table):
        assert found == pytest.approx((10.10 * 100 + 10.20 * 300) / 400, rel=1e-15)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_makes_no_number(odd: float) -> None:
    table = pa.table({"x": [1.0, odd, 3.0], "y": [2.0, 2.0, 2.0], "z": [1.0, 5.0, 2.0]})
    for aggregate in (aggregates.corr("x", "y"), aggregates.corr("z", "x"), aggregates.covariance("x", "z")):
        assert all(map(math.isnan, folded(aggregate, table)))


def test_a_column_that_does_not_vary_has_no_correlation() -> None:
    table = pa.table({"x": [0.1] * 7, "y": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.5]})
    assert folded(aggregates.corr("x", "y"), table) == [None, None]
    assert folded(aggregates.covariance("x", "y"), table) == [0.0, 0.0]
    assert folded(aggregates.corr("y", "y"), table) == [pytest.approx(1), pytest.approx(1)]


def test_a_far_column_keeps_its_digits() -> None:
    chance = np.random.default_rng(1)
    x = chance.normal(size=1000)
    table = pa.table({"x": 1e9 + x, "y": -1e9 - x + chance.normal(size=1000)})
    expected = np.corrcoef(table["x"].to_numpy() - 1e9, table["y"].to_numpy() + 1e9)[0, 1]
    for found in folded(aggregates.corr("x", "y"), table):
        assert found == pytest.approx(expected, rel=1e-7)  # of the values: they are rounded to 1e-7


@examples(EXAMPLES)
@given(cases(["near", "byte"], keys=("flag",)))
def test_dense_states_join_entry_by_entry_as_rows_do(case: Case) -> None:
    wanted = {"mean": aggregates.weighted_mean("near", "byte"), "corr": aggregates.corr("near", "byte")}
    columns = {name: case.table[name].combine_chunks() for name in case.table.column_names}
    middle, owners = case.cuts[0] if case.cuts else 0, np.arange(len(case.times)) % 3
    for each in bound_aggregates_of(case, **wanted).accumulators:
        assert isinstance(each, DenseAccumulator)
        sides = []
        for part in (slice(0, middle), slice(middle, None)):
            groups, full = Groups(owners[part], 3), each.empty(3)
            events = EventColumns({name: column[part] for name, column in columns.items()}, np.array(case.times[part]))
            for entries, values in zip(full, each.fold(events, groups), strict=True):
                assert entries.dtype == values.dtype
                entries[groups.present_codes] = values
            sides.append(full)
        together = each.fold(EventColumns(columns, np.array(case.times)), Groups(owners, 3))
        joined = each.take(each.merge_entries(*sides), np.unique(owners))
        for found, expected in zip(joined, together, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        for same in (each.merge_entries(each.empty(3), sides[1]), each.merge_entries(sides[1], each.empty(3))):
            for found, expected in zip(same, sides[1], strict=True):
                np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: aggregates.weighted_mean("a", None),  # type: ignore[arg-type]
        lambda: aggregates.corr(None, "a"),  # type: ignore[arg-type]
        lambda: aggregates.corr("a", ["b"]),  # type: ignore[arg-type]
        lambda: aggregates.covariance("a", "b", ddof=-1),
    ],
)
def test_mistakes_are_told_where_they_are_made(wrong: Callable[[], Any]) -> None:
    with pytest.raises(ConfigError):
        wrong()


@pytest.mark.parametrize("field", ["ulong", "flag", "text", "ts", "huge", "array"])
@pytest.mark.parametrize("function", [aggregates.weighted_mean, aggregates.covariance, aggregates.corr])
def test_columns_that_are_no_numbers_are_refused(function: Any, field: str) -> None:
    schema = pa.schema([(field, COLUMNS[field][0]), ("n", pa.int64())])
    for one, other in ((field, "n"), ("n", field)):
        with pytest.raises(ConfigError, match=f"found=.*{field}"):
            function(one, other).with_types("found", schema)
    with pytest.raises(ConfigError, match="no column 'there'"):
        function("n", "there").with_types("found", schema)
