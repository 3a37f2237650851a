"""Approximate counts of different values: within their standard error, whatever the order and the cuts."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from tests.helpers.examples import examples
from tests.windowing.aggregates.test_aggregates import (
    COLUMNS,
    EXAMPLES,
    PLAIN,
    Case,
    Values,
    bound_aggregates_of,
    canonical,
    check,
    finish,
    fold,
    in_parts,
    known,
    over,
)
from windowing import ConfigError, aggregates
from windowing.aggregates.accumulators import EventColumns
from windowing.aggregates.distinct import Registers, estimates
from windowing.aggregates.groups import Groups

BITS = 10
ERROR = 1.04 / 2 ** (BITS / 2)


def registers_of(values: pa.Array, groups: Groups) -> pa.Array:
    (state,) = Registers("v", BITS).fold(EventColumns({"v": values}, np.zeros(len(values), np.int64)), groups)
    return state


@examples(2 * EXAMPLES)
@given(over(PLAIN))
def test_few_different_values_are_told_apart_but_for_two_in_one_register(drawn: Any) -> None:
    field, case = drawn
    counted = aggregates.distinct_count(field, standard_error=0.01)

    def expected(values: Values) -> int:
        return len({*map(canonical, known(values))})

    check(case, field, counted, expected, lambda found, exact, _: abs(found - exact) <= exact // 5)


@pytest.mark.parametrize("count", [1, 30, 300, 1_000, 3_000, 10_000, 100_000])
def test_the_error_is_what_is_stated(count: int) -> None:
    groups = max(20, 200_000 // count)
    values = np.random.default_rng(count).permutation(groups * count)
    found = estimates(registers_of(pa.array(values), Groups(values // count, groups)), BITS)
    off = (found - count) / count
    assert np.sqrt((off**2).mean()) < 1.1 * ERROR + 3 * ERROR / np.sqrt(2 * groups)
    assert abs(off.mean()) < 4 * ERROR / np.sqrt(groups) + 0.5 / count  # it is a whole number
    assert np.abs(off).max() < 5 * ERROR


@pytest.mark.parametrize("kind", ["text", "double", "ts", "money", "huge", "bytes", "ulong"])
def test_values_of_every_type_are_told_apart(kind: str) -> None:
    count = 20_000
    numbers = {
        "text": pa.array([f"user-{at}" for at in range(count)]),
        "double": pa.array(np.arange(count) / 7),
        "ts": pa.array(np.arange(count) * 1_000_000).cast(COLUMNS["ts"][0]),
        "money": pa.array([Decimal(at) / 100 for at in range(count)], COLUMNS["money"][0]),
        "huge": pa.array([Decimal(at) * 10**25 for at in range(count)], COLUMNS["huge"][0]),
        "bytes": pa.array([at.to_bytes(8, "little") for at in range(count)]),
        "ulong": pa.array(np.arange(count).astype(np.uint64) << np.uint64(40)),
    }[kind]
    (found,) = estimates(registers_of(numbers, Groups(np.zeros(count, np.int64), 1)), BITS)
    assert found == pytest.approx(count, rel=3 * ERROR)
    repeated = pa.concat_arrays([numbers, numbers.slice(5)])
    assert estimates(registers_of(repeated, Groups(np.zeros(len(repeated), np.int64), 1)), BITS) == [found]


def test_it_depends_on_the_values_alone() -> None:
    values = [f"user-{at * at % 9_973}" for at in range(20_000)]
    mixed = values.copy()
    random.Random(3).shuffle(mixed)
    rows = []
    for given_values, cuts in ((values, []), (values, [7, 9_000, 15_000]), (mixed, [10_000])):
        case = Case(pa.table({"v": given_values}), [at // 10 for at in range(20_000)], (), cuts, 300)
        bound = bound_aggregates_of(case, n=aggregates.distinct_count("v", standard_error=0.02))
        rows += finish(bound, fold(bound, case.table, case.times))
        rows += in_parts(bound, case, nested=True)
    assert rows == rows[:1] * 6
    assert rows[0]["n"] == pytest.approx(len({*values}), rel=0.06)


@pytest.mark.parametrize("wrong", [0, 1, 0.001, 0.3, True, "1%"])
def test_an_error_that_cannot_be_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="distinct_count"):
        aggregates.distinct_count("v", standard_error=wrong)


@pytest.mark.parametrize("field", ["array", "pair"])
def test_columns_whose_values_have_no_hash_are_refused(field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        aggregates.distinct_count(field, standard_error=0.1).with_types("n", pa.schema([(field, COLUMNS[field][0])]))


def test_an_error_of_one_per_cent_takes_16384_registers() -> None:
    (registers,) = aggregates.distinct_count("v", standard_error=0.01).with_types(
        "n", pa.schema([("v", pa.int64())])
    ).accumulators  # fmt: skip
    assert registers == Registers("v", 14)
