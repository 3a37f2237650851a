"""Files of Spark's half of a checkpoint, with the checksums that Hadoop keeps beside them."""

from __future__ import annotations

import os
import struct
import uuid
import zlib

import pyarrow.fs as pafs

from manager.storage.file_systems import files, hdfs, object_store
from manager.storage.file_systems.files import sync_file, sync_names
from manager.storage.file_systems.hdfs import is_hdfs
from manager.storage.file_systems.storage_errors import as_storage_error
from windowing.errors import DamagedCheckpoint

_MAGIC = b"crc\0"
_SUMMED = 512
"""Bytes for which Hadoop keeps a checksum."""
_PAGE = 4096
"""Bytes that a disk has, or has not."""


def read_spark_file(filesystem: pafs.FileSystem, path: str) -> str:
    """The text of a file that Spark wrote.

    Raises DamagedCheckpoint where it is gone, empty, or does not fit its ``.crc``, StorageError where it cannot be
    read. Where there is no ``.crc``, as on object stores and on HDFS, which look after their files themselves, there is
    nothing to hold it against; nor where that is empty, as a power cut leaves what was not yet on the disk.
    """
    data = _bytes(filesystem, path)
    if data is None:
        raise DamagedCheckpoint(
            f"Spark's log {path} is gone",
            why="it records which input belongs to which batch, and which batches are done",
        )
    if not data:
        raise DamagedCheckpoint(f"Spark's log {path} is damaged", why="the file is empty")
    sums = _bytes(filesystem, sums_of(path))
    if sums and not _fits(data, sums):
        raise DamagedCheckpoint(
            f"Spark's log {path} is damaged",
            why=f"its {len(data):,} bytes and the checksum beside it ({os.path.basename(sums_of(path))}) differ",
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise DamagedCheckpoint(f"Spark's log {path} is damaged", why=str(error)) from error


def write_spark_file(filesystem: pafs.FileSystem, path: str, text: str, *, summed: bool) -> None:
    """Write a file as Spark does: it is there whole or not at all; ``summed``: with its ``.crc``.

    At no moment is there a checksum that is not the file's: a file without one is held against nothing.
    """
    sums, data = sums_of(path), text.encode()
    if summed:
        files.delete(filesystem, sums, missing=True)
        if isinstance(filesystem, pafs.LocalFileSystem):
            sync_names(path.rsplit("/", 1)[0])
    _write(filesystem, path, data)
    if summed:
        _write(filesystem, sums, _sums(data))


def sum_spark_file(path: str) -> None:
    """Write the ``.crc`` of a local file that has none; nothing where the file is gone.

    The ``.crc`` is not flushed to the disk, as Spark flushes none, unless it is so large that a power cut could leave a
    part of it.
    """
    local = pafs.LocalFileSystem()
    data = _bytes(local, path)
    if data is None:
        return
    sums = _sums(data)
    draft = _draft_of(sums_of(path))
    files.write_private(local, draft, sums)
    if len(sums) > _PAGE:
        sync_file(draft)
    files.move(local, draft, sums_of(path))


def create_spark_file(uri: str, path: str, text: str) -> bool:
    """Write a file where there is none yet, without a checksum; False where there is one with another text."""
    with as_storage_error(path, "written"):
        if is_hdfs(uri):
            return hdfs.create_file(uri, _draft_of(path), path, text.encode())
        return object_store.create_object(uri, path, text.encode())


def delete_spark_file(filesystem: pafs.FileSystem, path: str) -> None:
    """Delete a file, and its checksum before it, which would otherwise speak of a file that is lost."""
    for each in (sums_of(path), path):
        files.delete(filesystem, each, missing=True)


def sums_of(path: str) -> str:
    """Where the checksums of a file are."""
    folder, base = path.rsplit("/", 1)
    return f"{folder}/.{base}.crc"


def _write(filesystem: pafs.FileSystem, path: str, data: bytes) -> None:
    if not (isinstance(filesystem, pafs.LocalFileSystem) or hdfs.is_hdfs_itself(filesystem)):
        files.write_shown_whole(filesystem, path, data)
        return
    folder, draft = path.rsplit("/", 1)[0], _draft_of(path)
    files.write_private(filesystem, draft, data)
    if isinstance(filesystem, pafs.LocalFileSystem):
        sync_file(draft)
    files.move(filesystem, draft, path)
    if isinstance(filesystem, pafs.LocalFileSystem):
        sync_names(folder)


def _draft_of(path: str) -> str:
    """A new name as Spark gives it to what is to be the file at a path."""
    folder, base = path.rsplit("/", 1)
    return f"{folder}/.{base.removeprefix('.')}.{uuid.uuid4()}.tmp"


def _sums(data: bytes) -> bytes:
    """The checksums of a file, as Hadoop writes them."""
    parts = [data[at : at + _SUMMED] for at in range(0, len(data), _SUMMED)]
    return _MAGIC + struct.pack(f">i{len(parts)}I", _SUMMED, *map(zlib.crc32, parts))


def _fits(data: bytes, sums: bytes) -> bool:
    """Whether these are the checksums of the data: a CRC-32 for each block of bytes."""
    if sums[:4] != _MAGIC or len(sums) < 8:
        return False
    size = int.from_bytes(sums[4:8], "big")
    if size <= 0:
        return False
    found = [zlib.crc32(data[at : at + size]).to_bytes(4, "big") for at in range(0, len(data), size)]
    return b"".join(found) == sums[8:]


def _bytes(filesystem: pafs.FileSystem, path: str) -> bytes | None:
    return files.read_bytes(filesystem, path) if files.path_type(filesystem, path) == pafs.FileType.File else None
