"""Values as text of limited length, without characters that could control a terminal."""

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

# Texts for terminals.


LONGEST_TEXT = 2_000
"""Greatest number of characters that are shown of a text such as the message of an exception."""
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, line ends, marks that change the direction of text, and surrogates (halves of characters)."""
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str, *, keep: str = "") -> str:
    """Escape the characters of a text that would control a terminal or cannot be shown, except those in ``keep``.

    Such characters can come from any input; in a terminal they can move the cursor, and do far more.
    """
    return _CONTROLS.sub(lambda match: match[0] if match[0] in keep else _escape(match[0]), text)


def shorten(text: str, most: int = LONGEST_TEXT) -> str:
    """Returns the text; if it has more than ``most`` characters, only its beginning and its length."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def error_text(error: BaseException) -> str:
    """Returns an exception as ``ValueError: its message``, shortened; also if the ``__str__`` of the exception
    fails."""
    try:
        message = str(error)
    except BaseException as failure:
        message = f"(it cannot say what it is: {type(failure).__name__} in its __str__)"
    return printable(shorten(f"{type(error).__name__}: {message}"), keep="\n\t")


def _escape(character: str) -> str:
    code = ord(character)
    return _ESCAPES.get(character, f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def repr_of(value: object) -> str:
    """Returns the repr of a value; if the repr raises an exception, a description of the value."""
    try:
        return repr(value)
    except Exception as failure:
        return f"<{type(value).__qualname__}, whose __repr__ raises {type(failure).__name__}>"


# Reprs of one line, of limited length, without addresses in memory.


LONGEST_REPR = 180
"""Greatest number of characters of a repr."""
_MOST_ELEMENTS = 10
"""Greatest number of elements of a list in a repr."""
_LONGEST_ARGUMENT = 60
"""Greatest number of characters of one argument in a repr."""


def one_line(text: str, most: int = LONGEST_REPR) -> str:
    """Shorten a text to one line of at most ``most`` characters, by cutting out its middle."""
    text = printable(text)
    if len(text) <= most:
        return text
    at_end = (most - 3) // 4
    return f"{text[: most - 3 - at_end]}...{text[-at_end:]}"


def nested_repr(value: object) -> str:
    """Returns the repr of a value as part of a longer repr: functions are their names, long values are shortened."""
    return one_line(_repr_by_type(value), _LONGEST_ARGUMENT)


def _repr_by_type(value: object) -> str:  # noqa: PLR0911 - one for each kind
    match value:
        case Enum():
            return f"{type(value).__name__}.{value.name}"
        case functools.partial():
            return f"partial({nested_repr(value.func)}, ...)"
        case str() | bytes() if len(value) > _LONGEST_ARGUMENT:
            return repr(value[:_LONGEST_ARGUMENT])[:-1] + "..." + repr(value)[-1]
        case Mapping():
            entries = [
                f"{nested_repr(name)}: {nested_repr(each)}" for name, each in islice(value.items(), _MOST_ELEMENTS)
            ]
            return "{" + ", ".join(entries) + ", ..." * (len(value) > _MOST_ELEMENTS) + "}"
        case tuple() if type(value) is tuple:
            elements = ", ".join(map(nested_repr, value[:_MOST_ELEMENTS]))
            return f"({elements}{',' * (len(value) == 1)}{', ...' * (len(value) > _MOST_ELEMENTS)})"
        case list():
            return f"[{', '.join(map(nested_repr, value[:_MOST_ELEMENTS]))}{', ...' * (len(value) > _MOST_ELEMENTS)}]"
    has_plain_repr = type(value).__repr__ in (object.__repr__, *_FUNCTION_REPRS)
    if isinstance(value, type) or (callable(value) and has_plain_repr):
        return str(getattr(value, "__qualname__", type(value).__qualname__)).replace("<locals>.", "")
    return f"<{type(value).__name__}>" if has_plain_repr else _ADDRESS.sub("", repr_of(value))


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")

_FUNCTION_REPRS = tuple(kind.__repr__ for kind in (types.FunctionType, types.MethodType, types.BuiltinFunctionType))
"""The ``__repr__`` of functions and methods; they contain addresses."""


def call_repr(name: str, /, *values: object, **named: object) -> str:
    """Returns a repr that reads like a call, ``name(value, argument=value)``."""
    arguments = [*map(nested_repr, values), *(f"{key}={nested_repr(each)}" for key, each in named.items())]
    return one_line(f"{name}({', '.join(arguments)})")


def simple_attributes(instance: object) -> dict[str, object]:
    """Returns the public attributes of an instance that are texts, numbers, times, Enums or short lists of these."""
    return {name: value for name, value in vars(instance).items() if not name.startswith("_") and _is_simple(value)}


def _is_simple(value: object) -> bool:
    if isinstance(value, tuple | list):
        return 0 < len(value) <= _MOST_ELEMENTS and all(map(_is_simple, value))
    is_scalar = isinstance(value, str | int | float | Enum | timedelta | datetime)
    return is_scalar or type(value).__module__ == "windowing.durations"  # which imports this module


def fields_repr(instance: Any) -> str:
    """Returns the repr of a dataclass, with the fields that differ from their defaults."""
    changed: dict[str, Any] = {}
    for each in fields(instance):
        value = getattr(instance, each.name)
        if each.repr and not _is_default(each, value):
            changed[each.name] = value
    return call_repr(type(instance).__qualname__, **changed)


def _is_default(field: Field[Any], value: object) -> bool:
    if field.default is not MISSING:
        return value is field.default or (type(value) is type(field.default) and value == field.default)
    return field.default_factory is not MISSING and isinstance(value, Sequence | Mapping) and not value
