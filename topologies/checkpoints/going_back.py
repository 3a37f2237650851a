"""Going back to an earlier batch: what came after it is set aside, in both halves of the checkpoint and at sinks.

Nothing is deleted. A note says that it has begun, and is deleted last: while it is there no run begins, and to go back
again does what is left to do. So it may be interrupted anywhere.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

import pyarrow.fs as pafs

from manager.storage.batch_keys import batch_name, batch_of
from manager.storage.file_systems.files import (
    delete_folder,
    is_there,
    list_anew,
    make_folder,
    move,
    sync_folders_below,
    sync_names,
)
from manager.storage.file_systems.storage_errors import UNREADABLE, during
from manager.storage.verified_reads import kept_batches
from topologies.checkpoints.claiming import claim_back_to
from topologies.checkpoints.matching_halves import check_whole
from topologies.checkpoints.note_names import GOING_BACK
from topologies.checkpoints.notes.sinks_note import SINKS, SinkNote, read_sinks
from topologies.checkpoints.paired_checkpoint import START_OVER, PairedCheckpoint
from topologies.checkpoints.spark_half.spark_files import write_spark_file
from topologies.checkpoints.unfinished import back_to_command, check_beginning_complete
from topologies.checkpoints.way_back import whole_batches
from topologies.engine.commit.sink_folders import batch_of_file, later_files
from topologies.io.paths import locate
from windowing.errors import CheckpointError


@dataclass
class Rollback:
    """What going back has done."""

    batch: str
    """The batch whose state it is now: ``7`` or ``7-close``."""
    folder: str
    """Where the files of the checkpoint are that came after it."""
    moved: int = 0
    """How many these are."""
    sinks: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Per folder of a sink: where its files are now, and how many."""
    warnings: list[str] = field(default_factory=list)
    """What cannot be gone back with."""


def go_back(halves: PairedCheckpoint, key: str) -> Rollback:
    """Go back to the state after a batch, so that the next run does the one after it again.

    The checkpoint is locked by the caller. Raises CheckpointError, and changes nothing, where that cannot be.
    """
    with during("looking at what can be gone back to", "nothing was changed"):
        _check(halves, key)
    with during(f"going back to batch {batch_name(key)}", "what is left to do is done then"):
        return _go_back(halves, key)


def _go_back(halves: PairedCheckpoint, key: str) -> Rollback:
    files = halves.files
    begun = _begun(halves, key)
    aside = f"after-{batch_name(key)}-{uuid.uuid4().hex[:8]}" if begun is None else begun
    files.write(GOING_BACK, {"to": key, "aside": aside})
    claim_back_to(halves, key)
    done = Rollback(batch_name(key), f"{halves.root}/set-aside/{aside}")
    later = [*files.names("manifests"), *files.names("plans")]
    passed = sorted({name for name in later if name > key})
    _spark_half(halves, key, done)
    _own_half(halves, key, done)
    _sinks(halves, key, aside, passed, done)
    if halves.uri is None:  # what was moved stays moved, before the note says that all of it was
        sync_folders_below(halves.root)
    files.delete(GOING_BACK)
    files.sync()
    done.folder = f"{halves.place}/set-aside/{aside}"
    return done


def _check(halves: PairedCheckpoint, key: str) -> None:
    check_beginning_complete(halves)
    keys = kept_batches(halves.files)
    try:
        check_whole(halves, key)
    except UNREADABLE as error:
        whole = list(whole_batches(halves))
        others = f"it can be gone back to {' or '.join(map(batch_name, whole))}" if whole else ""
        kept = key in keys
        raise CheckpointError(
            f"checkpoint {halves.path!r} cannot go back to batch {batch_name(key)}",
            why=f"{error.what}: {error.why}" if kept else f"its manifest is missing: {_kept(keys)}",
            do=f"{others}; or {START_OVER}"
            if others
            else f"restore the whole checkpoint from one copy, or {START_OVER}",
        ) from error


def _kept(keys: list[str]) -> str:
    if not keys:
        return "no batch has been committed"
    return f"kept are {', '.join(map(batch_name, keys))} (--keep-batches of a run says how many)"


def _begun(halves: PairedCheckpoint, key: str) -> str | None:
    """Where an earlier attempt has set files aside; CheckpointError if it was to go back further."""
    try:
        note = halves.files.read(GOING_BACK)
    except UNREADABLE:
        return None  # a batch is named, so that it says nothing new
    if note is None:
        return None
    if note["to"] < key:
        raise CheckpointError(
            f"checkpoint {halves.path!r} is still going back to batch {batch_name(note['to'])}",
            why=f"some of what batch {batch_name(key)} needs may have been set aside already",
            do=f"complete that first: {back_to_command(halves, note['to'])}",
        )
    return str(note["aside"])


def _spark_half(halves: PairedCheckpoint, key: str, done: Rollback) -> None:
    spark, batch = halves.spark_half, batch_of(key)
    if batch >= 0:
        for source, last in spark.logged(batch).items():
            for number in spark.missing(source, last):
                path, text = f"{spark.root}/sources/{source}/{number}", spark.restored(source, number)
                # Its checksum may be there still, of what it was.
                write_spark_file(halves.filesystem, path, text, summed=halves.uri is None)
    for name in list(spark.after(batch)):
        folder, _, base = name.rpartition("/")
        for each in (name, f"{folder}/.{base}.crc"):
            _move(halves.filesystem, f"{spark.root}/{each}", f"{done.folder}/spark/{each}", done)


def _own_half(halves: PairedCheckpoint, key: str, done: Rollback) -> None:
    files, filesystem = halves.files, halves.filesystem
    for folder in ("plans", "manifests"):
        for batch in files.names(folder):
            if batch > key:
                path = files.path(f"{folder}/{batch}")
                _move(filesystem, path, f"{done.folder}/windbolt/{folder}/{batch}.json", done)
    for batch in files.entries("segments"):
        if batch > key:
            for base in files.entries(f"segments/{batch}"):
                path = f"segments/{batch}/{base}"
                _move(filesystem, f"{files.root}/{path}", f"{done.folder}/windbolt/{path}", done)
            delete_folder(filesystem, f"{files.root}/segments/{batch}")


def _sinks(halves: PairedCheckpoint, key: str, aside: str, passed: list[str], done: Rollback) -> None:
    notes: list[SinkNote] = []
    try:
        notes = read_sinks(halves.files)
    except UNREADABLE as error:
        done.warnings.append(
            f"{error.what}: where sinks write is not known, and their files stay. The next run refuses to write beside "
            "those of later batches, and names them; to go back once more, after that, sets them aside"
        )
        halves.files.delete(SINKS)
    for note in notes:
        if note["kind"] != "files":
            continue
        folder, until = note["folder"], note.get("until")
        filesystem, inside, _ = locate(folder)
        if isinstance(filesystem, pafs.LocalFileSystem):
            list_anew(inside)
        later = later_files(filesystem, inside, key)
        if until is not None:
            later = [base for base in later if batch_of(batch_of_file(base) or key) <= until]
        target = f"{inside}/.{aside}"
        for base in later:
            make_folder(filesystem, target)
            move(filesystem, f"{inside}/{base}", f"{target}/{base}")
        if later and isinstance(filesystem, pafs.LocalFileSystem):
            sync_names(target, inside)
        if later:
            done.sinks[folder] = (target, len(later))
    words = {
        "kafka": "has sent the records of {}; they stay in their topics, and are sent again as batches come again",
        "function": "has been called with {}; what it did stays, and it is called again",
    }
    if passed:
        span = " to ".join(batch_name(name) for name in dict.fromkeys((passed[0], passed[-1])))
        for note in notes:
            if note["kind"] in words:
                done.warnings.append(f"sink {note['name']!r} " + words[note["kind"]].format(f"batch {span}"))


def _move(filesystem: pafs.FileSystem, source: str, target: str, done: Rollback) -> None:
    if not is_there(filesystem, source):
        return
    make_folder(filesystem, target.rsplit("/", 1)[0])
    move(filesystem, source, target)
    done.moved += 1
