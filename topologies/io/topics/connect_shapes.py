"""Kafka Connect's objects with their schema, ``{"schema": ..., "payload": ...}``, and Debezium's changes of rows."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson
import pyarrow as pa

from topologies.io.messages.message import Misfit, Unreadable, value_and_type
from topologies.io.topics.avro_shapes import NAMED_TIMES, VARIABLE_DECIMAL, any_decimal, decimal_leaf, unscaled
from topologies.io.topics.shapes import NULL, Leaf, Mapped, Repeated, Shape, Struct

# What Connect's schemas in JSON say of the values beside them.


_WHOLE = {"int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64()}
_FLOATING = {"float": pa.float32(), "float32": pa.float32(), "double": pa.float64(), "float64": pa.float64()}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"


@lru_cache(maxsize=256)
def connect_shape(schema: bytes) -> Shape:
    """The shape of the values of a schema, given as JSON. Raises Unreadable."""
    try:
        return _shape(orjson.loads(schema))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unreadable(f"its schema is none of Kafka Connect's: {error!r}") from None


def _shape(schema: Mapping[str, Any]) -> Shape:  # noqa: PLR0911 - one for each kind of type
    kind, name = schema["type"], schema.get("name")
    if kind in _WHOLE:
        return NAMED_TIMES.get(str(name)) or Leaf(_WHOLE[kind], _checked(int, kind))
    match kind:
        case "float" | "float32" | "double" | "float64":
            return Leaf(_FLOATING[kind], _number)
        case "boolean":
            return Leaf(pa.bool_(), _checked(bool, kind))
        case "string":
            return Leaf(pa.string(), _checked(str, kind))
        case "bytes" if name == _DECIMAL:
            return _decimal(schema.get("parameters") or {})
        case "bytes":
            return Leaf(pa.binary(), _bytes)
        case "array":
            return Repeated(_shape(schema["items"]))
        case "map":
            return Mapped(_shape(schema["keys"]), _shape(schema["values"]))
        case "struct":
            fields = {str(each["field"]): _shape(each) for each in schema["fields"]}
            if name == VARIABLE_DECIMAL:
                return Struct(
                    lambda: fields, _member, any_decimal(lambda one: unscaled(_bytes(one["value"]), one["scale"]))
                )
            return Struct(lambda: fields, _member)
    raise ValueError(f"type {kind!r}")


def _decimal(parameters: Mapping[str, Any]) -> Leaf:
    scale = int(parameters["scale"])
    precision = int(parameters.get("connect.decimal.precision", 77))  # not all say it: Leaf of text then
    return decimal_leaf(precision, scale, lambda value: unscaled(_bytes(value), scale))


def _member(value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        raise Misfit(f"{value_and_type(value)} is not an object")
    return value.get(name)


def _checked(kind: type, name: str) -> Any:
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


# Debezium's changes: the row as it is after a change, or as it was before it is deleted.


BEFORE, AFTER, OPERATION, CHANGED = "before", "after", "op", "ts_ms"
DELETED = "d"


def row_shape(change: Shape) -> Shape:
    """The shape of the rows in changes. Raises Misfit for a schema that is none of Debezium's."""
    fields = change.fields() if isinstance(change, Struct) else {}
    row = fields.get(AFTER, NULL)
    if OPERATION not in fields or not isinstance(row, Struct):
        raise Misfit("the schema of the record has no op and after, which Debezium's changes have")
    return row


def row_of(operation: Any, before: Any, after: Any) -> Any:
    """The row of a change. Raises Misfit for one that is about no row."""
    if type(operation) is not str:
        raise Misfit("it is no change of Debezium's: it has no op")
    row = before if operation == DELETED else after
    if row is None:
        which = BEFORE if operation == DELETED else AFTER
        raise Misfit(f"a change with the op {operation!r}, and without a row {which!r}")
    return row
