"""A checkpoint folder: its place, its owner, and the check that its two halves, Spark's and windbolt's, belong
together."""

from __future__ import annotations

import fcntl
import os
import shlex
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa
import pyarrow.fs as pafs

from manager.remote import hadoop_name, is_transient
from manager.storage.checkpoint import (
    FIRST_FILES,
    KEPT_BATCHES,
    FileCheckpoint,
    check_not_begun,
    kept_batches,
    read_manifest,
    read_verified_manifest,
)
from manager.storage.files import (
    UNREADABLE,
    as_storage_error,
    delete_folder,
    path_exists,
    refresh_listings,
    system_reason,
)
from manager.storage.manifest import Manifest, batch_key, batch_name
from manager.storage.sealed_files import Owner, SealedFolder
from manager.storage.segment_files import FileSegments
from topologies.checkpoints.spark_checkpoint import SparkCheckpoint
from topologies.engine.commit import next_batches
from topologies.io.paths import locate
from topologies.run.attempts import Attempts
from topologies.run.clock import system_clock
from topologies.run.options import check_named
from windowing.errors import CheckpointError, DamagedCheckpoint, TakenOver

# The names of the notes about a whole checkpoint.


TOPOLOGY, START = "topology", "start"
"""Names of the notes with the topology of the checkpoint, and with the start of its first run."""
SAMPLE_FILES = (f"windbolt/{START}.json", *(f"windbolt/{name}" for name in FIRST_FILES), "spark/offsets/0")
"""Files that a run writes into a checkpoint: one in each folder that will have more."""
GOING_BACK = "going-back"
"""Note of going back to an earlier batch; while it exists, no run begins."""
RESETTING = "resetting"
"""Note that bolts are being reset; while it exists, no run begins."""
ADDING_COLUMNS = "adding-columns"
"""Note that stored events are getting new columns; while it exists, only a run of that topology begins."""
BEGINNING = "beginning"
"""Note that the checkpoint is being filled with its first events; while it exists, no run begins."""
SAVEPOINT = "savepoint"
"""Note of a savepoint; while it marks the savepoint as incomplete, no run begins."""


# The lock of a checkpoint folder, which one run at a time can have.


class FolderLock:
    """A lock on the file ``.lock`` of a checkpoint, held until ``release`` or the end of this process.

    Only on this machine: a checkpoint elsewhere (``folder`` None) is not locked; a run claims it instead
    (``manager/storage/sealed_files.py``).
    """

    def __init__(self, path: str, filesystem: pafs.FileSystem, folder: str | None) -> None:
        """``path``: the checkpoint, as the user names it. Locks nothing yet."""
        self.path, self.filesystem, self.folder = path, filesystem, folder
        self._lock_file: IO[str] | None = None

    def take(self) -> None:
        """Locks the checkpoint against all others. Raises CheckpointError if it is already locked, or is not
        writable."""
        if self.folder is None:
            return
        with as_storage_error(f"checkpoint {self.path}", "written to"):
            self._lock_file = self._open_lock_file(self.folder)
            self._take(self._lock_file, fcntl.LOCK_EX)
        try:
            self._sign(self._lock_file)
            refresh_listings(self.folder)
        except BaseException:
            self.release()
            raise

    def share(self) -> None:
        """Excludes runs from the checkpoint, but not readers; writes nothing. Raises CheckpointError if a run has
        it."""
        if self.folder is None:
            return
        with suppress(OSError):  # nobody has locked it yet, or it is a copy without runs
            self._lock_file = open(f"{self.folder}/.lock", encoding="utf-8", errors="replace")  # noqa: SIM115
        if self._lock_file is not None:
            self._take(self._lock_file, fcntl.LOCK_SH)

    def release(self) -> None:
        """Unlocks the checkpoint."""
        if self._lock_file is not None:
            self._lock_file.close()

    def _sign(self, lock_file: IO[str]) -> None:
        with as_storage_error(f"checkpoint {self.path}", "written to"):
            lock_file.truncate(0)
            lock_file.write(f"process {os.getpid()}")
            lock_file.flush()

    def _open_lock_file(self, folder: str) -> IO[str]:
        try:
            self.filesystem.create_dir(folder, recursive=True)
            return open(f"{folder}/.lock", "a+", encoding="utf-8", errors="replace")
        except (PermissionError, FileExistsError, FileNotFoundError, NotADirectoryError) as error:
            raise CheckpointError(
                f"checkpoint {self.path!r} cannot be made or written to",
                why=system_reason(error),
                do="name a folder that this user may write to",
            ) from error

    def _take(self, lock_file: IO[str], kind: int) -> None:
        try:
            fcntl.flock(lock_file, kind | fcntl.LOCK_NB)
        except OSError as error:
            lock_file.seek(0)
            owner = lock_file.read().strip() or "another process"
            lock_file.close()
            is_ours = owner == f"process {os.getpid()}"
            raise CheckpointError(
                f"checkpoint {self.path!r} is in use by {owner}",
                why="two runs on one checkpoint would delete each other's state",
                do=f"stop the other run{' (windbolt.runs() has those in the background)' if is_ours else ''}, "
                "or give this one a checkpoint of its own",
            ) from error


# A checkpoint folder: its place, and its two halves, Spark's and ours.


START_OVER = "start with a new checkpoint folder (which reads all input again)"
"""Advice that is always possible."""


class PairedCheckpoint:
    """A checkpoint folder: ``spark/`` is Spark's, ``windbolt/`` is windbolt's.

    Other modules open it for a run (``checkpointed_run.py``) and compare its halves with each other and with a topology
    (``topology_fit.py``). Errors about damage name a way back.
    """

    def __init__(self, path: str) -> None:
        """Raises CheckpointError if the path cannot be a checkpoint, or its place cannot be reached."""
        check_named(path)
        self.path = path.rstrip("/") or "/"
        with self._as_unreachable_error():
            self.filesystem, self.root, self.uri = locate(self.path)
            if self.uri is not None:
                self.filesystem.get_file_info(self.root)
        self.spark = f"{hadoop_name(self.uri).rstrip('/')}/spark" if self.uri else f"{self.root}/spark"
        """Path of Spark's half, in Spark's notation."""
        self.lock = FolderLock(self.path, self.filesystem, None if self.uri else self.root)
        self.documents = SealedFolder(f"{self.root}/windbolt", self.filesystem, self.uri)
        self.spark_checkpoint = SparkCheckpoint(self.filesystem, f"{self.root}/spark")
        self.is_beginning = False
        """True while this object writes the checkpoint's first events (``savepoint.py``)."""

    @contextmanager
    def _as_unreachable_error(self) -> Iterator[None]:
        """Raises CheckpointError if the file system cannot be reached, which is not damage; nothing was written."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise CheckpointError(
                f"checkpoint {self.path!r} cannot be reached",
                why=system_reason(error),
                do="check its address, the network and the credentials of this user, or name a folder on this machine",
                transient=is_transient(error),
            ) from error

    @property
    def place(self) -> str:
        """The folder as the user names it, without options."""
        return self.documents.shown_name.removesuffix("/windbolt")

    @property
    def has_our_half(self) -> bool:
        """True if the folder ``windbolt/`` exists."""
        return path_exists(self.filesystem, self.documents.root)

    @property
    def found(self) -> bool:
        """True if there is a checkpoint."""
        return self.has_our_half or path_exists(self.filesystem, f"{self.spark_checkpoint.root}/offsets")

    def check_found(self) -> None:
        """Raises CheckpointError if there is no checkpoint."""
        if not self.found:
            raise CheckpointError(
                f"{self.path!r} is not a checkpoint",
                why="it has neither of the folders spark/ and windbolt/",
                do="give the folder that was passed to --checkpoint",
            )


# Incomplete operations on a checkpoint: a reset, going back, a savepoint, a beginning with events. No run begins until
# they are complete.


def check_reset_complete(halves: PairedCheckpoint) -> None:
    """Raises CheckpointError if a reset of bolts is incomplete."""
    note = halves.documents.read(RESETTING)
    if note is not None:
        bolts = " ".join(map(shlex.quote, note["bolts"]))
        raise CheckpointError(
            f"bolts of checkpoint {halves.path!r} are still to start over: {', '.join(note['bolts'])}",
            why="their reset was begun and did not complete",
            do=f"complete it: windbolt reset {shlex.quote(halves.path)} {bolts} --topology FILE:NAME",
        )


def check_gone_back(halves: PairedCheckpoint) -> None:
    """Raises CheckpointError if going back to an earlier batch is incomplete."""
    note = halves.documents.read(GOING_BACK)
    if note is not None:
        raise CheckpointError(
            f"checkpoint {halves.path!r} is still going back to batch {batch_name(note['to'])}",
            why="going back was begun and did not complete",
            do=f"complete it: {back_to_command(halves, note['to'])}",
        )


def check_savepoint_complete(halves: PairedCheckpoint) -> None:
    """Raises CheckpointError if this is an incomplete savepoint."""
    note = halves.documents.read(SAVEPOINT)
    if note is not None and not note["complete"]:
        remedy = f"take it once more, which starts over: windbolt savepoint CHECKPOINT {shlex.quote(halves.path)}"
        if note.get("repaired_bolts"):
            remedy = "call windbolt.state.repair once more with this destination, which starts over (it repaired "
            remedy += f"{', '.join(note['repaired_bolts'])})"
        raise CheckpointError(
            f"{halves.path!r} is a savepoint that is not complete",
            why="taking it was interrupted, and some of the state may be missing",
            do=remedy,
        )


def check_beginning_complete(halves: PairedCheckpoint) -> None:
    """Raises CheckpointError if giving the checkpoint its first events (``state.begin``) was interrupted."""
    if not halves.is_beginning and halves.documents.read(BEGINNING) is not None:
        raise CheckpointError(
            f"checkpoint {halves.path!r} does not have the events yet that it is to begin with",
            why="they were being given to it, and that did not complete",
            do="call windbolt.state.begin once more, which starts over; or delete the checkpoint to begin without them",
        )


def back_to_command(halves: PairedCheckpoint, key: str) -> str:
    """Returns the command that goes back to a batch."""
    return f"windbolt checkpoint {shlex.quote(halves.path)} --back-to {batch_name(key)}"


# Advice on a damaged checkpoint: the batches to which the run can go back, and the command for that.


@contextmanager
def naming_a_way_back(halves: PairedCheckpoint) -> Iterator[None]:
    """Adds a batch to which the run can go back to errors of the checkpoint without a remedy."""
    try:
        yield
    except CheckpointError as error:
        if error.do:
            raise
        raise type(error)(error.what, why=error.why, do=advice(halves), transient=error.transient) from error


def advice(halves: PairedCheckpoint) -> str:
    """Returns advice on a damaged checkpoint."""
    batch = next(whole_batches(halves), None)
    if batch is None:
        return f"no batch can be gone back to; restore the whole checkpoint from one copy, or {START_OVER}"
    return f"go back to batch {batch_name(batch)}, which is whole: {back_to_command(halves, batch)}; or {START_OVER}"


def whole_batches(halves: PairedCheckpoint) -> Iterator[str]:
    """Yields the batches to which the run can go back, the last one first."""
    kept_keys: list[str] = []
    with suppress(*UNREADABLE):
        kept_keys = kept_batches(halves.documents)
    for key in reversed(kept_keys):
        with suppress(*UNREADABLE):
            check_whole(halves, key)
            yield key


# Checks that the two halves of a checkpoint, Spark's and ours, belong together and are complete.
#
# Errors without a remedy get one from ``naming_a_way_back``, which knows the batches to which the run can go back.


@dataclass(frozen=True)
class SparkBatches:
    """Batches in Spark's half."""

    query: str | None
    """The id of the query; None before its first start."""
    planned: list[int]
    committed: list[int]

    @property
    def in_words(self) -> str:
        return f"Spark's half has batches up to {max(self.planned + self.committed, default=-1)}"


def check_halves(halves: PairedCheckpoint, *, resetting: bool = False) -> Manifest | None:
    """Returns the last manifest. Raises CheckpointError if the halves do not belong together, or are incomplete.

    ``resetting``: True if the caller will complete an incomplete reset, which is then no error.
    """
    spark = check_our_half(halves)
    if not resetting:
        check_reset_complete(halves)
    check_gone_back(halves)
    keys = halves.documents.names("manifests")
    manifest = read_manifest(halves.documents, keys[-1]) if keys else None
    _check_notes(halves, begun=bool(keys or spark.planned or halves.documents.names("plans")))
    if manifest is not None and (manifest.batch >= 0 or spark.committed):
        _check_query(halves, manifest, spark)
    elif manifest is None and spark.committed:
        raise _unusable(halves, "the windbolt half holds no batch", spark.in_words)
    halves.spark_checkpoint.check(-1 if manifest is None else manifest.batch)
    for key in next_batches(keys[-1] if keys else batch_key(-1, True)):
        if not halves.documents.has(f"plans/{key}"):
            check_not_begun(halves.documents, key)
    return manifest


def check_before_claim(halves: PairedCheckpoint, *, resetting: bool = False) -> Manifest | None:
    """Checks both halves like ``check_halves``, if the caller has the lock. Without a lock a run may be in progress,
    and the parts that it may change are checked later, when it no longer can."""
    if halves.uri is None:
        return check_halves(halves, resetting=resetting)
    check_our_half(halves)
    _check_notes(halves, begun=bool(halves.documents.names("manifests")))
    return None


def check_our_half(halves: PairedCheckpoint) -> SparkBatches:
    """Returns the batches in Spark's half.

    Raises CheckpointError if it has batches but our half is missing; also for an incomplete savepoint, and for a
    checkpoint that is incomplete because it begins with events.
    """
    check_savepoint_complete(halves)
    check_beginning_complete(halves)
    half = halves.spark_checkpoint
    spark = SparkBatches(half.query(), half.offsets(), half.commits())
    if not halves.has_our_half and spark.planned + spark.committed:
        raise _unusable(halves, "the windbolt half is missing", spark.in_words)
    return spark


def check_whole(halves: PairedCheckpoint, key: str) -> None:
    """Checks that the run can go back to a batch. Raises CheckpointError if a part is damaged or missing."""
    for note in (TOPOLOGY, START):
        if halves.documents.read(note) is None:
            raise _missing_note(halves, note, "what it says was known once, when the checkpoint was made")
    if key not in kept_batches(halves.documents):
        raise DamagedCheckpoint(
            f"{halves.documents.path(f'manifests/{key}')} is gone", why="no way back to this batch is kept"
        )
    manifest = read_verified_manifest(
        halves.documents, FileSegments(f"{halves.documents.root}/segments", halves.uri), key
    )
    query = halves.spark_checkpoint.query()
    if manifest.batch >= 0 and (query is None or manifest.query not in (None, query)):
        raise _unusable(halves, "its halves belong to different queries", f"{manifest.query} and {query}")
    halves.spark_checkpoint.check_batch(manifest.batch)


def _check_notes(halves: PairedCheckpoint, *, begun: bool) -> None:
    if halves.documents.read(TOPOLOGY) is None:
        if begun:
            raise _missing_note(halves, TOPOLOGY, "which topology the checkpoint belongs to was written there")
    elif halves.documents.read(START) is None:
        raise _missing_note(halves, START, "where the run began was written there")


def _check_query(halves: PairedCheckpoint, manifest: Manifest, spark: SparkBatches) -> None:
    if spark.query is None:
        raise _unusable(halves, "Spark's half is missing", f"the windbolt half has batches up to {manifest.batch}")
    if manifest.query is not None and manifest.query != spark.query:
        queries = f"Spark's to {spark.query}, windbolt's to {manifest.query}"
        raise _unusable(halves, "its halves belong to different queries", queries)
    last = max(spark.committed, default=-1)
    if manifest.batch not in (last, last + 1):
        batches = f"Spark's is at batch {last}, windbolt's at {manifest.batch}"
        raise _unusable(halves, "its halves are not of the same time", batches)


def _missing_note(halves: PairedCheckpoint, note: str, why: str) -> DamagedCheckpoint:
    return DamagedCheckpoint(f"{halves.documents.path(note)} is gone", why=why)


def _unusable(halves: PairedCheckpoint, what: str, why: str) -> CheckpointError:
    return CheckpointError(f"checkpoint {halves.path!r} cannot be used: {what}", why=why)


# Claims a checkpoint for this process if no lock excludes runs, and reports who has claimed it later.


def claim_checkpoint(halves: PairedCheckpoint, claimant: Attempts | str, keep: int = KEPT_BATCHES) -> FileCheckpoint:
    """Returns windbolt's half of the checkpoint, claimed for a run or a command. Without a lock, the run that had it
    before can no longer commit.

    ``claimant``: the attempts of the run, or the name of the command. Raises TakenOver if an earlier attempt of the run
    had claimed it, and another run has it now.
    """
    checkpoint = FileCheckpoint(halves.documents.root, halves.uri, keep)
    if halves.uri is None:
        return checkpoint
    if isinstance(claimant, str):
        checkpoint.claim(_this_process(command=claimant))
    else:
        checkpoint.claim(_this_process(claimant.token), again=claimant.has_claimed)
        claimant.has_claimed = True
    return checkpoint


def claim_back_to(halves: PairedCheckpoint, batch: str) -> None:
    """Claims the checkpoint, and makes the state after a batch its state."""
    if halves.uri is not None:
        owner = _this_process(command="windbolt checkpoint --back-to")
        FileCheckpoint(halves.documents.root, halves.uri).claim(owner, batch)


@contextmanager
def keeping_runs_off(halves: PairedCheckpoint, name: str, note: dict[str, Any]) -> Iterator[None]:
    """Prevents runs from beginning until the end of the block, even if this process dies in it. For several documents
    on this machine that are replaced one after another and flushed to disk at the end. Elsewhere, a log of claims
    replaces them in one entry."""
    if halves.uri is None:
        halves.documents.write(name, note)
    yield
    if halves.uri is None:
        halves.documents.delete(name)
        halves.documents.sync()


@contextmanager
def telling_who_took_over(checkpoint: FileCheckpoint) -> Iterator[None]:
    """Turns errors into TakenOver if another run has the checkpoint. Changes by that run are not damage, and a query
    that Spark ended because of it must not be restarted."""
    try:
        yield
    except TakenOver:
        raise
    except Exception as error:
        try:
            checkpoint.check_owner()
        except TakenOver as lost:
            raise lost from error
        except UNREADABLE:
            pass
        raise


def _this_process(run: str = "", command: str = "") -> Owner:
    return Owner(f"process {os.getpid()} on {socket.gethostname()}", system_clock(), run, command)


# An empty place for a checkpoint that is made from another checkpoint, or from users' events.


_STATE_FOLDERS = ("manifests", "plans", "poison", "segments", "claims", "runs")


def check_empty(target: PairedCheckpoint, what: str) -> None:
    """Raises CheckpointError, whose text begins with ``what``, if the target is not empty."""
    names = _files_in(target)
    if names:
        contents = "a checkpoint" if target.found else "files"
        raise CheckpointError(
            f"{what} in {target.path!r}",
            why=f"it holds {contents} already, such as {min(names)}",
            do="name a folder that is empty, or not there yet",
        )


def empty_out(target: PairedCheckpoint, keep: str) -> None:
    """Deletes the files of an earlier attempt. Meanwhile the note ``keep`` marks the checkpoint as incomplete."""
    target.documents.delete(*(name for name in target.documents.names("") if name != keep))
    for folder in [*(f"windbolt/{name}" for name in _STATE_FOLDERS), "spark"]:
        if path_exists(target.filesystem, f"{target.root}/{folder}"):
            delete_folder(target.filesystem, f"{target.root}/{folder}")


def _files_in(target: PairedCheckpoint) -> list[str]:
    """Returns the files of a folder by relative path, without hidden files, which a dead attempt may have left before
    it wrote anything else."""
    selector = pafs.FileSelector(target.root, recursive=True, allow_not_found=True)
    with as_storage_error(target.root, "listed"):
        found = target.filesystem.get_file_info(selector)
    files = [entry for entry in found if entry.type == pafs.FileType.File and not entry.base_name.startswith(".")]
    return sorted(entry.path.removeprefix(f"{target.root}/") for entry in files)
