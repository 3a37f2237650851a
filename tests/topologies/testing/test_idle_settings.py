"""What the guide says of settings for quiet inputs: which windows fire, and what happens to late events then."""

from __future__ import annotations

from typing import Any

import pytest

from windbolt import AggregateBolt, Panes, Topology, TopologyBuilder, sinks, spouts
from windbolt import aggregates as agg
from windbolt.panes import after_clock
from windbolt.testing import TopologyDriver


def _topology(early: Any = None, **watermark: Any) -> Topology:
    builder = TopologyBuilder("sensors")
    for line in ("a", "b"):
        builder.set_spout(line, spouts.memory("sensor string, ts timestamp"))
    bolt = AggregateBolt(by="sensor", n=agg.count()).with_key("sensor").with_tumbling_window("1m")
    bolt = bolt.with_timestamp_field("ts").with_alignment(bounds="[start, end)").with_late_tuple_stream("late")
    bolt = bolt.with_lateness(by="window", allowed="10m").with_trigger(Panes(early=early, late=True, mode="retracting"))
    bolt = bolt.with_watermark(**watermark) if watermark else bolt
    builder.set_bolt("minutes", bolt).fields_grouping("a").fields_grouping("b")
    builder.set_sink("out", sinks.memory()).from_("minutes")
    return builder.build()


def _at(minute: int, second: int = 0) -> str:
    return f"2025-03-30T10:{minute:02}:{second:02}Z"


def _event(line: str, minute: int, second: int = 0) -> list[dict[str, Any]]:
    return [{"sensor": f"{line}-1", "ts": _at(minute, second)}]


def _rows(driver: TopologyDriver) -> list[tuple[str, int, bool]]:
    return [(row["sensor"], row["n"], row["_retract"]) for row in driver.read("out")]


def _started(topology: Topology) -> TopologyDriver:
    driver = TopologyDriver(topology, clock=_at(0))
    driver.push_together({"a": _event("a", 0, 10), "b": _event("b", 0, 10)}, clock=_at(0, 10))
    return driver


def _one_is_quiet(driver: TopologyDriver) -> None:
    for minute in range(1, 4):
        driver.push("a", _event("a", minute), clock=_at(minute))


ONE = {"partition_idle_timeout": "1m"}
ALL = {"idle_timeout": "1m"}


@pytest.mark.parametrize(("settings", "fires"), [({}, False), (ALL, False), (ONE, True), (ONE | ALL, True)])
def test_one_quiet_input_holds_windows_up_unless_it_is_left_out(settings: dict[str, Any], fires: bool) -> None:
    driver = _started(_topology(**settings))
    _one_is_quiet(driver)
    assert bool(_rows(driver)) == fires


@pytest.mark.parametrize("settings", [ONE, ONE | {"idle_timeout": "1h"}])
def test_a_window_that_fired_without_the_quiet_input_is_corrected_for_its_events(settings: dict[str, Any]) -> None:
    driver = _started(_topology(**settings))
    _one_is_quiet(driver)
    assert ("b-1", 1, False) in _rows(driver)
    driver.push("b", _event("b", 0, 20), clock=_at(3, 1))
    assert _rows(driver) == [("b-1", 1, True), ("b-1", 2, False)]
    assert not driver.late("minutes")


@pytest.mark.parametrize(("settings", "fires"), [({}, False), (ONE, False), (ALL, True), (ONE | ALL, True)])
def test_if_all_are_quiet_the_clock_closes_windows_only_by_the_idle_timeout(
    settings: dict[str, Any], fires: bool
) -> None:
    driver = _started(_topology(**settings))
    driver.advance_clock("5m")
    assert bool(_rows(driver)) == fires


@pytest.mark.parametrize("settings", [ALL, ONE | ALL])
def test_what_the_idle_timeout_closed_is_not_corrected(settings: dict[str, Any]) -> None:
    driver = _started(_topology(**settings))
    driver.advance_clock("5m")
    assert len(_rows(driver)) == 2
    driver.push("b", _event("b", 0, 20))
    assert _rows(driver) == []
    assert len(driver.late("minutes")) == 1


def test_early_firings_by_the_clock_show_rows_while_all_are_quiet_and_are_corrected_afterwards() -> None:
    driver = _started(_topology(after_clock("1m"), **ONE))
    driver.advance_clock("5m")
    assert _rows(driver) == [("a-1", 1, False), ("b-1", 1, False)]
    driver.push("b", _event("b", 0, 20))
    driver.advance_clock("2m")
    assert _rows(driver) == [("b-1", 1, True), ("b-1", 2, False)]
    assert not driver.late("minutes")
