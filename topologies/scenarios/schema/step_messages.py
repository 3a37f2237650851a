"""The messages of a scenario of an aggregation step: how an event becomes one, and how results are shown."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

from topologies.io.times import parse_time
from windowing.errors import ScenarioError
from windowing.time.timestamps import to_datetime

SPOUT = "source"
"""The name of the spout of a step."""

FIELDS = ("id", "topic", "partition", "offset", "timestamp", "key", "value", "value_base64", "headers")


def problems(event: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with an event as a message: a text for each, with its place in the event."""
    for name in event:
        if name not in FIELDS:
            yield f".{name}: expected some of {', '.join(FIELDS)}, found {name!r}"
    if event.get("value") is not None and event.get("value_base64") is not None:
        yield ": expected value or value_base64, found both"
    headers = event.get("headers") or {}
    if not isinstance(headers, Mapping) or not all(isinstance(value, str) for value in headers.values()):
        yield f".headers: expected texts by name, found {headers!r}"
    for name in ("key", "topic"):
        if event.get(name) is not None and not isinstance(event[name], str):
            yield f".{name}: expected a text, found {event[name]!r}"
    try:
        if event.get("timestamp") is not None:
            parse_time(event["timestamp"])
        base64.b64decode(event.get("value_base64") or "", validate=True)
    except (ScenarioError, ValueError) as error:
        yield f": {error}"


def message(event: Mapping[str, Any], name: str, number: int) -> dict[str, Any]:
    """An event as a line of JSON with the columns of a message; ``value`` is a text, or any other value as JSON."""
    value, key, stamp = event.get("value"), event.get("key"), event.get("timestamp")
    body = event.get("value_base64")
    if value is not None:
        body = _base64(value if isinstance(value, str) else json.dumps(value))
    return {
        "id": name,
        "topic": event.get("topic", "input"),
        "partition": event.get("partition", 0),
        "offset": event.get("offset", number),
        "timestamp": None if stamp is None else to_datetime(parse_time(stamp)).isoformat(),
        "key": None if key is None else _base64(key),
        "value": body,
        "headers": [{"key": name, "value": _base64(text)} for name, text in (event.get("headers") or {}).items()],
    }


def sent_message(row: Mapping[str, Any], read: Any) -> dict[str, Any]:
    """A message that was sent, as scenarios expect it; ``read`` makes a value of its bytes, or raises."""
    headers = {each["key"]: each["value"] for each in row.get("headers") or []}
    try:
        value = read(row["value"], headers)
    except Exception:
        value = _text(row["value"])
    found = {"value": value, "key": _text(row.get("key")), "topic": row.get("topic")}
    found["headers"] = {name: _text(text) for name, text in headers.items()}
    return {name: each for name, each in found.items() if each is not None and each != {}}


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _text(value: bytes | str | None) -> str | None:
    """Bytes as text, if they are UTF-8; else in base64."""
    if value is None or isinstance(value, str):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()
