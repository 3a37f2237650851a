"""The commit of results: folders of file sinks, and rows for the sinks that the driver writes to."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import count
from shutil import get_terminal_size
from typing import Protocol

import pyarrow as pa
import pyarrow.fs as pafs

from manager.storage import hdfs, object_store
from manager.storage.checkpoint import Checkpoint
from manager.storage.files import (
    as_storage_error,
    entries,
    make_folder,
    move,
    refresh_listing,
    storage_errors_about,
    sync_file,
    sync_folder,
    sync_names,
)
from manager.storage.hdfs import is_hdfs
from manager.storage.manifest import Manifest, SinkFiles, batch_in_words, batch_key, batch_name, batch_number
from manager.storage.object_store import is_object_store
from manager.storage.sealed_files import delete_all
from manager.storage.segment_files import epoch_of
from manager.storage.segments import Ref, SegmentStore
from topologies.engine.failures import FIX, in_this_process, raising_as
from topologies.engine.task_data import SinkBatch, SinkRows
from topologies.graph.graph import Graph, SinkNode
from topologies.io.kafka import KafkaSink
from topologies.io.paths import locate
from topologies.io.sinks import (
    ConsoleSink,
    FileSink,
    FunctionSink,
    MemorySink,
    TableSink,
    begin_in_memory,
    claim_memory,
    release_memory,
)
from windowing.errors import CheckpointError, ConfigError, SinkError
from windowing.reprs import printable
from windowing.timestamps import from_datetime, show

# Locks on the sinks of a run: on folders, and on sinks in memory.

_UNSHARED_RUNS = count()
"""Numbers that tell runs apart whose checkpoints no other run can take over."""


class SinkLocks:
    """Locks a topology's sinks in memory, and the local folders of its file sinks, against other runs, from ``take``
    until ``release`` or the end of this process. Runs on one checkpoint share its sinks in memory, while one takes it
    over from the other.

    A folder itself is locked, not a file in it, so no file is left that a reader could find or that could outlive the
    process.
    """

    def __init__(self, topology: Graph, owner: str | None = None) -> None:
        """``owner``: the place of the checkpoint, if a run may take it over from another run in progress; else
        None."""
        self.topology, self._owner = topology, owner or f"run {next(_UNSHARED_RUNS)}"
        self._locked_folders: list[int] = []
        self._locked_memories: list[MemorySink] = []

    def take(self) -> None:
        """Locks all of them. Raises ConfigError if another run has locked one; then none stays locked."""
        try:
            for node in self.topology.sinks.values():
                if isinstance(node.sink, FileSink):
                    with storage_errors_about(f"sink {node.name!r}"):
                        self._lock_folder(node.name, node.sink.path)
                elif isinstance(node.sink, MemorySink):
                    self._lock_memory(node.name, node.sink)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Releases all locks."""
        while self._locked_folders:
            os.close(self._locked_folders.pop())
        while self._locked_memories:
            release_memory(self._locked_memories.pop(), self._owner)

    def _lock_memory(self, name: str, sink: MemorySink) -> None:
        if not claim_memory(sink, self._owner):
            raise ConfigError(
                f"sink {name!r}: another run is writing into this sinks.memory()",
                why="the rows of both would be mixed, and those of one would replace some of the other",
                do="stop that run, wait for its end, or build the topology with another sinks.memory()",
            )
        self._locked_memories.append(sink)

    def _lock_folder(self, sink: str, path: str) -> None:
        filesystem, folder, uri = locate(path)
        if uri is not None:
            return
        make_folder(filesystem, folder)
        with as_storage_error(folder, "opened"):
            self._locked_folders.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
        try:
            fcntl.flock(self._locked_folders[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                f"sink {sink!r}: another run is writing into {folder}",
                why="the files of both would have the same names, and one run would overwrite the other",
                do="stop that run, wait for its end, or name another folder",
            ) from error
        except OSError:  # the file system cannot lock folders
            os.close(self._locked_folders.pop())


# The folders of file sinks: their contents before a run, publishing files, and deleting failed attempts.


def prepare_sinks(topology: Graph, committed: Manifest | None, checkpoint: Checkpoint) -> None:
    """Creates the folders of file sinks, and checks their contents before a run writes there. Sinks in memory forget
    what is not of this checkpoint.

    ``committed``: the manifest that was committed last. Its files are published, in case the run before died between
    the commit and that. None for a new run, which must not mix its files with those of another.
    """
    if committed is not None:
        publish(committed, again=True)
    last_key = None if committed is None else batch_key(committed.batch, committed.closing)
    for node in topology.sinks.values():
        if isinstance(node.sink, MemorySink):
            begin_in_memory(node.sink, checkpoint.place, last_key)
        elif isinstance(node.sink, FileSink):
            filesystem, folder, _ = locate(node.sink.path)
            with storage_errors_about(f"sink {node.name!r}"):
                make_folder(filesystem, folder)
                if isinstance(filesystem, pafs.LocalFileSystem):
                    refresh_listing(folder)
                    sync_names(os.path.dirname(folder), folder)  # an earlier process may have died before it did so
                if last_key is None and not checkpoint.planned(batch_key(0, False)):
                    _refuse_files_of_another_run(node.name, filesystem, folder)
                else:
                    refuse_later_files(
                        node.name, filesystem, folder, last_key or batch_key(-1, True), checkpoint.planned
                    )
    delete_unpublished_files(topology, checkpoint.epoch)


def sync_written_files(topology: Graph, paths_by_sink: Mapping[str, Sequence[str]]) -> dict[str, SinkFiles]:
    """Returns the files that tasks have written for sinks, as the manifest lists them; their bytes then survive a power
    cut.

    ``paths_by_sink``: the paths of hidden files by sink. Called before the commit.
    """
    found: dict[str, SinkFiles] = {}
    for name, paths in paths_by_sink.items():
        sink = topology.sinks[name].sink
        assert isinstance(sink, FileSink)
        with storage_errors_about(f"sink {name!r}"):
            _, folder, uri = locate(sink.path)
            for path in paths if uri is None else ():
                sync_file(path)
            if uri is None and paths:
                sync_names(folder)
        found[name] = SinkFiles(folder=sink.path, drafts=[path.rsplit("/", 1)[-1] for path in paths])
    return found


def publish(manifest: Manifest, *, again: bool = False) -> None:
    """Renames the files of a committed batch to their final names.

    ``again``: True if an earlier run may have renamed files already.
    """
    key = batch_key(manifest.batch, manifest.closing)
    for name, files in manifest.files.items():
        with storage_errors_about(f"sink {name!r}"):
            _rename_to_final(key, files, again=again)


def delete_unpublished_files(topology: Graph, epoch: int = 0) -> None:
    """Deletes unpublished files of failed attempts in the folders of file sinks, except those of a run with a later
    claim on the checkpoint. Afterwards all renamed files survive a power cut."""
    for node in topology.sinks.values():
        if isinstance(node.sink, FileSink):
            filesystem, folder, uri = locate(node.sink.path)
            ending = f".{node.sink.format.name}"
            with storage_errors_about(f"sink {node.name!r}"):
                _delete(filesystem, folder, uri, partial(_is_unpublished, ending=ending, epoch=epoch))
                if uri is None:
                    sync_folder(folder)


def refuse_later_files(
    name: str, filesystem: pafs.FileSystem, folder: str, last_key: str, planned: Callable[[str], bool]
) -> None:
    """Raises CheckpointError if the folder contains files of later batches, for example because an older checkpoint was
    restored.

    These files are not deleted: until all their batches have run, it is unknown which rows will be produced again.
    """
    later = later_files(filesystem, folder, last_key)
    expected = {key for key in next_batches(last_key) if planned(key)}
    unexpected = [base for base in later if batch_of_file(base) not in expected]
    if unexpected:
        raise CheckpointError(
            f"sink {name!r}: {folder} holds {len(unexpected)} files of batches after {batch_name(last_key)}, the last "
            f"of the checkpoint, such as {unexpected[0]}",
            why="the checkpoint is older than these files, and the run would write their rows again",
        )


def later_files(filesystem: pafs.FileSystem, folder: str, last_key: str) -> list[str]:
    """Returns the names of files that sinks published in a folder in batches after ``last_key``, sorted."""
    bases = [entry.base_name for entry in entries(filesystem, folder) if entry.type == pafs.FileType.File]
    return sorted(base for base in bases if (key := batch_of_file(base)) is not None and key > last_key)


def batch_of_file(name: str) -> str | None:
    """Returns the key of the batch that wrote a sink's file (decision 8); None for other file names."""
    match = re.fullmatch(r"batch-(-?\d{9,}(?:-close)?)-\d{4,}\.\w+", name)
    return None if match is None else match[1]


def next_batches(last_key: str) -> tuple[str, ...]:
    """Returns the keys of the batches that may follow ``last_key``."""
    following = batch_key(batch_number(last_key) + 1, False)
    return (following,) if last_key.endswith("-close") else (batch_key(batch_number(last_key), True), following)


def _rename_to_final(key: str, files: SinkFiles, *, again: bool) -> None:
    filesystem, folder, uri = locate(files["folder"])
    if again and uri is None:
        refresh_listing(folder)
    existing = {entry.base_name for entry in entries(filesystem, folder)} if again else None
    names = [
        (f"{folder}/{draft}", f"{folder}/batch-{key}-{number:04d}.{draft.rsplit('.', 1)[-1]}")
        for number, draft in enumerate(files["drafts"])
        if existing is None or draft in existing
    ]
    if not names:
        return
    if uri is not None and is_object_store(uri):
        with as_storage_error(folder, "written to"):
            object_store.rename_objects(uri, names)
        return
    if uri is not None and is_hdfs(uri):
        with as_storage_error(folder, "written to"):
            hdfs.rename_files(uri, names)
        return
    for hidden, target in names:
        move(filesystem, hidden, target)
    if uri is None:
        sync_names(folder)


def _refuse_files_of_another_run(name: str, filesystem: pafs.FileSystem, folder: str) -> None:
    found = entries(filesystem, folder, missing_ok=False)
    published = [entry.base_name for entry in found if entry.base_name.startswith("batch-")]
    if published:
        raise ConfigError(
            f"sink {name!r}: {folder} holds {len(published)} files of another run, such as {min(published)}",
            why="this run starts from the beginning: its files would replace some of them and be mixed with the rest",
            do="name another folder, or delete these files; to continue that run, use its checkpoint",
        )


def _is_unpublished(base: str, ending: str, epoch: int) -> bool:
    """True for the name of an unpublished file of a task, by this owner or an earlier one: ``.<batch>-<epoch>-<32
    hexadecimal digits>.<format>``, without the epoch if a lock excludes other owners."""
    stem = os.path.splitext(base)[0]
    is_draft = stem.startswith(".") and len(stem.rsplit("-", 1)[-1]) == 32 and stem[1:2].isdigit()
    return base.endswith(ending) and is_draft and epoch_of(base) <= epoch


def _delete(filesystem: pafs.FileSystem, folder: str, uri: str | None, should_delete: Callable[[str], bool]) -> None:
    found = [
        entry for entry in entries(filesystem, folder, missing_ok=uri is not None) if should_delete(entry.base_name)
    ]
    delete_all(filesystem, uri, [entry.path for entry in found if entry.type == pafs.FileType.File])


# Protocol for the part of sinks that needs Spark or Kafka.


class EngineSinks(Protocol):
    """Writes to sinks that need Spark or Kafka; the rows are in segments."""

    def frame(self, store: SegmentStore, refs: list[Ref], schema: pa.Schema) -> object:
        """Returns the rows as a Spark DataFrame for a user's function."""
        ...

    def send(self, node: SinkNode, batch: SinkBatch, sink_rows: list[SinkRows], store: SegmentStore) -> None:
        """Writes the rows to Kafka."""
        ...

    def append(self, node: SinkNode, batch: SinkBatch, refs: list[Ref], store: SegmentStore) -> None:
        """Appends the rows to a table, unless an earlier attempt of the batch has done so."""
        ...


def no_catalog(sink: str) -> ConfigError:
    """Returns the error for a sink that appends to a table, in a run without Spark."""
    return ConfigError(
        f"sink {sink!r} appends to a table, which a local run cannot do",
        why="the catalog of tables is Spark's, and a local run has no Spark",
        do="run on Spark, or give the topology another sink: sinks.files(), sinks.memory()",
    )


# A sink's row as lines of text that fit the terminal.


LINE = 80
"""Length of a line if there is no terminal and COLUMNS is not set."""
_FIRST_INDENT, _NEXT_INDENT, _CELL_GAP = "   ", "     ", "  "


def row_lines(row: Mapping[str, object], width: int) -> list[str]:
    """Returns the columns of a row with their values, ``width`` characters per line; a longer value has its own
    line."""
    lines = [_FIRST_INDENT]
    for column, value in row.items():
        cell = f"{printable(column)}={printable(_as_text(value))}"
        gap = "" if lines[-1] in (_FIRST_INDENT, _NEXT_INDENT) else _CELL_GAP
        if gap and len(lines[-1]) + len(gap) + len(cell) > width:
            lines.append(_NEXT_INDENT + cell)
        else:
            lines[-1] += gap + cell
    return lines


def _as_text(value: object) -> str:
    return show(from_datetime(value)) if isinstance(value, datetime) and value.tzinfo else str(value)


# Writes the rows of a batch to the sinks that the driver writes to.


def write_rows(
    node: SinkNode, batch: SinkBatch, sink_rows: list[SinkRows], store: SegmentStore, engine_sinks: EngineSinks | None
) -> None:
    """Writes the rows of a batch to a sink. ``engine_sinks``: None if the engine has no sinks of its own, as in tests,
    where all sinks are in memory."""
    sink, key = node.sink, batch.key
    refs = [rows.ref for rows in sink_rows]
    match sink:
        case MemorySink():
            sink.batches[key] = _table(store, refs)
        case ConsoleSink():
            _print_rows(node.name, key, store, refs, sink.rows)
        case FunctionSink(_, "spark"):
            assert engine_sinks is not None
            _call_function(node.name, sink, engine_sinks.frame(store, refs, node.schema), batch)
        case FunctionSink(_, "arrow"):
            _call_function(node.name, sink, _table(store, refs), batch)
        case FunctionSink():
            _call_function(node.name, sink, _table(store, refs).to_pandas(), batch)
        case KafkaSink():
            assert engine_sinks is not None
            engine_sinks.send(node, batch, sink_rows, store)
        case TableSink():
            assert engine_sinks is not None
            engine_sinks.append(node, batch, refs, store)


def _call_function(name: str, sink: FunctionSink, rows: object, batch: SinkBatch) -> None:
    """Calls the function of a sink. Turns its exceptions into SinkError; errors of windbolt pass unchanged."""
    words = batch_in_words(batch.key)
    what, do = f"the function of sink {name!r} failed, in {words}", f"{FIX}: {words} was not committed, and runs again"
    with raising_as(SinkError, what, do=do, sink=name):
        in_this_process(lambda: sink.function(rows, batch.serial))


def cannot_retract(node: SinkNode) -> bool:
    """True for a sink that cannot retract rows: its receivers never learn that a batch was not committed."""
    return isinstance(node.sink, FunctionSink | KafkaSink | TableSink)


def _table(store: SegmentStore, refs: Sequence[Ref]) -> pa.Table:
    store.prefetch(refs)
    return pa.concat_tables([store.read(ref) for ref in refs])


def _print_rows(name: str, key: str, store: SegmentStore, refs: list[Ref], most_rows: int) -> None:
    total = sum(ref.rows for ref in refs)
    shown: list[dict[str, object]] = []
    for ref in refs:
        if len(shown) < most_rows:
            shown.extend(store.read(ref).slice(0, most_rows - len(shown)).to_pylist())
    rows_in_words = f"{total} row{'' if total == 1 else 's'}"
    print(
        f"-- {name}, batch {batch_name(key)}: {rows_in_words}{f', the first {most_rows}' if total > most_rows else ''}"
    )
    width = get_terminal_size((LINE, 0)).columns
    for row in shown:
        print("\n".join(row_lines(row, width)))
