"""Messages in files: one JSON envelope per line, with Kafka's fields of a message beside its value.

``{"topic": "orders", "key": "7", "value": {"id": 1}, "headers": {"shop": "a"}}``; also ``partition``, ``offset``,
``timestamp`` (ISO 8601, or milliseconds). A value is a text, or any other JSON value, whose text is then the message;
or ``value_base64`` for bytes. Keys and headers are texts, or ``key_base64``; headers are an object, or a list of
``{"key": ..., "value": ...}`` where a name is repeated. A line that is not an envelope is an unreadable event.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pyarrow as pa

from topologies.io.documents.showing import brief
from topologies.io.documents.strict import exact_float, no_constant, unique_pairs
from topologies.step.bolts.step_columns import (
    ENVELOPE,
    FAILED,
    KEY,
    MESSAGE,
    MESSAGE_NAMES,
    REASON,
    UNREADABLE,
    MessageRow,
    Pairs,
    reason_of,
)
from topologies.step.config.step_values import Details
from windowing.bolts.plain_bolts import BatchBolt
from windowing.data.returned_rows import DEFAULT_STREAM, Emit, EmittedRows

_NAMES = {*MESSAGE_NAMES, "key_base64", "value_base64"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class OpenEnvelopes(BatchBolt):
    """Turns lines of files into messages."""

    outputs: ClassVar = {DEFAULT_STREAM: MESSAGE, UNREADABLE: FAILED}
    refused_stream = UNREADABLE

    def __init__(self, topic: str | None = None, details: Details = "full") -> None:
        """``topic``: that of messages whose envelope names none. ``details``: how much to report of exceptions."""
        self.topic, self.details = topic, details

    def execute(self, batch: pa.Table) -> EmittedRows:
        """Called with lines. Lines that are not envelopes are passed on unchanged, with the reason."""
        for line in batch.column("line").to_pylist():
            try:
                yield self.opened(line)
            except ValueError as error:
                nothing = dict.fromkeys(MESSAGE_NAMES)
                failed = {**nothing, "topic": self.topic, "value": line, "headers": [], KEY: None}
                reason = f"the line is not an envelope: {reason_of(error, self.details)}"
                yield Emit({**failed, REASON: reason}, stream=UNREADABLE)

    def opened(self, line: bytes) -> MessageRow:
        """The message in a line. Raises ValueError where it is not an envelope."""
        try:
            given = json.loads(
                line, object_pairs_hook=unique_pairs, parse_constant=no_constant, parse_float=exact_float
            )
        except RecursionError:
            raise ValueError("it is nested too deep") from None
        if not isinstance(given, dict):
            raise ValueError(f"expected an object, found {brief(given)}")
        unknown = sorted(set(given) - _NAMES)
        if unknown:
            raise ValueError(f"unknown {', '.join(map(repr, unknown))}, expected some of {', '.join(sorted(_NAMES))}")
        if "value" not in given and "value_base64" not in given:
            raise ValueError("it has no value")
        topic = given.get("topic")
        return {
            "topic": self.topic if topic is None else _name("topic", topic),
            "partition": _whole(given, "partition", 31),
            "offset": _whole(given, "offset", 63),
            "timestamp": _moment(given.get("timestamp")),
            "key": _bytes(given, "key"),
            "value": _bytes(given, "value", jsons=True),
            "headers": list(_headers(given.get("headers"))),
        }


class CloseEnvelopes(BatchBolt):
    """Turns messages into envelopes, which are written to files and can be read again."""

    outputs = ENVELOPE

    def execute(self, batch: pa.Table) -> EmittedRows:
        """Called with messages."""
        for row in batch.to_pylist():
            headers = [{"key": header["key"], **_sealed("value", header["value"])} for header in row["headers"] or ()]
            yield {
                "topic": row["topic"],
                **_sealed("key", row["key"]),
                **_sealed("value", row["value"]),
                "headers": headers,
            }


def _sealed(name: str, value: bytes | None) -> MessageRow:
    try:
        return {name: None if value is None else value.decode(), f"{name}_base64": None}
    except UnicodeDecodeError:
        return {name: None, f"{name}_base64": value}


def _bytes(given: Mapping[str, Any], name: str, *, jsons: bool = False) -> bytes | None:
    value, encoded = given.get(name), given.get(f"{name}_base64")
    if encoded is not None:
        if value is not None:
            raise ValueError(f"expected {name} or {name}_base64, found both")
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise ValueError(f"{name}_base64: expected base64, found {brief(encoded)}") from None
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if jsons:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "surrogatepass")
    raise ValueError(f"{name}: expected a text, found {brief(value)}")


def _name(name: str, value: object) -> str:
    """A text that a column can hold: JSON may escape single surrogates."""
    if isinstance(value, str) and not any("\ud800" <= sign <= "\udfff" for sign in value):
        return value
    raise ValueError(f"{name}: expected a text, found {brief(value)}")


def _whole(given: Mapping[str, Any], name: str, bits: int) -> int | None:
    value = given.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << bits):
        raise ValueError(f"{name}: expected a whole number, found {brief(value)}")
    return value


def _moment(value: object) -> datetime | None:
    if value is None:
        return None
    try:
        if isinstance(value, int) and not isinstance(value, bool):
            return _EPOCH + timedelta(milliseconds=value)
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"timestamp: expected a time (ISO 8601, or milliseconds), found {brief(value)}")


def _headers(value: object) -> Iterator[MessageRow]:
    if value is None:
        return
    pairs: Pairs
    if isinstance(value, dict):
        pairs = [{"key": name, "value": item} for name, item in value.items()]
    elif isinstance(value, list) and all(isinstance(header, dict) for header in value):
        pairs = value
    else:
        raise ValueError(f"headers: expected an object, or a list of {{key, value}}, found {brief(value)}")
    for header in pairs:
        yield {"key": _name("headers", header.get("key")), "value": _bytes(header, "value")}
