"""A scenario as micro-batches: where they end, where its bolt minds when its clock moved and where it does not."""

from __future__ import annotations

from typing import Any

import pytest

from topologies.scenarios.scenario_model import read_scenario
from topologies.scenarios.script import ScriptBatch, script

PLAIN = {"length": "10s", "tumbling": True, "timestamp_field": "ts"}
IDLE = {**PLAIN, "watermark_every": 1, "idle_timeout": "1s"}
ESTIMATED = {"preset": "azure", **PLAIN}
SESSIONS = {"session": {"gap": "1s"}}
EARLY = {**PLAIN, "watermark_every": 1, "panes": {"early": "5s"}}


def batches(bolt: dict[str, Any], *steps: dict[str, Any]) -> list[ScriptBatch]:
    return script(read_scenario({"name": "a", "bolt": bolt, "steps": list(steps)}))


def shown(found: list[ScriptBatch]) -> list[tuple[int, list[str]]]:
    """The clock of each batch in milliseconds, and its events."""
    return [
        (batch.advance.clock // 1000, [row["id"] for arrival in batch.arrivals for row in arrival.rows])
        for batch in found
    ]


def event(name: str, clock: float | None = None, **cells: Any) -> dict[str, Any]:
    step: dict[str, Any] = {"event": {"id": name, "ts": 0, **cells}}
    return step if clock is None else {**step, "clock": clock}


MOVING = [event("e1", 5), event("e2", 5), event("e3", 9), {"clock": 20}, event("e4", 20), {"tick": "watermark"}]


def test_clocks_of_events_are_within_a_batch_where_nothing_depends_on_them():
    found = batches(PLAIN, *MOVING)
    assert shown(found) == [(20, ["e1", "e2", "e3"]), (20, ["e4"])]
    assert [[arrival.clock // 1000 for arrival in batch.arrivals] for batch in found] == [[5, 9], [20]]


@pytest.mark.parametrize("bolt", [ESTIMATED, SESSIONS, EARLY])
def test_a_batch_ends_when_the_clock_moves_and_what_is_due_then_fires_without_events(bolt: dict[str, Any]):
    found = batches(bolt, *MOVING)
    assert shown(found) == [(5, ["e1", "e2"]), (9, []), (9, ["e3"]), (20, []), (20, ["e4"])]
    assert [batch.advance.tick for batch in found] == [False, False, False, False, True]
    assert [batch.moves_clock for batch in found] == [False, False, False, True, False]


def test_an_event_at_the_instant_of_an_idle_timeout_comes_before_it():
    found = batches(IDLE, event("e1", 5), event("e2", 9))
    assert [batch.advance.clock for batch in found] == [5_000, 8_999, 9_000]


def test_a_moment_after_the_clock_moved_it_need_not_move_again():
    assert shown(batches(IDLE, event("e1", 5), event("e2", 5.001))) == [(5, ["e1"]), (5, ["e2"])]


def test_events_carry_the_columns_that_the_settings_name():
    bolt = {**PLAIN, "key": ["user"], "end_field": "end", "watermark_field": "wm"}
    (batch,) = batches(bolt, event("e1", user="a", end=1000, other=1), {"event": {"id": "c1", "wm": 2000}})
    assert [row for arrival in batch.arrivals for row in arrival.rows] == [
        {"id": "e1", "ts": "1970-01-01T00:00:00+00:00", "end": "1970-01-01T00:00:01+00:00", "wm": None, "user": "a"},
        {"id": "c1", "ts": None, "end": None, "wm": "1970-01-01T00:00:02+00:00", "user": None},
    ]
