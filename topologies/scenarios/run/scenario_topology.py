"""The topology of a scenario: a bolt of its own, a step, or the user's topology, with sinks that keep their rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from topologies.compose.builder import TopologyBuilder
from topologies.graph.streams import stream_label
from topologies.io.sinks import MemorySink
from topologies.named_topology import load_topology
from topologies.scenarios.run.stepping import step_of
from topologies.scenarios.schema.bare_columns import schema_of
from topologies.scenarios.schema.scenario_bolt import bare_bolt, imports_of
from topologies.scenarios.schema.scenario_model import Scenario
from topologies.scenarios.schema.steps import EventStep
from topologies.topology import Topology
from windowing.errors import ScenarioError
from windowing.suggestions import did_you_mean


def watched_topology(scenario: Scenario, topology: Topology | None = None, prefix: str = "") -> Topology:
    """The topology of a scenario: a bolt of its own, or the user's, with sinks that keep the rows."""
    if scenario.bolt is not None:
        builder = TopologyBuilder("scenario")
        add_bare_bolt(builder, scenario, prefix)
        bare = builder.build()
        _check_names(scenario, bare)
        return bare
    if scenario.step is not None and topology is None:
        stepped = step_of(scenario)
        _check_names(scenario, stepped)
        return stepped
    chosen = topology or load_topology(scenario.topology or "")
    sinks = {name: replace(node, sink=MemorySink()) for name, node in chosen.sinks.items()}
    unknown = {step.stream for step in scenario.steps if isinstance(step, EventStep)} - set(chosen.spouts)
    if unknown:
        raise ScenarioError(
            f"scenario {scenario.name!r} sends events to {', '.join(sorted(map(str, unknown)))}",
            why=f"the spouts of the topology are {', '.join(chosen.spouts)}",
            do="name a spout as the stream of each event",
        )
    _check_names(scenario, chosen)
    return replace(chosen, sinks=sinks)


def _check_names(scenario: Scenario, topology: Topology) -> None:
    """Raise ScenarioError for a sink, a column or a bolt that is not there: that it gets nothing would always hold."""
    asked = {"expect": scenario.expect} | {f"{at}.expect": prefix.expect for at, prefix in scenario.midway.items()}
    for place, expect in asked.items():
        some = expect and expect.includes
        for name in (expect and expect.outputs) or {}:
            _known(scenario, f"{place}.outputs", "sink", name, topology.sinks)
        for name, rows in ((some and some.outputs) or {}).items():
            _known(scenario, f"{place}.includes.outputs", "sink", name, topology.sinks)
            if scenario.step is None:
                columns = topology.sinks[name].schema.names
                for column in (column for row in rows for column in row):
                    _known(scenario, f"{place}.includes.outputs.{name}", "column", column, columns)
        for window in [*((expect and expect.windows) or []), *((some and some.windows) or [])]:
            if window.bolt is not None:
                _known(scenario, f"{place}.windows", "windowed bolt", window.bolt, topology.windowed)


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
    if scenario.expect is not None and scenario.expect.outputs:
        raise ScenarioError(
            f"scenario {scenario.name!r} has expect.outputs of {', '.join(scenario.expect.outputs)}, but no sinks",
            why="the bolt that a scenario describes emits nothing",
            do="expect windows; or name your own topology: topology: file.py:name",
        )
    spout: Any = ScenarioSpout(tuple(scenario.streams), schema_of(scenario.rules))
    builder.set_spout(f"{prefix}events", spout)
    imports = {
        stream_label((f"{prefix}events", to)): stream_label((f"{prefix}events", of))
        for to, of in (imports_of(settings) or {}).items()
    }
    partitions = scenario.partitions
    if isinstance(partitions, dict):
        partitions = {stream_label((f"{prefix}events", stream)): names for stream, names in partitions.items()}
    declarer = builder.set_bolt(f"{prefix}bolt", bare_bolt(settings, imports, partitions))
    for stream in scenario.streams:
        declarer.global_grouping(f"{prefix}events", stream=stream)
