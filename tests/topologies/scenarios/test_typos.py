"""Typos in scenarios are told: sinks that are not there, events that lack what they are taken by."""

from __future__ import annotations

from typing import Any

import pytest

from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_model import read_scenario
from topologies.scenarios.timeline import timeline_text
from topologies.topology import Topology
from windbolt import Bolt, ScenarioError, TopologyBuilder, WindowedBolt, replay, sinks, spouts

CLOSE = [{"close": True}]


class Same(Bolt):
    outputs = "user string, ts timestamp"

    def execute(self, event):
        return {"user": event["user"], "ts": event["ts"]}


class Size(WindowedBolt):
    outputs = "n long"

    def execute(self, window):
        return {"n": len(window)}


def topology() -> Topology:
    builder = TopologyBuilder("typos")
    builder.set_spout("orders", spouts.memory("user string, ts timestamp"))
    builder.set_bolt("same", Same()).shuffle_grouping("orders")
    builder.set_bolt("size", Size().with_tumbling_window("10s").with_timestamp_field("ts")).global_grouping("same")
    builder.set_sink("out", sinks.memory()).from_("size")
    return builder.build()


def scenario(**changes: Any) -> dict[str, Any]:
    return {"name": "typos", "topology": "mine", "steps": CLOSE, **changes}


@pytest.mark.parametrize("rows", [[], [{"n": 1}]])
def test_outputs_of_a_sink_that_is_not_there_are_an_error(rows: list[Any]) -> None:
    with pytest.raises(ScenarioError, match=r"a sink 'ot'.*the sinks are out; did you mean 'out'"):
        replay(scenario(expect={"outputs": {"ot": rows}}), topology())
    assert replay(scenario(expect={"outputs": {"out": []}}), topology()).ok


def test_a_bolt_that_a_scenario_describes_has_no_sinks() -> None:
    bolt = {"length": "10s", "tumbling": True, "timestamp_field": "ts"}
    with pytest.raises(ScenarioError, match=r"expect\.outputs of out.*no sinks"):
        replay({"name": "bare", "bolt": bolt, "steps": CLOSE, "expect": {"outputs": {"out": []}}})


@pytest.mark.parametrize(
    ("event", "told"),
    [({"tz": 2000}, "invalid: no 'ts', but 'tz'"), ({}, "invalid: no 'ts'"), ({"ts": None}, "invalid: ")],
)
@pytest.mark.parametrize("rules", [{}, {"watermark_every": 1}])
def test_an_event_without_its_time_is_drawn_and_said_to_be_invalid(
    event: dict[str, Any], told: str, rules: dict[str, Any]
) -> None:
    bolt = {"length": "10s", "tumbling": True, "timestamp_field": "ts", **rules}
    read = read_scenario({"name": "bare", "bolt": bolt, "steps": [{"event": {"id": "a", **event}}, *CLOSE]})
    answer = replay_locally(read)
    assert list(answer.invalid) == ["a"]
    (line,) = [line for line in timeline_text(read, answer).splitlines() if line.startswith("a ")]
    assert f"? {told}" in line


def test_so_is_one_of_a_topology_whatever_it_goes_through_before() -> None:
    steps = [
        {"event": {"user": "ada", "ts": 1000}, "stream": "orders"},
        {"crash": True},
        {"event": {"user": "bob", "tz": 2000}, "stream": "orders"},
        {"event": {"user": "cy", "ts": 3000}, "stream": "orders"},
        {"event": {"user": "dee", "ts": "noon"}, "stream": "orders"},
        *CLOSE,
    ]
    read = read_scenario(scenario(steps=steps))
    answer = replay_locally(read, topology())
    assert answer.invalid["e2"] == "timestamp is null"
    assert list(answer.invalid) == ["e2", "e4"]
    assert "ts" in answer.invalid["e4"]
    assert answer.counts["invalid"] == 2
    lines = timeline_text(read, answer).splitlines()
    assert any(line.startswith("e2 ") and "? invalid: timestamp is null" in line for line in lines)
    assert any(line.startswith("e4 ") and "? invalid: " in line for line in lines)
