"""Metadata columns of a file spout, about the file that each row is from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs

from windowing.data.schema import TIMESTAMP
from windowing.errors import ConfigError

FILE_METADATA = pa.schema([("file_path", pa.string()), ("file_modified", TIMESTAMP), ("file_row", pa.int64())])
"""The path as error rows show it; the time of the file's last change, Azure's BlobProperties.LastModified (AZ-1); and
the number of the row in the file, from 0, as error rows have it too."""

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
            why="a file has a path, a time at which it was last changed, and rows with numbers",
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
    """The metadata of the rows of one file."""

    def __init__(self, filesystem: pafs.FileSystem, path: str, shown: str, names: Sequence[str]) -> None:
        self._names = names
        self._values: dict[str, pa.Scalar] = {}
        """Those that all rows of the file have alike."""
        for name in names:
            if name != "file_row":
                value = shown if name == "file_path" else _modified(filesystem, path)
                self._values[name] = pa.scalar(value, FILE_METADATA.field(name).type)

    def beside(self, table: pa.Table, numbers: npt.NDArray[np.int64]) -> pa.Table:
        """Rows of the file, which have these numbers there, with the requested metadata columns."""
        for name in self._names:
            value = self._values.get(name)
            column = pa.array(numbers) if value is None else pa.repeat(value, table.num_rows)
            table = table.append_column(FILE_METADATA.field(name), column)
        return table


def _modified(filesystem: pafs.FileSystem, path: str) -> pa.Scalar | None:
    """The time of the file's last change in microseconds; None where its file system does not provide it."""
    changed = filesystem.get_file_info(path).mtime_ns
    return None if changed is None else pa.scalar(changed // 1_000, pa.timestamp("us", "UTC"))
