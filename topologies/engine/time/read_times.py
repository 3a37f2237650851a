"""The time of each event, by the field or extractor of its bolt."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from manager.outside.transient import is_of_events
from topologies.engine.time.reasons import Reasons, first_reasons, reasons_of
from topologies.graph.nodes.windowed import WindowedNode
from windowing.data.tuples import Tuple
from windowing.errors import ConfigError
from windowing.time.durations import Duration
from windowing.time.timestamps import EARLIEST, LATEST, finer, from_column, from_datetime, is_time

if TYPE_CHECKING:
    from numpy.typing import NDArray


_NO_TIMES = (bool, np.bool_, float, np.floating, Decimal)
"""Numbers that are no milliseconds: as whole ones, seconds with a fraction would be times of January 1970."""
_TOO_FINE = "its time is finer than a microsecond, and on_truncation='error' cuts nothing"
_FINER = ("ns", "ps", "fs", "as")
"""The units of NumPy that are finer than microseconds."""
_FAR = 1 << 62
"""A time in microseconds later than any event time; out of range, but it fits into 64 bits."""


class Read(NamedTuple):
    """The times of rows, in microseconds."""

    times: NDArray[np.int64]
    reasons: Reasons
    """Why a row has no time."""
    cut: NDArray[np.bool_] | None = None
    """Which times were finer than microseconds; None where none was."""


def read_times(node: WindowedNode, table: pa.Table) -> Read:
    """The time of each row, by the bolt's field or extractor."""
    read = _times(node, table)
    if read.cut is not None and node.bolt.settings.extractor_on_truncation == "error":
        reasons = first_reasons(read.reasons, reasons_of(read.cut, _TOO_FINE))
        read = Read(np.where(read.cut, 0, read.times), reasons)
    return Read(*_inside(node, read.times, read.reasons), read.cut)


def _of_column(column: pa.Array | pa.ChunkedArray) -> Read:
    return Read(*from_column(column), finer(column))


def _times(node: WindowedNode, table: pa.Table) -> Read:
    settings = node.bolt.settings
    if settings.timestamp_field is not None:
        return _of_column(table.column(settings.timestamp_field))
    extractor = settings.timestamp_extractor
    assert extractor is not None
    if settings.extractor_on_columns:
        return _of_columns(node, extractor, table)
    return _each_time(node, extractor, table)


def _of_columns(node: WindowedNode, extractor: Any, table: pa.Table) -> Read:
    """Call the extractor for the table; if it fails, and its errors go to their stream, for each half of it."""
    try:
        column = extractor(table)
        if not isinstance(column, (pa.Array, pa.ChunkedArray)):
            column = pa.array(column)
    except Exception as error:
        if node.bolt.settings.extractor_on_error != "errors" or not is_of_events(error):
            raise
        if table.num_rows == 1:
            return Read(np.zeros(1, np.int64), np.array([_failure(error)], dtype=object))
        middle = table.num_rows // 2
        halves = [_of_columns(node, extractor, half) for half in (table.slice(0, middle), table.slice(middle))]
        reasons = [np.full(len(times), "", dtype=object) if why is None else why for times, why, _ in halves]
        cut = [np.zeros(len(times), np.bool_) if fine is None else fine for times, _, fine in halves]
        return Read(np.concatenate([half.times for half in halves]), np.concatenate(reasons), np.concatenate(cut))
    if not is_time(column.type):
        raise _wrong_type(node, f"a column of {column.type}")
    if len(column) != table.num_rows:
        raise ConfigError(
            f"the timestamp extractor of bolt {node.name!r} returned {len(column)} times for {table.num_rows} rows",
            do="return one time per row",
        )
    return _of_column(column)


class _WrongType(ConfigError):
    """An extractor returns what is no time, for any event."""


def _wrong_type(node: WindowedNode, returned: str) -> ConfigError:
    return _WrongType(
        f"the timestamp extractor of bolt {node.name!r} returned {returned}",
        why="event times are timestamps, dates, or whole numbers of milliseconds",
        do="return one of these; of seconds, round(1000 * seconds)",
    )


def _failure(error: Exception) -> str:
    return f"the timestamp extractor failed: {type(error).__name__}: {error}"


def _inside(node: WindowedNode, times: NDArray[np.int64], reasons: Reasons) -> tuple[NDArray[np.int64], Reasons]:
    """Mark as invalid the times so close to the year 1 or 9999 that a window holding them would exceed the range."""
    settings = node.bolt.settings
    margin = sum(extent.micros for extent in (settings.length, settings.slide) if isinstance(extent, Duration))
    margin = max([margin, *(kind.reach for kind in settings.kinds)])
    outside = (times < EARLIEST + margin) | (times > LATEST - margin)
    if not margin or not outside.any():
        return times, reasons
    beyond = reasons_of(outside, "timestamp so near to the year 1 or 9999 that its window would lie beyond")
    return np.where(outside, 0, times), first_reasons(reasons, beyond)


def _each_time(node: WindowedNode, extractor: Any, table: pa.Table) -> Read:
    """Call the extractor for each row. A row on which it fails is invalid, with the exception as the reason."""
    stop = node.bolt.settings.extractor_on_error == "stop"
    values: list[int | None] = []
    failures: dict[int, str] = {}
    cut = np.zeros(table.num_rows, np.bool_)
    for index, row in enumerate(table.to_pylist()):
        value: int | None = None
        try:
            extracted = extractor(Tuple(row, 0, ""))
            if isinstance(extracted, datetime):
                if extracted == extracted:  # noqa: PLR0124 - NaT of pandas is a datetime, and not equal to itself
                    value = from_datetime(extracted)
                    cut[index] = bool(getattr(extracted, "nanosecond", 0))  # of pandas
            elif isinstance(extracted, np.datetime64):
                value, cut[index] = _of_numpy(extracted)
            elif isinstance(extracted, _NO_TIMES):
                raise _wrong_type(node, f"{extracted!r:.60}, which is {type(extracted).__name__}")
            elif extracted is not None:
                value = int(extracted) * 1_000
            values.append(None if value is None else max(min(value, _FAR), -_FAR))
        except _WrongType:
            raise
        except Exception as error:
            if stop or not is_of_events(error):
                raise
            failures[index] = _failure(error)
            values.append(None)
    times, reasons = from_column(pa.array(values, pa.int64()).cast(pa.timestamp("us")))
    if failures:
        assert reasons is not None
        for index, failure in failures.items():
            reasons[index] = failure
    return Read(times, reasons, cut if cut.any() else None)


def _of_numpy(moment: np.datetime64) -> tuple[int | None, bool]:
    """A time of NumPy in microseconds, None for NaT, and whether it was finer. As a whole number it would count its own
    unit."""
    if np.isnat(moment):
        return None, False
    micros = moment.astype("datetime64[us]")
    if np.datetime_data(moment.dtype)[0] in _FINER:
        return int(micros.astype(np.int64)), bool(micros != moment)
    if micros.astype(moment.dtype) != moment:  # so far away that NumPy has begun to count again
        return _FAR, False
    return int(micros.astype(np.int64)), False
