"""Runs one micro-batch on the driver, on every engine alike: ingest, tick, fire, compact, sinks, commit."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from manager.accounts import SKIPPED, Accounts
from manager.queue.queue_state import QueueState
from manager.storage.checkpoint import Checkpoint, batch_key, named_step
from manager.storage.manifest import BoltState, Manifest
from manager.storage.segments import Ref
from manager.storage.task_state import TaskState, TriggeredState
from manager.storage.trouble import during
from policies.marks import NONE
from policies.trigger import TimeTriggerPolicy
from topologies.engine.batch.plan import BatchPlan, CompactItem, Context, Executor, FireItem, FireOutcome, TimeAdvance
from topologies.engine.batch.progress import BatchProgress
from topologies.engine.batch.report import BatchReport, BoltReport
from topologies.engine.commit.delivering import (
    Frames,
    NoSpark,
    SinkBatch,
    hand_over,
    prepare_folders,
    publish,
    tidy_folders,
)
from topologies.engine.fire.kinds import kind_of
from topologies.engine.ingest.merging import replace_merged
from topologies.engine.tasks import compact, fire, ingest
from topologies.engine.ticking import deferred_tick, has_work, inherit_watermarks, ticked
from topologies.engine.time.behind import watermark_delay
from topologies.engine.time.first_output import FirstOutput
from topologies.graph.model import Topology, WindowedNode
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from collections.abc import Callable

_FANOUT = 8
"""Number of adjacent segments of one level that are compacted into one segment of the next level. It bounds the
segments of a task, and how often a row is copied."""


_DOING = {
    "ingest": "reading the input of {}",
    "tick": "moving time on in {}",
    "fire": "firing the windows of {}",
    "compact": "joining segments in {}",
    "sinks": "bringing {} to its sinks",
    "commit": "committing {}",
}
"""By phase, what windbolt is doing then with a step."""
_ORIGIN = 8
"""Length, in hexadecimal digits, of the id that distinguishes a checkpoint from others."""


class MicroBatch:
    """Runs micro-batches of a topology against a checkpoint, each exactly once."""

    def __init__(
        self,
        topology: Topology,
        checkpoint: Checkpoint,
        executor: Executor,
        frames: Frames | None = None,
        first: FirstOutput | None = None,
    ) -> None:
        """``frames`` serves the sinks that need Spark; None where there is no Spark. ``first`` is the first output of
        the run; None for a run that starts with its input."""
        self.topology, self.checkpoint, self.executor = topology, checkpoint, executor
        self.frames, self.first = frames or NoSpark(), first
        committed = checkpoint.latest()
        self.manifest = committed or self._fresh()
        self.hook: Callable[[str], None] = lambda phase: None
        """Called with the name of each phase as it begins; tests let it raise."""
        self.tracer: Callable[[str, str, list[dict[str, Any]]], None] | None = None
        """Called before the commit with the key of the batch, the kind of trace (see ``TRACES``) and its rows; None
        where tracing is off."""
        self._seconds: dict[str, float] = {}
        self._key = ""
        """The step in hand."""
        self.run_id = uuid.uuid4().hex
        """Id of this run, new after each start. It is written into the plans of batches, and is kept when a later run
        repeats them."""
        last = None if committed is None else batch_key(committed.batch, committed.closing)
        prepare_folders(topology, last, checkpoint.planned)

    def tidy(self) -> None:
        """Delete the files that failed attempts left in the folders of sinks. Called at the end of a run."""
        tidy_folders(self.topology)

    def done(self, batch: int) -> bool:
        """Whether the batch of this number has been committed."""
        return batch <= self.manifest.batch

    def run(self, plan: BatchPlan, *, again: bool = True, query: str | None = None) -> BatchReport:
        """Run a batch and commit it.

        ``again`` is whether an earlier attempt at the batch may have left files in the folders of sinks. ``query`` is
        the id of the Spark query, which is noted in the manifest; None without Spark. Returns the report of the batch.
        After an exception nothing of the batch is committed.
        """
        self._seconds = {}
        started = time.perf_counter()
        key = self._key = batch_key(plan.batch, plan.closing)
        with self._during("beginning {}"):
            self.checkpoint.begin(key)
        state = Manifest.from_json(self.manifest.to_json())
        state.batch, state.closing, state.clock, state.query = plan.batch, plan.closing, plan.advance.clock, query
        state.origin = state.origin or (plan.run or self.run_id)[:_ORIGIN]
        watermarks = {name: bolt.watermark.emitted for name, bolt in state.bolts.items()}
        context = Context(
            self.topology, self.checkpoint.segments, key, key, plan.batch, plan.advance.clock, watermarks,
            self.tracer is not None, self.first, plan.run or self.run_id, plan.partitions,
        )  # fmt: skip
        progress = BatchProgress(state, context)
        with self._phase("ingest"):
            splits = replace_merged(plan.splits, self.executor, context, plan.slots)
            outputs = self.executor.map(ingest, splits, context)
            for output in outputs if plan.ingest is None else outputs + plan.ingest(context):
                progress.take(output)
        for level in self.topology.levels:
            with self._phase("tick"):
                items = [item for node in level for item in self._tick(progress, node, plan.advance_of(node.name))]
            with self._phase("fire"):
                for item, fired in zip(items, self.executor.map(fire, items, context), strict=True):
                    self._fired(progress, item, fired)
            for node in level:
                if plan.advance_of(node.name).close and node.bolt.settings.close_fires:
                    self._close(progress, node)
        with self._phase("compact"):
            self._compact(progress)
        for node in self.topology.windowed.values():
            bolt = state.bolts[node.name]
            bolt.accounts.check(bolt.pending, node.name)
        with self._phase("sinks"):
            for name, sink_rows in progress.for_sinks.items():
                batch = SinkBatch(self.topology.name, state.origin, key, plan.step)
                hand_over(self.topology.sinks[name], batch, sink_rows, self.checkpoint.segments, self.frames)
            publish(self.topology, key, progress.files, again=again)
            if self.tracer is not None:
                for kind, refs in progress.traced.items():
                    rows = [row for ref in refs for row in self.checkpoint.segments.read(ref).to_pylist()]
                    self.tracer(key, kind, rows)
        with self._phase("commit"):
            self.checkpoint.commit(state)
        self.manifest = state
        self.hook("committed")
        self._seconds["total"] = time.perf_counter() - started
        return self._report(progress, plan)

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        self.hook(name)
        started = time.perf_counter()
        with self._during(_DOING[name]):
            yield
        self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - started

    def _during(self, doing: str) -> AbstractContextManager[None]:
        """Where a file cannot be written or read: in which batch that was, and that it runs again."""
        step = named_step(self._key)
        return during(doing.format(step), self.checkpoint.after_failure(step))

    def _fresh(self) -> Manifest:
        bolts = {
            node.name: BoltState(
                Accounts(node.streams), [TaskState(kind_of(node).fresh()) for _ in range(node.parallelism)]
            )
            for node in self.topology.windowed.values()
        }
        return Manifest(bolts=bolts)

    def _tick(self, progress: BatchProgress, node: WindowedNode, advance: TimeAdvance) -> Iterable[FireItem]:
        """Advance the watermark or clock of a bolt; yield the tasks that may have a window due."""
        bolt = progress.state.bolts[node.name]
        if node.deferred:
            yield from deferred_tick(progress, node, advance, self.checkpoint.segments)
            return
        if node.event_time:
            inherit_watermarks(self.topology, progress.state, node, bolt)
            frontier = ticked(node, bolt, advance)
            if frontier is not None:
                progress.emitted[node.name] = frontier
        else:
            frontier = node.trigger.frontier(advance.clock, None)
        if advance.close and node.bolt.settings.close_fires:
            frontier = FOREVER
        if frontier is None or (bolt.frontier is not None and frontier < bolt.frontier):
            return
        for number, task in enumerate(bolt.tasks):
            if has_work(node, task, (), bolt.frontier, frontier):
                yield FireItem(node.name, number, task, frontier, bolt.frontier)
        if frontier != FOREVER:
            bolt.frontier = frontier

    def _fired(self, progress: BatchProgress, item: FireItem, fired: FireOutcome) -> None:
        progress.state.bolts[item.bolt].tasks[item.task] = fired.state
        progress.windows[item.bolt] = progress.windows.get(item.bolt, 0) + fired.windows
        progress.take(fired.output, f"{item.bolt}.{item.task}")

    @staticmethod
    def _close(progress: BatchProgress, node: WindowedNode) -> None:
        """Set the frontier of a bolt, after its streams have ended, to the end of its last window, so that a later run
        continues there."""
        bolt = progress.state.bolts[node.name]
        if node.bolt.settings.key_trigger is not None:
            return  # its windows fired before their time; the frontier has not moved
        fired = [task.last_end for task in bolt.tasks]
        over = [node.trigger.over_at(reference) for reference in fired if reference is not None]
        known = [bolt.frontier, *bolt.watermark.latest.values(), *over]
        reached = max((moment for moment in known if moment is not None), default=None)
        bolt.frontier = reached
        if node.event_time:
            before = bolt.watermark.emitted
            bolt.watermark.emitted = reached if before is None or reached is None else max(before, reached)
            if node.deferred and reached is not None:
                bolt.watermark.forced = reached

    def _compact(self, progress: BatchProgress) -> None:
        """Compact small segments, so that a task has few of them however long its windows are."""
        items: list[tuple[CompactItem, int]] = []
        for node in self.topology.windowed.values():
            for number, task in enumerate(progress.state.bolts[node.name].tasks):
                run = _run_of_one_level(task.refs)
                if run is not None:
                    refs = task.refs[run.start : run.stop]
                    passed = task.windows.passed if isinstance(task.windows, QueueState) else None
                    items.append((CompactItem(node.name, number, refs, passed), run.start))
        if not items:
            return
        joined = self.executor.map(compact, [item for item, _ in items], progress.context)
        for (item, start), ref in zip(items, joined, strict=True):
            task = progress.state.bolts[item.bolt].tasks[item.task]
            task.refs[start : start + len(item.refs)] = [ref]

    def _report(self, progress: BatchProgress, plan: BatchPlan) -> BatchReport:
        return BatchReport(
            plan.batch,
            plan.closing,
            plan.advance.clock,
            progress.rows,
            dict(self._seconds),
            {
                name: _bolt_report(
                    node,
                    progress.state.bolts[name],
                    progress.emitted.get(name),
                    progress.windows.get(name, 0),
                    plan.advance_of(name).clock,
                )
                for name, node in self.topology.windowed.items()
            },
            {name: dict(counts) for name, counts in progress.state.spouts.items()},
            progress.complaints,
            None if self.first is None else self.first.time,
            None if self.first is None else self.first.read_from,
        )


def _run_of_one_level(refs: Sequence[Ref]) -> range | None:
    """The first run of adjacent references of one level that is long enough to be compacted; None where there is
    none."""
    start = 0
    for index in range(1, len(refs) + 1):
        if index == len(refs) or refs[index].level != refs[start].level:
            if index - start >= _FANOUT:
                return range(start, index)
            start = index
    return None


def _bolt_report(node: WindowedNode, bolt: BoltState, emitted: int | None, windows: int, clock: int) -> BoltReport:
    watermark = bolt.watermark.emitted if node.event_time else None
    seen = [mark.latest for mark in bolt.watermark.sources.values() if mark.latest > NONE]
    latest = max([*bolt.watermark.latest.values(), *seen], default=None)
    behind = None if watermark is None or latest is None else max(latest - watermark, 0)
    pending = sum(bolt.pending)
    accounts = bolt.accounts.totals(pending)
    streams = bolt.accounts.of_streams(bolt.pending)
    return BoltReport(
        watermark, emitted, behind, windows, bolt.fired, _open(node, bolt), accounts, streams,
        bolt.accounts.metrics(), watermark_delay(node, bolt, clock), bolt.accounts[SKIPPED], bolt.suppressed,
        bolt.emitted, bolt.counters,
    )  # fmt: skip


def _open(node: WindowedNode, bolt: BoltState) -> int:
    """Upper bound on the number of windows that hold pending events, estimated from the times of the segments alone."""
    if node.bolt.settings.key_trigger is not None:
        return sum(task.windows.open_windows for task in bolt.tasks if isinstance(task.windows, TriggeredState))
    streams = len(node.inputs)
    waiting = [task for task in bolt.tasks if sum(task.pending(streams)) > sum(task.waiting_edges)]
    trigger, reach = node.trigger, node.eviction.reach
    if not isinstance(trigger, TimeTriggerPolicy) or reach is None:
        return len(waiting)
    total = 0
    for task in waiting:
        low = min(ref.earliest for ref in task.refs)
        if bolt.frontier is not None:
            low = max(low, bolt.frontier)
        high = max(ref.latest for ref in task.refs) + reach.micros
        total += max((trigger.last_passed(high) - trigger.last_passed(low)) // trigger.slide.micros, 0)
    return total
