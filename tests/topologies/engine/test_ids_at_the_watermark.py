"""Message ids of windows of counts: an event at the very watermark ends the life of others, wherever batches end."""

from __future__ import annotations

from typing import Any

import pytest

from topologies.testing.driver import TopologyDriver
from windbolt import TopologyBuilder, spouts
from windowing import Count, TupleWindow, WindowedBolt


class Ids(WindowedBolt):
    outputs = "ids array<string>"

    def execute(self, window: TupleWindow) -> Any:
        return [([event["id"] for event in window.get()],)]


ROWS = [("c", 0), ("a", 0), ("d", 1), ("b", 8), ("e", 7), ("a", 1)]


@pytest.mark.parametrize("size", [1, 2, 3, len(ROWS)])
def test_an_id_is_over_with_an_event_at_the_watermark_wherever_batches_end(size: int) -> None:
    """At 8 the watermark is 7; e, at 7, fires the window of a, d and e, and no other can hold a."""
    builder = TopologyBuilder("ids")
    builder.set_spout("s", spouts.memory("id string, ts timestamp"))
    bolt = Ids().with_window(Count(3)).with_timestamp_field("ts").with_watermark(every=1).with_lag("1ms")
    builder.set_bolt("b", bolt.with_message_id_field("id")).global_grouping("s")
    driver = TopologyDriver(builder.build(), clock=0)
    for at in range(0, len(ROWS), size):
        driver.push("s", ROWS[at : at + size])
    accounts = driver.accounts("b")
    assert (accounts["duplicate"], accounts["late"]) == (0, 1), driver.story()
