"""Replaying scenarios: through the micro-batches of the real engine, in this process or on Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from manager.checkpoint import MemoryCheckpoint
from manager.manifest import Manifest
from manager.segments import SegmentStore
from topologies.builder import TopologyBuilder
from topologies.engine.plan import BatchPlan, InProcess
from topologies.engine.report import BatchReport
from topologies.engine.step import MicroBatch
from topologies.engine.tasks import pending_events
from topologies.engine.trace import event_ids
from topologies.loading import load_topology
from topologies.model import Topology, stream_label
from topologies.scenarios.answer import Answer, Event, Pane, Window
from topologies.scenarios.bare import bare_bolt, imports_of
from topologies.scenarios.columns import schema_of
from topologies.scenarios.comparing import judge
from topologies.scenarios.loading import Problem, load, read_scenario
from topologies.scenarios.model import Scenario
from topologies.scenarios.script import ScriptBatch, ScriptPiece, script
from topologies.scenarios.stepping import messages_of, step_of
from topologies.scenarios.steps import EventStep
from topologies.sinks import MemorySink
from windowing.durations import Count
from windowing.errors import ScenarioError
from windowing.settings import WindowSettings


class Crash(Exception):
    """Everything in memory is gone."""


def replay(
    scenario: Scenario | dict[str, Any] | str | os.PathLike[str],
    topology: Topology | None = None,
    *,
    engine: str = "local",
) -> Answer:
    """The answer to one scenario: a ``Scenario``, a dict, or the path of a file that holds one.

    ``topology`` takes the place of the one that the scenario names. ``engine``: ``"local"``, or ``"spark"``, which
    runs a real query. ScenarioError where the file does not hold exactly one scenario, or it is malformed.
    """
    chosen = scenario if isinstance(scenario, Scenario) else _one(scenario)
    if engine == "spark":
        from topologies.spark.replay import replay_on_spark

        return replay_on_spark([chosen], topology)[0]
    if engine != "local":
        raise ScenarioError(f"engine {engine!r}", why="there are two", do="use 'local' or 'spark'")
    return replay_locally(chosen, topology)


def replay_locally(scenario: Scenario, topology: Topology | None = None) -> Answer:
    """The answer to a scenario, in this process."""
    built = watched_topology(scenario, topology)
    checkpoint = MemoryCheckpoint()
    recording = Recording()
    step = recording.watch(MicroBatch(built, checkpoint, InProcess()))
    for number, batch in enumerate(script(scenario)):
        piece = ScriptPiece(tuple(arrival.to_json() for arrival in batch.arrivals))
        plan = BatchPlan(number, batch.beat, [piece] if batch.arrivals else [], run=step.run_id)
        if batch.crash:
            _crash(step, plan)
            step = recording.watch(MicroBatch(built, checkpoint, InProcess()))
        recording.note(batch, step.run(plan))
    return judge(scenario, recording.answer(scenario, built, step.manifest, checkpoint.segments))


def watched_topology(scenario: Scenario, topology: Topology | None = None, prefix: str = "") -> Topology:
    """The topology of a scenario: a bolt of its own, or the user's, with sinks that keep the rows."""
    if scenario.bolt is not None:
        builder = TopologyBuilder("scenario")
        add_bare_bolt(builder, scenario, prefix)
        return builder.build()
    if scenario.step is not None and topology is None:
        return step_of(scenario)
    chosen = topology or load_topology(scenario.topology or "")
    sinks = {name: replace(part, sink=MemorySink()) for name, part in chosen.sinks.items()}
    unknown = {step.stream for step in scenario.steps if isinstance(step, EventStep)} - set(chosen.spouts)
    if unknown:
        raise ScenarioError(
            f"scenario {scenario.name!r} sends events to {', '.join(sorted(map(str, unknown)))}",
            why=f"the spouts of the topology are {', '.join(chosen.spouts)}",
            do="name a spout as the stream of each event",
        )
    return replace(chosen, sinks=sinks)


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
    spout: Any = ScenarioSpout(tuple(scenario.streams), schema_of(scenario.rules))
    builder.set_spout(f"{prefix}events", spout)
    imports = {
        stream_label((f"{prefix}events", to)): stream_label((f"{prefix}events", of))
        for to, of in (imports_of(settings) or {}).items()
    }
    declarer = builder.set_bolt(f"{prefix}bolt", bare_bolt(settings, imports))
    for stream in scenario.streams:
        declarer.global_grouping(f"{prefix}events", stream=stream)


@dataclass
class Recording:
    """What is seen of a run, whichever engine it is on; a batch that runs again replaces what was seen of it."""

    windows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    late: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    events: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    watermarks: dict[str, list[int | None]] = field(default_factory=dict)
    clocks: dict[str, list[int | None]] = field(default_factory=dict)
    reached: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    """The clock and the watermark of each bolt, before the streams ended."""

    def watch(self, step: MicroBatch) -> MicroBatch:
        """Have a run tell what happens in it."""
        step.tracer = self._trace
        return step

    def note(self, batch: ScriptBatch, report: BatchReport, prefix: str = "") -> None:
        """Note the watermarks of a batch that was committed."""
        for name, bolt in report.bolts.items():
            if not name.startswith(prefix):
                continue
            if batch.beat.tick:
                self.watermarks.setdefault(name, []).append(bolt.emitted)
            if batch.clock:
                self.clocks.setdefault(name, []).append(bolt.watermark)
            if not batch.beat.close:
                self.reached[name] = batch.beat.clock, bolt.watermark

    def answer(
        self, scenario: Scenario, topology: Topology, manifest: Manifest, store: SegmentStore, prefix: str = ""
    ) -> Answer:
        """The answer, from what was seen and what the state is in the end."""
        mine = [name for name in topology.windowed if name.startswith(prefix)]
        windows = [row for key in sorted(self.windows) for row in self.windows[key] if row["bolt"] in mine]
        late = [row["event"] for key in sorted(self.late) for row in self.late[key] if row["bolt"] in mine]
        watched = {name for name in mine if _watched(topology.windowed[name].bolt.settings)}
        arrived = [
            _event(row)
            for key in sorted(self.events)
            for row in sorted(self.events[key], key=lambda row: row["seq"])
            if row["bolt"] in watched
        ]
        counts: dict[str, int] = {}
        metrics: dict[str, int | float] = {}
        pending: list[str] = []
        for name in mine:
            part, bolt = topology.windowed[name], manifest.bolts[name]
            for account, number in bolt.accounts.totals(sum(bolt.pending)).items():
                counts[account] = counts.get(account, 0) + number
            for metric, number in bolt.accounts.metrics().items():
                metrics[metric] = metrics.get(metric, 0) + number
            for task, state in enumerate(bolt.tasks):
                for events in pending_events(store, part, task, state):
                    pending.extend(event_ids(events))
        outputs = {
            name.removeprefix(prefix): part.sink.rows
            for name, part in topology.sinks.items()
            if isinstance(part.sink, MemorySink) and name.startswith(prefix)
        }
        if scenario.step is not None:
            outputs = messages_of(topology, outputs, prefix)
        first = mine[0] if mine else ""
        clock, watermark = self.reached.get(first, (0, None))
        if watermark is not None and scenario.has_clock:
            metrics["watermark_delay"] = _milliseconds(clock - watermark)
        return Answer(
            scenario.name,
            windows=[_window(topology, row) for row in windows],
            late=late,
            watermarks=list(self.watermarks.get(first, [])),
            pending=pending,
            counts=counts,
            outputs=outputs,
            events=arrived,
            clocks=list(self.clocks.get(first, [])),
            metrics=metrics,
        )

    def _trace(self, key: str, kind: str, rows: list[dict[str, Any]]) -> None:
        {"windows": self.windows, "late": self.late, "events": self.events}[kind][key] = rows


def _window(topology: Topology, row: dict[str, Any]) -> Window:
    part = topology.windowed[row["bolt"]]
    settings = part.bolt.settings
    counts = isinstance(settings.length, Count) and isinstance(settings.slide, Count)
    window = Window(
        start=row["start"],
        end=None if counts and not part.event_time else row["end"],
        events=row["events"],
        new=row["new"],
        expired=row["expired"],
    )
    if part.parallelism > 1:
        window["task"] = row["task"]
    key, pane = row.get("key"), row.get("pane")
    if key is not None:
        values = json.loads(key)
        window["key"] = values[0] if len(values) == 1 else values
    if len(settings.kinds) > 1:
        window["kind"] = row["kind"]
    if settings.panes is not None and pane is not None:
        shown = json.loads(pane)
        window["pane"] = Pane(index=shown["index"], timing=shown["timing"], last=shown["last"])
    if row.get("by") is not None:
        window["by"] = row["by"]
    return window


def _watched(rules: WindowSettings) -> bool:
    """Whether an answer tells how the events of a bolt were taken in: where more than ticks decides about them."""
    marks = rules.watermark_every or rules.watermark_field or rules.watermark_partition or rules.watermark_imports
    return bool(marks) or rules.watermark_per_key or rules.arrival is not None


def _event(row: dict[str, Any]) -> Event:
    return Event(id=row["event"], time=row["time"], action=row["action"], watermark=row["watermark"], mark=row["mark"])


def _milliseconds(micros: int) -> int | float:
    return micros / 1000 if micros % 1000 else micros // 1000


def _crash(step: MicroBatch, plan: BatchPlan) -> None:
    """Run a batch up to its commit, and lose everything that is in memory."""

    def fail(phase: str) -> None:
        if phase == "commit":
            raise Crash

    step.hook = fail
    try:
        step.run(plan)
    except Crash:
        return
    raise AssertionError("the crash did not happen")


def _one(source: dict[str, Any] | str | os.PathLike[str]) -> Scenario:
    if isinstance(source, dict):
        return read_scenario(source)
    loaded: Sequence[Any] = list(load(os.fspath(source)))
    problems = [item for item in loaded if isinstance(item, Problem)]
    if problems:
        raise ScenarioError(f"{problems[0].place}: {'; '.join(problems[0].texts)}")
    if len(loaded) != 1:
        raise ScenarioError(
            f"{os.fspath(source)} holds {len(loaded)} scenarios", do="use topologies.scenarios.loading.load for several"
        )
    found: Scenario = loaded[0].scenario
    return found
