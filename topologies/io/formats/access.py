"""Access to the bytes of a file, whatever they mean.

What prevents reading (a missing path, a failing disk or store) is not the fault of the file's content: it is an
UnreachableError here, whichever reader asks. So what the readers themselves raise is about the content.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs

from manager.outside.transient import is_transient
from manager.storage.file_systems.storage_errors import system_reason
from topologies.io.formats.file_errors import reading
from windowing.errors import DataError, MissingError, UnreachableError

_T = TypeVar("_T")
_TEXT_END = " Detail: "


@contextmanager
def opened(fs: pafs.FileSystem, path: str, kind: str, *, streamed: bool = False) -> Iterator[pa.NativeFile]:
    """Open a file for a reader of format ``kind``; with ``streamed``, sequentially and decompressed.

    Raises UnreachableError, also while reading; MissingError where the file does not exist.
    """
    bytes_of = _local if type(fs) is pafs.LocalFileSystem else _watched
    if streamed and without_compression(path) != path:
        _refuse_nothing(fs, path)
    with bytes_of(fs, path, kind, streamed=streamed) as plain:
        if not streamed:
            yield plain
            return
        with reading(path, kind):
            stream = _unpacked(plain, path)
        yield stream


def _refuse_nothing(fs: pafs.FileSystem, path: str) -> None:
    """Raise DataError for a compressed file without a byte, which decompresses to nothing."""
    with reached(path):
        size = fs.get_file_info(path).size
    if size == 0:
        raise DataError(
            f"{path!r} is empty",
            why="a compressed file has at least a header: it was cut off, or is still being written",
            do="write it again, or remove it",
        )


@contextmanager
def _local(fs: pafs.FileSystem, path: str, kind: str, *, streamed: bool) -> Iterator[pa.NativeFile]:
    """A file of this machine, read without Python: what fails outside its content has a number of the system's."""
    with reached(path):
        _refuse_special(path, kind)
        source = _source(fs, path, streamed=streamed)
    try:
        yield source
    except Exception as error:
        failure = _system_error(error)
        if failure is not None:
            raise unreachable(path, failure) from error
        raise
    finally:
        source.close()


@contextmanager
def _watched(fs: pafs.FileSystem, path: str, kind: str, *, streamed: bool) -> Iterator[pa.NativeFile]:
    """A file of a store, or of a file system in Python: their errors have no numbers, so each read is watched."""
    source = _Bytes(fs, path, streamed=streamed)
    try:
        yield pa.PythonFile(source, mode="r")
    except Exception:
        if source.failure is not None:  # a reader may have wrapped it in its own exception
            raise source.failure from None
        raise
    finally:
        source.close()


def _source(fs: pafs.FileSystem, path: str, *, streamed: bool) -> pa.NativeFile:
    return fs.open_input_stream(path, compression=None) if streamed else fs.open_input_file(path)


def _system_error(error: BaseException | None) -> OSError | None:
    """The error of the system's that an error is or comes from; Arrow's own, about content, have no number."""
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None:
            return error
        error = error.__cause__
    return None


@contextmanager
def reached(path: str) -> Iterator[None]:
    """Turn what a file system raises about a path into an UnreachableError."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise unreachable(path, error) from error


def unreachable(path: str, error: Exception) -> UnreachableError:
    """The UnreachableError for what a file system raised about a path."""
    if isinstance(error, FileNotFoundError):
        return MissingError(
            f"{path!r} does not exist",
            why="it was listed as input and has been moved or deleted since, or the machine that reads it has no such "
            "path",
            do="put it back and rerun: its batch was not committed; or give its spout "
            "on_missing='invalid', which counts such files as invalid and continues",
        )
    return UnreachableError(
        f"{path!r} cannot be reached",
        why=system_reason(error).split(_TEXT_END, 1)[0],
        do="make it readable for the machines that read it, then rerun: its batch was not committed",
        transient=is_transient(error),
    )


class _Bytes(io.RawIOBase):
    """A file of any file system, which remembers the first error of reading it."""

    def __init__(self, fs: pafs.FileSystem, path: str, *, streamed: bool) -> None:
        super().__init__()
        self.failure: UnreachableError | None = None
        self._path = path
        self._source: pa.NativeFile = self._tried(lambda: _source(fs, path, streamed=streamed))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._source.seekable())

    def read_buffer(self, size: int = -1) -> pa.Buffer:
        """As ``read``, without a copy; pyarrow prefers it."""
        return self._tried(lambda: self._source.read_buffer(size))

    def read(self, size: int | None = -1) -> Any:
        return self._tried(lambda: self._source.read(size))

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._tried(lambda: self._source.seek(offset, whence)))

    def tell(self) -> int:
        return int(self._source.tell())

    def close(self) -> None:
        if not self.closed:
            super().close()
            if hasattr(self, "_source"):
                self._source.close()

    def _tried(self, act: Callable[[], _T]) -> _T:
        try:
            with reached(self._path):
                return act()
        except UnreachableError as error:
            self.failure = self.failure or error
            raise


def _refuse_special(path: str, kind: str) -> None:
    """Refuse pipes and other special files: reading them might wait forever."""
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise DataError(
            f"{path!r} cannot be read as {kind}",
            why="it is a pipe, a socket or a device, not a file",
            do="remove it from the input folder",
        )


COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".lz4": "lz4", ".zst": "zstd", ".zstd": "zstd"}
"""The compressions of text files, by the ends of their names."""
_NOT_READ = (".xz", ".zip", ".br", ".z", ".7z", ".rar", ".snappy", ".sz", ".lzo", ".lzma", ".tgz", ".tar")


def without_compression(path: str) -> str:
    """A path without the end of its name that tells its compression."""
    end = next((end for end in COMPRESSIONS if path.lower().endswith(end)), "")
    return path[: len(path) - len(end)]


def unread_compression(path: str) -> str | None:
    """The end of a name that tells a compression, or an archive, that is not read; None for others."""
    return next((end for end in _NOT_READ if path.lower().endswith(end)), None)


def _unpacked(plain: pa.NativeFile, path: str) -> pa.NativeFile:
    """The decompressed content of a file whose name tells its compression."""
    codec = next((codec for end, codec in COMPRESSIONS.items() if path.lower().endswith(end)), None)
    if codec is not None:
        return pa.CompressedInputStream(plain, codec)
    end = unread_compression(path)
    if end is not None:
        raise DataError(
            f"{path!r} cannot be decompressed",
            why=f"files in {end} are not read",
            do=f"compress it in another way: {', '.join(COMPRESSIONS)}",
        )
    return plain
