"""Points of a data stream meet what a lookup stream says of their key (SI-32)."""

from windbolt import TemporalJoin, TopologyBuilder, sinks, spouts
from windbolt.presets import Preset, streaminsight


def joined(rules: Preset) -> TopologyBuilder:
    """The two streams, and their join under some rules of time."""
    join = TemporalJoin(
        "dataStream", "lookupStream", on="k", outputs="dataStream_id string, value long, label string"
    ).with_time(rules)
    join = join.with_timestamp_field("start").with_lifetime("end", shape_field="shape", edge_key=["k"])
    builder = TopologyBuilder("join")
    events = "id string, start timestamp, end timestamp, shape string, k string, cti timestamp"
    builder.set_spout("dataStream", spouts.memory(f"{events}, value long"))
    builder.set_spout("lookupStream", spouts.memory(f"{events}, label string"))
    builder.set_bolt("join", join).fields_grouping("dataStream", "k").fields_grouping("lookupStream", "k")
    builder.set_sink("pairs", sinks.memory()).from_("join")
    return builder


def importing() -> TopologyBuilder:
    """The lookup stream takes the watermarks of the data stream."""
    return joined(streaminsight(1, "0s", policy="adjust", imports={"lookupStream": "dataStream"}))


def alone() -> TopologyBuilder:
    """Either stream is to bring its watermarks along."""
    return joined(streaminsight(None, policy="adjust", field="cti"))
