"""Windows without events: which of them fire, and their order among windows with events (decision 46)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from manager.keyed.known_keys import KnownKeys
from manager.keyed.sorted_events import SortedEvents
from policies.assigners import Assigned, GridWindows
from policies.assigners.aligned import MOST, unfold
from policies.marks import NONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NO_WINDOWS = Assigned(*(np.zeros(count, np.int64) for count in (0, 0, 1, 0)))


@dataclass(frozen=True)
class KeyedWindows:
    """Windows in order of (end, key), some of them without events."""

    windows: Assigned
    hashes: NDArray[np.int64]
    """The hash of the key of each window."""
    keys: list[Any]
    """The key of each window."""


class EmptyWindows:
    """Adds to the windows of known keys those in which nothing happened.

    A window without events fires if it ends at most ``until`` (microseconds) after the last window of its key that held
    one, and no later than ``limit`` (microseconds), the time reached. Only these are listed, however far time
    advances.
    """

    def __init__(
        self, grid: GridWindows, until: int, known: KnownKeys, limit: int, listed: NDArray[np.int64] | None = None
    ) -> None:
        """``known`` is updated. ``listed``: the hashes of the keys that a user lists. They are not
        forgotten, however long they are silent: their windows would begin once more."""
        self._grid, self._until, self._known, self._limit = grid, until, known, limit
        self._listed = np.zeros(0, np.int64) if listed is None else listed

    def among(self, pieces: Iterable[Assigned], events: SortedEvents, after: int) -> Iterator[KeyedWindows]:
        """Yield the windows of the pieces together with the empty ones that end after ``after`` (microseconds).

        The pieces come from the grid's ``assign``, called with these events.
        """
        known = self._known
        for piece in pieces:
            firsts = piece.members[piece.offsets[:-1]]
            hashes = events.key_hashes(firsts)
            new = known.unknown(hashes)
            known.add(hashes[new], events.key_rows(firsts[new], known.columns))
            places, high = known.places(hashes), int(piece.ends[-1])
            yield from self._merged(piece, places, after, high)
            known.fired(places, piece.ends)
            after = high
        yield from self._merged(_NO_WINDOWS, np.zeros(0, np.int64), after, self._limit)
        known.keep((self._next_ends() <= known.ends + self._until) | np.isin(known.hashes, self._listed))

    def next_end(self) -> int | None:
        """The end of the next empty window if no event comes, in microseconds; None where there will be none."""
        ends = self._next_ends()
        ends = ends[ends <= self._known.ends + self._until]
        return int(ends.min()) if len(ends) else None

    def _next_ends(self) -> NDArray[np.int64]:
        return self._grid.following(np.maximum(self._known.ends, self._limit))

    def _merged(self, piece: Assigned, places: NDArray[np.int64], low: int, high: int) -> Iterator[KeyedWindows]:
        """Yield the windows of a piece, of the keys at these places, and the empty ones with low < end <= high."""
        keys, begins, stops = self._gaps(piece, places, low, high)
        done = 0
        while True:
            # Only ends within a gap are listed, from the first one on.
            firsts = self._grid.following(begins)
            within = firsts <= stops
            if not within.any():
                break
            keys, begins, stops, firsts = keys[within], begins[within], stops[within], firsts[within]
            start = int(firsts.min())
            ends = self._grid.ends_between(start - 1, min(int(stops.max()), start + self._until))
            ends = ends[: max(1, MOST // len(keys))]
            lows = np.searchsorted(ends, begins, side="right")
            gap, further = unfold(np.searchsorted(ends, stops, side="right") - lows)
            upto = int(np.searchsorted(piece.ends, ends[-1], side="right"))
            yield self._together(piece, places, (done, upto), ends[lows[gap] + further], keys[gap])
            done, begins = upto, np.maximum(begins, ends[-1])
        if done < len(piece):
            none = np.zeros(0, np.int64)
            yield self._together(piece, places, (done, len(piece)), none, none)

    def _gaps(
        self, piece: Assigned, places: NDArray[np.int64], low: int, high: int
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
        piece: Assigned,
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
        windows = Assigned(starts[order], ends[order], offsets, members)
        return KeyedWindows(windows, self._known.hashes[keys], self._known.values(keys))
