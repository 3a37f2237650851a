"""The driver of users' tests: the engine itself, whose results, crashes and mistakes are as those of any run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import freezegun
import pandas as pd
import pyarrow as pa
import pytest

from topologies.testing.driver import TopologyDriver as Driver
from windbolt import (
    AggregateBolt,
    Bolt,
    BoltError,
    ConfigError,
    SchemaError,
    StatefulWindowedBolt,
    Topology,
    TopologyBuilder,
    WindowedBolt,
    aggregates,
    presets,
    run_local,
    seconds,
    sinks,
    spouts,
)
from windbolt.testing import PHASES, Phase, TopologyDriver

SCHEMA = "user string, amount double, ts timestamp"
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


def at(second: float) -> datetime:
    return NOON + timedelta(seconds=second)


def order(user: str, amount: float | None, second: float | None) -> dict[str, Any]:
    return {"user": user, "amount": amount, "ts": None if second is None else at(second)}


class Revenue(WindowedBolt):
    outputs = "user string, revenue double"

    def execute(self, window):
        for user, amounts in window.groups("user", "amount"):
            if amounts.sum() < 0:
                raise ValueError("a negative sum")
            yield user, amounts.sum()


class Positive(Bolt):
    outputs = SCHEMA

    def execute(self, event):
        return {name: event[name] for name in ("user", "amount", "ts")} if event["amount"] > 0 else None


class Visits(StatefulWindowedBolt):
    outputs = "user string, windows long"
    state_types = {"seen": dict}  # noqa: RUF012 - as users write it

    def execute(self, window):
        for (user,) in window.groups("user"):
            self.state["seen"][user] = self.state["seen"].get(user, 0) + 1
            yield user, self.state["seen"][user]


def revenue(bolt: WindowedBolt | None = None, tasks: int = 1) -> Topology:
    builder = TopologyBuilder("shop")
    builder.set_spout("orders", spouts.memory(SCHEMA))
    builder.set_bolt("positive", Positive()).shuffle_grouping("orders")
    chosen = bolt or Revenue().with_tumbling_window(seconds(10)).with_timestamp_field("ts").with_lag(seconds(5))
    builder.set_bolt("revenue", chosen, tasks).fields_grouping("positive", "user")
    builder.set_sink("out", sinks.files("/nowhere/that/exists")).from_("revenue")
    return builder.build()


def by_clock() -> Topology:
    builder = TopologyBuilder("clock")
    builder.set_spout("orders", spouts.memory("user string, amount double"))
    builder.set_bolt("revenue", Revenue().with_tumbling_window("10s")).global_grouping("orders")
    builder.set_sink("out", sinks.memory()).from_("revenue")
    return builder.build()


def chain() -> Topology:
    builder = TopologyBuilder("chain")
    builder.set_spout("orders", spouts.memory(SCHEMA))
    first = Revenue().with_tumbling_window("10s").with_timestamp_field("ts")
    builder.set_bolt("revenue", first).global_grouping("orders")
    top = AggregateBolt(total=aggregates.sum("revenue")).with_tumbling_window("20s")
    builder.set_bolt("total", top).global_grouping("revenue")
    builder.set_sink("out", sinks.discard()).from_("total")
    return builder.build()


def test_rows_in_time_on_results_out() -> None:
    driver = TopologyDriver(revenue())
    driver.push("orders", [order("ada", 2.0, 1), order("bob", -1.0, 2), order("ada", 3.0, 9)])
    assert driver.read("out") == []
    assert [row["amount"] for row in driver.pending("revenue")] == [2.0, 3.0]
    assert driver.watermark("revenue") == at(4)
    driver.push("orders", [("bob", 1.0, at(15))])
    assert driver.read("out") == [{"user": "ada", "revenue": 5.0}]
    assert driver.read("out") == []
    driver.push("orders", order("ada", 7.0, 9.5))
    (late,) = driver.late("revenue")
    assert (late["user"], late["_watermark"]) == ("ada", at(10))
    driver.push("orders", order("ada", 7.0, None))
    (bad,) = driver.read("revenue.errors")
    assert "null" in bad["_reason"]
    driver.close()
    assert driver.read("out") == [{"user": "bob", "revenue": 1.0}]
    accounts = driver.accounts("revenue")
    assert {name: number for name, number in accounts.items() if number} == {
        "received": 5, "windowed": 3, "late": 1, "invalid": 1,
    }  # fmt: skip
    assert [row["amount"] for row in driver.read("positive")] == [2.0, 3.0, 1.0, 7.0, 7.0]
    assert driver.table("out").num_rows == 2


def test_windows_say_what_they_hold_and_what_came_of_them() -> None:
    driver = TopologyDriver(revenue())
    driver.push("orders", [order("ada", 2.0, 1), order("bob", 4.0, 2), order("ada", 3.0, 16)])
    (window,) = driver.windows("revenue")
    assert (window.start, window.end, window.size) == (at(0), at(10), 2)
    assert window.events == window.new == [order("ada", 2.0, 1), order("bob", 4.0, 2)]
    assert window.rows == [{"user": "ada", "revenue": 2.0}, {"user": "bob", "revenue": 4.0}]
    assert window.window.column("amount").tolist() == [2.0, 4.0]
    assert driver.windows("revenue") == []
    driver.close()
    (window,) = driver.windows("revenue")
    assert window.rows == [{"user": "ada", "revenue": 3.0}]
    assert window.expired == [order("ada", 2.0, 1), order("bob", 4.0, 2)]
    assert repr(window).endswith("12:00:20Z: 1 event, emitted {'user': 'ada', 'revenue': 3.0}>")
    driver = TopologyDriver(revenue())
    driver.push("orders", [order(str(n), 1.0, 1) for n in range(9)])
    driver.close()
    (window,) = driver.windows("revenue")
    assert repr(window).endswith("and 6 more>")


def test_an_aggregate_bolt_adds_up_slices_as_in_any_run() -> None:
    """Not its events: a mistake in merging partial results would else be found by no test of its user's."""

    def merged(states: list[dict[str, float]]) -> dict[str, float]:
        calls.append(len(states))
        return {"low": min(each["low"] for each in states)}

    calls: list[int] = []
    least = aggregates.combine(
        "amount", fold=lambda values: {"low": values.min()}, merge=merged, finish=lambda state: state["low"],
        state="struct<low: double>", result="double",
    )  # fmt: skip
    bolt = AggregateBolt(by="user", n=aggregates.count(), least=least).with_window("20s", "10s")
    driver = TopologyDriver(revenue(bolt.with_timestamp_field("ts")))
    driver.push("orders", [order("ada", 2.0, 1), order("bob", 4.0, 2), order("ada", 3.0, 12), order("bob", 9.0, 41)])
    assert calls
    first, second, third = driver.windows("revenue")
    assert (first.start, first.end, first.size) == (at(-10), at(10), 2)
    assert (second.start, second.end, second.size) == (at(0), at(20), 3)
    assert second.rows == [{"user": "ada", "n": 2, "least": 2.0}, {"user": "bob", "n": 1, "least": 4.0}]
    assert third.rows == [{"user": "ada", "n": 1, "least": 3.0}]
    with pytest.raises(ConfigError, match="adds up events as they arrive"):
        _ = second.events
    with pytest.raises(ConfigError, match=r"accounts\('revenue'\)"):
        driver.pending("revenue")


def test_the_clock_moves_windows_in_processing_time() -> None:
    driver = TopologyDriver(by_clock(), clock=at(1))
    driver.push("orders", ("ada", 1.0))
    driver.advance_clock("9s")
    assert driver.read("out") == []
    driver.push("orders", ("ada", 2.0))
    driver.advance_clock(to=at(11))
    assert [(each.end, each.size) for each in driver.windows("revenue")] == [(at(10), 2)]
    assert driver.clock == at(11)
    assert driver.watermark("revenue") is None


def test_the_clock_is_that_of_freezegun() -> None:
    with freezegun.freeze_time("2024-01-01T12:00:01Z") as frozen:
        driver = TopologyDriver(by_clock())
        driver.push("orders", [("ada", 1.0)])
        frozen.tick(8)
        driver.push("orders", [("ada", 2.0)])
        assert driver.clock == at(9)
        driver.advance_clock("1500ms")
        assert driver.clock == at(10.5)
        frozen.tick(1)
        assert driver.clock == at(11.5)
        assert driver.read("out") == [{"user": "ada", "revenue": 3.0}]
        driver = TopologyDriver(revenue())
        driver.push("orders", {"user": "ada", "amount": 1.0, "ts": datetime.now(UTC)})
        driver.close()
        assert driver.read("out") == [{"user": "ada", "revenue": 1.0}]


def test_without_a_clock_it_is_the_machine_s_and_the_first_word_on_it_may_be_the_test_s() -> None:
    before = datetime.now(UTC)
    driver = TopologyDriver(by_clock())
    assert before - timedelta(milliseconds=1) <= driver.clock <= datetime.now(UTC)
    driver.push("orders", ("ada", 1.0), clock=at(3))
    assert driver.clock == at(3)
    driver.push("orders", ("ada", 1.0), clock=at(13))
    assert driver.read("out") == [{"user": "ada", "revenue": 1.0}]


@pytest.mark.parametrize(
    "rules",
    [
        None,
        presets.atlas("0s"),
        presets.azure(late="5m", out_of_order="2s", arrival_field="ts"),
        presets.streaminsight(1, "2s"),
    ],
)
def test_a_watermark_can_be_promised(rules: Any) -> None:
    bolt = Revenue()
    if rules is not None:
        bolt = bolt.with_time(rules)
    bolt = bolt.with_tumbling_window("10s").with_timestamp_field("ts")
    driver = TopologyDriver(revenue(bolt), clock=at(0))
    driver.push("orders", order("ada", 1.0, 1))
    driver.advance_watermark(at(9))
    assert driver.read("out") == []
    driver.advance_watermark(at(11))
    assert driver.read("out") == [{"user": "ada", "revenue": 1.0}]
    assert driver.watermark("revenue") == at(11)
    driver.push("orders", order("ada", 1.0, 12))
    assert driver.watermark("revenue") in (at(11), at(12))
    driver.advance_watermark(at(21))
    assert driver.read("out") == [{"user": "ada", "revenue": 1.0}]


def test_a_promise_is_of_all_inputs_and_of_the_bolts_behind_and_outlives_a_crash() -> None:
    driver = TopologyDriver(chain(), clock=at(0))
    driver.push("orders", order("ada", 1.0, 1))
    driver.crash("fire")
    driver.advance_watermark(at(25))
    assert driver.watermark("revenue") == at(25)
    assert driver.read("out") == [{"total": 1.0}]
    driver.crash("committed")
    driver.advance_watermark(at(45))
    assert driver.watermark("revenue") == at(45)
    with pytest.raises(ConfigError, match=r"goes back.*12:00:45"):
        driver.advance_watermark(at(44))
    with pytest.raises(ConfigError, match=r"is at \S+12:00:45\S* already"):
        driver.advance_watermark(at(45))
    with pytest.raises(ConfigError, match="name one of revenue"):
        driver.advance_watermark(at(60), bolt="total")
    with pytest.raises(ConfigError, match="no watermark to move"):
        TopologyDriver(by_clock()).advance_watermark(at(60))


def test_an_interval_between_watermarks_does_not_hold_a_promise_back() -> None:
    bolt = Revenue().with_tumbling_window("10s").with_timestamp_field("ts").with_watermark_interval("1h")
    driver = TopologyDriver(revenue(bolt), clock=at(0))
    driver.push("orders", order("ada", 1.0, 1))
    driver.push("orders", order("ada", 1.0, 21))
    assert driver.read("out") == []
    driver.advance_watermark(at(20))
    assert driver.read("out") == [{"user": "ada", "revenue": 1.0}]


def test_the_phases_are_those_of_the_engine() -> None:
    driver, begun = TopologyDriver(revenue()), list[str]()
    driver._run.micro_batch.hook = begun.append
    driver.push("orders", order("ada", 1.0, 1))
    assert tuple(dict.fromkeys(begun)) == PHASES == get_args(Phase)


@pytest.mark.parametrize("phase", PHASES)
def test_a_crash_changes_nothing(phase: Phase) -> None:
    bolt = Visits().with_window("20s", "10s").with_timestamp_field("ts")
    calm, crashing = TopologyDriver(revenue(bolt)), TopologyDriver(revenue(bolt))
    for second in range(0, 60, 7):
        for driver in (calm, crashing):
            if driver is crashing:
                driver.crash(phase)
            driver.push("orders", [order("ada", 1.0, second), order("bob", 1.0, second + 1), order("bob", 1.0, 3)])
    assert calm.accounts("revenue")["late"] == crashing.accounts("revenue")["late"] > 0
    for driver in (calm, crashing):
        driver.close()
    assert crashing.read("out") == calm.read("out") != []
    assert [repr(each) for each in crashing.windows("revenue")] == [repr(each) for each in calm.windows("revenue")]
    assert crashing.late("revenue") == calm.late("revenue")
    assert crashing.accounts("revenue") == calm.accounts("revenue")


def test_it_comes_to_what_a_run_comes_to() -> None:
    rows = [order("ada", float(n), n * 3) for n in range(20)]
    taken = sinks.memory()
    builder = TopologyBuilder("run")
    builder.set_spout("orders", spouts.memory(SCHEMA, rows[:10], rows[10:]))
    bolt = Revenue().with_window("20s", "10s").with_timestamp_field("ts").with_lag("5s")
    builder.set_bolt("revenue", bolt, 2).fields_grouping("orders", "user")
    builder.set_sink("out", taken).from_("revenue")
    topology = builder.build()
    driver = TopologyDriver(topology)
    driver.push("orders", rows[:10])
    driver.push("orders", pa.Table.from_pylist(rows[10:]))
    driver.close()
    assert taken.rows == []
    run_local(topology)
    assert driver.read("out") == taken.rows != []


def test_an_error_of_a_bolt_is_raised_and_the_batch_has_not_been() -> None:
    driver = TopologyDriver(revenue(Revenue().with_tumbling_window("10s").with_timestamp_field("ts")))
    driver.push("orders", [order("ada", 1.0, 1)])

    class Failing(Revenue):
        def execute(self, window):
            raise ValueError("no")

    failing = TopologyDriver(revenue(Failing().with_tumbling_window("10s").with_timestamp_field("ts")))
    failing.push("orders", [order("ada", 1.0, 1)])
    for _ in range(2):
        with pytest.raises(BoltError, match=r"'revenue'.*no"):
            failing.push("orders", [order("ada", 1.0, 20)])
    assert failing.accounts("revenue")["received"] == 1
    assert failing.windows("revenue") == []
    assert failing.read("positive") == [order("ada", 1.0, 1)]


def test_rows_may_be_of_any_form() -> None:
    driver = TopologyDriver(revenue(tasks=2))
    rows = [("ada", 1, "2024-01-01T12:00:01Z"), ("bob", 2.5, "2024-01-01T13:00:02+01:00"), ("cy", 3.0, 1704110403000)]
    expected = [order("ada", 1.0, 1), order("bob", 2.5, 2), order("cy", 3.0, 3)]
    driver.push("orders", rows)
    driver.push("orders", expected)
    driver.push("orders", pd.DataFrame(expected))
    driver.push("orders", pd.DataFrame(rows[:2], columns=["user", "amount", "ts"]))
    driver.push("orders", pa.Table.from_pylist(expected).to_batches()[0])
    driver.push("orders", (tuple(row.values()) for row in expected))
    driver.push("orders", {"amount": 1.0, "ts": at(4)})
    found = driver.read("orders")
    assert found == expected * 3 + expected[:2] + expected * 2 + [order("ada", 1.0, 4) | {"user": None}]


def test_several_spouts_come_in_one_batch_in_the_order_of_their_declaration() -> None:
    builder = TopologyBuilder("two")
    builder.set_spout("prices", spouts.memory("n long, ts timestamp"))
    builder.set_spout("orders", spouts.memory("n long, ts timestamp"))
    bolt = AggregateBolt(ns=aggregates.collect("n")).with_tumbling_window("10s").with_timestamp_field("ts")
    builder.set_bolt("all", bolt).global_grouping("prices").global_grouping("orders")
    driver = TopologyDriver(builder.build())
    driver.push_together({"orders": [(2, at(1))], "prices": [(1, at(1))]})
    assert driver.watermark("all") == at(1)
    driver.close()
    assert driver.read("all") == [{"ns": [1, 2]}]


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda d: d.push("order", []), ConfigError, r"no spout 'order'.*there are orders; did you mean 'orders'"),
        (lambda d: d.read("ouT"), ConfigError, r"no sink or stream 'ouT'.*did you mean 'out'"),
        (lambda d: d.table("revenu"), ConfigError, r"no sink or stream.*did you mean 'revenue'"),
        (lambda d: d.windows("revenues"), ConfigError, r"no windowed bolt.*did you mean 'revenue'"),
        (lambda d: d.accounts("positive"), ConfigError, r"'positive' has no windows.*read\('positive'\)"),
        (lambda d: d.late("x"), ConfigError, "no windowed bolt 'x'"),
        (lambda d: d.watermark("x"), ConfigError, "no windowed bolt 'x'"),
        (lambda d: d.advance_watermark(at(1), bolt="x"), ConfigError, "no windowed bolt 'x'"),
        (lambda d: d.crash("comit"), ConfigError, r"no phase 'comit'.*did you mean 'commit'"),
        (lambda d: d.push("orders", [{"usr": "a"}]), SchemaError, r"row 0: there is no column 'usr'.*mean 'user'"),
        (lambda d: d.push("orders", pd.DataFrame({"usr": ["a"]})), SchemaError, r"no column 'usr'"),
        (lambda d: d.push("orders", [{}, {"amount": "x"}]), SchemaError, r"row 1, column 'amount': 'x' is no double"),
        (lambda d: d.push("orders", [{"ts": "noon"}]), SchemaError, r"row 0, column 'ts': 'noon'.*ISO 8601"),
        (lambda d: d.push("orders", [{"ts": 1e30}]), SchemaError, r"row 0, column 'ts'"),
        (lambda d: d.push("orders", [("ada", 1.0)]), SchemaError, r"row 0 has 2 values.*there are 3 columns"),
        (lambda d: d.push("orders", pa.table({"amount": ["x"]})), SchemaError, r"'amount' is string.*declared double"),
        (lambda d: d.push("orders", "ada"), ConfigError, r"'ada' are not rows.*dicts or tuples"),
        (lambda d: d.push("orders", ["ada"]), ConfigError, r"row 0 is 'ada'"),
        (lambda d: d.push("orders", 7), ConfigError, r"7 are not rows"),
        (lambda d: d.push_together([{}]), ConfigError, r"rows of each spout by its name"),
        (lambda d: d.push("orders", [], clock=at(-1)), ConfigError, r"goes back, from .*12:00:00Z to .*11:59:59Z"),
        (lambda d: d.advance_clock(to=at(-1)), ConfigError, r"the clock goes back"),
        (lambda d: d.advance_clock("-1s"), ConfigError, r"-1s"),
        (lambda d: d.advance_clock(), ConfigError, r"either a duration or to"),
        (lambda d: d.advance_clock("1s", to=at(2)), ConfigError, r"either a duration or to"),
        (lambda d: d.advance_clock(to="soon"), ConfigError, r"to: expected a time, found 'soon'.*ISO 8601"),
        (lambda d: d.advance_watermark(None), ConfigError, r"to: expected a time"),
    ],
)  # fmt: skip
def test_mistakes_are_told_and_change_nothing(call: Any, error: type[Exception], told: str) -> None:
    driver = TopologyDriver(revenue(), clock=at(0))
    with pytest.raises(error, match=rf"(?s){told}"):
        call(driver)
    driver.push("orders", order("ada", 1.0, 1))
    driver.close()
    assert driver.read("out") == [{"user": "ada", "revenue": 1.0}]


@pytest.mark.parametrize(
    "call",
    [
        lambda d: d.push("orders", []),
        lambda d: d.advance_clock("1s"),
        lambda d: d.advance_watermark(at(100)),
        lambda d: d.crash(),
        lambda d: d.close(),
    ],
)
def test_nothing_comes_after_the_end(call: Any) -> None:
    driver = TopologyDriver(revenue())
    driver.close()
    with pytest.raises(ConfigError, match=r"after the end of the streams.*make another driver"):
        call(driver)


def test_what_is_no_topology_is_told() -> None:
    with pytest.raises(ConfigError, match=r"give builder\.build\(\)"):
        Driver(TopologyBuilder("x"))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="give the topology"):
        Driver("topology.py")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="clock: expected a time"):
        Driver(revenue(), clock="noon")


def test_it_reads_and_writes_nothing_and_leaves_the_topology_as_it_was() -> None:
    topology = revenue()
    before = topology.windowed["revenue"].bolt
    driver = TopologyDriver(topology)
    driver.push("orders", order("ada", 1.0, 1))
    driver.close()
    assert "execute" not in vars(before)
    assert topology.sinks["out"].sink != driver.topology.sinks["out"].sink
    assert len(repr(driver)) < 120
    assert "1 windowed" in driver.story()
    assert not TopologyDriver.__test__
