"""Computes the key by which an event is collected (UH-5 to UH-8)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pyarrow as pa

from topologies.step.bolts.step_columns import MessageRow, header_bytes
from topologies.step.config.key_section import DslKey, HashKey, HeadersKey, KeySection, MessageKey
from windowing.data.tuples import objects_of


class NoKey(ValueError):
    """No key can be computed for a message; ``str()`` says why."""


def key_of(section: KeySection, row: MessageRow, by_rules: Callable[[], str]) -> str:
    """The key of a message. ``by_rules`` is called where rules compute it. Raises NoKey where there is none."""
    match section:
        case MessageKey():
            return _message_key(row)
        case HeadersKey(keys=names):
            headers = header_bytes(row["headers"])
            try:
                return "|".join(headers.get(name, b"").decode() for name in names)
            except UnicodeDecodeError as error:
                raise NoKey(f"a header of the key is not text: {error}") from None
        case HashKey() as section:
            return hashlib.new(section.hashlib_name, row["value"] or b"", usedforsecurity=False).hexdigest()
        case DslKey():
            return by_rules()


def keys_at_once(section: KeySection, table: pa.Table) -> list[str] | None:
    """The keys of all messages of a table, where each is that of the message and is text; None otherwise."""
    if not isinstance(section, MessageKey) or table.column("key").null_count:
        return None
    try:
        return objects_of(table.column("key").cast(pa.string()))
    except pa.ArrowInvalid:  # at least one is not UTF-8
        return None


def _message_key(row: MessageRow) -> str:
    if row["key"] is None:
        raise NoKey("the message has no key, by which it would be gathered")
    try:
        return str(row["key"].decode())
    except UnicodeDecodeError as error:
        raise NoKey(f"the message's key is not text: {error}") from None
