"""The product's topology of a case: the bolts of ``graphs`` and ``rows``, as a user would write them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from time import sleep
from typing import Any, ClassVar

import pyarrow as pa

from tests.oracles.interpreter.keeping import MOST
from tests.oracles.interpreter.limits import HANGS_AT
from tests.oracles.interpreter.own_drawn import EVICTIONS, KEY_TRIGGERS, TRIGGERS
from tests.oracles.interpreter.values import Json
from topologies.io import sinks, spouts
from topologies.scenarios.scenario_bolt import bare_bolt
from topologies.scenarios.scenario_model import read_scenario
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
from windowing.settings import WindowSettings

SCHEMA = (
    "id string, k string, q string, v long, x double, ts timestamp, m string, p string, at timestamp, until timestamp, "
    "gap long, cti timestamp, shape string"
)
PASSED = "id string, k string, q string, v long, ts timestamp, m string"


class Gather(WindowedBolt):
    """A row for each window, and one for each event in it."""

    outputs: ClassVar[dict[str, str]] = {"default": PASSED, "each": PASSED}

    def __init__(self, name: str) -> None:
        self.name = name

    hangs = False
    """Whether a call with an event of one value does not end."""

    def execute(self, window: TupleWindow) -> Iterator[Any]:
        name, held = self.named(window), window.table.to_pylist()
        while self.hangs and any(each["v"] == HANGS_AT for each in held):
            sleep(0.001)
        if held:
            times = [each["ts"] for each in held if each["ts"] is not None]
            first = {column: held[0][column] for column in ("k", "q", "m")}
            yield {**first, "id": name, "v": len(held), "ts": min(times, default=None)}
        for each in held:
            yield Emit(passed(each, f"{name}:each:{each['id']}"), stream="each")

    def named(self, window: TupleWindow) -> str:
        end: Any = "" if window.end is None or window.start is None else window.end_timestamp
        pane = "" if window.pane is None else f"#{window.pane.index}"
        return f"{self.name}({'+'.join(window.table.column('id').to_pylist())})@{end}{pane}"


class Fired(Gather):
    """Windows of policies have no start, and two of them may hold the same events: their ends tell them apart."""

    def named(self, window: TupleWindow) -> str:
        return f"{self.name}({'+'.join(window.table.column('id').to_pylist())})@{window.end_timestamp}"


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


def passed(event: Any, name: str) -> Json:
    return {**{column: event[column] for column in ("k", "q", "v", "ts", "m")}, "id": name}


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
    """The rules of ``keeping.Keeping``."""

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


def made(node: Json) -> Any:
    """The bolt of a node, with its settings and its limits."""
    bolt, limits = without_limits(node), node.get("limits")
    if limits is None:
        return bolt
    bolt.hangs = limits.get("call_time") == "400ms"
    return bolt.with_limits(**limits)


def without_limits(node: Json) -> Any:
    make = node["make"]
    match make[0]:
        case "filter":
            return Filter(make[1])
        case "sides":
            return Sides()
        case "renamed":
            return Renamed(make[1])
        case "shift":
            return ShiftTime(make[1])
    match make:
        case ["kept", key, tables, every]:
            kinds = {(False, False): Keeps, (False, True): KeepsByClock, (True, False): KeepsOfTables}
            kept = kinds.get((tables, every is not None), KeepsOfTablesByClock)(node["name"])
            kept = kept if every is None else kept.with_clock(micros(every))
            return kept.with_key(*key) if key else kept
        case ["gather"]:
            return Gather(node["name"]).configured(settings_of(node))
        case ["gone"]:
            return Gone(node["name"]).configured(settings_of(node))
        case ["own", trigger, eviction]:
            bolt: WindowedBolt = Fired(node["name"]).with_policies(
                trigger=TRIGGERS[trigger](), eviction=EVICTIONS[eviction]()
            )
        case ["triggered", trigger, limits]:
            bolt = Numbered(node["name"]).with_trigger(KEY_TRIGGERS[trigger](), **limits)
        case ["deduplicate", by, within]:
            bolt = Deduplicate(by, within=millis(within), rest="rest")
        case ["rate_limit", limit, by, per]:
            bolt = RateLimit(limit, by=by, per=millis(per), rest="rest")
        case ["changes", by, of, within]:
            bolt = Changes(by, of=of, within=None if within is None else millis(within), rest="rest")
        case ["silence", by, after]:
            bolt = Silence(millis(after), by=by)
        case ["union"]:
            bolt = Union()
        case ["top", number, order_by, by, descending]:
            bolt = TopN(number, order_by, by=by, descending=descending)
        case ["rank", method, order_by, by, descending]:
            bolt = Rank(order_by, by=by, method=method, descending=descending)
        case ["window_join", left, right, on, how]:
            bolt = WindowJoin(left, right, on=on, how=how)
        case ["temporal_join", left, right, on, how, versions]:
            bolt = TemporalJoin(left, right, on=on, how=how, versions=versions)
        case ["aggregate", by, named]:
            made_of = {name: aggregate(*given) for name, given in named.items()}
            bolt = AggregateBolt(by or None, **made_of, till=aggregates.window_end())
        case _:
            raise AssertionError(make)
    placed = PLACES & set(node["bolt"])
    given = node["bolt"] if placed else {"length": 1, **node["bolt"]}
    parsed = read_scenario({"name": "drawn", "bolt": given, "steps": []}).bolt
    assert parsed is not None
    if not placed:
        parsed = parsed.model_copy(update={"length": None})
    return bare_bolt(parsed, bolt=bolt)


def aggregate(what: str, *given: Any) -> Any:
    if what in ("max_by", "min_by", "top", "bottom"):
        *given, by = given  # type: ignore[assignment]
        return getattr(aggregates, what)(*given, by=by)
    return getattr(aggregates, what)(*given)


PLACES = {"length", "session", "snapshot", "sliding_log", "count_by_start", "calendar", "windows"}


def preset_of(given: Any) -> Any:
    """One of the presets, as files write it."""
    if given is None:
        return None
    bolt = read_scenario({"name": "drawn", "bolt": {"length": 1, "preset": given}, "steps": []}).bolt
    assert bolt is not None
    assert bolt.preset is not None
    return bolt.preset.preset


def settings_of(node: Json) -> WindowSettings:
    """The settings of a bolt of scenario files."""
    return read_scenario({"name": "drawn", "bolt": node["bolt"], "steps": []}).rules


def build(case: Json) -> Topology:
    builder = TopologyBuilder("drawn")
    for name in case["spouts"]:
        builder.set_spout(name, spouts.memory(SCHEMA), time=preset_of(case.get("times", {}).get(name)))
    streams = list(case["spouts"])
    for node in case["bolts"]:
        bolt = made(node)
        declarer = builder.set_bolt(node["name"], bolt, node.get("tasks", 1))
        for name, grouping, columns in node["inputs"]:
            component, _, stream = name.partition(".")
            source = {"stream": stream} if stream else {}
            match grouping:
                case "fields":
                    declarer.fields_grouping(component, *columns, **source)
                case "shuffle":
                    declarer.shuffle_grouping(component, **source)
                case "global":
                    declarer.global_grouping(component, **source)
                case "all":
                    declarer.all_grouping(component, **source)
        streams += node["sinks"]
    for name in streams[len(case["spouts"]) :]:
        component, _, stream = name.partition(".")
        source = {"stream": stream} if stream else {}
        builder.set_sink(sink_of(name), sinks.memory()).from_(component, **source)
    return builder.build()


def sink_of(stream: str) -> str:
    return "to_" + stream.replace(".", "_")
