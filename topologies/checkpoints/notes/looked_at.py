"""Looking at a checkpoint from outside, while a run may go on: whether there is one, and by which rules its windows
fire."""

from __future__ import annotations

from collections.abc import Mapping

from topologies.checkpoints.notes.timing_note import BoltTiming, read_timing
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from windowing.errors import CheckpointError, ConfigError
from windowing.suggestions import did_you_mean


def checkpoint_at(folder: str) -> PairedCheckpoint:
    """The checkpoint in a folder, to look at. CheckpointError where there is none."""
    halves = PairedCheckpoint(folder)
    if not halves.found:
        raise CheckpointError(
            f"{folder!r} is not a checkpoint",
            why="it has neither of the folders spark/ and windbolt/",
            do="give the folder that was passed to --checkpoint",
        )
    return halves


def known_timing(halves: PairedCheckpoint) -> dict[str, BoltTiming]:
    """The rules of the last run on a checkpoint. CheckpointError where it does not have them."""
    known = read_timing(halves.files)
    if known is None:
        raise CheckpointError(
            f"checkpoint {halves.path!r} does not say by which rules its windows fire",
            why="no run of this version of windbolt has been on it",
            do="run the topology on it once",
        )
    return known


def the_only_bolt(halves: PairedCheckpoint, known: Mapping[str, BoltTiming]) -> str:
    """The name of the bolt with windows. ConfigError where there are several, or none."""
    if len(known) != 1:
        raise ConfigError(
            f"which bolt of checkpoint {halves.path!r} is meant?",
            why=f"it has {', '.join(known) or 'no windowed bolts'}",
            do="name one of them" if known else "look at one with windowed bolts",
        )
    return next(iter(known))


def timing_of(known: Mapping[str, BoltTiming], bolt: str, key: str | None) -> BoltTiming:
    """The rules of a bolt. ConfigError where there is no such bolt, or it has no key and one is asked for."""
    if bolt not in known:
        raise ConfigError(
            f"there is no windowed bolt {bolt!r}{did_you_mean(bolt, known)}",
            why=f"the checkpoint has {', '.join(known) or 'none'}",
            do="name one of them",
        )
    if key is not None and not known[bolt].key:
        raise ConfigError(
            f"bolt {bolt!r} has no key", why="its windows hold the events of all keys", do="ask without a key"
        )
    return known[bolt]
