"""Event times: from columns of every kind, as datetimes, and as text."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windowing.timestamps import (
    EARLIEST,
    FOREVER,
    LATEST,
    from_column,
    from_datetime,
    is_time,
    show,
    to_column,
    to_datetime,
)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([-1, 2], pa.int8()), [-1_000, 2_000]),
        (pa.array([1, 2], pa.uint32()), [1_000, 2_000]),
        (pa.array([1_700_000_000_000], pa.int64()), [1_700_000_000_000_000]),
        (pa.array([2], pa.uint64()), [2_000]),
        (pa.array([-2, 3], pa.timestamp("s")), [-2_000_000, 3_000_000]),
        (pa.array([3], pa.timestamp("ms", "Europe/Berlin")), [3_000]),
        (pa.array([3], pa.timestamp("us", "UTC")), [3]),
        (pa.array([-1, 1, 1_999], pa.timestamp("ns")), [-1, 0, 1]),
        (pa.array([date(1970, 1, 2), date(1969, 12, 31)], pa.date32()), [86_400_000_000, -86_400_000_000]),
        (pa.array([date(1970, 1, 2)], pa.date64()), [86_400_000_000]),
        (pa.chunked_array([[1], [2, 3]]), [1_000, 2_000, 3_000]),
        (pa.chunked_array([], pa.int64()), []),
        (pa.array([1, 2, 3]).slice(1, 1), [2_000]),
    ],
)
def test_columns_that_give_event_times(column: Any, expected: list[int]) -> None:
    times, reasons = from_column(column)
    assert times.dtype == np.int64
    assert times.tolist() == expected
    assert reasons is None
    assert is_time(column.type)


@pytest.mark.parametrize("kind", [pa.string(), pa.float64(), pa.bool_(), pa.decimal128(5, 0), pa.time64("us")])
def test_columns_that_do_not(kind: pa.DataType) -> None:
    assert not is_time(kind)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([5, None, 2**62], pa.int64()),
        pa.array([5, None, -(2**62)], pa.int64()),
        pa.array([5, None, 2**64 - 1], pa.uint64()),
        pa.chunked_array([pa.array([5, None], pa.int64()), pa.array([2**62])]),
        pa.array([5, None, 2**62], pa.timestamp("ms")),
    ],
)
def test_nulls_and_times_out_of_range_have_a_reason_and_the_others_a_time(column: Any) -> None:
    times, reasons = from_column(column)
    assert times.tolist() == [5_000, 0, 0]
    assert reasons is not None
    assert reasons.tolist() == ["", "timestamp is null", "timestamp outside the years 1 to 9999"]


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_the_years_1_and_9999_are_in_range_and_what_is_beyond_is_not(unit: str) -> None:
    scale = {"s": 1_000_000, "ms": 1_000, "us": 1}[unit]
    low, high = -(-EARLIEST // scale), LATEST // scale
    times, reasons = from_column(pa.array([low, high, low - 1, high + 1], pa.int64()).cast(pa.timestamp(unit)))
    assert times[:2].tolist() == [low * scale, high * scale]
    assert reasons is not None
    assert [bool(reason) for reason in reasons] == [False, False, True, True]


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))))
def test_every_row_has_a_time_or_a_reason(values: list[int | None]) -> None:
    times, reasons = from_column(pa.array(values, pa.int64()))
    good = ["" for _ in values] if reasons is None else reasons.tolist()
    for value, time, reason in zip(values, times.tolist(), good, strict=True):
        if value is not None and EARLIEST <= value * 1000 <= LATEST:
            assert (time, reason) == (value * 1000, "")
        else:
            assert time == 0
            assert ("null" in reason) == (value is None)
            assert reason


@given(st.integers(EARLIEST, LATEST))
def test_datetimes_go_both_ways(micros: int) -> None:
    moment = to_datetime(micros)
    assert moment.tzinfo is UTC
    assert from_datetime(moment) == micros
    assert from_datetime(moment.replace(tzinfo=None)) == micros
    assert to_column(np.array([micros])).to_pylist() == [moment]


def test_a_datetime_of_another_zone_is_the_same_moment() -> None:
    tokyo = timezone(timedelta(hours=9))
    assert from_datetime(datetime(1970, 1, 1, 9, tzinfo=tokyo)) == 0


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (None, "none yet"),
        (FOREVER, "the end"),
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000001Z"),
        (1_000, "1970-01-01T00:00:00.001Z"),
        (-1_000_000, "1969-12-31T23:59:59Z"),
        (LATEST + 1, f"{LATEST + 1} us"),
    ],
)
def test_times_for_people(micros: int | None, text: str) -> None:
    assert show(micros) == text
