"""The same objects as pyarrow shows them: as files and folders."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
from obstore.exceptions import BaseError

from tests.simulation.store.objects import Objects


class StoreFileSystem:
    """What windbolt uses of pyarrow's file systems of stores: a folder is what names have in common, or an empty object
    with its name and a slash."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def get_file_info(self, asked: str | pafs.FileSelector) -> Any:
        """What is at a path, or in a folder."""
        if isinstance(asked, pafs.FileSelector):
            folder = asked.base_dir.rstrip("/")
            with _as_arrow_says():
                return self._objects.request(
                    "list objects", folder, lambda: list(self._listed(folder, recursive=asked.recursive))
                )
        path = asked.rstrip("/")
        with _as_arrow_says():
            kind = self._objects.request("look", path, lambda: self._kind(path))
        return pafs.FileInfo(path, type=kind)

    def open_output_stream(self, path: str, **options: Any) -> pa.NativeFile:
        """An object that is there when it is closed."""
        return pa.PythonFile(_Upload(self._objects, path), mode="w")

    def open_input_stream(self, path: str, **options: Any) -> Any:
        """The bytes of an object."""
        with _as_arrow_says():
            return pa.BufferReader(self._objects.request("get", path, lambda: self._objects.read(path)))

    open_input_file = open_input_stream

    def create_dir(self, path: str, *, recursive: bool = True) -> None:
        """A folder with nothing in it."""
        with _as_arrow_says():
            self._objects.request("put", f"{path}/", lambda: self._objects.write(f"{path.rstrip('/')}/", b""))

    def delete_file(self, path: str) -> None:
        """Delete an object that is there."""
        with _as_arrow_says():
            self._objects.request("look", path, lambda: self._objects.read(path))
            self._objects.request("delete objects", path, lambda: self._objects.delete([path]))

    def _kind(self, path: str) -> pafs.FileType:
        if path in self._objects.content:
            return pafs.FileType.File
        if any(name.startswith(f"{path}/") for name in self._objects.content):
            return pafs.FileType.Directory
        return pafs.FileType.NotFound

    def _listed(self, folder: str, *, recursive: bool) -> Iterator[pafs.FileInfo]:
        folders: set[str] = set()
        for name, data in sorted(self._objects.content.items()):
            if not name.startswith(f"{folder}/"):
                continue
            inside = name.removeprefix(f"{folder}/")
            if inside and not inside.endswith("/") and (recursive or "/" not in inside):
                yield pafs.FileInfo(name, type=pafs.FileType.File, size=len(data))
            parts = inside.split("/")[:-1]
            folders |= {"/".join(parts[: at + 1]) for at in range(len(parts) if recursive else min(len(parts), 1))}
        for each in sorted(folders):
            yield pafs.FileInfo(f"{folder}/{each}", type=pafs.FileType.Directory)


class _Upload:
    closed = False

    def __init__(self, objects: Objects, path: str) -> None:
        self._objects, self._path, self._data = objects, path, io.BytesIO()

    def write(self, data: Any) -> int:
        return self._data.write(data)

    def tell(self) -> int:
        return self._data.tell()

    def flush(self) -> None:
        """Nothing is there before it is closed."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            data = self._data.getvalue()
            with _as_arrow_says():
                self._objects.request("upload", self._path, lambda: self._objects.write(self._path, data))


@contextmanager
def _as_arrow_says() -> Iterator[None]:
    try:
        yield
    except BaseError as error:
        raise OSError(f"AWS Error NETWORK_CONNECTION: {error}") from error
