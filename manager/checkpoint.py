"""The checkpoint: plans, manifests and segments, and what of them may be deleted."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow.fs as pafs

from manager.manifest import Manifest
from manager.segments import FileSegments, MemorySegments, SegmentStore
from windowing.errors import CheckpointError


class Checkpoint(Protocol):
    """Keeps the state between batches."""

    @property
    def segments(self) -> SegmentStore: ...
    def latest(self) -> Manifest | None: ...
    def planned(self, key: str) -> bool: ...
    def plan(self, key: str, plan: dict[str, Any]) -> dict[str, Any]: ...
    def begin(self, key: str) -> None: ...
    def commit(self, manifest: Manifest) -> None: ...


def batch_key(batch: int, closing: bool) -> str:
    """The name of a step; names sort in the order of time, that of a closing before any batch (-1) first."""
    return f"{batch:010d}{'-close' if closing else ''}"


@dataclass
class MemoryCheckpoint:
    """A checkpoint in the memory of this process. What was committed survives what a test calls a crash."""

    segments: MemorySegments = field(default_factory=MemorySegments)
    _plans: dict[str, dict[str, Any]] = field(default_factory=dict)
    _committed: list[str] = field(default_factory=list)

    def latest(self) -> Manifest | None:
        """The manifest committed last."""
        return Manifest.from_json(self._committed[-1]) if self._committed else None

    def plan(self, key: str, plan: dict[str, Any]) -> dict[str, Any]:
        """What the step is: the plan that was written first, if this is a re-run."""
        return self._plans.setdefault(key, plan)

    def planned(self, key: str) -> bool:
        """Whether a step has been planned, and so perhaps begun."""
        return key in self._plans

    def begin(self, key: str) -> None:
        """A step begins to write."""

    def commit(self, manifest: Manifest) -> None:
        """Make the step's outcome the state, and forget what nothing names any more."""
        self._committed = [*self._committed[-1:], manifest.to_json()]
        needed = set().union(*(Manifest.from_json(text).segments() for text in self._committed))
        for name in self.segments.tables.keys() - needed:
            del self.segments.tables[name]
        self._plans = {key: plan for key, plan in self._plans.items() if key > batch_key(manifest.batch - 1, False)}


class FileCheckpoint:
    """A checkpoint in a folder of a file system that pyarrow knows.

    ``plans/`` holds what a step is to be, written before it; ``manifests/`` what it came to, written last, atomically;
    ``segments/`` the rows, one folder a step. Deleted is only what no manifest of the last two steps names.
    """

    def __init__(self, root: str, uri: str | None = None) -> None:
        self.root, self.uri = root.rstrip("/"), uri
        self.segments = FileSegments(f"{self.root}/segments", uri)
        self._fs = self.segments.filesystem
        self._kept: list[Manifest] = []
        self._swept = False
        """Whether this process has looked through all folders of segments; another may have died while it cleaned."""
        for folder in ("plans", "manifests", "segments"):
            self._fs.create_dir(f"{self.root}/{folder}", recursive=True)

    def latest(self) -> Manifest | None:
        """The manifest committed last; CheckpointError where it cannot be read."""
        self._kept = [self._read_manifest(name) for name in self._names("manifests")[-2:]]
        return self._kept[-1] if self._kept else None

    def plan(self, key: str, plan: dict[str, Any]) -> dict[str, Any]:
        """What the step is: the plan that was written first, if this is a re-run."""
        path = f"{self.root}/plans/{key}.json"
        if self._fs.get_file_info(path).type == pafs.FileType.File:
            with self._fs.open_input_stream(path) as source:
                return json.loads(source.read())  # type: ignore[no-any-return]
        self._write(path, json.dumps(plan))
        return plan

    def planned(self, key: str) -> bool:
        """Whether a step has been planned, and so perhaps begun."""
        return bool(self._fs.get_file_info(f"{self.root}/plans/{key}.json").type == pafs.FileType.File)

    def begin(self, key: str) -> None:
        """A step begins to write: an earlier attempt's segments, which no manifest names, make room."""
        folder = f"{self.root}/segments/{key}"
        if self._fs.get_file_info(folder).type == pafs.FileType.Directory:
            self._fs.delete_dir_contents(folder)
        else:
            self._fs.create_dir(folder)

    def commit(self, manifest: Manifest) -> None:
        """Make the step's outcome the state, and delete what nothing names any more."""
        key = batch_key(manifest.batch, manifest.closing)
        if self._fs.get_file_info(f"{self.root}/manifests/{key}.json").type != pafs.FileType.NotFound:
            raise CheckpointError(
                f"step {key} of {self.root} has been committed by another run",
                why="two runs on one checkpoint would delete each other's state",
                do="stop one of them, and run again",
            )
        self._write(f"{self.root}/manifests/{key}.json", manifest.to_json())
        before = set().union(*(kept.segments() for kept in self._kept))
        self._kept = [*self._kept[-1:], manifest]
        self._clean(key, before)

    def read_note(self, name: str) -> dict[str, Any] | None:
        """A note about the whole checkpoint, such as which topology it belongs to; None if there is none."""
        path = f"{self.root}/{name}.json"
        if self._fs.get_file_info(path).type != pafs.FileType.File:
            return None
        with self._fs.open_input_stream(path) as source:
            return json.loads(source.read())  # type: ignore[no-any-return]

    def write_note(self, name: str, note: dict[str, Any]) -> None:
        """Write a note about the whole checkpoint."""
        self._write(f"{self.root}/{name}.json", json.dumps(note, indent=1))

    def _clean(self, key: str, before: set[str]) -> None:
        """Delete old plans and manifests, and the segments that neither of the last two manifests names."""
        named = set().union(*(manifest.segments() for manifest in self._kept))
        keep_from = batch_key(self._kept[0].batch, self._kept[0].closing)
        for folder in ("plans", "manifests"):
            for name in self._names(folder):
                if name.removesuffix(".json") < keep_from:
                    self._fs.delete_file(f"{self.root}/{folder}/{name}")
        in_use = {segment.split("/")[0] for segment in named}
        for folder in self._names("segments"):
            if folder < key and folder not in in_use:
                self._fs.delete_dir(f"{self.root}/segments/{folder}")
            elif folder < key and (keep_from <= folder or not self._swept):
                before |= {f"{folder}/{name}" for name in self._names(f"segments/{folder}")}
        for segment in before - named:
            if segment.split("/")[0] in in_use:
                self._fs.delete_file(f"{self.root}/segments/{segment}")
        self._swept = True

    def _names(self, folder: str) -> list[str]:
        entries = self._fs.get_file_info(pafs.FileSelector(f"{self.root}/{folder}"))
        names = [entry.base_name for entry in entries if not entry.base_name.startswith(".")]
        return sorted(names, key=lambda name: name.removesuffix(".json"))  # else a closing would sort before its batch

    def _read_manifest(self, name: str) -> Manifest:
        try:
            with self._fs.open_input_stream(f"{self.root}/manifests/{name}") as source:
                return Manifest.from_json(source.read().decode())
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise CheckpointError(
                f"manifest {self.root}/manifests/{name} cannot be read",
                why=str(error),
                do="restore the checkpoint from a copy, or start with a new checkpoint folder",
            ) from error

    def _write(self, path: str, text: str) -> None:
        """Write a small file so that it is there whole or not at all."""
        if self.uri is not None and not isinstance(self._fs, pafs.HadoopFileSystem):
            with self._fs.open_output_stream(path) as sink:  # object stores show a file once it is closed
                sink.write(text.encode())
            return
        folder, name = path.rsplit("/", 1)
        draft = f"{folder}/.{name}.{uuid.uuid4().hex}"
        with self._fs.open_output_stream(draft) as sink:
            sink.write(text.encode())
        if self.uri is None:
            descriptor = os.open(draft, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        self._fs.move(draft, path)
