"""Rows on a stream, on their way through one task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.storage.taking import taken
from topologies.engine.batch.plan import Origins
from windowing.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Rows:
    """Rows on a stream: their times in microseconds where the stream has them, and their places in the source."""

    table: pa.Table
    times: NDArray[np.int64] | None
    positions: NDArray[np.int64]
    clock: int
    """The clock when they arrived, in microseconds."""
    placed: bool = True
    """Whether the places are known, and not only counted since a BatchBolt."""
    turns: NDArray[np.int64] | int = 0
    """Where a shuffle begins in the source of the rows, or of each."""
    partition: str | Origins = ""
    """The partition that the rows are from, with its spout, or that each is; "" where that is not known."""

    @staticmethod
    def made(table: pa.Table, clock: int, times: NDArray[np.int64] | None = None) -> Rows:
        """Rows that windbolt itself has made, of no place in any source."""
        return Rows(table, times, np.arange(table.num_rows), clock)

    def take(self, indices: NDArray[np.int64]) -> Rows:
        """The rows at these places."""
        times = None if self.times is None else self.times[indices]
        return self.become(taken(self.table, indices), times, indices)

    def become(self, table: pa.Table, times: NDArray[np.int64] | None, indices: NDArray[np.int64]) -> Rows:
        """Other rows, each of which has come of the row at its place here."""
        turns = self.turns if isinstance(self.turns, int) else self.turns[indices]
        partition = self.partition if isinstance(self.partition, str) else self.partition.take(indices)
        return Rows(table, times, self.positions[indices], self.clock, self.placed, turns, partition)

    def shifted(self, micros: int) -> Rows:
        """The rows so many microseconds later; the end of time stays where it is (SI-25)."""
        if self.times is None:
            return self
        times = np.where(self.times == FOREVER, FOREVER, self.times + micros)
        return replace(self, times=times)
