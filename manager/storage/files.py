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

# Errors of file systems, as StorageErrors with a reason and a remedy.


UNREADABLE = (CheckpointError, StorageError)
"""The errors for a file that is damaged or cannot be read."""

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
_OTHER_REMEDY = "check that it can be read and written there, and that the disk, the network or the store works"


def as_storage_error(path: str, done: str) -> AbstractContextManager[None]:
    """Returns a context manager that raises errors of the file system as a StorageError: "``path`` cannot be ``done``",
    where ``done`` is ``written``, for example.

    ArrowInvalid is not changed, because it is about the rows to be written.
    """
    return _StorageErrors(path, done)


class _StorageErrors(AbstractContextManager[None]):
    """The context manager of ``as_storage_error``; a class, because a generator would be several times slower."""

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
def storage_errors_about(owner: str) -> Iterator[None]:
    """Returns a context manager that adds the owner of the file, such as ``sink 'out'``, to a StorageError."""
    try:
        yield
    except StorageError as error:
        raise error.about(owner) from error


@contextmanager
def storage_errors_during(doing: str, after: str) -> Iterator[None]:
    """Returns a context manager that adds to a StorageError what the block was doing (``doing``), such as ``committing
    batch 7``, and the state after the error (``after``).

    If blocks are nested, the innermost block determines both.
    """
    try:
        yield
    except StorageError as error:
        if error.doing:
            raise
        raise error.during(doing, after) from error


def why_and_do(error: Exception) -> dict[str, Any]:
    """Returns the arguments ``why`` (the reason from the file system), ``do`` (the remedy) and ``transient`` of a
    StorageError."""
    do = f"{remedy(_errno_of(error))}, then rerun"
    return {"why": system_reason(error), "do": do, "transient": is_transient(error)}


def remedy(number: int) -> str:
    """Returns advice for an error of a file system. ``number``: its ``errno``; 0 if it has none."""
    return _REMEDIES.get(number, _OTHER_REMEDY)


def system_reason(error: Exception) -> str:
    """Returns the reason of an error, such as ``Permission denied (EACCES)``; without ``errno``, the first line of its
    text."""
    number = _errno_of(error)
    if number in errno.errorcode:
        return f"{os.strerror(number)} ({errno.errorcode[number]})"
    return str(error).strip().split("\n", 1)[0] or type(error).__name__


def _errno_of(error: Exception) -> int:
    return getattr(error, "errno", None) or 0


# Local file systems that write changes of names to disk in order: if a change is on disk, so are all earlier changes.


_ORDERED_FILE_SYSTEMS = frozenset({"ext3", "ext4", "xfs"})
"""File systems with one journal: syncing any file also writes all earlier changes of names (decision 39)."""
_MOUNTS = "/proc/self/mountinfo"


def keeps_order(path: str) -> bool:
    """True if the file system of an existing path is known to write changes of names in order."""
    return _file_system_type(os.stat(path).st_dev) in _ORDERED_FILE_SYSTEMS


@cache
def _file_system_type(device: int) -> str:
    """Returns the type of a mounted file system; "" if unknown, as for volumes of Btrfs and on macOS."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open(_MOUNTS, encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                device_fields, _, kind = line.partition(" - ")
                if device_fields.split()[2] == number:
                    return kind.split()[0]
    except OSError:
        return ""
    return ""


# Operations on the files of checkpoints and sinks, on any file system that pyarrow supports.
#
# Each function raises StorageError if the file system fails. Local files of a checkpoint have users' data, and only
# their owner may read and write them.


_CANNOT_SYNC_FOLDERS = (errno.EINVAL, errno.EBADF, errno.ENOTSUP)


def make_private(path: str) -> None:
    """Create an empty local file that only its owner may read and write, or empty an existing file."""
    with as_storage_error(path, "written"):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))


def private_stream(filesystem: pafs.FileSystem, path: str) -> pa.NativeFile:
    """Returns a stream to a new file, which is private if it is local; not compressed, whatever the extension."""
    if isinstance(filesystem, pafs.LocalFileSystem):
        make_private(path)  # Arrow keeps the mode of an existing file
    with as_storage_error(path, "written"):
        return filesystem.open_output_stream(path, compression=None)


def write_private(filesystem: pafs.FileSystem, path: str, data: bytes) -> None:
    """Write a new file, which is private if it is local."""
    with as_storage_error(path, "written"), private_stream(filesystem, path) as sink:
        sink.write(data)


def write_object_whole(filesystem: pafs.FileSystem, path: str, data: bytes) -> None:
    """Write an object of an object store; it appears when it is complete."""
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
    """Flush the names in local folders to disk before any later change of names.

    Does nothing if the file system writes changes of names in order (decision 71), or cannot sync folders.
    """
    for folder in folders:
        with as_storage_error(folder, "written to the disk"):
            keeps = keeps_order(folder)
        if not keeps:
            sync_folder(folder)


def sync_folder(folder: str) -> None:
    """Flush the names in a local folder to disk, if the file system can sync folders."""
    with as_storage_error(folder, "written to the disk"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _CANNOT_SYNC_FOLDERS:
                raise
        finally:
            os.close(descriptor)


def sync_folders_below(root: str) -> None:
    """Flush the name of a local folder and all names below it, in case an earlier process has died before doing so."""
    if not keeps_order(root):
        sync_names(os.path.dirname(root), *sorted(folder for folder, _, _ in os.walk(root)))


def refresh_listing(folder: str) -> None:
    """Touch a local folder, so that its next listing is up to date.

    The listing of a network file system may be a minute old if another machine has changed the folder. A change by this
    machine refreshes the listing.
    """
    with as_storage_error(folder, "written to"), suppress(FileNotFoundError, PermissionError):
        os.utime(folder)


def refresh_listings(folder: str) -> None:
    """Call ``refresh_listing`` for a folder and all folders below it."""
    refresh_listing(folder)
    with as_storage_error(folder, "listed"), os.scandir(folder) as entries:
        below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
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


def entries(filesystem: pafs.FileSystem, folder: str, *, missing_ok: bool = True) -> list[pafs.FileInfo]:
    """Returns the entries of a folder, also hidden files. ``missing_ok``: a folder that does not exist counts as
    empty."""
    with as_storage_error(folder, "listed"):
        return filesystem.get_file_info(pafs.FileSelector(folder, allow_not_found=missing_ok))  # type: ignore[no-any-return]


def make_folder(filesystem: pafs.FileSystem, path: str) -> None:
    """Create a folder and its parents unless it exists."""
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


def delete(filesystem: pafs.FileSystem, path: str, *, missing_ok: bool = False) -> None:
    """Delete a file. ``missing_ok``: the file may already be deleted."""
    with as_storage_error(path, "deleted"), suppress(*([FileNotFoundError] if missing_ok else [])):
        filesystem.delete_file(path)


def delete_folder(filesystem: pafs.FileSystem, path: str) -> None:
    """Delete a folder and its content."""
    with as_storage_error(path, "deleted"):
        filesystem.delete_dir(path)


def empty_folder(filesystem: pafs.FileSystem, path: str) -> None:
    """Delete the content of a folder."""
    with as_storage_error(path, "emptied"):
        filesystem.delete_dir_contents(path)
