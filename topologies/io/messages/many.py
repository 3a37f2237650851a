"""Reads many messages at once, where their format can, and else one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from topologies.io.messages.json.messages import JsonMessages
from topologies.io.messages.message_errors import Unreadable
from topologies.io.messages.message_format import NO_HEADERS, Headers, MessageFormat

_AT_ONCE = 64


def read_many(
    messages: MessageFormat,
    values: Sequence[bytes | None],
    headers: Sequence[Headers] | None = None,
) -> list[Any]:
    """The events in messages; in place of each that cannot be read, the Unreadable that says why.

    ``headers`` of each message; None where none has any.
    """
    if isinstance(messages, JsonMessages):  # which have no use for headers
        events: list[Any] = []
        for low in range(0, len(values), _AT_ONCE):
            events += messages.read_all(values[low : low + _AT_ONCE])
        return events
    return [
        _read(messages, value, NO_HEADERS if headers is None else headers[index]) for index, value in enumerate(values)
    ]


def _read(messages: MessageFormat, value: bytes | None, headers: Headers) -> Any:
    try:
        return messages.read(value, headers)
    except Unreadable as error:
        return error
