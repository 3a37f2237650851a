"""Rows with the last microsecond of their window as time are in the windows of the next bolt that hold this window."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from topologies.scenarios.scenario_model import Scenario
from topologies.testing.replaying import replay
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import TupleWindow, WindowedBolt
from windowing.durations import millis
from windowing.errors import ConfigError, TopologyError
from windowing.schema import EmittedRows
from windowing.settings.kinds import Calendar, Session, SlidingLog
from windowing.settings.rules import OutputTime

Json = dict[str, Any]


class Ends(WindowedBolt):
    outputs = "end long, n long"

    def execute(self, window: TupleWindow) -> EmittedRows:
        return window.end_timestamp, len(window)


class Gathered(WindowedBolt):
    outputs = "end long, ends array<long>"

    def execute(self, window: TupleWindow) -> EmittedRows:
        return window.end_timestamp, sorted(window.table.column("end").to_pylist())


def topology(bolt: WindowedBolt, after: int) -> Topology:
    """A bolt, and one behind it with windows of so many milliseconds."""
    builder = TopologyBuilder("chain")
    builder.set_spout("s", spouts.memory("id string, k string, ts long"))
    bolt = bolt.with_timestamp_field("ts").with_time(output_time="window last")
    builder.set_bolt("bolt", bolt).global_grouping("s")
    builder.set_sink("rows", sinks.memory()).from_("bolt")
    gathered = Gathered().with_tumbling_window(millis(after)).with_alignment(bounds="[start, end)")
    builder.set_bolt("after", gathered).global_grouping("bolt")
    builder.set_sink("out", sinks.memory()).from_("after")
    return builder.build()


def scenario(*steps: int | str) -> Scenario:
    """Events by their times in milliseconds, and other steps."""
    given = [
        {"event": {"id": f"e{number}", "k": "ab"[step % 2], "ts": step}, "stream": "s"}
        if isinstance(step, int) else {step: "watermark" if step == "tick" else True}
        for number, step in enumerate(steps)
    ]  # fmt: skip
    return Scenario.model_validate({"name": "chain", "topology": "t", "steps": given})


BOLTS = {
    "tumbling": Ends().with_tumbling_window("5ms"),
    "hopping": Ends().with_window("6ms", "2ms").with_alignment(offset="1ms"),
    "gaps": Ends().with_window("2ms", "5ms"),
    "of keys": Ends().with_key("k").with_tumbling_window("5ms"),
    "late by window": Ends().with_tumbling_window("5ms").with_lateness(by="window", allowed="3ms"),
    "a watermark at each event": Ends().with_window("6ms", "3ms").with_watermark(every=1),
    "a watermark for each key": Ends().with_key("k").with_tumbling_window("5ms").with_watermark(per_key=True),
    "empty too": Ends().with_key("k").with_tumbling_window("5ms").with_empty_windows(until="20ms"),
    "sessions": Ends().with_window(Session("4ms")),
}


@examples(150, by_default=60)
@given(
    st.sampled_from(sorted(BOLTS)),
    st.lists(st.integers(0, 60) | st.sampled_from(["tick", "tick", "crash"]), max_size=25),
    st.sampled_from([5, 10, 7]),
)
def test_every_row_is_in_the_window_that_holds_its_last_microsecond(name: str, steps: list[Any], after: int) -> None:
    bolt = BOLTS[name].with_alignment(bounds="[start, end)") if name != "sessions" else BOLTS[name]
    answer = replay(scenario(*steps, "close"), topology(bolt, after))
    expected: dict[int, list[int]] = {}
    for row in answer.outputs["rows"]:
        expected.setdefault((row["end"] - 1) // (after * 1000) * after * 1000 + after * 1000, []).append(row["end"])
    found = {row["end"]: row["ends"] for row in answer.outputs["out"]}
    assert found == {end: sorted(ends) for end, ends in expected.items()}
    assert len(answer.outputs["out"]) == len(found)


def test_the_next_window_is_complete_at_the_same_watermark() -> None:
    bolt = BOLTS["tumbling"].with_alignment(bounds="[start, end)")
    answer = replay(scenario(1, 7, "tick", 10, "tick"), topology(bolt, 10))
    assert answer.outputs["out"] == [{"end": 10_000, "ends": [5_000, 10_000]}]


@pytest.mark.parametrize(
    "bolt",
    [
        Ends().with_tumbling_window("5ms"),
        Ends().with_window(SlidingLog("5ms")),
        Ends().with_window(Calendar("day", "UTC")).with_alignment(bounds="(start, end]"),
        Ends().with_window("5ms", 2).with_alignment(bounds="[start, end)"),
    ],
)
def test_a_window_that_holds_its_end_has_its_last_moment_there(bolt: WindowedBolt) -> None:
    with pytest.raises(TopologyError, match="the last microsecond before the end of windows that hold their end"):
        topology(bolt, 5)


def test_a_watermark_follows_edges_alone() -> None:
    with pytest.raises(ConfigError, match="a watermark follows the ends of windows"):
        Ends().with_time(output_watermark=OutputTime.LAST)
