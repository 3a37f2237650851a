"""Checkpoints: plans, manifests and segments are written, verified when read, and deleted when no longer needed."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow.fs as pafs

from manager.storage.files import (
    UNREADABLE,
    as_storage_error,
    delete,
    delete_folder,
    empty_folder,
    make_folder,
    path_type,
    storage_errors_during,
    sync_folder,
)
from manager.storage.manifest import Manifest, batch_in_words, batch_key, batch_name
from manager.storage.object_store import is_object_store
from manager.storage.sealed_files import (
    Committed,
    FencedLog,
    Owner,
    SealedFolder,
    delete_all,
    last_entry,
    require_document,
)
from manager.storage.segment_files import FileSegments, MemorySegments, epoch_of
from manager.storage.segments import SegmentStore
from windowing.errors import CheckpointError, DamagedCheckpoint

# Reading manifests, plans and notes.
#
# A checkpoint without a lock has a log, whose last entry is valid. Copies of the entry may be older (decision 87).


def read_verified_manifest(files: SealedFolder, segments: FileSegments, key: str) -> Manifest:
    """Returns the manifest of a batch, after verifying all its sections. Raises DamagedCheckpoint for a damaged
    section."""
    manifest = read_manifest(files, key)
    for ref in manifest.refs():
        segments.check(ref)
    return manifest


def read_committed(files: SealedFolder) -> Committed:
    """Returns the state of the last entry of the log; an empty state without a log."""
    entry = None if files.uri is None else last_entry(files)
    return Committed() if entry is None else Committed.from_entry(entry)


def kept_batches(files: SealedFolder) -> list[str]:
    """Returns the keys of the batches to which a run can go back, in order of time."""
    oldest = read_committed(files).first or ""
    return [key for key in files.names("manifests") if key >= oldest]


def read_note(files: SealedFolder, name: str) -> Any:
    """Returns a note of the committed state; None if there is none."""
    return read_committed(files).notes.get(name) or files.read(name)


def read_manifest(files: SealedFolder, key: str) -> Manifest:
    """Returns the manifest of a batch. Raises DamagedCheckpoint if it is damaged or missing."""
    committed = read_committed(files)
    if committed.batch == key and committed.manifest is not None:
        return manifest_of(committed.manifest, files, key)
    return read_copy(files, key)


def read_copy(files: SealedFolder, key: str) -> Manifest:
    """Returns the manifest of a batch from ``manifests/``. Raises DamagedCheckpoint if it is damaged or missing."""
    name = f"manifests/{key}"
    return manifest_of(
        require_document(files.read(name), files.path(name), "what the batch came to was written there"), files, key
    )


def manifest_of(values: Any, files: SealedFolder, key: str) -> Manifest:
    """Returns the manifest from its stored values. Raises DamagedCheckpoint if they are not the manifest of the
    batch ``key``."""
    path = files.path(f"manifests/{key}")
    try:
        manifest = Manifest.from_values(values)
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(
            f"manifest {path} cannot be understood", why=f"{type(error).__name__}: {error}"
        ) from error
    key_in_manifest = batch_key(manifest.batch, manifest.closing)
    if key_in_manifest != key:
        raise DamagedCheckpoint(
            f"manifest {path} belongs to another batch", why=f"its content is of batch {key_in_manifest}"
        )
    return manifest


def read_plan(files: SealedFolder, key: str) -> dict[str, Any] | None:
    """Returns the plan of a batch; None if it has none. Raises DamagedCheckpoint if it is damaged."""
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
    """Raise DamagedCheckpoint if a batch without a plan has begun, because its plan is then lost."""
    if path_type(files.filesystem, f"{files.root}/segments/{key}") == pafs.FileType.Directory:
        raise DamagedCheckpoint(
            f"plan {files.path(f'plans/{key}')} is gone",
            why="the batch was begun with this plan; without it the files and the clock of the batch are unknown",
        )


# Checkpoints in memory and in files.


KEPT_BATCHES = 3
"""Default number of latest batches whose manifests are kept. With 3 kept batches, a run can go back by 2 batches."""


class Checkpoint(Protocol):
    """Stores the state of a topology after each batch."""

    @property
    def segments(self) -> SegmentStore: ...
    @property
    def epoch(self) -> int: ...
    @property
    def place(self) -> str: ...
    def latest(self) -> Manifest | None: ...
    def planned(self, key: str) -> bool: ...
    def plan(self, key: str, plan: dict[str, Any]) -> tuple[dict[str, Any], bool]: ...
    def sync_plans(self) -> None: ...
    def begin(self, key: str) -> None: ...
    def commit(self, manifest: Manifest) -> None: ...
    def clean(self) -> None: ...
    def after_failure(self, batch: str) -> str: ...
    def after_commit(self, batch: str) -> str: ...


@dataclass
class MemoryCheckpoint:
    """A checkpoint in the memory of this process. Committed batches survive a simulated crash."""

    segments: MemorySegments = field(default_factory=MemorySegments)
    epoch: int = 0
    place: str = field(default_factory=lambda: uuid.uuid4().hex)
    """A unique name in place of a location."""
    _plans: dict[str, dict[str, Any]] = field(default_factory=dict)
    _committed: list[str] = field(default_factory=list)
    _segments: dict[str, set[str]] = field(default_factory=dict)
    """The names of the segments of the manifest committed last, by the text of the manifest."""

    def latest(self) -> Manifest | None:
        """Returns the manifest committed last."""
        return Manifest.from_json(self._committed[-1]) if self._committed else None

    def plan(self, key: str, plan: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Store the plan of a batch unless the batch has one; return (plan of the batch, True if it is new)."""
        is_new = key not in self._plans
        return self._plans.setdefault(key, plan), is_new

    def planned(self, key: str) -> bool:
        """True if a batch has a plan, and so may have begun."""
        return key in self._plans

    def sync_plans(self) -> None:
        """Does nothing: memory does not survive a power cut."""

    def begin(self, key: str) -> None:
        """Called before a batch writes its first segment."""

    def after_failure(self, batch: str) -> str:
        """Returns, for a StorageError, a description of the state of the failed batch (``batch 7``)."""
        return "the run has no checkpoint, and starts over; delete first what it has written so far"

    def after_commit(self, batch: str) -> str:
        """Returns, for a StorageError, a description of the state of a batch whose files were being renamed."""
        return self.after_failure(batch)

    def commit(self, manifest: Manifest) -> None:
        """Make the manifest the current state, and delete segments that no kept manifest refers to."""
        text, before = manifest.to_json(), self._committed[-1:]
        segments_before = [self._segments.get(each) or Manifest.from_json(each).segments() for each in before]
        self._committed, self._segments = [*before, text], {text: manifest.segments()}
        needed_segments = self._segments[text].union(*segments_before)
        for name in self.segments.tables.keys() - needed_segments:
            del self.segments.tables[name]
        self._plans = {key: plan for key, plan in self._plans.items() if key > batch_key(manifest.batch - 1, False)}

    def clean(self) -> None:
        """Does nothing: ``commit`` deletes superfluous segments."""


FIRST_FILES = (f"manifests/{batch_key(0, False)}.json", f"segments/{batch_key(0, False)}/0.arrow")
"""Names of files that the first batch writes."""


class FileCheckpoint:
    """A checkpoint in a folder of a file system that pyarrow supports.

    ``plans/`` holds the plan of each batch, written before it runs. ``manifests/`` holds its outcome, written last and
    atomically. ``segments/`` holds the rows, in one folder per batch. The manifests of the last ``keep`` batches are
    kept, with all segments that they refer to.

    Only a local checkpoint has a lock. A remote checkpoint has a log in ``claims/``, which determines the owner and the
    committed state; ``manifests/`` then holds copies (decisions 67 and 87).

    Every file is verified when it is read; DamagedCheckpoint is raised if a checksum differs (decision 30).
    """

    def __init__(self, root: str, uri: str | None = None, keep: int = KEPT_BATCHES) -> None:
        self.root, self.uri, self.keep = root.rstrip("/"), uri, keep
        self.segments = FileSegments(f"{self.root}/segments", uri)
        self._fs = self.segments.filesystem
        self.files = SealedFolder(self.root, self._fs, uri)
        self._log = None if uri is None else FencedLog(self.files)
        self._committed = Committed()
        """The committed state that this run has written or found last; empty before the claim."""
        self._kept_manifests: list[Manifest] = []
        self._superfluous: tuple[str, str, set[str]] | None = None
        """The arguments of ``_clean`` after the last commit; None once the superfluous files are deleted."""
        self._swept = False
        """True if this process has cleaned all folders of segments. An earlier process may have died while cleaning."""
        self._all_readable = True
        """True if all manifests to be kept could be read. An unreadable manifest may need any segment."""
        for folder in () if is_object_store(uri) else ("plans", "manifests", "segments"):
            make_folder(self._fs, f"{self.root}/{folder}")

    @property
    def epoch(self) -> int:
        """The number of this run's claim; 0 before the claim, and for a checkpoint with a lock."""
        return 0 if self._log is None else self._log.epoch

    @property
    def place(self) -> str:
        """Its location: a resolved local path or a URI. No other checkpoint has the same."""
        return os.path.realpath(self.root) if self.uri is None else self.uri

    def claim(self, owner: Owner, back_to: str | None = None, *, again: bool = False) -> None:
        """Claim the checkpoint, if it has no lock; the former owner can then no longer commit.

        ``back_to``: the batch to whose state the checkpoint goes back; None: the state stays. ``again``: as for
        ``FencedLog.claim``.
        """
        if self._log is not None:
            self._committed = self._log.claim(owner, lambda before: self._settle(before, back_to), again=again)
            self.segments = replace(self.segments, epoch=self.epoch)
            if back_to is None:
                self._refuse_uncommitted(self._committed.batch)

    def check_owner(self) -> None:
        """Raise TakenOver if another run has claimed the checkpoint since this run's claim."""
        if self._log is not None and self.epoch:
            self._log.check()

    def latest(self) -> Manifest | None:
        """Returns the manifest committed last; None before the first commit. Damaged older manifests are ignored."""
        kept_names = self.batches()[-self.keep :]
        self._kept_manifests = []
        for key in kept_names[:-1]:
            with suppress(*UNREADABLE):
                self._kept_manifests.append(read_copy(self.files, key))
        self._kept_manifests.extend(self.manifest(key) for key in kept_names[-1:])
        self._all_readable = len(self._kept_manifests) == len(kept_names)
        return self._kept_manifests[-1] if self._kept_manifests else None

    def batches(self) -> list[str]:
        """Returns the keys of the batches whose manifests are kept, in order of time."""
        return self.files.names("manifests")

    def manifest(self, key: str) -> Manifest:
        """Returns the manifest of a batch."""
        if self._committed.batch == key and self._committed.manifest is not None:
            return manifest_of(self._committed.manifest, self.files, key)
        return read_manifest(self.files, key)

    def plan(self, key: str, plan: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Store the plan of a batch unless the batch has one; return (plan of the batch, True if it is new)."""
        name = f"plans/{key}"
        written = read_plan(self.files, key)
        if written is not None:
            return written, False
        check_not_begun(self.files, key)
        document = {"batch": key, "plan": plan}
        if self._log is None:
            self.files.write(name, document)
        elif not self.files.create(name, document | {"epoch": self.epoch, "id": uuid.uuid4().hex}):
            return require_document(
                read_plan(self.files, key), self.files.path(name), "it was there a moment ago"
            ), False
        return plan, True

    def replan(self, key: str, plan: dict[str, Any]) -> bool:
        """Replace the plan of a batch if a former owner has written it; return True if it was replaced.

        The batch must not be committed, and none of its files may have got its name.
        """
        name = f"plans/{key}"
        if (self.files.read(name) or {}).get("epoch", 0) >= self.epoch:
            return False
        self.files.write(name, {"batch": key, "plan": plan, "epoch": self.epoch, "id": uuid.uuid4().hex})
        return True

    def change_run_in_plan(self, key: str) -> None:
        """Change the run id in the plan of a batch. Called if the rows of the batch will change, so that a sink does
        not take the new rows for the old.

        The first half of the id stays, because it identifies a checkpoint without commits.
        """
        plan = read_plan(self.files, key)
        if plan is not None:
            half_length = len(plan["run"]) // 2
            plan = plan | {"run": plan["run"][:half_length] + uuid.uuid4().hex[half_length:]}
            self.files.write(f"plans/{key}", {"batch": key, "plan": plan, "epoch": self.epoch, "id": uuid.uuid4().hex})

    def planned(self, key: str) -> bool:
        """True if a batch has a plan, and so may have begun."""
        return self.files.has(f"plans/{key}")

    def sync_plans(self) -> None:
        """Make the local plans survive a power cut. Called before an outside system learns of a batch, because a re-run
        must then follow the plan."""
        if self.uri is None:
            sync_folder(f"{self.root}/plans")

    def poison_input(self, key: str) -> list[dict[str, Any]]:
        """Returns the input that a batch leaves out because workers die on it, in order of discovery."""
        return self.files.read(f"poison/{key}") or []

    def note_poison_input(self, key: str, poison: list[dict[str, Any]]) -> None:
        """Store all input that a batch leaves out, so that a re-run leaves out the same input."""
        make_folder(self._fs, f"{self.root}/poison")
        self.files.write(f"poison/{key}", poison)

    def begin(self, key: str) -> None:
        """Delete the segments of an earlier attempt at a batch; called before the batch writes its first segment.

        Without a lock nothing is deleted, because another run may still commit the segments. The next commit deletes
        them.
        """
        if self._log is not None:
            self._log.check()
            return
        if not self._swept:
            self._sweep_drafts()
        folder = f"{self.root}/segments/{key}"
        if path_type(self._fs, folder) == pafs.FileType.Directory:
            empty_folder(self._fs, folder)
        else:
            make_folder(self._fs, folder)

    def after_failure(self, batch: str) -> str:
        """Returns, for a StorageError, a description of the state of the failed batch (``batch 7``)."""
        return f"{batch} was not committed, and runs again; nothing is lost"

    def after_commit(self, batch: str) -> str:
        """Returns, for a StorageError, a description of the state of a batch whose files were being renamed."""
        return f"{batch} is committed, and the next run gives the rest of its files their names; nothing is lost"

    def commit(self, manifest: Manifest) -> None:
        """Make the manifest the current state; ``clean`` then deletes files that no kept manifest refers to."""
        self.clean()
        key = batch_key(manifest.batch, manifest.closing)
        segments_before = set().union(*(kept_manifest.segments() for kept_manifest in self._kept_manifests))
        self._commit(key, manifest, segments_before)
        previous = (
            batch_key(self._kept_manifests[-1].batch, self._kept_manifests[-1].closing) if self._kept_manifests else key
        )
        self._kept_manifests = [*self._kept_manifests, manifest][-self.keep :]
        self._superfluous = (key, previous, segments_before)

    def clean(self) -> None:
        """Delete the files that the last commit has made superfluous.

        Any thread may call this while nothing else uses the checkpoint. If the process dies, a later process deletes
        the rest.
        """
        if self._superfluous is None:
            return
        key, previous, segments_before = self._superfluous
        batch = batch_in_words(key)
        with storage_errors_during(f"deleting what {batch} has made superfluous", f"{batch} is committed"):
            self._clean(key, previous, segments_before)
        self._superfluous = None

    def _commit(self, key: str, manifest: Manifest, segments_before: set[str]) -> None:
        values = manifest.to_values()
        if self._log is not None:
            committed = replace(self._committed, batch=key, manifest=values)
            self._log.commit(committed)
            self._committed = committed
            with storage_errors_during(
                f"noting that {batch_in_words(key)} is committed", f"{batch_in_words(key)} is committed"
            ):
                self.files.create(f"manifests/{key}", values)  # a later owner may have written it, too
            return
        if self.files.has(f"manifests/{key}"):
            raise CheckpointError(
                f"batch {key} of {self.root} has been committed by another run",
                why="two runs on one checkpoint would delete each other's state",
                do="stop one of them, and rerun",
            )
        self.segments.sync(manifest.segments() - segments_before)
        self.files.write(f"manifests/{key}", values)

    def _settle(self, before: Committed | None, back_to: str | None = None) -> Committed:
        """Write missing copies of the committed state; return the state for the claim, which is the committed state or
        the state after the batch ``back_to``."""
        if before is None:
            batches = self.batches()
            before = Committed(batches[-1] if batches else None)
        else:
            self._copy(before)
        if back_to is None or back_to == before.batch:
            return before
        return replace(before, batch=back_to, manifest=self.files.read(f"manifests/{back_to}"))

    def _copy(self, committed: Committed) -> None:
        """Write the copies of the committed state, and delete the copies of batches to which a run can no longer go
        back."""
        if committed.manifest is not None:
            self._write_copy(f"manifests/{committed.batch}", committed.manifest)
        for name, note in committed.notes.items():
            self._write_copy(name, note)
        if committed.first is not None:
            self.files.delete(*(f"manifests/{key}" for key in self.batches() if key < committed.first))

    def _write_copy(self, name: str, values: Any) -> None:
        present = None
        with suppress(DamagedCheckpoint):
            present = self.files.read(name)
        if present is None and self.files.create(name, values):
            return
        if present != values:
            self.files.write(name, values)

    def _refuse_uncommitted(self, last_committed: str | None) -> None:
        """Raise CheckpointError for a manifest of a batch after ``last_committed``. Called after the claim, because
        until then the former owner may commit."""
        batches = self.batches()
        last_name = "none" if last_committed is None else batch_name(last_committed)
        if batches and batches[-1] > (last_committed or ""):
            raise CheckpointError(
                f"checkpoint {self.root} holds batch {batch_name(batches[-1])}, which was never committed",
                why=f"by {self.root}/claims the last batch is {last_name}",
                do="if this is a copy that has been used on a local disk, delete the folder claims; else go back to an "
                "earlier batch (windbolt checkpoint CK --back-to BATCH)",
            )

    def folder(self, manifest: Manifest) -> str:
        """Returns the folder for segments of the batch of a manifest, which may already have segments."""
        key = batch_key(manifest.batch, manifest.closing)
        if not is_object_store(self.uri):
            make_folder(self._fs, f"{self.root}/segments/{key}")
        return key

    def replace(self, manifest: Manifest | None, notes: Mapping[str, Any], *, forget_earlier: bool = False) -> None:
        """Replace the manifest of the last committed batch (None before the first batch), and notes by name.

        With a log, the change is atomic. On the local file system each document is replaced atomically, and the caller
        must keep runs from starting. The next run deletes unused segments.

        ``forget_earlier``: a run can no longer go back to earlier batches.
        """
        key = None if manifest is None else batch_key(manifest.batch, manifest.closing)
        if self._log is not None:
            before = self._committed
            values = None if manifest is None else manifest.to_values()
            self._commit_entry(
                Committed(key, values, {**before.notes, **notes}, key if forget_earlier else before.first)
            )
            return
        if manifest is not None:
            if forget_earlier:
                self.files.delete(*(f"manifests/{each}" for each in self.batches() if each != key))
            self.segments.sync(manifest.segments())
            self.files.write(f"manifests/{key}", manifest.to_values())
        for name, note in notes.items():
            self.files.write(name, note)

    def replace_note(self, name: str, note: Mapping[str, Any]) -> None:
        """Replace a note about the whole checkpoint; the state does not change."""
        if self._log is None:
            self.files.write(name, note)
        else:
            self._commit_entry(replace(self._committed, notes={**self._committed.notes, name: note}))

    def _commit_entry(self, committed: Committed) -> None:
        assert self._log is not None
        self._log.commit(committed)
        self._committed = committed
        with storage_errors_during("copying what is committed", "it is committed, and the next run copies the rest"):
            self._copy(committed)

    def delete_leftovers(self) -> None:
        """Delete the files that an earlier process has left; called at the end of a run that has committed nothing."""
        if self._kept_manifests and self._all_readable and not self._swept:
            key = batch_key(self._kept_manifests[-1].batch, self._kept_manifests[-1].closing)
            with storage_errors_during("deleting what an earlier run has left", "nothing is lost"):
                if self._log is None:
                    self._sweep_drafts()
                self._clean(key, key, set())

    def read_note(self, name: str) -> dict[str, Any] | None:
        """Returns a note about the whole checkpoint, such as its topology; None if there is none."""
        return read_note(self.files, name)  # type: ignore[no-any-return]

    def write_note(self, name: str, note: dict[str, Any]) -> None:
        """Write a note about the whole checkpoint."""
        self.files.write(name, note)

    def _sweep_drafts(self) -> None:
        for documents in ("", "plans", "manifests", "poison"):
            self.files.sweep(documents)

    def _clean(self, key: str, previous: str, segments_before: set[str]) -> None:
        """Delete old plans and manifests, and the segments that no kept manifest refers to.

        ``key``: the batch committed last. ``previous``: the batch before it. Its folder may hold segments that no other
        batch needed. ``segments_before``: the segments of the manifests that were kept until now.
        """
        needed_segments = set().union(*(manifest.segments() for manifest in self._kept_manifests))
        keep_from = batch_key(self._kept_manifests[0].batch, self._kept_manifests[0].closing)
        unneeded = [
            f"{folder}/{name}"
            for folder in ("plans", "manifests", "poison")
            for name in self.files.names(folder)
            if name < keep_from
        ]
        self.files.delete(*unneeded)
        if self._log is not None:
            self._log.clean()
            self._delete_segments_of_others(key, needed_segments)
            return
        needed_folders = {segment.split("/")[0] for segment in needed_segments}
        for folder in self._names("segments"):
            if folder < key and folder not in needed_folders:
                delete_folder(self._fs, f"{self.root}/segments/{folder}")
            elif folder < key and (min(keep_from, previous) <= folder or not self._swept):
                segments_before |= {f"{folder}/{name}" for name in self._names(f"segments/{folder}")}
        for segment in segments_before - needed_segments:
            if segment.split("/")[0] in needed_folders:
                # It may have been deleted already.
                delete(self._fs, f"{self.root}/segments/{segment}", missing_ok=True)
        self._swept = True

    def _delete_segments_of_others(self, key: str, needed: set[str]) -> None:
        """Delete the segments of earlier batches and earlier owners that no kept manifest refers to; segments of a
        later owner stay."""
        root = f"{self.root}/segments"
        with as_storage_error(root, "listed"):
            infos = self._fs.get_file_info(pafs.FileSelector(root, recursive=True, allow_not_found=True))
        paths = [entry.path for entry in infos if entry.type == pafs.FileType.File]
        doomed = [
            path
            for path in paths
            for name in [path.removeprefix(f"{root}/")]
            if name not in needed and epoch_of(name) <= self.epoch - (name.split("/")[0] >= key)
        ]
        delete_all(self._fs, self.uri, doomed, missing_ok=True)
        self._swept = True

    def _names(self, folder: str) -> list[str]:
        return sorted(base for base in self.files.entries(folder) if not base.startswith("."))
