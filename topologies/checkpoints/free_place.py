"""A place for a checkpoint that is made of something else: of another one, or of events that are given."""

from __future__ import annotations

import pyarrow.fs as pafs

from manager.storage.file_systems.files import delete_folder, is_there
from manager.storage.file_systems.storage_errors import as_storage_error
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from windowing.errors import CheckpointError

_STATE = ("manifests", "plans", "deadly", "segments", "turns", "runs")


def check_empty(target: PairedCheckpoint, what: str) -> None:
    """CheckpointError, which begins with ``what``, where something is there already."""
    names = _files_in(target)
    if names:
        there = "a checkpoint" if target.found else "files"
        raise CheckpointError(
            f"{what} in {target.path!r}",
            why=f"it holds {there} already, such as {min(names)}",
            do="name a folder that is empty, or not there yet",
        )


def empty_out(target: PairedCheckpoint, keep: str) -> None:
    """Delete what an attempt before has left; the note ``keep`` says meanwhile that it is not complete."""
    target.files.delete(*(name for name in target.files.names("") if name != keep))
    for folder in [*(f"windbolt/{name}" for name in _STATE), "spark"]:
        if is_there(target.filesystem, f"{target.root}/{folder}"):
            delete_folder(target.filesystem, f"{target.root}/{folder}")


def _files_in(target: PairedCheckpoint) -> list[str]:
    """The files of a folder by their paths in it; not the hidden ones, among them what an attempt died with that had
    written nothing else."""
    selector = pafs.FileSelector(target.root, recursive=True, allow_not_found=True)
    with as_storage_error(target.root, "listed"):
        found = target.filesystem.get_file_info(selector)
    files = [entry for entry in found if entry.type == pafs.FileType.File and not entry.base_name.startswith(".")]
    return sorted(entry.path.removeprefix(f"{target.root}/") for entry in files)
