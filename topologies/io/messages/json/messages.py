"""JSON messages: one value per message.

Reading is strict: UTF-8 (a byte order mark is skipped), nothing after the value, no NaN or Infinity, no repeated name
in an object. Whole numbers are exact, however long; other numbers are doubles, and a number that a double cannot
represent (1E400, 1E-400, 0.1000000000000000055511151231257827) is Unreadable: nothing is silently rounded.

Writing supports JSON's types; times (ISO 8601 with Z or their offset; none = UTC), decimals, UUIDs and binary
(base64) as text; and enum members and numpy scalars as their plain values. NaN, an infinity, a name that is not text
and everything else are Unwritable, with their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, time
from typing import Any, ClassVar

import orjson

from topologies.io.messages.json.depth import nests_deeper
from topologies.io.messages.json.joined import read_joined
from topologies.io.messages.json.numbers import exact
from topologies.io.messages.json.writable import may_have_nan, plain
from topologies.io.messages.message_errors import Unreadable
from topologies.io.messages.message_format import NO_HEADERS, Headers
from topologies.io.messages.message_limits import MAX_BYTES, MAX_DEPTH, check_limits, present, too_deep, within
from topologies.io.messages.misfit import unwritable_if_it_fails
from topologies.io.messages.scalars import scalar_text

_BOM = b"\xef\xbb\xbf"
_UNREAD: Any = object()
_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS


@dataclass(frozen=True)
class JsonMessages:
    """Messages in JSON, of at most ``max_bytes`` bytes and ``max_depth`` nested lists and objects."""

    max_bytes: int = MAX_BYTES
    max_depth: int = MAX_DEPTH
    name: ClassVar[str] = "json"

    def __post_init__(self) -> None:
        check_limits(self.max_bytes, self.max_depth)

    def read(self, value: bytes | None, headers: Headers = NO_HEADERS) -> Any:
        """The value in a message. Raises Unreadable."""
        message = present(value, self.max_bytes)
        try:
            event = orjson.loads(message)
        except orjson.JSONDecodeError as error:
            if message.startswith(_BOM) and not message.startswith(_BOM, len(_BOM)):
                return self.read(message[len(_BOM) :])
            raise Unreadable(f"not valid JSON: {error}") from None
        return self._checked(event, message)

    def read_all(self, values: Sequence[bytes | None]) -> list[Any]:
        """The values in several messages; in place of each that cannot be read, the Unreadable that says why."""
        together = read_joined(values) if len(values) > 1 else None
        if together is None:
            return [self._read(value) for value in values]
        events, all_exact = together
        longest = max(map(len, values))  # type: ignore[arg-type]  # none is missing
        if longest > self.max_bytes:
            return [self._read(value) for value in values]
        if all_exact and longest <= 2 * self.max_depth:
            return events
        return [self._read(value, event) for value, event in zip(values, events, strict=True)]

    def _read(self, value: bytes | None, event: Any = _UNREAD) -> Any:
        """The value in a message, which may have been read as ``event`` but not checked; or why there is none."""
        try:
            return self.read(value) if event is _UNREAD else self._checked(event, value or b"")
        except Unreadable as error:
            return error

    def _checked(self, event: Any, message: bytes) -> Any:
        """The exact value of a message that was read as ``event``. Raises Unreadable."""
        if len(message) > 2 * self.max_depth and nests_deeper(event, message, self.max_depth):
            raise too_deep(self.max_depth)
        return exact(event, message)

    def write(self, event: Any, headers: Headers = NO_HEADERS) -> bytes:
        """The message for an event. Raises Unwritable."""
        try:
            message = orjson.dumps(event, _time_text, _OPTIONS)
        except (
            Exception
        ):  # values that orjson does not support or that nest too deep for it, and exceptions of an object's own code
            return self._written_plain(event)
        if b"null" in message and may_have_nan(event):
            return self._written_plain(event)
        if len(message) > 2 * self.max_depth and nests_deeper(event, message, self.max_depth):
            return self._written_plain(event)
        return within(message, self.max_bytes)

    def _written_plain(self, event: Any) -> bytes:
        """The slow path, which supports more values and reports the first place that cannot be written."""
        with unwritable_if_it_fails():
            return within(orjson.dumps(plain(event, self.max_depth)), self.max_bytes)


def _time_text(value: Any) -> str:
    """The text of a time, which orjson would cut to whole minutes of its offset. Raises TypeError for anything else."""
    text = scalar_text(value) if isinstance(value, date | time) else None
    if text is None:
        raise TypeError
    return text
