"""The local runner: a topology in this process, without Java."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain, zip_longest
from typing import cast

from manager.storage.checkpoint import MemoryCheckpoint
from manager.storage.files import during
from topologies.checkpoints.checkpointed_run import CheckpointedRun
from topologies.checkpoints.file_journal import FileJournal, JournalMoved
from topologies.checkpoints.preflight import check_local
from topologies.engine.batch import BatchPlan, InProcess, RunInProcess, TimeAdvance
from topologies.engine.commit import Claims
from topologies.engine.event_times import FirstOutput
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.pulling import Puller
from topologies.engine.source_splits import TableSource, file_splits, refuse_unnameable
from topologies.engine.work import MergedSplits, SourceSplit
from topologies.graph.declarations import with_needed_columns
from topologies.graph.graph import SpoutNode
from topologies.graph.topology import Topology
from topologies.io.file_spout import FileSpout, FoundFile
from topologies.io.pulled import PulledSpout
from topologies.io.spouts import MemorySpout
from topologies.page.site import asked_observers
from topologies.run.attempts import Attempts, Observers, observed
from topologies.run.options import Engine, RunOptions, check_built, closes
from topologies.run.run_metrics import files_behind
from topologies.run.summary import Summary, advice_on
from windowing.calls import checked_value


@checked_value
def run_local(topology: Topology, options: RunOptions | None = None) -> Summary:
    """Run a topology in this process.

    With a checkpoint a run continues where the one before it stopped, whichever engine that was on. Without one it is
    over the input that is there now, and its state is gone afterwards.

    Raises CheckpointError for a checkpoint that does not fit. Raises ConfigError for what only Spark can do: a spout
    that is a Spark DataFrame, a sink whose function asks for one, Kafka. Raises it also for a file spout whose folder
    is missing or on another machine, and for ``every`` without a checkpoint.
    """
    check_built("run_local", topology)
    options = options or RunOptions()
    check_local(topology, options)

    def run(options: RunOptions, observers: Observers, attempts: Attempts) -> Summary:
        if options.checkpoint is not None:
            with LocalRun(topology, options, observers, attempts) as on_checkpoint:
                return on_checkpoint.run()
        refuse_unnameable(topology)
        claims = Claims(topology)
        claims.take()
        try:
            return _run(topology, options, observers)
        finally:
            claims.release()

    return observed(options, asked_observers(topology, options), run)


class LocalRun(CheckpointedRun):
    """One run of a topology on a checkpoint, in this process."""

    engine = Engine.LOCAL

    def _begin(self, held: ExitStack) -> None:
        self.executor = RunInProcess()

    def _frames(self) -> None:
        return None

    def _open_source(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        # Spark knows the sources of a checkpoint by their places; these are their names in order (spark/source.py).
        self.spouts = {
            name: cast("FileSpout", self.topology.spouts[name].spout) for name in sorted(self.topology.spouts)
        }
        for name, spout in self.spouts.items():
            self.watch(name, spout)
        return tuple(self.spouts), ()

    def _batches(self) -> None:
        while True:
            try:
                return self._batches_of_the_journal()
            except JournalMoved:  # by a run that has lost the checkpoint to this one, or to which this one has lost it
                self.checkpoint.check_owner()

    def _batches_of_the_journal(self) -> None:
        heartbeats = self.topology.needs_heartbeat
        journal = FileJournal(self.halves.spark_half, list(self.spouts), heartbeats=heartbeats, uri=self.halves.uri)
        self.journal, self.files_read = journal, journal.seen
        if journal.unfinished is not None and not self.options.stop.is_set():
            self._run_and_note(journal.unfinished)
        if self.options.interval is not None:
            return self._at_every_trigger(self.options.interval.micros / 1e6)
        cut, number = self._new_files(), -1
        for number, found in enumerate(zip_longest(*cut.values(), fillvalue=[])):
            if self.options.stop.is_set():
                return None
            self._run_and_note(self._plan_next(dict(zip(cut, found, strict=True)), heartbeat=number == 0))
        if number < 0 and heartbeats and not self.options.stop.is_set():
            self._run_and_note(self._plan_next({}, heartbeat=True))

    def _at_every_trigger(self, every: float) -> None:
        """A batch of what is new so often, until stopped."""
        started, heartbeats = time.perf_counter(), self.topology.needs_heartbeat
        while not self.options.stop.is_set():
            found = {name: next(batches, []) for name, batches in self._new_files().items()}
            if heartbeats or self.journal.begun or any(found.values()):
                self._run_and_note(self._plan_next(found, heartbeat=True))
            self.options.stop.wait(every - (time.perf_counter() - started) % every)

    def _new_files(self) -> dict[str, Iterator[list[FoundFile]]]:
        """By spout, the files that no batch has read yet, cut into batches. None for the first batch of a spout whose
        part of it is in the journal already."""
        seen = self.journal.seen
        cut = {name: spout.cut(self.watched[name].new(seen[name])) for name, spout in self.spouts.items()}
        nothing: list[list[FoundFile]] = [[]]
        begun = self.journal.begun
        return {name: chain(nothing if name in begun else [], batches) for name, batches in cut.items()}

    def _run_and_note(self, number: int) -> None:
        """Run a batch, and note in the journal that it is done."""
        self.batch(number)
        with during(f"noting that batch {number} is done", f"batch {number} is committed, and nothing is lost"):
            self.journal.commit(number)

    def _plan_next(self, found: Mapping[str, Sequence[FoundFile]], *, heartbeat: bool) -> int:
        """Plan the next batch in the journal; returns its number."""
        with during("planning the next batch", "it was not begun, and nothing is lost"):
            number = self.journal.plan(found, self._now(), heartbeat=heartbeat)
            self.checkpoint.check_owner()
            return number


def _run(topology: Topology, options: RunOptions, observers: Observers) -> Summary:
    summary, started = Summary(), time.perf_counter()
    topology = with_needed_columns(topology)
    first = FirstOutput.of(topology, options.first_output_at)
    micro_batch = MicroBatch(topology, MemoryCheckpoint(), InProcess(), first=first)
    options.on_begin(summary.before)
    read: dict[str, set[str]] = {name: set() for name in topology.spouts}
    observers.begin(micro_batch, lambda: files_behind(topology, read))
    clock, number = options.clock(), -1

    def run(plan: BatchPlan) -> None:
        report = micro_batch.run(plan)
        summary.note(report)
        observers.report(report)
        options.on_report(report)

    with ExitStack() as held:
        for number, splits in enumerate(_batches(topology, read, first, held)):
            if options.stop.is_set():
                break
            clock = max(clock, options.clock())
            run(BatchPlan(number, TimeAdvance(clock), splits))
    if closes(summary, options):
        run(BatchPlan(number, TimeAdvance(clock, close=True), closing=True))
    summary.seconds = time.perf_counter() - started
    summary.advice = advice_on(topology, summary.work)
    return summary


def _batches(
    topology: Topology, read: Mapping[str, set[str]], first: FirstOutput | None, held: ExitStack
) -> Iterator[list[SourceSplit | MergedSplits]]:
    """The splits of each batch; ``read`` gets the files that belong to one, by spout, and ``held`` what is to be closed
    at the end."""
    sources = [_of_spout(topology, node, read[node.name], first, held) for node in topology.spouts.values()]
    for found in zip_longest(*sources, fillvalue=()):
        yield [split for splits in found for split in splits]


def _of_spout(
    topology: Topology, node: SpoutNode, read: set[str], first_output: FirstOutput | None, held: ExitStack
) -> Iterator[Sequence[SourceSplit | MergedSplits]]:
    match node.spout:
        case MemorySpout() as spout:
            first = 0
            for table in spout.tables():
                yield [TableSource(node.name, table, first)]
                first += table.num_rows
        case PulledSpout() as spout:
            puller, first = Puller(node.name, spout), 0
            held.callback(puller.close)
            while (pulled := puller.pull()) is not None:
                yield [TableSource(node.name, pulled.rows, first)]
                first += pulled.rows.num_rows
        case FileSpout() as spout:
            for found in spout.batches():
                read.update(found)
                yield file_splits(topology, [(node.name, path) for path in found], 1, first=first_output)
        case spout:
            raise AssertionError(f"{node.name!r} is {type(spout).__name__}, which is refused before a run")
