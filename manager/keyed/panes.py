"""The panes of open windows: which fire now, and what is remembered of each, in columns."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from policies.marks import NONE
from windowing.panes import OpenWindows, Pane, Panes, Timing

if TYPE_CHECKING:
    from numpy.typing import NDArray

TIMINGS = (Timing.EARLY, Timing.ON_TIME, Timing.LATE)
_EARLY, _ON_TIME, _LATE = range(3)


@dataclass
class WindowStates:
    """What is remembered of open windows; one entry for each, in order of (kind, key, start, end)."""

    kind: NDArray[np.int64]
    key: NDArray[np.int64]
    """The hash of the window's key; 0 without keys."""
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    index: NDArray[np.int64]
    """How often it has fired."""
    shown: NDArray[np.int64]
    """The evaluation in which it fired last, or -1: events that were let in later are new to it."""
    on_time: NDArray[np.int64]
    """Whether it has fired at its end."""
    clock: NDArray[np.int64]
    """The clock when it fired last, or when it was seen first; microseconds."""
    mark: NDArray[np.int64]
    """The watermark then."""

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, at: NDArray[np.int64]) -> WindowStates:
        """The windows at these places."""
        return WindowStates(*(getattr(self, each.name)[at] for each in fields(self)))

    def table(self) -> pa.Table:
        """As a table, to be kept."""
        return pa.table({each.name: getattr(self, each.name) for each in fields(self)})

    @staticmethod
    def of(table: pa.Table | None) -> WindowStates:
        """From such a table; None is no window at all."""
        names = [each.name for each in fields(WindowStates)]
        if table is None:
            return WindowStates(*(np.zeros(0, np.int64) for _ in names))
        return WindowStates(*(table.column(name).to_numpy() for name in names))


@dataclass(frozen=True)
class Moment:
    """When an evaluation is."""

    number: int
    """Evaluations are numbered, so that it is known what is new."""
    clock: int
    watermark: int
    reached: int
    """Windows that end up to here have ended."""
    over: int
    """Windows that end up to here are done with: no late event can come any more."""


class PaneDecisions:
    """Decides which open windows fire, and remembers it."""

    def __init__(self, panes: Panes, states: WindowStates, moment: Moment) -> None:
        self.panes, self.before, self.moment = panes, states, moment
        self._kept: list[WindowStates] = []

    def seen(self, kind: int, keys: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64],
             merging: bool) -> WindowStates:  # fmt: skip
        """What is remembered of these open windows of one kind.

        ``merging``: a window goes on for every remembered one that it has taken in, as sessions do.
        """
        before = self.before.take(np.flatnonzero(self.before.kind == kind))
        count = len(keys)
        found = WindowStates(
            np.full(count, kind, np.int64), keys, starts, ends, np.zeros(count, np.int64),
            np.full(count, -1, np.int64), np.zeros(count, np.int64), np.full(count, self.moment.clock, np.int64),
            np.full(count, self.moment.watermark, np.int64),
        )  # fmt: skip
        if not len(before) or not count:
            return found
        owners = _owners(found, before, merging)
        known = owners >= 0
        places, was = owners[known], before.take(np.flatnonzero(known))
        np.maximum.at(found.index, places, was.index)
        np.maximum.at(found.shown, places, was.shown)
        np.maximum.at(found.on_time, places, was.on_time)
        np.minimum.at(found.clock, places, was.clock)
        np.minimum.at(found.mark, places, was.mark)
        return found

    def decide(self, states: WindowStates, fresh: NDArray[np.int64]) -> tuple[NDArray[np.bool_], list[Pane]]:
        """Which of the windows fire, and what each of those firings is. ``fresh``: how many new events each has."""
        moment = self.moment
        states.mark[states.mark == NONE] = moment.watermark  # counted from the first watermark there is
        final = states.end <= moment.over
        ended = final if self.panes.late is None else states.end <= moment.reached
        done = states.on_time > 0
        opened = OpenWindows(
            fresh,
            moment.clock - states.clock,
            np.where(states.mark > NONE, moment.watermark - states.mark, 0),
            states.index,
        )
        some = fresh > 0
        nothing = np.zeros(len(states), np.bool_)
        early = nothing if self.panes.early is None else ~ended & some & self.panes.early.due(opened)
        late = nothing if self.panes.late is None else ended & done & some & (final | self.panes.late.due(opened))
        on_time = ended & ~done
        fires = early | on_time | late
        timings = np.select([early, on_time], [_EARLY, _ON_TIME], _LATE)
        panes = [
            Pane(index, TIMINGS[timing], last)
            for index, timing, last in zip(
                states.index[fires].tolist(), timings[fires].tolist(), final[fires].tolist(), strict=True
            )
        ]
        states.index[fires] += 1
        states.shown[fires] = moment.number
        states.on_time[on_time] = 1
        states.clock[fires] = moment.clock
        states.mark[fires] = moment.watermark
        self._kept.append(states.take(np.flatnonzero(~final)))
        return fires, panes

    def states(self) -> WindowStates:
        """What is to be remembered of the windows that are still open."""
        if not self._kept:
            return WindowStates.of(None)
        return WindowStates(
            *(np.concatenate([getattr(each, name.name) for each in self._kept]) for name in fields(WindowStates))
        )


def _owners(windows: WindowStates, before: WindowStates, merging: bool) -> NDArray[np.int64]:
    """For each remembered window the place of the open one that it is now, or is part of; -1 where it is gone."""
    count = len(windows)
    keys = np.concatenate([windows.key, before.key])
    starts = np.concatenate([windows.start, before.start])
    ends = np.concatenate([windows.end, before.end])
    second = np.concatenate([np.zeros(count, np.int64), np.ones(len(before), np.int64)])
    # The remembered windows behind the open ones that they may be part of.
    along = np.lexsort((second, starts, keys) if merging else (second, ends, starts, keys))
    is_window = along < count
    latest = np.maximum.accumulate(np.where(is_window, np.arange(len(along)), -1))
    owners = np.full(len(before), -1, np.int64)
    places = np.flatnonzero(~is_window)
    candidates = np.where(latest[places] >= 0, along[np.maximum(latest[places], 0)], -1)
    mine = along[places] - count
    same = candidates >= 0
    at = np.maximum(candidates, 0)
    same &= windows.key[at] == before.key[mine]
    if merging:
        same &= (windows.start[at] <= before.start[mine]) & (before.end[mine] <= windows.end[at])
    else:
        same &= (windows.start[at] == before.start[mine]) & (windows.end[at] == before.end[mine])
    owners[mine] = np.where(same, candidates, -1)
    return owners
