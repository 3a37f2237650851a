"""The topology of a scenario: a bolt of its own, a step, or the user's topology, with sinks that keep their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from topologies.compose.builder import TopologyBuilder
from topologies.graph.streams import stream_label
from topologies.io.sinks import MemorySink
from topologies.named_topology import load_topology
from topologies.scenarios.run.stepping import names_of, step_of
from topologies.scenarios.schema.bare_columns import schema_of
from topologies.scenarios.schema.expected import Expect
from topologies.scenarios.schema.scenario_bolt import bare_bolt, imports_of
from topologies.scenarios.schema.scenario_model import Scenario
from topologies.topology import Topology
from windowing.errors import ScenarioError
from windowing.suggestions import did_you_mean

_BARE = "bolt"
"""The name of the bolt that a scenario describes."""


def watched_topology(scenario: Scenario, topology: Topology | None = None, prefix: str = "") -> Topology:
    """The topology of a scenario: a bolt of its own, or the user's, with sinks that keep the rows."""
    if scenario.bolt is not None:
        builder = TopologyBuilder("scenario")
        add_bare_bolt(builder, scenario, prefix)
        return builder.build()
    if scenario.step is not None and topology is None:
        stepped = step_of(scenario)
        _check_names(scenario, stepped)
        return stepped
    chosen = topology or load_topology(scenario.topology or "")
    sinks = {name: replace(node, sink=MemorySink()) for name, node in chosen.sinks.items()}
    streams = {step.stream for step in fed_by(scenario, chosen).event_steps}
    unknown = sorted(name for name in streams if name is not None and name not in chosen.spouts)
    if unknown or None in streams:
        what = f"sends events to {', '.join(unknown)}" if unknown else "does not say to which spout its events go"
        raise ScenarioError(
            f"scenario {scenario.name!r} {what}",
            why=f"the spouts of the topology are {', '.join(chosen.spouts)}",
            do="name a spout as the stream of each event",
        )
    _check_names(scenario, chosen)
    return replace(chosen, sinks=sinks)


def fed_by(scenario: Scenario, topology: Topology) -> Scenario:
    """The scenario with the spout of a topology as the stream of its events, where there is one and they name none."""
    if scenario.topology is None or len(topology.spouts) != 1:
        return scenario
    (only,) = topology.spouts
    return scenario.with_stream(only)


def _check_names(scenario: Scenario, topology: Topology) -> None:
    """Raise ScenarioError for a sink, a column, a bolt or a step that is not there: that it gets nothing would always
    hold."""
    steps = [] if scenario.step is None else names_of(topology).values()
    for place, expect in _expectations(scenario):
        for name in expect.outputs or {}:
            _known(scenario, f"{place}.outputs", "sink", name, topology.sinks)
        for name, rows in ((expect.includes and expect.includes.outputs) or {}).items():
            _known(scenario, f"{place}.includes.outputs", "sink", name, topology.sinks)
            if scenario.step is None:
                columns = topology.sinks[name].schema.names
                for column in (column for row in rows for column in row):
                    _known(scenario, f"{place}.includes.outputs.{name}", "column", column, columns)
        _check_windows(scenario, place, expect, [] if steps else topology.windowed, steps)


def _expectations(scenario: Scenario) -> Iterator[tuple[str, Expect]]:
    """What a scenario expects, at its end and in between, with its place."""
    if scenario.expect is not None:
        yield "expect", scenario.expect
    for at, prefix in scenario.midway.items():
        if prefix.expect is not None:
            yield f"{at}.expect", prefix.expect


def _check_windows(scenario: Scenario, place: str, expect: Expect, bolts: Iterable[str], steps: Iterable[str]) -> None:
    """Raise ScenarioError for a window of a bolt or a step that is not among these."""
    included = (expect.includes and expect.includes.windows) or []
    for where, windows in ((f"{place}.windows", expect.windows or []), (f"{place}.includes.windows", included)):
        for window in windows:
            if window.bolt is not None and steps:
                raise ScenarioError(
                    f"scenario {scenario.name!r} expects a window of a bolt {window.bolt!r}, but has steps",
                    why=f"their windows are told apart by step; the steps are {', '.join(steps)}",
                    do=f"write step: NAME in {where}",
                )
            if window.bolt is not None:
                _known(scenario, where, "windowed bolt", window.bolt, bolts)
            if window.step is not None:
                _known(scenario, where, "step", window.step, steps)


def _known(scenario: Scenario, place: str, what: str, name: str, known: Iterable[str]) -> None:
    names = list(known)
    if name not in names:
        raise ScenarioError(
            f"scenario {scenario.name!r} expects something of a {what} {name!r}, which does not exist",
            why=f"the {what}s are {', '.join(names) or 'none'}{did_you_mean(name, names)}",
            do=f"correct the name in {place}",
        )


@dataclass(frozen=True)
class ScenarioSpout:
    """The events of a bare scenario; its streams share one order of arrival."""

    streams: tuple[str, ...]
    columns: pa.Schema

    def outputs(self) -> dict[str, pa.Schema]:
        """Every stream has the same columns."""
        return dict.fromkeys(self.streams, self.columns)


def add_bare_bolt(builder: TopologyBuilder, scenario: Scenario, prefix: str = "") -> None:
    """Add the bolt that a scenario describes, and a spout for its events."""
    settings = scenario.bolt
    assert settings is not None
    for place, expect in _expectations(scenario):
        included = expect.includes and expect.includes.outputs
        for where, rows in ((f"{place}.outputs", expect.outputs), (f"{place}.includes.outputs", included)):
            if rows:
                raise ScenarioError(
                    f"scenario {scenario.name!r} has {where} of {', '.join(rows)}, but no sinks",
                    why="the bolt that a scenario describes emits nothing",
                    do="expect windows; or name your own topology: topology: file.py:name",
                )
        _check_windows(scenario, place, expect, [_BARE], [])
    spout: Any = ScenarioSpout(tuple(scenario.streams), schema_of(scenario.rules, scenario.columns))
    builder.set_spout(f"{prefix}events", spout)
    imports = {
        stream_label((f"{prefix}events", to)): stream_label((f"{prefix}events", of))
        for to, of in (imports_of(settings) or {}).items()
    }
    partitions = scenario.partitions
    if isinstance(partitions, dict):
        partitions = {stream_label((f"{prefix}events", stream)): names for stream, names in partitions.items()}
    declarer = builder.set_bolt(f"{prefix}{_BARE}", bare_bolt(settings, imports, partitions, scenario.policies))
    for stream in scenario.streams:
        declarer.global_grouping(f"{prefix}events", stream=stream)
