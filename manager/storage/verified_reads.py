"""Manifests and plans, verified as they are read."""

from __future__ import annotations

from typing import Any

import pyarrow.fs as pafs

from manager.storage.batch_keys import batch_key
from manager.storage.file_systems.files import path_type
from manager.storage.manifest import Manifest
from manager.storage.sealed_folder import SealedFolder, required
from manager.storage.segments.file_segments import FileSegments
from windowing.errors import DamagedCheckpoint


def check_batch(files: SealedFolder, segments: FileSegments, key: str) -> Manifest:
    """The manifest of a batch, once all its segments are verified. Raises DamagedCheckpoint if one is damaged."""
    manifest = read_manifest(files, key)
    for ref in manifest.refs():
        segments.check(ref)
    return manifest


def read_manifest(files: SealedFolder, key: str) -> Manifest:
    """The manifest of a batch. Raises DamagedCheckpoint if it is damaged or missing."""
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
