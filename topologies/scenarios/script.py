"""A scenario as micro-batches: the events of each, and what time does at its end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from topologies.engine.plan import Beat, Delivery
from topologies.formats import BadRows, FilePiece, JsonlFormat
from topologies.model import Topology
from topologies.scenarios.model import ClockStep, CloseStep, CrashStep, EventStep, Scenario, TickStep
from windowing.timestamps import to_datetime


@dataclass
class Arrival:
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

    arrivals: list[Arrival] = field(default_factory=list)
    beat: Beat = field(default_factory=lambda: Beat(0, tick=False))
    crash: bool = False
    """Whether it crashes before its commit; it then runs again, as it was."""


def script(scenario: Scenario, prefix: str = "") -> list[ScriptBatch]:
    """The micro-batches of a scenario: one ends at each tick, clock step, crash and close, and at the end.

    ``prefix`` goes before the names of components, so that scenarios can run side by side in one topology.
    """
    batches: list[ScriptBatch] = []
    batch, clock, number = ScriptBatch(), _first_clock(scenario), 0
    for step in scenario.steps:
        ends: dict[str, bool] = {}
        match step:
            case EventStep():
                clock = clock if step.clock is None else step.clock
                _arrive(batch, scenario, prefix, step, clock, number)
                number += 1
                continue
            case TickStep():
                ends = {"tick": True}
            case ClockStep():
                clock, ends = step.clock, {"tick": False}
            case CloseStep():
                ends = {"tick": False, "close": True}
            case CrashStep():
                ends, batch.crash = {"tick": False}, True
        batch.beat = Beat(clock, **ends)
        batches.append(batch)
        batch = ScriptBatch()
    if batch.arrivals:
        batch.beat = Beat(clock, tick=False)
        batches.append(batch)
    return batches


def _first_clock(scenario: Scenario) -> int:
    """Before the clock first moves it is what it will be then: no time has passed."""
    clocks = (step.clock for step in scenario.steps if isinstance(step, EventStep | ClockStep))
    return next((clock for clock in clocks if clock is not None), 0)


def _arrive(batch: ScriptBatch, scenario: Scenario, prefix: str, step: EventStep, clock: int, number: int) -> None:
    component, stream = (f"{prefix}events", step.stream or "") if scenario.bolt else (step.stream or "", "default")
    last = batch.arrivals[-1] if batch.arrivals else None
    if last is None or (last.component, last.stream, last.clock) != (component, stream, clock):
        last = Arrival(component, stream, clock, [], number)
        batch.arrivals.append(last)
    last.rows.append(_row(scenario, step))


def _row(scenario: Scenario, step: EventStep) -> dict[str, Any]:
    """The event as JSON; for a bare bolt its id and its time, as the scenario says them."""
    if scenario.bolt is None:
        return step.event
    row: dict[str, Any] = {"id": step.id}
    if scenario.bolt.timestamp_field is not None:
        moment = scenario.event_time(step)
        row[scenario.bolt.timestamp_field] = None if moment is None else to_datetime(moment).isoformat()
    return row


@dataclass(frozen=True)
class ScriptPiece:
    """The events of a micro-batch of a scenario, as lines of JSON: in memory, or in a file."""

    lines: tuple[str, ...] = ()
    path: str | None = None

    def read(self, topology: Topology) -> Iterator[Delivery]:
        """The events in order of arrival."""
        for line in self._lines():
            component, stream, clock, first, rows = json.loads(line)
            schema = topology.spouts[component].outputs[stream]
            table, numbers, bad = parse_rows(rows, schema)
            positions = np.asarray(numbers) + first
            yield Delivery(component, stream, table, positions, bad.rows, "the scenario", clock)

    def _lines(self) -> Iterable[str]:
        if self.path is None:
            return self.lines
        with open(self.path, encoding="utf-8") as source:
            return source.read().splitlines()[1:]


def parse_rows(rows: list[dict[str, Any]], schema: pa.Schema) -> tuple[pa.Table, Any, BadRows]:
    """JSON objects as events of declared columns, by the rules of JSON lines."""
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (chunk,) = JsonlFormat(block_size=len(text) + 1).read(_InMemory(text), FilePiece("scenario"), schema)
    return chunk


class _InMemory(pafs.LocalFileSystem):  # type: ignore[misc]
    """A file system with one file."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def open_input_stream(self, path: str, **_: Any) -> pa.NativeFile:
        return pa.BufferReader(self.content)
