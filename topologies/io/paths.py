"""Paths and their file systems."""

from __future__ import annotations

import os

import pyarrow.fs as pafs

from manager.outside.place_names import place_name
from manager.storage.file_systems.object_store import open_uri


def locate(path: str) -> tuple[pafs.FileSystem, str, str | None]:
    """The file system of a path or URI, the path inside it, and the URI of its root (None for the local one)."""
    path = shown_path(path)
    if "://" not in path:
        return pafs.LocalFileSystem(), path, None
    filesystem, inside = open_uri(path)
    return filesystem, inside, path


def locate_file(path: str) -> tuple[pafs.FileSystem, str]:
    """The file system of a file that was listed, and the path inside it. Its name may be anything: a question mark in
    it begins no options."""
    path = shown_path(path)
    return open_uri(path, options=False) if "://" in path else (pafs.LocalFileSystem(), path)


def shown_path(path: str) -> str:
    """A path as windbolt names it (``place_name``): absolute, and without the scheme that Spark puts before local
    paths."""
    path = place_name(path)
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    return path if "://" in path else os.path.abspath(path)
