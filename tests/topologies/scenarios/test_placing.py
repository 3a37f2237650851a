"""Where a drawing puts the windows of a run."""

from __future__ import annotations

from typing import Any

from topologies.scenarios.moments import EventOutcome, RunMoments, place_windows
from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_model import read_scenario
from topologies.scenarios.scenario_values import EventStep


def order(bolt: dict[str, Any], *steps: dict[str, Any]) -> list[str]:
    """The steps of a run and its windows, from top to bottom."""
    scenario = read_scenario({"name": "a", "bolt": bolt, "steps": list(steps)})
    rows: list[str] = []
    for step, before, after in place_windows(scenario, replay_locally(scenario)):
        rows.extend(f"#{number}" for number in before)
        rows.append(step.id if isinstance(step, EventStep) else type(step).__name__)
        rows.extend(f"#{number}" for number in after)
    return rows


def event(name: str, ts: int, **more: Any) -> dict[str, Any]:
    return {"event": {"id": name, "ts": ts}, **more}


TUMBLING = {"length": "10s", "tumbling": True, "timestamp_field": "ts"}
CLOSE = {"close": True}


def test_within_a_batch_a_window_stands_after_the_event_whose_watermark_made_it_due():
    bolt = {**TUMBLING, "preset": {"atlas": {"allowed_lateness": "5s"}}}
    rows = order(bolt, event("a", 1000), event("b", 12_000), event("c", 16_000), event("d", 17_000), CLOSE)
    assert rows == ["a", "b", "c", "#0", "d", "CloseStep", "#1"]


def test_an_early_pane_stands_at_the_end_of_its_batch_and_a_late_one_after_its_event():
    bolt = {**TUMBLING, "preset": {"atlas": {"allowed_lateness": "5s"}}, "panes": {"early": 1, "late": True}}
    tick = {"tick": "watermark"}
    rows = order(bolt, event("a", 1000), tick, event("b", 12_000), tick, event("c", 2000), tick)
    assert rows == ["a", "TickStep", "#0", "b", "#1", "TickStep", "#2", "c", "#3", "TickStep"]


def test_a_window_that_idleness_closes_stands_after_the_step_of_the_clock():
    bolt = {**TUMBLING, "preset": {"atlas": {"idle_timeout": "1m"}}}
    rows = order(bolt, event("a", 1000, clock=1000), {"clock": 200_000}, {"clock": 300_000})
    assert rows == ["a", "ClockStep", "#0", "ClockStep"]


def test_a_window_of_the_clock_fires_before_the_event_that_moves_it_and_one_of_a_count_after_its_last_event():
    events: list[dict[str, Any]] = [{"event": {}, "clock": clock} for clock in (5, 10, 11)]
    assert order({"length": "10ms", "tumbling": True}, *events) == ["e1", "e2", "#0", "e3"]
    assert order({"length": 2, "tumbling": True}, *events, CLOSE) == ["e1", "e2", "#0", "e3", "CloseStep"]


def test_an_event_has_the_decision_about_itself_where_the_tasks_decide() -> None:
    """They number the events of each batch anew, so these numbers are not those of the scenario."""
    preset = {"azure": {"late": "5s", "out_of_order": "3s", "arrival_field": "at"}}
    bolt = {"tumbling": True, "length": "10s", "timestamp_field": "ts", "preset": preset}
    batches = [{"a": 5, "b": 1, "c": 9, "d": 2}, {"e": 11, "f": 15, "g": 30, "h": 29}]
    steps = [
        step
        for batch in batches
        for step in (
            *({"event": {"id": name, "ts": 1000 * at, "at": 1000 * at}} for name, at in batch.items()),
            {"tick": "watermark"},
        )
    ]
    scenario = read_scenario({"name": "numbers", "bolt": bolt, "steps": steps})
    answer = replay_locally(scenario)
    moments = RunMoments(scenario, answer, answer.traces[0]).all()
    found = {moment.event: (moment.own_time, moment.outcome) for moment in moments if moment.kind == "event"}
    times = {name: at * 1_000_000 for batch in batches for name, at in batch.items()}
    assert {name: own for name, (own, _) in found.items()} == times
    assert {name for name, (_, fate) in found.items() if fate is EventOutcome.ADJUSTED} == {"b", "d"}
