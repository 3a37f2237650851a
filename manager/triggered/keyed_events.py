"""The events of a task's keys as key triggers see them: key by key, those of the open window before the new ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.storage.segments.take_rows import take_rows
from policies.firing import Blocks
from windowing.data.tuples import tuples_of
from windowing.settings.triggers import ColumnRule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manager.keyed.held import Held
    from manager.keyed.sorted_events import SortedEvents


class KeyedEvents:
    """The events in order of (key, arrival); events are named by their indices in this order, keys by their blocks."""

    def __init__(self, events: Held, first_new: int, sorted_events: SortedEvents) -> None:
        """``first_new`` is the index, among the given events, of the first new one; ``sorted_events`` has them in
        order."""
        assert events.keys is not None
        count = len(events)
        self.events, self._first_new, self._sorted = events, first_new, sorted_events
        self.times = sorted_events.live.starts
        """The time of each event in microseconds."""
        self.places = sorted_events.places(np.arange(count))
        """The index of each event among the given ones."""
        keys = events.keys[self.places]
        self._is_new = self.places >= first_new
        edges = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1, [count]]) if count else np.zeros(1, int)
        self.blocks = Blocks(self.times, edges)
        self.keys: list[int] = keys[edges[:-1]].tolist()
        """The hash of the key of each block."""
        old = np.add.reduceat((~self._is_new).astype(np.int64), edges[:-1]) if count else np.zeros(0, np.int64)
        self.new_starts: NDArray[np.int64] = edges[:-1] + old
        """Where the new events of each block begin, behind its old ones."""

    def __len__(self) -> int:
        return len(self.times)

    @property
    def payload(self) -> pa.Table:
        """The payload of the events as they were given."""
        return self.events.payload

    @property
    def fresh(self) -> NDArray[np.bool_]:
        """Which blocks have new events."""
        fresh: NDArray[np.bool_] = self.new_starts < self.blocks.edges[1:]
        return fresh

    def run(self, block: int) -> tuple[int, int]:
        """Where the events of a block begin and end."""
        low, high = self.blocks.edges[block : block + 2].tolist()
        return low, high

    def block_of(self, events: NDArray[np.int64]) -> NDArray[np.int64]:
        """The block of each of these events."""
        return np.searchsorted(self.blocks.edges, events, side="right") - 1

    def key_values(self, blocks: NDArray[np.int64], key: Sequence[str]) -> list[Any]:
        """The value of the key of each of these blocks, which have new events; tuples where it has several columns."""
        columns = [column.to_pylist() for column in self._new_rows(self.new_starts[blocks], key).columns]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def new_events(self) -> NDArray[np.int64]:
        """The indices of the new events, in order."""
        return np.flatnonzero(self._is_new)

    def asked(self, rule: Any) -> Iterator[Any]:
        """What a rule is called with for each of the new events, in order: a Tuple, or what the rule itself reads from
        their columns.

        A rule may name the columns that it needs (``columns``); otherwise it gets all.
        """
        names = getattr(rule, "columns", None)
        events = self.new_events()
        rows = self._new_rows(events, self.payload.column_names if names is None else names)
        if isinstance(rule, ColumnRule):
            return rule.read(rows)
        return iter(tuples_of(rows, self.times[events].tolist(), self._sorted.streams_of(events)))

    def _new_rows(self, events: NDArray[np.int64], columns: Sequence[str]) -> pa.Table:
        """Columns of new events, without touching the old ones, of which there may be very many."""
        new = self.payload.select(list(columns)).slice(self._first_new)
        return take_rows(new, self.places[events] - self._first_new)
