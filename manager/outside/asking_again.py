"""The file system of an object store, which asks again for what may pass.

Arrow's clients try a few requests again by themselves, but not all: S3's gives up at once where the store's "slow down"
is longer than the object that was asked for. All of windbolt's own files in a store, and those of users, are reached
through this one door, so that no caller need think of it (decision 79).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs

from manager.outside.positioned import Positioned
from manager.outside.transient import is_transient

Reply = TypeVar("Reply")
RETRIES = 6
"""How often a request is made again: as often as obstore does it (``object_store``)."""
_FIRST_WAIT = 0.1
"""Seconds; each wait is about twice as long as the one before."""
_PATIENCE = 10.0
"""Seconds after which a request is not made again. A client of Arrow's that asks again by itself may take that long
to say that a store is down; the run then ends, or starts again by itself (``--restart``)."""


def asking_again(act: Callable[[], Reply], again: Callable[[], Reply] | None = None) -> Reply:
    """What ``act`` returns, asked again where it fails in a way that may pass; the last failure is raised.

    ``again``: what is asked instead after a failure, of which nobody knows whether the store has done it.
    """
    begun = time.monotonic()
    for retry in range(RETRIES):
        try:
            return act()
        except OSError as error:
            if not is_transient(error) or time.monotonic() - begun > _PATIENCE:
                raise
        act = again or act
        time.sleep(_FIRST_WAIT * 2**retry * random.uniform(0.5, 1))
    return act()


class AskingAgain(pafs.FileSystemHandler):  # type: ignore[misc]
    """Hands each request on to a file system of Arrow's, and makes it again where that helps."""

    def __init__(self, plain: pafs.FileSystem) -> None:
        self.plain = plain

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AskingAgain) and bool(self.plain.equals(other.plain))

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        return str(self.plain.type_name)

    def normalize_path(self, path: str) -> str:
        return str(self.plain.normalize_path(path))

    def get_file_info(self, paths: list[str]) -> Any:
        return asking_again(lambda: self.plain.get_file_info(paths))

    def get_file_info_selector(self, selector: pafs.FileSelector) -> Any:
        return asking_again(lambda: self.plain.get_file_info(selector))

    def create_dir(self, path: str, recursive: bool) -> None:
        asking_again(lambda: self.plain.create_dir(path, recursive=recursive))

    def delete_dir(self, path: str) -> None:
        self._gone(lambda: self.plain.delete_dir(path))

    def delete_dir_contents(self, path: str, missing_dir_ok: bool) -> None:
        asking_again(lambda: self.plain.delete_dir_contents(path, missing_dir_ok=missing_dir_ok))

    def delete_root_dir_contents(self) -> None:
        asking_again(lambda: self.plain.delete_dir_contents("/", accept_root_dir=True))

    def delete_file(self, path: str) -> None:
        self._gone(lambda: self.plain.delete_file(path))

    def move(self, src: str, dest: str) -> None:
        def again() -> None:
            try:
                self.plain.move(src, dest)
            except FileNotFoundError:  # the first time it was done, and nobody heard of it
                if self.plain.get_file_info(dest).type == pafs.FileType.NotFound:
                    raise

        asking_again(lambda: self.plain.move(src, dest), again)

    def copy_file(self, src: str, dest: str) -> None:
        asking_again(lambda: self.plain.copy_file(src, dest))

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(_Source(asking_again(lambda: self.plain.open_input_file(path))), mode="r")

    def open_output_stream(self, path: str, metadata: dict[str, str]) -> pa.NativeFile:
        return asking_again(lambda: self.plain.open_output_stream(path, compression=None, metadata=metadata))

    def open_append_stream(self, path: str, metadata: dict[str, str]) -> pa.NativeFile:
        return asking_again(lambda: self.plain.open_append_stream(path, compression=None, metadata=metadata))

    def _gone(self, delete: Callable[[], None]) -> None:
        """Delete something; it may be gone when the store is asked again."""

        def again() -> None:
            try:
                delete()
            except FileNotFoundError:
                return

        asking_again(delete, again)


class _Source(Positioned):
    """The bytes of an object, read from where the reader is; a read that failed begins there again."""

    def __init__(self, file: pa.NativeFile) -> None:
        super().__init__(int(file.size()))
        self._file = file

    def read(self, size: int | None = -1) -> bytes:
        return bytes(self.read_buffer(size))

    def read_buffer(self, size: int | None = -1) -> pa.Buffer:
        """As ``read``, without a copy; pyarrow prefers it."""
        left = max(self._size - self._at, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        start = self._at

        def section() -> pa.Buffer:
            self._file.seek(start)
            return self._file.read_buffer(wanted)

        found = asking_again(section) if wanted else pa.py_buffer(b"")
        self._at = start + len(found)
        return found

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._file.close()
