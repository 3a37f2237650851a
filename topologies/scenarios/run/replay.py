"""Replaying scenarios: through the micro-batches of the real engine, in this process or on Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from manager.storage.manifest import BoltState, Manifest
from manager.storage.segments.segments import SegmentStore
from topologies.compose.builder import TopologyBuilder
from topologies.engine.batch.plan import BatchPlan
from topologies.engine.batch.report import BatchReport
from topologies.engine.ledger.trace import event_ids
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.rehearsal import Rehearsal
from topologies.engine.tasks import pending_events
from topologies.graph.nodes.windowed import WindowedNode
from topologies.graph.streams import ID, stream_label
from topologies.io.sinks import MemorySink
from topologies.named_topology import load_topology
from topologies.scenarios.run.answer import (
    AnswerEvent,
    AnswerPane,
    AnswerWindow,
    BoltBatch,
    BoltTrace,
    Decided,
    Replayed,
)
from topologies.scenarios.run.comparing import judge, judge_midway
from topologies.scenarios.run.script import ScriptBatch, ScriptSplit, script
from topologies.scenarios.run.stepping import messages_of, names_of, step_of
from topologies.scenarios.schema.bare import bare_bolt, imports_of
from topologies.scenarios.schema.columns import schema_of
from topologies.scenarios.schema.model import Scenario
from topologies.scenarios.schema.steps import EventStep
from topologies.topology import Topology
from windowing.errors import ScenarioError
from windowing.settings import WindowSettings
from windowing.settings.kinds import CountByStart, Lull, Meeting, Onset, Session, SlidingLog
from windowing.suggestions import did_you_mean
from windowing.time.durations import Count


def replay_locally(scenario: Scenario, topology: Topology | None = None) -> Replayed:
    """The answer to a scenario, in this process; what it expects in between is asked of one that ends there."""
    answer = _replayed(scenario, topology)
    return judge_midway(answer, {place: _replayed(prefix, topology) for place, prefix in scenario.midway.items()})


def _replayed(scenario: Scenario, topology: Topology | None) -> Replayed:
    built = watched_topology(scenario, topology)
    recording = Recording()
    run = Rehearsal(built, recording.watch)
    for number, batch in enumerate(script(scenario)):
        split = ScriptSplit(tuple(arrival.to_json() for arrival in batch.arrivals))
        plan = BatchPlan(number, batch.advance, [split] if batch.arrivals else [], run=run.micro_batch.run_id)
        report = run.run(plan, crash_at="commit" if batch.crash else None)
        assert report is not None
        recording.note(batch, report)
    return judge(scenario, recording.answer(scenario, built, run.micro_batch.manifest, run.checkpoint.segments))


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


@dataclass
class Recording:
    """What is seen of a run, whichever engine it is on; a batch that runs again replaces what was seen of it."""

    windows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    late: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    events: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    invalid: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    refused: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    decisions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    batches: dict[str, list[BoltBatch]] = field(default_factory=dict)
    watermarks: dict[str, list[int | None]] = field(default_factory=dict)
    clocks: dict[str, list[int | None]] = field(default_factory=dict)
    reached: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    """The clock and the watermark of each bolt, before the streams ended."""

    def watch(self, micro_batch: MicroBatch) -> MicroBatch:
        """Have a run tell what happens in it."""
        micro_batch.tracer = self._trace
        return micro_batch

    def note(self, batch: ScriptBatch, report: BatchReport, prefix: str = "") -> None:
        """Note the watermarks of a batch that was committed."""
        for name, bolt in report.bolts.items():
            if not name.startswith(prefix):
                continue
            known = BoltBatch(report.batch, batch.advance.clock, bolt.watermark, bolt.inputs)
            self.batches.setdefault(name, []).append(known)
            if batch.advance.tick and not batch.advance.close:
                self.watermarks.setdefault(name, []).append(bolt.new_watermark)
            if batch.clock:
                self.clocks.setdefault(name, []).append(bolt.watermark)
            if not batch.advance.close:
                self.reached[name] = batch.advance.clock, bolt.watermark

    def answer(
        self, scenario: Scenario, topology: Topology, manifest: Manifest, store: SegmentStore, prefix: str = ""
    ) -> Replayed:
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
        steps_of = scenario.event_steps
        invalid = {
            steps_of[row["row"]].id: row["reason"]
            for key in sorted(self.invalid)
            for row in self.invalid[key]
            if row["bolt"] in mine
        }
        bolts = [manifest.bolts[name] for name in mine]
        counts = _added_up(bolt.accounts.totals(sum(bolt.pending)) for bolt in bolts)
        metrics: dict[str, int | float] = {**_added_up(bolt.accounts.metrics() for bolt in bolts)}
        pending = [event for name in mine for event in _pending(topology.windowed[name], manifest.bolts[name], store)]
        outputs = {
            name.removeprefix(prefix): node.sink.rows
            for name, node in topology.sinks.items()
            if isinstance(node.sink, MemorySink) and name.startswith(prefix)
        }
        steps: dict[str, str] = {}
        if scenario.step is not None:
            outputs, steps = messages_of(topology, outputs, prefix), names_of(topology, prefix)
        first = mine[0] if mine else ""
        clock, watermark = self.reached.get(first, (0, None))
        if watermark is not None and scenario.has_clock:
            metrics["watermark_delay"] = _milliseconds(clock - watermark)
        answered = [_window(topology, row, steps, mine, prefix) for row in windows]
        return Replayed(
            scenario.name,
            windows=answered,
            late=late,
            watermarks=list(self.watermarks.get(first, [])),
            pending=pending,
            counts=counts,
            outputs=outputs,
            events=arrived,
            clocks=list(self.clocks.get(first, [])),
            metrics=metrics,
            steps=tuple(steps.values()),
            invalid=invalid,
            without_ids={
                name.removeprefix(prefix): not all(topology.windowed[name].origins)
                for name in mine
                if ID not in topology.windowed[name].schema.names
            },
            traces=[
                self._of_bolt(
                    topology.windowed[name],
                    steps.get(name, name.removeprefix(prefix)),
                    {at: window for at, window in enumerate(answered) if windows[at]["bolt"] == name},
                    manifest.bolts[name].accounts.totals(sum(manifest.bolts[name].pending)),
                    list(_pending(topology.windowed[name], manifest.bolts[name], store)),
                    prefix,
                )
                for name in mine
            ],
        )

    def _of_bolt(
        self,
        node: WindowedNode,
        name: str,
        windows: dict[int, AnswerWindow],
        counts: dict[str, int],
        pending: list[str | None],
        prefix: str,
    ) -> BoltTrace:
        """What happened at one bolt. ``prefix``: before the names of its inputs where scenarios share a run."""

        def of(seen: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
            rows = ({**row, "batch": key} for key in sorted(seen) for row in seen[key] if row["bolt"] == node.name)
            return sorted(rows, key=lambda row: (row["batch"], row.get("seq", 0)))

        return BoltTrace(
            bolt=name,
            event_time=node.event_time,
            settings=node.bolt.settings,
            from_bolts=tuple(
                label.removeprefix(prefix) for label, origins in zip(node.streams, node.origins, strict=True) if origins
            ),
            windows=windows,
            counts=counts,
            pending=pending,
            invalid={row["row"]: row["reason"] for row in of(self.invalid)},
            refused={row["event"]: row["reason"] for row in of(self.refused)},
            watermarks=list(self.watermarks.get(node.name, [])),
            clocks=list(self.clocks.get(node.name, [])),
            events=[_event(row) for row in of(self.events)] if _watched(node.bolt.settings) else [],
            decisions=[_decided(row, prefix) for row in of(self.decisions)],
            batches=[
                replace(batch, inputs={label.removeprefix(prefix): mark for label, mark in batch.inputs.items()})
                for batch in self.batches.get(node.name, [])
            ],
        )

    def _trace(self, key: str, kind: str, rows: list[dict[str, Any]]) -> None:
        seen = {
            "windows": self.windows,
            "late": self.late,
            "events": self.events,
            "invalid": self.invalid,
            "decisions": self.decisions,
            "refused": self.refused,
        }
        seen[kind][key] = rows


def _added_up(numbers: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sums of several bolts' numbers, by name."""
    sums: dict[str, int] = {}
    for of_bolt in numbers:
        for name, number in of_bolt.items():
            sums[name] = sums.get(name, 0) + number
    return sums


def _pending(node: WindowedNode, bolt: BoltState, store: SegmentStore) -> Iterator[str | None]:
    """The ids of the events that a window of the bolt may still need; None for each without an id."""
    if ID not in node.schema.names:
        yield from [None] * sum(bolt.pending)
        return
    for task, state in enumerate(bolt.tasks):
        for events in pending_events(store, node, task, state):
            yield from event_ids(events)


def _window(
    topology: Topology, row: dict[str, Any], steps: Mapping[str, str], bolts: Sequence[str], prefix: str
) -> AnswerWindow:
    """A window of an answer.

    ``steps``: the names of aggregation steps by those of their bolts. ``bolts``: those that have windows, with the
    prefix that their names have here.
    """
    node = topology.windowed[row["bolt"]]
    settings = node.bolt.settings
    counts = isinstance(settings.length, Count) and isinstance(settings.slide, Count)
    window = AnswerWindow(
        batch=row["batch"],
        due=row["due"],
        by_clock=row["by_clock"],
        brackets=_brackets(settings, row),
        start=row["start"],
        end=None if counts and not node.event_time else row["end"],
        events=row["events"],
        new=row["new"],
        expired=row["expired"],
    )
    if len(steps) > 1:
        window["step"] = steps[row["bolt"]]
    if not steps and len(bolts) > 1:
        window["bolt"] = row["bolt"].removeprefix(prefix)
    if node.parallelism > 1:
        window["task"] = row["task"]
    key, pane = row.get("key"), row.get("pane")
    if key is not None:
        window["key"] = json.loads(key)
    if len(settings.kinds) > 1:
        window["kind"] = row["kind"]
    if settings.panes is not None and pane is not None:
        shown = json.loads(pane)
        window["pane"] = AnswerPane(index=shown["index"], timing=shown["timing"], last=shown["last"])
    if row.get("by") is not None:
        window["by"] = row["by"]
    return window


def _brackets(settings: WindowSettings, row: Mapping[str, Any]) -> tuple[str, str]:
    if row.get("by") is not None:
        return "[", "]"  # from its first event to what fired it
    match settings.kinds[row["kind"] or 0] if settings.kinds else None:
        case Session() | Onset() | Lull() | Meeting() | CountByStart():
            return "[", ")"
        case SlidingLog():
            return "(", "]"
    return settings.bounds.value[0], settings.bounds.value[-1]


def _watched(rules: WindowSettings) -> bool:
    """Whether an answer tells how the events of a bolt were taken in: where more than ticks decides about them."""
    marks = rules.watermark_every or rules.watermark_field or rules.watermark_partition or rules.watermark_imports
    return bool(marks) or rules.watermark_per_key or rules.arrival is not None or rules.message_id_field is not None


def _event(row: dict[str, Any]) -> AnswerEvent:
    return AnswerEvent(
        id=row["event"], time=row["time"], action=row["decision"], watermark=row["watermark"], mark=row["mark"]
    )


def _decided(row: dict[str, Any], prefix: str) -> Decided:
    return Decided(
        batch=row["batch"],
        input=row["input"].removeprefix(prefix),
        seq=row["seq"],
        row=row["row"],
        event=row["event"],
        time=row["time"],
        assigned=row["assigned"],
        decision=row["decision"],
        mark=row["mark"],
        reason=row["reason"],
    )


def _milliseconds(micros: int) -> int | float:
    return micros / 1000 if micros % 1000 else micros // 1000
