"""Spending of each user per minute: the topology of {{name}}."""

from collections.abc import Iterator
from pathlib import Path

from windbolt import (
    TopologyBuilder,
    TupleWindow,
    WindowedBolt,
    minutes,
    seconds,
    sinks,
    spouts,
)

DATA = Path(__file__).parent / "data" / "orders"


class RevenuePerUser(WindowedBolt):
    """Adds up the orders of each user."""

    outputs = "user string, orders long, revenue double, until timestamp"

    def execute(self, window: TupleWindow) -> Iterator[tuple[object, ...]]:
        """Called once per window; each row that is yielded goes to the sink."""
        for user, amounts in window.groups("user", "amount"):
            yield user, len(amounts), amounts.sum(), window.end


revenue = (
    RevenuePerUser()
    .with_tumbling_window(minutes(1))
    # An order belongs to the minute in which it was made ...
    .with_timestamp_field("ts")
    # ... and may arrive 10 s behind others. What comes later goes to "late".
    .with_lag(seconds(10))
    .with_late_tuple_stream("late")
    # Who is late does not depend on how the input is cut into batches.
    .with_watermark(every=1)
)

orders = spouts.files(
    DATA / "*.jsonl",
    schema="id string, user string, amount double, ts timestamp",
)

builder = TopologyBuilder("{{name}}")
builder.set_spout("orders", orders)
builder.set_bolt("revenue", revenue).fields_grouping("orders", "user")
builder.set_sink("out", sinks.console()).from_("revenue")
builder.set_sink("late", sinks.console()).from_("revenue", stream="late")
topology = builder.build()
