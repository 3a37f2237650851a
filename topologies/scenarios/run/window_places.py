"""Where the windows of a run stand among its steps: at the one that made each fire."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from policies.marks import NONE
from topologies.scenarios.run.scenario_answer import AnswerWindow, Replayed
from topologies.scenarios.run.script import script
from topologies.scenarios.schema.scenario_model import Scenario
from topologies.scenarios.schema.steps import ClockStep, EventStep, ScenarioStep, TickStep


@dataclass
class _Progress:
    """How far a run has come."""

    clock: int
    watermark: int = NONE
    arrived: set[str] = field(default_factory=set)
    """The ids of the events so far."""

    def reach(self, watermark: int | None) -> None:
        """Note a watermark, where there is one."""
        if watermark is not None:
            self.watermark = max(watermark, self.watermark)

    def allows(self, window: AnswerWindow) -> bool:
        """Whether a window is due before its batch ends, with all its events."""
        time = self.clock if window["by_clock"] else self.watermark
        known = {name for name in window["events"] or () if name is not None}
        return window["due"] <= time and self.arrived.issuperset(known)


class _Waiting:
    """The windows that have yet to be placed, in the order in which they fired."""

    def __init__(self, windows: Iterable[AnswerWindow]) -> None:
        self._windows = deque(enumerate(windows))

    def allowed(self, batch: int, progress: _Progress) -> Iterator[int]:
        """Take the next windows, as long as they are due within the batch under way."""
        while self._windows and self._windows[0][1]["batch"] == batch and progress.allows(self._windows[0][1]):
            yield self._windows.popleft()[0]

    def up_to(self, batch: float) -> Iterator[int]:
        """Take all windows of a batch, and of those before it."""
        while self._windows and self._windows[0][1]["batch"] <= batch:
            yield self._windows.popleft()[0]


def placed(scenario: Scenario, answer: Replayed) -> Iterator[tuple[ScenarioStep | None, list[int], list[int]]]:
    """Each step with the windows that fired just before it (its clock moved first), and after it.

    The trace says in which batch a window fired, and from which watermark or clock it was due. Within a batch of
    several steps a window stands where it was first due with all its events, else after the last step.
    """
    waiting, progress = _Waiting(answer.windows), _Progress(scenario.first_clock)
    watermarks, clocks = iter(answer.watermarks), iter(answer.clocks)
    by_event = {event["id"]: event["watermark"] for event in answer.events}
    ends, batch = deque(planned.end for planned in script(scenario)), 0
    for done, step in enumerate(scenario.steps, 1):
        before: list[int] = []
        if isinstance(step, EventStep | ClockStep) and step.moved is not None:
            progress.clock = step.moved
            before = list(waiting.allowed(batch, progress)) if isinstance(step, EventStep) else []
        match step:
            case EventStep():
                progress.arrived.add(step.id)
                progress.reach(by_event.get(step.id))
            case TickStep():
                progress.reach(next(watermarks, None))
            case ClockStep():
                progress.reach(next(clocks, None))
        after = list(waiting.allowed(batch, progress))
        while ends and ends[0] <= done:
            ends.popleft()
            after += waiting.up_to(batch)
            batch += 1
        yield step, before, after
    left = list(waiting.up_to(math.inf))
    if left:
        yield None, [], left
