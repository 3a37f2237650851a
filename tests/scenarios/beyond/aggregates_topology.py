"""Sales of two shops, summed up by shop in windows of 10 ms every 5 ms."""

from windbolt import AggregateBolt, Topology, TopologyBuilder, sinks, spouts
from windbolt import aggregates as agg


def summed(**bolts: dict[str, agg.Aggregate]) -> Topology:
    """Bolts that sum the sales up, and a sink for each, of its name."""
    builder = TopologyBuilder("aggregates")
    builder.set_spout("sales", spouts.memory("id string, shop string, item string, price double, pieces int, ts long"))
    for name, aggregates in bolts.items():
        bolt = AggregateBolt("shop", until=agg.window_end(), **aggregates).with_window("10ms", "5ms")
        declarer = builder.set_bolt(f"{name}_by_shop", bolt.with_timestamp_field("ts").with_lag("20ms"), parallelism=2)
        declarer.fields_grouping("sales", "shop")
        builder.set_sink(name, sinks.memory()).from_(f"{name}_by_shop")
    return builder.build()


picked = summed(
    best={"dearest": agg.max_by("item", by="price"), "cheapest": agg.min_by(["item", "price"], by="price")},
    lists={
        "two": agg.top(2, "item", by="price"),
        "by_price": agg.collect("item", order_by="price"),
        "some": agg.collect("item", limit=2),
    },
)
counted = summed(
    counts={
        "often": agg.mode("price"),
        "below_3_5_and_not": agg.histogram("price", [3, 5]),
        "middle": agg.median("price", relative_error=0.001),
        "different": agg.distinct_count("price", standard_error=0.01),
    }
)
paired = summed(
    pairs={"mean": agg.weighted_mean("price", "pieces"), "corr": agg.corr("price", "pieces")},
)
