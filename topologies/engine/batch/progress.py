"""Driver-side accumulator for one micro-batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from manager.storage.manifest import Manifest
from manager.storage.segments.ref import Ref
from topologies.engine.batch.context import Context
from topologies.engine.ledger.trace_contexts import merged
from topologies.engine.rows.sink_rows import SinkRows
from topologies.engine.work.bolt_work import BoltWork, merge_work
from topologies.engine.work.deferred_events import DeferredEvents
from topologies.engine.work.input_progress import InputProgress
from topologies.engine.work.items import FireItem, FireOutcome
from topologies.engine.work.output import Output, TurnedAway
from topologies.engine.work.sections import Sections

_INPUT = "input"
"""Origin of rows that came with the input. The origin of a bolt's rows ends in a period and a task number."""


@dataclass
class BatchProgress:
    """Accumulates what the tasks of one batch wrote and counted."""

    state: Manifest
    context: Context
    rows: int = 0
    files: dict[str, list[str]] = field(default_factory=dict)
    for_sinks: dict[str, list[SinkRows]] = field(default_factory=dict)
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    """Per sink and origin, the number of rows so far."""
    traced: dict[str, list[Ref]] = field(default_factory=dict)
    new_watermarks: dict[str, int] = field(default_factory=dict)
    """Per bolt, the watermark that this batch has emitted, in microseconds; without those that have emitted none."""
    windows: dict[str, int] = field(default_factory=dict)
    window_ends: dict[str, Counter[int]] = field(default_factory=dict)
    """Per bolt, where the batch asks for it: how many windows with each end (microseconds) have fired."""
    trace_contexts: dict[str, Mapping[int, Sequence[str]]] = field(default_factory=dict)
    """Per bolt and end, where the batch asks for it: samples of the trace contexts of events in windows."""
    complaints: list[str] = field(default_factory=list)
    turned_away: list[TurnedAway] = field(default_factory=list)
    """Where the batch asks for it: some of the events that were not admitted."""
    queued: dict[str, list[Sections]] = field(default_factory=dict)
    """Per bolt, events that its tasks do not have yet: ``hand_on`` gives them."""
    deferred: dict[str, DeferredEvents] = field(default_factory=dict)
    """Per bolt, events not admitted yet."""
    inputs: dict[str, dict[str, InputProgress]] = field(default_factory=dict)
    """Per bolt and input stream, what the events of the batch have shown."""

    work: dict[str, BoltWork] = field(default_factory=dict)
    """Per bolt, and for ``INPUT``: what it cost in this batch."""

    def take(self, output: Output, origin: str = _INPUT) -> None:
        """Add the output of a task. ``origin`` is the bolt and task that emitted its rows; the default is the input."""
        staged, recorded = output.staged, output.recorded
        for name, sections in staged.queued.items():
            self.queued.setdefault(name, []).append(sections)
        for name, events in staged.deferred.items():
            self.deferred.setdefault(name, DeferredEvents()).add(events)
        for name, ref in staged.for_sinks:
            first = self.numbers.get((name, origin), 0)
            self.for_sinks.setdefault(name, []).append(SinkRows(ref, origin, first))
            self.numbers[name, origin] = first + ref.rows
        for name, path in staged.files:
            self.files.setdefault(name, []).append(path)
        for name, counts in recorded.counts.items():
            self.state.bolts[name].accounts.merge(counts)
        for name, inputs in recorded.inputs.items():
            self._see(name, inputs)
        for kind, ref in recorded.traced:
            self.traced.setdefault(kind, []).append(ref)
        for name, ends in recorded.window_ends.items():
            self.window_ends.setdefault(name, Counter()).update(ends)
        for name, of_ends in recorded.trace_contexts.items():
            self.trace_contexts[name] = merged(self.trace_contexts.get(name, {}), of_ends)
        self.complaints.extend(recorded.complaints)
        self.turned_away.extend(recorded.turned_away)
        merge_work(self.work, output.work)
        for name, counted in output.spouts.items():
            spout = self.state.spouts.setdefault(name, {})
            self.rows += counted["rows"]
            for what, number in counted.items():
                spout[what] = spout.get(what, 0) + number

    def written_for(self, bolt: str) -> list[Sections]:
        """What was written for the tasks of a bolt that do not have it yet, in a few parts; what the driver is to read,
        the order of arrival, is for task -1."""
        queued, deferred = self.queued.get(bolt), self.deferred.get(bolt)
        return [*([Sections.concat(queued)] if queued else []), *([] if deferred is None else deferred.as_parts())]

    def write_for(self, bolt: str, parts: Sequence[Sections]) -> None:
        """Replace what ``written_for`` gave by the same rows elsewhere, part by part."""
        queued = 1 if self.queued.get(bolt) else 0
        if queued:
            self.queued[bolt] = [parts[0]]
        if bolt in self.deferred:
            self.deferred[bolt] = self.deferred[bolt].elsewhere(parts[queued:])

    def hand_on(self, bolt: str) -> None:
        """Give the tasks of a bolt what was written for their queues, in order of arrival."""
        parts = self.queued.pop(bolt, None)
        if parts:
            whole, tasks = Sections.concat(parts), self.state.bolts[bolt].tasks
            for task, places in whole.places_by_task():
                tasks[task].refs.extend(whole.refs.take(places))

    def take_fired(self, item: FireItem, outcome: FireOutcome) -> None:
        """Add the outcome of a task of a windowed bolt."""
        tasks = self.state.bolts[item.bolt].tasks
        if outcome.state is None:  # a further share of the windows of a task
            tasks[item.task].bolt = tasks[item.task].bolt.plus(outcome.done)
        else:
            tasks[item.task] = outcome.state
        self.windows[item.bolt] = self.windows.get(item.bolt, 0) + outcome.done.fired
        self.take(outcome.output, f"{item.bolt}.{item.task}")

    def check_accounts(self) -> None:
        """Raise an error if the accounts of a bolt do not add up."""
        for name, bolt in self.state.bolts.items():
            bolt.accounts.check(bolt.pending, name)

    def deferred_of(self, bolt: str) -> DeferredEvents:
        """The events of the batch that the tasks of a bolt have yet to admit."""
        return self.deferred.get(bolt, DeferredEvents())

    def seen(self, bolt: str) -> InputProgress:
        """What the events of the batch have shown on all inputs of a bolt."""
        return reduce(InputProgress.merge, self.inputs.get(bolt, {}).values(), InputProgress())

    def _see(self, bolt: str, inputs: Mapping[str, InputProgress]) -> None:
        known, watermark = self.inputs.setdefault(bolt, {}), self.state.bolts[bolt].watermark
        for stream, progress in inputs.items():
            known[stream] = progress.merge(known.get(stream, InputProgress()))
            if progress.latest is not None:
                watermark.observe(stream, progress.latest)
            if progress.skew is not None:
                watermark.skew[stream] = max(progress.skew, watermark.skew.get(stream, progress.skew))
