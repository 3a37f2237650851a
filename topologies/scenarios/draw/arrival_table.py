"""How events were taken in, as a table: one to lay beside the tables by which the systems explain their watermarks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from rich.table import Table
from rich.text import Text

from topologies.io.times import written
from topologies.scenarios.run.answer import AnswerEvent, Replayed
from topologies.scenarios.schema.columns import columns_of, moment_of
from topologies.scenarios.schema.model import Scenario
from topologies.scenarios.schema.steps import ClockStep, EventStep
from windowing.errors import ScenarioError
from windowing.settings.rules import Aligned
from windowing.time.durations import Duration
from windowing.time.timestamps import EARLIEST, FOREVER, LATEST, to_datetime

HEAD, TAIL = 80, 40
"""So many rows are printed of a run that is too long: of its beginning, and of its end."""
FEW = 3
"""So many windows are written out in a cell; of more the first and the last."""

SECOND = 1_000_000
DAY = 86_400 * SECOND

Grid = tuple[int, int, int, int | None]
"""Length, slide and offset of aligned windows, and the moment before which none begins."""


def arrival_table(scenario: Scenario, answer: Replayed) -> Table | None:
    """The table of a run whose watermark comes with its events; None where it does not.

    With rules about arrival it has the columns of Azure's illustrated example, else those of Atlas's tables: there
    the steps of the clock have rows as well.
    """
    if scenario.bolt is None or all(event["mark"] is None for event in answer.events):
        return None
    lines = list(_lines(scenario, answer))
    shown = chain.from_iterable(line.times() for line in lines)
    show = TableTimes(shown, (at for line in lines for at in (line.time, line.clock, line.arrival) if at is not None))
    columns = [column for column in _columns(scenario, lines) if any(column.cell(line, show) for line in lines)]
    table = Table(title="event by event", title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column.name, no_wrap=column.of not in ("own", "open"))
    for line in lines[:HEAD]:
        table.add_row(*(Text(column.cell(line, show), line.style) for column in columns))
    if len(lines) > HEAD + TAIL:
        table.add_row(Text(f"{len(lines) - HEAD - TAIL} more", "italic"))
    for line in lines[HEAD:][-TAIL:]:
        table.add_row(*(Text(column.cell(line, show), line.style) for column in columns))
    return table


@dataclass
class Line:
    """What a row says; times in microseconds, None where there is none."""

    event: str = ""
    stream: str = ""
    time: int | None = None
    clock: int | None = None
    arrival: int | None = None
    payload: dict[str, str] = field(default_factory=dict)
    """What else the event carries: its key, its device."""
    assigned: int | None = None
    watermark: int | None = None
    mark: int | None = None
    own: list[tuple[int, int]] = field(default_factory=list)
    """The windows that hold the event."""
    open: list[tuple[int, int]] = field(default_factory=list)
    """The windows that are open after it."""
    lateness: int | None = None
    """The watermark, less the allowed lateness."""
    action: str = ""

    @property
    def style(self) -> str:
        """Dim where no event came, bold where one was moved or turned away."""
        if not self.event:
            return "dim"
        return "" if self.action in ("", "accepted") else "bold"

    def times(self) -> Iterator[int]:
        """All times of the row."""
        known = (self.time, self.clock, self.arrival, self.assigned, self.watermark, self.mark, self.lateness)
        yield from (at for at in known if at is not None)
        yield from chain.from_iterable([*self.own, *self.open])


class TableTimes:
    """How the times of a table are written: by the clock, with dates and seconds where some of them need those.

    Where all that happens is on one ``day``, its times bear no date.
    """

    def __init__(self, times: Iterable[int], happening: Iterable[int]) -> None:
        known = {at for at in times if EARLIEST <= at <= LATEST}
        self.as_clock = bool(known) and min(known) > 3 * 365 * DAY
        days = {at // DAY for at in happening}
        self.day = days.pop() if len(days) == 1 else None
        self.seconds = any(at % (60 * SECOND) for at in known)

    def __call__(self, at: int | None) -> str:
        if at is None:
            return ""
        if at == FOREVER:
            return "+inf"
        if not self.as_clock or not EARLIEST <= at <= LATEST:
            return str(written(at))
        moment = to_datetime(at)
        text = f"{moment:%H:%M}" if at // DAY == self.day else f"{moment:%m-%d %H:%M}"
        if self.seconds:
            text = f"{text}:{moment:%S}"
        return text if at % SECOND == 0 else f"{text}.{moment:%f}"[: -3 if at % 1000 == 0 else None]

    def windows(self, windows: Sequence[tuple[int, int]]) -> str:
        """Windows of a cell, by their start and end."""
        shown = [self._window(start, end) for start, end in windows]
        return ", ".join(shown if len(shown) <= FEW else [shown[0], "...", shown[-1]])

    def _window(self, start: int, end: int) -> str:
        plain = self.as_clock and start // DAY == end // DAY == self.day
        return f"{self(start)}{'-' if plain else '..'}{self(end)}"


@dataclass(frozen=True)
class Column:
    """A column: its name, and what of a row stands in it."""

    name: str
    of: str
    key: str = ""

    def cell(self, line: Line, show: TableTimes) -> str:
        """What stands in it for a row."""
        if self.key:
            return line.payload.get(self.key, "")
        value = getattr(line, self.of)
        if self.of in ("own", "open"):
            return show.windows(value)
        return value if isinstance(value, str) else show(value)


def _columns(scenario: Scenario, lines: Sequence[Line]) -> Iterator[Column]:
    rules = scenario.rules
    by_arrival = rules.arrival is not None
    stepped = any(isinstance(step, ClockStep) for step in scenario.steps)
    if scenario.has_clock and (stepped or not by_arrival):
        yield Column("processing time", "clock")
    yield Column("event", "event")
    if len(scenario.streams) > 1:
        yield Column("stream", "stream")
    yield Column("event time", "time")
    if by_arrival:
        yield Column("arrival time", "arrival")
    for name in dict.fromkeys(name for line in lines for name in line.payload):
        yield Column(name, "payload", name)
    if by_arrival or any(line.assigned != line.time for line in lines if line.assigned is not None):
        yield Column("System.Timestamp" if by_arrival else "assigned", "assigned")
    yield Column("watermark", "watermark")
    if any(line.mark != line.watermark for line in lines if line.event):
        of = f"watermark ({', '.join(rules.key)})" if rules.watermark_per_key else "own mark"
        yield Column(of, "mark")
    if rules.allowed_lateness.micros:
        yield Column("lateness time", "lateness")
    if not by_arrival:
        yield Column("its window", "own")
        yield Column("open windows", "open")
    if by_arrival or any(line.action != "accepted" for line in lines if line.event):
        yield Column("action", "action")


def _lines(scenario: Scenario, answer: Replayed) -> Iterator[Line]:
    grid, taken, clocks = _grid(scenario), {event["id"]: event for event in answer.events}, iter(answer.clocks)
    clock: int | None = None
    begun: int | None = None
    fired = {(window["start"], window["end"], name) for window in answer.windows for name in window["events"]}
    known = {(window["start"], window["end"]) for window in answer.windows}
    for step in scenario.steps:
        if isinstance(step, EventStep | ClockStep) and step.moved is not None:
            clock = step.moved
        if isinstance(step, ClockStep):
            line = Line(clock=clock, watermark=next(clocks, None))
        elif isinstance(step, EventStep) and step.id in taken:
            line = _line(scenario, step, taken[step.id], clock)
            at = line.assigned
            own = [] if grid is None or at is None else _holding(scenario, grid, at)
            line.own = [each for each in own if (*each, step.id) in fired or each not in known]
        else:
            continue
        if line.watermark is not None:
            line.lateness = line.watermark - scenario.rules.allowed_lateness.micros
            begun = min(each for each in (begun, line.watermark, line.assigned) if each is not None)
            line.open = [] if grid is None else _open(grid, max(line.lateness, begun), line.watermark)
        yield line


def _line(scenario: Scenario, step: EventStep, event: AnswerEvent, clock: int | None) -> Line:
    arrival = scenario.rules.arrival
    columns = columns_of(scenario.rules)
    times = {name for name, kind in columns.items() if kind == "time"}
    given = {name: value for name, value in step.event.items() if name not in ("id", *times)}
    return Line(
        event=step.id,
        stream=step.stream or "",
        time=scenario.event_time(step),
        clock=clock,
        arrival=clock if arrival is None or arrival.field is None else _moment(step.event.get(arrival.field)),
        payload={name: str(value) for name, value in given.items() if isinstance(value, str | int | float)},
        assigned=event["time"],
        watermark=event["watermark"],
        mark=event["mark"],
        action=event["action"].replace("_", " "),
    )


def _moment(value: object) -> int | None:
    try:
        return None if value is None else moment_of(value)
    except ScenarioError:
        return None


def _grid(scenario: Scenario) -> Grid | None:
    """The aligned windows of the bolt; None where its windows are others."""
    rules = scenario.rules
    if rules.kinds or not isinstance(rules.length, Duration) or not isinstance(rules.slide, Duration):
        return None
    if rules.lifetime is not None:
        return None
    length, slide, offset = rules.length.micros, rules.slide.micros, rules.offset.micros
    if rules.anchor is None:
        return length, slide, offset + (length if rules.aligned is Aligned.STARTS else 0), None
    origin = rules.anchor if isinstance(rules.anchor, int) else scenario.first_clock
    origin += offset % slide
    return length, slide, origin + length, origin


def _holding(scenario: Scenario, grid: Grid, at: int) -> list[tuple[int, int]]:
    """The aligned windows that hold a moment."""
    length, slide, offset, origin = grid
    bounds, one = scenario.rules.bounds, np.array([at], np.int64)
    first = int(bounds.first_end(one, slide, offset)[0])
    last = int(bounds.last_end(one, length, slide, offset)[0])
    found = [(end - length, end) for end in range(first, last + 1, slide)]
    return [each for each in found if origin is None or each[0] >= origin]


def _open(grid: Grid, over: int, watermark: int) -> list[tuple[int, int]]:
    """The aligned windows that have begun by the watermark, but for those that end by ``over``."""
    length, slide, offset, origin = grid
    first = (over - offset) // slide * slide + slide + offset
    last = (watermark + length - offset) // slide * slide + offset
    found = [(end - length, end) for end in range(first, last + 1, slide)]
    return [each for each in found if origin is None or each[0] >= origin]
