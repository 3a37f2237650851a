"""The last window fired for each key of a task, for bolts that ask which events have expired since (ST-21)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.storage.segments.take_rows import take_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manager.keyed.held import Held
    from windowing.window import Members

_NO_KEY = 0


class LastFired:
    """Tells for each window which events have expired since the previous window of the same key.

    ``events`` are all events of the task, including those kept for this purpose alone; windows refer to them by index.
    Only the keys that fire are looked up.
    """

    def __init__(self, events: Held, streams: Sequence[str]) -> None:
        self._events, self.stream_names = events, tuple(streams)
        self._last = np.zeros(len(events), np.bool_) if events.last is None else events.last.copy()
        indices = np.flatnonzero(self._last)
        last_events = events.bare(indices)
        order = last_events.order()
        self._places = indices if order is None else indices[order]
        keys = np.full(len(indices), _NO_KEY, np.int64) if events.keys is None else events.keys[self._places]
        heads = np.flatnonzero(np.diff(keys)) + 1
        self._starts = np.concatenate([[0], heads, [len(keys)]]) if len(keys) else np.zeros(1, np.int64)
        # The stored order of hashes need not be numeric order.
        run_keys = keys[self._starts[:-1]]
        self._by_key = np.argsort(run_keys, kind="stable")
        self._keys = run_keys[self._by_key]
        self._fired: dict[int, NDArray[np.int64]] = {}

    def follow(self, members: NDArray[np.int64], key: int | None = None) -> NDArray[np.int64]:
        """Record that a window with these members fires; returns the indices of the previous window's events that are
        not in it. ``key`` is the hash of its key, None where a member tells it."""
        if key is None:
            key = _NO_KEY if self._events.keys is None else int(self._events.keys[members[0]])
        before = self._fired.get(key)
        if before is None:
            before = self._of(key)
            self._last[before] = False
        self._fired[key] = members
        return before[~np.isin(before, members)] if len(before) else before

    def flags(self) -> NDArray[np.bool_]:
        """Which events are now in the last window fired for their key."""
        in_last = self._last.copy()
        for members in self._fired.values():
            in_last[members] = True
        return in_last

    def _of(self, key: int) -> NDArray[np.int64]:
        index = int(np.searchsorted(self._keys, key))
        if index == len(self._keys) or self._keys[index] != key:
            return np.zeros(0, np.int64)
        run = int(self._by_key[index])
        return self._places[self._starts[run] : self._starts[run + 1]]

    # -- as the source of expired events

    def table(self, members: Members) -> pa.Table:
        """The payload of the events at these indices."""
        return take_rows(self._payload, np.asarray(members, np.int64))

    def timestamps(self, members: Members) -> NDArray[np.int64]:
        """The times of the events in microseconds."""
        return self._events.times[np.asarray(members, np.int64)]

    def streams(self, members: Members) -> NDArray[np.int8]:
        """The stream codes of the events."""
        codes = self._events.streams
        places = np.asarray(members, np.int64)
        return np.zeros(len(places), np.int8) if codes is None else codes[places]

    @cached_property
    def _payload(self) -> pa.Table:
        return self._events.payload.combine_chunks()
