"""Decodes the records of a topic to rows of the declared columns, with a reason for each unreadable record.

It needs only the columns of the records, neither Spark nor a Kafka client. If a registry does not respond, it raises
UnreachableError, because that is not the fault of a record.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, cast

import msgspec
import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from topologies.io.file_spout import in_utc, in_zone
from topologies.io.formats.conform import as_bytes, conform_rows
from topologies.io.formats.event_files import BAD_SCHEMA, BadRow, BadRows, Chunk, rows_in_order, shown_bytes
from topologies.io.formats.json import parse_values
from topologies.io.messages.message import Misfit, Unreadable, value_and_type
from topologies.io.topics.avro_shapes import (
    NAMED_TIMES,
    VARIABLE_DECIMAL,
    AvroReader,
    any_decimal,
    decimal_leaf,
    from_unscaled,
)
from topologies.io.topics.declared import (
    CHANGED,
    FRAME,
    HEADERS,
    KEY,
    MAGIC,
    METADATA,
    OPERATION,
    PLAIN_KEY_TYPES,
    REGISTRY_KINDS,
    Envelope,
    Registry,
    SchemaFile,
    TopicFormat,
    TopicRows,
    client_of,
    errors_of_registry,
    files_of_registered,
    schema_of,
)
from topologies.io.topics.protobuf_shapes import ProtobufReader, files_in_descriptor
from topologies.io.topics.shapes import NULL, Leaf, ListShape, MapShape, Rows, Shape, StructShape
from windowing.errors import ConfigError

TOMBSTONE = "the value is null (a tombstone)"
_Positions = npt.NDArray[np.int64]


def decode(topic: TopicRows, records: pa.Table) -> Chunk:
    """Returns the good rows with ``topic.columns``, their offsets, and the bad rows, numbered by their offsets.

    ``records``: the columns offset and value, and the columns for keys and metadata. Records in neither result are
    tombstones, which are skipped. Raises UnreachableError if the registry does not respond.
    """
    offsets = records.column("offset").to_numpy()
    values = _one_array(records.column("value"))
    columns_in_zone = in_zone(topic.declared, topic.timezone)
    if topic.format == "json" and topic.envelope is None and not (topic.tombstones != "invalid" and values.null_count):
        rows, positions, bad = parse_values(values, columns_in_zone, topic.on_truncation, topic.times)
    else:
        rows, positions, bad = _decode_values(topic, values, columns_in_zone)
    rows = in_utc(rows, pa.schema([*topic.declared, *topic.changes]))
    unreadable, truncated = _numbered_by_offset(bad.rows, offsets), offsets[bad.truncated]
    for decode_part, schema in ((_decode_keys, topic.key_columns), (_decode_metadata, topic.metadata)):
        if not len(schema):
            continue
        remaining = records if len(positions) == records.num_rows else records.take(pa.array(positions))
        part_columns, kept, bad = decode_part(topic, remaining)
        if len(bad.truncated):
            truncated = np.union1d(truncated, offsets[positions[bad.truncated]])
        if len(kept) < len(positions):
            unreadable = pa.concat_tables([unreadable, _numbered_by_offset(bad.rows, offsets[positions])]).sort_by(
                "row"
            )
            rows, positions = rows.take(pa.array(kept)), positions[kept]
        rows = pa.table([*rows.columns, *part_columns.columns], names=[*rows.column_names, *part_columns.column_names])
    return rows.select(topic.columns.names), offsets[positions], BadRows(unreadable, truncated)


def _numbered_by_offset(bad: pa.Table, offsets: _Positions) -> pa.Table:
    """Returns bad rows, numbered by the offsets of their records."""
    if not len(bad):
        return bad
    return bad.set_column(0, BAD_SCHEMA.field("row"), pa.array(offsets[bad.column("row").to_numpy()], pa.int64()))


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()  # of none, too


# The columns of the values, by the positions of the records.


def _decode_values(topic: TopicRows, values: pa.Array, columns_in_zone: pa.Schema) -> Chunk:
    decoded = _DecodedRows(topic, pa.schema([*columns_in_zone, *topic.changes]))
    values_as_bytes = as_bytes(values).to_pylist()
    if topic.format in ("json", "json_schema"):
        _read_json(decoded, values_as_bytes, columns_in_zone, framed=topic.format == "json_schema")
    else:
        _read_typed(decoded, values_as_bytes, _Readers(topic.format, topic.registry, topic.schema_file, topic.message))
    return decoded.chunk()


@dataclass
class _DecodedRows:
    """The rows decoded so far from some records, and the unreadable records."""

    topic: TopicRows
    schema: pa.Schema
    """The columns of the values, with times in the declared zone."""
    parts: list[tuple[_Positions, pa.Table]] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    unreadable: list[pa.Table] = field(default_factory=list)
    truncated: list[_Positions] = field(default_factory=list)

    def tombstone(self, position: int) -> None:
        """Adds a record without a value."""
        match self.topic.tombstones:
            case "invalid":
                self.bad.append(BadRow(position, TOMBSTONE, ""))
            case "rows":
                rows = pa.Table.from_arrays([pa.nulls(1, each.type) for each in self.schema], schema=self.schema)
                self.parts.append((np.array([position], np.int64), rows))
            case "skip":
                pass

    def add(self, chunk: Chunk) -> None:
        table, positions, bad = chunk
        self.parts.append((positions, table))
        self.unreadable.append(bad.rows)
        self.truncated.append(bad.truncated)

    def refuse(self, position: int, reason: str, value: bytes, *, text: bool = False) -> None:
        """Adds a record that cannot be read; bytes that are not text are shown in base64."""
        self.bad.append(BadRow(position, reason, shown_bytes(value) if text else base64.b64encode(value).decode()))

    def chunk(self) -> Chunk:
        """Returns all rows so far, in the order of the records."""
        bad = pa.concat_tables([BadRows.of(self.bad).rows, *self.unreadable]).sort_by("row")
        positions, table = rows_in_order(self.parts, self.schema)
        truncated = np.concatenate([*self.truncated, np.empty(0, np.int64)])
        return table, positions, BadRows(bad).with_truncated(truncated)


# Values with a schema: Avro, Protobuf, and JSON with a schema of Kafka Connect.


class _Reader(Protocol):
    """Reads the values of one schema."""

    def read(self, value: bytes, start: int) -> tuple[Any, Any]:
        """Returns the variant and the value in the bytes from ``start`` on. Raises Unreadable."""

    def shape(self, variant: Any) -> Shape:
        """Returns the shape of the values of a variant."""

    def name(self, variant: Any) -> str:
        """Returns the name of a variant's type, for messages."""

    def variants(self) -> Sequence[Any]:
        """Returns the variants that values may have."""


@lru_cache(maxsize=256)
def _reader_from_registry(format: str, registry: Registry, number: int) -> _Reader:
    """Returns the reader for a schema's id. Raises Unreadable, UnreachableError, ConfigError."""
    schema = schema_of(registry, number, serialized=format == "protobuf")
    if schema.kind != REGISTRY_KINDS[format]:
        raise Unreadable(f"its schema is {schema.kind}, and the topic is read as {REGISTRY_KINDS[format]}")
    if format == "protobuf":
        return ProtobufReader(files_of_registered(schema, number))
    try:
        return AvroReader(schema.text, [text for _, text in schema.references])
    except ConfigError as error:
        raise Unreadable(error.what) from None


@lru_cache(maxsize=64)
def _reader_from_file(format: str, file: SchemaFile, message: str | None) -> _Reader:
    if format == "protobuf":
        return ProtobufReader(files_in_descriptor(file.path, file.content), message)
    return AvroReader(file.content.decode())


@dataclass
class _Readers:
    """The readers of some records. Each unknown schema is requested only once."""

    format: str
    registry: Registry | None
    file: SchemaFile | None
    message: str | None
    _readers_or_reasons: dict[int, _Reader | str] = field(default_factory=dict)

    def reader_for(self, value: bytes) -> tuple[int | None, _Reader, int]:
        """Returns the id of a value's schema, its reader, and where the value begins. Raises Unreadable."""
        if self.registry is None:
            assert self.file is not None
            return None, _reader_from_file(self.format, self.file, self.message), 0
        number = schema_id(value)
        if number not in self._readers_or_reasons:
            try:
                self._readers_or_reasons[number] = _reader_from_registry(self.format, self.registry, number)
            except Unreadable as error:
                self._readers_or_reasons[number] = f"schema id {number}: {error}"
        reader = self._readers_or_reasons[number]
        if isinstance(reader, str):
            raise Unreadable(reader)
        return number, reader, FRAME


def schema_id(value: bytes) -> int:
    """Returns the id in the frame of a value. Raises Unreadable if there is no frame."""
    if len(value) < FRAME:
        raise Unreadable(f"it has {len(value)} bytes, fewer than the {FRAME} in which a schema's id is")
    if value[0] != MAGIC:
        raise Unreadable(f"it begins with the byte {value[0]}, and not with 0 and the id of a schema")
    return int.from_bytes(value[1:FRAME])


def _read_typed(decoded: _DecodedRows, values: Sequence[bytes | None], readers: _Readers) -> None:
    groups: dict[Hashable, tuple[str, Rows]] = {}
    for position, value in enumerate(values):
        if value is None:
            decoded.tombstone(position)
            continue
        number: int | None = None
        try:
            number, reader, start = readers.reader_for(value)
            variant, decoded_value = reader.read(value, start)
            key = (number, variant)
            if key not in groups:
                groups[key] = _label(number, reader.name(variant)), Rows(reader.shape(variant))
            _, rows = groups[key]
            rows.positions.append(position)
            rows.values.append(decoded_value)
        except Unreadable as error:
            decoded.refuse(position, f"schema id {number}: {error}" if number is not None else str(error), value)
    for label, rows in groups.values():
        _add_rows(decoded, label, rows, lambda position: _base64(values[position]))


def _label(number: int | None, name: str) -> str:
    return name if number is None else f"schema id {number} ({name})"


def _base64(value: bytes | None) -> str:
    return base64.b64encode(value or b"").decode()


def _add_rows(decoded: _DecodedRows, label: str, rows: Rows, show: Callable[[int], str]) -> None:
    """Adds values of one shape; their rows may be in the envelope of a change."""
    try:
        changes = _changes(decoded, label, rows, show) if decoded.topic.envelope == "debezium" else {}
        if changes:
            rows = changes.pop("")
        chunk = _declared_rows(decoded, label, rows, changes, show)
    except Misfit as misfit:
        reason = f"{label}: {_reason_of(misfit)}"
        decoded.bad += [BadRow(position, reason, show(position)) for position in rows.positions]
        return
    if chunk is not None:
        decoded.add(chunk)


def _changes(decoded: _DecodedRows, label: str, rows: Rows, show: Callable[[int], str]) -> dict[str, Any]:
    """Returns the rows of changes, under "", and the columns about the changes. Raises Misfit for a schema without
    changes."""
    shape = row_shape(rows.shape)
    assert isinstance(rows.shape, StructShape)
    get = rows.shape.get
    changed_rows = Rows(shape)
    operations: list[Any] = []
    moments: list[Any] = []
    for position, value in zip(rows.positions, rows.values, strict=True):
        try:
            operation = get(value, _OP)
            row = row_of(operation, get(value, _BEFORE), get(value, _AFTER))
        except Misfit as misfit:
            decoded.bad.append(BadRow(position, f"{label}: {_reason_of(misfit)}", show(position)))
            continue
        changed_rows.positions.append(position)
        changed_rows.values.append(row)
        operations.append(operation)
        moments.append(get(value, _TS_MS))
    return {"": changed_rows, OPERATION: operations, CHANGED: moments}


def _declared_rows(
    decoded: _DecodedRows, label: str, rows: Rows, changes: Mapping[str, list[Any]], show: Callable[[int], str]
) -> Chunk | None:
    """Returns the rows with the declared columns; None if no rows remain. Raises Misfit if the schema cannot give such
    rows."""
    declared = pa.schema([each for each in decoded.schema if each.name not in decoded.topic.changes.names])
    arrays: list[pa.Array] = []
    reasons: dict[int, list[str]] = {}
    for name, (array, wrong) in zip(declared.names, _columns(decoded.topic, rows, declared), strict=True):
        arrays.append(array)
        for index, reason in wrong.items():
            reasons.setdefault(index, []).append(f"column {name!r}: {reason}")
    arrays += [_change_column(name, changes[name]) for name in decoded.topic.changes.names]
    positions = np.array(rows.positions, np.int64)
    raw = pa.Table.from_arrays(arrays, names=decoded.schema.names)
    if reasons:
        decoded.bad += [
            BadRow(rows.positions[index], f"{label}: {'; '.join(why)}", show(rows.positions[index]))
            for index, why in reasons.items()
        ]
        good = np.delete(np.arange(len(positions)), list(reasons))
        raw, positions = raw.take(pa.array(good)), positions[good]
    if not len(positions):
        return None
    table, kept, bad = conform_rows(
        raw, decoded.schema, positions, decoded.topic.on_truncation, times=decoded.topic.times
    )
    return table, kept, BadRows(_labelled(bad.rows, label), bad.truncated)


def _change_column(name: str, values: list[Any]) -> pa.Array:
    if name == OPERATION:
        return pa.array(values, pa.string())
    whole = [value if type(value) is int and -(2**63) <= value < 2**63 else None for value in values]
    return pa.array(whole, pa.timestamp("ms", "UTC"))


def _labelled(bad: pa.Table, label: str) -> pa.Table:
    """Returns bad rows with the schema's name in their reasons."""
    if not len(bad):
        return bad
    reasons = [f"{label}: {reason}" for reason in bad.column("reason").to_pylist()]
    return bad.set_column(1, BAD_SCHEMA.field("reason"), pa.array(reasons, pa.string()))


def _reason_of(misfit: Misfit) -> str:
    return str(misfit.unwritable()).removeprefix("the event: ")


# Objects of Kafka Connect with their schema, ``{"schema": ..., "payload": ...}``: the shape of the payload.


_WHOLE = {"int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64()}
_FLOATING = {"float": pa.float32(), "float32": pa.float32(), "double": pa.float64(), "float64": pa.float64()}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"


@lru_cache(maxsize=256)
def connect_shape(schema: bytes) -> Shape:
    """Returns the shape of the values of a schema, given as JSON. Raises Unreadable."""
    try:
        return _shape(orjson.loads(schema))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unreadable(f"its schema is none of Kafka Connect's: {error!r}") from None


def _shape(schema: Mapping[str, Any]) -> Shape:  # noqa: PLR0911 - one for each kind of type
    kind, name = schema["type"], schema.get("name")
    if kind in _WHOLE:
        return NAMED_TIMES.get(str(name)) or Leaf(_WHOLE[kind], _of_class(int, kind))
    match kind:
        case "float" | "float32" | "double" | "float64":
            return Leaf(_FLOATING[kind], _number)
        case "boolean":
            return Leaf(pa.bool_(), _of_class(bool, kind))
        case "string":
            return Leaf(pa.string(), _of_class(str, kind))
        case "bytes" if name == _DECIMAL:
            return _decimal(schema.get("parameters") or {})
        case "bytes":
            return Leaf(pa.binary(), _bytes)
        case "array":
            return ListShape(_shape(schema["items"]))
        case "map":
            return MapShape(_shape(schema["keys"]), _shape(schema["values"]))
        case "struct":
            fields = {str(each["field"]): _shape(each) for each in schema["fields"]}
            if name == VARIABLE_DECIMAL:
                return StructShape(
                    lambda: fields, _member, any_decimal(lambda one: from_unscaled(_bytes(one["value"]), one["scale"]))
                )
            return StructShape(lambda: fields, _member)
    raise ValueError(f"type {kind!r}")


def _decimal(parameters: Mapping[str, Any]) -> Leaf:
    scale = int(parameters["scale"])
    precision = int(parameters.get("connect.decimal.precision", 77))  # if it is missing, the leaf is text
    return decimal_leaf(precision, scale, lambda value: from_unscaled(_bytes(value), scale))


def _member(value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        raise Misfit(f"{value_and_type(value)} is not an object")
    return value.get(name)


def _of_class(kind: type, name: str) -> Any:
    def make(value: Any) -> Any:
        if type(value) is not kind:
            raise Misfit(f"{value_and_type(value)} is not {name}")
        return value

    return make


def _number(value: Any) -> float:
    if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if type(value) not in (int, float):
        raise Misfit(f"{value_and_type(value)} is not a number")
    return float(value)


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise Misfit(f"{value_and_type(value)} is not base64") from None


# Changes of Debezium: the row after the change, or the row before its deletion.


_BEFORE, _AFTER, _OP, _TS_MS = "before", "after", "op", "ts_ms"
_DELETED = "d"


def row_shape(change: Shape) -> Shape:
    """Returns the shape of the rows in changes. Raises Misfit for a schema that is not Debezium's."""
    fields = change.fields() if isinstance(change, StructShape) else {}
    row = fields.get(_AFTER, NULL)
    if _OP not in fields or not isinstance(row, StructShape):
        raise Misfit("the schema of the record has no op and after, which Debezium's changes have")
    return row


def row_of(operation: Any, before: Any, after: Any) -> Any:
    """Returns the row of a change. Raises Misfit for a change that concerns no row."""
    if type(operation) is not str:
        raise Misfit("it is no change of Debezium's: it has no op")
    row = before if operation == _DELETED else after
    if row is None:
        which = _BEFORE if operation == _DELETED else _AFTER
        raise Misfit(f"a change with the op {operation!r}, and without a row {which!r}")
    return row


# JSON with a frame, with an envelope, or both.


class _Outer(msgspec.Struct, gc=False):
    """Kafka Connect's envelope."""

    schema: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Change(msgspec.Struct, gc=False):
    """Debezium's envelope."""

    op: str | None = None
    before: msgspec.Raw = msgspec.Raw(b"null")
    after: msgspec.Raw = msgspec.Raw(b"null")
    ts_ms: int | None = None


_outer, _change = msgspec.json.Decoder(_Outer).decode, msgspec.json.Decoder(_Change).decode
_NULL = b"null"


def _read_json(
    decoded: _DecodedRows, values: Sequence[bytes | None], columns_in_zone: pa.Schema, *, framed: bool
) -> None:
    objects: list[tuple[int, bytes]] = []
    rows_by_schema: dict[bytes, Rows] = {}
    for position, value in enumerate(values):
        if value is None:
            decoded.tombstone(position)
            continue
        try:
            schema, payload = _without_envelope(decoded.topic.envelope, value, framed=framed)
            if payload == _NULL and decoded.topic.envelope is not None:
                decoded.tombstone(position)
            elif schema == _NULL:
                objects.append((position, payload))
            else:
                _add_typed(rows_by_schema, schema, position, payload)
        except Unreadable as error:
            decoded.refuse(position, str(error), value, text=True)
        except ValueError as error:
            decoded.refuse(position, f"not valid JSON: {error}", value, text=True)
    for rows in rows_by_schema.values():
        _add_rows(decoded, "its schema", rows, lambda position: shown_bytes(values[position] or b""))
    if decoded.topic.envelope == "debezium":
        _add_changes(decoded, objects, columns_in_zone)
    elif objects:
        decoded.add(_parse_objects(decoded, objects, columns_in_zone))


def _add_typed(rows_by_schema: dict[bytes, Rows], schema: bytes, position: int, payload: bytes) -> None:
    """Adds a payload to the payloads with the same schema. Raises Unreadable, ValueError."""
    if schema not in rows_by_schema:
        rows_by_schema[schema] = Rows(connect_shape(schema))
    decoded_payload = orjson.loads(payload)
    rows_by_schema[schema].positions.append(position)
    rows_by_schema[schema].values.append(decoded_payload)


def _without_envelope(envelope: Envelope | None, value: bytes, *, framed: bool) -> tuple[bytes, bytes]:
    """Returns the schema and the payload of a value, without its frame. Raises Unreadable."""
    if framed:
        schema_id(value)
    text = value[FRAME:] if framed else value
    if not text.strip():
        raise Unreadable("the value is blank")
    if envelope is None:
        return _NULL, text
    try:
        outer = _outer(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Unreadable(f"not an object in an envelope: {error}") from None
    if isinstance(outer.payload, msgspec.UnsetType):
        if envelope == "connect":
            raise Unreadable("the object has no payload, which Kafka Connect's envelope has")
        return _NULL, text
    schema = _NULL if isinstance(outer.schema, msgspec.UnsetType) else bytes(outer.schema)
    return schema, bytes(outer.payload)


def _parse_objects(decoded: _DecodedRows, objects: Sequence[tuple[int, bytes]], columns_in_zone: pa.Schema) -> Chunk:
    """Parses JSON objects by the rules for a line; rows are numbered by the positions of their records."""
    texts = pa.array([text for _, text in objects], pa.binary())
    table, kept, bad = parse_values(texts, columns_in_zone, decoded.topic.on_truncation, decoded.topic.times)
    positions = np.array([position for position, _ in objects], np.int64)
    return table, positions[kept], BadRows(_numbered_by_offset(bad.rows, positions), positions[bad.truncated])


def _add_changes(decoded: _DecodedRows, objects: Sequence[tuple[int, bytes]], columns_in_zone: pa.Schema) -> None:
    rows: list[tuple[int, bytes]] = []
    change_at: dict[int, _Change] = {}
    for position, text in objects:
        try:
            change = _change(text)
            before, after = (None if bytes(raw) == _NULL else bytes(raw) for raw in (change.before, change.after))
            rows.append((position, row_of(change.op, before, after)))
            change_at[position] = change
        except Misfit as misfit:
            decoded.refuse(position, _reason_of(misfit), text, text=True)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            decoded.refuse(position, f"not a change of Debezium's: {error}", text, text=True)
    if not rows:
        return
    table, positions, bad = _parse_objects(decoded, rows, columns_in_zone)
    for name in decoded.topic.changes.names:
        changes = [change_at[position] for position in positions.tolist()]
        column = _change_column(name, [each.op if name == OPERATION else each.ts_ms for each in changes])
        table = table.append_column(name, column.cast(decoded.schema.field(name).type))
    decoded.add((table, positions, bad))


# The columns of the keys, and the metadata.


def _decode_keys(topic: TopicRows, records: pa.Table) -> Chunk:
    """Returns the columns of the keys; a record without a key has nulls in them."""
    keys = _one_array(records.column("key"))
    schema = topic.key_columns
    if topic.key in PLAIN_KEY_TYPES:
        array, bad = plain_keys(topic.key, keys)
        positions = np.delete(np.arange(len(keys)), list(bad))
        raw = pa.table({schema.names[0]: array}).take(pa.array(positions))
        table, kept, more = conform_rows(raw, schema, positions, topic.on_truncation)
        return table, kept, more.with_others([BadRow(position, reason, "") for position, reason in bad.items()])
    table, kept, bad_rows = _decode_values(_keys_as_topic(topic), keys, in_zone(schema, topic.timezone))
    return in_utc(table, schema), kept, BadRows(_labelled(bad_rows.rows, "the key"), bad_rows.truncated)


def _keys_as_topic(topic: TopicRows) -> TopicRows:
    """Returns the keys of a topic, if they have fields, as if they were its values."""
    form = cast("TopicFormat", topic.key)
    return TopicRows(topic.key_columns, form, topic.registry, tombstones="rows", timezone=topic.timezone)


def plain_keys(form: str, keys: pa.Array) -> tuple[pa.Array, Mapping[int, str]]:
    """Returns keys without parts as a column, and reasons for invalid keys, by position."""
    if form not in ("int", "long"):
        return keys, {}
    size, kind = (4, ">i4") if form == "int" else (8, ">i8")
    keys_as_bytes = as_bytes(keys).to_pylist()
    bad = {
        position: f"the key has {len(key)} bytes, and an {form} has {size}"
        if form == "int"
        else f"the key has {len(key)} bytes, and a {form} has {size}"
        for position, key in enumerate(keys_as_bytes)
        if key is not None and len(key) != size
    }
    absent = np.array([key is None or position in bad for position, key in enumerate(keys_as_bytes)], np.bool_)
    data = b"".join(
        bytes(size) if is_absent else key for key, is_absent in zip(keys_as_bytes, absent.tolist(), strict=True)
    )
    return pa.array(np.frombuffer(data, kind).astype(kind[1:]), PLAIN_KEY_TYPES[form], mask=absent), bad


def _decode_metadata(topic: TopicRows, records: pa.Table) -> Chunk:
    """Returns the metadata columns of rows; a row whose key is not in the declared form is bad."""
    named: dict[str, Any] = {}
    bad: Mapping[int, str] = {}
    for name in topic.metadata.names:
        column: Any = records.column(METADATA[name])
        if name == HEADERS:
            column = _as_map(_one_array(column), topic.metadata.field(name).type)
        elif name == KEY and topic.key in PLAIN_KEY_TYPES:
            column, bad = plain_keys(topic.key, _one_array(column))
        named[name] = column
    columns, positions = pa.table({**named, "value": records["value"]}), np.arange(records.num_rows)
    if bad:
        positions = np.delete(positions, list(bad))
        columns = columns.take(pa.array(positions))
    table, kept, more = conform_rows(columns, topic.metadata, positions, topic.on_truncation)
    return table, kept, more.with_others([BadRow(position, reason, "") for position, reason in bad.items()])


def _as_map(headers: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns headers as a map; a repeated name stays repeated."""
    lengths = headers.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    edges = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    pairs = headers.flatten()
    mask = headers.is_null() if headers.null_count else None
    return pa.MapArray.from_arrays(pa.array(edges), pairs.field(0), pairs.field(1), type=kind, mask=mask)


# Checks before the first batch.


class LatestSchema(NamedTuple):
    """A registry's answer about the latest schema of a topic's values or keys."""

    description: str
    """Description for users."""
    is_other: bool = False
    """True if the topic is declared with another kind of schema."""
    lacking: tuple[str, ...] = ()
    """The declared columns that are not fields of the record."""
    fields: tuple[str, ...] = ()
    """The fields of the record."""


def check_topic(topic: TopicRows, name: str | None) -> list[LatestSchema]:
    """Returns the latest schemas of a topic's values and keys; empty if there are none. ``name``: None if a pattern
    names the topics.

    Raises ConfigError if a schema does not fit the declared columns, UnreachableError if the registry does not respond.
    """
    registry = topic.registry
    assert registry is not None
    if name is None:
        with errors_of_registry(registry):
            client_of(registry).get_subjects()
        return [LatestSchema(f"{registry.shown} answers; the schema of each record is asked for by its id")]
    parts = {"value": topic} if topic.format in REGISTRY_KINDS else {}
    if topic.key in REGISTRY_KINDS:
        parts["key"] = _keys_as_topic(topic)
    return [_latest_schema(rows, registry, name, part) for part, rows in parts.items()]


def _latest_schema(topic: TopicRows, registry: Registry, name: str, part: str) -> LatestSchema:
    subject = f"{name}-{part}"
    try:
        with errors_of_registry(registry):
            registered = client_of(registry).get_version(subject, "latest")
    except Unreadable:  # subjects may follow another naming rule
        description = f"{registry.shown} has none for {subject!r} yet; that of each record is asked for by its id"
        return LatestSchema(description)
    number = registered.schema_id
    description = f"{subject}, version {registered.version}, id {number}"
    kind, expected = registered.schema.schema_type or "AVRO", REGISTRY_KINDS[topic.format]
    if kind != expected:  # a topic may have schemas of several kinds
        return LatestSchema(f"{description}, is {kind}, and the topic is read as {expected}", is_other=True)
    if kind == "JSON":
        return LatestSchema(description)
    try:
        reader = _reader_from_registry(topic.format, registry, number)
    except Unreadable as error:
        return LatestSchema(f"{description}: {error}", is_other=True)
    fields, misfit = dict[str, None](), ""
    for variant in reader.variants():
        try:
            fields.update(dict.fromkeys(_checked_fields(topic, reader.shape(variant))))
        except Misfit as error:
            misfit = misfit or _reason_of(error)
    if misfit and not fields:
        raise ConfigError(
            f"the columns do not fit the latest schema of topic {name!r}, id {number}: {misfit}",
            why=f"its {'keys' if part == 'key' else 'records'} would all be invalid",
            do="declare the columns as they are in the schema",
        )
    lacking = tuple(each for each in topic.declared.names if each not in fields)
    fits = f"it has no {', '.join(lacking)}" if lacking else "the columns fit"
    return LatestSchema(f"{description}: {fits}", False, lacking, tuple(fields))


def _checked_fields(topic: TopicRows, shape: Shape) -> Sequence[str]:
    """Returns the fields of a shape. Raises Misfit if its values are not rows."""
    if topic.envelope == "debezium":
        shape = row_shape(shape)
    _columns(topic, Rows(shape), in_zone(topic.declared, topic.timezone))
    return list(shape.fields()) if isinstance(shape, StructShape) else topic.declared.names


def _columns(topic: TopicRows, rows: Rows, columns_in_zone: pa.Schema) -> list[tuple[pa.Array, dict[int, str]]]:
    """Returns the declared columns of the values. Raises Misfit if the shape cannot give a column."""
    forms = dict(topic.times)
    single = not isinstance(rows.shape, StructShape)
    if single and len(columns_in_zone) > 1:
        raise Misfit(f"its values are no records, and {len(columns_in_zone)} columns are declared")
    arrays = []
    for each in columns_in_zone:
        try:
            arrays.append(rows.array_of(each, forms.get(each.name)))
        except Misfit as misfit:
            raise misfit.inside(each.name) from None
    if not single and all(pa.types.is_null(array.type) for array, _ in arrays):
        raise Misfit(f"it has none of the columns {', '.join(columns_in_zone.names)}")
    return arrays
