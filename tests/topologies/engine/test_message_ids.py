"""Messages that come again: the first of them that is live is kept, the others are counted as duplicates (ST-27)."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.helpers.recut import run_cut
from topologies import TopologyBuilder, sinks, spouts
from topologies.scenarios.run.replay import replay_locally
from topologies.scenarios.run.scenario_answer import Replayed
from topologies.scenarios.schema.scenario_files import read_scenario
from windowing import AggregateBolt, Count, TupleWindow, WindowedBolt, seconds
from windowing.aggregates import count
from windowing.errors import ConfigError, TopologyError
from windowing.settings.triggers import CountTrigger

Json = dict[str, Any]
EXAMPLES = examples(60, suppress_health_check=[HealthCheck.too_slow])

TIMED: list[Json] = [
    {"length": "10ms", "tumbling": True},
    {"length": "10ms", "sliding": "4ms"},
    {"length": "4ms", "sliding": "10ms"},
    {"length": "10ms", "sliding": "4ms", "bounds": "[start, end)"},
    {"sliding_log": "6ms"},
    {"session": {"gap": "4ms"}},
    {"session": {"gap": "3ms"}, "key": ["k"]},
    {"length": "10ms", "sliding": "5ms", "key": ["k"]},
    {"snapshot": True, "end_field": "until", "bounds": "[start, end)"},
]
COUNTED: list[Json] = [
    {"length": 3, "tumbling": True},
    {"length": 4, "sliding": 2},
    {"length": 2, "sliding": 3},
    {"length": 3, "sliding": "5ms"},
    {"length": "7ms", "sliding": 2},
    {"length": "7ms"},
]
CLOCKS: list[Json] = [
    {"timestamp_field": "ts"},
    {"timestamp_field": "ts", "lag": "3ms"},
    {"timestamp_field": "ts", "watermark_every": 1},
    {"timestamp_field": "ts", "watermark_every": 1, "lag": "4ms"},
    {"timestamp_field": "ts", "watermark_every": 1, "late_by": "window", "allowed_lateness": "3ms"},
    {},
]


@st.composite
def stories(draw: st.DrawFn, kinds: list[Json]) -> Json:
    """Some messages, many of which come again, later or at once, with the time that they had."""
    bolt = {**draw(st.sampled_from(kinds)), **draw(st.sampled_from(CLOCKS)), "message_id_field": "m"}
    if "timestamp_field" not in bolt:
        assume("end_field" not in bolt)
    steps: list[Json] = []
    sent: list[Json] = []
    now = 0
    for number in range(draw(st.integers(2, 25))):
        now += draw(st.integers(0, 5))
        if sent and draw(st.integers(0, 2)) == 0:
            event = dict(draw(st.sampled_from(sent)))
        else:
            at = max(now - draw(st.integers(0, 4)), 0)
            event = {"ts": at, "k": draw(st.sampled_from("ab")), "until": at + draw(st.integers(1, 8))}
            event["m"] = f"m{number}" if draw(st.integers(0, 9)) else None
            sent.append(event)
        if "end_field" not in bolt:
            event = {name: value for name, value in event.items() if name != "until"}
        steps.append({"event": {"id": f"e{number}", **event}, "clock": now})
        if draw(st.integers(0, 4)) == 0:
            steps.append(draw(st.sampled_from([{"tick": "watermark"}, {"crash": True}])))
    return {"name": "again", "bolt": bolt, "steps": steps}


def events_of(story: Json) -> list[Json]:
    return [step["event"] for step in story["steps"] if "event" in step]


def answered(story: Json, *, close: bool = True, upto: int | None = None) -> Replayed:
    steps = story["steps"][:upto]
    try:
        return replay_locally(read_scenario({**story, "steps": [*steps, {"close": True}] if close else steps}))
    except (ConfigError, TopologyError):
        assume(False)
        raise


def duplicates_of(answer: Replayed) -> list[str | None]:
    return [event["id"] for event in answer.events if event["action"] == "duplicate"]


def shown(answer: Replayed) -> list[Any]:
    return sorted((str(w["start"]), str(w["end"]), str(w.get("key")), w["events"]) for w in answer.windows)


@EXAMPLES
@given(stories(TIMED + COUNTED))
def test_duplicates_are_in_no_window_and_change_nothing(story: Json) -> None:
    whole = answered(story)
    again = duplicates_of(whole)
    assert whole.counts["duplicate"] == len(again)
    assert not {name for window in whole.windows for name in window["events"] or ()} & set(again)
    assert not set(whole.late) & set(again)
    steps = [step for step in story["steps"] if step.get("event", {}).get("id") not in again]
    without = answered({**story, "steps": steps})
    if "timestamp_field" in story["bolt"]:  # an event moves the clock, whatever happens to it
        assert shown(without) == shown(whole)
        assert {**without.counts, "received": len(events_of(story)), "duplicate": len(again)} == whole.counts
    ids = {event["id"]: event["m"] or event["id"] for event in events_of(story)}
    for window in whole.windows:
        mine = [ids[name] for name in window["events"] or ()]
        assert len(mine) == len(set(mine)), window


@EXAMPLES
@given(stories(TIMED))
def test_an_event_is_a_duplicate_just_when_a_window_may_still_need_the_first(story: Json) -> None:
    whole, first = answered(story), dict[str, str]()
    again, late = set(duplicates_of(whole)), set(whole.late)
    for at, step in enumerate(story["steps"]):
        event = step.get("event")
        if event is None or event["m"] is None:
            continue
        original = first.get(event["m"])
        if original is not None:
            so_far = len(moved_to(story, at).windows)
            later = answered(moved(story, at)).windows[so_far:]
            needed = any(original in (window["events"] or ()) for window in later)
            if "sliding_log" in story["bolt"] and not needed:
                continue  # the event itself would make a window, which the first may be in
            assert needed == (event["id"] in again), (event, original)
        if event["id"] not in again and event["id"] not in late:
            first[event["m"]] = event["id"]


def moved(story: Json, at: int) -> Json:
    """The story up to a step, with the clock where that step finds it."""
    clock = [{"clock": story["steps"][at]["clock"]}] if "timestamp_field" not in story["bolt"] else []
    return {**story, "steps": [*story["steps"][:at], *clock]}


def moved_to(story: Json, at: int) -> Replayed:
    return answered(moved(story, at), close=False)


@EXAMPLES
@given(stories(TIMED + COUNTED), st.integers(0, 1 << 30))
def test_it_does_not_matter_where_batches_end_and_processes_are_restarted(story: Json, seed: int) -> None:
    whole = answered(story)
    calm = [step for step in story["steps"] if "crash" not in step]
    cut = run_cut(read_scenario({**story, "steps": [*calm, {"close": True}]}), random.Random(seed))
    assert shown(cut) == shown(whole)
    assert cut.counts == whole.counts


class Sees(WindowedBolt):
    outputs = "n long"

    def execute(self, window: TupleWindow) -> Any:
        return (len(window),)


def built(bolt: WindowedBolt, tasks: int = 1, grouping: str = "fields") -> Any:
    builder = TopologyBuilder("again")
    builder.set_spout("events", spouts.files("nowhere/*.csv", schema="m string, x double, k string, ts long"))
    declarer = builder.set_bolt("again", bolt.with_timestamp_field("ts"), parallelism=tasks)
    declarer.fields_grouping("events", "k") if grouping == "fields" else declarer.shuffle_grouping("events")
    builder.set_sink("out", sinks.memory()).from_("again")
    return builder.build()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: built(Sees().with_tumbling_window(3).with_message_id_field("y")), "names 'y'"),
        (lambda: built(Sees().with_tumbling_window(3).with_message_id_field("x")), "which is double"),
        (lambda: built(Sees().with_tumbling_window(3).with_message_id_field("m"), 2, "shuffle"), "another task"),
        (
            lambda: built(
                Sees().with_key("k").with_trigger(CountTrigger(Count(2), seconds(1))).with_message_id_field("m"),
            ),
            "a trigger of keys",
        ),
        (lambda: Sees().with_message_id_field(""), "columns and streams are given by name"),
    ],
)
def test_where_it_cannot_be_known_the_build_says_so(make: Any, words: str) -> None:
    with pytest.raises((TopologyError, ConfigError), match=words):
        make()


@pytest.mark.feature("ST-27")
@pytest.mark.parametrize("tasks", [1, 3])
def test_sums_are_exact_too(tasks: int) -> None:
    bolt = AggregateBolt(by="k", n=count()).with_tumbling_window("10ms").with_message_id_field("m")
    rows = [("a", "x", 1), ("a", "x", 2), ("b", "y", 2), ("a", "z", 3), ("b", "y", 11), ("b", "y", 12), ("a", "x", 25)]
    steps: list[Json] = []
    for key, message, time in rows:
        steps += [{"event": {"k": key, "m": message, "ts": time}, "stream": "events"}, {"crash": True}]
        steps.append({"tick": "watermark"})
    story = {"name": "sums", "topology": "x.py:y", "steps": [*steps, {"close": True}]}
    found = replay_locally(read_scenario(story), built(bolt, tasks))
    assert sorted((row["k"], row["n"]) for row in found.outputs["out"]) == [("a", 1), ("a", 2), ("b", 1), ("b", 1)]
    assert found.counts["duplicate"] == 2
    assert found.counts["received"] == len(rows)
