"""Two sources that declare how they make watermarks, and a bolt that says nothing of it (SI-17)."""

from typing import Any

from windbolt import TopologyBuilder, WindowedBolt, sinks, spouts
from windbolt.presets import streaminsight
from windowing.settings.kinds import Snapshot


class Ids(WindowedBolt):
    outputs = "ids string, until long"

    def execute(self, window: Any) -> Any:
        return ",".join(window.table.column("id").to_pylist()), window.end_timestamp // 1000


def topology() -> TopologyBuilder:
    """``a`` drops late events, ``b`` cuts them; ``b`` makes a watermark at every second event, 4 ms behind it."""
    bolt = Ids().with_window(Snapshot()).with_timestamp_field("start").with_lifetime("end")
    builder = TopologyBuilder("sources")
    columns = "id string, start long, end long"
    builder.set_spout("a", spouts.memory(columns), time=streaminsight(1, policy="drop"))
    builder.set_spout("b", spouts.memory(columns), time=streaminsight(2, "4ms", policy="adjust"))
    builder.set_bolt("windows", bolt).global_grouping("a").global_grouping("b")
    builder.set_sink("out", sinks.memory()).from_("windows")
    return builder
