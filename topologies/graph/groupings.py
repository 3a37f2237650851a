"""Groupings: to which of a bolt's tasks an event goes. Each depends on the event alone, never on chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from topologies.graph.fields_hash import hash_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class FieldsGrouping:
    """Events with equal fields go to the same task, by the hash that ``topologies.graph.fields_hash`` documents."""

    fields: tuple[str, ...]

    def tasks(self, table: pa.Table, positions: NDArray[np.int64] | None, parallelism: int) -> NDArray[np.int64]:
        """The task of each row."""
        return (hash_rows(table, self.fields) % np.uint64(parallelism)).astype(np.int64)

    def __str__(self) -> str:
        return f"fields({', '.join(self.fields)})"


@dataclass(frozen=True)
class ShuffleGrouping:
    """Events go to the tasks in turn, by their place in the source; by what they hold, where that is not known.

    Behind a BatchBolt it is not known which row came from which; counting them again would depend on where batches are
    cut.
    """

    def tasks(self, table: pa.Table, positions: NDArray[np.int64] | None, parallelism: int) -> NDArray[np.int64]:
        """The task of each row."""
        if positions is None:
            return (hash_rows(table, table.column_names) % np.uint64(parallelism)).astype(np.int64)
        return positions % parallelism

    def __str__(self) -> str:
        return "shuffle"


@dataclass(frozen=True)
class GlobalGrouping:
    """All events go to task 0."""

    def tasks(self, table: pa.Table, positions: NDArray[np.int64] | None, parallelism: int) -> NDArray[np.int64]:
        """The task of each row."""
        return np.zeros(len(table), np.int64)

    def __str__(self) -> str:
        return "global"


@dataclass(frozen=True)
class AllGrouping:
    """Every task gets a copy of every event; each copy is an event of its own in the accounts."""

    def __str__(self) -> str:
        return "all"


Grouping = FieldsGrouping | ShuffleGrouping | GlobalGrouping | AllGrouping
