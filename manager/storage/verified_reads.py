"""Manifests, plans and notes, verified as they are read.

Where no lock keeps runs off, what the last turn has counts, and not the copy of it: whoever died, or has lost the
checkpoint, may have left an older one (decision 87)."""

from __future__ import annotations

from typing import Any

import pyarrow.fs as pafs

from manager.storage.batch_keys import batch_key
from manager.storage.file_systems.files import path_type
from manager.storage.manifest import Manifest
from manager.storage.sealed_folder import SealedFolder, required
from manager.storage.segments.file_segments import FileSegments
from manager.storage.turns import Committed, last_turn
from windowing.errors import DamagedCheckpoint


def check_batch(files: SealedFolder, segments: FileSegments, key: str) -> Manifest:
    """The manifest of a batch, once all its segments are verified. Raises DamagedCheckpoint if one is damaged."""
    manifest = read_manifest(files, key)
    for ref in manifest.refs():
        segments.check(ref)
    return manifest


def read_committed(files: SealedFolder) -> Committed:
    """What is committed by the last turn; nothing where there is none, as on this machine."""
    turn = None if files.uri is None else last_turn(files)
    return Committed() if turn is None else Committed.in_turn(turn)


def kept_batches(files: SealedFolder) -> list[str]:
    """The keys of the batches that can be gone back to, in order of time."""
    first = read_committed(files).first or ""
    return [key for key in files.names("manifests") if key >= first]


def read_note(files: SealedFolder, name: str) -> Any:
    """A note that is replaced together with the state; None where there is none."""
    return read_committed(files).notes.get(name) or files.read(name)


def read_manifest(files: SealedFolder, key: str) -> Manifest:
    """The manifest of a batch. Raises DamagedCheckpoint if it is damaged or missing."""
    last = read_committed(files)
    if last.batch == key and last.manifest is not None:
        return manifest_of(last.manifest, files, key)
    return read_copy(files, key)


def read_copy(files: SealedFolder, key: str) -> Manifest:
    """The manifest of a batch before the last one, as ``read_manifest``."""
    name = f"manifests/{key}"
    return manifest_of(
        required(files.read(name), files.path(name), "what the batch came to was written there"), files, key
    )


def manifest_of(values: Any, files: SealedFolder, key: str) -> Manifest:
    """The manifest that is stored as these values. Raises DamagedCheckpoint where it is none, or another batch's."""
    path = files.path(f"manifests/{key}")
    try:
        manifest = Manifest.from_values(values)
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(
            f"manifest {path} cannot be understood", why=f"{type(error).__name__}: {error}"
        ) from error
    found = batch_key(manifest.batch, manifest.closing)
    if found != key:
        raise DamagedCheckpoint(f"manifest {path} belongs to another batch", why=f"its content is of batch {found}")
    return manifest


def read_plan(files: SealedFolder, key: str) -> dict[str, Any] | None:
    """The plan of a batch; None where it has none. Raises DamagedCheckpoint if it is damaged."""
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
    """Raise DamagedCheckpoint if a batch without a plan has begun: its plan is then missing."""
    if path_type(files.filesystem, f"{files.root}/segments/{key}") == pafs.FileType.Directory:
        raise DamagedCheckpoint(
            f"plan {files.path(f'plans/{key}')} is gone",
            why="the batch was begun with this plan; without it the files and the clock of the batch are unknown",
        )
