"""Avro schemas: parsed, with all their problems, and walked. Bytes are checked against them before fastavro reads
them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

from fastavro.schema import UnknownType, parse_schema

from topologies.io.messages.json import JsonMessages
from topologies.io.messages.message import Misfit, Unreadable, value_and_type
from windowing.errors import ConfigError

# Parses the text of an Avro schema, and finds all its problems.


PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
RECORDS = frozenset({"record", "error"})
NAMED = RECORDS | {"enum", "fixed"}

_JSON = JsonMessages(max_bytes=1024 * 1024, max_depth=100)


@dataclass(frozen=True)
class ParsedSchema:
    """A schema in fastavro's form, and its named types."""

    schema: Any
    named: dict[str, dict[str, Any]]

    def definition_of(self, schema: Any) -> Any:
        """Returns the definition of a type, even if only its name is given."""
        return self.named.get(schema, schema) if isinstance(schema, str) else schema


def avro_type(schema: Any) -> str:
    """Returns the type of a schema: an Avro type, "union", or the name of a named type."""
    if isinstance(schema, list):
        return "union"
    return str(schema["type"] if isinstance(schema, dict) else schema)


def logical_type(schema: Any) -> str:
    """Returns a type with its logical type, such as ``long-timestamp-millis``; "" without a logical type."""
    return f"{schema['type']}-{schema['logicalType']}" if isinstance(schema, dict) and "logicalType" in schema else ""


def parse_avro(text: str) -> ParsedSchema:
    """Returns the schema in a text, which must define a named type. Raises ConfigError."""
    definition = _read(text)
    if not isinstance(definition, dict) or str(definition.get("type")) not in NAMED:
        raise ConfigError(
            f"the Avro schema is {value_and_type(definition)}",
            why="messages refer to schemas by name",
            do="give a record, an enum or a fixed",
        )
    return _parse(definition, {})


def parse_avro_with(text: str, references: Sequence[str] = ()) -> ParsedSchema:
    """Returns the schema in a text, of any type, which may use types of ``references``: other schemas, ordered so that
    each comes before those that use it. Raises ConfigError."""
    named: dict[str, Any] = {}
    for reference in references:
        _parse(_read(reference), named)
    return _parse(_read(text), named)


def _read(text: str) -> Any:
    try:
        return _JSON.read(text.encode())
    except (Unreadable, UnicodeEncodeError) as error:
        raise ConfigError(f"the text of an Avro schema cannot be read: {error}") from None


def _parse(definition: Any, named: dict[str, Any]) -> ParsedSchema:
    name = definition.get("name") if isinstance(definition, dict) else definition
    try:
        schema: Any = parse_schema(definition, named)
    except UnknownType as error:
        raise ConfigError(
            f"the Avro schema {value_and_type(name)} is wrong: there is no type {error.name!r}",
            do=f"use one of {', '.join(sorted(PRIMITIVES))}, or a type that the schema has defined before",
        ) from error
    except Exception as error:  # fastavro raises all kinds of exceptions
        raise ConfigError(f"the Avro schema {value_and_type(name)} is wrong: {error!r}") from error
    parsed_schema = ParsedSchema(schema, named)
    for problem in _problems(parsed_schema.schema, parsed_schema):
        shown = schema["name"] if isinstance(schema, dict) and "name" in schema else value_and_type(definition)
        raise ConfigError(f"the Avro schema {shown} is wrong: {problem}")
    return parsed_schema


def _problems(schema: Any, parsed_schema: ParsedSchema) -> Iterator[str]:
    """Yields problems that fastavro does not report."""
    kind = avro_type(schema)
    yield from _decimal_problems(schema)
    if kind == "union":
        yield from _union_problems(schema, parsed_schema)
    elif kind in RECORDS:
        names = [field["name"] for field in schema["fields"]]
        yield from (f"field {name} is given twice" for index, name in enumerate(names) if name in names[:index])
        for field in schema["fields"]:
            yield from _problems(field["type"], parsed_schema)
    elif kind == "array":
        if _takes_no_bytes(schema["items"], parsed_schema, ()):
            yield "an array of what takes no bytes: a message of a few bytes could hold any number of them"
        yield from _problems(schema["items"], parsed_schema)
    elif kind == "map":
        yield from _problems(schema["values"], parsed_schema)
    elif kind == "fixed":
        if type(schema["size"]) is not int or schema["size"] < 0:
            yield f"the size of {schema['name']} is {schema['size']!r}"
    elif kind == "enum":
        if not schema["symbols"]:
            yield f"enum {schema['name']} has no symbols"
    elif kind not in PRIMITIVES and kind not in parsed_schema.named:
        yield f"there is no type {kind}"


def _decimal_problems(schema: Any) -> Iterator[str]:
    if logical_type(schema) in {"bytes-decimal", "fixed-decimal"}:
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision:
            yield f"a decimal of precision {precision!r} and scale {scale!r}"


def _union_problems(union: list[Any], parsed_schema: ParsedSchema) -> Iterator[str]:
    tags = [tag_of(branch) for branch in union]
    if not tags:
        yield "a union of nothing"
    yield from (f"{tag} is twice in a union" for index, tag in enumerate(tags) if tag in tags[:index])
    for branch in union:
        if isinstance(branch, list):
            yield "a union in a union"
        else:
            yield from _problems(branch, parsed_schema)


def tag_of(branch: Any) -> str:
    """Returns the tag of a union's branch: its name, else its type."""
    return str(branch["name"]) if isinstance(branch, dict) and branch["type"] in NAMED else avro_type(branch)


def _takes_no_bytes(schema: Any, parsed_schema: ParsedSchema, within: tuple[str, ...]) -> bool:
    schema = parsed_schema.definition_of(schema)
    kind = avro_type(schema)
    if kind in RECORDS:
        inner = (*within, schema["name"])
        return schema["name"] in within or all(
            _takes_no_bytes(one["type"], parsed_schema, inner) for one in schema["fields"]
        )
    return kind == "null" or (kind == "fixed" and schema["size"] == 0)


# Builds a function for the values of an Avro schema from the functions of its parts. The function checks values, or
# fits them.
#
# The function of a named type is built once, since types may be recursive.


Built = TypeVar("Built", bound=Callable[..., Any])


class SchemaWalk(ABC, Generic[Built]):
    """Walk through a schema; a subclass decides which function is built for each type."""

    def __init__(self, parsed: ParsedSchema) -> None:
        self._parsed = parsed
        self._named: dict[str, Built] = {}

    def of(self, schema: Any) -> Built:
        """Returns the function for a schema."""
        return self.logical(schema) or self.primitives.get(avro_type(schema)) or self._composed(schema)

    @property
    @abstractmethod
    def primitives(self) -> Mapping[str, Built]:
        """The functions for the types without parts, by name."""

    @abstractmethod
    def logical(self, schema: Any) -> Built | None:
        """Returns the function for a logical type; None if that of the underlying type suffices."""

    @abstractmethod
    def union(self, branches: Sequence[Any]) -> Built:
        """Returns the function for a union of these schemas."""

    @abstractmethod
    def array(self, items: Built) -> Built:
        """Returns the function for an array of such items."""

    @abstractmethod
    def mapping(self, values: Built) -> Built:
        """Returns the function for a map, from the function for its values."""

    @abstractmethod
    def enum(self, name: str, symbols: Sequence[str]) -> Built:
        """Returns the function for an enum."""

    @abstractmethod
    def fixed(self, size: int) -> Built:
        """Returns the function for a value of this many bytes."""

    @abstractmethod
    def record(self, schema: Any, fields: Mapping[str, Built]) -> Built:
        """Returns the function for a record with these fields, in order."""

    def _composed(self, schema: Any) -> Built:
        match avro_type(schema):
            case "union":
                return self.union(schema)
            case "array":
                return self.array(self.of(schema["items"]))
            case "map":
                return self.mapping(self.of(schema["values"]))
            case "enum":
                return self.enum(str(schema["name"]), tuple(schema["symbols"]))
            case "fixed":
                return self.fixed(int(schema["size"]))
            case name:
                return self._by_name(str(schema["name"]) if name in RECORDS else name)

    def _by_name(self, name: str) -> Built:
        if name not in self._named:
            self._named[name] = cast("Built", lambda *arguments: self._named[name](*arguments))  # noqa: PLW0108  built later
            self._named[name] = self._definition(self._parsed.named[name])
        return self._named[name]

    def _definition(self, schema: Any) -> Built:
        if avro_type(schema) not in RECORDS:
            return self.of(schema)
        return self.record(schema, {str(field["name"]): self.of(field["type"]) for field in schema["fields"]})


# Checks that bytes are a value of an Avro schema, before fastavro reads them.
#
# fastavro trusts lengths, counts negative positions from the end, and recurses in C as deep as a message demands. Here
# every length, position and level is checked first, without building a value.
#
# A check is called with the message, the position where the value starts, and the number of levels that may still nest.
# It returns the position where the value ends. It raises Misfit, or IndexError if the message ends too early.


Check = Callable[[bytes, int, int], int]

_DAY_MILLIS = 24 * 60 * 60 * 1000


def check_of(parsed: ParsedSchema) -> Check:
    """Returns the check for values of a schema."""
    return _Checks(parsed).of(parsed.schema)


class _Checks(SchemaWalk[Check]):
    """The checks of one schema."""

    @property
    def primitives(self) -> Mapping[str, Check]:
        return _PRIMITIVE

    def logical(self, schema: Any) -> Check | None:
        return _logical(schema)

    def union(self, branches: Sequence[Any]) -> Check:
        return _union(tuple(self.of(branch) for branch in branches))

    def array(self, items: Check) -> Check:
        return _blocks(items)

    def mapping(self, values: Check) -> Check:
        return _blocks(_entry(values))

    def enum(self, name: str, symbols: Sequence[str]) -> Check:
        return _enum(name, len(symbols))

    def fixed(self, size: int) -> Check:
        return _sized(size)

    def record(self, schema: Any, fields: Mapping[str, Check]) -> Check:
        return _record(tuple(fields.items()))


def long_at(data: bytes, position: int) -> tuple[int, int]:
    """Returns the integer at a position, and the position of its end."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    number, shift = byte & 0x7F, 7
    while byte > 0x7F:
        if shift > 63:
            raise Misfit("a number of more than 10 bytes")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
    if number >> 64:
        raise Misfit("a number of more than 64 bits")
    return (number >> 1) ^ -(number & 1), position


def _null(data: bytes, position: int, levels: int) -> int:
    return position


def _boolean(data: bytes, position: int, levels: int) -> int:
    if data[position] > 1:
        raise Misfit(f"{data[position]} is neither 0 nor 1")
    return position + 1


def _int(data: bytes, position: int, levels: int) -> int:
    if data[position] < 0x80:
        return position + 1
    number, end = long_at(data, position)
    if not -(2**31) <= number < 2**31:
        raise Misfit(f"{number} is not a number of 32 bits")
    return end


def _long(data: bytes, position: int, levels: int) -> int:
    return position + 1 if data[position] < 0x80 else long_at(data, position)[1]


def _bytes(data: bytes, position: int, levels: int) -> int:
    length, start = long_at(data, position)
    if not 0 <= length <= len(data) - start:
        raise Misfit(f"{length} bytes are said to follow, {len(data) - start} do")
    return start + length


def _sized(size: int) -> Check:
    def check(data: bytes, position: int, levels: int) -> int:
        if size > len(data) - position:
            raise IndexError
        return position + size

    return check


def _enum(name: str, symbols: int) -> Check:
    def check(data: bytes, position: int, levels: int) -> int:
        number, end = long_at(data, position)
        if not 0 <= number < symbols:
            raise Misfit(f"{number} is not a symbol of {name}, which has {symbols}")
        return end

    return check


def _union(branches: tuple[Check, ...]) -> Check:
    def check(data: bytes, position: int, levels: int) -> int:
        number, start = long_at(data, position)
        if not 0 <= number < len(branches):
            raise Misfit(f"{number} is not a branch of a union of {len(branches)}")
        return branches[number](data, start, levels)

    return check


def _record(fields: tuple[tuple[str, Check], ...]) -> Check:
    def check(data: bytes, position: int, levels: int) -> int:
        if levels == 0:
            raise Misfit("nested too deep")
        name = ""
        try:
            for name, inner in fields:  # noqa: B007  the error names it
                position = inner(data, position, levels - 1)
        except (Misfit, IndexError) as error:
            raise _with_step(error, name) from None
        return position

    return check


def _entry(value: Check) -> Check:
    return lambda data, position, levels: value(data, _bytes(data, position, levels), levels)


def _blocks(inner: Check) -> Check:
    """Returns the check for an array or a map: blocks of items, each at least a byte long."""

    def check(data: bytes, position: int, levels: int) -> int:
        if levels == 0:
            raise Misfit("nested too deep")
        done = 0
        try:
            count, position = long_at(data, position)
            while count:
                end = None
                if count < 0:
                    size, position = long_at(data, position)
                    count, end = -count, position + size
                if count > len(data) - position:
                    raise Misfit(f"{count} items are said to follow in {len(data) - position} bytes")
                for _ in range(count):
                    position = inner(data, position, levels - 1)
                    done += 1
                if end not in (None, position):
                    raise Misfit("a block is not as long as it says")
                count, position = long_at(data, position)
        except (Misfit, IndexError) as error:
            raise _with_step(error, done) from None
        return position

    return check


def _with_step(error: Misfit | IndexError, step: str | int) -> Misfit:
    misfit = error if isinstance(error, Misfit) else Misfit("the message ends within the value")
    return misfit.inside(step)


def _logical(schema: Any) -> Check | None:
    """Returns the check for a logical type that fastavro would otherwise read wrongly."""
    match logical_type(schema):
        case "int-time-millis":
            return _time(_int, _DAY_MILLIS)
        case "long-time-micros":
            return _time(_long, _DAY_MILLIS * 1000)
        case "bytes-decimal":
            return _decimal(_bytes, int(schema["precision"]), long_at)
        case "fixed-decimal":
            return _decimal(_sized(int(schema["size"])), int(schema["precision"]), lambda data, position: (0, position))
    return None


def _time(inner: Check, day: int) -> Check:
    def check(data: bytes, position: int, levels: int) -> int:
        end = inner(data, position, levels)
        number, _ = long_at(data, position)
        if not 0 <= number < day:
            raise Misfit(f"{number} is not a time of a day")
        return end

    return check


def _decimal(inner: Check, precision: int, length_at: Callable[[bytes, int], tuple[int, int]]) -> Check:
    beyond = 10**precision

    def check(data: bytes, position: int, levels: int) -> int:
        end = inner(data, position, levels)
        _, start = length_at(data, position)
        if not -beyond < int.from_bytes(data[start:end], signed=True) < beyond:
            raise Misfit(f"a decimal of more than {precision} digits")
        return end

    return check


_PRIMITIVE: Mapping[str, Check] = MappingProxyType(
    {
        "null": _null,
        "boolean": _boolean,
        "int": _int,
        "long": _long,
        "float": _sized(4),
        "double": _sized(8),
        "bytes": _bytes,
        "string": _bytes,
    }
)
