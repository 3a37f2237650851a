"""The headers of messages as rules see them and make them: texts, which remember what else they were."""

from __future__ import annotations

from collections.abc import Mapping

HeaderValue = str | bytes | None
"""What a header may be when it goes out; None: a header without a value."""


class HeaderText(str):
    """The text of a header that is no text: of bytes that are no UTF-8 (shown as ``\\xff``), or of no value (empty).

    It is like any other text, but where it goes out as it is, the header is as it came.
    """

    raw: bytes | None

    @classmethod
    def of(cls, raw: bytes | None) -> HeaderText:
        """The text of these bytes, or of no value."""
        text = cls("" if raw is None else raw.decode("utf-8", "backslashreplace"))
        text.raw = raw
        return text


def header_text(raw: bytes | None) -> str:
    """A header as rules see it: a text, and a HeaderText where the text alone would not tell what it was."""
    try:
        return HeaderText.of(None) if raw is None else raw.decode()
    except UnicodeDecodeError:
        return HeaderText.of(raw)


def header_raw(value: HeaderValue) -> bytes | None:
    """What a header is in a message: the bytes of its text, or those that came, or no value."""
    if isinstance(value, HeaderText):
        return value.raw
    return value.encode() if isinstance(value, str) else value


def header_pairs(headers: Mapping[str, HeaderValue] | None) -> list[dict[str, str | bytes | None]]:
    """The headers of a message, in their order."""
    return [{"key": name, "value": header_raw(value)} for name, value in (headers or {}).items()]
