"""The windows that a key trigger has fired, with their events, in order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from manager.keyed.key_states import KeyStates
from manager.keyed.tuple_windows import TupleWindows
from manager.triggered.key_firings import Forgotten, KeyFirings
from manager.triggered.keyed_events import KeyedEvents
from manager.triggered.refusals import Refusals
from policies.assigners import Assigned
from policies.firing import CODES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from windowing.window import TupleWindow

_AT_ONCE, _BYTES_AT_ONCE = 1 << 20, 128 << 20
"""Maximum number of events gathered at once for windows, and of their bytes at average size. A rule that fires and
keeps its window shows the same events again and again."""


class DueKeyWindows:
    """The windows that fire, and the keys that are forgotten, in order of (end, key); iterate over it once.

    Events on which a rule failed are in no window.
    """

    def __init__(
        self,
        firings: KeyFirings,
        arrivals: KeyedEvents,
        refusals: Refusals,
        tuple_windows: TupleWindows,
        key_states: KeyStates,
    ) -> None:
        self._firings, self._arrivals, self._refusals = firings, arrivals, refusals
        self._tuple_windows, self._key_states = tuple_windows, key_states

    def __iter__(self) -> Iterator[TupleWindow | Forgotten]:
        firings, arrivals = self._firings, self._arrivals
        count = len(firings.lows)
        ends = np.array(firings.ends + [moment for moment, _ in firings.forgotten], np.int64)
        keys = [arrivals.keys[block] for block in arrivals.block_of(np.array(firings.lows, np.int64)).tolist()]
        hashes = np.array(keys + [key for _, key in firings.forgotten], np.int64)
        numbers = np.arange(len(ends))
        numbers[count:] = -1  # an event that comes as its key is forgotten starts a new window, and may fill it at once
        order = np.lexsort((numbers, hashes, ends))
        stops = [-1, *np.flatnonzero(order >= count).tolist(), len(order)]
        for before, stop in pairwise(stops):
            yield from self._fire(order[before + 1 : stop])
            if stop < len(order):
                key = firings.forgotten[int(order[stop]) - count][1]
                yield Forgotten(self._key_states.value(key, arrivals.payload))

    def _fire(self, which: NDArray[np.int64]) -> Iterator[TupleWindow]:
        """Yield some of the windows, gathered in pieces of bounded size."""
        if not len(which):
            return
        firings = self._firings
        lows, highs = np.array(firings.lows, np.int64)[which], np.array(firings.highs, np.int64)[which]
        ends, causes = np.array(firings.ends, np.int64)[which], np.array(firings.causes, np.int64)[which]
        parts = np.cumsum(highs - lows) // self._at_once
        edges = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(which)]
        for start, stop in pairwise(edges):
            piece = self._piece(lows[start:stop], highs[start:stop], ends[start:stop])
            yield from self._tuple_windows.of(piece, causes=[CODES[cause] for cause in causes[start:stop].tolist()])

    @cached_property
    def _at_once(self) -> int:
        """Maximum number of events gathered at once."""
        count, used = len(self._arrivals), int(self._arrivals.payload.nbytes)
        return max(min(_AT_ONCE, _BYTES_AT_ONCE * count // max(used, 1)), 1)

    def _piece(self, lows: NDArray[np.int64], highs: NDArray[np.int64], ends: NDArray[np.int64]) -> Assigned:
        sizes = highs - lows
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        members = np.arange(offsets[-1]) + np.repeat(lows - offsets[:-1], sizes)
        if len(self._refusals):
            good = ~self._refusals.mask[members]
            offsets = np.concatenate([[0], np.cumsum(np.add.reduceat(good.astype(np.int64), offsets[:-1]))])
            members = members[good]
        return Assigned(self._arrivals.times[members[offsets[:-1]]], ends, offsets, members)
