"""Bolts that wait for a stream of windows before them are warned of; the example of the page on joins does not wait."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.helpers.places import ROOT
from topologies.checkpoints.preflight import blocked_watermark_warnings
from topologies.cli.app import app
from topologies.graph.describing import topology_text
from topologies.topology import Topology
from windbolt import AggregateBolt, Bolt, StatefulBolt, TopN, TopologyBuilder, Tuple, aggregates, spouts
from windbolt.testing import TopologyDriver

GUIDE = (ROOT / "docs" / "joins.md").read_text(encoding="utf-8")
IMPORTS = {"best": "orders"}


class Paid(Bolt):
    outputs = "user string, amount double, ts timestamp"

    def execute(self, tuple: Tuple) -> Any:
        if tuple["amount"] > 0:
            yield tuple["user"], tuple["amount"], tuple["ts"]


class Counted(StatefulBolt):
    outputs = "user string, amount double, ts timestamp"

    def execute(self, tuple: Tuple) -> Any:
        return dict(tuple.values)


def users(**watermark: Any) -> Topology:
    """Orders, and the best of each hour, by user; the latter bring no time along."""
    builder = TopologyBuilder("users")
    builder.set_spout("orders", spouts.memory("user string, amount double, ts timestamp"))
    best = TopN(3, "amount").with_tumbling_window("1h").with_timestamp_field("ts").with_late_tuple_stream("late")
    builder.set_bolt("best", best).global_grouping("orders")
    bolt = AggregateBolt("user", n=aggregates.count()).with_tumbling_window("1m").with_timestamp_field("ts")
    bolt = bolt.with_watermark(**watermark) if watermark else bolt
    builder.set_bolt("users", bolt).fields_grouping("orders", "user").fields_grouping("best", "user")
    return builder.build()


def closed(topology: Topology) -> bool:
    """Whether a minute's window has fired three minutes later."""
    driver = TopologyDriver(topology)
    for minute in (0, 3):
        driver.push("orders", [{"user": "ada", "amount": 1.0, "ts": f"2024-01-01T06:0{minute}:30Z"}])
    return bool(driver.read("users"))


def test_a_stream_that_holds_a_watermark_up_is_warned_of_with_what_releases_it() -> None:
    (warning,) = blocked_watermark_warnings(users())["users"].warnings
    assert "waits for 'best'" in str(warning)
    assert "with_watermark(imports={'best': 'orders'})" in str(warning)
    assert not closed(users())


def test_with_what_the_warning_says_nothing_waits() -> None:
    assert blocked_watermark_warnings(users(imports=IMPORTS)) == {}
    assert closed(users(imports=IMPORTS))
    assert blocked_watermark_warnings(users(idle_timeout="1m")) == {}


@pytest.mark.parametrize("windows", [False, True])
def test_a_bolt_without_windows_is_waited_for_only_behind_windows(windows: bool) -> None:
    builder, columns = TopologyBuilder("t"), "user string, amount double, ts timestamp"
    for name in ("orders", "others"):
        builder.set_spout(name, spouts.memory(columns))
    source, stream = ("best", "late") if windows else ("orders", "default")
    if windows:
        best = TopN(3, "amount").with_tumbling_window("1h").with_timestamp_field("ts")
        builder.set_bolt("best", best.with_late_tuple_stream("late")).global_grouping("orders")
    builder.set_bolt("counted", Counted()).global_grouping(source, stream=stream)
    after = TopN(1, "amount").with_tumbling_window("1h").with_timestamp_field("ts")
    builder.set_bolt("after", after).global_grouping("counted").global_grouping("others")
    assert set(blocked_watermark_warnings(builder.build())) == ({"after"} if windows else set())


def test_a_late_stream_is_waited_for_too_and_a_stream_with_its_time_is_not() -> None:
    for stream, warned in (("late", {"after"}), ("default", set())):
        builder = TopologyBuilder("t")
        builder.set_spout("orders", spouts.memory("user string, amount double, ts timestamp"))
        for name in ("one", "two"):
            best = TopN(3, "amount").with_tumbling_window("1h").with_timestamp_field("ts")
            builder.set_bolt(name, best.with_late_tuple_stream("late")).global_grouping("orders")
        after = TopN(1, "amount", column="place").with_tumbling_window("1h")
        after = after.with_timestamp_field("ts") if stream == "late" else after
        grouped = builder.set_bolt("after", after)
        grouped.global_grouping("one", stream=stream).global_grouping("two", stream=stream)
        assert set(blocked_watermark_warnings(builder.build())) == warned


def test_the_example_of_the_guide_does_not_wait() -> None:
    found = re.search(r"the watermark of the busy stream instead:\n\n```python\n(.*?)^```$", GUIDE, re.M | re.S)
    assert found is not None
    names: dict[str, Any] = {}
    exec(found[1], names)
    assert blocked_watermark_warnings(names["topology"]) == {}
    without = names["users"].with_watermark(imports=None)
    builder = names["builder"]
    builder.set_bolt("more", without).fields_grouping("orders", "user").fields_grouping("best", "user")
    assert list(blocked_watermark_warnings(builder.build())) == ["more"]


def test_a_topology_in_words_says_whose_rows_tell_the_time() -> None:
    builder = TopologyBuilder("t")
    builder.set_spout("orders", spouts.memory("user string, amount double, ts timestamp"))
    builder.set_bolt("paid", Paid()).shuffle_grouping("orders")
    bolt = AggregateBolt("user", n=aggregates.count()).with_tumbling_window("1m").with_timestamp_field("ts")
    builder.set_bolt("users", bolt).fields_grouping("paid", "user")
    assert "passes with the rows that paid emits" in topology_text(builder.build())
    assert "passes with the rows" not in topology_text(users())


FILE = """
from windbolt import AggregateBolt, TopN, TopologyBuilder, sinks, spouts
from windbolt.aggregates import count

builder = TopologyBuilder("users")
builder.set_spout("orders", spouts.memory("user string, amount double, ts timestamp"))
best = TopN(3, "amount").with_tumbling_window("1h").with_timestamp_field("ts")
builder.set_bolt("best", best).global_grouping("orders")
bolt = AggregateBolt("user", n=count()).with_tumbling_window("1m").with_timestamp_field("ts")
builder.set_bolt("users", bolt).fields_grouping("orders", "user").fields_grouping("best", "user")
builder.set_sink("out", sinks.memory()).from_("users")
topology = builder.build()
"""


@pytest.mark.parametrize(("command", "strict"), [("check", False), ("check", True), ("run", False), ("run", True)])
def test_check_and_run_say_so_once_and_with_strict_it_is_an_error(command: str, strict: bool, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(FILE)
    words = [command, f"{tmp_path}/shop.py:topology", *(["--engine", "local"] if command == "run" else [])]
    done = CliRunner().invoke(app, [*words, *(["--strict"] if strict else [])], env={"COLUMNS": "300"})
    assert (done.exit_code != 0) is strict
    assert done.output.count("bolt 'users' waits for 'best'") == 1
