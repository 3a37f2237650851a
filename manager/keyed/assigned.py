"""Assigned windows: the windows of one task that are not a run of its queue, from live events to TupleWindows."""

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
from manager.storage.taking import taken
from policies.assigners import Assigned, Live, SessionWindows, WindowAssigner
from policies.assigners.assigner import limit_at
from windowing.order import group_numbers
from windowing.panes import PaneMode
from windowing.timestamps import FOREVER
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.assigners.assigner import Limit

_LEAST = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Span:
    """From where to where windows are evaluated: those with after < end <= upto; scalars, or one for each event."""

    after: Limit
    upto: Limit

    def at(self, places: NDArray[np.int64]) -> Span:
        """The same of the events at these places."""
        return Span(_of(self.after, places), _of(self.upto, places))


class AssignedWindows:
    """Evaluates the windows of one task's live events, in order, and says what has become of each event.

    Usable on its own: give it all events that may still be in a window, then iterate over ``windows``; ``flags`` says
    afterwards, in the order of the events given, which have been in a window and which are done with.
    """

    def __init__(
        self,
        assigners: Sequence[WindowAssigner],
        events: Held,
        streams: Sequence[str] = ("default",),
        *,
        key: Sequence[str] = (),
        task: int = 0,
        released: ReleasedEnds | None = None,
        last: tuple[LastWindows, NDArray[np.int64]] | None = None,
    ) -> None:
        """``released``: the windows that came out at the last limit; brought up to date by ``windows``. ``last``: what
        knows the windows fired before these, and the places of the events there."""
        self.released = ReleasedEnds.of(None) if released is None else released
        self._last = last
        self.assigners, self.stream_names, self.key, self.task = tuple(assigners), tuple(streams), tuple(key), task
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
        """The events as assigners see them."""
        return self._sorted

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Which events, in the order of ``live``, have been in a window."""
        return self._seen

    def span_of(self, after: Limit, upto: Limit) -> Span:
        """Limits that are given for the events as they came, in the order of ``live``."""
        order = np.arange(len(self._events)) if self._order is None else self._order
        return Span(after, upto).at(order)

    def windows(self, span: Span) -> Iterator[TupleWindow]:
        """The windows that are due, in order of (end, start, key)."""
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

    def panes(self, span: Span, book: PaneDecisions) -> Iterator[TupleWindow]:
        """All firings that are due, those beside the end of a window too, in order of (kind, end, start, key)."""
        if not len(self._events):
            return
        for kind, assigner in enumerate(self.assigners):
            merging = isinstance(assigner, SessionWindows)
            for piece in assigner.assign(self._sorted, span.after, FOREVER):
                firsts = piece.members[piece.offsets[:-1]]
                keys = np.zeros(len(piece), np.int64) if self._hashes is None else self._hashes[firsts]
                states = book.seen(kind, keys, piece.starts, piece.ends, merging)
                # An event of a session is in no other one: what has been in a window was shown.
                fresh = ~self._seen[piece.members] if merging else self._fresh(piece, states)
                counts = np.add.reduceat(fresh.astype(np.int64), piece.offsets[:-1])
                fires, panes = book.decide(states, counts)
                shown = fresh if book.panes.mode is PaneMode.DISCARDING else None
                chosen = _chosen(piece, fires, shown)
                idents = zip(keys[fires].tolist(), chosen.starts.tolist(), chosen.ends.tolist(), strict=True)
                for window, pane, ident in zip(self.show(chosen, kind, firsts[fires]), panes, idents, strict=True):
                    window.pane, window.ident = pane, (kind, *ident)
                    yield window
        self._finish(span)

    def _fresh(self, piece: Assigned, states: WindowStates) -> NDArray[np.bool_]:
        """Which members are new to their window since it fired last."""
        assert self._evaluation is not None
        shown = np.repeat(states.shown, np.diff(piece.offsets))
        fresh: NDArray[np.bool_] = self._evaluation[piece.members] > shown
        return fresh

    def finished(self, upto: Limit) -> NDArray[np.bool_]:
        """Which events, in the order in which they were given, no window that ends after the limit can need."""
        done = np.ones(len(self._events), np.bool_)
        for assigner in self.assigners:
            done &= assigner.finished(self._sorted, upto)
        if self._order is None:
            return done
        back = np.empty(len(done), np.bool_)
        back[self._order] = done
        return back

    def next_end(self, span: Span) -> int | None:
        """When the next window is due, as things stand; None where nothing waits."""
        if not len(self._events):
            return None
        found = [assigner.next_end(self._sorted, span.upto) for assigner in self.assigners]
        return min((end for end in found if end is not None), default=None)

    def open_ends(self, span: Span) -> list[int]:
        """The ends of the windows that hold events and are not due yet."""
        if not len(self._events):
            return []
        pieces = (piece for each in self.assigners for piece in each.assign(self._sorted, span.upto, FOREVER))
        return sorted({end for piece in pieces for end in np.unique(piece.ends).tolist() if end < FOREVER})

    def flags(self) -> NDArray[np.uint8]:
        """What has become of each event, in the order in which they were given."""
        flags = self._seen * np.uint8(SEEN) + self._finished * np.uint8(GONE)
        if self._order is None:
            return flags
        back = np.empty(len(flags), np.uint8)
        back[self._order] = flags
        return back

    def _pieces(self, span: Span) -> Iterator[tuple[int, Assigned]]:
        if len(self.assigners) == 1:
            yield from ((0, piece) for piece in self._assigned(0, span))
            return
        # Windows of several kinds come in the order of their ends, one by one.
        found = [
            (kind, piece, at)
            for kind in range(len(self.assigners))
            for piece in self._assigned(kind, span)
            for at in range(len(piece))
        ]
        for kind, piece, at in sorted(
            found, key=lambda each: (int(each[1].ends[each[2]]), int(each[1].starts[each[2]]), each[0])
        ):
            yield kind, _one(piece, at)

    def _assigned(self, kind: int, span: Span) -> Iterator[Assigned]:
        """The windows of one kind that are due and have not been released."""
        assigner, live = self.assigners[kind], self._sorted
        if live.ends is None or not assigner.ends_at_limit:
            yield from assigner.assign(live, span.after, span.upto)
            return
        released: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        for found in assigner.assign(live, np.maximum(span.after, _LEAST + 1) - 1, span.upto):
            firsts = found.members[found.offsets[:-1]]
            keys = np.zeros(len(found), np.int64) if self._hashes is None else self._hashes[firsts]
            again = found.ends == limit_at(span.after, firsts)
            if again.any():
                again[again] = self.released.holds(kind, keys[again], found.ends[again])
            piece = _chosen(found, ~again, None) if again.any() else found
            keys, firsts = keys[~again], firsts[~again]
            limits = limit_at(span.upto, firsts)
            there = (piece.ends == limits) | (limits == FOREVER)
            released.append((keys[there], piece.ends[there]))
            if len(piece):
                yield piece
        for keys, ends in released:
            self.released.add(kind, keys, ends)

    def show(self, piece: Assigned, kind: int = 0, firsts: NDArray[np.int64] | None = None) -> Iterator[TupleWindow]:
        """The windows of a piece. ``firsts``: an event of each, where a window may show none of its own."""
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
        keys = self.keys_of(members[piece.offsets[:-1]] if firsts is None else firsts) if self.key else None
        several = len(self.assigners) > 1
        news = np.concatenate([[0], np.cumsum(fresh)])
        offsets = piece.offsets.tolist()
        for at, (start, end) in enumerate(zip(piece.starts.tolist(), piece.ends.tolist(), strict=True)):
            low, high = offsets[at], offsets[at + 1]
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
                window.key = keys[at]
            if several:
                window.kind = kind
            yield window

    def count(self, account: str, which: NDArray[np.bool_]) -> None:
        """Put events, in the order of ``live``, into an account."""
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
        """The columns of the events as they were given, each in one piece, however many windows ask for them."""
        return self._events.payload.combine_chunks()

    def keys_of(self, members: NDArray[np.int64]) -> list[Any]:
        """The keys of these live events: the value of a key of one column, else a tuple of values."""
        chosen = self.payload.select(list(self.key))
        columns = [column.to_pylist() for column in taken(chosen, self.positions(members)).columns]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def streams_of(self, members: NDArray[np.int64]) -> list[str]:
        """The names of the streams that these live events came on."""
        codes = self._events.streams
        if codes is None:
            return [self.stream_names[0]] * len(members)
        return [self.stream_names[code] for code in codes[self.positions(members)].tolist()]

    def positions(self, members: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where members of a window lie among the events as they were given."""
        return members if self._order is None else self._order[members]


class GatheredEvents:
    """The events of some windows, one window after the other: what their TupleWindows read."""

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
        return taken(payload, members)

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
            self._payload = payload.slice(int(places[0]), len(places)) if run else taken(payload, places)
        return self._payload


def _one(piece: Assigned, at: int) -> Assigned:
    low, high = int(piece.offsets[at]), int(piece.offsets[at + 1])
    return Assigned(
        piece.starts[at : at + 1], piece.ends[at : at + 1], np.array([0, high - low]), piece.members[low:high]
    )


def _chosen(piece: Assigned, fires: NDArray[np.bool_], shown: NDArray[np.bool_] | None) -> Assigned:
    """The windows that fire, with all of their events or those that are to be shown."""
    sizes = np.diff(piece.offsets)
    kept = np.repeat(fires, sizes)
    if shown is not None:
        kept &= shown
        sizes = np.add.reduceat(shown.astype(np.int64), piece.offsets[:-1])
    offsets = np.concatenate([[0], np.cumsum(sizes[fires])])
    return Assigned(piece.starts[fires], piece.ends[fires], offsets, piece.members[kept])


def _pick(members: NDArray[np.int64], which: range | NDArray[np.int64]) -> NDArray[np.int64]:
    return members[which.start : which.stop] if isinstance(which, range) else members[which]


def _of(limit: Limit, places: NDArray[np.int64]) -> Limit:
    return limit if isinstance(limit, (int, np.integer)) else limit[places]
