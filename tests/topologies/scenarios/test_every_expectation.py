"""No key of an expectation is ever ignored: each one is right or wrong, and a key or a name that is unknown is refused.

A user who mistypes a key, or expects the windows of a step that does not exist, must not get a scenario that passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from topologies.io import sinks, spouts
from topologies.scenarios.replay import judge, replay_locally
from topologies.scenarios.scenario_answer import ReplayResult
from topologies.scenarios.scenario_model import read_scenario
from topologies.scenarios.scenario_values import Expect, ExpectedEvent, ExpectedPane, ExpectedWindow, Includes
from topologies.scenarios.script import add_bare_bolt, scenario_topology
from topologies.testing.replaying import replay
from topologies.topology import Topology, TopologyBuilder
from windowing import AggregateBolt
from windowing.aggregates import count
from windowing.errors import ScenarioError

RULES = Path(__file__).parents[2] / "scenarios" / "handler" / "rules"


def _kept_topology() -> Topology:
    """Two windowed bolts, of which the first has two tasks."""
    builder = TopologyBuilder("shop")
    builder.set_spout("orders", spouts.memory("id string, user string, ts timestamp"))
    sizes = AggregateBolt(by="user", n=count()).with_tumbling_window("10s").with_timestamp_field("ts")
    builder.set_bolt("sizes", sizes, parallelism=2).fields_grouping("orders", "user")
    totals = AggregateBolt(total=count()).with_tumbling_window("20s")
    builder.set_bolt("totals", totals).global_grouping("sizes")
    builder.set_sink("out", sinks.memory()).from_("sizes")
    builder.set_sink("all", sinks.memory()).from_("totals")
    return builder.build()


def _event(name: str, seconds: int, **more: Any) -> dict[str, Any]:
    return {"event": {"id": name, "ts": seconds * 1000, "u": "ada", **more}}


def _aggregation(name: str, rule: str, destination: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "type": "aggregation",
        "format": {"input": "json", "output": "json"},
        "key": {"type": "key"},
        "trigger": {"type": "count", "count": 2, "timeout": 100},
        "dsl": {"source": "file", "path": f"{RULES}/aggregate.py:{rule}"},
        "destination": destination,
        "error": {"name": "dead", "topic": "dead", "config": {"name": "main"}},
    }


_OUTPUT = {"name": "output", "topic": "output", "config": {"name": "main"}}
SCENARIOS: dict[str, dict[str, Any]] = {
    "bolt": {
        "bolt": {
            "windows": [{"hopping": {"length": "20s", "slide": "10s"}}, {"tumbling": "30s"}],
            "key": ["u"],
            "timestamp_field": "ts",
            "watermark_every": 1,
            "panes": {"early": 2},
        },
        "steps": [
            {**_event("a", 1), "clock": 0},
            _event("b", 2),
            _event("c", 25),
            _event("d", 3),
            {"clock": 30_000},
            _event("e", 29),
        ],
    },
    "sliding": {
        "bolt": {"length": "20s", "sliding": "10s", "timestamp_field": "ts"},
        "steps": [_event("a", 5), _event("b", 25), _event("c", 32), {"tick": "watermark"}],
    },
    "topology": {
        "topology": "given",
        "steps": [
            *({**_event(name, at, user=user), "stream": "orders"} for name, at, user in [("a", 1, "x"), ("b", 2, "y")]),
            {**_event("c", 21, user="x"), "stream": "orders"},
            {"tick": "watermark"},
            {"tick": "watermark"},
        ],
    },
    "step": {
        "step": _aggregation("one", "passthrough", _aggregation("two", "total", _OUTPUT)),
        "steps": [
            {"event": {"id": "e1", "key": "a", "value": {"v": 1}, "headers": {"h": "x"}}, "clock": 0},
            {"event": {"id": "e2", "key": "a", "value": {"v": 2}}, "clock": 40},
            {"clock": 1000},
        ],
    },
}


def _ask(which: str, expect: dict[str, Any], place: str = "end") -> bool | None:
    """The verdict on a scenario that expects this at a place; None if it is malformed."""
    given = {"name": which, **SCENARIOS[which]}
    if place == "end":
        given |= {"expect": expect}
    else:
        given["steps"] = [*given["steps"], {"expect": expect}, {"close": True}]
    try:
        scenario = read_scenario(given)
        scenario_topology(scenario, _topology(which))  # checks the names, as a replay does
        judged = judge(scenario, _replayed(which)) if place == "end" else replay(given, _topology(which))
    except ScenarioError:
        return None
    assert judged.ok is not None
    assert bool(judged.differences) is not judged.ok
    return judged.ok


@cache
def _topology(which: str) -> Topology | None:
    return _kept_topology() if which == "topology" else None


@cache
def _replayed(which: str) -> ReplayResult:
    return replay_locally(read_scenario({"name": which, **SCENARIOS[which]}), _topology(which))


@cache
def _right(which: str) -> dict[str, Any]:
    """All of an answer, as what is expected of it, in the end and also as a part."""
    answer = _replayed(which).to_json()
    expect = {name: answer[name] for name in Expect.model_fields if name != "includes" and answer[name] not in ({}, [])}
    included = {name: expect[name] for name in Includes.model_fields if name in expect}
    if "outputs" in included:
        included["outputs"] = {sink: rows for sink, rows in included["outputs"].items() if rows}
    return _without_nulls({**expect, "includes": included})


def _without_nulls(value: Any) -> Any:
    """A value without the keys of mappings that are null: windows have no list where it is not known."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values within one: those of mappings and lists, and of what they hold."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in items:
        yield from _places(each, (*path, name))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for name in path:
        value = value[name]
    return value


def _changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy of a value with another one at a place."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _changed(value[path[0]], path[1:], new)
    return copy


_OTHER = {"early": "late", "on_time": "late", "late": "early", "accepted": "early", "count": "rule", "timeout": "rule"}


def _wrong(value: Any) -> Any:
    """Another value of the same kind."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case None:
            return 1
    return _OTHER.get(value, f"{value}x")


@pytest.mark.parametrize("which", SCENARIOS)
@pytest.mark.parametrize("place", ["end", "middle"])
def test_each_key_alone_is_right(which: str, place: str) -> None:
    for name, value in _right(which).items():
        assert _ask(which, {name: value}, place), name


@pytest.mark.parametrize("which", SCENARIOS)
def test_a_wrong_value_never_passes(which: str) -> None:
    for name, value in _right(which).items():
        wrong = [
            _changed(value, path, _wrong(_at(value, path)))
            for path in _places(value)
            if not isinstance(_at(value, path), dict | list)
        ]
        if isinstance(value, list):
            wrong += [value[:-1], [*value, value[-1]]]
        for each in wrong:
            assert not _ask(which, {name: each}), (name, each)
        assert not _ask(which, {name: wrong[0]}, "middle"), (name, wrong[0])


@pytest.mark.parametrize("which", SCENARIOS)
def test_an_unknown_key_never_passes(which: str) -> None:
    for name, value in _right(which).items():
        for path in _places(value):
            found = _at(value, path)
            for unknown in {"x", "step", "bolt"} - set(found) if isinstance(found, dict) else ():
                changed = _changed(value, path, {**found, unknown: "nosuch"})
                assert not _ask(which, {name: changed}), (name, path, unknown)
    for place in ("end", "middle"):
        assert _ask(which, {"window": []}, place) is None


@pytest.mark.parametrize("which", SCENARIOS)
@pytest.mark.parametrize("place", ["end", "middle"])
@pytest.mark.parametrize("key", ["step", "bolt"])
def test_windows_of_what_does_not_exist_are_malformed(which: str, place: str, key: str) -> None:
    windows = [{key: "nosuch", "start": 0}]
    assert _ask(which, {"windows": windows}, place) is None
    assert _ask(which, {"includes": {"windows": windows}}, place) is None


@pytest.mark.parametrize("expect", [{"metrics": {}}, {"windows": [{"pane": {}}]}, {"includes": {"windows": []}}])
def test_what_asks_nothing_is_malformed(expect: dict[str, Any]) -> None:
    assert _ask("bolt", expect) is None


def test_a_window_without_a_step_is_one_of_the_first() -> None:
    window = next(each for each in _right("step")["windows"] if each["step"] == "two")
    assert _ask("step", {"includes": {"windows": [window]}})
    del window["step"]
    assert _ask("step", {"includes": {"windows": [window]}}) is False


@pytest.mark.parametrize(
    "includes", [{"windows": [{"bolt": "nosuch", "start": 0}]}, {"outputs": {"nosuch": [{"n": 1}]}}]
)
def test_names_of_a_bolt_that_shares_a_run_are_checked_too(includes: dict[str, Any]) -> None:
    """Spark replays many bolts in one query, and adds each of them by itself."""
    scenario = read_scenario({"name": "bolt", **SCENARIOS["bolt"], "expect": {"includes": includes}})
    with pytest.raises(ScenarioError, match="nosuch"):
        add_bare_bolt(TopologyBuilder("scenarios"), scenario, "s0-")


def test_all_keys_there_are_were_asked_for() -> None:
    seen: set[tuple[str, str]] = set()
    for which in SCENARIOS:
        right = _right(which)
        _note(seen, Expect, [right])
        _note(seen, Includes, [right["includes"]])
        _note(seen, ExpectedWindow, right["windows"])
        _note(seen, ExpectedPane, [each["pane"] for each in right["windows"] if "pane" in each])
        _note(seen, ExpectedEvent, right.get("events", []))
    models = (Expect, Includes, ExpectedWindow, ExpectedPane, ExpectedEvent)
    assert seen == {(model.__name__, name) for model in models for name in model.model_fields}


def _note(seen: set[tuple[str, str]], model: type[BaseModel], given: list[dict[str, Any]]) -> None:
    seen.update((model.__name__, name) for each in given for name in each)
