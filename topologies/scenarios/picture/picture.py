"""A picture of time of one windowed bolt, in data: all that is drawn, and the sentence that belongs to each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from topologies.scenarios.picture.boxes import WindowBox, boxes_of
from topologies.scenarios.picture.lines import Line, ideal_line, source_lines, watermark_line
from topologies.scenarios.picture.scale import Scale
from topologies.scenarios.picture.story import Stories
from topologies.scenarios.run.moments import RunMoment, RunMoments, goes_by_arrival
from topologies.scenarios.run.scenario_answer import BoltTrace, Replayed
from topologies.scenarios.schema.scenario_model import Scenario
from topologies.scenarios.terminal_drawing.axis_times import AxisTimes
from windowing.time.timestamps import FOREVER


@dataclass(frozen=True)
class Picture:
    """What is drawn of one bolt."""

    bolt: str
    trace: BoltTrace
    moments: Sequence[RunMoment]
    boxes: Sequence[WindowBox]
    watermark: Line
    sources: Sequence[Line]
    ideal: Line
    ideal_is_clock: bool
    scale: Scale
    show: AxisTimes
    stories: Sequence[str]
    """A sentence or more for each moment."""
    by_arrival: bool
    """Whether the axis counts events, since there is no time to place them by."""
    extents: dict[int, str]
    """By the number of a window: its bounds in words."""


def pictures(scenario: Scenario, answer: Replayed) -> list[Picture]:
    """A picture for each windowed bolt of a run, in the order of the topology; none of a topology without one."""
    return [_picture(scenario, answer, trace) for trace in answer.traces]


def _picture(scenario: Scenario, answer: Replayed, trace: BoltTrace) -> Picture:
    moments = RunMoments(scenario, answer, trace).all()
    boxes = boxes_of(moments, trace, scenario.first_clock)
    arrivals = goes_by_arrival(scenario, trace)
    watermark = watermark_line(moments)
    sources = source_lines(moments, trace)
    ideal, is_clock = ideal_line(moments, by_arrival=arrivals)
    drawn = [] if arrivals else [watermark, *sources, ideal]
    times = [*_times(moments, boxes), *(at for line in drawn for _, at in line.points if at != FOREVER)]
    bounds = [] if arrivals else [at for box in boxes for at in (box.start, box.end) if at not in (None, FOREVER)]
    show = AxisTimes([*times, *(at for at in bounds if at is not None)], scenario, by_arrival=arrivals)
    lengths = [box.high - box.low for box in boxes if box.high > box.low]
    stories = Stories(moments, trace, show, scenario.first_clock)
    return Picture(
        bolt=trace.bolt,
        trace=trace,
        moments=moments,
        boxes=boxes,
        watermark=watermark,
        sources=sources,
        ideal=ideal,
        ideal_is_clock=is_clock,
        scale=Scale(times, round(median(lengths)) if lengths else None, len(boxes)),
        show=show,
        stories=[stories.of(moment) for moment in moments],
        by_arrival=arrivals,
        extents={number: stories.extent(window) for number, window in trace.windows.items()},
    )


def _times(moments: Sequence[RunMoment], boxes: Sequence[WindowBox]) -> Iterator[int]:
    for moment in moments:
        yield from (at for at in (moment.at, moment.own) if at is not None and moment.fate is not None)
    for box in boxes:
        yield from (box.low, box.high)
