"""A run as its checkpoint and its journal have it, for its page; it may be in progress elsewhere."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from manager.storage.file_systems.storage_errors import UNREADABLE
from manager.storage.manifest import Manifest
from manager.storage.segments.file_segments import FileSegments
from topologies.checkpoints.note_names import START, TOPOLOGY
from topologies.checkpoints.notes.looked_at import checkpoint_at, known_timing
from topologies.checkpoints.notes.runs_note import RunNote, read_runs
from topologies.checkpoints.notes.sinks_note import SinkNote, read_sinks
from topologies.checkpoints.notes.timing_note import read_graph
from topologies.html.graph_svg import Box
from topologies.page.bolt_view import bolt_view, open_view
from topologies.page.card_places import laid_out
from topologies.page.points import Points, point_of
from topologies.page.remarks import remarks_of
from topologies.page.run_view import run_view
from topologies.page.sink_files import IN_PART, ShownSink, SinkFolders
from topologies.run.clock import system_clock
from topologies.why_waiting.why import kept_manifests, why
from topologies.why_waiting.why_answer import WhyAnswer

JOURNAL = 30
"""Number of the latest batches of the journal that are shown."""


class StoredRun:
    """Reads a checkpoint whenever it has changed. Nothing is written, and no run is disturbed."""

    def __init__(self, folder: str) -> None:
        """Raises CheckpointError where there is no checkpoint, or none that a run of this version has been on."""
        self.folder = folder
        self._halves = checkpoint_at(folder)
        self._timing = known_timing(self._halves)
        boxes, arrows = read_graph(self._halves.files)
        self._graph = laid_out(boxes, arrows, self._timing)
        self._name: str = self._halves.files.read(TOPOLOGY)["name"]
        self._id = sha256(self._halves.path.encode()).hexdigest()[:16]
        self._store = FileSegments(f"{self._halves.files.root}/segments", self._halves.uri)
        self._sinks = SinkFolders(_sinks(boxes, read_sinks(self._halves.files)))
        self._points, self._seen = Points(), set[tuple[int, bool]]()
        self._asking = threading.Lock()

    @property
    def name(self) -> str:
        """The name of the topology."""
        return self._name

    def state(self, known: str, after: int) -> dict[str, Any]:
        """All there is to show."""
        with self._asking:
            return self._state(known, after)

    def why(self, bolt: str, key: str | None, window: str | None) -> WhyAnswer:
        """Why a window has not fired."""
        return why(self.folder, bolt, key=key, window=window)

    def _state(self, known: str, after: int) -> dict[str, Any]:
        files = self._halves.files
        runs = read_runs(files)
        version = f"{self._id}.{_digest([files.names('manifests'), [asdict(run) for run in runs]])}"
        seen = {"run": self._id, "version": version, "now": _now(runs)}
        if known == version:
            return seen
        if known.partition(".")[0] != self._id:
            after = -1
            seen["graph"] = self._graph
        kept = [manifest for manifest in kept_manifests(self._halves) if manifest.batch >= 0]
        for manifest in kept:
            key = (manifest.batch, manifest.closing)
            if key not in self._seen:
                self._seen.add(key)
                self._points.add(point_of(manifest, self._timing, None))
        bolts = self._bolts(kept)
        sinks, listed = self._sinks.now(version)
        return seen | {
            "version": version if listed else f"{version}{IN_PART}",
            "bolts": bolts,
            "points": [point for point in self._points if point["n"] > after],
            "batches": [],
            "journal": self._journal(),
            "turned_away": [],
            "complaints": [],
            "remarks": remarks_of(bolts, list(self._points), kept[-1].clock if kept else None),
            "sinks": sinks,
            "spouts": kept[-1].spouts if kept else {},
            "runs": [run_view(run) for run in runs[::-1]],
        }

    def _bolts(self, kept: Sequence[Manifest]) -> dict[str, Any]:
        if not kept:
            return {}
        first_output = (self._halves.files.read(START) or {}).get("first_output")
        bolts = {}
        for name, timing in self._timing.items():
            bolts[name] = bolt_view(name, timing, kept, {})
            bolts[name]["open"] = None
            with suppress(*UNREADABLE):  # a run may delete what is read meanwhile
                bolts[name]["open"] = open_view(name, timing, kept, self._store, first_output)
        return bolts

    def _journal(self) -> list[dict[str, Any]]:
        """The latest batches that the journal has, the last one first."""
        half = self._halves.spark_half
        found, done = [], set(half.commits())
        for number in sorted(half.offsets())[: -JOURNAL - 1 : -1]:
            with suppress(*UNREADABLE, ValueError, KeyError, IndexError, AttributeError):
                about = json.loads(half.read(f"offsets/{number}").split("\n")[1])
                found.append({"batch": number, "at": about["batchTimestampMs"] * 1000, "done": number in done})
        return found


def _sinks(boxes: Sequence[Box], notes: Sequence[SinkNote]) -> list[ShownSink]:
    """The sinks of the last run: those of the graph, which has all, as far as the notes do not know more of them."""
    noted = {
        note["name"]: ShownSink(note["name"], note["kind"], note.get("folder")) for note in notes if "until" not in note
    }
    drawn = {box.name: ShownSink(box.name, " ".join(box.facts[:1]), None) for box in boxes if box.kind == "sink"}
    return list({**drawn, **noted}.values())


def _now(runs: Sequence[RunNote]) -> dict[str, Any]:
    last = runs[-1] if runs else None
    return {
        "clock": system_clock(),
        "state": "checkpoint" if last is None or last.how is None else last.how,
        "live": False,
        "phase": None,
        "phase_seconds": None,
        "error": None if last is None or last.how is None else last.error,
        "lag": [],
    }


def _digest(values: object) -> str:
    return sha256(json.dumps(values).encode()).hexdigest()[:16]
