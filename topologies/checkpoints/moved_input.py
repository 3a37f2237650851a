"""Input that was moved together with the folder in which runs are started: its files are known, and not read again."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow.fs as pafs

from manager.storage.file_systems.files import path_type
from topologies.checkpoints.paired_checkpoint import START_OVER, PairedCheckpoint
from topologies.checkpoints.savepoints.relocation import Relocation
from topologies.checkpoints.spark_half.file_journal import path_of
from topologies.checkpoints.spark_half.spark_files import write_spark_file
from topologies.io.file_spout import FileSpout
from topologies.io.kafka import KafkaSpout
from topologies.io.patterns import folders_before
from topologies.io.spouts import FrameSpout
from topologies.topology import Topology
from windowing.errors import CheckpointError

_LAST = 100
"""How many of the files that were noted last tell whether runs were started elsewhere: a run that notes files has had
all others noted by its own folder first."""


def follow_moved_input(
    halves: PairedCheckpoint, topology: Topology, check_owner: Callable[[], None]
) -> dict[str, tuple[str, str]]:
    """Note the files of spouts with relative paths by the folder in which this run was started, if it is another one.

    Returns, by spout, where runs were started before and where this one was. A checkpoint knows files by their whole
    paths. Those that are not where they were, and are in this run's folder, of the same time, are the same files.
    CheckpointError where they may be others, or copies: they would be read again, or wrongly not at all.
    """
    of_files = sorted(name for name, node in topology.spouts.items() if not _has_rows(node.spout))
    found: dict[str, tuple[str, str]] = {}
    for source, name in enumerate(of_files):
        spout = topology.spouts[name].spout
        if isinstance(spout, FileSpout):
            moved = _moved(halves, name, spout, halves.spark_half.files(source))
            if moved is not None:
                check_owner()
                _rewrite(halves, source, Relocation((moved,)))
                found[name] = moved
    return found


def _has_rows(spout: object) -> bool:
    """True for the spouts that are not among the first sources of the query (spark/source.py)."""
    return isinstance(spout, KafkaSpout | FrameSpout)


def _moved(
    halves: PairedCheckpoint, name: str, spout: FileSpout, entries: list[dict[str, Any]]
) -> tuple[str, str] | None:
    moved, other = None, False
    if not any(_from_elsewhere(spout, entry) for entry in entries[-_LAST:]):
        return None
    for entry in entries:
        before = path_of(entry)
        for place, here in _from_elsewhere(spout, entry):
            with suppress(OSError):
                now = os.stat(here + before.removeprefix(place)).st_mtime_ns // 1_000_000
                moved = moved or (place, here)
                other = other or now != entry["timestamp"] or os.path.lexists(before) or (place, here) != moved
                break
    if moved is not None and other:
        place, here = moved
        raise CheckpointError(
            f"spout {name!r} would read files again that were read in {place!r}",
            why=f"its path {spout.path!r} is relative, and this run was started in {here!r}; there are files of the "
            "same names, and a checkpoint knows files by their whole paths",
            do=f"start the run in {place!r}; if these are copies of the same files, take the checkpoint along, "
            f"windbolt savepoint {halves.path} NEW --moved {place}={here}; or {START_OVER}",
        )
    return moved


def _from_elsewhere(spout: FileSpout, entry: dict[str, Any]) -> list[tuple[str, str]]:
    """As ``folders_before``; empty for a file that the path stands for now."""
    places = [each for path in spout.paths for each in folders_before(path, path_of(entry))]
    return [] if any(place == here for place, here in places) else places


def _rewrite(halves: PairedCheckpoint, source: int, relocation: Relocation) -> None:
    """The logs come last: what a run that dies here has not rewritten, the next one finds by them."""
    for folder in ("plans", "deadly"):
        for key in halves.files.names(folder):
            document = halves.files.read(f"{folder}/{key}")
            changed = relocation.document(document)
            if changed != document:
                halves.files.write(f"{folder}/{key}", changed)
    half = halves.spark_half
    for _, name in sorted(half.entries(source).items()):
        text = half.read(f"sources/{source}/{name}")
        changed = relocation.log(text)
        if changed != text:
            folder = f"{half.root}/sources/{source}"
            summed = path_type(half.filesystem, f"{folder}/.{name}.crc") == pafs.FileType.File
            write_spark_file(half.filesystem, f"{folder}/{name}", changed, summed=summed)
