"""The order in which the events of a batch arrived at a bolt, for watermarks that follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from manager.storage.segments.ref import Ref
from manager.storage.segments.segments import SegmentStore
from manager.watermarks.arrival_times import ArrivalTimes
from policies.marks import NONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


def read_arrivals(store: SegmentStore, order: Sequence[Ref]) -> ArrivalTimes:
    """The events of a batch, in order of arrival, as the tasks that read them have written it."""
    store.expect(order)
    table = pa.concat_tables([store.read(ref) for ref in order], promote_options="default")
    names = table.column_names

    def column(name: str) -> Any:
        return table.column(name).to_numpy()

    return ArrivalTimes(
        column("time"),
        column("input"),
        column("advancing"),
        column("given") if "given" in names else None,
        *_partitions(table.column("partition") if "partition" in names else None),
        table.column("heard").fill_null(True).to_numpy() if "heard" in names else None,
        table.column("arrived").fill_null(NONE).to_numpy() if "arrived" in names else None,
    )


def _partitions(column: pa.ChunkedArray | None) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    """The partition code of each event, -1 where it has none, and the partition name of each code."""
    if column is None:
        return None, ()
    whole = column.unify_dictionaries().combine_chunks()
    codes = whole.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return codes, tuple(whole.dictionary.to_pylist())
