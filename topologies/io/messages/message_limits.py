"""Limits on the size and nesting of messages, enforced before they cost memory or stack."""

from __future__ import annotations

from topologies.io.messages.message_errors import Unreadable, Unwritable
from windowing.errors import ConfigError

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 200
DEEPEST = 250  # orjson's own limit is 253


def check_limits(max_bytes: int, max_depth: int) -> None:
    """Raise ConfigError for invalid limits."""
    if max_bytes < 1:
        raise ConfigError(f"max_bytes is {max_bytes}", why="no message is shorter than 1 byte", do="give at least 1")
    if not 1 <= max_depth <= DEEPEST:
        raise ConfigError(f"max_depth is {max_depth}", do=f"give 1 to {DEEPEST}")


def present(value: bytes | None, max_bytes: int) -> bytes:
    """The bytes of a message, with which reading it begins. Raises Unreadable if there are none, or too many."""
    if value is None:
        raise Unreadable("the message has no value (a tombstone)")
    if not value:
        raise Unreadable("the message is empty")
    if len(value) > max_bytes:
        raise Unreadable(f"the message has {len(value):,} bytes, more than the {max_bytes:,} that may be read")
    return value


def too_deep(max_depth: int) -> Unreadable:
    return Unreadable(f"the message nests deeper than {max_depth} levels")


def within(message: bytes, max_bytes: int) -> bytes:
    """The message. Raises Unwritable if it is longer than could be read back."""
    if len(message) > max_bytes:
        raise Unwritable(f"the message has {len(message):,} bytes, more than the {max_bytes:,} that may be read")
    return message
