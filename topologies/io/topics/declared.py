"""How the keys and values of a topic are declared to be written."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa

from topologies.io.formats.conform import convertible
from topologies.io.formats.declared_times import Times
from topologies.io.formats.event_files import OnTruncation
from topologies.io.messages.avro_schema import parsed_with
from topologies.io.topics.protobuf_shapes import ProtobufReader, files_of
from topologies.io.topics.registry import Registry, checked_registry, refuse_missing
from windowing.errors import ConfigError, did_you_mean
from windowing.schema import SchemaLike, format_schema, parse_schema

TopicFormat: TypeAlias = Literal["json", "avro", "protobuf", "json_schema"]
"""Formats of values; ``json_schema`` is JSON with the frame of a registry."""
KeyForm: TypeAlias = Literal["binary", "text", "int", "long", "json", "avro", "protobuf", "json_schema"]
"""Forms of keys; ``int`` and ``long`` are whole numbers of 4 and 8 bytes, the highest first."""
Envelope: TypeAlias = Literal["connect", "debezium"]
Tombstones: TypeAlias = Literal["invalid", "rows", "skip"]
Subject: TypeAlias = Literal["topic", "record", "topic_record"]

RECORD = parse_schema(
    "topic string, partition int, offset long, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)
"""The columns of a record from Kafka."""
METADATA = {f"kafka_{name}": name for name in ("topic", "partition", "offset", "timestamp", "key", "headers")}
"""Metadata columns that may be added to the columns of a record's value, and the record fields they hold."""
HEADERS = "kafka_headers"
KEY = "kafka_key"
OPERATION, CHANGED = "debezium_op", "debezium_ts"
CHANGES = pa.schema([(OPERATION, pa.string()), (CHANGED, pa.timestamp("us", "UTC"))])
"""Metadata columns of Debezium's changes: c, u, d or r, and when Debezium saw it."""

PLAIN: Mapping[str, pa.DataType] = {
    "binary": pa.binary(),
    "text": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
}
"""The types of keys without parts."""
REGISTRY_KINDS: Mapping[str, str] = {"avro": "AVRO", "protobuf": "PROTOBUF", "json_schema": "JSON"}
"""The forms whose schemas are in a registry, and what the registry calls them."""
REGISTERED = frozenset(REGISTRY_KINDS)


@dataclass(frozen=True)
class SchemaFile:
    """A schema without a registry: Avro's as JSON (``.avsc``), Protobuf's as a compiled descriptor."""

    path: str
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class TopicRows:
    """The rows of a topic: their columns, and how keys and values hold them."""

    declared: pa.Schema
    """The columns in the values."""
    format: TopicFormat = "json"
    registry: Registry | None = None
    schema_file: SchemaFile | None = None
    message: str | None = None
    """The type of Protobuf's messages where there is no registry."""
    envelope: Envelope | None = None
    tombstones: Tombstones = "invalid"
    key: KeyForm = "text"
    key_columns: pa.Schema = field(default_factory=lambda: pa.schema([]))
    """The columns in the keys."""
    metadata: pa.Schema = field(default_factory=lambda: pa.schema([]))
    changes: pa.Schema = field(default_factory=lambda: pa.schema([]))
    timezone: str | None = None
    on_truncation: OnTruncation = "cut"
    times: Times = ()

    @property
    def columns(self) -> pa.Schema:
        """All columns."""
        return pa.schema([*self.declared, *self.key_columns, *self.changes, *self.metadata])


# What can be wrong with a declaration, said where it is made.


def checked_choice(name: str, given: object, choices: object) -> None:
    """Raise ConfigError for what is not one of the choices of a Literal."""
    known = get_args(choices)
    if given not in known:
        raise ConfigError(f"{name}={given!r:.60}{did_you_mean(given, known)}", do=f"use {', '.join(map(repr, known))}")


def checked_schema_file(path: str | os.PathLike[str] | None, format: str, message: str | None) -> SchemaFile | None:
    """The schema in a file, which is read once, by the program that declares the topology. Raises ConfigError."""
    if path is None:
        return None
    text = os.fspath(path)
    if format not in ("avro", "protobuf"):
        raise ConfigError(
            f"schema_file={text!r} with format={format!r}",
            why="the declared columns say all of JSON",
            do="leave it out, or give format='avro' or 'protobuf'",
        )
    if text.endswith(".proto"):
        raise ConfigError(
            f"schema_file={text!r} is the source of a schema of Protobuf",
            why="it has to be compiled, which Protobuf's own compiler does",
            do="compile it, and name that: protoc --include_imports --descriptor_set_out=orders.desc orders.proto",
        )
    if format == "protobuf":
        refuse_missing("google.protobuf", "format='protobuf'")
    try:
        with open(text, "rb") as file:
            content = file.read()
    except OSError as error:
        raise ConfigError(f"schema_file={text!r} cannot be read", why=str(error), do="name a file") from error
    if format == "protobuf":
        if message is None:
            raise ConfigError(
                f"schema_file={text!r} without message=",
                why="a record does not say of which type its message is",
                do="name the type with its package: message='shop.Order'",
            )
        ProtobufReader(files_of(text, content), message)
    else:
        try:
            parsed_with(content.decode())
        except UnicodeDecodeError as error:
            raise ConfigError(f"schema_file={text!r} is no text", why=str(error), do="give an .avsc file") from error
    return SchemaFile(text, content)


@dataclass(frozen=True)
class CheckedRows:
    """The checked arguments that ``checked_rows`` returns."""

    registry: Registry | None
    schema_file: SchemaFile | None
    tombstones: Tombstones


def checked_rows(
    *,
    format: TopicFormat,
    registry: str | Mapping[str, Any] | Registry | None,
    schema_file: str | os.PathLike[str] | None,
    message: str | None,
    envelope: Envelope | None,
    tombstones: Tombstones | None,
    key: KeyForm | None,
    key_columns: SchemaLike | None,
    metadata: Sequence[str],
    defaults: bool,
) -> CheckedRows:
    """How a spout reads keys and values. Raises ConfigError for arguments that do not go together, and for packages
    that are not installed."""
    checked_choice("format", format, TopicFormat)
    if envelope is not None:
        checked_choice("envelope", envelope, Envelope)
    if tombstones is not None:
        checked_choice("tombstones", tombstones, Tombstones)
    if key is not None:
        checked_choice("key", key, KeyForm)
    if envelope == "connect" and format not in ("json", "json_schema"):
        raise ConfigError(
            f"envelope='connect' with format={format!r}",
            why="Kafka Connect writes a schema beside a value only in JSON; in other formats the registry has it",
            do="leave envelope out",
        )
    if tombstones == "rows" and defaults:
        raise ConfigError(
            "tombstones='rows' with defaults",
            why="the nulls of a tombstone would become the defaults, as if it had a value",
            do="leave the defaults out, or use tombstones='skip'",
        )
    file = checked_schema_file(schema_file, format, message)
    _check_sources(format, registry, file, message, key)
    _check_key(key, key_columns, metadata)
    usual: Tombstones = "skip" if envelope == "debezium" else "invalid"
    return CheckedRows(None if registry is None else checked_registry(registry), file, tombstones or usual)


def _check_sources(
    format: str, registry: object, file: SchemaFile | None, message: str | None, key: str | None
) -> None:
    """Raise ConfigError where it is not said once where schemas are."""
    if "protobuf" in (format, key):
        refuse_missing("google.protobuf", "Protobuf")
    of_key = key in ("avro", "protobuf")
    if registry is not None and file is not None:
        raise ConfigError(
            "registry= and schema_file=",
            why="values have the frame of a registry, or are written by the schema in the file",
            do="leave one of them out",
        )
    if format in ("avro", "protobuf") and registry is None and file is None:
        raise ConfigError(
            f"format={format!r} without a schema",
            why="its values can only be read by the schema that they were written by",
            do="give registry='http://registry:8081', or schema_file=... for values without a registry's frame",
        )
    if of_key and registry is None:
        raise ConfigError(
            f"key={key!r} without registry=",
            why="the keys can only be read by the schema that they were written by",
            do="give registry='http://registry:8081'",
        )
    refuse_unused(format, key, {"registry": registry})
    if message is not None and (file is None or format != "protobuf"):
        raise ConfigError(
            f"message={message!r:.60}",
            why="only a schema file of Protobuf leaves open of which type the messages are",
            do="leave it out",
        )


def refuse_unused(format: str, key: str | None, given: Mapping[str, object]) -> None:
    """Raise ConfigError for arguments about schemas where there are none."""
    for name, value in given.items():
        if value is not None and format == "json" and key not in REGISTERED:
            raise ConfigError(
                f"{name}= with format='json'",
                why="JSON has no schema in a registry, and neither have such keys",
                do="leave it out, or give format='json_schema', 'avro' or 'protobuf'",
            )


def _check_key(key: KeyForm | None, columns: SchemaLike | None, metadata: Sequence[str]) -> None:
    """Raise ConfigError for columns of keys that these cannot have."""
    structured = key is not None and key not in PLAIN
    if structured and columns is None:
        raise ConfigError(
            f"key={key!r} without key_columns",
            why="a key of this form has fields",
            do="declare them: key_columns='user_id long'",
        )
    if structured and KEY in metadata:
        raise ConfigError(
            f"key={key!r} with the metadata {KEY!r}",
            why="a key of this form has fields",
            do="leave it out: key_columns gives the fields",
        )
    if columns is None or structured:
        return
    schema, kind = parse_schema(columns), PLAIN[key or "text"]
    wrong = [each for each in schema if not convertible(kind, each.type)]
    if len(schema) != 1 or wrong:
        raise ConfigError(
            f"key_columns={format_schema(schema)!r} with key={key or 'text'!r}",
            why=f"such a key is one {format_schema(pa.schema([('key', kind)]))[4:]}",
            do="declare one column of that type, or say how the keys are written: key='json'",
        )
