"""The session gaps of events, where each event has its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from topologies.engine.time.reasons import Reasons, reasons_of
from windowing.settings.kinds import Session, WindowKind
from windowing.time.timestamps import LATEST

if TYPE_CHECKING:
    from numpy.typing import NDArray


def session_gaps(
    kinds: Sequence[WindowKind], table: pa.Table, times: NDArray[np.int64]
) -> tuple[NDArray[np.int64] | None, list[Reasons]]:
    """The session gap of each event in microseconds; None where all events share one gap. ``kinds`` are the windows of
    the bolt."""
    own_gaps = next((kind for kind in kinds if isinstance(kind, Session) and kind.gap_field is not None), None)
    if own_gaps is None or own_gaps.gap_field is None:
        return None, []
    name, usual = own_gaps.gap_field, own_gaps.gap.micros
    if name not in table.column_names:
        return np.full(table.num_rows, usual, np.int64), []
    column = table.column(name).combine_chunks()
    scale = 1 if pa.types.is_duration(column.type) else 1_000
    if pa.types.is_duration(column.type):
        values = column.cast(pa.duration("us"), safe=False).cast(pa.int64())
    else:
        values = column.cast(pa.int64(), safe=False)
    gaps = values.fill_null(usual if scale == 1 else -(-usual // scale)).to_numpy(zero_copy_only=False)
    short, long = gaps <= 0, gaps > (LATEST - times) // scale
    own = ~(short | long | column.is_null().to_numpy(zero_copy_only=False))
    wrong = [
        reasons_of(short, "its session gap is not above zero"),
        reasons_of(long, "its session would end after the year 9999"),
    ]
    return np.asarray(np.where(own, gaps * scale, usual), np.int64), wrong
