"""Windows that were released exactly at the limit at which they end, so that they are not released again.

A lifetime that begins, or is cut, exactly at a limit ends a slice there after the limit was reached (SI-4, SI-29). So
windows that end at the last limit are evaluated once more, and those already released then are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TYPE = np.dtype([("kind", np.int64), ("key", np.int64), ("end", np.int64)])


@dataclass
class ReleasedEnds:
    """(kind of window, code of the key, end in microseconds) of such windows; at most one per kind and key."""

    rows: NDArray[np.void]

    @staticmethod
    def of(table: pa.Table | None) -> ReleasedEnds:
        """The stored windows; empty for None."""
        if table is None:
            return ReleasedEnds(np.zeros(0, _TYPE))
        kinds, keys, ends = (table.column(name).to_numpy() for name in _TYPE.names or ())
        return ReleasedEnds(_rows(kinds, keys, ends))

    def table(self) -> pa.Table:
        """The windows as a table, to be stored."""
        return pa.table({name: self.rows[name] for name in _TYPE.names or ()})

    def __len__(self) -> int:
        return len(self.rows)

    def holds(self, kind: int, keys: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these windows of one kind have been released."""
        return np.isin(_rows(kind, keys, ends), self.rows)

    def add(self, kind: int, keys: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        """Record windows of one kind; they replace earlier ones of their keys."""
        order = np.lexsort((ends, keys))
        last = order[np.append(keys[order][1:] != keys[order][:-1], True)] if len(order) else order
        replaced = (self.rows["kind"] == kind) & np.isin(self.rows["key"], keys)
        self.rows = np.concatenate([self.rows[~replaced], _rows(kind, keys[last], ends[last])])

    def keep(self, keys: NDArray[np.int64]) -> None:
        """Keep only the keys with live events: no slice of the others can end any more."""
        self.rows = self.rows[np.isin(self.rows["key"], keys)]


def _rows(kind: int | NDArray[np.int64], keys: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.void]:
    rows = np.zeros(len(keys), _TYPE)
    rows["kind"], rows["key"], rows["end"] = kind, keys, ends
    return rows
