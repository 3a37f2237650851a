"""The panes of open windows: which windows fire now, and the state of each window, in columns."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from policies.marks import NONE
from windowing.settings.panes import OpenWindows, Pane, Panes, Timing

if TYPE_CHECKING:
    from numpy.typing import NDArray

TIMINGS = (Timing.EARLY, Timing.ON_TIME, Timing.LATE)
_EARLY, _ON_TIME, _LATE = range(3)


@dataclass(kw_only=True)
class PaneStates:
    """The states of open windows: one entry per window, in order of (kind, key, start, end)."""

    kind: NDArray[np.int64]
    key: NDArray[np.int64]
    """Hash of the window's key; 0 without keys."""
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    index: NDArray[np.int64]
    """Number of its firings so far."""
    shown: NDArray[np.int64]
    """Number of the evaluation in which it last fired, or -1. Events admitted later are new to it."""
    on_time: NDArray[np.int64]
    """1 if it has fired at its end, else 0."""
    clock: NDArray[np.int64]
    """The clock in microseconds when it last fired or, before that, when it was first seen."""
    mark: NDArray[np.int64]
    """The watermark in microseconds at that moment."""

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, indices: NDArray[np.int64]) -> PaneStates:
        """The windows at these indices."""
        return PaneStates(**{column.name: getattr(self, column.name)[indices] for column in fields(self)})

    def table(self) -> pa.Table:
        """The states as a table, to be stored."""
        return pa.table({column.name: getattr(self, column.name) for column in fields(self)})

    @staticmethod
    def of(table: pa.Table | None) -> PaneStates:
        """The states from such a table; None gives no windows."""
        names = [column.name for column in fields(PaneStates)]
        if table is None:
            return PaneStates(**{name: np.zeros(0, np.int64) for name in names})
        return PaneStates(**{name: table.column(name).to_numpy() for name in names})


@dataclass(frozen=True)
class EvaluationTime:
    """The time of an evaluation; times in microseconds."""

    number: int
    """Number of the evaluation, from which it is known which events are new."""
    clock: int
    watermark: int
    ended_until: int
    """Windows that end up to this time have ended."""
    closed_until: int
    """Windows that end up to this time are closed: no late event can be admitted to them."""


class PaneDecisions:
    """Decides which open windows fire, and updates their states."""

    def __init__(self, panes: Panes, states: PaneStates, moment: EvaluationTime) -> None:
        self.panes, self.before, self.moment = panes, states, moment
        self._kept: list[PaneStates] = []

    def remembered(self, kind: int, keys: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64],
             merging: bool) -> PaneStates:  # fmt: skip
        """The states of these open windows of one kind.

        ``merging`` is whether a window takes over the states of all remembered windows that it covers, as sessions do.
        """
        before = self.before.take(np.flatnonzero(self.before.kind == kind))
        count = len(keys)
        states = PaneStates(
            kind=np.full(count, kind, np.int64),
            key=keys,
            start=starts,
            end=ends,
            index=np.zeros(count, np.int64),
            shown=np.full(count, -1, np.int64),
            on_time=np.zeros(count, np.int64),
            clock=np.full(count, self.moment.clock, np.int64),
            mark=np.full(count, self.moment.watermark, np.int64),
        )
        if not len(before) or not count:
            return states
        owners = _owners(states, before, merging)
        known = owners >= 0
        owners_known, remembered = owners[known], before.take(np.flatnonzero(known))
        np.maximum.at(states.index, owners_known, remembered.index)
        np.maximum.at(states.shown, owners_known, remembered.shown)
        np.maximum.at(states.on_time, owners_known, remembered.on_time)
        np.minimum.at(states.clock, owners_known, remembered.clock)
        np.minimum.at(states.mark, owners_known, remembered.mark)
        return states

    def decide(self, states: PaneStates, fresh: NDArray[np.int64]) -> tuple[NDArray[np.bool_], list[Pane]]:
        """Which of the windows fire, and the pane of each firing; their ``states`` are updated in place, and kept if
        they stay open. ``fresh`` is the number of new events of each window."""
        moment = self.moment
        states.mark[states.mark == NONE] = moment.watermark  # counted from the first watermark
        final = states.end <= moment.closed_until
        ended = final if self.panes.late is None else states.end <= moment.ended_until
        done = states.on_time > 0
        opened = OpenWindows(
            fresh,
            moment.clock - states.clock,
            np.where(states.mark > NONE, moment.watermark - states.mark, 0),
            states.index,
        )
        has_new = fresh > 0
        none = np.zeros(len(states), np.bool_)
        early = none if self.panes.early is None else ~ended & has_new & self.panes.early.due(opened)
        late = none if self.panes.late is None else ended & done & has_new & (final | self.panes.late.due(opened))
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

    def states(self) -> PaneStates:
        """The states of the windows that are still open."""
        if not self._kept:
            return PaneStates.of(None)
        return PaneStates(
            **{
                column.name: np.concatenate([getattr(part, column.name) for part in self._kept])
                for column in fields(PaneStates)
            }
        )


def _owners(windows: PaneStates, before: PaneStates, merging: bool) -> NDArray[np.int64]:
    """For each remembered window, the index of the open window that it now is or is part of; -1 where it is gone."""
    count = len(windows)
    keys = np.concatenate([windows.key, before.key])
    starts = np.concatenate([windows.start, before.start])
    ends = np.concatenate([windows.end, before.end])
    second = np.concatenate([np.zeros(count, np.int64), np.ones(len(before), np.int64)])
    # Each remembered window is sorted behind the open window that it may be part of.
    along = np.lexsort((second, starts, keys) if merging else (second, ends, starts, keys))
    is_window = along < count
    latest = np.maximum.accumulate(np.where(is_window, np.arange(len(along)), -1))
    owners = np.full(len(before), -1, np.int64)
    places = np.flatnonzero(~is_window)
    candidates = np.where(latest[places] >= 0, along[np.maximum(latest[places], 0)], -1)
    remembered = along[places] - count
    same = candidates >= 0
    owner = np.maximum(candidates, 0)
    same &= windows.key[owner] == before.key[remembered]
    if merging:
        same &= (windows.start[owner] <= before.start[remembered]) & (before.end[remembered] <= windows.end[owner])
    else:
        same &= (windows.start[owner] == before.start[remembered]) & (windows.end[owner] == before.end[remembered])
    owners[remembered] = np.where(same, candidates, -1)
    return owners
