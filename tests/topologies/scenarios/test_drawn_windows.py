"""A drawing says of each window whose it is, and which of its edges belong to it."""

from __future__ import annotations

from typing import Any

import pytest

from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_model import read_scenario
from topologies.scenarios.timeline import timeline_text
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import Deduplicate, Session, Silence, TupleWindow, WindowedBolt


class Sizes(WindowedBolt):
    outputs = "n long"

    def execute(self, window: TupleWindow) -> Any:
        return (len(window),)


def drawn(scenario: dict[str, Any], topology: Topology | None = None) -> list[str]:
    """The lines of the windows, with single spaces."""
    read = read_scenario(scenario)
    text = timeline_text(read, replay_locally(read, topology))
    return [" ".join(line.split()) for line in text.splitlines() if line.strip().startswith("#")]


def shown(scenario: dict[str, Any], topology: Topology | None = None) -> str:
    """The picture, with single spaces."""
    read = read_scenario(scenario)
    return " ".join(timeline_text(read, replay_locally(read, topology)).split())


def topology() -> Topology:
    builder = TopologyBuilder("t")
    builder.set_spout("orders", spouts.memory("id string, ts long"))
    for name, bolt in (
        ("visits", Sizes().with_window(Session("5s"))),
        ("seconds", Sizes().with_tumbling_window("10s").with_alignment(bounds="[start, end)")),
        ("storm", Sizes().with_tumbling_window("10s")),
    ):
        builder.set_bolt(name, bolt.with_timestamp_field("ts")).global_grouping("orders")
        builder.set_sink(f"of-{name}", sinks.memory()).from_(name)
    return builder.build()


def test_windows_of_several_bolts_name_theirs_and_have_their_own_brackets() -> None:
    steps = [{"event": {"id": name, "ts": at}, "stream": "orders"} for name, at in (("a", 1_000), ("b", 4_000))]
    lines = drawn({"name": "s", "topology": "t", "steps": [*steps, {"close": True}]}, topology())
    extents = {line.split(":")[0].split()[-1]: line.split()[1] for line in lines}
    assert extents == {"visits": "[1000..9000)", "seconds": "[0..10000)", "storm": "(0..10000]"}


@pytest.mark.parametrize(
    ("bolt", "times", "extents"),
    [
        ({"session": {"gap": "5s"}}, [1_000, 4_000], ["[1000..9000)"]),
        ({"preset": {"azure": {}}, "session": {"gap": "5s", "max_duration": "10s"}}, [1_000, 4_000], ["[1000..9000)"]),
        ({"preset": {"azure": {}}, "sliding_log": "5s"}, [1_000], ["(-4000..1000]"]),
        ({"length": "10s", "tumbling": True, "bounds": "[start, end)"}, [1_000], ["[0..10000)"]),
    ],
)
def test_which_edges_belong_to_a_window(bolt: dict[str, Any], times: list[int], extents: list[str]) -> None:
    steps = [{"event": {"id": f"e{at}", "ts": at}} for at in times]
    lines = drawn({"name": "s", "bolt": {**bolt, "timestamp_field": "ts"}, "steps": [*steps, {"close": True}]})
    assert [line.split()[1] for line in lines][: len(extents)] == extents


@pytest.mark.parametrize(
    "ready", [Deduplicate("id", within="1h"), Silence("1s", by="id").with_time(close_fires=True)], ids=repr
)
def test_the_moments_of_a_ready_bolt_are_not_drawn_but_counted(ready: WindowedBolt) -> None:
    builder = TopologyBuilder("t")
    builder.set_spout("orders", spouts.memory("id string, ts long"))
    builder.set_bolt("once", ready.with_timestamp_field("ts")).global_grouping("orders")
    builder.set_sink("out", sinks.memory()).from_("once")
    steps: list[dict[str, Any]] = [{"event": {"id": "a", "ts": 1_000}, "stream": "orders"}, {"close": True}]
    scenario = {"name": "s", "topology": "t", "steps": steps}
    assert drawn(scenario, builder.build()) == []
    text = shown(scenario, builder.build())
    assert "not drawn: the moments at which ready bolts without windows are called (1 of once)" in text
    assert "in no window" not in text


def test_a_window_of_one_moment_is_at_that_moment() -> None:
    bolt = {"snapshot": True, "timestamp_field": "ts"}
    (line,) = drawn({"name": "s", "bolt": bolt, "steps": [{"event": {"id": "a", "ts": 1_000}}, {"close": True}]})
    assert line.split()[1:3] == ["at", "1000"]


def test_with_several_bolts_a_tick_names_the_one_whose_watermark_it_is_and_each_has_its_accounts() -> None:
    steps = [{"event": {"id": "a", "ts": 1_000}, "stream": "orders"}, {"tick": "watermark"}, {"close": True}]
    read = read_scenario({"name": "s", "topology": "t", "steps": steps})
    lines = timeline_text(read, replay_locally(read, topology())).splitlines()
    (tick,) = (line for line in lines if line.startswith("tick (visits)"))
    assert tick.endswith("watermark 1000")
    text = shown({"name": "s", "topology": "t", "steps": steps}, topology())
    for name in ("visits", "seconds", "storm"):
        assert f"{name} received 1 = 1 windowed" in text


def test_an_event_without_an_id_that_a_window_holds_is_not_said_to_be_in_none() -> None:
    steps = [{"event": {"ts": 1_000}, "stream": "orders"}, {"close": True}]
    assert "in no window" not in shown({"name": "s", "topology": "t", "steps": steps}, topology())


@pytest.mark.parametrize(
    ("window", "corrected"),
    [
        ({"session": {"gap": "5s"}}, "#1 [1000..10000) "),
        ({"length": "10s", "tumbling": True}, "#2 (0..10000] "),
    ],
)
def test_a_window_that_retracts_says_which_it_takes_back(window: dict[str, Any], corrected: str) -> None:
    bolt = {
        **window,
        "timestamp_field": "ts",
        "late_by": "window",
        "allowed_lateness": "1h",
        "panes": {"late": True, "mode": "retracting"},
    }
    times = {"a": 1_000, "b": 60_000, "c": 5_000}
    steps: list[dict[str, Any]] = []
    for name, at in times.items():
        steps += [{"event": {"id": name, "ts": at}}, {"tick": "watermark"}]
    lines = drawn({"name": "s", "bolt": bolt, "steps": [*steps, {"close": True}]})
    (line,) = [each for each in lines if "takes back" in each]
    assert line.startswith(corrected)
    assert line.endswith("takes back #0; late: a +c")
