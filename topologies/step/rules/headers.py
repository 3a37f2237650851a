"""Headers of messages as rules see and make them: texts that remember their original bytes."""

from __future__ import annotations

from collections.abc import Mapping

HeaderValue = str | bytes | None
"""An outgoing header; None: a header without a value."""


class HeaderText(str):
    r"""The text of a header that is not text: of bytes that are not UTF-8 (shown as ``\xff``), or of no value (empty).

    It behaves like any other text, but if it is sent unchanged, the header is as it came.
    """

    raw: bytes | None

    @classmethod
    def of(cls, raw: bytes | None) -> HeaderText:
        """The HeaderText of these bytes, or of no value (None)."""
        text = cls("" if raw is None else raw.decode("utf-8", "backslashreplace"))
        text.raw = raw
        return text


def header_text(raw: bytes | None) -> str:
    """A header as rules see it: a text, and a HeaderText where plain text would lose the original."""
    try:
        return HeaderText.of(None) if raw is None else raw.decode()
    except UnicodeDecodeError:
        return HeaderText.of(raw)


def header_raw(value: HeaderValue) -> bytes | None:
    """The bytes of a header in a message: those of its text, the original ones, or None for no value."""
    if isinstance(value, HeaderText):
        return value.raw
    return value.encode() if isinstance(value, str) else value


def header_pairs(headers: Mapping[str, HeaderValue] | None) -> list[dict[str, str | bytes | None]]:
    """The headers of a message as pairs, in order."""
    return [{"key": name, "value": header_raw(value)} for name, value in (headers or {}).items()]
