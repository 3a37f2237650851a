"""What a bolt may return, and what it may not."""

from __future__ import annotations

from array import array
from collections import UserDict, deque, namedtuple
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from windowing import Emit, SchemaError
from windowing.schema import conform, parse_schema, tables

OUTPUTS = {"default": parse_schema("user string, n long"), "alerts": parse_schema("text string")}
Row = namedtuple("Row", ["who", "many"])


def rows_of(returned: Any) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = {}
    for stream, table in tables(returned, OUTPUTS):
        assert table.schema.equals(OUTPUTS[stream])
        found.setdefault(stream, []).extend(tuple(row.values()) for row in table.to_pylist())
    return found


@pytest.mark.parametrize(
    "returned",
    [
        ("a", 1),
        Row("a", 1),
        {"user": "a", "n": 1},
        {"n": np.int64(1), "user": "a"},
        ("a", 1.0),
        [("a", 1)],
        [[("a", 1)], None, []],
        (row for row in [("a", 1)]),
        Emit(("a", 1)),
        Emit([Emit(("a", 1))], stream="alerts"),
        pa.table({"user": ["a"], "n": [1]}),
        pa.table({"n": [1], "user": ["a"]}),
        pa.table({"user": ["a"], "n": pa.array([1], pa.int8())}),
        pa.table({"user": ["a"], "n": [1.0]}),
        pa.table({"user": pa.array(["a"]).dictionary_encode(), "n": [1]}),
        pa.record_batch({"user": ["a"], "n": [1]}),
        pd.DataFrame({"user": ["a"], "n": [1]}, index=[7]),
        pd.DataFrame([["a", 1]]),  # its columns have no names
    ],
)
def test_every_way_to_say_one_row(returned: Any) -> None:
    assert rows_of(returned) == {"default": [("a", 1)]}


def test_a_row_is_as_it_was_when_it_was_yielded() -> None:
    def prefixes() -> Any:
        seen: list[int] = []
        for number in (1, 2):
            seen.append(number)
            yield (seen,)
            yield {"seen": seen}

    ((_, table),) = tables(prefixes(), {"default": parse_schema("seen array<long>")})
    assert table.column("seen").to_pylist() == [[1], [1], [1, 2], [1, 2]]


MEMORY, BYTES, COUNTS = np.ones(1), bytearray(b"a"), {"a": 1}


def count() -> None:
    COUNTS["b"] = 2


def refill() -> None:
    MEMORY[0] = 2.0


@pytest.mark.parametrize(
    ("declared", "value", "change", "first", "second"),
    [
        ("array<long>", (recent := deque([1])), partial(recent.append, 2), [1], [1, 2]),
        ("array<long>", (numbers := array("q", [1])), partial(numbers.append, 2), [1], [1, 2]),
        ("array<double>", (series := pd.Series([1.0])), partial(series.iloc.__setitem__, 0, 2.0), [1.0], [2.0]),
        ("array<double>", MEMORY, refill, [1.0], [2.0]),
        ("array<double>", pa.array(MEMORY), refill, [1.0], [2.0]),
        ("array<string>", COUNTS.keys(), count, ["a"], ["a", "b"]),
        ("array<long>", COUNTS.values(), count, [1], [1, 2]),
        ("map<string, long>", MappingProxyType(COUNTS), count, [("a", 1)], [("a", 1), ("b", 2)]),
        ("map<string, long>", COUNTS, count, [("a", 1)], [("a", 1), ("b", 2)]),
        ("struct<x: long>", (of_user := UserDict(x=1)), partial(of_user.update, x=2), {"x": 1}, {"x": 2}),
        ("binary", memoryview(BYTES), lambda: BYTES.__setitem__(0, 98), b"a", b"b"),
        ("array<binary>", [memoryview(BYTES)], lambda: BYTES.__setitem__(0, 98), [b"a"], [b"b"]),
        ("array<long>", memoryview(BYTES), lambda: BYTES.__setitem__(0, 98), [97], [98]),
        ("array<double>", MEMORY.data, refill, [1.0], [2.0]),
        ("array<array<string>>", [COUNTS.keys()], count, [["a"]], [["a", "b"]]),
        ("map<string, array<long>>", {"n": COUNTS.values()}, count, [("n", [1])], [("n", [1, 2])]),
        ("struct<x: array<long>>", MappingProxyType({"x": COUNTS.values()}), count, {"x": [1]}, {"x": [1, 2]}),
    ],
)
def test_so_are_values_of_all_types_that_change(
    declared: str, value: Any, change: Any, first: Any, second: Any
) -> None:
    MEMORY[0], BYTES[0] = 1.0, 97
    COUNTS.pop("b", None)

    def rows() -> Any:
        yield (value,)
        change()
        yield (value,)

    ((_, table),) = tables(rows(), {"default": parse_schema(f"x {declared}")})
    assert table.column("x").to_pylist() == [first, second]


@pytest.mark.parametrize("returned", [None, [], [None], iter(()), Emit(None), Emit([], stream="alerts")])
def test_every_way_to_say_nothing(returned: Any) -> None:
    assert rows_of(returned) == {}


def test_empty_tables_are_fine() -> None:
    assert rows_of(pa.table({"user": pa.array([], pa.string()), "n": pa.array([], pa.int64())})) == {"default": []}


def test_rows_tables_and_streams_may_be_mixed_and_keep_their_order() -> None:
    def bolt() -> Any:
        yield "a", 1
        yield Emit(("look",), stream="alerts")
        yield {"user": "b", "n": 2}
        yield pa.table({"user": ["c"], "n": [3]})
        yield Emit([("again",), ("and again",)], stream="alerts")
        yield "d", None

    assert rows_of(bolt()) == {
        "default": [("a", 1), ("b", 2), ("c", 3), ("d", None)],
        "alerts": [("look",), ("again",), ("and again",)],
    }


@pytest.mark.parametrize(
    ("returned", "complaint"),
    [
        ("text", "str 'text'"),
        (b"bytes", "bytes"),
        (5, "int 5"),
        (["a", 1], "str 'a'"),
        (np.array([1, 2]), "int64"),
        (("a",), "1 values, 2 were declared"),
        (("a", 1, 2), "3 values, 2 were declared"),
        ({"user": "a"}, r"\. there is no 'n'\."),
        ({"user": "a", "n": 1, "m": 2}, r"\. 'm' is not declared\."),
        ({"user": "a", "m": 1}, r"\. there is no 'n'; 'm' is not declared\."),
        (("a", "one"), "'n' was declared int64"),
        (("a", 1.5), "1.5 is not a whole number"),
        (("a", np.float32(1.5)), "not a whole number"),
        (("a", float("nan")), "not a whole number"),
        (("a", 2**63), "'n' was declared int64"),
        ((1, 1), "'user' was declared string"),
        (pa.table({"user": ["a"]}), "there is no 'n'"),
        (pa.table({"user": ["a"], "n": [1], "m": [1]}), r"more columns: 'm'.* table.select\(\['user', 'n'\]\)"),
        (pa.table([["a"], [1], [2]], ["user", "n", "n"]), "more columns: a name stands twice"),
        (pa.table({"who": ["a"], "many": [1]}), r"no 'user', 'n'. .*table.rename_columns\(\['user', 'n'\]\)"),
        (pa.table({"user": ["a"], "n_sum": [1]}), r"there is no 'n'. .*rename_columns\(\['user', 'n'\]\)"),
        (pa.record_batch({"who": ["a"], "many": [1]}), "there is no 'user', 'n'"),
        (pd.DataFrame({"who": ["a"], "many": [1]}), "there is no 'user', 'n'"),
        (pd.DataFrame([["a", 1, 2]]), "there is no 'user', 'n'"),
        (pa.table({"n": ["a"], "user": [1]}), "'user' is int64|'n' is string"),
        (pa.table({"n": [1], "x": ["a"]}), r"there is no 'user'. .*rename_columns\(\['n', 'user'\]\)"),
        (pa.table({"user": ["a"], "n": [1.5]}), "'n' is double, and was declared int64"),
        (pa.table({"user": ["a"], "n": ["x"]}), "'n' is string"),
        (pd.DataFrame({"user": ["a"]}), "there is no 'n'"),
        (Emit(("a", 1), stream="nowhere"), "stream 'nowhere'"),
    ],
)
def test_what_is_not_declared_is_refused(returned: Any, complaint: str) -> None:
    with pytest.raises(SchemaError, match=complaint):
        rows_of(returned)


def test_a_bolt_that_declares_nothing_can_emit_nothing() -> None:
    assert list(tables(None, {})) == []
    with pytest.raises(SchemaError, match="declares no outputs"):
        list(tables(("a",), {}))


def test_values_of_every_type() -> None:
    schema = parse_schema(
        "a string, b binary, c boolean, d tinyint, e double, f date, g timestamp, h decimal(6, 2), i array<int>, "
        "j map<string, int>, k struct<x: int>"
    )
    row = ("a", b"b", True, -1, 0.5, date(1960, 1, 1), datetime(2024, 1, 1, tzinfo=UTC), Decimal("1.25"), [1, None],
           [("x", 1)], {"x": 1})  # fmt: skip
    ((_, table),) = tables([row, (None,) * 11], {"default": schema})
    first, second = table.to_pylist()
    assert tuple(first.values()) == row
    assert set(second.values()) == {None}


def test_a_table_that_is_as_declared_is_not_touched() -> None:
    table = pa.table({"user": ["a"], "n": [1]})
    assert conform(table, table.schema) is table


def test_a_time_without_a_zone_is_utc_and_one_with_a_zone_keeps_its_moment() -> None:
    schema = parse_schema("at timestamp")
    naive = pa.table({"at": pa.array([0], pa.timestamp("us"))})
    other = pa.table({"at": pa.array([0], pa.timestamp("ms", "Asia/Tokyo"))})
    for table in (naive, other):
        assert conform(table, schema).column("at").cast(pa.int64()).to_pylist() == [0]


def test_a_cast_that_would_lose_something_is_refused() -> None:
    fine = pa.table({"at": pa.array([1_000], pa.timestamp("ns"))})
    lost = pa.table({"at": pa.array([1_001], pa.timestamp("ns"))})
    assert conform(fine, parse_schema("at timestamp")).column("at").cast(pa.int64()).to_pylist() == [1]
    with pytest.raises(SchemaError):
        conform(lost, parse_schema("at timestamp"))
    with pytest.raises(SchemaError):
        conform(pa.table({"n": [300]}), parse_schema("n tinyint"))


@pytest.mark.parametrize("value", [Decimal("1.9"), 1.5])
def test_a_fraction_is_not_cut_off(value: Any) -> None:
    with pytest.raises(SchemaError):
        list(tables((value,), {"default": parse_schema("n long")}))


Swapped = namedtuple("Swapped", ["n", "user"])
Pair = namedtuple("Pair", ["b", "a"])


def test_a_named_tuple_with_the_declared_names_goes_by_them_and_others_by_place() -> None:
    """``DataFrame.itertuples`` makes named tuples, in the order of its columns."""
    frame = pd.DataFrame({"n": [1, 2], "user": ["ada", "bob"]})
    assert rows_of(frame.itertuples(index=False)) == {"default": [("ada", 1), ("bob", 2)]}
    assert rows_of(Swapped(1, "ada")) == {"default": [("ada", 1)]}
    assert rows_of(Row("ada", 1)) == {"default": [("ada", 1)]}


def test_so_does_one_that_is_a_struct() -> None:
    schema = parse_schema("one struct<a: long, b: long>, many array<struct<a: long, b: long>>")
    ((_, table),) = tables((Pair(b=2, a=1), [Pair(b=4, a=3), (5, 6)]), {"default": schema})
    assert table.to_pylist() == [{"one": {"a": 1, "b": 2}, "many": [{"a": 3, "b": 4}, {"a": 5, "b": 6}]}]
