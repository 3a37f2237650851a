"""Rules of time that are declared at the source, and hold for every bolt that reads it."""

from __future__ import annotations

from typing import Any

import pytest

from topologies.graph.describing import topology_text
from topologies.topology import Topology
from windbolt import TopologyBuilder, spouts
from windowing import Bolt, TopologyError, WindowedBolt, presets
from windowing.durations import Count, Duration
from windowing.settings.rules import Bounds

COLUMNS = "start long, n long"
ADAPTER = presets.streaminsight(10, "5s", to_infinity=True)


class Counts(WindowedBolt):
    outputs = "n long"

    def execute(self, window: Any) -> Any:
        return (len(window),)


class Same(Bolt):
    outputs = COLUMNS

    def execute(self, tuple: Any) -> Any:
        return tuple["start"], tuple["n"]


def bolt() -> WindowedBolt:
    return Counts().with_tumbling_window("10s").with_timestamp_field("start")


def built(reading: WindowedBolt, plain: bool = False, **times: Any) -> Topology:
    builder = TopologyBuilder("sources")
    for name, time in times.items():
        builder.set_spout(name, spouts.memory(COLUMNS), time=time)
        if plain:
            builder.set_bolt(f"{name}_same", Same()).shuffle_grouping(name)
    declared = builder.set_bolt("bolt", reading)
    for name in times:
        declared.global_grouping(f"{name}_same" if plain else name)
    return builder.build()


@pytest.mark.feature("SI-17")
@pytest.mark.parametrize("plain", [False, True])
def test_a_bolt_has_the_rules_of_its_source(plain: bool) -> None:
    settings = built(bolt(), plain, events=ADAPTER).windowed["bolt"].bolt.settings
    assert (settings.watermark_every, settings.lag, settings.close_fires) == (Count(10), Duration(5_000_000), True)
    assert settings.bounds is Bounds.START


@pytest.mark.feature("SI-18")
def test_what_the_bolt_says_itself_counts() -> None:
    named = built(bolt().with_time(presets.streaminsight(3)), events=ADAPTER).windowed["bolt"].bolt.settings
    assert (named.watermark_every, named.lag, named.close_fires) == (Count(3), Duration(0), False)
    single = (
        built(bolt().with_lag("1s").with_alignment(bounds="(start, end]"), events=ADAPTER)
        .windowed["bolt"]
        .bolt.settings
    )
    assert (single.watermark_every, single.lag, single.bounds) == (Count(10), Duration(1_000_000), Bounds.END)


@pytest.mark.feature("SI-2", "SI-17")
def test_each_input_has_the_rules_of_its_own_source() -> None:
    fast = presets.streaminsight(1, policy="drop", to_infinity=True)
    slow = presets.streaminsight(2, "4ms", policy="adjust")
    topology = built(Counts().with_tumbling_window("10ms").with_timestamp_field("start"), a=fast, b=slow)
    settings = topology.windowed["bolt"].bolt.settings
    assert settings.close_fires is False
    marks = settings.of_input("a"), settings.of_input("b")
    assert [(each.watermark_every, each.delay) for each in marks] == [(Count(1), 0), (Count(2), 4_000)]
    assert [each.late_action.value for each in marks] == ["drop", "cut"]


def test_the_description_tells_the_rules_of_each_source_where_they_differ() -> None:
    slow = presets.streaminsight(10, "9s", policy="adjust")
    text = topology_text(built(bolt(), a=presets.streaminsight(1, "5s"), b=slow))
    assert "of a: lag 5s, a watermark at every event, behind the watermark: drop\n" in text
    assert "of b: lag 9s, a watermark at every 10 events of an input, behind the watermark: cut\n" in text
    assert "of a: dropped, and counted as such\n" in text
    alike = topology_text(built(bolt(), a=slow, b=slow))
    assert "event time from start, lag 9s\n" in alike
    assert "of a: " not in alike


@pytest.mark.feature("SI-17")
@pytest.mark.parametrize(
    ("times", "complaint"),
    [
        ({"a": ADAPTER, "b": None}, "and 'b', which declares none"),
        ({"a": ADAPTER, "b": presets.azure()}, "'a' has those of streaminsight; 'b' has those of azure"),
        ({"a": presets.atlas("1s"), "b": presets.atlas("2s")}, "declare different time rules"),
        ({"a": presets.streaminsight}, "give one of windbolt.presets"),
        ({"a": presets.streaminsight(imports={"a": "b"})}, "imports watermarks.*with_time"),
    ],
)
def test_rules_that_do_not_make_one_whole_are_refused(times: dict[str, Any], complaint: str) -> None:
    with pytest.raises(TopologyError, match=complaint):
        built(bolt(), **times)


IDLE = presets.atlas(idle_timeout="5s")


@pytest.mark.feature("SI-17", "AT-22")
def test_a_rule_of_a_source_must_be_of_use_to_a_bolt_that_reads_it_and_not_to_all() -> None:
    by_the_clock = Counts().with_tumbling_window("10s").with_time(processing=True)
    builder = TopologyBuilder("sources")
    builder.set_spout("events", spouts.memory(COLUMNS), time=IDLE)
    builder.set_bolt("clock", by_the_clock).global_grouping("events")
    with pytest.raises(
        TopologyError, match=r"'clock': presets.atlas\(idle_timeout=...\) on a bolt without event times"
    ):
        builder.build()
    builder.set_bolt("bolt", bolt()).global_grouping("events")
    assert builder.build().windowed["bolt"].bolt.settings.idle_timeout == Duration(5_000_000)


@pytest.mark.feature("SI-17", "AT-22")
@pytest.mark.parametrize("order", ["ab", "ba"])
def test_a_lag_is_of_use_where_one_of_the_sources_puts_no_watermarks_in(order: str) -> None:
    times = {"a": presets.streaminsight(None, field="n"), "b": presets.streaminsight(1)}
    lagging = Counts().with_tumbling_window("10ms").with_timestamp_field("start").with_lag("2ms")
    builder = TopologyBuilder("sources")
    builder.set_spout("a", spouts.memory(COLUMNS), time=times["a"])
    builder.set_spout("b", spouts.memory("start long, m long"), time=times["b"])
    declared = builder.set_bolt("bolt", lagging)
    for name in order:
        declared.global_grouping(name)
    assert builder.build().windowed["bolt"].bolt.settings.of_input("b").delay == 2_000


@pytest.mark.feature("SI-17", "SI-18")
def test_a_source_says_how_often_watermarks_come_where_the_bolt_only_says_that_they_come_with_events() -> None:
    """A column of watermarks, and a watermark for each key, need that: the bolt itself has not said how often."""
    fast, slow = presets.streaminsight(3), presets.streaminsight("4ms")
    by_field = bolt().with_watermark(field="n")
    assert built(by_field, events=fast).windowed["bolt"].bolt.settings.watermark_every == Count(3)
    settings = built(by_field, a=fast, b=slow).windowed["bolt"].bolt.settings
    assert [settings.of_input(each).watermark_every for each in "ab"] == [Count(3), Duration(4_000)]
    at_ticks = built(by_field, events=presets.storm()).windowed["bolt"].bolt.settings
    assert at_ticks.watermark_every == by_field.settings.watermark_every
    of_keys = bolt().with_key("n").with_watermark(per_key=True)
    with pytest.raises(TopologyError, match=r"a watermark for each key, and not at every event.*every=1"):
        built(of_keys, events=fast)
    assert built(of_keys, events=presets.streaminsight(1)).windowed["bolt"].bolt.settings.watermark_per_key
