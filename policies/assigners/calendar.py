"""Calendar windows: the hours, days, weeks, months, quarters and years of a time zone, including clock changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, get_args
from zoneinfo import ZoneInfo

import numpy as np

from policies.assigners.aligned import Assigned, GridWindows, Live, last_instants, spread
from windowing.errors import ConfigError
from windowing.settings.rules import Bounds
from windowing.timestamps import EARLIEST, EPOCH, LATEST, moment_of, to_datetime, zone_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.admission import LastEnd
    from policies.assigners.aligned import Limit

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

    A window starts when the clocks of the zone first show its first moment or, where they skip it, at the skip: at the
    first moment of its hour, day, week, month, quarter or year. With ``at``, times of day in microseconds after
    midnight, in order, days are divided into windows that begin then; a time that the clocks skip comes as it does for
    ``DayTime``. So days last 23 or 25 hours when the clocks change, a day that a zone skipped has no window, and an
    hour that the clocks show twice is two windows. An event with a lifetime is in every window that shares an instant
    with it (SI-27); at the end of the streams an endless one lasts as long as the latest known event of its key.

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

    def assign(self, live: Live, after: Limit, upto: Limit) -> Iterator[Assigned]:
        if not len(live):
            return iter(())
        low = after if live.closed_until is None else np.maximum(after, live.closed_until)
        first, last = self._inside(live.starts), self._inside(last_instants(live, upto))
        # Only the due part of a long lifetime. Windows go by the places of their ends.
        begin, finish = np.clip(low, first, last), np.clip(upto, first, last)
        edges = self._edges(begin, finish)
        begin = np.maximum(_places(edges, begin), _places(edges, low)) + 1
        finish = np.minimum(_places(edges, finish) + self.last, _places(edges, upto))
        finish[last < first] = -1
        return spread(live, begin, finish, 1, lambda places: (edges[places - self.last], edges[places]))

    def finished(self, live: Live, upto: Limit) -> NDArray[np.bool_]:
        if not len(live):
            return np.empty(0, dtype=bool)
        first, last = self._inside(live.starts), self._inside(last_instants(live))
        edges = self._edges(last, last)
        closed_until = upto if live.closed_until is None else np.maximum(upto, live.closed_until)
        return (edges[_places(edges, last) + self.last] <= closed_until) | (last < first)

    def next_end(self, live: Live, after: Limit) -> int | None:
        if not len(live):
            return None
        low = after if live.closed_until is None else np.maximum(after, live.closed_until)
        first, last = self._inside(live.starts), self._inside(last_instants(live))
        begin = np.clip(low, first, last)
        edges = self._edges(begin, begin)
        places = _places(edges, begin)
        ends = np.maximum(places, _places(edges, low)) + 1
        ends = ends[(first <= last) & (ends <= places + self.last)]
        return int(edges[ends].min()) if len(ends) else None

    def ends_of_points(self, live: Live) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if not len(live):
            return live.starts, live.starts
        inside = self._inside(live.starts)
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
            last = self._inside(last_instants(Live(starts, ends=ends)))
            if not len(last):
                return last
            edges = self._edges(last, last)
            return edges[_places(edges, last) + self.last]

        return last_ends

    def _inside(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the microsecond that starts within the same window as each time, for either kind of bounds."""
        return self.bounds.first_end(times, 1, 0) - 1

    def _edges(self, begins: NDArray[np.int64], finishes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns all boundaries within the spans begin..finish, in order, and on either side as many as are needed for
        the windows that share an instant with the span; other boundaries may be omitted."""
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
        edges = (_begins(self.zone, self.unit, period, self.at, self.shift) for period in periods)
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
    """Returns the last boundary at or before each time; -1 where there is none."""
    places: NDArray[np.int64] = np.searchsorted(edges, np.asarray(times), side="right") - 1
    return places


@lru_cache(maxsize=1 << 14)
def _begins(zone: str, unit: Unit, period: int, at: tuple[int, ...], shift: int) -> tuple[int, ...]:
    """Returns the start of a period in microseconds since the epoch; for a day of hours, the start of each hour, and
    for one that is divided, of each part."""
    match unit:
        case "hour":
            hours = range(period * _DAY, (period + 1) * _DAY, _HOUR)
            return tuple(moment for hour in hours for moment in _showings(zone, hour))
        case "day":
            if at:
                return tuple(moment_of(zone_of(zone), period * _DAY + begin) for begin in at)
            wall = period * _DAY
        case "week":
            wall = (period * 7 - 3 + shift) * _DAY
        case _:
            month = np.datetime64(period * _MONTHS[unit] + shift, "M")
            wall = int(month.astype("datetime64[us]").astype(np.int64))
    return tuple(_showings(zone, wall)[:1])


def _showings(zone: str, wall: int) -> list[int]:
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
