"""Messages in columns as the events that rules see: many are read at once, and each becomes an object only here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from manager.keyed.tuple_windows import GatheredEvents
from topologies.io.messages import MessageFormat, Unreadable, read_many
from topologies.step.bolts.step_columns import ASKED, Pairs, decoded, header_bytes, header_texts
from topologies.step.rules.event import Event, events_of
from windowing.data.tuples import objects_of
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from windowing.window import EventSource

Read: TypeAlias = Event | Unreadable
"""A message as rules see it, or why it is none."""

_MESSAGES_AT_ONCE, _BYTES_AT_ONCE = 2048, 1 << 20
"""Maximum number of messages that become objects at once, and of their bytes at average size: few enough that they
stay in the processor's cache."""


def read_messages(table: pa.Table, messages: MessageFormat) -> Iterator[Read]:
    """The messages of a table, which has at least the columns ``ASKED``; read as they are asked for."""
    return chain.from_iterable(_pieces(table.select(list(ASKED)), messages))


def _pieces(table: pa.Table, messages: MessageFormat) -> Iterator[list[Read]]:
    step, any_headers = _at_once(table), has_headers(table)
    for low in range(0, table.num_rows, step):
        yield _read(table.slice(low, step), messages, any_headers=any_headers)


def readable(read: Iterable[Read]) -> list[Event]:
    """The events. Raises Unreadable for the first message that is not one."""
    events = list(read)
    for event in events:
        if type(event) is Unreadable:
            raise event
    return events  # type: ignore[return-value]


class WindowEvents:
    """The messages of windows that are called one after another: those of many small windows are read at once.

    Each event is handed out once, because rules may modify what they are given.
    """

    def __init__(self, messages: MessageFormat) -> None:
        self._messages = messages
        self._source: EventSource | None = None
        self._low = self._next = 0
        self._ahead: list[Read] = []
        """The messages of the source from ``_low`` on; those before ``_next`` have been handed out."""

    def of(self, window: TupleWindow) -> list[Event]:
        """The messages of a window. Raises Unreadable for the first that cannot be read."""
        if not isinstance(window, TupleWindow) or not isinstance(window.members, range):
            return readable(read_messages(window.table, self._messages))  # there is nothing behind it to read
        members = window.members
        if (
            window.source is not self._source
            or members.start < self._next
            or members.stop > self._low + len(self._ahead)
        ):
            self._read_from(window.source, members)
        self._next = members.stop
        return readable(self._ahead[members.start - self._low : members.stop - self._low])

    def _read_from(self, source: EventSource, members: range) -> None:
        """Read the messages of a window, and some of those behind it."""
        ahead = min(members.start + _MESSAGES_AT_ONCE, len(source)) if isinstance(source, GatheredEvents) else 0
        table = source.table(range(members.start, max(members.stop, ahead)))
        self._source, self._low = source, members.start
        read = table.slice(0, max(len(members), _at_once(table)))
        self._ahead = list(read_messages(read, self._messages))


def has_headers(table: pa.Table) -> bool:
    """Whether any message has headers; in most topics none has."""
    return bool(pc.max(pc.list_value_length(table.column("headers"))).as_py())


def _read(table: pa.Table, messages: MessageFormat, *, any_headers: bool) -> list[Read]:
    values = objects_of(table.column("value"))
    headers: list[dict[str, str]]
    if not any_headers:
        read, headers = read_many(messages, values), [{} for _ in values]
    else:
        pairs: list[Pairs | None] = objects_of(table.column("headers"))
        read = read_many(messages, values, [header_bytes(each) for each in pairs])
        headers = [header_texts(each) for each in pairs]
    topic = table.column("topic")
    topics = objects_of(topic.fill_null("") if topic.null_count else topic)
    events: list[Read] = list(events_of(read, topics, _texts(table.column("key")), headers))
    if Unreadable in map(type, read):
        return [value if type(value) is Unreadable else event for value, event in zip(read, events, strict=True)]
    return events


def _texts(column: pa.ChunkedArray) -> list[str | None]:
    """Bytes as texts; invalid UTF-8 is escaped."""
    try:
        return objects_of(column.cast(pa.string()))
    except pa.ArrowInvalid:
        return [None if value is None else decoded(value) for value in objects_of(column)]


def _at_once(table: pa.Table) -> int:
    """How many messages of a table to read at once."""
    fitting: int = _BYTES_AT_ONCE * table.num_rows // max(int(table.nbytes), 1)
    return min(_MESSAGES_AT_ONCE, max(fitting, 1))
