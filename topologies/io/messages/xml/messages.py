"""XML messages: one document per message, as nested objects in which element ``name`` is an entry ``name``.

- An element without attributes and child elements is its exact text ("" where it is empty). Any other is an object:
  attributes are ``@name``, elements ``name``, its own text is ``#text``. Elements of the same name form a list. All
  values are text. The document is an object with the root as its only entry.
- White space between elements is dropped as layout. Comments, processing instructions and the order of elements of
  different names are not kept. Prefixes stay part of the names.
- Document type declarations are refused, so there are no entities but the five of XML and no default attributes.
- Encodings are UTF-8, UTF-16, US-ASCII, ISO-8859-x, windows-125x, KOI8 and IBM866; others are refused.
- No file is opened and no network is used.

Documents are written as UTF-8 with a prolog. Numbers, booleans (true, false), times, decimals and binary (base64)
become text, None an empty element, a list its elements in order. Text reads back equal; but a list of one item is read
as that item, and an empty list is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar
from xml.parsers.expat import ExpatError

from topologies.io.messages.message_errors import Unreadable
from topologies.io.messages.message_format import NO_HEADERS, Headers
from topologies.io.messages.message_limits import MAX_BYTES, MAX_DEPTH, check_limits, present, within
from topologies.io.messages.misfit import unwritable_if_it_fails
from topologies.io.messages.xml.reading import XmlReading
from topologies.io.messages.xml.writing import XmlWriting


@dataclass(frozen=True)
class XmlMessages:
    """Messages in XML, of at most ``max_bytes`` bytes and ``max_depth`` nested elements."""

    max_bytes: int = MAX_BYTES
    max_depth: int = MAX_DEPTH
    name: ClassVar[str] = "xml"

    def __post_init__(self) -> None:
        check_limits(self.max_bytes, self.max_depth)

    def read(self, value: bytes | None, headers: Headers = NO_HEADERS) -> Any:
        """The document in a message. Raises Unreadable."""
        message = present(value, self.max_bytes)
        try:
            return XmlReading(self.max_depth).read(message)
        except (ExpatError, ValueError, LookupError) as error:
            raise Unreadable(f"not valid XML: {error}") from None

    def write(self, event: Any, headers: Headers = NO_HEADERS) -> bytes:
        """The message for an event, an object with one entry. Raises Unwritable."""
        with unwritable_if_it_fails():
            return within(XmlWriting(self.max_bytes, self.max_depth).write(event), self.max_bytes)
