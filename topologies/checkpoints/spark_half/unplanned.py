"""Files that Spark has noted for a batch which it did not come to note.

Spark notes the files of a batch (``sources/<source>/<entry>``) before it notes the batch (``offsets/<batch>``). After a
death between the two it would give the entry and a further one to the same batch, which no run without a death does
(decision 32).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pyarrow.fs as pafs

from manager.storage.file_systems.files import entries, path_type
from topologies.checkpoints.spark_half.spark_files import read_spark_file, write_spark_file
from windowing.errors import CheckpointError


def forget_unplanned(filesystem: pafs.FileSystem, root: str, check_owner: Callable[[], None]) -> None:
    """Empty the entries that belong to no batch yet, before a query starts: Spark lists their files again then.

    For all sources of files, also those of streaming DataFrames. ``check_owner`` raises CheckpointError where another
    run has taken the checkpoint over. It is called when all has been read: what was there by then is not of that run,
    and what that run has noted since is left alone. CheckpointError where Spark's half, in ``root``, cannot be read.
    """
    try:
        unplanned = _all_unplanned(filesystem, root)
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"Spark's record of files in {root} cannot be read or corrected",
            why=f"{type(error).__name__}: {error}",
            do="use a version of Spark with which windbolt is tested",
        ) from error
    if unplanned:
        check_owner()
    for path, text, summed in unplanned:
        write_spark_file(filesystem, path, text, summed=summed)


def _all_unplanned(filesystem: pafs.FileSystem, root: str) -> list[tuple[str, str, bool]]:
    """Those of one moment: read again where another run has planned a batch meanwhile."""
    while True:
        batch = _last_batch(filesystem, root)
        found = list(_unplanned(filesystem, root, batch))
        if not found or _last_batch(filesystem, root) == batch:
            return found


def _last_batch(filesystem: pafs.FileSystem, root: str) -> int | None:
    return max((int(name) for name in _names(filesystem, f"{root}/offsets") if name.isdigit()), default=None)


def _unplanned(filesystem: pafs.FileSystem, root: str, batch: int | None) -> Iterator[tuple[str, str, bool]]:
    """The files of the logs that have entries after those of a batch, each with what is left of its text, and whether
    it is summed."""
    planned = [] if batch is None else _lines(filesystem, f"{root}/offsets/{batch}")[2:]
    for source in _names(filesystem, f"{root}/sources"):
        if not source.isdigit():
            continue
        last = _last_entry(planned[int(source)] if int(source) < len(planned) else "-")
        if last is None:
            continue
        for name in _names(filesystem, f"{root}/sources/{source}"):
            number = name.removesuffix(".compact")
            if number.isdigit() and int(number) > last:
                yield from _emptied(filesystem, f"{root}/sources/{source}", name, last)


def _last_entry(offset: str) -> int | None:
    """The last entry that a line of ``offsets/`` names; None where the source is none of files."""
    if offset == "-":
        return -1
    try:
        found = json.loads(offset)
    except ValueError:
        return None
    return int(found["logOffset"]) if isinstance(found, dict) and found.keys() == {"logOffset"} else None


def _emptied(filesystem: pafs.FileSystem, folder: str, name: str, last: int) -> Iterator[tuple[str, str, bool]]:
    """A file of the log without what came after the entry ``last``, if there is something.

    Not deleted: every tenth file of the log holds the entries before it too, which Spark may have deleted already.
    """
    version, *lines = _lines(filesystem, f"{folder}/{name}")
    lines = [line for line in lines if line]
    if not all(map(_is_file, lines)):
        return  # the log of another kind of source
    kept = [line for line in lines if json.loads(line)["batchId"] <= last]
    if len(kept) == len(lines):
        return
    summed = path_type(filesystem, f"{folder}/.{name}.crc") == pafs.FileType.File
    # Where there is no checksum, none is asked for.
    yield f"{folder}/{name}", "\n".join([version, *kept]), summed


def _is_file(line: str) -> bool:
    """Whether a line is one of a log of files."""
    try:
        found = json.loads(line)
    except ValueError:
        return False
    return isinstance(found, dict) and found.keys() >= {"path", "timestamp", "batchId"}


def _names(filesystem: pafs.FileSystem, folder: str) -> list[str]:
    return sorted(entry.base_name for entry in entries(filesystem, folder))


def _lines(filesystem: pafs.FileSystem, path: str) -> list[str]:
    return read_spark_file(filesystem, path).split("\n")
