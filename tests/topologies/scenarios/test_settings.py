"""The settings of a scenario's bolt: what they come to, and the columns that they ask for."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import pyarrow as pa
import pytest
from pydantic import BaseModel

from topologies.scenarios.scenario_bolt import (
    AtlasRules,
    AzureRules,
    BoltSettings,
    PresetSetting,
    StormRules,
    StreamInsightRules,
    bare_bolt,
    columns_named_by,
    json_cell,
    schema_of,
)
from topologies.scenarios.scenario_model import Scenario, read_scenario
from windowing import presets
from windowing.durations import Count, hours, minutes, seconds
from windowing.errors import ScenarioError
from windowing.schema import TIMESTAMP
from windowing.settings import DECLARED, WindowSettings
from windowing.settings.kinds import Calendar, CountByStart, Hopping, Session, SlidingLog, Snapshot
from windowing.settings.panes import PaneMode, Panes, after_clock, after_count, after_event_time
from windowing.settings.rules import (
    Aligned,
    Arrival,
    Bounds,
    IdleRule,
    LateAction,
    LateBy,
    Lifetime,
    OutputTime,
    WatermarkCombiner,
)


def scenario(**changes: Any) -> Scenario:
    return read_scenario({"name": "a", **changes})


def settings(**bolt: Any) -> dict[str, Any]:
    """What a scenario's settings come to, where it is not what they are without them."""
    rules, defaults = scenario(bolt=bolt, steps=[]).rules, WindowSettings()
    values = {each.name: getattr(rules, each.name) for each in fields(rules)}
    # Which calls were made, not what they set; and that what has expired is shown wherever it can be.
    calls = {"asked", "every_is_derived", "forgotten", "given", "expired"}
    return {name: value for name, value in values.items() if value != getattr(defaults, name) and name not in calls}


class TestSettings:
    @pytest.mark.parametrize(
        ("given", "rules"),
        [
            ({"session": {"gap": "5s", "gap_field": "g"}}, {"kinds": (Session(seconds(5), gap_field="g"),)}),
            ({"snapshot": True}, {"kinds": (Snapshot(),)}),
            ({"sliding_log": "5s"}, {"kinds": (SlidingLog(seconds(5)),)}),
            ({"count_by_start": 2}, {"kinds": (CountByStart(Count(2)),)}),
            (
                {"calendar": {"unit": "day", "zone": "Europe/Berlin", "at": ["22:00", "06:00"]}},
                {"kinds": (Calendar("day", "Europe/Berlin", at=["06:00", "22:00"]),), "bounds": Bounds.START},
            ),
            (
                {"calendar": {"unit": "day", "zone": "Europe/Berlin"}},
                {"kinds": (Calendar("day", "Europe/Berlin"),), "bounds": Bounds.START},
            ),
            (
                {
                    "windows": [
                        {"hopping": {"length": "1h", "slide": "5m"}},
                        {"tumbling": "1h"},
                        {"session": {"gap": "1s"}},
                    ]
                },
                {"kinds": (Hopping(hours(1), minutes(5)), Hopping(hours(1), hours(1)), Session(seconds(1)))},
            ),
            ({"snapshot": True, "key": ["user"]}, {"kinds": (Snapshot(),), "key": ("user",)}),
            (
                {"snapshot": True, "end_field": "end", "shape_field": "shape", "edge_key": ["k"]},
                {"kinds": (Snapshot(),), "lifetime": Lifetime("end", "shape", ("k",))},
            ),
            (
                {"snapshot": True, "substreams": ["device"]},
                {"kinds": (Snapshot(),), "key": ("device",), "watermark_per_key": True, "watermark_every": Count(1)},
            ),
            (
                {"snapshot": True, "arrival": {"field": "at", "early": "5m", "late": "5s", "action": "drop"}},
                {"kinds": (Snapshot(),), "arrival": Arrival("at", minutes(5), seconds(5), LateAction.DROP)},
            ),
            (
                {"snapshot": True, "panes": {"early": "10s", "late": True, "mode": "discarding"}},
                {"kinds": (Snapshot(),), "panes": Panes(after_clock("10s"), after_count(1), PaneMode.DISCARDING)},
            ),
            (
                {
                    "snapshot": True,
                    "panes": {"late": {"any": [3, "10s", {"event_time": "5s", "even_unchanged": True}]}},
                },
                {
                    "kinds": (Snapshot(),),
                    "panes": Panes(
                        late=after_count(3) | after_clock("10s") | after_event_time("5s", even_unchanged=True)
                    ),
                },
            ),
            (
                {"snapshot": True, "panes": {"early": {"all": [3, {"clock": "10s"}], "once": True}, "late": 2}},
                {
                    "kinds": (Snapshot(),),
                    "panes": Panes((after_count(3) & after_clock("10s")).once(), after_count(2)),
                },
            ),
            ({"snapshot": True, "anchor": "start"}, {"kinds": (Snapshot(),), "anchor": "start"}),
            ({"snapshot": True, "anchor": "1970-01-01T00:00:05Z"}, {"kinds": (Snapshot(),), "anchor": 5_000_000}),
            (
                {"snapshot": True, "late": "divert", "late_by": "window", "allowed_lateness": "2s"},
                {"kinds": (Snapshot(),), "late_by": LateBy.WINDOW, "allowed_lateness": seconds(2)},
            ),
            (
                {"length": 5, "sliding": "5s", "aligned": "starts"},
                {"length": Count(5), "slide": seconds(5), "aligned": Aligned.STARTS},
            ),
            (
                {"snapshot": True, "watermark_combine": "max", "watermark_partition": "p", "close_fires": False},
                {
                    "kinds": (Snapshot(),),
                    "watermark_combine": WatermarkCombiner.MAX,
                    "watermark_partition": "p",
                    "close_fires": False,
                },
            ),
            (
                {"snapshot": True, "closes_after_end": True, "output_time": "window start", "estimate_arrival": True},
                {
                    "kinds": (Snapshot(),),
                    "closes_after_end": True,
                    "output_time": OutputTime.START,
                    "estimate_arrival": True,
                },
            ),
            (
                {"snapshot": True, "idle_timeout": "1m", "idle_rule": "max_remaining", "partition_idle_timeout": "2m"},
                {
                    "kinds": (Snapshot(),),
                    "idle_timeout": minutes(1),
                    "idle_rule": IdleRule.MAX_REMAINING,
                    "partition_idle_timeout": minutes(2),
                },
            ),
        ],
    )
    def test_they_become_those_of_a_bolt(self, given, rules):
        assert settings(**given) == rules

    @pytest.mark.parametrize(
        ("given", "preset"),
        [
            ("storm", presets.storm()),
            ("azure", presets.azure()),
            (
                {"azure": {"late": "5m", "out_of_order": "2m", "early": None, "action": "drop", "arrival_field": "at"}},
                presets.azure(late="5m", out_of_order="2m", early=None, action="drop", arrival_field="at"),
            ),
            ({"atlas": {"allowed_lateness": "0s", "idle_timeout": "1m"}}, presets.atlas("0s", idle_timeout="1m")),
            ({"streaminsight": {"every": None, "field": "cti"}}, presets.streaminsight(None, field="cti")),
            ({"streaminsight": {"every": "5s", "delay": "-1us"}}, presets.streaminsight("5s", "-1us")),
            ("strictly_increasing_start_time", presets.strictly_increasing_start_time()),
        ],
    )
    def test_a_preset_sets_all_rules_of_a_system(self, given, preset):
        rules = scenario(bolt={"snapshot": True, "preset": given}, steps=[]).rules
        assert {name: getattr(rules, name) for name in presets.RULES} == preset.changes()

    def test_a_rule_beside_a_preset_wins(self):
        bolt = {"preset": {"atlas": {"idle_timeout": "1m"}}, "length": "5m", "bounds": "(start, end]"}
        rules = scenario(bolt={**bolt, "idle_rule": "max_remaining", "allowed_lateness": "9s"}, steps=[]).rules
        assert (rules.bounds, rules.allowed_lateness, rules.late_by) == (Bounds.END, seconds(9), LateBy.WINDOW)
        assert (rules.idle_timeout, rules.idle_rule) == (minutes(1), IdleRule.MAX_REMAINING)

    def test_every_preset_and_every_argument_can_be_written(self):
        rules: dict[str, type[BaseModel]] = {
            "storm": StormRules,
            "atlas": AtlasRules,
            "streaminsight": StreamInsightRules,
            "azure": AzureRules,
        }
        assert set(PresetSetting.model_fields) == {*rules, "increasing_start_time", "strictly_increasing_start_time"}
        for name, model in rules.items():
            assert list(model.model_fields) == list(inspect.signature(getattr(presets, name)).parameters)

    def test_every_rule_of_a_preset_can_be_written_by_itself(self):
        of_a_preset_alone = {"ahead", "default_time"}
        of_the_scenario = {"partitions"}
        keys = {DECLARED[rule].scenario for rule in presets.RULES if rule not in of_a_preset_alone | of_the_scenario}
        assert keys - set(BoltSettings.model_fields) == set()

    def test_inputs_take_marks_from_others_by_the_names_that_they_have_in_the_topology(self):
        bolt = BoltSettings.model_validate({"length": "5m", "imports": {"lookup": "data"}})
        assert bare_bolt(bolt).settings.watermark_imports == {"lookup": "data"}
        assert bare_bolt(bolt, {"x.lookup": "x.data"}).settings.watermark_imports == {"x.lookup": "x.data"}


def test_a_session_gap_of_zero_is_told_where_it_stands():
    with pytest.raises(ScenarioError, match=r"bolt\.session: a session gap of zero"):
        scenario(bolt={"session": {"gap": "0s"}}, steps=[])


@pytest.mark.parametrize(
    ("panes", "text"),
    [
        ({"early": {"any": [1]}}, "panes.early.any: expected two triggers or more, found 1"),
        (
            {"early": [1]},
            r"panes.early: expected a number of events, a duration of the clock or a trigger, found \[1\]",
        ),
        ({"early": True}, "panes.early: expected a number of events"),
        ({"early": 0}, "panes.early: .*every 0 events"),
        ({"late": "soon"}, "panes.late: 'soon' is not a duration"),
        ({"late": {"count": 1, "clock": "1s"}}, "panes.late: expected one of .*, found count and clock"),
        ({"late": {"once": True}}, "panes.late: expected one of .*, found none"),
        ({"late": {"cuont": 1}}, "panes.late: unknown key 'cuont'"),
        ({"late": {"any": [1, {"clock": 0}]}}, r"panes.late.any.?1.?.clock: expected a duration"),
        ({"late": {"count": 1, "even_unchanged": True}}, "panes.late: count with even_unchanged"),
    ],
)
def test_what_is_no_trigger_is_told_where_it_stands(panes, text):
    with pytest.raises(ScenarioError, match=text):
        scenario(bolt={"length": "5m", "panes": panes}, steps=[])


class TestColumns:
    rules = scenario(
        bolt={
            "session": {"gap": "1s", "gap_field": "gap"},
            "preset": {"azure": {"arrival_field": "at"}},
            "timestamp_field": "ts",
            "end_field": "end",
            "shape_field": "shape",
            "watermark_field": "wm",
            "watermark_partition": "part",
            "key": ["user"],
        },
        steps=[],
    ).rules

    def test_they_are_those_that_the_settings_name(self):
        assert columns_named_by(self.rules) == {
            **dict.fromkeys(["ts", "end", "at", "wm"], "time"),
            "gap": "gap",
            **dict.fromkeys(["user", "shape", "part"], "text"),
        }
        assert schema_of(self.rules).field("gap").type == pa.int64()
        assert schema_of(self.rules).field("at").type == TIMESTAMP

    @pytest.mark.parametrize(
        ("kind", "value", "found"),
        [
            ("time", 1000, "1970-01-01T00:00:01+00:00"),
            ("time", 10**15, None),
            ("time", None, None),
            ("gap", 1500, 1500),
            ("gap", "2s", 2000),
            ("text", "a", "a"),
            ("text", 7, "7"),
        ],
    )
    def test_values_become_theirs(self, kind, value, found):
        assert json_cell(kind, value) == found

    @pytest.mark.parametrize(
        ("kind", "value"), [("time", "soon"), ("gap", "5us"), ("gap", 1.5), ("text", True), ("text", [])]
    )
    def test_others_are_refused(self, kind, value):
        with pytest.raises(ScenarioError):
            json_cell(kind, value)
