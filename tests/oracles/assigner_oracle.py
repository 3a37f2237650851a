"""Slow, obvious answers to which windows some events form: one key at a time, one window after the other.

Times are small whole numbers, for they are looked at one by one; ``BEGIN`` to ``END`` holds all that may be asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from policies.assigners import (
    AlignedWindows,
    CalendarWindows,
    CountByStartWindows,
    SessionWindows,
    SlidingLogWindows,
    SnapshotWindows,
    WindowAssigner,
)
from windowing.settings.rules import Bounds
from windowing.timestamps import from_datetime, to_datetime

BEGIN, END = -100, 300
NOT_CLOSED = -(1 << 60)


@dataclass(frozen=True)
class Happening:
    """One event, by name."""

    name: int
    key: int
    start: int
    end: int | None = None
    closed: int = NOT_CLOSED
    gap: int | None = None


Window = tuple[int, int, list[int]]
"""Start, end, and the names of the events in order of their time."""


def windows_of_key(kind: WindowAssigner, events: list[Happening]) -> list[Window]:
    """All windows of events that have one key; the events in order of (start, arrival)."""
    match kind:
        case AlignedWindows():
            found: Iterable[Window] = _on_grid(_aligned_grid(kind), kind.bounds, events)
        case CalendarWindows():
            units = calendar_grid(kind.unit, kind.zone, kind.at, kind.shift)
            found = _on_grid(rolling(units, kind.last), kind.bounds, events)
        case SessionWindows(max_duration=None):
            found = _sessions(kind, events)
        case SessionWindows():
            found = _sessions_by_the_clock(kind, events)
        case SnapshotWindows():
            found = _snapshots(kind, events)
        case SlidingLogWindows():
            found = _sliding(kind, events)
        case CountByStartWindows():
            found = _counts(kind, events)
    return [window for window in found if window[2]]


def windows(kind: WindowAssigner, events: list[Happening]) -> list[tuple[int, int, int, list[int]]]:
    """All windows as (end, start, key, names), in order."""
    found = []
    for key in {event.key for event in events}:
        mine = sorted((event for event in events if event.key == key), key=lambda event: event.start)
        found += [(end, start, key, names) for start, end, names in windows_of_key(kind, mine)]
    return sorted(found)


def _aligned_grid(kind: AlignedWindows) -> list[tuple[int, int]]:
    length, slide = kind.length.micros, kind.slide.micros
    if kind.origin is not None:
        return [(start, start + length) for start in range(kind.origin, END, slide)]
    return [(end - length, end) for end in range(BEGIN, END) if (end - kind.offset.micros) % slide == 0]


def _on_grid(grid: Iterable[tuple[int, int]], bounds: Bounds, events: list[Happening]) -> Iterator[Window]:
    for start, end in grid:
        names = [event.name for event in events if end > event.closed and _touches(event, start, end, bounds)]
        yield start, end, names


def _touches(event: Happening, start: int, end: int, bounds: Bounds) -> bool:
    if event.end is None:
        return bounds.holds(start, end, event.start)
    if event.end <= event.start:
        return False
    if bounds is Bounds.START:
        return event.start < end and event.end > start
    return event.start <= end and event.end - 1 > start


def _sessions(kind: SessionWindows, events: list[Happening]) -> Iterator[Window]:
    """Each event is a session of its own; any two that overlap are merged until none do."""
    sessions = [(e.start, e.start + (kind.gap.micros if e.gap is None else max(e.gap, 1)), [e]) for e in events]
    merged = True
    while merged:
        merged = False
        for one in sessions:
            for other in sessions:
                meet = one[0] < other[1] and other[0] < one[1]
                if kind.touching:
                    meet = one[0] <= other[1] and other[0] <= one[1]
                if one is not other and meet:
                    sessions.remove(one)
                    sessions.remove(other)
                    sessions.append((min(one[0], other[0]), max(one[1], other[1]), one[2] + other[2]))
                    merged = True
                    break
            if merged:
                break
    for start, end, members in sessions:
        yield start, end, [event.name for event in events if event in members]


def _sessions_by_the_clock(kind: SessionWindows, events: list[Happening]) -> Iterator[Window]:
    """A clock that goes from microsecond to microsecond (AZ-22)."""
    assert kind.max_duration is not None
    gap, longest = kind.gap.micros, kind.max_duration.micros
    start: int | None = None
    deadline, members = 0, [0]
    for now in range(BEGIN, END):
        coming = [event.name for event in events if event.start == now]
        if start is not None and (now > deadline or (now == deadline and not (kind.touching and coming))):
            yield start, deadline, members
            start = None
        if coming:
            if start is None:
                start, members = now, []
            members = members + coming
            deadline = now + gap
        if start is not None and members and now % longest == 0 and now - start > longest and now < deadline:
            yield start, now, members
            start, deadline, members = now, now + gap, []


def _snapshots(kind: SnapshotWindows, events: list[Happening]) -> Iterator[Window]:
    early = 1 if kind.bounds is Bounds.END else 0
    lives = [(e.start - early, e.start + 1 - early if e.end is None else e.end, e.name) for e in events]
    lives = [life for life in lives if life[0] < life[1]]
    borders = sorted({border for life in lives for border in life[:2]})
    for start, end in pairwise(borders):
        yield start, end, [name for begin, finish, name in lives if begin <= start and end <= finish]


def _sliding(kind: SlidingLogWindows, events: list[Happening]) -> Iterator[Window]:
    length = kind.length.micros
    events = [event for event in events if event.closed < event.start + length - 1]
    for now in range(BEGIN, END):
        here = [event for event in events if event.closed < now]
        if any(now in (event.start, event.start + length) for event in here):
            yield now - length, now, [event.name for event in here if now - length < event.start <= now]


def _counts(kind: CountByStartWindows, events: list[Happening]) -> Iterator[Window]:
    times = sorted({event.start for event in events})
    for first, last in zip(times, times[kind.count.value - 1 :], strict=False):
        yield first, last + 1, [event.name for event in events if first <= event.start <= last]


STEP = 30 * 60 * 1_000_000
SWITCHES = {  # a moment when the clocks of a zone change, in microseconds
    "Europe/Berlin": (1_711_846_800_000_000, 1_729_990_800_000_000),
    "America/New_York": (1_710_054_000_000_000, 1_730_613_600_000_000),
    "America/Sao_Paulo": (1_541_300_400_000_000, 1_550_368_800_000_000),
    "Asia/Beirut": (1_648_332_000_000_000,),
    "America/Havana": (1_699_160_400_000_000,),
    "Pacific/Apia": (1_325_239_200_000_000,),
}


@lru_cache
def calendar_grid(unit: str, zone: str, at: tuple[int, ...] = (), shift: int = 0) -> tuple[tuple[int, int], ...]:
    """The windows around each switch: the clock is looked at every half hour, for another date or hour."""
    grid: set[tuple[int, int]] = set()
    for switch in SWITCHES[zone]:
        edges: list[int] = []
        shown: Any = None
        if at:
            grid.update(pairwise(_shifts(at, zone, to_datetime(switch).date())))
            continue
        days = {"quarter": 330, "month": 220}.get(unit, 90)
        for moment in range(switch - days * 48 * STEP, switch + days * 48 * STEP, STEP):
            showing = _showing(unit, to_datetime(moment).astimezone(ZoneInfo(zone)), shift)
            if shown not in (None, showing):
                edges.append(moment)
            shown = showing
        grid.update(pairwise(edges))
    return tuple(sorted(grid))


def rolling(units: Sequence[tuple[int, int]], last: int) -> list[tuple[int, int]]:
    """Windows of so many successive units each, where all of them are in the grid."""
    starts = {end: start for start, end in units}
    found = []
    for end in starts:
        start = end
        for _ in range(last):
            start = starts.get(start, NOT_CLOSED)
        found += [] if start == NOT_CLOSED else [(start, end)]
    return sorted(found)


def _shifts(at: tuple[int, ...], zone: str, around: date) -> list[int]:
    """When shifts begin: at local times, which Python turns into moments by the offset before a skip (PEP 495)."""
    begins = set()
    for day in range(-90, 91):
        for begin in at:
            local = datetime.combine(around + timedelta(days=day), time()) + timedelta(microseconds=begin)
            begins.add(from_datetime(local.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)))
    return sorted(begins)


def _showing(unit: str, local: datetime, shift: int) -> object:
    match unit:
        case "hour":
            return local.date(), local.hour, local.utcoffset()
        case "day":
            return local.date()
        case "week":
            return (local.date() - timedelta(days=shift)).isocalendar()[:2]
        case "quarter":
            return (local.year * 12 + local.month - 1 - shift) // 3
    return local.year, local.month
