"""Readings of sensors, counted by sensor every 5 ms, silent sensors too."""

from windbolt import AggregateBolt, TopologyBuilder, sinks, spouts
from windbolt.aggregates import count, mean, window_end

builder = TopologyBuilder("silence")
builder.set_spout("readings", spouts.memory("id string, sensor string, degrees double, ts long"))
per_sensor = AggregateBolt("sensor", until=window_end(), readings=count(), mean=mean("degrees"))
per_sensor = per_sensor.with_key("sensor").with_tumbling_window("5ms").with_timestamp_field("ts")
builder.set_bolt(
    "per_sensor", per_sensor.with_empty_windows(until="15ms", fill={"mean": -1.0}), parallelism=2
).fields_grouping("readings", "sensor")
builder.set_sink("rows", sinks.memory()).from_("per_sensor")
topology = builder.build()
