"""Checkpoints made from other state: savepoints, and checkpoints that begin with users' events."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.fs as pafs

from manager.storage.checkpoint import read_committed, read_note, read_verified_manifest
from manager.storage.files import (
    as_storage_error,
    delete_folder,
    entries,
    make_folder,
    path_exists,
    private_stream,
    storage_errors_during,
    sync_folders_below,
    write_private,
)
from manager.storage.manifest import Manifest, batch_key, batch_name
from manager.storage.object_store import is_object_store
from manager.storage.sealed_files import Committed
from manager.storage.segment_files import FileSegments
from manager.storage.segments import SegmentWriter
from topologies.checkpoints.checkpointed_run import CheckpointedRun, make_private_folders
from topologies.checkpoints.file_journal import Relocation
from topologies.checkpoints.paired_checkpoint import (
    BEGINNING,
    SAVEPOINT,
    START,
    TOPOLOGY,
    PairedCheckpoint,
    check_empty,
    check_halves,
    empty_out,
    naming_a_way_back,
)
from topologies.checkpoints.pulled_files import FOLDER as PULLED
from topologies.checkpoints.pulled_files import QUERY
from topologies.checkpoints.spark_checkpoint import write_spark_file
from topologies.engine.batch import BatchPlan, InProcessRunExecutor, TimeAdvance
from topologies.engine.commit import SinkLocks, next_batches, publish
from topologies.engine.source_splits import TableSource
from topologies.graph.declarations import with_needed_columns
from topologies.graph.graph import Graph
from topologies.io.kafka import KafkaSpout
from topologies.io.paths import locate
from topologies.io.pulled import RangedSpout
from topologies.io.spout_columns import as_arrow_table
from topologies.io.spouts import one_table
from topologies.run.options import Engine, RunOptions
from windowing.errors import BoltError, CheckpointError, ConfigError, DataError, SchemaError, did_you_mean
from windowing.schema import DEFAULT_STREAM, EmittedRows
from windowing.settings.rules import SOURCE

# Takes a savepoint: a copy of the state after the last batch, as a checkpoint at another place, from which runs
# continue.
#
# A note marks it as incomplete, and is replaced last. While it is incomplete no run begins there, and a second attempt
# starts over.


_EPOCH = re.compile(r"(^|/)\d{10}-(?=[0-9a-f]{32}\.)")
"""The number of an owner's claim in the name of a segment, which has no meaning at another place."""
_BLOCK_SIZE = 8 << 20

Rewrite: TypeAlias = Callable[[SegmentWriter], Manifest]
"""Writes the changed parts of a savepoint; returns the manifest with them. All other sections are the sections of the
source."""


@dataclass(frozen=True)
class StateChange:
    """Change of the state in a savepoint."""

    prepare: Callable[[Manifest], Rewrite]
    """Called with the state before anything is written, to refuse impossible changes."""
    bolts: Sequence[str]
    """The bolts that are repaired."""


@dataclass
class Savepoint:
    """A savepoint that was taken."""

    path: str
    batch: str
    """The batch after which a run continues there: ``7`` or ``7-close``."""
    segments: int = 0
    """Number of files of rows."""
    size: int = 0
    """Their size in bytes."""


def take_savepoint(
    source: PairedCheckpoint, path: str, moved: Sequence[tuple[str, str]] = (), change: StateChange | None = None
) -> Savepoint:
    """Writes a complete copy of the state after the last batch of a checkpoint to another place.

    The caller has locked the checkpoint for reading. In an object store this does not exclude runs, and the savepoint
    is refused if a run is in progress. ``moved``: old and new folders of input files. ``change``: a change of the
    copied state; None: no change.

    Raises CheckpointError, with a remedy, if there is no state, or if the target is not empty.
    """
    with (
        naming_a_way_back(source),
        storage_errors_during("looking at what is to be saved", "the checkpoint is as it was"),
    ):
        committed, manifest = read_committed(source.documents), check_halves(source)
    if manifest is None:
        raise CheckpointError(
            f"checkpoint {source.path!r} has nothing that could be saved",
            why="no batch has been committed",
            do="run the topology on it first",
        )
    target = PairedCheckpoint(path)
    _check_place(source, target)
    rewrite: Rewrite | None = None
    if change is not None:
        with (
            naming_a_way_back(source),
            storage_errors_during("looking at what is to be repaired", "the checkpoint is as it was"),
        ):
            rewrite = change.prepare(manifest)
    target.lock.take()
    try:
        with storage_errors_during(
            f"taking a savepoint in {target.path}", "the checkpoint is as it was; take it once more"
        ):
            _publish_last_files(source, manifest)
            repaired_bolts = () if change is None else change.bolts
            return _SavepointWriter(source, target, manifest, committed, moved, repaired_bolts).write(manifest, rewrite)
    finally:
        target.lock.release()


def _check_place(source: PairedCheckpoint, target: PairedCheckpoint) -> None:
    if f"{target.root}/".startswith(f"{source.root}/") and target.uri == source.uri:
        raise CheckpointError(
            f"a savepoint of {source.path!r} cannot be in {target.path!r}",
            why="that is the checkpoint itself, or within it",
            do="name another folder",
        )
    note = target.documents.read(SAVEPOINT)
    if note is None or note["complete"]:
        check_empty(target, "a savepoint cannot be taken")


def _publish_last_files(source: PairedCheckpoint, manifest: Manifest) -> None:
    """Publishes the files of the last batch if its run died before doing so, because a run at another place would
    not."""
    for files in manifest.files.values():
        filesystem, folder, _ = locate(files["folder"])
        unpublished = {entry.base_name for entry in entries(filesystem, folder)} & set(files["drafts"])
        if unpublished and source.uri is not None:
            raise CheckpointError(
                f"{len(unpublished)} files in {folder} do not have their names yet, such as {min(unpublished)}",
                why="the last batch is committed, and its run is in progress, or died before it gave them their names",
                do="stop that run, or run the topology on the checkpoint once more, and take the savepoint then",
            )
        if unpublished:
            publish(manifest, again=True)
            return


class _SavepointWriter:
    """One attempt to take a savepoint."""

    def __init__(
        self,
        source: PairedCheckpoint,
        target: PairedCheckpoint,
        manifest: Manifest,
        committed: Committed,
        moved: Sequence[tuple[str, str]],
        repaired_bolts: Sequence[str],
    ) -> None:
        self.source, self.target, self.committed, self.repaired_bolts = source, target, committed, repaired_bolts
        memory = [(f"{source.root}/memory", f"{target.root}/memory")] if target.uri is None else []
        self.relocation = Relocation((*moved, *memory))
        self.key = batch_key(manifest.batch, manifest.closing)
        self.done = Savepoint(target.path, batch_name(self.key))

    def write(self, manifest: Manifest, rewrite: Rewrite | None) -> Savepoint:
        """Writes the whole savepoint."""
        target = self.target
        self._begin()
        self._spark_half()
        self._documents()
        self._pulled_rows()
        after = self._segments(manifest, rewrite)
        self._check_unchanged()
        target.documents.write(f"manifests/{self.key}", replace(after, files={}).to_values())
        read_verified_manifest(
            target.documents, FileSegments(f"{target.documents.root}/segments", target.uri), self.key
        )
        if target.uri is None:
            sync_folders_below(target.root)
        target.documents.write(SAVEPOINT, self._note(complete=True))
        target.documents.sync()
        return self.done

    def _note(self, *, complete: bool) -> dict[str, object]:
        note = {"complete": complete, "batch": self.key, "id": uuid.uuid4().hex}
        return {**note, "repaired_bolts": list(self.repaired_bolts)} if self.repaired_bolts else note

    def _begin(self) -> None:
        """Records that a savepoint is being written, and deletes the files of an earlier attempt."""
        target = self.target
        if not is_object_store(target.uri):
            for folder in ("windbolt", "spark"):
                make_folder(target.filesystem, f"{target.root}/{folder}")
        target.documents.write(SAVEPOINT, self._note(complete=False))
        empty_out(target, SAVEPOINT)
        if path_exists(target.filesystem, f"{target.root}/{PULLED}"):
            delete_folder(target.filesystem, f"{target.root}/{PULLED}")
        for folder in () if is_object_store(target.uri) else ("windbolt/manifests", "windbolt/plans", "spark"):
            make_folder(target.filesystem, f"{target.root}/{folder}")

    def _spark_half(self) -> None:
        half, target = self.source.spark_checkpoint, self.target
        for name in self._spark_names(""):
            path = f"{target.root}/spark/{name}"
            if not is_object_store(target.uri):
                make_folder(target.filesystem, path.rsplit("/", 1)[0])
            text = half.read(name)
            text = self.relocation.log(text) if name.startswith("sources/") else text
            write_spark_file(target.filesystem, path, text, with_checksum=target.uri is None)

    def _spark_names(self, folder: str) -> Iterator[str]:
        """Yields the files of Spark's half by relative path, without drafts and checksums."""
        half = self.source.spark_checkpoint
        for entry in entries(half.filesystem, f"{half.root}/{folder}".rstrip("/")):
            name = f"{folder}/{entry.base_name}".lstrip("/")
            if entry.base_name.startswith("."):
                continue
            if entry.type == pafs.FileType.Directory:
                yield from self._spark_names(name)
            elif entry.type == pafs.FileType.File:
                yield name

    def _documents(self) -> None:
        """Writes the notes that belong to the state, and the plans of batches that were begun. Notes that refer to the
        old place are left out: the sinks, the runs, and the graph, which contains both ends of the topology.

        A repair leaves the plans out. The change affects the rows of these batches, so a sink must not take them for
        rows that it may already have.
        """
        source, target = self.source.documents, self.target.documents
        for note in (START, TOPOLOGY):
            found = read_note(source, note)
            if found is not None:
                target.write(note, {**found, "boxes": [], "arrows": []} if note == TOPOLOGY else found)
        for key in (self.key, *next_batches(self.key)):
            for folder in ("plans", "poison") if key == self.key or not self.repaired_bolts else ("poison",):
                found = source.read(f"{folder}/{key}")
                if found is not None:
                    make_folder(target.filesystem, f"{target.root}/{folder}")
                    target.write(f"{folder}/{key}", self.relocation.document(found))

    def _pulled_rows(self, folder: str = PULLED) -> None:
        """Copies the rows of spouts that can be read only once, and the offsets after them."""
        for entry in entries(self.source.filesystem, f"{self.source.root}/{folder}"):
            name = f"{folder}/{entry.base_name}"
            if entry.base_name.startswith("."):
                continue
            if entry.type == pafs.FileType.Directory:
                self._pulled_rows(name)
                continue
            if not is_object_store(self.target.uri):
                make_folder(self.target.filesystem, f"{self.target.root}/{folder}")
            if name.endswith(f"/{QUERY}/metadata"):  # Spark stops one of two queries with the same id
                text = json.dumps({"id": str(uuid.uuid4())})
                write_private(self.target.filesystem, f"{self.target.root}/{name}", text.encode())
                continue
            self._copy(entry.path, f"{self.target.root}/{name}")

    def _segments(self, manifest: Manifest, rewrite: Rewrite | None) -> Manifest:
        """Writes the changed segments, and copies the files of all other rows; returns the manifest with the new file
        names."""
        store = FileSegments(f"{self.target.documents.root}/segments", self.target.uri)
        after = manifest
        if rewrite is not None:
            make_folder(self.target.filesystem, f"{store.root}/{self.key}")
            with store.writer(self.key) as writer:
                after = rewrite(writer)
        unchanged = after.segments() & manifest.segments()
        names = {name: _EPOCH.sub(r"\1", name) for name in sorted(unchanged)}
        for name, new in names.items():
            make_folder(self.target.filesystem, f"{store.root}/{new}".rsplit("/", 1)[0])
            self.done.size += self._copy(f"{self.source.documents.root}/segments/{name}", f"{store.root}/{new}")
        for name in sorted(after.segments() - unchanged):
            names[name] = name
            self.done.size += self.target.filesystem.get_file_info(f"{store.root}/{name}").size
        self.done.segments = len(names)
        store.sync(names.values())
        return after.with_segments(names)

    def _copy(self, path: str, target: str) -> int:
        size = 0
        with as_storage_error(path, "read"):
            data = self.source.filesystem.open_input_stream(path, compression=None)
        with data, private_stream(self.target.filesystem, target) as sink:
            while block := _block(data, path):
                with as_storage_error(target, "written"):
                    sink.write(block)
                size += len(block)
        return size

    def _check_unchanged(self) -> None:
        """Raises CheckpointError if a run or a command has changed the state meanwhile, which is possible without a
        lock."""
        last_key = self.source.documents.names("manifests")[-1]
        if last_key != self.key:
            raise CheckpointError(
                f"checkpoint {self.source.path!r} has reached batch {batch_name(last_key)} meanwhile",
                why="a run is on it, and its two halves were not those of one moment",
                do="stop that run, and take the savepoint once more",
            )
        now, before = read_committed(self.source.documents), self.committed
        if (now.manifest, now.notes) != (before.manifest, before.notes):
            raise CheckpointError(
                f"the state of checkpoint {self.source.path!r} has been changed meanwhile",
                why="a run or a command is on it, and what was copied is not of one moment",
                do="wait for its end, or stop it, and take the savepoint once more",
            )


def _block(data: pa.NativeFile, path: str) -> bytes:
    with as_storage_error(path, "read"):
        return data.read(_BLOCK_SIZE)  # type: ignore[no-any-return]


# Makes a checkpoint that begins with users' events, for example with yesterday's windows, or with repaired ones.
#
# The events are batch -1 of the topology: they are processed like all events, except that sinks get nothing. A note is
# written first, and deleted last. While it exists no run begins, and a second attempt starts over.


_ONCE_MORE = "call windbolt.state.begin once more, which starts over; until then no run begins"


def begin_with(checkpoint: str, topology: Graph, events: Mapping[str, EmittedRows], clock: Callable[[], int]) -> None:
    """Makes a checkpoint at an empty place; ``events``: rows of spouts, in order of arrival.

    Raises ConfigError for unknown spouts, and for windows that need the partitions of events; DataError for rows
    without a usable time; CheckpointError if the place is not empty.
    """
    checked_tables = {name: _checked_table(topology, name, rows) for name, rows in events.items()}
    tables = {name: checked_tables[name] for name in topology.spouts if name in checked_tables}
    _check_partitions(topology)
    options = RunOptions(checkpoint=checkpoint, keep_open=True, clock=clock)
    with _BeginWithEvents(topology, options, tables) as run:
        try:
            run.run()
        except BoltError as error:
            error.do = f"correct the bolt; {_ONCE_MORE}"
            raise
        run.complete()


def _checked_table(topology: Graph, spout: str, users_rows: EmittedRows) -> pa.Table:
    if spout not in topology.spouts:
        raise ConfigError(
            f"there is no spout {spout!r}{did_you_mean(spout, topology.spouts)}",
            why=f"events are given as those of a spout, and the topology has {', '.join(topology.spouts)}",
            do="name one of these",
        )
    columns = topology.spouts[spout].outputs[DEFAULT_STREAM]
    users_rows = topology.spouts[spout].defaults.completed(users_rows)
    table = as_arrow_table(users_rows)
    if table is not None and len(set(table.column_names)) == table.num_columns:
        users_rows = _as_in_a_run(table, columns, with_needed_columns(topology).spouts[spout].schema.names)
    try:
        return one_table(users_rows, columns)
    except SchemaError as error:
        raise DataError(
            f"the events for spout {spout!r} are not of its columns, {', '.join(columns.names)}",
            why=error.why,
            do="give a table with these columns and types",
        ) from error


def _as_in_a_run(users_table: pa.Table, columns: pa.Schema, needed: Collection[str]) -> pa.Table:
    """Returns the user's events with the columns that a run would keep. A table of ``state.read`` has other columns
    too, and lacks columns that no bolt needs."""
    for field in columns:
        if field.name not in users_table.column_names and field.name not in needed:
            users_table = users_table.append_column(field, pa.nulls(len(users_table), field.type))
    return users_table.select([name for name in columns.names if name in users_table.column_names])


def _check_partitions(topology: Graph) -> None:
    """Raises ConfigError if a watermark follows the partitions of a source: the user's events have no partition, so the
    watermark would wait for ever."""
    for node in topology.windowed.values():
        partitioned_spouts = [
            spout
            for spouts in topology.spouts_before(node)
            for spout in spouts
            if isinstance(topology.spouts[spout].spout, KafkaSpout | RangedSpout)
        ]
        if partitioned_spouts and node.bolt.settings.watermark_partition is SOURCE:
            raise ConfigError(
                f"bolt {node.name!r} cannot begin with events",
                why=f"its watermark follows the partitions of {partitioned_spouts[0]!r}, and given events are of no "
                "partition",
                do="let its watermark follow a column: with_watermarks(partition=...)",
            )


class _BeginWithEvents(CheckpointedRun):
    """A run of only the user's events, in this process."""

    engine = Engine.LOCAL

    def __init__(self, topology: Graph, options: RunOptions, tables: Mapping[str, pa.Table]) -> None:
        super().__init__(topology, options)
        self.tables = tables
        self.sink_locks = SinkLocks(replace(topology, sinks={}, sinks_reading={}))

    def _begin(self, resources: ExitStack) -> None:
        self.executor = InProcessRunExecutor()

    def _engine_sinks(self) -> None:
        return None

    def _open(self) -> None:
        halves = self.halves
        if halves.documents.read(BEGINNING) is None:
            check_empty(halves, "a checkpoint that begins with events cannot be made")
        if halves.uri is None:
            make_private_folders(halves)
        halves.documents.write(BEGINNING, {"spouts": sorted(self.tables)})
        empty_out(halves, BEGINNING)
        halves.is_beginning = True
        super()._open()

    def _in_this_run(self, topology: Graph) -> Graph:
        """Returns the topology without sinks, so that nothing is emitted."""
        return replace(topology, sinks={}, sinks_reading={})

    def _open_source(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return (), ()

    def _batches(self) -> None:
        splits = [TableSource(name, table) for name, table in self.tables.items()]
        self._run(BatchPlan(-1, TimeAdvance(self._now()), splits))
        for name, bolt in self.micro_batch.manifest.bolts.items():
            counts = zip(bolt.accounts.streams, bolt.accounts.by_stream("invalid"), strict=True)
            wrong = sum(count for stream, count in counts if stream in self.tables)
            if wrong:  # rows that a bolt between makes unusable are counted, as in every run
                raise DataError(
                    f"{wrong:,} of the events for bolt {name!r} cannot be used",
                    why="their time or their lifetime is missing, or none that can be used",
                    do=f"correct them, or leave them out; {_ONCE_MORE}",
                )

    def complete(self) -> None:
        """Marks the checkpoint as complete, so that runs may begin."""
        self.halves.documents.delete(BEGINNING)
        self.halves.documents.sync()
