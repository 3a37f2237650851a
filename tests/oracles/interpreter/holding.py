"""The product's answers to drawn bolts and topologies held against the interpreter's, and what differs made small."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from random import Random
from time import process_time
from typing import Any

import yaml

from tests.helpers.recut import run_cut
from tests.oracles.interpreter import cases, rows, topology_cases, written
from tests.oracles.interpreter.bolt import Bolt, Stop, resolved
from tests.oracles.interpreter.driving import WAYS, Drive, driven, may_have_tasks, standing
from tests.oracles.interpreter.plain import Row
from tests.oracles.interpreter.topology import Choices, Node, Topology, Unsaid, play, rules_of, source_of
from tests.oracles.interpreter.values import Json, ids, milliseconds
from topologies.scenarios.scenario_model import read_scenario
from topologies.scenarios.script import scenario_topology
from windbolt import replay
from windowing.errors import ConfigError, DataError, ScenarioError, TopologyError
from windowing.settings.rules import LateAction

# ---- drawing

VARIANTS: tuple[tuple[str, ...], ...] = (
    ("as it is", "asked", "saved"), ("cut",), ("split", "asked"), ("on disk", "saved"), ("hashed alike", "asked"),
    ("gone back",), ("rescaled",), ("copied", "saved"), ("cut",), ("repaired",), ("rescaled",),
)  # fmt: skip
"""How the product comes to its answer (``driving``) for a bolt, those of one number in turn; "cut": other batches, for
the interpreter too; "split": other batches for the product alone, where the answer does not depend on them."""
DRIVEN = ("as it is", "asked", "saved", "gone back", "asked", "copied")
"""The same for a topology; each with all ways of cutting its batches."""
ORDER = cases.pairs()
FIXED = 3 * len(ORDER)
"""The first cases of a seed: each setting and each pair of them, twice; and half as many groups of settings
between them. Of later ones two thirds are groups."""


@dataclass
class Drawn:
    """A case: a bolt or a topology that ``build()`` accepts and a stream for it; or why it refuses these settings."""

    number: int
    variant: str
    made: Json | None
    names: tuple[str, ...] = ()
    """The settings that a bolt was drawn for, none where it is a group; it may have others too."""
    reason: str = ""
    refused: int = 0
    """How many were drawn before that, and refused."""

    @property
    def settings(self) -> list[str]:
        """Those that the bolt has."""
        if self.made is None:
            return []
        by_source = {"watermark_partition"} if source_of(self.made) is not None else set[str]()
        return sorted((set(self.made["bolt"]) | by_source) & set(cases.VALUES))


def numbers_of(place: int) -> list[int]:
    """The numbers of the first cases that are drawn for one of the pairs."""
    return [3 * (at // 2) + at % 2 for at in (place, place + len(ORDER))]


def case(number: int, seed: int) -> Drawn:
    """A bolt, which depends on its number and the seed alone."""
    random = Random(seed * 1_000_003 + number)
    turn, third = divmod(number, 3)
    if third == 2 or (number >= FIXED and third == 1):
        names: tuple[str, ...] = ()
        made, reason = drawn(random, cases.group_of_settings(random))
    else:
        names = ORDER[(2 * turn + third) % len(ORDER)]
        made, reason = drawn(random, cases.pair_of_settings(random, names))
    turns, place = divmod(number + number // len(ORDER), len(VARIANTS))
    ways = VARIANTS[place]
    if made is not None and ways[0] in ("cut", "rescaled", "hashed alike", "repaired"):
        made = cases.recut(random, made)
    return Drawn(number, ways[turns % len(ways)], made, names, reason, int(made is None))


def drawn(random: Random, bolts: Iterator[Json]) -> tuple[Json | None, str]:
    """A scenario of the first bolt that ``build()`` accepts; else why it refuses the last one."""
    reason: str | None = ""
    for bolt in bolts:
        made = cases.without_steps(random, bolt)
        reason = refusal(made)
        if reason is None:
            named = {} if source_of(made) is None else {"watermark_partition": "p"}
            made["steps"] = list(cases.steps(random, bolt | named, made["streams"]))
            return cases.with_numbers(random, made), ""
    return None, reason or ""


def topology_case(number: int, seed: int, shape: str | None = None) -> Drawn:
    """A topology, of one shape if that is given."""
    random, reason = Random(seed * 1_000_003 + number), ""
    turn, place = divmod(number, len(topology_cases.CUTS))
    variant = DRIVEN[turn % len(DRIVEN)]
    for refused in range(8):
        made = topology_cases.cut(random, topology_cases.draw(random, shape), place)
        problem = refusal(made)
        if problem is None:
            return Drawn(number, variant, made, refused=refused)
        reason = problem
    return Drawn(number, variant, None, reason=reason, refused=8)


def refusal(made: Json) -> str | None:
    """Why ``build()`` refuses a bolt or a topology; None if it does not."""
    try:
        if "bolts" in made:
            written.build(made)
        else:
            (scenario_topology if source_of(made) is None else written.build_bare)(read_scenario(made))
    except (ConfigError, ScenarioError, TopologyError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return lines[min(1, len(lines) - 1)] if "problem" in lines[0] else lines[0]
    return None


# ---- holding


@dataclass
class Held:
    """What became of drawn cases."""

    held: int = 0
    refused: int = 0
    unsaid: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    """Cases whose two answers differ, as small as they could be made."""


def hold(drawn: Iterable[Drawn], *, stop_at: int = 10**9, small: bool = True) -> Held:
    """Hold each of these cases against the product; those that differ are made small."""
    found = Held()
    for one in drawn:
        found.refused += one.refused
        if one.made is None:
            continue
        made = one.made
        try:
            wrong = differs(made, one.variant)
        except Unsaid as error:
            found.unsaid[str(error)] += 1
            continue
        found.held += 1
        if wrong:
            made, wrong = smaller(made, one.variant, wrong) if small else (made, wrong)
            lines = [f"# {line}" for line in (f"case {one.number}", *wrong)]
            text = yaml.safe_dump(json.loads(json.dumps({"variant": one.variant, **made})), sort_keys=False, width=160)
            found.differences.append("\n".join([*lines, text]))
            if len(found.differences) >= stop_at:
                break
    return found


def differs(made: Json, variant: str) -> list[str]:
    """How the product's answer differs from the interpreter's; an error of either is a difference."""
    try:
        return unlike(made, variant)
    except Unsaid:
        raise
    except Exception as error:
        return [f"{type(error).__name__}: {str(error)[:200]}"]


def unlike(made: Json, variant: str) -> list[str]:
    case = as_topology(made)
    if variant == "split" and may_be_split(case):
        return list(split(made, case))
    drove = driven_by(made, case, variant)
    mine = play(case, Assigned(case, drove), drove.repairs)
    found = list(unlike_stop(mine.stopped, drove.stopped))
    return found or [*compared(mine, drove.answer, variant), *beside(mine, drove)]


def as_topology(made: Json) -> Json:
    """A drawn topology; or a drawn bolt as one of a single bolt."""
    if "bolts" in made:
        return {**made, "steps": list(topology_cases.of_one_clock(made["steps"]))}
    streams = made.get("streams", ["s1"])
    inputs = [[stream, "global", []] for stream in streams]
    node = {"name": "bolt", "make": ["told"], "bolt": made["bolt"], "inputs": inputs, "sinks": []}
    return {**made, "spouts": streams, "bolts": [node]}


def driven_by(made: Json, case: Json, variant: str) -> Drive:
    """The product's answer."""
    if "bolts" in made:
        scenario = read_scenario({"name": "drawn", "topology": "x.py:y", "steps": case["steps"]})
        return driven(variant, scenario, written.build(case))
    scenario = read_scenario(made)
    fits = variant in WAYS and (variant != "rescaled" or may_have_tasks(scenario))
    return driven(variant if fits else "as it is", scenario, written.build_bare(scenario))


class Assigned(Choices):
    """What the product's answer says of its choices: the tasks of events, by their fields, in turns, or as the windows
    show them; and the order of windows of the same end, which follow in that of the hashes of their keys."""

    def __init__(self, case: Json, drove: Drive) -> None:
        self.of: dict[tuple[str, str], set[int]] = {}
        self.numbers = {node["name"]: node.get("tasks", 1) for node in case["bolts"]}
        self.may_stop_in = None if drove.stopped is None else drove.stopped[0]
        only = [node["name"] for node in case["bolts"] if "bolt" in node]
        self.places: dict[str, int] = {}
        for place, window in enumerate(drove.answer["windows"]):
            name = window.get("bolt", only[0])
            self.places.setdefault(place_of(name, window), place)
            for event in window["events"] or ():
                self.of.setdefault((name, event), set()).add(window.get("task", 0))

    def task(self, bolt: str, grouping: str, by: tuple[Any, ...], row: Row) -> int | None:
        if grouping == "fields":
            return tasks_of_values(self.numbers[bolt], len(by))[by]
        if row.place is not None:  # "by its position in the source"
            return row.place % self.numbers[bolt]
        tasks = self.of.get((bolt, row.fields["id"]), {None})
        if len(tasks) > 1:
            raise Unsaid("which of several rows of one name went to which task")
        return next(iter(tasks))

    def place(self, bolt: str, shown: Json) -> int:
        return self.places.get(place_of(bolt, shown), 0)

    def stops(self, batch: int) -> bool:
        return self.may_stop_in == batch


def place_of(bolt: str, shown: Json) -> str:
    pane = (shown.get("pane") or {}).get("index")
    return str([bolt, shown["start"], shown["end"], str(shown.get("key")), pane, shown["events"]])


@cache
def tasks_of_values(tasks: int, columns: int) -> dict[tuple[Any, ...], int]:
    """To which of so many tasks a fields grouping sends the values that are drawn, in every bolt: asked of one bolt."""
    values = list(itertools.product([None, "a", "b", "c", "d"], repeat=columns))
    by = ["k", "q"][:columns]
    events = [{"id": str(at), "ts": at, **dict(zip(by, each, strict=True))} for at, each in enumerate(values)]
    node = {"name": "a", "make": ["gather"], "bolt": {"length": 1, "timestamp_field": "ts"}, "tasks": tasks}
    case = {"spouts": ["s1"], "bolts": [{**node, "inputs": [["s1", "fields", by]], "sinks": []}]}
    steps = [*({"event": event, "stream": "s1"} for event in events), {"close": True}]
    found = replay({"name": "tasks", "topology": "x.py:y", "steps": steps}, written.build(case)).windows
    return {values[int(window["events"][0])]: window["task"] for window in found}


# ---- comparing


def unlike_stop(mine: Stop | None, theirs: tuple[int, str] | None) -> Iterator[str]:
    """How it differs that a rule has stopped the run: in which batch, and why."""
    if mine is None or theirs is None:
        if mine or theirs:
            yield f"it stops {theirs}, expected {mine}"
    elif mine.batch != theirs[0] or not mine.tells(theirs[1]):
        yield f"it stops in batch {theirs[0]} by {theirs[1]}, expected {mine} in batch {mine.batch}"


def may_be_split(case: Json) -> bool:
    """Whether the answer does not depend on where batches end ("A watermark at events ...", decision 17)."""
    rules = resolved(rules_of(case, case["bolts"][0])[0])
    idle = rules.idle_timeout is not None or rules.partition_idle_timeout is not None
    if source_of(case) is not None:
        return False  # which partitions there are is said by the batches
    if rules.watermark_per_key and rules.arrival is not None and rules.arrival.late is not None:
        return False  # arrivals that go back
    return rules.panes is None and not idle and not rules.estimate_arrival and rules.reads_timestamps


def split(made: Json, case: Json) -> Iterator[str]:
    """The same, where batches end anywhere, which changes nothing."""
    calm = read_scenario({**made, "steps": [step for step in made["steps"] if "crash" not in step]})
    mine = play(case)
    try:
        theirs = run_cut(calm, Random(len(made["steps"]))).to_json()
    except DataError as error:
        if mine.stopped is None or not mine.stopped.tells(str(error)):
            yield f"it stops by {error}, expected {mine.stopped}"
        return
    if mine.stopped is not None:
        yield f"it does not stop, expected {mine.stopped}"
        return
    yield from compared(mine, theirs, "split")


def compared(mine: Topology, theirs: Json, variant: str = "as it is") -> Iterator[str]:
    """Windows, late events, accounts, what is pending, rows; of a bare bolt decisions and watermarks too."""
    windowed = [node for node in mine.nodes.values() if node.bolt is not None]
    for node in windowed:
        if node.make[0] not in rows.PASSING and node.make[0] != "temporal_join":  # those have them inside
            got = [window for window in theirs["windows"] if window.get("bolt", windowed[0].name) == node.name]
            yield from windows(node, node.bolt, got)  # type: ignore[arg-type]
    is_bare = windowed[:1] != [] and windowed[0].make == ["told"]
    late = [each for bolt in mine.bolts for each in bolt.accounts.get("late", [])]
    order: Callable[[Any], Any] = list if is_bare and variant != "rescaled" else sorted
    copied = any(grouping == "all" for node in mine.nodes.values() for _, grouping, _ in node.inputs)
    if order(set(late) if copied else late) != order(set(theirs["late"]) if copied else theirs["late"]):
        yield f"late: {theirs['late']}, expected {late}"  # copies of a late event are listed once
    yield from accounts(mine, theirs)
    yield from outputs(mine, theirs)
    if is_bare and not mine.bolts[0].times.per_key:
        if variant != "split" and list(map(milliseconds, mine.moved)) != theirs["watermarks"]:
            yield f"watermarks: {theirs['watermarks']}, expected {mine.moved}"
        if list(map(milliseconds, mine.clocks)) != theirs["clocks"]:
            yield f"clocks: {theirs['clocks']}, expected {mine.clocks}"
    if is_bare and theirs["events"]:
        yield from decisions(mine.bolts[0], theirs["events"])


def windows(node: Node, bolt: Bolt, theirs: list[Json]) -> Iterator[str]:
    """Those of each key and kind; of a bare bolt in the order in which they fire."""
    if node.make[0] == "aggregate" and any(None in (one["events"] or [None]) for one in theirs):
        return  # sums of events without ids
    names = ["key", "kind", "end", "start", "pane", "events"]
    if node.tasks > 1 and not bolt.rules.key:
        names.insert(1, "task")
    unknown: set[str] = set() if node.make[0] in ("gone", "told") else {"expired"}
    if node.make[0] in ("own", "triggered", "aggregate"):
        unknown |= {"new", "by"}
    if node.make == ["told"] and bolt.rules.panes is None:
        names = ["key", "kind"]

    def prepared(found: Iterable[Json]) -> list[Json]:
        left = [{name: value for name, value in one.items() if name not in unknown} for one in found]
        for one in left:
            one["events"] = sorted(one["events"]) if node.make[0] == "aggregate" else one["events"]  # group by group
        return sorted(left, key=lambda one: str([one.get(name) for name in names]))

    wanted, got = prepared(each.shown for each in bolt.emitted), prepared(theirs)
    for one, other in zip(wanted, got, strict=False):
        not_told = {name for name in ("new", "expired") if other.get(name) is None}
        if any(value != other.get(name) for name, value in one.items() if name not in not_told):
            yield f"window of {node.name}: {brief(other)}, expected {brief(one)}"
            return
    if len(wanted) != len(got):
        more = wanted[len(got) :] or got[len(wanted) :]
        yield f"window of {node.name} {'missing' if len(wanted) > len(got) else 'too many'}: {brief(more[0])}"


def brief(window: Json) -> str:
    return ", ".join(f"{name} {value}" for name, value in window.items() if name != "bolt" and value is not None)


def accounts(mine: Topology, theirs: Json) -> Iterator[str]:
    """What is pending, and the accounts; an event in a gap is told at once, or when time has passed it."""
    wanted = Counter[str]()
    for bolt in mine.bolts:
        wanted.update(bolt.counts())
    for node in mine.nodes.values():
        if node.keeping is not None:
            wanted.update(received=node.keeping.received, windowed=node.keeping.received)
    waits = Counter[str](name for bolt in mine.bolts for name in ids(bolt.fates()["pending"]))
    told, counts = Counter[str](theirs["pending"]), Counter[str](theirs["counts"])
    gaps = Counter[str](name for bolt in mine.bolts for name in ids(bolt.in_gaps()))
    if {node.make[0] for node in mine.nodes.values()} & {"silence", "temporal_join"}:  # what they need is their own
        told = waits
        counts.update({name: wanted[name] - counts[name] for name in ("windowed", "unwindowed", "pending")})
    in_gaps = (told - waits) & gaps
    if waits != told - in_gaps:
        yield f"pending: {theirs['pending']}, expected {sorted(waits.elements())}"
    counts.update(unwindowed=in_gaps.total(), pending=-in_gaps.total())
    wrong = [f"{name} {(counts[name], number)}" for name, number in wanted.items() if number != counts[name]]
    if wrong:
        yield "counts (found, expected): " + ", ".join(wrong)


def decisions(bolt: Bolt, theirs: list[Json]) -> Iterator[str]:
    """What became of each event; one in a gap may be told so at once, or be accepted first."""
    without = {"mark"} if bolt.rules.late_action is LateAction.ADJUST else set[str]()
    if bolt.times.per_key or bolt.times.at_ticks:
        without = {"watermark", "mark"}
    if len(bolt.events) != len(theirs):
        yield f"events: {len(theirs)}, expected {len(bolt.events)}"
        return
    for one, other in zip(bolt.events, theirs, strict=True):
        wanted, got = dict(one), {name: other[name] for name in one}
        actions = {one["action"], other["action"]}
        if "unwindowed" in actions and all(each.startswith(("unwindowed", "accepted", "adjusted")) for each in actions):
            wanted["action"] = got["action"]
        if one["action"].startswith("adjusted") and other["action"] == "accepted":
            wanted["action"] = got["action"]
        for name, value in wanted.items():
            is_untold = name in ("watermark", "mark") and one["action"] == "invalid" and got[name] is None
            if name not in without and not is_untold and str(value) != str(got[name]):
                yield f"{one['id']}: {name} {got[name]}, expected {value}"
                return


def outputs(mine: Topology, theirs: Json) -> Iterator[str]:
    """The rows that come to each sink."""
    for stream in (stream for node in mine.case["bolts"] for stream in node["sinks"]):
        expected, found = mine.sunk.get(stream, []), theirs["outputs"][written.sink_of(stream)]
        names = {name for row in expected for name in row}
        if stream.endswith((".late", ".refused")):
            names &= {"id"}
        wanted, got = (
            Counter(text({name: row[name] for name in names & set(row)}) for row in each) for each in (expected, found)
        )
        more, less = sorted((got - wanted).elements()), sorted((wanted - got).elements())
        if len(more) != len(less) or not all(map(alike, more, less)):
            yield f"rows of {stream}: {more[:3]}, expected {less[:3]}"


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
        return math.isclose(float(one), float(other), rel_tol=1.1e-8, abs_tol=1e-12)  # a difference of 0, by parts
    except ValueError:
        return False


def beside(mine: Topology, drove: Drive) -> Iterator[str]:
    """What a bare bolt has emitted and not taken back; and what the checkpoint said of each bolt after each batch."""
    for node in mine.nodes.values():
        if node.make == ["told"]:
            yield from unlike_rows(node.bolt, drove)  # type: ignore[arg-type]
        if len(drove.said) != mine.batch:
            yield f"batches: {len(drove.said)}, expected {mine.batch}"
            return
        for number, said in enumerate(each.get(node.name) for each in drove.said):
            wrong: Iterable[str] = ()
            if node.bolt is not None and said is not None:
                wrong = node.states[number].unlike(said, tasks_are_known=node.tasks_are_known)
            elif node.keeping is not None and said is not None:
                wanted, got = (sorted(each or (), key=str) for each in (node.keeping.told[number], said.states))
                wrong = [] if wanted == got else [f"state {got}, expected {wanted}"]
            yield from (f"{node.name} after batch {number}: {each}" for each in wrong)


def unlike_rows(bolt: Bolt, drove: Drive) -> Iterator[str]:
    left = standing(drove.rows)
    wanted = [rows.told(bolt, each) for each in (bolt.standing if drove.retracts else bolt.emitted)]
    if None in bolt.kinds:  # their edges are in the windows already
        kept = ("key", "events", "number")
        left, wanted = ([{name: row[name] for name in kept} for row in each] for each in (left, wanted))
    if sorted(left, key=str) != sorted(wanted, key=str):
        extra = [row for row in left if row not in wanted]
        missing = [row for row in wanted if row not in left]
        yield f"rows that stand in the end: {extra} too many, {missing} missing"


# ---- making small


def smaller(made: Json, variant: str, found: list[str]) -> tuple[Json, list[str]]:
    """Without every part that the difference does not need, as far as some seconds of CPU go."""

    def error(found: list[str]) -> str:
        """The name of an error; a difference does not become one."""
        name = found[0].split(":")[0]
        return name if name.endswith("Error") else ""

    until, is_smaller = process_time() + (8 if "bolts" in made else 60), True
    while is_smaller:
        is_smaller = False
        for candidate in without_one(made):
            if process_time() > until:
                return made, found
            try:
                now = [] if refusal(candidate) is not None else differs(candidate, variant)
            except Exception:
                continue
            if now and error(now) == error(found):
                made, found, is_smaller = candidate, now, True
                break
    return made, found


def without_one(of: Any) -> Iterator[Any]:
    """The same without some of its parts, or with a part that is without one of its own."""
    if isinstance(of, list):
        for size in (8, 4, 2, 1):
            yield from (of[:place] + of[place + size :] for place in range(len(of) - size, -1, -1))
        for place, part in enumerate(of):
            yield from ([*of[:place], less, *of[place + 1 :]] for less in without_one(part))
    elif isinstance(of, dict):
        yield from ({name: part for name, part in of.items() if name != each} for each in of)
        for name, part in reversed(of.items()):  # steps come last
            yield from ({**of, name: less} for less in without_one(part))
