"""Makes TupleWindows of assigned windows; their events are gathered once, for many windows together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.keyed.last_fired import LastFired
from manager.keyed.sorted_events import SortedEvents
from manager.storage.segments.take_rows import take_rows
from policies.assigners import Assigned
from windowing.settings.panes import Pane
from windowing.settings.triggers import FiredBy
from windowing.window import Ident, Members, TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray


class TupleWindows:
    """Makes the windows that one task fires, and marks their events as seen."""

    def __init__(
        self,
        events: SortedEvents,
        task: int = 0,
        *,
        several_kinds: bool = False,
        last: tuple[LastFired, NDArray[np.int64]] | None = None,
        timed: bool = True,
    ) -> None:
        """``task`` is the index of the bolt's task. ``several_kinds``: whether windows are told of which kind they are.
        ``timed``: whether they have a start.
        ``last`` knows the windows fired before these, with the indices of the events there; None where the bolt does
        not ask for expired events."""
        self._events, self._task, self._several_kinds, self._last = events, task, several_kinds, last
        self._timed = timed

    def of(
        self,
        piece: Assigned,
        kind: int = 0,
        firsts: NDArray[np.int64] | None = None,
        *,
        panes: Sequence[tuple[Pane, Ident]] | None = None,
        causes: Sequence[FiredBy] | None = None,
        keys: Sequence[Any] | None = None,
        hashes: NDArray[np.int64] | None = None,
    ) -> Iterator[TupleWindow]:
        """Yield the windows of a piece. ``firsts`` is an event of each window, where a window may show none of its own.

        ``panes`` and ``causes`` have a value for each window: which firing of which window it is; what fired it.
        ``keys`` and ``hashes`` are the key of each window and its hash, where not every window has an event that tells
        it.
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
                told = None if hashes is None else int(hashes[index])
                expired = expired_from.follow(places[events.places(members[low:high])], told)
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
    """The events of some windows, window by window: what their TupleWindows read."""

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
