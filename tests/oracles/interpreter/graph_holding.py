"""The product's answers to drawn topologies held against the interpreter's, and what differs made small."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from random import Random
from typing import Any

from tests.oracles.interpreter import asking, graph_bolts, graph_cases
from tests.oracles.interpreter.bolt import Bolt, settled
from tests.oracles.interpreter.driving import Driven, Played, driven
from tests.oracles.interpreter.graphs import Graph, Node, Unsaid
from tests.oracles.interpreter.holding import accounts, first_problem, shown, unlike, unlike_stop
from tests.oracles.interpreter.shrinking import shrunk
from tests.oracles.interpreter.values import Json, moment
from topologies.scenarios.scenario_model import read_scenario
from windbolt import replay

VARIANTS = ("as it is", "in one batch", "cut", "a batch per event")
DRIVEN = ("as it is", "asked", "saved", "gone back", "asked", "copied")
"""How the product comes to its answer (``driving``); each with all variants."""


@dataclass
class GraphsHeld:
    """What became of drawn topologies."""

    held: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    unsaid: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)


def hold(
    numbers: Iterable[int], seed: int, *, shape: str | None = None, stop_at: int = 10**9, small: bool = True
) -> GraphsHeld:
    """Draw these topologies, and hold each against the product; those that differ are made small."""
    found = GraphsHeld()
    for number in numbers:
        random = Random(seed * 1_000_003 + number)
        for _ in range(8):
            case = variant(random, graph_cases.draw(random, shape), number)
            reason = refusal(case)
            if reason is None:
                break
            found.refused[reason] += 1
        else:
            continue
        try:
            wrong = differs(case)
        except Unsaid as error:
            found.unsaid[str(error)] += 1
            continue
        found.held += 1
        if wrong:
            if small:
                case, wrong = smaller(case, wrong)
            found.differences.append(shown(f"case {number}", wrong, case))
            if len(found.differences) >= stop_at:
                break
    return found


def variant(random: Random, case: Json, number: int) -> Json:
    case = {**case, "driven": DRIVEN[number // len(VARIANTS) % len(DRIVEN)]}
    match VARIANTS[number % len(VARIANTS)]:
        case "in one batch":
            return graph_cases.in_one_batch(case)
        case "cut":
            return graph_cases.recut(random, case)
        case "a batch per event":
            return graph_cases.with_crashes(case)
    return case


def refusal(case: Json) -> str | None:
    """Why ``build()`` refuses a topology; None if it does not."""
    return first_problem(lambda: graph_bolts.build(case))


def differs(case: Json) -> list[str]:
    case = {**case, "steps": list(graph_cases.of_one_clock(case["steps"]))}
    scenario = read_scenario({"name": "drawn", "topology": "x.py:y", "steps": case["steps"]})
    asks = tuple(node["name"] for node in case["bolts"] if node["make"][0] in ("gather", "gone"))
    try:
        keeps = tuple(node["name"] for node in case["bolts"] if node["make"][0] == "kept")
        played = Played(scenario, graph_bolts.build(case), asks, keeps)
        drove = driven(case.get("driven", "as it is"), played, Random(len(case["steps"])))
    except Exception as error:
        return [f"{type(error).__name__}: {str(error)[:200]}"]
    graph = interpreted(case, drove)
    found = list(unlike_stop(graph.stopped, drove.stopped))
    if found:
        return found
    found = list(compared(case, graph.answer(), drove.answer))
    for node in graph.nodes:
        if node.name in asks and node.bolt is not None:
            found += told(node, node.bolt, drove)
        if node.bolt is not None:
            for number, (keys, of_keys) in enumerate(zip(drove.keys, node.bolt.of_keys, strict=True)):
                wrong = asking.unlike_keys(keys[node.name], of_keys)
                found += [f"{node.name} after batch {number}: {each}" for each in wrong]
        if node.keeping is not None:
            for number, (states, expected) in enumerate(zip(drove.opened, node.keeping.told, strict=True)):
                if sorted(states[node.name], key=str) != sorted(expected, key=str):
                    found.append(f"state of {node.name} after batch {number}: {states[node.name]}, expected {expected}")
    return found


def told(node: Node, bolt: Bolt, driven: Driven) -> Iterator[str]:
    """What the checkpoint said of a bolt after each batch."""
    name, without = node.name, bolt.counts_events or None in bolt.kinds or bolt.rules.empty_windows_until is not None
    if node.tasks_are_known and not without:
        for number, (opened, expected) in enumerate(zip(driven.opened, bolt.opened, strict=True)):
            if expected is not None and sorted(opened[name], key=str) != of_keys(expected):
                yield f"open in {name} after batch {number}: {opened[name]}, expected {of_keys(expected)}"
    for number, (state, said) in enumerate(zip(bolt.looks, driven.said, strict=bool(driven.said))):
        yield from (f"{name} asked after batch {number}: {each}" for each in asking.wrong(bolt, state, said[name]))


def of_keys(opened: list[Json]) -> list[Json]:
    """The open windows of all tasks, without these."""
    without = [{**row, "key": [each for each in row["key"] if not str(each).startswith("task ")]} for row in opened]
    return sorted(without, key=str)


def interpreted(case: Json, drove: Driven) -> Graph:
    """What the interpreter makes of it. Which task has the events of a key is the product's choice: it is taken from
    there.
    """
    return settled(partial(begun, case, drove), partial(play, case))


def begun(case: Json, drove: Driven) -> Graph:
    moved = [step.get("clock", step.get("arrival")) for step in case["steps"] if {"clock", "arrival"} & set(step)]
    assigned = Assigned(case, drove.answer)
    nodes = [
        Node(
            each["name"], each["make"], each["inputs"], each.get("tasks", 1),
            **(rules_of(case, each) if "bolt" in each else {}), limits=each.get("limits", {}),
        )
        for each in case["bolts"]
    ]  # fmt: skip
    graph = Graph(nodes, case["spouts"], moment(moved[0]) if moved else 0, assigned.task, assigned.place)
    graph.may_stop_in = None if drove.stopped is None else drove.stopped[0]
    for node in nodes:
        if node.bolt is not None:
            node.bolt.look = asking.known
    return graph


def rules_of(case: Json, node: Json) -> Json:
    """The rules of a bolt, and of inputs with their own: what the bolt does not say itself, its sources say; those of
    StreamInsight each for their inputs (SI-17, SI-18)."""
    said = {stream: times for stream, *_ in node["inputs"] for times in times_of(case, stream)}
    if "preset" in node["bolt"] or not any(said.values()):
        return {"rules": graph_bolts.made(node).settings}
    of = {
        stream: graph_bolts.made({**node, "bolt": {"preset": times, **node["bolt"]}}).settings
        for stream, times in said.items()
        if times is not None
    }
    first, *others = of.values()
    if all(each == first for each in others):
        return {"rules": first}
    return {"rules": replace(first, close_fires=all(each.close_fires for each in of.values())), "of_inputs": of}


def times_of(case: Json, stream: str) -> Iterator[Any]:
    """The rules of time of the sources that a stream comes from, without a windowed bolt between."""
    name = stream.split(".", maxsplit=1)[0]
    if name in case["spouts"]:
        yield case.get("times", {}).get(name)
    for node in case["bolts"]:
        if node["name"] == name and "bolt" not in node:
            for before, *_ in node["inputs"]:
                yield from times_of(case, before)


def play(case: Json, graph: Graph) -> None:
    """Up to the batch that stops it, where one does."""
    steps = case["steps"]
    if steps and "event" in steps[-1]:
        steps = [*steps, {"crash": True}]  # the last batch ends
    ends = [place + 1 for place, step in enumerate(steps) if "event" not in step]
    if graph.stopped is not None:
        steps = steps[: [0, *ends][graph.stopped.batch]]
    for step in steps:
        graph.take(step)


class Assigned:
    """The tasks of events, which are the product's choice: by their fields, in turns, or as the windows show them."""

    def __init__(self, case: Json, theirs: Json) -> None:
        self.of: dict[tuple[str, str], set[int]] = {}
        self.numbers = {node["name"]: node.get("tasks", 1) for node in case["bolts"]}
        only = [node["name"] for node in case["bolts"] if "bolt" in node]
        self.places: dict[tuple[str, Any, Any, str, Any], int] = {}
        for place, window in enumerate(theirs["windows"]):
            pane = window.get("pane", {}).get("index")
            name = window.get("bolt", only[0]), window["start"], window["end"], str(window.get("key")), pane
            self.places.setdefault(name, place)
            for event in window["events"] or ():
                self.of.setdefault((window.get("bolt", only[0]), event), set()).add(window.get("task", 0))

    def task(self, bolt: str, grouping: str, named: Json) -> int | None:
        if grouping == "fields":
            return tasks_of_values(self.numbers[bolt], len(named["by"]))[named["by"]]
        if named["place"] is not None:  # "by its position in the source"
            return int(named["place"]) % self.numbers[bolt]
        tasks = self.of.get((bolt, named["id"]), {None})
        if len(tasks) > 1:
            raise Unsaid("which of several rows of one name went to which task")
        return next(iter(tasks))

    def place(self, bolt: str, start: Any, end: Any, key: Any, pane: int | None) -> int:
        """Where a firing stands among those of the same end and start, which follow in the order of their hashes."""
        return self.places.get((bolt, start, end, str(key), pane), 0)


@cache
def tasks_of_values(tasks: int, columns: int) -> dict[tuple[Any, ...], int]:
    """To which of so many tasks a fields grouping sends the values that are drawn, in every bolt: asked of one bolt."""
    values = list(itertools.product([None, "a", "b", "c", "d"], repeat=columns))
    by = ["k", "q"][:columns]
    events = [{"id": str(at), "ts": at, **dict(zip(by, each, strict=True))} for at, each in enumerate(values)]
    node = {"name": "a", "make": ["gather"], "bolt": {"length": 1, "timestamp_field": "ts"}, "tasks": tasks}
    case = {"spouts": ["s1"], "bolts": [{**node, "inputs": [["s1", "fields", by]], "sinks": []}]}
    steps = [*({"event": event, "stream": "s1"} for event in events), {"close": True}]
    found = replay({"name": "tasks", "topology": "x.py:y", "steps": steps}, graph_bolts.build(case)).windows
    return {values[int(window["events"][0])]: window["task"] for window in found}


def compared(case: Json, mine: Json, theirs: Json) -> Iterator[str]:
    only = [node["name"] for node in case["bolts"] if "bolt" in node]
    for bolt in only:
        if next(each["make"][0] for each in case["bolts"] if each["name"] == bolt) in WITHOUT_WINDOWS:
            continue
        got = [window for window in theirs["windows"] if window.get("bolt", only[0]) == bolt]
        yield from windows(case, bolt, mine["windows"][bolt], got)
    late = set if "all" in str(case["bolts"]) else list  # copies of a late event are listed once
    if sorted(late(mine["late"])) != sorted(late(theirs["late"])):
        yield f"late: {theirs['late']}, expected {mine['late']}"
    if {each["make"][0] for each in case["bolts"]} & {"silence", "temporal_join"}:  # which events it needs is its own
        theirs = {**theirs, "pending": mine["pending"], "counts": {**theirs["counts"], **of_windows(mine["counts"])}}
    yield from accounts(mine, theirs)
    for node in case["bolts"]:
        for stream in node["sinks"]:
            mine_of, names = mine["outputs"].get(stream, []), set[str]()
            for row in mine_of:
                names |= set(row)
            rows = sorted(map(text, mine_of))
            got_of = theirs["outputs"][graph_bolts.sink_of(stream)]
            got_rows = sorted(text({name: row[name] for name in row if name in names}) for row in got_of)
            if stream.endswith((".late", ".refused")):
                rows, got_rows = [each.split(",")[0] for each in rows], [each.split(",")[0] for each in got_rows]
            more = sorted((Counter(got_rows) - Counter(rows)).elements())
            less = sorted((Counter(rows) - Counter(got_rows)).elements())
            if len(more) != len(less) or not all(map(alike, more, less)):
                yield f"rows of {stream}: {more[:3]}, expected {less[:3]}"


WITHOUT_WINDOWS = {"deduplicate", "rate_limit", "changes", "union", "silence", "temporal_join"}
"""Ready bolts whose rows are compared, and not the windows that they have inside."""


def of_windows(counts: dict[str, int]) -> dict[str, int]:
    return {name: counts[name] for name in ("windowed", "unwindowed", "pending")}


def text(row: Json) -> str:
    names = ("id", *sorted(set(row) - {"id"}))
    return ", ".join(f"{name} {plain(row[name])}" for name in names if row.get(name) is not None)


def plain(value: Any) -> Any:
    """Numbers to nine digits: the last ones may depend on batches (guide, "Aggregates")."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    return f"{value:.9g}" if isinstance(value, float | int) and not isinstance(value, bool) else value


def alike(one: str, other: str) -> bool:
    """Whether the texts of two rows differ in no more than the ninth digit of numbers, which a tenth that is a 5 rounds
    either way."""
    words = [each.split() for each in (one.replace(",", " ,"), other.replace(",", " ,"))]
    return len(words[0]) == len(words[1]) and all(a == b or close(a, b) for a, b in zip(*words, strict=True))


def close(one: str, other: str) -> bool:
    try:
        return math.isclose(float(one), float(other), rel_tol=1.1e-8)
    except ValueError:
        return False


def windows(case: Json, bolt: str, mine: list[Json], theirs: list[Json]) -> Iterator[str]:
    node = next(each for each in case["bolts"] if each["name"] == bolt)
    text = str(node["bolt"])
    tasks = any("task" in window for window in mine)
    theirs = [{**one} for one in theirs]
    if any(one["events"] is None or None in one["events"] for one in theirs):
        return  # sums of events without ids
    mine = [{**one} for one in mine]
    for one in (*mine, *theirs):
        if node["make"][0] != "gone":
            one.pop("expired", None)
        if node["make"][0] == "aggregate":  # sums are listed group by group
            one["events"] = sorted(one["events"])
        if node["make"][0] in ("own", "triggered", "aggregate"):
            one.pop("new", None)
            one.pop("by", None)
        if "max_duration" in text and "panes" in text:
            one.pop("new", None)
            one.pop("pane", None)

    names = ("key", *(["task"] if tasks else []), "kind", "end", "start", "pane", "events")
    wanted, got = (sorted(each, key=lambda one: str([one.get(name) for name in names])) for each in (mine, theirs))
    yield from unlike(f"window of {bolt}", wanted, got)


# ---- making small


def smaller(case: Json, found: list[str]) -> tuple[Json, list[str]]:
    """Without every step, setting and bolt that the difference does not need."""
    return shrunk(case, found, without_one, refusal, differs, seconds=8)


def without_one(case: Json) -> Iterator[Json]:
    steps, bolts = case["steps"], case["bolts"]
    for size in (8, 4, 2, 1):
        for place in range(len(steps) - size, -1, -1):
            yield {**case, "steps": steps[:place] + steps[place + size :]}
    if "times" in case:
        yield {name: value for name, value in case.items() if name != "times"}
    if len(bolts) > 1:
        yield {**case, "bolts": bolts[:-1]}
    for place, node in enumerate(bolts):
        changes: list[Json] = [{"tasks": 1}] if node.get("tasks", 1) > 1 else []
        changes += [{"sinks": []}] if node["sinks"] else []
        changes += [{"make": ["gather"], "sinks": [s for s in node["sinks"] if not s.endswith(".gone")]}] * (
            node["make"] == ["gone"]
        )
        changes += [{"bolt": {k: v for k, v in node["bolt"].items() if k != name}} for name in node.get("bolt", ())]
        if len(node["inputs"]) > 1:
            changes += [{"inputs": [each]} for each in node["inputs"]]
        for change in changes:
            yield {**case, "bolts": [*bolts[:place], {**node, **change}, *bolts[place + 1 :]]}
    for place, step in enumerate(steps):
        for name in ("clock", "arrival"):
            if name in step and "event" in step:
                yield {
                    **case,
                    "steps": [*steps[:place], {k: v for k, v in step.items() if k != name}, *steps[place + 1 :]],
                }
        for name in set(step.get("event", ())) - {"id", "ts", "k", "v"}:
            event = {k: v for k, v in step["event"].items() if k != name}
            yield {**case, "steps": [*steps[:place], {**step, "event": event}, *steps[place + 1 :]]}
