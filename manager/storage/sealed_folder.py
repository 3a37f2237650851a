"""A folder of sealed JSON documents, each written atomically and verified when it is read."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import pyarrow.fs as pafs

from manager.storage import files
from manager.storage.files import sync_file
from manager.storage.sealed import seal, unseal
from windowing.errors import DamagedCheckpoint

_DRAFT = re.compile(r"\..+\.json\.[0-9a-f]{32}")


class SealedFolder:
    """Documents by name, such as ``plans/0000000012``; ``uri`` is that of the file system, None for the local one."""

    def __init__(self, root: str, filesystem: pafs.FileSystem, uri: str | None) -> None:
        self.root, self.filesystem, self.uri = root, filesystem, uri

    def path(self, name: str) -> str:
        """The path of a document."""
        return f"{self.root}/{name}.json"

    def has(self, name: str) -> bool:
        """Whether the document exists."""
        return files.is_there(self.filesystem, self.path(name))

    def read(self, name: str) -> Any:
        """A document; None where there is none.

        Raises DamagedCheckpoint for a damaged file, CheckpointError for another format, StorageError where the file
        cannot be read.
        """
        if not self.has(name):
            return None
        path = self.path(name)
        return json.loads(unseal(files.read_bytes(self.filesystem, path), path))

    def write(self, name: str, values: Any) -> None:
        """Write a document atomically."""
        path, data = self.path(name), seal(json.dumps(values))
        if self.uri is not None and not isinstance(self.filesystem, pafs.HadoopFileSystem):
            files.write_shown_whole(self.filesystem, path, data)
            return
        folder, base = path.rsplit("/", 1)
        draft = f"{folder}/.{base}.{uuid.uuid4().hex}"
        files.write_private(self.filesystem, draft, data)
        if self.uri is None:
            sync_file(draft)
        files.move(self.filesystem, draft, path)

    def delete(self, name: str) -> None:
        """Delete a document."""
        files.delete(self.filesystem, self.path(name))

    def names(self, folder: str) -> list[str]:
        """The names of the documents in a subfolder, sorted: batches in order of time."""
        found = [base.removesuffix(".json") for base in self.entries(folder) if base.endswith(".json")]
        return sorted(base for base in found if not base.startswith("."))

    def entries(self, folder: str) -> list[str]:
        """The names of all entries of a subfolder, hidden files included."""
        return [entry.base_name for entry in files.entries(self.filesystem, f"{self.root}/{folder}".rstrip("/"))]

    def sweep(self, folder: str) -> None:
        """Delete the drafts left by processes that died while writing."""
        for base in self.entries(folder):
            if _DRAFT.fullmatch(base):
                files.delete(self.filesystem, "/".join(filter(None, [self.root, folder, base])))


def required(found: Any, path: str, why: str) -> Any:
    """The document that was found; raises DamagedCheckpoint, for this reason, where it is None."""
    if found is None:
        raise DamagedCheckpoint(f"{path} is gone", why=why)
    return found
