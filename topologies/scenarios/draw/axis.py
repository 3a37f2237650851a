"""The axis of a timeline: times as columns, how they are written, and a line drawn on it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from rich.text import Text

from topologies.io.times import written
from topologies.scenarios.schema.model import Scenario
from topologies.scenarios.schema.steps import ClockStep, EventStep
from windowing.time.timestamps import EARLIEST, FOREVER, LATEST, to_datetime

SECOND = 1_000_000
DAY = 86_400 * SECOND
EXPIRED = "◇"
"""The symbol of an event that was in the window before this one; on a shared column it gives way to the others."""

_STEPS_OF_TIME = [
    *(unit * SECOND for unit in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)),
    *(unit * 3600 * SECOND for unit in (1, 2, 3, 6, 12)),
]


@dataclass
class ChartRow:
    """A line of the chart: a label, what stands on the axis, and a note."""

    label: str
    note: Text = field(default_factory=Text)
    style: str = ""
    symbols: list[tuple[int, str, str]] = field(default_factory=list)
    """Time, symbol and style."""
    bar: tuple[int, int, str, str] | None = None
    """From, to, and the brackets (an empty one where the window has no such bound)."""
    upto: int | None = None
    """The watermark that this row brings."""
    kind: str = "step"

    def times(self) -> list[int]:
        """The times that the axis must reach."""
        ends = [] if self.bar is None else [self.bar[0], self.bar[1]]
        return [*(at for at, _, _ in self.symbols), *ends, *([] if self.upto is None else [self.upto])]


class Axis:
    """Times as columns; stretches in which nothing happens are cut out where they would squeeze the rest."""

    BREAK = "╱╱"

    def __init__(self, times: Iterable[int], width: int) -> None:
        points = sorted({at for at in times if at != FOREVER}) or [0]
        cuts = _cuts(points)
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

    def header(self, show: Clock) -> Iterator[Text]:
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


_NUMBERS = 1_000_000
"""Below this a place on an axis of arrivals is the number of an event."""


class Clock:
    """How times are shown: of the clock where they are of today's world, else in milliseconds."""

    def __init__(self, times: Sequence[int], scenario: Scenario, *, by_arrival: bool) -> None:
        clocks = [step.moved for step in scenario.steps if isinstance(step, EventStep | ClockStep)]
        # By arrival, events stand at their numbers; the times among them are the ends of windows.
        known = [at for at in times if EARLIEST <= at <= LATEST and not (by_arrival and abs(at) < _NUMBERS)]
        known += [at for at in clocks if at is not None and EARLIEST <= at <= LATEST]
        self.by_arrival = by_arrival
        self.as_clock = bool(known) and min(known) > 3 * 365 * DAY
        self.dated = bool(known) and min(known) // DAY != max(known) // DAY

    def __call__(self, at: int) -> str:
        if self.by_arrival and abs(at) < _NUMBERS:
            return str(at)
        if at == FOREVER:
            return "+inf"
        if not self.as_clock or not EARLIEST <= at <= LATEST:
            return str(written(at))
        moment = to_datetime(at)
        text = f"{moment:%m-%d %H:%M:%S}" if self.dated else f"{moment:%H:%M:%S}"
        return text if at % SECOND == 0 else f"{text}.{moment:%f}"[: -3 if at % 1000 == 0 else None]

    def step(self, least: int) -> int:
        """The smallest round distance of labels that is not below this."""
        if self.as_clock and SECOND <= least <= _STEPS_OF_TIME[-1]:
            return next(step for step in _STEPS_OF_TIME if step >= least)
        unit = 1 if self.by_arrival else DAY if self.as_clock and least > DAY else 1000
        if self.by_arrival is False and 10 ** len(str(max(least, 1))) < unit:
            unit = 1
        while True:
            found = next((unit * few for few in (1, 2, 5) if unit * few >= least), None)
            if found is not None:
                return found
            unit *= 10


def _cuts(points: Sequence[int]) -> list[int]:
    """Before which points to cut the axis: at most five gaps, each far longer than the others on average."""
    gaps = sorted((high - low, at) for at, (low, high) in enumerate(pairwise(points), 1))
    total = points[-1] - points[0]
    cuts: list[int] = []
    while len(gaps) > 2 and len(cuts) < 5 and gaps[-1][0] * (len(gaps) - 1) > 8 * (total - gaps[-1][0]):
        gap, at = gaps.pop()
        total -= gap
        cuts.append(at)
    return sorted(cuts)
