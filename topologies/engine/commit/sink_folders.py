"""The folders of file sinks: what lies there before a run, the files that it publishes, and what it tidies up."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pyarrow.fs as pafs

from manager.storage.batch_keys import batch_key, batch_name, batch_of
from manager.storage.file_systems import hdfs, object_store
from manager.storage.file_systems.files import entries, list_anew, make_folder, move, sync_file, sync_folder, sync_names
from manager.storage.file_systems.hdfs import is_hdfs
from manager.storage.file_systems.object_store import is_object_store
from manager.storage.file_systems.storage_errors import as_storage_error, naming_owner
from manager.storage.manifest import Manifest, SinkFiles
from manager.storage.sealed_folder import delete_all
from manager.storage.segments.file_segments import epoch_of
from topologies.io.paths import locate
from topologies.io.sinks import FileSink
from topologies.topology import Topology
from windowing.errors import CheckpointError, ConfigError


def prepare_folders(
    topology: Topology, committed: Manifest | None, planned: Callable[[str], bool], epoch: int = 0
) -> None:
    """Create the folders of file sinks, and check what lies there before a run writes beside it.

    ``committed`` is the manifest that was committed last; its files are published, should the run before have died
    between the two. None for a new run, which must not mix its files with those of another. ``planned`` says whether a
    batch has been planned. ``epoch`` is that of the run's claim.
    """
    if committed is not None:
        publish(committed, again=True)
    last = None if committed is None else batch_key(committed.batch, committed.closing)
    for node in topology.sinks.values():
        if isinstance(node.sink, FileSink):
            filesystem, folder, _ = locate(node.sink.path)
            with naming_owner(f"sink {node.name!r}"):
                make_folder(filesystem, folder)
                if isinstance(filesystem, pafs.LocalFileSystem):
                    list_anew(folder)
                    sync_names(os.path.dirname(folder), folder)  # an earlier process may have died before it did so
                if last is None and not planned(batch_key(0, False)):
                    _refuse_others(node.name, filesystem, folder)
                else:
                    refuse_later(node.name, filesystem, folder, last or batch_key(-1, True), planned)
    tidy_folders(topology, epoch)


def ready(topology: Topology, written: Mapping[str, Sequence[str]]) -> dict[str, SinkFiles]:
    """The files that tasks have written for sinks, as the manifest notes them; their bytes survive a power cut.

    ``written`` has the paths of hidden files by sink. Called before the commit.
    """
    found: dict[str, SinkFiles] = {}
    for name, paths in written.items():
        sink = topology.sinks[name].sink
        assert isinstance(sink, FileSink)
        with naming_owner(f"sink {name!r}"):
            _, folder, uri = locate(sink.path)
            for path in paths if uri is None else ():
                sync_file(path)
            if uri is None and paths:
                sync_names(folder)
        found[name] = SinkFiles(folder=sink.path, drafts=[path.rsplit("/", 1)[-1] for path in paths])
    return found


def publish(manifest: Manifest, *, again: bool = False) -> None:
    """Rename the files of a batch that is committed to their final names.

    ``again``: an earlier run may have done so with some of them, or with all.
    """
    key = batch_key(manifest.batch, manifest.closing)
    for name, files in manifest.files.items():
        with naming_owner(f"sink {name!r}"):
            _publish(key, files, again=again)


def tidy_folders(topology: Topology, epoch: int = 0) -> None:
    """Delete the unpublished files that failed attempts left in the folders of file sinks; not those of a run that has
    claimed the checkpoint since. What was renamed survives a power cut then."""
    for node in topology.sinks.values():
        if isinstance(node.sink, FileSink):
            filesystem, folder, uri = locate(node.sink.path)
            ending = f".{node.sink.format.name}"
            with naming_owner(f"sink {node.name!r}"):
                _delete(filesystem, folder, uri, partial(_is_left, ending=ending, epoch=epoch))
                if uri is None:
                    sync_folder(folder)


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


def _publish(key: str, files: SinkFiles, *, again: bool) -> None:
    filesystem, folder, uri = locate(files["folder"])
    if again and uri is None:
        list_anew(folder)
    there = {entry.base_name for entry in entries(filesystem, folder)} if again else None
    names = [
        (f"{folder}/{draft}", f"{folder}/batch-{key}-{number:04d}.{draft.rsplit('.', 1)[-1]}")
        for number, draft in enumerate(files["drafts"])
        if there is None or draft in there
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


def _refuse_others(name: str, filesystem: pafs.FileSystem, folder: str) -> None:
    found = entries(filesystem, folder, missing=False)
    published = [entry.base_name for entry in found if entry.base_name.startswith("batch-")]
    if published:
        raise ConfigError(
            f"sink {name!r}: {folder} holds {len(published)} files of another run, such as {min(published)}",
            why="this run starts from the beginning: its files would replace some of them and be mixed with the rest",
            do="name another folder, or delete these files; to continue that run, use its checkpoint",
        )


def _is_left(base: str, ending: str, epoch: int) -> bool:
    """Whether a name is that of an unpublished file of a task, of this owner's or of one before:
    ``.<batch>-<epoch>-<32 hexadecimal digits>.<format>``, where a lock keeps others off without the epoch."""
    stem = os.path.splitext(base)[0]
    is_draft = stem.startswith(".") and len(stem.rsplit("-", 1)[-1]) == 32 and stem[1:2].isdigit()
    return base.endswith(ending) and is_draft and epoch_of(base) <= epoch


def _delete(filesystem: pafs.FileSystem, folder: str, uri: str | None, doomed: Callable[[str], bool]) -> None:
    found = [entry for entry in entries(filesystem, folder, missing=uri is not None) if doomed(entry.base_name)]
    delete_all(filesystem, uri, [entry.path for entry in found if entry.type == pafs.FileType.File])
