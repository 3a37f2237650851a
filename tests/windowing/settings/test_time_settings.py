"""The settings of time: what is refused, what presets decide, and which of two settings counts."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest

from topologies.io import sinks, spouts
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_local
from windowing import (
    Bolt,
    Bounds,
    ConfigError,
    Count,
    DataError,
    TopologyError,
    TupleWindow,
    WindowedBolt,
    minutes,
    presets,
    seconds,
)
from windowing.durations import parse_duration
from windowing.settings import WindowSettings
from windowing.settings.kinds import Calendar, CountByStart, Hopping, Session, SlidingLog
from windowing.settings.panes import Panes
from windowing.settings.presets import RULES, Preset
from windowing.settings.rules import Arrival, LateAction, LateBy, OutputTimeName
from windowing.settings.triggers import CountTrigger

NUMBER: Any = 5
EVENTS = "id string, ts long"


class Ids(WindowedBolt):
    outputs: ClassVar[Any] = "ids array<string>, times array<long>"

    def execute(self, window: TupleWindow) -> Any:
        return [event["id"] for event in window.get()], [event.timestamp // 1000 for event in window.get()]


class Shift(Bolt):
    outputs: ClassVar[Any] = EVENTS

    def execute(self, tuple: Any) -> Any:
        return tuple["id"], tuple["ts"] + 5_000


class Times(Bolt):
    outputs: ClassVar[Any] = "time long"

    def execute(self, tuple: Any) -> Any:
        return (tuple.timestamp // 1000,)


def tumbling() -> WindowedBolt:
    return Ids().with_tumbling_window("10s")


def topology(*events: tuple[str, int], **bolts: WindowedBolt) -> tuple[Topology, dict[str, sinks.MemorySink]]:
    """Bolts that each read all events, one event a batch, and a sink for each bolt."""
    builder = TopologyBuilder("times")
    builder.set_spout("events", spouts.memory(EVENTS, *([event] for event in events)))
    out = {name: sinks.memory() for name in bolts}
    for name, bolt in bolts.items():
        builder.set_bolt(name, bolt).global_grouping("events")
        builder.set_sink(f"{name}-out", out[name]).from_(name)
    return builder.build(), out


def run(*events: tuple[str, int], **bolts: WindowedBolt) -> dict[str, list[list[str]]]:
    """The ids in each window of each bolt; the clock stands still."""
    built, out = topology(*events, **bolts)
    run_local(built, RunOptions(clock=lambda: 0))
    return {name: [row["ids"] for row in sink.rows] for name, sink in out.items()}


def problems(bolt: WindowedBolt) -> str:
    with pytest.raises(TopologyError) as found:
        topology(bolt=bolt)
    return str(found.value)


# ---- refused where it is given


@pytest.mark.feature("AT-22")
@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (lambda: Ids().with_tumbling_window("0s"), "zero"),
        (lambda: Ids().with_tumbling_window(0), "positive whole number"),
        (lambda: Ids().with_tumbling_window("1w"), "not a duration"),
        (lambda: Ids().with_window("5s", "-5s"), "not a duration"),
        (lambda: Ids().with_window(Session("0s")), "session gap of zero.*Session\\('1us'\\)"),
        (lambda: Ids().with_window(Session("5s", max_duration="0s")), "a window has a length"),
        (lambda: Ids().with_window(SlidingLog("0s")), "a window has a length"),
        (lambda: Ids().with_window(CountByStart(0)), "positive whole number"),
        (lambda: Ids().with_window(), "a length and a slide, or values"),
        (lambda: Ids().with_window(Session("5s"), NUMBER), "a length and a slide, or values"),
        (lambda: Ids().with_key(), r"with_key\(\)\. a key is one or more columns"),
        (lambda: Ids().with_key([]), "one or more columns"),
        (
            lambda: Ids().with_key(["line"], "sensor"),
            r"with_key\(\['line'\], 'sensor'\).*write with_key\('line', 'sensor'\)",
        ),
        (lambda: Ids().with_key("a").with_key(["b", "c"]), r"with_key\('b', 'c'\) on a bolt whose key is a"),
        (lambda: Ids().with_alignment(offset="8"), "not a duration"),
        (lambda: Ids().with_alignment(offset="--8h"), "not a duration"),
        (lambda: Ids().with_alignment(anchor="noon"), "'start'"),
        (lambda: Ids().with_alignment(anchor="2024-05-01T12:00:00.1234567Z"), "finer than 1 microsecond"),
        (lambda: Ids().with_alignment(anchor=1.5), "'start'"),  # type: ignore[arg-type]
        (lambda: Ids().with_time(NUMBER), "presets.atlas"),
        (lambda: presets.atlas(NUMBER), "no unit"),
        (lambda: presets.atlas(idle_timeout="-1s"), "not a duration"),
        (lambda: presets.atlas(idle_rule="never"), "'after_window_end', 'max_remaining'"),  # type: ignore[arg-type]
        (lambda: presets.atlas().but(patience="1s"), "no rule called 'patience'.*use one of these"),
        (lambda: presets.atlas().but(boundz="[start, end)"), "did you mean 'bounds'"),
        (lambda: Ids().with_time(presets.azure), r"call it: presets\.azure\(\)"),  # type: ignore[arg-type]
        (lambda: Ids().with_watermark(idle_timeout="1s", idle_rule="never"), "'after_window_end', 'max_remaining'"),  # type: ignore[arg-type]
        (
            lambda: Ids().with_lateness(action="forgive"),  # type: ignore[arg-type]
            "'forgive' is not a late action. a late action: .*'divert', 'drop'",
        ),
        (lambda: Ids().with_lateness(by="clock"), "'watermark', 'window'"),  # type: ignore[arg-type]
        (lambda: Ids().with_lateness(arrival=Arrival(action="forgive")), "'adjust'"),  # type: ignore[arg-type]
        (lambda: Ids().with_time(output_time="noon"), "'window end', 'window last', 'window start'"),  # type: ignore[arg-type]
        (lambda: Ids().with_trigger(Panes(mode="twice")), "'accumulating', 'discarding'"),  # type: ignore[arg-type]
        (lambda: Ids().with_trigger(Panes()), "without early=, late= and at_end="),
        (lambda: Ids().with_trigger(Panes(late=False, mode="discarding")), "without early=, late= and at_end="),
        (lambda: Ids().with_trigger(Panes(early=0)), "an early firing every 0 events"),
        (lambda: Ids().with_watermark(every=0), "positive whole number"),
        (lambda: Ids().with_watermark(every="0s"), "above zero"),
        (lambda: presets.streaminsight(0), "a watermark every 0 events.*positive whole number"),
        (lambda: presets.streaminsight(delay="-2 moments"), "not a duration"),
        (lambda: presets.streaminsight(None, "1s", field="cti"), "a delay of 1s with every=None.*leave delay out"),
        (lambda: presets.streaminsight(policy="forgive"), "'divert', 'drop'"),  # type: ignore[arg-type]
        (lambda: presets.azure(action="forgive"), "'adjust'"),  # type: ignore[arg-type]
        (lambda: presets.azure(action="divert"), "action='divert'.*drops them.*'adjust' or 'drop'"),  # type: ignore[arg-type]
        (lambda: presets.azure(action="cut"), "action='cut'.*'adjust' or 'drop'"),  # type: ignore[arg-type]
        (lambda: presets.azure(action=NUMBER), "action=5"),
        (lambda: presets.azure(late=-2), r"late=-2.*no unit; only late=-1"),
        (lambda: presets.azure(late=True), "no unit"),
        (lambda: presets.azure(out_of_order=NUMBER), "out_of_order='5s'"),
        (lambda: presets.azure(early="24:00:00"), "a day has 24 hours"),
        (lambda: presets.azure(late="00:60:00"), "not a duration"),
    ],
)
def test_settings_that_cannot_be_are_refused_where_they_are_given(build: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        build()


@pytest.mark.feature("AT-22")
def test_lateness_and_idle_timeout_may_be_zero() -> None:
    settings = tumbling().with_time(presets.atlas("0s", idle_timeout="0s")).settings
    assert settings.allowed_lateness == seconds(0)
    assert settings.idle_timeout == seconds(0)


@pytest.mark.feature("AZ-10")
def test_azures_late_tolerance_is_5_seconds_at_most_20_days_or_without_limit() -> None:
    def tolerance(preset: Preset) -> Any:
        settings = Ids().with_time(preset).settings
        assert settings.arrival is not None
        return settings.arrival.late, settings.estimate_arrival

    assert tolerance(presets.azure()) == (seconds(5), True)
    assert tolerance(presets.azure(late="1814399s")) == (seconds(1_814_399), True)
    assert tolerance(presets.azure(late=None)) == (None, False)
    with pytest.raises(ConfigError, match=r"at most 20\.23:59:59, 1,814,399 seconds"):
        presets.azure(late="1814400s")


@pytest.mark.feature("SI-16")
def test_generated_or_imported_watermarks_may_be_missing_but_not_both() -> None:
    for given in ({"imports": {"lookup": "data"}}, {"field": "cti"}):
        settings = Ids().with_time(presets.streaminsight(None, **given)).settings
        assert settings.watermark_imports == given.get("imports")
    both = Ids().with_time(presets.streaminsight(10, imports={"lookup": "data"})).settings
    assert (both.watermark_every, both.watermark_imports) == (Count(10), {"lookup": "data"})
    with pytest.raises(ConfigError, match=r"generated, imported, or sent by the source"):
        presets.streaminsight(None)


# ---- refused by build()


@pytest.mark.feature("AT-22")
@pytest.mark.parametrize(
    "bolt",
    [
        tumbling().with_time(processing=True).with_lateness(by="window", allowed="5s"),
        tumbling().with_time(processing=True).with_watermark(idle_timeout="1m"),
        tumbling().with_time(presets.atlas("5s"), processing=True),
        tumbling().with_time(presets.atlas(idle_timeout="1m"), processing=True),
        tumbling().with_lateness(by="window", allowed="5s"),
    ],
)
def test_lateness_and_idle_timeout_need_event_times(bolt: WindowedBolt) -> None:
    assert "without event times" in problems(bolt)


@pytest.mark.parametrize(
    "bolt",
    [
        Ids().with_window(Session("1m", gap_field="nobody")),
        tumbling().with_key("nobody"),
        tumbling().with_key("nobody").with_watermark(per_key=True),
        tumbling().with_lifetime("nobody"),
        tumbling().with_lifetime("ts", shape_field="nobody"),
        tumbling().with_lateness(arrival=Arrival("nobody")),
        tumbling().with_watermark(field="nobody"),
        tumbling().with_watermark(partition="nobody"),
        tumbling().with_time(presets.streaminsight(imports={"nobody": "events"})),
        tumbling().with_time(presets.streaminsight(None, imports={"events": "nobody"})),
    ],
)
def test_columns_and_inputs_that_settings_name_must_be_there(bolt: WindowedBolt) -> None:
    assert "'nobody'" in problems(bolt.with_timestamp_field("ts"))


@pytest.mark.feature("AT-22")
def test_the_lateness_that_atlas_has_by_itself_does_not_need_them() -> None:
    assert run(("a", 0), bolt=tumbling().with_time(presets.atlas(), processing=True)) == {"bolt": [["a"]]}


# ---- presets


@pytest.mark.feature("SI-17")
def test_a_preset_serves_several_bolts() -> None:
    preset = presets.streaminsight(10, "5s", to_infinity=True)
    one, two = tumbling().with_time(preset).settings, Ids().with_window(Session("1h")).with_time(preset).settings
    assert {name: getattr(one, name) for name in RULES} == {name: getattr(two, name) for name in RULES}
    assert one.lag == seconds(5)
    assert one.length == seconds(10)


@pytest.mark.feature("SI-18")
def test_what_is_set_after_a_preset_counts_and_what_was_set_before_it_does_not() -> None:
    preset = presets.streaminsight(10, "5s")
    after = tumbling().with_time(preset).with_lag("0s").settings
    assert (after.lag, after.watermark_every) == (seconds(0), Count(10))
    before = tumbling().with_lag("0s").with_alignment(bounds="(start, end]").with_time(preset)
    assert (before.settings.lag, before.settings.bounds) == (seconds(5), Bounds.START)
    said = problems(before.with_timestamp_field("ts"))
    assert "with_lag before with_time(...)" in said
    assert "with_alignment(bounds=...) before with_time(...)" in said


@pytest.mark.feature("AT-17", "SI-4")
def test_the_clock_can_close_azures_windows_and_never_those_of_streaminsight() -> None:
    topology(bolt=tumbling().with_time(presets.azure()).with_timestamp_field("ts").with_watermark(idle_timeout="5s"))
    found = problems(
        tumbling().with_time(presets.streaminsight()).with_timestamp_field("ts").with_watermark(idle_timeout="5s")
    )
    assert "with_watermark(idle_timeout=...) with StreamInsight's watermarks" in found


@pytest.mark.feature("AT-22")
def test_a_setting_before_a_preset_may_be_said_again_and_a_preset_be_replaced_by_another() -> None:
    again = tumbling().with_lag("1s").with_time(presets.azure()).with_lag("2s").with_timestamp_field("ts")
    topology(bolt=again)
    assert again.settings.lag == seconds(2)
    replaced = tumbling().with_time(presets.storm(lag="3s")).with_time(presets.atlas()).with_timestamp_field("ts")
    topology(bolt=replaced)
    assert replaced.settings.lag is None


def test_a_lag_takes_the_place_of_a_negative_delay() -> None:
    bolt = tumbling().with_time(presets.strictly_increasing_start_time())
    assert bolt.settings.delay == -1
    assert bolt.with_lag("2s").settings.delay == 2_000_000


def test_a_preset_with_rules_of_ones_own() -> None:
    preset = presets.atlas().but(late_by=LateBy.WATERMARK, late_action=LateAction.DROP)
    settings = tumbling().with_time(preset).settings
    assert (settings.late_by, settings.late_action) == (LateBy.WATERMARK, LateAction.DROP)
    assert settings.allowed_lateness == seconds(3)
    assert presets.atlas().changes()["late_by"] is LateBy.WINDOW


def test_a_preset_decides_every_rule_of_time_and_nothing_else() -> None:
    of_the_bolt = {"length", "slide", "kinds", "key", "panes", "eviction", "trigger", "offset", "anchor", "late_stream"}
    of_the_bolt |= {"asked", "forgotten", "given", "key_trigger", "refused_stream", "expired", "message_id_field"}
    of_the_bolt |= {
        "every_is_derived",
        "input_rules",
        "capacity",
        "empty_windows_until",
        "listed_keys",
        "window_bytes",
        "call_time",
    }
    of_the_events = {
        *("timestamp_field", "timestamp_extractor", "extractor_on_columns", "extractor_on_error"),
        "extractor_on_truncation",
        *("processing_time", "lifetime"),
        "watermark_per_key",
    }
    named = {each.name for each in fields(WindowSettings)}
    assert named - set(RULES) == of_the_bolt | of_the_events
    for preset in (presets.storm(), presets.atlas(), presets.streaminsight(), presets.azure()):
        assert set(preset.rules) <= set(RULES), preset.name


def test_the_presets_differ_where_the_systems_do() -> None:
    settings = {
        preset.name: tumbling().with_time(preset).settings
        for preset in (presets.storm(), presets.atlas(), presets.streaminsight(), presets.azure())
    }
    assert {name: (each.bounds, each.watermark_every, each.late_by) for name, each in settings.items()} == {
        "storm": (Bounds.END, None, LateBy.WATERMARK),
        "atlas": (Bounds.START, Count(1), LateBy.WINDOW),
        "streaminsight": (Bounds.START, Count(1), LateBy.WATERMARK),
        "azure": (Bounds.END, Count(1), LateBy.WATERMARK),
    }
    assert settings["azure"].arrival is not None
    assert settings["azure"].arrival.early == minutes(5)


# ---- what they come to


AT_10_12_9 = [("a", 10_000), ("b", 12_000), ("c", 9_000), ("d", 31_000)]


@pytest.mark.feature("SI-14")
def test_a_late_event_stops_the_run_if_asked() -> None:
    bolt = tumbling().with_time(presets.streaminsight(policy="error")).with_timestamp_field("ts")
    assert run(*AT_10_12_9[:2], bolt=bolt) == {"bolt": []}
    with pytest.raises(DataError, match=r"'bolt'.* stop the run"):
        run(*AT_10_12_9, bolt=bolt)


@pytest.mark.feature("AZ-9", "SI-14")
@pytest.mark.parametrize(
    ("rules", "events", "complaint"),
    [
        ({"late": "5s"}, [("a", -3_000), ("b", -6_000)], "1969-12-31.*arrived more than 5s after its time"),
        ({"late": None}, [("a", -3_000), ("b", -6_000)], "came after the watermark"),
        ({"late": "5s", "out_of_order": "10s"}, [("a", -3_000), ("b", -5_000)], None),
    ],
)
def test_an_error_is_a_late_arrival_as_well_as_disorder(
    rules: Any, events: list[tuple[str, int]], complaint: str | None
) -> None:
    bolt = tumbling().with_time(presets.azure(action="error", **rules)).with_timestamp_field("ts")
    if complaint is None:
        assert run(*events, bolt=bolt) == {"bolt": [["b", "a"]]}
    else:
        with pytest.raises(DataError, match=complaint):
            run(*events, bolt=bolt)


@pytest.mark.feature("AZ-13")
def test_a_job_that_starts_at_an_output_has_no_window_before_it() -> None:
    first_end = 600_000
    bolt = tumbling().with_time(presets.azure(early=None, late=None)).with_alignment(anchor=first_end - 10_000)
    events = [("before", 585_000), ("at the start", 590_000), ("in", 595_000), ("at the end", 600_000), ("on", 605_000)]
    assert run(*events, bolt=bolt.with_timestamp_field("ts")) == {"bolt": [["in", "at the end"], ["on"]]}


def test_an_anchor_may_be_written_as_other_times_are() -> None:
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    ways: list[Any] = [noon, "2024-05-01T12:00:00Z", "2024-05-01T14:00+02:00", "2024-05-01 12:00", 1_714_564_800_000]
    anchors = {tumbling().with_alignment(anchor=way).settings.anchor for way in ways}
    assert anchors == {1_714_564_800_000_000}


@pytest.mark.feature("SI-16")
@pytest.mark.parametrize(("beside", "dropped"), [(True, 1), (False, 0)])
def test_an_input_that_imports_watermarks_may_make_its_own_as_well(beside: bool, dropped: int) -> None:
    preset = presets.streaminsight(1, imports={"lookup": "data"}).but(watermark_imports_beside=beside)
    builder = TopologyBuilder("times")
    builder.set_spout("data", spouts.memory(EVENTS, [("d1", 3_000)], []))
    builder.set_spout("lookup", spouts.memory(EVENTS, [("r1", 8_000)], [("r2", 5_000)]))
    bolt = tumbling().with_time(preset).with_timestamp_field("ts")
    builder.set_bolt("bolt", bolt).global_grouping("data").global_grouping("lookup")
    summary = run_local(builder.build(), RunOptions(clock=lambda: 0))
    assert summary.last is not None
    assert summary.last.bolts["bolt"].accounts["dropped"] == dropped
    assert summary.last.bolts["bolt"].watermark == 3_000_000


@pytest.mark.feature("SI-25")
def test_a_shift_before_a_bolt_shifts_its_watermark() -> None:
    builder = TopologyBuilder("times")
    builder.set_spout("events", spouts.memory(EVENTS, [("a", 12_000)]))
    builder.set_bolt("shift", Shift()).global_grouping("events")
    for name, source in (("bolt", "events"), ("behind", "shift")):
        bolt = tumbling().with_time(presets.streaminsight(1)).with_timestamp_field("ts")
        builder.set_bolt(name, bolt).global_grouping(source)
    summary = run_local(builder.build(), RunOptions(clock=lambda: 0))
    assert summary.last is not None
    assert {name: bolt.watermark for name, bolt in summary.last.bolts.items()} == {
        "bolt": 12_000_000,
        "behind": 17_000_000,
    }


@pytest.mark.feature("SI-24", "SI-31")
@pytest.mark.parametrize(("time", "times"), [("window end", [10_000, 40_000]), ("window start", [0, 30_000])])
def test_rows_have_the_time_of_the_end_or_of_the_start_of_their_window(time: OutputTimeName, times: list[int]) -> None:
    builder, out = TopologyBuilder("times"), sinks.memory()
    builder.set_spout("events", spouts.memory(EVENTS, [("a", 1_000)], [("b", 31_000)]))
    preset = presets.streaminsight(1, to_infinity=True)
    bolt = tumbling().with_time(preset, output_time=time).with_timestamp_field("ts")
    builder.set_bolt("bolt", bolt).global_grouping("events")
    builder.set_bolt("times", Times()).global_grouping("bolt")
    builder.set_sink("out", out).from_("times")
    run_local(builder.build(), RunOptions(clock=lambda: 0))
    assert [row["time"] for row in out.rows] == times


@pytest.mark.feature("SI-17", "SI-18")
def test_bolts_of_one_preset_and_one_that_differs() -> None:
    preset = presets.streaminsight(1, "0s", to_infinity=True)
    lenient = tumbling().with_time(preset).with_lag("3s")
    bolts = {"one": tumbling().with_time(preset), "two": tumbling().with_time(preset), "lenient": lenient}
    given = {name: bolt.with_timestamp_field("ts") for name, bolt in bolts.items()}
    strict = [["a", "b"], ["d"]]
    assert run(*AT_10_12_9, **given) == {"one": strict, "two": strict, "lenient": [["c"], *strict]}


@pytest.mark.feature("AZ-8", "AZ-9", "AZ-10")
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"late": "00:05:00"}, {"late": "5m"}),
        ({"late": "1.02:00:00.5"}, {"late": seconds(26 * 3600 + 0.5)}),
        ({"late": -1}, {"late": None}),
        ({"late": "-1"}, {"late": None}),
        ({"late": "21.00:00:00", "action": "Adjust"}, None),
        ({"late": "20.23:59:59"}, {"late": seconds(1_814_399)}),
        ({"out_of_order": "00:00:02", "early": "00:01:00"}, {"out_of_order": "2s", "early": "1m"}),
        ({"action": "Drop"}, {"action": "drop"}),
        ({"action": "Adjust"}, {}),
        ({"action": LateAction.ERROR}, {"action": "error"}),
    ],
)
def test_azures_own_spellings_are_understood(theirs: Any, ours: Any) -> None:
    if ours is None:
        with pytest.raises(ConfigError, match=r"at most .*1,814,399 seconds"):
            presets.azure(**theirs)
    else:
        assert presets.azure(**theirs) == presets.azure(**ours)


@pytest.mark.feature("AZ-19")
@pytest.mark.parametrize(
    ("windows", "length"),
    [
        (lambda bolt: bolt.with_window("8d", "1d"), "8d"),
        (lambda bolt: bolt.with_tumbling_window(seconds(7 * 86_400 + 1)), "604801s"),
        (lambda bolt: bolt.with_window(SlidingLog("8d")), "8d"),
        (lambda bolt: bolt.with_window(Session("1h", max_duration="8d")), "8d"),
        (lambda bolt: bolt.with_window(Calendar("month", "UTC")), "31d"),
        (lambda bolt: bolt.with_window(Hopping(minutes(1), minutes(1)), Session(parse_duration("9d"))), "9d"),
        (lambda bolt: bolt.with_window("7d", "1d"), None),
        (lambda bolt: bolt.with_window(10), None),
        (lambda bolt: bolt.with_window(Calendar("week", "UTC")), None),
    ],
)
def test_azures_windows_are_at_most_7_days_long(windows: Any, length: str | None) -> None:
    bolt = windows(Ids().with_time(presets.azure())).with_timestamp_field("ts")
    if bolt.settings.slide != Count(1) or bolt.settings.kinds:  # windows of a number of events have no length to limit
        topology(free=windows(Ids().with_time(presets.azure().but(longest_window=None))).with_timestamp_field("ts"))
    if length is None:
        topology(bolt=bolt)
    else:
        found = problems(bolt)
        assert f"has windows of {length}" in found
        assert "longest window allowed here is 7d" in found


@pytest.mark.feature("AZ-7")
@pytest.mark.parametrize("late", ["0s", "5s", None])
def test_by_time_of_arrival_azures_policies_do_nothing(late: str | None) -> None:
    bolt = tumbling().with_time(presets.azure(late=late, out_of_order="2s", action="drop"))
    assert run(*AT_10_12_9, bolt=bolt) == {"bolt": [["a", "b", "c", "d"]]}


HAS_WINDOWS = "on a bolt that has windows already. the first windows would be lost. keep one of the two"
IN_ONE_CALL = "or give both to one with_window(...) if each event belongs to both"
HAS_A_TRIGGER = (
    "already. a trigger of keys opens windows of its own. keep one of the two; Panes(...) is the trigger that fires "
    "windows of a length or kind early or again"
)
TRIGGERED = Ids().with_trigger(CountTrigger(Count(3)))


@pytest.mark.parametrize(
    ("bolt", "call", "argument", "told"),
    [
        (Ids().with_tumbling_window("1m"), "with_window", Session("5m"), f"{HAS_WINDOWS}, {IN_ONE_CALL}; a length "),
        (Ids().with_window(Session("5m")), "with_tumbling_window", "1m", f"{HAS_WINDOWS}, {IN_ONE_CALL}; a length and"),
        (Ids().with_window(Session("5m")), "with_window", Session("6m"), f"{HAS_WINDOWS}, {IN_ONE_CALL}"),
        (Ids().with_window(Session("5m")), "with_window", 3, HAS_WINDOWS),
        (Ids().with_tumbling_window(3), "with_tumbling_window", 4, HAS_WINDOWS),
        (Ids().with_tumbling_window("1m"), "with_trigger", CountTrigger(Count(3)), f"has windows {HAS_A_TRIGGER}"),
        (TRIGGERED, "with_tumbling_window", "1m", f"has a trigger {HAS_A_TRIGGER}"),
        (TRIGGERED, "with_window", Session("5m"), f"has a trigger {HAS_A_TRIGGER}"),
        (
            TRIGGERED,
            "with_trigger",
            CountTrigger(Count(4)),
            "has a trigger already. the first trigger would be lost. keep one of the two",
        ),
    ],
)
def test_a_bolt_has_windows_once(bolt: Ids, call: str, argument: object, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        getattr(bolt, call)(argument)
    text = str(caught.value)
    assert text.startswith(f"{call} on a bolt that has ")
    assert told in text
    assert ("give both" in text) == (IN_ONE_CALL in told)


def test_the_same_windows_may_be_given_twice_and_one_key() -> None:
    assert Ids().with_tumbling_window("1m").with_window("1m", "1m").settings.length == minutes(1)
    with pytest.raises(ConfigError, match="whose key is user"):
        tumbling().with_key("user").with_watermark(per_key=True).with_key("device")
