"""Columns of the streams between the parts of a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from topologies.io.kafka import RECORD
from topologies.step.config.step_values import Details
from topologies.step.rules.headers import header_text
from topologies.step.rules.rule_errors import RuleError
from windowing.data.schema import format_schema, parse_schema
from windowing.data.tuples import objects_of

MESSAGE = format_schema(RECORD)
"""A message as it came, from Kafka or from a file."""
MESSAGE_NAMES = tuple(RECORD.names)
WEIGHED = ("key", "value", "headers")
"""Columns whose bytes count towards the capacity of a window."""

KEY = "aggregation_key"
REASON = "_reason"
"""Why a message failed."""

FAILED = f"{MESSAGE}, {KEY} string, {REASON} string"
"""A message that failed before more was known about it, and why."""

OUTPUT = "topic string, key binary, value binary, headers array<struct<key: string, value: binary>>"
"""A message to be sent."""

ENVELOPE = (
    "topic string, key string, key_base64 binary, value string, value_base64 binary, "
    "headers array<struct<key: string, value: string, value_base64: binary>>"
)
"""A message to be written to a file: keys and values that are not text as base64."""

UNREADABLE, REFUSED, FAILING = "unreadable", "refused", "failed"
"""The streams of failed messages: when they are read, by the rules of the trigger, and when they are aggregated."""

ID = "id"
"""Id of a message, for tracing; only messages of scenarios have it."""

MessageRow = dict[str, Any]
Pairs = list[dict[str, Any]]
"""The headers of a message, in order; a name may occur more than once."""


ASKED = ("topic", "key", "value", "headers")
"""The columns from which a message, as rules see it, is made."""


def sent(columns: pa.Schema) -> pa.Schema:
    """The columns of outgoing messages, by those of the incoming ones."""
    schema = parse_schema(OUTPUT)
    return schema.append(columns.field(ID)) if ID in columns.names else schema


class ReadsMessages(Protocol):
    """A bolt that passes on the columns of the messages that it reads."""

    columns: pa.Schema


ReadingBolt = TypeVar("ReadingBolt", bound=ReadsMessages)


def with_columns_of(bolt: ReadingBolt, inputs: Mapping[str, pa.Schema]) -> ReadingBolt:
    """The bolt with the columns of its inputs, which are the same: either all have an id column, or none has."""
    bound = copy(bolt)
    bound.columns = next(iter(inputs.values()))
    return bound


def message_rows(table: pa.Table) -> list[MessageRow]:
    """The messages of a table as rows of these columns; faster than using all its columns."""
    columns = [_values(table.column(name)) for name in ASKED]
    return [dict(zip(ASKED, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    """The values as objects; a message without headers, the usual case, has None."""
    if pa.types.is_list(column.type) and not pc.max(pc.list_value_length(column)).as_py():
        return [None] * len(column)
    return objects_of(column)


def header_bytes(pairs: Iterable[Mapping[str, Any]] | None) -> dict[str, bytes]:
    """The headers by name; of repeated ones the last. Headers without a value are empty."""
    return {pair["key"]: pair["value"] or b"" for pair in pairs or ()}


def header_texts(pairs: Iterable[Mapping[str, Any]] | None) -> dict[str, str]:
    """The headers as rules see them; of repeated ones the last. See ``header_text``."""
    return {pair["key"]: header_text(pair["value"]) for pair in pairs or ()}


def decoded(value: bytes) -> str:
    """Bytes as text; invalid UTF-8 is escaped."""
    return value.decode("utf-8", "backslashreplace")


def reason_of(error: Exception, details: Details = "full") -> str:
    """Why a message failed, on one line that can be stored in a column and a header.

    With "type" nothing of the exception's text is included: only the place in the rules, where it is theirs, and the
    type of the exception.
    """
    text = str(error) if details == "full" else error.brief if isinstance(error, RuleError) else type(error).__name__
    return " ".join(text.split()).rstrip(".").encode("utf-8", "backslashreplace").decode()[:1_000]
