"""Runs one micro-batch on the driver, on every engine alike: ingest, tick, fire, compact, sinks, commit, publish."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from manager.accounts import Accounts
from manager.storage.batch_keys import batch_key
from manager.storage.checkpoint import Checkpoint
from manager.storage.manifest import BoltState, Manifest
from manager.storage.task_state import TaskState
from topologies.engine.batch.context import Context
from topologies.engine.batch.executor import Executor
from topologies.engine.batch.plan import BatchPlan
from topologies.engine.batch.progress import BatchProgress
from topologies.engine.batch.report import BatchReport
from topologies.engine.commit.frames import Frames, NoSpark
from topologies.engine.commit.handing_over import hand_over, tells_others
from topologies.engine.commit.sink_folders import prepare_folders, publish, ready, tidy_folders
from topologies.engine.compaction import compact_segments
from topologies.engine.exchange import exchange
from topologies.engine.fire.families import family_of
from topologies.engine.ingest.merging import replace_merged
from topologies.engine.phases import Phases
from topologies.engine.reporting import report
from topologies.engine.rows.sink_rows import SinkBatch
from topologies.engine.tasks import fire, ingest
from topologies.engine.ticking.closing import close
from topologies.engine.ticking.shares import in_shares
from topologies.engine.ticking.tick import tick
from topologies.engine.time.epoch_seconds import epoch_seconds
from topologies.engine.time.first_output import FirstOutput
from topologies.engine.work.items import FireItem
from topologies.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from topologies.engine.work.output import TurnedAway
    from topologies.graph.nodes.windowed import WindowedNode

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
        self.on_phase: Callable[[str], None] = lambda phase: None
        """Called with the name of each phase as it begins: set by who watches the run (``Observers``)."""
        self.hook: Callable[[str], None] = lambda phase: None
        """Called after ``on_phase``, with the same name: set by a rehearsal, a replay or a test, which let it raise
        where a run is to crash."""
        self.tracer: Callable[[str, str, list[dict[str, Any]]], None] | None = None
        """Called before the commit with the key of the batch, the kind of trace (see ``TRACES``) and its rows; None
        where tracing is off."""
        self.on_window_ends: Callable[[Mapping[str, Mapping[int, int]]], None] | None = None
        """Called after the commit with the number of windows that have fired, by bolt and by their end in microseconds;
        None where nobody wants to know."""
        self.on_trace_contexts: Callable[[Mapping[str, Mapping[int, Sequence[str]]]], None] | None = None
        """Called after the commit, before ``on_window_ends``, with samples of the trace contexts of the events in
        windows that have fired, by bolt and by the end of the window; None where nobody wants to know."""
        self.on_turned_away: Callable[[Sequence[TurnedAway]], None] | None = None
        """Called after the commit with some of the events that the batch did not admit; None where nobody wants to
        know."""
        self.clean: Callable[[], None] = checkpoint.clean
        """Called when the files of a batch have their names: deletes what the batch has made superfluous. One slot, for
        an engine that has that done while it works on what lies between two batches."""
        self.run_id = uuid.uuid4().hex
        """Id of this run, new after each start. It is written into the plans of batches, and is kept when a later run
        repeats them."""
        self._seen: set[tuple[str, str]] = set()
        """Bolts and their input streams of which events with times have come in this run."""
        prepare_folders(topology, committed, checkpoint.planned, checkpoint.epoch)

    def tidy(self) -> None:
        """Delete the files that failed attempts left in the folders of sinks. Called at the end of a run."""
        tidy_folders(self.topology, self.checkpoint.epoch)

    def done(self, batch: int) -> bool:
        """Whether the batch of this number has been committed."""
        return batch <= self.manifest.batch

    def run(self, plan: BatchPlan, *, query: str | None = None) -> BatchReport:
        """Run a batch and commit it.

        ``query`` is the id of the Spark query, which is noted in the manifest; None without Spark. Returns the report
        of the batch. After an exception nothing of the batch is committed, except in the phase ``publish``: what of it
        has no name yet then gets it from the next ``MicroBatch`` on the checkpoint.
        """
        key = batch_key(plan.batch, plan.closing)
        phases = Phases(key, self.checkpoint, self._begins)
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
        if self.on_turned_away is not None and progress.turned_away:
            self.on_turned_away(progress.turned_away)
        progress.complaints.extend(self._epoch_seconds(progress))
        return report(self.topology, progress, plan, phases.end())

    def _epoch_seconds(self, progress: BatchProgress) -> Iterator[str]:
        """Warnings of inputs whose first events of this run have times that are rather seconds."""
        for name, inputs in progress.inputs.items():
            for stream, shown in inputs.items():
                if shown.latest is not None and (name, stream) not in self._seen:
                    self._seen.add((name, stream))
                    if warning := epoch_seconds(f"{name}: {stream}", self.topology.windowed[name], shown.latest):
                        yield str(warning)

    def _begins(self, phase: str) -> None:
        self.on_phase(phase)
        self.hook(phase)

    def _begin(self, plan: BatchPlan, key: str, query: str | None) -> BatchProgress:
        state, run = Manifest.from_json(self.manifest.to_json()), plan.run or self.run_id
        state.batch, state.closing, state.clock, state.query = plan.batch, plan.closing, plan.advance.clock, query
        state.origin, state.files = state.origin or run[:_ORIGIN], {}
        context = Context(
            topology=self.topology,
            store=self.checkpoint.segments,
            key=key,
            batch=plan.batch,
            clock=plan.advance.clock,
            watermarks={name: bolt.watermark.current for name, bolt in state.bolts.items()},
            traced=self.tracer is not None,
            notes_window_ends=self.on_window_ends is not None,
            samples_traces=self.on_trace_contexts is not None,
            samples_turned_away=self.on_turned_away is not None,
            first=self.first,
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
        """Lay together what was written for the bolts that come next."""
        exchange(progress, [node.name for level in levels for node in level], self.executor, plan.slots)

    def _fire(self, progress: BatchProgress, items: list[FireItem]) -> None:
        for item, outcome in zip(items, self.executor.map(fire, items, progress.context), strict=True):
            progress.take_fired(item, outcome)

    def _serve_sinks(self, progress: BatchProgress, plan: BatchPlan) -> None:
        key = progress.context.key
        batch = SinkBatch(self.topology.name, progress.state.origin, key, plan.serial)
        if any(tells_others(self.topology.sinks[name]) for name in progress.for_sinks):
            self.checkpoint.sync_plans()
        for name, sink_rows in progress.for_sinks.items():
            hand_over(self.topology.sinks[name], batch, sink_rows, self.checkpoint.segments, self.frames)
        progress.state.files = ready(self.topology, progress.files)

    def _show_traces(self, progress: BatchProgress) -> None:
        if self.tracer is None:
            return
        for kind, refs in progress.traced.items():
            rows = [row for ref in refs for row in self.checkpoint.segments.read(ref).to_pylist()]
            self.tracer(progress.context.key, kind, rows)

    def _fresh(self) -> Manifest:
        bolts = {
            node.name: BoltState(
                Accounts(node.streams), [TaskState(family_of(node).fresh()) for _ in range(node.parallelism)]
            )
            for node in self.topology.windowed.values()
        }
        return Manifest(bolts=bolts)
