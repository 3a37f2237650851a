"""Which rows a CSV file has, one character after the other, by the documents alone (RFC 4180 and the options)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Row:
    """One row: its values, of which an unquoted empty one is None; ``bad`` if it is no CSV; and its bytes, without the
    line end behind it, which is also that of the file where a quote is not closed."""

    values: list[bytes | None] = field(default_factory=list)
    bad: bool = False
    text: bytes = b""


def rows(
    data: bytes,
    quote: bytes | None = b'"',
    escape: bytes | None = None,
    comment: bytes | None = None,
    *,
    escape_unquoted: bool = True,
) -> list[Row]:
    """All rows with the header, without comments; a blank line is a row of one empty value."""
    found: list[Row] = []
    place = 0
    while place < len(data):
        if comment is not None and data[place : place + 1] == comment:
            while place < len(data) and data[place : place + 1] not in (b"\r", b"\n"):
                place += 1
            place = _after_line_end(data, place)
            continue
        row = Row()
        start = place
        while True:
            place = _value(data, place, row, quote, escape, escape if escape_unquoted else None)
            if data[place : place + 1] != b",":
                break
            place += 1
        row.text = data[start:place]
        if row.bad and place == len(data):
            row.text = row.text.removesuffix(_line_end(row.text))
        place = _after_line_end(data, place)
        found.append(row)
    return found


def _line_end(text: bytes) -> bytes:
    """The line end with which a text ends, if it does."""
    return next((end for end in (b"\r\n", b"\n", b"\r") if text.endswith(end)), b"")


def _after_line_end(data: bytes, place: int) -> int:
    return place + (2 if data[place : place + 2] == b"\r\n" else 1)


def _value(data: bytes, place: int, row: Row, quote: bytes | None, escape: bytes | None, unquoted: bytes | None) -> int:
    """Take one value; the place of the delimiter or the line end behind it."""
    value = b""
    if quote is not None and data[place : place + 1] == quote:
        place += 1
        while True:
            character = data[place : place + 1]
            if character == b"":
                row.bad = True
                return place
            if escape is not None and character == escape and place + 1 < len(data):
                value += data[place + 1 : place + 2]
                place += 2
            elif character == escape:
                row.bad = True
                return len(data)
            elif character == quote and data[place + 1 : place + 2] == quote:
                value += quote
                place += 2
            elif character == quote:
                place += 1
                break
            else:
                value += character
                place += 1
        if data[place : place + 1] not in (b",", b"\r", b"\n", b""):
            row.bad = True
            place = _bare(data, place, row, unquoted)[0]
        row.values.append(value)
        return place
    place, value = _bare(data, place, row, unquoted)
    row.values.append(value or None)
    return place


def _bare(data: bytes, place: int, row: Row, escape: bytes | None) -> tuple[int, bytes]:
    value = b""
    while place < len(data) and data[place : place + 1] not in (b",", b"\r", b"\n"):
        if escape is not None and data[place : place + 1] == escape:
            if place + 1 == len(data):
                row.bad = True
                return len(data), value
            place += 1
        value += data[place : place + 1]
        place += 1
    return place, value
