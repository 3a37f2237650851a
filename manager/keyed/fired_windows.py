"""Windows that have fired, closed or are released before their end: panes, and events that expire or come too late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.keyed.retained_events import RetainedEvents, SortedEvents
from policies.assigners import WindowAssigner
from policies.watermarks import NONE
from windowing.columns import take_rows
from windowing.settings.panes import OpenWindows, Pane, PaneMode, Panes, PaneTrigger, Timing, fires
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from windowing.window import Members


# The panes of open windows: which windows fire now, and the state of each window, in columns.


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
    """1 if a firing has closed the window before its end, so that it takes no more events (``Panes(closes=True)``);
    else 0."""
    repaired: NDArray[np.int64]
    """1 if its events have been repaired since it last fired, else 0: what that firing showed does not hold."""

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, indices: NDArray[np.int64]) -> PaneStates:
        """Returns the windows at these indices."""
        return PaneStates(**{column.name: getattr(self, column.name)[indices] for column in fields(self)})

    def table(self) -> pa.Table:
        """Returns the states as a table, to be stored."""
        return pa.table({column.name: getattr(self, column.name) for column in fields(self)})

    @staticmethod
    def of(table: pa.Table | None) -> PaneStates:
        """Returns the states from such a table; None gives no windows."""
        names = [column.name for column in fields(PaneStates)]
        if table is None:
            return PaneStates(**{name: np.zeros(0, np.int64) for name in names})
        return PaneStates(**{name: table.column(name).to_numpy() for name in names})


@dataclass(frozen=True)
class EvaluationTime:
    """The time of an evaluation; times in microseconds."""

    number: int
    """Number of the evaluation; events admitted later are new to it."""
    clock: int
    watermark: int
    ended_until: int
    """Windows that end up to this time have ended."""
    closed_until: int
    """Windows that end up to this time are closed: no late event can be admitted to them."""
    lateness: int | None = None
    """Time for which windows take events after the watermark has reached their end, in microseconds; None if the clock
    also closes windows, or there is no watermark."""
    within_batch: bool = False
    """True if more events of the batch follow. Then only closed windows fire; all other firings are decided at the end
    of the batch, by all its events."""


@dataclass(frozen=True)
class OpenPanes:
    """The open windows of one kind with their states, and how they relate to the windows that fired before; one entry
    for each window, except for ``owners``."""

    states: PaneStates
    split: NDArray[np.bool_]
    """True for windows that hold only a part of a window that has fired."""
    changed: NDArray[np.bool_]
    """True for windows that have fired, as one window or several, but within other bounds."""
    fired_at_former_end: NDArray[np.bool_]
    """True for windows that have fired at an end that they no longer have."""
    owners: NDArray[np.int64]
    """For each remembered window of all kinds, the index of the window that it now is or is part of; -1 if there is
    none."""


class PaneDecisions:
    """Decides which open windows fire, and updates their states."""

    def __init__(self, panes: Panes, states: PaneStates, moment: EvaluationTime) -> None:
        self.panes, self.before, self.moment = panes, states, moment
        self._kept: list[PaneStates] = []
        self._closed = np.zeros(len(states), np.bool_)
        """True for remembered windows that have closed."""

    def remembered(self, kind: int, keys: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64],
             merging: bool) -> OpenPanes:  # fmt: skip
        """Returns the states of these open windows of one kind.

        ``merging``: True if a window takes over the states of all remembered windows that it covers, as sessions do.
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
        split, changed, end_was_known = (np.zeros(count, np.bool_) for _ in range(3))
        owners = np.full(len(self.before), -1)
        if not len(before) or not count:
            return OpenPanes(states, split, changed, np.zeros(count, np.bool_), owners)
        if merging:
            owners[of_kind], split = _covering(states, before)
        else:
            owners[of_kind] = _same(states, before)
        known = np.flatnonzero(owners[of_kind] >= 0)
        owner, remembered = owners[of_kind[known]], before.take(known)
        np.maximum.at(states.index, owner, remembered.index)
        np.maximum.at(states.shown, owner, remembered.shown)
        np.maximum.at(states.shut, owner, remembered.shut)
        np.maximum.at(states.repaired, owner, remembered.repaired)
        np.minimum.at(states.clock, owner, remembered.clock)
        np.minimum.at(states.mark, owner, remembered.mark)
        other = (starts[owner] != remembered.start) | (ends[owner] != remembered.end)
        changed[owner[other & (remembered.index > 0)]] = True
        same_end = ends[owner] == remembered.end
        end_was_known[owner[same_end]] = True
        counts = same_end | ~end_was_known[owner]  # of several, the one that ends there says whether that end has fired
        np.maximum.at(states.on_time, owner[counts], remembered.on_time[counts])
        return OpenPanes(states, split, changed, (states.on_time > 0) & ~end_was_known, owners)

    def decide(
        self,
        windows: OpenPanes,
        fresh: NDArray[np.int64],
        sizes: NDArray[np.int64],
        opened_at: NDArray[np.int64] | None = None,
        grown: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[np.bool_], list[Pane]]:
        """Returns which of the windows fire, and the pane of each firing.

        Their states are updated in place, and kept if they stay open. ``fresh`` is the number of new events of each
        window, ``sizes`` the number of all its events. ``opened_at``: the limit up to which windows had closed when the
        first event of each window came, in microseconds; None if no watermark closes windows. ``grown``: True for
        windows whose end the watermark had not passed when their first new event came; None also for windows that do
        not grow.
        """
        moment, panes, states = self.moment, self.panes, windows.states
        states.mark[states.mark == NONE] = moment.watermark  # counted from the first watermark
        final = states.end <= moment.closed_until
        ended = states.end <= (moment.ended_until if panes.on_time else moment.closed_until)
        # A session that has grown since it fired at its end fires at its new one: where that is still to come, and
        # where the watermark has reached it since it grew.
        states.on_time[~ended] = 0
        if grown is not None and moment.lateness is not None:
            states.on_time[windows.fired_at_former_end & grown] = 0
        revised = self._revised(windows, fresh)
        on_time, late = self._at_end(states, fresh, sizes, ended, final, revised)
        early = ~ended & (self._fired_by_trigger(panes.early, states, fresh) | revised) & (not moment.within_batch)
        firing = early | on_time | late
        in_time = on_time if opened_at is None else on_time & ~self.passed_before(states.end, opened_at)
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
        """Returns the windows that fire without their trigger, because an earlier result of their events is now wrong.

        All parts of a window that has been split fire together. A window with new events that covers the fired ones
        waits for its trigger. A window whose events have been repaired does not wait.
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
        """Returns which windows fire at their end, and which fire again afterwards: by the trigger of late events, and
        when they close with events that no firing has shown."""
        panes, done, takes_events = self.panes, states.on_time > 0, states.shut == 0
        first = takes_events & ended & ~done
        if panes.at_end is not None:
            first &= sizes >= panes.at_end.value
        asked = (final & (fresh > 0)) | self._fired_by_trigger(panes.late, states, fresh) | revised
        again = takes_events & ended & done & asked
        return first, again

    def _fired_by_trigger(
        self, trigger: PaneTrigger | None, states: PaneStates, fresh: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Returns which windows that no firing has closed a trigger fires now."""
        if trigger is None:
            return np.zeros(len(states), np.bool_)
        advanced = np.where(states.mark > NONE, self.moment.watermark - states.mark, 0)
        windows = OpenWindows(fresh, self.moment.clock - states.clock, advanced, states.index)
        asked: NDArray[np.bool_] = (states.shut == 0) & fires(trigger, windows)
        return asked

    def passed_before(self, ends: NDArray[np.int64], came_at: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns which of the ends the watermark had passed before an event came. ``came_at``: the time up to which
        windows had closed when each event came."""
        if self.moment.lateness is None:
            return np.zeros(len(ends), np.bool_)
        passed: NDArray[np.bool_] = (came_at > NONE) & (came_at >= ends - self.moment.lateness)
        return passed

    def states(self) -> PaneStates:
        """Returns the states of the windows that are still open."""
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
    """For each remembered window, its index among the open windows; -1 if it is no longer open."""
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
    """Returns for each remembered window the index of the open window that covers it, or -1; and a mask of the open
    windows that overlap a fired window without covering it. Open windows of a key do not overlap each other."""
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
    """Returns for each remembered window how many open ones are before it in ``along``, an order of both; open windows
    have the indices below ``count``."""
    found = np.empty(len(along) - count, np.int64)
    places = np.flatnonzero(along >= count)
    found[along[places] - count] = np.cumsum(along < count)[places]
    return found


def _together(windows: PaneStates, before: PaneStates) -> tuple[NDArray[np.int64], ...]:
    """Returns the keys, starts and ends of open windows and, behind them, of remembered ones; and 0 or 1 to distinguish
    them."""
    both = [np.concatenate([getattr(windows, name), getattr(before, name)]) for name in ("key", "start", "end")]
    return (*both, np.repeat([0, 1], [len(windows), len(before)]))


# The last window fired for each key of a task, for bolts that ask which events have expired since (ST-21).


_NO_KEY = 0


class LastFired:
    """Finds for each window the events that have expired since the previous window of the same key.

    ``events`` are all events of the task, including those kept for this purpose alone; windows refer to them by index.
    Only the keys that fire are looked up.
    """

    def __init__(self, events: RetainedEvents, streams: Sequence[str]) -> None:
        self._events, self.stream_names = events, tuple(streams)
        self._last = np.zeros(len(events), np.bool_) if events.last is None else events.last.copy()
        indices = np.flatnonzero(self._last)
        last_events = events.bare(indices)
        order = last_events.order()
        self._places = indices if order is None else indices[order]
        keys = np.full(len(indices), _NO_KEY, np.int64) if events.keys is None else events.keys[self._places]
        heads = np.flatnonzero(np.diff(keys)) + 1
        self._starts = np.concatenate([[0], heads, [len(keys)]]) if len(keys) else np.zeros(1, np.int64)
        # The stored order of hashes need not be numeric order.
        run_keys = keys[self._starts[:-1]]
        self._by_key = np.argsort(run_keys, kind="stable")
        self._keys = run_keys[self._by_key]
        self._fired: dict[int, NDArray[np.int64]] = {}

    def follow(self, members: NDArray[np.int64], key: int | None = None) -> NDArray[np.int64]:
        """Record that a window with these members fires; returns the indices of the events of the previous window that
        this one lacks. ``key`` is the hash of its key; None if a member has it."""
        if key is None:
            key = _NO_KEY if self._events.keys is None else int(self._events.keys[members[0]])
        before = self._fired.get(key)
        if before is None:
            before = self._members_before(key)
            self._last[before] = False
        self._fired[key] = members
        return before[~np.isin(before, members)] if len(before) else before

    def flags(self) -> NDArray[np.bool_]:
        """Returns which events are now in the last window fired for their key."""
        in_last = self._last.copy()
        for members in self._fired.values():
            in_last[members] = True
        return in_last

    def _members_before(self, key: int) -> NDArray[np.int64]:
        index = int(np.searchsorted(self._keys, key))
        if index == len(self._keys) or self._keys[index] != key:
            return np.zeros(0, np.int64)
        run = int(self._by_key[index])
        return self._places[self._starts[run] : self._starts[run + 1]]

    # -- as the source of expired events

    def table(self, members: Members) -> pa.Table:
        """Returns the payload of the events at these indices."""
        return take_rows(self._payload, np.asarray(members, np.int64))

    def timestamps(self, members: Members) -> NDArray[np.int64]:
        """Returns the times of the events in microseconds."""
        return self._events.times[np.asarray(members, np.int64)]

    def streams(self, members: Members) -> NDArray[np.int8]:
        """Returns the stream codes of the events."""
        codes = self._events.streams
        places = np.asarray(members, np.int64)
        return np.zeros(len(places), np.int8) if codes is None else codes[places]

    @cached_property
    def _payload(self) -> pa.Table:
        return self._events.payload.combine_chunks()


# Windows that were released exactly at the limit at which they end, so that they are not released again.
#
# A lifetime that begins, or is cut, exactly at a limit ends a slice there after the limit was reached (SI-4, SI-29).
# So windows that end at the last limit are evaluated once more, and those already released then are left out.


_RELEASED_TYPE = np.dtype([("kind", np.int64), ("key", np.int64), ("end", np.int64)])


@dataclass
class ReleasedEnds:
    """(kind of window, code of the key, end in microseconds) of such windows; at most one per kind and key."""

    rows: NDArray[np.void]

    @staticmethod
    def of(table: pa.Table | None) -> ReleasedEnds:
        """Returns the stored windows; empty for None."""
        if table is None:
            return ReleasedEnds(np.zeros(0, _RELEASED_TYPE))
        kinds, keys, ends = (table.column(name).to_numpy() for name in _RELEASED_TYPE.names or ())
        return ReleasedEnds(_released_rows(kinds, keys, ends))

    def table(self) -> pa.Table:
        """Returns the windows as a table, to be stored."""
        return pa.table({name: self.rows[name] for name in _RELEASED_TYPE.names or ()})

    def __len__(self) -> int:
        return len(self.rows)

    def holds(self, kind: int, keys: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns which of these windows of one kind have been released."""
        return np.isin(_released_rows(kind, keys, ends), self.rows)

    def add(self, kind: int, keys: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        """Record windows of one kind; they replace earlier ones of their keys."""
        order = np.lexsort((ends, keys))
        last = order[np.append(keys[order][1:] != keys[order][:-1], True)] if len(order) else order
        replaced = (self.rows["kind"] == kind) & np.isin(self.rows["key"], keys)
        self.rows = np.concatenate([self.rows[~replaced], _released_rows(kind, keys[last], ends[last])])

    def keep(self, keys: NDArray[np.int64]) -> None:
        """Keep only the keys with live events: no slice of the others can end any more."""
        self.rows = self.rows[np.isin(self.rows["key"], keys)]


def _released_rows(kind: int | NDArray[np.int64], keys: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.void]:
    rows = np.zeros(len(keys), _RELEASED_TYPE)
    rows["kind"], rows["key"], rows["end"] = kind, keys, ends
    return rows


# Windows that a firing has closed before their end, and the events that come too late for them.


_CLOSED_TYPE = np.dtype([("kind", np.int64), ("key", np.int64), ("start", np.int64), ("end", np.int64)])


class ClosedEarly:
    """The windows of a task that a firing has closed before their time (``closes=True``)."""

    def __init__(self, states: PaneStates, assigners: Sequence[WindowAssigner]) -> None:
        closed = states.take(np.flatnonzero(states.shut))
        self._assigners, self._windows = (
            tuple(assigners),
            _closed_rows(closed.kind, closed.key, closed.start, closed.end),
        )

    def missed(
        self, times: NDArray[np.int64], keys: NDArray[np.int64] | None, closed_until: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Returns a mask of the events that are too late for every window that could hold them.

        That is so if each of these windows is among the closed ones here, or ends up to ``closed_until``; at least one
        must be among the closed ones. Times are in microseconds, keys are hashes.
        """
        if not len(self._windows) or not len(times):
            return np.zeros(len(times), np.bool_)
        bare = pa.table({"place": pa.nulls(len(times))})
        events = SortedEvents(
            RetainedEvents(times=times, payload=bare, keys=keys, closed_until=np.array(closed_until)), ()
        )
        left, missed_all = np.zeros(len(times), np.bool_), np.zeros(len(times), np.bool_)
        for kind, assigner in enumerate(self._assigners):
            for piece in assigner.assign(events.live, NONE, FOREVER):
                of_key = events.key_hashes(piece.members[piece.offsets[:-1]])
                closed = np.isin(_closed_rows(kind, of_key, piece.starts, piece.ends), self._windows)
                by_member = np.repeat(closed, np.diff(piece.offsets))
                missed_all[piece.members[by_member]] = True
                left[piece.members[~by_member]] = True
        return events.as_given(missed_all & ~left)


def _closed_rows(
    kind: int | NDArray[np.int64], key: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.void]:
    rows = np.zeros(len(key), _CLOSED_TYPE)
    rows["kind"], rows["key"], rows["start"], rows["end"] = kind, key, start, end
    return rows
