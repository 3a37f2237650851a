"""Windows that were released at the very limit they end at, so that they are not released again.

A lifetime that begins, or is cut, at exactly the limit ends a slice there after the limit was reached (SI-4, SI-29). So
windows that end at the last limit are looked at once more, and those that came out then are left out.
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
    """(kind of window, hash of the key, end in microseconds) of such windows; at most one for each kind and key."""

    rows: NDArray[np.void]

    @staticmethod
    def of(table: pa.Table | None) -> ReleasedEnds:
        """What was kept; empty where nothing was."""
        if table is None:
            return ReleasedEnds(np.zeros(0, _TYPE))
        kinds, keys, ends = (table.column(name).to_numpy() for name in _TYPE.names or ())
        return ReleasedEnds(_rows(kinds, keys, ends))

    def table(self) -> pa.Table:
        """What to keep."""
        return pa.table({name: self.rows[name] for name in _TYPE.names or ()})

    def __len__(self) -> int:
        return len(self.rows)

    def holds(self, kind: int, keys: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these windows of one kind have been released."""
        return np.isin(_rows(kind, keys, ends), self.rows)

    def add(self, kind: int, keys: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        """Note windows of one kind; those of their keys that ended earlier are forgotten."""
        order = np.lexsort((ends, keys))
        last = order[np.append(keys[order][1:] != keys[order][:-1], True)] if len(order) else order
        replaced = (self.rows["kind"] == kind) & np.isin(self.rows["key"], keys)
        self.rows = np.concatenate([self.rows[~replaced], _rows(kind, keys[last], ends[last])])

    def keep(self, keys: NDArray[np.int64]) -> None:
        """Forget the keys without live events: no slice of theirs can end any more."""
        self.rows = self.rows[np.isin(self.rows["key"], keys)]


def _rows(kind: int | NDArray[np.int64], keys: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.void]:
    rows = np.zeros(len(keys), _TYPE)
    rows["kind"], rows["key"], rows["end"] = kind, keys, ends
    return rows
