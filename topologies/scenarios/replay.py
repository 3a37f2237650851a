"""Replaying scenarios: through the micro-batches of the real engine, in this process or on Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyarrow as pa

from manager.checkpoint import MemoryCheckpoint
from manager.manifest import Manifest
from manager.segments import SegmentStore
from topologies.builder import TopologyBuilder
from topologies.engine.plan import BatchPlan, InProcess
from topologies.engine.report import BatchReport
from topologies.engine.step import MicroBatch
from topologies.engine.tasks import restored_manager
from topologies.engine.trace import event_ids
from topologies.loading import load_topology
from topologies.model import Topology
from topologies.scenarios.answer import Answer, Window, judge
from topologies.scenarios.loading import Problem, load, read_scenario
from topologies.scenarios.model import BoltSettings, EventStep, Scenario
from topologies.scenarios.script import ScriptBatch, ScriptPiece, script
from topologies.sinks import MemorySink
from windowing.bolt import WindowedBolt
from windowing.durations import Count
from windowing.errors import ScenarioError
from windowing.schema import TIMESTAMP
from windowing.window import TupleWindow


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
        plan = BatchPlan(number, batch.beat, [piece] if batch.arrivals else [])
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


class BareBolt(WindowedBolt):
    """A windowed bolt that emits nothing: its windows are what is of interest."""

    outputs: ClassVar[dict[str, str]] = {}

    def execute(self, window: TupleWindow) -> None:
        return None


def add_bare_bolt(builder: TopologyBuilder, scenario: Scenario, prefix: str = "") -> None:
    """Add the bolt that a scenario describes, and a spout for its events."""
    settings = scenario.bolt
    assert settings is not None
    columns = [("id", pa.string())]
    if settings.timestamp_field is not None:
        columns.append((settings.timestamp_field, TIMESTAMP))
    spout: Any = ScenarioSpout(tuple(scenario.streams), pa.schema(columns))
    builder.set_spout(f"{prefix}events", spout)
    declarer = builder.set_bolt(f"{prefix}bolt", _configured(settings))
    for stream in scenario.streams:
        declarer.global_grouping(f"{prefix}events", stream=stream)


def _configured(settings: BoltSettings) -> WindowedBolt:
    bolt: WindowedBolt = BareBolt()
    slide = settings.length if settings.tumbling else settings.sliding
    bolt = bolt.with_window(settings.length, slide).with_bounds(settings.bounds)
    if settings.timestamp_field is not None:
        bolt = bolt.with_timestamp_field(settings.timestamp_field)
    if settings.lag is not None:
        bolt = bolt.with_lag(settings.lag)
    if settings.late_stream is not None:
        bolt = bolt.with_late_tuple_stream(settings.late_stream)
    if settings.offset is not None:
        bolt = bolt.with_offset(settings.offset)
    if settings.watermark_interval is not None:
        bolt = bolt.with_watermark_interval(settings.watermark_interval)
    return bolt


@dataclass
class Recording:
    """What is seen of a run, whichever engine it is on; a batch that runs again replaces what was seen of it."""

    windows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    late: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    watermarks: dict[str, list[int | None]] = field(default_factory=dict)

    def watch(self, step: MicroBatch) -> MicroBatch:
        """Have a run tell what happens in it."""
        step.tracer = self._trace
        return step

    def note(self, batch: ScriptBatch, report: BatchReport, prefix: str = "") -> None:
        """Note the watermarks of a batch that was committed."""
        if batch.beat.tick:
            for name, bolt in report.bolts.items():
                if name.startswith(prefix):
                    self.watermarks.setdefault(name, []).append(bolt.emitted)

    def answer(
        self, scenario: Scenario, topology: Topology, manifest: Manifest, store: SegmentStore, prefix: str = ""
    ) -> Answer:
        """The answer, from what was seen and what the state is in the end."""
        mine = [name for name in topology.windowed if name.startswith(prefix)]
        windows = [row for key in sorted(self.windows) for row in self.windows[key] if row["bolt"] in mine]
        late = [row["event"] for key in sorted(self.late) for row in self.late[key] if row["bolt"] in mine]
        counts: dict[str, int] = {}
        pending: list[str] = []
        for name in mine:
            part, bolt = topology.windowed[name], manifest.bolts[name]
            for account, number in bolt.accounts.totals(sum(bolt.pending)).items():
                counts[account] = counts.get(account, 0) + number
            for task, state in enumerate(bolt.tasks):
                manager = restored_manager(store, part, task, state)
                for events in manager.pending_events():
                    pending.extend(event_ids(pa.Table.from_batches([events.payload])))
        outputs = {name: part.sink.rows for name, part in topology.sinks.items() if isinstance(part.sink, MemorySink)}
        first = self.watermarks.get(mine[0], []) if mine else []
        return Answer(
            scenario.name,
            windows=[_window(topology, row) for row in windows],
            late=late,
            watermarks=list(first),
            pending=pending,
            counts=counts,
            outputs=outputs,
        )

    def _trace(self, key: str, kind: str, rows: list[dict[str, Any]]) -> None:
        {"windows": self.windows, "late": self.late}[kind][key] = rows


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
    return window


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
