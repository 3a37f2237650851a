"""Avro values in topics, read by the schema of their writer, without the header of a container file."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from functools import partial
from io import BytesIO
from typing import Any

import orjson
import pyarrow as pa
from fastavro import schemaless_reader
from fastavro.schema import parse_schema

from topologies.io.messages.avro_schema import (
    NAMED,
    RECORDS,
    Check,
    ParsedSchema,
    avro_type,
    check_of,
    logical_type,
    long_at,
    parse_avro_with,
)
from topologies.io.messages.message import MAX_DEPTH, Misfit, Unreadable
from topologies.io.topics.shapes import NULL, Leaf, ListShape, MapShape, Shape, StructShape, UnionShape

# Names of logical types of Kafka Connect and Debezium, whose values are numbers, bytes or records: in Avro as
# ``connect.name``, in JSON as the name of a schema.


_UTC_MS, _MS, _US, _NS = pa.timestamp("ms", "UTC"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns")
NAMED_TIMES: Mapping[str, Leaf] = {
    "org.apache.kafka.connect.data.Timestamp": Leaf(_UTC_MS, number=pa.int64()),
    "org.apache.kafka.connect.data.Date": Leaf(pa.date32(), number=pa.int32()),
    "io.debezium.time.Date": Leaf(pa.date32(), number=pa.int32()),
    "io.debezium.time.Timestamp": Leaf(_MS, number=pa.int64()),
    "io.debezium.time.MicroTimestamp": Leaf(_US, number=pa.int64()),
    "io.debezium.time.NanoTimestamp": Leaf(_NS, number=pa.int64()),
}
"""Times by name: Debezium's are the database's times, without a zone; Connect's are in UTC."""
VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
_EXACT = Context(prec=1000)


def from_unscaled(value: bytes, scale: int) -> Decimal:
    """Returns a decimal from its unscaled number, big-endian."""
    return Decimal(int.from_bytes(value, signed=True)).scaleb(-scale, _EXACT)


def decimal_leaf(precision: int, scale: int, make: Callable[[Any], Decimal]) -> Leaf:
    """Returns the leaf of decimals with this precision; decimals too long for Arrow become text."""
    if precision > 76:
        return Leaf(pa.string(), lambda value: format(make(value), "f"))
    return Leaf((pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale), make)


def any_decimal(make: Callable[[Any], Decimal]) -> Callable[[pa.DataType], Leaf | None]:
    """Returns the leaf of a record that holds a decimal and its scale; None if the declared type is a struct."""

    def leaf(target: pa.DataType) -> Leaf | None:
        if pa.types.is_struct(target):
            return None
        return Leaf(pa.string(), lambda value: format(make(value), "f"))

    return leaf


# The shapes of a schema's values.


_PRIMITIVE: Mapping[str, Shape] = {
    "null": NULL,
    "boolean": Leaf(pa.bool_()),
    "int": Leaf(pa.int32()),
    "long": Leaf(pa.int64()),
    "float": Leaf(pa.float32()),
    "double": Leaf(pa.float64()),
    "bytes": Leaf(pa.binary()),
    "string": Leaf(pa.string()),
}
_TIMES: Mapping[str, Leaf] = {
    "long-timestamp-millis": Leaf(_UTC_MS, number=pa.int64()),
    "long-timestamp-micros": Leaf(pa.timestamp("us", "UTC"), number=pa.int64()),
    "long-timestamp-nanos": Leaf(pa.timestamp("ns", "UTC"), number=pa.int64()),
    "long-local-timestamp-millis": Leaf(_MS, number=pa.int64()),
    "long-local-timestamp-micros": Leaf(_US, number=pa.int64()),
    "long-local-timestamp-nanos": Leaf(_NS, number=pa.int64()),
    "int-date": Leaf(pa.date32(), number=pa.int32()),
}
_NUMBERS = ("int", "long", "float", "double")
_CLASSES: Mapping[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (float,),
    "double": (float,),
    "bytes": (bytes,),
    "fixed": (bytes,),
    "string": (str,),
    "enum": (str,),
    "array": (list,),
    "map": (dict,),
    "record": (dict,),
    "error": (dict,),
}


def _shape(schema: Any, parsed_schema: ParsedSchema) -> Shape:  # noqa: PLR0911 - one for each kind of type
    """Returns the shape of the values that fastavro reads by a schema without logical types."""
    schema = parsed_schema.definition_of(schema)
    leaf = _logical(schema)
    if leaf is not None:
        return leaf
    kind = avro_type(schema)
    match kind:
        case "union":
            return _union(schema, parsed_schema)
        case "array":
            return ListShape(_shape(schema["items"], parsed_schema))
        case "map":
            return MapShape(_PRIMITIVE["string"], _shape(schema["values"], parsed_schema))
        case "enum":
            return _PRIMITIVE["string"]
        case "fixed":
            return _PRIMITIVE["bytes"]
    if kind in RECORDS:
        return _record(schema, parsed_schema)
    return _PRIMITIVE[kind]


def _logical(schema: Any) -> Leaf | None:
    if not isinstance(schema, dict):
        return None
    kind = logical_type(schema)
    if kind in ("bytes-decimal", "fixed-decimal"):
        scale = int(schema.get("scale", 0))
        return decimal_leaf(max(int(schema["precision"]), 1), scale, partial(from_unscaled, scale=scale))
    if kind == "fixed-uuid":
        return Leaf(pa.string(), lambda value: str(uuid.UUID(bytes=value)))
    return _TIMES.get(kind) or NAMED_TIMES.get(str(schema.get("connect.name")))


def _record(schema: Any, parsed_schema: ParsedSchema) -> StructShape:
    def fields() -> dict[str, Shape]:
        return {str(each["name"]): _shape(each["type"], parsed_schema) for each in schema["fields"]}

    if schema.get("connect.name", schema["name"]) == VARIABLE_DECIMAL:
        return StructShape(fields, as_leaf=any_decimal(lambda value: from_unscaled(value["value"], value["scale"])))
    return StructShape(fields)


def _union(branches: Sequence[Any], parsed_schema: ParsedSchema) -> Shape:
    """Returns the shape of a union: null and another branch give that branch, which may be null; numbers give their
    widest type."""
    others = [parsed_schema.definition_of(branch) for branch in branches if avro_type(branch) != "null"]
    if len(others) == 1:
        return _shape(others[0], parsed_schema)
    if not others:
        return NULL
    kinds = [avro_type(branch) for branch in others]
    if all(kind in _NUMBERS and not logical_type(branch) for kind, branch in zip(kinds, others, strict=True)):
        whole_kinds = {"int", "long"} & set(kinds)
        if not ("float" in kinds and whole_kinds) and not ("double" in kinds and "long" in kinds):
            return _PRIMITIVE[max(kinds, key=_NUMBERS.index)]
    return UnionShape(
        [(_CLASSES[kind], _shape(branch, parsed_schema)) for kind, branch in zip(kinds, others, strict=True)]
    )


def _without_logical_types(schema: Any) -> Any:
    """Returns a schema whose values are read as plain numbers, bytes and texts."""
    if isinstance(schema, list):
        return [_without_logical_types(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    bare = {name: value for name, value in schema.items() if name != "logicalType"}
    for name in ("items", "values", "type"):
        if isinstance(bare.get(name), dict | list):
            bare[name] = _without_logical_types(bare[name])
    if schema.get("type") in RECORDS:
        bare["fields"] = [{**each, "type": _without_logical_types(each["type"])} for each in schema["fields"]]
    return bare


class AvroReader:
    """Reads the values of one schema. If the schema is a union of records, each branch is a variant."""

    def __init__(self, text: str, references: Sequence[str] = ()) -> None:
        """``references``: schemas whose types this one uses, each before the schemas that use it. Raises ConfigError
        for a text that is not a schema."""
        parsed_schema = parse_avro_with(text, references)
        plain_types: dict[str, Any] = {}
        for reference in references:
            parse_schema(_without_logical_types(orjson.loads(reference)), plain_types)
        bare: Any = parse_schema(_without_logical_types(orjson.loads(text)), plain_types)
        branches = parsed_schema.schema if isinstance(parsed_schema.schema, list) else [parsed_schema.schema]
        self._is_union = isinstance(parsed_schema.schema, list)
        self._checks: list[Check] = [check_of(ParsedSchema(branch, parsed_schema.named)) for branch in branches]
        self._schemas = [_as_only_field(branch, plain_types) for branch in bare] if self._is_union else [bare]
        self.shapes: Sequence[Shape] = [_shape(branch, parsed_schema) for branch in branches]
        self.names = [_name_of(parsed_schema.definition_of(branch)) for branch in branches]

    def read(self, value: bytes, start: int) -> tuple[int, Any]:
        """Returns the variant and the value in the bytes from ``start`` to the end. Raises Unreadable."""
        try:
            variant = 0
            if self._is_union:
                variant, start = long_at(value, start)
                if not 0 <= variant < len(self._checks):
                    raise Misfit(f"{variant} is not a branch of a union of {len(self._checks)}")
            end = self._checks[variant](value, start, MAX_DEPTH)
            if end != len(value):
                raise Misfit(f"{len(value) - end} bytes are left over after it")
            stream = BytesIO(value)
            stream.seek(start)
            made: Any = schemaless_reader(stream, self._schemas[variant], None)
            return variant, made[_WRAPPED] if self._is_union else made
        except Misfit as misfit:
            reason: Any = misfit.unwritable()
        except IndexError:
            reason = "the message ends within the value"
        except Exception as error:  # the right shape, but invalid UTF-8
            reason = repr(error)
        raise Unreadable(str(reason).replace("the event: ", ""))

    def shape(self, variant: int) -> Shape:
        return self.shapes[variant]

    def variants(self) -> Sequence[int]:
        return range(len(self.shapes))

    def name(self, variant: int) -> str:
        """Returns the name of a variant's type, for messages."""
        return self.names[variant]


_WRAPPED = "value"


def _as_only_field(branch: Any, named: dict[str, Any]) -> Any:
    """Returns a record whose only field has the value's bytes: fastavro does not accept the name of a type as a
    schema."""
    name = branch if isinstance(branch, str) else branch.get("name", avro_type(branch))
    field = {"name": _WRAPPED, "type": name if name in named else branch}
    return parse_schema({"type": "record", "name": f"windbolt_of_{name.replace('.', '_')}", "fields": [field]}, named)


def _name_of(schema: Any) -> str:
    kind = avro_type(schema)
    return str(schema["name"]) if kind in NAMED else kind
