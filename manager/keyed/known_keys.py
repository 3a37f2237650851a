"""The keys of a task that have had events lately: each with the end of its last window that held one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.keyed.held_segments import END_COLUMN, KEY_COLUMN
from manager.storage.segments.take_rows import take_rows
from policies.marks import NONE

if TYPE_CHECKING:
    from numpy.typing import NDArray


class KnownKeys:
    """Keys in order of their hashes. A task without keys has one, of hash 0 and without columns."""

    def __init__(self, table: pa.Table) -> None:
        """``table``: what ``table()`` returned, or an empty one with the columns of the key."""
        self.hashes: NDArray[np.int64] = table.column(KEY_COLUMN).to_numpy()
        # A copy, for it is written to, and the table may be a segment that is mapped from a file.
        self.ends: NDArray[np.int64] = table.column(END_COLUMN).to_numpy().copy()
        """The end in microseconds of the last window of each key that held an event; NONE where none has fired yet."""
        self._values = table.drop_columns([KEY_COLUMN, END_COLUMN])

    @staticmethod
    def none(columns: pa.Schema) -> KnownKeys:
        """No keys yet; ``columns`` are those of the key."""
        none = pa.array([], pa.int64())
        arrays = [none, none, *(pa.array([], column.type) for column in columns)]
        return KnownKeys(pa.table(arrays, names=[KEY_COLUMN, END_COLUMN, *columns.names]))

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def columns(self) -> list[str]:
        """The columns of the key."""
        return list(self._values.column_names)

    def table(self) -> pa.Table:
        """The keys as a table, to be stored."""
        columns = zip(self._values.column_names, self._values.columns, strict=True)
        return pa.table({KEY_COLUMN: self.hashes, END_COLUMN: self.ends, **dict(columns)})

    def places(self, hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which of the known keys have these hashes."""
        return np.searchsorted(self.hashes, hashes)

    def values(self, places: NDArray[np.int64]) -> list[Any]:
        """The keys at some places: a value where the key is one column, else a tuple of values."""
        if not self.columns:
            return [None] * len(places)
        columns = [column.to_pylist() for column in take_rows(self._values, places).columns]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def unknown(self, hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The indices of the hashes that no known key has, each once."""
        new, firsts = np.unique(hashes, return_index=True)
        return firsts[~np.isin(new, self.hashes, assume_unique=True)]

    def add(self, hashes: NDArray[np.int64], values: pa.Table, end: int = NONE) -> None:
        """Add keys that are not known yet, of which no window has fired; ``values`` has their columns.

        ``end``: where their windows without events begin, in microseconds; NONE: with their first event."""
        if not len(hashes):
            return
        hashes = np.concatenate([self.hashes, hashes])
        ends = np.concatenate([self.ends, np.full(len(hashes) - len(self.ends), end, np.int64)])
        order = np.argsort(hashes)
        if self.columns:
            self._values = take_rows(pa.concat_tables([self._values, values.cast(self._values.schema)]), order)
        self.hashes, self.ends = hashes[order], ends[order]

    def fired(self, places: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        """Record that windows of these keys, which held events, have fired up to these ends."""
        np.maximum.at(self.ends, places, ends)

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Forget all other keys."""
        if which.all():
            return
        if self.columns:
            self._values = take_rows(self._values, np.flatnonzero(which))
        self.hashes, self.ends = self.hashes[which], self.ends[which]
