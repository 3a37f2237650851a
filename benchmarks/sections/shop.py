"""The watched topology: fresh orders, in windows of a Python bolt and of sums by user."""

from __future__ import annotations

from windbolt import AggregateBolt, TopologyBuilder, WindowedBolt, sinks, spouts
from windbolt.aggregates import count, sum, window_end

SCHEMA = "user string, amount double, ts timestamp"


class Revenue(WindowedBolt):
    """Adds up revenue per user, in Python."""

    outputs = "user string, revenue double"

    def execute(self, window):
        for user, amounts in window.groups("user", "amount"):
            yield user, amounts.sum()


builder = TopologyBuilder("shop")
builder.set_spout("orders", spouts.files("in/*.jsonl", schema=SCHEMA))
revenue = Revenue().with_window("20s", "10s").with_timestamp_field("ts").with_lag("2s").with_late_tuple_stream("late")
builder.set_bolt("revenue", revenue, parallelism=2).fields_grouping("orders", "user")
totals = AggregateBolt(by="user", orders=count(), spent=sum("amount"), until=window_end())
builder.set_bolt("totals", totals.with_window("10s", "1s").with_timestamp_field("ts").with_lag("2s")).fields_grouping(
    "orders", "user"
)
for name in ("revenue", "totals"):
    builder.set_sink(f"{name}-out", sinks.files(f"{name}/", format="jsonl")).from_(name)
topology = builder.build()
