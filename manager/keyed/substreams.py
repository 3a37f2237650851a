"""Substreams: a watermark per key, in columns (AZ-15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.keyed.held_segments import KEY_COLUMN, STORED_AS
from manager.storage.segments.event_segments import TIME_COLUMN
from manager.storage.segments.take_rows import take_rows
from policies.marks import NONE, advance_keys
from windowing.data.order import hash_order

if TYPE_CHECKING:
    from numpy.typing import NDArray


MARK_COLUMN, PREVIOUS_COLUMN = TIME_COLUMN, STORED_AS["closed_until"]
"""Columns that are stored beside those of the key, by names that no column of events has."""


class Substreams:
    """The watermarks of the keys of one task. A key is forgotten once the floor has passed its mark.

    The floor is a lower bound, from the arrival clock, on the time of any event still to come, for every key; NONE
    where there is none.
    """

    def __init__(self, table: pa.Table | None, delay: int, floor: int) -> None:
        self.delay, self.floor, self._before = delay, floor, floor
        empty = np.zeros(0, np.int64)
        self.keys = empty if table is None else table.column(KEY_COLUMN).to_numpy()
        """The codes of the keys, in ascending order."""
        self.marks = empty if table is None else table.column(MARK_COLUMN).to_numpy()
        self.previous = empty if table is None else table.column(PREVIOUS_COLUMN).to_numpy()
        """Up to which time the windows of each key have been evaluated."""
        self._values = None if table is None else table.drop_columns([KEY_COLUMN, MARK_COLUMN, PREVIOUS_COLUMN])

    def advance(
        self, keys: NDArray[np.int64], times: NDArray[np.int64], advancing: NDArray[np.bool_], values: pa.Table
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Advance the marks of keys by events in order of arrival; returns the mark of each event's key before and
        after it. ``values`` has the columns of the key of each event."""
        order = hash_order(keys)
        ordered = keys[order]
        heads = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else np.zeros(0, np.bool_)
        distinct = ordered[heads]
        self._add(distinct, values, order[heads])
        places = np.searchsorted(self.keys, distinct)
        codes = np.cumsum(heads) - 1
        start = self.marks[places]
        after = advance_keys(codes, times[order], advancing[order], start[codes], self.delay)
        before = np.empty_like(after)
        before[1:] = after[:-1]
        before[heads] = start
        lasts = np.concatenate([np.flatnonzero(heads)[1:] - 1, [len(after) - 1]]) if len(after) else places
        self.marks[places] = np.maximum(self.marks[places], after[lasts])
        back_before, back_after = np.empty_like(before), np.empty_like(after)
        back_before[order], back_after[order] = before, after
        return back_before, back_after

    def limits(self, keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Per live event, by the code of its key: up to which time the key has been evaluated, and its mark."""
        places = np.minimum(np.searchsorted(self.keys, keys), max(len(self.keys) - 1, 0))
        if not len(self.keys):
            return np.full(len(keys), self._before, np.int64), np.full(len(keys), self.floor, np.int64)
        known = self.keys[places] == keys
        previous = np.maximum(np.where(known, self.previous[places], NONE), self._before)
        marks = np.where(known, self.marks[places], NONE)
        return previous, np.maximum(marks, self.floor)

    def evaluated(self) -> None:
        """Record that the windows of every key have been evaluated up to its mark, or the floor."""
        self.previous = np.maximum(self.marks, self.floor)

    def raise_floor(self, floor: int) -> None:
        """Raise the floor of all keys to at least this time."""
        self.floor = max(self.floor, floor)

    def table(self) -> pa.Table | None:
        """The marks to store; None where there are none.

        A key is dropped if its next event, which cannot be older than the floor, will move its mark further anyway.
        """
        kept = self.marks > max(self.floor, NONE + self.delay + 1) - self.delay - 1
        if not kept.any():
            return None
        return self._table(np.flatnonzero(kept))

    def all(self) -> pa.Table | None:
        """All marks, also those that need not be stored; None where there are none."""
        return None if self._values is None else self._table(np.arange(len(self.keys)))

    def _table(self, rows: NDArray[np.int64]) -> pa.Table:
        assert self._values is not None
        values = take_rows(self._values, rows)
        own = {KEY_COLUMN: self.keys[rows], MARK_COLUMN: self.marks[rows], PREVIOUS_COLUMN: self.previous[rows]}
        return pa.table({**own, **dict(zip(values.column_names, values.columns, strict=True))})

    def _add(self, distinct: NDArray[np.int64], values: pa.Table, firsts: NDArray[np.int64]) -> None:
        """Add the keys that are not known yet; ``firsts`` are rows of ``values`` that have them."""
        unknown = ~np.isin(distinct, self.keys)
        new = distinct[unknown]
        if not len(new):
            self.marks = self.marks.copy()
            return
        added = take_rows(values, firsts[unknown])
        if self._values is not None:
            added = pa.concat_tables([self._values, added.cast(self._values.schema)])
        keys = np.concatenate([self.keys, new])
        order = np.argsort(keys, kind="stable")
        self.keys, self._values = keys[order], take_rows(added, order)
        nothing = np.full(len(new), NONE, np.int64)
        self.marks = np.concatenate([self.marks, nothing])[order]
        self.previous = np.concatenate([self.previous, nothing])[order]
