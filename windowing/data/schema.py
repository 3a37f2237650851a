"""Declared columns: ``"user string, amount double, ts timestamp"`` and its Arrow schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NoReturn, TypeAlias

import pyarrow as pa

from windowing.errors import ConfigError

SchemaLike: TypeAlias = str | pa.Schema
"""Columns as a user declares them: as text, ``"user string, amount double"``, or a schema of Arrow."""

TIMESTAMP = pa.timestamp("us", tz="UTC")

_SIMPLE: dict[str, pa.DataType] = {
    "string": pa.string(),
    "str": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "bool": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
}
_TOKEN = re.compile(r"\s*(?:(`[^`]*`)|([A-Za-z_][A-Za-z0-9_]*)|(\d+)|(.))", re.S)


def parse_schema(declared: str | pa.Schema) -> pa.Schema:
    """The Arrow schema of a declaration in Spark's DDL form.

    Types: string, binary, boolean, tinyint, smallint, int, long (bigint), float, double, date, timestamp
    (microseconds, UTC: what is finer in the input is cut off), decimal(p, s), array<t>, map<k, v>,
    struct<name: t, ...>. A ``pa.Schema`` is returned as
    it is. Raises ConfigError, with the place, for anything else.
    """
    if isinstance(declared, pa.Schema):
        return declared
    if not isinstance(declared, str):
        raise ConfigError(
            f"{declared!r:.60} is not a schema", do="write a text like 'user string, ts timestamp', or give a pa.Schema"
        )
    parser = _Parser(declared)
    fields = parser.fields(closing="")
    names = [field.name for field in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(
            f"schema {declared!r} names {', '.join(map(repr, twice))} more than once",
            why="a column is known by its name",
            do="give each column a name of its own",
        )
    return pa.schema(fields)


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values: that of a dictionary's for a column of dictionary type."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def narrowest(schema: pa.Schema) -> pa.Field:
    """The column with the shortest values; one without a fixed width only where there is no other."""
    return min(schema, key=_width)


def _width(field: pa.Field) -> int:
    try:
        return int(field.type.bit_width)
    except ValueError:
        return 1_000_000


def format_schema(schema: pa.Schema) -> str:
    """The declaration of an Arrow schema, as ``parse_schema`` reads it."""
    return ", ".join(f"{_quoted(field.name)} {_type_name(field.type)}" for field in schema)


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else f"`{name}`"


def _type_name(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{_type_name(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{_type_name(kind.key_type)}, {_type_name(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return "struct<" + ", ".join(f"{_quoted(field.name)}: {_type_name(field.type)}" for field in kind) + ">"
    preferred = ("string", "binary", "boolean", "tinyint", "smallint", "int", "long", "float", "double", "date")
    return next((name for name in preferred if _SIMPLE[name] == kind), str(kind))


class _Parser:
    """A recursive descent over ``name type, name type``; the grammar has four productions."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._tokens(text))
        self.at = 0

    @staticmethod
    def _tokens(text: str) -> Iterator[tuple[str, int]]:
        for match in _TOKEN.finditer(text.rstrip()):
            yield match.group(match.lastindex or 0), match.start(match.lastindex or 0)

    def fields(self, closing: str) -> list[pa.Field]:
        fields = [self._field()]
        while self._peek() == ",":
            self._next()
            fields.append(self._field())
        self._expect(closing)
        return fields

    def _field(self) -> pa.Field:
        name = self._next()
        if not re.match(r"[A-Za-z_]|`[^`]", name):
            self._fail(f"expected a column name, found {name!r}" if name else "expected a column name", _odd_name(name))
        if self._peek() == ":":
            self._next()
        return pa.field(name.strip("`"), self._type())

    def _type(self) -> pa.DataType:
        name = self._next().lower()
        if name in _SIMPLE:
            return _SIMPLE[name]
        if name == "decimal":
            return self._decimal()
        if name in ("array", "map", "struct"):
            self._expect("<")
            return self._nested(name)
        self._fail(f"{name!r} is not a type" if name else "expected a type", _odd_name(name))

    def _decimal(self) -> pa.DataType:
        if self._peek() != "(":
            return pa.decimal128(10, 0)
        self._next()
        precision, scale = self._number(1, 38), 0
        if self._peek() == ",":
            self._next()
            scale = self._number(0, precision)
        self._expect(")")
        return pa.decimal128(precision, scale)

    def _number(self, least: int, most: int) -> int:
        digits = self._next()
        if not digits.isdecimal() or not least <= int(digits) <= most:
            self._fail(f"expected a number from {least} to {most}, found {digits!r}")
        return int(digits)

    def _nested(self, name: str) -> pa.DataType:
        if name == "struct":
            return pa.struct(self.fields(closing=">"))
        first = self._type()
        if name == "array":
            self._expect(">")
            return pa.list_(first)
        self._expect(",")
        second = self._type()
        self._expect(">")
        return pa.map_(first, second)

    def _peek(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self.at += 1
        return token

    def _expect(self, wanted: str) -> None:
        found = self._next()
        if found != wanted:
            self._fail(f"expected {wanted or 'the end'!r}, found {found!r}")

    def _fail(self, problem: str, do: str = "") -> NoReturn:
        at = self.tokens[self.at - 1][1] if 0 < self.at <= len(self.tokens) else len(self.text)
        raise ConfigError(
            f"schema {self.text!r} cannot be read at character {at + 1}: {problem}",
            why="a schema is a list like 'user string, amount double, ts timestamp'",
            do=do or f"use one of {', '.join(sorted(_SIMPLE))}, decimal(p, s), array<t>, map<k, v>, struct<name: t>",
        )


def _odd_name(found: str) -> str:
    """What to do about a letter that a name may only have in backticks; "" for all else."""
    return "put the name in backticks, as in '`größe` double'" if found.isalpha() and not found.isascii() else ""
