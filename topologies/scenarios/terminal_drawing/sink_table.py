"""The rows that a sink was given, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.cells import cell_len
from rich.console import ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from topologies.io.times import readable_time
from topologies.scenarios.run.scenario_answer import plain
from topologies.scenarios.terminal_drawing.terminal_characters import in_its_characters
from windowing.time.timestamps import from_datetime

MOST_ROWS = 20
"""Maximum number of rows shown of each sink."""


def sink_title(name: str, rows: Sequence[dict[str, Any]]) -> Text:
    number = f"{len(rows)} row{'' if len(rows) == 1 else 's'}"
    hidden = f", the first {MOST_ROWS}" if len(rows) > MOST_ROWS else ""
    return Text(f"{name}: {number}{hidden}", "bold")


def sink_rows(rows: Sequence[dict[str, Any]], options: ConsoleOptions) -> RenderableType:
    """Rows as a table; as names and values, where it would not fit."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    table = Table()
    for column in columns:
        numeric = all(isinstance(row.get(column), int | float) for row in rows)
        table.add_column(in_its_characters(Text(column), options), justify="right" if numeric else "left")
    cells = [[_cell(row.get(column)) for column in columns] for row in rows[:MOST_ROWS]]
    for row in cells:
        table.add_row(*(in_its_characters(Text(cell), options) for cell in row))
    longest = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]
    if sum(longest) + 3 * len(columns) + 1 <= options.max_width:
        return table
    pairs = ["  ".join(f"{name}={cell}" for name, cell in zip(columns, row, strict=True) if cell) for row in cells]
    return Padding(Group(*(in_its_characters(Text(pair), options) for pair in pairs)), (0, 0, 0, 2))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return str(readable_time(from_datetime(value)) if isinstance(value, datetime) else plain(value))
