"""Kafka as source and sink: topics for events, results and dead letters. Also the options of Kafka's clients, as users
write them, for Spark's connector and for librdkafka."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from topologies.io.formats.declared_times import Times
from topologies.io.formats.event_files import OnTruncation
from topologies.io.spout_columns import refuse_as_metadata
from topologies.io.topics.declared import (
    CHANGES,
    HEADERS,
    METADATA,
    PLAIN_KEY_TYPES,
    RECORD,
    Envelope,
    KeyForm,
    Registry,
    SchemaFile,
    Tombstones,
    TopicFormat,
    TopicRows,
)
from topologies.io.topics.encode import TopicRecords, check_records
from windowing.errors import ConfigError
from windowing.reprs import fields_repr
from windowing.schema import DEFAULT_STREAM, format_schema, parse_schema

# Records that cannot be delivered: headers that describe them, and cutting them to Kafka's limit.


REASON, TOPIC, PARTITION, OFFSET = "windbolt-reason", "windbolt-topic", "windbolt-partition", "windbolt-offset"
SIZE, DIGEST, CUT = "windbolt-size", "windbolt-sha256", "windbolt-cut"
"""Headers of a cut record: the size of its value in bytes, the SHA-256 of the value in hexadecimal, and the names of
the cut parts."""

_OWN_HEADERS = frozenset({REASON, TOPIC, PARTITION, OFFSET, SIZE, DIGEST, CUT})

OVERHEAD = 1_000
"""Bytes reserved per record for the id and Kafka's own overhead."""
_CUT_HEADERS = 250
"""Bytes reserved for the headers of a cut record."""
_KEY_DIVISOR = 4
"""A key is cut if it is larger than a record divided by this number."""

DeadLetterRow = dict[str, Any]


@dataclass(frozen=True)
class Undeliverable:
    """The topic for records whose own topic does not exist."""

    topic: str
    limit: int | None = None
    """Most bytes in a record there; None for no limit."""


def record_size(row: DeadLetterRow) -> int:
    """Returns an upper bound on the size of a record in bytes, with its key and headers, as Kafka counts it."""
    headers = sum(map(_header_size, row["headers"] or ()))
    return len(row["value"] or b"") + len(row["key"] or b"") + headers + OVERHEAD


def _header_size(header: DeadLetterRow) -> int:
    return len(header["key"].encode()) + len(header["value"] or b"")


def _cut_header(header: DeadLetterRow, size: int) -> DeadLetterRow:
    """Returns a header of at most ``size`` bytes, whose text ends with a whole character."""
    value = (header["value"] or b"")[: max(size - len(header["key"].encode()), 0)]
    return {**header, "value": value.decode("utf-8", "ignore").encode()}


def with_headers(headers: Sequence[DeadLetterRow] | None, added: Mapping[str, object]) -> list[DeadLetterRow]:
    """Returns the headers and further headers, which replace headers of the same names; None values are left out."""
    kept = [header for header in headers or () if header["key"] not in added]
    return kept + [{"key": name, "value": str(value).encode()} for name, value in added.items() if value is not None]


def fit_to_limit(row: DeadLetterRow, limit: int | None) -> DeadLetterRow:
    """Returns the record, cut to ``limit`` bytes if it is larger: first its value, then a very long key and headers
    that do not fit.

    ``windbolt-cut`` names the cut parts; for the value, its full size and SHA-256 are added. windbolt's own headers
    stay. If they alone are too large, for example because of a long reason, they are cut too.
    """
    if limit is None or record_size(row) <= limit:
        return row
    value, key, cut = row["value"] or b"", row["key"], ["value"]
    own_headers = [header for header in row["headers"] or () if header["key"] in _OWN_HEADERS]
    other_headers = [header for header in row["headers"] or () if header["key"] not in _OWN_HEADERS]
    room = max(limit - OVERHEAD - _CUT_HEADERS, 0)
    if sum(map(_header_size, own_headers)) > room:
        longest = room // len(own_headers)
        own_headers = [_cut_header(header, longest) for header in own_headers]
        cut.append("windbolt's headers")
    room = max(room - sum(map(_header_size, own_headers)), 0)
    if key is not None and len(key) > room // _KEY_DIVISOR:
        key = key[: room // _KEY_DIVISOR]
        cut.append("key")
    room -= len(key or b"")
    kept = []
    for header in other_headers:
        if _header_size(header) <= room // 2:
            kept.append(header)
            room -= _header_size(header)
    if len(kept) < len(other_headers):
        cut.append(f"{len(other_headers) - len(kept)} headers")
    added = {SIZE: str(len(value)), DIGEST: hashlib.sha256(value).hexdigest(), CUT: ", ".join(cut)}
    headers = [*kept, *own_headers, *({"key": name, "value": text.encode()} for name, text in added.items())]
    return {**row, "key": key, "value": value[:room], "headers": headers}


def redirect_missing(table: pa.Table, missing: Collection[str], instead: Undeliverable) -> pa.Table:
    """Returns the rows for Kafka. Rows for a missing topic go to the topic ``instead``, with the reason in their
    headers."""
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


# Kafka as source and sink: topics that events come from, and topics that results go to.


Offsets: TypeAlias = Mapping[str, Mapping[int, int]]
"""By topic and partition, the offset of the first record to read."""

Starting: TypeAlias = Literal["earliest", "latest"] | datetime | Offsets
Form: TypeAlias = Literal["binary", "text"]
Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]
ISOLATION = "kafka.isolation.level"
"""The option that decides whether records of unfinished transactions are read."""
_DEFAULT_METADATA = tuple(name for name in METADATA if name != HEADERS)
"""The metadata columns that ``metadata=True`` adds."""

ID_HEADER = "windbolt-id"
"""The header that identifies a record, so that repeats are recognised."""

_ALWAYS = ("topic", "partition", "offset", "timestamp", "value")
"""The fields that are always read: the position, the timestamp and the value."""
_REPLACED_OPTIONS = {
    "kafka.bootstrap.servers": "servers",
    "subscribe": "topics",
    "subscribePattern": "pattern",
    "assign": "topics",
    "startingOffsets": "starting",
    "startingTimestamp": "starting",
    "startingOffsetsByTimestamp": "starting",
    "auto.offset.reset": "starting",
    "kafka.auto.offset.reset": "starting",
    "maxOffsetsPerTrigger": "records_per_batch",
    "includeHeaders": "schema",
    "topic": "topic",
}
"""Options of Spark and of Kafka's consumers, with the argument that replaces each."""


@dataclass(frozen=True)
class KafkaSpout:
    """Reads records of topics: raw, or with an object in each value."""

    servers: str
    _: KW_ONLY
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    declared: str | pa.Schema | None = None
    """Columns of the values; None: rows are raw records."""
    metadata: tuple[str, ...] = ()
    """Metadata columns, by the names of ``METADATA``."""
    changes: tuple[str, ...] = ()
    """Columns about Debezium's changes, by the names of ``CHANGES``."""
    key: KeyForm | None = None
    """Form of keys and values; None: bytes for raw records, else text."""
    key_columns: str | pa.Schema | None = None
    """Columns of the keys, after the columns of the values."""
    value: Form = "binary"
    format: TopicFormat = "json"
    registry: Registry | None = None
    schema_file: SchemaFile | None = None
    message: str | None = None
    envelope: Envelope | None = None
    tombstones: Tombstones = "invalid"
    starting: Starting = "earliest"
    records_per_batch: int | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # they may contain passwords
    timezone: str | None = None
    """The zone of times without a zone; None: UTC."""
    on_truncation: OnTruncation = "cut"
    """Action for times finer than microseconds."""
    times: Times = ()
    """The declared forms of times, by column."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Default values for columns."""

    def __repr__(self) -> str:
        return fields_repr(self)

    def outputs(self) -> dict[str, pa.Schema]:
        """Returns the columns of raw records, or the declared columns and the metadata."""
        if self.declared is None:
            return {DEFAULT_STREAM: _with_text(RECORD, {"key": self.key or "binary", "value": self.value})}
        declared, rows = parse_schema(self.declared), self.rows
        refuse_as_metadata({*declared.names, *rows.key_columns.names}, {*self.metadata, *self.changes})
        taken = sorted(set(declared.names) & set(rows.key_columns.names))
        if taken:
            raise ConfigError(
                f"column {', '.join(map(repr, taken))} is declared for the values and for the keys",
                why="a column is known by its name",
                do="declare it in one of them",
            )
        return {DEFAULT_STREAM: rows.columns}

    @property
    def rows(self) -> TopicRows:
        """Returns how rows are parsed from records, if columns are declared."""
        assert self.declared is not None
        return TopicRows(
            parse_schema(self.declared),
            self.format,
            self.registry,
            self.schema_file,
            self.message,
            self.envelope,
            self.tombstones,
            self.key or "text",
            pa.schema([]) if self.key_columns is None else parse_schema(self.key_columns),
            pa.schema([_metadata_field(name, self.key or "text") for name in self.metadata]),
            pa.schema([CHANGES.field(name) for name in self.changes]),
            self.timezone,
            self.on_truncation,
            self.times,
        )

    @property
    def record(self) -> pa.Schema:
        """The columns to read of each record."""
        if self.declared is None:
            return RECORD
        wanted = {*_ALWAYS, *(METADATA[name] for name in self.metadata), *(["key"] if self.key_columns else [])}
        return pa.schema([field for field in RECORD if field.name in wanted])

    @property
    def display_name(self) -> str:
        """Its topics, for display."""
        return f"topics like {self.pattern}" if self.pattern else f"topic {', '.join(self.topics)}"


@dataclass(frozen=True)
class KafkaSink:
    """Writes rows as records to topics."""

    servers: str
    topic: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    topics: tuple[str, ...] = ()
    """Further topics that its rows may name."""
    undeliverable: Undeliverable | None = None
    """Sink for rows of a missing topic; None: they stop the run."""
    records: TopicRecords | None = None
    """Conversion of rows to records; None: its rows are records."""
    largest: int | None = None
    """Most bytes in a record; a topic that accepts less is refused before the run. None for no check."""

    def __repr__(self) -> str:
        return fields_repr(self)

    def check(self) -> None:
        """Nothing to check before the run."""

    def check_columns(self, schema: pa.Schema) -> None:
        """Raises ConfigError for columns that do not form a record."""
        if self.records is not None:
            check_records(self.records, schema)
            if self.records.headers is not None and not _fits_record(
                schema.field(self.records.headers).with_name("headers")
            ):
                raise ConfigError(
                    f"headers={self.records.headers!r} is no column of headers",
                    why=f"these are {_COLUMNS['headers']}",
                    do="name such a column, or make one in a bolt",
                )
            return
        unknown = [name for name in schema.names if name not in _COLUMNS]
        wrong = [
            f"{field.name!r} is {format_schema(pa.schema([field.with_name('c')]))[2:]}, "
            f"and should be {_COLUMNS[field.name]}"
            for field in schema
            if field.name in _COLUMNS and not _fits_record(field)
        ]
        if "value" not in schema.names:
            wrong.append("there is no column 'value'")
        if unknown:
            wrong.append(
                f"{', '.join(map(repr, unknown))} {'has' if len(unknown) == 1 else 'have'} no place in a record"
            )
        if wrong:
            raise ConfigError(
                f"its rows are not Kafka records: {'; '.join(wrong)}",
                why=f"a record has the columns {', '.join(_COLUMNS)}; only value is required",
                do="say how they are written: kafka(servers, topic, format='json'); or let a bolt before it make these "
                "columns",
            )
        if self.topic is None and "topic" not in schema.names:
            raise ConfigError(
                "its records have no topic",
                why="the sink names none, and the rows have no column 'topic'",
                do="name one: kafka(servers, 'topic'); or let a bolt make the column",
            )


_COLUMNS = {
    "value": "string or binary",
    "key": "string or binary",
    "headers": "array<struct<key: string, value: binary>> or map<string, string>",
    "topic": "string",
    "partition": "int",
}


def reads_topic(spout: KafkaSpout, topic: str) -> bool:
    """True if a spout reads a topic of this name."""
    return topic in spout.topics or bool(names_matching(spout.pattern, [topic]))


def same_kafka(one: str, other: str) -> bool:
    """True if two lists of servers, ``host:port,host:port``, share a server. Two lists without a common server may
    still name the same cluster."""
    return bool(_addresses(one) & _addresses(other))


def _addresses(servers: str) -> set[str]:
    return {re.sub(r"^(?:127\.0\.0\.1|\[::1\]):", "localhost:", address) for address in servers.lower().split(",")}


def names_matching(pattern: str | None, names: Iterable[str]) -> list[str]:
    """Returns the names that a Java pattern matches, as far as Python reads the pattern alike."""
    if pattern is None:
        return []
    try:
        return [name for name in names if re.fullmatch(pattern, name)]
    except re.error:
        return []


def checked_servers(servers_given: str | Sequence[str]) -> str:
    """Returns the servers as ``host:port,host:port``. Raises ConfigError for anything else."""
    servers = [
        address.strip() for address in (servers_given.split(",") if isinstance(servers_given, str) else servers_given)
    ]
    for server in servers:
        host, _, port = server.rpartition(":")
        if not host or not port.isdigit():
            raise ConfigError(
                f"{server!r} is not a Kafka server",
                why="a server is a host and a port",
                do="write 'host:9092,host:9092'",
            )
    return ",".join(servers)


def checked_options(options_given: Mapping[str, Any] | None) -> dict[str, str]:
    """Returns options for Spark's connector as strings. Raises ConfigError for options that are arguments here."""
    options: dict[str, str] = {}
    for name, value in (options_given or {}).items():
        if name in _REPLACED_OPTIONS:
            raise ConfigError(
                f"option {name!r} is an argument of windbolt's own", do=f"use {_REPLACED_OPTIONS[name]}=... instead"
            )
        options[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return options


def spout_options(given: Mapping[str, Any] | None, isolation: Isolation) -> dict[str, str]:
    """Returns the options of a spout, with its isolation. Raises ConfigError for options that are arguments here."""
    options = checked_options(given)
    if ISOLATION in options:
        raise ConfigError(f"option {ISOLATION!r} is an argument of windbolt's own", do="use isolation=... instead")
    return {**options, ISOLATION: isolation}


def checked_topics(topics: str | Iterable[str] | None, pattern: str | None) -> tuple[str, ...]:
    """Returns the names of topics. Raises ConfigError unless either topics or a pattern is given."""
    names = (topics,) if isinstance(topics, str) else tuple(topics or ())
    if bool(names) == bool(pattern):
        raise ConfigError(
            "kafka() with both topics and a pattern" if pattern else "kafka() without topics",
            why="either the topics are named, or a pattern says which they are",
            do="name a topic, several in a list, or give pattern='orders-.*'",
        )
    blank = [name for name in names if not name or not name.strip() or "," in name]
    if blank:
        raise ConfigError(
            f"{blank[0]!r} is not a topic", why="the name of a topic has no comma", do="give several topics as a list"
        )
    return tuple(dict.fromkeys(names))


def checked_start(starting: Starting, topics: tuple[str, ...]) -> Starting:
    """Returns the position where a run begins. Raises ConfigError for a value that is not a position in a topic."""
    if starting in ("earliest", "latest"):
        return starting
    if isinstance(starting, datetime):
        return starting if starting.tzinfo is not None else starting.replace(tzinfo=UTC)
    if isinstance(starting, Mapping) and starting:
        unknown = [topic for topic in starting if topic not in topics]
        if unknown:
            raise ConfigError(
                f"starting names the topic {unknown[0]!r}, which is not read",
                why=f"the topics are {', '.join(topics) or 'those of a pattern'}",
                do="name topics that are read; partitions that are left out begin with their earliest record",
            )
        offsets = [number for partitions in starting.values() for pair in partitions.items() for number in pair]
        if all(isinstance(number, int) and number >= 0 for number in offsets):
            return starting
    raise ConfigError(
        f"starting={starting!r:.60}",
        why="it says where a run with a new checkpoint begins",
        do="use 'earliest', 'latest', a datetime, or {topic: {partition: offset}}",
    )


def checked_metadata(requested: bool | str | Iterable[str], changes: Sequence[str] = ()) -> tuple[str, ...]:
    """Returns the names of metadata columns; ``changes``: the columns of an envelope. Raises ConfigError for unknown
    names."""
    if isinstance(requested, bool):
        return (*_DEFAULT_METADATA, *changes) if requested else ()
    names = (requested,) if isinstance(requested, str) else tuple(requested)
    full = [name if name.startswith(("kafka_", "debezium_")) else f"kafka_{name}" for name in names]
    unknown = [name for name in full if name not in METADATA and name not in changes]
    if unknown:
        other = "give envelope='debezium', " if unknown[0] in CHANGES.names else ""
        raise ConfigError(
            f"{unknown[0]!r} is not metadata of a record",
            do=f"{other or 'use '}True, or some of {', '.join((*METADATA, *changes))}",
        )
    return tuple(name for name in (*METADATA, *changes) if name in full)


def checked_form(name: str, form: str) -> None:
    """Raise ConfigError for an unknown form of keys or values."""
    if form not in ("binary", "text"):
        raise ConfigError(f"{name}={form!r}", why="a key or value is bytes, or text", do="use 'binary' or 'text'")


def _metadata_field(name: str, key: KeyForm) -> pa.Field:
    """Returns a metadata column."""
    match name:
        case "kafka_headers":
            return pa.field(name, pa.map_(pa.string(), pa.binary()))
        case "kafka_key":
            return pa.field(name, PLAIN_KEY_TYPES.get(key, pa.string()))
    return RECORD.field(METADATA[name]).with_name(name)


def _with_text(schema: pa.Schema, forms: Mapping[str, str]) -> pa.Schema:
    return pa.schema(
        [pa.field(field.name, pa.string()) if forms.get(field.name) == "text" else field for field in schema]
    )


def _fits_record(column: pa.Field) -> bool:
    kind, kinds = column.type, pa.types
    match column.name:
        case "value" | "key":
            return bool(kinds.is_string(kind) or kinds.is_binary(kind))
        case "topic":
            return bool(kinds.is_string(kind))
        case "partition":
            return bool(kinds.is_int32(kind))
    if kinds.is_map(kind):
        return _are_headers(kind.key_type, kind.item_type)
    if not kinds.is_list(kind) or not kinds.is_struct(kind.value_type):
        return False
    pair = {field.name: field.type for field in kind.value_type}
    return list(pair) == ["key", "value"] and _are_headers(pair["key"], pair["value"])


def _are_headers(key: pa.DataType, value: pa.DataType) -> bool:
    return bool(pa.types.is_string(key) and (pa.types.is_string(value) or pa.types.is_binary(value)))


# Options of Spark's connector and their defaults, for both engines.


READING_DEFAULTS = {
    "failOnDataLoss": "true",
    "kafka.default.api.timeout.ms": "20000",  # Spark retries this three times
    "kafka.request.timeout.ms": "15000",
    "kafkaConsumer.pollTimeoutMs": "60000",
    # After each poll Spark asks the broker for offsets, in two requests; by default a poll has at most 500 records.
    # max.partition.fetch.bytes still limits it.
    "kafka.max.poll.records": "10000",
}
"""Default options for reading."""
WRITING_DEFAULTS = {
    "kafka.max.block.ms": "15000",  # a task is tried up to four times
    "kafka.request.timeout.ms": "15000",
    "kafka.delivery.timeout.ms": "60000",
}
"""Default timeouts for writing: about a minute, long enough for one restart of a broker."""
FIRST_RESPONSE_TIMEOUTS = {"default.api.timeout.ms": "10000", "request.timeout.ms": "5000"}
"""Default timeouts for the first response."""
RECORDS_PER_BATCH = 500_000
"""Default maximum number of records per batch; without a limit the first batch would be a whole topic."""


def kafka_settings(*options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of Spark's connector that are for Kafka's clients; later mappings win."""
    return {
        name.removeprefix("kafka."): value
        for some in options
        for name, value in some.items()
        if name.startswith("kafka.")
    }


def may_lose_records(options: Mapping[str, str]) -> bool:
    """True if a spout with these options goes on after records have been lost."""
    return options.get("failOnDataLoss", "true") == "false"


# Settings for librdkafka, which reads and writes in local runs.


_FOLLOWED_OPTIONS = frozenset(
    {
        "failOnDataLoss",
        "kafkaConsumer.pollTimeoutMs",
        # How Spark divides its work, and its requests to Kafka: the records that are read do not depend on it.
        "minPartitions",
        "maxRecordsPerPartition",
        "groupIdPrefix",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
    }
)
"""Options of the connector that a local run follows, or that do not change which records are read or written."""
_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
"""Settings of Java's clients with another name in librdkafka."""
_LEAST = {"fetch.max.bytes": 1000, "fetch.min.bytes": 1, "max.partition.fetch.bytes": 1, "batch.size": 1}
"""The least values that librdkafka accepts; Java's clients accept less. In both, one record may exceed these limits."""
_JAVAS_NAMES = {
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "queue.buffering.max.ms": "linger.ms",
    "compression.codec": "compression.type",
    **{theirs: ours for ours, theirs in _RENAMED.items()},
}
"""Java's names for settings that errors of librdkafka call by another name."""
_JAVA_ONLY = frozenset(
    {
        "auto.include.jmx.reporter",
        "buffer.memory",
        "default.api.timeout.ms",
        "exclude.internal.topics",
        "max.block.ms",
        "max.poll.records",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "ssl.truststore.password",  # the certificates in a PEM file are not encrypted
    }
)
"""Settings of Java's clients about their memory, metrics and waiting; windbolt waits by itself."""
_SET_BY_WINDBOLT = frozenset(
    {
        "bootstrap.servers",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "interceptor.classes",
        "key.deserializer",
        "key.serializer",
        "transactional.id",
        "value.deserializer",
        "value.serializer",
    }
)
"""Settings that windbolt sets itself, as the connector does."""
_STORES = {"ssl.keystore": "JKS", "ssl.truststore": "JKS"}
"""Java's files of keys and certificates, with their default type."""
_JAAS = re.compile(r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(.*?);?\s*", re.DOTALL)
_JAAS_OPTION = re.compile(r"([\w.]+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|([^\s;]+))")
_PASSWORDS = {"PlainLoginModule", "ScramLoginModule"}
_TOKENS = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_ADVICE = "leave it out for local runs, or run on Spark"


def librdkafka_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """Returns options of Spark's connector as settings of librdkafka.

    Raises ConfigError for an option without an equivalent there. The error does not show values, since they may be
    secret.
    """
    for name in options:
        if not name.startswith("kafka.") and name not in _FOLLOWED_OPTIONS:
            raise ConfigError(
                f"option {name!r} in a local run",
                why="it is one of Spark's connector, and nothing in a local run does the same",
                do=_ADVICE,
            )
    found: dict[str, Any] = {}
    client_options = kafka_settings(options)
    for name, value in client_options.items():
        if name in _SET_BY_WINDBOLT:
            raise ConfigError(f"option 'kafka.{name}'", why="windbolt sets it itself", do="leave it out")
        if name == "partitioner.class":
            raise ConfigError(
                f"option 'kafka.{name}' in a local run",
                why="it names a class of Java's, and a local run has no Java",
                do=_ADVICE,
            )
        if name == "sasl.jaas.config":
            found |= _settings_of_jaas(value)
        elif name == "ssl.endpoint.identification.algorithm":
            found[name] = value or "none"
        elif name.rpartition(".")[0] in _STORES and name.rpartition(".")[2] in ("location", "type"):
            continue  # below
        elif name not in _JAVA_ONLY:
            least = _LEAST.get(name, 0) if value.strip().isdigit() else 0
            found[_RENAMED.get(name, name)] = str(least) if least and int(value) < least else value
    for store, default_type in _STORES.items():
        if f"{store}.location" in client_options:
            found |= _settings_of_store(
                store, client_options[f"{store}.location"], client_options.get(f"{store}.type", default_type).upper()
            )
    return found


def _settings_of_store(store: str, path: str, kind: str) -> dict[str, str]:
    """Returns the settings for a file of keys or certificates."""
    is_trusted = store == "ssl.truststore"
    if kind == "PEM":
        return {"ssl.ca.location": path} if is_trusted else {"ssl.key.location": path, "ssl.certificate.location": path}
    if kind == "PKCS12" and not is_trusted:
        return {"ssl.keystore.location": path}
    option = f"'kafka.{store}.type'"
    raise ConfigError(
        f"option 'kafka.{store}.location' in a local run: {kind} is a format of Java's"
        if kind == "JKS"
        else f"option 'kafka.{store}.location' in a local run with a type {kind}",
        why="librdkafka reads certificates from PEM files, and keys from those or PKCS12",
        do=f"export them with keytool, and give the PEM file with {option}: 'PEM', as Spark reads it too"
        if is_trusted
        else f"convert it with keytool -importkeystore -deststoretype PKCS12, and give {option}: 'PKCS12'",
    )


def _settings_of_jaas(text: str) -> dict[str, str]:
    """Returns the settings for Java's configuration of a login; its password appears in no error."""
    matched = _JAAS.fullmatch(text)
    module = "" if matched is None else matched[1].rpartition(".")[2]
    options = {} if matched is None else {each[1]: _unquoted(each) for each in _JAAS_OPTION.finditer(matched[2])}
    if module in _PASSWORDS and {"username", "password"} <= options.keys():
        return {"sasl.username": options["username"], "sasl.password": options["password"]}
    if module == "OAuthBearerLoginModule" and {"clientId", "clientSecret"} <= options.keys():
        return {"sasl.oauthbearer.method": "oidc"} | {
            ours: options[name] for name, ours in _TOKENS.items() if name in options
        }
    raise ConfigError(
        "option 'kafka.sasl.jaas.config' in a local run: "
        + (f"{module} is a class of Java's" if module and module not in _PASSWORDS else "no user and password in it"),
        why="librdkafka takes a user and a password (PlainLoginModule, ScramLoginModule), or a client and its secret "
        "(OAuthBearerLoginModule)",
        do='give \'org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";\', '
        "or run on Spark",
    )


def _unquoted(found: re.Match[str]) -> str:
    quoted = found[2] if found[2] is not None else found[3]
    return found[4] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)


def with_names_of_java(error: str) -> str:
    """Returns an error text of librdkafka with Java's names of settings."""
    return re.sub(r"([\"`])([a-z.]+)\1", lambda each: f"{each[1]}{_JAVAS_NAMES.get(each[2], each[2])}{each[1]}", error)


def timeout_ms(options: Mapping[str, str], name: str) -> int:
    """Returns a timeout from options. Raises ConfigError if it is not a whole number."""
    value = options[name]
    try:
        return int(value)
    except ValueError:
        raise ConfigError(
            f"option {name!r} is {value!r}", why="it is a number of milliseconds", do="give a whole number"
        ) from None
