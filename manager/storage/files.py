"""Operations on the files of checkpoints and sinks, on any file system that pyarrow supports.

Each function raises StorageError where the file system fails. Files of a checkpoint hold users' data: on a local file
system only their owner may read and write them.
"""

from __future__ import annotations

import os
from contextlib import suppress

import pyarrow as pa
import pyarrow.fs as pafs

from manager.storage.storage_errors import as_storage_error


def make_private(path: str) -> None:
    """Create an empty local file for its owner alone, or empty an existing one."""
    with as_storage_error(path, "written"):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))


def private_stream(filesystem: pafs.FileSystem, path: str) -> pa.NativeFile:
    """A new file to write to, uncompressed whatever its extension."""
    if isinstance(filesystem, pafs.LocalFileSystem):
        make_private(path)  # Arrow keeps the mode of an existing file
    with as_storage_error(path, "written"):
        return filesystem.open_output_stream(path, compression=None)


def write_private(filesystem: pafs.FileSystem, path: str, data: bytes) -> None:
    """Write a new file."""
    with as_storage_error(path, "written"), private_stream(filesystem, path) as sink:
        sink.write(data)


def write_shown_whole(filesystem: pafs.FileSystem, path: str, data: bytes) -> None:
    """Write an object to an object store, in which it appears once it is closed."""
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


def read_bytes(filesystem: pafs.FileSystem, path: str) -> bytes:
    """The content of a file."""
    with as_storage_error(path, "read"), filesystem.open_input_stream(path, compression=None) as source:
        return source.read()  # type: ignore[no-any-return]


def is_there(filesystem: pafs.FileSystem, path: str) -> bool:
    """Whether there is something at a path."""
    return bool(path_type(filesystem, path) != pafs.FileType.NotFound)


def path_type(filesystem: pafs.FileSystem, path: str) -> pafs.FileType:
    """Whether a path is a file, a folder, or nothing."""
    with as_storage_error(path, "looked at"):
        return filesystem.get_file_info(path).type


def entries(filesystem: pafs.FileSystem, folder: str, *, missing: bool = True) -> list[pafs.FileInfo]:
    """The entries of a folder, hidden files included. With ``missing``, a folder that does not exist is empty."""
    with as_storage_error(folder, "listed"):
        return filesystem.get_file_info(pafs.FileSelector(folder, allow_not_found=missing))  # type: ignore[no-any-return]


def make_folder(filesystem: pafs.FileSystem, path: str) -> None:
    """Create a folder and its parents; it may exist already."""
    with as_storage_error(path, "made"):
        filesystem.create_dir(path, recursive=True)


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
