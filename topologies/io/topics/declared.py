"""Users' declarations of a topic: the format of its keys and values, and the registry with their schemas."""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

import pyarrow as pa

from topologies.io.formats.conform import convertible
from topologies.io.formats.declared_times import Times
from topologies.io.formats.event_files import OnTruncation
from topologies.io.messages.avro_schema import parse_avro_with
from topologies.io.messages.message import Unreadable
from topologies.io.topics.protobuf_shapes import WELL_KNOWN, ProtobufReader, files_in_descriptor, serialized_file
from windowing.errors import ConfigError, UnreachableError, WindboltError, did_you_mean
from windowing.schema import SchemaLike, format_schema, parse_schema

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

# A schema registry, as users declare it. Each process fetches a schema once and keeps it.


FRAME = 5
"""Length in bytes of the frame before a value: 0, and the id of its schema in four bytes."""
MAGIC = 0
_TIMEOUT = 10
"""Seconds to wait for a response, unless the settings give another number."""
_SHORT_TIMEOUT = 3
"""Seconds to wait for a response while a user waits for a check of a topology."""
_RETRIES = "max.retries"
"""The setting for the client's retries: by default three, with pauses."""
_NOT_FOUND = frozenset({404, 40401, 40402, 40403})
"""The registry's status codes for unknown schemas."""


@dataclass(frozen=True)
class Registry:
    """A schema registry: its address, and the settings of its client."""

    url: str
    settings: tuple[tuple[str, Any], ...] = field(default=(), repr=False)  # they may contain passwords

    def __hash__(self) -> int:  # settings may be dicts
        return hash(self.url)

    def __repr__(self) -> str:
        return f"Registry({self.shown!r})"

    @property
    def shown(self) -> str:
        """The address without its password."""
        return ",".join(_without_password(each) for each in self.url.split(","))

    def with_short_timeout(self) -> Registry:
        """Returns the same registry without retries and with a short timeout."""
        settings = dict(self.settings)
        timeout = settings.get("timeout")
        seconds = min(timeout, _SHORT_TIMEOUT) if isinstance(timeout, int | float) else _SHORT_TIMEOUT
        return replace(self, settings=(*({**settings, "timeout": seconds, _RETRIES: 0}).items(),))


def _without_password(url: str) -> str:
    parts = urlsplit(url.strip())
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def checked_registry(given: str | Mapping[str, Any] | Registry) -> Registry:
    """Returns a registry from its address, or from the settings of confluent-kafka's client. Raises ConfigError for
    other values, and EnvironmentMissing if the client is not installed."""
    if isinstance(given, Registry):
        return given
    settings = {"url": given} if isinstance(given, str) else dict(given)
    url = settings.pop("url", None)
    if not isinstance(url, str) or not all(each.strip().startswith(("http://", "https://")) for each in url.split(",")):
        raise ConfigError(
            f"{_shown(given)} is no schema registry",
            why="a registry is an address, or settings of confluent-kafka's client, of which url is one",
            do="write registry='http://registry:8081', or registry={'url': 'https://...', "
            "'basic.auth.user.info': 'user:password'}",
        )
    refuse_missing("confluent_kafka", "a schema registry")
    registry = Registry(url, tuple(sorted(settings.items())))
    _checked_settings(registry)
    return registry


def _shown(given: object) -> str:
    return repr(sorted(given)) if isinstance(given, Mapping) else f"{given!r:.60}"


def _checked_settings(registry: Registry) -> None:
    try:
        client_of(registry)
    except (ValueError, TypeError, OSError) as error:
        raise ConfigError(
            f"the settings of the registry {registry.shown} are wrong: {error}",
            do="use those of confluent-kafka's SchemaRegistryClient",
        ) from None


def refuse_missing(package: str, what: str) -> None:
    """Raises ConfigError if a package of the extra ``topics`` is not installed."""
    names = {"confluent_kafka": ("confluent_kafka", "authlib", "cachetools"), "google.protobuf": ("google.protobuf",)}
    missing = [name for name in names[package] if not _is_installed(name)]
    if missing:
        raise ConfigError(
            f"{what} needs the package {missing[0].split('.')[0]!r}, which is not installed",
            why="windbolt itself does without it",
            do="install it: pip install 'windbolt[topics]', for the workers too",
        )


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


# The clients of registries, one for each registry and process, and the schemas that they have fetched.


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema in a registry."""

    kind: str
    """AVRO, PROTOBUF or JSON."""
    text: str
    """The schema; for Protobuf a serialized file in base64."""
    references: tuple[tuple[str, str], ...]
    """The schemas that it uses, each before those that use it: pairs of the name in the reference, and the text."""


_LOCK = threading.RLock()
_SCHEMAS: dict[tuple[int, Registry, int], RegisteredSchema] = {}


def schema_of(registry: Registry, number: int, *, serialized: bool = False) -> RegisteredSchema:
    """Returns the schema with an id. ``serialized``: in compiled form, which Protobuf needs.

    Raises Unreadable if the registry has no such schema, UnreachableError if it does not respond.
    """
    key = (os.getpid(), registry, number)
    with _LOCK:
        found = _SCHEMAS.get(key)
        if found is None:
            with errors_of_registry(registry):
                found = _SCHEMAS[key] = _fetch(client_of(registry), number, "serialized" if serialized else None)
        return found


@contextmanager
def errors_of_registry(registry: Registry) -> Iterator[None]:
    """Turns exceptions of the client into UnreachableError, or Unreadable if the registry does not have the schema."""
    from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError

    try:
        yield
    except WindboltError:
        raise
    except SchemaRegistryError as error:
        if error.error_code in _NOT_FOUND or (error.http_status_code == 404 and error.error_code == -1):
            raise Unreadable(f"the registry {registry.shown} has no such schema: {error.error_message}") from None
        refused = error.http_status_code in (401, 403)
        raise UnreachableError(
            f"the registry {registry.shown} {'refuses to answer' if refused else 'does not answer as it should'}",
            why=f"{error.error_message} (HTTP {error.http_status_code})",
            do="give its settings the right to read: registry={'url': ..., 'basic.auth.user.info': ...}"
            if refused
            else "see to its address, and that it runs; a run goes on where it was",
            transient=not refused,
        ) from error
    except (OSError, OAuthTokenError, ValueError) as error:
        raise _unreachable(registry, error) from error
    except AttributeError as error:
        if error.name is None or error.obj is not None:
            raise
        raise _unreachable(registry, error) from error  # the client reads an empty response as None, and uses it
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("httpx", "httpx2", "httpcore", "httpcore2"):
            raise
        raise _unreachable(registry, error) from error


def _unreachable(registry: Registry, error: Exception) -> UnreachableError:
    settings, why = dict(registry.settings), str(error) or type(error).__name__
    if settings.get(_RETRIES) == 0:
        why += f"; it was asked once, with {settings.get('timeout', _TIMEOUT)} seconds for an answer"
    return UnreachableError(
        f"the registry {registry.shown} does not answer",
        why=why,
        do="see to its address, and that it runs; a run goes on where it was",
        transient=True,
    )


@lru_cache(maxsize=32)
def _client_in_process(registry: Registry, process: int) -> SchemaRegistryClient:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    return SchemaRegistryClient({"timeout": _TIMEOUT, **dict(registry.settings), "url": registry.url})


def client_of(registry: Registry) -> SchemaRegistryClient:
    """Returns this process's client of a registry."""
    return _client_in_process(registry, os.getpid())


def _fetch(client: SchemaRegistryClient, number: int, form: str | None) -> RegisteredSchema:
    found = client.get_schema(number, fmt=form)
    return RegisteredSchema(found.schema_type or "AVRO", str(found.schema_str), references_of(client, found, form))


def references_of(client: SchemaRegistryClient, schema: Any, form: str | None) -> tuple[tuple[str, str], ...]:
    """Returns the schemas that a schema refers to, as pairs of (name in the reference, text); each comes before those
    that use it."""
    found: dict[tuple[str, str], None] = {}
    _add_references(client, schema, form, found, ())
    return tuple(found)


def _add_references(
    client: SchemaRegistryClient,
    schema: Any,
    form: str | None,
    found: dict[tuple[str, str], None],
    within: tuple[str, ...],
) -> None:
    for reference in schema.references or ():
        name = str(reference.name)
        if name in within:
            raise Unreadable(f"the schemas {' and '.join(within)} refer to each other")
        version = client.get_version(reference.subject, reference.version, fmt=form)
        _add_references(client, version.schema, form, found, (*within, name))
        found[name, str(version.schema.schema_str)] = None


def files_of_registered(schema: RegisteredSchema, number: int) -> list[bytes]:
    """Returns the files of a Protobuf schema, each after those that it imports."""
    return [*files_of_references(schema.references), serialized_file(schema.text, f"windbolt-{number}.proto")]


def files_of_references(references: Sequence[tuple[str, str]]) -> list[bytes]:
    """Returns the files that a Protobuf schema imports, without those that Protobuf itself includes."""
    known = {f"google/protobuf/{name}.proto" for name in WELL_KNOWN}
    return [serialized_file(text, name) for name, text in references if name not in known]


# The rows of a topic, as users declare them.


TopicFormat: TypeAlias = Literal["json", "avro", "protobuf", "json_schema"]
"""Formats of values; ``json_schema`` is JSON with the frame of a registry."""
KeyForm: TypeAlias = Literal["binary", "text", "int", "long", "json", "avro", "protobuf", "json_schema"]
"""Forms of keys; ``int`` and ``long`` are big-endian whole numbers of 4 and 8 bytes."""
Envelope: TypeAlias = Literal["connect", "debezium"]
Tombstones: TypeAlias = Literal["invalid", "rows", "skip"]
Subject: TypeAlias = Literal["topic", "record", "topic_record"]

RECORD = parse_schema(
    "topic string, partition int, offset long, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)
"""The columns of a record from Kafka."""
METADATA = {f"kafka_{name}": name for name in ("topic", "partition", "offset", "timestamp", "key", "headers")}
"""Metadata columns that may be added to those of a record's value, with the record field of each."""
HEADERS = "kafka_headers"
KEY = "kafka_key"
OPERATION, CHANGED = "debezium_op", "debezium_ts"
CHANGES = pa.schema([(OPERATION, pa.string()), (CHANGED, pa.timestamp("us", "UTC"))])
"""Metadata columns of Debezium's changes: the operation c, u, d or r, and the time when Debezium saw the change."""

PLAIN_KEY_TYPES: Mapping[str, pa.DataType] = {
    "binary": pa.binary(),
    "text": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
}
"""The types of keys without parts."""
REGISTRY_KINDS: Mapping[str, str] = {"avro": "AVRO", "protobuf": "PROTOBUF", "json_schema": "JSON"}
"""The formats whose schemas are in a registry, with their names there."""
REGISTERED = frozenset(REGISTRY_KINDS)


@dataclass(frozen=True)
class SchemaFile:
    """A schema without a registry: Avro's as JSON (``.avsc``), Protobuf's as a compiled descriptor."""

    path: str
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class TopicRows:
    """The rows of a topic: their columns, and their form in keys and values."""

    declared: pa.Schema
    """The columns from the values."""
    format: TopicFormat = "json"
    registry: Registry | None = None
    schema_file: SchemaFile | None = None
    message: str | None = None
    """The type of Protobuf messages, for topics without a registry."""
    envelope: Envelope | None = None
    tombstones: Tombstones = "invalid"
    key: KeyForm = "text"
    key_columns: pa.Schema = field(default_factory=lambda: pa.schema([]))
    """The columns from the keys."""
    metadata: pa.Schema = field(default_factory=lambda: pa.schema([]))
    changes: pa.Schema = field(default_factory=lambda: pa.schema([]))
    timezone: str | None = None
    on_truncation: OnTruncation = "cut"
    times: Times = ()

    @property
    def columns(self) -> pa.Schema:
        """All columns."""
        return pa.schema([*self.declared, *self.key_columns, *self.changes, *self.metadata])


# Checks of a declaration.


def checked_choice(name: str, given: object, choices: object) -> None:
    """Raises ConfigError for a value that is not one of the choices of a Literal."""
    known = get_args(choices)
    if given not in known:
        raise ConfigError(f"{name}={given!r:.60}{did_you_mean(given, known)}", do=f"use {', '.join(map(repr, known))}")


def checked_schema_file(path: str | os.PathLike[str] | None, format: str, message: str | None) -> SchemaFile | None:
    """Returns the schema in a file, which is read once, by the program that declares the topology. Raises ConfigError
    for an unreadable or unsuitable file."""
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
        ProtobufReader(files_in_descriptor(text, content), message)
    else:
        try:
            parse_avro_with(content.decode())
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
    """Returns how a spout reads keys and values. Raises ConfigError for conflicting arguments, and for packages that
    are not installed."""
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
    default_tombstones: Tombstones = "skip" if envelope == "debezium" else "invalid"
    return CheckedRows(None if registry is None else checked_registry(registry), file, tombstones or default_tombstones)


def _check_sources(
    format: str, registry: object, file: SchemaFile | None, message: str | None, key: str | None
) -> None:
    """Raises ConfigError unless exactly one source of schemas is given."""
    if "protobuf" in (format, key):
        refuse_missing("google.protobuf", "Protobuf")
    key_needs_schema = key in ("avro", "protobuf")
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
    if key_needs_schema and registry is None:
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
    """Raises ConfigError for arguments about schemas, if the format has none."""
    for name, value in given.items():
        if value is not None and format == "json" and key not in REGISTERED:
            raise ConfigError(
                f"{name}= with format='json'",
                why="JSON has no schema in a registry, and neither have such keys",
                do="leave it out, or give format='json_schema', 'avro' or 'protobuf'",
            )


def _check_key(key: KeyForm | None, columns: SchemaLike | None, metadata: Sequence[str]) -> None:
    """Raises ConfigError for columns that keys of this form cannot have."""
    structured = key is not None and key not in PLAIN_KEY_TYPES
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
    schema, kind = parse_schema(columns), PLAIN_KEY_TYPES[key or "text"]
    wrong = [each for each in schema if not convertible(kind, each.type)]
    if len(schema) != 1 or wrong:
        raise ConfigError(
            f"key_columns={format_schema(schema)!r} with key={key or 'text'!r}",
            why=f"such a key is one {format_schema(pa.schema([('key', kind)]))[4:]}",
            do="declare one column of that type, or say how the keys are written: key='json'",
        )
