"""Azure Stream Analytics, event by event (features AZ-1 to AZ-30).

An event is judged early, then late, then out of order (AZ-14), the last against the watermark of its own input
partition (AZ-11), or of its own substream (AZ-15). What is let in has a time, System.Timestamp (AZ-3). The windows are
then nothing but a question to the list of times; those whose end the watermark has passed are out (AZ-27).
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.oracles.azure_windows import Taken, unwindowed, windows_of
from tests.oracles.expected import ANY, Expected, Json, Judged, Unsaid, Window
from tests.oracles.units import duration, moment

Unit = tuple[str, Any]  # an input and its partition, or a substream: what has a watermark of its own


@dataclass(frozen=True)
class Readings:
    """Where the documents leave two readings open, `expected` answers by one of them."""

    own_arrival_moves: bool = False
    """Without input means: without an accepted later event. A substream that delivers is then moved, for what is given
    out, to its arrival less the late tolerance too (C-8: this never changes a System.Timestamp)."""


@dataclass
class _Policies:
    late: int | None  # None: unlimited, and then nothing moves without input
    out_of_order: int
    early: int | None
    drop: bool
    arrival_field: str | None


@dataclass
class _Job:
    """All that is remembered between two steps."""

    scenario: Json
    policies: _Policies
    readings: Readings
    marks: dict[Unit, int | None] = field(default_factory=dict)
    by_events: dict[Unit, int] = field(default_factory=dict)  # the same by their events alone
    taken: list[Taken] = field(default_factory=list)
    judged: dict[str, Judged] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    metrics: Counter[str] = field(default_factory=Counter)
    clocks: list[Any] = field(default_factory=list)
    clock: int | None = None
    last_arrival: int | None = None
    clock_then: int | None = None
    closed: bool = False
    passed: int | None = None  # the watermark of the job

    def watermark(self) -> int | None:
        """The least of all; none before each has one (AZ-18). It does not go back for a partition nobody named."""
        known = [mark for mark in self.marks.values() if mark is not None]
        if known and len(known) == len(self.marks):
            self.passed = min(known) if self.passed is None else max(self.passed, min(known))
        return self.passed


def expected(scenario: Json, readings: Readings | None = None) -> Expected:
    """What Azure answers to a scenario."""
    job = _Job(scenario, _policies(scenario["bolt"]), readings or Readings())
    for unit in _units_that_exist(scenario):
        job.marks[unit] = None
    for step in scenario["steps"]:
        _step(job, step)
    return _answer(job)


def _policies(bolt: Json) -> _Policies:
    settings = bolt["preset"]["azure"]
    if "timestamp_field" not in bolt:  # by arrival: the policies are off (AZ-1, AZ-7)
        return _Policies(0, 0, None, False, settings["arrival_field"])
    late, early = settings.get("late", "5s"), settings.get("early", "5m")
    return _Policies(
        None if late is None else duration(late),
        duration(settings.get("out_of_order", "0s")),
        None if early is None else duration(early),
        settings.get("action", "adjust") == "drop",
        settings.get("arrival_field"),
    )


def _units_that_exist(scenario: Json) -> list[Unit]:
    """Inputs and their partitions are there before they deliver (AZ-18); substreams are not."""
    if "substreams" in scenario["bolt"]:
        return []
    if "watermark_partition" in scenario["bolt"] and "partitions" not in scenario:
        return []  # those that nobody named are not known before their first event
    partitions = scenario.get("partitions", [None])
    return [(stream, partition) for stream in scenario.get("streams", ["s1"]) for partition in partitions]


def _step(job: _Job, step: Json) -> None:
    if "event" in step:
        if "clock" in step:  # a quiet batch of that clock comes first
            _quiet(job, moment(step["clock"]))
        if "arrival" in step:
            job.clock = moment(step["arrival"])
        _event(job, step)
    elif "clock" in step:
        _quiet(job, moment(step["clock"]))
        job.clocks.append(ANY if job.last_arrival is None or "substreams" in job.scenario["bolt"] else job.watermark())
    elif "close" in step:
        job.closed = True


def _quiet(job: _Job, clock: int) -> None:
    """Nothing comes: the estimated arrival, less the late tolerance, for each partition (AZ-5, AZ-6)."""
    if clock == job.clock:  # no time has passed without input
        return
    job.clock = clock
    if job.last_arrival is None or job.clock_then is None:
        return
    estimated = job.last_arrival + (clock - job.clock_then)
    for unit in job.marks:
        _move_without_input(job, unit, estimated)


def _move_without_input(job: _Job, unit: Unit, arrival: int) -> None:
    if job.policies.late is not None:
        job.marks[unit] = _later(job.marks[unit], arrival - job.policies.late)


def _event(job: _Job, step: Json) -> None:
    event, policies = step["event"], job.policies
    job.counts["received"] += 1
    arrival = moment(event[policies.arrival_field]) if policies.arrival_field else job.clock
    unit = _unit(job.scenario, step)
    given = event.get(job.scenario["bolt"].get("timestamp_field", policies.arrival_field))
    if given is None:  # no date: an input error (AZ-2)
        job.counts["invalid"] += 1
        job.judged[event["id"]] = Judged(None, ("invalid",))
        if arrival is not None and policies.late is not None:
            raise Unsaid("whether an input that brings what cannot be read is without input")
        return
    if arrival is not None:
        job.last_arrival, job.clock_then = arrival, job.clock if job.clock is not None else 0
        for other in job.marks:  # a silent one moves while others are busy (AZ-5, AZ-18)
            if other != unit:
                _move_without_input(job, other, arrival)
    before = job.watermark()
    time, actions = _time_of(job, moment(given), arrival, job.marks.get(unit))
    named = "watermark_partition" not in job.scenario["bolt"] or "partitions" in job.scenario
    if time is not None and not named and before is not None and time < before:
        raise Unsaid("a partition that nobody named, behind what has been given out")
    if time is not None:
        job.marks[unit] = _later(job.marks.get(unit), time - policies.out_of_order)
        job.by_events[unit] = _later(job.by_events.get(unit), time - policies.out_of_order)
        job.taken.append(_taken(job, event, time))
    _note(job, event["id"], unit, time, actions)
    if job.readings.own_arrival_moves and arrival is not None and unit in job.marks:
        _move_without_input(job, unit, arrival)


def _unit(scenario: Json, step: Json) -> Unit:
    bolt, event = scenario["bolt"], step["event"]
    if "substreams" in bolt:
        return ("over", event[bolt["substreams"][0]])
    partition = event[bolt["watermark_partition"]] if "watermark_partition" in bolt else None
    return (step.get("stream", scenario.get("streams", ["s1"])[0]), partition)


def _time_of(job: _Job, time: int, arrival: int | None, mark: int | None) -> tuple[int | None, list[str]]:
    """System.Timestamp, or None, and what was done to get there: early, late, out of order (AZ-14)."""
    policies, actions = job.policies, []
    if arrival is not None and policies.early is not None and time - arrival > policies.early:
        job.metrics["early_input"] += 1
        return None, ["early"]
    if arrival is not None and policies.late is not None and arrival - time > policies.late:
        job.metrics["late_input"] += 1
        if policies.drop:
            return None, ["dropped_late"]
        time = arrival - policies.late
        actions.append("adjusted_late")
    if mark is not None and time < mark:
        job.metrics["out_of_order"] += 1
        if policies.drop:
            return None, ["dropped_out_of_order"]
        time = mark
        actions.append("adjusted_out_of_order")
    return time, actions


def _note(job: _Job, name: str, unit: Unit, time: int | None, actions: list[str]) -> None:
    mark = job.marks.get(unit) if job.marks.get(unit) == job.by_events.get(unit) else ANY  # shown before or after AZ-5
    watermark = ANY if "substreams" in job.scenario["bolt"] else job.watermark()
    if time is None:
        job.counts["early" if actions == ["early"] else "dropped"] += 1
    elif actions:
        job.counts["adjusted"] += 1
        job.metrics["adjusted"] += 1
    job.judged[name] = Judged(time, tuple(actions) or ("accepted",), watermark, mark)
    if time is not None and unwindowed(job.scenario["bolt"], job.taken[-1]):
        job.judged[name].actions = ("unwindowed", *job.judged[name].actions)


def _taken(job: _Job, event: Json, time: int) -> Taken:
    bolt = job.scenario["bolt"]
    by = bolt.get("substreams", bolt.get("key", [None]))[0]
    return Taken(event["id"], time, None if by is None else event[by])


def _answer(job: _Job) -> Expected:
    bolt = job.scenario["bolt"]
    out = [window for window in windows_of(bolt, job.taken) if job.closed or _passed(job, window)]
    fired = {name for window in out for name in window.events}
    lost = [one.name for one in job.taken if unwindowed(bolt, one)]
    pending = [one.name for one in job.taken if one.name not in fired and one.name not in lost]
    counts = {name: job.counts[name] for name in ("received", "early", "dropped", "adjusted", "invalid")}
    counts |= {"windowed": len(fired), "unwindowed": len(lost), "pending": len(pending), "late": 0, "purged": 0}
    counts["duplicate"] = 0
    metrics = {name: job.metrics[name] for name in ("early_input", "late_input", "out_of_order", "adjusted")}
    by_key = "key" in bolt or "substreams" in bolt or "windows" in bolt or "timestamp_field" not in bolt
    either = frozenset(lost if by_key and not job.closed else ())
    return Expected(out, job.judged, pending, counts, metrics, job.clocks, "substreams" not in bolt, either)


def _passed(job: _Job, window: Window) -> bool:
    """Past the end, as an event of that very moment is still let in (AZ-11, AZ-27)."""
    mark = job.marks[("over", window.key)] if "substreams" in job.scenario["bolt"] else job.watermark()
    return mark is not None and mark > window.end


def _later(one: int | None, other: int) -> int:
    return other if one is None else max(one, other)
