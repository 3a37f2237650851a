"""The panes of open windows: which windows fire now, and the state of each window, in columns."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from policies.marks import NONE
from windowing.settings.panes import OpenWindows, Pane, PaneMode, Panes, PaneTrigger, Timing, fires

if TYPE_CHECKING:
    from numpy.typing import NDArray

TIMINGS = (Timing.EARLY, Timing.ON_TIME, Timing.LATE)
_EARLY, _ON_TIME, _LATE = range(3)


@dataclass(kw_only=True)
class PaneStates:
    """The states of open windows: one entry per window, in order of (kind, key, start, end)."""

    kind: NDArray[np.int64]
    key: NDArray[np.int64]
    """Code of the window's key; 0 without keys."""
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
    repaired: NDArray[np.int64]
    """1 if its events have been repaired since it last fired, else 0: what that firing showed does not hold."""

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
    within_batch: bool = False
    """Whether more events of the batch follow. Only windows that have closed fire then: all other firings are decided
    at the end of a batch, by all its events."""


@dataclass(frozen=True)
class OpenPanes:
    """The open windows of one kind with their states, and what has become of the windows before; one entry for each
    window, except for ``owners``."""

    states: PaneStates
    split: NDArray[np.bool_]
    """Which hold only a part of a window that has fired."""
    changed: NDArray[np.bool_]
    """Which are one or several windows that have fired, but not within the same bounds."""
    owners: NDArray[np.int64]
    """For each remembered window of all kinds, the index of the window that it now is or is part of; -1 where there is
    none."""


class PaneDecisions:
    """Decides which open windows fire, and updates their states."""

    def __init__(self, panes: Panes, states: PaneStates, moment: EvaluationTime) -> None:
        self.panes, self.before, self.moment = panes, states, moment
        self._kept: list[PaneStates] = []
        self._closed = np.zeros(len(states), np.bool_)
        """Which of the remembered windows have closed."""

    def remembered(self, kind: int, keys: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64],
             merging: bool) -> OpenPanes:  # fmt: skip
        """The states of these open windows of one kind.

        ``merging`` is whether a window takes over the states of all remembered windows that it covers, as sessions do.
        """
        of_kind = np.flatnonzero(self.before.kind == kind)
        before, count = self.before.take(of_kind), len(keys)
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
            repaired=np.zeros(count, np.int64),
        )
        split, changed, owners = np.zeros(count, np.bool_), np.zeros(count, np.bool_), np.full(len(self.before), -1)
        if not len(before) or not count:
            return OpenPanes(states, split, changed, owners)
        if merging:
            owners[of_kind], split = _covering(states, before)
        else:
            owners[of_kind] = _same(states, before)
        known = np.flatnonzero(owners[of_kind] >= 0)
        owner, remembered = owners[of_kind[known]], before.take(known)
        np.maximum.at(states.index, owner, remembered.index)
        np.maximum.at(states.shown, owner, remembered.shown)
        np.maximum.at(states.on_time, owner, remembered.on_time)
        np.maximum.at(states.shut, owner, remembered.shut)
        np.maximum.at(states.repaired, owner, remembered.repaired)
        np.minimum.at(states.clock, owner, remembered.clock)
        np.minimum.at(states.mark, owner, remembered.mark)
        other = (starts[owner] != remembered.start) | (ends[owner] != remembered.end)
        changed[owner[other & (remembered.index > 0)]] = True
        return OpenPanes(states, split, changed, owners)

    def decide(
        self,
        windows: OpenPanes,
        fresh: NDArray[np.int64],
        sizes: NDArray[np.int64],
        opened_at: NDArray[np.int64] | None = None,
    ) -> tuple[NDArray[np.bool_], list[Pane]]:
        """Which of the windows fire, and the pane of each firing.

        Their states are updated in place, and kept if they stay open. ``fresh`` is the number of new events of each
        window, ``sizes`` that of all its events. ``opened_at``: up to when windows had closed as the first event of
        each came, in microseconds; None where none close by a watermark.
        """
        moment, panes, states = self.moment, self.panes, windows.states
        states.mark[states.mark == NONE] = moment.watermark  # counted from the first watermark
        final = states.end <= moment.closed_until
        ended = states.end <= (moment.ended_until if panes.on_time else moment.closed_until)
        states.on_time[~ended] = 0  # of a session that has grown since it fired at its end
        revised = self._revised(windows, fresh)
        on_time, late = self._at_end(states, fresh, sizes, ended, final, revised)
        early = ~ended & (self._asked(panes.early, states, fresh) | revised) & (not moment.within_batch)
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
        states.repaired[firing] = 0
        states.on_time[on_time] = 1
        states.clock[firing] = moment.clock
        states.mark[firing] = moment.watermark
        if panes.closes:
            states.shut[firing] = 1
        self._kept.append(states.take(np.flatnonzero(~final)))
        self._closed |= (windows.owners >= 0) & final[windows.owners]
        return firing, fired

    def _revised(self, windows: OpenPanes, fresh: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which windows fire because what has fired of their events does not hold any more, although no trigger asks.

        All parts of a window that has been split fire together. A window that has new events and covers what has fired
        of it waits for its trigger. One whose events have been repaired does not wait.
        """
        if self.panes.mode is PaneMode.DISCARDING:
            return np.zeros(len(fresh), np.bool_)
        states = windows.states
        repaired = (states.repaired > 0) & (states.index > 0) & (states.shut == 0)
        revised: NDArray[np.bool_] = windows.split | (windows.changed & (fresh == 0)) | repaired
        return revised

    def _at_end(
        self,
        states: PaneStates,
        fresh: NDArray[np.int64],
        sizes: NDArray[np.int64],
        ended: NDArray[np.bool_],
        final: NDArray[np.bool_],
        revised: NDArray[np.bool_],
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which windows fire at their end, and which again afterwards: by the trigger of late events, and when they
        close with events that they have not shown."""
        panes, done, takes_events = self.panes, states.on_time > 0, states.shut == 0
        first = takes_events & ended & ~done
        if panes.at_end is not None:
            first &= sizes >= panes.at_end.value
        asked = (final & (fresh > 0)) | self._asked(panes.late, states, fresh) | revised
        again = takes_events & ended & done & asked
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
        if self.moment.within_batch:
            return self.before.take(np.flatnonzero(~self._closed))
        if not self._kept:
            return PaneStates.of(None)
        return PaneStates(
            **{
                column.name: np.concatenate([getattr(part, column.name) for part in self._kept])
                for column in fields(PaneStates)
            }
        )


def _same(windows: PaneStates, before: PaneStates) -> NDArray[np.int64]:
    """For each remembered window, its index among the open ones; -1 where it is gone."""
    count = len(windows)
    keys, starts, ends, second = _together(windows, before)
    along = np.lexsort((second, ends, starts, keys))  # each remembered window just behind the same open one
    owners = np.full(len(before), -1, np.int64)
    places = np.flatnonzero(along >= count)
    candidates, remembered = along[places - 1], along[places] - count
    same = (places > 0) & (candidates < count)
    owner, remembered = candidates[same], remembered[same]
    same = (windows.key[owner] == before.key[remembered]) & (windows.start[owner] == before.start[remembered])
    same &= windows.end[owner] == before.end[remembered]
    owners[remembered[same]] = owner[same]
    return owners


def _covering(windows: PaneStates, before: PaneStates) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For each remembered window, the index of the open window that covers it, -1 where there is none; and which of the
    open windows overlap one that has fired, and do not cover it. Open windows of a key do not overlap each other."""
    along = np.lexsort((windows.start, windows.key))
    keys, starts, ends, second = _together(windows, before)
    # The open windows that overlap each remembered one: from the first that ends after its start, to the last that
    # starts before its end. At equal times the open window comes first among ends, and last among starts.
    opens = second == 0
    low = _opens_before(np.lexsort((second, np.where(opens, ends, starts), keys)), len(windows))
    high = _opens_before(np.lexsort((-second, np.where(opens, starts, ends), keys)), len(windows))
    owner = along[np.minimum(low, len(along) - 1)]
    covers = (high == low + 1) & (windows.start[owner] <= before.start) & (before.end <= windows.end[owner])
    parted = np.flatnonzero(~covers & (before.index > 0))
    steps = np.zeros(len(along) + 1, np.int64)
    np.add.at(steps, low[parted], 1)
    np.add.at(steps, high[parted], -1)
    split = np.zeros(len(along), np.bool_)
    split[along] = np.cumsum(steps[:-1]) > 0
    return np.where(covers, owner, -1), split


def _opens_before(along: NDArray[np.intp], count: int) -> NDArray[np.int64]:
    """How many of the open windows come before each remembered one, in this order of both; open ones have the indices
    below ``count``."""
    found = np.empty(len(along) - count, np.int64)
    places = np.flatnonzero(along >= count)
    found[along[places] - count] = np.cumsum(along < count)[places]
    return found


def _together(windows: PaneStates, before: PaneStates) -> tuple[NDArray[np.int64], ...]:
    """The keys, starts and ends of open windows and, behind them, of remembered ones; and 0 or 1 to tell them apart."""
    both = [np.concatenate([getattr(windows, name), getattr(before, name)]) for name in ("key", "start", "end")]
    return (*both, np.repeat([0, 1], [len(windows), len(before)]))
