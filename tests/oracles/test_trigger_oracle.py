"""The oracle of triggers itself: worked examples, as the rules of UH-10 to UH-23 tell them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.oracles.trigger_oracle import Asked, Event, Expected, Firing, Forgot, expected, micros_of, moment, next_time
from windowing.daytimes import DayTime
from windowing.durations import Count, millis
from windowing.events import Tuple
from windowing.settings.triggers import CountTrigger, DailyByRule, DailyTrigger, KeyTrigger, RuleTrigger, TriggerCall

HOUR = 3_600_000_000
BERLIN = "Europe/Berlin"
ZONES = ["UTC", BERLIN, "America/St_Johns", "Asia/Kolkata", "+03:00", "-09:30"]


def at(text: str) -> int:
    return micros_of(datetime.fromisoformat(text))


def by_op(tuple: Tuple, call: TriggerCall) -> Any:
    """A rule that says what its event tells it to."""
    if tuple["op"] == "raise":
        raise ValueError
    return tuple["op"]


def by_time(tuple: Tuple) -> DayTime:
    """The time of day that the event tells."""
    hours, minutes = tuple["op"].split(":")
    return DayTime(int(hours) * HOUR + int(minutes) * HOUR // 60)


Step = tuple[str, int, str | None]
"""A key, the clock, and what a rule is told."""


@dataclass(frozen=True)
class Worked:
    """An example: events, and the calls that they lead to; the ids of events are their places, from 1."""

    trigger: KeyTrigger
    events: list[Step]
    end: int
    calls: dict[str, list[Firing | Forgot]]
    close: bool = False
    accounts: dict[str, list[int]] = field(default_factory=dict)
    """Which events are refused, purged, pending, where there are any."""


def fired(key: str, ids: list[int], start: int, end: int, by: str, new: list[int] | None = None) -> Firing:
    return Firing(key, tuple(ids), tuple(ids if new is None else new), start, end, by)


def ms(key: str, ids: list[int], start: int, end: int, by: str, new: list[int] | None = None) -> Firing:
    return fired(key, ids, start * 1_000, end * 1_000, by, new)


def of_k(*clocks: int) -> list[Step]:
    return [("k", clock * 1_000, "continue") for clock in clocks]


SAID = ["continue", "fire", "continue", "fireAndPurge", "continue", "purge", "continue", "bogus", "continue", None]
ELEVEN_FIVE = DayTime(11 * HOUR + HOUR // 12, "+03:00")

WORKED = {
    "sessions, by the gap alone": Worked(
        RuleTrigger(by_op, millis(100), from_first=False),
        of_k(0, 60, 150, 300),
        401_000,
        {"k": [ms("k", [1, 2, 3], 0, 250, "timeout"), ms("k", [4], 300, 400, "timeout")]},
    ),
    "at the gap an event joins": Worked(
        RuleTrigger(by_op, millis(100), from_first=False),
        of_k(0, 100),
        200_001,
        {"k": [ms("k", [1, 2], 0, 200, "timeout")]},
    ),
    "past the gap it does not": Worked(
        RuleTrigger(by_op, millis(100), from_first=False),
        of_k(0, 101),
        201_001,
        {"k": [ms("k", [1], 0, 100, "timeout"), ms("k", [2], 101, 201, "timeout")]},
    ),
    "the gap is not over at its end": Worked(
        RuleTrigger(by_op, millis(100), from_first=False), of_k(0), 100_000, {}, accounts={"pending": [1]}
    ),
    "timeout from the first": Worked(
        CountTrigger(Count(5), millis(100)),
        of_k(0, 60, 130),
        230_000,
        {"k": [ms("k", [1, 2], 0, 100, "timeout"), ms("k", [3], 130, 230, "timeout")]},
    ),
    "at a timeout from the first an event opens the next": Worked(
        CountTrigger(Count(5), millis(100)),
        of_k(0, 60, 100),
        100_000,
        {"k": [ms("k", [1, 2], 0, 100, "timeout")]},
        accounts={"pending": [3]},
    ),
    "timeout from the last": Worked(
        CountTrigger(Count(5), millis(100), from_first=False),
        of_k(0, 60, 130),
        230_001,
        {"k": [ms("k", [1, 2, 3], 0, 230, "timeout")]},
    ),
    "two events, or 100 ms": Worked(
        CountTrigger(Count(2), millis(100)),
        [*of_k(0, 40, 50), ("z", 55_000, None)],
        155_000,
        {
            "k": [ms("k", [1, 2], 0, 40, "count"), ms("k", [3], 50, 150, "timeout")],
            "z": [ms("z", [4], 55, 155, "timeout")],
        },
    ),
    "what rules say": Worked(
        RuleTrigger(by_op, millis(1_000_000)),
        [("k", 1_000 * place, said) for place, said in enumerate(SAID, 1)],
        10_000,
        {
            "k": [
                ms("k", [1, 2], 1, 2, "rule"),
                ms("k", [1, 2, 3, 4], 1, 4, "rule", [3, 4]),
                ms("k", [7, 8], 7, 8, "rule"),
                ms("k", [9, 10], 9, 10, "rule"),
            ]
        },
        accounts={"purged": [5, 6]},
    ),
    "a purge counts what no call has seen": Worked(
        RuleTrigger(by_op),
        [("k", place, said) for place, said in enumerate(["continue", "fire", "continue", "purge", "continue"], 1)],
        9,
        {"k": [fired("k", [1, 2], 1, 2, "rule")]},
        accounts={"purged": [3, 4], "pending": [5]},
    ),
    "a refused event moves no timer": Worked(
        RuleTrigger(by_op, millis(100), from_first=False),
        [("k", 0, "continue"), ("k", 90_000, "raise"), ("z", 95_000, "raise")],
        100_001,
        {"k": [ms("k", [1], 0, 100, "timeout")]},
        accounts={"refused": [2, 3]},
    ),
    "a kept window fires once more at its timeout": Worked(
        RuleTrigger(by_op, millis(100)),
        [("k", 0, "fire"), ("k", 10_000, "fire"), ("k", 10_000, "fire")],
        100_000,
        {
            "k": [
                ms("k", [1], 0, 0, "rule"),
                ms("k", [1, 2], 0, 10, "rule", [2]),
                ms("k", [1, 2, 3], 0, 10, "rule", [3]),
                ms("k", [1, 2, 3], 0, 100, "timeout", []),
            ]
        },
    ),
    "closing where nothing else would fire": Worked(
        CountTrigger(Count(3)),
        of_k(0, 5, 7, 8, 9),
        20_000,
        {"k": [ms("k", [1, 2, 3], 0, 7, "count"), ms("k", [4, 5], 8, 9, "close")]},
        close=True,
    ),
    "closing fires timers": Worked(
        CountTrigger(Count(3), millis(100), from_first=False),
        of_k(0, 5),
        20_000,
        {"k": [ms("k", [1, 2], 0, 105, "timeout")]},
        close=True,
    ),
    "five past eleven": Worked(
        DailyTrigger(ELEVEN_FIVE, 3),
        [
            ("k", at("2024-01-01T08:04:59Z"), None),
            ("k", at("2024-01-01T08:05:00Z"), None),
            ("k", at("2024-01-01T20:00:00Z"), None),
        ],
        at("2024-01-05T08:05:00Z"),
        {
            "k": [
                fired("k", [1], at("2024-01-01T08:04:59Z"), at("2024-01-01T08:05:00Z"), "time"),
                fired("k", [2, 3], at("2024-01-01T08:05:00Z"), at("2024-01-02T08:05:00Z"), "time"),
                Forgot("k"),
            ]
        },
    ),
    "not forgotten just before the third": Worked(
        DailyTrigger(ELEVEN_FIVE, 3),
        [("k", at("2024-01-01T08:05:00Z"), None)],
        at("2024-01-05T08:05:00Z") - 1,
        {"k": [fired("k", [1], at("2024-01-01T08:05:00Z"), at("2024-01-02T08:05:00Z"), "time")]},
    ),
    "events begin the count anew": Worked(
        DailyTrigger(ELEVEN_FIVE, 2),
        [
            ("k", at("2024-01-01T08:05:00Z"), None),
            ("k", at("2024-01-03T08:05:00Z"), None),  # after one that was empty
            ("k", at("2024-01-06T08:05:00Z"), None),  # at the very instant at which it is forgotten
        ],
        at("2024-01-08T08:04:00Z"),
        {
            "k": [
                fired("k", [1], at("2024-01-01T08:05:00Z"), at("2024-01-02T08:05:00Z"), "time"),
                fired("k", [2], at("2024-01-03T08:05:00Z"), at("2024-01-04T08:05:00Z"), "time"),
                Forgot("k"),
                fired("k", [3], at("2024-01-06T08:05:00Z"), at("2024-01-07T08:05:00Z"), "time"),
            ]
        },
    ),
    "closing counts no empty intervals": Worked(
        DailyTrigger(ELEVEN_FIVE, 1),
        [("k", at("2024-01-01T08:05:00Z"), None)],
        at("2024-01-01T08:05:00Z"),
        {"k": [fired("k", [1], at("2024-01-01T08:05:00Z"), at("2024-01-02T08:05:00Z"), "time")]},
        close=True,
    ),
    "times that events tell": Worked(
        DailyByRule(by_time, 3),
        [
            ("k", at("2024-01-01T09:00:00Z"), "18:00"),
            ("k", at("2024-01-01T10:00:00Z"), "18:00"),
            ("j", at("2024-01-01T10:00:00Z"), "9:30"),
        ],
        at("2024-01-02T09:30:00Z"),
        {
            "k": [fired("k", [1, 2], at("2024-01-01T09:00:00Z"), at("2024-01-01T18:00:00Z"), "time")],
            "j": [fired("j", [3], at("2024-01-01T10:00:00Z"), at("2024-01-02T09:30:00Z"), "time")],
        },
    ),
    "the latest event decides": Worked(
        DailyByRule(by_time, 2),
        [
            ("k", at("2024-01-01T09:00:00Z"), "18:00"),
            ("k", at("2024-01-01T10:00:00Z"), "9:30"),
            ("k", at("2024-01-01T11:00:00Z"), "noon"),
        ],
        at("2024-01-04T09:30:00Z"),
        {
            "k": [
                fired("k", [1, 2], at("2024-01-01T09:00:00Z"), at("2024-01-02T09:30:00Z"), "time"),
                Forgot("k"),
            ]
        },
        accounts={"refused": [3]},
    ),
}


def events_of(steps: list[Step]) -> list[Event]:
    return [
        Event(place, key, clock, Tuple({"id": place, "key": key, "op": said}, clock, "events"))
        for place, (key, clock, said) in enumerate(steps, 1)
    ]


def assert_worked(worked: Worked, answer: Expected) -> None:
    assert answer.calls == worked.calls
    assert [answer.refused, answer.purged, answer.pending] == [
        worked.accounts.get(account, []) for account in ("refused", "purged", "pending")
    ]
    everything = {*answer.refused, *answer.purged, *answer.pending, *answer.windowed}
    assert everything == {place for place, _ in enumerate(worked.events, 1)}


@pytest.mark.parametrize("name", WORKED)
def test_worked_examples(name: str) -> None:
    worked = WORKED[name]
    assert_worked(worked, expected(worked.trigger, events_of(worked.events), worked.end, worked.close))


def test_a_cache_lives_as_long_as_its_window_and_a_rule_that_fails_leaves_it_alone() -> None:
    def third(tuple: Tuple, call: TriggerCall) -> str:
        call.cache.setdefault("ids", []).append(tuple["id"])
        if tuple["op"] == "raise":
            raise ValueError
        return "fireAndPurge" if len(call.cache["ids"]) == 3 else "continue"

    steps: list[Step] = [("k", place, "raise" if place in (1, 3) else None) for place in range(1, 8)]
    answer = expected(RuleTrigger(third), events_of(steps), 9)
    assert answer.refused == [1, 3]
    assert answer.firings == [fired("k", [2, 4, 5], 2, 5, "rule")]
    caches: list[dict] = [{}, {}, {"ids": [2]}, {"ids": [2]}, {"ids": [2, 4]}, {}, {"ids": [6]}]
    assert answer.asked["k"] == [Asked(place, "k", place, cache) for place, cache in enumerate(caches, 1)]


def test_the_clock_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="back"):
        expected(CountTrigger(Count(1)), events_of(of_k(2, 1)), 9_000)
    with pytest.raises(ValueError, match="back"):
        expected(CountTrigger(Count(1)), events_of(of_k(2)), 1)


# ---- times of day


@pytest.mark.parametrize(
    ("time", "zone", "after", "wanted"),
    [
        ("02:30", BERLIN, "2024-03-30T01:30Z", "2024-03-31T01:30Z"),  # skipped: as 03:30
        ("02:30", BERLIN, "2024-03-31T01:30Z", "2024-04-01T00:30Z"),
        ("02:30", BERLIN, "2024-10-26T00:30Z", "2024-10-27T00:30Z"),  # the first of two
        ("02:30", BERLIN, "2024-10-27T00:30Z", "2024-10-28T01:30Z"),
        ("02:30", BERLIN, "2024-10-27T01:00Z", "2024-10-28T01:30Z"),  # not the second
        ("03:00", BERLIN, "2024-03-31T00:59Z", "2024-03-31T01:00Z"),
        ("00:00", BERLIN, "2024-03-30T23:00Z", "2024-03-31T22:00Z"),  # a day of 23 hours
        ("00:00", BERLIN, "2024-10-26T22:00Z", "2024-10-27T23:00Z"),  # and one of 25
        ("11:05", "+03:00", "2024-01-01T08:04Z", "2024-01-01T08:05Z"),
        ("11:05", "+03:00", "2024-01-01T08:05Z", "2024-01-02T08:05Z"),
        ("23:59", "-09:30", "2024-01-01T09:28Z", "2024-01-01T09:29Z"),
    ],
)
def test_when_a_time_of_day_comes_next(time: str, zone: str, after: str, wanted: str) -> None:
    hours, minutes = map(int, time.split(":"))
    found = next_time(DayTime(hours * HOUR + minutes * HOUR // 60, zone), at(after))
    assert moment(found) == datetime.fromisoformat(wanted)


SWITCHES = [at("2024-03-31T01:00Z"), at("2024-10-27T01:00Z"), at("1970-01-01T00:00Z")]
MOMENTS = st.builds(
    lambda switch, hours, micros: switch + hours * (HOUR // 4) + micros,
    st.sampled_from(SWITCHES), st.integers(-300, 300), st.integers(-1, 1),
)  # fmt: skip
TIMES = st.one_of(
    st.integers(0, 95).map(lambda quarter: quarter * HOUR // 4), st.sampled_from([1, 24 * HOUR - 1, 2 * HOUR + 1])
)


@examples(150)
@given(st.builds(DayTime, TIMES, st.sampled_from(ZONES)), MOMENTS)
def test_times_of_day_come_as_worked_out_slowly(time: DayTime, after: int) -> None:
    for _ in range(3):
        found = time.next(after)
        assert found == next_time(time, after)
        assert timedelta(0) < moment(found) - moment(after) <= timedelta(hours=25)
        after = found


def test_moments_are_microseconds() -> None:
    assert moment(at("2024-01-01T00:00:00.000001Z")) == datetime(2024, 1, 1, 0, 0, 0, 1, UTC)
