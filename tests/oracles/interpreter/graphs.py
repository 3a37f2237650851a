"""Topologies: several tasks and groupings, chains of bolts, and the watermarks that are handed on between them.

semantics, "Behind other windowed bolts"; guide, "Groupings, chains, plain bolts" and "Two streams".
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tests.oracles.interpreter import limits, ready
from tests.oracles.interpreter import rows as rows_of
from tests.oracles.interpreter.bolt import Bolt, Fired, Stop, resolved
from tests.oracles.interpreter.keeping import Keeping
from tests.oracles.interpreter.kinds import Fixed
from tests.oracles.interpreter.values import COLUMNS, FOREVER, Json, duration, milliseconds, moment
from windowing.settings import WindowSettings
from windowing.settings.kinds import Hopping, Onset
from windowing.settings.rules import Bounds, OutputTime


class Unsaid(Exception):
    """The specification does not say what is right, or this interpreter does not go that far."""


INHERITED = "its own time"
"""The field of the time that a row came with."""

Tasks = Callable[[str, str, Json], int | None]
"""The task of a bolt that an event of an input goes to; None where that can make no difference."""


@dataclass(frozen=True)
class Row:
    """A row on its way, with its event time if it has one."""

    fields: Json
    time: int | None = None
    place: int | None = None
    """Its place in its source."""
    at: int | None = None
    """When it comes to a bolt with a trigger of keys, if one has emitted it."""


@dataclass
class Node:
    """A bolt of a topology, as a case describes it."""

    name: str
    make: list[Any]
    inputs: list[list[Any]]
    """Input, grouping, columns."""
    tasks: int = 1
    rules: WindowSettings = field(default_factory=WindowSettings)
    of_inputs: dict[str, WindowSettings] = field(default_factory=dict)
    """The rules of inputs whose sources have other rules than those of the bolt (SI-17)."""
    bolt: Bolt | None = None
    memory: Json = field(default_factory=dict)
    """What a ready bolt keeps."""
    skew: dict[str, int] = field(default_factory=dict)
    """Per input: the furthest that a time of its own was behind the time that the row came with."""
    tasks_are_known: bool = True
    """False if an event is in an open window of one of the tasks, and only the product knows of which."""
    limits: Json = field(default_factory=dict)
    keeping: Keeping | None = None
    """What it is without windows, with state."""


@dataclass
class Graph:
    """A topology, and all that its bolts remember."""

    nodes: list[Node]
    spouts: list[str]
    began: int = 0
    tasks: Tasks = lambda *_: 0
    places: Callable[[str, Any, Any, Any, Any], int] = lambda *_: 0
    """Where windows of several keys and of the same end and start stand, which is not said."""
    inner: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Streams that carry the time of a windowed bolt: the bolt, and by how much it is shifted on the way."""
    sunk: dict[str, list[Json]] = field(default_factory=dict)
    waiting: dict[str, list[Row]] = field(default_factory=dict)
    clock: int = 0
    before: int = 0
    """The clock of the batch before."""
    arrived: int = 0
    may_stop_in: int | None = None
    """The batch in which a window may be larger than is allowed, where it is not said how large it is."""
    batch: int = 0
    stops: bool = True
    """False to go on where a rule stops the run."""
    stopped: Stop | None = None
    """Why there are no further batches."""

    def __post_init__(self) -> None:
        self.clock = self.before = self.began
        for node in self.nodes:
            streams = tuple(each[0] for each in node.inputs)
            inner = frozenset(stream for stream in streams if stream in self.inner)
            if node.make[0] == "kept":
                node.keeping = Keeping(node.name, node.tasks, *node.make[1:])
            if node.make[0] in PLAIN:
                if inner and len(inner) == len(streams) == 1:
                    bolt, shift = self.inner[streams[0]]
                    more = duration(node.make[1]) if node.make[0] == "shift" else 0
                    for stream in PLAIN[node.make[0]]:
                        self.inner[label(node.name, stream)] = bolt, shift + more
                continue
            if node.make[0] == "temporal_join":  # "Which events are late does not depend on how" (decision 45)
                node.rules = replace(node.rules, kinds=(Onset(),))
            node.rules = self.settled(node.rules, inner, streams)
            node.of_inputs = {stream: self.settled(each, inner, streams) for stream, each in node.of_inputs.items()}
            lasting = node.make[2] if node.make[0] == "temporal_join" and node.make[5] else None
            node.bolt = Bolt(node.rules, streams, None, self.began, None, node.tasks, inner, lasting, node.of_inputs)
            if node.make[0] == "temporal_join":
                node.bolt.rows_ahead = partial(ready.moments_ahead, node.make, node.memory, node.bolt)
            if node.bolt.event_time:
                for stream in rows_of.streams(node.make):
                    self.inner[label(node.name, stream)] = node.name, 0

    def settled(self, rules: WindowSettings, inner: frozenset[str], streams: tuple[str, ...]) -> WindowSettings:
        """The rules of a bolt where it stands: decision 5; rules by arrival are for events from outside."""
        if inner and len(inner) == len(streams) and not rules.processing_time:
            rules = replace(rules, arrival=None, estimate_arrival=False)
            if not rules.reads_timestamps:
                rules = replace(rules, timestamp_field=INHERITED)
        elif inner and rules.estimate_arrival:
            raise Unsaid("an estimated arrival beside inputs that have none")
        return resolved(rules)

    @property
    def bolts(self) -> list[Bolt]:
        return [node.bolt for node in self.nodes if node.bolt is not None]

    # ---- steps

    def take(self, step: Json) -> None:
        match step:
            case {"event": event, **rest}:
                if {"clock", "arrival"} & set(rest):
                    self.move(moment(rest.get("clock", rest.get("arrival"))))
                times = {name: event[name] for name in ("ts", "at", "until", "cti") if event.get(name) is not None}
                event = {**event, **{name: milliseconds(moment(time)) for name, time in times.items()}}
                self.arrive(rest["stream"], Row({**dict.fromkeys(COLUMNS), **event}, place=self.arrived))
                self.arrived += 1
            case {"tick": "watermark"}:
                self.end_batch(tick=True)
            case {"clock": clock}:
                self.move(moment(clock))
                self.end_batch(tick=False)
            case {"crash": True}:
                self.end_batch(tick=False)
            case {"close": True}:
                self.end_batch(tick=True, close=True)

    def move(self, clock: int) -> None:
        self.clock = max(self.clock, clock)

    def arrive(self, stream: str, row: Row) -> None:
        """A row comes on a stream: to plain bolts at once, to windowed bolts, to the sink."""
        self.sunk.setdefault(stream, []).append(row.fields)
        for node in self.nodes:
            for name, grouping, columns in node.inputs:
                if name != stream:
                    continue
                if node.keeping is not None:
                    tasks: Any = range(node.tasks)
                    if grouping != "all":
                        alone = grouping == "global" or node.tasks == 1
                        tasks = [0 if alone else self.tasks(node.name, grouping, self.named(row, columns))]
                    node.keeping.waiting += [(task, row) for task in tasks]
                elif node.bolt is None:
                    copies = node.tasks if grouping == "all" else 1
                    for _ in range(copies):
                        for to, out in PLAIN_RULES[node.make[0]](node.make, row):
                            self.arrive(label(node.name, to), out)
                else:
                    self.deliver(node, name, grouping, columns, row)

    def deliver(self, node: Node, stream: str, grouping: str, columns: list[str], row: Row) -> None:
        bolt = node.bolt
        assert bolt is not None
        clock = self.clock if row.at is None or bolt.rules.key_trigger is None else row.at
        bolt.times.clock = max(bolt.times.clock, clock)
        if not bolt.event_time:
            bolt.move_clock(clock)
        own = row.time if bolt.rules.timestamp_field == INHERITED else None
        if bolt.rules.timestamp_field not in (None, INHERITED):
            said = row.fields.get(str(bolt.rules.timestamp_field))
            own = None if said is None else moment(said)
            if own is not None and row.time is not None and stream in self.inner:
                node.skew[stream] = max(node.skew.get(stream, 0), row.time - own)
        arrival = bolt.rules.arrival.field if bolt.rules.arrival is not None else None
        arrived = None if arrival is None or row.fields.get(arrival) is None else moment(row.fields[arrival])
        if grouping == "all" and node.tasks > 1:
            for each in range(node.tasks):  # one event for time, and one for each task in the accounts
                bolt.receive(row.fields, stream, own, arrived, task=each, copy=True, last=each == node.tasks - 1)
            return
        task: int | None = 0
        if grouping != "global" and node.tasks > 1:
            task = self.tasks(node.name, grouping, self.named(row, columns))
            if task is None and grouping == "shuffle" and row.place is not None:
                task = row.place % node.tasks
            node.tasks_are_known &= task is not None
            if task is None and any(kind is None or kind.counts or kind.merges for kind in bolt.kinds):
                raise Unsaid("on which task an event counts, or joins others, that no window shows")
        bolt.receive(row.fields, stream, own, arrived, task=task or 0)

    def named(self, row: Row, columns: list[str]) -> Json:
        return {
            "id": row.fields["id"],
            "by": tuple(row.fields.get(name) for name in columns),
            "place": row.place,
        }

    # ---- the end of a batch

    def end_batch(self, *, tick: bool, close: bool = False) -> None:
        """Each bolt in turn: what it emits comes to the bolts behind it in the same batch."""
        for node in self.nodes:
            bolt = node.bolt
            if node.keeping is not None:
                for stream, row in node.keeping.end_batch(self.clock):
                    self.arrive(label(node.name, stream), row)
                self.sunk[label(node.name, "told")] = node.keeping.hears
            if bolt is None:
                continue
            bolt.times.clock = max(bolt.times.clock, self.clock)
            bolt.move_clock(self.clock)
            promises = [self.promised(node, stream) for stream in bolt.streams if stream in bolt.inner]
            if bolt.rules.watermark_per_key:
                known = [each for each in promises if each is not None]
                if len(bolt.inner) == len(bolt.streams) == len(known):  # decision 16, "behind windowed bolts the floor"
                    bolt.raise_floor(min(known))
                continue_with = []
            else:
                continue_with = [each for each in bolt.streams if each in bolt.inner]
            for stream, promise in zip(continue_with, promises, strict=False):
                bolt.times.promise(stream, promise)
            bolt.end_batch(tick=tick, close=close)
            fired, bolt.out = bolt.out, []
            self.emit(node, fired)
            self.divert(node, bolt)
        self.before = self.clock
        self.batch += 1

    def promised(self, node: Node, stream: str) -> int | None:
        """ "Behind other windowed bolts": the time before which nothing more comes on an input."""
        name, shift = self.inner[stream]
        source = next(each for each in self.nodes if each.name == name)
        assert source.bolt is not None
        until = hands_on(source.bolt)
        if until is None:
            return None
        assert node.bolt is not None
        until += shift
        if node.bolt.rules.timestamp_field != INHERITED:
            if stream not in node.skew:
                return None
            until -= max(node.skew[stream], 0)
        return until if takes_at_the_watermark(node.bolt) else until - 1

    def emit(self, node: Node, fired: list[Fired]) -> None:
        """Rows of the windows, by tasks and then by windows ("The order of arrival")."""
        alike = itertools.groupby(fired, key=lambda one: (one.window.end, one.window.start, one.window.place))
        in_turn = [one for _, group in alike for one in sorted(group, key=partial(self.place, node))]
        in_turn.sort(key=task_of)
        if self.stops and any(self.breaks(node, one) for one in in_turn):
            raise Stop([f"bolt {node.name!r} was to be called", f"bolt {node.name!r} took more than"])
        for one in in_turn:
            time = self.time_of(node, one)
            at = None
            if node.rules.key_trigger is not None:  # "at the moment its window fired"
                at = min(max(one.window.end, self.before), self.clock)
            for stream, fields, own in rows_of.rows(node, one):
                row = Row(fields, time if own is None else own, at=at)
                self.arrive(label(node.name, stream), row)
        if node.make[0] == "temporal_join":
            assert node.bolt is not None
            for fields, moment_of_row in ready.temporal_join(node.make, node.memory, node.bolt):
                self.arrive(node.name, Row(fields, moment_of_row))

    def breaks(self, node: Node, fired: Fired) -> bool:
        """True if a call with this window ends the run."""
        found = limits.breaks(node.limits, fired.content)
        return self.may_stop_in == self.batch if found is None else found

    def place(self, node: Node, fired: Fired) -> int:
        window, key = fired.window, fired.window.key
        end = None if window.end == -FOREVER else milliseconds(window.end)
        shown = None if not key or not node.rules.key else key[0] if len(key) == 1 else list(key)
        pane = None if fired.pane is None else fired.pane["index"]
        return self.places(node.name, milliseconds(window.start), end, shown, pane)

    def time_of(self, node: Node, fired: Fired) -> int | None:
        if node.bolt is None or not node.bolt.event_time:
            return None
        window, reached = fired.window, node.bolt.reached
        waited = max(0, reached - window.end) if window.at_end and reached is not None else 0
        match node.rules.output_time:
            case OutputTime.START if window.start is not None:
                return window.start + waited
            case OutputTime.LAST:
                return window.end - 1 + waited
        return window.end + waited

    def divert(self, node: Node, bolt: Bolt) -> None:
        """The late stream: the events, and the time that each had; and those that a rule has refused."""
        turned, bolt.turned_away = bolt.turned_away, []
        refused, bolt.refused = bolt.refused, []
        for event in refused:
            self.arrive(label(node.name, str(node.rules.refused_stream)), Row(event.fields))
        if node.rules.late_stream is not None:
            for event in turned:
                self.arrive(
                    label(node.name, node.rules.late_stream),
                    Row({**event.fields, "_event_time": milliseconds(event.time)}),
                )

    # ---- the answer

    def answer(self) -> Json:
        windows: dict[str, list[Json]] = {}
        counts: dict[str, int] = {}
        late: list[str] = []
        pending: list[str] = []
        gaps: list[str] = []
        events: list[Json] = []
        for node in self.nodes:
            if node.keeping is not None:
                for name in ("received", "windowed"):
                    counts[name] = counts.get(name, 0) + node.keeping.received
            if node.bolt is None:
                continue
            found = node.bolt.answer()
            windows[node.name] = found["windows"]
            for name, number in found["counts"].items():
                counts[name] = counts.get(name, 0) + number
            late += found["late"]
            pending += found["pending"]
            gaps += found["gaps"]
            events += found["events"]
        return {
            "windows": windows,
            "late": late,
            "pending": pending,
            "gaps": gaps,
            "events": events,
            "counts": counts,
            "outputs": self.sunk,
        }


def label(name: str, stream: str) -> str:
    return name if stream == "default" else f"{name}.{stream}"


def task_of(fired: Fired) -> int:
    """The task of a window."""
    key = fired.window.key
    if key and str(key[0]).startswith("task "):
        return int(str(key[0]).removeprefix("task "))
    return fired.content[0].task if fired.content else 0


def hands_on(bolt: Bolt) -> int | None:
    """A time before which a bolt emits nothing more."""
    rules, until = bolt.rules, bolt.closed_until()
    if rules.watermark_per_key and not (bolt.closed and rules.close_fires):
        floors = [each for each in (bolt.floor, bolt.times.floor) if each is not None]
        return max(floors) - rules.allowed_lateness.micros - int(bolt.waits) if floors else None
    if until is None:
        return None
    if (rules.output_watermark or rules.output_time) is not OutputTime.START:
        return until
    if isinstance(bolt.kinds[0], Onset):
        return until
    if isinstance(bolt.kinds[0], Hopping) and len(bolt.kinds) == 1:  # SI-24: the first window that may still close
        grid = bolt.of(None, 0)
        assert isinstance(grid, Fixed)
        return grid.next_edges(until)[0]
    raise Unsaid("where the earliest window begins that may yet open, if its start depends on events")


def takes_at_the_watermark(bolt: Bolt) -> bool:
    """Whether an event at the very watermark is always in time, and all its windows are still to come."""
    return bolt.rules.bounds is Bounds.START and not bolt.waits and None not in bolt.kinds


# ---- plain bolts

PLAIN = {
    "filter": ("default",),
    "shift": ("default",),
    "sides": ("default", "odd"),
    "renamed": ("default",),
    "kept": ("default", "odd"),
}


def passed(row: Row) -> Row:
    """With the columns that bolts of the tests pass on."""
    return replace(row, fields={name: row.fields.get(name) for name in rows_of.COLUMNS})


def _filter(make: list[Any], row: Row) -> list[tuple[str, Row]]:
    return [("default", passed(row))] if row.fields["v"] % make[1] else []


def _shift(make: list[Any], row: Row) -> list[tuple[str, Row]]:
    by = duration(make[1])
    return [("default", replace(row, time=None if row.time is None else row.time + by, place=None))]


def _sides(make: list[Any], row: Row) -> list[tuple[str, Row]]:
    return [("odd" if row.fields["v"] % 2 else "default", passed(row))]


def _renamed(make: list[Any], row: Row) -> list[tuple[str, Row]]:
    fields = {name: row.fields.get(name) for name in rows_of.COLUMNS} | {"ts": row.fields["_event_time"]}
    return [("default", Row({**fields, "id": f"{make[1]}:{fields['id']}"}, place=row.place))]


PLAIN_RULES: dict[str, Callable[[list[Any], Row], list[tuple[str, Row]]]] = {
    "filter": _filter,
    "shift": _shift,
    "sides": _sides,
    "renamed": _renamed,
}
