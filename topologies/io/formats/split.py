"""A split of a file, and the interface of readers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs

from topologies.io.formats.bad import BadRows
from windowing.errors import ConfigError

Chunk: TypeAlias = tuple[pa.Table, npt.NDArray[np.int64], BadRows]
OnTruncation: TypeAlias = Literal["cut", "error"]
"""What happens to times that are finer than microseconds: ``cut`` leaves the rest out and counts the row as truncated,
``error`` makes the row a bad one."""


@dataclass(frozen=True)
class FileSplit:
    """One file, or part ``part`` of ``parts`` of it. Small, and picklable."""

    path: str
    part: int = 0
    parts: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.part < self.parts:
            raise ConfigError(
                f"part {self.part} of {self.parts} of {self.path!r} does not exist",
                why="parts are counted from 0",
                do="take the pieces that split() returns",
            )

    def share(self, count: int) -> range:
        """Which of ``count`` consecutive items belong to this part: contiguous, and as even as possible."""
        return range(self.part * count // self.parts, (self.part + 1) * count // self.parts)


def check_truncation(given: str) -> None:
    """Raise ConfigError for what is no ``OnTruncation``."""
    if given not in ("cut", "error"):
        raise ConfigError(
            f"on_truncation={given!r:.60}",
            why="times have microseconds: what is finer is cut off and counted, or such a row is invalid",
            do="use 'cut' or 'error'",
        )


class FileFormat(Protocol):
    """A kind of file: a frozen dataclass of its options, and picklable."""

    @property
    def name(self) -> str: ...

    def split(self, fs: pafs.FileSystem, path: str, wanted: int) -> list[FileSplit]:
        """At most ``wanted`` splits that together make up the file; one where the format cannot be divided."""
        ...

    def read(
        self,
        fs: pafs.FileSystem,
        split: FileSplit,
        schema: pa.Schema,
        needed: Collection[str] | None = None,
        optional: Collection[str] = (),
    ) -> Iterator[Chunk]:
        """Yield the split in chunks of (good rows, their row numbers, bad rows and the numbers of truncated ones).

        Good rows have exactly ``schema``; a format that keeps columns apart may leave out those that are not in
        ``needed`` (None: all are). Columns in ``optional`` are null where the file lacks them, unless it lacks all.
        Row numbers count from 0 in the whole file. Memory is bounded by a chunk. Raises DataError, which names the
        path, if the file as a whole is not what it claims to be; that may happen midway, so what was yielded before is
        not a whole file.
        """
        ...
