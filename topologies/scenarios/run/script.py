"""A scenario as micro-batches: the events of each, and what time does at its end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from topologies.engine.batch.plan import TimeAdvance
from topologies.engine.rows.source_batch import SourceBatch
from topologies.io.formats import BadRows, FileSplit, JsonlFormat
from topologies.io.formats.split import OnTruncation
from topologies.io.spouts import on_truncation_of
from topologies.scenarios.schema.bare_columns import cell
from topologies.scenarios.schema.scenario_model import Scenario
from topologies.scenarios.schema.step_messages import message
from topologies.scenarios.schema.steps import ClockStep, CloseStep, CrashStep, EventStep, ExpectStep, TickStep
from topologies.topology import Topology
from windowing.data.returned_rows import DEFAULT_STREAM
from windowing.settings import WindowSettings


@dataclass
class ScriptedEvents:
    """Events that arrive one after the other on one stream, at one clock; ``rows`` are JSON objects."""

    component: str
    stream: str
    clock: int
    rows: list[dict[str, Any]]
    first: int
    """The number of the first of them in the scenario."""

    def to_json(self) -> str:
        """As one line."""
        return json.dumps([self.component, self.stream, self.clock, self.first, self.rows])


@dataclass
class ScriptBatch:
    """A micro-batch of a scenario."""

    arrivals: list[ScriptedEvents] = field(default_factory=list)
    advance: TimeAdvance = field(default_factory=lambda: TimeAdvance(0, tick=False))
    crash: bool = False
    """Whether it crashes before its commit; it then runs again, as it was."""
    clock: bool = False
    """Whether a step of the clock alone ends it."""
    end: int = 0
    """Number of steps of the scenario that are over when it ends."""


def script(scenario: Scenario, prefix: str = "") -> list[ScriptBatch]:
    """The micro-batches of a scenario: one ends at each tick, clock step, crash and close, and at the end.

    Where the bolt minds when its clock moved, one also ends whenever it does; what is due when an event moves it fires
    in a batch without events. Not where the event gives its ``arrival``: it is in the batch of that clock. ``prefix``
    goes before the names of components, so that scenarios can run side by side in one topology.
    """
    batches: list[ScriptBatch] = []
    batch, clock, number = ScriptBatch(), scenario.first_clock, 0
    for index, step in enumerate(scenario.steps):
        ends: dict[str, bool] = {}
        match step:
            case EventStep():
                if step.arrival is not None and step.arrival > clock:
                    batches.extend(_moved(batch, index, clock, clock))
                    batch = ScriptBatch()
                elif step.clock is not None and step.clock > clock and clock_matters(scenario.rules):
                    batches.extend(_moved(batch, index, clock, _just_before(scenario, step.clock)))
                    batch = ScriptBatch()
                clock = clock if step.moved is None else step.moved
                _arrive(batch, scenario, prefix, step, clock, number)
                number += 1
                continue
            case TickStep():
                ends = {"tick": True}
            case ClockStep():
                if batch.arrivals and step.clock > clock and clock_matters(scenario.rules):
                    batches.extend(_moved(batch, index, clock, clock))
                    batch = ScriptBatch()
                clock, ends, batch.clock = step.clock, {"tick": False}, True
            case CloseStep():
                ends = {"close": True}  # as at the end of a run: what the watermark has reached by then has been passed
            case CrashStep():
                ends, batch.crash = {"tick": False}, True
            case ExpectStep():
                continue  # it is asked of a run that ends here
        batch.advance, batch.end = TimeAdvance(clock, **ends), index + 1
        batches.append(batch)
        batch = ScriptBatch()
    if batch.arrivals:
        batch.advance, batch.end = TimeAdvance(clock, tick=False), len(scenario.steps)
        batches.append(batch)
    return batches


def clock_matters(rules: WindowSettings) -> bool:
    """Whether it makes a difference to a bolt when, between two events, its clock moved."""
    by_events = rules.reads_timestamps or rules.arrival_is_time
    early = rules.panes is not None and rules.panes.uses_clock
    idle = rules.idle_timeout is not None or rules.partition_idle_timeout is not None
    estimated = rules.estimate_arrival or rules.arrival_is_time
    return idle or estimated or early or (not by_events and bool(rules.kinds or rules.key))


def _moved(batch: ScriptBatch, end: int, before: int, after: int) -> Iterator[ScriptBatch]:
    """The batch that was under way, with the clock of its last event, and one in which the clock alone moves.

    Both end before the step with the index ``end``.
    """
    if batch.arrivals:
        batch.advance, batch.end = TimeAdvance(before, tick=False), end
        yield batch
    if after > before:
        yield ScriptBatch(advance=TimeAdvance(after, tick=False), end=end)


def _just_before(scenario: Scenario, clock: int) -> int:
    """How far the clock moves before an event: an event at the very instant of an idle timeout comes first (AT-17)."""
    rules = scenario.rules
    return clock - 1 if rules.idle_timeout is not None or rules.partition_idle_timeout is not None else clock


def _arrive(batch: ScriptBatch, scenario: Scenario, prefix: str, step: EventStep, clock: int, number: int) -> None:
    component, stream = f"{prefix}{step.stream or ''}", DEFAULT_STREAM
    if scenario.bolt is not None:
        component, stream = f"{prefix}events", step.stream or ""
    last = batch.arrivals[-1] if batch.arrivals else None
    if last is None or (last.component, last.stream, last.clock) != (component, stream, clock):
        last = ScriptedEvents(component, stream, clock, [], number)
        batch.arrivals.append(last)
    last.rows.append(_row(scenario, step, number))


def _row(scenario: Scenario, step: EventStep, number: int) -> dict[str, Any]:
    """The event as JSON; for a bare bolt its id, and the columns that the settings name."""
    if scenario.step is not None:
        return message(step.event, step.id, number)
    if scenario.bolt is None:
        return step.event
    columns = scenario.columns.items()
    return {"id": step.id, **{name: cell(kind, step.event.get(name)) for name, kind in columns}}


@dataclass(frozen=True)
class ScriptSplit:
    """The events of a micro-batch of a scenario, as lines of JSON: in memory, or in a file."""

    lines: tuple[str, ...] = ()
    path: str | None = None

    def read(self, topology: Topology) -> Iterator[SourceBatch]:
        """The events in order of arrival."""
        for line in self._lines():
            component, stream, clock, first, rows = json.loads(line)
            schema = topology.spouts[component].outputs[stream]
            table, numbers, bad = parse_rows(rows, schema, on_truncation_of(topology.spouts[component].spout))
            positions = np.asarray(numbers) + first
            unreadable = bad.rows.set_column(0, "row", pc.add(bad.rows.column("row"), first))
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
    """JSON objects as events of declared columns, by the rules of JSON lines."""
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    lines = JsonlFormat(block_size=len(text) + 1, on_truncation=on_truncation)
    (chunk,) = lines.read(_InMemory(text), FileSplit("scenario"), schema)
    return chunk


class _InMemory(pafs.LocalFileSystem):  # type: ignore[misc]
    """A file system with one file."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def open_input_stream(self, path: str, **_: Any) -> pa.NativeFile:
        return pa.BufferReader(self.content)
