"""XML messages: one document per message, as nested objects in which element ``name`` is an entry ``name``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar
from xml.parsers import expat
from xml.parsers.expat import ExpatError

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
    text_of_scalar,
    too_deep,
    unwritable_if_it_fails,
    value_and_type,
)

# Reads a document into nested objects, element by element, as the parser finds them.


_ENCODINGS = re.compile(
    r"utf-?8|utf-?16(le|be)?|us-ascii|ascii|iso-8859-([1-9]|1[0134-6])|windows-125[0-8]|cp(125[0-8]|866)"
    r"|ibm866|koi8-[ru]",
    re.IGNORECASE,
)  # all single-byte encodings, and those the parser knows itself

_SPACE = " \t\r\n"
"""White space of XML; other blanks, such as U+00A0, are text."""


class XmlReading:
    """The state of reading a document: the open elements, and the content of the innermost one."""

    def __init__(self, max_depth: int) -> None:
        self._max_depth = max_depth
        self._outer: list[tuple[dict[str, Any], list[str]]] = []
        self._content: dict[str, Any] = {}
        self._texts: list[str] = []

    def read(self, document: bytes) -> dict[str, Any]:
        """Returns the document as an object with the root as its only entry. Raises Unreadable, and ExpatError for a
        document that is not well-formed."""
        parser = expat.ParserCreate()
        parser.ordered_attributes = True
        parser.buffer_text = True
        parser.XmlDeclHandler = _on_declaration
        parser.StartDoctypeDeclHandler = _on_doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.Parse(document, True)
        return self._content

    def _start(self, name: str, attributes: list[str]) -> None:
        if len(self._outer) == self._max_depth:
            raise too_deep(self._max_depth)
        self._outer.append((self._content, self._texts))
        self._content = {f"@{attributes[index]}": attributes[index + 1] for index in range(0, len(attributes), 2)}
        self._texts = []

    def _text(self, text: str) -> None:
        self._texts.append(text)

    def _end(self, name: str) -> None:
        text, content = "".join(self._texts), self._content
        element: Any = text
        if content:
            element = content
            if text and not (_has_elements(content) and not text.strip(_SPACE)):
                content["#text"] = text
        self._content, self._texts = self._outer.pop()
        _add(self._content, name, element)


def _add(content: dict[str, Any], name: str, element: Any) -> None:
    if name not in content:
        content[name] = element
        return
    former = content[name]
    if isinstance(former, list):
        former.append(element)
    else:
        content[name] = [former, element]


def _has_elements(content: dict[str, Any]) -> bool:
    return next(reversed(content))[0] != "@"  # attributes come first


def _on_declaration(version: str, encoding: str | None, standalone: int) -> None:
    if encoding and not _ENCODINGS.fullmatch(encoding):
        raise Unreadable(f"XML in the encoding {encoding!r} is not read; send UTF-8")


def _on_doctype(*declared: Any) -> None:
    raise Unreadable("XML with a document type declaration (<!DOCTYPE ...>) is not read: it may define entities")


# Writes nested objects as a document; checks every name and character.


_PROLOG = '<?xml version="1.0" encoding="utf-8"?>\n'
_PLAIN_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_MARKUP = re.compile(r"[\s<>&/='\"?!]")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_UNUSUAL = re.compile("[^ !#-%'-;=?-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # escaped somewhere, or forbidden
_IN_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_IN_ATTRIBUTE = _IN_TEXT | str.maketrans({'"': "&quot;", "\n": "&#10;", "\t": "&#9;"})


class XmlWriting:
    """The state of writing a document: its pieces so far, and a lower bound on their size in bytes."""

    def __init__(self, max_bytes: int, max_depth: int) -> None:
        self._max_bytes, self._max_depth = max_bytes, max_depth
        self._pieces: list[str] = [_PROLOG]
        self._length = len(_PROLOG)

    def write(self, event: Any) -> bytes:
        """Returns the document of an object with one entry. Raises Misfit and Unwritable."""
        if not isinstance(event, dict) or len(event) != 1:
            raise Misfit(f"a document has one root: an object with one entry is needed, not {_summary(event)}")
        ((name, root),) = event.items()
        if isinstance(plain_scalar(root), list | tuple):
            raise Misfit("a document has one root, not a list").inside(str(name))
        self._entry(name, root, self._max_depth)
        return "".join(self._pieces).encode()

    def _entry(self, name: Any, value: Any, levels: int) -> None:
        checked_name = _name(name)
        value = plain_scalar(value)
        if not isinstance(value, list | tuple):
            _at_step(name, self._element, checked_name, value, levels)
            return
        for index, item in enumerate(value):
            if isinstance(item, list | tuple):
                raise Misfit("a list in a list has no form in XML").inside(index).inside(name)
            _at_step(name, _at_step, index, self._element, checked_name, item, levels)

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
        attribute_texts = [
            f' {_name(key[1:])}="{_at_step(key, _text, value[key], _IN_ATTRIBUTE)}"' for key in attributes
        ]
        self._put(f"<{name}{''.join(attribute_texts)}>")
        if "#text" in value:
            self._put(_at_step("#text", _text, value["#text"], _IN_TEXT))
        for key, item in value.items():
            if key != "#text" and not _is_attribute(key):
                self._entry(key, item, levels)
        self._put(f"</{name}>")

    def _put(self, piece: str) -> None:
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length > self._max_bytes:
            raise Unwritable(f"the message has more than the {self._max_bytes:,} bytes that may be read")


def _at_step(step: Any, write: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return write(*arguments)
    except Misfit as misfit:
        raise misfit.inside(step) from None


def _text(value: Any, escapes: dict[int, str]) -> str:
    text = value if type(value) is str else text_of_scalar(value)
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
    """True if the parser accepts the name for an element."""
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


# XML messages: one document per message, as nested objects in which element ``name`` is an entry ``name``.
#
# An element without attributes and child elements is its exact text ("" if empty). Any other element is an object: its
# attributes are ``@name``, its elements ``name``, its text ``#text``. Elements of the same name form a list. All values
# are text. The document is an object with the root as its only entry.
#
# White space between elements is dropped as layout. Comments, processing instructions and the order of elements with
# different names are not kept. Prefixes stay part of names. Document type declarations are refused, so the only
# entities are the five of XML, and there are no default attributes. Encodings are UTF-8, UTF-16, US-ASCII, ISO-8859-x,
# windows-125x, KOI8 and IBM866; others are refused. No file is opened and no network is used.
#
# Documents are written as UTF-8 with a prolog. Numbers, booleans (true, false), times, decimals and binary (base64)
# become text, None an empty element, a list its elements in order. Text is read back unchanged. But a list of one item
# is read as that item, and an empty list is lost.


@dataclass(frozen=True)
class XmlMessages:
    """Messages in XML, of at most ``max_bytes`` bytes and ``max_depth`` nested elements."""

    max_bytes: int = MAX_BYTES
    max_depth: int = MAX_DEPTH
    name: ClassVar[str] = "xml"

    def __post_init__(self) -> None:
        check_limits(self.max_bytes, self.max_depth)

    def read(self, value: bytes | None, headers: Headers = NO_HEADERS) -> Any:
        """Returns the document of a message. Raises Unreadable."""
        message = checked_bytes(value, self.max_bytes)
        try:
            return XmlReading(self.max_depth).read(message)
        except (ExpatError, ValueError, LookupError) as error:
            raise Unreadable(f"not valid XML: {error}") from None

    def write(self, event: Any, headers: Headers = NO_HEADERS) -> bytes:
        """Returns the message for an event, an object with one entry. Raises Unwritable."""
        with unwritable_if_it_fails():
            return checked_size(XmlWriting(self.max_bytes, self.max_depth).write(event), self.max_bytes)
