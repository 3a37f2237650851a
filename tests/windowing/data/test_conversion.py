"""A value that is taken for a declared type is the same value there, in rows and in tables, or it is refused."""

# ruff: noqa: DTZ001 - users return times without a zone

from __future__ import annotations

import enum
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from windowing import AggregateBolt, SchemaError, WindowJoin, aggregates
from windowing.aggregates.accumulators import EventColumns
from windowing.aggregates.groups import Groups
from windowing.conversion import REFUSED, convert_column, convert_values
from windowing.errors import ConfigError
from windowing.schema import conform, parse_schema, tables

# ------------------------------------------------------------------------------------------------------- the oracle

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(value: datetime) -> Fraction:
    """Nanoseconds since 1970, without a zone in UTC."""
    if pd.isna(value):  # how Arrow returns the least int64 in nanoseconds
        return Fraction(-(1 << 63))
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    plain = datetime(*aware.astimezone(UTC).timetuple()[:6], aware.astimezone(UTC).microsecond, UTC)
    return Fraction((plain - EPOCH) // timedelta(microseconds=1) * 1000 + getattr(value, "nanosecond", 0))


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal | np.number) and not isinstance(value, bool)


def same_number(value: Any, found: Any, kind: pa.DataType) -> bool:
    if pa.types.is_floating(kind):
        wide = float(value)
        if math.isnan(wide) or math.isinf(wide):
            return repr(found) == repr(wide)
        if isinstance(value, int | np.integer):
            return bool(Fraction(int(value)) == Fraction(found))
        return bool(found == float(np.float32(wide)) if kind == pa.float32() else found == wide)
    if isinstance(value, float | np.floating) and pa.types.is_decimal(kind):
        return bool(type(value)(float(found)) == value)  # 0.1 is not exactly 0.1, and in 32 bits even less
    return bool(Fraction(value if not isinstance(value, np.generic) else value.item()) == Fraction(found))


UNITS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}


def same(value: Any, found: Any, kind: pa.DataType) -> bool:
    """Whether what is found in a column of this type is what was given, slowly."""
    if value is None or value is pd.NaT:
        return found is None
    if isinstance(value, bool | np.bool_):
        return pa.types.is_boolean(kind) and found is bool(value)
    if pa.types.is_list(kind):
        pairs = zip(value, found, strict=True)
        return not isinstance(value, str | dict) and all(same(one, other, kind.value_type) for one, other in pairs)
    if pa.types.is_map(kind):
        entries = list(value.items() if isinstance(value, dict) else value)
        return len(entries) == len(found) and all(
            same(one, key, kind.key_type) and same(other, item, kind.item_type)
            for (one, other), (key, item) in zip(entries, found, strict=True)
        )
    if pa.types.is_struct(kind):
        return set(value) == set(found) and all(same(value[each.name], found[each.name], each.type) for each in kind)
    if isinstance(found, int) and pa.types.is_temporal(kind):
        return bool(value == found)
    if isinstance(value, datetime):
        right = moment(found) if isinstance(found, datetime) else moment(datetime(*found.timetuple()[:3]))
        return isinstance(found, date) and moment(value) == right
    if isinstance(value, date):
        return (found == value) if not isinstance(found, datetime) else moment(found) == moment(
            datetime(value.year, value.month, value.day))  # fmt: skip
    if pa.types.is_timestamp(kind):
        return moment(found) == Fraction(int(value) * UNITS[kind.unit])
    if pa.types.is_date(kind):
        return (found - date(1970, 1, 1)).days == value
    if is_number(value):
        return is_number(found) and same_number(value, found, kind)
    if isinstance(value, str) and isinstance(found, bytes):
        return value.encode() == found
    if isinstance(value, bytes) and isinstance(found, str):
        return value == found.encode()
    return type(found) is type(value) and bool(found == value)


def in_python(found: pa.Scalar) -> Any:
    """The value of Python; of a time that Python cannot have, its number."""
    try:
        return found.as_py()
    except (OverflowError, ValueError):
        return found.value


# -------------------------------------------------------------------------------------------------------- what is drawn

KINDS = [
    *parse_schema(
        "a tinyint, b int, c long, d float, e double, f boolean, g string, h binary, i date, j timestamp, "
        "k decimal(5, 2), l decimal(38, 10), m decimal(37, 32), n array<long>, o array<float>, p map<string, int>, "
        "q struct<a: long>, r struct<a: long, b: string>, s array<struct<a: date>>"
    ).types,
    pa.timestamp("ms"),
    pa.timestamp("ns", "Europe/Berlin"),
    pa.uint64(),
    pa.dictionary(pa.int32(), pa.int64()),
]
WHOLE = st.one_of(st.integers(-3, 300), st.sampled_from([2**24 + 1, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 68127108]))
DOUBLES = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 1.5, 0.1, 1e300, -1e300, math.inf, math.nan, 2.0**63]), st.floats(width=64)
)
DECIMALS = st.one_of(
    st.sampled_from(["1", "1.00", "1.5", "1.234", "1E+5", "1E-33", "0E-9999999", "9" * 30, "68127108", "NaN"]).map(
        Decimal
    ),
    st.decimals(-1000, 1000, places=3),
)  # fmt: skip
TIMES = st.one_of(
    st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)),
    st.dates(date(1900, 1, 1), date(2100, 1, 1)).map(lambda day: datetime(day.year, day.month, day.day)),
    st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)).map(
        lambda value: value.replace(tzinfo=timezone(timedelta(hours=2)))
    ),
)
PANDAS = st.sampled_from([
    pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-01T00:00:00.000000001"), pd.NaT,
    pd.Timestamp("2020-01-01T01:00:00.5", tz="Asia/Tokyo"),
])  # fmt: skip


class Level(enum.IntEnum):
    """A number with a name."""

    HIGH = 3


PLAIN = st.one_of(
    st.none(), st.booleans(), WHOLE, DOUBLES, DECIMALS, TIMES, PANDAS, st.dates(date(1900, 1, 1), date(2100, 1, 1)),
    st.sampled_from(["", "12", "a", "2020-01-01", b"", b"12", b"\xff", Level.HIGH, time(1), np.bool_(True)]),
    st.sampled_from([np.int64(7), np.int8(-1), np.uint64(2**63), np.float64(1.5), np.float32(0.1), np.float64(2.0)]),
)  # fmt: skip
NESTED = st.one_of(
    st.lists(st.one_of(st.none(), WHOLE, DOUBLES, DECIMALS), max_size=3),
    st.dictionaries(st.sampled_from(["a", "b"]), st.one_of(WHOLE, DOUBLES, st.just("x")), max_size=2),
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.one_of(WHOLE, DOUBLES)), max_size=2),
    st.lists(st.fixed_dictionaries({"a": st.one_of(st.none(), TIMES)}), max_size=2),
)
VALUES = st.one_of(PLAIN, PLAIN, NESTED)


@examples(600)
@given(st.lists(VALUES, min_size=1, max_size=3), st.sampled_from(KINDS))
def test_a_value_of_python_is_kept_or_refused(values: list[Any], kind: pa.DataType) -> None:
    try:
        column = convert_values(values, kind)
    except REFUSED:
        return
    assert column.type == kind
    column.validate(full=True)
    for value, found in zip(values, map(in_python, column), strict=True):
        assert same(value, found, kind), (value, found, kind)


LEAVES = [kind for kind in KINDS if not pa.types.is_dictionary(kind)]


@examples(600)
@given(st.lists(VALUES, max_size=4), st.sampled_from(LEAVES), st.sampled_from(KINDS), st.integers(0, 1))
def test_a_column_is_kept_or_refused(values: list[Any], own: pa.DataType, kind: pa.DataType, start: int) -> None:
    given_values = []
    for value in values:
        try:
            convert_values([value], own)
        except REFUSED:
            continue
        given_values.append(value)
    column = convert_values([None, *given_values], own)[start:]
    try:
        found = convert_column(column, kind)
    except REFUSED:
        return
    assert found.type == kind
    found.validate(full=True)
    unzoned = pa.timestamp("us", "UTC") if pa.types.is_timestamp(own) and own.unit != "ns" else own
    for value, other in zip(map(in_python, column.cast(unzoned)), map(in_python, found), strict=True):
        assert same(value, other, kind), (value, other, own, kind)


@pytest.mark.parametrize("values", [
    [pd.Timestamp("2020-01-01"), None, pd.Timestamp("2020-01-01T00:00:00.5"), pd.Timestamp("2020-01-02")],
    [np.datetime64(*moment) for moment in (("2020-01-01", "s"), ("NaT", "s"), ("2020-01-01T00:00:00.5", "ms"),
                                           ("2020-01-02", "s"))],
])  # fmt: skip
def test_moments_of_several_units_are_kept(values: list[Any]) -> None:
    kept = convert_values(values, pa.timestamp("us", "UTC")).to_pylist()
    first = datetime(2020, 1, 1, tzinfo=UTC)
    assert kept == [first, None, first + timedelta(milliseconds=500), first + timedelta(days=1)]


# --------------------------------------------------------------------------------------------------- what is taken


@pytest.mark.parametrize(
    ("declared", "value", "expected"),
    [
        ("long", 1.0, 1),
        ("long", Decimal("2.00"), 2),
        ("long", np.uint8(2), 2),
        ("long", Level.HIGH, 3),
        ("double", 7, 7.0),
        ("double", 2**64, 2.0**64),
        ("double", -(2**63), -(2.0**63)),
        ("float", 2**25, 2.0**25),
        ("array<double>", [1.5, 2**60], [1.5, 2.0**60]),
        ("double", Decimal("0.1"), 0.1),
        ("double", np.float32(0.5), 0.5),
        ("float", 0.1, float(np.float32(0.1))),
        ("float", math.inf, math.inf),
        ("decimal(5, 2)", 1, Decimal("1.00")),
        ("decimal(5, 2)", 0.25, Decimal("0.25")),
        ("decimal(5, 2)", np.int64(3), Decimal("3.00")),
        ("date", datetime(2024, 1, 1), date(2024, 1, 1)),
        ("timestamp", date(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)),
        ("timestamp", 1_000_000, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ("timestamp", np.datetime64("2024-01-01T00:00:00", "ns"), datetime(2024, 1, 1, tzinfo=UTC)),
        ("timestamp", pd.NaT, None),
        ("string", b"a", "a"),
        ("binary", "\u00e9", "\u00e9".encode()),
        ("array<double>", np.array([1, 2]), [1.0, 2.0]),
        ("array<long>", (1, None), [1, None]),
        ("array<array<long>>", [[1], None, []], [[1], None, []]),
        ("map<string, long>", {"a": 1}, [("a", 1)]),
        ("struct<a: long, b: string>", {"b": "x", "a": 1}, {"a": 1, "b": "x"}),
        ("struct<a: long, b: string>", (1, "x"), {"a": 1, "b": "x"}),
    ],
)  # fmt: skip
def test_what_is_taken(declared: str, value: Any, expected: Any) -> None:
    ((_, table),) = tables([(value,), (None,)], {"default": parse_schema(f"v {declared}")})
    assert table.column("v").to_pylist() == [expected, None]


REFUSALS: list[tuple[str, Any, str]] = [
    ("long", True, "True is bool"),
    ("long", "12", "'12' is string"),
    ("double", True, "True is bool"),
    ("double", np.bool_(True), "True is bool"),
    ("double", "1.5", "'1.5' is string"),
    ("double", 2**53 + 1, "9007199254740993 is no double, and would be rounded"),
    ("double", 10**400, "too large"),
    ("float", 2**24 + 1, "16777217 is no float, and would be rounded"),
    ("float", 2**200, "is no float"),
    ("float", 1e300, "1e.300 would become inf"),
    ("boolean", 1, "1 is int64"),
    ("string", 12, "12 is int64"),
    ("string", b"\xff", "UTF8"),
    ("date", datetime(2024, 1, 1, 0, 0, 1), "would become datetime.date"),
    ("date", datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=2))), "would become datetime.date"),
    ("timestamp", 1.5, "1.5 is double"),
    ("timestamp", pd.Timestamp("2024-01-01T00:00:00.000000001"), "lose data"),
    ("decimal(5, 2)", 0.123, "0.123 would become"),
    ("decimal(5, 2)", Decimal("0.123"), ""),
    ("decimal(37, 32)", 68127108, ""),
    ("array<long>", [1.7], "1.7 is not a whole number"),
    ("array<long>", "12", "'12' is not a list"),
    ("array<struct<a: long>>", [{"a": 1.7}], "1.7 is not a whole number"),
    ("map<string, long>", {"a": 1.7}, "1.7 is not a whole number"),
    ("map<string, long>", {None: 1}, "a key of a map is null"),
    ("map<string, float>", [("a", 1e300)], "would become inf"),
    ("struct<a: long>", {"b": 1}, "a struct has b, not a"),
    ("struct<a: long>", {}, "a struct has no fields, not a"),
    ("struct<a: long>", {"a": 1, "b": 1}, "a struct has a, b, not a"),
    ("struct<a: long, b: long>", {"a": 1}, "a struct has a, not a, b"),
]


@pytest.mark.parametrize(("declared", "value", "complaint"), REFUSALS)
def test_what_is_refused(declared: str, value: Any, complaint: str) -> None:
    with pytest.raises(SchemaError, match=f"column 'v' was declared .*{complaint}"):
        list(tables((value,), {"default": parse_schema(f"v {declared}")}))


@pytest.mark.parametrize("value", [2049, 65_536, 2**53])
def test_whole_numbers_are_no_half_floats_of_another_value(value: int) -> None:
    """Arrow itself makes 2048.0 and infinity of them."""
    with pytest.raises(SchemaError, match=f"{value} is no halffloat, and would be rounded"):
        list(tables((value,), {"default": pa.schema([("v", pa.float16())])}))


def test_whole_numbers_become_half_floats_of_the_same_value() -> None:
    ((_, table),) = tables([(2048,), (None,), (-65_504,)], {"default": pa.schema([("v", pa.float16())])})
    assert table.column("v").to_pylist() == [2048.0, None, -65_504.0]


COLUMNS: list[tuple[str, pa.Array, str]] = [
    ("float", pa.array([None, 1e300]), "1e.300 would become inf"),
    ("float", pa.array([Decimal("1E+60")], pa.decimal256(61, 0)), "would become inf"),
    ("double", pa.array([1, 2**53 + 1]), "9007199254740993 would become 9007199254740992.0"),
    ("float", pa.array([2**24 + 1], pa.int32()), "16777217 would become 16777216.0"),
    ("double", pa.array([2**63 - 1]), ""),
    ("date", pa.array([0, 1], pa.timestamp("us", "UTC")), "would become datetime.date"),
    ("long", pa.array([True]), "True is bool"),
    ("double", pa.array([True]), "True is bool"),
    ("boolean", pa.array([5]), "5 is int64"),
    ("long", pa.array(["12"]), "'12' is string"),
    ("string", pa.array([12]), "12 is int64"),
    ("long", pa.array([0], pa.timestamp("us")), "which is not taken for int64"),
    ("decimal(5, 2)", pa.array([0.123]), "0.123 would become"),
    ("decimal(37, 32)", pa.array([Decimal(68127108)]), ""),
    ("array<long>", pa.array([[1.7]]), "1.7"),
    ("array<float>", pa.array([[1e300]]), "would become inf"),
    ("struct<a: long>", pa.array([{"b": 1}]), "a struct has b, not a"),
    ("struct<a: long, b: long>", pa.array([{"a": 1}]), "a struct has a, not a, b"),
    ("map<string, float>", pa.array([[("a", 1e300)]], pa.map_(pa.string(), pa.float64())), "would become inf"),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "column", "complaint"), COLUMNS)
def test_what_is_refused_of_tables(declared: str, column: pa.Array, complaint: str) -> None:
    with pytest.raises(SchemaError, match=f"column 'v' is .* was declared .*{complaint}"):
        conform(pa.table({"v": column}), parse_schema(f"v {declared}"))


def test_columns_are_converted_in_their_depth_with_their_nulls() -> None:
    column = pa.array([[{"a": 1, "m": [("x", 1)]}], None, [], [None, {"a": None, "m": None}]],
                      pa.list_(pa.struct([("a", pa.int32()), ("m", pa.map_(pa.string(), pa.int8()))])))  # fmt: skip
    schema = parse_schema("v array<struct<m: map<string, double>, a: decimal(5, 1)>>")
    found = conform(pa.table({"v": column}).slice(0, 4), schema).column("v")
    assert found.to_pylist() == [
        [{"m": [("x", 1.0)], "a": Decimal("1.0")}], None, [], [None, {"m": None, "a": None}]
    ]  # fmt: skip


def test_whole_numbers_of_a_table_become_floating_where_these_have_the_same_value() -> None:
    """However large: a sum would else fail on the day on which it passes 2 ** 53."""
    table = pa.table({"v": [2**60, None, 2**53, -(2**63), 3]})
    found = conform(table, parse_schema("v double")).column("v").to_pylist()
    assert found == [2.0**60, None, 2.0**53, -(2.0**63), 3.0]


def test_whole_numbers_of_a_table_become_decimals() -> None:
    table = pa.table({"v": [1, None, 300]})
    assert conform(table, parse_schema("v decimal(5, 2)")).column("v").to_pylist() == [Decimal(1), None, Decimal(300)]
    with pytest.raises(SchemaError):
        conform(pa.table({"v": [1000]}), parse_schema("v decimal(5, 2)"))


@pytest.mark.parametrize(
    ("column", "declared"),
    [
        ("flag boolean", "long"),
        ("v string", "long"),
        ("v long", "string"),
        ("v timestamp", "long"),
        ("v struct<a: long>", "struct<b: long>"),
    ],
)
def test_a_join_that_could_not_have_its_declared_columns_is_refused_when_it_is_built(
    column: str, declared: str
) -> None:
    name = column.split(maxsplit=1)[0]
    join = WindowJoin("a", "b", on="id", outputs=f"id long, {name} {declared}")
    with pytest.raises(ConfigError, match=f"column '{name}' is .*, and was declared"):
        join.for_inputs({"a": parse_schema(f"id long, {column}"), "b": parse_schema("id long")})


def test_values_that_fill_empty_windows_are_of_the_type_of_their_aggregate() -> None:
    bolt = AggregateBolt(total=aggregates.sum("n")).with_tumbling_window("1h")
    inputs = {"s": parse_schema("n long")}
    bolt.with_empty_windows(until="1d", fill={"total": 2.0}).for_inputs(inputs)
    with pytest.raises(ConfigError, match=r"fill=\{'total': 1.7\}.*1.7 is not a whole number"):
        bolt.with_empty_windows(until="1d", fill={"total": 1.7}).for_inputs(inputs)


@pytest.mark.parametrize(
    ("state", "returned"),
    [("array<long>", [1.7]), ("float", 1e300), ("map<string, long>", {"a": 0.5}), ("struct<a: long>", {"b": 1}),
     ("date", datetime(2024, 1, 1, 6)), ("double", True)],
)  # fmt: skip
def test_a_state_of_ones_own_is_what_was_declared(state: str, returned: Any) -> None:
    own = aggregates.combine("n", fold=lambda _: returned, merge=lambda states: states[0], state=state)
    (combined,) = own.with_types("own", parse_schema("n long")).accumulators
    events = EventColumns({"n": pa.array([1, 2])}, np.arange(2))
    with pytest.raises(SchemaError, match=r"fold=.* returned"):
        combined.fold(events, Groups(np.zeros(2, np.int64), 1))
