"""Declared columns, and the conversion of the values that bolts return to tables of these columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import pyarrow as pa

from windowing.calls import checked_on_failure
from windowing.columns import copy_table, own_value
from windowing.conversion import REFUSED, convert_column, convert_values, in_declared_order
from windowing.errors import ConfigError, SchemaError
from windowing.reprs import fields_repr, repr_of

# Declared columns: ``"user string, amount double, ts timestamp"`` and its Arrow schema.


SchemaLike: TypeAlias = str | pa.Schema
"""Columns as users declare them: a text, ``"user string, amount double"``, or an Arrow schema."""

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
_DIGITS = 38
"""Greatest number of digits of a declared decimal."""
_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|([A-Za-z_][A-Za-z0-9_]*)|(\d+)|(.))", re.S)


def parse_schema(declared: str | pa.Schema) -> pa.Schema:
    """Returns the Arrow schema of a declaration in Spark's DDL form.

    Types: string, binary, boolean, tinyint, smallint, int, long (bigint), float, double, date, timestamp (UTC, rounded
    down to microseconds), decimal(p, s), array<t>, map<k, v>, struct<name: t, ...>. A ``pa.Schema`` is returned
    unchanged. Raises ConfigError, with the position in the text, for anything else.
    """
    if isinstance(declared, pa.Schema):
        _refuse_repeated_names("pa.schema(...)", list(declared))
        return declared
    if not isinstance(declared, str):
        raise ConfigError(
            f"{repr_of(declared):.60} is not a schema",
            do="write a text like 'user string, ts timestamp', or give a pa.Schema",
        )
    parser = _Parser(declared)
    fields = parser.fields(closing="")
    _refuse_repeated_names(f"schema {declared!r}", fields)
    return pa.schema(fields)


def _refuse_repeated_names(what: str, fields: list[pa.Field]) -> None:
    repeated = _repeated_names(fields)
    if repeated:
        raise ConfigError(
            f"{what} names {repeated} more than once",
            why="a column is known by its name",
            do="give each column a name of its own",
        )


def _repeated_names(fields: list[pa.Field]) -> str:
    names = [field.name for field in fields]
    return ", ".join(map(repr, sorted({name for name in names if names.count(name) > 1})))


def read_written_schema(text: str) -> pa.Schema:
    """Returns the schema that ``format_schema`` wrote as this text, also with types that only Arrow has, such as
    ``uint8``. A type that cannot be read back, such as a dictionary type, becomes the null type."""
    return pa.schema(_Parser(text, allows_arrow_types=True).fields(closing="")) if text else pa.schema([])


def is_read_back(kind: pa.DataType) -> bool:
    """True unless a type is, or contains, the null type, by which ``read_written_schema`` replaces unreadable types."""
    if pa.types.is_nested(kind):
        return all(is_read_back(kind.field(number).type) for number in range(kind.num_fields))
    return not pa.types.is_null(kind)


def value_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type of a column's values; for a dictionary type, the type of the dictionary's values."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def narrowest(schema: pa.Schema) -> pa.Field:
    """Returns the column with the narrowest values; a column of variable width only if there is no other."""
    return min(schema, key=_width)


def _width(field: pa.Field) -> int:
    try:
        return int(field.type.bit_width)
    except ValueError:
        return 1_000_000


def format_schema(schema: pa.Schema) -> str:
    """Returns the text of an Arrow schema in the form that ``parse_schema`` reads."""
    return ", ".join(f"{_quoted(field.name)} {_type_name(field.type)}" for field in schema)


def _quoted(name: str) -> str:
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return name
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


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
    """A recursive descent parser of texts like ``name type, name type``."""

    def __init__(self, text: str, *, allows_arrow_types: bool = False) -> None:
        """``allows_arrow_types``: True for a text of ``format_schema``, which may have types and names that users
        cannot declare."""
        self.text, self.allows_arrow_types = text, allows_arrow_types
        self.tokens = list(self._tokens(text))
        self.position = 0

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
        if not re.match(r"[A-Za-z_]|`.+`", name, re.S) and not (self.allows_arrow_types and name == "``"):
            self._fail(
                f"expected a column name, found {name!r}" if name else "expected a column name",
                _advice_for_letter(name),
            )
        if self._peek() == ":":
            self._next()
        return pa.field(_unquoted(name), self._type())

    def _type(self) -> pa.DataType:
        start = self.position
        try:
            return self._declared_type()
        except ConfigError:
            if not self.allows_arrow_types:
                raise
        self.position = start
        return _type_written_by_arrow(self._skip_type())

    def _skip_type(self) -> str:
        """Returns the text of a type, up to the comma or bracket that follows it."""
        start, depth = self.position, 0
        while (token := self._peek()) and (depth or token not in (",", ">")):
            depth += (token in ("<", "(", "[")) - (token in (">", ")", "]"))
            self.position += 1
        offsets = [offset for _, offset in self.tokens[start : self.position + 1]]
        return (
            self.text[offsets[0] : offsets[-1] if self.position < len(self.tokens) else None].strip() if offsets else ""
        )

    def _declared_type(self) -> pa.DataType:
        name = self._next().lower()
        if name in _SIMPLE:
            return _SIMPLE[name]
        if name == "decimal":
            return self._decimal_type()
        if name in ("array", "map", "struct"):
            self._expect("<")
            return self._nested_type(name)
        self._fail(f"{name!r} is not a type" if name else "expected a type", _advice_for_letter(name))

    def _decimal_type(self) -> pa.DataType:
        if self._peek() != "(":
            return pa.decimal128(10, 0)
        self._next()
        precision, scale = self._number(1, _DIGITS), 0
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

    def _nested_type(self, name: str) -> pa.DataType:
        if name == "struct":
            fields = self.fields(closing=">")
            repeated = _repeated_names(fields)
            if repeated:
                self._fail(f"a struct names {repeated} more than once", "give each field a name of its own")
            return pa.struct(fields)
        key_or_element = self._type()
        if name == "array":
            self._expect(">")
            return pa.list_(key_or_element)
        self._expect(",")
        value = self._type()
        self._expect(">")
        return pa.map_(key_or_element, value)

    def _peek(self) -> str:
        return self.tokens[self.position][0] if self.position < len(self.tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self.position += 1
        return token

    def _expect(self, token: str) -> None:
        next_token = self._next()
        if next_token != token:
            self._fail(f"expected {token or 'the end'!r}, found {next_token!r}")

    def _fail(self, problem: str, do: str = "") -> NoReturn:
        offset = self.tokens[self.position - 1][1] if 0 < self.position <= len(self.tokens) else len(self.text)
        raise ConfigError(
            f"schema {self.text!r} cannot be read at character {offset + 1}: {problem}",
            why="a schema is a list like 'user string, amount double, ts timestamp'",
            do=do or f"use one of {', '.join(sorted(_SIMPLE))}, decimal(p, s), array<t>, map<k, v>, struct<name: t>",
        )


def _type_written_by_arrow(text: str) -> pa.DataType:
    """Returns the type that Arrow writes as this text; the null type if it cannot be read back."""
    if text in _EXTENSIONS:
        return _EXTENSIONS[text]
    if (match := _FIXED_SIZE_BINARY.fullmatch(text)) is not None:
        return pa.binary(int(match[1]))
    if (match := _ANY_DECIMAL.fullmatch(text)) is not None:
        make = pa.decimal128 if int(match[1]) <= _DIGITS else pa.decimal256
        return make(int(match[1]), int(match[2]))
    try:
        return pa.type_for_alias(text)
    except ValueError:
        return pa.null()


_FIXED_SIZE_BINARY = re.compile(r"fixed_size_binary\[(\d+)\]")
_ANY_DECIMAL = re.compile(r"decimal\((\d+), (-?\d+)\)")
"""Matches all decimal types, also those that users cannot declare: with more digits, or a scale below 0."""
_EXTENSIONS = {str(kind): kind for kind in (pa.json_(), pa.uuid())}


def _advice_for_letter(token: str) -> str:
    """Returns advice for a letter that is only allowed within backticks; "" for other texts."""
    return "put the name in backticks, as in '`größe` double'" if token.isalpha() and not token.isascii() else ""


# The values that a bolt may return, and their conversion to tables of the declared columns.


DEFAULT_STREAM = "default"

EmittedRows = Any
"""None, a table, record batch, DataFrame, one row as a dict or tuple, ``Emit``, or an iterable of any of these."""


@checked_on_failure
@dataclass(frozen=True)
class Emit:
    """Rows for a named output stream: ``yield Emit(rows, stream="alerts")``."""

    rows: EmittedRows
    stream: str = DEFAULT_STREAM

    def __repr__(self) -> str:
        return fields_repr(self)


LooseRows = list[tuple[Any, ...]]
"""Rows as tuples, each in the order of the declared columns."""


def emissions(rows: EmittedRows, outputs: Mapping[str, pa.Schema]) -> Iterator[tuple[str, pa.Table | LooseRows]]:
    """Split the return value of a bolt by stream. Yields the name of a stream, and a table or a list of rows.

    Everything is checked, except the types of values in rows. Successive rows of a stream are yielded together;
    ``from_rows`` checks their types, and converts them to a table.
    """
    if rows is None:
        return
    if isinstance(rows, (tuple, dict)) and DEFAULT_STREAM in outputs:  # the common case of one row
        yield DEFAULT_STREAM, [_row_values(rows, outputs[DEFAULT_STREAM])]
        return
    collected: LooseRows = []
    collected_for = ""
    for stream, part in _flatten(rows, DEFAULT_STREAM):
        if not isinstance(stream, str) or stream not in outputs:
            raise SchemaError(
                f"rows for a stream {repr_of(stream):.60}",
                why=f"the bolt declares {', '.join(map(repr, outputs)) or 'no outputs'}",
                do="declare it in `outputs`, or emit to one that is declared",
            )
        if collected and (stream != collected_for or not isinstance(part, (dict, tuple))):
            yield collected_for, collected
            collected = []
        if isinstance(part, (dict, tuple)):
            collected.append(_row_values(part, outputs[stream]))
            collected_for = stream
        else:
            yield stream, copy_table(conform(_as_table(part, outputs[stream]), outputs[stream]))
    if collected:
        yield collected_for, collected


def tables(rows: EmittedRows, outputs: Mapping[str, pa.Schema]) -> Iterator[tuple[str, pa.Table]]:
    """Convert the return value of a bolt to tables. Yields the name of a stream, and a table."""
    for stream, part in emissions(rows, outputs):
        yield stream, from_rows(part, outputs[stream]) if isinstance(part, list) else part


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Convert a table to the declared columns, in their order and types.

    Columns are found by name, never by position (decision 61). Raises SchemaError for other names than the declared
    ones, and for conversions that would change a value (``windowing.conversion``).
    """
    if table.schema.equals(schema):
        return table
    _check_names(table.column_names, schema)
    table = table.select(schema.names)
    columns = []
    for field, column in zip(schema, table.columns, strict=True):
        try:
            columns.append(convert_column(column, field.type))
        except REFUSED as error:
            raise SchemaError(
                f"column {field.name!r} is {column.type}, and was declared {field.type}",
                why=str(error),
                do="declare the type that the bolt returns, or convert it in the bolt",
            ) from error
    return pa.Table.from_arrays(columns, schema=schema)


def _check_names(names: list[str], schema: pa.Schema) -> None:
    """Raise SchemaError unless a table has exactly the declared columns, in any order."""
    declared = schema.names
    if len(names) == len(declared) and set(names) == set(declared):
        return
    missing = [name for name in declared if name not in names]
    unknown = [name for name in names if name not in declared]
    if missing and len(names) == len(declared):
        not_used = iter(missing)
        renamed = [name if name in declared else next(not_used, name) for name in names]
        do = f"name them, perhaps table.rename_columns({renamed}), or return tuples, which go by place"
        raise _mismatch(
            names, schema, f"the columns of a table go by name, and there is no {_quoted_names(missing)}", do
        )
    if missing:
        raise _mismatch(names, schema, f"the columns of a table go by name, and there is no {_quoted_names(missing)}")
    do = f"return the declared columns alone, table.select({declared}), or declare the others in `outputs`"
    raise _mismatch(names, schema, f"there are more columns: {_quoted_names(unknown) or 'a name stands twice'}", do)


def _flatten(rows: EmittedRows, stream: str) -> Iterator[tuple[str, Any]]:
    if rows is None:
        return
    if isinstance(rows, Emit):
        yield from _flatten(rows.rows, rows.stream)
    elif isinstance(rows, (pa.Table, pa.RecordBatch, dict, tuple)) or _is_frame(rows):
        yield stream, rows
    elif isinstance(rows, Iterable) and not isinstance(rows, (str, bytes)):
        for part in rows:
            yield from _flatten(part, stream)
    else:
        raise SchemaError(
            f"a bolt returned {type(rows).__name__} {repr_of(rows):.60}",
            why="that is neither rows nor a table",
            do="return None, a pyarrow table, a DataFrame, a dict or tuple per row, or yield any of these",
        )


def _is_frame(rows: Any) -> bool:
    return hasattr(rows, "columns") and hasattr(rows, "iloc")


def _as_table(part: Any, schema: pa.Schema) -> pa.Table:
    """Convert a table, record batch or DataFrame to a table. A DataFrame with unnamed columns (0, 1, 2) gets the
    declared names."""
    if isinstance(part, pa.Table):
        return part
    if isinstance(part, pa.RecordBatch):
        return pa.Table.from_batches([part])
    table = pa.Table.from_pandas(part, preserve_index=False).replace_schema_metadata(None)
    unnamed = list(part.columns) == list(range(len(schema)))
    return table.rename_columns(schema.names) if unnamed else table


def _row_values(row: dict[str, Any] | tuple[Any, ...], schema: pa.Schema) -> tuple[Any, ...]:
    names = schema.names
    if isinstance(row, tuple):
        if len(row) != len(names):
            raise _mismatch(list(row), schema, f"a row has {len(row)} values, {len(names)} were declared")
        values = row if type(row) is tuple else tuple(in_declared_order(row, names))
    elif len(row) != len(names) or any(name not in row for name in names):
        missing = [name for name in names if name not in row]
        unknown = [name for name in row if name not in names]
        absent = [f"there is no {_quoted_names(missing)}"] if missing else []
        undeclared = (
            [f"{_quoted_names(unknown)} {'is' if len(unknown) == 1 else 'are'} not declared"] if unknown else []
        )
        raise _mismatch(list(row), schema, "; ".join(absent + undeclared))
    else:
        values = tuple(row[name] for name in names)
    # Many rows are converted at once; until then the bolt may change its lists and dicts.
    copied: tuple[Any, ...] = own_value(values)
    return copied


def from_rows(rows: LooseRows, schema: pa.Schema) -> pa.Table:
    """Convert rows to a table. Raises SchemaError if a value does not have the declared type."""
    arrays = []
    for field, column in zip(schema, zip(*rows, strict=True), strict=True):
        try:
            arrays.append(convert_values(column, field.type))
        except REFUSED as error:
            raise SchemaError(
                f"column {field.name!r} was declared {field.type}, and a value is something else",
                why=str(error),
                do="declare the type that the bolt returns, or convert the value in the bolt",
            ) from error
    return pa.Table.from_arrays(arrays, schema=schema)


def _quoted_names(names: Iterable[Any]) -> str:
    return ", ".join(map(repr_of, names))


def _mismatch(
    found: list[Any], schema: pa.Schema, why: str, do: str = "return the declared columns, or change `outputs`"
) -> SchemaError:
    names = ", ".join(each if isinstance(each, str) else repr_of(each) for each in found)
    return SchemaError(
        f"a bolt returned {names[:200]}, but declares {format_schema(schema)!r}",
        why=why,
        do=do,
    )
