"""The memory of windows that have fired: states of panes, expired events, and windows that closed early."""

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


# Panes.


TIMINGS = (Timing.EARLY, Timing.ON_TIME, Timing.LATE)
_EARLY, _ON_TIME, _LATE = range(3)


@dataclass(kw_only=True)
class PaneStates:
    """The states of open windows that may fire several times, as arrays with an entry per window."""

    kind: NDArray[np.int64]
    """The index of the window's kind."""
    key: NDArray[np.int64]
    """The code of the window's key; 0 without keys."""
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    firings: NDArray[np.int64]
    """The number of firings of the window so far."""
    last_evaluation: NDArray[np.int64]
    """The number of the evaluation in which the window last fired, or -1; later events are new to the window."""
    on_time: NDArray[np.int64]
    """1 if the window has fired at its end, else 0."""
    clock: NDArray[np.int64]
    """The clock in microseconds at the last firing; before the first firing, at the window's first event."""
    mark: NDArray[np.int64]
    """The watermark in microseconds at the same moment as ``clock``."""
    closed_by_firing: NDArray[np.int64]
    """1 if a firing has closed the window before its end (``Panes(closes=True)``), so that it takes no more events;
    else 0."""
    has_repairs: NDArray[np.int64]
    """1 if events of the window have been repaired since its last firing, whose rows are then wrong, so that it fires
    without a trigger; else 0."""

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
        """Returns the states that ``table()`` has written to a table; no windows for None."""
        names = [column.name for column in fields(PaneStates)]
        if table is None:
            return PaneStates(**{name: np.zeros(0, np.int64) for name in names})
        return PaneStates(**{name: table.column(name).to_numpy() for name in names})


@dataclass(frozen=True)
class EvaluationTime:
    """The number and time of an evaluation of windows; times are in microseconds."""

    number: int
    """The number of the evaluation; see ``PaneStates.last_evaluation``."""
    clock: int
    watermark: int
    ended_until: int
    """Windows that end up to this time have ended: the watermark has reached their end."""
    closed_until: int
    """Windows that end up to this time are closed: no late event is admitted to them."""
    lateness: int | None = None
    """Time for which windows take events after the watermark has reached their end; None if the clock closes windows
    too, or there is no watermark."""
    within_batch: bool = False
    """True if more events of the batch follow. Then only closed windows fire, since all other firings depend on all
    events of the batch."""


@dataclass(frozen=True)
class OpenPanes:
    """The open windows of one kind, matched with the states of earlier evaluations; arrays with an entry per open
    window, except ``owners``."""

    states: PaneStates
    fired_at_former_end: NDArray[np.bool_]
    """True for windows that have fired at an end, and now have another end."""
    owners: NDArray[np.int64]
    """For each earlier state of any kind, the index of the open window that it is now a part of; -1 if there is
    none."""


class PaneDecisions:
    """Decides which open windows fire, and updates their states."""

    def __init__(self, panes: Panes, states: PaneStates, moment: EvaluationTime) -> None:
        self.panes, self.before, self.moment = panes, states, moment
        self._kept: list[PaneStates] = []
        self._closed = np.zeros(len(states), np.bool_)
        """True for earlier states whose windows have closed."""

    def match(self, kind: int, keys: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64],
             merging: bool) -> OpenPanes:  # fmt: skip
        """Returns open windows of one kind with their states, from the earlier states of the same windows.

        ``merging``: True if a window also continues earlier windows that it covers, as sessions do.
        """
        kind_rows = np.flatnonzero(self.before.kind == kind)
        before, count = self.before.take(kind_rows), len(keys)
        states = PaneStates(
            kind=np.full(count, kind, np.int64),
            key=keys,
            start=starts,
            end=ends,
            firings=np.zeros(count, np.int64),
            last_evaluation=np.full(count, -1, np.int64),
            on_time=np.zeros(count, np.int64),
            clock=np.full(count, self.moment.clock, np.int64),
            mark=np.full(count, self.moment.watermark, np.int64),
            closed_by_firing=np.zeros(count, np.int64),
            has_repairs=np.zeros(count, np.int64),
        )
        has_same_end = np.zeros(count, np.bool_)
        owners = np.full(len(self.before), -1)
        if not len(before) or not count:
            return OpenPanes(states, np.zeros(count, np.bool_), owners)
        if merging:
            owners[kind_rows], split = _match_covered(states, before)
            states.has_repairs[split] = 1  # only a repair cuts a session that has fired
        else:
            owners[kind_rows] = _match_equal(states, before)
        matched_rows = np.flatnonzero(owners[kind_rows] >= 0)
        owner, matched = owners[kind_rows[matched_rows]], before.take(matched_rows)
        np.maximum.at(states.firings, owner, matched.firings)
        np.maximum.at(states.last_evaluation, owner, matched.last_evaluation)
        np.maximum.at(states.closed_by_firing, owner, matched.closed_by_firing)
        np.maximum.at(states.has_repairs, owner, matched.has_repairs)
        np.minimum.at(states.clock, owner, matched.clock)
        np.minimum.at(states.mark, owner, matched.mark)
        same_end = ends[owner] == matched.end
        has_same_end[owner[same_end]] = True
        decides = same_end | ~has_same_end[owner]  # if an earlier window has the same end, it alone decides
        np.maximum.at(states.on_time, owner[decides], matched.on_time[decides])
        return OpenPanes(states, (states.on_time > 0) & ~has_same_end, owners)

    def decide(
        self,
        windows: OpenPanes,
        fresh: NDArray[np.int64],
        sizes: NDArray[np.int64],
        closed_at_opening: NDArray[np.int64] | None = None,
        grown: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[np.bool_], list[Pane]]:
        """Returns a mask of the windows that fire, and the pane of each firing; updates the states.

        ``fresh``: the number of new events of each window; ``sizes``: the number of all its events.
        ``closed_at_opening``: for each window, the time up to which windows were closed when its first event came, in
        microseconds; None if no watermark closes windows. ``grown``: a mask of the windows whose first new event came
        before the watermark had passed their end; None if windows do not grow.
        """
        moment, panes, states = self.moment, self.panes, windows.states
        states.mark[states.mark == NONE] = moment.watermark  # counted from the first watermark
        final = states.end <= moment.closed_until
        ended = states.end <= (moment.ended_until if panes.on_time else moment.closed_until)
        # A session that has grown since it fired at its end fires at its new end too.
        states.on_time[~ended] = 0
        if grown is not None and moment.lateness is not None:
            states.on_time[windows.fired_at_former_end & grown] = 0
        revised = (states.has_repairs > 0) & (states.closed_by_firing == 0) & (panes.mode is not PaneMode.DISCARDING)
        on_time, late = self._at_end(states, fresh, sizes, ended, final, revised)
        early = ~ended & (self._fired_by_trigger(panes.early, states, fresh) | revised) & (not moment.within_batch)
        firing = early | on_time | late
        in_time = on_time if closed_at_opening is None else on_time & ~self.passed_before(states.end, closed_at_opening)
        timings = np.select([early, in_time], [_EARLY, _ON_TIME], _LATE)
        panes_fired = [
            Pane(index, TIMINGS[timing], last or panes.closes)
            for index, timing, last in zip(
                states.firings[firing].tolist(), timings[firing].tolist(), final[firing].tolist(), strict=True
            )
        ]
        states.firings[firing] += 1
        states.last_evaluation[firing] = moment.number
        states.has_repairs[firing] = 0
        states.on_time[on_time] = 1
        states.clock[firing] = moment.clock
        states.mark[firing] = moment.watermark
        if panes.closes:
            states.closed_by_firing[firing] = 1
        self._kept.append(states.take(np.flatnonzero(~final)))
        self._closed |= (windows.owners >= 0) & final[windows.owners]
        return firing, panes_fired

    def _at_end(
        self,
        states: PaneStates,
        fresh: NDArray[np.int64],
        sizes: NDArray[np.int64],
        ended: NDArray[np.bool_],
        final: NDArray[np.bool_],
        revised: NDArray[np.bool_],
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Returns masks of the windows that fire at their end, and of the windows that fire again after their end: by
        the trigger for late events, or when they close with new events."""
        panes, has_fired, takes_events = self.panes, states.on_time > 0, states.closed_by_firing == 0
        at_first_end = takes_events & ended & ~has_fired
        if panes.at_end is not None:
            at_first_end &= sizes >= panes.at_end.value
        has_reason = (final & (fresh > 0)) | self._fired_by_trigger(panes.late, states, fresh) | revised
        again = takes_events & ended & has_fired & has_reason
        return at_first_end, again

    def _fired_by_trigger(
        self, trigger: PaneTrigger | None, states: PaneStates, fresh: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Returns a mask of the windows that a trigger fires now. Windows that a firing has closed do not fire."""
        if trigger is None:
            return np.zeros(len(states), np.bool_)
        advanced = np.where(states.mark > NONE, self.moment.watermark - states.mark, 0)
        windows = OpenWindows(fresh, self.moment.clock - states.clock, advanced, states.firings)
        fired: NDArray[np.bool_] = (states.closed_by_firing == 0) & fires(trigger, windows)
        return fired

    def passed_before(self, ends: NDArray[np.int64], closed_at_arrival: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns a mask of the ends that the watermark had passed when an event came; ``closed_at_arrival``: for
        each end, the time up to which windows were closed when the event came."""
        if self.moment.lateness is None:
            return np.zeros(len(ends), np.bool_)
        passed: NDArray[np.bool_] = (closed_at_arrival > NONE) & (closed_at_arrival >= ends - self.moment.lateness)
        return passed

    def states(self) -> PaneStates:
        """Returns the states of the windows that stay open."""
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


def _match_equal(windows: PaneStates, before: PaneStates) -> NDArray[np.int64]:
    """Returns, for each window of an earlier evaluation, the index of the same open window; -1 if it is not open."""
    count = len(windows)
    keys, starts, ends, is_before = _concatenated(windows, before)
    order = np.lexsort((is_before, ends, starts, keys))  # an earlier window is directly behind the same open window
    owners = np.full(len(before), -1, np.int64)
    earlier_at = np.flatnonzero(order >= count)
    candidates, earlier = order[earlier_at - 1], order[earlier_at] - count
    is_equal = (earlier_at > 0) & (candidates < count)
    owner, earlier = candidates[is_equal], earlier[is_equal]
    is_equal = (windows.key[owner] == before.key[earlier]) & (windows.start[owner] == before.start[earlier])
    is_equal &= windows.end[owner] == before.end[earlier]
    owners[earlier[is_equal]] = owner[is_equal]
    return owners


def _match_covered(windows: PaneStates, before: PaneStates) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Returns, for each window of an earlier evaluation, the index of the open window that covers it, or -1. Also
    returns a mask of the open windows that overlap, but do not cover, an earlier window that has fired. Open windows of
    a key do not overlap."""
    order = np.lexsort((windows.start, windows.key))
    keys, starts, ends, is_before = _concatenated(windows, before)
    # The open windows that overlap an earlier window: from the first that ends after its start, to the last that
    # starts before its end. At equal times the open window comes first among ends, and last among starts.
    is_open = is_before == 0
    low = _count_open_before(np.lexsort((is_before, np.where(is_open, ends, starts), keys)), len(windows))
    high = _count_open_before(np.lexsort((-is_before, np.where(is_open, starts, ends), keys)), len(windows))
    owner = order[np.minimum(low, len(order) - 1)]
    covers = (high == low + 1) & (windows.start[owner] <= before.start) & (before.end <= windows.end[owner])
    split_windows = np.flatnonzero(~covers & (before.firings > 0))
    steps = np.zeros(len(order) + 1, np.int64)
    np.add.at(steps, low[split_windows], 1)
    np.add.at(steps, high[split_windows], -1)
    split = np.zeros(len(order), np.bool_)
    split[order] = np.cumsum(steps[:-1]) > 0
    return np.where(covers, owner, -1), split


def _count_open_before(order: NDArray[np.intp], count: int) -> NDArray[np.int64]:
    """Returns, for each earlier window, the number of open windows that ``order`` lists before it.

    ``order``: indices of open windows, which are less than ``count``, and of earlier windows.
    """
    counts = np.empty(len(order) - count, np.int64)
    earlier_at = np.flatnonzero(order >= count)
    counts[order[earlier_at] - count] = np.cumsum(order < count)[earlier_at]
    return counts


def _concatenated(windows: PaneStates, before: PaneStates) -> tuple[NDArray[np.int64], ...]:
    """Returns the keys, starts and ends of open windows, then of earlier windows; and 0 for open, 1 for earlier
    windows."""
    columns = [np.concatenate([getattr(windows, name), getattr(before, name)]) for name in ("key", "start", "end")]
    return (*columns, np.repeat([0, 1], [len(windows), len(before)]))


# Expired events (ST-21).


_NO_KEY = 0


class LastFired:
    """The last fired window of each key of a task, to find the events that expire with the next one.

    ``events``: all events of the task, including those that are retained only for this purpose; windows refer to them
    by index.
    """

    def __init__(self, events: RetainedEvents, streams: Sequence[str]) -> None:
        self._events, self.stream_names = events, tuple(streams)
        self._in_last_window = (
            np.zeros(len(events), np.bool_) if events.in_last_window is None else events.in_last_window.copy()
        )
        indices = np.flatnonzero(self._in_last_window)
        last_events = events.keys_and_times(indices)
        order = last_events.order()
        self._members = indices if order is None else indices[order]
        keys = np.full(len(indices), _NO_KEY, np.int64) if events.keys is None else events.keys[self._members]
        heads = np.flatnonzero(np.diff(keys)) + 1
        self._starts = np.concatenate([[0], heads, [len(keys)]]) if len(keys) else np.zeros(1, np.int64)
        # Events may be stored in another order than that of hashes.
        run_keys = keys[self._starts[:-1]]
        self._by_key = np.argsort(run_keys, kind="stable")
        self._keys = run_keys[self._by_key]
        self._fired: dict[int, NDArray[np.int64]] = {}

    def expired_before(self, members: NDArray[np.int64], key: int | None = None) -> NDArray[np.int64]:
        """Returns the indices of the events in the last window of a key that are not in a new window with these
        members; the new window becomes the last one. ``key``: the hash of the key; None: that of the members."""
        if key is None:
            key = _NO_KEY if self._events.keys is None else int(self._events.keys[members[0]])
        before = self._fired.get(key)
        if before is None:
            before = self._members_before(key)
            self._in_last_window[before] = False
        self._fired[key] = members
        return before[~np.isin(before, members)] if len(before) else before

    def flags(self) -> NDArray[np.bool_]:
        """Returns a mask of the events that are now in the last fired window of their key."""
        in_last = self._in_last_window.copy()
        for members in self._fired.values():
            in_last[members] = True
        return in_last

    def _members_before(self, key: int) -> NDArray[np.int64]:
        index = int(np.searchsorted(self._keys, key))
        if index == len(self._keys) or self._keys[index] != key:
            return np.zeros(0, np.int64)
        run = int(self._by_key[index])
        return self._members[self._starts[run] : self._starts[run + 1]]

    # -- the source of expired events

    def table(self, members: Members) -> pa.Table:
        """Returns the payload of the events at these indices."""
        return take_rows(self._payload, np.asarray(members, np.int64))

    def timestamps(self, members: Members) -> NDArray[np.int64]:
        """Returns the times of the events in microseconds."""
        return self._events.times[np.asarray(members, np.int64)]

    def streams(self, members: Members) -> NDArray[np.int8]:
        """Returns the stream codes of the events."""
        codes = self._events.streams
        indices = np.asarray(members, np.int64)
        return np.zeros(len(indices), np.int8) if codes is None else codes[indices]

    @cached_property
    def _payload(self) -> pa.Table:
        return self._events.payload.combine_chunks()


# Windows that have fired exactly at the limit of an evaluation, the last end that it evaluates.
#
# A lifetime that begins, or is cut, exactly at a limit ends a window there when the limit has been reached (SI-4,
# SI-29). So windows that end at the last limit are evaluated again, without those that have fired.


_AT_LIMIT_TYPE = np.dtype([("kind", np.int64), ("key", np.int64), ("end", np.int64)])


@dataclass
class FiredAtLimit:
    """The windows that ended exactly at the limit of the last evaluation, and fired then: for each the kind, the code
    of its key, and its end in microseconds; at most one per kind and key."""

    rows: NDArray[np.void]

    @staticmethod
    def of(table: pa.Table | None) -> FiredAtLimit:
        """Returns the stored windows; empty for None."""
        if table is None:
            return FiredAtLimit(np.zeros(0, _AT_LIMIT_TYPE))
        kinds, keys, ends = (table.column(name).to_numpy() for name in _AT_LIMIT_TYPE.names or ())
        return FiredAtLimit(_at_limit_rows(kinds, keys, ends))

    def table(self) -> pa.Table:
        """Returns the windows as a table, to be stored."""
        return pa.table({name: self.rows[name] for name in _AT_LIMIT_TYPE.names or ()})

    def __len__(self) -> int:
        return len(self.rows)

    def holds(self, kind: int, keys: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns a mask of the windows of one kind that have fired at the last limit."""
        return np.isin(_at_limit_rows(kind, keys, ends), self.rows)

    def add(self, kind: int, keys: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        """Record windows of one kind; they replace earlier windows of their keys."""
        order = np.lexsort((ends, keys))
        last_of_key = order[np.append(keys[order][1:] != keys[order][:-1], True)] if len(order) else order
        replaced = (self.rows["kind"] == kind) & np.isin(self.rows["key"], keys)
        self.rows = np.concatenate([self.rows[~replaced], _at_limit_rows(kind, keys[last_of_key], ends[last_of_key])])

    def keep(self, keys: NDArray[np.int64]) -> None:
        """Remove the windows of all other keys; ``keys``: those with live events."""
        self.rows = self.rows[np.isin(self.rows["key"], keys)]


def _at_limit_rows(kind: int | NDArray[np.int64], keys: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.void]:
    rows = np.zeros(len(keys), _AT_LIMIT_TYPE)
    rows["kind"], rows["key"], rows["end"] = kind, keys, ends
    return rows


# Windows that a firing has closed before their end.


_CLOSED_TYPE = np.dtype([("kind", np.int64), ("key", np.int64), ("start", np.int64), ("end", np.int64)])


class ClosedEarly:
    """The windows of a task that a firing has closed before their end (``closes=True``)."""

    def __init__(self, states: PaneStates, assigners: Sequence[WindowAssigner]) -> None:
        closed = states.take(np.flatnonzero(states.closed_by_firing))
        self._assigners, self._windows = (
            tuple(assigners),
            _closed_rows(closed.kind, closed.key, closed.start, closed.end),
        )

    def windows_closed(
        self, times: NDArray[np.int64], keys: NDArray[np.int64] | None, closed_until: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Returns a mask of the events all of whose windows have closed, at least one of them by a firing.

        ``closed_until``: the time up to which windows were closed when each event came. Times are in microseconds, keys
        are hashes.
        """
        if not len(self._windows) or not len(times):
            return np.zeros(len(times), np.bool_)
        no_columns = pa.table({"place": pa.nulls(len(times))})
        events = SortedEvents(
            RetainedEvents(times=times, payload=no_columns, keys=keys, closed_until=np.array(closed_until)), ()
        )
        has_open, has_closed = np.zeros(len(times), np.bool_), np.zeros(len(times), np.bool_)
        for kind, assigner in enumerate(self._assigners):
            for windows in assigner.assign(events.live, NONE, FOREVER):
                key_hashes = events.key_hashes(windows.members[windows.offsets[:-1]])
                closed = np.isin(_closed_rows(kind, key_hashes, windows.starts, windows.ends), self._windows)
                by_member = np.repeat(closed, np.diff(windows.offsets))
                has_closed[windows.members[by_member]] = True
                has_open[windows.members[~by_member]] = True
        return events.in_given_order(has_closed & ~has_open)


def _closed_rows(
    kind: int | NDArray[np.int64], key: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.void]:
    rows = np.zeros(len(key), _CLOSED_TYPE)
    rows["kind"], rows["key"], rows["start"], rows["end"] = kind, key, start, end
    return rows
