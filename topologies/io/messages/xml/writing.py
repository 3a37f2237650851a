"""Writes nested objects as a document, checking every name and character."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any
from xml.parsers import expat

from topologies.io.messages.message_errors import Unwritable
from topologies.io.messages.message_limits import too_deep
from topologies.io.messages.misfit import Misfit, value_and_type
from topologies.io.messages.scalars import simple, text_of

_PROLOG = '<?xml version="1.0" encoding="utf-8"?>\n'
_PLAIN_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_MARKUP = re.compile(r"[\s<>&/='\"?!]")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_UNUSUAL = re.compile("[^ !#-%'-;=?-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # escaped somewhere, or forbidden
_IN_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_IN_ATTRIBUTE = _IN_TEXT | str.maketrans({'"': "&quot;", "\n": "&#10;", "\t": "&#9;"})


class XmlWriting:
    """The state of writing one document: its pieces so far, and a lower bound on their size in bytes."""

    def __init__(self, max_bytes: int, max_depth: int) -> None:
        self._max_bytes, self._max_depth = max_bytes, max_depth
        self._pieces: list[str] = [_PROLOG]
        self._length = len(_PROLOG)

    def write(self, event: Any) -> bytes:
        """The document of an object with one entry. Raises Misfit and Unwritable."""
        if not isinstance(event, dict) or len(event) != 1:
            raise Misfit(f"a document has one root: an object with one entry is needed, not {_summary(event)}")
        ((name, root),) = event.items()
        if isinstance(simple(root), list | tuple):
            raise Misfit("a document has one root, not a list").inside(str(name))
        self._entry(name, root, self._max_depth)
        return "".join(self._pieces).encode()

    def _entry(self, name: Any, value: Any, levels: int) -> None:
        checked = _name(name)
        value = simple(value)
        if not isinstance(value, list | tuple):
            _inside(name, self._element, checked, value, levels)
            return
        for index, item in enumerate(value):
            if isinstance(item, list | tuple):
                raise Misfit("a list in a list has no form in XML").inside(index).inside(name)
            _inside(name, _inside, index, self._element, checked, item, levels)

    def _element(self, name: str, value: Any, levels: int) -> None:
        if levels == 0:
            raise Misfit(str(too_deep(self._max_depth)))
        if isinstance(value, dict):
            self._object(name, value, levels - 1)
        elif text := _text(value, _IN_TEXT):
            self._put(f"<{name}>{text}</{name}>")
        else:
            self._put(f"<{name}/>")

    def _object(self, name: str, value: dict[Any, Any], levels: int) -> None:
        attributes = [key for key in value if _is_attribute(key)]
        given = [f' {_name(key[1:])}="{_inside(key, _text, value[key], _IN_ATTRIBUTE)}"' for key in attributes]
        self._put(f"<{name}{''.join(given)}>")
        if "#text" in value:
            self._put(_inside("#text", _text, value["#text"], _IN_TEXT))
        for key, item in value.items():
            if key != "#text" and not _is_attribute(key):
                self._entry(key, item, levels)
        self._put(f"</{name}>")

    def _put(self, piece: str) -> None:
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length > self._max_bytes:
            raise Unwritable(f"the message has more than the {self._max_bytes:,} bytes that may be read")


def _inside(step: Any, write: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return write(*arguments)
    except Misfit as misfit:
        raise misfit.inside(step) from None


def _text(value: Any, escapes: dict[int, str]) -> str:
    text = value if type(value) is str else text_of(value)
    if not _UNUSUAL.search(text):
        return text
    if match := _FORBIDDEN.search(text):
        raise Misfit(f"the character {match[0]!a} is forbidden in XML")
    return text.translate(escapes)


def _is_attribute(key: Any) -> bool:
    return isinstance(key, str) and key.startswith("@")


def _name(name: Any) -> str:
    if not isinstance(name, str) or not (_PLAIN_NAME.fullmatch(name) or _is_name(name)):
        raise Misfit(f"{value_and_type(name)} is not a name in XML")
    return name


@lru_cache(maxsize=1024)
def _is_name(name: str) -> bool:
    """Whether the parser takes it as the name of an element."""
    if not name or len(name) > 1000 or _MARKUP.search(name) or _FORBIDDEN.search(name):
        return False
    names: list[str] = []
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda element, attributes: names.append(element)
    try:
        parser.Parse(f"<{name}/>".encode(), True)
    except expat.ExpatError:
        return False
    return names == [name]


def _summary(event: Any) -> str:
    return f"one with {len(event)}" if isinstance(event, dict) else value_and_type(event)
