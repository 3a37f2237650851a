"""Drawn values of all types that can be declared, and the same values as Confluent's own serializers write them."""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from hypothesis import strategies as st

from windowing.schema import parse_schema

COLUMNS = parse_schema(
    "flag boolean, tiny tinyint, small smallint, whole int, big long, single float, twice double, "
    "price decimal(38, 10), name string, raw binary, day date, at timestamp, numbers array<long>, "
    "counts map<string, long>, codes map<int, string>, item struct<sku: string, more: struct<qty: int>>, "
    "items array<struct<sku: string, qty: int>>"
)
Row = dict[str, Any]

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_WHOLE = {bits: st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)}
_ITEM = st.fixed_dictionaries({"sku": st.none() | _TEXT, "qty": st.none() | _WHOLE[32]})
_MORE = st.none() | st.fixed_dictionaries({"qty": st.none() | _WHOLE[32]})
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "flag": st.booleans(),
    "tiny": _WHOLE[8],
    "small": _WHOLE[16],
    "whole": _WHOLE[32],
    "big": _WHOLE[64] | st.sampled_from([2**53 + 1, -(2**63), 2**63 - 1]),
    "single": st.floats(width=32),
    "twice": st.floats(),
    "price": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda number: Decimal(number).scaleb(-10, _exact())),
    "name": _TEXT | st.sampled_from(["", "null", "\0", "日本", "𝔘"]),
    "raw": st.binary(max_size=12),
    "day": st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31)),
    "at": st.datetimes(timezones=st.just(datetime.UTC)),
    "numbers": st.lists(_WHOLE[64], max_size=3),
    "counts": st.dictionaries(_TEXT, _WHOLE[64], max_size=3),
    "codes": st.dictionaries(_WHOLE[32], _TEXT, max_size=3),
    "item": st.fixed_dictionaries({"sku": st.none() | _TEXT, "more": _MORE}),
    "items": st.lists(_ITEM, max_size=3),
}
"""A strategy for the values of each column that are not null."""


def _exact() -> Any:
    from decimal import Context

    return Context(prec=60)


def rows(*, lists_may_be_null: bool = True) -> st.SearchStrategy[list[Row]]:
    """Rows of these columns, any of whose values may be null."""
    sure = () if lists_may_be_null else ("numbers", "counts", "codes", "items")
    columns = {name: values if name in sure else st.none() | values for name, values in _VALUES.items()}
    return st.lists(st.fixed_dictionaries(columns), min_size=1, max_size=4)


def table_of(given: Sequence[Row]) -> pa.Table:
    """Rows as the declared columns."""
    return pa.Table.from_pylist([{**row, **_as_pairs(row)} for row in given], COLUMNS)


def _as_pairs(row: Row) -> Row:
    return {name: None if row[name] is None else list(row[name].items()) for name in ("counts", "codes")}


def comparable(rows: Any) -> str:
    """Rows that may be compared although they have NaN and objects in several orders; -0.0 is not 0.0."""
    return repr([_canonical(row) for row in (rows.to_pylist() if isinstance(rows, pa.Table) else rows)])


def _canonical(value: Any) -> Any:
    match value:
        case dict():
            return sorted((name, _canonical(one)) for name, one in value.items())
        case list():
            return [_canonical(one) for one in value]
        case datetime.datetime():
            return value.isoformat()
    return value


# The schemas, written by hand, and what each of the serializers is given.


def _nullable(kind: Any) -> Any:
    return ["null", kind]


AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": name, "type": _nullable(kind)}
            for name, kind in {
                "flag": "boolean",
                "tiny": "int",
                "small": "int",
                "whole": "int",
                "big": "long",
                "single": "float",
                "twice": "double",
                "price": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10},
                "name": "string",
                "raw": "bytes",
                "day": {"type": "int", "logicalType": "date"},
                "at": {"type": "long", "logicalType": "timestamp-micros"},
                "numbers": {"type": "array", "items": "long"},
                "counts": {"type": "map", "values": "long"},
                "codes": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "Code",
                        "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "string"}],
                    },
                },
                "item": {
                    "type": "record",
                    "name": "Item",
                    "fields": [
                        {"name": "sku", "type": _nullable("string")},
                        {
                            "name": "more",
                            "type": _nullable(
                                {
                                    "type": "record",
                                    "name": "More",
                                    "fields": [{"name": "qty", "type": _nullable("int")}],
                                }
                            ),
                        },
                    ],
                },
                "items": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "Part",
                        "fields": [
                            {"name": "sku", "type": _nullable("string")},
                            {"name": "qty", "type": _nullable("int")},
                        ],
                    },
                },
            }.items()
        ],
    }
)
JSON = json.dumps({"title": "Order", "type": "object"})


def _file() -> descriptor_pb2.FileDescriptorProto:
    """``shop/order.proto``, with the message after another one."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="shop/order.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    file.message_type.add(name="Other").field.add(name="x", number=1, type=kinds.TYPE_INT32, label=1)
    order = file.message_type.add(name="Order")

    def add(message: Any, name: str, number: int, kind: int, of: str = "", *, repeated: bool = False) -> None:
        made = message.field.add(name=name, number=number, type=kind, label=3 if repeated else 1, type_name=of or None)
        if not repeated and not of:
            made.proto3_optional, made.oneof_index = True, len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{name}")

    add(order, "flag", 1, kinds.TYPE_BOOL)
    add(order, "tiny", 2, kinds.TYPE_SINT32)
    add(order, "small", 3, kinds.TYPE_SFIXED32)
    add(order, "whole", 4, kinds.TYPE_INT32)
    add(order, "big", 5, kinds.TYPE_SINT64)
    add(order, "single", 6, kinds.TYPE_FLOAT)
    add(order, "twice", 7, kinds.TYPE_DOUBLE)
    add(order, "price", 8, kinds.TYPE_STRING)
    add(order, "name", 9, kinds.TYPE_STRING)
    add(order, "raw", 10, kinds.TYPE_BYTES)
    add(order, "day", 11, kinds.TYPE_STRING)
    add(order, "at", 12, kinds.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    add(order, "numbers", 13, kinds.TYPE_INT64, repeated=True)
    for name, number, key, value in (
        ("counts", 14, kinds.TYPE_STRING, kinds.TYPE_INT64),
        ("codes", 15, kinds.TYPE_INT32, kinds.TYPE_STRING),
    ):
        entry = order.nested_type.add(name=f"{name.title()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=key, label=1)
        entry.field.add(name="value", number=2, type=value, label=1)
        add(order, name, number, kinds.TYPE_MESSAGE, f".shop.Order.{name.title()}Entry", repeated=True)
    more = order.nested_type.add(name="More")
    add(more, "qty", 1, kinds.TYPE_INT32)
    item = order.nested_type.add(name="Item")
    add(item, "sku", 1, kinds.TYPE_STRING)
    add(item, "qty", 2, kinds.TYPE_INT32)
    add(item, "more", 3, kinds.TYPE_MESSAGE, ".shop.Order.More")
    add(order, "item", 16, kinds.TYPE_MESSAGE, ".shop.Order.Item")
    add(order, "items", 17, kinds.TYPE_MESSAGE, ".shop.Order.Item", repeated=True)
    return file


PROTOBUF = _file()


def message_class(file: descriptor_pb2.FileDescriptorProto, name: str) -> Any:
    """The class of a file's message."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


_ORDER = message_class(PROTOBUF, "shop.Order")


def _message(row: Row) -> Any:
    made = _ORDER()
    for name in ("flag", "tiny", "small", "whole", "big", "single", "twice", "name", "raw"):
        if row[name] is not None:
            setattr(made, name, row[name])
    for name in ("price", "day"):
        if row[name] is not None:
            setattr(made, name, format(row[name], "f") if name == "price" else row[name].isoformat())
    if row["at"] is not None:
        made.at.FromDatetime(row["at"])
    made.numbers.extend(row["numbers"])
    made.counts.update(row["counts"])
    made.codes.update(row["codes"])
    for given in row["items"]:
        _fill_item(made.items.add(), given)
    if row["item"] is not None:
        made.item.SetInParent()
        _fill_item(made.item, row["item"])
    return made


def _fill_item(made: Any, given: Row) -> None:
    for name in ("sku", "qty"):
        if given.get(name) is not None:
            setattr(made, name, given[name])
    if given.get("more") is not None:
        made.more.SetInParent()
        _fill_item(made.more, given["more"])


def _for_avro(row: Row) -> Row:
    codes = row["codes"]
    pairs = None if codes is None else [{"key": key, "value": value} for key, value in codes.items()]
    return {**row, "codes": pairs}


def for_json(row: Row) -> Row:
    """A row as JSON has it by the rules of JSON lines."""
    made = dict(row)
    for name, text in (("price", str), ("day", str), ("at", lambda at: at.isoformat())):
        made[name] = None if row[name] is None else text(row[name])
    made["raw"] = None if row["raw"] is None else base64.b64encode(row["raw"]).decode()
    made["codes"] = None if row["codes"] is None else [[key, value] for key, value in row["codes"].items()]
    for name in ("single", "twice"):
        value = row[name]
        if value is not None and (value != value or value in (float("inf"), float("-inf"))):
            made[name] = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}[str(value)]
    return made


def context(topic: str, part: Any = MessageField.VALUE) -> SerializationContext:
    return SerializationContext(topic, part)


def producer(format: str, client: SchemaRegistryClient) -> Callable[[Row, SerializationContext], bytes]:
    """Confluent's serializer for these rows."""
    match format:
        case "avro":
            return AvroSerializer(client, AVRO, lambda row, _: _for_avro(row))
        case "json_schema":
            return JSONSerializer(JSON, client, lambda row, _: for_json(row))
    made = ProtobufSerializer(_ORDER, client, {"use.deprecated.format": False})
    return lambda row, where: made(_message(row), where)


def consumer(format: str, client: SchemaRegistryClient, message: Any = None) -> Any:
    """Confluent's deserializer."""
    match format:
        case "avro":
            return AvroDeserializer(client)
        case "json_schema":
            return JSONDeserializer(None, schema_registry_client=client)
    return ProtobufDeserializer(message, {"use.deprecated.format": False}, client)


def records(values: Sequence[bytes | None], keys: Sequence[bytes | None] = (), first: int = 0) -> pa.Table:
    """Values as records of a topic, with the offsets from ``first`` on."""
    count = len(values)
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.table(
        {
            "topic": pa.array(["orders"] * count, pa.string()),
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(first, first + count), pa.int64()),
            "timestamp": pa.nulls(count, pa.timestamp("us", "UTC")),
            "key": pa.array(keys or [None] * count, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array([[("a", b"1"), ("a", None)], None] * count, pa.list_(pair)).slice(0, count),
        }
    )
