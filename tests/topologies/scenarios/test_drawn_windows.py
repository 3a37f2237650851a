"""A drawing says of each window whose it is, and which of its edges belong to it."""

from __future__ import annotations

from typing import Any

import pytest

from topologies import TopologyBuilder, sinks, spouts
from topologies.scenarios.draw.plain_text import picture
from topologies.scenarios.run.replay import replay_locally
from topologies.scenarios.schema.scenario_files import read_scenario
from topologies.topology import Topology
from windowing import Deduplicate, Session, TupleWindow, WindowedBolt


class Sizes(WindowedBolt):
    outputs = "n long"

    def execute(self, window: TupleWindow) -> Any:
        return (len(window),)


def drawn(scenario: dict[str, Any], topology: Topology | None = None) -> list[str]:
    """The lines of the windows, with single spaces."""
    read = read_scenario(scenario)
    text = picture(read, replay_locally(read, topology))
    return [" ".join(line.split()) for line in text.splitlines() if line.strip().startswith("#")]


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


def test_a_window_of_one_moment_is_at_that_moment() -> None:
    builder = TopologyBuilder("t")
    builder.set_spout("orders", spouts.memory("id string, ts long"))
    builder.set_bolt("once", Deduplicate("id", within="1h").with_timestamp_field("ts")).global_grouping("orders")
    builder.set_sink("out", sinks.memory()).from_("once")
    steps: list[dict[str, Any]] = [{"event": {"id": "a", "ts": 1_000}, "stream": "orders"}, {"close": True}]
    (line,) = drawn({"name": "s", "topology": "t", "steps": steps}, builder.build())
    assert line.split()[1:3] == ["at", "1000"]
