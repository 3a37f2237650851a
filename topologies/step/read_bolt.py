"""The first bolt of a step: it reads each message and computes its key (UH-4 to UH-9)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from manager.keyed.assigned_windows import GatheredEvents
from topologies.io.documents import brief, exact_float, no_constant, unique_pairs
from topologies.io.formats.event_files import NO_BAD_ROWS, BadRows, Chunk, FileSplit, OneSplit, open_file
from topologies.io.formats.lines import LongLine, blocks_of_lines
from topologies.io.messages import MessageFormat, Unreadable, read_many
from topologies.io.topics.declared import RECORD
from topologies.step.config import Details, DslKey, HashKey, HeadersKey, KeySection, MessageKey
from topologies.step.rule_values import Event, RuleError, as_key, events_of, header_text
from topologies.step.rules import Rule
from windowing.bolts.bolt import BatchBolt
from windowing.events import to_objects
from windowing.schema import DEFAULT_STREAM, Emit, EmittedRows, format_schema, parse_schema
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from windowing.window import EventSource


# Columns of the streams between the components of a step.


MESSAGE = format_schema(RECORD)
"""Columns of a received message, from Kafka or from a file."""
MESSAGE_NAMES = tuple(RECORD.names)
WEIGHED_COLUMNS = ("key", "value", "headers")
"""Columns whose bytes count for the capacity of a window."""

KEY = "aggregation_key"
REASON = "_reason"
"""Column with the reason why a message failed."""

FAILED = f"{MESSAGE}, {KEY} string, {REASON} string"
"""Columns of a message that failed before aggregation, with the reason."""

OUTPUT = "topic string, key binary, value binary, headers array<struct<key: string, value: binary>>"
"""Columns of a message to be sent."""

ENVELOPE = (
    "topic string, key string, key_base64 binary, value string, value_base64 binary, "
    "headers array<struct<key: string, value: string, value_base64: binary>>"
)
"""Columns of a message to be written to a file; keys and values that are not text are base64."""

UNREADABLE, REFUSED, FAILING = "unreadable", "refused", "failed"
"""The streams of failed messages: unreadable ones, those on which the trigger's rule failed, and those on which
aggregation failed."""

ID = "id"
"""Id of a message, for tracing; only messages of scenarios have it."""

MessageRow = dict[str, Any]
Pairs = list[dict[str, Any]]
"""The headers of a message, in order; a name may occur more than once."""


RULE_COLUMNS = ("topic", "key", "value", "headers")
"""The columns from which the event for a rule is made."""


def outgoing_columns(columns: pa.Schema) -> pa.Schema:
    """Returns the columns of outgoing messages, made from the columns of incoming messages."""
    schema = parse_schema(OUTPUT)
    return schema.append(columns.field(ID)) if ID in columns.names else schema


class ReadsMessages(Protocol):
    """A bolt that passes on the columns of the messages that it reads."""

    columns: pa.Schema


ReadingBolt = TypeVar("ReadingBolt", bound=ReadsMessages)


def with_columns_of(bolt: ReadingBolt, inputs: Mapping[str, pa.Schema]) -> ReadingBolt:
    """Returns the bolt with the columns of its inputs. These are equal: either all have an id column, or none has."""
    bolt_of_input = copy(bolt)
    bolt_of_input.columns = next(iter(inputs.values()))
    return bolt_of_input


def message_rows(table: pa.Table) -> list[MessageRow]:
    """Returns the messages of a table as dicts of these columns, which is faster than using all columns."""
    columns = [_values(table.column(name)) for name in RULE_COLUMNS]
    return [dict(zip(RULE_COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Returns the values as objects; None for messages without headers, the usual case."""
    if pa.types.is_list(column.type) and not pc.max(pc.list_value_length(column)).as_py():
        return [None] * len(column)
    return to_objects(column)


def header_bytes(pairs: Iterable[Mapping[str, Any]] | None) -> dict[str, bytes]:
    """Returns the headers by name; a repeated name has the last value. Headers without a value are empty."""
    return {pair["key"]: pair["value"] or b"" for pair in pairs or ()}


def header_texts(pairs: Iterable[Mapping[str, Any]] | None) -> dict[str, str]:
    """Returns the headers in the form for rules; a repeated name has the last value. See ``header_text``."""
    return {pair["key"]: header_text(pair["value"]) for pair in pairs or ()}


def bytes_as_text(value: bytes) -> str:
    """Returns bytes as text; invalid UTF-8 is escaped."""
    return value.decode("utf-8", "backslashreplace")


def reason_of(error: Exception, details: Details = "full") -> str:
    """Returns the reason why a message failed, on one line that fits into a column and a header.

    With "type" the exception's text is left out: only its type and, for an exception of a rule, the place in the rule
    are included.
    """
    text = str(error) if details == "full" else error.brief if isinstance(error, RuleError) else type(error).__name__
    return " ".join(text.split()).rstrip(".").encode("utf-8", "backslashreplace").decode()[:1_000]


# Reads files line by line; each line is a row with one binary column. Other code interprets the content.


_BLOCK_BYTES = 4 << 20
_LONGEST_LINE = 64 << 20
"""Most bytes in a line: a message of maximum size, and its envelope."""


@dataclass(frozen=True)
class LinesFormat(OneSplit):
    """Reads the lines of a file, plain or gzipped, without line ends; blank lines are skipped."""

    name: ClassVar[str] = "lines"

    def read(
        self,
        fs: pafs.FileSystem,
        split: FileSplit,
        schema: pa.Schema,
        needed: Collection[str] | None = None,
        optional: Collection[str] = (),
    ) -> Iterator[Chunk]:
        """Yields a chunk per block of lines."""
        row = 0
        with open_file(fs, split.path, "lines", streamed=True) as source:
            for block in blocks_of_lines(source, split.path, "lines", _BLOCK_BYTES, _LONGEST_LINE):
                if isinstance(block, LongLine):
                    yield schema.empty_table(), np.empty(0, np.int64), BadRows.of([block.bad_row(row)])
                    row += 1
                elif block:
                    lines = block.removesuffix(b"\n").split(b"\n")
                    yield _chunk(lines, row, schema)
                    row += len(lines)


def _chunk(lines: list[bytes], row: int, schema: pa.Schema) -> Chunk:
    numbered = [(number, line.removesuffix(b"\r")) for number, line in enumerate(lines, row) if line.strip()]
    column = pa.array([line for _, line in numbered], pa.binary())
    return (
        pa.Table.from_arrays([column], schema=schema),
        np.array([number for number, _ in numbered], np.int64),
        NO_BAD_ROWS,
    )


# Messages in files: one JSON envelope per line, with the fields of a Kafka message.
#
# ``{"topic": "orders", "key": "7", "value": {"id": 1}, "headers": {"shop": "a"}}``; also ``partition``, ``offset``,
# ``timestamp`` (ISO 8601, or milliseconds). A value is a text, or any other JSON value, whose text is then the message;
# or ``value_base64`` for bytes. Keys and headers are texts, or ``key_base64``. Headers are an object, or a list of
# ``{"key": ..., "value": ...}`` if a name is repeated. A line that is not an envelope is an unreadable event.


_NAMES = {*MESSAGE_NAMES, "key_base64", "value_base64"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class OpenEnvelopes(BatchBolt):
    """Turns lines of files into messages."""

    outputs: ClassVar = {DEFAULT_STREAM: MESSAGE, UNREADABLE: FAILED}
    refused_stream = UNREADABLE

    def __init__(self, topic: str | None = None, details: Details = "full") -> None:
        """``topic``: the topic of messages whose envelope names none. ``details``: the part of exceptions that is
        reported."""
        self.topic, self.details = topic, details

    def execute(self, batch: pa.Table) -> EmittedRows:
        """Called with lines. Lines that are not envelopes are passed on unchanged, with the reason."""
        for line in batch.column("line").to_pylist():
            try:
                yield self.open_line(line)
            except ValueError as error:
                nothing = dict.fromkeys(MESSAGE_NAMES)
                failed = {**nothing, "topic": self.topic, "value": line, "headers": [], KEY: None}
                reason = f"the line is not an envelope: {reason_of(error, self.details)}"
                yield Emit({**failed, REASON: reason}, stream=UNREADABLE)

    def open_line(self, line: bytes) -> MessageRow:
        """Returns the message in a line. Raises ValueError if it is not an envelope."""
        try:
            envelope = json.loads(
                line, object_pairs_hook=unique_pairs, parse_constant=no_constant, parse_float=exact_float
            )
        except RecursionError:
            raise ValueError("it is nested too deep") from None
        if not isinstance(envelope, dict):
            raise ValueError(f"expected an object, found {brief(envelope)}")
        unknown = sorted(set(envelope) - _NAMES)
        if unknown:
            raise ValueError(f"unknown {', '.join(map(repr, unknown))}, expected some of {', '.join(sorted(_NAMES))}")
        if "value" not in envelope and "value_base64" not in envelope:
            raise ValueError("it has no value")
        topic = envelope.get("topic")
        return {
            "topic": self.topic if topic is None else _checked_text("topic", topic),
            "partition": _unsigned(envelope, "partition", 31),
            "offset": _unsigned(envelope, "offset", 63),
            "timestamp": _timestamp(envelope.get("timestamp")),
            "key": _bytes(envelope, "key"),
            "value": _bytes(envelope, "value", allow_json=True),
            "headers": list(_headers(envelope.get("headers"))),
        }


class UnreadLines(BatchBolt):
    """Makes failed messages of unreadable parts of files: lines that are too long, and whole files."""

    outputs = FAILED

    def __init__(self, topic: str | None = None) -> None:
        """``topic``: the topic of the messages in the files."""
        self.topic = topic

    def execute(self, batch: pa.Table) -> EmittedRows:
        """Called with error rows of the source; these have the beginning of a line, or nothing for a file."""
        for row in batch.to_pylist():
            at = row["_source"] if row["_row"] is None else f"{row['_source']}, row {row['_row']}"
            data = row["_data"]
            yield {
                **dict.fromkeys(MESSAGE_NAMES),
                "topic": self.topic,
                "value": None if data is None else data.encode(),
                "headers": [],
                KEY: None,
                REASON: " ".join(f"{at}: {row['_reason']}".split())[:1_000],
            }


class CloseEnvelopes(BatchBolt):
    """Turns messages into envelopes, which are written to files and can be read again."""

    outputs = ENVELOPE

    def execute(self, batch: pa.Table) -> EmittedRows:
        """Called with messages."""
        for row in batch.to_pylist():
            headers = [
                {"key": header["key"], **_text_or_base64("value", header["value"])} for header in row["headers"] or ()
            ]
            yield {
                "topic": row["topic"],
                **_text_or_base64("key", row["key"]),
                **_text_or_base64("value", row["value"]),
                "headers": headers,
            }


def _text_or_base64(name: str, value: bytes | None) -> MessageRow:
    try:
        return {name: None if value is None else value.decode(), f"{name}_base64": None}
    except UnicodeDecodeError:
        return {name: None, f"{name}_base64": value}


def _bytes(envelope: Mapping[str, Any], name: str, *, allow_json: bool = False) -> bytes | None:
    value, encoded = envelope.get(name), envelope.get(f"{name}_base64")
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
    if allow_json:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "surrogatepass")
    raise ValueError(f"{name}: expected a text, found {brief(value)}")


def _checked_text(name: str, value: object) -> str:
    """Returns a text that a column can hold. Raises ValueError for others, since JSON may escape single surrogates."""
    if isinstance(value, str) and not any("\ud800" <= sign <= "\udfff" for sign in value):
        return value
    raise ValueError(f"{name}: expected a text, found {brief(value)}")


def _unsigned(envelope: Mapping[str, Any], name: str, bits: int) -> int | None:
    value = envelope.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << bits):
        raise ValueError(f"{name}: expected a whole number, found {brief(value)}")
    return value


def _timestamp(value: object) -> datetime | None:
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
        yield {"key": _checked_text("headers", header.get("key")), "value": _bytes(header, "value")}


# Messages in columns as events for rules: many are read at once, and they become objects only here.


EventOrError: TypeAlias = Event | Unreadable
"""A message as an event for rules, or the error of reading it."""

_MESSAGES_AT_ONCE, _BYTES_AT_ONCE = 2048, 1 << 20
"""Most messages that become objects at once, and most bytes of them at average size: few enough to stay in the
processor's cache."""


def read_messages(table: pa.Table, messages: MessageFormat) -> Iterator[EventOrError]:
    """Yields the messages of a table, which has at least the columns ``RULE_COLUMNS``; each is read on demand."""
    return chain.from_iterable(_read_in_pieces(table.select(list(RULE_COLUMNS)), messages))


def _read_in_pieces(table: pa.Table, messages: MessageFormat) -> Iterator[list[EventOrError]]:
    step, any_headers = _messages_at_once(table), has_headers(table)
    for start in range(0, table.num_rows, step):
        yield _read_at_once(table.slice(start, step), messages, any_headers=any_headers)


def checked_events(read: Iterable[EventOrError]) -> list[Event]:
    """Returns the events. Raises Unreadable for the first message that could not be read."""
    events = list(read)
    for event in events:
        if type(event) is Unreadable:
            raise event
    return events  # type: ignore[return-value]


class WindowEvents:
    """The messages of consecutive windows; those of many small windows are read at once.

    Each event is returned once, because rules may modify their events.
    """

    def __init__(self, messages: MessageFormat) -> None:
        self._messages = messages
        self._source: EventSource | None = None
        self._start = self._next = 0
        self._ahead: list[EventOrError] = []
        """The messages of the source from ``_low`` on; those before ``_next`` have been returned."""

    def of(self, window: TupleWindow) -> list[Event]:
        """Returns the messages of a window. Raises Unreadable for the first that cannot be read."""
        if not isinstance(window, TupleWindow) or not isinstance(window.members, range):
            return checked_events(read_messages(window.table, self._messages))  # there are no messages after it to read
        members = window.members
        if (
            window.source is not self._source
            or members.start < self._next
            or members.stop > self._start + len(self._ahead)
        ):
            self._read_from(window.source, members)
        self._next = members.stop
        return checked_events(self._ahead[members.start - self._start : members.stop - self._start])

    def _read_from(self, source: EventSource, members: range) -> None:
        """Reads the messages of a window, and some of the messages after it."""
        ahead = min(members.start + _MESSAGES_AT_ONCE, len(source)) if isinstance(source, GatheredEvents) else 0
        table = source.table(range(members.start, max(members.stop, ahead)))
        self._source, self._start = source, members.start
        read = table.slice(0, max(len(members), _messages_at_once(table)))
        self._ahead = list(read_messages(read, self._messages))


def has_headers(table: pa.Table) -> bool:
    """True if any message has headers; in most topics no message has."""
    return bool(pc.max(pc.list_value_length(table.column("headers"))).as_py())


def _read_at_once(table: pa.Table, messages: MessageFormat, *, any_headers: bool) -> list[EventOrError]:
    values = to_objects(table.column("value"))
    headers: list[dict[str, str]]
    if not any_headers:
        read, headers = read_many(messages, values), [{} for _ in values]
    else:
        pairs: list[Pairs | None] = to_objects(table.column("headers"))
        read = read_many(messages, values, [header_bytes(each) for each in pairs])
        headers = [header_texts(each) for each in pairs]
    topic = table.column("topic")
    topics = to_objects(topic.fill_null("") if topic.null_count else topic)
    events: list[EventOrError] = list(events_of(read, topics, _texts(table.column("key")), headers))
    if Unreadable in map(type, read):
        return [value if type(value) is Unreadable else event for value, event in zip(read, events, strict=True)]
    return events


def _texts(column: pa.ChunkedArray) -> list[str | None]:
    """Returns bytes as texts; invalid UTF-8 is escaped."""
    try:
        return to_objects(column.cast(pa.string()))
    except pa.ArrowInvalid:
        return [None if value is None else bytes_as_text(value) for value in to_objects(column)]


def _messages_at_once(table: pa.Table) -> int:
    """Returns how many messages of a table to read at once."""
    fitting: int = _BYTES_AT_ONCE * table.num_rows // max(int(table.nbytes), 1)
    return min(_MESSAGES_AT_ONCE, max(fitting, 1))


# Computes the key by which an event is collected (UH-5 to UH-8).


class NoKey(ValueError):
    """Raised if a message has no key; ``str()`` gives the reason."""


def key_of(section: KeySection, row: MessageRow, by_rules: Callable[[], str]) -> str:
    """Returns the key of a message. ``by_rules``: computes it, if rules do. Raises NoKey if there is none."""
    match section:
        case MessageKey():
            return _message_key(row)
        case HeadersKey(keys=names):
            headers = header_bytes(row["headers"])
            try:
                return "|".join(headers.get(name, b"").decode() for name in names)
            except UnicodeDecodeError as error:
                raise NoKey(f"a header of the key is not text: {error}") from None
        case HashKey() as section:
            return hashlib.new(section.hashlib_name, row["value"] or b"", usedforsecurity=False).hexdigest()
        case DslKey():
            return by_rules()


def keys_at_once(section: KeySection, table: pa.Table) -> list[str] | None:
    """Returns the keys of all messages of a table, if they are the text keys of the messages; else None."""
    if not isinstance(section, MessageKey) or table.column("key").null_count:
        return None
    try:
        return to_objects(table.column("key").cast(pa.string()))
    except pa.ArrowInvalid:  # at least one is not UTF-8
        return None


def _message_key(row: MessageRow) -> str:
    if row["key"] is None:
        raise NoKey("the message has no key, by which it would be gathered")
    try:
        return str(row["key"].decode())
    except UnicodeDecodeError as error:
        raise NoKey(f"the message's key is not text: {error}") from None


# The first bolt of a step: it reads each message and computes its key (UH-4 to UH-9).


class ReadMessages(BatchBolt):
    """Gives messages their key. Unreadable messages, and those without a key, go to another stream. The bytes stay
    unchanged."""

    refused_stream = UNREADABLE

    def __init__(
        self, messages: MessageFormat, key: KeySection, rule: Rule | None = None, details: Details = "full"
    ) -> None:
        """``rule``: computes keys of type dsl. ``details``: the part of exceptions that is reported."""
        self.messages, self.key, self.rule, self.details = messages, key, rule, details
        self.columns = parse_schema(MESSAGE)

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """Returns a bolt that passes on all columns of a message."""
        return with_columns_of(self, inputs)

    def output_schemas(self) -> dict[str, pa.Schema]:
        """Returns the incoming columns with the key; for failed messages, also with the reason."""
        keyed = self.columns.append(pa.field(KEY, pa.string()))
        return {DEFAULT_STREAM: keyed, UNREADABLE: keyed.append(pa.field(REASON, pa.string()))}

    def execute(self, batch: pa.Table) -> EmittedRows:
        """Called with incoming messages."""
        keys: list[str | None] = []
        failed: dict[int, str] = {}
        for event, key in zip(read_messages(batch, self.messages), self._keys(batch), strict=True):
            try:
                if isinstance(event, Unreadable):
                    raise event
                keys.append(key if isinstance(key, str) else key(event))
            except (Unreadable, NoKey, RuleError) as error:
                keys.append(None)
                failed[len(keys) - 1] = reason_of(error, self.details)
        keyed = batch.append_column(KEY, pa.array(keys, pa.string()))
        if not failed:
            return keyed
        bad = np.array(list(failed), np.int64)
        good = np.delete(np.arange(batch.num_rows), bad)
        refused = keyed.take(pa.array(bad)).append_column(REASON, pa.array(list(failed.values()), pa.string()))
        return [Emit(keyed.take(pa.array(good))), Emit(refused, stream=UNREADABLE)]

    def _keys(self, batch: pa.Table) -> Iterator[str | Callable[[Event], str]]:
        """Yields the key of each message, or a function that computes it from the event, and may raise NoKey or
        RuleError."""
        if isinstance(self.key, DslKey):
            return repeat(self._key_by_rule, batch.num_rows)
        keys = keys_at_once(self.key, batch)
        if keys is not None:
            return iter(keys)
        return (partial(self._key_by_columns, row) for row in message_rows(batch))

    def _key_by_columns(self, row: MessageRow, event: Event) -> str:
        return key_of(self.key, row, lambda: self._key_by_rule(event))

    def _key_by_rule(self, event: Event) -> str:
        assert self.rule is not None
        return self.rule.converted(as_key, self.rule(event))
