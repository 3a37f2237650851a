"""Each policy on its own, policies of a user's own, and the built-in ones deciding event by event."""

from __future__ import annotations

import dataclasses
import time
import tracemalloc
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import policies
import windowing
from manager import WindowManager
from policies import (
    Action,
    CountEvictionPolicy,
    CountTriggerPolicy,
    EvictionContext,
    EvictionPolicy,
    QueuedEvent,
    TimeEvictionPolicy,
    TimeTriggerPolicy,
    TriggerContext,
    TriggerPolicy,
    WatermarkCountEvictionPolicy,
    WatermarkCountTriggerPolicy,
    WatermarkTimeEvictionPolicy,
    WatermarkTimeTriggerPolicy,
    choose_policies,
)
from policies.storm import in_gap
from tests.helpers.lateness import Lateness
from windowing import Bounds, ConfigError, Count, Duration, TupleWindow, days, micros, millis, seconds
from windowing.events import Events
from windowing.settings import WindowSettings
from windowing.timestamps import FOREVER

Json = dict[str, Any]


def clock_time(minute: int, second: int) -> int:
    return ((6 * 60 + minute) * 60 + second) * 1_000_000


def at(timestamp: int, number: int = 0) -> QueuedEvent:
    return QueuedEvent(number, timestamp)


def ending(reference: int, count: int) -> EvictionContext:
    return EvictionContext(reference=reference, count=count)


# ---- eviction


@pytest.mark.feature("ST-19")
@pytest.mark.parametrize(
    ("minute", "second", "action"),
    [
        (0, 10, Action.EXPIRE),
        (0, 11, Action.PROCESS),
        (0, 30, Action.PROCESS),
        (0, 33, Action.KEEP),
        (0, 35, Action.KEEP),
        (0, 36, Action.STOP),
    ],
)
def test_storms_example_of_what_becomes_of_an_event(minute: int, second: int, action: Action) -> None:
    policy = WatermarkTimeEvictionPolicy(seconds(20), lag=seconds(5))
    assert policy.evict(at(clock_time(minute, second)), ending(clock_time(0, 30), 3)) is action


@pytest.mark.parametrize("kind", [TimeEvictionPolicy, WatermarkTimeEvictionPolicy])
def test_either_bound_holds_one_of_the_two_ends(kind: type[TimeEvictionPolicy]) -> None:
    context = ending(30, 9)
    decided = {
        bounds: [kind(micros(20), bounds).evict(at(time), context).name for time in (9, 10, 11, 29, 30, 31)]
        for bounds in Bounds
    }
    late = "STOP" if kind is WatermarkTimeEvictionPolicy else "KEEP"
    assert decided[Bounds.END] == ["EXPIRE", "EXPIRE", "PROCESS", "PROCESS", "PROCESS", late]
    assert decided[Bounds.START] == ["EXPIRE", "PROCESS", "PROCESS", "PROCESS", "KEEP", late]


@pytest.mark.parametrize(("bounds", "inside"), [(Bounds.END, [11, 20]), (Bounds.START, [10, 19])])
def test_in_is_true_at_one_end_and_false_at_the_other(bounds: Bounds, inside: list[int]) -> None:
    held = [time for time in range(8, 24) if bounds.holds(10, 20, time)]
    assert [held[0], held[-1]] == inside


def test_a_count_keeps_the_last_events_up_to_the_reference() -> None:
    policy = CountEvictionPolicy(Count(3))
    context = EvictionContext(reference=99, count=5)
    decided = [policy.evict(at(0, number), context) for number in range(5)]
    assert decided == [Action.EXPIRE] * 2 + [Action.PROCESS] * 3


def test_columns_and_single_events_agree_on_what_a_window_holds() -> None:
    chance = np.random.default_rng(3)
    for _ in range(50):
        times = np.sort(chance.integers(0, 60, 20))
        ends = np.sort(chance.integers(0, 70, 5))
        for policy in (
            CountEvictionPolicy(Count(4)),
            *(TimeEvictionPolicy(micros(7), bounds) for bounds in Bounds),
            *(WatermarkTimeEvictionPolicy(micros(7), bounds, micros(3)) for bounds in Bounds),
        ):
            bounds = getattr(policy, "bounds", Bounds.END)
            stops = bounds.count_before_end(times, ends)
            starts = policy.starts(times, ends, stops)
            for reference, start, stop in zip(ends.tolist(), starts.tolist(), stops.tolist(), strict=True):
                context = ending(reference, stop)
                actions = [policy.evict(at(int(each), place), context) for place, each in enumerate(times[:stop])]
                held = [place for place, action in enumerate(actions) if action is Action.PROCESS]
                assert held == list(range(start, stop))


ALL = [
    CountEvictionPolicy(Count(3)),
    WatermarkCountEvictionPolicy(Count(3)),
    TimeEvictionPolicy(seconds(20)),
    TimeEvictionPolicy(seconds(20), Bounds.START),
    WatermarkTimeEvictionPolicy(micros(1), Bounds.END, millis(5)),
    CountTriggerPolicy(Count(2)),
    WatermarkCountTriggerPolicy(Count(2)),
    TimeTriggerPolicy(days(1), Bounds.START, seconds(8)),
    WatermarkTimeTriggerPolicy(seconds(10)),
]


@pytest.mark.parametrize("policy", ALL, ids=repr)
def test_the_repr_of_a_policy_can_be_pasted(policy: Any) -> None:
    names = {**vars(policies), **vars(windowing)}
    text = repr(policy).replace(repr(Bounds.END), "Bounds.END").replace(repr(Bounds.START), "Bounds.START")
    assert eval(text, names) == policy


@pytest.mark.parametrize("policy", ALL, ids=repr)
def test_policies_are_frozen(policy: Any) -> None:
    first = dataclasses.fields(policy)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(policy, first, None)
    assert hash(policy) == hash(dataclasses.replace(policy))


@pytest.mark.feature("ST-12")
@pytest.mark.parametrize(
    ("length", "slide", "event_time", "expected"),
    [
        (Count(3), Count(2), False, (CountEvictionPolicy, CountTriggerPolicy)),
        (Count(3), Count(2), True, (WatermarkCountEvictionPolicy, WatermarkCountTriggerPolicy)),
        (seconds(3), seconds(2), False, (TimeEvictionPolicy, TimeTriggerPolicy)),
        (seconds(3), seconds(2), True, (WatermarkTimeEvictionPolicy, WatermarkTimeTriggerPolicy)),
        (seconds(3), Count(2), True, (WatermarkTimeEvictionPolicy, WatermarkCountTriggerPolicy)),
        (Count(3), seconds(2), False, (CountEvictionPolicy, TimeTriggerPolicy)),
    ],
)
def test_settings_come_to_storms_policies(length: Any, slide: Any, event_time: bool, expected: Any) -> None:
    chosen = choose_policies(WindowSettings(length=length, slide=slide), event_time=event_time)
    assert tuple(map(type, chosen)) == expected


@pytest.mark.parametrize(
    ("given_settings", "event_time", "complaint"),
    [
        (WindowSettings(), True, "no length"),
        (WindowSettings(length=Count(1), eviction=CountEvictionPolicy), True, "is not an eviction policy"),
        (WindowSettings(length=Count(1), trigger="daily"), True, "is not a trigger policy"),
        (WindowSettings(length=Count(1), trigger=WatermarkCountTriggerPolicy(Count(1))), False, "no event time"),
        (WindowSettings(length=Count(1), trigger=CountTriggerPolicy(Count(1))), True, "follows the clock"),
    ],
)
def test_policies_that_do_not_fit_are_refused(given_settings: Any, event_time: bool, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        choose_policies(given_settings, event_time=event_time)


# ---- gaps of years


def windows_of(eviction: EvictionPolicy, trigger: TriggerPolicy, times: list[int]) -> list[TupleWindow]:
    manager = WindowManager(eviction, trigger)
    manager.accounts.add("received", np.array([len(times)]))
    manager.add(Events(np.array(times), pa.record_batch({"n": list(range(len(times)))})))
    fired = [*manager.advance(times[-1]), *manager.advance(FOREVER)]
    manager.accounts.check(manager.pending, "gaps")
    return fired


@pytest.mark.parametrize("bounds", list(Bounds))
@pytest.mark.parametrize("length", [micros(1), micros(3), Count(2)])
def test_years_without_events_are_jumped_over(length: Any, bounds: Bounds) -> None:
    century = days(36_525).micros
    eviction: EvictionPolicy = WatermarkCountEvictionPolicy(Count(2))
    if isinstance(length, Duration):
        eviction = WatermarkTimeEvictionPolicy(length, bounds)
    tracemalloc.start()
    started = time.perf_counter()
    fired = windows_of(eviction, WatermarkTimeTriggerPolicy(micros(1), bounds), [-century, 0, 5, century])
    spent = time.perf_counter() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert spent < 2
    assert peak < 20_000_000
    each = length.micros if isinstance(length, Duration) else 1
    assert len(fired) == 4 * each


def test_a_tiny_slide_on_a_long_window_stays_within_memory() -> None:
    manager = WindowManager(WatermarkTimeEvictionPolicy(millis(60)), WatermarkTimeTriggerPolicy(micros(1)))
    manager.add(Events(np.array([0]), pa.record_batch({"n": [1]})))
    tracemalloc.start()
    fired = sum(1 for _ in manager.advance(FOREVER))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert fired == 60_000
    assert peak < 6_000_000


# ---- lateness


@pytest.mark.parametrize(
    ("slide", "bounds", "watermark", "expected"),
    [
        (10, Bounds.END, 20, [True, True, False]),  # tumbling: the window that ended at 20 has been passed
        (10, Bounds.END, 21, [True, False, False]),
        (5, Bounds.END, 20, [True, False, False]),  # a window that ends at 25 still holds 20
        (10, Bounds.START, 20, [True, False, False]),
    ],
)
def test_late_is_what_no_window_to_come_can_hold(slide: int, bounds: Bounds, watermark: int, expected: Any) -> None:
    lateness = Lateness(
        WatermarkTimeEvictionPolicy(micros(10), bounds), WatermarkTimeTriggerPolicy(micros(slide), bounds)
    )
    times = np.array([watermark - 1, watermark, watermark + 1])
    assert lateness.late(times, watermark).tolist() == expected
    assert not lateness.late(times, None).any()


def test_gaps_between_windows_are_known_at_the_door() -> None:
    for bounds, inside in ((Bounds.END, [8, 9, 10]), (Bounds.START, [7, 8, 9])):
        apart = WatermarkTimeEvictionPolicy(micros(3), bounds), WatermarkTimeTriggerPolicy(micros(10), bounds)
        gap = in_gap(*apart, np.arange(1, 11))
        assert gap is not None
        assert (np.flatnonzero(~gap) + 1).tolist() == inside


def test_a_trigger_of_ones_own_leaves_no_gaps() -> None:
    @dataclass(frozen=True)
    class OnEvery(WatermarkTimeTriggerPolicy):
        def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
            return True

    policies = WatermarkTimeEvictionPolicy(micros(3)), OnEvery(micros(10))
    assert in_gap(*policies, np.arange(10)) is None
    assert Lateness(*policies).late(np.array([19, 20]), 20).tolist() == [True, False]


def test_a_window_manager_refuses_policies_of_ones_own_and_says_what_runs_them() -> None:
    @dataclass(frozen=True)
    class OnEvery(TriggerPolicy):
        def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
            return True

    with pytest.raises(ConfigError, match=r"WindowManager with .*OnEvery(.|\n)*PolicyWindows"):
        WindowManager(CountEvictionPolicy(Count(1)), OnEvery())
