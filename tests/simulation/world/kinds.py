"""The kinds of windows and rules of time from which a topology is drawn, and the bolts that bring their own."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.simulation.world.bolts import ByMethod, Expired, Few, Ids, PerUser, Plain, by_amount, picks, sums
from tests.simulation.world.policies import (
    AtOnce,
    Enough,
    Fresh,
    Near,
    NearForAWhile,
    OfEachUser,
    Passing,
    PassingOrAtOnce,
)
from windowing import (
    Changes,
    Deduplicate,
    Rank,
    RateLimit,
    Silence,
    TemporalJoin,
    TopN,
    WindowedBolt,
    WindowJoin,
    hours,
    presets,
)
from windowing.daytimes import DayTime
from windowing.durations import Count, Duration
from windowing.settings.kinds import Calendar, CountByStart, Hopping, Session, SlidingLog, Snapshot
from windowing.settings.panes import Panes, after_clock, after_count, after_event_time
from windowing.settings.triggers import CountTrigger, DailyTrigger, RuleTrigger

AZURE = presets.azure(out_of_order="2s", late="4s", early="3s", arrival_field="at")
Maker = Callable[[random.Random], WindowedBolt]
Chooser = Callable[[WindowedBolt, random.Random], WindowedBolt]


def lagging(bolt: WindowedBolt, chance: random.Random) -> WindowedBolt:
    """In event time, behind a lag; with rules for what is late."""
    bolt = bolt.with_timestamp_field("ts").with_lag(f"{chance.choice([0, 500, 2_000, 6_000])}ms")
    if chance.random() < 0.2:
        bolt = bolt.with_watermark(every=chance.choice([1, 3]))
    if chance.random() < 0.5:
        return bolt.with_late_tuple_stream("late")
    return bolt


def _time(chance: random.Random) -> str:
    return f"{chance.choice([500, 1_000, 2_500, 4_000, 9_000])}ms"


def _duration(chance: random.Random) -> Duration:
    return Duration(chance.choice([500_000, 2_000_000, 9_000_000]))


def _daily(chance: random.Random) -> DailyTrigger:
    return DailyTrigger(DayTime(chance.randrange(24) * hours(1).micros, "Europe/Berlin"), max_empty=2)


def _policies(bolt: WindowedBolt, chance: random.Random) -> WindowedBolt:
    """Policies such as users write, in event time or by the clock; sometimes beside a built-in one."""
    near: Any = chance.choice([Near, NearForAWhile])
    eviction = chance.choice(
        [near(chance.choice([5.0, 50.0]), chance.choice([3, 20])), Fresh(), OfEachUser(chance.randint(1, 3), 5)]
    )
    moments = chance.choice([1, 3]), chance.randint(1, 4)
    sums = chance.choice([40.0, 300.0]), chance.choice([1, 5]), chance.random() < 0.3, chance.random() < 0.7
    trigger: Any = chance.choice(
        [
            Passing(*moments),
            PassingOrAtOnce(*moments, chance.choice(["in", "more", "user1"])),
            Enough(*sums),
            AtOnce(*sums, chance.choice([1, 3])),
        ]
    )
    match chance.randrange(4):
        case 0:
            bolt = bolt.with_window(chance.randint(1, 9)).with_policies(trigger=trigger)
        case 1:
            bolt = bolt.with_window(_time(chance), _time(chance)).with_policies(eviction=eviction)
        case _:
            bolt = bolt.with_policies(eviction=eviction, trigger=trigger)
    return bolt if chance.random() < 0.2 else lagging(bolt, chance)


_BERLIN = "Europe/Berlin"
_CALENDARS = [
    Calendar("hour", _BERLIN), Calendar("day", _BERLIN), Calendar("day", _BERLIN, at=["07:00", "07:30"]),
    Calendar("hour", _BERLIN, last=3), Calendar("day", _BERLIN, last=2),
]  # fmt: skip

KINDS: dict[str, Chooser] = {
    "count": lambda b, c: b.with_window(c.randint(1, 9), c.randint(1, 9)),
    "count in event time": lambda b, c: lagging(b.with_window(c.randint(1, 9), c.randint(1, 5)), c),
    "sliding": lambda b, c: lagging(b.with_window(_time(c), _time(c)), c),
    "tumbling": lambda b, c: lagging(b.with_tumbling_window(_time(c)).with_alignment(offset="100ms"), c),
    "count by time": lambda b, c: lagging(b.with_window(c.randint(1, 9), _time(c)), c),
    "time by count": lambda b, c: lagging(b.with_window(_time(c), c.randint(1, 9)), c),
    "tumbling by key": lambda b, c: lagging(b.with_tumbling_window(_time(c)), c).with_key("user"),
    "sessions": lambda b, c: lagging(b.with_window(Session(_time(c))), c).with_key("user"),
    "sessions, late by themselves": lambda b, c: lagging(b.with_window(Session(_time(c))), c).with_key("user")
    .with_lateness(by="window", by_session=True, allowed=c.choice(["0s", "2s"])),
    "sliding logs, late by themselves": lambda b, c: lagging(b.with_window(SlidingLog(_time(c))), c).with_key("user")
    .with_lateness(by="window", allowed=c.choice(["0s", "2s"])),
    "by the clock": lambda b, c: b.with_tumbling_window(_time(c)),
    "sliding by the clock": lambda b, c: b.with_window(_time(c), "1s"),
    "several kinds": lambda b, c: lagging(b.with_window(Session(_time(c)), Hopping("4s", "2s")), c).with_key("user"),
    "hours": lambda b, c: lagging(b.with_window(c.choice(_CALENDARS)), c),
    "starts": lambda b, c: lagging(b.with_window(CountByStart(c.randint(1, 3))), c),
    "once an id": lambda b, c: lagging(b.with_window(_time(c), "1s"), c).with_message_id_field("id"),
    "late by window": lambda b, c: lagging(b.with_window("6s", c.choice(["2s", "6s"])), c)
    .with_lateness(by="window", allowed=c.choice(["0s", "3s"])),
    "late and cut": lambda b, c: lagging(b.with_tumbling_window(_time(c)), c)
    .with_lateness(action=c.choice(["drop", "adjust"])),
    "empty windows": lambda b, c: lagging(b.with_tumbling_window(c.choice(["2s", "4s"])), c)
    .with_empty_windows(until=c.choice(["4s", "9s"])),
    "empty windows by key": lambda b, c: lagging(b.with_tumbling_window("4s"), c).with_key("user")
    .with_empty_windows(until="8s"),
    "idle": lambda b, c: lagging(b.with_tumbling_window(_time(c)), c).with_watermark(idle_timeout=_time(c)),
    "atlas hopping": lambda b, c: b.with_time(presets.atlas("2s")).with_window("6s", "2s").with_timestamp_field("ts"),
    "atlas sessions": lambda b, c: b.with_time(presets.atlas("2s")).with_window(Session(_time(c))).with_key("user")
    .with_timestamp_field("ts"),
    "azure substreams": lambda b, c: b.with_time(AZURE).with_tumbling_window("5s").with_key("user")
    .with_watermark(per_key=True)
    .with_timestamp_field("ts"),
    "azure sessions": lambda b, c: b.with_time(AZURE).with_window(Session("2s", max_duration="9s")).with_key("user")
    .with_timestamp_field("ts"),
    "azure sliding": lambda b, c: b.with_time(AZURE).with_window(SlidingLog("3s")).with_timestamp_field("ts"),
    "azure, a silent source": lambda b, c: b.with_time(AZURE).with_tumbling_window("5s").with_timestamp_field("ts")
    .with_watermark(estimate_arrival=True),
    "snapshots": lambda b, c: b.with_time(presets.streaminsight(c.randint(2, 9), "2s")).with_window(Snapshot())
    .with_timestamp_field("ts"),
    "lifetimes": lambda b, c: b.with_time(presets.streaminsight(c.randint(2, 9), "2s")).with_window(Snapshot())
    .with_timestamp_field("ts").with_lifetime("until"),
    "partitions": lambda b, c: b.with_time(presets.atlas("1s")).with_tumbling_window("5s")
    .with_timestamp_field("ts").with_watermark(partition="user"),
    "panes": lambda b, c: b.with_time(presets.atlas("3s")).with_tumbling_window("5s").with_key("user")
    .with_timestamp_field("ts")
    .with_trigger(Panes(early=after_count(2) | after_clock("1s"), late=True,
                        mode=c.choice(["retracting", "accumulating"]))),
    "panes of new events": lambda b, c: lagging(b.with_tumbling_window("5s"), c)
    .with_lateness(by="window", allowed="2s")
    .with_trigger(Panes(early=after_event_time("1s").once(), late=after_count(2), mode="discarding")),
    "a count of a key": lambda b, c: b.with_key("user")
    .with_trigger(CountTrigger(Count(c.randint(1, 5)), c.choice([None, _duration(c)]), c.random() < 0.5)),
    "a rule of a key": lambda b, c: b.with_key("user").with_trigger(
        RuleTrigger(by_amount, c.choice([None, _duration(c)])), refused_stream="refused"),
    "full windows of a key": lambda b, c: b.with_key("user")
    .with_trigger(RuleTrigger(by_amount), max_events=c.randint(2, 6)),
    "own policies": _policies,
    "own policies by key": lambda b, c: _policies(b, c).with_key("user"),
    "daily": lambda b, c: b.with_key("user").with_trigger(_daily(c)),
}  # fmt: skip

BOLTS: list[tuple[str, Maker]] = [
    ("Ids", lambda _: Ids()),
    ("Ids", lambda _: Ids()),
    ("Plain", lambda _: Plain()),
    ("Few", lambda _: Few()),
    ("Expired", lambda _: Expired()),
    ("PerUser", lambda _: PerUser()),
    ("ByMethod", lambda _: ByMethod()),
    ("sums", lambda _: sums()),
    ("picks", lambda _: picks()),
    ("TopN", lambda c: TopN(c.randint(1, 3), "amount", by="user", start="since")),
    ("Rank", lambda c: Rank("amount", method=c.choice(["rank", "dense_rank", "row_number"]))),
]
"""What is done with the events of a window."""

NUMBERED = {"Ids", "Plain", "Few", "Expired"}
"""Those whose windows may be the events of a second bolt."""

MOVED = ["Plain", "Few", "PerUser", "ByMethod", "sums", "picks"]
"""Those that can be moved to other tasks, if their windows can."""

PASSING: dict[str, Maker] = {
    "Deduplicate": lambda c: Deduplicate("at", within=_time(c), rest="rest"),
    "RateLimit": lambda c: RateLimit(c.randint(1, 2), per=_time(c), by="user", rest="rest"),
    "Silence": lambda c: Silence(_time(c), by="user", end="silent_at"),
    "Changes": lambda c: Changes("user", of="at", within=c.choice([None, _time(c)]), rest="rest"),
}
"""Bolts that have no windows."""


def _how(chance: random.Random, *more: str) -> Any:
    return chance.choice(["inner", "left", "right", "full", "anti", *more])


JOINS: dict[str, Maker] = {
    "WindowJoin": lambda c: WindowJoin("in", "more", on="user", how=_how(c, "semi")).with_tumbling_window(_time(c)),
    "WindowJoin, sliding": lambda c: WindowJoin("in", "more", on="user", how=_how(c)).with_window("4s", "2s"),
    "TemporalJoin": lambda c: TemporalJoin("in", "more", on="user", how=_how(c)).with_lifetime("until"),
}
"""Bolts of two streams."""

MEETING: dict[str, Chooser] = {
    "the least": lambda b, c: b,
    "the greatest": lambda b, c: b.with_watermark(combine="max"),
    "imported": lambda b, c: b.with_watermark(imports={"more": "in"}, imports_beside=c.random() < 0.5),
    "idle inputs": lambda b, c: b.with_watermark(partition_idle_timeout=_time(c)),
    "late by input": lambda b, c: b.with_lateness(per_input=True),
}
"""How the watermarks of two inputs are combined."""

REST = {"Deduplicate": "rest", "RateLimit": "rest", "Changes": "rest", "a rule of a key": "refused"}
"""The further stream of some of them."""
