"""A folder of sealed JSON documents, each written atomically and verified when it is read."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import pyarrow.fs as pafs

from manager.storage.file_systems import files, hdfs, object_store
from manager.storage.file_systems.files import sync_file, sync_folder, sync_names
from manager.storage.file_systems.hdfs import is_hdfs
from manager.storage.file_systems.object_store import is_object_store
from manager.storage.file_systems.storage_errors import as_storage_error
from manager.storage.sealed import seal, unseal
from windowing.errors import DamagedCheckpoint

_DRAFT = re.compile(r"\..+\.json\.[0-9a-f]{32}")


class SealedFolder:
    """Documents by name, such as ``plans/0000000012``; ``uri`` is that of the file system, None for the local one."""

    def __init__(self, root: str, filesystem: pafs.FileSystem, uri: str | None) -> None:
        self.root, self.filesystem, self.uri = root, filesystem, uri

    @property
    def place(self) -> str:
        """The folder as users name it: with its scheme, where it is not on this machine."""
        at = urlsplit(self.uri or "")
        host = "" if not at.scheme or is_object_store(self.uri) else at.netloc
        return f"{at.scheme}://{host}{self.root}" if at.scheme else self.root

    def path(self, name: str) -> str:
        """The path of a document."""
        return f"{self.root}/{name}.json"

    def has(self, name: str) -> bool:
        """Whether the document exists."""
        path = self.path(name)
        if self.uri is not None and is_object_store(self.uri):
            with as_storage_error(path, "looked at"):
                return object_store.is_object(self.uri, path)
        return files.is_there(self.filesystem, path)

    def read(self, name: str) -> Any:
        """A document; None where there is none.

        Raises DamagedCheckpoint for a damaged file, CheckpointError for another format, StorageError where the file
        cannot be read.
        """
        path = self.path(name)
        data = self._bytes(path)
        return None if data is None else json.loads(unseal(data, path))

    def write(self, name: str, values: Any) -> None:
        """Write a document atomically."""
        path, data = self.path(name), seal(json.dumps(values))
        if self.uri is not None and is_object_store(self.uri):
            with as_storage_error(path, "written"):
                object_store.write_object(self.uri, path, data)
            return
        files.move(self.filesystem, self._draft(path, data), path)
        if self.uri is None:
            sync_names(os.path.dirname(path))

    def sync(self) -> None:
        """Return once all that was written, moved or deleted here survives a power cut: for the end of a command, after
        which no later batch does that."""
        if self.uri is None:
            sync_folder(self.root)

    def create(self, name: str, values: Any) -> bool:
        """Write a document where there is none yet, atomically; False where there is one.

        The values have something of their own, such as a random id: a document that is there with the same values
        counts as written by this call. For object stores and HDFS; on a local file system a lock keeps others off.
        """
        assert self.uri is not None, "on this machine a lock keeps others off"
        path, data = self.path(name), seal(json.dumps(values))
        with as_storage_error(path, "written"):
            if is_hdfs(self.uri):
                return hdfs.create_file(self.uri, _draft_of(path), path, data)
            return object_store.create_object(self.uri, path, data)

    def delete(self, *names: str) -> None:
        """Delete documents; elsewhere than on this machine they may have been deleted already."""
        delete_all(self.filesystem, self.uri, [self.path(name) for name in names])

    def names(self, folder: str) -> list[str]:
        """The names of the documents in a subfolder, sorted: batches in order of time."""
        found = [base.removesuffix(".json") for base in self.entries(folder) if base.endswith(".json")]
        return sorted(base for base in found if not base.startswith("."))

    def entries(self, folder: str) -> list[str]:
        """The names of all entries of a subfolder, hidden files included."""
        return [entry.base_name for entry in files.entries(self.filesystem, f"{self.root}/{folder}".rstrip("/"))]

    def _bytes(self, path: str) -> bytes | None:
        if self.uri is not None and is_object_store(self.uri):
            with as_storage_error(path, "read"):
                return object_store.read_object(self.uri, path)
        return files.read_bytes(self.filesystem, path) if files.is_there(self.filesystem, path) else None

    def _draft(self, path: str, data: bytes) -> str:
        draft = _draft_of(path)
        files.write_private(self.filesystem, draft, data)
        if self.uri is None:
            sync_file(draft)
        return draft

    def sweep(self, folder: str) -> None:
        """Delete the drafts left by processes that died while writing."""
        for base in self.entries(folder):
            if _DRAFT.fullmatch(base):
                delete_all(self.filesystem, self.uri, ["/".join(filter(None, [self.root, folder, base]))])


def _draft_of(path: str) -> str:
    """A new hidden name for what is to be the file at a path."""
    folder, base = path.rsplit("/", 1)
    return f"{folder}/.{base}.{uuid.uuid4().hex}"


def delete_all(filesystem: pafs.FileSystem, uri: str | None, paths: Iterable[str], *, missing: bool = False) -> None:
    """Delete files; on an object store together. Elsewhere than on this machine they may have been deleted already;
    ``missing``: here too."""
    if uri is not None and is_object_store(uri):
        doomed = sorted(paths)
        if doomed:
            with as_storage_error(doomed[0], "deleted"):
                object_store.delete_objects(uri, doomed)
        return
    for path in paths:
        files.delete(filesystem, path, missing=missing or is_hdfs(uri))


def required(found: Any, path: str, why: str) -> Any:
    """The document that was found; raises DamagedCheckpoint, for this reason, where it is None."""
    if found is None:
        raise DamagedCheckpoint(f"{path} is gone", why=why)
    return found
