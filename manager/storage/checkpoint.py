"""The checkpoint: plans, manifests and segments, and what of them may be deleted."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow.fs as pafs

from manager.storage.file_segments import FileSegments
from manager.storage.files import delete, delete_folder, empty_folder, make_folder, path_type
from manager.storage.manifest import Manifest
from manager.storage.memory_segments import MemorySegments
from manager.storage.sealed_folder import SealedFolder, required
from manager.storage.segments import SegmentStore
from manager.storage.storage_errors import UNREADABLE, during
from windowing.errors import CheckpointError, DamagedCheckpoint

KEPT_BATCHES = 3
"""Number of last batches whose manifests are kept by default: one can go back by two."""


class Checkpoint(Protocol):
    """Keeps the state between batches."""

    @property
    def segments(self) -> SegmentStore: ...
    def latest(self) -> Manifest | None: ...
    def planned(self, key: str) -> bool: ...
    def plan(self, key: str, plan: dict[str, Any]) -> dict[str, Any]: ...
    def begin(self, key: str) -> None: ...
    def commit(self, manifest: Manifest) -> None: ...
    def after_failure(self, batch: str) -> str: ...


def batch_key(batch: int, closing: bool) -> str:
    """The name of a batch; names sort in the order of time, that of a closing before any batch (-1) first."""
    return f"{batch:010d}{'-close' if closing else ''}"


def batch_name(key: str) -> str:
    """A batch as people write it: ``7``, or ``7-close`` for the closing after batch 7."""
    number, closing, _ = key.partition("-close")
    return f"{int(number)}{closing}"


def batch_in_words(key: str) -> str:
    """A batch in a sentence: ``batch 7``, or ``the closing after batch 7``."""
    return f"the closing after batch {batch_of(key)}" if key.endswith("-close") else f"batch {batch_of(key)}"


def key_of(name: str) -> str | None:
    """The name of a batch as people write it; None where it is none."""
    found = re.fullmatch(r"(-?\d{1,10})(-close)?", name.strip())
    return None if found is None else batch_key(int(found[1]), found[2] is not None)


def batch_of(key: str) -> int:
    """The batch of a batch, or that after which it closed."""
    return int(key.removesuffix("-close"))


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
        """What the batch is: the plan that was written first, if this is a re-run."""
        return self._plans.setdefault(key, plan)

    def planned(self, key: str) -> bool:
        """Whether a batch has been planned, and so perhaps begun."""
        return key in self._plans

    def begin(self, key: str) -> None:
        """A batch begins to write."""

    def after_failure(self, batch: str) -> str:
        """What becomes of a batch (``batch 7``) that a file system has ended, for its error."""
        return "the run has no checkpoint, and begins anew; delete first what it has written so far"

    def commit(self, manifest: Manifest) -> None:
        """Make the batch's outcome the state, and forget what nothing names any more."""
        self._committed = [*self._committed[-1:], manifest.to_json()]
        needed = set().union(*(Manifest.from_json(text).segments() for text in self._committed))
        for name in self.segments.tables.keys() - needed:
            del self.segments.tables[name]
        self._plans = {key: plan for key, plan in self._plans.items() if key > batch_key(manifest.batch - 1, False)}


class FileCheckpoint:
    """A checkpoint in a folder of a file system that pyarrow knows.

    ``plans/`` holds what a batch is to be, written before it; ``manifests/`` what it came to, written last, atomically;
    ``segments/`` the rows, one folder a batch. Deleted is only what no manifest of the last ``keep`` batches names.

    Whatever is read is checked: DamagedCheckpoint where it is not what was written (decision 30).
    """

    def __init__(self, root: str, uri: str | None = None, keep: int = KEPT_BATCHES) -> None:
        self.root, self.uri, self.keep = root.rstrip("/"), uri, keep
        self.segments = FileSegments(f"{self.root}/segments", uri)
        self._fs = self.segments.filesystem
        self.files = SealedFolder(self.root, self._fs, uri)
        self._kept: list[Manifest] = []
        self._swept = False
        """Whether this process has looked through all folders of segments; another may have died while it cleaned."""
        for folder in ("plans", "manifests", "segments"):
            make_folder(self._fs, f"{self.root}/{folder}")

    def latest(self) -> Manifest | None:
        """The manifest committed last. One that is older and damaged is only left out of what can be gone back to."""
        kept = self.batches()[-self.keep :]
        self._kept = []
        for key in kept[:-1]:
            with suppress(*UNREADABLE):
                self._kept.append(self.manifest(key))
        self._kept.extend(self.manifest(key) for key in kept[-1:])
        return self._kept[-1] if self._kept else None

    def batches(self) -> list[str]:
        """The batches whose manifests are kept, the last one last."""
        return self.files.names("manifests")

    def manifest(self, key: str) -> Manifest:
        """The manifest of a batch."""
        return read_manifest(self.files, key)

    def plan(self, key: str, plan: dict[str, Any]) -> dict[str, Any]:
        """What the batch is: the plan that was written first, if this is a re-run."""
        name = f"plans/{key}"
        written = read_plan(self.files, key)
        if written is not None:
            return written
        check_not_begun(self.files, key)
        self.files.write(name, {"batch": key, "plan": plan})
        return plan

    def planned(self, key: str) -> bool:
        """Whether a batch has been planned, and so perhaps begun."""
        return self.files.has(f"plans/{key}")

    def deadly(self, key: str) -> list[dict[str, Any]]:
        """What of its input a batch leaves out since workers die on it, in the order in which it was found."""
        return self.files.read(f"deadly/{key}") or []

    def note_deadly(self, key: str, found: list[dict[str, Any]]) -> None:
        """Write down all that is left out, so that a re-run leaves out the same."""
        make_folder(self._fs, f"{self.root}/deadly")
        self.files.write(f"deadly/{key}", found)

    def begin(self, key: str) -> None:
        """A batch begins to write: an earlier attempt's segments, which no manifest names, make room."""
        if not self._swept:
            for documents in ("", "plans", "manifests", "deadly"):
                self.files.sweep(documents)
        folder = f"{self.root}/segments/{key}"
        if path_type(self._fs, folder) == pafs.FileType.Directory:
            empty_folder(self._fs, folder)
        else:
            make_folder(self._fs, folder)

    def after_failure(self, batch: str) -> str:
        """What becomes of a batch (``batch 7``) that a file system has ended, for its error."""
        return f"{batch} was not committed, and runs again; nothing is lost"

    def commit(self, manifest: Manifest) -> None:
        """Make the batch's outcome the state, and delete what nothing names any more."""
        key = batch_key(manifest.batch, manifest.closing)
        if self.files.has(f"manifests/{key}"):
            raise CheckpointError(
                f"batch {key} of {self.root} has been committed by another run",
                why="two runs on one checkpoint would delete each other's state",
                do="stop one of them, and rerun",
            )
        before = set().union(*(kept.segments() for kept in self._kept))
        self.segments.sync(manifest.segments() - before)
        self.files.write(f"manifests/{key}", manifest.to_values())
        last = batch_key(self._kept[-1].batch, self._kept[-1].closing) if self._kept else key
        self._kept = [*self._kept, manifest][-self.keep :]
        with during(f"deleting what {batch_in_words(key)} has made superfluous", f"{batch_in_words(key)} is committed"):
            self._clean(key, last, before)

    def read_note(self, name: str) -> dict[str, Any] | None:
        """A note about the whole checkpoint, such as which topology it belongs to; None if there is none."""
        return self.files.read(name)  # type: ignore[no-any-return]

    def write_note(self, name: str, note: dict[str, Any]) -> None:
        """Write a note about the whole checkpoint."""
        self.files.write(name, note)

    def _clean(self, key: str, last: str, before: set[str]) -> None:
        """Delete old plans and manifests, and the segments that no manifest still kept names.

        ``last``: the batch before, in whose folder lies what only its own tasks needed.
        """
        named = set().union(*(manifest.segments() for manifest in self._kept))
        keep_from = batch_key(self._kept[0].batch, self._kept[0].closing)
        for folder in ("plans", "manifests", "deadly"):
            for name in self.files.names(folder):
                if name < keep_from:
                    self.files.delete(f"{folder}/{name}")
        in_use = {segment.split("/")[0] for segment in named}
        for folder in self._names("segments"):
            if folder < key and folder not in in_use:
                delete_folder(self._fs, f"{self.root}/segments/{folder}")
            elif folder < key and (min(keep_from, last) <= folder or not self._swept):
                before |= {f"{folder}/{name}" for name in self._names(f"segments/{folder}")}
        for segment in before - named:
            if segment.split("/")[0] in in_use:
                # One that is gone nothing needs any more.
                delete(self._fs, f"{self.root}/segments/{segment}", missing=True)
        self._swept = True

    def _names(self, folder: str) -> list[str]:
        return sorted(base for base in self.files.entries(folder) if not base.startswith("."))


def check_batch(files: SealedFolder, segments: FileSegments, key: str) -> Manifest:
    """The manifest of a batch all of whose segments are whole; DamagedCheckpoint where it has none."""
    manifest = read_manifest(files, key)
    for ref in manifest.refs():
        segments.check(ref)
    return manifest


def read_manifest(files: SealedFolder, key: str) -> Manifest:
    """The manifest of a batch; DamagedCheckpoint where it is not what was written, or is gone."""
    name = f"manifests/{key}"
    values = required(files.read(name), files.path(name), "what the batch came to was written there")
    try:
        manifest = Manifest.from_values(values)
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(
            f"manifest {files.path(name)} cannot be understood", why=f"{type(error).__name__}: {error}"
        ) from error
    found = batch_key(manifest.batch, manifest.closing)
    if found != key:
        raise DamagedCheckpoint(
            f"manifest {files.path(name)} belongs to another batch", why=f"its content is of batch {found}"
        )
    return manifest


def read_plan(files: SealedFolder, key: str) -> dict[str, Any] | None:
    """The plan of a batch; None where it has none, DamagedCheckpoint where that is not what was written."""
    name = f"plans/{key}"
    values = files.read(name)
    if values is None:
        return None
    if values.get("batch") != key:
        raise DamagedCheckpoint(
            f"plan {files.path(name)} belongs to another batch", why=f"its content is of batch {values.get('batch')}"
        )
    return values["plan"]  # type: ignore[no-any-return]


def check_not_begun(files: SealedFolder, key: str) -> None:
    """That a batch without a plan has not been begun; DamagedCheckpoint if it has, for then its plan is gone."""
    if path_type(files.filesystem, f"{files.root}/segments/{key}") == pafs.FileType.Directory:
        raise DamagedCheckpoint(
            f"plan {files.path(f'plans/{key}')} is gone",
            why="the batch was begun with this plan; without it the files and the clock of the batch are unknown",
        )
