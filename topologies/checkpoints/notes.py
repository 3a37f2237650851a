"""The notes in a checkpoint about runs, sinks, graph and rules, with which it is read offline, without the topology."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from manager.storage.files import UNREADABLE
from manager.storage.sealed_files import SealedFolder
from topologies.checkpoints.paired_checkpoint import TOPOLOGY, PairedCheckpoint
from topologies.checkpoints.topology_fit import noted_rules
from topologies.graph.bolt_rules import BoltRules, TopologyRules
from topologies.graph.graph import Graph
from topologies.io.kafka import KafkaSink
from topologies.io.sinks import FileSink, FunctionSink, Sink, TableSink
from topologies.run.attempts import Attempts
from topologies.run.clock import system_clock
from topologies.run.summary import Summary
from windowing.errors import CheckpointError, ConfigError, did_you_mean
from windowing.reprs import error_text

# The folders of the sinks of a checkpoint's runs, so that going back includes their files.


SINKS = "sinks"

SinkNote = dict[str, Any]


def note_sinks(files: SealedFolder, topology: Graph, batch: int) -> None:
    """Add the sinks of a topology to those of earlier runs; ``batch`` is the last that was committed.

    Sinks of earlier runs that the topology no longer has are noted with the last batch that may have written there:
    later files in their folders are somebody else's.

    No rows depend on this note: one that is damaged is rewritten. If an earlier sink is missing in it, its files are
    found again when that sink is used again (delivering.refuse_later).
    """
    known: list[SinkNote] = []
    with suppress(*UNREADABLE):
        known = read_sinks(files)
    now = [note for name, node in topology.sinks.items() if (note := _note(name, node.sink)) is not None]
    gone = [{"until": batch + 1, **note} for note in known if _bare(note) not in now]
    if now + gone != known or not files.has(SINKS):
        files.write(SINKS, {"sinks": now + gone})


def _bare(note: SinkNote) -> SinkNote:
    return {name: value for name, value in note.items() if name != "until"}


def read_sinks(files: SealedFolder) -> list[SinkNote]:
    """Returns the sinks of all runs: ``name``, ``kind``, the ``folder`` of a sink of files; ``until``, the last batch,
    if the sink is no longer used."""
    found: dict[str, list[SinkNote]] | None = files.read(SINKS)
    return [] if found is None else found["sinks"]


def _note(name: str, sink: Sink) -> SinkNote | None:
    match sink:
        case FileSink():
            return {"name": name, "kind": "files", "folder": sink.path}
        case KafkaSink():
            return {"name": name, "kind": "kafka"}
        case FunctionSink():
            return {"name": name, "kind": "function"}
        case TableSink(table):
            return {"name": name, "kind": "table", "table": table}
    return None


# The runs on a checkpoint: when each began and how it ended, to be looked at later.


RUNS = "runs"
KEPT_RUNS = 20
"""Number of the latest runs that are noted."""


@dataclass(frozen=True, kw_only=True)
class RunNote:
    """One run, with all its restarts; times in microseconds, by the clock of the machine."""

    run: str
    """Id of the run."""
    engine: str
    began: int
    continues: int | None
    """The batch after which it continued; None where it began the checkpoint."""
    ended: int | None = None
    """End of the run; None while it is in progress, and if it died."""
    how: str | None = None
    """Outcome of the run: ``finished``, ``stopped``, ``failed``, or ``restarting`` where it failed and is started
    again; None with ``ended``."""
    error: str | None = None
    """Error that ended a failed run; for one in progress, the reason of its last restart."""
    restarts: int = 0
    """Number of restarts after a failure."""
    changed: str | None = None
    """A change of the checkpoint in words, if this notes a change and not a run."""


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


def note_change(files: SealedFolder, changed: str) -> None:
    """Note among the runs what was done to a checkpoint, in words; not in object stores, where no run is noted."""
    if files.uri is None:
        now = system_clock()
        note = RunNote(run=uuid.uuid4().hex, engine="", began=now, continues=None, ended=now, changed=changed)
        _write(files, note)


def _noted_before(files: SealedFolder, attempts: Attempts) -> RunNote | None:
    """Returns the note of an earlier attempt of the same run; None for the first one."""
    return next((note for note in read_runs(files) if note.run == attempts.first_run), None)


def read_runs(files: SealedFolder) -> list[RunNote]:
    """Returns the latest runs, the last one last; none where the note is damaged or of another form."""
    found: dict[str, list[dict[str, Any]]] | None = None
    with suppress(*UNREADABLE):
        found = files.read(RUNS)
    with suppress(TypeError, KeyError):
        return [] if found is None else [RunNote(**values) for values in found["runs"]]
    return []


def _write(files: SealedFolder, note: RunNote) -> None:
    """Writes the note if it can: nothing depends on it, so the run continues without it."""
    others = [known for known in read_runs(files) if known.run != note.run]
    with suppress(*UNREADABLE, OSError):
        files.write(RUNS, {"runs": [asdict(each) for each in [*others, note][-KEPT_RUNS:]]})


# Looking at a checkpoint from outside, while a run may go on: whether there is one, and by which rules its windows
# fire.


def checkpoint_at(folder: str) -> PairedCheckpoint:
    """Returns the checkpoint in a folder, to look at. CheckpointError where there is none."""
    halves = PairedCheckpoint(folder)
    if not halves.found:
        raise CheckpointError(
            f"{folder!r} is not a checkpoint",
            why="it has neither of the folders spark/ and windbolt/",
            do="give the folder that was passed to --checkpoint",
        )
    return halves


def known_rules(halves: PairedCheckpoint) -> TopologyRules:
    """Returns the rules of the last run on a checkpoint. CheckpointError where it does not have them."""
    known = noted_rules(halves)
    if known is None:
        raise CheckpointError(
            f"checkpoint {halves.path!r} does not say by which rules its windows fire",
            why=f"{halves.files.path(TOPOLOGY)} is not there: no run has begun, or it was deleted",
            do="run the topology on it once",
        )
    return known


def the_only_bolt(halves: PairedCheckpoint, known: Mapping[str, BoltRules], naming: str = "{}") -> str:
    """Returns the name of the only bolt with windows. ConfigError where there are several, or none; ``naming`` is how
    one of several is named, with its name in braces."""
    if len(known) != 1:
        raise ConfigError(
            f"which bolt of checkpoint {halves.path!r} is meant?",
            why=f"it has {', '.join(known) or 'no windowed bolts'}",
            do=f"name one of them: {naming.format(next(iter(known)))}" if known else "look at one with windowed bolts",
        )
    return next(iter(known))


def rules_of(known: Mapping[str, BoltRules], bolt: str, key: str | None) -> BoltRules:
    """Returns the rules of a bolt. ConfigError where there is no such bolt, or it has no key and one is asked for."""
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
