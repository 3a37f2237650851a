"""One micro-batch on the driver, for every engine: ingest, tick, fire, compact, sinks, commit, publish."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from manager.accounts import Accounts
from manager.storage.checkpoint import Checkpoint, MemoryCheckpoint
from manager.storage.files import storage_errors_during
from manager.storage.manifest import BoltState, Manifest, batch_in_words, batch_key, serial_of
from manager.storage.segment_files import PIECE, FileSegments, GatherItem, GatherOutcome
from manager.storage.task_state import TaskState
from topologies.engine.batch import BatchPlan, BatchProgress, Context, Executor, InProcessExecutor
from topologies.engine.commit import (
    EngineSinks,
    cannot_retract,
    delete_unpublished_files,
    prepare_sinks,
    publish,
    sync_written_files,
    write_rows,
)
from topologies.engine.event_times import FirstOutput, misread_numbers
from topologies.engine.fire.task_families import family_of
from topologies.engine.merging import replace_merged
from topologies.engine.report import BatchReport, report
from topologies.engine.task_data import CompactItem, FireItem, Sections, SinkBatch
from topologies.engine.tasks import compact, fire, gather, ingest
from topologies.engine.ticking import close, in_shares, tick
from topologies.graph.graph import Graph

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topologies.engine.task_data import RejectedEvent
    from topologies.graph.graph import WindowedNode


# The phases of a micro-batch: their durations, and windbolt's activity when a file system failed.


Phase = Literal["ingest", "tick", "fire", "compact", "sinks", "commit", "publish", "committed"]
"""The phases of a micro-batch, in order. From ``publish`` on, the batch survives a crash."""

PHASES: tuple[Phase, ...] = get_args(Phase)
"""All phases, in order."""

_DOING: dict[Phase, str] = {
    "ingest": "reading the input of {}",
    "tick": "moving time on in {}",
    "fire": "firing the windows of {}",
    "compact": "joining segments in {}",
    "sinks": "bringing {} to its sinks",
    "commit": "committing {}",
    "publish": "naming the files that {} has for its sinks",
}
"""For each phase, windbolt's activity, for errors; the braces stand for the batch."""


class Phases:
    """The phases of one micro-batch."""

    def __init__(self, key: str, checkpoint: Checkpoint, hook: Callable[[str], None]) -> None:
        """``hook``: called with the name of each phase as it begins."""
        self._batch, self._hook = batch_in_words(key), hook
        self._state_after_failure = checkpoint.after_failure(self._batch)
        self._state_after_commit = checkpoint.after_commit(self._batch)
        self._started = self._ended = time.perf_counter()
        self._seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Runs a phase within this block, and measures its time from the end of the previous phase. The times of a
        repeated phase add up."""
        self._hook(name)
        doing, state = (
            _DOING[name].format(self._batch),
            self._state_after_commit if name == "publish" else self._state_after_failure,
        )
        with storage_errors_during(doing, state):
            yield
        before, self._ended = self._ended, time.perf_counter()
        self._seconds[name] = self._seconds.get(name, 0.0) + self._ended - before

    def during(self, doing: str) -> AbstractContextManager[None]:
        """Adds the batch, and its state, to a StorageError. ``doing``: has braces for the batch."""
        return storage_errors_during(doing.format(self._batch), self._state_after_failure)

    def end(self) -> dict[str, float]:
        """Called after the commit. Returns the wall time in seconds of each phase, and ``total``, their sum."""
        self._hook("committed")
        self._seconds["total"] = self._ended - self._started
        return self._seconds


# Joins small segments of a task, so that it has few segments even if its windows are long.


_FANOUT = 8
"""Number of adjacent segments of one level that are compacted into one of the next level. It bounds the segments of a
task, and how often a row is copied."""


def compact_segments(topology: Graph, progress: BatchProgress, executor: Executor) -> None:
    """Compacts segments of every task that has many of one level."""
    indexed_items = list(_to_compact(topology, progress))
    if not indexed_items:
        return
    compacted = executor.map(compact, [item for _, item in indexed_items], progress.context)
    for (start, item), ref in zip(indexed_items, compacted, strict=True):
        task = progress.state.bolts[item.bolt].tasks[item.task]
        task.refs.replace(start, start + len(item.refs), ref)


def _to_compact(topology: Graph, progress: BatchProgress) -> Iterator[tuple[int, CompactItem]]:
    """Yields (index of the first segment, work item)."""
    for name in topology.windowed:
        bolt = progress.state.bolts[name]
        for number, task in enumerate(bolt.tasks):
            run = task.refs.run_of_one_level(_FANOUT)
            if run is not None:
                refs, previous = task.refs.between(run.start, run.stop), task.windows.get("previous_frontier")
                yield run.start, CompactItem(name, number, refs, previous, bolt.anchor)


# Gathers sections that tasks wrote for the tasks of bolts, in a store where each read is a request.
#
# Each task writes one segment, with a section for each receiving task. If every process that fires these tasks opened
# every segment, requests would grow with processes times segments. So some tasks copy the sections of up to 64 segments
# each into one segment, ordered by task, and a process opens few segments. Sections keep their content and order; only
# their place changes (decision 88).


_MOST_SEGMENTS = 64
"""Most segments from which a task copies sections: four times as many as it reads concurrently."""
_MOST_BYTES = 1 << 25
"""Most bytes that such a task holds. A larger segment is not copied, because it takes many requests anyway."""
_LEAST_SAVED = 1000
"""Least number of saved requests: a Spark job takes as long as some rounds of requests, and each process makes sixteen
requests concurrently."""


def exchange(progress: BatchProgress, bolts: Sequence[str], executor: Executor, processes: int) -> None:
    """Gathers the sections that were written for the tasks of some bolts and not handed over yet, if that saves
    requests.

    ``processes``: number of processes that run tasks concurrently.
    """
    store = progress.context.store
    if not isinstance(store, FileSegments) or not store.reads_by_request:
        return
    written = _WrittenSections({bolt: progress.written_sections(bolt) for bolt in bolts})
    groups = written.groups(processes)
    if groups:
        sections = written.sections_of(groups)
        items = [written.item(group, chosen) for group, chosen in zip(groups, sections, strict=True)]
        for bolt, parts in written.regroup(sections, executor.map(gather, items, progress.context)).items():
            progress.replace_sections(bolt, parts)


class _WrittenSections:
    """The sections for the tasks of some bolts, as columns: one bolt after another, in order of arrival."""

    def __init__(self, parts: Mapping[str, Sequence[Sections]]) -> None:
        self._parts = parts
        all_parts = [part for bolt_parts in parts.values() for part in bolt_parts]
        segment_indices: dict[str, int] = {}
        segments = [
            np.array([segment_indices.setdefault(name, len(segment_indices)) for name in part.refs.names], np.int64)
            for part in all_parts
        ]
        self._names = list(segment_indices)
        self._segments = _concat(
            [indices[part.refs.segments] for indices, part in zip(segments, all_parts, strict=True)]
        )
        """For each section, the index of its segment's name."""
        self._tasks = _concat([part.tasks for part in all_parts])
        self._extents = np.concatenate([np.empty((0, 4), np.int64), *(part.refs.extents for part in all_parts)])
        counts = [sum(len(part.tasks) for part in bolt_parts) for bolt_parts in parts.values()]
        self._bolts = np.repeat(np.arange(len(counts)), counts)

    def groups(self, processes: int) -> list[NDArray[np.int64]]:
        """Returns groups of segments, as indices, whose sections are worth gathering; empty if that saves too
        little."""
        receiving = [len(np.unique(self._tasks[self._bolts == bolt])) for bolt in range(len(self._parts))]
        readers = min(processes, max(receiving, default=0))
        sizes = np.bincount(self._segments, self._extents[:, 1], len(self._names))
        # A segment at least this large costs each process as many requests as after copying.
        small = np.flatnonzero((sizes > 0) & (sizes <= _MOST_BYTES) & (sizes < readers * PIECE))
        groups = [group for group in _cut_into_groups(small, sizes[small]) if len(group) > 1]
        segment_count = sum(map(len, groups))
        saved = readers * segment_count - (segment_count + len(groups) + readers * len(groups))
        return groups if saved >= _LEAST_SAVED else []

    def sections_of(self, groups: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """Returns, for each group of segments, its sections in their new order: sections for one task of a bolt are
        adjacent, in order of arrival."""
        group_of_segment = np.full(len(self._names), len(groups))
        for number, group in enumerate(groups):
            group_of_segment[group] = number
        section_groups = group_of_segment[self._segments]
        order = np.lexsort((self._tasks, self._bolts, section_groups))
        edges = np.searchsorted(section_groups[order], np.arange(len(groups) + 1)).tolist()
        return [order[start:stop] for start, stop in pairwise(edges)]

    def item(self, group: NDArray[np.int64], chosen: NDArray[np.int64]) -> GatherItem:
        """Returns the work item of a gathering task: sections of these segments."""
        return GatherItem(
            [self._names[segment] for segment in group.tolist()],
            np.searchsorted(group, self._segments[chosen]),
            self._extents[chosen],
        )

    def regroup(
        self, sections: Sequence[NDArray[np.int64]], gathered: Sequence[GatherOutcome]
    ) -> dict[str, list[Sections]]:
        """Returns the new places of all sections, by bolt, after each group has been gathered."""
        names = [each.name for each in gathered] + self._names
        segments, offsets = self._segments + len(gathered), self._extents[:, 0].copy()
        for number, (chosen, outcome) in enumerate(zip(sections, gathered, strict=True)):
            segments[chosen], offsets[chosen] = number, outcome.offsets
        found: dict[str, list[Sections]] = {}
        start = 0
        for bolt, parts in self._parts.items():
            found[bolt] = []
            for part in parts:
                part_range = slice(start, start := start + len(part.tasks))
                found[bolt].append(
                    Sections(part.tasks, part.refs.in_segments(names, segments[part_range], offsets[part_range]))
                )
        return found


def _cut_into_groups(segments: NDArray[np.int64], sizes: NDArray[Any]) -> Iterator[NDArray[np.int64]]:
    """Yields segments, in order, in groups of as many as one task may copy."""
    start, group_size = 0, 0.0
    for index, segment_size in enumerate(sizes.tolist()):
        if index - start == _MOST_SEGMENTS or group_size + segment_size > _MOST_BYTES:
            yield segments[start:index]
            start, group_size = index, 0.0
        group_size += segment_size
    yield segments[start:]


def _concat(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *parts])


# Runs one micro-batch on the driver, for every engine: ingest, tick, fire, compact, sinks, commit, publish.


_ORIGIN_DIGITS = 8
"""Length, in hexadecimal digits, of the id that distinguishes checkpoints."""


class MicroBatch:
    """Runs micro-batches of a topology against a checkpoint, each exactly once."""

    def __init__(
        self,
        topology: Graph,
        checkpoint: Checkpoint,
        executor: Executor,
        engine_sinks: EngineSinks | None = None,
        first_output: FirstOutput | None = None,
    ) -> None:
        """``engine_sinks``: writes to sinks that need Spark or Kafka; None without such sinks. ``first_output``: the
        first output of the run; None for a run that starts with its input."""
        self.topology, self.checkpoint, self.executor = topology, checkpoint, executor
        self.engine_sinks, self.first_output = engine_sinks, first_output
        committed = checkpoint.latest()
        self.manifest = committed or self._new_manifest()
        self.on_phase: Callable[[str], None] = lambda phase: None
        """Called with the name of each phase as it begins; set by the observers of the run (``Observers``)."""
        self.hook: Callable[[str], None] = lambda phase: None
        """Called after ``on_phase`` with the same name. A rehearsal, a replay or a test sets it to raise an exception,
        which simulates a crash."""
        self.tracer: Callable[[str, str, list[dict[str, Any]]], None] | None = None
        """Called before the commit with the key of the batch, a kind of trace (see ``TRACES``) and its rows; None if
        tracing is off."""
        self.on_window_ends: Callable[[Mapping[str, Mapping[int, int]]], None] | None = None
        """Called after the commit with the number of fired windows, by bolt and by end in microseconds; None without
        listeners."""
        self.on_trace_contexts: Callable[[Mapping[str, Mapping[int, Sequence[str]]]], None] | None = None
        """Called after the commit, before ``on_window_ends``, with samples of trace contexts of events in fired
        windows, by bolt and by end of the window; None without listeners."""
        self.on_rejected_events: Callable[[Sequence[RejectedEvent]], None] | None = None
        """Called after the commit with samples of rejected events; None without listeners."""
        self.clean: Callable[[], None] = checkpoint.clean
        """Called when the files of a batch have their final names, to delete files that the batch made superfluous. An
        engine may replace this function, to delete the files while the engine works between two batches."""
        self.run_id = uuid.uuid4().hex
        """Id of this run, new after each start. The plans of batches contain this value, also when a later run repeats
        the batches."""
        self._seen_inputs: set[tuple[str, str]] = set()
        """Bolts and input streams that have had events with times in this run."""
        prepare_sinks(topology, committed, checkpoint)

    def tidy(self) -> None:
        """Deletes files that failed attempts left in the folders of sinks. Called at the end of a run."""
        delete_unpublished_files(self.topology, self.checkpoint.epoch)

    def done(self, batch: int) -> bool:
        """True if the batch with this number is committed."""
        return batch <= self.manifest.batch

    def run(self, plan: BatchPlan, *, query: str | None = None) -> BatchReport:
        """Runs a batch and commits it.

        ``query``: the id of the Spark query, which the manifest records; None without Spark. Returns the report of the
        batch. After an exception nothing of the batch is committed, except in the phase ``publish``: then the next
        ``MicroBatch`` on the checkpoint renames the remaining files.
        """
        key = batch_key(plan.batch, plan.closing)
        phases = Phases(key, self.checkpoint, self._phase_started)
        with phases.during("beginning {}"):
            self.checkpoint.begin(key)
        progress = self._begin(plan, key, query)
        levels = self.topology.levels
        with phases.phase("ingest"):
            self._ingest(progress, plan)
            self._exchange(progress, levels[:1], plan)
        for number, level in enumerate(levels):
            with phases.phase("tick"):
                store = self.checkpoint.segments
                items = [item for node in level for item in tick(progress, node, plan.advance_of(node.name), store)]
            with phases.phase("fire"):
                self._fire(progress, in_shares(self.topology, items, plan.slots))
                self._exchange(progress, levels[number + 1 : number + 2], plan)
            for node in level:
                if plan.advance_of(node.name).close and node.bolt.settings.close_fires:
                    close(node, progress.state.bolts[node.name])
        with phases.phase("compact"):
            compact_segments(self.topology, progress, self.executor)
        progress.check_accounts()
        with phases.phase("sinks"):
            self._serve_sinks(progress, plan)
            self._show_traces(progress)
        with phases.phase("commit"):
            self.checkpoint.commit(progress.state)
        self.manifest = progress.state
        with phases.phase("publish"):
            publish(progress.state)
            self.clean()
        if self.on_trace_contexts is not None:
            self.on_trace_contexts(progress.trace_contexts)
        if self.on_window_ends is not None:
            self.on_window_ends(progress.window_ends)
        if self.on_rejected_events is not None and progress.rejected_events:
            self.on_rejected_events(progress.rejected_events)
        progress.complaints.extend(self._misread_numbers(progress))
        return report(self.topology, progress, plan, phases.end())

    def _misread_numbers(self, progress: BatchProgress) -> Iterator[str]:
        """Yields warnings for inputs whose first events of this run have times that are probably seconds, or days in
        digits."""
        for name, inputs in progress.inputs.items():
            for stream, input_progress in inputs.items():
                if input_progress.latest is not None and (name, stream) not in self._seen_inputs:
                    self._seen_inputs.add((name, stream))
                    if warning := misread_numbers(
                        f"{name}: {stream}", self.topology.windowed[name], input_progress.latest
                    ):
                        yield str(warning)

    def _phase_started(self, phase: str) -> None:
        self.on_phase(phase)
        self.hook(phase)

    def _begin(self, plan: BatchPlan, key: str, query: str | None) -> BatchProgress:
        state, run = Manifest.from_json(self.manifest.to_json()), plan.run or self.run_id
        state.batch, state.closing, state.clock, state.query = plan.batch, plan.closing, plan.advance.clock, query
        state.origin, state.files = state.origin or run[:_ORIGIN_DIGITS], {}
        context = Context(
            topology=self.topology,
            store=self.checkpoint.segments,
            key=key,
            batch=plan.batch,
            clock=plan.advance.clock,
            watermarks={name: bolt.watermark.current for name, bolt in state.bolts.items()},
            tracing=self.tracer is not None,
            notes_window_ends=self.on_window_ends is not None,
            samples_traces=self.on_trace_contexts is not None,
            samples_rejected_events=self.on_rejected_events is not None,
            first_output=self.first_output,
            run=run,
            epoch=self.checkpoint.epoch,
            partitions=plan.partitions,
        )
        return BatchProgress(state, context)

    def _ingest(self, progress: BatchProgress, plan: BatchPlan) -> None:
        context = progress.context
        splits = replace_merged(plan.splits, self.executor, context, plan.slots)
        outputs = self.executor.map(ingest, splits, context)
        for output in outputs if plan.ingest is None else outputs + plan.ingest(context):
            progress.take(output)

    def _exchange(self, progress: BatchProgress, levels: Sequence[Sequence[WindowedNode]], plan: BatchPlan) -> None:
        """Gathers the sections that were written for the next bolts."""
        exchange(progress, [node.name for level in levels for node in level], self.executor, plan.slots)

    def _fire(self, progress: BatchProgress, items: list[FireItem]) -> None:
        for item, outcome in zip(items, self.executor.map(fire, items, progress.context), strict=True):
            progress.take_fired(item, outcome)

    def _serve_sinks(self, progress: BatchProgress, plan: BatchPlan) -> None:
        key = progress.context.key
        after, run = serial_of(self.manifest.batch, self.manifest.closing), progress.context.run
        batch = SinkBatch(
            self.topology.name,
            progress.state.origin,
            key,
            plan.serial,
            after,
            run,
            planned_at=plan.advance.clock,
            again=run != self.run_id,
        )
        if any(cannot_retract(self.topology.sinks[name]) for name in progress.for_sinks):
            self.checkpoint.sync_plans()
        for name, sink_rows in progress.for_sinks.items():
            write_rows(self.topology.sinks[name], batch, sink_rows, self.checkpoint.segments, self.engine_sinks)
        progress.state.files = sync_written_files(self.topology, progress.files)

    def _show_traces(self, progress: BatchProgress) -> None:
        if self.tracer is None:
            return
        for kind, refs in progress.trace_refs.items():
            rows = [row for ref in refs for row in self.checkpoint.segments.read(ref).to_pylist()]
            self.tracer(progress.context.key, kind, rows)

    def _new_manifest(self) -> Manifest:
        bolts = {
            node.name: BoltState(
                Accounts(node.streams), [TaskState(family_of(node).fresh()) for _ in range(node.parallelism)]
            )
            for node in self.topology.windowed.values()
        }
        return Manifest(bolts=bolts)


# Runs micro-batches in this process with the checkpoint in memory, and simulates crashes. For scenarios and tests.


class Crash(Exception):
    """A simulated crash: everything in memory is lost."""


class Rehearsal:
    """Runs micro-batches of a topology. Committed batches survive a simulated crash, as they would in a folder."""

    def __init__(self, topology: Graph, watch: Callable[[MicroBatch], object] = lambda batch: None) -> None:
        """``watch``: called with the ``MicroBatch`` at the start, and with the new one after each crash."""
        self.topology, self.checkpoint, self._watch = topology, MemoryCheckpoint(), watch
        self.micro_batch = self._begin()

    def run(
        self,
        plan: BatchPlan,
        *,
        crash_at: Phase | None = None,
        before: Callable[[MicroBatch], object] = lambda batch: None,
    ) -> BatchReport | None:
        """Runs a batch. With ``crash_at``, everything in memory is lost as that phase begins, and the batch runs again.

        ``before``: called before each attempt. Returns None if the batch had been committed before the crash, so that
        nothing is left to run. After an exception the state is that before the batch.
        """
        try:
            if crash_at is not None:
                before(self.micro_batch)
                self._crash(plan, crash_at)
                self.micro_batch = self._begin()
                if self.micro_batch.done(plan.batch):
                    return None
            before(self.micro_batch)
            return self.micro_batch.run(plan)
        except BaseException:
            self.micro_batch = self._begin()
            raise

    def _begin(self) -> MicroBatch:
        micro_batch = MicroBatch(self.topology, self.checkpoint, InProcessExecutor())
        self._watch(micro_batch)
        return micro_batch

    def _crash(self, plan: BatchPlan, crash_at: Phase) -> None:
        def fail(phase: str) -> None:
            if phase == crash_at:
                raise Crash

        self.micro_batch.hook = fail
        try:
            self.micro_batch.run(plan)
        except Crash:
            return
        raise AssertionError(f"the crash did not happen: no phase {crash_at!r}")
