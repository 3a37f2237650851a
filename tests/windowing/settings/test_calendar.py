"""Times of day at which calendar windows begin: which can be, and how long the shifts between them are."""

from __future__ import annotations

from typing import Any

import pytest

from windowing.errors import ConfigError
from windowing.settings.kinds import Calendar

HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("at", "lengths"),
    [
        ([], (24,)),
        (["06:00"], (24,)),
        (["22:00", "06:00", "14:00"], (8, 8, 8)),
        (("05:00", "22:30:00"), (17.5, 6.5)),
    ],
)
def test_shifts_are_as_long_as_it_is_to_the_next(at: Any, lengths: tuple[float, ...]) -> None:
    kind = Calendar("day", "Europe/Berlin", at=at)
    assert list(kind.at) == sorted(at)
    assert tuple(micros / HOUR for micros in kind.shift_lengths) == lengths
    longest = kind.declared_length
    assert longest is not None
    assert longest.micros == max(lengths) * HOUR


def test_seconds_may_be_told() -> None:
    assert Calendar("day", "UTC", at=["00:00:01", "23:59"]).begins == (1_000_000, 24 * HOUR - 60_000_000)


def test_what_is_shown_can_be_pasted() -> None:
    kind = Calendar("day", "Europe/Berlin", at=["06:00"])
    assert eval(repr(kind)) == kind


@pytest.mark.parametrize(
    ("unit", "at", "problem"),
    [
        ("hour", ["06:00"], "times of day divide days.*Calendar\\('day', 'UTC', at=...\\)"),
        ("week", ["06:00"], "times of day divide days"),
        ("day", ["6:00"], "at='6:00' is not a time of day"),
        ("day", ["24:00"], "from 00:00 to 23:59:59"),
        ("day", ["06:00Z"], "is not a time of day"),
        ("day", ["06:00", "06:00:00"], "has 06:00 twice"),
        ("day", "06:00", r"write at=\['06:00'\]"),
    ],
)
def test_what_is_no_time_of_day_is_refused(unit: Any, at: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Calendar(unit, "UTC", at=at)


@pytest.mark.parametrize(
    ("unit", "given", "problem"),
    [
        ("week", {"first_day": "sun"}, "first_day='sun'.*sunday"),
        ("year", {"first_month": 0}, "first_month=0.*from 1 to 12"),
        ("year", {"first_month": 13}, "first_month=13"),
        ("day", {"last": 0}, "last=0.*one unit or more.*from 1 to 1000"),
        ("day", {"last": True}, "last=True"),
        ("day", {"last": 1001}, "last=1001"),
        ("month", {"first_day": "sunday"}, "first_day=.*where a week begins"),
        ("month", {"first_month": 4}, r"where a quarter or a year begins.*Calendar\('year', 'UTC', first_month=...\)"),
    ],
)
def test_what_cannot_begin_so_is_refused(unit: Any, given: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Calendar(unit, "UTC", **given)


@pytest.mark.parametrize(
    "kind",
    [
        Calendar("week", "UTC", first_day="sunday"),
        Calendar("quarter", "UTC", first_month=4),
        Calendar("year", "UTC", first_month=4, last=2),
    ],
    ids=repr,
)
def test_what_begins_elsewhere_can_be_pasted_and_is_said(kind: Calendar) -> None:
    assert eval(repr(kind)) == kind
    assert "from Sunday on" in kind.in_words() or "from month 4 on" in kind.in_words()


@pytest.mark.parametrize(
    ("kind", "hours"),
    [
        (Calendar("day", "UTC", last=7), 7 * 24),
        (Calendar("day", "UTC", at=["05:00", "22:30"], last=1), 17.5),
        (Calendar("day", "UTC", at=["05:00", "22:30"], last=3), 24 + 17.5),
        (Calendar("month", "UTC", last=3), 3 * 31 * 24),
        (Calendar("hour", "UTC", last=5), 5),
    ],
    ids=repr,
)
def test_rolling_windows_are_as_long_as_their_units(kind: Calendar, hours: float) -> None:
    assert kind.declared_length.micros == hours * HOUR
    assert kind.period.micros <= 31 * 24 * HOUR
    assert kind.reach > kind.declared_length.micros
    assert eval(repr(kind)) == kind
    assert kind.last == 1 or f"the last {kind.last} {kind.unit}s" in kind.in_words()
