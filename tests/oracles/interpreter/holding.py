"""The product's answers held against the interpreter's, and what differs made small."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random

import yaml

from tests.helpers.recut import run_cut
from tests.oracles.interpreter import cases
from tests.oracles.interpreter.kinds import Unsaid
from tests.oracles.interpreter.replayed import answer, rules_of
from tests.oracles.interpreter.values import Json
from topologies import replay
from topologies.scenarios.schema.scenario_files import read_scenario
from windowing.errors import ConfigError, ScenarioError, TopologyError

VARIANTS = ("as it is", "cut", "split")


@dataclass(frozen=True)
class Difference:
    """A drawn case whose two answers differ, as small as it could be made."""

    number: int
    variant: str
    scenario: Json
    found: list[str]

    def shown(self) -> str:
        """As a scenario file, with both answers as comments."""
        lines = [f"# case {self.number}, {self.variant}", *(f"# {line}" for line in self.found)]
        return "\n".join([*lines, yaml.safe_dump(json.loads(json.dumps(self.scenario)), sort_keys=False)])


@dataclass
class Held:
    """What became of drawn cases."""

    held: Counter[tuple[str, ...]] = field(default_factory=Counter)
    refused: dict[tuple[str, ...], Counter[str]] = field(default_factory=dict)
    unsaid: int = 0
    differences: list[Difference] = field(default_factory=list)

    def add(self, other: Held) -> None:
        self.held += other.held
        for names, reasons in other.refused.items():
            self.refused.setdefault(names, Counter()).update(reasons)
        self.unsaid += other.unsaid
        self.differences += other.differences


def hold(numbers: Iterable[int], seed: int, *, stop_at: int = 10**9, small: bool = True) -> Held:
    """Draw these cases, and hold each against the product; those that differ are made small."""
    found, order = Held(), cases.pairs()
    for number in numbers:
        random = Random(seed * 1_000_003 + number)
        names = order[number % len(order)] if number % 3 else random.choice(cases.triples())
        made, reasons = drawn(random, names)
        if made is None:
            found.refused.setdefault(names, Counter()).update(reasons)
            continue
        variant = VARIANTS[number % len(VARIANTS)]
        if variant == "cut":
            made = cases.recut(random, made)
        try:
            wrong = differs(made, variant)
        except Unsaid:
            found.unsaid += 1
            continue
        found.held[names] += 1
        if wrong:
            if small:
                made, wrong = smaller(made, variant)
            found.differences.append(Difference(number, variant, made, wrong))
            if len(found.differences) >= stop_at:
                break
    return found


def drawn(random: Random, names: tuple[str, ...]) -> tuple[Json | None, list[str]]:
    """A scenario of a bolt that ``build()`` accepts; else why it refuses the last one, with these settings alone."""
    reasons: list[str] = []
    for bolt in cases.bolts(random, names):
        made = cases.scenario(random, bolt)
        reason = refusal(made)
        if reason is None:
            return made, []
        reasons = [reason]
    return None, reasons


def refusal(made: Json) -> str | None:
    """Why the product refuses a bolt, in its first line; None if it does not."""
    try:
        replay({**made, "steps": []})
        read_scenario(made)
    except (ConfigError, ScenarioError, TopologyError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return lines[min(1, len(lines) - 1)] if "problem" in lines[0] else lines[0]
    return None


# ---- comparing


def differs(made: Json, variant: str) -> list[str]:
    """How the product's answer differs from the interpreter's."""
    mine = answer(made)
    try:
        if variant == "split" and may_be_split(made):
            calm = {**made, "steps": [step for step in made["steps"] if "crash" not in step]}
            theirs = run_cut(read_scenario(calm), Random(len(calm["steps"]))).to_json()
        else:
            theirs = replay(made).to_json()
    except Exception as error:
        return [f"{type(error).__name__}: {str(error).splitlines()[0]}"]
    return list(compared(made, mine, theirs, whole=variant != "split"))


def may_be_split(made: Json) -> bool:
    """Whether the answer does not depend on where batches end ("A watermark at events ...", decision 17)."""
    rules = rules_of(made)
    idle = rules.idle_timeout is not None or rules.partition_idle_timeout is not None
    return rules.panes is None and not idle and not rules.estimate_arrival and rules.reads_timestamps


def compared(made: Json, mine: Json, theirs: Json, *, whole: bool = True) -> Iterator[str]:
    """Windows, late events, accounts, what is pending, decisions, watermarks."""
    gaps = set(mine["gaps"])
    yield from windows(made, mine["windows"], theirs["windows"])
    if mine["late"] != theirs["late"]:
        yield f"late: {theirs['late']}, expected {mine['late']}"
    late_gaps = gaps & set(theirs["pending"])  # in a gap: told at once, or when time has passed it
    if sorted(mine["pending"]) != sorted(set(theirs["pending"]) - gaps):
        yield f"pending: {theirs['pending']}, expected {mine['pending']}"
    counts = {**theirs["counts"]}
    counts["unwindowed"] = counts.get("unwindowed", 0) + len(late_gaps)
    counts["pending"] = counts.get("pending", 0) - len(late_gaps)
    wrong = {
        name: (counts.get(name, 0), wanted) for name, wanted in mine["counts"].items() if wanted != counts.get(name, 0)
    }
    if wrong:
        yield "counts (found, expected): " + ", ".join(f"{name} {pair}" for name, pair in wrong.items())
    per_key = "substreams" in made["bolt"]
    if theirs["events"]:
        yield from decisions(made, mine["events"], theirs["events"], per_key)
    if whole and not per_key and mine["watermarks"] != theirs["watermarks"]:
        yield f"watermarks: {theirs['watermarks']}, expected {mine['watermarks']}"
    if not per_key and mine["clocks"] != theirs["clocks"]:
        yield f"clocks: {theirs['clocks']}, expected {mine['clocks']}"


def windows(made: Json, mine: list[Json], theirs: list[Json]) -> Iterator[str]:
    """Those of each key and kind in their order."""
    rules = rules_of(made)
    cut = "max_duration" in str(made["bolt"])
    grouped: dict[str, tuple[list[Json], list[Json]]] = {}
    for place, found in enumerate((mine, theirs)):
        for window in found:
            grouped.setdefault(f"{window.get('key')} {window.get('kind')}", ([], []))[place].append(window)
    for name, both in grouped.items():
        wanted, got = both if rules.panes is None else (sorted(each, key=str_of) for each in both)
        for one, other in zip(wanted, got, strict=False):
            for key in one:
                if key == "pane" and cut and "pane" in other:
                    continue
                if key in ("new", "expired") and (other.get(key) is None or (cut and rules.panes is not None)):
                    continue
                if one[key] != other.get(key):
                    yield f"window of {name}: {brief(other)}, expected {brief(one)}"
                    break
            else:
                continue
            return
        if len(wanted) != len(got):
            more = wanted[len(got) :] or got[len(wanted) :]
            what = "missing" if len(wanted) > len(got) else "too many"
            yield f"window of {name} {what}: {brief(more[0])}"
            return


def str_of(window: Json) -> str:
    return f"{window['end']} {window.get('pane', {}).get('index')} {window['start']}"


def brief(window: Json) -> str:
    shown = (
        f"{window['start']}..{window['end']} {window['events']} new {window.get('new')} expired {window.get('expired')}"
    )
    return shown + (f" {window['pane']}" if "pane" in window else "")


def decisions(made: Json, mine: list[Json], theirs: list[Json], per_key: bool) -> Iterator[str]:
    same = {"unwindowed": "accepted"}
    rules = rules_of(made)
    moved = rules.late_action.value == "adjust"
    at_ticks = rules.watermark_every is None
    if len(mine) != len(theirs):
        yield f"events: {len(theirs)}, expected {len(mine)}"
        return
    for one, other in zip(mine, theirs, strict=True):
        adjusted = one["action"].startswith("adjusted") and other["action"] in ("unwindowed", "accepted")
        for name in ("id", "action", "time", "watermark", "mark"):
            wanted, got = str(one[name]), str(other[name])
            if name == "action":
                wanted, got = same.get(wanted, wanted), same.get(got, got)
                if adjusted or (one["action"] == "unwindowed" and got.startswith("adjusted")):
                    continue
            if (name in ("watermark", "mark") and (per_key or at_ticks)) or (name == "mark" and moved):
                continue
            if name in ("watermark", "mark") and one["action"] == "invalid" and got == "None":
                continue
            if wanted != got:
                yield f"{one['id']}: {name} {got}, expected {wanted}"
                return


# ---- making small


def smaller(made: Json, variant: str) -> tuple[Json, list[str]]:
    """Without every step, setting and column that the difference does not need."""
    found = differs(made, variant)
    kind = kind_of(found)
    shrunk = True
    while shrunk:
        shrunk = False
        for candidate in without_one(made):
            if refusal(candidate) is not None:
                continue
            try:
                now = differs(candidate, variant)
            except Exception:
                continue
            if now and kind_of(now) == kind:
                made, found, shrunk = candidate, now, True
                break
    return made, found


def kind_of(found: list[str]) -> bool:
    """Whether it is an error; a difference does not become one."""
    return bool(found) and "Error" in found[0].split(":")[0]


def without_one(made: Json) -> Iterator[Json]:
    steps, bolt = made["steps"], made["bolt"]
    for size in (8, 4, 2, 1):
        for place in range(len(steps) - size, -1, -1):
            yield {**made, "steps": steps[:place] + steps[place + size :]}
    for name in bolt:
        yield {**made, "bolt": {key: value for key, value in bolt.items() if key != name}}
    if "partitions" in made:
        yield {key: value for key, value in made.items() if key != "partitions"}
    for place, step in enumerate(steps):
        for name in ("clock", "arrival", "stream"):
            if name in step and "event" in step:
                yield {
                    **made,
                    "steps": [*steps[:place], {k: v for k, v in step.items() if k != name}, *steps[place + 1 :]],
                }
    if len(made["streams"]) > 1 and all(step.get("stream") in (None, "s1") for step in steps):
        yield {**made, "streams": ["s1"]}
