"""Evaluation of the windows that assigners form, from retained events to TupleWindows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.accounts import Accounts
from manager.keyed.fired_windows import FiredAtLimit, LastFired, PaneDecisions, PaneStates
from manager.keyed.key_states import KnownKeys
from manager.keyed.retained_events import ACCOUNTED, FINISHED, RetainedEvents, SortedEvents
from manager.keyed.run_sums import FiredSums, RunSums
from policies.assigners import GridWindows, WindowAssigner, WindowMembers
from policies.assigners.aligned import MAX_MEMBERS_PER_PIECE, expand_counts, limit_at
from policies.watermarks import NONE
from windowing.columns import take_rows
from windowing.settings.panes import Pane, PaneMode
from windowing.settings.triggers import FiredBy
from windowing.timestamps import FOREVER
from windowing.window import Ident, Members, TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.assigners.aligned import Limit


class TupleWindows:
    """Makes the TupleWindows of one task, and counts their events as windowed."""

    def __init__(
        self,
        events: SortedEvents,
        task: int = 0,
        *,
        several_kinds: bool = False,
        last_fired: tuple[LastFired, NDArray[np.int64]] | None = None,
        timed: bool = True,
    ) -> None:
        """``task``: the index of the task among the bolt's tasks. ``several_kinds``: True if the bolt has several kinds
        of windows, so that ``window.kind`` is set. ``timed``: True if windows have a start. ``last_fired``: the last
        windows of each key, and the index of each event there; None if the bolt does not read expired events."""
        self._events, self._task, self._several_kinds, self._last_fired = events, task, several_kinds, last_fired
        self._timed = timed

    def make(
        self,
        windows: WindowMembers,
        kind: int = 0,
        firsts: NDArray[np.int64] | None = None,
        *,
        panes: Sequence[tuple[Pane, Ident]] | None = None,
        causes: Sequence[FiredBy] | None = None,
        keys: Sequence[Any] | None = None,
        hashes: NDArray[np.int64] | None = None,
    ) -> Iterator[TupleWindow]:
        """Yields a TupleWindow for each window of a piece.

        ``panes`` and ``causes``: the pane and the reason for firing of each window. ``firsts``: an event of the key of
        each window, if a window may have no members. ``keys`` and ``hashes``: the key of each window and its hash, if
        a window may have no event at all.
        """
        events, members, task, last_fired = self._events, windows.members, self._task, self._last_fired
        fresh = events.account_new(members)
        source = GatheredEvents(events, members)
        if keys is None and events.keyed:
            keys = events.keys_of(members[windows.offsets[:-1]] if firsts is None else firsts)
        new_counts = np.diff(np.concatenate([[0], np.cumsum(fresh)])[windows.offsets]).tolist()
        offsets = windows.offsets.tolist()
        key = ident = fired_by = pane = expired = last_windows = None
        shown_kind = kind if self._several_kinds else None
        starts = windows.starts.tolist() if self._timed else [None] * len(windows)
        for index, (start, end) in enumerate(zip(starts, windows.ends.tolist(), strict=True)):
            low, high = offsets[index], offsets[index + 1]
            member_range = range(low, high)
            new_members: Members = member_range
            if new_counts[index] < high - low:
                new_members = low + np.flatnonzero(fresh[low:high]) if new_counts[index] else range(low, low)
            if last_fired is not None:
                last_windows, last_indices = last_fired
                key_hash = None if hashes is None else int(hashes[index])
                expired = last_windows.expired_before(last_indices[events.row_indices(members[low:high])], key_hash)
            if keys is not None:
                key = keys[index]
            if causes is not None:
                fired_by = causes[index]
            if panes is not None:
                pane, ident = panes[index]
            # Arguments are positional because keywords take twice the time, which matters for many small windows.
            yield TupleWindow(
                source,
                member_range,
                new_members,
                expired,
                start,
                end,
                task,
                last_windows,
                key,
                shown_kind,
                ident,
                fired_by,
                pane,
            )


class GatheredEvents:
    """The source of TupleWindows: the events of several windows, window by window."""

    def __init__(self, events: SortedEvents, members: NDArray[np.int64]) -> None:
        self._events, self._members = events, members
        self._payload: pa.Table | None = None

    def __len__(self) -> int:
        return len(self._members)

    @property
    def stream_names(self) -> Sequence[str]:
        return self._events.stream_names

    def table(self, members: range | NDArray[np.int64]) -> pa.Table:
        payload = self._gathered()
        if isinstance(members, range):
            return payload.slice(members.start, len(members))
        return take_rows(payload, members)

    def timestamps(self, members: range | NDArray[np.int64]) -> NDArray[np.int64]:
        starts: NDArray[np.int64] = self._events.live.starts[_pick(self._members, members)]
        return starts

    def lifetime_ends(self, members: range | NDArray[np.int64]) -> NDArray[np.int64] | None:
        ends = self._events.live.ends
        return None if ends is None else ends[_pick(self._members, members)]

    def streams(self, members: range | NDArray[np.int64]) -> NDArray[np.int8]:
        return self._events.stream_codes(_pick(self._members, members))

    def _gathered(self) -> pa.Table:
        if self._payload is None:
            row_indices = self._events.row_indices(self._members)
            payload = self._events.payload
            consecutive = len(row_indices) and bool((np.diff(row_indices) == 1).all())
            self._payload = (
                payload.slice(int(row_indices[0]), len(row_indices)) if consecutive else take_rows(payload, row_indices)
            )
        return self._payload


def _pick(members: NDArray[np.int64], chosen: range | NDArray[np.int64]) -> NDArray[np.int64]:
    return members[chosen.start : chosen.stop] if isinstance(chosen, range) else members[chosen]


# Windows without events (decision 46).


_NO_WINDOWS = WindowMembers(*(np.zeros(count, np.int64) for count in (0, 0, 1, 0)))


@dataclass(frozen=True)
class KeyedWindows:
    """Windows in order of (end, key); a window may be without events."""

    windows: WindowMembers
    hashes: NDArray[np.int64]
    """The hash of the key of each window."""
    keys: list[Any]
    """The key of each window."""


class EmptyWindows:
    """Adds windows without events to the windows of known keys.

    A window without events fires if it ends at most ``until`` (microseconds) after the last window of its key that held
    an event, and at or before ``limit`` (microseconds), the time that the evaluation has reached. Other empty windows
    cost no time, however many there are.
    """

    def __init__(
        self, grid: GridWindows, until: int, known_keys: KnownKeys, limit: int, listed: NDArray[np.int64] | None = None
    ) -> None:
        """``known_keys``: the known keys, which are updated. ``listed``: the hashes of the keys that the user lists,
        which are never forgotten."""
        self._grid, self._until, self._known_keys, self._limit = grid, until, known_keys, limit
        self._listed = np.zeros(0, np.int64) if listed is None else listed

    def add_to(self, formed: Iterable[WindowMembers], events: SortedEvents, after: int) -> Iterator[KeyedWindows]:
        """Yields the windows ``formed``, and between them the empty windows that end after ``after`` (microseconds).

        ``formed``: the result of the grid's ``assign`` for these events.
        """
        known_keys = self._known_keys
        for windows in formed:
            firsts = windows.members[windows.offsets[:-1]]
            hashes = events.key_hashes(firsts)
            new_indices = known_keys.indices_of_new(hashes)
            known_keys.add(hashes[new_indices], events.key_rows(firsts[new_indices], known_keys.columns))
            key_indices, high = known_keys.indices(hashes), int(windows.ends[-1])
            yield from self._with_empty(windows, key_indices, after, high)
            known_keys.record_fired(key_indices, windows.ends)
            after = high
        yield from self._with_empty(_NO_WINDOWS, np.zeros(0, np.int64), after, self._limit)
        known_keys.keep((self._next_ends() <= known_keys.ends + self._until) | np.isin(known_keys.hashes, self._listed))

    def next_end(self) -> int | None:
        """Returns the end of the next empty window if no event comes, in microseconds; None if there is none."""
        ends = self._next_ends()
        ends = ends[ends <= self._known_keys.ends + self._until]
        return int(ends.min()) if len(ends) else None

    def _next_ends(self) -> NDArray[np.int64]:
        return self._grid.next_ends(np.maximum(self._known_keys.ends, self._limit))

    def _with_empty(
        self, windows: WindowMembers, key_indices: NDArray[np.int64], low: int, high: int
    ) -> Iterator[KeyedWindows]:
        """Yields these windows, and the empty windows with low < end <= high; ``key_indices``: the index of
        each window's key among the known keys."""
        keys, gap_starts, gap_stops = self._gaps(windows, key_indices, low, high)
        merged = 0
        while True:
            # Only ends within a gap between windows with events are computed.
            next_ends = self._grid.next_ends(gap_starts)
            has_end = next_ends <= gap_stops
            if not has_end.any():
                break
            keys, gap_starts, gap_stops, next_ends = (
                keys[has_end],
                gap_starts[has_end],
                gap_stops[has_end],
                next_ends[has_end],
            )
            start = int(next_ends.min())
            ends = self._grid.ends_between(start - 1, min(int(gap_stops.max()), start + self._until))
            ends = ends[: max(1, MAX_MEMBERS_PER_PIECE // len(keys))]
            lows = np.searchsorted(ends, gap_starts, side="right")
            gap, nth_in_gap = expand_counts(np.searchsorted(ends, gap_stops, side="right") - lows)
            merged_stop = int(np.searchsorted(windows.ends, ends[-1], side="right"))
            yield self._merged(windows, key_indices, (merged, merged_stop), ends[lows[gap] + nth_in_gap], keys[gap])
            merged, gap_starts = merged_stop, np.maximum(gap_starts, ends[-1])
        if merged < len(windows):
            no_values = np.zeros(0, np.int64)
            yield self._merged(windows, key_indices, (merged, len(windows)), no_values, no_values)

    def _gaps(
        self, windows: WindowMembers, key_indices: NDArray[np.int64], low: int, high: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Returns the gaps after windows with events: the key, the end of the window before the gap, and the greatest
        end of an empty window in the gap."""
        known_keys = self._known_keys
        keys = np.concatenate([np.arange(len(known_keys)), key_indices])
        # A listed key has no empty windows before its first moment.
        ends = np.concatenate([known_keys.ends, np.maximum(windows.ends, known_keys.ends[key_indices])])
        order = np.lexsort((ends, keys))
        keys, ends = keys[order], ends[order]
        latest_stops = np.append(ends[1:] - 1, high)
        latest_stops[:-1][keys[1:] != keys[:-1]] = high
        gap_starts, gap_stops = np.maximum(ends, low), np.minimum(np.minimum(ends + self._until, latest_stops), high)
        is_gap = (gap_starts < gap_stops) & (ends > NONE)
        return keys[is_gap], gap_starts[is_gap], gap_stops[is_gap]

    def _merged(
        self,
        windows: WindowMembers,
        key_indices: NDArray[np.int64],
        window_range: tuple[int, int],
        empty_ends: NDArray[np.int64],
        empty_key_indices: NDArray[np.int64],
    ) -> KeyedWindows:
        """Merge a range of the windows with empty windows. ``key_indices`` and ``empty_key_indices``: the indices of
        their keys among the known keys."""
        low, high = window_range
        ends = np.concatenate([windows.ends[low:high], empty_ends])
        merged_indices = np.concatenate([key_indices[low:high], empty_key_indices])
        order = np.lexsort((merged_indices, ends))
        starts = np.concatenate([windows.starts[low:high], self._grid.starts_of(empty_ends)])
        sizes = np.concatenate([np.diff(windows.offsets[low : high + 1]), np.zeros(len(empty_ends), np.int64)])
        members = windows.members[windows.offsets[low] : windows.offsets[high]]
        offsets = np.concatenate([[0], np.cumsum(sizes[order])])
        merged_indices = merged_indices[order]
        merged = WindowMembers(starts[order], ends[order], offsets, members)
        return KeyedWindows(merged, self._known_keys.hashes[merged_indices], self._known_keys.values(merged_indices))


# Evaluation.


_LEAST = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Span:
    """The ends of windows to evaluate, after < end <= upto, in microseconds: scalars, or one value per event."""

    after: Limit
    upto: Limit

    def at(self, indices: NDArray[np.int64]) -> Span:
        """Returns the span of the events at these indices."""
        return Span(limit_at(self.after, indices), limit_at(self.upto, indices))


class AssignedWindows:
    """One evaluation of the windows of a task, in order; it also tracks the state of each event.

    Give it all events that may still be in a window, and iterate over ``windows``. Then ``flags`` returns which events
    have been in a window, and which are no longer needed.
    """

    def __init__(
        self,
        assigners: Sequence[WindowAssigner],
        events: RetainedEvents,
        streams: Sequence[str] = ("default",),
        *,
        keys: Sequence[Sequence[str]] = (),
        task: int = 0,
        fired_at_limit: FiredAtLimit | None = None,
        last_fired: tuple[LastFired, NDArray[np.int64]] | None = None,
        sums: RunSums | None = None,
        traced: bool = False,
        latest: int = -FOREVER,
    ) -> None:
        """``streams``: the names of the input streams. ``keys``: the key columns of each; empty without a key.
        ``task``: the index of the task among the bolt's tasks. ``sums``: set if rows are partial aggregates, not
        events. ``traced``: True if TupleWindows are needed for windows of partial aggregates too.

        ``fired_at_limit``: the windows that fired at the last limit, which are updated. ``last_fired``: as for
        ``TupleWindows``. ``latest``: see ``LiveEvents``.
        """
        self.fired_at_limit = FiredAtLimit.of(None) if fired_at_limit is None else fired_at_limit
        self.assigners = tuple(assigners)
        self._sums, self._traced = sums, traced
        needs_sides = any(assigner.needs_sides for assigner in self.assigners)
        self._events = SortedEvents(events, streams, keys, needs_sides=needs_sides, latest=latest)
        self._tuple_windows = TupleWindows(
            self._events, task, several_kinds=len(self.assigners) > 1, last_fired=last_fired,
            timed=all(assigner.ends_by_time for assigner in self.assigners),
        )  # fmt: skip
        self._finished = np.zeros(len(events), np.bool_)

    def __len__(self) -> int:
        return len(self._events)

    @property
    def accounts(self) -> Accounts:
        """The counts of events that were in a window, or can be in none."""
        return self._events.accounts

    def span_of(self, after: Limit, upto: Limit) -> Span:
        """Returns a span of limits, which may be arrays in the order of the given events."""
        return Span(after, upto).at(self._events.row_indices(np.arange(len(self._events))))

    def windows(self, span: Span) -> Iterator[TupleWindow]:
        """Yields the due windows in order of (end, start, key)."""
        if not len(self._events):
            return
        for kind, windows in self._due_windows(span):
            yield from self._tuple_windows.make(windows, kind)
        self._finish(span)

    def fired_sums(self, span: Span, sums: RunSums) -> Iterator[FiredSums]:
        """Yields the due windows in pieces, if rows are partial aggregates."""
        if not len(self._events):
            return
        for kind, windows in self._due_windows(span):
            yield self._fired_sums(sums, windows, kind)
        self._finish(span)

    def _fired_sums(
        self, sums: RunSums, windows: WindowMembers, kind: int, windows_made: Iterator[TupleWindow] | None = None
    ) -> FiredSums:
        """Returns windows of one kind whose rows are partial aggregates, and counts their events as windowed.
        ``windows_made``: the TupleWindows of these windows, if they are needed."""
        one_window_each = sums.assigner.windows_per_event == 1
        fresh = (
            ~self._events.accounted[windows.members] if one_window_each else self._events.unaccounted(windows.members)
        )
        if windows_made is None and self._traced:
            windows_made = self._tuple_windows.make(windows, kind)
        tuple_windows = None if windows_made is None else list(windows_made)  # making a TupleWindow counts its events
        if tuple_windows is None:
            self._events.mark_accounted(windows.members[fresh])
        return FiredSums(sums, self._events, windows, fresh, tuple_windows)

    def windows_and_empty(self, span: Span, empty: EmptyWindows) -> Iterator[TupleWindow]:
        """Yields the due windows in order of (end, start, key), and between them windows without events."""
        assert isinstance(span.after, int)
        (assigner,) = self.assigners
        formed = assigner.assign(self._events.live, span.after, span.upto)
        for keyed in empty.add_to(formed, self._events, span.after):
            yield from self._tuple_windows.make(keyed.windows, keys=keyed.keys, hashes=keyed.hashes)
        self._finish(span)

    def account_only(self, span: Span) -> None:
        """Update the state of events as ``windows`` does, without making windows."""
        if not len(self._events):
            return
        for _, windows in self._due_windows(span):
            self._events.account_new(windows.members)
        self._finish(span)

    def _finish(self, span: Span) -> None:
        self._finished = self._finished_at(span.upto)
        if len(self.fired_at_limit):
            self.fired_at_limit.keep(self._events.key_hashes(np.flatnonzero(~self._finished)))
        self._events.mark_unwindowed(self._finished)
        for assigner in self.assigners:
            skipped = assigner.skipped(self._events.live, span.upto)
            if skipped is not None:
                self._events.mark_unwindowed(skipped)

    def _finished_at(self, upto: Limit) -> NDArray[np.bool_]:
        """Returns a mask, in sorted order, of the events that no window needs after the limit
        (``WindowAssigner.finished``)."""
        finished = np.ones(len(self._events), np.bool_)
        for assigner in self.assigners:
            finished &= assigner.finished(self._events.live, upto)
        return finished

    def panes(self, span: Span, decisions: PaneDecisions) -> Iterator[TupleWindow | FiredSums]:
        """Yields all due firings, early and late ones included, in order of (kind, end, start, key)."""
        if not len(self._events):
            return
        for kind, assigner in enumerate(self.assigners):
            for windows in assigner.assign(self._events.live, span.after, FOREVER):
                yield from self._panes_of(windows, kind, decisions)
        self._finish(span)

    def _panes_of(
        self, windows: WindowMembers, kind: int, decisions: PaneDecisions
    ) -> Iterator[TupleWindow | FiredSums]:
        """Yields the due firings of open windows of one kind."""
        events = self._events
        merging = self.assigners[kind].merges
        firsts = windows.members[windows.offsets[:-1]]
        keys = events.key_hashes(firsts)
        open_panes = decisions.match(kind, keys, windows.starts, windows.ends, merging)
        # If each event is in one window only, an event that has been in a window is not new to its window.
        in_one_window = merging or self._sums is not None
        fresh = ~events.accounted[windows.members] if in_one_window else self._new_to_window(windows, open_panes.states)
        event_counts = events.sizes(windows.members)
        new_counts, sizes = (
            np.add.reduceat(each, windows.offsets[:-1]) for each in (fresh * event_counts, event_counts)
        )
        closed_at_arrival = events.live.closed_until
        closed_at_opening = grown = None
        if closed_at_arrival is not None:
            closed_at_opening = np.minimum.reduceat(closed_at_arrival[windows.members], windows.offsets[:-1])
            if merging:
                closed_at_growth = np.minimum.reduceat(
                    np.where(fresh, closed_at_arrival[windows.members], FOREVER), windows.offsets[:-1]
                )
                grown = ~decisions.passed_before(windows.ends, closed_at_growth)
        fires, panes = decisions.decide(open_panes, new_counts, sizes, closed_at_opening, grown)
        firing_windows = _select_windows(windows, fires, fresh if decisions.panes.mode is PaneMode.DISCARDING else None)
        key_spans = zip(keys[fires].tolist(), firing_windows.starts.tolist(), firing_windows.ends.tolist(), strict=True)
        idents = [(kind, *window) for window in key_spans]
        tuple_windows = self._tuple_windows.make(
            firing_windows, kind, firsts[fires], panes=list(zip(panes, idents, strict=True))
        )
        if self._sums is None:
            yield from tuple_windows
        else:
            yield self._fired_sums(self._sums, firing_windows, kind, tuple_windows)

    def _new_to_window(self, windows: WindowMembers, states: PaneStates) -> NDArray[np.bool_]:
        """Returns a mask of the members that are new to their window since its last firing."""
        assert self._events.evaluation is not None
        shown_before = np.repeat(states.last_evaluation, np.diff(windows.offsets))
        fresh: NDArray[np.bool_] = self._events.evaluation[windows.members] > shown_before
        return fresh

    def finished(self, upto: Limit, kind: int) -> NDArray[np.bool_]:
        """Returns a mask, in the order of the given events, of the events that the windows of this kind no longer need
        after the limit (``WindowAssigner.finished``)."""
        return self._events.in_given_order(self.assigners[kind].finished(self._events.live, upto))

    def next_end(self, span: Span) -> int | None:
        """Returns the end of the next open window, in microseconds; None if no window is open."""
        if not len(self._events):
            return None
        ends = [assigner.next_end(self._events.live, span.upto) for assigner in self.assigners]
        return min((end for end in ends if end is not None), default=None)

    def next_finished(self, span: Span) -> int | None:
        """Returns the earliest time at which a present event may be finished, in microseconds; None if there is
        none."""
        if not len(self._events):
            return None
        moments = [assigner.next_finished(self._events.live, span.upto) for assigner in self.assigners]
        return min((moment for moment in moments if moment is not None), default=None)

    def open_ends(self, span: Span) -> list[int]:
        """Returns the ends of the open windows that an idle timeout can close, in microseconds, ascending."""
        if not len(self._events):
            return []
        live = self._events.live
        idle = (windows for assigner in self.assigners for windows in assigner.ended_by_idleness(live, span.upto))
        return sorted({end for windows in idle for end in np.unique(windows.ends).tolist() if end < FOREVER})

    def open_windows(self, span: Span) -> Iterator[tuple[int, WindowMembers]]:
        """Yields the open windows that hold events, with the index of their kind; members are indices of the given
        events."""
        if not len(self._events):
            return
        for kind, assigner in enumerate(self.assigners):
            for windows in assigner.open(self._events.live, span.upto):
                yield kind, replace(windows, members=self._events.row_indices(windows.members))

    def flags(self) -> NDArray[np.uint8]:
        """Returns the flags (ACCOUNTED, FINISHED) of each event, in the order of the given events."""
        flags = self._events.accounted * np.uint8(ACCOUNTED) + self._finished * np.uint8(FINISHED)
        return self._events.in_given_order(flags)

    def _due_windows(self, span: Span) -> Iterator[tuple[int, WindowMembers]]:
        if len(self.assigners) == 1:
            yield from ((0, windows) for windows in self._due_windows_of_kind(0, span))
            return
        # Windows of several kinds are merged in order of their ends. Windows that stay next to each other, and are of
        # one piece, are yielded together.
        pieces = [
            (kind, windows) for kind in range(len(self.assigners)) for windows in self._due_windows_of_kind(kind, span)
        ]
        if not pieces:
            return
        sizes = [len(windows) for _, windows in pieces]
        piece_numbers, in_piece = expand_counts(np.array(sizes))
        ends = np.concatenate([windows.ends for _, windows in pieces])
        starts = np.concatenate([windows.starts for _, windows in pieces])
        order = np.lexsort((piece_numbers, starts, ends))
        piece_numbers, in_piece = piece_numbers[order], in_piece[order]
        lows = np.flatnonzero(np.concatenate([[True], piece_numbers[1:] != piece_numbers[:-1]]))
        for low, stop in zip(lows.tolist(), [*lows[1:].tolist(), len(order)], strict=True):
            kind, windows = pieces[piece_numbers[low]]
            yield kind, _slice_windows(windows, int(in_piece[low]), int(in_piece[stop - 1]) + 1)

    def _due_windows_of_kind(self, kind: int, span: Span) -> Iterator[WindowMembers]:
        """Yields the due windows of one kind that have not fired at an earlier limit."""
        assigner, live = self.assigners[kind], self._events.live
        if live.ends is None or not assigner.ends_at_limit:
            yield from assigner.assign(live, span.after, span.upto)
            return
        fired_now: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        for formed in assigner.assign(live, np.maximum(span.after, _LEAST + 1) - 1, span.upto):
            firsts = formed.members[formed.offsets[:-1]]
            keys = self._events.key_hashes(firsts)
            already_fired = formed.ends == limit_at(span.after, firsts)
            if already_fired.any():
                already_fired[already_fired] = self.fired_at_limit.holds(
                    kind, keys[already_fired], formed.ends[already_fired]
                )
            windows = _select_windows(formed, ~already_fired, None) if already_fired.any() else formed
            keys, firsts = keys[~already_fired], firsts[~already_fired]
            limits = limit_at(span.upto, firsts)
            at_limit = (windows.ends == limits) | (limits == FOREVER)
            fired_now.append((keys[at_limit], windows.ends[at_limit]))
            if len(windows):
                yield windows
        for keys, ends in fired_now:
            self.fired_at_limit.add(kind, keys, ends)


def _slice_windows(windows: WindowMembers, low: int, high: int) -> WindowMembers:
    """Returns the windows from index ``low`` to ``high``, exclusive."""
    offsets = windows.offsets[low : high + 1]
    members = windows.members[offsets[0] : offsets[-1]]
    return WindowMembers(windows.starts[low:high], windows.ends[low:high], offsets - offsets[0], members)


def _select_windows(
    windows: WindowMembers, fires: NDArray[np.bool_], shown_members: NDArray[np.bool_] | None
) -> WindowMembers:
    """Returns the windows in the mask ``fires``, with all members, or with those in the mask ``shown_members``."""
    if shown_members is None:
        return windows.filter(fires)
    is_member_kept = np.repeat(fires, np.diff(windows.offsets)) & shown_members
    sizes = np.add.reduceat(shown_members.astype(np.int64), windows.offsets[:-1])
    offsets = np.concatenate([[0], np.cumsum(sizes[fires])])
    return WindowMembers(windows.starts[fires], windows.ends[fires], offsets, windows.members[is_member_kept])
