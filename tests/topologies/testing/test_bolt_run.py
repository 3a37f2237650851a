"""Bolts of users, alone in a test: run on rows, and called with windows that are made by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import freezegun
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windbolt import (
    AggregateBolt,
    AlterLifetime,
    BatchBolt,
    Bolt,
    BoltError,
    ConfigError,
    Count,
    Emit,
    SchemaError,
    StatefulWindowedBolt,
    TemporalJoin,
    TopologyError,
    TupleWindow,
    WindowedBolt,
    WindowJoin,
    aggregates,
    presets,
    seconds,
)
from windbolt.testing import make_window, prepared, run_bolt
from windbolt.triggers import CountTrigger, FiredBy
from windowing.settings.kinds import Session

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


def at(second: float) -> datetime:
    return NOON + timedelta(seconds=second)


class Revenue(WindowedBolt):
    outputs = "user string, revenue double"

    def execute(self, window):
        for user, amounts in window.groups("user", "amount"):
            yield user, amounts.sum()


class Change(WindowedBolt):
    outputs = {"default": "events long", "left": "amount double"}  # noqa: RUF012 - as users write it

    def execute(self, window):
        yield (len(window.get_new()),)
        yield Emit([(each["amount"],) for each in window.get_expired()], stream="left")


class Counting(StatefulWindowedBolt):
    outputs = "n long, by string"
    state_types = {"n": int}  # noqa: RUF012 - as users write it

    def prepare(self, context):
        self.context = context

    def execute(self, window):
        self.state["n"] += len(window)
        self.context.counters["calls"] += 1
        return self.state["n"], self.context.component


TUMBLING = Revenue().with_tumbling_window(seconds(10)).with_timestamp_field("ts")
ROWS: list[dict[str, Any]] = [
    {"user": "ada", "amount": 2.0, "ts": "2024-01-01T12:00:01Z"},
    {"user": "bob", "amount": 1.0, "ts": "2024-01-01T12:00:15Z"},
    {"user": "ada", "amount": 3.0, "ts": "2024-01-01T12:00:04Z"},
]


def test_what_a_bolt_emits_and_the_windows_it_was_called_with() -> None:
    run = run_bolt(TUMBLING, ROWS)
    assert run.rows == [{"user": "ada", "revenue": 5.0}, {"user": "bob", "revenue": 1.0}]
    assert run.streams == {"default": run.rows}
    assert run.table.to_pylist() == run.to_pandas().to_dict("records") == run.rows
    first, second = run.windows
    assert (first.start, first.end, first.rows) == (at(0), at(10), run.rows[:1])
    assert [event["ts"] for event in first.events] == [at(1), at(4)]
    assert (second.size, second.rows) == (1, run.rows[1:])
    assert isinstance(first.window, TupleWindow)
    assert list(Revenue().execute(first.window)) == [("ada", 5.0)]
    assert repr(run) == "<BoltRun: 2 windows, 2 rows; 3 received, 3 windowed>"


def test_late_events_errors_and_accounts_are_there() -> None:
    run = run_bolt(TUMBLING, [*ROWS, {"user": "cy", "amount": 1.0, "ts": None}], rows_per_batch=1)
    assert run.rows == [{"user": "ada", "revenue": 2.0}, {"user": "bob", "revenue": 1.0}]
    (late,) = run.late
    assert (late["amount"], late["_watermark"]) == (3.0, at(15))
    (error,) = run.errors
    assert "null" in error["_reason"]
    assert {name: n for name, n in run.accounts.items() if n} == {
        "received": 4, "windowed": 2, "late": 1, "invalid": 1,
    }  # fmt: skip
    assert list(run.streams) == ["default"]
    named = run_bolt(TUMBLING.with_late_tuple_stream("tardy"), ROWS, rows_per_batch=1)
    assert named.late == named.streams["tardy"] != []
    dropped = run_bolt(TUMBLING.with_lateness(action="drop"), ROWS, rows_per_batch=1)
    assert (dropped.late, dropped.accounts["dropped"]) == ([], 1)


def test_windows_stay_open_where_the_streams_do() -> None:
    run = run_bolt(TUMBLING, ROWS, keep_open=True)
    assert run.rows == [{"user": "ada", "revenue": 5.0}]
    assert run.accounts["pending"] == 1


@pytest.mark.parametrize(
    ("rows", "schema"),
    [
        (ROWS, None),
        (ROWS, "user string, amount double, ts timestamp"),
        ([tuple(row.values()) for row in ROWS], "user string, amount double, ts timestamp"),
        (iter(ROWS), None),
        (pd.DataFrame(ROWS), None),
        (pd.DataFrame(ROWS).assign(ts=lambda frame: pd.to_datetime(frame["ts"])), None),
        (pa.Table.from_pylist(ROWS), None),
        ([{**row, "ts": datetime.fromisoformat(row["ts"])} for row in ROWS], None),
        ([{**row, "ts": int(datetime.fromisoformat(row["ts"]).timestamp() * 1000)} for row in ROWS], None),
    ],
)
def test_rows_may_be_of_any_form(rows: Any, schema: str | None) -> None:
    assert run_bolt(TUMBLING, rows, schema).rows == run_bolt(TUMBLING, ROWS).rows


def test_the_clock_is_given_or_that_of_freezegun() -> None:
    bolt = Revenue().with_tumbling_window("10s")
    rows = [("ada", 1.0), ("ada", 2.0), ("ada", 3.0)]
    run = run_bolt(bolt, rows, "user string, amount double", clock=[at(1), at(9), at(11)])
    assert [(each.end, each.rows) for each in run.windows] == [
        (at(10), [{"user": "ada", "revenue": 3.0}]),
        (at(20), [{"user": "ada", "revenue": 3.0}]),
    ]
    with freezegun.freeze_time("2024-01-01T12:00:03Z"):
        (window,) = run_bolt(bolt, rows, "user string, amount double").windows
    (given_,) = run_bolt(bolt, rows, "user string, amount double", clock="2024-01-01T12:00:03Z").windows
    assert window.end == given_.end == at(10)
    ahead = datetime(2100, 1, 1, 12, 0, 3, tzinfo=UTC)  # the clock stays where it is put, also ahead of the machine's
    run = run_bolt(bolt, rows, "user string, amount double", clock=ahead, rows_per_batch=1)
    assert [each.end for each in run.windows] == [ahead + timedelta(seconds=7)]


def test_bolts_of_all_kinds() -> None:
    class Twice(Bolt):
        outputs = "n long"

        def execute(self, event):
            return [{"n": event["n"]}, {"n": event["n"]}]

    class Odd(BatchBolt):
        outputs = "n long"

        def execute(self, batch):
            return batch.filter(pa.array(batch.column("n").to_numpy() % 2 == 1))

    rows = [{"n": n} for n in (1, 2)]
    assert run_bolt(Twice(), rows).rows == [{"n": 1}, {"n": 1}, {"n": 2}, {"n": 2}]
    assert run_bolt(Odd(), rows).rows == [{"n": 1}]
    summed = AggregateBolt(by="user", n=aggregates.count()).with_tumbling_window("10s").with_timestamp_field("ts")
    assert run_bolt(summed, ROWS).rows == [{"user": "ada", "n": 2}, {"user": "bob", "n": 1}]
    sessions = (
        AggregateBolt(n=aggregates.count()).with_window(Session("5s")).with_key("user").with_timestamp_field("ts")
    )
    run = run_bolt(sessions, ROWS)
    assert [(each.window.key, each.rows) for each in run.windows] == [
        ("ada", [{"user": "ada", "n": 2}]),
        ("bob", [{"user": "bob", "n": 1}]),
    ]
    run = run_bolt(Counting().with_tumbling_window(2), [{"a": 1}] * 4)
    assert run.rows == [{"n": 2, "by": "bolt"}, {"n": 4, "by": "bolt"}]
    assert run.counters == {"calls": 2}
    by_key = Revenue().with_key("user").with_trigger(CountTrigger(Count(2), seconds(30)))
    run = run_bolt(by_key, [("ada", 1.0), ("bob", 1.0), ("ada", 2.0)], "user string, amount double")
    assert [(each.window.key, each.window.fired_by) for each in run.windows] == [("ada", "count"), ("bob", "timeout")]
    run = run_bolt(Change().with_window(2, 1), [{"amount": 1.0}, {"amount": 2.0}, {"amount": 3.0}])
    assert run.streams == {"default": [{"events": 1}] * 3, "left": [{"amount": 1.0}]}


def test_several_inputs() -> None:
    join = TemporalJoin("orders", "prices", on="item").with_timestamp_field("ts").with_lifetime("until")
    run = run_bolt(
        join,
        {
            "prices": [{"item": "tea", "price": 2.0, "ts": at(0), "until": at(60)}],
            "orders": [{"item": "tea", "n": 3, "ts": at(5)}],
        },
    )
    (row,) = run.rows
    assert (row["item"], row["price"], row["n"]) == ("tea", 2.0, 3)


JOIN = WindowJoin("orders", "prices", on="item").with_tumbling_window("10s").with_timestamp_field("ts")
SOLD = [{"item": "tea", "n": 3, "ts": at(5)}]


@pytest.mark.parametrize(
    ("rows", "schema", "told"),
    [
        (SOLD, None, r"one input, 'input'\. this WindowJoin joins 'orders' and 'prices'.*"
         r"run_bolt\(bolt, \{'orders': \[...\], 'prices': \[...\]\}\)"),
        ({"orders": SOLD, "price": SOLD}, None, "inputs 'orders', 'price'\\."),
        (SOLD, SOLD, "these are rows, and no columns.*in a mapping"),
        ({"orders": SOLD, "prices": []}, None, r"input 'prices'.*there are no rows.*schema=\{'prices': 'user string"),
    ],
)  # fmt: skip
def test_mistakes_with_several_inputs_are_told(rows: Any, schema: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        run_bolt(JOIN, rows, schema)


def test_an_input_may_be_called_bolt() -> None:
    assert run_bolt(Revenue().with_tumbling_window(1), {"bolt": [{"user": "ann", "amount": 2}]}).rows == [
        {"user": "ann", "revenue": 2.0}
    ]


def test_one_of_two_inputs_without_rows() -> None:
    run = run_bolt(JOIN, {"orders": SOLD, "prices": []}, {"prices": "item string, price double, ts timestamp"})
    assert (run.rows, run.accounts["windowed"]) == ([], 1)


def test_the_rules_of_other_systems() -> None:
    bolt = Revenue().with_time(presets.azure(late="5s", out_of_order="5s", arrival_field="arrived"))
    rows = [{**row, "arrived": row["ts"]} for row in ROWS]
    run = run_bolt(bolt.with_tumbling_window("10s").with_timestamp_field("ts"), rows)
    assert run.accounts["adjusted"] == 1


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda: run_bolt(cast("Any", Revenue), ROWS), ConfigError, r"that is a class.*Revenue\(\)"),
        (lambda: run_bolt(cast("Any", "x"), ROWS), ConfigError, "that is not a bolt"),
        (lambda: run_bolt(Revenue(), ROWS), TopologyError, "window"),
        (lambda: run_bolt(TUMBLING, [("ada", 1.0)]), ConfigError, "not known.*tuples have no column names"),
        (lambda: run_bolt(TUMBLING, []), ConfigError, "there are no rows"),
        (lambda: run_bolt(TUMBLING, {"user": "ada"}), ConfigError, "put a single row into a list"),
        (lambda: run_bolt(TUMBLING, [ROWS, ROWS]), ConfigError, "row 0 is.*for several inputs a mapping of these"),
        (lambda: run_bolt(TUMBLING, {}), ConfigError, "empty mapping of inputs"),
        (lambda: run_bolt(TUMBLING, [{"user": "ada", "tz": 1}]), TopologyError, "'ts'"),
        (lambda: run_bolt(TUMBLING, [{"a": 1}, {"a": "x"}]), SchemaError, "row 1, column 'a': 'x' is no long"),
        (lambda: run_bolt(TUMBLING, ROWS, {"imput": "a long"}), ConfigError, "'imput', which.*did you mean 'input'"),
        (lambda: make_window(ROWS, {"imput": "a long"}), ConfigError, "'imput', which.*did you mean 'input'"),
        (lambda: run_bolt(TUMBLING, ROWS, rows_per_batch=0), ConfigError, "rows_per_batch=0"),
        (lambda: run_bolt(TUMBLING, ROWS, clock=[at(1)]), ConfigError, "1 times, and there are 3 rows"),
        (lambda: run_bolt(TUMBLING, ROWS, clock=[at(2), at(3), at(1)]), ConfigError, r"clock\[2\]: the clock goes"),
        (lambda: run_bolt(TUMBLING, ROWS, clock="x"), ConfigError, "clock: expected a time"),
        (lambda: run_bolt(TUMBLING, [{**ROWS[0], "ts": "x"}]), SchemaError, "row 0, column 'ts'"),
        (lambda: make_window([{"a": 1}], new=[1]), ConfigError, "new names row 1, and there are 1 rows"),
        (lambda: make_window([{"a": 1}], start=at(1), end=at(0)), ConfigError, "start is after its end"),
        (lambda: make_window([{"a": 1}], timestamp_field="ts"), ConfigError, "timestamp_field='ts' is not a column"),
        (lambda: make_window([{"a": "x"}], timestamp_field="a"), SchemaError, "row 0, column 'a'"),
        (lambda: make_window([{"a": 1.5}], timestamp_field="a"), ConfigError, "timestamp_field='a' is double"),
        (lambda: make_window([{"a": None}], "a timestamp", timestamp_field="a"), ConfigError, "row 0: .*null"),
        (lambda: make_window([(1,)]), ConfigError, "tuples have no column names"),
        (lambda: make_window([{"a": 1}], expired=[{"b": 1}]), SchemaError, "expired: row 0: there is no column 'b'"),
        (lambda: make_window({"a": 1}), ConfigError, "put a single row into a list"),
    ],
)  # fmt: skip
def test_mistakes_are_told(call: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=rf"(?s){told}"):
        call()


def test_an_error_of_the_bolt_names_the_window() -> None:
    class Failing(Revenue):
        def execute(self, window):
            raise ValueError("no")

    class Wrong(Revenue):
        def execute(self, window):
            yield "ada", "much"

    for bolt in (Failing(), Wrong()):
        with pytest.raises(BoltError, match=r"window from 2024-01-01T12:00:00Z"):
            run_bolt(bolt.with_tumbling_window("10s").with_timestamp_field("ts"), ROWS)


def test_a_window_made_by_hand() -> None:
    window = make_window(ROWS, start=at(0), end=at(20), timestamp_field="ts", new=[1], expired=[{"amount": 9.0}])
    assert (len(window), window.start, window.end, window.task) == (3, at(0), at(20), 0)
    assert window.column("amount").tolist() == [2.0, 3.0, 1.0]
    assert window.new.column("amount").to_pylist() == [1.0]
    assert [each["amount"] for each in window.get_expired()] == [9.0]
    assert window.timestamps.tolist() == [int(at(second).timestamp()) * 10**6 for second in (1, 4, 15)]
    assert [each.stream for each in window.get()] == ["input"] * 3
    assert list(Revenue().execute(window)) == [("ada", 5.0), ("bob", 1.0)]
    plain = make_window([("ada", 1.0)], "user string, amount double", key="ada", fired_by=FiredBy.COUNT, kind=1, task=2)
    assert plain.end is not None
    assert (plain.key, plain.fired_by, plain.kind, plain.task, plain.end.year) == ("ada", "count", 1, 2, 1970)
    assert (plain.new.num_rows, plain.expired.num_rows) == (1, 0)
    assert not make_window(ROWS, expired=None).knows_expired


def test_a_window_of_several_inputs() -> None:
    window = make_window({"orders": [{"n": 1}, {"n": 2}], "prices": [{"price": 2.0}]}, {"prices": "price double"})
    assert window.stream("prices").to_pylist() == [{"n": None, "price": 2.0}]
    assert window.places("orders").tolist() == [0, 1]
    with pytest.raises(KeyError, match="orders, prices"):
        window.stream("price")


def test_a_bolt_can_be_called_as_it_would_be() -> None:
    bolt = Counting().with_tumbling_window(2)
    ready = prepared(bolt, name="counting")
    window = make_window([{"a": 1}] * 2)
    assert [ready.execute(window), ready.execute(window)] == [(2, "counting"), (4, "counting")]
    assert not hasattr(bolt, "state") or bolt is not ready
    schema = "user string, amount double, ts timestamp"
    summed = prepared(AggregateBolt(by="user", n=aggregates.count()), schema)
    assert summed.execute(make_window(ROWS, schema)).to_pylist() == [{"user": "ada", "n": 2}, {"user": "bob", "n": 1}]


@pytest.mark.parametrize("bolt", [AggregateBolt(n=aggregates.count()), AlterLifetime("end", duration="1s", start="ts")])
def test_a_bolt_whose_output_follows_from_its_input_is_not_ready_without_a_schema(bolt: Any) -> None:
    with pytest.raises(ConfigError, match=rf"prepared\({type(bolt).__name__}\) without a schema"):
        prepared(bolt)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1))
def test_a_window_by_hand_says_what_the_engines_window_says(events: list[tuple[int, int]]) -> None:
    """For what a bolt can ask of it; the window of the engine is the last of a run."""
    rows: list[dict[str, Any]] = [{"second": at(second), "n": n} for second, n in events]

    class Last(WindowedBolt):
        outputs = "n long"

        def execute(self, window):
            return None

    run = run_bolt(Last().with_tumbling_window("1m").with_timestamp_field("second"), rows, clock=at(0))
    theirs = run.windows[-1].window
    mine_of = [row for row in rows if theirs.start is None or theirs.start < row["second"] <= theirs.end]
    mine = make_window(mine_of, start=theirs.start, end=theirs.end, timestamp_field="second")
    assert mine.table.equals(theirs.table)
    assert mine.new.equals(theirs.new)
    assert np.array_equal(mine.timestamps, theirs.timestamps)
    assert [(each.values, each.timestamp, each.stream) for each in mine.get()] == [
        (each.values, each.timestamp, each.stream) for each in theirs.get()
    ]
    assert (mine.start, mine.end, len(mine)) == (theirs.start, theirs.end, len(theirs))
