"""Remaining capacity of the open windows of keys, where a bolt limits what a window may hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manager.keyed.byte_sizes import byte_sizes
from manager.triggered.key_firings import KeyFirings
from manager.triggered.keyed_events import KeyedEvents
from policies.firing import FULL
from policies.window_capacity import NEVER_FULL, Filling, WindowCapacity
from windowing.settings.triggers import Capacity

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Room:
    """The capacity of windows, and which keys come near it. Events are measured only where a key may reach it."""

    def __init__(self, capacity: Capacity | None, arrivals: KeyedEvents, firings: KeyFirings) -> None:
        self._arrivals, self._firings = arrivals, firings
        measured = None if capacity is None or not len(arrivals) else _measured(capacity, arrivals)
        near = None if measured is None else measured.reached(arrivals.blocks.edges)
        reached = near is not None and bool(near.any())
        self.capacity = measured if reached else None
        """None where no key has enough events or bytes to reach it."""
        self.near: NDArray[np.bool_] = (
            near if near is not None and reached else np.zeros(len(arrivals.blocks.edges) - 1, np.bool_)
        )
        """Which blocks have enough events or bytes to reach it."""

    def open_start(self, block: int) -> int:
        """Where the open window of a key begins, after firing all windows that its old events fill.

        They can fill a window only where the capacity was larger when they came.
        """
        low, new = int(self._arrivals.blocks.edges[block]), int(self._arrivals.new_starts[block])
        if self.capacity is not None and self.near[block]:
            for start, high, last in self.capacity.parts(low, new):
                self._firings.fire(start, high, int(self._arrivals.times[last]), FULL)
                low = high
        return low

    def filling(self, block: int, start: int) -> Filling:
        """The fill level of a key's open window, which holds its old events from ``start`` on; ``NEVER_FULL`` far from
        capacity."""
        if self.capacity is None or not self.near[block]:
            return NEVER_FULL
        return Filling(self.capacity, start, int(self._arrivals.new_starts[block]))


def _measured(capacity: Capacity, arrivals: KeyedEvents) -> WindowCapacity:
    """The capacity, with the bytes of each event where all events together have enough for one window."""
    sizes = None
    if capacity.bytes is not None:
        columns = arrivals.payload.select(list(capacity.columns or arrivals.payload.column_names))
        if columns.nbytes + len(arrivals) >= capacity.bytes:
            sizes = byte_sizes(columns)[arrivals.places]
    return WindowCapacity.of(capacity, sizes)
