"""A run on a checkpoint, for both engines: opening it, recording the run, and cleaning up.

A checkpoint knows a topic by its name, and continues at the offset where it stopped. If a topic is deleted and made
anew, its first records would be skipped, silently if it has more records than were read of the old topic. So the
checkpoint records the ids that Kafka gives to topics, and a run compares them when it starts.
"""

from __future__ import annotations

import filecmp
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from types import TracebackType
from typing import Any, ClassVar, Self, cast

import pyarrow as pa
import pyarrow.fs as pafs
from pyarrow import ipc

from manager.storage.checkpoint import KEPT_BATCHES, FileCheckpoint
from manager.storage.files import UNREADABLE, as_storage_error, make_private, storage_errors_during, sync_folders_below
from manager.storage.manifest import Manifest, batch_in_words, batch_key
from manager.storage.sealed_files import SealedFolder
from topologies.checkpoints.file_journal import follow_moved_input
from topologies.checkpoints.paired_checkpoint import (
    START,
    TOPOLOGY,
    PairedCheckpoint,
    check_before_claim,
    check_beginning_complete,
    check_halves,
    claim_checkpoint,
    naming_a_way_back,
    telling_who_took_over,
)
from topologies.checkpoints.preflight import register_and_check_schemas
from topologies.checkpoints.pulled_files import PulledFiles, Reader, pulled_rows
from topologies.checkpoints.rescale import rescale_for
from topologies.checkpoints.spark_checkpoint import Partitions, SourceLog
from topologies.checkpoints.topology_fit import (
    RunNote,
    add_columns,
    check_fit,
    check_start,
    check_topology,
    note_sinks,
    read_rules,
    recording_run,
)
from topologies.engine.batch import BatchPlan, Context, RunExecutor, TimeAdvance
from topologies.engine.commit import EngineSinks, SinkLocks
from topologies.engine.event_times import FirstOutput
from topologies.engine.kafka_records import UNKNOWN_ID, Admin, OffsetRange, OpenAdmin, TopicInfo
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.pulling import range_splits, reader_of
from topologies.engine.report import BatchReport
from topologies.engine.source_splits import PoisonInput, file_splits, refuse_undecodable_names, undecodable_names
from topologies.engine.task_data import MergedSplits, SourceSplit, TaskOutput
from topologies.graph.bolt_rules import TopologyRules
from topologies.graph.declarations import with_needed_columns
from topologies.graph.graph import Graph
from topologies.io.file_spout import FileSpout, SpoutOfRowsInMemory, WatchedFiles
from topologies.io.formats import file_format, write_table
from topologies.io.kafka import KafkaSpout, may_lose_records, names_matching
from topologies.io.paths import literal
from topologies.io.pulled import PulledRanges, PulledRows, RangedSpout, UsersSpout
from topologies.io.spouts import FrameSpout, MemorySpout
from topologies.run.attempts import NO_OBSERVERS, Attempts, Observers, SourceLag
from topologies.run.clock import system_clock
from topologies.run.options import Engine, RunOptions, ends_streams
from topologies.run.run_metrics import files_behind
from topologies.run.summary import BoltTotals, Summary, advice_on
from windowing.errors import ConfigError, DataError, SpoutError, UnreachableError

# Topics that were deleted and made anew since a checkpoint read them, and records that were deleted unread.


TOPICS = "topics"
"""Name of the note about topics that were read: for each, spout, topic, id, and the batch after which the id was
found."""


@dataclass
class ReadTopics:
    """The topics of the Kafka spouts of a run."""

    open_admin: OpenAdmin
    spouts: Mapping[str, KafkaSpout]
    ids: dict[str, dict[str, str]] = field(default_factory=dict)
    """For each spout, the ids of its topics when the run began."""

    def begin(self, files: SealedFolder, log: SourceLog, batch: int, check_owner: Callable[[], None]) -> list[str]:
        """Compares the topics with those that the checkpoint has read up to ``batch``, the last committed batch.

        A topic that was made anew is read from its beginning if its spout allows lost records; returns messages about
        such topics. Otherwise raises DataError.
        """
        stored_ids, complaints = _stored_ids(files), []
        for name, spout in self.spouts.items():
            offsets = log.kafka_offsets(name)
            known_ids = {
                topic: noted_id for whose, topic, noted_id, since in stored_ids if whose == name and since <= batch
            }
            with self.open_admin(f"spout {name!r}", spout.servers, spout.options) as admin:
                present = _existing_topics(admin, spout, offsets)
                self.ids[name] = {topic: topic_id for topic, (topic_id, _) in present.items() if topic_id != UNKNOWN_ID}
                remade = [
                    topic
                    for topic, offsets_read in offsets.items()
                    if topic in present
                    and self._is_remade(admin, topic, offsets_read, known_ids.get(topic), present[topic])
                ]
            if remade and not may_lose_records(spout.options):
                raise _remade_error(name, remade[0], offsets[remade[0]])
            if remade:
                check_owner()
                skipped = log.read_from_beginning(name, {topic: present[topic][1] for topic in remade}, batch)
                complaints += [_topic_was_recreated(name, topic, skipped[topic]) for topic in remade]
            stored_ids += [
                [name, topic, topic_id, batch]
                for topic, topic_id in self.ids[name].items()
                if known_ids.get(topic) != topic_id
            ]
        if stored_ids != _stored_ids(files):
            files.write(TOPICS, {"topics": stored_ids})
        return complaints

    def begin_without_checkpoint(self) -> None:
        """Records the topics for a run without a checkpoint."""
        for name, spout in self.spouts.items():
            with self.open_admin(f"spout {name!r}", spout.servers, spout.options) as admin:
                topics = _existing_topics(admin, spout, ())
            self.ids[name] = {topic: each.id for topic, each in topics.items() if each.id != UNKNOWN_ID}

    def compare(self, ranges: Mapping[str, Sequence[OffsetRange]]) -> None:
        """Raises DataError if a topic was made anew since the run began. Unlike ``lost_records_in_words``, for callers
        that find deletions themselves."""
        for name, spout_ranges in ranges.items():
            spout = self.spouts[name]
            ignored_errors = nullcontext() if may_lose_records(spout.options) else suppress(UnreachableError)
            with ignored_errors, self.open_admin(f"spout {name!r}", spout.servers, spout.options) as admin:
                self._refuse_remade(admin, name, spout_ranges)

    def lost_records_in_words(self, ranges: Mapping[str, Sequence[OffsetRange] | None]) -> list[str]:
        """Returns messages about records of a batch that were deleted before they were read, if the run may continue.
        Raises DataError if a topic was made anew since the run began.

        Called before the records of a batch are read. If a broker does not respond now, its topics are compared before
        the next batch is committed, or when the next run starts.
        """
        complaints: list[str] = []
        for name, spout in self.spouts.items():
            spout_ranges = ranges.get(name) or ()
            earliest: dict[tuple[str, int], int] = {}
            ignored_errors = nullcontext() if may_lose_records(spout.options) else suppress(UnreachableError)
            with ignored_errors, self.open_admin(f"spout {name!r}", spout.servers, spout.options) as admin:
                self._refuse_remade(admin, name, spout_ranges)
                if may_lose_records(spout.options):
                    earliest = admin.ends([(each.topic, each.partition) for each in spout_ranges], first=True)
            for each in spout_ranges:
                lost_count = min(earliest.get((each.topic, each.partition), each.start), each.end) - each.start
                if lost_count > 0:
                    complaints.append(
                        f"{name}: topic {each.topic}, partition {each.partition}: {lost_count:,} records from offset "
                        f"{each.start} on were deleted before they were read"
                    )
        return complaints

    def _refuse_remade(self, admin: Admin, name: str, ranges: Sequence[OffsetRange]) -> None:
        """Raises DataError for a spout's topic that was made anew since the run began."""
        spout, ids = self.spouts[name], self.ids[name]
        for topic, (topic_id, _) in _existing_topics(admin, spout, ids).items():
            if ids.get(topic, topic_id) == topic_id:
                continue
            if may_lose_records(spout.options):
                raise DataError(
                    f"spout {name!r}: topic {topic!r} was deleted and made anew while the run read it",
                    why="its records have other offsets now",
                    do="start the run again: it reads the new topic from its beginning",
                )
            offsets_read = {each.partition: each.start for each in ranges if each.topic == topic}
            raise DataError(
                f"spout {name!r}: topic {topic!r} was deleted and made anew while the run read it",
                why=f"the old one was read in {_offsets_in_words(offsets_read)}; the new one would be read from there "
                "on, without the records before"
                if offsets_read
                else "its records have other offsets now",
                do=_HOW_TO_GO_ON,
            )

    def _is_remade(
        self, admin: Admin, topic: str, offsets_read: Mapping[int, int], known_id: str | None, present: TopicInfo
    ) -> bool:
        """True if a topic is not the one that was read: by its id or, if that is unknown, because it ends before the
        records that were read."""
        topic_id, partitions = present
        if known_id is not None and topic_id != UNKNOWN_ID:
            return known_id != topic_id
        ends = admin.ends([(topic, partition) for partition in offsets_read if partition < partitions])
        return any(offsets_read[partition] > end for (_, partition), end in ends.items())


_HOW_TO_GO_ON = (
    "give the spout options={'failOnDataLoss': False}: the run then goes on with the new topic from its "
    "beginning, and what had not been read of the old one is lost. Or start with a new checkpoint"
)


def _remade_error(name: str, topic: str, offsets_read: Mapping[int, int]) -> DataError:
    return DataError(
        f"spout {name!r}: topic {topic!r} is another one than the checkpoint has read: it was deleted and made anew",
        why=f"the old one was read in {_offsets_in_words(offsets_read)}; the new one would be read from there on, "
        "without the records before",
        do=_HOW_TO_GO_ON,
    )


def _offsets_in_words(offsets_read: Mapping[int, int]) -> str:
    return ", ".join(
        f"partition {partition} up to offset {offset}" for partition, offset in sorted(offsets_read.items())[:5]
    )


def _topic_was_recreated(name: str, topic: str, skipped: int) -> str:
    records = f"{skipped:,} record{'' if skipped == 1 else 's'}"
    lost = f"; up to {records} of the old one that a batch was to read {'is' if skipped == 1 else 'are'} lost"
    return f"{name}: topic {topic} was deleted and made anew, and is read from its beginning{lost if skipped else ''}"


def _stored_ids(files: SealedFolder) -> list[list[Any]]:
    """Returns the topics that runs have read. An unreadable note is replaced by one without ids."""
    with suppress(*UNREADABLE):
        note = files.read(TOPICS)
        return [] if note is None else list(note["topics"])
    return []


def _existing_topics(admin: Admin, spout: KafkaSpout, topics_read: Iterable[str]) -> dict[str, TopicInfo]:
    """Returns those topics of a spout that exist."""
    existing = admin.topics()
    return admin.describe(existing & {*spout.topics, *topics_read, *names_matching(spout.pattern, existing)})


# Opens a checkpoint for a run: checks its halves and its topology, and writes the notes of a new checkpoint.


@dataclass(frozen=True)
class OpenCheckpoint:
    """A checkpoint that a run has opened."""

    checkpoint: FileCheckpoint
    """windbolt's half of the checkpoint."""
    first_output: int | None
    """Time of the first output of the run that made it, in microseconds; None if that run started with its input."""


def open_checkpoint(
    halves: PairedCheckpoint,
    topology: Graph,
    first_output: int | None = None,
    keep: int = KEPT_BATCHES,
    attempts: Attempts | None = None,
) -> OpenCheckpoint:
    """Opens the two halves of a checkpoint. Raises CheckpointError, with a remedy, if they do not fit each other, the
    topology or the start.

    Without a lock, a run that has the checkpoint loses it to this run; but a retry of a run takes it from no other run.
    ``first_output``: time at which the run starts; None: with its input, or like the previous run. ``keep``: number of
    batches to keep.
    """
    is_new = halves.uri is None and not halves.has_our_half
    with naming_a_way_back(halves):
        manifest = _check_before_claim(halves, topology, first_output)
        checkpoint = claim_checkpoint(halves, attempts or Attempts(), keep)
        with telling_who_took_over(checkpoint):
            if halves.uri is not None:
                manifest = check_halves(halves)
            opened = OpenCheckpoint(checkpoint, _note_or_compare_start(halves, checkpoint, topology, first_output))
            note_sinks(halves.documents, topology, -1 if manifest is None else manifest.batch)
    if is_new:
        make_private_folders(halves)
    return opened


def _check_before_claim(halves: PairedCheckpoint, topology: Graph, first_output: int | None) -> Manifest | None:
    """Checks that the checkpoint is free and, if there is no lock, fits the topology, before anything is written. So a
    run in progress loses a checkpoint without a lock only to a run that fits."""
    manifest = check_before_claim(halves)
    if halves.uri is not None:
        check_fit(halves, topology, first_output)
    return manifest


def _note_or_compare_start(
    halves: PairedCheckpoint, checkpoint: FileCheckpoint, topology: Graph, first_output: int | None
) -> int | None:
    """Returns the time of the first output of the first run on the checkpoint.

    A new checkpoint gets notes about the start and topology of this run. In an old one they are compared with its
    notes.
    """
    checkpoint.latest()
    stored_rules, rules = read_rules(halves), TopologyRules.of(topology)
    if stored_rules is None:
        # START is written first, so it exists if the other note does.
        checkpoint.write_note(START, {"first_output": first_output})
        checkpoint.write_note(TOPOLOGY, rules.to_json())
        return first_output
    check_topology(halves, topology, stored_rules)
    stored_first_output: int | None = (checkpoint.read_note(START) or {})["first_output"]
    check_start(halves, stored_first_output, first_output)
    if stored_rules != rules:
        checkpoint.replace_note(TOPOLOGY, rules.to_json())
    return stored_first_output


def make_private_folders(halves: PairedCheckpoint) -> None:
    """Makes the folders of a new checkpoint on this machine, readable only by their owner, whatever permissions the
    files in them have."""
    for half in ("windbolt", "spark"):
        with as_storage_error(f"{halves.root}/{half}", "made"):
            os.makedirs(f"{halves.root}/{half}", exist_ok=True)
            os.chmod(f"{halves.root}/{half}", 0o700)


# Spouts whose rows a run with a checkpoint keeps there, in files of one micro-batch each.


_FIRST_CHANGE_NS = 1_000_000_000_000_000_000
_CHANGE_STEP_NS = 1_000_000  # Spark orders files by the millisecond of their last change


def with_file_spouts(topology: Graph, checkpoint: str) -> Graph:
    """Returns the topology with its in-memory spouts, and those of users, replaced by file spouts for the same
    batches."""
    spouts = dict(topology.spouts)
    for name, node in topology.spouts.items():
        if isinstance(node.spout, UsersSpout):
            ranged = node.spout if isinstance(node.spout, RangedSpout) else None
            rows = pulled_rows(name, node.spout.spout.schema, node.spout.defaults, checkpoint, ranged)
            spouts[name] = replace(node, spout=rows)
        if isinstance(node.spout, MemorySpout):
            if "://" in checkpoint:
                raise ConfigError(
                    f"spout {name!r} is in memory, and the checkpoint {checkpoint!r} is not on this machine",
                    do="use a file spout, or a local checkpoint",
                )
            folder = os.path.join(os.path.abspath(checkpoint), "memory", name)
            _write_memory(name, node.spout, folder)
            files = SpoutOfRowsInMemory(
                (literal(folder),),
                declared=node.spout.declared,
                format=file_format("arrow"),
                files_per_batch=1,
                on_change="ignore",
                defaults=node.spout.defaults,
            )
            spouts[name] = replace(node, spout=files)
    return replace(topology, spouts=spouts)


def _write_memory(name: str, spout: MemorySpout, folder: str) -> None:
    """Writes the batches of a spout in memory as files, which keep their names and times: the next run reads those that
    are new. Raises ConfigError for a batch that was given before, with other rows."""
    with as_storage_error(folder, "made"):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    for number, table in enumerate(spout.tables()):
        path = os.path.join(folder, f"{number:08d}.arrow")
        draft = os.path.join(folder, f".{number:08d}.arrow")
        with as_storage_error(path, "written"):
            make_private(draft)
            write_table(pafs.LocalFileSystem(), draft, table, file_format("arrow"))
            if os.path.exists(path) and filecmp.cmp(path, draft, shallow=False):
                os.remove(draft)
                continue
            stored_rows = _stored_rows(path)
            if stored_rows is not None and not _are_equal(stored_rows, table):
                os.remove(draft)
                raise ConfigError(
                    f"spout {name!r}: batch {number} in memory has other rows than in an earlier run on the checkpoint",
                    why="batches are known by their numbers: these rows would not be read",
                    do="give new batches behind the old ones: spouts.memory(schema, old, new); or use a new checkpoint",
                )
            # A damaged file that is written again gets the same time, so that it does not count as a new file.
            moment = _FIRST_CHANGE_NS + number * _CHANGE_STEP_NS
            os.utime(draft, ns=(moment, moment))
            os.rename(draft, path)


def _are_equal(before: pa.Table, now: pa.Table) -> bool:
    """True if the rows are equal in the columns that both tables have: a spout may get new columns, and a change of
    others is refused elsewhere. NaN equals NaN."""
    both = [field.name for field in now.schema if field in before.schema]
    one, other = before.select(both), now.select(both)
    # Arrow says that NaN differs from itself, and the bytes of equal rows may differ where they are null.
    return one.num_rows == other.num_rows and (one.equals(other) or repr(one.to_pylist()) == repr(other.to_pylist()))


def _stored_rows(path: str) -> pa.Table | None:
    """Returns the rows of such a file; None if there is none, or if it is damaged and is to be written again."""
    try:
        with pa.OSFile(path) as source:
            return ipc.open_file(source).read_all()
    except (OSError, pa.ArrowException):
        return None


# Deletes files that a batch has made superfluous, while the engine works between two batches.


class Cleaning:
    """Deletes old files in a thread of its own, once after each batch: deleting waits for the disk, and uses hardly any
    processor time.

    Use it as a context manager: leaving it waits for the deletion in progress. The next run deletes what is left. Call
    ``wait`` before anything else touches the checkpoint.
    """

    def __init__(self, clean: Callable[[], None]) -> None:
        self._clean = clean
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="windbolt-cleaning")
        self._running: Future[None] | None = None

    def begin(self) -> None:
        """Starts deleting."""
        self.wait()
        with suppress(RuntimeError):  # an error has left the block during a batch
            self._running = self._thread.submit(self._clean)

    def wait(self) -> None:
        """Waits until deleting is done; raises its exception."""
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown()  # another run may have the checkpoint afterwards
        if error is None:
            self.wait()


# A run on a checkpoint; subclasses cut its batches and run its tasks.


IngestRows = Callable[[int, Mapping[str, Partitions]], Callable[[Context], list[TaskOutput]] | None]
"""Ingests the rows of a batch that are not in files. Arguments: the number of splits, and the partitions."""


class CheckpointedRun(ABC):
    """A run of a topology on a checkpoint. Engines differ in how they cut batches and run tasks.

    On entry, it locks its checkpoint and its sinks against other runs, and opens them: ``with LocalRun(...) as run:
    run.run()``. Then the engine's parts are made, each once: ``_begin``, ``_engine_sinks``, ``_open_source``.
    """

    engine: ClassVar[Engine]
    executor: RunExecutor
    topology: Graph
    checkpoint: FileCheckpoint
    micro_batch: MicroBatch
    log: SourceLog

    def __init__(
        self,
        topology: Graph,
        options: RunOptions,
        observers: Observers = NO_OBSERVERS,
        attempts: Attempts | None = None,
    ) -> None:
        """Raises CheckpointError if the place of the checkpoint cannot be reached. Does not lock or read anything."""
        assert options.checkpoint is not None
        self.given, self.options, self.observers = topology, options, observers
        self.attempts = attempts or Attempts()
        self.halves = PairedCheckpoint(options.checkpoint)
        self.sink_locks = SinkLocks(topology, self.halves.uri)  # without a lock, a run may take a checkpoint over
        self.summary = Summary()
        self.input_files: dict[str, WatchedFiles] = {}
        """The spouts of files."""
        self.files_read: Mapping[str, Container[str]] = {}
        """For each spout, the files that belong to a batch, by absolute path; for observers."""
        self.reported_names: set[str] = set()
        """Files that were reported as skipped because of their names."""
        self.complaints: list[str] = []
        """Sentences about Kafka topics for the next report."""

    def __enter__(self) -> Self:
        """Raises CheckpointError or ConfigError if another run has the checkpoint or a sink's folder, or if the
        checkpoint does not fit; then nothing stays locked."""
        with ExitStack() as resources, storage_errors_during("the start of the run", "nothing is lost"):
            self._lock_out_others(resources)
            with naming_a_way_back(self.halves):
                self._open()
            self._resources = resources.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the tasks, and unlocks the sinks and the checkpoint."""
        self._resources.__exit__(kind, error, trace)

    def _lock_out_others(self, resources: ExitStack) -> None:
        """Locks out other runs; at the end, tasks end before their sinks and checkpoint are unlocked."""
        self.halves.lock.take()
        resources.callback(self.halves.lock.release)
        resources.callback(self.sink_locks.release)
        self._begin(resources)
        resources.callback(self.executor.close)
        resources.push(self._close_spouts)
        refuse_undecodable_names(self.given)
        self.sink_locks.take()

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
        self.checkpoint = opened.checkpoint
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
        """Gives the topology to the tasks, and the state after the last batch to the micro-batch."""
        if self.halves.uri is None:
            sync_folders_below(self.halves.root)
        self.topology = self._in_this_run(with_file_spouts(with_needed_columns(self.given), self.halves.path))
        self.executor.load(self.topology)
        first_output_rule = FirstOutput.of(self.topology, first_output)
        self.micro_batch = MicroBatch(
            self.topology, self.checkpoint, self.executor, self._engine_sinks(), first_output_rule
        )
        self.summary.before = {
            name: BoltTotals(bolt.accounts.totals(0), bolt.totals.fired, dict(bolt.totals.emitted))
            for name, bolt in self.micro_batch.manifest.bolts.items()
            if self.micro_batch.manifest.batch >= 0 or self.micro_batch.manifest.spouts
        }

    def _in_this_run(self, topology: Graph) -> Graph:
        """Returns the topology for this run, from one that has only the needed columns; a subclass may change it."""
        return topology

    def _file_spouts(self) -> dict[str, FileSpout]:
        """Returns the file spouts in the order of their sources, because Spark knows the sources of a checkpoint by
        position. So DataFrames whose rows are kept come after the files, whatever their names."""
        frames = {name for name, node in self.given.spouts.items() if isinstance(node.spout, FrameSpout)}
        names = sorted(self.topology.spouts, key=lambda name: (name in frames, name))
        spouts = {name: self.topology.spouts[name].spout for name in names}
        return {name: spout for name, spout in spouts.items() if isinstance(spout, FileSpout)}

    def _open_log(self) -> None:
        """Opens the log of files and offsets by batch, and removes the unfinished entries of a run that died."""
        register_and_check_schemas(self.topology)
        half = self.halves.spark_checkpoint
        self.log = SourceLog(half.filesystem, half.root, *self._open_source())
        half.sweep()  # Spark starts no query beside the draft of a first batch

    def _compare_topics(self, open_admin: OpenAdmin) -> None:
        """Compares the topics of Kafka with those that were read; ``open_admin``: opens the engine's client."""
        kafka = {name: cast("KafkaSpout", self.topology.spouts[name].spout) for name in self.log.kafka_spouts}
        self.read_topics = ReadTopics(open_admin, kafka)
        if kafka:
            last = self.micro_batch.manifest.batch
            self.complaints = self.read_topics.begin(self.halves.documents, self.log, last, self.checkpoint.check_owner)

    def watch(self, name: str, spout: FileSpout) -> WatchedFiles:
        """Returns the object that lists a spout's files; for a user's spout, it also pulls the rows."""
        source = self.given.spouts[name].spout
        if isinstance(spout, PulledRows) and isinstance(source, UsersSpout):
            self.input_files[name] = self._kept_files(name, spout, partial(reader_of, name, source))
        else:
            self.input_files[name] = WatchedFiles(name, spout)
        return self.input_files[name]

    def _kept_files(self, name: str, spout: PulledRows, open_reader: Callable[[Any], Reader]) -> PulledFiles:
        """Returns the files of a spout whose rows are kept in the checkpoint; ``open_reader``: opens its reader at an
        offset."""
        return PulledFiles(name, spout, open_reader, self.halves, self.checkpoint.keep, self.checkpoint.check_owner)

    def _close_spouts(self, kind: type[BaseException] | None, *_: object) -> None:
        """Closes the users' spouts; an error of closing does not hide an earlier one."""
        with nullcontext() if kind is None else suppress(SpoutError), ExitStack() as closing:
            for input_files in self.input_files.values():
                closing.callback(input_files.close)

    @abstractmethod
    def _begin(self, resources: ExitStack) -> None:
        """Called when the checkpoint is locked, and nothing has been read: sets ``executor``. ``resources`` are closed
        after the executor, so the executor itself must not be among them."""

    @abstractmethod
    def _engine_sinks(self) -> EngineSinks | None:
        """Called when the checkpoint is open: returns the writer for sinks that need the engine; None if the run fires
        no windows."""

    @abstractmethod
    def _open_source(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Called when ``topology`` and ``checkpoint`` are set: prepares reading. Returns the file spouts and the Kafka
        spouts, in the order of the query's sources."""

    @abstractmethod
    def _batches(self) -> None:
        """Called by ``run``: calls ``batch`` for each batch, to the end of the input or until stopped."""

    def run(self) -> Summary:
        """Runs to the end of the input, or until stopped."""
        going_on = storage_errors_during("the run", "the next run continues after the last batch that was committed")
        with naming_a_way_back(self.halves), going_on, telling_who_took_over(self.checkpoint):
            return self._run_to_the_end()

    def _run_to_the_end(self) -> Summary:
        started, run, last = time.perf_counter(), self.micro_batch.run_id, self.micro_batch.manifest.batch
        began = RunNote(run=run, engine=self.engine, began=system_clock(), continues=None if last < 0 else last)
        try:
            with recording_run(self.halves.documents, began, self.summary, self.attempts):
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
        if ends_streams(self.summary, self.options):
            self._close()
        self.micro_batch.tidy()
        self.checkpoint.delete_leftovers()
        for input_files in self.input_files.values():
            input_files.look()
        self.summary.complaints += [*self._remarks(), *self.complaints]

    def batch(self, number: int, make_ingest: IngestRows = lambda slots, partitions: None) -> None:
        """Runs a batch whose files are in the log. If it was planned and not committed before, its old plan is used."""
        if self.micro_batch.done(number):
            return
        key = batch_key(number, False)
        new_plan: dict[str, Any] = {"clock": self._now(), "slots": self.executor.slots, "run": self.micro_batch.run_id}
        order, kafka_partitions = list(self.topology.spouts), self.log.partitions(number)
        new_plan["files"] = sorted(self.log.files(number), key=lambda file: order.index(file[0]))
        new_plan["partitions"] = {spout: list(partitions.names) for spout, partitions in kafka_partitions.items()}
        new_plan["partitions"] |= {
            name: ranged.partitions([path for spout, path in new_plan["files"] if spout == name])
            for name in self.input_files
            if (ranged := self._files_of_ranges(name)) is not None
        }
        plan = self._first_plan(key, new_plan)
        files = [(spout, self._present_path(spout, path)) for spout, path in plan["files"]]
        slots, advance = plan["slots"], TimeAdvance(plan["clock"])
        partitions = {spout: tuple(names) for spout, names in plan["partitions"].items()}
        ingest = make_ingest(slots, kafka_partitions)

        def plan_without(poison: Sequence[PoisonInput]) -> BatchPlan:
            splits = self._splits(files, slots, poison)
            return BatchPlan(number, advance, splits, ingest, run=plan["run"], slots=slots, partitions=partitions)

        self._run_without_poison(key, plan_without)
        self._acknowledge(files)

    def _splits(
        self, files: Sequence[tuple[str, str]], slots: int, poison: Sequence[PoisonInput]
    ) -> list[SourceSplit | MergedSplits]:
        """Returns the splits of files by spout, in order of arrival."""
        splits: list[SourceSplit | MergedSplits] = []
        for ranged, consecutive in groupby(files, key=lambda file: self._files_of_ranges(file[0])):
            if ranged is None:
                splits += file_splits(self.topology, list(consecutive), slots, poison, self.micro_batch.first_output)
            else:
                ranges = [each for _, path in consecutive for each in ranged.ranges(path)]
                merged = ranged.spout.merge_by is not None
                splits += range_splits(ranged.name, ranges, slots, merged=merged)
        return splits

    def _files_of_ranges(self, spout: str) -> PulledFiles | None:
        """Returns the files of a spout if they contain ranges; else None."""
        input_files = self.input_files.get(spout)
        if isinstance(input_files, PulledFiles) and isinstance(input_files.spout, PulledRanges):
            return input_files
        return None

    def _present_path(self, spout: str, path: str) -> str:
        node_spout = self.topology.spouts[spout].spout
        return node_spout.now(path) if isinstance(node_spout, PulledRows) else path

    def _acknowledge(self, files: Sequence[tuple[str, str]]) -> None:
        """Called when a batch with these files, by spout, is committed."""
        for name, input_files in self.input_files.items():
            input_files.acknowledge([path for spout, path in files if spout == name])

    def _first_plan(self, key: str, new_plan: dict[str, Any]) -> dict[str, Any]:
        """Returns the plan of a batch as it was first written.

        A run that has lost the checkpoint may have written a plan with other files than the source's log now has, or
        with a time before the last batch. Such a plan is obsolete, and is replaced.
        """
        batch = batch_in_words(key)
        with storage_errors_during(f"planning {batch}", self.checkpoint.after_failure(batch)):
            plan, is_new = self.checkpoint.plan(key, new_plan)
            stale = _files_of_plan(plan) != _files_of_plan(new_plan) or plan["clock"] < (
                self.micro_batch.manifest.clock or plan["clock"]
            )
            by_another_run = not is_new and self.checkpoint.epoch and stale
            return new_plan if by_another_run and self.checkpoint.replan(key, new_plan) else plan

    def _run_without_poison(self, key: str, plan: Callable[[Sequence[PoisonInput]], BatchPlan]) -> None:
        """Runs a batch without the input on which workers have died."""
        self._run(plan([PoisonInput.from_json(found) for found in self.checkpoint.poison_input(key)]))

    def _close(self) -> None:
        """Runs the closing tick, which fires open windows. It has a batch number of its own, so that it also happens
        once."""
        before = self.micro_batch.manifest
        if before.closing:
            return
        new_plan = {"clock": self._now(), "run": self.micro_batch.run_id}
        plan = self._first_plan(batch_key(before.batch, True), new_plan)
        advance = TimeAdvance(plan["clock"], close=True)
        self._run(BatchPlan(before.batch, advance, closing=True, run=plan.get("run", "")))

    def _finish_closing(self) -> None:
        """Closes first if the previous run died while it was closing: some of its output may already have been
        emitted."""
        before = self.micro_batch.manifest
        if not before.closing and self.checkpoint.planned(batch_key(before.batch, True)):
            self._close()

    def _run(self, plan: BatchPlan) -> None:
        query = self.halves.spark_checkpoint.query()
        report = self.micro_batch.run(plan, query=query)
        if self.options.every is not None:
            report.complaints.extend(self._remarks())
        self._note(query, report)
        self.summary.note(report)
        self.observers.report(report)
        self.options.on_report(report)

    def _note(self, query: str | None, report: BatchReport) -> None:
        """Adds the complaints about topics to the report of a batch. Subclasses extend it to notify others of the
        batch."""
        report.complaints.extend(self.complaints)
        self.complaints = []

    def _lag(self) -> list[SourceLag]:
        """Returns how far the file spouts on this machine are behind; called from any thread."""
        return files_behind(self.topology, self.files_read)

    def _remarks(self) -> list[str]:
        """Returns remarks about files, each once: unreadable names, and files that were changed after they were
        read."""
        complaints = self._remarks_on_names()
        for name, input_files in self.input_files.items():
            changed = input_files.take()
            self.summary.changed_files += len(changed)
            if changed:
                self.observers.changed_files(name, changed)
            complaints += [
                f"{path}: changed after it was read, and not read again; write new rows to new files"
                for path in changed
            ]
        return complaints

    def _remarks_on_names(self) -> list[str]:
        """Returns remarks about new files with unreadable names; each is reported once."""
        unreadable = {path for node in self.topology.spouts.values() for path in undecodable_names(node.spout)}
        new, self.reported_names = sorted(unreadable - self.reported_names), self.reported_names | unreadable
        return [f"{path}: not read, since its name is no UTF-8; rename it" for path in new]

    def _now(self) -> int:
        """Returns the clock, which never goes back, even if the machine's does."""
        before = self.micro_batch.manifest.clock
        now = self.options.clock()
        return now if before is None else max(now, before)


def _files_of_plan(plan: Mapping[str, Any]) -> list[list[str]]:
    return [list(file) for file in plan.get("files", ())]
