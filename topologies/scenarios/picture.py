"""A picture of the time of one windowed bolt, as data: all parts of the drawing, and a sentence for each row."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from manager.watermarks import input_of, shown_partition
from topologies.scenarios.moments import EventOutcome, RunMoment, RunMoments, goes_by_arrival, known_ids
from topologies.scenarios.scenario_answer import AnswerWindow, BoltTrace, ReplayResult
from topologies.scenarios.scenario_model import Scenario
from topologies.scenarios.timeline_axis import AxisTimes, WindowGrid, cut_points
from windowing.durations import Duration
from windowing.settings.kinds import Session
from windowing.settings.rules import LateBy
from windowing.timestamps import EARLIEST, FOREVER, LATEST

# The axis of event time, in pixels; stretches without events are cut out.


BREAK, MARGIN, LABEL = 26, 18, 92
"""Pixels: the width of a cut, the margin at both ends, and the least distance of two labels."""
_LEAST, _NARROWEST, _WIDEST, _WINDOW = 40, 660, 30_000, 22
"""Pixels: the least width of a part, the least and greatest total width, and the least width of a window."""


class Scale:
    """Places times on an axis."""

    def __init__(self, times: Iterable[int], unit: int | None, windows: int) -> None:
        """``unit``: length of a usual window in microseconds, which must be wide enough to see. ``windows``: their
        number, because few windows need no wide axis, however short they are."""
        points = sorted({at for at in times if at != FOREVER}) or [0]
        cuts = cut_points(points)
        parts = [points[low:high] for low, high in zip([0, *cuts], [*cuts, len(points)], strict=True)]
        self.spans = [(part[0], part[-1]) for part in parts]
        total = sum(high - low for low, high in self.spans) or 1
        wanted_width = _NARROWEST if not unit else min(total / unit * _WINDOW, _NARROWEST + 2 * _WINDOW * windows)
        self.width = round(min(max(wanted_width, _NARROWEST), _WIDEST))
        spare = self.width - 2 * MARGIN - BREAK * (len(parts) - 1) - _LEAST * len(parts)
        self.pixel_spans: list[tuple[float, float]] = []
        x = float(MARGIN)
        for low, high in self.spans:
            right = x + _LEAST + spare * (high - low) / total
            self.pixel_spans.append((x, right))
            x = right + BREAK
        self.breaks = [right for _, right in self.pixel_spans[:-1]]
        """Positions where cuts begin."""

    def __call__(self, at: int) -> float:
        """Returns the position of a time, in pixels from the left; beyond the ends, that of the nearest end."""
        if at == FOREVER:
            return float(self.width)
        part = max(0, bisect_right([low for low, _ in self.spans], at) - 1)
        (low, high), (left, right) = self.spans[part], self.pixel_spans[part]
        if high == low:
            return (left + right) / 2 if at == low else right
        return left + (min(max(at, low), high) - low) * (right - left) / (high - low)

    def ticks(self, show: AxisTimes) -> Iterator[tuple[float, str]]:
        """Yields the labels of the axis, with their positions."""
        free = 0.0
        for (low, high), (left, right) in zip(self.spans, self.pixel_spans, strict=True):
            pixels = max(right - left, 1.0)
            step = show.step(max(round(LABEL * (high - low) / pixels), 1))
            for at in list(range(-(-low // step) * step, high + 1, step)) if high > low else [low]:
                x = self(at)
                if x >= free:
                    yield x, show(at)
                    free = x + LABEL * 0.8


# The windows of a run as boxes: their extent in event time, and when they opened, fired and closed.


_OUTSIDE = (None, EventOutcome.DUPLICATE, EventOutcome.LATE, EventOutcome.DROPPED, EventOutcome.EARLY)


@dataclass(frozen=True)
class BoxExtent:
    """A range of event time that a window covers, from one row of the picture to another."""

    low: int
    high: int
    first_row: int
    last_row: int
    """Last row of the extent, which ends in the middle of that row."""


@dataclass
class WindowBox:
    """A window: the time that the window covers while open, and the rows of its firings."""

    start: int | None
    end: int | None
    brackets: tuple[str, str]
    low: int
    """Start and end of the box on the axis."""
    high: int
    opened_row: int
    """Row of its first event."""
    firing_rows: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """The numbers of its firings, in order."""
    closed_row: int | None = None
    """The row of its last firing; None if it is still open at the end of the run."""
    extents: list[BoxExtent] = field(default_factory=list)


def window_boxes(moments: Sequence[RunMoment], trace: BoltTrace, first_clock: int) -> list[WindowBox]:
    """Returns the boxes of all windows that fired, in order of their first firing, then of those that are still
    open."""
    moments_by_event = {
        moment.event: moment for moment in moments if moment.at is not None and moment.outcome not in _OUTSIDE
    }
    rows_of_firings = {moment.window: moment.number for moment in moments if moment.window is not None}
    last_row = moments[-1].number if moments else 0
    groups: dict[str, list[int]] = defaultdict(list)
    for number, window in trace.windows.items():
        groups[_identity_of_window(number, window)].append(number)
    found = []
    for firings in groups.values():
        windows = [trace.windows[number] for number in firings]
        names = {name for window in windows for name in known_ids(window["events"]) if name in moments_by_event}
        events = sorted((moments_by_event[name] for name in names), key=lambda moment: moment.number)
        box = _box(windows, events, rows_of_firings[firings[0]])
        if box is None:
            continue
        box.numbers, box.firing_rows = firings, [rows_of_firings[number] for number in firings]
        pane = windows[-1].get("pane")
        box.closed_row = box.firing_rows[-1] if pane is None or pane["last"] else None
        top = last_row if box.closed_row is None else box.closed_row
        box.extents = _extents(box, events, trace, windows[-1], top)
        found.append(box)
    return [*found, *_still_open(moments, trace, first_clock, last_row)]


def _identity_of_window(number: int, window: AnswerWindow) -> str:
    """Returns an id that all firings of a window share; without panes each firing is a window of its own."""
    if "pane" not in window:
        return str(number)
    own: list[Any] = [window["start"], window["end"], window.get("key"), window.get("kind"), window.get("task")]
    return json.dumps(own, default=str)


def _box(windows: Sequence[AnswerWindow], events: Sequence[RunMoment], first_firing: int) -> WindowBox | None:
    """Returns the box without its firings; None if its position is unknown."""
    window, places = windows[0], [moment.at for moment in events if moment.at is not None]
    start, end = window["start"], window["end"]
    by_arrival = any(each["end"] is None for each in windows) or any(
        moment.at == moment.arrival for moment in events if moment.at is not None
    )
    low = min(places, default=None) if start is None or by_arrival else start
    high = max(places, default=None) if end is None or by_arrival else end
    if low is None:
        low = high
    if high == FOREVER and low is not None:
        high = max([low, *places])
    if low is None or high is None:
        return None
    opened_row = min((moment.number for moment in events if moment.number <= first_firing), default=first_firing)
    return WindowBox(start, end, window["brackets"], low, high, opened_row)


def _extents(
    box: WindowBox, events: Sequence[RunMoment], trace: BoltTrace, window: AnswerWindow, top: int
) -> list[BoxExtent]:
    """Returns one extent; for a session, one for each event that extends it."""
    kinds = trace.settings.kinds
    kind = kinds[window.get("kind", 0)] if kinds else None
    if not isinstance(kind, Session) or kind.gap_field is not None or len(events) < 2 or box.end is None:
        return [BoxExtent(box.low, box.high, box.opened_row, top)]
    ends = [moment.number for moment in events[1:]] + [top]
    found = []
    for count, (moment, last) in enumerate(zip(events, ends, strict=True), 1):
        times = sorted(each.at for each in events[:count] if each.at is not None)
        for low, high in _runs(times, kind.gap.micros):
            found.append(BoxExtent(low, min(high, box.high), moment.number, last))
    return found


def _runs(times: Sequence[int], gap: int) -> Iterator[tuple[int, int]]:
    """Yields the sessions of these times, each from its first time to a gap after its last."""
    low = high = times[0]
    for at in times[1:]:
        if at > high + gap:
            yield low, high + gap
            low = at
        high = at
    yield low, high + gap


def _still_open(moments: Sequence[RunMoment], trace: BoltTrace, first_clock: int, last: int) -> Iterator[WindowBox]:
    """Yields the aligned windows that still hold waiting events at the end of the run."""
    grid = WindowGrid.of(trace.settings, first_clock)
    if grid is None or trace.settings.key or not trace.event_time:
        return
    known = {(window["start"], window["end"]) for window in trace.windows.values()}
    opened: dict[tuple[int, int], int] = {}
    for moment in moments:
        if moment.event in trace.pending and moment.at is not None and moment.outcome is not EventOutcome.LATE:
            for window in grid.holding(moment.at):
                if window not in known:
                    opened.setdefault(window, moment.number)
    for (start, end), first in sorted(opened.items()):
        brackets = grid.bounds.value[0], grid.bounds.value[-1]
        extent = BoxExtent(start, end, first, last)
        yield WindowBox(start, end, brackets, start, end, first, extents=[extent])


# The lines of a picture: the watermark of a bolt, the marks of its inputs and partitions, and the ideal.


@dataclass(frozen=True)
class Line:
    """A line through the picture: (row, time in microseconds), in order of the rows."""

    name: str
    points: tuple[tuple[int, int], ...]


def watermark_line(moments: Sequence[RunMoment]) -> Line:
    """Returns the bolt's watermark, with a point for each move. FOREVER once the streams have ended."""
    points: list[tuple[int, int]] = []
    for moment in moments:
        if moment.watermark is not None and (not points or points[-1][1] != moment.watermark):
            points.append((moment.number, moment.watermark))
    return Line("watermark", tuple(points))


def source_lines(moments: Sequence[RunMoment], trace: BoltTrace) -> list[Line]:
    """Returns the watermark that each input or partition alone would allow; none if there is only one.

    There is a point after each event, if watermarks come with events, and after each batch.
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
    return [Line(name, _rising(points[name])) for name in sorted(points)]


def _marks_of_events(moments: Sequence[RunMoment], trace: BoltTrace) -> list[tuple[str, int, int]]:
    """Returns, for each event with a mark, its source, its row, and the mark of the source after it."""
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


def _rising(points: dict[int, int]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for row in sorted(points):
        if not found or points[row] > found[-1][1]:
            found.append((row, points[row]))
    return tuple(found)


def ideal_line(moments: Sequence[RunMoment], *, by_arrival: bool) -> tuple[Line, bool]:
    """Returns the line on which events without delay would lie, and True if it follows the clock.

    If the clock is near the times of the events, the line is the clock itself, the diagonal. Otherwise it is the latest
    time seen.
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
        if (
            moment.at is not None
            and moment.outcome not in (EventOutcome.EARLY, EventOutcome.INVALID)
            and moment.at != FOREVER
        ):
            furthest.append((moment.number, max([moment.at, *(at for _, at in furthest[-1:])])))
    return Line("ideal", tuple(furthest)), False


# Sentences about each moment of a run, for readers who do not know stream processing.


_MANY = 12
"""Most ids in a sentence; of more, the first and the last are given."""

_PLAINLY = {
    "crash": "Crash: what is in memory is lost. The run recovers from its last commit, and the source sends again.",
    "close": "The streams end: windows that are open fire now, where the rules say so.",
    "end": "End of the run.",
}


class Stories:
    """Describes the moments of one bolt."""

    def __init__(self, moments: Sequence[RunMoment], trace: BoltTrace, show: AxisTimes, first_clock: int) -> None:
        self.moments, self.trace, self.show = moments, trace, show
        self.grid = WindowGrid.of(trace.settings, first_clock) if trace.event_time else None
        self.firing_moments = {moment.window: moment for moment in moments if moment.window is not None}
        self.windows_holding: dict[str, list[int]] = {}
        for number, window in trace.windows.items():
            for name in known_ids(window["events"]):
                self.windows_holding.setdefault(name, []).append(number)

    def tell(self, moment: RunMoment) -> str:
        """Describes a moment of the run."""
        match moment.kind:
            case "event":
                return self._event(moment)
            case "window":
                return self._window(moment)
            case "tick":
                return self._watermark(moment, "Tick: the interval of the watermark has passed.")
            case "clock":
                return self._watermark(moment, f"The clock moves to {self._time(moment.clock)}.")
        return _PLAINLY[moment.kind]

    # -- events

    def _event(self, moment: RunMoment) -> str:
        came = f" at {self._time(moment.clock)}" if moment.clock is not None else ""
        arrived = f", as event {moment.arrival}" if moment.arrival is not None else ""
        if moment.outcome is EventOutcome.ELSEWHERE:
            return f"{moment.event} came{came}{arrived}. It does not come to this bolt."
        if moment.outcome is EventOutcome.WATERMARK:
            return (
                f"{moment.event} is not an event: the source says that time has reached {self._time(moment.own_time)}."
            )
        when = self._watermark_then(moment)
        time = f"{moment.event} has the time {self._time(moment.own_time)}. " if moment.own_time is not None else ""
        if not self.trace.event_time:
            return f"{moment.event} came{came}{arrived}. {self._outcome(moment)}"
        return f"{time}{'It' if time else moment.event} came{came}{arrived}, {when}. {self._outcome(moment)}"

    def _watermark_then(self, moment: RunMoment) -> str:
        mark = moment.mark
        if mark is None:
            return "before there was a watermark"
        return f"when the watermark was {self._time(mark)}"

    def _outcome(self, moment: RunMoment) -> str:
        by_outcome = {
            EventOutcome.EARLY: f"It is too early: {moment.reason}.",
            EventOutcome.DUPLICATE: "A message with its id had been taken in already, so it does not count again.",
            EventOutcome.INVALID: f"The bolt cannot use it: {moment.reason or 'no time'}.",
            EventOutcome.NOWHERE: "It was taken in, but no window that fired holds it.",
        }
        if moment.outcome in by_outcome:
            return by_outcome[moment.outcome]
        if moment.outcome in (EventOutcome.LATE, EventOutcome.DROPPED):
            return self._late(moment)
        adjusted = f"It was given the time {self._time(moment.at)}. " if moment.outcome is EventOutcome.ADJUSTED else ""
        return f"{adjusted}{self._windows(moment)}"

    def _windows(self, moment: RunMoment) -> str:
        numbers = self.windows_holding.get(moment.event, [])
        if moment.outcome is EventOutcome.PENDING or moment.event in self.trace.pending:
            waits = "It waits: a window that may hold it had not fired when the run ended."
            return f"{self._in_windows(numbers)} {waits}" if numbers else waits
        if not numbers:
            return "It was taken in; which windows hold it is unknown, as no column id reaches the bolt."
        return self._in_windows(numbers)

    def _in_windows(self, numbers: Sequence[int]) -> str:
        shown = [f"#{number} {self.extent(self.trace.windows[number])}" for number in numbers[:4]]
        more = f" and {len(numbers) - 4} more" if len(numbers) > 4 else ""
        return f"It is in window{'s' if len(numbers) > 1 else ''} {', '.join(shown)}{more}."

    def _late(self, moment: RunMoment) -> str:
        by = f" by {Duration(moment.micros_late)}" if moment.micros_late else ""
        dropped = " The bolt is told to drop such events." if moment.outcome is EventOutcome.DROPPED else ""
        stream = self.trace.settings.late_stream
        went = f" It went to the stream {stream!r}." if stream and not dropped else ""
        return f"It was late{by}: {self._why_late(moment)}.{dropped}{went}"

    def _why_late(self, moment: RunMoment) -> str:
        own_windows = [] if self.grid is None or moment.own_time is None else self.grid.holding(moment.own_time)
        sentences = [self._state_of_window(window, moment) for window in own_windows[-3:]]
        reason = f"{moment.reason or 'the watermark had passed its time'}"
        if not sentences:
            return reason
        though_open = self.trace.settings.late_by is LateBy.WATERMARK and any("open" in each for each in sentences)
        rule = ", and this bolt turns away all that is behind the watermark" if though_open else ""
        return f"{reason}. {' '.join(sentences)}{rule}".rstrip(".")

    def _state_of_window(self, window: tuple[int, int], moment: RunMoment) -> str:
        """Describes the state, when a late event came, of the window that would have held it."""
        extent = self._between(*window)
        for number, fired in self.trace.windows.items():
            if (fired["start"], fired["end"]) == window and self.firing_moments[number].number < moment.number:
                reached = self.firing_moments[number].watermark
                when = f", when the watermark reached {self._time(reached)}" if reached else ""
                return f"Its window {extent} had fired (#{number}){when}."
        if moment.mark is not None and window[1] > moment.mark:
            return f"Its window {extent} was still open"
        return f"Its window {extent} was over, without an event."

    # -- windows and watermarks

    def _window(self, moment: RunMoment) -> str:
        assert moment.window is not None
        window = self.trace.windows[moment.window]
        pane = window.get("pane")
        which = ""
        if pane:
            last = ", the last" if pane["last"] else ""
            which = f", for the {_ordinal(pane['index'] + 1)} time ({pane['timing'].replace('_', ' ')}{last})"
        whose = "".join(f", {name} {window[name]}" for name in ("key", "kind", "task") if name in window)
        head = f"Window #{moment.window} {self.extent(window)}{whose} fires{which}{self._why(window, moment)}."
        return f"{head} {self._contents(window)}"

    def _why(self, window: AnswerWindow, moment: RunMoment) -> str:
        if "by" in window:
            return f", by its trigger ({window['by']})"
        if moment.watermark == FOREVER:
            return ", since the streams have ended"
        if window["due"] == FOREVER or (window["end"] is None and not self.trace.event_time):
            return ""
        if window["by_clock"]:
            return f", since the clock has reached {self._time(window['due'])}" if moment.clock is not None else ""
        return f", since the watermark is {self._time(moment.watermark)}" if moment.watermark is not None else ""

    def _contents(self, window: AnswerWindow) -> str:
        events, new = known_ids(window["events"]), known_ids(window["new"])
        if not events:
            return _unnamed(window)
        again = [name for name in events if name not in set(new)]
        sentence = f"It holds {len(events)} event{'s' if len(events) > 1 else ''}: {_few(events)}."
        if window["new"] is not None and again and new:
            sentence += f" New in it: {_few(new)}."
        if window["expired"]:
            sentence += f" No longer in it: {_few(known_ids(window['expired']))}."
        return sentence

    def _watermark(self, moment: RunMoment, head: str) -> str:
        if not self.trace.event_time:
            return head
        before = self.moments[moment.number - 1].watermark if moment.number else None
        if moment.watermark is None:
            return f"{head} There is no watermark yet."
        if moment.watermark == before:
            return f"{head} The watermark stays at {self._time(before)}."
        since = f"from {self._time(before)} " if before is not None else ""
        return f"{head} The watermark moves {since}to {self._time(moment.watermark)}{self._held_back_by(moment)}."

    def _held_back_by(self, moment: RunMoment) -> str:
        """Describes the input that holds the watermark back, or the origin of the watermark."""
        inputs = next((batch.inputs for batch in self.trace.batches if batch.batch == moment.batch), {})
        lag = self.trace.settings.lag
        if len(inputs) > 1:
            least = min(inputs, key=lambda name: inputs[name])
            return f": the least of {len(inputs)} inputs, of which {source_name(least)} is furthest behind"
        return f": the latest time seen, less the lag of {lag}" if lag is not None and lag.micros else ""

    def extent(self, window: AnswerWindow) -> str:
        """Describes a window by its bounds."""
        start, end = window["start"], window["end"]
        opening, closing = window["brackets"]
        until = "" if end is None else "+inf" if end == FOREVER else self._time(end)
        if end is None:
            count = len(window["events"] or ())
            return f"of {count} event{'' if count == 1 else 's'}"
        if start is None:
            return f"..{until}{closing}"
        return f"{opening}{self._time(start)}..{until}{closing}"

    def _between(self, start: int, end: int) -> str:
        assert self.grid is not None
        return f"{self.grid.bounds.value[0]}{self._time(start)}..{self._time(end)}{self.grid.bounds.value[-1]}"

    def _time(self, at: int | None) -> str:
        return "the end of time" if at == FOREVER else "none" if at is None else self.show(at)


def source_name(source: str) -> str:
    """Returns the name of an input or partition, for display."""
    name, partition = input_of(source).removeprefix("events."), shown_partition(source)
    return f"{name} partition {partition}" if partition else name


def _unnamed(window: AnswerWindow) -> str:
    """Describes the contents of a window whose events have no ids."""
    count = None if window["events"] is None else len(window["events"])
    if count == 0:
        return "It holds no event."
    many = "events" if count is None else f"{count} event{'' if count == 1 else 's'}"
    return f"It holds {many}; which ones is unknown, as no column id reaches the bolt."


def _few(names: Sequence[str]) -> str:
    shown = names if len(names) <= _MANY else [*names[: _MANY - 2], "…", names[-1]]
    return ", ".join(shown)


def _ordinal(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")


# A picture of the time of one windowed bolt, as data.


@dataclass(frozen=True)
class Picture:
    """Drawing of one bolt."""

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
    """A text for each moment."""
    by_arrival: bool
    """True if the axis counts events, because their times are unknown."""
    extents: dict[int, str]
    """For each window number, a description of the window's bounds."""


def pictures(scenario: Scenario, answer: ReplayResult) -> list[Picture]:
    """Returns a picture for each windowed bolt of a run, in the order of the topology."""
    return [_picture(scenario, answer, trace) for trace in answer.traces]


def _picture(scenario: Scenario, answer: ReplayResult, trace: BoltTrace) -> Picture:
    moments = RunMoments(scenario, answer, trace).all()
    boxes = window_boxes(moments, trace, scenario.first_clock)
    arrivals = goes_by_arrival(scenario, trace)
    watermark = watermark_line(moments)
    sources = source_lines(moments, trace)
    ideal, is_clock = ideal_line(moments, by_arrival=arrivals)
    lines = [] if arrivals else [watermark, *sources, ideal]
    times = [*_times(moments, boxes), *(at for line in lines for _, at in line.points if at != FOREVER)]
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
        stories=[stories.tell(moment) for moment in moments],
        by_arrival=arrivals,
        extents={number: stories.extent(window) for number, window in trace.windows.items()},
    )


def _times(moments: Sequence[RunMoment], boxes: Sequence[WindowBox]) -> Iterator[int]:
    for moment in moments:
        yield from (at for at in (moment.at, moment.own_time) if at is not None and moment.outcome is not None)
    for box in boxes:
        yield from (box.low, box.high)
