"""Text of users' and of data that is shown to people: nothing in it can steer a terminal, and it has an end."""

from __future__ import annotations

import re

LONGEST = 2_000
"""Characters of a message of an exception that are told."""
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, line ends, marks that turn the direction of text around, and halves of characters."""
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str, *, keep: str = "") -> str:
    """The text with escapes in place of what a terminal would obey or cannot show, except the characters to ``keep``.

    A terminal obeys such characters wherever they come from: they move the cursor, and may do far more.
    """
    return _CONTROLS.sub(lambda found: found[0] if found[0] in keep else _escape(found[0]), text)


def cut(text: str, most: int = LONGEST) -> str:
    """The text, or its beginning and how long it is."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def error_text(error: BaseException) -> str:
    """An exception as ``ValueError: its message``, cut; also one that cannot say what it is."""
    try:
        message = str(error)
    except BaseException as failure:
        message = f"(it cannot say what it is: {type(failure).__name__} in its __str__)"
    return printable(cut(f"{type(error).__name__}: {message}"), keep="\n\t")


def _escape(character: str) -> str:
    code = ord(character)
    return _NAMED.get(character, f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
