"""What to do about a checkpoint that is damaged: which batches can be gone back to, and the command for that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from manager.storage.batch_keys import batch_name
from manager.storage.file_systems.storage_errors import UNREADABLE
from manager.storage.verified_reads import kept_batches
from topologies.checkpoints.matching_halves import check_whole
from topologies.checkpoints.paired_checkpoint import START_OVER, PairedCheckpoint
from topologies.checkpoints.unfinished import back_to_command
from windowing.errors import CheckpointError


@contextmanager
def naming_a_way_back(halves: PairedCheckpoint) -> Iterator[None]:
    """Errors of the checkpoint that do not say what to do then name a batch that can be gone back to."""
    try:
        yield
    except CheckpointError as error:
        if error.do:
            raise
        raise type(error)(error.what, why=error.why, do=advice(halves), transient=error.transient) from error


def advice(halves: PairedCheckpoint) -> str:
    """What to do about a checkpoint that is damaged."""
    whole = next(whole_batches(halves), None)
    if whole is None:
        return f"no batch can be gone back to; restore the whole checkpoint from one copy, or {START_OVER}"
    return f"go back to batch {batch_name(whole)}, which is whole: {back_to_command(halves, whole)}; or {START_OVER}"


def whole_batches(halves: PairedCheckpoint) -> Iterator[str]:
    """The batches that can be gone back to, the last one first."""
    kept: list[str] = []
    with suppress(*UNREADABLE):
        kept = kept_batches(halves.files)
    for key in reversed(kept):
        with suppress(*UNREADABLE):
            check_whole(halves, key)
            yield key
