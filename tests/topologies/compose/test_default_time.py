"""Which time a bolt goes by that names none: the clock, the broker's, the arrival, or nothing at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from topologies.graph.graph import WindowedNode
from topologies.topology import Topology
from windbolt import TopologyBuilder, spouts
from windowing import Bolt, TopologyError, WindowedBolt, presets
from windowing.settings.kinds import Session, SlidingLog
from windowing.settings.rules import LateBy

SERVERS = "localhost:9092"
ATLAS = presets.atlas("0s")


class Counts(WindowedBolt):
    outputs = "n long, kafka_timestamp timestamp"

    def execute(self, window: Any) -> Any:
        return len(window), None


class Passing(Bolt):
    outputs = "v long, kafka_timestamp timestamp"

    def execute(self, tuple: Any) -> Any:
        return tuple["v"], tuple["kafka_timestamp"]


class Other(Bolt):
    outputs = "v long"

    def execute(self, tuple: Any) -> Any:
        return (tuple["v"],)


def bolt() -> WindowedBolt:
    return Counts().with_time(ATLAS).with_tumbling_window("5s")


def built(reading: WindowedBolt, spout: Any, *between: Bolt) -> Topology:
    builder = TopologyBuilder("times")
    builder.set_spout("in", spout)
    source = "in"
    for number, each in enumerate(between):
        builder.set_bolt(f"plain{number}", each).shuffle_grouping(source)
        source = f"plain{number}"
    builder.set_bolt("bolt", reading).global_grouping(source)
    return builder.build()


def part(*args: Any) -> WindowedNode:
    return built(*args).windowed["bolt"]


@pytest.mark.feature("SI-1")
def test_streaminsight_has_no_time_but_that_of_the_events() -> None:
    without = Counts().with_time(presets.streaminsight()).with_tumbling_window("5s")
    with pytest.raises(TopologyError, match=r"names none.*no processing time.*with_timestamp_field"):
        built(without, spouts.memory("ts timestamp, v long"))
    assert part(without.with_timestamp_field("ts"), spouts.memory("ts timestamp, v long")).event_time


@pytest.mark.feature("AT-10")
@pytest.mark.parametrize(
    ("spout", "field"),
    [
        (spouts.kafka(SERVERS, "t"), "timestamp"),
        (spouts.kafka(SERVERS, "t", "v long", metadata=True), "kafka_timestamp"),
        (spouts.kafka(SERVERS, "t", "v long", metadata="key"), "kafka_timestamp"),
        (spouts.kafka(SERVERS, "t", "v long"), "kafka_timestamp"),
    ],
)
def test_atlas_goes_by_the_time_of_the_brokers_records(spout: Any, field: str) -> None:
    found = part(bolt(), spout)
    assert found.event_time
    assert found.bolt.settings.timestamp_field == field
    assert field in found.schema.names


@pytest.mark.feature("AT-10")
def test_a_bolt_in_between_may_pass_the_record_time_on() -> None:
    spout = spouts.kafka(SERVERS, "t", "v long", metadata="timestamp")
    assert part(bolt(), spout, Passing()).bolt.settings.timestamp_field == "kafka_timestamp"


@pytest.mark.feature("AT-10")
def test_the_column_is_added_only_where_it_is_needed() -> None:
    spout = spouts.kafka(SERVERS, "t", "v long")
    clocked = Counts().with_time(presets.atlas()).with_tumbling_window("5s").with_time(processing=True)
    for reading in (bolt().with_timestamp_field("v"), clocked, Counts().with_tumbling_window(2)):
        assert built(reading, spout).spouts["in"].outputs["default"].names == ["v"]


@pytest.mark.feature("AT-10")
@pytest.mark.parametrize(
    ("spout", "between"),
    [
        (spouts.memory("v long, ts timestamp"), ()),
        (spouts.kafka(SERVERS, "t", "v long"), (Other(),)),
        (spouts.stream(lambda spark: spark, "v long, timestamp timestamp"), ()),
    ],
)
def test_atlas_asks_for_a_time_where_there_is_no_broker(spout: Any, between: Any) -> None:
    with pytest.raises(TopologyError) as found:
        built(bolt(), spout, *between)
    assert len(found.value.problems) == 1
    said = str(found.value)
    assert "bolt 'bolt' names no time, and 'plain0' has" in said or "bolt 'bolt' names no time, and 'in' has" in said
    assert "with_time(processing=True) for processing time" in said
    assert not part(
        Counts().with_time(presets.atlas()).with_tumbling_window("5s").with_time(processing=True), spout
    ).event_time


@pytest.mark.feature("AT-10")
def test_a_chain_in_event_time_needs_no_other() -> None:
    builder = TopologyBuilder("times")
    builder.set_spout("in", spouts.memory("v long, ts timestamp"))
    builder.set_bolt("first", bolt().with_timestamp_field("ts")).global_grouping("in")
    builder.set_bolt("second", bolt()).global_grouping("first")
    second = builder.build().windowed["second"]
    assert second.event_time
    assert second.brings_time == (True,)


@pytest.mark.feature("AZ-1", "AZ-7")
@pytest.mark.parametrize(
    ("windows", "late_by"),
    [
        (lambda given: given.with_tumbling_window("5s"), LateBy.WINDOW),
        (lambda given: given.with_window(Session("5s")), LateBy.WINDOW),
        (lambda given: given.with_window(SlidingLog("5s")), LateBy.WINDOW),
        (lambda given: given.with_window(5), LateBy.WATERMARK),
    ],
)
def test_by_the_column_of_the_arrival_azures_policies_are_off(windows: Any, late_by: LateBy) -> None:
    given = Counts().with_time(presets.azure(late="5s", out_of_order="2s", action="drop", arrival_field="at"))
    found = part(windows(given), spouts.memory("at timestamp"))
    settings = found.bolt.settings
    assert found.event_time
    assert settings.timestamp_field == "at"
    assert settings.arrival is not None
    assert settings.arrival.early is None
    assert (found.lag.micros, settings.late_by) == (0, late_by)
    clocked = part(windows(given).with_time(processing=True), spouts.memory("at timestamp"))
    assert not clocked.event_time


@pytest.mark.feature("AZ-1")
@pytest.mark.parametrize(
    ("field", "spout"),
    [
        ("kafka_timestamp", spouts.kafka(SERVERS, "topic", schema="v long, ts timestamp")),
        ("file_modified", spouts.files("in/*.jsonl", schema="v long, ts timestamp")),
    ],
)
@pytest.mark.parametrize("names_time", [True, False])
def test_a_column_that_a_spout_can_add_is_one_to_ask_it_for(field: str, spout: Any, names_time: bool) -> None:
    reading = Counts().with_tumbling_window("5s")
    reading = (
        reading.with_timestamp_field("ts").with_time(presets.azure(arrival_field=field))
        if names_time
        else reading.with_timestamp_field(field)
    )
    name = "kafka" if field.startswith("kafka") else "files"
    with pytest.raises(TopologyError, match=rf"let the spout add it, spouts\.{name}\(\.\.\., metadata=True\)"):
        built(reading, spout)
    built(reading, replace(spout, metadata=(field,)))


@pytest.mark.parametrize("rules", [{}, {"arrival_field": "at"}], ids=["the clock", "a column"])
def test_where_the_time_is_that_of_arrival_lateness_is_refused_in_the_same_words(rules: Any) -> None:
    bolt = Counts().with_tumbling_window("10s").with_time(presets.azure(**rules)).with_lateness(allowed="5s")
    with pytest.raises(TopologyError, match=r"with_lateness\(allowed=...\) on a bolt without event times") as refused:
        built(bolt, spouts.memory("at timestamp"))
    assert "an event whose time is that of its arrival is never late" in str(refused.value)
