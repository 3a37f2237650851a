"""Evaluates assigned windows, which are not runs of a queue: from live events to TupleWindows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.accounts import Accounts
from manager.keyed.held import GONE, SEEN, Held
from manager.keyed.last_windows import LastWindows
from manager.keyed.panes import PaneDecisions, WindowStates
from manager.keyed.released import ReleasedEnds
from manager.storage.taking import take_rows
from policies.assigners import Assigned, Live, SessionWindows, WindowAssigner
from policies.assigners.assigner import limit_at
from windowing.data.order import group_numbers
from windowing.settings.panes import PaneMode
from windowing.time.timestamps import FOREVER
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.assigners.assigner import Limit

_LEAST = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Span:
    """The range of window ends to evaluate, after < end <= upto, in microseconds: scalars, or one value per event."""

    after: Limit
    upto: Limit

    def at(self, indices: NDArray[np.int64]) -> Span:
        """The span of the events at these indices."""
        return Span(_of(self.after, indices), _of(self.upto, indices))


class AssignedWindows:
    """Evaluates the windows of one task's live events, in order, and tracks the state of each event.

    Usable on its own: give it all events that may still be in a window, then iterate over ``windows``. Afterwards
    ``flags`` says, in the order of the given events, which have been in a window and which are no longer needed.
    """

    def __init__(
        self,
        assigners: Sequence[WindowAssigner],
        events: Held,
        streams: Sequence[str] = ("default",),
        *,
        keys: Sequence[Sequence[str]] = (),
        task: int = 0,
        released: ReleasedEnds | None = None,
        last: tuple[LastWindows, NDArray[np.int64]] | None = None,
    ) -> None:
        """``streams`` names the input streams, ``keys`` the columns of the key of each; none for no key. ``task`` is
        the index of the bolt's task.

        ``released`` are the windows released at the last limit; ``windows`` updates it. ``last`` knows the windows
        fired before these, with the indices of the events there; None where the bolt does not ask for expired events.
        """
        self.released = ReleasedEnds.of(None) if released is None else released
        self._last = last
        self.assigners, self.stream_names, self._keys, self.task = (
            tuple(assigners),
            tuple(streams),
            tuple(map(tuple, keys)),
            task,
        )
        self.accounts = Accounts(streams)
        self._order = events.order()
        self._events = events
        self._hashes, self._evaluation = self._take(events.keys), self._take(events.evaluation)
        codes = None if self._hashes is None else group_numbers(self._hashes)
        times, ends, closed, gaps = map(self._take, (events.times, events.ends, events.closed, events.gaps))
        self._sorted = Live(times, codes, ends, closed, gaps)
        count = len(events)
        self._seen = np.zeros(count, np.bool_) if events.seen is None else self._take(events.seen).copy()
        self._finished = np.zeros(count, np.bool_)

    def __len__(self) -> int:
        return len(self._events)

    @property
    def live(self) -> Live:
        """The events as assigners see them: sorted by (key, time)."""
        return self._sorted

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Which events, in the order of ``live``, have been in a window."""
        return self._seen

    def span_of(self, after: Limit, upto: Limit) -> Span:
        """A span from limits in the order of the given events."""
        order = np.arange(len(self._events)) if self._order is None else self._order
        return Span(after, upto).at(order)

    def windows(self, span: Span) -> Iterator[TupleWindow]:
        """Yield the due windows in order of (end, start, key)."""
        if not len(self._events):
            return
        for kind, piece in self._pieces(span):
            yield from self.show(piece, kind)
        self._finish(span)

    def _finish(self, span: Span) -> None:
        finished = np.ones(len(self._events), np.bool_)
        for assigner in self.assigners:
            finished &= assigner.finished(self._sorted, span.upto)
        self._finished = finished
        if len(self.released):
            keys = np.zeros(len(finished), np.int64) if self._hashes is None else self._hashes
            self.released.keep(keys[~finished])
        self.count("unwindowed", finished & ~self._seen)

    def panes(self, span: Span, decisions: PaneDecisions) -> Iterator[TupleWindow]:
        """Yield all due firings, early and late ones included, in order of (kind, end, start, key)."""
        if not len(self._events):
            return
        for kind, assigner in enumerate(self.assigners):
            merging = isinstance(assigner, SessionWindows)
            for piece in assigner.assign(self._sorted, span.after, FOREVER):
                firsts = piece.members[piece.offsets[:-1]]
                keys = np.zeros(len(piece), np.int64) if self._hashes is None else self._hashes[firsts]
                states = decisions.remembered(kind, keys, piece.starts, piece.ends, merging)
                # An event is in one session only: one that has been in a window was shown.
                fresh = ~self._seen[piece.members] if merging else self._fresh(piece, states)
                counts = np.add.reduceat(fresh.astype(np.int64), piece.offsets[:-1])
                fires, panes = decisions.decide(states, counts)
                shown = fresh if decisions.panes.mode is PaneMode.DISCARDING else None
                chosen = _chosen(piece, fires, shown)
                idents = zip(keys[fires].tolist(), chosen.starts.tolist(), chosen.ends.tolist(), strict=True)
                for window, pane, ident in zip(self.show(chosen, kind, firsts[fires]), panes, idents, strict=True):
                    window.pane, window.ident = pane, (kind, *ident)
                    yield window
        self._finish(span)

    def _fresh(self, piece: Assigned, states: WindowStates) -> NDArray[np.bool_]:
        """Which members are new to their window since its last firing."""
        assert self._evaluation is not None
        shown = np.repeat(states.shown, np.diff(piece.offsets))
        fresh: NDArray[np.bool_] = self._evaluation[piece.members] > shown
        return fresh

    def finished(self, upto: Limit) -> NDArray[np.bool_]:
        """Which events, in the order given, no window that ends after the limit can need."""
        unneeded = np.ones(len(self._events), np.bool_)
        for assigner in self.assigners:
            unneeded &= assigner.finished(self._sorted, upto)
        if self._order is None:
            return unneeded
        unsorted = np.empty(len(unneeded), np.bool_)
        unsorted[self._order] = unneeded
        return unsorted

    def next_end(self, span: Span) -> int | None:
        """The end of the next window, given the present events, in microseconds; None where no window is open."""
        if not len(self._events):
            return None
        ends = [assigner.next_end(self._sorted, span.upto) for assigner in self.assigners]
        return min((end for end in ends if end is not None), default=None)

    def open_ends(self, span: Span) -> list[int]:
        """The ends, in microseconds and sorted, of the windows that hold events and are not due yet."""
        if not len(self._events):
            return []
        pieces = (piece for assigner in self.assigners for piece in assigner.assign(self._sorted, span.upto, FOREVER))
        return sorted({end for piece in pieces for end in np.unique(piece.ends).tolist() if end < FOREVER})

    def flags(self) -> NDArray[np.uint8]:
        """The flags (SEEN, GONE) of each event, in the order given."""
        flags = self._seen * np.uint8(SEEN) + self._finished * np.uint8(GONE)
        if self._order is None:
            return flags
        unsorted = np.empty(len(flags), np.uint8)
        unsorted[self._order] = flags
        return unsorted

    def _pieces(self, span: Span) -> Iterator[tuple[int, Assigned]]:
        if len(self.assigners) == 1:
            yield from ((0, piece) for piece in self._assigned(0, span))
            return
        # Windows of several kinds are ordered by their ends, one by one.
        windows = [
            (kind, piece, index)
            for kind in range(len(self.assigners))
            for piece in self._assigned(kind, span)
            for index in range(len(piece))
        ]
        for kind, piece, index in sorted(
            windows, key=lambda window: (int(window[1].ends[window[2]]), int(window[1].starts[window[2]]), window[0])
        ):
            yield kind, _one(piece, index)

    def _assigned(self, kind: int, span: Span) -> Iterator[Assigned]:
        """Yield the due windows of one kind that have not been released yet."""
        assigner, live = self.assigners[kind], self._sorted
        if live.ends is None or not assigner.ends_at_limit:
            yield from assigner.assign(live, span.after, span.upto)
            return
        released: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        for assigned in assigner.assign(live, np.maximum(span.after, _LEAST + 1) - 1, span.upto):
            firsts = assigned.members[assigned.offsets[:-1]]
            keys = np.zeros(len(assigned), np.int64) if self._hashes is None else self._hashes[firsts]
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

    def show(self, piece: Assigned, kind: int = 0, firsts: NDArray[np.int64] | None = None) -> Iterator[TupleWindow]:
        """Yield the windows of a piece. ``firsts`` is an event of each window, where a window may show none of its
        own."""
        members = piece.members
        fresh = ~self._seen[members]
        if fresh.any():
            first = np.zeros(len(members), np.bool_)
            first[np.unique(members, return_index=True)[1]] = True
            fresh &= first
            now = np.zeros(len(self._seen), np.bool_)
            now[members[fresh]] = True
            self.count("windowed", now)
            self._seen |= now
        gathered = GatheredEvents(self, members)
        keys = self.keys_of(members[piece.offsets[:-1]] if firsts is None else firsts) if any(self._keys) else None
        several = len(self.assigners) > 1
        news = np.concatenate([[0], np.cumsum(fresh)])
        offsets = piece.offsets.tolist()
        for index, (start, end) in enumerate(zip(piece.starts.tolist(), piece.ends.tolist(), strict=True)):
            low, high = offsets[index], offsets[index + 1]
            fresh_here = int(news[high] - news[low])
            if fresh_here == high - low:
                new: range | NDArray[np.int64] = range(low, high)
            else:
                new = low + np.flatnonzero(fresh[low:high]) if fresh_here else range(low, low)
            window = TupleWindow(gathered, range(low, high), new, None, start, end, self.task)
            if self._last is not None:
                follows, places = self._last
                window.expire(follows, follows.follow(places[self.positions(members[low:high])]))
            if keys is not None:
                window.key = keys[index]
            if several:
                window.kind = kind
            yield window

    def count(self, account: str, which: NDArray[np.bool_]) -> None:
        """Add events to an account; ``which`` is a mask in the order of ``live``."""
        streams = self._events.streams
        if streams is None:
            counts = np.zeros(len(self.stream_names), np.int64)
            counts[0] = np.count_nonzero(which)
        else:
            counts = np.bincount(self._take(streams)[which], minlength=len(self.stream_names))
        self.accounts.add(account, counts)

    def _take(self, column: NDArray[Any] | None) -> Any:
        return column if column is None or self._order is None else column[self._order]

    @cached_property
    def payload(self) -> pa.Table:
        """The payload of the events as given, with contiguous columns; combined once for all windows."""
        return self._events.payload.combine_chunks()

    def keys_of(self, members: NDArray[np.int64]) -> list[Any]:
        """The keys of these live events: a value where the key is one column, else a tuple of values."""
        if len(set(self._keys)) == 1:
            return self._keys_by(self._keys[0], members)
        found: list[Any] = [None] * len(members)
        codes = self._codes_of(members)
        for code in np.unique(codes).tolist():
            here = np.flatnonzero(codes == code)
            for place, key in zip(here.tolist(), self._keys_by(self._keys[code], members[here]), strict=True):
                found[place] = key
        return found

    def _keys_by(self, names: Sequence[str], members: NDArray[np.int64]) -> list[Any]:
        chosen = self.payload.select(list(names))
        columns = [column.to_pylist() for column in take_rows(chosen, self.positions(members)).columns]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def _codes_of(self, members: NDArray[np.int64]) -> NDArray[np.int8]:
        """Of which stream each of these live events is."""
        codes = self._events.streams
        return np.zeros(len(members), np.int8) if codes is None else codes[self.positions(members)]

    def streams_of(self, members: NDArray[np.int64]) -> list[str]:
        """The names of the streams of these live events."""
        return [self.stream_names[code] for code in self._codes_of(members).tolist()]

    def positions(self, members: NDArray[np.int64]) -> NDArray[np.int64]:
        """The indices, among the events as given, of members of a window."""
        return members if self._order is None else self._order[members]


class GatheredEvents:
    """The events of some windows, window by window: what their TupleWindows read."""

    def __init__(self, windows: AssignedWindows, members: NDArray[np.int64]) -> None:
        self._windows, self._members = windows, members
        self._payload: pa.Table | None = None

    @property
    def stream_names(self) -> Sequence[str]:
        return self._windows.stream_names

    def table(self, members: range | NDArray[np.int64]) -> pa.Table:
        payload = self._gathered()
        if isinstance(members, range):
            return payload.slice(members.start, len(members))
        return take_rows(payload, members)

    def timestamps(self, members: range | NDArray[np.int64]) -> NDArray[np.int64]:
        starts: NDArray[np.int64] = self._windows.live.starts[_pick(self._members, members)]
        return starts

    def ends(self, members: range | NDArray[np.int64]) -> NDArray[np.int64] | None:
        ends = self._windows.live.ends
        return None if ends is None else ends[_pick(self._members, members)]

    def streams(self, members: range | NDArray[np.int64]) -> NDArray[np.int8]:
        streams = self._windows._events.streams
        if streams is None:
            return np.zeros(len(members), np.int8)
        return streams[self._windows.positions(_pick(self._members, members))]

    def _gathered(self) -> pa.Table:
        if self._payload is None:
            places = self._windows.positions(self._members)
            payload = self._windows.payload
            run = len(places) and bool((np.diff(places) == 1).all())
            self._payload = payload.slice(int(places[0]), len(places)) if run else take_rows(payload, places)
        return self._payload


def _one(piece: Assigned, index: int) -> Assigned:
    low, high = int(piece.offsets[index]), int(piece.offsets[index + 1])
    return Assigned(
        piece.starts[index : index + 1],
        piece.ends[index : index + 1],
        np.array([0, high - low]),
        piece.members[low:high],
    )


def _chosen(piece: Assigned, fires: NDArray[np.bool_], shown: NDArray[np.bool_] | None) -> Assigned:
    """The windows that fire, with all of their events, or with those in ``shown``."""
    sizes = np.diff(piece.offsets)
    kept = np.repeat(fires, sizes)
    if shown is not None:
        kept &= shown
        sizes = np.add.reduceat(shown.astype(np.int64), piece.offsets[:-1])
    offsets = np.concatenate([[0], np.cumsum(sizes[fires])])
    return Assigned(piece.starts[fires], piece.ends[fires], offsets, piece.members[kept])


def _pick(members: NDArray[np.int64], which: range | NDArray[np.int64]) -> NDArray[np.int64]:
    return members[which.start : which.stop] if isinstance(which, range) else members[which]


def _of(limit: Limit, indices: NDArray[np.int64]) -> Limit:
    return limit if isinstance(limit, (int, np.integer)) else limit[indices]
