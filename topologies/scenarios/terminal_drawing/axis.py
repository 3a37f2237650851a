"""The axis of a timeline: times as columns, and a row drawn on them."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from topologies.scenarios.terminal_drawing.axis_cuts import cuts_of
from topologies.scenarios.terminal_drawing.axis_times import AxisTimes
from topologies.scenarios.terminal_drawing.chart_row import EXPIRED, ChartRow
from windowing.time.timestamps import FOREVER


class Axis:
    """Times as columns; stretches in which nothing happens are cut out where they would squeeze the rest."""

    BREAK = "╱╱"

    def __init__(self, times: Iterable[int], width: int) -> None:
        points = sorted({at for at in times if at != FOREVER}) or [0]
        cuts = cuts_of(points)
        parts = [points[low:high] for low, high in zip([0, *cuts], [*cuts, len(points)], strict=True)]
        self.width = width
        self.spans = [(part[0], part[-1]) for part in parts]
        room = width - len(self.BREAK) * (len(parts) - 1)
        least = min(4, room // len(parts))
        total = sum(high - low for low, high in self.spans) or 1
        spare = room - least * len(parts)
        self.columns: list[tuple[int, int]] = []
        column = 0
        for low, high in self.spans:
            last = column + least - 1 + spare * (high - low) // total
            self.columns.append((column, last))
            column = last + 1 + len(self.BREAK)
        self.breaks = [last + 1 for _, last in self.columns[:-1]]

    def column(self, at: int) -> int:
        """The column of a time."""
        part = max(0, bisect_right([low for low, _ in self.spans], at) - 1)
        (low, high), (first, last) = self.spans[part], self.columns[part]
        if high == low:
            return first
        return first + round((min(max(at, low), high) - low) * (last - first) / (high - low))

    def header(self, show: AxisTimes) -> Iterator[Text]:
        """The labels of the axis, and its ruler."""
        labels, ruler = [" "] * self.width, ["─"] * self.width
        free = 0
        for (low, high), (first, last) in zip(self.spans, self.columns, strict=True):
            length = max(len(show(low)), len(show(high)))
            step = show.step((length + 2) * max(high - low, 1) // max(last - first, 1))
            ticks = list(range(-(-low // step) * step, high + 1, step)) if high > low else []
            for at in ticks or [low]:
                column, text = self.column(at), show(at)
                begin = min(column, self.width - len(text))
                ruler[column] = "┬"
                if begin >= free:
                    labels[begin : begin + len(text)] = text
                    free = begin + len(text) + 1
        for column in self.breaks:
            ruler[column : column + len(self.BREAK)] = self.BREAK
        yield Text("".join(labels), "dim")
        yield Text("".join(ruler), "dim")

    def draw(self, row: ChartRow, watermark: int | None) -> Text:
        """What stands on a line; ``watermark`` is the one that has been reached."""
        cells: list[tuple[str, str]] = [(" ", "")] * self.width
        if watermark is not None and row.upto is None:
            cells[self.column(watermark)] = ("┊", "cyan dim")
        if row.upto is not None:
            column = self.column(row.upto)
            cells[:column] = [("┄", "cyan dim")] * column
            cells[column] = ("▌", "bold cyan")
        if row.bar is not None:
            self._bar(cells, row.bar)
        self._symbols(cells, row.symbols)
        return Text.assemble(*cells)

    def _bar(self, cells: list[tuple[str, str]], bar: tuple[int, int, str, str]) -> None:
        low, high, opening, closing = bar
        first, last = self.column(low), self.column(high)
        cells[first : last + 1] = [("─", "green")] * (last + 1 - first)
        for column in self.breaks:
            if first < column < last:
                cells[column : column + len(self.BREAK)] = [(sign, "green") for sign in self.BREAK]
        if opening:
            cells[first] = (opening, "green")
        if closing:
            cells[last] = (closing, "green")

    def _symbols(self, cells: list[tuple[str, str]], symbols: Sequence[tuple[int, str, str]]) -> None:
        """Events of one column are counted; on the column of a bracket they replace it."""
        together = Counter(self.column(at) for at, symbol, _ in symbols if symbol != EXPIRED)
        for at, symbol, style in symbols:
            column = self.column(at)
            number = together[column]
            if symbol == EXPIRED and number:
                continue
            cells[column] = (symbol if number < 2 else str(number) if number < 10 else "+", style)
