"""Types of CSV fields: from text to values and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from topologies.io.documents.strict import exact_float
from topologies.io.messages.message_errors import Unreadable
from topologies.io.messages.misfit import Misfit, value_and_type
from topologies.io.messages.scalars import simple, text_of

_ENDS_OF_NUMBERS = frozenset("0123456789")
_INT = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class CsvType(Protocol):
    """The type of a field's values."""

    def read(self, name: str, text: str) -> Any:
        """Called with the text of the field ``name``. Raises Unreadable."""

    def text(self, value: Any) -> str:
        """Called with the value of the field. Raises Misfit."""


class Guessed:
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
        return text_of(value)


class PlainText:
    """Text as it is."""

    def read(self, name: str, text: str) -> str:
        return text

    def text(self, value: Any) -> str:
        return text_of(value)


@dataclass(frozen=True)
class Typed:
    """A type whose values have their own spelling; empty text is None."""

    name: str
    kinds: type | tuple[type, ...]
    spellings: re.Pattern[str]

    def read(self, name: str, text: str) -> bool | int | float | None:
        if not text:
            return None
        if self.spellings.fullmatch(text):
            try:
                return self._value(text)
            except ValueError as error:  # more digits than the type has
                raise Unreadable(f"field {name}: {error}") from None
        raise Unreadable(f"field {name}: {value_and_type(text)} is no {self.name}")

    def text(self, value: Any) -> str:
        value = simple(value)
        fits = isinstance(value, self.kinds) and isinstance(value, bool) == (self.name == "bool")
        if not fits and value is not None:
            raise Misfit(f"{value_and_type(value)} is no {self.name}")
        return text_of(value)

    def _value(self, text: str) -> bool | int | float:
        if self.name == "bool":
            return text == "true"
        if self.name == "int":
            return int(text)
        return exact_float(text.removeprefix("+"))


TYPES: Mapping[str, CsvType] = MappingProxyType(
    {
        "text": PlainText(),
        "int": Typed("int", int, _INT),
        "float": Typed("float", (int, float), _FLOAT),
        "bool": Typed("bool", bool, re.compile("true|false")),
    }
)
