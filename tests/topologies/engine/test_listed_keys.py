"""Keys that a user lists have windows without events before any event has come."""

from __future__ import annotations

from typing import Any

import pytest

from tests.topologies.engine.test_empty_windows import COLUMNS, Run, Sizes, known, rows, topology
from topologies.scenarios.scenario_model import Scenario
from topologies.testing.replaying import replay
from windbolt import TopologyBuilder, sinks, spouts
from windowing import WindowedBolt
from windowing.errors import ConfigError, TopologyError

EPOCH = "1970-01-01T00:00:00Z"


def listing(keys: Any, since: str = EPOCH, until: str = "20ms", key: tuple[str, ...] = ("k",)) -> WindowedBolt:
    bolt = Sizes().with_key(*key).with_tumbling_window("5ms")
    return bolt.with_empty_windows(until=until, keys=keys, since=since)


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_a_key_that_is_listed_is_noticed_where_it_never_speaks(tasks: int) -> None:
    """On whichever task it is; the keys of the two lists come to the same tasks as their events."""
    found = rows(listing(["a", "z", "y"]), ("a", 7, 1.0), "tick", "crash", ("b", 13, 1.0), "tick", "crash",
                 ("b", 40, 1.0), "tick", ("z", 42, 1.0), "tick", ("b", 52, 1.0), "tick", tasks=tasks)  # fmt: skip
    of = {key: [(row["end"], row["n"]) for row in found if row["k"] == key] for key in "abyz"}
    assert of["a"] == [(5, 0), (10, 1), (15, 0), (20, 0), (25, 0), (30, 0)]
    assert of["b"] == [(15, 1), (20, 0), (25, 0), (30, 0), (35, 0), (40, 1), (45, 0), (50, 0)]
    assert of["y"] == [(5, 0), (10, 0), (15, 0), (20, 0)]
    assert of["z"] == [(5, 0), (10, 0), (15, 0), (20, 0), (45, 1), (50, 0)]


def test_its_windows_without_events_end_after_it_is_there() -> None:
    found = rows(listing(["a"], "1970-01-01T00:00:00.012Z"), ("a", 2, 1.0), ("b", 21, 1.0), "tick")
    assert [(row["end"], row["n"]) for row in found if row["k"] == "a"] == [(5, 1), (15, 0), (20, 0)]


def test_a_later_run_may_list_others() -> None:
    """Of one that is new no window fires that was over before, and of one that is known none fires twice."""
    run = Run(listing(["a", "b"]), 2)
    assert sorted(run.batch(("b", 11))) == [("a", 5, 0), ("a", 10, 0), ("b", 5, 0), ("b", 10, 0)]
    run.topology = topology(listing(["a", "b", "c"]), 2)
    assert sorted(run.batch(("b", 16))) == [("a", 15, 0), ("b", 15, 1), ("c", 15, 0)]
    run.topology = topology(listing(["c", "d"], "1970-01-01T00:00:00.020Z"), 2)
    found = run.batch(("b", 31))
    assert sorted(each for each in found if each[0] in "cd") == [("c", 20, 0), ("d", 25, 0), ("d", 30, 0)]


def test_a_listed_key_is_not_forgotten_and_does_not_begin_once_more() -> None:
    run = Run(listing(["a"]))
    run.batch(("b", 201))
    assert [known(task) for task in run.state] == [1]
    assert run.batch(("b", 299)) == [("b", 205, 1), ("b", 210, 0), ("b", 215, 0), ("b", 220, 0), ("b", 225, 0)]
    found = run.batch(("b", 310), ("a", 311), ("b", 330))
    assert [each for each in found if each[0] == "a"] == [("a", 315, 1), *(("a", end, 0) for end in (320, 325, 330))]


def test_the_clock_alone_fires_them() -> None:
    builder = TopologyBuilder("silence")
    builder.set_spout("s", spouts.memory(COLUMNS))
    bolt = Sizes().with_key("k").with_time(processing=True).with_tumbling_window("5s")
    bolt = bolt.with_empty_windows(until="1h", keys=["a"], since=EPOCH)
    builder.set_bolt("bolt", bolt).fields_grouping("s", "k")
    builder.set_sink("out", sinks.memory()).from_("bolt")
    steps = [{"clock": clock} for clock in (1_000, 6_000, 16_000)]
    scenario = Scenario.model_validate({"name": "silence", "topology": "t", "steps": steps})
    found = replay(scenario, builder.build()).outputs["out"]
    assert [(row["k"], row["end"]) for row in found] == [("a", 5_000), ("a", 10_000), ("a", 15_000)]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"keys": []}, "no key is listed"),
        ({"keys": "abc"}, "keys are listed one by one"),
        ({"keys": ["a", "b", "a"]}, "lists 'a' twice"),
        ({"keys": ["a"], "since": "noon"}, "give a datetime, or ISO 8601"),
        ({"keys": ["a"], "since": None}, "without since="),
        ({"keys": None}, "without keys="),
    ],
)
def test_a_list_that_cannot_be_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Sizes().with_key("k").with_tumbling_window("5ms").with_empty_windows(until="1h", **{"since": EPOCH, **given})


@pytest.mark.parametrize(
    ("bolt", "told"),
    [
        (listing([1]), "lists 1, which is no value of 'k'. that column is string"),
        (listing([("a", "b")]), r"lists \('a', 'b'\), which is no value of 'k'"),
        (Sizes().with_tumbling_window("5ms").with_empty_windows(until="1h", keys=["a"], since=EPOCH), "has no key"),
        (listing(["a"], key=("k", "item")), "lists the key .* with_key names 2 columns"),
    ],
)
def test_keys_that_no_event_can_have_are_refused(bolt: WindowedBolt, told: str) -> None:
    with pytest.raises(TopologyError, match=told):
        topology(bolt)
