"""CSV messages: one row per message, without a header; the fields have names and an order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

from topologies.io.documents import exact_float
from topologies.io.messages.message import (
    MAX_BYTES,
    NO_HEADERS,
    Headers,
    Misfit,
    Unreadable,
    Unwritable,
    check_limits,
    checked_bytes,
    checked_size,
    plain_scalar,
    text_of_scalar,
    unwritable_if_it_fails,
    value_and_type,
)
from windowing.errors import ConfigError

# Splits and joins one row of CSV (RFC 4180).


class CsvRow:
    """Rows whose values are separated by a character."""

    def __init__(self, separator: str) -> None:
        if len(separator) != 1 or separator in '"\r\n':
            raise ConfigError(
                f"the separator of a CSV message is {separator!r}",
                do="give one character that is neither a quote nor a line end",
            )
        self.separator = separator
        quoted = re.escape(separator)
        self._value = re.compile(rf'(?:"([^"]*+(?:""[^"]*+)*+)"|([^"{quoted}\r\n]*))({quoted}|\Z)')
        self._needs_quotes = re.compile(rf'["{quoted}\r\n]')

    def split(self, text: str) -> list[str]:
        """Returns the values of a row, which may end with one line break. Raises Unreadable."""
        row = text[:-1].removesuffix("\r") if text.endswith("\n") else text
        if '"' in row:
            return self._split_quoted(row)
        if "\n" in row or "\r" in row:
            raise Unreadable("a line break within the message, which must be one row")
        return row.split(self.separator)

    def join(self, texts: Sequence[str]) -> str:
        """Returns the row with these values, without a line break at its end."""
        if len(texts) == 1 and not texts[0]:
            return '""'  # an empty message is not a row
        return self.separator.join([self._quoted(text) for text in texts])

    def _quoted(self, text: str) -> str:
        if not self._needs_quotes.search(text):
            return text
        doubled = text.replace('"', '""')
        return f'"{doubled}"'

    def _split_quoted(self, row: str) -> list[str]:
        values: list[str] = []
        position = 0
        while match := self._value.match(row, position):
            quoted, plain, end = match.groups()
            values.append(plain if quoted is None else quoted.replace('""', '"'))
            if not end:
                return values
            position = match.end()
        raise Unreadable(f"value {len(values) + 1} of the row has a quote or a line break where none may be")


# Types of CSV fields: from text to values and back.


_ENDS_OF_NUMBERS = frozenset("0123456789")
_INT = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class CsvType(Protocol):
    """The type of a field's values."""

    def read(self, name: str, text: str) -> Any:
        """Called with the text of the field ``name``. Raises Unreadable."""

    def text(self, value: Any) -> str:
        """Called with the value of the field. Raises Misfit."""


class GuessedType:
    """A number if it is spelled as Python spells it, else text."""

    def read(self, name: str, text: str) -> int | float | str:
        if text[-1:] not in _ENDS_OF_NUMBERS or text[0] > "9":
            return text
        try:
            number = float(text) if "." in text or "e" in text else int(text)
            spelled = repr(number)
        except ValueError:
            return text
        return number if spelled == text else text

    def text(self, value: Any) -> str:
        return text_of_scalar(value)


class PlainText:
    """Text, unchanged."""

    def read(self, name: str, text: str) -> str:
        return text

    def text(self, value: Any) -> str:
        return text_of_scalar(value)


@dataclass(frozen=True)
class SpelledType:
    """A type with its own spelling of values; empty text is None."""

    name: str
    kinds: type | tuple[type, ...]
    spellings: re.Pattern[str]

    def read(self, name: str, text: str) -> bool | int | float | None:
        if not text:
            return None
        if self.spellings.fullmatch(text):
            try:
                return self._value(text)
            except ValueError as error:  # more digits than the type allows
                raise Unreadable(f"field {name}: {error}") from None
        raise Unreadable(f"field {name}: {value_and_type(text)} is no {self.name}")

    def text(self, value: Any) -> str:
        value = plain_scalar(value)
        fits = isinstance(value, self.kinds) and isinstance(value, bool) == (self.name == "bool")
        if not fits and value is not None:
            raise Misfit(f"{value_and_type(value)} is no {self.name}")
        return text_of_scalar(value)

    def _value(self, text: str) -> bool | int | float:
        if self.name == "bool":
            return text == "true"
        if self.name == "int":
            return int(text)
        return exact_float(text.removeprefix("+"))


TYPES: Mapping[str, CsvType] = MappingProxyType(
    {
        "text": PlainText(),
        "int": SpelledType("int", int, _INT),
        "float": SpelledType("float", (int, float), _FLOAT),
        "bool": SpelledType("bool", bool, re.compile("true|false")),
    }
)


# CSV messages: one row per message, without a header; the fields have names and an order.
#
# The format is RFC 4180: a value that contains the separator, a quote or a line end is quoted, with quotes doubled;
# quotes have no other meaning. The encoding is UTF-8; a byte order mark is skipped. One line break may end the row; a
# second row is refused.
#
# A value of an untyped field becomes a number if it is spelled exactly as Python writes that number, so that it is
# written as it was read: 1 and 1.5, but not 007, 1e3 or NaN. A value of a typed field has that type, or the message is
# Unreadable:
#
# - text: the text unchanged;
# - int: digits with an optional sign; float: a finite number with an optional exponent; bool: true or false;
# - an empty value is None in these three types, and "" elsewhere.
#
# None is written as empty, booleans as true and false, times, decimals and binary as in JSON. An event must have
# exactly these fields, and a typed field a value of its type.


_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class CsvMessages:
    """Messages that are a row of these fields; ``types`` maps a field to text, int, float or bool."""

    fields: tuple[str, ...]
    separator: str = ","
    types: Mapping[str, str] = field(default_factory=dict, hash=False)
    max_bytes: int = MAX_BYTES
    name: ClassVar[str] = "csv"
    _row: CsvRow = field(init=False, repr=False, compare=False)
    _kinds: tuple[tuple[str, CsvType], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_limits(self.max_bytes, max_depth=1)
        if isinstance(self.fields, str):
            raise ConfigError(f"the fields of a CSV message are {self.fields!r}", do="give a tuple of names")
        object.__setattr__(self, "fields", tuple(self.fields))
        object.__setattr__(self, "types", dict(self.types))
        _check(self.fields, self.types)
        object.__setattr__(self, "_row", CsvRow(self.separator))
        kinds: list[CsvType] = [
            TYPES[self.types[name]] if name in self.types else GuessedType() for name in self.fields
        ]
        object.__setattr__(self, "_kinds", tuple(zip(self.fields, kinds, strict=True)))

    def read(self, value: bytes | None, headers: Headers = NO_HEADERS) -> dict[str, Any]:
        """Returns the fields in a message. Raises Unreadable."""
        message = checked_bytes(value, self.max_bytes)
        try:
            text = (message[len(_BOM) :] if message.startswith(_BOM) else message).decode()
        except UnicodeDecodeError as error:
            raise Unreadable(f"not UTF-8: {error}") from None
        values = self._row.split(text)
        if len(values) != len(self.fields):
            raise Unreadable(f"{_values_in_words(len(self.fields))} expected, {len(values)} found")
        return {name: kind.read(name, text) for (name, kind), text in zip(self._kinds, values, strict=True)}

    def write(self, event: Any, headers: Headers = NO_HEADERS) -> bytes:
        """Returns the message for an event, an object with just the fields. Raises Unwritable."""
        with unwritable_if_it_fails():
            try:
                return checked_size(self._row.join(self._texts(event)).encode(), self.max_bytes)
            except UnicodeEncodeError as error:
                raise Unwritable(f"the event cannot be written as UTF-8: {error}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return CsvMessages, (self.fields, self.separator, self.types, self.max_bytes)

    def _texts(self, event: Any) -> list[str]:
        if not isinstance(event, Mapping):
            raise Misfit(f"an object with the fields is needed, not {value_and_type(event)}")
        texts = []
        for name, kind in self._kinds:
            if name not in event:
                raise Misfit("the field is missing").inside(name)
            try:
                texts.append(kind.text(event[name]))
            except Misfit as misfit:
                raise misfit.inside(name) from None
        if len(event) > len(texts):
            extra = next(name for name in event if name not in self.fields)
            raise Misfit(f"{value_and_type(extra)} is none of the fields {', '.join(self.fields)}")
        return texts


def _check(fields: tuple[str, ...], types: Mapping[str, str]) -> None:
    if not fields or not all(fields):
        raise ConfigError(f"the fields of a CSV message are {fields!r}", do="name every field, at least one")
    twice = [name for index, name in enumerate(fields) if name in fields[:index]]
    if twice:
        raise ConfigError(f"field {twice[0]!r} of a CSV message is named twice")
    for name, kind in types.items():
        if name not in fields:
            raise ConfigError(f"a type is given for {name!r}", why=f"the fields are {', '.join(fields)}")
        if kind not in TYPES:
            raise ConfigError(f"the type of field {name!r} is {kind!r}", do=f"give one of {', '.join(TYPES)}")


def _values_in_words(count: int) -> str:
    return f"{count} value{'s' if count != 1 else ''}"
