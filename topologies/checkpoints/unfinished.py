"""What was begun on a checkpoint and is not complete: a reset, going back, a savepoint, a beginning with events. No run
begins before it is."""

from __future__ import annotations

import shlex

from manager.storage.batch_keys import batch_name
from topologies.checkpoints.note_names import BEGINNING, GOING_BACK, RESETTING, SAVEPOINT
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from windowing.errors import CheckpointError


def check_reset_complete(halves: PairedCheckpoint) -> None:
    """CheckpointError where a reset of bolts was begun and did not complete."""
    note = halves.files.read(RESETTING)
    if note is not None:
        bolts = " ".join(map(shlex.quote, note["bolts"]))
        raise CheckpointError(
            f"bolts of checkpoint {halves.path!r} are still to start over: {', '.join(note['bolts'])}",
            why="their reset was begun and did not complete",
            do=f"complete it: windbolt reset {shlex.quote(halves.path)} {bolts} --topology FILE:NAME",
        )


def check_gone_back(halves: PairedCheckpoint) -> None:
    """CheckpointError where going back to an earlier batch was begun and did not complete."""
    note = halves.files.read(GOING_BACK)
    if note is not None:
        raise CheckpointError(
            f"checkpoint {halves.path!r} is still going back to batch {batch_name(note['to'])}",
            why="going back was begun and did not complete",
            do=f"complete it: {back_to_command(halves, note['to'])}",
        )


def check_savepoint_complete(halves: PairedCheckpoint) -> None:
    """CheckpointError where this is a savepoint that was begun and did not complete."""
    note = halves.files.read(SAVEPOINT)
    if note is not None and not note["complete"]:
        again = f"take it once more, which starts over: windbolt savepoint CHECKPOINT {shlex.quote(halves.path)}"
        if note.get("repaired"):
            again = "call windbolt.state.repair once more with this destination, which starts over (it repaired "
            again += f"{', '.join(note['repaired'])})"
        raise CheckpointError(
            f"{halves.path!r} is a savepoint that is not complete",
            why="taking it was interrupted, and some of the state may be missing",
            do=again,
        )


def check_beginning_complete(halves: PairedCheckpoint) -> None:
    """CheckpointError where a checkpoint was to begin with events, and does not have them all."""
    if not halves.is_beginning and halves.files.read(BEGINNING) is not None:
        raise CheckpointError(
            f"checkpoint {halves.path!r} does not have the events yet that it is to begin with",
            why="they were being given to it, and that did not complete",
            do="call windbolt.state.begin once more, which starts over; or delete the checkpoint to begin without them",
        )


def back_to_command(halves: PairedCheckpoint, key: str) -> str:
    """The command that goes back to a batch."""
    return f"windbolt checkpoint {shlex.quote(halves.path)} --back-to {batch_name(key)}"
