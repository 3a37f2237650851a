"""The sections in one process without Spark, with CPU time as the measure: the window manager alone, users' policies,
and bolts with state."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from benchmarks.contest import Arm, Bench, Entry, Job, Question, Taken, by_itself, compared, keep, measured
from benchmarks.events import Columns, Events, InMemory
from benchmarks.questions import wired
from manager.storage.checkpoint import MemoryCheckpoint
from manager.watermarks import WaterMarkEventGenerator
from manager.window_manager import WindowManager
from policies.storm import WatermarkTimeEvictionPolicy, WatermarkTimeTriggerPolicy
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.source_splits import TableSource
from windbolt import sinks, spouts
from windbolt.policies import Action, EvictionPolicy, QueuedEvent, QueuedEvents, TriggerPolicy
from windowing import Count, StatefulBatchBolt, StatefulBolt, StatefulWindowedBolt, Tuple, TupleWindow, WindowedBolt
from windowing.durations import millis, seconds
from windowing.events import Events as Queued
from windowing.timestamps import FOREVER

# The window manager beside Storm's own Java classes, which were measured once (also alone, one thread, in order, 1,000
# events per second of event time, a watermark every 1,000). The bolt sums one column of every window.


STORM = {1: ("tumbling 1 s", 6.6e6), 10: ("sliding 10 s / 1 s", 1.36e6)}
"""By window length in seconds: its name, and Storm's events per CPU-second."""


def core(bench: Bench) -> None:
    """Measures two kinds of windows, with events in order and out of order, many and few per second, and a tick after
    each batch."""
    for length, (name, speed) in STORM.items():
        storm = Arm("Storm's own classes", _measured_before(speed), by_itself, ours=False, batched=False)
        asked = Question(name, length=length)
        entries = [Entry(storm, asked, InMemory(bench.scaled(10_000_000)))]
        for rate in (1_000, 10_000):
            for late_ms, order in ((0, "in order"), (2_000, "2 s off")):
                for tick in (100_000, 1_000):
                    arm = Arm(f"{rate:,}/s, {order}, a tick every {tick:,}", _sum, _sum_is_right)
                    events = InMemory(bench.scaled(10_000_000), 1, rate, late_ms=late_ms)
                    entries.append(Entry(arm, asked, events, tick, events))
        bench.contest("core", entries, "CPU time")


def _measured_before(speed: float) -> Callable[[Job], Taken]:
    return lambda job: Taken(job.events.count / speed, job.events.count / speed)


def _sum(job: Job) -> Taken:
    """Adds up the sums of all windows, over the events in order of arrival."""
    lag, timestamps = millis(job.events.late_ms), job.events.columns["event_time"] * 1_000
    eviction = WatermarkTimeEvictionPolicy(seconds(job.question.length), lag=lag)
    trigger = WatermarkTimeTriggerPolicy(seconds(1))
    generator, manager = WaterMarkEventGenerator(lag=lag), WindowManager(eviction, trigger)
    payload = pa.record_batch({"value": job.events.columns["value"]})
    sums, tick = [], job.batch or 1
    with measured(time.process_time) as taken:
        for at in range(0, len(timestamps), tick):
            arrived, batch = timestamps[at : at + tick], payload.slice(at, tick)
            if generator.watermark is not None and (late := arrived < generator.watermark).any():
                arrived, batch = arrived[~late], batch.filter(pa.array(~late))
            generator.observe({"default": int(timestamps[at : at + tick].max())})
            manager.add(Queued(arrived, batch))
            sums += [window.column("value").sum() for window in manager.advance(generator.tick())]
        sums += [window.column("value").sum() for window in manager.advance(FOREVER)]
    taken.note = {"windows": len(sums), "total": float(sum(sums))}
    return taken


def _sum_is_right(job: Job, taken: Taken) -> str | None:
    """Checks the sum of sums, which is known, since every event is in as many windows as a window has slides."""
    right, total = job.events.columns["value"].sum() * job.question.length, taken.note["total"]
    return None if abs(total - right) <= right * 1e-9 else f"the sum is {total} instead of {right}"


# A micro-batch of the engine, including reading the batch and writing the checkpoint in memory.


ROWS = 20_000
"""Rows per batch."""


def played(job: Job, columns: str, bolt: Any, whole: pa.Table, keyed: str | None = None) -> Taken:
    """Runs the rows batch by batch through one bolt; keeps output rows if the job has a folder for them."""
    kept = sinks.memory()
    topology = wired(spouts.memory(columns), bolt, sinks.discard() if job.keep is None else kept, keyed, 1)
    schema = topology.spouts["events"].outputs["default"]
    whole = whole.select(schema.names).cast(schema)
    given = [whole.slice(at, ROWS).combine_chunks() for at in range(0, whole.num_rows, ROWS)]
    step = MicroBatch(topology, MemoryCheckpoint(), InProcessExecutor())
    with measured(time.process_time) as taken:
        for number, table in enumerate(given):
            step.run(BatchPlan(number, TimeAdvance(number), [TableSource("events", table)]))
    taken.note = {"windows": step.manifest.bolts["bolt"].totals.fired}
    if kept.table is not None:
        keep(kept.table, job)
    return taken


# Users' policies: a trigger that fires every 1,000 events, and an eviction that keeps the last 1,000, both by values
# that they read. The windows do nothing.


WINDOW = 1_000
ONE_BY_ONE, ON_ARRAYS = "trigger and eviction, event by event", "trigger and eviction, on arrays"
GOALS = {ONE_BY_ONE: 300_000, ON_ARRAYS: 3_000_000}


class Bars(TriggerPolicy):
    """Fires when a volume has been traded."""

    state_types: ClassVar[dict[str, type]] = {"volume": int}
    reads = "volume"

    def track(self, event: QueuedEvent, context: Any) -> bool:
        state = context.state
        state["volume"] += event["volume"]
        return bool(state["volume"] >= WINDOW)

    def reset(self, context: Any) -> None:
        context.state["volume"] = 0


class OfTheBar(EvictionPolicy):
    """Holds the events since the last bar with a volume above zero."""

    reads = "volume"

    def evict(self, event: QueuedEvent, context: Any) -> Action:
        if event.number < context.fired_count or event["volume"] == 0:
            return Action.EXPIRE
        return Action.PROCESS


class BarsOnArrays(Bars):
    """The same trigger on arrays."""

    def track_all(self, events: QueuedEvents, context: Any) -> Any:
        bars = (context.state["volume"] + np.cumsum(events["volume"])) // WINDOW
        fires = np.diff(bars, prepend=0) > 0
        context.state["volume"] = int((context.state["volume"] + events["volume"].sum()) % WINDOW)
        return fires


class OfTheBarOnArrays(OfTheBar):
    """The same eviction on arrays."""

    def evict_all(self, events: QueuedEvents, context: Any) -> Any:
        gone = (events.numbers < context.fired_count) | (events["volume"] == 0)
        return np.where(gone, Action.EXPIRE, Action.PROCESS)


class Nothing(WindowedBolt):
    """A bolt that does nothing with its windows."""

    outputs: ClassVar[str] = "n long"

    def execute(self, window: TupleWindow) -> None:
        pass


def policies(bench: Bench) -> None:
    """Compares policies on single events, and on arrays, with the built-in ones."""

    def arm(name: str, bolt: WindowedBolt) -> Arm:
        def run(job: Job) -> Taken:
            whole = job.events.table().select(["value"]).rename_columns(["price"])
            ones, numbers = np.ones(whole.num_rows, np.int64), np.arange(whole.num_rows)
            whole = whole.append_column("volume", [ones]).append_column("ts", [numbers])
            return played(job, "volume long, price double, ts long", bolt.with_timestamp_field("ts"), whole)

        def check(job: Job, taken: Taken) -> str | None:
            windows, right = taken.note["windows"], job.events.count // WINDOW
            return None if windows == right else f"{windows} windows instead of {right}"

        return Arm(name, run, check)

    events, asked = InMemory(bench.scaled(20 * ROWS)), Question("policies", f"a window of {WINDOW:,} events")
    arms = [
        arm("built in: count 1,000", Nothing().with_window(Count(WINDOW), Count(WINDOW))),
        arm("a trigger, event by event", Nothing().with_window(Count(WINDOW)).with_policies(trigger=Bars())),
        arm(ONE_BY_ONE, Nothing().with_policies(trigger=Bars(), eviction=OfTheBar())),
        arm(ON_ARRAYS, Nothing().with_policies(trigger=BarsOnArrays(), eviction=OfTheBarOnArrays())),
    ]
    for figure in bench.contest("policies", [Entry(arm, asked, events, ROWS, events) for arm in arms], "CPU time"):
        if figure.arm in GOALS:
            goal = GOALS[figure.arm]
            bench.goal("policies", figure.arm, f"at least {goal:,} events per CPU-second", goal, figure.speed)


# A bolt that keeps a sum: without windows, and with windows of one event.


OUTPUTS = "user string, total double"


class Each(StatefulBolt):
    """Emits the sum so far, for each event."""

    outputs: ClassVar[str] = OUTPUTS
    state_types: ClassVar[dict[str, type]] = {"total": float}

    def execute(self, tuple: Tuple) -> Any:
        self.state["total"] += tuple["amount"]
        return tuple["user"], self.state["total"]


class Tables(StatefulBatchBolt):
    """The same sum with columns."""

    outputs: ClassVar[str] = OUTPUTS
    state_types: ClassVar[dict[str, type]] = {"total": float}

    def execute(self, batch: pa.Table) -> Any:
        totals = self.state["total"] + np.cumsum(batch["amount"].to_numpy())
        self.state["total"] = float(totals[-1])
        return pa.table({"user": batch["user"], "total": totals})


class Windows(StatefulWindowedBolt):
    """The same sum with windows of one event."""

    outputs: ClassVar[str] = OUTPUTS
    state_types: ClassVar[dict[str, type]] = {"total": float}

    def execute(self, window: TupleWindow) -> Iterator[Any]:
        for event in window.get():
            self.state["total"] += event["amount"]
            yield event["user"], self.state["total"]


class WindowsByKey(StatefulWindowedBolt):
    """The same sum for each key, in a dict."""

    outputs: ClassVar[str] = OUTPUTS
    state_types: ClassVar[dict[str, type]] = {"totals": dict}

    def execute(self, window: TupleWindow) -> Iterator[Any]:
        totals = self.state["totals"]
        for event in window.get():
            user = event["user"]
            totals[user] = totals.get(user, 0.0) + event["amount"]
            yield user, totals[user]


BOLTS: dict[str, StatefulBolt | WindowedBolt] = {
    "per event, of a task": Each(),
    "per event, of keys": Each().with_key("user"),
    "columns, of a task": Tables(),
    "columns, of keys": Tables().with_key("user"),
    "windows of one event, of a task": Windows().with_tumbling_window(1),
    "windows of one event, a dict of keys": WindowsByKey().with_tumbling_window(1),
}


def sums(events: Events) -> Columns:
    """Returns the sums so far of a task, in order."""
    return {"total": np.cumsum(events.columns["value"])}


def sums_of_keys(events: Events) -> Columns:
    """Returns the sums so far of each key, in order."""
    order = np.argsort(events.columns["key"], kind="stable")
    key, value = events.columns["key"][order], events.columns["value"][order]
    parts = np.split(value, np.flatnonzero(np.diff(key)) + 1)
    return {"total": np.sort(np.concatenate([np.cumsum(part) for part in parts]))}


def stateful(bench: Bench) -> None:
    """Measures bolts with 100 and with 10,000 keys."""

    def arm(name: str, bolt: StatefulBolt | WindowedBolt) -> Arm:
        def run(job: Job) -> Taken:
            names = np.array([f"user {number}" for number in range(job.events.keys)])
            table = job.events.table()
            whole = pa.table({"user": names[table["key"].to_numpy()], "amount": table["value"]})
            return played(job, "user string, amount double", bolt, whole, "user")

        return Arm(name, run, compared)

    for keys in (100, 10_000):
        events, entries = InMemory(bench.scaled(10 * ROWS), keys), []
        for name, bolt in BOLTS.items():
            answer = sums_of_keys if name.endswith("of keys") else sums
            asked = Question(f"{keys:,} keys", answer=answer, order=("total",))
            entries.append(Entry(arm(name, bolt), asked, events, ROWS, events))
        bench.contest("stateful", entries, "CPU time")
