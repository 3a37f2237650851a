"""Bolts that are called for many windows at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from topologies.local import run_local
from topologies.run.options import RunOptions
from windbolt import (
    AggregateBolt,
    BatchWindowedBolt,
    BoltError,
    Session,
    TopologyBuilder,
    WindowBatch,
    WindowedBolt,
    aggregates,
    sinks,
    spouts,
)
from windbolt.testing import run_bolt
from windowing.aggregates.groups import Groups

Json = dict[str, Any]
SCHEMA = "user string, amount double, ts long"


class Sums(BatchWindowedBolt):
    outputs = "total double"
    called: list[int] = []  # noqa: RUF012 - shared by the copies that tasks make

    def execute_all(self, windows: WindowBatch) -> Any:
        self.called.append(len(windows))
        totals = np.bincount(windows.index, windows.table["amount"].to_numpy(), len(windows))
        return pa.table({"total": totals}), np.arange(len(windows))


class Sum(WindowedBolt):
    outputs = "total double"

    def execute(self, window: Any) -> Any:
        return (float(window.column("amount").sum()),)


def rows_of(bolt: Any, rows: list[Json], *, size: int = 1_000, tasks: int = 1) -> list[Json]:
    builder, out = TopologyBuilder("t"), sinks.memory()
    batches = [rows[at : at + size] for at in range(0, len(rows), size)]
    builder.set_spout("orders", spouts.memory(SCHEMA, *batches))
    builder.set_bolt("sums", bolt, tasks).fields_grouping("orders", "user")
    builder.set_sink("out", out).from_("sums")
    run_local(builder.build(), RunOptions())
    return list(out.rows)


def sessions(bolt: Any) -> Any:
    return bolt.with_window(Session("10ms")).with_key("user").with_timestamp_field("ts").with_lag("1s")


def orders(count: int) -> list[Json]:
    return [{"user": f"u{at % 7}", "amount": float(at), "ts": at * 3} for at in range(count)]


def test_all_due_windows_come_at_once() -> None:
    Sums.called.clear()
    found = rows_of(sessions(Sums()), orders(100))
    assert Sums.called == [len(found)]
    assert found == rows_of(sessions(Sum()), orders(100))
    assert len(found) == 100


def test_windows_that_overlap_have_their_events_each() -> None:
    def sliding(bolt: Any) -> Any:
        return bolt.with_window("30ms", "10ms").with_timestamp_field("ts").with_lag("1s")

    assert rows_of(sliding(Sums()), orders(50)) == rows_of(sliding(Sum()), orders(50))
    assert run_bolt(sliding(Sums()), orders(50), SCHEMA).rows == rows_of(sliding(Sum()), orders(50))


def test_windows_as_columns() -> None:
    seen: list[WindowBatch] = []

    class Look(BatchWindowedBolt):
        outputs = "n long"

        def execute_all(self, windows: WindowBatch) -> None:
            seen.append(windows)

    rows_of(Look().with_window(3, 2), orders(5))
    (batch,) = seen
    assert batch.offsets.tolist() == [0, 2, 5]
    assert batch.index.tolist() == [0, 0, 1, 1, 1]
    assert batch.table["amount"].to_pylist() == [0.0, 1.0, 1.0, 2.0, 3.0]
    assert batch.window_starts.tolist() == [0, 0]
    assert [len(window) for window in batch] == [2, 3] == [len(batch[0]), len(batch[1])]
    assert batch.window_ends.tolist() == [window.end_timestamp for window in batch]
    with pytest.raises(ValueError, match="read-only"):
        batch.index[0] = 1


# Parts of a sum are added in another order, so only sums that a double holds exactly can be compared digit by digit.
AMOUNTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60), st.sampled_from([0.25, 0.5, 2.0**40, -(2.0**40)])))


@examples(100)
@given(drawn=AMOUNTS, size=st.integers(1, 12), tasks=st.integers(1, 2))
def test_aggregates_of_sessions_are_those_of_each_session_alone(drawn: Any, size: int, tasks: int) -> None:
    rows = [{"user": f"u{user}", "amount": amount, "ts": ts} for user, ts, amount in drawn]
    bolt = AggregateBolt(
        "user", n=aggregates.count(), total=aggregates.sum("amount"), first=aggregates.first("amount"),
        until=aggregates.window_end(),
    )  # fmt: skip
    found = rows_of(sessions(bolt), rows, size=size, tasks=tasks)
    expected = []
    for user in sorted({row["user"] for row in rows}):
        mine = sorted((row for row in rows if row["user"] == user), key=lambda row: row["ts"])
        groups: list[list[Json]] = []
        for row in mine:
            if groups and row["ts"] - groups[-1][-1]["ts"] < 10:
                groups[-1].append(row)
            else:
                groups.append([row])
        for group in groups:
            total = 0.0
            for row in group:
                total += row["amount"]
            expected.append((user, len(group), total, group[0]["amount"], group[-1]["ts"] + 10))
    said = [
        (row["user"], row["n"], row["total"], row["first"], round(row["until"].timestamp() * 1000)) for row in found
    ]
    assert sorted(said) == sorted(expected)


@examples(100)
@given(st.lists(st.tuples(st.integers(0, 5), st.floats(-1e9, 1e9)), min_size=1, max_size=60))
def test_a_sum_has_the_same_digits_whichever_groups_are_beside_it(drawn: Any) -> None:
    codes = np.array([code for code, _ in drawn], np.int64)
    values = np.array([value for _, value in drawn])
    close, far = Groups(codes, 6), Groups(codes * 10**9, 6 * 10**9)
    assert close.sums(values).tolist() == far.sums(values).tolist()


class Failing(Sums):
    def execute_all(self, windows: WindowBatch) -> Any:
        if 66.0 in windows.table["amount"].to_pylist():
            raise ValueError("66 is too much")
        return super().execute_all(windows)


@pytest.mark.parametrize("nothing", [None, ([], []), (None, []), (pa.table({"total": pa.nulls(0, pa.float64())}), [])])
def test_no_rows(nothing: Any) -> None:
    class Silent(BatchWindowedBolt):
        outputs = "total double"

        def execute_all(self, windows: WindowBatch) -> Any:
            return nothing

    assert rows_of(sessions(Silent()), orders(20)) == []
    assert run_bolt(sessions(Silent()), orders(20), SCHEMA).rows == []


class Careless(BatchWindowedBolt):
    """Forgets that there are several windows."""

    outputs = "total double"

    def execute_all(self, windows: WindowBatch) -> Any:
        return pa.table({"total": [sum(windows.table["amount"].to_pylist())]}), [0]


def test_a_test_of_a_bolt_finds_what_a_run_would_find() -> None:
    run = run_bolt(sessions(Careless()), orders(4), SCHEMA)
    assert run.rows == rows_of(sessions(Careless()), orders(4)) == [{"total": 6.0}]
    assert [fired.rows for fired in run.windows] == [[{"total": 6.0}], [], [], []]


def test_the_window_that_failed_is_named() -> None:
    with pytest.raises(BoltError, match=r"on the window from .*00\.198.* of 1 event\b.*66 is too much"):
        rows_of(sessions(Failing()), orders(100))


class Together(Sums):
    def execute_all(self, windows: WindowBatch) -> Any:
        if len(windows) > 1:
            raise ValueError("too many")
        return super().execute_all(windows)


def test_a_failure_of_no_window_alone_names_how_many_there_were() -> None:
    with pytest.raises(BoltError, match=r"in task 0 on 100 windows from .* to .*too many"):
        rows_of(sessions(Together()), orders(100))


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (pa.table({"total": [1.0]}), "execute_all returned Table.*for each the number of its window"),
        ((pa.table({"total": [1.0]}), [0, 1]), "1 rows, and .*as the numbers"),
        ((pa.table({"total": [1.0, 2.0]}), [1, 0]), "ascending"),
        ((pa.table({"total": [1.0]}), [100]), "one of 100 windows"),
        ((pa.table({"total": [1.0]}), [-1]), "from 0"),
        ((pa.table({"total": [1.0]}), [0.0]), "whole number"),
        ((pa.table({"total": [1.0, 2.0]}), np.array([1, 0], np.uint64)), "ascending"),
        ((pa.table({"total": [1.0] * 3}), np.array([0, 2**64 - 2, 1], np.uint64)), "from 0"),
        ((pa.table({"total": [1.0] * 3}), [0, 10**6, 1]), "one of 100 windows"),
        ([pa.table({"total": [1.0]}), [0]], "execute_all returned list"),
        ((row for row in [1.0]), "execute_all returned generator"),
        ({"total": 1.0}, "execute_all returned dict"),
        ((pa.table({"a": [1.0], "b": [1.0]}), [0]), "total"),
    ],
)
def test_what_is_no_answer_is_refused_in_words(given: Any, what: str) -> None:
    class Wrong(BatchWindowedBolt):
        outputs = "total double"

        def execute_all(self, windows: WindowBatch) -> Any:
            return given if len(windows) > 1 else None

    with pytest.raises(BoltError, match=what):
        rows_of(sessions(Wrong()), orders(100))
