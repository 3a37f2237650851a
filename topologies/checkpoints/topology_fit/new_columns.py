"""Columns that a spout has now and had not when its checkpoint was made: the events from before get them, with nulls.

Only columns of spouts, that bolts read from these directly: of what other bolts emit nothing is noted, so a column that
is new to a bolt may be one that was there and was not kept. Nor for bolts that retract: the rows that they might take
back are kept with the columns that they had.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from manager.storage.batch_keys import batch_key
from manager.storage.checkpoint import FileCheckpoint
from manager.storage.file_systems.storage_errors import during
from manager.storage.manifest import BoltState, Manifest
from manager.storage.segments.ref import Ref
from manager.storage.segments.refs import Refs
from manager.storage.segments.segments import SegmentStore, SegmentWriter
from manager.storage.task_state import AssignedState, TaskState
from topologies.checkpoints.matching_halves import check_halves
from topologies.checkpoints.note_names import ADDING_COLUMNS, TOPOLOGY
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.topology_fit.fingerprint import fingerprint
from topologies.checkpoints.way_back import naming_a_way_back
from topologies.graph.nodes.windowed import WindowedNode
from topologies.topology import Topology
from windowing.data.schema import parse_schema
from windowing.errors import CheckpointError, ConfigError

_OF_STREAM = "columns of "


@dataclass(frozen=True)
class NewColumns:
    """What a topology has that the note of its checkpoint has not."""

    note: dict[str, Any]
    """The note, as it is with them."""
    of_bolts: dict[str, list[pa.Field]]
    """Per windowed bolt, its new columns."""

    @staticmethod
    def of(note: dict[str, Any], topology: Topology) -> NewColumns:
        """Those that may be added: the spouts and bolts are the same otherwise, or differ in what is refused anyway."""
        now = fingerprint(topology)
        spouts, new = dict(note["spouts"]), dict[str, set[str]]()
        for name in spouts.keys() & now["spouts"].keys():
            for stream in [key for key in spouts[name] if key.startswith(_OF_STREAM) and key in now["spouts"][name]]:
                added = _added(spouts[name][stream], now["spouts"][name][stream])
                if added:
                    new.setdefault(name, set()).update(added)
                    spouts[name] = {**spouts[name], stream: now["spouts"][name][stream]}
        bolts, of_bolts = dict(note["bolts"]), dict[str, list[pa.Field]]()
        for name in bolts.keys() & now["bolts"].keys():
            added = _added(bolts[name]["columns"], now["bolts"][name]["columns"])
            node = topology.windowed[name]
            if added is None or node.retracts or not any(each.stream[0] in new for each in node.inputs):
                continue
            if all(_comes_from_spouts(column, node, topology, new) for column in added):
                of_bolts[name] = [node.schema.field(column) for column in added]
                bolts[name] = {**bolts[name], "columns": now["bolts"][name]["columns"]}
        return NewColumns({**note, "spouts": spouts, "bolts": bolts}, of_bolts)


def add_columns(halves: PairedCheckpoint, topology: Topology) -> dict[str, list[str]]:
    """Give the events that a checkpoint keeps the new columns of a topology, with nulls; the caller has locked it.

    Returns them per windowed bolt. CheckpointError, before anything is written, where it is not on this machine. Of a
    process that dies meanwhile a run of the same topology does the rest, and no other begins.
    """
    with naming_a_way_back(halves):
        note, begun = halves.files.read(TOPOLOGY), halves.files.read(ADDING_COLUMNS)
        new = None if note is None else NewColumns.of(note, topology)
        if new is not None and begun is not None and new.note != begun["topology"]:
            raise _begun_for_another(halves)
        if new is None or (new.note == note and begun is None):
            return {}
        _check_place(halves)
        manifest = check_halves(halves)
        with during("adding columns to the events that are kept", "run the same topology again, which does the rest"):
            halves.files.write(ADDING_COLUMNS, {"topology": new.note})
            if manifest is not None:
                _rewrite(halves, manifest, topology, new)
            halves.files.write(TOPOLOGY, new.note)
            halves.files.delete(ADDING_COLUMNS)
            halves.files.sync()
    return {name: [field.name for field in fields] for name, fields in new.of_bolts.items()}


def _added(was: str, now: str) -> list[str] | None:
    """The columns that are new; None where others are gone, or have another type, or one that has no name here."""
    if was == now:
        return []
    try:
        before, after = parse_schema(was), parse_schema(now)
    except ConfigError:
        return None
    kept = [field.name for field in after if field.name in before.names]
    if len(kept) < len(before) or any(before.field(name).type != after.field(name).type for name in kept):
        return None
    return [name for name in after.names if name not in before.names]


def _comes_from_spouts(column: str, node: WindowedNode, topology: Topology, new: dict[str, set[str]]) -> bool:
    """Whether no input of a bolt can have had the column before."""
    for each in node.inputs:
        component, stream = each.stream
        if component in topology.spouts:
            had = column in topology.spouts[component].outputs[stream].names
            if had and column not in new.get(component, ()):
                return False
        else:
            emits = topology.windowed.get(component) or topology.plain[component]
            if column in emits.outputs[stream].names:
                return False
    return True


def _check_place(halves: PairedCheckpoint) -> None:
    if halves.uri is not None:
        raise CheckpointError(
            f"the events in checkpoint {halves.path!r} cannot be given new columns",
            why="it is not on this machine: no lock keeps a run off it while its manifest is replaced",
            do="leave the columns as they were; or take a savepoint of it to a folder on this machine, run once from "
            "that, and take a savepoint back",
        )


def _begun_for_another(halves: PairedCheckpoint) -> CheckpointError:
    return CheckpointError(
        f"checkpoint {halves.path!r} was being given new columns when a run died",
        why="some of the events that it keeps may have them already",
        do="run the topology that has these columns once more; after that run, others are compared with it",
    )


def _rewrite(halves: PairedCheckpoint, manifest: Manifest, topology: Topology, new: NewColumns) -> None:
    checkpoint = FileCheckpoint(halves.files.root, halves.uri)
    after = Manifest.from_values(manifest.to_values())
    for name, fields in new.of_bolts.items():
        node = topology.windowed[name]
        if name in after.bolts and node.slicing is None:  # sums have the columns of the key and the aggregates alone
            with checkpoint.segments.writer(checkpoint.folder(manifest)) as writer:
                after.bolts[name] = _widened(after.bolts[name], fields, node.schema, checkpoint.segments, writer)
    # Earlier batches are of the topology as it was: there is no way back to them.
    key = batch_key(manifest.batch, manifest.closing)
    halves.files.delete(*(f"manifests/{each}" for each in halves.files.names("manifests") if each != key))
    checkpoint.replace(after)


def _widened(
    bolt: BoltState, fields: Sequence[pa.Field], schema: pa.Schema, store: SegmentStore, writer: SegmentWriter
) -> BoltState:
    def widened(ref: Ref) -> Ref:
        table = store.read(replace(ref, start=0))  # flags are of all rows
        for field in fields:
            if field.name not in table.column_names:  # else a run that died has done it
                table = table.append_column(field, pa.nulls(len(table), field.type))
        rest = [name for name in table.column_names if name not in schema.names]
        there = writer.add(table.select([name for name in schema.names if name in table.column_names] + rest))
        return replace(ref, segment=there.segment, offset=there.offset, length=there.length, checksum=there.checksum)

    def of_task(task: TaskState) -> TaskState:
        windows = task.windows
        if isinstance(windows, AssignedState) and windows.end_edges is not None:
            windows = replace(windows, end_edges=widened(windows.end_edges))
        return replace(task, windows=windows, refs=Refs.packed(widened(ref) for ref in task.refs))

    return replace(bolt, tasks=[of_task(task) for task in bolt.tasks])
