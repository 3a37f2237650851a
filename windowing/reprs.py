"""Values as text: on one line of limited length, without characters that could control a terminal."""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from datetime import datetime, timedelta
from enum import Enum
from itertools import islice
from typing import Any

# Texts of users and of data, as shown to people: of limited length, and without control characters for a terminal.


LONGEST_TEXT = 2_000
"""Most characters of the message of an exception that are shown."""
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, line ends, marks that turn the direction of text around, and halves of characters."""
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str, *, keep: str = "") -> str:
    """Returns the text with escapes for characters that a terminal would obey or cannot show, except for the characters
    to ``keep``.

    A terminal obeys such characters wherever they come from: they move the cursor, and may do far more.
    """
    return _CONTROLS.sub(lambda found: found[0] if found[0] in keep else _escape(found[0]), text)


def cut(text: str, most: int = LONGEST_TEXT) -> str:
    """Returns the text, or its beginning and how long it is."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def error_text(error: BaseException) -> str:
    """Returns an exception as ``ValueError: its message``, cut; also for an exception whose own text fails."""
    try:
        message = str(error)
    except BaseException as failure:
        message = f"(it cannot say what it is: {type(failure).__name__} in its __str__)"
    return printable(cut(f"{type(error).__name__}: {message}"), keep="\n\t")


def _escape(character: str) -> str:
    code = ord(character)
    return _NAMED.get(character, f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def repr_of(value: object) -> str:
    """Returns the repr of a value whose class may be a user's; if it fails, a description of the value, so that an
    error text can name it."""
    try:
        return repr(value)
    except Exception as failure:
        return f"<{type(value).__qualname__}, whose __repr__ raises {type(failure).__name__}>"


# Values in a ``repr``: on one line of limited length, without addresses in memory.


LONGEST_REPR = 180
"""Most characters of a repr."""
_FEW = 10
"""Most elements of a list that are shown."""
_PART = 60
"""Most characters of one argument in a repr."""


def one_line(text: str, most: int = LONGEST_REPR) -> str:
    """Shortens a repr to one line: the middle is cut out, so its brackets stay."""
    text = printable(text)
    if len(text) <= most:
        return text
    kept = (most - 3) // 4
    return f"{text[: most - 3 - kept]}...{text[-kept:]}"


def shown(value: object) -> str:
    """Returns a value within a repr: functions by their names, long values cut."""
    return one_line(_shown(value), _PART)


def _shown(value: object) -> str:  # noqa: PLR0911 - one for each kind
    match value:
        case Enum():
            return f"{type(value).__name__}.{value.name}"
        case functools.partial():
            return f"partial({shown(value.func)}, ...)"
        case str() | bytes() if len(value) > _PART:
            return repr(value[:_PART])[:-1] + "..." + repr(value)[-1]
        case Mapping():
            few = [f"{shown(name)}: {shown(each)}" for name, each in islice(value.items(), _FEW)]
            return "{" + ", ".join(few) + ", ..." * (len(value) > _FEW) + "}"
        case tuple() if type(value) is tuple:
            return f"({', '.join(map(shown, value[:_FEW]))}{',' * (len(value) == 1)}{', ...' * (len(value) > _FEW)})"
        case list():
            return f"[{', '.join(map(shown, value[:_FEW]))}{', ...' * (len(value) > _FEW)}]"
    plain = type(value).__repr__ in (object.__repr__, *_OF_FUNCTIONS)
    if isinstance(value, type) or (callable(value) and plain):
        return str(getattr(value, "__qualname__", type(value).__qualname__)).replace("<locals>.", "")
    return f"<{type(value).__name__}>" if plain else _ADDRESS.sub("", repr_of(value))


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")

_OF_FUNCTIONS = tuple(kind.__repr__ for kind in (types.FunctionType, types.MethodType, types.BuiltinFunctionType))
"""The reprs of functions and methods, which name addresses."""


def call(name: str, /, *values: object, **named: object) -> str:
    """Returns a repr that reads like the call of a constructor."""
    return one_line(
        f"{name}({', '.join([*map(shown, values), *(f'{key}={shown(each)}' for key, each in named.items())])})"
    )


def simple_attributes(instance: object) -> dict[str, object]:
    """Returns the public attributes of an instance that are set on it and simple: no data that may be large."""
    return {name: value for name, value in vars(instance).items() if not name.startswith("_") and _is_simple(value)}


def _is_simple(value: object) -> bool:
    if isinstance(value, tuple | list):
        return 0 < len(value) <= _FEW and all(map(_is_simple, value))
    plain = isinstance(value, str | int | float | Enum | timedelta | datetime)
    return plain or type(value).__module__ == "windowing.durations"  # which imports this module


def of_fields(instance: Any) -> str:
    """Returns the repr of a dataclass: the fields that differ from their defaults, by name."""
    given: dict[str, Any] = {}
    for each in fields(instance):
        value = getattr(instance, each.name)
        if each.repr and not _by_default(each, value):
            given[each.name] = value
    return call(type(instance).__qualname__, **given)


def _by_default(field: Field[Any], value: object) -> bool:
    if field.default is not MISSING:
        return value is field.default or (type(value) is type(field.default) and value == field.default)
    return field.default_factory is not MISSING and isinstance(value, Sequence | Mapping) and not value
