"""Paths and the file systems they lie on."""

from __future__ import annotations

import os

import pyarrow.fs as pafs


def locate(path: str) -> tuple[pafs.FileSystem, str, str | None]:
    """The file system of a path or URI, the path inside it, and the URI of its root (None for the local one)."""
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    if "://" not in path:
        return pafs.LocalFileSystem(), os.path.abspath(path), None
    filesystem, inside = pafs.FileSystem.from_uri(path)
    return filesystem, inside, path
