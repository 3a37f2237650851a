"""Metadata columns of a file spout, about the file that each row is from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.fs as pafs

from windowing.data.schema import TIMESTAMP
from windowing.errors import ConfigError

FILE_METADATA = pa.schema([("file_path", pa.string()), ("file_modified", TIMESTAMP)])
"""The path as error rows show it, and the time of the file's last change: Azure's BlobProperties.LastModified
(AZ-1)."""

_PREFIX = "file_"


def checked_file_metadata(asked: bool | str | Iterable[str]) -> tuple[str, ...]:
    """The names of the requested metadata columns, given with or without their prefix. Raises ConfigError for unknown
    ones."""
    if isinstance(asked, bool):
        return tuple(FILE_METADATA.names) if asked else ()
    names = (asked,) if isinstance(asked, str) else tuple(asked)
    full = [name if str(name).startswith(_PREFIX) else f"{_PREFIX}{name}" for name in names]
    unknown = [name for name, whole in zip(names, full, strict=True) if whole not in FILE_METADATA.names]
    if unknown:
        raise ConfigError(
            f"metadata={unknown[0]!r} of files",
            why="a file has a path, and a time at which it was last changed",
            do=f"use True, or some of {', '.join(FILE_METADATA.names)}",
        )
    return tuple(name for name in FILE_METADATA.names if name in full)


def with_file_metadata(declared: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """The columns of rows and of file metadata. Raises ConfigError for a name that occurs twice."""
    taken = sorted(set(names) & set(declared.names))
    if taken:
        raise ConfigError(
            f"column {', '.join(map(repr, taken))} is declared and also requested as metadata",
            why="a column is known by its name",
            do="give the column another name, or list the metadata without it",
        )
    return pa.schema([*declared, *(FILE_METADATA.field(name) for name in names)])


class FileMetadata:
    """The metadata of one file, the same in each of its rows."""

    def __init__(self, filesystem: pafs.FileSystem, path: str, shown: str, names: Sequence[str]) -> None:
        self._values: dict[str, pa.Scalar] = {}
        for name in names:
            kind = FILE_METADATA.field(name).type
            value = shown if name == "file_path" else _modified(filesystem, path)
            self._values[name] = pa.scalar(value, kind)

    def beside(self, table: pa.Table) -> pa.Table:
        """The rows of the file with the requested metadata columns."""
        for name, value in self._values.items():
            column = pa.repeat(value, table.num_rows)
            table = table.append_column(FILE_METADATA.field(name), column)
        return table


def _modified(filesystem: pafs.FileSystem, path: str) -> pa.Scalar | None:
    """The time of the file's last change in microseconds; None where its file system does not provide it."""
    changed = filesystem.get_file_info(path).mtime_ns
    return None if changed is None else pa.scalar(changed // 1_000, pa.timestamp("us", "UTC"))
