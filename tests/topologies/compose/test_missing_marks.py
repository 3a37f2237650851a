"""A bolt that waits for watermarks of a source without a column for them is refused: its windows could never fire."""

from __future__ import annotations

from typing import Any

import pytest

from topologies.topology import Topology
from windbolt import AggregateBolt, TopologyBuilder, TopologyError, presets, replay, spouts
from windbolt.aggregates import count
from windbolt.testing import TopologyDriver

PLAIN, MARKED = "user string, ts timestamp", "user string, ts timestamp, mark timestamp"


def built(*, second: str = PLAIN, **watermark: Any) -> Topology:
    builder = TopologyBuilder("t")
    builder.set_spout("orders", spouts.memory(MARKED))
    builder.set_spout("refunds", spouts.memory(second))
    bolt = AggregateBolt("user", n=count()).with_tumbling_window("1m").with_timestamp_field("ts")
    declared = builder.set_bolt("n", bolt.with_watermark(field="mark", **watermark))
    declared.fields_grouping("orders", "user").fields_grouping("refunds", "user")
    return builder.build()


def fired(topology: Topology, *, marked: tuple[str, ...] = ("orders",)) -> list[dict[str, Any]]:
    """What has come out before the end of the streams, when each source has gone on for three minutes."""
    driver = TopologyDriver(topology, clock="2024-01-01T06:00:00Z")
    for minute in range(4):
        event = {"user": "ada", "ts": f"2024-01-01T06:0{minute}:30Z"}
        mark = {"mark": f"2024-01-01T06:0{minute}:00Z"}
        driver.push_together({name: [event, mark] if name in marked else [event] for name in ("orders", "refunds")})
        driver.advance_clock("1m")
    return driver.read("n")


def test_an_input_without_the_column_is_refused_with_what_helps() -> None:
    with pytest.raises(TopologyError) as caught:
        built()
    (problem,) = caught.value.problems
    assert problem.what == "bolt 'n': no watermark can come from 'refunds', which has no column 'mark'"
    assert "imports={'refunds': 'orders'}" in problem.do
    assert "every=1" in problem.do


@pytest.mark.parametrize(
    "watermark",
    [{"imports": {"refunds": "orders"}}, {"every": 1}, {"partition_idle_timeout": "30s"}, {"combine": "max"}],
    ids=str,
)
def test_what_helps_is_accepted_and_windows_fire(watermark: dict[str, Any]) -> None:
    assert len(fired(built(**watermark))) >= 2


def test_where_both_have_the_column_windows_fire() -> None:
    assert len(fired(built(second=MARKED), marked=("orders", "refunds"))) >= 2


@pytest.mark.parametrize("every", [None, 10])
def test_sources_that_declare_their_watermarks_are_asked_one_by_one(every: int | None) -> None:
    """A source that makes watermarks of its events needs no column (SI-17)."""
    builder = TopologyBuilder("t")
    builder.set_spout("orders", spouts.memory(MARKED), time=presets.streaminsight(None, field="mark"))
    other = presets.streaminsight(every) if every else presets.streaminsight(None, field="mark")
    builder.set_spout("refunds", spouts.memory(PLAIN), time=other)
    bolt = AggregateBolt("user", n=count()).with_tumbling_window("1m").with_timestamp_field("ts")
    builder.set_bolt("n", bolt).fields_grouping("orders", "user").fields_grouping("refunds", "user")
    if every:
        builder.build()
    else:
        with pytest.raises(TopologyError, match="no watermark can come from 'refunds'"):
            builder.build()


def test_watermarks_of_another_input_are_not_taken_beside_marks_of_partitions() -> None:
    scenario = {
        "name": "imports of partitions",
        "streams": ["s1", "s2"],
        "bolt": {
            "length": "10ms",
            "tumbling": True,
            "timestamp_field": "ts",
            "watermark_partition": "p",
            "imports": {"s2": "s1"},
        },
        "steps": [],
    }
    with pytest.raises(TopologyError, match="imports watermarks, and has one mark for each partition"):
        replay(scenario)
