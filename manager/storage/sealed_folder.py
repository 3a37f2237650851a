"""A folder of sealed files: small JSON documents, each there whole or not at all, and checked when it is read."""

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
    """Documents by name, ``plans/0000000012``; ``uri`` is that of the file system, None for the local one."""

    def __init__(self, root: str, filesystem: pafs.FileSystem, uri: str | None) -> None:
        self.root, self.filesystem, self.uri = root, filesystem, uri

    def path(self, name: str) -> str:
        """The file of a document."""
        return f"{self.root}/{name}.json"

    def has(self, name: str) -> bool:
        """Whether there is such a document."""
        return files.is_there(self.filesystem, self.path(name))

    def read(self, name: str) -> Any:
        """A document; None where there is none.

        Raises DamagedCheckpoint, CheckpointError for another format, StorageError where it cannot be read.
        """
        if not self.has(name):
            return None
        path = self.path(name)
        return json.loads(unseal(files.read_bytes(self.filesystem, path), path))

    def write(self, name: str, values: Any) -> None:
        """Write a document so that it is there whole or not at all."""
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
        """The documents of a folder inside this one, by their order in time."""
        found = [base.removesuffix(".json") for base in self.entries(folder) if base.endswith(".json")]
        return sorted(base for base in found if not base.startswith("."))

    def entries(self, folder: str) -> list[str]:
        """All that lies in a folder inside this one, hidden files too."""
        return [entry.base_name for entry in files.entries(self.filesystem, f"{self.root}/{folder}".rstrip("/"))]

    def sweep(self, folder: str) -> None:
        """Delete the drafts that processes have left that died while they wrote."""
        for base in self.entries(folder):
            if _DRAFT.fullmatch(base):
                files.delete(self.filesystem, "/".join(filter(None, [self.root, folder, base])))


def required(found: Any, path: str, why: str) -> Any:
    """A document that must be there."""
    if found is None:
        raise DamagedCheckpoint(f"{path} is gone", why=why)
    return found
