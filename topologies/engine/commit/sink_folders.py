"""The folders of file sinks: what lies there before a run, the files that it publishes, and what it tidies up."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pyarrow.fs as pafs

from manager.storage.checkpoint import batch_key, batch_name, batch_of
from manager.storage.files import delete, entries, is_there, make_folder, move, sync_file
from manager.storage.storage_errors import naming_owner
from topologies.io.paths import locate
from topologies.io.sinks import FileSink
from topologies.topology import Topology
from windowing.errors import CheckpointError, ConfigError


def prepare_folders(topology: Topology, last: str | None, planned: Callable[[str], bool]) -> None:
    """Create the folders of file sinks, and check what lies there before a run writes beside it.

    ``last`` is the key of the batch that was committed last; None for a new run, which must not mix its files with
    those of another. ``planned`` says whether a batch has been planned, and so may have left files, which it will
    replace.
    """
    for node in topology.sinks.values():
        if isinstance(node.sink, FileSink):
            filesystem, folder, _ = locate(node.sink.path)
            with naming_owner(f"sink {node.name!r}"):
                make_folder(filesystem, folder)
                if last is None and not planned(batch_key(0, False)):
                    _refuse_others(node.name, filesystem, folder)
                else:
                    refuse_later(node.name, filesystem, folder, last or batch_key(-1, True), planned)
    tidy_folders(topology)


def publish(topology: Topology, key: str, written: Mapping[str, list[str]], *, again: bool) -> None:
    """Rename the files of a batch to their final names. Files that an earlier attempt at the batch published are
    replaced."""
    for name, node in topology.sinks.items():
        if isinstance(node.sink, FileSink):
            with naming_owner(f"sink {name!r}"):
                _publish(node.sink, key, written.get(name, ()), again=again)


def tidy_folders(topology: Topology) -> None:
    """Delete the unpublished files that failed attempts left in the folders of file sinks."""
    for node in topology.sinks.values():
        if isinstance(node.sink, FileSink):
            filesystem, folder, _ = locate(node.sink.path)
            with naming_owner(f"sink {node.name!r}"):
                _delete(filesystem, folder, partial(_is_draft, ending=f".{node.sink.format.name}"))


def refuse_later(
    name: str, filesystem: pafs.FileSystem, folder: str, last: str, planned: Callable[[str], bool]
) -> None:
    """Raise CheckpointError where the folder holds files of later batches, for example because an older checkpoint was
    restored.

    They are not deleted: which of their rows will be produced again is unknown before all their batches have run.
    """
    later = later_files(filesystem, folder, last)
    expected = {key for key in next_batches(last) if planned(key)}
    unexpected = [base for base in later if batch_of_file(base) not in expected]
    if unexpected:
        raise CheckpointError(
            f"sink {name!r}: {folder} holds {len(unexpected)} files of batches after {batch_name(last)}, the last of "
            f"the checkpoint, such as {unexpected[0]}",
            why="the checkpoint is older than these files, and the run would write their rows again",
        )


def later_files(filesystem: pafs.FileSystem, folder: str, last: str) -> list[str]:
    """Names of the files that sinks published in a folder in batches after this one, sorted."""
    bases = [entry.base_name for entry in entries(filesystem, folder) if entry.type == pafs.FileType.File]
    return sorted(base for base in bases if (key := batch_of_file(base)) is not None and key > last)


def batch_of_file(name: str) -> str | None:
    """The key of the batch that wrote a sink's file (decision 8); None for any other file name."""
    match = re.fullmatch(r"batch-(-?\d{9,}(?:-close)?)-\d{4,}\.\w+", name)
    return None if match is None else match[1]


def next_batches(last: str) -> tuple[str, ...]:
    """The keys of the batches that may follow one."""
    following = batch_key(batch_of(last) + 1, False)
    return (following,) if last.endswith("-close") else (batch_key(batch_of(last), True), following)


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


def _refuse_others(name: str, filesystem: pafs.FileSystem, folder: str) -> None:
    found = entries(filesystem, folder, missing=False)
    published = [entry.base_name for entry in found if entry.base_name.startswith("batch-")]
    if published:
        raise ConfigError(
            f"sink {name!r}: {folder} holds {len(published)} files of another run, such as {min(published)}",
            why="this run starts from the beginning: its files would replace some of them and be mixed with the rest",
            do="name another folder, or delete these files; to continue that run, use its checkpoint",
        )


def _is_draft(base: str, ending: str) -> bool:
    """Whether a name is that of an unpublished file of a task: ``.<batch>-<32 hexadecimal digits>.<format>``."""
    stem = os.path.splitext(base)[0]
    return base.endswith(ending) and stem.startswith(".") and len(stem.rsplit("-", 1)[-1]) == 32 and stem[1:2].isdigit()


def _delete(filesystem: pafs.FileSystem, folder: str, doomed: Callable[[str], bool]) -> None:
    for entry in entries(filesystem, folder, missing=False):
        if entry.type == pafs.FileType.File and doomed(entry.base_name):
            delete(filesystem, entry.path)
