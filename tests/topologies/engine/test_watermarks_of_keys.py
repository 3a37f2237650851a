"""Watermarks of keys: the bound that arrivals give is that of all keys, whatever task has them."""

from typing import Any

import pytest

from topologies.testing.driver import TopologyDriver
from windbolt import TopologyBuilder, spouts
from windowing import WindowedBolt, presets


class Times(WindowedBolt):
    outputs = "k string, ts timestamp"

    def execute(self, window: Any) -> list[Any]:
        return [(event["k"], event.timestamp) for event in window.get()]


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_an_event_behind_the_arrivals_is_late_on_any_number_of_tasks(tasks: int) -> None:
    builder = TopologyBuilder("keys")
    builder.set_spout("s", spouts.memory("k string, ts timestamp, at timestamp"))
    bolt = Times().with_tumbling_window("5s").with_timestamp_field("ts").with_key("k").with_watermark(per_key=True)
    bolt = bolt.with_time(presets.azure(late="5s", early="1h", action="drop", arrival_field="at"))
    builder.set_bolt("b", bolt, tasks).fields_grouping("s", "k")
    driver = TopologyDriver(builder.build(), clock=0)
    driver.push("s", [("first", 57_000, 57_000)], clock=57_000)
    driver.push("s", [], clock=60_000)
    # Each is in time by its own arrival, and behind 60 s - 5 s, before which no key has events any more.
    driver.push("s", [(f"k{number}", 51_000, 52_000) for number in range(20)], clock=60_000)
    assert driver.accounts("b")["dropped"] == 20, driver.story()
