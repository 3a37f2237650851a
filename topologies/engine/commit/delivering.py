"""Serving sinks from the driver: publishing the files that tasks wrote, and handing rows to sinks."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.fs as pafs

from manager.storage.checkpoint import batch_key, batch_of, step_name
from manager.storage.files import delete, entries, is_there, make_folder, move, sync_file
from manager.storage.segments import Ref, SegmentStore
from manager.storage.trouble import touching_for
from topologies.engine.batch.forks import in_this_process
from topologies.engine.batch.plan import SinkRows
from topologies.graph.model import SinkNode, Topology
from topologies.io.kafka import KafkaSink
from topologies.io.places import locate
from topologies.io.sinks import ConsoleSink, FileSink, FunctionSink, MemorySink
from windowing.data.printable import printable
from windowing.errors import CheckpointError, ConfigError


@dataclass(frozen=True)
class SinkBatch:
    """The batch whose rows a sink receives."""

    topology: str
    origin: str
    """Id of the checkpoint: step numbers start again with a new one."""
    key: str
    step: int
    """The unique number of the step (see ``BatchPlan.step``)."""

    def record_name(self, sink: str, sink_rows: SinkRows) -> str:
        """Prefix of the ids of records, without their number; the same when the batch runs again."""
        return f"{self.topology}/{self.origin}/{sink}/{sink_rows.origin}/{self.step}"


class Frames(Protocol):
    """What Spark does for sinks, with rows that lie in segments."""

    def frame(self, store: SegmentStore, refs: list[Ref], schema: pa.Schema) -> object:
        """The rows as a Spark DataFrame, for a function."""
        ...

    def send(self, node: SinkNode, batch: SinkBatch, sink_rows: list[SinkRows], store: SegmentStore) -> None:
        """Write the rows to Kafka."""
        ...


class NoSpark:
    """Serves a run without Spark: raises ConfigError for a DataFrame or for Kafka."""

    def frame(self, store: SegmentStore, refs: list[Ref], schema: pa.Schema) -> object:
        raise ConfigError(
            "a sink's function needs a Spark DataFrame, and a local run has no Spark",
            do="use foreach_batch(function, frame='arrow') or frame='pandas', or run on Spark",
        )

    def send(self, node: SinkNode, batch: SinkBatch, sink_rows: list[SinkRows], store: SegmentStore) -> None:
        raise ConfigError(
            f"sink {node.name!r} writes to Kafka, which a local run cannot do",
            why="Spark's connector writes to Kafka, and a local run has no Spark",
            do="run on Spark, or give the topology another sink: sinks.memory(), sinks.console()",
        )


def publish(topology: Topology, key: str, written: Mapping[str, list[str]], *, again: bool) -> None:
    """Rename the files of a batch to their final names. Files that an earlier attempt at the batch published are
    replaced."""
    for name, node in topology.sinks.items():
        if isinstance(node.sink, FileSink):
            with touching_for(f"sink {name!r}"):
                _publish(node.sink, key, written.get(name, ()), again=again)


def _publish(sink: FileSink, key: str, written: Sequence[str], *, again: bool) -> None:
    filesystem, folder, _ = locate(sink.path)
    names = []
    for number, hidden in enumerate(written):
        names.append(f"batch-{key}-{number:04d}.{sink.format.name}")
        target = f"{folder}/{names[-1]}"
        if again and is_there(filesystem, target):
            delete(filesystem, target)  # some file systems do not rename onto an existing file
        if isinstance(filesystem, pafs.LocalFileSystem):
            sync_file(hidden)  # the file must survive a power cut if the later commit does
        move(filesystem, hidden, target)
    if again:
        _delete(filesystem, folder, lambda base: base.startswith(f"batch-{key}-") and base not in names)


def prepare_folders(topology: Topology, last: str | None, planned: Callable[[str], bool]) -> None:
    """Create the folders of file sinks, and check what lies there before a run writes beside it.

    ``last`` is the step that was committed last; None for a new run, which must not mix its files with those of
    another. ``planned`` says whether a step has been planned, and so may have left files, which it will replace.
    """
    for node in topology.sinks.values():
        if isinstance(node.sink, FileSink):
            filesystem, folder, _ = locate(node.sink.path)
            with touching_for(f"sink {node.name!r}"):
                make_folder(filesystem, folder)
                if last is None and not planned(batch_key(0, False)):
                    _refuse_others(node.name, filesystem, folder)
                else:
                    refuse_later(node.name, filesystem, folder, last or batch_key(-1, True), planned)
    tidy_folders(topology)


def refuse_later(
    name: str, filesystem: pafs.FileSystem, folder: str, last: str, planned: Callable[[str], bool]
) -> None:
    """Raise CheckpointError where the folder holds files of later steps, for example because an older checkpoint was
    restored.

    They are not deleted: which of their rows will be produced again is unknown before all their batches have run.
    """
    later = later_files(filesystem, folder, last)
    expected = {key for key in next_steps(last) if planned(key)}
    unexpected = [base for base in later if step_of(base) not in expected]
    if unexpected:
        raise CheckpointError(
            f"sink {name!r}: {folder} holds {len(unexpected)} files of batches after {step_name(last)}, the last of "
            f"the checkpoint, such as {unexpected[0]}",
            why="the checkpoint is older than these files, and the run would write their rows again",
        )


def later_files(filesystem: pafs.FileSystem, folder: str, last: str) -> list[str]:
    """Names of the files that sinks published in a folder in steps after this one, sorted."""
    bases = [entry.base_name for entry in entries(filesystem, folder) if entry.type == pafs.FileType.File]
    return sorted(base for base in bases if (step := step_of(base)) is not None and step > last)


def step_of(name: str) -> str | None:
    """The step that wrote a sink's file (decision 8); None for any other file name."""
    match = re.fullmatch(r"batch-(-?\d{9,}(?:-close)?)-\d{4,}\.\w+", name)
    return None if match is None else match[1]


def next_steps(last: str) -> tuple[str, ...]:
    """The steps that may follow a step."""
    following = batch_key(batch_of(last) + 1, False)
    return (following,) if last.endswith("-close") else (batch_key(batch_of(last), True), following)


def tidy_folders(topology: Topology) -> None:
    """Delete the unpublished files that failed attempts left in the folders of file sinks."""
    for node in topology.sinks.values():
        if isinstance(node.sink, FileSink):
            filesystem, folder, _ = locate(node.sink.path)
            suffix = f".{node.sink.format.name}"
            with touching_for(f"sink {node.name!r}"):
                _delete(filesystem, folder, lambda base, end=suffix: _is_draft(base) and base.endswith(end))


def _refuse_others(name: str, filesystem: pafs.FileSystem, folder: str) -> None:
    found = entries(filesystem, folder, missing=False)
    published = [entry.base_name for entry in found if entry.base_name.startswith("batch-")]
    if published:
        raise ConfigError(
            f"sink {name!r}: {folder} holds {len(published)} files of another run, such as {min(published)}",
            why="this run starts from the beginning: its files would replace some of them and be mixed with the rest",
            do="name another folder, or delete these files; to continue that run, use its checkpoint",
        )


def hand_over(node: SinkNode, batch: SinkBatch, sink_rows: list[SinkRows], store: SegmentStore, frames: Frames) -> None:
    """Hand the rows of a batch to a sink that the driver serves."""
    sink, key, step = node.sink, batch.key, batch.step
    refs = [rows.ref for rows in sink_rows]
    match sink:
        case MemorySink():
            sink.batches[key] = _table(store, refs)
        case ConsoleSink():
            _show(node.name, key, store, refs, sink.rows)
        case FunctionSink(function, "spark"):
            in_this_process(lambda: function(frames.frame(store, refs, node.schema), step))
        case FunctionSink(function, "arrow"):
            in_this_process(lambda: function(_table(store, refs), step))
        case FunctionSink(function, _):
            in_this_process(lambda: function(_table(store, refs).to_pandas(), step))
        case KafkaSink():
            frames.send(node, batch, sink_rows, store)


def _table(store: SegmentStore, refs: Iterable[Ref]) -> pa.Table:
    return pa.concat_tables([store.read(ref) for ref in refs])


def _show(name: str, key: str, store: SegmentStore, refs: list[Ref], most: int) -> None:
    total = sum(ref.rows for ref in refs)
    shown: list[dict[str, object]] = []
    for ref in refs:
        if len(shown) < most:
            shown.extend(store.read(ref).slice(0, most - len(shown)).to_pylist())
    print(f"-- {name}, batch {key}: {total} rows{f', the first {most}' if total > most else ''}")
    for row in shown:
        print("   " + "  ".join(f"{printable(column)}={printable(str(value))}" for column, value in row.items()))


def _is_draft(base: str) -> bool:
    """Whether a name is that of an unpublished file of a task: ``.<batch>-<32 hexadecimal digits>.<format>``."""
    stem = os.path.splitext(base)[0]
    return stem.startswith(".") and len(stem.rsplit("-", 1)[-1]) == 32 and stem[1:2].isdigit()


def _delete(filesystem: pafs.FileSystem, folder: str, doomed: object) -> None:
    for entry in entries(filesystem, folder, missing=False):
        if entry.type == pafs.FileType.File and doomed(entry.base_name):  # type: ignore[operator]
            delete(filesystem, entry.path)
