"""The windows of a run as boxes: how far each reaches in event time, when it opened, fired and closed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from topologies.scenarios.run.fates import Fate
from topologies.scenarios.run.moments import RunMoment, known_ids
from topologies.scenarios.run.scenario_answer import AnswerWindow, BoltTrace
from topologies.scenarios.terminal_drawing.window_grid import WindowGrid
from windowing.settings.kinds import Session
from windowing.time.timestamps import FOREVER

_OUTSIDE = (None, Fate.DUPLICATE, Fate.LATE, Fate.DROPPED, Fate.EARLY)


@dataclass(frozen=True)
class BoxExtent:
    """A stretch of event time that a window covers, from one row of the picture to another."""

    low: int
    high: int
    first: int
    last: int
    """A row; the extent ends in its middle."""


@dataclass
class WindowBox:
    """A window: what it covers while it is open, and the rows at which it fired."""

    start: int | None
    end: int | None
    brackets: tuple[str, str]
    low: int
    """Where it begins and ends on the axis."""
    high: int
    opened: int
    """The row at which its first event came."""
    fired: list[int] = field(default_factory=list)
    windows: list[int] = field(default_factory=list)
    """The numbers of its firings, in order."""
    closed: int | None = None
    """The row of its last firing; None where it is still open at the end of the run."""
    extents: list[BoxExtent] = field(default_factory=list)


def boxes_of(moments: Sequence[RunMoment], trace: BoltTrace, first_clock: int) -> list[WindowBox]:
    """The boxes of all windows that fired, in order of their first firing, then of those that are still open."""
    rows = {moment.event: moment for moment in moments if moment.at is not None and moment.fate not in _OUTSIDE}
    fired = {moment.window: moment.number for moment in moments if moment.window is not None}
    last_row = moments[-1].number if moments else 0
    groups: dict[str, list[int]] = defaultdict(list)
    for number, window in trace.windows.items():
        groups[_identity(number, window)].append(number)
    found = []
    for numbers in groups.values():
        windows = [trace.windows[number] for number in numbers]
        names = {name for window in windows for name in known_ids(window["events"]) if name in rows}
        events = sorted((rows[name] for name in names), key=lambda moment: moment.number)
        box = _box(windows, events, fired[numbers[0]])
        if box is None:
            continue
        box.windows, box.fired = numbers, [fired[number] for number in numbers]
        pane = windows[-1].get("pane")
        box.closed = box.fired[-1] if pane is None or pane["last"] else None
        top = last_row if box.closed is None else box.closed
        box.extents = _extents(box, events, trace, windows[-1], top)
        found.append(box)
    return [*found, *_still_open(moments, trace, first_clock, last_row)]


def _identity(number: int, window: AnswerWindow) -> str:
    """What the firings of one window share; without panes each firing is a window of its own."""
    if "pane" not in window:
        return str(number)
    own: list[Any] = [window["start"], window["end"], window.get("key"), window.get("kind"), window.get("task")]
    return json.dumps(own, default=str)


def _box(windows: Sequence[AnswerWindow], events: Sequence[RunMoment], fired: int) -> WindowBox | None:
    """The box without its firings; None where nothing says where it stands."""
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
    opened = min((moment.number for moment in events if moment.number <= fired), default=fired)
    return WindowBox(start, end, window["brackets"], low, high, opened)


def _extents(
    box: WindowBox, events: Sequence[RunMoment], trace: BoltTrace, window: AnswerWindow, top: int
) -> list[BoxExtent]:
    """One extent, or of a session one for each event that lets it grow."""
    kinds = trace.settings.kinds
    kind = kinds[window.get("kind", 0)] if kinds else None
    if not isinstance(kind, Session) or kind.gap_field is not None or len(events) < 2 or box.end is None:
        return [BoxExtent(box.low, box.high, box.opened, top)]
    ends = [moment.number for moment in events[1:]] + [top]
    found = []
    for count, (moment, last) in enumerate(zip(events, ends, strict=True), 1):
        times = sorted(each.at for each in events[:count] if each.at is not None)
        for low, high in _runs(times, kind.gap.micros):
            found.append(BoxExtent(low, min(high, box.high), moment.number, last))
    return found


def _runs(times: Sequence[int], gap: int) -> Iterator[tuple[int, int]]:
    """The sessions that these times make, each from its first time to a gap after its last."""
    low = high = times[0]
    for at in times[1:]:
        if at > high + gap:
            yield low, high + gap
            low = at
        high = at
    yield low, high + gap


def _still_open(moments: Sequence[RunMoment], trace: BoltTrace, first_clock: int, last: int) -> Iterator[WindowBox]:
    """The aligned windows in which events wait at the end of the run."""
    grid = WindowGrid.of(trace.settings, first_clock)
    if grid is None or trace.settings.key or not trace.event_time:
        return
    known = {(window["start"], window["end"]) for window in trace.windows.values()}
    opened: dict[tuple[int, int], int] = {}
    for moment in moments:
        if moment.event in trace.pending and moment.at is not None and moment.fate is not Fate.LATE:
            for window in grid.holding(moment.at):
                if window not in known:
                    opened.setdefault(window, moment.number)
    for (start, end), first in sorted(opened.items()):
        brackets = grid.bounds.value[0], grid.bounds.value[-1]
        extent = BoxExtent(start, end, first, last)
        yield WindowBox(start, end, brackets, start, end, first, extents=[extent])
