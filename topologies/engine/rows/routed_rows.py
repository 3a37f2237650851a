"""Rows on a stream, while one task routes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from manager.storage.segments.take_rows import take_rows
from topologies.engine.rows.source_batch import RowPartitions
from windowing.time.timestamps import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Rows:
    """Rows on a stream, with their times in microseconds (None where the stream has none) and their positions in the
    source."""

    table: pa.Table
    times: NDArray[np.int64] | None
    positions: NDArray[np.int64]
    clock: int
    """The clock at arrival in microseconds."""
    placed: bool = True
    """Whether the positions are those in the source; False where they only count the rows of a BatchBolt."""
    turns: NDArray[np.int64] | int = 0
    """Offset of a shuffle grouping for the source of the rows, or one per row."""
    partition: str | RowPartitions = ""
    """The partition of the rows with its spout, or one per row; "" where it is unknown."""
    file: str = ""
    """The file that their positions are in; "" where they are from no file of a user's."""
    truncated: NDArray[np.bool_] | None = None
    """Which rows had a time that was cut to microseconds in reading; None where none had, and behind a BatchBolt."""

    @staticmethod
    def made(table: pa.Table, clock: int, times: NDArray[np.int64] | None = None) -> Rows:
        """Rows that windbolt made, which have no position in a source."""
        return Rows(table, times, np.arange(table.num_rows), clock)

    def take(self, indices: NDArray[np.int64]) -> Rows:
        """The rows at these indices."""
        times = None if self.times is None else self.times[indices]
        return self.become(take_rows(self.table, indices), times, indices)

    def become(self, table: pa.Table, times: NDArray[np.int64] | None, indices: NDArray[np.int64]) -> Rows:
        """Other rows, each derived from the row at its index here."""
        turns = self.turns if isinstance(self.turns, int) else self.turns[indices]
        partition = self.partition if isinstance(self.partition, str) else self.partition.take(indices)
        truncated = None if self.truncated is None else self.truncated[indices]
        return Rows(
            table, times, self.positions[indices], self.clock, self.placed, turns, partition, self.file, truncated
        )

    def shifted(self, micros: int) -> Rows:
        """The rows with their times shifted by some microseconds; FOREVER stays (SI-25)."""
        if self.times is None:
            return self
        times = np.where(self.times == FOREVER, FOREVER, self.times + micros)
        return replace(self, times=times)
