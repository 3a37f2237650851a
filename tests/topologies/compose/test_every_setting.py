"""Every setting over every kind of window and every system: it changes an answer, or ``build()`` refuses it.

A base is a kind of window under the rules of a system, and a setting is put on top of it. Where the base can be built
and the setting is not refused, one of the scenarios below must be answered otherwise with it than without it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from itertools import product
from typing import Any, ClassVar

import pytest

from policies import TimeEvictionPolicy, TimeTriggerPolicy, WatermarkTimeEvictionPolicy, WatermarkTimeTriggerPolicy
from tests.helpers.examples import sampled
from topologies.graph.describing import topology_text
from topologies.graph.effects import NEEDS
from topologies.scenarios.scenario_model import Scenario
from topologies.topology import Topology
from windbolt import TopologyBuilder, replay, sinks, spouts
from windowing import Count, TopologyError, WindowedBolt, presets, seconds
from windowing.durations import Duration
from windowing.errors import ConfigError
from windowing.settings import DECLARED, SOURCE_ONLY, WindowSettings
from windowing.settings.kinds import Calendar, CountByStart, Hopping, Session, SlidingLog, Snapshot
from windowing.settings.panes import Panes
from windowing.settings.presets import RULES, Preset
from windowing.settings.rules import (
    Aligned,
    Arrival,
    DefaultTime,
    IdleRule,
    LateAction,
    LateBy,
    OutputTime,
    WatermarkCombiner,
)
from windowing.settings.triggers import CountTrigger

COLUMNS = "id string, ts long, at long, end long, shape string, gap long, mark long, part string, user string"
PRESETS: dict[str, Callable[..., Preset]] = {
    "storm": presets.storm,
    "atlas": presets.atlas,
    "streaminsight": presets.streaminsight,
    "azure": presets.azure,
}


class Told(WindowedBolt):
    outputs: ClassVar[Any] = "ids array<string>"

    def execute(self, window: Any) -> Any:
        return ([event["id"] for event in window.get()],)


class After(Told):
    """What the windows of the bolt before were, and when they ended by what they emitted."""

    outputs: ClassVar[Any] = "windows array<string>"

    def execute(self, window: Any) -> Any:
        return ([f"{event.timestamp}: {event['ids']}" for event in window.get()],)


@dataclass(frozen=True)
class Base:
    """A kind of window, a system, and how the bolt reads."""

    kind: str
    system: str
    clock: bool = False
    """Processing time, asked for by name."""
    inputs: int = 1

    def __str__(self) -> str:
        time = "clock" if self.clock else "events"
        return f"{self.system}-{time}-{self.kind}-{self.inputs}"


KINDS: dict[str, Callable[[WindowedBolt], WindowedBolt]] = {
    "tumbling": lambda bolt: bolt.with_tumbling_window("4s"),
    "hopping": lambda bolt: bolt.with_window("6s", "4s"),
    "gaps": lambda bolt: bolt.with_window("2s", "5s"),
    "every event": lambda bolt: bolt.with_window("4s"),
    "count": lambda bolt: bolt.with_window(3, 2),
    "count by time": lambda bolt: bolt.with_window(3, "4s"),
    "time by count": lambda bolt: bolt.with_window("4s", 2),
    "session": lambda bolt: bolt.with_window(Session("2s")),
    "long session": lambda bolt: bolt.with_window(Session("3s", max_duration="5s")),
    "snapshot": lambda bolt: bolt.with_window(Snapshot()),
    "sliding log": lambda bolt: bolt.with_window(SlidingLog("3s")),
    "count by start": lambda bolt: bolt.with_window(CountByStart(2)),
    "calendar": lambda bolt: bolt.with_window(Calendar("hour", "Europe/Berlin")),
    "several": lambda bolt: bolt.with_window(Hopping(seconds(4), seconds(4)), Hopping(seconds(6), seconds(3))),
    "trigger": lambda bolt: bolt.with_key("user").with_trigger(CountTrigger(Count(2))),
}


@dataclass(frozen=True)
class Setting:
    """What is put on top of a base."""

    name: str
    put: Callable[[WindowedBolt], WindowedBolt]
    rules: tuple[str, ...]
    """The fields of WindowSettings that it sets."""
    preset: Callable[[Preset], Preset] | None = None
    """Where it is a rule that only presets decide, or an argument of one."""
    without: Callable[[WindowedBolt], WindowedBolt] = lambda bolt: bolt
    """What the base has too: what the setting is about."""
    of: str = ""
    """The only system whose argument it is."""


def rule(name: str, value: Any, **more: Any) -> Setting:
    """A rule that is set by ``Preset.but``."""
    return Setting(f"but {name}", lambda bolt: bolt, (name,), preset=lambda preset: preset.but(**{name: value}), **more)


SETTINGS = [
    Setting("key", lambda b: b.with_key("user"), ("key",)),
    Setting("early panes", lambda b: b.with_trigger(Panes(early=1)), ("panes",)),
    Setting("late panes", lambda b: b.with_lateness(by="window", allowed="3s").with_trigger(Panes(late=True)),
            ("panes",),
            without=lambda b: b.with_lateness(by="window", allowed="3s")),
    Setting("late panes alone", lambda b: b.with_trigger(Panes(late=True)), ("panes",)),
    Setting("mode of panes", lambda b: b.with_trigger(Panes(early=1, mode="discarding")), ("panes",),
            without=lambda b: b.with_trigger(Panes(early=1))),
    Setting("lifetime", lambda b: b.with_lifetime("end"), ("lifetime",)),
    Setting("shapes", lambda b: b.with_lifetime("end", shape_field="shape"), ("lifetime",),
            without=lambda b: b.with_lifetime("end")),
    Setting("edge key", lambda b: b.with_lifetime("end", shape_field="shape", edge_key=["user"]), ("lifetime",),
            without=lambda b: b.with_lifetime("end", shape_field="shape")),
    Setting("edge key alone", lambda b: b.with_lifetime("end", edge_key=["user"]), ("lifetime",),
            without=lambda b: b.with_lifetime("end")),
    Setting("early", lambda b: b.with_lateness(arrival=Arrival("at", early="2s")), ("arrival",)),
    Setting("late", lambda b: b.with_lateness(arrival=Arrival("at", late="2s")), ("arrival",)),
    Setting("late dropped", lambda b: b.with_lateness(arrival=Arrival("at", late="2s", action="drop")), ("arrival",),
            without=lambda b: b.with_lateness(arrival=Arrival("at", late="2s"))),
    Setting("arrival alone", lambda b: b.with_lateness(arrival=Arrival("at")), ("arrival",)),
    Setting("bounds", lambda b: b.with_alignment(bounds="[start, end)"), ("bounds",),
            without=lambda b: b.with_alignment(bounds="(start, end]")),
    Setting("offset", lambda b: b.with_alignment(offset="1s"), ("offset",)),
    Setting("anchor", lambda b: b.with_alignment(anchor=5_500), ("anchor",)),
    Setting("anchor at the start", lambda b: b.with_alignment(anchor="start"), ("anchor",)),
    Setting("output time", lambda b: b.with_time(output_time="window start"), ("output_time",)),
    Setting("output time within the window",
            lambda b: b.with_alignment(bounds="[start, end)").with_time(output_time="window last"), ("output_time",),
            without=lambda b: b.with_alignment(bounds="[start, end)")),
    Setting("output time before an end that is held", lambda b: b.with_time(output_time="window last"),
            ("output_time",)),
    Setting("lag", lambda b: b.with_lag("3s"), ("lag",)),
    Setting("watermark interval", lambda b: b.with_watermark_interval("9s"), ("watermark_interval",)),
    Setting("watermark every", lambda b: b.with_watermark(every=2), ("watermark_every",)),
    Setting("watermark every time", lambda b: b.with_watermark(every="3s"), ("watermark_every",)),
    Setting("watermark field", lambda b: b.with_watermark(field="mark"), ("watermark_field",)),
    Setting("lag with marks of the source", lambda b: b.with_watermark(field="mark").with_lag("3s"), ("lag",),
            without=lambda b: b.with_watermark(field="mark")),
    Setting("watermark partition", lambda b: b.with_watermark(partition="part"), ("watermark_partition",)),
    Setting("partitions", lambda b: b.with_watermark(partition="part", partitions=["p1", "p2", "p9"]), ("partitions",),
            without=lambda b: b.with_watermark(partition="part")),
    Setting("max watermark", lambda b: b.with_watermark(combine="max"), ("watermark_combine",)),
    Setting("max over partitions", lambda b: b.with_watermark(partition="part", combine="max"),
            ("watermark_combine",), without=lambda b: b.with_watermark(partition="part")),
    Setting("substreams", lambda b: b.with_key("user").with_watermark(per_key=True), ("watermark_per_key",)),
    Setting("max with substreams", lambda b: b.with_key("user").with_watermark(per_key=True, combine="max"),
            ("watermark_combine",), without=lambda b: b.with_key("user").with_watermark(per_key=True)),
    Setting("interval with substreams",
            lambda b: b.with_key("user").with_watermark(per_key=True).with_watermark_interval("9s"),
            ("watermark_interval",), without=lambda b: b.with_key("user").with_watermark(per_key=True)),
    Setting("idle timeout", lambda b: b.with_watermark(idle_timeout="2s"), ("idle_timeout",)),
    Setting("idle timeout with marks of the source",
            lambda b: b.with_watermark(field="mark", idle_timeout="2s"), ("idle_timeout",),
            without=lambda b: b.with_watermark(field="mark")),
    Setting("idle rule", lambda b: b.with_watermark(idle_timeout="4s", idle_rule="max_remaining"), ("idle_rule",),
            without=lambda b: b.with_watermark(idle_timeout="4s")),
    Setting("partition idle timeout", lambda b: b.with_watermark(partition_idle_timeout="2s"),
            ("partition_idle_timeout",)),
    Setting("idle partitions", lambda b: b.with_watermark(partition="part", partition_idle_timeout="2s"),
            ("partition_idle_timeout",), without=lambda b: b.with_watermark(partition="part")),
    Setting("idle, the fastest counts", lambda b: b.with_watermark(combine="max", partition_idle_timeout="2s"),
            ("partition_idle_timeout",), without=lambda b: b.with_watermark(combine="max")),
    Setting("drop", lambda b: b.with_lateness(action="drop"), ("late_action",)),
    Setting("adjust", lambda b: b.with_lateness(action="adjust"), ("late_action",)),
    Setting("cut", lambda b: b.with_lifetime("end").with_lateness(action="cut"), ("late_action",),
            without=lambda b: b.with_lifetime("end")),
    Setting("late by window", lambda b: b.with_lateness(by="window"), ("late_by",),
            without=lambda b: b.with_lateness(by="watermark")),
    Setting("allowed lateness", lambda b: b.with_lateness(by="window", allowed="3s"), ("allowed_lateness",),
            without=lambda b: b.with_lateness(by="window")),
    Setting("late stream", lambda b: b.with_late_tuple_stream("late"), ("late_stream",)),
    Setting("message id", lambda b: b.with_message_id_field("user"), ("message_id_field",)),
    Setting("empty windows", lambda b: b.with_empty_windows(until="6s"), ("empty_windows_until",)),
    Setting("empty windows of keys", lambda b: b.with_key("user").with_empty_windows(until="6s"),
            ("empty_windows_until",), without=lambda b: b.with_key("user")),
    Setting("windows of listed keys",
            lambda b: b.with_key("user").with_empty_windows(until="6s", keys=["zoe"], since="1970-01-01"),
            ("listed_keys",), without=lambda b: b.with_key("user").with_empty_windows(until="6s")),
    Setting("empty windows of the calendar", lambda b: b.with_empty_windows(until="3h"), ("empty_windows_until",)),
    Setting("late by session", lambda b: b.with_key("user").with_lateness(by="window", by_session=True),
            ("late_by_session",), without=lambda b: b.with_key("user").with_lateness(by="window")),
    Setting("eviction policy", lambda b: b.with_policies(eviction=_eviction(b)), ("eviction",)),
    Setting("trigger policy", lambda b: b.with_policies(trigger=_trigger(b)), ("trigger",)),
    Setting("trigger of keys", lambda b: b.with_trigger(CountTrigger(Count(2))), ("key_trigger",)),
    # -- rules of presets alone
    rule("aligned", Aligned.STARTS),
    rule("aligned", Aligned.ENDS),
    rule("closes_after_end", True),
    rule("closes_after_end", False),
    rule("longest_window", seconds(1)),
    rule("ahead", Duration(1)),
    rule("output_time", OutputTime.START),
    rule("output_watermark", OutputTime.START),
    rule("watermark_every", SOURCE_ONLY),
    rule("watermark_combine", WatermarkCombiner.MAX),
    rule("watermark_imports", {"s0": "s1"}),
    rule("watermark_imports_beside", True),
    rule("estimate_arrival", True),
    rule("estimate_arrival", True, without=lambda b: b.with_lateness(arrival=Arrival("at", late="2s"))),
    rule("idle_rule", IdleRule.MAX_REMAINING),
    rule("close_fires", False),
    Setting("but close_fires behind a lag", lambda b: b, ("close_fires",),
            preset=lambda preset: preset.but(close_fires=False), without=lambda b: b.with_lag("3s")),
    rule("late_by", LateBy.WINDOW),
    rule("late_per_input", True),
    rule("late_action", LateAction.DROP),
    rule("default_time", DefaultTime.RECORD),
    # -- arguments
    *(Setting(f"{system}({name}={value!r})", lambda b: b, rules, preset=None, of=system)
      for system, name, value, rules in (
          ("storm", "lag", "3s", ("lag",)),
          ("atlas", "allowed_lateness", "1s", ("allowed_lateness",)),
          ("atlas", "idle_timeout", "2s", ("idle_timeout",)),
          ("atlas", "idle_rule", "max_remaining", ("idle_rule",)),
          ("atlas", "partition_idle_timeout", "2s", ("partition_idle_timeout",)),
          ("azure", "late", "2s", ("arrival",)),
          ("azure", "out_of_order", "2s", ("lag",)),
          ("azure", "early", "1s", ("arrival",)),
          ("azure", "action", "drop", ("late_action",)),
          ("azure", "arrival_field", "at", ("arrival",)),
      )),
]  # fmt: skip

NOT_WALKED = {
    "length": "the kinds of window",
    "slide": "the kinds of window",
    "kinds": "the kinds of window",
    "refused_stream": "an argument of with_trigger",
    "capacity": "arguments of with_trigger",
    "window_bytes": "a limit that ends the run",
    "call_time": "a limit that ends the run",
    "timestamp_field": "half of the bases",
    "timestamp_extractor": "in place of the field",
    "extractor_on_columns": "how the extractor is called",
    "extractor_on_error": "what happens where the extractor fails",
    "extractor_on_truncation": "what happens to an extracted time in nanoseconds",
    "processing_time": "the other half of the bases",
    "expired": "refused where windows do not follow each other; what it keeps is shown by whoever asks for it",
    "given": "what was called",
    "input_rules": "made of the presets of several sources",
    "asked": "what was called",
    "forgotten": "what was called",
    "every_is_derived": "what was called",
}
"""The fields that are no settings by themselves, or are walked as the bases."""


def _eviction(bolt: WindowedBolt) -> Any:
    return (TimeEvictionPolicy if bolt.settings.processing_time else WatermarkTimeEvictionPolicy)(seconds(3))


def _trigger(bolt: WindowedBolt) -> Any:
    return (TimeTriggerPolicy if bolt.settings.processing_time else WatermarkTimeTriggerPolicy)(seconds(3))


def test_every_setting_is_walked() -> None:
    walked = {name for setting in SETTINGS for name in setting.rules}
    assert {each.name for each in fields(WindowSettings)} == walked | set(NOT_WALKED)
    assert {need for declared in DECLARED.values() for need in declared.needs} == set(NEEDS)
    assert set(RULES) <= walked


TOLD_ONLY = [
    rule("longest_window", seconds(99)),
    Setting("imports beside", lambda b: b.with_watermark(imports={"s0": "s1"}, imports_beside=True),
            ("watermark_imports_beside",), without=lambda b: b.with_watermark(imports={"s0": "s1"})),
]  # fmt: skip
"""Settings whose values above are refused, or need another one besides."""
UNTOLD = {
    "default_time": "the bases name their time, and where a bolt names none, its time is told",
    "key_trigger": "a kind of window, in the place of others",
}
"""Declared settings of which describe says nothing on top of a base."""


@pytest.mark.parametrize("name", [name for name in DECLARED if name not in {*NOT_WALKED, *UNTOLD}])
def test_every_setting_is_described(name: str) -> None:
    """Somewhere: on some kind of window, under the rules of some system."""
    settings = [setting for setting in (*TOLD_ONLY, *SETTINGS) if name in setting.rules]
    bases = (Base(*each) for each in product(KINDS, PRESETS, (False, True), (1, 2)))
    pairs = (_described(base, setting) for base in bases for setting in settings if setting.of in ("", base.system))
    assert any(pair is not None and pair[0] != pair[1] for pair in pairs)


@pytest.mark.parametrize("setting", [each for each in SETTINGS if each.name in ("shapes", "edge key")])
def test_all_of_a_lifetime_is_described(setting: Setting) -> None:
    pair = _described(Base("tumbling", "storm"), setting)
    assert pair is not None
    assert pair[0] != pair[1]


@pytest.mark.parametrize("system", PRESETS)
def test_what_changes_nothing_is_not_described(system: str) -> None:
    """Azure's rules are about watermarks and edges too, of which sessions by the clock have none."""
    text = topology_text(built(Base("session", system, clock=True), None, with_it=False))
    assert re.search(r"watermark|multiples|past its end", text) is None


def _described(base: Base, setting: Setting) -> tuple[str, str] | None:
    """A topology in words without a setting and with it; None where it cannot be built."""
    try:
        without, with_it = (built(base, setting, with_it=given) for given in (False, True))
    except (TopologyError, ConfigError):
        return None
    return topology_text(without), topology_text(with_it)


OUTPUT = {"output_time", "output_watermark"}
"""Settings that only a bolt behind this one sees."""


def bases() -> Iterator[Base]:
    """Every kind of window by Storm's rules, and some kinds by those of every system, by events and by the clock."""
    for kind, system, clock in product(KINDS, PRESETS, (False, True)):
        some = kind == "tumbling" or (kind in ("session", "count") and not clock)
        if (kind == "trigger" and not clock) or (system != "storm" and not some):
            continue
        yield Base(kind, system, clock)
        if kind == "tumbling" and not clock:
            yield Base(kind, system, clock, inputs=2)


# ---- scenarios


def scenarios(inputs: int, scale: int) -> list[Scenario]:
    """Ends at each second; then events out of order, early, late, at edges, and not at all, on a clock that advances.

    ``scale``: how many milliseconds of event time a millisecond is, for windows of hours.
    """
    found = [_quiet(inputs, scale), *(_at_an_edge(second, inputs, scale) for second in range(2, 12))]
    found += [_behind(time, inputs, scale) for time in (6000, 9000)]
    return [*found, *(_scenario(seed, inputs, scale) for seed in range(5))]


def _quiet(inputs: int, scale: int) -> Scenario:
    """Events from the future, and then a clock that is past it."""
    events = [_event(name, time * scale, 1000 * scale) for name, time in (("a", 3400), ("b", 3500))]
    return _steps("quiet", events, inputs, {"clock": 5999 * scale}, {"clock": 6000 * scale})


def _behind(time: int, inputs: int, scale: int) -> Scenario:
    """Another user's event that comes behind the watermark, at 10 seconds."""
    ann, bob = (_event(name, at * scale, 10_000 * scale, user=name) for name, at in (("ann", 10_000), ("bob", time)))
    steps = [{"event": {**ann, "id": f"ann{number}"}, "stream": f"s{number}"} for number in range(inputs)]
    steps += [{"tick": "watermark"}, {"event": bob, "stream": "s0"}, {"tick": "watermark"}]
    return Scenario.model_validate({"name": f"behind {time}", "topology": "walk", "steps": steps})


def _event(name: str, time: int, clock: int, **more: Any) -> dict[str, Any]:
    plain = {"id": name, "ts": time, "at": clock, "end": time + 1000, "shape": "interval", "gap": 1000, "mark": None,
             "part": "p1", "user": "ann"}  # fmt: skip
    return {**plain, **more}


def _at_an_edge(second: int, inputs: int, scale: int) -> Scenario:
    """Two events, the second of which moves time to where a window may end."""
    times = (1000 * scale, second * 1000 * scale)
    events = [_event(name, time, time, user=name) for name, time in zip(("ann", "bob"), times, strict=True)]
    return _steps(f"edge {second}", events, inputs, {"tick": "watermark"})


def _steps(name: str, events: list[dict[str, Any]], inputs: int, *last: dict[str, Any]) -> Scenario:
    """Events that come on every input, and something after them."""
    steps = [
        {"event": {**event, "id": f"{event['id']}{number}"}, "stream": f"s{number}", "clock": event["at"]}
        for event in events
        for number in range(inputs)
    ]
    return Scenario.model_validate({"name": name, "topology": "walk", "steps": [*steps, *last]})


def _scenario(seed: int, inputs: int, scale: int) -> Scenario:
    choose = random.Random(seed)
    clock, time, steps = 0, 0, list[dict[str, Any]]()
    for number in range(22):
        time += choose.choice((0, 0, 500, 1000, 1000, 2000, 4000))
        clock = max(clock, time) if number % 7 == 6 else clock + choose.choice((0, 0, 1000, 1000, 2500))
        began = max(0, time - choose.choice((0, 0, 0, 1000, 3000, 7000)))
        if number % 9 == 8 and seed % 2:
            began += 3_600_000
        event = _event(
            f"e{number}", began * scale, clock * scale, end=(began + choose.choice((500, 1000, 4000))) * scale,
            gap=choose.choice((500, 3000)), shape=choose.choice(("interval", "point", "start_edge")),
            part=choose.choice(("p1", "p1", "p1", "p2")), user=choose.choice(("ann", "bob")),
        )  # fmt: skip
        if event["shape"] == "start_edge" and choose.random() < 0.7:
            steps.append({"event": event, "stream": "s0", "clock": clock * scale})
            event = {**event, "id": f"x{number}", "shape": "end_edge", "user": choose.choice(("ann", event["user"]))}
        if choose.random() < 0.2:
            event["mark"] = max(0, time - 1000) * scale
        stream = f"s{choose.choice((0, 0, 0, inputs - 1))}"
        steps.append({"event": event, "stream": stream, "clock": clock * scale})
        if choose.random() < 0.25:
            steps.append({"tick": "watermark"})
        if choose.random() < 0.15:
            clock += choose.choice((1000, 3000, 6000))
            steps.append({"clock": clock * scale})
    if seed % 3:
        steps.append({"close": True})
    else:
        steps += [{"clock": (max(clock, time) + 1000 * second) * scale} for second in range(1, 9)]
    return Scenario.model_validate({"name": str(seed), "topology": "walk", "steps": steps})


def built(base: Base, setting: Setting | None, *, with_it: bool, bolt: Callable[[], WindowedBolt] = Told) -> Topology:
    """The bolt of a base, with a setting or with what it needs besides, and a bolt that reads it."""
    arguments: dict[str, Any] = {"arrival_field": "at", "late": "4s"} if base.system == "azure" else {}
    if setting is not None and setting.of:
        name, _, value = setting.name.removesuffix(")").partition("(")[2].partition("=")
        arguments = {key: given for key, given in arguments.items() if with_it and key != name}
        if not with_it and base.system == "azure" and name != "arrival_field":
            arguments = {"arrival_field": "at"} if name == "late" else {"arrival_field": "at", "late": "4s"}
        if with_it:
            if base.system == "azure" and name != "arrival_field":
                arguments = {"arrival_field": "at", **({} if name == "late" else {"late": "4s"})}
            arguments[name] = value.strip("'")
    preset = PRESETS[base.system](**arguments)
    if with_it and setting is not None and setting.preset is not None:
        preset = setting.preset(preset)
    made: WindowedBolt = KINDS[base.kind](bolt().with_time(preset))
    made = made.with_time(processing=True) if base.clock else made.with_timestamp_field("ts")
    if setting is not None:
        made = (setting.without if not with_it or setting.preset is not None else setting.put)(made)
    builder = TopologyBuilder("walk")
    declared = builder.set_bolt("bolt", made)
    for number in range(base.inputs):
        builder.set_spout(f"s{number}", spouts.memory(COLUMNS))
        declared.global_grouping(f"s{number}")
    if setting is not None and OUTPUT & set(setting.rules):
        builder.set_bolt("after", After().with_tumbling_window("3s")).global_grouping("bolt")
        builder.set_sink("times", sinks.memory()).from_("after")
    if made.settings.late_stream is not None:
        builder.set_sink("late", sinks.memory()).from_("bolt", stream=made.settings.late_stream)
    return builder.build()


def answer(topology: Topology, scenario: Scenario) -> Any:
    found = replay(scenario, topology)
    return (
        found.windows, found.late, found.watermarks, sorted(map(str, found.pending)), found.counts, found.outputs,
        found.events, found.clocks, found.metrics,
    )  # fmt: skip


def corpus(base: Base) -> list[Scenario]:
    """The scenarios for a base."""
    return _corpus(base.inputs, 1200 if base.kind == "calendar" else 1)


@cache
def _corpus(inputs: int, scale: int) -> list[Scenario]:
    return scenarios(inputs, scale)


@cache
def plainly(base: Base, bolt: Callable[[], WindowedBolt] = Told) -> Topology | None:
    """The base alone; None where the kind is none of the system's."""
    try:
        return built(base, None, with_it=False, bolt=bolt)
    except (TopologyError, ConfigError):
        return None


def without(base: Base, setting: Setting, bolt: Callable[[], WindowedBolt] = Told) -> Topology | None:
    """The base with what a setting needs besides; None where that cannot be built. Most settings need nothing."""
    if setting.without is Setting.without and not setting.of and not OUTPUT & set(setting.rules):
        return plainly(base, bolt)
    try:
        return built(base, setting, with_it=False, bolt=bolt)
    except (TopologyError, ConfigError):
        return None


def _said(topology: Topology) -> WindowSettings:
    return topology.windowed["bolt"].bolt.settings


_without: dict[tuple[Base, bool, str, int], Any] = {}
"""Answers without a setting, by base, whether there is a bolt behind, settings, and scenario: many pairs share them."""
_telling: dict[str, list[int]] = {}
"""By setting, the scenarios that showed what it changes on some base, the last one first: they do so on others too."""


def changes(base: Base, setting: Setting, before: Topology, after: Topology) -> bool:
    """Whether some scenario is answered otherwise with the setting."""
    telling, cases = _telling.setdefault(setting.name, []), corpus(base)
    for number in (*telling, *(each for each in range(len(cases)) if each not in telling)):
        said = repr([getattr(_said(before), each.name) for each in fields(WindowSettings) if each.compare])
        key = base, "after" in before.windowed, said, number
        if key not in _without:
            _without[key] = answer(before, cases[number])
        if _without[key] != answer(after, cases[number]):
            telling[:] = [number, *(each for each in telling if each != number)]
            return True
    return False


def verdict(base: Base, setting: Setting) -> str:
    """``changes``, ``refused``, ``nothing``, or why the pair is none."""
    if setting.of not in ("", base.system) or plainly(base) is None:
        return "not walked"
    before = without(base, setting)
    if before is None:
        return "not walked"
    try:
        after = built(base, setting, with_it=True)
    except (TopologyError, ConfigError) as error:
        return f"refused: {error}"
    if _said(before) == _said(after):
        return "not walked"  # what it says is the system's rule already
    return "changes" if changes(base, setting, before, after) else "nothing"


IGNORED = {"late", "out_of_order", "early", "action", "arrival_field"}
"""What Azure itself ignores by the clock of arrival: the policies are of timestamps (AZ-7)."""

DUE_ANYWAY = {f"storm-events-{kind}-1" for kind in ("every event", "count", "time by count")}
"""Whose windows end at events, so that the end of the streams finds none open, but behind a lag."""


@pytest.mark.feature("AT-22")
@pytest.mark.parametrize("setting", sampled(SETTINGS, 44, lambda setting: setting.name, first=5))
def test_a_setting_changes_something_or_is_refused(setting: Setting) -> None:
    walked = list(bases())[SETTINGS.index(setting) % 2 :: 2]
    found = {str(base): verdict(base, setting) for base in walked}
    ignored = setting.of == "azure" and any(f"({name}=" in setting.name for name in IGNORED)
    idle = [name for name, said in found.items() if said == "nothing" and not (ignored and "-clock-" in name)]
    assert set(idle) == (DUE_ANYWAY & {*found} if setting.name == "but close_fires" else set())
    for said in found.values():
        if said.startswith("refused"):
            assert len(said.split(". ")) > 1, said  # what, why, what to do
    assert any(said != "not walked" for said in found.values())
