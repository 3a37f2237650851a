"""The columns of the streams between the parts of a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from topologies.io.kafka import RECORD
from topologies.step.config.values import Details
from topologies.step.rules.errors import RuleError
from topologies.step.rules.headers import header_text
from windowing.schema import format_schema, parse_schema
from windowing.tuples import objects_of

MESSAGE = format_schema(RECORD)
"""A message as it came, from Kafka or from a file."""
MESSAGE_NAMES = tuple(RECORD.names)
WEIGHED = ("key", "value", "headers")
"""The columns whose bytes count for how much a window holds."""

KEY = "aggregation_key"
REASON = "_reason"
"""Why a message failed."""

FAILED = f"{MESSAGE}, {KEY} string, {REASON} string"
"""A message that failed before anything else was known of it, and why."""

OUTPUT = "topic string, key binary, value binary, headers array<struct<key: string, value: binary>>"
"""A message to be sent."""

ENVELOPE = (
    "topic string, key string, key_base64 binary, value string, value_base64 binary, "
    "headers array<struct<key: string, value: string, value_base64: binary>>"
)
"""A message to be written to a file: keys and values that are no text as base64."""

UNREADABLE, REFUSED, FAILING = "unreadable", "refused", "failed"
"""The streams of messages that fail: when they are read, by the rules of the trigger, and when they are aggregated."""

ID = "id"
"""By which somebody who watches knows messages; only those of scenarios have it."""

Row = dict[str, Any]
Pairs = list[dict[str, Any]]
"""The headers of a message, in their order; a name may come twice."""


ASKED = ("topic", "key", "value", "headers")
"""The columns of which a message as rules see it is made."""


def sent(columns: pa.Schema) -> pa.Schema:
    """The columns of messages that go on, by those of the messages that they come of."""
    schema = parse_schema(OUTPUT)
    return schema.append(columns.field(ID)) if ID in columns.names else schema


def message_rows(table: pa.Table) -> list[Row]:
    """The messages of a table as rows of these columns; quicker than all of its columns."""
    columns = [_values(table.column(name)) for name in ASKED]
    return [dict(zip(ASKED, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    """As objects; no headers at all, as most messages have, are None."""
    if pa.types.is_list(column.type) and not pc.max(pc.list_value_length(column)).as_py():
        return [None] * len(column)
    return objects_of(column)


def header_bytes(pairs: Iterable[Mapping[str, Any]] | None) -> dict[str, bytes]:
    """The headers by name, the last one of those that come twice; those without a value are empty."""
    return {each["key"]: each["value"] or b"" for each in pairs or ()}


def header_texts(pairs: Iterable[Mapping[str, Any]] | None) -> dict[str, str]:
    """The headers as rules see them, the last one of those that come twice; see ``header_text``."""
    return {each["key"]: header_text(each["value"]) for each in pairs or ()}


def as_text(value: bytes) -> str:
    """Bytes as text, whatever they are."""
    return value.decode("utf-8", "backslashreplace")


def reason_of(error: Exception, details: Details = "full") -> str:
    """Why a message failed, on one line that can be a column and a header, whatever is quoted in it.

    With "type" nothing is quoted: the place in the rules, where it is theirs, and the type of the exception.
    """
    text = str(error) if details == "full" else error.brief if isinstance(error, RuleError) else type(error).__name__
    return " ".join(text.split()).rstrip(".").encode("utf-8", "backslashreplace").decode()[:1_000]
