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
from manager.keyed.retained_events import ACCOUNTED, NOT_LIVE, RetainedEvents, SortedEvents
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
        last: tuple[LastFired, NDArray[np.int64]] | None = None,
        timed: bool = True,
    ) -> None:
        """``task``: the index of the task among the bolt's tasks. ``several_kinds``: True if the bolt has several kinds
        of windows, so that ``window.kind`` is set. ``timed``: True if windows have a start. ``last``: the last windows
        of each key, and the index of each event there; None if the bolt does not read expired events."""
        self._events, self._task, self._several_kinds, self._last = events, task, several_kinds, last
        self._timed = timed

    def of(
        self,
        piece: WindowMembers,
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
        events, members, task, last = self._events, piece.members, self._task, self._last
        fresh = events.account_new(members)
        source = GatheredEvents(events, members)
        if keys is None and events.keyed:
            keys = events.keys_of(members[piece.offsets[:-1]] if firsts is None else firsts)
        news = np.diff(np.concatenate([[0], np.cumsum(fresh)])[piece.offsets]).tolist()
        offsets = piece.offsets.tolist()
        key = ident = fired_by = pane = expired = expired_from = None
        shown_kind = kind if self._several_kinds else None
        starts = piece.starts.tolist() if self._timed else [None] * len(piece)
        for index, (start, end) in enumerate(zip(starts, piece.ends.tolist(), strict=True)):
            low, high = offsets[index], offsets[index + 1]
            run = range(low, high)
            new: Members = run
            if news[index] < high - low:
                new = low + np.flatnonzero(fresh[low:high]) if news[index] else range(low, low)
            if last is not None:
                expired_from, places = last
                key_hash = None if hashes is None else int(hashes[index])
                expired = expired_from.expired_before(places[events.places(members[low:high])], key_hash)
            if keys is not None:
                key = keys[index]
            if causes is not None:
                fired_by = causes[index]
            if panes is not None:
                pane, ident = panes[index]
            # Arguments are positional because keywords take twice the time, which matters for many small windows.
            yield TupleWindow(
                source, run, new, expired, start, end, task, expired_from, key, shown_kind, ident, fired_by, pane
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
            places = self._events.places(self._members)
            payload = self._events.payload
            consecutive = len(places) and bool((np.diff(places) == 1).all())
            self._payload = payload.slice(int(places[0]), len(places)) if consecutive else take_rows(payload, places)
        return self._payload


def _pick(members: NDArray[np.int64], which: range | NDArray[np.int64]) -> NDArray[np.int64]:
    return members[which.start : which.stop] if isinstance(which, range) else members[which]


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
    an event, and not after ``limit`` (microseconds), the time that has been reached. Other empty windows cost no time,
    however many there are.
    """

    def __init__(
        self, grid: GridWindows, until: int, known: KnownKeys, limit: int, listed: NDArray[np.int64] | None = None
    ) -> None:
        """``known``: the known keys, which are updated. ``listed``: the hashes of the keys that the user lists, which
        are never forgotten."""
        self._grid, self._until, self._known, self._limit = grid, until, known, limit
        self._listed = np.zeros(0, np.int64) if listed is None else listed

    def add_to(self, pieces: Iterable[WindowMembers], events: SortedEvents, after: int) -> Iterator[KeyedWindows]:
        """Yields the windows of the pieces, and between them the empty windows that end after ``after`` (microseconds).

        ``pieces``: the result of the grid's ``assign`` for these events.
        """
        known = self._known
        for piece in pieces:
            firsts = piece.members[piece.offsets[:-1]]
            hashes = events.key_hashes(firsts)
            new = known.unknown(hashes)
            known.add(hashes[new], events.key_rows(firsts[new], known.columns))
            keys, high = known.indices(hashes), int(piece.ends[-1])
            yield from self._with_empty(piece, keys, after, high)
            known.fired(keys, piece.ends)
            after = high
        yield from self._with_empty(_NO_WINDOWS, np.zeros(0, np.int64), after, self._limit)
        known.keep((self._next_ends() <= known.ends + self._until) | np.isin(known.hashes, self._listed))

    def next_end(self) -> int | None:
        """Returns the end of the next empty window if no event comes, in microseconds; None if there is none."""
        ends = self._next_ends()
        ends = ends[ends <= self._known.ends + self._until]
        return int(ends.min()) if len(ends) else None

    def _next_ends(self) -> NDArray[np.int64]:
        return self._grid.next_ends(np.maximum(self._known.ends, self._limit))

    def _with_empty(
        self, piece: WindowMembers, places: NDArray[np.int64], low: int, high: int
    ) -> Iterator[KeyedWindows]:
        """Yields the windows of a piece, and the empty windows with low < end <= high; ``places``: the index of each
        window's key among the known keys."""
        keys, begins, stops = self._gaps(piece, places, low, high)
        done = 0
        while True:
            # Only ends within a gap between windows with events are computed.
            firsts = self._grid.next_ends(begins)
            within = firsts <= stops
            if not within.any():
                break
            keys, begins, stops, firsts = keys[within], begins[within], stops[within], firsts[within]
            start = int(firsts.min())
            ends = self._grid.ends_between(start - 1, min(int(stops.max()), start + self._until))
            ends = ends[: max(1, MAX_MEMBERS_PER_PIECE // len(keys))]
            lows = np.searchsorted(ends, begins, side="right")
            gap, nth_in_gap = expand_counts(np.searchsorted(ends, stops, side="right") - lows)
            upto = int(np.searchsorted(piece.ends, ends[-1], side="right"))
            yield self._merged(piece, places, (done, upto), ends[lows[gap] + nth_in_gap], keys[gap])
            done, begins = upto, np.maximum(begins, ends[-1])
        if done < len(piece):
            none = np.zeros(0, np.int64)
            yield self._merged(piece, places, (done, len(piece)), none, none)

    def _gaps(
        self, piece: WindowMembers, places: NDArray[np.int64], low: int, high: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Returns the gaps after windows with events: the key, the end of the window before the gap, and the greatest
        end of an empty window in the gap."""
        known = self._known
        keys = np.concatenate([np.arange(len(known)), places])
        # A listed key has no empty windows before its first moment.
        ends = np.concatenate([known.ends, np.maximum(piece.ends, known.ends[places])])
        order = np.lexsort((ends, keys))
        keys, ends = keys[order], ends[order]
        following = np.append(ends[1:] - 1, high)
        following[:-1][keys[1:] != keys[:-1]] = high
        begins, stops = np.maximum(ends, low), np.minimum(np.minimum(ends + self._until, following), high)
        some = (begins < stops) & (ends > NONE)
        return keys[some], begins[some], stops[some]

    def _merged(
        self,
        piece: WindowMembers,
        places: NDArray[np.int64],
        piece_range: tuple[int, int],
        empty_ends: NDArray[np.int64],
        empty_places: NDArray[np.int64],
    ) -> KeyedWindows:
        """Merge a range of the windows of a piece with empty windows."""
        low, high = piece_range
        ends = np.concatenate([piece.ends[low:high], empty_ends])
        keys = np.concatenate([places[low:high], empty_places])
        order = np.lexsort((keys, ends))
        starts = np.concatenate([piece.starts[low:high], self._grid.starts_of(empty_ends)])
        sizes = np.concatenate([np.diff(piece.offsets[low : high + 1]), np.zeros(len(empty_ends), np.int64)])
        members = piece.members[piece.offsets[low] : piece.offsets[high]]
        offsets = np.concatenate([[0], np.cumsum(sizes[order])])
        keys = keys[order]
        windows = WindowMembers(starts[order], ends[order], offsets, members)
        return KeyedWindows(windows, self._known.hashes[keys], self._known.values(keys))


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
        released: FiredAtLimit | None = None,
        last: tuple[LastFired, NDArray[np.int64]] | None = None,
        sums: RunSums | None = None,
        traced: bool = False,
        latest: int = -FOREVER,
    ) -> None:
        """``streams``: the names of the input streams. ``keys``: the key columns of each; empty without a key.
        ``task``: the index of the task among the bolt's tasks. ``sums``: set if rows are partial aggregates, not
        events. ``traced``: True if TupleWindows are needed for windows of partial aggregates too.

        ``released``: the windows that fired at the last limit, which are updated. ``last``: as for ``TupleWindows``.
        ``latest``: see ``LiveEvents``.
        """
        self.released = FiredAtLimit.of(None) if released is None else released
        self.assigners = tuple(assigners)
        self._sums, self._traced = sums, traced
        needs_sides = any(assigner.needs_sides for assigner in self.assigners)
        self._events = SortedEvents(events, streams, keys, needs_sides=needs_sides, latest=latest)
        self._tuple_windows = TupleWindows(
            self._events, task, several_kinds=len(self.assigners) > 1, last=last,
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
        return Span(after, upto).at(self._events.places(np.arange(len(self._events))))

    def windows(self, span: Span) -> Iterator[TupleWindow]:
        """Yields the due windows in order of (end, start, key)."""
        if not len(self._events):
            return
        for kind, piece in self._pieces(span):
            yield from self._tuple_windows.of(piece, kind)
        self._finish(span)

    def fired_sums(self, span: Span, sums: RunSums) -> Iterator[FiredSums]:
        """Yields the due windows in pieces, if rows are partial aggregates."""
        if not len(self._events):
            return
        for kind, piece in self._pieces(span):
            yield self._fired_sums(sums, piece, kind)
        self._finish(span)

    def _fired_sums(
        self, sums: RunSums, piece: WindowMembers, kind: int, made: Iterator[TupleWindow] | None = None
    ) -> FiredSums:
        """Returns windows of one kind whose rows are partial aggregates, and counts their events as windowed. ``made``:
        the TupleWindows of these windows, if they are needed."""
        alone = sums.assigner.windows_per_event == 1
        fresh = ~self._events.accounted[piece.members] if alone else self._events.unaccounted(piece.members)
        if made is None and self._traced:
            made = self._tuple_windows.of(piece, kind)
        windows = None if made is None else list(made)  # making a TupleWindow counts its events
        if windows is None:
            self._events.mark_accounted(piece.members[fresh])
        return FiredSums(sums, self._events, piece, fresh, windows)

    def windows_and_empty(self, span: Span, empty: EmptyWindows) -> Iterator[TupleWindow]:
        """Yields the due windows in order of (end, start, key), and between them windows without events."""
        assert isinstance(span.after, int)
        (assigner,) = self.assigners
        pieces = assigner.assign(self._events.live, span.after, span.upto)
        for piece in empty.add_to(pieces, self._events, span.after):
            yield from self._tuple_windows.of(piece.windows, keys=piece.keys, hashes=piece.hashes)
        self._finish(span)

    def account_only(self, span: Span) -> None:
        """Update the state of events as ``windows`` does, without making windows."""
        if not len(self._events):
            return
        for _, piece in self._pieces(span):
            self._events.account_new(piece.members)
        self._finish(span)

    def _finish(self, span: Span) -> None:
        self._finished = self._finished_at(span.upto)
        if len(self.released):
            self.released.keep(self._events.key_hashes(np.flatnonzero(~self._finished)))
        self._events.mark_unwindowed(self._finished)
        for assigner in self.assigners:
            skipped = assigner.skipped(self._events.live, span.upto)
            if skipped is not None:
                self._events.mark_unwindowed(skipped)

    def _finished_at(self, upto: Limit) -> NDArray[np.bool_]:
        """Returns a mask, in sorted order, of the events that windows with an end after the limit do not need."""
        finished = np.ones(len(self._events), np.bool_)
        for assigner in self.assigners:
            finished &= assigner.finished(self._events.live, upto)
        return finished

    def panes(self, span: Span, decisions: PaneDecisions) -> Iterator[TupleWindow | FiredSums]:
        """Yields all due firings, early and late ones included, in order of (kind, end, start, key)."""
        if not len(self._events):
            return
        for kind, assigner in enumerate(self.assigners):
            for piece in assigner.assign(self._events.live, span.after, FOREVER):
                yield from self._panes_of(piece, kind, decisions)
        self._finish(span)

    def _panes_of(self, piece: WindowMembers, kind: int, decisions: PaneDecisions) -> Iterator[TupleWindow | FiredSums]:
        """Yields the due firings of open windows of one kind."""
        events = self._events
        merging = self.assigners[kind].merges
        firsts = piece.members[piece.offsets[:-1]]
        keys = events.key_hashes(firsts)
        windows = decisions.match(kind, keys, piece.starts, piece.ends, merging)
        # If each event is in one window only, an event that has been in a window is not new to its window.
        in_one_window = merging or self._sums is not None
        fresh = ~events.accounted[piece.members] if in_one_window else self._new_to_window(piece, windows.states)
        stand_for = events.sizes(piece.members)
        counts, sizes = (np.add.reduceat(each, piece.offsets[:-1]) for each in (fresh * stand_for, stand_for))
        came = events.live.closed_until
        closed_at_opening = grown = None
        if came is not None:
            closed_at_opening = np.minimum.reduceat(came[piece.members], piece.offsets[:-1])
            if merging:
                grew_at = np.minimum.reduceat(np.where(fresh, came[piece.members], FOREVER), piece.offsets[:-1])
                grown = ~decisions.passed_before(piece.ends, grew_at)
        fires, panes = decisions.decide(windows, counts, sizes, closed_at_opening, grown)
        firing = _select_windows(piece, fires, fresh if decisions.panes.mode is PaneMode.DISCARDING else None)
        fired = zip(keys[fires].tolist(), firing.starts.tolist(), firing.ends.tolist(), strict=True)
        idents = [(kind, *window) for window in fired]
        made = self._tuple_windows.of(firing, kind, firsts[fires], panes=list(zip(panes, idents, strict=True)))
        if self._sums is None:
            yield from made
        else:
            yield self._fired_sums(self._sums, firing, kind, made)

    def _new_to_window(self, piece: WindowMembers, states: PaneStates) -> NDArray[np.bool_]:
        """Returns a mask of the members that are new to their window since its last firing."""
        assert self._events.evaluation is not None
        shown = np.repeat(states.shown, np.diff(piece.offsets))
        fresh: NDArray[np.bool_] = self._events.evaluation[piece.members] > shown
        return fresh

    def finished(self, upto: Limit, kind: int) -> NDArray[np.bool_]:
        """Returns a mask of the events that no window of a kind which ends after the limit needs, in the order of the
        given events."""
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
        pieces = (piece for assigner in self.assigners for piece in assigner.ended_by_idleness(live, span.upto))
        return sorted({end for piece in pieces for end in np.unique(piece.ends).tolist() if end < FOREVER})

    def open_windows(self, span: Span) -> Iterator[tuple[int, WindowMembers]]:
        """Yields the open windows that hold events, with the index of their kind; members are indices of the given
        events."""
        if not len(self._events):
            return
        for kind, assigner in enumerate(self.assigners):
            for piece in assigner.open(self._events.live, span.upto):
                yield kind, replace(piece, members=self._events.places(piece.members))

    def flags(self) -> NDArray[np.uint8]:
        """Returns the flags (ACCOUNTED, NOT_LIVE) of each event, in the order of the given events."""
        flags = self._events.accounted * np.uint8(ACCOUNTED) + self._finished * np.uint8(NOT_LIVE)
        return self._events.in_given_order(flags)

    def _pieces(self, span: Span) -> Iterator[tuple[int, WindowMembers]]:
        if len(self.assigners) == 1:
            yield from ((0, piece) for piece in self._assigned(0, span))
            return
        # Windows of several kinds are merged in order of their ends: successive windows of a piece form a new piece.
        pieces = [(kind, piece) for kind in range(len(self.assigners)) for piece in self._assigned(kind, span)]
        if not pieces:
            return
        sizes = [len(piece) for _, piece in pieces]
        places, within = expand_counts(np.array(sizes))
        ends = np.concatenate([piece.ends for _, piece in pieces])
        starts = np.concatenate([piece.starts for _, piece in pieces])
        order = np.lexsort((places, starts, ends))
        places, within = places[order], within[order]
        lows = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1]]))
        for low, stop in zip(lows.tolist(), [*lows[1:].tolist(), len(order)], strict=True):
            kind, piece = pieces[places[low]]
            yield kind, _slice_windows(piece, int(within[low]), int(within[stop - 1]) + 1)

    def _assigned(self, kind: int, span: Span) -> Iterator[WindowMembers]:
        """Yields the due windows of one kind that have not fired at an earlier limit."""
        assigner, live = self.assigners[kind], self._events.live
        if live.ends is None or not assigner.ends_at_limit:
            yield from assigner.assign(live, span.after, span.upto)
            return
        released: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        for assigned in assigner.assign(live, np.maximum(span.after, _LEAST + 1) - 1, span.upto):
            firsts = assigned.members[assigned.offsets[:-1]]
            keys = self._events.key_hashes(firsts)
            already_released = assigned.ends == limit_at(span.after, firsts)
            if already_released.any():
                already_released[already_released] = self.released.holds(
                    kind, keys[already_released], assigned.ends[already_released]
                )
            piece = _select_windows(assigned, ~already_released, None) if already_released.any() else assigned
            keys, firsts = keys[~already_released], firsts[~already_released]
            limits = limit_at(span.upto, firsts)
            at_limit = (piece.ends == limits) | (limits == FOREVER)
            released.append((keys[at_limit], piece.ends[at_limit]))
            if len(piece):
                yield piece
        for keys, ends in released:
            self.released.add(kind, keys, ends)


def _slice_windows(piece: WindowMembers, low: int, high: int) -> WindowMembers:
    """Returns the windows from index ``low`` to ``high``, exclusive."""
    offsets = piece.offsets[low : high + 1]
    members = piece.members[offsets[0] : offsets[-1]]
    return WindowMembers(piece.starts[low:high], piece.ends[low:high], offsets - offsets[0], members)


def _select_windows(piece: WindowMembers, fires: NDArray[np.bool_], shown: NDArray[np.bool_] | None) -> WindowMembers:
    """Returns the windows in the mask ``fires``, with all members, or with those in the mask ``shown``."""
    if shown is None:
        return piece.filter(fires)
    kept = np.repeat(fires, np.diff(piece.offsets)) & shown
    sizes = np.add.reduceat(shown.astype(np.int64), piece.offsets[:-1])
    offsets = np.concatenate([[0], np.cumsum(sizes[fires])])
    return WindowMembers(piece.starts[fires], piece.ends[fires], offsets, piece.members[kept])
