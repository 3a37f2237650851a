"""The columns of the table of arrivals: Azure's where there are rules about arrival, else Atlas's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from topologies.scenarios.schema.scenario_model import Scenario
from topologies.scenarios.schema.steps import ClockStep
from topologies.scenarios.terminal_drawing.table.table_line import TableLine
from topologies.scenarios.terminal_drawing.table.table_times import TableTimes


@dataclass(frozen=True)
class TableColumn:
    """A column: its name, and what of a row stands in it."""

    name: str
    of: str
    key: str = ""

    def cell(self, line: TableLine, show: TableTimes) -> str:
        """What stands in it for a row."""
        if self.key:
            return line.payload.get(self.key, "")
        value = getattr(line, self.of)
        if self.of in ("own", "open"):
            return show.windows(value)
        return value if isinstance(value, str) else show(value)


def columns_shown(scenario: Scenario, lines: Sequence[TableLine]) -> Iterator[TableColumn]:
    """The columns that a run's table may have, in order."""
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
