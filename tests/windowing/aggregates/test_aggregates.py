"""What windows are summed up to, against plain Python: folded at once, and folded in parts that are then joined."""

from __future__ import annotations

import copy
import math
import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import chain, pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from windbolt import TopologyBuilder, run_local, sinks, spouts
from windbolt.testing import run_bolt
from windowing import (
    AggregateBolt,
    BoltError,
    ConfigError,
    Count,
    DataError,
    SchemaError,
    TopologyError,
    aggregates,
)
from windowing.aggregates.accumulators import DenseAccumulator, EventColumns
from windowing.aggregates.declared import RowWindows
from windowing.aggregates.groups import Groups, Keys
from windowing.aggregates.statistics import Digest
from windowing.bolts.aggregate_bolt import BoundAggregates
from windowing.settings.kinds import Session

EXAMPLES = 80
Values = list[Any]
Oracle = Callable[[Values], Any]
"""From the values of a group, in order of (time, arrival), to its result."""

# ---------------------------------------------------------------------------------------------------- columns to draw

EDGES = {width: [-(1 << width - 1), -1, 0, 1, (1 << width - 1) - 1] for width in (8, 16, 32, 64)}


def whole(width: int) -> st.SearchStrategy[int]:
    limit = 1 << width - 1
    return st.one_of(st.integers(-3, 3), st.integers(-limit, limit - 1), st.sampled_from(EDGES[width]))


def unsigned(width: int) -> st.SearchStrategy[int]:
    return st.one_of(st.integers(0, 3), st.integers(0, (1 << width) - 1))


def doubles(width: Literal[32, 64]) -> st.SearchStrategy[float]:
    odd = st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 1.5])
    limit = float(np.float32(1e30))
    return st.one_of(odd, st.integers(-5, 5).map(float), st.floats(-limit, limit, width=width))


def decimals(digits: int, places: int) -> st.SearchStrategy[Decimal]:
    limit = 10**digits - 1
    numbers = st.one_of(st.integers(-5, 5), st.integers(-limit, limit), st.sampled_from([-limit, limit]))
    return numbers.map(lambda number: Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -places)))


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = st.one_of(st.sampled_from([0, -1, 1_711_846_800_000_000]), st.integers(-(1 << 50), 1 << 52)).map(
    lambda moment: EPOCH + timedelta(microseconds=moment)
)
TEXTS = st.one_of(st.sampled_from(["", "a", "b", "ab", "\U0001f600", "\uffff"]), st.text(max_size=3))
STRUCT = pa.struct([("x", pa.int64()), ("y", pa.string())])

COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "byte": (pa.int8(), whole(8)),
    "short": (pa.int16(), whole(16)),
    "int": (pa.int32(), whole(32)),
    "long": (pa.int64(), whole(64)),
    "near": (pa.int64(), st.integers(-3, 3)),
    "ubyte": (pa.uint8(), unsigned(8)),
    "uint": (pa.uint32(), unsigned(32)),
    "ulong": (pa.uint64(), unsigned(64)),
    "float": (pa.float32(), doubles(32)),
    "double": (pa.float64(), doubles(64)),
    "flag": (pa.bool_(), st.booleans()),
    "text": (pa.string(), TEXTS),
    "bytes": (pa.binary(), st.binary(max_size=2)),
    "large": (pa.large_string(), TEXTS),
    "day": (pa.date32(), st.dates(date(1900, 1, 1), date(2100, 1, 1))),
    "ts": (pa.timestamp("us", "UTC"), MOMENTS),
    "zoned": (pa.timestamp("ms", "Europe/Berlin"), MOMENTS.map(lambda moment: moment.replace(microsecond=0))),
    "span": (pa.duration("us"), st.timedeltas(timedelta(-9), timedelta(9))),
    "money": (pa.decimal128(7, 2), decimals(7, 2)),
    "fine": (pa.decimal128(18, 9), decimals(18, 9)),
    "huge": (pa.decimal128(38, 3), decimals(38, 3)),
    "array": (pa.list_(pa.int64()), st.lists(st.integers(-2, 2), max_size=2)),
    "pair": (STRUCT, st.fixed_dictionaries({"x": st.integers(0, 1), "y": st.sampled_from(["", "z"])})),
    "coded": (pa.dictionary(pa.int32(), pa.string()), TEXTS),
    "coded_double": (pa.dictionary(pa.int8(), pa.float64()), doubles(64)),
}
INTEGERS = ("byte", "short", "int", "near", "ubyte", "uint", "long")
FLOATING = ("float", "double", "coded_double")
NUMBERS = (*INTEGERS, *FLOATING)
DECIMALS = ("money", "fine")
NESTED = ("array", "pair")
PLAIN = tuple(name for name in COLUMNS if name not in NESTED)
KEYS = ("near", "long", "ubyte", "double", "flag", "text", "bytes", "day", "ts", "money", "coded", "ulong")

# ---------------------------------------------------------------------------------------------------------- the oracle


def known(values: Values) -> Values:
    return [value for value in values if value is not None]


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def canonical(value: Any) -> Any:
    """Equal where values are: all NaNs, and 0.0 and -0.0."""
    if isinstance(value, dict):
        return {name: canonical(part) for name, part in value.items()}
    if isinstance(value, list):
        return list(map(canonical, value))
    return "NaN" if is_nan(value) else value + 0.0 if isinstance(value, float) else value


def exactly(values: Values) -> Fraction | float:
    """The sum: exact where all are finite, else as infinities and NaN have it."""
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        return math.nan if {math.inf, -math.inf} <= {*values} else sum(map(float, values))
    return sum((Fraction(value) for value in values), Fraction(0))


def mean_of(values: Values) -> float | None:
    present = known(values)
    if not present:
        return None
    total = exactly(present)
    return float(total / len(present))


def variance_of(values: Values, ddof: int = 1) -> float | None:
    present = known(values)
    if len(present) <= ddof:
        return None
    total = exactly(present)
    if isinstance(total, float):
        return math.nan
    mean = total / len(present)
    return float(sum((Fraction(value) - mean) ** 2 for value in present) / (len(present) - ddof))


def extreme(choose: Callable[[Values], Any]) -> Oracle:
    def found(values: Values) -> Any:
        present = known(values)
        if any(map(is_nan, present)):
            return math.nan
        return choose(present) if present else None

    return found


def quantile_of(q: float) -> Oracle:
    def found(values: Values) -> float | None:
        present = sorted(float(value) for value in known(values) if not is_nan(value))
        if len(present) < len(known(values)):
            return math.nan
        return present[min(len(present) - 1, math.floor(q * len(present)))] if present else None

    return found


# ------------------------------------------------------------------------------------------------- folding and joining


@dataclass
class Case:
    """Events in order of arrival; their keys and values are columns of the table."""

    table: pa.Table
    times: list[int]
    by: tuple[str, ...]
    cuts: list[int]
    width: int
    """How long a slice is."""

    def grouped(self, field: str | Sequence[str]) -> list[tuple[tuple[Any, ...], Values]]:
        """The values of each key in order of (time, arrival), of several columns as dicts; keys in order, null last."""
        keys = list(zip(*(self.table[name].to_pylist() for name in self.by), strict=True)) or [()] * len(self.times)
        values = self.table[field].to_pylist() if isinstance(field, str) else self.table.select(field).to_pylist()
        found: dict[tuple[Any, ...], Values] = {}
        for at in sorted(range(len(values)), key=lambda at: self.times[at]):
            found.setdefault(tuple(map(canonical, keys[at])), []).append(values[at])
        return sorted(found.items(), key=lambda item: [(part is None, part == "NaN" and self._floats(at), _rank(part))
                                                       for at, part in enumerate(item[0])])  # fmt: skip

    def _floats(self, at: int) -> bool:
        return bool(pa.types.is_floating(self.table.schema.field(self.by[at]).type))


def _rank(part: Any) -> Any:
    return 0 if part is None else part.encode() if isinstance(part, str) else part


def array_of(values: Values, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


@st.composite
def cases(draw: st.DrawFn, fields: Sequence[str], keys: Sequence[str] = KEYS, rows: int = 24) -> Case:
    by = draw(st.lists(st.sampled_from(keys), max_size=3, unique=True))
    count = draw(st.integers(1, rows))
    columns = {}
    for name in {**dict.fromkeys(by), **dict.fromkeys(fields)}:
        kind, values = COLUMNS[name]
        some = st.one_of(st.none(), values) if draw(st.booleans()) else values
        if name in by:
            some = st.sampled_from(draw(st.lists(some, min_size=1, max_size=3)))
        columns[name] = array_of(draw(st.lists(some, min_size=count, max_size=count)), kind)
    times = draw(st.lists(st.integers(-20, 20), min_size=count, max_size=count))
    cuts = sorted(draw(st.lists(st.integers(0, count), max_size=4)))
    return Case(pa.table(columns), times, tuple(by), cuts, draw(st.sampled_from([1, 5, 100])))


def bound_aggregates_of(case: Case, **wanted: aggregates.Aggregate) -> BoundAggregates:
    bolt = AggregateBolt(case.by, **wanted).for_inputs({"s": case.table.schema})
    assert bolt.bound_aggregates is not None
    return bolt.bound_aggregates


def fold(bound: BoundAggregates, table: pa.Table, times: Sequence[int], width: int | None = None) -> pa.Table:
    """A row for each slice and key, in order: slice, key, count and states, as they are stored; None: one slice."""
    moments = np.array(times, np.int64)
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    slices = np.zeros(len(times), np.int64) if width is None else moments // width
    keys = Keys.of([pa.array(slices), *(columns[name] for name in bound.by)], len(times), ordered=True)
    groups = Groups(keys.codes, keys.size)
    events = EventColumns(columns, moments)
    states = [each.fold(events, groups) for each in bound.accumulators]
    return rows_of(bound, keys.columns(groups.present_codes), groups.counts, states)


def merge(bound: BoundAggregates, rows: pa.Table, *, sliced: bool = True) -> pa.Table:
    """Rows with equal keys joined; ``sliced`` False: over all slices."""
    columns = [column.combine_chunks() for column in rows.columns]
    found, rest = columns[: len(bound.by) + 1], columns[len(bound.by) + 2 :]
    if not sliced:
        found[0] = pa.array(np.zeros(len(rows), np.int64))
    keys = Keys.of(found, len(rows), ordered=True)
    groups = Groups(keys.codes, keys.size)
    states = []
    for each in bound.accumulators:
        own, rest = rest[: len(each.columns)], rest[len(each.columns) :]
        states.append(each.merge(each.from_columns(own), groups))
    counts = groups.sums(rows["events"].to_numpy())
    return rows_of(bound, keys.columns(groups.present_codes), counts, states)


def rows_of(bound: BoundAggregates, keys: list[pa.Array], counts: Any, states: list[Any]) -> pa.Table:
    """States as rows that have been written and read."""
    arrays, names = [*keys, pa.array(counts)], [f"key{at}" for at in range(len(keys))] + ["events"]
    for at, (each, state) in enumerate(zip(bound.accumulators, states, strict=True)):
        stored = each.to_columns(state)
        assert [column.type for column in stored] == list(each.columns.values())
        arrays += stored
        names += [f"{at}.{name}" for name in each.columns]
    table = pa.table(arrays, names=names)
    table.validate(full=True)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def finish(bound: BoundAggregates, rows: pa.Table) -> list[dict[str, Any]]:
    columns = [column.combine_chunks() for column in rows.columns]
    keys, rest = columns[1 : len(bound.by) + 1], columns[len(bound.by) + 2 :]
    states = []
    for each in bound.accumulators:
        own, rest = rest[: len(each.columns)], rest[len(each.columns) :]
        states.append(each.from_columns(own))
    zeros = np.zeros(len(rows), np.int64)
    cells = RowWindows(rows["events"].to_numpy(), zeros, zeros)
    place = {each: at for at, each in enumerate(bound.accumulators)}
    for _, aggregate in bound.aggregates:
        column = aggregate.finish([states[place[each]] for each in aggregate.accumulators], cells)
        assert column.type == aggregate.result
    table = bound.result(keys, states, cells)
    table.validate(full=True)
    assert table.schema == bound.schema
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def in_parts(bound: BoundAggregates, case: Case, nested: bool = False) -> list[dict[str, Any]]:
    """Folded piece by piece and slice by slice, and joined, all at once or some before others."""
    edges = [0, *case.cuts, len(case.times)]
    pieces = [
        fold(bound, case.table.slice(low, high - low), case.times[low:high], case.width)
        for low, high in pairwise(edges)
        if high > low
    ]
    rows = pa.concat_tables(pieces)
    if nested:
        rows = merge(bound, rows)
    rows = rows.take(np.argsort(rows["key0"].to_numpy(), kind="stable"))
    if nested:
        half = len(rows) // 3
        sides = [rows.slice(0, half), rows.slice(half)]
        rows = pa.concat_tables([merge(bound, side, sliced=False) for side in sides if len(side)])
    return finish(bound, merge(bound, rows, sliced=False))


Same = Callable[[Any, Any, Values], bool]


def equal(found: Any, expected: Any, values: Values) -> bool:
    return type(found) is type(expected) and bool(canonical(found) == canonical(expected))


def magnitude(values: Values) -> float:
    return max((abs(float(value)) for value in known(values) if math.isfinite(value)), default=0.0)


def near(found: Any, expected: Any, values: Values) -> bool:
    if found is None or expected is None:
        return found is expected
    return equal(found, float(expected), values) or abs(found - expected) <= 1e-13 * len(values) * magnitude(values)


def near_squares(found: Any, expected: Any, values: Values) -> bool:
    if found is None or expected is None or math.isnan(expected):
        return equal(found, expected, values)
    return bool(abs(found - expected) <= 1e-13 * len(values) * expected)


def check(
    case: Case, field: str | Sequence[str], aggregate: aggregates.Aggregate, oracle: Oracle, same: Same = equal
) -> None:
    bound = bound_aggregates_of(case, found=aggregate)
    expected = [(key, values, oracle(values)) for key, values in case.grouped(field)]
    together = finish(bound, fold(bound, case.table, case.times))
    for answer in (together, in_parts(bound, case), in_parts(bound, case, nested=True)):
        assert [tuple(canonical(row[name]) for name in case.by) for row in answer] == [key for key, _, _ in expected]
        for row, (_, values, result) in zip(answer, expected, strict=True):
            assert same(row["found"], result, values), (row["found"], result, values)


def over(fields: Sequence[str], keys: Sequence[str] = KEYS, rows: int = 24) -> Any:
    """Cases with a column of one of these names."""
    return st.sampled_from(fields).flatmap(lambda field: st.tuples(st.just(field), cases([field], keys, rows)))


# ----------------------------------------------------------------------------------------- each aggregate by its oracle


@examples(EXAMPLES)
@given(over(tuple(COLUMNS)))
def test_a_count_is_of_values_that_are_not_null(drawn: Any) -> None:
    field, case = drawn
    check(case, field, aggregates.count(field), lambda values: len(known(values)))


@examples(EXAMPLES)
@given(over(PLAIN))
def test_a_count_of_no_column_is_of_events(drawn: Any) -> None:
    field, case = drawn
    check(case, field, aggregates.count(), len)


@examples(EXAMPLES)
@given(over(("byte", "short", "int", "near", "ubyte", "uint")))
def test_sums_of_whole_numbers_are_exact(drawn: Any) -> None:
    field, case = drawn
    check(case, field, aggregates.sum(field), lambda values: sum(known(values)) if known(values) else None)


@examples(EXAMPLES)
@given(over(FLOATING))
def test_sums_of_doubles_are_off_by_roundings_only(drawn: Any) -> None:
    field, case = drawn
    check(case, field, aggregates.sum(field), lambda values: exactly(known(values)) if known(values) else None, near)


@examples(EXAMPLES)
@given(over(DECIMALS))
def test_sums_of_decimals_are_exact_beyond_64_bits(drawn: Any) -> None:
    field, case = drawn
    check(case, field, aggregates.sum(field), lambda values: sum(known(values), Decimal()) if known(values) else None)


@examples(EXAMPLES)
@given(over(NUMBERS + DECIMALS))
def test_a_mean_is_found_even_where_the_sum_is_beyond_64_bits(drawn: Any) -> None:
    field, case = drawn
    check(case, field, aggregates.mean(field), mean_of, near)


@examples(EXAMPLES)
@given(over(NUMBERS), st.integers(0, 2))
def test_variances_do_not_lose_their_digits(drawn: Any, ddof: int) -> None:
    field, case = drawn
    check(case, field, aggregates.variance(field, ddof=ddof), lambda values: variance_of(values, ddof), near_squares)


FAR = st.one_of(
    st.sampled_from([0, 1_700_000_000_123_456, 1_700_000_000_123_456_789, -(1 << 53), (1 << 63) - 9, -(1 << 63) + 9]),
    st.integers(-(1 << 62), 1 << 62),
)


@st.composite
def far_cases(draw: st.DrawFn) -> Case:
    """Values close together and far from 0: whole numbers, doubles and decimals, some of them null."""
    far, step = draw(FAR), draw(st.sampled_from([1, 1000]))
    steps = st.integers(-8, 8).map(lambda number: max(-(1 << 63), min(far + number * step, (1 << 63) - 1)))
    whole = draw(st.lists(st.one_of(st.none(), steps) if draw(st.booleans()) else steps, min_size=1, max_size=30))
    flags = draw(st.lists(st.booleans(), min_size=len(whole), max_size=len(whole)))
    columns = {
        "flag": pa.array(flags),
        "long": pa.array(whole, pa.int64()),
        "double": pa.array([None if value is None else float(value) for value in whole], pa.float64()),
        "fine": pa.array([None if value is None else Decimal(value % 10**18).scaleb(-9) for value in whole],
                         pa.decimal128(18, 9)),
        "near": pa.array(draw(st.lists(st.integers(-3, 3), min_size=len(whole), max_size=len(whole)))),
    }  # fmt: skip
    times = draw(st.lists(st.integers(-20, 20), min_size=len(whole), max_size=len(whole)))
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    by = draw(st.sampled_from([(), ("flag",)]))
    return Case(pa.table(columns), times, by, cuts, draw(st.sampled_from([1, 5, 100])))


@examples(2 * EXAMPLES)
@given(far_cases(), st.sampled_from(["long", "double"]), st.integers(0, 2))
def test_variances_are_exact_however_far_the_values_are(case: Case, field: str, ddof: int) -> None:
    check(case, field, aggregates.variance(field, ddof=ddof), lambda values: variance_of(values, ddof), near_squares)


@pytest.mark.parametrize("cuts", [[], [333, 666, 999], range(1, 1000)])
def test_equal_values_do_not_vary(cuts: Sequence[int]) -> None:
    table = pa.table({"us": [1_700_000_000_123_456] * 1000})
    case = Case(table, list(range(1000)), (), list(cuts), 1 << 40)
    bound = bound_aggregates_of(case, variance=aggregates.variance("us"), std=aggregates.std("us"))
    assert in_parts(bound, case) == [{"variance": 0.0, "std": 0.0}]


@examples(EXAMPLES)
@given(over(("byte", "near", "double")))
def test_a_standard_deviation_is_the_root_of_the_variance(drawn: Any) -> None:
    field, case = drawn
    bound = bound_aggregates_of(case, variance=aggregates.variance(field), std=aggregates.std(field))
    assert len(bound.accumulators) == 1
    for row in in_parts(bound, case):
        assert equal(row["std"], None if row["variance"] is None else float(np.sqrt(row["variance"])), [])


@examples(EXAMPLES)
@given(over(PLAIN))
def test_the_least_and_the_greatest_of_all_that_has_an_order(drawn: Any) -> None:
    field, case = drawn
    check(case, field, aggregates.min(field), extreme(min))
    check(case, field, aggregates.max(field), extreme(max))


@examples(EXAMPLES)
@given(over(tuple(COLUMNS)))
def test_first_and_last_are_by_time_then_arrival_and_null_is_a_value(drawn: Any) -> None:
    field, case = drawn
    check(case, field, aggregates.first(field), lambda values: values[0])
    check(case, field, aggregates.last(field), lambda values: values[-1])


@examples(EXAMPLES)
@given(over(tuple(COLUMNS)))
def test_collect_keeps_all_values_in_order_of_time_then_arrival(drawn: Any) -> None:
    field, case = drawn
    check(case, field, aggregates.collect(field), list)


@examples(EXAMPLES)
@given(over(PLAIN))
def test_distinct_counts_are_exact(drawn: Any) -> None:
    field, case = drawn
    check(case, field, aggregates.distinct_count(field), lambda values: len({*map(canonical, known(values))}))


@examples(EXAMPLES)
@given(over(NUMBERS), st.sampled_from([0, 0.1, 0.25, 0.5, 0.9, 1]))
def test_quantiles_of_few_values_are_exact(drawn: Any, q: float) -> None:
    field, case = drawn
    check(case, field, aggregates.quantile(field, q), quantile_of(q))


@pytest.mark.parametrize("cut", [1, 7, 1000])
@pytest.mark.parametrize("shape", ["even", "normal", "heavy", "ties", "ordered"])
def test_quantiles_of_many_values_are_off_by_less_than_a_hundredth_of_them(shape: str, cut: int) -> None:
    chance, count = np.random.default_rng(7), 50_000
    values = {
        "even": chance.random(count),
        "normal": chance.normal(size=count),
        "heavy": chance.pareto(0.5, count),
        "ties": np.floor(chance.normal(size=count) * 3),
        "ordered": np.arange(count, dtype=float),
    }[shape]
    digest = Digest("v", 500)
    parts = [digest.fold(EventColumns({"v": pa.array(part)}, np.zeros(len(part), np.int64)), one_group(len(part)))
             for part in np.array_split(values, cut)]  # fmt: skip
    rows = [pa.concat_arrays([pa.array(part[at], kind) for part in parts]) for at, kind in
            enumerate(digest.columns.values())]  # fmt: skip
    state = digest.merge(digest.from_columns(rows), one_group(cut))
    ordered = np.sort(values)
    for q, allowed in [(0.001, 0.0005), (0.01, 0.001), (0.1, 0.007), (0.5, 0.01), (0.9, 0.007), (0.99, 0.001)]:
        quantile = aggregates.quantile("v", q).with_types("q", pa.schema([("v", pa.float64())]))
        (found,) = quantile.finish([state], RowWindows(*[np.array([count])] * 3)).to_pylist()
        low, high = (np.searchsorted(ordered, found, side) / count for side in ("left", "right"))
        assert low - allowed <= q <= high + allowed


def test_infinities_among_many_values_do_not_spoil_a_quantile() -> None:
    values = pa.array([*np.arange(9000.0), *[-math.inf] * 500, *[math.inf] * 500])
    digest = Digest("v", 500)
    state = digest.fold(EventColumns({"v": values}, np.zeros(10_000, np.int64)), one_group(10_000))
    found = []
    for q in (0, 0.049, 0.5, 0.951, 1):
        quantile = aggregates.quantile("v", q).with_types("q", pa.schema([("v", pa.float64())]))
        found += quantile.finish([state], RowWindows(*[np.array([10_000])] * 3)).to_pylist()
    assert found == [-math.inf, -math.inf, pytest.approx(4500, abs=90), math.inf, math.inf]


def one_group(rows: int) -> Groups:
    return Groups(np.zeros(rows, np.int64), 1)


def test_a_digest_is_the_same_whenever_it_is_made() -> None:
    values = pa.array(np.random.default_rng(3).normal(size=20_000))
    events = EventColumns({"v": values}, np.zeros(len(values), np.int64))
    once, again = (Digest("v", 100).fold(events, one_group(len(values)))[0].to_pylist() for _ in range(2))
    assert once == again


# ---------------------------------------------------------------------------------------------------------- the algebra

EVERYTHING = {
    "n": aggregates.count(),
    "values": aggregates.count("double"),
    "total": aggregates.sum("int"),
    "floating": aggregates.sum("double"),
    "money": aggregates.sum("money"),
    "mean": aggregates.mean("long"),
    "variance": aggregates.variance("byte"),
    "least": aggregates.min("ts"),
    "most": aggregates.max("double"),
    "any": aggregates.max("flag"),
}


@examples(EXAMPLES)
@given(cases([aggregate.field for aggregate in EVERYTHING.values() if aggregate.field], keys=("near", "flag")))
def test_dense_states_join_entry_by_entry_as_rows_do(case: Case) -> None:
    bound = bound_aggregates_of(case, **EVERYTHING)
    columns = {name: case.table[name].combine_chunks() for name in case.table.column_names}
    keys = Keys.of([columns[name] for name in case.by], len(case.times), ordered=True)
    middle = case.cuts[0] if case.cuts else 0
    for each in bound.accumulators:
        assert isinstance(each, DenseAccumulator)
        sides, rows, codes = [], [], []
        for part in (slice(0, middle), slice(middle, None)):
            groups = Groups(keys.codes[part], keys.size)
            at, times = range(len(case.times))[part], np.array(case.times[part], np.int64)
            taken = {name: column.take(pa.array(at, pa.int64())) for name, column in columns.items()}
            state = each.fold(EventColumns(taken,
                                     times), groups)  # fmt: skip
            full = each.empty(keys.size)
            for entries, values in zip(full, each.from_columns(each.to_columns(state)), strict=True):
                assert entries.dtype == values.dtype
                entries[groups.present_codes] = values
            sides.append(full)
            rows.append(state)
            codes.append(groups.present_codes)
        merged = Groups(np.concatenate(codes), keys.size)
        expected = each.merge([np.concatenate(pair) for pair in zip(*rows, strict=True)], merged)
        combined = each.merge_entries(*sides)
        for found, wanted in zip(each.take(combined, merged.present_codes), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * _greatest(wanted))
        for joined in (
            each.merge_entries(each.empty(keys.size), combined),
            each.merge_entries(combined, each.empty(keys.size)),
        ):
            for found, wanted in zip(joined, combined, strict=True):
                np.testing.assert_array_equal(found, wanted)


def _greatest(values: Any) -> float:
    numbers = np.asarray(values, np.float64)
    return float(np.max(np.abs(numbers[np.isfinite(numbers)]), initial=0))


def test_entries_of_a_state_can_be_taken() -> None:
    case = Case(pa.table({"near": [1, 2, 3], "text": ["a", "b", "c"]}), [0, 0, 0], ("near",), [], 1)
    wanted = {"n": aggregates.sum("near"), "all": aggregates.collect("text"), "last": aggregates.last("text")}
    bound = bound_aggregates_of(case, **wanted)
    columns = {name: case.table[name].combine_chunks() for name in case.table.column_names}
    events, groups = EventColumns(columns, np.zeros(3, np.int64)), Groups(np.arange(3), 3)
    at = np.array([2, 0])
    for each in bound.accumulators:
        state = each.fold(events, groups)
        whole_columns = each.to_columns(state)
        for column, taken in zip(whole_columns, each.to_columns(each.take(state, at)), strict=True):
            assert taken.equals(column.take(pa.array(at)))


# ------------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("aggregate", "fields"),
    [
        (aggregates.sum, ("ulong", "flag", "text", "ts", "huge", "array", "day", "span", "coded")),
        (aggregates.mean, ("ulong", "flag", "text", "ts", "huge", "pair")),
        (aggregates.variance, ("ulong", "flag", "text", "money")),
        (aggregates.median, ("ulong", "flag", "text", "money", "ts")),
        (aggregates.min, ("array",)),
        (aggregates.max, ("array",)),
        (aggregates.distinct_count, NESTED),
    ],
)
def test_columns_that_an_aggregate_cannot_be_of_are_refused(aggregate: Any, fields: Sequence[str]) -> None:
    for field in fields:
        schema = pa.schema([(field, COLUMNS[field][0])])
        with pytest.raises(ConfigError, match=field) as refused:
            aggregate(field).with_types("found", schema)
        assert "found=" in str(refused.value)


def test_a_missing_column_is_named() -> None:
    with pytest.raises(ConfigError, match="no column 'there'"):
        aggregates.last("there").with_types("found", pa.schema([("here", pa.int64())]))


@pytest.mark.parametrize("wrong", [{"q": 1.1}, {"q": -0.1}, {"q": math.nan}, {"q": "0.5"}, {"q": 0.5, "size": 3}])
def test_quantiles_lie_between_0_and_1(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="quantile"):
        aggregates.quantile("v", **wrong)


def test_without_the_package_of_sketches_build_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windowing.aggregates.statistics.find_spec", lambda name: None)
    builder = TopologyBuilder("t")
    builder.set_spout("in", spouts.memory("v double"))
    builder.set_bolt("b", AggregateBolt(m=aggregates.median("v")).with_tumbling_window(Count(2))).global_grouping("in")
    builder.set_sink("out", sinks.memory()).from_("b")
    with pytest.raises(TopologyError, match=r"windbolt\[sketches\]"):
        builder.build()


def test_a_sum_of_whole_numbers_beyond_64_bits_is_an_error() -> None:
    groups, most = Groups(np.array([0, 0, 1]), 2), (1 << 63) - 1
    with pytest.raises(DataError, match="64 bits"):
        groups.sums(np.array([most, 1, 5]))
    assert groups.sums(np.array([most, -1, -5])).tolist() == [most - 1, -5]


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_parts_of_a_sum_may_be_beyond_64_bits(cut: int) -> None:
    """Or whether a batch fails would depend on how the input was cut."""
    total = aggregates.sum("v").with_types("s", pa.schema([("v", pa.int64())]))
    (wide, present) = total.accumulators
    assert isinstance(wide, DenseAccumulator)
    values = np.array([1 << 62, 1 << 62, -(1 << 62), -5], np.int64)
    folded = [
        each.fold(EventColumns({"v": pa.array(part)}, np.arange(len(part))), Groups(np.zeros(len(part), np.int64), 1))
        for each in (wide, present)
        for part in (values[:cut], values[cut:])
    ]
    found = [wide.merge_entries(*folded[:2]), [folded[2][0] + folded[3][0]]]
    cells = RowWindows(np.array([4]), np.array([0]), np.array([1]))
    assert total.finish(found, cells).to_pylist() == [(1 << 62) - 5]
    with pytest.raises(DataError, match="64 bits"):
        total.finish([wide.merge_entries(found[0], wide.merge_entries(found[0], found[0])), found[1]], cells)
    assert total.finish([wide.merge_entries(wide.empty(1), found[0]), found[1]], cells).to_pylist() == [(1 << 62) - 5]


def test_a_spread_of_far_values_is_the_same_however_windows_are_joined() -> None:
    (moments,) = aggregates.std("v").with_types("s", pa.schema([("v", pa.float64())])).accumulators
    assert isinstance(moments, DenseAccumulator)
    one = moments.fold(EventColumns({"v": pa.array([1e200, 1e200])}, np.arange(2)), Groups(np.zeros(2, np.int64), 1))
    for found in (moments.merge_entries(moments.empty(1), one), moments.merge_entries(one, moments.empty(1))):
        assert [column.tolist() for column in found] == [[2], [1e200], [0.0], [0.0]]


# ---------------------------------------------------------------------------------------------------------- one's own


def spread(values: Any) -> dict[str, Any]:
    return {"low": values.min(), "high": values.max()}


def wider(states: list[Any]) -> dict[str, Any]:
    return {"low": min(state["low"] for state in states), "high": max(state["high"] for state in states)}


def width(state: Any) -> int:
    return int(state["high"]) - int(state["low"])


RANGE = aggregates.combine(
    "near", fold=spread, merge=wider, finish=width, state="struct<low: long, high: long>", result="long"
)


@examples(EXAMPLES)
@given(cases(["near"]))
def test_an_aggregate_of_ones_own(case: Case) -> None:
    check(case, "near", RANGE, lambda values: max(known(values)) - min(known(values)) if known(values) else None)


@examples(EXAMPLES)
@given(cases(["text"]))
def test_an_aggregate_of_ones_own_over_texts_into_an_array(case: Case) -> None:
    own = aggregates.combine(
        "text", fold=sorted, merge=lambda states: sorted(chain.from_iterable(states)), state="array<string>"
    )
    check(case, "text", own, lambda values: sorted(known(values)) if known(values) else None)


def folded(aggregate: aggregates.Aggregate, values: pa.Array) -> list[Any]:
    case = Case(pa.table({"v": values}), [0] * len(values), (), [], 1)
    bound = bound_aggregates_of(case, found=aggregate)
    return [row["found"] for row in finish(bound, fold(bound, case.table, case.times))]


def test_functions_see_no_nulls_and_a_state_of_none_is_no_value() -> None:
    seen: list[Any] = []

    def note(values: Any) -> Any:
        seen.append(values)
        return None

    own = aggregates.combine("v", fold=note, merge=note, finish=note, state="long")
    assert folded(own, pa.array([3, None, 4])) == [None]
    assert [values.tolist() for values in seen] == [[3, 4]]
    assert seen[0].dtype == np.int64
    assert folded(own, pa.array([None, None], pa.int64())) == [None]
    assert len(seen) == 1


def test_a_result_may_be_a_wider_type_than_the_state() -> None:
    own = aggregates.combine("v", fold=len, merge=sum, state="int", result="double")
    assert folded(own, pa.array([5, 6])) == [2.0]


@pytest.mark.parametrize(
    ("state", "returned"),
    [
        ("double", "much"),
        ("long", 1.5),
        ("array<long>", 3),
        ("struct<a: long>", {"b": 1}),
        ("array<struct<a: long>>", [{"a": 1, "b": 1}]),
        ("tinyint", 300),
        ("string", 5),
    ],
)
def test_a_value_of_another_type_names_the_function_that_returned_it(state: str, returned: Any) -> None:
    own = aggregates.combine("v", fold=lambda values: returned, merge=max, state=state)
    with pytest.raises(SchemaError, match=r"combine\('v'\): fold=.*<lambda> returned") as wrong:
        folded(own, pa.array([1]))
    assert repr(returned) in str(wrong.value)
    own = aggregates.combine("v", fold=len, merge=max, finish=lambda counted: returned, state="long", result=state)
    with pytest.raises(SchemaError, match=r"combine\('v'\): finish=.*<lambda> returned"):
        folded(own, pa.array([1]))


def test_an_exception_in_a_function_comes_out_as_it_is() -> None:
    own = aggregates.combine("v", fold=lambda values: 1 / 0, merge=max)
    with pytest.raises(ZeroDivisionError):
        folded(own, pa.array([1]))


@pytest.mark.parametrize(
    "wrong",
    [
        {"fold": 3, "merge": max},
        {"fold": max, "merge": None},
        {"fold": max, "merge": max, "finish": "end"},
        {"fold": max, "merge": max, "state": "number"},
        {"fold": max, "merge": max, "state": "double, n long"},
        {"fold": max, "merge": max, "result": 3},
    ],
)
def test_what_cannot_be_combined_is_refused_at_once(wrong: Any) -> None:
    with pytest.raises(ConfigError):
        aggregates.combine("v", **wrong)


def test_aggregates_can_be_copied_pickled_and_compared() -> None:
    schema = pa.schema([("near", pa.int64()), ("text", pa.string())])
    made = [RANGE, aggregates.median("near"), aggregates.first("text"), aggregates.collect("text"),
            aggregates.distinct_count("text"), aggregates.min("text"), aggregates.mean("near"),
            aggregates.max_by("text", by="near"), aggregates.min_by(by="text"), aggregates.top(2, by="near"),
            aggregates.collect("text", order_by="near", limit=3), aggregates.mode("text"),
            aggregates.histogram("near", [0, 1.5]), aggregates.median("near", relative_error=0.01),
            aggregates.corr("near", "near"), aggregates.weighted_mean("near", "near"),
            aggregates.distinct_count("text", standard_error=0.05)]  # fmt: skip
    for aggregate in made:
        bound = aggregate.with_types("found", schema)
        for same in (copy.deepcopy(bound), pickle.loads(pickle.dumps(bound))):
            assert same == bound
            assert same.accumulators == bound.accumulators
            assert list(map(hash, same.accumulators)) == list(map(hash, bound.accumulators))


def test_mistakes_in_aggregates_are_told_where_they_are_made() -> None:
    for wrong in (
        lambda: aggregates.sum(["v"]),  # type: ignore[arg-type]
        lambda: aggregates.min(value for value in (1, 2)),  # type: ignore[arg-type]
        lambda: aggregates.std("v", ddof=-1),
        lambda: aggregates.variance("v", ddof="a"),  # type: ignore[arg-type]
        lambda: AggregateBolt(by=3, n=aggregates.count()),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigError):
            wrong()
    assert AggregateBolt(by=None, n=aggregates.count()).by == ()


@pytest.mark.parametrize("way", [sys.exit, lambda status: 1 / 0])
def test_a_function_that_ends_the_program_fails_the_bolt(way: Any) -> None:
    builder = TopologyBuilder("exits")
    builder.set_spout("s", spouts.memory("v long, ts long", [{"v": 1, "ts": 5}]))
    own = AggregateBolt(x=aggregates.combine("v", fold=lambda values: way(0), merge=max, state="long"))
    builder.set_bolt("b", own.with_tumbling_window("1s").with_timestamp_field("ts")).global_grouping("s")
    builder.set_sink("out", sinks.memory()).from_("b")
    with pytest.raises(BoltError, match="bolt 'b' failed"):
        run_local(builder.build())


def test_equal_accumulators_are_kept_once() -> None:
    schema = {"s": pa.schema([("v", pa.int32())])}
    wanted = {"total": aggregates.sum("v"), "mean": aggregates.mean("v"), "n": aggregates.count("v")}
    wanted |= {"low": aggregates.quantile("v", 0.1), "high": aggregates.quantile("v", 0.9)}
    bound = AggregateBolt((), **wanted).for_inputs(schema).bound_aggregates
    assert bound is not None
    assert len(bound.accumulators) == 3


# ------------------------------------------------------------------------------------------------------ groups and keys


@examples(EXAMPLES)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.data())
@example([0], None)
def test_groups_are_the_same_found_by_place_or_by_sorting(drawn: list[int], data: Any) -> None:
    codes = np.array(drawn, np.int64)
    dense, sparse = Groups(codes, 6), Groups(codes * 1_000_000_007, 6_000_000_043)
    assert dense._dense
    assert not sparse._dense
    assert sparse.present_codes.tolist() == [cell * 1_000_000_007 for cell in sorted({*drawn})]
    assert dense.present_codes.tolist() == sorted({*drawn})
    kinds = [np.int8, np.int64, np.uint32, np.float64, np.bool_]
    numbers = [data.draw(st.integers(0, 100)) if data else 1 for _ in drawn]
    wanted = np.array([number % 3 > 0 for number in numbers])
    for groups in (dense, sparse):
        assert groups.counts.tolist() == [drawn.count(cell) for cell in sorted({*drawn})]
        assert groups.numbers.tolist() == [sorted({*drawn}).index(code) for code in drawn]
        assert groups.order[groups.starts].tolist() == [drawn.index(cell) for cell in sorted({*drawn})]
        assert groups.starts.tolist() == (np.cumsum(groups.counts) - groups.counts).tolist()
        rows, edges = groups.runs(wanted)
        for at, cell in enumerate(dense.present_codes):
            mine = [row for row, code in enumerate(drawn) if code == cell]
            assert groups.order[groups.starts[at] : groups.starts[at] + groups.counts[at]].tolist() == mine
            assert rows[edges[at] : edges[at + 1]].tolist() == [row for row in mine if wanted[row]]
        for kind in kinds:
            values: Any = np.array(numbers).astype(kind)
            for number, cell in enumerate(dense.present_codes):
                own = values[codes == cell]
                assert groups.sums(values)[number] == own.sum()
                assert groups.reduce(np.maximum, values, kind(0))[number] == own.max()


@pytest.mark.parametrize("size", [0, 1, 5, 1 << 40])
def test_no_rows_are_no_groups(size: int) -> None:
    groups = Groups(np.zeros(0, np.int64), size)
    assert len(groups) == 0
    none = np.zeros(0, np.int64)
    for found in (groups.present_codes, groups.counts, groups.starts, groups.numbers, groups.sums(none),
                  groups.sums(none.astype(float)), groups.reduce(np.minimum, none, 9)):  # fmt: skip
        assert len(found) == 0


@examples(EXAMPLES)
@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=12), st.booleans())
def test_sums_are_exact_or_an_error(values: list[int], sparse: bool) -> None:
    groups = Groups(np.zeros(len(values), np.int64) + (1 << 40 if sparse else 0), 1 << 41 if sparse else 1)
    if -(1 << 63) <= sum(values) < 1 << 63:
        assert groups.sums(np.array(values)).tolist() == [sum(values)]
    else:
        with pytest.raises(DataError):
            groups.sums(np.array(values))


@examples(EXAMPLES)
@given(cases([], keys=(*KEYS, "coded_double", "float", "zoned", "huge", "int")), st.booleans())
def test_codes_are_equal_where_keys_are(case: Case, ordered: bool) -> None:
    columns = [case.table[name].combine_chunks() for name in case.by]
    keys = Keys.of(columns, len(case.times), ordered=ordered)
    rows = [tuple(map(canonical, row)) for row in zip(*(column.to_pylist() for column in columns), strict=True)]
    rows = rows or [()] * len(case.times)
    assert ((keys.codes >= 0) & (keys.codes < keys.size)).all()
    for one, code in zip(rows, keys.codes, strict=True):
        assert [one == other for other in rows] == (keys.codes == code).tolist()
    back = keys.columns(keys.codes)
    assert [tuple(map(canonical, row)) for row in zip(*(column.to_pylist() for column in back), strict=True)] == (
        rows if columns else []
    )
    for column, given_column in zip(back, columns, strict=True):
        kind = given_column.type
        assert column.type == (kind.value_type if pa.types.is_dictionary(kind) else kind)


def test_a_key_may_use_all_of_64_bits() -> None:
    limits = [-(1 << 63), (1 << 63) - 1, 0, -(1 << 63)]
    keys = Keys.of([pa.array(limits), pa.array(limits[::-1])], 4, ordered=True)
    assert keys.codes[0] == keys.codes[3] < keys.codes[2] < keys.codes[1]


def test_many_columns_of_keys_with_many_values_fit_into_a_code() -> None:
    chance = np.random.default_rng(5)
    columns = [pa.array(chance.integers(0, 1 << 60, 2000)) for _ in range(8)]
    keys = Keys.of(columns, 2000)
    assert len(np.unique(keys.codes)) == 2000
    assert [column.equals(back) for column, back in zip(columns, keys.columns(keys.codes), strict=True)] == [True] * 8


def test_a_dictionary_may_hold_nulls_and_a_value_twice() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 3]), pa.array(["a", "a", None, "b"]))
    keys = Keys.of([column], 5, ordered=True)
    assert keys.codes.tolist() == [0, 0, 2, 2, 1]
    case = Case(pa.table({"v": column}), [0] * 5, (), [], 1)
    check(case, "v", aggregates.count("v"), lambda values: 3)
    check(case, "v", aggregates.distinct_count("v"), lambda values: 2)


# ------------------------------------------------------------------------------------------- in a bolt, any window

MIDNIGHT = datetime(2024, 1, 1, tzinfo=UTC)
SHOP = "user string, item string, price double, ts timestamp"


def bought(user: str | None, item: str | None, price: float | None, second: int) -> dict[str, Any]:
    return {"user": user, "item": item, "price": price, "ts": MIDNIGHT + timedelta(seconds=second)}


SALES = [
    bought("ada", "tea", 2.0, 1),
    bought("bob", "tea", 3.0, 3),
    bought("ada", None, 4.0, 2),
    bought("ada", "nut", None, 2),
    bought("bob", "jam", 5.0, 40),
    bought("ada", "tea", 6.0, 41),
]


def run(bolt: Any) -> list[dict[str, Any]]:
    builder, out = TopologyBuilder("shop"), sinks.memory()
    builder.set_spout("sales", spouts.memory(SHOP, SALES[:4], SALES[4:]))
    builder.set_bolt("sums", bolt).fields_grouping("sales", "user")
    builder.set_sink("out", out).from_("sums")
    run_local(builder.build())
    return list(out.rows)


def everything(by: str | Sequence[str]) -> AggregateBolt:
    return AggregateBolt(
        by,
        n=aggregates.count(),
        revenue=aggregates.sum("price"),
        mean=aggregates.mean("price"),
        items=aggregates.collect("item"),
        first=aggregates.first("item"),
        last=aggregates.last("item"),
        kinds=aggregates.distinct_count("item"),
        least=aggregates.min("item"),
        median=aggregates.median("price"),
        most=aggregates.combine("price", fold=np.max, merge=max),
        end=aggregates.window_end(),
        start=aggregates.window_start(),
    )


def seconds_of(row: dict[str, Any], name: str) -> float | None:
    moment = row[name]
    return None if moment is None else (moment - MIDNIGHT).total_seconds()


def told(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["user"], row["n"], row["revenue"], row["items"], row["first"], row["last"], row["kinds"], row["least"],
             row["median"], row["most"]) for row in rows]  # fmt: skip


def test_windows_of_counts_are_summed_up_by_key() -> None:
    rows = run(everything("user").with_tumbling_window(Count(3)))
    assert told(rows) == [
        ("ada", 2, 6.0, ["tea", None], "tea", None, 1, "tea", 4.0, 4.0),
        ("bob", 1, 3.0, ["tea"], "tea", "tea", 1, "tea", 3.0, 3.0),
        ("ada", 2, 6.0, ["nut", "tea"], "nut", "tea", 2, "nut", 6.0, 6.0),
        ("bob", 1, 5.0, ["jam"], "jam", "jam", 1, "jam", 5.0, 5.0),
    ]
    assert [row["start"] for row in rows] == [None] * 4


@pytest.mark.parametrize("by", ["user", ["user"]])
def test_sessions_of_each_key_are_summed_up_in_order_of_time(by: str | list[str]) -> None:
    rows = run(everything(by).with_window(Session("30s")).with_key("user").with_timestamp_field("ts"))
    assert sorted(told(rows), key=str) == [
        ("ada", 1, 6.0, ["tea"], "tea", "tea", 1, "tea", 6.0, 6.0),
        ("ada", 3, 6.0, ["tea", None, "nut"], "tea", "nut", 2, "nut", 4.0, 4.0),
        ("bob", 1, 3.0, ["tea"], "tea", "tea", 1, "tea", 3.0, 3.0),
        ("bob", 1, 5.0, ["jam"], "jam", "jam", 1, "jam", 5.0, 5.0),
    ]
    assert {(row["user"], seconds_of(row, "start")) for row in rows} == {
        ("ada", 1.0), ("ada", 41.0), ("bob", 3.0), ("bob", 40.0)
    }  # fmt: skip


@pytest.mark.parametrize("keyed", [False, True])
def test_windows_of_time_with_a_key_and_without(keyed: bool) -> None:
    bolt = everything("user").with_tumbling_window("10s").with_timestamp_field("ts")
    rows = run(bolt.with_key("user") if keyed else bolt)
    assert sorted((row["user"], row["n"], row["items"], seconds_of(row, "end")) for row in rows) == [
        ("ada", 1, ["tea"], 50.0),
        ("ada", 3, ["tea", None, "nut"], 10.0),
        ("bob", 1, ["jam"], 40.0),
        ("bob", 1, ["tea"], 10.0),
    ]
    assert {row["mean"] for row in rows if row["user"] == "ada"} == {3.0, 6.0}


def test_without_a_key_a_window_is_one_row() -> None:
    rows = run(AggregateBolt(n=aggregates.count(), most=aggregates.max("price")).with_tumbling_window(Count(3)))
    assert [(row["n"], row["most"]) for row in rows] == [(3, 4.0), (3, 6.0)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("length", "slide"), [(10, 10), (10, 3), (2, 7)])
def test_windows_that_overlap_are_those_of_plain_python(length: int, slide: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    seconds, users = chance.integers(0, 40, 60).tolist(), [("ada", "bob", None)[at] for at in chance.integers(0, 3, 60)]
    sales = [bought(user, f"i{at % 7}" if at % 5 else None, float(at), second)
             for at, (user, second) in enumerate(zip(users, seconds, strict=True))]  # fmt: skip
    builder, out = TopologyBuilder("shop"), sinks.memory()
    builder.set_spout("sales", spouts.memory(SHOP, sales[:9], sales[9:20], sales[20:50], sales[50:]))
    bolt = everything("user").with_window(f"{length}s", f"{slide}s").with_timestamp_field("ts").with_lag("60s")
    builder.set_bolt("sums", bolt).global_grouping("sales")
    builder.set_sink("out", out).from_("sums")
    run_local(builder.build())
    expected = []
    ordered = sorted(sales, key=lambda sale: sale["ts"])
    first = int((MIDNIGHT - EPOCH).total_seconds()) // slide * slide - int((MIDNIGHT - EPOCH).total_seconds())
    for end in range(first, 40 + length + slide, slide):
        held = [sale for sale in ordered if end - length < seconds_of(sale, "ts") <= end]  # type: ignore[operator]
        for user in ("ada", "bob", None):
            mine = [sale for sale in held if sale["user"] == user]
            items, prices = [sale["item"] for sale in mine], [sale["price"] for sale in mine]
            if mine:
                kinds = known(items)
                expected.append((user, len(mine), sum(prices), items, items[0], items[-1], len({*kinds}),
                                 min(kinds, default=None), quantile_of(0.5)(prices), max(prices), end))  # fmt: skip
    rows = list(out.rows)
    found = [(*row, seconds_of(each, "end")) for row, each in zip(told(rows), rows, strict=True)]
    assert found == expected


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("values", [[0.0, -0.0], [-0.0, 0.0], [-0.0], [-0.0, None, 0.0, -0.0], [3.0, -0.0, -1.0]])
def test_of_two_zeros_the_sign_does_not_depend_on_their_order(values: list[float | None], kind: str) -> None:
    """Minus zero is less, as in Java; NumPy finds either."""
    bolt = AggregateBolt(least=aggregates.min("v"), most=aggregates.max("v")).with_tumbling_window("1m")
    rows = [(value, at) for at, value in enumerate(values, 1)]
    there = [value for value in values if value is not None]
    ordered = sorted(there, key=lambda value: (value, math.copysign(1, value)))
    for rows_per_batch in (None, 1):
        made = run_bolt(bolt.with_timestamp_field("ts"), rows, f"v {kind}, ts long", rows_per_batch=rows_per_batch)
        (row,) = made.rows
        assert [str(row["least"]), str(row["most"])] == [str(ordered[0]), str(ordered[-1])]
