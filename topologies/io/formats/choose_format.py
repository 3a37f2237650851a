"""Chooses the format for a name or path, and infers the columns of a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Literal, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.fs as pafs

from topologies.io.formats.access import without_compression
from topologies.io.formats.arrow import ArrowFormat
from topologies.io.formats.lines.csv import CsvFormat
from topologies.io.formats.lines.jsonarray import JsonFormat
from topologies.io.formats.lines.jsonl import JsonlFormat
from topologies.io.formats.lines.textlines import TextFormat
from topologies.io.formats.orc import OrcFormat
from topologies.io.formats.parquet import ParquetFormat
from topologies.io.formats.split import FileFormat
from windowing.data.schema import TIMESTAMP
from windowing.errors import ConfigError
from windowing.suggestions import did_you_mean

FormatName: TypeAlias = Literal["parquet", "csv", "jsonl", "json", "arrow", "orc", "text"]
"""The names of formats; ``json`` is an array of objects, or JSON lines; ``text`` has a row for each line."""

_FORMATS: dict[
    str,
    type[ParquetFormat] | type[CsvFormat] | type[JsonlFormat] | type[ArrowFormat] | type[OrcFormat] | type[TextFormat],
] = {
    "parquet": ParquetFormat,
    "csv": CsvFormat,
    "jsonl": JsonlFormat,
    "json": JsonFormat,
    "arrow": ArrowFormat,
    "orc": OrcFormat,
    "text": TextFormat,
}
_ONLY_READ = ("orc", "text")
_OF_ONE_USE = {
    "null_values": "reading",
    "comment": "reading",
    "skip_rows": "reading",
    "decimal_point": "reading",
    "block_size": "reading",
    "use_threads": "reading",
    "longest_row": "reading",
    "on_truncation": "reading",
    "times": "reading",
    "escape_formulas": "writing",
}
"""The options of formats that do something only where files are read, or only where they are written."""
_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".orc": "orc",
    ".txt": "text",
    ".log": "text",
}


class _Described(Protocol):
    def schema(self, fs: pafs.FileSystem, path: str) -> pa.Schema: ...


def file_format(name: str, use: Literal["reading", "writing", "both"] = "both", **options: Any) -> FileFormat:
    """The format ``name``: parquet, csv, jsonl, json, arrow, orc, text.

    Raises ConfigError for any other, and for an option that it does not have for this use.
    """
    chosen = _FORMATS.get(name)
    if chosen is None:
        raise ConfigError(
            f"{name!r} is not a file format{did_you_mean(name, _FORMATS)}", do=f"use one of {', '.join(_FORMATS)}"
        )
    if use == "writing" and name in _ONLY_READ:
        written = [each for each in _FORMATS if each not in _ONLY_READ]
        raise ConfigError(
            f"files of the format {name!r} are not written",
            why="it is only read",
            do=f"use one of {', '.join(written)}",
        )
    known = options_of(name, use)
    unknown = [option for option in options if option not in known]
    if unknown:
        known = [option for option in known if option not in ("on_truncation", "times")]  # arguments of the spout's
        raise ConfigError(
            f"{', '.join(map(repr, unknown))} is not an option of the format {name!r}"
            + ("" if use == "both" else f" for {use}")
            + did_you_mean(unknown[0], known),
            do=f"use {', '.join(known)}" if known else "leave it out, there are no options",
        )
    return chosen(**options)


def options_of(name: str, use: Literal["reading", "writing", "both"] = "both") -> list[str]:
    """The options of the format ``name`` that do something where files are read, or written; none where it is not
    written."""
    if use == "writing" and name in _ONLY_READ:
        return []
    options = [field.name for field in fields(_FORMATS[name])]
    return [option for option in options if use == "both" or _OF_ONE_USE.get(option, use) == use]


def is_written(name: str) -> bool:
    """True for a format that sinks write."""
    return name not in _ONLY_READ


def format_of(path: str) -> str | None:
    """The format that the suffix of a path stands for; None where it stands for none."""
    plain = without_compression(path).lower()
    return next((name for suffix, name in _SUFFIXES.items() if plain.endswith(suffix)), None)


def infer_schema(fs: pafs.FileSystem, path: str, format: str | None = None) -> pa.Schema:
    """The columns of a Parquet, Arrow or ORC file, in types that can be declared.

    Raises ConfigError for text files, whose columns have no types, and DataError for a damaged file.
    """
    name = format or format_of(path)
    described: dict[str, Callable[[], _Described]] = {"parquet": ParquetFormat, "arrow": ArrowFormat, "orc": OrcFormat}
    if name not in described:
        raise ConfigError(
            f"the columns of {path!r} must be declared",
            why=f"{'a ' + name if name else 'such a'} file does not say what types its columns have",
            do="give a schema like 'user string, amount double, ts timestamp'",
        )
    columns = described[name]().schema(fs, path)
    return pa.schema([pa.field(field.name, _declarable(field.type)) for field in columns])


def _declarable(kind: pa.DataType) -> pa.DataType:  # noqa: PLR0911 - one for each kind of type
    kinds = pa.types
    if kinds.is_dictionary(kind) or kinds.is_run_end_encoded(kind):
        return _declarable(kind.value_type)
    if kinds.is_timestamp(kind):
        return TIMESTAMP
    if kinds.is_large_string(kind) or kinds.is_string_view(kind):
        return pa.string()
    if kinds.is_large_binary(kind) or kinds.is_binary_view(kind) or kinds.is_fixed_size_binary(kind):
        return pa.binary()
    if kinds.is_date64(kind):
        return pa.date32()
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        return pa.list_(_declarable(kind.value_type))
    if kinds.is_map(kind):
        return pa.map_(_declarable(kind.key_type), _declarable(kind.item_type))
    if kinds.is_struct(kind):
        return pa.struct([pa.field(field.name, _declarable(field.type)) for field in kind])
    return _WIDER.get(kind, kind)


_WIDER: dict[pa.DataType, pa.DataType] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.null(): pa.string(),
}
