"""Events picked by the order of a column, against plain Python: the best, the first few, lists in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.windowing.aggregates.test_aggregates import (
    COLUMNS,
    EXAMPLES,
    PLAIN,
    Case,
    array_of,
    cases,
    check,
    is_nan,
    known,
)
from windbolt import TopologyBuilder, run_local, sinks, spouts
from windowing import AggregateBolt, ConfigError, TopologyError, aggregates
from windowing.settings.kinds import Session

RANKED = (*PLAIN, "pair")
Row = dict[str, Any]

# ---------------------------------------------------------------------------------------------------------- the oracle


def rank(value: Any) -> Any:
    """What values are sorted by: NaN after all numbers, null after all values, structs by their fields."""
    if value is None:
        return (2,)
    if is_nan(value):
        return (1,)
    if isinstance(value, dict):
        return (0, [rank(part) for part in value.values()])
    return (0, value.encode() if isinstance(value, str) else value)


def in_order(rows: list[Row], by: str, *, descending: bool = False) -> list[Row]:
    """In order of a column, then as they are."""
    return sorted(rows, key=lambda row: rank(row[by]), reverse=False) if not descending else from_the_top(rows, by)


def from_the_top(rows: list[Row], by: str) -> list[Row]:
    left, found = [row for row in rows if row[by] is not None], []
    while left:
        best = max(rank(row[by]) for row in left)
        found += [row for row in left if rank(row[by]) == best]
        left = [row for row in left if rank(row[by]) != best]
    return found + [row for row in rows if row[by] is None]


def leading(by: str, take: Callable[[Row], Any], k: int, *, descending: bool) -> Callable[[list[Row]], Any]:
    def found(rows: list[Row]) -> Any:
        valued = [row for row in rows if row[by] is not None]
        return [take(row) for row in in_order(valued, by, descending=descending)[:k]] or None

    return found


def first_of(by: str, take: Callable[[Row], Any], *, greatest: bool) -> Callable[[list[Row]], Any]:
    found = leading(by, take, 1, descending=greatest)
    return lambda rows: (found(rows) or [None])[0]


@st.composite
def two_columns(draw: st.DrawFn) -> tuple[str, str, Case]:
    """Columns of which one is ordered and one is taken, perhaps the same; with few different values there are ties."""
    by, field = draw(st.sampled_from(RANKED)), draw(st.sampled_from(tuple(COLUMNS)))
    case = draw(cases([by, field]))
    if by not in case.by and draw(st.booleans()):
        some = draw(st.lists(st.sampled_from(case.table[by].to_pylist()), min_size=1, max_size=2))
        values = draw(st.lists(st.sampled_from(some), min_size=len(case.times), max_size=len(case.times)))
        at = case.table.schema.get_field_index(by)
        case.table = case.table.set_column(at, by, array_of(values, COLUMNS[by][0]))
    return by, field, case


# ---------------------------------------------------------------------------------------------- each one by its oracle


@examples(2 * EXAMPLES)
@given(two_columns(), st.booleans())
def test_the_best_event_is_the_first_of_those_with_the_greatest_value(
    drawn: tuple[str, str, Case], greatest: bool
) -> None:
    by, field, case = drawn
    function, columns = aggregates.max_by if greatest else aggregates.min_by, tuple(dict.fromkeys([by, field]))
    check(case, columns, function(field, by=by), first_of(by, lambda row: row[field], greatest=greatest))
    both = {name: name for name in columns}
    struct = first_of(by, lambda row: {name: row[name] for name in both}, greatest=greatest)
    check(case, columns, function(list(both), by=by), struct)
    every = case.table.column_names
    check(case, every, function(by=by), first_of(by, dict, greatest=greatest))


@examples(2 * EXAMPLES)
@given(two_columns(), st.integers(1, 4), st.booleans())
def test_the_top_are_in_order_and_among_equals_the_first_come_first(
    drawn: tuple[str, str, Case], k: int, greatest: bool
) -> None:
    by, field, case = drawn
    function, columns = aggregates.top if greatest else aggregates.bottom, tuple(dict.fromkeys([by, field]))
    check(case, columns, function(k, field, by=by), leading(by, lambda row: row[field], k, descending=greatest))
    check(case, columns, function(k, columns, by=by), leading(by, dict, k, descending=greatest))
    check(case, case.table.column_names, function(k, by=by), leading(by, dict, k, descending=greatest))


@examples(2 * EXAMPLES)
@given(two_columns(), st.none() | st.integers(1, 4), st.booleans())
def test_lists_are_in_the_order_of_a_column_null_last(
    drawn: tuple[str, str, Case], limit: int | None, descending: bool
) -> None:
    by, field, case = drawn
    ordered = aggregates.collect(field, order_by=by, descending=descending, limit=limit)
    columns = tuple(dict.fromkeys([by, field]))
    check(
        case, columns, ordered, lambda rows: [row[field] for row in in_order(rows, by, descending=descending)[:limit]]
    )


@examples(EXAMPLES)
@given(two_columns(), st.integers(1, 4))
def test_a_list_with_a_limit_has_the_first_events(drawn: tuple[str, str, Case], limit: int) -> None:
    _, field, case = drawn
    check(case, field, aggregates.collect(field, limit=limit), lambda values: values[:limit])


@examples(EXAMPLES)
@given(two_columns())
def test_columns_are_collected_as_structs(drawn: tuple[str, str, Case]) -> None:
    by, field, case = drawn
    columns = tuple(dict.fromkeys([field, by]))
    check(case, columns, aggregates.collect(columns), list)


def nested(kind: pa.DataType, values: Sequence[Any]) -> Case:
    return Case(pa.table({"v": pa.array(values, kind)}), [0] * len(values), (), [1], 5)


DEEP = pa.struct([("a", pa.float64()), ("b", pa.struct([("c", pa.string()), ("d", pa.decimal128(5, 1))]))])
PARTS = st.none() | st.fixed_dictionaries({"c": st.none() | st.sampled_from(["", "x"]), "d": st.none()})


@examples(EXAMPLES)
@given(
    st.lists(
        st.none()
        | st.fixed_dictionaries(
            {"a": st.none() | st.sampled_from([0.0, -0.0, math.nan, -math.inf, 2.5]), "b": PARTS}
        ),
        min_size=1,
        max_size=12,
    )
)  # fmt: skip
@example([{"a": None, "b": None}, None, {"a": math.nan, "b": {"c": None, "d": None}}])
def test_structs_are_compared_field_by_field(values: list[Any]) -> None:
    case = nested(DEEP, values)
    check(case, "v", aggregates.min("v"), lambda held: min(known(held), key=rank, default=None))
    check(case, "v", aggregates.max("v"), lambda held: max(known(held), key=rank, default=None))


def test_the_least_struct_of_a_column_of_structs_with_keys() -> None:
    pairs = COLUMNS["pair"][0]
    table = pa.table({"k": ["a", "b", "a"], "v": pa.array([{"x": 2, "y": "a"}, None, {"x": 1, "y": "z"}], pairs)})
    case = Case(table, [0, 1, 2], ("k",), [2], 1)
    check(case, "v", aggregates.min("v"), lambda held: min(known(held), key=rank, default=None))


# ------------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: aggregates.max_by("a", by=None),  # type: ignore[arg-type]
        lambda: aggregates.max_by("a", by=["b"]),  # type: ignore[arg-type]
        lambda: aggregates.max_by(3, by="b"),  # type: ignore[arg-type]
        lambda: aggregates.max_by([], by="b"),
        lambda: aggregates.max_by(["a", "a"], by="b"),
        lambda: aggregates.max_by(["a", 3], by="b"),  # type: ignore[list-item]
        lambda: aggregates.top(0, by="b"),
        lambda: aggregates.top(True, by="b"),
        lambda: aggregates.top("a", by="b"),  # type: ignore[arg-type]
        lambda: aggregates.bottom(None, by="b"),  # type: ignore[arg-type]
        lambda: aggregates.collect(None),  # type: ignore[arg-type]
        lambda: aggregates.collect("a", limit=0),
        lambda: aggregates.collect("a", limit=2.0),  # type: ignore[arg-type]
        lambda: aggregates.collect("a", descending=True),
        lambda: aggregates.collect("a", order_by=2),  # type: ignore[arg-type]
    ],
)
def test_mistakes_are_told_where_they_are_made(wrong: Callable[[], Any]) -> None:
    with pytest.raises(ConfigError):
        wrong()


@pytest.mark.parametrize(
    ("aggregate", "told"),
    [
        (aggregates.max_by("item", by="there"), r"found=max_by\('item', by='there'\): there is no column 'there'"),
        (aggregates.min_by("there", by="price"), "no column 'there'"),
        (aggregates.top(2, ["item", "there"], by="price"), "no column 'there'"),
        (aggregates.collect("item", order_by="tags"), r"'tags' is list<.*no order"),
        (aggregates.max("tagged"), "no order"),
    ],
)
def test_columns_that_cannot_be_are_told_when_the_topology_is_built(aggregate: aggregates.Aggregate, told: str) -> None:
    builder = TopologyBuilder("t")
    builder.set_spout("in", spouts.memory("item string, price double, tags array<long>, tagged struct<t: array<long>>"))
    builder.set_bolt("b", AggregateBolt(found=aggregate).with_tumbling_window(3)).global_grouping("in")
    builder.set_sink("out", sinks.memory()).from_("b")
    with pytest.raises(TopologyError, match=told):
        builder.build()


def test_they_say_what_they_were_made_of() -> None:
    assert str(aggregates.max_by("a", by="b")) == "max_by('a', by='b')"
    assert str(aggregates.min_by(by="b")) == "min_by(by='b')"
    assert str(aggregates.top(3, ["a", "c"], by="b")) == "top(3, ['a', 'c'], by='b')"
    assert str(aggregates.bottom(3, by="b")) == "bottom(3, by='b')"
    ordered = aggregates.collect("a", order_by="b", descending=True, limit=4)
    assert str(ordered) == "collect('a', order_by='b', descending=True, limit=4)"


# ------------------------------------------------------------------------------------------------ in a bolt, any window


@pytest.mark.parametrize("window", ["time", "count", "session", "keyed"])
def test_in_windows_of_any_kind(window: str) -> None:
    rows = [("ada", "tea", 2.0, 1), ("ada", "jam", 5.0, 3), ("bob", "nut", None, 2), ("ada", "fig", 5.0, 2)]
    bolt: Any = AggregateBolt(
        "user",
        best=aggregates.max_by("item", by="price"),
        event=aggregates.max_by(by="price"),
        two=aggregates.top(2, "item", by="price"),
        listed=aggregates.collect("item", order_by="price", descending=True),
    )
    if window == "time":
        bolt = bolt.with_tumbling_window("10ms")
    elif window == "count":
        bolt = bolt.with_tumbling_window(4)
    elif window == "session":
        bolt = bolt.with_window(Session("5ms")).with_key("user")
    else:
        bolt = bolt.with_tumbling_window("10ms").with_key("user")
    builder, out = TopologyBuilder("shop"), sinks.memory()
    builder.set_spout("sales", spouts.memory("user string, item string, price double, ts long", rows[:2], rows[2:]))
    builder.set_bolt("best", bolt.with_timestamp_field("ts").with_lag("10ms")).fields_grouping("sales", "user")
    builder.set_sink("out", out).from_("best")
    run_local(builder.build())
    found = sorted(out.rows, key=lambda row: row["user"])
    assert found == [
        {"user": "ada", "best": "fig", "event": {"user": "ada", "item": "fig", "price": 5.0, "ts": 2},
         "two": ["fig", "jam"], "listed": ["fig", "jam", "tea"]},
        {"user": "bob", "best": None, "event": None, "two": None, "listed": ["nut"]},
    ]  # fmt: skip
