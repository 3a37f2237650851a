"""Admission is the same where events are read and in the bolt's tasks: one function decides, one place counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from manager.storage.checkpoint import MemoryCheckpoint
from policies.watermarks import NONE, Admission, Decision
from tests.helpers.examples import examples
from tests.helpers.lateness import Lateness
from topologies.engine import admission
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.source_splits import TableSource
from topologies.engine.task_data import Rows
from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_answer import ReplayResult
from topologies.scenarios.scenario_model import read_scenario
from windbolt import (
    Arrival,
    Bounds,
    Count,
    TopologyBuilder,
    TopologyError,
    TupleWindow,
    WindowedBolt,
    micros,
    presets,
    sinks,
    spouts,
)
from windbolt.testing import run_bolt

Json = dict[str, Any]

KINDS: list[Json] = [
    {"length": "10ms", "tumbling": True},
    {"length": "10ms", "sliding": "4ms"},
    {"length": "4ms", "sliding": "10ms"},
    {"length": "4ms", "sliding": "10ms", "bounds": "[start, end)"},
    {"length": 3, "tumbling": True},
    {"length": 3, "sliding": "5ms"},
    {"length": "7ms", "sliding": 2},
]


@st.composite
def stories(draw: st.DrawFn) -> Json:
    """Events in disorder, ticks and crashes, under Storm's rules; ``m`` is an id of each event's own."""
    bolt = {**draw(st.sampled_from(KINDS)), "timestamp_field": "ts", "lag": f"{draw(st.integers(0, 4))}ms"}
    steps: list[Json] = []
    now = 0
    for number in range(draw(st.integers(2, 25))):
        now += draw(st.integers(0, 5))
        at = max(now - draw(st.integers(0, 8)), 0)
        steps.append({"event": {"id": f"e{number}", "ts": at, "m": f"m{number}"}})
        if draw(st.integers(0, 2)) == 0:
            steps.append(draw(st.sampled_from([{"tick": "watermark"}, {"tick": "watermark"}, {"crash": True}])))
    return {"name": "admission", "bolt": bolt, "steps": [*steps, {"close": True}]}


def seen(answer: ReplayResult) -> list[Any]:
    found = answer.to_json()
    return [found[name] for name in ("windows", "late", "counts", "watermarks", "pending", "metrics")]


@examples(80, by_default=30, suppress_health_check=[HealthCheck.too_slow])
@given(stories())
def test_the_reader_and_the_tasks_decide_alike(story: Json) -> None:
    by_reader = replay_locally(read_scenario(story))
    deferred = {**story, "bolt": {**story["bolt"], "message_id_field": "m"}}  # ids that never repeat
    assert seen(replay_locally(read_scenario(deferred))) == seen(by_reader)


@pytest.mark.parametrize("extra", [{}, {"message_id_field": "m"}, {"watermark_every": 1}, {"key": ["m"]}])
def test_every_event_passes_the_one_function(extra: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[int] = []
    decide = Admission.decide

    def noting(self: Admission, times: Any, *columns: Any) -> Any:
        passed.append(len(times))
        return decide(self, times, *columns)

    monkeypatch.setattr(Admission, "decide", noting)
    steps = [{"event": {"id": f"e{at}", "ts": at, "m": f"m{at}"}} for at in range(5)]
    bolt = {"length": "10ms", "tumbling": True, "timestamp_field": "ts", **extra}
    answer = replay_locally(read_scenario({"name": "all", "bolt": bolt, "steps": [*steps, {"close": True}]}))
    assert sum(passed) == answer.counts["received"] == 5


@pytest.mark.parametrize("bounds", Bounds)
@pytest.mark.parametrize(("length", "slide"), [(10, 10), (10, 4), (4, 10), (7, Count(2)), (Count(3), 10)])
def test_a_program_without_a_topology_is_told_the_same(length: int | Count, slide: int | Count, bounds: Bounds) -> None:
    extents = [each if isinstance(each, Count) else micros(each) for each in (length, slide)]
    builder = TopologyBuilder("one")
    builder.set_spout("numbers", spouts.memory("at timestamp"))
    bolt = Nothing().with_window(*extents).with_timestamp_field("at")
    if slide != Count(2):  # such a window always holds its end
        bolt = bolt.with_alignment(bounds=bounds)
    builder.set_bolt("bolt", bolt).global_grouping("numbers")
    node = builder.build().windowed["bolt"]
    times = np.arange(-30, 60)
    for watermark in (None, *range(-5, 31)):
        marks = admission.Marks.of_tick(watermark, len(times))
        _, actions, _ = node.admission.decide(
            times, None, np.zeros(len(times), np.int8), marks.of_source, marks.of_bolt
        )
        late = Lateness(node.eviction, node.trigger).late(times, watermark)
        assert late.tolist() == (actions == Decision.LATE_AT_ADMISSION).tolist()
    assert not node.admitted_by_tasks


def test_before_the_first_tick_there_is_no_watermark() -> None:
    marks = admission.Marks.of_tick(None, 3)
    assert marks.of_source.tolist() == marks.of_bolt.tolist() == [NONE] * 3
    assert not Lateness().late(np.array([-5, 0, 5]), None).any()


class Nothing(WindowedBolt):
    outputs = "n long"

    def execute(self, window: TupleWindow) -> None:
        pass


def late_rows_of(bolt: WindowedBolt, rows: list[dict[str, int]]) -> list[dict[str, Any]]:
    bolt = bolt.with_timestamp_field("ts").with_late_tuple_stream("late")
    return list(run_bolt(bolt, rows, "ts long, at long").streams["late"])


def test_an_event_whose_windows_closed_long_ago_is_told_so() -> None:
    bolt = Nothing().with_tumbling_window("10s").with_watermark(every=1).with_lateness(by="window", allowed="2s")
    (late,) = late_rows_of(bolt, [{"ts": 300_000, "at": 0}, {"ts": 5_000, "at": 0}])
    assert late["_reason"] == "the last window that could hold it has closed"
    assert late["_late_by_us"] == 295_000_000


def test_an_event_that_arrives_late_ahead_of_the_watermark_is_not_behind_it() -> None:
    bolt = Nothing().with_tumbling_window("10s").with_watermark(every=1)
    bolt = bolt.with_lateness(arrival=Arrival("at", late="5s", action="divert"))
    (late,) = late_rows_of(bolt, [{"ts": 1_000, "at": 1_000}, {"ts": 11_000, "at": 60_000}])
    assert "after" in late["_reason"] or "late" in late["_reason"]
    assert late["_late_by_us"] == 0


def test_a_watermark_that_the_rows_would_be_behind_is_refused() -> None:
    bolt = Nothing().with_window("10s", "5s").with_timestamp_field("ts")
    bolt = bolt.with_time(output_time="window start", output_watermark="window end")
    with pytest.raises(TopologyError, match="would be late at the next bolt"):
        run_bolt(bolt, [{"ts": 1}])


def adjusted_and_late(
    bolt: WindowedBolt, code: Decision = Decision.ADJUSTED_LATE_BY_ARRIVAL, closed_until: int = NONE, mark: int = NONE
) -> tuple[Decision, bool]:
    """What is decided about an event at 5 s that has the code by its arrival; whether it counts as adjusted."""
    builder = TopologyBuilder("one")
    builder.set_spout("in", spouts.memory("ts long, at long", [(5_000, 60_000)]))
    builder.set_bolt("bolt", bolt.with_timestamp_field("ts")).global_grouping("in")
    node = builder.build().windowed["bolt"]
    rows = Rows.without_source(pa.table({"ts": [5_000], "at": [60_000]}), 0)
    codes, marks = np.array([code], np.int8), admission.Marks.of_tick(mark, 1)
    events = admission.Incoming(rows, 0, np.array([5_000_000]), codes, marks, closed_until)
    decisions = admission.decide(node, events, admission.AdmissionContext())
    return Decision(int(decisions.codes[0])), bool(decisions.adjusted[0])


def test_adjusted_are_the_events_that_come_in_with_another_time() -> None:
    bolt = Nothing().with_watermark(every=1).with_lateness(arrival=Arrival("at", late="5s"))
    tumbling, gaps = bolt.with_tumbling_window("10s"), bolt.with_window("2s", "10s")
    passed = 10_000_000
    assert adjusted_and_late(tumbling) == (Decision.ADJUSTED_LATE_BY_ARRIVAL, True)
    assert adjusted_and_late(gaps) == (Decision.UNWINDOWED, True)
    assert adjusted_and_late(tumbling, mark=passed) == (Decision.LATE_AT_ADMISSION, False)
    moving = tumbling.with_lateness(action="adjust")
    assert adjusted_and_late(moving, mark=passed) == (Decision.ADJUSTED_LATE_AT_ADMISSION, True)
    assert adjusted_and_late(moving, Decision.ACCEPTED, mark=passed) == (Decision.ADJUSTED_LATE_AT_ADMISSION, True)
    assert adjusted_and_late(tumbling, Decision.ACCEPTED) == (Decision.ACCEPTED, False)


def test_an_adjusted_event_whose_window_the_idle_timeout_has_closed_is_late_and_not_adjusted() -> None:
    atlas = Nothing().with_time(presets.atlas("1s")).with_tumbling_window("10s")
    bolt = atlas.with_lateness(arrival=Arrival("at", late="5s"))
    assert adjusted_and_late(bolt) == (Decision.ADJUSTED_LATE_BY_ARRIVAL, True)
    assert adjusted_and_late(bolt, closed_until=10_000_000) == (Decision.LATE_AT_ADMISSION, False)


def test_events_that_three_tasks_read_meet_the_watermark_of_their_own_place() -> None:
    bolt = Nothing().with_tumbling_window("10ms").with_watermark(every=1).with_timestamp_field("ts")
    builder = TopologyBuilder("pieces")
    pieces = [[(5,), (40,), (12,)], [(45,), (3,)], [(60,), (61,), (4,)]]
    spout = spouts.memory("ts long", *pieces)
    builder.set_spout("events", spout)
    builder.set_bolt("bolt", bolt.with_late_tuple_stream("late")).global_grouping("events")
    builder.set_sink("late", out := sinks.memory()).from_("bolt", stream="late")
    builder.set_sink("rest", sinks.discard()).from_("bolt")
    step = MicroBatch(builder.build(), MemoryCheckpoint(), InProcessExecutor())
    splits = [TableSource("events", table, row) for table, row in zip(spout.tables(), (0, 3, 5), strict=True)]
    step.run(BatchPlan(0, TimeAdvance(0), splits))
    assert [(row["ts"], row["_late_by_us"]) for row in out.rows] == [(12, 28_000), (3, 42_000), (4, 57_000)]
