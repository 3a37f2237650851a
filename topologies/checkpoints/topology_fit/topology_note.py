"""The note of the topology that a checkpoint belongs to: whether another one may run on it, and with how many tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manager.storage.manifest import Manifest
from manager.storage.verified_reads import read_manifest, read_note
from topologies.checkpoints.note_names import START, TOPOLOGY
from topologies.checkpoints.paired_checkpoint import START_OVER, PairedCheckpoint
from topologies.checkpoints.topology_fit.fingerprint import (
    bolts_that_differ,
    differences,
    fingerprint,
    parallelism_in,
    with_parallelism,
)
from topologies.checkpoints.topology_fit.new_columns import NewColumns
from topologies.topology import Topology
from windowing.errors import CheckpointError, DamagedCheckpoint
from windowing.time.timestamps import show


def check_fit(
    halves: PairedCheckpoint, topology: Topology, first_output: int | None = None, *, allow_rescale: bool = False
) -> None:
    """CheckpointError where there is a checkpoint, and it is another topology's, or began at another output.

    Nothing is locked or written: this is checked again when the checkpoint is opened. ``first_output`` in microseconds;
    None for any. ``allow_rescale``: other numbers of tasks are let pass; whoever runs moves the state.
    """
    note = read_note(halves.files, TOPOLOGY)
    if note is not None:
        check_topology(halves, topology, note, allow_rescale=allow_rescale)
        began = halves.files.read(START)
        if began is not None:
            check_start(halves, began["first_output"], first_output)


def check_topology(
    halves: PairedCheckpoint, topology: Topology, note: dict[str, Any], *, allow_rescale: bool = False
) -> None:
    """CheckpointError, with all that differs, where a topology is not the one that was noted."""
    now = fingerprint(topology)
    note = NewColumns.of(note, now, topology).note
    known = with_parallelism(note, parallelism_in(now) if allow_rescale else noted_tasks(halves))
    changed = differences(known, now)
    if changed:
        only_tasks = not differences(with_parallelism(note, parallelism_in(now)), now)
        move = "move its state to the tasks that there are now (--allow-rescale, or windbolt rescale), "
        names = bolts_that_differ(known, now)
        over = f"let {', '.join(map(repr, names))} start over (windbolt reset), "
        raise CheckpointError(
            f"checkpoint {halves.path!r} belongs to another topology:\n" + "\n".join(f"  - {each}" for each in changed),
            why="its events were distributed and stored for the topology as it was then",
            do=f"run the topology as it was, {move if only_tasks else over if names else ''}or {START_OVER}",
        )


def check_start(halves: PairedCheckpoint, began: int | None, wanted: int | None) -> None:
    """CheckpointError where a first output is wanted, and the checkpoint began at another one, or without one; both in
    microseconds."""
    if wanted is None or wanted == began:
        return
    was = "without one" if began is None else f"with the one at {show(began)}"
    raise CheckpointError(
        f"checkpoint {halves.path!r} cannot have its first output at {show(wanted)}: it was begun {was}",
        why="what was read and emitted so far depends on the first output",
        do=f"leave it out to continue as before; or {START_OVER}",
    )


def with_tasks(halves: PairedCheckpoint, tasks: Mapping[str, int]) -> dict[str, Any]:
    """The note with other numbers of tasks. Where a manifest has others than the note, the manifest counts."""
    return with_parallelism(read_note(halves.files, TOPOLOGY), tasks)


def noted_tasks(halves: PairedCheckpoint) -> dict[str, int]:
    """Per windowed bolt, how many tasks it has: after the last batch or, before the first, as they were noted."""
    manifest = _last_manifest(halves)
    if manifest is None:
        note = read_note(halves.files, TOPOLOGY)
        return {} if note is None else parallelism_in(note)
    return {name: len(bolt.tasks) for name, bolt in manifest.bolts.items()}


def wanted_tasks(halves: PairedCheckpoint, topology: Topology) -> dict[str, int]:
    """Per bolt of which the topology wants another number of tasks than the checkpoint has: that number."""
    wanted = parallelism_in(fingerprint(topology))
    return {name: wanted[name] for name, tasks in noted_tasks(halves).items() if wanted.get(name, tasks) != tasks}


def _last_manifest(halves: PairedCheckpoint) -> Manifest | None:
    """That of the last batch. Where a run is in progress, the one that was listed last may be gone when it is
    read: then there is a later one."""
    keys = halves.files.names("manifests")
    while keys:
        try:
            return read_manifest(halves.files, keys[-1])
        except DamagedCheckpoint:
            listed, keys = keys, halves.files.names("manifests")
            if keys[-1:] == listed[-1:]:
                raise
    return None
