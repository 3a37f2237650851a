"""A checkpoint, looked through: what is in it, and whether every file is what was written."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow.fs as pafs

from manager.storage.batch_keys import batch_key, batch_name
from manager.storage.file_systems.storage_errors import UNREADABLE
from manager.storage.manifest import BoltState, Manifest
from manager.storage.segments.file_segments import FileSegments
from manager.storage.verified_reads import kept_batches, read_manifest, read_plan
from topologies.checkpoints.matching_halves import check_halves, check_whole
from topologies.checkpoints.note_names import GOING_BACK, START, TOPOLOGY
from topologies.checkpoints.notes.sinks_note import read_sinks
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.way_back import advice
from topologies.engine.commit.sink_folders import next_batches, refuse_later
from topologies.io.paths import locate
from windowing.errors import WindboltError
from windowing.time.timestamps import show

Found = TypeVar("Found")


@dataclass(frozen=True)
class BatchLook:
    """The state after one batch."""

    name: str
    """``7``, or ``7-close`` for the closing after batch 7."""
    manifest: Manifest | None
    """None where it is damaged."""
    sections: int = 0
    """How many sections of segments hold it."""
    size: int = 0
    """Their bytes."""
    trouble: str = ""
    """Why it cannot be gone back to; empty where it can."""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        found = self.manifest
        return {
            "batch": self.name,
            "whole": not self.trouble,
            "trouble": self.trouble or None,
            "clock": None if found is None or found.clock is None else show(found.clock),
            "sections": self.sections,
            "bytes": self.size,
            "bolts": {} if found is None else {name: _bolt(bolt) for name, bolt in found.bolts.items()},
            "spouts": {} if found is None else found.spouts,
        }


@dataclass
class CheckpointLook:
    """What is in a checkpoint."""

    path: str
    topology: str | None = None
    query: str | None = None
    """The id of the query, which both halves name."""
    spark_batches: tuple[int, int] | None = None
    """The last batch that is planned in Spark's half, and the last that is done there; -1 for none."""
    size: int = 0
    """The bytes of all its files."""
    batches: list[BatchLook] = field(default_factory=list)
    """Those that are kept, the last one last."""
    planned: list[str] = field(default_factory=list)
    """Batches that have been begun, and not committed."""
    sinks: list[dict[str, Any]] = field(default_factory=list)
    damage: list[tuple[str, str]] = field(default_factory=list)
    """What is damaged, and why that is known."""
    refused: str = ""
    """Why the next run will not continue; empty where it will."""
    advice: str = ""
    """What to do about that."""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "checkpoint": self.path,
            "topology": self.topology,
            "query": self.query,
            "spark": self.spark_batches and dict(zip(("planned", "done"), self.spark_batches, strict=True)),
            "bytes": self.size,
            "batches": [batch.to_json() for batch in self.batches],
            "planned": self.planned,
            "sinks": self.sinks,
            "damage": [{"what": what, "why": why} for what, why in self.damage],
            "goes_on": not self.refused,
            "refused": self.refused or None,
            "do": self.advice or None,
        }


def inspect(halves: PairedCheckpoint) -> CheckpointLook:
    """Read and check every file of a checkpoint; nothing is changed."""
    return _Inspection(halves).look


class _Inspection:
    def __init__(self, halves: PairedCheckpoint) -> None:
        self.halves, self.look = halves, CheckpointLook(halves.path)
        self.segments = FileSegments(f"{halves.files.root}/segments", halves.uri)
        self.look.size = sum(entry.size or 0 for entry in self._all_files())
        self._notes()
        self._batches()
        self._plans()
        self._spark()
        try:
            self._would_go_on()
        except UNREADABLE as error:
            self.look.refused, self.look.advice = _words(error), error.do or advice(halves)

    def _notes(self) -> None:
        look, files = self.look, self.halves.files
        note = self._tried(lambda: files.read(TOPOLOGY))
        look.topology = None if note is None else note["name"]
        for name in (START, GOING_BACK):
            self._tried(lambda name=name: files.read(name))  # type: ignore[misc]
        look.sinks = self._tried(lambda: read_sinks(files)) or []
        look.query = self._tried(self.halves.spark_half.query)

    def _batches(self) -> None:
        for key in kept_batches(self.halves.files):
            manifest = self._tried(lambda key=key: read_manifest(self.halves.files, key))  # type: ignore[misc]
            refs = {} if manifest is None else {(ref.segment, ref.offset): ref for ref in manifest.refs()}
            for ref in refs.values():
                self._tried(lambda ref=ref: self.segments.check(ref))  # type: ignore[misc]
            trouble = ""
            try:
                check_whole(self.halves, key)
            except UNREADABLE as error:
                trouble = _words(error)
            size = sum(ref.length for ref in refs.values())
            self.look.batches.append(BatchLook(batch_name(key), manifest, len(refs), size, trouble))

    def _plans(self) -> None:
        files, done = self.halves.files, set(self.halves.files.names("manifests"))
        for key in files.names("plans"):
            self._tried(lambda key=key: read_plan(files, key))  # type: ignore[misc]
            if key not in done:
                self.look.planned.append(batch_name(key))

    def _spark(self) -> None:
        spark = self.halves.spark_half
        planned, committed = spark.offsets(), spark.commits()
        if planned or committed:
            self.look.spark_batches = (max(planned, default=-1), max(committed, default=-1))
        for folder in ("", "offsets", "commits", *(f"sources/{name}" for name in spark.names("sources"))):
            for name in spark.summed(folder):
                self._tried(lambda name=name: spark.read(name))  # type: ignore[misc]
        last = self.halves.files.names("manifests")[-1:]
        self._tried(lambda: spark.check(int(last[0].removesuffix("-close")) if last else -1))

    def _would_go_on(self) -> None:
        """Raise what a run would be refused with, as far as that does not depend on its topology."""
        halves, keys = self.halves, self.halves.files.names("manifests")
        manifest = check_halves(halves)
        if manifest is not None:
            for ref in manifest.refs():
                self.segments.check(ref)
        last = keys[-1] if keys else batch_key(-1, True)
        for key in next_batches(last):
            read_plan(halves.files, key)
        for sink in self.look.sinks if keys else ():
            if sink["kind"] == "files" and "until" not in sink:
                filesystem, folder, _ = locate(sink["folder"])
                refuse_later(sink["name"], filesystem, folder, last, lambda key: halves.files.has(f"plans/{key}"))

    def _tried(self, read: Callable[[], Found]) -> Found | None:
        """What is read; None, and its damage noted, where that fails."""
        try:
            return read()
        except UNREADABLE as error:
            if (error.what, error.why) not in self.look.damage:
                self.look.damage.append((error.what, error.why))
            return None

    def _all_files(self) -> list[pafs.FileInfo]:
        found: list[pafs.FileInfo] = []
        for half in ("spark", "windbolt"):
            selector = pafs.FileSelector(f"{self.halves.root}/{half}", recursive=True, allow_not_found=True)
            with suppress(OSError):
                found.extend(self.halves.filesystem.get_file_info(selector))
        return [entry for entry in found if entry.type == pafs.FileType.File]


def _bolt(bolt: BoltState) -> dict[str, Any]:
    watermark = bolt.watermark.current
    return {
        "watermark": None if watermark is None else show(watermark),
        "accounts": bolt.accounts.totals(sum(bolt.pending)),
        "windows": bolt.fired,
        "counters": bolt.counters,
    }


def _words(error: WindboltError) -> str:
    return f"{error.what}: {error.why}" if error.why else error.what
