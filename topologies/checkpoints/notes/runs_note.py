"""The runs on a checkpoint: when each began and how it ended, to be looked at later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from manager.storage.file_systems.storage_errors import UNREADABLE
from manager.storage.sealed_folder import SealedFolder
from topologies.run.attempts import Attempts
from topologies.run.clock import system_clock
from topologies.run.summary import Summary
from windowing.data.printable import error_text

RUNS = "runs"
KEPT_RUNS = 20
"""Number of the latest runs that are noted."""


@dataclass(frozen=True, kw_only=True)
class RunNote:
    """One run, with all its restarts; times in microseconds, by the clock of the machine."""

    run: str
    """Its id."""
    engine: str
    began: int
    continues: int | None
    """The batch after which it continued; None where it began the checkpoint."""
    ended: int | None = None
    """None for a run in progress, or that died."""
    how: str | None = None
    """``finished``, ``stopped``, ``failed``, or ``restarting`` where it failed and is started again; None with
    ``ended``."""
    error: str | None = None
    """What a failed run ended with; of one in progress, why it was restarted last."""
    restarts: int = 0
    """How often it was started again after a failure."""


@contextmanager
def noted_run(files: SealedFolder, began: RunNote, summary: Summary, attempts: Attempts) -> Iterator[None]:
    """Note a run that begins and ends with the block; ``summary`` says whether it was stopped. All attempts of a run
    are one note.

    In object stores runs are not noted: one that has lost the checkpoint to another must write nothing there.
    """
    if files.uri is not None:
        yield
        return
    note = replace(_noted_before(files, attempts) or began, ended=None, how=None, restarts=attempts.restarts)
    attempts.first_run = note.run
    _write(files, note)
    try:
        yield
    except BaseException as error:
        how = "restarting" if attempts.restarts_after(error) else "failed"
        _write(files, replace(note, ended=system_clock(), how=how, error=error_text(error)))
        raise
    how = "stopped" if summary.stopped else "finished"
    _write(files, replace(note, ended=system_clock(), how=how, error=None))


def _noted_before(files: SealedFolder, attempts: Attempts) -> RunNote | None:
    """The note of an earlier attempt of the same run; None for the first one."""
    return next((note for note in read_runs(files) if note.run == attempts.first_run), None)


def read_runs(files: SealedFolder) -> list[RunNote]:
    """The latest runs, the last one last; none where the note is damaged or of another form."""
    found: dict[str, list[dict[str, Any]]] | None = None
    with suppress(*UNREADABLE):
        found = files.read(RUNS)
    with suppress(TypeError, KeyError):
        return [] if found is None else [RunNote(**values) for values in found["runs"]]
    return []


def _write(files: SealedFolder, note: RunNote) -> None:
    """Nothing depends on the note: where it cannot be written, the run continues without."""
    others = [known for known in read_runs(files) if known.run != note.run]
    with suppress(*UNREADABLE, OSError):
        files.write(RUNS, {"runs": [asdict(each) for each in [*others, note][-KEPT_RUNS:]]})
