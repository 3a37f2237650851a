"""Whether the two halves of a checkpoint, Spark's and ours, belong together, and nothing of them is missing.

Errors that do not say what to do get that from ``way_back.py``, which knows the batches that can be gone back to.
"""

from __future__ import annotations

from dataclasses import dataclass

from manager.storage.batch_keys import batch_key
from manager.storage.manifest import Manifest
from manager.storage.segments.file_segments import FileSegments
from manager.storage.verified_reads import check_batch, check_not_begun, kept_batches, read_manifest
from topologies.checkpoints.note_names import START, TOPOLOGY
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.unfinished import (
    check_beginning_complete,
    check_gone_back,
    check_reset_complete,
    check_savepoint_complete,
)
from topologies.engine.commit.sink_folders import next_batches
from windowing.errors import CheckpointError, DamagedCheckpoint


@dataclass(frozen=True)
class SparkBatches:
    """What Spark's half has."""

    query: str | None
    """The id of the query; None before its first start."""
    planned: list[int]
    committed: list[int]

    @property
    def in_words(self) -> str:
        return f"Spark's half has batches up to {max(self.planned + self.committed, default=-1)}"


def check_halves(halves: PairedCheckpoint, *, resetting: bool = False) -> Manifest | None:
    """The last manifest; CheckpointError where the halves do not belong together, or a part of them is missing.

    ``resetting``: a reset that is not complete is let pass, since this is what completes it.
    """
    spark = check_ours_is_there(halves)
    if not resetting:
        check_reset_complete(halves)
    check_gone_back(halves)
    keys = halves.files.names("manifests")
    manifest = read_manifest(halves.files, keys[-1]) if keys else None
    _check_notes(halves, begun=bool(keys or spark.planned or halves.files.names("plans")))
    if manifest is not None and (manifest.batch >= 0 or spark.committed):
        _check_query(halves, manifest, spark)
    elif manifest is None and spark.committed:
        raise _refused(halves, "the windbolt half holds no batch", spark.in_words)
    halves.spark_half.check(-1 if manifest is None else manifest.batch)
    for key in next_batches(keys[-1] if keys else batch_key(-1, True)):
        if not halves.files.has(f"plans/{key}"):
            check_not_begun(halves.files, key)
    return manifest


def check_unclaimed(halves: PairedCheckpoint, *, resetting: bool = False) -> Manifest | None:
    """As ``check_halves`` where the caller has the lock. Where there is none, a run may be in progress: what it may
    change is checked when it cannot any more."""
    if halves.uri is None:
        return check_halves(halves, resetting=resetting)
    check_ours_is_there(halves)
    _check_notes(halves, begun=bool(halves.files.names("manifests")))
    return None


def check_ours_is_there(halves: PairedCheckpoint) -> SparkBatches:
    """What Spark's half has; CheckpointError where it has batches and our half is missing, or this is a savepoint, or
    one that is to begin with events, that is not complete."""
    check_savepoint_complete(halves)
    check_beginning_complete(halves)
    half = halves.spark_half
    spark = SparkBatches(half.query(), half.offsets(), half.commits())
    if not halves.has_our_half and spark.planned + spark.committed:
        raise _refused(halves, "the windbolt half is missing", spark.in_words)
    return spark


def check_whole(halves: PairedCheckpoint, key: str) -> None:
    """That a batch can be gone back to; CheckpointError where what that needs is damaged or gone."""
    for note in (TOPOLOGY, START):
        if halves.files.read(note) is None:
            raise _gone(halves, note, "what it says was known once, when the checkpoint was made")
    if key not in kept_batches(halves.files):
        raise DamagedCheckpoint(
            f"{halves.files.path(f'manifests/{key}')} is gone", why="no way back to this batch is kept"
        )
    manifest = check_batch(halves.files, FileSegments(f"{halves.files.root}/segments", halves.uri), key)
    query = halves.spark_half.query()
    if manifest.batch >= 0 and (query is None or manifest.query not in (None, query)):
        raise _refused(halves, "its halves belong to different queries", f"{manifest.query} and {query}")
    halves.spark_half.check_batch(manifest.batch)


def _check_notes(halves: PairedCheckpoint, *, begun: bool) -> None:
    if halves.files.read(TOPOLOGY) is None:
        if begun:
            raise _gone(halves, TOPOLOGY, "which topology the checkpoint belongs to was written there")
    elif halves.files.read(START) is None:
        raise _gone(halves, START, "where the run began was written there")


def _check_query(halves: PairedCheckpoint, manifest: Manifest, spark: SparkBatches) -> None:
    if spark.query is None:
        raise _refused(halves, "Spark's half is missing", f"the windbolt half has batches up to {manifest.batch}")
    if manifest.query is not None and manifest.query != spark.query:
        queries = f"Spark's to {spark.query}, windbolt's to {manifest.query}"
        raise _refused(halves, "its halves belong to different queries", queries)
    last = max(spark.committed, default=-1)
    if manifest.batch not in (last, last + 1):
        batches = f"Spark's is at batch {last}, windbolt's at {manifest.batch}"
        raise _refused(halves, "its halves are not of the same time", batches)


def _gone(halves: PairedCheckpoint, note: str, why: str) -> DamagedCheckpoint:
    return DamagedCheckpoint(f"{halves.files.path(note)} is gone", why=why)


def _refused(halves: PairedCheckpoint, what: str, why: str) -> CheckpointError:
    return CheckpointError(f"checkpoint {halves.path!r} cannot be used: {what}", why=why)
