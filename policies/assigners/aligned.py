"""Window assigners, decided on whole arrays; aligned windows are here: tumbling, hopping, hopping with gaps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal, get_args
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from windowing.aggregates.groups import Groups, Keys
from windowing.columns import make_read_only, stable_order
from windowing.durations import Duration
from windowing.errors import ConfigError
from windowing.settings.rules import Bounds
from windowing.timestamps import EARLIEST, EPOCH, FOREVER, LATEST, moment_of, to_datetime, zone_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.watermarks import LastEnd

    Limit = int | NDArray[np.int64]
    "A time in microseconds for all events, or one per event, equal for all events of a key."


@dataclass(frozen=True, slots=True)
class LiveEvents:
    """Events that a window may still hold, in order of (key, start, arrival); read-only arrays of equal length.

    All times are microseconds since the epoch.
    """

    starts: NDArray[np.int64]
    """The time or start of each event."""
    keys: NDArray[np.int64] | None = None
    """Code of each event's key, ascending; equal codes are equal keys. None: all events have one key."""
    ends: NDArray[np.int64] | None = None
    """End of each event's lifetime: the first instant it does not hold. None: events are points."""
    closed_until: NDArray[np.int64] | None = None
    """Windows that end up to this time were closed when the event came, and do not hold it. None: none was closed."""
    gaps: NDArray[np.int64] | None = None
    """Session gap of each event in microseconds; None if all share one gap."""
    sides: NDArray[np.int8] | None = None
    """Number of the bolt's input that each event came on, from 0; None if no assigner asks (``by_side``)."""
    accounted: NDArray[np.bool_] | None = None
    """True for each event that has been in a window, or is known to be in none. None: for no event so far."""
    arrivals: NDArray[np.int64] | None = None
    """The index of each event by arrival, as far as known: events of earlier batches come before the events of this
    batch, in any order. None: they are in order of arrival."""
    reaches: NDArray[np.int64] | None = None
    """Where rows stand for runs of events. For a session: the end of the time that the run covers, in microseconds,
    from its first event on. For a window by count: the time of the last event. None: each row is an event."""
    weights: NDArray[np.int64] | None = None
    """Number of events that each row stands for. None: each row is an event."""

    def __post_init__(self) -> None:
        make_read_only(
            self,
            "starts",
            "keys",
            "ends",
            "closed_until",
            "gaps",
            "reaches",
            "sides",
            "accounted",
            "arrivals",
            "weights",
        )

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(frozen=True, slots=True)
class Assigned:
    """Windows with their events, in order of (end, start, key); each window holds at least one event."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    offsets: NDArray[np.int64]
    """Offsets into ``members``, one more than there are windows: window i holds ``members[offsets[i]:offsets[i +
    1]]``."""
    members: NDArray[np.int64]
    """Indices into the live events, ascending within each window."""

    def __len__(self) -> int:
        return len(self.starts)

    def only(self, which: NDArray[np.bool_]) -> Assigned:
        """Returns some of the windows, by a mask."""
        sizes = np.diff(self.offsets)
        offsets = np.concatenate([[0], np.cumsum(sizes[which])])
        return Assigned(self.starts[which], self.ends[which], offsets, self.members[np.repeat(which, sizes)])


@dataclass(frozen=True, slots=True)
class EventRuns:
    """Runs of events of one key that are in the same windows, whatever other events come.

    In order of (key, time, arrival), or of the arrival of their last events: of events of equal time and key, the one
    that came first is in an earlier run, or in the same one.
    """

    numbers: NDArray[np.int64]
    """For each event as given, the number of its run."""
    starts: NDArray[np.int64]
    """The time of the first event of each run, in microseconds."""
    reaches: NDArray[np.int64] | None
    """``LiveEvents.reaches`` of each run; None if windows do not depend on that."""


class WindowAssigner(ABC):
    """Forms windows from live events. Immutable and stateless: results depend on the arguments alone."""

    merges: ClassVar[bool] = False
    """True if one more event may extend a window, or join two. An event is then in one window only."""
    by_time_alone: ClassVar[bool] = False
    """True if the time of an event alone decides which windows hold it. For lifetimes other events may matter too."""
    ends_by_time: ClassVar[bool] = True
    """True if time may end a window. Windows of a number of events end with an event, and have no start in time."""

    @property
    def windows_per_event(self) -> int:
        """Upper bound on the number of windows for each event; of a grid, for each event that is a point in time."""
        return 1

    @property
    def looks_back(self) -> int | None:
        """Longest time before the end of a window at which its events may lie, in microseconds, for points in time;
        None if there is no bound."""
        return None

    def anchored(self, anchor: int, offset: int) -> WindowAssigner:
        """Returns these windows counted from a moment and shifted from there, both in microseconds; windows that are
        not counted are unchanged. No window begins before the anchor."""
        return self

    @property
    def last_end(self) -> LastEnd | None:
        """Maps events (starts, ends of lifetimes) to the end of the last window that can hold each, in microseconds.

        None if that depends on other events.
        """
        return None

    @property
    def needed_until(self) -> LastEnd | None:
        """Maps events (starts, ends of lifetimes) to the time, in microseconds, from which no window needs each.

        None if that depends on other events: see ``finished``.
        """
        return self.last_end

    @property
    def takes_events_at_the_watermark(self) -> bool:
        """True if, with bounds of START, no window that ends at or before a time could hold an event of that time."""
        return True

    @property
    def ends_at_limit(self) -> bool:
        """True if a lifetime that begins or is cut exactly at a limit may end a window there only after the limit was
        reached."""
        return False

    @property
    def by_side(self) -> bool:
        """True if it needs ``LiveEvents.sides``, the side of a join that each event is on. An event with a null in its
        key then has a key of its own, so that it joins no other event."""
        return False

    @abstractmethod
    def assign(self, live: LiveEvents, after: Limit, upto: Limit) -> Iterator[Assigned]:
        """Yield the windows with after < end <= upto that hold an event, in order, in pieces of any size."""

    @abstractmethod
    def finished(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_]:
        """Returns which events no window that ends after ``upto`` can need, whatever events may still come at or after
        it."""

    def passed_over(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_] | None:
        """Returns a mask of the events that are in no window although they are not finished; None if there are none."""
        return None

    @abstractmethod
    def next_end(self, live: LiveEvents, after: Limit) -> int | None:
        """Returns the earliest end > after, in microseconds, of a window that holds one of the present events; None
        if there is none. It may be earlier if the events must be evaluated before, for example because one is passed
        over."""

    def next_finished(self, live: LiveEvents, after: Limit) -> int | None:
        """Returns a time > after, in microseconds, before which no unfinished present event will be finished, if no
        other event comes; None if there is none."""
        return self.next_end(live, after)

    def open(self, live: LiveEvents, after: Limit) -> Iterator[Assigned]:
        """Yield the windows with end > after that hold an event and that time can close before the streams end; if time
        cannot close any, those that end at FOREVER."""
        return self.assign(live, after, FOREVER)

    def ended_by_idleness(self, live: LiveEvents, after: Limit) -> Iterator[Assigned]:
        """Yield the windows of ``open`` that an idle timeout closes."""
        return self.open(live, after)

    def earliest_start(self, upto: int, held: int | None) -> int:
        """Returns a lower bound, in microseconds, on the start of any window that ends after ``upto`` (SI-24).

        ``held`` is the start of the earliest live event, None if there is none. Other events may still come, at
        ``upto`` or later.
        """
        return upto if held is None else min(upto, held)


class GridWindows(WindowAssigner):
    """Windows whose edges are known without any event. All arguments and results are in microseconds."""

    by_time_alone = True

    @abstractmethod
    def following(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the first window end after each time."""

    @abstractmethod
    def ends_between(self, after: int, upto: int) -> NDArray[np.int64]:
        """Returns all window ends with after < end <= upto, ascending."""

    @abstractmethod
    def starts_of(self, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the starts of the windows with these ends."""

    @abstractmethod
    def ends_of_points(self, live: LiveEvents) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the ends of the first and of the last window that hold each event and were open when it came, in
        microseconds; for an event in no window, the last is before the first. The events are points in time, in any
        order."""

    def runs(self, live: LiveEvents) -> EventRuns:
        """Returns runs of events that are in the same windows: the windows of any event of the run that are open by the
        least ``LiveEvents.closed_until`` in it. The events are points in time, in any order."""
        return _grid_runs([self], live)


@dataclass(frozen=True)
class GridsTogether:
    """Windows of several kinds on grids, which hold the same events."""

    ends_by_time: ClassVar[bool] = True

    grids: tuple[GridWindows, ...]

    @property
    def windows_per_event(self) -> int:
        """Upper bound on the number of windows for each event that is a point in time."""
        return sum(grid.windows_per_event for grid in self.grids)

    def runs(self, live: LiveEvents) -> EventRuns:
        """As ``GridWindows.runs``: runs of events that are in the same windows of each kind."""
        return _grid_runs(self.grids, live)


def _grid_runs(grids: Sequence[GridWindows], live: LiveEvents) -> EventRuns:
    columns = [] if live.keys is None else [live.keys]
    for grid in grids:
        first, last = grid.ends_of_points(live)
        in_none = first > last
        columns += [last, np.minimum(first, last + 1)]  # an event in none is as good as any other
        if live.closed_until is not None and (len(grids) > 1 or grid.windows_per_event > 1 or in_none.any()):
            # Of events of other windows, or of none, the earlier may have missed a window that the later is not in.
            columns.append(grid.ends_of_points(replace(live, closed_until=None))[0])
    cells = Keys.of([pa.array(column) for column in columns], len(live), ordered=True)
    groups = Groups(cells.codes, cells.size)
    return EventRuns(groups.numbers, groups.reduced(np.minimum, live.starts, FOREVER), None)


def limit_at(limit: Limit, positions: NDArray[np.int64]) -> Limit:
    """Returns the limit of the events at these indices."""
    return limit[positions] if isinstance(limit, np.ndarray) else limit


# Aligned windows (tumbling, hopping, hopping with gaps), and how windows on a grid collect their events.


if TYPE_CHECKING:
    Edges = Callable[[NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int64]]]
    """The starts and ends of the windows at these grid points."""

MOST = 1 << 22
"""Approximate maximum number of members per piece, so that heavily overlapping windows stay within memory."""

_FAR = 1 << 62
"""Later than any time, yet a length can be added to it without overflow: the end of endless lifetimes in sums."""


@dataclass(frozen=True)
class AlignedWindows(GridWindows):
    """Windows of one length whose ends are multiples of the slide, shifted by the offset (ST-3, AT-1, AT-8, AZ-19).

    A slide shorter than the length makes windows overlap (AT-2, AZ-20, SI-27); a longer one leaves gaps whose events
    are in no window (AT-4). With an ``origin`` (microseconds since the epoch), windows start at it and at every slide
    after it, and none before it (AT-3).

    An event with a lifetime is in every window that shares an instant with it (SI-27), and in none if its lifetime has
    no length. At the end of the streams an endless lifetime lasts as long as the latest known event of its key.

    Raises ConfigError for a length or slide of zero, and for an origin together with an offset.
    """

    length: Duration
    slide: Duration
    bounds: Bounds = Bounds.END
    offset: Duration = Duration(0)
    origin: int | None = None

    def __post_init__(self) -> None:
        if not self.length.micros or not self.slide.micros:
            raise ConfigError("a window length or slide of zero", why="time would not move", do="make it longer")
        if self.origin is not None and self.offset.micros:
            raise ConfigError(
                f"an offset of {self.offset} together with an origin",
                why="the offset moves windows that are counted from the epoch, not from an origin",
                do="move the origin instead",
            )

    def assign(self, live: LiveEvents, after: Limit, upto: Limit) -> Iterator[Assigned]:
        if not len(live):
            return iter(())
        first, last = self._span(live, last_instants(live, upto))
        last = np.minimum(last, self._aligned(np.clip(upto, first - self.slide.micros, last)))
        first = self._later(live, after, first, last)
        length = self.length.micros
        return spread(live, first, last, self.slide.micros, lambda ends: (ends - length, ends))

    def finished(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_]:
        first, last = self._span(live, last_instants(live))
        closed_until = upto if live.closed_until is None else np.maximum(upto, live.closed_until)
        return (last <= closed_until) | (last < first)

    def next_end(self, live: LiveEvents, after: Limit) -> int | None:
        first, last = self.ends_of(live, after, 0)
        first = first[first <= last]
        return int(first.min()) if len(first) else None

    def ends_of_points(self, live: LiveEvents) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self.ends_of(live, -_FAR, 0)

    def ends_of(self, live: LiveEvents, after: Limit, upto: Limit) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the ends of the first and of the last window after a limit that hold each event, in microseconds; for
        an event in no window, the last is before the first. Endless events last as they do in ``assign`` up to the
        limit ``upto``."""
        first, last = self._span(live, last_instants(live, upto))
        return self._later(live, after, first, last), last

    @property
    def earliest(self) -> int | None:
        """The end of the first window there is, in microseconds; None if there are windows at all times."""
        return None if self.origin is None else self._phase

    def earliest_start(self, upto: int, held: int | None) -> int:
        length, slide = self.length.micros, self.slide.micros
        first = (upto - self._phase) // slide * slide + self._phase + slide - length
        return first if self.origin is None else max(first, self.origin)

    def following(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        found = self._aligned(times) + self.slide.micros
        return found if self.earliest is None else np.maximum(found, self.earliest)

    def ends_between(self, after: int, upto: int) -> NDArray[np.int64]:
        first = int(self.following(np.array([after]))[0])
        return np.arange(first, upto + 1, self.slide.micros, dtype=np.int64)

    def starts_of(self, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        return ends - self.length.micros

    def anchored(self, anchor: int, offset: int) -> AlignedWindows:
        return replace(self, origin=anchor + offset % self.slide.micros, offset=Duration(0))

    @property
    def windows_per_event(self) -> int:
        return -(-self.length.micros // self.slide.micros)

    @property
    def looks_back(self) -> int:
        return self.length.micros

    @property
    def last_end(self) -> LastEnd:
        return self._last_end

    def _last_end(self, starts: NDArray[np.int64], ends: NDArray[np.int64] | None) -> NDArray[np.int64]:
        live = LiveEvents(starts, ends=ends)
        first, last = self._span(live, last_instants(live))
        if self.origin is None:
            return last
        # Before the origin there is no window: such an event lies in a gap before its start (AT-3).
        return np.where(last < first, np.minimum(last, starts - 1), last)

    @property
    def _phase(self) -> int:
        return self.offset.micros if self.origin is None else self.origin + self.length.micros

    def _span(self, live: LiveEvents, lasts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the first and the last end of the windows that hold each event; the last is before the first for an
        event in none."""
        first = self.bounds.first_end(live.starts, self.slide.micros, self._phase)
        last = self.bounds.last_end(lasts, self.length.micros, self.slide.micros, self._phase)
        return first if self.origin is None else np.maximum(first, self._phase), last

    def _later(
        self, live: LiveEvents, after: Limit, first: NDArray[np.int64], last: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Returns the first end of each event's windows that is after the limit, of a window that was open when the
        event came."""
        low = after if live.closed_until is None else np.maximum(after, live.closed_until)
        slide = self.slide.micros
        return np.maximum(first, self._aligned(np.clip(low, first - slide, last)) + slide)

    def _aligned(self, moments: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the last end on the grid at or before each time."""
        slide = self.slide.micros
        return (moments - self._phase) // slide * slide + self._phase


def key_heads(live: LiveEvents) -> NDArray[np.bool_]:
    """Returns which events are the first of their key."""
    heads = np.zeros(len(live), dtype=bool)
    heads[:1] = True
    if live.keys is not None:
        heads[1:] = live.keys[1:] != live.keys[:-1]
    return heads


def last_instants(live: LiveEvents, upto: Limit = 0) -> NDArray[np.int64]:
    """Returns the last instant of each event in microseconds; of an endless one, a far but finite time.

    For a lifetime without length it is long before the event. Where the limit is FOREVER, endless events last as long
    as the latest known event of their key, since infinitely many windows could not be listed.
    """
    if live.ends is None:
        return live.starts
    lasts = np.where(live.ends > live.starts, np.minimum(live.ends, _FAR) - 1, -_FAR)
    endless = live.ends == FOREVER
    cut = endless & (np.asarray(upto) == FOREVER)
    if cut.any():
        known = np.where(endless, live.starts, np.maximum(lasts, live.starts))
        heads = key_heads(live)
        lasts[cut] = np.maximum.reduceat(known, np.flatnonzero(heads))[np.cumsum(heads, dtype=np.int64) - 1][cut]
    return lasts


def expand_counts(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns, for consecutive runs of these lengths, the run of each item, and its index within the run."""
    stops = np.cumsum(counts)
    return np.repeat(np.arange(len(counts)), counts), np.arange(stops[-1]) - np.repeat(stops - counts, counts)


def in_pieces(sizes: NDArray[np.int64]) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
    """Cuts windows with these numbers of members into pieces of bounded size. Yields the first window of each piece,
    the first window after it, and the offsets of the members of each window in the piece, with one more for the end."""
    totals = np.cumsum(sizes)
    begin = 0
    while begin < len(sizes):
        done = int(totals[begin - 1]) if begin else 0
        stop = max(int(np.searchsorted(totals, done + MOST, side="right")), begin + 1)
        yield begin, stop, np.concatenate([[0], totals[begin:stop] - done])
        begin = stop


def spread(
    live: LiveEvents, first: NDArray[np.int64], last: NDArray[np.int64], step: int, edges: Edges
) -> Iterator[Assigned]:
    """Yield the windows at the grid points first, first + step .. last of each event, in order, in pieces of bounded
    size.

    An event whose last point is before its first is in none. A later grid point means a later start and end.
    """
    positions = np.flatnonzero(last >= first)
    if not len(positions):
        return
    first, last = first[positions], last[positions]
    for low, high in _stretches(first, last, step):
        inside = np.flatnonzero((first <= high) & (last >= low))
        if len(inside):
            begins, finishes = np.maximum(first[inside], low), np.minimum(last[inside], high)
            yield _piece(live.keys, positions[inside], begins, finishes, step, edges)


def _stretches(first: NDArray[np.int64], last: NDArray[np.int64], step: int) -> Iterator[tuple[int, int]]:
    """Yield ranges (first, last) of grid points whose windows together have no more members than a piece may hold."""
    low, high = int(first.min()), int(last.max())
    if float((last - first).sum(dtype=np.float64)) / step + len(first) <= MOST:
        yield low, high
        return
    places = np.concatenate([first, last + step])
    order = stable_order(places)
    places = places[order]
    crowd = np.cumsum(np.where(order < len(first), 1, -1))[:-1]
    before = np.concatenate([[0.0], np.cumsum(crowd * (np.diff(places) / step))])
    while low <= high:
        index = int(np.searchsorted(places, low, side="right")) - 1
        target = float(before[index]) + int(crowd[index]) * ((low - int(places[index])) // step) + MOST
        until = int(np.searchsorted(before, target, side="right")) - 1
        stop = high + step
        if until < len(crowd):
            stop = int(places[until]) + int((target - before[until]) // crowd[until]) * step
        stop = max(stop, low + step)
        yield low, stop - step
        low = stop


def _piece(
    keys: NDArray[np.int64] | None,
    positions: NDArray[np.int64],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    step: int,
    edges: Edges,
) -> Assigned:
    """Returns one piece of windows. The events are in order of their keys, so sorting them by grid point sorts them by
    window."""
    low = first.min()
    places, counts = (first - low) // step, (last - first) // step + 1
    members = positions
    if counts.max() > 1:
        owner, further = expand_counts(counts)
        members, places = positions[owner], places[owner] + further
    order = stable_order(places)
    members, places = members[order], places[order]
    fresh = places[1:] != places[:-1]
    if keys is not None:
        owners = keys[members]
        fresh |= owners[1:] != owners[:-1]
    offsets = np.concatenate([[0], np.flatnonzero(fresh) + 1, [len(members)]])
    starts, ends = edges(places[offsets[:-1]] * step + low)
    return Assigned(starts, ends, offsets, members)


Unit = Literal["hour", "day", "week", "month", "quarter", "year"]

_HOUR, _DAY = 3_600_000_000, 86_400_000_000
_LONGEST_UNIT = {
    "hour": _HOUR,
    "day": _DAY + _HOUR,
    "week": 7 * _DAY + _HOUR,
    "month": 31 * _DAY + _HOUR,
    "quarter": 92 * _DAY + _HOUR,
    "year": 366 * _DAY + _HOUR,
}
"""Greatest length of each unit in microseconds: a day has 25 hours when clocks go back."""

_MONTHS = {"month": 1, "quarter": 3, "year": 12}


@dataclass(frozen=True, repr=False)
class CalendarWindows(GridWindows):
    """The hours, days, weeks, months, quarters or years of an IANA time zone, adjacent and without gaps.

    With ``last``, a window holds so many of them, and one ends at the end of each: the last seven days, every day.
    ``shift``: weeks begin this many days after Monday, quarters and years this many months after January.

    A window starts when the clocks of the zone first show the first moment of its hour, day, week, month, quarter or
    year; if they skip that moment, at the skip. So days last 23 or 25 hours when the clocks change, a day that a zone
    skipped has no window, and an hour that the clocks show twice is two windows.

    With ``at``, times of day in microseconds after midnight, in order, days are divided into windows that begin then; a
    time that the clocks skip is taken as by ``DayTime``.

    An event with a lifetime is in every window that shares an instant with it (SI-27). At the end of the streams an
    endless lifetime lasts as long as the latest known event of its key.

    Raises ConfigError for an unknown unit or zone, and for windows of no unit.
    """

    unit: Unit
    zone: str
    bounds: Bounds = Bounds.START
    at: tuple[int, ...] = ()
    shift: int = 0
    last: int = 1

    def __repr__(self) -> str:
        """Returns the repr of a dataclass without the values that are defaults, because older checkpoints hold it
        so."""
        names = ["unit", "zone", "bounds", "at"]
        names += ["shift"] if self.shift else []
        names += ["last"] if self.last != 1 else []
        return f"CalendarWindows({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def __post_init__(self) -> None:
        if self.unit not in get_args(Unit):
            raise ConfigError(f"{self.unit!r} is not a unit of the calendar", do=f"use one of {get_args(Unit)}")
        if self.last < 1:
            raise ConfigError(f"windows of the last {self.last} units", do="let them hold one unit or more")
        try:
            ZoneInfo(self.zone)
        except (KeyError, ValueError, OSError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"{self.zone!r} is not a known time zone",
                why="zones go by their IANA names",
                do="use a name like 'Europe/Berlin' or 'UTC' (zoneinfo.available_timezones() lists them), "
                "or install tzdata if all are unknown",
            ) from error

    @property
    def windows_per_event(self) -> int:
        return self.last

    def assign(self, live: LiveEvents, after: Limit, upto: Limit) -> Iterator[Assigned]:
        if not len(live):
            return iter(())
        low = after if live.closed_until is None else np.maximum(after, live.closed_until)
        first, last = self._microsecond_starts(live.starts), self._microsecond_starts(last_instants(live, upto))
        # Only the due part of a long lifetime. Windows go by the places of their ends.
        begin, finish = np.clip(low, first, last), np.clip(upto, first, last)
        edges = self._edges(begin, finish)
        begin = np.maximum(_places(edges, begin), _places(edges, low)) + 1
        finish = np.minimum(_places(edges, finish) + self.last, _places(edges, upto))
        finish[last < first] = -1
        return spread(live, begin, finish, 1, lambda places: (edges[places - self.last], edges[places]))

    def finished(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_]:
        if not len(live):
            return np.empty(0, dtype=bool)
        first, last = self._microsecond_starts(live.starts), self._microsecond_starts(last_instants(live))
        edges = self._edges(last, last)
        closed_until = upto if live.closed_until is None else np.maximum(upto, live.closed_until)
        return (edges[_places(edges, last) + self.last] <= closed_until) | (last < first)

    def next_end(self, live: LiveEvents, after: Limit) -> int | None:
        if not len(live):
            return None
        low = after if live.closed_until is None else np.maximum(after, live.closed_until)
        first, last = self._microsecond_starts(live.starts), self._microsecond_starts(last_instants(live))
        begin = np.clip(low, first, last)
        edges = self._edges(begin, begin)
        places = _places(edges, begin)
        ends = np.maximum(places, _places(edges, low)) + 1
        ends = ends[(first <= last) & (ends <= places + self.last)]
        return int(edges[ends].min()) if len(ends) else None

    def ends_of_points(self, live: LiveEvents) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if not len(live):
            return live.starts, live.starts
        inside = self._microsecond_starts(live.starts)
        edges = self._edges(inside, inside)
        places = _places(edges, inside)
        first, last = places + 1, places + self.last
        if live.closed_until is not None:
            first = np.maximum(first, _places(edges, live.closed_until) + 1)
        # The boundary after the last window need not be among these: an event in none has any later time.
        return np.where(first <= last, edges[np.minimum(first, last)], edges[last] + 1), edges[last]

    def earliest_start(self, upto: int, held: int | None) -> int:
        moment = np.array([upto])
        edges = self._edges(moment, moment)
        return int(edges[_places(edges, moment)[0] + 1 - self.last])

    def following(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        if not len(times):
            return times
        edges = self._edges(times, times)
        return edges[_places(edges, times) + 1]

    def ends_between(self, after: int, upto: int) -> NDArray[np.int64]:
        edges = self._edges(np.array([after]), np.array([max(after, upto)]))
        return edges[(edges > after) & (edges <= upto)]

    def starts_of(self, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        if not len(ends):
            return ends
        edges = self._edges(ends - 1, ends - 1)
        return edges[_places(edges, ends - 1) + 1 - self.last]

    @property
    def looks_back(self) -> int:
        return self.last * _LONGEST_UNIT[self.unit]

    @property
    def last_end(self) -> LastEnd:
        def last_ends(starts: NDArray[np.int64], ends: NDArray[np.int64] | None) -> NDArray[np.int64]:
            last = self._microsecond_starts(last_instants(LiveEvents(starts, ends=ends)))
            if not len(last):
                return last
            edges = self._edges(last, last)
            return edges[_places(edges, last) + self.last]

        return last_ends

    def _microsecond_starts(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the start of the microsecond of each time, which is in the same window for both kinds of bounds."""
        return self.bounds.first_end(times, 1, 0) - 1

    def _edges(self, begins: NDArray[np.int64], finishes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns all boundaries within the spans begin..finish, in order, and on either side as many as the windows
        that share an instant with the span need; other boundaries may be omitted."""
        # The clocks of a zone differ from UTC by less than a day, and a window ends at the next start.
        # That of the first time of day is one of the day before, or after.
        margin = 1 if self.at else 0
        if self.last > 1:  # zones have skipped days, and hours
            margin += -(-self.last // self._edges_of_period) + 2
        lows, highs = self._periods(begins) - 1 - margin, self._periods(finishes) + 2 + margin
        order = np.argsort(lows, kind="stable")
        lows, highs = lows[order], np.maximum.accumulate(highs[order])
        breaks = np.flatnonzero(lows[1:] > highs[:-1] + 1)
        froms = lows[np.concatenate([[0], breaks + 1])].tolist()
        tos = highs[np.concatenate([breaks, [len(highs) - 1]])].tolist()
        periods = (period for low, high in zip(froms, tos, strict=True) for period in range(low, high + 1))
        edges = (_starts_in_period(self.zone, self.unit, period, self.at, self.shift) for period in periods)
        return np.unique(np.array([edge for of_period in edges for edge in of_period]))

    @property
    def _edges_of_period(self) -> int:
        """Least number of boundaries in a period."""
        return 22 if self.unit == "hour" else max(len(self.at), 1)

    def _periods(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the number of the period of each time if the zone were UTC; hours are handled a day at a time."""
        if self.unit in _MONTHS:
            months = times.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
            return (months - self.shift) // _MONTHS[self.unit]
        # 1970 began on a Thursday.
        return times // _DAY if self.unit != "week" else (times // _DAY + 3 - self.shift) // 7


def _places(edges: NDArray[np.int64], times: Limit) -> NDArray[np.int64]:
    """Returns the last boundary at or before each time; -1 if there is none."""
    places: NDArray[np.int64] = np.searchsorted(edges, np.asarray(times), side="right") - 1
    return places


@lru_cache(maxsize=1 << 14)
def _starts_in_period(zone: str, unit: Unit, period: int, at: tuple[int, ...], shift: int) -> tuple[int, ...]:
    """Returns the start of a period in microseconds since the epoch; for a day of hours, the start of each hour, and
    for a divided day, of each part."""
    match unit:
        case "hour":
            hours = range(period * _DAY, (period + 1) * _DAY, _HOUR)
            return tuple(moment for hour in hours for moment in _instants_of(zone, hour))
        case "day":
            if at:
                return tuple(moment_of(zone_of(zone), period * _DAY + begin) for begin in at)
            wall = period * _DAY
        case "week":
            wall = (period * 7 - 3 + shift) * _DAY
        case _:
            month = np.datetime64(period * _MONTHS[unit] + shift, "M")
            wall = int(month.astype("datetime64[us]").astype(np.int64))
    return tuple(_instants_of(zone, wall)[:1])


def _instants_of(zone: str, wall: int) -> list[int]:
    """Returns when the clocks of a zone show a wall-clock time or skip it: once, or twice when they are set back.

    ``wall`` is the wall-clock time in microseconds since the clocks would have shown the epoch; the results are
    microseconds since the epoch.
    """
    # datetime cannot represent years beyond these; the clocks no longer change there.
    near = min(max(wall, EARLIEST + 2 * _DAY), LATEST - 2 * _DAY)
    shown = EPOCH.replace(tzinfo=ZoneInfo(zone)) + timedelta(microseconds=near)
    early, late = wall - _offset(shown), wall - _offset(shown.replace(fold=1))
    if early <= late:
        return sorted({early, late})
    # Skipped, after ``late`` and up to ``early``: the skip is where the offset changes.
    before = _offset(to_datetime(late).astimezone(shown.tzinfo))
    while early - late > 1:
        middle = (early + late) // 2
        if _offset(to_datetime(middle).astimezone(shown.tzinfo)) == before:
            late = middle
        else:
            early = middle
    return [early]


def _offset(moment: datetime) -> int:
    return (moment.utcoffset() or timedelta()) // timedelta(microseconds=1)
