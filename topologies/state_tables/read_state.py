"""``windbolt.state``: what a checkpoint holds, as tables, from the checkpoint alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import pyarrow as pa

from manager.storage.batch_keys import batch_key, batch_name, key_of
from manager.storage.file_systems.storage_errors import UNREADABLE
from manager.storage.manifest import Manifest
from manager.storage.segments.file_segments import FileSegments
from manager.storage.verified_reads import read_manifest, read_note
from topologies.checkpoints.note_names import TOPOLOGY
from topologies.checkpoints.notes.looked_at import checkpoint_at, known_timing, the_only_bolt, timing_of
from topologies.checkpoints.notes.timing_note import BoltTiming
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.engine.time.first_output import as_moment
from topologies.state_tables.bolt_tables import bolt_tables
from topologies.state_tables.event_table import event_table
from topologies.state_tables.key_table import key_table, policy_tables
from topologies.state_tables.overview import account_table, bolts_table, task_table, watermark_table
from topologies.state_tables.selection import Selection
from topologies.state_tables.stored_state import StoredState
from topologies.state_tables.task_reader import TaskReader, key_columns
from topologies.state_tables.window_table import window_table
from windowing.calls.checked import checked
from windowing.data.schema import parse_schema
from windowing.errors import CheckpointError, ConfigError

Looked = TypeVar("Looked")
_ATTEMPTS = 5
"""How often a checkpoint is read again because a run has meanwhile deleted what was about to be read."""


@checked
def bolts(checkpoint: str | os.PathLike[str], *, batch: str | int | None = None) -> pa.Table:
    """A row for each windowed bolt of a checkpoint: tasks, watermark, accounts, windows fired, rows emitted.

    ``batch``: after an earlier one that is kept, ``7`` or ``"7-close"``; None: after the last. Nothing is changed, and
    a run may be in progress. Raises CheckpointError where there is no checkpoint, or not that batch.
    """
    halves = checkpoint_at(os.fspath(checkpoint))
    return _undisturbed(halves, lambda: bolts_table(_manifest(halves, batch).bolts))


@checked
def read(
    checkpoint: str | os.PathLike[str],
    bolt: str | None = None,
    *,
    task: int | None = None,
    key: str | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    batch: str | int | None = None,
) -> StoredState:
    """What a checkpoint holds of a windowed bolt, as tables; ``state.read("ck/", "revenue").to_pandas("windows")``.

    ``bolt`` may be left out where there is only one. ``task``: of this task alone. ``key``: only of this key; of
    several columns with commas between them. ``since`` and ``until``, datetimes or ISO 8601: events from the one time
    on and before the other, and windows that end there. ``batch``: after an earlier one that is kept, ``7`` or
    ``"7-close"``; None: after the last.

    Nothing is changed, and a run may be in progress. Raises CheckpointError where there is no checkpoint, one of
    another format, or not that batch; ConfigError for a bolt, task or key that it does not have.
    """
    halves = checkpoint_at(os.fspath(checkpoint))
    known = known_timing(halves)
    name = the_only_bolt(halves, known) if bolt is None else bolt
    timing = timing_of(known, name, key)
    wanted = Selection(task=task, key=key, since=_moment("since", since), until=_moment("until", until))
    return _undisturbed(halves, lambda: _read(halves, name, timing, wanted, batch))


def _read(
    halves: PairedCheckpoint, name: str, timing: BoltTiming, wanted: Selection, batch: str | int | None
) -> StoredState:
    manifest = _manifest(halves, batch)
    if name not in manifest.bolts:
        return StoredState(checkpoint=halves.path, bolt=name, batch=_named(manifest), clock=manifest.clock, tables={})
    bolt, store = manifest.bolts[name], FileSegments(f"{halves.files.root}/segments", halves.uri)
    if wanted.task is not None and not 0 <= wanted.task < len(bolt.tasks):
        raise ConfigError(
            f"bolt {name!r} has no task {wanted.task}",
            why=f"it has {len(bolt.tasks)}, numbered from 0",
            do="give one of these numbers",
        )
    tasks = [TaskReader(bolt, number, store, timing) for number in wanted.tasks(len(bolt.tasks))]
    keys, streams = timing.columns_of_keys, bolt.accounts.streams
    by_input = keys if len(keys) == len(streams) else keys * len(streams)
    columns, of_key = stored_columns(halves, name, timing)
    tables = {
        "accounts": account_table(bolt),
        "tasks": task_table(tasks),
        "watermarks": watermark_table(bolt),
        "events": wanted.events(event_table(tasks, streams, columns), dict(zip(streams, by_input, strict=True))),
        "windows": wanted.rows(window_table(tasks, manifest.clock, of_key), keys, "end"),
        "keys": wanted.rows(key_table(tasks, of_key), keys, None),
        **{
            table: wanted.rows(rows, keys, None)
            for table, rows in {**policy_tables(tasks, of_key), **bolt_tables(tasks)}.items()
        },
    }
    return StoredState(checkpoint=halves.path, bolt=name, batch=_named(manifest), clock=manifest.clock, tables=tables)


def noted_bolt(halves: PairedCheckpoint, name: str) -> dict[str, Any]:
    """What the note of the topology says of a bolt; empty where it says nothing."""
    found: dict[str, Any] = (read_note(halves.files, TOPOLOGY) or {"bolts": {}})["bolts"].get(name, {})
    return found


def stored_columns(halves: PairedCheckpoint, name: str, timing: BoltTiming) -> tuple[pa.Schema, pa.Schema]:
    """The columns of a bolt's stored events, as far as they are the user's, and those of its key."""
    note = noted_bolt(halves, name)
    columns = parse_schema(note["columns"]) if note.get("columns") else pa.schema([])
    shown = [columns.field(each) for each in key_columns(timing) if each in columns.names]
    stored = [column for column in columns if column.name in timing.key] if "sums" in note else list(columns)
    return pa.schema(stored), pa.schema(shown if any(timing.keys) else [])


def _undisturbed(halves: PairedCheckpoint, look: Callable[[], Looked]) -> Looked:
    """What is found; once more where a run has committed meanwhile, and may have deleted what was about to be read."""
    for _ in range(_ATTEMPTS):
        before = halves.files.names("manifests")
        try:
            return look()
        except UNREADABLE:
            if halves.files.names("manifests") == before:
                raise
    return look()


def _manifest(halves: PairedCheckpoint, batch: str | int | None) -> Manifest:
    keys = halves.files.names("manifests")
    if batch is None:
        return read_manifest(halves.files, keys[-1]) if keys else Manifest()
    key = key_of(str(batch))
    if key is None:
        raise ConfigError(
            f"batch {batch!r}",
            why="that is not a batch",
            do="give a number, such as 7, or 7-close for the closing after it",
        )
    if key not in keys:
        kept = f"kept are {', '.join(map(batch_name, keys))}" if keys else "no batch has been committed"
        raise CheckpointError(
            f"checkpoint {halves.path!r} does not have batch {batch_name(key)}",
            why=f"{kept} (--keep-batches of a run says how many)",
            do="name one of these" if keys else "run the topology on it first",
        )
    return read_manifest(halves.files, key)


def _named(manifest: Manifest) -> str | None:
    if manifest.batch < 0 and not manifest.closing:
        return None
    return batch_name(batch_key(manifest.batch, manifest.closing))


def _moment(name: str, given: datetime | str | None) -> int | None:
    try:
        return None if given is None else as_moment(given)
    except ConfigError as error:
        raise ConfigError(
            f"{name}={given!r} is not a time", why=error.why, do="write it in ISO 8601, such as 2024-01-01T12:00:00Z"
        ) from error
