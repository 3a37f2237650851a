"""The axis of a timeline: times as columns, rows drawn on them, and stretches that are cut out."""

from __future__ import annotations

import textwrap
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

import numpy as np
from rich.console import ConsoleOptions
from rich.text import Text

from topologies.scenarios.moments import RunMoments
from topologies.scenarios.scenario_answer import ReplayResult
from topologies.scenarios.scenario_model import Scenario
from topologies.scenarios.scenario_values import ClockStep, EventStep
from windowing.durations import Count, Duration
from windowing.settings import WindowSettings
from windowing.settings.rules import Aligned, Bounds
from windowing.timestamps import EARLIEST, FOREVER, LATEST, time_in_answer, to_datetime

# Times in the form of drawings.


SECOND = 1_000_000
DAY = 86_400 * SECOND


def time_text(at: int, *, as_clock: bool, dated: bool, seconds: bool = True) -> str:
    """Returns a time in microseconds as text: a time of day, with date and seconds on request, or milliseconds if that
    is impossible."""
    if at == FOREVER:
        return "+inf"
    if not as_clock or not EARLIEST <= at <= LATEST:
        return str(time_in_answer(at))
    moment = to_datetime(at)
    text = f"{moment:%m-%d %H:%M}" if dated else f"{moment:%H:%M}"
    if seconds:
        text = f"{text}:{moment:%S}"
    return text if at % SECOND == 0 else f"{text}.{moment:%f}"[: -3 if at % 1000 == 0 else None]


def are_clock_times(times: Collection[int]) -> bool:
    """True if times are of the present era, not counted from zero."""
    return bool(times) and min(times) > 3 * 365 * DAY


# The form of an axis's times, and the distance of its labels.


_STEPS_OF_TIME = [
    *(unit * SECOND for unit in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)),
    *(unit * 3600 * SECOND for unit in (1, 2, 3, 6, 12)),
]

_NUMBERS = 1_000_000
"""Greatest number of an event on an axis of arrivals; positions up to this value are numbers, not times."""


class AxisTimes:
    """Form of displayed times: times of day for the present era, else milliseconds."""

    def __init__(self, times: Sequence[int], scenario: Scenario, *, by_arrival: bool) -> None:
        clocks = [step.moved for step in scenario.steps if isinstance(step, EventStep | ClockStep)]
        # On an axis of arrivals, positions are event numbers; its other times are the ends of windows.
        known = [at for at in times if EARLIEST <= at <= LATEST and not (by_arrival and abs(at) < _NUMBERS)]
        known += [at for at in clocks if at is not None and EARLIEST <= at <= LATEST]
        self.by_arrival = by_arrival
        self.as_clock = are_clock_times(known)
        self.dated = bool(known) and min(known) // DAY != max(known) // DAY

    def __call__(self, at: int) -> str:
        if self.by_arrival and abs(at) < _NUMBERS:
            return str(at)
        return time_text(at, as_clock=self.as_clock, dated=self.dated)

    def step(self, least: int) -> int:
        """Returns the smallest round distance of labels that is not below ``least``."""
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


# Cuts of an axis: stretches without events that would squeeze the rest.


def cut_points(points: Sequence[int]) -> list[int]:
    """Returns the points before which the axis is cut: at most five gaps, each far longer than the average of the
    others."""
    gaps = sorted((high - low, at) for at, (low, high) in enumerate(pairwise(points), 1))
    total = points[-1] - points[0]
    cuts: list[int] = []
    while len(gaps) > 2 and len(cuts) < 5 and gaps[-1][0] * (len(gaps) - 1) > 8 * (total - gaps[-1][0]):
        gap, at = gaps.pop()
        total -= gap
        cuts.append(at)
    return sorted(cuts)


# A row of the chart: its symbols on the axis, and the words beside them.


EXPIRED = "◇"
"""Symbol of an event that was in the previous window; another symbol in the same column replaces it."""


@dataclass
class ChartRow:
    """A line of the chart: a label, the symbols on the axis, and a note."""

    label: str
    note: Text = field(default_factory=Text)
    style: str = ""
    symbols: list[tuple[int, str, str]] = field(default_factory=list)
    """Time, symbol and style."""
    bar: tuple[int, int, str, str] | None = None
    """Start, end, and the brackets; a bracket is empty if the window has no such bound."""
    new_watermark: int | None = None
    """The watermark that this row reaches."""
    kind: str = "step"

    def times(self) -> list[int]:
        """Returns the times that the axis must include."""
        ends = [] if self.bar is None else [self.bar[0], self.bar[1]]
        return [
            *(at for at, _, _ in self.symbols),
            *ends,
            *([] if self.new_watermark is None else [self.new_watermark]),
        ]


# The label of a row in as many lines as its column needs, broken between a window's bounds.


_INDENT = "    "


def label_lines(label: str, width: int) -> list[str]:
    """Returns the label in lines of at most ``width`` characters; continuation lines are indented."""
    if len(label) <= width:
        return [label]
    parted = textwrap.wrap(
        label.replace("..", " .."), width, subsequent_indent=_INDENT, break_on_hyphens=False, drop_whitespace=True
    )
    return [line if line.startswith(_INDENT) else line.replace(" ..", "..") for line in parted]


# The rows of a long picture that are drawn: its beginning and its end.


HEAD, TAIL = 80, 40
"""Most rows that are drawn at the beginning of a run, and at its end."""

DrawnRow = TypeVar("DrawnRow")


def split_for_drawing(rows: Sequence[DrawnRow]) -> tuple[Sequence[DrawnRow], Sequence[DrawnRow], Sequence[DrawnRow]]:
    """Returns the rows at the beginning, the omitted rows, and the rows at the end, in order."""
    tail = max(len(rows) - TAIL, HEAD)
    return rows[:HEAD], rows[HEAD:tail], rows[tail:]


# Positions of events on the axis: their times, if known.


def event_positions(scenario: Scenario, answer: ReplayResult) -> dict[str, int] | None:
    """Returns the time of each event, by id, in microseconds; None if only the order of arrival can place events."""
    if scenario.is_event_time:
        return {step.id: at for step in scenario.event_steps if (at := scenario.event_time(step)) is not None}
    if any(window["end"] is None for window in answer.windows):
        return None
    if scenario.topology is not None:
        return _times_at_bolts(scenario, answer)
    if scenario.bolt is not None and isinstance(scenario.bolt.length, Count) and not answer.windows:
        return None
    return _times_of_clock(scenario)


def _times_at_bolts(scenario: Scenario, answer: ReplayResult) -> dict[str, int] | None:
    """Returns the times of events from the bolts of a topology; None unless each event has one id and one time."""
    names = [step.id for step in scenario.event_steps]
    if len(set(names)) < len(names) or not all(trace.event_time for trace in answer.traces):
        return None
    found: dict[str, int] = {}
    for trace in answer.traces:
        for moment in RunMoments(scenario, answer, trace).all():
            if moment.arrival is None or moment.at is None:
                continue
            if found.setdefault(moment.event, moment.at) != moment.at:
                return None
    return found or None


def _times_of_clock(scenario: Scenario) -> dict[str, int]:
    """Returns the clock at which each event came."""
    found: dict[str, int] = {}
    clock: int | None = None
    for step in scenario.steps:
        if isinstance(step, EventStep | ClockStep) and step.moved is not None:
            clock = step.moved
        if isinstance(step, EventStep) and clock is not None:
            found[step.id] = clock
    return found


# Text with the width and characters of a terminal.


_ASCII = str.maketrans("●✗○·◆◇─┬┊┄▌╱…✓–#", "*xo.+%-+:.|/~v-#")


def fit_line(line: Text, options: ConsoleOptions) -> Text:
    line = in_terminal_characters(line, options)
    line.no_wrap, line.overflow = True, "ellipsis" if not options.ascii_only else "crop"
    return line


def in_terminal_characters(text: Text, options: ConsoleOptions) -> Text:
    if not options.ascii_only:
        return text
    copy = text.copy()
    copy.plain = text.plain.translate(_ASCII).replace("≠", "!")
    return copy


# Aligned windows for the table of arrivals: those that contain a moment, and those that are open.


@dataclass(frozen=True)
class WindowGrid:
    """Aligned windows; all times in microseconds."""

    bounds: Bounds
    length: int
    slide: int
    offset: int
    origin: int | None
    """The moment before which no window begins; None without one."""

    @staticmethod
    def of(rules: WindowSettings, first_clock: int) -> WindowGrid | None:
        """Returns the aligned windows of a bolt; None for other windows. ``first_clock``: of the run, in
        microseconds."""
        if rules.kinds or not isinstance(rules.length, Duration) or not isinstance(rules.slide, Duration):
            return None
        if rules.lifetime is not None:
            return None
        length, slide, offset = rules.length.micros, rules.slide.micros, rules.offset.micros
        if rules.anchor is None:
            offset += length if rules.aligned is Aligned.STARTS else 0
            return WindowGrid(rules.bounds, length, slide, offset, None)
        origin = rules.anchor if isinstance(rules.anchor, int) else first_clock
        origin += offset % slide
        return WindowGrid(rules.bounds, length, slide, origin + length, origin)

    def holding(self, at: int) -> list[tuple[int, int]]:
        """Returns the windows that contain a moment, by start and end."""
        one = np.array([at], np.int64)
        first_end = int(self.bounds.first_end(one, self.slide, self.offset)[0])
        last_end = int(self.bounds.last_end(one, self.length, self.slide, self.offset)[0])
        return self._between(first_end, last_end)

    def open(self, ended: int, watermark: int) -> list[tuple[int, int]]:
        """Returns the windows that have begun by the watermark, except those that end by ``ended``."""
        first_end = (ended - self.offset) // self.slide * self.slide + self.slide + self.offset
        last_end = (watermark + self.length - self.offset) // self.slide * self.slide + self.offset
        return self._between(first_end, last_end)

    def _between(self, first_end: int, last_end: int) -> list[tuple[int, int]]:
        """Returns the windows that end from ``first_end`` to ``last_end``, if they exist."""
        found = [(end - self.length, end) for end in range(first_end, last_end + 1, self.slide)]
        return [window for window in found if self.origin is None or window[0] >= self.origin]


# The axis of a timeline: times as columns, and rows drawn on them.


class Axis:
    """Times as columns; stretches without events are cut out if they would squeeze the rest."""

    BREAK = "╱╱"

    def __init__(self, times: Iterable[int], width: int) -> None:
        points = sorted({at for at in times if at != FOREVER}) or [0]
        cuts = cut_points(points)
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
        """Returns the column of a time."""
        part = max(0, bisect_right([low for low, _ in self.spans], at) - 1)
        (low, high), (first, last) = self.spans[part], self.columns[part]
        if high == low:
            return first
        return first + round((min(max(at, low), high) - low) * (last - first) / (high - low))

    def header(self, show: AxisTimes) -> Iterator[Text]:
        """Yields the labels of the axis, and its ruler."""
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
        """Draws a line of the chart; ``watermark``: the present one."""
        cells: list[tuple[str, str]] = [(" ", "")] * self.width
        if watermark is not None and row.new_watermark is None:
            cells[self.column(watermark)] = ("┊", "cyan dim")
        if row.new_watermark is not None:
            column = self.column(row.new_watermark)
            cells[:column] = [("┄", "cyan dim")] * column
            cells[column] = ("▌", "bold cyan")
        if row.bar is not None:
            self._draw_bar(cells, row.bar)
        self._draw_symbols(cells, row.symbols)
        return Text.assemble(*cells)

    def _draw_bar(self, cells: list[tuple[str, str]], bar: tuple[int, int, str, str]) -> None:
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

    def _draw_symbols(self, cells: list[tuple[str, str]], symbols: Sequence[tuple[int, str, str]]) -> None:
        """Draws the symbols. Events in the same column are counted; in the column of a bracket they replace it."""
        together = Counter(self.column(at) for at, symbol, _ in symbols if symbol != EXPIRED)
        for at, symbol, style in symbols:
            column = self.column(at)
            number = together[column]
            if symbol == EXPIRED and number:
                continue
            cells[column] = (symbol if number < 2 else str(number) if number < 10 else "+", style)
