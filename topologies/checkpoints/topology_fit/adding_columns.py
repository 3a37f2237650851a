"""Gives the events that a checkpoint keeps the columns that are new to their bolts, with their defaults or nulls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from manager.storage.checkpoint import FileCheckpoint
from manager.storage.file_systems.storage_errors import during
from manager.storage.manifest import BoltState, Manifest
from manager.storage.segments.event_segments import STREAM_COLUMN
from manager.storage.segments.ref import Ref
from manager.storage.segments.refs import Refs
from manager.storage.segments.segments import SegmentStore, SegmentWriter
from manager.storage.task_state import AssignedState, TaskState
from manager.storage.verified_reads import read_note
from topologies.checkpoints.claiming import claimed, keeping_runs_off, telling_who_took_over
from topologies.checkpoints.matching_halves import check_halves, check_unclaimed
from topologies.checkpoints.note_names import ADDING_COLUMNS, TOPOLOGY
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.topology_fit.fingerprint import fingerprint
from topologies.checkpoints.topology_fit.new_columns import NewColumns
from topologies.checkpoints.topology_fit.topology_note import check_fit
from topologies.checkpoints.way_back import naming_a_way_back
from topologies.graph.nodes.windowed import WindowedNode
from topologies.io.defaults import in_words
from topologies.run.attempts import Attempts
from topologies.topology import Topology
from windowing.data.returned_rows import DEFAULT_STREAM
from windowing.errors import CheckpointError

OfInputs: TypeAlias = "list[pa.Array | None]"
"""The default of a column in the events of each input of a bolt, alone in an array; None where there is none."""


def add_columns(
    halves: PairedCheckpoint, topology: Topology, first_output: int | None = None, attempts: Attempts | None = None
) -> dict[str, dict[str, str | None]]:
    """Give the events that a checkpoint keeps the new columns of a topology; the caller has locked it.

    Returns them per windowed bolt, each with the default that events have there, in words; None where they have nulls.
    CheckpointError, before anything is written, where the topology does not fit otherwise (``check_fit``). Of a process
    that dies meanwhile a run of the same topology does the rest, and no other begins. ``attempts``: those of the run
    that does this, which claims the checkpoint where no lock keeps others off.
    """
    with naming_a_way_back(halves):
        new = _look(halves, topology, first_output)
        if new is None:
            return {}
        manifest = check_unclaimed(halves)
        checkpoint = claimed(halves, attempts or Attempts())
        with telling_who_took_over(checkpoint):
            if halves.uri is not None:
                new, manifest = _look(halves, topology, first_output), check_halves(halves)
            if new is None:  # another run has done it
                return {}
            with (
                during(
                    "adding columns to the events that are kept", "run the same topology again, which does the rest"
                ),
                keeping_runs_off(halves, ADDING_COLUMNS, {"topology": new.note}),
            ):
                after = None if manifest is None else _rewritten(checkpoint, manifest, topology, new)
                checkpoint.replace(after, {TOPOLOGY: new.note}, alone=True)  # earlier batches are as the topology was
    return {
        name: {field.name: _in_words(_defaults(field.name, node, topology), node) for field in fields}
        for name, fields in new.of_bolts.items()
        for node in [topology.windowed[name]]
    }


def _defaults(column: str, node: WindowedNode, topology: Topology) -> OfInputs:
    """The default of a column in each input of a bolt: those that are no spouts have none."""
    streams = [each.stream for each in node.inputs]
    return [
        topology.spouts[name].defaults.columns.get(column)
        if name in topology.spouts and stream == DEFAULT_STREAM
        else None
        for name, stream in streams
    ]


def _in_words(defaults: OfInputs, node: WindowedNode) -> str | None:
    """What the events of before have in a column, in words: ``'EUR'``, or ``'EUR' (orders), null (refunds)``."""
    if not any(default is not None for default in defaults):
        return None
    words = ["null" if default is None else in_words(default) for default in defaults]
    if len(set(words)) == 1:
        return words[0]
    return ", ".join(f"{each} ({label})" for each, label in zip(words, node.streams, strict=True))


def _look(halves: PairedCheckpoint, topology: Topology, first_output: int | None) -> NewColumns | None:
    """What is new; None for nothing."""
    note, begun = read_note(halves.files, TOPOLOGY), halves.files.read(ADDING_COLUMNS)
    new = None if note is None else NewColumns.of(note, fingerprint(topology), topology)
    if new is not None and begun is not None and new.note != begun["topology"]:
        raise _begun_for_another(halves)
    if new is None or (new.note == note and begun is None):
        return None
    check_fit(halves, topology, first_output)
    return new


def _begun_for_another(halves: PairedCheckpoint) -> CheckpointError:
    return CheckpointError(
        f"checkpoint {halves.path!r} was being given new columns when a run died",
        why="some of the events that it keeps may have them already",
        do="run the topology that has these columns once more; after that run, others are compared with it",
    )


def _rewritten(checkpoint: FileCheckpoint, manifest: Manifest, topology: Topology, new: NewColumns) -> Manifest:
    after = Manifest.from_values(manifest.to_values())
    for name, fields in new.of_bolts.items():
        node = topology.windowed[name]
        if name in after.bolts and node.slicing is None:  # sums have the columns of the key and the aggregates alone
            added = {field: _defaults(field.name, node, topology) for field in fields}
            with checkpoint.segments.writer(checkpoint.folder(manifest)) as writer:
                after.bolts[name] = _widened(after.bolts[name], added, node.schema, checkpoint.segments, writer)
    return after


def _widened(
    bolt: BoltState, added: Mapping[pa.Field, OfInputs], schema: pa.Schema, store: SegmentStore, writer: SegmentWriter
) -> BoltState:
    def widened(ref: Ref) -> Ref:
        table = store.read(replace(ref, start=0))  # flags are of all rows
        for field, defaults in added.items():
            if field.name in table.column_names:  # of a run that died, which may have had another default
                table = table.drop_columns([field.name])
            table = table.append_column(field, _column(table, field, defaults))
        rest = [name for name in table.column_names if name not in schema.names]
        there = writer.add(table.select([*schema.names, *rest]))
        return replace(ref, segment=there.segment, offset=there.offset, length=there.length, checksum=there.checksum)

    def of_task(task: TaskState) -> TaskState:
        windows = task.windows
        if isinstance(windows, AssignedState) and windows.end_edges is not None:
            windows = replace(windows, end_edges=widened(windows.end_edges))
        return replace(task, windows=windows, refs=Refs.packed(widened(ref) for ref in task.refs))

    return replace(bolt, tasks=[of_task(task) for task in bolt.tasks])


def _column(table: pa.Table, field: pa.Field, defaults: OfInputs) -> pa.Array:
    """The new column of stored events: each has the default of the input that it came by."""
    if not any(default is not None for default in defaults):
        return pa.nulls(len(table), field.type)
    choices = pa.concat_arrays([pa.nulls(1, field.type) if default is None else default for default in defaults])
    if STREAM_COLUMN not in table.column_names:  # then all are of the first input
        return choices.take(pa.array(np.zeros(len(table), np.int64)))
    return choices.take(table.column(STREAM_COLUMN).combine_chunks())
