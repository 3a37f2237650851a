"""Durations and counts: what is accepted, what is refused, and how they are written."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowing
from windowing import ConfigError, Count, Duration, days, hours, micros, millis, minutes, parse_duration, seconds
from windowing.durations import as_duration, as_extent

NUMPY: Any = np.int64(2)


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        (micros(7), 7),
        (millis(2), 2_000),
        (millis(0.5), 500),
        (seconds(1.5), 1_500_000),
        (seconds(NUMPY), 2_000_000),
        (seconds(np.float64(0.25)), 250_000),
        (minutes(2), 120_000_000),
        (hours(0.5), 1_800_000_000),
        (days(1), 86_400_000_000),
    ],
)
def test_units(duration: Duration, expected: int) -> None:
    assert duration.micros == expected


@given(st.integers(0, 10**9))
def test_decimal_fractions_are_what_they_are_written_as(number: int) -> None:
    assert seconds(number / 1000) == millis(number)
    assert millis(number / 1000) == micros(number)


@given(st.integers(0, 10**17))
def test_the_text_and_the_repr_of_a_duration_are_read_back(number: int) -> None:
    duration = micros(number)
    assert parse_duration(str(duration)) == duration
    assert eval(repr(duration), vars(windowing)) == duration


@pytest.mark.parametrize(
    ("text", "expected"), [("150us", 150), ("20ms", 20_000), (" 5 s ", 5_000_000), ("0s", 0), ("2m", 120_000_000)]
)
def test_texts(text: str, expected: int) -> None:
    assert parse_duration(text).micros == expected


@given(st.integers(0, 10**9), st.integers(0, 6))
def test_a_text_with_a_fraction_is_the_number_that_it_says(number: int, places: int) -> None:
    text = f"{number // 10**places}.{number % 10**places:0{places}}" if places else str(number)
    assert parse_duration(f"{text}s").micros == number * 10 ** (6 - places)
    assert parse_duration(f"{text}s") == seconds(number / 10**places)


@pytest.mark.parametrize("text", ["0.5us", "1.00001ms", "0.0000001s", "1.000000001h"])
def test_a_text_with_a_fraction_of_a_microsecond_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=f"{text} is not a whole number of microseconds"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["5", "s", "5 sec", ".5s", "1.s", "1,5s", "1e3s", "-1.5s", "5s5s", "", "5S", "1w"])
def test_texts_that_are_no_durations(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 0.0000001, "5", None, 1e-9])
def test_numbers_that_are_no_whole_microseconds(number: Any) -> None:
    with pytest.raises(ConfigError):
        seconds(number)


@pytest.mark.parametrize("number", [-1, 1 << 70])
def test_durations_out_of_range(number: int) -> None:
    with pytest.raises(ConfigError, match="out of range"):
        micros(number)


@pytest.mark.parametrize("number", [1.0, True, "1"])
def test_microseconds_are_whole_numbers(number: Any) -> None:
    with pytest.raises(ConfigError, match="whole number"):
        Duration(number)


@pytest.mark.feature("ST-24")
@pytest.mark.parametrize("value", [0, -1, True, 1.0, "5"])
def test_counts_that_are_none(value: Any) -> None:
    with pytest.raises(ConfigError, match="positive whole number"):
        Count(value)


def test_a_bare_number_is_a_count_and_never_a_duration() -> None:
    assert as_extent(5) == Count(5)
    assert as_extent("5s") == as_extent(timedelta(seconds=5)) == seconds(5)
    with pytest.raises(ConfigError, match="no unit"):
        as_duration(5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no unit"):
        as_extent(5.0)  # type: ignore[arg-type]


@pytest.mark.feature("ST-24")
@pytest.mark.parametrize("value", ["0s", timedelta(0), Duration(0)])
def test_a_length_of_zero_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="zero"):
        as_extent(value)


def test_a_negative_timedelta_is_refused() -> None:
    with pytest.raises(ConfigError, match="out of range"):
        as_duration(timedelta(seconds=-1))


def test_they_are_ordered_and_hashable() -> None:
    assert seconds(1) < minutes(1)
    assert len({seconds(60), minutes(1), Count(1), Count(1)}) == 2
    assert str(Count(3)) == "3 events"
    assert [str(each) for each in (micros(0), millis(1500), minutes(60), hours(36))] == ["0s", "1500ms", "1h", "36h"]
