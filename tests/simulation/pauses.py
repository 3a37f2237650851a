"""What happens to a checkpoint while no run is on it: a bit of it flips, or somebody goes back to an earlier batch."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from typing import NamedTuple

from manager.storage.files import storage_errors_during
from topologies.checkpoints.going_back import go_back
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint, check_whole


class Flipped(NamedTuple):
    """A byte that was changed."""

    path: str
    at: int
    was: int
    inode: int


def flip_a_bit(checkpoint: str, chance: random.Random) -> Flipped | None:
    """Flip one bit of one file whose checksum is kept; None where there is none."""
    paths = sorted(f"{folder}/{name}" for folder, _, names in os.walk(checkpoint) for name in names)
    paths = [path for path in paths if not path.endswith("/.lock") and os.path.getsize(path)]
    paths = [path for path in paths if not path.startswith(f"{checkpoint}/spark/") or _summed(path)]
    if not paths:
        return None
    of_segments = [path for path in paths if path.endswith(".arrow")]
    path = chance.choice(of_segments if of_segments and chance.random() < 0.4 else paths)
    at, bit = chance.randrange(os.path.getsize(path)), 1 << chance.randrange(8)
    with open(path, "r+b") as file:
        file.seek(at)
        was = file.read(1)[0]
        file.seek(at)
        file.write(bytes([was ^ bit]))
    return Flipped(path, at, was, os.stat(path).st_ino)


def _summed(path: str) -> bool:
    """Whether a file of Spark's half is, or has, a checksum; a death between the two leaves a file without."""
    folder, name = os.path.split(path)
    return name.endswith(".crc") or os.path.exists(f"{folder}/.{name}.crc")


def flip_back(flipped: Flipped) -> None:
    """Restore that file, as from a copy, if it is still there."""
    if os.path.exists(flipped.path) and os.stat(flipped.path).st_ino == flipped.inode:
        with open(flipped.path, "r+b") as file:
            file.seek(flipped.at)
            file.write(bytes([flipped.was]))


def go_back_somewhere(
    checkpoint: str, chance: random.Random, begun: str | None, begins: Callable[[str], None]
) -> str | None:
    """Go back to a batch that is kept, or on with ``begun``; the batch, None where there is none.

    ``begins`` is called with it before anything is moved.
    """
    halves = PairedCheckpoint(checkpoint)
    if not halves.found:
        return None
    halves.lock.take()
    try:
        with storage_errors_during("looking for a batch to go back to", "nothing was changed"):
            keys = halves.documents.names("manifests")
        whole = [key for key in keys if _whole(halves, key)]
        if begun is None and not whole:
            return None
        key = chance.choice(whole) if begun is None else begun
        begins(key)
        go_back(halves, key)
        return key
    finally:
        halves.lock.release()


def _whole(halves: PairedCheckpoint, key: str) -> bool:
    try:
        check_whole(halves, key)
    except Exception:
        return False
    return True


class Stopped(threading.Event):
    """What stops a run after so many batches at intervals, without waiting."""

    def __init__(self, triggers: int) -> None:
        super().__init__()
        self.left = triggers

    def wait(self, timeout: float | None = None) -> bool:
        """At once."""
        self.left -= 1
        if self.left <= 0:
            self.set()
        return self.is_set()
