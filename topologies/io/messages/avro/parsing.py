"""Parses the text of an Avro schema, and finds all its problems."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fastavro.schema import UnknownType, parse_schema

from topologies.io.messages.json.messages import JsonMessages
from topologies.io.messages.message_errors import Unreadable
from topologies.io.messages.misfit import value_and_type
from windowing.errors import ConfigError

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
RECORDS = frozenset({"record", "error"})
NAMED = RECORDS | {"enum", "fixed"}

_JSON = JsonMessages(max_bytes=1024 * 1024, max_depth=100)


@dataclass(frozen=True)
class Parsed:
    """A schema in fastavro's form, and its named types."""

    schema: dict[str, Any]
    named: dict[str, dict[str, Any]]

    def resolved(self, schema: Any) -> Any:
        """The definition of a type, which may be given by its name."""
        return self.named.get(schema, schema) if isinstance(schema, str) else schema


def avro_type(schema: Any) -> str:
    """The type of a schema: an Avro type, "union", or the name of a named type."""
    if isinstance(schema, list):
        return "union"
    return str(schema["type"] if isinstance(schema, dict) else schema)


def logical_type(schema: Any) -> str:
    """A type with its logical type, such as ``long-timestamp-millis``; "" where there is none."""
    return f"{schema['type']}-{schema['logicalType']}" if isinstance(schema, dict) and "logicalType" in schema else ""


def parsed(text: str) -> Parsed:
    """The schema in a text. Raises ConfigError."""
    try:
        given = _JSON.read(text.encode())
    except (Unreadable, UnicodeEncodeError) as error:
        raise ConfigError(f"the text of an Avro schema cannot be read: {error}") from None
    if not isinstance(given, dict) or str(given.get("type")) not in NAMED:
        raise ConfigError(
            f"the Avro schema is {value_and_type(given)}",
            why="messages refer to schemas by name",
            do="give a record, an enum or a fixed",
        )
    named: dict[str, Any] = {}
    try:
        schema: Any = parse_schema(given, named)
    except UnknownType as error:
        raise ConfigError(
            f"the Avro schema {value_and_type(given.get('name'))} is wrong: there is no type {error.name!r}",
            do=f"use one of {', '.join(sorted(PRIMITIVES))}, or a type that the schema has defined before",
        ) from error
    except Exception as error:  # fastavro raises all kinds of exceptions for what is not a schema
        raise ConfigError(f"the Avro schema {value_and_type(given.get('name'))} is wrong: {error!r}") from error
    made = Parsed(schema, named)
    for problem in _problems(made.schema, made):
        raise ConfigError(f"the Avro schema {made.schema['name']} is wrong: {problem}")
    return made


def _problems(schema: Any, made: Parsed) -> Iterator[str]:
    """Problems that fastavro does not report."""
    kind = avro_type(schema)
    yield from _decimal_problems(schema)
    if kind == "union":
        yield from _union_problems(schema, made)
    elif kind in RECORDS:
        names = [field["name"] for field in schema["fields"]]
        yield from (f"field {name} is given twice" for index, name in enumerate(names) if name in names[:index])
        for field in schema["fields"]:
            yield from _problems(field["type"], made)
    elif kind == "array":
        if _takes_no_bytes(schema["items"], made, ()):
            yield "an array of what takes no bytes: a message of a few bytes could hold any number of them"
        yield from _problems(schema["items"], made)
    elif kind == "map":
        yield from _problems(schema["values"], made)
    elif kind == "fixed":
        if type(schema["size"]) is not int or schema["size"] < 0:
            yield f"the size of {schema['name']} is {schema['size']!r}"
    elif kind == "enum":
        if not schema["symbols"]:
            yield f"enum {schema['name']} has no symbols"
    elif kind not in PRIMITIVES and kind not in made.named:
        yield f"there is no type {kind}"


def _decimal_problems(schema: Any) -> Iterator[str]:
    if logical_type(schema) in {"bytes-decimal", "fixed-decimal"}:
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision:
            yield f"a decimal of precision {precision!r} and scale {scale!r}"


def _union_problems(union: list[Any], made: Parsed) -> Iterator[str]:
    tags = [tag_of(branch) for branch in union]
    if not tags:
        yield "a union of nothing"
    yield from (f"{tag} is twice in a union" for index, tag in enumerate(tags) if tag in tags[:index])
    for branch in union:
        if isinstance(branch, list):
            yield "a union in a union"
        else:
            yield from _problems(branch, made)


def tag_of(branch: Any) -> str:
    """What identifies a branch of a union: its name, else its type."""
    return str(branch["name"]) if isinstance(branch, dict) and branch["type"] in NAMED else avro_type(branch)


def _takes_no_bytes(schema: Any, made: Parsed, within: tuple[str, ...]) -> bool:
    schema = made.resolved(schema)
    kind = avro_type(schema)
    if kind in RECORDS:
        inner = (*within, schema["name"])
        return schema["name"] in within or all(_takes_no_bytes(one["type"], made, inner) for one in schema["fields"])
    return kind == "null" or (kind == "fixed" and schema["size"] == 0)
