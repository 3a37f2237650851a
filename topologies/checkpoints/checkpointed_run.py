"""A run on a checkpoint, whoever cuts its batches and runs their tasks."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar, Self

from manager.storage.batch_keys import batch_in_words, batch_key
from manager.storage.checkpoint import FileCheckpoint
from manager.storage.file_systems.files import sync_folders_below
from manager.storage.file_systems.storage_errors import during
from topologies.checkpoints.claiming import telling_who_took_over
from topologies.checkpoints.memory import as_files
from topologies.checkpoints.moved_input import follow_moved_input
from topologies.checkpoints.notes.runs_note import RunNote, noted_run
from topologies.checkpoints.opening import open_checkpoint
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.pulled_files import PulledFiles
from topologies.checkpoints.rescaling.rescale import rescale_for
from topologies.checkpoints.spark_half.source_log import Partitions, SourceLog
from topologies.checkpoints.topology_fit.adding_columns import add_columns
from topologies.checkpoints.unfinished import check_beginning_complete
from topologies.checkpoints.way_back import naming_a_way_back
from topologies.compose.needed_columns import with_needed_columns
from topologies.engine.batch.context import Context
from topologies.engine.batch.executor import RunExecutor
from topologies.engine.batch.plan import BatchPlan, TimeAdvance
from topologies.engine.batch.report import BatchReport
from topologies.engine.commit.claims import Claims
from topologies.engine.commit.frames import Frames
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.time.first_output import FirstOutput
from topologies.engine.work.output import Output
from topologies.io.file_spout import FileSpout
from topologies.io.pulled import PulledRows, PulledSpout
from topologies.io.watched_files import WatchedFiles
from topologies.metrics.source_lag import files_behind
from topologies.run.advice import advice_on
from topologies.run.attempts import Attempts
from topologies.run.bolt_totals import BoltTotals
from topologies.run.clock import system_clock
from topologies.run.closes_at_end import closes
from topologies.run.engine import Engine
from topologies.run.observer import NOBODY, Observers, SourceLag
from topologies.run.options import RunOptions
from topologies.run.summary import Summary
from topologies.sources.deaths import Death
from topologies.sources.splits import file_splits
from topologies.sources.unnameable import refuse_unnameable, unnameable
from topologies.topology import Topology

IngestRows = Callable[[int, Mapping[str, Partitions]], Callable[[Context], list[Output]] | None]
"""What ingests the rows of a batch that are in no files: by the number of splits, and the partitions that there are."""


class CheckpointedRun(ABC):
    """One run of a topology on a checkpoint. The engines differ in who cuts batches, and who runs their tasks.

    Entered, it keeps other runs off its checkpoint and its sinks, and opens them: ``with LocalRun(...) as run:
    run.run()``. What an engine brings along is asked for then, once each: ``_begin``, ``_frames``, ``_open_source``.
    """

    engine: ClassVar[Engine]
    executor: RunExecutor
    topology: Topology
    checkpoint: FileCheckpoint
    micro_batch: MicroBatch
    log: SourceLog

    def __init__(
        self,
        topology: Topology,
        options: RunOptions,
        observers: Observers = NOBODY,
        attempts: Attempts | None = None,
    ) -> None:
        """Raises CheckpointError where the place of the checkpoint cannot be reached. Nothing is locked or read yet."""
        assert options.checkpoint is not None
        self.given, self.options, self.observers = topology, options, observers
        self.attempts = attempts or Attempts()
        self.halves = PairedCheckpoint(options.checkpoint)
        self.claims = Claims(topology)
        self.summary = Summary()
        self.watched: dict[str, WatchedFiles] = {}
        """The spouts of files."""
        self.files_read: Mapping[str, Container[str]] = {}
        """Per spout, the files that belong to a batch, by their absolute paths; for observers."""
        self.passed_over: set[str] = set()
        """The files that are not read for their names, and that have been named."""

    def __enter__(self) -> Self:
        """Raises CheckpointError or ConfigError where another run has the checkpoint or a sink's folder, and where the
        checkpoint does not fit; nothing is kept from others then."""
        with ExitStack() as held, during("the start of the run", "nothing is lost"):
            self._hold(held)
            with naming_a_way_back(self.halves):
                self._open()
            self._held = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End the tasks, and let other runs have the sinks and the checkpoint."""
        self._held.close()

    def _hold(self, held: ExitStack) -> None:
        """Keep other runs off; tasks end before what they write to is let go."""
        self.halves.lock.take()
        held.callback(self.halves.lock.release)
        held.callback(self.claims.release)
        self._begin(held)
        held.callback(self.executor.close)
        held.callback(self._close_spouts)
        refuse_unnameable(self.given)
        self.claims.take()

    def _open(self) -> None:
        check_beginning_complete(self.halves)
        if self.options.allow_rescale:
            self.summary.rescaled = rescale_for(self.halves, self.given, self.attempts)
        added = add_columns(self.halves, self.given, self.options.first_output_at, self.attempts)
        self.summary.new_columns = {name: list(columns) for name, columns in added.items()}
        self.summary.new_column_defaults = {
            name: {column: default for column, default in columns.items() if default is not None}
            for name, columns in added.items()
        }
        opened = open_checkpoint(
            self.halves, self.given, self.options.first_output_at, self.options.keep_batches, self.attempts
        )
        self.checkpoint = opened.files
        with telling_who_took_over(self.checkpoint):
            self._follow_moved_input()
            self._load(opened.first_output)
            self._open_log()

    def _follow_moved_input(self) -> None:
        moved = follow_moved_input(self.halves, self.given, self.checkpoint.check_owner)
        self.summary.complaints += [
            f"spout {name!r}: runs were started in {before}, and this one in {now}; its files are known, and are not "
            "read again"
            for name, (before, now) in moved.items()
        ]

    def _load(self, first_output: int | None) -> None:
        """The tasks get the topology, and the micro-batch the state after the last batch."""
        if self.halves.uri is None:
            sync_folders_below(self.halves.root)
        self.topology = self._in_this_run(as_files(with_needed_columns(self.given), self.halves.path))
        self.executor.load(self.topology)
        first = FirstOutput.of(self.topology, first_output)
        self.micro_batch = MicroBatch(self.topology, self.checkpoint, self.executor, self._frames(), first)
        self.summary.before = {
            name: BoltTotals(bolt.accounts.totals(0), bolt.fired, bolt.emitted)
            for name, bolt in self.micro_batch.manifest.bolts.items()
            if self.micro_batch.manifest.batch >= 0 or self.micro_batch.manifest.spouts
        }

    def _in_this_run(self, topology: Topology) -> Topology:
        """The topology as this run has it: of what is given, with the columns that are needed."""
        return topology

    def _open_log(self) -> None:
        """What belongs to which batch, without what a run that died has left half written."""
        half = self.halves.spark_half
        self.log = SourceLog(half.filesystem, half.root, *self._open_source())
        half.sweep()  # Spark begins no query beside the draft of a first batch

    def watch(self, name: str, spout: FileSpout) -> WatchedFiles:
        """What lists the files of a spout; of one that the user has written, what pulls its rows too."""
        source = self.given.spouts[name].spout
        if isinstance(spout, PulledRows) and isinstance(source, PulledSpout):
            keep, check_owner = self.checkpoint.keep, self.checkpoint.check_owner
            self.watched[name] = PulledFiles(name, spout, source, self.halves, keep, check_owner)
        else:
            self.watched[name] = WatchedFiles(name, spout)
        return self.watched[name]

    def _close_spouts(self) -> None:
        with ExitStack() as closing:
            for watched in self.watched.values():
                closing.callback(watched.close)

    @abstractmethod
    def _begin(self, held: ExitStack) -> None:
        """Called when the checkpoint is locked, and nothing is read yet: set ``executor``. What ``held`` is given is
        closed after the executor, which it is not given."""

    @abstractmethod
    def _frames(self) -> Frames | None:
        """Called when the checkpoint is open: what Spark does for sinks; None where there is no Spark."""

    @abstractmethod
    def _open_source(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Called when ``topology`` and ``checkpoint`` are set: get ready to read. Returns the spouts of files and those
        of Kafka, in the order of the sources of the query."""

    @abstractmethod
    def _batches(self) -> None:
        """Called by ``run``: call ``batch`` for each batch, to the end of the input or until stopped."""

    def run(self) -> Summary:
        """Run to the end of the input, or until stopped."""
        going_on = during("the run", "the next run continues after the last batch that was committed")
        with naming_a_way_back(self.halves), going_on, telling_who_took_over(self.checkpoint):
            return self._run_to_the_end()

    def _run_to_the_end(self) -> Summary:
        started, run, last = time.perf_counter(), self.micro_batch.run_id, self.micro_batch.manifest.batch
        began = RunNote(run=run, engine=self.engine, began=system_clock(), continues=None if last < 0 else last)
        try:
            with noted_run(self.halves.files, began, self.summary, self.attempts):
                self._all_batches()
        finally:
            self.summary.seconds = time.perf_counter() - started
        self.summary.advice = advice_on(self.topology, self.summary.work, kept=True)
        return self.summary

    def _all_batches(self) -> None:
        self.options.on_begin(self.summary.before)
        self.observers.begin(self.micro_batch, self._lag)
        if self.micro_batch.manifest.batch >= 0:
            self._acknowledge(self.log.files(self.micro_batch.manifest.batch))
        self._finish_closing()
        self._batches()
        if closes(self.summary, self.options):
            self._close()
        self.micro_batch.tidy()
        self.checkpoint.tidy()
        for watched in self.watched.values():
            watched.look()
        self.summary.complaints += self._remarks()

    def batch(self, number: int, rows: IngestRows = lambda slots, there: None) -> None:
        """Run a batch whose files are noted in the log; as it was planned, if it was not committed then."""
        if self.micro_batch.done(number):
            return
        key = batch_key(number, False)
        drafted: dict[str, Any] = {"clock": self._now(), "slots": self.executor.slots, "run": self.micro_batch.run_id}
        order, there = list(self.topology.spouts), self.log.partitions(number)
        drafted["files"] = sorted(self.log.files(number), key=lambda found: order.index(found[0]))
        drafted["partitions"] = {spout: list(partitions.names) for spout, partitions in there.items()}
        plan = self._planned(key, drafted)
        found = [(spout, self._now_at(spout, path)) for spout, path in plan["files"]]
        slots, advance = plan["slots"], TimeAdvance(plan["clock"])
        partitions = {spout: tuple(names) for spout, names in plan["partitions"].items()}
        ingest = rows(slots, there)

        def plan_without(deaths: Sequence[Death]) -> BatchPlan:
            read = file_splits(self.topology, found, slots, deaths, self.micro_batch.first)
            return BatchPlan(number, advance, read, ingest, run=plan["run"], slots=slots, partitions=partitions)

        self._survive(key, plan_without)
        self._acknowledge(found)

    def _now_at(self, spout: str, path: str) -> str:
        of_spout = self.topology.spouts[spout].spout
        return of_spout.now(path) if isinstance(of_spout, PulledRows) else path

    def _acknowledge(self, found: Sequence[tuple[str, str]]) -> None:
        """A batch with these files, by spout, is committed."""
        for name, watched in self.watched.items():
            watched.acknowledge([path for spout, path in found if spout == name])

    def _planned(self, key: str, drafted: dict[str, Any]) -> dict[str, Any]:
        """What a batch is, as it was planned first.

        A run that has lost the checkpoint may have planned it, with other files than the source's log has by now, or at
        a time before the last batch: that plan is obsolete.
        """
        batch = batch_in_words(key)
        with during(f"planning {batch}", self.checkpoint.after_failure(batch)):
            plan, is_new = self.checkpoint.plan(key, drafted)
            stale = _files(plan) != _files(drafted) or plan["clock"] < (
                self.micro_batch.manifest.clock or plan["clock"]
            )
            others = not is_new and self.checkpoint.epoch and stale
            return drafted if others and self.checkpoint.replan(key, drafted) else plan

    def _survive(self, key: str, plan: Callable[[Sequence[Death]], BatchPlan]) -> None:
        """Run a batch without what of its input workers have died on."""
        self._run(plan([Death.from_json(found) for found in self.checkpoint.deadly(key)]))

    def _close(self) -> None:
        """The closing tick: fire what is open. It has a number of its own, so that it too happens once."""
        before = self.micro_batch.manifest
        if before.closing:
            return
        drafted = {"clock": self._now(), "run": self.micro_batch.run_id}
        plan = self._planned(batch_key(before.batch, True), drafted)
        advance = TimeAdvance(plan["clock"], close=True)
        self._run(BatchPlan(before.batch, advance, closing=True, run=plan.get("run", "")))

    def _finish_closing(self) -> None:
        """A run that died while it was closing is closed first: some of its output may be out already."""
        before = self.micro_batch.manifest
        if not before.closing and self.checkpoint.planned(batch_key(before.batch, True)):
            self._close()

    def _run(self, plan: BatchPlan) -> None:
        query = self.halves.spark_half.query()
        report = self.micro_batch.run(plan, query=query)
        if self.options.every is not None:
            report.complaints.extend(self._remarks())
        self._note(query, report)
        self.summary.note(report)
        self.observers.report(report)
        self.options.on_report(report)

    def _note(self, query: str | None, report: BatchReport) -> None:  # noqa: B027 - most have nobody else to tell
        """Tell whoever else wants to know of a batch."""

    def _lag(self) -> list[SourceLag]:
        """How far the spouts of files on this machine are behind; called from any thread."""
        return files_behind(self.topology, self.files_read)

    def _remarks(self) -> list[str]:
        """What is to be said of files, each once: their names cannot be read, or they were changed after they were."""
        told = self._passed_over()
        for name, watched in self.watched.items():
            changed = watched.take()
            self.summary.changed_files += len(changed)
            if changed:
                self.observers.changed_files(name, changed)
            told += [
                f"{path}: changed after it was read, and not read again; write new rows to new files"
                for path in changed
            ]
        return told

    def _passed_over(self) -> list[str]:
        """What is to be said of files that have come since and whose names cannot be read: each is named once."""
        found = {path for node in self.topology.spouts.values() for path in unnameable(node.spout)}
        new, self.passed_over = sorted(found - self.passed_over), self.passed_over | found
        return [f"{path}: not read, since its name is no UTF-8; rename it" for path in new]

    def _now(self) -> int:
        """The clock, which never goes back, not even where the machine's does."""
        before = self.micro_batch.manifest.clock
        now = self.options.clock()
        return now if before is None else max(now, before)


def _files(plan: Mapping[str, Any]) -> list[list[str]]:
    return [list(found) for found in plan.get("files", ())]
