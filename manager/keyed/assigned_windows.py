"""Evaluates assigned windows, which are not runs of a queue: from retained events to TupleWindows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.accounts import Accounts
from manager.keyed.fired_windows import LastFired, PaneDecisions, PaneStates, ReleasedEnds
from manager.keyed.key_states import KnownKeys
from manager.keyed.retained_events import ACCOUNTED, NOT_LIVE, RetainedEvents, SortedEvents
from manager.keyed.run_sums import FiredSums, RunSums
from policies.assigners import GridWindows, WindowAssigner, WindowMembers
from policies.assigners.aligned import MOST, expand_counts, limit_at
from policies.watermarks import NONE
from windowing.columns import take_rows
from windowing.settings.panes import Pane, PaneMode
from windowing.settings.triggers import FiredBy
from windowing.timestamps import FOREVER
from windowing.window import Ident, Members, TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.assigners.aligned import Limit


# Makes TupleWindows of assigned windows; their events are gathered once, for many windows together.


class TupleWindows:
    """Makes the windows that one task fires, and marks their events as accounted."""

    def __init__(
        self,
        events: SortedEvents,
        task: int = 0,
        *,
        several_kinds: bool = False,
        last: tuple[LastFired, NDArray[np.int64]] | None = None,
        timed: bool = True,
    ) -> None:
        """``task`` is the index of the bolt's task. ``several_kinds``: True if the bolt has several kinds of windows,
        and each window gets its kind. ``timed``: True if windows have a start. ``last`` knows the windows fired before
        these, and the indices of the events in them; None if the bolt does not ask for expired events."""
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
        """Yield the windows of a piece. ``firsts`` is an event of each window, for windows that may show none of their
        own.

        ``panes`` and ``causes`` have a value for each window: its pane, and what fired it. ``keys`` and ``hashes`` are
        the key of each window and its hash, if some windows have no event from which to read the key.
        """
        events, members, task, last = self._events, piece.members, self._task, self._last
        fresh = events.fresh(members)
        source = GatheredEvents(events, members)
        if keys is None and events.keyed:
            keys = events.keys_of(members[piece.offsets[:-1]] if firsts is None else firsts)
        news = np.diff(np.concatenate([[0], np.cumsum(fresh)])[piece.offsets]).tolist()
        offsets = piece.offsets.tolist()
        key = ident = fired_by = pane = expired = expired_from = None
        kind_told = kind if self._several_kinds else None
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
                expired = expired_from.follow(places[events.places(members[low:high])], key_hash)
            if keys is not None:
                key = keys[index]
            if causes is not None:
                fired_by = causes[index]
            if panes is not None:
                pane, ident = panes[index]
            # By position, since there may be very many windows of few events, and keywords double what one costs.
            yield TupleWindow(
                source, run, new, expired, start, end, task, expired_from, key, kind_told, ident, fired_by, pane
            )


class GatheredEvents:
    """The events of some windows, window by window, for their TupleWindows."""

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
            run = len(places) and bool((np.diff(places) == 1).all())
            self._payload = payload.slice(int(places[0]), len(places)) if run else take_rows(payload, places)
        return self._payload


def _pick(members: NDArray[np.int64], which: range | NDArray[np.int64]) -> NDArray[np.int64]:
    return members[which.start : which.stop] if isinstance(which, range) else members[which]


# Windows without events: which of them fire, and their order among windows with events (decision 46).


_NO_WINDOWS = WindowMembers(*(np.zeros(count, np.int64) for count in (0, 0, 1, 0)))


@dataclass(frozen=True)
class KeyedWindows:
    """Windows in order of (end, key), some of them without events."""

    windows: WindowMembers
    hashes: NDArray[np.int64]
    """The hash of the key of each window."""
    keys: list[Any]
    """The key of each window."""


class EmptyWindows:
    """Adds windows without events to the windows of known keys.

    A window without events fires if it ends at most ``until`` (microseconds) after the last window of its key that held
    an event, and no later than ``limit`` (microseconds), the time reached. Others are never listed, however far time
    advances.
    """

    def __init__(
        self, grid: GridWindows, until: int, known: KnownKeys, limit: int, listed: NDArray[np.int64] | None = None
    ) -> None:
        """``known`` is updated. ``listed``: the hashes of the keys that a user lists. They are not forgotten, however
        long they are silent, or their windows would begin once more."""
        self._grid, self._until, self._known, self._limit = grid, until, known, limit
        self._listed = np.zeros(0, np.int64) if listed is None else listed

    def among(self, pieces: Iterable[WindowMembers], events: SortedEvents, after: int) -> Iterator[KeyedWindows]:
        """Yield the windows of the pieces together with the empty ones that end after ``after`` (microseconds).

        The pieces come from the grid's ``assign``, called with these events.
        """
        known = self._known
        for piece in pieces:
            firsts = piece.members[piece.offsets[:-1]]
            hashes = events.key_hashes(firsts)
            new = known.unknown(hashes)
            known.add(hashes[new], events.key_rows(firsts[new], known.columns))
            keys, high = known.indices(hashes), int(piece.ends[-1])
            yield from self._merged(piece, keys, after, high)
            known.fired(keys, piece.ends)
            after = high
        yield from self._merged(_NO_WINDOWS, np.zeros(0, np.int64), after, self._limit)
        known.keep((self._next_ends() <= known.ends + self._until) | np.isin(known.hashes, self._listed))

    def next_end(self) -> int | None:
        """Returns the end of the next empty window if no event comes, in microseconds; None if there will be none."""
        ends = self._next_ends()
        ends = ends[ends <= self._known.ends + self._until]
        return int(ends.min()) if len(ends) else None

    def _next_ends(self) -> NDArray[np.int64]:
        return self._grid.next_ends(np.maximum(self._known.ends, self._limit))

    def _merged(self, piece: WindowMembers, places: NDArray[np.int64], low: int, high: int) -> Iterator[KeyedWindows]:
        """Yield the windows of a piece, of the keys at these places, and the empty ones with low < end <= high."""
        keys, begins, stops = self._gaps(piece, places, low, high)
        done = 0
        while True:
            # Only ends within a gap are listed, from the first one on.
            firsts = self._grid.next_ends(begins)
            within = firsts <= stops
            if not within.any():
                break
            keys, begins, stops, firsts = keys[within], begins[within], stops[within], firsts[within]
            start = int(firsts.min())
            ends = self._grid.ends_between(start - 1, min(int(stops.max()), start + self._until))
            ends = ends[: max(1, MOST // len(keys))]
            lows = np.searchsorted(ends, begins, side="right")
            gap, further = expand_counts(np.searchsorted(ends, stops, side="right") - lows)
            upto = int(np.searchsorted(piece.ends, ends[-1], side="right"))
            yield self._together(piece, places, (done, upto), ends[lows[gap] + further], keys[gap])
            done, begins = upto, np.maximum(begins, ends[-1])
        if done < len(piece):
            none = np.zeros(0, np.int64)
            yield self._together(piece, places, (done, len(piece)), none, none)

    def _gaps(
        self, piece: WindowMembers, places: NDArray[np.int64], low: int, high: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """After each window with events: its key, its end, and the last time at which an empty window may end before
        the next one."""
        known = self._known
        keys = np.concatenate([np.arange(len(known)), places])
        # Windows of a listed key that end before it is there are followed by none without events.
        ends = np.concatenate([known.ends, np.maximum(piece.ends, known.ends[places])])
        order = np.lexsort((ends, keys))
        keys, ends = keys[order], ends[order]
        following = np.append(ends[1:] - 1, high)
        following[:-1][keys[1:] != keys[:-1]] = high
        begins, stops = np.maximum(ends, low), np.minimum(np.minimum(ends + self._until, following), high)
        some = (begins < stops) & (ends > NONE)
        return keys[some], begins[some], stops[some]

    def _together(
        self,
        piece: WindowMembers,
        places: NDArray[np.int64],
        run: tuple[int, int],
        empty_ends: NDArray[np.int64],
        empty_places: NDArray[np.int64],
    ) -> KeyedWindows:
        """Merge a run of windows with some that are empty."""
        low, high = run
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


# Evaluates assigned windows, which are not runs of a queue: from live events to TupleWindows.


_LEAST = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Span:
    """The range of window ends to evaluate, after < end <= upto, in microseconds: scalars, or one value per event."""

    after: Limit
    upto: Limit

    def at(self, indices: NDArray[np.int64]) -> Span:
        """Returns the span of the events at these indices."""
        return Span(limit_at(self.after, indices), limit_at(self.upto, indices))


class AssignedWindows:
    """Evaluates the windows of one task's live events, in order, and tracks the state of each event.

    It can be used alone. Give it all events that may still be in a window, then iterate over ``windows``. Afterwards
    ``flags`` tells, in the order of the given events, which have been in a window and which are no longer needed.
    """

    def __init__(
        self,
        assigners: Sequence[WindowAssigner],
        events: RetainedEvents,
        streams: Sequence[str] = ("default",),
        *,
        keys: Sequence[Sequence[str]] = (),
        task: int = 0,
        released: ReleasedEnds | None = None,
        last: tuple[LastFired, NDArray[np.int64]] | None = None,
        sums: RunSums | None = None,
        watched: bool = False,
    ) -> None:
        """``streams`` names the input streams, ``keys`` the columns of the key of each; empty for no key. ``task`` is
        the index of the bolt's task. ``sums``: the folding of events into rows with partial results; None if rows are
        events. ``watched``: True if each window that is joined from such rows is asked for.

        ``released`` are the windows released at the last limit; ``windows`` updates it. ``last`` knows the windows
        fired before these, and the indices of the events in them; None if the bolt does not ask for expired events.
        """
        self.released = ReleasedEnds.of(None) if released is None else released
        self.assigners = tuple(assigners)
        self._sums, self._watched = sums, watched
        needs_sides = any(assigner.needs_sides for assigner in self.assigners)
        self._events = SortedEvents(events, streams, keys, needs_sides=needs_sides)
        self._tuple_windows = TupleWindows(
            self._events, task, several_kinds=len(self.assigners) > 1, last=last,
            timed=all(assigner.ends_by_time for assigner in self.assigners),
        )  # fmt: skip
        self._finished = np.zeros(len(events), np.bool_)

    def __len__(self) -> int:
        return len(self._events)

    @property
    def accounts(self) -> Accounts:
        """The counts of events that were in a window, or are in none."""
        return self._events.accounts

    def span_of(self, after: Limit, upto: Limit) -> Span:
        """Returns a span from limits in the order of the given events."""
        return Span(after, upto).at(self._events.places(np.arange(len(self._events))))

    def windows(self, span: Span) -> Iterator[TupleWindow]:
        """Yield the due windows in order of (end, start, key)."""
        if not len(self._events):
            return
        for kind, piece in self._pieces(span):
            yield from self._tuple_windows.of(piece, kind)
        self._finish(span)

    def joined(self, span: Span, sums: RunSums) -> Iterator[FiredSums]:
        """Yields the windows in pieces, if the events are rows with partial results."""
        if not len(self._events):
            return
        for kind, piece in self._pieces(span):
            yield self._summed(sums, piece, kind)
        self._finish(span)

    def _summed(
        self, sums: RunSums, piece: WindowMembers, kind: int, made: Iterator[TupleWindow] | None = None
    ) -> FiredSums:
        """Windows of one kind that are joined from partial results. ``made``: the same windows one by one, if they are
        known."""
        alone = sums.assigner.windows_per_event == 1
        fresh = ~self._events.accounted[piece.members] if alone else self._events.unaccounted(piece.members)
        if made is None and self._watched:
            made = self._tuple_windows.of(piece, kind)
        windows = None if made is None else list(made)  # which mark their events as accounted
        if windows is None:
            self._events.mark_accounted(piece.members[fresh])
        return FiredSums(sums, self._events, piece, fresh, windows)

    def windows_and_empty(self, span: Span, empty: EmptyWindows) -> Iterator[TupleWindow]:
        """Yield the due windows in order of (end, start, key), and between them those without events."""
        assert isinstance(span.after, int)
        (assigner,) = self.assigners
        pieces = assigner.assign(self._events.live, span.after, span.upto)
        for piece in empty.among(pieces, self._events, span.after):
            yield from self._tuple_windows.of(piece.windows, keys=piece.keys, hashes=piece.hashes)
        self._finish(span)

    def pass_over(self, span: Span) -> None:
        """Let the due windows pass without making them: events are then accounted and finished as after ``windows``."""
        if not len(self._events):
            return
        for _, piece in self._pieces(span):
            self._events.fresh(piece.members)
        self._finish(span)

    def _finish(self, span: Span) -> None:
        self._finished = self._finished_at(span.upto)
        if len(self.released):
            self.released.keep(self._events.key_hashes(np.flatnonzero(~self._finished)))
        self._events.leave_out(self._finished)
        for assigner in self.assigners:
            skipped = assigner.skipped(self._events.live, span.upto)
            if skipped is not None:
                self._events.leave_out(skipped)

    def _finished_at(self, upto: Limit) -> NDArray[np.bool_]:
        """Returns which events, in the order of the assigners, no window that ends after the limit can need."""
        finished = np.ones(len(self._events), np.bool_)
        for assigner in self.assigners:
            finished &= assigner.finished(self._events.live, upto)
        return finished

    def panes(self, span: Span, decisions: PaneDecisions) -> Iterator[TupleWindow | FiredSums]:
        """Yield all due firings, early and late ones included, in order of (kind, end, start, key)."""
        if not len(self._events):
            return
        for kind, assigner in enumerate(self.assigners):
            for piece in assigner.assign(self._events.live, span.after, FOREVER):
                yield from self._panes_of(piece, kind, decisions)
        self._finish(span)

    def _panes_of(self, piece: WindowMembers, kind: int, decisions: PaneDecisions) -> Iterator[TupleWindow | FiredSums]:
        """Yield the due firings of the open windows of one kind."""
        events = self._events
        merging = self.assigners[kind].merges
        firsts = piece.members[piece.offsets[:-1]]
        keys = events.key_hashes(firsts)
        windows = decisions.remembered(kind, keys, piece.starts, piece.ends, merging)
        # An event is in one session only, and in one window of those that are joined from sums and fire more than once:
        # one that has been in a window was shown.
        alone = merging or self._sums is not None
        fresh = ~events.accounted[piece.members] if alone else self._fresh(piece, windows.states)
        stand_for = events.sizes(piece.members)
        counts, sizes = (np.add.reduceat(each, piece.offsets[:-1]) for each in (fresh * stand_for, stand_for))
        came = events.live.closed_until
        opened_at = grown = None
        if came is not None:
            opened_at = np.minimum.reduceat(came[piece.members], piece.offsets[:-1])
            if merging:
                grew_at = np.minimum.reduceat(np.where(fresh, came[piece.members], FOREVER), piece.offsets[:-1])
                grown = ~decisions.passed_before(piece.ends, grew_at)
        fires, panes = decisions.decide(windows, counts, sizes, opened_at, grown)
        chosen = _chosen(piece, fires, fresh if decisions.panes.mode is PaneMode.DISCARDING else None)
        fired = zip(keys[fires].tolist(), chosen.starts.tolist(), chosen.ends.tolist(), strict=True)
        idents = [(kind, *window) for window in fired]
        made = self._tuple_windows.of(chosen, kind, firsts[fires], panes=list(zip(panes, idents, strict=True)))
        if self._sums is None:
            yield from made
        else:
            yield self._summed(self._sums, chosen, kind, made)

    def _fresh(self, piece: WindowMembers, states: PaneStates) -> NDArray[np.bool_]:
        """Returns which members are new to their window since its last firing."""
        assert self._events.evaluation is not None
        shown = np.repeat(states.shown, np.diff(piece.offsets))
        fresh: NDArray[np.bool_] = self._events.evaluation[piece.members] > shown
        return fresh

    def finished(self, upto: Limit, kind: int) -> NDArray[np.bool_]:
        """Returns which events, in the order given, no window of a kind that ends after the limit can need."""
        return self._events.as_given(self.assigners[kind].finished(self._events.live, upto))

    def next_end(self, span: Span) -> int | None:
        """Returns the end of the next window, given the present events, in microseconds; None if no window is open."""
        if not len(self._events):
            return None
        ends = [assigner.next_end(self._events.live, span.upto) for assigner in self.assigners]
        return min((end for end in ends if end is not None), default=None)

    def next_finished(self, span: Span) -> int | None:
        """Returns a time in microseconds before which none of the present events will be finished; None if there is
        none."""
        if not len(self._events):
            return None
        moments = [assigner.next_finished(self._events.live, span.upto) for assigner in self.assigners]
        return min((moment for moment in moments if moment is not None), default=None)

    def open_ends(self, span: Span) -> list[int]:
        """Returns the ends, in microseconds and sorted, of the windows that are not due yet and that an idle timeout
        closes."""
        if not len(self._events):
            return []
        live = self._events.live
        pieces = (piece for assigner in self.assigners for piece in assigner.ended_by_idleness(live, span.upto))
        return sorted({end for piece in pieces for end in np.unique(piece.ends).tolist() if end < FOREVER})

    def open_windows(self, span: Span) -> Iterator[tuple[int, WindowMembers]]:
        """Yield the windows that hold events and are not due yet, with the index of their kind. Their members are
        indices of the events in the order given."""
        if not len(self._events):
            return
        for kind, assigner in enumerate(self.assigners):
            for piece in assigner.open(self._events.live, span.upto):
                yield kind, replace(piece, members=self._events.places(piece.members))

    def flags(self) -> NDArray[np.uint8]:
        """Returns the flags (ACCOUNTED, NOT_LIVE) of each event, in the order given."""
        return self._events.as_given(self._events.accounted * np.uint8(ACCOUNTED) + self._finished * np.uint8(NOT_LIVE))

    def _pieces(self, span: Span) -> Iterator[tuple[int, WindowMembers]]:
        if len(self.assigners) == 1:
            yield from ((0, piece) for piece in self._assigned(0, span))
            return
        # Windows of several kinds are ordered by their ends: runs of those of one piece.
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
            yield kind, _part(piece, int(within[low]), int(within[stop - 1]) + 1)

    def _assigned(self, kind: int, span: Span) -> Iterator[WindowMembers]:
        """Yield the due windows of one kind that have not been released yet."""
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
            piece = _chosen(assigned, ~already_released, None) if already_released.any() else assigned
            keys, firsts = keys[~already_released], firsts[~already_released]
            limits = limit_at(span.upto, firsts)
            at_limit = (piece.ends == limits) | (limits == FOREVER)
            released.append((keys[at_limit], piece.ends[at_limit]))
            if len(piece):
                yield piece
        for keys, ends in released:
            self.released.add(kind, keys, ends)


def _part(piece: WindowMembers, low: int, high: int) -> WindowMembers:
    """Returns the windows from one index up to, not including, another."""
    offsets = piece.offsets[low : high + 1]
    members = piece.members[offsets[0] : offsets[-1]]
    return WindowMembers(piece.starts[low:high], piece.ends[low:high], offsets - offsets[0], members)


def _chosen(piece: WindowMembers, fires: NDArray[np.bool_], shown: NDArray[np.bool_] | None) -> WindowMembers:
    """Returns the windows that fire, with all of their events, or with the events in ``shown``."""
    if shown is None:
        return piece.filter(fires)
    kept = np.repeat(fires, np.diff(piece.offsets)) & shown
    sizes = np.add.reduceat(shown.astype(np.int64), piece.offsets[:-1])
    offsets = np.concatenate([[0], np.cumsum(sizes[fires])])
    return WindowMembers(piece.starts[fires], piece.ends[fires], offsets, piece.members[kept])
