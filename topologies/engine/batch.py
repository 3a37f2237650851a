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
from topologies.engine.ledger import merge_trace_samples
from topologies.engine.task_data import (
    BoltWork,
    FireItem,
    FireOutcome,
    InputProgress,
    MergedSplits,
    RejectedEvent,
    Sections,
    SinkRows,
    SourceSplit,
    TaskOutput,
    UnadmittedEvents,
    merge_work,
)

if TYPE_CHECKING:
    from topologies.engine.event_times import FirstOutput
    from topologies.graph.graph import Graph


# The plan of a micro-batch: its number, its time and its input.


@dataclass(frozen=True)
class TimeAdvance:
    """The time at the end of a batch. Tells whether the batch ends with a tick, or with the end of the streams."""

    clock: int
    """The clock in microseconds since the epoch; journaled, so that a re-run has the same clock."""
    tick: bool = True
    """True if the watermark interval has passed."""
    close: bool = False
    """True if the streams end here, so that all open windows fire."""


@dataclass(frozen=True)
class BatchPlan:
    """The plan of a micro-batch: its number, its time and its input."""

    batch: int
    advance: TimeAdvance
    splits: Sequence[SourceSplit | MergedSplits] = ()
    """The splits in order of arrival."""
    ingest: Callable[[Context], list[TaskOutput]] | None = None
    """Reads input without splits, such as a streaming DataFrame; its events arrive after those of the splits."""
    closing: bool = False
    """True for the closing batch at the end of a run, which follows the batch with this number."""
    advances: Mapping[str, TimeAdvance] = field(default_factory=dict)
    """For each bolt, its own time advance, if scenarios run side by side; other bolts use ``advance``."""
    run: str = ""
    """Id of the run that planned the batch, even if another run repeats it."""
    slots: int = 1
    """Number of splits into which divisible input is cut, so that a repeated batch is cut the same way."""
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each spout, all partitions of its source, even without input in this batch, by the names of
    ``SourceBatch.partition``; journaled, so that a re-run has the same partitions."""

    @property
    def serial(self) -> int:
        """A unique, increasing number: twice the batch number, plus one for a closing batch."""
        return serial_of(self.batch, self.closing)

    def advance_of(self, bolt: str) -> TimeAdvance:
        """Returns the time advance of one bolt."""
        return self.advances.get(bolt, self.advance)


# Accumulates the results of one micro-batch on the driver.


_INPUT = "input"
"""Origin of rows that came with the input."""


@dataclass
class BatchProgress:
    """Accumulates the data that the tasks of one batch have written, and their counts."""

    state: Manifest
    context: Context
    rows: int = 0
    files: dict[str, list[str]] = field(default_factory=dict)
    for_sinks: dict[str, list[SinkRows]] = field(default_factory=dict)
    row_counts: dict[tuple[str, str], int] = field(default_factory=dict)
    """For each sink and origin, the number of rows so far."""
    trace_refs: dict[str, list[Ref]] = field(default_factory=dict)
    new_watermarks: dict[str, int] = field(default_factory=dict)
    """For each bolt, the watermark that this batch has emitted, in microseconds; bolts that emitted none are
    missing."""
    windows: dict[str, int] = field(default_factory=dict)
    window_ends: dict[str, Counter[int]] = field(default_factory=dict)
    """For each bolt, the number of fired windows by end in microseconds, if the batch records them."""
    trace_contexts: dict[str, Mapping[int, Sequence[str]]] = field(default_factory=dict)
    """For each bolt and window end, samples of trace contexts of events in windows, if the batch records them."""
    complaints: list[str] = field(default_factory=list)
    rejected_events: list[RejectedEvent] = field(default_factory=list)
    """Samples of rejected events, if the batch records them."""
    queued: dict[str, list[Sections]] = field(default_factory=dict)
    """For each bolt, events that its tasks have not received yet; ``pass_to_tasks`` hands them over."""
    unadmitted: dict[str, UnadmittedEvents] = field(default_factory=dict)
    """For each bolt, events that its tasks have yet to admit."""
    inputs: dict[str, dict[str, InputProgress]] = field(default_factory=dict)
    """For each bolt and input, how far the events of the batch have advanced time."""

    work: dict[str, BoltWork] = field(default_factory=dict)
    """The cost of this batch, for each bolt and for ``INPUT``."""

    def take(self, output: TaskOutput, origin: str = _INPUT) -> None:
        """Adds the output of a task. ``origin``: the bolt and task that emitted its rows; by default the input."""
        staged, recorded = output.staged, output.recorded
        for name, sections in staged.queued.items():
            self.queued.setdefault(name, []).append(sections)
        for name, events in staged.unadmitted.items():
            self.unadmitted.setdefault(name, UnadmittedEvents()).add(events)
        for name, ref in staged.for_sinks:
            first_row = self.row_counts.get((name, origin), 0)
            self.for_sinks.setdefault(name, []).append(SinkRows(ref, origin, first_row))
            self.row_counts[name, origin] = first_row + ref.rows
        for name, path in staged.files:
            self.files.setdefault(name, []).append(path)
        for name, counts in recorded.counts.items():
            self.state.bolts[name].accounts.merge(counts)
        for name, inputs in recorded.inputs.items():
            self._note_progress(name, inputs)
        for kind, ref in recorded.trace_refs:
            self.trace_refs.setdefault(kind, []).append(ref)
        for name, ends in recorded.window_ends.items():
            self.window_ends.setdefault(name, Counter()).update(ends)
        for name, trace_samples in recorded.trace_contexts.items():
            self.trace_contexts[name] = merge_trace_samples(self.trace_contexts.get(name, {}), trace_samples)
        self.complaints.extend(recorded.complaints)
        self.rejected_events.extend(recorded.rejected_events)
        merge_work(self.work, output.work)
        for name, spout_counts in output.spouts.items():
            spout_totals = self.state.spouts.setdefault(name, {})
            self.rows += spout_counts["rows"]
            for what, number in spout_counts.items():
                spout_totals[what] = spout_totals.get(what, 0) + number

    def written_sections(self, bolt: str) -> list[Sections]:
        """Returns the sections that were written for the tasks of a bolt and not handed over yet, in a few parts.
        Sections with the order of arrival, which the driver reads, have task -1."""
        queued, unadmitted = self.queued.get(bolt), self.unadmitted.get(bolt)
        return [*([Sections.concat(queued)] if queued else []), *([] if unadmitted is None else unadmitted.as_parts())]

    def replace_sections(self, bolt: str, parts: Sequence[Sections]) -> None:
        """Replaces the sections of ``written_sections`` part by part by other sections with the same rows."""
        queued = 1 if self.queued.get(bolt) else 0
        if queued:
            self.queued[bolt] = [parts[0]]
        if bolt in self.unadmitted:
            self.unadmitted[bolt] = self.unadmitted[bolt].with_moved_sections(parts[queued:])

    def pass_to_tasks(self, bolt: str) -> None:
        """Hands the sections that were written for the queues of a bolt over to its tasks, in order of arrival."""
        parts = self.queued.pop(bolt, None)
        if parts:
            sections, tasks = Sections.concat(parts), self.state.bolts[bolt].tasks
            for task, indices in sections.indices_by_task():
                tasks[task].refs.extend(sections.refs.take(indices))

    def take_fired(self, item: FireItem, outcome: FireOutcome) -> None:
        """Adds the outcome of a task of a windowed bolt."""
        tasks = self.state.bolts[item.bolt].tasks
        if outcome.state is None:  # one of several shares of a task's windows
            tasks[item.task].bolt = tasks[item.task].bolt.add_counts(outcome.done)
        else:
            tasks[item.task] = outcome.state
        self.windows[item.bolt] = self.windows.get(item.bolt, 0) + outcome.done.fired
        self.take(outcome.output, self._origin(item.bolt, item.task))

    def _origin(self, bolt: str, task: int) -> str:
        """Returns the name of a task, with the numbers of tasks of its bolt and of the bolts before: other numbers
        change the order of rows."""
        node = self.context.topology.windowed[bolt]
        before = [each.name for each in self.context.topology.windowed.values() if each.level < node.level]
        return f"{bolt}.{task}of{'-'.join(str(len(self.state.bolts[name].tasks)) for name in (*before, bolt))}"

    def check_accounts(self) -> None:
        """Raises an error if the accounts of a bolt do not add up."""
        for name, bolt in self.state.bolts.items():
            bolt.accounts.check(bolt.pending, name)

    def unadmitted_of(self, bolt: str) -> UnadmittedEvents:
        """Returns the events of the batch that the tasks of a bolt have yet to admit."""
        return self.unadmitted.get(bolt, UnadmittedEvents())

    def progress_of(self, bolt: str) -> InputProgress:
        """Merges the progress of all inputs of a bolt in this batch."""
        return reduce(InputProgress.merge, self.inputs.get(bolt, {}).values(), InputProgress())

    def _note_progress(self, bolt: str, inputs: Mapping[str, InputProgress]) -> None:
        bolt_inputs, watermark = self.inputs.setdefault(bolt, {}), self.state.bolts[bolt].watermark
        for stream, progress in inputs.items():
            bolt_inputs[stream] = progress.merge(bolt_inputs.get(stream, InputProgress()))
            if progress.latest is not None:
                watermark.observe(stream, progress.latest)
            if progress.greatest_shift_back is not None:
                watermark.greatest_shift_back[stream] = max(
                    progress.greatest_shift_back,
                    watermark.greatest_shift_back.get(stream, progress.greatest_shift_back),
                )


# Data that every task of a batch receives.


@dataclass(frozen=True)
class Context:
    """Data that every task of a batch receives."""

    topology: Graph
    store: SegmentStore
    key: str
    """Name of the batch, used for the folder of its segments in the store and for its sink files."""
    batch: int
    clock: int
    watermarks: Mapping[str, int | None]
    """For each windowed bolt, the watermark in microseconds at the start of the batch, which decides which events are
    late; None before the first."""
    tracing: bool = False
    """True if tracing is on, so that windows and late events are recorded with the ids of their events."""
    notes_window_ends: bool = False
    """True if the ends of fired windows are recorded, for metrics."""
    samples_traces: bool = False
    """True if trace contexts of events in fired windows are recorded, for spans."""
    samples_rejected_events: bool = False
    """True if samples of rejected events are recorded with their reasons, for observers of the run."""
    first_output: FirstOutput | None = None
    """The first output of the run; None for a run that starts with its input."""
    run: str = ""
    """Id of the run, new after each start."""
    epoch: int = 0
    """The number of the owner's claim on the checkpoint (decision 67); 0 if a lock excludes others."""
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each spout, the partitions of its source."""


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


class InProcessExecutor:
    """Runs tasks one after another in this process."""

    def map(self, function: Callable[[Any, Context], Any], items: Sequence[Any], context: Context) -> list[Any]:
        return [in_this_process(partial(function, item, context)) for item in items]


class InProcessRunExecutor(InProcessExecutor):
    """Runs the tasks of a run, one at a time."""

    slots = 1

    def load(self, topology: Graph) -> None:
        """Does nothing: the tasks already have the topology."""

    def close(self) -> None:
        """Does nothing: there is nothing to free."""
