"""Where the sinks of a checkpoint's runs write, so that their files can be gone back with it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from manager.storage.file_systems.storage_errors import UNREADABLE
from manager.storage.sealed_folder import SealedFolder
from topologies.io.kafka import KafkaSink
from topologies.io.sinks import FileSink, FunctionSink, Sink
from topologies.topology import Topology

SINKS = "sinks"

SinkNote = dict[str, Any]


def note_sinks(files: SealedFolder, topology: Topology, batch: int) -> None:
    """Add the sinks of a topology to those of earlier runs; ``batch`` is the last that was committed.

    Sinks of earlier runs that it has no more are noted with the last batch that may have written there: what comes
    later in those folders is somebody else's.

    No rows depend on this note: one that is damaged is rewritten. Should a sink of then be missing in it, its files
    are found again when that sink is used again (delivering.refuse_later).
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
    """The sinks of all runs: ``name``, ``kind``, of files the ``folder``; ``until`` which batch, if that is over."""
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
    return None
