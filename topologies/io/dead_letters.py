"""Records that cannot be delivered: the headers that describe them, and cutting them to the size that Kafka takes."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

REASON, TOPIC, PARTITION, OFFSET = "windbolt-reason", "windbolt-topic", "windbolt-partition", "windbolt-offset"
SIZE, DIGEST, CUT = "windbolt-size", "windbolt-sha256", "windbolt-cut"
"""Headers of a record that was cut: the size of its value in bytes, the SHA-256 of the value as hexadecimal digits, and
what was cut."""

OVERHEAD = 1_000
"""Bytes reserved per record for the id and Kafka's own overhead."""
_TOLD = 250
"""Bytes reserved for the headers that describe what was cut."""
_KEY = 4
"""A key larger than one part in so many of a record is cut."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Undeliverable:
    """Where records go whose topic does not exist."""

    topic: str
    limit: int | None = None
    """Maximum size of a record there in bytes; None for no limit."""


def size_of(row: Row) -> int:
    """Upper bound on the size of a record in bytes, with its key and headers, as Kafka counts it."""
    headers = sum(map(_bytes_of, row["headers"] or ()))
    return len(row["value"] or b"") + len(row["key"] or b"") + headers + OVERHEAD


def _bytes_of(header: Row) -> int:
    return len(header["key"].encode()) + len(header["value"] or b"")


def with_told(headers: Sequence[Row] | None, told: Mapping[str, object]) -> list[Row]:
    """The headers with additional ones, which replace those of the same names; None values are left out."""
    kept = [each for each in headers or () if each["key"] not in told]
    return kept + [{"key": name, "value": str(value).encode()} for name, value in told.items() if value is not None]


def fitting(row: Row, limit: int | None) -> Row:
    """The record, cut to ``limit`` bytes if it is larger: its value, a very long key, and headers that do not fit.

    ``windbolt-cut`` says what was cut; for the value, its full size and SHA-256 are added. windbolt's own headers stay.
    """
    if limit is None or size_of(row) <= limit:
        return row
    value, key, cut = row["value"] or b"", row["key"], ["value"]
    ours = [each for each in row["headers"] or () if each["key"].startswith("windbolt-")]
    theirs = [each for each in row["headers"] or () if not each["key"].startswith("windbolt-")]
    room = max(limit - OVERHEAD - _TOLD - sum(map(_bytes_of, ours)), 0)
    if key is not None and len(key) > room // _KEY:
        key = key[: room // _KEY]
        cut.append("key")
    room -= len(key or b"")
    kept = []
    for each in theirs:
        if _bytes_of(each) <= room // 2:
            kept.append(each)
            room -= _bytes_of(each)
    if len(kept) < len(theirs):
        cut.append(f"{len(theirs) - len(kept)} headers")
    told = {SIZE: str(len(value)), DIGEST: hashlib.sha256(value).hexdigest(), CUT: ", ".join(cut)}
    headers = [*kept, *ours, *({"key": name, "value": text.encode()} for name, text in told.items())]
    return {**row, "key": key, "value": value[:room], "headers": headers}


def redirected(table: pa.Table, missing: Collection[str], instead: Undeliverable) -> pa.Table:
    """Rows for Kafka; those whose topic is missing are redirected to another topic, with the reason."""
    if "topic" not in table.column_names:
        return table
    topics = table.column("topic").to_pylist()
    if not any(topic in missing for topic in topics):
        return table
    rows = table.to_pylist()
    for place, row in enumerate(rows):
        if row["topic"] not in missing:
            continue
        told = {REASON: "there is no such topic", TOPIC: row["topic"]}
        letter = {**row, "topic": instead.topic, "headers": with_told(row["headers"], told)}
        rows[place] = fitting(letter, instead.limit)
    return pa.Table.from_pylist(rows, table.schema)
