"""The keys of the first objects in files of JSON lines: other files say themselves which columns they have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

import pyarrow as pa

from topologies.graph.model import SpoutNode
from topologies.io.formats.access import opened, reached
from topologies.io.paths import locate
from topologies.io.spouts import FileSpout, FoundFile
from windowing.data.rows import DEFAULT_STREAM
from windowing.errors import ConfigError, WindboltError
from windowing.suggestions import did_you_mean

MOST_OBJECTS, MOST_FILES = 1_000, 20
"""Maximum number of objects that are looked at, and of files that are opened for them."""
_BLOCK, _LONGEST = 1 << 18, 1 << 24
"""Bytes read at a time, and in a line that is looked at."""


def unknown_columns(node: SpoutNode, spout: FileSpout, files: list[FoundFile]) -> list[WindboltError]:
    """The declared columns that none of the first objects has, each as an error; none for other formats.

    The objects are read by Python alone, so that no file can end this process. Raises UnreachableError for a file that
    cannot be reached.
    """
    if spout.format.name != "jsonl":
        return []
    number, keys = 0, dict[str, None]()
    for each in islice((each for file in files[:MOST_FILES] for each in _objects(file.path)), MOST_OBJECTS):
        number += 1
        keys.update(dict.fromkeys(each))
    declared = spout.row_schema(node.outputs[DEFAULT_STREAM]).names
    others = [key for key in keys if key not in declared]
    return [_unknown(node.name, number, column, others) for column in declared if number and column not in keys]


def _unknown(spout: str, number: int, column: str, others: list[str]) -> WindboltError:
    beside = f"the rows have {', '.join(others[:5])}{', ...' if others[5:] else ''} besides" if others else ""
    which = f"none of the first {number:,} rows has" if number > 1 else "the only row has no"
    return ConfigError(
        f"spout {spout!r}: {which} {column!r}{did_you_mean(column, others)}",
        why="; ".join(part for part in ("its values are null", beside) if part),
        do="spell the column as in the input, or leave it out of the schema",
    )


def _objects(path: str) -> Iterator[dict[str, object]]:
    """The objects of a file's lines; lines that hold none are bad rows, and have their reason elsewhere."""
    with reached(path):
        filesystem, inside, _ = locate(path)
    with opened(filesystem, inside, "JSON lines", streamed=True) as source:
        for line in _lines(source):
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                yield value


def _lines(source: pa.NativeFile) -> Iterator[bytes]:
    rest = b""
    while (block := source.read(_BLOCK)) and len(rest) <= _LONGEST:
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
    yield rest
