"""Substreams: a watermark for each key, in columns (AZ-15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from policies.marks import NONE, advance_keys
from windowing.order import hash_order

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Substreams:
    """The marks of the keys of one task; a key whose mark the floor has passed is forgotten.

    The floor is what the clock of arrivals guarantees for every key, or NONE: no event can come from before it.
    """

    def __init__(self, table: pa.Table | None, delay: int, floor: int) -> None:
        self.delay, self.floor, self._before = delay, floor, floor
        empty = np.zeros(0, np.int64)
        self.keys = empty if table is None else table.column("key").to_numpy()
        """The hashes of the keys, ascending."""
        self.marks = empty if table is None else table.column("mark").to_numpy()
        self.passed = empty if table is None else table.column("passed").to_numpy()
        """Up to where the windows of each key have been evaluated."""

    def advance(
        self, keys: NDArray[np.int64], times: NDArray[np.int64], counts: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Events in order of arrival move the marks of their keys; the mark of its key before and after each event."""
        order = hash_order(keys)
        ordered = keys[order]
        heads = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else np.zeros(0, np.bool_)
        distinct = ordered[heads]
        self._add(distinct)
        places = np.searchsorted(self.keys, distinct)
        codes = np.cumsum(heads) - 1
        start = self.marks[places]
        after = advance_keys(codes, times[order], counts[order], start[codes], self.delay)
        before = np.empty_like(after)
        before[1:] = after[:-1]
        before[heads] = start
        lasts = np.concatenate([np.flatnonzero(heads)[1:] - 1, [len(after) - 1]]) if len(after) else places
        self.marks[places] = np.maximum(self.marks[places], after[lasts])
        back_before, back_after = np.empty_like(before), np.empty_like(after)
        back_before[order], back_after[order] = before, after
        return back_before, back_after

    def limits(self, keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For live events by the hash of their key: up to where it has been evaluated, and its mark now."""
        places = np.minimum(np.searchsorted(self.keys, keys), max(len(self.keys) - 1, 0))
        if not len(self.keys):
            return np.full(len(keys), self._before, np.int64), np.full(len(keys), self.floor, np.int64)
        known = self.keys[places] == keys
        passed = np.maximum(np.where(known, self.passed[places], NONE), self._before)
        marks = np.where(known, self.marks[places], NONE)
        return passed, np.maximum(marks, self.floor)

    def evaluated(self) -> None:
        """The windows of every key have been evaluated up to its mark, or the floor."""
        self.passed = np.maximum(self.marks, self.floor)

    def raise_floor(self, floor: int) -> None:
        """All keys are at least here now."""
        self.floor = max(self.floor, floor)

    def table(self) -> pa.Table | None:
        """What to keep; None if there is nothing.

        A key is forgotten when the next event of it, which the floor lets be no older, will move its mark beyond.
        """
        kept = self.marks > max(self.floor, NONE + self.delay + 1) - self.delay - 1
        if not kept.any():
            return None
        return pa.table({"key": self.keys[kept], "mark": self.marks[kept], "passed": self.passed[kept]})

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
        self.passed = np.concatenate([self.passed, nothing])[order]
