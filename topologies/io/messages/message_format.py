"""How one message is read into an event, and an event written as one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

Headers = Mapping[str, bytes]
NO_HEADERS: Headers = MappingProxyType({})


class MessageFormat(Protocol):
    """A format of messages: a frozen dataclass that can be pickled."""

    name: ClassVar[str]

    def read(self, value: bytes | None, headers: Headers = NO_HEADERS) -> Any:
        """The event in a message. Raises Unreadable, and nothing else, whatever the bytes are."""

    def write(self, event: Any, headers: Headers = NO_HEADERS) -> bytes:
        """The message for an event. Raises Unwritable, and nothing else, whatever the object is."""
