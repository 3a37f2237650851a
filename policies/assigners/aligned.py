"""The base class of window assigners; and the assigners of aligned and calendar windows."""

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
    "A time in microseconds: one for all events, or an array with one per event, equal for the events of a key."


@dataclass(frozen=True, slots=True)
class LiveEvents:
    """Events that a window may still hold, in order of (key, start, arrival), as read-only arrays.

    All times are in microseconds since the epoch.
    """

    starts: NDArray[np.int64]
    """The time of each event, or the start of its lifetime."""
    keys: NDArray[np.int64] | None = None
    """The code of each event's key, ascending; equal codes are equal keys. None: all events have one key."""
    ends: NDArray[np.int64] | None = None
    """The end of each event's lifetime, exclusive. None: events are points in time."""
    closed_until: NDArray[np.int64] | None = None
    """For each event, the time up to which windows were closed when the event came: windows that end up to this time do
    not hold it. None: no window was closed."""
    gaps: NDArray[np.int64] | None = None
    """The session gap of each event in microseconds; None: all events have one gap."""
    sides: NDArray[np.int8] | None = None
    """The index of the bolt's input of each event; None if no assigner needs it (``needs_sides``)."""
    accounted: NDArray[np.bool_] | None = None
    """A mask of the events that have been in a window, or are known to be in no window. None: no event."""
    arrivals: NDArray[np.int64] | None = None
    """The index of each event by arrival; the order among events of earlier batches, which come first, is not known.
    None: events are in order of arrival."""
    covered_until: NDArray[np.int64] | None = None
    """If rows stand for runs of events: for sessions, the end of the time that each run covers, in microseconds; for
    windows of a count, the time of its last event. None: each row is an event."""
    weights: NDArray[np.int64] | None = None
    """The number of events that each row stands for. None: each row is an event."""
    latest: int = -FOREVER
    """At the end of the streams, the latest time that the bolt has reached or seen."""

    def __post_init__(self) -> None:
        make_read_only(
            self,
            "starts",
            "keys",
            "ends",
            "closed_until",
            "gaps",
            "covered_until",
            "sides",
            "accounted",
            "arrivals",
            "weights",
        )

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(frozen=True, slots=True)
class WindowMembers:
    """Windows with their events, in order of (end, start, key); each window holds at least one event."""

    starts: NDArray[np.int64]
    """The start of each window in microseconds."""
    ends: NDArray[np.int64]
    """The end of each window in microseconds."""
    offsets: NDArray[np.int64]
    """Offsets into ``members``: window i holds ``members[offsets[i]:offsets[i + 1]]``."""
    members: NDArray[np.int64]
    """Indices into the live events, ascending within each window."""

    def __len__(self) -> int:
        return len(self.starts)

    def filter(self, mask: NDArray[np.bool_]) -> WindowMembers:
        """Returns the windows of a mask."""
        sizes = np.diff(self.offsets)
        offsets = np.concatenate([[0], np.cumsum(sizes[mask])])
        return WindowMembers(self.starts[mask], self.ends[mask], offsets, self.members[np.repeat(mask, sizes)])


@dataclass(frozen=True, slots=True)
class EventRuns:
    """Runs of events of one key that are in the same windows, whatever other events come.

    Runs are in order of (key, time, arrival), or of the arrival of their last events. Of two events of equal key and
    time, the first to arrive is in the same run as the second or in an earlier run.
    """

    numbers: NDArray[np.int64]
    """The number of each event's run, from 0."""
    starts: NDArray[np.int64]
    """The time of the first event of each run, in microseconds."""
    covered_until: NDArray[np.int64] | None
    """``LiveEvents.covered_until`` of each run; None if windows do not depend on it."""


class WindowAssigner(ABC):
    """Forms windows from live events. It has no state: results depend on the arguments alone."""

    merges: ClassVar[bool] = False
    """True if another event may extend a window or merge two windows; each event is then in one window only."""
    by_time_alone: ClassVar[bool] = False
    """True if the windows of a point in time depend on its time alone, not on other events."""
    ends_by_time: ClassVar[bool] = True
    """True if windows have a start and an end in time; False if they are counts of events."""

    @property
    def windows_per_event(self) -> int:
        """The greatest number of windows that hold an event; for grids, a point in time."""
        return 1

    @property
    def max_lookback(self) -> int | None:
        """The greatest time from a point in time to the end of a window that holds it, in microseconds; None if there
        is no greatest time."""
        return None

    def anchored(self, anchor: int, offset: int) -> WindowAssigner:
        """Returns the windows counted from ``anchor`` plus ``offset``, in microseconds; no window begins before the
        anchor. Returns windows that are not counted from a moment unchanged."""
        return self

    @property
    def last_end(self) -> LastEnd | None:
        """A function that takes starts and ends of events, and returns the end of the last window that can hold each
        event, in microseconds. None if the end depends on other events."""
        return None

    @property
    def needed_until(self) -> LastEnd | None:
        """The function from events (starts, ends of lifetimes) to the time from which no window needs each, in
        microseconds; None if this depends on other events (see ``finished``)."""
        return self.last_end

    @property
    def takes_events_at_the_watermark(self) -> bool:
        """True if, with bounds of START, an event can be in no window that ends at the time of the event."""
        return True

    @property
    def ends_at_limit(self) -> bool:
        """True if a window may end exactly at a limit that time has already reached, because a later lifetime begins,
        or is cut, exactly there."""
        return False

    @property
    def needs_sides(self) -> bool:
        """True if ``LiveEvents.sides`` is needed, the side of a join of each event. Each event with a null in its key
        then has a different key, so that it joins no other event."""
        return False

    @abstractmethod
    def assign(self, live: LiveEvents, after: Limit, upto: Limit) -> Iterator[WindowMembers]:
        """Yields the windows with after < end <= upto that hold an event, in order, in pieces of any size."""

    @abstractmethod
    def finished(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_]:
        """Returns a mask of the events that are in no window with an end after ``upto``, and do not change such a
        window, whatever later events come."""

    def skipped(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_] | None:
        """Returns a mask of the events that no window will hold, although later windows need them; None if there are
        none."""
        return None

    @abstractmethod
    def next_end(self, live: LiveEvents, after: Limit) -> int | None:
        """Returns the earliest end > after, in microseconds, of a window that holds one of the present events; None if
        there is none. It returns an earlier time if events must be evaluated before, for example a skipped event."""

    def next_finished(self, live: LiveEvents, after: Limit) -> int | None:
        """Returns the earliest time > after, in microseconds, at which another present event may be finished, if no
        further event comes; None if there is none."""
        return self.next_end(live, after)

    def open(self, live: LiveEvents, after: Limit) -> Iterator[WindowMembers]:
        """Yields the windows with end > after that hold an event and that can close before the streams end; if there
        are none, those that end at FOREVER."""
        return self.assign(live, after, FOREVER)

    def ended_by_idleness(self, live: LiveEvents, after: Limit) -> Iterator[WindowMembers]:
        """Yields the windows of ``open`` that an idle timeout can close."""
        return self.open(live, after)

    def earliest_start(self, upto: int, earliest_live: int | None) -> int:
        """Returns a time before which no window that ends after ``upto`` starts, in microseconds (SI-24).

        ``earliest_live``: the start of the earliest live event; None if there is none. Further events may come, at
        ``upto`` or later.
        """
        return upto if earliest_live is None else min(upto, earliest_live)


class GridWindows(WindowAssigner):
    """Windows whose starts and ends do not depend on events. All arguments and results are in microseconds."""

    by_time_alone = True

    @abstractmethod
    def next_ends(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the first end of a window after each time."""

    @abstractmethod
    def ends_between(self, after: int, upto: int) -> NDArray[np.int64]:
        """Returns the ends of all windows with after < end <= upto, ascending."""

    @abstractmethod
    def starts_of(self, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the starts of the windows with these ends."""

    @abstractmethod
    def first_and_last_end_of_points(self, live: LiveEvents) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the ends of the first and the last window that hold each event and were open when it came; for an
        event in no window, the last end is before the first. Events are points in time, in any order."""

    def runs(self, live: LiveEvents) -> EventRuns:
        """Returns runs of events that are in the same windows; events are points in time, in any order.

        An event counts as a member of each window of its run that was open when the first event of the run came.
        """
        return _grid_runs([self], live)


@dataclass(frozen=True)
class GridsTogether:
    """Windows of several grids over the same events."""

    ends_by_time: ClassVar[bool] = True

    grids: tuple[GridWindows, ...]

    @property
    def windows_per_event(self) -> int:
        """The greatest number of windows that hold a point in time."""
        return sum(grid.windows_per_event for grid in self.grids)

    def runs(self, live: LiveEvents) -> EventRuns:
        """Returns runs of events that are in the same windows of each grid; see ``GridWindows.runs``."""
        return _grid_runs(self.grids, live)


def _grid_runs(grids: Sequence[GridWindows], live: LiveEvents) -> EventRuns:
    columns = [] if live.keys is None else [live.keys]
    for grid in grids:
        first_ends, last_ends = grid.first_and_last_end_of_points(live)
        in_no_window = first_ends > last_ends
        # With the minimum, all events in the same gap between two windows are in one run.
        columns += [last_ends, np.minimum(first_ends, last_ends + 1)]
        if live.closed_until is not None and (len(grids) > 1 or grid.windows_per_event > 1 or in_no_window.any()):
            # An event that missed its first window is in the same windows as some later events, but not in their run.
            columns.append(grid.first_and_last_end_of_points(replace(live, closed_until=None))[0])
    run_keys = Keys.of([pa.array(column) for column in columns], len(live), ordered=True)
    groups = Groups(run_keys.codes, run_keys.size)
    return EventRuns(groups.numbers, groups.reduce(np.minimum, live.starts, FOREVER), None)


def limit_at(limit: Limit, positions: NDArray[np.int64]) -> Limit:
    """Returns the limits of the events at these indices."""
    return limit[positions] if isinstance(limit, np.ndarray) else limit


# Aligned windows: tumbling, hopping, hopping with gaps.


if TYPE_CHECKING:
    Edges = Callable[[NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int64]]]
    """A function from grid points to the starts and ends of the windows at these points."""

MAX_MEMBERS_PER_PIECE = 1 << 22
"""Approximate maximum number of members in a piece, so that windows with much overlap need little memory."""

_ENDLESS = 1 << 62
"""Stands for the end of endless lifetimes in arithmetic: later than any time, but small enough to add a length."""


@dataclass(frozen=True)
class AlignedWindows(GridWindows):
    """Windows of one length whose ends are multiples of the slide, shifted by the offset (ST-3, AT-1, AT-8, AZ-19).

    A slide shorter than the length makes windows overlap (AT-2, AZ-20, SI-27); a longer one leaves gaps whose events
    are in no window (AT-4). With an ``origin`` (microseconds since the epoch), windows start at the origin and at every
    slide after it, but not before it (AT-3).

    An event with a lifetime is in every window that shares an instant with the lifetime (SI-27). An event whose
    lifetime has no length is in no window. At the end of the streams an endless lifetime lasts as long as the latest
    known event of its key.

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

    def assign(self, live: LiveEvents, after: Limit, upto: Limit) -> Iterator[WindowMembers]:
        if not len(live):
            return iter(())
        first_ends, last_ends = self._first_and_last_end(live, last_instants(live, upto))
        last_ends = np.minimum(last_ends, self._aligned(np.clip(upto, first_ends - self.slide.micros, last_ends)))
        first_ends = self._first_open_end(live, after, first_ends, last_ends)
        length = self.length.micros
        return assign_on_grid(live, first_ends, last_ends, self.slide.micros, lambda ends: (ends - length, ends))

    def finished(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_]:
        first_ends, last_ends = self._first_and_last_end(live, last_instants(live))
        closed_until = upto if live.closed_until is None else np.maximum(upto, live.closed_until)
        return (last_ends <= closed_until) | (last_ends < first_ends)

    def next_end(self, live: LiveEvents, after: Limit) -> int | None:
        first_ends, last_ends = self.first_and_last_open_end(live, after, 0)
        first_ends = first_ends[first_ends <= last_ends]
        return int(first_ends.min()) if len(first_ends) else None

    def first_and_last_end_of_points(self, live: LiveEvents) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self.first_and_last_open_end(live, -_ENDLESS, 0)

    def first_and_last_open_end(
        self, live: LiveEvents, after: Limit, upto: Limit
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the ends of the first and the last window after ``after`` that hold each event and were open when it
        came, in microseconds; for an event in no window, the last end is before the first. ``upto``: endless lifetimes
        last as long as in a call of ``assign`` with this limit."""
        first_ends, last_ends = self._first_and_last_end(live, last_instants(live, upto))
        return self._first_open_end(live, after, first_ends, last_ends), last_ends

    @property
    def first_end(self) -> int | None:
        """The end of the first window, in microseconds; None if there is no first window."""
        return None if self.origin is None else self._phase

    def earliest_start(self, upto: int, earliest_live: int | None) -> int:
        length, slide = self.length.micros, self.slide.micros
        start = (upto - self._phase) // slide * slide + self._phase + slide - length
        return start if self.origin is None else max(start, self.origin)

    def next_ends(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        ends = self._aligned(times) + self.slide.micros
        return ends if self.first_end is None else np.maximum(ends, self.first_end)

    def ends_between(self, after: int, upto: int) -> NDArray[np.int64]:
        first_end = int(self.next_ends(np.array([after]))[0])
        return np.arange(first_end, upto + 1, self.slide.micros, dtype=np.int64)

    def starts_of(self, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        return ends - self.length.micros

    def anchored(self, anchor: int, offset: int) -> AlignedWindows:
        return replace(self, origin=anchor + offset % self.slide.micros, offset=Duration(0))

    @property
    def windows_per_event(self) -> int:
        return -(-self.length.micros // self.slide.micros)

    @property
    def max_lookback(self) -> int:
        return self.length.micros

    @property
    def last_end(self) -> LastEnd:
        return self._last_end

    def _last_end(self, starts: NDArray[np.int64], ends: NDArray[np.int64] | None) -> NDArray[np.int64]:
        live = LiveEvents(starts, ends=ends)
        first_ends, last_ends = self._first_and_last_end(live, last_instants(live))
        if self.origin is None:
            return last_ends
        # An event before the origin is in a gap: its last window ends before it (AT-3).
        return np.where(last_ends < first_ends, np.minimum(last_ends, starts - 1), last_ends)

    @property
    def _phase(self) -> int:
        return self.offset.micros if self.origin is None else self.origin + self.length.micros

    def _first_and_last_end(
        self, live: LiveEvents, instants: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the ends of the first and the last window that hold each event, from its start and ``instants``, its
        last instant; for an event in no window, the last end is before the first."""
        first_ends = self.bounds.first_end(live.starts, self.slide.micros, self._phase)
        last_ends = self.bounds.last_end(instants, self.length.micros, self.slide.micros, self._phase)
        return first_ends if self.origin is None else np.maximum(first_ends, self._phase), last_ends

    def _first_open_end(
        self, live: LiveEvents, after: Limit, first_ends: NDArray[np.int64], last_ends: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Returns the end of the first window of each event that ends after ``after`` and was open when the event
        came; ``first_ends`` and ``last_ends``: the ends of its first and its last window."""
        low = after if live.closed_until is None else np.maximum(after, live.closed_until)
        slide = self.slide.micros
        return np.maximum(first_ends, self._aligned(np.clip(low, first_ends - slide, last_ends)) + slide)

    def _aligned(self, moments: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the last end of a window at or before each time."""
        slide = self.slide.micros
        return (moments - self._phase) // slide * slide + self._phase


def first_of_keys(live: LiveEvents) -> NDArray[np.bool_]:
    """Returns a mask of the first event of each key."""
    is_first = np.zeros(len(live), dtype=bool)
    is_first[:1] = True
    if live.keys is not None:
        is_first[1:] = live.keys[1:] != live.keys[:-1]
    return is_first


def last_instants(live: LiveEvents, upto: Limit = 0) -> NDArray[np.int64]:
    """Returns the last instant of each event in microseconds; for an endless event a finite time after all others.

    For a lifetime without length this is a time long before the event. If the limit ``upto`` is FOREVER, endless events
    last until the latest time that the bolt has seen, or until the latest known end of an event of their key, so that
    the number of windows is finite.
    """
    if live.ends is None:
        return live.starts
    lasts = np.where(live.ends > live.starts, np.minimum(live.ends, _ENDLESS) - 1, -_ENDLESS)
    endless = live.ends == FOREVER
    lasts_until_known = endless & (np.asarray(upto) == FOREVER)
    if lasts_until_known.any():
        last_known = np.maximum(np.where(endless, live.starts, np.maximum(lasts, live.starts)), live.latest)
        is_first_of_key = first_of_keys(live)
        lasts[lasts_until_known] = np.maximum.reduceat(last_known, np.flatnonzero(is_first_of_key))[
            np.cumsum(is_first_of_key, dtype=np.int64) - 1
        ][lasts_until_known]
    return lasts


def expand_counts(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns, for consecutive runs of these lengths, the run of each item and its index within the run."""
    stops = np.cumsum(counts)
    return np.repeat(np.arange(len(counts)), counts), np.arange(stops[-1]) - np.repeat(stops - counts, counts)


def in_pieces(sizes: NDArray[np.int64]) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
    """Divide windows, given by their numbers of members, into pieces of limited size. Yields for each piece its first
    window, the window after its last window, and the offsets of the members of windows."""
    totals = np.cumsum(sizes)
    begin = 0
    while begin < len(sizes):
        members_before = int(totals[begin - 1]) if begin else 0
        stop = max(int(np.searchsorted(totals, members_before + MAX_MEMBERS_PER_PIECE, side="right")), begin + 1)
        yield begin, stop, np.concatenate([[0], totals[begin:stop] - members_before])
        begin = stop


def assign_on_grid(
    live: LiveEvents, first_points: NDArray[np.int64], last_points: NDArray[np.int64], step: int, edges: Edges
) -> Iterator[WindowMembers]:
    """Yields the windows that hold the events, in order, in pieces of bounded size.

    Each event is in the windows at the grid points from its entry in ``first_points`` to its entry in ``last_points``,
    inclusive, with this ``step``; in no window if the last point is before the first. Windows at later grid points
    start and end later.
    """
    events = np.flatnonzero(last_points >= first_points)
    if not len(events):
        return
    first_points, last_points = first_points[events], last_points[events]
    for low, high in _ranges_of_pieces(first_points, last_points, step):
        inside = np.flatnonzero((first_points <= high) & (last_points >= low))
        if len(inside):
            range_firsts, range_lasts = np.maximum(first_points[inside], low), np.minimum(last_points[inside], high)
            yield _piece(live.keys, events[inside], range_firsts, range_lasts, step, edges)


def _ranges_of_pieces(
    first_points: NDArray[np.int64], last_points: NDArray[np.int64], step: int
) -> Iterator[tuple[int, int]]:
    """Divide grid points into ranges (first, last, inclusive) whose windows have no more members than a piece may
    hold."""
    low, high = int(first_points.min()), int(last_points.max())
    if float((last_points - first_points).sum(dtype=np.float64)) / step + len(first_points) <= MAX_MEMBERS_PER_PIECE:
        yield low, high
        return
    points = np.concatenate([first_points, last_points + step])
    order = stable_order(points)
    points = points[order]
    open_ranges = np.cumsum(np.where(order < len(first_points), 1, -1))[:-1]
    members_before = np.concatenate([[0.0], np.cumsum(open_ranges * (np.diff(points) / step))])
    while low <= high:
        index = int(np.searchsorted(points, low, side="right")) - 1
        target = (
            float(members_before[index])
            + int(open_ranges[index]) * ((low - int(points[index])) // step)
            + MAX_MEMBERS_PER_PIECE
        )
        index_of_target = int(np.searchsorted(members_before, target, side="right")) - 1
        stop = high + step
        if index_of_target < len(open_ranges):
            stop = (
                int(points[index_of_target])
                + int((target - members_before[index_of_target]) // open_ranges[index_of_target]) * step
            )
        stop = max(stop, low + step)
        yield low, stop - step
        low = stop


def _piece(
    keys: NDArray[np.int64] | None,
    events: NDArray[np.int64],
    first_points: NDArray[np.int64],
    last_points: NDArray[np.int64],
    step: int,
    edges: Edges,
) -> WindowMembers:
    """Returns the windows of some events. ``events``: the indices of the events, in order of their keys."""
    low = first_points.min()
    points, counts = (first_points - low) // step, (last_points - first_points) // step + 1
    members = events
    if counts.max() > 1:
        event_of_member, nth_of_event = expand_counts(counts)
        members, points = events[event_of_member], points[event_of_member] + nth_of_event
    order = stable_order(points)  # keeps the order of keys, so that each window's members become contiguous
    members, points = members[order], points[order]
    begins_window = points[1:] != points[:-1]
    if keys is not None:
        member_keys = keys[members]
        begins_window |= member_keys[1:] != member_keys[:-1]
    offsets = np.concatenate([[0], np.flatnonzero(begins_window) + 1, [len(members)]])
    starts, ends = edges(points[offsets[:-1]] * step + low)
    return WindowMembers(starts, ends, offsets, members)


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
"""Greatest length of each unit in microseconds; a day has 25 hours when clocks go back."""

_MONTHS = {"month": 1, "quarter": 3, "year": 12}


@dataclass(frozen=True, repr=False)
class CalendarWindows(GridWindows):
    """The hours, days, weeks, months, quarters or years of an IANA time zone, adjacent and without gaps.

    ``last``: the number of units in a window; one window ends with each unit. ``shift``: the number of days from Monday
    to the first day of a week, or of months from January to the first month of a year. ``at``: times of day in
    microseconds after midnight, in order, at which the windows of a day begin; a time that the clocks skip is taken as
    by ``DayTime``.

    A window starts when the clocks of the zone first show the first moment of its unit, or when they skip this moment.
    So days last 23 or 25 hours when the clocks change, a day that a zone skipped has no window, and an hour
    that the clocks show twice is two windows.

    An event with a lifetime is in every window that shares an instant with the lifetime (SI-27). At the end of the
    streams an endless lifetime lasts as long as ``last_instants`` says.

    Raises ConfigError for an unknown unit or zone, and for a ``last`` below 1.
    """

    unit: Unit
    zone: str
    bounds: Bounds = Bounds.START
    at: tuple[int, ...] = ()
    shift: int = 0
    last: int = 1

    def __repr__(self) -> str:
        """Returns a repr without default values, as in older checkpoints."""
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

    def assign(self, live: LiveEvents, after: Limit, upto: Limit) -> Iterator[WindowMembers]:
        if not len(live):
            return iter(())
        low = after if live.closed_until is None else np.maximum(after, live.closed_until)
        first_times, last_times = self._as_start_bound(live.starts), self._as_start_bound(last_instants(live, upto))
        # Only the part of a long lifetime that is due. A grid point is the index of a window's end among the edges.
        begin, finish = np.clip(low, first_times, last_times), np.clip(upto, first_times, last_times)
        edges = self._edges(begin, finish)
        begin = np.maximum(_edge_before(edges, begin), _edge_before(edges, low)) + 1
        finish = np.minimum(_edge_before(edges, finish) + self.last, _edge_before(edges, upto))
        finish[last_times < first_times] = -1
        return assign_on_grid(live, begin, finish, 1, lambda points: (edges[points - self.last], edges[points]))

    def finished(self, live: LiveEvents, upto: Limit) -> NDArray[np.bool_]:
        if not len(live):
            return np.empty(0, dtype=bool)
        first_times, last_times = self._as_start_bound(live.starts), self._as_start_bound(last_instants(live))
        edges = self._edges(last_times, last_times)
        closed_until = upto if live.closed_until is None else np.maximum(upto, live.closed_until)
        return (edges[_edge_before(edges, last_times) + self.last] <= closed_until) | (last_times < first_times)

    def next_end(self, live: LiveEvents, after: Limit) -> int | None:
        if not len(live):
            return None
        low = after if live.closed_until is None else np.maximum(after, live.closed_until)
        first_times, last_times = self._as_start_bound(live.starts), self._as_start_bound(last_instants(live))
        begin = np.clip(low, first_times, last_times)
        edges = self._edges(begin, begin)
        edge_indices = _edge_before(edges, begin)
        end_indices = np.maximum(edge_indices, _edge_before(edges, low)) + 1
        end_indices = end_indices[(first_times <= last_times) & (end_indices <= edge_indices + self.last)]
        return int(edges[end_indices].min()) if len(end_indices) else None

    def first_and_last_end_of_points(self, live: LiveEvents) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if not len(live):
            return live.starts, live.starts
        times = self._as_start_bound(live.starts)
        edges = self._edges(times, times)
        edge_indices = _edge_before(edges, times)
        first_indices, last_indices = edge_indices + 1, edge_indices + self.last
        if live.closed_until is not None:
            first_indices = np.maximum(first_indices, _edge_before(edges, live.closed_until) + 1)
        # For an event in no window any time after the last end will do, since the next edge may not be known.
        last_ends = edges[last_indices]
        first_ends = np.where(
            first_indices <= last_indices, edges[np.minimum(first_indices, last_indices)], last_ends + 1
        )
        return first_ends, last_ends

    def earliest_start(self, upto: int, earliest_live: int | None) -> int:
        moment = np.array([upto])
        edges = self._edges(moment, moment)
        return int(edges[_edge_before(edges, moment)[0] + 1 - self.last])

    def next_ends(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        if not len(times):
            return times
        edges = self._edges(times, times)
        return edges[_edge_before(edges, times) + 1]

    def ends_between(self, after: int, upto: int) -> NDArray[np.int64]:
        edges = self._edges(np.array([after]), np.array([max(after, upto)]))
        return edges[(edges > after) & (edges <= upto)]

    def starts_of(self, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        if not len(ends):
            return ends
        edges = self._edges(ends - 1, ends - 1)
        return edges[_edge_before(edges, ends - 1) + 1 - self.last]

    @property
    def max_lookback(self) -> int:
        return self.last * _LONGEST_UNIT[self.unit]

    @property
    def last_end(self) -> LastEnd:
        def last_ends(starts: NDArray[np.int64], ends: NDArray[np.int64] | None) -> NDArray[np.int64]:
            last_times = self._as_start_bound(last_instants(LiveEvents(starts, ends=ends)))
            if not len(last_times):
                return last_times
            edges = self._edges(last_times, last_times)
            return edges[_edge_before(edges, last_times) + self.last]

        return last_ends

    def _as_start_bound(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the start, by the bounds, of the microsecond that ends or starts at each time."""
        return self.bounds.first_end(times, 1, 0) - 1

    def _edges(self, begins: NDArray[np.int64], finishes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the edges of windows, ascending: at least all edges of the windows that share an instant with a range
        from ``begins`` to ``finishes``."""
        # The clocks of a zone differ from UTC by less than a day. The first time of day may be on the day before or
        # after.
        margin = 1 if self.at else 0
        if self.last > 1:  # zones have skipped days and hours
            margin += -(-self.last // self._least_edges_per_period) + 2
        lows, highs = self._periods(begins) - 1 - margin, self._periods(finishes) + 2 + margin
        order = np.argsort(lows, kind="stable")
        lows, highs = lows[order], np.maximum.accumulate(highs[order])
        breaks = np.flatnonzero(lows[1:] > highs[:-1] + 1)
        first_periods = lows[np.concatenate([[0], breaks + 1])].tolist()
        last_periods = highs[np.concatenate([breaks, [len(highs) - 1]])].tolist()
        periods = (
            period for low, high in zip(first_periods, last_periods, strict=True) for period in range(low, high + 1)
        )
        edges = (_starts_in_period(self.zone, self.unit, period, self.at, self.shift) for period in periods)
        return np.unique(np.array([edge for period_edges in edges for edge in period_edges]))

    @property
    def _least_edges_per_period(self) -> int:
        """Least number of edges in a period."""
        return 22 if self.unit == "hour" else max(len(self.at), 1)

    def _periods(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the number of the period of each time in UTC: of its month, quarter, year or week, or else its
        day."""
        if self.unit in _MONTHS:
            months = times.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
            return (months - self.shift) // _MONTHS[self.unit]
        # 1970 began on a Thursday.
        return times // _DAY if self.unit != "week" else (times // _DAY + 3 - self.shift) // 7


def _edge_before(edges: NDArray[np.int64], times: Limit) -> NDArray[np.int64]:
    """Returns the index of the last edge at or before each time; -1 if there is none."""
    indices: NDArray[np.int64] = np.searchsorted(edges, np.asarray(times), side="right") - 1
    return indices


@lru_cache(maxsize=1 << 14)
def _starts_in_period(zone: str, unit: Unit, period: int, at: tuple[int, ...], shift: int) -> tuple[int, ...]:
    """Returns the starts of the windows of a period, in microseconds since the epoch: for hours, of each hour of a day;
    for days with times of day, at each of these; else the start of the period."""
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
    """Returns the moments at which the clocks of a zone show or skip a wall-clock time, in microseconds since the
    epoch: one, or two if clocks are set back.

    ``wall``: microseconds between 1970-01-01 00:00 and the wall-clock time, on clocks that never change.
    """
    # A datetime ends with these years; the clocks no longer change there.
    clamped = min(max(wall, EARLIEST + 2 * _DAY), LATEST - 2 * _DAY)
    local = EPOCH.replace(tzinfo=ZoneInfo(zone)) + timedelta(microseconds=clamped)
    early, late = wall - _offset(local), wall - _offset(local.replace(fold=1))
    if early <= late:
        return sorted({early, late})
    # The clocks skip this time at a moment after ``late`` and up to ``early``, where the offset changes.
    offset_before = _offset(to_datetime(late).astimezone(local.tzinfo))
    while early - late > 1:
        middle = (early + late) // 2
        if _offset(to_datetime(middle).astimezone(local.tzinfo)) == offset_before:
            late = middle
        else:
            early = middle
    return [early]


def _offset(moment: datetime) -> int:
    return (moment.utcoffset() or timedelta()) // timedelta(microseconds=1)
