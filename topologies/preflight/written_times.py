"""How the times of text files are written, as their first rows show it, and how they are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from topologies.graph.nodes.spout import SpoutNode
from topologies.io.file_spout import FileSpout, FoundFile
from topologies.io.formats import FileSplit
from topologies.io.formats.access import reached
from topologies.io.formats.bad import short_repr
from topologies.io.formats.declared_times import AS_WRITTEN, is_unit, unit_in_words
from topologies.io.paths import locate_file
from windowing.data.returned_rows import DEFAULT_STREAM

_ROWS, _CHUNKS = 1_000, 5
_NUMBER = re.compile(r"\s*[+-]?\d+(\.\d*)?([eE][+-]?\d+)?\s*")
_OFFSET = re.compile(r".*\d\s*([Zz]|[+-]\d\d(:?\d\d)?)\s*", re.DOTALL)
_DAY = re.compile(r"\s*\d{4}-\d\d-\d\d\s*")


def written_times(node: SpoutNode, spout: FileSpout, files: list[FoundFile]) -> dict[str, str]:
    """By column with times, how its first values are written, and how they are read. Empty for formats that have times
    themselves.

    Raises DataError and UnreachableError as reading does.
    """
    if not hasattr(spout.format, "times") or spout.format.name not in ("csv", "jsonl", "json"):
        return {}
    schema = spout.row_schema(node.outputs[DEFAULT_STREAM])
    columns = [
        field for field in schema if pa.types.is_temporal(field.type) and field.name not in spout.partitions.names
    ]
    if not columns:
        return {}
    names = [field.name for field in columns]
    texts = pa.schema([(name, pa.string()) for name in names])
    reader: Any = replace(spout.format, times=tuple((name, AS_WRITTEN) for name in names))  # type: ignore[type-var]
    with reached(files[0].path):
        filesystem, path = locate_file(files[0].path)
    chunks = [
        table
        for table, _, _ in islice(
            reader.read(filesystem, FileSplit(path), texts, optional=node.defaults.columns), _CHUNKS
        )
    ]
    rows = pa.concat_tables([texts.empty_table(), *chunks]).slice(0, _ROWS)
    forms: Mapping[str, str] = dict(spout.format.times)
    return {
        field.name: _in_words(rows.column(field.name), field.type, forms.get(field.name), spout.timezone)
        for field in columns
    }


def _in_words(texts: pa.ChunkedArray, kind: pa.DataType, form: str | None, zone: str | None) -> str:
    found = pc.drop_null(texts).to_pylist()
    if not found:
        return "no values"
    where = "" if pa.types.is_date(kind) else f", in {zone or 'UTC'}"
    if form is not None:
        read = f"numbers of {unit_in_words(form)}" if is_unit(form) else f"{form!r}"
        where = "" if is_unit(form) or "%z" in form else where
        return f"written like {short_repr(found[0])}, read as {read}{where}"
    kinds: dict[str, list[str]] = {}
    for text in found:
        kinds.setdefault(_how(text, where, is_date=pa.types.is_date(kind)), []).append(text)
    often = sorted(kinds.items(), key=lambda each: -len(each[1]))
    said = [f"like {short_repr(each[0])}, {how}" for how, each in often]
    if len(often) > 1:
        said = [f"{len(each):,} {text}" for text, (_, each) in zip(said, often, strict=True)]
    return "written " + "; ".join(said)


def _how(text: str, where: str, *, is_date: bool) -> str:
    if is_date:
        return "as a day"
    if _NUMBER.fullmatch(text):
        return "read as milliseconds since 1970"
    return "with its offset" if _OFFSET.fullmatch(text) and not _DAY.fullmatch(text) else f"without an offset{where}"
