"""Readings of sensors, counted by sensor every 5 ms, silent sensors too."""

from windbolt import AggregateBolt, TopologyBuilder, sinks, spouts
from windbolt.aggregates import count, mean, window_end

per_sensor = AggregateBolt("sensor", until=window_end(), readings=count(), mean=mean("degrees"))
per_sensor = per_sensor.with_key("sensor").with_tumbling_window("5ms").with_timestamp_field("ts")


def of(bolt: AggregateBolt) -> TopologyBuilder:
    """The readings, and a row for each window of a sensor."""
    builder = TopologyBuilder("silence")
    builder.set_spout("readings", spouts.memory("id string, sensor string, degrees double, ts long"))
    builder.set_bolt("per_sensor", bolt, parallelism=2).fields_grouping("readings", "sensor")
    builder.set_sink("rows", sinks.memory()).from_("per_sensor")
    return builder


topology = of(per_sensor.with_empty_windows(until="15ms", fill={"mean": -1.0})).build()
listed = of(
    per_sensor.with_empty_windows(until="15ms", keys=["north", "south"], since="1970-01-01T00:00:00.005Z")
).build()
