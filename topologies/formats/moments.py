"""Arrow times to the declared timestamp: any unit, any zone, dates, and whole milliseconds."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from topologies.formats.isolate import Converted, Mask, valid

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SECONDS_PER_DAY = 86_400


def from_timestamps(values: pa.Array, target: pa.DataType) -> Converted:
    """A timestamp column in another unit or zone; one without a zone is UTC.

    To a coarser unit, time is cut towards minus infinity (1.5 us -> 1 us, -0.5 us -> -1 us). A time that the
    finer unit cannot hold is bad.
    """
    have, want = _PER_SECOND[values.type.unit], _PER_SECOND[target.unit]
    ticks = values.view(pa.int64())
    if have == want:
        return ticks.view(target), None
    if have > want:
        return _typed(_numpy(ticks) // (have // want), ticks, target), None
    return _multiplied(ticks, want // have, target)


def from_milliseconds(values: pa.Array, target: pa.DataType) -> Converted:
    """Whole numbers, milliseconds since the epoch, as timestamps."""
    return from_timestamps(values.cast(pa.int64()).view(pa.timestamp("ms")), target)


def from_dates(values: pa.Array, target: pa.DataType) -> Converted:
    """Dates as their midnight, UTC."""
    if pa.types.is_date64(values.type):
        return from_timestamps(values.view(pa.int64()).view(pa.timestamp("ms")), target)
    days = values.view(pa.int32()).cast(pa.int64())
    return _multiplied(days, _SECONDS_PER_DAY * _PER_SECOND[target.unit], target)


def _multiplied(ticks: pa.Array, factor: int, target: pa.DataType) -> Converted:
    with suppress(pa.ArrowInvalid):
        return pc.multiply_checked(ticks, pa.scalar(factor, pa.int64())).view(target), None
    raw = _numpy(ticks)
    most = np.iinfo(np.int64).max // factor
    beyond: Mask = (raw > most) | (raw < -most)
    beyond &= valid(ticks)
    return _typed(np.where(beyond, 0, raw) * factor, ticks, target, beyond), beyond


def _numpy(ticks: pa.Array) -> npt.NDArray[np.int64]:
    filled = ticks.fill_null(0) if ticks.null_count else ticks
    raw: npt.NDArray[np.int64] = filled.to_numpy(zero_copy_only=False)
    return raw


def _typed(raw: npt.NDArray[np.int64], ticks: pa.Array, target: pa.DataType, beyond: Mask | None = None) -> pa.Array:
    absent = ~valid(ticks) if ticks.null_count else None
    if beyond is not None:
        absent = beyond if absent is None else absent | beyond
    return pa.array(raw, pa.int64(), mask=absent).view(target)
