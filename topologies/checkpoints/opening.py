"""Opens a checkpoint for a run: its halves and its topology are checked, and what is new is noted."""

from __future__ import annotations

import os
from dataclasses import dataclass

from manager.storage.checkpoint import KEPT_BATCHES, FileCheckpoint
from manager.storage.file_systems.storage_errors import as_storage_error
from manager.storage.manifest import Manifest
from topologies.checkpoints.claiming import claimed, telling_who_took_over
from topologies.checkpoints.matching_halves import check_halves, check_unclaimed
from topologies.checkpoints.note_names import START, TOPOLOGY
from topologies.checkpoints.notes.sinks_note import note_sinks
from topologies.checkpoints.notes.timing_note import note_timing
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.rescaling.movable import note_movable
from topologies.checkpoints.topology_fit.fingerprint import fingerprint
from topologies.checkpoints.topology_fit.topology_note import check_fit, check_start, check_topology
from topologies.checkpoints.way_back import naming_a_way_back
from topologies.run.attempts import Attempts
from topologies.topology import Topology


@dataclass(frozen=True)
class OpenCheckpoint:
    """A checkpoint that a run has."""

    files: FileCheckpoint
    """Our half."""
    first_output: int | None
    """Where the run that made it started, in microseconds, if that was at the time of an output."""


def open_checkpoint(
    halves: PairedCheckpoint,
    topology: Topology,
    first_output: int | None = None,
    keep: int = KEPT_BATCHES,
    attempts: Attempts | None = None,
) -> OpenCheckpoint:
    """CheckpointError, with what to do, where the halves do not fit each other, the topology or the start.

    Where no lock keeps others off, a run that has it loses it to this one; but a further attempt of a run that had it
    takes it from no other run. ``first_output``: where the run is to start; None: at its input, or where the run before
    it did. ``keep``: so many of the last batches are kept.
    """
    is_new = halves.uri is None and not halves.has_our_half
    with naming_a_way_back(halves):
        manifest = _check_unclaimed(halves, topology, first_output)
        files = claimed(halves, attempts or Attempts(), keep)
        with telling_who_took_over(files):
            if halves.uri is not None:
                manifest = check_halves(halves)
            opened = OpenCheckpoint(files, _noted(halves, files, topology, first_output))
            _note_for_others(halves, topology, manifest)
    if is_new:
        make_halves(halves)
    return opened


def _check_unclaimed(halves: PairedCheckpoint, topology: Topology, first_output: int | None) -> Manifest | None:
    """Nothing has been written when this refuses. Where no lock keeps others off, a run in progress loses the
    checkpoint only to one that fits."""
    manifest = check_unclaimed(halves)
    if halves.uri is not None:
        check_fit(halves, topology, first_output)
    return manifest


def _noted(halves: PairedCheckpoint, files: FileCheckpoint, topology: Topology, first_output: int | None) -> int | None:
    """Where the run that made the checkpoint started. This run is noted in a new one, and compared with an old one."""
    files.latest()
    note = files.read_note(TOPOLOGY)
    if note is None:
        files.write_note(START, {"first_output": first_output})  # first: where the other is, this is
        files.write_note(TOPOLOGY, fingerprint(topology))
        return first_output
    check_topology(halves, topology, note)
    began: int | None = (files.read_note(START) or {})["first_output"]
    check_start(halves, began, first_output)
    return began


def _note_for_others(halves: PairedCheckpoint, topology: Topology, manifest: Manifest | None) -> None:
    """What those want to know who look at the checkpoint later; no run depends on it."""
    note_timing(halves.files, topology)
    note_movable(halves.files, topology)
    note_sinks(halves.files, topology, -1 if manifest is None else manifest.batch)


def make_halves(halves: PairedCheckpoint) -> None:
    """Make the folders of a new checkpoint on this machine: nobody else comes past them, whatever the files in them
    allow."""
    for half in ("windbolt", "spark"):
        with as_storage_error(f"{halves.root}/{half}", "made"):
            os.makedirs(f"{halves.root}/{half}", exist_ok=True)
            os.chmod(f"{halves.root}/{half}", 0o700)
