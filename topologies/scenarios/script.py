"""A scenario as a topology and as micro-batches, each with its events and the time at its end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topologies.engine.batch import TimeAdvance
from topologies.engine.task_data import SourceBatch
from topologies.graph.builder import GraphBuilder
from topologies.graph.graph import Graph, Input, Origin, Stream, stream_label
from topologies.io.formats import BadRows, JsonlFormat
from topologies.io.formats.event_files import OnTruncation, refuse_repeated_names
from topologies.io.sinks import MemorySink
from topologies.io.spouts import on_truncation_of
from topologies.io.topics.declared import RECORD
from topologies.scenarios.named_topology import load_topology
from topologies.scenarios.scenario_bolt import bare_bolt, imports_of, json_cell, schema_of
from topologies.scenarios.scenario_model import Scenario, message_row, sent_message
from topologies.scenarios.scenario_values import (
    ClockStep,
    CloseStep,
    CrashStep,
    EventStep,
    Expect,
    ExpectStep,
    TickStep,
)
from topologies.step.compile_step import AGGREGATE, aggregating_component, step_topology
from topologies.step.config_files import load_step, step_from
from windowing.errors import ScenarioError, did_you_mean
from windowing.schema import DEFAULT_STREAM
from windowing.settings import WindowSettings

# Joins several topologies into one, so that their scenarios can share a query.


def join_topologies(topologies: Iterable[Graph]) -> Graph:
    """Returns one topology with all parts of several, whose names must differ."""
    first, *others = topologies
    for other in others:
        first = replace(
            first,
            spouts={**first.spouts, **other.spouts},
            plain={**first.plain, **other.plain},
            windowed={**first.windowed, **other.windowed},
            sinks={**first.sinks, **other.sinks},
            readers={**first.readers, **other.readers},
            sinks_reading={**first.sinks_reading, **other.sinks_reading},
        )
    return first


def with_prefix(topology: Graph, prefix: str) -> Graph:
    """Returns the topology with a prefix in the names of its parts."""

    def stream(unprefixed: Stream) -> Stream:
        return f"{prefix}{unprefixed[0]}", unprefixed[1]

    def inputs(unprefixed: tuple[Input, ...]) -> tuple[Input, ...]:
        return tuple(replace(each, stream=stream(each.stream)) for each in unprefixed)

    def origins(unprefixed: tuple[Origin, ...]) -> tuple[Origin, ...]:
        return tuple(replace(each, bolt=f"{prefix}{each.bolt}") for each in unprefixed)

    spouts = [replace(node, name=f"{prefix}{node.name}") for node in topology.spouts.values()]
    plain = [replace(node, name=f"{prefix}{node.name}", inputs=inputs(node.inputs)) for node in topology.plain.values()]
    windowed = [
        replace(
            node,
            name=f"{prefix}{node.name}",
            inputs=inputs(node.inputs),
            origins=tuple(map(origins, node.origins)),
        )
        for node in topology.windowed.values()
    ]
    sinks = [
        replace(node, name=f"{prefix}{node.name}", streams=tuple(map(stream, node.streams)))
        for node in topology.sinks.values()
    ]
    return replace(
        topology,
        spouts={node.name: node for node in spouts},
        plain={node.name: node for node in plain},
        windowed={node.name: node for node in windowed},
        sinks={node.name: node for node in sinks},
        readers={
            stream(source): tuple((f"{prefix}{name}", at) for name, at in readers)
            for source, readers in topology.readers.items()
        },
        sinks_reading={
            stream(source): tuple(f"{prefix}{name}" for name in names)
            for source, names in topology.sinks_reading.items()
        },
    )


# The topology of a scenario for an aggregation step: the scenario is its source, and its sinks are in memory.


MessageRows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class MessageSpout:
    """The messages of a scenario, as Kafka delivers them, with an id."""

    def outputs(self) -> dict[str, pa.Schema]:
        """Returns the columns of messages, and ``id``."""
        return {DEFAULT_STREAM: pa.schema([("id", pa.string()), *RECORD])}


def topology_of_step(scenario: Scenario) -> Graph:
    """Returns the topology of a scenario's step. Raises StepConfigError for mistakes in its file."""
    step: Any = scenario.step
    config = load_step(scenario.folder / step) if isinstance(step, str) else step_from(step, scenario.folder)
    feed: Any = MessageSpout()
    return step_topology(config, feed=feed)


def messages_by_sink(
    topology: Graph, outputs: Mapping[str, MessageRows], prefix: str = ""
) -> dict[str, list[dict[str, Any]]]:
    """Returns the messages of steps in the form of scenarios' expectations; ``prefix``: that of the names of their
    parts."""

    def read_by(sink: str) -> Any:
        component, _ = topology.sinks[f"{prefix}{sink}"].streams[0]  # streams that share a sink have the same format
        bolt: Any = topology.windowed[aggregating_component(component)].bolt
        return bolt.sender.messages.read

    return {sink: [sent_message(row, read_by(sink)) for row in rows] for sink, rows in outputs.items()}


def step_names(topology: Graph, prefix: str = "") -> dict[str, str]:
    """Returns the names of the steps, in order, by the names of the bolts with their windows."""
    found: dict[str, Any] = {name: node.bolt for name, node in topology.windowed.items() if name.startswith(prefix)}
    first = f"{prefix}{AGGREGATE}"
    return {name: found[name].step for name in (first, *sorted(set(found) - {first}))}


# The topology of a scenario: a bolt of its own, a step, or the user's topology, with sinks that keep their rows.


_BARE = "bolt"
"""The name of a scenario's bare bolt."""


def scenario_topology(scenario: Scenario, topology: Graph | None = None) -> Graph:
    """Returns the topology of a scenario, its own bolt or the user's topology, with sinks that keep the rows."""
    if scenario.bolt is not None:
        builder = GraphBuilder("scenario")
        add_bare_bolt(builder, scenario)
        return builder.build()
    if scenario.step is not None and topology is None:
        topology_with_step = topology_of_step(scenario)
        _check_names(scenario, topology_with_step)
        return topology_with_step
    chosen = topology or load_topology(scenario.topology or "")
    sinks = {name: replace(node, sink=MemorySink()) for name, node in chosen.sinks.items()}
    streams = {step.stream for step in with_only_spout(scenario, chosen).event_steps}
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


def with_only_spout(scenario: Scenario, topology: Graph) -> Scenario:
    """Returns the scenario with the topology's only spout as the stream of events that name none."""
    if scenario.topology is None or len(topology.spouts) != 1:
        return scenario
    (only_spout,) = topology.spouts
    return scenario.with_stream(only_spout)


def _check_names(scenario: Scenario, topology: Graph) -> None:
    """Raises ScenarioError for an unknown sink, column, bolt or step, since the expectation that it gets nothing would
    always hold."""
    steps = [] if scenario.step is None else step_names(topology).values()
    for place, expect in _expectations(scenario):
        for name in expect.outputs or {}:
            _check_known(scenario, f"{place}.outputs", "sink", name, topology.sinks)
        for name, rows in ((expect.includes and expect.includes.outputs) or {}).items():
            _check_known(scenario, f"{place}.includes.outputs", "sink", name, topology.sinks)
            if scenario.step is None:
                columns = topology.sinks[name].schema.names
                for column in (column for row in rows for column in row):
                    _check_known(scenario, f"{place}.includes.outputs.{name}", "column", column, columns)
        _check_windows(scenario, place, expect, [] if steps else topology.windowed, steps)


def _expectations(scenario: Scenario) -> Iterator[tuple[str, Expect]]:
    """Yields the expectations of a scenario, at its end and between steps, with their places."""
    if scenario.expect is not None:
        yield "expect", scenario.expect
    for at, prefix in scenario.midway.items():
        if prefix.expect is not None:
            yield f"{at}.expect", prefix.expect


def _check_windows(scenario: Scenario, place: str, expect: Expect, bolts: Iterable[str], steps: Iterable[str]) -> None:
    """Raises ScenarioError for a window of an unknown bolt or step."""
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
                _check_known(scenario, where, "windowed bolt", window.bolt, bolts)
            if window.step is not None:
                _check_known(scenario, where, "step", window.step, steps)


def _check_known(scenario: Scenario, place: str, what: str, name: str, known: Iterable[str]) -> None:
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
        """Returns the same columns for every stream."""
        return dict.fromkeys(self.streams, self.columns)


def add_bare_bolt(builder: GraphBuilder, scenario: Scenario, prefix: str = "") -> None:
    """Adds the bolt that a scenario describes, and a spout for its events."""
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
        stream_label((f"{prefix}events", target)): stream_label((f"{prefix}events", source))
        for target, source in (imports_of(settings) or {}).items()
    }
    partitions = scenario.partitions
    if isinstance(partitions, dict):
        partitions = {stream_label((f"{prefix}events", stream)): names for stream, names in partitions.items()}
    declarer = builder.set_bolt(f"{prefix}{_BARE}", bare_bolt(settings, imports, partitions, scenario.policies))
    for stream in scenario.streams:
        declarer.global_grouping(f"{prefix}events", stream=stream)


# A scenario as micro-batches, each with its events and the time at its end.


@dataclass
class ScriptedEvents:
    """Successive events on one stream, at one clock; ``rows``: JSON objects."""

    component: str
    stream: str
    clock: int
    rows: list[dict[str, Any]]
    first: int
    """The number of the first event in the scenario."""

    def to_json(self) -> str:
        """Returns the events as one line of JSON."""
        return json.dumps([self.component, self.stream, self.clock, self.first, self.rows])


@dataclass
class ScriptBatch:
    """A micro-batch of a scenario."""

    arrivals: list[ScriptedEvents] = field(default_factory=list)
    advance: TimeAdvance = field(default_factory=lambda: TimeAdvance(0, tick=False))
    crash: bool = False
    """True if the batch crashes before its commit, and then runs again unchanged."""
    moves_clock: bool = False
    """True if the batch ends with a step that only moves the clock."""
    end: int = 0
    """Number of the scenario's steps that are done at the end of the batch."""


def script(scenario: Scenario, prefix: str = "") -> list[ScriptBatch]:
    """Returns the micro-batches of a scenario. One ends at each tick, clock step, crash and close, and at the end.

    If it matters to the bolt when its clock moved, a batch also ends whenever the clock moves; windows that are due
    when an event moves the clock fire in a batch without events. An event with an ``arrival`` is an exception: it is in
    the batch of that clock. ``prefix``: put before the names of components, so that scenarios can run side by side in
    one topology.
    """
    batches: list[ScriptBatch] = []
    batch, clock, number = ScriptBatch(), scenario.first_clock, 0
    for index, step in enumerate(scenario.steps):
        advance_options: dict[str, bool] = {}
        match step:
            case EventStep():
                if step.arrival is not None and step.arrival > clock:
                    batches.extend(_batches_before_move(batch, index, clock, clock))
                    batch = ScriptBatch()
                elif step.clock is not None and step.clock > clock and clock_matters(scenario.rules):
                    batches.extend(_batches_before_move(batch, index, clock, _just_before(scenario, step.clock)))
                    batch = ScriptBatch()
                clock = clock if step.moved is None else step.moved
                _add_arrival(batch, scenario, prefix, step, clock, number)
                number += 1
                continue
            case TickStep():
                advance_options = {"tick": True}
            case ClockStep():
                if batch.arrivals and step.clock > clock and clock_matters(scenario.rules):
                    batches.extend(_batches_before_move(batch, index, clock, clock))
                    batch = ScriptBatch()
                clock, advance_options, batch.moves_clock = step.clock, {"tick": False}, True
            case CloseStep():
                advance_options = {"close": True}  # as at the end of a run, windows up to the watermark have passed
            case CrashStep():
                advance_options, batch.crash = {"tick": False}, True
            case ExpectStep():
                continue  # a run that ends here checks it
        batch.advance, batch.end = TimeAdvance(clock, **advance_options), index + 1
        batches.append(batch)
        batch = ScriptBatch()
    if batch.arrivals:
        batch.advance, batch.end = TimeAdvance(clock, tick=False), len(scenario.steps)
        batches.append(batch)
    return batches


def clock_matters(rules: WindowSettings) -> bool:
    """True if it matters to a bolt when the clock moved between two events."""
    by_events = rules.reads_timestamps or rules.arrival_is_time
    early = rules.panes is not None and rules.panes.uses_clock
    idle = rules.idle_timeout is not None or rules.partition_idle_timeout is not None
    estimated = rules.estimate_arrival or rules.arrival_is_time
    return idle or estimated or early or (not by_events and bool(rules.kinds or rules.key))


def _batches_before_move(batch: ScriptBatch, end: int, before: int, after: int) -> Iterator[ScriptBatch]:
    """Yields the present batch, with the clock of its last event, and a batch that only moves the clock. Both end
    before the step with index ``end``."""
    if batch.arrivals:
        batch.advance, batch.end = TimeAdvance(before, tick=False), end
        yield batch
    if after > before:
        yield ScriptBatch(advance=TimeAdvance(after, tick=False), end=end)


def _just_before(scenario: Scenario, clock: int) -> int:
    """Returns the clock just before an event, since an event at the exact time of an idle timeout comes before it
    (AT-17)."""
    rules = scenario.rules
    return clock - 1 if rules.idle_timeout is not None or rules.partition_idle_timeout is not None else clock


def _add_arrival(batch: ScriptBatch, scenario: Scenario, prefix: str, step: EventStep, clock: int, number: int) -> None:
    component, stream = f"{prefix}{step.stream or ''}", DEFAULT_STREAM
    if scenario.bolt is not None:
        component, stream = f"{prefix}events", step.stream or ""
    last = batch.arrivals[-1] if batch.arrivals else None
    if last is None or (last.component, last.stream, last.clock) != (component, stream, clock):
        last = ScriptedEvents(component, stream, clock, [], number)
        batch.arrivals.append(last)
    last.rows.append(_row(scenario, step, number))


def _row(scenario: Scenario, step: EventStep, number: int) -> dict[str, Any]:
    """Returns the event as JSON; for a bare bolt, its id and the columns that the settings name."""
    if scenario.step is not None:
        return message_row(step.event, step.id, number)
    if scenario.bolt is None:
        return step.event
    columns = scenario.columns.items()
    return {"id": step.id, **{name: json_cell(kind, step.event.get(name)) for name, kind in columns}}


@dataclass(frozen=True)
class ScriptSplit:
    """The events of a scenario's micro-batch, as lines of JSON: in memory, or in a file."""

    lines: tuple[str, ...] = ()
    path: str | None = None

    def read(self, topology: Graph) -> Iterator[SourceBatch]:
        """Yields the events in order of arrival."""
        for line in self._lines():
            component, stream, clock, first, rows = json.loads(line)
            schema = topology.spouts[component].outputs[stream]
            table, numbers, bad = parse_rows(rows, schema, on_truncation_of(topology.spouts[component].spout))
            positions = np.asarray(numbers) + first
            unreadable = bad.rows
            if len(bad):
                unreadable = unreadable.set_column(0, "row", pc.add(unreadable.column("row"), first))
            truncated = bad.truncated_among(np.asarray(numbers))
            yield SourceBatch(
                component, stream, table, positions, unreadable, "the scenario", clock, truncated=truncated
            )

    def _lines(self) -> Iterable[str]:
        if self.path is None:
            return self.lines
        with open(self.path, encoding="utf-8") as source:
            return source.read().splitlines()[1:]


def parse_rows(
    rows: list[dict[str, Any]], schema: pa.Schema, on_truncation: OnTruncation = "cut"
) -> tuple[pa.Table, Any, BadRows]:
    """Returns JSON objects as events with declared columns, by the rules of JSON lines."""
    refuse_repeated_names(schema)
    lines = [json.dumps(row).encode() for row in rows]
    return JsonlFormat(on_truncation=on_truncation).read_lines(lines, schema)
