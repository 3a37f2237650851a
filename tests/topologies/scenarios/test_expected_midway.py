"""``expect`` among the steps of a scenario: what must have come out by then."""

from __future__ import annotations

import io
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_model import read_scenario
from topologies.scenarios.timeline import timeline
from windbolt import replay
from windowing.errors import ScenarioError

BOLT = {"length": "10s", "sliding": "10s", "timestamp_field": "ts"}
BY_COUNT = {"length": 3, "sliding": 3}


def given(*steps: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"name": "story", "bolt": BOLT, "steps": list(steps), **changes}


def event(name: str, ts: int) -> dict[str, Any]:
    return {"event": {"id": name, "ts": ts}}


TICK = {"tick": "watermark"}


def test_what_differs_is_told_with_its_place() -> None:
    answer = replay(
        given(event("a", 1), {"expect": {"pending": []}}, event("b", 12_000), TICK, {"expect": {"pending": ["a"]}})
    )
    assert answer.ok is False
    assert answer.differences == [
        "steps[1].expect: pending: expected [], found [a]",
        "steps[4].expect: pending: expected [a], found [b]",
    ]


def test_what_is_expected_in_between_is_enough_for_a_verdict() -> None:
    assert replay(given(event("a", 1), {"expect": {"pending": ["a"]}}, TICK)).ok is True
    assert replay(given(event("a", 1), TICK)).ok is None
    assert replay(given(event("a", 1), {"expect": {}}, TICK)).ok is None


def test_an_expectation_ends_no_batch() -> None:
    """Counts in processing time may fire at the end of a batch: the answer is the one without expectations."""
    steps: list[dict[str, Any]] = [{"event": {"id": name}, "clock": 5} for name in "abcd"]
    plain = replay(given(*steps, bolt=BY_COUNT))
    asked_for: dict[str, Any] = {"expect": {"late": []}}
    asked = replay(given(*chain.from_iterable((step, asked_for) for step in steps), bolt=BY_COUNT))
    assert asked.ok is True
    assert asked.windows == plain.windows
    assert asked.counts == plain.counts


def test_before_the_clock_first_moves_it_is_what_it_will_be() -> None:
    arrival = {**BOLT, "arrival": {"late": "1s", "action": "drop"}}
    story = given(event("a", 1_000), {"expect": {"pending": []}}, {**event("b", 60_000), "clock": 60_000}, bolt=arrival)
    assert replay(story).ok is True
    alone = given(event("a", 1_000), bolt=arrival)
    assert replay(alone).pending == ["a"]


def test_after_a_close_only_an_expectation_may_stand() -> None:
    assert replay(given(event("a", 1), {"close": True}, {"expect": {"pending": []}})).ok is True
    with pytest.raises(ScenarioError, match=r"steps\[3\]: nothing can follow the close of steps\[1\]"):
        read_scenario(given(event("a", 1), {"close": True}, {"expect": {"pending": []}}, TICK))


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ({"pendign": []}, r"steps\[0\]\.expect\.pendign: unknown key; did you mean 'pending'\?"),
        ({"windows": [{}]}, r"steps\[0\]\.expect\.windows\[0\]: expected a window with some of"),
        (None, r"steps\[0\]\.expect"),
    ],
)
def test_a_mistake_in_it_is_told_with_its_place(expect: Any, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        read_scenario(given({"expect": expect}, event("a", 1)))


def test_the_picture_says_where_it_differs() -> None:
    none: dict[str, Any] = {"expect": {}}
    scenario = read_scenario(given({"expect": {"pending": []}}, event("a", 1), {"expect": {"pending": []}}, none))
    file = io.StringIO()
    Console(file=file, width=100).print(timeline(scenario, replay_locally(scenario)))
    lines = [line.split(maxsplit=1)[1] for line in file.getvalue().splitlines() if line.startswith("expect")]
    assert [line.strip() for line in lines] == ["as expected", "not as expected", "nothing"]


def test_outputs_of_a_sink_that_is_not_there_are_told_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TOPOLOGY)
    story = {
        "name": "story",
        "topology": f"{tmp_path}/mine.py:topology",
        "steps": [{"event": {"id": 1, "ts": 1}, "stream": "events"}, {"expect": {"outputs": {"oot": []}}}],
    }
    said = r"expects something of a sink 'oot', .*did you mean 'out'\? correct the name in steps\[1\]\.expect\.outputs"
    with pytest.raises(ScenarioError, match=said):
        replay(story)


def test_a_topology_is_found_beside_the_file_of_its_scenario(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TOPOLOGY)
    (tmp_path / "story.yaml").write_text(
        "name: story\ntopology: mine.py:topology\nsteps: [{event: {id: 1, ts: 1}, stream: events}]\n"
        "expect: {counts: {received: 1, pending: 1}}\n"
    )
    assert replay(tmp_path / "story.yaml").ok is True


TOPOLOGY = """
from windbolt import AggregateBolt, TopologyBuilder, aggregates, seconds, sinks, spouts
builder = TopologyBuilder("mine")
builder.set_spout("events", spouts.memory("id long, ts long"))
count = AggregateBolt(n=aggregates.count()).with_tumbling_window(seconds(10)).with_timestamp_field("ts")
builder.set_bolt("count", count).global_grouping("events")
builder.set_sink("out", sinks.memory()).from_("count")
topology = builder.build()
"""
