"""The product's topology of a case: the bolts of ``rows``, ``ready`` and ``plain``, as a user would write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from time import sleep
from typing import Any, ClassVar

import pyarrow as pa

from tests.oracles.interpreter.own_drawn import EVICTIONS, KEY_TRIGGERS, TRIGGERS
from tests.oracles.interpreter.plain import MOST
from tests.oracles.interpreter.rows import HANGS_AT
from tests.oracles.interpreter.values import Json
from topologies.graph.graph import stream_label
from topologies.io import sinks, spouts
from topologies.scenarios.scenario_bolt import bare_bolt, imports_of, schema_of
from topologies.scenarios.scenario_model import Scenario, read_scenario
from topologies.scenarios.script import ScenarioSpout
from topologies.topology import Topology, TopologyBuilder
from windowing import (
    AggregateBolt,
    Bolt,
    Changes,
    Deduplicate,
    Emit,
    Rank,
    RateLimit,
    ShiftTime,
    Silence,
    StatefulBatchBolt,
    StatefulBolt,
    StatefulWindowedBolt,
    TemporalJoin,
    TopN,
    Tuple,
    TupleWindow,
    Union,
    WindowedBolt,
    WindowJoin,
    aggregates,
    micros,
    millis,
)
from windowing.errors import TopologyError
from windowing.schema import DEFAULT_STREAM
from windowing.settings import WindowSettings
from windowing.settings.panes import PaneMode
from windowing.settings.rules import SOURCE
from windowing.spout import PartitionedSpout

SCHEMA = (
    "id string, k string, q string, v long, x double, ts timestamp, m string, p string, at timestamp, until timestamp, "
    "gap long, cti timestamp, shape string"
)
PASSED = "id string, k string, q string, v long, ts timestamp, m string"


def passed(event: Any, name: str) -> Json:
    return {**{column: event[column] for column in ("k", "q", "v", "ts", "m")}, "id": name}


# ---- windowed bolts


class Gather(WindowedBolt):
    """A row for each window, and one for each event in it."""

    outputs: ClassVar[dict[str, str]] = {"default": PASSED, "each": PASSED}

    hangs = False
    """Whether a call with an event of one value does not end."""

    def __init__(self, name: str, always_ends: bool = False) -> None:
        """``always_ends``: windows of policies have no start, and only their ends tell some of them apart."""
        self.name, self.always_ends = name, always_ends

    def execute(self, window: TupleWindow) -> Iterator[Any]:
        name, held = self.named(window), window.table.to_pylist()
        while self.hangs and any(each["v"] == HANGS_AT for each in held):
            sleep(0.001)
        if held:
            times = [each["ts"] for each in held if each["ts"] is not None]
            yield {**passed(held[0], name), "v": len(held), "ts": min(times, default=None)}
        for each in held:
            yield Emit(passed(each, f"{name}:each:{each['id']}"), stream="each")

    def named(self, window: TupleWindow) -> str:
        is_told = self.always_ends or (window.end is not None and window.start is not None)
        end: Any = window.end_timestamp if is_told else ""
        pane = "" if window.pane is None else f"#{window.pane.index}"
        return f"{self.name}({'+'.join(window.table.column('id').to_pylist())})@{end}{pane}"


class Numbered(Gather, StatefulWindowedBolt):
    """Tells how many windows of the key have fired since it was forgotten."""

    state_types: ClassVar[dict[str, Any]] = {"fired": dict}

    def named(self, window: TupleWindow) -> str:
        fired, key = self.state["fired"], str(window.key)
        fired[key] = fired.get(key, -1) + 1
        return f"{super().named(window)}!{fired[key]}"

    def forget(self, key: Any) -> None:
        self.state["fired"].pop(str(key), None)


class Gone(Gather):
    """And one for each event that has expired."""

    outputs: ClassVar[dict[str, str]] = {"default": PASSED, "each": PASSED, "gone": PASSED}

    def execute(self, window: TupleWindow) -> Iterator[Any]:
        yield from super().execute(window)
        for each in window.expired.to_pylist():
            yield Emit(passed(each, f"{self.named(window)}:gone:{each['id']}"), stream="gone")


class Told(WindowedBolt):
    """Emits a row for each window: which it is, and its events."""

    outputs: ClassVar[dict[str, str]] = {
        "default": "start long, end long, key string, kind long, events string, number long",
    }

    def execute(self, window: TupleWindow) -> Json:
        return {
            "start": window.start_timestamp,
            "end": window.end_timestamp,
            "key": str(as_texts(window.key)),
            "kind": window.kind,
            "events": ",".join(window.table.column("id").to_pylist()),
            "number": self.counted(window.key),
        }

    def counted(self, key: Any) -> int | None:
        return None


class Counting(Told, StatefulWindowedBolt):
    """And how many windows of its key have fired by then, which a table holds."""

    def __init__(self, keys: dict[str, str]) -> None:
        """``keys``: the columns of the key, and the types in which the bolt keeps them."""
        self.keys = tuple(keys)
        columns = [*(f"of_{name} {kind}" for name, kind in keys.items()), "number long"]
        self.__dict__["state_types"] = {"fired": ", ".join(columns)}
        self.__dict__["state_keys"] = {"fired": {name: f"of_{name}" for name in keys}}

    def counted(self, key: Any) -> int | None:
        known, values = self.state["fired"].to_pylist(), key if len(self.keys) > 1 else (key,)
        of_key = {f"of_{name}": value for name, value in zip(self.keys, values, strict=True)}
        others = [row for row in known if any(row[name] != value for name, value in of_key.items())]
        number = sum(row["number"] for row in known if row not in others) + 1
        rows = [*others, {**of_key, "number": number}]
        self.state["fired"] = pa.Table.from_pylist(rows, self.state["fired"].schema)
        return number


def as_texts(key: Any) -> Any:
    """A key, as the interpreter has it."""
    if isinstance(key, list | tuple):
        return type(key)(as_texts(each) for each in key)
    return None if key is None else str(key)


# ---- bolts without windows


class Filter(Bolt):
    outputs = PASSED

    def __init__(self, by: int) -> None:
        self.by = by

    def execute(self, event: Tuple) -> Any:
        return passed(event, event["id"]) if event["v"] % self.by else None


class Sides(Bolt):
    outputs: ClassVar[dict[str, str]] = {"default": PASSED, "odd": PASSED}

    def execute(self, event: Tuple) -> Any:
        return Emit(passed(event, event["id"]), stream="odd" if event["v"] % 2 else "default")


class Renamed(Bolt):
    """The columns of a late stream, without those that late streams add."""

    outputs = PASSED

    def __init__(self, name: str) -> None:
        self.name = name

    def execute(self, event: Tuple) -> Any:
        return {**passed(event, f"{self.name}:{event['id']}"), "ts": event["_event_time"]}


class Keeps(StatefulBolt):
    """The rules of ``plain.Keeping``."""

    outputs: ClassVar[dict[str, str]] = {"default": PASSED, "odd": PASSED, "told": PASSED}
    state_types: ClassVar[dict[str, Any]] = {"number": int, "last": "id string"}

    def __init__(self, name: str) -> None:
        self.name = name

    def execute(self, event: Tuple) -> Any:
        row = self.step(event)
        return [row, Emit(row, stream="odd")] if self.is_odd(row) else row

    def step(self, event: Any) -> Json:
        self.state["number"] += 1
        ids = [*self.state["last"].column("id").to_pylist()[-1:], event["id"]]
        self.state["last"] = pa.table({"id": pa.array(ids, pa.string())})
        row = passed(event, f"{self.name}{self.state['number']}:{event['id']}")
        if event["v"] == 0:
            self.state = self.initial_state()
        return row

    def is_odd(self, row: Json) -> bool:
        return int(row["id"].split(":")[0].removeprefix(self.name)) % 2 == 1


class KeepsByClock(Keeps):
    def on_clock(self, clock: datetime) -> Any:
        number, key = self.state["number"], self.key if isinstance(self.key, tuple) else (self.key,)
        name = f"{self.name}!{'+'.join(map(str, key)) if self.settings.key else ''}:{number}"
        if number > MOST:
            self.state = self.initial_state()
        return Emit({"id": name, "k": None, "q": None, "v": number, "ts": clock, "m": None}, stream="told")


class KeepsOfTables(Keeps, StatefulBatchBolt):
    def execute(self, batch: Any) -> Any:
        rows, schema = [self.step(event) for event in batch.to_pylist()], self.output_schemas()["default"]
        yield pa.Table.from_pylist(rows, schema)
        yield Emit(pa.Table.from_pylist([row for row in rows if self.is_odd(row)], schema), stream="odd")


class KeepsOfTablesByClock(KeepsOfTables, KeepsByClock):
    pass


def kept(name: str, key: list[str], tables: bool, every: int | None) -> Any:
    kind = (KeepsOfTables if tables else Keeps) if every is None else (KeepsOfTablesByClock if tables else KeepsByClock)
    bolt = kind(name) if every is None else kind(name).with_clock(micros(every))
    return bolt.with_key(*key) if key else bolt


# ---- bolts of cases

MADE: dict[str, Callable[..., Any]] = {
    "filter": lambda name, by: Filter(by),
    "sides": lambda name: Sides(),
    "renamed": lambda name, before: Renamed(before),
    "shift": lambda name, by: ShiftTime(by),
    "kept": kept,
    "gather": Gather,
    "gone": Gone,
    "own": lambda name, trigger, eviction: Gather(name, always_ends=True).with_policies(
        trigger=TRIGGERS[trigger](), eviction=EVICTIONS[eviction]()
    ),
    "triggered": lambda name, trigger, limits: Numbered(name).with_trigger(KEY_TRIGGERS[trigger](), **limits),
    "deduplicate": lambda name, by, within: Deduplicate(by, within=millis(within), rest="rest"),
    "rate_limit": lambda name, limit, by, per: RateLimit(limit, by=by, per=millis(per), rest="rest"),
    "changes": lambda name, by, of, within: Changes(
        by, of=of, within=None if within is None else millis(within), rest="rest"
    ),
    "silence": lambda name, by, after: Silence(millis(after), by=by),
    "union": lambda name: Union(),
    "top": lambda name, number, order_by, by, descending: TopN(number, order_by, by=by, descending=descending),
    "rank": lambda name, method, order_by, by, descending: Rank(order_by, by=by, method=method, descending=descending),
    "window_join": lambda name, left, right, on, how: WindowJoin(left, right, on=on, how=how),
    "temporal_join": lambda name, left, right, on, how, versions: TemporalJoin(
        left, right, on=on, how=how, versions=versions
    ),
    "aggregate": lambda name, by, named: AggregateBolt(
        by or None, **{each: aggregate(*given) for each, given in named.items()}, till=aggregates.window_end()
    ),
}
PLACES = {"length", "session", "snapshot", "sliding_log", "count_by_start", "calendar", "windows"}


def aggregate(what: str, *given: Any) -> Any:
    if what in ("max_by", "min_by", "top", "bottom"):
        *given, by = given  # type: ignore[assignment]
        return getattr(aggregates, what)(*given, by=by)
    return getattr(aggregates, what)(*given)


def rules_of(node: Json) -> WindowSettings:
    """The settings of a windowed bolt, as the product declares and reads them."""
    if node["make"][0] in ("told", "gather", "gone"):
        streams = [stream for stream, *_ in node["inputs"]] if node["make"] == ["told"] else ["s1"]
        return read_scenario({"name": "drawn", "bolt": node["bolt"], "streams": streams, "steps": []}).rules
    rules: WindowSettings = bolt_of(node).settings
    return rules


def bolt_of(node: Json) -> Any:
    """The bolt of a node, with its settings and its limits."""
    bolt, limits = MADE[node["make"][0]](node["name"], *node["make"][1:]), node.get("limits")
    if node["make"][0] in ("gather", "gone"):
        bolt = bolt.configured(rules_of(node))
    elif "bolt" in node:
        placed = PLACES & set(node["bolt"])
        parsed: Any = given_by(node["bolt"] if placed else {"length": 1, **node["bolt"]})
        bolt = bare_bolt(parsed if placed else parsed.model_copy(update={"length": None}), bolt=bolt)
    if limits is not None:
        bolt.hangs = limits.get("call_time") == "400ms"
        bolt = bolt.with_limits(**limits)
    return bolt


def given_by(settings: Json) -> Any:
    """What a scenario file says of a bolt."""
    return read_scenario({"name": "drawn", "bolt": settings, "steps": []}).bolt


# ---- topologies


def build(case: Json) -> Topology:
    builder = TopologyBuilder("drawn")
    for name in case["spouts"]:
        times = case.get("times", {}).get(name)
        preset = None if times is None else given_by({"length": 1, "preset": times}).preset.preset
        builder.set_spout(name, spouts.memory(SCHEMA), time=preset)
    for node in case["bolts"]:
        declarer = builder.set_bolt(node["name"], bolt_of(node), node.get("tasks", 1))
        for name, grouping, columns in node["inputs"]:
            component, _, stream = name.partition(".")
            getattr(declarer, f"{grouping}_grouping")(component, *columns, **({"stream": stream} if stream else {}))
    for name in (name for node in case["bolts"] for name in node["sinks"]):
        component, _, stream = name.partition(".")
        builder.set_sink(sink_of(name), sinks.memory()).from_(component, **({"stream": stream} if stream else {}))
    return builder.build()


def sink_of(stream: str) -> str:
    return "to_" + stream.replace(".", "_")


class Partitioned(PartitionedSpout):
    """A source with partitions; its events come in splits of the case."""

    def __init__(self, schema: pa.Schema) -> None:
        self.__dict__["schema"] = schema

    def partitions(self) -> list[str]:
        raise NotImplementedError

    def end(self, partition: str, start: Any, limit: int) -> Any:
        raise NotImplementedError

    def read(self, partition: str, start: Any, end: Any) -> Any:
        raise NotImplementedError


def build_bare(scenario: Scenario, tasks: int = 1) -> Topology:
    """The bolt of a scenario, which emits its windows and, where that can be, takes back those of earlier firings; with
    several tasks by its key."""
    try:
        return _bare(scenario, tasks, retracting=True)
    except TopologyError:
        return _bare(scenario, tasks, retracting=False)


def _bare(scenario: Scenario, tasks: int, *, retracting: bool) -> Topology:
    assert scenario.bolt is not None
    builder, streams, source = TopologyBuilder("drawn"), scenario.streams, scenario.meta.get("source")
    keys, columns = dict.fromkeys(scenario.rules.key, "string"), dict(scenario.columns)
    if are_numbers(scenario):  # the bolt keeps them in another type than that by which its events are grouped
        keys = dict.fromkeys(keys, "double")
        columns |= dict.fromkeys(keys, "whole")
    schema = schema_of(scenario.rules, columns)
    if source is None:
        spout: Any = ScenarioSpout(tuple(streams), schema)
        builder.set_spout("events", spout)
        places = {stream: ("events", stream) for stream in streams}
    else:
        places = {stream: (stream, DEFAULT_STREAM) for stream in streams}
        for stream in streams:
            builder.set_spout(stream, Partitioned(schema))
    labels = {stream: stream_label(place) for stream, place in places.items()}
    imports = {labels[to]: labels[of] for to, of in (imports_of(scenario.bolt) or {}).items()}
    partitions: Any = scenario.partitions
    if isinstance(partitions, dict):
        partitions = {labels[stream]: names for stream, names in partitions.items()}
    bare = bare_bolt(scenario.bolt, imports, partitions, scenario.policies)
    if source is not None and bare.settings.watermark_partition is not SOURCE:
        bare = bare.with_watermark(partition=SOURCE)
    settings = bare.settings
    if retracting and settings.panes is not None and settings.panes.mode is PaneMode.ACCUMULATING:
        settings = replace(settings, panes=replace(settings.panes, mode=PaneMode.RETRACTING))
    declarer = builder.set_bolt("bolt", (Counting(keys) if keys else Told()).configured(settings), tasks)
    for component, stream in places.values():
        if tasks > 1 or keys:
            declarer.fields_grouping(component, *keys, stream=stream)
        else:
            declarer.global_grouping(component, stream=stream)
    builder.set_sink("rows", sinks.memory()).from_("bolt")
    return builder.build()


def are_numbers(scenario: Scenario) -> bool:
    """True if the keys of a scenario's events are whole numbers."""
    keys = [step.event.get(name) for step in scenario.event_steps for name in scenario.rules.key]
    return scenario.rules.listed_keys is None and {type(key) for key in keys} <= {int, type(None)} != {type(None)}
