"""Takes a checkpoint for this process where no lock keeps runs off, and tells who has taken it since."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from manager.storage.checkpoint import KEPT_BATCHES, FileCheckpoint
from manager.storage.file_systems.storage_errors import UNREADABLE
from manager.storage.turns import Owner
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.run.attempts import Attempts
from topologies.run.clock import system_clock
from windowing.errors import TakenOver


def claimed(halves: PairedCheckpoint, by: Attempts | str, keep: int = KEPT_BATCHES) -> FileCheckpoint:
    """Our half, for the attempts of a run or for a command, by its name. Where no lock keeps a run off it, that run
    cannot commit any more.

    What has it from the same run already, such as an earlier attempt, takes it from no other: TakenOver.
    """
    files = FileCheckpoint(halves.files.root, halves.uri, keep)
    if halves.uri is None:
        return files
    if isinstance(by, str):
        files.claim(_this_process(command=by))
    else:
        files.claim(_this_process(by.token), again=by.has_claimed)
        by.has_claimed = True
    return files


def claim_back_to(halves: PairedCheckpoint, batch: str) -> None:
    """Take the checkpoint, whose state is from now on that after a batch."""
    if halves.uri is not None:
        owner = _this_process(command="windbolt checkpoint --back-to")
        FileCheckpoint(halves.files.root, halves.uri).claim(owner, batch)


@contextmanager
def keeping_runs_off(halves: PairedCheckpoint, name: str, note: dict[str, Any]) -> Iterator[None]:
    """No run begins from here to the end of the block, not even if this process dies in it: for several documents that
    are replaced one after the other on this machine, where they are flushed to disk at the end. Where there are turns,
    one turn replaces them all."""
    if halves.uri is None:
        halves.files.write(name, note)
    yield
    if halves.uri is None:
        halves.files.delete(name)
        halves.files.sync()


@contextmanager
def telling_who_took_over(checkpoint: FileCheckpoint) -> Iterator[None]:
    """Errors become TakenOver where another run has the checkpoint: what that has changed since is not damage, and a
    query that Spark ended for its sake is not to be started again."""
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
