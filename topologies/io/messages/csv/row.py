"""Splits and joins one row of CSV (RFC 4180)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from topologies.io.messages.message_errors import Unreadable
from windowing.errors import ConfigError


class CsvRow:
    """Rows whose values are separated by a character."""

    def __init__(self, separator: str) -> None:
        if len(separator) != 1 or separator in '"\r\n':
            raise ConfigError(
                f"the separator of a CSV message is {separator!r}",
                do="give one character that is neither a quote nor a line end",
            )
        self.separator = separator
        quoted = re.escape(separator)
        self._value = re.compile(rf'(?:"([^"]*+(?:""[^"]*+)*+)"|([^"{quoted}\r\n]*))({quoted}|\Z)')
        self._needs_quotes = re.compile(rf'["{quoted}\r\n]')

    def split(self, text: str) -> list[str]:
        """The values of a row, which one line break may end. Raises Unreadable."""
        row = text[:-1].removesuffix("\r") if text.endswith("\n") else text
        if '"' in row:
            return self._split_quoted(row)
        if "\n" in row or "\r" in row:
            raise Unreadable("a line break within the message, which must be one row")
        return row.split(self.separator)

    def join(self, texts: Sequence[str]) -> str:
        """The row of these values, without a line break at its end."""
        if len(texts) == 1 and not texts[0]:
            return '""'  # an empty message is not a row
        return self.separator.join([self._quoted(text) for text in texts])

    def _quoted(self, text: str) -> str:
        if not self._needs_quotes.search(text):
            return text
        doubled = text.replace('"', '""')
        return f'"{doubled}"'

    def _split_quoted(self, row: str) -> list[str]:
        values: list[str] = []
        position = 0
        while match := self._value.match(row, position):
            quoted, plain, end = match.groups()
            values.append(plain if quoted is None else quoted.replace('""', '"'))
            if not end:
                return values
            position = match.end()
        raise Unreadable(f"value {len(values) + 1} of the row has a quote or a line break where none may be")
