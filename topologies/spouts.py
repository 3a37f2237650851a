"""Spouts: where events come from."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.fs as pafs

from topologies.formats import FileFormat, file_format, infer_schema
from topologies.formats.choose import format_of
from windowing.errors import ConfigError, DataError
from windowing.rows import DEFAULT_STREAM, Rows, tables
from windowing.schema import parse_schema

Declared: TypeAlias = str | pa.Schema


@dataclass(frozen=True)
class FileSpout:
    """Files that appear in a folder, read as columns; Spark keeps the list of those already seen."""

    path: str
    declared: Declared | None
    format: FileFormat
    files_per_batch: int | None = None

    def outputs(self) -> dict[str, pa.Schema]:
        """The declared columns, or those of the first file where it says them."""
        return {DEFAULT_STREAM: self._inferred() if self.declared is None else parse_schema(self.declared)}

    def files(self) -> list[str]:
        """The files that are there now, in the order in which they are read: by time of change, then by name."""
        pattern = os.path.join(self.path, "*") if os.path.isdir(self.path) else self.path
        found = [name for name in glob.glob(pattern) if os.path.isfile(name) and not hidden(name)]
        return sorted(map(os.path.abspath, found), key=lambda name: (os.stat(name).st_mtime_ns // 1_000_000, name))

    def _inferred(self) -> pa.Schema:
        found = self.files() if "://" not in self.path else []
        if not found:
            raise ConfigError(
                f"no file at {self.path!r} tells the columns",
                why="without a declared schema they are taken from the first file",
                do="give a schema like 'user string, amount double, ts timestamp', or correct the path",
            )
        try:
            return infer_schema(pafs.LocalFileSystem(), found[0], self.format.name)
        except DataError as error:
            raise ConfigError(str(error)) from error


@dataclass(frozen=True)
class FrameSpout:
    """Any streaming DataFrame of Spark; its rows come through Arrow."""

    make: Callable[[Any], Any]
    declared: Declared

    def outputs(self) -> dict[str, pa.Schema]:
        """The declared columns."""
        return {DEFAULT_STREAM: parse_schema(self.declared)}


@dataclass(frozen=True)
class MemorySpout:
    """Batches that are given in Python; each becomes a micro-batch. For tests and examples."""

    declared: Declared
    batches: Sequence[Rows] = field(default_factory=list)

    def outputs(self) -> dict[str, pa.Schema]:
        """The declared columns."""
        return {DEFAULT_STREAM: parse_schema(self.declared)}

    def tables(self) -> list[pa.Table]:
        """The batches as tables of the declared columns."""
        schema = parse_schema(self.declared)
        return [_one_table(batch, schema) for batch in self.batches]


Spout = FileSpout | FrameSpout | MemorySpout


def files(
    path: str | os.PathLike[str],
    schema: Declared | None = None,
    *,
    format: str | None = None,
    files_per_batch: int | None = None,
    **options: Any,
) -> FileSpout:
    """Events from Parquet, CSV, JSON lines or Arrow files, in the order in which they were last changed.

    ``path`` is a folder or a pattern (``orders/*.parquet``). ``format`` is taken from the end of the path where it is
    left out. ``schema`` may be left out for Parquet and Arrow where files are there already. ``files_per_batch``
    bounds a micro-batch. Further options are the format's (``delimiter=";"`` for CSV).
    """
    text = os.fspath(path)
    name = format or format_of(text) or _format_inside(text)
    if name is None:
        raise ConfigError(
            f"files({text!r}): the format cannot be told from the path",
            do="end the path in *.parquet, *.csv, *.jsonl or *.arrow, or give format=...",
        )
    if files_per_batch is not None and files_per_batch < 1:
        raise ConfigError(f"files_per_batch={files_per_batch}", why="a batch reads a file or more", do="use 1 or more")
    return FileSpout(text, schema, file_format(name, **options), files_per_batch)


def stream(make: Callable[[Any], Any] | Any, schema: Declared | None = None) -> FrameSpout:
    """Events from a streaming DataFrame: Kafka, rate, sockets, Delta, a Python data source.

    ``make`` is a function that is given the SparkSession and returns the DataFrame, with the columns of ``schema``;
    or the DataFrame itself, whose columns then need not be declared.
    """
    if not callable(make):
        frame = make
        declared = schema or _schema_of_frame(frame)
        return FrameSpout(lambda _: frame, declared)
    if schema is None:
        raise ConfigError(
            "stream(function) without a schema",
            why="a topology is checked before Spark is started",
            do="declare the columns: stream(function, 'user string, ts timestamp')",
        )
    return FrameSpout(make, schema)


def memory(schema: Declared, *batches: Rows) -> MemorySpout:
    """Events given in Python: each batch is a list of dicts or tuples, a pyarrow table or a DataFrame."""
    return MemorySpout(schema, batches)


def hidden(path: str) -> bool:
    """Whether a file is none of the input, by its name: Spark, too, passes over _ and . files."""
    return os.path.basename(path).startswith(("_", "."))


def _format_inside(path: str) -> str | None:
    if not os.path.isdir(path):
        return None
    found = {format_of(name) for name in os.listdir(path) if not hidden(name)} - {None}
    return found.pop() if len(found) == 1 else None


def _schema_of_frame(frame: Any) -> pa.Schema:
    return pa.schema(list(parse_schema(f"row {frame.schema.simpleString()}").field(0).type))


def _one_table(batch: Rows, schema: pa.Schema) -> pa.Table:
    outputs: Mapping[str, pa.Schema] = {DEFAULT_STREAM: schema}
    parts = [table for _, table in tables(batch, outputs)]
    return pa.concat_tables(parts) if parts else schema.empty_table()
