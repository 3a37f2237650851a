"""The window fired last of each key of a task, for those that ask what has expired since (ST-21)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.storage.taking import taken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manager.keyed.held import Held
    from windowing.window import Members

_NO_KEY = 0


class LastWindows:
    """Says at each window what has left since the window before it of the same key.

    ``events`` are all that the task holds, those among them that are kept for this alone too; windows name them by
    their places. The keys that fire are looked at, not all there are.
    """

    def __init__(self, events: Held, streams: Sequence[str]) -> None:
        self._events, self.stream_names = events, tuple(streams)
        self._last = np.zeros(len(events), np.bool_) if events.last is None else events.last.copy()
        places = np.flatnonzero(self._last)
        chosen = events.bare(places)
        order = chosen.order()
        self._places = places if order is None else places[order]
        keys = np.full(len(places), _NO_KEY, np.int64) if events.keys is None else events.keys[self._places]
        heads = np.flatnonzero(np.diff(keys)) + 1
        self._starts = np.concatenate([[0], heads, [len(keys)]]) if len(keys) else np.zeros(1, np.int64)
        # In order of hashes as they are stored, which need not be that of numbers.
        found = keys[self._starts[:-1]]
        self._by_key = np.argsort(found, kind="stable")
        self._keys = found[self._by_key]
        self._fired: dict[int, NDArray[np.int64]] = {}

    def follow(self, members: NDArray[np.int64]) -> NDArray[np.int64]:
        """A window with these members fires, in order: the places of those of the window before it that are gone."""
        key = _NO_KEY if self._events.keys is None else int(self._events.keys[members[0]])
        before = self._fired.get(key)
        if before is None:
            before = self._of(key)
            self._last[before] = False
        self._fired[key] = members
        return before[~np.isin(before, members)] if len(before) else before

    def flags(self) -> NDArray[np.bool_]:
        """Which events are now in the window fired last of their key."""
        found = self._last.copy()
        for members in self._fired.values():
            found[members] = True
        return found

    def _of(self, key: int) -> NDArray[np.int64]:
        at = int(np.searchsorted(self._keys, key))
        if at == len(self._keys) or self._keys[at] != key:
            return np.zeros(0, np.int64)
        run = int(self._by_key[at])
        return self._places[self._starts[run] : self._starts[run + 1]]

    # -- as the source of what has expired

    def table(self, members: Members) -> pa.Table:
        """The payload of the events at these places."""
        return taken(self._payload, np.asarray(members, np.int64))

    def timestamps(self, members: Members) -> NDArray[np.int64]:
        """Their times in microseconds."""
        return self._events.times[np.asarray(members, np.int64)]

    def streams(self, members: Members) -> NDArray[np.int8]:
        """The codes of their streams."""
        codes = self._events.streams
        places = np.asarray(members, np.int64)
        return np.zeros(len(places), np.int8) if codes is None else codes[places]

    @cached_property
    def _payload(self) -> pa.Table:
        return self._events.payload.combine_chunks()
