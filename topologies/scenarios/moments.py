"""The moments of a run at one bolt, in order of processing time, with the outcome of each event."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, TypeAlias

from policies.watermarks import NONE
from topologies.scenarios.scenario_answer import AnswerDecision, AnswerWindow, BoltTrace, ReplayResult
from topologies.scenarios.scenario_bolt import moment_of
from topologies.scenarios.scenario_model import Scenario
from topologies.scenarios.scenario_values import (
    ClockStep,
    CloseStep,
    CrashStep,
    EventStep,
    ExpectStep,
    ScenarioStep,
    TickStep,
)
from topologies.scenarios.script import script
from windowing.errors import ScenarioError
from windowing.timestamps import FOREVER

# The outcome of an event in pictures: each outcome has a shape, a colour, a word and a sentence.


class EventOutcome(Enum):
    """Outcome of an event; the value is its class in the style sheet."""

    WINDOWED = "windowed"
    ADJUSTED = "adjusted"
    PENDING = "pending"
    LATE = "late"
    DROPPED = "dropped"
    EARLY = "early"
    DUPLICATE = "duplicate"
    INVALID = "invalid"
    NOWHERE = "nowhere"
    WATERMARK = "punctuation"
    ELSEWHERE = "elsewhere"

    @property
    def is_unusual(self) -> bool:
        """True if the reason is worth telling."""
        return self in (
            EventOutcome.LATE,
            EventOutcome.DROPPED,
            EventOutcome.EARLY,
            EventOutcome.INVALID,
            EventOutcome.ADJUSTED,
        )

    @property
    def word(self) -> str:
        """Name of the outcome in the legend."""
        return _WORDS[self][0]

    @property
    def meaning(self) -> str:
        """Explanation of the outcome in the legend."""
        return _WORDS[self][1]


_WORDS = {
    EventOutcome.WINDOWED: ("windowed", "it is in at least one window that fired"),
    EventOutcome.ADJUSTED: ("adjusted", "it was given another time; the line begins at the time it came with"),
    EventOutcome.PENDING: ("pending", "it waits for a window that has not fired yet"),
    EventOutcome.LATE: ("late", "its time was over when it came; the line shows by how much"),
    EventOutcome.DROPPED: ("dropped", "it was late, and the bolt is told to drop such events"),
    EventOutcome.EARLY: ("early", "its time is too far ahead of its arrival"),
    EventOutcome.DUPLICATE: ("duplicate", "a message with its id has been taken in already"),
    EventOutcome.INVALID: ("invalid", "the bolt cannot use it, for example since it has no time"),
    EventOutcome.NOWHERE: ("in no window", "it was taken in, and no window that fired holds it"),
    EventOutcome.WATERMARK: ("a watermark", "no event: the source says how far time is"),
    EventOutcome.ELSEWHERE: ("not for this bolt", "it does not come to this bolt"),
}

_BY_DECISION = {
    "late": EventOutcome.LATE,
    "dropped_late": EventOutcome.DROPPED,
    "dropped_out_of_order": EventOutcome.DROPPED,
    "early": EventOutcome.EARLY,
    "duplicate": EventOutcome.DUPLICATE,
    "invalid": EventOutcome.INVALID,
    "watermark": EventOutcome.WATERMARK,
}


def outcome_of(decided: AnswerDecision, *, windowed: bool, pending: bool, has_ids: bool) -> EventOutcome:
    """Returns the outcome of an event that came to a bolt. ``has_ids``: True if windows list ids of events."""
    decision = decided["decision"]
    if decision in _BY_DECISION:
        return _BY_DECISION[decision]
    if decision.startswith("adjusted") and (windowed or pending or not has_ids):
        return EventOutcome.ADJUSTED
    if pending and not windowed:
        return EventOutcome.PENDING
    return EventOutcome.WINDOWED if windowed or not has_ids else EventOutcome.NOWHERE


# The moments of a run at one bolt, in order of processing time: its arrivals, ticks and firings.


@dataclass(kw_only=True)
class RunMoment:
    """A row of the picture; times in microseconds."""

    number: int = 0
    """Number of the moment, from 0, the earliest."""
    kind: str
    """``event``, ``tick``, ``clock``, ``crash``, ``close``, ``window`` or ``end``."""
    batch: int
    clock: int | None = None
    watermark: int | None = None
    """The bolt's watermark after it; None before the first, FOREVER once the streams have ended."""
    event: str = ""
    """The id of the event."""
    arrival: int | None = None
    """Number of the event in the scenario, from 1; None for an event that another bolt made."""
    at: int | None = None
    """Position of the event on the axis."""
    own_time: int | None = None
    """The original time of the event."""
    outcome: EventOutcome | None = None
    mark: int | None = None
    """The watermark with which the event was compared."""
    source: str | None = None
    """The input of the event, or its partition."""
    reason: str | None = None
    """The reason why the event was rejected, or cannot be used."""
    window: int | None = None
    """The number of the window that fires."""
    step: Any = None
    """The step of the scenario."""

    @property
    def micros_late(self) -> int | None:
        """How far the event is behind the watermark, if it came too late; else None."""
        if (
            self.outcome not in (EventOutcome.LATE, EventOutcome.DROPPED)
            or self.mark is None
            or self.own_time is None
            or self.own_time > self.mark
        ):
            return None
        return self.mark - self.own_time


WatermarksById: TypeAlias = "dict[str | None, deque[int | None]]"
"""For each event id, the watermark after each event with that id, in order of arrival."""


class RunMoments:
    """Builds the moments of one bolt."""

    def __init__(self, scenario: Scenario, answer: ReplayResult, trace: BoltTrace) -> None:
        self.scenario, self.trace = scenario, trace
        self.answer = replace(
            answer,
            windows=list(trace.windows.values()),
            watermarks=trace.watermarks,
            clocks=trace.clocks,
            events=trace.events,
        )
        self.window_numbers = list(trace.windows)
        self.decisions = _Decisions(trace)
        self.windowed_ids = {name for window in trace.windows.values() for name in known_ids(window["events"])}
        self.pending_ids = set(known_ids(trace.pending))
        self.has_ids = any(decided["event"] is not None for decided in trace.decisions)
        self.bolt_after_batch = {batch.batch: batch for batch in trace.batches}
        self.by_arrival = goes_by_arrival(scenario, trace)
        self.arrived_count = 0
        self.clock: int | None = None
        self.watermark: int | None = None

    def all(self) -> list[RunMoment]:
        """Returns all moments in order, numbered."""
        found = list(self._moments())
        for number, moment in enumerate(found):
            moment.number = number
        return found

    def _moments(self) -> Iterator[RunMoment]:
        batch_ends, batch = deque(planned.end for planned in script(self.scenario)), 0
        watermarks, clocks = iter(self.trace.watermarks), iter(self.trace.clocks)
        watermarks_by_id: WatermarksById = defaultdict(deque)
        for event in self.trace.events:
            watermarks_by_id[event["id"]].append(event["watermark"])
        for done, (step, before, after) in enumerate(place_windows(self.scenario, self.answer), 1):
            if isinstance(step, EventStep | ClockStep) and step.moved is not None:
                self.clock = step.moved
            yield from (self._window_moment(number, batch) for number in before)
            match step:
                case EventStep():
                    yield self._event_moment(step, batch, watermarks_by_id)
                case TickStep():
                    yield self._moment("tick", batch, step, next(watermarks, None))
                case ClockStep():
                    yield self._moment("clock", batch, step, next(clocks, None))
                case CloseStep():
                    yield self._moment("close", batch, step, FOREVER)
                case CrashStep():
                    yield self._moment("crash", batch, step)
                case None:
                    yield self._moment("end", batch, step)
                case ExpectStep():
                    pass
            while batch_ends and batch_ends[0] <= done:
                batch_ends.popleft()
                yield from self._events_of_other_bolts(batch)
                bolt_batch = self.bolt_after_batch.get(batch)
                self._raise_watermark(None if bolt_batch is None else bolt_batch.watermark)
                batch += 1
            yield from (self._window_moment(number, self.answer.windows[number]["batch"]) for number in after)

    def _moment(self, kind: str, batch: int, step: Any, watermark: int | None = None) -> RunMoment:
        self._raise_watermark(watermark if self.trace.event_time else None)
        return RunMoment(kind=kind, batch=batch, clock=self.clock, watermark=self.watermark, step=step)

    def _raise_watermark(self, watermark: int | None) -> None:
        if watermark is not None:
            self.watermark = watermark if self.watermark is None else max(watermark, self.watermark)

    def _window_moment(self, index: int, batch: int) -> RunMoment:
        moment = self._moment("window", batch, None)
        moment.window = self.window_numbers[index]
        return moment

    def _event_moment(self, step: EventStep, batch: int, watermarks_by_id: WatermarksById) -> RunMoment:
        self.arrived_count += 1
        decided = self.decisions.take(step, self.arrived_count - 1, batch)
        marks = watermarks_by_id[step.id] or watermarks_by_id[None]
        if marks and decided is not None:
            self._raise_watermark(marks.popleft())
        moment = self._moment("event", batch, step)
        moment.event, moment.arrival = step.id, self.arrived_count
        moment.clock = self._arrival_time(step) or moment.clock
        reason = self.trace.invalid.get(self.arrived_count - 1)
        if reason is not None and decided is None:
            moment.outcome, moment.reason = EventOutcome.INVALID, reason
        elif decided is None:
            moment.outcome = EventOutcome.ELSEWHERE
        else:
            self._add_decision(moment, decided)
            moment.source = self._source(step, decided)
            field = self.scenario.rules.watermark_field
            if field is not None and self.scenario.is_watermark(step):
                moment.at = moment.own_time = moment_of(step.event[field])
        if self.by_arrival:
            moment.at = self.arrived_count
        return moment

    def _arrival_time(self, step: EventStep) -> int | None:
        """Returns the clock in an event's arrival field."""
        arrival = self.scenario.rules.arrival
        value = None if arrival is None or arrival.field is None else step.event.get(arrival.field)
        try:
            return None if value is None else moment_of(value)
        except ScenarioError:
            return None

    def _add_decision(self, moment: RunMoment, decided: AnswerDecision) -> None:
        name = decided["event"]
        windowed, pending = name in self.windowed_ids, name in self.pending_ids
        moment.outcome = outcome_of(decided, windowed=windowed, pending=pending, has_ids=self.has_ids)
        moment.own_time, moment.mark, moment.reason = decided["time"], decided["mark"], decided["reason"]
        moment.at = decided["time"] if decided["assigned"] is None else decided["assigned"]
        if moment.outcome is EventOutcome.ADJUSTED and self.scenario.bolt is not None:
            moment.own_time = self.scenario.event_time(moment.step) or moment.own_time
        if name is not None and name in self.trace.refused:
            moment.outcome, moment.reason = EventOutcome.INVALID, self.trace.refused[name]
        elif moment.outcome is EventOutcome.INVALID:
            moment.reason = self.trace.invalid.get(self.arrived_count - 1)

    def _source(self, step: EventStep, decided: AnswerDecision) -> str:
        """Returns the name of an event's source of marks, as in reports of batches."""
        column = self.trace.settings.watermark_partition
        value = step.event.get(column) if isinstance(column, str) else None
        return decided["input"] if value is None else f"{decided['input']}\t{value}"

    def _events_of_other_bolts(self, batch: int) -> Iterator[RunMoment]:
        """Yields the events of a batch that are not steps: rows of other bolts."""
        for decided in self.decisions.untaken(batch):
            moment = self._moment("event", batch, None)
            moment.event = decided["event"] or f"{decided['input']} {decided['seq']}"
            self._add_decision(moment, decided)
            if self.by_arrival:
                self.arrived_count += 1
                moment.at = self.arrived_count
            yield moment


def known_ids(ids: Sequence[str | None] | None) -> list[str]:
    """Returns the ids of events that have one."""
    return [name for name in ids or () if name is not None]


def goes_by_arrival(scenario: Scenario, trace: BoltTrace) -> bool:
    """True if only the order of arrival can place events, because the times of windows or of the run are unknown."""
    no_ends = any(window["end"] is None for window in trace.windows.values())
    return no_ends or not (trace.event_time or scenario.has_clock)


class _Decisions:
    """The decisions of a bolt, looked up by the events of a scenario."""

    def __init__(self, trace: BoltTrace) -> None:
        self._from_bolts = trace.from_bolts
        self._by_row: dict[int, AnswerDecision] = {}
        self._by_id: dict[str, deque[AnswerDecision]] = defaultdict(deque)
        self._of_batch: dict[int, list[AnswerDecision]] = defaultdict(list)
        """The decisions of each batch about rows without a number in the scenario."""
        seen = set()
        for decided in trace.decisions:
            batch = int(decided["batch"].split("-", 1)[0])
            identity = batch, decided["input"], decided["seq"], decided["event"]
            if identity in seen:
                continue  # it went to several tasks
            seen.add(identity)
            if decided["row"] is not None:
                self._by_row[decided["row"]] = decided
                continue
            self._of_batch[batch].append(decided)
            if decided["event"] is not None and decided["input"] not in trace.from_bolts:
                self._by_id[decided["event"]].append(decided)
        self._taken: set[int] = set()

    def take(self, step: EventStep, number: int, batch: int) -> AnswerDecision | None:
        """Returns the decision about an event of the scenario; None if it did not come to the bolt."""
        found = self._by_row.pop(number, None)
        if found is None and self._by_id[step.id]:
            found = self._by_id[step.id].popleft()
        if found is None:  # without ids, the order of arrival on the stream identifies it
            found = next((each for each in self.untaken(batch) if self._may_be_event(each, step)), None)
        if found is not None:
            self._taken.add(id(found))
        return found

    def untaken(self, batch: int) -> Iterator[AnswerDecision]:
        """Yields the decisions of a batch that belong to no event of the scenario so far."""
        return (each for each in self._of_batch[batch] if id(each) not in self._taken)

    def _may_be_event(self, decided: AnswerDecision, step: EventStep) -> bool:
        component = decided["input"].split(".", 1)[0]
        return (
            decided["event"] is None and decided["input"] not in self._from_bolts and step.stream in (None, component)
        )


# The place of a run's windows among its steps: each comes after the step that made it fire.


@dataclass
class _Progress:
    """How far a run has come."""

    clock: int
    watermark: int = NONE
    arrived: set[str] = field(default_factory=set)
    """The ids of the events so far."""

    def raise_watermark(self, watermark: int | None) -> None:
        """Records a watermark, unless it is None."""
        if watermark is not None:
            self.watermark = max(watermark, self.watermark)

    def allows(self, window: AnswerWindow) -> bool:
        """True if a window is due before its batch ends, with all its events."""
        time = self.clock if window["by_clock"] else self.watermark
        known = {name for name in window["events"] or () if name is not None}
        return window["due"] <= time and self.arrived.issuperset(known)


class _Waiting:
    """The windows that have yet to be placed, in order of firing."""

    def __init__(self, windows: Iterable[AnswerWindow]) -> None:
        self._windows = deque(enumerate(windows))

    def due_within(self, batch: int, progress: _Progress) -> Iterator[int]:
        """Yields the next windows that are due within the present batch."""
        while self._windows and self._windows[0][1]["batch"] == batch and progress.allows(self._windows[0][1]):
            yield self._windows.popleft()[0]

    def up_to(self, batch: float) -> Iterator[int]:
        """Yields all windows of a batch, and those of earlier batches."""
        while self._windows and self._windows[0][1]["batch"] <= batch:
            yield self._windows.popleft()[0]


def place_windows(
    scenario: Scenario, answer: ReplayResult
) -> Iterator[tuple[ScenarioStep | None, list[int], list[int]]]:
    """Yields each step with the windows that fired just before the step (if it moved the clock first), and after.

    The trace has the batch in which a window fired, and the watermark or clock from which it was due. In a batch of
    several steps, a window is placed at the first step where it was due with all its events, else after the last step.
    """
    waiting, progress = _Waiting(answer.windows), _Progress(scenario.first_clock)
    watermarks, clocks = iter(answer.watermarks), iter(answer.clocks)
    watermark_after = {event["id"]: event["watermark"] for event in answer.events}
    batch_ends, batch = deque(planned.end for planned in script(scenario)), 0
    for done, step in enumerate(scenario.steps, 1):
        before: list[int] = []
        if isinstance(step, EventStep | ClockStep) and step.moved is not None:
            progress.clock = step.moved
            before = list(waiting.due_within(batch, progress)) if isinstance(step, EventStep) else []
        match step:
            case EventStep():
                progress.arrived.add(step.id)
                progress.raise_watermark(watermark_after.get(step.id))
            case TickStep():
                progress.raise_watermark(next(watermarks, None))
            case ClockStep():
                progress.raise_watermark(next(clocks, None))
        after = list(waiting.due_within(batch, progress))
        while batch_ends and batch_ends[0] <= done:
            batch_ends.popleft()
            after += waiting.up_to(batch)
            batch += 1
        yield step, before, after
    unplaced = list(waiting.up_to(math.inf))
    if unplaced:
        yield None, [], unplaced
