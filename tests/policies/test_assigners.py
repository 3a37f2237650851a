"""Windows that are formed from live events: the worked cases, and random ones against a slow oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from unittest import mock
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.assigners import (
    AlignedWindows,
    CalendarWindows,
    CountByStartWindows,
    CountedWindows,
    LiveEvents,
    SessionWindows,
    SlidingLogWindows,
    SnapshotWindows,
    WindowAssigner,
    aligned,
)
from tests.helpers.examples import examples
from tests.oracles import assigner_oracle as oracle
from tests.oracles.assigner_oracle import Happening
from windowing.daytimes import DayTime
from windowing.durations import Count, Duration, hours, micros, millis, minutes, parse_duration, seconds
from windowing.errors import ConfigError
from windowing.settings.rules import Bounds
from windowing.timestamps import EARLIEST, FOREVER, LATEST, from_datetime

SECOND = 1_000_000
MINUTE = 60 * SECOND
BEFORE = -FOREVER


def live(starts: list[int], unit: int = 1, ends: list[int] | None = None, keys: list[int] | None = None) -> LiveEvents:
    return LiveEvents(
        np.array(starts, dtype=np.int64) * unit,
        None if keys is None else np.array(keys, dtype=np.int64),
        None if ends is None else np.array([end if end == FOREVER else end * unit for end in ends], dtype=np.int64),
    )


def formed(
    kind: WindowAssigner, events: LiveEvents, unit: int = 1, after: int = BEFORE, upto: int = FOREVER
) -> list[tuple[int, int, list[int]]]:
    """Start, end and the places of the members of each window; times in whole units."""
    found = []
    for piece in kind.assign(events, after, upto):
        for number in range(len(piece)):
            members = piece.members[piece.offsets[number] : piece.offsets[number + 1]].tolist()
            found.append((int(piece.starts[number]) // unit, int(piece.ends[number]) // unit, members))
    return found


# The worked cases.


def test_a_tumbling_window_starts_where_the_last_one_ended() -> None:
    """AT-1."""
    kind = AlignedWindows(seconds(3), seconds(3), Bounds.START)
    found = formed(kind, live([0, 1500, 2999, 3000, 5000, 6000], 1000), SECOND)
    assert found == [(0, 3, [0, 1, 2]), (3, 6, [3, 4]), (6, 9, [5])]


HOPPING = live([1000, 7000, 19_999, 20_000, 24_000], 1000)


def test_hopping_windows_that_overlap_are_aligned_to_the_epoch() -> None:
    """atlas-hopping-overlap-20-5 (AT-2, AT-3)."""
    found = formed(AlignedWindows(seconds(20), seconds(5), Bounds.START), HOPPING, SECOND)
    assert found == [
        (-15, 5, [0]),
        (-10, 10, [0, 1]),
        (-5, 15, [0, 1]),
        (0, 20, [0, 1, 2]),
        (5, 25, [1, 2, 3, 4]),
        (10, 30, [2, 3, 4]),
        (15, 35, [2, 3, 4]),
        (20, 40, [3, 4]),
    ]


def test_with_an_origin_no_window_starts_before_it() -> None:
    """atlas-hopping-overlap-20-5, anchored at the start (AT-3)."""
    found = formed(AlignedWindows(seconds(20), seconds(5), Bounds.START, origin=0), HOPPING, SECOND)
    assert [start for start, _, _ in found] == [0, 5, 10, 15, 20]
    assert found[0] == (0, 20, [0, 1, 2])


@pytest.mark.parametrize("setting", [{"origin": 0}, {"offset": seconds(3)}], ids=["origin", "offset"])
def test_events_in_the_gaps_between_windows_are_in_none(setting: dict) -> None:
    """atlas-hopping-gaps-3-5 (AT-4)."""
    kind = AlignedWindows(seconds(3), seconds(5), Bounds.START, **setting)
    events = live([0, 2900, 3000, 4900, 5000, 7900, 8000], 1000)
    assert formed(kind, events, SECOND) == [(0, 3, [0, 1]), (5, 8, [4, 5])]
    assert kind.finished(events, 0).tolist() == [False, False, True, True, False, False, True]


def test_an_offset_moves_the_days() -> None:
    """atlas-offset-8h-days (AT-8)."""
    day = parse_duration("1d")
    kind = AlignedWindows(day, day, Bounds.START, offset=hours(8))
    found = formed(kind, live([8 * 3600 - 1, 8 * 3600], SECOND), 3600 * SECOND)
    assert found == [(-16, 8, [0]), (8, 32, [1])]


def test_azure_windows_hold_their_end_and_not_their_start() -> None:
    """azure-hopping-10-5 (AZ-19, AZ-20)."""
    found = formed(AlignedWindows(seconds(10), seconds(5)), live([3, 5, 10, 11], SECOND), SECOND)
    assert found == [(-5, 5, [0, 1]), (0, 10, [0, 1, 2]), (5, 15, [2, 3]), (10, 20, [3])]


def test_an_interval_is_in_every_window_it_touches() -> None:
    """SI-27."""
    kind = AlignedWindows(seconds(10), seconds(5), Bounds.START)
    found = formed(kind, live([8], SECOND, ends=[12]), SECOND)
    assert found == [(0, 10, [0]), (5, 15, [0]), (10, 20, [0])]


def test_an_endless_interval_is_in_every_window_that_is_due() -> None:
    kind = AlignedWindows(seconds(10), seconds(5), Bounds.START)
    events = live([8, 21], SECOND, ends=[FOREVER, 23])
    assert [end for _, end, _ in formed(kind, events, SECOND, 20 * SECOND, 41 * SECOND)] == [25, 30, 35, 40]
    assert not kind.finished(events, LATEST)[0]
    # At the end of the streams it lasts as long as the other, of which [20, 30) is the last window.
    assert [end for _, end, _ in formed(kind, events, SECOND)] == [10, 15, 20, 25, 30]
    assert kind.finished(events, FOREVER).all()


def test_an_event_is_in_no_window_that_was_over_when_it_came() -> None:
    kind = AlignedWindows(seconds(10), seconds(5))
    events = LiveEvents(np.array([3, 3]) * SECOND, closed_until=np.array([BEFORE, 5 * SECOND]))
    assert formed(kind, events, SECOND) == [(-5, 5, [0]), (0, 10, [0, 1])]
    assert kind.next_end(LiveEvents(np.array([3 * SECOND]), closed_until=np.array([5 * SECOND])), BEFORE) == 10 * SECOND


def test_each_key_has_its_own_limits() -> None:
    kind = AlignedWindows(micros(10), micros(10))
    events = live([5, 15, 5, 15], keys=[1, 1, 2, 2])
    pieces = list(kind.assign(events, np.array([0, 0, 10, 10]), np.array([10, 10, 20, 20])))
    assert [(piece.ends.tolist(), piece.members.tolist()) for piece in pieces] == [([10, 20], [0, 3])]


def test_a_session_ends_the_gap_after_its_last_event() -> None:
    """atlas-session-close-0140 (AT-5)."""
    kind = SessionWindows(hours(1))
    events = live([10 * 60, 40 * 60, 99 * 60 + 59, 100 * 60], SECOND, keys=[0, 0, 1, 1])
    assert formed(kind, events, MINUTE, upto=100 * MINUTE) == [(10, 100, [0, 1])]
    assert kind.finished(events, 100 * MINUTE).tolist() == [True, True, False, False]
    assert kind.next_end(events, 100 * MINUTE) == 160 * MINUTE
    assert formed(kind, events, SECOND, after=100 * MINUTE) == [(5999, 9600, [2, 3])]


def test_an_event_between_two_sessions_merges_them() -> None:
    """AT-6."""
    kind = SessionWindows(micros(10))
    assert formed(kind, live([0, 15])) == [(0, 10, [0]), (15, 25, [1])]
    assert formed(kind, live([0, 8, 15])) == [(0, 25, [0, 1, 2])]


def test_sessions_of_the_universal_handler_merge() -> None:
    """uh-session-merge (UH-12)."""
    found = formed(SessionWindows(millis(100), touching=True), live([0, 60, 150, 300], 1000), 1000)
    assert found == [(0, 250, [0, 1, 2]), (300, 400, [3])]


def test_events_the_gap_apart_join_only_where_sessions_touch() -> None:
    assert formed(SessionWindows(micros(10)), live([0, 10])) == [(0, 10, [0]), (10, 20, [1])]
    assert formed(SessionWindows(micros(10), touching=True), live([0, 10])) == [(0, 20, [0, 1])]


@pytest.mark.parametrize("touching", [False, True])
def test_an_event_at_the_end_of_a_session_is_in_time_unless_sessions_touch(touching: bool) -> None:
    kind = SessionWindows(micros(10), touching=touching)
    is_the_same = (0, 10, [0]) in formed(kind, live([0, 10]))
    assert kind.takes_events_at_the_watermark == is_the_same
    assert not SessionWindows(micros(10), touching=touching, max_duration=micros(30)).takes_events_at_the_watermark


def test_each_event_may_bring_its_gap() -> None:
    events = LiveEvents(np.array([0, 2, 20, 40]), gaps=np.array([30, 1, 5, 7]))
    assert formed(SessionWindows(micros(1)), events) == [(0, 30, [0, 1, 2]), (40, 47, [3])]


AZURE = SessionWindows(minutes(5), max_duration=minutes(10))


def test_azure_closes_a_session_that_lasts_too_long_at_a_check_point() -> None:
    """azure-session-timeout5-max10 (AZ-22)."""
    found = formed(AZURE, live([1, 4, 8, 12, 16, 19, 22, 40], MINUTE), MINUTE)
    assert found == [(1, 20, [0, 1, 2, 3, 4, 5]), (20, 27, [6]), (40, 45, [7])]


def test_an_event_at_the_check_point_is_in_the_session_that_ends_there() -> None:
    found = formed(AZURE, live([1, 4, 8, 12, 16, 20, 22], MINUTE), MINUTE)
    assert found == [(1, 20, [0, 1, 2, 3, 4, 5]), (20, 27, [6])]


def test_the_session_after_a_check_point_waits_for_the_gap_and_no_longer() -> None:
    busy = [1, 4, 8, 12, 16, 19]
    assert formed(AZURE, live(busy, MINUTE), MINUTE)[-1][:2] == (1, 20)
    assert formed(AZURE, live([*busy, 24], MINUTE), MINUTE)[-1] == (20, 29, [6])
    assert formed(AZURE, live([*busy, 25], MINUTE), MINUTE)[-1] == (25, 30, [6])


def test_a_session_that_touches_the_wait_after_a_check_point_still_opens_there() -> None:
    kind = SessionWindows(minutes(5), touching=True, max_duration=minutes(10))
    busy = [1, 4, 8, 12, 16, 19]
    assert not kind.finished(live(busy, MINUTE), 25 * MINUTE - 1).any()
    assert formed(kind, live([*busy, 25], MINUTE), MINUTE, after=25 * MINUTE - 1) == [(20, 30, [6])]
    assert kind.finished(live(busy, MINUTE), 25 * MINUTE).all(), "as with any session, what comes now begins anew"


def test_a_session_without_end_is_cut_all_along_and_few_events_stay() -> None:
    events = live(list(range(100_000)), MINUTE)
    found = formed(AZURE, events, MINUTE, upto=99_990 * MINUTE)
    assert [window[:2] for window in found[:3]] == [(0, 20), (20, 40), (40, 60)]
    assert (~AZURE.finished(events, 99_990 * MINUTE)).sum() < 40


def test_snapshots_change_with_the_lifetimes() -> None:
    """si-snapshot-window (SI-29)."""
    found = formed(SnapshotWindows(), live([0, 4, 12], SECOND, ends=[10, 14, 16]), SECOND)
    assert found == [(0, 4, [0]), (4, 10, [0, 1]), (10, 12, [1]), (12, 14, [1, 2]), (14, 16, [2])]


def test_the_events_of_one_time_are_a_snapshot() -> None:
    """azure-snapshot-window (AZ-25)."""
    found = formed(SnapshotWindows(Bounds.END), live([0, 0, MINUTE]))
    assert found == [(-1, 0, [0, 1]), (MINUTE - 1, MINUTE, [2])]
    assert formed(SnapshotWindows(), live([5, 5, 6])) == [(5, 6, [0, 1]), (6, 7, [2])]


def test_an_event_stays_as_long_as_it_alone_knows_where_a_slice_begins() -> None:
    events = live([0, 1, 4], ends=[10, 2, 5])
    kind = SnapshotWindows()
    assert kind.finished(events, 5).tolist() == [False, True, False]
    assert formed(kind, live([0, 4], ends=[10, 5]), after=5) == [(5, 10, [0])]
    assert kind.finished(events, 10).all()


def test_a_lifetime_without_length_bounds_no_slice() -> None:
    events = live([0, 2, 6], ends=[10, 4, 6])
    assert formed(SnapshotWindows(), events) == [(0, 2, [0]), (2, 4, [0, 1]), (4, 10, [0])]
    assert SnapshotWindows().finished(events, 7).tolist() == [False, False, True]


def test_the_last_slice_of_an_endless_lifetime_comes_at_the_end() -> None:
    kind, events = SnapshotWindows(), live([0, 4], ends=[FOREVER, 6])
    assert formed(kind, events, upto=LATEST) == [(0, 4, [0]), (4, 6, [0, 1])]
    assert formed(kind, events, after=6)[0][2] == [0]
    assert [piece.ends.tolist() for piece in kind.assign(events, 6, FOREVER)] == [[FOREVER]]


def test_sliding_windows_look_back_from_every_change() -> None:
    """azure-sliding-34-38-42 (AZ-21)."""
    found = formed(SlidingLogWindows(seconds(5)), live([34, 38, 42], SECOND), SECOND)
    assert [(end, members) for _, end, members in found] == [
        (34, [0]),
        (38, [0, 1]),
        (39, [1]),
        (42, [1, 2]),
        (43, [2]),
    ]


def test_windows_of_a_count_count_start_times() -> None:
    """si-count-by-start-time (SI-30)."""
    found = formed(CountByStartWindows(Count(2)), live([1, 3, 3, 7], SECOND))
    assert found == [(SECOND, 3 * SECOND + 1, [0, 1, 2]), (3 * SECOND, 7 * SECOND + 1, [1, 2, 3])]


def test_each_key_counts_its_own_events() -> None:
    """ST-2, for each key. Only events up to the limit count."""
    events = live([1, 3, 5, 2, 4, 9], SECOND, keys=[7, 7, 7, 8, 8, 8])
    kind = CountedWindows(Count(2), Count(2))
    assert formed(kind, events, SECOND, upto=4 * SECOND) == [(1, 3, [0, 1]), (2, 4, [3, 4])]
    assert kind.finished(events, 4 * SECOND).tolist() == [True, True, False, True, True, False]
    assert kind.next_end(live([5, 9, 9], SECOND, keys=[7, 8, 8]), 4 * SECOND) == 9 * SECOND


def test_events_that_have_been_in_a_window_do_not_count_for_the_next_slide() -> None:
    """ST-5: the last three at every second."""
    kind = CountedWindows(Count(3), Count(2))
    events = LiveEvents(np.array([1, 2, 3, 4]), accounted=np.array([True, False, False, False]))
    assert formed(kind, events, upto=3) == [(1, 3, [0, 1, 2])]
    assert kind.finished(events, 3).tolist() == [True, True, False, False]
    assert kind.skipped(events, 3) is None


def test_between_windows_of_a_count_events_count_and_are_in_none() -> None:
    kind, events = CountedWindows(Count(1), Count(3)), live([1, 2, 3, 4, 5])
    assert formed(kind, events, upto=4) == [(3, 3, [2])]
    assert kind.finished(events, 4).tolist() == [True, True, True, False, False]
    skipped = kind.skipped(events, 4)
    assert skipped is not None
    assert skipped.tolist() == [True, True, False, True, False]


def test_by_arrival_the_window_comes_first_that_was_full_first() -> None:
    kind = CountedWindows(Count(1), Count(1), by_arrival=True)
    events = LiveEvents(np.array([1, 1]), np.array([7, 8]), arrivals=np.array([1, 0]))
    assert formed(kind, events) == [(1, 1, [1]), (1, 1, [0])]


def local(zone: str, text: str, fold: int = 0) -> int:
    return from_datetime(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold))


@pytest.mark.parametrize(
    ("zone", "day", "start", "length"),
    [
        ("Europe/Berlin", "2024-03-31", "2024-03-31T00:00", 23),
        ("Europe/Berlin", "2024-10-27", "2024-10-27T00:00", 25),
        ("America/New_York", "2024-03-10", "2024-03-10T00:00", 23),
        ("America/New_York", "2024-11-03", "2024-11-03T00:00", 25),
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04T01:00", 23),  # there was no midnight
        ("America/Sao_Paulo", "2019-02-16", "2019-02-16T00:00", 25),
        ("Asia/Beirut", "2022-03-27", "2022-03-27T01:00", 23),
        ("America/Havana", "2023-11-05", "2023-11-05T00:00", 25),  # there were two midnights
        ("Pacific/Apia", "2011-12-31", "2011-12-31T00:00", 24),  # there was no day before
        ("Australia/Lord_Howe", "2024-10-06", "2024-10-06T00:00", 23.5),
    ],
)
def test_a_day_lasts_as_long_as_the_clocks_make_it(zone: str, day: str, start: str, length: float) -> None:
    ((begin, end, _),) = formed(CalendarWindows("day", zone), live([local(zone, day + "T12:00")]))
    assert (begin, end - begin) == (local(zone, start), length * 3600 * SECOND)


def test_the_hour_that_the_clocks_show_twice_is_two_windows() -> None:
    zone = "Europe/Berlin"
    twice = [local(zone, "2024-10-27T02:30"), local(zone, "2024-10-27T02:30", fold=1)]
    assert [end - start for start, end, _ in formed(CalendarWindows("hour", zone), live(twice))] == [3600 * SECOND] * 2


@pytest.mark.parametrize(("day", "hours"), [("2025-03-30", 167), ("2025-10-26", 169), ("2025-06-01", 168)])
def test_the_last_seven_days_end_at_each_midnight_whatever_the_clocks_do(day: str, hours: int) -> None:
    """167 or 169 hours where they change, and an event is in seven of them."""
    zone, kind = "Europe/Berlin", CalendarWindows("day", "Europe/Berlin", last=7)
    found = formed(kind, live([local(zone, f"{day}T12:00")]))
    midnights = [(datetime.fromisoformat(day) + timedelta(days=days)).date().isoformat() for days in range(-6, 8)]
    assert [(start, end) for start, end, _ in found] == [
        (local(zone, f"{one}T00:00"), local(zone, f"{other}T00:00"))
        for one, other in zip(midnights, midnights[7:], strict=False)
    ]
    assert {end - start for start, end, _ in found} == {hours * 3600 * SECOND}
    ends = np.array([end for _, end, _ in found])
    assert kind.starts_of(ends).tolist() == [start for start, _, _ in found]
    assert kind.ends_between(int(ends[0]) - 1, int(ends[-1])).tolist() == ends.tolist()
    assert kind.earliest_start(int(ends[0]) - 1, None) == found[0][0]


def test_the_last_three_months_end_with_each_month() -> None:
    found = formed(CalendarWindows("month", "UTC", last=3), live([local("UTC", "2024-02-29T12:00")]))
    months = [local("UTC", f"{month}-01T00:00") for month in
              ("2023-12", "2024-01", "2024-02", "2024-03", "2024-04", "2024-05")]  # fmt: skip
    assert [(start, end) for start, end, _ in found] == list(zip(months, months[3:], strict=False))


def test_a_month_of_a_place_begins_there() -> None:
    zone = "America/New_York"
    for unit, start, end in [("month", "2024-03-01", "2024-04-01"), ("week", "2024-03-04", "2024-03-11")]:
        kind = CalendarWindows(unit, zone, Bounds.END)  # type: ignore[arg-type]
        found = formed(kind, live([local(zone, start) + 1, local(zone, end)]))
        assert found == [(local(zone, start), local(zone, end), [0, 1])]


SHIFTS = (6 * 3600 * SECOND, 14 * 3600 * SECOND, 22 * 3600 * SECOND)


@pytest.mark.parametrize(("evening", "hours"), [("2025-03-29", 7), ("2025-10-25", 9), ("2025-06-01", 8)])
def test_the_shift_of_the_night_lasts_as_long_as_the_clocks_make_it(evening: str, hours: int) -> None:
    zone = "Europe/Berlin"
    start = local(zone, f"{evening}T22:00")
    end = start + hours * 3600 * SECOND
    found = formed(CalendarWindows("day", zone, at=SHIFTS), live([start - 1, start, end - 1, end]))
    assert found == [
        (start - 8 * 3600 * SECOND, start, [0]),
        (start, end, [1, 2]),
        (end, end + 8 * 3600 * SECOND, [3]),
    ]


def test_a_shift_whose_beginning_the_clocks_skip_begins_as_a_trigger_fires_and_one_shown_twice_at_the_first() -> None:
    zone, half_past_two = "Europe/Berlin", (9_000 * SECOND,)
    ((start, end, _),) = formed(CalendarWindows("day", zone, at=half_past_two), live([local(zone, "2025-03-30T12:00")]))
    assert (start, end) == (local(zone, "2025-03-30T03:30"), local(zone, "2025-03-31T02:30"))
    assert start == DayTime(half_past_two[0], zone).next(start - 1)
    ((start, end, _),) = formed(CalendarWindows("day", zone, at=half_past_two), live([local(zone, "2025-10-26T12:00")]))
    assert (start, end) == (local(zone, "2025-10-26T02:30"), local(zone, "2025-10-27T02:30"))


@pytest.mark.parametrize(
    ("kind", "noon", "edges"),
    [
        (CalendarWindows("week", "Europe/Berlin", shift=6), "2025-03-31", ("2025-03-30", "2025-04-06")),
        (CalendarWindows("week", "Europe/Berlin"), "2025-03-30", ("2025-03-24", "2025-03-31")),
        (CalendarWindows("quarter", "Europe/Berlin"), "2025-03-31", ("2025-01-01", "2025-04-01")),
        (CalendarWindows("quarter", "Europe/Berlin", shift=1), "1968-01-31", ("1967-11-01", "1968-02-01")),
        (CalendarWindows("year", "Europe/Berlin"), "1969-12-31", ("1969-01-01", "1970-01-01")),
        (CalendarWindows("year", "Europe/Berlin", shift=3), "2024-03-31", ("2023-04-01", "2024-04-01")),
        (CalendarWindows("year", "Europe/Berlin", shift=9), "2024-10-01", ("2024-10-01", "2025-10-01")),
    ],
    ids=repr,
)
def test_weeks_quarters_and_years_begin_where_they_are_told_to(
    kind: CalendarWindows, noon: str, edges: tuple[str, str]
) -> None:
    ((start, end, _),) = formed(kind, live([local(kind.zone, f"{noon}T12:00")]))
    assert (start, end) == tuple(local(kind.zone, f"{day}T00:00") for day in edges)
    assert kind.starts_of(np.array([end])).tolist() == [start]


@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_the_day_of_a_place_may_not_be_that_of_utc(zone: str) -> None:
    for hour in ("00:00", "23:59:59"):
        events = live([local(zone, f"2024-05-06T{hour}")])
        expected = [(local(zone, "2024-05-06"), local(zone, "2024-05-07"), [0])]
        assert formed(CalendarWindows("day", zone, Bounds.START), events) == expected


def test_a_lifetime_without_length_is_in_no_window_of_the_calendar() -> None:
    kind, noon = CalendarWindows("day", "Europe/Berlin"), 43_200 * SECOND
    assert formed(kind, live([noon], ends=[noon])) == []
    assert kind.finished(live([noon], ends=[noon]), 0).all()


def test_the_calendar_goes_on_where_dates_end() -> None:
    kinds = [CalendarWindows(unit, "Asia/Tokyo") for unit in ("hour", "day", "week", "month")]
    for kind in [*kinds, CalendarWindows("day", "Asia/Tokyo", at=SHIFTS)]:
        events = live([EARLIEST, LATEST])
        assert [len(members) for _, _, members in formed(kind, events)] == [1, 1]
        assert kind.finished(events, 0).tolist() == [True, False]
        assert len(formed(kind, live([0], ends=[FOREVER]), upto=100 * 86_400 * SECOND)) > 2
        assert kind.finished(live([0], ends=[FOREVER]), LATEST).tolist() == [False]


# What cannot be.


@pytest.mark.parametrize(
    "make",
    [
        lambda: AlignedWindows(Duration(0), seconds(1)),
        lambda: AlignedWindows(seconds(1), Duration(0)),
        lambda: AlignedWindows(seconds(1), seconds(1), offset=seconds(1), origin=0),
        lambda: SessionWindows(Duration(0)),
        lambda: SessionWindows(seconds(1), max_duration=Duration(0)),
        lambda: SlidingLogWindows(Duration(0)),
        lambda: CalendarWindows("day", "Mars/Olympus"),
        lambda: CalendarWindows("day", ""),
        lambda: CalendarWindows("day", "../etc"),
        lambda: CalendarWindows("decade", "UTC"),  # type: ignore[arg-type]
        lambda: SessionWindows(seconds(1)).assign(live([1], ends=[2]), 0, 1),
        lambda: SlidingLogWindows(seconds(1)).assign(live([1], ends=[2]), 0, 1),
        lambda: CountedWindows(Count(1), Count(1)).assign(live([1], ends=[2]), 0, 1),
        lambda: SnapshotWindows(Bounds.END).assign(live([1], ends=[2]), 0, 1),
        lambda: SessionWindows(seconds(1), max_duration=seconds(1)).assign(
            LiveEvents(np.array([1]), gaps=np.array([1])), 0, 1
        ),
    ],
)
def test_a_setting_that_cannot_be_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError):
        make()


# Sizes.


def test_windows_that_overlap_ten_thousandfold_come_in_pieces() -> None:
    kind = AlignedWindows(millis(10), micros(1))
    events = live(sorted(np.random.default_rng(1).integers(0, SECOND, 1_000).tolist()))
    sizes = [len(piece.members) for piece in kind.assign(events, BEFORE, FOREVER)]
    assert sum(sizes) == 10_000_000
    assert max(sizes) <= aligned.MAX_MEMBERS_PER_PIECE
    assert len(sizes) < 4


def test_pieces_are_as_large_as_they_may_be_and_a_larger_window_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aligned, "MAX_MEMBERS_PER_PIECE", 5)
    pieces = [(begin, stop, offsets.tolist()) for begin, stop, offsets in aligned.in_pieces(np.array([2, 3, 9, 1, 1]))]
    assert pieces == [(0, 2, [0, 2, 5]), (2, 3, [0, 9]), (3, 5, [0, 1, 2])]


def test_empty_windows_are_passed_over_however_many_there_are() -> None:
    kind = AlignedWindows(micros(2), micros(1))
    assert len(formed(kind, live([EARLIEST, 0, LATEST]))) == 6
    with pieces_of(1):
        assert len(formed(kind, live([EARLIEST, 0, LATEST]))) == 6


@pytest.mark.parametrize("bounds", Bounds)
def test_nothing_overflows_at_the_ends_of_time(bounds: Bounds) -> None:
    longest = parse_duration("3000000d")
    for kind in (
        AlignedWindows(longest, longest, bounds),
        AlignedWindows(longest, micros(7 * 10**16), bounds, offset=longest),
        AlignedWindows(longest, longest, bounds, origin=EARLIEST),
        SessionWindows(longest),
        SessionWindows(longest, max_duration=longest),
        SlidingLogWindows(longest),
        SnapshotWindows(bounds),
        CountByStartWindows(Count(2)),
    ):
        events = live([EARLIEST + 1, LATEST])
        for limit in (FOREVER, LATEST, 0, EARLIEST, -FOREVER, -FOREVER - 1):
            for start, end, _ in formed(kind, events, after=limit) + formed(kind, events, upto=limit):
                assert start < end
            assert kind.finished(events, limit).all() == (limit == FOREVER or (limit == LATEST and is_over(kind)))
            kind.next_end(events, limit)
        assert kind.next_end(events, FOREVER) is None


def is_over(kind: WindowAssigner) -> bool:
    """Whether windows end with their last event."""
    return kind == SnapshotWindows(Bounds.END)


def test_without_events_there_is_nothing() -> None:
    for kind in (
        AlignedWindows(seconds(1), seconds(1)),
        SessionWindows(seconds(1)),
        AZURE,
        SnapshotWindows(),
        SlidingLogWindows(seconds(1)),
        CountByStartWindows(Count(3)),
        CountedWindows(Count(3), Count(2)),
        CalendarWindows("day", "UTC"),
    ):
        assert formed(kind, live([])) == []
        assert kind.finished(live([]), 0).tolist() == []
        assert kind.next_end(live([]), 0) is None
    assert formed(SnapshotWindows(), live([], ends=[])) == []
    assert SnapshotWindows().finished(live([], ends=[]), 0).tolist() == []
    assert formed(SnapshotWindows(), live([3], ends=[3])) == []


# Random events against the oracle.


@contextmanager
def pieces_of(size: int) -> Iterator[None]:
    with mock.patch.object(aligned, "MAX_MEMBERS_PER_PIECE", size):
        yield


def as_live(events: list[Happening], keyed: bool) -> tuple[list[Happening], LiveEvents]:
    """The events in the order that is asked for, and their arrays."""
    events = sorted(events, key=lambda event: (event.key, event.start))

    def column(values: list[int | None]) -> np.ndarray | None:
        return None if not values or None in values else np.array(values, dtype=np.int64)

    return events, LiveEvents(
        np.array([event.start for event in events], dtype=np.int64),
        np.array([event.key for event in events], dtype=np.int64) if keyed else None,
        column([event.end for event in events]),
        np.array([event.closed for event in events], dtype=np.int64),
        column([event.gap for event in events]),
    )


def limits(events: list[Happening], frontiers: dict[int, int], single: bool) -> int | np.ndarray:
    if single:
        return frontiers[0]
    return np.array([frontiers[event.key] for event in events], dtype=np.int64)


def named(
    kind: WindowAssigner, events: list[Happening], arrays: LiveEvents, after: int | np.ndarray, upto: int | np.ndarray
) -> list[tuple[int, int, int, list[int]]]:
    """The windows as the oracle tells them, in the order in which they came."""
    found = []
    for piece in kind.assign(arrays, after, upto):
        assert len(piece.starts) == len(piece.ends) == len(piece.offsets) - 1 > 0
        assert piece.offsets[0] == 0
        assert piece.offsets[-1] == len(piece.members)
        if len(set(piece.ends.tolist())) > 1:
            assert len(piece.members) <= aligned.MAX_MEMBERS_PER_PIECE
        for number in range(len(piece)):
            members = piece.members[piece.offsets[number] : piece.offsets[number + 1]].tolist()
            assert members == sorted(set(members))
            (key,) = {events[member].key for member in members}
            names = [events[member].name for member in members]
            found.append((int(piece.ends[number]), int(piece.starts[number]), key, names))
    assert [window[:3] for window in found] == sorted(window[:3] for window in found)
    return found


@dataclass(frozen=True)
class Stream:
    """Events, the stage in which each comes, and how to ask for their windows."""

    events: list[Happening]
    arrivals: list[int]
    stages: list[dict[int, int]]
    """Up to where time is settled after each stage, for each key."""
    keyed: bool
    single: bool
    """Whether one frontier is that of all keys."""
    size: int
    """How many members a piece may hold."""


def check(kind: WindowAssigner, stream: Stream, horizon: int = oracle.END - 60) -> None:
    """One evaluation, and one in stages: what is finished is dropped, more comes in between."""
    events, arrivals, stages = stream.events, stream.arrivals, stream.stages
    keyed, single, size = stream.keyed, stream.single, stream.size
    with pieces_of(size):
        last = stages[-1]
        expected = [window for window in oracle.windows(kind, events) if window[0] <= last[window[2]]]
        ordered, arrays = as_live(events, keyed)
        once = named(kind, ordered, arrays, BEFORE, limits(ordered, last, single))
        assert sorted(once) == sorted(expected)

        found = []
        kept: list[Happening] = []
        before = dict.fromkeys(last, BEFORE)
        for number, frontier in enumerate(stages):
            kept += [event for event, arrival in zip(events, arrivals, strict=True) if arrival == number]
            kept, arrays = as_live(kept, keyed)
            after, upto = limits(kept, before, single), limits(kept, frontier, single)
            due = [w[0] for w in oracle.windows(kind, kept) if before[w[2]] < w[0] < horizon]
            soonest = kind.next_end(arrays, after)
            assert (None if soonest is None or soonest >= horizon else soonest) == min(due, default=None)
            found += named(kind, kept, arrays, after, upto)
            gone = kind.finished(arrays, upto).tolist()
            kept = [event for event, over in zip(kept, gone, strict=True) if not over]
            before = frontier
        assert sorted(found) == sorted(expected)
        if all(limit == FOREVER for limit in last.values()):
            assert not kept


@st.composite
def streams(
    draw: st.DrawFn,
    *,
    lifetimes: bool = False,
    gaps: bool = False,
    late: bool = False,
    patience: int = 1,
    times: st.SearchStrategy[int] | None = None,
    longest: int = 30,
    endless_until: int = 150,
) -> Stream:
    """Random events; ``patience`` is how far after the frontier those lie at least that are not late."""
    if times is None:
        times = st.integers(0, 60)
    keyed = draw(st.booleans())
    keys = [0, 1, 2] if keyed else [0]
    single = draw(st.booleans())
    with_ends = lifetimes and draw(st.booleans())
    with_gaps = gaps and draw(st.booleans())
    endless = with_ends and draw(st.booleans())
    final = endless_until if endless else FOREVER
    count = draw(st.integers(0, 3))
    frontiers = {key: [*sorted(draw(st.lists(times, min_size=count, max_size=count))), final] for key in keys}
    if single:
        frontiers = dict.fromkeys(keys, frontiers[0])
    drawn = []
    for _ in range(draw(st.integers(0, 14))):
        key, start = draw(st.sampled_from(keys)), draw(times)
        end = gap = None
        if with_ends:
            end = FOREVER if endless and draw(st.booleans()) else start + draw(st.integers(0, longest))
        if with_gaps:
            gap = draw(st.integers(0, 12))
        allowed = 0
        while allowed < count and start >= frontiers[key][allowed] + patience:
            allowed += 1
        arrival = draw(st.integers(0, count if late else allowed))
        closed = oracle.NOT_CLOSED
        if late:
            closed = draw(st.sampled_from([closed, start + 5]))
            closed = max(closed, frontiers[key][arrival - 1]) if arrival else closed
        drawn.append((arrival, key, start, end, closed, gap))
    drawn.sort(key=lambda event: event[0])
    events = [Happening(name, *event[1:]) for name, event in enumerate(drawn)]
    arrivals = [event[0] for event in drawn]
    stages = [{key: frontiers[key][number] for key in keys} for number in range(count + 1)]
    return Stream(events, arrivals, stages, keyed, single, draw(st.sampled_from([1, 5, 1 << 22])))


durations = st.integers(1, 25).map(Duration)


@examples(400)
@given(
    st.builds(
        AlignedWindows, durations, durations, st.sampled_from(Bounds), st.sampled_from([Duration(0), Duration(3)])
    )
    | st.builds(AlignedWindows, durations, durations, st.sampled_from(Bounds), origin=st.integers(-30, 30)),
    streams(lifetimes=True, late=True),
)
def test_aligned_windows_are_those_of_the_oracle(kind: AlignedWindows, stream: Stream) -> None:
    check(kind, stream)


@examples(300)
@given(st.builds(SessionWindows, durations, st.booleans()), streams(gaps=True))
def test_sessions_are_those_of_the_oracle(kind: SessionWindows, stream: Stream) -> None:
    check(kind, stream)


@examples(600)
@given(st.builds(SessionWindows, durations, st.booleans(), durations), streams())
def test_sessions_with_a_maximum_are_those_of_the_oracle(kind: SessionWindows, stream: Stream) -> None:
    check(kind, stream)


@examples(300)
@given(streams(lifetimes=True))
def test_snapshots_are_those_of_the_oracle(stream: Stream) -> None:
    check(SnapshotWindows(), stream)


@given(streams())
def test_snapshots_of_points_are_those_of_the_oracle(stream: Stream) -> None:
    check(SnapshotWindows(Bounds.END), stream)


@examples(200)
@given(st.builds(SlidingLogWindows, durations), st.booleans().flatmap(lambda late: streams(late=late)))
def test_sliding_windows_are_those_of_the_oracle(kind: SlidingLogWindows, stream: Stream) -> None:
    check(kind, stream)


@examples(200)
@given(st.builds(CountByStartWindows, st.integers(1, 5).map(Count)), streams(patience=0))
def test_windows_of_a_count_are_those_of_the_oracle(kind: CountByStartWindows, stream: Stream) -> None:
    check(kind, stream)


DAY = 86_400 * SECOND


DIVIDED = [(), (), SHIFTS, (12 * 3600 * SECOND,), tuple(half * 1800 * SECOND for half in (1, 4, 5, 47))]


@examples(150)
@given(
    st.data(),
    st.sampled_from([("day", at) for at in DIVIDED] + [(unit, ()) for unit in ("hour", "week", "month", "quarter")]),
    st.integers(0, 11),
    st.sampled_from(Bounds),
)
def test_calendar_windows_are_those_of_the_oracle(
    data: st.DataObject, divided: tuple[str, tuple[int, ...]], shift: int, bounds: Bounds
) -> None:
    unit, at = divided
    shift = {"week": shift % 7, "quarter": shift}.get(unit, 0)
    zone, switch = data.draw(st.sampled_from([(zone, at) for zone in oracle.SWITCHES for at in oracle.SWITCHES[zone]]))
    reach = 40 if unit in ("week", "month", "quarter") else 3
    near = st.builds(
        lambda step, by: switch + step * 600 * SECOND + by, st.integers(-144 * reach, 144 * reach), st.integers(-1, 1)
    )
    stream = data.draw(
        streams(lifetimes=True, late=True, times=near, longest=3 * DAY, endless_until=switch + (reach + 5) * DAY)
    )
    most = {"hour": 30, "day": 20 * max(len(at), 1), "week": 5, "month": 5, "quarter": 2}[unit]
    last = data.draw(st.just(1) | st.integers(1, most))
    kind = CalendarWindows(unit, zone, bounds, at, shift, last)  # type: ignore[arg-type]
    check(kind, stream, switch + 300 * DAY)
