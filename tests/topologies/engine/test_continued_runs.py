"""A run whose end fired all windows goes on later: what has fired stays closed, and time moves on from there."""

from __future__ import annotations

import pytest

from manager.storage.checkpoint import MemoryCheckpoint
from policies import Action, EvictionContext, EvictionPolicy, QueuedEvent, TriggerContext, TriggerPolicy
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.source_splits import TableSource
from windbolt import TopologyBuilder, sinks, spouts
from windowing import TupleWindow, WindowedBolt, presets, seconds
from windowing.schema import EmittedRows
from windowing.settings.kinds import Session
from windowing.settings.panes import Panes


class Sizes(WindowedBolt):
    outputs = "n long"

    def execute(self, window: TupleWindow) -> EmittedRows:
        return (len(window),)


def sizes() -> WindowedBolt:
    return Sizes().with_timestamp_field("ts")


@pytest.mark.parametrize(
    "bolt",
    [
        sizes().with_tumbling_window("10s"),
        sizes().with_time(presets.atlas("1s")).with_tumbling_window("10s"),
        sizes().with_time(presets.atlas("1s")).with_tumbling_window("10s").with_trigger(Panes(late=True)),
        sizes().with_tumbling_window("10s").with_watermark(every=1).with_lateness(by="window", allowed="20s"),
        sizes().with_time(presets.atlas("1s")).with_window(Session("10s")),
    ],
    ids=["Storm", "Atlas", "panes", "lateness", "sessions"],
)
def test_what_the_end_of_a_run_fired_is_closed_in_the_next_run_and_later_windows_fire(bolt: WindowedBolt) -> None:
    out, builder = sinks.memory(), TopologyBuilder("continued")
    spout = spouts.memory("ts long", [(2_000,)], [(5_000,), (60_000,)], [(205_000,)])
    builder.set_spout("events", spout)
    builder.set_bolt("sizes", bolt).global_grouping("events")
    builder.set_sink("out", out).from_("sizes")
    step = MicroBatch(builder.build(), MemoryCheckpoint(), InProcessExecutor())
    first, second, third = (
        TableSource("events", table, row) for table, row in zip(spout.tables(), (0, 1, 3), strict=True)
    )
    step.run(BatchPlan(0, TimeAdvance(0), [first]))
    step.run(BatchPlan(0, TimeAdvance(0, close=True), closing=True))
    assert [row["n"] for row in out.rows] == [1]
    step.run(BatchPlan(1, TimeAdvance(0), [second]))
    report = step.run(BatchPlan(2, TimeAdvance(0), [third]))
    assert [row["n"] for row in out.rows] == [1, 1], "the window of 60 s has fired before the end"
    assert report.bolts["sizes"].accounts["late"] == 1, "the window of 5 s has fired at the end of the first run"


def test_a_window_whose_only_firing_was_early_stays_closed_though_an_earlier_one_fired_after_it() -> None:
    bolt = sizes().with_tumbling_window("10s").with_watermark(every=1).with_lateness(by="window", allowed="20s")
    bolt = bolt.with_key("user").with_trigger(Panes(early=2, closes=True))
    out, builder = sinks.memory(), TopologyBuilder("continued")
    spout = spouts.memory("user string, ts long", [("a", 15_000)] * 2, [("b", 5_000)], [("a", 16_000)] * 2)
    builder.set_spout("events", spout)
    builder.set_bolt("sizes", bolt).global_grouping("events")
    builder.set_sink("out", out).from_("sizes")
    step = MicroBatch(builder.build(), MemoryCheckpoint(), InProcessExecutor())
    first, second, third = (TableSource("events", table, row) for row, table in enumerate(spout.tables()))
    step.run(BatchPlan(0, TimeAdvance(0), [first]))
    step.run(BatchPlan(1, TimeAdvance(0), [second]))
    step.run(BatchPlan(1, TimeAdvance(0, close=True), closing=True))
    assert [row["n"] for row in out.rows] == [2, 1]
    report = step.run(BatchPlan(2, TimeAdvance(0), [third]))
    assert report.bolts["sizes"].accounts["late"] == 2
    assert [row["n"] for row in out.rows] == [2, 1]


class EachTenSeconds(TriggerPolicy):
    every = seconds(10)

    def on_time(self, time: int, context: TriggerContext) -> bool:
        return True


class Everything(EvictionPolicy):
    def evict(self, event: QueuedEvent, context: EvictionContext) -> Action:
        return Action.PROCESS


def test_a_moment_that_passed_at_the_end_has_passed_in_the_next_run() -> None:
    bolt = sizes().with_policies(trigger=EachTenSeconds(), eviction=Everything())
    out, builder = sinks.memory(), TopologyBuilder("continued")
    spout = spouts.memory("ts long", [(2_000,)], [(15_000,)], [(17_000,), (21_000,)])
    builder.set_spout("events", spout)
    builder.set_bolt("sizes", bolt).global_grouping("events")
    builder.set_sink("out", out).from_("sizes")
    step = MicroBatch(builder.build(), MemoryCheckpoint(), InProcessExecutor())
    first, second, third = (TableSource("events", table, row) for row, table in enumerate(spout.tables()))
    step.run(BatchPlan(0, TimeAdvance(0), [first]))
    step.run(BatchPlan(1, TimeAdvance(0), [second]))
    step.run(BatchPlan(1, TimeAdvance(0, close=True), closing=True))
    assert [row["n"] for row in out.rows] == [1, 2], "at 10 s, and at the end at 20 s"
    report = step.run(BatchPlan(2, TimeAdvance(0), [third]))
    assert report.bolts["sizes"].accounts["late"] == 1, "the event of 17 s, behind the window that ended at 20 s"
