"""The keys of objects in files of JSON lines: other files say themselves which columns they have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

import pyarrow as pa

from topologies.graph.nodes.spout import SpoutNode
from topologies.io.file_spout import FileSpout, FoundFile
from topologies.io.formats.access import opened, reached
from topologies.io.paths import locate_file
from windowing.data.returned_rows import DEFAULT_STREAM
from windowing.errors import ConfigError, WindboltError
from windowing.suggestions import did_you_mean

MOST_OBJECTS, MOST_FILES = 1_000, 20
"""Maximum number of objects that are all looked at, and of files that are opened for them."""
_BLOCK, _LONGEST = 1 << 18, 1 << 24
"""Bytes read at a time, and in a line that is looked at."""


def unknown_columns(node: SpoutNode, spout: FileSpout, files: list[FoundFile]) -> list[WindboltError]:
    """The declared columns that no object in the files has, each as an error; none for other formats, and none that
    has a default.

    The first objects decide, except for columns that none of them has: for these all files are searched. They are read
    by Python alone, so that no file can end this process. Raises UnreachableError for a file that cannot be reached.
    """
    if spout.format.name not in ("jsonl", "json"):
        return []
    number, keys = 0, dict[str, None]()
    for each in islice((each for file in files[:MOST_FILES] for each in _objects(file.path)), MOST_OBJECTS):
        number += 1
        keys.update(dict.fromkeys(each))
    declared = spout.row_schema(node.outputs[DEFAULT_STREAM]).names
    declared = [column for column in declared if column not in spout.partitions.names]
    others = [key for key in keys if key not in declared]
    missing = [column for column in declared if number and column not in keys and column not in node.defaults.columns]
    if number == MOST_OBJECTS or len(files) > MOST_FILES:
        missing = _in_no_file(missing, files)
    return [_unknown(node.name, number, column, others) for column in missing]


def _unknown(spout: str, number: int, column: str, others: list[str]) -> WindboltError:
    beside = f"the rows have {', '.join(others[:5])}{', ...' if others[5:] else ''} besides" if others else ""
    which = "no row has" if number > 1 else "the only row has no"
    return ConfigError(
        f"spout {spout!r}: {which} {column!r}{did_you_mean(column, others)}",
        why="; ".join(part for part in ("its values are null", beside) if part),
        do="spell the column as in the input, or leave it out of the schema",
    )


def _in_no_file(columns: list[str], files: list[FoundFile]) -> list[str]:
    """The columns that no object has, in no file; the search ends where each has been found."""
    missing = list(columns)
    for file in files:
        if not missing:
            break
        missing = _not_in(file.path, missing)
    return missing


def _not_in(path: str, columns: list[str]) -> list[str]:
    """The columns that no object of a file has. Only lines that may name one are parsed."""
    missing = {column: json.dumps(column, ensure_ascii=False).encode() for column in columns}
    with reached(path):
        filesystem, inside = locate_file(path)
    with opened(filesystem, inside, "JSON lines", streamed=True) as source:
        for block in _blocks(source):
            suspects = (*missing.values(), _ESCAPE)
            if not any(each in block for each in suspects):
                continue
            for line in block.split(b"\n"):
                if any(each in line for each in suspects):
                    keys = _parsed(line) or {}
                    missing = {column: name for column, name in missing.items() if column not in keys}
    return list(missing)


_ESCAPE = b"\\u"
"""A key may be written with escapes."""


def _objects(path: str) -> Iterator[dict[str, object]]:
    """The objects of a file's lines; lines that hold none are bad rows, and have their reason elsewhere."""
    with reached(path):
        filesystem, inside = locate_file(path)
    with opened(filesystem, inside, "JSON lines", streamed=True) as source:
        for block in _blocks(source):
            for line in block.split(b"\n"):
                value = _parsed(line)
                if value is not None:
                    yield value


def _parsed(line: bytes) -> dict[str, object] | None:
    """The object of a line; None where it holds none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _blocks(source: pa.NativeFile) -> Iterator[bytes]:
    """Whole lines, many at a time."""
    rest = b""
    while (block := source.read(_BLOCK)) and len(rest) <= _LONGEST:
        lines, newline, rest = (rest + block).rpartition(b"\n")
        if newline:
            yield lines
    yield rest
