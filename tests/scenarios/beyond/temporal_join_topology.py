"""Orders and their payments, joined by their lifetimes: an order waits 30 minutes for a payment, which is a moment."""

from windbolt import AlterLifetime, TemporalJoin, Topology, TopologyBuilder, sinks, spouts


def ordered(join: TemporalJoin) -> Topology:
    """The join of orders and payments, on two tasks."""
    builder = TopologyBuilder("orders")
    builder.set_spout("ordered", spouts.memory("id string, order int, ts timestamp"))
    builder.set_spout("payments", spouts.memory("id string, order int, price double, ts timestamp"))
    builder.set_bolt("orders", AlterLifetime("until", start="ts", duration="30m")).shuffle_grouping("ordered")
    join = join.with_timestamp_field("ts").with_lifetime("until").with_lag("1m")
    declarer = builder.set_bolt("join", join, parallelism=2)
    declarer.fields_grouping("orders", "order").fields_grouping("payments", "order")
    builder.set_sink("rows", sinks.memory()).from_("join")
    return builder.build()


unpaid = ordered(TemporalJoin("orders", "payments", on="order", how="anti", outputs="id string, overlap_end timestamp"))
full = ordered(
    TemporalJoin("orders", "payments", on="order", how="full", outputs="orders_id string, payments_id string")
)
paid = ordered(
    TemporalJoin("orders", "payments", on="order", how="semi", outputs="id string, paid timestamp", start="paid")
)
