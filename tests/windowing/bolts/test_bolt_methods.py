"""The methods that configure a bolt: what they take, refuse, put back and leave as it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from windbolt import TopologyBuilder, sinks, spouts
from windowing import (
    SOURCE,
    Arrival,
    Calendar,
    ConfigError,
    Count,
    Panes,
    Session,
    TupleWindow,
    WindowedBolt,
    minutes,
    presets,
    seconds,
)
from windowing.durations import Duration, Shift
from windowing.settings import SOURCE_ONLY, WindowSettings
from windowing.settings.rules import Bounds, LateBy
from windowing.settings.triggers import CountTrigger, RuleTrigger

ANYTHING: Any = "anything"
NUMBER: Any = 5
NOTHING: Any = None


class Seen(WindowedBolt):
    outputs = "n long"

    def execute(self, window: TupleWindow) -> int:
        return len(window)


def bolt() -> WindowedBolt:
    return Seen().with_tumbling_window("10s").with_timestamp_field("ts")


def built(configured: WindowedBolt) -> WindowSettings:
    """The settings with which a topology runs; TopologyError for what cannot be."""
    builder = TopologyBuilder("methods")
    builder.set_spout("events", spouts.memory("ts timestamp, arrived timestamp, p long, wm timestamp"))
    builder.set_bolt("seen", configured).global_grouping("events")
    builder.set_sink("out", sinks.memory()).from_("seen")
    return builder.build().windowed["seen"].bolt.settings


@pytest.mark.parametrize(
    "call",
    [
        lambda: Seen().with_window(),
        lambda: Seen().with_window(NOTHING, "10s"),
        lambda: Seen().with_window(length=NOTHING, slide="10s"),
        lambda: Seen().with_window("10s", "5s", "1s"),  # type: ignore[call-overload]
        lambda: Seen().with_window(Session),  # type: ignore[call-overload]
        lambda: Seen().with_window([Session("5s")]),  # type: ignore[call-overload]
        lambda: Seen().with_window(Panes(early=1)),  # type: ignore[call-overload]
        lambda: Seen().with_window(Session("5s"), slide="1s"),  # type: ignore[call-overload]
        lambda: bolt().with_lag(NOTHING),
        lambda: bolt().with_late_tuple_stream(NOTHING),
        lambda: bolt().with_message_id_field(NOTHING),
        lambda: Seen().with_timestamp_field(NOTHING),
        lambda: bolt().with_lifetime("until", shape_field="shape", edge_key=ANYTHING),
        lambda: bolt().with_time(),
        lambda: Seen().with_time(processing=ANYTHING),
        lambda: bolt().with_watermark(),
        lambda: bolt().with_watermark(partitions=[0, 1]),
        lambda: bolt().with_watermark(partition=SOURCE, partitions=[0, 1]),
        Panes,
        lambda: Panes(late=ANYTHING),
        lambda: presets.atlas().but(late_by=ANYTHING),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_given(call: Callable[[], object]) -> None:
    with pytest.raises(ConfigError):
        call()


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: Session("5s", touching=ANYTHING), "touching"),
        (lambda: CountTrigger(Count(5), from_first=ANYTHING), "from_first"),
        (lambda: RuleTrigger(print, from_first=ANYTHING), "from_first"),
        (lambda: presets.streaminsight(to_infinity=ANYTHING), "to_infinity"),
        (lambda: Seen().with_timestamp_extractor(print, columns=ANYTHING), "columns"),
    ],
)
def test_a_text_is_no_flag(call: Callable[[], object], argument: str) -> None:
    with pytest.raises(ConfigError, match=f"{argument}='anything'.*True"):
        call()


def test_a_slide_may_be_given_by_its_name() -> None:
    settings = Seen().with_window("10s", slide="5s").settings
    assert (settings.length, settings.slide) == (seconds(10), seconds(5))
    assert Seen().with_window(length="10s").settings.slide == Count(1)


def test_what_a_call_does_not_name_stays_as_it_is() -> None:
    settings = bolt().with_watermark(partition="p").with_watermark(partitions=[0, 1]).with_watermark(every=1).settings
    assert (settings.watermark_partition, settings.partitions, settings.watermark_every) == ("p", ("0", "1"), Count(1))


def test_a_column_of_watermarks_can_be_taken_back() -> None:
    given = bolt().with_watermark(field="wm")
    assert built(given).watermark_every == SOURCE_ONLY
    assert given.with_watermark(field=None).settings.watermark_every is None


def test_watermarks_of_keys_can_be_taken_back() -> None:
    given = bolt().with_key("p").with_watermark(per_key=True)
    assert given.settings.watermark_every == Count(1)
    taken_back = given.with_watermark(per_key=False).settings
    assert taken_back.watermark_every is None
    assert taken_back == bolt().with_key("p").settings
    assert "watermark_every" not in taken_back.given


def test_how_often_watermarks_come_is_derived_only_where_nobody_says_it() -> None:
    keyed = bolt().with_key("p")
    for said in (
        keyed.with_watermark(every=5, per_key=True),
        keyed.with_watermark(per_key=True).with_watermark(every=5),
    ):
        assert said.settings.watermark_every == Count(5)
        assert said.with_watermark(per_key=False).settings.watermark_every == Count(5)
    atlas = keyed.with_time(presets.atlas()).with_watermark(per_key=True).with_watermark(per_key=False)
    assert atlas.settings.watermark_every == Count(1)
    both = keyed.with_watermark(per_key=True).with_watermark(field="wm")
    assert both.settings.watermark_every == SOURCE_ONLY
    assert both.with_watermark(field=None).settings.watermark_every == Count(1)
    assert both.with_watermark(field=None).with_watermark(per_key=False).settings.watermark_every is None


def test_what_a_preset_has_set_can_be_taken_back() -> None:
    assert built(bolt().with_time(presets.atlas()).with_watermark(partition=None)).watermark_partition is None
    azure = bolt().with_time(presets.azure(arrival_field="arrived")).with_lateness(arrival=None)
    assert built(azure).arrival is None


def test_what_is_late_by_the_watermark_has_no_allowance_unless_it_is_asked_for() -> None:
    settings = built(bolt().with_time(presets.atlas()).with_lateness(by="watermark"))
    assert (settings.late_by, settings.allowed_lateness) == (LateBy.WATERMARK, Duration(0))
    assert bolt().with_time(presets.atlas()).with_lateness(by="window").settings.allowed_lateness == seconds(3)
    asked = bolt().with_lateness(allowed="2s").with_lateness(by="watermark")
    assert asked.settings.allowed_lateness == seconds(2)


def test_a_bolt_that_names_no_time_may_go_by_the_arrival() -> None:
    named = Seen().with_tumbling_window("10s").with_lateness(arrival=Arrival("arrived"))
    assert built(named.with_time(default_time="the arrival")).timestamp_field == "arrived"


@pytest.mark.parametrize(
    ("configured", "bounds"),
    [
        (Seen().with_window(Calendar("day", "UTC")), Bounds.START),
        (Seen().with_window(Calendar("day", "UTC", at=["06:00"])), Bounds.START),
        (Seen().with_window(Calendar("day", "UTC"), Calendar("hour", "UTC")), Bounds.START),
        (Seen().with_window(Calendar("day", "UTC")).with_time(presets.azure()), Bounds.START),
        (Seen().with_alignment(bounds="(start, end]").with_window(Calendar("day", "UTC")), Bounds.END),
        (Seen().with_window(Calendar("day", "UTC")).with_alignment(bounds="(start, end]"), Bounds.END),
        (Seen().with_window(Calendar("day", "UTC"), Session("1h")), Bounds.END),
    ],
)
def test_calendar_windows_alone_hold_their_start_unless_bounds_are_asked_for(
    configured: WindowedBolt, bounds: Bounds
) -> None:
    assert configured.settings.bounds is bounds


def test_the_last_of_a_lag_and_its_opposite_counts() -> None:
    ahead = bolt().with_lag("5s").with_watermark(every=1, ahead="1us")
    assert ahead.settings.delay == -1
    assert ahead.with_lag("5s").settings.delay == 5_000_000


def test_what_the_opposite_has_replaced_is_not_asked_for_any_more() -> None:
    """``ahead`` needs watermarks with events: a refusal would name what does not count."""
    settings = built(bolt().with_watermark(ahead="1us").with_lag("5s"))
    assert (settings.ahead, settings.lag) == (Duration(0), seconds(5))
    assert dict(settings.asked) == {"lag": "with_lag"}
    assert "lag" not in dict(bolt().with_lag("5s").with_watermark(every=1, ahead="1us").settings.asked)


def test_rules_of_a_preset_are_read_as_those_of_a_bolt() -> None:
    preset = presets.atlas().but(allowed_lateness="5m", bounds="(start, end]")
    settings = bolt().with_time(preset).settings
    assert (settings.allowed_lateness, settings.bounds) == (minutes(5), Bounds.END)


def test_an_offset_goes_back_and_no_window_begins_before_its_anchor() -> None:
    assert bolt().with_alignment(offset="-3s").settings.offset == Shift(-3_000_000)
    anchored = Seen().with_tumbling_window("10s").with_alignment(anchor=5_000, offset="-3s").with_timestamp_field("ts")
    (windows,) = built_windows(anchored)
    assert windows.origin == 12_000_000


def built_windows(configured: WindowedBolt) -> tuple[Any, ...]:
    builder = TopologyBuilder("methods")
    builder.set_spout("events", spouts.memory("ts timestamp"))
    builder.set_bolt("seen", configured).global_grouping("events")
    builder.set_sink("out", sinks.memory()).from_("seen")
    return builder.build().windowed["seen"].assigners


def test_the_help_of_a_bolt_lists_its_methods() -> None:
    listed = re.findall(r"``(with_\w+)``", WindowedBolt.__doc__ or "")
    assert sorted(listed) == sorted(name for name in dir(WindowedBolt) if name.startswith("with_"))
