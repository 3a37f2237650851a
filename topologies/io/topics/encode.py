"""Encodes rows as keys and values of a topic's records, in the topic's format and by a schema of its registry."""

from __future__ import annotations

import base64
import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fastavro import schemaless_writer

from topologies.io.formats.conform import is_text
from topologies.io.formats.event_files import type_name
from topologies.io.formats.write_table import json_lines
from topologies.io.messages.avro import fit_of
from topologies.io.messages.avro_schema import parse_avro_with
from topologies.io.messages.message import MAX_DEPTH, Misfit, Unreadable, value_and_type
from topologies.io.topics.declared import (
    MAGIC,
    PLAIN_KEY_TYPES,
    REGISTRY_KINDS,
    KeyForm,
    Registry,
    SchemaFile,
    Subject,
    TopicFormat,
    checked_choice,
    checked_registry,
    checked_schema_file,
    client_of,
    errors_of_registry,
    files_of_references,
    references_of,
    refuse_missing,
    refuse_unused,
)
from topologies.io.topics.protobuf_shapes import ProtobufReader, files_in_descriptor, indexes_in_bytes, serialized_file
from windowing.errors import ConfigError, DataError

_kinds = pa.types
Schemas = Literal["register", "latest"]


@dataclass(frozen=True)
class TopicRecords:
    """Conversion of rows to keys and values of a topic."""

    topic: str
    format: TopicFormat
    registry: Registry | None = None
    schema_file: SchemaFile | None = None
    message: str | None = None
    """The type name of the values; None: a name made from the topic's."""
    subject: Subject = "topic"
    schemas: Schemas = "register"
    key_columns: tuple[str, ...] = ()
    key: KeyForm | None = None
    """Form of keys. None: by the type of a single key column, JSON for several."""
    tombstones: str | None = None
    """The column that is true for records without a value."""
    headers: str | None = None
    """The column with the headers of records."""

    def value_columns(self, schema: pa.Schema) -> pa.Schema:
        """Returns the columns of the value."""
        return pa.schema([each for each in schema if each.name not in (self.tombstones, self.headers)])

    def key_form(self, schema: pa.Schema) -> KeyForm:
        """Returns the form of keys."""
        if self.key is not None:
            return self.key
        if len(self.key_columns) > 1:
            return "json"
        kind = schema.field(self.key_columns[0]).type
        if is_text(kind):
            return "text"
        return next((cast("KeyForm", form) for form, known in PLAIN_KEY_TYPES.items() if known == kind), "json")


def encode(records: TopicRecords | None, rows: pa.Table) -> pa.Table:
    """Returns a table with ``value``, and ``key`` and ``headers`` if rows have them. ``records``: None if rows are
    already records.

    Raises DataError for a row that does not fit the schema, UnreachableError if the registry does not respond.
    """
    if records is None:
        return rows
    columns = records.value_columns(rows.schema)
    rows_with_values, indices = rows, None
    if records.tombstones is not None:  # only the other rows must fit the schema
        is_tombstone = _one_array(pc.fill_null(rows.column(records.tombstones), False))
        rows_with_values = rows.filter(pc.invert(is_tombstone))
        kept = ~is_tombstone.to_numpy(zero_copy_only=False)
        indices = pa.array(np.cumsum(kept) - 1, mask=~kept)
    values = _encode_column(_writer(records, columns, "value", os.getpid()), rows_with_values.select(columns.names))
    made = {"value": values if indices is None else values.take(indices)}
    if records.key_columns:
        made["key"] = _keys(records, rows.select(list(records.key_columns)))
    if records.headers is not None:
        made["headers"] = rows.column(records.headers)
    return pa.table(made)


def refuse_without_format(given: Mapping[str, Any]) -> None:
    """Raises ConfigError for arguments of a conversion, if rows are already records."""
    for name, value in given.items():
        if value is not None:
            raise ConfigError(
                f"kafka(..., {name}=...) without a format",
                why="without one the rows are the records, with the columns value and key",
                do="say how the values are written: format='json', 'avro', 'protobuf' or 'json_schema'",
            )


def checked_records(
    topic: str | None,
    format: TopicFormat,
    *,
    schemas: Schemas,
    subject: Subject,
    registry: str | Mapping[str, Any] | Registry | None,
    schema_file: str | os.PathLike[str] | None,
    message: str | None,
    key: tuple[str, ...] | None,
    key_format: KeyForm | None,
    tombstones: str | None,
    headers: str | None,
) -> TopicRecords:
    """Returns how a sink converts its rows. Raises ConfigError for conflicting arguments, and for packages that are not
    installed."""
    for name, value, choices in (
        ("format", format, TopicFormat),
        ("schemas", schemas, Schemas),
        ("subject", subject, Subject),
        *([("key_format", key_format, KeyForm)] if key_format is not None else []),
    ):
        checked_choice(name, value, choices)
    if topic is None:
        raise ConfigError(
            f"kafka(..., format={format!r}) without a topic",
            why="the rows have fields of values, and no topic of their own",
            do="name it: kafka(servers, 'totals', format=...)",
        )
    if message is not None:
        checked_type_name(message)
    _check_schemas(format, registry, schema_file, key_format)
    refuse_unused(
        format,
        key_format,
        {
            "registry": registry,
            "message": message,
            "schemas": None if schemas == "register" else schemas,
            "subject": None if subject == "topic" else subject,
        },
    )
    for option, argument in (("key_format", key_format), ("tombstones", tombstones)):
        if argument is not None and not key:
            raise ConfigError(
                f"{option}={argument!r} without key=",
                why="it is about records with a key",
                do="name the columns of the key: key='user_id'",
            )
    return TopicRecords(
        topic,
        format,
        None if registry is None else checked_registry(registry),
        checked_schema_file(schema_file, format, message),
        message,
        subject,
        schemas,
        key or (),
        key_format,
        tombstones,
        headers,
    )


def _check_schemas(format: str, registry: object, schema_file: object, key_format: str | None) -> None:
    """Raises ConfigError unless exactly one source of schemas is given for values and for keys."""
    if "protobuf" in (format, key_format):
        refuse_missing("google.protobuf", "Protobuf")
    if registry is not None and schema_file is not None:
        raise ConfigError(
            "registry= and schema_file=",
            why="values have the frame of a registry, or are written by the schema in the file",
            do="leave one of them out",
        )
    if format == "json_schema" and registry is None:
        raise ConfigError("format='json_schema' without registry=", do="give one, or use format='json'")
    if format in ("avro", "protobuf") and registry is None and schema_file is None:
        raise ConfigError(
            f"format={format!r} without a schema",
            why="its values can only be read by the schema that they were written by",
            do="give registry='http://registry:8081', or schema_file=... for values without a registry's frame",
        )
    if key_format in ("avro", "protobuf", "json_schema") and registry is None:
        raise ConfigError(f"key_format={key_format!r} without registry=", do="give one, or use key_format='json'")


def check_records(records: TopicRecords, schema: pa.Schema) -> None:
    """Raises ConfigError for columns that this conversion cannot write; does not use the registry."""
    columns = records.value_columns(schema)
    unknown = [name for name in (*records.key_columns, records.tombstones, records.headers) if name is not None]
    missing = [name for name in unknown if name not in schema.names]
    if missing:
        raise ConfigError(
            f"its rows have no column {', '.join(map(repr, missing))}",
            why=f"the columns are {', '.join(schema.names)}",
            do="name one of them",
        )
    if records.tombstones is not None and not _kinds.is_boolean(schema.field(records.tombstones).type):
        raise ConfigError(f"tombstones={records.tombstones!r} is no boolean", do="name a column that is true or false")
    _check_derived(records, columns, "value")
    if records.schema_file is not None:
        _writer_of_file(records, columns)
    if records.key_columns:
        _check_key(records, pa.schema([schema.field(name) for name in records.key_columns]))


def _check_key(records: TopicRecords, schema: pa.Schema) -> None:
    form = records.key_form(schema)
    if form not in PLAIN_KEY_TYPES:
        _check_derived(records, schema, "key")
        return
    kind = schema.field(0).type
    fits = is_text(kind) or _kinds.is_binary(kind) if form in ("binary", "text") else _kinds.is_signed_integer(kind)
    if len(schema) != 1 or not fits or (form == "int" and _kinds.is_int64(kind)):
        raise ConfigError(
            f"key_format={form!r} for the columns {', '.join(records.key_columns)}",
            why="such a key is one column of that type",
            do="name one column, or use key_format='json'",
        )


def _check_derived(records: TopicRecords, columns: pa.Schema, part: str) -> None:
    """Raises ConfigError for columns from which no schema can be made."""
    form, schema_text = _form(records, columns, part), _schema_from_columns(records, columns, part)
    try:
        _writer_of(form, schema_text, (), columns, b"", None)
    except ConfigError as error:
        raise ConfigError(
            f"its columns make no schema of {form!r}",
            why=error.what,
            do="rename a column: types of records are named by their columns, as a_b for b in a",
        ) from error


def register_schemas(records: TopicRecords, schema: pa.Schema) -> None:
    """Registers the schemas, or gets the latest, before the first batch. Raises ConfigError if a schema is refused or
    does not fit the columns, UnreachableError if the registry does not respond."""
    _writer(records, records.value_columns(schema), "value", os.getpid())
    if records.key_columns and records.key_form(schema) not in PLAIN_KEY_TYPES:
        _writer(records, pa.schema([schema.field(name) for name in records.key_columns]), "key", os.getpid())


def preview_registration(records: TopicRecords, schema: pa.Schema) -> list[str]:
    """Describes what ``register_schemas`` would do for values and keys; registers nothing. Raises the same errors."""
    parts = {"value": records.value_columns(schema)}
    if records.key_columns and records.key_form(schema) not in PLAIN_KEY_TYPES:
        parts["key"] = pa.schema([schema.field(name) for name in records.key_columns])
    return [text for part, columns in parts.items() for text in _preview(records, columns, part)]


def _preview(records: TopicRecords, columns: pa.Schema, part: str) -> Iterator[str]:
    from confluent_kafka.schema_registry import Schema

    form = _form(records, columns, part)
    if records.registry is None or form not in REGISTRY_KINDS:
        return
    subject, client = _subject(records, part), client_of(records.registry)
    if records.schemas == "latest":
        _writer(records, columns, part, os.getpid())
        yield f"{subject}: the columns fit the latest"
        return
    schema = Schema(_schema_from_columns(records, columns, part), REGISTRY_KINDS[form])
    with errors_of_registry(records.registry):
        try:
            with errors_of_registry(records.registry):
                version = client.get_version(subject, "latest").version
        except Unreadable:
            yield f"{subject} is not there yet; a run registers it"
            return
        try:
            with errors_of_registry(records.registry):
                yield f"{subject}: registered, as version {client.lookup_schema(subject, schema).version}"
                return
        except Unreadable:
            pass
        if not client.test_compatibility(subject, schema):
            raise _refusal(records, subject, f"it is no compatible change of version {version}")
        yield f"{subject}: a compatible change of version {version}, which is not there yet; a run registers it"


# Writers for one schema, with the frame that precedes each value. A process makes each writer once.


class _Writer(Protocol):
    """Writes the rows of a table."""

    def __call__(self, rows: pa.Table) -> list[bytes]:
        """Returns the bytes of each row. Raises Misfit with the name of a column."""


def _encode_column(writer: _Writer, rows: pa.Table) -> pa.Array:
    try:
        return pa.array(writer(rows), pa.binary())
    except Misfit as misfit:
        raise DataError(
            "a row cannot be written by the schema of its topic",
            why=str(misfit.unwritable()),
            do="let a bolt before the sink make what the schema allows, or change the schema",
        ) from None


@lru_cache(maxsize=64)
def _writer(records: TopicRecords, columns: pa.Schema, part: str, process: int) -> _Writer:
    if part == "value" and records.schema_file is not None:
        return _writer_of_file(records, columns)
    form = _form(records, columns, part)
    schema_text = _schema_from_columns(records, columns, part)
    if records.registry is None or form == "json":
        return _writer_of(form, schema_text, (), columns, b"", None)
    kind = REGISTRY_KINDS[form]
    subject = _subject(records, part)
    with errors_of_registry(records.registry):
        if records.schemas == "register":
            return _writer_of(
                form, schema_text, (), columns, _frame(_register(records, subject, schema_text, kind)), None
            )
        return _writer_of_latest(records.registry, subject, form, kind, columns)


def _form(records: TopicRecords, columns: pa.Schema, part: str) -> KeyForm:
    """Returns the form of values or keys."""
    return records.format if part == "value" else records.key_form(columns)


def _schema_from_columns(records: TopicRecords, columns: pa.Schema, part: str) -> str:
    """Returns a schema made from columns: as text, for Protobuf as the serialized file in base64."""
    form = _form(records, columns, part)
    name = _type_name(records, part)
    if form == "avro":
        return avro_schema(columns, name)
    if form == "protobuf":
        return base64.b64encode(protobuf_file(columns, name)).decode()
    return json_schema(columns, name) if form == "json_schema" else ""


def _type_name(records: TopicRecords, part: str) -> str:
    if records.message is None:
        return name_for(records.topic, part)
    return records.message if part == "value" else f"{records.message}Key"


def _subject(records: TopicRecords, part: str) -> str:
    match records.subject:
        case "topic":
            return f"{records.topic}-{part}"
        case "record":
            return _type_name(records, part)
        case "topic_record":
            return f"{records.topic}-{_type_name(records, part)}"


def _frame(number: int) -> bytes:
    return bytes([MAGIC]) + number.to_bytes(4)


def _register(records: TopicRecords, subject: str, text: str, kind: str) -> int:
    from confluent_kafka.schema_registry import Schema
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    assert records.registry is not None
    try:
        return client_of(records.registry).register_schema(subject, Schema(text, kind))
    except SchemaRegistryError as error:
        if error.http_status_code not in (409, 422):
            raise
        raise _refusal(records, subject, error.error_message) from None


def _refusal(records: TopicRecords, subject: str, why: str) -> ConfigError:
    return ConfigError(
        f"the registry refuses the schema of topic {records.topic!r} for the subject {subject!r}",
        why=why,
        do="let the sink's columns be a compatible change of the schema that is there, or use schemas='latest'",
    )


def _writer_of_latest(registry: Registry, subject: str, form: str, kind: str, columns: pa.Schema) -> _Writer:
    client = client_of(registry)
    serialized = "serialized" if form == "protobuf" else None
    try:
        with errors_of_registry(registry):
            found = client.get_version(subject, "latest", fmt=serialized)
    except Unreadable as error:
        raise ConfigError(
            f"the registry has no schema for the subject {subject!r}",
            why=str(error),
            do="register one, or let the sink do it: schemas='register'",
        ) from None
    latest_kind = found.schema.schema_type or "AVRO"
    if latest_kind != kind:
        raise ConfigError(f"the latest schema of the subject {subject!r} is {latest_kind}, and not {kind}")
    references = references_of(client, found.schema, serialized)
    return _writer_of(
        form, str(found.schema.schema_str), references, columns, _frame(cast("int", found.schema_id)), subject
    )


def _writer_of_file(records: TopicRecords, columns: pa.Schema) -> _Writer:
    file = records.schema_file
    assert file is not None
    if records.format == "avro":
        return _writer_of("avro", file.content.decode(), (), columns, b"", file.path)
    reader = ProtobufReader(files_in_descriptor(file.path, file.content), records.message)
    return _protobuf_writer(reader, (), columns, b"", file.path)


def _writer_of(
    form: str,
    text: str,
    references: Sequence[tuple[str, str]],
    columns: pa.Schema,
    frame: bytes,
    schema_origin: str | None,
) -> _Writer:
    """Returns a writer for a schema. ``schema_origin``: the subject or file of the schema; None if it was made from the
    columns."""
    if form in ("json", "json_schema"):
        return partial(_json_values, frame)
    if form == "avro":
        return _avro_writer(text, [each for _, each in references], columns, frame, schema_origin)
    file = serialized_file(text, "windbolt-written.proto")
    reader = ProtobufReader([*files_of_references(references), file])
    return _protobuf_writer(reader, (0,), columns, frame + indexes_in_bytes((0,)) if frame else b"", schema_origin)


def _json_values(frame: bytes, rows: pa.Table) -> list[bytes]:
    return [frame + line for line in json_lines(rows)]


# Avro.


def _avro_writer(
    text: str, references: Sequence[str], columns: pa.Schema, frame: bytes, schema_origin: str | None
) -> _Writer:
    parsed_schema = parse_avro_with(text, references)
    if schema_origin is not None:
        names = (
            {str(each["name"]) for each in parsed_schema.schema["fields"]}
            if _is_record(parsed_schema.schema)
            else set()
        )
        _refuse_fields(columns, names, schema_origin)
    fit, schema = fit_of(parsed_schema), parsed_schema.schema
    plain = [(each.name, plain_maker(each.type)) for each in columns]

    def write(rows: pa.Table) -> list[bytes]:
        values: list[bytes] = []
        for row in rows.to_pylist():
            for name, make in plain:
                if make is not None and row[name] is not None:
                    row[name] = make(row[name])
            stream = io.BytesIO()
            stream.write(frame)
            schemaless_writer(stream, schema, fit(row, MAX_DEPTH))
            values.append(stream.getvalue())
        return values

    return write


def _is_record(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "record"


def _refuse_fields(columns: pa.Schema, fields: set[str], schema_origin: str) -> None:
    unknown = [name for name in columns.names if name not in fields]
    if unknown:
        raise ConfigError(
            f"the schema of {schema_origin!r} has no field {', '.join(map(repr, unknown))}",
            why=f"its fields are {', '.join(sorted(fields))}",
            do="let a bolt before the sink leave the columns out, or rename them",
        )


def plain_maker(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Returns the function that prepares Arrow's Python values for a record: maps with text keys become dicts, other
    maps lists of records. None if values need no change. The function is never called with None."""
    if _kinds.is_list(kind):
        inner = plain_maker(kind.value_type)
        return None if inner is None else lambda values: [None if one is None else inner(one) for one in values]
    if _kinds.is_struct(kind):
        parts = {each.name: make for each in kind if (make := plain_maker(each.type)) is not None}
        return partial(_plain_struct, parts) if parts else None
    if _kinds.is_map(kind):
        return partial(_plain_map, is_text(kind.key_type), plain_maker(kind.key_type), plain_maker(kind.item_type))
    return None


def _plain_struct(parts: Mapping[str, Callable[[Any], Any]], value: dict[str, Any]) -> dict[str, Any]:
    converted = {name: parts[name](value[name]) for name in parts if value[name] is not None}
    return {**value, **converted}


def _plain_map(
    named: bool, key: Callable[[Any], Any] | None, item: Callable[[Any], Any] | None, pairs: list[tuple[Any, Any]]
) -> Any:
    converted = [
        (name if key is None else key(name), one if one is None or item is None else item(one)) for name, one in pairs
    ]
    if not named:
        return [{"key": name, "value": one} for name, one in converted]
    entries = dict(converted)
    if len(entries) < len(converted):
        raise Misfit("a map that has a key twice")
    return entries


# Protobuf.


def _protobuf_writer(
    reader: ProtobufReader, variant: tuple[int, ...], columns: pa.Schema, frame: bytes, schema_origin: str | None
) -> _Writer:
    message_class = reader.class_of(variant)
    if schema_origin is not None:
        _refuse_fields(columns, {each.name for each in message_class.DESCRIPTOR.fields}, schema_origin)

    def write(rows: pa.Table) -> list[bytes]:
        values: list[bytes] = []
        for row in rows.to_pylist():
            message = message_class()
            _fill(message, row)
            values.append(frame + message.SerializeToString(deterministic=True))
        return values

    return write


def _fill(message: Any, row: Mapping[str, Any]) -> None:
    """Sets the fields of a message, except those that are None."""
    fields = message.DESCRIPTOR.fields_by_name
    for name, value in row.items():
        if value is None:
            continue
        try:
            _set(message, fields[name], value)
        except Misfit as misfit:
            raise misfit.inside(name) from None
        except KeyError:
            raise Misfit("the message has no such field").inside(name) from None
        except (TypeError, ValueError, UnicodeError) as error:
            raise Misfit(f"{value_and_type(value)} does not fit: {error}").inside(name) from None


def _set(message: Any, field: Any, value: Any) -> None:
    target = getattr(message, field.name)
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        _set_map(target, kind.fields_by_name["value"], value)
    elif field.is_repeated:
        for one in value:
            if one is None:
                raise Misfit("null in a list, which Protobuf does not have")
            if kind is None:
                target.append(_scalar(field, one))
            else:
                _set_message(target.add(), one)
    elif kind is not None:
        target.SetInParent()
        _set_message(target, value)
    else:
        setattr(message, field.name, _scalar(field, value))


def _set_map(target: Any, item: Any, pairs: Sequence[tuple[Any, Any]]) -> None:
    for key, value in pairs:
        if value is None:
            raise Misfit("null in a map, which Protobuf does not have")
        if key in target:
            raise Misfit("a map that has a key twice")
        if item.message_type is None:
            target[key] = _scalar(item, value)
        else:
            target[key].SetInParent()
            _set_message(target[key], value)


def _set_message(message: Any, value: Any) -> None:
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        message.FromDatetime(value)
    elif name.startswith("google.protobuf.") and name.endswith("Value") and not isinstance(value, dict):
        message.value = value
    else:
        _fill(message, value)


def _scalar(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        symbol = field.enum_type.values_by_name.get(value)
        if symbol is None:
            raise Misfit(f"{value_and_type(value)} is no value of {field.enum_type.full_name}")
        return symbol.number
    if field.type == field.TYPE_STRING and not isinstance(value, str | bytes):
        return str(value)  # dates, and decimals with all their digits
    return value


# Keys.


def _keys(records: TopicRecords, rows: pa.Table) -> pa.Array:
    """Returns the keys of rows; null if all key columns are null."""
    form = records.key_form(rows.schema)
    if form in ("text", "binary"):
        return pa.array(_one_array(rows.column(0)).cast(pa.binary()))
    if form in ("int", "long"):
        numbers = _one_array(rows.column(0))
        size = 4 if form == "int" else 8
        data = numbers.fill_null(0).to_numpy(zero_copy_only=False).astype(f">i{size}").tobytes()
        edges = pa.array(np.arange(len(numbers) + 1, dtype=np.int32) * size)
        keys = pa.Array.from_buffers(pa.binary(), len(numbers), [None, edges.buffers()[1], pa.py_buffer(data)])
        return pc.if_else(numbers.is_valid(), keys, pa.scalar(None, pa.binary()))
    values = _encode_column(_writer(records, rows.schema, "key", os.getpid()), rows)
    is_given = np.logical_or.reduce([column.is_valid().to_numpy(zero_copy_only=False) for column in rows.columns])
    return pc.if_else(pa.array(is_given), values, pa.scalar(None, pa.binary()))


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUALIFIED_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


def checked_type_name(given: str) -> str:
    """Returns a user's name for the type of records or messages. Raises ConfigError."""
    if not isinstance(given, str) or not _QUALIFIED_NAME.fullmatch(given):
        raise ConfigError(f"message={given!r:.60} is no name of a type", do="write it like 'shop.Order'")
    return given


def name_for(topic: str, part: str) -> str:
    """Returns the default type name of a topic's values or keys: ``shop_daily_totals`` for ``shop.daily-totals``."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", topic)
    return f"{'_' if name[:1].isdigit() else ''}{name}{'' if part == 'value' else '_key'}"


def _checked_field_name(name: str, what: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"column {name!r} cannot be a field of {what}",
            why="a name there has letters without accents, digits and _",
            do="rename the column in a bolt, or write JSON",
        )
    return name


def _impossible_field(kind: pa.DataType, name: str, what: str, why: str) -> ConfigError:
    return ConfigError(
        f"column {name!r}, {type_name(kind)}, cannot be a field of {what}",
        why=why,
        do="write Avro or JSON, or another type",
    )


# Avro.


_AVRO = (
    (_kinds.is_boolean, "boolean"),
    (lambda kind: _kinds.is_signed_integer(kind) and kind.bit_width < 64, "int"),
    (_kinds.is_int64, "long"),
    (_kinds.is_float32, "float"),
    (_kinds.is_float64, "double"),
    (_kinds.is_binary, "bytes"),
    (_kinds.is_date, {"type": "int", "logicalType": "date"}),
)


def avro_schema(columns: pa.Schema, name: str) -> str:
    """Returns the schema of records with these columns."""
    namespace, _, short = name.rpartition(".")
    schema = {"type": "record", "name": short, **({"namespace": namespace} if namespace else {})}
    return json.dumps({**schema, "fields": [_avro_field(each, short) for each in columns]})


def _avro_field(column: pa.Field, within: str) -> dict[str, Any]:
    name = _checked_field_name(column.name, "Avro")
    return {"name": name, "type": ["null", _avro_type(column.type, f"{within}_{name}")], "default": None}


def _avro_type(kind: pa.DataType, name: str) -> Any:  # noqa: PLR0911 - one for each kind of type
    if is_text(kind):
        return "string"
    if _kinds.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros"}
    if _kinds.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if _kinds.is_list(kind):
        return {"type": "array", "items": ["null", _avro_type(kind.value_type, name)]}
    if _kinds.is_struct(kind):
        return {"type": "record", "name": name, "fields": [_avro_field(each, name) for each in kind]}
    if _kinds.is_map(kind) and is_text(kind.key_type):
        return {"type": "map", "values": ["null", _avro_type(kind.item_type, name)]}
    if _kinds.is_map(kind):
        pair = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        return {"type": "array", "items": _avro_type(pair, name)}
    found = next((avro for is_kind, avro in _AVRO if is_kind(kind)), None)
    if found is None:
        raise _impossible_field(kind, name, "Avro", "Avro has no such type")
    return found


# JSON Schema.


_NO_NUMBER = {"enum": ["NaN", "Infinity", "-Infinity"]}


def json_schema(columns: pa.Schema, name: str) -> str:
    """Returns the schema of objects with these columns, as the sink writes them."""
    properties = {each.name: _json_type(each.type) for each in columns}
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "title": name}
    return json.dumps({**head, "type": "object", "properties": properties})


def _json_type(kind: pa.DataType) -> dict[str, Any]:  # noqa: PLR0911 - one for each kind of type
    if _kinds.is_boolean(kind):
        return {"type": ["boolean", "null"]}
    if _kinds.is_integer(kind):
        return {"type": ["integer", "null"]}
    if _kinds.is_floating(kind):
        return {"anyOf": [{"type": ["number", "null"]}, _NO_NUMBER]}
    if _kinds.is_date(kind):
        return {"type": ["string", "null"], "format": "date"}
    if _kinds.is_timestamp(kind):
        return {"type": ["string", "null"], "format": "date-time"}
    if _kinds.is_binary(kind):
        return {"type": ["string", "null"], "contentEncoding": "base64"}
    if _kinds.is_list(kind):
        return {"type": ["array", "null"], "items": _json_type(kind.value_type)}
    if _kinds.is_struct(kind):
        return {"type": ["object", "null"], "properties": {each.name: _json_type(each.type) for each in kind}}
    if _kinds.is_map(kind):
        pair = {"type": "array", "items": [_json_type(kind.key_type), _json_type(kind.item_type)]}
        return {
            "anyOf": [
                {"type": ["object", "null"], "additionalProperties": _json_type(kind.item_type)},
                {"type": "array", "items": pair},
            ]
        }
    return {"type": ["string", "null"]}


# Protobuf. Dates and decimals become text, since Protobuf has no type for them.


_PROTO = (
    (_kinds.is_boolean, "BOOL"),
    (lambda kind: _kinds.is_signed_integer(kind) and kind.bit_width < 64, "INT32"),
    (_kinds.is_int64, "INT64"),
    (_kinds.is_float32, "FLOAT"),
    (_kinds.is_float64, "DOUBLE"),
    (_kinds.is_binary, "BYTES"),
    (is_text, "STRING"),
    (_kinds.is_date, "STRING"),
    (_kinds.is_decimal, "STRING"),
)
_TIMESTAMP = "google/protobuf/timestamp.proto"


def protobuf_file(columns: pa.Schema, name: str) -> bytes:
    """Returns the serialized file with a message that has these columns."""
    from google.protobuf import descriptor_pb2

    package, _, short = name.rpartition(".")
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package=package or None, syntax="proto3")
    message = file.message_type.add(name=short)
    _add_fields(message, columns, f".{name}")
    if _holds_times(columns):
        file.dependency.append(_TIMESTAMP)
    return bytes(file.SerializeToString())


def _holds_times(fields: Any) -> bool:
    return any(
        _kinds.is_timestamp(each.type)
        or (_kinds.is_nested(each.type) and _holds_times([each.type.field(at) for at in range(each.type.num_fields)]))
        for each in fields
    )


def _add_fields(message: Any, fields: Any, path: str) -> None:
    """Adds fields, numbered by position, so that a column added at the end is a compatible change."""
    for number, each in enumerate(fields, 1):
        name, kind = _checked_field_name(each.name, "Protobuf"), each.type
        if _kinds.is_map(kind):
            _add_map(message, name, kind, number, path)
        elif _kinds.is_list(kind):
            if _kinds.is_list(kind.value_type) or _kinds.is_map(kind.value_type):
                raise _impossible_field(kind, name, "Protobuf", "a list of lists or maps is nothing that it has")
            _add_field(message, name, kind.value_type, number, path).label = 3
        else:
            field = _add_field(message, name, kind, number, path)
            field.label = 1
            if not _kinds.is_struct(kind) and not _kinds.is_timestamp(kind):
                field.proto3_optional = True
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{name}")


def _add_field(message: Any, name: str, kind: pa.DataType, number: int, path: str) -> Any:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    field = message.field.add(name=name, number=number, json_name=name)
    if _kinds.is_timestamp(kind):
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, ".google.protobuf.Timestamp"
    elif _kinds.is_struct(kind):
        inner = f"{name[:1].upper()}{name[1:]}_"
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f"{path}.{inner}"
        _add_fields(message.nested_type.add(name=inner), kind, f"{path}.{inner}")
    else:
        found = next((proto for is_kind, proto in _PROTO if is_kind(kind)), None)
        if found is None:
            raise _impossible_field(kind, name, "Protobuf", "Protobuf has no such type")
        field.type = getattr(FieldDescriptorProto, f"TYPE_{found}")
    return field


def _add_map(message: Any, name: str, kind: pa.DataType, number: int, path: str) -> None:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    key = kind.key_type
    if not (is_text(key) or _kinds.is_signed_integer(key) or _kinds.is_boolean(key)):
        raise _impossible_field(kind, name, "Protobuf", "the keys of its maps are texts, whole numbers or booleans")
    if _kinds.is_list(kind.item_type) or _kinds.is_map(kind.item_type):
        raise _impossible_field(kind, name, "Protobuf", "the values of its maps are no lists and no maps")
    entry = "".join(f"{part[:1].upper()}{part[1:]}" for part in name.split("_")) + "Entry"
    entry_type = message.nested_type.add(name=entry)
    entry_type.options.map_entry = True
    _add_field(entry_type, "key", key, 1, f"{path}.{entry}").label = 1
    _add_field(entry_type, "value", kind.item_type, 2, f"{path}.{entry}").label = 1
    field = message.field.add(name=name, number=number, json_name=name, label=3)
    field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f"{path}.{entry}"
