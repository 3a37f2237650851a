"""A micro-batch on the driver: its plan, its progress, the context of its tasks, and their executors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Protocol

from manager.storage.manifest import Manifest, serial_of
from manager.storage.segments import Ref, SegmentStore
from topologies.engine.failures import in_this_process
from topologies.engine.ledger import merged
from topologies.engine.task_data import (
    BoltWork,
    FireItem,
    FireOutcome,
    InputProgress,
    MergedSplits,
    Output,
    RejectedEvent,
    Sections,
    SinkRows,
    SourceSplit,
    UnadmittedEvents,
    merge_work,
)

if TYPE_CHECKING:
    from topologies.engine.event_times import FirstOutput
    from topologies.graph.graph import Graph


# The plan of a micro-batch: its number, its time and its input.


@dataclass(frozen=True)
class TimeAdvance:
    """The time at the end of a batch, and whether it ends with a tick, or with the end of the streams."""

    clock: int
    """The clock in microseconds since the epoch; journaled, so that a re-run has the same."""
    tick: bool = True
    """True if the watermark interval has passed."""
    close: bool = False
    """True if the streams end here: all open windows fire."""


@dataclass(frozen=True)
class BatchPlan:
    """The plan of a micro-batch: its number, its time and its input."""

    batch: int
    advance: TimeAdvance
    splits: Sequence[SourceSplit | MergedSplits] = ()
    """The splits in order of arrival."""
    ingest: Callable[[Context], list[Output]] | None = None
    """Reads input without splits, such as a streaming DataFrame; its events arrive after the events of the splits."""
    closing: bool = False
    """True for the end of a run, after the batch of this number."""
    advances: Mapping[str, TimeAdvance] = field(default_factory=dict)
    """Per bolt, its own time advance, where scenarios run side by side; other bolts take ``advance``."""
    run: str = ""
    """Id of the run that planned the batch, also when another run repeats it."""
    slots: int = 1
    """Number of splits to cut divisible input into; the same when the batch is repeated."""
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Per spout, all partitions of its source, also those without input in this batch, by the names of
    ``SourceBatch.partition``; journaled, so that a re-run has the same."""

    @property
    def serial(self) -> int:
        """A unique, increasing number: twice the batch number, plus one for a closing batch."""
        return serial_of(self.batch, self.closing)

    def advance_of(self, bolt: str) -> TimeAdvance:
        """Returns the time advance of one bolt."""
        return self.advances.get(bolt, self.advance)


# Driver-side accumulator for one micro-batch.


_INPUT = "input"
"""Origin of rows that came with the input."""


@dataclass
class BatchProgress:
    """Accumulates the written data and the counts of the tasks of one batch."""

    state: Manifest
    context: Context
    rows: int = 0
    files: dict[str, list[str]] = field(default_factory=dict)
    for_sinks: dict[str, list[SinkRows]] = field(default_factory=dict)
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    """For each sink and origin, the number of rows so far."""
    traced: dict[str, list[Ref]] = field(default_factory=dict)
    new_watermarks: dict[str, int] = field(default_factory=dict)
    """For each bolt, the watermark that this batch has emitted, in microseconds; bolts that have emitted none are
    missing."""
    windows: dict[str, int] = field(default_factory=dict)
    window_ends: dict[str, Counter[int]] = field(default_factory=dict)
    """For each bolt, where the batch asks for it: the number of windows that have fired, by their end in
    microseconds."""
    trace_contexts: dict[str, Mapping[int, Sequence[str]]] = field(default_factory=dict)
    """Per bolt and end, where the batch asks for it: samples of the trace contexts of events in windows."""
    complaints: list[str] = field(default_factory=list)
    rejected_events: list[RejectedEvent] = field(default_factory=list)
    """Some of the events that were not admitted, where the batch asks for them."""
    queued: dict[str, list[Sections]] = field(default_factory=dict)
    """For each bolt, events that its tasks do not have yet: ``pass_to_tasks`` gives them to the tasks."""
    unadmitted: dict[str, UnadmittedEvents] = field(default_factory=dict)
    """Per bolt, events not admitted yet."""
    inputs: dict[str, dict[str, InputProgress]] = field(default_factory=dict)
    """For each bolt and input stream, the progress that the events of the batch have shown."""

    work: dict[str, BoltWork] = field(default_factory=dict)
    """For each bolt, and for ``INPUT``, the cost in this batch."""

    def take(self, output: Output, origin: str = _INPUT) -> None:
        """Add the output of a task. ``origin`` is the bolt and task that emitted its rows; the default is the input."""
        staged, recorded = output.staged, output.recorded
        for name, sections in staged.queued.items():
            self.queued.setdefault(name, []).append(sections)
        for name, events in staged.unadmitted.items():
            self.unadmitted.setdefault(name, UnadmittedEvents()).add(events)
        for name, ref in staged.for_sinks:
            first = self.numbers.get((name, origin), 0)
            self.for_sinks.setdefault(name, []).append(SinkRows(ref, origin, first))
            self.numbers[name, origin] = first + ref.rows
        for name, path in staged.files:
            self.files.setdefault(name, []).append(path)
        for name, counts in recorded.counts.items():
            self.state.bolts[name].accounts.merge(counts)
        for name, inputs in recorded.inputs.items():
            self._note_progress(name, inputs)
        for kind, ref in recorded.traced:
            self.traced.setdefault(kind, []).append(ref)
        for name, ends in recorded.window_ends.items():
            self.window_ends.setdefault(name, Counter()).update(ends)
        for name, of_ends in recorded.trace_contexts.items():
            self.trace_contexts[name] = merged(self.trace_contexts.get(name, {}), of_ends)
        self.complaints.extend(recorded.complaints)
        self.rejected_events.extend(recorded.rejected_events)
        merge_work(self.work, output.work)
        for name, counted in output.spouts.items():
            spout = self.state.spouts.setdefault(name, {})
            self.rows += counted["rows"]
            for what, number in counted.items():
                spout[what] = spout.get(what, 0) + number

    def written_sections(self, bolt: str) -> list[Sections]:
        """Returns the sections written for the tasks of a bolt that do not have them yet, in a few parts. The order of
        arrival, which the driver reads, is for task -1."""
        queued, unadmitted = self.queued.get(bolt), self.unadmitted.get(bolt)
        return [*([Sections.concat(queued)] if queued else []), *([] if unadmitted is None else unadmitted.as_parts())]

    def replace_sections(self, bolt: str, parts: Sequence[Sections]) -> None:
        """Replaces the sections of ``written_sections`` by the same rows elsewhere, part by part."""
        queued = 1 if self.queued.get(bolt) else 0
        if queued:
            self.queued[bolt] = [parts[0]]
        if bolt in self.unadmitted:
            self.unadmitted[bolt] = self.unadmitted[bolt].elsewhere(parts[queued:])

    def pass_to_tasks(self, bolt: str) -> None:
        """Gives the tasks of a bolt the sections that were written for their queues, in order of arrival."""
        parts = self.queued.pop(bolt, None)
        if parts:
            whole, tasks = Sections.concat(parts), self.state.bolts[bolt].tasks
            for task, places in whole.places_by_task():
                tasks[task].refs.extend(whole.refs.take(places))

    def take_fired(self, item: FireItem, outcome: FireOutcome) -> None:
        """Add the outcome of a task of a windowed bolt."""
        tasks = self.state.bolts[item.bolt].tasks
        if outcome.state is None:  # a further share of the windows of a task
            tasks[item.task].bolt = tasks[item.task].bolt.add_counts(outcome.done)
        else:
            tasks[item.task] = outcome.state
        self.windows[item.bolt] = self.windows.get(item.bolt, 0) + outcome.done.fired
        self.take(outcome.output, self._origin(item.bolt, item.task))

    def _origin(self, bolt: str, task: int) -> str:
        """Returns the name of a task, with the number of tasks of the bolts before it and of its own bolt: other
        numbers change the order of the rows."""
        node = self.context.topology.windowed[bolt]
        before = [each.name for each in self.context.topology.windowed.values() if each.level < node.level]
        return f"{bolt}.{task}of{'-'.join(str(len(self.state.bolts[name].tasks)) for name in (*before, bolt))}"

    def check_accounts(self) -> None:
        """Raise an error if the accounts of a bolt do not add up."""
        for name, bolt in self.state.bolts.items():
            bolt.accounts.check(bolt.pending, name)

    def unadmitted_of(self, bolt: str) -> UnadmittedEvents:
        """Returns the events of the batch that the tasks of a bolt have yet to admit."""
        return self.unadmitted.get(bolt, UnadmittedEvents())

    def progress_of(self, bolt: str) -> InputProgress:
        """Merges the progress of the batch on all inputs of a bolt."""
        return reduce(InputProgress.merge, self.inputs.get(bolt, {}).values(), InputProgress())

    def _note_progress(self, bolt: str, inputs: Mapping[str, InputProgress]) -> None:
        known, watermark = self.inputs.setdefault(bolt, {}), self.state.bolts[bolt].watermark
        for stream, progress in inputs.items():
            known[stream] = progress.merge(known.get(stream, InputProgress()))
            if progress.latest is not None:
                watermark.observe(stream, progress.latest)
            if progress.skew is not None:
                watermark.skew[stream] = max(progress.skew, watermark.skew.get(stream, progress.skew))


# What every task of a batch receives.


@dataclass(frozen=True)
class Context:
    """Data that every task of a batch receives."""

    topology: Graph
    store: SegmentStore
    key: str
    """Name of the batch: of the folder of its segments in the store, and in the names of sink files."""
    batch: int
    clock: int
    watermarks: Mapping[str, int | None]
    """Per windowed bolt, the watermark in microseconds at the start of the batch, which decides which events are late;
    None before the first."""
    traced: bool = False
    """True if tracing is on: windows and late events are then recorded with the ids of their events."""
    notes_window_ends: bool = False
    """True if the ends of the windows that fire are recorded, for metrics."""
    samples_traces: bool = False
    """True if trace contexts of events in windows that fire are recorded, for spans."""
    samples_rejected_events: bool = False
    """True if some of the rejected events are recorded with their reasons, for observers of the run."""
    first: FirstOutput | None = None
    """The first output of the run; None for a run that starts with its input."""
    run: str = ""
    """Id of the run, new after each start."""
    epoch: int = 0
    """The number of the owner's claim on the checkpoint (decision 67); 0 where a lock keeps others off."""
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Per spout, the partitions of its source."""


# Executors, which run the tasks of a batch.


class Executor(Protocol):
    """Runs the tasks of a batch, in this process or on Spark's workers. Results come in the order of the items."""

    def map(self, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> list[Any]: ...


class RunExecutor(Executor, Protocol):
    """Runs the tasks of a run; ``close`` frees its resources."""

    @property
    def slots(self) -> int:
        """Number of tasks that run concurrently now."""
        ...

    def load(self, topology: Graph) -> None: ...
    def close(self) -> None: ...


class InProcess:
    """Runs tasks one after another in this process."""

    def map(self, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> list[Any]:
        return [in_this_process(partial(function, item, context)) for item in items]


class RunInProcess(InProcess):
    """Runs the tasks of a run, one at a time."""

    slots = 1

    def load(self, topology: Graph) -> None:
        """Does nothing: the tasks have the topology already."""

    def close(self) -> None:
        """Does nothing: there is nothing to free."""
