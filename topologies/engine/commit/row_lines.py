"""A row of a sink as lines of text that fit the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from windowing.data.printable import printable
from windowing.time.timestamps import from_datetime, show

LINE = 80
"""Length of a line where there is no terminal and COLUMNS is not set."""
_FIRST, _NEXT, _GAP = "   ", "     ", "  "


def row_lines(row: Mapping[str, object], width: int) -> list[str]:
    """The columns of a row with their values, ``width`` characters to a line; a longer value has a line of its own."""
    lines = [_FIRST]
    for column, value in row.items():
        cell = f"{printable(column)}={printable(_text(value))}"
        gap = "" if lines[-1] in (_FIRST, _NEXT) else _GAP
        if gap and len(lines[-1]) + len(gap) + len(cell) > width:
            lines.append(_NEXT + cell)
        else:
            lines[-1] += gap + cell
    return lines


def _text(value: object) -> str:
    return show(from_datetime(value)) if isinstance(value, datetime) and value.tzinfo else str(value)
