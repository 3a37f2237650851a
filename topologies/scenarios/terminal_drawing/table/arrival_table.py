"""How events were taken in, as a table: one to lay beside the tables by which the systems explain their watermarks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from rich.table import Table
from rich.text import Text

from topologies.scenarios.run.scenario_answer import AnswerEvent, Replayed
from topologies.scenarios.schema.bare_columns import columns_of, moment_of
from topologies.scenarios.schema.scenario_model import Scenario
from topologies.scenarios.schema.steps import ClockStep, EventStep
from topologies.scenarios.terminal_drawing.eliding import elided
from topologies.scenarios.terminal_drawing.table.table_columns import columns_shown
from topologies.scenarios.terminal_drawing.table.table_line import TableLine
from topologies.scenarios.terminal_drawing.table.table_times import TableTimes
from topologies.scenarios.terminal_drawing.window_grid import WindowGrid
from windowing.errors import ScenarioError


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
