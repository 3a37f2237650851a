"""Where each event of a run stands on the axis of a timeline: at its time, where one is known."""

from __future__ import annotations

from topologies.scenarios.run.moments import RunMoments
from topologies.scenarios.run.scenario_answer import Replayed
from topologies.scenarios.schema.scenario_model import Scenario
from topologies.scenarios.schema.steps import ClockStep, EventStep
from windowing.time.durations import Count


def event_places(scenario: Scenario, answer: Replayed) -> dict[str, int] | None:
    """The time of each event, by its id, in microseconds; None where only the order of arrival can place events."""
    if scenario.is_event_time:
        return {step.id: at for step in scenario.event_steps if (at := scenario.event_time(step)) is not None}
    if any(window["end"] is None for window in answer.windows):
        return None
    if scenario.topology is not None:
        return _times_at_bolts(scenario, answer)
    if scenario.bolt is not None and isinstance(scenario.bolt.length, Count) and not answer.windows:
        return None
    return _times_of_clock(scenario)


def _times_at_bolts(scenario: Scenario, answer: Replayed) -> dict[str, int] | None:
    """The times that the bolts of a topology give its events; None unless each event has one id and one time."""
    names = [step.id for step in scenario.event_steps]
    if len(set(names)) < len(names) or not all(trace.event_time for trace in answer.traces):
        return None
    found: dict[str, int] = {}
    for trace in answer.traces:
        for moment in RunMoments(scenario, answer, trace).all():
            if moment.arrival is None or moment.at is None:
                continue
            if found.setdefault(moment.event, moment.at) != moment.at:
                return None
    return found or None


def _times_of_clock(scenario: Scenario) -> dict[str, int]:
    """The clock at which each event came."""
    found: dict[str, int] = {}
    clock: int | None = None
    for step in scenario.steps:
        if isinstance(step, EventStep | ClockStep) and step.moved is not None:
            clock = step.moved
        if isinstance(step, EventStep) and clock is not None:
            found[step.id] = clock
    return found
