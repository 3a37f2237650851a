"""The runs on a checkpoint: when each began and how it ended, for who looks at it later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from manager.storage.sealed_folder import SealedFolder
from manager.storage.storage_errors import UNREADABLE
from topologies.run.clock import system_clock
from topologies.run.summary import Summary
from windowing.data.printable import told

RUNS = "runs"
KEPT_RUNS = 20
"""Number of the latest runs that are noted."""


@dataclass(frozen=True, kw_only=True)
class RunNote:
    """One run; times in microseconds, by the clock of the machine."""

    run: str
    """Its id."""
    engine: str
    began: int
    continues: int | None
    """The batch after which it went on; None where it began the checkpoint."""
    ended: int | None = None
    """None for a run that goes on, or that died."""
    how: str | None = None
    """``finished``, ``stopped`` or ``failed``; None with ``ended``."""
    error: str | None = None
    """What a failed run ended with."""


@contextmanager
def noted_run(files: SealedFolder, run: str, engine: str, continues: int | None, summary: Summary) -> Iterator[None]:
    """Note a run that begins and ends with the block; ``summary`` says whether it was stopped.

    In object stores runs are not noted: one that has lost the checkpoint to another must write nothing there.
    """
    if files.uri is not None:
        yield
        return
    note = RunNote(run=run, engine=engine, began=system_clock(), continues=continues)
    _write(files, note)
    try:
        yield
    except BaseException as error:
        _write(files, replace(note, ended=system_clock(), how="failed", error=told(error)))
        raise
    _write(files, replace(note, ended=system_clock(), how="stopped" if summary.stopped else "finished"))


def read_runs(files: SealedFolder) -> list[RunNote]:
    """The latest runs, the last one last; none where the note is damaged or of another form."""
    found: dict[str, list[dict[str, Any]]] | None = None
    with suppress(*UNREADABLE):
        found = files.read(RUNS)
    with suppress(TypeError, KeyError):
        return [] if found is None else [RunNote(**values) for values in found["runs"]]
    return []


def _write(files: SealedFolder, note: RunNote) -> None:
    """Nothing depends on the note: where it cannot be written, the run goes on without."""
    others = [known for known in read_runs(files) if known.run != note.run]
    with suppress(*UNREADABLE, OSError):
        files.write(RUNS, {"runs": [asdict(each) for each in [*others, note][-KEPT_RUNS:]]})
