"""Orders that are paid within 30 minutes: the topology of {{name}}."""

from pathlib import Path

from windbolt import (
    AlterLifetime,
    Bolt,
    TemporalJoin,
    TopologyBuilder,
    Tuple,
    minutes,
    seconds,
    sinks,
    spouts,
)

DATA = Path(__file__).parent / "data"

# An order waits for its payment from its time on, for 30 minutes: to their end.
waiting = AlterLifetime("until", start="ts", duration=minutes(30), inclusive=True)

payments_of_orders = (
    # A payment is a point in time. how="left": an order without one has a row too,
    # with nulls, as soon as its 30 minutes are over.
    TemporalJoin(
        "waiting",
        "payments",
        on="order",
        how="left",
        outputs="order string, user string, amount double, paid double",
    )
    .with_timestamp_field("ts")
    .with_lifetime("until")
    # Both may arrive 10 s behind others. What comes later goes to "late".
    .with_lag(seconds(10))
    .with_late_tuple_stream("late")
    # Who is late does not depend on how the input is cut into batches.
    .with_watermark(every=1)
)


class Reminder(Bolt):
    """Passes on orders that are still to be paid."""

    outputs = "order string, user string, missing double"

    def execute(self, tuple: Tuple) -> tuple[object, ...] | None:
        """Called once for each row of the join; None: nothing is emitted for it."""
        missing = tuple["amount"] - (tuple["paid"] or 0)
        return (tuple["order"], tuple["user"], missing) if missing > 0 else None


builder = TopologyBuilder("{{name}}")
builder.set_spout(
    "orders",
    spouts.files(
        DATA / "orders" / "*.jsonl",
        schema="order string, user string, amount double, ts timestamp",
    ),
)
builder.set_spout(
    "payments",
    spouts.files(
        DATA / "payments" / "*.jsonl",
        schema="payment string, order string, paid double, ts timestamp",
    ),
)
builder.set_bolt("waiting", waiting).shuffle_grouping("orders")
builder.set_bolt("joined", payments_of_orders, parallelism=2).fields_grouping(
    "waiting"
).fields_grouping("payments")
builder.set_bolt("reminder", Reminder()).shuffle_grouping("joined")
builder.set_sink("out", sinks.console()).from_("joined")
builder.set_sink("reminders", sinks.console()).from_("reminder")
builder.set_sink("late", sinks.console()).from_("joined", stream="late")
topology = builder.build()
