"""Rank and TopN against an oracle that compares every pair of rows; and what of them is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.oracles import ready_bolts_oracle as oracle
from windbolt import ConfigError, Rank, Session, TopN, TopologyBuilder, TopologyError, sinks, spouts
from windbolt.testing import TopologyDriver, run_bolt

Json = dict[str, Any]
SCHEMA = "n long, item string, price double, ts long"
METHODS = st.sampled_from(["row_number", "rank", "dense_rank"])
ROWS = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.integers(0, 4),  # less than the lag: an event at the watermark misses the window that ends there (ST-17)
        st.sampled_from(["a", "a", "b", None]),
        st.sampled_from([0.0, -0.0, 1.0, 2.5, math.nan, math.inf, None]),
        st.booleans(),
    ),
    max_size=30,
)


def played(bolt: Any, drawn: Any, tasks: int) -> tuple[list[Json], list[Json]]:
    builder, rows, batch, now = TopologyBuilder("t"), [], [], 0
    builder.set_spout("in", spouts.memory(SCHEMA))
    declarer = builder.set_bolt("bolt", bolt.with_timestamp_field("ts").with_lag("5ms"), tasks)
    _ = declarer.fields_grouping("in", "item") if tasks > 1 else declarer.global_grouping("in")
    builder.set_sink("out", sinks.memory()).from_("bolt")
    driver = TopologyDriver(builder.build())
    for number, (step, behind, item, price, ends) in enumerate(drawn):
        now += step
        batch.append({"n": number, "item": item, "price": price, "ts": now - behind})
        rows.append(batch[-1])
        if ends:
            driver.push("in", batch)
            batch = []
    driver.push("in", batch)
    driver.close()
    return rows, driver.read("out")


def shown(row: Json, rank: str) -> tuple[int, int, int]:
    return round(row["until"].timestamp() * 1000), row["n"], row[rank]


@examples(150)
@given(
    drawn=ROWS, method=METHODS, descending=st.booleans(), by=st.sampled_from(["item", None]), slide=st.integers(3, 9)
)
def test_each_row_of_a_window_has_its_rank(drawn: Any, method: Any, descending: bool, by: Any, slide: int) -> None:
    bolt = Rank("price", by=by, method=method, descending=descending, column="place", end="until")
    rows, found = played(bolt.with_window("9ms", f"{slide}ms"), drawn, 1)

    def answer(end: int, held: list[Json]) -> Any:
        ranks = oracle.ranked(held, by, "price", method, descending)
        return [(end, row["n"], rank) for row, rank in zip(held, ranks, strict=True)]

    assert [shown(row, "place") for row in found] == oracle.collected(rows, 9, slide, answer)


def best_of(held: list[Json], n: int, by: str | None, method: str, descending: bool) -> list[tuple[int, int]]:
    """The rows of a window in order of (by, rank), null last, and among equal ranks of the window."""
    ranks = oracle.ranked(held, by, "price", method, descending)
    found = [(row, rank) for row, rank in zip(held, ranks, strict=True) if rank <= n]
    if by is None:
        found.sort(key=lambda each: each[1])
    else:
        found.sort(key=lambda each: (each[0][by] is None, each[0][by] or "", each[1]))
    return [(row["n"], rank) for row, rank in found]


@examples(150)
@given(
    drawn=ROWS,
    n=st.integers(1, 4),
    method=METHODS,
    descending=st.booleans(),
    by=st.sampled_from(["item", None]),
    tasks=st.integers(1, 2),
)
def test_the_best_rows_of_a_window(drawn: Any, n: int, method: Any, descending: bool, by: Any, tasks: int) -> None:
    tasks = tasks if by else 1
    bolt = TopN(n, "price", by=by, method=method, descending=descending, end="until")
    rows, found = played(bolt.with_tumbling_window("10ms"), drawn, tasks)

    def answer(end: int, held: list[Json]) -> Any:
        return [(end, *each) for each in best_of(held, n, by, method, descending)]

    got, wanted = [shown(row, "rank") for row in found], oracle.collected(rows, 10, 10, answer)
    assert got == wanted if tasks == 1 else sorted(got) == sorted(wanted)


def offers(*prices: Any, item: str = "a") -> list[Json]:
    return [{"n": number, "item": item, "price": price, "ts": number} for number, price in enumerate(prices)]


def test_of_equal_values_the_first_by_time_and_then_by_arrival_is_better() -> None:
    rows = [
        {"n": 1, "item": "a", "price": 5.0, "ts": 4},
        {"n": 2, "item": "a", "price": 5.0, "ts": 3},
        {"n": 3, "item": "a", "price": 5.0, "ts": 3},
    ]
    bolt = TopN(2, "price").with_tumbling_window("10ms").with_timestamp_field("ts")
    assert [row["n"] for row in run_bolt(bolt, rows, SCHEMA).rows] == [2, 3]


def test_windows_of_any_kind() -> None:
    windows = [
        (lambda bolt: bolt.with_window(3, 2)),
        (lambda bolt: bolt.with_window(Session("5ms")).with_key("item").with_timestamp_field("ts")),
    ]
    bolt = TopN(1, "price", start="since", end="until")
    by_count, by_session = (run_bolt(given(bolt), offers(3.0, 9.0, 4.0, 5.0), SCHEMA).rows for given in windows)
    assert [row["price"] for row in by_count] == [9.0, 9.0]
    assert [row["since"] for row in by_count] == [None, None]
    assert [(row["price"], row["until"].timestamp()) for row in by_session] == [(9.0, 0.008)]


def test_texts_and_times_have_an_order_too() -> None:
    bolt = TopN(1, "item", descending=False).with_tumbling_window(2)
    assert [row["item"] for row in run_bolt(bolt, offers(1.0, item="b") + offers(1.0), SCHEMA).rows] == ["a"]


# ---- what is refused


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: TopN(0, "price"), "whole number above 0"),
        (lambda: TopN(True, "price"), "whole number above 0"),
        (lambda: TopN("price", 3), "number of rows to keep"),  # type: ignore[arg-type]
        (lambda: TopN(3, ""), r"TopN\(order_by=''\)"),
        (lambda: Rank(["price"]), "not the name of a column"),  # type: ignore[arg-type]
        (lambda: Rank("price", by=["a", "a"]), "each named once"),
        (lambda: Rank("price", by=5), "columns"),  # type: ignore[arg-type]
        (lambda: Rank("price", method="ntile"), "none of row_number, rank, dense_rank"),  # type: ignore[arg-type]
        (lambda: Rank("price", descending="yes"), "True or False"),  # type: ignore[arg-type]
        (lambda: Rank("price", column=""), r"column=''"),
        (lambda: Rank("price", end=1), "end=1"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_is_refused_where_it_is_made(make: Any, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        make()


@pytest.mark.parametrize(
    ("bolt", "schema", "what"),
    [
        (TopN(3, "prize"), SCHEMA, r"TopN\(order_by='prize'\), and there is no such column; did you mean 'price'"),
        (Rank("price", by="shop"), SCHEMA, r"Rank\(by='shop'\)"),
        (Rank("price", column="item"), SCHEMA, "two columns 'item'.*another name"),
        (Rank("price", start="at", end="at"), SCHEMA, "two columns 'at'"),
        (Rank("prices"), "prices array<double>", "cannot be compared"),
    ],
)
def test_what_does_not_fit_the_stream_is_refused_when_it_is_built(bolt: Any, schema: str, what: str) -> None:
    with pytest.raises(TopologyError, match=what):
        run_bolt(bolt.with_tumbling_window(5), [], schema)


def test_tasks_that_would_not_see_all_rows_of_a_group_are_refused() -> None:
    def built(bolt: Any, tasks: int = 2) -> None:
        builder = TopologyBuilder("t")
        builder.set_spout("in", spouts.memory(SCHEMA))
        builder.set_bolt("bolt", bolt.with_tumbling_window(5), tasks).shuffle_grouping("in")
        builder.set_sink("out", sinks.memory()).from_("bolt")
        builder.build()

    with pytest.raises(TopologyError, match=r"groups events by item, has 2 tasks.*fields_grouping\('in', 'item'\)"):
        built(TopN(3, "price", by="item"))
    with pytest.raises(TopologyError, match=r"looks at all events together.*use one task"):
        built(Rank("price"))
    built(Rank("price"), tasks=1)
