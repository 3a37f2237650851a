"""Topologies, one bolt alone among them: steps, micro-batches, tasks and groupings, chains, watermarks handed on.

``play`` plays a case. scenarios, "steps"; semantics, "Behind other windowed bolts"; guide, "Groupings, chains, plain
bolts" and "Two streams".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tests.oracles.interpreter import ready, written
from tests.oracles.interpreter import rows as rows_of
from tests.oracles.interpreter.bolt import Bolt, Fired, Repairs, Stop, resolved
from tests.oracles.interpreter.plain import PLAIN, Keeping, Row
from tests.oracles.interpreter.states import State, state_of
from tests.oracles.interpreter.values import COLUMNS, Json, duration, milliseconds, moment, moment_in, most
from windowing.settings import WindowSettings
from windowing.settings.kinds import Hopping, Onset
from windowing.settings.rules import SOURCE, Bounds, OutputTime


class Unsaid(Exception):
    """The specification does not say what is right, or this interpreter does not go that far."""


INHERITED = "its own time"
"""The field of the time that a row came with."""


class Choices:
    """What is the product's choice, and makes no difference else."""

    def task(self, bolt: str, grouping: str, by: tuple[Any, ...], row: Row) -> int | None:
        """The task of a bolt that an event goes to; None where that can make no difference."""
        return None

    def place(self, bolt: str, shown: Json) -> int:
        """Where a window stands among those of the same end and start, of other keys."""
        return 0

    def stops(self, batch: int) -> bool:
        """True if a window of this batch is larger than is allowed, where it is not said how large it is."""
        return False


@dataclass
class Node:
    """A bolt of a topology, as a case describes it, and what it remembers."""

    name: str
    make: list[Any]
    inputs: list[list[Any]]
    """Input, grouping, columns."""
    tasks: int = 1
    limits: Json = field(default_factory=dict)
    bolt: Bolt | None = None
    """If it is a windowed one."""
    keeping: Keeping | None = None
    """If it has no windows, and state."""
    memory: Json = field(default_factory=dict)
    """What a ready bolt keeps."""
    skew: dict[str, int] = field(default_factory=dict)
    """Per input: the furthest that a time of its own was behind the time that the row came with."""
    tasks_are_known: bool = True
    """False if an event is in an open window of one of the tasks, and only the product knows of which."""
    states: list[State] = field(default_factory=list)
    """What could be told of it after each batch."""


class Topology:
    """A topology, and all that its bolts remember."""

    def __init__(self, case: Json, choices: Choices, repairs: Repairs) -> None:
        self.case, self.choices, self.repairs = case, choices, repairs
        moved = [step.get("clock", step.get("arrival")) for step in case["steps"] if {"clock", "arrival"} & set(step)]
        self.clock = self.before = moment(moved[0]) if moved else 0
        """The clock, and that of the batch before."""
        self.batch = self.rows = self.arrived = 0
        """The number of the batch; how many events have come in it, and in all."""
        self.inner: dict[str, tuple[str, int]] = {}
        """Streams that carry the time of a windowed bolt: the bolt, and by how much it is shifted on the way."""
        self.sunk: dict[str, list[Json]] = {}
        self.moved: list[int | None] = []
        self.clocks: list[int | None] = []
        """The watermark of the first bolt: after each tick if it has moved, and after each step of the clock."""
        self.stopped: Stop | None = None
        self.nodes = {each["name"]: self.node(each) for each in case["bolts"]}
        rules = self.bolts[0].rules if case["bolts"][0]["make"] == ["told"] else WindowSettings()
        self.may_be_idle = rules.idle_timeout is not None or rules.partition_idle_timeout is not None
        by_arrival = not rules.reads_timestamps and bool(rules.kinds or rules.key)
        by_clock = rules.panes is not None and rules.panes.uses_clock
        self.clock_matters = self.may_be_idle or rules.estimate_arrival or by_arrival or by_clock
        """Whether batches of a bare bolt end where the clock moves, since it makes a difference when it did."""

    def node(self, given: Json) -> Node:
        node = Node(given["name"], given["make"], given["inputs"], given.get("tasks", 1), given.get("limits", {}))
        streams = tuple(each[0] for each in node.inputs)
        inner = frozenset(stream for stream in streams if stream in self.inner)
        if node.make[0] == "kept":
            node.keeping = Keeping(node.name, node.tasks, *node.make[1:])
        if "bolt" not in given:
            if inner and len(inner) == len(streams) == 1:
                bolt, shift = self.inner[streams[0]]
                more = duration(node.make[1]) if node.make[0] == "shift" else 0
                self.inner |= {label(node.name, stream): (bolt, shift + more) for stream in ("default", "odd")}
            return node
        rules, of_inputs = rules_of(self.case, given)
        if node.make[0] == "temporal_join":  # "Which events are late does not depend on how" (decision 45)
            rules = replace(rules, kinds=(Onset(),))
        rules = settled(rules, inner, streams)
        of_inputs = {stream: settled(each, inner, streams) for stream, each in of_inputs.items()}
        node.bolt = Bolt(
            rules, streams, self.clock, self.case.get("partitions"), source_of(self.case), node.tasks, inner,
            of_inputs=of_inputs,
        )  # fmt: skip
        if node.make[0] == "temporal_join":
            node.bolt.lasting = node.make[2] if node.make[5] else None
            node.bolt.rows_ahead = partial(ready.moments_ahead, node.make, node.memory, node.bolt)
        if node.bolt.event_time:
            self.inner |= {label(node.name, stream): (node.name, 0) for stream in rows_of.streams(node.make)}
        return node

    @property
    def bolts(self) -> list[Bolt]:
        return [node.bolt for node in self.nodes.values() if node.bolt is not None]

    # ---- steps

    def take(self, step: Json) -> None:
        match step:
            case {"event": event, **rest}:
                if "arrival" in rest:
                    self.move(moment(rest["arrival"]), ends=True)
                elif "clock" in rest:
                    self.move(moment(rest["clock"]), ends=self.clock_matters, alone=True)
                times = {name: moment_in(event, name) for name in ("ts", "at", "until", "cti")}
                event = event | {name: milliseconds(time) for name, time in times.items() if time is not None}
                stream = rest.get("stream", self.case["spouts"][0])
                self.arrive(stream, Row({**dict.fromkeys(COLUMNS), **event}, place=self.arrived))
                self.rows, self.arrived = self.rows + 1, self.arrived + 1
            case {"tick": "watermark"}:
                self.moved.append(self.end_batch(tick=True))
            case {"clock": clock}:
                self.move(moment(clock), ends=self.clock_matters)
                self.end_batch()
                self.clocks.append(self.bolts[0].times.watermark() if self.bolts else None)
            case {"crash": True}:
                self.end_batch()
            case {"close": True}:
                self.end_batch(close=True)
            case _:
                raise ValueError(step)

    def move(self, clock: int, *, ends: bool, alone: bool = False) -> None:
        """The clock moves: a batch ends before that, if it is to, and may end with nothing but the clock.

        "Last arrival": an event at the very moment of a timeout comes first.
        """
        if ends and clock > self.clock:
            if self.rows:
                self.end_batch()
            upto = clock - int(self.may_be_idle)
            if alone and upto > self.clock:
                self.clock = upto
                self.end_batch()
        self.clock = max(self.clock, clock)

    def arrive(self, stream: str, row: Row) -> None:
        """A row comes on a stream: to plain bolts at once, to windowed bolts, to the sink."""
        self.sunk.setdefault(stream, []).append(row.fields)
        for node in self.nodes.values():
            for name, grouping, columns in node.inputs:
                if name != stream:
                    continue
                tasks: Any = range(node.tasks)
                if grouping != "all":
                    alone = grouping == "global" or node.tasks == 1 or not (node.bolt or node.keeping)
                    by = tuple(row.fields.get(each) for each in columns)
                    tasks = [0 if alone else self.choices.task(node.name, grouping, by, row)]
                if node.bolt is not None:
                    self.deliver(node, node.bolt, stream, tasks, row)
                elif node.keeping is not None:
                    node.keeping.waiting += [(task, row) for task in tasks]
                else:
                    for to, out in (out for _ in tasks for out in PLAIN[node.make[0]](node.make, row)):
                        self.arrive(label(node.name, to), out)

    def deliver(self, node: Node, bolt: Bolt, stream: str, tasks: list[int | None], row: Row) -> None:
        """To all of these tasks: one event for time, and one for each task in the accounts."""
        clock = self.clock if row.at is None or bolt.rules.key_trigger is None else row.at
        own = row.time if bolt.rules.timestamp_field == INHERITED else moment_in(row.fields, bolt.rules.timestamp_field)
        if own is not None and row.time is not None and stream in self.inner:
            node.skew[stream] = max(node.skew.get(stream, 0), row.time - own)
        if None in tasks:
            node.tasks_are_known = False
            if any(kind is None or kind.counts or kind.merges for kind in bolt.kinds):
                raise Unsaid("on which task an event counts, or joins others, that no window shows")
        for number, task in enumerate(tasks, 1):
            is_last = number == len(tasks)
            bolt.arrive(clock, row.fields, stream, own, task or 0, copy=len(tasks) > 1, last=is_last)
        if bolt.is_judged_at_once:
            bolt.ingest()
            self.divert(node, bolt)

    def divert(self, node: Node, bolt: Bolt) -> None:
        """Late, early and refused events go to their streams."""
        diverted, bolt.diverted = bolt.diverted, []
        for stream, fields in diverted:
            self.arrive(label(node.name, stream), Row(fields))

    # ---- the end of a batch

    def end_batch(self, *, tick: bool = False, close: bool = False) -> int | None:
        """Each bolt in turn: what it emits comes to the bolts behind it in the same batch.

        Returns the watermark of the first bolt, if it has moved.
        """
        moved = []
        for bolt in self.bolts:  # all that comes from sources is read first
            bolt.ingest()
        for node in self.nodes.values():
            if node.keeping is not None:
                for stream, row in node.keeping.end_batch(self.clock):
                    self.arrive(label(node.name, stream), row)
                self.sunk[label(node.name, "told")] = node.keeping.hears
            if node.bolt is None:
                continue
            bolt = node.bolt
            bolt.ingest()
            bolt.move_clock(self.clock)
            self.hand_on(node, bolt)
            moved.append(bolt.end_batch(tick=tick, close=close))
            node.states.append(state_of(bolt))
            if self.batch in self.repairs:
                bolt.repair(*self.repairs[self.batch])
            self.emit(node, bolt)
            self.divert(node, bolt)
        self.before, self.rows = self.clock, 0
        self.batch += 1
        return moved[0] if moved else None

    def hand_on(self, node: Node, bolt: Bolt) -> None:
        """A bolt is told how far the bolts before it are."""
        behind = [stream for stream in bolt.streams if stream in bolt.inner]
        promises: dict[str, Any] = {stream: self.promised(node, bolt, stream) for stream in behind}
        if not bolt.rules.watermark_per_key:
            for stream, promise in promises.items():
                bolt.times.promise(stream, promise)
        elif len(promises) == len(bolt.streams) and None not in promises.values():
            bolt.times.floor = most(bolt.times.floor, min(promises.values()))  # decision 16, "behind windowed bolts"

    def promised(self, node: Node, bolt: Bolt, stream: str) -> int | None:
        """ "Behind other windowed bolts": the time before which nothing more comes on an input."""
        name, shift = self.inner[stream]
        until = hands_on(self.nodes[name].bolt)  # type: ignore[arg-type]
        if until is None:
            return None
        until += shift
        if bolt.rules.timestamp_field != INHERITED:
            if stream not in node.skew:
                return None
            until -= node.skew[stream]
        # whether an event at the very watermark is always in time, and all its windows are still to come
        takes_it = bolt.rules.bounds is Bounds.START and not bolt.waits and None not in bolt.kinds
        return until if takes_it else until - 1

    def emit(self, node: Node, bolt: Bolt) -> None:
        """Rows of the windows, by tasks and then by windows ("The order of arrival")."""
        fired, bolt.out = bolt.out, []
        alike = itertools.groupby(fired, key=lambda one: (one.window.end, one.window.start, one.window.place))
        in_turn = [one for _, group in alike for one in sorted(group, key=partial(self.place, node))]
        in_turn.sort(key=lambda one: one.task)
        if any(self.breaks(node, one) for one in in_turn):
            raise Stop([f"bolt {node.name!r} was to be called", f"bolt {node.name!r} took more than"])
        for one in in_turn:
            time, at = time_of(bolt, one), None
            if bolt.rules.key_trigger is not None:  # "at the moment its window fired"
                at = min(max(one.window.end, self.before), self.clock)
            for stream, fields in rows_of.rows(node, bolt, one):
                self.arrive(label(node.name, stream), Row(fields, time, at=at))
        if node.make[0] == "temporal_join":
            for fields, time in ready.temporal_join(node.make, node.memory, bolt):
                self.arrive(node.name, Row(fields, time))

    def place(self, node: Node, fired: Fired) -> int:
        return self.choices.place(node.name, fired.shown)

    def breaks(self, node: Node, fired: Fired) -> bool:
        """True if a call with this window ends the run."""
        found = rows_of.breaks(node.limits, fired.content)
        return self.choices.stops(self.batch) if found is None else found


def play(case: Json, choices: Choices | None = None, repairs: Repairs | None = None) -> Topology:
    """Play a case: once more, up to the batch in which a rule stops it, where one does."""
    stop: Stop | None = None
    while True:
        topology = Topology(case, choices or Choices(), repairs or {})
        try:
            for step in case["steps"]:
                if stop is None or topology.batch < stop.batch:
                    topology.take(step)
            if topology.rows and (stop is None or topology.batch < stop.batch):
                topology.end_batch()
        except Stop as found:
            stop, found.batch = found, topology.batch
        else:
            topology.stopped = stop
            return topology


# ---- rules


def rules_of(case: Json, node: Json) -> tuple[WindowSettings, dict[str, WindowSettings]]:
    """The rules of a bolt, and of inputs with their own: what the bolt does not say itself, its sources say; those of
    StreamInsight each for their inputs (SI-17, SI-18)."""
    said = {stream: times for stream, *_ in node["inputs"] for times in times_of(case, stream)}
    if "preset" in node["bolt"] or not any(said.values()):
        rules = written.rules_of(node)
        return (rules if source_of(case) is None else replace(rules, watermark_partition=SOURCE)), {}
    of = {
        stream: written.rules_of({**node, "bolt": {"preset": times, **node["bolt"]}})
        for stream, times in said.items()
        if times is not None
    }
    first, *others = of.values()
    if all(each == first for each in others):
        return first, {}
    return replace(first, close_fires=all(each.close_fires for each in of.values())), of


def times_of(case: Json, stream: str) -> Iterator[Any]:
    """The rules of time of the sources that a stream comes from, without a windowed bolt between."""
    name = stream.split(".", maxsplit=1)[0]
    if name in case["spouts"]:
        yield case.get("times", {}).get(name)
    for node in case["bolts"]:
        if node["name"] == name and "bolt" not in node:
            for before, *_ in node["inputs"]:
                yield from times_of(case, before)


def source_of(case: Json) -> Any:
    """The partitions that its source has, where that is one with partitions."""
    return case.get("meta", {}).get("source")


def settled(rules: WindowSettings, inner: frozenset[str], streams: tuple[str, ...]) -> WindowSettings:
    """The rules of a bolt where it stands: decision 5; rules by arrival are for events from outside."""
    if inner and len(inner) == len(streams) and not rules.processing_time:
        rules = replace(rules, arrival=None, estimate_arrival=False)
        if not rules.reads_timestamps:
            rules = replace(rules, timestamp_field=INHERITED)
    elif inner and rules.estimate_arrival:
        raise Unsaid("an estimated arrival beside inputs that have none")
    return resolved(rules)


# ---- what a bolt hands on


def label(name: str, stream: str) -> str:
    return name if stream == "default" else f"{name}.{stream}"


def time_of(bolt: Bolt, fired: Fired) -> int | None:
    """The time of the rows of a window ("Closing")."""
    window = fired.window
    if not bolt.event_time:
        return None
    waited = max(0, bolt.reached - window.end) if window.at_end and bolt.reached is not None else 0
    match bolt.rules.output_time:
        case OutputTime.START if window.start is not None:
            return int(window.start + waited)
        case OutputTime.LAST:
            return window.end - 1 + waited
    return window.end + waited


def hands_on(bolt: Bolt) -> int | None:
    """A time before which a bolt emits nothing more."""
    rules, until = bolt.rules, bolt.closed_until()
    if rules.watermark_per_key and not (bolt.closed and rules.close_fires):
        floor = bolt.times.floor
        return None if floor is None else floor - rules.allowed_lateness.micros - int(bolt.waits)
    if until is None or (rules.output_watermark or rules.output_time) is not OutputTime.START:
        return until
    if isinstance(bolt.kinds[0], Onset):
        return until
    if isinstance(bolt.kinds[0], Hopping) and len(bolt.kinds) == 1:  # SI-24: the first window that may still close
        grid: Any = bolt.of(None, 0)
        return int(grid.next_edges(until)[0])
    raise Unsaid("where the earliest window begins that may yet open, if its start depends on events")
