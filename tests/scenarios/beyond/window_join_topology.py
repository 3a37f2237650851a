"""Sellers and their sales, joined in windows of 10 ms."""

from typing import Literal

from windbolt import Topology, TopologyBuilder, WindowJoin, sinks, spouts


def joined(how: Literal["full", "anti"], outputs: str) -> Topology:
    """The join of two streams whose keys have different names, on two tasks."""
    builder = TopologyBuilder("sales")
    builder.set_spout("sellers", spouts.memory("id string, person long, name string, ts long"))
    builder.set_spout("sales", spouts.memory("id string, seller int, price double, ts long"))
    join = WindowJoin("sellers", "sales", on={"sellers": "person", "sales": "seller"}, how=how, outputs=outputs)
    join = join.with_tumbling_window("10ms").with_timestamp_field("ts").with_lag("20ms")
    declarer = builder.set_bolt("join", join, parallelism=2)
    declarer.fields_grouping("sellers", "person").fields_grouping("sales", "seller")
    builder.set_sink("rows", sinks.memory()).from_("join")
    return builder.build()


full = joined("full", "sellers_id string, sales_id string, name string, price double")
anti = joined("anti", "name string")
