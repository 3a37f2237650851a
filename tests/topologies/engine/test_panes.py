"""Windows that fire more than once: what they emit, what they take back, and how triggers are put together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from manager.storage.checkpoint import MemoryCheckpoint
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.source_splits import TableSource
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import TopologyError, TupleWindow, WindowedBolt, presets, seconds
from windowing.schema import EmittedRows
from windowing.settings.kinds import Session, Snapshot
from windowing.settings.panes import (
    OpenWindows,
    Panes,
    PaneTrigger,
    Timing,
    after_clock,
    after_count,
    after_event_time,
)

Json = dict[str, Any]
COLUMNS = "user string, amount long, ts long"


class Sum(WindowedBolt):
    outputs = "user string, total long, pane long"

    def execute(self, window: TupleWindow) -> EmittedRows:
        assert window.pane is not None
        users = window.table.column("user").to_pylist()
        amounts = window.table.column("amount").to_pylist()
        for user in sorted(set(users)):
            total = sum(amount for name, amount in zip(users, amounts, strict=True) if name == user)
            yield user, total, window.pane.index


def topology(bolt: WindowedBolt) -> Topology:
    builder = TopologyBuilder("panes")
    builder.set_spout("orders", spouts.memory(COLUMNS))
    builder.set_bolt("sum", bolt.with_timestamp_field("ts")).global_grouping("orders")
    builder.set_sink("out", sinks.memory()).from_("sum")
    return builder.build()


class Run:
    """A topology that is given batch after batch, each in a new process."""

    def __init__(self, bolt: WindowedBolt) -> None:
        self.topology, self.checkpoint, self.number = topology(bolt), MemoryCheckpoint(), -1

    def batch(self, *events: tuple[str, int, int], clock: int = 0, close: bool = False) -> list[Json]:
        """What comes out of a micro-batch of (user, amount, milliseconds)."""
        self.number += 1
        tables = list(spouts.memory(COLUMNS, list(events)).tables()) if events else []
        splits = [TableSource("orders", table, 0) for table in tables]
        step = MicroBatch(self.topology, self.checkpoint, InProcessExecutor())
        step.run(BatchPlan(self.number, TimeAdvance(clock * 1_000, close=close), splits))
        sink: Any = self.topology.sinks["out"].sink
        rows: list[Json] = sink.batches.pop(f"{self.number:010d}").to_pylist() if sink.batches else []
        return rows


def test_rows_are_taken_back_before_the_new_ones_come() -> None:
    bolt = Sum().with_time(presets.atlas("10s")).with_tumbling_window("10s")
    run = Run(bolt.with_trigger(Panes(early=1, late=True, mode="retracting")))
    assert run.batch(("ada", 1, 1_000), ("bob", 5, 2_000)) == [
        {"user": "ada", "total": 1, "pane": 0, "_retract": False},
        {"user": "bob", "total": 5, "pane": 0, "_retract": False},
    ]
    assert run.batch(("ada", 2, 3_000)) == [
        {"user": "ada", "total": 1, "pane": 0, "_retract": True},
        {"user": "bob", "total": 5, "pane": 0, "_retract": True},
        {"user": "ada", "total": 3, "pane": 1, "_retract": False},
        {"user": "bob", "total": 5, "pane": 1, "_retract": False},
    ]
    on_time = run.batch(("eve", 0, 15_000))
    assert [row["pane"] for row in on_time if not row["_retract"] and row["user"] != "eve"] == [2, 2]
    late = run.batch(("bob", 1, 9_000))
    assert [(row["user"], row["total"], row["_retract"]) for row in late] == [
        ("ada", 3, True),
        ("bob", 5, True),
        ("ada", 3, False),
        ("bob", 6, False),
    ]


def test_what_is_left_when_all_is_taken_back_is_the_last_word() -> None:
    bolt = Sum().with_time(presets.atlas("20s")).with_window(Session("10s")).with_key("user")
    run = Run(bolt.with_trigger(Panes(early=1, late=True, mode="retracting")))
    rows = [
        *run.batch(("ada", 1, 0)),
        *run.batch(("ada", 2, 15_000), ("bob", 7, 16_000)),
        *run.batch(("ada", 4, 8_000)),
        *run.batch(close=True),
    ]
    standing: list[tuple[str, int]] = []
    for row in rows:
        if row["_retract"]:
            standing.remove((row["user"], row["total"]))
        else:
            standing.append((row["user"], row["total"]))
    assert sorted(standing) == [("ada", 7), ("bob", 7)]


def test_nothing_is_kept_of_windows_that_are_over() -> None:
    bolt = Sum().with_time(presets.atlas("5s")).with_tumbling_window("10s")
    run = Run(bolt.with_trigger(Panes(early=1, late=True, mode="retracting")))
    run.batch(("ada", 1, 1_000))
    run.batch(("ada", 1, 12_000))
    run.batch(("ada", 1, 90_000))
    manifest = MicroBatch(run.topology, run.checkpoint, InProcessExecutor()).manifest
    (task,) = manifest.bolts["sum"].tasks
    assert sum(ref.needed for ref in task.refs) == 1
    shown = run.checkpoint.segments.read(task.bolt.retractable["default"])
    assert shown.num_rows == 1
    ((_, _, panes),) = task.windows.rows()
    assert run.checkpoint.segments.read(panes).num_rows == 1


def test_events_of_late_panes_are_accounted_for_once() -> None:
    bolt = Sum().with_time(presets.atlas("5s")).with_window("10s", "5s")
    run = Run(bolt.with_trigger(Panes(early=1, late=True)))
    for at in (1_000, 4_000, 11_000, 3_000, 12_000, 40_000):
        run.batch(("ada", 1, at))
    manifest = MicroBatch(run.topology, run.checkpoint, InProcessExecutor()).manifest
    bolt_state = manifest.bolts["sum"]
    accounts = bolt_state.accounts.totals(sum(bolt_state.pending))
    assert accounts["received"] == 6
    assert accounts["windowed"] + accounts["pending"] + accounts["late"] == 6


@pytest.mark.parametrize(
    ("trigger", "due"),
    [
        (after_count(3), [False, True, True, False]),
        (after_clock("10s"), [True, False, True, False]),
        (after_event_time("5s"), [False, False, False, True]),
        (after_count(3) | after_clock("10s"), [True, True, True, False]),
        (after_count(3) & after_clock("10s"), [False, False, True, False]),
        ((after_count(3) | after_clock("10s")).once(), [True, True, False, False]),
        (after_count(1) & after_event_time("5s") | after_count(5), [False, False, True, True]),
    ],
)
def test_triggers_are_put_together(trigger: PaneTrigger, due: list[bool]) -> None:
    windows = OpenWindows(
        fresh=np.array([1, 3, 5, 2]),
        waited=np.array([10, 9, 20, 0]) * 1_000_000,
        advanced=np.array([0, 4, 4, 5]) * 1_000_000,
        fired=np.array([0, 0, 1, 0]),
    )
    assert trigger.due(windows).tolist() == due


def test_windows_fire_early_as_the_watermark_moves() -> None:
    """Five seconds of event time after the first event of the window, and after each firing."""
    bolt = Sum().with_time(presets.atlas("0s")).with_tumbling_window("20s")
    run = Run(bolt.with_trigger(Panes(early=after_event_time("5s"))))
    fired = {
        at: [(row["total"], row["pane"]) for row in run.batch(("ada", 1, at * 1_000))] for at in (1, 4, 6, 8, 11, 21)
    }
    assert {at: rows for at, rows in fired.items() if rows} == {6: [(3, 0)], 11: [(5, 1)], 21: [(5, 2)]}


def test_a_trigger_that_follows_the_clock_asks_for_one() -> None:
    assert topology(Sum().with_tumbling_window("10s").with_trigger(Panes(early="1s"))).needs_clock
    assert topology(
        Sum().with_tumbling_window("10s").with_trigger(Panes(early=after_count(2) | after_clock("1s")))
    ).needs_clock
    assert not topology(Sum().with_tumbling_window("10s").with_trigger(Panes(early=2))).needs_clock


def test_the_clock_fires_early_on_a_quiet_stream() -> None:
    run = Run(Sum().with_tumbling_window("1h").with_trigger(Panes(early=seconds(10))))
    assert run.batch(("ada", 1, 1_000), clock=1_000) == []
    assert run.batch(clock=10_999) == []
    assert [row["total"] for row in run.batch(clock=11_000)] == [1]
    assert run.batch(clock=50_000) == []


@pytest.mark.parametrize(
    ("bolt", "text"),
    [
        (Sum().with_window(Snapshot()).with_trigger(Panes(early=1)), "with every event"),
        (Sum().with_tumbling_window("10s").with_trigger(Panes(late=True)), "allows no lateness"),
        (Sum().with_tumbling_window(5).with_trigger(Panes(early=1)), "count"),
    ],
)
def test_windows_that_cannot_fire_again_are_refused(bolt: WindowedBolt, text: str) -> None:
    with pytest.raises(TopologyError, match=text):
        topology(bolt)


def test_timings_are_named() -> None:
    assert [timing.value for timing in Timing] == ["early", "on_time", "late"]


def test_a_window_that_closes_after_its_end_fires_on_time_only_then() -> None:
    bolt = Sum().with_tumbling_window("10s").with_alignment(closes_after_end=True).with_watermark(every=1)
    run = Run(bolt.with_lateness(by="window", allowed="5s").with_trigger(Panes(late=True)))
    assert run.batch(("ada", 1, 10_000)) == []
    assert run.batch(("ada", 2, 10_000)) == []
    assert [(row["total"], row["pane"]) for row in run.batch(("bob", 4, 10_001))] == [(3, 0)]
