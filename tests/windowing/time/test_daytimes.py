"""Times of day: when each comes next, at both switches of daylight saving too, and how their texts are read."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from windowing import ConfigError
from windowing.daytimes import DayTime, DayTimePattern, next_moments
from windowing.timestamps import EARLIEST, LATEST, from_datetime, to_datetime, zone_of

MINUTE, HOUR, DAY = 60_000_000, 3_600_000_000, 86_400_000_000


def clock(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * HOUR + int(minutes) * MINUTE


def at(text: str) -> int:
    return from_datetime(datetime.fromisoformat(text))


def firings(time: str, zone: str, after: str, count: int) -> list[str]:
    """So many firings in a row, as UTC."""
    day_time, moment, found = DayTime(clock(time), zone), at(after), []
    for _ in range(count):
        moment = day_time.next(moment)
        found.append(to_datetime(moment).strftime("%m-%dT%H:%M"))
    return found


@pytest.mark.feature("UH-20")
@pytest.mark.parametrize("zone", ["UTC", "Z", "+00:00"])
def test_it_comes_strictly_after(zone: str) -> None:
    noon = DayTime(12 * HOUR, zone)
    assert noon.next(0) == 12 * HOUR
    assert noon.next(12 * HOUR - 1) == 12 * HOUR
    assert noon.next(12 * HOUR) == 36 * HOUR
    assert noon.next(-1) == 12 * HOUR
    assert noon.next(-12 * HOUR) == 12 * HOUR


@pytest.mark.parametrize(
    ("time", "zone", "after", "expected"),
    [
        # Berlin leaps from 02:00 to 03:00, and goes back from 03:00 to 02:00.
        ("02:30", "Europe/Berlin", "2024-03-30T00:00Z", ["03-30T01:30", "03-31T01:30", "04-01T00:30"]),
        ("03:30", "Europe/Berlin", "2024-03-30T12:00Z", ["03-31T01:30", "04-01T01:30"]),
        ("02:00", "Europe/Berlin", "2024-03-30T12:00Z", ["03-31T01:00", "04-01T00:00"]),
        ("02:30", "Europe/Berlin", "2024-10-26T12:00Z", ["10-27T00:30", "10-28T01:30"]),
        ("03:00", "Europe/Berlin", "2024-10-26T12:00Z", ["10-27T02:00", "10-28T02:00"]),
        ("12:00", "Europe/Berlin", "2024-10-26T09:00Z", ["10-26T10:00", "10-27T11:00"]),
        # Between the two showings of 02:30 the day has had its firing.
        ("02:30", "Europe/Berlin", "2024-10-27T00:45Z", ["10-28T01:30"]),
        ("02:30", "America/New_York", "2024-03-09T12:00Z", ["03-10T07:30", "03-11T06:30"]),
        ("01:30", "America/New_York", "2024-11-02T12:00Z", ["11-03T05:30", "11-04T06:30"]),
        ("00:00", "Asia/Kolkata", "2024-01-01T00:00Z", ["01-01T18:30", "01-02T18:30"]),
        # Cairo leaps over midnight, and goes back to 23:00.
        ("00:00", "Africa/Cairo", "2024-04-25T00:00Z", ["04-25T22:00", "04-26T21:00"]),
        ("00:30", "Africa/Cairo", "2024-04-25T00:00Z", ["04-25T22:30", "04-26T21:30"]),
        ("23:30", "Africa/Cairo", "2024-10-31T00:00Z", ["10-31T20:30", "11-01T21:30"]),
        ("00:00", "Africa/Cairo", "2024-10-31T00:00Z", ["10-31T22:00", "11-01T22:00"]),
        # Lord Howe's clocks are set by half an hour, at 02:00.
        ("02:15", "Australia/Lord_Howe", "2024-10-04T20:00Z", ["10-05T15:45", "10-06T15:15"]),
        ("01:45", "Australia/Lord_Howe", "2024-04-05T20:00Z", ["04-06T14:45", "04-07T15:15"]),
        # Samoa left out the 30th of December 2011; its time is that of the 31st.
        ("10:00", "Pacific/Apia", "2011-12-28T21:00Z", ["12-29T20:00", "12-30T20:00", "12-31T20:00"]),
        ("11:05", "+03:00", "2024-01-01T00:00Z", ["01-01T08:05", "01-02T08:05"]),
        ("23:59", "-18:00", "2024-01-01T00:00Z", ["01-01T17:59", "01-02T17:59"]),
        ("00:00", "+18:00", "2024-01-01T06:00Z", ["01-02T06:00", "01-03T06:00"]),
    ],
)
def test_once_a_day_at_the_switches(time: str, zone: str, after: str, expected: list[str]) -> None:
    assert firings(time, zone, after, len(expected)) == expected


def walked(day_time: DayTime, after: int) -> int:
    """The slow, obvious way: look at a clock every minute, for days, and at one that was not set where it leaps."""
    zone = zone_of(day_time.zone)
    moment = (after // MINUTE - 4 * 1440) * MINUTE
    shown = to_datetime(moment).astimezone(zone).replace(tzinfo=None)
    highest, fired = shown, set()
    while True:
        moment += MINUTE
        before, shown = shown, to_datetime(moment).astimezone(zone).replace(tzinfo=None)
        # Midnights that the clock has come to know since: those of one minute, or of a leap.
        day = highest.replace(hour=0, minute=0, second=0, microsecond=0)
        while day <= shown:
            wanted = day + timedelta(microseconds=day_time.micros)
            if highest < wanted <= shown:
                # What is shown at this moment was not leapt over; else a clock that was not set shows it.
                past = MINUTE if wanted == shown else (wanted - before) // timedelta(microseconds=1)
                fired.add(moment - MINUTE + past)
            day += timedelta(days=1)
        highest = max(highest, shown)
        if moment > after and (later := [each for each in fired if each > after]):
            return min(later)


SWITCHES = [
    ("Europe/Berlin", "2024-03-31T01:00Z"),
    ("Europe/Berlin", "2024-10-27T01:00Z"),
    ("America/New_York", "2024-03-10T07:00Z"),
    ("America/New_York", "2024-11-03T06:00Z"),
    ("Africa/Cairo", "2024-04-25T22:00Z"),
    ("Africa/Cairo", "2024-10-31T21:00Z"),
    ("Australia/Lord_Howe", "2024-10-05T15:30Z"),
    ("Australia/Lord_Howe", "2024-04-06T15:00Z"),
    ("America/Sao_Paulo", "2018-11-04T03:00Z"),
    ("Asia/Kolkata", "2024-06-01T12:00Z"),
    ("Pacific/Apia", "2011-12-30T10:00Z"),
    ("Pacific/Kwajalein", "1993-08-21T12:00Z"),
    ("Antarctica/Troll", "2024-03-31T01:00Z"),
    ("+05:45", "2024-01-01T00:00Z"),
]


@examples(150)
@given(
    switch=st.sampled_from(SWITCHES),
    minutes=st.integers(-3 * 1440, 3 * 1440),
    micros=st.integers(-1, 1),
    time=st.integers(0, 1439),
)
@example(switch=SWITCHES[0], minutes=0, micros=0, time=150)
@example(switch=SWITCHES[0], minutes=0, micros=0, time=180)
@example(switch=SWITCHES[1], minutes=-30, micros=0, time=150)
@example(switch=SWITCHES[10], minutes=600, micros=0, time=1200)
def test_it_comes_when_a_walk_by_the_minute_finds_it(
    switch: tuple[str, str], minutes: int, micros: int, time: int
) -> None:
    zone, moment = switch
    after = at(moment) + minutes * MINUTE + micros
    day_time = DayTime(time * MINUTE, zone)
    assert day_time.next(after) == walked(day_time, after)


@examples(200)
@given(
    zone=st.sampled_from(["Europe/Berlin", "Pacific/Apia", "Australia/Lord_Howe", "-07:30", "UTC"]),
    micros=st.integers(0, DAY - 1),
    afters=st.lists(st.integers(at("1900-01-01T00:00Z"), at("2100-01-01T00:00Z"))),
    around=st.integers(-2 * DAY, 2 * DAY),
)
def test_many_are_as_one_by_one(zone: str, micros: int, afters: list[int], around: int) -> None:
    afters += [at("2024-03-31T01:00Z") + around, at("2011-12-30T10:00Z") + around]
    time = DayTime(micros, zone)
    assert next_moments(time, np.array(afters)).tolist() == [time.next(after) for after in afters]


def test_none_at_all() -> None:
    assert next_moments(DayTime(0), np.array([], dtype=np.int64)).tolist() == []


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "UTC"])
@pytest.mark.parametrize("after", [EARLIEST, LATEST, EARLIEST + DAY, LATEST - DAY])
def test_the_ends_of_time_have_a_next(zone: str, after: int) -> None:
    assert after < DayTime(HOUR, zone).next(after) <= after + DAY


@pytest.mark.parametrize("micros", [-1, DAY, 1.0, True, "11:05"])
def test_what_is_no_time_of_day_is_refused(micros: Any) -> None:
    with pytest.raises(ConfigError, match="not a time of day"):
        DayTime(micros)


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "europe/berlin/x", "", "+25:00", "+03:60", "+18:01", "../UTC", 3, None]
)
def test_a_zone_that_there_is_none_of_is_refused(zone: Any) -> None:
    with pytest.raises(ConfigError):
        DayTime(0, zone)
    with pytest.raises(ConfigError):
        DayTimePattern("HH:mm", zone)


def test_it_is_written_for_people() -> None:
    assert str(DayTime(clock("11:05"), "+03:00")) == "11:05:00 +03:00"
    assert str(DayTime(1_500_000)) == "00:00:01.5 UTC"
    assert repr(DayTime(5)) == "DayTime(micros=5, zone='UTC')"
    assert repr(DayTimePattern("HH:mm")) == "DayTimePattern(pattern='HH:mm', zone='UTC')"


# ---- texts. What is accepted, and what is not, was compared with Java 17.


@pytest.mark.feature("UH-20")
def test_the_time_of_the_example() -> None:
    time = DayTimePattern("HH:mm:ssXXX").read("11:05:00+03:00")
    assert time == DayTime(clock("11:05"), "+03:00")
    assert to_datetime(time.next(at("2024-01-01T08:04:59Z"))) == datetime(2024, 1, 1, 8, 5, tzinfo=UTC)
    assert to_datetime(time.next(at("2024-01-01T08:05:00Z"))) == datetime(2024, 1, 2, 8, 5, tzinfo=UTC)


@pytest.mark.feature("UH-21")
def test_the_setting_holds_where_the_text_names_no_zone() -> None:
    assert DayTimePattern("HH:mm:ss").read("18:00:00") == DayTime(18 * HOUR, "UTC")
    assert DayTimePattern("HH:mm:ss", "Europe/Berlin").read("18:00:00").zone == "Europe/Berlin"
    assert DayTimePattern("HH:mmXXX", "Europe/Berlin").read("18:00+03:00").zone == "+03:00"
    assert DayTimePattern("HH:mm[XXX]", "Europe/Berlin").read("18:00").zone == "Europe/Berlin"


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("HH", "09", "09:00:00 UTC"),
        ("H:m:s", "9:3:5", "09:03:05 UTC"),
        ("H", "007", "07:00:00 UTC"),
        ("Hmm", "930", "09:30:00 UTC"),
        ("Hmm", "1130", "11:30:00 UTC"),
        ("HHmmssSSS", "093015123", "09:30:15.123 UTC"),
        ("HH:mm:ss.SSSSSSSSS", "11:05:00.123456789", "11:05:00.123456 UTC"),
        ("HH:mm", "24:00", "00:00:00 UTC"),
        ("kk:mm", "24:30", "00:30:00 UTC"),
        ("hh:mm a", "12:30 AM", "00:30:00 UTC"),
        ("hh:mm a", "12:30 PM", "12:30:00 UTC"),
        ("h:mm a", "1:30 pm", "13:30:00 UTC"),
        ("KK:mm a", "00:30 PM", "12:30:00 UTC"),
        ("HH:mm a", "13:00 PM", "13:00:00 UTC"),
        ("HH:HH", "11:11", "11:00:00 UTC"),
        ("HH'h'mm", "11h05", "11:05:00 UTC"),
        ("HH 'o''clock'", "11 o'clock", "11:00:00 UTC"),
        ("HH''mm", "11'05", "11:05:00 UTC"),
        ("HH.mm", "11.05", "11:05:00 UTC"),
        ("HH:mm[:ss[.SSS]]", "11:05", "11:05:00 UTC"),
        ("HH:mm[:ss[.SSS]]", "11:05:09.250", "11:05:09.25 UTC"),
        ("HH:mm[:ss", "11:05:09", "11:05:09 UTC"),
        ("HH:mmX", "11:05+03", "11:05:00 +03"),
        ("HH:mmX", "11:05+0330", "11:05:00 +0330"),
        ("HH:mmXX", "11:05-0330", "11:05:00 -0330"),
        ("HH:mmXXX", "11:05Z", "11:05:00 Z"),
        ("HH:mmXXX", "11:05-00:00", "11:05:00 Z"),
        ("HH:mmXXXX", "11:05-033015", "11:05:00 -033015"),
        ("HH:mmXXXXX", "11:05-03:30:15", "11:05:00 -03:30:15"),
        ("HH:mmx", "11:05+00", "11:05:00 Z"),
        ("HH:mmxxx", "11:05+03:00", "11:05:00 +03:00"),
        ("HH:mmZ", "11:05+0300", "11:05:00 +0300"),
        ("HH:mmZZZZ", "11:05GMT+03:00", "11:05:00 +03:00"),
        ("HH:mmZZZZ", "11:05GMT", "11:05:00 Z"),
        ("HH:mmZZZZZ", "11:05Z", "11:05:00 Z"),
        ("HH:mmVV", "11:05Europe/Berlin", "11:05:00 Europe/Berlin"),
        ("HH:mm VV", "11:05 GMT+03:00", "11:05:00 GMT+03:00"),
        ("HH:mmXXX'['VV']'", "11:05+02:00[Europe/Berlin]", "11:05:00 Europe/Berlin"),
    ],
)
def test_texts_and_their_patterns(pattern: str, text: str, expected: str) -> None:
    assert str(DayTimePattern(pattern).read(text)) == expected


@pytest.mark.feature("UH-21")
@pytest.mark.parametrize(
    ("pattern", "text", "why"),
    [
        ("HH:mm:ss", "25:00:00", "hours (H) are 0 to 23, found 25"),
        ("HH:mm:ss", "24:00:01", "hours (H) are 0 to 23, found 24"),
        ("HH:mm:ss", "11:05:60", "seconds (s) are 0 to 59, found 60"),
        ("hh:mm a", "13:00 PM", "hours (h) are 1 to 12, found 13"),
        ("HH:mm:ss", "11:05", "expected ':' after '11:05'"),
        ("HH:mm:ss", "11:05:00Z", "expected the end after '11:05:00', found 'Z'"),
        ("HH:mm:ss", "9:05:00", "expected hours of two digits, found '9:05:00'"),
        ("HH:mm:ss", " 11:05:00", "expected hours of two digits"),
        ("HH:mm:ss", "", "expected hours of two digits"),
        ("HH:mm:ss", "١١:05:00", "expected hours of two digits"),
        ("HH:mm:ss", "11:05:00\n", "expected the end"),
        ("HH:mm:ssXXX", "11:05:00+0300", "expected an offset like +03:00 after '11:05:00', found '+0300'"),
        ("HH:mm:ssxxx", "11:05:00Z", "expected an offset like +03:00"),
        ("HH:mmXXX", "11:05+18:30", "offsets at most 18 hours"),
        (
            "HH:mm VV",
            "11:05 Mars/Olympus",
            "'11:05 Mars/Olympus' is not a time of day: 'Mars/Olympus' is not a known time zone",
        ),
        ("HH:HH", "11:12", "it says both 11 and 12"),
        ("HH:mm a", "13:00 AM", "its hours do not agree"),
        ("HH[:mm][.ss]", "11.05", "seconds without minutes"),
        ("hh:mm[ a]", "11:05", "AM or PM"),
        ("HH:mm", 1105, "1105 is not a text"),
        ("HH:mm", None, "None is not a text"),
    ],
)
def test_a_text_that_does_not_fit_says_what_was_expected_and_found(pattern: str, text: Any, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        DayTimePattern(pattern).read(text)
    assert why in str(caught.value)
    assert "write it like" in str(caught.value) or "use a name like" in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("yyyy-MM-dd HH:mm", "yyyy is none of the letters"),
        ("HH:mm:ssz", "z is none of"),
        ("HHH:mm", "HHH is none of"),
        ("HH:mmXXXXXX", "XXXXXX is none of"),
        ("HH:mm V", "V is none of"),
        ("hh:mm aa", "aa is none of"),
        ("HH:mm:ss.SSSSSSSSSS", "SSSSSSSSSS is none of"),
        ("mm:ss", "no hours"),
        ("", "no hours"),
        ("hh:mm", "AM or PM"),
        ("HH:ss", "seconds without minutes"),
        ("HH:mm.SSS", "a fraction without seconds"),
        ("HH'x", "' has no meaning"),
        ("HH:mm]", "] has no meaning"),
        ("HH:mm{", "{ has no meaning"),
    ],
)
def test_a_pattern_that_tells_no_time_says_which_letters_there_are(pattern: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        DayTimePattern(pattern)
    assert why in str(caught.value)
    assert "use H, HH, k, kk" in str(caught.value)


def test_a_pattern_is_a_text() -> None:
    with pytest.raises(ConfigError, match="not a text"):
        DayTimePattern(None)  # type: ignore[arg-type]


def test_both_can_be_sent_to_another_process() -> None:
    pattern = DayTimePattern("HH:mm:ssXXX", "Europe/Berlin")
    again = pickle.loads(pickle.dumps(pattern))
    assert again == pattern
    assert again.read("11:05:00Z") == pickle.loads(pickle.dumps(DayTime(clock("11:05"), "Z")))


@given(st.integers(0, 86_399), st.sampled_from(["Europe/Berlin", "Asia/Kolkata"]))
def test_what_a_pattern_writes_it_reads(second: int, zone: str) -> None:
    shown = datetime(2024, 7, 1, tzinfo=ZoneInfo(zone)) + timedelta(seconds=second)
    text = f"{shown:%H:%M:%S}{shown.strftime('%z')[:3]}:{shown.strftime('%z')[3:]}"
    assert DayTimePattern("HH:mm:ssXXX").read(text).micros == second * 1_000_000
