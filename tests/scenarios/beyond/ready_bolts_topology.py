"""Readings of sensors behind ready bolts, one in each topology."""

from windbolt import (
    AggregateBolt,
    Changes,
    Deduplicate,
    Rank,
    RateLimit,
    Session,
    Silence,
    TopN,
    Topology,
    TopologyBuilder,
    WindowedBolt,
    aggregates,
    sinks,
    spouts,
)


def read_by(bolt: WindowedBolt, tasks: int = 2) -> Topology:
    """A bolt that reads the readings by sensor, in event time with a lag of 5 ms; its rows, and those it holds back."""
    builder = TopologyBuilder("readings")
    builder.set_spout("readings", spouts.memory("id string, sensor string, level double, ts long"))
    declarer = builder.set_bolt("bolt", bolt.with_timestamp_field("ts").with_lag("5ms"), parallelism=tasks)
    if tasks > 1:
        declarer.fields_grouping("readings", "sensor")
    else:
        declarer.global_grouping("readings")
    builder.set_sink("rows", sinks.memory()).from_("bolt")
    if "rest" in bolt.__dict__:
        builder.set_sink("rest", sinks.memory()).from_("bolt", stream="rest")
    return builder.build()


once = read_by(Deduplicate("sensor", within="10ms", rest="rest"))
limited = read_by(RateLimit(2, per="10ms", by="sensor", rest="rest"))
changed = read_by(Changes("sensor", of="level", within="20ms", rest="rest"))
silent = read_by(Silence("10ms", by="sensor", end="silent_at"))
best = read_by(TopN(2, "level", by="sensor", end="until").with_tumbling_window("10ms"))
ranked = read_by(Rank("level", method="rank").with_tumbling_window("10ms"), tasks=1)


def chained() -> Topology:
    """The highest level of each sensor in 10 ms, where it is not what it was in the windows before."""
    builder = TopologyBuilder("levels")
    builder.set_spout("readings", spouts.memory("id string, sensor string, level double, ts long"))
    highest = AggregateBolt("sensor", highest=aggregates.max("level")).with_tumbling_window("10ms")
    builder.set_bolt("highest", highest.with_timestamp_field("ts").with_lag("5ms"), 2).fields_grouping(
        "readings", "sensor"
    )
    builder.set_bolt("changed", Changes("sensor"), 2).fields_grouping("highest", "sensor")
    builder.set_sink("rows", sinks.memory()).from_("changed")
    return builder.build()


highest = chained()


def silent_after_repeats() -> Topology:
    """Sensors without a reading for 10 ms, repeats left out; the end of the streams is no silence."""
    builder = TopologyBuilder("silences")
    builder.set_spout("readings", spouts.memory("id string, sensor string, level double, ts long"))
    once = Deduplicate("id", within="5ms").with_timestamp_field("ts").with_watermark(every=1)
    builder.set_bolt("once", once, 2).fields_grouping("readings", "id")
    silence = AggregateBolt("sensor", n=aggregates.count()).with_window(Session("10ms")).with_key("sensor")
    builder.set_bolt("silent", silence.with_time(close_fires=False), 2).fields_grouping("once", "sensor")
    builder.set_sink("rows", sinks.memory()).from_("silent")
    return builder.build()


silent_at_the_end = silent_after_repeats()
