"""Converts Arrow times to the declared timestamp: any unit, any zone, dates, and whole milliseconds."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from topologies.io.formats.isolate import Converted, Flags, Mask, blank, either, flagged, valid
from windowing.time.zones import offsets_of_wall_times

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SECONDS_PER_DAY = 86_400
_FIRST_DAY, _AFTER_DAY = -719_162, 2_932_897
"""The days since 1970-01-01 of 0001-01-01 and of 10000-01-01."""


def from_timestamps(values: pa.Array, target: pa.DataType) -> Converted:
    """A timestamp column in another unit or zone; one without a zone is of the zone of ``target``.

    A coarser unit truncates towards minus infinity (1.5 us -> 1 us, -0.5 us -> -1 us), and the time is flagged as cut.
    A time that the finer unit cannot represent is bad.
    """
    if values.type.tz is None and target.tz not in (None, "UTC"):
        moments, bad = from_timestamps(values, pa.timestamp(target.unit))
        return from_wall_times(moments, target), bad
    have, want = _PER_SECOND[values.type.unit], _PER_SECOND[target.unit]
    ticks = values.view(pa.int64())
    if have == want:
        return ticks.view(target), None
    if have > want:
        raw, factor = _numpy(ticks), have // want
        coarse = raw // factor
        return _typed(coarse, ticks, target), flagged(coarse * factor != raw)
    return _multiplied(ticks, want // have, target)


def from_wall_times(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Timestamps without a zone as those of the zone of ``target``, which are UTC if that has none.

    Of a time that is there twice the first is taken; one that is skipped counts from before the clocks were changed.
    """
    if target.tz in (None, "UTC"):
        return values.view(pa.int64()).view(target)
    wall = _numpy(values.view(pa.int64()))
    scale = _PER_SECOND[target.unit]
    offsets = offsets_of_wall_times(wall // scale, target.tz)
    return _typed(wall - offsets * scale, values.view(pa.int64()), target)


def from_milliseconds(values: pa.Array, target: pa.DataType) -> Converted:
    """Whole numbers, milliseconds since the epoch, as timestamps."""
    return from_timestamps(values.cast(pa.int64()).view(pa.timestamp("ms", "UTC")), target)


def from_dates(values: pa.Array, target: pa.DataType) -> Converted:
    """Dates as their midnight, in the zone of ``target``."""
    if pa.types.is_date64(values.type):
        return from_timestamps(values.view(pa.int64()).view(pa.timestamp("ms")), target)
    days = values.view(pa.int32()).cast(pa.int64())
    midnights, bad = _multiplied(days, _SECONDS_PER_DAY * _PER_SECOND[target.unit], pa.timestamp(target.unit))
    return from_wall_times(midnights, target), bad


def within_calendar(values: pa.Array, bad: Flags | None = None) -> Converted:
    """The values and a mask in which dates and timestamps outside the years 1 to 9999 are bad, because Python, SQL and
    ISO 8601 cannot represent them."""
    kind = values.type
    if pa.types.is_date32(kind):
        low, high, ticks = _FIRST_DAY, _AFTER_DAY, values.view(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        scale = _SECONDS_PER_DAY * _PER_SECOND["ms" if pa.types.is_date64(kind) else kind.unit]
        low, high, ticks = _FIRST_DAY * scale, _AFTER_DAY * scale, values.view(pa.int64())
    else:
        return values, bad
    bounds = pc.min_max(ticks)
    if not bounds["min"].is_valid or (low <= bounds["min"].as_py() and bounds["max"].as_py() < high):
        return values, bad
    raw = _numpy(ticks)
    beyond: Mask = ((raw < low) | (raw > high - 1)) & valid(values)
    return blank(values, beyond), either(bad, beyond)


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
