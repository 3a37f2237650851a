"""Runs policies on events that are cut in some way; compares runs, and draws differences."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any, ClassVar, cast

import numpy as np
import pyarrow as pa

from manager.storage.checkpoint import MemoryCheckpoint
from manager.storage.manifest import Manifest
from policies.protocol import Policy
from topologies.checkpoints.rescale import Route, moved_state
from topologies.engine.batch import BatchPlan, InProcessExecutor, TimeAdvance
from topologies.engine.micro_batch import MicroBatch, Phase
from topologies.engine.task_data import SourceBatch
from topologies.graph.bolt_rules import BoltRules
from topologies.graph.builder import GraphBuilder
from topologies.graph.graph import Graph
from topologies.io import spouts
from topologies.testing.bolt_run import bolt_name
from windowing.bolts.windowed_bolt import WindowedBolt
from windowing.errors import WindboltError
from windowing.schema import DEFAULT_STREAM
from windowing.timestamps import show
from windowing.window import TupleWindow

# Runs of policies on events that are cut in some way, for comparison with each other.


INPUT = "input"
"""The name of the bolt, and of an input without a name."""

Change = Callable[[Policy], Policy]
"""Makes a policy from another policy, with the same decisions."""


class Recorder(WindowedBolt):
    """A bolt that emits nothing, and records its windows."""

    outputs: ClassVar[dict[str, str]] = {}

    def execute(self, window: TupleWindow) -> None:
        return None


@dataclass(frozen=True)
class GivenEvents:
    """Events in order of arrival."""

    rows: pa.Table
    """Rows with the columns of all inputs; null if an input lacks a column."""
    times: tuple[int | None, ...]
    """The time of each event in microseconds, from its column or the clock at its arrival; None without a time."""
    clocked: bool
    """True if times are clock times."""
    inputs: tuple[str, ...]
    """The input of each event, by name."""
    columns: Mapping[str, Sequence[str]]
    """The columns of each input."""

    def __len__(self) -> int:
        return len(self.times)

    @cached_property
    def positions(self) -> list[int]:
        """The position of each event in its input, from 0."""
        counts = dict.fromkeys(self.columns, 0)
        found = []
        for name in self.inputs:
            found.append(counts[name])
            counts[name] += 1
        return found

    def take(self, indices: Sequence[int]) -> GivenEvents:
        """Returns some of the events."""
        return replace(
            self,
            rows=self.rows.take(pa.array(indices, pa.int64())),
            times=tuple(self.times[each] for each in indices),
            inputs=tuple(self.inputs[each] for each in indices),
        )

    def events(self) -> list[dict[str, Any]]:
        """Returns each event, with the columns of its input."""
        rows = zip(self.rows.to_pylist(), self.inputs, strict=True)
        return [{name: row[name] for name in self.columns[each]} for row, each in rows]

    def by_input(self) -> list[dict[str, Any]] | dict[str, list[dict[str, Any]]]:
        """Returns the events in the form that ``check_policy`` takes: a list, or lists by input name."""
        events = self.events()
        if list(self.columns) == [INPUT]:
            return events
        return {
            name: [row for row, each in zip(events, self.inputs, strict=True) if each == name] for name in self.columns
        }

    def may_tick(self, lag: int) -> list[bool]:
        """Returns, for each number of events from 0, True if the watermark can pass that many events without making any
        other event late. ``lag``: in microseconds."""
        if self.clocked:
            return [True] * (len(self) + 1)
        known_times = [each for each in self.times if each is not None]
        earliest = [max(known_times, default=0)]  # of the events after each index, from the last one
        for time in reversed(self.times[1:]):
            earliest.append(earliest[-1] if time is None else min(time, earliest[-1]))
        found, latest = [True], min(known_times, default=0)
        for time, least in zip(self.times, reversed(earliest), strict=False):
            latest = latest if time is None else max(time, latest)
            found.append(least >= latest - lag)
        found[-1] = True
        return found


@dataclass(frozen=True)
class Cut:
    """A way in which the events come: the ends of batches, and actions between them."""

    ends: tuple[int, ...] = ()
    """Numbers of events after which a batch ends, ascending; the last batch is implied."""
    still: frozenset[int] = frozenset()
    """The numbers in ``ends`` at which the watermark does not move."""
    crash: tuple[Phase, ...] = ()
    """Phases in which batches crash, one for each batch in turn; a batch runs again with new policy objects."""
    tasks: tuple[int, ...] = (1,)
    """Numbers of tasks, one for each batch in turn."""
    turned: bool = False
    """True if a batch has its inputs in reverse order."""

    def spans(self, count: int) -> list[tuple[int, int]]:
        """Returns the range of events of each batch, for ``count`` events."""
        edges = [0, *(end for end in self.ends if 0 < end < count), count]
        return list(pairwise(edges))


@dataclass(frozen=True)
class Window:
    """A window in the form for comparison."""

    key: str
    """The repr of its key; ``"None"`` without keys."""
    end: int
    start: int | None
    """Start of the window; start and end are in microseconds."""
    events: tuple[int, ...]
    """The positions of its events in the input, from 0; for equal events, the first positions."""


@dataclass(frozen=True)
class RunResult:
    """Results of a run."""

    windows: tuple[Window, ...] = ()
    """Windows of each key in the order in which they fired."""
    accounts: tuple[tuple[str, int], ...] = ()
    error: str = ""
    """The error that ended it."""

    def same(self, other: RunResult) -> bool:
        """True if the windows and accounts of both runs are equal."""
        return (self.windows, self.accounts, bool(self.error)) == (other.windows, other.accounts, bool(other.error))


@dataclass
class Subject:
    """Subject of a check: a bolt with its policies. Parts that do not depend on the events are made once."""

    bolt: WindowedBolt
    schemas: Mapping[str, pa.Schema]
    """The columns of each input, by its name."""
    keep: Change | None = None
    """Applied to both policies before a run."""
    _built: dict[int, Graph] = field(default_factory=dict)
    _memories: list[ClassMemory] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the key."""
        return self.bolt.settings.key

    @property
    def name(self) -> str:
        """The name of the bolt."""
        return bolt_name(self.schemas)

    @property
    def lag(self) -> int:
        """The lag in microseconds."""
        lag = self.bolt.settings.lag
        return 0 if lag is None else lag.micros

    def topology(self, tasks: int) -> Graph:
        """Returns the topology with this many tasks. Raises TopologyError if the bolt cannot be built."""
        if tasks not in self._built:
            builder = GraphBuilder("check")
            declared = builder.set_bolt(self.name, self.bolt, tasks)
            for name, schema in self.schemas.items():
                builder.set_spout(name, spouts.memory(schema))
                if self.key:
                    declared.fields_grouping(name, *self.key)
                else:
                    declared.global_grouping(name)
            self._built[tasks] = builder.build()
        return self._built[tasks]

    def with_change(self, change: Change) -> Subject:
        """Returns a subject whose policies are changed before a run."""
        return Subject(self.bolt, self.schemas, change, self._built, self._memories)

    def policies(self) -> tuple[Policy, Policy]:
        """Returns unused policies, as another process would have them: eviction and trigger."""
        node = self.topology(1).windowed[self.name]
        if not self._memories:
            self._memories += [ClassMemory(each) for each in users_classes(node.eviction, node.trigger)]
        for memory in self._memories:
            memory.restore()
        change = self.keep or (lambda policy: policy)
        return change(_copy(node.eviction)), change(_copy(node.trigger))

    def run(self, given: GivenEvents, cut: Cut) -> RunResult:
        """Runs the events, cut in this way, and returns the results, including a BoltError."""
        return _Run(self, given, cut).result()


class _Run:
    """One run, batch by batch, with the checkpoint in memory."""

    def __init__(self, subject: Subject, given: GivenEvents, cut: Cut) -> None:
        self._subject, self._given, self._cut = subject, given, cut
        self._checkpoint = MemoryCheckpoint()
        self._policies = subject.policies()
        self._windows: dict[int, list[TupleWindow | Window]] = {}
        self._indices: dict[str, list[int]] = {}
        for index, (row, stream) in enumerate(zip(given.rows.to_pylist(), given.inputs, strict=True)):
            self._indices.setdefault(self._content(row, stream), []).append(index)
        self._tasks = cut.tasks[0]

    def result(self) -> RunResult:
        """Runs all batches, and the end of the streams."""
        spans, given = self._cut.spans(len(self._given)), self._given
        clock = min((each for each in given.times if each is not None), default=0) if given.clocked else 0
        batch = -1
        try:
            for batch, (low, high) in enumerate(spans):
                clock = max(clock, given.times[high - 1] or clock) if given.clocked and high else clock
                advance = TimeAdvance(clock, tick=high not in self._cut.still)
                self._batch(batch, BatchPlan(batch, advance, [_Rows(given, low, high, self._cut.turned)]))
            self._batch(batch + 1, BatchPlan(batch, TimeAdvance(clock, close=True), closing=True))
        except WindboltError as error:
            return RunResult(error=str(error))
        manifest = self._checkpoint.latest()
        assert manifest is not None
        state = manifest.bolts[self._subject.name]
        accounts = {name: number for name, number in state.accounts.totals(sum(state.pending)).items() if number}
        windows = [cast("Window", each) for number in sorted(self._windows) for each in self._windows[number]]
        windows.sort(key=lambda window: window.key)  # stable, so windows of a key stay in order
        return RunResult(tuple(windows), tuple(sorted(accounts.items())))

    def _batch(self, number: int, plan: BatchPlan) -> None:
        crash = self._cut.crash
        if crash:
            micro_batch = self._begin(number)
            micro_batch.hook = _crash_at(crash[number % len(crash)])
            with contextlib.suppress(_Crash):
                micro_batch.run(plan)
            self._policies = self._subject.policies()
            committed = self._checkpoint.latest()
            if committed is not None and (committed.batch, committed.closing) == (plan.batch, plan.closing):
                return
        self._begin(number).run(plan)

    def _begin(self, number: int) -> MicroBatch:
        tasks = self._cut.tasks[number % len(self._cut.tasks)]
        topology = self._subject.topology(tasks)
        node = topology.windowed[self._subject.name]
        windows = self._windows.setdefault(number, [])
        windows.clear()
        bolt = copy(node.bolt)
        bolt.__dict__["execute"] = lambda window: windows.append(self._as_window(window))
        eviction, trigger = self._policies
        node = replace(node, bolt=bolt, eviction=eviction, trigger=trigger)  # type: ignore[arg-type]
        micro_batch = MicroBatch(replace(topology, windowed={node.name: node}), self._checkpoint, InProcessExecutor())
        if tasks != self._tasks:
            self._move(micro_batch, topology, tasks)
            self._tasks = tasks
        return micro_batch

    def _move(self, micro_batch: MicroBatch, topology: Graph, tasks: int) -> None:
        """Moves the state to other tasks, as ``windbolt rescale`` does."""
        before = self._checkpoint.latest()
        if before is None:
            return
        store, after = self._checkpoint.segments, Manifest.from_json(before.to_json())
        name = self._subject.name
        route = Route(name, BoltRules.of(topology, topology.windowed[name]), tasks)
        with store.writer(f"moved-{before.batch}") as writer:
            after.bolts[name] = moved_state(after.bolts[name], route, store, writer)
        self._checkpoint.commit(after)
        micro_batch.manifest = after

    def _as_window(self, window: TupleWindow) -> Window:
        used: dict[str, int] = {}
        events = []
        for each in window.get():
            row = self._content(each.values, each.stream)
            number = used.get(row, 0)
            used[row] = number + 1
            events.append(self._indices[row][number])
        if self._cut.turned:  # events with equal times may come in either order, so only the set of events counts
            events.sort(key=lambda index: (self._given.times[index] or 0, index))
        return Window(repr(window.key), window.end_timestamp, window.start_timestamp, tuple(events))

    def _content(self, row: Mapping[str, Any], stream: str) -> str:
        """Returns the content of an event, which identifies it."""
        return f"{stream} {[row[name] for name in self._given.rows.column_names]}"


class _Crash(Exception):
    """A simulated crash: everything in memory is lost."""


def _crash_at(at: Phase) -> Callable[[str], None]:
    def fail(phase: str) -> None:
        if phase == at:
            raise _Crash

    return fail


@dataclass(frozen=True)
class _Rows:
    """The events of a batch, each at its own clock in processing time."""

    given: GivenEvents
    low: int
    high: int
    turned: bool

    def read(self, topology: Graph) -> Iterator[SourceBatch]:
        """Yields the events in order of arrival; consecutive events of one input come together."""
        given, indices = self.given, list(range(self.low, self.high))
        if self.turned:
            order = list(given.columns)
            indices.sort(key=lambda index: -order.index(given.inputs[index]))  # stable
        for (name, at), run in groupby(indices, lambda index: (given.inputs[index], index if given.clocked else -1)):
            chosen = list(run)
            table = given.rows.take(pa.array(chosen, pa.int64())).select(list(given.columns[name]))
            positions = np.array([given.positions[index] for index in chosen])
            clock = given.times[at] if given.clocked else None
            yield SourceBatch(name, DEFAULT_STREAM, table, positions, clock=clock)


def users_classes(*policies: Policy) -> list[type]:
    """Returns the classes of policies that are not windbolt's."""
    found = dict.fromkeys(each for policy in policies for each in type(policy).__mro__)
    return [each for each in found if each.__module__ != "builtins" and not each.__module__.startswith("policies.")]


class ClassMemory:
    """Values in a class's attributes, and in caches of its methods. New objects of the class share them, while another
    process starts with their values in the code."""

    def __init__(self, owner: type) -> None:
        self._owner, self._names = owner, set(vars(owner))
        values = {name: value for name, value in vars(owner).items() if not name.startswith("__")}
        self._containers = {
            name: value for name, value in values.items() if isinstance(value, list | dict | set | deque)
        }
        self._pristine = deepcopy(self._containers)
        self._constants = {name: value for name, value in values.items() if isinstance(value, _CONSTANTS)}
        methods = [getattr(value, "__func__", value) for value in values.values()]
        self._caches = [method.cache_clear for method in methods if hasattr(method, "cache_clear")]

    def restore(self) -> None:
        """Restores the class."""
        for name in set(vars(self._owner)) - self._names:
            delattr(self._owner, name)
        for name, container in self._containers.items():
            container.clear()
            fresh = deepcopy(self._pristine[name])
            if isinstance(container, dict | set):
                container.update(fresh)
            else:
                container.extend(fresh)
        for name, value in self._constants.items():
            if vars(self._owner).get(name) is not value:
                setattr(self._owner, name, value)
        for clear in self._caches:
            clear()


_CONSTANTS = (int, float, str, bool, tuple, type(None))


def _copy(policy: Policy) -> Policy:
    """Returns a copy as another process would get it; the policy itself if it cannot be copied."""
    try:
        return deepcopy(policy)
    except Exception:
        return policy


# ---- in another process


class OtherProcess:
    """A second Python process, with another order of sets, that runs events and returns the results."""

    def __init__(self, subject: Subject) -> None:
        """Raises PicklingError if the policies cannot be sent, OSError if the process cannot be started."""
        sent = _pickle((subject.bolt, subject.schemas), subject.policies())
        own_seed = os.environ.get("PYTHONHASHSEED", "")
        seed = "1" if own_seed != "1" else "2"
        command = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; import {__name__} as it; it.serve()"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )  # fmt: skip
        self._send(sent)

    def ask(self, given: GivenEvents, cut: Cut) -> RunResult | None:
        """Runs the events in the other process, and returns the results; None if the process has died or cannot import
        the policies."""
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, given.rows.schema) as writer:
            writer.write_table(given.rows)
        self._send(pickle.dumps((sink.getvalue(), replace(given, rows=given.rows.slice(0, 0)), cut)))
        assert self._process.stdout is not None
        answer = _read(self._process.stdout)
        return None if answer is None else cast("RunResult | None", pickle.loads(answer))

    def close(self) -> None:
        """Ends the process."""
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                cast("Any", pipe).close()
        self._process.kill()
        self._process.wait()

    def _send(self, content: bytes) -> None:
        with contextlib.suppress(OSError):  # it has died without an answer
            assert self._process.stdin is not None
            self._process.stdin.write(struct.pack("<q", len(content)) + content)
            self._process.stdin.flush()


def serve() -> None:
    """Called in the other process: runs events until its input ends."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # stdout is for results, not for policies' prints
    sent = _read(source)
    bolt, schemas = pickle.loads(sent or b"")
    subject = Subject(bolt, schemas)
    while (asked := _read(source)) is not None:
        rows, given, cut = pickle.loads(asked)
        answer = pickle.dumps(subject.run(replace(given, rows=pa.ipc.open_stream(rows).read_all()), cut))
        target.write(struct.pack("<q", len(answer)) + answer)
        target.flush()


def _read(source: Any) -> bytes | None:
    head = source.read(8)
    return cast("bytes", source.read(struct.unpack("<q", head)[0])) if len(head) == 8 else None


def _pickle(value: Any, policies: Sequence[Policy]) -> bytes:
    """Returns a value as bytes, with the code of policies that another process cannot import."""
    if all(type(policy).__module__ != "__main__" for policy in policies):
        with contextlib.suppress(pickle.PicklingError, AttributeError):  # of a function, or of no module
            return pickle.dumps(value)
    from topologies.spark.shipping import with_code  # imported late, because pyspark loads slowly

    return with_code(value)


# The picture of two runs that differ: events downwards, and beside them the windows of each run.


_MOST_EVENTS, _MOST_WINDOWS, _WIDTH = 40, 8, 60
_HELD_MARK, _NOT_HELD_MARK, _BATCH_END = "●", "·", "─"


def picture(given: GivenEvents, first: RunResult, second: RunResult, cut: Cut, sides: tuple[str, str]) -> str:
    """Returns events as lines and windows as columns (a, b, ...), with both runs side by side. ``cut``: of the second
    run; a line marks the end of each batch. ``sides``: title of each run."""
    pairs = _pairs(first.windows, second.windows)
    shown = _most_telling(pairs)
    letters = [chr(ord("a") + number % 26) for number in range(len(shown))]
    width = max(3 * len(shown) + 1, len(sides[0]) + 1, 12)
    labels = _labels(given)
    label_width = max(map(len, labels), default=0)
    lines = [f"{'':{label_width}}  │ {sides[0]:{width}}│ {sides[1]}"]
    heads = "".join(f"{letter:3}" for letter in letters)
    lines.append(f"{'event':{label_width}}  │ {heads:{width}}│ {heads}".rstrip())
    event_indices = _shown_events(given, pairs)
    for number, index in enumerate(event_indices):
        before = event_indices[number - 1] + 1 if number else 0
        if any(before <= end <= index for end in cut.ends) and number:
            lines.append(f"{'':{label_width}}  │ {'':{width}}│ {_BATCH_END * max(3 * len(shown), len(sides[1]))}")
        cells = [_cells(index, [pair[side] for pair in shown]) for side in (0, 1)]
        differs = any(_holds(first, index) != _holds(second, index) for first, second in shown)
        mark = "  <- differs" if differs else ""
        lines.append(f"{labels[index]:{label_width}}  │ {cells[0]:{width}}│ {cells[1]}{mark}".rstrip())
    lines += [_window_line(letter, *pair) for letter, pair in zip(letters, shown, strict=True)]
    if len(pairs) > len(shown):
        lines.append(f"and {len(pairs) - len(shown)} windows more")
    if dict(first.accounts) != dict(second.accounts):
        lines.append(f"events: {_accounts(first)} | {_accounts(second)}")
    for side, result in zip(sides, (first, second), strict=True):
        if result.error:
            lines.append(f"{side}: {result.error}")
    return "\n".join(lines)


Pair = tuple[Window | None, Window | None]


def _pairs(first: Sequence[Window], second: Sequence[Window]) -> list[Pair]:
    """Returns the windows of both runs, in pairs of corresponding ones."""
    found: list[Pair] = []
    ours_by_name, theirs_by_name = ([(window.key, window.end) for window in side] for side in (first, second))
    matched = SequenceMatcher(None, ours_by_name, theirs_by_name, autojunk=False)
    for kind, low, high, start, stop in matched.get_opcodes():
        ours, theirs = list(first[low:high]), list(second[start:stop])
        if kind == "equal":
            found += zip(ours, theirs, strict=True)
        else:
            found += [(window, None) for window in ours]
            found += [(None, window) for window in theirs]
    return found


def _most_telling(pairs: Sequence[Pair]) -> list[Pair]:
    """Returns a few windows: first those that differ, in order."""
    different = [pair for pair in pairs if pair[0] != pair[1]]
    chosen = (different + [pair for pair in pairs if pair[0] == pair[1]])[:_MOST_WINDOWS]
    return [pair for pair in pairs if any(pair is each for each in chosen)]


def _shown_events(given: GivenEvents, pairs: Sequence[Pair]) -> list[int]:
    """Returns the events that are shown: all, or those around the first difference."""
    if len(given) <= _MOST_EVENTS:
        return list(range(len(given)))
    events_of_pairs = [[set(() if window is None else window.events) for window in pair] for pair in pairs]
    differing = sorted(set().union(*(first ^ second for first, second in events_of_pairs)))[: _MOST_EVENTS // 2]
    neighbours = {index for each in differing or [0] for index in (each - 1, each, each + 1) if 0 <= index < len(given)}
    return sorted(neighbours)[:_MOST_EVENTS]


def _holds(window: Window | None, index: int) -> bool:
    return window is not None and index in window.events


def _cells(index: int, windows: Sequence[Window | None]) -> str:
    marks = (" " if window is None else _HELD_MARK if _holds(window, index) else _NOT_HELD_MARK for window in windows)
    return "".join(f"{mark:3}" for mark in marks)


def _labels(given: GivenEvents) -> list[str]:
    """Describes each event: its number from 1, its time (without a date that all share), its input if there are
    several, and its values."""
    times = ["" if time is None else show(time) for time in given.times]
    same = len({time[:11] for time in times if time}) == 1
    shown = [time[11:].removesuffix("Z") if same else time for time in times]
    found = []
    input_width = max(map(len, given.columns)) + 2 if len(given.columns) > 1 else 0
    for index, row in enumerate(given.events()):
        values = ", ".join(f"{name} {value}" for name, value in row.items() if not _is_time(value, given.times[index]))
        text = f"{index + 1:>2}  {shown[index]}  {given.inputs[index] if input_width else '':{input_width}}{values}"
        found.append(text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…")
    return found


def _is_time(value: object, time: int | None) -> bool:
    return hasattr(value, "tzinfo") or (time is not None and value == time // 1_000 and type(value) is int)


def _window_line(letter: str, first: Window | None, second: Window | None) -> str:
    one = first or second
    assert one is not None
    key = "" if one.key == "None" else f", key {one.key}"
    where = ""
    if first is None or second is None:
        where = f": only on the {'right' if first is None else 'left'}"
    elif set(first.events) == set(second.events) and first != second:
        where = f": in another order, or from another start, {first.start} and {second.start}"
    return f"  window {letter} ends {show(one.end)}{key}{where}"


def _accounts(result: RunResult) -> str:
    return ", ".join(f"{number} {name}" for name, number in result.accounts) or "none"
