"""Each policy on its own, policies of a user's own, and the built-in ones deciding event by event."""

from __future__ import annotations

import dataclasses
import time
import tracemalloc
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import policies
import windowing
from manager import WindowManager
from manager.storage.checkpoint import FileCheckpoint, MemoryCheckpoint
from policies import (
    CountEvictionPolicy,
    CountTriggerPolicy,
    EvictionAction,
    EvictionContext,
    EvictionPolicy,
    QueuedEvent,
    TimeEvictionPolicy,
    TimeTriggerPolicy,
    TriggerPolicy,
    WatermarkCountEvictionPolicy,
    WatermarkCountTriggerPolicy,
    WatermarkTimeEvictionPolicy,
    WatermarkTimeTriggerPolicy,
    choose_policies,
)
from policies.last_end import in_gap
from tests.helpers import core_driver
from tests.helpers.examples import examples
from tests.helpers.lateness import Lateness
from tests.helpers.strategies import scenarios
from topologies import TopologyBuilder, sinks, spouts
from topologies.engine.batch.executor import InProcess
from topologies.engine.batch.plan import BatchPlan, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.sources.splits import TableSource
from topologies.topology import Topology
from windowing import Bounds, ConfigError, Count, Duration, TupleWindow, WindowedBolt, days, micros, millis, seconds
from windowing.data.events import Events
from windowing.settings import WindowSettings
from windowing.time.timestamps import FOREVER

Json = dict[str, Any]


def clock_time(minute: int, second: int) -> int:
    return ((6 * 60 + minute) * 60 + second) * 1_000_000


def at(timestamp: int, position: int = 0) -> QueuedEvent:
    return QueuedEvent(timestamp, position, dict)


# ---- eviction


@pytest.mark.feature("ST-19")
@pytest.mark.parametrize(
    ("minute", "second", "action"),
    [
        (0, 10, EvictionAction.EXPIRE),
        (0, 11, EvictionAction.PROCESS),
        (0, 30, EvictionAction.PROCESS),
        (0, 33, EvictionAction.KEEP),
        (0, 35, EvictionAction.KEEP),
        (0, 36, EvictionAction.STOP),
    ],
)
def test_storms_example_of_what_becomes_of_an_event(minute: int, second: int, action: EvictionAction) -> None:
    policy = WatermarkTimeEvictionPolicy(seconds(20), lag=seconds(5))
    assert policy.evict(at(clock_time(minute, second)), EvictionContext(clock_time(0, 30), 3)) is action


@pytest.mark.parametrize("kind", [TimeEvictionPolicy, WatermarkTimeEvictionPolicy])
def test_either_bound_holds_one_of_the_two_ends(kind: type[TimeEvictionPolicy]) -> None:
    context = EvictionContext(30, 9)
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
    decided = [policy.evict(at(0, position), context) for position in range(7)]
    assert decided == [EvictionAction.EXPIRE] * 2 + [EvictionAction.PROCESS] * 3 + [EvictionAction.KEEP] * 2


def test_columns_and_single_events_agree_on_what_a_window_holds() -> None:
    chance = np.random.default_rng(3)
    for _ in range(50):
        times = np.sort(chance.integers(0, 60, 20))
        references = np.sort(chance.integers(0, 70, 5))
        for policy in (
            CountEvictionPolicy(Count(4)),
            *(TimeEvictionPolicy(micros(7), bounds) for bounds in Bounds),
            *(WatermarkTimeEvictionPolicy(micros(7), bounds, micros(3)) for bounds in Bounds),
        ):
            bounds = getattr(policy, "bounds", Bounds.END)
            stops = bounds.up_to(times, references)
            starts = policy.starts(times, references, stops)
            for reference, start, stop in zip(references.tolist(), starts.tolist(), stops.tolist(), strict=True):
                context = EvictionContext(reference, stop)
                actions = [policy.evict(at(int(each), place), context) for place, each in enumerate(times)]
                held = [place for place, action in enumerate(actions) if action is EvictionAction.PROCESS]
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
        (WindowSettings(length=Count(1), eviction=CountEvictionPolicy), True, "is not a policy"),
        (WindowSettings(length=Count(1), trigger="daily"), True, "is not a policy"),
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
        def track(self, event: QueuedEvent, state: dict[str, Any]) -> bool:
            return True

    policies = WatermarkTimeEvictionPolicy(micros(3)), OnEvery(micros(10))
    assert in_gap(*policies, np.arange(10)) is None
    assert Lateness(*policies).late(np.array([19, 20]), 20).tolist() == [True, False]


# ---- policies of a user's own


@dataclass(frozen=True)
class EvenValues(EvictionPolicy):
    """Only events with an even value, and each only once."""

    def evict(self, event: QueuedEvent, context: EvictionContext) -> EvictionAction:
        if event.timestamp > context.reference:
            return EvictionAction.KEEP
        return EvictionAction.PROCESS if event.row()["value"] % 2 == 0 else EvictionAction.EXPIRE


class SinceTheMarker(EvictionPolicy):
    """Like a session: a marker lets everything before it expire."""

    def evict(self, event: QueuedEvent, context: EvictionContext) -> EvictionAction:
        if event.position >= context.count:
            return EvictionAction.KEEP
        return EvictionAction.EXPIRE if event.row()["value"] == 99 else EvictionAction.PROCESS


@dataclass(frozen=True)
class WithoutNegatives(WatermarkTimeEvictionPolicy):
    """A built-in policy, except for some of the events."""

    def evict(self, event: QueuedEvent, context: EvictionContext) -> EvictionAction:
        decided = super().evict(event, context)
        if decided is EvictionAction.PROCESS and event.row()["value"] < 0:
            return EvictionAction.KEEP
        return decided


@dataclass(frozen=True)
class OnMarker(TriggerPolicy):
    """Fires on events of one value; and counts the events between, in its state."""

    marker: int
    event_time = True

    def track(self, event: QueuedEvent, state: dict[str, Any]) -> bool:
        state["since"] = state.get("since", 0) + 1
        if event.row()["value"] != self.marker:
            return False
        state["since"] = 0
        return True


@dataclass(frozen=True)
class ThirdOrMarker(WatermarkCountTriggerPolicy):
    """A built-in trigger that also fires on a marker."""

    def track(self, event: QueuedEvent, state: dict[str, Any]) -> bool:
        return super().track(event, state) or event.row()["value"] == 99


class Show(WindowedBolt):
    outputs: ClassVar[str] = "held array<long>, new array<long>, expired array<long>"

    def execute(self, window: TupleWindow) -> Any:
        return {
            name: table.column("value").to_pylist()
            for name, table in (("held", window.table), ("new", window.new), ("expired", window.expired))
        }


def topology_of(bolt: WindowedBolt) -> tuple[Topology, sinks.MemorySink]:
    builder, sink = TopologyBuilder("own"), sinks.memory()
    builder.set_spout("numbers", spouts.memory("value long, ts long"))
    builder.set_bolt("show", bolt.with_timestamp_field("ts")).global_grouping("numbers")
    builder.set_sink("out", sink).from_("show")
    return builder.build(), sink


def shown(bolt: WindowedBolt, batches: list[list[tuple[int, int]]], folder: Any = None) -> list[list[int]]:
    """What the windows hold; with a folder, every batch runs in a new process, after a first attempt that crashes."""
    topology, sink = topology_of(bolt)
    schema = topology.spouts["numbers"].outputs["default"]
    step = MicroBatch(topology, MemoryCheckpoint(), InProcess())
    for number, rows in enumerate([*batches, None]):
        plan = BatchPlan(len(batches) - 1, TimeAdvance(0, close=True), closing=True)
        if rows is not None:
            values, times = zip(*rows, strict=True)
            table = pa.table([pa.array(values, pa.int64()), pa.array(times, pa.int64())], schema=schema)
            plan = BatchPlan(number, TimeAdvance(0), [TableSource("numbers", table)])
        if folder:
            step = MicroBatch(topology, FileCheckpoint(str(folder)), InProcess())
            step.hook = crash_at_the_commit
            with pytest.raises(ZeroDivisionError):
                step.run(plan)
            step = MicroBatch(topology, FileCheckpoint(str(folder)), InProcess())
        step.run(plan)
        for part in step.manifest.bolts.values():
            part.accounts.check(part.pending, "show")
    return [row["held"] for row in sink.rows]


def crash_at_the_commit(phase: str) -> None:
    if phase == "commit":
        raise ZeroDivisionError


NUMBERS = [[(1, 1), (2, 2), (4, 3)], [(6, 5), (99, 6), (3, 4)], [(-2, 7), (8, 9)], [(99, 10), (10, 12)], [(12, 15)]]


@pytest.mark.parametrize("crashing", [False, True], ids=["calm", "crashing"])
def test_only_even_values(crashing: bool, tmp_path: Any) -> None:
    bolt = Show().with_policies(eviction=EvenValues(), trigger=WatermarkTimeTriggerPolicy(millis(5)))
    found = shown(bolt, NUMBERS, tmp_path if crashing else None)
    # 3 comes when 4 is behind the watermark of 3 no more: it is settled in its place, and odd.
    assert found == [[2, 4, 6], [2, 4, 6, -2, 8], [2, 4, 6, -2, 8, 10, 12]]


@pytest.mark.parametrize("crashing", [False, True], ids=["calm", "crashing"])
def test_events_that_a_policy_lets_expire_are_in_no_later_window(crashing: bool, tmp_path: Any) -> None:
    bolt = Show().with_policies(eviction=SinceTheMarker(), trigger=WatermarkCountTriggerPolicy(Count(4)))
    found = shown(bolt, NUMBERS, tmp_path if crashing else None)
    assert found == [[1, 2, 4, 3], [1, 2, 4, 3, 6, -2, 8]]


@pytest.mark.parametrize("crashing", [False, True], ids=["calm", "crashing"])
def test_a_built_in_eviction_with_exceptions(crashing: bool, tmp_path: Any) -> None:
    bolt = Show().with_policies(eviction=WithoutNegatives(millis(4)), trigger=WatermarkTimeTriggerPolicy(millis(4)))
    found = shown(bolt, NUMBERS, tmp_path if crashing else None)
    assert found == [[1, 2, 4, 3], [6, 99], [8, 99, 10], [12]]


@pytest.mark.parametrize("crashing", [False, True], ids=["calm", "crashing"])
def test_windows_that_end_with_a_marker(crashing: bool, tmp_path: Any) -> None:
    bolt = Show().with_window(3).with_policies(trigger=OnMarker(99))
    assert shown(bolt, NUMBERS, tmp_path if crashing else None) == [[3, 6, 99], [-2, 8, 99]]


@pytest.mark.parametrize("crashing", [False, True], ids=["calm", "crashing"])
def test_a_built_in_trigger_that_fires_more_often_loses_nothing(crashing: bool, tmp_path: Any) -> None:
    bolt = Show().with_window(2).with_policies(trigger=ThirdOrMarker(Count(3)))
    found = shown(bolt, NUMBERS, tmp_path if crashing else None)
    # In order: 1 2 4 | 3 6 99| -2 8 99| 10 12: 99 is the sixth and the ninth.
    assert found == [[2, 4], [6, 99], [8, 99]]
    bolt = Show().with_window(4).with_policies(trigger=ThirdOrMarker(Count(5)))
    found = shown(bolt, NUMBERS, tmp_path / "again" if crashing else None)
    assert found == [[2, 4, 3, 6], [4, 3, 6, 99], [99, -2, 8, 99], [-2, 8, 99, 10]]


def test_a_marker_fires_with_its_own_tick_even_from_a_time_trigger() -> None:
    @dataclass(frozen=True)
    class Marked(WatermarkTimeTriggerPolicy):
        def track(self, event: QueuedEvent, state: dict[str, Any]) -> bool:
            return bool(event.row()["value"] == 99)

    topology, sink = topology_of(Show().with_window(2).with_policies(trigger=Marked(seconds(100))))
    schema = topology.spouts["numbers"].outputs["default"]
    step = MicroBatch(topology, MemoryCheckpoint(), InProcess())
    seen = []
    for number, value in enumerate([1, 99, 2, 99]):
        table = pa.table([pa.array([value], pa.int64()), pa.array([number], pa.int64())], schema=schema)
        step.run(BatchPlan(number, TimeAdvance(0), [TableSource("numbers", table)]))
        seen.append(len(sink.rows))
    assert seen == [0, 1, 1, 2]
    assert [row["held"] for row in sink.rows] == [[1, 99], [2, 99]]


# ---- the built-in policies, event by event


class CountByEvent(CountEvictionPolicy):
    def evict(self, event: QueuedEvent, context: EvictionContext) -> EvictionAction:
        return super().evict(event, context)


class WatermarkCountByEvent(WatermarkCountEvictionPolicy):
    def evict(self, event: QueuedEvent, context: EvictionContext) -> EvictionAction:
        return super().evict(event, context)


class TimeByEvent(TimeEvictionPolicy):
    def evict(self, event: QueuedEvent, context: EvictionContext) -> EvictionAction:
        return super().evict(event, context)


class WatermarkTimeByEvent(WatermarkTimeEvictionPolicy):
    def evict(self, event: QueuedEvent, context: EvictionContext) -> EvictionAction:
        return super().evict(event, context)


class CountTriggerByEvent(CountTriggerPolicy):
    def track(self, event: QueuedEvent, state: dict[str, Any]) -> bool:
        return super().track(event, state)


class WatermarkCountTriggerByEvent(WatermarkCountTriggerPolicy):
    def track(self, event: QueuedEvent, state: dict[str, Any]) -> bool:
        return super().track(event, state)


BY_EVENT: dict[type, type] = {
    CountEvictionPolicy: CountByEvent,
    WatermarkCountEvictionPolicy: WatermarkCountByEvent,
    TimeEvictionPolicy: TimeByEvent,
    WatermarkTimeEvictionPolicy: WatermarkTimeByEvent,
    CountTriggerPolicy: CountTriggerByEvent,
    WatermarkCountTriggerPolicy: WatermarkCountTriggerByEvent,
}


def by_event(bolt: WindowedBolt, event_time: bool) -> Any:
    """The policies of a bolt, deciding event by event where an event can decide (aligned ends come without one)."""
    built_in: Any = core_driver.built_in(bolt, event_time)
    return tuple(
        BY_EVENT.get(type(policy), type(policy))(*(getattr(policy, each.name) for each in dataclasses.fields(policy)))
        for policy in built_in
    )


@examples(250)
@given(scenarios())
def test_event_by_event_the_built_in_policies_give_the_same_windows(scenario: Json) -> None:
    columnar = core_driver.answer(scenario)
    single = core_driver.answer(scenario, policies=by_event)
    for part in ("windows", "late", "watermarks"):
        assert single[part] == columnar[part]


def eviction_by_event(bolt: WindowedBolt, event_time: bool) -> Any:
    return by_event(bolt, event_time)[0], core_driver.built_in(bolt, event_time)[1]


def trigger_by_event(bolt: WindowedBolt, event_time: bool) -> Any:
    return core_driver.built_in(bolt, event_time)[0], by_event(bolt, event_time)[1]


@examples(100)
@given(scenarios())
def test_one_policy_event_by_event_and_one_columnar_give_the_same_windows(scenario: Json) -> None:
    columnar = core_driver.answer(scenario)
    for chosen in (eviction_by_event, trigger_by_event):
        assert core_driver.answer(scenario, core_driver.one_by_one, chosen)["windows"] == columnar["windows"]
