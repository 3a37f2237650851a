"""What late rows say of the window that an event has missed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from windbolt import TopologyBuilder, run_local, sinks, spouts
from windowing import TupleWindow, WindowedBolt, presets
from windowing.settings.kinds import Session, SlidingLog

EVENTS = [("x", 0, 10_000), ("x", 30_000, 10_000), ("y", 20_000, 10_000), ("y", 22_000, 10_000), ("x", 5_000, 2_000)]
"""(key, time, gap): the watermark is at 30 s from the second on."""


class Count(WindowedBolt):
    outputs = "n long"

    def execute(self, window: TupleWindow) -> Any:
        return {"n": len(window)}


def late(bolt: WindowedBolt, *batches: list[tuple[str, int, int]]) -> list[tuple[int, Any, Any]]:
    """The time of each late event with the start and the end of its window, in milliseconds."""
    builder, out = TopologyBuilder("late"), sinks.memory()
    builder.set_spout("events", spouts.memory("k string, ts long, gap long", *batches))
    timed = bolt.with_timestamp_field("ts").with_late_tuple_stream("late")
    builder.set_bolt("count", timed.with_key("k")).global_grouping("events")
    builder.set_sink("out", out).from_("count", stream="late")
    run_local(builder.build())
    return [(row["ts"], _millis(row["_window_start"]), _millis(row["_window_end"])) for row in out.rows]


def _millis(moment: datetime | None) -> int | None:
    return None if moment is None else round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000)


def sessions(**more: Any) -> WindowedBolt:
    return Count().with_time(presets.atlas("0s")).with_window(Session("10s", **more))


@pytest.mark.parametrize("batches", [[EVENTS], [[event] for event in EVENTS]], ids=["one batch", "a batch an event"])
def test_an_event_that_is_late_by_session_has_the_session_that_it_would_have_opened(batches: Any) -> None:
    found = late(sessions().with_lateness(by_session=True), *batches)
    assert found == [(20_000, 20_000, 30_000), (5_000, 5_000, 15_000)]


def test_it_has_its_own_gap() -> None:
    found = late(sessions(gap_field="gap").with_lateness(by_session=True), EVENTS)
    assert found == [(20_000, 20_000, 30_000), (5_000, 5_000, 7_000)]


def test_one_that_no_open_session_takes_has_missed_no_window_in_particular() -> None:
    assert late(sessions(), EVENTS) == [(20_000, None, None), (22_000, None, None), (5_000, None, None)]


def test_other_windows_have_the_last_one_that_could_have_held_it() -> None:
    assert late(Count().with_time(presets.atlas("0s")).with_tumbling_window("10s"), EVENTS) == [
        (20_000, 20_000, 30_000),
        (22_000, 20_000, 30_000),
        (5_000, 0, 10_000),
    ]


@pytest.mark.parametrize("batches", [[EVENTS], [[event] for event in EVENTS]], ids=["one batch", "a batch an event"])
def test_an_event_that_is_late_for_a_sliding_log_has_the_window_that_would_have_ended_with_it(batches: Any) -> None:
    bolt = Count().with_time(presets.atlas("0s"))
    assert late(bolt.with_window(SlidingLog("24s")), *batches) == [
        (20_000, -4_000, 20_000),
        (22_000, -2_000, 22_000),
        (5_000, -19_000, 5_000),
    ]
    held = late(bolt.with_window(SlidingLog("26s")), *batches)
    assert held == [(20_000, -6_000, 20_000), (22_000, -4_000, 22_000)], "the window that ends at 30 s holds x at 5 s"
