"""The table of arrivals, in the form in which other systems explain their watermarks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from rich.table import Table
from rich.text import Text

from topologies.scenarios.scenario_answer import AnswerEvent, Replayed
from topologies.scenarios.scenario_bolt import columns_of, moment_of
from topologies.scenarios.scenario_model import Scenario
from topologies.scenarios.scenario_values import ClockStep, EventStep
from topologies.scenarios.timeline_axis import DAY, SECOND, WindowGrid, are_of_a_clock, elided, time_text
from windowing.errors import ScenarioError
from windowing.timestamps import EARLIEST, LATEST

# How the times of a table are written.


FEW = 3
"""Maximum number of windows written out in a cell; of more, the first and the last are shown."""


class TableTimes:
    """Form of the times of a table: times of day, with dates and seconds where some of them need those.

    If all that happens is on one ``day``, the times have no date.
    """

    def __init__(self, times: Iterable[int], happening: Iterable[int]) -> None:
        known = {at for at in times if EARLIEST <= at <= LATEST}
        self.as_clock = are_of_a_clock(known)
        days = {at // DAY for at in happening}
        self.day = days.pop() if len(days) == 1 else None
        self.seconds = any(at % (60 * SECOND) for at in known)

    def __call__(self, at: int | None) -> str:
        if at is None:
            return ""
        return time_text(at, as_clock=self.as_clock, dated=at // DAY != self.day, seconds=self.seconds)

    def windows(self, windows: Sequence[tuple[int, int]]) -> str:
        """Windows of a cell, by their start and end."""
        shown = [self._window(start, end) for start, end in windows]
        return ", ".join(shown if len(shown) <= FEW else [shown[0], "...", shown[-1]])

    def _window(self, start: int, end: int) -> str:
        plain = self.as_clock and start // DAY == end // DAY == self.day
        return f"{self(start)}{'-' if plain else '..'}{self(end)}"


# A line of the table of arrivals.


@dataclass
class TableLine:
    """Values of a row; times in microseconds, None if there is none."""

    event: str = ""
    stream: str = ""
    time: int | None = None
    clock: int | None = None
    arrival: int | None = None
    payload: dict[str, str] = field(default_factory=dict)
    """Other values that the event carries: its key, its device."""
    assigned: int | None = None
    watermark: int | None = None
    mark: int | None = None
    own: list[tuple[int, int]] = field(default_factory=list)
    """Windows that hold the event."""
    open: list[tuple[int, int]] = field(default_factory=list)
    """The windows that are open after it."""
    lateness: int | None = None
    """The watermark, less the allowed lateness."""
    decision: str = ""
    """Decision about the event; the table spells it ``action``, as answers do."""

    @property
    def style(self) -> str:
        """Style of the row: dim where no event came, bold where one was moved or turned away."""
        if not self.event:
            return "dim"
        return "" if self.decision in ("", "accepted") else "bold"

    def times(self) -> Iterator[int]:
        """Yields all times of the row."""
        known = (self.time, self.clock, self.arrival, self.assigned, self.watermark, self.mark, self.lateness)
        yield from (at for at in known if at is not None)
        yield from chain.from_iterable([*self.own, *self.open])


# The columns of the table of arrivals: Azure's where there are rules about arrival, else Atlas's.


@dataclass(frozen=True)
class TableColumn:
    """A column: its name, and the value of a row that it shows."""

    name: str
    of: str
    key: str = ""

    def cell(self, line: TableLine, show: TableTimes) -> str:
        """Returns the text of its cell in a row."""
        if self.key:
            return line.payload.get(self.key, "")
        value = getattr(line, self.of)
        if self.of in ("own", "open"):
            return show.windows(value)
        return value if isinstance(value, str) else show(value)


def columns_shown(scenario: Scenario, lines: Sequence[TableLine]) -> Iterator[TableColumn]:
    """Yields the columns that a run's table may have, in order."""
    rules = scenario.rules
    by_arrival = rules.arrival is not None
    stepped = any(isinstance(step, ClockStep) for step in scenario.steps)
    if scenario.has_clock and (stepped or not by_arrival):
        yield TableColumn("processing time", "clock")
    yield TableColumn("event", "event")
    if len(scenario.streams) > 1:
        yield TableColumn("stream", "stream")
    yield TableColumn("event time", "time")
    if by_arrival:
        yield TableColumn("arrival time", "arrival")
    for name in dict.fromkeys(name for line in lines for name in line.payload):
        yield TableColumn(name, "payload", name)
    if by_arrival or any(line.assigned != line.time for line in lines if line.assigned is not None):
        yield TableColumn("System.Timestamp" if by_arrival else "assigned", "assigned")
    yield TableColumn("watermark", "watermark")
    if any(line.mark != line.watermark for line in lines if line.event):
        of = f"watermark ({', '.join(rules.key)})" if rules.watermark_per_key else "own mark"
        yield TableColumn(of, "mark")
    if rules.allowed_lateness.micros:
        yield TableColumn("lateness time", "lateness")
    if not by_arrival:
        yield TableColumn("its window", "own")
        yield TableColumn("open windows", "open")
    if by_arrival or any(line.decision != "accepted" for line in lines if line.event):
        yield TableColumn("action", "decision")


# How events were taken in, as a table: one to lay beside the tables by which the systems explain their watermarks.


def arrival_table(scenario: Scenario, answer: Replayed) -> Table | None:
    """Returns the table of a run whose watermark comes with its events; None where it does not.

    With rules about arrival it has the columns of Azure's illustrated example, else those of Atlas's tables: there
    the steps of the clock have rows as well.
    """
    if scenario.bolt is None or all(event["mark"] is None for event in answer.events):
        return None
    lines = list(_lines(scenario, answer))
    shown = chain.from_iterable(line.times() for line in lines)
    show = TableTimes(shown, (at for line in lines for at in (line.time, line.clock, line.arrival) if at is not None))
    columns = [column for column in columns_shown(scenario, lines) if any(column.cell(line, show) for line in lines)]
    table = Table(title="event by event", title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column.name, no_wrap=column.of not in ("own", "open"))
    head, hidden, tail = elided(lines)
    for line in head:
        table.add_row(*(Text(column.cell(line, show), line.style) for column in columns))
    if hidden:
        table.add_row(Text(f"{len(hidden)} more", "italic"))
    for line in tail:
        table.add_row(*(Text(column.cell(line, show), line.style) for column in columns))
    return table


def _lines(scenario: Scenario, answer: Replayed) -> Iterator[TableLine]:
    grid, clocks = WindowGrid.of(scenario.rules, scenario.first_clock), iter(answer.clocks)
    taken = {event["id"]: event for event in answer.events}
    clock: int | None = None
    begun: int | None = None
    fired = {(window["start"], window["end"], name) for window in answer.windows for name in window["events"] or ()}
    known = {(window["start"], window["end"]) for window in answer.windows}
    for step in scenario.steps:
        if isinstance(step, EventStep | ClockStep) and step.moved is not None:
            clock = step.moved
        if isinstance(step, ClockStep):
            line = TableLine(clock=clock, watermark=next(clocks, None))
        elif isinstance(step, EventStep) and step.id in taken:
            line = _line(scenario, step, taken[step.id], clock)
            at = line.assigned
            own = [] if grid is None or at is None else grid.holding(at)
            line.own = [each for each in own if (*each, step.id) in fired or each not in known]
        else:
            continue
        if line.watermark is not None:
            line.lateness = line.watermark - scenario.rules.allowed_lateness.micros
            begun = min(each for each in (begun, line.watermark, line.assigned) if each is not None)
            line.open = [] if grid is None else grid.open(max(line.lateness, begun), line.watermark)
        yield line


def _line(scenario: Scenario, step: EventStep, event: AnswerEvent, clock: int | None) -> TableLine:
    arrival = scenario.rules.arrival
    columns = columns_of(scenario.rules)
    times = {name for name, kind in columns.items() if kind == "time"}
    given = {name: value for name, value in step.event.items() if name not in ("id", *times)}
    return TableLine(
        event=step.id,
        stream=step.stream or "",
        time=scenario.event_time(step),
        clock=clock,
        arrival=clock if arrival is None or arrival.field is None else _moment(step.event.get(arrival.field)),
        payload={name: str(value) for name, value in given.items() if isinstance(value, str | int | float)},
        assigned=event["time"],
        watermark=event["watermark"],
        mark=event["mark"],
        decision=event["action"].replace("_", " "),
    )


def _moment(value: object) -> int | None:
    try:
        return None if value is None else moment_of(value)
    except ScenarioError:
        return None
