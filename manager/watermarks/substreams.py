"""Substreams: a watermark per key, in columns (AZ-15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from policies.marks import NONE, advance_keys
from windowing.data.order import hash_order

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Substreams:
    """The watermarks of the keys of one task. A key is forgotten once the floor has passed its mark.

    The floor is a lower bound, from the arrival clock, on the time of any event still to come, for every key; NONE
    where there is none.
    """

    def __init__(self, table: pa.Table | None, delay: int, floor: int) -> None:
        self.delay, self.floor, self._before = delay, floor, floor
        empty = np.zeros(0, np.int64)
        self.keys = empty if table is None else table.column("key").to_numpy()
        """The hashes of the keys, in ascending order."""
        self.marks = empty if table is None else table.column("mark").to_numpy()
        self.previous = empty if table is None else table.column("previous").to_numpy()
        """Up to which time the windows of each key have been evaluated."""

    def advance(
        self, keys: NDArray[np.int64], times: NDArray[np.int64], advancing: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Advance the marks of keys by events in order of arrival; returns the mark of each event's key before and
        after it."""
        order = hash_order(keys)
        ordered = keys[order]
        heads = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else np.zeros(0, np.bool_)
        distinct = ordered[heads]
        self._add(distinct)
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
        """Per live event, by the hash of its key: up to which time the key has been evaluated, and its mark."""
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
        return pa.table({"key": self.keys[kept], "mark": self.marks[kept], "previous": self.previous[kept]})

    def _add(self, distinct: NDArray[np.int64]) -> None:
        new = distinct[~np.isin(distinct, self.keys)]
        if not len(new):
            self.marks = self.marks.copy()
            return
        keys = np.concatenate([self.keys, new])
        order = np.argsort(keys, kind="stable")
        self.keys = keys[order]
        nothing = np.full(len(new), NONE, np.int64)
        self.marks = np.concatenate([self.marks, nothing])[order]
        self.previous = np.concatenate([self.previous, nothing])[order]
