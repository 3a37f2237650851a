"""How the times of an axis are written, and how far apart its labels are."""

from __future__ import annotations

from collections.abc import Sequence

from topologies.scenarios.schema.scenario_model import Scenario
from topologies.scenarios.schema.steps import ClockStep, EventStep
from topologies.scenarios.terminal_drawing.time_text import DAY, SECOND, are_of_a_clock, time_text
from windowing.time.timestamps import EARLIEST, LATEST

_STEPS_OF_TIME = [
    *(unit * SECOND for unit in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)),
    *(unit * 3600 * SECOND for unit in (1, 2, 3, 6, 12)),
]

_NUMBERS = 1_000_000
"""Below this a place on an axis of arrivals is the number of an event."""


class AxisTimes:
    """How times are shown: of the clock where they are of today's world, else in milliseconds."""

    def __init__(self, times: Sequence[int], scenario: Scenario, *, by_arrival: bool) -> None:
        clocks = [step.moved for step in scenario.steps if isinstance(step, EventStep | ClockStep)]
        # By arrival, events stand at their numbers; the times among them are the ends of windows.
        known = [at for at in times if EARLIEST <= at <= LATEST and not (by_arrival and abs(at) < _NUMBERS)]
        known += [at for at in clocks if at is not None and EARLIEST <= at <= LATEST]
        self.by_arrival = by_arrival
        self.as_clock = are_of_a_clock(known)
        self.dated = bool(known) and min(known) // DAY != max(known) // DAY

    def __call__(self, at: int) -> str:
        if self.by_arrival and abs(at) < _NUMBERS:
            return str(at)
        return time_text(at, as_clock=self.as_clock, dated=self.dated)

    def step(self, least: int) -> int:
        """The smallest round distance of labels that is not below this."""
        if self.as_clock and SECOND <= least <= _STEPS_OF_TIME[-1]:
            return next(step for step in _STEPS_OF_TIME if step >= least)
        unit = 1 if self.by_arrival else DAY if self.as_clock and least > DAY else 1000
        if self.by_arrival is False and 10 ** len(str(max(least, 1))) < unit:
            unit = 1
        while True:
            found = next((unit * few for few in (1, 2, 5) if unit * few >= least), None)
            if found is not None:
                return found
            unit *= 10
