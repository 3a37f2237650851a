"""Operations on the files of checkpoints and sinks, and readable errors of all file systems that pyarrow supports."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from manager.remote import is_transient
from windowing.errors import CheckpointError, StorageError

# Turns failures of file systems into errors that say what failed, why, and what to do.


UNREADABLE = (CheckpointError, StorageError)
"""The errors of a file that is damaged or cannot be read."""

_SPACE = "free space there, or move it to a larger disk"
_NETWORK = "see that the file system is mounted, and that its server answers"
_REMEDIES = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: "free space there, or have this user's quota raised",
    errno.EFBIG: "allow larger files (ulimit -f)",
    errno.EACCES: "give this user the right to read and write there",
    errno.EPERM: "give this user the right to read and write there",
    errno.EROFS: "mount the file system so that it can be written to",
    errno.EIO: "check the disk: the system log says more (dmesg)",
    errno.EMFILE: "allow this process more open files (ulimit -n)",
    errno.ENFILE: "allow the system more open files",
    errno.ENOENT: "check that its folder exists and is mounted",
    errno.ENOTDIR: "check that its folder exists and is a folder",
    **dict.fromkeys(
        (
            errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED,
            errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH,
        ),
        _NETWORK,
    ),
}  # fmt: skip
_ELSEWHERE = "check that it can be read and written there, and that the disk, the network or the store works"


def as_storage_error(path: str, done: str) -> AbstractContextManager[None]:
    """Turns an exception of a file system about a path into a StorageError: the path cannot be ``done``, such as
    ``written``.

    ArrowInvalid passes unchanged: it is about the rows to be written.
    """
    return _StorageErrors(path, done)


class _StorageErrors(AbstractContextManager[None]):
    """``as_storage_error``, which each operation enters: as a generator it would cost a few times as much."""

    __slots__ = ("_done", "_path")

    def __init__(self, path: str, done: str) -> None:
        self._path, self._done = path, done

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError) or (isinstance(error, pa.ArrowException) and type(error) is pa.ArrowException):
            raise StorageError(f"{self._path} cannot be {self._done}", **why_and_do(error)) from error


@contextmanager
def naming_owner(whose: str) -> Iterator[None]:
    """Add to a StorageError whose file it is about, such as ``sink 'out'``."""
    try:
        yield
    except StorageError as error:
        raise error.about(whose) from error


@contextmanager
def during(doing: str, after: str) -> Iterator[None]:
    """Add the present work to a StorageError, such as ``committing batch 7``, and the state ``after`` it. Of nested
    blocks the innermost decides."""
    try:
        yield
    except StorageError as error:
        if error.doing:
            raise
        raise error.during(doing, after) from error


def why_and_do(error: Exception) -> dict[str, Any]:
    """Returns the arguments ``why``, ``do`` and ``transient`` of an error: the reason that the file system gives, the
    remedy, and True if it may pass without help."""
    do = f"{remedy(_number(error))}, then rerun"
    return {"why": system_reason(error), "do": do, "transient": is_transient(error)}


def remedy(number: int) -> str:
    """Returns advice for an error of a file system, by its number (``errno``); 0 if it has none."""
    return _REMEDIES.get(number, _ELSEWHERE)


def system_reason(error: Exception) -> str:
    """Returns the reason that the file system gives, such as ``Permission denied (EACCES)``; if the error has no
    ``errno``, the first line of its text."""
    number = _number(error)
    if number in errno.errorcode:
        return f"{os.strerror(number)} ({errno.errorcode[number]})"
    return str(error).strip().split("\n", 1)[0] or type(error).__name__


def _number(error: Exception) -> int:
    return getattr(error, "errno", None) or 0


# Local file systems that keep the order of changes of names: if a change is on disk, so are all before it.


_KEEPING = frozenset({"ext3", "ext4", "xfs"})
"""File systems with one journal: the sync of any file also writes all changes of names before it (decision 39)."""
_MOUNTS = "/proc/self/mountinfo"


def keeps_order(path: str) -> bool:
    """True if the file system of an existing path is known to keep the order of renames."""
    return _type_of(os.stat(path).st_dev) in _KEEPING


@cache
def _type_of(device: int) -> str:
    """Returns the type of a mounted file system; "" if the system does not say, as for volumes of Btrfs and on
    macOS."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open(_MOUNTS, encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                mounted, _, kind = line.partition(" - ")
                if mounted.split()[2] == number:
                    return kind.split()[0]
    except OSError:
        return ""
    return ""


# Operations on the files of checkpoints and sinks, on any file system that pyarrow supports.
#
# Each function raises StorageError where the file system fails. Files of a checkpoint hold users' data: on a local
# file system only their owner may read and write them.


_NO_SYNC_OF_FOLDERS = (errno.EINVAL, errno.EBADF, errno.ENOTSUP)


def make_private(path: str) -> None:
    """Create an empty local file for its owner alone, or empty an existing one."""
    with as_storage_error(path, "written"):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))


def private_stream(filesystem: pafs.FileSystem, path: str) -> pa.NativeFile:
    """Returns a new file to write to, uncompressed whatever its extension."""
    if isinstance(filesystem, pafs.LocalFileSystem):
        make_private(path)  # Arrow keeps the mode of an existing file
    with as_storage_error(path, "written"):
        return filesystem.open_output_stream(path, compression=None)


def write_private(filesystem: pafs.FileSystem, path: str, data: bytes) -> None:
    """Write a new file."""
    with as_storage_error(path, "written"), private_stream(filesystem, path) as sink:
        sink.write(data)


def write_object_whole(filesystem: pafs.FileSystem, path: str, data: bytes) -> None:
    """Write an object to an object store; it appears only once it is complete."""
    with as_storage_error(path, "written"), filesystem.open_output_stream(path, compression=None) as sink:
        sink.write(data)


def sync_file(path: str) -> None:
    """Flush a local file to disk, so that it survives a power cut."""
    with as_storage_error(path, "written to the disk"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync_names(*folders: str) -> None:
    """Flush the names in local folders to disk, so that they survive a power cut before any later change does.

    It does nothing if the file system keeps the order of changes itself (decision 71), or cannot sync folders.
    """
    for folder in folders:
        with as_storage_error(folder, "written to the disk"):
            keeps = keeps_order(folder)
        if not keeps:
            sync_folder(folder)


def sync_folder(folder: str) -> None:
    """Flush the names in a local folder to disk, as far as its file system can do that."""
    with as_storage_error(folder, "written to the disk"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _NO_SYNC_OF_FOLDERS:
                raise
        finally:
            os.close(descriptor)


def sync_folders_below(root: str) -> None:
    """Flush the names in a local folder, its own name, and the names in all folders below it: an earlier process may
    have died before doing so."""
    if not keeps_order(root):
        sync_names(os.path.dirname(root), *sorted(folder for folder, _, _ in os.walk(root)))


def refresh_listing(folder: str) -> None:
    """Makes the next listing of a local folder a fresh one. A network file system may show a list that is up to a
    minute old if another machine has changed the folder; it asks its server as soon as this machine changes it."""
    with as_storage_error(folder, "written to"), suppress(FileNotFoundError, PermissionError):
        os.utime(folder)


def refresh_listings(folder: str) -> None:
    """Does the same as ``refresh_listing`` for a folder and all folders below it."""
    refresh_listing(folder)
    with as_storage_error(folder, "listed"), os.scandir(folder) as found:
        below = [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
    for each in below:
        refresh_listings(each)


def read_bytes(filesystem: pafs.FileSystem, path: str) -> bytes:
    """Returns the content of a file."""
    with as_storage_error(path, "read"), filesystem.open_input_stream(path, compression=None) as source:
        return source.read()  # type: ignore[no-any-return]


def path_exists(filesystem: pafs.FileSystem, path: str) -> bool:
    """True if a file or folder exists at a path."""
    return bool(path_type(filesystem, path) != pafs.FileType.NotFound)


def path_type(filesystem: pafs.FileSystem, path: str) -> pafs.FileType:
    """Returns the type of a path: file, folder or not found."""
    with as_storage_error(path, "looked at"):
        return filesystem.get_file_info(path).type


def entries(filesystem: pafs.FileSystem, folder: str, *, missing: bool = True) -> list[pafs.FileInfo]:
    """Returns the entries of a folder, hidden files included. With ``missing``, a folder that does not exist is
    empty."""
    with as_storage_error(folder, "listed"):
        return filesystem.get_file_info(pafs.FileSelector(folder, allow_not_found=missing))  # type: ignore[no-any-return]


def make_folder(filesystem: pafs.FileSystem, path: str) -> None:
    """Create a folder and its parents; it may exist already."""
    local = isinstance(filesystem, pafs.LocalFileSystem)
    missing = list(_missing_folders(os.path.abspath(path))) if local else []
    with as_storage_error(path, "made"):
        filesystem.create_dir(path, recursive=True)
    sync_names(*map(os.path.dirname, missing))


def _missing_folders(path: str) -> Iterator[str]:
    while not os.path.isdir(path):
        yield path
        path = os.path.dirname(path)


def move(filesystem: pafs.FileSystem, path: str, target: str) -> None:
    """Rename a file."""
    with as_storage_error(path, f"renamed to {target}"):
        filesystem.move(path, target)


def delete(filesystem: pafs.FileSystem, path: str, *, missing: bool = False) -> None:
    """Delete a file. With ``missing``, it may have been deleted already."""
    with as_storage_error(path, "deleted"), suppress(*([FileNotFoundError] if missing else [])):
        filesystem.delete_file(path)


def delete_folder(filesystem: pafs.FileSystem, path: str) -> None:
    """Delete a folder with all that is in it."""
    with as_storage_error(path, "deleted"):
        filesystem.delete_dir(path)


def empty_folder(filesystem: pafs.FileSystem, path: str) -> None:
    """Delete all that is in a folder."""
    with as_storage_error(path, "emptied"):
        filesystem.delete_dir_contents(path)
