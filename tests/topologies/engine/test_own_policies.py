"""Policies of a user's own in the engine: the same windows however the input is cut, crashed and keyed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.storage.checkpoint import FileCheckpoint, MemoryCheckpoint
from policies import (
    Action,
    CountEvictionPolicy,
    EvictionContext,
    EvictionPolicy,
    Fire,
    QueuedEvent,
    QueuedEvents,
    TriggerContext,
    TriggerPolicy,
    WatermarkCountTriggerPolicy,
    WatermarkTimeEvictionPolicy,
    WatermarkTimeTriggerPolicy,
)
from tests.helpers.examples import examples
from tests.oracles.own_policies import Fired, PlainRun
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.source_splits import TableSource
from topologies.io import sinks, spouts
from topologies.topology import Topology
from windbolt import TopologyBuilder
from windowing import (
    AggregateBolt,
    Arrival,
    Count,
    TopN,
    TupleWindow,
    WindowedBolt,
    WindowJoin,
    aggregates,
    millis,
    presets,
)
from windowing.durations import Duration
from windowing.settings.rules import Bounds

Row = dict[str, Any]


class Show(WindowedBolt):
    outputs: ClassVar[str] = "key long, ends long, held array<long>, new array<long>, expired array<long>"

    def execute(self, window: TupleWindow) -> Any:
        assert window.table.num_rows == len(window.timestamps)
        held, new, expired = (table.column("id").to_pylist() for table in (window.table, window.new, window.expired))
        return {"key": window.key, "ends": window.end_timestamp, "held": held, "new": new, "expired": expired}


def topology_of(bolt: WindowedBolt, parallelism: int = 1) -> tuple[Topology, sinks.MemorySink]:
    builder, sink = TopologyBuilder("own"), sinks.memory()
    builder.set_spout("numbers", spouts.memory("id long, key long, value long, ts long"))
    declared = builder.set_bolt("show", bolt, parallelism)
    if bolt.settings.key:
        declared.fields_grouping("numbers", "key")
    else:
        declared.global_grouping("numbers")
    builder.set_sink("out", sink).from_("show")
    return builder.build(), sink


@dataclass
class Cut:
    """How the input is cut: the rows of each batch; and whether each batch crashes once before its commit."""

    sizes: Sequence[int]
    folder: Any = None


def run(bolt: WindowedBolt, rows: Sequence[Row], cut: Cut, parallelism: int = 1) -> list[Row]:
    """What the windows hold."""
    topology, sink = topology_of(bolt, parallelism)
    schema = topology.spouts["numbers"].outputs["default"]
    step = MicroBatch(topology, MemoryCheckpoint(), InProcessExecutor())
    batches, low = list[Sequence[Row] | None](), 0
    for size in cut.sizes:
        batches.append(rows[low : low + size])
        low += size
    for number, batch in enumerate([*batches, rows[low:], None]):
        plan = BatchPlan(number - 1, TimeAdvance(0, close=True), closing=True)
        if batch is not None:
            table = pa.Table.from_pylist(list(batch), schema=schema)
            plan = BatchPlan(number, TimeAdvance(0), [TableSource("numbers", table)])
        if cut.folder is not None:
            step = MicroBatch(topology, FileCheckpoint(str(cut.folder)), InProcessExecutor())
            step.hook = crash_at_the_commit
            with pytest.raises(ZeroDivisionError):
                step.run(plan)
            step = MicroBatch(topology, FileCheckpoint(str(cut.folder)), InProcessExecutor())
        step.run(plan)
        for part in step.manifest.bolts.values():
            part.accounts.check(part.pending, "show")
    return list(sink.rows)


def crash_at_the_commit(phase: str) -> None:
    if phase == "commit":
        raise ZeroDivisionError


def expected(eviction: EvictionPolicy, trigger: TriggerPolicy, rows: Sequence[Row], keyed: bool) -> list[Row]:
    """The windows by the book, unit by unit."""
    found: list[Row] = []
    for key in sorted({row["key"] for row in rows}) if keyed else [None]:
        own = [row for row in rows if key is None or row["key"] == key]
        before: list[int] = []
        plain = PlainRun(eviction, trigger, key)
        for number, window in enumerate(plain.run(own, [1_000 * row["ts"] for row in own])):
            held = held_ids(window, own)
            before = [] if number in plain.lives else before
            found.append(
                {
                    "key": key,
                    "ends": window.reference,
                    "held": held,
                    "new": [each for each in held if each not in before],
                    "expired": [each for each in before if each not in held],
                }
            )
            before = held
    return found


def held_ids(window: Fired, rows: Sequence[Row]) -> list[int]:
    return [rows[place]["id"] for place in sorted(window.rows, key=lambda place: (rows[place]["ts"], place))]


def by_unit(rows: Sequence[Row]) -> list[Row]:
    """Windows in the order of each unit."""
    return sorted(rows, key=lambda row: -1 if row["key"] is None else row["key"])


# ---- drawn policies: decisions by number, by value, by time and by state


@dataclass(frozen=True)
class Drawn(EvictionPolicy):
    """An eviction that decides by what is drawn."""

    by: str
    least: int
    other: Action
    forget: int = 0
    state_types: ClassVar[dict[str, type]] = {"latest": int, "seen": list, "windows": int}

    @property
    def forget_after(self) -> Duration | None:  # type: ignore[override]
        return millis(self.forget) if self.forget else None

    def start(self, state: dict[str, Any]) -> None:
        state["windows"] = 1

    def track(self, event: QueuedEvent, context: EvictionContext) -> None:
        assert event.number == context.count - 1
        context.state["latest"] = event["value"]
        context.state["seen"] = [*context.state["seen"], event.number][-3:]

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        assert event.number < context.count
        match self.by:
            case "number":
                good = event.number % 4 >= self.least
            case "value":
                good = abs(event["value"] - context.state["latest"]) <= self.least
            case "time":
                good = event.timestamp > context.reference - 4_000 * self.least
            case "age":
                good = event.number >= context.fired_count - self.least
            case _:
                good = event.number in context.state["seen"] or context.state["windows"] % 2 == 0
        return Action.PROCESS if good else self.other

    def reset(self, context: EvictionContext) -> None:
        context.state["windows"] += 1


@dataclass(frozen=True)
class DrawnOnArrays(Drawn):
    """The same on arrays."""

    def track_all(self, events: QueuedEvents, context: EvictionContext) -> None:
        context.state["latest"] = int(events["value"][-1])
        context.state["seen"] = [*context.state["seen"], *events.numbers.tolist()][-3:]

    def evict_all(self, events: QueuedEvents, context: EvictionContext) -> Any:
        match self.by:
            case "number":
                good = events.numbers % 4 >= self.least
            case "value":
                good = abs(events["value"] - context.state["latest"]) <= self.least
            case "time":
                good = events.timestamps > context.reference - 4_000 * self.least
            case "age":
                good = events.numbers >= context.fired_count - self.least
            case _:
                good = np.isin(events.numbers, context.state["seen"]) | (context.state["windows"] % 2 == 0)
        return np.where(good, Action.PROCESS, self.other)


@dataclass(frozen=True)
class DrawnTrigger(TriggerPolicy):
    """A trigger that decides by what is drawn."""

    by: str
    least: int
    grid: int = 0
    before: bool = False
    at_end: bool = False
    forget: int = 0
    state_types: ClassVar[dict[str, type]] = {"sum": int, "moments": int}

    @property
    def every(self) -> Duration | None:  # type: ignore[override]
        return millis(self.grid) if self.grid else None

    @property
    def forget_after(self) -> Duration | None:  # type: ignore[override]
        return millis(self.forget) if self.forget else None

    def track(self, event: QueuedEvent, context: TriggerContext) -> Any:
        context.state["sum"] += event["value"]
        match self.by:
            case "number":
                fires = event.number % (self.least + 2) == 0
            case "value":
                fires = event["value"] >= 2 * self.least
            case "sum":
                fires = context.state["sum"] >= 3 * self.least
            case "pause":
                context.wake_at = context.time + 1_000 * (self.least + 1)
                fires = False
            case _:
                fires = context.count - context.fired_count >= self.least + 1 + context.state["moments"] % 2
        return (Fire.BEFORE if self.before else True) if fires else False

    def on_time(self, time: int, context: TriggerContext) -> Any:
        assert time == context.time
        context.state["moments"] += 1
        fires = self.by == "pause" or context.count > context.fired_count
        return (Fire.BEFORE if self.before else True) if fires else False

    def on_end(self, context: TriggerContext) -> Any:
        return self.at_end and context.count > context.fired_count

    def reset(self, context: TriggerContext) -> None:
        context.state["sum"] = 0


class OnFlush(DrawnTrigger):
    """The same, which also fires at once on some values."""

    def on_arrival(self, event: QueuedEvent) -> bool:
        return bool(event["value"] == 5)


class ByNumber(TriggerPolicy):
    """On arrays: every third event, and at moments."""

    every = millis(7)
    offset = millis(2)

    def track(self, event: QueuedEvent, context: TriggerContext) -> Any:
        return event.number % 3 == 2 or event["value"] == 4

    def track_all(self, events: QueuedEvents, context: TriggerContext) -> Any:
        return (events.numbers % 3 == 2) | (events["value"] == 4)

    def on_time(self, time: int, context: TriggerContext) -> Any:
        return context.count - context.fired_count >= 2


def _made(kind: type[Drawn], by: str, least: int, other: Action, forget: int) -> Drawn:
    return kind(by, least, other, forget)


class ByNumberOrFlush(ByNumber):
    """The same, and at once on some values."""

    def on_arrival(self, event: QueuedEvent) -> bool:
        return bool(event["value"] == 5)


evictions = st.builds(
    _made,
    st.sampled_from([Drawn, DrawnOnArrays]),
    st.sampled_from(["number", "value", "time", "age", "state"]),
    st.integers(0, 3),
    st.sampled_from([Action.EXPIRE, Action.KEEP, Action.STOP]),
    st.sampled_from([0, 0, 0, 12]),
)
triggers = st.one_of(
    st.builds(
        DrawnTrigger,
        by=st.sampled_from(["number", "value", "sum", "pause", "moments"]),
        least=st.integers(0, 4),
        grid=st.sampled_from([0, 0, 5, 8]),
        before=st.booleans(),
        at_end=st.booleans(),
        forget=st.sampled_from([0, 0, 13]),
    ),
    st.just(ByNumber()),
)


cuts = st.lists(st.integers(0, 4), max_size=8)

LAG = 6


@st.composite
def inputs(draw: st.DrawFn, most: int = LAG) -> list[Row]:
    """Events that arrive up to the lag out of order, so that none is late."""
    times = draw(st.lists(st.tuples(st.integers(0, 40), st.integers(0, most)), min_size=1, max_size=14))
    in_turn = sorted(times, key=sum)
    small = st.integers(0, 5)
    return [
        {"id": place, "key": draw(small) % 3, "value": draw(small), "ts": time}
        for place, (time, _) in enumerate(in_turn)
    ]


def bolt_of(eviction: EvictionPolicy, trigger: TriggerPolicy, *, keyed: bool) -> WindowedBolt:
    bolt = Show().with_timestamp_field("ts").with_lag(millis(LAG)).with_policies(eviction=eviction, trigger=trigger)
    return bolt.with_key("key") if keyed else bolt


@pytest.mark.parametrize("keyed", [False, True])
@examples(60)
@given(evictions, triggers, inputs(), cuts)
def test_windows_are_those_of_a_plain_list_however_the_input_is_cut(
    keyed: bool, eviction: Drawn, trigger: TriggerPolicy, rows: list[Row], sizes: list[int]
) -> None:
    wanted = expected(eviction, trigger, rows, keyed)
    for cut in ([], [1] * len(rows), sizes):
        assert by_unit(run(bolt_of(eviction, trigger, keyed=keyed), rows, Cut(cut), 2 if keyed else 1)) == wanted


@pytest.mark.parametrize("keyed", [False, True])
@examples(40)
@given(evictions, triggers, inputs(), cuts)
def test_a_flush_on_arrival_fires_the_same_windows_however_the_input_is_cut(
    keyed: bool, eviction: Drawn, trigger: TriggerPolicy, rows: list[Row], sizes: list[int]
) -> None:
    if isinstance(trigger, ByNumber):
        trigger = ByNumberOrFlush()
    elif isinstance(trigger, DrawnTrigger):
        trigger = OnFlush(**vars(trigger))
    wanted = expected(eviction, trigger, rows, keyed)
    for cut in ([], [1] * len(rows), sizes):
        assert by_unit(run(bolt_of(eviction, trigger, keyed=keyed), rows, Cut(cut), 2 if keyed else 1)) == wanted


@pytest.mark.parametrize("keyed", [False, True])
@examples(6)
@given(evictions, triggers, inputs(), cuts)
def test_a_crash_of_every_batch_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    keyed: bool,
    eviction: Drawn,
    trigger: TriggerPolicy,
    rows: list[Row],
    sizes: list[int],
) -> None:
    bolt = bolt_of(eviction, trigger, keyed=keyed)
    cut = Cut(sizes, tmp_path_factory.mktemp("crash"))
    assert by_unit(run(bolt, rows, cut, 2 if keyed else 1)) == expected(eviction, trigger, rows, keyed)


built_in_evictions = st.one_of(
    st.builds(lambda n: CountEvictionPolicy(Count(n)), st.integers(1, 4)),
    st.builds(lambda n: WatermarkTimeEvictionPolicy(millis(n)), st.integers(1, 12)),
)
built_in_triggers = st.one_of(
    st.builds(lambda n: WatermarkCountTriggerPolicy(Count(n)), st.integers(1, 4)),
    st.builds(lambda n: WatermarkTimeTriggerPolicy(millis(n)), st.integers(1, 12)),
)


@pytest.mark.parametrize("keyed", [False, True])
@examples(40)
@given(evictions | built_in_evictions, triggers | built_in_triggers, inputs(), cuts)
def test_a_policy_of_ones_own_beside_a_built_in_one(
    keyed: bool, eviction: Any, trigger: TriggerPolicy, rows: list[Row], sizes: list[int]
) -> None:
    if not keyed and type(eviction).__module__ != __name__ and type(trigger).__module__ != __name__:
        return  # both are built in: a queue, which other tests hold against others
    if isinstance(eviction, WatermarkTimeEvictionPolicy) and isinstance(trigger, WatermarkTimeTriggerPolicy):
        return  # these also fire ends that no event lies just before
    wanted = expected(eviction, trigger, rows, keyed)
    for cut in ([], [1] * len(rows), sizes):
        assert by_unit(run(bolt_of(eviction, trigger, keyed=keyed), rows, Cut(cut), 2 if keyed else 1)) == wanted


@examples(30)
@given(st.integers(1, 12), st.integers(1, 8), inputs(), cuts)
def test_built_in_policies_given_with_a_key_are_windows_of_keys(
    length: int, slide: int, rows: list[Row], sizes: list[int]
) -> None:
    policies = WatermarkTimeEvictionPolicy(millis(length)), WatermarkTimeTriggerPolicy(millis(slide))
    plain = Show().with_timestamp_field("ts").with_lag(millis(LAG)).with_key("key")
    kind = run(plain.with_window(millis(length), millis(slide)), rows, Cut([]))
    found = run(bolt_of(*policies, keyed=True), rows, Cut(sizes), 2)
    shown = [[(row["ends"], row["held"]) for row in by_unit(each)] for each in (kind, found)]
    assert shown[0] == shown[1]


# ---- the built-in policies, event by event


@pytest.mark.parametrize("bounds", Bounds)
@examples(40)
@given(st.integers(1, 12), triggers, inputs(), cuts, st.booleans())
def test_a_length_of_time_holds_the_same_also_where_events_fire_on_arrival(
    bounds: Bounds, length: int, trigger: TriggerPolicy, rows: list[Row], sizes: list[int], keyed: bool
) -> None:
    if isinstance(trigger, DrawnTrigger):
        trigger = OnFlush(**vars(trigger))
    found, wanted = (
        run(bolt_of(kind(millis(length), bounds), trigger, keyed=keyed), rows, Cut(sizes))
        for kind in (WatermarkTimeEvictionPolicy, TimeByEvent)
    )
    assert found == wanted


class CountByEvent(CountEvictionPolicy):
    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        return super().evict(event, context)


class TimeByEvent(WatermarkTimeEvictionPolicy):
    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        return super().evict(event, context)


class CountTriggerByEvent(WatermarkCountTriggerPolicy):
    def track(self, event: QueuedEvent, context: TriggerContext) -> Any:
        return super().track(event, context)


@examples(60)
@given(st.booleans(), st.integers(1, 9), st.booleans(), st.integers(1, 9), inputs(most=LAG - 1), cuts)
def test_event_by_event_the_built_in_policies_give_the_same_windows(
    counted: bool, length: int, every: bool, slide: int, rows: list[Row], sizes: list[int]
) -> None:
    eviction = CountByEvent(Count(length)) if counted else TimeByEvent(millis(length))
    trigger = CountTriggerByEvent(Count(slide)) if every else WatermarkTimeTriggerPolicy(millis(slide))
    plain = Show().with_timestamp_field("ts").with_lag(millis(LAG))
    storm = plain.with_window(Count(length) if counted else millis(length), Count(slide) if every else millis(slide))
    for cut in ([], [1] * len(rows), sizes):
        assert run(bolt_of(eviction, trigger, keyed=False), rows, Cut(cut)) == run(storm, rows, Cut([]))


# ---- other bolts, inputs and times


def rows_of(
    bolt: WindowedBolt, names: Sequence[str], steps: Sequence[tuple[int, dict[str, list[Row]]]], *, ends: bool = False
) -> list[Row]:
    """What a bolt emits that reads these spouts; a step is the clock, and the rows of each spout. ``ends``: so do the
    streams."""
    builder, sink = TopologyBuilder("other"), sinks.memory()
    for name in names:
        builder.set_spout(name, spouts.memory("id long, key long, value long, ts long"))
    declared = builder.set_bolt("bolt", bolt)
    for name in names:
        declared = declared.global_grouping(name)
    builder.set_sink("out", sink).from_("bolt")
    topology = builder.build()
    step = MicroBatch(topology, MemoryCheckpoint(), InProcessExecutor())
    for number, (clock, arrived) in enumerate(steps):
        tables = [
            TableSource(name, pa.Table.from_pylist(rows, schema=topology.spouts[name].outputs["default"]))
            for name, rows in arrived.items()
        ]
        step.run(BatchPlan(number, TimeAdvance(clock), tables))
        for part in step.manifest.bolts.values():
            part.accounts.check(part.pending, "bolt")
    if ends:
        step.run(BatchPlan(len(steps) - 1, TimeAdvance(0, close=True), closing=True))
    return list(sink.rows)


@dataclass(frozen=True)
class ByStream(Drawn):
    """The same of one stream; of the other, what has come since the window before."""

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        if event.stream == "a":
            return super().evict(event, context)
        return Action.PROCESS if event.number >= context.fired_count else Action.EXPIRE


@dataclass(frozen=True)
class ByStreamOnArrays(ByStream, DrawnOnArrays):
    """The same on arrays."""

    def evict_all(self, events: QueuedEvents, context: EvictionContext) -> Any:
        new = np.where(events.numbers >= context.fired_count, Action.PROCESS, Action.EXPIRE)
        actions = np.where(events.streams == "a", super().evict_all(events, context), new)
        stops = np.flatnonzero(actions == Action.STOP)
        return np.where(np.arange(len(events)) > stops[0], Action.KEEP, actions) if len(stops) else actions


class ByStreamTrigger(DrawnTrigger):
    """The same, asked about one stream."""

    def track(self, event: QueuedEvent, context: TriggerContext) -> Any:
        return super().track(event, context) if event.stream == "b" else False


@examples(60)
@given(evictions, triggers, inputs(), cuts, st.lists(st.booleans(), min_size=14, max_size=14), st.booleans())
def test_windows_of_two_streams_are_those_of_a_plain_list(
    eviction: Drawn, trigger: TriggerPolicy, rows: list[Row], sizes: list[int], sides: list[bool], keyed: bool
) -> None:
    """All times differ: of events at one time the one that a batch reads first would be the first."""
    rows = [each | {"ts": 20 * each["ts"] + each["id"], "stream": "ab"[sides[each["id"]]]} for each in rows]
    eviction = (ByStreamOnArrays if isinstance(eviction, DrawnOnArrays) else ByStream)(**vars(eviction))
    if isinstance(trigger, DrawnTrigger):
        trigger = ByStreamTrigger(**vars(trigger))
    bolt = bolt_of(eviction, trigger, keyed=keyed).with_lag(millis(20 * LAG + 20))
    wanted = by_unit(expected(eviction, trigger, rows, keyed))
    for cut in ([], [1] * len(rows), sizes):
        steps, low = [], 0
        for size in [*cut, len(rows)]:
            batch = rows[low : low + size]
            steps.append((0, {name: [each for each in batch if each["stream"] == name] for name in "ab"}))
            low += size
        assert by_unit(rows_of(bolt, ["a", "b"], steps, ends=True)) == wanted


def row(number: int, key: int, value: int, ts: int) -> Row:
    return {"id": number, "key": key, "value": value, "ts": ts}


class EachThird(TriggerPolicy):
    """Fires with each third event, and after a pause of a second."""

    def track(self, event: QueuedEvent, context: TriggerContext) -> Any:
        context.wake_at = context.time + 1_000_000
        return event.number % 3 == 2

    def on_time(self, time: int, context: TriggerContext) -> Any:
        return context.count > context.fired_count


BESIDE: dict[str, Callable[[WindowedBolt], WindowedBolt]] = {
    "a watermark at each event": lambda bolt: bolt.with_watermark(every=1),
    "a watermark at lengths of time": lambda bolt: bolt.with_watermark(every="3ms"),
    "watermarks of partitions": lambda bolt: bolt.with_watermark(partition="key", partitions=[0, 1, 2]),
    "a partition that may be idle": lambda bolt: bolt.with_watermark(
        partition="key", every=1, partition_idle_timeout="1h"
    ),
    "the greatest mark": lambda bolt: bolt.with_watermark(partition="key", combine="max"),
    "lateness by the mark of a partition": lambda bolt: bolt.with_lateness(per_input=True).with_watermark(
        partition="key"
    ),
    "ticks": lambda bolt: bolt.with_watermark_interval("5ms"),
    "a late stream": lambda bolt: bolt.with_late_tuple_stream("late"),
    "late events that are moved": lambda bolt: bolt.with_lateness(action="adjust"),
    "late events that stop the run": lambda bolt: bolt.with_lateness(action="error"),
    "a limit by arrival": lambda bolt: bolt.with_lateness(arrival=Arrival("ts", late="1h")),
    "rows at the start": lambda bolt: bolt.with_time(output_time="window start"),
    "a watermark of the start": lambda bolt: bolt.with_time(output_watermark="window start"),
    "limits": lambda bolt: bolt.with_limits(window_bytes=1_000_000, call_time="1m"),
    "Azure's times": lambda bolt: bolt.with_time(presets.azure()).with_lag(millis(LAG)),
}
"""Settings that may be combined with policies of one's own, and change nothing where no event is late."""


@pytest.mark.parametrize("what", BESIDE)
@examples(10)
@given(evictions, triggers, inputs(), cuts, st.booleans())
def test_settings_beside_policies_change_no_window(
    what: str, eviction: Drawn, trigger: TriggerPolicy, rows: list[Row], sizes: list[int], keyed: bool
) -> None:
    bolt = BESIDE[what](bolt_of(eviction, trigger, keyed=keyed))
    assert by_unit(run(bolt, rows, Cut(sizes))) == by_unit(expected(eviction, trigger, rows, keyed))


class SinceLast(EvictionPolicy):
    """What has come since the window before."""

    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        return Action.PROCESS if event.number >= context.fired_count else Action.EXPIRE


def test_an_aggregate_bolt_and_a_ready_bolt_take_policies() -> None:
    rows = [row(n, n % 2, n, 100 * n) for n in range(7)]
    policies: Any = {"trigger": EachThird(), "eviction": SinceLast()}
    sums = AggregateBolt("key", total=aggregates.sum("value")).with_timestamp_field("ts").with_policies(**policies)
    found = rows_of(sums, ["a"], [(0, {"a": rows[:4]}), (0, {"a": rows[4:]})])
    assert found == [{"key": 0, "total": 2}, {"key": 1, "total": 1}, {"key": 0, "total": 4}, {"key": 1, "total": 8}]
    best = TopN(1, "value").with_timestamp_field("ts").with_policies(**policies)
    assert [each["value"] for each in rows_of(best, ["a"], [(0, {"a": rows})])] == [2, 5]


def test_a_join_of_two_streams_takes_policies_that_know_the_stream() -> None:
    class OnB(TriggerPolicy):
        def track(self, event: QueuedEvent, context: TriggerContext) -> Any:
            return event.stream == "b"

    join = WindowJoin("a", "b", on="key", rename="{stream}_{column}").with_timestamp_field("ts")
    join = join.with_policies(trigger=OnB(), eviction=SinceLast())
    given = {"a": [row(0, 1, 0, 10), row(1, 2, 0, 20), row(2, 1, 0, 40)], "b": [row(9, 1, 0, 30), row(8, 1, 0, 50)]}
    found = rows_of(join, ["a", "b"], [(0, given), (0, {"a": [row(3, 1, 0, 99)], "b": [row(7, 1, 0, 99)]})])
    assert [(each["a_id"], each["b_id"]) for each in found] == [(0, 9), (2, 8), (3, 7)]


@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("streams", [["a"], ["a", "b"]])
def test_an_event_names_its_stream_also_where_there_is_one(streams: list[str], by_columns: bool) -> None:
    class FromA(EvictionPolicy):
        def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
            return Action.PROCESS if event.stream == "a" else Action.EXPIRE

    class FromAByColumns(EvictionPolicy):
        def evict_all(self, events: QueuedEvents, context: EvictionContext) -> Any:
            return np.where(events.streams == "a", Action.PROCESS, Action.EXPIRE)

    class OnA(TriggerPolicy):
        def track(self, event: QueuedEvent, context: TriggerContext) -> Any:
            return event.stream == "a" and event["value"] > 0

    class OnAByColumns(TriggerPolicy):
        def track_all(self, events: QueuedEvents, context: TriggerContext) -> Any:
            return (events.streams == "a") & (events["value"] > 0)

    policies: Any = (FromAByColumns(), OnAByColumns()) if by_columns else (FromA(), OnA())
    bolt = Show().with_timestamp_field("ts").with_policies(eviction=policies[0], trigger=policies[1])
    first = {"a": [row(0, 1, 0, 10), row(1, 2, 0, 20)], "b": [row(9, 1, 1, 15), row(8, 1, 1, 30)]}
    second = {"a": [row(2, 1, 1, 50)], "b": [row(7, 1, 1, 40)]}
    steps = [(0, {name: given[name] for name in streams}) for given in (first, second)]
    found = rows_of(bolt, streams, steps, ends=True)
    assert [each["held"] for each in found] == [[0, 1, 2]]


def test_in_processing_time_events_and_moments_follow_the_clock() -> None:
    bolt = Show().with_time(processing=True).with_policies(trigger=EachThird(), eviction=SinceLast())
    steps = [
        (1_000_000, {"a": [row(0, 0, 0, 0), row(1, 0, 0, 0)]}),
        (1_500_000, {"a": [row(2, 0, 0, 0), row(3, 0, 0, 0)]}),
        (2_500_000, {}),  # not past the moment
        (2_500_001, {}),
        (9_000_000, {"a": [row(4, 0, 0, 0)]}),
    ]
    found = [(each["ends"], each["held"]) for each in rows_of(bolt, ["a"], steps)]
    assert found == [(1_500_000, [0, 1, 2]), (2_500_000, [3])]


class Ends(WindowedBolt):
    outputs: ClassVar[str] = "windows long"

    def execute(self, window: TupleWindow) -> Any:
        return (len(window),)


@examples(30)
@given(evictions, triggers, inputs(), cuts, st.booleans())
def test_nothing_that_a_bolt_with_policies_emits_is_late_for_the_next(
    eviction: Drawn, trigger: TriggerPolicy, rows: list[Row], sizes: list[int], keyed: bool
) -> None:
    if isinstance(trigger, DrawnTrigger):
        trigger = OnFlush(**vars(trigger))
    for cut in ([], [1] * len(rows), sizes):
        builder, sink = TopologyBuilder("chain"), sinks.memory()
        builder.set_spout("numbers", spouts.memory("id long, key long, value long, ts long"))
        builder.set_bolt("show", bolt_of(eviction, trigger, keyed=keyed)).global_grouping("numbers")
        builder.set_bolt("ends", Ends().with_tumbling_window("5ms")).global_grouping("show")
        builder.set_sink("out", sink).from_("ends")
        topology = builder.build()
        schema = topology.spouts["numbers"].outputs["default"]
        step, low = MicroBatch(topology, MemoryCheckpoint(), InProcessExecutor()), 0
        for number, size in enumerate([*cut, len(rows)]):
            table = pa.Table.from_pylist(rows[low : low + size], schema=schema)
            low += size
            step.run(BatchPlan(number, TimeAdvance(0), [TableSource("numbers", table)]))
        step.run(BatchPlan(len(cut), TimeAdvance(0, close=True), closing=True))
        show, ends = (step.manifest.bolts[name] for name in ("show", "ends"))
        assert (ends.accounts["late"], ends.accounts["received"]) == (0, show.totals.fired)
        assert sum(row["windows"] for row in sink.rows) == show.totals.fired


class AtTheEnd(TriggerPolicy):
    def track(self, event: QueuedEvent, context: TriggerContext) -> Any:
        return False

    def on_end(self, context: TriggerContext) -> Any:
        return True


@pytest.mark.parametrize("output_time", ["window end", "window start"])
@pytest.mark.parametrize("keyed", [False, True])
def test_the_last_window_of_a_key_is_in_time_for_the_next_bolt_though_others_have_gone_on(
    keyed: bool, output_time: Any
) -> None:
    show = Show().with_timestamp_field("ts").with_time(output_time=output_time)
    show = show.with_policies(eviction=WatermarkTimeEvictionPolicy(millis(4)), trigger=AtTheEnd())
    builder, sink = TopologyBuilder("chain"), sinks.memory()
    builder.set_spout("numbers", spouts.memory("id long, key long, value long, ts long"))
    declared = builder.set_bolt("show", show.with_key("key") if keyed else show, 1 if keyed else 2)
    declared.fields_grouping("numbers", "key")
    builder.set_bolt("ends", Ends().with_tumbling_window("5ms")).global_grouping("show")
    builder.set_sink("out", sink).from_("ends")
    topology = builder.build()
    rows = [row(0, 0, 0, 10), row(1, 1, 0, 1_000)]  # of two tasks, where there are two
    table = pa.Table.from_pylist(rows, schema=topology.spouts["numbers"].outputs["default"])
    step = MicroBatch(topology, MemoryCheckpoint(), InProcessExecutor())
    step.run(BatchPlan(0, TimeAdvance(0), [TableSource("numbers", table)]))
    step.run(BatchPlan(0, TimeAdvance(0, close=True), closing=True))
    fired = step.manifest.bolts["show"].totals.fired
    assert fired == 2
    assert step.manifest.bolts["ends"].accounts["late"] == 0
    assert sum(each["windows"] for each in sink.rows) == fired
