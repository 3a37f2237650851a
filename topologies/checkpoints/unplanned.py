"""Files that Spark has noted for a batch which it did not come to note.

Spark notes the files of a batch (``sources/<source>/<entry>``) before it notes the batch (``offsets/<batch>``). After a
death between the two it would give the entry and a further one to the same batch, which no run without a death does
(decision 32).
"""

from __future__ import annotations

import json

import pyarrow.fs as pafs

from manager.storage.files import entries, path_type
from topologies.checkpoints.spark_files import read_spark_file, write_spark_file
from windowing.errors import CheckpointError


def forget_unplanned(filesystem: pafs.FileSystem, root: str) -> None:
    """Empty the entries that belong to no batch yet, before a query starts: Spark lists their files again then.

    For all sources of files, also those of streaming DataFrames. CheckpointError where Spark's half, in ``root``,
    cannot be read.
    """
    try:
        batches = [int(name) for name in _names(filesystem, f"{root}/offsets") if name.isdigit()]
        planned = _lines(filesystem, f"{root}/offsets/{max(batches)}")[2:] if batches else []
        for source in _names(filesystem, f"{root}/sources"):
            if not source.isdigit():
                continue
            last = _last_entry(planned[int(source)] if int(source) < len(planned) else "-")
            if last is None:
                continue
            for name in _names(filesystem, f"{root}/sources/{source}"):
                number = name.removesuffix(".compact")
                if number.isdigit() and int(number) > last:
                    _empty(filesystem, f"{root}/sources/{source}", name, last)
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"Spark's record of files in {root} cannot be read or corrected",
            why=f"{type(error).__name__}: {error}",
            do="use a version of Spark with which windbolt is tested",
        ) from error


def _last_entry(offset: str) -> int | None:
    """The last entry that a line of ``offsets/`` names; None where the source is none of files."""
    if offset == "-":
        return -1
    try:
        found = json.loads(offset)
    except ValueError:
        return None
    return int(found["logOffset"]) if isinstance(found, dict) and found.keys() == {"logOffset"} else None


def _empty(filesystem: pafs.FileSystem, folder: str, name: str, last: int) -> None:
    """Take out of a file of the log what came after the entry ``last``; at no moment is there half of it.

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
    write_spark_file(filesystem, f"{folder}/{name}", "\n".join([version, *kept]), summed=summed)


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
