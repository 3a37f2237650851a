"""Rows of a and of b, joined where a is in an interval around b."""

from typing import Literal

from windbolt import AlterLifetime, TemporalJoin, Topology, TopologyBuilder, sinks, spouts


def joined(how: Literal["inner", "left", "right", "full"], lower: str, width: str) -> Topology:
    """The join on ``k`` where a is from ``lower`` after b, and ``width`` long, both ends included; on two tasks."""
    builder = TopologyBuilder("interval")
    for side in ("left", "right"):
        builder.set_spout(side, spouts.memory("id string, k string, ts timestamp"))
    builder.set_bolt("a", AlterLifetime("until", start="ts", duration="1us")).shuffle_grouping("left")
    interval = AlterLifetime("until", start="ts", duration=width, shift=lower, inclusive=True)
    builder.set_bolt("b", interval).shuffle_grouping("right")
    join = TemporalJoin("a", "b", on="k", how=how, outputs="a_id string, b_id string")
    join = join.with_timestamp_field("ts").with_lifetime("until").with_lag("50ms")
    builder.set_bolt("join", join, parallelism=2).fields_grouping("a", "k").fields_grouping("b", "k")
    builder.set_sink("rows", sinks.memory()).from_("join")
    return builder.build()


common = joined("inner", "-10ms", "30ms")
negative = joined("inner", "-10ms", "3ms")
left = joined("left", "-5ms", "14ms")
right = joined("right", "-5ms", "14ms")
full = joined("full", "-5ms", "14ms")
