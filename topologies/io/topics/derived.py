"""Schemas made from declared columns: Avro's, Protobuf's, and JSON Schema. Every field may be null."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa

from topologies.io.formats.conform import is_text
from topologies.io.formats.event_files import type_name
from windowing.errors import ConfigError

_kinds = pa.types
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WHOLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


def checked_type_name(given: str) -> str:
    """The name of a record's or a message's type. Raises ConfigError."""
    if not isinstance(given, str) or not _WHOLE.fullmatch(given):
        raise ConfigError(f"message={given!r:.60} is no name of a type", do="write it like 'shop.Order'")
    return given


def name_for(topic: str, part: str) -> str:
    """The name of the type of a topic's values or keys, where none is given: ``shop.daily-totals`` has
    ``shop_daily_totals``."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", topic)
    return f"{'_' if name[:1].isdigit() else ''}{name}{'' if part == 'value' else '_key'}"


def _named(name: str, what: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"column {name!r} cannot be a field of {what}",
            why="a name there has letters without accents, digits and _",
            do="rename the column in a bolt, or write JSON",
        )
    return name


def _no_field(kind: pa.DataType, name: str, what: str, why: str) -> ConfigError:
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
    """The schema of records with these columns."""
    namespace, _, short = name.rpartition(".")
    schema = {"type": "record", "name": short, **({"namespace": namespace} if namespace else {})}
    return json.dumps({**schema, "fields": [_avro_field(each, short) for each in columns]})


def _avro_field(column: pa.Field, within: str) -> dict[str, Any]:
    name = _named(column.name, "Avro")
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
        raise _no_field(kind, name, "Avro", "Avro has no such type")
    return found


# JSON Schema.


_NO_NUMBER = {"enum": ["NaN", "Infinity", "-Infinity"]}


def json_schema(columns: pa.Schema, name: str) -> str:
    """The schema of objects with these columns, as the sink writes them."""
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


# Protobuf. Dates and decimals are texts there, since Protobuf has no type for them.


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
    """The file with the message of these columns, serialized."""
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
    """Fields by their places, so that a column added at the end is a compatible change."""
    for number, each in enumerate(fields, 1):
        name, kind = _named(each.name, "Protobuf"), each.type
        if _kinds.is_map(kind):
            _add_map(message, name, kind, number, path)
        elif _kinds.is_list(kind):
            if _kinds.is_list(kind.value_type) or _kinds.is_map(kind.value_type):
                raise _no_field(kind, name, "Protobuf", "a list of lists or maps is nothing that it has")
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
            raise _no_field(kind, name, "Protobuf", "Protobuf has no such type")
        field.type = getattr(FieldDescriptorProto, f"TYPE_{found}")
    return field


def _add_map(message: Any, name: str, kind: pa.DataType, number: int, path: str) -> None:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    key = kind.key_type
    if not (is_text(key) or _kinds.is_signed_integer(key) or _kinds.is_boolean(key)):
        raise _no_field(kind, name, "Protobuf", "the keys of its maps are texts, whole numbers or booleans")
    if _kinds.is_list(kind.item_type) or _kinds.is_map(kind.item_type):
        raise _no_field(kind, name, "Protobuf", "the values of its maps are no lists and no maps")
    entry = "".join(f"{part[:1].upper()}{part[1:]}" for part in name.split("_")) + "Entry"
    made = message.nested_type.add(name=entry)
    made.options.map_entry = True
    _add_field(made, "key", key, 1, f"{path}.{entry}").label = 1
    _add_field(made, "value", kind.item_type, 2, f"{path}.{entry}").label = 1
    field = message.field.add(name=name, number=number, json_name=name, label=3)
    field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f"{path}.{entry}"
