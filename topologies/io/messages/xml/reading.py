"""Reads a document into nested objects, element by element, as the parser finds them."""

from __future__ import annotations

import re
from typing import Any
from xml.parsers import expat

from topologies.io.messages.message_errors import Unreadable
from topologies.io.messages.message_limits import too_deep

_ENCODINGS = re.compile(
    r"utf-?8|utf-?16(le|be)?|us-ascii|ascii|iso-8859-([1-9]|1[0134-6])|windows-125[0-8]|cp(125[0-8]|866)"
    r"|ibm866|koi8-[ru]",
    re.IGNORECASE,
)  # all single-byte encodings, and those the parser knows itself

_SPACE = " \t\r\n"
"""White space of XML; other blanks, such as U+00A0, are text."""


class XmlReading:
    """The state of reading one document: the open elements, and the content of the innermost one."""

    def __init__(self, max_depth: int) -> None:
        self._max_depth = max_depth
        self._outer: list[tuple[dict[str, Any], list[str]]] = []
        self._content: dict[str, Any] = {}
        self._texts: list[str] = []

    def read(self, document: bytes) -> dict[str, Any]:
        """The document as an object with the root as its only entry. Raises ExpatError for what is not well-formed, and
        Unreadable."""
        parser = expat.ParserCreate()
        parser.ordered_attributes = True
        parser.buffer_text = True
        parser.XmlDeclHandler = _declared
        parser.StartDoctypeDeclHandler = _doctype
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


def _declared(version: str, encoding: str | None, standalone: int) -> None:
    if encoding and not _ENCODINGS.fullmatch(encoding):
        raise Unreadable(f"XML in the encoding {encoding!r} is not read; send UTF-8")


def _doctype(*declared: Any) -> None:
    raise Unreadable("XML with a document type declaration (<!DOCTYPE ...>) is not read: it may define entities")
