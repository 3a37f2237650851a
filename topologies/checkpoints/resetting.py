"""Bolts of a checkpoint start over, by another topology; the rest continues.

On this machine the state of several bolts and the note about the topology cannot be replaced in one step. A note says
that it has begun, and is deleted last: while it is there no run begins, and to reset again does what is left to do.
Elsewhere one turn replaces both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from manager.accounts import Accounts
from manager.storage.batch_keys import batch_key, batch_name
from manager.storage.checkpoint import FileCheckpoint
from manager.storage.file_systems.storage_errors import during
from manager.storage.manifest import BoltState, Manifest
from manager.storage.task_state import BoltTaskState, TaskState
from manager.storage.verified_reads import read_note
from topologies.checkpoints.claiming import claimed, keeping_runs_off, telling_who_took_over
from topologies.checkpoints.matching_halves import check_halves, check_unclaimed
from topologies.checkpoints.note_names import RESETTING, TOPOLOGY
from topologies.checkpoints.notes.timing_note import note_timing
from topologies.checkpoints.paired_checkpoint import START_OVER, PairedCheckpoint
from topologies.checkpoints.rescaling.movable import note_movable
from topologies.checkpoints.topology_fit.fingerprint import differences, fingerprint, without_bolts
from topologies.checkpoints.way_back import naming_a_way_back
from topologies.engine.fire.families import family_of
from topologies.graph.nodes.windowed import WindowedNode
from topologies.topology import Topology
from windowing.errors import CheckpointError, ConfigError
from windowing.suggestions import did_you_mean


@dataclass
class Reset:
    """What a reset has done."""

    batch: str | None
    """The batch after which this is the state; None where none has been committed yet."""
    discarded: dict[str, int] = field(default_factory=dict)
    """Per bolt that starts over, or is gone: its events that were in no window yet. They are purged now."""


def reset_bolts(halves: PairedCheckpoint, names: Collection[str], topology: Topology) -> Reset:
    """Let bolts start over after the last batch of a checkpoint, which the caller has locked.

    ``topology`` is the one to continue with: what differs in it from the checkpoint's must be of the bolts that are
    named, which may be new or gone, or columns of spouts that only these read. ConfigError or CheckpointError, before
    anything is written, where that is not so.
    """
    with naming_a_way_back(halves):
        manifest = _look(halves, names, topology, check_unclaimed)
        checkpoint = claimed(halves, "windbolt reset")
        with telling_who_took_over(checkpoint):
            if halves.uri is not None:
                manifest = _look(halves, names, topology, check_halves)
            with during("letting bolts start over", "reset them once more; until then no run begins"):
                return _reset(halves, checkpoint, names, manifest, topology)


def _look(
    halves: PairedCheckpoint,
    names: Collection[str],
    topology: Topology,
    check: Callable[..., Manifest | None],
) -> Manifest | None:
    """The last manifest; ConfigError or CheckpointError where the bolts cannot start over."""
    with during("looking at what is to start over", "nothing was changed"):
        manifest = check(halves, resetting=True)
        known = read_note(halves.files, TOPOLOGY)
    now = fingerprint(topology)
    if known is None:
        raise CheckpointError(
            f"checkpoint {halves.path!r} holds nothing yet", why="no run has begun on it", do="run the topology on it"
        )
    _check_names(names, known, now)
    _check_rest(halves, names, known, now, topology)
    return manifest


def _reset(
    halves: PairedCheckpoint,
    checkpoint: FileCheckpoint,
    names: Collection[str],
    manifest: Manifest | None,
    topology: Topology,
) -> Reset:
    done = Reset(None if manifest is None else batch_name(batch_key(manifest.batch, manifest.closing)))
    after = None if manifest is None else Manifest.from_values(manifest.to_values())
    if after is not None:
        for name in names:
            before = after.bolts.pop(name, None)
            done.discarded[name] = 0 if before is None else sum(before.pending)
            if name in topology.windowed:
                after.bolts[name] = _started_over(topology.windowed[name], before)
        after.bolts = {name: after.bolts[name] for name in topology.windowed}
    with keeping_runs_off(halves, RESETTING, {"bolts": sorted(names)}):
        # The bolts of earlier batches have states of the topology as it was.
        checkpoint.replace(after, {TOPOLOGY: fingerprint(topology)}, alone=True)
        note_timing(halves.files, topology)
        note_movable(halves.files, topology)
    return done


def _started_over(node: WindowedNode, before: BoltState | None) -> BoltState:
    """A bolt before its first event, except for what has been counted: that never goes back."""
    tasks = [TaskState(family_of(node).fresh()) for _ in range(node.parallelism)]
    if before is None:
        return BoltState(Accounts(node.streams), tasks)
    counted = before.accounts.of_streams(before.pending)
    for counts in counted.values():
        counts["purged"] += counts.pop("pending")
    columns = next(iter(counted.values()), {})
    now = {name: [counted.get(stream, {}).get(name, 0) for stream in node.streams] for name in columns}
    total = BoltTaskState()
    for task in before.tasks:
        total = total.plus(task.bolt)
    tasks[0] = replace(tasks[0], bolt=replace(total, user={}, shown={}, needed_until=None))
    return BoltState(Accounts(node.streams, now), tasks)


def _check_names(names: Collection[str], known: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    there = {**known["bolts"], **now["bolts"]}
    for name in names:
        if name not in there:
            raise ConfigError(
                f"there is no windowed bolt {name!r}{did_you_mean(name, there)}",
                why=f"the checkpoint and the topology have {', '.join(there) or 'none'}; others keep nothing",
                do="name one of these",
            )


def _check_rest(
    halves: PairedCheckpoint,
    names: Collection[str],
    known: Mapping[str, Any],
    now: Mapping[str, Any],
    topology: Topology,
) -> None:
    """CheckpointError where something else differs than the bolts named."""
    before, after = (without_bolts(note, names) for note in (known, now))
    changed = differences(before, after)
    heartbeat = topology.needs_heartbeat
    beats = halves.spark_half.has_heartbeat(len(now["spouts"]))
    if not changed and beats is not None and beats != heartbeat:
        changed = [
            "windows follow the clock now, and none did before" if heartbeat else "no window follows the clock any more"
        ]
    if changed:
        raise CheckpointError(
            f"checkpoint {halves.path!r} cannot continue with this topology:\n"
            + "\n".join(f"  - {each}" for each in changed),
            why=f"only {', '.join(map(repr, names))} may differ; all else continues with what it has",
            do=f"name the other bolts too, leave the rest as it was, or {START_OVER}",
        )
