"""ORC: a chunk per stripe, the declared columns only.

Arrow reads times of ORC in nanoseconds, which hold the years 1677 to 2262. A file with others is refused.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from topologies.io.formats.access import opened
from topologies.io.formats.conform import only_present, refuse_impossible, settle, with_absent, without_unneeded
from topologies.io.formats.declared_times import Times, checked_times
from topologies.io.formats.file_errors import declared_once, reading, refuse_absent, refuse_empty, refuse_invalid
from topologies.io.formats.split import Chunk, FileSplit, OnTruncation, check_truncation
from windowing.errors import ConfigError, DataError

_BEYOND = "out of range for nanosecond"
"""How Arrow says that a time does not fit."""


@dataclass(frozen=True)
class OrcFormat:
    """Reads ORC. A timestamp without a zone is of the spout's ``timezone=``."""

    name: ClassVar[str] = "orc"

    on_truncation: OnTruncation = "cut"
    times: Times = ()

    def __post_init__(self) -> None:
        check_truncation(self.on_truncation)
        object.__setattr__(self, "times", checked_times(self.times))
        _orc()

    def split(self, fs: pafs.FileSystem, path: str, wanted: int) -> list[FileSplit]:
        """One split: how many rows the stripes before another have is not told."""
        return [FileSplit(path)]

    def read(
        self,
        fs: pafs.FileSystem,
        split: FileSplit,
        schema: pa.Schema,
        needed: Collection[str] | None = None,
        optional: Collection[str] = (),
    ) -> Iterator[Chunk]:
        """A chunk per stripe."""
        declared_once(schema)
        row = 0
        with self._opened(fs, split.path) as file:
            with reading(split.path, "ORC"):
                present = file.schema
                refuse_absent(split.path, present.names, schema, optional)
                declared, schema = schema, only_present(schema, present.names)
                refuse_impossible(split.path, present, schema, self.times)
                schema = without_unneeded(schema, present, needed)
                _refuse_wrapping(split.path, present, schema)
            for stripe in range(file.nstripes):
                with reading(split.path, "ORC"):
                    raw = _stripe(file, split.path, stripe, schema)
                    refuse_invalid(split.path, raw, raw.num_rows)
                    numbers = np.arange(row, row + raw.num_rows, dtype=np.int64)
                    chunk = settle(raw, schema, numbers, self.on_truncation, times=self.times)
                yield with_absent(chunk, declared, present.names)
                row += raw.num_rows
            if row != file.nrows:
                raise DataError(
                    f"{split.path!r} holds {row} rows, but its footer says {file.nrows}",
                    why="the file is damaged, or was changed while it was read",
                    do="write it again",
                )

    def schema(self, fs: pafs.FileSystem, path: str) -> pa.Schema:
        """The columns as the file has them."""
        with self._opened(fs, path) as file, reading(path, "ORC"):
            str(file.schema)  # names may be no text
            return file.schema.remove_metadata()

    @contextmanager
    def _opened(self, fs: pafs.FileSystem, path: str) -> Iterator[Any]:
        with opened(fs, path, "ORC") as source:
            with reading(path, "ORC"):
                refuse_empty(source, path, "ORC")
                file = _orc().ORCFile(source)
            yield file


def _orc() -> Any:
    """The module of pyarrow, which not all builds have, and which is loaded where it is needed."""
    try:
        from pyarrow import orc
    except ImportError as error:
        raise ConfigError(
            "the format 'orc' needs Arrow's reader of ORC",
            why=f"this build of pyarrow has none: {error}",
            do="install pyarrow with pip, or read Parquet",
        ) from error
    return orc


def _stripe(file: Any, path: str, stripe: int, schema: pa.Schema) -> pa.Table:
    try:
        dotted = any("." in name for name in schema.names)  # which Arrow takes for a field within a struct
        batch = file.read_stripe(stripe, columns=None if dotted else schema.names)
    except pa.ArrowInvalid as error:
        if _BEYOND not in str(error):
            raise
        raise DataError(
            f"{path!r} holds a time before 1677 or after 2262",
            why=f"Arrow reads times of ORC in nanoseconds: {error}",
            do="write the file again without that time, or as Parquet",
        ) from error
    return pa.Table.from_batches([batch]).select(schema.names)


def _refuse_wrapping(path: str, present: pa.Schema, schema: pa.Schema) -> None:
    """Raise DataError for columns with times, where Arrow would wrap those that do not fit."""
    names = [field.name for field in schema if "timestamp" in str(present.field(field.name).type)]
    if names and _wraps():
        raise DataError(
            f"{path!r} has times in column {names[0]!r}",
            why=f"the reader of pyarrow {pa.__version__} would change those of some years without a word",
            do="install a later pyarrow, leave the column out, or write the file as Parquet",
        )


@cache
def _wraps() -> bool:
    """True if this version of Arrow reads times that do not fit as others."""
    written = io.BytesIO()
    _orc().write_table(pa.table({"t": pa.array([253_402_300_799], pa.timestamp("s"))}), written)
    try:
        _orc().ORCFile(pa.BufferReader(written.getvalue())).read()
    except pa.ArrowInvalid:
        return False
    return True
