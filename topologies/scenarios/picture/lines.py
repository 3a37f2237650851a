"""The lines of a picture: the watermark of a bolt, the marks of its inputs and partitions, and the ideal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from topologies.scenarios.run.fates import Fate
from topologies.scenarios.run.moments import RunMoment
from topologies.scenarios.run.scenario_answer import BoltTrace
from windowing.time.timestamps import EARLIEST, FOREVER, LATEST


@dataclass(frozen=True)
class Line:
    """A line through the picture: (row, time in microseconds), in order of the rows."""

    name: str
    points: tuple[tuple[int, int], ...]


def watermark_line(moments: Sequence[RunMoment]) -> Line:
    """The bolt's watermark: a point where it moves. FOREVER once the streams have ended."""
    points: list[tuple[int, int]] = []
    for moment in moments:
        if moment.watermark is not None and (not points or points[-1][1] != moment.watermark):
            points.append((moment.number, moment.watermark))
    return Line("watermark", tuple(points))


def source_lines(moments: Sequence[RunMoment], trace: BoltTrace) -> list[Line]:
    """The watermark that each input, or partition of one, alone would allow; none where there is only one.

    After each event where watermarks come with events, and after each batch.
    """
    last_rows = {moment.batch: moment.number for moment in moments}
    points: dict[str, dict[int, int]] = {}
    known = {name for batch in trace.batches for name in batch.inputs}
    marks = _marks_of_events(moments, trace)
    for name, row, mark in marks:
        if name in known:
            points.setdefault(name, {})[row] = mark
    for batch in trace.batches:
        for name, mark in batch.inputs.items():
            if batch.batch in last_rows and EARLIEST <= mark <= LATEST:
                points.setdefault(name, {})[last_rows[batch.batch]] = mark
    if len(points) < 2:
        return []
    return [Line(name, _moved(points[name])) for name in sorted(points)]


def _marks_of_events(moments: Sequence[RunMoment], trace: BoltTrace) -> list[tuple[str, int, int]]:
    """By source and row: its mark after an event of its own."""
    if trace.settings.watermark_per_key:
        return []
    arrived = [moment for moment in moments if moment.kind == "event" and moment.source is not None]
    if len(arrived) != len(trace.events):
        return []
    return [
        (moment.source, moment.number, event["mark"])
        for moment, event in zip(arrived, trace.events, strict=True)
        if moment.source is not None and event["mark"] is not None and moment.event == event["id"]
    ]


def _moved(points: dict[int, int]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for row in sorted(points):
        if not found or points[row] > found[-1][1]:
            found.append((row, points[row]))
    return tuple(found)


def ideal_line(moments: Sequence[RunMoment], *, by_arrival: bool) -> tuple[Line, bool]:
    """Where events would lie in an ideal world, and whether the clock says so.

    With a clock of the world of the events: at its own time, the diagonal. Without one: at the furthest time seen.
    """
    times = [moment.at for moment in moments if moment.at is not None and moment.kind == "event"]
    if by_arrival or not times:
        return Line("ideal", ()), False
    span = max(max(times) - min(times), 1)
    clocks = [(moment.number, moment.clock) for moment in moments if moment.clock is not None]
    near = [at for _, at in clocks if min(times) - span <= at <= max(times) + span]
    if len(near) == len(clocks) and len({at for _, at in clocks}) > 1:
        return Line("ideal", tuple(clocks)), True
    furthest: list[tuple[int, int]] = []
    for moment in moments:
        if moment.at is not None and moment.fate not in (Fate.EARLY, Fate.INVALID) and moment.at != FOREVER:
            furthest.append((moment.number, max([moment.at, *(at for _, at in furthest[-1:])])))
    return Line("ideal", tuple(furthest)), False
