"""Files of Spark's half of a checkpoint, with the checksums that Hadoop keeps beside them."""

from __future__ import annotations

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


def read_spark_file(filesystem: pafs.FileSystem, path: str) -> str:
    """The text of a file that Spark wrote.

    Raises DamagedCheckpoint where it is gone or does not fit its ``.crc``, StorageError where it cannot be read. Where
    there is no ``.crc``, as on object stores and on HDFS, which look after their files themselves, there is nothing to
    hold it against.
    """
    folder, base = path.rsplit("/", 1)
    data = _bytes(filesystem, path)
    if data is None:
        raise DamagedCheckpoint(
            f"Spark's log {path} is gone",
            why="it records which input belongs to which batch, and which batches are done",
        )
    sums = _bytes(filesystem, f"{folder}/.{base}.crc")
    if sums is not None and not _fits(data, sums):
        raise DamagedCheckpoint(
            f"Spark's log {path} is damaged", why=f"its {len(data):,} bytes and Spark's checksum in .{base}.crc differ"
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise DamagedCheckpoint(f"Spark's log {path} is damaged", why=str(error)) from error


def write_spark_file(filesystem: pafs.FileSystem, path: str, text: str, *, summed: bool) -> None:
    """Write a file as Spark does: it is there whole or not at all; ``summed``: with its ``.crc``.

    At no moment is there a checksum that is not the file's: a file without one is held against nothing.
    """
    folder, base = path.rsplit("/", 1)
    sums, data = f"{folder}/.{base}.crc", text.encode()
    if summed:
        files.delete(filesystem, sums, missing=True)
        if isinstance(filesystem, pafs.LocalFileSystem):
            sync_names(folder)
    _write(filesystem, path, data)
    if summed:
        parts = [data[at : at + _SUMMED] for at in range(0, len(data), _SUMMED)]
        _write(filesystem, sums, _MAGIC + struct.pack(f">i{len(parts)}I", _SUMMED, *map(zlib.crc32, parts)))


def create_spark_file(uri: str, path: str, text: str) -> bool:
    """Write a file where there is none yet, without a checksum; False where there is one with another text."""
    with as_storage_error(path, "written"):
        if is_hdfs(uri):
            return hdfs.create_file(uri, _draft_of(path), path, text.encode())
        return object_store.create_object(uri, path, text.encode())


def delete_spark_file(filesystem: pafs.FileSystem, path: str) -> None:
    """Delete a file, and its checksum before it, which would otherwise speak of a file that is lost."""
    folder, base = path.rsplit("/", 1)
    for each in (f"{folder}/.{base}.crc", path):
        files.delete(filesystem, each, missing=True)


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
