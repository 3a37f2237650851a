"""The panes of open windows: which windows fire now, and the state of each window, in columns."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from policies.marks import NONE
from windowing.settings.panes import OpenWindows, Pane, Panes, PaneTrigger, Timing, fires

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
    shut: NDArray[np.int64]
    """1 if a firing has closed it before its end, else 0: it takes no events any more (``Panes(closes=True)``)."""

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
    lateness: int | None = None
    """How long windows take events after the watermark has reached their end, in microseconds; None where windows are
    also closed by the clock, or there is no watermark."""


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
            shut=np.zeros(count, np.int64),
        )
        if not len(before) or not count:
            return states
        owners = _owners(states, before, merging)
        known = owners >= 0
        owners_known, remembered = owners[known], before.take(np.flatnonzero(known))
        np.maximum.at(states.index, owners_known, remembered.index)
        np.maximum.at(states.shown, owners_known, remembered.shown)
        np.maximum.at(states.on_time, owners_known, remembered.on_time)
        np.maximum.at(states.shut, owners_known, remembered.shut)
        np.minimum.at(states.clock, owners_known, remembered.clock)
        np.minimum.at(states.mark, owners_known, remembered.mark)
        return states

    def decide(
        self,
        states: PaneStates,
        fresh: NDArray[np.int64],
        sizes: NDArray[np.int64],
        opened_at: NDArray[np.int64] | None = None,
    ) -> tuple[NDArray[np.bool_], list[Pane]]:
        """Which of the windows fire, and the pane of each firing.

        ``states`` are updated in place, and kept if they stay open. ``fresh`` is the number of new events of each
        window, ``sizes`` that of all its events. ``opened_at``: up to when windows had closed as the first event of
        each came, in microseconds; None where none close by a watermark.
        """
        moment, panes = self.moment, self.panes
        states.mark[states.mark == NONE] = moment.watermark  # counted from the first watermark
        final = states.end <= moment.closed_until
        ended = states.end <= (moment.ended_until if panes.on_time else moment.closed_until)
        states.on_time[~ended] = 0  # of a session that has grown since it fired at its end
        on_time, late = self._at_end(states, fresh, sizes, ended, final)
        early = ~ended & self._asked(panes.early, states, fresh)
        firing = early | on_time | late
        in_time = on_time & ~self._opened_late(states, opened_at)
        timings = np.select([early, in_time], [_EARLY, _ON_TIME], _LATE)
        fired = [
            Pane(index, TIMINGS[timing], last or panes.closes)
            for index, timing, last in zip(
                states.index[firing].tolist(), timings[firing].tolist(), final[firing].tolist(), strict=True
            )
        ]
        states.index[firing] += 1
        states.shown[firing] = moment.number
        states.on_time[on_time] = 1
        states.clock[firing] = moment.clock
        states.mark[firing] = moment.watermark
        if panes.closes:
            states.shut[firing] = 1
        self._kept.append(states.take(np.flatnonzero(~final)))
        return firing, fired

    def _at_end(
        self,
        states: PaneStates,
        fresh: NDArray[np.int64],
        sizes: NDArray[np.int64],
        ended: NDArray[np.bool_],
        final: NDArray[np.bool_],
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which windows fire at their end, and which again afterwards: by the trigger of late events, and when they
        close with events that they have not shown."""
        panes, done = self.panes, states.on_time > 0
        first = (states.shut == 0) & ended & ~done
        if panes.at_end is not None:
            first &= sizes >= panes.at_end.value
        again = ended & done & ((final & (fresh > 0)) | self._asked(panes.late, states, fresh))
        return first, again

    def _asked(self, trigger: PaneTrigger | None, states: PaneStates, fresh: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which windows that no firing has closed a trigger fires now."""
        if trigger is None:
            return np.zeros(len(states), np.bool_)
        advanced = np.where(states.mark > NONE, self.moment.watermark - states.mark, 0)
        windows = OpenWindows(fresh, self.moment.clock - states.clock, advanced, states.index)
        asked: NDArray[np.bool_] = (states.shut == 0) & fires(trigger, windows)
        return asked

    def _opened_late(self, states: PaneStates, opened_at: NDArray[np.int64] | None) -> NDArray[np.bool_]:
        """Which windows had ended by the watermark before their first event came."""
        if opened_at is None or self.moment.lateness is None:
            return np.zeros(len(states), np.bool_)
        late: NDArray[np.bool_] = (opened_at > NONE) & (opened_at >= states.end - self.moment.lateness)
        return late

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
