"""Paths and the file systems they lie on."""

from __future__ import annotations

import os
import re

import pyarrow.fs as pafs


def locate(path: str) -> tuple[pafs.FileSystem, str, str | None]:
    """The file system of a path or URI, the path inside it, and the URI of its root (None for the local one)."""
    path = shown_path(path)
    if "://" not in path:
        return pafs.LocalFileSystem(), path, None
    # Hadoop calls S3 by the name of the library that it reaches it with.
    uri = re.sub("^s3[an]://", "s3://", path)
    filesystem, inside = pafs.FileSystem.from_uri(uri)
    return filesystem, inside, path


def shown_path(path: str) -> str:
    """A path as people write it: absolute, and without the scheme that Spark puts before local ones."""
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    return path if "://" in path else os.path.abspath(path)
