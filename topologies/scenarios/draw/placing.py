"""Where the windows of a run stand among its steps: after the one that made them fire."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from topologies.scenarios.run.answer import AnswerWindow, Replayed
from topologies.scenarios.schema.model import Scenario
from topologies.scenarios.schema.steps import ClockStep, CloseStep, EventStep, ScenarioStep, TickStep
from windowing.time.durations import Count


@dataclass
class _Progress:
    """How far a run has come while its windows are put where they fired."""

    arrived: set[str] = field(default_factory=set)
    watermark: int | None = None
    clock: int | None = None
    closed: bool = False

    def reach(self, watermark: int | None) -> None:
        """Note a watermark, where there is one."""
        if watermark is not None:
            self.watermark = watermark if self.watermark is None else max(watermark, self.watermark)


def placed(scenario: Scenario, answer: Replayed) -> Iterator[tuple[ScenarioStep | None, list[int], list[int]]]:
    """Each step with the windows that fired just before it (its clock moved first), and after it."""
    waiting = deque(range(len(answer.windows)))
    watermarks, clocks, so_far = iter(answer.watermarks), iter(answer.clocks), _Progress()
    taken = {event["id"]: event["watermark"] for event in answer.events}
    for step in scenario.steps:
        before: list[int] = []
        if isinstance(step, EventStep | ClockStep) and step.moved is not None:
            so_far.clock = step.moved
        match step:
            case EventStep():
                before = _due(scenario, answer, waiting, so_far) if step.arrival is None else []
                so_far.arrived.add(step.id)
                so_far.reach(taken.get(step.id))
            case TickStep():
                so_far.reach(next(watermarks, None))
            case ClockStep():
                so_far.reach(next(clocks, None) if taken else None)
            case CloseStep():
                so_far.closed = True
        yield step, before, _due(scenario, answer, waiting, so_far)
    if waiting:
        yield None, [], list(waiting)


def _due(scenario: Scenario, answer: Replayed, waiting: deque[int], so_far: _Progress) -> list[int]:
    due: list[int] = []
    while waiting and _has_fired(scenario, answer.windows[waiting[0]], so_far):
        due.append(waiting.popleft())
    return due


def _has_fired(scenario: Scenario, window: AnswerWindow, so_far: _Progress) -> bool:
    if so_far.closed:
        return True
    if not so_far.arrived.issuperset(window["events"]):
        return False
    end = window["end"]
    if end is None:
        return True
    if scenario.bolt is None or scenario.is_event_time:
        rules = scenario.rules
        behind = rules.allowed_lateness.micros + rules.closes_after_end
        return so_far.watermark is not None and end <= so_far.watermark - behind
    if so_far.clock is None:
        return False
    slide = scenario.bolt.sliding or (scenario.bolt.length if scenario.bolt.tumbling else None)
    return end <= so_far.clock if slide is None or isinstance(slide, Count) else end < so_far.clock
