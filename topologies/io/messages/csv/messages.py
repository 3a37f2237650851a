"""CSV messages: one row per message, without a header; the fields have names and an order.

The format is RFC 4180: a value that contains the separator, a quote or a line end is quoted, with quotes doubled;
quotes have no other meaning. The encoding is UTF-8; a byte order mark is skipped. One line break may end the row; a
second row is refused.

A value of an untyped field becomes a number if it is spelled exactly as Python writes that number, so that it is
written as it was read: 1 and 1.5, but not 007, 1e3 or NaN. A value of a typed field has that type, or the message is
Unreadable:

- text: the text unchanged;
- int: digits with an optional sign; float: a finite number with an optional exponent; bool: true or false;
- an empty value is None in these three types, and "" elsewhere.

None is written as empty, booleans as true and false, times, decimals and binary as in JSON. An event must have exactly
these fields, and a typed field a value of its type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from topologies.io.messages.csv.row import CsvRow
from topologies.io.messages.csv.types import TYPES, CsvType, Guessed
from topologies.io.messages.message_errors import Unreadable, Unwritable
from topologies.io.messages.message_format import NO_HEADERS, Headers
from topologies.io.messages.message_limits import MAX_BYTES, check_limits, present, within
from topologies.io.messages.misfit import Misfit, unwritable_if_it_fails, value_and_type
from windowing.errors import ConfigError

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
        kinds: list[CsvType] = [TYPES[self.types[name]] if name in self.types else Guessed() for name in self.fields]
        object.__setattr__(self, "_kinds", tuple(zip(self.fields, kinds, strict=True)))

    def read(self, value: bytes | None, headers: Headers = NO_HEADERS) -> dict[str, Any]:
        """The fields in a message. Raises Unreadable."""
        message = present(value, self.max_bytes)
        try:
            text = (message[len(_BOM) :] if message.startswith(_BOM) else message).decode()
        except UnicodeDecodeError as error:
            raise Unreadable(f"not UTF-8: {error}") from None
        values = self._row.split(text)
        if len(values) != len(self.fields):
            raise Unreadable(f"{_counted(len(self.fields))} expected, {len(values)} found")
        return {name: kind.read(name, text) for (name, kind), text in zip(self._kinds, values, strict=True)}

    def write(self, event: Any, headers: Headers = NO_HEADERS) -> bytes:
        """The message for an event, an object with just the fields. Raises Unwritable."""
        with unwritable_if_it_fails():
            try:
                return within(self._row.join(self._texts(event)).encode(), self.max_bytes)
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


def _counted(count: int) -> str:
    return f"{count} value{'s' if count != 1 else ''}"
