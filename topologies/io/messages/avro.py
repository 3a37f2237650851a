"""Avro messages: one value per message, without the header of a container file (UH-3)."""

from __future__ import annotations

import datetime
import math
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import cached_property, partial
from io import BytesIO
from types import MappingProxyType
from typing import Any, ClassVar
from uuid import UUID

import numpy as np
from fastavro import schemaless_reader, schemaless_writer

from topologies.io.messages.avro_schema import (
    Check,
    ParsedSchema,
    SchemaWalk,
    avro_type,
    check_of,
    logical_type,
    parse_avro,
    tag_of,
)
from topologies.io.messages.message import (
    MAX_BYTES,
    MAX_DEPTH,
    NO_HEADERS,
    Headers,
    Misfit,
    Unreadable,
    Unwritable,
    check_limits,
    checked_bytes,
    checked_size,
    plain_scalar,
    value_and_type,
)
from windowing.errors import ConfigError

# Converts numpy scalars and enum members to plain Python values, as Avro's types expect them.


_FINER = frozenset({"ns", "ps", "fs", "as"})
"""Units of numpy times for which numpy returns a number rather than a datetime."""


def plain_for_avro(value: Any) -> Any:
    """Converts like ``plain_scalar``, but cuts a numpy time finer than Python's to microseconds, towards minus
    infinity, because Avro needs a time rather than a text. Raises Misfit for numpy times beyond Python's."""
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value[()]
    if isinstance(value, np.datetime64) and np.datetime_data(value.dtype)[0] in _FINER:
        return value.astype("datetime64[us]").item()
    return plain_scalar(value)


# Converts Python values for Avro's logical types to the numbers, bytes and texts that are written.
#
# Timestamps take an aware time, or one without a zone, which is UTC; local timestamps take a time without a zone.
# Digits beyond the precision of the type are truncated towards minus infinity. Dates and times of day likewise. All may
# also be whole numbers. Numpy's times and dates are accepted as numpy converts them: a datetime of hours or finer, a
# date of days or coarser. Decimals take a Decimal or a whole number, exact or refused. UUIDs take a UUID or its text.


LogicalFit = Callable[[Any, int], Any]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_FIRST = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)
_LAST = datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.UTC)
_DAY_ZERO = datetime.date(1970, 1, 1).toordinal()
_MICRO, _MILLI = datetime.timedelta(microseconds=1), datetime.timedelta(milliseconds=1)


def _timestamp(schema: Any, unit: datetime.timedelta, local: bool) -> LogicalFit:
    first, last = (_FIRST - _EPOCH) // unit, (_LAST - _EPOCH) // unit

    def fit(value: Any, levels: int) -> int:
        value = plain_for_avro(value)
        if isinstance(value, datetime.datetime) and _is_known(value) and not (local and value.tzinfo):
            zoned = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
            return (zoned - _EPOCH) // unit
        return _number(value, first, last, "local time" if local else "time")

    return fit


def _date(schema: Any) -> LogicalFit:
    def fit(value: Any, levels: int) -> int:
        value = plain_for_avro(value)
        if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            return value.toordinal() - _DAY_ZERO
        return _number(value, 1 - _DAY_ZERO, datetime.date.max.toordinal() - _DAY_ZERO, "date")

    return fit


def _time(schema: Any, unit: datetime.timedelta) -> LogicalFit:
    last = datetime.timedelta(days=1) // unit - 1

    def fit(value: Any, levels: int) -> int:
        value = plain_for_avro(value)
        if isinstance(value, datetime.time) and value.tzinfo is None:
            since = datetime.timedelta(0, value.second, value.microsecond, 0, value.minute, value.hour)
            return since // unit
        return _number(value, 0, last, "time of day without a zone")

    return fit


def _decimal(schema: Any) -> LogicalFit:
    scale, size = int(schema.get("scale", 0)), schema.get("size")
    context = Context(prec=int(schema["precision"]), traps=[Inexact, InvalidOperation])

    def fit(value: Any, levels: int) -> bytes:
        value = plain_for_avro(value)
        if not isinstance(value, Decimal | int) or isinstance(value, bool):
            raise Misfit(f"{value_and_type(value)} is no Decimal")
        try:
            unscaled = Decimal(value).scaleb(scale, context).to_integral_exact(context=context)
            if unscaled and unscaled.adjusted() >= context.prec:
                raise OverflowError
            number = int(unscaled) if unscaled else 0
            return number.to_bytes(size or number.bit_length() // 8 + 1, signed=True)
        except (ArithmeticError, ValueError):
            raise Misfit(
                f"{value_and_type(value)} is not a decimal of {context.prec} digits, {scale} after the point"
            ) from None

    return fit


def _uuid(schema: Any) -> LogicalFit:
    def fit(value: Any, levels: int) -> str:
        value = plain_for_avro(value)
        try:
            return str(value if isinstance(value, UUID) else UUID(value))
        except (ValueError, AttributeError, TypeError):
            raise Misfit(f"{value_and_type(value)} is no UUID") from None

    return fit


def _is_known(value: datetime.datetime) -> bool:
    """False for pandas' NaT, a datetime that equals nothing, not even itself."""
    return value == value  # noqa: PLR0124  the usual test for NaT


def _number(value: Any, first: int, last: int, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not first <= value <= last:
        raise Misfit(f"{value_and_type(value)} is no {what}")
    return int(value)


LOGICAL: Mapping[str, Callable[[Any], LogicalFit]] = MappingProxyType(
    {
        "long-timestamp-millis": partial(_timestamp, unit=_MILLI, local=False),
        "long-timestamp-micros": partial(_timestamp, unit=_MICRO, local=False),
        "long-local-timestamp-millis": partial(_timestamp, unit=_MILLI, local=True),
        "long-local-timestamp-micros": partial(_timestamp, unit=_MICRO, local=True),
        "int-date": _date,
        "int-time-millis": partial(_time, unit=_MILLI),
        "long-time-micros": partial(_time, unit=_MICRO),
        "bytes-decimal": _decimal,
        "fixed-decimal": _decimal,
        "string-uuid": _uuid,
    }
)


# Converts an object to the value that fastavro writes by an Avro schema, or tells why it does not fit the schema.
#
# fastavro writes some values that do not fit: it drops entries that are not fields, takes missing fields as None, and
# rounds whole numbers to doubles. Here nothing is dropped or filled in, except by the defaults of the schema, and no
# whole number is rounded. A Python float becomes the nearest ``float`` of 32 bits if the schema says ``float``.
#
# A fit is called with the value and the number of levels that may still nest. It returns the value for fastavro, with
# the branches of unions chosen, or raises Misfit.


Fit = Callable[[Any, int], Any]

_PREFERRED_LATER = MappingProxyType({"double": 1, "float": 2})  # prefer an int or a long for a whole number
_TOO_DEEP = "nested too deep, or in itself"


def fit_of(parsed: ParsedSchema) -> Fit:
    """Returns the fit for values of a schema."""
    return _Fits(parsed).of(parsed.schema)


class _Fits(SchemaWalk[Fit]):
    """Builds the function that fits values to a schema."""

    @property
    def primitives(self) -> Mapping[str, Fit]:
        return _PRIMITIVE

    def logical(self, schema: Any) -> Fit | None:
        made = LOGICAL.get(logical_type(schema))
        return None if made is None else made(schema)

    def union(self, branches: Sequence[Any]) -> Fit:
        ordered = sorted(branches, key=lambda branch: _PREFERRED_LATER.get(avro_type(branch), 0))
        tagged = tuple((tag_of(branch), self.of(branch)) for branch in ordered if avro_type(branch) != "null")
        return _union(tagged, "null" in branches or {"type": "null"} in branches)

    def array(self, items: Fit) -> Fit:
        return _array(items)

    def mapping(self, values: Fit) -> Fit:
        return _map(values)

    def enum(self, name: str, symbols: Sequence[str]) -> Fit:
        return _enum(name, tuple(symbols))

    def fixed(self, size: int) -> Fit:
        return _fixed(size)

    def record(self, schema: Any, fields: Mapping[str, Fit]) -> Fit:
        given = [field for field in schema["fields"] if "default" in field]
        defaults = {str(field["name"]): (self.defaults.of(field["type"]), field["default"]) for field in given}
        return _record(str(schema["name"]), fields, defaults)

    @cached_property
    def defaults(self) -> _Fits:
        """The fits of the schema's own defaults."""
        return _DefaultFits(self._parsed)


class _DefaultFits(_Fits):
    """The fits of defaults, which are JSON: bytes and decimals are texts with one character per byte, and a union's
    default belongs to the first branch."""

    @property
    def primitives(self) -> Mapping[str, Fit]:
        return _PRIMITIVE_DEFAULTS

    @property
    def defaults(self) -> _Fits:
        return self

    def logical(self, schema: Any) -> Fit | None:
        if logical_type(schema) == "bytes-decimal":
            return _unscaled(_bytes, int(schema["precision"]))
        if logical_type(schema) == "fixed-decimal":
            return _unscaled(_fixed(int(schema["size"])), int(schema["precision"]))
        return super().logical(schema)

    def union(self, branches: Sequence[Any]) -> Fit:
        return _union(tuple((tag_of(branch), self.of(branch)) for branch in branches), nullable=False)

    def fixed(self, size: int) -> Fit:
        return _characters(_fixed(size))


def _null(value: Any, levels: int) -> None:
    if plain_for_avro(value) is not None:
        raise Misfit(f"{value_and_type(value)} is not None")


def _boolean(value: Any, levels: int) -> bool:
    value = plain_for_avro(value)
    if not isinstance(value, bool):
        raise Misfit(f"{value_and_type(value)} is not a boolean")
    return value


def _integer(bits: int) -> Fit:
    beyond = 2 ** (bits - 1)

    def fit(value: Any, levels: int) -> int:
        if type(value) is not int:
            value = plain_for_avro(value)
            if not isinstance(value, int) or isinstance(value, bool):
                raise Misfit(f"{value_and_type(value)} is not a whole number")
        if not -beyond <= value < beyond:
            raise Misfit(f"{value_and_type(value)} is not a number of {bits} bits")
        return int(value)

    return fit


def _double(value: Any, levels: int) -> float:
    if type(value) is not float:
        value = plain_for_avro(value)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise Misfit(f"{value_and_type(value)} is not a number")
    try:
        number = float(value)
    except OverflowError:
        raise Misfit(f"{value_and_type(value)} is beyond a double") from None
    if number != value and not math.isnan(number):
        raise Misfit(f"{value_and_type(value)} would be rounded as a double")
    return number


def _float(value: Any, levels: int) -> float:
    value = plain_for_avro(value)
    number = _double(value, levels)
    try:
        (rounded,) = struct.unpack("<f", struct.pack("<f", number))
    except OverflowError:
        raise Misfit(f"{value_and_type(value)} is beyond a float") from None
    if isinstance(value, int) and rounded != number:
        raise Misfit(f"{value_and_type(value)} would be rounded as a float")
    return number


def _string(value: Any, levels: int) -> str:
    if type(value) is not str:
        value = plain_for_avro(value)
        if not isinstance(value, str):
            raise Misfit(f"{value_and_type(value)} is not text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Misfit(f"{value_and_type(value)} has half a surrogate pair, which is no Unicode") from None
    return str(value)


def _bytes(value: Any, levels: int) -> bytes:
    value = plain_for_avro(value)
    if not isinstance(value, bytes | bytearray):
        raise Misfit(f"{value_and_type(value)} is not bytes")
    return bytes(value)


def _fixed(size: int) -> Fit:
    def fit(value: Any, levels: int) -> bytes:
        made = _bytes(value, levels)
        if len(made) != size:
            raise Misfit(f"{len(made)} bytes instead of {size}")
        return made

    return fit


def _characters(inner: Fit) -> Fit:
    """Returns the fit of bytes that are given as text, with one character per byte."""

    def fit(value: Any, levels: int) -> bytes:
        try:
            made: bytes = inner(value.encode("latin-1"), levels)
        except (AttributeError, UnicodeEncodeError):
            raise Misfit(f"the default {value_and_type(value)} is not a text of bytes") from None
        return made

    return fit


def _unscaled(inner: Fit, precision: int) -> Fit:
    """Returns the fit of a decimal's default, its unscaled number in bytes."""
    bytes_of = _characters(inner)

    def fit(value: Any, levels: int) -> bytes:
        made: bytes = bytes_of(value, levels)
        if abs(int.from_bytes(made, signed=True)) >= 10**precision:
            raise Misfit(f"the default is a decimal of more than {precision} digits")
        return made

    return fit


def _enum(name: str, symbols: tuple[str, ...]) -> Fit:
    def fit(value: Any, levels: int) -> str:
        value = plain_for_avro(value)
        if not isinstance(value, str) or value not in symbols:
            raise Misfit(f"{value_and_type(value)} is not a symbol of {name}")
        return str(value)

    return fit


def _array(inner: Fit) -> Fit:
    def fit(value: Any, levels: int) -> list[Any]:
        value = plain_for_avro(value)
        if not isinstance(value, list | tuple):
            raise Misfit(f"{value_and_type(value)} is not a list")
        if levels == 0:
            raise Misfit(_TOO_DEEP)
        made: list[Any] = []
        try:
            for item in value:
                made.append(inner(item, levels - 1))  # noqa: PERF401 - to name the item that does not fit
        except Misfit as misfit:
            raise misfit.inside(len(made)) from None
        return made

    return fit


def _map(inner: Fit) -> Fit:
    def fit(value: Any, levels: int) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise Misfit(f"{value_and_type(value)} is not an object")
        if levels == 0:
            raise Misfit(_TOO_DEEP)
        made = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise Misfit(f"the name {value_and_type(key)} is not text")
            try:
                made[_string(key, levels)] = inner(item, levels - 1)
            except Misfit as misfit:
                raise misfit.inside(key) from None
        return made

    return fit


def _record(name: str, fields: Mapping[str, Fit], defaults: Mapping[str, tuple[Fit, Any]]) -> Fit:
    def fit(value: Any, levels: int) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise Misfit(f"{value_and_type(value)} is not an object, as {name} is")
        if levels == 0:
            raise Misfit(_TOO_DEEP)
        made = {}
        absent = 0
        key = ""
        try:
            for key, inner in fields.items():
                if key in value:
                    made[key] = inner(value[key], levels - 1)
                elif key in defaults:
                    fit_default, default = defaults[key]
                    made[key] = fit_default(default, levels - 1)
                    absent += 1
                else:
                    raise Misfit("the field is missing")
        except Misfit as misfit:
            raise misfit.inside(key) from None
        if len(value) != len(made) - absent:
            extra = next(key for key in value if key not in fields)
            raise Misfit(f"{name} has no field {value_and_type(extra)}")
        return made

    return fit


def _union(branches: tuple[tuple[str, Fit], ...], nullable: bool) -> Fit:
    tags = ", ".join([*(["null"] if nullable else []), *(tag for tag, _ in branches)])

    def fit(value: Any, levels: int) -> tuple[str, Any]:
        if nullable and plain_for_avro(value) is None:
            return "null", None
        for tag, inner in branches:
            try:
                return tag, inner(value, levels)
            except Misfit:
                if len(branches) == 1:
                    raise
        raise Misfit(f"{value_and_type(value)} fits none of {tags}")

    return fit


_PRIMITIVE: Mapping[str, Fit] = MappingProxyType(
    {
        "null": _null,
        "boolean": _boolean,
        "int": _integer(32),
        "long": _integer(64),
        "float": _float,
        "double": _double,
        "bytes": _bytes,
        "string": _string,
    }
)
_PRIMITIVE_DEFAULTS: Mapping[str, Fit] = MappingProxyType({**_PRIMITIVE, "bytes": _characters(_bytes)})


# An Avro schema, and reading and writing its values.


@dataclass(frozen=True)
class AvroSchema:
    """A schema by its full name. Messages that name no schema use the ``default`` one.

    It is a record, an enum or a fixed, and its text includes every type that it refers to. Raises ConfigError for a
    text that is not a schema, or has another name; ``AvroSchema.parse`` takes the name from the text.
    """

    name: str
    text: str
    default: bool = False
    _schema: dict[str, Any] = field(init=False, repr=False, compare=False)
    _check: Check = field(init=False, repr=False, compare=False)
    _fit: Fit = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        made = parse_avro(self.text)
        if made.schema["name"] != self.name:
            raise ConfigError(f"the Avro schema {self.name!r} is named {made.schema['name']!r} in its text")
        object.__setattr__(self, "_schema", made.schema)
        object.__setattr__(self, "_check", check_of(made))
        object.__setattr__(self, "_fit", fit_of(made))

    @staticmethod
    def parse(text: str, default: bool = False) -> AvroSchema:
        """Returns the schema in a text. Raises ConfigError."""
        return AvroSchema(str(parse_avro(text).schema["name"]), text, default)

    def read(self, value: bytes, max_depth: int) -> Any:
        """Returns the value of a message, which must use all its bytes. Raises Unreadable."""
        try:
            end = self._check(value, 0, max_depth)
            if end != len(value):
                raise Misfit(f"{len(value) - end} bytes are left over after it")
            return schemaless_reader(BytesIO(value), self._schema, None)
        except Misfit as misfit:
            reason: Any = misfit.unwritable()
        except IndexError:
            reason = "the message ends within the value"
        except Exception as error:  # the right shape, but invalid: bad UTF-8, the year 10,000
            reason = repr(error)
        raise Unreadable(f"not a value of {self.name}: {reason}")

    def write(self, event: Any, max_depth: int) -> bytes:
        """Returns the message for a value. Raises Unwritable."""
        message = BytesIO()
        try:
            schemaless_writer(message, self._schema, self._fit(event, max_depth))
        except Misfit as misfit:
            raise Unwritable(f"not a value of {self.name}: {misfit.unwritable()}") from None
        except Exception as error:  # objects may run code of their own
            raise Unwritable(f"not a value of {self.name}: {error!r}") from error
        return message.getvalue()

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroSchema, (self.name, self.text, self.default)


# Avro messages: one value per message, without the header of a container file (UH-3).
#
# The header ``schemaName`` names the schema, by its full name or by the part after the last dot if that is unique.
# Without this header the default schema is used, else the first. The value must fill the message.
#
# Logical types are read as Python's types: timestamps are aware times in UTC, local ones have no zone, decimals are
# exact. Every record of a union is read as an object, and an object is written as the first branch that it fits.


SCHEMA_NAME = "schemaName"


@dataclass(frozen=True)
class AvroMessages:
    """Messages of some schemas, of at most ``max_bytes`` bytes and ``max_depth`` nested records, arrays and maps."""

    schemas: tuple[AvroSchema, ...]
    max_bytes: int = MAX_BYTES
    max_depth: int = MAX_DEPTH
    name: ClassVar[str] = "avro"
    _by_name: dict[bytes, AvroSchema] = field(init=False, repr=False, compare=False)
    _default: AvroSchema = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_limits(self.max_bytes, self.max_depth)
        object.__setattr__(self, "schemas", tuple(self.schemas))
        _check(self.schemas)
        named = {schema.name.encode(): schema for schema in self.schemas}
        short = Counter(_short_name(schema.name) for schema in self.schemas)
        named |= {
            _short_name(schema.name).encode(): schema
            for schema in self.schemas
            if short[_short_name(schema.name)] == 1 and _short_name(schema.name).encode() not in named
        }
        object.__setattr__(self, "_by_name", named)
        object.__setattr__(self, "_default", next((one for one in self.schemas if one.default), self.schemas[0]))

    def read(self, value: bytes | None, headers: Headers = NO_HEADERS) -> Any:
        """Returns the value of a message. Raises Unreadable."""
        schema = self.schema_for(headers)
        if schema is None:
            raise Unreadable(self._unknown(headers))
        return schema.read(checked_bytes(value, self.max_bytes), self.max_depth)

    def write(self, event: Any, headers: Headers = NO_HEADERS) -> bytes:
        """Returns the message for an event. Raises Unwritable."""
        schema = self.schema_for(headers)
        if schema is None:
            raise Unwritable(self._unknown(headers))
        message = schema.write(event, self.max_depth)
        if not message:
            raise Unwritable(f"a value of {schema.name} without any bytes cannot be told from no message")
        return checked_size(message, self.max_bytes)

    def schema_for(self, headers: Headers) -> AvroSchema | None:
        """Returns the schema for a message with these headers; None if they name an unknown schema."""
        name = headers.get(SCHEMA_NAME)
        return self._default if name is None else self._by_name.get(name)

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


def _short_name(name: str) -> str:
    return name.rpartition(".")[2]
