"""Files of a checkpoint, which hold users' data: on a local file system their owner alone may read and write them."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.fs as pafs


def make_private(path: str) -> None:
    """Make a local file, to be written to later, or empty it."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))


def private_stream(filesystem: pafs.FileSystem, path: str) -> pa.NativeFile:
    """A new file to write to, without compression, whatever its name."""
    if isinstance(filesystem, pafs.LocalFileSystem):
        make_private(path)  # Arrow keeps the mode of what is there
    return filesystem.open_output_stream(path, compression=None)


def sync_file(path: str) -> None:
    """Wait until all that was written to a local file is on the disk: a power cut would otherwise cut it off."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
