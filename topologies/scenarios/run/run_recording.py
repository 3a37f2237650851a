"""What is seen of a scenario's run, on either engine, and the answer made of it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from manager.storage.manifest import BoltState, Manifest
from manager.storage.segments.segments import SegmentStore
from topologies.engine.batch.report import BatchReport
from topologies.engine.ledger.trace import event_ids
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.tasks import pending_events
from topologies.graph.describing import time_in_words, window_in_words
from topologies.graph.nodes.windowed import WindowedNode
from topologies.graph.streams import ID
from topologies.io.sinks import MemorySink
from topologies.scenarios.run.answer_windows import answer_window
from topologies.scenarios.run.scenario_answer import (
    AnswerEvent,
    AnswerWindow,
    BoltBatch,
    BoltTrace,
    Decided,
    Replayed,
)
from topologies.scenarios.run.script import ScriptBatch
from topologies.scenarios.run.stepping import messages_of, names_of
from topologies.scenarios.schema.scenario_model import Scenario
from topologies.topology import Topology
from windowing.settings import WindowSettings


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
        """The answer, from what was seen and what the state is in the end. ``prefix``: that of the scenario's own
        components where several scenarios share a run."""
        mine = {name: node for name, node in topology.windowed.items() if name.startswith(prefix)}
        windows = _rows(self.windows, mine)
        watched = {name for name, node in mine.items() if _watched(node.bolt.settings)}
        arrived = {key: sorted(rows, key=lambda row: row["seq"]) for key, rows in self.events.items()}
        bolts = {name: manifest.bolts[name] for name in mine}
        pending = {name: list(_pending(node, bolts[name], store)) for name, node in mine.items()}
        counts = {name: bolt.accounts.totals(sum(bolt.pending)) for name, bolt in bolts.items()}
        outputs, steps = _outputs(scenario, topology, prefix)
        answered = [answer_window(topology, row, steps, list(mine), prefix) for row in windows]
        first = next(iter(mine), "")
        return Replayed(
            scenario.name,
            windows=answered,
            late=[row["event"] for row in _rows(self.late, mine)],
            watermarks=list(self.watermarks.get(first, [])),
            pending=[event for events in pending.values() for event in events],
            counts=_added_up(counts.values()),
            outputs=outputs,
            events=[_event(row) for row in _rows(arrived, watched)],
            clocks=list(self.clocks.get(first, [])),
            metrics=self._metrics(scenario, bolts.values(), first),
            steps=tuple(steps.values()),
            invalid={scenario.event_steps[row["row"]].id: row["reason"] for row in _rows(self.invalid, mine)},
            without_ids={
                name.removeprefix(prefix): not all(node.origins)
                for name, node in mine.items()
                if ID not in node.schema.names
            },
            traces=[
                self._of_bolt(
                    node,
                    steps.get(name, name.removeprefix(prefix)),
                    {at: window for at, window in enumerate(answered) if windows[at]["bolt"] == name},
                    counts[name],
                    pending[name],
                    prefix,
                )
                for name, node in mine.items()
            ],
        )

    def _metrics(self, scenario: Scenario, bolts: Iterable[BoltState], first: str) -> dict[str, int | float]:
        """The counts of the time rules, and how far the watermark of the first bolt is behind the clock."""
        metrics: dict[str, int | float] = {**_added_up(bolt.accounts.metrics() for bolt in bolts)}
        clock, watermark = self.reached.get(first, (0, None))
        if watermark is not None and scenario.has_clock:
            metrics["watermark_delay"] = _milliseconds(clock - watermark)
        return metrics

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
            rules=f"Windows: {window_in_words(node)}. Time: {time_in_words(node)}.",
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


def _rows(seen: Mapping[str, list[dict[str, Any]]], bolts: Container[str]) -> list[dict[str, Any]]:
    """The rows of these bolts, batch by batch."""
    return [row for key in sorted(seen) for row in seen[key] if row["bolt"] in bolts]


def _outputs(
    scenario: Scenario, topology: Topology, prefix: str
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, str]]:
    """The rows of each sink, and of an aggregation step its messages, and the names of the steps by their bolts."""
    outputs = {
        name.removeprefix(prefix): node.sink.rows
        for name, node in topology.sinks.items()
        if isinstance(node.sink, MemorySink) and name.startswith(prefix)
    }
    if scenario.step is None:
        return outputs, {}
    return messages_of(topology, outputs, prefix), names_of(topology, prefix)


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
