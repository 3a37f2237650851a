"""Events of one split of a source, in columns, and the partitions that they come from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class RowPartitions:
    """The partition of each of several rows."""

    names: tuple[str, ...]
    codes: NDArray[np.int32]
    """Per row, the index of its partition in ``names``."""

    def take(self, indices: NDArray[np.int64]) -> RowPartitions:
        """The partitions of the rows at these indices."""
        return replace(self, codes=self.codes[indices])

    def of_spout(self, spout: str) -> RowPartitions:
        """The same partitions under the names that bolts see (see ``partition_name``)."""
        return replace(self, names=tuple(partition_name(spout, name) for name in self.names))


def partition_name(spout: str, partition: str) -> str:
    """The name of a source's partition as bolts see it: prefixed with its spout; "" for a source that has none."""
    return f"{spout}\t{partition}" if partition else ""


@dataclass(frozen=True)
class SourceBatch:
    """Events of one split of a source, in order of arrival."""

    component: str
    stream: str
    table: pa.Table
    positions: NDArray[np.int64]
    """The position of each row in its source, from 0."""
    bad: pa.Table | None = None
    """Unreadable rows, as a table of row, reason and data; None where there are none."""
    source: str = ""
    """Where the rows are from, for messages: a path."""
    clock: int | None = None
    """The clock at arrival in microseconds; None where it is the batch's."""
    turn: int | NDArray[np.int64] = 0
    """Offset of the first row in a shuffle grouping, or one per row where they are from several sources. It keeps the
    first rows of many small files from all going to one task."""
    keys: NDArray[np.int64] | None = None
    """Merge keys, one per row, of a source that is merged with others; ``NONE`` where a row has no key."""
    bad_keys: NDArray[np.int64] | None = None
    """Merge keys of the unreadable rows, where they are known."""
    truncated: NDArray[np.bool_] | None = None
    """Which rows had a time that was finer than microseconds, and was cut; None where none had."""
    partition: str | RowPartitions = ""
    """The partition of the source (``orders/3``): one for all rows, or one per row; "" where the source has none."""
