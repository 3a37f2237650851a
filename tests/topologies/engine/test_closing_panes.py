"""Firings that close a window, come without new events, need so many at the end, or follow a trigger of late events."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.helpers.strategies import Json
from tests.oracles import pane_oracle
from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_model import read_scenario
from windbolt import TopologyBuilder, sinks, spouts
from windowing import TupleWindow, WindowedBolt
from windowing.errors import ConfigError, TopologyError
from windowing.schema import EmittedRows
from windowing.settings.kinds import Session
from windowing.settings.panes import Panes, after_clock, after_count, after_event_time

PANES: list[Json] = [
    {"early": 2, "closes": True},
    {"early": 1, "closes": True},
    {"early": 2, "closes": True, "at_end": 2},
    {"early": {"event_time": "3ms"}, "closes": True},
    {"early": {"event_time": "3ms", "even_unchanged": True}},
    {"early": {"event_time": "1ms", "even_unchanged": True}, "at_end": 2},
    {"at_end": 2},
    {"early": 2, "at_end": 3},
    {"early": 2, "late": True, "at_end": 3},
    {"early": {"event_time": "4ms", "even_unchanged": True}, "late": True},
    {"late": 2},
    {"late": {"event_time": "4ms"}},
    {"early": 2, "late": {"event_time": "3ms", "even_unchanged": True}},
    {"early": {"any": [3, {"event_time": "5ms"}]}, "late": {"all": [2, {"event_time": "2ms"}]}},
    {"early": {"count": 1, "once": True}, "late": {"any": [3, {"event_time": "6ms"}]}, "at_end": 2},
]


@st.composite
def scenarios(draw: st.DrawFn) -> Json:
    """Windows of some keys, events around a time that advances, ticks and crashes."""
    panes = draw(st.sampled_from(PANES))
    allowed = draw(st.sampled_from([0, 0, 5, 12])) or (5 if panes.get("late") else 0)
    slides: Json = draw(
        st.sampled_from([{"tumbling": True}, {"tumbling": True}, {"sliding": "5ms"}, {"sliding": "4ms"}])
    )
    bolt: Json = {"length": "10ms", **slides, "timestamp_field": "ts", "key": "k", "panes": panes}
    if allowed:
        bolt |= {"late_by": "window", "allowed_lateness": f"{allowed}ms"}
    now, steps, moves = 1, list[Json](), st.sampled_from(["on", "on", "back", "tick", "tick", "crash", "tie"])
    for number, move in enumerate(draw(st.lists(moves, min_size=3, max_size=30))):
        if move == "tick":
            steps.append({"tick": "watermark"})
            continue
        if move == "crash":
            steps.append({"crash": True})
            continue
        now += draw(st.integers(1, 4)) if move == "on" else 0
        ts = now - (draw(st.integers(1, 14)) if move == "back" else 0)
        steps.append({"event": {"id": f"e{number}", "ts": ts, "k": draw(st.sampled_from("ab"))}})
    return {"name": "panes", "bolt": bolt, "steps": [*steps, {"tick": "watermark"}, {"close": True}]}


def found(scenario: Json) -> Json:
    return replay_locally(read_scenario(scenario)).to_json()


def fired(answer: Json) -> list[pane_oracle.Fired]:
    return [
        (window["end"], window["key"], window["pane"]["timing"], tuple(window["events"]))
        for window in answer["windows"]
    ]


@examples(150, by_default=120)
@given(scenarios())
def test_windows_fire_as_the_other_systems_document_their_triggers(scenario: Json) -> None:
    assert_as_documented(scenario)


def assert_as_documented(scenario: Json) -> None:
    answer, expected = found(scenario), pane_oracle.answer(scenario)
    ticks = iter(fired(answer))
    for tick in expected.fired:
        assert sorted(next(ticks) for _ in tick) == sorted(tick)
    assert not list(ticks)
    assert answer["late"] == expected.late
    counts = answer["counts"]
    assert counts["windowed"] == expected.windowed
    assert counts["received"] == counts["windowed"] + counts["late"] + counts["unwindowed"]


@examples(40, by_default=20)
@given(scenarios())
def test_a_crash_at_every_step_changes_nothing(scenario: Json) -> None:
    """But for where batches end, which the oracle knows."""
    calm = [step for step in scenario["steps"] if "crash" not in step]
    steps: list[Json] = []
    for step in calm:
        steps += [step, {"crash": True}] if "close" not in step else [{"crash": True}, step]
    assert_as_documented({**scenario, "steps": steps})


# ---- what makes no sense


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"closes": True}, "without early="),
        ({"late": True, "closes": True, "early": 1}, "with late="),
        ({"closes": True, "at_end": 2}, "without early="),
        ({"early": after_clock("1s", even_unchanged=True), "closes": True}, "would not fire again"),
        ({"early": after_event_time("1s", even_unchanged=True), "mode": "discarding"}, "show no events"),
        ({"early": after_count(2) | after_clock("1s", even_unchanged=True), "mode": "discarding"}, "show no events"),
        ({}, "without early="),
        ({"at_end": 0}, "0"),
    ],
)
def test_panes_that_contradict_themselves_are_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Panes(**arguments)


class Plain(WindowedBolt):
    outputs = "n long"

    def execute(self, window: TupleWindow) -> EmittedRows:
        return (len(window),)


CLOSES = Panes(early=2, closes=True)


@pytest.mark.parametrize(
    ("bolt", "text"),
    [
        (Plain().with_tumbling_window("10s").with_time(processing=True).with_trigger(CLOSES), "no event times"),
        (Plain().with_window(Session("10s")).with_timestamp_field("ts").with_trigger(CLOSES), "and sessions"),
        (
            Plain().with_tumbling_window("10s").with_timestamp_field("ts").with_lateness(action="adjust")
            .with_trigger(CLOSES),
            "is to adjust late events",
        ),
    ],
)  # fmt: skip
def test_bolts_whose_windows_no_firing_can_close_are_refused(bolt: WindowedBolt, text: str) -> None:
    builder = TopologyBuilder("panes")
    builder.set_spout("s", spouts.memory("ts long"))
    builder.set_bolt("plain", bolt).global_grouping("s")
    builder.set_sink("out", sinks.memory()).from_("plain")
    with pytest.raises(TopologyError, match=text):
        builder.build()


def test_only_a_part_that_says_so_fires_unchanged_windows() -> None:
    either = after_count(2) | after_event_time("1s", even_unchanged=True)
    assert either.even_unchanged
    assert not (after_count(2) & after_event_time("1s", even_unchanged=True)).even_unchanged
    assert after_clock("1s", even_unchanged=True).once().even_unchanged


def test_the_late_stream_says_that_the_window_has_closed() -> None:
    builder, late = TopologyBuilder("panes"), sinks.memory()
    rows: list[list[tuple[int]]] = [[(1,), (2,)], [(2,)]]
    builder.set_spout("s", spouts.memory("ts long", *rows))
    bolt = Plain().with_tumbling_window("10ms").with_timestamp_field("ts").with_late_tuple_stream("late")
    builder.set_bolt("plain", bolt.with_trigger(CLOSES)).global_grouping("s")
    builder.set_sink("out", sinks.memory()).from_("plain")
    builder.set_sink("late", late).from_("plain", stream="late")
    builder.build().run(engine="local")
    assert [row["_reason"] for row in late.rows] == ["the last window that could hold it has closed"]
