"""Avro messages: one value per message, without the header of a container file (UH-3).

The header ``schemaName`` names the schema, by its full name or by the part after the last dot if that is unique.
Without it the default schema is used, else the first. The value must fill the message.

Logical types are Python's: timestamps are aware times in UTC, local ones have no zone, decimals are exact. Any record
of a union is read as an object, and an object is written as the first branch that it fits.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, ClassVar

from topologies.io.messages.avro.avro_schema import AvroSchema
from topologies.io.messages.message_errors import Unreadable, Unwritable
from topologies.io.messages.message_format import NO_HEADERS, Headers
from topologies.io.messages.message_limits import MAX_BYTES, MAX_DEPTH, check_limits, present, within
from topologies.io.messages.misfit import value_and_type
from windowing.errors import ConfigError

SCHEMA_NAME = "schemaName"


@dataclass(frozen=True)
class AvroMessages:
    """Messages of these schemas, of at most ``max_bytes`` bytes and ``max_depth`` nested records, arrays and maps."""

    schemas: tuple[AvroSchema, ...]
    max_bytes: int = MAX_BYTES
    max_depth: int = MAX_DEPTH
    name: ClassVar[str] = "avro"
    _named: dict[bytes, AvroSchema] = field(init=False, repr=False, compare=False)
    _unnamed: AvroSchema = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_limits(self.max_bytes, self.max_depth)
        object.__setattr__(self, "schemas", tuple(self.schemas))
        _check(self.schemas)
        named = {schema.name.encode(): schema for schema in self.schemas}
        short = Counter(_short(schema.name) for schema in self.schemas)
        named |= {
            _short(schema.name).encode(): schema
            for schema in self.schemas
            if short[_short(schema.name)] == 1 and _short(schema.name).encode() not in named
        }
        object.__setattr__(self, "_named", named)
        object.__setattr__(self, "_unnamed", next((one for one in self.schemas if one.default), self.schemas[0]))

    def read(self, value: bytes | None, headers: Headers = NO_HEADERS) -> Any:
        """The value in a message. Raises Unreadable."""
        schema = self.schema_for(headers)
        if schema is None:
            raise Unreadable(self._unknown(headers))
        return schema.read(present(value, self.max_bytes), self.max_depth)

    def write(self, event: Any, headers: Headers = NO_HEADERS) -> bytes:
        """The message for an event. Raises Unwritable."""
        schema = self.schema_for(headers)
        if schema is None:
            raise Unwritable(self._unknown(headers))
        message = schema.write(event, self.max_depth)
        if not message:
            raise Unwritable(f"a value of {schema.name} without any bytes cannot be told from no message")
        return within(message, self.max_bytes)

    def schema_for(self, headers: Headers) -> AvroSchema | None:
        """The schema of a message with these headers; None if they name an unknown one."""
        name = headers.get(SCHEMA_NAME)
        return self._unnamed if name is None else self._named.get(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroMessages, (self.schemas, self.max_bytes, self.max_depth)

    def _unknown(self, headers: Headers) -> str:
        name = bytes(headers[SCHEMA_NAME]).decode("utf-8", "backslashreplace")
        known = ", ".join(schema.name for schema in self.schemas)
        return f"there is no schema {value_and_type(name)}, the header {SCHEMA_NAME} may name {known}"


def _check(schemas: tuple[AvroSchema, ...]) -> None:
    if not schemas:
        raise ConfigError("messages in Avro without a schema", do="give at least one")
    names = [schema.name for schema in schemas]
    twice = [name for index, name in enumerate(names) if name in names[:index]]
    if twice:
        raise ConfigError(f"the Avro schema {twice[0]} is given twice")
    defaults = [schema.name for schema in schemas if schema.default]
    if len(defaults) > 1:
        raise ConfigError(f"{' and '.join(defaults)} are both the default", do="mark one schema as the default")


def _short(name: str) -> str:
    return name.rpartition(".")[2]
