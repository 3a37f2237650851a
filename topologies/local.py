"""The local runner: a topology in this process, without Java."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Any

import pyarrow as pa

from manager.storage.checkpoint import MemoryCheckpoint
from manager.storage.files import storage_errors_during
from manager.storage.segments import Ref, SegmentStore
from topologies.checkpoints.checkpointed_run import CheckpointedRun, ReadTopics
from topologies.checkpoints.file_journal import FileJournal, JournalMoved
from topologies.checkpoints.preflight import check_local, register_and_check_schemas
from topologies.checkpoints.spark_checkpoint import Partitions, SourceLog
from topologies.engine.batch import BatchPlan, Context, InProcessExecutor, InProcessRunExecutor, TimeAdvance
from topologies.engine.commit import EngineSinks, SinkLocks, no_catalog
from topologies.engine.event_times import FirstOutput
from topologies.engine.kafka_records import (
    OffsetRange,
    Records,
    check_sinks,
    check_topics,
    ingest_records,
    ranges_between,
)
from topologies.engine.librdkafka import Admins, EndOffsets, RangeReader, Senders, Topics
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.pulling import Puller, RangePlanner, range_splits, ranges_in
from topologies.engine.source_splits import TableSource, file_splits, refuse_undecodable_names
from topologies.engine.task_data import MergedSplits, SinkBatch, SinkRows, SourceSplit, TaskOutput
from topologies.graph.declarations import with_needed_columns
from topologies.graph.graph import Graph, SinkNode, SpoutNode
from topologies.io.file_spout import FileSpout, FoundFile
from topologies.io.kafka import KafkaSpout
from topologies.io.pulled import PulledSpout, RangedSpout
from topologies.io.spouts import MemorySpout
from topologies.page.site import asked_observers
from topologies.run.attempts import NO_OBSERVERS, Attempts, Observers, SourceLag, run_with_observers
from topologies.run.options import Engine, RunOptions, check_built, ends_streams
from topologies.run.run_metrics import files_behind
from topologies.run.summary import Summary, advice_on
from windowing.calls import checked_value


@checked_value
def run_local(topology: Graph, options: RunOptions | None = None) -> Summary:
    """Run a topology in this process.

    With a checkpoint, a run continues where the previous run stopped, on either engine. Without a checkpoint, the run
    ends with the present input, and its state is lost.

    Raises CheckpointError for a checkpoint that does not fit. Raises ConfigError for features that only Spark has: a
    spout or a sink's function with Spark DataFrames, options of Kafka that only Java has. Raises ConfigError also for a
    file spout whose folder is missing or on another machine, and for ``every`` without a checkpoint. Raises
    EnvironmentMissing for a topology with Kafka if the package confluent-kafka is missing.
    """
    check_built("run_local", topology)
    options = options or RunOptions()
    check_local(topology, options)

    def run(options: RunOptions, observers: Observers, attempts: Attempts) -> Summary:
        if options.checkpoint is not None:
            with LocalRun(topology, options, observers, attempts) as local_run:
                return local_run.run()
        refuse_undecodable_names(topology)
        sink_locks = SinkLocks(topology)
        sink_locks.take()
        try:
            return _run(topology, options, observers)
        finally:
            sink_locks.release()

    return run_with_observers(options, asked_observers(topology, options), run)


class LocalRun(CheckpointedRun):
    """One run of a topology on a checkpoint, in this process."""

    engine = Engine.LOCAL

    def __init__(
        self,
        topology: Graph,
        options: RunOptions,
        observers: Observers = NO_OBSERVERS,
        attempts: Attempts | None = None,
    ) -> None:
        self.kafka = LocalKafka(topology)
        super().__init__(topology, options, observers, attempts)

    def _begin(self, resources: ExitStack) -> None:
        self.executor = InProcessRunExecutor()

    def _engine_sinks(self) -> EngineSinks:
        return self.kafka

    def _open_log(self) -> None:
        super()._open_log()
        self._compare_topics(self.kafka.admins.open)

    def _open_source(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        self.spouts = self._file_spouts()
        for name, spout in self.spouts.items():
            self.watch(name, spout)
        self.kafka.check(self.topology)
        return tuple(self.spouts), tuple(self.kafka.topics)

    def _close_spouts(self, kind: type[BaseException] | None, *_: object) -> None:
        self.kafka.close()
        super()._close_spouts(kind)

    def _batches(self) -> None:
        while True:
            try:
                return self._batches_of_the_journal()
            except JournalMoved:  # by a run that has lost the checkpoint to this one, or to which this one has lost it
                self.checkpoint.check_owner()

    def _batches_of_the_journal(self) -> None:
        heartbeats = self.topology.needs_heartbeat
        start_offsets = {name: topics.start_offsets for name, topics in self.kafka.topics.items()}
        half, uri = self.halves.spark_checkpoint, self.halves.uri
        journal = FileJournal(half, list(self.spouts), heartbeats=heartbeats, uri=uri, kafka=start_offsets)
        self.journal, self.files_read = journal, journal.seen
        if journal.unfinished is not None and not self.options.stop.is_set():
            self._run_and_note(journal.unfinished)
        if self.options.interval is not None:
            return self._at_every_trigger(self.options.interval.micros / 1e6)
        file_batches, end_offsets = self._new_files(), self._new_records()
        number = -1
        for number, pieces in enumerate(zip_longest(*file_batches.values(), *end_offsets.values(), fillvalue=None)):
            if self.options.stop.is_set():
                return None
            by_name = dict(zip([*file_batches, *end_offsets], pieces, strict=True))
            self._run_and_note(self._plan_next(by_name, heartbeat=number == 0))
        if number < 0 and heartbeats and not self.options.stop.is_set():
            self._run_and_note(self._plan_next({}, heartbeat=True))

    def _at_every_trigger(self, every: float) -> None:
        """Runs a batch of the new input at every interval, until stopped."""
        started, heartbeats = time.perf_counter(), self.topology.needs_heartbeat
        while not self.options.stop.is_set():
            new_input: dict[str, Any] = {name: next(batches, []) for name, batches in self._new_files().items()}
            for name, topics in self.kafka.topics.items():
                end_offsets, complaints = topics.next_batch(self.journal.ends(name))
                self.complaints += complaints
                new_input[name] = end_offsets if self.journal.is_new(name, end_offsets) else None
            if heartbeats or self.journal.spouts_already_noted or any(map(_is_new_input, new_input.values())):
                self._run_and_note(self._plan_next(new_input, heartbeat=True))
            self.options.stop.wait(every - (time.perf_counter() - started) % every)

    def _new_files(self) -> dict[str, Iterator[list[FoundFile]]]:
        """Returns, by spout, the files that no batch has read yet, cut into batches. Nothing comes first for a spout
        whose part of the first batch is in the journal already."""
        files_read = self.journal.seen
        file_batches = {
            name: spout.cut(self.input_files[name].new(files_read[name])) for name, spout in self.spouts.items()
        }
        no_files: list[list[FoundFile]] = [[]]
        already_noted = self.journal.spouts_already_noted
        return {
            name: chain(no_files if name in already_noted else [], batches) for name, batches in file_batches.items()
        }

    def _new_records(self) -> dict[str, Iterator[EndOffsets]]:
        """By spout of Kafka, up to which offsets each batch reads, to the present ends of the topics."""
        return {name: self._end_offsets_of_batches(name, topics) for name, topics in self.kafka.topics.items()}

    def _end_offsets_of_batches(self, name: str, topics: Topics) -> Iterator[EndOffsets]:
        for end_offsets, complaints in topics.all_batches(self.journal.ends(name)):
            self.complaints += complaints
            if self.journal.is_new(name, end_offsets):
                yield end_offsets

    def _run_and_note(self, number: int) -> None:
        """Run a batch, and note in the journal that it is done."""
        self.batch(number, self._ingest_records)
        with storage_errors_during(
            f"noting that batch {number} is done", f"batch {number} is committed, and nothing is lost"
        ):
            self.journal.commit(number)

    def _ingest_records(
        self, tasks_at_once: int, planned: Mapping[str, Partitions]
    ) -> Callable[[Context], list[TaskOutput]] | None:
        """Reads the records of a batch from Kafka, and returns their ingestion."""
        if not self.kafka.topics:
            return None
        ranges = {
            name: partitions.readable_ranges if partitions.ranges is None else partitions.ranges
            for name, partitions in planned.items()
        }
        self.read_topics.compare(ranges)
        merged = {name for name, partitions in planned.items() if partitions.most_with_records > 1}

        def ingested(context: Context) -> list[TaskOutput]:
            records, complaints = self.kafka.read(ranges)
            self.complaints += complaints
            return ingest_records(records, merged, self.executor, context, tasks_at_once)

        return ingested

    def _plan_next(self, new_input: Mapping[str, Any], *, heartbeat: bool) -> int:
        """Plan the next batch in the journal: its files or its ends, by spout; returns its number."""
        with storage_errors_during("planning the next batch", "it was not begun, and nothing is lost"):
            files = {name: new_input[name] or [] for name in self.spouts if name in new_input}
            end_offsets = {name: new_input[name] for name in self.kafka.topics if new_input.get(name) is not None}
            number = self.journal.plan(files, self._now(), heartbeat=heartbeat, end_offsets=end_offsets)
            self.checkpoint.check_owner()
            return number

    def _lag(self) -> list[SourceLag]:
        return [*super()._lag(), *self.kafka.lag(self.log)]


def _is_new_input(files_or_end_offsets: Any) -> bool:
    """True if a source has files, or ends of partitions, for a batch."""
    return files_or_end_offsets is not None and files_or_end_offsets != []


class LocalKafka:
    """Kafka during a local run; the package that it needs is used if a topology names Kafka."""

    def __init__(self, topology: Graph) -> None:
        self.admins = Admins()
        self._senders = Senders(self.admins.open)
        spouts = {name: topology.spouts[name].spout for name in sorted(topology.spouts)}
        kafka = {name: spout for name, spout in spouts.items() if isinstance(spout, KafkaSpout)}
        self.topics = {name: Topics(name, spout, self.admins) for name, spout in kafka.items()}
        self._readers = {name: RangeReader(name, spout, self.admins) for name, spout in kafka.items()}
        self.read_topics = ReadTopics(self.admins.open, kafka)
        """For a run without a checkpoint."""

    def check(self, topology: Graph) -> None:
        """Raise UnreachableError if a Kafka does not answer, ConfigError if topics are missing."""
        check_sinks(self.admins.open, topology)
        for name, topics in self.topics.items():
            check_topics(self.admins.open, name, topics.spout)

    def read(self, ranges: Mapping[str, Sequence[OffsetRange]]) -> tuple[dict[str, list[Records]], list[str]]:
        """Returns the records of a batch, by spout, and messages about them."""
        records, complaints = dict[str, list[Records]](), list[str]()
        for name, spout_ranges in ranges.items():
            records[name], spout_complaints = self._readers[name].read(spout_ranges)
            complaints += spout_complaints
        return records, complaints

    def lag(self, log: SourceLog) -> list[SourceLag]:
        """Returns the number of records of no batch yet, as of the last request."""
        return [
            SourceLag(name, "records", max(end - planned.get(topic, {}).get(number, 0), 0), f"{topic}/{number}")
            for name, topics in self.topics.items()
            for planned in [log.kafka_offsets(name)]
            for (topic, number), end in topics.latest_ends.items()
        ]

    def frame(self, store: SegmentStore, refs: list[Ref], schema: pa.Schema) -> object:
        raise AssertionError("check_local refuses sinks whose functions take DataFrames of Spark's")

    def send(self, node: SinkNode, batch: SinkBatch, sink_rows: list[SinkRows], store: SegmentStore) -> None:
        """Write rows to Kafka, and wait until they are written."""
        self._senders.send(node, batch, sink_rows, store)

    def append(self, node: SinkNode, batch: SinkBatch, refs: list[Ref], store: SegmentStore) -> None:
        raise no_catalog(node.name)

    def close(self) -> None:
        """Disconnect."""
        self._senders.close()
        for reader in self._readers.values():
            reader.close()


def _run(topology: Graph, options: RunOptions, observers: Observers) -> Summary:
    summary, started = Summary(), time.perf_counter()
    topology = with_needed_columns(topology)
    first_output = FirstOutput.of(topology, options.first_output_at)
    kafka = LocalKafka(topology)
    micro_batch = MicroBatch(topology, MemoryCheckpoint(), InProcessExecutor(), kafka, first_output)
    options.on_begin(summary.before)
    files_read: dict[str, set[str]] = {name: set() for name in topology.spouts}
    observers.begin(micro_batch, lambda: files_behind(topology, files_read))
    clock, number, complaints = options.clock(), -1, list[str]()

    def run(plan: BatchPlan) -> None:
        report = micro_batch.run(plan)
        report.complaints.extend(complaints)
        complaints.clear()
        summary.note(report)
        observers.report(report)
        options.on_report(report)

    with ExitStack() as resources:
        resources.callback(kafka.close)
        register_and_check_schemas(topology)
        kafka.check(topology)
        kafka.read_topics.begin_without_checkpoint()
        for number, batch_input in enumerate(_batches(topology, files_read, first_output, kafka, resources)):
            if options.stop.is_set():
                break
            clock = max(clock, options.clock())
            complaints += batch_input.complaints
            run(BatchPlan(number, TimeAdvance(clock), batch_input.splits, partitions=batch_input.partitions))
        if ends_streams(summary, options):
            run(BatchPlan(number, TimeAdvance(clock, close=True), closing=True))
    summary.seconds = time.perf_counter() - started
    summary.advice = advice_on(topology, summary.work)
    return summary


@dataclass(frozen=True)
class _BatchInput:
    """The input of a batch in a run without a checkpoint, of one spout or of all."""

    splits: Sequence[SourceSplit | MergedSplits] = ()
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Per spout of Kafka, all its partitions."""
    complaints: Sequence[str] = ()
    """Sentences about the topics."""


def _batches(
    topology: Graph,
    files_read: Mapping[str, set[str]],
    first_output: FirstOutput | None,
    kafka: LocalKafka,
    resources: ExitStack,
) -> Iterator[_BatchInput]:
    """Yields the input of each batch. Adds the files of the batch to ``files_read``, by spout, and what must be closed
    at the end to ``resources``."""
    spouts = topology.spouts.values()
    inputs = [_input_of_spout(topology, node, files_read[node.name], first_output, kafka, resources) for node in spouts]
    for of_batch in zip_longest(*inputs, fillvalue=_BatchInput()):
        yield _BatchInput(
            [split for each in of_batch for split in each.splits],
            {name: partitions for each in of_batch for name, partitions in each.partitions.items()},
            [text for each in of_batch for text in each.complaints],
        )


def _input_of_spout(
    topology: Graph,
    node: SpoutNode,
    files_read: set[str],
    first_output: FirstOutput | None,
    kafka: LocalKafka,
    resources: ExitStack,
) -> Iterator[_BatchInput]:
    match node.spout:
        case MemorySpout() as spout:
            first_row = 0
            for table in spout.tables():
                yield _BatchInput([TableSource(node.name, table, first_row)])
                first_row += table.num_rows
        case PulledSpout() as spout:
            puller, first_row = resources.enter_context(Puller(node.name, spout)), 0
            while (pulled := puller.pull()) is not None:
                yield _BatchInput([TableSource(node.name, pulled.rows, first_row)])
                first_row += pulled.rows.num_rows
        case RangedSpout() as spout:
            planner = resources.enter_context(RangePlanner(node.name, spout))
            while (pulled := planner.pull()) is not None:
                splits = range_splits(node.name, ranges_in(pulled.rows), 1, merged=spout.merge_by is not None)
                yield _BatchInput(splits, {node.name: tuple(pulled.offset)})
        case FileSpout() as spout:
            for paths in spout.batches():
                files_read.update(paths)
                yield _BatchInput(
                    file_splits(topology, [(node.name, path) for path in paths], 1, first_output=first_output)
                )
        case KafkaSpout():
            yield from _input_of_topics(node.name, kafka)
        case spout:
            raise AssertionError(f"{node.name!r} is {type(spout).__name__}, which is refused before a run")


def _input_of_topics(name: str, kafka: LocalKafka) -> Iterator[_BatchInput]:
    topics = kafka.topics[name]
    start_offsets = topics.start_offsets()
    for end_offsets, complaints in topics.all_batches(start_offsets):
        ranges = {name: ranges_between(start_offsets, end_offsets)}
        kafka.read_topics.compare(ranges)
        records, read_complaints = kafka.read(ranges)
        splits: Sequence[SourceSplit | MergedSplits] = records[name]
        if len(splits) > 1:
            splits = [MergedSplits(records[name])]
        partitions = tuple(f"{topic}/{number}" for topic, number in sorted(end_offsets))
        yield _BatchInput(splits, {name: partitions}, [*complaints, *read_complaints])
        start_offsets = end_offsets
