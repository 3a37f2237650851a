"""Random keys, clocks and rules: triggers answer as the slow oracle, however batches are cut, restarted and crash."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, example, given
from hypothesis import strategies as st

from manager.storage.checkpoint import FileCheckpoint, MemoryCheckpoint
from tests.helpers.examples import examples, sampled
from tests.oracles.test_trigger_oracle import WORKED, at
from tests.oracles.trigger_oracle import UNBOUNDED, Asked, Event, Expected, Firing, Forgot, expected, next_time
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch
from topologies.engine.report import BatchReport
from topologies.engine.task_data import SourceBatch
from topologies.graph.graph import Graph
from windbolt import TopologyBuilder, sinks, spouts
from windowing import StatefulWindowedBolt, TupleWindow
from windowing.daytimes import DayTime
from windowing.durations import Count, Duration
from windowing.events import Tuple
from windowing.schema import EmittedRows
from windowing.settings.triggers import (
    Capacity,
    CountTrigger,
    DailyByRule,
    DailyTrigger,
    FireResult,
    KeyTrigger,
    RuleTrigger,
    TriggerCall,
)

EXAMPLES = examples(150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
PHASES = ("ingest", "tick", "fire", "compact", "sinks", "commit")
COLUMNS = "id long, key string, sub long, op string"
SPOUTS = ("events", "more")
HOUR = 3_600_000_000
BERLIN = "Europe/Berlin"

KEYS: list[tuple[str | None, int | None]] = [
    ("a", 1), ("a", 2), ("b", 1), (None, None), (None, 1), ("", 1), ("None", 1), ("ä" * 300, 1), ("a\0b", -1),
]  # fmt: skip

# ---- rules, by what the events say

LOG: list[Any] = []
"""What bolts and rules were called with in the attempt that runs: (task, Firing or Forgot), and Asked."""
COMPLAINTS: list[str] = []


class Whatever:
    """Nothing that a rule is meant to say."""


SAYINGS: dict[str, Any] = {
    "none": None,
    "seven": 7,
    "yes": True,
    "list": ["continue"],
    "object": Whatever(),
    "FIRE": FireResult.FIRE,
    "CONTINUE": FireResult.CONTINUE,
    "PURGE": FireResult.PURGE,
    "FIRE_AND_PURGE": FireResult.FIRE_AND_PURGE,
}


def rule(tuple: Tuple, call: TriggerCall) -> Any:
    """Says what the event tells it to, by the cache in part."""
    LOG.append(Asked(tuple["id"], call.key, call.fired_at, deepcopy(call.cache)))
    if tuple.timestamp != call.fired_at or call.fire_ms != call.fired_at // 1_000:
        COMPLAINTS.append(f"{tuple} was asked about as at {call.fired_at}")
    cache = call.cache
    match tuple["op"].split(":"):
        case ["raise"]:
            raise ValueError(tuple["id"])
        case ["spoil"]:
            cache["n"] = -99
            cache.setdefault("seen", []).append("spoilt")
            cache.setdefault("deep", {})["spoilt"] = True
            raise KeyError(tuple["id"])
        case ["each", count, said]:
            cache["n"] = cache.get("n", 0) + 1
            return _said(said) if cache["n"] % int(count) == 0 else "continue"
        case ["note", said]:
            cache.setdefault("seen", []).append(tuple["id"])
            cache["deep"] = {"ü": [None, True, 0.1, 2**53 + 1, tuple["key"]], "of": {**cache.get("deep", {})}}
            return _said(said)
        case [said]:
            return _said(said)


def _said(said: str) -> Any:
    return SAYINGS.get(said, said)


def time_rule(tuple: Tuple) -> DayTime:
    """The time of day that the event tells: minutes after midnight, and a zone."""
    minutes, zone = tuple["op"].split("@")
    return DayTime(int(minutes) * HOUR // 60, zone)


class Recorder(StatefulWindowedBolt):
    """Keeps what it was called with; counts, in its state, the calls of each key since it was last forgotten."""

    outputs: ClassVar[Any] = "id string, number long, ids array<long>, by string, stop long"
    state_types: ClassVar[Any] = {"calls": dict}

    def execute(self, window: TupleWindow) -> EmittedRows:
        ids, new = window.table.column("id").to_pylist(), window.new.column("id").to_pylist()
        start, end, by = window.start_timestamp, window.end_timestamp, window.fired_by
        assert start is not None
        LOG.append(
            (window.task, Firing(window.key, tuple(ids), tuple(new), start, end, str(by)), window.timestamps.tolist())
        )
        name = repr(window.key)
        self.state["calls"][name] = self.state["calls"].get(name, 0) + 1
        yield name, self.state["calls"][name], ids, str(by), end

    def forget(self, key: Any) -> None:
        LOG.append((None, Forgot(key), []))
        self.state["calls"].pop(repr(key), None)


# ---- cases


@dataclass(frozen=True)
class Arrives:
    """An event arrives."""

    at: int
    key: tuple[str | None, int | None]
    op: str
    spout: int = 0
    apart: bool = False
    """Whether it begins a split of its source."""


@dataclass(frozen=True)
class Ends:
    """A micro-batch ends."""

    at: int
    how: str = ""
    """``restart``: the next is run by a new process; the name of a phase: it crashes there first."""
    tick: bool = True
    close: bool = False


@dataclass(frozen=True)
class Case:
    trigger: KeyTrigger
    steps: tuple[Arrives | Ends, ...]
    tasks: int = 1
    keys: int = 1
    """How many columns the key has."""
    named: bool = True
    """Whether refused events have a stream of their own."""
    capacity: Capacity = UNBOUNDED
    """How much a window may hold."""

    def events(self) -> list[Event]:
        """The events that the oracle is given."""
        arrivals = [step for step in self.steps if isinstance(step, Arrives)]
        return [self.event(number, step) for number, step in enumerate(arrivals)]

    def event(self, number: int, step: Arrives) -> Event:
        values = {"id": number, "key": step.key[0], "sub": step.key[1], "op": step.op}
        return Event(number, self.key_of(step), step.at, Tuple(values, step.at, SPOUTS[step.spout]))

    def key_of(self, step: Arrives) -> Any:
        return step.key[0] if self.keys == 1 else step.key


WEIGHTED = ["continue", "continue", "continue", "fire", "purge", "fireAndPurge", "raise", "spoil"]
ODD = ["bogus", "", "Continue", "fire ", *SAYINGS]
OPS = st.one_of(
    st.sampled_from(WEIGHTED),
    st.sampled_from(ODD),
    st.builds("each:{}:{}".format, st.integers(1, 3), st.sampled_from(["fire", "purge", "none", "fireAndPurge"])),
    st.builds("note:{}".format, st.sampled_from(["continue", "continue", "fire", "none"])),
)
HOW = st.sampled_from(["", "", "restart", *PHASES])


@st.composite
def timeouts(draw: st.DrawFn) -> KeyTrigger:
    timeout = draw(st.none() | st.integers(1, 6).map(Duration))
    if draw(st.booleans()):
        return RuleTrigger(rule, timeout, draw(st.booleans()))
    return CountTrigger(Count(draw(st.integers(1, 4))), timeout, draw(st.booleans()))


@st.composite
def gathering(draw: st.DrawFn, closes: bool | None = None) -> Case:
    """Counts and rules, with timeouts of a few microseconds, so that events often come at the very instant of one."""
    trigger = draw(timeouts())
    assert isinstance(trigger, CountTrigger | RuleTrigger)
    timeout = 3 if trigger.timeout is None else trigger.timeout.micros
    gaps = st.sampled_from([0, 0, 0, 1, 1, 2, timeout - 1, timeout, timeout, timeout + 1])
    clock = draw(st.sampled_from([0, 1, 1_711_846_800_000_000]))
    return draw(cases(trigger, clock, gaps, OPS, closes))


TIMES = [
    DayTime(150 * HOUR // 60, BERLIN), DayTime(0, BERLIN), DayTime(3 * HOUR, BERLIN), DayTime(12 * HOUR),
    DayTime(24 * HOUR - 1, "-03:30"), DayTime(2 * HOUR, BERLIN),
]  # fmt: skip
CLOCKS = [at("2024-03-30T20:00Z"), at("2024-10-26T20:00Z"), at("1970-01-01T00:00Z"), at("2024-03-29T01:30Z")]
TOLD = st.one_of(
    st.builds("{}@{}".format, st.sampled_from([0, 120, 150, 180, 720]), st.sampled_from([BERLIN, BERLIN, "UTC"])),
    st.just("noon"),
)


@st.composite
def daily(draw: st.DrawFn, closes: bool | None = None) -> Case:
    """Once a day, around both switches of daylight saving."""
    most = draw(st.none() | st.integers(1, 3))
    time = draw(st.sampled_from(TIMES))
    trigger = DailyTrigger(time, most) if draw(st.booleans()) else DailyByRule(time_rule, most)
    gaps = st.one_of(
        st.sampled_from([0, 0, 1]),
        st.integers(1, 60).map(lambda hours: hours * HOUR // 2),
        st.tuples(st.sampled_from([time, time, *TIMES]), st.sampled_from([-1, 0, 0, 1])),
        st.integers(1, 4).map(lambda days: days * 24 * HOUR),
    )
    return draw(cases(trigger, draw(st.sampled_from(CLOCKS)), gaps, TOLD, closes))


@st.composite
def cases(
    draw: st.DrawFn,
    trigger: KeyTrigger,
    clock: int,
    gaps: st.SearchStrategy[Any],
    ops: st.SearchStrategy[str],
    closes: bool | None,
) -> Case:
    """Events at clocks that move on by some gaps, and micro-batches that end anywhere."""
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True))
    tick = draw(st.sampled_from([True, True, True, False]))
    more = draw(st.booleans())
    steps: list[Arrives | Ends] = []
    moves = st.sampled_from(["event"] * 6 + ["clock", "end", "end"])
    least, most = draw(st.sampled_from([(0, 10), (8, 30), (20, 40)]))
    for what in draw(st.lists(moves, min_size=least, max_size=most)):
        if what != "end":
            clock = after(clock, draw(gaps))
        if what == "event":
            spout = draw(st.integers(0, 1)) if more else 0
            steps.append(Arrives(clock, draw(st.sampled_from(keys)), draw(ops), spout, draw(st.booleans())))
        else:
            steps.append(Ends(clock, draw(HOW), tick))
    close = draw(st.booleans()) if closes is None else closes
    events = st.none() if isinstance(trigger, CountTrigger) else st.none() | st.integers(1, 4)
    sizes = st.none() | st.sampled_from([1, 8, 16, 24, 30, 45, 60, 310])
    capacity = Capacity(draw(events), size := draw(sizes), ("op", "key") if size and draw(st.booleans()) else ())
    # Whether an interval is empty that ends between the batch before a close and the close is not laid down.
    if not close or isinstance(trigger, DailyTrigger | DailyByRule) or draw(st.booleans()):
        steps.append(Ends(after(clock, draw(gaps)), draw(HOW), tick))
    if close:
        steps.append(Ends(steps[-1].at if steps else clock, draw(HOW), tick, close=True))
    return Case(
        trigger, tuple(steps), draw(st.sampled_from([1, 3])), draw(st.sampled_from([1, 1, 2])), draw(st.booleans()),
        capacity,
    )  # fmt: skip


def after(clock: int, gap: Any) -> int:
    if isinstance(gap, int):
        return clock + gap
    return next_time(gap[0], clock) + int(gap[1])


# ---- the engine's answer


@dataclass(frozen=True)
class Piece:
    """Events one after the other, each with its clock."""

    rows: tuple[tuple[int, Arrives], ...]

    def read(self, topology: Graph) -> Iterator[SourceBatch]:
        for same in runs(self.rows):
            values = [(number, *step.key, step.op) for number, step in same]
            name, clock = SPOUTS[same[0][1].spout], same[0][1].at
            schema = topology.spouts[name].outputs["default"]
            columns = [
                pa.array(column, kind) for column, kind in zip(zip(*values, strict=True), schema.types, strict=True)
            ]
            positions = np.array([number for number, _ in same])
            yield SourceBatch(name, "default", pa.table(columns, schema=schema), positions, clock=clock)


def runs(rows: Iterable[tuple[int, Arrives]]) -> list[list[tuple[int, Arrives]]]:
    """Neighbours of one spout and one clock."""
    found: list[list[tuple[int, Arrives]]] = []
    for number, step in rows:
        if found and (found[-1][-1][1].at, found[-1][-1][1].spout) == (step.at, step.spout):
            found[-1].append((number, step))
        else:
            found.append([(number, step)])
    return found


class Crash(Exception):
    pass


def crashing(phase: str) -> Any:
    def hook(reached: str) -> None:
        if reached == phase:
            raise Crash

    return hook


def build(case: Case) -> Graph:
    builder = TopologyBuilder("triggers")
    stream = "refused" if case.named else None
    columns = ("key", "sub")[: case.keys]
    bolt = Recorder().with_key(*columns)
    bolt = bolt.with_trigger(
        case.trigger, refused_stream=stream, max_events=case.capacity.events, max_bytes=case.capacity.bytes,
        bytes_of=case.capacity.columns,
    )  # fmt: skip
    declarer = builder.set_bolt("bolt", bolt, case.tasks)
    for name in SPOUTS:
        builder.set_spout(name, spouts.memory(COLUMNS))
        declarer.fields_grouping(name, "key")
    builder.set_sink("out", sinks.memory()).from_("bolt")
    builder.set_sink("refused", sinks.memory()).from_("bolt", stream or "errors")
    return builder.build()


@dataclass
class Found:
    """What came out of a run so far."""

    calls: dict[Any, list[Firing | Forgot]] = field(default_factory=dict)
    asked: dict[Any, list[Asked]] = field(default_factory=dict)
    evaluations: list[list[tuple[int, Firing]]] = field(default_factory=list)
    """Of each batch: tasks and firings, in order."""
    times: dict[int, int] = field(default_factory=dict)
    """The arrival of each event, as windows tell it."""

    def take(self) -> None:
        """What was called in the attempt that has come to its end."""
        self.evaluations.append([])
        for entry in LOG:
            if isinstance(entry, Asked):
                self.asked.setdefault(entry.key, []).append(entry)
                continue
            task, call, times = entry
            self.calls.setdefault(call.key, []).append(call)
            if isinstance(call, Firing):
                self.evaluations[-1].append((task, call))
                self.times.update(zip(call.ids, times, strict=True))
        LOG.clear()


def run(case: Case, checkpoint: Any = None) -> Found:
    """Run a case; after every batch all that is to be seen is what the oracle tells."""
    topology, checkpoint, found = build(case), checkpoint or MemoryCheckpoint(), Found()
    step = MicroBatch(topology, checkpoint, InProcessExecutor())
    COMPLAINTS.clear()
    rows: list[tuple[int, Arrives]] = []
    splits: list[list[tuple[int, Arrives]]] = []
    number, seen = 0, case.events()
    for each in case.steps:
        if isinstance(each, Arrives):
            if each.apart or not splits:
                splits.append([])
            splits[-1].append((len(rows), each))
            rows.append((len(rows), each))
            continue
        plan = BatchPlan(
            number if splits or not each.close else number - 1,
            TimeAdvance(each.at, each.tick, each.close),
            [Piece(tuple(split)) for split in splits],
            closing=each.close and not splits,
        )
        number, splits = number + (not plan.closing), []
        LOG.clear()
        if each.how in PHASES:
            step.hook = crashing(each.how)
            with pytest.raises(Crash):
                step.run(plan)
            LOG.clear()
        if each.how:
            again = FileCheckpoint(checkpoint.root) if isinstance(checkpoint, FileCheckpoint) else checkpoint
            step = MicroBatch(topology, again, InProcessExecutor())
        report = step.run(plan)
        found.take()
        answer = expected(case.trigger, seen[: len(rows)], each.at, each.close, case.capacity)
        LOG.clear()  # the oracle asks rules too
        assert_seen(answer, found)
        assert_kept(seen[: len(rows)], answer, report, step)
    assert not COMPLAINTS
    assert_rows(case, found, topology)
    assert_order(found)
    assert all(seen[name].at == time for name, time in found.times.items())
    return found


def assert_seen(answer: Expected, found: Found) -> None:
    assert found.calls == answer.calls
    assert {key: [only_seen(call) for call in calls] for key, calls in found.asked.items()} == answer.asked


def only_seen(call: Asked) -> Asked:
    return Asked(call.id, call.key, call.at, json.loads(json.dumps(call.cache)))


def assert_kept(events: list[Event], answer: Expected, report: BatchReport, step: MicroBatch) -> None:
    """The accounts of each stream, and that what is over leaves nothing behind."""
    ended = {"windowed": answer.windowed, "invalid": answer.refused, "purged": answer.purged, "pending": answer.pending}
    wanted = {(_stream(event), "received"): 0 for event in events}
    for each in events:
        (account,) = (account for account, ids in ended.items() if each.id in ids)
        for name in ("received", account):
            wanted[_stream(each), name] = wanted.get((_stream(each), name), 0) + 1
    assert report.bolts["bolt"].counters.get("full", 0) == sum(firing.by == "full" for firing in answer.firings)
    streams = report.bolts["bolt"].streams
    assert wanted == {
        (stream, account): count for stream, of in streams.items() for account, count in of.items() if count
    }
    tasks = step.manifest.bolts["bolt"].tasks
    assert sum(ref.needed for task in tasks for ref in task.refs) == len(answer.held)
    if not answer.held:
        assert not any(task.refs for task in tasks)
    if not answer.known:
        assert sum(ref.rows for task in tasks for _, _, ref in task.windows.rows()) == 0


def _stream(event: Event) -> str:
    assert event.tuple is not None
    return event.tuple.stream


def assert_rows(case: Case, found: Found, topology: Graph) -> None:
    """What reached the sinks: each call once, with the number in the bolt's state; each refused event once."""
    wanted: list[tuple[Any, ...]] = []
    for key, calls in found.calls.items():
        number = 0
        for call in calls:
            number = 0 if isinstance(call, Forgot) else number + 1
            if isinstance(call, Firing):
                wanted.append((repr(key), number, call.ids, call.by, call.end))
    out: Any = topology.sinks["out"].sink
    rows = [(row["id"], row["number"], tuple(row["ids"]), row["by"], row["stop"]) for row in out.rows]
    assert Counter(rows) == Counter(wanted)
    refused: Any = topology.sinks["refused"].sink
    given = {event.id: event.tuple for event in case.events()}
    last = max((step.at for step in case.steps), default=0)
    answer = expected(case.trigger, case.events(), last, capacity=case.capacity)
    LOG.clear()
    refused_rows = [row if case.named else {**row, **json.loads(row["_data"])} for row in refused.rows]
    assert sorted(row["id"] for row in refused_rows) == sorted(answer.refused)
    for row in refused_rows:
        told = given[row["id"]]
        assert told is not None
        assert {**row, **told.values} == row
        assert case.named or row["_component"] == "bolt"


def assert_order(found: Found) -> None:
    """Within an evaluation firings come by end, then by start, then by key in an order that is always the same."""
    before: set[tuple[Any, Any]] = set()
    for firings in found.evaluations:
        for task in {task for task, _ in firings}:
            of_task = [firing for which, firing in firings if which == task]
            spans = [(firing.end, firing.start) for firing in of_task]
            assert spans == sorted(spans)
            for span in set(spans):
                keys = [firing.key for firing in of_task if (firing.end, firing.start) == span]
                blocks = [key for place, key in enumerate(keys) if place == 0 or keys[place - 1] != key]
                assert len(blocks) == len(set(blocks)), "the firings of a key for one span follow each other"
                before |= {(left, right) for place, left in enumerate(blocks) for right in blocks[place + 1 :]}
    assert not any((right, left) in before for left, right in before)


# ---- properties


@EXAMPLES
@given(gathering())
def test_counts_rules_and_timeouts_answer_as_the_oracle(case: Case) -> None:
    note(case, run(case))


A_KEY = ("a", 1)
FORGOTTEN_AT_AN_EVENT = Case(
    DailyTrigger(DayTime(150 * HOUR // 60, BERLIN), 2),
    (
        Arrives(at("2024-04-01T12:00Z"), A_KEY, "noon"),
        Ends(at("2024-04-01T12:00Z")),
        Arrives(at("2024-04-04T00:30Z"), A_KEY, "noon"),
        Ends(at("2024-04-04T00:30Z")),
    ),
    capacity=Capacity(1),
)
"""The event that comes at the moment at which its key is forgotten fills a window: of the key that starts over."""


@EXAMPLES
@example(FORGOTTEN_AT_AN_EVENT)
@given(daily())
def test_daily_windows_answer_as_the_oracle(case: Case) -> None:
    note(case, run(case))


def note(case: Case, found: Found) -> None:
    """For ``--hypothesis-show-statistics``: how much there is in the examples."""
    fired = {call.by for calls in found.calls.values() for call in calls if isinstance(call, Firing)}
    for by in fired:
        event(f"{type(case.trigger).__name__} fired by {by}")
    if any(isinstance(call, Forgot) for calls in found.calls.values() for call in calls):
        event("forgotten")


@EXAMPLES
@given(st.one_of(gathering(), daily()), st.integers(0, 1 << 30))
def test_neither_cuts_nor_tasks_nor_crashes_make_a_difference(case: Case, seed: int) -> None:
    assert run(cut(case, random.Random(seed))).calls == run(case).calls


def cut(case: Case, chance: random.Random) -> Case:
    """The same events and the same clock at the end, in other batches and other splits."""
    steps: list[Arrives | Ends] = []
    last = next((step for step in reversed(case.steps) if isinstance(step, Ends)), None)
    for step in case.steps:
        if isinstance(step, Arrives):
            steps.append(Arrives(step.at, step.key, step.op, step.spout, chance.random() < 0.4))
        elif last is not None and step.at == last.at:  # with the batch before a close: see cases
            steps.append(step)
        if chance.random() < 0.3 and step is not last:
            steps.append(Ends(step.at, chance.choice(["", "restart", *PHASES])))
    return Case(case.trigger, tuple(steps), 4 - case.tasks, case.keys, case.named, case.capacity)


@EXAMPLES
@given(gathering(closes=True), gathering(closes=True))
def test_a_run_may_go_on_after_a_close(first: Case, second: Case) -> None:
    """Windows that a close has fired are over; the next event opens a new one."""
    begin = max((step.at for step in first.steps), default=0)
    shift = begin - min((step.at for step in second.steps), default=0)
    tail = replace(shifted(second, shift, first.tasks, first.keys, first.trigger), capacity=first.capacity)
    topology, checkpoint = build(first), MemoryCheckpoint()
    calls: dict[Any, list[Firing | Forgot]] = {}
    number = offset = 0
    for case in (first, tail):
        rows: list[tuple[int, Arrives]] = []
        for step in case.steps:
            if isinstance(step, Arrives):
                rows.append((offset, step))
                offset += 1
                continue
            LOG.clear()
            plan = BatchPlan(number, TimeAdvance(step.at, step.tick, step.close), [Piece(tuple(rows))] if rows else [])
            MicroBatch(topology, checkpoint, InProcessExecutor()).run(plan)
            number, rows, found = number + 1, [], Found()
            found.take()
            for key, of_key in found.calls.items():
                calls.setdefault(key, []).extend(of_key)
    wanted: dict[Any, list[Firing | Forgot]] = {}
    begun = 0
    for case in (first, tail):
        events = [Event(each.id + begun, each.key, each.at, each.tuple) for each in case.events()]
        last = max((step.at for step in case.steps), default=0)
        answer = expected(case.trigger, events, last, close=True, capacity=case.capacity)
        begun += len(events)
        for key, of_key in answer.calls.items():
            wanted.setdefault(key, []).extend(of_key)
    LOG.clear()
    assert calls == wanted


def shifted(case: Case, shift: int, tasks: int, keys: int, trigger: KeyTrigger) -> Case:
    steps: list[Arrives | Ends] = []
    for step in case.steps:
        if isinstance(step, Arrives):
            steps.append(Arrives(step.at + shift, step.key, step.op, step.spout, step.apart))
        else:
            steps.append(Ends(step.at + shift, step.how, step.tick, step.close))
    return Case(trigger, tuple(steps), tasks, keys)


# ---- worked examples, and long runs


def by_op(tuple: Tuple, call: TriggerCall) -> Any:
    LOG.append(Asked(tuple["id"], call.key, call.fired_at, deepcopy(call.cache)))
    if tuple["op"] == "raise":
        raise ValueError
    return tuple["op"]


def clock_rule(tuple: Tuple) -> DayTime:
    hours, minutes = tuple["op"].split(":")
    return DayTime(int(hours) * HOUR + int(minutes) * HOUR // 60)


def of_worked(name: str, each_alone: bool, tasks: int) -> Case:
    worked = WORKED[name]
    trigger = worked.trigger
    match trigger:
        case RuleTrigger():
            trigger = RuleTrigger(by_op, trigger.timeout, trigger.from_first)
        case DailyByRule():
            trigger = DailyByRule(clock_rule, trigger.max_empty)
    steps: list[Arrives | Ends] = []
    for key, clock, said in worked.events:
        steps.append(Arrives(clock, (key, 1), "" if said is None else said))
        if each_alone:
            steps.append(Ends(clock, "commit"))
    return Case(trigger, (*steps, Ends(worked.end, close=worked.close)), tasks)


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("each_alone", [False, True])
@pytest.mark.parametrize("name", WORKED)
def test_worked_examples(name: str, each_alone: bool, tasks: int) -> None:
    found = run(of_worked(name, each_alone, tasks))
    moved = {key: [numbered(call) for call in calls] for key, calls in WORKED[name].calls.items()}
    assert found.calls == moved


def numbered(call: Firing | Forgot) -> Firing | Forgot:
    """With ids from 0."""
    if isinstance(call, Forgot):
        return call
    ids, new = tuple(each - 1 for each in call.ids), tuple(each - 1 for each in call.new)
    return Firing(call.key, ids, new, call.start, call.end, call.by)


LONG: dict[str, KeyTrigger] = {
    "count": CountTrigger(Count(7), Duration(90), from_first=False),
    "count without a timeout": CountTrigger(Count(5)),
    "rule": RuleTrigger(rule, Duration(60), from_first=False),
    "rule from the first": RuleTrigger(rule, Duration(60)),
    "rule without a timeout": RuleTrigger(rule),
    "daily": DailyTrigger(DayTime(150 * HOUR // 60, BERLIN), 2),
    "daily by rule": DailyByRule(time_rule, 1),
}


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("name", sampled(LONG, 12))
def test_a_long_run_on_files_with_crashes_everywhere(name: str, tasks: int, tmp_path: Path) -> None:
    """Enough batches that segments are compacted, with windows that last for many of them."""
    chance, trigger = random.Random(len(name)), LONG[name]
    is_daily = isinstance(trigger, DailyTrigger | DailyByRule)
    clock = CLOCKS[0]
    steps: list[Arrives | Ends] = []
    for _ in range(60):
        for _ in range(chance.choice([0, 1, 3, 9])):
            clock += chance.choice([0, 0, 1, 5, 30]) * (HOUR // 12 if is_daily else 1)
            if is_daily:
                op = chance.choice(["150@Europe/Berlin", "0@UTC", "720@UTC", "noon"])
            else:
                op = chance.choice(["note:continue"] * 12 + ["each:5:fire", "each:7:fireAndPurge", *WEIGHTED[3:]])
            key = chance.choice(KEYS[:3] * 4 + KEYS[3:])
            steps.append(Arrives(clock, key, op, chance.randrange(2), chance.random() < 0.2))
        clock += chance.choice([0, 0, 30, 61, 91]) * (HOUR // 12 if is_daily else 1)
        steps.append(Ends(clock, chance.choice(["", "restart", *PHASES])))
    steps.append(Ends(clock, close=True))
    found = run(Case(trigger, tuple(steps), tasks), FileCheckpoint(str(tmp_path)))
    assert sum(len(calls) for calls in found.calls.values()) > 20


@pytest.mark.parametrize("name", sampled(LONG, 12, first=2))
def test_batches_of_many_events(name: str) -> None:
    """Many windows of a key within a batch, many keys at the same instants."""
    chance, trigger = random.Random(len(name)), LONG[name]
    is_daily = isinstance(trigger, DailyTrigger | DailyByRule)
    keys = [(f"key {place}", place % 2) for place in range(12)]
    clock = CLOCKS[1]
    steps: list[Arrives | Ends] = []
    for batch in range(3):
        for _ in range(700):
            clock += chance.choice([0, 0, 0, 1, 9, 60]) * (HOUR // 24 if is_daily else 1)
            if is_daily:
                op = chance.choice(["150@Europe/Berlin", "0@UTC", "720@UTC", "noon"])
            else:
                op = chance.choice(["note:continue"] * 12 + ["each:5:fire", *WEIGHTED[3:]])
            steps.append(Arrives(clock, chance.choice(keys[: 4 * batch + 4]), op, chance.randrange(2)))
        steps.append(Ends(clock))
    found = run(Case(trigger, (*steps, Ends(clock, close=True)), tasks=3, keys=2))
    assert sum(len(calls) for calls in found.calls.values()) > 60
