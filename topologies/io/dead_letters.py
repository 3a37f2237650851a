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

_OWN = frozenset({REASON, TOPIC, PARTITION, OFFSET, SIZE, DIGEST, CUT})

OVERHEAD = 1_000
"""Bytes reserved per record for the id and Kafka's own overhead."""
_CUT_HEADERS = 250
"""Bytes reserved for the headers that describe what was cut."""
_KEY = 4
"""A key larger than one part in this many of a record is cut."""

DeadLetterRow = dict[str, Any]


@dataclass(frozen=True)
class Undeliverable:
    """Where records go whose topic does not exist."""

    topic: str
    limit: int | None = None
    """Maximum size of a record there in bytes; None for no limit."""


def size_of(row: DeadLetterRow) -> int:
    """Upper bound on the size of a record in bytes, with its key and headers, as Kafka counts it."""
    headers = sum(map(_bytes_of, row["headers"] or ()))
    return len(row["value"] or b"") + len(row["key"] or b"") + headers + OVERHEAD


def _bytes_of(header: DeadLetterRow) -> int:
    return len(header["key"].encode()) + len(header["value"] or b"")


def _cut_header(header: DeadLetterRow, size: int) -> DeadLetterRow:
    """A header of at most ``size`` bytes, whose text ends with a whole character."""
    value = (header["value"] or b"")[: max(size - len(header["key"].encode()), 0)]
    return {**header, "value": value.decode("utf-8", "ignore").encode()}


def with_headers(headers: Sequence[DeadLetterRow] | None, added: Mapping[str, object]) -> list[DeadLetterRow]:
    """The headers with additional ones, which replace those of the same names; None values are left out."""
    kept = [header for header in headers or () if header["key"] not in added]
    return kept + [{"key": name, "value": str(value).encode()} for name, value in added.items() if value is not None]


def fit_to_limit(row: DeadLetterRow, limit: int | None) -> DeadLetterRow:
    """The record, cut to ``limit`` bytes if it is larger: its value, a very long key, and headers that do not fit.

    ``windbolt-cut`` says what was cut; for the value, its full size and SHA-256 are added. windbolt's own headers stay;
    if they alone are too large, such as a long reason, they are cut too.
    """
    if limit is None or size_of(row) <= limit:
        return row
    value, key, cut = row["value"] or b"", row["key"], ["value"]
    own_headers = [header for header in row["headers"] or () if header["key"] in _OWN]
    other_headers = [header for header in row["headers"] or () if header["key"] not in _OWN]
    room = max(limit - OVERHEAD - _CUT_HEADERS, 0)
    if sum(map(_bytes_of, own_headers)) > room:
        longest = room // len(own_headers)
        own_headers = [_cut_header(header, longest) for header in own_headers]
        cut.append("windbolt's headers")
    room = max(room - sum(map(_bytes_of, own_headers)), 0)
    if key is not None and len(key) > room // _KEY:
        key = key[: room // _KEY]
        cut.append("key")
    room -= len(key or b"")
    kept = []
    for header in other_headers:
        if _bytes_of(header) <= room // 2:
            kept.append(header)
            room -= _bytes_of(header)
    if len(kept) < len(other_headers):
        cut.append(f"{len(other_headers) - len(kept)} headers")
    added = {SIZE: str(len(value)), DIGEST: hashlib.sha256(value).hexdigest(), CUT: ", ".join(cut)}
    headers = [*kept, *own_headers, *({"key": name, "value": text.encode()} for name, text in added.items())]
    return {**row, "key": key, "value": value[:room], "headers": headers}


def redirect_missing(table: pa.Table, missing: Collection[str], instead: Undeliverable) -> pa.Table:
    """Rows for Kafka; those whose topic is missing are redirect_missing to another topic, with the reason."""
    if "topic" not in table.column_names:
        return table
    topics = table.column("topic").to_pylist()
    if not any(topic in missing for topic in topics):
        return table
    rows = table.to_pylist()
    for index, row in enumerate(rows):
        if row["topic"] not in missing:
            continue
        added = {REASON: "there is no such topic", TOPIC: row["topic"]}
        letter = {**row, "topic": instead.topic, "headers": with_headers(row["headers"], added)}
        rows[index] = fit_to_limit(letter, instead.limit)
    return pa.Table.from_pylist(rows, table.schema)
